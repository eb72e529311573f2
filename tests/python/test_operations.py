"""The offline commands as a data manager meets them: arrays that can't be read beside others, chunks as files, calls
that are made again, and the same fault told in the same way by all commands."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
import tensorstore
import tifffile
import zarr
from arrays import files, pixels
from readers import assert_same, open_tensorstore, open_zarr_python

SHARDS = ["--shard", "4,32,32"]


# An array that can't be read does not hide the others.


def mixed(path, zarr_format=3):
    """A group with two images that are read here and one that isn't, consolidated; the pixels of the two."""
    root = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    found = {name: pixels(seed) for seed, name in enumerate(["a", "img/0"])}
    for name, data in found.items():
        shards = (4, 32, 32) if zarr_format == 3 else None
        root.create_array(name, data=data, chunks=(2, 16, 16), shards=shards)
    strange = np.arange(64).reshape(4, 4, 4).astype("U3")
    root.create_array("img/strange", data=strange, chunks=(2, 4, 4))
    zarr.consolidate_metadata(path)
    return found, strange


def assert_groups(path, found, strange=None, consolidated=(True, False)):
    for use in consolidated:
        root = zarr.open_group(path, mode="r", use_consolidated=use)
        for name, data in found.items():
            assert_same(root[name][...], data, f"{name}, consolidated: {use}")
        if strange is not None:
            assert (root["img/strange"][...] == strange).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("choice", [["--skip", "img/strange"], ["--only", "a,img/0"]])
def test_an_array_that_is_not_read_stays_as_it_is(tool, tmp_path, in_place, choice):
    path = tmp_path / "g.zarr"
    found, strange = mixed(path)
    before, out = files(path), path if in_place else tmp_path / "o.zarr"
    words = ["repack", path, *([] if in_place else [out]), "--chunk", "1,8,8", "--shard", "7,64,64"]
    refused = tool(*words, code=5)
    assert "img/strange/zarr.json" in refused and "add --skip img/strange" in refused
    assert files(path) == before and sorted(tmp_path.iterdir()) == [path]
    tool(*words, *choice)
    assert_groups(out, found, strange)
    after = files(out)
    assert all(after[name] == data for name, data in before.items() if name.startswith("img/strange/"))
    assert zarr.open_group(out, mode="r")["img/0"].chunks == (1, 8, 8)


@pytest.mark.filterwarnings("ignore")
def test_an_array_that_is_not_read_does_not_hide_others(tool, told, tmp_path):
    path = tmp_path / "g.zarr"
    found, _ = mixed(path)
    described = told("info", path)
    assert [array["path"] for array in described["arrays"]] == ["a", "img/0"]
    assert [array["path"] for array in described["unreadable"]] == ["img/strange"]
    assert re.search("img/strange: .*, can.t be read: ", tool("info", path))
    tool("export", path / "img/0", tmp_path / "a.npy")
    assert_same(np.load(tmp_path / "a.npy"), found["img/0"])
    checked = told("verify", path, code=5)
    assert checked["damage"] == 0 and checked["unchecked"] == 1
    assert {array["path"]: array["chunks"] for array in checked["arrays"]} == {"a": 48, "img/0": 48}
    assert any('"img/strange" is left out' in note for note in told("manifest", path)["notes"])
    assert "img/strange" in tool("export", path / "img/strange", tmp_path / "b.npy", code=5)


def test_a_recovery_is_not_kept_by_an_array_that_is_not_its(told, replay, tmp_path):
    out = replay("synthetic", "--camera", "64x64xu16", "--frames", "9")[1]
    zarr.create_array(out / "mine", shape=(4, 4), dtype="U3", chunks=(2, 4))
    assert told("recover", out)["images"][0]["frames"] == 9
    document = out / "0/zarr.json"
    document.write_text(document.read_text().replace('"uint16"', '"float24"'))
    assert told("recover", out, code=5)["error"]["path"].endswith("0/zarr.json")


@pytest.mark.filterwarnings("ignore")
def test_what_no_reader_would_find_in_the_new_format_is_left_out_and_named(tool, told, tmp_path):
    path = tmp_path / "g.zarr"
    found, _ = mixed(path, zarr_format=2)
    said = tool("repack", path, tmp_path / "o.zarr", "--skip", "img/strange", *SHARDS)
    assert '"img/strange" is not repacked, and left out' in said
    assert_groups(tmp_path / "o.zarr", found, consolidated=[False])
    assert not list((tmp_path / "o.zarr").rglob(".z*")) and not (tmp_path / "o.zarr/img/strange").exists()
    # One of several becomes a dataset that has one array.
    refused = tool("repack", path, tmp_path / "v.zarr", "--dialect", "zarr2-sharded", "--skip", "img/strange", code=2)
    assert '"a", "img/0"' in refused and "--only" in refused
    notes = told("repack", path, tmp_path / "v.zarr", "--dialect", "zarr2-sharded", "--only", "img/0")["notes"]
    assert [name for name in ["a", "img/strange"] if any(f'"{name}"' in note for note in notes)] == ["a", "img/strange"]
    tool("export", tmp_path / "v.zarr", tmp_path / "v.npy")
    assert_same(np.load(tmp_path / "v.npy"), found["img/0"])


def test_levels_that_are_left_out_are_promised_no_more(tool, tmp_path):
    path = tmp_path / "g.zarr"
    root = zarr.open_group(path, mode="w", zarr_format=2)
    levels = [pixels(), pixels(1, (7, 25, 20))]
    for name, data in enumerate(levels):
        root.create_array(str(name), data=data, chunks=(2, 16, 16))
    axes = [{"name": name, "type": "space"} for name in "zyx"]
    datasets = [
        {"path": str(level), "coordinateTransformations": [{"type": "scale", "scale": [1, 2**level, 2**level]}]}
        for level in range(2)
    ]
    root.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": datasets}]
    tool("repack", path, tmp_path / "o.zarr", "--skip", "1", *SHARDS)
    again = zarr.open_group(tmp_path / "o.zarr", mode="r")
    assert [level["path"] for level in again.attrs["ome"]["multiscales"][0]["datasets"]] == ["0"]
    assert_same(again["0"][...], levels[0])
    tool("verify", tmp_path / "o.zarr")


def test_names_that_nothing_has_are_refused(tool, tmp_path):
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    group.create_array("a", data=pixels(), chunks=(2, 16, 16), shards=(4, 32, 32))
    for option in ["--only", "--skip"]:
        refused = tool("repack", tmp_path / "g.zarr", option, "b", code=3)
        assert f'has no array or group "b", as {option} has it' in refused and '"a"' in refused
        assert tool("info", tmp_path / "g.zarr/b", code=3)
    assert "no array is left" in tool("repack", tmp_path / "g.zarr", "--skip", "a", code=2)


# Chunks as files.


def assert_unsharded(path, data, chunks):
    array = open_zarr_python(path)
    assert array.shards is None and array.chunks == chunks
    assert_same(array[...], data)
    assert_same(open_tensorstore(path).read().result(), data)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("options", [[], ["--codec", "zstd"], ["--chunk", "3,7,9"], ["--order", "morton"]])
def test_every_chunk_becomes_a_file_and_a_part_of_a_shard_again(tool, replay, tmp_path, in_place, options):
    data = pixels()
    # One frame is dark, as if it had not come.
    data[2] = 0
    (tmp_path / "in.raw").write_bytes(data.tobytes())
    raw = ["--shape", "7,50,40", "--dtype", "u16", "--chunk", "1,16,16", "--shard", "4,32,32"]
    path = replay(tmp_path / "in.raw", *raw)[1]
    plain = path if in_place else tmp_path / "plain.zarr"
    words = ["repack", path, *([] if in_place else [plain]), "--unsharded", *options]
    tool(*words)
    chunks = (3, 7, 9) if "--chunk" in options else (1, 16, 16)
    assert_unsharded(plain / "0", data, chunks)
    count = (6 if "--chunk" not in options else 3) * -(-50 // chunks[1]) * -(-40 // chunks[2])
    assert sum(path.is_file() for path in (plain / "0/c").rglob("*")) == count
    tool("verify", plain)
    assert ("nothing to rewrite" if in_place else "nothing to do") in tool(*words)
    # And back.
    shard = "6,35,36" if chunks[0] == 3 else "4,32,32"
    tool("repack", plain, *([] if in_place else [tmp_path / "back.zarr"]), "--shard", shard)
    back = plain if in_place else tmp_path / "back.zarr"
    assert open_zarr_python(back / "0").shards is not None
    assert_same(open_tensorstore(back / "0").read().result(), data)
    tool("verify", back)


@pytest.mark.filterwarnings("ignore")
def test_chunks_become_files_of_zarr_v2(tool, tmp_path):
    data = pixels()
    zarr.create_array(tmp_path / "a.zarr", data=data, chunks=(2, 16, 16), shards=(4, 32, 32))
    for out in ["v2.zarr", "again.zarr"]:
        source = tmp_path / ("a.zarr" if out == "v2.zarr" else "v2.zarr")
        tool("repack", source, tmp_path / out, "--dialect", "zarr2", "--unsharded", "--codec", "gzip")
        assert_same(zarr.open_group(tmp_path / out, mode="r", zarr_format=2)["0"][...], data)
        spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{tmp_path / out}/0/"}}
        assert_same(tensorstore.open(spec).result().read().result(), data)
    # Of Zarr v2, and no shards in Zarr v3.
    tool("repack", tmp_path / "v2.zarr", tmp_path / "v3.zarr", "--unsharded")
    assert_unsharded(tmp_path / "v3.zarr/0", data, (2, 16, 16))
    tool("repack", tmp_path / "v2.zarr", "--dialect", "zarr2", "--unsharded", "--codec", "zstd", "--chunk", "7,9,9")
    array = zarr.open_group(tmp_path / "v2.zarr", mode="r", zarr_format=2)["0"]
    assert_same(array[...], data)
    assert array.chunks == (7, 9, 9)


def test_what_contradicts_chunks_as_files_is_refused(tool, tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=pixels(), chunks=(2, 16, 16), shards=(4, 32, 32))
    dialects = [["--dialect", dialect] for dialect in ["precomputed", "zarr2-sharded"]]
    for words in [SHARDS, ["--index", "start"], ["--index-checksum"], *dialects]:
        assert "--unsharded" in tool("repack", tmp_path / "a.zarr", tmp_path / "o", "--unsharded", *words, code=2)


# Calls that are made again.


def test_a_finished_call_made_again_is_done(tool, told, tmp_path):
    path, out = tmp_path / "a.zarr", tmp_path / "o.zarr"
    data = pixels()
    zarr.create_array(path, data=data, chunks=(2, 16, 16), shards=(4, 32, 32))
    call = ["repack", path, out, "--codec", "zstd", "--level", "3"]
    tool(*call)
    before = files(out)
    assert "is there already" in tool(*call)
    # By which means it is made does not matter.
    assert told(*call, "--memory", "64MiB", "--workers", "1")["already_done"]
    assert files(out) == before and not list(tmp_path.glob(".*"))
    # Anything else is in the way.
    refused = tool("repack", path, out, "--codec", "zstd", "--level", "4", code=1)
    assert "already exists" in refused and "remove it" in refused and "--overwrite" not in refused
    tool("repack", path, out, "--codec", "gzip", code=1)
    other = tmp_path / "b.zarr"
    shutil.copytree(path, other)
    tool("repack", other, out, *call[3:], code=1)
    # Another that looks the same, down to lengths and times.
    for file in [file for file in path.rglob("*") if file.is_file()]:
        status = file.stat()
        os.utime(other / file.relative_to(path), ns=(status.st_atime_ns, status.st_mtime_ns))
    tool("repack", other, out, *call[3:], code=1)
    assert files(out) == before


@pytest.mark.parametrize("change", ["source", "result", "lost", "added", "group"])
def test_what_was_changed_since_is_not_done(tool, tmp_path, change):
    path, out = tmp_path / "a.zarr", tmp_path / "o.zarr"
    root = zarr.open_group(path, mode="w")
    root.create_array("0", data=pixels(), chunks=(2, 16, 16), shards=(4, 32, 32), compressors=None)
    call = ["repack", path, out, "--codec", "none", "--no-checksum", *SHARDS]
    tool(*call)
    assert "is there already" in tool(*call)
    if change == "source":
        # The same shape, the same length, other pixels.
        root["0"][3] = 7
    elif change == "result":
        zarr.open_group(out, mode="r+")["0"][3] = 7
    elif change == "lost":
        (out / "0/c/1/0/0").unlink()
    elif change == "added":
        (path / "notes.txt").write_text("new")
    else:
        root.attrs["k"] = 1
    assert "already exists" in tool(*call, code=1)


def test_a_copy_with_its_times_is_known_too(tool, tmp_path):
    path, out = tmp_path / "a.zarr", tmp_path / "o.zarr"
    zarr.create_array(path, data=pixels(), chunks=(2, 16, 16), shards=(4, 32, 32))
    tool("repack", path, out, "--unsharded")
    shutil.move(out, tmp_path / "moved.zarr")
    assert "is there already" in tool("repack", path, tmp_path / "moved.zarr", "--unsharded")
    # What is made of the result does not take along what is only true of the result.
    tool("repack", tmp_path / "moved.zarr", tmp_path / "c.zarr", *SHARDS)
    assert len(list((tmp_path / "c.zarr").rglob(".shardwright*"))) == 1


# Full disks.


# One table of faults for all commands.

CODES = {"exists": 1, "locked": 1, "no-space": 1, "usage": 2, "not-found": 3, "invalid-input": 3, "damaged": 3}
CODES["unsupported"] = 5


@pytest.fixture
def calls(tmp_path):
    """Each command that has a dataset to look at, as words."""
    out = tmp_path / "made"
    return {
        "info": lambda path: ["info", path],
        "verify": lambda path: ["verify", path],
        "recover": lambda path: ["recover", path],
        "export": lambda path: ["export", path, out.with_suffix(".npy")],
        "repack": lambda path: ["repack", path, out.with_suffix(".zarr")],
        "repack in place": lambda path: ["repack", path],
        "manifest": lambda path: ["manifest", path, out.with_suffix(".manifest")],
        "replay": lambda path: ["replay", path, out.with_suffix(".replayed")],
    }


def assert_told(told, words, kinds):
    code = CODES[kinds[0]]
    error = told(*words, code=code)["error"]
    assert error["kind"] in kinds and error["exit_code"] == code and error["message"], (words, error)
    return error


def test_what_is_missing_is_told_alike(told, calls, tmp_path):
    for call in calls.values():
        error = assert_told(told, call(tmp_path / "missing"), ["not-found"])
        assert error["path"].endswith("missing")
    assert_told(told, ["probe", tmp_path / "missing"], ["not-found"])


def test_what_is_no_dataset_is_told_alike(told, calls, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/text").write_text("hello")
    for call in calls.values():
        assert_told(told, call(tmp_path / "folder"), ["not-found"])
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == ["text"]


def test_what_is_not_read_is_told_alike(told, calls, tmp_path):
    zarr.create_array(tmp_path / "a.zarr", shape=(4, 8, 8), dtype="U3", chunks=(2, 8, 8))
    for name, call in calls.items():
        if name == "verify":
            assert told(*call(tmp_path / "a.zarr"), code=CODES["unsupported"])["unchecked"] == 1
        else:
            error = assert_told(told, call(tmp_path / "a.zarr"), ["unsupported"])
            assert error["path"].endswith("a.zarr/zarr.json")


def test_damage_is_told_alike(told, calls, tmp_path):
    array = zarr.create_array(tmp_path / "a.zarr", data=pixels(), chunks=(2, 16, 16), shards=(4, 32, 32))
    shard = tmp_path / "a.zarr/c/0/0/0"
    data = bytearray(shard.read_bytes())
    data[-20] ^= 1
    shard.write_bytes(data)
    assert array.shards
    for name, call in calls.items():
        words = call(tmp_path / "a.zarr")
        if name == "info":
            # It describes, and this is what there is to be described.
            assert len(told(*words)["arrays"][0]["damaged"]) == 1
        elif name == "verify":
            assert told(*words, code=CODES["damaged"])["damage"] > 0
        elif name == "recover":
            assert_told(told, words, ["unsupported"])
        else:
            error = assert_told(told, words, ["damaged"])
            assert error["path"].endswith("a.zarr/c/0/0/0"), error


def test_a_broken_document_is_told_alike(told, calls, tmp_path):
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr/zarr.json").write_text("{")
    for name, call in calls.items():
        if name == "verify":
            assert told(*call(tmp_path / "a.zarr"), code=CODES["damaged"])["damage"] == 1
        else:
            assert_told(told, call(tmp_path / "a.zarr"), ["damaged"])


def test_a_writer_at_work_is_told_alike(command, told, calls, tmp_path):
    path = tmp_path / "a.zarr"
    run = [command, "replay", "synthetic", path, "--camera", "64x64xu16@20", "--frames", "2000", "-q"]
    process = subprocess.Popen(run)
    try:
        while not (path / "0/zarr.json").exists():
            time.sleep(0.01)
        for name in ["verify", "recover", "repack", "repack in place", "manifest"]:
            error = assert_told(told, calls[name](path), ["locked"])
            assert error["path"].endswith("a.zarr")
        assert_told(told, ["recover", path, "--apply"], ["locked"])
        overwriting = ["replay", "synthetic", path, "--overwrite", "--frames", "3"]
        assert_told(told, overwriting, ["locked"])
    finally:
        process.kill()
        process.wait()


def test_what_is_in_the_way_is_told_alike(told, calls, tmp_path):
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=pixels(), chunks=(2, 16, 16), shards=(4, 32, 32))
    for name in ["export", "repack", "manifest", "replay"]:
        words = calls[name](path)
        words[2].mkdir()
        (words[2] / "mine").write_text("x")
        error = assert_told(told, words, ["exists"])
        assert error["path"] == str(words[2])
        assert "--overwrite" not in error["message"]
        shutil.rmtree(words[2])


def test_wrong_usage_is_told_alike(told, calls, tmp_path):
    for call in calls.values():
        assert_told(told, [*call(tmp_path), "--colour", "red"], ["usage"])
    zarr.create_array(tmp_path / "a.zarr", data=pixels(), chunks=(2, 16, 16), shards=(4, 32, 32))
    assert_told(told, [*calls["export"](tmp_path / "a.zarr"), "--region", "9:"], ["usage"])
    assert_told(told, [*calls["repack"](tmp_path / "a.zarr"), "--shard", "3,3,3"], ["usage"])
    assert_told(told, [*calls["manifest"](tmp_path / "a.zarr"), "--url-prefix", "no"], ["usage"])
    assert_told(told, [*calls["replay"](tmp_path / "a.zarr"), "--frames", "9"], ["usage"])


def test_wrong_usage_of_repack_is_no_damage(told, tmp_path):
    path, sharded, plain, out = tmp_path / "g.zarr", tmp_path / "s.zarr", tmp_path / "v2.zarr", tmp_path / "o"
    found, _ = mixed(path)
    shutil.rmtree(path / "img/strange")
    zarr.consolidate_metadata(path)
    zarr.create_array(sharded, data=pixels(), chunks=(2, 16, 16), shards=(4, 32, 32))
    zarr.create_array(plain, data=pixels(), chunks=(2, 16, 16), zarr_format=2)
    wrong = [
        ([sharded, out, "--shard", "3,32,32"], "--shard"),
        ([sharded, out, "--shard", "4,32,32,2"], "--shard"),
        ([sharded, out, "--chunk", "3,16,16"], "--chunk"),
        ([path, out, "--skip", "a,img"], "--skip"),
        ([sharded, sharded / "in"], "OUTPUT"),
        ([sharded, "--dialect", "zarr2"], "--dialect"),
        ([path, "--dialect", "zarr2-sharded", "--only", "a"], "--dialect"),
        ([plain, "--shard", "4,32,32"], "--shard"),
    ]
    for words, option in wrong:
        message = assert_told(told, ["repack", *words], ["usage"])["message"]
        assert option in message, (words, message)
        assert not out.exists()
    assert_told(told, ["manifest", sharded, sharded / "in"], ["usage"])
    # What is named is missing, as if it were the path.
    assert "--only" in assert_told(told, ["repack", path, out, "--only", "b"], ["not-found"])["message"]
    assert sorted(found) == ["a", "img/0"]


def test_a_document_that_is_too_long_is_told_alike(told, calls, tmp_path):
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=pixels(), chunks=(2, 16, 16), shards=(4, 32, 32), attributes={"k": "x" * (17 << 20)})
    for name, call in calls.items():
        if name == "verify":
            assert told(*call(path), code=CODES["unsupported"])["unchecked"] == 1
        else:
            error = assert_told(told, call(path), ["unsupported"])
            assert "documents of more than 16777216 bytes are not read here" in error["message"]


def test_recordings_that_are_not_read_are_told_alike(told, calls, tmp_path):
    recordings = {"a.h5": b"\x89HDF\r\n\x1a\n", "a.czi": b"ZISRAWFILE", "a.zip": b"PK\x03\x04"}
    for name, start in recordings.items():
        (tmp_path / name).write_bytes(start + bytes(100))
    np.save(tmp_path / "a.npy", np.zeros((3, 8, 8), "c8"))
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((3, 8, 8), "c8"), photometric="minisblack")
    zarr.create_array(tmp_path / "c.zarr", shape=(4, 8, 8), dtype="c8", chunks=(2, 8, 8))
    for name in [*recordings, "a.npy", "a.tif", "c.zarr"]:
        error = assert_told(told, calls["replay"](tmp_path / name), ["unsupported"])
        assert error["path"] == str(tmp_path / name)
    # What breaks later is about the recording, too.
    np.save(tmp_path / "cut.npy", np.zeros((9, 8, 8), "u2"))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:-100])
    report = told(*calls["replay"](tmp_path / "cut.npy"), code=3)
    assert (report["error"]["kind"], report["error"]["path"]) == ("invalid-input", str(tmp_path / "cut.npy"))


def test_an_export_is_told_as_json(told, tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=pixels(), chunks=(2, 16, 16), dimension_names=["t", "y", "x"])
    said = told("export", tmp_path / "a.zarr", tmp_path / "a.npy", "--region", "1:3,:,5:9")
    assert said["path"] == str(tmp_path / "a.npy") and said["format"] == "npy" and said["dtype"] == "uint16"
    assert (said["start"], said["shape"], said["axes"]) == ([1, 0, 5], [2, 50, 4], ["t", "y", "x"])
    assert said["bytes_pixels"] == 800 and said["notes"] == []
    assert_same(np.load(tmp_path / "a.npy"), pixels()[1:3, :, 5:9])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_is_told_alike(command, tmp_path, number):
    path = tmp_path / "a.zarr"
    run = [command, "replay", "synthetic", path, "--camera", "1024x1024xu16", "--frames", "100", "--no-sync", "-q"]
    subprocess.run(run, check=True)
    for paths in [[path, tmp_path / "o.zarr"], [path]]:
        words = [command, "repack", *paths, "--codec", "zstd", "--level", "19", "--json"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        process.send_signal(number)
        said = process.communicate(timeout=60)[0]
        error = json.loads(said)["error"]
        assert (process.returncode, error["kind"], error["exit_code"]) == (130, "interrupted", 130)
        assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.filterwarnings("ignore")
def test_refusals_say_what_would_be_right(tool, tmp_path):
    path, nothing = tmp_path / "g.zarr", tmp_path / "empty.zarr"
    mixed(path)
    zarr.open_group(nothing, mode="w").create_group("sub")
    for words in [["verify"], ["recover"], ["manifest"], ["info"], ["repack"]]:
        assert "is a file; expected the directory of an array" in tool(*words, path / "zarr.json", code=3), words
    assert "there is no array in it" in tool("manifest", nothing, code=3)
    assert not (tmp_path / "empty.manifest.zarr").exists()
    assert '--url-prefix "": is neither a URL' in tool("manifest", path, "--url-prefix", "", code=2)
    # Of what is beside, it can be told that nobody's writer made it.
    assert "no image in it was made by shardwright" in tool("recover", path, code=5)
    assert "is not read here" in tool("recover", path / "img/strange", code=5)
    # As for a new dataset, the folders above are made.
    tool("export", path / "a", tmp_path / "no/such/a.npy")
    assert (tmp_path / "no/such/a.npy").is_file()
