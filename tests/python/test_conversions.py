"""What goes from one format or version to another: nothing is lost, invented or refused without a sentence."""

import json
import os

import numpy as np
import pytest
import tifffile
import zarr
from readers import assert_same
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.codecs.numcodecs import LZ4, Zlib

pytestmark = pytest.mark.filterwarnings("ignore")
SCALE = {"type": "scale", "scale": [1.0, 1.0]}
COMPRESSORS = {
    "none": [],
    "blosc": [BloscCodec(cname="zstd")],
    "gzip": [GzipCodec(level=1)],
    "zstd": [ZstdCodec(level=1)],
    "zstd with a checksum": [ZstdCodec(level=1, checksum=True)],
    "zlib": [Zlib(level=1)],
    "lz4": [LZ4()],
}


def image(path, axes=None, steps=(SCALE,), zarr_format=3, names=("y", "x"), ome=True, **attributes):
    """An image of one level of 8 × 8 pixels, without shards."""
    root = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    more = {"dimension_names": names} if zarr_format == 3 else {}
    root.create_array("0", shape=(8, 8), chunks=(4, 4), dtype="u2", **more)[...] = np.arange(64).reshape(8, 8)
    axes = axes or [{"name": name, "type": "space", "unit": "micrometer"} for name in "yx"]
    multiscales = [{"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": list(steps)}]}]
    if not ome:
        root.attrs.update(attributes)
    elif zarr_format == 3:
        root.attrs.update({"ome": {"version": "0.5", "multiscales": multiscales}, **attributes})
    else:
        root.attrs.update({"multiscales": [{"version": "0.4", **multiscales[0]}], **attributes})
    return path


def changed(path, **fields):
    """Changes fields of an array's document."""
    document = json.loads((path / "zarr.json").read_text())
    document.update(fields)
    (path / "zarr.json").write_text(json.dumps(document))


@pytest.mark.parametrize("compressor", COMPRESSORS)
@pytest.mark.parametrize("filters", [[], [TransposeCodec(order=(1, 0))]], ids=["", "transposed"])
@pytest.mark.parametrize("shards", [None, (16, 16)])
def test_checksums_have_no_place_in_zarr_v2(tool, tmp_path, compressor, filters, shards):
    root = zarr.open_group(tmp_path / "a.zarr", mode="w")
    pixels = np.arange(900, dtype="u2").reshape(30, 30)
    codecs = [*COMPRESSORS[compressor], Crc32cCodec()]
    more = {"filters": filters} if filters else {}
    root.create_array("a", data=pixels, chunks=(8, 8), shards=shards, compressors=codecs, **more)
    root.create_array("b/c", data=np.arange(5))
    tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", "zarr2")
    assert_same(zarr.open_group(tmp_path / "b.zarr", mode="r", zarr_format=2)["a"][...], pixels)
    tool("verify", tmp_path / "b.zarr")


def test_keys_of_transformations_that_become_one_are_told(tool, tmp_path):
    moved = {"type": "translation", "translation": [4.0, 2.0], "mine": {"k": 1}}
    image(tmp_path / "a.zarr", steps=[{**SCALE, "theirs": 1}, moved])
    told = tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--ome", "0.6")
    assert "left out" not in told and '"mine"' in (tmp_path / "b.zarr/zarr.json").read_text()
    document = json.loads((tmp_path / "a.zarr/zarr.json").read_text())
    document["attributes"]["ome"]["multiscales"][0]["coordinateTransformations"] = [{**SCALE, "all": 1}]
    (tmp_path / "a.zarr/zarr.json").write_text(json.dumps(document))
    told = tool("repack", tmp_path / "a.zarr", tmp_path / "c.zarr", "--ome", "0.6")
    assert 'what its transformations say of "all", "mine", "theirs" is left out' in told


@pytest.mark.parametrize("others", [[], ["1"]])
@pytest.mark.parametrize("key", ["multiscales", "omero"])
def test_an_attribute_in_the_place_of_ome_zarrs_is_refused(tool, tmp_path, others, key):
    image(tmp_path / "a.zarr", **{key: "mine"})
    root = zarr.open_group(tmp_path / "a.zarr")
    for name in others:
        root.create_array(name, shape=(8, 8), chunks=(4, 4), dtype="u2")[...] = 1
    if key == "omero":
        root.attrs["ome"] = {**root.attrs["ome"], "omero": {"channels": []}}
    told = tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", "zarr2", code=5)
    assert f'has the attribute "{key}" beside' in told and not (tmp_path / "b.zarr").exists()


@pytest.mark.parametrize("others", [[], ["1"]])
def test_other_names_of_dimensions_are_told(tool, tmp_path, others):
    image(tmp_path / "a.zarr")
    root = zarr.open_group(tmp_path / "a.zarr")
    for name in others:
        root.create_array(name, shape=(8, 8), chunks=(4, 4), dtype="u2")[...] = 1
    root["0"].attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    told = tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", "zarr2")
    assert "_ARRAY_DIMENSIONS" not in told
    root["0"].attrs["_ARRAY_DIMENSIONS"] = ["lat", "lon"]
    told = tool("repack", tmp_path / "a.zarr", tmp_path / "c.zarr", "--dialect", "zarr2")
    assert 'the array "0" has an attribute "_ARRAY_DIMENSIONS" that is left out' in told


def test_ome_zarr_0_4_beside_an_attribute_ome_is_refused(tool, tmp_path):
    image(tmp_path / "a.zarr", zarr_format=2, ome={"mine": 1})
    root = zarr.open_group(tmp_path / "a.zarr", zarr_format=2)
    root.attrs["ome"] = {"mine": 1}
    told = tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", "zarr3", "--unsharded", code=5)
    assert "rename that attribute" in told and not (tmp_path / "b.zarr").exists()
    tool("repack", tmp_path / "a.zarr", tmp_path / "c.zarr", "--dialect", "zarr2", "--codec", "gzip")
    # Said twice, what stands where Zarr v3 has it counts.
    root.attrs["ome"] = {"version": "0.5", "multiscales": root.attrs["multiscales"]}
    tool("repack", tmp_path / "a.zarr", tmp_path / "d.zarr", "--dialect", "zarr3", "--unsharded")


@pytest.mark.parametrize("options", [["--dialect", "zarr2"], ["--ome", "0.4"]])
def test_an_array_at_the_root_is_told_that_a_group_is_around_it(told, tmp_path, options):
    pixels = np.arange(256, dtype="u2").reshape(16, 16)
    zarr.create_array(tmp_path / "a.zarr", data=pixels, chunks=(8, 8))
    zarr.create_array(tmp_path / "line.zarr", data=pixels[0], chunks=(8,))
    note = 'the array at its root becomes "0" of a group'
    assert note in told("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", *options)["notes"]
    assert np.array_equal(zarr.open_group(tmp_path / "b.zarr", mode="r", zarr_format=2)["0"][...], pixels)
    # One that is no image stays where it is, as do all on the way to what has no groups.
    for at, words in enumerate([["line.zarr", "--dialect", "zarr2"], ["a.zarr", "--dialect", "zarr2-sharded"]]):
        assert note not in told("repack", tmp_path / words[0], tmp_path / str(at), *words[1:])["notes"]
    # Nor is the other way a change of place.
    assert note not in told("repack", tmp_path / "b.zarr", tmp_path / "c.zarr", "--dialect", "zarr3")["notes"]


def test_of_an_array_without_ome_zarrs_metadata_none_are_made_up(tool, tmp_path):
    image(tmp_path / "a.zarr", ome=False, mine=1)
    tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", "zarr2")
    root = zarr.open_group(tmp_path / "b.zarr", mode="r", zarr_format=2)
    assert dict(root.attrs) == {"mine": 1} and root["0"].attrs["_ARRAY_DIMENSIONS"] == ["y", "x"]


VOLUME = ["--dialect", "precomputed", "--codec", "none"]


UNITS = [(None, "no unit"), ("furlong", '"furlong"'), ("micrometer", None), ("parsec", None)]


@pytest.mark.parametrize("unit, words", UNITS)
def test_a_resolution_that_is_a_guess_is_told(tool, tmp_path, unit, words):
    axes = [{"name": name, "type": "space", **({"unit": unit} if unit else {})} for name in "yx"]
    image(tmp_path / "a.zarr", axes=axes)
    told = tool("repack", tmp_path / "a.zarr", tmp_path / "b", *VOLUME)
    assert (words in told and "--resolution" in told) if words else "guess" not in told
    told = tool("repack", tmp_path / "a.zarr", tmp_path / "c", *VOLUME, "--resolution", "2,2,2")
    assert "guess" not in told


@pytest.mark.parametrize("distance", [-1, 0])
def test_distances_that_are_none_are_refused_or_left_out(tool, tmp_path, distance):
    image(tmp_path / "a.zarr", steps=[{"type": "scale", "scale": [distance, 2]}])
    told = tool("repack", tmp_path / "a.zarr", tmp_path / "b", *VOLUME, code=2)
    assert f"the scale {distance} along y" in told and "--resolution" in told
    tool("repack", tmp_path / "a.zarr", tmp_path / "c", *VOLUME, "--resolution", "2,2,2")
    told = tool("export", tmp_path / "a.zarr", tmp_path / "a.ome.tif")
    assert f"along y ({distance} micrometer) is left out" in told
    xml = tifffile.TiffFile(tmp_path / "a.ome.tif").ome_metadata
    assert "PhysicalSizeY" not in xml and 'PhysicalSizeX="2"' in xml


@pytest.mark.parametrize("version", ["0.4", "0.5", "0.6"])
def test_a_list_of_labels_has_the_version_of_its_image(tool, tmp_path, version):
    image(tmp_path / "a.zarr")
    # As ome-zarr-py 0.18 writes it.
    zarr.open_group(tmp_path / "a.zarr").create_group("labels").attrs["ome"] = {"labels": ["cells"]}
    image(tmp_path / "a.zarr/labels/cells")
    tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--ome", version)
    said = dict(zarr.open_group(tmp_path / "b.zarr", mode="r")["labels"].attrs)
    expected = {"labels": ["cells"]}
    assert said == (expected if version == "0.4" else {"ome": {**expected, "version": version}})


@pytest.mark.parametrize("number", [1 << 64, -(1 << 70)])
def test_a_fill_value_of_a_float_may_be_a_large_integer(tool, tmp_path, number):
    made = zarr.create_array(tmp_path / "a.zarr", shape=(8, 8), chunks=(4, 4), dtype="f8")
    made[:4] = 1
    changed(tmp_path / "a.zarr", fill_value=number)
    tool("export", tmp_path / "a.zarr", tmp_path / "a.npy")
    assert (np.load(tmp_path / "a.npy")[4:] == float(number)).all()
    tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--unsharded", "--codec", "gzip")
    assert_same(zarr.open_array(tmp_path / "b.zarr", mode="r")[...], zarr.open_array(tmp_path / "a.zarr")[...])


@pytest.mark.parametrize("dialect", ["zarr2", "zarr2-sharded", "zarr3-transformer"])
def test_a_fill_value_that_no_float_is_goes_into_every_dialect(tool, tmp_path, dialect):
    for dtype, fill in [("i8", -(2**53) - 1), ("u8", 2**64 - 1)]:
        source, out = tmp_path / f"{dtype}.zarr", tmp_path / f"{dtype}-out.zarr"
        zarr.create_array(source, shape=(8, 8), chunks=(4, 4), dtype=dtype, fill_value=fill)[:4] = 1
        tool("repack", source, out, "--dialect", dialect)
        array = out / "0" if dialect == "zarr2" else out
        tool("export", array, tmp_path / f"{dtype}.npy")
        assert (np.load(tmp_path / f"{dtype}.npy")[4:] == np.array(fill, dtype)).all()
        assert dialect != "zarr2" or zarr.open_array(array, mode="r").fill_value == fill


@pytest.mark.parametrize("dtype, value", [("u1", "0xff"), ("u8", 1 << 64), ("i4", "0x00000001")])
def test_a_fill_value_that_no_integer_is(tool, tmp_path, dtype, value):
    zarr.create_array(tmp_path / "a.zarr", shape=(8, 8), chunks=(4, 4), dtype=dtype)[:4] = 1
    changed(tmp_path / "a.zarr", fill_value=value)
    told = tool("export", tmp_path / "a.zarr", tmp_path / "a.npy", code=3)
    assert f"fill_value {json.dumps(value)} is no" in told


def test_a_new_version_needs_no_shards(tool, tmp_path):
    image(tmp_path / "a.zarr")
    tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--ome", "0.6")
    root = zarr.open_group(tmp_path / "b.zarr", mode="r")
    assert root.attrs["ome"]["version"] == "0.6" and root["0"].shards is None
    assert_same(root["0"][...], np.arange(64, dtype="u2").reshape(8, 8))
    tool("repack", tmp_path / "a.zarr", "--ome", "0.6")
    root = zarr.open_group(tmp_path / "a.zarr", mode="r")
    assert root.attrs["ome"]["version"] == "0.6" and root["0"].shards is None
    assert_same(root["0"][...], np.arange(64, dtype="u2").reshape(8, 8))


def test_metadata_that_change_alone_are_told(tool, told, tmp_path):
    path = image(tmp_path / "a.zarr")
    tool("repack", path, "--shard", "8,8")
    before = (path / "0/c/0/0").read_bytes()
    assert "metadata of 1 group rewritten; 1 shard is in order" in tool("repack", path, "--ome", "0.6")
    assert zarr.open_group(path, mode="r").attrs["ome"]["version"] == "0.6"
    assert (path / "0/c/0/0").read_bytes() == before
    assert "nothing to rewrite" in tool("repack", path, "--ome", "0.6")
    found = [told("repack", path, "--ome", version)["groups_changed"] for version in ["0.6", "0.5", "0.5"]]
    assert found == [0, 1, 0]


@pytest.mark.parametrize("name", ["link", "sub/link"])
@pytest.mark.parametrize("end", ["folder", "loop"])
def test_links_to_what_is_no_node_stay_links(tool, tmp_path, name, end):
    path = image(tmp_path / "a.zarr")
    (path / "sub").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("s")
    leads = tmp_path / "outside" if end == "folder" else "link"
    os.symlink(leads, path / name)
    tool("repack", path, tmp_path / "b.zarr", "--unsharded")
    assert os.readlink(tmp_path / "b.zarr" / name) == str(leads)
    tool("repack", path, "--codec", "gzip")
    assert os.readlink(path / name) == str(leads)


@pytest.mark.parametrize("verb", ["repack", "manifest"])
def test_what_is_wrong_with_an_archive_is_told(tool, tmp_path, verb):
    (tmp_path / "bad.ozx").write_bytes(bytes(3000))
    assert "no ZIP archive" in tool(verb, tmp_path / "bad.ozx", tmp_path / "b.zarr", code=3)


def test_empty_folders_of_chunks_do_not_stand_where_a_shard_belongs(tool, tmp_path):
    # As tensorstore leaves them when a chunk becomes nothing but fill.
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    keys = {"name": "v2", "separator": "/"}
    array = root.create_array("0", shape=(6, 2), chunks=(1, 2), dtype="u2", chunk_key_encoding=keys)
    array[...] = pixels = np.arange(12, dtype="u2").reshape(6, 2)
    (tmp_path / "a.zarr/0/1/0").unlink()
    (tmp_path / "a.zarr/notes").mkdir()
    pixels[1] = 0
    shards = ("--chunk", "1,1", "--shard", "3,1")
    tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", "zarr2-sharded", *shards)
    tool("verify", tmp_path / "b.zarr")
    assert (tmp_path / "b.zarr/notes").is_dir()
    tool("export", tmp_path / "b.zarr", tmp_path / "b.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), pixels)


@pytest.mark.parametrize("name", ["", "deep/one"])
@pytest.mark.parametrize(("shape", "chunks"), [((20,), (5,)), ((), ()), ((0, 8, 8), (1, 8, 8))])
def test_an_array_that_is_no_image_becomes_zarr_v2_on_its_own(tool, tmp_path, name, shape, chunks):
    pixels = np.arange(np.prod(shape, dtype=int), dtype="u2").reshape(shape) + 5
    array = zarr.create_array(tmp_path / "a.zarr", name=name or None, shape=shape, chunks=chunks, dtype="u2")
    array[...] = pixels
    array.attrs["operator"] = "Ada"
    tool("repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", "zarr2")
    tool("verify", tmp_path / "b.zarr")
    read = zarr.open_array(tmp_path / "b.zarr" / name, mode="r", zarr_format=2)
    assert_same(read[...], pixels)
    assert dict(read.attrs) == {"operator": "Ada"}


@pytest.mark.parametrize("copied", [True, False])
def test_what_is_no_image_stays_as_it_is_beside_arrays_of_zarr_v2(tool, tmp_path, copied):
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    shapes = {"image": (3, 8, 8), "line": (20,), "none": (0, 8, 8), "point": ()}
    for name, shape in shapes.items():
        root.create_array(name, shape=shape, chunks=tuple(min(length or 1, 4) for length in shape), dtype="u2")[...] = 7
    path = tmp_path / ("b.zarr" if copied else "a.zarr")
    told = tool("repack", tmp_path / "a.zarr", *([path] if copied else []), "--dialect", "zarr2", "--codec", "gzip")
    assert "stays as it is" in told
    tool("verify", path)
    for name, shape in shapes.items():
        read = zarr.open_array(path / name, mode="r", zarr_format=2)
        assert_same(read[...], np.full(shape, 7, "u2"))
        compressor = json.loads((path / name / ".zarray").read_text())["compressor"]
        assert (compressor["id"] == "gzip") == (name == "image"), compressor
