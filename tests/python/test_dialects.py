"""What the writer makes in every dialect but the usual one, read by each dialect's own readers: pixel for pixel."""

import itertools
import json
import subprocess
import time

import numcodecs
import numpy as np
import pytest
import tensorstore
from cloudvolume import CloudVolume
from readers import assert_same, read_zarr2
from recordings import movie as pixels
from test_live import running  # noqa: F401  a fixture

MISSING = 2**64 - 1
CODECS = ["none", "gzip", "blosc-lz4", "blosc-noise", "blosc-zstd", "zstd", "lz4"]
LAYOUTS = {
    "chosen": [],
    "odd": ["--chunk", "4,16,30", "--shard", "8,48,60"],
    "packed": ["--chunk", "4,16,30", "--shard", "8,48,60", "--placement", "packed", "--unbounded"],
    "deep": ["--chunk", "3,60,70", "--shard", "3,60,70", "--storage", "mapped"],
}


@pytest.fixture
def record(replay, tmp_path):
    """Records raw frames."""

    def run(movie, dialect, *options, axes=None, code=0):
        movie.tofile(tmp_path / "in.raw")
        names = ["--axes", axes] if axes else []
        shape = ["--shape", ",".join(map(str, movie.shape)), "--dtype", movie.dtype.name, *names]
        report, out = replay(tmp_path / "in.raw", *shape, "--dialect", dialect, *options, code=code)
        assert report["frames_missing"] == 0
        return out

    return run


def sparse(shape=(11, 60, 70)):
    """A movie with chunks, and with the last shards, that hold nothing."""
    movie = pixels(np.uint16, shape)
    movie[:4, :, 30:60] = 0
    movie[8:] = 0
    return movie


def read_draft(dataset, tmp_path):
    """By zarr-python 2.18, which has the draft of 2022."""
    return read_zarr2(dataset, "0", tmp_path, version=3)[0]


def read_prototype(dataset):
    """By the format's description alone: that prototype was never released."""
    document = json.loads((dataset / ".zarray").read_text())
    assert document["zarr_format"] == 2 and document["shard_format"] == "indexed" and document["filters"] is None
    codec = numcodecs.get_codec(document["compressor"]) if document["compressor"] else None
    out = np.full(document["shape"], document["fill_value"], document["dtype"])
    shard = [chunks * count for chunks, count in zip(document["chunks"], document["shards"])]
    for at in itertools.product(*(range(-(-size // step)) for size, step in zip(out.shape, shard))):
        # Its reader takes a shard that is not there for an error.
        data = (dataset / document["dimension_separator"].join(map(str, at))).read_bytes()
        index = np.frombuffer(data[-16 * int(np.prod(document["shards"])) :], "<u8").reshape(*document["shards"], 2)
        for inner in np.ndindex(*document["shards"]):
            offset, nbytes = map(int, index[inner])
            if (offset, nbytes) == (MISSING, MISSING):
                continue
            raw = data[offset : offset + nbytes]
            chunk = np.frombuffer(codec.decode(raw) if codec else raw, out.dtype).reshape(document["chunks"])
            start = [a * s + i * c for a, s, i, c in zip(at, shard, inner, document["chunks"])]
            where = tuple(slice(s, min(s + c, size)) for s, c, size in zip(start, document["chunks"], out.shape))
            if all(part.start < part.stop for part in where):
                out[where] = chunk[tuple(slice(part.stop - part.start) for part in where)]
    return out


def open_volume(dataset, scale=0):
    context = tensorstore.Context({"cache_pool": {"total_bytes_limit": 0}})
    kvstore = {"driver": "file", "path": f"{dataset}/"}
    spec = {"driver": "neuroglancer_precomputed", "kvstore": kvstore, "scale_index": scale}
    return tensorstore.open(spec, context=context, open=True).result()


def read_volume(dataset):
    """By both readers, which must agree; as channel, z, y, x."""
    one = open_volume(dataset).read().result().T
    volume = CloudVolume(f"file://{dataset}", fill_missing=True, progress=False)
    assert_same(np.asarray(volume[:, :, :]).T, one)
    return one


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("codec", CODECS)
def test_the_draft_of_2022(record, tmp_path, codec, layout):
    movie = sparse()
    out = record(movie, "zarr3-transformer", "--codec", codec, *LAYOUTS[layout])
    assert_same(read_draft(out, tmp_path), movie)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("codec", CODECS)
def test_the_prototype(record, codec, layout):
    movie = sparse()
    assert_same(read_prototype(record(movie, "zarr2-sharded", "--codec", codec, *LAYOUTS[layout])), movie)


def test_the_prototype_has_every_shard(record):
    """Also those of frames that never came."""
    movie = pixels(np.uint8, (6, 20, 30))
    out = record(movie, "zarr2-sharded", "--frames", "5", "--chunk", "1,20,30", "--shard", "1,20,30")
    assert_same(read_prototype(out), movie[:5])


HASHED = ["--hash", "murmurhash3_x86_128"]
VOLUMES = {
    "chosen": [],
    "unbounded": ["--unbounded"],
    "boxes": ["--preshift-bits", "2", "--minishard-bits", "3"],
    "packed": ["--placement", "packed", "--voxel-offset", "5,-6,7", "--scale-key", "fine", "--gzip-indexes"],
    "few shards": ["--preshift-bits", "1", "--minishard-bits", "1", "--shard-bits", "2", "--storage", "mapped"],
    "hashed": HASHED,
    "hashed bits": [*HASHED, "--preshift-bits", "1", "--minishard-bits", "2", "--shard-bits", "3", "--gzip-indexes"],
}


@pytest.mark.parametrize("bits", VOLUMES)
@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("chunk", ["4,16,30", "1,60,70", "8,9,11"])
def test_precomputed(record, chunk, codec, bits):
    movie = sparse((21, 60, 70))
    out = record(movie, "precomputed", "--chunk", chunk, "--codec", codec, *VOLUMES[bits])
    assert_same(read_volume(out)[0], movie)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint32, np.int32, np.uint64, np.float32])
def test_types_of_precomputed(record, dtype):
    movie = pixels(dtype, (3, 20, 30))
    assert_same(open_volume(record(movie, "precomputed", "--chunk", "2,8,8")).read().result().T[0], movie)


@pytest.mark.parametrize("axes, shape", [("z,c,y,x", (9, 3, 40, 50)), ("c,z,y,x", (3, 9, 40, 50))])
@pytest.mark.parametrize("chunk", ["16,16", "40,50"])
def test_channels_of_precomputed(record, axes, shape, chunk):
    movie = pixels(np.uint16, shape)
    deep = ["4,0", "0,4"][axes.startswith("c")]
    expected = movie if axes.startswith("c") else movie.swapaxes(0, 1)
    options = [[], ["--unbounded"]] if axes.startswith("z") else [[]]
    for option in options:
        out = record(movie, "precomputed", "--chunk", f"{deep},{chunk}", *option, axes=axes)
        assert_same(read_volume(out), expected)


def test_a_short_run_of_a_wide_volume(record):
    """Ids need some depth; the volume is declared deeper than the run was, and what never came is 0."""
    movie = pixels(np.uint16, (3, 64, 64))
    volume = open_volume(record(movie, "precomputed", "--unbounded", "--chunk", "1,4,4")).read().result().T[0]
    assert len(volume) == 5 and not volume[3:].any()
    assert_same(volume[:3], movie)


REFUSED = {
    "blosc": (["--dialect", "precomputed", "--codec", "blosc-lz4"], "gzip"),
    "f64": (["--dialect", "precomputed"], "float32"),
    "endless hash": (["--dialect", "precomputed", *HASHED, "--unbounded"], "number of frames"),
    "index at start": (["--dialect", "zarr2-sharded", "--index", "start"], "end"),
    "bits": (["--shard-bits", "3"], "precomputed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_dialect_cannot_hold_is_refused(command, tmp_path, name):
    words, evidence = REFUSED[name]
    movie = pixels(np.float64 if name == "f64" else np.uint16, (3, 20, 30))
    movie.tofile(tmp_path / "in.raw")
    call = [command, "replay", tmp_path / "in.raw", tmp_path / "out", "--shape", "3,20,30", "--dtype", movie.dtype.name]
    done = subprocess.run([str(word) for word in [*call, *words]], capture_output=True, text=True)
    assert done.returncode not in (0, 101) and evidence in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [["--unbounded"], ["--unbounded", "--storage", "mapped"], HASHED])
def test_a_volume_is_read_while_it_grows(running, options):  # noqa: F811
    movie = pixels(np.uint16, (60, 40, 50)) | 1
    layout = ["--dialect", "precomputed", "--chunk", "1,16,16", *options]
    process, out = running(movie, "--rate", 20, *layout, document="info")
    most = retries = 0
    while process.poll() is None:
        try:
            got = open_volume(out).read().result().T[0]
        except ValueError as error:
            # Between a shard's head and the index that it points at, the shard was closed and cut off: try again.
            assert "UNAVAILABLE" in str(error)
            retries += 1
            continue
        for number, frame in enumerate(got):
            if frame.any():
                expected = movie[number]
                if options is HASHED:
                    # Its chunks lie in several shards, whose indexes are written one after another.
                    expected = np.where(frame == 0, frame, expected)
                assert_same(frame, expected, f"frame {number}, read while the replay ran:")
        most = max(most, int(got.any(axis=(1, 2)).sum())) if process.poll() is None else most
        time.sleep(0.05)
    assert process.returncode == 0
    assert retries <= 1
    assert most >= 15, f"{most} frames could be seen while their shard was open"
    assert_same(open_volume(out).read().result().T[0], movie)
