"""What is appended, before the engine gets it."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shardwright._errors import FrameError, FrameNumberError

__all__ = ["OuterAxes", "number_error", "offset_of"]


class OuterAxes:
    """The dimensions before those of a frame, in the order in which frames come.

    Parameters
    ----------
    dims : sequence of mapping
        All dimensions of the configuration.
    order : sequence of str or None
        The order of acquisition; empty or None: as they are stored.
    frame_dims : int
        Axes of a frame as it is given: three, if a pixel has samples.
    """

    def __init__(self, dims: Sequence[Mapping[str, Any]], order: Sequence[str] | None, frame_dims: int) -> None:
        sizes = {dim["name"]: dim.get("size") for dim in dims[:-2]}
        names = list(order or sizes)
        if frame_dims > 2:
            # The samples of a pixel are the dimension that changes fastest.
            self._samples = sizes[names.pop()]
        else:
            self._samples = None
        # Those of one element are nowhere in the order of frames.
        self._dims = [(name, sizes[name]) for name in names if sizes[name] != 1]
        self.may_be_mixed_up = len(self._dims) > 1

    def check(self, image: object) -> None:
        """Refuse a stack whose leading axes are those of acquisition in another order.

        The slowest of them may be shorter, as of a stack that is a part of the run.
        """
        shape = _shape(image)
        has_samples = self._samples is not None and len(shape) > 2 and shape[-1] == self._samples
        outer = shape[: -3 if has_samples else -2]
        places = [place for place, length in enumerate(outer) if length != 1]
        lengths = [outer[place] for place in places]
        if not 1 < len(lengths) <= len(self._dims) or 0 in lengths:
            return
        dims = self._dims[-len(lengths) :]
        found = _match(lengths, [size for _, size in dims])
        if found is None or found == list(range(len(lengths))):
            return
        axes = [place for place, length in enumerate(outer) if length == 1] + [places[at] for at in found]
        axes += range(len(outer), len(shape))
        of = [name for _, name in sorted(zip(found, (name for name, _ in dims), strict=True))]
        order = ", ".join(name for name, _ in dims)
        raise FrameError(
            f"an array of shape {list(shape)}: the order of acquisition is ({order}), the last of them the fastest, "
            f"and so are leading axes taken; those of this array look like ({', '.join(of)}): append "
            f"np.transpose(image, {tuple(axes)}), or frames along one axis, in the order in which they come"
        )


def offset_of(offset: Any) -> tuple[int, int]:
    """Return the row and the column of an offset."""
    try:
        row, column = map(operator.index, offset)
    except (TypeError, ValueError):
        row = column = -1
    if min(row, column) < 0 or max(row, column) >= 1 << 63:
        raise FrameError(f"offset = {offset!r}: expected are a row and a column of the image, as (128, 0)")
    return row, column


def number_error(number: Any) -> FrameNumberError:
    """Return the exception for a number that no integer of 64 bits holds."""
    error = FrameNumberError(f"number = {number!r}: frames are counted from 0, in at most 64 bits")
    error.number = number
    return error


def _match(lengths: Sequence[int], sizes: Sequence[int | None]) -> list[int] | None:
    """Return which of the axes each dimension is, those in order if they fit; None if they are no permutation."""
    if _fits(lengths, sizes):
        return list(range(len(lengths)))
    left = list(range(len(lengths)))
    found = []
    # All but the slowest have just one length.
    for size in reversed(sizes[1:]):
        place = next((place for place in reversed(left) if lengths[place] == size), None)
        if place is None:
            return None
        left.remove(place)
        found.append(place)
    found = [left[0], *reversed(found)]
    return found if _fits([lengths[place] for place in found], sizes) else None


def _fits(lengths: Sequence[int], sizes: Sequence[int | None]) -> bool:
    slowest = sizes[0] is None or lengths[0] <= sizes[0]
    return slowest and list(lengths[1:]) == list(sizes[1:])


def _shape(image: object) -> tuple[int, ...]:
    """Return the shape of whatever can be appended; of what can't, which the engine refuses, none."""
    shape = getattr(image, "shape", None)
    if isinstance(shape, tuple):
        return shape
    try:
        return memoryview(image).shape or ()  # type: ignore[arg-type]
    except TypeError:
        pass
    try:
        return np.from_dlpack(image).shape  # type: ignore[arg-type]
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        return ()
