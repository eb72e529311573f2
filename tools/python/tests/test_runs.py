"""From create to finish, and all ways in between."""

from __future__ import annotations

import json
import logging
import pickle
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from conftest import Start, picture, stored

import shardwright as sw


def test_configurations_by_keyword_dict_json_toml_and_file(tmp_path: Path) -> None:
    toml = """
        dtype = "u16"
        codec = { compressor = { name = "none" } }
        sync = false
        ring_bytes = 65536
        [[dims]]
        name = "t"
        kind = "time"
        [[dims]]
        name = "y"
        size = 16
        [[dims]]
        name = "x"
        size = 24
    """
    dims = [{"name": "t", "kind": "time"}, {"name": "y", "size": 16}, {"name": "x", "size": 24}]
    table = {"dtype": "uint16", "dims": dims, "sync": False, "codec": "none", "ring_bytes": 65536}
    text = json.dumps({**table, "codec": {"compressor": {"name": "none"}}})
    (tmp_path / "config.toml").write_text(toml)
    configs = [table, text, toml, tmp_path / "config.toml", str(tmp_path / "config.toml")]
    for at, config in enumerate(configs):
        with sw.create(tmp_path / f"{at}.zarr", config, overwrite=True) as acq:
            assert acq.dtype == np.uint16
            assert acq.frame_shape == (16, 24)
            acq.append(picture(at))
        np.testing.assert_array_equal(stored(tmp_path / f"{at}.zarr")[0], picture(at))


def test_a_name_that_ends_in_ozx_makes_one_file(tmp_path: Path, start: Start) -> None:
    import zarr

    path = tmp_path / "run.ozx"
    with start("run.ozx") as acq:
        for number in range(9):
            acq.append(picture(number))
    assert path.is_file()
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    with zarr.storage.ZipStore(path, mode="r") as store:
        read = np.asarray(zarr.open_array(store, path="0", mode="r")[...])
    np.testing.assert_array_equal(read, [picture(number) for number in range(9)])
    assert sw.verify(path).is_sound


def test_every_field_has_a_keyword(tmp_path: Path) -> None:
    fields = dict(
        dims=[
            sw.time(8, chunk=2, shard=4, scale=(0.5, "second")),
            sw.channel(2),
            sw.y(16, scale=0.1, translation=7),
            sw.x(24),
        ],
        dtype=np.int16,
        dialect="zarr3",
        acquisition_order=["c", "t"],
        codec=sw.codec(sw.blosc("zstd", 3, "byte"), checksum=False),
        placement="packed",
        index_location="start",
        index_checksum=False,
        volume={},
        storage="buffered",
        fill_value=-1,
        skip_empty_chunks=False,
        ring_bytes=1 << 20,
        frame_layout=None,
        pixel_format="plain",
        unused_low_bits=0,
        orientation=0,
        ring_full=2.5,
        leap_max=100,
        workers=1,
        affinity=[],
        sync=True,
        checkpoint_every=0.25,
        record_fields={"z": float},
        record_roi=False,
        channels=["DAPI", sw.Channel("GFP", "00FF00", (0, 100))],
        name="cells",
        ome="0.6",
        overwrite=True,
        guard_maps=False,
        manifest=["kerchunk"],
        pyramid={"method": "max", "levels": 2},
        plate_acquisition=None,
        label=None,
        part=None,
        key=None,
        bare=False,
    )
    assert set(fields) == set(sw._config.ConfigFields.__annotations__)
    # The library names all that it has.
    with pytest.raises(sw.ConfigError, match="unknown field `nothing`") as refused:
        sw.create(tmp_path / "none.ome.zarr", **fields, nothing=0)  # type: ignore[arg-type]
    assert set(fields) == set(re.findall("`([a-z_]+)`", str(refused.value))) - {"nothing"}
    with sw.create(tmp_path / "run.ome.zarr", **fields) as acq:  # type: ignore[arg-type]
        acq.append(picture(0, dtype="i2"))
        assert acq.chunk_shape == [2, 1, 16, 24]
        assert acq.shard_shape[0] == 4
        summary = acq.finish()
    assert [(level.path, level.shape) for level in summary.levels] == [("1", (8, 2, 8, 12)), ("2", (8, 2, 4, 6))]
    got = stored(tmp_path / "run.ome.zarr")
    assert got.shape == (8, 2, 16, 24)
    np.testing.assert_array_equal(got[0, 0], picture(0, dtype="i2"))
    assert (got[1:] == -1).all()
    attributes = json.loads((tmp_path / "run.ome.zarr" / "zarr.json").read_text())["attributes"]["ome"]
    assert [channel["label"] for channel in attributes["omero"]["channels"]] == ["DAPI", "GFP"]
    # As OME-Zarr 0.6 has it.
    (said,) = attributes["multiscales"][0]["datasets"][0]["coordinateTransformations"]
    assert said["transformations"][1]["translation"] == [0, 0, 7, 0]
    assert (tmp_path / "run.ome.manifest.zarr").is_dir()


@pytest.mark.parametrize("fill", [2**64 - 1, np.uint64(2**53 + 1), -(2**53) - 1, np.float32(0.5), float("nan")])
def test_a_fill_value_is_the_number_that_was_said(tmp_path: Path, fill: Any) -> None:
    dtype = "f4" if isinstance(fill, float | np.float32) else "i8" if fill < 0 else "u8"
    dims = [sw.time(), sw.y(16), sw.x(24)]
    with sw.create(tmp_path / "run.ome.zarr", dims=dims, dtype=dtype, fill_value=fill) as acq:
        acq.append(picture(1, dtype=dtype), number=1)
    array = zarr.open_array(tmp_path / "run.ome.zarr" / "0", mode="r")
    np.testing.assert_array_equal(array.fill_value, np.array(fill, dtype))
    np.testing.assert_array_equal(array[0], np.full((16, 24), fill, dtype))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"dtype": "u8", "fill_value": 2.0**64}, "uint64 holds whole numbers"),
        ({"dtype": "f4", "fill_value": 2**24 + 1}, "does not hold it exactly"),
        ({"dtype": "f2"}, "float16"),
        ({"dtype": ">u2"}, "byte order"),
        ({"dtype": "nothing"}, "nothing"),
        ({"codec": "lzma"}, "lzma"),
        ({"ring_full": "wait"}, "wait"),
        ({"workers": 5000}, "1024"),
        ({"checkpoint_every": -1}, "seconds"),
        ({"frame_rate": 3}, "frame_rate"),
        ({"dims": [sw.y(16)]}, "dims"),
        ({"channels": ["a", "b"]}, "channel"),
    ],
)
def test_wrong_configurations_say_why_and_leave_nothing(tmp_path: Path, wrong: dict[str, object], says: str) -> None:
    dims = [sw.time(), sw.y(16), sw.x(24)]
    with pytest.raises(sw.ConfigError, match=says) as refused:
        sw.create(tmp_path / "run.ome.zarr", **{"dims": dims, **wrong})  # type: ignore[arg-type]
    assert isinstance(refused.value, ValueError)
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_the_way(start: Start, tmp_path: Path) -> None:
    with start() as acq:
        acq.append(picture(0))
        with pytest.raises(sw.LockedError):
            start(overwrite=True)
    with pytest.raises(sw.ExistsError) as refused:
        start()
    assert isinstance(refused.value, FileExistsError)
    assert refused.value.filename == str(tmp_path / "run.ome.zarr")
    with start(overwrite=True) as acq:
        acq.append(picture(1))
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), picture(1)[None])


def test_a_run_without_a_frame_gives_back_what_it_was_to_replace(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "run.ome.zarr"
    with start() as acq:
        acq.append(picture(0))
    with start(overwrite=True) as acq:
        pass
    assert "no frame came, so the dataset that it was to replace is back" in acq.summary.notes
    with sw.create_dataset(path, overwrite=True) as dataset, dataset.acquisition("left", acq.config):
        pass
    np.testing.assert_array_equal(stored(path), picture(0)[None])
    assert list(tmp_path.iterdir()) == [path]


def test_exceptions_of_the_block_finish_the_run(start: Start, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), start() as acq:
        acq.append(picture(0))
        raise ZeroDivisionError
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), picture(0)[None])
    assert acq.summary.frames_written == 1
    assert acq.finish() == acq.summary
    for call in (lambda: acq.append(picture(1)), acq.acquire, lambda: acq.stats):
        with pytest.raises(sw.EndedError):
            call()


def test_a_full_disk_comes_out_of_the_block(start: Start, tmp_path: Path) -> None:
    acq = start()
    acq.append(picture(0))
    # What stands where a shard belongs is as good as a full disk.
    (tmp_path / "run.ome.zarr" / "0" / "c" / "90").write_bytes(b"")
    with pytest.raises(sw.Error), acq:
        for number in range(1, 1000):
            acq.append(picture(number))
    with pytest.raises(sw.Unfinished) as unfinished:
        acq.finish()
    cause = unfinished.value.__cause__
    assert isinstance(cause, sw.StorageError) and isinstance(cause, OSError)
    assert cause.errno
    assert unfinished.value.summary.frames_written >= 0
    again = pickle.loads(pickle.dumps(unfinished.value))
    assert again.summary == unfinished.value.summary


def test_aborted_runs(start: Start, tmp_path: Path) -> None:
    acq = start()
    assert acq.abort()
    assert not (tmp_path / "run.ome.zarr").exists()
    with start() as acq:
        acq.append(picture(0))
        acq.abort()
        acq.abort()
    assert (tmp_path / "run.ome.zarr").exists()
    with pytest.raises(sw.EndedError, match="aborted"):
        acq.finish()


def test_an_end_within_a_time(start: Start) -> None:
    acq = start()
    acq.append(picture(0))
    while acq.finish(timeout=0.001) is None:
        pass
    assert acq.summary.frames_written == 1


def test_attributes(start: Start, tmp_path: Path) -> None:
    with start() as acq:
        acq.append(picture(0))
        acq.attributes["stage"] = {"x": np.float32(1.5), "positions": np.arange(3), "where": Path("a")}
        acq.attributes.update(operator="me")
        assert dict(acq.attributes)["operator"] == "me"
        with pytest.raises(sw.ConfigError):
            acq.attributes["ome"] = 1
        with pytest.raises(TypeError):
            acq.attributes["x"] = object()
    attributes = json.loads((tmp_path / "run.ome.zarr" / "zarr.json").read_text())["attributes"]
    assert attributes["stage"] == {"x": 1.5, "positions": [0, 1, 2], "where": "a"}
    assert attributes["operator"] == "me"


def test_what_a_run_tells(start: Start) -> None:
    with start() as acq:
        for number in range(5):
            acq.append(picture(number))
        stats = acq.stats
        assert stats.frames_accepted == 5
        assert stats.bytes_in == 5 * acq.frame_bytes == 5 * 16 * 24 * 2
        assert acq.latencies["commit"].count == 5
        assert "frames accepted" in stats._repr_html_()
        with acq.progress() as bar:
            bar.update()
        assert list(acq.progress(3).of(range(3))) == [0, 1, 2]
        with pytest.raises(sw.FrameError, match="no summary"):
            acq.summary  # noqa: B018
    summary = acq.summary
    assert "5 of 5" in str(summary)
    assert "<table>" in summary._repr_html_()
    assert summary.shape == (5, 16, 24)
    assert summary.elapsed > 0


def test_lines_of_the_engine_reach_logging(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "shardwright"):
        with start() as acq:
            acq.append(picture(0))
    said = [record for record in caplog.records if record.name == "shardwright.acquisition"]
    assert any("acquisition begins" in record.getMessage() for record in said)
    assert any("acquisition ended" in record.getMessage() for record in said)


def test_several_images(tmp_path: Path) -> None:
    fields = {"dims": [sw.time(), sw.y(16), sw.x(24)], "dtype": "u2", "ring_bytes": 1 << 16, "sync": False}
    with sw.create_dataset(tmp_path / "both.zarr") as both:
        left, right = (both.acquisition(name, fields) for name in ("left", "right"))
        for number in range(3):
            left.append(picture(number))
            right.append(picture(100 + number))
        with pytest.raises(sw.ExistsError):
            both.acquisition("left", fields)
        left.finish()
    assert right.summary.frames_written == 3
    assert both.finish().keys() == {"left", "right"}
    np.testing.assert_array_equal(stored(tmp_path / "both.zarr" / "left")[2], picture(2))
    np.testing.assert_array_equal(stored(tmp_path / "both.zarr" / "right")[2], picture(102))
    with pytest.raises(sw.EndedError):
        both.acquisition("third", fields)


def test_a_run_that_nobody_finished(start: Start, tmp_path: Path) -> None:
    acq = start()
    acq.append(picture(0))
    with pytest.warns(ResourceWarning, match="not finished"):
        del acq
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), picture(0)[None])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(sw.ConfigError):
            start("other.zarr", workers=5000)
