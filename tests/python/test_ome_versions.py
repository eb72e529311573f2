"""OME-Zarr 0.4, 0.5 and 0.6: written, said in another version, and read, as their own validators have them."""

import json
import pathlib

import numpy as np
import ome_zarr_models.v04
import ome_zarr_models.v05
import pytest
import tifffile
import yaozarrs
import zarr
from ome_0_6 import validated
from readers import assert_same
from test_plates import levels_of, plate

CAMERA = ["--camera", "640x600xu16", "--frames", "5", "--pixel-size", "0.5um", "--translation", "y=-20,x=7.25"]
CUT = ["--chunk", "2,16,16", "--shard", "4,32,32"]


def ome(path):
    return json.loads((pathlib.Path(path) / "zarr.json").read_text())["attributes"]["ome"]


def grids(multiscale):
    """The scale and the translation of each level, of any version."""
    found = []
    for dataset in multiscale["datasets"]:
        steps = []
        for way in dataset["coordinateTransformations"]:
            steps += way["transformations"] if way["type"] == "sequence" else [way]
        scale, *move = steps
        assert scale["type"] == "scale" and all(step["type"] == "translation" for step in move)
        found.append((scale["scale"], [step["translation"] for step in move]))
    return found


@pytest.mark.filterwarnings("ignore")
def test_a_run_in_0_6_says_what_one_in_0_5_says(tool, replay, tmp_path):
    _, older = replay("synthetic", *CAMERA, "--pyramid", "mean")
    _, newer = replay("synthetic", *CAMERA, "--pyramid", "mean", "--ome", "0.6")
    assert ome(older)["version"] == "0.5" and ome(newer)["version"] == "0.6"
    (before,), (after,) = ome(older)["multiscales"], validated("Image", newer)["multiscales"]
    assert after["coordinateSystems"][0]["axes"][1]["unit"] == "micrometer"
    assert [axis["name"] for axis in after["coordinateSystems"][0]["axes"]] == ["t", "y", "x"]
    assert after["type"] == "mean" and after["metadata"]["kwargs"] == before["metadata"]["kwargs"]
    assert grids(after) == grids(before) and len(grids(after)) == 3
    # By hand: the first pixel of level 2 is made of columns 0 to 3.
    assert grids(after)[2][1][0][1:] == [-20 + 0.5 * 1.5, 7.25 + 0.5 * 1.5]
    tool("verify", newer)
    # The same levels, made afterwards.
    tool("pyramid", newer, "--overwrite")
    assert grids(validated("Image", newer)["multiscales"][0]) == grids(before)
    # Said in the other words, both are the same.
    tool("repack", newer, tmp_path / "a.zarr", "--ome", "0.5")
    assert ome(tmp_path / "a.zarr")["multiscales"][0]["datasets"] == before["datasets"]
    yaozarrs.validate_zarr_store(str(tmp_path / "a.zarr"))
    tool("repack", older, tmp_path / "b.zarr", "--ome", "0.6")
    assert validated("Image", tmp_path / "b.zarr")["multiscales"][0]["datasets"] == after["datasets"]


@pytest.mark.filterwarnings("ignore")
def test_in_place_and_to_0_4_and_back(tool, replay, tmp_path):
    _, path = replay("synthetic", *CAMERA, "--ome", "0.6")
    pixels = zarr.open_array(path / "0", mode="r")[...]
    before = ome(path)
    tool("repack", path, tmp_path / "old.zarr", "--ome", "0.4")
    image = ome_zarr_models.v04.Image.from_zarr(zarr.open_group(tmp_path / "old.zarr", mode="r", zarr_format=2))
    assert [axis.name for axis in image.attributes.multiscales[0].axes] == ["t", "y", "x"]
    assert_same(zarr.open_array(tmp_path / "old.zarr/0", mode="r")[...], pixels)
    tool("repack", tmp_path / "old.zarr", tmp_path / "back.zarr", "--ome", "0.6", "--shard", "5,600,640")
    assert validated("Image", tmp_path / "back.zarr")["version"] == "0.6"
    assert grids(ome(tmp_path / "back.zarr")["multiscales"][0]) == grids(before["multiscales"][0])
    tool("repack", path, "--ome", "0.5")
    yaozarrs.validate_zarr_store(str(path))
    tool("repack", path, "--ome", "0.6")
    assert ome(path) == before
    # Without a word about it, it stays what it is.
    tool("repack", path, "--codec", "zstd")
    assert ome(path) == before
    assert_same(zarr.open_array(path / "0", mode="r")[...], pixels)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("version", ["0.4", "0.6"])
@pytest.mark.parametrize(
    "part, options",
    [("", []), ("", ["--only", "0,labels"]), ("", ["--only", "labels"]), ("labels", []), ("alone", [])],
)
def test_a_list_of_labels_without_a_version_has_that_around_it_or_in_it(tool, tmp_path, part, options, version):
    """As ome-zarr-py writes it."""
    path = tmp_path / "i.zarr"
    root = zarr.open_group(path, mode="w")
    axes = [{"name": name, "type": "space"} for name in "yx"]
    scale = [{"type": "scale", "scale": [1.0, 1.0]}]
    image = {"name": "i", "axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}]}
    pixels = np.arange(256, dtype="u2").reshape(16, 16)
    for group, more in [(root, {}), (root.create_group("labels/cells"), {"image-label": {"version": "0.5"}})]:
        group.create_array("0", data=pixels, chunks=(8, 8), dimension_names=["y", "x"])
        group.attrs["ome"] = {"version": "0.5", "multiscales": [image], **more}
    root["labels"].attrs["ome"] = {"labels": ["cells"]}
    source = (path / "labels").rename(tmp_path / "labels") if part == "alone" else path / part
    tool("repack", source, tmp_path / "o.zarr", "--ome", version, *options)
    out = zarr.open_group(tmp_path / "o.zarr", mode="r")
    labels = out if part else out["labels"]
    said = dict(labels.attrs)
    assert said == {"labels": ["cells"]} if version == "0.4" else said["ome"]["version"] == version
    assert_same(labels["cells/0"][...], pixels)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [[], ["--skip", "A/1/0/labels/cells"], ["--only", "A/2"]])
def test_a_plate_of_another_writer_in_0_6(tool, tmp_path, options):
    data = plate(tmp_path / "p.zarr")
    out = tmp_path / "o.zarr"
    tool("repack", tmp_path / "p.zarr", out, *CUT, "--ome", "0.6", *options)
    root = zarr.open_group(out, mode="r")
    found = []
    for well in validated("HCS", out)["plate"]["wells"]:
        for field in validated("Well", out / well["path"])["well"]["images"]:
            name = f"{well['path']}/{field['path']}"
            validated("Image", out / name)
            if "labels" in root[name]:
                validated("Labels", out / name / "labels")
            found += levels_of(root, name)
    assert ("A/1/0/labels/cells/0" in found) == (options == [])
    for name in found:
        assert_same(root[name][...], data[name.rpartition("/")[0]][int(name[-1])])
    tool("verify", out)


def foreign(path, ways, beside=()):
    """An image of 0.6 as another program may write it: of two systems the second is that of its levels."""
    root = zarr.open_group(path, mode="w")
    axes = [{"name": "y", "type": "space", "unit": "nanometer"}, {"name": "x", "type": "space", "unit": "nanometer"}]
    pixels = np.arange(64 * 48, dtype="u2").reshape(64, 48)
    root.create_array("s0", data=pixels, chunks=(16, 16), shards=(32, 48), dimension_names=["y", "x"])
    own = {"input": {"path": "s0"}, "output": {"name": "intrinsic"}}
    other = [{**axis, "name": f"{axis['name']}'"} for axis in axes]
    said = {
        "coordinateSystems": [{"name": "other", "axes": other}, {"name": "intrinsic", "axes": axes}],
        "datasets": [{"path": "s0", "coordinateTransformations": [{**way, **own} for way in ways]}],
        "coordinateTransformations": list(beside),
    }
    said = {key: value for key, value in said.items() if value}
    root.attrs["ome"] = {"version": "0.6", "multiscales": [said]}
    return pixels


@pytest.mark.parametrize(
    "way, scale, place",
    [
        ({"type": "identity"}, [1, 1], None),
        ({"type": "scale", "scale": [5, 4]}, [5, 4], None),
        (
            {
                "type": "sequence",
                "transformations": [
                    {"type": "scale", "scale": [5, 4]},
                    {"type": "translation", "translation": [50, -8]},
                ],
            },
            [5, 4],
            [50, -8],
        ),
    ],
)
def test_images_of_other_writers_are_read_and_get_levels(tool, tmp_path, way, scale, place):
    path = tmp_path / "f.zarr"
    further = {"type": "scale", "scale": [1000, 1000], "input": {"name": "intrinsic"}, "output": {"name": "other"}}
    pixels = foreign(path, [way], [further])
    validated("Image", path)
    # Pixel sizes as another reader finds them in what is exported: of level 0, not of what it leads on to.
    tool("export", path, tmp_path / "f.ome.tif")
    with tifffile.TiffFile(tmp_path / "f.ome.tif") as file:
        image = tifffile.xml2dict(file.ome_metadata)["OME"]["Image"]["Pixels"]
        assert_same(file.asarray(), pixels)
    assert (image["PhysicalSizeY"], image["PhysicalSizeX"]) == tuple(scale)
    assert (image["PhysicalSizeYUnit"], image["PhysicalSizeXUnit"]) == ("nm", "nm")
    tool("pyramid", path, "--levels", "1")
    (said,) = validated("Image", path)["multiscales"]
    ((second, (moved,)),) = grids({"datasets": said["datasets"][1:]})
    assert second == [2 * step for step in scale]
    assert moved == [start + step / 2 for start, step in zip(place or [0, 0], scale, strict=True)]
    assert said["datasets"][1]["coordinateTransformations"][0]["output"]["name"] == "intrinsic"
    told = tool("repack", path, tmp_path / "o.zarr", "--ome", "0.5")
    assert "further coordinate systems" in told
    yaozarrs.validate_zarr_store(str(tmp_path / "o.zarr"))
    tool("verify", path)


def test_what_a_version_can_not_be_is_refused(tool, replay, tmp_path):
    _, path = replay("synthetic", *CAMERA)
    assert "zarr2" in tool("repack", path, tmp_path / "o", "--ome", "0.6", "--dialect", "zarr2", code=2)
    assert "precomputed" in tool("repack", path, tmp_path / "o", "--ome", "0.4", "--dialect", "precomputed", code=2)
    said = tool("replay", "synthetic", tmp_path / "o", *CAMERA, "--ome", "0.6", "--dialect", "zarr2-sharded", code=2)
    assert "0.6 is Zarr v3" in said
    assert not (tmp_path / "o").exists()


def test_a_scene_names_the_tiles_that_are_there(tool, tmp_path, request):
    from conftest import written_datasets

    path = written_datasets(request.config) / "tiles-0.6.zarr"
    tool("verify", path)
    tool("repack", path, tmp_path / "all.zarr", "--codec", "zstd")
    assert ome(tmp_path / "all.zarr")["scene"] == ome(path)["scene"]
    validated("Scene", tmp_path / "all.zarr")
    told = tool("repack", path, tmp_path / "older.zarr", "--ome", "0.5")
    assert "a scene is left out" in told
    yaozarrs.validate_zarr_store(str(tmp_path / "older.zarr"))
    # The places themselves are not lost with it.
    tool("repack", tmp_path / "older.zarr", tmp_path / "newer.zarr", "--ome", "0.6")
    assert ome(tmp_path / "newer.zarr")["scene"] == ome(path)["scene"]
    validated("Scene", tmp_path / "newer.zarr")
    # A scene that names what is not there.
    document = json.loads((tmp_path / "all.zarr/zarr.json").read_text())
    document["attributes"]["ome"]["scene"]["coordinateTransformations"][0]["input"]["path"] = "gone"
    (tmp_path / "all.zarr/zarr.json").write_text(json.dumps(document))
    assert '"gone"' in tool("verify", tmp_path / "all.zarr", code=3)
    # Given up, it is named no more.
    tool("repack", tmp_path / "all.zarr", tmp_path / "part.zarr", "--incomplete")
    assert "scene" not in ome(tmp_path / "part.zarr")
    validated("BioFormats2Raw", tmp_path / "part.zarr")
    tool("verify", tmp_path / "part.zarr")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind, of_all", [("scale", False), ("translation", False), ("scale", True)])
def test_places_that_stand_in_an_array_are_refused_on_the_way_to_0_6(tool, tmp_path, zarr_format, kind, of_all):
    axes = [{"name": name, "type": "space"} for name in "yx"]
    scale, by_path = {"type": "scale", "scale": [2.0, 2.0]}, {"type": kind, "path": "places"}
    ways = [scale] if of_all else [by_path] if kind == "scale" else [scale, by_path]
    image = {"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": ways}]}
    if of_all:
        image["coordinateTransformations"] = [by_path]
    said = {"multiscales": [{"version": "0.4", **image}]}
    attributes = said if zarr_format == 2 else {"ome": {"version": "0.5", "multiscales": [image]}}
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=zarr_format, attributes=attributes)
    root.create_array("0", data=np.arange(256, dtype="u2").reshape(16, 16), chunks=(8, 8))
    root.create_array("places", data=np.array([2.0, 3.0]), chunks=(2,))
    call = ["repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--unsharded", "--dialect", "zarr3"]
    words = f'the level "0" by the {kind} that stands in the array "places"'
    assert words in tool(*call, "--ome", "0.6", code=5)
    assert not (tmp_path / "b.zarr").exists()
    tool(*call)
    assert ome(tmp_path / "b.zarr")["multiscales"] == [image]
