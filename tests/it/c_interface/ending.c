/* The end of a run, asked for where it can't be waited for, and those who wait for something else meanwhile. */

#include <poll.h>
#include <pthread.h>
#include <shardwright.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checks.h"

static sw_acquisition *acquisition;
static atomic_int calls, status_of_wait = -1;
/* The run has been created: before, there is none to end. */
static atomic_int runs;
static atomic_uint events_of_wait;

static sw_dim dims[3] = {
    {.name = "t", .kind = SW_DIM_TIME, .chunk = 4, .shard = 8},
    {.name = "y", .kind = SW_DIM_SPACE, .size = 64},
    {.name = "x", .kind = SW_DIM_SPACE, .size = 64},
};

static sw_config good(void) {
    sw_config config;
    HOLDS(sw_config_init(&config, sizeof config) == SW_OK);
    config.dtype = SW_U8, config.dims = dims, config.dim_count = 3, config.ring_bytes = 1 << 18, config.workers = 1;
    return config;
}

static void bring(int frames) {
    for (int at = 0; at < frames; at++) {
        sw_frame frame;
        HOLDS(sw_acquire(acquisition, 10000, &frame) == SW_OK);
        memset(frame.data, at + 1, frame.bytes);
        HOLDS(sw_commit(acquisition, &frame, SW_NEXT, NULL) == SW_OK);
    }
}

static void is_refused(void) {
    HOLDS(sw_finish(acquisition, SW_FOREVER, NULL) == SW_ERROR_BUSY);
    HOLDS(sw_abort(acquisition, SW_FOREVER) == SW_ERROR_BUSY);
    HOLDS(sw_free(acquisition) == SW_ERROR_BUSY);
    calls++;
}

static void ended(void *context, sw_events events) {
    (void)context;
    if (events & SW_EVENT_ENDED) is_refused();
}

static void *waits(void *descriptor) {
    sw_events events = 0;
    status_of_wait = sw_event_wait(acquisition, *(int32_t *)descriptor, SW_FOREVER, &events);
    events_of_wait = events;
    return NULL;
}

/* An acquisition is freed in the callback that tells of its end; a thread waits for errors, which never come. */
static void ends_by_events(const char *path) {
    sw_config config = good();
    HOLDS(sw_create(path, &config, &acquisition) == SW_OK);
    HOLDS(sw_on_event(acquisition, SW_EVENT_ENDED, 0, ended, NULL) == SW_OK);
    int32_t descriptor;
    HOLDS(sw_event_open(acquisition, SW_EVENT_ERROR, 0, &descriptor) == SW_OK);
    pthread_t thread;
    HOLDS(pthread_create(&thread, NULL, waits, &descriptor) == 0);
    bring(20);
    HOLDS(sw_finish(acquisition, 0, NULL) == SW_TIMEOUT);
    alarm(60);
    HOLDS(pthread_join(thread, NULL) == 0);
    HOLDS(status_of_wait == SW_OK && events_of_wait == SW_EVENT_ENDED);
    sw_events events;
    HOLDS(sw_event_wait(acquisition, descriptor, 0, &events) == SW_TIMEOUT);
    HOLDS(sw_event_wait(acquisition, descriptor, SW_FOREVER, &events) == SW_OK && events == SW_EVENT_ENDED);
    while (calls == 0) usleep(1000);
    HOLDS(sw_event_close(acquisition, descriptor) == SW_OK);
    HOLDS(sw_finish(acquisition, SW_FOREVER, NULL) == SW_OK);
    HOLDS(sw_free(acquisition) == SW_OK);
}

static int32_t create(void *context, const char *key, uint64_t bytes, void **blob) {
    (void)context, (void)key, (void)bytes;
    *blob = blob;
    return 0;
}
static int32_t put(void *context, const char *key, const void *data, size_t bytes) {
    (void)context, (void)key, (void)data, (void)bytes;
    return 0;
}
static int32_t write_at(void *context, void *blob, uint64_t offset, const void *data, size_t bytes) {
    (void)context, (void)blob, (void)offset, (void)data, (void)bytes;
    if (runs && atomic_fetch_add((atomic_int *)context, 1) == 0) is_refused();
    return 0;
}
static int32_t cut(void *context, void *blob, uint64_t bytes) {
    (void)context, (void)blob, (void)bytes;
    return 0;
}

/* Who has waited for the end finds it told already, and once, so that a loop which fetches all comes to its end. */
static void tells_before_it_returns(void) {
    const sw_storage storage = {
        .size = sizeof storage, .create = create, .put = put, .write_at = write_at, .finish = cut};
    sw_config config = good();
    for (int round = 0; round < 40; round++) {
        HOLDS(sw_create_in(&storage, &config, &acquisition) == SW_OK);
        int32_t descriptor;
        HOLDS(sw_event_open(acquisition, SW_EVENT_ENDED, 0, &descriptor) == SW_OK);
        bring(2);
        const sw_status status = round % 2 ? sw_abort(acquisition, 60000) : sw_finish(acquisition, SW_FOREVER, NULL);
        HOLDS(status == SW_OK);
        struct pollfd asked = {.fd = descriptor, .events = POLLIN};
        HOLDS(poll(&asked, 1, 0) == 1);
        sw_events events = 0;
        HOLDS(sw_event_wait(acquisition, descriptor, 0, &events) == SW_OK && events == SW_EVENT_ENDED);
        HOLDS(sw_event_wait(acquisition, descriptor, 0, &events) == SW_TIMEOUT);
        HOLDS(sw_free(acquisition) == SW_OK);
    }
}

static atomic_int closed_waits;

static void *waits_for_nothing(void *descriptor) {
    sw_events events = 77;
    sw_status status = sw_event_wait(acquisition, *(int32_t *)descriptor, SW_FOREVER, &events);
    /* It was not in the call yet when it was closed. */
    if (status == SW_ERROR_ARGUMENT) return NULL;
    HOLDS(status == SW_ERROR_ENDED && events == 77);
    closed_waits++;
    return NULL;
}

/* Two wait by one descriptor when it is closed; and two by another when the run ends. */
static void wakes_all_who_wait(void) {
    sw_config config = good();
    sw_storage storage = {
        .size = sizeof storage, .create = create, .put = put, .write_at = write_at, .finish = cut};
    HOLDS(sw_create_in(&storage, &config, &acquisition) == SW_OK);
    alarm(60);
    int32_t descriptor, other;
    pthread_t threads[2];
    /* Until both were in the call when it was closed, which a busy machine may take longer for. */
    for (int round = 1; closed_waits < 2; round++) {
        closed_waits = 0;
        HOLDS(sw_event_open(acquisition, SW_EVENT_ERROR, 0, &descriptor) == SW_OK);
        for (int at = 0; at < 2; at++) HOLDS(pthread_create(&threads[at], NULL, waits_for_nothing, &descriptor) == 0);
        usleep(20000 * round);
        HOLDS(sw_event_close(acquisition, descriptor) == SW_OK);
        for (int at = 0; at < 2; at++) HOLDS(pthread_join(threads[at], NULL) == 0);
    }
    HOLDS(sw_event_close(acquisition, descriptor) == SW_ERROR_ARGUMENT);
    HOLDS(sw_event_open(acquisition, SW_EVENT_ERROR, 0, &other) == SW_OK);
    for (int at = 0; at < 2; at++) HOLDS(pthread_create(&threads[at], NULL, waits, &other) == 0);
    usleep(50000);
    HOLDS(sw_finish(acquisition, SW_FOREVER, NULL) == SW_OK);
    for (int at = 0; at < 2; at++) HOLDS(pthread_join(threads[at], NULL) == 0);
    HOLDS(status_of_wait == SW_OK && events_of_wait == SW_EVENT_ENDED);
    HOLDS(sw_free(acquisition) == SW_OK);
}

/* A storage's function may not end its run: it would wait for itself. */
static void ends_within_storage(void) {
    atomic_int writes = 0;
    const sw_storage storage = {
        .size = sizeof storage, .context = &writes, .create = create, .put = put, .write_at = write_at, .finish = cut};
    sw_config config = good();
    calls = 0;
    HOLDS(sw_create_in(&storage, &config, &acquisition) == SW_OK);
    runs = 1;
    bring(20);
    alarm(60);
    HOLDS(sw_finish(acquisition, SW_FOREVER, NULL) == SW_OK && calls == 1);
    runs = 0;
    HOLDS(sw_free(acquisition) == SW_OK);
}

static int32_t no_write(void *context, void *blob, uint64_t offset, const void *data, size_t bytes) {
    (void)context, (void)blob, (void)offset, (void)data, (void)bytes;
    return runs ? 5 : 0;
}

/* What was lost is missing in the counters as in the summary; no frame is named that never came. */
static void counts_what_was_lost(void) {
    const sw_storage storage = {
        .size = sizeof storage, .create = create, .put = put, .write_at = no_write, .finish = cut};
    sw_config config = good();
    HOLDS(sw_create_in(&storage, &config, &acquisition) == SW_OK);
    runs = 1;
    sw_frame frame;
    for (int at = 0; at < 3; at++) {
        HOLDS(sw_acquire(acquisition, 10000, &frame) == SW_OK);
        memset(frame.data, 7, frame.bytes);
        HOLDS(sw_commit(acquisition, &frame, SW_NEXT, NULL) == SW_OK);
    }
    HOLDS(sw_finish(acquisition, SW_FOREVER, NULL) == SW_ERROR_IO);
    sw_summary summary = {.size = sizeof summary};
    sw_stats stats = {.size = sizeof stats};
    HOLDS(sw_get_summary(acquisition, &summary) == SW_OK && sw_get_stats(acquisition, &stats) == SW_OK);
    HOLDS(summary.frames_missing == 3 && stats.frames_missing == 3);
    uint64_t number = 0;
    sw_status status = sw_first_error_frame(acquisition, &number);
    HOLDS(status == SW_ERROR_NOT_FOUND || (status == SW_OK && number < 3));
    HOLDS(sw_free(acquisition) == SW_OK);
}

/* A run that ends without a frame gives back what it was to replace: here, the frames of the run before. */
static void gives_back_what_it_was_to_replace(const char *path) {
    sw_config config = good();
    config.overwrite = 1;
    for (int together = 0; together < 2; together++) {
        HOLDS(sw_create(path, &config, &acquisition) == SW_OK);
        const sw_status status =
            together ? sw_finish_all(&acquisition, 1, SW_FOREVER) : sw_finish(acquisition, SW_FOREVER, NULL);
        HOLDS(status == SW_OK);
        char shard[4096], summary[65536];
        HOLDS(snprintf(shard, sizeof shard, "%s/0/c/0/0/0", path) < (int)sizeof shard);
        HOLDS(access(shard, F_OK) == 0);
        HOLDS(sw_summary_json(acquisition, summary, sizeof summary, NULL) == SW_OK);
        HOLDS(strstr(summary, "the dataset that it was to replace is back"));
        HOLDS(sw_free(acquisition) == SW_OK);
    }
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    ends_by_events(arguments[1]);
    gives_back_what_it_was_to_replace(arguments[1]);
    tells_before_it_returns();
    wakes_all_who_wait();
    ends_within_storage();
    counts_what_was_lost();
    return 0;
}
