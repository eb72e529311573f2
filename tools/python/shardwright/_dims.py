"""Dimensions, codecs and channels of a configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from shardwright._errors import ConfigError

__all__ = ["Channel", "Dim", "blosc", "channel", "codec", "dim", "gzip", "time", "x", "y", "z", "zstd"]

_Kind = Literal["time", "channel", "space", "other"]
_Scale = float | tuple[float, str | None] | None
_Translation = float | tuple[float, str | None]


@dataclass(frozen=True)
class Dim:
    """One dimension of the array.

    Parameters
    ----------
    name : str
        Unique in the array; the name of OME-Zarr's axis.
    kind : {"time", "channel", "space", "other"}
        What it means.
    size : int, optional
        Elements. None, of the first dimension only: as many as arrive.
    chunk, shard : int
        Elements of a chunk and of a shard; 0 chooses. A shard is a multiple of a chunk.
    scale : float
        The distance between neighbours, in ``unit``.
    unit : str, optional
        As UDUNITS-2 spells it: ``micrometer``, ``second``, …
    translation : float
        Where the centre of the first element is, in ``unit``: for y and x the position of the stage.
    """

    name: str
    kind: _Kind = "other"
    size: int | None = None
    chunk: int = 0
    shard: int = 0
    scale: float = 1.0
    unit: str | None = None
    translation: float = 0.0

    def _document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "size": None if self.size is None else int(self.size),
            "chunk": int(self.chunk),
            "shard": int(self.shard),
            "scale": float(self.scale),
            "translation": float(self.translation),
            "unit": self.unit,
        }


def dim(
    name: str,
    size: int | None = None,
    *,
    kind: _Kind = "other",
    chunk: int = 0,
    shard: int = 0,
    scale: _Scale = None,
    translation: _Translation = 0.0,
) -> Dim:
    """Make a dimension of any name and meaning: positions, angles, …

    Parameters
    ----------
    name : str
        Unique in the array.
    size : int, optional
        Elements; None, of the first dimension only: as many as arrive.
    kind : {"time", "channel", "space", "other"}
        What it means.
    chunk, shard : int
        Elements of a chunk and of a shard; 0 chooses.
    scale : float or (float, str), optional
        The distance between neighbours, and its unit.
    translation : float or (float, str)
        Where the centre of the first element is, in that unit; or with the unit, which must be the same.

    Raises
    ------
    ConfigError
        For a scale or a translation that is neither, and for two units.
    """
    distance, unit = _measure(name, "scale", scale)
    place, place_unit = _measure(name, "translation", translation)
    if place_unit is not None and unit not in (None, place_unit):
        text = f"dimension {name}: translation = {translation!r}: its unit must be that of the scale, {unit!r}"
        raise _config_error(text)
    made = 1.0 if distance is None else distance
    return Dim(name, kind, size, chunk, shard, made, place_unit if unit is None else unit, place or 0.0)


def _measure(name: str, what: str, value: _Scale) -> tuple[float | None, str | None]:
    """Return a number and its unit."""
    number, unit = value if isinstance(value, tuple | list) and len(value) == 2 else (value, None)
    try:
        finite = number is None or math.isfinite(number)
    except TypeError:
        finite = False
    if not finite or not (unit is None or isinstance(unit, str)):
        text = f"dimension {name}: {what} = {value!r}: expected is a finite number, or (number, unit)"
        raise _config_error(text)
    return number, unit


def _config_error(text: str) -> ConfigError:
    error = ConfigError(text)
    error.field = "dims"
    return error


def time(
    size: int | None = None, *, chunk: int = 0, shard: int = 0, scale: _Scale = None, translation: _Translation = 0.0
) -> Dim:
    """Time, ``t``; without a size as many frames as arrive. See ``dim``."""
    return dim("t", size, kind="time", chunk=chunk, shard=shard, scale=scale, translation=translation)


def channel(size: int, *, chunk: int = 0, shard: int = 0) -> Dim:
    """Channel, ``c``. See ``dim``."""
    return dim("c", size, kind="channel", chunk=chunk, shard=shard)


def z(
    size: int | None = None, *, chunk: int = 0, shard: int = 0, scale: _Scale = None, translation: _Translation = 0.0
) -> Dim:
    """Depth, ``z``. See ``dim``."""
    return dim("z", size, kind="space", chunk=chunk, shard=shard, scale=scale, translation=translation)


def y(size: int, *, chunk: int = 0, shard: int = 0, scale: _Scale = None, translation: _Translation = 0.0) -> Dim:
    """Make the rows of a frame, ``y``. See ``dim``."""
    return dim("y", size, kind="space", chunk=chunk, shard=shard, scale=scale, translation=translation)


def x(size: int, *, chunk: int = 0, shard: int = 0, scale: _Scale = None, translation: _Translation = 0.0) -> Dim:
    """Make the columns of a frame, ``x``. See ``dim``."""
    return dim("x", size, kind="space", chunk=chunk, shard=shard, scale=scale, translation=translation)


@dataclass(frozen=True)
class Channel:
    """How viewers show a channel.

    Parameters
    ----------
    label : str
        The name.
    color : str, optional
        Red, green and blue as six hexadecimal digits. By default white for the only channel, and for each of several a
        colour that mixes well with the others'.
    window : (float, float), optional
        The values that are shown as black and as full colour. By default, what nearly all pixels of the channel's first
        8 frames lie in, or, in a red, green and blue image of bytes, the whole range of the type.
    """

    label: str
    color: str = ""
    window: tuple[float, float] | None = None

    def _document(self) -> dict[str, Any]:
        return {"label": self.label, "color": self.color, "window": self.window}


def codec(compressor: str | dict[str, Any] = "blosc-lz4", *, checksum: bool = True) -> dict[str, Any]:
    """Say how chunks are encoded: a compressor, and whether a CRC-32C follows.

    Parameters
    ----------
    compressor : str or dict
        ``none``, ``auto``, ``blosc-lz4``, ``blosc-zstd``, …, ``blosc-noise``, ``zstd``, ``gzip``, ``lz4``, ``zlib``; or
        what ``blosc``, ``zstd`` and ``gzip`` return.
    checksum : bool
        Whether readers notice flipped bits.
    """
    return {"compressor": _compressor(compressor), "checksum": checksum}


def blosc(cname: str = "lz4", level: int = 1, shuffle: str = "bit", block_bytes: int = 0) -> dict[str, Any]:
    """Blosc 1 frames, with ``cname`` (lz4, lz4hc, zstd, zlib, blosclz) inside after a shuffle (none, byte, bit)."""
    return {"name": "blosc", "cname": cname, "level": level, "shuffle": shuffle, "block_bytes": block_bytes}


def zstd(level: int = 1) -> dict[str, Any]:
    """Plain Zstandard frames, level -131072 to 22."""
    return {"name": "zstd", "level": level}


def gzip(level: int = 1) -> dict[str, Any]:
    """Gzip streams, level 0 to 9."""
    return {"name": "gzip", "level": level}


def _compressor(compressor: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(compressor, dict):
        return compressor
    if compressor.startswith("blosc-") and compressor != "blosc-noise":
        return blosc(compressor.removeprefix("blosc-"))
    if compressor == "blosc":
        return blosc()
    document: dict[str, Any] = {"name": compressor}
    if compressor in ("zstd", "gzip", "zlib"):
        document["level"] = 1
    return document
