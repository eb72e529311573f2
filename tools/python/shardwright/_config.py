"""Configurations: by keyword, as a dict, JSON or TOML."""

from __future__ import annotations

import json
import math
import operator
import tomllib
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from shardwright._dims import Channel, Dim, _compressor
from shardwright._errors import ConfigError

__all__ = ["ConfigFields", "config_document"]


class ConfigFields(TypedDict, total=False):
    """The fields of a configuration; the Rust documentation of ``Config`` has the details of each."""

    dims: Sequence[Dim | Mapping[str, Any]]
    dtype: npt.DTypeLike
    dialect: str
    acquisition_order: Sequence[str]
    codec: str | Mapping[str, Any]
    placement: str
    index_location: str
    index_checksum: bool
    volume: Mapping[str, Any]
    storage: str
    fill_value: float | str
    skip_empty_chunks: bool
    ring_bytes: int
    frame_layout: Mapping[str, int] | None
    pixel_format: str
    unused_low_bits: int
    orientation: Mapping[str, bool | str] | int
    ring_full: str | float | Mapping[str, Any] | None
    leap_max: int
    workers: int
    affinity: Sequence[int]
    sync: bool
    checkpoint_every: float | Mapping[str, int]
    record_fields: Mapping[str, npt.DTypeLike] | Sequence[Mapping[str, Any]]
    record_roi: bool
    channels: Sequence[str | Channel | Mapping[str, Any]]
    name: str | None
    key: str | None
    bare: bool
    ome: str
    overwrite: bool
    guard_maps: bool
    manifest: Sequence[str]
    pyramid: str | Mapping[str, Any] | None
    plate_acquisition: int | None
    label: Mapping[str, Any] | None
    part: Mapping[str, Any] | None


Config = Mapping[str, Any] | str | PathLike[str]


def config_document(config: Config | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON document of a configuration and the keywords that replace parts of it."""
    document = dict(_read(config))
    document.update(fields)
    return {name: _field(name, value) for name, value in document.items()}


def _read(config: Config | None) -> Mapping[str, Any]:
    if config is None:
        return {}
    if isinstance(config, Mapping):
        return config
    text = config if isinstance(config, str) else None
    if text is None or ("\n" not in text and text.endswith((".json", ".toml"))):
        text = Path(config).read_text(encoding="utf-8")
    try:
        document = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"the configuration is neither JSON nor TOML: {error}") from None
    if not isinstance(document, dict):
        raise ConfigError("the configuration must be a table of fields")
    return document


def _field(name: str, value: Any) -> Any:
    convert: Callable[[Any], Any] | None = _CONVERSIONS.get(name)
    return value if convert is None else convert(value)


def dtype_name(dtype: npt.DTypeLike) -> str:
    """Return Zarr's name of a type of elements."""
    try:
        made = np.dtype(dtype)
    except TypeError as error:
        # The engine's own short names, as u16.
        if isinstance(dtype, str):
            return dtype
        raise ConfigError(f"dtype = {dtype!r}: {error}") from None
    if isinstance(dtype, str) and dtype[0] in "ui" and dtype[1:] in ("8", "16", "32", "64"):
        # Bits to the engine, bytes to numpy, which knows one of them: u8.
        return made.name
    if not made.isnative:
        raise ConfigError(
            f"dtype = {made.str}: arrays are of this machine's byte order; use {made.newbyteorder('=').name}, and "
            "pixel_format = 'big-endian' for 16-bit frames whose high byte comes first"
        )
    return made.name


def _dims(dims: Sequence[Dim | Mapping[str, Any]]) -> list[Any]:
    return [dim._document() if isinstance(dim, Dim) else dict(dim) for dim in dims]


def _codec(codec: str | Mapping[str, Any]) -> Any:
    if isinstance(codec, str):
        return {"compressor": _compressor(codec)}
    codec = dict(codec)
    if "name" in codec:
        return {"compressor": codec}
    if "compressor" in codec:
        codec["compressor"] = _compressor(codec["compressor"])
    return codec


def duration(seconds: float | Mapping[str, int]) -> Any:
    """Return seconds as the engine's documents have them."""
    if isinstance(seconds, Mapping):
        return dict(seconds)
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ConfigError(f"{seconds!r} is no number of seconds")
    nanoseconds = round(seconds * 1_000_000_000)
    return {"secs": nanoseconds // 1_000_000_000, "nanos": nanoseconds % 1_000_000_000}


def _ring_full(policy: str | float | Mapping[str, Any] | None) -> Any:
    if policy is None or policy == "block":
        return {"block": {"timeout": None}}
    if isinstance(policy, int | float):
        return {"block": {"timeout": duration(policy)}}
    return dict(policy) if isinstance(policy, Mapping) else policy


def _orientation(turn: Mapping[str, bool | str] | int) -> dict[str, bool | str]:
    """Return what quarter turns are, which ``numpy.rot90`` counts as well."""
    if isinstance(turn, Mapping):
        return dict(turn)
    turns = turn % 4
    return {"transpose": turns % 2 == 1, "flip": ("none", "rows", "both", "columns")[turns]}


def _record_fields(fields: Any) -> Any:
    if isinstance(fields, Mapping):
        return [{"name": name, "dtype": dtype_name(dtype)} for name, dtype in fields.items()]
    return [dict(field) for field in fields]


def _channels(channels: Sequence[Any]) -> list[Any]:
    def document(channel: Any) -> Any:
        if isinstance(channel, str):
            return Channel(channel)._document()
        return channel._document() if isinstance(channel, Channel) else dict(channel)

    return [document(channel) for channel in channels]


def _pyramid(levels: str | Mapping[str, Any] | None) -> Any:
    return {"method": levels} if isinstance(levels, str) else levels if levels is None else dict(levels)


def _fill_value(value: float | str) -> Any:
    if isinstance(value, str):
        return value
    if hasattr(value, "__index__"):
        # A float would round those beyond 2 ** 53.
        return operator.index(value)
    value = float(value)
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "dims": _dims,
    "dtype": dtype_name,
    "codec": _codec,
    "checkpoint_every": duration,
    "ring_full": _ring_full,
    "orientation": _orientation,
    "record_fields": _record_fields,
    "channels": _channels,
    "fill_value": _fill_value,
    "acquisition_order": list,
    "affinity": list,
    "manifest": list,
    "pyramid": _pyramid,
}
