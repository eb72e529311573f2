"""Buffers of the ring in Python's hands."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
from conftest import Start, picture, stored

import shardwright as sw


def until_written(acq: sw.Acquisition, frames: int) -> None:
    while acq.stats.frames_written < frames:
        acq.check()


def test_loans_are_the_rings_own_memory(start: Start, tmp_path: Path) -> None:
    with start() as acq:
        assert len(acq.buffers) == acq.ring_frames
        for number in range(20):
            with acq.acquire(timeout=5) as frame:
                assert frame.address == acq.buffers[frame.index]
                assert frame.array.__array_interface__["data"] == (frame.address, False)
                assert np.asarray(frame).__array_interface__["data"][0] == frame.address
                assert np.asarray(memoryview(frame)).__array_interface__["data"][0] == frame.address
                assert np.from_dlpack(frame).__array_interface__["data"][0] == frame.address
                frame.array[:] = picture(number)
                assert not frame.committed
                assert frame.commit() == number
                assert frame.committed and frame.number == number
    want = np.stack([picture(number) for number in range(20)])
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), want)


def test_a_kept_array_keeps_its_buffer_from_others(start: Start, tmp_path: Path) -> None:
    with start() as acq:
        with acq.acquire() as frame:
            kept = frame.array
            address = frame.address
            kept[:] = picture(0)
            frame.commit()
        until_written(acq, 1)
        for number in range(1, 200):
            with acq.acquire(timeout=5) as frame:
                assert frame.address != address
                frame.array[:] = picture(number)
                frame.commit()
        # A late write: it comes too late even for its own frame.
        kept[:] = 7
        until_written(acq, 200)
        del frame
        gc.collect()
        assert acq.stats.ring_free == acq.ring_frames - 1
        del kept
        assert acq.stats.ring_free == acq.ring_frames
    want = np.stack([picture(number) for number in range(200)])
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), want)


@pytest.mark.parametrize("show", [lambda frame: frame.array, memoryview, np.from_dlpack, np.asarray])
def test_every_way_of_showing_a_buffer_keeps_it(start: Start, show: object) -> None:
    with start() as acq:
        frame = acq.acquire()
        kept = show(frame)  # type: ignore[operator]
        frame.commit()
        until_written(acq, 1)
        assert acq.stats.ring_free == acq.ring_frames - 1
        del kept
        assert acq.stats.ring_free == acq.ring_frames


def test_without_arrays_the_frame_object_keeps_nothing(start: Start) -> None:
    with start() as acq:
        frame = acq.acquire()
        assert acq.stats.ring_free == acq.ring_frames - 1
        frame.commit()
        until_written(acq, 1)
        assert acq.stats.ring_free == acq.ring_frames
        del frame


def test_the_ring_outlives_its_run(start: Start) -> None:
    with start() as acq:
        with acq.acquire() as frame:
            kept = frame.array
            kept[:] = picture(3)
            frame.commit()
        late = acq.acquire()
        unused = acq.acquire()
        shown = unused.array
    del acq, frame
    gc.collect()
    np.testing.assert_array_equal(kept, picture(3))
    shown[:] = 1
    with pytest.raises(sw.EndedError):
        late.commit()
    late.discard()
    del unused, late
    gc.collect()
    assert shown.sum() == 16 * 24


def test_what_is_left_without_a_commit_is_discarded(start: Start) -> None:
    with start() as acq:
        with acq.acquire() as frame:
            pass
        assert acq.stats.ring_free == acq.ring_frames
        with pytest.raises(ZeroDivisionError), acq.acquire() as frame:
            kept = frame.array
            raise ZeroDivisionError
        # It may still be written through the array.
        assert acq.stats.ring_free == acq.ring_frames - 1
        del kept
        assert acq.stats.ring_free == acq.ring_frames
        for use in (lambda: frame.array, frame.commit, lambda: memoryview(frame)):
            with pytest.raises((sw.FrameError, BufferError), match="discarded"):
                use()
        frame.discard()
        frame = acq.acquire()
        frame.commit()
        for use in (lambda: frame.array, frame.commit):
            with pytest.raises(sw.FrameError, match="committed"):
                use()
    assert acq.summary.frames_accepted == 1


def test_a_refused_commit_leaves_the_frame_on_loan(start: Start, tmp_path: Path) -> None:
    with start() as acq:
        acq.append(picture(0))
        frame = acq.acquire()
        frame.array[:] = picture(1)
        with pytest.raises(sw.FrameNumberError, match="unique"):
            frame.commit(0)
        with pytest.raises(sw.RecordError):
            frame.commit(1, nothing=3)
        assert frame.commit(1) == 1
        frame = acq.acquire()
        with pytest.raises(sw.FrameNumberError):
            frame.commit(0)
        frame.discard()
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), np.stack([picture(0), picture(1)]))


def test_layouts_with_gaps(start: Start, tmp_path: Path) -> None:
    layout = {"buffer_bytes": 1024, "offset": 16, "row_stride": 56}
    with start(frame_layout=layout) as acq:
        with acq.acquire() as frame:
            assert frame.address == acq.buffers[frame.index] + 16
            assert frame.array.strides == (56, 2)
            assert memoryview(frame).shape == (16, 24)
            np.asarray(frame)[:] = picture(0)
            frame.commit()
        acq.append(picture(1))
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), np.stack([picture(0), picture(1)]))


def test_the_ring_may_be_full(start: Start) -> None:
    with start() as acq:
        held = [acq.acquire() for _ in range(acq.ring_frames)]
        for call in (lambda: acq.acquire(timeout=0), lambda: acq.append(picture(0), timeout=0.02)):
            with pytest.raises(sw.RingFull, match="on loan") as full:
                call()
            assert isinstance(full.value, TimeoutError)
        assert full.value.taken == 0
        assert full.value.waited >= 0.02
        held.pop().discard()
        # So many that workers can't give the one buffer back in time for each.
        with pytest.raises(sw.RingFull) as full:
            acq.append(np.zeros((500, 16, 24), "u2"), number=None, timeout=0.0, host_timestamp=range(500))
        assert 0 < full.value.taken < 500


@pytest.mark.parametrize("policy", ["drop-newest", "error"])
def test_policies_of_a_full_ring(start: Start, policy: str) -> None:
    with start(ring_full=policy) as acq:
        held = [acq.acquire() for _ in range(acq.ring_frames)]
        with pytest.raises(sw.RingFull):
            acq.acquire()
        if policy == "error":
            with pytest.raises(sw.RingFull):
                acq.append(picture(0))
        else:
            assert acq.append(np.zeros((3, 16, 24), "u2")) == 0
            assert acq.stats.frames_dropped == 4
        for frame in held:
            frame.discard()
        assert acq.append(picture(1)) == 1


def test_an_image_can_have_as_many_buffers_as_it_says(tmp_path: Path) -> None:
    dims = [sw.time(chunk=4, shard=8), sw.y(16), sw.x(24)]
    fields = {"dims": dims, "dtype": "u2", "ring_bytes": 24 * 4096, "sync": False}
    with sw.create_dataset(tmp_path / "both.zarr") as both:
        left = both.acquisition("left", fields)
        alone = left.ring_frames
        right = both.acquisition("right", fields)
        assert left.ring_frames == right.ring_frames == left.stats.ring_frames < alone
        held = [left.acquire(timeout=0) for _ in range(left.ring_frames)]
        with pytest.raises(sw.RingFull):
            left.acquire(timeout=0)
        for frame in held:
            assert frame.address == left.buffers[frame.index]
            frame.discard()
