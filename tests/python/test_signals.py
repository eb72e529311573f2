"""Signals to `shardwright replay`: one ends the run in order, a second one at once."""

import json
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from readers import open_tensorstore, open_zarr_python
from recordings import movie as pixels

FRAMES = 20_000


@pytest.fixture
def running(command, tmp_path):
    """A replay at a camera's pace that would take minutes, with at least 50 durable frames in it; how to end it, and
    the movie."""
    movie = pixels(np.uint16, (100, 48, 64)) | 1
    (tmp_path / "in.raw").write_bytes(movie.tobytes())
    out = tmp_path / "out.zarr"
    call = [
        command,
        "replay",
        tmp_path / "in.raw",
        out,
        "--shape",
        "100,48,64",
        "--dtype",
        "u16",
        "--loop",
        FRAMES // 100,
    ]
    call += ["--rate", "100", "--memory", "64MiB", "--chunk", "1,48,64", "--shard", "16,48,64", "--json", "--unbounded"]
    words = [str(word) for word in call]
    # Whoever runs the tests may have been told to outlive a terminal, which children inherit.
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    # The array grows with what a checkpoint has made durable.
    while not (out / "0/zarr.json").exists() or open_tensorstore(out / "0").shape[0] < 50:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    yield process, out, movie
    process.kill()
    process.communicate()


def assert_frames(out, movie, frames):
    for array in (open_tensorstore(out / "0").read().result(), open_zarr_python(out / "0")[...]):
        got = np.asarray(array)
        assert (got[:frames] == movie.take(range(frames), axis=0, mode="wrap")).all()


# Ctrl-C, what service managers and batch systems send, and the end of a terminal.
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_in_order(running, command, number):
    process, out, movie = running
    process.send_signal(number)
    said, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "interrupted" in errors
    report = json.loads(said)
    frames = report["frames_written"]
    assert report["interrupted"] and 50 <= frames < FRAMES and report["frames_dropped"] == 0
    assert report["shape"][0] == frames
    assert_frames(out, movie, frames)
    # Nothing is left that a run in order does not leave.
    left = [file.name for file in out.rglob(".*")]
    assert left == []
    assert subprocess.run([str(command), "verify", "--quiet", str(out)]).returncode == 0
    assert subprocess.run([str(command), "recover", "--quiet", str(out)]).returncode == 0


def test_a_second_signal_ends_it_at_once_and_readers_open_what_is_there(running, command):
    process, out, movie = running
    # Stopped, it gets both before it can end by itself; of one kind only one would wait.
    process.send_signal(signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert_frames(out, movie, 50)
    subprocess.run([str(command), "recover", "--apply", "--quiet", str(out)], check=True)
    assert_frames(out, movie, 50)
    assert subprocess.run([str(command), "verify", "--quiet", str(out)]).returncode == 0


@pytest.fixture
def waiting(command, tmp_path):
    """A replay of three frames that is ready and has not begun; its dataset, and the frames."""
    movie = pixels(np.uint16, (3, 48, 64)) | 1
    (tmp_path / "in.raw").write_bytes(movie.tobytes())
    call = [command, "replay", tmp_path / "in.raw", tmp_path / "out.zarr", "--shape", "3,48,64", "--dtype", "u16"]
    pipe = subprocess.PIPE
    words = [str(word) for word in [*call, "--preload", "--wait", "--memory", "64MiB", "--json", "--quiet"]]
    process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stderr.readline().startswith("ready")
    yield process, tmp_path / "out.zarr", movie
    process.kill()
    process.communicate()


def test_a_run_that_waits_begins_with_a_line(waiting):
    process, out, movie = waiting
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    said, errors = process.communicate("\n")
    assert process.returncode == 0, errors
    assert json.loads(said)["frames_written"] == 3
    assert_frames(out, movie, 3)


def test_a_run_that_waits_ends_at_a_signal(waiting):
    process, *_ = waiting
    process.send_signal(signal.SIGINT)
    # No line is sent and the input stays open: the signal alone ends it.
    assert process.wait(10) == 130
    assert json.loads(process.stdout.read())["frames_written"] == 0


@pytest.fixture(scope="module")
def archive(command, tmp_path_factory):
    """Slow enough to be interrupted."""
    path = tmp_path_factory.mktemp("archive") / "movie.zarr"
    run([command, "replay", "synthetic", path, "--camera", "1024x1024xu16", "--frames", "24", "--no-sync", "-q"])
    return path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_signal_ends_a_repack_and_another_goes_on(command, archive, tmp_path, number, in_place):
    path, out = tmp_path / "movie.zarr", tmp_path / "new.zarr"
    run(["cp", "-r", archive, path])
    before = exported(command, path, tmp_path / "before.npy")
    call = [command, "repack", path, *([] if in_place else [out]), "--codec", "zstd", "-q"]
    process = subprocess.Popen([*call, "--level", "19"], stderr=subprocess.PIPE, text=True)
    # As soon as it is at work, however busy the machine is.
    while not list(tmp_path.rglob("*.partial")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "stopped before the end" in said
    assert not out.exists() and not list(tmp_path.rglob("*.partial"))
    assert np.array_equal(exported(command, path, tmp_path / "midway.npy"), before)
    run([*call, "--level", "1"])
    assert np.array_equal(exported(command, path if in_place else out, tmp_path / "after.npy"), before)


def test_a_signal_ends_an_export_and_a_check(command, archive, tmp_path):
    for call in [["export", archive, tmp_path / "out.tif"], ["verify", archive]]:
        process = subprocess.Popen([command, *call, "-q"], stderr=subprocess.PIPE, text=True)
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
        assert process.returncode in (0, 130) and "stays" not in said
        assert process.returncode == 0 or not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def many_chunks(command, tmp_path_factory):
    """So many that a manifest of them takes a while."""
    path = tmp_path_factory.mktemp("chunks") / "movie.zarr"
    call = [command, "replay", "synthetic", path, "--camera", "1024x1024xu16", "--frames", "64", "--no-sync", "-q"]
    run([*call, "--chunk", "1,16,16", "--shard", "1,1024,1024", "--codec", "none"])
    return path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("json_words", [[], ["--json"]])
def test_a_signal_ends_a_manifest_and_leaves_nothing(command, many_chunks, tmp_path, number, json_words):
    call = [str(word) for word in (command, "manifest", many_chunks, tmp_path / "m.zarr", *json_words)]
    process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not list(tmp_path.glob(".m.zarr.*.partial")):
        assert process.poll() is None, process.communicate()
    process.send_signal(number)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "stopped before the end; nothing is changed or kept" in errors
    assert not list(tmp_path.iterdir())
    if json_words:
        error = json.loads(said)["error"]
        assert error["kind"] == "interrupted" and error["message"] in errors
    run([command, "manifest", many_chunks, tmp_path / "m.zarr", "-q"])


def exported(command, path, out):
    run([command, "export", path, out, "-q"])
    return np.load(out)


def run(words):
    subprocess.run([str(word) for word in words], check=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_probe_that_is_stopped_removes_what_it_wrote(command, tmp_path, number):
    call = [command, "probe", tmp_path, "--camera", "128x128xu16@50", "--seconds", "60", "--memory", "64MiB", "--json"]
    process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not list(tmp_path.glob(".shardwright-probe-*")):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    process.send_signal(number)
    told, _ = process.communicate(timeout=30)
    assert process.returncode == 130 and json.loads(told)["error"]["kind"] == "interrupted"
    assert not list(tmp_path.iterdir())
    (tmp_path / ".shardwright-probe-1").mkdir()
    call = [command, "probe", tmp_path, "--camera", "16x16xu16", "--seconds", "0.01", "--memory", "16MiB"]
    told = subprocess.run(call, capture_output=True, text=True, check=True)
    assert ".shardwright-probe-1 is of another probe" in told.stderr


def runs_its_own_code(process):
    """Whether it has done what it does first, after it listens: to ignore SIGXFSZ. Before, the system starts it."""
    status = dict(line.split(":\t") for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    return int(status["SigIgn"], 16) >> (signal.SIGXFSZ - 1) & 1


@pytest.fixture(scope="module")
def recorded(command, tmp_path_factory):
    """A recording of 12 MB and a dataset of it."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "in.raw").write_bytes(pixels(np.uint16, (1000, 80, 75)).tobytes())
    words = [command, "replay", folder / "in.raw", folder / "in.zarr", "--shape", "1000,80,75", "--dtype", "u16"]
    subprocess.run([str(word) for word in [*words, "--quiet"]], check=True)
    return folder


@pytest.mark.parametrize("kind", ["replay", "verify", "repack", "export"])
def test_a_signal_in_the_first_moments_has_the_documented_code(command, recorded, tmp_path, kind):
    out = tmp_path / "out.npy"
    words = {
        "replay": [recorded / "in.raw", out, "--shape", "1000,80,75", "--dtype", "u16"],
        "verify": [recorded / "in.zarr"],
        "repack": [recorded / "in.zarr", out, "--codec", "zstd"],
        "export": [recorded / "in.zarr", out],
    }[kind]
    chance, codes = random.Random(1), []
    for number in range(24):
        call = [str(word) for word in [command, kind, *words, "--json"]]
        process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and not runs_its_own_code(process):
            pass
        time.sleep(chance.uniform(0, 0.02) if number % 3 else 0)
        process.send_signal(signal.SIGTERM)
        said, errors = process.communicate()
        codes.append(process.returncode)
        assert codes[-1] in (0, 130), (codes, errors)
        # There is one object on standard output whatever happens.
        report = json.loads(said)
        assert codes[-1] == 0 or report.get("interrupted") or report["error"]["kind"] == "interrupted", said
        for path in tmp_path.iterdir():
            assert kind != "export" or codes[-1] == 0, f"{path} was left"
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert 130 in codes


def test_a_hangup_does_not_end_what_was_started_to_outlive_it(command, tmp_path):
    (tmp_path / "in.raw").write_bytes(bytes(6))
    words = ["replay", tmp_path / "in.raw", tmp_path / "out.zarr", "--shape", "3,1,2", "--dtype", "u8", "--wait"]
    call = [str(word) for word in [command, *words, "--quiet"]]
    pipe = subprocess.PIPE
    ignored = subprocess.Popen(["nohup", *call], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    while not ignored.stderr.readline().startswith("ready"):
        assert ignored.poll() is None
    ignored.send_signal(signal.SIGHUP)
    _, errors = ignored.communicate("\n")
    assert ignored.returncode == 0, errors
