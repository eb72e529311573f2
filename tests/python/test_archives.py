"""Archives (`.ozx`): written live, by `repack` and by others, read by `zipfile`, tensorstore, zarr-python and unzip."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
import warnings
import zipfile

import numpy as np
import pytest
import tensorstore
import zarr
from readers import assert_reads, assert_same
from recordings import movie as pixels

KILLS = int(os.environ.get("SHARDWRIGHT_KILLS", "6"))
SHAPE = (37, 96, 120)
LAYOUT = ["--chunk", "2,48,64", "--shard", "8,96,128"]


def open_tensorstore(path, array="0/"):
    context = tensorstore.Context({"cache_pool": {"total_bytes_limit": 0}})
    archive = {"driver": "zip", "base": {"driver": "file", "path": str(path)}, "path": array}
    return tensorstore.open({"driver": "zarr3", "kvstore": archive}, context=context, read=True).result()


def open_zarr_python(path, array="0"):
    return zarr.open_array(zarr.storage.ZipStore(path, mode="r"), path=array, mode="r", zarr_format=3)


def assert_archive(path, expected):
    """Pixel for pixel by both libraries, and byte for byte by two programs that know nothing of Zarr."""
    for open_by in [open_tensorstore, open_zarr_python]:
        assert_reads(open_by(path), expected, path.name)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    if unzip := shutil.which("unzip"):
        done = subprocess.run([unzip, "-tq", path], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def replayed(command, tmp_path):
    """Writes a movie into an archive as a camera would."""

    def write(movie, *options, name="out.ozx"):
        (tmp_path / "in.raw").write_bytes(movie.tobytes())
        shape = ",".join(map(str, movie.shape))
        call = [command, "replay", tmp_path / "in.raw", tmp_path / name, "--shape", shape, "--dtype", movie.dtype.name]
        subprocess.run([str(word) for word in [*call, "--quiet", *options]], check=True, capture_output=True)
        return tmp_path / name

    return write


@pytest.mark.parametrize("storage", ["mapped", "buffered", "direct"])
@pytest.mark.parametrize("codec", ["none", "blosc-lz4", "zstd"])
@pytest.mark.parametrize("index", ["end", "start"])
def test_every_reader_opens_a_live_archive(replayed, storage, codec, index):
    movie = pixels(np.uint16, SHAPE)
    out = replayed(movie, *LAYOUT, "--storage", storage, "--codec", codec, "--index", index)
    assert_archive(out, movie)


def test_the_comment_and_the_order_are_those_of_rfc_9(replayed):
    out = replayed(pixels(np.uint16, SHAPE), *LAYOUT)
    with zipfile.ZipFile(out) as archive:
        comment = json.loads(archive.comment)
        names = [entry.filename for entry in archive.infolist()]
        places = {entry.filename: entry.header_offset for entry in archive.infolist()}
        stored = {entry.compress_type for entry in archive.infolist()}
        root = json.loads(archive.read("zarr.json"))
    version = root["attributes"]["ome"]["version"]
    assert comment == {"ome": {"version": version, "zipFile": {"centralDirectory": {"jsonFirst": True}}}}
    documents = [name for name in names if name.split("/")[-1] == "zarr.json"]
    assert names[: len(documents)] == sorted(documents, key=lambda name: (name.count("/"), name))
    assert documents[0] == "zarr.json" and places["zarr.json"] == 0
    assert stored == {zipfile.ZIP_STORED}
    assert out.read_bytes()[:4] == b"PK\x03\x04"


def test_a_dataset_becomes_an_archive_and_comes_back(replayed, tool, tmp_path):
    movie = pixels(np.uint16, SHAPE)
    folder = replayed(movie, *LAYOUT, name="run.ome.zarr")
    tool("repack", folder, tmp_path / "run.ozx")
    assert_archive(tmp_path / "run.ozx", movie)
    tool("verify", tmp_path / "run.ozx")
    # It has no gaps but before shards, each of which begins on a page.
    with zipfile.ZipFile(tmp_path / "run.ozx") as archive:
        bytes_of_all = sum(entry.file_size for entry in archive.infolist())
        assert (tmp_path / "run.ozx").stat().st_size < bytes_of_all + 8192 * (len(archive.infolist()) + 2)
    tool("repack", tmp_path / "run.ozx", tmp_path / "back.ome.zarr", "--codec", "zstd", "--shard", "16,96,128")
    back = zarr.open_array(tmp_path / "back.ome.zarr" / "0", mode="r")
    assert_same(back[...], movie)
    tool("repack", tmp_path / "run.ozx", tmp_path / "other.ozx", "--codec", "gzip")
    assert_archive(tmp_path / "other.ozx", movie)
    # It has no files in the place of nodes, of which zarr-python warns.
    with warnings.catch_warnings(), zarr.storage.ZipStore(tmp_path / "run.ozx", mode="r") as store:
        warnings.simplefilter("error")
        assert "0" in dict(zarr.open_group(store, mode="r").members())
    # Unzipped, it is the same dataset.
    with zipfile.ZipFile(tmp_path / "run.ozx") as archive:
        archive.extractall(tmp_path / "unzipped.ome.zarr")
    assert_same(zarr.open_array(tmp_path / "unzipped.ome.zarr" / "0", mode="r")[...], movie)
    assert "nothing to do" in tool("repack", folder, tmp_path / "run.ozx")
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_the_tools_read_an_archive(replayed, tool, tmp_path):
    movie = pixels(np.uint16, SHAPE)
    out = replayed(movie, *LAYOUT)
    assert json.loads(tool("info", out, "--json"))["arrays"]
    tool("verify", out)
    tool("export", out, tmp_path / "part.npy", "--region", "3:9,:,5:50")
    assert_same(np.load(tmp_path / "part.npy"), movie[3:9, :, 5:50])
    tool("export", out / "0", tmp_path / "all.npy")
    assert_same(np.load(tmp_path / "all.npy"), movie)
    for call in [["pyramid", out], ["manifest", out], ["repack", out]]:
        assert "is an archive" in tool(*call, code=5)


def test_an_archive_is_an_ome_zarr_and_nothing_else(replayed, tool, tmp_path):
    folder = replayed(pixels(np.uint16, SHAPE), *LAYOUT, "--codec", "zstd", name="run.ome.zarr")
    for dialect in ["zarr2-sharded", "zarr3-transformer"]:
        assert "an .ozx holds an OME-Zarr" in tool("repack", folder, tmp_path / "a.ozx", "--dialect", dialect, code=2)
        tool("repack", folder, tmp_path / dialect, "--dialect", dialect)
        tool("repack", tmp_path / dialect, tmp_path / f"{dialect}.ozx")
        with zipfile.ZipFile(tmp_path / f"{dialect}.ozx") as archive:
            assert json.loads(archive.read("zarr.json"))["zarr_format"] == 3
    (folder / "nested.ozx").write_bytes(b"PK")
    assert "must not be in another one" in tool("repack", folder, tmp_path / "b.ozx", code=5)
    assert not [path.name for path in tmp_path.iterdir() if path.name in ["a.ozx", "b.ozx"]]


def test_what_an_archive_takes_is_told_once(replayed, tool):
    out = replayed(pixels(np.uint16, SHAPE), *LAYOUT)
    (array,) = [array for array in json.loads(tool("info", out, "--json"))["arrays"] if array["shape"] == list(SHAPE)]
    assert array["bytes_on_disk"] <= out.stat().st_blocks * 512


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_archives_of_others_are_read(tool, tmp_path, compression):
    movie = pixels(np.uint16, SHAPE)
    with zarr.storage.ZipStore(tmp_path / "theirs.zip", mode="w", compression=compression) as store:
        zarr.create_group(store)
        zarr.create_array(store, name="a/b", data=movie, chunks=(4, 48, 64), shards=(16, 96, 128))
    tool("verify", tmp_path / "theirs.zip")
    tool("export", tmp_path / "theirs.zip" / "a/b", tmp_path / "all.npy")
    assert_same(np.load(tmp_path / "all.npy"), movie)
    tool("repack", tmp_path / "theirs.zip", tmp_path / "ours.ozx")
    assert_same(open_zarr_python(tmp_path / "ours.ozx", "a/b")[...], movie)


def test_a_reader_follows_an_archive_that_grows(command, tmp_path):
    movie = pixels(np.uint16, SHAPE) | 1
    (tmp_path / "in.raw").write_bytes(movie.tobytes())
    out = tmp_path / "out.ozx"
    call = [command, "replay", tmp_path / "in.raw", out, "--shape", "37,96,120", "--dtype", "u16", "--quiet"]
    call += [*LAYOUT, "--rate", 40, "--loop", 3, "--checkpoint-every", "0.05"]
    process = subprocess.Popen([str(word) for word in call], stdin=subprocess.DEVNULL)
    seen = set()
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if not out.exists() or out.stat().st_size == 0:
            continue
        got = np.asarray(open_tensorstore(out).read().result())
        for number, frame in enumerate(got):
            shown = frame != 0
            assert (frame[shown] == movie[number % len(movie)][shown]).all(), f"frame {number}"
        seen.add(int(got.any(axis=(1, 2)).sum()))
    assert process.wait() == 0
    assert len(seen) > 3, f"only {seen} frames were seen on the way"
    assert_archive(out, np.concatenate([movie] * 3))


def test_two_readers_open_what_a_killed_writer_leaves(command, tmp_path):
    movie = pixels(np.uint16, (100, 48, 64)) | 1
    (tmp_path / "in.raw").write_bytes(movie.tobytes())
    dice = random.Random()
    recovered = frames = 0
    for kill in range(KILLS):
        storage = ["mapped", "buffered", "direct"][kill % 3]
        codec = ["none", "blosc-lz4", "zstd", "blosc-noise"][kill % 4]
        out = tmp_path / f"out-{kill}.ozx"
        call = [command, "replay", tmp_path / "in.raw", out, "--shape", "100,48,64", "--dtype", "u16", "--quiet"]
        call += ["--loop", 1000, "--rate", dice.choice([500, 5000, "max"]), "--memory", "16MiB", "--codec", codec]
        call += ["--storage", storage, "--chunk", "2,48,32", "--shard", "40,48,64", "--checkpoint-every", "0.05"]
        process = subprocess.Popen([str(word) for word in call], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(dice.uniform(0.02, 0.4))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if not out.exists() or out.stat().st_size == 0:
            continue
        told = f"kill {kill}: {storage}, {codec}"
        # As it was left, it is an archive that opens, and what the last checkpoint named is right.
        before = open_tensorstore(out)
        part = slice(0, min(10_000, before.shape[0]))
        there = np.asarray(before[part].read().result())
        done = subprocess.run([command, "recover", out, "--apply"], capture_output=True, text=True)
        assert done.returncode == 0, (told, done.stdout, done.stderr)
        with zipfile.ZipFile(out) as archive:
            assert archive.testzip() is None, told
        after = open_tensorstore(out)
        part = slice(0, min(10_000, after.shape[0]))
        got = np.asarray(after[part].read().result())
        assert_same(np.asarray(open_zarr_python(out)[part]), got, told)
        shown = there != 0
        assert (got[: len(there)][shown] == there[shown]).all(), told
        for number, frame in enumerate(got):
            shown = frame != 0
            assert (frame[shown] == movie[number % len(movie)][shown]).all(), f"{told}: frame {number}"
            frames += bool(shown.all())
        recovered += 1
        out.unlink()
    print(f"{KILLS} kills, {recovered} archives, {frames} frames")
    assert recovered > 0 or KILLS == 0


HOSTILE = {
    "leads out": ["../evil", "zarr.json"],
    "absolute": ["/evil", "zarr.json"],
    "backslash": ["a\\..\\evil", "zarr.json"],
    "file and folder": ["zarr.json", "zarr.json/evil"],
}


@pytest.mark.parametrize("names", HOSTILE.values(), ids=HOSTILE.keys())
def test_archives_with_names_that_lead_elsewhere_are_refused(tool, tmp_path, names):
    with zipfile.ZipFile(tmp_path / "evil.ozx", "w") as archive:
        for name in names:
            archive.writestr(name, '{"zarr_format": 3, "node_type": "group"}')
    for call in [["info"], ["verify"], ["repack", tmp_path / "out.ome.zarr"], ["export", tmp_path / "out.npy"]]:
        words = [call[0], tmp_path / "evil.ozx", *call[1:]]
        assert "evil" in tool(*words, code=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evil.ozx"]


def test_a_small_archive_does_not_become_large(tool, tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.ozx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zarr.json", b" " * (100 << 20) + b"{}")
    assert (tmp_path / "bomb.ozx").stat().st_size < 1 << 20
    assert "not read here" in tool("info", tmp_path / "bomb.ozx", code=5)


def test_an_archive_that_was_cut_off_says_what_helps(replayed, tool):
    movie = pixels(np.uint16, SHAPE)
    out = replayed(movie, *LAYOUT)
    with open(out, "r+b") as archive:
        archive.truncate(out.stat().st_size - 50)
    assert "see recover" in tool("info", out, code=3)
    tool("recover", out, "--apply")
    tool("verify", out)
    assert_archive(out, movie)
