"""zarr-python 2.18, which can't stand beside 3 in one interpreter: reads requests, one a line, and answers each.

{"write": CELL, "path": DATASET}
{"arrays": [...], "path": DATASET}         of the draft of 2022: each with name, pixels (.npy), chunks, and perhaps
                                           chunks_per_shard, codec, separator, dtype, fill_value, and parts (boxes that
                                           are written, the rest stays empty)
{"read": DATASET, "version": 2 or 3, "paths": [...], "to": FOLDER}
"""

import os
import pathlib
import sys
import warnings

os.environ |= {"ZARR_V3_EXPERIMENTAL_API": "1", "ZARR_V3_SHARDING": "1"}
warnings.simplefilter("ignore")

import numcodecs  # noqa: E402
import numpy as np  # noqa: E402
import zarr  # noqa: E402
from zarr._storage.v3_storage_transformers import ShardingStorageTransformer  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from pixels import boxes, dtype_of, fill_value, pixels  # noqa: E402
from serve import serve  # noqa: E402

SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}


def compressor(codec):
    kind, level = codec["kind"], codec["level"]
    if kind == "blosc":
        return numcodecs.Blosc(codec["cname"], level, SHUFFLES[codec["shuffle"]])
    makers = {"gzip": numcodecs.GZip, "zlib": numcodecs.Zlib, "zstd": numcodecs.Zstd, "lz4": numcodecs.LZ4}
    makers["bz2"] = numcodecs.BZ2
    if kind == "lzma":
        return numcodecs.LZMA()
    return makers[kind](level) if kind in makers else None


def filters(name, dtype):
    if name == "delta":
        return [numcodecs.Delta(dtype)] if dtype.kind in "iu" else None
    return {"shuffle": [numcodecs.Shuffle(dtype.itemsize)], "crc32": [numcodecs.CRC32()], None: None}[name]


def write(cell, path):
    draft = cell["writer"] == "draft"
    version = {"zarr_version": 3} if draft else {}
    store = zarr.DirectoryStoreV3(path) if draft else zarr.DirectoryStore(path)
    for group, attributes in cell["groups"].items():
        made = zarr.open_group(store, mode="a", path=group, **version)
        made.attrs.update(attributes)
    for number, array in enumerate(cell["arrays"]):
        dtype = dtype_of(array["dtype"])
        more = dict(version)
        if draft and array["shard"]:
            sharding = ShardingStorageTransformer("indexed", chunks_per_shard=tuple(array["shard"]))
            more["storage_transformers"] = [sharding]
        if not draft:
            more["filters"] = filters(array["filters"], dtype)
        out = zarr.create(
            tuple(array["shape"]),
            chunks=tuple(array["chunk"]),
            dtype=dtype,
            compressor=compressor(array["codecs"]),
            order=array["order"],
            dimension_separator=array["separator"],
            fill_value=None if array.get("null_fill") else fill_value(array["fill"], array["dtype"]),
            store=store,
            path=array["path"] or None,
            write_empty_chunks=cell["number"] % 3 == 0,
            **more,
        )
        out.attrs.update(array["attributes"])
        data = pixels(array["pixels"], array["dtype"], array["shape"], [cell["seed"], cell["number"], number])
        for box in boxes(array["parts"]):
            out[box] = data[box]
    if cell["consolidated"]:
        zarr.consolidate_metadata(store)


CODECS = {
    "none": None,
    "gzip": numcodecs.GZip(1),
    "zlib": numcodecs.Zlib(1),
    "bz2": numcodecs.BZ2(1),
    "zstd": numcodecs.Zstd(3),
    "lz4": numcodecs.LZ4(),
    "blosc-lz4": numcodecs.Blosc("lz4", 5, numcodecs.Blosc.BITSHUFFLE),
    "blosc-zstd": numcodecs.Blosc("zstd", 3, numcodecs.Blosc.SHUFFLE),
    "blosc-zlib": numcodecs.Blosc("zlib", 3, numcodecs.Blosc.NOSHUFFLE),
}


def write_arrays(arrays, path):
    store = zarr.DirectoryStoreV3(path)
    zarr.open_group(store, mode="w", zarr_version=3).attrs["instrument"] = "draft"
    for array in arrays:
        data = np.load(array["pixels"])
        more = {}
        if per_shard := array.get("chunks_per_shard"):
            more["storage_transformers"] = [ShardingStorageTransformer("indexed", chunks_per_shard=tuple(per_shard))]
        out = zarr.create(
            data.shape,
            chunks=tuple(array["chunks"]),
            dtype=array.get("dtype", data.dtype),
            compressor=CODECS[array.get("codec", "none")],
            dimension_separator=array.get("separator", "/"),
            fill_value=array.get("fill_value", 0),
            store=store,
            path=array["name"],
            zarr_version=3,
            **more,
        )
        for part in array.get("parts", [[[0, length] for length in data.shape]]):
            box = tuple(slice(*bounds) for bounds in part)
            out[box] = data[box]


def read(path, version, paths, to):
    store = zarr.DirectoryStoreV3(path) if version == 3 else zarr.DirectoryStore(path)
    found = []
    for number, name in enumerate(paths):
        array = zarr.open_array(store, mode="r", path=name, zarr_version=version)
        if array.fill_value is None:
            # Of what nobody wrote, it would make anything.
            array._fill_value = 0
        np.save(f"{to}/{number}.npy", array[...])
        found.append(dict(array.attrs))
    return found


def answer(request):
    if "write" in request:
        return write(request["write"], request["path"])
    if "arrays" in request:
        return write_arrays(request["arrays"], request["path"])
    return read(request["read"], request["version"], request["paths"], request["to"])


if __name__ == "__main__":
    serve(answer)
