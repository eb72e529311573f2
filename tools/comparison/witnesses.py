"""What two readers see of a dataset that something bad has happened to: tensorstore and zarr-python, as a user would
call them, one layer of chunks at a time, so that a broken shard hides no sound one."""

import json

import numpy as np
import tensorstore as ts
import zarr

# A shape that nobody planned is not read to its end.
FRAMES_MAX = 16_384
# What a reader sees of one frame.
RIGHT, PART, FILL, WRONG, ERROR, UNSEEN = "right", "part", "fill value", "wrong", "error", "not looked at"


def array_folder(path):
    """The array itself, or the finest level of an OME-Zarr image."""
    for folder in (path, path / "0"):
        try:
            if json.loads((folder / "zarr.json").read_text())["node_type"] == "array":
                return folder
        except (OSError, ValueError, KeyError):
            continue
    return path


def by_tensorstore(path):
    context = ts.Context({"cache_pool": {"total_bytes_limit": 0}})
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
    array = ts.open(spec, context=context, open=True, read=True).result()
    return array.shape, lambda first, last: np.asarray(array[first:last].read().result())


def by_zarr_python(path):
    array = zarr.open_array(str(path), mode="r", zarr_format=3)
    return array.shape, lambda first, last: np.asarray(array[first:last])


LIBRARIES = {"tensorstore": by_tensorstore, "zarr-python": by_zarr_python}


def look(path, case, pool, start=0):
    """The shape and the state of each frame from `start` on, as both libraries see them."""
    folder = array_folder(path)
    seen = {name: _through(library, folder, case, pool, start) for name, library in LIBRARIES.items()}
    length = max((len(one["states"]) for one in seen.values()), default=0)
    both = [
        _worse(*(one["states"][number] if number < len(one["states"]) else ERROR for one in seen.values()))
        for number in range(length)
    ]
    return {
        "exists": path.exists(),
        "states": both,
        "shape": [one["shape"] for one in seen.values()],
        "errors": [one["error"] for one in seen.values()],
    }


def _through(library, folder, case, pool, start):
    result = {"shape": None, "states": [UNSEEN] * start, "error": None}
    try:
        shape, read = library(folder)
        result["shape"] = int(shape[0])
    except Exception as error:
        result["error"] = _said(error)
        return result
    for first in range(start, min(shape[0], FRAMES_MAX), case.chunk[0]):
        last = min(first + case.chunk[0], shape[0])
        try:
            found = read(first, last)
        except Exception as error:
            result["error"] = result["error"] or _said(error)
            result["states"] += [ERROR] * (last - first)
            continue
        expected = pool.take(range(first, last), axis=0, mode="wrap")
        result["states"] += [_state(*frames) for frames in zip(found, expected)]
    return result


def _state(found, expected):
    """The frames that are given have no pixel of the fill value."""
    same = found == expected
    if same.all():
        return RIGHT
    if not found.any():
        return FILL
    return PART if (same | (found == 0)).all() else WRONG


def _worse(*states):
    return max(states, key=(UNSEEN, RIGHT, PART, FILL, ERROR, WRONG).index)


def twin(path, case, pool, number):
    """What stands in place of a frame that never came, where that is not the fill value."""
    try:
        found = by_tensorstore(array_folder(path))[1](number, number + 1)[0]
    except Exception:
        return "nothing"
    for other, frame in enumerate(pool):
        if np.array_equal(found, frame):
            return f"pixels of frame {other}"
    return "other pixels"


def _said(error):
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
