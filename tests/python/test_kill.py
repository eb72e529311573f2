"""Writers that are killed at any moment: every reader opens what they leave, without any tool, and sees nothing wrong.

`SHARDWRIGHT_KILLS` says how many kills; each is another layout.
"""

import itertools
import os
import random
import signal
import subprocess
import time

import numpy as np
from readers import assert_same, open_tensorstore, open_zarr_python
from recordings import movie as pixels

KILLS = int(os.environ.get("SHARDWRIGHT_KILLS", "9"))
LAYOUTS = list(itertools.product(["mapped", "buffered", "direct"], ["fixed", "packed"], ["end", "start"]))
CODECS = ["none", "blosc-lz4", "blosc-noise", "zstd"]


# How many frames are read of each; what comes after them, `verify` alone looks at. With many kills, no writer comes
# further, or hardly.
FRAMES = 10_000 if KILLS > 100 else 2_000


def read(array):
    part = slice(0, min(FRAMES, array.shape[0]))
    return np.asarray(array[part].read().result() if hasattr(array, "kvstore") else array[part])


def frames_there(got, movie):
    """How many frames are there; all others must be missing as a whole or in whole tiles."""
    there = 0
    for number, frame in enumerate(got):
        expected = movie[number % len(movie)]
        shown = frame != 0
        assert (frame[shown] == expected[shown]).all(), f"frame {number} has wrong pixels"
        there += bool(shown.all())
    return there


def test_any_reader_opens_what_a_killed_writer_leaves(command, tmp_path):
    movie = pixels(np.uint16, (100, 48, 64)) | 1
    (tmp_path / "in.raw").write_bytes(movie.tobytes())
    dice = random.Random()
    opened = seen = 0
    for kill in range(KILLS):
        storage, placement, index = LAYOUTS[kill % len(LAYOUTS)]
        out = tmp_path / f"out-{kill}.zarr"
        call = [command, "replay", tmp_path / "in.raw", out, "--shape", "100,48,64", "--dtype", "u16", "--quiet"]
        call += [
            "--loop",
            1000,
            "--rate",
            dice.choice([500, 5000, "max"]),
            "--memory",
            "16MiB",
            "--codec",
            CODECS[kill % 4],
        ]
        call += [
            "--chunk",
            "1,16,32",
            "--shard",
            "16,48,64",
            "--storage",
            storage,
            "--placement",
            placement,
            "--index",
            index,
        ]
        call += ["--unbounded"] if kill % 3 else []
        process = subprocess.Popen([str(word) for word in call], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while not (out / "zarr.json").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(dice.random() * 0.4)
        process.send_signal(signal.SIGKILL)
        process.wait()
        what = f"kill {kill}: {storage}, {placement}, index at the {index}"
        assert (out / "zarr.json").exists(), what
        results = [read(library(out / "0")) for library in (open_tensorstore, open_zarr_python)]
        assert_same(results[0], results[1], what)
        before = frames_there(results[0], movie)
        # The 96 chunks of a shard make an index within one page, so nothing here needs a repair to be read; what it
        # brings is the chunks since the last checkpoint.
        subprocess.run([str(command), "recover", "--apply", "--quiet", str(out)], check=True)
        after = frames_there(read(open_tensorstore(out / "0")), movie)
        assert after >= before, what
        assert subprocess.run([str(command), "verify", "--quiet", str(out)]).returncode == 0, what
        empty = [folder for folder, folders, files in os.walk(out) if not folders and not files]
        # One may have been made for a shard that was not made any more.
        assert len(empty) <= 1, (what, empty)
        opened, seen = opened + 1, seen + after
        subprocess.run(["rm", "-rf", str(out)], check=True)
    print(f"{opened} killed writers, all opened by tensorstore and zarr-python; {seen} whole frames")
    assert seen > KILLS, "the writers were killed before they had written anything"


def test_an_array_of_a_killed_run_is_no_better_than_the_dataset(command, tmp_path):
    out = tmp_path / "run.zarr"
    call = [command, "replay", "synthetic", out, "--camera", "64x64xu16@200", "--frames", "5000", "--quiet"]
    # Nothing is checkpointed: the index names none of the chunks that are there.
    process = subprocess.Popen([*map(str, call), "--checkpoint-every", "0"], stderr=subprocess.DEVNULL)
    shard = out / "0/c/0/0/0"
    while not shard.exists() or not shard.read_bytes()[4096:8192].strip(b"\0"):
        time.sleep(0.02)
    time.sleep(0.3)
    process.kill()
    process.wait()
    for path in (out, out / "0"):
        told = subprocess.run([command, "verify", path], capture_output=True, text=True)
        assert told.returncode == 3 and "the index does not name" in told.stdout, (path, told)
        assert "writer was stopped" in told.stdout
    for part in ("0", "records", "records/frame_number"):
        told = subprocess.run([command, "recover", out / part], capture_output=True, text=True)
        assert told.returncode == 3 and f"is a part of an image; name that, {out}" in told.stderr, told
    subprocess.run([command, "recover", out, "--apply", "--quiet"], check=True)
    for path in (out, out / "0"):
        subprocess.run([command, "verify", path, "--quiet"], check=True)
