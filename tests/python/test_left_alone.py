"""What a call leaves as it is, or behind: it says so, and does no more than it was asked for."""

import zipfile

import numpy as np
import pytest
import zarr
from arrays import files
from readers import open_zarr_python

pytestmark = pytest.mark.filterwarnings("ignore")
PIXELS = np.arange(4 * 64 * 64, dtype="u2").reshape(4, 64, 64)


def of_zarr2(path):
    group = zarr.open_group(path, mode="w", zarr_format=2)
    for name, values in [("one", np.arange(1000.0)), ("two", PIXELS[0]), ("three", PIXELS[1])]:
        group.create_array(name, data=values, chunks=(16,) * values.ndim)
    return path


def test_arrays_of_one_dimension_of_zarr2_are_told(tool, tmp_path):
    path = of_zarr2(tmp_path / "o.zarr")
    before = files(path / "one")
    note = 'note: the array "one" stays as it is'
    assert note in tool("repack", path, tmp_path / "new", "--dialect", "zarr2", "--codec", "gzip")
    assert note in tool("repack", path, "--codec", "gzip")
    assert files(path / "one") == before == files(tmp_path / "new/one")
    assert note not in tool("repack", path, "--codec", "zstd", "--skip", "one")


def test_a_level_by_its_own_path_is_told_to_lose_its_place(tool, tmp_path):
    np.save(tmp_path / "in.npy", PIXELS)
    tool("replay", tmp_path / "in.npy", tmp_path / "i.zarr", "--axes", "z,y,x", "--pixel-size", "1um", "-q")
    note = "these do not go along"
    for options in [[], ["--dialect", "precomputed", "--codec", "none"]]:
        out = tmp_path / f"out{len(options)}"
        assert note in tool("repack", tmp_path / "i.zarr/0", out, *options)
        assert note not in tool("repack", tmp_path / "i.zarr", tmp_path / f"all{len(options)}", *options)
    assert np.array_equal(open_zarr_python(tmp_path / "out0")[:], PIXELS)
    # In place, it stays in its image.
    assert note not in tool("repack", tmp_path / "i.zarr/0", "--codec", "zstd")


def test_no_length_of_shards_asks_for_none(tool, tmp_path):
    zarr.create_array(tmp_path / "p.zarr", shape=PIXELS.shape, dtype="u2", chunks=(1, 32, 32))[:] = PIXELS
    for shard in ["0", "0,0,0"]:
        out = tmp_path / f"{shard}.zarr"
        tool("repack", tmp_path / "p.zarr", out, "--shard", shard, "--codec", "zstd")
        array = open_zarr_python(out)
        assert array.shards is None and np.array_equal(array[:], PIXELS)


def test_an_archive_does_not_tell_where_it_was_made(tool, tmp_path):
    zarr.create_array(tmp_path / "p.zarr", shape=PIXELS.shape, dtype="u2", chunks=(1, 32, 32))[:] = PIXELS
    tool("repack", tmp_path / "p.zarr", tmp_path / "p.ozx")
    with zipfile.ZipFile(tmp_path / "p.ozx") as archive:
        assert not any(str(tmp_path).encode() in archive.read(name) for name in archive.namelist())
    tool("repack", tmp_path / "p.zarr", tmp_path / "p.ozx")
    assert "exists" in tool("repack", tmp_path / "p.zarr", tmp_path / "p.ozx", "--codec", "zstd", code=1)


def test_a_name_that_is_there_twice_is_told_with_a_way_out(told, tmp_path):
    store = zarr.storage.ZipStore(tmp_path / "twice.zip", mode="w")
    array = zarr.open_group(store, mode="w").create_array("q", shape=(20, 30), dtype="u2", chunks=(7, 7))
    array.attrs["j"] = 2
    store.close()
    error = told("info", tmp_path / "twice.zip", code=3)["error"]
    assert "q/zarr.json is there twice" in error["message"] and "unzip -o" in error["message"]


def test_levels_of_a_bare_array_of_zarr2_name_no_call_that_does_not_help(tool, tmp_path):
    zarr.create_array(tmp_path / "b.zarr", shape=(600, 600), dtype="u2", chunks=(100, 100), zarr_format=2)[:] = 7
    said = tool("pyramid", tmp_path / "b.zarr", code=5)
    assert "is an array of Zarr v2" in said and "shardwright repack" not in said
