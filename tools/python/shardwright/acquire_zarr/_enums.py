"""The enumerations of acquire-zarr."""

from __future__ import annotations

import logging
from enum import IntEnum


class ZarrVersion(IntEnum):
    """Zarr's version."""

    V3 = 3


class DataType(IntEnum):
    """The type of a pixel."""

    UINT8 = 0
    UINT16 = 1
    UINT32 = 2
    UINT64 = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    FLOAT32 = 8
    FLOAT64 = 9


class DimensionType(IntEnum):
    """What a dimension means."""

    SPACE = 0
    CHANNEL = 1
    TIME = 2
    OTHER = 3


class Compressor(IntEnum):
    """Which compressor."""

    NONE = 0
    BLOSC1 = 1
    ZSTD = 2


class CompressionCodec(IntEnum):
    """What the compressor uses."""

    NONE = 0
    BLOSC_LZ4 = 1
    BLOSC_ZSTD = 2
    ZSTD = 3


class DownsamplingMethod(IntEnum):
    """How pixels of a level become one of the next."""

    DECIMATE = 1
    MEAN = 2
    MIN = 3
    MAX = 4


class LogLevel(IntEnum):
    """What is logged."""

    DEBUG = 0
    INFO = 1
    WARNING = 2
    ERROR = 3
    NONE = 4


_LEVELS = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
    LogLevel.NONE: logging.CRITICAL + 1,
}
_level = LogLevel.INFO


def set_log_level(level: LogLevel) -> None:
    """Set the level of the logger ``shardwright``."""
    global _level
    _level = LogLevel(level)
    logging.getLogger("shardwright").setLevel(_LEVELS[_level])


def get_log_level() -> LogLevel:
    """Return what ``set_log_level`` was given last."""
    return _level
