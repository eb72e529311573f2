"""Levels whose planes are halved while frames come, too: pixels, kills, and what the command makes afterwards."""

import itertools
import signal
import subprocess
import time

import numpy as np
import pytest
from readers import assert_same, open_tensorstore, open_zarr_python
from test_live_levels import datasets, is_valid
from test_pyramid import INTEGERS, METHODS, assert_levels, noise

AXES = ["--axes", "t,z,y,x"]
# Odd, prime, and of one pixel.
SHAPES = [(5, 1, 7), (1, 5, 1), (3, 13, 11), (7, 2, 5), (2, 9, 8), (6, 3, 3)]


@pytest.mark.parametrize("method", METHODS)
def test_pixels_are_a_dull_model_s(replay, tool, tmp_path, method):
    for at, (shape, dtype) in enumerate(zip(itertools.cycle(SHAPES), [*INTEGERS, "f4"])):
        movie = noise((2, *shape), dtype, at)
        np.save(tmp_path / "movie.npy", movie)
        cut = ["--chunk", f"{1 + at % 3},5,6", "--shard", f"{(1 + at % 3) * 2},10,12"]
        levels = ["--pyramid", method, "--levels", 3, "--z", "always"]
        report, out = replay(tmp_path / "movie.npy", *AXES, *levels, *cut)
        said = {"levels": [{"path": level["path"]} for level in report["levels"]]}
        assert_levels(out, said, movie, method, deep=True)
        is_valid(out)
        tool("verify", out, "-q")


@pytest.mark.parametrize(("depth", "size"), [("auto", []), ("always", ["--pixel-size", "0.5um"])])
def test_what_the_command_makes_afterwards_is_the_same(replay, tool, tmp_path, depth, size):
    movie = noise((2, 9, 70, 60), "u2")
    np.save(tmp_path / "movie.npy", movie)
    # A size of pixels says nothing of how far planes are apart.
    place = [*AXES, *size, "--translation", "z=4,y=-10"]
    _, live = replay(tmp_path / "movie.npy", "--pyramid", "mean", "--levels", 3, "--z", depth, *place)
    _, later = replay(tmp_path / "movie.npy", *place)
    tool("pyramid", later, "--levels", 3, "--z", depth)
    assert datasets(live)[1] == datasets(later)[1]
    for level in datasets(later)[1]:
        assert_same(open_tensorstore(live / level["path"]).read().result(), open_zarr_python(later / level["path"])[:])


@pytest.mark.parametrize("deep", [1, 2, 3])
def test_levels_survive_a_kill(command, tool, tmp_path, deep):
    movie = noise((20, 5, 60, 50), "u2") | 1
    np.save(tmp_path / "movie.npy", movie)
    out = tmp_path / "out.ome.zarr"
    call = [command, "replay", tmp_path / "movie.npy", out, *AXES, "--rate", 400, "--loop", 1000, "--unbounded"]
    call += ["--chunk", f"{deep},32,32", "--pyramid", "max", "--levels", 2, "--z", "always", "--memory", "64MiB"]
    call += ["--checkpoint-every", "0.05", "-q"]
    run = subprocess.Popen([str(word) for word in call], stdin=subprocess.DEVNULL)
    while not (out / "2/zarr.json").exists() or open_tensorstore(out / "2").shape[0] < 15:
        assert run.poll() is None
        time.sleep(0.02)
    is_valid(out)
    run.send_signal(signal.SIGKILL)
    run.wait()
    tool("recover", out, "--apply")
    tool("verify", out, "-q")
    expected = open_tensorstore(out / "0").read().result()
    for level in ("1", "2"):
        expected = halved_max(expected)
        got = open_tensorstore(out / level).read().result()
        assert got.shape == expected.shape
        whole = (got == expected).all(axis=(2, 3))
        assert (whole | (got == 0).all(axis=(2, 3)) | half_lost(expected, got)).all()
        assert whole[:10].all()


def halved_max(stack):
    pairs = [(0, 0)] + [(0, length % 2) for length in stack.shape[1:]]
    wide = np.pad(stack, pairs, mode="edge")
    return np.max([wide[:, z::2, y::2, x::2] for z in (0, 1) for y in (0, 1) for x in (0, 1)], axis=0)


def half_lost(expected, got):
    """Where level 0 lost the second of two planes, the level has both."""
    return (got >= expected).all(axis=(2, 3))
