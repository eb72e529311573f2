"""Plates, wells and collections of images of which only a part is repacked: what is listed is there, by the validators
of OME-Zarr, and what is there is listed."""

import itertools
import json

import numpy as np
import ome_zarr_models.v05
import pytest
import yaozarrs
import zarr
from readers import assert_same

CUT = ["--chunk", "2,16,16", "--shard", "4,32,32"]
AXES = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
XML = """<?xml version="1.0" encoding="UTF-8"?>
<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">
  <!-- <Image ID="none"/> -->
  {images}
</OME>
"""


def pixels(seed=0, shape=(12, 40, 50)):
    return np.random.default_rng(seed).integers(1, 60000, shape, dtype="u2")


def image(group, seed, levels=2):
    """An image of OME-Zarr 0.4 in a group of Zarr v2, as ome-zarr-py writes it; returns the pixels by level."""
    found = [pixels(seed, (12, 40 >> level, 50 >> level)) for level in range(levels)]
    for level, data in enumerate(found):
        keys = {"name": "v2", "separator": "/"}
        group.create_array(str(level), data=data, chunks=(2, 16, 16), chunk_key_encoding=keys)
    datasets = [
        {"path": str(level), "coordinateTransformations": [{"type": "scale", "scale": [1, 2**level, 2**level]}]}
        for level in range(levels)
    ]
    group.attrs["multiscales"] = [{"version": "0.4", "name": "field", "axes": AXES, "datasets": datasets}]
    return found


def plate(path):
    """Two wells of two fields each, one of them with labels."""
    root = zarr.open_group(path, mode="w", zarr_format=2)
    wells = [{"path": f"A/{column + 1}", "rowIndex": 0, "columnIndex": column} for column in range(2)]
    columns = [{"name": "1"}, {"name": "2"}]
    root.attrs["plate"] = {
        "version": "0.4", "name": "p", "rows": [{"name": "A"}], "columns": columns, "wells": wells, "field_count": 2,
    }  # fmt: skip
    found = {}
    for seed, (column, field) in enumerate(itertools.product("12", "01")):
        well = root.require_group(f"A/{column}")
        well.attrs["well"] = {"version": "0.4", "images": [{"path": "0"}, {"path": "1"}]}
        well.attrs["treated"] = column == "2"
        found[f"A/{column}/{field}"] = image(well.create_group(field), seed)
    labels = root["A/1/0"].create_group("labels")
    labels.attrs["labels"] = ["cells", "nuclei"]
    for name in ["cells", "nuclei"]:
        found[f"A/1/0/labels/{name}"] = image(labels.create_group(name), 9)
        labels[name].attrs["image-label"] = {"version": "0.4", "source": {"image": "../../"}}
    return found


def assert_lists_what_is_there(path):
    """Validated, and walked by the lists as a reader does; returns the paths of all levels that were found."""
    yaozarrs.validate_zarr_store(str(path))
    root = zarr.open_group(path, mode="r")
    ome_zarr_models.v05.HCS.from_zarr(root)
    found = []
    for well in root.attrs["ome"]["plate"]["wells"]:
        for field in root[well["path"]].attrs["ome"]["well"]["images"]:
            found += levels_of(root, f"{well['path']}/{field['path']}")
    return found


def levels_of(root, name):
    found = [f"{name}/{level['path']}" for level in root[name].attrs["ome"]["multiscales"][0]["datasets"]]
    assert all(root[level].ndim == 3 for level in found)
    if f"{name}/labels" in root:
        for label in root[f"{name}/labels"].attrs["ome"]["labels"]:
            found += levels_of(root, f"{name}/labels/{label}")
    return found


ALL = [f"A/{column}/{field}/{level}" for column, field, level in itertools.product("12", "01", "01")]
LABELS = [f"A/1/0/labels/{name}/{level}" for name, level in itertools.product(["cells", "nuclei"], "01")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "options, expected",
    [
        ([], [*ALL, *LABELS]),
        (["--only", "A/1/0/0"], ["A/1/0/0"]),
        (["--only", "A/2"], ALL[4:]),
        (["--skip", "A/1/1"], [*ALL[:2], *ALL[4:], *LABELS]),
        (["--skip", "A/1/1/1,A/2/1"], [*ALL[:3], *ALL[4:6], *LABELS]),
        (["--skip", "A/1/0/labels"], ALL),
        (["--skip", "A/1/0/labels/cells"], [*ALL, *LABELS[2:]]),
        (["--skip", "A/1/0/0", "--skip", "A/1/0/1"], ALL[2:]),
    ],
)
def test_a_part_of_a_plate_lists_what_it_has(tool, tmp_path, options, expected):
    data = plate(tmp_path / "p.zarr")
    out = tmp_path / "o.zarr"
    tool("repack", tmp_path / "p.zarr", out, *CUT, *options)
    found = assert_lists_what_is_there(out)
    assert sorted(found) == sorted(expected)
    root = zarr.open_group(out, mode="r")
    said = root.attrs["ome"]["plate"]
    assert (said["rows"], said["columns"]) == ([{"name": "A"}], [{"name": "1"}, {"name": "2"}])
    for name in found:
        assert_same(root[name][...], data[name.rpartition("/")[0]][int(name[-1])])
    tool("verify", out)


@pytest.mark.filterwarnings("ignore")
def test_groups_without_arrays_go_and_what_they_said_is_told(tool, tmp_path):
    plate(tmp_path / "p.zarr")
    said = tool("repack", tmp_path / "p.zarr", tmp_path / "o.zarr", *CUT, "--only", "A/1/0/0")
    assert 'the attributes of the group "A/2" are left out' in said and '"A/1" are' not in said
    assert not (tmp_path / "o.zarr/A/2/zarr.json").exists()
    assert dict(zarr.open_group(tmp_path / "o.zarr/A/1", mode="r").attrs)["treated"] is False


def collection(path, listed):
    """Three images as bioformats2raw writes them."""
    root = zarr.open_group(path, mode="w", zarr_format=2)
    root.attrs["bioformats2raw.layout"] = 3
    found = {name: image(root.create_group(name), int(name), levels=1)[0] for name in "012"}
    (path / "OME").mkdir()
    if listed:
        root.create_group("OME").attrs["series"] = ["0", "1", "2"]
    images = "\n  ".join(f'<Image ID="Image:{name}"><Pixels ID="Pixels:{name}"/></Image>' for name in "012")
    (path / "OME/METADATA.ome.xml").write_text(XML.format(images=images))
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("listed", [True, False])
def test_a_part_of_a_collection_lists_what_it_has(tool, tmp_path, listed):
    data = collection(tmp_path / "c.zarr", listed)
    out = tmp_path / "o.zarr"
    tool("repack", tmp_path / "c.zarr", out, *CUT, "--skip", "1")
    yaozarrs.validate_zarr_store(str(out))
    root = zarr.open_group(out, mode="r")
    assert root.attrs["ome"]["bioformats2raw.layout"] == 3
    assert dict(root["OME"].attrs) == {"ome": {"version": "0.5", "series": ["0", "2"]}} and "1" not in root
    for name in "02":
        assert_same(root[name]["0"][...], data[name])
    xml = (out / "OME/METADATA.ome.xml").read_text()
    assert xml.count("<Image ID=") == 3 and 'Image:1"' not in xml and '<Image ID="none"/>' in xml


@pytest.mark.filterwarnings("ignore")
def test_a_collection_keeps_its_list_where_readers_of_0_5_look(tool, tmp_path):
    data = collection(tmp_path / "c.zarr", True)
    out = tmp_path / "o.zarr"
    tool("repack", tmp_path / "c.zarr", out, *CUT)
    yaozarrs.validate_zarr_store(str(out))
    root = zarr.open_group(out, mode="r")
    assert dict(root["OME"].attrs) == {"ome": {"version": "0.5", "series": ["0", "1", "2"]}}
    for name in "012":
        assert_same(root[name]["0"][...], data[name])


@pytest.mark.filterwarnings("ignore")
def test_xml_that_speaks_of_an_image_elsewhere_is_left_out_with_a_note(tool, tmp_path):
    collection(tmp_path / "c.zarr", True)
    file = tmp_path / "c.zarr/OME/METADATA.ome.xml"
    file.write_text(file.read_text().replace("</OME>", '<Plate><ImageRef ID="Image:1"/></Plate></OME>'))
    before = file.read_text()
    assert "METADATA.ome.xml is left out" in tool(
        "repack", tmp_path / "c.zarr", tmp_path / "o.zarr", *CUT, "--skip", "1"
    )
    assert not (tmp_path / "o.zarr/OME/METADATA.ome.xml").exists() and file.read_text() == before


# One array of a plate as a dataset.


def field_of_zarr3(path, names):
    """A plate's field of OME-Zarr 0.5, whose arrays have these names of dimensions."""
    root = zarr.open_group(path, mode="w")
    field = root.create_group("A/1/0")
    data = pixels()
    array = field.create_array("0", data=data, chunks=(2, 16, 16), shards=(4, 32, 32), dimension_names=names)
    return root, field, array, data


@pytest.mark.parametrize("names", [None, ["z", None, "x"], ["t", "y", "x"]])
@pytest.mark.parametrize("axes", ["tyx", None])
@pytest.mark.parametrize("dialect", ["zarr2", "zarr2-sharded", "zarr3-transformer"])
def test_names_of_dimensions_are_no_guess(tool, tmp_path, names, axes, dialect):
    _, field, _, _ = field_of_zarr3(tmp_path / "p.zarr", names)
    if axes:
        kinds = {"t": "time", "y": "space", "x": "space"}
        said = [{"name": name, "type": kinds[name]} for name in axes]
        datasets = [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 1, 1]}]}]
        field.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": said, "datasets": datasets}]}
    out = tmp_path / "out"
    tool("repack", tmp_path / "p.zarr", out, "--dialect", dialect, "--only", "A/1/0/0", "--codec", "zlib")
    tool("verify", out, "-q")
    file = {"zarr2": "0/.zattrs", "zarr2-sharded": ".zattrs", "zarr3-transformer": "meta/root/0.array.json"}[dialect]
    document = json.loads((out / file).read_text())
    attributes = document.get("attributes", document)
    known = list("tyx") if axes else names
    assert attributes.get("_ARRAY_DIMENSIONS") == known
    if dialect == "zarr2":
        group = json.loads((out / ".zattrs").read_text())
        shown = [axis["name"] for axis in group.get("multiscales", [{"axes": []}])[0]["axes"]]
        assert shown == list(axes or "")


@pytest.mark.parametrize("dialect", ["zarr2", "zarr3-transformer"])
def test_attributes_of_an_array_stay_its_own(tool, tmp_path, dialect):
    root, field, array, data = field_of_zarr3(tmp_path / "p.zarr", ["z", "y", "x"])
    array.attrs.update(mine="array", both="array")
    field.attrs.update(both="group", ours=1)
    root.attrs.update(far=1)
    out = tmp_path / "out"
    said = tool("repack", tmp_path / "p.zarr", out, "--dialect", dialect, "--codec", "gzip", "--no-checksum")
    assert '"both"' not in said
    tool("repack", out, tmp_path / "back.zarr", "--shard", "4,32,32")
    back = zarr.open_group(tmp_path / "back.zarr", mode="r")
    assert dict(back["0"].attrs) == {"mine": "array", "both": "array"}
    assert {key: back.attrs[key] for key in ["both", "ours", "far"]} == {"both": "group", "ours": 1, "far": 1}
    assert_same(back["0"][...], data)
