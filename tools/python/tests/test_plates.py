"""Plates: wells in any order, and those that were never visited."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr

import shardwright as sw


def dims() -> list[sw.Dim]:
    return [sw.time(), sw.y(8, scale=(0.5, "micrometer"), translation=20), sw.x(9, scale=(0.5, "micrometer"))]


def test_wells_are_listed_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "plate.ome.zarr"
    before, after = sw.PlateAcquisition(1, "before"), sw.PlateAcquisition(2, "after")
    plate = sw.plate(2, 30, name="assay", acquisitions=[before, after])
    with sw.create_dataset(path, plate=plate) as dataset:
        names = ["B/30/0", "A/2/1", "A/2/0", "A/1/0"]
        fields = [
            dataset.acquisition(name, dims=dims(), dtype="u1", plate_acquisition=1 + at % 2)
            for at, name in enumerate(names)
        ]
        for at in (1, 0, 1, 3):
            fields[at].append(np.full((8, 9), at + 1, "u1"))
        summaries = dataset.finish()
    assert [summaries[name].frames_written for name in names] == [1, 2, 0, 1]
    ome = json.loads((path / "zarr.json").read_text())["attributes"]["ome"]
    assert [well["path"] for well in ome["plate"]["wells"]] == ["A/1", "A/2", "B/30"]
    assert [part["name"] for part in ome["plate"]["acquisitions"]] == ["before", "after"]
    well = zarr.open_group(path / "A/2", mode="r").attrs["ome"]["well"]
    assert well["images"] == [{"path": "1", "acquisition": 2}]
    np.testing.assert_array_equal(zarr.open_array(path / "A/2/1/0", mode="r"), np.full((2, 8, 9), 2))
    assert not (path / "A/2/0").exists()


def test_labels_stand_beside_their_image(tmp_path: Path) -> None:
    path = tmp_path / "two.ome.zarr"
    label = {"colors": [{"value": 1, "rgba": [255, 0, 0, 128]}]}
    with sw.create_dataset(path) as dataset:
        image = dataset.acquisition("left", dims=dims(), dtype="u2", ome="0.6")
        labels = dataset.acquisition("left/labels/cells", dims=dims(), dtype="u4", ome="0.6", label=label)
        image.append(np.ones((8, 9), "u2"))
        labels.append(np.full((8, 9), 1, "u4"))
        dataset.finish()
    listed = zarr.open_group(path / "left/labels", mode="r").attrs["ome"]
    assert listed == {"version": "0.6", "labels": ["cells"]}
    said = zarr.open_group(path / "left/labels/cells", mode="r").attrs["ome"]
    assert said["image-label"]["colors"] == [{"label-value": 1, "rgba": [255, 0, 0, 128]}]
    assert said["multiscales"][0]["coordinateSystems"][0]["axes"][2]["unit"] == "micrometer"


@pytest.mark.parametrize(
    ("plate", "name", "says"),
    [
        (sw.plate(2, 2), "left", "ROW/COLUMN/FIELD"),
        (sw.plate(2, 2), "C/1/0", "A, B"),
        ({"rows": ["A"], "columns": ["1", "1"]}, "A/1/0", "twice"),
        ({"rows": ["A"], "lines": ["1"]}, "A/1/0", "lines"),
    ],
)
def test_what_is_no_place_is_refused(tmp_path: Path, plate: object, name: str, says: str) -> None:
    with pytest.raises(sw.ConfigError, match=says):
        with sw.create_dataset(tmp_path / "plate.ome.zarr", plate=plate) as dataset:  # type: ignore[arg-type]
            dataset.acquisition(name, dims=dims(), dtype="u1")
    assert not (tmp_path / "plate.ome.zarr").exists()
