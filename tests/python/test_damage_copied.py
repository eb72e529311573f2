"""What `verify` finds, no copy hides."""

import json
import subprocess

import numpy as np
import pytest
import zarr
from arrays import files, pixels
from readers import assert_same

LAUNDERING = {
    "copied": [],
    "encoded again": ["--codec", "zstd"],
    "cut again": ["--chunk", "3,16,16", "--shard", "6,64,64"],
    "unsharded": ["--unsharded"],
}


@pytest.mark.parametrize("how", LAUNDERING)
def test_bytes_that_a_slot_header_does_not_vouch_for_are_not_copied(told, replay, tmp_path, how):
    _, path = replay("synthetic", "--camera", "64x64xu16@1000", "--frames", "8", "--codec", "none", "--no-checksum")
    shard = next(file for file in sorted((path / "0/c").rglob("*")) if file.is_file())
    damaged = bytearray(shard.read_bytes())
    damaged[damaged.index(b"SWc1") + 64 + 100] ^= 0x10
    shard.write_bytes(damaged)
    told("verify", path, code=3)
    out = tmp_path / "new.zarr"
    for words in [["repack", path, out, *LAUNDERING[how]], ["export", path, tmp_path / "out.npy"]]:
        message = told(*words, code=3)["error"]["message"]
        assert "slot header was written for" in message and "chunk" in message, message
    assert not out.exists() and not (tmp_path / "out.npy").exists()
    assert shard.read_bytes() == damaged


@pytest.mark.parametrize("in_place", [False, True])
def test_a_dataset_that_lost_a_shard_is_not_copied_without_a_word(told, replay, tmp_path, in_place):
    _, path = replay("synthetic", "--camera", "64x64xu16@1000", "--frames", "12", "--chunk", "2", "--shard", "4")
    lost = sorted(file for file in (path / "0/c").rglob("*") if file.is_file())[1]
    lost.unlink()
    told("verify", path, code=3)
    before, out = files(path), tmp_path / "new.zarr"
    words = ["repack", path, *([] if in_place else [out]), "--codec", "zstd"]
    message = told(*words, code=3)["error"]["message"]
    assert "its writer counted" in message and "files are missing" in message, message
    assert files(path) == before and not out.exists()
    told(*words, "--incomplete")


@pytest.mark.parametrize("dialect", ["zarr3", "zarr3-transformer", "zarr2-sharded", "precomputed", "zarr2"])
def test_an_export_says_that_a_shard_was_lost(told, tool, replay, tmp_path, dialect):
    (tmp_path / "in.raw").write_bytes(pixels(shape=(8, 64, 64)).tobytes())
    options = ["--chunk", "2,32,32", "--shard", "2,64,64", "--codec", "gzip", "--no-checksum", "--axes", "z,y,x"]
    if dialect != "zarr2":
        options += ["--dialect", dialect]
    _, path = replay(tmp_path / "in.raw", "--shape", "8,64,64", "--dtype", "u16", *options)
    if dialect == "zarr2":
        tool("repack", path, tmp_path / "v2.zarr", "--dialect", "zarr2", "-q")
        path = tmp_path / "v2.zarr"
    out = tmp_path / "out.npy"
    told("export", path, out)
    shards = [file for file in path.rglob("*") if file.is_file() and "records" not in str(file)]
    max(file for file in shards if file.stat().st_size > 1500).unlink()
    told("verify", path, code=3)
    message = told("export", path, tmp_path / "o.npy", code=3)["error"]["message"]
    assert "files are missing; bring them back, or give them up with --incomplete" in message
    assert not (tmp_path / "o.npy").exists()
    notes = told("export", path, tmp_path / "o.npy", "--incomplete")["notes"]
    assert len(notes) == 1 and "its writer counted" in notes[0] and "read as the fill value" in notes[0]
    assert (np.load(tmp_path / "o.npy") != np.load(out)).any()
    # Of what is there, nothing is to be said.
    assert told("export", path, tmp_path / "p.npy", "--region", "0:2,:,:")["notes"] == []
    assert_same(np.load(tmp_path / "p.npy"), np.load(out)[:2])


@pytest.mark.parametrize("field", ["frame_number", "host_timestamp", "device_timestamp"])
def test_a_block_of_records_that_was_lost_is_found(told, replay, field):
    _, path = replay("synthetic", "--camera", "16x16xu16", "--frames", "9", "--chunk", "3")
    (path / "records" / field / "c/0").unlink()
    verified = told("verify", path, code=3)
    (damage,) = [finding["what"] for finding in verified["findings"] if finding["severity"] == "damage"]
    assert "no record" in damage if field == "frame_number" else "block [0] is not there" in damage


def test_a_replay_of_what_lost_a_shard_says_so(replay):
    _, path = replay("synthetic", "--camera", "64x64xu16", "--frames", "8", "--chunk", "2,64,64", "--shard", "4,64,64")
    assert not any("counted" in note for note in replay(path)[0]["notes"])
    max(file for file in (path / "0/c").rglob("*") if file.is_file()).unlink()
    report, _ = replay(path, code=4)
    assert any("files are missing; frames that may lack some are left out" in note for note in report["notes"])
    assert (report["frames_written"], report["frames_missing"]) == (4, 4)


def test_an_export_never_writes_into_its_dataset(tool, tmp_path):
    path = tmp_path / "g.zarr"
    group = zarr.open_group(path, mode="w")
    group.create_array("0", data=pixels(), chunks=(2, 16, 16), shards=(4, 32, 32))
    before = files(path)
    link = tmp_path / "link"
    link.symlink_to(path, target_is_directory=True)
    for output in [path / "0/c/0/0/0", path / "zarr.json", path / "new.raw", link / "0/zarr.json"]:
        said = tool("export", path / "0", output, "--format", "raw", "--overwrite", code=2)
        assert "which is read; choose a path beside it" in said
    assert files(path) == before
    tool("export", path / "0", tmp_path / "g.raw")


@pytest.mark.parametrize("in_place", [True, False])
def test_recover_leaves_alone_what_was_repacked(command, tool, tmp_path, in_place):
    path = tmp_path / "run.zarr"
    run = [command, "replay", "synthetic", path, "--camera", "64x64xu16", "--frames", "20", "--no-sync", "-q"]
    subprocess.run([str(word) for word in [*run, "--chunk", "2,32,32", "--shard", "8,64,64"]], check=True)
    repacked = path if in_place else tmp_path / "new.zarr"
    tool("repack", path, *([] if in_place else [repacked]), "--codec", "gzip")
    # As of a run that was killed, of which recovery would look for the rest.
    document = json.loads((repacked / "zarr.json").read_text())
    document["attributes"]["shardwright"]["complete"] = False
    (repacked / "zarr.json").write_text(json.dumps(document))
    before = files(repacked)
    for words in [[], ["--apply"]]:
        said = tool("recover", repacked, *words, code=5)
        assert "it was repacked before its writer had finished, which leaves no slot headers" in said
    assert files(repacked) == before
