"""Camera buffers of pymmcore-plus' UniCore that are loans of the ring: what a Python camera fills is what is written.

>>> with sw.create("run.ome.zarr", dims=dims, dtype=camera.dtype()) as acq, shardwright.unicore.loans(core, acq):
...     core.startSequenceAcquisition(1000, 0, True)
...     while core.isSequenceRunning():
...         time.sleep(0.01)
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from shardwright._errors import RingFull

if TYPE_CHECKING:
    from shardwright._acquisition import Acquisition
    from shardwright._core import Frame

__all__ = ["LoanBuffer", "loans"]

#: Of this many frames, metadata and numbers are kept for those who pop images.
_KEPT = 4096


class LoanBuffer:
    """In place of UniCore's ``SequenceBuffer``: its slots are buffers of an acquisition's ring.

    Parameters
    ----------
    acquisition : Acquisition
        Its frames are of the camera's shape and type. Values of metadata under the names of record fields are kept with
        the frames.
    overwrite_on_overflow : bool
        UniCore sets it. Nothing is ever overwritten: without it, a full ring stops the sequence; with it, the camera
        waits.
    """

    def __init__(self, acquisition: Acquisition, *, overwrite_on_overflow: bool = False) -> None:
        self._acquisition = acquisition
        self.overwrite_on_overflow = overwrite_on_overflow
        fields = acquisition.config.get("record_fields", [])
        self._fields = tuple(field["name"] for field in fields)
        self._pending: deque[Frame] = deque()
        self._committed: deque[tuple[int, Mapping[str, Any]]] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()
        self._overflow = False

    def acquire_slot(self, shape: Sequence[int], dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
        """Return a buffer of the ring, for the camera to fill.

        Raises
        ------
        ValueError
            For another shape or type than the frames have.
        BufferError
            The ring is full, and the sequence shall stop then.
        """
        frame_shape, frame_dtype = self._acquisition.frame_shape, self._acquisition.dtype
        if tuple(shape) != frame_shape or np.dtype(dtype) != frame_dtype:
            raise ValueError(
                f"the camera's images are {tuple(shape)} of {np.dtype(dtype)}, and the acquisition's frames are "
                f"{frame_shape} of {frame_dtype}: create it with the camera's shape and type"
            )
        try:
            frame = self._acquisition.acquire(None if self.overwrite_on_overflow else 0)
        except RingFull as error:
            self._overflow = True
            raise BufferError(str(error)) from None
        self._pending.append(frame)
        return frame.array

    def finalize_slot(self, metadata: Mapping[str, Any] | None = None) -> None:
        """Commit the buffer that was acquired first of those that are not committed."""
        try:
            frame = self._pending.popleft()
        except IndexError:
            raise RuntimeError("No pending slot to finalize") from None
        metadata = metadata or {}
        number = frame.commit(**{name: metadata[name] for name in self._fields if name in metadata})
        with self._lock:
            self._committed.append((number, metadata))

    def insert_data(self, data: npt.NDArray[Any], metadata: Mapping[str, Any] | None = None) -> None:
        """Copy an image into the ring, and commit it."""
        self.acquire_slot(data.shape, data.dtype)[:] = data
        self.finalize_slot(metadata)

    def _image(self, number: int, out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        image = np.frombuffer(self._acquisition._read_frame(number), self._acquisition._array_dtype)
        image = image.reshape(self._acquisition._array_shape)
        if out is None:
            return image
        out[:] = image
        return out

    def pop_next(self, *, out: npt.NDArray[Any] | None = None) -> tuple[npt.NDArray[Any], Mapping[str, Any]] | None:
        """Return a copy of the oldest image that was not popped."""
        with self._lock:
            if not self._committed:
                return None
            number, metadata = self._committed.popleft()
        return self._image(number, out), metadata

    def peek_last(self, *, out: npt.NDArray[Any] | None = None) -> tuple[npt.NDArray[Any], dict[str, Any]] | None:
        """Return a copy of the newest image."""
        return self.peek_nth_from_last(0, out=out)

    def peek_nth_from_last(
        self, n: int, *, out: npt.NDArray[Any] | None = None
    ) -> tuple[npt.NDArray[Any], dict[str, Any]] | None:
        """Return a copy of the image that came ``n`` before the newest."""
        with self._lock:
            if not 0 <= n < len(self._committed):
                return None
            number, metadata = self._committed[-1 - n]
        return self._image(number, out), dict(metadata)

    def clear(self) -> None:
        """Forget what can be popped, and give back what is not committed. What was committed stays written."""
        with suppress(IndexError):
            while True:
                self._pending.popleft().discard()
        with self._lock:
            self._committed.clear()
        self._overflow = False

    def __len__(self) -> int:
        return len(self._committed)

    @property
    def overflow_occurred(self) -> bool:
        """Whether the ring was full since the last ``clear``."""
        return self._overflow

    @property
    def size_bytes(self) -> int:
        """Bytes of the ring."""
        return self._acquisition.ring_frames * self._acquisition.frame_bytes

    @property
    def size_mb(self) -> float:
        """Mebibytes of the ring."""
        return self.size_bytes / 1024**2

    @property
    def free_bytes(self) -> int:
        """Bytes of free buffers."""
        return self._acquisition.stats.ring_free * self._acquisition.frame_bytes

    @property
    def free_mb(self) -> float:
        """Mebibytes of free buffers."""
        return self.free_bytes / 1024**2

    @property
    def used_bytes(self) -> int:
        """Bytes of buffers in use."""
        return self.size_bytes - self.free_bytes

    def __repr__(self) -> str:
        return f"<shardwright.unicore.LoanBuffer of {self._acquisition!r}>"


@contextmanager
def loans(core: Any, acquisition: Acquisition) -> Iterator[LoanBuffer]:
    """Let a UniCore's cameras fill buffers of an acquisition for the length of a block.

    Parameters
    ----------
    core : pymmcore_plus.experimental.unicore.UniMMCore
        Of pymmcore-plus 0.18.1. Cameras in Python fill the buffers in place; those of Micro-Manager don't go this way.
    acquisition : Acquisition
        Takes the frames, under the next numbers.
    """
    if not hasattr(core, "_seq_buffer"):
        raise RuntimeError(
            f"{type(core).__name__} has no sequence buffer that could be replaced: a UniMMCore of pymmcore-plus 0.18.1 "
            "is needed"
        )
    before, buffer = core._seq_buffer, LoanBuffer(acquisition)
    core._seq_buffer = buffer
    try:
        yield buffer
    finally:
        core._stop_acquisition_thread()
        core._seq_buffer = before
        buffer.clear()
