"""Element types, orders of dimensions and shards of other writers that this one never makes: read bit for bit, checked,
exported and repacked; and what is not read, refused with a sentence that says what it is."""

import itertools
import json

import numpy as np
import pytest
import tensorstore
import tifffile
import zarr

from readers import assert_reads, assert_same, open_tensorstore, open_zarr_python, read_zarr2

pytestmark = pytest.mark.filterwarnings("ignore")

TYPES = ["bool", "float16", "complex64", "complex128", "V1", "V3"]
SHAPE = (7, 11, 13)


@pytest.fixture
def exported(tool, tmp_path):
    def run(dataset, *options):
        tool("export", dataset, tmp_path / "out.npy", "--overwrite", "-q", *options)
        return np.load(tmp_path / "out.npy")

    return run


def pixels(dtype, shape=SHAPE, seed=0):
    """Any bits, so NaNs of all kinds, infinities and negative zeros among them; of booleans, both."""
    dtype = np.dtype(dtype)
    random = np.random.default_rng(seed)
    if dtype == bool:
        return random.integers(0, 2, shape).astype(bool)
    return np.frombuffer(random.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape).copy()


def shards(codecs, chunk, endian="little", checksum=True, location="end"):
    index = [{"name": "bytes", "configuration": {"endian": endian}}] + [{"name": "crc32c"}] * checksum
    configuration = {"chunk_shape": chunk, "codecs": codecs, "index_codecs": index, "index_location": location}
    return {"name": "sharding_indexed", "configuration": configuration}


def transpose(*order):
    return {"name": "transpose", "configuration": {"order": order}}


def elements(endian="little"):
    return {"name": "bytes", "configuration": {"endian": endian}}


def by_tensorstore(path, data, file_shape, codecs, **more):
    document = {
        "shape": data.shape,
        "data_type": str(data.dtype),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": file_shape}},
        "codecs": codecs,
        **more,
    }
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}, "metadata": document}
    tensorstore.open(spec, create=True).result()[...].write(data).result()


def assert_read(exported, tool, path, data):
    assert_same(exported(path), data, f"{path}, as a whole:")
    region = tuple(slice(1, size - 2) for size in data.shape)
    words = ",".join(f"{part.start}:{part.stop}" for part in region)
    assert_same(exported(path, "--region", words), data[region], f"{path}, a part:")
    verified = json.loads(tool("verify", path, "--json"))
    assert verified["damage"] == verified["unchecked"] == 0
    described = json.loads(tool("info", path, "--json"))
    assert not described["unreadable"] and not described["arrays"][0]["damaged"]


def assert_written(exported, path, data):
    """By ourselves and by another library; of raw bytes, whose names differ, by ourselves alone."""
    assert_same(exported(path), data, f"{path}:")
    if data.dtype.kind != "V":
        assert_reads(open_tensorstore(path), data, path.name)
        assert_reads(open_zarr_python(path), data, path.name)


# zarr-python 3.1 writes no raw bytes into shards.
FORMS = [(dtype, form) for dtype in TYPES for form in ["files", "v2", "v2-big"]]
FORMS += [(dtype, "shards") for dtype in TYPES if dtype[0] != "V"]


@pytest.mark.parametrize("dtype, form", FORMS)
def test_element_types_of_zarr_python(tool, exported, tmp_path, dtype, form):
    data, path = pixels(dtype), tmp_path / "a.zarr"
    options = {
        "shards": {"shards": (4, 8, 8)},
        "files": {"serializer": zarr.codecs.BytesCodec(endian="big")},
        "v2": {"zarr_format": 2},
        "v2-big": {"zarr_format": 2, "dtype": data.dtype.newbyteorder(">")},
    }[form]
    if data.dtype.itemsize == 1 or data.dtype.kind == "V":
        options.pop("serializer", None)
    options = {"dtype": data.dtype} | options
    zarr.create_array(path, shape=data.shape, chunks=(2, 4, 4), **options)[...] = data
    assert_read(exported, tool, path, data)
    tool("repack", path, tmp_path / "z.zarr", "--shard", "4,8,16", "--codec", "zstd")
    assert_written(exported, tmp_path / "z.zarr", data)
    tool("repack", path, tmp_path / "b.zarr", "--chunk", "2,4,8", "--shard", "4,8,16", "--codec", "blosc-lz4")
    assert_written(exported, tmp_path / "b.zarr", data)
    tool("repack", path, tmp_path / "kept.zarr", "--shard", "4,8,8")
    assert_written(exported, tmp_path / "kept.zarr", data)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("dialect", ["zarr2", "zarr2-sharded", "zarr3-transformer", "precomputed"])
def test_dialects_hold_element_types_or_refuse_them(tool, exported, tmp_path, dtype, dialect):
    data, path, out = pixels(dtype), tmp_path / "a.zarr", tmp_path / "out"
    zarr.create_array(path, shape=data.shape, chunks=(2, 4, 4), dtype=data.dtype)[...] = data
    words = ["repack", path, out, "--dialect", dialect, "--codec", "gzip"]
    words += ["--shard", "4,8,8"] if dialect != "zarr2" else []
    if dialect == "precomputed" or (dialect == "zarr3-transformer" and data.dtype.kind == "V"):
        refused = tool(*words, code=2)
        assert f"{path}: its elements are" in refused and f"which {dialect} can't hold; zarr3" in refused
        assert not out.exists()
        return
    tool(*words)
    image = "" if dialect == "zarr2-sharded" else "0"
    assert_same(exported(out / image), data)
    assert json.loads(tool("verify", out, "--json"))["damage"] == 0
    if dialect == "zarr2":
        assert_same(zarr.open_array(out / "0", mode="r", zarr_format=2)[...], data)
    if dialect == "zarr3-transformer":
        assert_same(read_zarr2(out, "0", tmp_path, version=3)[0], data)
    tool("repack", out, tmp_path / "back.zarr", "--shard", "4,8,8", "--codec", "none")
    back = tmp_path / "back.zarr" / ("" if dialect == "zarr2-sharded" else "0")
    assert_written(exported, back, data)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("where", ["files", "inside", "outside", "both"])
def test_transposed_chunks_and_shards(tool, exported, tmp_path, order, where):
    data, path = pixels("u2"), tmp_path / "a.zarr"
    turned = [(2, 4, 8)[dim] for dim in order]
    inside = [transpose(1, 2, 0), transpose(*order), elements("big"), {"name": "crc32c"}]
    codecs = {
        "files": [transpose(*order), elements(), {"name": "gzip", "configuration": {"level": 1}}],
        "inside": [shards(inside, [2, 4, 8])],
        "outside": [transpose(*order), shards([elements()], turned)],
        "both": [transpose(*order), shards(inside, turned, "big", location="start")],
    }[where]
    by_tensorstore(path, data, [4, 8, 16], codecs)
    assert_read(exported, tool, path, data)
    # Chunks that are copied as they are, chunks that are encoded again, and chunks that are cut otherwise.
    for out, options in [
        ("same.zarr", ["--shard", "4,8,16"]),
        ("copied.zarr", ["--shard", "4,16,16"]),
        ("recoded.zarr", ["--shard", "4,8,16", "--codec", "zstd"]),
        ("cut.zarr", ["--chunk", "1,4,4", "--shard", "8,8,8"]),
    ]:
        tool("repack", path, tmp_path / out, *options)
        assert_same(exported(tmp_path / out), data, f"{out}:")
        assert_reads(open_tensorstore(tmp_path / out), data, out)
        if out != "same.zarr":
            assert_reads(open_zarr_python(tmp_path / out), data, out)
        assert json.loads(tool("verify", tmp_path / out, "--json"))["damage"] == 0
    if where != "files":
        before = json.loads((path / "zarr.json").read_text())
        tool("repack", path)
        assert json.loads((path / "zarr.json").read_text()) == before
        assert_reads(open_tensorstore(path), data, "in place")
        assert_read(exported, tool, path, data)


@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("dtype", [">u2", "<c8"])
def test_zarr_v2_in_fortran_order(tool, exported, tmp_path, dtype, separator):
    data, path = pixels(dtype), tmp_path / "a.zarr"
    encoding = {"name": "v2", "separator": separator}
    options = {"zarr_format": 2, "order": "F", "chunk_key_encoding": encoding}
    zarr.create_array(path, shape=data.shape, chunks=(2, 4, 8), dtype=dtype, **options)[...] = data
    assert json.loads((path / ".zarray").read_text())["order"] == "F"
    native = data.astype(data.dtype.newbyteorder("="))
    assert_read(exported, tool, path, native)
    tool("repack", path, tmp_path / "copied.zarr", "--shard", "4,8,8")
    assert_written(exported, tmp_path / "copied.zarr", native)
    assert "transpose" in (tmp_path / "copied.zarr/zarr.json").read_text()
    refused = tool("repack", path, tmp_path / "v2", "--dialect", "zarr2", code=2)
    assert "its chunks are files already" in refused and "--unsharded takes them as they are" in refused
    assert "--shard " not in refused


@pytest.mark.parametrize("dtype", ["u2", "float16", "complex64"])
@pytest.mark.parametrize("outer", [(0, 1, 2), (2, 0, 1)])
def test_shards_within_shards(tool, exported, tmp_path, outer, dtype):
    data, path = pixels(dtype), tmp_path / "a.zarr"
    data[:3] = 0

    def turned(sizes):
        return [sizes[dim] for dim in outer]

    innermost = shards([transpose(2, 1, 0), elements("big"), {"name": "crc32c"}], turned([1, 2, 4]), "big")
    codecs = [transpose(*outer), shards([innermost], turned([2, 4, 8]), checksum=False)]
    by_tensorstore(path, data, [4, 8, 16], codecs)
    assert_read(exported, tool, path, data)
    for out, options in [
        ("copied.zarr", ["--shard", "8,8,16"]),
        ("cut.zarr", ["--chunk", "1,4,8", "--shard", "8,8,16"]),
        ("recoded.zarr", ["--shard", "4,8,16", "--codec", "zstd"]),
    ]:
        tool("repack", path, tmp_path / out, *options)
        assert_written(exported, tmp_path / out, data)
    damaged = next(file for file in (path / "c").rglob("*") if file.is_file() and file.stat().st_size > 1000)
    content = bytearray(damaged.read_bytes())
    content[50] ^= 1
    damaged.write_bytes(content)
    assert "crc32c" in tool("verify", path, code=3)


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("checksum", [True, False])
def test_indexes_with_the_highest_byte_first(tool, exported, tmp_path, checksum, location):
    data, path = pixels("u2"), tmp_path / "a.zarr"
    by_tensorstore(path, data, [4, 8, 16], [shards([elements()], [2, 4, 8], "big", checksum, location)])
    assert_read(exported, tool, path, data)
    tool("repack", path)
    tool("repack", path, tmp_path / "copy.zarr")
    for dataset in [path, tmp_path / "copy.zarr"]:
        assert '"big"' in (dataset / "zarr.json").read_text()
        assert_written(exported, dataset, data)


FILLS = [
    ("bool", True, "|b1", True),
    ("float16", -0.0, "<f2", -0.0),
    ("float16", "0x7e01", "<u2", 0x7E01),
    ("float16", "NaN", "<u2", 0x7E00),
    ("float16", "-Infinity", "<f2", -np.inf),
    ("complex64", [1.5, "Infinity"], "<c8", complex(1.5, np.inf)),
    ("complex128", [-0.0, 2.5], "<c16", complex(-0.0, 2.5)),
    ("r24", [1, 2, 255], "V3", b"\x01\x02\xff"),
    ({"name": "raw_bytes", "configuration": {"length_bytes": 3}}, "AQL/", "V3", b"\x01\x02\xff"),
]


@pytest.mark.parametrize("data_type, fill, dtype, value", FILLS, ids=str)
def test_chunks_that_are_not_there_read_as_the_fill_value(tool, exported, tmp_path, data_type, fill, dtype, value):
    expected = np.full((6, 8), np.array(value, dtype))
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [6, 8],
        "data_type": data_type,
        "fill_value": fill,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [shards([elements()], [2, 2])],
        "attributes": {},
    }
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr/zarr.json").write_text(json.dumps(document))
    assert exported(tmp_path / "a.zarr").tobytes() == expected.tobytes()
    # What becomes the fill value's chunks is left out, whatever a comparison of numbers would say of it.
    tool("repack", tmp_path / "a.zarr", tmp_path / "o.zarr", "--chunk", "4,4", "--codec", "gzip")
    assert exported(tmp_path / "o.zarr").tobytes() == expected.tobytes()
    documents = ["zarr.json", ".shardwright.repack.json"]
    assert not [file for file in (tmp_path / "o.zarr").rglob("*") if file.is_file() and file.name not in documents]
    if data_type in ["bool", "float16", "complex64", "complex128"]:
        assert_same(open_tensorstore(tmp_path / "o.zarr").read().result(), expected.view(data_type))


def test_tiff_holds_what_it_has_words_for(tool, tmp_path):
    for dtype in ["float16", "complex64"]:
        data = pixels(dtype)
        path = tmp_path / f"{dtype}.zarr"
        zarr.create_array(path, shape=data.shape, chunks=(2, 4, 4), dtype=dtype)[...] = data
        tool("export", path, tmp_path / f"{dtype}.tif", "-q")
        assert_same(tifffile.imread(tmp_path / f"{dtype}.tif"), data)
    tool("export", tmp_path / "complex64.zarr", tmp_path / "a.ome.tif", "-q")
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as file:
        assert_same(file.series[0].asarray(), pixels("complex64"))
        assert 'Type="complex"' in file.ome_metadata
    assert "no pixels of type float16" in tool("export", tmp_path / "float16.zarr", tmp_path / "b.ome.tif", code=2)
    for dtype in ["bool", "complex128", "V3"]:
        path = tmp_path / f"{dtype}.zarr"
        zarr.create_array(path, shape=SHAPE, chunks=(2, 4, 4), dtype=dtype)
        assert "npy and raw take them" in tool("export", path, tmp_path / "c.tif", code=2)
    assert not (tmp_path / "c.tif").exists() and not (tmp_path / "b.ome.tif").exists()


def test_a_camera_gives_no_complex_numbers(tool, tmp_path):
    zarr.create_array(tmp_path / "a.zarr", shape=SHAPE, chunks=(2, 4, 4), dtype="complex64")
    refused = tool("replay", tmp_path / "a.zarr", tmp_path / "o.zarr", code=5)
    assert "has elements of complex64, and a camera gives uint8," in refused
    assert not (tmp_path / "o.zarr").exists()


def numcodecs(name, **configuration):
    return {"name": f"numcodecs.{name}", "configuration": configuration}


REFUSED = {
    "data_type": ("string", "string"),
    "data_type of dates": ({"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}, "date"),
    "data_type structured": ({"name": "structured", "configuration": {"fields": [["a", "uint8"]]}}, "structured"),
    "data_type bfloat16": ("bfloat16", "bfloat16"),
    "codecs bz2": ([elements(), numcodecs("bz2", level=1)], "numcodecs.bz2"),
    "codecs lzma": ([elements(), numcodecs("lzma")], "numcodecs.lzma"),
    "codecs delta": ([numcodecs("delta", dtype="<u2"), elements()], "numcodecs.delta"),
    "codecs fixedscaleoffset": ([numcodecs("fixedscaleoffset", offset=0, scale=2), elements()], "fixedscaleoffset"),
    "codecs astype": ([numcodecs("astype", encode_dtype="<u4"), elements()], "numcodecs.astype"),
    "codecs packbits": ([numcodecs("packbits"), elements()], "numcodecs.packbits"),
    "codecs shuffle": ([elements(), numcodecs("shuffle", elementsize=2)], "numcodecs.shuffle"),
    "codecs vlen": (["vlen-utf8"], "vlen-utf8"),
    "codecs of the index": (
        [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 4], "codecs": [elements()],
          "index_codecs": [elements(), {"name": "gzip", "configuration": {"level": 1}}]}}], "index_codecs"),
    "codecs over shards": ([shards([elements()], [2, 4]), {"name": "gzip", "configuration": {"level": 1}}], "whole"),
    "chunk_grid": ({"name": "rectilinear", "configuration": {"chunk_shapes": [[4], [4, 4]]}}, "rectilinear"),
    "chunk_key_encoding": ({"name": "fanout"}, "fanout"),
    "storage_transformers": ([{"name": "unheard-of", "configuration": {}}], "unheard-of"),
    "unheard_of": ({"name": "x"}, "unheard_of"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_read_is_named_and_no_damage(tool, tmp_path, what):
    value, named = REFUSED[what]
    path = tmp_path / "g.zarr"
    group = zarr.open_group(path, mode="w")
    data = pixels("u2", (4, 8))
    for name in ["odd", "plain"]:
        group.create_array(name, data=data, chunks=(4, 4), compressors=None)
    document = json.loads((path / "odd/zarr.json").read_text())
    document[what.split()[0]] = value
    (path / "odd/zarr.json").write_text(json.dumps(document))
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    repack = ["repack", path / "odd", tmp_path / "x", "--shard", "4,8"]
    for words in [["export", path / "odd", tmp_path / "x.npy"], repack]:
        refused = tool(*words, code=5)
        assert named in refused and str(path / "odd") in refused and "panicked" not in refused, refused
    unchecked = tool("verify", path, code=5)
    assert named in unchecked and "unchecked" in unchecked
    described = json.loads(tool("info", path, "--json"))
    assert [array["path"] for array in described["arrays"]] == ["plain"]
    assert [array["path"] for array in described["unreadable"]] == ["odd"]
    assert described["unreadable"][0]["shape"] == [4, 8] and named in described["unreadable"][0]["reason"]
    assert "4 x 8" in tool("info", path) and named in tool("info", path / "odd", code=5)
    assert not (tmp_path / "x.npy").exists() and not (tmp_path / "x").exists()
    assert before == {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    "key, value",
    [
        ("filters", [{"id": "delta", "dtype": "<u2"}]),
        ("compressor", {"id": "bz2", "level": 1}),
        ("compressor", {"id": "lzma"}),
        ("dtype", "<M8[ns]"),
        ("dtype", "<U4"),
        ("dtype", [["a", "<u2"]]),
    ],
    ids=str,
)
def test_what_is_not_read_of_zarr_v2_is_named_and_no_damage(tool, tmp_path, key, value):
    zarr.create_array(tmp_path / "a.zarr", data=pixels("u2", (4, 8)), chunks=(4, 4), zarr_format=2)
    document = json.loads((tmp_path / "a.zarr/.zarray").read_text())
    document[key] = value
    (tmp_path / "a.zarr/.zarray").write_text(json.dumps(document))
    name = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    name = name.strip("[]") if key == "filters" else name
    for words, code in [(["export", tmp_path / "a.zarr", tmp_path / "x.npy"], 5), (["verify", tmp_path / "a.zarr"], 5)]:
        refused = tool(*words, code=code)
        assert name in refused and "zarr-python can write the array again" in refused, refused
    assert "not read" in tool("info", tmp_path / "a.zarr", code=5)
