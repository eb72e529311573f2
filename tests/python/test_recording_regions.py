"""The part of a sensor that a recording is of: kept where Micro-Manager says it, refused where its size changes."""

import json
import struct

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


def nd(folder, data, regions):
    nd_tiff(folder, data, ["time"])
    said = json.dumps({"ROI": regions[0]}).encode()
    path = folder / "run_NDTiffStack.tif"
    index = bytearray((folder / "NDTiff.index").read_bytes())
    struct.pack_into("<3I", index, len(index) // len(data) - 12, path.stat().st_size, len(said), 0)
    (folder / "NDTiff.index").write_bytes(index)
    path.write_bytes(path.read_bytes() + said)
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


def test_a_region_that_moves_is_not_kept(replay, tmp_path):
    data = volume(4, 20, 30)
    report, out = replay(single_images(tmp_path, data, [ROI, ROI, "101-200-30-20", ROI]))
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
