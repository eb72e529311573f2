/* Every option, as a struct and as a document: both must give the same configuration. Prints it as JSON. With a
   document as the argument, that one is printed instead. */

#include <shardwright.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    const sw_dim dims[] = {
        {.name = "t", .kind = SW_DIM_TIME, .size = 5, .chunk = 1, .shard = 5, .scale = 0.5, .unit = "second"},
        {.name = "p", .size = 3},
        {.name = "c", .kind = SW_DIM_CHANNEL, .size = 2},
        {.name = "y", .kind = SW_DIM_SPACE, .size = 30, .chunk = 10, .shard = 30},
        {.name = "x", .kind = SW_DIM_SPACE, .size = 40, .unit = "micrometer",
         .translation = -12.5},
    };
    const char *const order[] = {"t", "c", "p"};
    const size_t affinity[] = {0};
    const sw_record_field fields[] = {{.name = "laser", .dtype = SW_U16}, {.name = "stage", .dtype = SW_F64}};
    const sw_channel channels[] = {{.label = "DAPI", .color = "0000FF", .window_low = 10, .window_high = 900},
                                   {.label = "GFP"}};
    const sw_volume volume = {.key = "fine", .hash = SW_HASH_MURMURHASH3_X86_128, .preshift_bits = 1,
                              .minishard_bits = -1, .shard_bits = 3, .gzip_indexes = 1,
                              .voxel_offset = {1, -2, 3}, .resolution = {4, 5, 6.5}};
    const int32_t fill = -7;
    sw_config config;
    if (sw_config_init(&config, sizeof config)) return 1;
    if (argc > 1) {
        config.document = argv[1];
    } else {
        config.dtype = SW_I32;
        config.dims = dims;
        config.dim_count = 5;
        config.acquisition_order = order;
        config.acquisition_order_count = 3;
        config.compressor = SW_COMPRESSOR_BLOSC;
        config.level = 3;
        config.blosc_cname = SW_BLOSC_ZSTD;
        config.shuffle = SW_SHUFFLE_BYTE;
        config.block_bytes = 4096;
        config.checksum = 0;
        config.placement = SW_PLACEMENT_PACKED;
        config.index_location = SW_INDEX_START;
        config.storage = SW_STORAGE_BUFFERED;
        config.fill_pixel = &fill;
        config.skip_empty_chunks = 0;
        config.ring_full = SW_RING_FULL_BLOCK;
        config.ring_full_timeout_ms = 1500;
        config.ring_bytes = 1 << 20;
        config.buffer_bytes = 8192;
        config.frame_offset = 16;
        config.row_stride = 256;
        config.workers = 2;
        config.affinity = affinity;
        config.affinity_count = 1;
        config.checkpoint_every_ms = 250;
        config.record_fields = fields;
        config.record_field_count = 2;
        config.record_roi = 1;
        config.channels = channels;
        config.channel_count = 2;
        config.name = "µ";
        config.sync = 0;
        config.overwrite = 1;
        config.ome = SW_OME_0_6;
        config.dialect = SW_DIALECT_ZARR2_SHARDED;
        config.index_checksum = 0;
        config.volume = &volume;
        config.guard_maps = 1;
        config.leap_max = 7000;
        config.pixel_format = SW_PIXELS_MONO12_PACKED;
        config.unused_low_bits = 4;
        config.orientation = SW_ORIENTATION_TRANSPOSE | SW_ORIENTATION_FLIP_COLUMNS;
        config.manifest = SW_MANIFEST_FILES | SW_MANIFEST_KERCHUNK;
        config.pyramid = SW_PYRAMID_MODE;
        config.pyramid_levels = 3;
        config.pyramid_keep = SW_KEEP_X;
        config.pyramid_depth = SW_DEPTH_AUTO;
        config.plate_acquisition = 8;
        config.key = "a/b";
        config.bare = 1;
        config.parts = 5;
        config.part = 3;
        config.part_by = SW_PART_BY_FRAME;
        config.label = "{\"colors\": [{\"value\": -1, \"rgba\": [1, 2, 3, 4]}]}";
    }
    size_t needed;
    if (sw_config_json(&config, NULL, 0, &needed)) return fprintf(stderr, "%s\n", sw_last_error()), 1;
    char *text = malloc(needed);
    if (sw_config_json(&config, text, needed, NULL)) return 1;
    puts(text);
    free(text);
    return 0;
}
