"""The end of tasks of each operation: called twice, killed at any call of the system, stopped; and what others put in
the way."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest
from test_tasks import contents, planned

OPERATIONS = ["repack", "verify", "pyramid", "manifest"]
#: Calls that change what is on the disk, before each of which a process may be killed.
CHANGES = "mkdir,rmdir,unlink,unlinkat,rename,renameat2,link,linkat,fsync,fdatasync,ftruncate"
FINISHED = "tasks.finished.json"


class Work:
    """An image, the tasks of an operation, and what the operation makes in one call."""

    def __init__(self, command, folder, operation):
        self.command, self.operation, self.folder = command, operation, folder / "work"
        self.image, self.out, self.tasks = (self.folder / name for name in ("i.ome.zarr", "o.zarr", "tasks.jsonl"))
        self.folder.mkdir()
        cut = ["--chunk", "1,32,32", "--shard", "4,64,64", "--no-sync"]
        self.tool("replay", "synthetic", self.image, "--camera", "128x96xu16", "--frames", "8", *cut)
        planned(command, self.tasks, *self.words(self.image, self.out))
        self.count = sum('"task":' in line for line in self.tasks.read_text().splitlines())
        plain, out = folder / "plain.ome.zarr", folder / "plain.zarr"
        shutil.copytree(self.image, plain)
        said = self.tool(*self.words(self.image if operation == "verify" else plain, out))
        self.expected = {"repack": out, "pyramid": plain, "manifest": out}.get(operation)
        self.expected = said if self.expected is None else contents(self.expected)
        self.saved = folder / "saved"
        self.save()

    def words(self, image, out):
        urls = ["--url-prefix", "s3://bucket/i.ome.zarr"]
        return {
            "repack": ["repack", image, out, "--codec", "zstd"],
            "verify": ["verify", image],
            "pyramid": ["pyramid", image, "--levels", "2"],
            "manifest": ["manifest", image, out, *urls],
        }[self.operation]

    def save(self):
        shutil.rmtree(self.saved, ignore_errors=True)
        subprocess.run(["cp", "-a", self.folder, self.saved], check=True)

    def restore(self):
        shutil.rmtree(self.folder)
        subprocess.run(["cp", "-a", self.saved, self.folder], check=True)

    def call(self, *words, code=0, before=()):
        done = subprocess.run([*before, self.command, *words], capture_output=True, text=True)
        assert code is None or done.returncode == code, (words, done)
        return done

    def tool(self, *words, code=0):
        return self.call(*words, code=code).stdout

    def run_all(self, tasks=None, code=0):
        return self.tool("run-task", tasks or self.tasks, "--range", f"0:{self.count}", code=code)

    def staging(self):
        return self.folder / {"repack": ".o.zarr.repack", "pyramid": ".i.ome.zarr.pyramid"}[self.operation]

    def made(self):
        """What is there of the result, or was told at the end."""
        if self.operation == "verify":
            return self.tool("finish", self.tasks)
        return contents(self.image if self.operation == "pyramid" else self.out)

    def assert_finished(self):
        """The result is there and that of one call, however often it is finished, and nothing else is left."""
        before = self.made()
        for _ in range(2):
            self.tool("finish", self.tasks)
            assert self.made() == before == self.expected
            left = {"i.ome.zarr", "tasks.jsonl"}
            left |= {"repack": {"o.zarr"}, "manifest": {"o.zarr", FINISHED}, "verify": {FINISHED}}.get(
                self.operation, set()
            )
            assert {path.name for path in self.folder.iterdir()} == left


@pytest.fixture
def work(command, tmp_path, operation):
    return Work(command, tmp_path, operation)


@pytest.fixture(scope="session")
def strace():
    """Leads a command that is stopped or killed before calls of the system."""
    probe = ["strace", "-qq", "-o", "/dev/null", "true"]
    if not shutil.which("strace") or subprocess.run(probe, capture_output=True).returncode != 0:
        pytest.skip("not run: strace is not there, or may not look at processes")

    def led(log, calls, how=""):
        inject = ["-e", f"inject={calls}:{how}"] if how else []
        return ["strace", "-f", "-q", "-o", str(log), "-e", f"trace={calls}", *inject]

    return led


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_finished_twice_is_told_twice(work):
    assert "missing" in work.tool("finish", work.tasks, code=1)
    work.run_all()
    first = work.call("finish", work.tasks)
    again = work.call("finish", work.tasks)
    if work.operation == "verify":
        assert again.stdout == first.stdout == work.expected and "was finished before" in again.stderr
    else:
        assert "nothing to do" in again.stdout
    # Nor is a task run again.
    assert work.run_all().count(": is in the result") == work.count
    work.assert_finished()


@pytest.mark.parametrize("operation", ["verify"])
def test_damage_is_told_twice_and_a_new_plan_is_a_new_check(work, told):
    shard = work.image / "0/c/1/0/0"
    shard.write_bytes(shard.read_bytes()[:-3])
    expected = told("verify", work.image, code=3)
    planned(work.command, work.tasks, "verify", work.image)
    work.run_all()
    for already_done in [False, True, True]:
        found = told("finish", work.tasks, code=3)
        assert {key: found[key] for key in expected} == expected
        assert (found["already_done"], found["missing"], found["tasks"]) == (already_done, 0, work.count)
    # Another call of the same plan reads everything anew: bytes may have changed whose file seems to be the same.
    time.sleep(0.01)
    planned(work.command, work.tasks, "verify", work.image)
    assert told("finish", work.tasks, code=1)["missing"] == work.count
    assert work.run_all().count(": read\n") == work.count
    assert told("finish", work.tasks, code=3)["damage"] == expected["damage"]
    # What was told of another dataset is told no more.
    os.utime(shard)
    assert "planned" in work.call("finish", work.tasks, code=3).stderr


@pytest.mark.parametrize("operation", ["manifest"])
def test_manifests_of_others_are_refused(work):
    work.run_all()
    shutil.copytree(work.image, work.folder / "other")
    work.tool("manifest", work.folder / "other", work.out)
    assert "it is not what the tasks make; remove it" in work.call("finish", work.tasks, code=1).stderr
    shutil.rmtree(work.out)
    shutil.rmtree(work.folder / "other")
    work.tool("finish", work.tasks)
    kerchunk = work.out / "kerchunk.json"
    text = kerchunk.read_text()
    kerchunk.write_text(text.replace("bucket", "BUCKET"))
    assert "it is not what the tasks make; remove it" in work.call("finish", work.tasks, code=1).stderr
    kerchunk.write_text(text)
    work.assert_finished()
    # Where it has gone, it is made again.
    shutil.rmtree(work.out)
    work.tool("finish", work.tasks, code=1)
    work.run_all()
    assert "chunks of" in work.tool("finish", work.tasks)
    work.assert_finished()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_end_that_is_killed_ends_when_it_is_called_again(work, strace, tmp_path):
    work.run_all()
    work.save()
    log, finish = tmp_path / "log", ["finish", work.tasks, "--workers", "1"]
    work.call(*finish, before=strace(log, CHANGES))
    count = len(log.read_text().splitlines())
    # All of the last ones, and some of the others.
    for at in [*range(1, count - 10, 9), *range(max(count - 10, 1), count + 1)]:
        work.restore()
        done = work.call(*finish, code=None, before=strace(log, CHANGES, f"signal=KILL:when={at}"))
        assert done.returncode in (0, -9), done
        said = work.call(*finish, code=None)
        assert said.returncode == 0, (at, log.read_text().splitlines()[-3:], said)
        work.assert_finished()


def stopped(work, strace, log, calls, when, *words):
    """A process that was stopped before such a call, and how it goes on."""
    led = strace(log, calls, f"signal=STOP:when={when}")
    call = [*led, work.command, *words]
    process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "stopped by SIGSTOP" not in (log.read_text() if log.exists() else ""):
        assert process.poll() is None, f"it ended before it was stopped: {process.communicate()}"
        time.sleep(0.005)
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        (child,) = file.read().split()
    return process, lambda: os.kill(int(child), signal.SIGCONT)


@pytest.mark.parametrize("finished", [False, True], ids=["before the end", "after the end"])
@pytest.mark.parametrize(
    "calls, when", [("openat", 16), ("openat", 20), ("link,linkat", 2), ("unlink", 2), ("write", 1), ("write", 4)]
)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_task_that_was_stopped_goes_on_after_it_was_redone(work, strace, tmp_path, calls, when, finished):
    if work.operation in ("verify", "manifest") and (calls in ("link,linkat", "unlink") or when == 20):
        pytest.skip("it has no such call")
    words = ["run-task", work.tasks, "--range", f"0:{work.count}", "--quiet"]
    process, go_on = stopped(work, strace, tmp_path / "log", calls, when, *words)
    try:
        work.run_all()
        if finished:
            work.tool("finish", work.tasks)
            work.assert_finished()
    finally:
        go_on()
    told = process.communicate()
    # After the end, its own file may have gone. Whatever it says of that, the result is as it was.
    assert process.returncode == 0 or finished, told
    work.tool("finish", work.tasks)
    work.assert_finished()


@pytest.mark.parametrize("calls", ["renameat2", "rename", "unlinkat", "fsync"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_end_that_was_stopped_goes_on_after_another(work, strace, tmp_path, calls):
    work.run_all()
    log = tmp_path / "log"
    counting = strace(log, calls)
    work.save()
    work.call("finish", work.tasks, before=counting)
    count = sum(f"{calls}(" in line for line in log.read_text().splitlines())
    if count == 0:
        pytest.skip("it has no such call")
    work.restore()
    log.unlink()
    process, go_on = stopped(work, strace, log, calls, max(count // 2, 1), "finish", work.tasks)
    try:
        other = work.call("finish", work.tasks, code=None)
        assert other.returncode == 0 or "is being written" in other.stderr, other
    finally:
        go_on()
    told = process.communicate()
    assert process.returncode == 0, (told, other)
    work.tool("finish", work.tasks)
    work.assert_finished()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_all_tasks_twice_at_once(work):
    words = [work.command, "run-task", work.tasks, "--range", f"0:{work.count}"]
    processes = [subprocess.Popen(words, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    work.tool("finish", work.tasks)
    work.assert_finished()


@pytest.mark.parametrize("planted", ["link", "link to nowhere", "folder", "link above", "file above"])
@pytest.mark.parametrize("operation", ["repack", "pyramid"])
def test_what_others_put_in_the_place_of_a_shard_is_named_and_made_anew(work, told, tmp_path, planted):
    work.run_all()
    # Of the last shard, nothing else is made.
    key = json.loads(work.tasks.read_text().splitlines()[-1])["id"]
    place, apart = work.staging() / "tree" / key, tmp_path / "apart"
    if planted.endswith("above"):
        place = place.parent
    place.rename(apart)
    if planted.startswith("link"):
        place.symlink_to(tmp_path / "nowhere" if "nowhere" in planted else apart)
    elif planted == "folder":
        (place / "deep").mkdir(parents=True)
        (place / "deep/file").write_text("?")
    else:
        place.write_text("?")
    error = told("run-task", work.tasks, "--id", key, code=3)["error"]
    assert str(place) in error["message"] and "`finish` removes it" in error["message"]
    summary = told("finish", work.tasks, code=1)
    assert key in summary["missing_ids"]
    assert apart.exists() and not os.path.lexists(place)
    work.run_all(summary["missing_tasks"])
    work.tool("finish", work.tasks)
    work.assert_finished()
