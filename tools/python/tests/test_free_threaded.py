"""Many threads on the same objects: with the interpreter's lock, and without it where Python is free-threaded."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import os
import queue
import subprocess
import sys
import sysconfig
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from conftest import Start

import shardwright as sw
from shardwright import _acquisition, _progress

FRAME = (16, 24)
#: Seconds after which a thread hangs, and what a whole run does more of the same.
HANGS = 60.0
TIMES = 1 if "SHARDWRIGHT_QUICK" in os.environ else 4


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Lets the interpreter's lock, if there is one, go from thread to thread as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*calls: Callable[[], Any]) -> list[Any]:
    """What calls return that begin at the same moment, each on a thread of its own."""
    barrier, results, errors = threading.Barrier(len(calls)), [None] * len(calls), []

    def run(at: int) -> None:
        try:
            barrier.wait()
            results[at] = calls[at]()
        except BaseException as error:
            errors.append(error)

    # A thread that hangs must not keep pytest from telling.
    threads = [threading.Thread(target=run, args=(at,), daemon=True) for at in range(len(calls))]
    for thread in threads:
        thread.start()
    limit = time.monotonic() + HANGS
    for thread in threads:
        thread.join(max(limit - time.monotonic(), 0))
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    return results


def pixels(name: int) -> npt.NDArray[np.uint16]:
    """An image that begins with its name."""
    return (np.arange(FRAME[0] * FRAME[1], dtype="u2") + np.uint16(name)).reshape(FRAME)


def named(image: npt.NDArray[Any]) -> int:
    """The name of an image, whose pixels are all its own."""
    name = int(image[0, 0])
    np.testing.assert_array_equal(image, pixels(name))
    return name


def written(path: Path) -> npt.NDArray[Any]:
    assert sw.verify(path).is_sound
    return sw.open(path)[...]


def until(happened: Callable[[], bool]) -> None:
    limit = time.monotonic() + HANGS
    while not happened():
        assert time.monotonic() < limit, "it does not happen"
        time.sleep(0.001)


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a lock")
def test_the_package_does_not_bring_the_lock_back() -> None:
    script = "import sys, shardwright; sys.exit(sys._is_gil_enabled())"
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


class Books:
    """What threads have given to a run."""

    def __init__(self, acq: sw.Acquisition) -> None:
        self.acq = acq
        self.names = iter(range(1 << 16))
        self.lock = threading.Lock()
        #: Names by the numbers under which they were committed.
        self.committed: dict[int, int] = {}
        self.ended = threading.Event()

    def next_names(self, count: int) -> list[int]:
        with self.lock:
            return list(itertools.islice(self.names, count))

    def loans(self) -> list[int]:
        given = []
        with contextlib.suppress(sw.EndedError):
            while True:
                (name,) = self.next_names(1)
                with self.acq.acquire() as frame:
                    frame.array[:] = pixels(name)
                    number = frame.commit(name=name)
                self.committed[number] = name
                given.append(name)
        return given

    def stacks(self) -> list[int]:
        given: list[int] = []
        while True:
            names = self.next_names(3)
            try:
                given += names[: self.acq.append(np.stack([pixels(name) for name in names]), name=names)]
            except sw.EndedError as ended:
                return given + names[: getattr(ended, "taken", 0)]

    def looks(self) -> int:
        """Each look at a frame shows its pixels; counters never go back."""
        before, count, view = 0, 0, self.acq.view()
        while not self.ended.is_set():
            stats = self.acq.stats
            assert before <= stats.frames_accepted and stats.ring_free <= stats.ring_frames
            before = stats.frames_accepted
            for number, name in list(self.committed.copy().items())[-3:]:
                assert named(view[number]) == name
                count += 1
            assert self.acq.latencies and "running" in repr(self.acq) and view.shape[0] <= self.acq.next_number
            self.acq.check()
        return count

    def collects(self) -> None:
        while not self.ended.is_set():
            gc.collect()

    def ends(self, frames: int) -> None:
        until(lambda: self.acq.stats.frames_accepted >= frames)
        self.acq.close()
        self.ended.set()


def test_everything_at_once_on_one_run(start: Start, tmp_path: Path) -> None:
    with start(ring_bytes=12 * 4096, workers=2, record_fields={"name": "u4"}) as acq:
        books = Books(acq)
        calls = [*[books.loans] * 3, *[books.stacks] * 2, books.looks, books.looks, books.collects]
        results = together(*calls, lambda: books.ends(375 * TIMES))
        given: list[list[int]] = results[:5]
        assert sum(results[5:7]) > 0
        until(lambda: acq.stats.ring_free == acq.ring_frames)
    summary = acq.summary
    assert summary.frames_accepted == summary.frames_written == sum(map(len, given)) >= 375 * TIMES
    assert summary.frames_missing == 0
    came = [named(image) for image in written(tmp_path / "run.ome.zarr")]
    assert sorted(came) == sorted(itertools.chain(*given))
    places = {name: number for number, name in enumerate(came)}
    for names in given:
        assert [places[name] for name in names] == sorted(places[name] for name in names)
    assert all(came[number] == name for number, name in books.committed.items())


def test_many_threads_want_a_few_buffers(start: Start) -> None:
    with start(ring_bytes=4 * 4096) as acq:
        on_loan: set[int] = set()

        def work() -> int:
            commits = 0
            for turn in range(60):
                with acq.acquire(timeout=HANGS) as frame:
                    assert frame.index not in on_loan, "two threads have the same buffer"
                    on_loan.add(frame.index)
                    frame.array[:] = turn
                    assert (frame.array == turn).all()
                    on_loan.discard(frame.index)
                    if turn % 3:
                        frame.commit()
                        commits += 1
            return commits

        commits = together(*[work] * 8)
    assert acq.summary.frames_accepted == acq.summary.frames_written == sum(commits) == 8 * 40


def test_many_threads_on_one_loan(start: Start, tmp_path: Path) -> None:
    def attempt(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (sw.FrameError, BufferError) as error:
            return error

    def showing(frame: sw.Frame, show: Callable[[sw.Frame], npt.NDArray[Any]]) -> bool:
        array = attempt(lambda: show(frame))
        return isinstance(array, Exception) or array.__array_interface__["data"][0] == frame.address

    commits = 0
    with start() as acq:
        for name in range(25 * TIMES):
            frame = acq.acquire(timeout=HANGS)
            frame.array[:] = pixels(name)
            results = together(
                lambda frame=frame: attempt(frame.commit),
                lambda frame=frame: attempt(frame.commit),
                lambda frame=frame, name=name: attempt(frame.discard if name % 5 == 4 else frame.commit),
                lambda frame=frame: showing(frame, lambda frame: frame.array),
                lambda frame=frame: showing(frame, np.from_dlpack),
                lambda frame=frame: showing(frame, lambda frame: np.asarray(memoryview(frame))),
                lambda frame=frame: (repr(frame), frame.committed, frame.number, gc.collect()),
            )
            numbers = [number for number in results[:3] if isinstance(number, int)]
            assert numbers == ([frame.number] if frame.committed else []) and all(results[3:6])
            assert frame.committed or name % 5 == 4
            commits += frame.committed
        until(lambda: acq.stats.ring_free == acq.ring_frames)
    assert acq.summary.frames_accepted == commits
    names = [named(image) for image in written(tmp_path / "run.ome.zarr")]
    assert names == sorted(set(names)) and len(names) == commits


@pytest.mark.parametrize("waits", ["acquire", "append"])
def test_who_waits_gets_what_another_thread_was_the_last_to_use(start: Start, waits: str) -> None:
    with start() as acq:
        kept: queue.Queue[npt.NDArray[Any]] = queue.Queue()
        waiting = threading.Event()

        def camera() -> float:
            for name in range(acq.ring_frames):
                with acq.acquire(timeout=HANGS) as frame:
                    frame.array[:] = pixels(name)
                    kept.put(frame.array)
                    frame.commit()
            del frame
            until(lambda: acq.stats.frames_written == acq.ring_frames)
            assert acq.stats.ring_free == 0
            waiting.set()
            begun = time.monotonic()
            if waits == "append":
                acq.append(pixels(0), timeout=20)
            else:
                acq.acquire(timeout=20).discard()
            return time.monotonic() - begun

        def viewer() -> None:
            assert waiting.wait(HANGS)
            time.sleep(0.3)
            for name in range(acq.ring_frames):
                assert named(kept.get(timeout=HANGS)) == name

        waited, _ = together(camera, viewer)
        assert 0.1 < waited < 10
        until(lambda: acq.stats.ring_free == acq.ring_frames)


def test_arrays_outlive_frames_on_other_threads(start: Start, tmp_path: Path) -> None:
    with start(ring_bytes=1 << 18) as acq:
        shown: queue.Queue[tuple[int, npt.NDArray[Any]] | None] = queue.Queue()

        def camera(first: int) -> None:
            for name in range(first, first + 300):
                with acq.acquire(timeout=HANGS) as frame:
                    frame.array[:] = pixels(name)
                    if name % 4 == 0:
                        shown.put((name, frame.array[:]))
                    frame.commit()
            shown.put(None)

        def viewer() -> int:
            kept: list[tuple[int, npt.NDArray[Any]]] = []
            count, left = 0, 3
            while left:
                if (next_one := shown.get(timeout=HANGS)) is None:
                    left -= 1
                    continue
                kept.append(next_one)
                if len(kept) == 8:
                    # Buffers that were committed long ago, and that nobody else has got.
                    for name, array in kept:
                        assert named(array) == name
                    count += len(kept)
                    kept.clear()
            return count + len(kept)

        *_, count = together(*[lambda at=at: camera(1000 * at) for at in range(3)], viewer)
        assert count == 225
    names = [named(image) for image in written(tmp_path / "run.ome.zarr")]
    assert sorted(names) == sorted(name for at in range(3) for name in range(1000 * at, 1000 * at + 300))


def test_bytes_of_a_call_stay_together(start: Start, tmp_path: Path) -> None:
    length, count, threads = 150, 256, 4

    def work(acq: sw.Acquisition, thread: int) -> int:
        return sum(acq.append_bytes(np.full(length, thread << 12 | at, "u2"), timeout=HANGS) for at in range(count))

    with start(ring_bytes=3 * 4096) as acq:
        frames = sum(together(*[lambda at=at: work(acq, at) for at in range(threads)]))
        assert frames == threads * count * length // (FRAME[0] * FRAME[1])
        assert acq.pending_bytes == 0
    pieces = written(tmp_path / "run.ome.zarr").reshape(-1, length)
    assert (pieces == pieces[:, :1]).all(), "a piece is torn"
    came = pieces[:, 0].tolist()
    assert sorted(came) == sorted(thread << 12 | at for thread in range(threads) for at in range(count))
    for thread in range(threads):
        assert [piece & 0xFFF for piece in came if piece >> 12 == thread] == list(range(count))


def test_bytes_may_wait_no_longer_than_they_say(start: Start) -> None:
    with start() as acq:
        held = [acq.acquire() for _ in range(acq.ring_frames)]
        results: list[object] = []
        first = threading.Thread(target=lambda: results.append(acq.append_bytes(pixels(0), timeout=HANGS)))
        first.start()
        time.sleep(0.1)
        with pytest.raises(sw.RingFull):
            acq.append_bytes(pixels(1), timeout=0.05)
        for frame in held:
            frame.discard()
        first.join(HANGS)
        assert results == [1] and acq.append_bytes(pixels(2)) == 1


def test_runs_end_while_other_threads_use_them(start: Start) -> None:
    def use(call: Callable[[], object]) -> None:
        with contextlib.suppress(sw.EndedError):
            while True:
                call()

    def turn(at: int) -> None:
        acq = start(f"{at}.ome.zarr")
        summary, *_ = together(
            lambda: acq.finish(timeout=20),
            lambda: use(acq.c_table),
            lambda: use(acq.c_table),
            lambda: use(lambda: acq.append(pixels(at))),
            lambda: use(lambda: acq.append_bytes(bytes(1000))),
            lambda: use(lambda: acq.stats),
            acq.close,
        )
        assert summary is not None, "the run does not end"
        assert summary.frames_written == summary.frames_accepted and acq.pending_bytes == 0

    for at in range(25):
        turn(at)


def test_runs_begin_while_others_are_looked_through(start: Start) -> None:
    left = [3]

    def begins(thread: int) -> None:
        for at in range(15):
            start(f"{thread}-{at}.ome.zarr").abort()
        left[0] -= 1

    def exits() -> None:
        while left[0] > 0:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _acquisition._finish_all()

    together(*[lambda at=at: begins(at) for at in range(3)], exits)


def test_images_of_a_dataset_begin_and_end_on_many_threads(tmp_path: Path) -> None:
    dims = [sw.time(chunk=1, shard=4), sw.y(16), sw.x(24)]
    dataset = sw.create_dataset(tmp_path / "many.zarr")
    begun: list[sw.Acquisition] = []

    def work(thread: int) -> None:
        with contextlib.suppress(sw.EndedError):
            for at in range(100):
                acq = dataset.acquisition(f"{thread}-{at}", dims=dims, dtype="u2", ring_bytes=1 << 20, sync=False)
                begun.append(acq)
                acq.append(pixels(at))

    def ends() -> None:
        until(lambda: len(begun) > 8)
        dataset.finish()

    together(*[lambda at=at: work(at) for at in range(3)], ends)
    assert len(begun) == len(dataset.images) > 8
    for image in dataset.images.values():
        image.finish()
        assert image.summary.frames_accepted == image.summary.frames_written <= 1

    def refused() -> None:
        for _ in range(50):
            with pytest.raises(sw.EndedError):
                dataset.acquisition("late", dims=dims, dtype="u2")

    together(*[refused] * 6)


def test_attributes_are_those_that_are_stored(start: Start, tmp_path: Path) -> None:
    def work(acq: sw.Acquisition, thread: int) -> None:
        for at in range(100):
            acq.attributes["last"] = [thread, at]
            acq.attributes[f"{thread}-{at}"] = at
            for _ in range(20):
                assert {name for name in acq.attributes if name} >= {f"{thread}-{known}" for known in range(at)}

    with start() as acq:
        acq.append(pixels(0))
        together(*[lambda at=at: work(acq, at) for at in range(4)])
        told = dict(acq.attributes)
    assert len(told) == 401
    stored = json.loads((tmp_path / "run.ome.zarr" / "zarr.json").read_text())["attributes"]
    assert {name: stored.get(name) for name in told} == told


class Painter:
    """One that is used by one thread at a time, and not after its end; of which there is one at a time."""

    alive = 0
    ended = 0

    def __init__(self, *_: object) -> None:
        Painter.alive += 1
        assert Painter.alive == 1, "two bars at once"
        self._is_busy = False

    def paint(self, done: int, total: int | None, text: str) -> None:
        assert not self._is_busy and Painter.alive == 1
        self._is_busy = True
        time.sleep(1e-5)
        self._is_busy = False

    def close(self) -> None:
        assert not self._is_busy
        Painter.alive -= 1
        Painter.ended += 1


def test_a_bar_of_many_threads(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "_painter", Painter)
    with start(ring_bytes=1 << 18) as acq:
        bar = acq.progress(600)

        def work(first: int) -> None:
            for image in bar.of((pixels(first + at) for at in range(100)), every=1):
                acq.append(image)
                if first == 0:
                    bar.close()

        together(*[lambda at=at: work(1000 * at) for at in range(4)])
    assert Painter.alive == 0 and Painter.ended > 0
    assert acq.summary.frames_accepted == 400


def test_many_threads_read_one_array(start: Start, tmp_path: Path) -> None:
    with start() as acq:
        acq.append(np.stack([pixels(name) for name in range(40)]))
        view = acq.view()
    array = sw.open(tmp_path / "run.ome.zarr")

    def work(first: int) -> None:
        for at in range(80):
            number = (first + at) % 40
            assert named(array[number]) == named(view[number]) == number

    together(*[lambda at=at: work(at) for at in range(6)])


def test_a_stream_of_acquire_zarr_on_many_threads(tmp_path: Path) -> None:
    import shardwright.acquire_zarr as aqz

    sizes = (("t", aqz.DimensionType.TIME, 0), ("y", aqz.DimensionType.SPACE, 16), ("x", aqz.DimensionType.SPACE, 24))
    dims = [
        aqz.Dimension(name=name, kind=kind, array_size_px=size, chunk_size_px=size or 1, shard_size_chunks=1)
        for name, kind, size in sizes
    ]
    # Turned frames wait in the stream, not in the ring.
    array = aqz.ArraySettings(
        dimensions=dims, data_type=aqz.DataType.UINT16, output_key="a", storage_dimension_order=["t", "x", "y"]
    )
    stream = aqz.ZarrStream(aqz.StreamSettings(arrays=[array], store_path=str(tmp_path / "s.zarr")))

    def work(thread: int) -> None:
        for at in range(200):
            stream.append(np.full(FRAME[0] * FRAME[1] // 2, thread << 12 | at, "u2"))
            assert at % 50 or stream.get_current_memory_usage() >= 0

    together(*[lambda at=at: work(at) for at in range(4)])
    stream.close()
    halves = np.asarray(sw.open(tmp_path / "s.zarr" / "a")).transpose(0, 2, 1).reshape(-1, FRAME[0] * FRAME[1] // 2)
    assert (halves == halves[:, :1]).all()
    assert sorted(halves[:, 0].tolist()) == [thread << 12 | at for thread in range(4) for at in range(200)]
