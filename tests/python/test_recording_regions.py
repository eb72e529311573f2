"""The part of a sensor that a recording is of: kept where Micro-Manager says it, refused or padded where it moves, and
refused where its size changes."""

import json
import struct

import numpy as np
import pytest
import tifffile
import zarr

from recordings import GRAY, assert_replayed, volume
from test_recording_sets import nd_tiff

ROI = "100-200-30-20"
KEPT = {"x": 100, "y": 200, "width": 30, "height": 20}


def single_images(folder, data, regions):
    metadata = {"Summary": {"PixelSize_um": 0.5}}
    for t, (image, region) in enumerate(zip(data, regions, strict=True)):
        name = f"img_{t:09}_DAPI_000.tif"
        tifffile.imwrite(folder / name, image, **GRAY)
        metadata[f"FrameKey-{t}-0-0"] = {"FileName": name, "ROI": region}
    (folder / "metadata.txt").write_text(json.dumps(metadata))
    return folder


def stack(folder, data, regions):
    path = folder / "run_MMStack_Pos0.ome.tif"
    with tifffile.TiffWriter(path, ome=True) as tif:
        tags = [(51123, "s", 0, json.dumps({"ROI": regions[0]}), True)]
        tif.write(data, metadata={"axes": "TYX"}, extratags=tags, **GRAY)
    return path


def pages(folder, data, regions):
    path = folder / "run.tif"
    with tifffile.TiffWriter(path) as tif:
        for image, region in zip(data, regions, strict=True):
            tags = [(51123, "s", 0, json.dumps({"ROI": region}), True)]
            tif.write(image, contiguous=False, metadata=None, extratags=tags, **GRAY)
    return path


def nd(folder, data, regions):
    nd_tiff(folder, data, ["time"])
    path = folder / "run_NDTiffStack.tif"
    index, file = bytearray((folder / "NDTiff.index").read_bytes()), path.read_bytes()
    entry = len(index) // len(data)
    for number, region in enumerate(regions):
        said = json.dumps({"ROI": region}).encode()
        struct.pack_into("<3I", index, (number + 1) * entry - 12, len(file), len(said), 0)
        file += said
    (folder / "NDTiff.index").write_bytes(index)
    path.write_bytes(file)
    return folder


def attribute(out):
    return zarr.open(out, mode="r").attrs.asdict().get("camera_roi")


@pytest.mark.parametrize("write", [single_images, stack, nd])
def test_the_region_of_the_sensor_is_kept(replay, tmp_path, write):
    data = volume(4, 20, 30)
    source = write(tmp_path, data, [ROI] * 4)
    _, out = replay(source)
    assert_replayed(out, data, "tyx")
    assert attribute(out) == KEPT
    assert attribute(replay(source, "--bare")[1]) is None
    assert attribute(replay(source, "--plate", "1x1")[1] / "A/1/0") == KEPT


@pytest.mark.parametrize("said", ["0-0-64-64", "100-200-30", "a-b-30-20", None, [100, 200, 30, 20]])
def test_a_region_that_is_not_that_of_the_frames_is_not_kept(replay, tmp_path, said):
    _, out = replay(stack(tmp_path, volume(4, 20, 30), [said]))
    assert attribute(out) is None


@pytest.mark.parametrize("write", [single_images, pages, nd])
def test_frames_of_a_region_that_moves_are_refused_or_padded_or_taken_as_they_are(replay, refused, tmp_path, write):
    data = volume(4, 20, 30)
    (tmp_path / "run").mkdir()
    source = write(tmp_path / "run", data, [ROI, ROI, "101-196-30-20", ROI])
    said = refused(source, code=2)
    assert "region of interest moves (100-200-30-20 and 101-196-30-20 in" in said and "--moving-roi pad" in said
    report, out = replay(source, "--moving-roi", "ignore")
    assert_replayed(out, data, "tyx")
    assert attribute(out) is None
    assert any("region of interest moves" in note for note in report["notes"])
    places = np.array([[4, 0], [4, 0], [0, 1], [4, 0]])
    padded = np.zeros((4, 24, 31), data.dtype)
    for frame, (y, x), part in zip(padded, places, data, strict=True):
        frame[y : y + 20, x : x + 30] = part
    for options in ([], ["--preload"], ["--dma"]):
        _, out = replay(source, "--moving-roi", "pad", *options)
        assert_replayed(out, padded, "tyx")
        assert attribute(out) == {"x": 100, "y": 196, "width": 31, "height": 24}
        record = [zarr.open(out / "records" / f"roi_{name}", mode="r")[:4] for name in ("y", "x", "height", "width")]
        assert np.array_equal(np.stack(record, axis=1), np.hstack([places, np.full((4, 2), [20, 30])]))
    assert "--bare" in refused(source, "--moving-roi", "pad", "--bare", code=2)


def pattern(out):
    return zarr.open(out, mode="r").attrs["bayer_pattern"]


def test_the_pattern_of_colours_is_that_of_the_first_frame_wherever_it_stands(replay, refused, tmp_path):
    data = volume(4, 20, 30)
    cases = {
        "even": (["102-200-30-20", ROI, ROI, ROI], "GRBG"),
        "columns": ([ROI, "99-200-30-20", ROI, ROI], "RGGB"),
        "rows": ([ROI, ROI, ROI, "100-197-30-20"], "BGGR"),
        "first": (["101-201-30-20", ROI, ROI, ROI], "GBRG"),
    }
    for name, (regions, padded) in cases.items():
        (tmp_path / name).mkdir()
        source = nd(tmp_path / name, data, regions)
        assert pattern(replay(source, "--moving-roi", "pad", "--bayer", "GRBG")[1]) == padded, name
        options = ["--moving-roi", "ignore", "--bayer", "GRBG"]
        if name == "even":
            assert pattern(replay(source, *options)[1]) == "GRBG"
        else:
            said = refused(source, *options, code=2)
            assert "moves by an odd number of pixels" in said and "--moving-roi pad" in said
        replay(source, "--moving-roi", "ignore")
    # From the other end of the padded image, whose 23 rows are an odd number.
    options = ["--moving-roi", "pad", "--orientation", "flip-vertical", "--bayer", "GRBG"]
    assert pattern(replay(tmp_path / "rows", *options)[1]) == "BGGR"
    (tmp_path / "still").mkdir()
    assert pattern(replay(nd(tmp_path / "still", data, ["101-201-30-20"] * 4), "--bayer", "GRBG")[1]) == "GRBG"


def test_regions_that_differ_and_are_not_those_of_the_frames_are_not_kept(replay, tmp_path):
    data = volume(4, 20, 30)
    report, out = replay(single_images(tmp_path, data, [ROI, ROI, "101-200-20-30", ROI]))
    assert_replayed(out, data, "tyx")
    assert attribute(out) is None
    assert any("region of interest changes" in note for note in report["notes"])


def test_frames_of_another_size_are_refused(refused, tmp_path):
    data = volume(4, 20, 30)
    (tmp_path / "images").mkdir()
    single_images(tmp_path / "images", data, [ROI] * 4)
    tifffile.imwrite(tmp_path / "images/img_000000002_DAPI_000.tif", data[2, :10], **GRAY)
    said = refused(tmp_path / "images")
    assert "DAPI_000.tif is 30 x 10 uint16" in said and "all pages must agree" in said
    (tmp_path / "nd").mkdir()
    nd_tiff(tmp_path / "nd", data, ["time"])
    index = bytearray((tmp_path / "nd/NDTiff.index").read_bytes())
    # The last entry ends with offset, width, height and five more.
    struct.pack_into("<I", index, len(index) - 24, 10)
    (tmp_path / "nd/NDTiff.index").write_bytes(index)
    assert "is 30 x 10 uint16" in refused(tmp_path / "nd")
