"""Is what a writer left equal to the frames, and laid out as the case says? A process of its own, that reads with
tensorstore.

Exits with 0 and prints what was compared, or with 1 and prints what is wrong."""

import json
import os
import random
import sys
from pathlib import Path

import numpy as np
import tensorstore as ts

import frames as frames_file
from cases import Case
from rivals import blosc

SAMPLES = 4


def array_folders(path, levels):
    """The array itself, or the levels of an OME-Zarr image, the finest first."""
    node = json.loads((path / "zarr.json").read_text())
    if node["node_type"] == "array" and levels == 0:
        return [path]
    (image,) = node["attributes"]["ome"]["multiscales"]
    found = [dataset["path"] for dataset in image["datasets"]]
    if len(found) != 1 + levels:
        raise ValueError(f"the image has {len(found) - 1} levels beside level 0, but the case says {levels}")
    return [path / name for name in found]


def check_layout(node, case, frames):
    """Different chunks or codecs would compare different work."""
    (sharding,) = node["codecs"]
    inner = sharding["configuration"]
    expected = {
        "shape": [frames, *case.frame],
        "data_type": case.zarr_dtype,
        "shard": list(case.shard),
        "chunk": list(case.chunk),
        "codecs": [("bytes", None), *((codec["name"], codec["configuration"]) for codec in blosc(case))],
    }
    found = {
        "shape": node["shape"],
        "data_type": node["data_type"],
        "shard": node["chunk_grid"]["configuration"]["chunk_shape"],
        "chunk": inner["chunk_shape"],
        "codecs": [
            (codec["name"], None if codec["name"] == "bytes" else codec.get("configuration"))
            for codec in inner["codecs"]
        ],
    }
    for what, value in expected.items():
        if what == "codecs":
            # The block size inside a Blosc frame is each writer's own choice.
            for codec in (*value, *found[what]):
                if codec[1]:
                    codec[1].pop("blocksize", None)
        if found[what] != value:
            raise ValueError(f"{what} is {found[what]}, but the case says {value}")


def blocks(case, frames, full, seed):
    """Ranges of frames to compare: all, or the first, the last, and a few others."""
    depth = max(case.chunk[0], min(frames, (64 << 20) // case.frame_bytes) // case.chunk[0] * case.chunk[0])
    if not full:
        depth = case.chunk[0]
    starts = range(0, frames, depth)
    if not full:
        chosen = random.Random(seed).sample(starts, min(SAMPLES, len(starts)))
        starts = sorted({starts[0], starts[-1], *chosen})
    return [(start, min(start + depth, frames)) for start in starts]


def stored_bytes(path):
    """Bytes that the file system holds for it, and bytes that the files say they have."""
    files = [os.stat(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names]
    return 512 * sum(file.st_blocks for file in files), sum(file.st_size for file in files)


def compare(path, pool, ranges, what):
    array = ts.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}).result()
    for start, stop in ranges:
        found = array[start:stop].read().result()
        expected = np.take(pool, range(start, stop), axis=0, mode="wrap")
        if not np.array_equal(found, expected):
            wrong = start + int(np.argmax((found != expected).any(axis=(1, 2))))
            raise ValueError(f"frame {wrong}{what} is not what was given")


def main(task):
    case, frames, path = Case.told(task["case"]), task["frames"], Path(task["path"])
    ranges = blocks(case, frames, task["full"], task["seed"])
    pool = frames_file.load(task["pool"], case)
    folders = array_folders(path, case.levels)
    for number, (folder, level) in enumerate(zip(folders, case.with_levels())):
        if number > 0:
            pool = frames_file.halved(pool, task["halves_up"])
        check_layout(json.loads((folder / "zarr.json").read_text()), level, frames)
        compare(folder, pool, ranges, f" of level {number}" if case.levels else "")
    on_disk, apparent = map(sum, zip(*map(stored_bytes, folders)))
    return {
        "frames_compared": sum(stop - start for start, stop in ranges),
        "full": task["full"],
        "disk_bytes": on_disk,
        "file_bytes": apparent,
    }


if __name__ == "__main__":
    try:
        print(json.dumps(main(json.loads(sys.argv[1]))))
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}")
