"""Arrays whose chunks are files, alone and beside arrays with shards: they get what is asked for, and stay files."""

import json

import numpy as np
import pytest
import zarr
from arrays import files, pixels
from readers import assert_same


def test_all_arrays_get_the_codec(tool, tmp_path):
    path = tmp_path / "g.zarr"
    root = zarr.open_group(path, mode="w")
    root.create_array("img", data=pixels(), chunks=(2, 16, 16), shards=(4, 32, 32), compressors=None)
    found = {"times": np.arange(1000.0), "table": pixels(1, (30, 20))}
    for name, data in found.items():
        root.create_array(name, data=data, chunks=tuple(10 for _ in data.shape), compressors=None)
    codecs = lambda path, name: [type(codec).__name__ for codec in zarr.open_group(path, mode="r")[name].compressors]
    tool("repack", path, tmp_path / "o.zarr", "--codec", "zstd")
    out = zarr.open_group(tmp_path / "o.zarr", mode="r")
    assert out["img"].shards == (4, 32, 32)
    for name, data in found.items():
        assert "ZstdCodec" in codecs(tmp_path / "o.zarr", name) and out[name].shards is None
        assert_same(out[name][...], data)
    for options in [["--unsharded"], ["--shard", "4,32,32", "--skip", "table"]]:
        out = tmp_path / f"{options[0]}.zarr"
        said = tool("repack", path, out, "--codec", "zstd", *options)
        assert codecs(out, "img") != [] and "ZstdCodec" in codecs(out, "times")
        assert '"times"' not in said and zarr.open_group(out, mode="r")["times"].shards is None
        for name, data in found.items():
            assert_same(zarr.open_group(out, mode="r")[name][...], data)
    assert "ZstdCodec" in codecs(tmp_path / "--unsharded.zarr", "table")
    # In place, too.
    tool("repack", path, "--unsharded", "--codec", "gzip")
    assert "GzipCodec" in codecs(path, "times")
    assert_same(zarr.open_group(path, mode="r")["times"][...], found["times"])


def test_the_writer_s_own_records_keep_their_form(tool, replay, tmp_path):
    dataset = replay("synthetic", "--camera", "64x64xu16", "--frames", "9")[1]
    said = tool("repack", dataset, tmp_path / "o.zarr", "--codec", "zstd", "--unsharded")
    assert '"records' not in said
    before, after = (dataset / "records", tmp_path / "o.zarr/records")
    assert files(before) == files(after)
    tool("verify", tmp_path / "o.zarr")


def test_files_of_a_chunk_are_not_called_shards(tool, tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=pixels(), chunks=(2, 16, 16), shards=(4, 32, 32))
    assert "48 chunk files written" in tool("repack", tmp_path / "a.zarr", tmp_path / "o.zarr", "--unsharded")
    assert "8 shards written" in tool("repack", tmp_path / "a.zarr", tmp_path / "p.zarr", "--codec", "zstd")
    # Also where nobody has asked for files, because they are files already.
    said = tool("repack", tmp_path / "o.zarr", tmp_path / "q.zarr", "--codec", "gzip")
    assert "48 chunk files written" in said
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    group.create_array("a", data=pixels(), chunks=(2, 16, 16), shards=(4, 32, 32))
    group.create_array("b", data=pixels(), chunks=(2, 16, 16))
    said = tool("repack", tmp_path / "g.zarr", tmp_path / "r.zarr", "--codec", "gzip")
    assert "56 shards and chunk files written" in said
    assert json.loads(tool("repack", tmp_path / "g.zarr", "--codec", "zstd", "--json"))["chunk_files"] == 48


@pytest.mark.parametrize("options", [[], ["--codec", "gzip"], ["--chunk", "3,20,20"]])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_chunks_that_are_files_stay_files_where_nobody_asks_for_shards(tool, tmp_path, zarr_format, options):
    path, out = tmp_path / "a.zarr", tmp_path / "o.zarr"
    data, times = pixels(), np.arange(100.0)
    root = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    root.create_array("img", data=data, chunks=(2, 16, 16), compressors=None)
    root.create_array("times", data=times, chunks=(10,), compressors=None)
    root.create_array("one", data=np.array(7.5), compressors=None)
    tool("repack", path, out, *options)
    copy = zarr.open_group(out, mode="r", zarr_format=3)
    assert copy["img"].shards is None and copy["times"].shards is None
    assert copy["img"].chunks == ((3, 20, 20) if "--chunk" in options else (2, 16, 16))
    assert_same(copy["img"][...], data), assert_same(copy["times"][...], times)
    assert copy["one"][...] == 7.5 and copy["times"].chunks == (10,)
    tool("verify", out)
    if zarr_format == 3:
        tool("repack", path, *options, code=0 if options else 2)
        assert_same(zarr.open_group(path, mode="r")["img"][...], data)
        assert zarr.open_group(path, mode="r")["img"].shards is None
    else:
        # In place, a dataset keeps its format.
        tool("repack", path, *options, code=0 if options else 2)
        assert_same(zarr.open_group(path, mode="r", zarr_format=2)["img"][...], data)
