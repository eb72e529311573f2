/* From a camera to a finished shard: borrow a buffer, let the camera fill it, hand it over.

     cc camera_loop.c $(pkg-config --cflags --libs shardwright) && ./a.out run.ome.zarr */

#include <shardwright.h>
#include <stdio.h>

enum { FRAMES = 200, SIDE = 512 };

static void camera_fills(uint64_t number, uint16_t *pixels) {
    for (uint64_t at = 0; at < SIDE * SIDE; at++) pixels[at] = (uint16_t)(100 + (at + 8 * number) % 1024);
}

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, sw_last_error());
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: %s OUTPUT\n", argv[0]), 2;

    sw_config config;
    sw_config_init(&config, sizeof config);
    const sw_dim dims[] = {
        {.name = "t", .kind = SW_DIM_TIME, .scale = 0.01, .unit = "second", .shard = 64},
        {.name = "y", .kind = SW_DIM_SPACE, .size = SIDE, .scale = 0.325, .unit = "micrometer"},
        {.name = "x", .kind = SW_DIM_SPACE, .size = SIDE, .scale = 0.325, .unit = "micrometer"},
    };
    config.dims = dims;
    config.dim_count = 3;
    config.ring_bytes = 64 << 20;

    sw_acquisition *acquisition;
    if (sw_create(argv[1], &config, &acquisition)) return failed("create");
    for (uint64_t number = 0; number < FRAMES; number++) {
        sw_frame frame;
        if (sw_acquire(acquisition, 1000, &frame)) return failed("acquire");
        camera_fills(number, frame.data);
        if (sw_commit(acquisition, &frame, number, NULL)) return failed("commit");
    }
    sw_summary summary = {.size = sizeof summary};
    if (sw_finish(acquisition, SW_FOREVER, &summary)) return failed("finish");
    printf("%llu frames written, %llu missing\n", (unsigned long long)summary.frames_written,
           (unsigned long long)summary.frames_missing);
    return sw_free(acquisition);
}
