"""Reads a dataset with programs that this project did not write: by name, each array's pixels and all attributes."""

import base64
import itertools
import json
import pathlib
import tempfile
import warnings

import fsspec
import numcodecs
import numpy as np
import tensorstore
import zarr
from cloudvolume import CloudVolume

CONTEXT = tensorstore.Context({"cache_pool": {"total_bytes_limit": 0}})
MISSING = 2**64 - 1


def format_of(path):
    """2, 3, "draft", "prototype" or "volume"."""
    if (path / "info").exists():
        return "volume"
    if (path / "zarr.json").exists():
        return "draft" if "metadata_encoding" in (path / "zarr.json").read_text() else 3
    if (path / ".zarray").exists() and "shard_format" in (path / ".zarray").read_text():
        return "prototype"
    return 2


def is_consolidated(path):
    if (path / ".zmetadata").exists():
        return True
    document = path / "zarr.json"
    return document.exists() and "consolidated_metadata" in json.loads(document.read_text())


def read(path, servers):
    """What each reader that can read it says: {reader: (arrays, attributes)}, and what stopped those that could not."""
    kind, found, failed = format_of(path), {}, {}
    for name, reader in READERS[kind].items():
        if name.endswith("consolidated") and not is_consolidated(path):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = reader(path, servers)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"[:600]
    return found, failed


def text(attributes):
    """Attributes with their order, and numbers as they are spelled: 1 is not 1.0."""
    return json.dumps(attributes)


# zarr-python 3


def zarr_tree(consolidated):
    def reader(path, _):
        version = 3 if (path / "zarr.json").exists() else 2
        try:
            root = zarr.open_group(path, mode="r", zarr_format=version, use_consolidated=consolidated)
        except (zarr.errors.ContainsArrayError, zarr.errors.NodeTypeValidationError, FileNotFoundError):
            root = zarr.open_array(path, mode="r", zarr_format=version)
        return walk(root)

    return reader


def walk(root):
    nodes = [("", root)]
    if isinstance(root, zarr.Group):
        nodes += [(name, node) for name, node in sorted(root.members(max_depth=None))]
    arrays = {name: pixels_of(node) for name, node in nodes if isinstance(node, zarr.Array)}
    attributes = {name: text(dict(node.attrs)) for name, node in nodes}
    for name, node in nodes:
        if isinstance(node, zarr.Array) and getattr(node.metadata, "dimension_names", None):
            attributes[name + " names"] = text(node.metadata.dimension_names)
    return arrays, attributes


def pixels_of(array):
    """Of raw bits that nobody wrote, zarr-python gives one element for all."""
    pixels = np.asarray(array[...])
    return pixels if pixels.shape == array.shape else np.broadcast_to(pixels, array.shape)


# What documents say, without any library


def documents(path):
    """Every array's name and every attribute, from the files alone."""
    names, attributes = [], {}
    for file in sorted(path.rglob("*")):
        where = file.parent.relative_to(path).as_posix()
        name = "" if where == "." else where
        if file.name == "zarr.json":
            document = json.loads(file.read_text())
            attributes[name] = text(document.get("attributes", {}))
            if document["node_type"] == "array":
                names.append(name)
                if document.get("dimension_names"):
                    attributes[name + " names"] = text(document["dimension_names"])
        elif file.name in (".zarray", ".zgroup"):
            beside = file.parent / ".zattrs"
            attributes[name] = text(json.loads(beside.read_text()) if beside.exists() else {})
            names += [name] if file.name == ".zarray" else []
    return names, attributes


# tensorstore, which knows no groups


def tensorstore_tree(path, _):
    names, attributes = documents(path)
    driver = "zarr3" if (path / "zarr.json").exists() else "zarr"
    arrays, stopped = {}, None
    for name in names:
        try:
            pixels = open_tensorstore(driver, path / name).read().result()
            if pixels.dtype.itemsize == 0:
                raise NotImplementedError("tensorstore 0.1 gives raw bits as elements of no size")
            arrays[name] = pixels
        except Exception as error:
            stopped = error
    if not arrays and stopped:
        raise stopped
    return arrays, attributes


def open_tensorstore(driver, path):
    if driver == "zarr3" and json.loads((path / "zarr.json").read_text())["data_type"] in ("r24", "r32"):
        raise NotImplementedError("tensorstore 0.1 ends the process at names of dimensions beside raw bits")
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": f"{path}/"}}
    return tensorstore.open(spec, context=CONTEXT, open=True, read=True).result()


# zarr-python 2.18


def zarr2_tree(version):
    def reader(path, servers):
        if version == 3:
            files = sorted((path / "meta/root").rglob("*.array.json"))
            names = [file.relative_to(path / "meta/root").as_posix().removesuffix(".array.json") for file in files]
        else:
            names, attributes = documents(path)
        with tempfile.TemporaryDirectory() as folder:
            found = servers["zarr2"].ask(read=str(path), version=version, paths=names, to=folder)
            arrays = {name: np.load(f"{folder}/{number}.npy") for number, name in enumerate(names)}
        if version == 3:
            attributes = {name: text(of) for name, of in zip(names, found)}
            groups = sorted((path / "meta").rglob("*.group.json"))
            for file in groups:
                name = file.relative_to(path / "meta").as_posix().removesuffix(".group.json").removeprefix("root")
                attributes[name.strip("/")] = text(json.loads(file.read_text())["attributes"])
        else:
            attributes |= {name: text(of) for name, of in zip(names, found)}
        return arrays, attributes

    return reader


# The prototype, by its description alone


def prototype(path, _):
    document = json.loads((path / ".zarray").read_text())
    codec = numcodecs.get_codec(document["compressor"]) if document["compressor"] else None
    out = np.full(document["shape"], fill2(document), document["dtype"])
    shard = [chunks * count for chunks, count in zip(document["chunks"], document["shards"])]
    for at in itertools.product(*(range(-(-size // step)) for size, step in zip(out.shape, shard))):
        data = (path / document["dimension_separator"].join(map(str, at))).read_bytes()
        index = np.frombuffer(data[-16 * int(np.prod(document["shards"])) :], "<u8").reshape(*document["shards"], 2)
        for inner in np.ndindex(*document["shards"]):
            offset, nbytes = map(int, index[inner])
            start = [a * s + i * c for a, s, i, c in zip(at, shard, inner, document["chunks"])]
            where = tuple(slice(s, min(s + c, size)) for s, c, size in zip(start, document["chunks"], out.shape))
            if (offset, nbytes) != (MISSING, MISSING) and all(part.start < part.stop for part in where):
                raw = data[offset : offset + nbytes]
                chunk = np.frombuffer(codec.decode(raw) if codec else raw, out.dtype).reshape(document["chunks"])
                out[where] = chunk[tuple(slice(part.stop - part.start) for part in where)]
    return {"": out}, {"": text(json.loads((path / ".zattrs").read_text()))}


def fill2(document):
    """The fill value of Zarr v2: raw bytes in base64, complex numbers in two parts, and of null nothing but zeros."""
    value, dtype = document["fill_value"], np.dtype(document["dtype"])
    if value is None:
        return np.zeros((), dtype)
    if dtype.kind == "V":
        return np.frombuffer(base64.b64decode(value), dtype)[0]
    return complex(*map(float, value)) if isinstance(value, list) else value


# Volumes: slowest first, as the command line shows them


def volume_by_tensorstore(path, _):
    info = json.loads((path / "info").read_text())
    arrays = {}
    for number, scale in enumerate(info["scales"]):
        kvstore = {"driver": "file", "path": f"{path}/"}
        spec = {"driver": "neuroglancer_precomputed", "kvstore": kvstore, "scale_index": number}
        volume = tensorstore.open(spec, context=CONTEXT, open=True).result().read().result()
        arrays[scale["key"]] = as_shown(volume, info)
    return arrays, volume_attributes(info)


def volume_by_cloud_volume(path, _):
    info = json.loads((path / "info").read_text())
    arrays = {}
    for number, scale in enumerate(info["scales"]):
        volume = CloudVolume(f"file://{path}", mip=number, fill_missing=True, progress=False)
        arrays[scale["key"]] = as_shown(np.asarray(volume[:, :, :]), info)
    return arrays, volume_attributes(info)


def as_shown(volume, info):
    """Channels, which a volume has first, stand where they did before it was made."""
    if volume.shape[3] == 1:
        return volume.T[0]
    own = info.get("shardwright", {})
    names = own.get("dimensions", [])
    place = names.index(own["channel_dimension"]) if own.get("channel_dimension") in names else 0
    return np.moveaxis(volume.T, 0, place)


def volume_attributes(info):
    """Everything but how the chunks lie."""
    kept = {key: value for key, value in info.items() if key not in ("scales", "@type", "shardwright")}
    places = [[scale["resolution"], scale.get("voxel_offset", [0, 0, 0])] for scale in info["scales"]]
    return {"": text(kept), " places": text(places)}


def references(file, wanted):
    """The arrays of a kerchunk file that are wanted, through fsspec and zarr-python, and what stopped it at others."""
    files = fsspec.filesystem("reference", fo=str(file), asynchronous=True, remote_options={"asynchronous": True})
    store = zarr.storage.FsspecStore(files)
    arrays, failed = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # By name: a listing of references has no groups within groups.
        for name in wanted:
            try:
                arrays[name] = np.asarray(zarr.open_array(store, path=name, mode="r")[...])
            except ValueError as error:
                failed[name] = str(error)
    return arrays, failed


def limit(reader, path, said):
    """What a reader can't do with a dataset that is as the specification has it; None if there is nothing."""
    documents = [json.loads(file.read_text()) for file in path.rglob("*") if file.name in ("zarr.json", ".zarray")]
    for why, readers, of_document, sentence in LIMITS:
        if reader.startswith(readers) and sentence in said and any(map(of_document, documents)):
            return why
    return None


def has_repeated_names(document):
    names = [name for name in document.get("dimension_names") or [] if name]
    return len(names) != len(set(names))


def has_lz4(document):
    return (document.get("compressor") or {}).get("id") == "lz4"


def is_beyond_json(document):
    """Infinities, and integers of more than 64 bits."""
    said = json.dumps(document.get("attributes"))
    return any(word in said for word in ("Infinity", "NaN", str(2**70 + 1), str(-(2**65))))


def is_raw(document):
    kind = document.get("data_type", document.get("dtype", ""))
    return (kind["name"] if isinstance(kind, dict) else str(kind)).startswith(("r", "|V"))


def has_shards_behind_transpose(document):
    names = [codec["name"] for codec in document.get("codecs", [])]
    return "transpose" in names and "sharding_indexed" in names


LIMITS = [
    ("tensorstore has no codecs of numcodecs", "tensorstore", lambda of: "numcodecs." in json.dumps(of), ""),
    ("tensorstore has no lz4 of numcodecs", "tensorstore", has_lz4, ""),
    ("tensorstore wants names that differ", "tensorstore", has_repeated_names, ""),
    ("tensorstore's JSON has 64-bit integers and no infinities", "tensorstore", is_beyond_json, ""),
    ("tensorstore 0.1 ends the process at names beside raw bits", "tensorstore", is_raw, ""),
    ("zarr-python has other words for raw bits", "zarr-python", is_raw, "No Zarr data type found that matches"),
    ("zarr-python compares chunks with shards in the order of the array", "zarr-python", has_shards_behind_transpose,
     "needs to be divisible by the shard's inner `chunk_shape`"),
    ("zarr-python's shards want a fill value with a hash", "zarr-python", is_raw, "unhashable type"),
]


READERS = {
    3: {"zarr-python": zarr_tree(False), "zarr-python consolidated": zarr_tree(True), "tensorstore": tensorstore_tree},
    2: {
        "zarr-python": zarr_tree(False),
        "zarr-python consolidated": zarr_tree(True),
        "tensorstore": tensorstore_tree,
        "zarr-python 2.18": zarr2_tree(2),
    },
    "draft": {"zarr-python 2.18": zarr2_tree(3)},
    "prototype": {"its description": prototype},
    "volume": {"tensorstore": volume_by_tensorstore, "cloud-volume": volume_by_cloud_volume},
}
