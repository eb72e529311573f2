"""What `shardwright repack` makes of every dialect, read by each dialect's own readers: pixel for pixel."""

import json
import subprocess

import numpy as np
import ome_zarr_models.v04
import pytest
import tensorstore
import yaozarrs
import zarr
from readers import assert_same, open_tensorstore, open_zarr_python, read_zarr2
from test_dialects import HASHED, read_draft, read_prototype, read_volume, sparse
from test_dialects import record  # noqa: F401  a fixture

SOURCES = {
    "zarr3": ["--codec", "blosc-zstd", "--chunk", "4,16,30", "--shard", "8,48,60"],
    "zarr3-transformer": ["--codec", "zstd", "--chunk", "4,16,30", "--shard", "8,48,60"],
    "zarr2-sharded": ["--codec", "blosc-lz4", "--chunk", "3,60,70", "--shard", "6,60,70", "--placement", "packed"],
    "precomputed": ["--codec", "gzip", "--chunk", "4,16,30", "--unbounded"],
}
CUT = ["--chunk", "4,16,30", "--shard", "8,48,60"]
TARGETS = {
    "zarr3": [["--codec", "gzip", *CUT], ["--codec", "none", "--chunk", "5,20,7", "--shard", "10,40,35"]],
    "zarr3-transformer": [["--codec", "blosc-lz4"], ["--codec", "gzip", "--chunk", "5,20,7", "--shard", "10,40,35"]],
    "zarr2-sharded": [["--codec", "zlib"], ["--codec", "blosc-zstd", "--chunk", "5,20,7", "--shard", "10,40,35"]],
    "precomputed": [
        ["--codec", "none"],
        ["--codec", "gzip", "--chunk", "5,20,7", "--gzip-indexes", "--scale-key", "fine", "--voxel-offset", "5,-6,7"],
        ["--codec", "gzip", *HASHED, "--shard-bits", "2", "--order", "morton"],
    ],
    "zarr2": [["--codec", "blosc-lz4"], ["--codec", "gzip", "--chunk", "5,20,7"]],
}


@pytest.fixture
def repack(command, tmp_path):
    """Runs `shardwright repack` and returns the dataset that it made, in which nothing is damaged."""

    def run(dataset, dialect, *options, code=0):
        out = tmp_path / f"repacked{len(list(tmp_path.glob('repacked*')))}"
        call = [command, "repack", dataset, out, "--dialect", dialect, "--no-sync", "-q", *options]
        done = subprocess.run([str(word) for word in call], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == code, done.stderr
        if code:
            return done.stderr
        info = json.loads(subprocess.run([command, "info", out, "--json"], capture_output=True, check=True).stdout)
        assert not any(array["damaged"] for array in info["arrays"])
        assert max(array["gap_bytes"] for array in info["arrays"]) <= 4096
        subprocess.run([command, "verify", out, "-q"], check=True)
        return out

    return run


def read(dataset, dialect, tmp_path):
    if dialect == "zarr3-transformer":
        return read_draft(dataset, tmp_path)
    if dialect == "zarr2-sharded":
        return read_prototype(dataset)
    if dialect == "precomputed":
        return read_volume(dataset)[0]
    if dialect == "zarr2":
        return read_plain_zarr2(dataset, tmp_path)
    array = dataset / "0"
    got = open_tensorstore(array).read().result()
    assert_same(np.asarray(open_zarr_python(array)), got)
    return got


def read_plain_zarr2(dataset, tmp_path):
    """By zarr-python 2.18, zarr-python 3 and tensorstore, after two validators of OME-Zarr 0.4."""
    yaozarrs.validate_zarr_store(str(dataset))
    model = ome_zarr_models.v04.Image.from_zarr(zarr.open_group(dataset, mode="r", zarr_format=2))
    assert [axis.name for axis in model.attributes.multiscales[0].axes] == ["t", "y", "x"]
    got, attributes = read_zarr2(dataset, "0", tmp_path, version=2)
    assert attributes["_ARRAY_DIMENSIONS"], "xarray finds the dimensions by these"
    assert_same(zarr.open_group(dataset, mode="r", zarr_format=2)["0"][...], got)
    spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{dataset}/0/"}}
    assert_same(tensorstore.open(spec).result().read().result(), got)
    return got


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_dialect_becomes_every_other(record, repack, tmp_path, source, to):  # noqa: F811
    movie = sparse()
    dataset = record(movie, source, *SOURCES[source])
    for options in TARGETS[to]:
        got = read(repack(dataset, to, *options), to, tmp_path)
        # A volume without an end may be declared deeper than its run was.
        assert not got[len(movie) :].any()
        assert_same(got[: len(movie)], movie, f"{source} to {to} with {options}:")


def test_plain_zarr_v2_comes_back_as_ome_zarr_0_5(record, repack, tmp_path):  # noqa: F811
    movie = sparse()
    plain = repack(record(movie, "zarr3", *SOURCES["zarr3"]), "zarr2")
    back = repack(plain, "zarr3", *CUT)
    assert_same(read(back, "zarr3", tmp_path), movie)
    yaozarrs.validate_zarr_store(str(back))
    assert not [file for name in (".zgroup", ".zattrs", ".zarray") for file in back.rglob(name)]


@pytest.mark.parametrize("axes, shape", [("z,c,y,x", (9, 3, 40, 50)), ("c,z,y,x", (3, 9, 40, 50))])
def test_channels_become_a_volume_s(record, repack, axes, shape):  # noqa: F811
    movie = np.random.default_rng(1).integers(0, 1000, shape).astype(np.uint16)
    out = repack(record(movie, "zarr3", axes=axes), "precomputed", "--codec", "gzip")
    assert_same(read_volume(out), movie if axes.startswith("c") else movie.swapaxes(0, 1))


def test_what_a_dialect_cannot_hold_is_refused(record, repack):  # noqa: F811
    dataset = record(sparse(), "zarr3", "--codec", "zstd")
    assert "none and gzip are possible" in repack(dataset, "precomputed", code=2)
    assert "end" in repack(dataset, "zarr2-sharded", "--index", "start", code=2)
