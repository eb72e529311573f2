"""What is not there: a shard that somebody deleted, an array that a document promises, frames that never came. Every
command says so, and what is copied does not look whole."""

import json
import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
import zarr
from readers import assert_same, open_zarr_python

LAYOUT = ["--chunk", "2,16,16", "--shard", "4,32,32"]
LOST = "holds 64 chunks, and its writer counted 72: files are missing"


def pixels(shape=(12, 40, 50), seed=3):
    return np.random.default_rng(seed).integers(1, 60000, shape, dtype="u2")


@pytest.fixture
def recorded(command, tmp_path):
    """A dataset of 12 frames in 12 shards, and its pixels."""
    data = pixels()
    np.save(tmp_path / "a.npy", data)
    call = [command, "replay", tmp_path / "a.npy", tmp_path / "r.zarr", "--no-sync", "-q", *LAYOUT]
    subprocess.run([str(word) for word in call], check=True)
    return tmp_path / "r.zarr", data


# One shard of frames 4 to 7, or all of them.
LOSSES = {"a shard": ["0/c/1/0/1"], "a folder": ["0/c/1"]}


def lose(path, what):
    for name in LOSSES[what]:
        shutil.rmtree(path / name) if (path / name).is_dir() else (path / name).unlink()


def damage(verified):
    return [finding["what"] for finding in verified["findings"] if finding["severity"] == "damage"]


def books(path):
    return json.loads((path / "zarr.json").read_text())["attributes"]["shardwright"]


@pytest.mark.parametrize("what", LOSSES)
@pytest.mark.parametrize("of", ["a run", "a repacked one"])
def test_a_deleted_shard_is_missed_by_all(told, tool, recorded, tmp_path, what, of):
    path, data = recorded
    if of == "a repacked one":
        told("repack", path, tmp_path / "k.zarr", "--codec", "zstd")
        path = tmp_path / "k.zarr"
    lose(path, what)
    sentence = LOST if what == "a shard" else LOST.replace("64", "48")
    assert sentence in damage(told("verify", path, code=3))
    (image,) = [array for array in told("info", path)["arrays"] if array["path"] == "0"]
    assert image["lost"] == sentence
    assert ", complete\n" not in tool("info", path) and sentence in tool("info", path)
    if of == "a run":
        (recovered,) = told("recover", path)["images"]
        assert recovered["lost"] == sentence
        assert (recovered["frames_missing"], recovered["missing"]) == (4, [{"start": 4, "end": 8}])
        assert "none missing" not in tool("recover", path)
    report = told("replay", path, tmp_path / "x.zarr", "--no-sync", code=4)
    assert (report["frames_missing"], report["missing"]) == (4, [{"start": 4, "end": 8}])
    assert any(sentence in note for note in report["notes"])
    assert books(tmp_path / "x.zarr")["missing"] == [[4, 8]]
    there = [number for number in range(12) if not 4 <= number < 8]
    assert_same(open_zarr_python(tmp_path / "x.zarr/0")[:][there], data[there])


@pytest.mark.parametrize("what", LOSSES)
def test_a_manifest_of_what_lost_a_shard_counts_as_its_dataset_does(told, tool, recorded, tmp_path, what):
    path, data = recorded
    lose(path, what)
    sentence = LOST if what == "a shard" else LOST.replace("64", "48")
    out = tmp_path / "r.manifest.zarr"
    assert any(sentence in note for note in told("manifest", path)["notes"])
    assert sentence in damage(told("verify", out, code=3))
    assert sentence in tool("info", out)
    assert sentence in told("repack", out, tmp_path / "k.zarr", "--shard", "4,32,32", code=3)["error"]["message"]
    report = told("replay", out, tmp_path / "x.zarr", "--no-sync", code=4)
    assert report["frames_missing"] == 4 and any(sentence in note for note in report["notes"])
    told("repack", out, tmp_path / "k.zarr", "--shard", "4,32,32", "--incomplete")
    assert books(tmp_path / "k.zarr")["missing"] == [[4, 8]]
    told("verify", tmp_path / "k.zarr")


def test_a_manifest_of_a_whole_dataset_is_sound(told, recorded, tmp_path):
    path, _ = recorded
    assert told("manifest", path)["notes"] == []
    assert damage(told("verify", tmp_path / "r.manifest.zarr")) == []
    assert told("replay", tmp_path / "r.manifest.zarr", tmp_path / "x.zarr", "--no-sync")["frames_missing"] == 0


WAYS = {
    "as it is": [],
    "encoded again": ["--codec", "zstd"],
    "cut again": ["--chunk", "3,20,20", "--shard", "6,40,60"],
    "unsharded": ["--unsharded"],
    "of the draft": ["--dialect", "zarr3-transformer", "--codec", "zstd"],
    "of Zarr v2": ["--dialect", "zarr2"],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("in_place", [False, True])
def test_what_is_given_up_is_missing_in_the_books(told, recorded, tmp_path, way, in_place):
    path, data = recorded
    if in_place and "--dialect" in WAYS[way]:
        return
    lose(path, "a shard")
    out = path if in_place else tmp_path / "k.zarr"
    call = ["repack", path, *([] if in_place else [out]), *WAYS[way], "--incomplete"]
    notes = told(*call)["notes"]
    assert any("8 chunks that its writer counted are not there; 4 frames" in note for note in notes), notes
    verified = told("verify", out)
    assert damage(verified) == []
    (image,) = [array for array in told("info", out)["arrays"] if array["path"] == "0"]
    said = "4 frames are missing or lack chunks; what is missing reads as the fill value"
    assert image["lost"] is None and said in image["notes"]
    numbers = open_zarr_python(out / "records/frame_number")[:]
    assert list(numbers) == [0, 1, 2, 3, -3, -3, -3, -3, 8, 9, 10, 11]
    # What is left of the frames is there.
    told("export", out, tmp_path / "o.npy")
    expected = data.copy()
    expected[4:8, :32, 32:] = 0
    assert_same(np.load(tmp_path / "o.npy"), expected)
    # And nobody who copies the copy takes it for whole.
    report = told("replay", out, tmp_path / "x.zarr", "--no-sync", code=4)
    assert report["missing"] == [{"start": 4, "end": 8}]
    # Made again, the call has nothing to do.
    told(*call)
    told("verify", out)


def test_dark_frames_are_not_lost(told, tmp_path):
    data = pixels()
    data[4:8] = 0
    np.save(tmp_path / "a.npy", data)
    told("replay", tmp_path / "a.npy", tmp_path / "r.zarr", "--no-sync", *LAYOUT)
    report = told("replay", tmp_path / "r.zarr", tmp_path / "x.zarr", "--no-sync")
    assert report["frames_missing"] == 0 and report["notes"] == []
    (image,) = told("recover", tmp_path / "r.zarr")["images"]
    assert (image["lost"], image["frames_missing"]) == (None, 0)


# What documents promise.


def promising(path, zarr_format):
    """A group of arrays that consolidated metadata name."""
    root = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    for name in ["a", "img/0", "img/1"]:
        root.create_array(name, data=pixels((4, 32, 32)), chunks=(2, 16, 16))
    zarr.consolidate_metadata(path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("gone", ["a", "img/1", "img"])
def test_consolidated_metadata_promise_arrays(told, tmp_path, zarr_format, gone):
    promising(tmp_path / "g.zarr", zarr_format)
    told("verify", tmp_path / "g.zarr")
    shutil.rmtree(tmp_path / "g.zarr" / gone)
    found = damage(told("verify", tmp_path / "g.zarr", code=3))
    assert any(f'its consolidated metadata name "{gone}", which is not there' in what for what in found), found


@pytest.mark.filterwarnings("ignore")
def test_consolidated_metadata_that_can_t_be_read_are_damage(told, tmp_path):
    promising(tmp_path / "g.zarr", 2)
    (tmp_path / "g.zarr/.zmetadata").write_text("{")
    (what,) = damage(told("verify", tmp_path / "g.zarr", code=3))
    assert "consolidated metadata can't be read" in what


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("gone", ["A/1", "A/1/1", "A/1/0/1", "A/1/0/labels/cells"])
def test_plates_wells_levels_and_labels_are_promises(told, tmp_path, zarr_format, gone):
    said = {
        "": {"plate": {"wells": [{"path": "A/1"}, {"path": "A/2"}]}},
        "A": {},
        "A/1": {"well": {"images": [{"path": "0"}, {"path": "1"}]}},
        "A/2": {"well": {"images": [{"path": "0"}]}},
        "A/1/0/labels": {"labels": ["cells"]},
    }
    for image in ["A/1/0", "A/1/1", "A/2/0", "A/1/0/labels/cells"]:
        said[image] = {"multiscales": [{"datasets": [{"path": "0"}, {"path": "1"}]}]}
    root = zarr.open_group(tmp_path / "p.zarr", mode="w", zarr_format=zarr_format)
    for name, ome in said.items():
        group = root.require_group(name) if name else root
        group.attrs.update({"ome": ome} if zarr_format == 3 else ome)
        for level in ["0", "1"] if "multiscales" in ome else []:
            group.create_array(level, data=pixels((2, 16, 16)), chunks=(2, 16, 16))
    told("verify", tmp_path / "p.zarr")
    shutil.rmtree(tmp_path / "p.zarr" / gone)
    (what,) = damage(told("verify", tmp_path / "p.zarr", code=3))
    assert "its attributes name" in what and gone.split("/", 1)[-1].rsplit("/")[-1] in what


def test_a_list_of_images_is_a_promise(told, tmp_path):
    root = zarr.open_group(tmp_path / "g.zarr", mode="w")
    root.create_group("OME").attrs["ome"] = {"version": "0.5", "series": ["left", "right"]}
    for name in ["left", "right"]:
        root.create_group(name).create_array("0", data=pixels((2, 16, 16)), chunks=(2, 16, 16))
    told("verify", tmp_path / "g.zarr")
    shutil.rmtree(tmp_path / "g.zarr/right")
    (what,) = damage(told("verify", tmp_path / "g.zarr", code=3))
    assert 'it lists an image "right" beside it, which is not there' in what


def test_a_level_that_is_a_group_is_no_array(told, tmp_path):
    root = zarr.open_group(tmp_path / "g.zarr", mode="w")
    root.attrs["ome"] = {"multiscales": [{"datasets": [{"path": "0"}]}]}
    root.create_group("0")
    (what,) = damage(told("verify", tmp_path / "g.zarr", code=3))
    assert 'name an array "0", which is a group' in what


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_folder_that_nobody_may_look_into_is_told(told, tmp_path, zarr_format):
    promising(tmp_path / "g.zarr", zarr_format)
    # What root may is more than the mode says.
    capabilities = "-dac_override,-dac_read_search"
    as_others = ["setpriv", "--bounding-set", capabilities] if os.geteuid() == 0 else []
    (tmp_path / "g.zarr/a").chmod(0)
    try:
        found = damage(told("verify", tmp_path / "g.zarr", code=3, before=as_others))
        assert any("Permission denied" in what for what in found), found
        (unreadable,) = told("info", tmp_path / "g.zarr", before=as_others)["unreadable"]
        assert unreadable["path"] == "a" and "Permission denied" in unreadable["reason"]
        notes = told("manifest", tmp_path / "g.zarr", before=as_others)["notes"]
        assert any('"a" is left out' in note and "Permission denied" in note for note in notes), notes
    finally:
        (tmp_path / "g.zarr/a").chmod(0o755)


# What was never finished.


def test_a_manifest_of_a_killed_run_says_so(command, told, tmp_path):
    path = tmp_path / "r.zarr"
    call = [command, "replay", "synthetic", path, "--camera", "64x64xu16@100", "--frames", 5000, "-q"]
    run = subprocess.Popen([str(word) for word in [*call, "--chunk", "1", "--shard", "8"]])
    while not any((path / "0/c").rglob("0")):
        assert run.poll() is None
        time.sleep(0.05)
    run.kill()
    run.wait()
    notes = told("manifest", path)["notes"]
    assert any("its writer did not finish" in note for note in notes), notes


def test_planned_frames_that_never_came_are_told(command, told, tool, tmp_path):
    path = tmp_path / "r.zarr"
    call = [command, "replay", "synthetic", path, "--camera", "64x64xu16@10", "--frames", 1000, "--no-sync", "-q"]
    run = subprocess.Popen([str(word) for word in [*call, "--chunk", "1", "--shard", "8"]])
    while not (path / "0/c").exists():
        assert run.poll() is None
        time.sleep(0.05)
    # Some of a hundred seconds.
    time.sleep(2)
    run.send_signal(signal.SIGINT)
    assert run.wait() == 130
    came = books(path)["frames"]
    assert 0 < came < 1000
    sentence = f"{came} of 1000 planned frames came"
    assert sentence in tool("info", path)
    notes = [finding["what"] for finding in told("verify", path)["findings"] if finding["severity"] == "note"]
    assert sentence in notes
    assert any(sentence in note for note in told("manifest", path)["notes"])
    # There is no room for the others in the array, so that nothing is missing in it.
    report = told("replay", path, tmp_path / "x.zarr", "--no-sync")
    assert report["frames_missing"] == 0 and any(sentence in note for note in report["notes"])
