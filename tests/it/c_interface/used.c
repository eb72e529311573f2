/* A storage that says whether there is something in it, one that does not, and an array that has all its frames. */

#include "checks.h"

#include <stddef.h>
#include <string.h>

static int puts_done, asked;

static int32_t create(void *context, const char *key, uint64_t bytes, void **blob) {
    (void)context, (void)key, (void)bytes;
    *blob = blob;
    return 0;
}
static int32_t put(void *context, const char *key, const void *data, size_t bytes) {
    (void)context, (void)key, (void)data, (void)bytes;
    puts_done++;
    return 0;
}
static int32_t write_at(void *context, void *blob, uint64_t offset, const void *data, size_t bytes) {
    (void)context, (void)blob, (void)offset, (void)data, (void)bytes;
    return 0;
}
static int32_t cut(void *context, void *blob, uint64_t bytes) {
    (void)context, (void)blob, (void)bytes;
    return 0;
}
static int32_t is_used(void *context) {
    asked++;
    return *(int *)context;
}

static const sw_dim dims[] = {
    {.name = "t", .kind = SW_DIM_TIME, .size = 4, .chunk = 4, .shard = 4},
    {.name = "y", .kind = SW_DIM_SPACE, .size = 16},
    {.name = "x", .kind = SW_DIM_SPACE, .size = 16},
};

static sw_config good(void) {
    sw_config config;
    RIGHT(sw_config_init(&config, sizeof config));
    config.dtype = SW_U8;
    config.dims = dims;
    config.dim_count = 3;
    config.workers = 1;
    config.ring_bytes = 4 * 4096;
    return config;
}

static void end(sw_acquisition *acquisition) {
    RIGHT(sw_abort(acquisition, SW_FOREVER));
    RIGHT(sw_free(acquisition));
}

/* Nothing is written into it, whatever `overwrite` says; and a program that knows no such function is not asked. */
static void a_used_storage_is_not_written_over(void) {
    int used = 1;
    sw_storage storage = {.size = sizeof storage,
                          .context = &used,
                          .create = create,
                          .put = put,
                          .write_at = write_at,
                          .finish = cut,
                          .is_used = is_used};
    sw_config config = good();
    sw_acquisition *acquisition = NULL;
    sw_dataset *dataset = NULL;
    for (config.overwrite = 0; config.overwrite < 2; config.overwrite++) {
        HOLDS(sw_create_in(&storage, &config, &acquisition) == SW_ERROR_EXISTS);
        HOLDS(strstr(sw_last_error(), "already holds something") && !strstr(sw_last_error(), "overwriting"));
    }
    HOLDS(sw_dataset_create_in(&storage, &dataset) == SW_ERROR_EXISTS);
    HOLDS(asked == 3 && puts_done == 0 && !acquisition && !dataset);
    config.overwrite = 0;
    used = 0;
    RIGHT(sw_create_in(&storage, &config, &acquisition));
    end(acquisition);
    HOLDS(asked == 4);
    used = 1;
    storage.size = offsetof(sw_storage, is_used);
    RIGHT(sw_create_in(&storage, &config, &acquisition));
    end(acquisition);
    storage.size = sizeof storage, storage.is_used = NULL;
    RIGHT(sw_create_in(&storage, &config, &acquisition));
    end(acquisition);
    HOLDS(asked == 4);
}

/* No buffer is free, and none would help: that is told at once, for as long as the call may wait. */
static void a_full_array_is_no_full_ring(const char *path) {
    static const unsigned char pixels[256] = {1};
    sw_config config = good();
    sw_acquisition *acquisition;
    RIGHT(sw_create(path, &config, &acquisition));
    sw_frame frames[4], more;
    for (int at = 0; at < 4; at++) RIGHT(sw_acquire(acquisition, SW_FOREVER, &frames[at]));
    for (int at = 1; at < 4; at++) RIGHT(sw_commit(acquisition, &frames[at], at, NULL));
    uint64_t next = 0;
    RIGHT(sw_next_number(acquisition, &next));
    HOLDS(next == 4);
    /* Number 0 has not come. */
    HOLDS(sw_acquire(acquisition, 0, &more) == SW_RING_FULL);
    HOLDS(sw_append(acquisition, pixels, sizeof pixels, 0, NULL, 0, NULL) == SW_ERROR_FRAME_NUMBER);
    HOLDS(strstr(sw_last_error(), "past the end"));
    RIGHT(sw_commit(acquisition, &frames[0], 0, NULL));
    sw_stats stats = {.size = sizeof stats};
    while (stats.ring_free < 4) RIGHT(sw_get_stats(acquisition, &stats));
    for (int at = 0; at < 4; at++) RIGHT(sw_acquire(acquisition, SW_FOREVER, &frames[at]));
    HOLDS(sw_acquire(acquisition, 0, &more) == SW_RING_FULL);
    HOLDS(sw_append(acquisition, pixels, sizeof pixels, 0, NULL, SW_FOREVER, NULL) == SW_ERROR_FRAME_NUMBER);
    RIGHT(sw_close(acquisition));
    HOLDS(sw_acquire(acquisition, SW_FOREVER, &more) == SW_ERROR_ENDED);
    RIGHT(sw_finish(acquisition, SW_FOREVER, NULL));
    RIGHT(sw_close(acquisition));
    RIGHT(sw_next_number(acquisition, &next));
    RIGHT(sw_free(acquisition));
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    a_used_storage_is_not_written_over();
    a_full_array_is_no_full_ring(argv[1]);
    return 0;
}
