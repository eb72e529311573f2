/* A run that is ended in a callback of another one, and where that would wait for itself. */

#include <pthread.h>
#include <shardwright.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checks.h"

static sw_dim dims[3] = {
    {.name = "t", .kind = SW_DIM_TIME, .chunk = 1, .shard = 2},
    {.name = "y", .kind = SW_DIM_SPACE, .size = 64},
    {.name = "x", .kind = SW_DIM_SPACE, .size = 64},
};
enum { FRAME_BYTES = 64 * 64 };

static char folder[512];
static sw_acquisition *one, *other;
static atomic_int calls;

static sw_config good(void) {
    sw_config config;
    RIGHT(sw_config_init(&config, sizeof config));
    config.dtype = SW_U8, config.dims = dims, config.dim_count = 3, config.ring_bytes = 1 << 18, config.workers = 1;
    config.sync = 0;
    return config;
}

static sw_acquisition *begun(const char *name) {
    static int runs;
    char path[600];
    snprintf(path, sizeof path, "%s/%s-%d", folder, name, runs++);
    sw_config config = good();
    sw_acquisition *acquisition;
    RIGHT(sw_create(path, &config, &acquisition));
    return acquisition;
}

static void bring(sw_acquisition *acquisition, int frames) {
    static const unsigned char pixels[FRAME_BYTES] = {7};
    for (int at = 0; at < frames; at++)
        RIGHT(sw_append(acquisition, pixels, sizeof pixels, 0, NULL, SW_FOREVER, NULL));
}

static void is_refused(sw_acquisition *acquisition, const char *why) {
    sw_acquisition *const all[] = {acquisition};
    HOLDS(sw_close(acquisition) == SW_ERROR_BUSY && strstr(sw_last_error(), why));
    HOLDS(sw_finish(acquisition, SW_FOREVER, NULL) == SW_ERROR_BUSY && strstr(sw_last_error(), why));
    HOLDS(sw_finish_all(all, 1, SW_FOREVER) == SW_ERROR_BUSY && strstr(sw_last_error(), why));
    HOLDS(sw_abort(acquisition, SW_FOREVER) == SW_ERROR_BUSY && strstr(sw_last_error(), why));
    HOLDS(sw_free(acquisition) == SW_ERROR_BUSY && strstr(sw_last_error(), why));
}

static void ends_the_other(void *context, const char *key) {
    (void)context, (void)key;
    if (calls++ > 0) return;
    is_refused(one, "of this run");
    RIGHT(sw_close(other));
    sw_summary summary = {.size = sizeof summary};
    RIGHT(sw_finish(other, SW_FOREVER, &summary));
    HOLDS(summary.frames_written == 5);
    RIGHT(sw_free(other));
}

static void in_a_callback_of_another(void) {
    one = begun("one"), other = begun("other"), calls = 0;
    bring(other, 5);
    RIGHT(sw_on_shard_closed(one, ends_the_other, NULL));
    bring(one, 4);
    RIGHT(sw_finish(one, SW_FOREVER, NULL));
    HOLDS(calls == 2);
    RIGHT(sw_free(one));
}

static atomic_int inside, refusals, ended;

/* Each waits until both are in their callbacks, and then for the end of the other's run. */
static void ends(void *context, const char *key) {
    (void)key;
    sw_acquisition *target = context == &one ? other : one;
    if (atomic_fetch_add(&inside, 1) > 1) return;
    while (inside < 2) usleep(1000);
    const sw_status status = sw_abort(target, SW_FOREVER);
    HOLDS(status == SW_OK || status == SW_ERROR_BUSY);
    if (status == SW_ERROR_BUSY) {
        HOLDS(strstr(sw_last_error(), "waits for the end of the run"));
        refusals++;
    } else {
        ended++;
    }
}

static void in_each_other_s_callbacks(void) {
    one = begun("one"), other = begun("other");
    RIGHT(sw_on_shard_closed(one, ends, &one));
    RIGHT(sw_on_shard_closed(other, ends, &other));
    bring(one, 2);
    bring(other, 2);
    while (refusals + ended < 2) usleep(1000);
    HOLDS(refusals == 1 && ended == 1);
    RIGHT(sw_abort(one, SW_FOREVER));
    RIGHT(sw_abort(other, SW_FOREVER));
    RIGHT(sw_free(one));
    RIGHT(sw_free(other));
}

static void ends_its_sister(void *context, const char *key) {
    (void)context, (void)key;
    if (calls++ == 0) is_refused(other, "of an image of the same dataset");
}

/* Images of a dataset share the thread that closes shards. */
static void in_a_callback_of_an_image_of_its_dataset(void) {
    sw_config config = good();
    char path[600];
    snprintf(path, sizeof path, "%s/many", folder);
    sw_dataset *dataset;
    RIGHT(sw_dataset_create(path, 0, &dataset));
    RIGHT(sw_dataset_acquisition(dataset, "one", &config, &one));
    RIGHT(sw_dataset_acquisition(dataset, "other", &config, &other));
    calls = 0;
    RIGHT(sw_on_shard_closed(one, ends_its_sister, NULL));
    bring(one, 4);
    RIGHT(sw_finish(one, SW_FOREVER, NULL));
    RIGHT(sw_finish(other, SW_FOREVER, NULL));
    HOLDS(calls == 2);
    RIGHT(sw_free(one));
    RIGHT(sw_free(other));
    RIGHT(sw_dataset_free(dataset));
}

static char last_line[1024];

static void hears(void *context, sw_log_level level, const char *source, const char *text) {
    (void)context, (void)level, (void)source;
    snprintf(last_line, sizeof last_line, "%s", text);
    if (calls++ == 0) is_refused(other, "the log's function");
}

static void in_the_log_s_function(void) {
    other = begun("other"), calls = 0;
    RIGHT(sw_set_log(SW_LOG_INFO, hears, NULL));
    one = begun("two\nlines\r\033[31m");
    RIGHT(sw_set_log(SW_LOG_NONE, NULL, NULL));
    HOLDS(calls == 1 && strstr(last_line, "begins") && strstr(last_line, "two lines  [31m"));
    RIGHT(sw_abort(one, SW_FOREVER));
    RIGHT(sw_abort(other, SW_FOREVER));
    RIGHT(sw_free(one));
    RIGHT(sw_free(other));
}

/* To whoever has buffers still it has ended, whether frames were lost or not. */
static void an_aborted_run_says_so(void) {
    /* One frame waits for three more, and is lost. */
    dims[0].chunk = 4, dims[0].shard = 8;
    for (int round = 0; round < 4; round++) {
        const int frames = round % 2, at_once = round / 2;
        one = begun("aborted");
        bring(one, frames);
        sw_frame late[3];
        for (int at = 0; at < 3; at++) RIGHT(sw_acquire(one, 0, &late[at]));
        RIGHT(sw_first_error(one));
        const sw_status aborted = sw_abort(one, at_once ? 0 : SW_FOREVER);
        HOLDS(aborted == SW_OK || (at_once && aborted == SW_TIMEOUT));
        HOLDS(sw_commit(one, &late[0], SW_NEXT, NULL) == SW_ERROR_ENDED);
        const sw_status finished = sw_finish(one, SW_FOREVER, NULL);
        HOLDS(finished == (aborted == SW_OK ? SW_ERROR_ENDED : frames == 0 ? SW_OK : SW_ABORTED));
        HOLDS(sw_commit(one, &late[1], 7, NULL) == SW_ERROR_ENDED);
        HOLDS(sw_commit_buffer(one, late[2].index, SW_NEXT, NULL) == SW_ERROR_ENDED);
        HOLDS(sw_first_error(one) == SW_ABORTED && strstr(sw_last_error(), "aborted"));
        RIGHT(sw_free(one));
    }
    one = begun("finished");
    bring(one, 1);
    RIGHT(sw_finish(one, SW_FOREVER, NULL));
    RIGHT(sw_abort(one, SW_FOREVER));
    RIGHT(sw_first_error(one));
    RIGHT(sw_free(one));
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    snprintf(folder, sizeof folder, "%s", arguments[1]);
    alarm(300);
    in_a_callback_of_another();
    in_each_other_s_callbacks();
    in_a_callback_of_an_image_of_its_dataset();
    in_the_log_s_function();
    an_aborted_run_says_so();
    return 0;
}
