/* A program that changes its working directory while it acquires, as file dialogs and interpreters do: it writes
   `run.zarr` and `many.zarr` in the first folder, though it stands in the second when frames come. */

#include <errno.h>
#include <shardwright.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIDE 16

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, sw_last_error());
    return 1;
}

static int append_and_finish(sw_acquisition *acquisition, unsigned frames) {
    static uint8_t pixels[SIDE * SIDE];
    sw_appended appended;
    sw_summary summary = {.size = sizeof summary};
    for (unsigned number = 0; number < frames; number++) {
        memset(pixels, (int)(number % 255 + 1), sizeof pixels);
        if (sw_append(acquisition, pixels, sizeof pixels, 0, NULL, SW_FOREVER, &appended)) return failed("append");
    }
    if (sw_finish(acquisition, SW_FOREVER, &summary)) return failed("finish");
    if (sw_free(acquisition)) return failed("free");
    return summary.frames_written != frames;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    for (int at = 1; at < argc; at++)
        if (mkdir(argv[at], 0777) && errno != EEXIST) return perror(argv[at]), 1;
    const sw_dim dims[] = {
        {.name = "t", .kind = SW_DIM_TIME, .chunk = 1, .shard = 8},
        {.name = "y", .kind = SW_DIM_SPACE, .size = SIDE},
        {.name = "x", .kind = SW_DIM_SPACE, .size = SIDE},
    };
    sw_config config;
    if (sw_config_init(&config, sizeof config)) return failed("init");
    config.dtype = SW_U8;
    config.ring_bytes = 1 << 20;
    config.dims = dims;
    config.dim_count = 3;

    sw_acquisition *run, *left;
    sw_dataset *many;
    if (chdir(argv[1])) return perror(argv[1]), 1;
    if (sw_create("run.zarr", &config, &run)) return failed("create");
    if (sw_dataset_create("many.zarr", 0, &many)) return failed("create a dataset");
    if (chdir(argv[2])) return perror(argv[2]), 1;
    if (append_and_finish(run, 100)) return 1;
    if (sw_dataset_acquisition(many, "left", &config, &left)) return failed("start an image");
    if (append_and_finish(left, 20)) return 1;
    if (sw_dataset_free(many)) return failed("free the dataset");
    return 0;
}
