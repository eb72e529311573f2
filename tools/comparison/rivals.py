"""The other writers. As a program: one run of one of them, in a process of its own.

The pool of frames is loaded first, and the dataset created. Then the clock runs from the first append until the writer
is closed and every file and folder of the dataset was fsynced. One JSON object goes to stdout. Where the task says so,
the same writer has written a shard or two before, untimed, so that the memory it needs is its own already."""

import gc
import json
import os
import shutil
import sys
import time
from collections import deque
from importlib.metadata import version
from pathlib import Path

import options

CORES = len(os.sched_getaffinity(0))

# Frame buffers that a camera would let tensorstore keep while it copies from them.
COPIES_IN_FLIGHT = 8
# Shards that tensorstore encodes and writes while the next one fills. More of them cost memory, not time.
COMMITS_IN_FLIGHT = 2
# What a warmed writer has written before: as many as it has in flight at once.
WARM_SHARDS = COMMITS_IN_FLIGHT + 1


class Clock:
    """Times single appends."""

    def __init__(self):
        self.nanoseconds = []

    def __enter__(self):
        self.start = time.perf_counter_ns()

    def __exit__(self, *_):
        self.nanoseconds.append(time.perf_counter_ns() - self.start)


class AcquireZarr:
    """Frames are appended one at a time, which is what its stream is made for."""

    name = "acquire-zarr"
    shards_to_tune = 2
    # 0: as many threads as it finds cores. They wait by spinning, so that fewer or more can be better.
    variants = tuple({"max_threads": threads} for threads in dict.fromkeys((0, max(1, CORES - 1), 2 * CORES)))

    def __init__(self, case, path, frames, variant):
        import acquire_zarr as az

        def dimension(name, kind, size, chunk, shard):
            return az.Dimension(
                name=name, kind=kind, array_size_px=size, chunk_size_px=chunk, shard_size_chunks=shard // chunk
            )

        kinds = (az.DimensionType.TIME, az.DimensionType.SPACE, az.DimensionType.SPACE)
        dimensions = list(map(dimension, "tyx", kinds, (0, *case.frame), case.chunk, case.shard))
        codec = {"blosc-lz4": az.CompressionCodec.BLOSC_LZ4, "blosc-zstd": az.CompressionCodec.BLOSC_ZSTD}.get(
            case.codec
        )
        array = az.ArraySettings(dimensions=dimensions, data_type=getattr(az.DataType, case.zarr_dtype.upper()))
        if case.levels:
            # It halves rows and columns, but not a dimension of time, as often as chunks allow and this says.
            array.downsampling_method, array.max_levels = az.DownsamplingMethod.MEAN, case.levels
        if codec is not None:
            array.compression = az.CompressionSettings(compressor=az.Compressor.BLOSC1, codec=codec, level=1, shuffle=2)
        self.stream = az.ZarrStream(az.StreamSettings(arrays=[array], store_path=str(path), **variant))

    def write(self, pool, frames, clock):
        for number in range(frames):
            with clock:
                self.stream.append(pool[number % len(pool)])
        self.stream.close()


class Tensorstore:
    """One transaction a shard, so that nothing is read back and each shard is written once.

    `frames`: each frame is written when it comes. `shards`: the whole shard is in memory already and is handed over
    without a copy, which no camera does; the more favourable case counts."""

    name = "tensorstore"
    shards_to_tune = 2
    variants = (
        {"feed": "frames", "file_io_sync": True},
        {"feed": "frames", "file_io_sync": False},
        {"feed": "shards", "file_io_sync": True},
        {"feed": "shards", "file_io_sync": False},
    )

    def __init__(self, case, path, frames, variant):
        import tensorstore as ts

        self.ts, self.depth, self.feed = ts, case.shard[0], variant["feed"]
        little = {"name": "bytes", "configuration": {"endian": "little"}}
        sharding = {
            "chunk_shape": case.chunk,
            "codecs": [little, *blosc(case)],
            "index_codecs": [little, {"name": "crc32c"}],
            "index_location": "end",
        }
        spec = {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": str(path)},
            "context": {
                "data_copy_concurrency": {"limit": CORES},
                "file_io_concurrency": {"limit": max(4, CORES)},
                "file_io_sync": variant["file_io_sync"],
                "cache_pool": {"total_bytes_limit": 0},
            },
            # Saves it a comparison of every chunk with the fill value.
            "store_data_equal_to_fill_value": True,
            "metadata": {
                "shape": (frames, *case.frame),
                "data_type": case.zarr_dtype,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": case.shard}},
                "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
            },
        }
        self.array = ts.open(spec, create=True).result()

    def write(self, pool, frames, clock):
        copies, commits = deque(), deque()
        for first in range(0, frames, self.depth):
            transaction = self.ts.Transaction()
            shard = self.array.with_transaction(transaction)
            last = min(first + self.depth, frames)
            for start, stop in self.pieces(first, last, len(pool)):
                piece = pool[start % len(pool) : start % len(pool) + stop - start]
                with clock:
                    kept = self.feed == "shards"
                    copies.append(shard[start:stop].write(piece, can_reference_source_data_indefinitely=kept).copy)
                    if len(copies) > COPIES_IN_FLIGHT:
                        copies.popleft().result()
                    if stop == last:
                        while copies:
                            copies.popleft().result()
                        commits.append(transaction.commit_async())
                        if len(commits) > COMMITS_IN_FLIGHT:
                            commits.popleft().result()
        for commit in commits:
            commit.result()

    def pieces(self, first, last, pool):
        """Ranges of frames that lie in one piece in the pool."""
        step = 1 if self.feed == "frames" else pool
        start = first
        while start < last:
            stop = min(last, start // step * step + step)
            yield start, stop
            start = stop


def _has_fused_pipeline():
    """zarr-python 3.4 has it, for those who ask for it."""
    return tuple(map(int, version("zarr").split(".")[:2])) >= (3, 4)


class ZarrPython:
    """Whole shards at a time; anything less would read each shard back and write it again."""

    name = "zarr-python"
    shards_to_tune = 1  # It is the slowest by far.
    variants = (
        {"codec_pipeline.batch_size": 1},
        {"codec_pipeline.batch_size": 64},
        *(
            {"codec_pipeline.path": "zarr.core.codec_pipeline.FusedCodecPipeline", "codec_pipeline.max_workers": count}
            for count in ((1, CORES) if _has_fused_pipeline() else ())
        ),
    )

    def __init__(self, case, path, frames, variant):
        import zarr
        from zarr.codecs import BloscCodec

        zarr.config.set({"threading.max_workers": CORES, **variant})
        compressors = [BloscCodec(**codec["configuration"]) for codec in blosc(case)] or None
        self.depth = case.shard[0]
        self.array = zarr.create_array(
            store=str(path),
            shape=(frames, *case.frame),
            chunks=case.chunk,
            shards=case.shard,
            dtype=case.zarr_dtype,
            compressors=compressors,
            filters=None,
            fill_value=0,
            config={"write_empty_chunks": True},
        )

    def write(self, pool, frames, clock):
        import numpy as np

        for first in range(0, frames, self.depth):
            last = min(first + self.depth, frames)
            start = first % len(pool)
            with clock:
                if start + last - first <= len(pool):
                    shard = pool[start : start + last - first]
                else:
                    shard = np.take(pool, range(first, last), axis=0, mode="wrap")
                self.array[first:last] = shard


def blosc(case):
    if case.codec == "none":
        return []
    configuration = {
        "cname": case.codec.removeprefix("blosc-"),
        "clevel": 1,
        "shuffle": "bitshuffle",
        "typesize": case.element_bytes,
        "blocksize": 0,
    }
    return [{"name": "blosc", "configuration": configuration}]


class Chucky:
    """The announced successor of acquire-zarr's core, on the CPU; a program of its own, see chucky.c. Frames are
    appended one at a time. Its batches are of 1,024 chunks unless told otherwise, and only full ones are compressed in
    parallel."""

    name = "chucky"
    shards_to_tune = 2
    variants = tuple(
        {"unbuffered": unbuffered, "target_batch_chunks": batch} for unbuffered in (0, 1) for batch in (0, 64)
    )


RIVALS = {rival.name: rival for rival in (AcquireZarr, Tensorstore, ZarrPython, Chucky)}
assert options.RIVALS == tuple(RIVALS), "the command line offers the rivals that there are"
# While frames come. chucky does, too, but chucky.c asks for level 0 alone.
MAKE_LEVELS = (AcquireZarr.name,)


def fsync_tree(path):
    """Every file, then every folder, deepest first, and the one that holds the dataset."""
    for folder, _, names in os.walk(path, topdown=False):
        for name in [*names, "."]:
            descriptor = os.open(os.path.join(folder, name), os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
    descriptor = os.open(Path(path).parent, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def percentile(sorted_values, share):
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


def peak_rss_bytes():
    """Of this program alone; ru_maxrss would count what its parent had before the exec."""
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def main(task):
    import frames as frames_file
    from cases import Case

    case = Case.told(task["case"])
    pool = frames_file.load(task["pool"], case)
    write = RIVALS[task["writer"]]
    if task["warm"]:
        frames = min(task["frames"], WARM_SHARDS * case.shard[0])
        write(case, task["warm"], frames, task["variant"]).write(pool, frames, Clock())
        gc.collect()
        shutil.rmtree(task["warm"])
    rival = write(case, task["path"], task["frames"], task["variant"])
    clock = Clock()
    print("ready", file=sys.stderr, flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    rival.write(pool, task["frames"], clock)
    closed = time.perf_counter()
    fsync_tree(task["path"])
    synced = time.perf_counter()
    os.sync()
    times = sorted(clock.nanoseconds)
    return {
        "seconds": synced - start,
        "fsync_seconds": synced - closed,
        # Beyond the clock: it would charge this writer with what other programs left unwritten.
        "os_sync_seconds": time.perf_counter() - synced,
        "peak_rss": peak_rss_bytes(),
        "append": {
            "count": len(times),
            "frames": task["frames"] / len(times),
            **{name: percentile(times, share) / 1e9 for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1))},
        },
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
