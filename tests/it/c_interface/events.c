/* A camera that never asks whether a buffer is free, and a program that waits for everything else in one poll: it
   brings frames through a ring of few buffers by events alone, and hears of shards, durable frames, the level of the
   ring and the end of the run. */

#include <poll.h>
#include <pthread.h>
#include <shardwright.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checks.h"

enum { BUFFERS = 6, SIDE = 64 };

/* Fewer, if a number is given: some programs look at each instruction. */
static uint64_t frames = 20000;
static sw_acquisition *acquisition;
static _Atomic unsigned called;

static void hears(void *context, sw_events events) {
    HOLDS(context == &called);
    /* A thread of the run may be the one that calls; none waits for its own end. */
    HOLDS(sw_finish(acquisition, SW_FOREVER, NULL) == SW_ERROR_BUSY);
    called |= events;
}

static void *camera(void *none) {
    int32_t descriptor;
    unsigned waits = 0;
    RIGHT(sw_event_open(acquisition, SW_EVENT_BUFFER_FREE | SW_EVENT_ERROR, 0, &descriptor));
    struct pollfd asked = {.fd = descriptor, .events = POLLIN};
    for (uint64_t number = 0; number < frames; number++) {
        sw_frame frame;
        sw_status status;
        while ((status = sw_acquire(acquisition, 0, &frame)) == SW_RING_FULL) {
            /* Half a minute without a buffer: a wake-up was lost. */
            HOLDS(poll(&asked, 1, 30000) == 1);
            sw_events events = 0;
            status = sw_event_wait(acquisition, descriptor, 0, &events);
            HOLDS(status == SW_TIMEOUT || (status == SW_OK && events == SW_EVENT_BUFFER_FREE));
            waits++;
        }
        RIGHT(status);
        memset(frame.data, (int)(number % 251) + 1, frame.bytes);
        RIGHT(sw_commit(acquisition, &frame, number, NULL));
    }
    HOLDS(waits > 0);
    RIGHT(sw_event_close(acquisition, descriptor));
    HOLDS(sw_event_close(acquisition, descriptor) == SW_ERROR_ARGUMENT);
    return none;
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 3) return 2;
    if (argc == 3) frames = strtoull(argv[2], NULL, 10);
    const sw_dim dims[] = {
        {.name = "t", .kind = SW_DIM_TIME, .chunk = 1, .shard = 500},
        {.name = "y", .kind = SW_DIM_SPACE, .size = SIDE},
        {.name = "x", .kind = SW_DIM_SPACE, .size = SIDE},
    };
    sw_config config;
    RIGHT(sw_config_init(&config, sizeof config));
    config.dtype = SW_U8;
    config.dims = dims;
    config.dim_count = 3;
    config.ring_bytes = BUFFERS * 4096;
    config.checkpoint_every_ms = 20;
    config.workers = 1;
    RIGHT(sw_create(argv[1], &config, &acquisition));

    int32_t descriptor = -7;
    HOLDS(sw_event_open(acquisition, 0, 0, &descriptor) == SW_ERROR_ARGUMENT);
    HOLDS(sw_event_open(acquisition, 64, 0, &descriptor) == SW_ERROR_ARGUMENT);
    HOLDS(sw_event_open(acquisition, SW_EVENT_RING_HIGH, BUFFERS + 1, &descriptor) == SW_ERROR_CONFIG);
    HOLDS(sw_event_open(acquisition, SW_EVENT_RING_HIGH, 0, NULL) == SW_ERROR_NULL && descriptor == -7);
    HOLDS(sw_on_event(acquisition, SW_EVENT_ENDED, 0, NULL, NULL) == SW_ERROR_NULL);
    RIGHT(sw_on_event(acquisition, SW_EVENT_RING_HIGH | SW_EVENT_ENDED, BUFFERS, hears, &called));
    const sw_events all = SW_EVENT_RING_HIGH | SW_EVENT_DURABLE | SW_EVENT_SHARD_CLOSED | SW_EVENT_ENDED;
    RIGHT(sw_event_open(acquisition, all, BUFFERS / 2, &descriptor));
    sw_events events = 99;
    HOLDS(sw_event_wait(acquisition, descriptor, 1, &events) == SW_TIMEOUT && events == 99);
    HOLDS(sw_event_wait(acquisition, descriptor, SW_AS_CONFIGURED, &events) == SW_ERROR_ARGUMENT);
    HOLDS(sw_event_wait(acquisition, descriptor + 1000, 1, &events) == SW_ERROR_ARGUMENT);
    HOLDS(sw_event_wait(acquisition, descriptor, 1, NULL) == SW_ERROR_NULL);

    pthread_t thread;
    HOLDS(!pthread_create(&thread, NULL, camera, NULL));
    sw_events seen = 0;
    while ((seen & (SW_EVENT_RING_HIGH | SW_EVENT_DURABLE | SW_EVENT_SHARD_CLOSED)) !=
           (SW_EVENT_RING_HIGH | SW_EVENT_DURABLE | SW_EVENT_SHARD_CLOSED)) {
        RIGHT(sw_event_wait(acquisition, descriptor, 30000, &events));
        HOLDS(!(events & SW_EVENT_ENDED));
        seen |= events;
    }
    sw_stats stats = {.size = sizeof stats};
    RIGHT(sw_get_stats(acquisition, &stats));
    HOLDS(stats.frames_durable > 0 && stats.shards_closed > 0);
    pthread_join(thread, NULL);

    /* The end, without a thread that waits for it. */
    sw_summary summary = {.size = sizeof summary};
    sw_status status = sw_finish(acquisition, 0, &summary);
    while (status == SW_TIMEOUT) {
        RIGHT(sw_event_wait(acquisition, descriptor, 30000, &events));
        /* Whoever hears of the end does not wait any more. */
        if (events & SW_EVENT_ENDED) {
            status = sw_finish(acquisition, 0, &summary);
            HOLDS(status != SW_TIMEOUT);
        }
    }
    RIGHT(status);
    HOLDS(summary.frames_written == frames && summary.frames_durable == frames);
    RIGHT(sw_get_stats(acquisition, &stats));
    HOLDS(stats.frames_durable == frames);
    /* Who comes late hears of what was. */
    int32_t late;
    RIGHT(sw_event_open(acquisition, SW_EVENT_ENDED | SW_EVENT_DURABLE | SW_EVENT_ERROR, 0, &late));
    RIGHT(sw_event_wait(acquisition, late, 0, &events));
    HOLDS(events == (SW_EVENT_ENDED | SW_EVENT_DURABLE));
    uint64_t frame = 5;
    HOLDS(sw_first_error(acquisition) == SW_OK);
    HOLDS(sw_first_error_frame(acquisition, &frame) == SW_ERROR_NOT_FOUND && frame == 5);
    RIGHT(sw_free(acquisition));
    HOLDS(called == (SW_EVENT_RING_HIGH | SW_EVENT_ENDED));
    /* The library closed what it opened. */
    HOLDS(write(late, "", 0) == -1 && write(descriptor, "", 0) == -1);
    printf("%llu frames\n", (unsigned long long)frames);
    return 0;
}
