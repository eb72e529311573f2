/* A colour camera that fills the ring's buffers: RGBA of 16 bits, rows with padding, buffers announced up front. */

#include <shardwright.h>
#include <stdio.h>
#include <string.h>

#define ROWS 5
#define COLUMNS 7
#define SAMPLES 4
#define STRIDE (COLUMNS * SAMPLES + 2)
#define PICTURES 12

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, sw_last_error());
    return 1;
}

static void expose(void *buffer, unsigned picture) {
    uint16_t *pixels = buffer;
    for (unsigned row = 0; row < ROWS; row++)
        for (unsigned value = 0; value < STRIDE; value++)
            pixels[row * STRIDE + value] = (uint16_t)(1000 * picture + 100 * row + value);
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
    config.pixel_format = SW_PIXELS_RGBA;
    config.row_stride = STRIDE * sizeof(uint16_t);
    config.buffer_bytes = ROWS * STRIDE * sizeof(uint16_t);
    config.ring_bytes = 6 * 4096;
    config.dims = dims;
    config.dim_count = 4;
    sw_acquisition *run;
    if (sw_create(argv[1], &config, &run)) return failed("create");
    sw_layout layout = {.size = sizeof layout};
    if (sw_get_layout(run, &layout)) return failed("layout");
    if (layout.ring_frames != 6 || layout.frame_bytes != ROWS * COLUMNS * SAMPLES * sizeof(uint16_t)) return 3;
    void *places[6];
    size_t count;
    if (sw_buffers(run, places, 6, &count)) return failed("buffers");
    if (count != 6) return 4;

    sw_frame frame;
    for (unsigned picture = 0; picture < PICTURES; picture++) {
        if (picture % 2) {
            if (sw_acquire(run, SW_FOREVER, &frame)) return failed("acquire");
            expose(frame.data, picture);
            if (picture == 1 && sw_commit(run, &frame, 5, NULL) != SW_ERROR_FRAME_NUMBER) return 5;
            /* After that, the buffer is the library's again. */
            if (picture == 1 && sw_acquire(run, SW_FOREVER, &frame)) return failed("acquire again");
            expose(frame.data, picture);
            if (sw_commit(run, &frame, SW_NEXT, NULL)) return failed("commit");
            continue;
        }
        const uint32_t index = picture % 6;
        if (sw_acquire_buffer(run, index, SW_FOREVER, &frame)) return failed("acquire a certain buffer");
        if (frame.data != places[index]) return 6;
        expose(places[index], 99);
        if (sw_discard_buffer(run, index)) return failed("discard");
        if (sw_acquire_buffer(run, index, SW_FOREVER, &frame)) return failed("acquire it again");
        expose(places[index], picture);
        if (sw_commit_buffer(run, index, SAMPLES * picture, NULL)) return failed("commit by its index");
    }
    sw_summary summary = {.size = sizeof summary};
    if (sw_finish(run, SW_FOREVER, &summary)) return failed("finish");
    if (sw_free(run)) return failed("free");
    return summary.frames_written == PICTURES * SAMPLES && summary.frames_missing == 0 ? 0 : 7;
}
