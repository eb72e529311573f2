/* One run of chucky's writer on the CPU, as rivals.py does it for the others.
 *
 *   chucky PATH FRAMES POOL_FILE POOL_FRAMES ROWS COLUMNS CHUNK×3 SHARD×3 DTYPE CODEC UNBUFFERED BATCH WARM_PATH
 *
 * Loads the pool, creates the dataset, says "ready" on its standard error, waits for a line, and writes. Prints one
 * JSON object. With a WARM_PATH, a first pass of two shards goes there, untimed and in the same process. */

#include "dimension.h"
#include "stream.cpu.h"
#include "zarr_fs_sink.h"

#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static int fsync_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about, (void)kind, (void)where;
    int file = open(path, O_RDONLY);
    int failed = file < 0 || fsync(file);
    if (file >= 0)
        close(file);
    return failed;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct task {
    unsigned long frames, pool_frames, rows, columns, chunk[3], shard[3];
    enum dtype dtype;
    struct codec_config codec;
    int unbuffered;
    unsigned batch;
};

struct run {
    /* The stream refers to them as long as it lives. */
    struct dimension *dims;
    struct zarr_fs_sink *sink;
    struct tile_stream_cpu *stream;
};

static struct run create(const struct task *task, const char *path)
{
    struct dimension *dims = calloc(3, sizeof *dims);
    /* As many frames as come. */
    uint64_t sizes[3] = {0, task->rows, task->columns};
    uint64_t chunks[3] = {task->chunk[0], task->chunk[1], task->chunk[2]};
    if (!dims || !dims_create(dims, "tyx", sizes))
        fail("chucky refuses the dimensions");
    dims_set_chunk_sizes(dims, 3, chunks);
    for (int at = 0; at < 3; at++)
        dims[at].chunks_per_shard = task->shard[at] / task->chunk[at];
    dims[0].ngff.type = dimension_axis_time;
    struct zarr_config config = {
        .store_path = path,
        .array_name = "0",
        .data_type = task->dtype,
        .rank = 3,
        .dimensions = dims,
        .unbuffered = task->unbuffered,
        .codec = task->codec,
    };
    struct tile_stream_configuration stream = {
        .buffer_capacity_bytes = 64u << 20,
        .dtype = task->dtype,
        .rank = 3,
        .dimensions = dims,
        .codec = task->codec,
        .max_nlod = 1,
        .target_batch_chunks = task->batch,
        .shard_alignment = task->unbuffered ? 4096 : 0,
    };
    struct run run = {.dims = dims, .sink = zarr_fs_sink_create(&config)};
    if (!run.sink)
        fail("chucky can't create the dataset");
    run.stream = tile_stream_cpu_create(&stream, zarr_fs_sink_as_shard_sink(run.sink));
    if (!run.stream)
        fail("chucky can't create the stream");
    return run;
}

/* Appends and closes; the time of each append goes to `times` if that is given. */
static void write_all(struct run *run, const struct task *task, const char *pool, unsigned long frames, double *times)
{
    size_t frame_bytes = task->rows * task->columns * dtype_bpe(task->dtype);
    struct writer *writer = tile_stream_cpu_writer(run->stream);
    for (unsigned long number = 0; number < frames; number++) {
        const char *frame = pool + number % task->pool_frames * frame_bytes;
        double start = now();
        struct writer_result result = writer_append_wait(writer, (struct slice){frame, frame + frame_bytes});
        if (result.error == writer_error_fail)
            fail("chucky's append failed");
        if (times)
            times[number] = now() - start;
    }
    if (writer_flush(writer).error == writer_error_fail)
        fail("chucky's flush failed");
    zarr_fs_sink_flush(run->sink);
    tile_stream_cpu_destroy(run->stream);
    zarr_fs_sink_destroy(run->sink);
    free(run->dims);
}

static long peak_rss_bytes(void)
{
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    if (status)
        fclose(status);
    return 1024 * kib;
}

int main(int count, char **words)
{
    if (count != 18)
        fail("chucky: 17 arguments are needed, see the head of chucky.c");
    struct task task = {
        .frames = strtoul(words[2], 0, 10),
        .pool_frames = strtoul(words[4], 0, 10),
        .rows = strtoul(words[5], 0, 10),
        .columns = strtoul(words[6], 0, 10),
        .unbuffered = atoi(words[15]),
        .batch = (unsigned)atoi(words[16]),
    };
    for (int at = 0; at < 3; at++) {
        task.chunk[at] = strtoul(words[7 + at], 0, 10);
        task.shard[at] = strtoul(words[10 + at], 0, 10);
    }
    task.dtype = strcmp(words[13], "u8") == 0 ? dtype_u8 : dtype_u16;
    task.codec.id = strcmp(words[14], "blosc-lz4") == 0    ? CODEC_BLOSC_LZ4
                    : strcmp(words[14], "blosc-zstd") == 0 ? CODEC_BLOSC_ZSTD
                                                           : CODEC_NONE;
    if (task.codec.id != CODEC_NONE) {
        task.codec.level = 1;
        task.codec.shuffle = CODEC_SHUFFLE_BIT;
    }
    size_t pool_bytes = task.pool_frames * task.rows * task.columns * dtype_bpe(task.dtype);
    char *pool = malloc(pool_bytes);
    double *times = calloc(task.frames, sizeof *times);
    FILE *file = fopen(words[3], "rb");
    if (!pool || !times || !file || fread(pool, 1, pool_bytes, file) != pool_bytes)
        fail("the pool of frames can't be read");
    fclose(file);
    if (*words[17]) {
        unsigned long frames = 2 * task.shard[0] < task.frames ? 2 * task.shard[0] : task.frames;
        struct run first = create(&task, words[17]);
        write_all(&first, &task, pool, frames, NULL);
    }
    struct run run = create(&task, words[1]);
    fprintf(stderr, "ready\n");
    char line[16];
    if (!fgets(line, sizeof line, stdin))
        return 1;
    double start = now();
    write_all(&run, &task, pool, task.frames, times);
    /* Every file and folder, and the one that holds the dataset. */
    if (nftw(words[1], fsync_one, 16, FTW_DEPTH | FTW_PHYS) || fsync_one(dirname(words[1]), NULL, 0, NULL))
        fail("a file of the dataset can't be synced");
    double seconds = now() - start;
    qsort(times, task.frames, sizeof *times, by_value);
    printf("{\"seconds\": %.9f, \"peak_rss\": %ld, ", seconds, peak_rss_bytes());
    printf("\"append\": {\"count\": %lu, \"frames\": 1, ", task.frames);
    printf("\"p50\": %.9f, \"p99\": %.9f, \"max\": %.9f}}\n", times[task.frames / 2], times[task.frames * 99 / 100],
           times[task.frames - 1]);
    return 0;
}
