"""What other programs' datasets lack, and what hides it: arrays that documents promise, files of levels, chunks that
nobody counts, files elsewhere, shards that are links, shards that have changed places."""

import json
import shutil
import subprocess

import numpy as np
import pytest
import zarr
from readers import assert_same, open_zarr_python
from test_lost_data import LAYOUT, damage, pixels, promising, recorded  # noqa: F401

CUT = ["--shard", "4,32,32"]


def notes(verified):
    return [finding["what"] for finding in verified["findings"] if finding["severity"] == "note"]


# Arrays that documents promise.


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_array_that_is_promised_is_missed_by_all(told, tool, tmp_path, zarr_format):
    path, out = tmp_path / "g.zarr", tmp_path / "o.zarr"
    promising(path, zarr_format)
    shutil.rmtree(path / "img/1")
    sentence = 'its consolidated metadata name "img/1", which is not there'
    (unreadable,) = told("info", path)["unreadable"]
    assert unreadable["path"] == "img/1" and sentence in unreadable["reason"]
    assert sentence in tool("info", path)
    assert any(sentence in note for note in told("manifest", path)["notes"])
    message = told("repack", path, out, *CUT, code=3)["error"]["message"]
    assert sentence in message and "--incomplete" in message and not out.exists()
    said = told("repack", path, out, *CUT, "--incomplete")["notes"]
    assert any('"img/1" is not there' in note for note in said), said
    told("verify", out)
    assert sorted(name for name, _ in zarr.open_consolidated(out).arrays()) == ["a"]
    assert told("info", out)["unreadable"] == []


def test_a_level_that_is_promised_is_missed_and_given_up(told, recorded, tmp_path):
    path, data = recorded
    told("pyramid", path, "--levels", "2", "--no-sync")
    shutil.rmtree(path / "2")
    sentence = 'its attributes name "2", which is not there'
    assert any(sentence in array["reason"] for array in told("info", path)["unreadable"])
    assert sentence in told("repack", path, tmp_path / "o.zarr", code=3)["error"]["message"]
    told("repack", path, tmp_path / "o.zarr", "--incomplete")
    told("verify", tmp_path / "o.zarr")
    said = zarr.open_group(tmp_path / "o.zarr", mode="r").attrs["ome"]["multiscales"][0]
    assert [level["path"] for level in said["datasets"]] == ["0", "1"]
    # In place, lists stay as they are.
    told("repack", path, code=3)
    told("repack", path, "--incomplete")
    assert sentence in damage(told("verify", path, code=3))


@pytest.mark.parametrize("gone", ["0", "records/frame_number"])
def test_what_this_writer_made_is_promised(told, recorded, tmp_path, gone):
    path, _ = recorded
    shutil.rmtree(path / gone)
    sentence = f'its attributes name "{gone}", which is not there'
    assert any(sentence in array["reason"] for array in told("info", path)["unreadable"])
    assert any(sentence in note for note in told("manifest", path)["notes"])
    assert sentence in told("repack", path, tmp_path / "o.zarr", code=3)["error"]["message"]


# Files of levels.


@pytest.mark.parametrize("form", ["as made", "repacked"])
def test_a_lost_shard_of_a_level_is_noticed(told, recorded, tmp_path, form):
    path, data = recorded
    told("pyramid", path, "--levels", "1", "--no-sync")
    if form == "repacked":
        told("repack", path, tmp_path / "k.zarr", "--codec", "zstd", "--chunk", "2,10,10", *CUT[:1], "4,20,20")
        path = tmp_path / "k.zarr"
    told("verify", path)
    (path / "1/c/1/0/0").unlink()
    (what,) = damage(told("verify", path, code=3))
    assert "chunks are not there that have pixels, as the level before shows" in what
    assert "pyramid makes them again if it may overwrite" in what
    (level,) = [array for array in told("info", path)["arrays"] if array["path"] == "1"]
    assert any("chunks are not there of which the level before has some" in note for note in level["notes"])
    assert any("of which the level before has some" in note for note in told("manifest", path)["notes"])
    assert any("of which the level before has some" in note for note in told("repack", path)["notes"])
    told("pyramid", path, "--levels", "1", "--overwrite", "--no-sync")
    told("verify", path)


@pytest.mark.parametrize("method", ["mean", "min", "decimate"])
def test_a_dark_part_of_a_level_is_not_lost(told, tmp_path, method):
    data = pixels()
    # Of single bright pixels, a mean that is rounded has nothing, nor has a minimum.
    data[4:8] = 0
    data[4:8, 1::16, 1::16] = 1
    np.save(tmp_path / "a.npy", data)
    told("replay", tmp_path / "a.npy", tmp_path / "r.zarr", "--no-sync", *LAYOUT)
    told("pyramid", tmp_path / "r.zarr", "--levels", "1", "--method", method, "--no-sync")
    assert not [file for file in (tmp_path / "r.zarr/1/c/1").rglob("*") if file.is_file()]
    verified = told("verify", tmp_path / "r.zarr")
    assert not any("of which the level before" in what for what in notes(verified))


# Chunks that nobody counts.


@pytest.mark.parametrize("shards", [None, (4, 32, 32)])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_how_many_chunks_are_absent_is_said(told, tool, tmp_path, shards, zarr_format):
    if shards and zarr_format == 2:
        return
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=pixels(), chunks=(2, 16, 16), shards=shards, zarr_format=zarr_format)
    verified = told("verify", path)
    assert verified["arrays"][0]["absent"] == 0 and notes(verified) == []
    ((path / "0.1.1") if zarr_format == 2 else path / "c/0/1/1").unlink()
    absent = 4 if shards else 1
    among = ", 1 of 12 shards among them" if shards else ""
    verified = told("verify", path)
    assert verified["arrays"][0]["absent"] == absent
    assert any(f"{absent} of 72 chunks are not there{among}, and read as the fill value" in what
               for what in notes(verified)), notes(verified)  # fmt: skip
    assert told("info", path)["arrays"][0]["chunks_empty"] == absent
    assert f"{absent} of 72 chunks are not there" in tool("verify", path)


# Files elsewhere.


def test_chunks_on_a_server_are_not_checked_and_not_lost(told, recorded, tmp_path):
    path, _ = recorded
    out = tmp_path / "m.zarr"
    told("manifest", path, out, "--url-prefix", "s3://bucket/r.zarr")
    verified = told("verify", out, code=5)
    assert damage(verified) == []
    unchecked = [finding["what"] for finding in verified["findings"] if finding["severity"] == "unchecked"]
    assert any("72 chunks that its manifest names are not read here" in what for what in unchecked), unchecked
    (image,) = [array for array in verified["arrays"] if array["path"] == "0"]
    assert (image["chunks"], image["unchecked"], image["absent"]) == (0, 72, 0)
    assert told("export", out, tmp_path / "o.npy", code=5)["error"]["kind"] == "unsupported"


def test_chunks_in_folders_that_are_not_trusted_are_not_checked(told, recorded, tmp_path):
    path, data = recorded
    (tmp_path / "far").mkdir()
    out = tmp_path / "far/m.zarr"
    told("manifest", path, out)
    verified = told("verify", out, code=5)
    assert damage(verified) == [] and verified["unchecked"] > 0
    assert "--follow-manifests" in told("export", out, tmp_path / "o.npy", code=5)["error"]["message"]
    told("verify", out, "--follow-manifests")
    told("export", out, tmp_path / "o.npy", "--follow-manifests")
    assert_same(np.load(tmp_path / "o.npy"), data)


# Shards that are links.


def test_recovery_gives_up_no_frames_behind_a_link(command, told, tmp_path):
    path = tmp_path / "r.zarr"
    np.save(tmp_path / "a.npy", pixels())
    told("replay", tmp_path / "a.npy", path, "--no-sync", *LAYOUT)
    # As a kill leaves it.
    document = json.loads((path / "zarr.json").read_text())
    document["attributes"]["shardwright"]["complete"] = False
    (path / "zarr.json").write_text(json.dumps(document))
    store = tmp_path / "annex"
    store.mkdir()
    shard = path / "0/c/1/0/0"
    shutil.move(shard, store / "shard")
    shard.symlink_to(store / "shard")
    before = {file: file.read_bytes() for file in [*path.rglob("*"), store / "shard"] if file.is_file()}
    for words in [[], ["--apply"]]:
        error = told("recover", path, *words, code=5)["error"]
        assert "--follow-links" in error["message"] and "0/c/1/0/0" in error["path"]
    # What is whole is counted, and needs no change.
    (image,) = told("recover", path, "--apply", "--follow-links")["images"]
    assert image["frames_missing"] == 0 and shard.is_symlink()
    # What would change is refused.
    torn = before[shard][:-20]
    (store / "shard").write_bytes(torn)
    error = told("recover", path, "--apply", "--follow-links", code=5)["error"]
    assert "put the shard itself in the place of the link" in error["message"]
    assert (store / "shard").read_bytes() == torn
    shard.unlink()
    shard.write_bytes(torn)
    (image,) = told("recover", path, "--apply")["images"]
    assert image["frames_missing"] == 0
    told("verify", path)


# Shards that have changed places, and bytes that nothing vouches for.


@pytest.mark.parametrize("checksum", [[], ["--no-checksum"]])
def test_shards_that_have_changed_places_are_noticed_by_whoever_reads(told, tmp_path, checksum):
    np.save(tmp_path / "a.npy", pixels())
    path = tmp_path / "r.zarr"
    told("replay", tmp_path / "a.npy", path, "--no-sync", *LAYOUT, *checksum)
    one, other = path / "0/c/0/0/0", path / "0/c/1/0/0"
    one.rename(tmp_path / "aside")
    other.rename(one)
    (tmp_path / "aside").rename(other)
    told("verify", path, code=3)
    for call in [["export", path, tmp_path / "o.npy"], ["repack", path, tmp_path / "o.zarr"], ["repack", path]]:
        assert "in shard" in told(*call, code=3)["error"]["message"]
    assert not (tmp_path / "o.zarr").exists()


@pytest.mark.parametrize("shards", [None, (4, 32, 32)])
@pytest.mark.parametrize("compressor", [None, zarr.codecs.ZstdCodec(level=1), zarr.codecs.BloscCodec(cname="lz4")])
def test_a_chunk_that_nobody_can_read_is_not_copied(told, tmp_path, shards, compressor):
    """Without a checksum behind it, it is decoded: of a copy in place, it would be the last one."""
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=pixels(), chunks=(2, 16, 16), shards=shards, compressors=compressor)
    if shards:
        file = path / "c/0/0/0"
        data = bytearray(file.read_bytes())
        index = np.frombuffer(bytes(data[-68:-4]), "<u8").reshape(-1, 2)
        at, length = map(int, index[1])
        if compressor is None:
            return  # Any bytes are pixels.
        data[at : at + length] = bytes(length)
        file.write_bytes(data)
        calls = [["--index", "start"], ["--order", "morton"]]
    else:
        file = path / "c/0/0/1"
        file.write_bytes(file.read_bytes()[:-7])
        calls = [CUT]
    before = file.read_bytes()
    for options in calls:
        error = told("repack", path, tmp_path / "o.zarr", *options, code=3)["error"]
        assert "c/0/0/" in error["message"] and not (tmp_path / "o.zarr").exists()
        told("repack", path, *options, code=3)
        assert file.read_bytes() == before


# Shards in shards.


def nested(path):
    data = np.arange(8 * 32 * 32, dtype="u2").reshape(8, 32, 32)
    inner = zarr.codecs.ShardingCodec(chunk_shape=(1, 4, 4))
    middle = zarr.codecs.ShardingCodec(chunk_shape=(2, 8, 8), codecs=[inner])
    how = {"dtype": "u2", "chunks": (4, 16, 16), "serializer": middle, "compressors": None}
    array = zarr.create_array(path, shape=data.shape, **how)
    array[:] = data
    return data


def test_manifests_of_shards_in_shards_are_sound(told, tmp_path):
    path, out = tmp_path / "a.zarr", tmp_path / "a.manifest.zarr"
    data = nested(path)
    told("manifest", path)
    told("verify", out)
    told("export", out, tmp_path / "o.npy")
    assert_same(np.load(tmp_path / "o.npy"), data)
    (array,) = told("info", out)["arrays"]
    assert array["chunks_present"] == 8 * 8 * 8 and array["damaged"] == []
    told("repack", out, tmp_path / "o.zarr")
    assert_same(open_zarr_python(tmp_path / "o.zarr")[:], data)


def test_unsharded_means_every_layer(told, tmp_path):
    data = nested(tmp_path / "a.zarr")
    told("repack", tmp_path / "a.zarr", tmp_path / "o.zarr", "--unsharded")
    array = open_zarr_python(tmp_path / "o.zarr")
    assert_same(array[:], data)
    assert array.shards is None and array.chunks == (1, 4, 4)
    assert "sharding" not in (tmp_path / "o.zarr/zarr.json").read_text()
    told("verify", tmp_path / "o.zarr")


# Consolidated metadata.


@pytest.mark.filterwarnings("ignore")
def test_consolidated_metadata_around_a_pyramid_open(told, recorded, tmp_path):
    path, data = recorded
    root = tmp_path / "g.zarr"
    zarr.open_group(root, mode="w").create_array("b/0", data=data)
    shutil.move(path, root / "a")
    zarr.consolidate_metadata(root)
    told("pyramid", root / "a", "--levels", "2", "--no-sync")
    group = zarr.open_consolidated(root)
    shapes = {name: array.shape for name, array in group.members(max_depth=None) if isinstance(array, zarr.Array)}
    assert shapes["a/0"] == shapes["b/0"] == data.shape
    assert (shapes["a/1"], shapes["a/2"]) == ((12, 20, 25), (12, 10, 13))


@pytest.mark.filterwarnings("ignore")
def test_consolidated_metadata_follow_a_recovery(command, told, tmp_path):
    path = tmp_path / "g.zarr/r.zarr"
    zarr.open_group(tmp_path / "g.zarr", mode="w")
    call = [command, "replay", "synthetic", path, "--camera", "32x32xu16@100", "--no-sync", "-q"]
    run = subprocess.Popen([str(word) for word in [*call, "--chunk", "1", "--shard", "8", "--frames", "100000"]])
    while not any((path / "0/c").rglob("0")):
        assert run.poll() is None
    run.kill()
    run.wait()
    zarr.consolidate_metadata(path)
    zarr.consolidate_metadata(tmp_path / "g.zarr")
    (image,) = told("recover", path, "--apply")["images"]
    shape = tuple(image["shape"])
    assert shape[0] > 0 and open_zarr_python(path / "0").shape == shape
    assert zarr.open_consolidated(path)["0"].shape == shape
    assert zarr.open_consolidated(tmp_path / "g.zarr")["r.zarr/0"].shape == shape
    said = zarr.open_consolidated(tmp_path / "g.zarr")["r.zarr"].attrs["shardwright"]
    assert said["recovered"] is True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidated_metadata_that_are_old_are_damage(told, tmp_path, zarr_format):
    path = tmp_path / "g.zarr"
    promising(path, zarr_format)
    told("verify", path)
    zarr.open_group(path, mode="r+", use_consolidated=False)["img/1"].resize((6, 32, 32))
    (what,) = damage(told("verify", path, code=3))
    assert 'say that "img/1" has the shape [4, 32, 32], and it has [6, 32, 32]' in what
    zarr.consolidate_metadata(path)
    told("verify", path)


@pytest.mark.parametrize("gone", ["c/0/0/0", "c/1/0", "c"])
@pytest.mark.parametrize("shards", [None, (4, 32, 32)])
def test_a_link_to_content_that_was_not_fetched_is_no_chunk_without_pixels(told, tmp_path, gone, shards):
    path = tmp_path / "a.zarr"
    data = pixels((8, 64, 64))
    zarr.create_array(path, data=data, chunks=(4, 16, 16), shards=shards)
    # As git-annex and DataLad have it.
    link, away = path / gone, tmp_path / "annexed"
    link.rename(away)
    link.symlink_to(away.with_name("elsewhere"))
    sentence = "is a link to something that is not here"
    assert sentence in json.dumps(told("verify", path, code=3 if gone == "c/0/0/0" else 5))
    for words in (["export", path, tmp_path / "o.npy"], ["repack", path, tmp_path / "o.zarr"], ["repack", path]):
        way = ["--unsharded"] if shards is None and words[0] == "repack" else []
        codec = ["--codec", "gzip"] if words[0] == "repack" else []
        assert sentence in told(*words, *way, *codec, code=3)["error"]["message"], words
    assert link.is_symlink() and not (tmp_path / "o.npy").exists()
    link.unlink()
    away.rename(link)
    np.testing.assert_array_equal(zarr.open_array(path, mode="r")[:], data)
