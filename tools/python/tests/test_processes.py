"""What happens to a run when its process is interrupted, forks or ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import Start, picture, stored

import shardwright as sw

HEAD = """
import os, signal, sys, threading, time
import numpy as np
import shardwright as sw
dims = [sw.time(chunk=1, shard=4), sw.y(16), sw.x(24)]
acq = sw.create(sys.argv[1], dims=dims, dtype="u2", codec="none", ring_bytes=1 << 16, sync=False)
acq.append(np.ones((16, 24), "u2"))
"""


def run(path: Path, code: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that has begun an acquisition."""
    command = [sys.executable, *options, "-c", HEAD + textwrap.dedent(code), str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize("wait", ["acquire", "append", "finish"])
def test_ctrl_c_ends_every_wait(start: Start, wait: str) -> None:
    acq = start()
    held = [acq.acquire() for _ in range(acq.ring_frames)]
    calls = {
        "acquire": acq.acquire,
        "append": lambda: acq.append(picture(0)),
        "finish": lambda: (acq.append(picture(0), timeout=60), None),
    }
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        calls[wait]()
    assert time.monotonic() - began < 20
    timer.join()
    for frame in held:
        frame.discard()
    assert acq.append(picture(1)) == 1
    assert acq.finish() is not None


def test_ctrl_c_finishes_a_run_in_a_block(tmp_path: Path) -> None:
    code = """
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with acq:
        while True:
            acq.append(np.ones((16, 24), "u2"))
    """
    ended = run(tmp_path / "run.ome.zarr", code)
    assert "KeyboardInterrupt" in ended.stderr
    got = stored(tmp_path / "run.ome.zarr")
    assert len(got) > 1 and (got == 1).all()


def test_other_threads_go_on_while_one_waits(start: Start) -> None:
    with start() as acq:
        held = [acq.acquire() for _ in range(acq.ring_frames)]
        waiting = threading.Thread(target=lambda: acq.append(picture(0)))
        waiting.start()
        count, until = 0, time.monotonic() + 0.3
        while time.monotonic() < until:
            count += 1
        assert count > 1000
        assert waiting.is_alive()
        for frame in held:
            frame.discard()
        waiting.join()
    assert acq.summary.frames_written == 1


def test_closing_wakes_those_who_wait(start: Start) -> None:
    acq = start()
    held = [acq.acquire() for _ in range(acq.ring_frames)]
    said: list[object] = []

    def wait() -> None:
        try:
            acq.acquire()
        except sw.EndedError as error:
            said.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.1)
    acq.finish()
    waiting.join(20)
    assert len(said) == 1
    del held


def test_an_open_run_is_finished_at_exit(tmp_path: Path) -> None:
    ended = run(tmp_path / "run.ome.zarr", "keep = acq", "-W", "always")
    assert ended.returncode == 0, ended.stderr
    assert "ResourceWarning" in ended.stderr and "not finished" in ended.stderr
    assert sw.verify(tmp_path / "run.ome.zarr").is_sound
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), np.ones((1, 16, 24)))
    assert sw.info(tmp_path / "run.ome.zarr").complete


@pytest.mark.parametrize(
    "holds",
    [
        "frame = acq.acquire(); array = frame.array; sys.frame = frame",
        "sys.array = acq.acquire().array",
        "threading.Thread(target=lambda: [acq.acquire() for _ in range(1000)], daemon=True).start(); time.sleep(0.2)",
        "import builtins; builtins.acq = acq; del acq",
    ],
)
def test_no_exit_hangs(tmp_path: Path, holds: str) -> None:
    ended = run(tmp_path / "run.ome.zarr", holds)
    assert ended.returncode == 0, ended.stderr
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr")[0], np.ones((16, 24)))


def test_handles_of_a_forked_child_are_errors(tmp_path: Path) -> None:
    code = """
    frame = acq.acquire()
    array = frame.array
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (acq.acquire, lambda: acq.append(np.ones((16, 24), "u2")), acq.finish, frame.commit,
                     lambda: acq.stats, lambda: frame.array, frame.discard, acq.abort):
            try:
                call()
            except sw.ForkedError:
                refused += 1
        del frame, acq, array
        import gc; gc.collect()
        sys.exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 8
    array[:] = 5
    frame.commit()
    print(acq.finish().frames_written)
    """
    ended = run(tmp_path / "run.ome.zarr", code)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "2\n", ended.stderr
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr")[1], np.full((16, 24), 5))


def test_a_killed_run_is_recovered(tmp_path: Path) -> None:
    code = """
    for _ in range(9):
        acq.append(np.ones((16, 24), "u2"))
    while acq.stats.frames_written < 10:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    assert run(tmp_path / "run.ome.zarr", code).returncode == -signal.SIGKILL
    assert not sw.info(tmp_path / "run.ome.zarr").complete
    sw.recover(tmp_path / "run.ome.zarr", apply=True)
    assert sw.verify(tmp_path / "run.ome.zarr").is_sound
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), np.ones((10, 16, 24)))
