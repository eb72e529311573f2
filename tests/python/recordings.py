"""Recordings: pixels with structure that compresses, noise that does not, and every value used; and what of them must
come out of a replay."""

import pathlib
import zlib

import numpy as np
import tifffile

from readers import assert_same, open_zarr_python

# Options of tifffile.imwrite.
RGB = {"photometric": "rgb"}
GRAY = {"photometric": "minisblack"}
IMAGEJ = {"imagej": True, **GRAY}
OME = {"ome": True, **GRAY}


GUIDE = pathlib.Path(__file__).resolve().parents[2] / "src/guide/recordings.md"


def rows_of_guide(heading):
    """The first and the last cell of each row of the table with this heading."""
    table = GUIDE.read_text().split(f"| recording | {heading} |\n|---|---|\n")[1].split("\n\n")[0]
    return dict(line.strip("| \n").split(" | ") for line in table.splitlines())


def movie(dtype, shape):
    """An array that differs along all of its dimensions."""
    dtype = np.dtype(dtype)
    random = np.random.default_rng(zlib.crc32(f"{dtype} {shape}".encode()))
    slow = sum(index * (axis + 3) for axis, index in enumerate(np.indices(shape)))
    if dtype.kind == "f":
        return (slow * 0.25 + random.normal(size=shape)).astype(dtype)
    noise = random.poisson(20, shape)
    top = np.iinfo(dtype)
    return ((slow * 7 + noise) % (int(top.max) + 1 if top.max < 1 << 40 else 1 << 40)).astype(dtype)


def volume(*shape, dtype="u2"):
    return movie(dtype, shape)


def tifffile_reads(path):
    """The first series as t, c, z, y, x with the axes that it has, samples as the fastest part of the channels."""
    with tifffile.TiffFile(path) as tif:
        series = tif.series[0]
        return in_order(series.asarray(), series.axes.replace("I", "T").replace("Q", "T"))


def in_order(data, axes):
    assert data.ndim == len(axes)
    if "S" in axes and "C" in axes:
        others = [axis for axis in axes if axis not in "CSYX"]
        data = data.transpose([axes.index(axis) for axis in [*others, "C", "S", "Y", "X"]])
        data = data.reshape([*data.shape[: len(others)], -1, *data.shape[-2:]])
        axes = "".join(others) + "CYX"
    axes = axes.replace("S", "C")
    for axis in axes:
        if axis not in "YX" and data.shape[axes.index(axis)] == 1:
            data, axes = data.squeeze(axes.index(axis)), axes.replace(axis, "")
    if len(axes) == 2:
        data, axes = data[None], "T" + axes
    order = [axis for axis in "TRCZYX" if axis in axes]
    assert sorted(order) == sorted(axes), axes
    return np.ascontiguousarray(data.transpose([axes.index(axis) for axis in order])), "".join(order).lower()


def assert_replayed(out, expected, axes):
    array = open_zarr_python(out / "0")
    assert "".join(array.metadata.dimension_names) == axes
    assert_same(array[...], expected)
