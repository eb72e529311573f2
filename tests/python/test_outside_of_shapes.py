"""What lies outside of an array's shape is worth a note, whatever it is."""

import numpy as np
import pytest
import zarr
from arrays import files

pytestmark = pytest.mark.filterwarnings("ignore")
PIXELS = np.arange(64, dtype="u2").reshape(8, 8)
OUTSIDE = "lies outside the array's shape"
LAST = 2**64 - 1


def array(path, shards):
    zarr.create_array(path, shape=(8, 8), chunks=(2, 2), shards=shards, dtype="u2")[...] = PIXELS
    return path


def assert_only_notes(verified, *paths):
    told = [(finding["severity"], finding["path"]) for finding in verified["findings"]]
    assert told == [("note", path) for path in sorted(paths)], verified["findings"]
    assert all(OUTSIDE in finding["what"] for finding in verified["findings"])


@pytest.mark.parametrize("shards", [None, (4, 4)])
@pytest.mark.parametrize("what", ["file", "folder", "full folder", "dead link"])
def test_whatever_it_is(told, tmp_path, shards, what):
    path = array(tmp_path / "a.zarr", shards)
    place = path / "c/9/9"
    place.parent.mkdir()
    if what == "file":
        place.write_bytes((path / "c/0/0").read_bytes())
    elif what == "dead link":
        place.symlink_to("nowhere")
    else:
        place.mkdir()
        if what == "full folder":
            (place / "x").write_text("x")
    assert_only_notes(told("verify", path), "c/9/9")


@pytest.mark.parametrize("shards", [None, (4, 4)])
@pytest.mark.parametrize("number", [LAST, LAST - 1, 2**62])
def test_places_that_can_t_be_counted(told, tmp_path, shards, number):
    path = array(tmp_path / "a.zarr", shards)
    (path / f"c/0/{number}").write_bytes((path / "c/0/0").read_bytes())
    assert_only_notes(told("verify", path), f"c/0/{number}")


@pytest.mark.parametrize("number", [LAST, 2**62])
def test_such_a_shard_of_an_image_and_such_a_block_of_its_records(told, replay, number):
    _, path = replay("synthetic", "--camera", "64x64xu16", "--frames", "12", "--chunk", "2", "--shard", "4")
    names = [f"0/c/0/0/{number}", f"records/frame_number/c/{number}"]
    for name in names:
        (path / name).write_bytes((path / name).with_name("0").read_bytes())
    assert_only_notes(told("verify", path), *names)
    before = files(path)
    told("recover", path)
    told("recover", path, "--apply")
    assert files(path) == before
