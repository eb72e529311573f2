"""Writes and reads arrays of the Zarr v3 draft of 2022; run by an interpreter that has zarr-python 2.18.

zarr2_draft.py write DATASET ARRAYS.json    each with name, pixels (.npy), chunks, and perhaps chunks_per_shard, codec,
                                            separator, parts (boxes that are written, the rest stays empty)
zarr2_draft.py read DATASET NAME OUT.npy
zarr2_draft.py read-v2 DATASET NAME OUT.npy                 of a group of Zarr v2
"""

import json
import os
import sys
import warnings

os.environ |= {"ZARR_V3_EXPERIMENTAL_API": "1", "ZARR_V3_SHARDING": "1"}
warnings.simplefilter("ignore")

import numcodecs  # noqa: E402
import numpy as np  # noqa: E402
import zarr  # noqa: E402
from zarr._storage.v3_storage_transformers import ShardingStorageTransformer  # noqa: E402

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


def write(dataset, arrays):
    store = zarr.DirectoryStoreV3(dataset)
    zarr.open_group(store, mode="w", zarr_version=3).attrs["instrument"] = "draft"
    for array in arrays:
        pixels = np.load(array["pixels"])
        options = {}
        if per_shard := array.get("chunks_per_shard"):
            options["storage_transformers"] = [ShardingStorageTransformer("indexed", chunks_per_shard=tuple(per_shard))]
        out = zarr.create(
            pixels.shape,
            chunks=tuple(array["chunks"]),
            dtype=array.get("dtype", pixels.dtype),
            compressor=CODECS[array.get("codec", "none")],
            dimension_separator=array.get("separator", "/"),
            fill_value=array.get("fill_value", 0),
            store=store,
            path=array["name"],
            zarr_version=3,
            **options,
        )
        for part in array.get("parts", [[[0, length] for length in pixels.shape]]):
            where = tuple(slice(*bounds) for bounds in part)
            out[where] = pixels[where]


def read(dataset, name, out):
    store = zarr.DirectoryStoreV3(dataset)
    np.save(out, zarr.open_array(store, path=name, mode="r", zarr_version=3)[...])


def read_v2(dataset, name, out):
    array = zarr.open_group(dataset, mode="r")[name]
    assert array.attrs["_ARRAY_DIMENSIONS"], "xarray finds the dimensions by these"
    np.save(out, array[...])


if __name__ == "__main__":
    if sys.argv[1] == "write":
        with open(sys.argv[3]) as file:
            write(sys.argv[2], json.load(file))
    elif sys.argv[1] == "read-v2":
        read_v2(*sys.argv[2:])
    else:
        read(*sys.argv[2:])
