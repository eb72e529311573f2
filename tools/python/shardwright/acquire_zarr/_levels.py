"""Smaller levels of an image, as acquire-zarr makes them: each direction of space is halved until it fits a chunk."""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shardwright._acquisition import create
from shardwright._arrays import STAGING, read_document, write_document
from shardwright._offline import open
from shardwright.acquire_zarr._enums import DimensionType, DownsamplingMethod
from shardwright.acquire_zarr._settings import ArraySettings

Pixels = npt.NDArray[Any]


def _shapes(array: ArraySettings, frames: int) -> list[list[int]]:
    """Return the shapes of all levels, in storage order.

    Rows and columns are halved together, as long as the shorter of them is longer than either's chunk; planes, where
    the dimension before is one of space, as long as they don't fit a chunk. Which are halved follows from the sizes in
    the settings, not from what came.
    """
    names = [dimension.name for dimension in array.dimensions]
    stored = [array.dimensions[names.index(name)] for name in array.storage_dimension_order or names]
    chunks = [dimension.chunk_size_px for dimension in stored]
    shapes = [[dimension.array_size_px for dimension in stored]]
    has_depth = len(stored) > 2 and stored[-3].kind == DimensionType.SPACE
    for _ in range(_count(shapes[0], chunks, has_depth, array)):
        shape = list(shapes[-1])
        if has_depth and shape[-3] > chunks[-3]:
            shape[-3] = -(-shape[-3] // 2)
        if min(shape[-2:]) > max(chunks[-2:]):
            shape[-2:] = [-(-length // 2) for length in shape[-2:]]
        shapes.append(shape)
    if len(stored) > 2:
        declared = shapes[0][0]
        shapes[0][0] = frames
        for before, after in itertools.pairwise(shapes):
            after[0] = -(-before[0] // 2) if after[0] < declared else before[0]
            declared = -(-declared // 2) if after[0] < before[0] else declared
    return shapes


def _count(shape: list[int], chunks: list[int], has_depth: bool, array: ArraySettings) -> int:
    """Return how many levels there are beside the first."""
    if array.downsampling_method is None:
        return 0
    halvings = [(-(-length // chunk) - 1).bit_length() for length, chunk in zip(shape, chunks, strict=True) if length]
    levels = min(halvings[-2:])
    if has_depth and shape[-3]:
        levels = max(levels, halvings[-3])
    return min(levels, array.max_levels) if array.max_levels else levels


def strides(array: ArraySettings, level: int) -> list[int]:
    """Return how many pixels of level 0 one of a level stands for, in each dimension."""
    frames = array.dimensions[0].array_size_px or 1
    shapes = _shapes(array, frames)
    factors = [1] * len(array.dimensions)
    for before, after in itertools.pairwise(shapes[: level + 1]):
        factors = [
            factor * (2 if small < large else 1) for factor, large, small in zip(factors, before, after, strict=True)
        ]
    return factors


def count(image: Path, array: ArraySettings) -> int:
    """Return how many levels an image has."""
    return sum((image / f"{level}" / "zarr.json").exists() for level in range(len(_all(image, array))))


def _all(image: Path, array: ArraySettings) -> list[list[int]]:
    return _shapes(array, read_document(image / "0" / "zarr.json")["shape"][0])


def write(image: Path, array: ArraySettings, config: Callable[[ArraySettings, int, int], dict[str, Any]]) -> None:
    """Make the levels beside level 0."""
    shapes = _all(image, array)
    for level in range(1, len(shapes)):
        source = open(image / f"{level - 1}")
        staging = image / f"{STAGING}-{level}"
        level_config = config(array, 1, 0)
        for dim, length in zip(level_config["dims"], shapes[level], strict=True):
            dim["size"] = None if dim["size"] is None else length
        with create(staging, level_config) as run:
            for planes in _planes(source, shapes[level - 1], shapes[level], array):
                run.append(np.ascontiguousarray(planes))
        (staging / "0").rename(image / f"{level}")
        document = image / f"{level}" / "zarr.json"
        write_document(document, read_document(document) | {"attributes": {}})
        shutil.rmtree(staging)


def _planes(source: Any, before: list[int], after: list[int], array: ArraySettings) -> Iterator[Pixels]:
    """Yield the planes of a level in the order of acquisition, from those of the level before."""
    method = array.downsampling_method
    assert method is not None
    outer = len(before) - 2
    halves = [small < large for large, small in zip(before[outer:], after[outer:], strict=True)]
    depth = outer - 1 if outer and after[outer - 1] < before[outer - 1] else None
    names = [dimension.name for dimension in array.dimensions]
    stored = array.storage_dimension_order or names
    order = [stored.index(name) for name in names[:outer]]
    blocks = _Blocks(source, order, depth)
    for acquired in np.ndindex(*(after[axis] for axis in order)):
        position = [acquired[order.index(axis)] for axis in range(outer)]
        if depth is None:
            yield _plane(blocks.plane(position), halves, method)
            continue
        position[depth] *= 2
        pair = [_plane(blocks.plane(position), halves, method)]
        position[depth] += 1
        if position[depth] < before[depth]:
            pair.append(_plane(blocks.plane(position), halves, method))
        yield _joined(pair, method)


class _Blocks:
    """Planes of a level, of which each chunk is read once: all planes are kept whose chunks are open at once.

    These are as many as the ring held while the level was written.
    """

    def __init__(self, source: Any, order: list[int], depth: int | None) -> None:
        self._source = source
        chunk = source.chunk_shape
        # The slowest dimension in whose chunks several planes are.
        deep = next((at for at, axis in enumerate(order) if chunk[axis] > 1), len(order))
        self._lengths = {axis: 1 for axis in order[:deep]}
        if deep < len(order):
            axis = order[deep]
            # Planes that become one are in the same block.
            self._lengths[axis] = math.lcm(chunk[axis], 2) if axis == depth else chunk[axis]
        self._start: list[int] | None = None
        self._planes: Pixels | None = None

    def plane(self, position: list[int]) -> Pixels:
        """Return the plane at a position of the outer dimensions."""
        start = [at - at % self._lengths[axis] if axis in self._lengths else 0 for axis, at in enumerate(position)]
        if self._planes is None or start != self._start:
            # The one goes before the other comes.
            self._start, self._planes = start, None
            ends = [at + self._lengths.get(axis, self._source.shape[axis]) for axis, at in enumerate(start)]
            self._planes = self._source[tuple(map(slice, start, ends))]
        plane: Pixels = self._planes[tuple(at - first for at, first in zip(position, start, strict=True))]
        return plane


def _plane(plane: Pixels, halves: list[bool], method: DownsamplingMethod) -> Pixels:
    """Halve rows and columns; at the end of an odd number, the last stands for two."""
    for axis, is_halved in enumerate(halves):
        if is_halved and method != DownsamplingMethod.DECIMATE and plane.shape[axis] % 2:
            plane = np.concatenate([plane, plane.take([-1], axis)], axis)
    rows, columns = (2 if is_halved else 1 for is_halved in halves)
    parts = [plane[row::rows, column::columns] for row in range(rows) for column in range(columns)]
    return _joined(parts, method)


def _joined(parts: list[Pixels], method: DownsamplingMethod) -> Pixels:
    if len(parts) == 1 or method == DownsamplingMethod.DECIMATE:
        return parts[0]
    if method == DownsamplingMethod.MEAN:
        return _mean(parts)
    join = np.minimum if method == DownsamplingMethod.MIN else np.maximum
    joined = parts[0]
    for part in parts[1:]:
        joined = join(joined, part)
    return joined


def _mean(parts: list[Pixels]) -> Pixels:
    dtype = parts[0].dtype
    # Sums of at most four fit the next larger type.
    wide = np.dtype("f8" if dtype.kind == "f" else f"{dtype.kind}{min(2 * dtype.itemsize, 8)}")
    total: Pixels = parts[0].astype(wide)
    for part in parts[1:]:
        total += part
    if dtype.kind == "f":
        total /= len(parts)
    elif dtype.kind == "u":
        total //= wide.type(len(parts))
    else:
        # Towards zero, as C divides.
        whole, rest = np.divmod(total, wide.type(len(parts)))
        total = whole + ((whole < 0) & (rest != 0))
    return total.astype(dtype)
