"""The same array through two libraries, as a whole and in parts: both take different paths for each."""

import functools
import zlib

import numpy as np
import tensorstore
import zarr
from matrix.__main__ import HERE, PYTHONS
from matrix.writers import Server


@functools.cache
def zarr2():
    """zarr-python 2.18, in an interpreter of its own that all tests share."""
    return Server(PYTHONS["zarr2"], HERE / "zarr2.py")


def read_zarr2(dataset, name, folder, version):
    """An array and its attributes by zarr-python 2.18: of Zarr v2, or of the draft of 2022 (version 3)."""
    (attributes,) = zarr2().ask(read=str(dataset), version=version, paths=[name], to=str(folder))
    return np.load(folder / "0.npy"), attributes


def open_tensorstore(path):
    # Without a cache, so that every read goes to the files.
    context = tensorstore.Context({"cache_pool": {"total_bytes_limit": 0}})
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
    return tensorstore.open(spec, context=context, open=True, read=True).result()


def open_zarr_python(path):
    return zarr.open_array(path, mode="r", zarr_format=3)


def assert_same(got, expected, what=""):
    """Bit for bit: NaNs and negative zeros included."""
    got = np.asarray(got)
    assert got.dtype == expected.dtype, what
    assert got.shape == expected.shape, what
    # In pieces: a fast machine's longest dataset has most of a gigabyte.
    flat = [np.ascontiguousarray(array).reshape(-1).view("u1") for array in (got, expected)]
    starts = range(0, len(flat[0]), 1 << 24)
    if not all(np.array_equal(*(part[start : start + (1 << 24)] for part in flat)) for start in starts):
        bits = np.dtype(f"u{got.dtype.itemsize}")
        differ = np.ascontiguousarray(got).view(bits) != np.ascontiguousarray(expected).view(bits)
        first = tuple(int(i) for i in np.argwhere(differ)[0])
        raise AssertionError(
            f"{what} {differ.sum()} of {differ.size} pixels differ, the first at {first}: "
            f"{got[first]!r} instead of {expected[first]!r}"
        )


def regions(shape, name, count=16):
    """Random boxes, then single elements of the first dimension, always the same ones for the same name."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    for _ in range(count):
        start = [int(random.integers(0, size)) for size in shape]
        stop = [int(random.integers(begin, size)) + 1 for begin, size in zip(start, shape)]
        yield tuple(slice(begin, end) for begin, end in zip(start, stop))
    yield (shape[0] - 1,)
    yield tuple(slice(size - 1, size) for size in shape)


def assert_reads(array, expected, name):
    """`array` opened with either library: whole, then in parts."""
    assert tuple(array.shape) == expected.shape
    read = (
        (lambda region: array[region].read().result())
        if isinstance(array, tensorstore.TensorStore)
        else array.__getitem__
    )
    assert_same(read(...), expected, f"{name}, read as a whole:")
    for region in regions(expected.shape, name):
        assert_same(read(region), expected[region], f"{name}, region {region}:")
