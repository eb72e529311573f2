"""The settings of acquire-zarr, but for those of a stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from shardwright.acquire_zarr._enums import (
    CompressionCodec,
    Compressor,
    DataType,
    DimensionType,
    DownsamplingMethod,
)


class Settings:
    """Keyword arguments that become attributes, each with a default."""

    _defaults: ClassVar[dict[str, Any]] = {}

    def __init__(self, **kwargs: Any) -> None:
        unknown = set(kwargs) - set(self._defaults)
        if unknown:
            known = ", ".join(self._defaults)
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}; it has {known}")
        for name, default in self._defaults.items():
            value = kwargs.get(name)
            setattr(
                self, name, default() if value is None and callable(default) else default if value is None else value
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._defaults)})"


class VectorDimension(list["Dimension"]):
    """A list of dimensions."""


class VectorArraySettings(list["ArraySettings"]):
    """A list of arrays' settings."""


class S3Settings(Settings):
    """A place in an object store, to which nothing is written here."""

    _defaults: ClassVar[dict[str, Any]] = {"endpoint": "", "bucket_name": "", "region": None}
    endpoint: str
    bucket_name: str
    region: str | None


class CompressionSettings(Settings):
    """How chunks are compressed."""

    _defaults: ClassVar[dict[str, Any]] = {
        "compressor": Compressor.NONE,
        "codec": CompressionCodec.NONE,
        "level": 1,
        "shuffle": 0,
    }
    compressor: Compressor
    codec: CompressionCodec
    level: int
    shuffle: int


class Dimension(Settings):
    """One dimension; ``array_size_px`` 0 of the first one: as many as come."""

    _defaults: ClassVar[dict[str, Any]] = {
        "name": "",
        "kind": DimensionType.SPACE,
        "unit": None,
        "scale": 1.0,
        "array_size_px": 0,
        "chunk_size_px": 0,
        "shard_size_chunks": 0,
    }
    name: str
    kind: DimensionType
    unit: str | None
    scale: float
    array_size_px: int
    chunk_size_px: int
    shard_size_chunks: int


def _data_type(value: DataType | npt.DTypeLike) -> DataType:
    if isinstance(value, DataType):
        return value
    try:
        return DataType[np.dtype(value).name.upper()]
    except (KeyError, TypeError):
        raise TypeError(f"data_type = {value!r}: integers of 8 to 64 bits, float32 and float64 are possible") from None


class ArraySettings(Settings):
    """One array, or one image of several levels."""

    _defaults: ClassVar[dict[str, Any]] = {
        "output_key": "",
        "compression": None,
        "dimensions": VectorDimension,
        "data_type": DataType.UINT8,
        "downsampling_method": None,
        "max_levels": 0,
        "storage_dimension_order": list,
        "is_ngff": False,
    }
    output_key: str
    compression: CompressionSettings | None
    downsampling_method: DownsamplingMethod | None
    max_levels: int

    @property
    def dimensions(self) -> VectorDimension:
        """In the order of acquisition, slowest first."""
        return self._dimensions

    @dimensions.setter
    def dimensions(self, value: Iterable[Dimension]) -> None:
        self._dimensions = VectorDimension(value)

    @property
    def data_type(self) -> DataType:
        """The type of a pixel."""
        return self._data_type

    @data_type.setter
    def data_type(self, value: DataType | npt.DTypeLike) -> None:
        self._data_type = _data_type(value)

    @property
    def is_ngff(self) -> bool:
        """Whether the array is in a multiscales group."""
        return self._is_ngff or self.downsampling_method is not None

    @is_ngff.setter
    def is_ngff(self, value: bool) -> None:
        self._is_ngff = bool(value)

    @property
    def storage_dimension_order(self) -> list[str]:
        """The names of the dimensions as they are stored; empty: as they are acquired."""
        return self._storage_order

    @storage_dimension_order.setter
    def storage_dimension_order(self, order: Iterable[str]) -> None:
        order = list(order)
        names = [dimension.name for dimension in self.dimensions]
        if order:
            if sorted(order) != sorted(names):
                raise TypeError(f"storage_dimension_order = {order}: the dimensions are {names}")
            if order[0] != names[0]:
                raise TypeError(
                    f"Transposing dimension 0 ({names[0]!r}) away from position 0 is not currently supported"
                )
            if set(order[-2:]) != set(names[-2:]):
                raise TypeError(f"The last two dimensions in acquisition order ({names[-2:]}) must stay the last two")
        self._storage_order = order


class FieldOfView(Settings):
    """One image of a well."""

    _defaults: ClassVar[dict[str, Any]] = {"path": "", "acquisition_id": None, "array_settings": ArraySettings}
    path: str
    acquisition_id: int | None
    array_settings: ArraySettings


class Acquisition(Settings):
    """One of several acquisitions of a plate."""

    _defaults: ClassVar[dict[str, Any]] = {
        "id": 0,
        "name": None,
        "description": None,
        "start_time": None,
        "end_time": None,
    }
    id: int
    name: str | None
    description: str | None
    start_time: int | None
    end_time: int | None


class Well(Settings):
    """One well of a plate."""

    _defaults: ClassVar[dict[str, Any]] = {"row_name": "", "column_name": "", "images": list}
    row_name: str
    column_name: str
    images: list[FieldOfView]


class Plate(Settings):
    """A plate of wells."""

    _defaults: ClassVar[dict[str, Any]] = {
        "path": "",
        "name": "",
        "row_names": list,
        "column_names": list,
        "wells": list,
        "acquisitions": list,
    }
    path: str
    name: str
    row_names: list[str]
    column_names: list[str]
    wells: list[Well]
    acquisitions: list[Acquisition]

    def keys(self) -> list[tuple[str, ArraySettings]]:
        """Return the key of each field of view, and what is to be there."""
        return [
            (f"{self.path}/{well.row_name}/{well.column_name}/{image.path}".strip("/"), image.array_settings)
            for well in self.wells
            for image in well.images
        ]
