"""Datasets as recordings of `shardwright replay`: what is not whole, and what the run itself would destroy."""

import json
import resource
import signal
import subprocess
import time

import numpy as np
import pytest
import zarr
from readers import assert_same, open_zarr_python

CAMERA = ["--camera", "64x48xu16", "--frames", "600", "--chunk", "4,24,32", "--shard", "16,48,64"]


@pytest.fixture
def camera(command, tmp_path):
    """A run that takes some ten seconds, once frames of it are on the disk."""
    run = tmp_path / "run.ome.zarr"
    call = [command, "replay", "synthetic", run, *CAMERA, "--rate", "60", "--quiet", "--checkpoint-every", "0.1"]
    writer = subprocess.Popen([str(word) for word in call])
    while not list(run.glob("0/c/*/0/0")):
        assert writer.poll() is None
        time.sleep(0.02)
    time.sleep(0.5)
    yield writer, run
    writer.kill()
    writer.wait()


@pytest.fixture
def dataset(replay):
    _, path = replay("synthetic", "--camera", "64x48xu16", "--frames", 8, "--chunk", "2,24,32")
    return path, open_zarr_python(path / "0")[...]


def digest(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_dataset_that_is_being_written_is_refused(camera, refused):
    _, run = camera
    for path in [run, run / "0"]:
        assert "is being written" in refused(path, code=1)


def test_a_dataset_whose_writer_was_killed_is_refused_until_it_is_recovered(camera, refused, replay, tool, tmp_path):
    writer, run = camera
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    for path in [run, run / "0"]:
        assert "its writer did not finish" in refused(path) and "recover it first" in refused(path)
    said = json.loads(tool("replay", run, tmp_path / "copy.zarr", "--json", code=3).splitlines()[0])["error"]
    assert said["kind"] == "unfinished" and said["exit_code"] == 3 and "recover it first" in said["message"]
    # Nor is there a copy, which nothing could recover.
    assert "recover it first" in tool("repack", run, tmp_path / "copy.zarr", code=3)
    assert not (tmp_path / "copy.zarr").exists()
    tool("recover", run, "--apply")
    report, out = replay(run, code=4)
    there = report["frames_written"]
    assert 0 < there < 600 and report["frames_missing"] == 600 - there and report["missing"][-1]["end"] == 600
    own = zarr.open_group(out, mode="r").attrs["shardwright"]
    assert (own["frames"], own["frames_planned"], own["frames_missing"]) == (there, 600, 0)
    assert f"{there} of 600 planned frames came" in tool("verify", out)
    frames = open_zarr_python(run / "0")
    assert_same(open_zarr_python(out / "0")[...][:there], frames[...][:there])


@pytest.mark.parametrize("more", [[], ["--preload"], ["--dma"]])
def test_what_is_read_is_never_replaced(tool, refused, dataset, tmp_path, more):
    path, _ = dataset
    tool("manifest", path, tmp_path / "by-reference.zarr")
    (tmp_path / "link.zarr").symlink_to(path)
    before = digest(tmp_path)
    for source in [path, path / "0", tmp_path / "link.zarr/0", tmp_path / "by-reference.zarr"]:
        for out in [path, tmp_path / "link.zarr"]:
            said = tool("replay", source, out, "--overwrite", *more, code=2)
            assert "would replace the input" in said, (source, out, said)
    for out in [path / "copy", path / "0" / "copy", path / "new/folder/copy"]:
        said = tool("replay", path, out, *more, code=2)
        assert "which is read; choose a path beside it" in said, (out, said)
    assert "would replace the input" in tool("replay", path, tmp_path / "o", "--soak", path, "--overwrite", code=2)
    assert digest(tmp_path) == before


def test_a_page_of_a_long_run_replaces_nothing_unasked(tool, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("mine")
    call = ["replay", "synthetic", tmp_path / "out.zarr", "--camera", "64x48xu8", "--frames", 5, "--soak"]
    said = tool(*call, page, code=1)
    assert "--soak" in said and "--overwrite" in said and page.read_text() == "mine"
    assert "can't write" in tool(*call, tmp_path / "no/page.html", code=3)
    assert not (tmp_path / "out.zarr").exists()
    tool(*call, page, "--overwrite")
    assert "<svg" in page.read_text()


def test_old_shards_of_a_dataset_in_one_file_stay(tool, tmp_path):
    out, page = tmp_path / "out.ozx", tmp_path / "page.html"
    call = ["replay", "synthetic", out, "--no-sync", "--camera", "64x48xu8"]
    for options in (["--roll", "1MB"], ["--roll", "1MB", "--soak", page]):
        said = tool(*call, "--frames", 5, *options, code=2)
        assert "--roll deletes old shards, which can't be taken out of a dataset in one file" in said
    # More than any disk has room for.
    assert "--soak without room for all" in tool(*call, "--frames", 10**15, "--soak", page, code=2)
    assert not out.exists() and not page.exists()
    tool(*call, "--frames", 5, "--soak", page)
    assert "<svg" in page.read_text() and "sound" in tool("verify", out)


def test_a_pyramid_of_no_method_is_none(replay, refused, tmp_path):
    call = ["synthetic", "--camera", "600x600xu8", "--frames", 3]
    for more in ([], ["--bare"]):
        report, out = replay(*call, "--pyramid", "none", *more)
        assert report["frames_written"] == 3 and len(report["levels"]) == len(replay(*call, *more)[0]["levels"])
        assert not (out / "1").exists()
    for option, value in [("--levels", 1), ("--z", "auto"), ("--keep", "y")]:
        said = refused(*call, "--pyramid", "none", option, value, code=2)
        assert f"{option} is of levels, but --pyramid is none" in said
    assert "--bare" in refused(*call, "--pyramid", "mean", "--bare", code=2)


def test_names_colours_and_windows_of_channels_are_kept(replay, tmp_path):
    image = zarr.open_group(tmp_path / "in.zarr", mode="w")
    image.create_array("0", data=np.arange(2 * 3 * 4 * 5, dtype="u2").reshape(2, 3, 4, 5))
    axes = [{"name": name, "type": kind} for name, kind in zip("tcyx", ["time", "channel", "space", "space"])]
    levels = [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 1, 2, 2]}]}]
    channels = [
        {"label": "a", "color": "102030", "window": {"min": 0, "max": 65535, "start": 7, "end": 9}},
        {"label": "b", "color": "FF8000"},
        {"label": "c", "window": {"start": 9, "end": 7}},
    ]
    multiscales = [{"name": "cells", "axes": axes, "datasets": levels}]
    image.attrs["ome"] = {"version": "0.5", "multiscales": multiscales, "omero": {"channels": channels}}
    report, out = replay(tmp_path / "in.zarr")
    ome = zarr.open_group(out, mode="r").attrs["ome"]
    assert ome["multiscales"][0]["name"] == "cells"
    found = [(c["label"], c["color"], c["window"]["start"], c["window"]["end"]) for c in ome["omero"]["channels"]]
    assert found == [("a", "102030", 7, 9), ("b", "FF8000", 20, 99), ("c", "00FFFF", 40, 119)]
    (note,) = [note for note in report["notes"] if "colours" in note]
    assert "c 00FFFF" in note and "FF8000" not in note


def test_documents_that_are_too_deep_are_unsupported_in_every_command(tool, tmp_path):
    deep = tmp_path / "deep.zarr"
    zarr.create_array(deep / "0", shape=(4, 4), dtype="u1", chunks=(4, 4))[...] = 7
    attributes = "[" * 300 + "]" * 300
    (deep / "zarr.json").write_text(f'{{"zarr_format":3,"node_type":"group","attributes":{{"a":{attributes}}}}}')
    out = tmp_path / "out"
    for words in [
        ["info", deep], ["verify", deep], ["recover", deep], ["pyramid", deep], ["manifest", deep, out],
        ["repack", deep, out], ["replay", deep, out], ["export", deep, f"{out}.tif"],
    ]:  # fmt: skip
        said = tool(*words, code=5)
        assert "127 deep" in said, (words, said)
        assert not out.exists(), words


def test_a_low_limit_of_open_files_blames_the_limit(command, tmp_path):
    def run(limit, *options):
        limited = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        call = [command, "replay", "synthetic", tmp_path / "out.zarr", "--camera", "256x256xu8", "--frames", "4"]
        call = [str(word) for word in [*call, "--memory", "16MiB", "--json", *options]]
        done = subprocess.run(call, capture_output=True, text=True, preexec_fn=limited)
        assert done.returncode == 1 and not (tmp_path / "out.zarr").exists(), done.stderr
        return json.loads(done.stdout)["error"]

    said = run(40)
    assert said["kind"] == "failed" and said["exit_code"] == 1
    assert "ulimit -n 67" in said["message"] and "one shard" in said["message"] and "larger" not in said["message"]
    said = run(100, "--chunk", "1,32,32", "--shard", "1,32,32")["message"]
    assert "ulimit -n 256" in said and "make shards larger" in said and "--shard " not in said


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_dimensions_without_names_are_named_by_who_calls(told, tool, tmp_path, zarr_format):
    def made(name, shape, **options):
        data = np.arange(np.prod(shape), dtype="u2").reshape(shape)
        path = tmp_path / name
        zarr.create_array(path, data=data, chunks=(*[1] * (len(shape) - 2), 8, 8), zarr_format=zarr_format, **options)
        return path, data

    four, data = made("four.zarr", (2, 3, 10, 12))
    message = told("replay", four, tmp_path / "o", code=2)["error"]["message"]
    assert "4 dimensions" in message and "have no names" in message and "--axes" in message
    assert not (tmp_path / "o").exists()
    for axes, part in [("t,y,x", "names 3"), ("t,y,x,c", "not channels")]:
        assert part in told("replay", four, tmp_path / "o", "--axes", axes, code=2)["error"]["message"]
    assert told("replay", four, tmp_path / "o", "--axes", "c,z,y,x", "--no-sync")["frames_written"] == 6
    array = open_zarr_python(tmp_path / "o/0")
    assert array.metadata.dimension_names == ("c", "z", "y", "x")
    assert_same(array[...], data)
    three, data = made("three.zarr", (3, 10, 12))
    (note,) = told("replay", three, tmp_path / "t", "--no-sync")["notes"]
    assert "t, y, x" in note and "--axes" in note
    assert open_zarr_python(tmp_path / "t/0").metadata.dimension_names == ("t", "y", "x")
    assert told("replay", three, tmp_path / "z", "--axes", "z,y,x", "--no-sync")["notes"] == []
    assert open_zarr_python(tmp_path / "z/0").metadata.dimension_names == ("z", "y", "x")
    # What has names keeps them.
    for path in [tmp_path / "z", tmp_path / "z/0"]:
        message = told("replay", path, tmp_path / "no", "--axes", "t,y,x", code=2)["error"]["message"]
        assert "have names already: z,y,x" in message
    # Also in an archive.
    tool("repack", four, tmp_path / "four.ozx")
    assert "--axes" in told("replay", tmp_path / "four.ozx", tmp_path / "a", code=2)["error"]["message"]
    told("replay", tmp_path / "four.ozx", tmp_path / "a", "--axes", "t,c,y,x", "--no-sync")
    assert open_zarr_python(tmp_path / "a/0").metadata.dimension_names == ("t", "c", "y", "x")
