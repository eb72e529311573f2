"""How much memory the rings take."""

from __future__ import annotations

import numpy as np

from shardwright._arrays import ring_bytes as ring_bytes_of
from shardwright.acquire_zarr._settings import ArraySettings

#: All rings together: as much as acquire-zarr takes for one queue.
_RING_BYTES = 256 << 20


def frame_bytes(array: ArraySettings) -> int:
    """Return the bytes of a frame."""
    rows, columns = (dimension.array_size_px for dimension in array.dimensions[-2:])
    return rows * columns * np.dtype(array.data_type.name.lower()).itemsize


def ring_bytes(array: ArraySettings, arrays: int) -> int:
    """Return the bytes for the ring of one of this many arrays."""
    acquired = [(dimension.array_size_px, dimension.chunk_size_px) for dimension in array.dimensions[:-2]]
    return ring_bytes_of(frame_bytes(array), acquired, _RING_BYTES // arrays)
