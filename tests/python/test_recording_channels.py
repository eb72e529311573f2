"""Colours and windows of channels as programs of microscopes say them, and recordings that lie otherwise than it looks:
in folders of a folder, and with several planes in a page."""

import json

import numpy as np
import pytest
import tifffile
from readers import assert_same, open_zarr_python
from recordings import GRAY, IMAGEJ, volume

# Of red, green, blue; a table that is turned round; ImageJ's "fire" ends with white.
RAMP = np.arange(256, dtype="u1")
ZERO = np.zeros(256, "u1")
LUTS = [np.stack(rows) for rows in [(RAMP, ZERO, RAMP), (ZERO, RAMP, ZERO), (255 - RAMP,) * 3, (RAMP,) * 3]]
COLORS = ["FF00FF", "00FF00", None, "FFFFFF"]


def channels(out):
    return json.loads((out / "zarr.json").read_text())["attributes"]["ome"]["omero"]["channels"]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_imagej_s_colours_and_windows_are_kept(replay, tmp_path, order, count):
    ranges = [number for channel in range(count) for number in (10.5 + channel, 4000.0 * (channel + 1))]
    said = {"mode": "composite", "axes": "ZCYX", "LUTs": LUTS[:count], "Ranges": tuple(ranges), "Labels": ["a", "b"]}
    data = volume(3, count, 20, 30)
    tifffile.imwrite(tmp_path / "in.tif", data, **IMAGEJ, metadata=said, byteorder=order)
    report, out = replay(tmp_path / "in.tif")
    assert_same(open_zarr_python(out / "0")[...].reshape(count, 3, 20, 30), data.transpose(1, 0, 2, 3))
    written = channels(out)
    for channel, color in enumerate(COLORS[:count]):
        assert color is None or written[channel]["color"] == color
        window = written[channel]["window"]
        assert (window["start"], window["end"]) == (10.5 + channel, 4000.0 * (channel + 1))
    # Of a table that is turned round, nobody knows a colour.
    assert any("colours" in note for note in report["notes"]) == (count > 2)


def test_imagej_s_colours_for_other_channels_than_there_are_are_nobodys(replay, tmp_path):
    said = {"axes": "CYX", "LUTs": LUTS}
    tifffile.imwrite(tmp_path / "in.tif", volume(2, 20, 30), **IMAGEJ, metadata=said)
    assert replay(tmp_path / "in.tif")[1]


@pytest.mark.parametrize("said, colors", [
    ([-16776961, -16711936], ["0000FF", "00FF00"]),
    ([0xFF0000FF, 0x0000FF00], ["0000FF", "00FF00"]),
    ([-16776961], ["0000FF", None]),
    ([None, -1], [None, "FFFFFF"]),
    (None, [None, None]),
])  # fmt: skip
@pytest.mark.parametrize("named", [False, True])
def test_micro_manager_s_colours_are_kept(replay, tmp_path, said, colors, named):
    names = ["GFP", "DAPI"]
    summary = {"PixelSize_um": 0.5, "ChNames": names} | ({"ChColors": said} if said else {})
    (tmp_path / "metadata.txt").write_text(json.dumps({"Summary": summary}))
    for t, c in np.ndindex(2, 2):
        new, old = f"img_channel{c:03}_position000_time{t:09}_z000.tif", f"img_{t:09}_{names[c]}_000.tif"
        tifffile.imwrite(tmp_path / (old if named else new), volume(20, 30), **GRAY)
    report, out = replay(tmp_path)
    # Where files have names of channels, these are in the order of the alphabet.
    expected = sorted(zip(names, colors, strict=True)) if named else list(zip(names, colors, strict=True))
    written = [(channel["label"], channel["color"]) for channel in channels(out)]
    assert [label for label, _ in written] == [label for label, _ in expected]
    assert all(color in (None, got) for (_, got), (_, color) in zip(written, expected, strict=True))
    notes = [note for note in report["notes"] if "does not say which colours" in note]
    assert bool(notes) == (None in colors)
    assert all((label in notes[0]) == (color is None) for label, color in expected if notes)


@pytest.mark.parametrize("positions", [["Default"], ["Pos0", "Pos1", "Pos10", "Pos2"], [f"p{i}" for i in range(12)]])
def test_recordings_in_folders_of_a_folder_are_named(told, tmp_path, positions):
    for name in positions:
        (tmp_path / "run" / name).mkdir(parents=True)
        tifffile.imwrite(tmp_path / "run" / name / "frame0.tif", volume(20, 30), **GRAY)
    (tmp_path / "run/notes").mkdir()
    (tmp_path / "run/comments.txt").write_text("of nobody")
    error = told("replay", tmp_path / "run", tmp_path / "o", code=3)["error"]
    assert error["kind"] == "not-found" and error["message"].endswith(", …") == (len(positions) > 9)
    named = error["message"].split("one of them: ")[1].removesuffix(", …").split(", ")
    expected = positions if len(positions) != 4 else ["Pos0", "Pos1", "Pos2", "Pos10"]
    assert named == [str(tmp_path / "run" / name) for name in expected[:9]]
    told("replay", named[0], tmp_path / "o", "--no-sync")


@pytest.mark.parametrize("axes, shape", [("ZTYX", (3, 4, 33, 1)), ("TYX", (2, 33, 1)), ("TYX", (3, 1, 1))])
def test_planes_of_one_column_that_share_a_page_are_refused(told, tmp_path, axes, shape):
    tifffile.imwrite(tmp_path / "in.tif", volume(*shape), **GRAY, metadata={"axes": axes})
    with tifffile.TiffFile(tmp_path / "in.tif") as tif:
        assert tif.series[0].shape == shape and tif.pages[0].shape != shape[-2:]
        rows, columns = tif.pages[0].shape
    message = told("replay", tmp_path / "in.tif", tmp_path / "o", code=5)["error"]["message"]
    assert f"planes are {shape[-2]} x 1 pixels" in message and f"pages are {rows} x {columns}" in message
    assert not (tmp_path / "o").exists()
    # And so it works.
    np.save(tmp_path / "in.npy", volume(*shape))
    told("replay", tmp_path / "in.npy", tmp_path / "o", "--axes", ",".join(axes.lower()), "--no-sync")
    assert_same(open_zarr_python(tmp_path / "o/0")[...], volume(*shape))


@pytest.mark.parametrize("axes, shape", [("TYX", (3, 1, 33)), ("YX", (33, 1)), ("CTYX", (2, 3, 1, 40))])
def test_planes_of_one_row_are_pages(replay, tmp_path, axes, shape):
    tifffile.imwrite(tmp_path / "in.tif", volume(*shape), **GRAY, metadata={"axes": axes})
    expected = volume(*shape).transpose(1, 0, 2, 3) if axes == "CTYX" else volume(*shape)
    assert_same(open_zarr_python(replay(tmp_path / "in.tif")[1] / "0")[...].reshape(expected.shape), expected)
