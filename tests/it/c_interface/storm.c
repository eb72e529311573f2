/* Threads that do everything at once to one run after another: they acquire, commit in and out of order, append,
   discard, keep buffers, look, wait for events, close each other's descriptors, finish, abort and free. Each call must
   end, with a code that belongs to it, and the counters must agree with what was committed. */

#include <dirent.h>
#include <pthread.h>
#include <shardwright.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checks.h"

enum { BUFFERS = 12, SIDE = 32, CAMERAS = 3, WAITERS = 3, ENDERS = 2 };

static sw_acquisition *acquisition;
static _Atomic uint64_t committed;
static _Atomic int shared_descriptor;
static _Atomic int was_aborted, told_the_end;

static unsigned roll(unsigned *seed, unsigned sides) { return (unsigned)rand_r(seed) % sides; }

static int64_t limit(unsigned *seed) {
    const int64_t limits[] = {0, 1, 20, SW_FOREVER};
    return limits[roll(seed, 4)];
}

/* Whether a call tells that there is nothing more to do. */
static int is_over(sw_status status) {
    return status == SW_ERROR_ENDED || status == SW_ERROR_HANDLE;
}

#define ONE_OF(condition)                                                                                             \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, sw_status_name(status), sw_last_error());                  \
            abort();                                                                                                  \
        }                                                                                                             \
    } while (0)

static void *camera(void *argument) {
    unsigned seed = (unsigned)(size_t)argument, kept = 0;
    sw_status status;
    do {
        sw_frame frame;
        status = sw_acquire(acquisition, limit(&seed), &frame);
        ONE_OF(status == SW_OK || status == SW_RING_FULL || is_over(status));
        if (status != SW_OK) continue;
        memset(frame.data, (int)seed | 1, frame.bytes);
        unsigned what = roll(&seed, 100);
        if (what < 2 && kept < 2) {
            kept++;
            continue;
        }
        if (what < 10) {
            status = sw_discard(acquisition, &frame);
            ONE_OF(status == SW_OK || status == SW_ERROR_HANDLE);
            continue;
        }
        uint64_t number = SW_NEXT;
        if (what < 30) {
            sw_stats stats = {.size = sizeof stats};
            if (sw_get_stats(acquisition, &stats) == SW_OK) number = stats.frames_accepted + roll(&seed, 5);
        } else if (what == 31) {
            number = committed + 400;
        }
        status = sw_commit(acquisition, &frame, number, NULL);
        ONE_OF(status == SW_OK || status == SW_ERROR_FRAME_NUMBER || is_over(status));
        if (status == SW_OK) committed++;
        if (status != SW_ERROR_HANDLE) HOLDS(sw_commit(acquisition, &frame, SW_NEXT, NULL) != SW_OK);
    } while (!is_over(status));
    return NULL;
}

static void *appender(void *argument) {
    unsigned seed = (unsigned)(size_t)argument;
    static const unsigned char pixels[3 * SIDE * SIDE];
    sw_status status;
    do {
        sw_appended appended = {0};
        status = sw_append(acquisition, pixels, (1 + roll(&seed, 3)) * SIDE * SIDE, 0, NULL, limit(&seed), &appended);
        ONE_OF(status == SW_OK || status == SW_RING_FULL || is_over(status));
        if (status == SW_OK) committed += appended.frames;
    } while (!is_over(status));
    return NULL;
}

static void *waiter(void *argument) {
    unsigned seed = (unsigned)(size_t)argument;
    for (;;) {
        const sw_events wanted[] = {SW_EVENT_BUFFER_FREE, SW_EVENT_RING_HIGH, 63, SW_EVENT_DURABLE};
        int32_t descriptor;
        sw_events events = 0;
        sw_status status = sw_event_open(acquisition, wanted[roll(&seed, 4)], 0, &descriptor);
        ONE_OF(status == SW_OK || status == SW_ERROR_HANDLE);
        if (status == SW_ERROR_HANDLE) return NULL;
        /* Another thread may close it at once. */
        shared_descriptor = descriptor;
        do {
            status = sw_event_wait(acquisition, descriptor, limit(&seed), &events);
            ONE_OF(status == SW_OK || status == SW_TIMEOUT || status == SW_ERROR_ENDED ||
                   status == SW_ERROR_ARGUMENT || status == SW_ERROR_HANDLE);
        } while ((status == SW_OK || status == SW_TIMEOUT) && !(events & SW_EVENT_ENDED) && roll(&seed, 10));
        if (status == SW_ERROR_HANDLE) return NULL;
        status = sw_event_close(acquisition, descriptor);
        ONE_OF(status == SW_OK || status == SW_ERROR_ARGUMENT || status == SW_ERROR_HANDLE);
        if (status == SW_ERROR_HANDLE || (events & SW_EVENT_ENDED)) return NULL;
    }
}

static void *looker(void *argument) {
    unsigned seed = (unsigned)(size_t)argument;
    for (;;) {
        sw_stats stats = {.size = sizeof stats};
        sw_status status = sw_get_stats(acquisition, &stats);
        if (status == SW_ERROR_HANDLE) return NULL;
        ONE_OF(status == SW_OK && stats.frames_accepted >= stats.frames_written &&
               stats.frames_written >= stats.frames_durable && stats.ring_free <= BUFFERS);
        sw_latency latency = {.size = sizeof latency};
        status = sw_get_latency(acquisition, roll(&seed, 10), &latency);
        ONE_OF(status == SW_OK || status == SW_ERROR_HANDLE);
        status = sw_set_attribute(acquisition, "n", "1");
        ONE_OF(status == SW_OK || is_over(status));
        sw_summary summary = {.size = sizeof summary};
        status = sw_get_summary(acquisition, &summary);
        ONE_OF(status == SW_OK || status == SW_ERROR_NOT_ENDED || status == SW_ERROR_HANDLE);
        status = sw_first_error(acquisition);
        ONE_OF(status == SW_OK || status == SW_ABORTED || status == SW_ERROR_HANDLE);
        if (roll(&seed, 20) == 0) sw_event_close(acquisition, shared_descriptor);
        usleep(roll(&seed, 300));
    }
}

static void *ender(void *argument) {
    unsigned seed = (unsigned)(size_t)argument;
    usleep(roll(&seed, 40000));
    sw_status status;
    do {
        if (roll(&seed, 4) == 0) {
            was_aborted = 1;
            status = sw_abort(acquisition, limit(&seed));
            ONE_OF(status == SW_OK || status == SW_TIMEOUT || status == SW_ERROR_HANDLE);
        } else {
            sw_summary summary = {.size = sizeof summary};
            status = sw_finish(acquisition, limit(&seed), &summary);
            ONE_OF(status == SW_OK || status == SW_TIMEOUT || status == SW_ERROR_BUSY || status == SW_ABORTED ||
                   is_over(status));
        }
        if (status == SW_ERROR_BUSY) usleep(200);
    } while (status == SW_TIMEOUT || status == SW_ERROR_BUSY);
    return NULL;
}

static void hears(void *context, sw_events events) {
    HOLDS(context == &told_the_end);
    if (events & SW_EVENT_ENDED) told_the_end = 1;
    sw_stats stats = {.size = sizeof stats};
    /* It may have been freed by now: whoever frees it waits for this thread. */
    sw_status status = sw_get_stats(acquisition, &stats);
    ONE_OF(status == SW_OK || status == SW_ERROR_HANDLE);
    status = sw_abort(acquisition, SW_FOREVER);
    ONE_OF(status == SW_ERROR_BUSY || status == SW_ERROR_HANDLE);
    status = sw_free(acquisition);
    ONE_OF(status == SW_ERROR_BUSY || status == SW_ERROR_HANDLE);
}

static unsigned descriptors(void) {
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

static void storm(const char *folder, unsigned round) {
    const sw_dim dims[] = {
        {.name = "t", .kind = SW_DIM_TIME, .chunk = 1 + round % 3, .shard = 12},
        {.name = "y", .kind = SW_DIM_SPACE, .size = SIDE},
        {.name = "x", .kind = SW_DIM_SPACE, .size = SIDE},
    };
    sw_config config;
    RIGHT(sw_config_init(&config, sizeof config));
    config.dtype = SW_U8;
    config.dims = dims;
    config.dim_count = 3;
    config.ring_bytes = BUFFERS * 4096;
    config.checkpoint_every_ms = 10;
    config.workers = 1 + round % 2;
    config.sync = round % 2;
    char path[4096];
    snprintf(path, sizeof path, "%s/%u.zarr", folder, round);
    RIGHT(sw_create(path, &config, &acquisition));
    committed = was_aborted = told_the_end = 0;
    shared_descriptor = -1;
    RIGHT(sw_on_event(acquisition, SW_EVENT_RING_HIGH | SW_EVENT_DURABLE | SW_EVENT_ENDED, 0, hears, &told_the_end));

    pthread_t threads[CAMERAS + 1 + WAITERS + 1 + ENDERS];
    void *(*const bodies[])(void *) = {camera, camera, camera, appender, waiter, waiter, waiter, looker, ender, ender};
    const unsigned count = sizeof threads / sizeof *threads;
    for (size_t at = 0; at < count; at++) {
        HOLDS(!pthread_create(&threads[at], NULL, bodies[at], (void *)(100 * (round + 1) + at)));
    }
    sw_summary summary = {.size = sizeof summary};
    sw_status status;
    while ((status = sw_get_summary(acquisition, &summary)) == SW_ERROR_NOT_ENDED) usleep(500);
    HOLDS(status == SW_OK && summary.frames_written <= summary.frames_accepted);
    while ((status = sw_free(acquisition)) == SW_ERROR_BUSY) usleep(200);
    ONE_OF(status == SW_OK);
    for (size_t at = 0; at < count; at++) pthread_join(threads[at], NULL);
    HOLDS(told_the_end);
    HOLDS(summary.frames_accepted == committed);
    HOLDS(was_aborted || summary.frames_written == committed);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    unsigned rounds = (unsigned)atoi(argv[2]), before = descriptors();
    for (unsigned round = 0; round < rounds; round++) {
        /* A round takes some tens of milliseconds; one that hangs ends the program. */
        alarm(120);
        storm(argv[1], round);
    }
    HOLDS(descriptors() == before);
    printf("%u storms\n", rounds);
    return 0;
}
