"""What the library wrote, read by tensorstore and zarr-python, and judged by two OME-Zarr validators."""

import json
import math

import numpy as np
import ome_zarr_models.v05
import pytest
import yaozarrs
import zarr
from ome_0_6 import validated
from readers import assert_reads, assert_same, open_tensorstore, open_zarr_python


def test_tensorstore_reads(image):
    if not image.portable:
        # The day tensorstore knows this codec, it should be read and the documentation should say so.
        with pytest.raises(ValueError, match=r"numcodecs\.(lz4|zlib)"):
            open_tensorstore(image.array)
        return
    assert_reads(open_tensorstore(image.array), image.pixels, image.name)


def test_zarr_python_reads(image):
    assert_reads(open_zarr_python(image.array), image.pixels, image.name)


def test_array_says_what_it_is(image):
    array = open_zarr_python(image.array)
    assert list(array.metadata.dimension_names) == image.dims
    fill = np.frombuffer(bytes(image.fill), image.dtype)[0]
    assert array.fill_value == fill or (math.isnan(fill) and math.isnan(array.fill_value))


def test_records(image):
    group = zarr.open_group(image.path / "records", mode="r", zarr_format=3)
    assert sorted(group.array_keys()) == sorted(image.records)
    for name, values in image.records.items():
        expected = [float("nan") if value == "NaN" else 0 if value is None else value for value in values]
        for library in (open_zarr_python, open_tensorstore):
            array = library(image.path / "records" / name)
            got = np.asarray(array[...]) if library is open_zarr_python else array.read().result()
            assert got.shape == (len(values),)
            known = [value is not None for value in values]
            assert_same(got[known], np.array(expected, got.dtype)[known], name)
    number = np.asarray(group["frame_number"])
    assert (number < 0).sum() == image.missing


def test_attributes(image):
    attributes = dict(zarr.open_group(image.path, mode="r", zarr_format=3).attrs)
    own = attributes.pop("shardwright")
    assert own["complete"] is True
    assert own["frames_missing"] == image.missing
    assert ("ome" in attributes) == image.ome
    attributes.pop("ome", None)
    assert attributes == image.attributes


def placed_by_0_6(image):
    ome = validated("ImageLabel" if "/labels/" in image.group else "Image", image.path)
    (multiscale,) = ome["multiscales"]
    (system,) = multiscale["coordinateSystems"]
    assert [axis["name"] for axis in system["axes"]] == image.dims
    (dataset,) = multiscale["datasets"]
    (way,) = dataset["coordinateTransformations"]
    assert (way["input"]["path"], way["output"]["name"]) == ("0", system["name"])
    steps = way["transformations"] if way["type"] == "sequence" else [way]
    assert [step["type"] for step in steps] == ["scale", "translation"][: len(steps)]
    assert steps[0]["scale"] == image.scale
    assert [step["translation"] for step in steps[1:]] == ([image.translation] if any(image.translation) else [])
    # The model passes over it.
    channels = zarr.open_group(image.path, mode="r").attrs["ome"].get("omero", {"channels": []})["channels"]
    assert [channel["label"] for channel in channels] == image.channels


def test_ome_zarr(image):
    if not image.ome:
        return
    if image.version == "0.6":
        placed_by_0_6(image)
        return
    yaozarrs.validate_zarr_store(str(image.path))
    model = ome_zarr_models.v05.Image.from_zarr(zarr.open_group(image.path, mode="r", zarr_format=3))
    (multiscale,) = model.ome_attributes.multiscales
    assert [axis.name for axis in multiscale.axes] == image.dims
    (dataset,) = multiscale.datasets
    scale, *translation = dataset.coordinateTransformations
    assert list(scale.scale) == image.scale
    assert [list(move.translation) for move in translation] == ([image.translation] if any(image.translation) else [])
    if image.channels:
        omero = yaozarrs.v05.Omero.model_validate(zarr.open_group(image.path, mode="r").attrs["ome"]["omero"])
        assert [channel.label for channel in omero.channels] == image.channels


def plate_lists(image, plate):
    """Where a field of a plate is, and which acquisition it is of."""
    row, column, field = image.group.split("/")
    (well,) = (well for well in plate.wells if well.path == f"{row}/{column}")
    assert (plate.rows[well.rowIndex].name, plate.columns[well.columnIndex].name) == (row, column)
    group = zarr.open_group(image.dataset / row / column, mode="r")
    images = ome_zarr_models.v05.Well.from_zarr(group).ome_attributes.well.images
    (entry,) = (entry for entry in images if entry.path == field)
    assert entry.acquisition in [acquisition.id for acquisition in plate.acquisitions]


def collected_by_0_6(image):
    is_plate = "/" in image.group
    root = validated("HCS" if is_plate else "BioFormats2Raw", image.dataset)
    assert image.group in zarr.open_group(image.dataset / "OME", mode="r").attrs["ome"]["series"]
    if is_plate:
        row, column, field = image.group.split("/")
        well = validated("Well", image.dataset / row / column)["well"]
        assert f"{row}/{column}" in [well["path"] for well in root["plate"]["wells"]]
        assert field in [entry["path"] for entry in well["images"]]
        if (row, column) == ("C", "2"):
            # Its only field says where it is.
            scene = validated("Scene", image.dataset / row / column)["scene"]
            assert [way["input"]["path"] for way in scene["coordinateTransformations"]] == ["0"]
        return
    # One image alone says where it is, and the others have other axes.
    scene = validated("Scene", image.dataset)["scene"]
    (world,) = scene["coordinateSystems"]
    ways = {way["input"]["path"]: way for way in scene["coordinateTransformations"]}
    assert list(ways) == ["left"] and ways["left"]["output"]["name"] == world["name"]


def are_labels_of_their_image(image):
    """A label image is listed beside its image, and says what its integers are."""
    of, name = image.group.split("/labels/")
    group = image.dataset / of
    said = zarr.open_group(image.path, mode="r").attrs["ome"]["image-label"]
    assert said.pop("source") == {"image": "../../"}
    if image.version == "0.6":
        labels = validated("Labels", group / "labels")["labels"]
        validated("Image", group)
    else:
        yaozarrs.validate_zarr_store(str(group))
        labels = ome_zarr_models.v05.Labels.from_zarr(zarr.open_group(group / "labels", mode="r")).attributes.ome.labels
        assert said.pop("version") == "0.5"
        ome_zarr_models.v05.ImageLabel.from_zarr(zarr.open_group(image.path, mode="r"))
    assert name in labels
    requested = image.label or {"colors": [], "properties": []}
    colors = [{"label-value": color["value"], "rgba": color["rgba"]} for color in requested["colors"]]
    properties = [{"label-value": known["value"], **known["properties"]} for known in requested["properties"]]
    if requested["colors"] and requested["properties"]:
        # Each names what the other names.
        properties += [{"label-value": 2}]
    assert said == {key: list for key, list in [("colors", colors), ("properties", properties)] if list}


def test_collection(image):
    """Several images below one root are listed there."""
    if not image.group:
        return
    if "/labels/" in image.group:
        are_labels_of_their_image(image)
        return
    if image.version == "0.6":
        collected_by_0_6(image)
        return
    yaozarrs.validate_zarr_store(str(image.dataset))
    root = zarr.open_group(image.dataset, mode="r", zarr_format=3)
    if "/" in image.group:
        plate_lists(image, ome_zarr_models.v05.HCS.from_zarr(root).ome_attributes.plate)
    else:
        ome_zarr_models.v05.BioFormats2Raw.from_zarr(root)
    series = json.loads((image.dataset / "OME" / "zarr.json").read_text())["attributes"]["ome"]["series"]
    assert image.group in series
    assert (image.dataset / "OME" / "METADATA.ome.xml").is_file()
