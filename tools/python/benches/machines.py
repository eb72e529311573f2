"""What tasks cost on a cluster, and parts of a run beside one process: all on the cores of this machine.

    tools/python/benches/machines.py tasks [--shards 10000] [--level 6] [--folder DIR]
    tools/python/benches/machines.py far [--shards 800] [--delay 20] [--folder DIR]
    tools/python/benches/machines.py parts [--frames 6144] [--turns 3] [--folder DIR]

``tasks`` repacks shards of half a megabyte by ``repack`` with two threads, and by tasks on a cluster of two processes
and of one. The scheduler and the client take a part of the same cores. ``far`` does so with up to 16 processes, in
which each read of the source waits: a library that is loaded before all others delays it, so that waiting is simulated,
and work is not. It needs a C compiler. ``parts`` writes frames of 1024 x 1024 by one process, and by four that have a
quarter of its ring each. Needs ``pip install 'tools/python[dask]'``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path
from typing import Any

import numpy as np

import shardwright as sw
import shardwright.dask

PARTS = 4
RING_BYTES = 256 << 20


def noise(frames: int, edge: int) -> np.ndarray:
    return np.random.default_rng(0).integers(90, 140, (frames, edge, edge), dtype="u2")


def tasks(folder: Path, shards: int, level: int) -> None:
    from distributed import Client, LocalCluster

    run, out, file = folder / "run.ome.zarr", folder / "out.ome.zarr", folder / "tasks.jsonl"
    dims = [sw.time(chunk=1, shard=4), sw.y(256), sw.x(256)]
    with sw.create(run, dims=dims, dtype="u2", codec="none", sync=False) as acq:
        images = noise(64, 256)
        for _ in range(shards * 4 // 64):
            acq.append(images)
    words: dict[str, Any] = {"codec": {"compressor": {"name": "zstd", "level": level}}, "sync": False}
    start = time.perf_counter()
    sw.repack(run, folder / "plain.ome.zarr", workers=2, **words)
    plain = time.perf_counter() - start
    planned = sw.plan_repack(run, out, file, **words)
    took = {}
    for processes in (2, 1):
        shutil.rmtree(out, ignore_errors=True)
        with (
            LocalCluster(n_workers=processes, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            start = time.perf_counter()
            result = shardwright.dask.run(client, file, retries=0)
            took[processes] = time.perf_counter() - start
        finished = sw.finish_tasks(file)
        assert not result.failed
        assert finished.missing == 0
        of_task = sum(receipt["seconds"] for receipt in result.receipts) / result.tasks
        told = f"{1e3 * took[processes] / result.tasks:.2f} ms a task, of which it works {1e3 * of_task:.2f}"
        print(f"{planned.tasks} tasks, {processes} processes: {took[processes]:.1f} s, {told}", flush=True)
    allowed = 1.1 * plain + 0.01 * planned.tasks
    print(
        f"repack {plain:.1f} s; T1 / (2 T2) {took[1] / 2 / took[2]:.2f}; T2 / (1.1 repack + 10 ms a task) "
        f"{took[2] / allowed:.2f}"
    )


SLOW_READS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
ssize_t pread64(int fd, void *to, size_t bytes, off_t at) {
    static ssize_t (*next)(int, void *, size_t, off_t);
    char name[64], path[4096];
    const char *slow = getenv("SLOW_READS_BELOW");
    if (!next) next = (ssize_t (*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread64");
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = slow ? readlink(name, path, sizeof path) : -1;
    if (length >= (ssize_t)strlen(slow ? slow : "") && !strncmp(path, slow, strlen(slow)))
        usleep(atoi(getenv("SLOW_READS_US")));
    return next(fd, to, bytes, at);
}
"""


def far(folder: Path, shards: int, delay: int) -> None:
    """Tasks whose source is far away: how much faster more processes are."""
    from distributed import Client, LocalCluster

    run, out, file = folder / "run.ome.zarr", folder / "out.ome.zarr", folder / "tasks.jsonl"
    dims = [sw.time(chunk=1, shard=4), sw.y(256), sw.x(256)]
    with sw.create(run, dims=dims, dtype="u2", codec="none", sync=False) as acq:
        for _ in range(shards * 4 // 64):
            acq.append(noise(64, 256))
    planned = sw.plan_repack(run, out, file, codec="zstd", sync=False)
    source, library = folder / "slow.c", folder / "slow.so"
    source.write_text(SLOW_READS)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    slow = {"LD_PRELOAD": str(library), "SLOW_READS_BELOW": f"{run.resolve()}/", "SLOW_READS_US": str(1000 * delay)}
    one = 0.0
    for processes in (1, 2, 4, 8, 16):
        shutil.rmtree(out, ignore_errors=True)
        os.environ.update(slow)
        with (
            LocalCluster(n_workers=processes, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            for name in slow:
                del os.environ[name]
            client.wait_for_workers(processes)
            start = time.perf_counter()
            result = shardwright.dask.run(client, file, retries=0)
            took = time.perf_counter() - start
        assert not result.failed
        assert sw.finish_tasks(file).missing == 0
        one = one or took
        told = f"{1e3 * took * processes / planned.tasks:.0f} ms a task and process"
        print(f"{processes} processes: {took:.1f} s, {told}; T1 / (n Tn) {one / took / processes:.2f}", flush=True)


def config(codec: str, ring_bytes: int) -> dict[str, Any]:
    dims = [sw.time(chunk=1, shard=32), sw.y(1024, chunk=512, shard=1024), sw.x(1024, chunk=512, shard=1024)]
    return {"dims": dims, "dtype": "u2", "codec": codec, "ring_bytes": ring_bytes, "workers": 2}


def write(acq: sw.Acquisition, images: np.ndarray, frames: int, index: int, of: int) -> None:
    for number in range(frames):
        if number // 32 % of == index:
            acq.append(images[number % 16], number=number)


def part(path: Path, codec: str, frames: int, index: int, ready: Semaphore, go: Event) -> None:
    images = noise(16, 1024)
    ready.release()
    go.wait()
    of_run = {"index": index, "of": PARTS, "by": "time"}
    with sw.create(path, config(codec, RING_BYTES // PARTS), part=of_run) as acq:
        write(acq, images, frames, index, PARTS)


def together(path: Path, codec: str, frames: int) -> float:
    sw.create_parts(path, config(codec, RING_BYTES // PARTS), parts=PARTS)
    ready, go = multiprocessing.Semaphore(0), multiprocessing.Event()
    words = [(path, codec, frames, index, ready, go) for index in range(PARTS)]
    writers = [multiprocessing.Process(target=part, args=of_one) for of_one in words]
    for writer in writers:
        writer.start()
    for _ in writers:
        ready.acquire()
    start = time.perf_counter()
    go.set()
    for writer in writers:
        writer.join()
    assert sw.finish_parts(path).frames_missing == 0
    return time.perf_counter() - start


def parts(folder: Path, frames: int, turns: int) -> None:
    images = noise(16, 1024)
    for codec in ("none", "blosc-lz4"):
        ratios = []
        for _ in range(turns):
            start = time.perf_counter()
            with sw.create(folder / "one.zarr", config(codec, RING_BYTES)) as acq:
                write(acq, images, frames, 0, 1)
            one = time.perf_counter() - start
            shutil.rmtree(folder / "one.zarr")
            ratios.append(one / together(folder / "many.zarr", codec, frames))
            shutil.rmtree(folder / "many.zarr")
        median, least, most = statistics.median(ratios), min(ratios), max(ratios)
        print(f"{codec}: {PARTS} processes at {median:.2f} of one's speed ({least:.2f} to {most:.2f})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tasks", "far", "parts"))
    parser.add_argument("--folder", help="where datasets are written")
    parser.add_argument("--shards", type=int, help="10,000, and 800 of what is far")
    parser.add_argument("--delay", type=int, default=20, help="of a read that is far, in ms")
    parser.add_argument("--level", type=int, default=6, help="of zstd: how much work a task is")
    parser.add_argument("--frames", type=int, default=6144)
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        if args.what == "tasks":
            tasks(Path(folder), args.shards or 10_000, args.level)
        elif args.what == "far":
            far(Path(folder), args.shards or 800, args.delay)
        else:
            multiprocessing.set_start_method("spawn")
            parts(Path(folder), args.frames, args.turns)


if __name__ == "__main__":
    main()
