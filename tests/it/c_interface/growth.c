/* A program of today and one of tomorrow, with today's library. Tomorrow's struct is longer; what the library does not
   know must be zero. */

#include <shardwright.h>
#include <stdio.h>
#include <string.h>

struct tomorrow {
    sw_config today;
    uint64_t options[5];
};

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, sw_last_error());
    return 1;
}

static int run(const char *path, const sw_config *config) {
    static const uint8_t pixels[3][64 * 64] = {{1}, {2}, {3}};
    sw_acquisition *acquisition;
    sw_appended appended;
    sw_summary summary = {.size = sizeof summary};
    if (sw_create(path, config, &acquisition)) return failed("create");
    if (sw_append(acquisition, pixels, sizeof pixels, 0, NULL, SW_FOREVER, &appended)) return failed("append");
    if (sw_finish(acquisition, SW_FOREVER, &summary)) return failed("finish");
    if (sw_free(acquisition)) return failed("free");
    return summary.frames_written != 3;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    const sw_dim dims[] = {
        {.name = "t", .kind = SW_DIM_TIME},
        {.name = "y", .kind = SW_DIM_SPACE, .size = 64},
        {.name = "x", .kind = SW_DIM_SPACE, .size = 64},
    };
    /* Bytes behind the struct must stay as they are, whatever the library knows. */
    struct {
        sw_config config;
        uint8_t guard[64];
    } place;
    memset(&place, 0xa5, sizeof place);
    if (sw_config_init(&place.config, sizeof place.config)) return failed("init");
    for (size_t at = 0; at < sizeof place.guard; at++)
        if (place.guard[at] != 0xa5) return fprintf(stderr, "sw_config_init wrote behind the struct\n"), 1;
    if (place.config.size != sizeof(sw_config)) return fprintf(stderr, "another size\n"), 1;
    place.config.dtype = SW_U8;
    place.config.ring_bytes = 1 << 20;
    place.config.dims = dims;
    place.config.dim_count = 3;
    if (run(argv[1], &place.config)) return 1;

    struct tomorrow tomorrow;
    memset(&tomorrow, 0xa5, sizeof tomorrow);
    if (sw_config_init(&tomorrow.today, sizeof tomorrow)) return failed("init tomorrow's");
    tomorrow.today.dtype = SW_U8;
    tomorrow.today.ring_bytes = 1 << 20;
    tomorrow.today.dims = dims;
    tomorrow.today.dim_count = 3;
    if (run(argv[2], &tomorrow.today)) return 1;
    tomorrow.options[4] = 1;
    sw_acquisition *acquisition = NULL;
    if (sw_create(argv[2], &tomorrow.today, &acquisition) != SW_ERROR_VERSION || acquisition)
        return fprintf(stderr, "an option that the library does not know was not refused\n"), 1;
    printf("%s\n", sw_last_error());
    return 0;
}
