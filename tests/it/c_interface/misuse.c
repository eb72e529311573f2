/* Wrong calls, one after the other.

   Prints how many wrong calls it made. */

#include "misuse.h"

#include <unistd.h>

/* Wrong in its hash, in its bits, and in nothing but that no other dialect has one. */
static const sw_volume volumes[3] = {{.hash = 2}, {.shard_bits = 300}, {.hash = SW_HASH_MURMURHASH3_X86_128}};

static void wrong_configurations(void) {
    sw_config config = good();
    sw_acquisition *acquisition = NULL;
    WRONG(SW_ERROR_NULL, sw_config_init(NULL, sizeof config));
    WRONG(SW_ERROR_MISALIGNED, sw_config_init(odd, sizeof config));
    WRONG(SW_ERROR_SIZE, sw_config_init(&config, 0));
    WRONG(SW_ERROR_SIZE, sw_config_init(&config, sizeof config - 8));
    WRONG(SW_ERROR_SIZE, sw_config_init(&config, SIZE_MAX));
    WRONG(SW_ERROR_NULL, sw_create(NULL, &config, &acquisition));
    WRONG(SW_ERROR_ARGUMENT, sw_create("", &config, &acquisition));
    WRONG(SW_ERROR_NULL, sw_create(path("a"), NULL, &acquisition));
    WRONG(SW_ERROR_MISALIGNED, sw_create(path("a"), odd, &acquisition));
    WRONG(SW_ERROR_NULL, sw_create(path("a"), &config, NULL));
    WRONG(SW_ERROR_MISALIGNED, sw_create(path("a"), &config, odd));
    HOLDS(access(path("a"), F_OK) != 0);

#define WITH(change, expected)                                                                                        \
    do {                                                                                                              \
        config = good();                                                                                              \
        change;                                                                                                       \
        WRONG(expected, sw_create(path("a"), &config, &acquisition));                                                 \
        HOLDS(acquisition == NULL && access(path("a"), F_OK) != 0);                                                   \
    } while (0)

    WITH(config.size = 0, SW_ERROR_SIZE);
    WITH(config.size = 12, SW_ERROR_SIZE);
    WITH(config.size = sizeof config + 4, SW_ERROR_SIZE);
    WITH(config.size = SIZE_MAX, SW_ERROR_SIZE);
    WITH(config.version = 0, SW_ERROR_VERSION);
    WITH(config.version = SW_INTERFACE + 1, SW_ERROR_VERSION);
    WITH(config.dtype = 10, SW_ERROR_ARGUMENT);
    WITH(config.dims = NULL, SW_ERROR_NULL);
    WITH(config.dims = odd, SW_ERROR_MISALIGNED);
    WITH(config.dim_count = 0, SW_ERROR_CONFIG);
    WITH(config.dim_count = 1, SW_ERROR_CONFIG);
    WITH(config.dim_count = SIZE_MAX, SW_ERROR_CONFIG);
    WITH(config.compressor = 8, SW_ERROR_ARGUMENT);
    WITH(config.level = -1, SW_ERROR_CONFIG);
    WITH(config.level = 1000, SW_ERROR_CONFIG);
    WITH(config.level = 10, SW_ERROR_CONFIG);
    WITH((config.compressor = SW_COMPRESSOR_ZSTD, config.level = 23), SW_ERROR_CONFIG);
    WITH(config.blosc_cname = 5, SW_ERROR_ARGUMENT);
    WITH(config.shuffle = 3, SW_ERROR_ARGUMENT);
    WITH(config.checksum = 2, SW_ERROR_ARGUMENT);
    WITH(config.dialect = 4, SW_ERROR_ARGUMENT);
    WITH(config.dialect = SW_DIALECT_PRECOMPUTED, SW_ERROR_CONFIG);
    WITH(config.index_checksum = 2, SW_ERROR_ARGUMENT);
    WITH(config.guard_maps = 2, SW_ERROR_ARGUMENT);
    WITH(config.manifest = 8, SW_ERROR_ARGUMENT);
    WITH(config.pyramid = 7, SW_ERROR_ARGUMENT);
    WITH(config.pyramid_keep = 4, SW_ERROR_ARGUMENT);
    WITH(config.pyramid_depth = 3, SW_ERROR_ARGUMENT);
    WITH(config.volume = &volumes[0], SW_ERROR_ARGUMENT);
    WITH(config.volume = &volumes[1], SW_ERROR_ARGUMENT);
    WITH(config.volume = &volumes[2], SW_ERROR_CONFIG);
    WITH(config.volume = (const sw_volume *)((const char *)volumes + 1), SW_ERROR_MISALIGNED);
    WITH(config.placement = 3, SW_ERROR_ARGUMENT);
    WITH(config.index_location = 77, SW_ERROR_ARGUMENT);
    WITH(config.storage = 4, SW_ERROR_ARGUMENT);
    WITH(config.fill_value = -1, SW_ERROR_CONFIG);
    WITH(config.skip_empty_chunks = UINT32_MAX, SW_ERROR_ARGUMENT);
    WITH(config.ring_full = 3, SW_ERROR_ARGUMENT);
    WITH(config.ring_full_timeout_ms = -7, SW_ERROR_ARGUMENT);
    WITH(config.ring_bytes = 1, SW_ERROR_CONFIG);
    WITH(config.buffer_bytes = 10, SW_ERROR_CONFIG);
    WITH(config.row_stride = 16, SW_ERROR_CONFIG);
    HOLDS(strstr(sw_last_error(), "buffer_bytes = 0"));
    WITH((config.row_stride = 15, config.buffer_bytes = 4096), SW_ERROR_CONFIG);
    HOLDS(strstr(sw_last_error(), "row_stride = 15"));
    WITH((config.row_stride = SIZE_MAX, config.buffer_bytes = 4096), SW_ERROR_CONFIG);
    WITH(config.workers = 100000, SW_ERROR_CONFIG);
    WITH(config.affinity_count = 1, SW_ERROR_NULL);
    WITH(config.record_field_count = 1, SW_ERROR_NULL);
    WITH(config.channel_count = 1, SW_ERROR_NULL);
    WITH(config.acquisition_order_count = 1, SW_ERROR_NULL);
    WITH(config.name = "\xff\xfe", SW_ERROR_ARGUMENT);
    WITH(config.document = "{}", SW_ERROR_CONFIG);
    WITH((config.document = "{\"dims\": 3}", config.dims = NULL, config.dim_count = 0), SW_ERROR_CONFIG);
    WITH((config.document = "{\"no_such_field\": 3}", config.dims = NULL, config.dim_count = 0), SW_ERROR_CONFIG);
    WITH((config.document = "{\"dtype\": \"text\"}", config.dims = NULL, config.dim_count = 0, config.dtype = SW_U16),
         SW_ERROR_CONFIG);
    WITH((config.document = "{\"ring_full\": \"No\"}", config.dims = NULL, config.dim_count = 0), SW_ERROR_CONFIG);
    WITH((config.document = "dims = 3", config.dims = NULL, config.dim_count = 0), SW_ERROR_CONFIG);
    WITH(config.sync = 256, SW_ERROR_ARGUMENT);
    WITH(config.overwrite = 2, SW_ERROR_ARGUMENT);

    sw_dim wrong[3];
#define DIM(change, expected)                                                                                         \
    WITH((memcpy(wrong, dims, sizeof wrong), change, config.dims = wrong), expected)
    DIM(wrong[1].name = NULL, SW_ERROR_NULL);
    DIM(wrong[1].name = "t", SW_ERROR_CONFIG);
    DIM(wrong[1].kind = 4, SW_ERROR_ARGUMENT);
    DIM(wrong[1].reserved = 1, SW_ERROR_ARGUMENT);
    DIM(wrong[0].reserved_too = 1, SW_ERROR_ARGUMENT);
    DIM(wrong[2].size = 0, SW_ERROR_CONFIG);
    DIM((wrong[2].chunk = 5, wrong[2].shard = 7), SW_ERROR_CONFIG);
    DIM(wrong[2].scale = -1, SW_ERROR_CONFIG);
    DIM(wrong[2].unit = "\xff", SW_ERROR_ARGUMENT);
    DIM(wrong[0].size = UINT64_MAX, SW_ERROR_CONFIG);

    const sw_record_field fields[] = {{.name = "frame_number", .dtype = SW_U8}, {.name = "x", .dtype = 10}};
    WITH((config.record_fields = fields, config.record_field_count = 1), SW_ERROR_CONFIG);
    WITH((config.record_fields = fields + 1, config.record_field_count = 1), SW_ERROR_ARGUMENT);
    const char *const order[] = {"z"};
    WITH((config.acquisition_order = order, config.acquisition_order_count = 1), SW_ERROR_CONFIG);
    const sw_channel channels[] = {{.label = "DAPI", .color = "blue"}};
    WITH((config.channels = channels, config.channel_count = 1), SW_ERROR_CONFIG);

    config = good();
    WRONG(SW_ERROR_IO, sw_create("/proc/no such folder/a", &config, &acquisition));
    FILE *file = fopen(path("a file"), "w");
    HOLDS(file && !fclose(file));
    WRONG(SW_ERROR_FORMAT, sw_create(folder, &config, &acquisition));
    WRONG(SW_ERROR_FORMAT, sw_create(path("a file"), &config, &acquisition));
    WRONG(SW_ERROR_FORMAT, (config.overwrite = 1, sw_create(folder, &config, &acquisition)));
    config.overwrite = 0;

    sw_memory memory = {.size = 0};
    WRONG(SW_ERROR_SIZE, sw_memory_needed(&config, &memory));
    WRONG(SW_ERROR_NULL, sw_memory_needed(&config, NULL));
    /* An array that is one shard long needs no room for more. */
    sw_memory of_one = {.size = sizeof of_one};
    RIGHT((memory.size = sizeof memory, sw_memory_needed(&config, &memory)));
    memcpy(wrong, dims, sizeof wrong);
    wrong[0].size = 4;
    RIGHT((config.dims = wrong, sw_memory_needed(&config, &of_one)));
    HOLDS(of_one.storage_bytes > 4 * FRAME_BYTES && memory.storage_bytes >= 4 * of_one.storage_bytes);
    config = good();
    char text[10] = "untouched";
    size_t needed = 7;
    WRONG(SW_ERROR_SIZE, sw_config_json(&config, text, sizeof text, &needed));
    HOLDS(needed > 100);
    needed = 7;
    WRONG(SW_ERROR_NULL, sw_config_json(&config, NULL, 5, &needed));
    WRONG(SW_ERROR_MISALIGNED, sw_config_json(&config, NULL, 0, odd));
    HOLDS(!strcmp(text, "untouched") && needed == 7);
    RIGHT(sw_config_json(&config, NULL, 0, &needed));
    HOLDS(needed > 100);
}

static int32_t never_put(void *context, const char *key, const void *data, size_t bytes) {
    (void)context, (void)key, (void)data, (void)bytes;
    return 28; /* ENOSPC */
}
static int32_t never_create(void *context, const char *key, uint64_t bytes, void **blob) {
    (void)context, (void)key, (void)bytes, (void)blob;
    return -5;
}
static int32_t never_write(void *context, void *blob, uint64_t offset, const void *data, size_t bytes) {
    (void)context, (void)blob, (void)offset, (void)data, (void)bytes;
    return 5;
}
static int32_t never_finish(void *context, void *blob, uint64_t bytes) {
    (void)context, (void)blob, (void)bytes;
    return 5;
}

static void wrong_storages(void) {
    const sw_storage whole = {.size = sizeof whole,
                              .create = never_create,
                              .put = never_put,
                              .write_at = never_write,
                              .finish = never_finish};
    sw_config config = good();
    sw_acquisition *acquisition = NULL;
    sw_dataset *dataset = NULL;
    WRONG(SW_ERROR_NULL, sw_create_in(NULL, &config, &acquisition));
    sw_storage storage = whole;
    WRONG(SW_ERROR_IO, sw_create_in(&storage, &config, &acquisition));
    HOLDS(strstr(sw_last_error(), "space") != NULL);
    WRONG(SW_ERROR_CONFIG, (config.dim_count = 0, sw_create_in(&storage, &config, &acquisition)));
    config = good();
    storage.size = 8;
    WRONG(SW_ERROR_SIZE, sw_create_in(&storage, &config, &acquisition));
    storage = whole, storage.write_at = NULL;
    WRONG(SW_ERROR_NULL, sw_create_in(&storage, &config, &acquisition));
    storage = whole, storage.put = NULL;
    WRONG(SW_ERROR_NULL, sw_create_in(&storage, &config, &acquisition));
    storage = whole, storage.alignment = 3;
    WRONG(SW_ERROR_ARGUMENT, sw_create_in(&storage, &config, &acquisition));
    storage.alignment = 1 << 20;
    WRONG(SW_ERROR_ARGUMENT, sw_dataset_create_in(&storage, &dataset));
    WRONG(SW_ERROR_NULL, sw_dataset_create_in(&whole, NULL));
    HOLDS(acquisition == NULL && dataset == NULL);
}

/* A JSON value of lists within each other, so many. */
static const char *nested(size_t depth) {
    static char text[4096];
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    text[2 * depth] = 0;
    return text;
}

static void wrong_frames(void) {
    sw_config config = good();
    sw_acquisition *acquisition;
    RIGHT(sw_create(path("frames"), &config, &acquisition));
    sw_frame frame, other, untouched = {.index = 77};
    static const uint8_t pixels[5 * FRAME_BYTES];
    sw_appended appended;

    WRONG(SW_ERROR_NULL, sw_acquire(NULL, 0, &frame));
    WRONG(SW_ERROR_NULL, sw_acquire(acquisition, 0, NULL));
    WRONG(SW_ERROR_MISALIGNED, sw_acquire(acquisition, 0, odd));
    WRONG(SW_ERROR_ARGUMENT, sw_acquire(acquisition, -3, &untouched));
    WRONG(SW_ERROR_ARGUMENT, sw_acquire(acquisition, INT64_MIN, &untouched));
    WRONG(SW_ERROR_ARGUMENT, sw_acquire_buffer(acquisition, 8, 0, &untouched));
    HOLDS(untouched.index == 77 && untouched.data == NULL);

    RIGHT(sw_acquire(acquisition, 0, &frame));
    WRONG(SW_ERROR_FRAME, sw_acquire_buffer(acquisition, frame.index, 0, &untouched));
    WRONG(SW_ERROR_NULL, sw_commit(acquisition, NULL, 0, NULL));
    WRONG(SW_ERROR_NULL, sw_commit(NULL, &frame, 0, NULL));
    WRONG(SW_ERROR_MISALIGNED, sw_commit(acquisition, odd, 0, NULL));
    WRONG(SW_ERROR_MISALIGNED, sw_commit(acquisition, &frame, 0, odd));
    sw_record record = {.size = 0};
    WRONG(SW_ERROR_SIZE, sw_commit(acquisition, &frame, 0, &record));
    record.size = sizeof record, record.has = 4;
    WRONG(SW_ERROR_ARGUMENT, sw_commit(acquisition, &frame, 0, &record));
    record.has = 0, record.value_count = 1;
    WRONG(SW_ERROR_NULL, sw_commit(acquisition, &frame, 0, &record));
    const sw_value values[17] = {{.kind = 9}};
    record.values = values;
    WRONG(SW_ERROR_ARGUMENT, sw_commit(acquisition, &frame, 0, &record));
    record.value_count = 17;
    WRONG(SW_ERROR_ARGUMENT, sw_commit(acquisition, &frame, 0, &record));
    /* All that left the frame on loan. */
    RIGHT(sw_commit(acquisition, &frame, 0, NULL));
    WRONG(SW_ERROR_FRAME, sw_commit(acquisition, &frame, 1, NULL));
    WRONG(SW_ERROR_FRAME, sw_discard(acquisition, &frame));
    WRONG(SW_ERROR_FRAME, sw_commit_buffer(acquisition, frame.index, 1, NULL));
    WRONG(SW_ERROR_FRAME, sw_discard_buffer(acquisition, frame.index));
    other = frame, other.index = 1000;
    WRONG(SW_ERROR_FRAME, sw_commit(acquisition, &other, 1, NULL));
    WRONG(SW_ERROR_FRAME, sw_discard(acquisition, &other));
    WRONG(SW_ERROR_ARGUMENT, sw_commit_buffer(acquisition, UINT32_MAX, 1, NULL));
    WRONG(SW_ERROR_ARGUMENT, sw_discard_buffer(acquisition, UINT32_MAX));

    RIGHT(sw_acquire(acquisition, SW_FOREVER, &frame));
    other = frame, other.turn++;
    WRONG(SW_ERROR_FRAME, sw_commit(acquisition, &other, 1, NULL));
    /* As one of another acquisition would be: the same index and turn, other memory. */
    other = frame, other.data = (char *)frame.data + 4096;
    WRONG(SW_ERROR_FRAME, sw_commit(acquisition, &other, 1, NULL));
    WRONG(SW_ERROR_FRAME, sw_discard(acquisition, &other));
    RIGHT(sw_discard(acquisition, &frame));
    WRONG(SW_ERROR_FRAME, sw_discard(acquisition, &frame));
    WRONG(SW_ERROR_FRAME, sw_commit(acquisition, &frame, 1, NULL));

    RIGHT(sw_acquire(acquisition, SW_FOREVER, &frame));
    WRONG(SW_ERROR_FRAME_NUMBER, sw_commit(acquisition, &frame, 0, NULL));
    WRONG(SW_ERROR_FRAME, sw_commit(acquisition, &frame, 1, NULL));
    RIGHT(sw_acquire(acquisition, SW_FOREVER, &frame));
    WRONG(SW_ERROR_FRAME_NUMBER, sw_commit(acquisition, &frame, UINT64_MAX - 1, NULL));
    RIGHT(sw_acquire(acquisition, SW_FOREVER, &frame));
    /* After a record that is refused, the frame is still on loan. */
    const sw_value value = {.kind = SW_VALUE_INT};
    record = (sw_record){.size = sizeof record, .values = &value, .value_count = 1};
    WRONG(SW_ERROR_RECORD, sw_commit(acquisition, &frame, 1, &record));
    WRONG(SW_ERROR_RECORD, sw_commit_buffer(acquisition, frame.index, 1, &record));
    WRONG(SW_ERROR_RECORD, sw_append(acquisition, pixels, FRAME_BYTES, 0, &record, 0, NULL));
    RIGHT(sw_discard(acquisition, &frame));

    WRONG(SW_ERROR_NULL, sw_append(acquisition, NULL, FRAME_BYTES, 0, NULL, 0, NULL));
    WRONG(SW_ERROR_FRAME_SIZE, sw_append(acquisition, pixels, FRAME_BYTES - 1, 0, NULL, 0, NULL));
    WRONG(SW_ERROR_FRAME_SIZE, sw_append(acquisition, pixels, 0, 0, NULL, 0, NULL));
    /* A wrong stride is blamed on the stride. */
    WRONG(SW_ERROR_ARGUMENT, sw_append(acquisition, pixels, FRAME_BYTES, 15, NULL, 0, NULL));
    HOLDS(strstr(sw_last_error(), "row_stride = 15"));
    WRONG(SW_ERROR_ARGUMENT, sw_append(acquisition, pixels, FRAME_BYTES, 17, NULL, 0, NULL));
    HOLDS(strstr(sw_last_error(), "row_stride = 17"));
    WRONG(SW_ERROR_ARGUMENT, sw_append(acquisition, pixels, FRAME_BYTES, SIZE_MAX, NULL, 0, NULL));
    WRONG(SW_ERROR_FRAME_SIZE, sw_append(acquisition, pixels, 15 * 17 + 15, 17, NULL, 0, NULL));
    WRONG(SW_ERROR_NULL, sw_append(acquisition, pixels, 2 * FRAME_BYTES, 0, NULL, 0, NULL));
    WRONG(SW_ERROR_MISALIGNED, sw_append(acquisition, pixels, FRAME_BYTES, 0, NULL, 0, odd));
    WRONG(SW_ERROR_ARGUMENT, sw_append(acquisition, pixels, SIZE_MAX, 0, NULL, 0, &appended));

    WRONG(SW_ERROR_NULL, sw_set_attribute(acquisition, NULL, "1"));
    WRONG(SW_ERROR_NULL, sw_set_attribute(acquisition, "a", NULL));
    WRONG(SW_ERROR_ARGUMENT, sw_set_attribute(acquisition, "a", "{not json"));
    WRONG(SW_ERROR_ARGUMENT, sw_set_attribute(acquisition, "\xff", "1"));
    WRONG(SW_ERROR_CONFIG, sw_set_attribute(acquisition, "ome", "1"));
    WRONG(SW_ERROR_CONFIG, sw_set_attribute(acquisition, "gain", "[1e999]"));
    RIGHT(sw_set_attribute(acquisition, "serial", "[18446744073709551616, -123456789012345678901234567890]"));
    RIGHT(sw_set_attribute(acquisition, "nested", nested(64)));
    WRONG(SW_ERROR_CONFIG, sw_set_attribute(acquisition, "nested", nested(65)));
    HOLDS(strstr(sw_last_error(), "deeper than 64 levels"));
    WRONG(SW_ERROR_CONFIG, sw_set_attribute(acquisition, "nested", nested(1000)));
    HOLDS(strstr(sw_last_error(), "deeper than 64 levels"));
    WRONG(SW_ERROR_NULL, sw_on_shard_closed(acquisition, NULL, NULL));

    sw_stats stats = {.size = 4};
    WRONG(SW_ERROR_SIZE, sw_get_stats(acquisition, &stats));
    WRONG(SW_ERROR_NULL, sw_get_stats(acquisition, NULL));
    sw_latency latency = {.size = sizeof latency};
    WRONG(SW_ERROR_ARGUMENT, sw_get_latency(acquisition, 10, &latency));
    sw_layout layout = {.size = 1};
    WRONG(SW_ERROR_SIZE, sw_get_layout(acquisition, &layout));
    void *addresses[8] = {NULL};
    size_t count = 3;
    WRONG(SW_ERROR_SIZE, sw_buffers(acquisition, addresses, 7, &count));
    HOLDS(count == 8);
    count = 3;
    WRONG(SW_ERROR_NULL, sw_buffers(acquisition, NULL, 8, &count));
    HOLDS(count == 3 && addresses[0] == NULL);
    sw_summary summary = {.size = sizeof summary};
    WRONG(SW_ERROR_NOT_ENDED, sw_get_summary(acquisition, &summary));
    WRONG(SW_ERROR_NOT_ENDED, sw_summary_json(acquisition, NULL, 0, &count));
    WRONG(SW_ERROR_NOT_ENDED, sw_free(acquisition));

    /* All eight buffers on loan: the ring is full for everybody else. */
    sw_frame all[8];
    for (int at = 0; at < 8; at++) RIGHT(sw_acquire(acquisition, SW_FOREVER, &all[at]));
    WRONG(SW_RING_FULL, sw_acquire(acquisition, 0, &untouched));
    WRONG(SW_RING_FULL, sw_acquire(acquisition, 20, &untouched));
    HOLDS(strstr(sw_last_error(), "of 8 frame buffers, 8 are on loan to the caller, 0 hold frames that wait, 0 hold"));
    WRONG(SW_RING_FULL, sw_append(acquisition, pixels, FRAME_BYTES, 0, NULL, 20, NULL));
    HOLDS(untouched.index == 77 && untouched.data == NULL);
    for (int at = 1; at < 8; at++) RIGHT(sw_discard(acquisition, &all[at]));

    WRONG(SW_ERROR_ARGUMENT, sw_finish(acquisition, SW_AS_CONFIGURED, NULL));
    WRONG(SW_ERROR_ARGUMENT, sw_finish(acquisition, -9, NULL));
    summary.size = 3;
    WRONG(SW_ERROR_SIZE, sw_finish(acquisition, 0, &summary));
    summary.size = sizeof summary;
    RIGHT(sw_finish(acquisition, SW_FOREVER, &summary));
    HOLDS(summary.frames_written == 1);
    /* A buffer on loan over the end: its memory is there, and it can only go back. */
    memset(all[0].data, 1, all[0].bytes);
    WRONG(SW_ERROR_ENDED, sw_commit(acquisition, &all[0], 5, NULL));
    WRONG(SW_ERROR_ENDED, sw_acquire(acquisition, SW_FOREVER, &untouched));
    WRONG(SW_ERROR_ENDED, sw_acquire_buffer(acquisition, 0, SW_FOREVER, &untouched));
    WRONG(SW_ERROR_ENDED, sw_append(acquisition, pixels, FRAME_BYTES, 0, NULL, 0, NULL));
    WRONG(SW_ERROR_ENDED, sw_set_attribute(acquisition, "a", "1"));
    WRONG(SW_ERROR_ENDED, sw_finish(acquisition, SW_FOREVER, NULL));
    RIGHT(sw_abort(acquisition, 0));
    RIGHT(sw_get_summary(acquisition, &summary));
    RIGHT(sw_free(acquisition));
    WRONG(SW_ERROR_HANDLE, sw_acquire(acquisition, 0, &untouched));
    WRONG(SW_ERROR_HANDLE, sw_commit(acquisition, &frame, 0, NULL));
    WRONG(SW_ERROR_HANDLE, sw_finish(acquisition, 0, NULL));
    WRONG(SW_ERROR_HANDLE, sw_abort(acquisition, 0));
    WRONG(SW_ERROR_HANDLE, (stats.size = sizeof stats, sw_get_stats(acquisition, &stats)));
    WRONG(SW_ERROR_HANDLE, sw_free(acquisition));
}

static void foreign_handles(void) {
    sw_config config = good();
    sw_dataset *dataset;
    sw_acquisition *acquisition, *none = NULL;
    WRONG(SW_ERROR_NULL, sw_dataset_create(NULL, 0, &dataset));
    WRONG(SW_ERROR_ARGUMENT, sw_dataset_create(path("several"), 2, &dataset));
    RIGHT(sw_dataset_create(path("several"), 0, &dataset));
    RIGHT(sw_dataset_acquisition(dataset, "left", &config, &acquisition));
    sw_frame frame;
    int something = 0;
    WRONG(SW_ERROR_HANDLE, sw_acquire((sw_acquisition *)dataset, 0, &frame));
    WRONG(SW_ERROR_HANDLE, sw_acquire((sw_acquisition *)(void *)&something, 0, &frame));
    WRONG(SW_ERROR_HANDLE, sw_acquire((sw_acquisition *)(void *)folder, 0, &frame));
    WRONG(SW_ERROR_HANDLE, sw_acquire(odd, 0, &frame));
    WRONG(SW_ERROR_HANDLE, sw_acquire((sw_acquisition *)UINTPTR_MAX, 0, &frame));
    WRONG(SW_ERROR_HANDLE, sw_acquire((sw_acquisition *)((uintptr_t)acquisition + 16), 0, &frame));
    WRONG(SW_ERROR_HANDLE, sw_free((sw_acquisition *)dataset));
    WRONG(SW_ERROR_HANDLE, sw_dataset_free((sw_dataset *)acquisition));
    WRONG(SW_ERROR_HANDLE, sw_dataset_acquisition((sw_dataset *)acquisition, "right", &config, &none));
    WRONG(SW_ERROR_NULL, sw_dataset_acquisition(NULL, "right", &config, &none));
    WRONG(SW_ERROR_NULL, sw_dataset_acquisition(dataset, NULL, &config, &none));
    WRONG(SW_ERROR_CONFIG, sw_dataset_acquisition(dataset, "../right", &config, &none));
    WRONG(SW_ERROR_EXISTS, sw_dataset_acquisition(dataset, "left", &config, &none));
    WRONG(SW_ERROR_NULL, sw_free(NULL));
    WRONG(SW_ERROR_NULL, sw_dataset_free(NULL));
    HOLDS(none == NULL);
    RIGHT(sw_dataset_free(dataset));
    WRONG(SW_ERROR_HANDLE, sw_dataset_free(dataset));
    WRONG(SW_ERROR_HANDLE, sw_dataset_acquisition(dataset, "right", &config, &none));
    /* The image goes on without the dataset's handle. A frame of another acquisition is none of its own. */
    sw_acquisition *second;
    RIGHT(sw_create(path("second"), &config, &second));
    WRONG(SW_ERROR_LOCKED, sw_create(path("second"), &config, &none));
    RIGHT(sw_acquire(second, 0, &frame));
    WRONG(SW_ERROR_FRAME, sw_commit(acquisition, &frame, 0, NULL));
    WRONG(SW_ERROR_LOCKED, (config.overwrite = 1, sw_create(path("second"), &config, &none)));
    RIGHT(sw_abort(second, SW_FOREVER));
    RIGHT(sw_free(second));
    RIGHT(sw_abort(acquisition, SW_FOREVER));
    RIGHT(sw_free(acquisition));

    sw_acquisition *many[SW_ACQUISITIONS_MAX];
    char name[32];
    config = good();
    config.ring_bytes = 3 * 4096;
    int made = 0;
    while (made < 3) {
        snprintf(name, sizeof name, "many-%d", made);
        RIGHT(sw_create(path(name), &config, &many[made++]));
    }
    while (made-- > 0) {
        RIGHT(sw_abort(many[made], SW_FOREVER));
        RIGHT(sw_free(many[made]));
        WRONG(SW_ERROR_HANDLE, sw_free(many[made]));
    }
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    snprintf(folder, sizeof folder, "%s", argv[1]);
    HOLDS(!strcmp(sw_status_name(SW_OK), "SW_OK") && !strcmp(sw_status_name(SW_ERROR_IO), "SW_ERROR_IO"));
    HOLDS(!strcmp(sw_status_name(12345), "SW_ERROR_OTHER"));
    HOLDS(sw_check_version(SW_VERSION_MAJOR, SW_VERSION_MINOR) == SW_OK);
    HOLDS(!strcmp(sw_version(), SW_VERSION) && *sw_status_text(12345) && *sw_status_text(-1) && !*sw_last_error());
    wrong_configurations();
    wrong_storages();
    wrong_frames();
    foreign_handles();
    /* All statuses but those of misuse_threads.c, and those that only a bug, a codec, an abort or another library
       gives. */
    static const sw_status expected[] = {
        SW_ERROR_NULL,  SW_ERROR_MISALIGNED, SW_ERROR_SIZE,   SW_ERROR_VERSION,    SW_ERROR_ARGUMENT,
        SW_ERROR_HANDLE, SW_ERROR_FRAME,     SW_ERROR_ENDED,  SW_RING_FULL,        SW_ERROR_CONFIG,
        SW_ERROR_IO,    SW_ERROR_FRAME_SIZE, SW_ERROR_RECORD, SW_ERROR_EXISTS,     SW_ERROR_LOCKED,
        SW_ERROR_FRAME_NUMBER, SW_ERROR_FORMAT};
    check_provoked(expected, sizeof expected / sizeof *expected);
    printf("%d wrong calls\n", calls);
    return failures > 0;
}
