"""What is there of a run that goes on, as an array."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from shardwright._errors import EndedError
from shardwright._offline import Index, StoredArray, boxed, open

if TYPE_CHECKING:
    import xarray

__all__ = ["View", "to_xarray"]


class _Run(Protocol):
    config: dict[str, Any]
    _stored_at: str

    @property
    def chunk_shape(self) -> list[int]: ...
    @property
    def next_number(self) -> int: ...
    @property
    def _array_dtype(self) -> np.dtype[Any]: ...
    @property
    def _array_shape(self) -> tuple[int, int]: ...
    def _read_frame(self, number: int) -> bytearray: ...
    def finish(self) -> object: ...


class View:
    """A live, lazy, array-like view of an image: of frames in the ring, and of those in shards.

    Each look at it is of that moment. Where no frame came there is the fill value. When the run has ended, the view
    reads the dataset.

    Attributes
    ----------
    dims : tuple of str
        The names of the dimensions.
    """

    def __init__(self, acquisition: _Run) -> None:
        self._acquisition = acquisition
        dims = acquisition.config["dims"]
        self.dims: tuple[str, ...] = tuple(dim["name"] for dim in dims)
        self._sizes: list[int | None] = [dim.get("size") for dim in dims]
        order = acquisition.config.get("acquisition_order") or self.dims[:-2]
        self._acquired = [self.dims.index(name) for name in order]
        self._stored: StoredArray | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the pixels."""
        return self._acquisition._array_dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements in each dimension; of an open one, as many as came until now."""
        if None not in self._sizes:
            return tuple(size for size in self._sizes if size is not None)
        try:
            frames = self._acquisition.next_number
        except EndedError:
            return tuple(self._after_the_run().shape)
        faster = int(np.prod([self._sizes[dim] or 1 for dim in self._acquired[1:]], dtype=np.int64))
        return tuple(-(-frames // faster) if size is None else size for size in self._sizes)

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self.dims)

    @property
    def size(self) -> int:
        """Elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def chunks(self) -> tuple[int, ...]:
        """Elements of a chunk."""
        return tuple(self._acquisition.chunk_shape)

    def __len__(self) -> int:
        return self.shape[0]

    def _after_the_run(self) -> StoredArray:
        if self._stored is None:
            # The files are not whole before the end is over.
            self._acquisition.finish()
            self._stored = open(self._acquisition._stored_at)
        return self._stored

    def _number(self, position: Sequence[int]) -> int:
        number = 0
        for dim in self._acquired:
            number = number * (self._sizes[dim] or 1) + position[dim]
        return number

    def __getitem__(self, index: Index | tuple[Index, ...]) -> npt.NDArray[Any]:
        start, lengths, back = boxed(index, self.shape)
        try:
            box = self._frames(start, lengths, back)
        except EndedError:
            return self._after_the_run()[index]
        return box[back[-2:]] if len(back) == 2 else box[(..., *back[-2:])]

    def _frames(self, start: list[int], lengths: list[int], back: tuple[int | slice, ...]) -> npt.NDArray[Any]:
        rows, columns = self._acquisition._array_shape
        window = tuple(slice(first, first + length) for first, length in zip(start[-2:], lengths[-2:], strict=True))
        outer = [
            [first + part] if isinstance(part, int) else [first + at for at in range(length)[part]]
            for first, length, part in zip(start[:-2], lengths[:-2], back[:-2], strict=True)
        ]
        kept = tuple(len(places) for places, part in zip(outer, back, strict=False) if isinstance(part, slice))
        box = np.empty((*kept, *lengths[-2:]), self.dtype)
        flat = box.reshape(-1, *lengths[-2:]) if box.size else box.reshape(0, 1, 1)
        if box.size:
            for at, position in enumerate(itertools.product(*outer)):
                pixels = np.frombuffer(self._acquisition._read_frame(self._number(position)), self.dtype)
                flat[at] = pixels.reshape(rows, columns)[window]
        return box

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a view of a run can't be an array without a copy")
        return np.asarray(self[...], dtype)

    def __repr__(self) -> str:
        return f"<shardwright.View {self.dtype} {self.shape} of {self._acquisition!r}>"


def to_xarray(view: View, config: dict[str, Any]) -> xarray.DataArray:
    """Return a lazy ``xarray.DataArray`` of a view."""
    import xarray
    from xarray.backends import BackendArray
    from xarray.core import indexing

    class _Lazy(BackendArray):
        def __init__(self) -> None:
            self.shape, self.dtype = view.shape, view.dtype

        def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
            basic = indexing.IndexingSupport.BASIC
            return indexing.explicit_indexing_adapter(key, self.shape, basic, lambda index: view[index])

    variable = xarray.Variable(view.dims, indexing.LazilyIndexedArray(_Lazy()))
    coordinates = {}
    for dim, length in zip(config["dims"], view.shape, strict=True):
        if dim.get("unit") is not None or (dim.get("scale", 1.0), dim.get("translation", 0.0)) != (1.0, 0.0):
            attributes = {} if dim.get("unit") is None else {"units": dim["unit"]}
            places = dim.get("translation", 0.0) + np.arange(length) * dim.get("scale", 1.0)
            coordinates[dim["name"]] = xarray.Variable(dim["name"], places, attributes)
    for dim in config["dims"]:
        if dim.get("kind") == "channel" and config.get("channels"):
            labels = [channel["label"] for channel in config["channels"]]
            coordinates[dim["name"]] = xarray.Variable(dim["name"], labels)
    return xarray.DataArray(variable, coordinates, name=config.get("name"))
