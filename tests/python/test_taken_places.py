"""Files of somebody's own that would stand where the result has a chunk, a shard, a folder of these or a document: they
are left out, with a note that names them."""

import json

import numpy as np
import pytest
import zarr

pytestmark = pytest.mark.filterwarnings("ignore")

DATA = np.arange(256, dtype="u1").reshape(16, 16)
CHUNK = b"\xff" * 64
FILES = {"compressors": None, "chunks": (8, 8)}


def zarr2(path, data=DATA):
    zarr.create_array(path, data=data, zarr_format=2, **FILES)
    return path


def put(file, text=CHUNK):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text)


def repacked(told, source, out, *options):
    """The pixels of the result, and what it says is left out."""
    notes = told("repack", source, out, *options)["notes"]
    left = [note for note in notes if "would stand in the place of a chunk" in note]
    assert len(left) < 2 and told("verify", out)["damage"] == 0
    return left[0] if left else ""


@pytest.mark.parametrize("options", [[], ["--shard", "8,8"], ["--codec", "zstd"]])
@pytest.mark.parametrize("name", ["b.zarr", "b.ozx"])
def test_no_file_takes_the_place_of_a_chunk(told, tmp_path, options, name):
    source, out = zarr2(tmp_path / "a.zarr"), tmp_path / name
    put(source / "c/1/1")
    put(source / "c/notes.txt", b"mine")
    put(source / "c/9/9", b"beyond")
    left = repacked(told, source, out, *options)
    assert str(source / "c/1/1") in left and str(source / "c/9/9") in left and "notes" not in left
    with zarr.storage.ZipStore(out, mode="r") if name.endswith(".ozx") else zarr.storage.LocalStore(out) as store:
        assert np.array_equal(zarr.open_array(store, mode="r")[...], DATA)
    if name == "b.zarr":
        assert (out / "c/notes.txt").read_bytes() == b"mine" and not (out / "c/9").exists()
    assert told("repack", source, out, *options)["already_done"]


def test_no_file_becomes_a_chunk_that_is_missing(told, tmp_path):
    data = DATA * (DATA < 8)
    source = zarr2(tmp_path / "a.zarr", data)
    (source / "1.1").unlink(missing_ok=True)
    put(source / "c/1/1")
    assert str(source / "c/1/1") in repacked(told, source, tmp_path / "b.zarr")
    assert np.array_equal(zarr.open_array(tmp_path / "b.zarr", mode="r")[...], data)


@pytest.mark.parametrize("stray", ["c", "c/1", "c/1/1/x/y", "c/1/1/x", "c/1/1"])
def test_neither_a_file_nor_a_folder_is_in_the_way(told, tmp_path, stray):
    source = zarr2(tmp_path / "a.zarr")
    if stray == "c/1/1":
        (source / stray).mkdir(parents=True)
    else:
        put(source / stray)
    left = repacked(told, source, tmp_path / "b.zarr")
    assert left.startswith(str(source / stray.removesuffix("/x/y").removesuffix("/x")) + " is left out")
    assert np.array_equal(zarr.open_array(tmp_path / "b.zarr", mode="r")[...], DATA)


def test_chunks_of_a_format_that_was_do_not_come_back(told, tmp_path):
    source = tmp_path / "a.zarr"
    axes = [{"name": name, "type": "space"} for name in "yx"]
    levels = [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1.0, 1.0]}]}]
    root = zarr.open_group(source, mode="w")
    root.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": levels}]}
    root.create_array("0", data=DATA, **FILES)
    put(source / "0/0/1")
    assert str(source / "0/0/1") in repacked(told, source, tmp_path / "b.zarr", "--ome", "0.4")
    assert np.array_equal(zarr.open_group(tmp_path / "b.zarr", mode="r")["0"][...], DATA)
    # Folders of chunks that were are none of the new chunks.
    sharded = ["--dialect", "zarr2-sharded", "--codec", "zstd"]
    assert repacked(told, tmp_path / "b.zarr", tmp_path / "c.zarr", *sharded) == ""
    told("repack", tmp_path / "c.zarr", tmp_path / "d.zarr", "--unsharded")
    assert np.array_equal(zarr.open_group(tmp_path / "d.zarr", mode="r")["0"][...], DATA)


def test_a_file_is_not_lost_to_a_document_without_a_word(told, tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=DATA[None], chunks=(1, 8, 8))
    put(tmp_path / "a.zarr/info", b"mine")
    left = repacked(told, tmp_path / "a.zarr", tmp_path / "v", "--dialect", "precomputed", "--codec", "none")
    assert left.startswith(f"{tmp_path / 'a.zarr/info'} is left out")
    assert json.loads((tmp_path / "v/info").read_text())["scales"]
    # Elsewhere it means nothing.
    assert repacked(told, tmp_path / "a.zarr", tmp_path / "b.zarr", "--codec", "zstd") == ""
    assert (tmp_path / "b.zarr/info").read_bytes() == b"mine"


def test_in_place_nothing_of_somebodys_own_becomes_a_shard(told, tmp_path):
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=DATA, **FILES)
    put(path / "c/0/x")
    put(path / "c/5/5")
    told("repack", path, "--shard", "16,16")
    assert np.array_equal(zarr.open_array(path, mode="r")[...], DATA)
    assert (path / "c/0/x").exists() and not (path / "c/5/5").exists()


def test_older_documents_beside_a_tree_are_told_of(told, tmp_path):
    root = zarr.open_group(tmp_path / "a.zarr", mode="w")
    for name in "ab":
        root.create_array(name, data=DATA, **FILES)
    put(tmp_path / "a.zarr/a/.zattrs", b"{}")
    notes = told("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", "zarr2")["notes"]
    assert any("documents of Zarr v2 beside its zarr.json" in note for note in notes)
