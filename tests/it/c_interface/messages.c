/* What wrong calls are told: the names are those of the header, and the argument that is wrong is the one that is
   named. Arrays whose length is wrong are not read beyond what is possible. */

#include "misuse.h"

#include <sys/mman.h>
#include <unistd.h>

#define SAYS(expected, call, text)                                                                                    \
    do {                                                                                                              \
        WRONG(expected, call);                                                                                        \
        if (!strstr(sw_last_error(), text)) {                                                                         \
            failures++;                                                                                               \
            fprintf(stderr, "line %d: %s: %s\n    instead of: %s\n", __LINE__, #call, sw_last_error(), text);         \
        }                                                                                                             \
    } while (0)

static sw_memory memory = {.size = sizeof memory};
static sw_config config;
static sw_dim some[3];
static sw_volume volume;
static const uint64_t fill = UINT64_MAX;

#define CONFIG(change, text)                                                                                          \
    do {                                                                                                              \
        config = good();                                                                                              \
        memcpy(some, dims, sizeof some);                                                                              \
        config.dims = some;                                                                                           \
        volume = (sw_volume){.preshift_bits = -1, .minishard_bits = -1, .shard_bits = -1};                            \
        change;                                                                                                       \
        SAYS(SW_ERROR_CONFIG, sw_memory_needed(&config, &memory), text);                                              \
    } while (0)

static void fields_have_the_names_of_the_header(void) {
    CONFIG(config.dim_count = 1, "sw_config.dims = [t]: 2 to 16 dimensions");
    CONFIG(some[1].name = "", "sw_dim.name = ");
    CONFIG(some[1].name = "a\nb", "sw_dim.name = \"a\\nb\": the name of a dimension has no control characters");
    CONFIG(some[1].name = "a\001b\xe2\x80\x8b", "sw_dim.name = \"a\\u0001b\\u200b\": the name");
    CONFIG(some[1].size = 0, "sw_dim.size = 0, which is unbounded: only the first dimension");
    CONFIG((some[1].chunk = 5, some[1].shard = 7), "sw_dim.shard = 7");
    CONFIG(some[1].scale = -1, "sw_dim.scale = -1");
    CONFIG(some[1].translation = -1.0 / 0.0, "sw_dim.translation = ");
    CONFIG(config.fill_value = -1, "sw_config.fill_value = -1");
    CONFIG(config.level = 10, "sw_config.level = 10");
    CONFIG(config.block_bytes = 1, "sw_config.block_bytes = 1");
    CONFIG(config.ring_bytes = 1, "sw_config.ring_bytes = 1: a ring of 3 frames is needed, 12288 bytes: allow");
    CONFIG((config.ring_bytes = 1, some[0].chunk = 4, some[0].shard = 4),
           "chunks are 4 frames deep, and 4 frames wait in the ring until they are complete; a ring of 6 frames");
    CONFIG(config.leap_max = UINT64_MAX, "sw_config.leap_max = ");
    CONFIG(config.workers = 100000, "sw_config.workers = 100000");
    CONFIG(config.row_stride = 16, "sw_config.buffer_bytes = 0");
    CONFIG(config.frame_offset = 64, "sw_config.frame_offset = 64: must be 0 where buffer_bytes is not set");
    CONFIG(config.ring_bytes = SIZE_MAX, "sw_config.ring_bytes = 18446744073709551615: more than the memory of this");
    CONFIG((config.row_stride = 15, config.buffer_bytes = 4096), "sw_config.row_stride = 15");
    CONFIG(config.buffer_bytes = 4096, "sw_config.row_stride = 0: where the bytes of a buffer are set, so is");
    CONFIG(config.pyramid_levels = 2, "sw_config.pyramid = 0: pyramid_levels, pyramid_keep or pyramid_depth is set");
    CONFIG(config.pyramid_keep = SW_KEEP_Y, "sw_config.pyramid = 0");
    CONFIG(config.pyramid_depth = SW_DEPTH_AUTO, "sw_config.pyramid = 0");
    CONFIG((config.pyramid = SW_PYRAMID_MEAN, config.pyramid_levels = 99), "sw_config.pyramid_levels = 99: at most");
    CONFIG((config.pyramid = SW_PYRAMID_MEAN, config.pyramid_keep = SW_KEEP_Y + SW_KEEP_X),
           "sw_config.pyramid_keep = 3: neither y nor x is halved");
    CONFIG((config.dtype = SW_I64, config.fill_value = 9223372036854775808.0),
           "sw_config.fill_value = 9223372036854775808: int64 holds whole numbers from -9223372036854775808 to "
           "9223372036854775807");
    CONFIG((config.fill_value = 3, config.fill_pixel = &fill), "sw_config.fill_value = 3: fill_pixel says another");
    CONFIG(config.unused_low_bits = 16, "sw_config.unused_low_bits = 16");
    CONFIG(config.pixel_format = SW_PIXELS_MONO12P, "sw_config.pixel_format = ");
    CONFIG((config.dialect = SW_DIALECT_PRECOMPUTED, config.checksum = 0), "sw_config.compressor = ");
    CONFIG((config.dialect = SW_DIALECT_PRECOMPUTED, config.compressor = SW_COMPRESSOR_NONE),
           "sw_config.checksum = 1: ");
    CONFIG((volume.hash = 1, config.volume = &volume), "sw_config.volume = ");
    CONFIG((config.dialect = SW_DIALECT_PRECOMPUTED, config.compressor = SW_COMPRESSOR_NONE, config.checksum = 0,
            volume.resolution[0] = -1, config.volume = &volume),
           "sw_volume.resolution = ");
    CONFIG((config.dialect = SW_DIALECT_ZARR2_SHARDED, config.checksum = 0, config.pyramid = SW_PYRAMID_MEAN),
           "sw_config.pyramid = ");
    const sw_record_field field = {.name = "a field", .dtype = SW_U8};
    CONFIG((config.record_fields = &field, config.record_field_count = 1), "sw_record_field.name = ");
    const sw_channel channel = {.label = "DAPI", .color = "blue"};
    CONFIG((config.channels = &channel, config.channel_count = 1),
           "sw_channel.color = blue: the colour of \"DAPI\" must be six hexadecimal digits and nothing else");
    const char *const order[] = {"z"};
    CONFIG((config.acquisition_order = order, config.acquisition_order_count = 1), "sw_config.acquisition_order = ");
    sw_acquisition *acquisition;
    config = good(), config.plate_acquisition = 3;
    SAYS(SW_ERROR_CONFIG, sw_create(path("a"), &config, &acquisition),
         "sw_config.plate_acquisition = 3, which is an id plus 1:");
    config = good(), config.label = "{\"colors\": [{\"value\": 1, \"rgba\": [1, 2, 3, 4]}]}";
    SAYS(SW_ERROR_CONFIG, sw_create(path("a"), &config, &acquisition), "sw_config.label = 1 colors and 0 properties");
    config = good(), config.key = "a//b";
    SAYS(SW_ERROR_CONFIG, sw_create(path("a"), &config, &acquisition), "sw_config.key = ");
}

/* A list that has something in it, and is said to be empty, is not passed over in silence. */
static void lists_without_a_length(void) {
    const sw_record_field field = {.name = "gain", .dtype = SW_U8};
    const sw_channel channel = {.label = "DAPI"};
    const char *const order[] = {"t"};
    config = good(), config.record_fields = &field;
    SAYS(SW_ERROR_ARGUMENT, sw_memory_needed(&config, &memory),
         "sw_config.record_field_count = 0, and sw_config.record_fields is not null");
    config = good(), config.channels = &channel;
    SAYS(SW_ERROR_ARGUMENT, sw_memory_needed(&config, &memory),
         "sw_config.channel_count = 0, and sw_config.channels is not null");
    config = good(), config.acquisition_order = order;
    SAYS(SW_ERROR_ARGUMENT, sw_memory_needed(&config, &memory),
         "sw_config.acquisition_order_count = 0, and sw_config.acquisition_order is not null");
}

/* A document has names of its own, and is the whole configuration. */
static void fields_of_documents_have_the_names_of_documents(void) {
    config = good(), config.dims = NULL, config.dim_count = 0;
    RIGHT(sw_config_init(&config, sizeof config));
    config.document = "{\"dims\": [{\"name\": \"y\", \"size\": 4}, {\"name\": \"x\", \"size\": 4, \"scale\": -1}]}";
    SAYS(SW_ERROR_CONFIG, sw_memory_needed(&config, &memory), "sw_config.document: dims.scale = -1");
    config.dtype = SW_F32;
    SAYS(SW_ERROR_CONFIG, sw_memory_needed(&config, &memory), "sw_config.dtype");
    config.dtype = SW_U16, config.row_stride = 5;
    SAYS(SW_ERROR_CONFIG, sw_memory_needed(&config, &memory), "sw_config.buffer_bytes, frame_offset or row_stride");
    config.row_stride = 0, config.level = 5;
    SAYS(SW_ERROR_CONFIG, sw_memory_needed(&config, &memory), "sw_config.compressor or a setting of it");
}

/* What is wrong in a document is said in words of the header and of JSON, not in those of a programming language. */
static void documents_are_refused_in_plain_words(void) {
    static const char *const documents[][2] = {
        {"{\"workers\": \"many\"}", "invalid type: string \"many\", expected a whole number from 0 on at line 1"},
        {"{\"workers\": -1}", "expected a whole number from 0 on"},
        {"{\"ring_bytes\": 1.5}", "expected a whole number from 0 on"},
        {"{\"fill_value\": \"x\"}", "fill_value \"x\": a number, NaN, Infinity"},
        {"{\"dims\": 5}", "expected a list"},
        {"{\"dims\": [5]}", "expected an object"},
        {"{\"codec\": {\"compressor\": {\"name\": \"brotli\"}}}", "unknown value `brotli`, expected one of `auto`"},
        {"{\"codec\": {\"compressor\": {\"name\": \"gzip\", \"level\": 300}}}", "a whole number from 0 to 255"},
        {"{\"sync\": 1}", "expected true or false"},
        {"{\"workers\":", "the text ends where a value is due"},
        {"{\"workers\": 1", "the text ends within an object"},
        {"{\"affinity\": [1", "the text ends within a list"},
        {"{\"name\": \"x", "the text ends within a string"},
        {"{\"workers\": yes}", "expected a value"},
        {"{\"worker\": 1}", "unknown field `worker`, expected one of"},
        {"workers = 'many'", "expected a whole number from 0 on at line 1 column 11"},
        {"dims = 5", "expected a list"},
    };
    for (size_t at = 0; at < sizeof documents / sizeof *documents; at++) {
        RIGHT(sw_config_init(&config, sizeof config));
        config.document = documents[at][0];
        SAYS(SW_ERROR_CONFIG, sw_memory_needed(&config, &memory), documents[at][1]);
    }
    config = good(), config.label = "{\"colors\": [{\"value\": 1, \"rgba\": 7}]}";
    SAYS(SW_ERROR_CONFIG, sw_memory_needed(&config, &memory), "sw_config.label, read as JSON: ");
    sw_dataset *dataset;
    RIGHT(sw_dataset_create(path("plate"), 0, &dataset));
    SAYS(SW_ERROR_CONFIG, sw_dataset_plate(dataset, "{\"rows\": \"A\"}"), "expected a list");
    SAYS(SW_ERROR_CONFIG, sw_dataset_plate(dataset, "{\"rows\": ["), "the text ends within a list");
    RIGHT(sw_dataset_free(dataset));
}

/* As sw_create refuses it. */
static void what_an_array_alone_has_no_place_for_is_told_in_time(void) {
    config = good(), config.bare = 1, config.name = "a";
    SAYS(SW_ERROR_CONFIG, sw_memory_needed(&config, &memory), "an array alone has no place for name");
    config = good(), config.bare = 1, config.record_roi = 1;
    SAYS(SW_ERROR_CONFIG, sw_memory_needed(&config, &memory), "an array alone has no place for record_roi");
}

static void texts_are_told_in_plain_words(void) {
    config = good(), config.name = "ab\xff";
    SAYS(SW_ERROR_ARGUMENT, sw_memory_needed(&config, &memory), "sw_config.name is not UTF-8 from byte 2 on");
    config = good();
    const char *const order[] = {NULL};
    config.acquisition_order = order, config.acquisition_order_count = 1;
    SAYS(SW_ERROR_NULL, sw_memory_needed(&config, &memory), "one of sw_config.acquisition_order is null");
}

/* Others may well be free. */
static void a_certain_buffer_is_the_one_that_is_named(void) {
    static sw_dim deep[] = {{.name = "t", .kind = SW_DIM_TIME, .chunk = 4, .shard = 4},
                            {.name = "y", .kind = SW_DIM_SPACE, .size = 16},
                            {.name = "x", .kind = SW_DIM_SPACE, .size = 16}};
    sw_acquisition *acquisition;
    sw_frame frame;
    config = good(), config.dims = deep;
    RIGHT(sw_create(path("certain"), &config, &acquisition));
    RIGHT(sw_acquire(acquisition, 0, &frame));
    SAYS(SW_ERROR_NULL, sw_commit(acquisition, NULL, 0, NULL), "frame is null");
    SAYS(SW_ERROR_NULL, sw_discard(acquisition, NULL), "frame is null");
    RIGHT(sw_commit(acquisition, &frame, SW_NEXT, NULL));
    char expected[64];
    snprintf(expected, sizeof expected, "buffer %u is not free", frame.index);
    SAYS(SW_RING_FULL, sw_acquire_buffer(acquisition, frame.index, 0, &frame), expected);
    SAYS(SW_RING_FULL, sw_acquire_buffer(acquisition, frame.index, 20, &frame), expected);
    RIGHT(sw_abort(acquisition, SW_FOREVER));
    RIGHT(sw_free(acquisition));
}

static void counts_are_checked_before_anything_is_read(void) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HOLDS(pages != MAP_FAILED && !mprotect(pages + page, page, PROT_NONE));
    config = good();
    sw_dim *last = (sw_dim *)(pages + page) - 3;
    memcpy(last, dims, sizeof dims);
    config.dims = last, config.dim_count = 99;
    SAYS(SW_ERROR_CONFIG, sw_memory_needed(&config, &memory), "sw_config.dim_count = 99: at most 16");
    config.dim_count = SIZE_MAX;
    SAYS(SW_ERROR_CONFIG, sw_memory_needed(&config, &memory), "sw_config.dim_count = 18446744073709551615: at most 16");
    config = good();
    sw_record_field *field = (sw_record_field *)(pages + page) - 1;
    *field = (sw_record_field){.name = "a", .dtype = SW_U8};
    config.record_fields = field, config.record_field_count = 17;
    SAYS(SW_ERROR_CONFIG, sw_memory_needed(&config, &memory), "sw_config.record_field_count = 17: at most 16");
    config = good();
    sw_channel *channel = (sw_channel *)(pages + page) - 1;
    *channel = (sw_channel){.label = "DAPI"};
    config.channels = channel, config.channel_count = 2;
    SAYS(SW_ERROR_CONFIG, sw_memory_needed(&config, &memory), "sw_config.channel_count = 2");
    config = good();
    const char **name = (const char **)(void *)(pages + page) - 1;
    *name = "t";
    config.acquisition_order = name, config.acquisition_order_count = 2;
    SAYS(SW_ERROR_CONFIG, sw_memory_needed(&config, &memory), "sw_config.acquisition_order_count = 2");
    config = good();
    size_t *core = (size_t *)(pages + page) - 1;
    *core = 0;
    config.affinity = core, config.affinity_count = 5000;
    SAYS(SW_ERROR_CONFIG, sw_memory_needed(&config, &memory), "sw_config.affinity_count = 5000: at most 1024");
    config = good();
    config.own_buffers = (void *const *)(void *)name, config.own_buffer_count = SIZE_MAX / 8;
    config.own_buffer_bytes = 4096;
    SAYS(SW_ERROR_CONFIG, sw_memory_needed(&config, &memory), "sw_config.own_buffer_count = ");
    HOLDS(!munmap(pages, 2 * page));
}

static void sizes_are_told_with_their_bounds(void) {
    config = good(), config.size = SIZE_MAX;
    SAYS(SW_ERROR_SIZE, sw_memory_needed(&config, &memory), " to 65536, in steps of 8, and ");
    config = good();
    const size_t core = 0;
    config.affinity = &core;
    SAYS(SW_ERROR_ARGUMENT, sw_memory_needed(&config, &memory), "sw_config.affinity_count = 0, and sw_config.affinity");
    config = good();
    char text[2] = "x";
    size_t needed = 0;
    SAYS(SW_ERROR_SIZE, sw_config_json(&config, text, 2, &needed), "the text needs");
    HOLDS(needed > 2 && text[0] == 'x');
    memcpy(some, dims, sizeof some);
    some[2].unit = "";
    config.dims = some;
    char *whole = malloc(needed);
    RIGHT(sw_config_json(&config, whole, needed, NULL));
    HOLDS(!strstr(whole, "\"unit\": \"\""));
    free(whole);
}

static void what_is_wrong_with_pixels_is_what_is_named(void) {
    sw_acquisition *acquisition;
    static sw_dim colors[] = {{.name = "t", .kind = SW_DIM_TIME},
                              {.name = "c", .kind = SW_DIM_CHANNEL, .size = 3},
                              {.name = "y", .kind = SW_DIM_SPACE, .size = 16},
                              {.name = "x", .kind = SW_DIM_SPACE, .size = 16}};
    config = good();
    config.dims = colors, config.dim_count = 4;
    RIGHT(sw_create(path("pixels"), &config, &acquisition));
    static const uint8_t pixels[8 * 3 * FRAME_BYTES];
    sw_appended appended;
#define APPEND(bytes, stride) sw_append(acquisition, pixels, bytes, stride, NULL, 0, &appended)
#define COLORS(bytes, stride) sw_append_interleaved(acquisition, pixels, bytes, 3, stride, NULL, 0, &appended)
    const char *const least = "row_stride = 15: a row has 16 bytes, and no less can lie from one row to the next";
    SAYS(SW_ERROR_ARGUMENT, APPEND(FRAME_BYTES, 15), least);
    SAYS(SW_ERROR_ARGUMENT, APPEND(FRAME_BYTES - 16, 15), least);
    SAYS(SW_ERROR_ARGUMENT, APPEND(FRAME_BYTES, 17), "row_stride = 17: 16 rows of 16 bytes take 271 bytes then,");
    SAYS(SW_ERROR_ARGUMENT, APPEND(FRAME_BYTES, SIZE_MAX), "row_stride = 18446744073709551615: ");
    SAYS(SW_ERROR_FRAME_SIZE, APPEND(FRAME_BYTES - 1, 0), "255 bytes are not a whole number of frames of 256 bytes");
    SAYS(SW_ERROR_ARGUMENT, APPEND(SIZE_MAX, 0), "bytes = 18446744073709551615: ");
    SAYS(SW_ERROR_ARGUMENT, COLORS(3 * FRAME_BYTES, 47), "row_stride = 47: a row has 48 bytes, and no less");
    SAYS(SW_ERROR_ARGUMENT, COLORS(3 * FRAME_BYTES, 49), "row_stride = 49: 16 rows of 48 bytes take 783 bytes then");
    SAYS(SW_ERROR_ARGUMENT, COLORS(3 * FRAME_BYTES, SIZE_MAX), "row_stride = 18446744073709551615: ");
    SAYS(SW_ERROR_ARGUMENT, COLORS(3 * FRAME_BYTES, SIZE_MAX / 16), "row_stride = 1152921504606846975: ");
    SAYS(SW_ERROR_FRAME_SIZE, COLORS(3 * FRAME_BYTES - 1, 0), "767 bytes are not a whole number of frames of 768");
    SAYS(SW_ERROR_ARGUMENT, COLORS(SIZE_MAX, 0), "bytes = 18446744073709551615: ");
    SAYS(SW_ERROR_ARGUMENT, COLORS(SIZE_MAX, SIZE_MAX), "bytes = 18446744073709551615: ");
    SAYS(SW_ERROR_CONFIG, sw_append_interleaved(acquisition, pixels, 9, UINT32_MAX, 0, NULL, 0, &appended), "samples");
    /* After a lone frame, red would stand where green belongs. */
    RIGHT(APPEND(FRAME_BYTES, 0));
    SAYS(SW_ERROR_CONFIG, COLORS(3 * FRAME_BYTES, 0),
         "samples = 3: the next frame has the number 1, which is of channel 1");
    RIGHT(APPEND(2 * FRAME_BYTES, 0));
    RIGHT(COLORS(3 * FRAME_BYTES, 0));
    RIGHT(sw_abort(acquisition, SW_FOREVER));
    RIGHT(sw_free(acquisition));
    /* There is no channel at all. */
    config = good();
    RIGHT(sw_create(path("gray"), &config, &acquisition));
    SAYS(SW_ERROR_CONFIG, COLORS(3 * FRAME_BYTES, 0), "is unbounded, and has not one element for each");
    void *addresses[1];
    size_t count = 0;
    SAYS(SW_ERROR_SIZE, sw_buffers(acquisition, addresses, 1, &count), "room for 1 addresses");
    HOLDS(count > 1);
    RIGHT(sw_abort(acquisition, SW_FOREVER));
    RIGHT(sw_free(acquisition));
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    snprintf(folder, sizeof folder, "%s", argv[1]);
    fields_have_the_names_of_the_header();
    lists_without_a_length();
    fields_of_documents_have_the_names_of_documents();
    documents_are_refused_in_plain_words();
    what_an_array_alone_has_no_place_for_is_told_in_time();
    texts_are_told_in_plain_words();
    a_certain_buffer_is_the_one_that_is_named();
    counts_are_checked_before_anything_is_read();
    sizes_are_told_with_their_bounds();
    what_is_wrong_with_pixels_is_what_is_named();
    static const sw_status expected[] = {SW_ERROR_ARGUMENT, SW_ERROR_CONFIG, SW_ERROR_FRAME_SIZE, SW_ERROR_SIZE};
    check_provoked(expected, sizeof expected / sizeof *expected);
    printf("%d wrong calls\n", calls);
    return failures > 0;
}
