"""One run that several processes write: each its part, and then they are put together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardwright as sw

CONFIG: dict[str, Any] = {
    "dims": [sw.time(chunk=2, shard=4), sw.y(20, chunk=10, shard=10), sw.x(60, chunk=10, shard=20)],
    "dtype": "u2",
    "ring_bytes": 1 << 20,
    "record_fields": {"stage_z": "f8"},
}
CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_parts import write
write(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
"""


def image(number: int) -> np.ndarray:
    return (np.arange(20 * 60, dtype="u2") + 1000 * number).reshape(20, 60)


def write(path: Path, index: int, of: int, by: str) -> None:
    regions = [(slice(0, 20), slice(0, 60))] * of
    if by == "frame":
        regions = [(slice(0, 20), slice(0, 20)), (slice(0, 20), slice(20, 60))]
    with sw.create(path, CONFIG, part={"index": index, "of": of, "by": by}) as acq:
        for number in range(30):
            if by == "frame" or number // 4 % of == index:
                acq.append(image(number)[regions[index]], number=number, stage_z=number / 4)
            else:
                with pytest.raises(sw.FrameNumberError, match="part"):
                    acq.append(image(number), number=number)


@pytest.mark.parametrize(("of", "by"), [(3, "time"), (2, "frame")])
def test_processes_write_one_run(tmp_path: Path, of: int, by: str) -> None:
    path = tmp_path / "run.ome.zarr"
    regions = sw.create_parts(path, CONFIG, parts=of, by=by)
    if by == "frame":
        assert regions == [(slice(0, 20), slice(0, 20)), (slice(0, 20), slice(20, 60))]
    else:
        assert regions == [(slice(0, 20), slice(0, 60))] * 3
    arguments = [sys.executable, "-c", CHILD, str(Path(__file__).parent), str(path)]
    children = [subprocess.Popen([*arguments, str(index), str(of), by]) for index in range(1, of)]
    assert [child.wait() for child in children] == [0] * (of - 1)
    with pytest.raises(sw.FormatError, match="parts that never came: 0"):
        sw.finish_parts(path)
    write(path, 0, of, by)
    seen: list[tuple[int, int]] = []
    finished = sw.finish_parts(path, progress=lambda done, total: seen.append((done, total)))
    assert (finished.frames, finished.frames_missing, list(finished.shape)) == (30, 0, [30, 20, 60])
    assert [part["state"] for part in finished.parts] == ["complete"] * of
    assert np.array_equal(sw.open(path)[:], [image(number) for number in range(30)])
    assert np.array_equal(sw.open(path / "records" / "stage_z")[:], np.arange(30) / 4)
    assert sw.verify(path).is_sound
    assert seen[-1] == (30, 30)


def test_what_does_not_go_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(sw.ConfigError, match="at most 3 parts are possible"):
        sw.create_parts(tmp_path / "run.ome.zarr", CONFIG, parts=4, by="frame")
    with pytest.raises(sw.ConfigError, match="columns"):
        sw.create_parts(tmp_path / "run.ome.zarr", CONFIG, parts=2, by="columns")
    with pytest.raises(sw.UnsupportedError, match="no run in parts"):
        sw.finish_parts(tmp_path)
    sw.create_parts(tmp_path / "run.ome.zarr", CONFIG, parts=2)
    with pytest.raises(sw.ConfigError, match="not that of the run"):
        sw.create(tmp_path / "run.ome.zarr", CONFIG, fill_value=3, part={"index": 0, "of": 2, "by": "time"})
    finished = sw.finish_parts(tmp_path / "run.ome.zarr", incomplete=True)
    assert (finished.frames, [part["state"] for part in finished.parts]) == (0, ["absent"] * 2)
