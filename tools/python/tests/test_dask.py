"""Tasks on a cluster of processes whose workers are killed, and arrays that dask reads."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Start, picture
from test_tasks import files, names

import shardwright as sw
import shardwright.dask

distributed = pytest.importorskip("distributed", reason="not run: dask.distributed is not installed")

FRAMES = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two processes of two threads each."""
    with distributed.LocalCluster(2, threads_per_worker=2, dashboard_address=None, silence_logs=50) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    with distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def run(start: Start, tmp_path: Path) -> Path:
    """A finished run with a shard for each frame, each of which takes some milliseconds to compress."""
    dims = [sw.time(chunk=1, shard=1), sw.y(128), sw.x(128)]
    noise = np.random.default_rng(0).integers(0, 99, (FRAMES, 128, 128), dtype="u2")
    with start(dims=dims, ring_bytes=1 << 22) as acq:
        acq.append(noise)
    return tmp_path / "run.ome.zarr"


@pytest.fixture
def plain(run: Path, tmp_path: Path) -> Callable[[], dict[str, bytes]]:
    """What one call makes."""

    def make() -> dict[str, bytes]:
        sw.repack(run, tmp_path / "plain.ome.zarr", codec=sw.zstd(12), sync=False)
        return files(tmp_path / "plain.ome.zarr")

    return make


def planned(run: Path, **options: Any) -> Path:
    file = run.parent / "tasks.jsonl"
    sw.plan_repack(run, run.parent / "out.ome.zarr", file, codec=sw.zstd(12), sync=False, **options)
    return file


def test_one_call(client: Any, run: Path, tmp_path: Path, plain: Callable[[], dict[str, bytes]]) -> None:
    told: list[tuple[int, int]] = []
    out = tmp_path / "out.ome.zarr"
    options: dict[str, Any] = {"codec": sw.zstd(12), "sync": False}
    result = shardwright.dask.repack(client, run, out, progress=lambda *at: told.append(at), **options)
    assert result.done == result.tasks == len(result.receipts) and not result.failed
    assert result.outcomes == {"written": result.tasks}
    assert told == [(at + 1, result.tasks) for at in range(result.tasks)]
    assert result.summary is not None and result.summary.shards == result.tasks and result.summary.redone == 0
    assert files(out) == plain()
    assert names(tmp_path) == {"run.ome.zarr", "out.ome.zarr", "plain.ome.zarr"}
    with pytest.raises(sw.ExistsError, match="use it"):
        shardwright.dask.repack(client, run, out, **options)
    # Of the bytes of our arrays, nothing has gone through the scheduler; nothing of ours is left there.
    assert not client.who_has() or not any("shardwright" in str(key) for key in client.who_has())


def test_workers_that_are_killed(
    cluster: Any, client: Any, run: Path, tmp_path: Path, plain: Callable[[], dict[str, bytes]]
) -> None:
    file, kills, done = planned(run), 0, threading.Event()

    def kill() -> None:
        nonlocal kills
        chosen = random.Random(5)
        while not done.wait(0.3):
            processes = [nanny.pid for nanny in list(cluster.workers.values()) if nanny.pid]
            if processes and kills < 8:
                os.kill(chosen.choice(processes), signal.SIGKILL)
                kills += 1

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        result = shardwright.dask.run(client, file, retries=20)
    finally:
        done.set()
        thread.join()
    assert not result.failed and result.done == result.tasks and kills > 0
    assert set(result.outcomes) <= {"written", "found"}
    assert sw.finish_tasks(file).missing == 0
    assert files(tmp_path / "out.ome.zarr") == plain()
    assert names(tmp_path) == {"run.ome.zarr", "out.ome.zarr", "plain.ome.zarr", "tasks.jsonl"}


def test_tasks_that_the_scheduler_gives_up_are_submitted_anew(
    cluster: Any, client: Any, run: Path, tmp_path: Path
) -> None:
    """With no failure allowed, every kill makes the scheduler give up what was on the worker."""
    file, before = planned(run), cluster.scheduler.allowed_failures
    killed = 0

    def kill(done: int, tasks: int) -> None:
        nonlocal killed
        if done in (10, 40):
            os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
            killed += 1

    cluster.scheduler.allowed_failures = 0
    try:
        result = shardwright.dask.run(client, file, progress=kill)
        assert killed == 2 and not result.failed and result.done == result.tasks
    finally:
        cluster.scheduler.allowed_failures = before
    assert sw.finish_tasks(file).missing == 0


def test_a_scheduler_that_is_killed(
    client: Any, run: Path, tmp_path: Path, plain: Callable[[], dict[str, bytes]]
) -> None:
    file, known = planned(run), tmp_path / "scheduler.json"
    module = [sys.executable, "-m"]
    words = ["--scheduler-file", str(known), "--no-dashboard"]
    scheduler = subprocess.Popen([*module, "distributed.cli.dask_scheduler", "--port", "0", *words])
    worker = subprocess.Popen([*module, "distributed.cli.dask_worker", "--no-nanny", *words])

    def kill(done: int, tasks: int) -> None:
        if done == 20:
            scheduler.kill()

    try:
        while not known.exists():
            time.sleep(0.1)
        with distributed.Client(scheduler_file=str(known), timeout=5, set_as_default=False) as other:
            with pytest.raises(Exception, match=r"clos|cancel"):
                result = shardwright.dask.run(other, file, progress=kill)
                raise AssertionError(result.failed)
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    known.unlink()
    result = shardwright.dask.run(client, file)
    assert not result.failed and result.outcomes["found"] >= 20
    assert sw.finish_tasks(file).redone == 0
    assert files(tmp_path / "out.ome.zarr") == plain()


def test_two_calls_at_once(cluster: Any, client: Any, run: Path, plain: Callable[[], dict[str, bytes]]) -> None:
    """On one cluster they share the calls; elsewhere, each task runs twice at the same time."""
    file, results = planned(run), []

    def call() -> None:
        with distributed.Client(cluster, set_as_default=False) as other:
            results.append(shardwright.dask.run(other, file))

    def beside() -> None:
        subprocess.run([sys.executable, "-c", BESIDE, str(file)], check=True)

    threads = [threading.Thread(target=work) for work in (call, call, beside)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(result.done, result.failed) for result in results] == [(results[0].tasks, [])] * 2
    assert sw.finish_tasks(file).missing == 0
    assert files(run.parent / "out.ome.zarr") == plain()
    assert names(run.parent) == {"run.ome.zarr", "out.ome.zarr", "plain.ome.zarr", "tasks.jsonl"}


BESIDE = """
import sys
import shardwright as sw
tasks = sw.RunTasks(sys.argv[1])
for index in range(len(tasks)):
    assert tasks.run(index).outcome in ("written", "found")
"""


def test_a_source_that_is_touched_midway(client: Any, run: Path, tmp_path: Path) -> None:
    source, out = run / "0" / "c" / "99" / "0" / "0", tmp_path / "out.ome.zarr"
    file = planned(run)

    def touch(done: int, tasks: int) -> None:
        if done == 1:
            os.utime(source)

    result = shardwright.dask.run(client, file, window=4, progress=touch)
    ((key, error),) = result.failed
    assert key == "0/c/99/0/0" and isinstance(error, sw.FormatError) and "plan" in str(error)
    assert result.done == result.tasks - 1 and not out.exists()
    with pytest.raises(sw.FormatError, match="plan"):
        sw.finish_tasks(file)
    assert not out.exists()


def test_one_call_that_fails(client: Any, run: Path, tmp_path: Path) -> None:
    damaged, out = run / "0" / "c" / "7" / "0" / "0", tmp_path / "out.ome.zarr"
    content = bytearray(damaged.read_bytes())
    content[1000] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(sw.TasksFailed, match=f"1 of .* 0/c/7/0/0.*{out.name}.tasks.jsonl") as raised:
        shardwright.dask.repack(client, run, out, codec=sw.zstd(12), sync=False)
    result = raised.value.result
    assert [key for key, _ in result.failed] == ["0/c/7/0/0"] and result.done == result.tasks - 1
    assert not out.exists() and f"{out.name}.tasks.jsonl" in names(tmp_path)


def test_errors_that_may_pass_are_tried_again(client: Any, run: Path, tmp_path: Path) -> None:
    file = planned(run)
    # The folder of the results can't be made where a file is.
    staging = tmp_path / ".out.ome.zarr.repack"
    staging.write_text("in the way")
    threading.Timer(1.0, lambda: (staging.unlink(), None)).start()
    result = shardwright.dask.run(client, file, retries=0)
    assert result.failed and all(isinstance(error, sw.StorageError) for _, error in result.failed)
    time.sleep(1.5)
    assert not shardwright.dask.run(client, file).failed
    assert sw.finish_tasks(file).missing == 0


def test_levels_checks_and_manifests(client: Any, run: Path, tmp_path: Path) -> None:
    plain, told = tmp_path / "plain.ome.zarr", []
    shutil.copytree(run, plain)
    result = shardwright.dask.pyramid(client, run, levels=3, sync=False, progress=lambda *at: told.append(at))
    assert result.done == result.tasks == len(told) and set(result.outcomes) == {"written"}
    # No task of a level has begun before those of the level before had ended.
    levels = [receipt["id"].split("/")[0] for receipt in result.receipts]
    assert levels == sorted(levels) and set(levels) == {"1", "2", "3"}
    assert result.summary is not None
    assert result.summary.report == sw.pyramid(plain, levels=3, sync=False)
    assert files(run) == files(plain)
    result = shardwright.dask.verify(client, run)
    assert result.outcomes == {"read": result.tasks} and result.tasks >= FRAMES
    assert result.summary is not None and result.summary.report == sw.verify(run)
    assert result.summary.report.is_sound
    result = shardwright.dask.manifest(client, run, tmp_path / "out.zarr", tasks=tmp_path / "tasks.jsonl")
    assert result.summary is not None
    assert result.summary.report == sw.manifest(run, tmp_path / "plain.zarr")
    assert files(tmp_path / "out.zarr") == files(tmp_path / "plain.zarr")
    datasets = {"run.ome.zarr", "plain.ome.zarr", "out.zarr", "plain.zarr"}
    assert names(tmp_path) == {*datasets, "tasks.jsonl", "tasks.finished.json"}


def test_a_level_that_fails_lets_no_other_begin(client: Any, run: Path, tmp_path: Path) -> None:
    damaged = run / "0" / "c" / "7" / "0" / "0"
    content = bytearray(damaged.read_bytes())
    content[1000] ^= 1
    damaged.write_bytes(content)
    before = files(run)
    with pytest.raises(sw.TasksFailed, match=f"1 of .* 1/c/7/0/0.*{run.name}.pyramid.jsonl") as raised:
        shardwright.dask.pyramid(client, run, levels=2, sync=False)
    result = raised.value.result
    assert [key for key, _ in result.failed] == ["1/c/7/0/0"] and result.done == FRAMES - 1
    assert {receipt["id"].split("/")[0] for receipt in result.receipts} == {"1"}
    assert files(run) == before
    report = shardwright.dask.verify(client, run).summary
    assert report is not None and report.report == sw.verify(run) and report.report.damage == 1


def test_arrays_are_read_shard_by_shard(client: Any, start: Start, tmp_path: Path) -> None:
    with start() as acq:
        for number in range(10):
            acq.append(picture(number))
    want = np.stack([picture(number) for number in range(10)])
    array = shardwright.dask.open(tmp_path / "run.ome.zarr")
    assert array.chunks == ((4, 4, 2), (16,), (24,)) and array.dtype == np.uint16
    np.testing.assert_array_equal(array.compute(), want)
    np.testing.assert_array_equal(array[7::-2, 3, [1, 5]].compute(), want[7::-2, 3, [1, 5]])
    np.testing.assert_array_equal(array.max(axis=0).compute(scheduler="threads"), want.max(0))
    frames = shardwright.dask.open(tmp_path / "run.ome.zarr" / "records" / "frame_number")
    assert frames.compute().tolist() == list(range(10))


def test_what_is_wrong_is_said(client: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(sw.ConfigError, match="window"):
        shardwright.dask.run(client, planned(run), window=0)
    with pytest.raises(sw.NotFoundError):
        shardwright.dask.run(client, tmp_path / "none.jsonl")
    with monkeypatch.context() as patched:
        patched.setattr(type(client), "asynchronous", True)
        with pytest.raises(sw.ConfigError, match="asynchronous"):
            shardwright.dask.run(client, run.parent / "tasks.jsonl")
    for module, call in {"distributed": "run(None, 'x')", "dask.array": "open('x')"}.items():
        hide = f"import sys; sys.modules[{module!r}] = None; import shardwright.dask; shardwright.dask.{call}"
        done = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True)
        assert f"ImportError: shardwright.dask needs {module}: pip install" in done.stderr


def test_calls_that_run_no_task_leave_no_file_of_tasks(client: Any, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.ome.zarr"
    file = planned(run)
    sw.RunTasks(file).run(0)
    with pytest.raises(sw.FormatError, match="holds shards of another plan") as refused:
        shardwright.dask.repack(client, run, out, codec="zstd")
    assert f"({file}): `finish` that, or remove the folder to give it up" in str(refused.value)
    with pytest.raises(sw.ConfigError, match="window"):
        shardwright.dask.verify(client, run, window=0)
    assert names(tmp_path) == {"run.ome.zarr", "tasks.jsonl", ".out.ome.zarr.repack"}
    shutil.rmtree(tmp_path / ".out.ome.zarr.repack")
    # One that some tasks of were run stays, and the error says so.
    with pytest.raises(RuntimeError, match="enough") as stopped:
        shardwright.dask.repack(client, run, out, codec="zstd", progress=stop_at_20)
    left = tmp_path / "out.ome.zarr.tasks.jsonl"
    assert left.exists() and any(str(left) in note for note in stopped.value.__notes__)
    os.utime(run / "0" / "c" / "100" / "0" / "0")
    with pytest.raises(sw.ExistsError, match="another plan") as told:
        shardwright.dask.repack(client, run, out, codec="zstd")
    assert f"remove {left} and {tmp_path / '.out.ome.zarr.repack'} to give it up" in str(told.value)


def stop_at_20(done: int, tasks: int) -> None:
    if done == 20:
        raise RuntimeError("enough")
