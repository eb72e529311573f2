"""Documents of groups, images, wells and plates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from shardwright._arrays import read_document, write_document
from shardwright.acquire_zarr._enums import DownsamplingMethod
from shardwright.acquire_zarr._levels import strides
from shardwright.acquire_zarr._settings import ArraySettings, Dimension, Plate

_VERSION = "0.5"
#: How a reader can make a level from the one before.
_RECIPES: dict[DownsamplingMethod, dict[str, Any]] = {
    DownsamplingMethod.DECIMATE: {
        "type": "decimate",
        "metadata": {
            "description": "Every second pixel of each direction that is halved, from the first on.",
            "method": "np.ndarray.__getitem__",
            "args": ["(slice(0, None, 2), slice(0, None, 2))"],
        },
    },
    DownsamplingMethod.MEAN: {
        "type": "local_mean",
        "metadata": {
            "description": "The mean of 2 by 2 pixels, cut off to a whole number, of planes one after the other.",
            "method": "skimage.transform.downscale_local_mean",
            "kwargs": {"factors": "(2, 2)", "cval": "0"},
        },
    },
    DownsamplingMethod.MIN: {
        "type": "local_min",
        "metadata": {
            "description": "The smallest of 2 by 2 pixels.",
            "method": "skimage.measure.block_reduce",
            "kwargs": {"func": "np.min"},
        },
    },
    DownsamplingMethod.MAX: {
        "type": "local_max",
        "metadata": {
            "description": "The largest of 2 by 2 pixels.",
            "method": "skimage.measure.block_reduce",
            "kwargs": {"func": "np.max"},
        },
    },
}


def _stored(array: ArraySettings) -> list[Dimension]:
    names = [dimension.name for dimension in array.dimensions]
    return [array.dimensions[names.index(name)] for name in array.storage_dimension_order or names]


def image(array: ArraySettings, levels: int) -> dict[str, Any]:
    """Return the attributes of an image of this many levels."""
    dimensions = _stored(array)
    axes = [
        {"name": dimension.name}
        | ({} if dimension.kind.name == "OTHER" else {"type": dimension.kind.name.lower()})
        | ({"unit": dimension.unit} if dimension.unit else {})
        for dimension in dimensions
    ]
    datasets = []
    for level in range(levels):
        factors = strides(array, level)
        scale = [dimension.scale * factor for dimension, factor in zip(dimensions, factors, strict=True)]
        datasets.append({"path": f"{level}", "coordinateTransformations": [{"type": "scale", "scale": scale}]})
    multiscale: dict[str, Any] = {"axes": axes, "datasets": datasets}
    if array.downsampling_method is not None:
        multiscale |= _RECIPES[array.downsampling_method]
    return {"ome": {"version": _VERSION, "name": "/", "multiscales": [multiscale]}}


def groups(keyed: Mapping[str, ArraySettings], images: Iterable[str], plates: list[Plate]) -> dict[str, dict[str, Any]]:
    """Return the attributes of every group by its key; those of images are made at the end."""
    found: dict[str, dict[str, Any]] = {key: {} for key in images}
    for key in keyed:
        parts = key.split("/") if key else []
        for length in range(len(parts)):
            found.setdefault("/".join(parts[:length]), {})
    for plate in plates:
        found[plate.path.strip("/")] = {"ome": {"version": _VERSION, "plate": _plate(plate)}}
        for well in plate.wells:
            images_of = [
                {"path": image.path} | ({} if image.acquisition_id is None else {"acquisition": image.acquisition_id})
                for image in well.images
            ]
            path = f"{plate.path}/{well.row_name}/{well.column_name}".strip("/")
            found[path] = {"ome": {"version": _VERSION, "well": {"version": _VERSION, "images": images_of}}}
    return found


def _plate(plate: Plate) -> dict[str, Any]:
    def images(of: int) -> int:
        counts = [sum(image.acquisition_id == of for image in well.images) for well in plate.wells]
        return max(counts, default=0)

    acquisitions = []
    for acquisition in plate.acquisitions:
        optional = {
            "name": acquisition.name,
            "description": acquisition.description,
            "starttime": acquisition.start_time,
            "endtime": acquisition.end_time,
        }
        given: dict[str, Any] = {name: value for name, value in optional.items() if value is not None}
        acquisitions.append(given | {"id": acquisition.id, "maximumfieldcount": images(acquisition.id)})
    return {
        "version": _VERSION,
        "name": plate.name,
        "field_count": max((len(well.images) for well in plate.wells), default=0),
        "rows": [{"name": name} for name in plate.row_names],
        "columns": [{"name": name} for name in plate.column_names],
        "wells": [
            {
                "path": f"{well.row_name}/{well.column_name}",
                "rowIndex": plate.row_names.index(well.row_name),
                "columnIndex": plate.column_names.index(well.column_name),
            }
            for well in plate.wells
        ],
        "acquisitions": acquisitions,
    }


def tidy(path: Path, attributes: Mapping[str, Any]) -> None:
    """Let an array have these attributes and no others."""
    document = read_document(path)
    if document.get("attributes", {}) != attributes:
        write_document(path, document | {"attributes": dict(attributes)})


def empty_array(array: ArraySettings) -> dict[str, Any]:
    """Return the document of an array of which no frame came."""
    dimensions = _stored(array)
    shape = [dimension.array_size_px for dimension in dimensions]
    chunk = [dimension.chunk_size_px for dimension in dimensions]
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    sharding = {
        "chunk_shape": chunk,
        "codecs": [little],
        "index_codecs": [little, {"name": "crc32c"}],
        "index_location": "end",
    }
    shard = [dimension.chunk_size_px * dimension.shard_size_chunks for dimension in dimensions]
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [0, *shape[1:]] if len(shape) > 2 else shape,
        "data_type": array.data_type.name.lower(),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shard}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
        "fill_value": 0,
        "dimension_names": [dimension.name for dimension in dimensions],
        "attributes": {},
    }
