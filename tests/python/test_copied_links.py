"""Arrays that a new dataset has as they are: no link in the place of a chunk leads elsewhere in the copy."""

import json
import os
import shutil

import numpy as np
import pytest
import zarr
from arrays import files

pytestmark = pytest.mark.filterwarnings("ignore")
PIXELS = np.arange(1, 65, dtype="u2").reshape(8, 8)
OUT, DEAD = "a link out of", "is a link to something that is not here"
NO_FOLDER, NO_FILE = "is not a folder, and stands in the place of one with chunks", "is not a regular file"
NOT_CHECKED = "chunks are not checked; verify checks them"


def group(path):
    """Repacked into a new dataset, `files` stays as it is beside `sharded`."""
    root = zarr.open_group(path, mode="w")
    for name, shards in [("sharded", (4, 4)), ("files", None)]:
        root.create_array(name, shape=(8, 8), chunks=(2, 2), shards=shards, dtype="u2")[...] = PIXELS
    return path


def group_of_zarr2(path):
    """Encoded anew, only `img` changes."""
    root = zarr.open_group(path, mode="w", zarr_format=2)
    root.create_array("img", shape=(8, 8), chunks=(4, 4), dtype="u2")[...] = PIXELS
    root.create_array("time", shape=(8,), chunks=(4,), dtype="u2")[...] = PIXELS[0]
    root.create_array("scalar", shape=(), chunks=(), dtype="u2")[...] = 7
    return path


def annexed(place, annex):
    """Moves what stands there out of the dataset, as git-annex does, and leaves a link that leads there."""
    annex.mkdir(exist_ok=True)
    key = annex / f"K{len(list(annex.iterdir()))}"
    shutil.move(place, key)
    place.symlink_to(os.path.relpath(key, place.parent))
    return key


def spoilt(place, what):
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    if what == "folder":
        place.mkdir()
    elif what == "file":
        place.write_text("no folder")
    else:
        place.symlink_to("nowhere" if what == "dead" else place.name)


def assert_refused(told, *words, code, sentence):
    message = told("repack", *words, code=code)["error"]["message"]
    assert sentence in message, message
    assert not words[1].exists() and not list(words[1].parent.glob(".*"))


def assert_real(path):
    assert not [file for file in path.rglob("*") if file.is_symlink()]


@pytest.mark.parametrize("place", ["c/0/0", "c/1", "c"])
def test_links_out_of_the_dataset(told, tmp_path, place):
    path, out = group(tmp_path / "ds/x.zarr"), tmp_path / "out/a/y.zarr"
    out.parent.mkdir(parents=True)
    annexed(path / "files" / place, tmp_path / "annex")
    for more in [[], ["--skip", "files"]]:
        assert_refused(told, path, out, *more, code=5, sentence=OUT)
        told("repack", path, out, *more, "--follow-links")
        assert_real(out)
        assert np.array_equal(zarr.open_array(out / "files", mode="r")[...], PIXELS)
        shutil.rmtree(out)
    told("repack", path, tmp_path / "y.ozx", "--follow-links")
    told("verify", tmp_path / "y.ozx")


@pytest.mark.parametrize("name", ["time/0", "scalar/0", "time/.zattrs"])
def test_links_out_of_flat_arrays_of_zarr_v2(told, tmp_path, name):
    path, out = group_of_zarr2(tmp_path / "ds/x.zarr"), tmp_path / "out/a/y.zarr"
    out.parent.mkdir(parents=True)
    annexed(path / name, tmp_path / "annex")
    call = [path, out, "--dialect", "zarr2", "--codec", "zstd"]
    assert_refused(told, *call, code=5, sentence=OUT)
    assert NOT_CHECKED not in json.dumps(told("repack", *call, "--follow-links")["notes"])
    assert_real(out)
    again = zarr.open_group(out, mode="r", zarr_format=2)
    assert np.array_equal(again["time"][...], PIXELS[0]) and again["scalar"][()] == 7


@pytest.mark.parametrize(
    ("place", "what", "sentence"),
    [
        ("c/0/0", "dead", DEAD),
        ("c/0/0", "loop", DEAD),
        ("c/0/0", "folder", NO_FILE),
        ("c/0", "dead", DEAD),
        ("c/0", "loop", DEAD),
        ("c/0", "file", NO_FOLDER),
        ("c", "dead", DEAD),
        ("c", "file", NO_FOLDER),
    ],
)
@pytest.mark.parametrize("options", [[], ["--skip", "files"], ["--follow-links"]])
def test_what_hides_chunks(told, tmp_path, place, what, sentence, options):
    path = group(tmp_path / "x.zarr")
    spoilt(path / "files" / place, what)
    assert_refused(told, path, tmp_path / "y.zarr", *options, code=3, sentence=sentence)
    # What is left alone loses nothing.
    told("repack", path, "--skip", "files", "--codec", "gzip")


@pytest.mark.parametrize("name", ["files/c/0/0", "files/c/0", "files/docs"])
@pytest.mark.parametrize("what", ["dead", "out"])
def test_links_in_an_array_that_is_not_read(told, tmp_path, name, what):
    path, out = group(tmp_path / "x.zarr"), tmp_path / "y.zarr"
    (path / "files/docs").write_text("mine")
    document = json.loads((path / "files/zarr.json").read_text())
    document["codecs"] = [{"name": "unheard-of"}]
    (path / "files/zarr.json").write_text(json.dumps(document))
    before = files(path / "files")
    call = [path, out, "--skip", "files"]
    told("repack", *call)
    assert files(out / "files") == before
    shutil.rmtree(out)
    spoilt(path / name, "dead") if what == "dead" else annexed(path / name, tmp_path / "annex")
    code, sentence = (3, DEAD) if what == "dead" else (5, OUT)
    assert_refused(told, *call, code=code, sentence=sentence)
    if what == "out":
        told("repack", *call, "--follow-links")
        assert_real(out)
        assert files(out / "files") == before


@pytest.mark.parametrize("what", ["dead", "out"])
def test_advice_to_skip_what_is_behind_a_link_is_for_calls_in_place(told, tmp_path, what):
    path, out = group(tmp_path / "x.zarr"), tmp_path / "y.zarr"
    document = path / "files/zarr.json"
    spoilt(document, "dead") if what == "dead" else annexed(document, tmp_path / "annex")
    code, sentence = (3, DEAD) if what == "dead" else (5, OUT)
    assert_refused(told, path, out, code=code, sentence="to repack what is beside it in place, add --skip files")
    assert_refused(told, path, out, "--skip", "files", code=code, sentence=sentence)
    told("repack", path, "--skip", "files", "--codec", "gzip")


@pytest.mark.parametrize("how", ["relative", "absolute", "out and in again"])
@pytest.mark.parametrize("name", ["c/0/0", "c/0"])
def test_links_within_a_copied_array(told, tmp_path, name, how):
    path, out = group(tmp_path / "ds/x.zarr"), tmp_path / "out/a/y.zarr"
    out.parent.mkdir(parents=True)
    link, end = path / "files" / name, path / "files/kept"
    shutil.move(link, end)
    ways = {"relative": os.path.relpath(end, link.parent), "absolute": end}
    above = "../" * len(link.parent.relative_to(tmp_path).parts)
    ways["out and in again"] = above + str(end.relative_to(tmp_path))
    link.symlink_to(ways[how])
    told("repack", path, out)
    shutil.rmtree(path)
    copied = out / "files" / name
    assert copied.is_symlink() == (how != "out and in again")
    assert np.array_equal(zarr.open_array(out / "files", mode="r")[...], PIXELS)


@pytest.mark.parametrize("name", ["c/0/0", "c/0", "zarr.json"])
@pytest.mark.parametrize("way", ["relative", "absolute"])
def test_links_to_what_becomes_something_else(told, tmp_path, name, way):
    path, out = tmp_path / "x.zarr", tmp_path / "y.zarr"
    root = zarr.open_group(path, mode="w")
    for array in "ab":
        root.create_array(array, shape=(8, 8), chunks=(2, 2), dtype="u2")[...] = PIXELS
    link, end = path / "b" / name, path / "a" / name
    shutil.rmtree(link) if link.is_dir() else link.unlink()
    link.symlink_to(end if way == "absolute" else os.path.relpath(end, link.parent))
    told("repack", path, out, "--only", "a", "--codec", "gzip")
    shutil.rmtree(path)
    assert_real(out)
    told("verify", out)
    for array in "ab":
        assert np.array_equal(zarr.open_array(out / array, mode="r")[...], PIXELS)


def test_chunks_that_are_not_checked_are_told(told, tool, tmp_path):
    path = group(tmp_path / "x.zarr")
    (path / "files/c/0/0").write_bytes(b"no chunk")
    (note,) = [note for note in told("repack", path, tmp_path / "y.zarr")["notes"] if NOT_CHECKED in note]
    assert note.startswith('the array "files" is copied as it is, and its')
    assert (tmp_path / "y.zarr/files/c/0/0").read_bytes() == b"no chunk"
    told("verify", tmp_path / "y.zarr", code=3)
    # What is encoded again is read, and what stays in place nobody takes for new.
    assert "files/c/0/0" in tool("repack", path, tmp_path / "z.zarr", "--codec", "gzip", code=3)
    assert NOT_CHECKED not in json.dumps(told("repack", path, "--skip", "files", "--codec", "gzip")["notes"])


@pytest.mark.parametrize("way", ["../x.zarr/.store/{}", "../../ds/x.zarr/.store/{}", ".store/../../x.zarr/.store/{}"])
def test_links_that_lead_out_and_in_again(told, tool, tmp_path, way):
    path, out = group(tmp_path / "ds/x.zarr"), tmp_path / "far/y.zarr"
    (path / ".store").mkdir(), out.parent.mkdir()
    for name in ["files", "zarr.json"]:
        shutil.move(path / name, path / ".store" / name)
        (path / name).symlink_to(way.format(name))
    told("repack", path, out, "--only", "sharded", "--codec", "gzip")
    shutil.rmtree(path)
    assert np.array_equal(zarr.open_group(out, mode="r")["files"][...], PIXELS)
    tool("verify", out)


@pytest.mark.parametrize("name, end", [("c/0/1", "c/0/0"), ("c", "c")])
def test_what_others_lead_to_is_not_changed_in_place(told, tmp_path, name, end):
    path = tmp_path / "x.zarr"
    root = zarr.open_group(path, mode="w")
    for array in "st":
        root.create_array(array, shape=(8, 8), chunks=(2, 2), shards=(4, 4), dtype="u2")[...] = PIXELS
    link = path / "s" / name
    shutil.rmtree(link) if link.is_dir() else link.unlink()
    link.symlink_to(os.path.relpath(path / "t" / end, link.parent))
    before, pixels = files(path), root["s"][...]
    message = told("repack", path, "--skip", "s", "--codec", "zstd", code=3)["error"]["message"]
    assert str(link) in message and "an array that is to change" in message and files(path) == before
    # Both together are.
    told("repack", path, "--codec", "zstd")
    assert np.array_equal(zarr.open_group(path, mode="r")["s"][...], pixels)


@pytest.mark.parametrize("options", [["--codec", "gzip"], ["--order", "morton"], []])
def test_nothing_outside_is_changed_in_place(told, tmp_path, options):
    path, outside = tmp_path / "x.zarr", tmp_path / "outside"
    group(path), group(path / "sub")
    shutil.move(path / "sub", outside)
    (path / "sub").symlink_to("../outside")
    before = files(tmp_path)
    message = told("repack", path, *options, "--follow-links", code=3)["error"]["message"]
    assert "a call in place changes nothing outside of it" in message and files(tmp_path) == before
    told("repack", path, tmp_path / "y.zarr", *options, "--follow-links")
