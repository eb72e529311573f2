"""The backend for ome-writers, and what stands on it. The suite of ome-writers itself runs with the plugin
``shardwright_plugin`` beside this file: ``pytest -p shardwright_plugin -k shardwright``.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import by_tensorstore, picture

import shardwright as sw

ome_writers = pytest.importorskip("ome_writers", reason="ome-writers 0.3.2 is not installed")
import shardwright.ome_writers as backend  # noqa: E402

backend.register()
EXAMPLE = Path(__file__).parents[1] / "examples" / "demo_camera.py"


def settings(path: Path, sizes: dict[str, Any], **more: Any) -> Any:
    dims = ome_writers.dims_from_standard_axes({**sizes, "y": 16, "x": 24})
    return ome_writers.AcquisitionSettings(
        root_path=str(path), dimensions=dims, dtype="uint16", **{"format": "shardwright", **more}
    )


@pytest.mark.parametrize("form", ["shardwright", "Shardwright", {"name": "ome-zarr", "backend": "shardwright"}])
def test_every_form_of_the_name(tmp_path: Path, form: Any) -> None:
    made = settings(tmp_path / "run.ome.zarr", {"t": 2}, format=form)
    assert (made.format.name, made.format.backend, made.format.suffix) == ("ome-zarr", "shardwright", ".ome.zarr")
    assert type(made).model_validate_json(made.model_dump_json()) == made
    other = settings(tmp_path / "run.ome.zarr", {"t": 2}, format="ome-zarr")
    assert other.format.backend != "shardwright"
    other.format = "shardwright"
    assert other.format.backend == "shardwright"
    backend.register()


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ome_writers, "__version__", "0.4.0")
    with pytest.raises(RuntimeError, match=r"0\.3\.2.*0\.4\.0"):
        backend.register()


@pytest.mark.parametrize("compression", [None, "none", "blosc-zstd", "blosc-lz4", "zstd"])
def test_positions_channels_and_planes(tmp_path: Path, compression: str | None) -> None:
    sizes = {"t": 2, "p": 2, "z": 3, "c": 2}
    made = settings(tmp_path / "run.ome.zarr", sizes, compression=compression)
    with ome_writers.create_stream(made) as stream:
        view = stream.view(dynamic_shape=False)
        for number in range(24):
            stream.append(picture(number), frame_metadata={"delta_t": float(number)})
            index = np.unravel_index(number, (2, 2, 3, 2))
            np.testing.assert_array_equal(view[tuple(map(int, index))], picture(number))
        assert view[1, 1, 2, 1].any()
    for position in range(2):
        # OME-Zarr stores t, c, z, y, x.
        stored = by_tensorstore(tmp_path / "run.ome.zarr", f"{position}/0")
        for number in range(24):
            t, p, z, c = np.unravel_index(number, (2, 2, 3, 2))
            if p == position:
                np.testing.assert_array_equal(stored[t, c, z], picture(number))
    group = json.loads((tmp_path / "run.ome.zarr" / "1" / "zarr.json").read_text())
    assert len(group["attributes"]["ome_writers"]["frame_metadata"]) == 12
    array = json.loads((tmp_path / "run.ome.zarr" / "1" / "0" / "zarr.json").read_text())
    codecs = [codec["name"] for codec in array["codecs"][0]["configuration"]["codecs"]]
    assert codecs == ["bytes"] + ([] if compression in (None, "none") else [compression.split("-")[0]])
    assert not (tmp_path / "run.ome.zarr" / ".shardwright-live").exists()


def test_what_is_given_with_frames_is_there_before_the_end(tmp_path: Path) -> None:
    log = tmp_path / "run.ome.zarr" / ".shardwright-live" / "frame_metadata.jsonl"
    with ome_writers.create_stream(settings(tmp_path / "run.ome.zarr", {"t": 3})) as stream:
        stream.append(picture(0))
        assert not log.exists()
        for number in (1, 2):
            stream.append(picture(number), frame_metadata={"exposure_ms": number, "filter": "GFP"})
            # No buffer of this process holds it.
            entry = json.loads(log.read_text().splitlines()[-1])
            assert entry == {"position": 0, "storage_index": [number], "exposure_ms": number, "filter": "GFP"}
    assert not log.exists()


def test_frames_that_are_left_out(tmp_path: Path) -> None:
    with ome_writers.create_stream(settings(tmp_path / "run.ome.zarr", {"t": None, "c": 2})) as stream:
        stream.append(picture(0))
        stream.skip(frames=3)
        stream.append(picture(4))
        stream.skip(frames=3)
    stored = by_tensorstore(tmp_path / "run.ome.zarr")
    assert stored.shape == (4, 2, 16, 24)
    np.testing.assert_array_equal(stored[2, 0], picture(4))
    assert not stored[0, 1].any() and not stored[1].any() and not stored[3].any()


def test_what_is_in_the_way_and_what_goes_wrong(tmp_path: Path) -> None:
    made = settings(tmp_path / "run.ome.zarr", {"t": 2})
    with ome_writers.create_stream(made) as stream:
        stream.append(picture(0))
    with pytest.raises(FileExistsError):
        ome_writers.create_stream(made)
    with pytest.raises(sw.FrameTypeError):
        with ome_writers.create_stream(settings(tmp_path / "other.ome.zarr", {"t": 2})) as stream:
            stream.append(picture(0, dtype="i4"))


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


needs_demo = pytest.mark.skipif(
    not (importlib.util.find_spec("pymmcore_plus") and importlib.util.find_spec("mm_test_adapters")),
    reason="pymmcore-plus and mm-test-adapters are not installed",
)


@needs_demo
def test_a_demo_camera_writes_positions_channels_and_planes(tmp_path: Path) -> None:
    ended = demo(str(EXAMPLE), str(tmp_path / "demo.ome.zarr"))
    assert ended.returncode == 0, ended.stderr
    stored = [by_tensorstore(tmp_path / "demo.ome.zarr", f"{position}/0") for position in range(2)]
    assert [pixels.shape for pixels in stored] == [(2, 2, 3, 512, 512)] * 2
    assert all(plane.std() > 0 for pixels in stored for plane in pixels.reshape(-1, 512, 512))
    assert sw.verify(tmp_path / "demo.ome.zarr").is_sound


@needs_demo
def test_a_full_disk_comes_out_of_run(tmp_path: Path) -> None:
    code = f"""
import resource, runpy
example = runpy.run_path({str(EXAMPLE)!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
example["main"]({str(tmp_path / "demo.ome.zarr")!r})
"""
    ended = demo("-c", code)
    assert ended.returncode == 1
    assert "StorageError" in ended.stderr and "File too large" in ended.stderr


def test_cameras_of_unicore_fill_loans(tmp_path: Path) -> None:
    unicore = pytest.importorskip("pymmcore_plus.experimental.unicore", reason="pymmcore-plus is not installed")
    from shardwright import unicore as own

    addresses = []

    class Camera(unicore.CameraDevice):  # type: ignore[misc, name-defined]
        def get_exposure(self) -> float:
            return 1.0

        def set_exposure(self, exposure: float) -> None:
            pass

        def shape(self) -> tuple[int, int]:
            return (16, 24)

        def dtype(self) -> type:
            return np.uint16

        def start_sequence(self, n: int | None, get_buffer: Any) -> Any:
            for number in range(n or 10):
                buffer = get_buffer(self.shape(), self.dtype())
                addresses.append(buffer.__array_interface__["data"][0])
                buffer[:] = picture(number)
                yield {"gain": number / 2}

    core = unicore.UniMMCore()
    core.loadPyDevice("Camera", Camera())
    core.initializeDevice("Camera")
    core.setCameraDevice("Camera")
    before = core._seq_buffer
    dims = [sw.time(chunk=1, shard=4), sw.y(16), sw.x(24)]
    fields = {"dims": dims, "dtype": "u2", "ring_bytes": 1 << 16, "record_fields": {"gain": "f8"}, "sync": False}
    with sw.create(tmp_path / "run.ome.zarr", fields) as acq, own.loans(core, acq) as buffer:
        core.startSequenceAcquisition(30, 0, False)
        while core.isSequenceRunning():
            acq.check()
        assert set(addresses) <= set(acq.buffers)
        assert core.getRemainingImageCount() == 30
        np.testing.assert_array_equal(core.popNextImage(), picture(0))
        np.testing.assert_array_equal(core.getLastImage(), picture(29))
        assert buffer.used_bytes <= buffer.size_bytes and not buffer.overflow_occurred
        with pytest.raises(ValueError, match="shape"):
            buffer.acquire_slot((3, 3), "u2")
        with pytest.raises(RuntimeError, match="No pending"):
            buffer.finalize_slot()
    assert core._seq_buffer is before
    np.testing.assert_array_equal(by_tensorstore(tmp_path / "run.ome.zarr")[29], picture(29))
    np.testing.assert_array_equal(by_tensorstore(tmp_path / "run.ome.zarr" / "records", "gain")[:3], [0, 0.5, 1])
    with pytest.raises(RuntimeError, match="UniMMCore"):
        with own.loans(object(), acq):
            pass
