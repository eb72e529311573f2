"""Whole datasets of OME-Zarr 0.5 and 0.6 said in 0.4: images with their levels and labels, plates, collections."""

import json
import pathlib

import numpy as np
import ome_zarr_models.v04 as v04
import pytest
import zarr
from readers import assert_same
from test_plates import CUT, plate
from zarr.metadata.migrate_v3 import migrate_v2_to_v3

pytestmark = pytest.mark.filterwarnings("ignore")
CAMERA = ["--camera", "640x600xu16", "--frames", "5", "--pixel-size", "0.5um", "--translation", "y=-20,x=7.25"]


def arrays(path):
    """The pixels of all arrays that a reader of Zarr finds, by their names."""
    root = zarr.open_group(path, mode="r")
    return {name: node[...] for name, node in root.members(max_depth=None) if isinstance(node, zarr.Array)}


def assert_is_zarr2(path, expected):
    """No reader sees anything but Zarr v2, by consolidated metadata or without."""
    documents = [file for file in pathlib.Path(path).rglob("zarr.json") if "records" not in file.parts]
    assert documents == []
    for use in [None, False]:
        root = zarr.open_group(path, mode="r", zarr_format=2, use_consolidated=use)
        for name, pixels in expected.items():
            assert_same(root[name][...], pixels)


@pytest.mark.parametrize("version", ["0.5", "0.6"])
def test_an_image_keeps_its_levels(tool, replay, tmp_path, version):
    _, path = replay("synthetic", *CAMERA, "--pyramid", "mean", "--ome", version)
    tool("repack", path, tmp_path / "o.zarr", "--ome", "0.4")
    expected = {name: pixels for name, pixels in arrays(path).items() if not name.startswith("records")}
    assert sorted(expected) == ["0", "1", "2"]
    assert_is_zarr2(tmp_path / "o.zarr", expected)
    image = v04.Image.from_zarr(zarr.open_group(tmp_path / "o.zarr", mode="r", zarr_format=2))
    (said,) = image.attributes.multiscales
    assert [dataset.path for dataset in said.datasets] == ["0", "1", "2"]
    steps = said.datasets[2].coordinateTransformations
    assert (steps[0].scale[1:], steps[1].translation[1:]) == ([2.0, 2.0], [-20 + 0.5 * 1.5, 7.25 + 0.5 * 1.5])
    tool("verify", tmp_path / "o.zarr")
    tool("repack", tmp_path / "o.zarr", tmp_path / "back.zarr", "--ome", version, "--shard", "5,600,640")
    for name, pixels in expected.items():
        assert_same(zarr.open_group(tmp_path / "back.zarr", mode="r")[name][...], pixels)
    tool("verify", tmp_path / "back.zarr")


@pytest.mark.parametrize("options", [[], ["--skip", "A/1/0/labels/cells"], ["--only", "A/2"], ["--codec", "gzip"]])
@pytest.mark.parametrize("consolidated", [False, True])
def test_a_plate_with_labels(tool, tmp_path, options, consolidated):
    plate(tmp_path / "old.zarr")
    tool("repack", tmp_path / "old.zarr", tmp_path / "p.zarr", *CUT)
    if consolidated:
        zarr.consolidate_metadata(tmp_path / "p.zarr")
    told = tool("repack", tmp_path / "p.zarr", tmp_path / "o.zarr", "--ome", "0.4", *options)
    left = {"--skip": "A/1/0/labels/cells", "--only": "A/1"}.get(options[0] if options else None)
    assert (left in told) if left else "left out" not in told
    found = arrays(tmp_path / "o.zarr")
    expected = arrays(tmp_path / "p.zarr")
    expected = {name: pixels for name, pixels in expected.items() if not left or not name.startswith(left)}
    assert sorted(found) == sorted(expected) and len(expected) > 3
    assert_is_zarr2(tmp_path / "o.zarr", expected)
    assert (tmp_path / "o.zarr/.zmetadata").exists() == consolidated
    root = zarr.open_group(tmp_path / "o.zarr", mode="r", zarr_format=2)
    for well in v04.HCS.from_zarr(root).attributes.plate.wells:
        for field in v04.Well.from_zarr(root[well.path]).attributes.well.images:
            v04.Image.from_zarr(root[f"{well.path}/{field.path}"])
            if "labels" in root[f"{well.path}/{field.path}"]:
                v04.Labels.from_zarr(root[f"{well.path}/{field.path}/labels"])
    tool("verify", tmp_path / "o.zarr")


def test_a_collection(tool, tmp_path):
    root = zarr.open_group(tmp_path / "c.zarr", mode="w")
    root.attrs["ome"] = {"version": "0.5", "bioformats2raw.layout": 3}
    root.create_group("OME").attrs["ome"] = {"version": "0.5", "series": ["0", "1"]}
    (tmp_path / "c.zarr/OME/METADATA.ome.xml").write_text("<OME/>")
    axes = [{"name": name, "type": "space"} for name in "yx"]
    pixels = np.arange(64 * 48, dtype=">f4").reshape(64, 48)
    for series in "01":
        image = root.create_group(series)
        ways = [[{"type": "scale", "scale": [step, step]}] for step in (1, 2)]
        datasets = [{"path": str(at), "coordinateTransformations": way} for at, way in enumerate(ways)]
        image.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
        image.attrs["mine"] = [series]
        for at in range(2):
            level = pixels[:: at + 1, :: at + 1]
            image.create_array(str(at), data=level, chunks=(16, 12), shards=(32, 48), dimension_names=["y", "x"])
    zarr.create_array(tmp_path / "c.zarr/table", data=np.arange(7, dtype="i8"), chunks=(4,))
    tool("repack", tmp_path / "c.zarr", tmp_path / "o.zarr", "--ome", "0.4")
    assert_is_zarr2(tmp_path / "o.zarr", arrays(tmp_path / "c.zarr"))
    said = zarr.open_group(tmp_path / "o.zarr", mode="r", zarr_format=2)
    assert dict(said.attrs) == {"bioformats2raw.layout": 3} and dict(said["OME"].attrs) == {"series": ["0", "1"]}
    assert said["1"].attrs["mine"] == ["1"] and said["1/1"].attrs["_ARRAY_DIMENSIONS"] == ["y", "x"]
    v04.Image.from_zarr(said["1"])
    assert json.loads((tmp_path / "o.zarr/0/0/.zarray").read_text())["dtype"] == "<f4"
    assert (tmp_path / "o.zarr/OME/METADATA.ome.xml").read_text() == "<OME/>"
    tool("verify", tmp_path / "o.zarr")


def test_what_can_t_be_done_in_place_says_where_it_can(tool, tmp_path):
    plate(tmp_path / "old.zarr")
    tool("repack", tmp_path / "old.zarr", tmp_path / "p.zarr", *CUT)
    assert "write the result to a new dataset" in tool("repack", tmp_path / "p.zarr", "--ome", "0.4", code=2)


def one_array(path, name):
    """A tree with one array, consolidated."""
    root = zarr.open_group(path, mode="w", attributes={"who": "me"})
    root.create_group("a", attributes={"k": "v"})
    data = np.arange(64 * 48, dtype="u2").reshape(64, 48)
    root.create_array(name, data=data, chunks=(16, 12), shards=(32, 48), attributes={"own": 1})
    zarr.consolidate_metadata(path)
    return data


@pytest.mark.parametrize("name", ["a/b", "b", "0"])
def test_what_a_tree_of_one_array_loses_is_told_with_what_keeps_it(tool, told, tmp_path, name):
    data = one_array(tmp_path / "a.zarr", name)
    call = ["repack", tmp_path / "a.zarr", tmp_path / "o.zarr"]
    (note,) = [note for note in told(*call, "--dialect", "zarr2")["notes"] if "--ome 0.4" in note]
    assert (f'the array "{name}" becomes "0"' in note) == (name != "0") and "consolidated" in note
    assert_same(zarr.open_group(tmp_path / "o.zarr", mode="r", zarr_format=2)["0"][...], data)
    # The advice.
    call[-1] = tmp_path / "kept.zarr"
    assert "becomes" not in tool(*call, "--dialect", "zarr2", "--ome", "0.4")
    assert_is_zarr2(tmp_path / "kept.zarr", {name: data})
    root = zarr.open_consolidated(tmp_path / "kept.zarr")
    assert dict(root.attrs) == {"who": "me"} and dict(root["a"].attrs) == {"k": "v"} and root[name].attrs["own"] == 1


@pytest.mark.parametrize("number", [1, 2, 20, 21, 30])
def test_arrays_that_are_left_out_are_named_in_one_note(told, tmp_path, number):
    root = zarr.open_group(tmp_path / "g.zarr", mode="w")
    names = [f"a{at:02}" for at in range(number)]
    for name in ["0", *names]:
        root.create_array(name, data=np.ones((4, 4), "u1"), chunks=(2, 2))
    call = ["repack", tmp_path / "g.zarr", tmp_path / "o.zarr", "--dialect", "zarr2", "--skip", ",".join(names)]
    (note,) = [note for note in told(*call)["notes"] if "left out" in note]
    if number == 1:
        assert note == "the array \"a00\" is not repacked, and left out: it can't stay what it is in zarr2"
        return
    listed = ", ".join(f'"{name}"' for name in names[:20])
    more = {21: " and 1 other", 30: " and 10 others"}.get(number, "")
    expected = f"the arrays {listed}{more} are not repacked, and left out: they can't stay what they are in zarr2"
    assert note == expected


def test_a_field_of_one_level_stays_a_field_of_its_plate(tool, tmp_path):
    plate(tmp_path / "old.zarr")
    tool("repack", tmp_path / "old.zarr", tmp_path / "p.zarr", *CUT, "--only", "A/1/0/0,A/2/0/0")
    said = tool("repack", tmp_path / "p.zarr", tmp_path / "o.zarr", "--ome", "0.4", "--only", "A/2/0")
    assert '"A/1/0/0" is not repacked, and left out' in said
    assert_is_zarr2(tmp_path / "o.zarr", {"A/2/0/0": arrays(tmp_path / "p.zarr")["A/2/0/0"]})
    root = zarr.open_group(tmp_path / "o.zarr", mode="r", zarr_format=2)
    assert [well.path for well in v04.HCS.from_zarr(root).attributes.plate.wells] == ["A/2"]
    v04.Image.from_zarr(root["A/2/0"])


@pytest.mark.parametrize("words", [["--dialect", "zarr2"], ["--ome", "0.4"]])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_dataset_of_0_4_gets_another_codec_and_stays_so(tool, tmp_path, words, in_place):
    path, out = tmp_path / "p.zarr", tmp_path / ("p.zarr" if in_place else "o.zarr")
    plate(path)
    table = zarr.open_group(path, mode="a").create_array("table", data=np.arange(9.0), chunks=(3,))
    zarr.consolidate_metadata(path)
    expected = arrays(path)
    said = {file.relative_to(path): file.read_bytes() for file in path.rglob(".zattrs")}
    call = ["repack", path, *([] if in_place else [out]), *words, "--codec", "zstd", "--chunk", "2,16,16"]
    assert "chunk files written" in tool(*call)
    assert {file.relative_to(out): file.read_bytes() for file in out.rglob(".zattrs")} == said
    assert_is_zarr2(out, expected)
    documents = {name: json.loads((out / name / ".zarray").read_text()) for name in expected}
    line = documents.pop("table")
    assert line["chunks"] == [3] and line["compressor"] == table.metadata.to_dict()["compressor"]
    assert all(document["compressor"]["id"] == "zstd" for document in documents.values())
    assert all(document["chunks"] == [2, 16, 16] for document in documents.values())
    v04.HCS.from_zarr(zarr.open_group(out, mode="r", zarr_format=2))
    tool("verify", out)
    assert "nothing to" in tool(*call)


def test_a_part_of_a_plate_of_0_4_gets_another_codec(tool, tmp_path):
    plate(tmp_path / "p.zarr")
    expected = arrays(tmp_path / "p.zarr")
    only = ["--ome", "0.4", "--only", "A/1/0"]
    assert "--codec" in tool("repack", tmp_path / "p.zarr", tmp_path / "o.zarr", *only, code=2)
    tool("repack", tmp_path / "p.zarr", tmp_path / "o.zarr", *only, "--codec", "gzip")
    assert_is_zarr2(tmp_path / "o.zarr", expected)
    for name in expected:
        compressor = json.loads((tmp_path / "o.zarr" / name / ".zarray").read_text())["compressor"]
        assert (compressor["id"] == "gzip") == name.startswith("A/1/0/"), (name, compressor)


def migrated(path):
    """An image of OME-Zarr 0.4 as zarr-python's migration makes Zarr v3 of it, and what it says."""
    axes = [{"name": name, "type": "space"} for name in "yx"]
    scales = [{"type": "scale", "scale": [step, step]} for step in [1.0, 2.0]]
    levels = [{"path": str(at), "coordinateTransformations": [scale]} for at, scale in enumerate(scales)]
    image = {"axes": axes, "datasets": levels}
    said = {"multiscales": [{"version": "0.4", **image}], "mine": 1}
    root = zarr.open_group(path, mode="w", zarr_format=2, attributes=said)
    for at in range(2):
        root.create_array(str(at), data=np.full((16 >> at,) * 2, at, "u2"), chunks=(8, 8))
    migrate_v2_to_v3(input_store=str(path))
    for document in [*path.rglob(".zattrs"), *path.rglob(".zarray"), *path.rglob(".zgroup")]:
        document.unlink()
    return said, image


def test_a_migrated_image_says_it_in_any_version(tool, told, tmp_path):
    said, image = migrated(tmp_path / "a.zarr")
    for name, options in [("b", ["--ome", "0.4"]), ("c", ["--dialect", "zarr2"])]:
        tool("repack", tmp_path / "a.zarr", tmp_path / name, *options)
        result = zarr.open_group(tmp_path / name, mode="r", zarr_format=2)
        assert dict(result.attrs) == said and result["1"][...].all()
    tool("repack", tmp_path / "a.zarr", tmp_path / "d", "--ome", "0.5")
    of_0_5 = {"ome": {"version": "0.5", "multiscales": [image]}, "mine": 1}
    assert dict(zarr.open_group(tmp_path / "d", mode="r", zarr_format=3).attrs) == of_0_5
    tool("repack", tmp_path / "a.zarr", tmp_path / "e", "--ome", "0.6")
    tool("repack", tmp_path / "e", "--ome", "0.5")
    assert dict(zarr.open_group(tmp_path / "e", mode="r").attrs) == of_0_5
    # Nobody has asked: it stays.
    tool("repack", tmp_path / "a.zarr", tmp_path / "f", "--unsharded")
    assert dict(zarr.open_group(tmp_path / "f", mode="r", zarr_format=3).attrs) == said
    tool("repack", tmp_path / "a.zarr", "--ome", "0.5")
    assert dict(zarr.open_group(tmp_path / "a.zarr", mode="r", zarr_format=3).attrs) == of_0_5
    root = zarr.open_group(tmp_path / "a.zarr", mode="a")
    root.attrs.put({"multiscales": [{**image, "version": "0.9"}]})
    message = told("repack", tmp_path / "a.zarr", tmp_path / "g", "--ome", "0.5", code=5)["error"]["message"]
    assert 'of the version "0.9" among its attributes, where that of OME-Zarr 0.4 is known' in message


@pytest.mark.parametrize("options", [["--ome", "0.4"], ["--dialect", "zarr2", "--only", "0", "--codec", "zstd"]])
def test_dimensions_without_names_are_called_as_the_axes(tool, tmp_path, options):
    _, image = migrated(tmp_path / "a.zarr")
    root = zarr.open_group(tmp_path / "a.zarr", mode="a")
    root.attrs.put({"ome": {"version": "0.5", "multiscales": [image]}})
    assert root["0"].metadata.dimension_names is None
    tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", *options)
    assert dict(zarr.open_group(tmp_path / "b.zarr", mode="r", zarr_format=2)["0"].attrs) == {
        "_ARRAY_DIMENSIONS": ["y", "x"]
    }
