"""Readers that open a dataset while it is being written."""

import subprocess
import time

import numpy as np
import pytest
import zarr
from readers import assert_same, open_tensorstore, open_zarr_python
from recordings import movie as pixels

LIBRARIES = [open_tensorstore, open_zarr_python]


def read(array):
    return np.asarray(array.read().result() if hasattr(array, "kvstore") else array[...])


def read_live(open_by, path):
    """A reader that asks for a shard's length just before it is closed and cut off reads past its end: try again,
    once."""
    try:
        return read(open_by(path))
    except ValueError:
        return read(open_by(path))


@pytest.fixture
def running(command, tmp_path):
    """Starts a slow replay of a raw movie, and makes sure that it ends."""
    processes = []

    def start(movie, *options, document="zarr.json"):
        (tmp_path / "in.raw").write_bytes(movie.tobytes())
        out = tmp_path / "out.ome.zarr"
        shape = ",".join(map(str, movie.shape))
        call = [command, "replay", tmp_path / "in.raw", out, "--shape", shape, "--dtype", movie.dtype.name, "--quiet"]
        call += ["--memory", "64MiB", "--no-sync", *options]
        process = subprocess.Popen([str(word) for word in call], stdin=subprocess.DEVNULL)
        processes.append(process)
        deadline = time.monotonic() + 30
        # The group's document comes last, so that whoever sees it can open everything.
        while not (out / document).exists():
            assert process.poll() is None, "the replay ended before there was a dataset"
            assert time.monotonic() < deadline, "there is no dataset after half a minute"
            time.sleep(0.005)
        return process, out

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()


def assert_frames_or_fill(got, movie):
    """Each frame is what was recorded, or was not there yet."""
    for number, frame in enumerate(got):
        if frame.any():
            assert_same(frame, movie[number], f"frame {number}, read while the replay ran:")


@pytest.mark.parametrize("placement", ["fixed", "packed"])
def test_a_run_of_known_length(running, placement):
    movie = pixels(np.uint16, (30, 40, 50)) | 1
    layout = ["--chunk", "1,16,16", "--shard", "4,48,64", "--placement", placement]
    process, out = running(movie, "--rate", 20, *layout)
    arrays = [library(out / "0") for library in LIBRARIES]
    first = [read(array) for array in arrays]
    assert process.poll() is None, "the replay was over before the readers had a look"
    for array, got in zip(arrays, first):
        assert tuple(array.shape) == movie.shape
        assert not got[-4:].any(), "frames that have not been recorded yet show the fill value"
        assert_frames_or_fill(got, movie)
    seen = 0
    while process.poll() is None:
        for library in LIBRARIES:
            got = read_live(library, out / "0")
            assert_frames_or_fill(got, movie)
            seen = max(seen, int(got.any(axis=(1, 2)).sum()))
        time.sleep(0.05)
    assert process.returncode == 0
    assert seen >= 4, "no shard could be read before the replay was over"
    # Without reopening: what was opened at the first moment now shows everything.
    for array in arrays:
        assert_same(read(array), movie)


def test_a_run_without_an_end(running):
    movie = pixels(np.uint16, (50, 40, 50)) | 1
    process, out = running(movie, "--unbounded", "--rate", 20, "--chunk", "1,16,16", "--shard", "4,48,64")
    assert zarr.open_group(out, mode="r").attrs["shardwright"]["complete"] is False
    lengths = []
    while process.poll() is None:
        for library in LIBRARIES:
            got = read_live(library, out / "0")
            assert got.shape[1:] == movie.shape[1:]
            assert_frames_or_fill(got, movie)
            lengths.append(len(got))
        time.sleep(0.05)
    assert process.returncode == 0
    assert lengths == sorted(lengths), "the dataset never shrinks"
    assert 0 < lengths[-1] and lengths[0] < len(movie)
    for library in LIBRARIES:
        assert_same(read(library(out / "0")), movie)
    assert zarr.open_group(out, mode="r").attrs["shardwright"]["complete"] is True


@pytest.mark.parametrize("index", ["end", "start"])
@pytest.mark.parametrize("storage", ["mapped", "buffered", "direct"])
def test_an_open_shard_shows_what_the_last_checkpoint_covers(running, storage, index):
    movie = pixels(np.uint16, (60, 40, 50)) | 1
    # One shard for all frames: whatever is seen before the end is in a shard that is not closed.
    # An index at the start is replaced only while it fits a sector.
    chunk = "1,16,16" if index == "end" else "4,48,64"
    layout = ["--chunk", chunk, "--shard", "64,48,64", "--index", index, "--storage", storage]
    process, out = running(movie, "--unbounded", "--rate", 20, *layout)
    most = 0
    while process.poll() is None:
        for library in LIBRARIES:
            got = read_live(library, out / "0")
            assert_frames_or_fill(got, movie)
            seen = int(got.any(axis=(1, 2)).sum())
            if process.poll() is None:
                most = max(most, seen)
        time.sleep(0.05)
    assert process.returncode == 0
    # Three seconds at a checkpoint a second.
    assert most >= 15, f"{most} frames could be seen while their shard was open"
