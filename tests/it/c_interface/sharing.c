/* Two images share a ring: what the library says of it is what each of them can have. */

#include "checks.h"

enum { BUFFERS = 24, SIDE = 64 };

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    /* Four frames a chunk: some buffers are kept for each image. */
    const sw_dim dims[] = {
        {.name = "t", .kind = SW_DIM_TIME, .chunk = 4, .shard = 8},
        {.name = "y", .kind = SW_DIM_SPACE, .size = SIDE},
        {.name = "x", .kind = SW_DIM_SPACE, .size = SIDE},
    };
    sw_config config;
    RIGHT(sw_config_init(&config, sizeof config));
    config.dtype = SW_U8, config.dims = dims, config.dim_count = 3, config.workers = 1, config.sync = 0;
    config.ring_bytes = BUFFERS * SIDE * SIDE;
    sw_dataset *dataset;
    sw_acquisition *left, *right;
    RIGHT(sw_dataset_create(argv[1], 0, &dataset));
    RIGHT(sw_dataset_acquisition(dataset, "left", &config, &left));
    /* Before the other one begins, by which its part becomes smaller. */
    int32_t descriptor, refused = -7;
    RIGHT(sw_event_open(left, SW_EVENT_RING_HIGH, 0, &descriptor));
    RIGHT(sw_dataset_acquisition(dataset, "right", &config, &right));

    sw_layout layout = {.size = sizeof layout};
    sw_stats stats = {.size = sizeof stats};
    RIGHT(sw_get_layout(left, &layout));
    RIGHT(sw_get_stats(left, &stats));
    const uint64_t most = layout.ring_frames;
    HOLDS(most < BUFFERS && stats.ring_frames == most && stats.ring_free == most);
    HOLDS(sw_event_open(left, SW_EVENT_RING_HIGH, most + 1, &refused) == SW_ERROR_CONFIG && refused == -7);

    sw_frame frame;
    uint64_t got = 0;
    while (sw_acquire(left, 0, &frame) == SW_OK) got++;
    HOLDS(got == most);
    sw_events events = 0;
    RIGHT(sw_event_wait(left, descriptor, 0, &events));
    HOLDS(events == SW_EVENT_RING_HIGH);
    sw_acquisition *both[] = {left, right};
    for (int at = 0; at < 2; at++) {
        RIGHT(sw_abort(both[at], SW_FOREVER));
        RIGHT(sw_free(both[at]));
    }
    RIGHT(sw_dataset_free(dataset));
    return 0;
}
