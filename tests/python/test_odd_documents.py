"""Documents of other writers with what is odd in them: it goes along, or is told."""

import json
import shutil

import numpy as np
import pytest
import zarr

PIXELS = np.arange(256, dtype="u2").reshape(16, 16)
AXES = [{"name": name, "type": "space"} for name in "yx"]
IMAGE = {"axes": AXES, "datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 1]}]}]}


def group(path, names, attributes=None, zarr_format=3, **more):
    root = zarr.open_group(path, mode="w", attributes=attributes or {}, zarr_format=zarr_format)
    for name in names:
        root.create_array(name, data=PIXELS, chunks=(8, 8), **more)
    return path


def attributes(path):
    return dict(zarr.open_group(path, mode="r").attrs)


@pytest.mark.parametrize("names", [["0"], ["0", "1"]])
def test_keys_of_others_in_ome_get_no_version(tool, tmp_path, names):
    more = {"_extra": {"x": 1}, "_list": [{"y": 1}]}
    said = {"ome": {"version": "0.5", "multiscales": [IMAGE], **more}}
    path = group(tmp_path / "a.zarr", names, said)
    tool("repack", path, tmp_path / "b.zarr", "--dialect", "zarr2", "--codec", "zstd")
    assert attributes(tmp_path / "b.zarr") == {"multiscales": [{**IMAGE, "version": "0.4"}], **more}
    tool("repack", tmp_path / "b.zarr", tmp_path / "c.zarr", "--dialect", "zarr3", "--unsharded")
    back = attributes(tmp_path / "c.zarr")
    assert back == {"ome": {"version": "0.5", "multiscales": [IMAGE]}, **more}


@pytest.mark.parametrize("ome", [{"version": "0.7", "multiscales": [IMAGE]}, "text", 5, {"mine": 1}])
@pytest.mark.parametrize("names", [["0"], ["0", "1"]])
def test_an_odd_ome_is_there_in_zarr_v2_and_back(tool, tmp_path, names, ome):
    path = group(tmp_path / "a.zarr", names, {"ome": ome, "k": 1})
    tool("repack", path, tmp_path / "b.zarr", "--dialect", "zarr2", "--codec", "zstd")
    assert attributes(tmp_path / "b.zarr") == {"ome": ome, "k": 1}
    tool("repack", tmp_path / "b.zarr", tmp_path / "c.zarr", "--dialect", "zarr3", "--unsharded")
    assert attributes(tmp_path / "c.zarr") == {"ome": ome, "k": 1}


def test_what_is_about_no_image_is_told(tool, tmp_path):
    path = group(tmp_path / "a.zarr", ["0"], {"ome": {"version": "0.5", "well": {"images": []}}})
    told = tool("repack", path, tmp_path / "b.zarr", "--dialect", "zarr2", "--codec", "zstd")
    assert "about no image of the array are left out" in told


@pytest.mark.parametrize("user", [{"ome": {"mine": 1}}, {"ome": "text"}, {"dimensions": 3}, {"dimensions": {"x": 1}}])
@pytest.mark.parametrize("names", [["0"], ["0", "1"]])
def test_a_user_s_attribute_of_this_crate_s_name_stays(tool, tmp_path, names, user):
    path = group(tmp_path / "a.zarr", names, {"shardwright": user, "k": 1})
    tool("repack", path, tmp_path / "b.zarr", "--dialect", "zarr2", "--codec", "zstd")
    assert attributes(tmp_path / "b.zarr") == {"shardwright": user, "k": 1}
    tool("repack", tmp_path / "b.zarr", tmp_path / "c.zarr", "--dialect", "zarr3", "--unsharded")
    assert attributes(tmp_path / "c.zarr") == {"shardwright": user, "k": 1}


@pytest.mark.parametrize("dialect", ["zarr2", "zarr3-transformer", "zarr2-sharded", "precomputed"])
@pytest.mark.parametrize("key", ["shardwright", "ome"])
def test_an_array_s_attribute_of_that_name_stays_in_all_formats(tool, tmp_path, dialect, key):
    user = {key: {"ome": {"mine": 1}}}
    array = zarr.create_array(tmp_path / "a.zarr", shape=(8, 8), chunks=(4, 4), dtype="u2", attributes=user)
    array[...] = 1
    shape = {"zarr2": [], "precomputed": ["--codec", "none"]}.get(dialect, ["--shard", "8,8"])
    tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", dialect, *shape)
    tool("repack", tmp_path / "b.zarr", tmp_path / "c.zarr", "--dialect", "zarr3", "--unsharded")
    found = [json.loads(file.read_text())["attributes"] for file in (tmp_path / "c.zarr").rglob("zarr.json")]
    assert user[key] in [said.get(key) for said in found], found


@pytest.mark.parametrize("text", ["\0-0", "\0NaN", "\0\0-0", '"\0-0', "\x0012345678901234567890"])
def test_texts_that_begin_with_a_zero_character_stay_texts(tool, tmp_path, text):
    said = {"k": text, text: [text]}
    path = group(tmp_path / "a.zarr", ["0"], said)
    tool("repack", path, tmp_path / "b.zarr", "--codec", "zstd", "--unsharded")
    assert attributes(tmp_path / "b.zarr") == said
    tool("repack", path, tmp_path / "c.zarr", "--dialect", "zarr2", "--codec", "zstd")
    assert attributes(tmp_path / "c.zarr") == said


@pytest.mark.parametrize("key", ["a/b", "x/y.z/8_8_8"])
def test_a_scale_keeps_the_folder_that_it_stands_in(tool, tmp_path, key):
    group(tmp_path / "a.zarr", ["0"])
    volume = ["--dialect", "precomputed", "--codec", "gzip"]
    tool("repack", tmp_path / "a.zarr", tmp_path / "v", *volume, "--scale-key", "b")
    info = json.loads((tmp_path / "v/info").read_text())
    info["mine"], info["scales"][0]["key"] = 1, key
    (tmp_path / "v" / key).parent.mkdir(parents=True)
    (tmp_path / "v/b").rename(tmp_path / "v" / key)
    (tmp_path / "v/info").write_text(json.dumps(info))
    tool("repack", tmp_path / "v", tmp_path / "w", *volume, "--chunk", "8,8")
    assert json.loads((tmp_path / "w/info").read_text())["scales"][0]["key"] == key
    tool("verify", tmp_path / "w")
    tool("repack", tmp_path / "w", tmp_path / "b.zarr", "--dialect", "zarr3", "--unsharded")
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "b.zarr", mode="r")["0"][...], PIXELS)
    tool("repack", tmp_path / "b.zarr", tmp_path / "x", *volume)
    assert json.loads((tmp_path / "x/info").read_text())["scales"][0]["key"] == key
    # In place, too, and by another name where one is given.
    tool("repack", tmp_path / "w", *volume, "--chunk", "4,4")
    assert json.loads((tmp_path / "w/info").read_text())["scales"][0]["key"] == key
    tool("verify", tmp_path / "w")
    tool("repack", tmp_path / "w", tmp_path / "y", *volume, "--scale-key", "c")
    assert json.loads((tmp_path / "y/info").read_text())["scales"][0]["key"] == "c"


@pytest.mark.parametrize("key", ["../b", "a/../../b", "/b"])
def test_a_scale_outside_of_its_volume_is_refused(tool, tmp_path, key):
    group(tmp_path / "a.zarr", ["0"])
    volume = ["--dialect", "precomputed", "--codec", "gzip", "--scale-key", "b"]
    tool("repack", tmp_path / "a.zarr", tmp_path / "v/v", *volume)
    info = json.loads((tmp_path / "v/v/info").read_text())
    info["scales"][0]["key"] = key
    (tmp_path / "v/v/info").write_text(json.dumps(info))
    told = tool("repack", tmp_path / "v/v", tmp_path / "w", "--dialect", "precomputed", "--codec", "none", code=3)
    assert "not below it" in told and not (tmp_path / "w").exists()


@pytest.mark.parametrize("bad", [{"kind": "odd", "metadata": {}}, "text", {"kind": "inline"},
                                 {"kind": "inline", "metadata": []}])  # fmt: skip
def test_consolidated_metadata_that_no_reader_takes_are_made_anew_or_refused(tool, tmp_path, bad):
    path = group(tmp_path / "a.zarr", ["0"], shards=(16, 16))
    document = json.loads((path / "zarr.json").read_text())
    (path / "zarr.json").write_text(json.dumps({**document, "consolidated_metadata": bad}))
    tool("repack", path, tmp_path / "b.zarr", "--codec", "zstd")
    tool("verify", tmp_path / "b.zarr")
    root = zarr.open_consolidated(tmp_path / "b.zarr")
    np.testing.assert_array_equal(root["0"][...], PIXELS)
    before = (path / "zarr.json").read_bytes()
    assert "or remove them" in tool("repack", path, "--codec", "zstd", code=3)
    assert (path / "zarr.json").read_bytes() == before


@pytest.mark.parametrize("place", ["copy", "in place"])
def test_chunks_of_zarr_v2_keep_their_names(tool, tmp_path, place):
    path = tmp_path / "a.zarr"
    more = {"zarr_format": 2, "chunk_key_encoding": {"name": "v2", "separator": "."}}
    zarr.create_array(path, data=PIXELS, chunks=(8, 8), **more)
    out = tmp_path / "b.zarr" if place == "copy" else path
    tool("repack", path, *([out] if place == "copy" else []), "--dialect", "zarr2", "--codec", "zstd")
    assert {"0.0", "0.1", "1.0", "1.1"} <= {file.name for file in out.iterdir()}
    np.testing.assert_array_equal(zarr.open_array(out, mode="r")[...], PIXELS)


def test_a_copy_of_zarr_v2_that_changes_nothing_says_how(tool, tmp_path):
    path = group(tmp_path / "a.zarr", ["0"], zarr_format=2)
    told = tool("repack", path, tmp_path / "b.zarr", "--dialect", "zarr2", code=2)
    assert "--codec" in told and "--unsharded takes them as they are" in told
    tool("repack", path, tmp_path / "b.zarr", "--dialect", "zarr2", "--unsharded")
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "b.zarr", mode="r")["0"][...], PIXELS)


@pytest.mark.parametrize("option, expected", [("--skip", 1), ("--only", 2)])
def test_a_folder_without_a_document_is_a_group_to_options(tool, tmp_path, option, expected):
    path = group(tmp_path / "a.zarr", ["0", "sub/1", "sub/2", "subs"], shards=(16, 16))
    (path / "sub/zarr.json").unlink(missing_ok=True)
    shutil.rmtree(path / "subs")
    told = tool("repack", path, tmp_path / "b.zarr", "--codec", "zstd", option, "sub")
    assert f"{expected} shard" in told
    assert '"su"' in tool("repack", path, tmp_path / "c.zarr", "--codec", "zstd", option, "su", code=3)


HUGE = 10**30


def edit(file, change):
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))
    return document


def test_integers_of_any_length_are_told_as_numbers(tool, told, tmp_path):
    path = group(tmp_path / "a.zarr", ["0", "odd"])
    zarr.consolidate_metadata(path)
    edit(path / "odd/zarr.json", lambda document: document.update(shape=[HUGE, 16]))
    edit(path / "0/zarr.json", lambda document: document["codecs"][-1]["configuration"].update(mine=HUGE))
    said = tool("info", path) + tool("repack", path, tmp_path / "b.zarr", "--skip", "odd", "--unsharded")
    said += tool("verify", path, code=3)
    assert f"and it has [{HUGE},16]" in said and f"mine={HUGE}" in "".join(told("info", path)["arrays"][0]["codecs"])
    edit(path / "odd/zarr.json", lambda document: document.update(shape=[16, 16], data_type=HUGE))
    said += tool("info", path)
    edit(path / "zarr.json", lambda document: document["consolidated_metadata"].update(kind=HUGE))
    said += tool("info", path)
    assert f"are of the kind {HUGE}, not" in said and f"16 x 16 {HUGE}, can't be read" in said
    assert "\0" not in said and "\\u0000" not in said and f'"{HUGE}"' not in said


def test_scales_may_be_integers_of_any_length(tool, told, tmp_path):
    place = [{"type": "scale", "scale": [HUGE, 2]}]
    image = {**IMAGE, "datasets": [{"path": "0", "coordinateTransformations": place}]}
    path = group(tmp_path / "a.zarr", ["0"], {"ome": {"version": "0.5", "multiscales": [image]}})
    assert [axis["scale"] for axis in told("info", path)["arrays"][0]["axes"]] == [1e30, 2]
    tool("repack", path, tmp_path / "b.zarr", "--unsharded", "--ome", "0.6")
    assert told("info", tmp_path / "b.zarr")["arrays"][0]["axes"][0]["scale"] == 1e30


def test_a_number_is_no_name(tool, told, tmp_path):
    """Numbers of any size, NaN and infinities are texts in memory, but not where a document must have one."""
    axes = [{"name": HUGE, "type": "space"}, {"name": "x", "type": "space", "unit": float("inf")}]
    image = {**IMAGE, "axes": axes, "name": float("nan")}
    path = group(tmp_path / "a.zarr", ["0"], {"ome": {"version": "0.5", "multiscales": [image]}})
    said = tool("info", path) + tool("verify", path)
    assert "\0" not in said and "\\u0000" not in said and "Infinity" not in said and "NaN" not in said
    tool("repack", path, tmp_path / "b.zarr", "--dialect", "zarr2-sharded", "--shard", "16,16")
    assert "\0" not in (tmp_path / "b.zarr/.zattrs").read_text()
    image = {**IMAGE, "datasets": [{"path": HUGE}]}
    path = group(tmp_path / "c.zarr", ["0"], {"ome": {"version": "0.5", "multiscales": [image]}})
    assert "\\u0000" not in tool("verify", path)


def test_the_path_of_a_manifest_is_no_number(tool, tmp_path):
    group(tmp_path / "a.zarr", ["0", "1"])
    manifest = {"0.0": {"path": HUGE, "offset": 0, "length": 8}}
    transformer = {"name": "chunk-manifest-json", "configuration": {"manifest": manifest}}
    edit(tmp_path / "a.zarr/0/zarr.json", lambda said: said.update(storage_transformers=[transformer]))
    said = tool("verify", tmp_path / "a.zarr", code=3)
    assert "a number, expected a string" in said and "1 finding" in said


@pytest.mark.parametrize("field, value, words, code", [
    ("shape", None, "shape is missing; expected a list of sizes", 3),
    ("codecs", None, "codecs is missing; expected a list of codecs", 3),
    ("codecs", [], "codecs has no codec, such as `bytes`", 3),
    ("data_type", None, "data_type is missing; expected the name of a type", 3),
    ("data_type", 5, "data_type is 5; expected the name of a type", 3),
    ("data_type", "string", "data_type \"string\" is not read here", 5),
    ("fill_value", None, "fill_value is missing; expected the element", 3),
    ("dimension_names", "yx", "dimension_names is \"yx\"; expected a list of texts", 3),
    ("dimension_names", [1, 2], "dimension_names is [1,2]; expected a list of texts", 3),
    ("dimension_names", [HUGE, "x"], f"dimension_names is [{HUGE},\"x\"]; expected a list of texts", 3),
    ("chunk_grid", {"name": "regular"}, "the regular chunk_grid has no configuration", 3),
    ("chunk_grid", {"name": "wavy"}, "is not read here", 5),
])  # fmt: skip
def test_a_field_that_is_wrong_is_named(tool, tmp_path, field, value, words, code):
    group(tmp_path / "a.zarr", ["0"])
    change = lambda said: said.pop(field) if value is None else said.update({field: value})
    edit(tmp_path / "a.zarr/0/zarr.json", change)
    assert words in tool("export", tmp_path / "a.zarr/0", tmp_path / "a.raw", code=code)


@pytest.mark.parametrize("field, value, words", [
    ("filters", "a", "filters is \"a\"; expected a list, or null"),
    ("dtype", None, "dtype is missing; expected the name of a type"),
    ("chunks", [8], "the shape of a chunk is [8]; expected 2 numbers above 0"),
])  # fmt: skip
def test_a_field_of_zarr_v2_that_is_wrong_is_named(tool, tmp_path, field, value, words):
    group(tmp_path / "a.zarr", ["0"], zarr_format=2)
    change = lambda said: said.pop(field) if value is None else said.update({field: value})
    edit(tmp_path / "a.zarr/0/.zarray", change)
    assert words in tool("export", tmp_path / "a.zarr/0", tmp_path / "a.raw", code=3)
