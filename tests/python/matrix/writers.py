"""Writes the dataset of a cell with the cell's writer."""

import json
import pathlib
import subprocess
import warnings

import numcodecs
import numpy as np
import tensorstore
import zarr
import zarr.codecs
import zarr.codecs.numcodecs
from cloudvolume import CloudVolume
from cloudvolume.datasource.precomputed.sharding import ShardingSpecification
from cloudvolume.datasource.precomputed.common import compressed_morton_code

from .pixels import boxes, dtype_of, fill_value, pixels

HERE = pathlib.Path(__file__).parent


class Server:
    """A program that answers requests, one a line."""

    def __init__(self, interpreter, program):
        self.process = subprocess.Popen(
            [str(interpreter), str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["answer"]


def write(cell, path, servers):
    """`servers` are those of the interpreters with zarr-python 2.18 and with the writers of OME-Zarr."""
    writer = cell["writer"]
    if writer in ("zarr2", "draft"):
        servers["zarr2"].ask(write=cell, path=str(path))
    elif writer in ("ome-zarr", "ngff-zarr"):
        servers["ome"].ask(write=cell, path=str(path))
    elif writer in VOLUMES:
        VOLUMES[writer](cell, path)
    else:
        write_tree(cell, path)
    if "ome" in cell:
        add_ome(cell, path)
    if cell.get("consolidated") and writer != "zarr2":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(path, zarr_format=3 if (path / "zarr.json").exists() else 2)


def data_of(cell, array, number=0):
    return pixels(array["pixels"], array["dtype"], array["shape"], [cell["seed"], cell["number"], number])


def write_tree(cell, path):
    version = 3 if cell["writer"] in ("zarr-python", "tensorstore-zarr3") else 2
    for group, attributes in cell["groups"].items():
        zarr.open_group(path / group, mode="w", zarr_format=version, attributes=attributes)
    for number, array in enumerate(cell["arrays"]):
        out = ARRAYS[cell["writer"]](array, path)
        data = data_of(cell, array, number)
        for box in boxes(array["parts"]):
            out[box] = data[box]


def add_ome(cell, path):
    """What OME-Zarr says of the first array, after what is there."""
    array, ome = cell["arrays"][0], cell["ome"]
    kinds = {"t": "time", "c": "channel"}
    axes = [{"name": name, "type": kinds.get(name, "space")} for name in ome["axes"]]
    scale = [{"type": "scale", "scale": [0.5 + at for at in range(len(axes))]}]
    datasets = [{"path": array["path"], "coordinateTransformations": scale}]
    multiscales = [{"name": "été", "axes": axes, "datasets": datasets}]
    if ome["version"] == "0.5":
        document = json.loads((path / "zarr.json").read_text())
        document.setdefault("attributes", {})["ome"] = {"version": "0.5", "multiscales": multiscales}
        (path / "zarr.json").write_text(json.dumps(document))
    else:
        attributes = json.loads((path / ".zattrs").read_text()) if (path / ".zattrs").exists() else {}
        attributes["multiscales"] = [{"version": "0.4", **multiscales[0]}]
        (path / ".zattrs").write_text(json.dumps(attributes))
        if (path / ".zmetadata").exists():
            # It has been made by the other interpreter.
            said = json.loads((path / ".zmetadata").read_text())
            said["metadata"][".zattrs"] = attributes
            (path / ".zmetadata").write_text(json.dumps(said))


# Zarr v3


def codec3(codec, dtype):
    kind, level = codec["kind"], codec["level"]
    if kind == "none":
        out = []
    elif kind == "gzip":
        out = [{"name": "gzip", "configuration": {"level": level}}]
    elif kind == "zstd":
        out = [{"name": "zstd", "configuration": {"level": level, "checksum": codec["checksum"]}}]
    elif kind == "blosc":
        settings = {"cname": codec["cname"], "clevel": level, "shuffle": codec["shuffle"], "blocksize": 0}
        if codec["shuffle"] != "noshuffle":
            settings["typesize"] = dtype.itemsize
        out = [{"name": "blosc", "configuration": settings}]
    else:
        settings = {"level": level}
        if kind == "numcodecs.shuffle":
            settings = {"elementsize": dtype.itemsize}
        if kind == "numcodecs.blosc":
            settings = {"cname": codec["cname"], "clevel": level, "shuffle": 2, "blocksize": 0}
        elif kind in ("numcodecs.lzma", "numcodecs.crc32", "numcodecs.adler32", "numcodecs.fletcher32"):
            settings = {}
        elif kind == "numcodecs.lz4":
            settings = {"acceleration": level}
        out = [{"name": kind, "configuration": settings}]
    return out + ([{"name": "crc32c"}] if codec["crc"] else [])


def chain(array, dtype):
    """The codecs of the document, whole: array to bytes in shards in shards, if need be."""
    transpose = [{"name": "transpose", "configuration": {"order": array["transpose"]}}] if array["transpose"] else []
    raw = {"name": "bytes", "configuration": {"endian": array["endian"]}} if dtype.itemsize > 1 else {"name": "bytes"}
    codecs = [*transpose, raw, *codec3(array["codecs"], dtype)]
    if not array["shard"]:
        return codecs
    index = array["index"]
    crc = [{"name": "crc32c"}] if index["crc"] else []
    for inner in [array["chunk"]] + ([array["shard"]] if array.get("outer") else []):
        settings = {
            "chunk_shape": inner,
            "codecs": codecs,
            "index_codecs": [{"name": "bytes", "configuration": {"endian": index["endian"]}}, *crc],
            "index_location": index["location"],
        }
        codecs = [{"name": "sharding_indexed", "configuration": settings}]
    if around := array.get("around"):
        # Shards have the same length in all dimensions of those that change places, or readers would not agree.
        last = list(range(len(array["shape"])))
        before = {"transpose": [{"name": "transpose", "configuration": {"order": last[::-1]}}]}.get(around, [])
        after = {"crc32c": [{"name": "crc32c"}], "gzip": [{"name": "gzip", "configuration": {"level": 1}}]}
        codecs = [*before, *codecs, *after.get(around, [])]
    return codecs


def document3(array):
    """As the specification has it; each program then writes what it makes of that."""
    dtype = dtype_of(array["dtype"])
    grid = array.get("outer") or array["shard"] or array["chunk"]
    if array.get("around") == "transpose":
        grid = grid[::-1]
    out = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": array["shape"],
        "data_type": name3(dtype),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": grid}},
        "chunk_key_encoding": {"name": array["keys"], "configuration": {"separator": array["separator"]}},
        "fill_value": fill3(array, dtype),
        "codecs": chain(array, dtype),
        "attributes": array["attributes"],
    }
    return out | ({"dimension_names": array["names"]} if array["names"] else {})


def name3(dtype):
    if dtype.kind == "V":
        return "struct" if dtype.names else f"r{8 * dtype.itemsize}"
    names = {"M": "numpy.datetime64", "m": "numpy.timedelta64", "S": "null_terminated_bytes", "U": "fixed_length_utf32"}
    return names.get(dtype.kind, dtype.newbyteorder("=").name)


def fill3(array, dtype):
    value = fill_value(array["fill"], array["dtype"])
    return zarr.dtype.parse_dtype(dtype, zarr_format=3).to_json_scalar(value, zarr_format=3)


def zarr_python(array, path):
    """Through the arguments of zarr-python, as people call it; what these can't say goes by a document."""
    dtype = dtype_of(array["dtype"]).newbyteorder("<" if array["endian"] == "little" else ">")
    if array.get("around") or dtype.kind in "MmSUV" or array["dtype"][0] == ">":
        if dtype.kind not in "MmSUV":
            return by_document(array, path)
    common = {"store": path, "name": array["path"] or None, "shape": tuple(array["shape"]), "dtype": dtype}
    common |= {"fill_value": fill_value(array["fill"], array["dtype"]), "attributes": array["attributes"]}
    common |= {"dimension_names": array["names"], "zarr_format": 3}
    common["chunk_key_encoding"] = {"name": array["keys"], "separator": array["separator"]}
    grid = tuple(array.get("outer") or array["shard"] or array["chunk"])
    document = chain(array, dtype)
    codecs = [zarr.registry.get_codec_class(codec["name"]).from_dict(codec) for codec in document]
    if array["shard"]:
        return zarr.create_array(chunks=grid, serializer=codecs[0], compressors=None, filters=None, **common)
    at = 1 if array["transpose"] else 0
    serializer = "auto" if dtype.kind in "MmSUV" or dtype.itemsize == 1 else codecs[at]
    return zarr.create_array(
        chunks=grid, filters=codecs[:at], serializer=serializer, compressors=codecs[at + 1 :], **common
    )


def by_document(array, path):
    where = path / array["path"]
    where.mkdir(parents=True, exist_ok=True)
    (where / "zarr.json").write_text(json.dumps(document3(array)))
    return zarr.open_array(where, mode="r+", zarr_format=3)


def tensorstore3(array, path):
    where, metadata = path / array["path"], document3(array)
    attributes = metadata.pop("attributes")
    out = Transacted({"driver": "zarr3", "metadata": metadata}, where)
    # It has no integers of more than 64 bits, and no infinities.
    document = json.loads((where / "zarr.json").read_text())
    (where / "zarr.json").write_text(json.dumps(document | {"attributes": attributes}))
    return out


# Zarr v2


def codec2(codec):
    kind, level = codec["kind"], codec["level"]
    if kind == "blosc":
        shuffle = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}[codec["shuffle"]]
        return {"id": "blosc", "cname": codec["cname"], "clevel": level, "shuffle": shuffle, "blocksize": 0}
    if kind == "lz4":
        return {"id": "lz4", "acceleration": level}
    return {"none": None, "lzma": {"id": "lzma"}}.get(kind, {"id": kind, "level": level})


def zarr_python2(array, path):
    dtype = dtype_of(array["dtype"])
    delta = [numcodecs.Delta(dtype)] if dtype.kind in "iu" else None
    filters = {"delta": delta, "shuffle": [numcodecs.Shuffle(dtype.itemsize)], "crc32": [numcodecs.CRC32()]}
    out = zarr.create_array(
        store=path,
        name=array["path"] or None,
        shape=tuple(array["shape"]),
        chunks=tuple(array["chunk"]),
        dtype=dtype,
        fill_value=None if array.get("null_fill") else fill_value(array["fill"], array["dtype"]),
        compressors=numcodecs.get_codec(config) if (config := codec2(array["codecs"])) else None,
        filters=filters.get(array["filters"]),
        order=array["order"],
        attributes=array["attributes"] | ({"_ARRAY_DIMENSIONS": array["names"]} if array["names"] else {}),
        chunk_key_encoding={"name": "v2", "separator": array["separator"]},
        zarr_format=2,
    )
    return out


def tensorstore2(array, path):
    dtype = dtype_of(array["dtype"])
    value = fill_value(array["fill"], array["dtype"])
    fill = zarr.dtype.parse_dtype(dtype, zarr_format=2).to_json_scalar(value, zarr_format=2)
    metadata = {
        "zarr_format": 2,
        "shape": array["shape"],
        "chunks": array["chunk"],
        "dtype": [list(field) for field in dtype.descr] if dtype.names else dtype.str,
        "fill_value": None if array.get("null_fill") or dtype.names else fill,
        "compressor": codec2(array["codecs"]),
        "filters": None,
        "order": array["order"],
        "dimension_separator": array["separator"],
    }
    where = path / array["path"]
    out = Transacted({"driver": "zarr", "metadata": metadata}, where)
    attributes = array["attributes"] | ({"_ARRAY_DIMENSIONS": array["names"]} if array["names"] else {})
    if attributes:
        (where / ".zattrs").write_text(json.dumps(attributes))
    return out


class Transacted:
    """A tensorstore whose writes come to the files chunk by chunk, as it does by default."""

    def __init__(self, spec, path):
        spec = {**spec, "kvstore": {"driver": "file", "path": f"{path}/"}, "create": True}
        self.store = tensorstore.open(spec).result()

    def __setitem__(self, box, data):
        self.store[box].write(data.astype(self.store.dtype.numpy_dtype, copy=False)).result()


# Volumes


def volume_by_tensorstore(cell, path):
    scale = {"key": "s0", "size": cell["shape"][:3], "chunk_size": cell["chunk"], "resolution": cell["resolution"]}
    scale |= {"voxel_offset": cell["offset"], "sharding": cell["sharding"], "encoding": cell["encoding"]}
    if cell["encoding"] == "compressed_segmentation":
        scale["compressed_segmentation_block_size"] = [8, 8, 8]
    multiscale = {"data_type": cell["dtype"], "num_channels": cell["shape"][3], "type": cell["type"]}
    kvstore = {"driver": "file", "path": f"{path}/"}
    spec = {"driver": "neuroglancer_precomputed", "kvstore": kvstore, "scale_metadata": scale}
    out = tensorstore.open({**spec, "multiscale_metadata": multiscale}, create=True).result()
    data = data_of(cell, cell)
    with tensorstore.Transaction() as transaction:
        for box in boxes(cell["parts"]):
            out[tensorstore.d[:].translate_to[0]].with_transaction(transaction)[box] = data[box]
    if cell["mine"]:
        info = json.loads((path / "info").read_text())
        (path / "info").write_text(json.dumps(info | {"mine": cell["mine"]}))


def volume_by_cloud_volume(cell, path):
    info = CloudVolume.create_new_info(
        num_channels=cell["shape"][3],
        layer_type=cell["type"],
        data_type=cell["dtype"],
        encoding=cell["encoding"],
        resolution=cell["resolution"],
        voxel_offset=cell["offset"],
        volume_size=cell["shape"][:3],
        chunk_size=cell["chunk"],
    )
    if cell["mine"]:
        info["mine"] = cell["mine"]
    sharded, data = cell["sharding"], data_of(cell, cell)
    out = CloudVolume(f"precomputed://file://{path}", info=info, compress=cell["compress"], progress=False)
    if not sharded:
        out.commit_info()
        out[...] = data
        return
    out.scale["sharding"] = sharded
    out.commit_info()
    grid = [-(-length // size) for length, size in zip(cell["shape"], cell["chunk"])]
    places = list(np.ndindex(*grid))
    codes = compressed_morton_code(np.array(places), np.array(grid))
    chunks = {}
    for at, code in zip(places, codes):
        part = data[tuple(slice(i * size, (i + 1) * size) for i, size in zip(at, cell["chunk"]))]
        chunks[int(code)] = part.tobytes("F")
    folder = path / out.scale["key"]
    folder.mkdir(parents=True)
    for name, shard in ShardingSpecification.from_dict(sharded).synthesize_shards(chunks).items():
        (folder / name).write_bytes(shard)


ARRAYS = {
    "zarr-python": zarr_python,
    "tensorstore-zarr3": tensorstore3,
    "zarr-python-v2": zarr_python2,
    "tensorstore-zarr2": tensorstore2,
}
VOLUMES = {"tensorstore-volume": volume_by_tensorstore, "cloud-volume": volume_by_cloud_volume}
