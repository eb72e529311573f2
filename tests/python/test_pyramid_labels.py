"""Levels of labels, and of images that have some."""

import json
import shlex

import numpy as np
import pytest
import yaozarrs
import zarr
from readers import open_zarr_python
from test_pyramid import assert_levels, noise, ome_image


def labelled(path, names=("cells",), shape=(3, 80, 96), levels=1, marked=True):
    """An image, and labels beside it, as other writers have them."""
    ome_image(path, noise(shape, "u2"), (1, 32, 32), axes="zyx")
    group = zarr.open_group(path / "labels", mode="w", zarr_format=3)
    group.attrs["ome"] = {"version": "0.5", "labels": list(names)}
    for name in names:
        labels = path / "labels" / name
        ome_image(labels, noise(shape, "u4", 1), (1, 32, 32), axes="zyx")
        document = json.loads((labels / "zarr.json").read_text())
        ome = document["attributes"]["ome"]
        ome.pop("omero")
        if marked:
            ome["image-label"] = {"version": "0.5", "source": {"image": "../../"}}
        for level in range(1, levels):
            way = [{"type": "scale", "scale": [1.0, 2.0**level, 2.0**level]}]
            ome["multiscales"][0]["datasets"].append({"path": str(level), "coordinateTransformations": way})
            smaller = [shape[0], *(length >> level for length in shape[1:])]
            zarr.create_array(labels / str(level), shape=smaller, chunks=(1, 32, 32), dtype="u4")
        (labels / "zarr.json").write_text(json.dumps(document))
    return path


def count(path):
    return len(json.loads((path / "zarr.json").read_text())["attributes"]["ome"]["multiscales"][0]["datasets"])


@pytest.mark.parametrize("marked", [True, False])
def test_labels_become_labels(told, tool, tmp_path, marked):
    path = labelled(tmp_path / "i.zarr", marked=marked) / "labels/cells"
    before = open_zarr_python(path / "0")[...]
    assert "by mode" in tool("pyramid", path, "--levels", 1)
    said = told("pyramid", path, "--levels", 2, "--overwrite")
    assert said["method"] == "mode" and said["notes"] == []
    assert_levels(path, said, before, "mode")
    yaozarrs.validate_zarr_store(str(path))
    # What somebody chose is done.
    for method in ["mean", "median"]:
        said = told("pyramid", path, "--levels", 2, "--overwrite", "--method", method)
        assert any(f"{method} makes values that no label has; mode" in note for note in said["notes"])
        assert_levels(path, said, before, method)
    for method in ["mode", "decimate", "min", "max"]:
        said = told("pyramid", path, "--levels", 2, "--overwrite", "--method", method)
        assert said["method"] == method and said["notes"] == []


def test_what_is_no_label_becomes_its_mean(told, tool, tmp_path):
    path = ome_image(tmp_path / "i.zarr", noise((64, 64), "u2"), (32, 32), axes="yx")
    assert "by mean" in tool("pyramid", path, "--levels", 1)
    # Another image in a group that lists labels, and not this one.
    path = labelled(tmp_path / "l.zarr")
    other = ome_image(path / "labels/other", noise((64, 64), "u2"), (32, 32), axes="yx")
    said = told("pyramid", other, "--levels", 1)
    assert said["method"] == "mean" and said["notes"] == []


@pytest.mark.parametrize("levels, depth", [(1, "never"), (2, "never"), (5, "never"), (1, "always")])
def test_labels_with_other_levels_than_their_image_are_named_with_what_helps(told, tmp_path, levels, depth):
    path = labelled(tmp_path / "my images" / "i.zarr", ["cells", "deep/nuclei"], levels=levels)
    said = told("pyramid", path, "--levels", 3, "--z", depth)
    assert len(said["notes"]) == 2
    for name, note in zip(["cells", "deep/nuclei"], said["notes"], strict=True):
        assert f'"labels/{name}" has {levels} level{"s" * (levels > 1)}' in note and "4" in note
        advice = note.split(": ", 1)[1].removesuffix(" makes it as many")
        words = shlex.split(advice)
        assert words[:2] == ["shardwright", "pyramid"]
        done = told(*words[1:])
        assert done["method"] == "mode" and count(path / "labels" / name) == count(path) == 4
        shapes = [open_zarr_python(folder / "3").shape for folder in [path, path / "labels" / name]]
        assert shapes[0] == shapes[1]
    # Now they are as many.
    assert told("pyramid", path, "--levels", 3, "--z", depth, "--overwrite")["notes"] == []


def test_labels_that_cannot_be_read_are_no_obstacle(told, tmp_path):
    path = labelled(tmp_path / "i.zarr")
    (path / "labels/cells/zarr.json").write_text("{")
    assert told("pyramid", path, "--levels", 1)["notes"] == []
    document = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": {"labels": [3, "../x"]}}}
    (path / "labels/zarr.json").write_text(json.dumps(document))
    assert told("pyramid", path, "--levels", 2, "--overwrite")["notes"] == []
