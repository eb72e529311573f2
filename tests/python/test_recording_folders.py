"""Folders in which there are files of several recordings or images: all of them are used, chosen from, or named."""

import shutil
import uuid

import numpy as np
import pytest
import tifffile
import zarr

from readers import assert_same, open_zarr_python
from recordings import GRAY, assert_replayed, volume
from test_recording_positions import single_images
from test_recording_sets import block, mm_stack, nd_tiff, ome_image, ome_set, ome_xml, write_pages


def own_images(folder, data):
    """An OME-TIFF for each movie, which names itself and no other."""
    for number, pages in enumerate(data):
        name, own = f"run_{number}.ome.tif", uuid.UUID(int=number + 1)
        sizes = {"X": 30, "Y": 20, "C": 1, "Z": 1, "T": len(pages)}
        xml = ome_xml([ome_image(name, "XYCZT", sizes, [block(0, len(pages), name, own)])], own)
        write_pages(folder / name, pages, xml)


def test_images_of_their_own_in_one_folder_are_named(replay, refused, tmp_path):
    data = volume(3, 2, 20, 30)
    folder = tmp_path / "run"
    folder.mkdir()
    own_images(folder, data)
    for options in ([], ["--series", 0], ["--series", "all"]):
        said = refused(folder, *options)
        assert "recording of run_0.ome.tif" in said and "run_1.ome.tif, run_2.ome.tif" in said, said
    assert_replayed(replay(folder / "run_1.ome.tif")[1], data[1], "tyx")
    [(folder / f"run_{number}.ome.tif").unlink() for number in (0, 2)]
    assert_replayed(replay(folder)[1], data[1], "tyx")


@pytest.mark.parametrize("companion", [False, True])
def test_files_beside_a_set_are_named(replay, refused, tmp_path, companion):
    data = volume(4, 3, 2, 20, 30)
    folder = tmp_path / "run"
    folder.mkdir()
    ome_set(folder, data, companion)
    expected = np.ascontiguousarray(data.transpose(0, 2, 1, 3, 4))
    assert_replayed(replay(folder)[1], expected, "tczyx")
    for name in ("a_mask.tif", "z_mask.tif"):
        tifffile.imwrite(folder / name, data[0, 0, 0], **GRAY)
        assert name in refused(folder)
        (folder / name).unlink()
    shutil.copyfile(folder / "set_t1.ome.tif", folder / "copy.ome.tif")
    assert "copy.ome.tif" in refused(folder)
    assert_replayed(replay(folder / "set_t1.ome.tif")[1], expected, "tczyx")


def test_a_file_that_was_renamed_is_alone_in_its_folder(replay, refused, tmp_path):
    data = volume(2, 2, 20, 30)
    folder = tmp_path / "run"
    folder.mkdir()
    own_images(folder, data[:1])
    (folder / "run_0.ome.tif").rename(folder / "renamed.ome.tif")
    assert_replayed(replay(folder)[1], data[0], "tyx")
    own_images(folder, data[1:])
    assert "run_0.ome.tif" in refused(folder)


def set_of_two_images(folder, data, names=True):
    """An image in each file, with the document of both in both."""
    numbers = [uuid.UUID(int=p + 1) for p in (0, 1)]
    sizes = {"X": 30, "Y": 20, "C": 1, "Z": 1, "T": len(data[0])}

    def blocks(p):
        named = block(0, len(data[p]), f"{'ab'[p]}.ome.tif", numbers[p])
        return [named if names else named.replace(f' FileName="{"ab"[p]}.ome.tif"', "")]

    images = [ome_image(f"image {'ab'[p]}", "XYCZT", sizes, blocks(p)) for p in (0, 1)]
    for p in (0, 1):
        write_pages(folder / f"{'ab'[p]}.ome.tif", data[p], ome_xml(images, numbers[p]))


@pytest.mark.parametrize("names", [True, False])
def test_a_folder_of_two_images_needs_a_choice(replay, refused, tmp_path, names):
    data = volume(2, 3, 20, 30)
    folder = tmp_path / "run"
    folder.mkdir()
    set_of_two_images(folder, data, names)
    said = refused(folder, code=2)
    assert "2 images" in said and "0: image a (T 3" in said and "1: image b" in said and "--series" in said
    for number in (0, 1):
        assert_replayed(replay(folder, "--series", number)[1], data[number], "tyx")
        report, out = replay(folder / f"{'ab'[number]}.ome.tif")
        assert_replayed(out, data[number], "tyx")
        assert any("--series N" in note for note in report["notes"])
        # The other one by a file that does not hold it.
        assert_replayed(replay(folder / "a.ome.tif", "--series", number)[1], data[number], "tyx")
    _, out = replay(folder, "--series", "all")
    for number in (0, 1):
        assert_same(open_zarr_python(out / f"{number}/0")[...], data[number])
    # What is in a file that is not there is not in the one that is.
    (folder / "b.ome.tif").unlink()
    assert "none of the pages" in refused(folder / "a.ome.tif", "--series", 1)


def set_by_uuid(folder, data, root=True):
    numbers = [uuid.UUID(int=t + 1) for t in range(len(data))]
    blocks = [block(0, 1, "x", numbers[t], T=t).replace(' FileName="x"', "") for t in range(len(data))]
    image = ome_image("set", "XYCZT", {"X": 30, "Y": 20, "C": 1, "Z": 1, "T": len(data)}, blocks)
    for t, page in enumerate(data):
        write_pages(folder / f"{'dcba'[t]}.ome.tif", [page], ome_xml([image], numbers[t] if root else None))


def test_files_that_are_named_by_their_uuid_alone(replay, refused, tmp_path):
    data = volume(4, 20, 30)
    folder = tmp_path / "run"
    folder.mkdir()
    set_by_uuid(folder, data)
    for source in [folder, folder / "a.ome.tif", folder / "d.ome.tif"]:
        assert_replayed(replay(source)[1], data, "tyx")
    (folder / "c.ome.tif").unlink()
    report, out = replay(folder / "a.ome.tif", code=4)
    assert report["missing"] == [{"start": 1, "end": 2}]
    assert any("by its UUID alone" in note for note in report["notes"])
    holed = data.copy()
    holed[1] = 0
    assert_replayed(out, holed, "tyx")
    # Of no file it is known which one it is.
    set_by_uuid(folder, data, root=False)
    assert "none of the pages" in refused(folder / "a.ome.tif")


def test_a_uuid_that_no_file_has_is_the_only_file_s(replay, tmp_path):
    data = volume(1, 20, 30)
    set_by_uuid(tmp_path, data, root=False)
    assert_replayed(replay(tmp_path / "d.ome.tif")[1], data, "tyx")


@pytest.mark.parametrize("positions", [(0, 1), (0, 0)])
def test_stacks_of_positions_in_one_folder(replay, refused, tmp_path, positions):
    data = volume(2, 4, 3, 2, 20, 30)
    run = tmp_path / "run"
    run.mkdir()
    for number, position in enumerate(positions):
        of = np.stack([data[number]] * (position + 1))
        mm_stack(run / f"run_MMStack_Pos{number}.ome.tif", of, positions=(position,))
    listed = "0 (run_MMStack_Pos0.ome.tif), 1 (run_MMStack_Pos1.ome.tif)"
    said = refused(run, code=2)
    assert "2 positions" in said and "--series all" in said and listed in said, said
    assert listed in refused(run, "--series", 2, code=2)
    expected = np.ascontiguousarray(data.transpose(0, 1, 3, 2, 4, 5))
    report, out = replay(run, "--series", "all")
    assert [image["path"] for image in report["images"]] == ["0", "1"]
    for number in (0, 1):
        with tifffile.TiffFile(run / f"run_MMStack_Pos{number}.ome.tif") as tif:
            assert_same(np.stack([page.asarray() for page in tif.pages]).reshape(data[0].shape), data[number])
        assert_same(open_zarr_python(out / f"{number}/0")[...], expected[number])
        name = zarr.open_group(out / str(number), mode="r").attrs["ome"]["multiscales"][0]["name"]
        assert name == f"Pos{number}"
        assert_replayed(replay(run, "--series", number)[1], expected[number], "tczyx")
        assert_replayed(replay(run / f"run_MMStack_Pos{number}.ome.tif")[1], expected[number], "tczyx")


def test_a_stack_that_goes_on_is_one_position(replay, refused, tmp_path):
    data = volume(1, 4, 3, 2, 20, 30)
    run = tmp_path / "run"
    run.mkdir()
    mm_stack(run / "run_MMStack_Pos0.ome.tif", data)
    head = replay(run)[1]
    assert_replayed(head, np.ascontiguousarray(data[0].transpose(0, 2, 1, 3, 4)), "tczyx")
    shutil.copyfile(run / "run_MMStack_Pos0.ome.tif", run / "run_MMStack_Pos0_1.ome.tif")
    assert_replayed(replay(run)[1], np.ascontiguousarray(data[0].transpose(0, 2, 1, 3, 4)), "tczyx")
    # One between them is gone.
    (run / "run_MMStack_Pos0_1.ome.tif").rename(run / "run_MMStack_Pos0_2.ome.tif")
    assert "1 (run_MMStack_Pos0_2.ome.tif)" in refused(run, code=2)


def test_stacks_of_several_acquisitions_and_other_files_are_named(refused, tmp_path):
    data = volume(1, 2, 1, 1, 20, 30)
    run = tmp_path / "run"
    run.mkdir()
    for name in ("a", "b"):
        mm_stack(run / f"{name}_MMStack_Pos0.ome.tif", data)
    for options in ([], ["--series", "all"]):
        said = refused(run, *options)
        assert "recording of a_MMStack_Pos0.ome.tif" in said and "none of it: b_MMStack_Pos0.ome.tif" in said
    (run / "b_MMStack_Pos0.ome.tif").unlink()
    tifffile.imwrite(run / "a_MMStack_Pos1.ome.tif", data[0, 0, 0, 0], **GRAY)
    assert "none of it: a_MMStack_Pos1.ome.tif" in refused(run)
    (run / "a_MMStack_Pos1.ome.tif").rename(run / "0.tif")
    assert "0.tif is no part of the set" in refused(run)


def test_a_file_beside_ndtiff_is_named_in_a_note(replay, tmp_path):
    data = volume(4, 20, 30)
    folder = tmp_path / "run"
    folder.mkdir()
    nd_tiff(folder, data, ["time"])
    tifffile.imwrite(folder / "mask.tif", data[0], **GRAY)
    for source in (folder, folder / "NDTiff.index"):
        report, out = replay(source)
        assert_replayed(out, data, "tyx")
        assert any("beside it: mask.tif" in note for note in report["notes"])


def test_a_file_beside_single_images_is_named(replay, refused, tmp_path):
    data = volume(1, 4, 3, 2, 20, 30)
    single_images(tmp_path / "run", data)
    folder = tmp_path / "run/Pos0"
    expected = np.ascontiguousarray(data[0].transpose(0, 2, 1, 3, 4))
    assert_replayed(replay(folder)[1], expected, "tczyx")
    tifffile.imwrite(folder / "mask.tif", data[0, 0, 0, 0], **GRAY)
    assert "none of them: mask.tif" in refused(folder)
