"""Arrays whose chunks are files, alone and beside arrays with shards: they get what is asked for, and stay files."""

import json
import re
import zipfile

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


# Arrays of other writers without rows and columns, and beside ones that lengths or a format leave no place for.


@pytest.mark.parametrize("shape", [(10,), (3,)])
def test_an_archive_of_an_array_of_one_dimension_is_unpacked(tool, tmp_path, shape):
    data = np.arange(float(shape[0]))
    zarr.create_array(tmp_path / "a", data=data, chunks=(4,))
    group = zarr.open_group(tmp_path / "g", mode="w", attributes={"k": 1})
    group.create_array("times", data=data, chunks=(4,))
    group.create_array("one", data=np.array(7.5))
    for name in "ag":
        with zipfile.ZipFile(tmp_path / f"{name}.ozx", "w") as archive:
            for file, content in files(tmp_path / name).items():
                archive.writestr(file, content)
        tool("repack", tmp_path / f"{name}.ozx", tmp_path / f"{name}-out")
        tool("verify", tmp_path / f"{name}-out")
        # And packed.
        tool("repack", tmp_path / f"{name}-out", tmp_path / f"{name}-again.ozx")
        tool("verify", tmp_path / f"{name}-again.ozx")
    assert_same(zarr.open_array(tmp_path / "a-out", mode="r")[...], data)
    out = zarr.open_group(tmp_path / "g-out", mode="r")
    assert_same(out["times"][...], data)
    assert out["one"][...] == 7.5 and dict(out.attrs) == {"k": 1}
    # What asks for shards is still refused.
    assert "no array" in tool("repack", tmp_path / "a", tmp_path / "s", "--shard", "4", code=2)


def zarr2_tree(path, consolidated):
    root = zarr.open_group(path, mode="w", zarr_format=2)
    root.create_array("0", data=pixels(1, (4, 16, 16)), chunks=(2, 8, 8))
    root.create_array("labels/cells/0", data=pixels(2, (16, 16)), chunks=(8, 8))
    root.create_array("times", data=np.arange(16.0), chunks=(8,))
    root.create_array("one", data=np.array(7.5))
    if consolidated:
        zarr.consolidate_metadata(path, zarr_format=2)
    return path


def hinted(said):
    return re.search(r"--skip ([\w/,.]+[\w])", said).group(1)


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_lengths_that_fit_some_arrays_of_zarr2_say_what_helps(tool, tmp_path, consolidated, in_place):
    path = zarr2_tree(tmp_path / "a", consolidated)
    call = ["repack", path, *([] if in_place else [tmp_path / "o"]), "--chunk", "1,8,8", "--codec", "gzip"]
    call += [] if in_place else ["--dialect", "zarr2"]
    names = hinted(tool(*call, code=2))
    assert names == "labels/cells/0"
    tool(*call, "--skip", names)
    out = zarr.open_group(path if in_place else tmp_path / "o", mode="r", zarr_format=2)
    assert out["0"].chunks == (1, 8, 8) and out["labels/cells/0"].chunks == (8, 8)
    for name, data in [("0", pixels(1, (4, 16, 16))), ("labels/cells/0", pixels(2, (16, 16)))]:
        assert_same(out[name][...], data)
    # Where they fit none, leaving all out would help nobody.
    call[call.index("1,8,8")] = "1,1,8,8"
    assert "--skip" not in tool(*call, code=2)


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("dialect", ["zarr2-sharded", "precomputed"])
def test_all_arrays_that_would_be_lost_are_named_at_once(tool, tmp_path, consolidated, dialect):
    path = zarr2_tree(tmp_path / "a", consolidated)
    call = ["repack", path, tmp_path / "o", "--dialect", dialect, "--codec", "none", "--skip", "labels"]
    names = hinted(tool(*call, code=2).replace("--skip labels", ""))
    assert sorted(names.split(",")) == ["one", "times"]
    call[-1] += f",{names}"
    tool(*call)
    tool("verify", tmp_path / "o")


@pytest.mark.parametrize("dialect", ["zarr2-sharded", "precomputed"])
@pytest.mark.parametrize("shape", [(16,), (16, 0)])
def test_no_image_is_asked_for_a_codec(told, tmp_path, shape, dialect):
    zarr.create_array(tmp_path / "a.zarr", shape=shape, chunks=(8,) * len(shape), dtype="u1")
    for codec in [[], ["--codec", "none"]]:
        error = told("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", dialect, *codec, code=2)["error"]
        assert "has rows and columns, and at least one element" in error["message"]


def test_dimensions_that_have_no_names_are_counted(told, tmp_path):
    zarr.create_array(tmp_path / "a.zarr", shape=(1,) * 17, chunks=(1,) * 17, dtype="u1")[...] = 1
    call = ["repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", "zarr2-sharded", "--codec", "zstd"]
    message = told(*call, code=2)["error"]["message"]
    assert "17 dimensions without names: 2 to 16" in message and "dim_" not in message
