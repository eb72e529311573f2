"""Links to what is not here, as git-annex and DataLad leave them, links out of a dataset, and what stands in the place
of a folder of chunks."""

import json
import os
import shutil
import subprocess
import zipfile

import numpy as np
import pytest
import zarr
from test_silent_losses import AS_NOBODY, damage

pytestmark = pytest.mark.filterwarnings("ignore")
SENTENCE = "is a link to something that is not here"
PIXELS = np.arange(256, dtype="u2").reshape(16, 16)
FORMATS = [2, 3]
ARRAY = {2: ".zarray", 3: "zarr.json"}
GROUP = {2: ".zgroup", 3: "zarr.json"}


def image(path, zarr_format, consolidated=False):
    """An image of one level, with an array beside it, and each chunk a file in a folder."""
    levels = [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [0.3, 0.3]}]}]
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "yx"]
    multiscales = {"multiscales": [{"axes": axes, "datasets": levels}]}
    version = {"version": "0.4" if zarr_format == 2 else "0.5"}
    if zarr_format == 2:
        multiscales["multiscales"][0].update(version)
    attributes = multiscales if zarr_format == 2 else {"ome": {**version, **multiscales}}
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format, attributes={**attributes, "sample": "mouse 7"})
    keys = {"name": "v2" if zarr_format == 2 else "default", "separator": "/"}
    for name in ["0", "b"]:
        names = {} if zarr_format == 2 else {"dimension_names": ["y", "x"]}
        array = group.create_array(name, shape=(16, 16), chunks=(4, 4), dtype="u2", chunk_key_encoding=keys, **names)
        array[...] = PIXELS
        array.attrs["k"] = 1
    if consolidated:
        zarr.consolidate_metadata(path)
    return path


def gone(path):
    """Lets a link that leads nowhere take the place of a file or a folder."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    path.symlink_to("../.git/annex/objects/q")


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_the_document_of_an_array(told, tmp_path, zarr_format):
    path = image(tmp_path / "g.zarr", zarr_format)
    gone(path / "b" / ARRAY[zarr_format])
    (unread,) = told("info", path)["unreadable"]
    assert unread["path"] == "b" and SENTENCE in unread["reason"]
    assert any(SENTENCE in found["what"] for found in damage(told("verify", path, code=3)))
    assert any(SENTENCE in note for note in told("manifest", path)["notes"])
    assert SENTENCE in told("repack", path, tmp_path / "o.zarr", code=3)["error"]["message"]
    for words in [["info", path / "b"], ["export", path / "b", tmp_path / "o.npy"]]:
        assert SENTENCE in told(*words, code=3)["error"]["message"]


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_the_document_of_a_group(told, tmp_path, zarr_format):
    path = image(tmp_path / "plate/g.zarr", zarr_format)
    zarr.open_group(tmp_path / "plate", mode="a", zarr_format=zarr_format)
    gone(path / GROUP[zarr_format])
    assert SENTENCE in json.dumps(told("info", tmp_path / "plate"))
    assert any(SENTENCE in found["what"] for found in damage(told("verify", tmp_path / "plate", code=3)))
    for words in [["info", path], ["repack", tmp_path / "plate", tmp_path / "o.zarr"]]:
        assert SENTENCE in told(*words, code=3)["error"]["message"]


@pytest.mark.parametrize("node", ["", "0"])
def test_attributes_of_zarr_v2(told, tmp_path, node):
    path = image(tmp_path / "g.zarr", 2)
    gone(path / node / ".zattrs")
    assert any(SENTENCE in found["what"] for found in damage(told("verify", path, code=3)))
    for words in [["export", path / "0", tmp_path / "o.npy"], ["repack", path, tmp_path / "o.zarr"]]:
        assert SENTENCE in told(*words, code=3)["error"]["message"]
    if node:
        assert SENTENCE in json.dumps(told("info", path)["unreadable"])
        assert SENTENCE in json.dumps(told("manifest", path)["notes"])
    else:
        for words in [["info", path], ["manifest", path, tmp_path / "m"]]:
            assert SENTENCE in told(*words, code=3)["error"]["message"]
        assert SENTENCE in json.dumps(told("info", path / "0")["arrays"][0]["notes"])


def test_consolidated_metadata_of_zarr_v2(told, tmp_path):
    path = image(tmp_path / "g.zarr", 2, consolidated=True)
    gone(path / ".zmetadata")
    assert any(SENTENCE in found["what"] for found in damage(told("verify", path, code=3)))


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_an_array_that_is_a_link(told, tmp_path, zarr_format):
    path = image(tmp_path / "g.zarr", zarr_format)
    gone(path / "b")
    unchecked = [found for found in told("verify", path, code=5)["findings"] if found["severity"] == "unchecked"]
    assert any(SENTENCE in found["what"] for found in unchecked)
    for words in [["info", path], ["manifest", path], ["repack", path, tmp_path / "o.zarr", "--unsharded"]]:
        (note,) = [note for note in told(*words)["notes"] if SENTENCE in note]
        assert "g.zarr/b " in note


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_other_links_in_an_array_stay_links(told, tmp_path, zarr_format):
    path, out = image(tmp_path / "g.zarr", zarr_format), tmp_path / "o.zarr"
    (path / "b/README").symlink_to("nowhere")
    (tmp_path / "docs").mkdir()
    (path / "b/docs").symlink_to("../../docs")
    arrays = {array["path"]: array for array in told("info", path)["arrays"]}
    assert arrays["b"]["chunks_present"] == 16 and not arrays["b"]["damaged"]
    told("manifest", path)
    told("export", path / "b", tmp_path / "o.npy")
    told("repack", path, out, "--unsharded", "--codec", "gzip")
    assert os.readlink(out / "b/README") == "nowhere"
    np.testing.assert_array_equal(zarr.open_array(out / "b", mode="r")[...], PIXELS)


@pytest.mark.parametrize("kind", ["dead", "loop"])
@pytest.mark.parametrize("zarr_format", FORMATS)
def test_a_chunk_that_is_a_link_to_nothing(told, tmp_path, zarr_format, kind):
    path = image(tmp_path / "g.zarr", zarr_format)
    name = "0/0/0" if zarr_format == 2 else "0/c/0/0"
    gone(path / name)
    if kind == "loop":
        (path / name).unlink()
        (path / name).symlink_to("0")
    verified = told("verify", path, code=3)
    (found,) = damage(verified)
    assert found["path"] == name and SENTENCE in found["what"]
    assert [array["chunks"] for array in verified["arrays"]] == [15, 16]
    assert SENTENCE in json.dumps(told("info", path)["arrays"][0]["damaged"])
    copy = ["repack", path, tmp_path / "o.zarr", "--codec", "gzip"]
    for words in [["export", path / "0", tmp_path / "o.npy"], copy, ["manifest", path, tmp_path / "m"]]:
        assert SENTENCE in told(*words, code=3)["error"]["message"], words


@pytest.mark.parametrize("kind", ["pipe", "file", "link", "loop"])
@pytest.mark.parametrize("zarr_format", FORMATS)
def test_what_stands_for_a_folder_of_chunks(told, tmp_path, zarr_format, kind):
    path = image(tmp_path / "g.zarr", zarr_format)
    name = "0/0" if zarr_format == 2 else "0/c/0"
    folder = path / name
    gone(folder)
    if kind != "link":
        folder.unlink()
        loop = lambda link: link.symlink_to(link.name)
        make = {"pipe": os.mkfifo, "file": lambda file: file.write_text("not a chunk"), "loop": loop}
        make[kind](folder)
    is_link = kind in ["link", "loop"]
    sentence = SENTENCE if is_link else "is not a folder, and stands in the place of one with chunks"
    verified = told("verify", path, code=5 if is_link else 3)
    (found,) = [found for found in verified["findings"] if found["severity"] != "note"]
    assert found["path"] == name and sentence in found["what"]
    (level,) = [array for array in told("info", path)["arrays"] if array["path"] == "0"]
    assert level["chunks_present"] == 12 and sentence in json.dumps(level["damaged"])
    copy = ["repack", path, tmp_path / "o.zarr", "--codec", "gzip"]
    commands = [["export", path / "0", tmp_path / "o.npy"], copy, ["manifest", path, tmp_path / "m"]]
    for words in commands + ([["pyramid", path, "--levels", "1"]] if zarr_format == 3 else []):
        assert sentence in told(*words, code=3)["error"]["message"], words


def test_pipes_and_files_in_an_archive_hide_no_chunks(told, tmp_path):
    path = image(tmp_path / "g.zarr", 3)
    gone(path / "0/c/0")
    (path / "0/c/0").unlink()
    (path / "0/c/0").write_text("not a chunk")
    with zipfile.ZipFile(tmp_path / "g.zip", "w") as archive:
        for file in sorted(file for file in path.rglob("*") if file.is_file()):
            archive.write(file, file.relative_to(path))
    sentence = "is not a folder, and stands in the place of one with chunks"
    assert sentence in json.dumps(damage(told("verify", tmp_path / "g.zip", code=3)))
    for words in [["export", tmp_path / "g.zip/0", tmp_path / "o.npy"], ["repack", tmp_path / "g.zip", tmp_path / "o"]]:
        assert sentence in told(*words, code=3)["error"]["message"], words


def test_an_export_follows_no_link_out_of_the_group_around(told, tmp_path):
    path = image(tmp_path / "g.zarr", 2)
    (path / ".zattrs").rename(tmp_path / "theirs.json")
    (path / ".zattrs").symlink_to("../theirs.json")
    for words in [["export", path / "0", tmp_path / "o.ome.tif"], ["info", path], ["repack", path, tmp_path / "o"]]:
        assert "a link out of" in told(*words, code=5)["error"]["message"], words
    assert "a link out of" in json.dumps(told("info", path / "0")["arrays"][0]["notes"])
    told("export", path / "0", tmp_path / "o.ome.tif", "--follow-links")


def test_a_pipe_as_attributes_beside_a_zarr_json_is_nobody_s(told, tmp_path):
    path = image(tmp_path / "g.zarr", 3)
    os.mkfifo(path / ".zattrs")
    told("verify", path)
    told("info", path)
    told("manifest", path)
    told("repack", path, tmp_path / "o.zarr", "--unsharded")


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may do anything without setpriv")
def test_folders_without_write_permission_are_replaced(told, tmp_path):
    for above in tmp_path.parents[:-2]:
        above.chmod(above.stat().st_mode | 0o111)
    path = image(tmp_path / "g.zarr", 3)
    (path / "0/c/1").chmod(0o500)
    if AS_NOBODY:
        subprocess.run(["chown", "-R", "65534:65534", tmp_path], check=True)
    told("repack", path / "0", "--codec", "zstd", "--unsharded", before=AS_NOBODY)
    assert not list(path.glob(".*")) and (path / "0/c/1").stat().st_mode & 0o777 == 0o500
    np.testing.assert_array_equal(zarr.open_array(path / "0", mode="r")[...], PIXELS)
