"""Calls that are made once more, and what an earlier one may have left."""

import json

import numpy as np
import pytest
import zarr

CAMERA = ["--camera", "64x48xu16", "--frames", "5"]


def test_an_archive_is_known_again(tool, told, replay, tmp_path):
    _, path = replay("synthetic", *CAMERA)
    out, work = tmp_path / "q.ozx", tmp_path / ".q.ozx.repack"
    assert not told("repack", path, out)["already_done"]
    before = out.read_bytes()
    # What a kill between the archive's name and the end of the call leaves.
    (work / "tree/0").mkdir(parents=True)
    (work / "tree/0/zarr.json").write_text("{}")
    (work / "journal.json").write_text(json.dumps({"version": 1, "synced": True, "arrays": {"0": {}}}))
    for _ in range(2):
        assert told("repack", path, out)["already_done"]
        assert not work.exists() and out.read_bytes() == before
    tool("verify", out)
    assert "not what this call makes" in tool("repack", path, out, "--codec", "zstd", code=1)
    (path / "notes.txt").write_text("more")
    assert "not what this call makes" in tool("repack", path, out, code=1)
    (tmp_path / "broken.ozx").write_bytes(before[:100])
    assert "already exists" in tool("repack", path, tmp_path / "broken.ozx", code=1)
    # Out of the archive, the file of the first call is no part of the dataset.
    tool("repack", out, tmp_path / "folder.zarr")
    tool("verify", tmp_path / "folder.zarr")


def group(path, zarr_format):
    """A consolidated group of two arrays."""
    root = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    for name in ["a", "img/b"]:
        root.create_array(name, data=np.arange(4096, dtype="u2").reshape(64, 64), chunks=(16, 16))
    zarr.consolidate_metadata(path)
    return path


def changed(document, change):
    said = json.loads(document.read_text())
    change(said)
    document.write_text(json.dumps(said))


STALE = {
    "an attribute": lambda said: said["metadata"]["a/.zarray"].update(fill_value=7),
    "no node": lambda said: said["metadata"].update({"zz/.zattrs": {}}),
    "the root": lambda said: said["metadata"].pop(".zgroup"),
    "the format": lambda said: said.update(zarr_consolidated_format=2),
    "a list": lambda said: said.update(metadata=[]),
    "a group": lambda said: said["metadata"].update({"a/.zgroup": said["metadata"].pop("a/.zarray")}),
}


@pytest.mark.parametrize("case", [*STALE, "broken"])
def test_a_new_dataset_says_consolidated_metadata_anew(tool, tmp_path, case):
    path = group(tmp_path / "g", 2)
    if case == "broken":
        (path / ".zmetadata").write_text("{")
    else:
        changed(path / ".zmetadata", STALE[case])
    tool("verify", path, code=3)
    tool("repack", path, tmp_path / "o", "--dialect", "zarr2", "--unsharded")
    tool("verify", tmp_path / "o")


def test_consolidated_metadata_that_no_reader_takes_are_damage(tool, tmp_path):
    path = group(tmp_path / "g", 3)
    whole = (path / "zarr.json").read_text()
    for change in [
        lambda said: said["consolidated_metadata"].update(kind="x"),
        lambda said: said["consolidated_metadata"].update(metadata=[]),
        lambda said: said["consolidated_metadata"]["metadata"].update({"a/": {}}),
    ]:
        (path / "zarr.json").write_text(whole)
        changed(path / "zarr.json", change)
        assert "consolidated" in tool("verify", path, code=3)


def test_nothing_new_comes_below_consolidated_metadata(tool, tmp_path):
    path = group(tmp_path / "g", 3)
    assert "has consolidated metadata" in tool("repack", path / "a", path / "c", "--unsharded", code=2)
    tool("verify", path)


def test_an_archive_of_links_is_refused_before_anything_is_written(tool, replay, tmp_path):
    _, path = replay("synthetic", *CAMERA)
    (path / "more").symlink_to("records")
    assert f"{path / 'more'}: is a link" in tool("repack", path, tmp_path / "q.ozx", code=5)
    assert not (tmp_path / "q.ozx").exists() and not (tmp_path / ".q.ozx.repack").exists()


@pytest.mark.parametrize("name", ["zarr.json", "0/zarr.json", "0/c"])
def test_what_links_lead_to_goes_along(tool, replay, tmp_path, name):
    _, path = replay("synthetic", *CAMERA)
    place = tmp_path / "outside"
    (path / name).rename(place)
    (path / name).symlink_to(place)
    tool("repack", path, tmp_path / "o.zarr", "--follow-links", "--codec", "zstd")
    assert not [file for file in (tmp_path / "o.zarr").rglob("*") if file.is_symlink()]
    tool("verify", tmp_path / "o.zarr")


def test_documents_of_groups_around_stay_in_the_dataset(tool, tmp_path):
    path = group(tmp_path / "g", 3)
    (path / "zarr.json").rename(tmp_path / "root.json")
    (path / "zarr.json").symlink_to("../root.json")
    before = (tmp_path / "root.json").read_text()
    assert "link" in tool("repack", path / "a", "--codec", "zstd", code=5)
    assert (path / "zarr.json").is_symlink() and (tmp_path / "root.json").read_text() == before


def test_a_folder_in_the_way_is_not_called_its_own(tool, tmp_path):
    path = group(tmp_path / "g", 3)
    (tmp_path / ".o.repack").mkdir()
    (tmp_path / ".o.repack/mine").write_text("x")
    told = tool("repack", path, tmp_path / "o", "--unsharded", code=1)
    assert "did not make it" in told and "what is finished" not in told


@pytest.mark.parametrize("name", ["out.zarr", "out.ozx"])
def test_what_a_killed_call_has_left_is_done_for_the_same_call_alone(tool, told, tmp_path, name):
    path, out, work = group(tmp_path / "g", 3), tmp_path / name, tmp_path / f".{name}.repack"
    call = ["repack", path, out, "--shard", "32,32"]
    tool(*call)
    # A kill when the tree has its name leaves the journal alone.
    work.mkdir()
    (work / "journal.json").write_text(json.dumps({"version": 1, "synced": True, "arrays": {"a": {}}}))
    for other in [["--codec", "zstd"], ["--chunk", "8,8"], ["--skip", "a"]]:
        assert "not what this call makes" in tool(*call, *other, code=1)
        assert work.exists()
    assert told(*call)["already_done"]
    assert not work.exists()


def test_broken_consolidated_metadata_around_an_array_are_refused_before_it_changes(tool, told, tmp_path):
    path = group(tmp_path / "g", 2)
    whole = (path / ".zmetadata").read_text()
    (path / ".zmetadata").write_text(whole[:100])
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    for options in [["--codec", "gzip", "--no-checksum"], ["--chunk", "32,32"]]:
        message = told("repack", path / "a", "--dialect", "zarr2", *options, code=3)["error"]["message"]
        assert f"{path / '.zmetadata'}: is not JSON" in message and "remove it" in message
        assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
        assert sorted(file.name for file in path.iterdir()) == sorted([".zattrs", ".zgroup", ".zmetadata", "a", "img"])
    (path / ".zmetadata").write_text(whole)
    tool("repack", path / "a", "--dialect", "zarr2", "--codec", "gzip", "--no-checksum")
    tool("verify", path)


def test_a_node_that_consolidated_metadata_hide_is_told_and_kept(tool, told, tmp_path):
    path = group(tmp_path / "g", 3)
    changed(path / "zarr.json", lambda said: said["consolidated_metadata"]["metadata"].pop("a"))
    hidden = "its consolidated metadata don't name \"a\""
    assert hidden in tool("verify", path, code=3)
    for out, options in {"o.zarr": [], "o.ozx": [], "m": None, "two.zarr": ["--dialect", "zarr2"]}.items():
        if options is None:
            told("manifest", path, tmp_path / out)
        else:
            said = told("repack", path, tmp_path / out, "--unsharded", *options)
            assert any(hidden in note for note in said["notes"])
        store = zarr.storage.ZipStore(tmp_path / out, mode="r") if out.endswith("ozx") else tmp_path / out
        names = [name for name, _ in zarr.open_group(store, mode="r").members(max_depth=None)]
        assert sorted(name for name in names if name != "kerchunk.json") == ["a", "img", "img/b"], out
    assert any(hidden in note for note in told("repack", path, "--unsharded")["notes"])
