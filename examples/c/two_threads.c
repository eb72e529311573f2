/* Several threads bring frames of one camera, each those that it got, in whatever order: every frame has its number, a
   time stamp and the value of a record field. Beside them runs a second image of the same dataset, as from a second
   camera.

   cc two_threads.c $(pkg-config --cflags --libs shardwright) -lpthread && ./a.out run.ome.zarr */

#include <pthread.h>
#include <shardwright.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { FRAMES = 400, SIDE = 128, THREADS = 3 };

static sw_acquisition *main_camera;
static atomic_ullong next_number;
static atomic_int failures;

static void failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, sw_last_error());
    atomic_fetch_add(&failures, 1);
}

static void *bring(void *unused) {
    (void)unused;
    for (;;) {
        sw_frame frame;
        if (sw_acquire(main_camera, SW_FOREVER, &frame)) return failed("acquire"), NULL;
        /* The number comes last, so that threads wait for a buffer before they take one. */
        unsigned long long number = atomic_fetch_add(&next_number, 1);
        if (number >= FRAMES) return sw_discard(main_camera, &frame), NULL;
        memset(frame.data, (int)(number % 251), frame.bytes);
        sw_value temperature = {.kind = SW_VALUE_FLOAT, .number = {.f = 20.0 + 0.5 * (double)number}};
        sw_record record = {.size = sizeof record,
                            .has = SW_HAS_DEVICE_TIMESTAMP,
                            .device_timestamp = 1000 * number,
                            .values = &temperature,
                            .value_count = 1};
        if (sw_commit(main_camera, &frame, number, &record)) failed("commit");
    }
}

static void *bring_the_other(void *camera) {
    static uint8_t pixels[10][SIDE * SIDE];
    for (int batch = 0; batch < 10; batch++) {
        memset(pixels, 100 + batch, sizeof pixels);
        sw_appended appended;
        if (sw_append(camera, pixels, sizeof pixels, 0, NULL, SW_FOREVER, &appended)) failed("append");
    }
    return NULL;
}

static void closed(void *count, const char *key) {
    (void)key;
    atomic_fetch_add((atomic_int *)count, 1);
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: %s OUTPUT\n", argv[0]), 2;
    static atomic_int shards;
    sw_dataset *dataset;
    sw_acquisition *other_camera;
    const sw_dim dims[] = {
        {.name = "t", .kind = SW_DIM_TIME, .chunk = 4, .shard = 40},
        {.name = "y", .kind = SW_DIM_SPACE, .size = SIDE},
        {.name = "x", .kind = SW_DIM_SPACE, .size = SIDE},
    };
    const sw_record_field fields[] = {{.name = "temperature", .dtype = SW_F64}};
    sw_config config;
    sw_config_init(&config, sizeof config);
    config.dtype = SW_U8;
    config.dims = dims;
    config.dim_count = 3;
    config.ring_bytes = 8 << 20; /* 512 buffers: a thread may be late by that many before its own frame is missing */
    config.record_fields = fields;
    config.record_field_count = 1;

    if (sw_dataset_create(argv[1], 0, &dataset)) failed("create the dataset");
    if (sw_dataset_acquisition(dataset, "main", &config, &main_camera)) failed("create the main image");
    config.record_fields = NULL;
    config.record_field_count = 0;
    if (sw_dataset_acquisition(dataset, "other", &config, &other_camera)) failed("create the other image");
    if (failures) return 1;
    sw_on_shard_closed(main_camera, closed, &shards);
    if (sw_set_attribute(main_camera, "objective", "{\"name\": \"20x\", \"na\": 0.8}")) failed("attribute");

    pthread_t threads[THREADS + 1];
    for (int at = 0; at < THREADS; at++) pthread_create(&threads[at], NULL, bring, NULL);
    pthread_create(&threads[THREADS], NULL, bring_the_other, other_camera);
    for (int at = 0; at <= THREADS; at++) pthread_join(threads[at], NULL);

    sw_acquisition *cameras[] = {main_camera, other_camera};
    for (int at = 0; at < 2; at++) {
        sw_summary summary = {.size = sizeof summary};
        if (sw_finish(cameras[at], SW_FOREVER, &summary)) failed("finish");
        printf("%llu frames written, %llu missing\n", (unsigned long long)summary.frames_written,
               (unsigned long long)summary.frames_missing);
        if (sw_free(cameras[at])) failed("free");
    }
    if (sw_dataset_free(dataset)) failed("free the dataset");
    printf("%d shards closed\n", shards);
    return failures > 0;
}
