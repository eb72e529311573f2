"""Arrays alone, in hierarchies that other writers made: their readers see an array, and nothing of theirs changes."""

import numpy as np
import zarr
from readers import assert_same, open_tensorstore
from test_keys import files, theirs
from test_pyramid import noise


def test_another_writer_s_groups_get_arrays(told, tool, tmp_path):
    path = tmp_path / "study.zarr"
    root = theirs(path)
    before = files(path)
    movie = noise((9, 20, 30), "u2")
    np.save(tmp_path / "movie.npy", movie)
    for key in ("raw/day/camera", "top"):
        options = ["--no-sync", "--key", key, "--bare", "--chunk", "1,20,16", "--shard", "4,20,32"]
        assert told("replay", tmp_path / "movie.npy", path, *options)["frames_written"] == 9
        again = zarr.open_group(path, mode="r")
        array = again[key]
        assert isinstance(array, zarr.Array) and dict(array.attrs) == {}
        assert array.metadata.dimension_names == ("t", "y", "x")
        assert_same(array[:], movie)
        assert_same(open_tensorstore(path / key).read().result(), movie)
    after = files(path)
    assert {file: after[file] for file in before} == before
    made = {str(file.relative_to(path)) for file in after if file not in before}
    shards = {f"{key}/c/{t}/0/0" for key in ("raw/day/camera", "top") for t in range(3)}
    documents = {"raw/day/zarr.json", "raw/day/camera/zarr.json", "top/zarr.json"}
    assert made == shards | documents
    assert dict(again.attrs) == dict(root.attrs) and sorted(again.array_keys()) == ["top"]
    tool("verify", path, "-q")
    # The one who made the hierarchy goes on with the array.
    zarr.open_array(path / "top", mode="a")[2] = movie[0]
    assert_same(zarr.open_array(path / "top", mode="r")[2], movie[0])


def test_an_array_that_is_there_is_never_replaced(command, tmp_path):
    import subprocess

    path = tmp_path / "study.zarr"
    theirs(path)
    before = files(path)
    np.save(tmp_path / "movie.npy", noise((3, 4), "u2")[None])
    for options in (["--key", "raw/table"], ["--key", "raw/table", "--overwrite"], ["--key", "raw", "--overwrite"]):
        words = [command, "replay", tmp_path / "movie.npy", path, "--no-sync", "--bare", *options]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        assert done.returncode != 0, options
        assert files(path) == before
