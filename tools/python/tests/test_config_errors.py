"""Mistakes in a configuration: said of the field, in the caller's words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Start, picture

import shardwright as sw

NAN = float("nan")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"pyramid": "average"}, "pyramid: unknown variant `average`, expected one of `mean`"),
        ({"pyramid": True}, "pyramid = True: expected is a method (mean, "),
        ({"dtype": "bool"}, "dtype: unknown variant `bool`"),
        ({"ring_full": "drop"}, "ring_full: unknown variant `drop`, expected one of `block`, `drop-newest`"),
        ({"pixel_format": "RGB"}, "pixel_format: unknown variant `RGB`"),
        ({"orientation": {"flip": "vertical"}}, "orientation: unknown variant `vertical`"),
        ({"orientation": 5.5}, "orientation = 5.5: expected is a whole number of quarter turns"),
        ({"record_fields": {"e": "str"}}, "record_fields: unknown variant `str`"),
        ({"record_fields": 3}, "record_fields = 3: expected are names with types"),
        ({"dims": (10, 16, 24)}, "dims[0] = 10: expected are sw.time()"),
        ({"dims": [sw.Dim("y", size=16, scale=NAN), sw.x(24)]}, "scale = nan: a finite number"),
        ({"dims": [{"name": "y", "size": 16, "translation": NAN}, sw.x(24)]}, "translation = nan: a finite number"),
        ({"channels": [{"label": "a", "window": (0, NAN)}]}, "channels = [{'label'"),
        ({"workers": "many"}, 'workers: invalid type: string "many", expected a whole number'),
        ({"checkpoint_every": "1s"}, "checkpoint_every = '1s': expected are seconds"),
        ({"frame_layout": {"stride": 1}}, "frame_layout: unknown field `stride`, expected one of `buffer_bytes`"),
        ({"part": {"index": 1}}, "part: missing field `of`"),
        ({"name": object()}, "name = <object"),
        ({"nothing": 3}, "unknown field `nothing`"),
        ({"key": 5}, "key: invalid type: integer `5`"),
    ],
)
def test_a_wrong_value_is_said_of_its_field(start: Start, tmp_path: Path, wrong: dict[str, Any], says: str) -> None:
    (name,) = wrong
    with pytest.raises(sw.ConfigError) as refused:
        start(**wrong)
    assert says in str(refused.value)
    assert " column " not in str(refused.value)
    assert refused.value.field == name
    assert list(tmp_path.iterdir()) == []


def test_every_field_is_told_of(start: Start) -> None:
    said = re.findall(r"^    (?:- |Pixels: )``(\w+)``", sw.ConfigFields.__doc__ or "", re.MULTILINE)
    assert sorted(said) == sorted(sw.ConfigFields.__annotations__)
    # What the library takes for each of those that are said there by an example.
    label = {"colors": [{"value": 1, "rgba": [255, 0, 0, 255]}], "properties": []}
    start(manifest="kerchunk", ome=0.5, workers=np.int64(1), pyramid={"method": "mean", "levels": 1}).abort()
    start(frame_layout={"buffer_bytes": 8192, "offset": 0, "row_stride": 128}, orientation={"flip": "rows"}).abort()
    with pytest.raises(sw.ConfigError, match="label"):
        start(label=label)


def test_a_place_with_its_unit(start: Start) -> None:
    assert sw.y(16, translation=(3, "micrometer")).unit == "micrometer"
    assert sw.y(16, scale=(0.5, "micrometer"), translation=(3, "micrometer")).translation == 3
    with pytest.raises(sw.ConfigError, match=r"translation = .*must be that of the scale, 'micrometer'"):
        sw.y(16, scale=(0.5, "micrometer"), translation=(3, "millimeter"))
    for wrong in ({"scale": NAN}, {"scale": "1 um"}, {"translation": (3, 4)}, {"translation": (1, "m", 2)}):
        with pytest.raises(sw.ConfigError, match=r"dimension y: (scale|translation) = .*expected is a finite number"):
            sw.y(16, **wrong)  # type: ignore[arg-type]


def test_options_of_operations(start: Start, tmp_path: Path) -> None:
    with start() as acq:
        acq.append(picture(0))
    path = tmp_path / "run.ome.zarr"
    sw.repack(path, tmp_path / "a.zarr", ome=0.6, only="0")
    assert sw.info(tmp_path / "a.zarr").attributes["ome"]["version"] == "0.6"
    sw.manifest(path, forms="kerchunk")
    for call, field in [
        (lambda: sw.repack(path, tmp_path / "b.zarr", only=[0]), "only"),
        (lambda: sw.repack(path, tmp_path / "b.zarr", shape=4), "shape"),
        (lambda: sw.repack(path, tmp_path / "b.zarr", codec=5), "codec"),
        (lambda: sw.repack(path, tmp_path / "b.zarr", memory_bytes="1 GiB"), "memory_bytes"),
        (lambda: sw.plan_repack(path, tmp_path / "b.zarr", tmp_path / "tasks", chunk=1.5), "chunk"),
        (lambda: sw.pyramid(path, levels="all"), "levels"),  # type: ignore[arg-type]
        (lambda: sw.create_dataset(tmp_path / "c.zarr", plate={"rows": 3}), "plate"),
    ]:
        with pytest.raises(sw.ConfigError, match=field) as refused:
            call()
        assert refused.value.field == field
        assert " column " not in str(refused.value)
