"""The CRC-32 that an archive has of each entry: what of an entry is changed, nobody may take for what was written."""

import json
import struct
import zipfile

import numpy as np
import pytest
import zarr

CHANGED = "is not what its archive has a checksum of"
MOVIE = np.arange(4 * 16 * 16, dtype=np.uint16).reshape(4, 16, 16) + 1


def entry_at(archive, name):
    """Where the bytes of an entry begin, and the first of its record in the directory."""
    with zipfile.ZipFile(archive) as opened:
        header_at = opened.getinfo(name).header_offset
    data = archive.read_bytes()
    at = header_at + 30 + sum(struct.unpack_from("<HH", data, header_at + 26))
    # Behind all entries: a name also stands in its own header.
    return at, data.rindex(name.encode()) - 46


def flip(archive, at, mask=0x10):
    data = bytearray(archive.read_bytes())
    data[at] ^= mask
    archive.write_bytes(data)


def damage(tool, archive):
    """What `verify` tells of that is damage, by paths."""
    found = json.loads(tool("verify", archive, "--json", code=3))["findings"]
    return [(finding["path"], finding["what"]) for finding in found if finding["severity"] == "damage"]


def theirs(path, **kind):
    """An archive of another program, with an array at its root."""
    with zarr.storage.ZipStore(path, mode="w") as store:
        options = {"shape": MOVIE.shape, "chunks": (1, 16, 16), "dtype": "u2", "fill_value": 0, "compressors": None}
        zarr.create_array(store, **(options | kind))[...] = MOVIE
    return path


@pytest.fixture
def own(tool, tmp_path):
    out = tmp_path / "run.ozx"
    tool("replay", "synthetic", out, "--camera", "64x64xu16", "--frames", "8", "--quiet")
    tool("verify", out)
    return out


@pytest.mark.parametrize(
    ("kind", "entry"),
    [({}, "c/1/0/0"), ({"shards": (2, 16, 16)}, "c/0/0/0")],
    ids=["chunks", "shards"],
)
def test_a_changed_pixel_without_a_checksum_of_its_own_is_found_and_not_copied(tool, tmp_path, kind, entry):
    archive = theirs(tmp_path / "theirs.zip", **kind)
    # The archive vouches for its entries.
    assert "what was written" in tool("verify", archive)
    flip(archive, entry_at(archive, entry)[0] + 7)
    with zipfile.ZipFile(archive) as opened:
        assert opened.testzip() == entry
    assert damage(tool, archive) == [(entry, CHANGED)]
    out = tmp_path / "out.zarr"
    for call in [
        ["repack", archive, out],
        ["repack", archive, out, "--codec", "zstd", "--shard", "2,16,16"],
        ["repack", archive, out, "--chunk", "2,8,8", "--shard", "2,16,16"],
        ["export", archive, tmp_path / "all.npy"],
        ["replay", archive, tmp_path / "copy.ozx", "--quiet"],
    ]:
        said = tool(*call, code=3)
        assert entry in said and CHANGED in said, (call, said)
        assert not out.exists() and not (tmp_path / "all.npy").exists()
    # What is read of other entries is right.
    tool("export", archive, tmp_path / "part.npy", "--region", "2:4,:,:")
    assert (np.load(tmp_path / "part.npy") == MOVIE[2:4]).all()


def test_chunks_with_checksums_of_their_own_vouch_for_themselves(tool, tmp_path):
    archive = theirs(tmp_path / "theirs.zip", compressors=[zarr.codecs.Crc32cCodec()], shards=(2, 16, 16))
    flip(archive, entry_at(archive, "c/1/0/0")[1] + 16)
    assert damage(tool, archive) == [("c/1/0/0", CHANGED)]
    tool("export", archive, tmp_path / "all.npy")
    assert (np.load(tmp_path / "all.npy") == MOVIE).all()
    tool("repack", archive, tmp_path / "out.zarr")
    tool("verify", tmp_path / "out.zarr")


def test_a_changed_record_of_our_own_archive_is_found_and_not_copied(tool, tmp_path, own):
    name = "records/host_timestamp/c/0"
    flip(own, entry_at(own, name)[0] + 9)
    assert damage(tool, own) == [(name, CHANGED)]
    for options in [[], ["--codec", "zstd"]]:
        said = tool("repack", own, tmp_path / "out.ome.zarr", *options, code=3)
        assert name in said and CHANGED in said
    # Pixels are another matter.
    tool("export", own, tmp_path / "all.npy")
    said = tool("export", own / "records/host_timestamp", tmp_path / "times.npy", code=3)
    assert name in said and CHANGED in said


def test_a_checksum_that_is_changed_itself_is_found(tool, tmp_path, own):
    name = "0/c/0/0/0"
    flip(own, entry_at(own, name)[1] + 16)
    assert damage(tool, own) == [(name, CHANGED)]
    # The headers of the slots vouch for the chunks.
    tool("repack", own, tmp_path / "out.ozx")
    tool("verify", tmp_path / "out.ozx")
    with zipfile.ZipFile(tmp_path / "out.ozx") as opened:
        assert opened.testzip() is None
