"""Recordings that become several images at once: a plate of wells and fields, or all positions of a recording."""

import json

import numpy as np
import ome_zarr_models.v05
import pytest
import tifffile
import zarr
from ome_0_6 import validated
from readers import assert_same, open_zarr_python
from recordings import GRAY, volume
from test_recording_sets import mm_stack, nd_tiff, ome_set

PLACES = [(10.5, -20.0), (300.0, 4.25), (-7.0, 0.0)]


@pytest.fixture
def film(movie, tmp_path):
    tifffile.imwrite(tmp_path / "in.tif", movie, **GRAY)
    return tmp_path / "in.tif"


def names(rows, columns, fields):
    return [f"{row}/{column + 1}/{field}" for row in rows for column in range(columns) for field in range(fields)]


@pytest.mark.parametrize("version", ["0.5", "0.6"])
@pytest.mark.parametrize("order", ["serial", "random"])
def test_every_field_of_a_plate_gets_the_recording(replay, tool, film, movie, order, version):
    visits = ["--visits", 3, "--visit-order", order]
    report, out = replay(film, "--plate", "2x3", "--fields", 2, *visits, "--loop", 2, "--ome", version)
    fields = names("AB", 3, 2)
    expected = np.concatenate([movie, movie])
    assert [image["path"] for image in report["images"]] == fields
    assert all(image["shape"] == [22, 60, 70] and image["missing"] == [] for image in report["images"])
    assert report["frames_written"] == 22 * 12 and report["bytes_in"] == 12 * expected.nbytes
    assert report["shape"] == [22, 60, 70] and report["shards"] == 12 and report["gb_per_s"] > 0
    assert report["rings"] == 1 and report["threads"] > 1 and report["open_files"] > 1
    # Threads and stages are those of all images.
    commits = [row["count"] for row in report["stages"] if row["stage"] == "commit"]
    assert commits == [22 * 12]
    for field in fields:
        assert_same(open_zarr_python(out / field / "0")[...], expected, field)
    if version == "0.5":
        ome_zarr_models.v05.HCS.from_zarr(zarr.open_group(out, mode="r"))
        plate = zarr.open_group(out, mode="r").attrs["ome"]["plate"]
    else:
        plate = validated("HCS", out)["plate"]
        [validated("Image", out / field) for field in fields]
    assert plate["field_count"] == 2 and len(plate["wells"]) == 6
    assert "sound" in tool("verify", out)


@pytest.mark.parametrize("memory, more", [("128KiB", True), ("64MiB", False)])
def test_rings_beyond_the_memory_that_was_asked_for_are_told(tool, film, tmp_path, memory, more):
    layout = ["--plate", "2x3", "--chunk", "8,32,32", "--shard", "8,64,96", "--no-sync"]
    said = tool("replay", film, tmp_path / "p.zarr", *layout, "--memory", memory, "--json")
    report = json.loads(said.splitlines()[0])
    notes = [note for note in report["notes"] if "rings take" in note and "more than --memory" in note]
    assert (report["rings"] > 1, len(notes)) == (more, int(more)), report["notes"]


def test_the_summary_of_a_plate_tells_of_all_of_it(command, tool, film, tmp_path):
    said = tool("replay", film, tmp_path / "p.zarr", "--plate", "2x2", "--pyramid", "mean", "--levels", 1, "--no-sync")
    for words in ["44 written", "11 x 60 x 70 each, in 4 shards", "4 images on 1 ring", "open files at most", "levels"]:
        assert words in said, said
    assert open_zarr_python(tmp_path / "p.zarr/B/2/0/1").shape == (11, 30, 35)


def test_a_plate_in_one_file(replay, tool, film, movie, tmp_path):
    tool("replay", film, tmp_path / "p.ozx", "--plate", "1x2", "--visits", 2, "-q")
    for field in names("A", 2, 1):
        store = zarr.storage.ZipStore(tmp_path / "p.ozx", mode="r")
        assert_same(zarr.open_array(store, path=f"{field}/0", mode="r")[...], movie)


def place(tool, path):
    """Where an image of pixels of half a micrometer is, along x and y."""
    found = json.loads(tool("info", "--json", path))
    (image,) = [array for array in found["arrays"] if len(array["shape"]) > 1]
    axes = {axis["name"]: axis for axis in image["axes"]}
    assert all((axes[name]["scale"], axes[name]["unit"]) == (0.5, "micrometer") for name in "xy")
    return axes["x"]["translation"], axes["y"]["translation"]


def positions(path, data):
    """An OME-TIFF of images, each at a place of the stage."""
    with tifffile.TiffWriter(path, ome=True) as tif:
        for number, (pixels, (x, y)) in enumerate(zip(data, PLACES)):
            count = len(pixels)
            plane = {"PositionX": [x] * count, "PositionY": [y] * count}
            plane |= {f"Position{axis}Unit": ["µm"] * count for axis in "XY"}
            said = {"axes": "TYX", "Name": f"position {number}", "PhysicalSizeX": 0.5, "PhysicalSizeY": 0.5}
            tif.write(pixels, metadata={**said, "Plane": plane}, **GRAY)
    return path


@pytest.mark.parametrize("visits", [[], ["--visits", 3], ["--visits", 2, "--visit-order", "random"], ["--preload"]])
def test_all_positions_become_images_at_their_places(replay, tool, tmp_path, visits):
    data = [volume(7, 20, 30), volume(5, 20, 30), volume(6, 40, 50)]
    source = positions(tmp_path / "in.ome.tif", data)
    report, out = replay(source, "--series", "all", *visits, "--ome", "0.6")
    assert [image["path"] for image in report["images"]] == ["0", "1", "2"]
    assert [image["shape"][0] for image in report["images"]] == [7, 5, 6] and report["shape"] == []
    assert report["frames_written"] == 18 and report["rings"] == 2
    assert not any("pages" in note for note in report["notes"])
    for number, (pixels, (x, y)) in enumerate(zip(data, PLACES)):
        assert_same(open_zarr_python(out / f"{number}/0")[...], pixels)
        assert place(tool, out / str(number)) == (x, y)
        assert validated("Image", out / str(number))["multiscales"][0]["name"] == f"position {number}"
    ways = validated("Scene", out)["scene"]["coordinateTransformations"]
    assert [way["input"]["path"] for way in ways] == ["0", "1", "2"]


def test_all_positions_of_micro_manager(replay, tool, tmp_path):
    data = volume(2, 4, 3, 2, 20, 30)
    mm_stack(tmp_path / "both_MMStack.ome.tif", data, positions=(0, 1), stage=PLACES)
    _, out = replay(tmp_path / "both_MMStack.ome.tif", "--series", "all")
    for number in (0, 1):
        assert place(tool, out / str(number)) == PLACES[number]
        expected = np.ascontiguousarray(data[number].transpose(0, 2, 1, 3, 4))
        assert_same(open_zarr_python(out / f"{number}/0")[...], expected)
    (tmp_path / "ndtiff").mkdir()
    data = volume(2, 4, 20, 30)
    nd_tiff(tmp_path / "ndtiff", data, ["position", "time"], {"position": ["Pos0", "Pos1"]}, stage=PLACES)
    _, out = replay(tmp_path / "ndtiff", "--series", "all", "--visits", 4)
    for number in (0, 1):
        assert place(tool, out / str(number)) == PLACES[number]
        assert_same(open_zarr_python(out / f"{number}/0")[...], data[number])


def test_what_a_recording_lacks_all_of_its_images_lack(replay, tmp_path):
    data = volume(4, 3, 2, 20, 30)
    first = ome_set(tmp_path, data)
    (tmp_path / "set_t2.ome.tif").unlink()
    report, out = replay(first, "--plate", "1x2", "--visits", 2, code=4)
    assert report["frames_missing"] == 12 and report["missing"] == []
    assert [image["missing"] for image in report["images"]] == [[{"start": 12, "end": 18}]] * 2
    assert sum("set_t2.ome.tif is not there" in note for note in report["notes"]) == 1
    data[2] = 0
    for field in names("A", 2, 1):
        assert_same(open_zarr_python(out / field / "0")[...], np.ascontiguousarray(data.transpose(0, 2, 1, 3, 4)))
    (tmp_path / "set_t3.ome.tif").unlink()
    report, out = replay(first, "--series", "all", code=4)
    assert report["images"][0]["missing"] == [{"start": 12, "end": 24}] and report["frames_missing"] == 12


def test_a_recording_that_is_cut_off_ends_a_plate_with_what_was_there(replay, movie, tmp_path):
    tifffile.imwrite(tmp_path / "whole.tif", movie, **GRAY)
    whole = (tmp_path / "whole.tif").read_bytes()
    (tmp_path / "cut.tif").write_bytes(whole[: len(whole) * 3 // 5])
    report, out = replay(tmp_path / "cut.tif", "--plate", "1x2", code=3)
    assert "cut.tif" in report["error"]["message"]
    frames = report["images"][0]["frames_written"]
    assert 0 < frames < len(movie)
    for field in names("A", 2, 1):
        assert_same(open_zarr_python(out / field / "0")[:frames], movie[:frames])


@pytest.mark.parametrize(
    "options, words",
    [
        (["--visits", 2], "--plate or --series all"),
        (["--visit-order", "random"], "--plate or --series all"),
        (["--fields", 2], "--plate"),
        (["--plate", "2x2", "--visits", 12], "11 frames"),
        (["--plate", "8x12", "--fields", 1000000000], "96000000000 images at once"),
        (["--plate", "129x128"], "16512 images at once"),
        (["--plate", "2"], "8x12"),
        (["--plate", "2x2", "--key", "a"], "--key"),
        (["--plate", "2x2", "--manifest", "kerchunk"], "--manifest"),
        (["--plate", "2x2", "--dma"], "--dma"),
        (["--plate", "2x2", "--soak", "page.html"], "--soak"),
        (["--plate", "2x2", "--series", "all"], "--series all"),
        (["--plate", "2x2", "--dialect", "precomputed"], "zarr3"),
        (["--series", "all", "--roll", "1GB"], "--roll"),
        (["--series", "many"], "nor all"),
    ],
)
def test_what_several_images_can_not_have_is_refused(refused, film, options, words):
    assert words in refused(film, *options, code=2)


def test_a_plate_in_the_way_is_replaced_when_told(replay, command, tool, film, tmp_path):
    out = tmp_path / "p.zarr"
    tool("replay", film, out, "--plate", "2x2", "-q")
    assert "--overwrite" in tool("replay", film, out, "--plate", "1x1", "-q", code=1)
    tool("replay", film, out, "--plate", "1x1", "-q", "--overwrite")
    assert not (out / "B").exists() and (out / "A/1/0").is_dir()
