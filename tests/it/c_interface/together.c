/* The images of a plate, begun together, visited in turns and ended together. */

#include "checks.h"

#include <inttypes.h>
#include <string.h>

enum { IMAGES = 384, FRAMES = 4, BYTES = 16 * 16 };

/* Images of the same shape share buffers, and with them what tells whose a buffer is. */
static void buffers_belong_to_whom_they_were_lent(sw_acquisition *one, sw_acquisition *other) {
    sw_frame of_one, of_other;
    RIGHT(sw_acquire(one, SW_FOREVER, &of_one));
    RIGHT(sw_acquire(other, SW_FOREVER, &of_other));
    HOLDS(of_one.data != of_other.data);
    HOLDS(sw_commit(other, &of_one, SW_NEXT, NULL) == SW_ERROR_FRAME);
    HOLDS(sw_commit_buffer(one, of_other.index, SW_NEXT, NULL) == SW_ERROR_FRAME);
    HOLDS(sw_discard(one, &of_other) == SW_ERROR_FRAME);
    HOLDS(sw_discard_buffer(other, of_one.index) == SW_ERROR_FRAME);
    /* A certain one may be another's for ever. */
    sw_frame certain;
    HOLDS(sw_acquire_buffer(one, of_other.index, SW_FOREVER, &certain) == SW_ERROR_ARGUMENT);
    RIGHT(sw_discard(one, &of_one));
    RIGHT(sw_discard_buffer(other, of_other.index));
    HOLDS(sw_discard(one, &of_one) == SW_ERROR_FRAME);
}

/* getrusage would count what the program that started this one had before. */
static void takes_little_memory(void) {
    FILE *status = fopen("/proc/self/status", "r");
    HOLDS(status != NULL);
    char line[256];
    unsigned long kib = 0;
    while (kib == 0 && fgets(line, sizeof line, status) != NULL) sscanf(line, "VmHWM: %lu", &kib);
    fclose(status);
    HOLDS(kib != 0);
    HOLDS(kib < 1536 * 1024);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    const sw_dim dims[] = {
        {.name = "t", .kind = SW_DIM_TIME, .chunk = 1, .shard = FRAMES},
        {.name = "y", .kind = SW_DIM_SPACE, .size = 16},
        {.name = "x", .kind = SW_DIM_SPACE, .size = 16},
    };
    sw_config config;
    RIGHT(sw_config_init(&config, sizeof config));
    config.dtype = SW_U8;
    config.dims = dims;
    config.dim_count = 3;
    config.workers = 2;
    config.sync = 0;
    static char names[IMAGES][32];
    const char *named[IMAGES];
    const sw_config *configs[IMAGES];
    static sw_acquisition *images[IMAGES];
    for (int at = 0; at < IMAGES; at++) {
        snprintf(names[at], sizeof *names, "image-%d", at);
        named[at] = names[at];
        configs[at] = &config;
    }
    sw_dataset *dataset;
    RIGHT(sw_dataset_create(argv[1], 0, &dataset));

    /* All or none. */
    named[7] = "not a name";
    HOLDS(sw_dataset_acquisitions(dataset, named, configs, IMAGES, images) == SW_ERROR_CONFIG);
    named[7] = names[8];
    HOLDS(sw_dataset_acquisitions(dataset, named, configs, IMAGES, images) == SW_ERROR_CONFIG);
    named[7] = names[7];
    sw_config other = config;
    other.size = 3;
    configs[9] = &other;
    HOLDS(sw_dataset_acquisitions(dataset, named, configs, IMAGES, images) == SW_ERROR_SIZE);
    configs[9] = NULL;
    HOLDS(sw_dataset_acquisitions(dataset, named, configs, IMAGES, images) == SW_ERROR_NULL);
    HOLDS(strstr(sw_last_error(), "configs[9] is null, and each of the 384 images needs one"));
    configs[9] = &config;
    HOLDS(sw_dataset_acquisitions(dataset, named, configs, SIZE_MAX / 4, images) == SW_ERROR_ARGUMENT);
    HOLDS(sw_dataset_acquisitions(dataset, NULL, configs, 1, images) == SW_ERROR_NULL);
    HOLDS(sw_dataset_acquisitions(dataset, named, configs, 1, NULL) == SW_ERROR_NULL);
    HOLDS(images[0] == NULL);
    RIGHT(sw_dataset_acquisitions(dataset, NULL, NULL, 0, NULL));
    RIGHT(sw_dataset_acquisitions(dataset, named, configs, IMAGES, images));
    HOLDS(sw_dataset_acquisitions(dataset, named, configs, 1, images) == SW_ERROR_EXISTS);

    buffers_belong_to_whom_they_were_lent(images[5], images[6]);
    for (int frame = 0; frame < FRAMES; frame++) {
        for (int at = 0; at < IMAGES; at++) {
            uint8_t pixels[BYTES];
            memset(pixels, 1 + (at + 31 * frame) % 255, sizeof pixels);
            RIGHT(sw_append(images[at], pixels, sizeof pixels, 0, NULL, SW_FOREVER, NULL));
        }
    }

    sw_acquisition *twice[] = {images[0], images[1], images[0]};
    HOLDS(sw_finish_all(twice, 3, SW_FOREVER) == SW_ERROR_ARGUMENT && strstr(sw_last_error(), "twice"));
    HOLDS(sw_finish_all(NULL, 3, SW_FOREVER) == SW_ERROR_NULL);
    sw_acquisition *none[] = {images[0], NULL, NULL};
    HOLDS(sw_finish_all(none, 3, SW_FOREVER) == SW_ERROR_NULL && strstr(sw_last_error(), "acquisitions[1]: "));
    RIGHT(sw_finish_all(NULL, 0, SW_FOREVER));
    sw_summary summary = {.size = sizeof summary};
    /* One that has ended is told before any is ended. */
    RIGHT(sw_finish(images[3], SW_FOREVER, NULL));
    HOLDS(sw_finish_all(images, IMAGES, SW_FOREVER) == SW_ERROR_ENDED);
    HOLDS(strstr(sw_last_error(), "acquisitions[3]: the acquisition was finished or aborted before"));
    HOLDS(sw_get_summary(images[2], &summary) == SW_ERROR_NOT_ENDED);
    RIGHT(sw_finish_all(images, 3, SW_FOREVER));
    sw_status ended = sw_finish_all(images + 4, IMAGES - 4, 0);
    HOLDS(ended == SW_OK || ended == SW_TIMEOUT);
    if (ended == SW_TIMEOUT) RIGHT(sw_finish_all(images + 4, IMAGES - 4, SW_FOREVER));
    HOLDS(sw_finish(images[200], SW_FOREVER, NULL) == SW_ERROR_ENDED);
    takes_little_memory();
    uint64_t frames = 0;
    for (int at = 0; at < IMAGES; at++) {
        RIGHT(sw_get_summary(images[at], &summary));
        frames += summary.frames_written;
        RIGHT(sw_free(images[at]));
    }
    RIGHT(sw_dataset_free(dataset));
    printf("%" PRIu64 " frames\n", frames);
    return 0;
}
