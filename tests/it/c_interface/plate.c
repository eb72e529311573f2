/* A plate of which one well is visited, and one that is planned is not. */

#include <shardwright.h>
#include <stdio.h>
#include <string.h>

#include "checks.h"

enum { SIDE = 16 };

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    const sw_dim dims[] = {
        {.name = "t", .kind = SW_DIM_TIME},
        {.name = "y", .kind = SW_DIM_SPACE, .size = SIDE, .scale = 0.5, .unit = "micrometer", .translation = 7},
        {.name = "x", .kind = SW_DIM_SPACE, .size = SIDE, .scale = 0.5, .unit = "micrometer"},
    };
    sw_config config;
    RIGHT(sw_config_init(&config, sizeof config));
    config.dims = dims;
    config.dim_count = 3;
    config.dtype = SW_U8;
    config.ring_bytes = 1 << 20;

    sw_dataset *plate = NULL;
    RIGHT(sw_dataset_create(argv[1], 0, &plate));
    HOLDS(sw_dataset_plate(plate, NULL) == SW_ERROR_NULL);
    HOLDS(sw_dataset_plate(plate, "{\"rows\": [\"A\"]") == SW_ERROR_CONFIG);
    HOLDS(sw_dataset_plate(plate, "{\"rows\": [\"A\", \"A\"], \"columns\": [\"1\"]}") == SW_ERROR_CONFIG);
    HOLDS(strstr(sw_last_error(), "twice") != NULL);
    RIGHT(sw_dataset_plate(plate, "{\"rows\": [\"A\", \"B\"], \"columns\": [\"1\", \"2\"], \"acquisitions\": "
                                  "[{\"id\": 0}, {\"id\": 5, \"name\": \"after\"}]}"));

    sw_acquisition *visited = NULL, *left = NULL;
    HOLDS(sw_dataset_acquisition(plate, "B/2/0", &config, &visited) == SW_ERROR_CONFIG);
    config.plate_acquisition = 6;
    HOLDS(sw_dataset_acquisition(plate, "B/3/0", &config, &visited) == SW_ERROR_CONFIG);
    RIGHT(sw_dataset_acquisition(plate, "B/2/0", &config, &visited));
    RIGHT(sw_dataset_acquisition(plate, "A/1/0", &config, &left));
    HOLDS(sw_dataset_plate(plate, "{\"rows\": [\"A\"], \"columns\": [\"1\"]}") == SW_ERROR_CONFIG);
    uint8_t pixels[SIDE * SIDE];
    memset(pixels, 9, sizeof pixels);
    sw_appended appended = {0};
    RIGHT(sw_append(visited, pixels, sizeof pixels, 0, NULL, SW_FOREVER, &appended));
    HOLDS(appended.frames == 1);
    RIGHT(sw_finish(left, SW_FOREVER, NULL));
    RIGHT(sw_finish(visited, SW_FOREVER, NULL));
    RIGHT(sw_free(left));
    RIGHT(sw_free(visited));
    RIGHT(sw_dataset_free(plate));
    puts("one well");
    return 0;
}
