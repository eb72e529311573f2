"""Runs leave nothing behind: memory, threads, descriptors."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import numpy as np
from conftest import Start, picture

CYCLES = int(os.environ.get("SHARDWRIGHT_PYTHON_CYCLES", "60"))


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_many_runs_leave_nothing_behind(start: Start) -> None:
    def cycle() -> None:
        with start(overwrite=True) as acq:
            acq.append(picture(0))
            with acq.acquire() as frame:
                np.asarray(frame)[:] = picture(1)
                frame.commit()
            with acq.acquire() as frame:
                frame.array[:] = 1
            acq.view()[-1]
            acq.c_table()
            acq.attributes["a"] = 1

    # The allocator, rayon and the first of everything.
    for _ in range(20):
        cycle()
    gc.collect()
    before = resident(), threads(), descriptors()
    for _ in range(CYCLES):
        cycle()
    gc.collect()
    after = resident(), threads(), descriptors()
    assert after[0] - before[0] < 8 << 20
    # A thread that has done its work may still be leaving.
    assert after[1] <= before[1] + 1 and after[2] <= before[2]


def test_loans_on_many_threads(start: Start) -> None:
    with start(ring_bytes=1 << 18) as acq:
        kept = []
        lock = threading.Lock()

        def work() -> None:
            for number in range(200):
                with acq.acquire(timeout=20) as frame:
                    array = frame.array
                    array[:] = number
                    if number % 3:
                        frame.commit()
                    if number % 50 == 0:
                        with lock:
                            kept.append((array, number))

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert len(kept) == 16
        assert all((array == number).all() for array, number in kept)
        kept.clear()
    assert acq.summary.frames_missing == 0
