"""Repacking of other programs' groups into formats of one array: nothing is lost without a word."""

import itertools
import json
import math
import os
import shutil
import subprocess

import numpy as np
import pytest
import tensorstore
import zarr
from conftest import ROOT
from arrays import files
from readers import assert_same

ONE_ARRAY = ["zarr2", "zarr2-sharded", "zarr3-transformer", "precomputed"]
PLAIN = ["--codec", "none", "--no-checksum"]


def pixels(shape=(6, 15, 13), dtype="u2"):
    return np.arange(1, math.prod(shape) + 1, dtype=dtype).reshape(shape)


def with_neighbour(path, zarr_format, image, other):
    """A group of an image and of numbers that are no image; the pixels of the image."""
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    shards = {"shards": (6, 10, 10)} if zarr_format == 3 else {}
    group.create_array(image, data=pixels(), chunks=(6, 5, 5), **shards)
    group.create_array(other, data=np.arange(4, dtype="u2"), chunks=(2,))
    return pixels()


@pytest.mark.parametrize("name, other", [("1", "0"), ("0", "1"), ("a", "deep/er/0")])
@pytest.mark.parametrize("dialect", ONE_ARRAY)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_array_beside_the_image_is_not_lost_without_a_word(tool, tmp_path, zarr_format, dialect, name, other):
    path, out = tmp_path / "a.zarr", tmp_path / "b"
    data = with_neighbour(path, zarr_format, name, other)
    call = ["repack", path, out, "--dialect", dialect, *PLAIN]
    if dialect == "zarr2-sharded" and zarr_format == 2:
        call += ["--shard", "6,10,10"]
    if (zarr_format, dialect) == (2, "zarr2"):
        # Both stay what they are.
        tool(*call)
        group = zarr.open_group(out, mode="r", zarr_format=2)
        assert_same(group[name][...], data)
        assert_same(group[other][...], np.arange(4, dtype="u2"))
        return
    if dialect == "zarr2":
        tool(*call)
        group = zarr.open_group(out, mode="r", zarr_format=2)
        assert_same(group[name][...], data)
        assert_same(group[other][...], np.arange(4, dtype="u2"))
        shutil.rmtree(out)
        assert f'"{other}" is not repacked, and left out' in tool(*call, "--skip", other)
        return
    refused = tool(*call, code=2)
    assert f'"{other}" beside it would be lost' in refused and "--skip" in refused and "--dialect" in refused
    assert not out.exists() and not (tmp_path / ".b.repack").exists()
    assert f'"{other}" is not repacked, and left out' in tool(*call, "--skip", other)
    tool("verify", out)
    # Without names of dimensions, there is no image of OME-Zarr that a group could be opened as.
    tool("export", out, tmp_path / "b.npy")
    assert_same(np.load(tmp_path / "b.npy"), data)
    left = {file for file in files(out) if file.endswith(("zarr.json", ".zarray"))}
    assert left == {
        "zarr2-sharded": {".zarray"},
        "zarr3-transformer": {"zarr.json"},
        "precomputed": set(),
    }[dialect]


def scaled(path, zarr_format, name, scale, root_says=None):
    """A group whose OME-Zarr names an array of two dimensions in a folder."""
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    shards = {"shards": (10, 10)} if zarr_format == 3 else {}
    group.create_array(name, data=pixels((15, 13)), chunks=(5, 5), **shards)
    axes = [{"name": axis, "type": "space", "unit": "micrometer"} for axis in "yx"]
    transformations = [{"type": "scale", "scale": scale}, {"type": "translation", "translation": [1.5, 2.5]}]
    image = {"axes": axes, "datasets": [{"path": name, "coordinateTransformations": transformations}]}
    if zarr_format == 2:
        group.attrs["multiscales"] = [{"version": "0.4", **image}]
    else:
        group.attrs["ome"] = {"version": "0.5", "multiscales": [image]}
    group.attrs.update(root_says or {})
    return pixels((15, 13))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_scales_come_along_whatever_the_image_is_called(tool, tmp_path, zarr_format):
    path, out = tmp_path / "a.zarr", tmp_path / "b.zarr"
    data = scaled(path, zarr_format, "s/image", [0.325, 0.5], {"sample": "a leaf"})
    tool("repack", path, out, "--dialect", "zarr2", "--chunk", "5,4", *PLAIN)
    said = json.loads((out / ".zattrs").read_text())
    (dataset,) = said["multiscales"][0]["datasets"]
    assert dataset["coordinateTransformations"][0]["scale"] == [0.325, 0.5]
    assert dataset["coordinateTransformations"][1]["translation"] == [1.5, 2.5]
    assert said["sample"] == "a leaf" and said["multiscales"][0]["axes"][0]["unit"] == "micrometer"
    assert_same(zarr.open_group(out, mode="r", zarr_format=2)[dataset["path"]][...], data)
    # And back, by way of a dialect that has no place for them.
    tool("repack", path, tmp_path / "c", "--dialect", "zarr2-sharded", "--shard", "10,10", *PLAIN)
    tool("repack", tmp_path / "c", tmp_path / "d.zarr", "--shard", "10,10")
    back = zarr.open_group(tmp_path / "d.zarr", mode="r")
    (dataset,) = back.attrs["ome"]["multiscales"][0]["datasets"]
    assert dataset["coordinateTransformations"][0]["scale"] == [0.325, 0.5] and back.attrs["sample"] == "a leaf"
    assert_same(back[dataset["path"]][...], data)


@pytest.mark.parametrize("dialect", ONE_ARRAY[1:])
def test_what_names_the_image_follows_it(tool, tmp_path, dialect):
    path, out = tmp_path / "a.zarr", tmp_path / "b"
    group = zarr.open_group(path, mode="w", zarr_format=2)
    keys = {"name": "v2", "separator": "/"}
    group.create_array("s0", data=pixels(), chunks=(2, 5, 5), chunk_key_encoding=keys)
    axes = [{"name": axis, "type": "space"} for axis in "zyx"]
    scale = [{"type": "scale", "scale": [2, 0.5, 0.5]}]
    datasets = [{"path": "s0", "coordinateTransformations": scale}]
    group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": datasets}]
    shard = [] if dialect == "precomputed" else ["--shard", "4,10,10"]
    tool("repack", path, out, "--dialect", dialect, *shard, *PLAIN)
    tool("verify", out)
    tool("repack", out, tmp_path / "c.zarr", "--shard", "4,10,10", "--chunk", "2,5,5")
    ome = zarr.open_group(tmp_path / "c.zarr", mode="r").attrs["ome"]
    assert [dataset["path"] for dataset in ome["multiscales"][0]["datasets"]] == ["0"]
    assert ome["multiscales"][0]["datasets"][0]["coordinateTransformations"] == scale


@pytest.mark.parametrize("name, shape", [("0", (3, 6, 15, 13)), ("0", (6, 15, 13))])
def test_chunks_that_stood_where_shards_come_are_no_obstacle(tool, tmp_path, name, shape):
    path = tmp_path / "a.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=2)
    chunks, keys = (1, 2, 5, 5)[-len(shape) :], {"name": "v2", "separator": "/"}
    group.create_array(name, data=pixels(shape), chunks=chunks, chunk_key_encoding=keys)
    (path / "0/0/notes.txt").write_text("keep me")
    shard = ",".join(str(2 * chunk) for chunk in chunks)
    tool("repack", path, tmp_path / "b", "--dialect", "zarr2-sharded", "--shard", shard, *PLAIN)
    tool("export", tmp_path / "b", tmp_path / "b.npy")
    assert_same(np.load(tmp_path / "b.npy"), pixels(shape))
    assert (tmp_path / "b/0/0/notes.txt").read_text() == "keep me"


def test_attributes_that_contradict_each_other_are_told(tool, tmp_path):
    path = tmp_path / "a.zarr"
    group = zarr.open_group(path, mode="w")
    array = group.create_array("deep/er/a", data=pixels(), chunks=(6, 5, 5), shards=(6, 10, 10))
    array.attrs.update(same=1, mine="array", both="array")
    group["deep/er"].attrs.update(same=1, both="group")
    group.attrs.update(far="root", mine="root", ome={"version": "0.5", "bioformats2raw.layout": 3})
    said = tool("repack", path, tmp_path / "b", "--dialect", "zarr2-sharded", *PLAIN)
    for key, of in [("both", '"deep/er"'), ("mine", "root")]:
        assert any(f'"{key}"' in line and of in line for line in said.splitlines() if line.startswith("note")), said
    assert "OME-Zarr" in said and '"same"' not in said
    found = json.loads((tmp_path / "b/.zattrs").read_text())
    assert (found["same"], found["mine"], found["both"], found["far"]) == (1, "array", "group", "root")


@pytest.mark.parametrize("value, token", [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")])
def test_a_volume_takes_no_number_that_json_has_not(tool, tmp_path, value, token):
    path, out = tmp_path / "a.zarr", tmp_path / "v"
    group = zarr.open_group(path, mode="w")
    group.create_array("0", data=pixels(), chunks=(6, 5, 5), shards=(6, 10, 10))
    group.attrs["gain"] = {"b": [1, value]}
    refused = tool("repack", path, out, "--dialect", "precomputed", *PLAIN, code=2)
    assert f'"gain/b/1" is {token}' in refused and not out.exists()
    group.attrs["gain"] = {"b": [1, token]}
    tool("repack", path, out, "--dialect", "precomputed", *PLAIN)
    store = {"driver": "neuroglancer_precomputed", "kvstore": {"driver": "file", "path": str(out)}}
    read = tensorstore.open(store, read=True).result().read().result()
    assert_same(read[..., 0].T, pixels())
    json.loads((out / "info").read_text(), parse_constant=lambda constant: pytest.fail(constant))


def consolidated(path, names=("a", "img/b")):
    """A consolidated group of Zarr v2, and its pixels."""
    group = zarr.open_group(path, mode="w", zarr_format=2)
    found = {name: pixels() + number for number, name in enumerate(names)}
    for name, data in found.items():
        group.create_array(name, data=data, chunks=(2, 5, 5)).attrs["of"] = name
    group.attrs["sample"] = "a leaf"
    zarr.consolidate_metadata(path)
    return found


ZARR_2 = """
import sys, numpy as np, zarr
path, name, chunks = sys.argv[1], sys.argv[2], tuple(int(n) for n in sys.argv[3].split(","))
expected = np.load(sys.argv[4])
for group in [zarr.open_consolidated(path, mode="r"), zarr.open_group(path, mode="r")]:
    assert group[name].chunks == chunks, group[name].chunks
    assert (group[name][...] == expected).all() and group[name].attrs["of"] == name
    assert group.attrs["sample"] == "a leaf"
"""


def assert_found(path, found, chunks, tmp_path):
    """zarr-python 3 and 2.18 find all arrays, by consolidated metadata and by the nodes' own."""
    for use, (name, data) in itertools.product([True, False], found.items()):
        array = zarr.open_group(path, mode="r", zarr_format=2, use_consolidated=use)[name]
        assert_same(array[...], data, f"{name}, consolidated: {use}")
        assert array.chunks == chunks[name] and array.attrs["of"] == name
    for name, data in found.items():
        np.save(tmp_path / "expected.npy", data)
        words = [path, name, ",".join(map(str, chunks[name])), tmp_path / "expected.npy"]
        python = os.environ.get("SHARDWRIGHT_ZARR2_PYTHON", ROOT / "target/venv-zarr2/bin/python")
        subprocess.run([python, "-c", ZARR_2, *map(str, words)], check=True)


@pytest.mark.parametrize("part", ["", "img", "img/b"])
@pytest.mark.parametrize("options", [["--chunk", "3,4,4"], ["--codec", "zstd", "--chunk", "3,4,4", "--no-checksum"]])
def test_an_array_of_zarr_v2_stays_in_its_place(tool, tmp_path, part, options):
    path = tmp_path / "g.zarr"
    found = consolidated(path)
    before = files(path)
    chunks = {"a": (2, 5, 5), "img/b": (3, 4, 4)}
    only = ["--only", "img/b"] if part == "" else []
    call = ["repack", path / part, "--dialect", "zarr2", *options, *only]
    assert "written" in tool(*call)
    assert_found(path, found, chunks, tmp_path)
    others = [name for name in before if not name.startswith("img/b/") and name != ".zmetadata"]
    after = files(path)
    assert [after[name] for name in others] == [before[name] for name in others]
    assert "nothing to rewrite" in tool(*call)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.endswith(".repack")] == []
    assert not list(path.rglob(".*.repack"))
    # Into a new dataset, too.
    if part == "":
        consolidated(path)
        tool("repack", path, tmp_path / "new.zarr", "--dialect", "zarr2", *options, *only)
        assert_found(tmp_path / "new.zarr", found, chunks, tmp_path)


UNDEFINED = """
import sys, numpy as np, zarr
path, call = sys.argv[1:]
if call == "write":
    group = zarr.open_group(path, mode="w")
    array = group.create_dataset("a", shape=(6, 10, 10), chunks=(2, 5, 5), dtype="u2", fill_value=None,
                                 dimension_separator="/", write_empty_chunks=True)
    array[:2], array[2:4, :5, :5] = 0, 7
else:
    array = zarr.open_group(path, mode="r")["a"]
    assert array.fill_value is None
    assert (array[:2] == 0).all() and (array[2:4, :5, :5] == 7).all()
"""


@pytest.mark.parametrize("options", [["--chunk", "1,5,5"], ["--chunk", "2,10,10"], PLAIN])
def test_pixels_that_were_never_written_stay_undefined(tool, tmp_path, options):
    path, out = tmp_path / "a.zarr", tmp_path / "b.zarr"
    python = os.environ.get("SHARDWRIGHT_ZARR2_PYTHON", ROOT / "target/venv-zarr2/bin/python")
    subprocess.run([python, "-c", UNDEFINED, path, "write"], check=True)
    tool("repack", path, out, "--dialect", "zarr2", *options)
    assert json.loads((out / "a/.zarray").read_text())["fill_value"] is None
    # A chunk of zeros must be there: where there is none, whatever is in memory is read.
    subprocess.run([python, "-c", UNDEFINED, out, "read"], check=True)
    zeros = "a/0/0/0"
    assert (out / zeros).is_file() and not list(out.glob("a/5/*/*"))
    manifest = tmp_path / "m.zarr"
    tool("manifest", out, manifest)
    assert json.loads(json.loads((manifest / "kerchunk.json").read_text())["refs"]["a/.zarray"])["fill_value"] is None
    # Zarr v3 has no such arrays.
    tool("repack", path, tmp_path / "c.zarr", "--unsharded")
    assert json.loads((tmp_path / "c.zarr/a/zarr.json").read_text())["fill_value"] == 0


def test_refusals_name_the_array_and_options_that_were_given(tool, tmp_path):
    path, out = tmp_path / "a.zarr", tmp_path / "b"
    group = zarr.open_group(path, mode="w")
    group.create_array("line", data=np.arange(4, dtype="u2"), chunks=(2,), shards=(4,))
    group.create_array("empty", shape=(0, 5, 5), dtype="u2", chunks=(1, 5, 5), shards=(3, 5, 5))
    group.create_array("image", data=pixels(), chunks=(3, 5, 5), shards=(3, 10, 10))

    def refused(name, *options, code=2):
        said = tool("repack", path, out, "--only", name, *options, code=code)
        assert f'array "{name}"' in said and "--shape" not in said and not out.exists(), said
        return said

    assert "at least one element" in refused("empty", "--dialect", "precomputed", *PLAIN)
    assert "2 to" in refused("line", "--dialect", "precomputed", *PLAIN)
    for dialect in ["zarr3", "zarr2-sharded"]:
        said = refused("image", "--dialect", dialect, "--chunk", "7,5,5", *PLAIN)
        assert said.startswith("error: --chunk") or "--chunk 7,5,5" in said, said
        assert "choose others with --shard" in said
        said = refused("image", "--dialect", dialect, "--shard", "4,5,5", *PLAIN)
        assert "--shard" in said and "choose others" not in said
    said = refused("image", "--dialect", "precomputed")
    assert "compressor" in said and "--codec " not in said


def test_what_can_not_be_done_with_sound_data_is_called_no_damage(tool, tmp_path):
    path, out = tmp_path / "a.zarr", tmp_path / "b"
    group = zarr.open_group(path, mode="w")
    for name in ["a", "b"]:
        group.create_array(name, data=pixels(), chunks=(3, 5, 5))
    group.create_array("line", data=np.arange(4, dtype="u2"), chunks=(2,))
    for dialect in ONE_ARRAY:
        if dialect != "zarr2":
            said = tool("repack", path, out, "--dialect", dialect, *PLAIN, code=2)
            assert f"in {dialect}, a call repacks one array" in said and '"a", "b"' in said and "--only" in said
            said = tool("repack", path, out, "--only", "line", "--dialect", dialect, *PLAIN, code=2)
            assert "rows and columns" in said
    # Who says how large shards shall be is not told to.
    said = tool("repack", path, out, "--only", "line", "--shard", "4", code=2)
    assert "--shard 4" in said and "rows and columns" in said and "chunks that are files" not in said
    assert not out.exists()
    tool("repack", path, out, "--only", "a", "--dialect", "precomputed", *PLAIN)
    assert "no reader of Zarr takes these" in tool("manifest", out, code=5)


def test_a_chunk_that_can_not_be_decoded_says_what_stays(tool, tmp_path):
    path, out = tmp_path / "a.zarr", tmp_path / "b.zarr"
    array = zarr.create_array(path, data=pixels(), chunks=(2, 5, 5), zarr_format=3)
    good = (path / "c/0/0/0").read_bytes()
    (path / "c/0/0/0").write_bytes(b"no chunk at all")
    call = ["repack", path, out, "--dialect", "zarr2", "--chunk", "3,4,4", *PLAIN, "--no-sync"]
    said = tool(*call, code=3)
    assert ".b.zarr.repack" in said and "make the same call again" in said and "remove that folder" in said
    assert (tmp_path / ".b.zarr.repack").is_dir() and not out.exists()
    (path / "c/0/0/0").write_bytes(good)
    tool(*call)
    assert_same(zarr.open_group(out, mode="r", zarr_format=2)["0"][...], array[...])


@pytest.mark.parametrize("command_line", [["repack"], ["repack", "--dialect", "zarr2"]])
def test_nobody_has_so_many_cores(tool, tmp_path, command_line):
    path = tmp_path / "a.zarr"
    zarr.open_group(path, mode="w").create_array("0", data=pixels(), chunks=(6, 5, 5), shards=(6, 10, 10))
    verb, *options = command_line
    for workers in ["1025", "100000000"]:
        said = tool(verb, path, tmp_path / "b", *options, "--workers", workers, code=2)
        assert f"--workers {workers}: at most 1024" in said
    tool(verb, path, tmp_path / "b", *options, *PLAIN, "--workers", "3")


def by_manifest(tool, path, folder):
    """The dataset at a path by reference, with its chunks as files of another dataset."""
    tool("manifest", path, folder, "--form", "manifest")
    return folder


def test_references_that_change_between_two_calls_are_noticed(command, tool, tmp_path):
    source, by_reference, out = tmp_path / "a.zarr", tmp_path / "m.zarr", tmp_path / "b.zarr"
    group = zarr.open_group(source, mode="w")
    group.create_array("0", data=pixels((8, 15, 13)), chunks=(2, 5, 5), compressors=None)
    by_manifest(tool, source, by_reference)
    call = ["repack", by_reference, out, "--shard", "2,15,15", "--no-sync"]
    # A damaged end leaves what was made of the beginning.
    last = source / "0/c/3/2/2"
    good = last.read_bytes()
    os.truncate(last, 3)
    tool(*call, code=3)
    made = [path for path in (tmp_path / ".b.zarr.repack").rglob("c/*/*/*") if path.is_file()]
    assert made
    last.write_bytes(good)
    # Meanwhile somebody writes other pixels of the same length.
    group["0"][0] = 7
    expected = group["0"][...]
    tool(*call)
    assert_same(zarr.open_group(out, mode="r")["0"][...], expected)


def test_what_is_merely_not_read_is_no_damage(tool, tmp_path):
    path = tmp_path / "v"
    store = {"driver": "neuroglancer_precomputed", "kvstore": {"driver": "file", "path": str(path)}}
    tensorstore.open(
        store | {"multiscale_metadata": {"data_type": "uint8", "num_channels": 1, "type": "image"},
                 "scale_metadata": {"size": [8, 8, 8], "encoding": "raw", "chunk_size": [4, 4, 4],
                                    "resolution": [1, 1, 1]}},
        create=True,
    ).result().write(np.ones((8, 8, 8, 1), "u1")).result()
    info = json.loads((path / "info").read_text())
    (path / "info").write_text(json.dumps(info | {"data_type": "complex64"}))
    assert "not read here" in tool("verify", path, code=5)
    # What a manifest names on another machine.
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("0", data=pixels(), chunks=(6, 5, 5))
    url = "s3://there/a.zarr"
    tool("manifest", tmp_path / "a.zarr", tmp_path / "m.zarr", "--form", "manifest", "--url-prefix", url)
    said = tool("verify", tmp_path / "m.zarr", code=5)
    assert "only files of this machine are read here" in said
    manifest = next((tmp_path / "m.zarr").rglob("manifest.json"))
    manifest.write_text(json.dumps({"0.0.0": {"data": "AAAA"}}))
    assert "inlined pixels are not read here" in tool("verify", tmp_path / "m.zarr", code=5)


def two_scales(path):
    for level in range(2):
        scale = {"size": [32 >> level, 32 >> level, 6], "resolution": [8 << level, 8 << level, 40], "encoding": "raw"}
        spec = {
            "driver": "neuroglancer_precomputed",
            "kvstore": {"driver": "file", "path": f"{path}/"},
            "scale_metadata": {**scale, "chunk_size": [16, 16, 2]},
            "multiscale_metadata": {"type": "image", "data_type": "uint16", "num_channels": 1},
        }
        tensorstore.open(spec, create=True, open=True).result()[...].write(level + 1).result()


@pytest.mark.parametrize("key, resolution", [("8_8_40", 8.0), ("16_16_40", 16.0)])
@pytest.mark.parametrize("dialect", ONE_ARRAY)
def test_scales_that_are_left_out_are_promised_no_more(tool, tmp_path, dialect, key, resolution):
    path, out = tmp_path / "volume", tmp_path / "out"
    two_scales(path)
    tool("repack", path, out, "--dialect", dialect, "--only", key, *PLAIN)
    if dialect == "precomputed":
        (scale,) = json.loads((out / "info").read_text())["scales"]
        assert scale["resolution"] == [resolution, resolution, 40]
        return
    documents = [json.loads(file.read_text()) for file in [*out.rglob("*.json"), *out.rglob(".zattrs")]]
    (datasets,) = [found for document in documents for found in named_datasets(document)]
    assert [dataset["path"] for dataset in datasets] == ["0"]
    assert datasets[0]["coordinateTransformations"][0]["scale"] == [40, resolution, resolution]
    tool("verify", out)


@pytest.mark.parametrize("at", [0, 1])
def test_a_dataset_of_one_scale_carries_what_belongs_to_it(tool, tmp_path, at):
    two_scales(tmp_path / "volume")
    info = json.loads((tmp_path / "volume/info").read_text())
    for number, scale in enumerate(info["scales"]):
        scale["mine"] = number
    (tmp_path / "volume/info").write_text(json.dumps(info | {"mesh": "m"}))
    key = ["8_8_40", "16_16_40"][at]
    tool("repack", tmp_path / "volume", tmp_path / "one.zarr", "--shard", "6,16,16", "--only", key)
    one = zarr.open_group(tmp_path / "one.zarr", mode="r")
    assert list(one.array_keys()) == ["0"]
    assert [scale["mine"] for scale in one.attrs["neuroglancer"]["scales"]] == [at]
    (dataset,) = one.attrs["ome"]["multiscales"][0]["datasets"]
    assert dataset["path"] == "0" and dataset["coordinateTransformations"][0]["scale"][1] == 8.0 * 2**at
    # Of a dataset of both scales, one becomes a volume again.
    tool("repack", tmp_path / "volume", tmp_path / "both.zarr", "--shard", "6,16,16")
    tool("repack", tmp_path / "both.zarr", tmp_path / "back", "--dialect", "precomputed", "--only", str(at), *PLAIN)
    back = json.loads((tmp_path / "back/info").read_text())
    assert back["mesh"] == "m" and [scale["mine"] for scale in back["scales"]] == [at]


def named_datasets(document):
    """What OME-Zarr's metadata promise, wherever they stand in a document."""
    if isinstance(document, list):
        return [found for value in document for found in named_datasets(value)]
    if not isinstance(document, dict):
        return []
    own = [document["datasets"]] if "datasets" in document else []
    return own + named_datasets(list(document.values()))
