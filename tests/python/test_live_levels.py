"""Levels that are written while frames come, beside a model in NumPy that is as dull as can be."""

import itertools
import json
import math
import signal
import subprocess
import time

import numpy as np
import ome_zarr_models.v05
import pytest
import tensorstore
import yaozarrs
import zarr
from readers import assert_same, open_tensorstore, open_zarr_python
from test_pyramid import INTEGERS, METHODS, assert_levels, halved, noise

# Odd, prime, and of one pixel.
SHAPES = [(1, 1), (1, 7), (5, 1), (13, 11), (2, 31), (17, 16), (8, 8)]


def datasets(path):
    (multiscale,) = json.loads((path / "zarr.json").read_text())["attributes"]["ome"]["multiscales"]
    return multiscale, multiscale["datasets"]


def is_valid(path):
    yaozarrs.validate_zarr_store(str(path))
    ome_zarr_models.v05.Image.from_zarr(zarr.open_group(path, mode="r"))


@pytest.mark.parametrize("method", METHODS)
def test_pixels_are_a_dull_model_s(replay, tool, tmp_path, method):
    types = [*INTEGERS, "f4", "f8"]
    for at, (shape, dtype) in enumerate(zip(itertools.cycle(SHAPES), types)):
        movie = noise((5, *shape), dtype, at)
        if dtype == "f8":
            # Sums of doubles depend on their order.
            movie = np.nan_to_num(movie, nan=2.0)
            movie[movie == 1e30] = 4.0
        np.save(tmp_path / "movie.npy", movie)
        cut = ["--chunk", f"{1 + at % 3},5,6", "--shard", f"{(1 + at % 3) * 2},10,12"] if at % 2 else []
        report, out = replay(tmp_path / "movie.npy", "--pyramid", method, "--levels", 4, *cut)
        said = {"levels": [{"path": level["path"]} for level in report["levels"]]}
        assert len(said["levels"]) == math.ceil(math.log2(max(shape))) if max(shape) < 16 else 4
        assert_levels(out, said, movie, method)
        is_valid(out)
        tool("verify", out, "-q")


def test_what_the_command_makes_afterwards_is_the_same(replay, tool, tmp_path):
    movie = noise((9, 300, 260), "u2")
    np.save(tmp_path / "movie.npy", movie)
    place = ["--pixel-size", "0.5um", "--translation", "y=-10,x=3.25"]
    _, live = replay(tmp_path / "movie.npy", "--pyramid", "median", "--levels", 3, *place)
    _, later = replay(tmp_path / "movie.npy", *place)
    tool("pyramid", later, "--method", "median", "--levels", 3)
    multiscale, levels = datasets(live)
    other, expected = datasets(later)
    assert levels == expected
    assert [multiscale["type"], multiscale["metadata"]["kwargs"]] == [other["type"], other["metadata"]["kwargs"]]
    for level in expected:
        assert_same(open_tensorstore(live / level["path"]).read().result(), open_zarr_python(later / level["path"])[:])
    # Those that are there are replaced only on request.
    assert "is in the way" in tool("pyramid", live, code=1) or "exists" in tool("pyramid", live, code=1)
    tool("pyramid", live, "--method", "max", "--overwrite")
    is_valid(live)


def test_directions_that_are_kept(replay, tmp_path):
    movie = noise((3, 20, 30), "u1")
    np.save(tmp_path / "movie.npy", movie)
    _, out = replay(tmp_path / "movie.npy", "--pyramid", "max", "--levels", 2, "--keep", "y")
    scales = [level["coordinateTransformations"][0]["scale"] for level in datasets(out)[1]]
    assert scales == [[1, 1, 1], [1, 1, 2], [1, 1, 4]]
    half = np.maximum(movie[..., ::2], movie[..., 1::2])
    assert_same(open_zarr_python(out / "1")[:], half)
    quarter = np.maximum(half[..., :-1:2], half[..., 1::2])
    assert_same(open_zarr_python(out / "2")[..., :7], quarter)
    assert_same(open_zarr_python(out / "2")[..., 7], half[..., 14])


def chunks_of(frame):
    """The parts of a frame that are in chunks of their own."""
    height, width = frame.shape
    return [frame[y : y + 64, x : x + 64] for y in range(0, height, 64) for x in range(0, width, 64)]


@pytest.mark.parametrize("codec", ["none", "blosc-lz4", "blosc-zstd"])
def test_levels_grow_with_the_run_and_survive_a_kill(command, tool, tmp_path, codec):
    out = tmp_path / "out.ome.zarr"
    call = [command, "replay", "synthetic", out, "--camera", "160x120xu16@400", "--frames", 100000, "--unbounded"]
    call += ["--memory", "64MiB", "--chunk", "2,64,64", "--shard", "32,128,192", "--pyramid", "mean", "--levels", 2]
    call += ["--codec", codec, "--checkpoint-every", "0.05", "-q"]
    run = subprocess.Popen([str(word) for word in call], stdin=subprocess.DEVNULL)
    while not (out / "2/zarr.json").exists() or open_tensorstore(out / "2").shape[0] < 60:
        assert run.poll() is None
        time.sleep(0.02)
    # While it goes on, every level opens.
    for level in ("0", "1", "2"):
        part = open_tensorstore(out / level)[:20].read().result()
        assert (np.asarray(open_zarr_python(out / level)[:20]) == part).all()
    is_valid(out)
    run.send_signal(signal.SIGKILL)
    run.wait()
    tool("recover", out, "--apply")
    tool("verify", out, "-q")
    is_valid(out)
    finest = open_tensorstore(out / "0").read().result()
    expected = finest
    for level in ("1", "2"):
        got = open_tensorstore(out / level).read().result()
        assert got.shape[0] == len(finest)
        expected = np.stack([halved_mean(frame) for frame in expected])
        for number, (frame, of) in enumerate(zip(got, expected, strict=True)):
            # A kill leaves chunks, not whole frames.
            if all(chunk.any() for chunk in chunks_of(finest[number])):
                pairs = zip(chunks_of(frame), chunks_of(of), strict=True)
                assert all((chunk == of).all() or not chunk.any() for chunk, of in pairs), (level, number)
            assert finest[number].any() or not frame.any(), (level, number)


def halved_mean(frame):
    rows, columns = frame.shape
    wide = np.pad(frame.astype("u4"), [(0, rows % 2), (0, columns % 2)], mode="edge")
    return ((sum(wide[y::2, x::2] for y in (0, 1) for x in (0, 1)) + 2) // 4).astype(frame.dtype)


def test_repack_and_export_take_levels_along(replay, tool, tmp_path):
    movie = noise((6, 70, 50), "u2")
    np.save(tmp_path / "movie.npy", movie)
    _, out = replay(tmp_path / "movie.npy", "--pyramid", "mean", "--levels", 2, "--chunk", "2,32,32")
    before = [open_zarr_python(out / level)[:] for level in "012"]
    tool("repack", out, tmp_path / "copy.zarr", "--codec", "zstd")
    tool("repack", out)
    for path in (out, tmp_path / "copy.zarr"):
        tool("verify", path, "-q")
        is_valid(path)
        for level, pixels in zip("012", before, strict=True):
            assert_same(open_tensorstore(path / level).read().result(), pixels)
    tool("export", out / "1", tmp_path / "level.npy")
    assert_same(np.load(tmp_path / "level.npy"), before[1])
    tool("repack", out / "1", tmp_path / "one.zarr", "--codec", "zstd")
    assert_same(open_tensorstore(tmp_path / "one.zarr").read().result(), before[1])


def test_a_third_party_s_registration_finds_pixels_where_they_were(replay, tmp_path):
    movie = noise((2, 64, 48), "u1")
    np.save(tmp_path / "movie.npy", movie)
    for method, other in (("decimate", "stride"), ("min", "min"), ("max", "max"), ("mode", "mode")):
        _, out = replay(tmp_path / "movie.npy", "--pyramid", method, "--levels", 1)
        expected = tensorstore.downsample(open_tensorstore(out / "0"), [1, 2, 2], other).read().result()
        assert_same(open_tensorstore(out / "1").read().result(), expected)
    assert halved(movie, "mode", False).shape == expected.shape


@pytest.mark.parametrize(
    "words, expected",
    [
        (["--pyramid", "mean", "--levels", "0"], "at least one is made"),
        (["--levels", "2"], "--pyramid"),
        (["--pyramid", "mean", "--keep", "y,x"], "--keep y,x: neither y nor x is halved"),
        (["--pyramid", "mean", "--dialect", "precomputed"], "only zarr3 has levels"),
        (["--pyramid", "average"], "possible values"),
    ],
)
def test_what_can_t_be_is_refused(refused, tmp_path, words, expected):
    np.save(tmp_path / "movie.npy", noise((3, 20, 30), "u1"))
    assert expected in refused(tmp_path / "movie.npy", *words, code=2)
