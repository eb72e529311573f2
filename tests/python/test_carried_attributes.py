"""Attributes that are not this crate's go through a change of format as they are."""

import json

import numpy as np
import pytest
import zarr

USERS = {
    "plate": "P01", "labels": ["cat"], "well": {"x": 1}, "omero": 1, "multiscales": "no", "image-label": 5, "mine": 1,
}
AXES = [{"name": name, "type": "space"} for name in "yx"]
DATASETS = [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1.0, 1.0]}]}]
SHARDS = ["--shard", "8,8"]
VOLUME = ["--dialect", "precomputed", "--codec", "none"]


def array(path, zarr_format=3, names=None, attributes=None, **more):
    """An array of 8 × 8 pixels."""
    made = zarr.create_array(
        path, shape=(8, 8), chunks=(4, 4), dtype=more.pop("dtype", "u2"), zarr_format=zarr_format,
        dimension_names=names, attributes=attributes, **more,
    )  # fmt: skip
    made[...] = np.arange(64).reshape(8, 8)


def all_attributes(path):
    """Of the root and of the array `0`, but what OME-Zarr says."""
    said = {}
    for file in [*path.rglob(".zattrs"), *path.rglob("zarr.json"), *path.rglob("*.json")]:
        document = json.loads(file.read_text())
        said.update(document if file.name == ".zattrs" else document.get("attributes", {}))
    return said


@pytest.mark.parametrize("dialect", ["zarr2", "zarr3-transformer", "zarr2-sharded", "precomputed"])
def test_an_array_keeps_its_attributes(tool, tmp_path, dialect):
    attributes = {**USERS, "neuroglancer": {"x": 1}, "_ARRAY_DIMENSIONS": ["a", "b"], "bioformats2raw.layout": 3}
    array(tmp_path / "a.zarr", attributes=attributes)
    shape = {"zarr2": [], "precomputed": ["--codec", "none"]}.get(dialect, SHARDS)
    tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", dialect, *shape)
    if dialect != "precomputed":
        said = all_attributes(tmp_path / "b.zarr")
        assert {key: said.get(key) for key in attributes} == attributes
    tool("repack", tmp_path / "b.zarr", tmp_path / "c.zarr", "--dialect", "zarr3", "--unsharded")
    said = all_attributes(tmp_path / "c.zarr")
    assert {key: said.get(key) for key in USERS} == USERS
    assert said["neuroglancer"] == {"x": 1}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_group_keeps_what_is_only_called_like_ome_zarrs(tool, tmp_path, zarr_format):
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=zarr_format, attributes=USERS)
    for name in "ab":
        root.create_array(name, shape=(8, 8), chunks=(4, 4), dtype="u2")[...] = 1
    tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--unsharded", "--ome", "0.6")
    assert dict(zarr.open_group(tmp_path / "b.zarr", mode="r", zarr_format=3).attrs) == USERS
    tool("repack", tmp_path / "b.zarr", tmp_path / "c.zarr", "--dialect", "zarr2")
    assert dict(zarr.open_group(tmp_path / "c.zarr", mode="r", zarr_format=2).attrs) == USERS


def test_an_attribute_ome_of_something_else_stays(tool, tmp_path):
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", attributes={"ome": {"a": 1}})
    for name in "ab":
        root.create_array(name, shape=(8, 8), chunks=(4, 4), dtype="u2")[...] = 1
    tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", "zarr2")
    assert dict(zarr.open_group(tmp_path / "b.zarr", mode="r", zarr_format=2).attrs) == {"ome": {"a": 1}}


TAKEN = {
    "omero": {"channels": []}, "well": {"images": []}, "image-label": {}, "bioformats2raw.layout": 3, "labels": ["a"],
    "plate": {"wells": []}, "multiscales": 3,
}  # fmt: skip


@pytest.mark.parametrize("options", [["--ome", "0.4"], ["--dialect", "zarr2", "--only", "0", "--unsharded"]])
@pytest.mark.parametrize("name", TAKEN)
def test_no_attribute_becomes_ome_zarrs(told, tmp_path, name, options):
    """0.4 has its own among those of the group, where readers know them by their names."""
    ome = {"version": "0.5", "multiscales": [{"axes": AXES, "datasets": DATASETS}]}
    attributes = {"ome": ome, "mine": 1, name: TAKEN[name]}
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", attributes=attributes)
    root.create_array("0", shape=(8, 8), chunks=(4, 4), dtype="u2")[...] = 1
    error = told("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", *options, code=5)["error"]
    assert f'the attribute "{name}" beside OME-Zarr' in error["message"] and not (tmp_path / "b.zarr").exists()
    del root.attrs[name]
    told("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", *options)


NAMES = {"axes": ["y", "x"]}


@pytest.mark.parametrize("said_of_it", [{"version": "0.1"}, {"version": "0.3", **NAMES}, NAMES, {}, {"name": "x"}])
def test_ome_zarr_before_0_4_is_refused(tool, tmp_path, said_of_it):
    said = {"multiscales": [{**said_of_it, "datasets": [{"path": "0"}]}]}
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2, attributes=said)
    root.create_array("0", shape=(8, 8), chunks=(4, 4), dtype="u2")[...] = 1
    told = tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", "zarr3", code=5)
    version = said_of_it.get("version", "0.3" if "axes" in said_of_it else "0.1 or 0.2")
    assert f"OME-Zarr {version}" in told
    said_by_pyramid = tool("pyramid", tmp_path / "a.zarr", code=5)
    assert f"OME-Zarr {version}" in said_by_pyramid and "shardwright repack" not in said_by_pyramid
    # The way that the refusal names.
    assert "the dialect zarr2 keeps it as it is, with --unsharded" in told
    tool("repack", tmp_path / "a.zarr", tmp_path / "d.zarr", "--dialect", "zarr2", "--unsharded")
    assert dict(zarr.open_group(tmp_path / "d.zarr", mode="r", zarr_format=2).attrs) == said
    tool("repack", tmp_path / "a.zarr", tmp_path / "c.zarr", "--dialect", "zarr2", "--codec", "zstd")
    assert dict(zarr.open_group(tmp_path / "c.zarr", mode="r", zarr_format=2).attrs) == said


def test_the_version_of_omero_stays(tool, tmp_path):
    images = [{"version": "0.4", "axes": AXES, "datasets": DATASETS}]
    said = {"multiscales": images, "omero": {"version": "0.4", "channels": []}}
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2, attributes=said)
    root.create_array("0", shape=(8, 8), chunks=(4, 4), dtype="u2")[...] = 1
    tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", "zarr3")
    tool("repack", tmp_path / "b.zarr", tmp_path / "c.zarr", "--dialect", "zarr2")
    assert zarr.open_group(tmp_path / "c.zarr", mode="r", zarr_format=2).attrs["omero"] == said["omero"]


def test_a_volume_by_way_of_zarr2_stays_where_it_was(tool, tmp_path):
    zarr.create_array(tmp_path / "a.zarr", shape=(2, 8, 8), chunks=(2, 4, 4), dtype="u2", dimension_names=tuple("zyx"))
    tool("repack", tmp_path / "a.zarr", tmp_path / "v", *VOLUME, "--voxel-offset", "7,8,9")
    info = json.loads((tmp_path / "v" / "info").read_text())
    info["type"] = "segmentation"
    (tmp_path / "v" / "info").write_text(json.dumps(info))
    tool("repack", tmp_path / "v", tmp_path / "b.zarr", "--dialect", "zarr2")
    tool("repack", tmp_path / "b.zarr", tmp_path / "w", "--dialect", "precomputed")
    back = json.loads((tmp_path / "w" / "info").read_text())
    assert back["type"] == "segmentation" and back["scales"][0]["voxel_offset"] == [7, 8, 9]


@pytest.mark.parametrize("shape, names, offset", [((8, 8), "yx", "7,8,0"), ((2, 8, 8), "zyx", "7,8,9"),
                                                  ((2, 8, 8), "cyx", "-7,8,3")])  # fmt: skip
@pytest.mark.parametrize("way", [["zarr3", "--unsharded"], ["zarr2"], ["zarr2-sharded", *SHARDS]])
def test_a_volume_of_any_form_stays_where_it_was(tool, tmp_path, shape, names, offset, way):
    zarr.create_array(tmp_path / "a.zarr", shape=shape, chunks=(*shape[:-2], 4, 4), dtype="u2", dimension_names=names)
    tool("repack", tmp_path / "a.zarr", tmp_path / "v", *VOLUME, f"--voxel-offset={offset}")
    tool("repack", tmp_path / "v", tmp_path / "b.zarr", "--dialect", *way)
    tool("repack", tmp_path / "b.zarr", tmp_path / "w", *VOLUME)
    scale = json.loads((tmp_path / "w" / "info").read_text())["scales"][0]
    assert ",".join(map(str, scale["voxel_offset"])) == offset


def test_bits_of_a_nan_that_have_no_words_are_told(tool, tmp_path):
    array(tmp_path / "a.zarr", dtype="f4", fill_value=0.0)
    file = tmp_path / "a.zarr" / "zarr.json"
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "fill_value": "0x7fc00123"}))
    assert "NaN" in tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", "zarr2")


def test_a_dimension_without_a_name_has_none_again(tool, tmp_path):
    array(tmp_path / "a.zarr", names=("a", None))
    tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", "zarr2")
    tool("repack", tmp_path / "b.zarr", tmp_path / "c.zarr", "--dialect", "zarr3", "--unsharded")
    document = json.loads(next(tmp_path.glob("c.zarr/**/0/zarr.json")).read_text())
    assert document["dimension_names"] == ["a", None]


def test_a_negative_zero_stays_an_integer(tool, tmp_path):
    array(tmp_path / "a.zarr", attributes={"mine": 12345})
    file = tmp_path / "a.zarr" / "zarr.json"
    file.write_text(file.read_text().replace("12345", "-0"))
    tool("repack", tmp_path / "a.zarr", *SHARDS)
    assert '"mine": -0\n' in file.read_text() or '"mine": -0,' in file.read_text()


# Attributes that only have the name of this crate's, and an attribute `ome` that is an array's own.

MINE = [{"owner": "me"}, {"writer": "me", "complete": False}, "text", {}, {"version": "1.0", "chunks": 3}]


@pytest.mark.parametrize("said", MINE, ids=str)
@pytest.mark.parametrize("dialect", ["zarr2", "zarr3-transformer", "zarr2-sharded", "precomputed"])
def test_an_attribute_of_the_name_shardwright_may_be_a_users(tool, tmp_path, dialect, said):
    attributes = {"shardwright": said, "mine": 1}
    array(tmp_path / "a.zarr", attributes=attributes)
    group = zarr.open_group(tmp_path / "g.zarr", mode="w", attributes=attributes)
    group.create_array("0", shape=(8, 8), chunks=(4, 4), dtype="u2")[...] = np.arange(64).reshape(8, 8)
    shape = {"zarr2": [], "precomputed": ["--codec", "none"]}.get(dialect, SHARDS)
    for name in ["a", "g"]:
        tool("verify", tmp_path / f"{name}.zarr")
        tool("repack", tmp_path / f"{name}.zarr", tmp_path / name, "--dialect", dialect, *shape)
        if dialect == "precomputed":
            assert json.loads((tmp_path / name / "info").read_text())["attributes"] == attributes
        else:
            assert {key: all_attributes(tmp_path / name).get(key) for key in attributes} == attributes
        if name == "a" and dialect.startswith("zarr2"):
            (folder,) = [file.parent for file in (tmp_path / name).rglob(".zarray")]
            assert json.loads((folder / ".zattrs").read_text()) == attributes
        tool("repack", tmp_path / name, tmp_path / f"{name}-back", "--dialect", "zarr3", "--unsharded")
        assert {key: all_attributes(tmp_path / f"{name}-back").get(key) for key in attributes} == attributes


def test_what_a_volume_needs_of_this_crate_goes_with_it(tool, tmp_path):
    array(tmp_path / "a.zarr")
    tool("repack", tmp_path / "a.zarr", tmp_path / "v", *VOLUME)
    tool("repack", tmp_path / "v", tmp_path / "b.zarr", "--dialect", "zarr3", "--unsharded")
    assert "shardwright" not in all_attributes(tmp_path / "b.zarr")


@pytest.mark.parametrize("dialect", ["zarr2-sharded", "precomputed"])
def test_an_attribute_ome_of_an_array_stays_its_own(told, tmp_path, dialect):
    said = {"ome": {"a": 1}, "mine": 1}
    array(tmp_path / "a.zarr", attributes=said)
    shape = ["--codec", "none"] if dialect == "precomputed" else SHARDS
    told("repack", tmp_path / "a.zarr", tmp_path / "b", "--dialect", dialect, *shape)
    volume = dialect == "precomputed"
    document = json.loads((tmp_path / "b" / ("info" if volume else ".zattrs")).read_text())
    assert (document["attributes"] if volume else document) == said
    told("repack", tmp_path / "b", tmp_path / "c.zarr", "--dialect", "zarr3", "--unsharded")
    assert all_attributes(tmp_path / "c.zarr") == said
    # Beside what a group around it says, there is no place for it.
    root = zarr.open_group(tmp_path / "g.zarr", mode="w", attributes={"ome": {"version": "0.5"}})
    root.create_array("0", shape=(8, 8), chunks=(4, 4), dtype="u2", attributes=said)[...] = 1
    notes = told("repack", tmp_path / "g.zarr", tmp_path / "d", "--dialect", dialect, *shape)["notes"]
    assert any('"ome" of the array "0" is left out' in note for note in notes)


def test_two_that_need_the_same_attribute_are_refused(tool, tmp_path):
    said = {"ome": {"version": "0.5"}, "shardwright": {"owner": "me"}}
    root = zarr.open_group(tmp_path / "g.zarr", mode="w", attributes=said)
    root.create_array("0", shape=(8, 8), chunks=(4, 4), dtype="u2")[...] = 1
    call = ["repack", tmp_path / "g.zarr", tmp_path / "b", "--dialect", "zarr2-sharded", *SHARDS]
    assert "rename that, or choose zarr3" in tool(*call, code=2)
