"""What is done to datasets after the run."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Start, by_tensorstore, picture, stored

import shardwright as sw


@pytest.fixture
def run(start: Start, tmp_path: Path) -> Path:
    """A finished run of ten frames."""
    with start() as acq:
        for number in range(10):
            acq.append(picture(number))
    return tmp_path / "run.ome.zarr"


WANT = np.stack([picture(number) for number in range(10)])


def test_info_and_verify(run: Path) -> None:
    info = sw.info(run)
    assert info.complete and info["ome"]
    assert info.arrays[0]["shape"] == [10, 16, 24]
    assert "<table>" in info._repr_html_()
    with pytest.raises(AttributeError, match="arrays"):
        info.nothing  # noqa: B018
    told: list[tuple[int, int]] = []
    report = sw.verify(run, progress=lambda done, total: told.append((done, total)))
    assert report.is_sound and report.damage == 0
    assert told and told[-1][1] > 0
    shard = run / "0" / "c" / "0" / "0" / "0"
    data = bytearray(shard.read_bytes())
    data[300] ^= 1
    shard.write_bytes(data)
    report = sw.verify(run, progress=True)
    assert not report.is_sound
    assert sw.recover(run)["images"]


def test_what_is_not_there(tmp_path: Path) -> None:
    calls: list[Any] = [sw.info, sw.verify, sw.recover, sw.repack, sw.manifest, sw.pyramid, sw.open]
    for call in calls:
        with pytest.raises(sw.NotFoundError) as refused:
            call(tmp_path / "nothing.zarr")
        assert isinstance(refused.value, FileNotFoundError)


def test_repack(run: Path, tmp_path: Path) -> None:
    with pytest.raises(sw.ConfigError, match="orders"):
        sw.repack(run, tmp_path / "out.zarr", orders="c")
    with pytest.raises(sw.ConfigError, match="possible are"):
        sw.repack(run, tmp_path / "out.zarr", order="spiral")
    report = sw.repack(run, tmp_path / "out.zarr", codec="blosc-zstd", chunk=[5, 16, 24], shard=[10, 16, 24])
    assert report.chunks == 2
    np.testing.assert_array_equal(stored(tmp_path / "out.zarr"), WANT)
    sw.repack(run, tmp_path / "two.zarr", dialect="zarr2", codec=sw.codec("gzip", checksum=False), unsharded=True)
    assert (tmp_path / "two.zarr" / ".zgroup").exists()
    sw.repack(run)
    np.testing.assert_array_equal(by_tensorstore(run), WANT)


def test_pyramid_and_manifest(run: Path, tmp_path: Path) -> None:
    report = sw.pyramid(run, method="max", levels=1)
    assert report.levels[0]["shape"] == [10, 8, 12]
    want = WANT.reshape(10, 8, 2, 12, 2).max((2, 4))
    np.testing.assert_array_equal(stored(run, report.levels[0]["path"]), want)
    report = sw.pyramid(run, method="max", levels=1, y=False, overwrite=True)
    np.testing.assert_array_equal(stored(run, report.levels[0]["path"]), WANT.reshape(10, 16, 12, 2).max(3))
    assert sw.manifest(run, forms=["kerchunk"]).chunks > 0
    assert (tmp_path / "run.ome.manifest.zarr" / "kerchunk.json").exists()
    with pytest.raises(sw.ConfigError):
        sw.pyramid(run, levels=0)


def test_arrays_are_read_lazily(run: Path) -> None:
    array = sw.open(run)
    assert (array.shape, array.ndim, array.size, array.dtype, len(array)) == ((10, 16, 24), 3, 3840, np.uint16, 10)
    assert array.dimension_names == ["t", "y", "x"]
    assert array.chunk_shape == (1, 16, 24) and array.shard_shape == (4, 16, 24)
    for index in (..., 3, (slice(8, 2, -2), slice(None, None, 3), 5), (-1, 2, 3), slice(4, 4)):
        np.testing.assert_array_equal(array[index], WANT[index])  # type: ignore[index]
    np.testing.assert_array_equal(np.asarray(array), WANT)
    assert isinstance(array.attributes, dict)
    assert sw.open(run / "records" / "frame_number")[...].tolist() == list(range(10))
    with pytest.raises(IndexError):
        array[10]


@pytest.mark.parametrize("name", ["out.npy", "out.raw"])
@pytest.mark.parametrize("region", [..., 4, (slice(7, 1, -3), 3), (slice(2, 9), slice(1, 5), slice(None, None, 2))])
def test_export(run: Path, tmp_path: Path, name: str, region: Any) -> None:
    shape = sw.export(run, tmp_path / name, region)
    assert shape == WANT[region].shape
    if name.endswith(".npy"):
        np.testing.assert_array_equal(np.load(tmp_path / name), WANT[region])
    else:
        np.testing.assert_array_equal(np.fromfile(tmp_path / name, "<u2").reshape(shape), WANT[region])
    with pytest.raises(sw.ExistsError):
        sw.export(run, tmp_path / name)
    with pytest.raises(sw.ConfigError):
        sw.export(run, tmp_path / "out.jpg")


def test_other_threads_go_on_meanwhile(start: Start, tmp_path: Path) -> None:
    with start(dims=[sw.time(), sw.y(256), sw.x(256)], codec="zstd", ring_bytes=1 << 22) as acq:
        for _ in range(40):
            acq.append(np.random.default_rng(0).integers(0, 999, (16, 256, 256), dtype="u2"))
    count, done = 0, threading.Event()

    def spin() -> None:
        nonlocal count
        while not done.is_set():
            count += 1

    other = threading.Thread(target=spin)
    other.start()
    sw.verify(tmp_path / "run.ome.zarr")
    done.set()
    other.join()
    assert count > 1000


def test_ctrl_c_stops_an_operation(start: Start, tmp_path: Path) -> None:
    with start(dims=[sw.time(), sw.y(256), sw.x(256)], codec="none", ring_bytes=1 << 22) as acq:
        for _ in range(40):
            acq.append(np.random.default_rng(0).integers(0, 999, (16, 256, 256), dtype="u2"))
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    began = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        sw.repack(tmp_path / "run.ome.zarr", tmp_path / "out.zarr", codec=sw.blosc("zstd", 9), workers=1)
    assert time.monotonic() - began < 20
    timer.join()
    # Another call goes on from there.
    sw.repack(tmp_path / "run.ome.zarr", tmp_path / "out.zarr", codec=sw.blosc("lz4"), sync=False)
    assert sw.verify(tmp_path / "out.zarr").is_sound


def test_progress_may_raise(run: Path) -> None:
    def refuse(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sw.verify(run, progress=refuse)


def test_reports_have_attributes_all_the_way_down(start: Start, tmp_path: Path) -> None:
    with start() as acq:
        acq.append(picture(0))
        acq.attributes["operator"] = {"name": "Ada"}
    told = sw.info(tmp_path / "run.ome.zarr")
    assert told.arrays[0].notes == told["arrays"][0]["notes"] == []
    assert told.attributes["operator"] == {"name": "Ada"}
    assert told.attributes.operator.name == "Ada"
    assert "operator" not in sw.open(tmp_path / "run.ome.zarr").attributes
    with pytest.raises(AttributeError, match="the report has path, "):
        told.arrays[0].nothing  # noqa: B018
    again = pickle.loads(pickle.dumps(copy.deepcopy(told)))
    assert again == told and again.arrays[0].path == "0"
    with sw.create_dataset(tmp_path / "both.zarr") as both:
        with both.acquisition("left", acq.config) as left:
            left.append(picture(0))
            left.attributes["side"] = 1
    assert sw.info(tmp_path / "both.zarr" / "left").attributes["side"] == 1
