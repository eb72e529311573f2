"""Pixels that are copied into the ring: right, or refused."""

from __future__ import annotations

import array
import itertools
from pathlib import Path

import numpy as np
import pytest
from conftest import Start, by_tensorstore, picture, stored

import shardwright as sw


def test_readers_find_what_was_appended(start: Start, tmp_path: Path) -> None:
    with start() as acq:
        for number in range(6):
            assert acq.append(picture(number)) == 1
        assert acq.append(np.stack([picture(number) for number in range(6, 10)])) == 4
    want = np.stack([picture(number) for number in range(10)])
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), want)
    np.testing.assert_array_equal(by_tensorstore(tmp_path / "run.ome.zarr"), want)
    np.testing.assert_array_equal(sw.open(tmp_path / "run.ome.zarr")[...], want)
    assert acq.summary.frames_written == 10
    assert acq.summary.missing == ()


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"])
def test_every_type_of_pixels(start: Start, tmp_path: Path, dtype: str) -> None:
    image = picture(3, dtype=dtype)
    with start(dtype=dtype) as acq:
        acq.append(image)
        with acq.acquire() as frame:
            assert frame.array.dtype == np.dtype(dtype)
            assert memoryview(frame).itemsize == np.dtype(dtype).itemsize
            frame.array[:] = image
            frame.commit()
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), np.stack([image, image]))


def orders() -> list[tuple[str, np.ndarray]]:
    stack = np.stack([picture(number) for number in range(4)])
    wide = np.zeros((4, 20, 32), "u2")
    wide[:, 2:18, 4:28] = stack
    every_second = np.zeros((4, 32, 48), "u2")
    every_second[:, ::2, ::2] = stack
    return [
        ("as it is", stack),
        ("cut out", wide[:, 2:18, 4:28]),
        ("Fortran order", np.asfortranarray(stack)),
        ("upside down", np.ascontiguousarray(stack[:, ::-1])[:, ::-1]),
        ("mirrored", np.ascontiguousarray(stack[..., ::-1])[..., ::-1]),
        ("last first", np.ascontiguousarray(stack[::-1])[::-1]),
        ("every second pixel", every_second[:, ::2, ::2]),
        ("read only", np.frombuffer(stack.tobytes(), "u2").reshape(stack.shape)),
        ("more dimensions", stack.reshape(2, 2, 16, 24)),
        ("flat", stack.reshape(-1)),
    ]


@pytest.mark.parametrize(("name", "pixels"), orders(), ids=[name for name, _ in orders()])
def test_pixels_in_any_order_are_right(start: Start, tmp_path: Path, name: str, pixels: np.ndarray) -> None:
    with start() as acq:
        assert acq.append(pixels) == 4
    want = np.stack([picture(number) for number in range(4)])
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), want)


def test_zero_strides(start: Start, tmp_path: Path) -> None:
    row = picture(1)[:1]
    with start() as acq:
        acq.append(np.broadcast_to(row, (16, 24)))
        acq.append(np.broadcast_to(picture(2), (3, 16, 24)))
    got = stored(tmp_path / "run.ome.zarr")
    np.testing.assert_array_equal(got[0], np.repeat(row, 16, axis=0))
    np.testing.assert_array_equal(got[1:], np.stack([picture(2)] * 3))


@pytest.mark.parametrize("dtype", ["i2", ">u2", "f2", "u1", "u4", "S2", "c8", "?"])
def test_other_types_are_refused(start: Start, dtype: str) -> None:
    shape = (16, 48) if dtype == "u1" else (16, 24)
    with start() as acq:
        with pytest.raises(sw.FrameTypeError, match="uint16"):
            acq.append(np.zeros(shape, dtype))
        assert issubclass(sw.FrameTypeError, TypeError)
        assert acq.stats.frames_accepted == 0


def test_raw_bytes_are_no_pixels_of_two_bytes(start: Start) -> None:
    with start() as acq:
        with pytest.raises(sw.FrameTypeError):
            acq.append(bytes(2 * 16 * 24))
        assert acq.append(array.array("H", range(16 * 24))) == 1


def test_bytes_are_pixels_of_one_byte(start: Start, tmp_path: Path) -> None:
    with start(dtype="u1") as acq:
        acq.append(picture(5, dtype="u1").tobytes())
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr")[0], picture(5, dtype="u1"))


@pytest.mark.parametrize("shape", [(24, 16), (16, 23), (2, 24, 16), (16,), (0,), (384 * 2 + 1,)])
def test_other_shapes_are_refused(start: Start, shape: tuple[int, ...]) -> None:
    with start() as acq:
        with pytest.raises(sw.FrameError, match="16 rows and 24 columns"):
            acq.append(np.zeros(shape, "u2"))


@pytest.mark.parametrize("thing", [[[1] * 24] * 16, None, 7, "image"])
def test_what_has_no_buffer_is_refused(start: Start, thing: object) -> None:
    with start() as acq:
        with pytest.raises(sw.FrameTypeError, match="buffer"):
            acq.append(thing)


def test_an_empty_stack_is_nothing(start: Start) -> None:
    with start() as acq:
        assert acq.append(np.zeros((0, 16, 24), "u2")) == 0


class OnlyDlpack:
    """What torch looks like from here."""

    def __init__(self, pixels: np.ndarray, device: int = 1) -> None:
        self.pixels, self.device = pixels, device

    def __dlpack__(self, **options: object) -> object:
        return self.pixels.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)


def test_dlpack(start: Start, tmp_path: Path) -> None:
    with start() as acq:
        acq.append(OnlyDlpack(picture(4)))
        with pytest.raises(sw.FrameTypeError, match="device"):
            acq.append(OnlyDlpack(picture(4), device=2))
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr")[0], picture(4))


def test_values_that_do_not_fit_are_refused_before_a_frame_is_taken(start: Start, tmp_path: Path) -> None:
    with start(record_fields={"gain": "u1", "level": "f4"}) as acq:
        for fields, told in [
            ({"gain": 256}, '"gain": 256 does not fit uint8, which holds whole numbers from 0 to 255'),
            ({"gain": [1, -1]}, '"gain": -1 does not fit uint8'),
            ({"gain": np.array([1.0, 2.5])}, '"gain": 2.5 does not fit uint8'),
            ({"gain": float("nan")}, '"gain": NaN does not fit uint8'),
            ({"gain": 1 << 70}, '"gain": an integer of at most 64 bits is needed'),
            ({"level": 1e39}, '"level": 1e39 does not fit float32'),
        ]:
            with pytest.raises(sw.RecordError) as refused:
                acq.append(np.stack([picture(0), picture(1)]), **fields)
            assert told in str(refused.value)
        with acq.acquire() as frame:
            frame.array[:] = picture(0)
            with pytest.raises(sw.RecordError, match="300 does not fit"):
                frame.commit(gain=300)
            assert frame.commit(gain=255.0, level=float("inf")) == 0
    assert acq.summary.frames_written == 1
    assert stored(tmp_path / "run.ome.zarr" / "records", "gain").tolist() == [255]
    assert stored(tmp_path / "run.ome.zarr" / "records", "level").tolist() == [float("inf")]


def test_numbers_and_records(start: Start, tmp_path: Path) -> None:
    fields = {"stage_z": "f8", "gain": "u2"}
    with start(record_fields=fields) as acq:
        acq.append(picture(0), stage_z=1.5, gain=3, device_timestamp=99, host_timestamp=12345)
        acq.append(np.stack([picture(1), picture(2)]), stage_z=np.array([2.5, 3.5]), device_timestamp=[7, 8])
        acq.append(picture(5), number=5, stage_z=np.float32(0.25))
        with acq.acquire() as frame:
            frame.array[:] = picture(6)
            assert frame.commit(gain=np.uint16(9)) == 6
        with pytest.raises(sw.RecordError, match="stage_z, gain"):
            acq.append(picture(7), stage_y=1)
        with pytest.raises(sw.RecordError, match="number"):
            acq.append(picture(7), stage_z="left")
        with pytest.raises(sw.FrameError, match="2 values"):
            acq.append(picture(7), stage_z=[1, 2])
        with pytest.raises(sw.RecordError):
            acq.append(picture(7), device_timestamp=-1)
        with pytest.raises(sw.FrameNumberError) as refused:
            acq.append(picture(7), number=5)
        assert refused.value.number == 5
        assert isinstance(refused.value, IndexError)
    records = tmp_path / "run.ome.zarr" / "records"
    np.testing.assert_array_equal(stored(records, "stage_z"), [1.5, 2.5, 3.5, np.nan, np.nan, 0.25, np.nan])
    np.testing.assert_array_equal(stored(records, "gain"), [3, 0, 0, 0, 0, 0, 9])
    np.testing.assert_array_equal(stored(records, "device_timestamp")[:3], [99, 7, 8])
    assert stored(records, "host_timestamp")[0] == 12345
    assert acq.summary.missing == (range(3, 5),)


def test_bytes_in_pieces(start: Start, tmp_path: Path) -> None:
    stack = np.stack([picture(number) for number in range(7)])
    data = stack.tobytes()
    with start(frame_layout={"buffer_bytes": 1024, "offset": 16, "row_stride": 56}) as acq:
        cuts = [0, 1, 5, 700, 768, 2500, 2500, 4000, len(data)]
        frames = sum(acq.append_bytes(data[a:b]) for a, b in itertools.pairwise(cuts))
        assert frames == 7
        acq.append_bytes(memoryview(data)[:100])
        assert acq.pending_bytes == 100
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), stack)


def outer_run(start: Start, order: list[str] | None = None, path: str = "run.ome.zarr", **fields: object) -> object:
    dims = [sw.time(), sw.channel(2), sw.z(4), sw.y(16), sw.x(24)]
    return start(path, dims=dims, acquisition_order=order or [], **fields)


@pytest.mark.parametrize(
    ("order", "shape", "right"),
    [
        (["t", "z", "c"], (2, 4), (1, 0, 2, 3)),
        (["t", "z", "c"], (3, 2, 4), (0, 2, 1, 3, 4)),
        (["t", "z", "c"], (1, 2, 4), (0, 2, 1, 3, 4)),
        (["t", "z", "c"], (2, 1, 4), (1, 2, 0, 3, 4)),
        (None, (4, 2), (1, 0, 2, 3)),
        (None, (4, 2, 5), (2, 1, 0, 3, 4)),
        # The slowest of them, which may be a part.
        (["t", "z", "c"], (2, 3), (1, 0, 2, 3)),
    ],
)
def test_leading_axes_in_another_order_are_refused(
    start: Start, tmp_path: Path, order: list[str] | None, shape: tuple[int, ...], right: tuple[int, ...]
) -> None:
    count = int(np.prod(shape))
    stack = np.stack([picture(number) for number in range(count)]).reshape(*shape, 16, 24)
    with outer_run(start, order) as acq:
        for given in (stack, memoryview(stack), OnlyDlpack(stack), np.asfortranarray(stack)):
            with pytest.raises(sw.FrameError) as refused:
                acq.append(given, number=0)
            assert f"np.transpose(image, {right})" in str(refused.value)
            assert "order of acquisition is (" in str(refused.value)
        assert acq.append(np.transpose(stack, right)) == count


def test_leading_axes_in_the_order_of_acquisition_are_right(start: Start, tmp_path: Path) -> None:
    volume = np.stack([picture(number) for number in range(24)]).reshape(3, 2, 4, 16, 24)
    with outer_run(start) as acq:
        assert acq.append(volume) == 24
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), volume)
    with outer_run(start, ["t", "z", "c"], "zc.ome.zarr") as acq:
        assert acq.append(volume[:1].swapaxes(1, 2)) == 8
        assert acq.append(volume[1].swapaxes(0, 1)[:2]) == 4
        # Along one axis, and along axes that are none of the run's.
        assert acq.append(volume[1].swapaxes(0, 1)[2:].reshape(4, 16, 24)) == 4
        assert acq.append(volume[2].swapaxes(0, 1).reshape(2, 2, 2, 16, 24)) == 8
    np.testing.assert_array_equal(stored(tmp_path / "zc.ome.zarr"), volume)


def test_leading_axes_of_pictures_and_of_images_of_a_dataset(start: Start, tmp_path: Path) -> None:
    dims = [sw.time(), sw.dim("p", 2), sw.z(4), sw.channel(3), sw.y(16), sw.x(24)]
    for name, fields in [("rgb", {"pixel_format": "rgb"}), ("planes", {})]:
        with start(f"{name}.ome.zarr", dims=dims, **fields) as acq:
            with pytest.raises(sw.FrameError, match=r"acquisition is \((t, )?p, z"):
                acq.append_interleaved(np.zeros((4, 2, 16, 24, 3), "u2"))
            assert acq.append_interleaved(np.zeros((2, 4, 16, 24, 3), "u2")) == 24
    with sw.create_dataset(tmp_path / "both.zarr") as both:
        fields = {"dims": [sw.time(), sw.channel(2), sw.z(4), sw.y(16), sw.x(24)], "ring_bytes": 1 << 16, "sync": False}
        image = both.acquisition("left", fields, dtype="u2")
        with pytest.raises(sw.FrameError, match=r"\(c, z\)"):
            image.append(np.zeros((4, 2, 16, 24), "u2"))
        assert image.append(np.zeros((2, 4, 16, 24), "u2")) == 8
