"""Frames that are smaller than the image: at their place, and recorded, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from conftest import Start, picture, stored

import shardwright as sw

FILL = 9


def placed(part: npt.NDArray[Any], y: int, x: int) -> npt.NDArray[Any]:
    frame = np.full((16, 24), FILL, "u2")
    frame[y : y + part.shape[0], x : x + part.shape[1]] = part
    return frame


def places(path: Path) -> list[list[int]]:
    columns = [stored(path / "records", f"roi_{name}") for name in ("y", "x", "height", "width")]
    return np.stack(columns, axis=1).tolist()


def test_a_part_stands_at_its_offset(start: Start, tmp_path: Path) -> None:
    small, wide = picture(1, (3, 5)), picture(2, (4, 24))
    stack = np.stack([picture(number, (2, 2)) for number in (3, 4)])
    with start(fill_value=FILL, record_roi=True, record_fields={"gain": "u1"}) as acq:
        assert acq.append(small, offset=np.array([2, 19]), gain=3) == 1
        assert acq.append(wide, offset=(12, 0), timeout=10) == 1
        # Cut out of a larger image, and in an order that has to be changed first.
        assert acq.append(picture(0)[5:8, 7:12], offset=(0, 0)) == 1
        assert acq.append(np.asfortranarray(small), offset=(13, 0)) == 1
        assert acq.append(stack, offset=(7, 8), gain=[1, 2]) == 2
        assert acq.append(stack, offset=(14, 22), number=7) == 2
        assert acq.append(picture(5)) == 1
    missing = np.full((16, 24), FILL, "u2")
    want = [placed(small, 2, 19), placed(wide, 12, 0), placed(picture(0)[5:8, 7:12], 0, 0), placed(small, 13, 0)]
    want += [placed(image, 7, 8) for image in stack] + [missing]
    want += [placed(image, 14, 22) for image in stack] + [picture(5)]
    path = tmp_path / "run.ome.zarr"
    np.testing.assert_array_equal(stored(path), np.stack(want))
    found = places(path)
    assert found[:4] == [[2, 19, 3, 5], [12, 0, 4, 24], [0, 0, 3, 5], [13, 0, 3, 5]]
    assert found[4:7] == [[7, 8, 2, 2], [7, 8, 2, 2], [0, 0, 0, 0]]
    assert found[7:] == [[14, 22, 2, 2], [14, 22, 2, 2], [0, 0, 16, 24]]
    assert stored(path / "records", "gain").tolist() == [3, 0, 0, 0, 1, 2, 0, 0, 0, 0]


def test_a_part_is_turned_with_its_frame(start: Start, tmp_path: Path) -> None:
    part = picture(1, (3, 5))
    with start(record_roi=True, pixel_format="big-endian", orientation=1) as acq:
        assert acq.frame_shape == (24, 16)
        acq.append(part.astype(">u2"), offset=(20, 2))
    path = tmp_path / "run.ome.zarr"
    frame = np.zeros((24, 16), "u2")
    frame[20:23, 2:7] = part
    np.testing.assert_array_equal(stored(path)[0], np.rot90(frame))
    ((y, x, height, width),) = places(path)
    np.testing.assert_array_equal(stored(path)[0, y : y + height, x : x + width], np.rot90(part))


def test_parts_that_do_not_fit_are_refused(start: Start) -> None:
    part = picture(1, (3, 5))
    with start(record_roi=True) as acq:
        for offset in [(14, 0), (0, 20), (16, 24)]:
            with pytest.raises(sw.FrameError, match="are no part of a frame of 16 rows and 24 columns"):
                acq.append(part, offset=offset)
            with pytest.raises(sw.FrameError, match="are no part of a frame"):
                acq.append(part, offset=offset, number=3)
        for offset in [(-1, 0), (0,), (0, 0, 0), (0.5, 0), 5, "left", (1 << 64, 0)]:
            with pytest.raises(sw.FrameError, match=r"offset = .*: expected are a row and a column") as refused:
                acq.append(part, offset=offset)
            assert str(offset) in str(refused.value)
        for number in (-1, 1 << 64):
            with pytest.raises(sw.FrameNumberError, match=f"number = {number}: frames are counted from 0") as beyond:
                acq.append(picture(1), number=number)
            assert beyond.value.number == number
        for flat in (part.reshape(-1), part[:0], b"0123"):
            with pytest.raises((sw.FrameError, sw.FrameTypeError)):
                acq.append(flat, offset=(0, 0))
        with pytest.raises(sw.FrameError, match="holds no frames of 16 rows"):
            acq.append(part)
        acq.append(picture(2))
    with start("other.ome.zarr") as acq, pytest.raises(sw.ConfigError, match="record_roi = false"):
        acq.append(part, offset=(0, 0))
    with pytest.raises(sw.ConfigError, match="can't be padded"):
        start("packed.ome.zarr", record_roi=True, pixel_format="mono12p")
