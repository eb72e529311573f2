"""Datasets of all dialects as other libraries write them, read by the command line: pixel for pixel."""

import json
import subprocess

import numcodecs
import numpy as np
import pytest
import tensorstore
from cloudvolume import CloudVolume
from cloudvolume.datasource.precomputed.common import compressed_morton_code
from cloudvolume.datasource.precomputed.sharding import ShardingSpecification
from readers import assert_same, zarr2
from recordings import movie as pixels


@pytest.fixture
def look(command, tmp_path):
    """Reads a dataset by `export`, `info` and `verify`, and expects no damage; returns pixels, description and
    notes."""

    def call(*words, code=0):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr if code else done.stdout

    def run(dataset, name="", code=0):
        out = tmp_path / "look.npy"
        export = [command, "export", dataset / name, out, "--overwrite", "-q", "--memory", "100KiB"]
        if code:
            return call(*export, code=code)
        call(*export)
        verified = json.loads(call(command, "verify", dataset, "--json"))
        assert verified["damage"] == 0
        described = json.loads(call(command, "info", dataset, "--json"))
        assert not any(array["damaged"] for array in described["arrays"])
        return np.load(out), described, verified

    return run


@pytest.fixture
def draft(tmp_path):
    """Writes arrays by zarr-python 2.18."""

    def run(*arrays):
        for number, array in enumerate(arrays):
            np.save(tmp_path / f"{number}.npy", array["pixels"])
            array["pixels"] = str(tmp_path / f"{number}.npy")
        dataset = tmp_path / "draft.zarr"
        zarr2().ask(arrays=arrays, path=str(dataset))
        return dataset

    return run


@pytest.mark.parametrize("codec", ["none", "gzip", "zlib", "zstd", "lz4", "blosc-lz4", "blosc-zstd", "blosc-zlib"])
@pytest.mark.parametrize("separator", ["/", "."])
def test_the_draft_of_2022(draft, look, codec, separator):
    movie = pixels(np.uint16, (7, 50, 45))
    layout = {"chunks": [2, 16, 10], "chunks_per_shard": [2, 2, 3], "codec": codec, "separator": separator}
    dataset = draft({"name": "0", "pixels": movie, **layout})
    for name in ("", "0"):
        got, described, verified = look(dataset, name)
        assert_same(got, movie)
    (array,) = described["arrays"]
    assert array["path"] == "0" and array["shard_shape"] == [4, 32, 30] and array["chunks_present"] == 4 * 4 * 5
    assert array["format"] == "Zarr v3, draft of 2022"
    assert described["attributes"] == {"instrument": "draft"}
    assert verified["notes"] == 0 and verified["arrays"][0]["chunks"] == 80


@pytest.mark.parametrize("dtype", ["<u2", ">u2", "<i4", "<f4", ">f8", "|u1", "|i1", "<u8"])
def test_types_of_the_draft(draft, look, dtype):
    movie = pixels(np.dtype(dtype).newbyteorder("="), (3, 20, 30))
    dataset = draft({"name": "0", "pixels": movie, "dtype": dtype, "chunks": [1, 9, 30], "chunks_per_shard": [1, 2, 1]})
    assert_same(look(dataset)[0], movie)


def test_what_the_draft_leaves_out(draft, look):
    """Missing chunks, missing shards, arrays without shards, arrays in groups, and one of several."""
    movie = pixels(np.int16, (6, 20, 30))
    expected = np.full_like(movie, -3)
    parts = [[[1, 2], [3, 9], [0, 30]], [[4, 5], [0, 20], [11, 17]]]
    for part in parts:
        where = tuple(slice(*bounds) for bounds in part)
        expected[where] = movie[where]
    sharded = {"chunks": [1, 5, 10], "chunks_per_shard": [2, 2, 2], "fill_value": -3, "parts": parts}
    dataset = draft(
        {"name": "deep/er/a", "pixels": movie, **sharded},
        {"name": "plain", "pixels": movie, "chunks": [2, 7, 8], "codec": "zstd"},
    )
    assert f"name an array in it: {dataset / 'deep/er/a'}, {dataset / 'plain'}" in look(dataset, code=3)
    for name, wanted in (("deep/er/a", expected), ("plain", movie)):
        got, described, _ = look(dataset, name)
        assert_same(got, wanted)
    described = {array["path"]: array for array in described["arrays"]}
    assert described["deep/er/a"]["chunks_empty"] > 0 and described["plain"]["shard_shape"] is None


def test_codecs_of_the_draft_that_are_not_read(draft, look):
    dataset = draft({"name": "0", "pixels": pixels(np.uint8, (2, 8, 8)), "chunks": [1, 8, 8], "codec": "bz2"})
    assert "bz2" in look(dataset, code=5)


def test_arrays_without_a_folder_are_looked_at_by_their_name(draft, command):
    layout = {"chunks": [2, 8, 16], "chunks_per_shard": [2, 2, 1]}
    dataset = draft({"name": "deep/er/a", "pixels": pixels(np.uint16, (4, 20, 30)), **layout})
    path = dataset / "deep" / "er" / "a"
    assert not path.exists()
    call = lambda verb: subprocess.run([command, verb, path, "--json"], capture_output=True, check=True).stdout
    (described,), (verified,) = (json.loads(call(verb))["arrays"] for verb in ("info", "verify"))
    assert described["shape"] == [4, 20, 30]
    assert described["chunks_present"] == verified["chunks"] == 2 * 3 * 2


class Prototype:
    """A writer of the prototype's format (zarr-python, pull request 876), in as few lines as it takes."""

    def __init__(self, path, movie, chunks, shards, codec, separator=".", fill_value=0):
        document = {"zarr_format": 2, "shape": movie.shape, "chunks": chunks, "dtype": movie.dtype.str, "order": "C"}
        document |= {"compressor": codec and codec.get_config(), "filters": None, "fill_value": fill_value}
        document |= {"dimension_separator": separator, "shards": shards, "shard_format": "indexed"}
        path.mkdir()
        (path / ".zarray").write_text(json.dumps(document))
        grid = [-(-length // (chunk * shard)) for length, chunk, shard in zip(movie.shape, chunks, shards)]
        for file in np.ndindex(*grid):
            data, index = b"", []
            for inner in np.ndindex(*shards):
                start = [(f * s + i) * c for f, s, i, c in zip(file, shards, inner, chunks)]
                part = movie[tuple(slice(at, at + size) for at, size in zip(start, chunks))]
                if part.size == 0 or (part == fill_value).all():
                    index += [2**64 - 1] * 2
                    continue
                whole = np.full(chunks, fill_value, movie.dtype)
                whole[tuple(slice(length) for length in part.shape)] = part
                encoded = codec.encode(whole) if codec else whole.tobytes()
                data += b"gap" * (len(index) % 3)
                index += [len(data), len(encoded)]
                data += bytes(encoded)
            name = path / separator.join(map(str, file))
            name.parent.mkdir(parents=True, exist_ok=True)
            name.write_bytes(data + np.array(index, "<u8").tobytes())


CODECS = [None, numcodecs.Zstd(1), numcodecs.LZ4(), numcodecs.GZip(1), numcodecs.Zlib(6), numcodecs.Blosc("zstd")]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("separator", [".", "/"])
def test_the_prototype_with_shards(look, tmp_path, codec, separator):
    movie = pixels(np.uint16, (5, 33, 41))
    movie[2] = 7
    Prototype(tmp_path / "a.zarr", movie, [1, 8, 16], [2, 3, 1], codec, separator, fill_value=7)
    got, described, verified = look(tmp_path / "a.zarr")
    assert_same(got, movie)
    assert described["arrays"][0]["chunks_empty"] == 15
    assert "passes over the key" in described["arrays"][0]["caution"]
    assert {finding["severity"] for finding in verified["findings"]} == {"note"}
    whats = [finding["what"] for finding in verified["findings"]]
    assert len(whats) == 2 and any("misreads" in what for what in whats)
    assert any("15 of 75 chunks are not there" in what for what in whats), whats


def sharding(hash="identity", preshift=1, minishard=2, shard=3, index="raw", data="raw"):
    bits = {"preshift_bits": preshift, "minishard_bits": minishard, "shard_bits": shard}
    encodings = {"minishard_index_encoding": index, "data_encoding": data}
    return {"@type": "neuroglancer_uint64_sharded_v1", "hash": hash, **bits, **encodings}


# Shards that are boxes, shards that are not, one shard, one minishard, more of both than there are chunks.
SHARDINGS = {
    "boxes": sharding(shard=9),
    "gzip": sharding(shard=9, index="gzip", data="gzip"),
    "few-shards": sharding(shard=1),
    "one": sharding(preshift=0, minishard=0, shard=0, index="gzip"),
    "hash": sharding("murmurhash3_x86_128"),
    "hash-gzip": sharding("murmurhash3_x86_128", index="gzip", data="gzip"),
    "many": sharding("murmurhash3_x86_128", preshift=0, minishard=5, shard=9),
    "one-box": sharding(preshift=9, minishard=6, shard=4),
}


def write_by_tensorstore(path, volume, chunk, sharded, offset=(0, 0, 0), key="8_8_40"):
    """`volume` is x, y, z, channel."""
    scale = {"key": key, "size": volume.shape[:3], "chunk_size": chunk, "resolution": [8, 8, 40], "encoding": "raw"}
    scale |= {"voxel_offset": offset, "sharding": sharded}
    multiscale = {"data_type": volume.dtype.name, "num_channels": volume.shape[3], "type": "image"}
    kvstore = {"driver": "file", "path": str(path)}
    spec = {"driver": "neuroglancer_precomputed", "kvstore": kvstore, "scale_metadata": scale}
    out = tensorstore.open({**spec, "multiscale_metadata": multiscale}, create=True).result()
    with tensorstore.Transaction() as transaction:
        out.with_transaction(transaction)[...] = volume


def write_by_cloud_volume(path, volume, chunk, sharded, offset=(0, 0, 0)):
    info = CloudVolume.create_new_info(
        num_channels=volume.shape[3],
        layer_type="image",
        data_type=volume.dtype.name,
        encoding="raw",
        resolution=[8, 8, 40],
        voxel_offset=offset,
        volume_size=volume.shape[:3],
        chunk_size=chunk,
    )
    out = CloudVolume(f"precomputed://file://{path}", info=info, compress=False, progress=False)
    if sharded is None:
        out.commit_info()
        out[...] = volume
        return
    out.scale["sharding"] = sharded
    out.commit_info()
    grid = [-(-length // size) for length, size in zip(volume.shape, chunk)]
    places = list(np.ndindex(*grid))
    codes = compressed_morton_code(np.array(places), np.array(grid))
    chunks = {}
    for at, code in zip(places, codes):
        part = volume[tuple(slice(i * size, (i + 1) * size) for i, size in zip(at, chunk))]
        chunks[int(code)] = part.tobytes("F")
    (path / "8_8_40").mkdir(parents=True)
    for name, shard in ShardingSpecification.from_dict(sharded).synthesize_shards(chunks).items():
        (path / "8_8_40" / name).write_bytes(shard)


def czyx(volume):
    """A volume as the command line shows it."""
    return volume.transpose(3, 2, 1, 0)[slice(None) if volume.shape[3] > 1 else 0]


@pytest.mark.parametrize("name", [*SHARDINGS, "unsharded"])
@pytest.mark.parametrize("write", [write_by_tensorstore, write_by_cloud_volume])
@pytest.mark.parametrize("channels", [1, 3])
def test_precomputed_volumes(look, tmp_path, name, write, channels):
    volume = pixels(np.uint16, (50, 37, 11, channels))
    sharded = SHARDINGS.get(name)
    write(tmp_path / "v", volume, (16, 8, 4), sharded, (100, 0, 7))
    (tmp_path / "v" / "provenance").unlink(missing_ok=True)
    for key in ("", "8_8_40"):
        got, described, verified = look(tmp_path / "v", key)
        assert_same(got, czyx(volume))
    (array,) = described["arrays"]
    assert array["path"] == "8_8_40" and array["chunks_present"] == 4 * 5 * 3 and array["chunks_empty"] == 0
    assert array["dimension_names"] == ["c", "z", "y", "x"][channels == 1 :]
    assert (array["shard_shape"] is not None) == (name in ("boxes", "gzip", "one-box"))
    assert verified["notes"] == 0 and verified["arrays"][0]["chunks"] == 60


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint32", "int32", "uint64", "float32"])
def test_types_of_volumes(look, tmp_path, dtype):
    volume = pixels(dtype, (20, 30, 5, 1))
    write_by_tensorstore(tmp_path / "v", volume, (8, 8, 8), SHARDINGS["hash-gzip"])
    assert_same(look(tmp_path / "v")[0], czyx(volume))


def test_missing_chunks_and_negative_places(look, tmp_path):
    volume = np.zeros((40, 40, 12, 1), np.uint8)
    volume[9:21, 17:20, 5:6] = 9
    for name in ("boxes", "hash", None):
        write_by_tensorstore(tmp_path / str(name), volume, (8, 8, 4), name and SHARDINGS[name], (-20, -8, -1))
        got, described, _ = look(tmp_path / str(name))
        assert_same(got, czyx(volume))
        assert described["arrays"][0]["chunks_present"] == 2


def test_scales(look, tmp_path):
    fine, coarse = pixels(np.uint8, (40, 30, 8, 1)), pixels(np.uint8, (20, 15, 8, 1))
    write_by_tensorstore(tmp_path / "v", fine, (16, 16, 8), SHARDINGS["hash"])
    info = json.loads((tmp_path / "v/info").read_text())
    write_by_tensorstore(tmp_path / "w", coarse, (16, 16, 8), SHARDINGS["boxes"], key="deep/er")
    info["scales"] += json.loads((tmp_path / "w/info").read_text())["scales"]
    (tmp_path / "v/info").write_text(json.dumps(info))
    (tmp_path / "w/deep").rename(tmp_path / "v/deep")
    assert_same(look(tmp_path / "v")[0], czyx(fine))
    got, described, verified = look(tmp_path / "v", "deep/er")
    assert_same(got, czyx(coarse))
    assert [array["path"] for array in described["arrays"]] == ["8_8_40", "deep/er"] and verified["notes"] == 0


@pytest.mark.parametrize("encoding", ["jpeg", "png", "compressed_segmentation"])
def test_encodings_that_are_not_read(look, tmp_path, encoding):
    write_by_tensorstore(tmp_path / "v", pixels(np.uint32, (8, 8, 8, 1)), (8, 8, 8), None)
    info = (tmp_path / "v/info").read_text()
    (tmp_path / "v/info").write_text(info.replace('"raw"', json.dumps(encoding)))
    assert encoding in look(tmp_path / "v", code=5)
