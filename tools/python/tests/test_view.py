"""What is seen of a run while it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Start, picture, stored

import shardwright as sw

INDEXES: list[Any] = [
    ...,
    -1,
    0,
    slice(2, 7, 2),
    slice(None, None, -3),
    (slice(1, 4), slice(3, 9), slice(None, None, 5)),
    (3, slice(None, None, -1), 7),
    (-2, ..., -1),
    (..., slice(4, 4)),
    slice(5, 2),
    (slice(None), 2, 3),
    np.int64(4),
]


@pytest.mark.parametrize("codec", ["none", "blosc-lz4", "zstd"])
@pytest.mark.parametrize("chunk", [1, 3])
def test_a_view_is_what_numpy_would_be(start: Start, codec: str, chunk: int) -> None:
    dims = [sw.time(chunk=chunk, shard=3 * chunk), sw.y(16, chunk=8), sw.x(24, chunk=16)]
    with start(dims=dims, codec=codec) as acq:
        view = acq.view()
        assert (view.shape, view.ndim, view.dtype, view.dims) == ((0, 16, 24), 3, np.uint16, ("t", "y", "x"))
        for number in range(40):
            acq.append(picture(number))
            np.testing.assert_array_equal(view[-1], picture(number))
            np.testing.assert_array_equal(view[number // 2], picture(number // 2))
        want = np.stack([picture(number) for number in range(40)])
        for index in INDEXES:
            np.testing.assert_array_equal(view[index], want[index], err_msg=str(index))
        np.testing.assert_array_equal(np.asarray(view), want)
        assert (len(view), view.size, view.chunks) == (40, want.size, (chunk, 8, 16))
        for wrong in (40, -41, (0, 16), (0, 0, 0, 0), (..., ...), "x", 1.0):
            with pytest.raises(IndexError):
                view[wrong]  # type: ignore[index]
    # Afterwards it is what the files are.
    np.testing.assert_array_equal(view[...], want)
    for index in INDEXES:
        np.testing.assert_array_equal(view[index], want[index], err_msg=str(index))


def test_frames_that_are_acquired_in_another_order(start: Start, tmp_path: Path) -> None:
    dims = [sw.time(chunk=2, shard=2), sw.channel(2), sw.z(3), sw.y(16), sw.x(24)]
    with start(dims=dims, acquisition_order=["t", "z", "c"]) as acq:
        view = acq.view()
        for number in range(20):
            acq.append(picture(number))
        assert view.shape == (4, 2, 3, 16, 24)
        for number in range(20):
            t, z, c = number // 6, number // 2 % 3, number % 2
            np.testing.assert_array_equal(view[t, c, z], picture(number))
        assert (view[3, :, 1:] == 0).sum() >= 3 * 16 * 24
        live = view[...]
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), live)


def test_missing_frames_are_the_fill_value(start: Start) -> None:
    dims = [sw.time(10), sw.y(16), sw.x(24)]
    with start(dims=dims, fill_value=9) as acq:
        view = acq.view()
        assert view.shape == (10, 16, 24)
        acq.append(picture(0))
        acq.append(picture(3), number=3)
        assert (view[1:3] == 9).all() and (view[4:] == 9).all()
        np.testing.assert_array_equal(view[3], picture(3))


def test_images_of_a_dataset_have_views(tmp_path: Path) -> None:
    fields = {"dims": [sw.time(), sw.y(16), sw.x(24)], "dtype": "u2", "ring_bytes": 1 << 16, "sync": False}
    with sw.create_dataset(tmp_path / "both.zarr") as both:
        left, right = (both.acquisition(name, fields) for name in ("left", "right"))
        left.append(picture(1))
        right.append(picture(2))
        np.testing.assert_array_equal(left.view()[0], picture(1))
        np.testing.assert_array_equal(right.view()[0], picture(2))
    np.testing.assert_array_equal(left.view()[0], picture(1))


def test_xarray(start: Start) -> None:
    pytest.importorskip("xarray")
    dims = [
        sw.time(scale=(0.5, "second")),
        sw.channel(2),
        sw.y(16, scale=(0.25, "micrometer")),
        sw.x(24, scale=(0.25, "micrometer"), translation=-12.5),
    ]
    with start(dims=dims, channels=["DAPI", "GFP"], name="cells") as acq:
        for number in range(6):
            acq.append(picture(number))
        image = acq.to_xarray()
        assert image.dims == ("t", "c", "y", "x") and image.name == "cells"
        np.testing.assert_array_equal(image.sel(c="GFP").isel(t=1), picture(3))
        np.testing.assert_array_equal(image.t, [0, 0.5, 1])
        assert image.y.attrs == {"units": "micrometer"}
        np.testing.assert_array_equal(image.x[:2], [-12.5, -12.25])
    np.testing.assert_array_equal(acq.to_xarray().sel(t=1.0, c="DAPI"), picture(4))
