/* A colour camera: RGB of 16 bits, rows with padding, three pictures in two calls. */

#include <shardwright.h>
#include <stdio.h>
#include <string.h>

#define ROWS 5
#define COLUMNS 7
#define SAMPLES 3
#define STRIDE (COLUMNS * SAMPLES + 2)

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, sw_last_error());
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    const sw_dim dims[] = {
        {.name = "t", .kind = SW_DIM_TIME, .chunk = 1, .shard = 2},
        {.name = "c", .kind = SW_DIM_CHANNEL, .size = SAMPLES},
        {.name = "y", .kind = SW_DIM_SPACE, .size = ROWS},
        {.name = "x", .kind = SW_DIM_SPACE, .size = COLUMNS},
    };
    sw_config config;
    if (sw_config_init(&config, sizeof config)) return failed("init");
    config.dtype = SW_U16;
    config.ring_bytes = 1 << 20;
    config.dims = dims;
    config.dim_count = 4;
    sw_acquisition *run;
    if (sw_create(argv[1], &config, &run)) return failed("create");

    static uint16_t pixels[3][ROWS][STRIDE];
    for (unsigned picture = 0; picture < 3; picture++)
        for (unsigned row = 0; row < ROWS; row++)
            for (unsigned value = 0; value < STRIDE; value++)
                pixels[picture][row][value] = (uint16_t)(10000 * picture + 100 * row + value);
    sw_appended appended;
    const size_t one = sizeof pixels[0], stride = sizeof pixels[0][0];
    if (sw_append_interleaved(run, pixels, 2 * one, SAMPLES, stride, NULL, SW_FOREVER, &appended))
        return failed("append");
    if (appended.frames != 2 * SAMPLES || appended.dropped != 0) return 3;
    /* Nothing stands behind the last row. */
    if (sw_append_interleaved(run, pixels[2], one - 4, SAMPLES, stride, NULL, SW_AS_CONFIGURED, &appended))
        return failed("append the last");
    if (appended.frames != SAMPLES) return 4;

    if (sw_append_interleaved(run, pixels, one, 4, stride, NULL, 0, &appended) != SW_ERROR_CONFIG) return 5;
    if (!strstr(sw_last_error(), "samples = 4")) return 6;
    if (sw_append_interleaved(run, pixels, one + 1, SAMPLES, stride, NULL, 0, &appended) != SW_ERROR_FRAME_SIZE)
        return 7;
    if (sw_append_interleaved(run, pixels, one, SAMPLES, 41, NULL, 0, &appended) != SW_ERROR_ARGUMENT) return 8;
    if (sw_append_interleaved(run, pixels, 2 * one, SAMPLES, stride, NULL, 0, NULL) != SW_ERROR_NULL) return 9;

    sw_summary summary = {.size = sizeof summary};
    if (sw_finish(run, SW_FOREVER, &summary)) return failed("finish");
    if (sw_free(run)) return failed("free");
    return summary.frames_written == 3 * SAMPLES ? 0 : 10;
}
