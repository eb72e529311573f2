/* A camera whose region of interest changes: three frames, of which two are smaller than the image. */

#include <shardwright.h>
#include <stdio.h>
#include <string.h>

#define ROWS 5
#define COLUMNS 7

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, sw_last_error());
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    const sw_dim dims[] = {
        {.name = "t", .kind = SW_DIM_TIME, .chunk = 1, .shard = 2},
        {.name = "y", .kind = SW_DIM_SPACE, .size = ROWS},
        {.name = "x", .kind = SW_DIM_SPACE, .size = COLUMNS},
    };
    sw_config config;
    if (sw_config_init(&config, sizeof config)) return failed("init");
    config.dtype = SW_U16;
    config.ring_bytes = 1 << 20;
    config.dims = dims;
    config.dim_count = 3;
    config.fill_value = 7;
    config.record_roi = 1;
    sw_acquisition *run;
    if (sw_create(argv[1], &config, &run)) return failed("create");

    static uint16_t pixels[3][ROWS][COLUMNS];
    for (unsigned frame = 0; frame < 3; frame++)
        for (unsigned row = 0; row < ROWS; row++)
            for (unsigned column = 0; column < COLUMNS; column++)
                pixels[frame][row][column] = (uint16_t)(1000 * frame + 100 * row + column);
    const sw_roi middle = {.y = 1, .x = 2, .height = 3, .width = 4}, last = {.x = 6, .height = ROWS, .width = 1};
    const size_t stride = sizeof pixels[0][0];
    sw_appended appended;
    if (sw_append_roi(run, pixels[0], 2 * stride + 8, &middle, stride, NULL, SW_FOREVER, &appended))
        return failed("append");
    if (appended.frames != 1 || appended.dropped != 0) return 3;
    uint16_t column[ROWS];
    for (unsigned row = 0; row < ROWS; row++) column[row] = pixels[1][row][0];
    if (sw_append_roi(run, column, sizeof column, &last, 0, NULL, SW_AS_CONFIGURED, NULL))
        return failed("append a column");
    if (sw_append(run, pixels[2], sizeof pixels[2], 0, NULL, SW_FOREVER, &appended)) return failed("append all");

    const sw_roi beyond = {.y = 3, .x = 0, .height = 3, .width = 7};
    if (sw_append_roi(run, pixels, 42, &beyond, 0, NULL, 0, &appended) != SW_ERROR_FRAME_SIZE) return 4;
    if (!strstr(sw_last_error(), "from row 3 and column 0 on are no part of a frame of 5 rows and 7 columns")) return 5;
    if (sw_append_roi(run, pixels, 23, &middle, 0, NULL, 0, &appended) != SW_ERROR_FRAME_SIZE) return 6;
    if (sw_append_roi(run, pixels, 24, &middle, 7, NULL, 0, &appended) != SW_ERROR_ARGUMENT) return 7;
    if (sw_append_roi(run, pixels, 24, NULL, 0, NULL, 0, &appended) != SW_ERROR_NULL) return 8;
    if (sw_append_roi(run, pixels, 48, &middle, 0, NULL, 0, NULL) != SW_ERROR_NULL) return 9;

    sw_summary summary = {.size = sizeof summary};
    if (sw_finish(run, SW_FOREVER, &summary)) return failed("finish");
    if (sw_free(run)) return failed("free");
    return summary.frames_written == 3 ? 0 : 10;
}
