"""Frames as cameras give them: packed, of another byte order, aligned to the left, turned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from conftest import Start, picture, stored

import shardwright as sw

Image = npt.NDArray[Any]


def bit_stream(pixels: Image, bits: int) -> bytes:
    """Pixels one after the other, the lowest bit of each first, as ``Mono10p`` and ``Mono12p`` are."""
    values = pixels.reshape(-1, 1).astype(np.int64)
    return np.packbits((values >> np.arange(bits) & 1).astype("u1"), bitorder="little").tobytes()


def pairs(pixels: Image, bits: int) -> bytes:
    """Two pixels in three bytes, their lowest bits in the second one, as ``Mono12Packed`` is."""
    low, packed = bits - 8, b""
    for first, second in pixels.reshape(-1, 2).tolist():
        middle = (first & (1 << low) - 1) | (second & (1 << low) - 1) << 4
        packed += bytes([first >> low, middle, second >> low])
    return packed


PACKED = {
    "mono10p": (10, lambda image: bit_stream(image, 10)),
    "mono12p": (12, lambda image: bit_stream(image, 12)),
    "mono14p": (14, lambda image: bit_stream(image, 14)),
    "mono10packed": (10, lambda image: pairs(image, 10)),
    "mono12packed": (12, lambda image: pairs(image, 12)),
}


def images(bits: int = 16, shape: tuple[int, int] = (16, 24)) -> list[Image]:
    return [picture(number, shape).astype("u2") * 263 & (1 << bits) - 1 for number in range(5)]


@pytest.mark.parametrize("name", PACKED)
def test_packed_pixels_are_unpacked(start: Start, tmp_path: Path, name: str) -> None:
    bits, pack = PACKED[name]
    want = images(bits)
    packed = [np.frombuffer(pack(image), "u1").reshape(16, -1) for image in want]
    with start(pixel_format=name) as acq:
        assert (acq.frame_shape, acq.dtype, acq.frame_bytes) == (packed[0].shape, np.dtype("u1"), packed[0].size)
        acq.append(packed[0])
        acq.append(packed[1].tobytes())
        assert acq.append(np.stack(packed[2:4])) == 2
        with acq.acquire() as frame:
            frame.array[:] = packed[4]
            frame.commit()
        view = acq.view()
        assert view.dtype == np.dtype("u2") and view.shape[1:] == (16, 24)
        np.testing.assert_array_equal(view[...], np.stack(want))
        with pytest.raises(sw.FrameTypeError, match=f"bytes .uint8., packed as {name}"):
            acq.append(want[0])
        with pytest.raises(sw.FrameError):
            acq.append(packed[0][:, :-1])
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), np.stack(want))


def test_rows_that_begin_within_a_byte(start: Start, tmp_path: Path) -> None:
    want = images(12, (15, 23))
    dims = [sw.time(chunk=1, shard=4), sw.y(15), sw.x(23)]
    with start(pixel_format="mono12p", dims=dims) as acq:
        assert acq.frame_shape == (1, 518)
        for image in want:
            acq.append(bit_stream(image, 12))
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), np.stack(want))


def test_rows_whose_bytes_add_up(start: Start, tmp_path: Path) -> None:
    """Two rows of 22.75 bytes are as many whole bytes as twice 23."""
    want = images(14, (2, 13))
    with start(pixel_format="mono14p", dims=[sw.time(chunk=1, shard=4), sw.y(2), sw.x(13)]) as acq:
        assert acq.frame_shape == (1, 46)
        for image in want:
            acq.append(bit_stream(image, 14))
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), np.stack(want))


@pytest.mark.parametrize("turns", [1, 2, -1])
def test_frames_are_turned_as_numpy_does(start: Start, tmp_path: Path, turns: int) -> None:
    given = images(12, (24, 16) if turns % 2 else (16, 24))
    want = np.stack([np.rot90(image, turns) for image in given])
    with start(orientation=turns) as acq:
        assert acq.frame_shape == given[0].shape
        acq.append(given[0])
        acq.append(np.stack(given[1:]))
        np.testing.assert_array_equal(acq.view()[...], want)
    with start("packed.ome.zarr", orientation=turns, pixel_format="mono12p") as acq:
        for image in given:
            acq.append(bit_stream(image, 12))
        np.testing.assert_array_equal(acq.view()[1:3, 4:], want[1:3, 4:])
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), want)
    np.testing.assert_array_equal(stored(tmp_path / "packed.ome.zarr"), want)


def test_a_flip_is_said_by_name(start: Start, tmp_path: Path) -> None:
    with start(orientation={"flip": "rows"}) as acq:
        acq.append(picture(1))
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr")[0], picture(1)[::-1])
    with pytest.raises(sw.ConfigError, match="`columns`"):
        start("other.ome.zarr", orientation={"flip": "row"})


@pytest.mark.parametrize("dtype", ["u2", "i2"])
def test_high_bytes_first(start: Start, tmp_path: Path, dtype: str) -> None:
    want = [(image.astype("i4") - 32768 * (dtype == "i2")).astype(dtype) for image in images()]
    with start(pixel_format="big-endian", dtype=dtype) as acq:
        assert acq.dtype == np.dtype(">" + dtype)
        acq.append(want[0].astype(">" + dtype))
        acq.append(np.stack(want[1:4]).astype(">" + dtype))
        with acq.acquire() as frame:
            assert memoryview(frame).format == (">H" if dtype == "u2" else ">h")
            frame.array[:] = want[4]
            frame.commit()
        np.testing.assert_array_equal(acq.view()[...], np.stack(want))
        with pytest.raises(sw.FrameTypeError, match="high byte comes first"):
            acq.append(want[0])
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), np.stack(want))
    with pytest.raises(sw.ConfigError, match="big-endian"):
        start("other.ome.zarr", dtype=">u2")


def test_pixels_that_are_aligned_to_the_left(start: Start, tmp_path: Path) -> None:
    want = images(12)
    with start(unused_low_bits=4) as acq:
        for image in want:
            acq.append(image << 4)
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), np.stack(want))


def test_formats_that_do_not_fit_are_refused(start: Start) -> None:
    for fields, part in [
        ({"pixel_format": "mono13p"}, "mono12p"),
        ({"pixel_format": "mono12p", "dtype": "u1"}, "uint16"),
        ({"unused_low_bits": 16}, "at most 15"),
    ]:
        with pytest.raises(sw.ConfigError, match=part):
            start(**fields)


@pytest.mark.parametrize(("samples", "dtype"), [(3, "u1"), (4, "u2")])
def test_a_camera_fills_buffers_with_pictures(start: Start, tmp_path: Path, samples: int, dtype: str) -> None:
    dims = [sw.time(chunk=1, shard=2), sw.channel(samples), sw.y(16), sw.x(24)]
    colors = np.stack([picture(number, (16, 24, samples)) for number in range(7)]).astype(dtype)
    with start(dims=dims, dtype=dtype, pixel_format="rgb" if samples == 3 else "rgba") as acq:
        assert (acq.frame_shape, acq.frame_bytes) == ((16, 24, samples), colors[0].nbytes)
        for number in (1, 0):
            with acq.acquire() as frame:
                frame.array[...] = 77
            with acq.acquire() as frame:
                assert frame.array.shape == memoryview(frame).shape == colors[0].shape
                frame.array[...] = colors[number]
                with pytest.raises(sw.FrameNumberError, match="first channel"):
                    frame.commit(samples * number + 1)
                assert frame.commit(samples * number) == samples * number
        assert acq.append(colors[2]) == samples
        assert acq.append_interleaved(colors[3:5]) == 2 * samples
        # Not in order in memory.
        assert acq.append(np.asfortranarray(colors[5]), number=5 * samples) == samples
        assert acq.append_bytes(colors[6].tobytes()) == samples
        with pytest.raises(sw.FrameError, match="no frames"):
            acq.append(colors[0, ..., 0])
        expected = np.moveaxis(colors, -1, 1)
        np.testing.assert_array_equal(acq.view()[...], expected)
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), expected)


@pytest.mark.parametrize("samples", [3, 4])
def test_interleaved_colors_become_channels(start: Start, tmp_path: Path, samples: int) -> None:
    dims = [sw.time(chunk=1, shard=2), sw.channel(samples), sw.y(16), sw.x(24)]
    colors = np.stack([picture(number, (16, 24, samples)) for number in range(4)])
    with start(dims=dims) as acq:
        assert acq.append_interleaved(colors[0]) == samples
        assert acq.append_interleaved(colors[1:], timeout=10) == 3 * samples
        for wrong in (colors[0, ..., :2], colors[0, 0]):
            with pytest.raises(sw.FrameError, match=f"{samples} samples"):
                acq.append_interleaved(wrong)
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), np.moveaxis(colors, -1, 1))
