"""Operations in parts: tasks that any process runs, twice if need be, and the result that is made of them."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Start, picture, stored

import shardwright as sw

#: What only tells how a dataset came to be.
ABOUT = ".shardwright.repack.json"


@pytest.fixture
def run(start: Start, tmp_path: Path) -> Path:
    """A finished run of twenty frames in five shards."""
    with start() as acq:
        for number in range(20):
            acq.append(picture(number))
    return tmp_path / "run.ome.zarr"


def files(dataset: Path) -> dict[str, bytes]:
    """What is in all files, but those that tell how they came to be."""
    found = (path for path in dataset.rglob("*") if path.is_file() and path.name != ABOUT)
    return {str(path.relative_to(dataset)): path.read_bytes() for path in found}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_tasks_make_what_repack_makes(run: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "tasks.jsonl", tmp_path / "out.ome.zarr"
    planned = sw.plan_repack(run, out, file, codec="zstd")
    assert planned.tasks == len(file.read_text().splitlines()) - 2
    tasks = sw.RunTasks(file, memory_bytes=1 << 20)
    assert tasks.tasks == len(tasks) == planned.tasks
    receipts = [tasks.run(index) for index in range(len(tasks))]
    assert {receipt.outcome for receipt in receipts} == {"written"}
    assert tasks.run(receipts[0].id).outcome == "found"
    told: list[tuple[int, int]] = []
    summary = sw.finish_tasks(file, progress=lambda done, total: told.append((done, total)))
    assert (summary.missing, summary.shards, summary.redone) == (0, len(tasks), 0)
    assert told[-1] == (len(tasks), len(tasks))
    assert tasks.run(0).outcome == "finished" and sw.finish_tasks(file).already_done
    sw.repack(run, tmp_path / "plain.ome.zarr", codec="zstd")
    assert files(out) == files(tmp_path / "plain.ome.zarr")
    np.testing.assert_array_equal(stored(out), np.stack([picture(number) for number in range(20)]))
    assert names(tmp_path) == {"run.ome.zarr", "out.ome.zarr", "plain.ome.zarr", "tasks.jsonl"}


def test_a_plan_is_written_once(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "tasks.jsonl"
    sw.plan_repack("run.ome.zarr", "out.ome.zarr", "tasks.jsonl", codec="zstd")
    once, stamp = file.read_bytes(), file.stat().st_mtime_ns
    assert str(run).encode() in once.splitlines()[0]
    sw.plan_repack(run, tmp_path / "out.ome.zarr", file, codec="zstd")
    assert file.stat().st_mtime_ns == stamp
    with pytest.raises(sw.ExistsError, match="another plan"):
        sw.plan_repack(run, "out.ome.zarr", file, codec="gzip")
    assert file.read_bytes() == once
    sw.plan_repack(run, "out.ome.zarr", file, overwrite=True, codec="gzip")
    assert file.read_bytes() != once
    with pytest.raises(sw.ConfigError, match="orders"):
        sw.plan_repack(run, "out.ome.zarr", "other.jsonl", orders="c")
    with pytest.raises(sw.NotFoundError):
        sw.plan_repack("none.ome.zarr", "out.ome.zarr", "other.jsonl")
    with pytest.raises(sw.NotFoundError):
        sw.plan_repack(run, "out.ome.zarr", "none/other.jsonl")
    assert names(tmp_path) == {"run.ome.zarr", "tasks.jsonl"}


def test_what_is_wrong_is_said(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    with pytest.raises(sw.NotFoundError):
        sw.RunTasks(file)
    file.write_text("[1, 2]\n")
    with pytest.raises(sw.UnsupportedError, match="plan"):
        sw.RunTasks(file)
    sw.plan_repack(run, tmp_path / "out.ome.zarr", file, overwrite=True, codec="zstd")
    tasks = sw.RunTasks(file)
    for wrong in (len(tasks), "0/c/9/9/9"):
        with pytest.raises(sw.NotFoundError, match="no task"):
            tasks.run(wrong)
    with pytest.raises(TypeError):
        tasks.run(1.5)  # type: ignore[arg-type]
    with pytest.raises(sw.ConfigError):
        sw.RunTasks(file, workers=1 << 20)
    with pytest.raises(TypeError, match="pickle"):
        __import__("pickle").dumps(tasks)


def test_outputs_that_are_gone_or_changed_are_named(run: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "tasks.jsonl", tmp_path / "out.ome.zarr"
    sw.plan_repack(run, out, file, codec="zstd")
    tasks = sw.RunTasks(file)
    ids = [tasks.run(index).id for index in range(len(tasks) - 1)]
    summary = sw.finish_tasks(file)
    assert summary.missing == 1 and not out.exists()
    last = tasks.run(len(tasks) - 1).id
    assert summary.missing_ids == [last]
    (staging,) = (path for path in tmp_path.iterdir() if path.name.startswith(".out"))
    made = {key: path for key in ids for path in staging.rglob("*") if path.as_posix().endswith("/" + key)}
    made[ids[1]].unlink()
    flipped = bytearray(made[ids[2]].read_bytes())
    flipped[len(flipped) // 3] ^= 4
    made[ids[2]].write_bytes(flipped)
    summary = sw.finish_tasks(file)
    assert (summary.missing, summary.missing_ids) == (2, [ids[1], ids[2]]) and not out.exists()
    again = sw.RunTasks(summary.missing_tasks)
    assert [again.run(index).outcome for index in range(len(again))] == ["written"] * 2
    assert sw.finish_tasks(file).missing == 0
    sw.repack(run, tmp_path / "plain.ome.zarr", codec="zstd")
    assert files(out) == files(tmp_path / "plain.ome.zarr")
    assert names(tmp_path) == {"run.ome.zarr", "out.ome.zarr", "plain.ome.zarr", "tasks.jsonl"}


RUN_ALL = """
import sys
import shardwright as sw
tasks = sw.RunTasks(sys.argv[1])
sys.stdin.read(1)
print(*[tasks.run(index).outcome for index in range(len(tasks))])
"""


def test_all_tasks_at_once_in_several_processes(run: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "tasks.jsonl", tmp_path / "out.ome.zarr"
    count = sw.plan_repack(run, out, file, codec="zstd").tasks
    call = [sys.executable, "-c", RUN_ALL, str(file)]
    processes = [subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        assert process.stdin
        process.stdin.write("x")
        process.stdin.flush()
    outcomes = [process.communicate()[0].split() for process in processes]
    assert all(len(each) == count and set(each) <= {"written", "found"} for each in outcomes)
    assert sw.finish_tasks(file).missing == 0
    sw.repack(run, tmp_path / "plain.ome.zarr", codec="zstd")
    assert files(out) == files(tmp_path / "plain.ome.zarr")
    assert names(tmp_path) == {"run.ome.zarr", "out.ome.zarr", "plain.ome.zarr", "tasks.jsonl"}


def test_other_threads_go_on_and_a_child_is_told(start: Start, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 999, (8, 512, 512), dtype="u2")
    with start(dims=[sw.time(chunk=1, shard=8), sw.y(512), sw.x(512)], ring_bytes=1 << 23) as acq:
        acq.append(noise)
    sw.plan_repack(tmp_path / "run.ome.zarr", tmp_path / "out.ome.zarr", tmp_path / "tasks.jsonl", codec=sw.zstd(12))
    tasks, done, count = sw.RunTasks(tmp_path / "tasks.jsonl"), threading.Event(), 0

    def spin() -> None:
        nonlocal count
        while not done.is_set():
            count += 1

    other = threading.Thread(target=spin)
    other.start()
    receipt: Any = tasks.run(0)
    done.set()
    other.join()
    assert receipt.outcome == "written" and count > 1000
    if (child := os.fork()) == 0:
        try:
            tasks.run(0)
        except sw.ForkedError:
            os._exit(errno.ESRCH)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == errno.ESRCH


def run_all(file: Path) -> None:
    """Runs all tasks, the last first, and those again that wait for others."""
    tasks, left = sw.RunTasks(file), list(range(len(sw.RunTasks(file))))
    while left:
        again = []
        for index in reversed(left):
            try:
                tasks.run(index)
            except sw.StorageError as error:
                assert error.errno == errno.EAGAIN and "not made yet" in str(error)
                again.insert(0, index)
        assert len(again) < len(left)
        left = again


def test_tasks_make_the_levels_that_pyramid_makes(run: Path, tmp_path: Path) -> None:
    file, plain = tmp_path / "tasks.jsonl", tmp_path / "plain.ome.zarr"
    shutil.copytree(run, plain)
    planned = sw.plan_pyramid(run, file, levels=2, method="median", sync=False)
    assert planned.tasks > 2
    with pytest.raises(sw.StorageError, match="not made yet"):
        sw.RunTasks(file).run(planned.tasks - 1)
    run_all(file)
    summary = sw.finish_tasks(file)
    assert summary.missing == 0 and not summary.already_done
    assert summary.report == sw.pyramid(plain, levels=2, method="median", sync=False)
    assert files(run) == files(plain)
    assert sw.finish_tasks(file).report.already_done and sw.RunTasks(file).run(0).outcome == "finished"
    with pytest.raises(sw.ExistsError):
        sw.plan_pyramid(run, tmp_path / "other.jsonl", levels=2, method="median")
    sw.plan_pyramid(run, file, levels=1, overwrite=True, overwrite_tasks=True)
    assert names(tmp_path) == {"run.ome.zarr", "plain.ome.zarr", "tasks.jsonl"}


def test_tasks_find_what_verify_finds(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    for _ in range(2):
        expected = sw.verify(run)
        planned = sw.plan_verify(run, file, overwrite_tasks=True)
        assert sw.finish_tasks(file).missing == planned.tasks > 2
        tasks = sw.RunTasks(file)
        assert {tasks.run(index).outcome for index in range(len(tasks))} == {"read"}
        summary = sw.finish_tasks(file)
        assert summary.shards == planned.tasks and summary.report == expected
        assert summary.report.is_sound == (expected.damage == 0)
        assert tasks.run(0).outcome == "finished"
        again = sw.finish_tasks(file)
        assert again.already_done and again.report == expected
        assert names(tmp_path) == {"run.ome.zarr", "tasks.jsonl", "tasks.finished.json"}
        # The same plan once more is a check once more.
        assert sw.plan_verify(run, file).tasks == sw.finish_tasks(file).missing
        damaged = run / "0" / "c" / "1" / "0" / "0"
        content = bytearray(damaged.read_bytes())
        content[len(content) // 2] ^= 1
        damaged.write_bytes(content)
    assert expected.damage > 0


def test_tasks_write_the_manifests_that_manifest_writes(run: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "tasks.jsonl", tmp_path / "run.ome.manifest.zarr"
    prefix = "s3://bucket/run.ome.zarr"
    sw.plan_manifest(run, None, file, url_prefix=prefix)
    run_all(file)
    summary = sw.finish_tasks(file)
    assert summary.report == sw.manifest(run, tmp_path / "plain.zarr", url_prefix=prefix)
    assert files(out) == files(tmp_path / "plain.zarr")
    with pytest.raises(sw.ExistsError):
        sw.plan_manifest(run, out, tmp_path / "other.jsonl")
    assert sw.finish_tasks(file).already_done
    assert names(tmp_path) == {"run.ome.zarr", out.name, "plain.zarr", "tasks.jsonl", "tasks.finished.json"}


def test_a_plan_in_the_way_is_named_with_all_that_it_has_left(run: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "tasks.jsonl", tmp_path / "out.ome.zarr"
    sw.plan_repack(run, out, file, codec="zstd")
    sw.RunTasks(file).run(0)
    assert sw.finish_tasks(file).missing > 0
    touched = run / "0" / "c" / "1" / "0" / "0"
    os.utime(touched)
    with pytest.raises(sw.ExistsError, match="another plan") as told:
        sw.plan_repack(run, out, file, codec="zstd")
    left = [file, tmp_path / ".out.ome.zarr.repack", tmp_path / "tasks.missing.jsonl"]
    assert f"remove {left[0]}, {left[1]} and {left[2]} to give it up" in str(told.value)
    file.unlink()
    sw.plan_repack(run, out, file, codec="zstd")
    with pytest.raises(sw.FormatError, match="holds shards of another plan") as refused:
        sw.RunTasks(file)
    assert str(left[1]) in str(refused.value) and "remove the folder to give it up" in str(refused.value)
    shutil.rmtree(left[1])
    run_all(file)
    assert sw.finish_tasks(file).missing == 0
    checks = tmp_path / "checks.jsonl"
    sw.plan_verify(run, checks)
    sw.RunTasks(checks).run(0)
    os.utime(touched)
    (answers,) = tmp_path.glob("answers-*")
    with pytest.raises(sw.ExistsError, match="another plan") as told:
        sw.plan_verify(run, checks)
    assert f"remove {checks} and {answers} to give it up" in str(told.value)


def test_no_file_of_tasks_is_written_into_its_dataset(run: Path, tmp_path: Path) -> None:
    within = run / "tasks.jsonl"
    with pytest.raises(sw.FormatError, match="lies in"):
        sw.plan_verify(run, within)
    with pytest.raises(sw.FormatError, match="lies in"):
        sw.plan_repack(run, tmp_path / "o.zarr", within)
    assert "tasks.jsonl" not in names(run) and names(tmp_path) == {"run.ome.zarr"}
