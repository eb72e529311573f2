"""Where a recording is, and what its channels are called: in every dialect that `replay` writes, as its readers say."""

import json

import numpy as np
import pytest
import tifffile
from cloudvolume import CloudVolume

pytestmark = pytest.mark.filterwarnings("ignore")
PIXELS = np.arange(2 * 4 * 16 * 16, dtype="u2").reshape(2, 4, 16, 16)
VOLUME = ["--dialect", "precomputed", "--codec", "none"]
CHANNELS = {"Name": ["DAPI", "GFP"], "Color": [0x0000FFFF, 0x00FF00FF]}


def recording(path, sizes=True, unit="µm", x=100.05, y=-30.15):
    place = {"PositionX": [x] * 8, "PositionY": [y] * 8, "PositionXUnit": [unit] * 8, "PositionYUnit": [unit] * 8}
    said = {"axes": "CZYX", "Channel": CHANNELS, "Plane": place}
    if sizes:
        said |= {"PhysicalSizeX": 0.3, "PhysicalSizeY": 0.3, "PhysicalSizeZ": 2.0}
    tifffile.imwrite(path, PIXELS, metadata=said)
    return path


def described(tool, path):
    found = json.loads(tool("info", "--json", path))
    (image,) = [array for array in found["arrays"] if len(array["shape"]) > 1]
    axes = {axis["name"]: (axis["scale"], axis["translation"], axis["unit"]) for axis in image["axes"]}
    return axes, [(channel["label"], channel["color"]) for channel in image["channels"]]


def near(axes, expected):
    for name, (scale, place, unit) in expected.items():
        assert axes[name][:2] == pytest.approx((scale, place), abs=1e-9), name
        assert axes[name][2] == unit


@pytest.mark.parametrize("dialect", ["zarr3", "zarr2-sharded", "zarr3-transformer"])
@pytest.mark.parametrize("verb", ["replay", "repack"])
def test_what_a_recording_says_is_kept_in_all_dialects(tool, tmp_path, dialect, verb):
    source = recording(tmp_path / "in.ome.tif")
    if verb == "repack":
        tool("replay", source, tmp_path / "first.zarr", "-q")
        source = tmp_path / "first.zarr"
    out = tmp_path / "out"
    said = tool(verb, source, out, "--dialect", dialect)
    axes, channels = described(tool, out)
    near(axes, {"z": (2, 0, "micrometer"), "y": (0.3, -30.15, "micrometer"), "x": (0.3, 100.05, "micrometer")})
    assert channels == [("DAPI", "0000FF"), ("GFP", "00FF00")]
    assert "viewers will show" not in said
    # From there to another format, and to a file.
    tool("replay", out, tmp_path / "again.zarr", "-q")
    near(described(tool, tmp_path / "again.zarr")[0], {"x": (0.3, 100.05, "micrometer"), "z": (2, 0, "micrometer")})
    tool("export", out, tmp_path / "out.ome.tif", "-q")
    xml = tifffile.TiffFile(tmp_path / "out.ome.tif").ome_metadata
    assert 'PhysicalSizeZ="2"' in xml and 'Name="GFP"' in xml and 'PositionX="100.05"' in xml


def test_channels_of_a_volume_have_their_names(tool, tmp_path):
    tool("replay", recording(tmp_path / "in.ome.tif"), tmp_path / "v", *VOLUME)
    axes, channels = described(tool, tmp_path / "v")
    assert channels == [("DAPI", "0000FF"), ("GFP", "00FF00")]
    near(axes, {"z": (2, 0, "micrometer"), "x": (300, 100050, "nanometer"), "y": (300, -30150, "nanometer")})
    assert np.array_equal(np.squeeze(CloudVolume(f"file://{tmp_path / 'v'}", progress=False)[:]).T, PIXELS)


def test_a_volume_is_where_its_document_says(tool, tmp_path):
    tool("replay", recording(tmp_path / "in.ome.tif"), tmp_path / "z", "-q")
    where = ["--resolution", "100,100,500", "--voxel-offset", "5,6,7"]
    tool("repack", tmp_path / "z", tmp_path / "v", *VOLUME, *where)
    expected = {"z": (500, 3750, "nanometer"), "y": (100, 650, "nanometer"), "x": (100, 550, "nanometer")}

    def check(path):
        axes, channels = described(tool, path)
        near(axes, expected)
        assert channels == [("DAPI", "0000FF"), ("GFP", "00FF00")]

    check(tmp_path / "v")
    for verb in ["repack", "replay"]:
        tool(verb, tmp_path / "v", tmp_path / f"{verb}.zarr", "-q")
        check(tmp_path / f"{verb}.zarr")
    # Another program moves it, and says another size along one axis.
    volume = CloudVolume(f"file://{tmp_path / 'v'}", progress=False)
    volume.info["scales"][0] |= {"resolution": [100, 200, 500], "voxel_offset": [0, 6, 7]}
    volume.commit_info()
    expected |= {"y": (200, 1300, "nanometer"), "x": (100, 50, "nanometer")}
    check(tmp_path / "v")


def test_a_volume_that_nobody_changed_keeps_its_units(tool, tmp_path):
    tool("replay", recording(tmp_path / "in.ome.tif"), tmp_path / "z", "-q")
    tool("repack", tmp_path / "z", tmp_path / "v", *VOLUME)
    near(described(tool, tmp_path / "v")[0], {"x": (0.3, 100.05, "micrometer"), "y": (0.3, -30.15, "micrometer")})


def volume_of_others(path, resolution, offset):
    size = PIXELS.shape[:0:-1]
    info = CloudVolume.create_new_info(1, "image", "uint16", "raw", resolution, offset, size, chunk_size=(8, 8, 4))
    volume = CloudVolume(f"file://{path}", info=info, progress=False)
    volume.commit_info()
    volume[:] = PIXELS[0].T[..., None]


def test_a_volume_of_others_stays_where_it_is(tool, tmp_path):
    """Its voxels are half a voxel behind their offset, also where that is 0, through whatever they go."""
    volume_of_others(tmp_path / "one", [100, 100, 500], [0, 0, 0])
    expected = {"z": (500, 250, "nanometer"), "y": (100, 50, "nanometer"), "x": (100, 50, "nanometer")}
    near(described(tool, tmp_path / "one")[0], expected)
    tool("repack", tmp_path / "one", tmp_path / "two", *VOLUME)
    near(described(tool, tmp_path / "two")[0], expected)
    tool("repack", tmp_path / "two", tmp_path / "three.zarr")
    near(described(tool, tmp_path / "three.zarr")[0], expected)
    tool("repack", tmp_path / "one", "--codec", "gzip")
    near(described(tool, tmp_path / "one")[0], expected)


def scale_of(path):
    (scale,) = json.loads((path / "info").read_text())["scales"]
    return scale


def edit(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def moved(to):
    def change(document):
        (level,) = document["attributes"]["ome"]["multiscales"][0]["datasets"]
        level["coordinateTransformations"][1]["translation"] = to

    return change


def test_a_volume_is_where_its_image_was_moved_to(tool, tmp_path):
    """What it was before, as a volume, is kept among the attributes, and is history."""
    volume_of_others(tmp_path / "one", [250, 500, 1000], [100, -200, 300])
    tool("repack", tmp_path / "one", tmp_path / "z")
    tool("repack", tmp_path / "z", tmp_path / "same", *VOLUME)
    assert scale_of(tmp_path / "same")["voxel_offset"] == [100, -200, 300]
    assert scale_of(tmp_path / "same")["key"] == "250_500_1000"
    edit(tmp_path / "z/zarr.json", moved([500, 750, 125]))
    tool("repack", tmp_path / "z", tmp_path / "moved", *VOLUME)
    assert scale_of(tmp_path / "moved")["voxel_offset"] == [0, 1, 0]
    edit(tmp_path / "z/zarr.json", moved([500, 1000, 125]))
    assert "along y (1000 nanometer)" in tool("repack", tmp_path / "z", tmp_path / "between", *VOLUME)


def test_voxels_of_another_size_stand_where_their_number_says(tool, tmp_path):
    volume_of_others(tmp_path / "one", [4, 4, 40], [0, 5, 3])
    tool("repack", tmp_path / "one", tmp_path / "z")
    tool("repack", tmp_path / "z", tmp_path / "v", *VOLUME)
    edit(tmp_path / "v/info", lambda info: info["scales"][0].update(resolution=[8, 8, 80]))
    expected = {"z": (80, 280, "nanometer"), "y": (8, 44, "nanometer"), "x": (8, 4, "nanometer")}
    near(described(tool, tmp_path / "v")[0], expected)


def test_a_resolution_has_all_its_digits_and_is_one_for_every_reader(tool, tmp_path):
    size = 3.5833333333333335
    volume_of_others(tmp_path / "one", [size, 4, 40], [-7, 13, 1000])
    tool("repack", tmp_path / "one", tmp_path / "z")
    tool("repack", tmp_path / "z", tmp_path / "v", *VOLUME)
    assert scale_of(tmp_path / "v")["resolution"] == [size, 4, 40]
    where = ["--voxel-offset", "-7,13,-1000"]
    tool("repack", tmp_path / "z", tmp_path / "w", *VOLUME, *where)
    assert scale_of(tmp_path / "w")["voxel_offset"] == [-7, 13, -1000]

    def huge(document):
        image = document["attributes"]["ome"]["multiscales"][0]
        image["datasets"][0]["coordinateTransformations"][0]["scale"] = [1e303, 1, 1]
        image["axes"][0]["unit"] = "meter"

    edit(tmp_path / "z/zarr.json", huge)
    said = tool("repack", tmp_path / "z", tmp_path / "huge", *VOLUME, code=2)
    assert "inf nanometers" in said and not (tmp_path / "huge").exists()


def test_a_level_that_is_no_object_and_a_number_for_a_name(tool, tmp_path):
    tool("replay", recording(tmp_path / "in.ome.tif"), tmp_path / "v", *VOLUME)
    edit(tmp_path / "v/info", lambda info: info["shardwright"]["ome"]["multiscales"][0].update(datasets=["0"]))
    for verb in ["info", "verify"]:
        tool(verb, tmp_path / "v")
    edit(tmp_path / "v/info", lambda info: info["scales"][0].update(key=10**30))
    assert "has no scales with keys" in tool("verify", tmp_path / "v", code=3)


def test_a_translation_becomes_an_offset_or_is_refused(tool, tmp_path):
    source = recording(tmp_path / "in.ome.tif")
    tool("replay", source, tmp_path / "v", *VOLUME, "--translation", "x=0.45,y=-30.15,z=1")
    (scale,) = json.loads((tmp_path / "v/info").read_text())["scales"]
    assert (scale["voxel_offset"], scale["resolution"]) == ([1, -101, 0], [300, 300, 2000])
    said = tool("replay", source, tmp_path / "w", *VOLUME, "--translation", "x=100", code=2)
    assert "x (100 micrometer)" in said and "--voxel-offset" in said and not (tmp_path / "w").exists()
    both = ["--translation", "x=0.45", "--voxel-offset", "1,2,3"]
    assert "--voxel-offset both" in tool("replay", source, tmp_path / "w", *VOLUME, *both, code=2)


def test_a_place_waits_for_the_size_of_pixels(tool, tmp_path):
    source = recording(tmp_path / "in.ome.tif", sizes=False, unit="mm", x=1.5, y=2.5)
    said = tool("replay", source, tmp_path / "z", "--pixel-size", "0.3um")
    assert "no unit" not in said and "is not taken along" not in said
    near(described(tool, tmp_path / "z")[0], {"x": (0.3, 1500, "micrometer"), "y": (0.3, 2500, "micrometer")})
    tool("replay", source, tmp_path / "turned", "--pixel-size", "0.3um", "--orientation", "transpose", "-q")
    near(described(tool, tmp_path / "turned")[0], {"x": (0.3, 2500, "micrometer"), "y": (0.3, 1500, "micrometer")})
    said = tool("replay", source, tmp_path / "unsaid")
    assert "along y (2.5 millimeter), x (1.5 millimeter) is not taken along" in said and "--pixel-size" in said


def test_channels_have_no_distance(tool, tmp_path):
    source = recording(tmp_path / "in.ome.tif")
    assert "channels" in tool("replay", source, tmp_path / "z", "--pixel-size", "c=2um", code=2)


def test_sizes_of_imagej_have_all_digits(tool, tmp_path):
    resolution = (40 / 13, 40 / 13)
    tifffile.imwrite(tmp_path / "in.tif", PIXELS[0], imagej=True, resolution=resolution, metadata={"unit": "um"})
    with tifffile.TiffFile(tmp_path / "in.tif") as file:
        above, below = file.pages[0].tags["XResolution"].value
    tool("replay", tmp_path / "in.tif", tmp_path / "z", "-q")
    assert described(tool, tmp_path / "z")[0]["x"][0] == below / above


@pytest.mark.parametrize("option, value, twice", [
    ("--translation", "y=1,x=2,y=2", "y"),
    ("--pixel-size", "1um,2um", "y and x"),
    ("--pixel-size", "y=1um,x=2um,y=1um", "y"),
])  # fmt: skip
def test_a_dimension_is_named_once(told, tmp_path, option, value, twice):
    call = ["replay", "synthetic", tmp_path / "o", "--camera", "8x8xu8", "--frames", 1, option, value]
    assert f"{option} gives {twice} twice" in told(*call, code=2)["error"]["message"]
    assert not (tmp_path / "o").exists()
