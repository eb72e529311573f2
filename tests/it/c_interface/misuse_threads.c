/* Wrong calls from other processes, threads and callbacks.

   Prints how many wrong calls it made. */

#include "misuse.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

/* AddressSanitizer's allocator takes locks that a fork copies as they are, some of them held by threads that the child
   does not have: there, the child waits for ever in its next allocation. The allocators of the system and of valgrind
   are made for this, so that the test is left out with that sanitizer alone. */
#if defined(__SANITIZE_ADDRESS__)
#define MAY_FORK 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MAY_FORK 0
#endif
#endif
#ifndef MAY_FORK
#define MAY_FORK 1
#endif

#if MAY_FORK
static void forked(void) {
    sw_config config = good();
    sw_acquisition *acquisition;
    sw_frame frame, other;
    RIGHT(sw_create(path("forked"), &config, &acquisition));
    RIGHT(sw_acquire(acquisition, 0, &frame));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        calls = failures = 0;
        sw_stats stats = {.size = sizeof stats};
        WRONG(SW_ERROR_FORKED, sw_acquire(acquisition, SW_FOREVER, &other));
        WRONG(SW_ERROR_FORKED, sw_commit(acquisition, &frame, 0, NULL));
        WRONG(SW_ERROR_FORKED, sw_discard(acquisition, &frame));
        WRONG(SW_ERROR_FORKED, sw_get_stats(acquisition, &stats));
        WRONG(SW_ERROR_FORKED, sw_finish(acquisition, SW_FOREVER, NULL));
        WRONG(SW_ERROR_FORKED, sw_abort(acquisition, SW_FOREVER));
        WRONG(SW_ERROR_FORKED, sw_free(acquisition));
        /* One of the child's own works. */
        sw_acquisition *own;
        RIGHT(sw_create(path("child"), &config, &own));
        RIGHT(sw_acquire(own, SW_FOREVER, &other));
        RIGHT(sw_commit(own, &other, 0, NULL));
        RIGHT(sw_finish(own, SW_FOREVER, NULL));
        RIGHT(sw_free(own));
        /* What only the parent's other threads pointed to is lost in the child; that is no finding of a leak check. */
        if (!failures && calls == 7) execlp("true", "true", (char *)NULL);
        _exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    calls += 7;
    RIGHT(sw_commit(acquisition, &frame, 0, NULL));
    RIGHT(sw_finish(acquisition, SW_FOREVER, NULL));
    RIGHT(sw_free(acquisition));
}
#endif

#if MAY_FORK
/* Whether a thread of the parent is in the log's function, and whether it may leave. */
static atomic_int is_telling, may_leave;

static void on_slow_line(void *context, sw_log_level level, const char *source, const char *text) {
    (void)context, (void)level, (void)source, (void)text;
    is_telling = 1;
    while (!may_leave) usleep(1000);
}

static void *tell_slowly(void *name) {
    sw_config config = good();
    sw_acquisition *acquisition;
    RIGHT(sw_create(name, &config, &acquisition));
    RIGHT(sw_abort(acquisition, SW_FOREVER));
    RIGHT(sw_free(acquisition));
    return NULL;
}

static void on_child_s_line(void *context, sw_log_level level, const char *source, const char *text) {
    (void)level, (void)source, (void)text;
    ++*(int *)context;
}

/* A child has none of the parent's threads, whatever they were doing. */
static void forked_while_a_line_is_told(void) {
    pthread_t thread;
    char name[1024];
    snprintf(name, sizeof name, "%s", path("slow"));
    RIGHT(sw_set_log(SW_LOG_INFO, on_slow_line, NULL));
    HOLDS(pthread_create(&thread, NULL, tell_slowly, name) == 0);
    while (!is_telling) usleep(1000);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        int own = 0;
        sw_config config = good();
        sw_acquisition *acquisition;
        /* Nobody is told there, until it says who. */
        RIGHT(sw_create(path("silent"), &config, &acquisition));
        RIGHT(sw_abort(acquisition, SW_FOREVER));
        RIGHT(sw_set_log(SW_LOG_INFO, on_child_s_line, &own));
        RIGHT(sw_create(path("loud"), &config, &acquisition));
        RIGHT(sw_abort(acquisition, SW_FOREVER));
        RIGHT(sw_set_log(SW_LOG_NONE, NULL, NULL));
        if (own > 0) execlp("true", "true", (char *)NULL);
        _exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    may_leave = 1;
    pthread_join(thread, NULL);
    RIGHT(sw_set_log(SW_LOG_NONE, NULL, NULL));
}
#endif

static sw_acquisition *shared;
static sw_frame contested;
static sw_status outcomes[2];

static void *commit_contested(void *which) {
    outcomes[(intptr_t)which] = sw_commit(shared, &contested, SW_NEXT, NULL);
    return NULL;
}

static void *wait_for_a_buffer(void *unused) {
    (void)unused;
    sw_frame frame;
    outcomes[0] = sw_acquire(shared, SW_FOREVER, &frame);
    return NULL;
}

static void *wait_for_the_end(void *unused) {
    (void)unused;
    do outcomes[0] = sw_finish(shared, SW_FOREVER, NULL);
    while (outcomes[0] == SW_ERROR_BUSY);
    return NULL;
}

/* A storage that holds writes up until it is told to go on. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static uint8_t slow_blob[1 << 20];
static int32_t slow_create(void *context, const char *key, uint64_t bytes, void **blob) {
    (void)context, (void)key;
    *blob = slow_blob;
    return bytes > sizeof slow_blob ? 28 : 0;
}
static int32_t slow_put(void *context, const char *key, const void *data, size_t bytes) {
    (void)context, (void)key, (void)data, (void)bytes;
    return 0;
}
static int32_t slow_write(void *context, void *blob, uint64_t offset, const void *data, size_t bytes) {
    (void)context, (void)blob, (void)data;
    /* The index of a new shard stands at its end; chunks come before. */
    if (offset < 4096 && bytes < 1024) {
        pthread_mutex_lock(&gate);
        pthread_mutex_unlock(&gate);
    }
    return 0;
}
static int32_t slow_finish(void *context, void *blob, uint64_t bytes) {
    (void)context, (void)blob, (void)bytes;
    return 0;
}

static void several_threads(void) {
    pthread_t threads[2];
    sw_config config = good();
    RIGHT(sw_create(path("threads"), &config, &shared));
    for (int round = 0; round < 50; round++) {
        RIGHT(sw_acquire(shared, SW_FOREVER, &contested));
        for (intptr_t at = 0; at < 2; at++) pthread_create(&threads[at], NULL, commit_contested, (void *)at);
        for (int at = 0; at < 2; at++) pthread_join(threads[at], NULL);
        HOLDS((outcomes[0] == SW_OK && outcomes[1] == SW_ERROR_FRAME) ||
              (outcomes[1] == SW_OK && outcomes[0] == SW_ERROR_FRAME));
    }
    calls++;
    /* The end of the run wakes a thread that waits for a buffer; a handle in use is not freed. */
    sw_frame all[8];
    for (int at = 0; at < 8; at++) RIGHT(sw_acquire(shared, SW_FOREVER, &all[at]));
    pthread_create(&threads[0], NULL, wait_for_a_buffer, NULL);
    usleep(50000);
    WRONG(SW_ERROR_NOT_ENDED, sw_free(shared));
    RIGHT(sw_finish(shared, SW_FOREVER, NULL));
    pthread_join(threads[0], NULL);
    calls++;
    HOLDS(outcomes[0] == SW_ERROR_ENDED);
    RIGHT(sw_free(shared));

    /* While a thread waits for the end, another must not; but it may abort. */
    const sw_storage slow = {.size = sizeof slow,
                             .create = slow_create,
                             .put = slow_put,
                             .write_at = slow_write,
                             .finish = slow_finish};
    config = good();
    config.compressor = SW_COMPRESSOR_NONE;
    RIGHT(sw_create_in(&slow, &config, &shared));
    pthread_mutex_lock(&gate);
    static const uint8_t pixels[FRAME_BYTES] = {1, 2, 3};
    RIGHT(sw_append(shared, pixels, sizeof pixels, 0, NULL, SW_FOREVER, NULL));
    WRONG(SW_TIMEOUT, sw_finish(shared, 0, NULL));
    WRONG(SW_TIMEOUT, sw_finish(shared, 30, NULL));
    WRONG(SW_ERROR_NOT_ENDED, sw_free(shared));
    pthread_create(&threads[0], NULL, wait_for_the_end, NULL);
    /* As soon as the other thread waits; however long the machine takes to start it. */
    while (sw_finish(shared, 0, NULL) == SW_TIMEOUT) usleep(1000);
    WRONG(SW_ERROR_BUSY, sw_finish(shared, 10, NULL));
    WRONG(SW_TIMEOUT, sw_abort(shared, 10));
    pthread_mutex_unlock(&gate);
    pthread_join(threads[0], NULL);
    RIGHT(outcomes[0]);
    WRONG(SW_ERROR_ENDED, sw_finish(shared, SW_FOREVER, NULL));
    RIGHT(sw_free(shared));
}

static sw_status from_callback[3];
static sw_acquisition *listening;

static void on_closed(void *context, const char *key) {
    (void)key;
    /* What would wait for this very thread is refused; looking is allowed. */
    from_callback[0] = sw_finish(listening, SW_FOREVER, NULL);
    from_callback[1] = sw_set_log(SW_LOG_NONE, NULL, NULL);
    sw_stats stats = {.size = sizeof stats};
    from_callback[2] = sw_get_stats(listening, &stats);
    ++*(int *)context;
}

static int32_t never_finish(void *context, void *blob, uint64_t bytes) {
    (void)context, (void)blob, (void)bytes;
    return 5;
}

static int lines;
static void on_line(void *context, sw_log_level level, const char *source, const char *text) {
    (void)context, (void)source;
    if (level == SW_LOG_ERROR && *text) lines++;
}

static void callbacks(void) {
    int shards = 0;
    sw_config config = good();
    WRONG(SW_ERROR_ARGUMENT, sw_set_log(6, on_line, NULL));
    RIGHT(sw_set_log(SW_LOG_ERROR, on_line, NULL));
    RIGHT(sw_create(path("callbacks"), &config, &listening));
    RIGHT(sw_on_shard_closed(listening, on_closed, &shards));
    uint64_t none;
    WRONG(SW_ERROR_NOT_FOUND, sw_first_error_frame(listening, &none));
    WRONG(SW_ERROR_BUSY, sw_on_shard_closed(listening, on_closed, &shards));
    static const uint8_t pixels[FRAME_BYTES] = {1};
    RIGHT(sw_append(listening, pixels, sizeof pixels, 0, NULL, SW_FOREVER, NULL));
    RIGHT(sw_finish(listening, SW_FOREVER, NULL));
    HOLDS(shards == 1);
    calls += 2;
    HOLDS(from_callback[0] == SW_ERROR_BUSY && from_callback[1] == SW_ERROR_BUSY && from_callback[2] == SW_OK);
    WRONG(SW_ERROR_ENDED, sw_on_shard_closed(listening, on_closed, &shards));
    RIGHT(sw_free(listening));

    /* A storage that fails: the run's first error comes back from every call, and from the end once. */
    const sw_storage broken = {.size = sizeof broken,
                               .create = slow_create,
                               .put = slow_put,
                               .write_at = slow_write,
                               .finish = never_finish};
    RIGHT(sw_create_in(&broken, &config, &listening));
    RIGHT(sw_append(listening, pixels, sizeof pixels, 0, NULL, SW_FOREVER, NULL));
    sw_summary summary = {.size = sizeof summary, .frames_accepted = 77};
    WRONG(SW_ERROR_IO, sw_finish(listening, SW_FOREVER, &summary));
    HOLDS(summary.frames_accepted == 77 && lines >= 1);
    uint64_t first = 77;
    WRONG(SW_ERROR_IO, sw_first_error(listening));
    RIGHT(sw_first_error_frame(listening, &first));
    HOLDS(first == 0);
    WRONG(SW_ERROR_ENDED, sw_finish(listening, SW_FOREVER, &summary));
    RIGHT(sw_get_summary(listening, &summary));
    HOLDS(summary.frames_accepted == 1);
    RIGHT(sw_free(listening));
    RIGHT(sw_set_log(SW_LOG_NONE, NULL, NULL));
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    snprintf(folder, sizeof folder, "%s", argv[1]);
#if MAY_FORK
    forked();
    forked_while_a_line_is_told();
#endif
    several_threads();
    callbacks();
    static const sw_status expected[] = {SW_ERROR_BUSY, SW_ERROR_ENDED,    SW_ERROR_NOT_ENDED, SW_TIMEOUT,
                                         SW_ERROR_IO,   SW_ERROR_ARGUMENT, SW_ERROR_NOT_FOUND};
    check_provoked(expected, sizeof expected / sizeof *expected);
    printf("%d wrong calls\n", calls);
    return failures > 0;
}
