"""What is done to datasets after the run.

Each function lets other Python threads go on, and is stopped by Ctrl-C: of ``repack`` and ``pyramid`` such that
another call goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import EllipsisType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from shardwright import _core
from shardwright._config import called, options_document
from shardwright._errors import ConfigError, ExistsError
from shardwright._progress import of_bytes
from shardwright._summary import table

__all__ = ["Report", "StoredArray", "export", "info", "manifest", "open", "pyramid", "recover", "repack", "verify"]

StrPath = str | PathLike[str]
Progress = bool | Callable[[int, int], object]


class Report(dict[str, Any]):
    """What an operation tells: a dictionary whose keys are attributes, too, as those of dictionaries in it are; a table
    in notebooks.
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the report has {', '.join(self)}, and no {name}") from None

    def _repr_html_(self) -> str:
        def cell(value: object) -> str:
            text = json.dumps(value) if isinstance(value, list | dict) else str(value)
            return text if len(text) < 400 else text[:400] + " …"

        return table((name, cell(value)) for name, value in self.items())


def _report(document: str) -> Report:
    report: Report = json.loads(document, object_hook=Report)
    return report


def info(path: StrPath) -> Report:
    """Tell what a dataset holds: arrays, shapes, codecs, sizes, attributes, whether it is complete.

    Parameters
    ----------
    path : path-like
        A dataset, a group or an array, of any dialect.

    Returns
    -------
    Report
        ``arrays``, ``attributes``, ``complete``, ``notes``. Attributes are those of the group, or the array, that is at
        the path: what ``Acquisition.attributes`` was given, beside ``ome`` and ``shardwright``.
    """
    return _report(_core.info(Path(path)))


def verify(path: StrPath, *, workers: int = 0, progress: Progress = False) -> Report:
    """Check all that headers and checksums cover. Never writes.

    Parameters
    ----------
    path : path-like
        A dataset or an array.
    workers : int
        Threads; 0 is one for each core.
    progress : bool or callable
        True shows a bar; a callable is called with the bytes done, and in all.

    Returns
    -------
    Report
        ``is_sound``, ``damage`` (how many pieces), ``findings``, ``arrays``.
    """
    with of_bytes("verify", progress) as tell:
        return _verified(_report(_core.verify(Path(path), workers, tell)))


def _verified(report: Report) -> Report:
    report["is_sound"] = report["damage"] == 0
    return report


def recover(path: StrPath, *, apply: bool = False, workers: int = 0, progress: Progress = False) -> Report:
    """Find what can be saved of a run that was killed, and with ``apply`` save it.

    Parameters
    ----------
    path : path-like
        A dataset.
    apply : bool
        Make the changes. Without it nothing is changed, and the report says what would be.
    workers, progress
        As of ``verify``.
    """
    with of_bytes("recover", progress) as tell:
        return _report(_core.recover(Path(path), apply, workers, tell))


def repack(
    path: StrPath,
    out: StrPath | None = None,
    *,
    codec: str | Mapping[str, Any] | None = None,
    progress: Progress = False,
    **options: Any,
) -> Report:
    """Close gaps, order chunks, re-encode and reshape: in place, or into a new dataset.

    Parameters
    ----------
    path : path-like
        A finished dataset.
    out : path-like, optional
        The new dataset. By default the dataset itself is changed.
    codec : str or dict, optional
        As of ``create``. By default chunks stay as they are.
    progress : bool or callable
        As of ``verify``.
    **options
        ``only``, ``skip`` (lists of keys), ``dialect``, ``ome`` (0.4, 0.5, 0.6), ``order`` (c, morton, kept),
        ``chunk``, ``shard`` (elements in each dimension), ``unsharded``, ``index_location``, ``index_checksum``,
        ``volume``, ``memory_bytes``, ``workers``, ``sync``, ``reflink``, ``incomplete``, ``space_check``.
    """
    if codec is not None:
        options["codec"] = codec
    with of_bytes("repack", progress) as tell:
        target, document = None if out is None else Path(out), options_document(options)
        return _report(called(lambda words: _core.repack(Path(path), target, words, tell), document))


def manifest(path: StrPath, out: StrPath | None = None, *, progress: Progress = False, **options: Any) -> Report:
    """Write where the chunks of a dataset lie, for readers that go by references.

    Parameters
    ----------
    path : path-like
        A finished dataset.
    out : path-like, optional
        By default ``run.ome.manifest.zarr`` beside ``run.ome.zarr``.
    progress : bool or callable
        As of ``verify``.
    **options
        ``url_prefix``, ``forms`` (manifest, inlined, kerchunk), ``inline_chunks``, ``kerchunk_zarr_format``,
        ``overwrite``.
    """
    with of_bytes("manifest", progress) as tell:
        target, document = None if out is None else Path(out), options_document(options)
        return _report(called(lambda words: _core.manifest(Path(path), target, words, tell), document))


def pyramid(
    path: StrPath,
    *,
    method: Literal["mean", "median", "min", "max", "decimate", "mode"] | None = None,
    levels: int | None = None,
    y: bool = True,
    x: bool = True,
    depth: Literal["never", "always", "auto"] = "never",
    progress: Progress = False,
    **options: Any,
) -> Report:
    """Add smaller levels to an image of OME-Zarr in Zarr v3, each half as large in its last two axes, y and x.

    Parameters
    ----------
    path : path-like
        The image.
    method : str, optional
        How four pixels become one. By default their mean, or of labels their mode.
    levels : int, optional
        Levels beside level 0. By default until y and x have 256 pixels at most.
    y, x : bool
        Whether rows, and columns, are halved.
    depth : str
        Whether z is halved, too: the last axis before y and x, if it is one of space.
    progress : bool or callable
        As of ``verify``.
    **options
        ``overwrite``, ``memory_bytes``, ``workers``, ``sync``.
    """
    chosen = {"method": method, "levels": levels, "y": y, "x": x, "depth": depth, **options}
    with of_bytes("pyramid", progress) as tell:
        return _report(called(lambda words: _core.pyramid(Path(path), words, tell), options_document(chosen)))


Index = int | slice | EllipsisType


class StoredArray(_core.StoredArray):
    """An array on a disk, of any dialect: lazy, with basic indexing, each read by several threads.

    ``open`` makes it. It shows the array as it was then; a run that goes on is opened again.
    """

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        name = self._type_name
        return np.dtype(f"V{int(name[1:]) // 8}") if name[0] == "r" and name[1:].isdigit() else np.dtype(name)

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each dimension."""
        return tuple(self._shape)

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """Elements of a chunk along each dimension."""
        return tuple(self._chunk_shape)

    @property
    def shard_shape(self) -> tuple[int, ...] | None:
        """Elements of a shard along each dimension; ``None``: there are no shards."""
        return None if self._shard_shape is None else tuple(self._shard_shape)

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """Elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the array alone, from its own document. Those of a run are the image's: see ``info``."""
        attributes: dict[str, Any] = json.loads(self._attributes())
        return attributes

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Index | tuple[Index, ...]) -> npt.NDArray[Any]:
        start, shape, back = boxed(index, self.shape)
        pixels = np.frombuffer(self._read(start, shape), self.dtype.newbyteorder("<")).reshape(shape)
        return pixels.astype(self.dtype, copy=False)[back]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("reading an array from a disk makes a copy")
        return np.asarray(self[...], dtype)

    def __repr__(self) -> str:
        return f"<shardwright.StoredArray {self.dtype} {self.shape}>"


def boxed(
    index: Index | tuple[Index, ...], shape: Sequence[int]
) -> tuple[list[int], list[int], tuple[int | slice, ...]]:
    """Return the box that an index needs, as start and shape, and what then picks the index from it."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if parts.count(...) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if ... not in parts:
        parts.append(...)
    gap = parts.index(...)
    parts[gap : gap + 1] = [slice(None)] * (len(shape) - len(parts) + 1)
    if len(parts) != len(shape):
        raise IndexError(f"too many indices: the array has {len(shape)} dimensions")
    start: list[int] = []
    lengths: list[int] = []
    back: list[int | slice] = []
    for axis, (part, length) in enumerate(zip(parts, shape, strict=True)):
        if isinstance(part, slice):
            places = range(*part.indices(length))
            first, last = (min(places), max(places)) if places else (0, -1)
            start.append(first)
            lengths.append(last - first + 1)
            back.append(_from_box(places, first))
        elif isinstance(part, int | np.integer):
            at = int(part) + (length if part < 0 else 0)
            if not 0 <= at < length:
                raise IndexError(f"index {part} is out of bounds for axis {axis} with size {length}")
            start.append(at)
            lengths.append(1)
            back.append(0)
        else:
            raise IndexError("numbers, slices and one ellipsis are possible")
    return start, lengths, tuple(back)


def _from_box(places: range, first: int) -> slice:
    if not places:
        return slice(0, 0)
    begin = places[0] - first
    if places.step > 0:
        return slice(begin, None, places.step)
    end = places[-1] - first - 1
    return slice(begin, None if end < 0 else end, places.step)


def open(path: StrPath) -> StoredArray:
    """Open the array at ``path``, or the first and finest array of the image there.

    Parameters
    ----------
    path : path-like
        Zarr v3 or v2, their drafts with shards, or a precomputed volume.
    """
    return StoredArray(Path(path))


def export(
    path: StrPath,
    out: StrPath,
    region: tuple[Index, ...] | Index = ...,
    *,
    overwrite: bool = False,
) -> tuple[int, ...]:
    """Write a region as one file, plane by plane.

    Parameters
    ----------
    path : path-like
        What ``open`` takes.
    out : path-like
        ``.npy``; ``.raw`` (C order, little-endian); ``.tif`` or ``.tiff``, for which tifffile must be installed. The
        command ``shardwright export`` writes OME-TIFF.
    region : index
        As of a numpy array: numbers and slices.
    overwrite : bool
        Replace a file that is in the way.

    Returns
    -------
    tuple of int
        The shape of what was written.
    """
    array, target = open(path), Path(out)
    if target.exists() and not overwrite:
        raise ExistsError(17, f"{target} already exists; choose another path, or allow overwriting", str(target))
    start, lengths, back = boxed(region, array.shape)
    shape = _shape(lengths, back)
    if target.suffix == ".npy":
        written = np.lib.format.open_memmap(target, "w+", array.dtype, shape)
        _copy(array, start, lengths, back, written)
        written.flush()
    elif target.suffix == ".raw":
        little = array.dtype.newbyteorder("<")
        written = np.memmap(target, little, "w+", shape=shape)
        _copy(array, start, lengths, back, written)
        written.flush()
    elif target.suffix in (".tif", ".tiff"):
        import tifffile

        written = tifffile.memmap(target, shape=shape, dtype=array.dtype, photometric="minisblack")
        _copy(array, start, lengths, back, written)
        written.flush()
    else:
        raise ConfigError(f"out = {str(target)!r}: .npy, .raw, .tif and .tiff are possible")
    return shape


def _shape(lengths: list[int], back: tuple[int | slice, ...]) -> tuple[int, ...]:
    parts = zip(lengths, back, strict=True)
    return tuple(len(range(*part.indices(length))) for length, part in parts if isinstance(part, slice))


def _copy(
    array: StoredArray, start: list[int], lengths: list[int], back: tuple[int | slice, ...], out: npt.NDArray[Any]
) -> None:
    if not lengths or isinstance(back[0], int):
        box = tuple(slice(first, first + length) for first, length in zip(start, lengths, strict=True))
        out[...] = array[box][back]
        return
    # As many layers at once as a shard or chunk holds, so that none is read twice.
    step = max(1, array.chunk_shape[0])
    places = range(*back[0].indices(lengths[0]))
    rest = tuple(slice(first, first + length) for first, length in zip(start[1:], lengths[1:], strict=True))
    for at in range(0, len(places), step):
        part = places[at : at + step]
        low, high = min(part), max(part)
        block = array[(slice(start[0] + low, start[0] + high + 1), *rest)]
        out[at : at + len(part)] = block[(_from_box(part, low), *back[1:])]
