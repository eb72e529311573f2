/* A program of which one thread ends a run while another waits for its end: the one that waits hears that frames are
   lost. */

#include <pthread.h>
#include <shardwright.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SIDE 512

/* Fewer, if a number is given: some programs look at each instruction. */
static unsigned frames = 60;

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, sw_last_error());
    return 1;
}

static void *abort_soon(void *acquisition) {
    const struct timespec soon = {.tv_nsec = 100 * 1000 * 1000};
    nanosleep(&soon, NULL);
    return sw_abort(acquisition, SW_FOREVER) == SW_OK ? NULL : acquisition;
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 3) return 2;
    if (argc == 3) frames = (unsigned)strtoul(argv[2], NULL, 10);
    const sw_dim dims[] = {
        {.name = "t", .kind = SW_DIM_TIME, .chunk = 1, .shard = 64},
        {.name = "y", .kind = SW_DIM_SPACE, .size = SIDE},
        {.name = "x", .kind = SW_DIM_SPACE, .size = SIDE},
    };
    sw_config config;
    if (sw_config_init(&config, sizeof config)) return failed("init");
    config.dtype = SW_U8;
    config.ring_bytes = (uint64_t)(frames + 4) * SIDE * SIDE;
    config.dims = dims;
    config.dim_count = 3;
    /* So slow that most frames are in the ring still when the run is ended. */
    config.compressor = SW_COMPRESSOR_ZSTD;
    config.level = 16;
    config.workers = 1;

    /* Made before the run begins: on a busy machine, the worker would catch up with whoever makes them meanwhile. */
    uint8_t *pixels = malloc(SIDE * SIDE);
    if (!pixels) return 3;
    for (unsigned at = 0; at < SIDE * SIDE; at++) pixels[at] = (uint8_t)(rand() >> (at % 3 * 4 + 4));
    sw_acquisition *acquisition;
    if (sw_create(argv[1], &config, &acquisition)) return failed("create");
    for (unsigned number = 0; number < frames; number++) {
        sw_appended appended;
        if (sw_append(acquisition, pixels, SIDE * SIDE, 0, NULL, SW_FOREVER, &appended)) return failed("append");
    }
    free(pixels);
    pthread_t thread;
    void *outcome = NULL;
    if (pthread_create(&thread, NULL, abort_soon, acquisition)) return 4;
    sw_summary summary = {.size = sizeof summary};
    const int status = sw_finish(acquisition, SW_FOREVER, &summary);
    pthread_join(thread, &outcome);
    if (outcome) return failed("abort");
    if (status != SW_ABORTED || !strstr(sw_last_error(), "aborted")) {
        fprintf(stderr, "finish returned %d: %s\n", status, sw_last_error());
        return 1;
    }
    summary.size = sizeof summary;
    if (sw_get_summary(acquisition, &summary)) return failed("summary");
    if (summary.frames_accepted != frames || summary.frames_written >= frames) return 5;
    if (summary.frames_written + summary.frames_missing != frames) return 6;
    return sw_free(acquisition) ? failed("free") : 0;
}
