/* The C side of benches/capi.rs: acquires, fills and commits as fast as it can, and prints one line of JSON.

   capi FRAMES_FILE OUTPUT SIDE COUNT RING_BYTES COMPRESSOR FRAMES_A_CHUNK

   An OUTPUT of - throws away what is written. */

#include <shardwright.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int by_size(const void *one, const void *two) {
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)two;
    return (a > b) - (a < b);
}

static void must(sw_status status, const char *what) {
    if (status == SW_OK) return;
    fprintf(stderr, "%s: %s\n", what, sw_last_error());
    exit(1);
}

/* A storage that keeps nothing. */
static int32_t create(void *context, const char *key, uint64_t bytes, void **blob) {
    (void)key, (void)bytes;
    *blob = context;
    return 0;
}

static int32_t put(void *context, const char *key, const void *data, size_t bytes) {
    (void)context, (void)key, (void)data, (void)bytes;
    return 0;
}

static int32_t write_at(void *context, void *blob, uint64_t offset, const void *data, size_t bytes) {
    (void)context, (void)blob, (void)offset, (void)data, (void)bytes;
    return 0;
}

static int32_t finish(void *context, void *blob, uint64_t bytes) {
    (void)context, (void)blob, (void)bytes;
    return 0;
}

static const sw_storage nowhere = {
    .size = sizeof nowhere, .context = (void *)&nowhere,
    .create = create, .put = put, .write_at = write_at, .finish = finish,
};

int main(int argc, char **argv) {
    if (argc != 8) return 2;
    const uint64_t side = strtoull(argv[3], NULL, 10), count = strtoull(argv[4], NULL, 10);
    const size_t bytes = side * side * 2;
    FILE *file = fopen(argv[1], "rb");
    uint8_t *frames = malloc(8 * bytes);
    uint64_t *times = malloc(count * sizeof *times);
    if (!file || !frames || !times || fread(frames, bytes, 8, file) != 8) return 1;
    memset(times, 0, count * sizeof *times);

    const sw_dim dims[] = {
        {.name = "t", .kind = SW_DIM_TIME, .chunk = strtoull(argv[7], NULL, 10), .shard = 64},
        {.name = "y", .kind = SW_DIM_SPACE, .size = side},
        {.name = "x", .kind = SW_DIM_SPACE, .size = side},
    };
    sw_config config;
    must(sw_config_init(&config, sizeof config), "init");
    config.dims = dims;
    config.dim_count = 3;
    config.ring_bytes = strtoull(argv[5], NULL, 10);
    config.compressor = (sw_compressor)strtoul(argv[6], NULL, 10);
    config.overwrite = 1;
    sw_acquisition *acquisition;
    if (strcmp(argv[2], "-")) {
        must(sw_create(argv[2], &config, &acquisition), "create");
    } else {
        must(sw_create_in(&nowhere, &config, &acquisition), "create");
    }

    const uint64_t start = now_ns();
    for (uint64_t number = 0; number < count; number++) {
        sw_frame frame;
        const uint64_t before = now_ns();
        must(sw_acquire(acquisition, SW_FOREVER, &frame), "acquire");
        const uint64_t acquired = now_ns();
        memcpy(frame.data, frames + number % 8 * bytes, bytes);
        const uint64_t filled = now_ns();
        must(sw_commit(acquisition, &frame, number, NULL), "commit");
        times[number] = acquired - before + (now_ns() - filled);
    }
    must(sw_finish(acquisition, SW_FOREVER, NULL), "finish");
    const double seconds = (double)(now_ns() - start) / 1e9;
    must(sw_free(acquisition), "free");
    qsort(times, count, sizeof *times, by_size);
    printf("{\"bytes_per_second\": %.0f, \"p50_ns\": %llu, \"p99_ns\": %llu}\n", (double)(count * bytes) / seconds,
           (unsigned long long)times[count / 2], (unsigned long long)times[count * 99 / 100]);
    return 0;
}
