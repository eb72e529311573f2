"""What the tests share."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import shardwright as sw

# A shell that starts the tests in the background has Ctrl-C ignored, which Python and its children take over.
signal.signal(signal.SIGINT, signal.default_int_handler)

Start = Callable[..., sw.Acquisition]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts small runs of 16 by 24 pixels, uncompressed and unsynced, of one chunk a frame."""

    def make(path: str = "run.ome.zarr", **fields: Any) -> sw.Acquisition:
        dims = [sw.time(chunk=1, shard=4), sw.y(16), sw.x(24)]
        small: dict[str, Any] = {"dims": dims, "dtype": "u2", "codec": "none", "ring_bytes": 1 << 16, "workers": 1}
        return sw.create(tmp_path / path, **{**small, "sync": False, **fields})

    return make


def picture(number: int, shape: tuple[int, ...] = (16, 24), dtype: npt.DTypeLike = "u2") -> npt.NDArray[Any]:
    """An image that no other number has."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 7 + number * 131 + 1) % 251).reshape(shape).astype(dtype)


def stored(path: Path, array: str = "0") -> npt.NDArray[Any]:
    """What zarr-python reads."""
    import zarr

    return np.asarray(zarr.open_array(path / array, mode="r")[...])


def by_tensorstore(path: Path, array: str = "0") -> npt.NDArray[Any]:
    """What tensorstore reads."""
    import tensorstore

    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path / array)}}
    return np.asarray(tensorstore.open(spec, read=True).result().read().result())
