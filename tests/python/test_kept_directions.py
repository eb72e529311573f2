"""Levels that keep a direction: afterwards, by tasks, and where a run was killed."""

import itertools
import json
import re
import shlex
import subprocess
import time

import numpy as np
import pytest
from readers import assert_same, open_tensorstore
from test_pyramid import METHODS, noise, one

# What `replay` and `pyramid` are asked for, and how z, y and x are halved by that.
DIRECTIONS = {
    "": (1, 2, 2),
    "--keep x": (1, 2, 1),
    "--keep y": (1, 1, 2),
    "--z always": (2, 2, 2),
    "--z always --keep x": (2, 2, 1),
    "--z always --keep y,x": (2, 1, 1),
}


def reduced(image, steps, method):
    """Each pixel by itself; what has no neighbour is its own."""
    steps = [1] * (image.ndim - 3) + list(steps)
    out = np.empty([-(-length // step) for length, step in zip(image.shape, steps, strict=True)], image.dtype)
    for place in np.ndindex(*out.shape):
        sides = zip(place, steps, image.shape, strict=True)
        choices = [range(at * step, min((at + 1) * step, length)) for at, step, length in sides]
        out[place] = one([image[at] for at in itertools.product(*choices)], method)
    return out


def assert_reduced(path, steps, method, levels=2):
    """Compares all levels with what a model makes of the first one."""
    expected = np.asarray(open_tensorstore(path / "0").read().result())
    for level in range(1, levels + 1):
        expected = reduced(expected, steps, method)
        assert_same(open_tensorstore(path / str(level)).read().result(), expected)
    return open_tensorstore(path / "0").shape[0]


def killed(command, tmp_path, out, *words, movie=(60, 30, 23), chunks="16,16,16", enough=18):
    """A run that was killed once level 0 was so long, in the middle of a chunk."""
    np.save(tmp_path / "movie.npy", noise(movie, "u2"))
    call = [command, "replay", tmp_path / "movie.npy", out, "--rate", "25", "--chunk", chunks, "--levels", "2", "-q"]
    call += ["--checkpoint-every", "0.02", "--memory", "64MiB", "--unbounded", *words]
    run = subprocess.Popen([str(word) for word in call], stdin=subprocess.DEVNULL)
    document, end = out / "0/zarr.json", time.monotonic() + 20
    if out.suffix == ".ozx":
        time.sleep(1.5)
    else:
        while not document.exists() or json.loads(document.read_text())["shape"][0] < enough:
            assert run.poll() is None and time.monotonic() < end
            time.sleep(0.005)
    run.kill()
    run.wait()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("keep", ["x", "y"])
def test_a_recovery_keeps_what_the_run_kept(command, tool, tmp_path, keep, method):
    out = tmp_path / "run.ome.zarr"
    killed(command, tmp_path, out, "--pyramid", method, "--keep", keep)
    tool("recover", out, "--apply")
    assert assert_reduced(out, DIRECTIONS[f"--keep {keep}"], method) > 16
    tool("verify", out, "-q")


@pytest.mark.parametrize("words", [words for words in DIRECTIONS if "z" in words])
def test_a_recovery_keeps_it_in_depth(command, tool, tmp_path, words):
    out = tmp_path / "run.ome.zarr"
    kind = {"movie": (15, 5, 30, 23), "chunks": "2,2,16,16", "enough": 3}
    killed(command, tmp_path, out, "--pyramid", "mean", "--axes", "t,z,y,x", *words.split(), **kind)
    tool("recover", out, "--apply")
    assert assert_reduced(out, DIRECTIONS[words], "mean") > 2
    tool("verify", out, "-q")


@pytest.mark.parametrize("words", DIRECTIONS)
def test_the_command_keeps_what_it_is_told_to(command, replay, tool, tmp_path, words):
    np.save(tmp_path / "movie.npy", noise((2, 5, 143, 10), "i2"))
    call = ["--axes", "t,z,y,x", "--chunk", "1,2,140,7"]
    _, live = replay(tmp_path / "movie.npy", *call, "--pyramid", "median", "--levels", 2, *words.split())
    _, later = replay(tmp_path / "movie.npy", *call)
    _, planned = replay(tmp_path / "movie.npy", *call)
    options = ["--method", "median", "--levels", 2, *words.split()]
    tool("pyramid", later, *options)
    tasks = tmp_path / "tasks.jsonl"
    plan = [str(word) for word in [command, "plan", "pyramid", planned, *options]]
    tasks.write_bytes(subprocess.run(plan, check=True, stdout=subprocess.PIPE).stdout)
    tool("run-task", tasks, "--range", "0:1000", "-q")
    tool("finish", tasks)
    for path in (live, later, planned):
        assert_reduced(path, DIRECTIONS[words], "median")
        tool("verify", path, "-q")

    def said(path):
        (image,) = json.loads((path / "zarr.json").read_text())["attributes"]["ome"]["multiscales"]
        return image["type"], image["metadata"]["kwargs"], image["datasets"]

    assert said(live) == said(later) == said(planned)
    assert "nothing to do" in tool("pyramid", later, *options)


def test_what_halves_nothing_is_refused(replay, tool, tmp_path):
    np.save(tmp_path / "movie.npy", noise((2, 20, 10), "u1"))
    _, out = replay(tmp_path / "movie.npy")
    for words in (["--keep", "y,x"], ["--keep", "y,x", "--z", "always"]):
        assert "--keep y,x: neither y nor x is halved, nor is z" in tool("pyramid", out, *words, code=2)
    _, stack = replay(tmp_path / "movie.npy", "--axes", "z,y,x", "--unbounded")
    words = ["--keep", "y,x", "--z", "always"]
    assert "say how many levels" in tool("pyramid", stack, *words, code=2)
    tool("pyramid", stack, *words, "--levels", 1)
    assert open_tensorstore(stack / "1").shape == (1, 20, 10)


@pytest.mark.parametrize("words", [words for words in DIRECTIONS if words])
def test_the_call_for_levels_of_an_archive_makes_those_of_the_run(command, tool, tmp_path, words):
    out = tmp_path / "run.ozx"
    kind = {"movie": (20, 5, 30, 23), "chunks": "2,2,16,16"}
    killed(command, tmp_path, out, "--pyramid", "max", "--axes", "t,z,y,x", *words.split(), **kind)
    # As a kill between the chunks of a level and those of the next: the last headers of the coarsest one are not there.
    left = bytearray(out.read_bytes())
    headers = {}
    for found in re.finditer(b"SWc1\x01", left):
        at = found.start()
        first_frame = int.from_bytes(left[at + 48 : at + 56], "little")
        headers.setdefault(bytes(left[at + 24 : at + 40]), []).append((first_frame, at))
    coarsest = min(headers.values(), key=len)
    assert len(headers) == 3 and len(coarsest) > 1
    last = max(coarsest)[0]
    for _, at in (header for header in coarsest if header[0] == last):
        left[at : at + 64] = bytes(64)
    out.write_bytes(left)
    said = tool("recover", out, "--apply")
    call = re.search(r"(shardwright repack .*?), and then (shardwright pyramid .*? --overwrite) makes all", said)
    assert call, said
    shapes = tool("info", out)
    for words_of_call in call.groups():
        words_of_call = [str(command), *shlex.split(words_of_call)[1:]]
        subprocess.run(words_of_call, cwd=tmp_path, check=True, capture_output=True)
    new = tmp_path / "NEW.ome.zarr"
    assert_reduced(new, DIRECTIONS[words], "max")
    for level in "012":
        lengths = "x".join(str(length) for length in open_tensorstore(new / level).shape[1:])
        assert lengths in shapes.replace(" x ", "x"), (level, lengths, shapes)
    tool("verify", new, "-q")
