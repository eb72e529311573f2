"""The names of acquire-zarr 0.10.0, on this package's engine.

``import shardwright.acquire_zarr as aqz`` in place of ``import acquire_zarr as aqz`` is the whole change. What this
engine can't do, as S3, raises ``NotImplementedError`` before anything is written. Arrays appear at their places when
the stream is closed.
"""

from shardwright.acquire_zarr._enums import (
    CompressionCodec,
    Compressor,
    DataType,
    DimensionType,
    DownsamplingMethod,
    LogLevel,
    ZarrVersion,
    get_log_level,
    set_log_level,
)
from shardwright.acquire_zarr._settings import (
    Acquisition,
    ArraySettings,
    CompressionSettings,
    Dimension,
    FieldOfView,
    Plate,
    S3Settings,
    VectorArraySettings,
    VectorDimension,
    Well,
)
from shardwright.acquire_zarr._stream import ZarrStream
from shardwright.acquire_zarr._stream_settings import StreamSettings

__all__ = [
    "Acquisition",
    "ArraySettings",
    "CompressionCodec",
    "CompressionSettings",
    "Compressor",
    "DataType",
    "Dimension",
    "DimensionType",
    "DownsamplingMethod",
    "FieldOfView",
    "LogLevel",
    "Plate",
    "S3Settings",
    "StreamSettings",
    "VectorArraySettings",
    "VectorDimension",
    "Well",
    "ZarrStream",
    "ZarrVersion",
    "get_log_level",
    "set_log_level",
]
