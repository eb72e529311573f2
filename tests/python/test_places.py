"""Sizes of pixels, places and units on the way from one format to another: kept, or told of."""

import json
import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import tifffile
import zarr
from cloudvolume import CloudVolume

pytestmark = pytest.mark.filterwarnings("ignore")
PIXELS = np.arange(3 * 8 * 12, dtype="u2").reshape(3, 8, 12)
OFFSET = [100, 200, 5]
VOLUME = ["--dialect", "precomputed", "--codec", "none"]


def volume(path):
    info = CloudVolume.create_new_info(
        num_channels=1, layer_type="image", data_type="uint16", encoding="raw", resolution=[8, 8, 40],
        voxel_offset=OFFSET, volume_size=[12, 8, 3], chunk_size=[6, 8, 3],
    )  # fmt: skip
    written = CloudVolume(f"file://{path}", info=info, compress=None, progress=False)
    written.commit_info()
    written[:, :, :] = PIXELS.T[..., None]
    return path


def image(path, axes="zyx", scale=None, place=None, units=None, label=None):
    """An OME-Zarr image of level 0 alone."""
    root = zarr.open_group(path, mode="w")
    kinds = {"t": "time", "c": "channel"}
    axes = [{"name": name, "type": kinds.get(name, "space")} for name in axes]
    for axis, unit in zip(axes, units or []):
        axis |= {"unit": unit} if unit else {}
    ways = [{"type": "scale", "scale": scale or [1] * len(axes)}]
    ways += [{"type": "translation", "translation": place}] if place else []
    datasets = [{"path": "0", "coordinateTransformations": ways}]
    root.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]} | (label or {})
    pixels = PIXELS if len(axes) == 3 else PIXELS[0]
    root.create_array("0", data=pixels, chunks=pixels.shape)
    return path


def placed(path):
    (said,) = zarr.open_group(path, mode="r").attrs["ome"]["multiscales"]
    units = [axis.get("unit") for axis in said["axes"]]
    scale, *place = said["datasets"][0]["coordinateTransformations"]
    return units, scale["scale"], place[0]["translation"] if place else None


def scale_of(path):
    (scale,) = json.loads((path / "info").read_text())["scales"]
    return scale["voxel_offset"], scale["resolution"]


def pixels_of(path):
    with tifffile.TiffFile(path) as file:
        root = ElementTree.fromstring(file.ome_metadata)
    (pixels,) = [node for node in root.iter() if node.tag.endswith("}Pixels")]
    planes = [node.attrib for node in pixels if node.tag.endswith("}Plane")]
    return pixels.attrib, planes[0] if planes else {}


@pytest.mark.parametrize("verb", ["replay", "repack"])
def test_a_volume_becomes_an_image_at_its_place(tool, tmp_path, verb):
    source = volume(tmp_path / "v")
    tool(verb, source, tmp_path / "z", *["--shard", "3,8,12"])
    expected = ["nanometer"] * 3, [40, 8, 8], [5.5 * 40, 200.5 * 8, 100.5 * 8]
    assert placed(tmp_path / "z") == expected
    # There and back, it stays where it is, whichever way it takes.
    for again in ["replay", "repack"]:
        out = tmp_path / again
        assert "the place of" not in tool(again, tmp_path / "z", out, *VOLUME)
        assert scale_of(out) == (OFFSET, [8, 8, 40])
        assert np.array_equal(CloudVolume(f"file://{out}", progress=False)[:, :, :][..., 0].T, PIXELS)
        tool("repack", out, tmp_path / f"{again}.zarr", "--shard", "3,8,12")
        assert placed(tmp_path / f"{again}.zarr") == expected


def test_a_volume_is_exported_and_replayed_with_its_place(tool, tmp_path):
    source = volume(tmp_path / "v")
    assert "note" not in tool("export", source, tmp_path / "a.ome.tif")
    said, plane = pixels_of(tmp_path / "a.ome.tif")
    assert (said["PhysicalSizeX"], said["PhysicalSizeXUnit"], said["PhysicalSizeZ"]) == ("8", "nm", "40")
    assert (plane["PositionX"], plane["PositionY"], plane["PositionZ"]) == ("804", "1604", "220")
    tool("replay", source, tmp_path / "again", *VOLUME)
    assert scale_of(tmp_path / "again") == (OFFSET, [8, 8, 40])


@pytest.mark.parametrize("verb", ["replay", "repack"])
def test_a_place_of_whole_voxels_becomes_their_offset(tool, tmp_path, verb):
    units, scale = ["micrometer"] * 3, [1, 0.3, 0.3]
    source = image(tmp_path / "z", scale=scale, place=[0.5, 60.15, 30.15], units=units)
    assert "the place of" not in tool(verb, source, tmp_path / "v", *VOLUME)
    assert scale_of(tmp_path / "v") == ([100, 200, 0], [300, 300, 1000])
    if verb == "repack":
        tool("repack", tmp_path / "v", tmp_path / "back", "--dialect", "zarr3", "--shard", "3,8,12")
        assert placed(tmp_path / "back") == (units, scale, [0.5, 60.15, 30.15])
    # What is between voxels has no offset, and what nobody has moved is nowhere else.
    source = image(tmp_path / "between", scale=scale, place=[0, 60, 30.15], units=units)
    told = tool(verb, source, tmp_path / "w", *VOLUME)
    assert "the place of the first pixel along y (60 micrometer) is not taken along" in told
    assert "--voxel-offset" in told and scale_of(tmp_path / "w")[0] == [100, 0, 0]
    told = tool(verb, source, tmp_path / "chosen", *VOLUME, "--voxel-offset", "7,8,9")
    assert "the place of" not in told and scale_of(tmp_path / "chosen")[0] == [7, 8, 9]


def test_the_writer_s_own_volumes_keep_the_size_of_their_voxels(tool, tmp_path):
    camera = ["synthetic", tmp_path / "v", "--camera", "12x8xu16", "--frames", "3"]
    tool("replay", *camera, "--dialect", "precomputed", "--pixel-size", "0.3um", "--voxel-offset", "100,200,5")
    for verb in ["replay", "repack"]:
        tool(verb, tmp_path / "v", tmp_path / verb, "--shard", "3,8,12")
        units, scale, place = placed(tmp_path / verb)
        assert units[1:] == ["nanometer"] * 2 and scale[1:] == [300, 300]
        assert place == pytest.approx([0, 200.5 * 300, 100.5 * 300])


LENGTHS = {"inch": 25.4e6, "foot": 304.8e6, "centimeter": 1e7, "picometer": 1e-3, "femtometer": 1e-6, "yard": 914.4e6}
SYMBOLS = [("inch", "in"), ("foot", "ft"), ("yard", "yd"), ("mile", "mi"), ("kilometer", "km"), ("attometer", "am"),
           ("parsec", "pc"), ("angstrom", "\u212b"), ("decimeter", "dm")]  # fmt: skip


@pytest.mark.parametrize("unit, nanometers", LENGTHS.items())
def test_resolutions_come_of_all_units_of_length(tool, tmp_path, unit, nanometers):
    size = 1 if nanometers >= 1 else 1e6
    source = image(tmp_path / "z", scale=[size] * 3, units=[unit] * 3)
    assert "guess" not in tool("repack", source, tmp_path / "v", *VOLUME)
    assert scale_of(tmp_path / "v")[1] == pytest.approx([size * nanometers] * 3)


@pytest.mark.parametrize("unit, symbol", SYMBOLS)
def test_units_go_into_ome_tiff_and_come_back(tool, tmp_path, unit, symbol):
    source = image(tmp_path / "z", scale=[2, 0.5, 0.5], place=[0, 3, 4], units=[unit] * 3)
    assert "note" not in tool("export", source, tmp_path / "a.ome.tif")
    said, plane = pixels_of(tmp_path / "a.ome.tif")
    assert said["PhysicalSizeXUnit"] == plane["PositionYUnit"] == symbol.replace("\u212b", "\u00c5")
    assert "taken along" not in tool("replay", tmp_path / "a.ome.tif", tmp_path / "back")
    units, scale, place = placed(tmp_path / "back")
    assert (units, scale) == ([unit] * 3, [2, 0.5, 0.5]) and place[1:] == [3, 4]


def test_a_day_goes_into_ome_tiff(tool, tmp_path):
    source = image(tmp_path / "z", "tyx", scale=[2, 1, 1], units=["day", None, None])
    assert "note" not in tool("export", source, tmp_path / "a.ome.tif")
    said, _ = pixels_of(tmp_path / "a.ome.tif")
    assert (said["TimeIncrement"], said["TimeIncrementUnit"]) == ("2", "d")


@pytest.mark.parametrize(
    "units, place, words",
    [
        ([None] * 3, None, "the size of a pixel along z (2 without a unit), y (0.5 without a unit), x (0.5 without"),
        (["furlong"] * 3, [0, 7, 0], "the place of the first pixel along y (7 furlong) is left out"),
        (["second"] * 3, None, "along z (2 second)"),
    ],
)
def test_what_ome_tiff_has_no_words_for_is_told(tool, tmp_path, units, place, words):
    source = image(tmp_path / "z", scale=[2, 0.5, 0.5], place=place, units=units)
    assert words in tool("export", source, tmp_path / "a.ome.tif")
    assert pixels_of(tmp_path / "a.ome.tif")[0].keys().isdisjoint({"PhysicalSizeX", "PhysicalSizeY", "PhysicalSizeZ"})
    assert "note" not in tool("export", source, tmp_path / "a.npy")


def test_units_of_imagej(tool, tmp_path):
    def written(unit):
        path = tmp_path / f"{unit}.tif"
        tifffile.imwrite(path, PIXELS, imagej=True, resolution=(4, 2), metadata={"unit": unit, "axes": "TYX"})
        told = tool("replay", path, tmp_path / unit)
        return placed(tmp_path / unit), told

    (units, scale, _), told = written("inch")
    assert units[1:] == ["inch"] * 2 and scale[1:] == [0.5, 0.25] and "taken along" not in told
    (units, scale, _), told = written("furlong")
    assert units[1:] == [None] * 2 and "unit \"furlong\" is none that OME-Zarr has" in told
    assert "taken along" not in written("pixel")[1]


@pytest.mark.parametrize("symbol, unit", [("in", "inch"), ("ft", "foot"), ("fm", "femtometer"), ("pixel", None)])
def test_units_of_ome_tiff(tool, tmp_path, symbol, unit):
    metadata = {"axes": "ZYX", "PhysicalSizeX": 0.5, "PhysicalSizeXUnit": symbol}
    tifffile.imwrite(tmp_path / "a.ome.tif", PIXELS, metadata=metadata)
    told = tool("replay", tmp_path / "a.ome.tif", tmp_path / "z")
    units, scale, _ = placed(tmp_path / "z")
    assert (units[2], scale[2]) == (unit, 0.5 if unit else 1)
    assert ("PhysicalSizeX 0.5 pixel" in told) == (unit is None)


def test_places_of_planes_without_a_unit_are_told(tool, tmp_path):
    metadata = {"axes": "ZYX", "PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "\u00b5m",
                "Plane": {"PositionX": [12.5] * 3, "PositionY": [0.0] * 3}}  # fmt: skip
    tifffile.imwrite(tmp_path / "a.ome.tif", PIXELS, metadata=metadata)
    told = tool("replay", tmp_path / "a.ome.tif", tmp_path / "z")
    assert "PositionX 12.5" in told and "PositionY" not in told and "not taken along" in told


def test_colours_and_properties_of_labels_are_told_of(tool, tmp_path):
    label = {"image-label": {"colors": [{"label-value": 1, "rgba": [255, 0, 0, 255]}], "source": {"image": "../../"}}}
    source = image(tmp_path / "z", label=label)
    assert "the colours and properties of its labels" in tool("replay", source, tmp_path / "out")
    tool("repack", source, tmp_path / "kept", "--unsharded")
    assert zarr.open_group(tmp_path / "kept", mode="r").attrs["ome"]["image-label"] == label["image-label"]
    assert "labels" not in tool("replay", image(tmp_path / "i"), tmp_path / "plain")


def test_planes_and_time_points_have_a_size_on_the_command_line(tool, tmp_path):
    np.save(tmp_path / "a.npy", PIXELS.reshape(3, 2, 4, 12))
    given = [tmp_path / "a.npy", tmp_path / "z", "--axes", "t,z,y,x", "--pixel-size"]
    tool("replay", *given, "0.3um,z=2um,t=0.5min")
    assert placed(tmp_path / "z")[:2] == (["minute"] + ["micrometer"] * 3, [0.5, 2, 0.3, 0.3])
    for size, words in [("w=2um", "dimensions are t, z, y, x"), ("t=2um", "no unit"), ("z=2s", "no unit")]:
        assert words in tool("replay", *given, size, "--overwrite", code=2)


def test_info_tells_where_pixels_are(tool, tmp_path):
    omero = {"omero": {"channels": [{"label": "DAPI", "color": "0000FF"}]}}
    image(tmp_path / "z", scale=[1, 0.3, 0.3], place=[0, 60, 30], units=[None, "micrometer", "micrometer"], label=omero)
    told = tool("info", tmp_path / "z")
    for row in ["OME-Zarr 0.5 dataset", "z, y 0.3 micrometer, x 0.3 micrometer", "y 60 micrometer, x 30 micrometer",
                "DAPI 0000FF"]:  # fmt: skip
        assert row in told
    (array,) = json.loads(tool("info", "--json", tmp_path / "z"))["arrays"]
    assert [axis["scale"] for axis in array["axes"]] == [1, 0.3, 0.3] and array["channels"][0]["label"] == "DAPI"
    root = zarr.open_group(tmp_path / "old", mode="w", zarr_format=2)
    axes = [{"name": name, "type": "space", "unit": "nanometer"} for name in "yx"]
    ways = [{"type": "scale", "scale": [2, 3]}]
    root.attrs["multiscales"] = [
        {"version": "0.4", "axes": axes, "datasets": [{"path": "0", "coordinateTransformations": ways}]}
    ]
    root.create_array("0", data=PIXELS[0], chunks=(8, 12))
    told = tool("info", tmp_path / "old")
    assert "OME-Zarr 0.4 dataset" in told and "y 2 nanometer, x 3 nanometer" in told and "place" not in told
    root = zarr.open_group(tmp_path / "plate", mode="w", zarr_format=2)
    wells = [{"path": "A/1", "rowIndex": 0, "columnIndex": 0}]
    names = {"rows": [{"name": "A"}, {"name": "B"}], "columns": [{"name": str(at)} for at in range(3)], "wells": wells}
    root.attrs["plate"] = {"version": "0.4", **names}
    assert "OME-Zarr 0.4 dataset, plate of 2 x 3 wells" in tool("info", tmp_path / "plate")


def test_frames_that_were_never_asked_for_are_not_lost(tool, tmp_path):
    np.save(tmp_path / "a.npy", np.arange(5 * 2 * 3 * 8, dtype="u2").reshape(5, 2, 3, 2, 4))
    given = ["replay", tmp_path / "a.npy", tmp_path / "z", "--axes", "t,c,z,y,x", "--overwrite", "--frames", "8"]
    text = tool(*given)
    assert "8 written\n" in text and "its last 4 frames were not asked for" in text and "missing" not in text
    report = json.loads(tool(*given, "--json", "-q").splitlines()[0])
    assert (report["frames_written"], report["frames_missing"], report["missing"]) == (8, 0, [])
    own = zarr.open_group(tmp_path / "z", mode="r").attrs["shardwright"]
    assert (own["frames"], own["missing"]) == (12, [[8, 12]])
    assert math.prod(zarr.open_array(tmp_path / "z/0", mode="r").shape[:3]) == 12
