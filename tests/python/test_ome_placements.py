"""Where levels of other writers' images are, in all ways of saying it: kept, said in another version, or refused."""

import json

import numpy as np
import ome_zarr_models.v04
import pytest
import tifffile
import yaozarrs
import zarr
from ome_0_6 import validated

SCALE = {"type": "scale", "scale": [0.1, 4.0]}
MOVE = {"type": "translation", "translation": [8.0, -2.0]}
TURN = {"type": "rotation", "rotation": [[0.0, 1.0], [-1.0, 0.0]]}
SHEAR = {"type": "affine", "affine": [[1.0, 0.5, 0.0], [0.0, 1.0, 0.0]]}
SWAP = {"type": "mapAxis", "mapAxis": [1, 0]}
AXES = [{"name": name, "type": "space", "unit": "micrometer"} for name in "yx"]


def sequence(*steps):
    return {"type": "sequence", "transformations": list(steps)}


def ends(start, end, plain=False):
    """From an array, or a coordinate system, to a coordinate system."""
    key = "path" if start.isdigit() else "name"
    return {"input": start if plain else {key: start}, "output": end if plain else {"name": end}}


def write(path, ome, levels=1, zarr_format=3):
    root = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    for level in range(levels):
        size = 64 >> level
        data = np.arange(size * size, dtype="u2").reshape(size, size)
        more = {"dimension_names": ["y", "x"]} if zarr_format == 3 else {}
        root.create_array(str(level), data=data, chunks=(16, 16), **more)
    root.attrs.update(ome)
    return path


def image_0_6(path, *levels, of_all=(), systems=("physical",), **more):
    datasets = [{"path": str(at), "coordinateTransformations": list(ways)} for at, ways in enumerate(levels)]
    datasets = [{key: value for key, value in dataset.items() if value} for dataset in datasets]
    image = {"coordinateSystems": [{"name": name, "axes": AXES} for name in systems], "datasets": datasets, **more}
    if of_all:
        image["coordinateTransformations"] = list(of_all)
    return write(path, {"ome": {"version": "0.6", "multiscales": [image]}}, len(levels))


def image_0_5(path, *levels, of_all=(), axes=AXES):
    datasets = [{"path": str(at), "coordinateTransformations": list(ways)} for at, ways in enumerate(levels)]
    image = {"axes": axes, "datasets": datasets, "coordinateTransformations": list(of_all)}
    image = {key: value for key, value in image.items() if value}
    return write(path, {"ome": {"version": "0.5", "multiscales": [image]}}, len(levels))


def image_of(path):
    return json.loads((path / "zarr.json").read_text())["attributes"]["ome"]["multiscales"][0]


def steps(path, level=0):
    return image_of(path)["datasets"][level]["coordinateTransformations"]


def scale(*numbers):
    return {"type": "scale", "scale": list(numbers)}


def translation(*numbers):
    return {"type": "translation", "translation": list(numbers)}


def by_dimension(*parts):
    """Each part: a transformation, and the axes from which and to which it leads."""
    keys = ["transformation", "inputAxes", "outputAxes"]
    return {"type": "byDimension", "transformations": [dict(zip(keys, part, strict=True)) for part in parts]}


def bijection(forward, inverse):
    return {"type": "bijection", "forward": forward, "inverse": inverse}


# What is said in 0.6, and what that is in 0.5.
SAYABLE = {
    "scale": ([{**SCALE, **ends("0", "physical")}], [], [SCALE]),
    "in order": ([{**sequence(SCALE, MOVE), **ends("0", "physical")}], [], [SCALE, MOVE]),
    "swapped": ([{**sequence(MOVE, SCALE), **ends("0", "physical")}], [], [SCALE, translation(0.8, -8.0)]),
    "twice": ([{**sequence(SCALE, scale(2, 2)), **ends("0", "physical")}], [], [scale(0.2, 8.0)]),
    "nested": ([{**sequence(sequence(MOVE), sequence(SCALE)), **ends("0", "physical")}], [],
               [SCALE, translation(0.8, -8.0)]),
    "diagonal": ([{"type": "affine", "affine": [[2, 0, 5], [0, 3, 0]], **ends("0", "physical")}], [],
                 [scale(2, 3), translation(5, 0)]),
    "of all, nothing own": ([], [{**sequence(SCALE, MOVE), **ends("0", "physical")}], [SCALE, MOVE]),
    "of all, without ends": ([{**scale(2, 2), **ends("0", "physical")}], [sequence(SCALE, MOVE)],
                             [scale(0.2, 8.0), MOVE]),
    "texts": ([{**sequence(SCALE, MOVE), **ends("0", "physical", plain=True)}], [], [SCALE, MOVE]),
    "by dimension": ([{**by_dimension((scale(4.0), [1], [1]), (sequence(scale(0.1), translation(8.0)), [0], [0])),
                       **ends("0", "physical")}], [], [SCALE, translation(8.0, 0.0)]),
    "by dimension, both at once": ([{**by_dimension((scale(4.0, 0.1), [1, 0], [1, 0])), **ends("0", "physical")}],
                                   [], [SCALE]),
    "bijection": ([{**bijection(sequence(SCALE, MOVE), {"type": "identity"}), **ends("0", "physical")}], [],
                  [SCALE, MOVE]),
    "inverse": ([{"type": "inverseOf", "transformation": sequence(translation(-2.0, 4.0), scale(0.5, 4.0)),
                  **ends("0", "physical")}], [], [scale(2.0, 0.25), translation(2.0, -4.0)]),
    "by another system": ([{**SCALE, **ends("0", "sample")}],
                          [{**MOVE, **ends("sample", "physical")}], [SCALE]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", SAYABLE)
def test_what_0_5_can_say_of_0_6_is_said_in_all_that_is_made(tool, tmp_path, case):
    own, of_all, expected = SAYABLE[case]
    systems = ("physical", "sample") if "another" in case else ("physical",)
    path = image_0_6(tmp_path / "a.zarr", own, of_all=of_all, systems=systems)
    tool("repack", path, tmp_path / "b.zarr", "--ome", "0.5", "--unsharded", "--codec", "zstd")
    assert steps(tmp_path / "b.zarr") == expected
    yaozarrs.validate_zarr_store(str(tmp_path / "b.zarr"))
    tool("repack", path, tmp_path / "c.zarr", "--ome", "0.4", "--dialect", "zarr2", "--unsharded")
    old = json.loads((tmp_path / "c.zarr/.zattrs").read_text())["multiscales"][0]
    assert old["datasets"][0]["coordinateTransformations"] == expected
    ome_zarr_models.v04.Image.from_zarr(zarr.open_group(tmp_path / "c.zarr", mode="r", zarr_format=2))
    tool("repack", tmp_path / "b.zarr", tmp_path / "d.zarr", "--ome", "0.6", "--unsharded", "--codec", "zstd")
    validated("Image", tmp_path / "d.zarr")
    # A pixel size as it is in other formats.
    tool("export", path / "0", tmp_path / "e.ome.tif")
    with tifffile.TiffFile(tmp_path / "e.ome.tif") as file:
        pixels = tifffile.xml2dict(file.ome_metadata)["OME"]["Image"]["Pixels"]
    sizes = expected[0]["scale"]
    assert [pixels["PhysicalSizeY"], pixels["PhysicalSizeX"]] == sizes
    tool("repack", path, tmp_path / "v", "--dialect", "precomputed", "--codec", "gzip")
    resolution = json.loads((tmp_path / "v/info").read_text())["scales"][0]["resolution"]
    assert resolution[:2] == pytest.approx([1000 * size for size in sizes[::-1]])
    tool("pyramid", path, "--levels", "1", "--method", "mean")
    moved = expected[1]["translation"] if expected[1:] else [0, 0]
    if case == "of all, without ends":
        # It goes on to be said of all levels.
        sizes, moved = [2, 2], [0, 0]
    way = steps(path, 1)[0]
    assert way["transformations"][0]["scale"] == [2 * size for size in sizes]
    assert way["transformations"][1]["translation"] == pytest.approx(
        [place + size / 2 for place, size in zip(moved, sizes, strict=True)]
    )
    assert way["output"] == (own or of_all)[0]["output"] and type(way["input"]) is type(way["output"])


def test_numbers_that_are_not_composed_stay_as_they_are_written(tool, tmp_path):
    own = sequence({**scale(1, 0.1), "own": 1}, translation(7, -0.0))
    path = image_0_6(tmp_path / "a.zarr", [{**own, **ends("0", "physical")}])
    tool("repack", path, tmp_path / "b.zarr", "--ome", "0.5", "--unsharded", "--codec", "zstd")
    assert json.dumps(steps(tmp_path / "b.zarr")) == json.dumps(own["transformations"])


@pytest.mark.parametrize("way", [TURN, SHEAR, SWAP, sequence(SCALE, TURN), {"type": "byDimension"},
                                 by_dimension((scale(1), [0], [1]), (scale(2), [1], [0])),
                                 bijection(TURN, TURN), {"type": "displacements", "path": "field"},
                                 {"type": "inverseOf", "transformation": SWAP}])  # fmt: skip
@pytest.mark.parametrize("version", [["--ome", "0.5"], ["--ome", "0.4"], ["--dialect", "zarr2"]])
@pytest.mark.parametrize("levels", [1, 2])
def test_what_no_grid_says_is_refused_in_other_versions_and_kept_in_its_own(tool, tmp_path, way, version, levels):
    own = [{**way, **ends(str(level), "physical")} for level in range(levels)]
    path = image_0_6(tmp_path / "a.zarr", *[[one] for one in own])
    # The kind that is to blame.
    kind = {"sequence": "rotation", "bijection": "rotation", "inverseOf": "mapAxis"}.get(way["type"], way["type"])
    told = tool("repack", path, tmp_path / "b.zarr", *version, "--unsharded", code=5)
    assert '"0"' in told and kind in told and "0.6" in told
    assert not (tmp_path / "b.zarr").exists()
    tool("repack", path, tmp_path / "c.zarr", "--codec", "zstd", "--unsharded")
    assert image_of(tmp_path / "c.zarr") == image_of(path)
    tool("repack", path, tmp_path / "d.zarr", "--codec", "zstd", "--unsharded", "--ome", "0.6")
    assert image_of(tmp_path / "d.zarr") == image_of(path)


def test_what_has_no_grid_is_said_where_a_grid_is_read(tool, tmp_path):
    path = image_0_6(tmp_path / "a.zarr", [{**TURN, **ends("0", "physical")}])
    assert "rotation" in tool("export", path / "0", tmp_path / "a.ome.tif")
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as file:
        assert "PhysicalSize" not in file.ome_metadata
    assert "rotation" in tool("pyramid", path, "--levels", "1", code=5)
    volume = ["repack", path, tmp_path / "v", "--dialect", "precomputed", "--codec", "gzip"]
    assert "resolution" in tool(*volume, code=2)
    tool(*volume, "--resolution", "100,100,100")


def test_levels_in_other_systems_are_not_mixed(tool, tmp_path):
    own = [[{**SCALE, **ends("0", "physical")}], [{**scale(2, 2), **ends("1", "sample")}]]
    path = image_0_6(tmp_path / "a.zarr", *own, systems=("physical", "sample"))
    told = tool("repack", path, tmp_path / "b.zarr", "--ome", "0.5", "--unsharded", "--codec", "zstd", code=5)
    assert '"1"' in told and "sample" in told
    # Once it is said how the one leads to the other.
    lead = {**scale(0.1, 4.0), **ends("sample", "physical")}
    path = image_0_6(tmp_path / "c.zarr", *own, systems=("physical", "sample"), of_all=[lead])
    tool("repack", path, tmp_path / "d.zarr", "--ome", "0.5", "--unsharded", "--codec", "zstd")
    assert steps(tmp_path / "d.zarr", 1) == [scale(0.2, 8.0)]


@pytest.mark.parametrize("of_all, expected", [([MOVE], [SCALE, MOVE]), ([MOVE, scale(2, 2)], None)])
def test_what_0_5_says_of_all_levels_is_said_of_each_in_0_6(tool, tmp_path, of_all, expected):
    path = image_0_5(tmp_path / "a.zarr", [SCALE], of_all=of_all)
    told = tool("repack", path, tmp_path / "b.zarr", "--ome", "0.6", "--unsharded", "--codec", "zstd")
    assert "left out" not in told
    way = validated("Image", tmp_path / "b.zarr")["multiscales"][0]["datasets"][0]["coordinateTransformations"][0]
    expected = expected or [scale(0.2, 8.0), translation(16.0, -4.0)]
    assert [step[step["type"]] for step in way["transformations"]] == [step[step["type"]] for step in expected]


def test_keys_of_others_stay_or_are_told(tool, tmp_path):
    path = image_0_5(tmp_path / "a.zarr", [SCALE])
    document = json.loads((path / "zarr.json").read_text())
    image = document["attributes"]["ome"]["multiscales"][0]
    image["datasets"][0]["own"] = {"a": 1}
    image["own"] = [2]
    (path / "zarr.json").write_text(json.dumps(document))
    before = image_of(path)
    tool("repack", path, tmp_path / "b.zarr", "--ome", "0.6", "--unsharded", "--codec", "zstd")
    new = image_of(tmp_path / "b.zarr")
    assert new["datasets"][0]["own"] == {"a": 1} and new["own"] == [2]
    document = json.loads((tmp_path / "b.zarr/zarr.json").read_text())
    document["attributes"]["ome"]["multiscales"][0]["coordinateSystems"][0]["theirs"] = 3
    (tmp_path / "b.zarr/zarr.json").write_text(json.dumps(document))
    told = tool("repack", tmp_path / "b.zarr", tmp_path / "c.zarr", "--ome", "0.5", "--unsharded", "--codec", "zstd")
    assert '"theirs"' in told
    assert image_of(tmp_path / "c.zarr") == before


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda ome: ome.pop("version"), "without a version"),
        (lambda ome: ome.update(version="0.7"), '"0.7"'),
        (lambda ome: ome.update(version=0.5), "version 0.5"),
        (lambda ome: ome.update(multiscales=ome["multiscales"][0]), "no list"),
        (lambda ome: ome["multiscales"][0].pop("axes"), "axes"),
        (lambda ome: ome["multiscales"][0].update(axes=["row", "x"]), '"row"'),
        (lambda ome: ome["multiscales"][0]["datasets"][0].pop("coordinateTransformations"), "Transformations"),
    ],
)
@pytest.mark.parametrize("place", ["copy", "in place"])
def test_a_version_is_never_silently_passed_over(tool, tmp_path, change, words, place):
    path = image_0_5(tmp_path / "a.zarr", [SCALE])
    document = json.loads((path / "zarr.json").read_text())
    change(document["attributes"]["ome"])
    (path / "zarr.json").write_text(json.dumps(document))
    out = [tmp_path / "b.zarr"] if place == "copy" else []
    before = (path / "zarr.json").read_bytes()
    told = tool("repack", path, *out, "--ome", "0.6", "--unsharded", "--codec", "zstd", code=5)
    assert words in told, told
    assert (path / "zarr.json").read_bytes() == before and not (tmp_path / "b.zarr").exists()
    # Without it, all stays what it is.
    tool("repack", path, *out, "--unsharded", "--codec", "zstd")
    assert json.loads(((out or [path])[0] / "zarr.json").read_text())["attributes"] == document["attributes"]


@pytest.mark.parametrize("version", ["0.7", 0.4])
def test_odd_versions_in_zarr_v2_are_not_passed_over(tool, tmp_path, version):
    image = {"version": version, "axes": AXES, "datasets": [{"path": "0", "coordinateTransformations": [SCALE]}]}
    path = write(tmp_path / "a.zarr", {"multiscales": [image]}, zarr_format=2)
    told = tool("repack", path, tmp_path / "b.zarr", "--ome", "0.5", "--unsharded", code=5)
    assert json.dumps(version) in told
    tool("repack", path, tmp_path / "b.zarr", "--dialect", "zarr3", "--unsharded")


def test_axes_that_are_names_become_axes(tool, tmp_path):
    path = image_0_5(tmp_path / "a.zarr", [SCALE], axes=["y", "x"])
    tool("repack", path, tmp_path / "b.zarr", "--ome", "0.6", "--unsharded", "--codec", "zstd")
    image = validated("Image", tmp_path / "b.zarr")["multiscales"][0]
    axes = image["coordinateSystems"][0]["axes"]
    assert [(axis["name"], axis["type"]) for axis in axes] == [("y", "space"), ("x", "space")]


def test_where_nothing_is_said_no_place_is_made_up(tool, tmp_path):
    path = image_0_5(tmp_path / "a.zarr", [])
    before = (path / "zarr.json").read_bytes()
    assert "no coordinateTransformations" in tool("pyramid", path, "--levels", "1", code=3)
    assert (path / "zarr.json").read_bytes() == before
    path = write(tmp_path / "b.zarr", {"mine": 1})
    assert "changes nothing" in tool("repack", path, tmp_path / "c.zarr", "--ome", "0.6", "--unsharded")
