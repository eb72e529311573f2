"""The stream: bytes go to the array that a key names."""

from __future__ import annotations

import json
import shutil
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shardwright._arrays import Arrays, group, write_document
from shardwright._errors import EndedError, Error
from shardwright.acquire_zarr import _levels, _metadata
from shardwright.acquire_zarr._enums import CompressionCodec, Compressor, DimensionType
from shardwright.acquire_zarr._rings import frame_bytes, ring_bytes
from shardwright.acquire_zarr._settings import ArraySettings
from shardwright.acquire_zarr._stream_settings import StreamSettings

_KINDS = {
    DimensionType.SPACE: "space",
    DimensionType.CHANNEL: "channel",
    DimensionType.TIME: "time",
    DimensionType.OTHER: "other",
}
#: Less is a short run.
_SHORT_BYTES = 1 << 30
_SHUFFLES = ("none", "byte", "bit")
#: This many numbers at most are left out at once.
_LEAP_MAX = 8192


def _codec(array: ArraySettings) -> dict[str, Any]:
    settings = array.compression
    if settings is None or settings.compressor == Compressor.NONE:
        return {"compressor": {"name": "none"}, "checksum": False}
    if settings.compressor == Compressor.ZSTD:
        return {"compressor": {"name": "zstd", "level": settings.level}, "checksum": False}
    names = {CompressionCodec.BLOSC_LZ4: "lz4", CompressionCodec.BLOSC_ZSTD: "zstd"}
    if settings.codec not in names or settings.shuffle not in (0, 1, 2):
        raise RuntimeError(f"{settings!r}: Blosc takes BLOSC_LZ4 and BLOSC_ZSTD, and a shuffle of 0, 1 or 2")
    blosc = {
        "name": "blosc",
        "cname": names[settings.codec],
        "level": settings.level,
        "shuffle": _SHUFFLES[settings.shuffle],
    }
    return {"compressor": blosc, "checksum": False}


def _declared_bytes(array: ArraySettings) -> int:
    sizes = [dimension.array_size_px for dimension in array.dimensions[:-2]]
    return int(np.prod(sizes, dtype=object)) * frame_bytes(array)


def _check(array: ArraySettings) -> None:
    dimensions = list(array.dimensions)
    if len(dimensions) < 2:
        raise RuntimeError(f"an array of {len(dimensions)} dimensions: rows and columns at least are needed")
    for at, dimension in enumerate(dimensions):
        if not dimension.name or dimension.chunk_size_px < 1 or dimension.shard_size_chunks < 1:
            raise RuntimeError(f"{dimension!r}: a name, a chunk size and a shard size are needed")
        if dimension.array_size_px < 1 and (at > 0 or len(dimensions) == 2):
            raise RuntimeError(f"{dimension!r}: only the first of three or more dimensions may be without a size")


def config(array: ArraySettings, arrays: int, threads: int) -> dict[str, Any]:
    """Return the engine's configuration of an array."""
    dimensions = list(array.dimensions)
    names = [dimension.name for dimension in dimensions]
    stored = [dimensions[names.index(name)] for name in array.storage_dimension_order or names]
    dims = [
        {
            "name": dimension.name,
            "kind": _KINDS[dimension.kind],
            # As many as come: what was written is what the array will be.
            "size": None if at == 0 and len(dimensions) > 2 else dimension.array_size_px,
            "chunk": dimension.chunk_size_px,
            "shard": dimension.chunk_size_px * dimension.shard_size_chunks,
        }
        for at, dimension in enumerate(stored)
    ]
    return {
        "dtype": array.data_type.name.lower(),
        "dims": dims,
        "acquisition_order": [name for name in names[:-2]],
        "codec": _codec(array),
        "ring_bytes": ring_bytes(array, arrays),
        # What a trial finds out pays in long runs alone.
        "storage": "buffered" if 0 < _declared_bytes(array) < _SHORT_BYTES else "auto",
        "workers": threads,
    }


class _Target:
    """Where the bytes of one key go."""

    def __init__(self, array: ArraySettings) -> None:
        self.array = array
        self.frame_bytes = frame_bytes(array)
        sizes = [dimension.array_size_px for dimension in array.dimensions[:-2]]
        self.max_bytes = int(np.prod(sizes, dtype=object)) * self.frame_bytes if 0 not in sizes else None
        if not sizes:
            self.max_bytes = self.frame_bytes
        names = [dimension.name for dimension in array.dimensions]
        order = array.storage_dimension_order or names
        self.swaps = order[-2:] != names[-2:]
        self.bytes = 0
        self.skipped = 0
        self.rest = b""
        self.attributes: dict[str, Any] = {}


class ZarrStream:
    """Writes what is appended to the arrays of its settings. ``close`` ends it.

    Raises
    ------
    NotImplementedError
        For S3; nothing is written.
    RuntimeError
        For settings that can't work, or a path that can't be used.
    """

    def __init__(self, settings: StreamSettings) -> None:
        self._active = False
        # Calls of several threads come one after another.
        self._lock = threading.RLock()
        if settings.s3 is not None:
            raise NotImplementedError("S3 is not written to; write to a folder, and copy it")
        keyed = settings.keyed()
        if not settings.store_path:
            raise RuntimeError("the store path is empty")
        if not keyed:
            raise RuntimeError("there is no array in the settings")
        if "" in keyed and len(keyed) > 1 and not keyed[""].is_ngff:
            raise RuntimeError("an array without a key is the whole store; it can't have others in it")
        self._root = Path(settings.store_path)
        for array in keyed.values():
            _check(array)
        # What follows must not see later changes of the settings.
        self._targets = {key: _Target(array) for key, array in keyed.items()}
        self._ngff = {key for key, array in keyed.items() if array.is_ngff}
        for plate in settings.hcs_plates:
            self._ngff |= {key for key, _ in plate.keys()}
        self._groups = _metadata.groups(keyed, self._ngff, settings.hcs_plates)
        if settings.custom_metadata:
            self._groups.setdefault("", {}).update(_parsed(settings.custom_metadata))
        threads = max(settings.max_threads, 0)
        configs = {self._place(key): config(array, len(keyed), threads) for key, array in keyed.items()}
        if settings.overwrite:
            _remove(self._root)
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            self._arrays = Arrays(self._root, configs)
        except (Error, OSError) as error:
            raise RuntimeError(f"{error}") from error
        self._active = True

    def _place(self, key: str) -> str:
        """Return where the array of a key is: that of an image is its level 0."""
        return f"{key}/0".strip("/") if key in self._ngff else key

    def _target(self, key: str | None) -> str:
        if key is None:
            if len(self._targets) > 1:
                raise RuntimeError("a key is needed where there are several arrays")
            return next(iter(self._targets))
        key = key.strip("/")
        if key not in self._targets:
            raise RuntimeError(f"Array key {key!r} not found; there are {', '.join(self._targets)}")
        return key

    def _checked(self, key: str | None, count: int) -> tuple[str, _Target]:
        if not self._active:
            raise RuntimeError("Stream not open for appending.")
        key = self._target(key)
        target = self._targets[key]
        if target.max_bytes is not None and target.bytes + count > target.max_bytes:
            raise RuntimeError(
                f"Attempted out of bounds write to array {key!r}: {target.max_bytes - target.bytes} bytes are left, "
                f"{count} were given"
            )
        return key, target

    def append(self, data: npt.NDArray[Any], key: str | None = None) -> None:
        """Append bytes: any number of them, also pieces of a frame.

        Parameters
        ----------
        data : numpy.ndarray
            Its elements in C order are pixels, whatever its shape and type are.
        key : str, optional
            The array; needed if there are several.
        """
        if not isinstance(data, np.ndarray):
            raise TypeError(f"append takes a numpy.ndarray, not {type(data).__name__}")
        with self._lock:
            key, target = self._checked(key, data.nbytes)
            if data.nbytes == 0:
                return
            try:
                self._fill_skipped(key, target)
                self._append(key, target, np.ascontiguousarray(data))
            except Error as error:
                raise RuntimeError(f"{error}") from error
            target.bytes += data.nbytes

    def _append(self, key: str, target: _Target, data: npt.NDArray[Any]) -> None:
        run = self._arrays.runs[self._place(key)]
        if not target.swaps:
            run.append_bytes(data)
            return
        given = target.rest + data.tobytes()
        whole = len(given) // target.frame_bytes * target.frame_bytes
        target.rest = given[whole:]
        if whole:
            columns, rows = run.frame_shape
            frames = np.frombuffer(given[:whole], run.dtype).reshape(-1, rows, columns)
            run.append(np.ascontiguousarray(frames.transpose(0, 2, 1)))

    def _fill_skipped(self, key: str, target: _Target) -> None:
        """Leave out what was skipped: whole frames by their numbers, parts of them as zeros."""
        run = self._arrays.runs[self._place(key)]
        while target.skipped > 0:
            begun = len(target.rest) if target.swaps else run.pending_bytes
            frames = target.skipped // target.frame_bytes if begun == 0 else 0
            if frames > 1:
                # The last of them comes, so that the numbers of those before are left out.
                left_out = min(frames, _LEAP_MAX)
                blank = np.zeros(run.frame_shape, run.dtype)
                run.append(blank, number=run.next_number + left_out - 1)
                target.skipped -= left_out * target.frame_bytes
            else:
                count = min(target.skipped, target.frame_bytes - begun)
                self._append(key, target, np.zeros(count, np.uint8))
                target.skipped -= count

    def skip(self, n_bytes: int, key: str | None = None) -> None:
        """Leave out bytes, which are zeros then.

        Parameters
        ----------
        n_bytes : int
            How many.
        key : str, optional
            The array; needed if there are several.
        """
        if n_bytes < 0:
            raise ValueError(f"n_bytes = {n_bytes}: nothing can be taken back")
        with self._lock:
            _, target = self._checked(key, n_bytes)
            target.skipped += n_bytes
            target.bytes += n_bytes

    def write_custom_metadata(
        self,
        metadata: str | dict[str, Any],
        *,
        array_key: str | None = None,
        metadata_key: str | None = None,
    ) -> bool:
        """Add attributes to an array, or the group of its levels.

        Parameters
        ----------
        metadata : str or dict
            JSON.
        array_key : str, optional
            The array; needed if there are several.
        metadata_key : str, optional
            The attribute; by default each key of the metadata is one.
        """
        with self._lock:
            if not self._active:
                raise RuntimeError("the stream is closed")
            if not isinstance(metadata, str | dict):
                raise TypeError("metadata must be a str or dict")
            values = _parsed(metadata) if isinstance(metadata, str) else json.loads(json.dumps(metadata))
            key = self._target(array_key)
            added = {metadata_key: values} if metadata_key else values
            self._targets[key].attributes.update(added)
        return True

    def is_active(self) -> bool:
        """Whether more can be appended."""
        return self._active

    def get_current_memory_usage(self) -> int:
        """Return the bytes of frames that wait in the rings."""
        total = 0
        if self._active:
            for run in self._arrays.runs.values():
                # Another thread may be closing the stream.
                with suppress(EndedError):
                    stats = run.stats
                    total += (stats.ring_frames - stats.ring_free) * run.frame_bytes + run.pending_bytes
        return total

    def close(self) -> None:
        """End the stream: everything is written, and the arrays are at their places.

        Raises
        ------
        RuntimeError
            Something could not be written.
        """
        with self._lock:
            if not self._active:
                return
            self._active = False
            try:
                for key, target in self._targets.items():
                    self._fill_skipped(key, target)
                written = self._arrays.finish()
                self._complete(set(written))
            except (Error, OSError) as error:
                notes = "; ".join(getattr(error, "__notes__", []))
                raise RuntimeError(f"{error}" + (f"; {notes}" if notes else "")) from error

    def _complete(self, written: set[str]) -> None:
        for key, target in self._targets.items():
            place = self._place(key)
            document = self._root / place / "zarr.json"
            if place in written:
                _metadata.tidy(document, {} if key in self._ngff else target.attributes)
                if target.array.downsampling_method is not None:
                    _levels.write(self._root / key, target.array, config)
            elif target.attributes and key not in self._ngff:
                write_document(document, _metadata.empty_array(target.array) | {"attributes": target.attributes})
        for key, attributes in self._groups.items():
            target_of = self._targets.get(key) if key in self._ngff else None
            if target_of is not None:
                levels = _levels.count(self._root / key, target_of.array) if self._place(key) in written else 0
                if not levels and not target_of.attributes:
                    continue
                attributes = _metadata.image(target_of.array, max(levels, 1)) | target_of.attributes
            elif not written:
                continue
            document = self._root / key / "zarr.json"
            if not document.exists():
                write_document(document, group(attributes))

    def __enter__(self) -> ZarrStream:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_active", False):
            try:
                self.close()
            except RuntimeError as error:
                warnings.warn(f"a stream was dropped unclosed: {error}", ResourceWarning, stacklevel=1)


def _parsed(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise RuntimeError(f"Failed to write custom metadata: {error}") from None
    if not isinstance(values, dict):
        raise RuntimeError("Failed to write custom metadata: an object of JSON is needed")
    return values


def _remove(root: Path) -> None:
    """Remove a store that is in the way, and nothing else ever."""
    if not root.exists():
        return
    entries = {entry.name for entry in root.iterdir()} if root.is_dir() else {"a file"}
    if entries and not entries & {"zarr.json", ".zgroup", ".zarray", "c"}:
        raise RuntimeError(f"{root} is no Zarr store, so it is not overwritten")
    shutil.rmtree(root)
