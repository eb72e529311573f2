/* Buffers that a driver was told of up front: addresses stay the same, frames are committed by index, and a driver that
   fills its buffers in a fixed circle gets each of them back by asking for it. Two such drivers share the ring;
   afterwards a thread takes what it gets, also the buffers that were put aside for them, and so do appends. */

#include <pthread.h>
#include <shardwright.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checks.h"

enum { BUFFERS = 12, ROUNDS = 200 };
static sw_acquisition *acquisition;
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static uint64_t next_number;

static void *addresses[BUFFERS];

static void fill_and_commit(const sw_frame *frame) {
    /* A thread that slept with a number in its hand would come too late. */
    pthread_mutex_lock(&order);
    const uint64_t number = next_number++;
    if (frame->data != addresses[frame->index]) {
        fprintf(stderr, "buffer %u is elsewhere\n", frame->index);
        exit(1);
    }
    memset(frame->data, (int)(number % 253), frame->bytes);
    RIGHT(sw_commit_buffer(acquisition, frame->index, number, NULL));
    pthread_mutex_unlock(&order);
}

/* A driver with four buffers of its own, in a circle. */
static void *circle(void *first) {
    sw_frame frame;
    for (uint32_t at = 0; at < ROUNDS; at++) {
        RIGHT(sw_acquire_buffer(acquisition, *(const uint32_t *)first + at % 4, SW_FOREVER, &frame));
        fill_and_commit(&frame);
    }
    return NULL;
}

static void any(void) {
    sw_frame frame;
    for (uint32_t at = 0; at < ROUNDS; at++) {
        RIGHT(sw_acquire(acquisition, SW_FOREVER, &frame));
        fill_and_commit(&frame);
    }
}

/* Asking for the last buffer puts all others aside, and they are free for appends nevertheless, without a wait. */
static void appends(void) {
    static uint8_t pixels[64 * 64];
    sw_stats stats = {.size = sizeof stats};
    do RIGHT(sw_get_stats(acquisition, &stats));
    while (stats.ring_free < BUFFERS);
    sw_frame last;
    RIGHT(sw_acquire_buffer(acquisition, BUFFERS - 1, SW_FOREVER, &last));
    for (uint32_t at = 0; at < BUFFERS - 2; at++) {
        memset(pixels, (int)(next_number++ % 253), sizeof pixels);
        RIGHT(sw_append(acquisition, pixels, sizeof pixels, 0, NULL, 0, NULL));
    }
    RIGHT(sw_discard(acquisition, &last));
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    const sw_dim dims[] = {
        {.name = "t", .kind = SW_DIM_TIME, .chunk = 1, .shard = 50},
        {.name = "y", .kind = SW_DIM_SPACE, .size = 64},
        {.name = "x", .kind = SW_DIM_SPACE, .size = 64},
    };
    sw_config config;
    RIGHT(sw_config_init(&config, sizeof config));
    config.dtype = SW_U8;
    config.dims = dims;
    config.dim_count = 3;
    config.ring_bytes = BUFFERS * 4096;
    RIGHT(sw_create(argv[1], &config, &acquisition));
    size_t count;
    RIGHT(sw_buffers(acquisition, addresses, BUFFERS, &count));
    if (count != BUFFERS) return 1;
    for (size_t at = 0; at < count; at++)
        if ((uintptr_t)addresses[at] % 4096) return fprintf(stderr, "a buffer does not start on a page\n"), 1;
    static const uint32_t firsts[] = {0, 6};
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, circle, (void *)&firsts[0]);
    pthread_create(&threads[1], NULL, circle, (void *)&firsts[1]);
    for (int at = 0; at < 2; at++) pthread_join(threads[at], NULL);
    any();
    appends();
    sw_summary summary = {.size = sizeof summary};
    RIGHT(sw_finish(acquisition, SW_FOREVER, &summary));
    sw_stats stats = {.size = sizeof stats};
    RIGHT(sw_get_stats(acquisition, &stats));
    if (stats.ring_free != BUFFERS) return fprintf(stderr, "%d buffers are free\n", (int)stats.ring_free), 1;
    RIGHT(sw_free(acquisition));
    printf("%llu frames written, %llu missing\n", (unsigned long long)summary.frames_written,
           (unsigned long long)summary.frames_missing);
    return 0;
}
