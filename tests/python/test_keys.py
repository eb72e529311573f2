"""Images at keys of hierarchies that other writers made: their documents stay, and their readers see the image."""

import json
import signal
import subprocess
import time

import numpy as np
import pytest
import yaozarrs
import zarr
from readers import assert_same, open_tensorstore
from test_pyramid import halved, noise, ome_image


def theirs(path):
    """What zarr-python makes: groups with attributes, and an array."""
    root = zarr.open_group(path, mode="w", zarr_format=3)
    root.attrs["study"] = {"title": "theirs", "number": 1.5}
    raw = root.create_group("raw")
    raw.attrs["kept"] = True
    raw.create_array("table", data=np.arange(12).reshape(3, 4))
    return root


def files(path):
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def call(command, source, out, *options):
    return [str(word) for word in [command, "replay", source, out, "--json", "--no-sync", *options]]


def test_another_writer_s_groups_get_images(command, told, tool, tmp_path):
    root = theirs(tmp_path / "study.zarr")
    before = files(tmp_path / "study.zarr")
    movie = noise((7, 20, 30), "u2")
    np.save(tmp_path / "movie.npy", movie)
    for key in ("raw/day/camera", "top"):
        words = ["replay", tmp_path / "movie.npy", tmp_path / "study.zarr", "--no-sync", "--key", key]
        assert told(*words, "--pyramid", "mean", "--levels", 1)["frames_written"] == 7
        # The same hierarchy, by the one who made it.
        again = zarr.open_group(tmp_path / "study.zarr", mode="r")
        assert_same(again[f"{key}/0"][:], movie)
        assert_same(again[f"{key}/1"][:], np.stack([halved(frame, "mean", False) for frame in movie]))
        assert_same(open_tensorstore(tmp_path / "study.zarr" / key / "0").read().result(), movie)
    after = files(tmp_path / "study.zarr")
    assert {file: after[file] for file in before} == before
    assert "day" in again["raw"] and dict(root.attrs) == dict(again.attrs)
    tool("verify", tmp_path / "study.zarr", "-q")
    # zarr-python goes on in it, also with what it wants consolidated.
    zarr.open_group(tmp_path / "study.zarr", mode="a").create_array("raw/day/more", data=np.zeros(3))
    zarr.consolidate_metadata(tmp_path / "study.zarr")
    assert_same(zarr.open_consolidated(tmp_path / "study.zarr")["top/0"][:], movie)
    done = subprocess.run(
        call(command, tmp_path / "movie.npy", tmp_path / "study.zarr", "--key", "late"), capture_output=True, text=True
    )
    assert done.returncode != 0 and "has consolidated metadata" in done.stderr + done.stdout
    assert not (tmp_path / "study.zarr/late").exists()


@pytest.mark.parametrize("options", [[], ["--overwrite"]])
@pytest.mark.parametrize("key", ["raw/table/image", "raw/table", "raw"])
def test_what_is_there_stays(command, tmp_path, key, options):
    theirs(tmp_path / "study.zarr")
    np.save(tmp_path / "movie.npy", noise((2, 20, 30), "u1"))
    before = files(tmp_path / "study.zarr")
    done = subprocess.run(
        call(command, tmp_path / "movie.npy", tmp_path / "study.zarr", "--key", key, *options),
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert files(tmp_path / "study.zarr") == before


def test_a_killed_run_is_recovered_beside_others_arrays(command, tool, tmp_path):
    theirs(tmp_path / "study.zarr")
    before = files(tmp_path / "study.zarr")
    out = tmp_path / "study.zarr/raw/live"
    words = call(command, "synthetic", tmp_path / "study.zarr", "--key", "raw/live", "--frames", 100000, "--unbounded")
    words += ["--camera", "64x64xu16@500", "--memory", "64MiB", "--checkpoint-every", "0.05", "-q"]
    run = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not (out / "0/zarr.json").exists() or open_tensorstore(out / "0").shape[0] < 50:
        assert run.poll() is None
        time.sleep(0.02)
    assert zarr.open_group(tmp_path / "study.zarr", mode="r")["raw/live/0"].shape[0] >= 50
    run.send_signal(signal.SIGKILL)
    run.wait()
    tool("recover", tmp_path / "study.zarr", "--apply")
    tool("verify", tmp_path / "study.zarr", "-q")
    after = files(tmp_path / "study.zarr")
    assert {file: after[file] for file in before} == before


@pytest.mark.parametrize("dialect", ["zarr2", "zarr2-sharded", "zarr3-transformer", "precomputed"])
@pytest.mark.parametrize("only", ["deep/a", "deep/a/0"])
def test_an_image_that_becomes_a_dataset_takes_its_records_along_and_nothing_of_others(tool, tmp_path, dialect, only):
    many = tmp_path / "many.zarr"
    for key in ["deep/a", "b"]:
        camera = ["--camera", "32x24xu16", "--frames", 3, "--no-sync", "--chunk", "1,8,8"]
        tool("replay", "synthetic", many, "--key", key, *camera)
    tool("repack", many, tmp_path / "out", "--dialect", dialect, "--only", only, "--codec", "none")
    tool("verify", tmp_path / "out", "-q")
    made, source = files(tmp_path / "out"), files(many)
    for field in ["frame_number", "host_timestamp", "device_timestamp"]:
        assert (
            made[tmp_path / "out/records" / field / "zarr.json"]
            == source[many / "deep/a/records" / field / "zarr.json"]
        )
    assert not [folder for folder in ["deep", "a", "b"] if (tmp_path / "out" / folder).exists()]
    tool("repack", tmp_path / "out", tmp_path / "back", "--shard", "1,24,32")
    tool("verify", tmp_path / "back", "-q")
    said = tool("info", tmp_path / "back")
    assert "records/frame_number" in said


# What an importer of OME-Zarr would warn of is that the image does not say itself that it is labels.
@pytest.mark.filterwarnings("ignore:.*LabelImage")
@pytest.mark.parametrize("names", [["cells"], [], None])
def test_labels_that_nobody_lists_are_told_with_what_to_add(told, tmp_path, names):
    path = ome_image(tmp_path / "i.zarr", noise((3, 64, 80), "u2"), (1, 32, 32), axes="zyx")
    if names is not None:
        zarr.open_group(path / "labels", mode="w", zarr_format=3).attrs["ome"] = {"version": "0.5", "labels": names}
        [ome_image(path / "labels" / name, noise((3, 64, 80), "u4"), (1, 32, 32), axes="zyx") for name in names]
    np.save(tmp_path / "l.npy", noise((3, 64, 80), "u4"))
    call = ["replay", tmp_path / "l.npy", path, "--key", "labels/nuclei", "--axes", "z,y,x", "--no-sync"]
    (note,) = [note for note in told(*call)["notes"] if "labels" in note]
    assert str(path / "labels/zarr.json") in note
    document = json.loads((path / "labels/zarr.json").read_text())
    if names is None:
        document["attributes"] |= json.loads("{" + note.split("put ", 1)[1].removesuffix(" into its attributes") + "}")
    else:
        assert note.endswith('add "nuclei" to attributes.ome.labels')
        document["attributes"]["ome"]["labels"].append("nuclei")
    (path / "labels/zarr.json").write_text(json.dumps(document))
    yaozarrs.validate_zarr_store(str(path))
    # Now it is listed.
    assert not [note for note in told(*call, "--overwrite")["notes"] if "labels" in note]
    # Beside an image, nothing is labels.
    call[4] = "other"
    assert not [note for note in told(*call)["notes"] if "labels" in note]
