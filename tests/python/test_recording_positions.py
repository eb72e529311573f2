"""Positions of Micro-Manager that have folders of their own, as images of one dataset."""

import json
import shutil
import uuid

import numpy as np
import pytest
import tifffile
import zarr

from readers import assert_same, open_zarr_python
from recordings import GRAY, assert_replayed, volume
from test_recording_sets import block, mm_stack, ome_image, ome_xml, place, stage_position, write_pages

STAGE = [(10.5, -20.0), (300.0, 4.25)]


def summary(**more):
    stage = [stage_position(*place) for place in STAGE]
    return {"PixelSize_um": 0.5, "ChNames": ["DAPI", "GFP"], "Prefix": "run", "StagePositions": stage, **more}


def single_images(run, data, old=False, names=("Pos0", "Pos1"), **more):
    """Files of one image each, of positions, t, z, c."""
    for p, t, z, c in np.ndindex(data.shape[:4]):
        folder = run / names[p]
        folder.mkdir(parents=True, exist_ok=True)
        new = f"img_channel{c:03}_position{p:03}_time{t:09}_z{z:03}.tif"
        name = f"img_{t:09}_{['DAPI', 'GFP'][c]}_{z:03}.tif" if old else new
        tifffile.imwrite(folder / name, data[p, t, z, c], **GRAY)
        (folder / "metadata.txt").write_text(json.dumps({"Summary": summary(**more)}))
    (run / "DisplaySettings.json").write_text("{}")


def stacks(run, data):
    """A stack of each position in a folder of its own, with an index, and without OME-XML."""
    for p in range(len(data)):
        (run / f"Pos{p}").mkdir(parents=True)
        mm_stack(run / f"Pos{p}/run_MMStack_Pos{p}.ome.tif", data[p : p + 1])


def tifffile_reads(folder, shape):
    """A position of files of one image each, of t, c, z in this shape. Names of channels are in alphabetic order."""
    images = tifffile.imread(sorted(folder.glob("*.tif")))
    if any(folder.glob("*position*")):
        return np.ascontiguousarray(images.reshape(shape[1], shape[0], *shape[2:]).swapaxes(0, 1))
    return images.reshape(shape)


@pytest.mark.parametrize("old", [False, True])
def test_single_images_of_positions_in_folders(replay, refused, tmp_path, old):
    data = volume(2, 4, 3, 2, 20, 30)
    run = tmp_path / "run"
    single_images(run, data, old)
    said = refused(run, code=2)
    assert "2 positions" in said and "0 (Pos0), 1 (Pos1)" in said and "--series all" in said
    assert "0 (Pos0), 1 (Pos1)" in refused(run, "--series", 2, code=2)
    expected = [np.ascontiguousarray(of.transpose(0, 2, 1, 3, 4)) for of in data]
    for number in (0, 1):
        assert_replayed(replay(run, "--series", number)[1], expected[number], "tczyx")
        assert_same(tifffile_reads(run / f"Pos{number}", expected[number].shape), expected[number])
    report, out = replay(run, "--series", "all")
    assert [image["path"] for image in report["images"]] == ["0", "1"] and report["frames_missing"] == 0
    for number in (0, 1):
        assert_same(open_zarr_python(out / f"{number}/0")[...], expected[number])
        image = zarr.open_group(out / str(number), mode="r").attrs["ome"]
        assert image["multiscales"][0]["name"] == f"Pos{number}"
        assert [channel["label"] for channel in image["omero"]["channels"]] == ["DAPI", "GFP"]
        assert old or place(out / str(number)) == STAGE[number]


def test_a_single_position_in_a_folder_needs_no_choice(replay, tmp_path):
    data = volume(1, 4, 1, 2, 20, 30)
    single_images(tmp_path / "run", data, names=["Default"])
    assert_replayed(replay(tmp_path / "run")[1], data[0, :, 0], "tcyx")


def test_planes_that_only_other_positions_have_are_missing(replay, tmp_path):
    data = volume(2, 4, 3, 2, 20, 30)
    run = tmp_path / "run"
    single_images(run, data, Positions=3)
    for file in (run / "Pos1").glob("*time000000003*"):
        file.unlink()
    (run / "Pos0/img_channel001_position000_time000000002_z000.tif").unlink()
    report, out = replay(run, "--series", "all", code=4)
    assert [image["missing"] for image in report["images"]] == [[{"start": 13, "end": 14}], [{"start": 18, "end": 24}]]
    assert any("3 positions, of which 2 are there" in note for note in report["notes"])
    data[0, 2, 0, 1] = 0
    expected = np.ascontiguousarray(data.transpose(0, 1, 3, 2, 4, 5))
    assert_same(open_zarr_python(out / "0/0")[...], expected[0])
    assert_same(open_zarr_python(out / "1/0")[...], expected[1, :3])


def test_stacks_of_positions_in_folders(replay, refused, tmp_path):
    data = volume(2, 4, 3, 2, 20, 30)
    run = tmp_path / "run"
    stacks(run, data)
    assert "0 (Pos0), 1 (Pos1)" in refused(run, code=2)
    report, out = replay(run, "--series", "all")
    assert not any("planes" in note for note in report["notes"])
    for number in (0, 1):
        by_tifffile = tifffile.imread(run / f"Pos{number}/run_MMStack_Pos{number}.ome.tif")
        assert_same(by_tifffile, data[number])
        expected = np.ascontiguousarray(by_tifffile.transpose(0, 2, 1, 3, 4))
        assert_same(open_zarr_python(out / f"{number}/0")[...], expected)
        assert_replayed(replay(run, "--series", number)[1], expected, "tczyx")
    # A position whose acquisition ended earlier.
    mm_stack(run / "Pos1/run_MMStack_Pos1.ome.tif", data[1:, :3])
    report, out = replay(run, "--series", "all")
    assert any("up to 24 planes, but 1 (Pos1) has 18" in note for note in report["notes"])
    assert [image["shape"][0] for image in report["images"]] == [4, 3]


def test_stacks_whose_ome_xml_names_files_of_other_folders(replay, tmp_path):
    data = volume(2, 4, 3, 2, 20, 30)
    names = [f"run_MMStack_Pos{p}.ome.tif" for p in (0, 1)]
    numbers = [uuid.UUID(int=p + 1) for p in (0, 1)]
    sizes = {"X": 30, "Y": 20, "C": 2, "Z": 3, "T": 4}
    images = []
    for p in (0, 1):
        places = enumerate(np.ndindex(4, 3, 2))
        blocks = [block(i, 1, names[p], numbers[p], T=t, Z=z, C=c) for i, (t, z, c) in places]
        images.append(ome_image(f"here{p}", "XYCZT", sizes, blocks))
    for p in (0, 1):
        (tmp_path / f"run/Pos{p}").mkdir(parents=True)
        path = tmp_path / f"run/Pos{p}" / names[p]
        write_pages(path, data[p].reshape(-1, 20, 30), ome_xml(images, numbers[p]))
    report, out = replay(tmp_path / "run", "--series", "all")
    # There is no other file beside a position's.
    assert not any("--series" in note for note in report["notes"])
    for p in (0, 1):
        assert_same(open_zarr_python(out / f"{p}/0")[...], np.ascontiguousarray(data[p].transpose(0, 2, 1, 3, 4)))
        assert zarr.open_group(out / str(p), mode="r").attrs["ome"]["multiscales"][0]["name"] == f"here{p}"


def other_acquisition(run):
    (run / "Pos1/metadata.txt").write_text(json.dumps({"Summary": summary(UUID="b")}))


def same_position(run):
    shutil.rmtree(run / "Pos1")
    shutil.copytree(run / "Pos0", run / "Pos1")


def other_files(run):
    shutil.rmtree(run / "Pos1")
    (run / "Pos1").mkdir()
    tifffile.imwrite(run / "Pos1/frame0.tif", volume(20, 30), **GRAY)


def two_positions_in_one(run):
    for file in (run / "Pos1").glob("img*"):
        file.rename(run / "Pos0" / file.name)
    shutil.copytree(run / "Pos0", run / "Pos1", dirs_exist_ok=True)


@pytest.mark.parametrize("change", [other_acquisition, same_position, other_files, two_positions_in_one])
def test_folders_that_are_not_positions_of_one_acquisition_are_named(refused, tmp_path, change):
    run = tmp_path / "run"
    single_images(run, volume(2, 2, 1, 1, 20, 30), UUID="a")
    change(run)
    for options in ([], ["--series", "all"], ["--series", 0]):
        assert f"replay one of them: {run}/Pos0, {run}/Pos1" in refused(run, *options)


def test_stacks_of_several_acquisitions_are_named(refused, tmp_path):
    for name in ("run_1", "run_2"):
        (tmp_path / "all" / name).mkdir(parents=True)
        mm_stack(tmp_path / "all" / name / f"{name}_MMStack.ome.tif", volume(1, 2, 1, 1, 20, 30))
    assert f"replay one of them: {tmp_path}/all/run_1" in refused(tmp_path / "all")


def test_links_to_positions_elsewhere(replay, refused, tmp_path):
    run = tmp_path / "run"
    data = volume(2, 2, 1, 1, 20, 30)
    single_images(run, data)
    (run / "Pos1").rename(tmp_path / "elsewhere")
    (run / "Pos1").symlink_to(tmp_path / "elsewhere")
    assert "--follow-links" in refused(run, "--series", "all")
    _, out = replay(run, "--series", "all", "--follow-links")
    assert_same(open_zarr_python(out / "1/0")[...], data[1, :, 0, 0])
