/* Values that are more than they look: integers of any length, record values beyond the fields, texts of one line. */

#include <shardwright.h>
#include <string.h>

#include "checks.h"

static const sw_dim dims[] = {
    {.name = "t", .kind = SW_DIM_TIME, .chunk = 1, .shard = 4},
    {.name = "y", .kind = SW_DIM_SPACE, .size = 64},
    {.name = "x", .kind = SW_DIM_SPACE, .size = 64},
};

static const sw_record_field fields[] = {{.name = "laser", .dtype = SW_U16}};

static void commit(sw_acquisition *acquisition, uint32_t values) {
    const sw_value none[3] = {{0}};
    const sw_record record = {.size = sizeof record, .value_count = values, .values = none};
    sw_frame frame;
    RIGHT(sw_acquire(acquisition, 10000, &frame));
    memset(frame.data, 1, frame.bytes);
    RIGHT(sw_commit(acquisition, &frame, SW_NEXT, &record));
}

/* Records that are refused with these words, one after the other, cost no frame. */
static void refused(sw_acquisition *acquisition, const sw_value *values, uint32_t count, const char *words) {
    sw_record record = {.size = sizeof record, .value_count = count, .values = values};
    sw_frame frame;
    RIGHT(sw_acquire(acquisition, 10000, &frame));
    memset(frame.data, 1, frame.bytes);
    HOLDS(sw_commit(acquisition, &frame, SW_NEXT, &record) == SW_ERROR_RECORD && strstr(sw_last_error(), words));
    HOLDS(sw_commit_buffer(acquisition, frame.index, SW_NEXT, &record) == SW_ERROR_RECORD);
    record.value_count = 0;
    RIGHT(sw_commit(acquisition, &frame, SW_NEXT, &record));
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    sw_config config;
    RIGHT(sw_config_init(&config, sizeof config));
    config.document = "dtype = 'u8'\nworkers = \"three\"\n";
    sw_acquisition *acquisition;
    HOLDS(sw_create(arguments[1], &config, &acquisition) == SW_ERROR_CONFIG);
    HOLDS(!strchr(sw_last_error(), '\n') && strstr(sw_last_error(), " at line 2 column 11"));

    RIGHT(sw_config_init(&config, sizeof config));
    config.dtype = SW_U8, config.dims = dims, config.dim_count = 3, config.ring_bytes = 1 << 18;
    config.record_fields = fields, config.record_field_count = 1;
    RIGHT(sw_create(arguments[1], &config, &acquisition));
    RIGHT(sw_set_attribute(acquisition, "serial", "{\"of\": [1180591620717411303425, -36893488147419103232, 0.1]}"));
    HOLDS(sw_set_attribute(acquisition, "gain", "[NaN]") == SW_ERROR_ARGUMENT && strstr(sw_last_error(), "no NaN"));
    commit(acquisition, 1);
    const sw_value none[2] = {{0}};
    refused(acquisition, none, 2, "1 record fields");
    const sw_value unfit[] = {{.kind = SW_VALUE_INT, .number = {.i = -1}},
                              {.kind = SW_VALUE_UINT, .number = {.u = 65536}},
                              {.kind = SW_VALUE_FLOAT, .number = {.f = 0.5}}};
    for (size_t at = 0; at < 3; at++)
        refused(acquisition, unfit + at, 1, " does not fit uint16, which holds whole numbers from 0 to 65535");
    commit(acquisition, 0);
    sw_summary summary = {.size = sizeof summary};
    RIGHT(sw_finish(acquisition, SW_FOREVER, &summary));
    HOLDS(summary.frames_written == 6 && summary.frames_missing == 0);
    RIGHT(sw_free(acquisition));
    return 0;
}
