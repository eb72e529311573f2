"""Configurations: by keyword, as a dict, JSON or TOML."""

from __future__ import annotations

import json
import math
import operator
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from shardwright._dims import Channel, Dim, _compressor
from shardwright._errors import ConfigError
from shardwright._fields import ConfigFields

__all__ = ["ConfigFields", "called", "config_document", "options_document", "plain"]

_Result = TypeVar("_Result")


Config = Mapping[str, Any] | str | PathLike[str]


def config_document(config: Config | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON document of a configuration and the keywords that replace parts of it."""
    document = dict(_read(config))
    document.update(fields)
    return {name: _converted(_CONVERSIONS, name, value) for name, value in document.items()}


def options_document(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON document of options of an operation."""
    return {name: _converted(_OPTIONS, name, value) for name, value in options.items()}


def called(call: Callable[[str], _Result], document: Mapping[str, Any], within: str | None = None) -> _Result:
    """Call the engine with a document as JSON. What it says of a place in that text is said of the field there.

    Of a document that is the value of a field itself, ``within`` is the name of that.
    """
    pieces = {name: f"{json.dumps(name)}: {_json(name, value)}" for name, value in document.items()}
    try:
        return call("{" + ", ".join(pieces.values()) + "}")
    except ConfigError as error:
        found = re.fullmatch(r"(.*) at line 1 column (\d+)", str(error), re.DOTALL)
        if error.field is None and found is not None:
            name = _name_at(pieces, int(found[2]))
            text = _RUST.sub(lambda word: _WORDS.get(word[1][0], "a whole number"), found[1])
            error.field = within or name
            if within is not None:
                text, name = text.removeprefix(f"{within}: "), f"{within}.{name}" if name else within
            error.args = (text if name is None or f"unknown field `{name}`" in text else f"{name}: {text}",)
        raise


def _name_at(pieces: Mapping[str, str], column: int) -> str | None:
    """Return the key whose piece of the text ends at a column, counted from 1, or behind it."""
    end = len("{")
    for name, piece in pieces.items():
        end += len(piece)
        # A number ends where the comma is seen.
        if column <= end + 1:
            return name
        end += len(", ")
    return None


#: What the engine calls the types that JSON has.
_RUST = re.compile(r"(?<=, expected )([iu](?:8|16|32|64|size)|f64|a sequence|struct \w+)$")
_WORDS = {"f": "a number", "a": "a list", "s": "a mapping"}


def _json(name: str, value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False, default=plain)
    except TypeError as error:
        raise _wrong(name, value, str(error)) from None
    except ValueError:
        raise _wrong(name, value, "numbers must be finite") from None


def plain(value: Any) -> Any:
    """Return what JSON knows in place of an object."""
    for convert in ("tolist", "isoformat", "as_posix"):
        if hasattr(value, convert):
            return getattr(value, convert)()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} is nothing that JSON knows")


def _wrong(name: str, value: Any, reason: str) -> ConfigError:
    shown = repr(value)
    error = ConfigError(f"{name} = {shown if len(shown) <= 100 else shown[:100] + ' …'}: {reason}")
    error.field = name.partition("[")[0]
    return error


def _converted(conversions: Mapping[str, Callable[[Any], Any]], name: str, value: Any) -> Any:
    convert = conversions.get(name)
    if convert is None:
        return value
    try:
        return convert(value)
    except ConfigError as error:
        error.field = error.field or name
        raise
    except (AttributeError, TypeError, ValueError) as error:
        raise _wrong(name, value, _EXPECTED.get(name) or str(error)) from None


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
    return [_dim(at, dim) for at, dim in enumerate(dims)]


def _dim(at: int, dim: Dim | Mapping[str, Any]) -> dict[str, Any]:
    try:
        made = dim._document() if isinstance(dim, Dim) else dict(dim)
    except (TypeError, ValueError) as error:
        reason = str(error) if isinstance(dim, Dim) else _EXPECTED["dims"]
        raise _wrong(f"dims[{at}]", dim, reason) from None
    for name in ("scale", "translation"):
        if isinstance(made.get(name), float) and not math.isfinite(made[name]):
            raise _wrong(f"dims[{at}]", dim, f"{name} = {made[name]}: a finite number is expected")
    return made


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
    turns = operator.index(turn) % 4
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


def _ome(version: str | float) -> Any:
    return str(version) if isinstance(version, float) else version


def _names(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


#: What would be right.
_EXPECTED = {
    "dims": "expected are sw.time(), sw.z(10), sw.y(2048), sw.x(2048), …, or mappings of what these have",
    "codec": "expected is a name, as 'blosc-lz4', or what sw.codec returns",
    "checkpoint_every": "expected are seconds",
    "ring_full": "expected is 'block', seconds to block at most, 'drop-newest' or 'error'",
    "orientation": "expected is a whole number of quarter turns, or {'transpose': True, 'flip': 'rows'}",
    "record_fields": "expected are names with types, as {'stage_z': 'f8'}",
    "channels": "expected are labels or sw.Channel(…), as many as there are channels",
    "fill_value": "expected is a number, 'NaN', 'Infinity' or '-Infinity'",
    "pyramid": "expected is a method (mean, median, min, max, decimate, mode), or {'method': 'mean', 'levels': 3}",
    "acquisition_order": "expected are names of dimensions",
    "affinity": "expected are numbers of cores",
    "manifest": "expected are some of manifest, inlined, kerchunk",
    "only": "expected is a list of keys",
    "skip": "expected is a list of keys",
    "forms": "expected are some of manifest, inlined, kerchunk",
}

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
    "manifest": _names,
    "ome": _ome,
    "pyramid": _pyramid,
}
_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "codec": _codec,
    "forms": _names,
    "ome": _ome,
    "only": _names,
    "skip": _names,
}
