"""Settings of acquire-zarr as documents, and back."""

from __future__ import annotations

import json
from typing import Any, Protocol

from shardwright.acquire_zarr import _settings as settings
from shardwright.acquire_zarr._enums import (
    CompressionCodec,
    Compressor,
    DataType,
    DimensionType,
    DownsamplingMethod,
    ZarrVersion,
)

#: The number that documents have for Zarr v3.
_VERSION = 2


class Stream(Protocol):
    """The settings of a stream that documents have."""

    arrays: settings.VectorArraySettings
    hcs_plates: list[settings.Plate]
    s3: settings.S3Settings | None
    max_threads: int
    overwrite: bool
    store_path: str


def of_stream(stream: Stream) -> dict[str, Any]:
    """Return the document of a stream's settings."""
    document: dict[str, Any] = {}
    if stream.arrays:
        document["arrays"] = [_of_array(array, with_key=True) for array in stream.arrays]
    document |= {"max_threads": stream.max_threads, "overwrite": stream.overwrite}
    if stream.hcs_plates:
        document["plates"] = [_of_plate(plate) for plate in stream.hcs_plates]
    if stream.s3 is not None:
        names = ("endpoint", "bucket_name", "region")
        document["s3"] = {name: getattr(stream.s3, name) for name in names if getattr(stream.s3, name) is not None}
    return document | {"store_path": stream.store_path, "version": _VERSION}


def _of_array(array: settings.ArraySettings, *, with_key: bool) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if array.compression is not None:
        document["compression"] = {
            "codec": array.compression.codec.name.lower().replace("_", "-"),
            "compressor": array.compression.compressor.name.lower(),
            "level": array.compression.level,
            "shuffle": array.compression.shuffle,
        }
    document["data_type"] = array.data_type.name.lower()
    document["dimensions"] = [_of_dimension(dimension) for dimension in array.dimensions]
    method = array.downsampling_method
    document["downsampling_method"] = "none" if method is None else method.name.lower()
    document["is_ngff"] = array.is_ngff
    if array.max_levels:
        document["max_levels"] = array.max_levels
    if with_key:
        document["output_key"] = array.output_key
    if array.storage_dimension_order:
        names = [dimension.name for dimension in array.dimensions]
        document["storage_dimension_order"] = [names.index(name) for name in array.storage_dimension_order]
    return document


def _of_dimension(dimension: settings.Dimension) -> dict[str, Any]:
    return {
        "array_size_px": dimension.array_size_px,
        "chunk_size_px": dimension.chunk_size_px,
        "name": dimension.name,
        "scale": dimension.scale,
        "shard_size_chunks": dimension.shard_size_chunks,
        "type": dimension.kind.name.lower(),
        "unit": dimension.unit or "",
    }


def _of_plate(plate: settings.Plate) -> dict[str, Any]:
    def present(thing: object, *names: str) -> dict[str, Any]:
        return {name: getattr(thing, name) for name in names if getattr(thing, name) is not None}

    return {
        "acquisitions": [
            present(acquisition, "description", "end_time", "id", "name", "start_time")
            for acquisition in plate.acquisitions
        ],
        "column_names": list(plate.column_names),
        "name": plate.name,
        "path": plate.path,
        "row_names": list(plate.row_names),
        "wells": [
            {
                "column_name": well.column_name,
                "images": [
                    present(image, "acquisition_id")
                    | {"array": _of_array(image.array_settings, with_key=False), "path": image.path}
                    for image in well.images
                ],
                "row_name": well.row_name,
            }
            for well in plate.wells
        ],
    }


def stream(document: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a stream that a document describes, by their names."""
    known = {"arrays", "max_threads", "overwrite", "plates", "s3", "store_path", "version", "custom_metadata"}
    if unknown := set(document) - known:
        raise RuntimeError(f"unknown settings: {', '.join(sorted(unknown))}; known are {', '.join(sorted(known))}")
    if document.get("version", _VERSION) not in (_VERSION, ZarrVersion.V3):
        raise RuntimeError(f"version = {document['version']}: only Zarr v3 is written")
    return {
        "arrays": [_array(array) for array in document.get("arrays", [])],
        "hcs_plates": [_plate(plate) for plate in document.get("plates", [])],
        "s3": settings.S3Settings(**document["s3"]) if document.get("s3") else None,
        "max_threads": document.get("max_threads"),
        "overwrite": document.get("overwrite"),
        "store_path": document.get("store_path"),
        "custom_metadata": document.get("custom_metadata"),
    }


def _array(document: dict[str, Any]) -> settings.ArraySettings:
    dimensions = [
        settings.Dimension(
            name=dimension["name"],
            kind=DimensionType[dimension.get("type", "space").upper()],
            unit=dimension.get("unit") or None,
            scale=dimension.get("scale"),
            array_size_px=dimension.get("array_size_px"),
            chunk_size_px=dimension.get("chunk_size_px"),
            shard_size_chunks=dimension.get("shard_size_chunks"),
        )
        for dimension in document.get("dimensions", [])
    ]
    compression = None
    if written := document.get("compression"):
        compression = settings.CompressionSettings(
            compressor=Compressor[written.get("compressor", "none").upper()],
            codec=CompressionCodec[written.get("codec", "none").upper().replace("-", "_")],
            level=written.get("level"),
            shuffle=written.get("shuffle"),
        )
    method = document.get("downsampling_method", "none")
    order = document.get("storage_dimension_order", [])
    return settings.ArraySettings(
        output_key=document.get("output_key"),
        compression=compression,
        dimensions=dimensions,
        data_type=DataType[document.get("data_type", "uint8").upper()],
        downsampling_method=None if method == "none" else DownsamplingMethod[method.upper()],
        max_levels=document.get("max_levels"),
        storage_dimension_order=[dimensions[at].name if isinstance(at, int) else at for at in order],
        is_ngff=document.get("is_ngff"),
    )


def _plate(document: dict[str, Any]) -> settings.Plate:
    wells = [
        settings.Well(
            row_name=well["row_name"],
            column_name=well["column_name"],
            images=[
                settings.FieldOfView(
                    path=image["path"],
                    acquisition_id=image.get("acquisition_id"),
                    array_settings=_array(image["array"]),
                )
                for image in well.get("images", [])
            ],
        )
        for well in document.get("wells", [])
    ]
    return settings.Plate(
        path=document["path"],
        name=document.get("name"),
        row_names=document.get("row_names"),
        column_names=document.get("column_names"),
        wells=wells,
        acquisitions=[settings.Acquisition(**acquisition) for acquisition in document.get("acquisitions", [])],
    )


def parsed(text: str) -> dict[str, Any]:
    """Return the document in a text of JSON or YAML."""
    try:
        document = json.loads(text)
    except ValueError:
        try:
            import yaml as parser
        except ImportError:
            raise RuntimeError("these settings are not JSON; to read YAML, install pyyaml") from None
        document = parser.safe_load(text)
    if not isinstance(document, dict):
        raise RuntimeError("the settings must be a mapping")
    return document


def yaml(document: Any) -> str:
    """Return a document of mappings, lists, texts and numbers as YAML."""
    return "\n".join(_yaml(document, 0)) + "\n"


def _yaml(value: Any, indent: int) -> list[str]:
    pad = " " * indent
    if isinstance(value, dict):
        lines = []
        for key, part in value.items():
            if isinstance(part, dict | list) and part:
                lines += [f"{pad}{key}:", *_yaml(part, indent + 2)]
            else:
                lines.append(f"{pad}{key}: {_scalar(part)}")
        return lines
    lines = []
    for part in value:
        if isinstance(part, dict | list) and part:
            first, *rest = _yaml(part, indent + 2)
            lines += [f"{pad}- {first.strip()}", *rest]
        else:
            lines.append(f"{pad}- {_scalar(part)}")
    return lines


def _scalar(value: Any) -> str:
    # JSON is YAML, too.
    return json.dumps(value)
