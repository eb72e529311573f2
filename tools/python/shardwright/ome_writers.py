"""A backend for ome-writers 0.3.2: ``register()``, then ``format="shardwright"`` in its ``AcquisitionSettings``.

>>> import shardwright.ome_writers
>>> shardwright.ome_writers.register()
>>> settings = ome_writers.AcquisitionSettings(root_path="run.ome.zarr", format="shardwright", ...)

The arrays appear at their places when the stream is closed; until then, ``OMEStream.view`` shows what came. What is
given with each frame (``frame_metadata``) stands in documents from then on, as ome-writers has it; until then, it is
appended to ``.shardwright-live/frame_metadata.jsonl``, a line for each frame, so that a run that is killed leaves it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from shardwright._acquisition import Acquisition
from shardwright._arrays import Arrays, ring_bytes
from shardwright._dims import blosc, zstd
from shardwright._view import View

try:
    import ome_writers
    from ome_writers import _schema, _stream
    from ome_writers._backends._yaozarrs import YaozarrsBackend
    from pydantic import BeforeValidator
except ImportError as _error:
    raise ImportError(f"shardwright.ome_writers needs ome-writers 0.3.2 with yaozarrs: {_error}") from _error

__all__ = ["NAME", "VERSION", "ShardwrightBackend", "register"]

#: The name of the backend.
NAME = "shardwright"
#: The version whose closed lists ``register`` opens.
VERSION = "0.3.2"
#: All rings together.
_RING_BYTES = 512 << 20
#: By the names of ome-writers, with the levels of its other backends.
_CODECS: dict[str, dict[str, Any]] = {
    "none": {"name": "none"},
    "blosc-zstd": blosc("zstd", 3, "byte"),
    "blosc-lz4": blosc("lz4", 5, "byte"),
    "zstd": zstd(3),
}


class _Placeholder(NamedTuple):
    """What stands for an array while the groups are made."""

    key: str
    shape: tuple[int, ...]


class ShardwrightBackend(YaozarrsBackend):  # type: ignore[misc]
    """Groups and metadata by ome-writers, arrays by shardwright."""

    def __init__(self) -> None:
        super().__init__()
        self._arrays: list[Any] = []
        self._runs: Arrays | None = None
        self._views: list[_Resized] = []
        self._sizes: list[tuple[int, int]] = []
        self._log: IO[str] | None = None

    def is_incompatible(self, settings: Any) -> Literal[False] | str:
        """Say why these settings can't be used; False if they can."""
        if (settings.compression or "none") not in _CODECS:
            return f"Compression {settings.compression!r} is not supported; possible are {', '.join(_CODECS)}."
        return False

    def _get_yaozarrs_writer(self) -> Callable[..., _Placeholder]:
        def place(path: Path, shape: tuple[int, ...], *_: Any, **__: Any) -> _Placeholder:
            return _Placeholder(path.relative_to(self._root).as_posix(), shape)

        return place

    def _should_use_chunk_buffering(self, storage_dims: list[Any]) -> bool:
        return False

    def _post_prepare(self, settings: Any) -> None:
        config = _config(settings, len(self._arrays))
        assert self._root is not None
        self._runs = Arrays(self._root, {array.key: config for array in self._arrays})
        self._views = [_Resized(self._runs.runs[array.key], array.shape) for array in self._arrays]
        self._arrays = list(self._views)
        # (stride in numbers, place in the index) of the outer dimensions, the slowest acquired first.
        acquired = [dim.name for dim in settings.index_dimensions]
        stored = [dim.name for dim in settings.storage_index_dimensions]
        counts = {dim.name: dim.count or 1 for dim in settings.index_dimensions}
        self._sizes = [(counts[name], stored.index(name)) for name in acquired]

    def _number(self, index: tuple[int, ...]) -> int:
        number = 0
        for count, place in self._sizes:
            number = number * count + index[place]
        return number

    def write(
        self,
        position_index: int,
        index: tuple[int, ...],
        frame: npt.NDArray[Any],
        *,
        frame_metadata: dict[str, Any] | None = None,
    ) -> None:
        """Copy a frame into the ring of its position."""
        if self._finalized or self._runs is None:
            raise RuntimeError("Cannot write: the backend is not prepared, or finalized.")
        view = self._views[position_index]
        view.run.append(frame, number=self._number(index))
        view.grow(index)
        self._store_frame_metadata(position_index, index, frame_metadata)

    def _store_frame_metadata(
        self, position_index: int, index: tuple[int, ...], frame_metadata: dict[str, Any] | None
    ) -> None:
        super()._store_frame_metadata(position_index, index, frame_metadata)
        if not frame_metadata or self._runs is None:
            return
        entry = {**frame_metadata, "position": position_index, "storage_index": index}
        # What JSON does not have is an error of ome-writers at the end, and a full disk one of the frames': neither
        # shall end the run here.
        with contextlib.suppress(TypeError, ValueError, OSError):
            line = json.dumps(entry, default=str) + "\n"
            if self._log is None:
                # Each line is there once it is written, though this process may be killed.
                self._log = open(self._runs.staging / "frame_metadata.jsonl", "a", buffering=1, encoding="utf-8")
            self._log.write(line)

    def advance(self, indices: Sequence[tuple[int, tuple[int, ...]]]) -> None:
        """Leave frames out: they are the fill value."""
        if self._finalized:
            raise RuntimeError("Cannot advance after finalize().")
        for position, index in indices:
            view = self._views[position]
            view.grow(index)
            view.skipped = max(view.skipped, self._number(index))

    def get_arrays(self) -> Sequence[Any]:
        """Return an array-like for each position: live, or of what was written."""
        if self._views and not self._finalized:
            return self._views
        if self._finalized and self._root and self._image_group_paths:
            arrays: Sequence[Any] = self._reopen_arrays()
            return arrays
        raise RuntimeError("Backend not prepared. Call prepare() first.")

    def finalize(self) -> None:
        """Bring everything to the disk, and the arrays to their places."""
        if not self._finalized and self._runs is not None:
            runs, self._runs = self._runs, None
            if self._log is not None:
                with contextlib.suppress(OSError):
                    self._log.close()
            try:
                for view in self._views:
                    view.complete()
                runs.finish()
            finally:
                super().finalize()
            return
        super().finalize()


class _Resized:
    """What came of one position, in the shape that ome-writers expects."""

    def __init__(self, run: Acquisition, shape: tuple[int, ...]) -> None:
        self.run = run
        self.skipped = -1
        self._view: View = run.view()
        self._shape = list(shape)

    def grow(self, index: tuple[int, ...]) -> None:
        """Have room for a frame at an index."""
        for dim, place in enumerate(index):
            self._shape[dim] = max(self._shape[dim], place + 1)

    def complete(self) -> None:
        """Have the array end with what was left out last, or with an empty first plane if nothing came."""
        last = max(self.skipped, self.run.next_number - 1, 0)
        if last >= self.run.next_number:
            self.run.append(np.zeros(self.run.frame_shape, self.run.dtype), number=last)

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements in each dimension."""
        return tuple(self._shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the pixels."""
        return self._view.dtype

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self._shape)

    def __getitem__(self, index: Any) -> npt.NDArray[Any]:
        came = self._view.shape
        if came == self.shape:
            return self._view[index]
        # What was left out at the end has not been told to the run.
        whole: npt.NDArray[Any] = np.zeros(self.shape, self.dtype)
        whole[tuple(slice(length) for length in came)] = self._view[...]
        part: npt.NDArray[Any] = whole[index]
        return part

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self[...], dtype)


def _config(settings: Any, positions: int) -> dict[str, Any]:
    """Return the engine's configuration of each position."""
    dims = []
    stored = settings.array_storage_dimensions
    for at, dim in enumerate(stored):
        is_frame = at >= len(stored) - 2
        chunk = dim.chunk_size or (dim.count if is_frame else 1)
        kind = dim.type if dim.type in ("time", "channel", "space") else "other"
        shard = chunk * (dim.shard_size_chunks or 1)
        dims.append({"name": dim.name, "kind": kind, "size": dim.count, "chunk": chunk, "shard": shard})
    pixels = int(np.prod([dim.count for dim in stored[-2:]])) * np.dtype(settings.dtype).itemsize
    acquired = [(dim.count or 0, dim.chunk_size or 1) for dim in settings.index_dimensions]
    return {
        "dtype": np.dtype(settings.dtype).name,
        "dims": dims,
        "acquisition_order": [dim.name for dim in settings.index_dimensions],
        # ome-writers counts codecs: with none, no checksum may be among them.
        "codec": {"compressor": _CODECS[settings.compression or "none"], "checksum": False},
        "ring_bytes": ring_bytes(pixels, acquired, _RING_BYTES // positions),
        "leap_max": 1 << 24,
    }


def register() -> None:
    """Open the closed lists of ome-writers for the format ``"shardwright"``. May be called again.

    Raises
    ------
    RuntimeError
        For another version of ome-writers: its lists may be elsewhere. Nothing is changed then.
    """
    if ome_writers.__version__ != VERSION:
        raise RuntimeError(
            f"shardwright.ome_writers knows ome-writers {VERSION}, and this is {ome_writers.__version__}: "
            f"install ome-writers=={VERSION}, or a newer shardwright"
        )
    if NAME in _stream.AVAILABLE_BACKENDS:
        return
    backend = _stream.BackendMetadata(
        name=NAME,
        module_path=__name__,
        class_name=ShardwrightBackend.__name__,
        format="ome-zarr",
        is_available=lambda: True,
    )
    _stream.BACKENDS.append(backend)
    _stream.VALID_BACKEND_NAMES.append(NAME)
    _stream.AVAILABLE_BACKENDS[NAME] = backend
    _open_schema()


def _open_schema() -> None:
    names = (*get_args(_schema.ZarrBackendName), NAME)
    _schema.ZarrBackendName = Literal[names]
    zarr = _schema.OmeZarrFormat
    zarr.__annotations__["backend"] = Literal[(*names, "auto")]
    zarr.model_fields["backend"].annotation = Literal[(*names, "auto")]
    zarr.model_rebuild(force=True)
    field = _schema.AcquisitionSettings.model_fields["format"]
    field.metadata.append(BeforeValidator(_cast))
    _schema.AcquisitionSettings.model_rebuild(force=True)


def _cast(value: Any) -> Any:
    """Take the name of this backend where ome-writers takes those of its own."""
    if isinstance(value, Mapping) and str(value.get("_backend_str")).lower() == NAME:
        kwargs = {"suffix": value["suffix"]} if value.get("suffix") else {}
        return _schema.OmeZarrFormat(backend=NAME, **kwargs)
    if isinstance(value, str) and value.lower() == NAME:
        return _schema.OmeZarrFormat(backend=NAME)
    return value
