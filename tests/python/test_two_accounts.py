"""Datasets that say a thing twice, and not the same: consolidated metadata, documents of two formats, broken arrays."""

import json
import shutil

import numpy as np
import pytest
import zarr
from zarr.metadata.migrate_v3 import migrate_v2_to_v3

pytestmark = pytest.mark.filterwarnings("ignore")
PIXELS = np.arange(64 * 64, dtype="u2").reshape(64, 64)
FORMATS = [2, 3]


def group(path, zarr_format):
    root = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    shards = {"shards": (32, 32)} if zarr_format == 3 else {}
    for name in ["a", "s/b"]:
        root.create_array(name, data=PIXELS, chunks=(16, 16), fill_value=0, attributes={"k": 1}, **shards)
    root["s"].attrs["k"] = 1
    root.attrs["k"] = 1
    zarr.consolidate_metadata(path)
    return path


def change(path, zarr_format, node, part):
    """Lets a node's own document say something else than the consolidated metadata."""
    if zarr_format == 2:
        file = path / node / (".zattrs" if part == "attributes" else ".zarray")
        place = document = json.loads(file.read_text())
    else:
        file = path / node / "zarr.json"
        document = json.loads(file.read_text())
        place = document["attributes"] if part == "attributes" else document
    match part:
        case "attributes":
            place["k"] = 2
        case "fill value":
            place["fill_value"] = 7
        case "shape":
            place["shape"] = [64, 60]
    file.write_text(json.dumps(document))


CASES = [("a", "attributes"), ("s", "attributes"), ("s/b", "fill value"), ("a", "shape")]


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize(("node", "part"), CASES)
def test_consolidated_metadata_that_are_not_so_are_damage(tool, told, tmp_path, zarr_format, node, part):
    path = group(tmp_path / "g.zarr", zarr_format)
    tool("verify", path)
    change(path, zarr_format, node, part)
    found = tool("verify", path, code=3)
    assert f'consolidated metadata say that "{node}" has' in found and part.removesuffix("s") in found
    assert node in told("info", path)["notes"][0]
    # A copy says once what the nodes' own documents say, and tells that it had the choice.
    assert f'"{node}"' in tool("repack", path, tmp_path / "o.zarr", *(["--unsharded"] if zarr_format == 2 else []))
    tool("verify", tmp_path / "o.zarr")
    by_both = [zarr.open_group(tmp_path / "o.zarr", mode="r", use_consolidated=use) for use in (True, False)]
    assert dict(by_both[0][node].attrs) == dict(by_both[1][node].attrs)
    if part != "attributes":
        assert by_both[0][node].metadata == by_both[1][node].metadata
        assert node in tool("export", path / node, tmp_path / "o.npy")


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_consolidated_metadata_that_hide_an_array_are_damage(tool, tmp_path, zarr_format):
    path = group(tmp_path / "g.zarr", zarr_format)
    shutil.copytree(path / "a", path / "s" / "hidden")
    assert '"s/hidden"' in tool("verify", path, code=3)
    tool("repack", path, tmp_path / "o.zarr", *(["--unsharded"] if zarr_format == 2 else []))
    tool("verify", tmp_path / "o.zarr")
    copied = zarr.open_group(tmp_path / "o.zarr", mode="r", use_consolidated=True)["s/hidden"]
    assert np.array_equal(copied[...], PIXELS)


@pytest.mark.parametrize("codecs", [False, True])
def test_what_programs_say_in_other_words_is_the_same(tool, tmp_path, codecs):
    """Defaults that are left out, levels that only an encoder needs, the bare name of a codec."""
    path = group(tmp_path / "g.zarr", 3)
    document = json.loads((path / "zarr.json").read_text())
    said = document["consolidated_metadata"]["metadata"]["a"]
    said["dimension_names"] = None
    said["storage_transformers"] = []
    if codecs:
        inner = said["codecs"][0]["configuration"]
        inner["codecs"][1]["configuration"]["level"] = 9
        inner["index_codecs"][1] = {"name": "crc32c"}
        inner["index_location"] = "end"
    (path / "zarr.json").write_text(json.dumps(document))
    tool("verify", path)


@pytest.mark.parametrize("broken", ["{", "attributes"])
@pytest.mark.parametrize("words", [["--skip", "s/b"], ["--only", "a"]])
def test_a_broken_array_in_a_consolidated_group_is_left_as_it_is(tool, tmp_path, broken, words):
    path = group(tmp_path / "g.zarr", 3)
    document = path / "s/b/zarr.json"
    said = json.loads((path / "zarr.json").read_text())["consolidated_metadata"]["metadata"]["s/b"]
    document.write_text(broken if broken == "{" else json.dumps({**json.loads(document.read_text()), broken: 5}))
    text = document.read_text()
    tool("repack", path, tmp_path / "o.zarr", *words, "--shard", "16,16", "--chunk", "8,8")
    tool("repack", path, *words, "--shard", "16,16", "--chunk", "8,8")
    for place in [path, tmp_path / "o.zarr"]:
        known = json.loads((place / "zarr.json").read_text())["consolidated_metadata"]["metadata"]
        assert (place / "s/b/zarr.json").read_text() == text
        assert list(known) == ["a", "s", "s/b"]
        assert known["a"]["chunk_grid"]["configuration"] == {"chunk_shape": [16, 16]}
        if broken == "{":
            assert known["s/b"] == said
        assert np.array_equal(zarr.open_group(place, mode="r", use_consolidated=True)["a"][...], PIXELS)
    if broken != "{":
        assert "its attributes are 5; expected an object" in tool("verify", path, code=3)


def test_attributes_of_zarr_v2_that_are_no_object_are_damage(tool, tmp_path):
    path = group(tmp_path / "g.zarr", 2)
    (path / "a/.zattrs").write_text("5")
    assert "its attributes are 5; expected an object" in tool("verify", path, code=3)


def test_documents_of_two_formats_never_disagree_in_a_result(tool, tmp_path):
    """As zarr-python's migration leaves them."""
    path = group(tmp_path / "g.zarr", 2)
    consolidated = (path / ".zmetadata").rename(tmp_path / "aside")
    migrate_v2_to_v3(input_store=str(path))
    consolidated.rename(path / ".zmetadata")
    assert (path / "a/.zarray").exists() and (path / "a/zarr.json").exists()
    assert "documents of Zarr v2 beside its zarr.json" in tool("verify", path)
    changed = ["--unsharded", "--chunk", "8,8"]
    refused = tool("repack", path, *changed, code=2)
    assert "documents of Zarr v2 beside its zarr.json" in refused
    assert "documents of Zarr v2" in tool("repack", path, tmp_path / "o.zarr", *changed)
    assert not list((tmp_path / "o.zarr").rglob(".z*"))
    tool("verify", tmp_path / "o.zarr")
    assert np.array_equal(zarr.open_group(tmp_path / "o.zarr", mode="r")["s/b"][...], PIXELS)


def test_a_group_of_zarr_v3_around_arrays_of_v2_keeps_no_documents_of_v2(tool, tmp_path):
    path = group(tmp_path / "g.zarr", 2)
    (path / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {"k": 3}}))
    told = tool("repack", path, tmp_path / "o.zarr", "--unsharded")
    assert "documents of Zarr v2 beside its zarr.json" in told
    assert not list((tmp_path / "o.zarr").rglob(".z*"))
    copied = zarr.open_group(tmp_path / "o.zarr", mode="r")
    assert dict(copied.attrs) == {"k": 3} and np.array_equal(copied["s/b"][...], PIXELS)
