"""Trees that other programs and system administrators leave: folders without documents, modes and owners, outputs that
are devices or the input itself, selections that leave nothing."""

import json
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
import zarr
from readers import assert_same

pytestmark = pytest.mark.filterwarnings("ignore")


def numbers(seed=0):
    return (np.arange(64, dtype="uint16") * 7 + seed).reshape(8, 8)


def tree(path, zarr_format=3):
    """A group with the sharded array `0`."""
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    shards = {"shards": (8, 8)} if zarr_format == 3 else {}
    group.create_array("0", data=numbers(), chunks=(4, 4), **shards)
    return group


# A region names each dimension once.


def test_a_region_with_a_name_twice_is_refused(tool, tmp_path):
    zarr.create_array(tmp_path / "a", data=numbers(), chunks=(4, 4), dimension_names=["y", "x"])
    refused = tool("export", tmp_path / "a", tmp_path / "x.npy", "--region", "y=1,y=2", code=2)
    assert "region names y twice" in refused and not (tmp_path / "x.npy").exists()


# What is in the place of an output.


@pytest.mark.parametrize("verb", ["export", "manifest", "repack"])
def test_pipes_are_never_replaced(tool, tmp_path, verb):
    tree(tmp_path / "g")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    words = {"export": ["--format", "raw", "--overwrite"], "manifest": ["--overwrite"], "repack": []}[verb]
    source = tmp_path / "g" / ("0" if verb == "export" else "")
    for out in ["pipe", "link"]:
        refused = tool(verb, source, tmp_path / out, *words, code=1)
        assert "neither a file nor a folder, and never replaced" in refused and "--overwrite" not in refused
        assert stat.S_ISFIFO(os.stat(tmp_path / out).st_mode)
    assert (tmp_path / "link").is_symlink()


def test_what_is_in_the_way_has_one_code(tool, told, tmp_path):
    tree(tmp_path / "g")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").write_text("mine")
    for words in [
        ["manifest", tmp_path / "g", tmp_path / "file", "--overwrite"],
        ["manifest", tmp_path / "g", tmp_path / "folder", "--overwrite"],
        ["repack", tmp_path / "g", tmp_path / "file"],
        ["export", tmp_path / "g" / "0", tmp_path / "file", "--format", "raw"],
        ["export", tmp_path / "g" / "0", tmp_path / "folder", "--format", "raw", "--overwrite"],
    ]:
        assert told(*words, code=1)["error"]["kind"] == "exists", words
    assert (tmp_path / "file").read_text() == (tmp_path / "folder" / "mine").read_text() == "mine"


def test_the_input_is_no_output(tool, tmp_path):
    tree(tmp_path / "m")
    (tmp_path / "link").symlink_to("m")
    for out in ["m", "m/.", "m/../m", "link"]:
        refused = tool("repack", tmp_path / "m", f"{tmp_path}/{out}", code=2)
        assert "is the dataset that is repacked" in refused and "remove" not in refused


def test_nothing_lies_behind_a_file(tool, told, tmp_path):
    (tmp_path / "f").write_text("")
    for command in ["info", "verify"]:
        assert told(command, tmp_path / "f" / "x", code=3)["error"]["kind"] == "not-found"


# In place, folders and files stay whose they were.


def attributes_of(path):
    found = {}
    for folder, folders, names in os.walk(path):
        for name in [".", *names]:
            told = os.stat(os.path.join(folder, name))
            found[os.path.relpath(os.path.join(folder, name), path)] = (oct(told.st_mode), told.st_uid, told.st_gid)
    return found


@pytest.mark.parametrize("options", [[], ["--codec", "gzip"], ["--unsharded"]])
def test_in_place_modes_and_owners_stay(tool, tmp_path, options):
    path = tmp_path / "g"
    tree(path)
    owner = (1234, 1234) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    for folder, _, names in os.walk(path):
        for name in names:
            os.chmod(os.path.join(folder, name), 0o640)
            os.chown(os.path.join(folder, name), *owner)
        os.chown(folder, *owner)
        os.chmod(folder, 0o2750)
    try:
        os.setxattr(path / "0" / "zarr.json", "user.sample", b"7")
        os.setxattr(path / "zarr.json", "user.sample", b"8")
    except OSError:
        pass
    before = attributes_of(path)
    extended = [os.listxattr(path / name) for name in ["0/zarr.json", "zarr.json"]]
    tool("repack", path, *options)
    after = attributes_of(path)
    assert {name: after[name] for name in before if name in after} == before
    assert set(after.values()) <= set(before.values()), after
    assert [os.listxattr(path / name) for name in ["0/zarr.json", "zarr.json"]] == extended
    assert_same(zarr.open_array(path / "0", mode="r")[...], numbers(), "pixels")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_an_owner_that_can_t_be_kept_is_told(command):
    with tempfile.TemporaryDirectory() as shared:
        path = Path(shared, "g")
        tree(path)
        for folder, _, _ in os.walk(shared):
            os.chmod(folder, 0o777)
        # The folder for temporary ones may be for its owner alone.
        around = Path(shared).parent
        os.chmod(around, around.stat().st_mode | 0o011)
        words = [shutil.copy(command, shared), "repack", path, "--codec", "gzip"]
        somebody = {"user": 4321, "group": 4321, "extra_groups": []}
        done = subprocess.run(words, capture_output=True, text=True, **somebody)
    assert done.returncode == 0 and "has an owner or a group that this process can't give" in done.stderr, done


# Arrays below folders without a document.


def implicit(path, zarr_format=3, inner_format=3):
    """A group, in it the array `0`, and `a/b/c` in folders of which none has a document."""
    group = tree(path, zarr_format)
    shards = {"shards": (8, 8)} if inner_format == 3 else {}
    zarr.create_array(path / "a" / "b" / "c", data=numbers(5), chunks=(4, 4), zarr_format=inner_format, **shards)
    for name in ["zarr.json", ".zgroup", ".zattrs"]:
        for folder in ["a", "a/b"]:
            (path / folder / name).unlink(missing_ok=True)
    (path / "junk" / "deep").mkdir(parents=True)
    (path / "junk" / "deep" / "notes.txt").write_text("mine")
    return group


@pytest.mark.parametrize("formats", [(3, 3), (3, 2), (2, 2), (2, 3)])
def test_an_array_below_folders_without_documents_is_found(tool, tmp_path, formats):
    path = tmp_path / "g"
    implicit(path, *formats)
    assert " a/b/c" in tool("info", path)
    checked = tool("verify", path)
    assert " a/b/c " in checked and "junk: belongs to no array" in checked
    assert "a: belongs to no array" not in checked
    tool("repack", path, tmp_path / "o", "--unsharded", "--codec", "gzip")
    assert_same(zarr.open_array(tmp_path / "o" / "a" / "b" / "c", mode="r")[...], numbers(5), "converted")
    assert (tmp_path / "o" / "junk" / "deep" / "notes.txt").read_text() == "mine"
    assert '"gzip"' in (tmp_path / "o" / "a" / "b" / "c" / "zarr.json").read_text()
    if formats[0] == 3 == formats[1]:
        tool("repack", path, tmp_path / "z", "--dialect", "zarr2")
        assert_same(zarr.open_array(tmp_path / "z" / "a" / "b" / "c", mode="r")[...], numbers(5), "of Zarr v2")
    [chunk] = [found for found in (path / "a" / "b" / "c").rglob("*") if found.name in ["0.0", "0"] and found.is_file()]
    data = bytearray(chunk.read_bytes())
    data[1] ^= 255
    chunk.write_bytes(data)
    assert "a/b/c" in tool("verify", path, code=3)


def test_consolidated_metadata_name_no_array_below_such_folders(tool, tmp_path):
    """zarr-python leaves them out, and would not open what names them."""
    path = tmp_path / "g"
    implicit(path)
    zarr.consolidate_metadata(path)
    tool("verify", path)
    for out in [[], [tmp_path / "o"], [tmp_path / "z", "--dialect", "zarr2"]]:
        tool("repack", path, *out, "--unsharded")
        result = out[0] if out else path
        assert_same(zarr.open_group(result, mode="r")["0"][...], numbers(), "by consolidated metadata")
        assert_same(zarr.open_array(result / "a" / "b" / "c", mode="r")[...], numbers(5), "by its path")
        tool("verify", result)


# Selections, and arrays that nothing can be done to.


def test_a_selection_that_leaves_nothing_says_so(tool, tmp_path):
    tree(tmp_path / "g")
    zarr.create_array(tmp_path / "a", data=numbers(), chunks=(4, 4), shards=(8, 8))
    out = tmp_path / "o"
    assert "no array is left" in tool("repack", tmp_path / "g", out, "--skip", "0", code=2)
    assert "no array is left" in tool("repack", tmp_path / "a", out, "--skip", "/", code=2)
    for option in ["--only", "--skip"]:
        assert "name an array or a group" in tool("repack", tmp_path / "g", out, option, "", code=2)
    unknown = tool("repack", tmp_path / "a", out, "--skip", "q", code=3)
    assert "the array at its root" in unknown and '""' not in unknown
    tool("repack", tmp_path / "a", out, "--only", "/")


def test_an_array_without_dimensions_stays_what_it_is(tool, tmp_path):
    zarr.create_array(tmp_path / "d", data=np.array(3, "float32"))
    for options in [[], ["--unsharded"], ["--codec", "zstd"]]:
        assert "no dimensions" in tool("repack", tmp_path / "d", tmp_path / "o", *options, code=2)


def test_in_place_zarr2_is_refused_for_what_it_is(tool, tmp_path):
    zarr.create_array(tmp_path / "v", data=np.arange(9), chunks=(3,), zarr_format=2)
    refused = tool("repack", tmp_path / "v", "--codec", "zstd", code=2)
    assert "is of zarr2 and has no rows and columns" in refused and "--dialect" not in refused
    assert "write the result to a new dataset" in refused
    tool("repack", tmp_path / "v", tmp_path / "o", "--codec", "zstd")
    assert_same(zarr.open_array(tmp_path / "o", mode="r")[...], np.arange(9), "in a new dataset")


def test_levels_of_strings_are_unsupported(tool, tmp_path):
    group = zarr.open_group(tmp_path / "g", mode="w")
    group.create_array("s", shape=(4,), chunks=(2,), dtype="str")
    for command in ["info", "verify", "pyramid"]:
        assert "string" in tool(command, tmp_path / "g" / "s", code=5)


# Chunks and documents as others may write them.


def test_frames_that_zstd_skips_are_skipped(tool, tmp_path):
    zarr.create_array(tmp_path / "a", data=numbers(), chunks=(8, 8), compressors=zarr.codecs.ZstdCodec())
    chunk = tmp_path / "a" / "c" / "0" / "0"
    frame = chunk.read_bytes()
    skipped = b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + b"\x5f\x2a\x4d\x18\0\0\0\0"
    chunk.write_bytes(skipped + frame)
    tool("verify", tmp_path / "a")
    tool("export", tmp_path / "a", tmp_path / "x.npy")
    assert_same(np.load(tmp_path / "x.npy"), numbers(), "behind skipped frames")
    for broken in [skipped, skipped[:-1] + b"\xff" + frame, b"\x50\x2a\x4d\x18\xff\xff\xff\xff" + frame]:
        chunk.write_bytes(broken)
        assert "damage" in tool("verify", tmp_path / "a", code=3)


def bare(path, names):
    """An array of one chunk whose fill value is a NaN with other bits."""
    (path / "c/0").mkdir(parents=True)
    (path / "c/0/0").write_bytes(bytes(64))
    document = {
        "zarr_format": 3, "node_type": "array", "shape": [4, 4], "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "0x7fc00123", "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {}, "dimension_names": names,
    }
    (path / "zarr.json").write_text(json.dumps(document))


def test_what_zarr2_has_no_words_for_is_told(tool, tmp_path):
    bare(tmp_path / "n", ["y", ""])
    assert "NaN with bits of its own" in tool("manifest", tmp_path / "n", tmp_path / "m")
    assert "NaN" not in tool("manifest", tmp_path / "n", tmp_path / "m3", "--zarr-format", "3")
    told = tool("repack", tmp_path / "n", tmp_path / "z", "--dialect", "zarr2")
    assert "an empty name" in told and "NaN with bits of its own" in told


def test_dimensions_that_all_lack_names_get_no_attribute(tool, tmp_path):
    bare(tmp_path / "n", [None, None])
    tool("repack", tmp_path / "n", tmp_path / "z", "--dialect", "zarr2")
    [attributes] = (tmp_path / "z").rglob("0/.zattrs")
    assert "_ARRAY_DIMENSIONS" not in attributes.read_text()


def test_a_scale_keeps_its_name_on_the_way_through_zarr(tool, tmp_path):
    import tensorstore

    scale = {"key": "fine", "size": [20, 18, 6], "resolution": [4, 4, 40], "voxel_offset": [-5, 2, 9],
             "chunk_size": [16, 16, 8], "encoding": "raw"}
    spec = {"driver": "neuroglancer_precomputed", "kvstore": f"file://{tmp_path}/v", "scale_metadata": scale,
            "multiscale_metadata": {"type": "image", "data_type": "uint16", "num_channels": 1}}
    tensorstore.open(spec, create=True).result()[...] = 7
    tool("repack", tmp_path / "v", tmp_path / "z", "--shard", "16,32,32")
    for name, options, key in [("b", [], "fine"), ("c", ["--scale-key", "mine"], "mine")]:
        tool("repack", tmp_path / "z", tmp_path / name, "--dialect", "precomputed", *options)
        assert json.loads((tmp_path / name / "info").read_text())["scales"][0]["key"] == key


def test_several_files_among_chunks_are_told_in_the_plural(tool, tmp_path):
    group = tree(tmp_path / "g")
    for name in ["a", "b"]:
        (tmp_path / "g" / "0" / "c" / "0" / name).write_text("")
    assert "lie where chunks do, and are none by their names" in tool("repack", tmp_path / "g")
    (tmp_path / "g" / "0" / "c" / "0" / "b").unlink()
    assert "lies where chunks do, and is none by its name" in tool("repack", tmp_path / "g")
