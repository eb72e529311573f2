"""Repacks as tasks, each a process: killed, stopped, run twice at once; and what a full disk or another source does."""

import os
import random
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
import zarr
from test_no_space import on_small_disk

ABOUT = ".shardwright.repack.json"
FRAMES = 24
CODEC = ["--codec", "zstd", "--level", "17"]


def contents(dataset):
    """All files, but the one that tells how the dataset came to be."""
    found = (path for path in dataset.rglob("*") if path.is_file() and path.name != ABOUT)
    return {str(path.relative_to(dataset)): path.read_bytes() for path in found}


@pytest.fixture
def plan(command, tool, tmp_path):
    """A dataset with a shard for each frame, the file of tasks that repack it, and what one call makes of it."""
    data = np.random.default_rng(0).integers(0, 99, (FRAMES, 256, 256), dtype="u2")
    zarr.create_array(tmp_path / "a.zarr", data=data, chunks=(1, 64, 256), shards=(1, 256, 256), compressors=None)
    tasks = tmp_path / "tasks.jsonl"
    with tasks.open("w") as file:
        call = [command, "plan", "repack", tmp_path / "a.zarr", tmp_path / "o.zarr", *CODEC]
        subprocess.run(call, stdout=file, check=True)
    tool("repack", tmp_path / "a.zarr", tmp_path / "plain.zarr", *CODEC)
    return tasks


def assert_finished(tool, tmp_path):
    """The result is there, is what one call makes, and nothing else is left."""
    tool("finish", tmp_path / "tasks.jsonl")
    assert contents(tmp_path / "o.zarr") == contents(tmp_path / "plain.zarr")
    assert {path.name for path in tmp_path.iterdir()} == {"a.zarr", "o.zarr", "plain.zarr", "tasks.jsonl"}
    assert "sound" in tool("verify", tmp_path / "o.zarr")


def begun(folder):
    """Files of shards that are being written."""
    return [path for path in folder.glob(".o.zarr.repack/**/*") if path.name.endswith(".partial")]


@pytest.mark.parametrize("finished", [False, True], ids=["before the end", "after the end"])
def test_a_process_that_was_stopped_goes_on_after_its_task_was_redone(command, tool, plan, tmp_path, finished):
    call = [command, "run-task", plan, "--range", f"0:{FRAMES}", "--json"]
    process = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not begun(tmp_path) and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGSTOP)
    try:
        assert begun(tmp_path), "it ended before it was stopped"
        tool("run-task", plan, "--range", f"0:{FRAMES}")
        if finished:
            assert_finished(tool, tmp_path)
    finally:
        process.send_signal(signal.SIGCONT)
    told = process.communicate()[1]
    # After the end, its own file may have gone. Whatever it says of that, the result is as it was, and nothing is left.
    assert process.returncode == 0 or finished, told
    assert_finished(tool, tmp_path)


def test_processes_that_are_killed(command, tool, plan, tmp_path):
    draw, kills = random.Random(3), int(os.environ.get("SHARDWRIGHT_KILLS", 6))
    for _ in range(kills):
        call = [command, "run-task", plan, "--range", f"0:{FRAMES}"]
        processes = [subprocess.Popen(call, stdout=subprocess.DEVNULL) for _ in range(2)]
        time.sleep(draw.random() * 0.5)
        for process in processes:
            process.kill()
            process.wait()
    tool("run-task", plan, "--range", f"0:{FRAMES}")
    assert_finished(tool, tmp_path)


def test_tasks_that_run_twice_at_once(command, tool, told, plan, tmp_path):
    for index in range(FRAMES):
        call = [command, "run-task", plan, "--index", str(index)]
        for process in [subprocess.Popen(call, stdout=subprocess.DEVNULL) for _ in range(2)]:
            assert process.wait() == 0
    assert_finished(tool, tmp_path)


def test_a_source_that_was_touched_is_refused(tool, told, plan, tmp_path):
    tool("run-task", plan, "--range", "0:3")
    touched = tmp_path / "a.zarr/c/5/0/0"
    os.utime(touched)
    index = [line for line in plan.read_text().splitlines() if '"c/5/0/0"' in line]
    assert len(index) == 1
    error = told("run-task", plan, "--id", "c/5/0/0", code=3)["error"]
    assert error["exit_code"] == 3 and str(touched) in error["message"]
    assert not list(tmp_path.glob(".o.zarr.repack/**/c/5/**/0")) and not begun(tmp_path)
    # Of a range, the others are made.
    assert "c/6/0/0: written" in tool("run-task", plan, "--range", f"3:{FRAMES}", code=3)
    tool("finish", plan, code=3)
    assert not (tmp_path / "o.zarr").exists()


def test_the_end_names_what_is_gone_or_changed(tool, told, plan, tmp_path):
    tool("run-task", plan, "--range", f"0:{FRAMES}")
    made = {path.parts[-3]: path for path in tmp_path.glob(".o.zarr.repack/tree/c/*/0/0")}
    made["4"].unlink()
    flipped = bytearray(made["9"].read_bytes())
    flipped[len(flipped) // 2] ^= 1
    made["9"].write_bytes(flipped)
    summary = told("finish", plan, code=1)
    assert summary["missing_ids"] == ["c/4/0/0", "c/9/0/0"] and not (tmp_path / "o.zarr").exists()
    missing = summary["missing_tasks"]
    assert missing == str(tmp_path / "tasks.missing.jsonl")
    tool("run-task", missing, "--range", "0:2")
    assert_finished(tool, tmp_path)


def test_a_full_disk_is_for_another_time(on_small_disk, command, plan, tmp_path):
    script = """
        "$SHARDWRIGHT" plan repack "$PLACE/a.zarr" "$DISK/o.zarr" --no-space-check > "$PLACE/small.jsonl"
        "$SHARDWRIGHT" run-task "$PLACE/small.jsonl" --range 0:24 > "$PLACE/said" 2> "$PLACE/told" || code=$?
        find "$DISK" -name '*.partial'
        exit $code
    """
    done = on_small_disk("1m", script)
    if "mount" in done.stderr:
        pytest.skip("not run: no file system can be mounted here")
    assert done.returncode == 75 and not done.stdout, done
    assert (tmp_path / "said").read_text().count("written") > 1


def planned(command, tasks, *words):
    with tasks.open("w") as file:
        subprocess.run([command, "plan", *words], stdout=file, check=True)
    return tasks


def test_a_check_by_tasks_tells_what_verify_tells(command, tool, told, plan, tmp_path):
    data, tasks = tmp_path / "a.zarr", tmp_path / "check.jsonl"
    shard = data / "c/5/0/0"
    for damaged, code in ((False, 0), (True, 3)):
        if damaged:
            shard.write_bytes(shard.read_bytes()[:-3])
        for expected, tell in ((told("verify", data, code=code), told), (tool("verify", data, code=code), tool)):
            planned(command, tasks, "verify", data)
            assert told("finish", tasks, code=1)["missing"] == FRAMES
            assert f"{FRAMES} of {FRAMES} shards are not read yet" in tool("finish", tasks, code=1)
            assert tool("run-task", tasks, "--range", f"0:{FRAMES}").count(": read\n") == FRAMES
            found = tell("finish", tasks, code=code)
            assert ({key: found[key] for key in expected} if tell is told else found) == expected
    planned(command, tasks, "verify", data)
    os.utime(shard)
    tool("run-task", tasks, "--id", "c/5/0/0", code=3)
    tool("finish", tasks, code=3)
    assert not list(tmp_path.glob("answers-*"))


def test_manifests_and_levels_by_tasks(command, tool, told, tmp_path):
    image, plain, tasks = tmp_path / "i.ome.zarr", tmp_path / "plain.ome.zarr", tmp_path / "tasks.jsonl"
    cut = ["--chunk", "1,32,32", "--shard", "4,64,64", "--no-sync"]
    tool("replay", "synthetic", image, "--camera", "256x200xu16", "--frames", "12", *cut)
    tool("manifest", image, tmp_path / "plain.zarr")
    planned(command, tasks, "manifest", image, tmp_path / "out.zarr")
    count = len(tasks.read_text().splitlines()) - 2
    tool("run-task", tasks, "--range", f"0:{count}")
    assert "chunks of" in tool("finish", tasks)
    assert contents(tmp_path / "out.zarr") == contents(tmp_path / "plain.zarr")
    shutil.copytree(image, plain)
    planned(command, tasks, "pyramid", image, "--levels", "2", "--no-sync")
    last = len(tasks.read_text().splitlines()) - 4
    error = told("run-task", tasks, "--index", last, code=75)["error"]
    assert "not made yet" in error["message"] and ".i.ome.zarr.pyramid" in error["message"]
    tool("run-task", tasks, "--range", f"0:{last + 1}")
    report = told("finish", tasks)
    expected = told("pyramid", plain, "--levels", "2", "--no-sync")
    beside = {"path", "seconds", "notes"}
    assert {name: report[name] for name in expected if name not in beside} == {
        name: value for name, value in expected.items() if name not in beside
    }
    assert contents(image) == contents(plain)
    assert "nothing to do" in tool("finish", tasks)
    assert "exists" in tool("plan", "pyramid", image, "--levels", "1", code=1)


def test_shards_of_another_plan_are_named_once_and_given_up_by_hand(command, plan, tmp_path):
    def called(*words):
        done = subprocess.run([command, *words], capture_output=True, text=True)
        return done.returncode, done.stderr.splitlines()

    old = plan.rename(tmp_path / "old.jsonl")
    assert called("run-task", old, "--index", "0") == (0, [])
    os.utime(tmp_path / "a.zarr/c/5/0/0")
    words = ["repack", tmp_path / "a.zarr", tmp_path / "o.zarr", *CODEC]
    planned(command, plan, *words)
    folder = tmp_path / ".o.zarr.repack"
    for call in (["run-task", plan, "--range", f"0:{FRAMES}"], ["finish", plan]):
        code, (said,) = called(*call)
        assert code == 3 and said.startswith(f"error: {folder}: holds shards of another plan, "), said
        assert said.endswith(f"({old}): `finish` that, or remove the folder to give it up"), said
    assert any(str(folder) in line for line in called("plan", *words)[1])
    old.unlink()
    code, (said,) = called("run-task", plan, "--index", "0")
    assert code == 3 and said.endswith("has gone or is another by now): remove the folder to give it up"), said
    shutil.rmtree(folder)
    assert called("run-task", plan, "--range", f"0:{FRAMES}") == (0, [])
    assert called("finish", plan) == (0, [])


def test_a_plan_makes_nothing_and_is_not_written_into_its_dataset(command, plan, tmp_path):
    within = tmp_path / "a.zarr/tasks.jsonl"
    for words in (["repack", tmp_path / "a.zarr", tmp_path / "x/y/o.zarr"], ["verify", tmp_path / "a.zarr"]):
        with within.open("w") as file:
            done = subprocess.run([command, "plan", *words], stdout=file, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 3 and f"{within}: lies in {tmp_path / 'a.zarr'}" in done.stderr, done
        assert within.read_text() == ""
        within.unlink()
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("operation", ["repack", "verify", "manifest"])
def test_a_file_of_tasks_is_named_from_its_own_folder(command, plan, tmp_path, operation):
    words = {"repack": [tmp_path / "a.zarr", tmp_path / "o.zarr", *CODEC]}.get(operation, [tmp_path / "a.zarr"])
    planned(command, plan, operation, *words)
    for call in (["run-task", plan.name, "--range", f"0:{FRAMES}", "-q"], ["finish", plan.name]):
        done = subprocess.run([command, *call], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("answers-*")) and not list(tmp_path.glob(".o.zarr.repack"))


def test_the_end_of_tasks_leaves_what_one_call_has_left(command, tool, plan, tmp_path):
    folder = tmp_path / ".o.zarr.repack"
    call = subprocess.Popen([command, "repack", tmp_path / "a.zarr", tmp_path / "o.zarr", *CODEC])
    while not (folder / "journal.json").exists() and call.poll() is None:
        time.sleep(0.001)
    call.kill()
    call.wait()
    assert folder.exists(), "it ended before it was killed"
    done = subprocess.run([command, "finish", plan], capture_output=True, text=True)
    assert done.returncode == 3 and "holds what one call makes, or has left" in done.stderr, done
    tool("repack", tmp_path / "a.zarr", tmp_path / "o.zarr", *CODEC)
    assert contents(tmp_path / "o.zarr") == contents(tmp_path / "plain.zarr")
