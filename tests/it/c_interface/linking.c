/* A program that has zlib of the system, and functions of its own with the names of the other libraries within. */

#include <shardwright.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "checks.h"

/* Were one of these called by the library, it would end here. */
#define OWN(name)                                                                                                     \
    void name(void);                                                                                                  \
    void name(void) { abort(); }
OWN(ZSTD_compressBlock) OWN(ZSTD_compress2) OWN(ZSTD_compressStream2) OWN(ZSTD_createCCtx) OWN(ZSTD_versionNumber)
OWN(LZ4_compress_default) OWN(LZ4_compress_fast) OWN(LZ4_compress_fast_extState) OWN(LZ4_versionNumber)
OWN(blosc_compress) OWN(blosc_compress_ctx) OWN(blosc_init)
OWN(libdeflate_alloc_compressor) OWN(libdeflate_gzip_compress) OWN(libdeflate_zlib_compress)

static const sw_dim dims[] = {
    {.name = "t", .kind = SW_DIM_TIME, .chunk = 1, .shard = 4},
    {.name = "y", .kind = SW_DIM_SPACE, .size = 64},
    {.name = "x", .kind = SW_DIM_SPACE, .size = 64},
};

static void run(const char *path, sw_compressor compressor) {
    sw_config config;
    RIGHT(sw_config_init(&config, sizeof config));
    config.dtype = SW_U8, config.dims = dims, config.dim_count = 3, config.ring_bytes = 1 << 18;
    config.compressor = compressor, config.overwrite = 1;
    sw_acquisition *acquisition;
    RIGHT(sw_create(path, &config, &acquisition));
    for (uint64_t number = 0; number < 5; number++) {
        sw_frame frame;
        RIGHT(sw_acquire(acquisition, 10000, &frame));
        memset(frame.data, (int)number + 1, frame.bytes);
        RIGHT(sw_commit(acquisition, &frame, number, NULL));
    }
    sw_summary summary = {.size = sizeof summary};
    RIGHT(sw_finish(acquisition, SW_FOREVER, &summary));
    HOLDS(summary.frames_written == 5 && summary.frames_missing == 0);
    RIGHT(sw_free(acquisition));
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    for (sw_compressor compressor = SW_COMPRESSOR_NONE; compressor <= SW_COMPRESSOR_ZLIB; compressor++)
        run(arguments[1], compressor);
    /* The header's version is that of the library of the system; the one within has another. */
    HOLDS(!strcmp(zlibVersion(), ZLIB_VERSION));
    unsigned char text[100] = "again and again and again and again", packed[200], unpacked[100];
    uLongf packed_bytes = sizeof packed, unpacked_bytes = sizeof unpacked;
    HOLDS(compress(packed, &packed_bytes, text, sizeof text) == Z_OK && packed_bytes < sizeof text);
    HOLDS(uncompress(unpacked, &unpacked_bytes, packed, packed_bytes) == Z_OK && !memcmp(text, unpacked, sizeof text));
    return 0;
}
