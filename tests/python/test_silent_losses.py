"""Data that a command would lose, or take for right, without a word: chunks at the root of an archive, chunks that are
no files, folders that nobody may enter, bytes behind a stream, chunks that share their bytes."""

import contextlib
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


# Pipes and sockets beside arrays.


def test_what_can_t_be_copied_is_told(told, tmp_path):
    import socket

    path = tmp_path / "g.zarr"
    zarr.open_group(path, mode="w")
    sharded(path / "a")
    (path / "notes").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        # Its name may be no longer than 107 bytes, so it is told from where it stands.
        with contextlib.chdir(path / "notes"):
            server.bind("socket")
    for odd in [path / "pipe", path / "a" / "pipe"]:
        os.mkfifo(odd)
    said = {str(path / odd) + " is neither a file nor a folder, and is left out" for odd in ["notes/socket", "pipe"]}
    inner = str(path / "a/pipe") + " is neither a file nor a folder, and is left out"
    cases = {"o.zarr": [], "o.ozx": [], "v": ["--dialect", "precomputed", "--codec", "none"],
             "two.zarr": ["--dialect", "zarr2", "--unsharded"]}  # fmt: skip
    for out, options in cases.items():
        assert said | {inner} <= set(told("repack", path, tmp_path / out, *options)["notes"]), out
        assert not [found for found in (tmp_path / out).rglob("*") if found.name in ("pipe", "socket")]
    # In place, nothing is lost but in the folders of arrays that are made again.
    notes = told("repack", path, "--codec", "gzip")["notes"]
    assert inner in notes and not said & set(notes)
    assert (path / "pipe").exists() and (path / "notes" / "socket").exists()


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


@pytest.mark.parametrize("make", [zarr2, zarr.create_array])
def test_several_members_of_gzip_are_read_as_zarr_python_reads_them(told, tmp_path, make):
    import gzip

    from numcodecs import GZip

    raw = DATA[:4, :4].tobytes()
    cases = {
        "twice": gzip.compress(raw) * 2, "halves": gzip.compress(raw[:10]) + gzip.compress(raw[10:]),
        "empty": gzip.compress(raw) + gzip.compress(b""), "short": gzip.compress(raw[:10]), "one": gzip.compress(raw),
        "padded": gzip.compress(raw) + bytes(7), "apart": gzip.compress(raw[:10]) + bytes(3) + gzip.compress(raw[10:]),
        "more": gzip.compress(raw) + gzip.compress(b"x"), "cut": (gzip.compress(raw) * 2)[:-1],
    }  # fmt: skip
    for name, chunk in cases.items():
        path = tmp_path / name
        if make is zarr2:
            zarr2(path, compressors=GZip(1))
        else:
            zarr.create_array(path, data=DATA, chunks=(4, 4), compressors=zarr.codecs.GzipCodec(level=1))
        (path / ("0.0" if make is zarr2 else "c/0/0")).write_bytes(chunk)
        is_whole = name in ("halves", "empty", "one", "padded", "apart")
        if is_whole:
            assert_same(zarr.open_array(path, mode="r")[...], DATA, name)
            told("verify", path)
            told("export", path, tmp_path / f"{name}.npy")
            assert_same(np.load(tmp_path / f"{name}.npy"), DATA, name)
            continue
        with pytest.raises((ValueError, OSError, EOFError)):
            zarr.open_array(path, mode="r")[...]
        assert "gzip: " in damage(told("verify", path, code=3))[0]["what"]
        assert "gzip: " in told("export", path, tmp_path / "o.npy", code=3)["error"]["message"]


def test_a_stream_of_zlib_that_is_there_twice_is_damage(told, tmp_path):
    from numcodecs import Zlib

    zarr2(tmp_path / "a.zarr", compressors=Zlib(1))
    chunk = tmp_path / "a.zarr/0.0"
    chunk.write_bytes(chunk.read_bytes() * 2)
    assert "other bytes follow" in damage(told("verify", tmp_path / "a.zarr", code=3))[0]["what"]


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


@pytest.mark.parametrize("inner", [16, 32])
def test_chunks_that_share_their_bytes_are_no_pixels_of_an_export_or_a_manifest(told, tmp_path, inner):
    path = tmp_path / "a.zarr"
    sharded(path, compressors=None)
    shard = path / "c/0/0"
    chunks = shard.read_bytes()[:-68]
    shard.write_bytes(with_index(chunks, [(0, 32), (inner, 32), (inner, 32), (96, 32)]))
    assert any("within chunk" in finding["what"] for finding in damage(told("verify", path, code=3)))
    for words in (["export", path, tmp_path / "o.npy"], ["export", path, tmp_path / "o.tif", "--region", "0:2,0:2"],
                  ["manifest", path, tmp_path / "m"]):  # fmt: skip
        message = told(*words, code=3)["error"]["message"]
        assert "c/0/0: chunk" in message and "within chunk" in message
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.zarr"]


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
