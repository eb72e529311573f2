"""Data that a command would lose, or take for right, without a word: chunks at the root of an archive, chunks that are
no files, folders that nobody may enter, bytes behind a stream, chunks that share their bytes."""

import json
import os
import shutil
import struct

import numpy as np
import pytest
import zarr
from readers import assert_same

CRC32C = 0x82F63B78
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
DATA = np.arange(1, 65, dtype="u2").reshape(8, 8)


def sharded(path, **options):
    return zarr.create_array(path, data=DATA, chunks=(4, 4), shards=(8, 8), **options)


def small(path):
    return zarr.create_array(path, data=DATA, chunks=(4, 4), shards=(4, 4))


def zarr2(path, **options):
    return zarr.create_array(path, data=DATA, chunks=(4, 4), zarr_format=2, **options)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (CRC32C if crc & 1 else 0)
    return struct.pack("<I", crc ^ 0xFFFFFFFF)


def with_index(chunks, entries):
    index = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    return chunks + index + crc32c(index)


def damage(verified):
    return [finding for finding in verified["findings"] if finding["severity"] == "damage"]


# An archive that is one array.


@pytest.mark.parametrize("ending", ["ozx", "zip"])
def test_an_array_at_the_root_of_an_archive_keeps_its_chunks(told, tmp_path, ending):
    path, archive = tmp_path / "a.zarr", tmp_path / f"a.{ending}"
    small(path)
    if ending == "ozx":
        told("repack", path, archive)
    else:
        with zarr.storage.ZipStore(archive, mode="w") as store:
            small(store)
    assert told("verify", archive)["arrays"][0]["chunks"] == 4
    assert told("info", archive)["arrays"][0]["chunks_present"] == 4
    cases = {"o.zarr": [], "o.ozx": [], "o2.zarr": ["--dialect", "zarr2"], "u.zarr": ["--unsharded"]}
    for name, options in cases.items():
        out = tmp_path / name
        told("repack", archive, out, *options)
        store = zarr.storage.ZipStore(out, mode="r") if name.endswith(".ozx") else out
        inner = "0" if "zarr2" in options else ""
        assert_same(zarr.open_array(store, path=inner, mode="r")[...], DATA, name)


# Chunks that are no regular files.


@pytest.mark.parametrize("kind", ["pipe", "empty folder", "folder"])
@pytest.mark.parametrize("make", [small, zarr2])
def test_what_stands_for_a_chunk_and_is_no_file_is_refused(told, tmp_path, make, kind):
    path = tmp_path / "a.zarr"
    make(path)
    name = "0.1" if make is zarr2 else "c/0/1"
    chunk = path / name
    chunk.unlink()
    if kind == "pipe":
        os.mkfifo(chunk)
    else:
        chunk.mkdir()
        if kind == "folder":
            (chunk / "x").write_bytes(b"x")
    (found,) = damage(told("verify", path, code=3))
    assert found["path"] == name and "is not a regular file" in found["what"]
    for words in (["export", path, tmp_path / "o.npy"], ["repack", path, tmp_path / "o.zarr", "--shard", "8,8"],
                  ["repack", path, tmp_path / "c.zarr"], ["manifest", path, tmp_path / "m"]):  # fmt: skip
        error = told(*words, code=3)["error"]
        assert name in error["message"] and "is not a regular file" in error["message"]


# Folders that can be listed and not entered.


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may do anything without setpriv")
@pytest.mark.parametrize("folder", ["c", "c/0"])
def test_a_folder_of_chunks_that_nobody_may_enter_is_told(told, tmp_path, folder):
    tmp_path.chmod(0o777)
    for above in tmp_path.parents[:-2]:
        above.chmod(above.stat().st_mode | 0o111)
    path = tmp_path / "a.zarr"
    small(path)
    (path / folder).chmod(0o444)
    try:
        found = damage(told("verify", path, code=3, before=AS_NOBODY))
        assert found and all("Permission denied" in finding["what"] for finding in found)
        for words in (["manifest", path, tmp_path / "m"], ["repack", path, tmp_path / "o.zarr", "--shard", "8,8"],
                      ["export", path, tmp_path / "o.npy"]):  # fmt: skip
            assert "Permission denied" in told(*words, code=1, before=AS_NOBODY)["error"]["message"]
    finally:
        (path / folder).chmod(0o755)


# Bytes behind a compressed stream.


@pytest.mark.parametrize("codec", ["gzip", "zlib"])
def test_bytes_behind_a_stream_are_damage(told, tmp_path, codec):
    from numcodecs import GZip, Zlib

    path = tmp_path / "a.zarr"
    zarr2(path, compressors=GZip(1) if codec == "gzip" else Zlib(1))
    told("verify", path)
    chunk = path / "0.0"
    chunk.write_bytes(chunk.read_bytes() + b"junk behind it")
    if codec == "gzip":
        with pytest.raises(OSError):
            zarr.open_array(path, mode="r")[...]
    (found,) = damage(told("verify", path, code=3))
    assert "other bytes follow" in found["what"]
    assert "other bytes follow" in told("export", path, tmp_path / "o.npy", code=3)["error"]["message"]


def test_bytes_behind_a_stream_in_a_shard_are_damage(told, tmp_path):
    path = tmp_path / "a.zarr"
    sharded(path, compressors=zarr.codecs.GzipCodec(level=1))
    told("verify", path)
    shard = path / "c/0/0"
    chunks, index = shard.read_bytes()[:-68], shard.read_bytes()[-68:]
    entries = list(struct.iter_unpack("<QQ", index[:64]))
    last = max(range(4), key=lambda at: entries[at])
    entries[last] = (entries[last][0], entries[last][1] + 4)
    shard.write_bytes(with_index(chunks + b"junk", entries))
    (found,) = damage(told("verify", path, code=3))
    assert "other bytes follow" in found["what"] and found["chunk"] == last


# Chunks that share their bytes.


@pytest.mark.parametrize("options", [[], ["--shard", "16,16"], ["--unsharded"], ["--dialect", "zarr2"]])
def test_a_shard_whose_chunks_share_their_bytes_is_not_made_sound(told, tmp_path, options):
    path, out = tmp_path / "a.zarr", tmp_path / "o.zarr"
    sharded(path)
    shard = path / "c/0/0"
    chunks, index = shard.read_bytes()[:-68], shard.read_bytes()[-68:]
    entries = list(struct.iter_unpack("<QQ", index[:64]))
    entries[1] = entries[0]
    shard.write_bytes(with_index(chunks, entries))
    assert any("within chunk" in finding["what"] for finding in damage(told("verify", path, code=3)))
    assert "within chunk" in told("repack", path, out, *options, code=3)["error"]["message"]
    assert not out.exists()


# JSON that Python's parser reads.


def test_numbers_of_any_size_and_a_byte_order_mark_are_no_damage(told, tmp_path):
    path, out = tmp_path / "a.zarr", tmp_path / "o.zarr"
    zarr2(path)
    text = '{"far": 1e400, "near": -1.5E+999, "long": 123456789012345678901234567890}'
    (path / ".zattrs").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert zarr.open_array(path, mode="r").attrs["far"] == float("inf")
    told("verify", path)
    told("repack", path, out, "--dialect", "zarr3", "--shard", "8,8")
    assert '"far": 1e400' in (out / "zarr.json").read_text()
    assert_same(zarr.open_array(out, mode="r")[...], DATA)


def test_half_of_a_surrogate_pair_is_not_called_broken(told, tmp_path):
    path = tmp_path / "a.zarr"
    small(path)
    document = path / "zarr.json"
    told_of = json.loads(document.read_text())
    for half in ("\ud800", "\udc00", "\ud800x"):
        document.write_text(json.dumps({**told_of, "attributes": {"name": half}}))
        message = told("info", path, code=5)["error"]["message"]
        assert "half of a surrogate pair" in message and "not JSON" not in message
