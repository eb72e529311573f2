"""The frames that every writer gets: a file of raw pixels, made once, loaded into memory before a run."""

import hashlib
import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np

OFFSET_COUNTS = 100
READ_NOISE_ELECTRONS = 1.6
BACKGROUND_ELECTRONS = 8
SEED = 20_240_229


def load(path, case):
    """The pool in memory, every page of it touched."""
    return np.fromfile(path, case.numpy_dtype).reshape(case.pool, *case.frame)


def halved(frames, halves_up):
    """A level of a pyramid: of two rows and two columns becomes one, by the mean of the pixels that are there."""
    rows, columns = frames.shape[1:]
    smaller = np.empty((len(frames), -(-rows // 2), -(-columns // 2)), frames.dtype)
    for number, frame in enumerate(frames):
        whole = np.pad(frame.astype("u4"), ((0, rows % 2), (0, columns % 2)), "edge")
        sums = whole[::2, ::2] + whole[::2, 1::2] + whole[1::2, ::2] + whole[1::2, 1::2]
        smaller[number] = (sums + 2 * halves_up) // 4
    return smaller


def prepare(case, folder, shardwright):
    """The path of the case's frames; makes them if they are not there."""
    key = hashlib.sha256(json.dumps([*case.pool_key, SEED, _version(case.source)]).encode()).hexdigest()[:12]
    path = folder / f"frames-{key}.raw"
    if path.exists() and path.stat().st_size == case.pool_bytes:
        return path
    unfinished = path.with_suffix(".unfinished")
    if case.source == "camera":
        _camera(unfinished, case)
    else:
        _recording(unfinished, case, folder, shardwright)
    os.replace(unfinished, path)
    return path


def _version(source):
    """What tells a recording from an older one at the same path."""
    return None if source == "camera" else [os.stat(source).st_size, os.stat(source).st_mtime_ns]


def _camera(path, case):
    """A synthetic sCMOS camera at one electron a count: a dim background with cells and spots that flicker, shot noise,
    read noise, an offset, and a fixed pattern of gains and offsets of pixels and columns."""
    random = np.random.default_rng(SEED)
    rows, columns = case.frame
    gains = random.normal(1, 0.01, case.frame).astype("f4")
    offsets = OFFSET_COUNTS + random.normal(0, 0.5, case.frame) + random.normal(0, 0.3, columns)
    background, spots = _scene(random, rows, columns)
    seeds = np.random.SeedSequence(SEED).spawn(case.pool)
    pool = np.memmap(path, case.numpy_dtype, "w+", shape=(case.pool, *case.frame))

    def expose(number):
        noise = np.random.default_rng(seeds[number])
        brightness = 1 + 0.3 * np.sin(number / 7)
        electrons = noise.poisson((background + brightness * spots) * gains)
        counts = electrons + noise.normal(0, READ_NOISE_ELECTRONS, case.frame) + offsets
        pool[number] = np.clip(np.rint(counts), 0, np.iinfo(pool.dtype).max)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        list(threads.map(expose, range(case.pool)))
    pool.flush()


def _scene(random, rows, columns):
    """Expected electrons: the background, unevenly lit, and blobs from spots to cells on it."""
    y, x = np.mgrid[:rows, :columns].astype("f4")
    lit = 1 - 0.3 * (((y - rows / 2) / rows) ** 2 + ((x - columns / 2) / columns) ** 2)
    spots = np.zeros((rows, columns), "f4")
    for _ in range(max(4, rows * columns // 40_000)):
        width = random.uniform(2, 12)
        reach = int(4 * width)
        row, column = random.integers(0, rows), random.integers(0, columns)
        window = np.s_[max(0, row - reach) : row + reach, max(0, column - reach) : column + reach]
        distance = (y[window] - row) ** 2 + (x[window] - column) ** 2
        spots[window] += random.uniform(10, 120) * np.exp(-distance / (2 * width**2))
    return BACKGROUND_ELECTRONS * lit, spots


def describe_recording(path, folder, shardwright):
    """Frames, shape and element type of a recording, by way of a dataset that this project's reader made of it."""
    info = _dataset_of(path, folder, shardwright)
    import tensorstore as ts

    array = ts.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": str(info / "0")}}).result()
    frames = int(np.prod(array.shape[:-2], dtype=int))
    dtype = np.dtype(array.dtype.numpy_dtype)
    return frames, array.shape[-2:], f"{dtype.kind}{8 * dtype.itemsize}"


def _dataset_of(path, folder, shardwright):
    """The recording as an uncompressed dataset, kept beside the frames: the next start asks for its shape again."""
    key = hashlib.sha256(json.dumps([str(path), _version(path)]).encode()).hexdigest()[:12]
    dataset = folder / f"recording-{key}.zarr"
    if not dataset.exists():
        unfinished = folder / f"recording-{key}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        words = [shardwright, "replay", path, unfinished, "--codec", "none", "--quiet", "--rate", "max"]
        subprocess.run(list(map(str, words)), check=True)
        os.replace(unfinished, dataset)
    return dataset


def _recording(path, case, folder, shardwright):
    import tensorstore as ts

    dataset = _dataset_of(case.source, folder, shardwright)
    array = ts.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": str(dataset / "0")}}).result()
    outer = array.shape[:-2]
    pool = np.memmap(path, case.numpy_dtype, "w+", shape=(case.pool, *case.frame))
    for number in range(case.pool):
        pool[number] = array[np.unravel_index(number, outer)].read().result() if outer else array.read().result()
    pool.flush()
