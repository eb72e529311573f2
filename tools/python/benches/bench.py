"""Speeds of the package beside those of the library and of acquire-zarr: ratios of paired turns.

    cargo build --release --manifest-path tools/python/Cargo.toml --example peer
    tools/python/benches/bench.py --rust tools/python/target/release/examples/peer [--turns 5] [--folder DIR]

Each case is run in turns, one after the other, from the creation to the finished dataset; what is told is the median of
the ratios of a turn. Frames are made before, and each loop has run once before it counts. The package must be built
with ``pip install`` (the environment of the tests has a slower one). Without ``--rust``, loans and stacks are compared
with ``append``.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import shardwright as sw

Loop = Callable[[Path, int, int], float]
#: Edges of frames and their number where acquire-zarr is the rival.
RIVAL_CASES = ((64, 1_000_000), (512, 4_000), (2048, 256))
#: What it is asked for: a codec, and whether levels of half the size are made of frames that are large enough.
RIVAL_WAYS = (("none", False), ("blosc-lz4", False), ("blosc-zstd", False), ("none", True), ("blosc-zstd", True))
#: A ring for runs of two gigabytes, of which the usual one takes a good part to make.
RIVAL_RING_BYTES = 1 << 28
#: Bytes of a chunk, and of what a bare program writes at a time.
CHUNK_BYTES = 1 << 19


def config(edge: int, **more: Any) -> dict[str, Any]:
    dims = [sw.time(), sw.y(edge), sw.x(edge)]
    return {"dims": dims, "dtype": "u2", "codec": "none", "ring_bytes": 1 << 30, "overwrite": True, **more}


@functools.lru_cache(maxsize=1)
def images(edge: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 4096, (64, edge, edge), dtype="u2")


def one_by_one(path: Path, edge: int, frames: int, **more: Any) -> float:
    stack, start = images(edge), time.perf_counter()
    with sw.create(path, config(edge, **more)) as acq:
        for number in range(frames):
            acq.append(stack[number % 64])
    return time.perf_counter() - start


def stacks(path: Path, edge: int, frames: int, **more: Any) -> float:
    stack, start = images(edge), time.perf_counter()
    with sw.create(path, config(edge, **more)) as acq:
        for _ in range(frames // 64):
            acq.append(stack)
    return time.perf_counter() - start


def loans(path: Path, edge: int, frames: int) -> float:
    stack, start = images(edge), time.perf_counter()
    with sw.create(path, config(edge)) as acq:
        for number in range(frames):
            with acq.acquire() as frame:
                frame.array[:] = stack[number % 64]
                frame.commit()
    return time.perf_counter() - start


def bare(copies: bool) -> Loop:
    """A thread for each core that writes as many bytes to a file, or copies them into a ring before.

    No writer can do with less than the latter, if its caller goes on with the next frame.
    """

    def run(path: Path, edge: int, frames: int) -> float:
        cores, pixels = len(os.sched_getaffinity(0)), images(edge).reshape(-1).view("u1")[:CHUNK_BYTES]
        rings = [np.ones(RIVAL_RING_BYTES // cores, dtype="u1") for _ in range(cores if copies else 0)]
        path.mkdir()

        def write(number: int) -> None:
            descriptor = os.open(path / str(number), os.O_WRONLY | os.O_CREAT)
            for at in range(0, frames * edge * edge * 2 // cores, pixels.size):
                source = pixels
                if copies:
                    ring, start = rings[number], at % rings[number].size
                    source = ring[start : start + pixels.size]
                    np.copyto(source, pixels)
                os.pwrite(descriptor, source, at)
            os.close(descriptor)

        threads = [threading.Thread(target=write, args=[number]) for number in range(cores)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - start

    return run


def stream(package: str, codec: str, levels: bool, threads: int) -> Loop:
    """acquire-zarr's own loop, by it or by what stands in for it. `threads`: 0 leaves the number to it."""

    def run(path: Path, edge: int, frames: int) -> float:
        import importlib

        aqz = importlib.import_module(package)
        kinds, chunk = aqz.DimensionType, min(edge, 512)
        # Chunks of half a megabyte, for both.
        deep = max(1, CHUNK_BYTES // 2 // chunk**2)
        dims = [("t", kinds.TIME, 0, deep, 16)]
        dims += [(name, kinds.SPACE, edge, chunk, edge // chunk) for name in "yx"]
        array = aqz.ArraySettings(
            dimensions=[
                aqz.Dimension(name=name, kind=kind, array_size_px=size, chunk_size_px=length, shard_size_chunks=many)
                for name, kind, size, length, many in dims
            ],
            data_type=np.uint16,
        )
        if codec != "none":
            made = {"blosc-lz4": aqz.CompressionCodec.BLOSC_LZ4, "blosc-zstd": aqz.CompressionCodec.BLOSC_ZSTD}[codec]
            array.compression = aqz.CompressionSettings(
                compressor=aqz.Compressor.BLOSC1, codec=made, level=1, shuffle=2
            )
        if levels:
            array.downsampling_method = aqz.DownsamplingMethod.MEAN
        stack, start = images(edge), time.perf_counter()
        settings = aqz.StreamSettings(store_path=str(path), arrays=[array], overwrite=True, max_threads=threads)
        writer = aqz.ZarrStream(settings)
        for number in range(frames):
            writer.append(stack[number % 64])
        writer.close()
        return time.perf_counter() - start

    return run


def in_rust(command: str, how: str) -> Loop:
    def run(path: Path, edge: int, frames: int) -> float:
        return float(told_by([command, str(path), str(edge), str(frames), how])["seconds"])

    return run


def told_by(command: list[str]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return told


def in_turns(runs: dict[str, Loop], args: argparse.Namespace, edge: int, frames: int) -> dict[str, list[float]]:
    """Frames a second of each loop, turn by turn."""
    rates: dict[str, list[float]] = {of: [] for of in runs}
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        path = Path(folder) / "run.zarr"
        for turn in range(-1, args.turns):
            for of, run in runs.items():
                rate = frames / run(path, edge, frames if turn >= 0 else min(frames, 640))
                shutil.rmtree(path, ignore_errors=True)
                if turn >= 0:
                    rates[of].append(rate)
    return rates


def paired(name: str, pairs: dict[str, tuple[Loop, Loop]], args: argparse.Namespace, edge: int, frames: int) -> None:
    """Prints how fast the first of each pair is, as a part of the second one's speed."""
    for of, (loop, base) in pairs.items():
        rates = in_turns({"loop": loop, "base": base}, args, edge, frames)
        found = [ours / theirs for ours, theirs in zip(rates["loop"], rates["base"], strict=True)]
        median, rate = statistics.median(found), statistics.median(rates["loop"])
        print(f"{name}, {of}: {median:.2f} ({min(found):.2f} to {max(found):.2f}), {rate:,.0f} frames/s", flush=True)


def beside_acquire_zarr(args: argparse.Namespace) -> None:
    """Prints how fast the same program is with one import changed. The rival has its best run and number of threads."""
    cores, all_ratios = len(os.sched_getaffinity(0)), []
    for codec, levels in RIVAL_WAYS:
        for edge, frames in RIVAL_CASES:
            if levels and edge < 512:
                continue
            frames = 64 if args.tiny else frames
            threads = dict.fromkeys((0, max(1, cores - 1), 2 * cores))
            runs = {f"acquire-zarr {count}": stream("acquire_zarr", codec, levels, count) for count in threads}
            runs["ours"] = stream("shardwright.acquire_zarr", codec, levels, 0)
            if codec == "none" and not levels:
                short = {"ring_bytes": RIVAL_RING_BYTES}
                runs |= {"append": functools.partial(one_by_one, **short), "stacks": functools.partial(stacks, **short)}
                runs |= {"copies and writes": bare(True), "writes": bare(False)}
            rates = in_turns(runs, args, edge, frames)
            best = max(rate for of, found in rates.items() if of.startswith("acquire-zarr") for rate in found)
            told = {of: statistics.median(found) / best for of, found in rates.items() if not of.startswith("acq")}
            all_ratios.append(told["ours"])
            words, way = ", ".join(f"{of} {ratio:.2f}" for of, ratio in told.items()), codec + " with levels" * levels
            print(f"{edge}x{edge} u16, {way}, times acquire-zarr's best ({best:,.0f} frames/s): {words}", flush=True)
    mean = math.exp(statistics.fmean(map(math.log, all_ratios)))
    print(f"shardwright.acquire_zarr: geometric mean {mean:.2f}, least {min(all_ratios):.2f}")


@contextmanager
def spinning() -> Iterator[Callable[[], float]]:
    """Another thread that keeps the interpreter; gives what tells its turns a second since it was last asked."""
    done, count = threading.Event(), [0]

    def spin() -> None:
        while not done.is_set():
            count[0] += 1

    thread = threading.Thread(target=spin)
    thread.start()
    last = [0, time.perf_counter()]

    def pace() -> float:
        now, turns = time.perf_counter(), count[0]
        rate = (turns - last[0]) / (now - last[1])
        last[:] = [turns, now]
        return rate

    try:
        yield pace
    finally:
        done.set()
        thread.join()


def beside_a_spinning_thread(args: argparse.Namespace, frames: int) -> None:
    """Prints how long an append takes at most while another thread keeps the interpreter."""
    stack, took = images(64), []
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        with sw.create(Path(folder) / "run.zarr", config(64)) as acq, spinning():
            for number in range(frames):
                image = stack[number % 64]
                start = time.perf_counter()
                acq.append(image)
                took.append(time.perf_counter() - start)
    took.sort()
    # The turns that the interpreter gives to the other thread between two calls are none of the package's.
    print(
        f"append of 64x64 beside a spinning thread: p50 {took[len(took) // 2] * 1e6:.1f} us, "
        f"p99.9 {took[int(len(took) * 0.999)] * 1e3:.3f} ms"
    )


def pace_of_others(args: argparse.Namespace) -> None:
    """Prints the pace of another thread while calls wait, as a part of its pace while nothing runs."""
    # One worker leaves it a core.
    stack, wait = images(2048), 0.05 if args.tiny else 2.0
    frames = 8 if args.tiny else 64
    slow = {"codec": {"compressor": {"name": "zstd", "level": 9}}, "workers": 1, "ring_bytes": 128 << 20}
    with tempfile.TemporaryDirectory(dir=args.folder) as folder, spinning() as pace:
        path = Path(folder) / "run.zarr"
        time.sleep(wait)
        alone = pace()
        acq = sw.create(path, config(2048, **slow))
        for number in range(16):
            acq.append(stack[number])
        pace()
        for number in range(frames):
            acq.append(stack[number % 64])
        told = {"blocked append": pace()}
        acq.finish()
        told["finish"] = pace()
        sw.verify(path, workers=1)
        told["verify"] = pace()
    print("pace of another thread:", ", ".join(f"{of} {rate / alone:.2f}" for of, rate in told.items()))


def memory(args: argparse.Namespace, frames: int) -> None:
    """Prints the most memory that is resident above the same program in Rust."""
    for edge in (64, 2048):
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            words = [str(Path(folder) / "run.zarr"), str(edge), str(min(frames, 64_000 if edge == 64 else 64))]
            ours = told_by([sys.executable, __file__, "--child", *words])["resident"]
            theirs = told_by([args.rust, *words, "append"])["resident"]
        print(f"resident, {edge}x{edge}: {(ours - theirs) / 1e6:.0f} MB above Rust's {theirs / 1e6:.0f}")


def child(words: list[str]) -> None:
    one_by_one(Path(words[0]), int(words[1]), int(words[2]))
    status = Path("/proc/self/status").read_text().splitlines()
    kib = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    print(json.dumps({"resident": kib << 10}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rust", help="the same loops in Rust, see peer.rs")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--folder", help="where datasets are written")
    parser.add_argument("--only", choices=("rust", "rival", "threads", "memory"), help="one part")
    parser.add_argument("--tiny", action="store_true", help="only to see that it runs")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args.child)
    large, small = (4, 640) if args.tiny else (256, 1_000_000)
    args.turns = 1 if args.tiny else args.turns
    versions = {"python": platform.python_version(), "numpy": np.__version__, "shardwright": sw.__version__}
    print(json.dumps({"machine": platform.processor() or platform.machine(), **versions}))
    if args.only in (None, "rust"):
        by = {how: in_rust(args.rust, how) if args.rust else one_by_one for how in ("append", "loans")}
        copied, lent = (one_by_one, by["append"]), (loans, by["loans"])
        paired("2048x2048 u16", {"append of append": copied, "loans of loans": lent}, args, 2048, large)
        many = {"append of append": copied, "stacks of 64 of append": (stacks, by["append"])}
        paired("64x64 u16", many | {"loans of append": (loans, by["append"])}, args, 64, small)
    if args.only in (None, "rival"):
        try:
            import acquire_zarr  # noqa: F401
        except ImportError:
            print("not run: acquire-zarr is not installed", file=sys.stderr)
        else:
            beside_acquire_zarr(args)
    if args.only in (None, "threads"):
        beside_a_spinning_thread(args, 200 if args.tiny else 100_000)
        pace_of_others(args)
    if args.only in (None, "memory") and args.rust:
        memory(args, small)


if __name__ == "__main__":
    main()
