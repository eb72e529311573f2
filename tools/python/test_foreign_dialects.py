"""Datasets of all dialects as other libraries write them, read by the command line: pixel for pixel."""

import json
import os
import pathlib
import subprocess

import numcodecs
import numpy as np
import pytest
from readers import assert_same
from recordings import movie as pixels

DRAFT = pathlib.Path(__file__).parent / "zarr2_draft.py"


@pytest.fixture
def look(command, tmp_path):
    """Reads a dataset by `export`, `info` and `verify`, and expects no damage; returns pixels, description and notes."""

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
        (tmp_path / "arrays.json").write_text(json.dumps(arrays))
        python = os.environ.get("SHARDWRIGHT_ZARR2_PYTHON", DRAFT.parents[2] / "target/venv-zarr2/bin/python")
        dataset = tmp_path / "draft.zarr"
        subprocess.run([python, DRAFT, "write", dataset, tmp_path / "arrays.json"], check=True)
        return dataset

    return run


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd", "lz4", "blosc-lz4", "blosc-zstd", "blosc-zlib"])
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
    assert "arrays in it: deep/er/a, plain" in look(dataset, code=3)
    for name, wanted in (("deep/er/a", expected), ("plain", movie)):
        got, described, _ = look(dataset, name)
        assert_same(got, wanted)
    described = {array["path"]: array for array in described["arrays"]}
    assert described["deep/er/a"]["chunks_empty"] > 0 and described["plain"]["shard_shape"] is None


def test_codecs_of_the_draft_that_are_not_read(draft, look):
    dataset = draft({"name": "0", "pixels": pixels(np.uint8, (2, 8, 8)), "chunks": [1, 8, 8], "codec": "zlib"})
    assert "zlib" in look(dataset, code=3)
