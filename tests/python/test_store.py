"""Datasets after they were edited (by `examples/edit.rs`), read by each dialect's own readers."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
from conftest import ROOT
from readers import assert_reads, assert_same, open_tensorstore, open_zarr_python
from test_dialects import read_draft, read_prototype, read_volume, record  # noqa: F401  a fixture

CHUNK = (4, 16, 30)
LAYOUTS = {
    "fixed": ["--placement", "fixed"],
    "packed": ["--placement", "packed"],
}


@pytest.fixture(scope="session")
def edit():
    """The example that copies a chunk over its neighbour and takes the last one away; returns their keys."""
    if path := os.environ.get("SHARDWRIGHT_EDIT"):
        built = pathlib.Path(path)
    else:
        build = ["cargo", "build", "--quiet", "--profile", "test", "--example", "edit", "--message-format=json"]
        output = subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
        artifacts = (json.loads(line) for line in output.splitlines())
        (built,) = (a["executable"] for a in artifacts if a.get("executable") and a["target"]["name"] == "edit")

    def run(dataset):
        done = subprocess.run([built, dataset], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [line.split(" ")[0] for line in done.stdout.splitlines()]

    return run


def box(key):
    """The pixels of the chunk with this key."""
    name = key.split("/")[-1]
    if "_" in name:
        return tuple(slice(*map(int, bounds.split("-"))) for bounds in reversed(name.split("_")))
    position = [int(part.lstrip("c")) for part in key.split("/")[-3:]]
    return tuple(slice(at * size, (at + 1) * size) for at, size in zip(position, CHUNK))


def edited(movie, keys):
    """What a reader must see after the edit."""
    first, second, last = map(box, keys)
    result = movie.copy()
    result[second] = result[first]
    result[last] = 0
    assert not np.array_equal(result, movie)
    return result


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("codec", ["none", "blosc-lz4", "zstd", "gzip"])
@pytest.mark.parametrize("index", ["start", "end"])
def test_sharding_codec(record, edit, movie, command, codec, layout, index):  # noqa: F811
    shape = ["--chunk", "4,16,30", "--shard", "8,48,60"]
    out = record(movie, "zarr3", "--codec", codec, "--index", index, *shape, *LAYOUTS[layout])
    expected = edited(movie, edit(out))
    assert_reads(open_tensorstore(out / "0"), expected, "tensorstore")
    assert_reads(open_zarr_python(out / "0"), expected, "zarr-python")
    subprocess.run([command, "verify", out, "--json"], check=True, capture_output=True)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("codec", ["none", "blosc-lz4", "gzip"])
def test_the_draft_of_2022(record, edit, movie, command, tmp_path, codec, layout):  # noqa: F811
    shape = ["--chunk", "4,16,30", "--shard", "8,48,60"]
    out = record(movie, "zarr3-transformer", "--codec", codec, *shape, *LAYOUTS[layout])
    expected = edited(movie, edit(out))
    assert_same(read_draft(out, tmp_path), expected)
    subprocess.run([command, "verify", out, "--json"], check=True, capture_output=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_prototype(record, edit, movie, command, layout):  # noqa: F811
    shape = ["--chunk", "4,16,30", "--shard", "8,48,60"]
    out = record(movie, "zarr2-sharded", *shape, *LAYOUTS[layout])
    expected = edited(movie, edit(out))
    assert_same(read_prototype(out), expected)
    subprocess.run([command, "verify", out, "--json"], check=True, capture_output=True)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_precomputed_volume(record, edit, movie, command, codec, layout):  # noqa: F811
    out = record(movie, "precomputed", "--codec", codec, "--chunk", "4,16,30", *LAYOUTS[layout])
    expected = edited(movie, edit(out))
    assert_same(read_volume(out)[0], expected)
    subprocess.run([command, "verify", out, "--json"], check=True, capture_output=True)
