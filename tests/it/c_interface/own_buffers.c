/* A ring in memory of the program's own: huge pages where the system has some, else ordinary ones that may become huge.
   Wrong buffers are refused, and stay the program's. */

#define _GNU_SOURCE
#include <shardwright.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "checks.h"

enum { BUFFERS = 8, FRAMES = 100, ROWS = 256, COLUMNS = 512, BYTES = ROWS * COLUMNS };

static int released;
static sw_acquisition *freed, *other, *again;
static sw_config next;
static char place[1024];

static const char *beside(const char *path, const char *ending) {
    snprintf(place, sizeof place, "%s.%s", path, ending);
    return place;
}

/* The freed run is none any more, no other run ends here, and the buffers can be used at once. */
static void release(void *context) {
    HOLDS(context == &released);
    released++;
    sw_stats stats = {.size = sizeof stats};
    HOLDS(sw_free(freed) == SW_ERROR_HANDLE && sw_get_stats(freed, &stats) == SW_ERROR_HANDLE);
    HOLDS(sw_close(freed) == SW_ERROR_HANDLE && sw_abort(freed, 0) == SW_ERROR_HANDLE);
    HOLDS(sw_close(other) == SW_ERROR_BUSY && sw_finish(other, 0, NULL) == SW_ERROR_BUSY);
    HOLDS(sw_abort(other, 0) == SW_ERROR_BUSY && sw_free(other) == SW_ERROR_BUSY);
    HOLDS(sw_finish_all(&other, 1, 0) == SW_ERROR_BUSY && sw_set_log(SW_LOG_NONE, NULL, NULL) == SW_ERROR_BUSY);
    RIGHT(sw_get_stats(other, &stats));
    RIGHT(sw_create(place, &next, &again));
}

static unsigned char *get_memory(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (memory == MAP_FAILED) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        HOLDS(memory != MAP_FAILED);
        madvise(memory, bytes, MADV_HUGEPAGE);
    }
    return memory;
}

static const sw_dim dims[] = {
    {.name = "t", .kind = SW_DIM_TIME, .chunk = 1, .shard = 20},
    {.name = "y", .kind = SW_DIM_SPACE, .size = ROWS},
    {.name = "x", .kind = SW_DIM_SPACE, .size = COLUMNS},
};

static sw_config config_with(void **buffers, size_t count, size_t bytes) {
    sw_config config;
    RIGHT(sw_config_init(&config, sizeof config));
    config.dtype = SW_U8;
    config.dims = dims;
    config.dim_count = 3;
    /* Of no meaning here. */
    config.ring_bytes = 1;
    config.workers = 2;
    config.own_buffers = buffers;
    config.own_buffer_count = count;
    config.own_buffer_bytes = bytes;
    config.own_buffers_release = release;
    config.own_buffers_context = &released;
    return config;
}

static void refused(const char *path, sw_config config, sw_status expected, const char *text) {
    sw_acquisition *acquisition = NULL;
    HOLDS(sw_create(path, &config, &acquisition) == expected && acquisition == NULL);
    if (!strstr(sw_last_error(), text)) {
        fprintf(stderr, "not a word of \"%s\": %s\n", text, sw_last_error());
        exit(1);
    }
    HOLDS(released == 0);
}

static void fill(unsigned char *pixels, uint64_t number) {
    for (size_t at = 0; at < BYTES; at++) pixels[at] = (unsigned char)(number * 7 + at % 509 + at / 4096);
}

static void run(const char *path, sw_compressor compressor, sw_storage_kind storage) {
    /* Not in their order, and with gaps: each is a buffer of its own. */
    const size_t stride = BYTES + 8192;
    unsigned char *memory = get_memory(((BUFFERS * stride >> 21) + 1) << 21);
    void *buffers[BUFFERS];
    for (size_t at = 0; at < BUFFERS; at++) buffers[at] = memory + (at * 5 % BUFFERS) * stride;
    sw_config config = config_with(buffers, BUFFERS, BYTES + 100);
    config.compressor = compressor;
    config.storage = storage;
    sw_memory needed = {.size = sizeof needed};
    RIGHT(sw_memory_needed(&config, &needed));
    HOLDS(needed.ring_bytes == 0 && needed.total_bytes > 0);
    sw_acquisition *acquisition;
    released = 0;
    RIGHT(sw_create(path, &config, &acquisition));
    void *addresses[BUFFERS];
    size_t count;
    RIGHT(sw_buffers(acquisition, addresses, BUFFERS, &count));
    HOLDS(count == BUFFERS && !memcmp(addresses, buffers, sizeof buffers));
    /* As long as the run has them, they are no other's. */
    refused("never.zarr", config, SW_ERROR_CONFIG, "another run of this process has the buffer");
    for (uint64_t number = 0; number < FRAMES; number++) {
        sw_frame frame;
        RIGHT(sw_acquire(acquisition, SW_FOREVER, &frame));
        HOLDS(frame.data == buffers[frame.index] && frame.bytes == BYTES);
        fill(frame.data, number);
        RIGHT(sw_commit(acquisition, &frame, number, NULL));
    }
    sw_summary summary = {.size = sizeof summary};
    RIGHT(sw_finish(acquisition, SW_FOREVER, &summary));
    HOLDS(summary.frames_written == FRAMES && released == 0);
    next = config, next.own_buffers_release = NULL;
    sw_config own = config_with(NULL, 0, 0);
    own.own_buffers_release = NULL, own.ring_bytes = 8 << 20;
    RIGHT(sw_create(beside(path, "other"), &own, &other));
    beside(path, "again");
    freed = acquisition;
    RIGHT(sw_free(acquisition));
    HOLDS(released == 1);
    sw_acquisition *ends[] = {other, again};
    for (size_t at = 0; at < 2; at++) {
        RIGHT(sw_abort(ends[at], SW_FOREVER));
        RIGHT(sw_free(ends[at]));
    }
    HOLDS(released == 1);
    HOLDS(!munmap(memory, ((BUFFERS * stride >> 21) + 1) << 21));
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    unsigned char *memory = get_memory(4 << 20);
    void *buffers[BUFFERS];
#define EACH(place)                                                                                                   \
    for (size_t at = 0; at < BUFFERS; at++) buffers[at] = (place)
    EACH(memory + at * BYTES);
    refused(argv[1], config_with(buffers, BUFFERS, BYTES + 1), SW_ERROR_CONFIG, "overlap");
    EACH(memory + at * 2 * BYTES);
    refused(argv[1], config_with(buffers, BUFFERS, BYTES - 1), SW_ERROR_CONFIG, "a frame's buffer needs 131072 bytes");
    refused(argv[1], config_with(buffers, BUFFERS, 2 * BYTES + 1), SW_ERROR_CONFIG, "overlap");
    refused(argv[1], config_with(buffers, BUFFERS, SIZE_MAX), SW_ERROR_CONFIG, "does not fit");
    refused(argv[1], config_with(buffers, BUFFERS, 0), SW_ERROR_CONFIG, "0 bytes");
    refused(argv[1], config_with(buffers, 2, BYTES), SW_ERROR_CONFIG, "2 buffers");
    refused(argv[1], config_with(buffers, 0, BYTES), SW_ERROR_ARGUMENT, "own_buffer_count");
    refused(argv[1], config_with(NULL, BUFFERS, BYTES), SW_ERROR_NULL, "own_buffers is null");
    refused(argv[1], config_with(NULL, 0, BYTES), SW_ERROR_ARGUMENT, "own_buffer_bytes = ");
    refused(argv[1], config_with(NULL, 0, 0), SW_ERROR_ARGUMENT, "own_buffers_release is set");
    EACH(memory + at * 2 * BYTES + (at == 3 ? 64 : 0));
    refused(argv[1], config_with(buffers, BUFFERS, BYTES), SW_ERROR_CONFIG,
            "buffer 3 must start on a multiple of 4096");
    EACH(at == 5 ? NULL : memory + at * 2 * BYTES);
    refused(argv[1], config_with(buffers, BUFFERS, BYTES), SW_ERROR_NULL, "one of sw_config.own_buffers is null");
    /* A run that does not come about leaves them to the program. */
    EACH(memory + at * 2 * BYTES);
    refused("/proc/no such folder/a", config_with(buffers, BUFFERS, BYTES), SW_ERROR_IO, "/proc");
    HOLDS(!munmap(memory, 4 << 20));

    run(argv[1], SW_COMPRESSOR_BLOSC, SW_STORAGE_AUTO);
    run(argv[2], SW_COMPRESSOR_NONE, SW_STORAGE_BUFFERED);
    run(argv[3], SW_COMPRESSOR_NONE, SW_STORAGE_DIRECT);
    printf("%d frames\n", FRAMES);
    return 0;
}
