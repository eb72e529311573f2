"""Speeds of the package beside those of the library and of acquire-zarr: ratios of paired turns.

    cargo build --release --manifest-path tools/python/Cargo.toml --example peer
    tools/python/benches/bench.py --rust tools/python/target/release/examples/peer [--turns 5]

Each case is run in turns, one after the other; what is told is the median of the ratios of a turn. The package must be
built with ``pip install`` (the environment of the tests has a slower one). Without ``--rust``, loans and stacks are
compared with ``append``.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import shardwright as sw


def config(edge: int, ring_bytes: int = 1 << 30) -> dict[str, Any]:
    return {"dims": [sw.time(), sw.y(edge), sw.x(edge)], "dtype": "u2", "codec": "none", "ring_bytes": ring_bytes}


def images(edge: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 4096, (64, edge, edge), dtype="u2")


def one_by_one(path: Path, edge: int, frames: int) -> None:
    stack = images(edge)
    with sw.create(path, config(edge), overwrite=True) as acq:
        for number in range(frames):
            acq.append(stack[number % 64])


def stacks(path: Path, edge: int, frames: int) -> None:
    stack = images(edge)
    with sw.create(path, config(edge), overwrite=True) as acq:
        for _ in range(frames // 64):
            acq.append(stack)


def loans(path: Path, edge: int, frames: int) -> None:
    stack = images(edge)
    with sw.create(path, config(edge), overwrite=True) as acq:
        for number in range(frames):
            with acq.acquire() as frame:
                frame.array[:] = stack[number % 64]
                frame.commit()


def rival(path: Path, edge: int, frames: int) -> None:
    import acquire_zarr as aqz

    own_stream(aqz, path, edge, frames)


def as_rival(path: Path, edge: int, frames: int) -> None:
    import shardwright.acquire_zarr as aqz

    own_stream(aqz, path, edge, frames)


def own_stream(aqz: Any, path: Path, edge: int, frames: int) -> None:
    kinds = aqz.DimensionType
    dims = [("t", kinds.TIME, 0, 64), ("y", kinds.SPACE, edge, edge), ("x", kinds.SPACE, edge, edge)]
    array = aqz.ArraySettings(
        dimensions=[
            aqz.Dimension(
                name=name, kind=kind, array_size_px=size, chunk_size_px=chunk, shard_size_chunks=16 if size == 0 else 1
            )
            for name, kind, size, chunk in dims
        ],
        data_type=np.uint16,
    )
    stack = images(edge)
    stream = aqz.ZarrStream(aqz.StreamSettings(store_path=str(path), arrays=[array], overwrite=True))
    for number in range(frames):
        stream.append(stack[number % 64])
    stream.close()


def seconds(run: Callable[[Path, int, int], None], folder: Path, edge: int, frames: int) -> float:
    path = folder / "run.zarr"
    shutil.rmtree(path, ignore_errors=True)
    start = time.perf_counter()
    run(path, edge, frames)
    took = time.perf_counter() - start
    shutil.rmtree(path, ignore_errors=True)
    return took


def in_rust(command: str) -> Callable[[Path, int, int], None]:
    def run(path: Path, edge: int, frames: int) -> None:
        subprocess.run([command, str(path), str(edge), str(frames)], check=True, stdout=subprocess.DEVNULL)

    return run


def paired(
    name: str, runs: dict[str, Callable[[Path, int, int], None]], args: argparse.Namespace, edge: int, frames: int
) -> None:
    """Prints how fast each is, as a part of the first one's speed."""
    base, *others = runs
    ratios: dict[str, list[float]] = {other: [] for other in others}
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for _ in range(args.turns):
            took = {of: seconds(run, Path(folder), edge, frames) for of, run in runs.items()}
            for other in others:
                ratios[other].append(took[base] / took[other])
    for other, found in ratios.items():
        print(f"{name}: {other} is {statistics.median(found):.2f} of {base} ({min(found):.2f} to {max(found):.2f})")


def beside_a_spinning_thread(args: argparse.Namespace, frames: int) -> None:
    """Prints how long an append takes at most while another thread keeps the interpreter."""
    done = threading.Event()
    count = [0]

    def spin() -> None:
        while not done.is_set():
            count[0] += 1

    stack, took = images(64), []
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        with sw.create(Path(folder) / "run.zarr", config(64)) as acq:
            other = threading.Thread(target=spin)
            other.start()
            for number in range(frames):
                start = time.perf_counter()
                acq.append(stack[number % 64])
                took.append(time.perf_counter() - start)
            done.set()
            other.join()
    took.sort()
    # The turns that the interpreter gives to the other thread between two calls are none of the package's.
    print(
        f"append of 64x64 beside a spinning thread: p50 {took[len(took) // 2] * 1e6:.1f} us, "
        f"p99.9 {took[int(len(took) * 0.999)] * 1e3:.3f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rust", help="the same loop in Rust, called with a path, an edge and a number of frames")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--folder", help="where datasets are written")
    parser.add_argument("--tiny", action="store_true", help="only to see that it runs")
    args = parser.parse_args()
    large, small = (4, 640) if args.tiny else (256, 1_000_000)
    args.turns = 1 if args.tiny else args.turns
    versions = {"python": platform.python_version(), "numpy": np.__version__, "shardwright": sw.__version__}
    print(json.dumps({"machine": platform.processor() or platform.machine(), **versions}))
    first = {"Rust": in_rust(args.rust)} if args.rust else {}
    paired("2048x2048 u16", {**first, "append": one_by_one, "loans": loans}, args, 2048, large)
    paired("64x64 u16", {**first, "append": one_by_one, "stacks of 64": stacks, "loans": loans}, args, 64, small)
    try:
        import acquire_zarr  # noqa: F401
    except ImportError:
        print("not run: acquire-zarr is not installed", file=sys.stderr)
    else:
        runs = {
            "acquire-zarr": rival,
            "append": one_by_one,
            "stacks of 64": stacks,
            "shardwright.acquire_zarr": as_rival,
        }
        paired("64x64 u16", runs, args, 64, small // 10 if not args.tiny else small)
        paired(
            "2048x2048 u16", {"acquire-zarr": rival, "shardwright.acquire_zarr": as_rival}, args, 2048, max(large, 64)
        )
    beside_a_spinning_thread(args, 200 if args.tiny else 100_000)


if __name__ == "__main__":
    main()
