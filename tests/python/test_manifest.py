"""What `shardwright manifest` writes, read through references: by zarr-python over fsspec, and by VirtualiZarr."""

import itertools
import json
import pathlib
import subprocess

import fsspec
import numpy as np
import pytest
import tensorstore
import zarr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from readers import assert_reads, assert_same
from virtualizarr.manifests import ChunkManifest
from virtualizarr.parsers import KerchunkJSONParser

CODECS = ["none", "blosc-lz4", "blosc-noise", "blosc-zstd", "blosc-zlib", "zstd", "gzip", "lz4"]
LAYOUTS = {
    "fixed": ["--placement", "fixed"],
    "packed-start": ["--placement", "packed", "--index", "start"],
}


@pytest.fixture
def manifest(command):
    """Runs `shardwright manifest` and returns the folder that it wrote."""

    def run(dataset, *options):
        call = [command, "manifest", dataset, "--json", "--overwrite", *options]
        done = subprocess.run([str(word) for word in call], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        return pathlib.Path(json.loads(done.stdout)["path"])

    return run


def references(path):
    """A Zarr group of the references in a file."""
    files = fsspec.filesystem("reference", fo=str(path), asynchronous=True, remote_options={"asynchronous": True})
    return zarr.open_group(zarr.storage.FsspecStore(files), mode="r")


def write(replay, tmp_path, movie, *options):
    (tmp_path / "in.raw").write_bytes(movie.tobytes())
    shape = ",".join(map(str, movie.shape))
    layout = ["--chunk", "2,16,32", "--shard", "4,48,64"]
    return replay(tmp_path / "in.raw", "--shape", shape, "--dtype", movie.dtype.name, *layout, *options)[1]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_references_through_fsspec(replay, manifest, tmp_path, movie, codec, layout, zarr_format):
    dataset = write(replay, tmp_path, movie, "--codec", codec, *LAYOUTS[layout])
    group = references(manifest(dataset, "--zarr-format", zarr_format) / "kerchunk.json")
    assert group.metadata.zarr_format == zarr_format
    assert_reads(group["0"], movie, codec)
    assert group["0"].chunks == (2, 16, 32)
    number = zarr.open_array(dataset / "records" / "frame_number", mode="r")
    assert_same(np.asarray(group["records/frame_number"]), np.asarray(number))
    assert "ome" in group.attrs


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int64", "float32", "float64"])
def test_types_and_checksums(replay, manifest, tmp_path, dtype):
    movie = np.random.default_rng(1).integers(0, 100, (5, 40, 50)).astype(dtype)
    for options in ([], ["--no-checksum"]):
        dataset = write(replay, tmp_path, movie, *options)
        for zarr_format in (2, 3):
            group = references(manifest(dataset, "--zarr-format", zarr_format) / "kerchunk.json")
            assert_reads(group["0"], movie, dtype)


@pytest.mark.parametrize("codec", CODECS)
def test_virtualizarr_parses_kerchunk(replay, manifest, tmp_path, movie, codec):
    dataset = write(replay, tmp_path, movie, "--codec", codec)
    path = manifest(dataset) / "kerchunk.json"
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    store = KerchunkJSONParser()(f"file://{path}", registry)
    assert_same(np.asarray(zarr.open_group(store, mode="r", zarr_format=3)["0"]), movie)


def test_virtualizarr_takes_the_manifest(replay, manifest, tmp_path, movie):
    dataset = write(replay, tmp_path, movie)
    entries = json.loads((manifest(dataset, "--inline", 0) / "0" / "manifest.json").read_text())
    chunks = ChunkManifest(entries=entries, shape=(6, 4, 3))
    assert chunks.dict() == entries
    for entry in entries.values():
        assert pathlib.Path(entry["path"].removeprefix("file://")).is_file()


def test_a_prefix_leads_to_where_the_dataset_is_served(replay, manifest, tmp_path, movie):
    dataset = write(replay, tmp_path, movie)
    served = fsspec.filesystem("memory")
    for file in (dataset / "0" / "c").rglob("*"):
        if file.is_file():
            served.pipe_file(f"/bucket/{file.relative_to(dataset)}", file.read_bytes())
    out = manifest(dataset, "--url-prefix", "memory://bucket/")
    refs = json.loads((out / "kerchunk.json").read_text())
    files = fsspec.filesystem("reference", fo=refs, remote_protocol="memory")
    for key in [key for key in refs["refs"] if key.startswith("0/") and key[2].isdigit()]:
        url, offset, length = refs["refs"][key]
        stored = (dataset / url.removeprefix("memory://bucket/")).read_bytes()
        assert files.cat_file(key) == stored[offset : offset + length]


def test_the_way_back(replay, manifest, command, tmp_path, movie):
    dataset = write(replay, tmp_path, movie)
    out = manifest(dataset)
    info = json.loads(subprocess.run([command, "info", out, "--json"], capture_output=True, check=True).stdout)
    image = next(array for array in info["arrays"] if array["path"] == "0")
    assert image["manifest"] == "./manifest.json"
    assert image["chunks_present"] == 6 * 4 * 3
    subprocess.run([command, "export", out, tmp_path / "a.npy", "-q"], check=True)
    assert_same(np.load(tmp_path / "a.npy"), movie)


@pytest.mark.parametrize("dialect", ["zarr3", "zarr3-transformer", "zarr2-sharded"])
def test_a_run_leaves_its_manifest(replay, manifest, tmp_path, movie, dialect):
    """Readers open what a run has left, and the command would have written the same."""
    dataset = write(replay, tmp_path, movie, "--dialect", dialect, "--manifest", "manifest,inlined,kerchunk")
    name = "" if dialect == "zarr2-sharded" else "0"
    left = dataset.with_name(dataset.name.replace(".zarr", ".manifest.zarr"))
    # The prototype's array has no group.
    assert_reads(references(left / "kerchunk.json")[name] if name else array_of(left), movie, dialect)
    if name:
        registry = ObjectStoreRegistry({"file://": LocalStore()})
        store = KerchunkJSONParser()(f"file://{left / 'kerchunk.json'}", registry)
        assert_same(np.asarray(zarr.open_group(store, mode="r", zarr_format=3)[name]), movie)
    files = lambda folder: {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    before = files(left)
    assert files(manifest(dataset)) == before


def array_of(folder):
    """The one array of references that have no group."""
    files = fsspec.filesystem(
        "reference", fo=str(folder / "kerchunk.json"), asynchronous=True, remote_options={"asynchronous": True}
    )
    return zarr.open_array(zarr.storage.FsspecStore(files), mode="r")


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("inside", [[], [2, 1, 0], [1, 2, 0]], ids=str)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_shards_within_a_transposition(manifest, command, tmp_path, order, inside, zarr_format):
    """The index has the shard's order of dimensions, and chunks have that of both transpositions together."""
    data = np.arange(7 * 11 * 13, dtype="u2").reshape(7, 11, 13)
    chunk = [(2, 4, 8)[dim] for dim in order]
    codecs = [{"name": "transpose", "configuration": {"order": inside}}] if inside else []
    sharding = {
        "chunk_shape": chunk,
        "codecs": [*codecs, {"name": "bytes", "configuration": {"endian": "little"}}],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
    }
    metadata = {
        "shape": data.shape,
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 8, 16]}},
        "codecs": [
            {"name": "transpose", "configuration": {"order": order}},
            {"name": "sharding_indexed", "configuration": sharding},
        ],
    }
    path = tmp_path / "a.zarr"
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}, "metadata": metadata}
    tensorstore.open(spec, create=True).result()[...].write(data).result()
    stored = [order[dim] for dim in inside] if inside else list(order)
    if zarr_format == 2 and stored not in ([0, 1, 2], [2, 1, 0]):
        call = [command, "manifest", path, tmp_path / "k.zarr", "--form", "kerchunk", "--json"]
        error = json.loads(subprocess.run(call, capture_output=True).stdout)["error"]
        assert error["kind"] == "unsupported" and "an order that Zarr v2 has no word for" in error["message"]
        assert not (tmp_path / "k.zarr").exists()
        return
    out = manifest(path, "--zarr-format", zarr_format)
    assert_reads(array_of(out), data, f"{order}, {inside}")
    subprocess.run([command, "export", out, tmp_path / "a.npy", "-q"], check=True)
    assert_same(np.load(tmp_path / "a.npy"), data)


def test_an_array_that_zarr_v2_has_no_words_for_does_not_hide_the_others(manifest, command, tmp_path):
    root = zarr.open_group(tmp_path / "g.zarr", mode="w")
    data = np.arange(4 * 6 * 8, dtype="u2").reshape(4, 6, 8)
    root.create_array("plain", data=data, chunks=(2, 3, 4))
    turned = zarr.codecs.TransposeCodec(order=(1, 0, 2))
    root.create_array("turned", data=data, chunks=(2, 3, 4), filters=[turned])
    call = [command, "manifest", tmp_path / "g.zarr", tmp_path / "m.zarr"]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert '"turned" is left out of kerchunk.json' in done.stdout + done.stderr
    refs = json.loads((tmp_path / "m.zarr/kerchunk.json").read_text())["refs"]
    assert "plain/.zarray" in refs and not [key for key in refs if key.startswith("turned")]
    # In the other form, all of it.
    for name in ["plain", "turned"]:
        subprocess.run([command, "export", tmp_path / "m.zarr" / name, tmp_path / f"{name}.npy", "-q"], check=True)
        assert_same(np.load(tmp_path / f"{name}.npy"), data)
    # Documents of v3 have words for it, and where nothing is left, nothing is written.
    call = [command, "manifest", tmp_path / "g.zarr", tmp_path / "n.zarr", "--form", "kerchunk"]
    subprocess.run([*call, "--zarr-format", "3"], check=True)
    assert "turned/zarr.json" in json.loads((tmp_path / "n.zarr/kerchunk.json").read_text())["refs"]
    call = [command, "manifest", tmp_path / "g.zarr/turned", tmp_path / "alone", "--form", "kerchunk"]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 5 and "turned" in done.stderr and not (tmp_path / "alone").exists()
