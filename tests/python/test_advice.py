"""Refusals that say what helps: the advice is followed word by word."""

import json
import shlex

import numpy as np
import pytest
import zarr
from arrays import files
from readers import assert_same
from test_plates import collection, image, plate
from test_pyramid import noise, ome_image


def array(path, fill, written=True, shards=(8, 8)):
    """An array of floats whose fill value is a NaN with bits of its own, without its last chunk if asked."""
    made = zarr.create_array(path, shape=(8, 16), chunks=(4, 4), shards=shards, dtype="f4", fill_value=1.0)
    made[...] = np.arange(128, dtype="f4").reshape(8, 16)
    if not written:
        (path / "c/0/1").unlink()
    document = json.loads((path / "zarr.json").read_text())
    (path / "zarr.json").write_text(json.dumps({**document, "fill_value": fill}))
    return path


def bits(path, tool, out):
    """What the array reads as here, which goes by the bits that a document says."""
    tool("export", path / "0" if (path / "0/.zarray").exists() else path, out, "--format", "npy")
    return np.load(out).view("u4")


PLAIN, OWN = "NaN", "0x7fc00123"


@pytest.mark.parametrize("dialect", [["zarr2"], ["zarr2-sharded"], ["zarr3-transformer"]])
@pytest.mark.parametrize("cut", [[], ["--chunk", "8,8"], ["--codec", "zstd"]])
def test_chunks_that_are_not_there_do_not_become_other_nans(tool, tmp_path, dialect, cut):
    call = [tmp_path / "out", "--dialect", *dialect, *cut]
    told = tool("repack", array(tmp_path / "a.zarr", OWN, written=False), *call, code=5)
    assert "4 chunks are not there" in told and f"{dialect[0]} has no words" in told and "zarr3 has words" in told
    assert not (tmp_path / "out").exists()
    # In Zarr v3, they stay what they are.
    tool("repack", tmp_path / "a.zarr", tmp_path / "same.zarr", *cut)
    before = bits(tmp_path / "a.zarr", tool, tmp_path / "a.npy")
    assert (before[:, 8:] == 0x7FC00123).all()
    assert_same(bits(tmp_path / "same.zarr", tool, tmp_path / "same.npy"), before)
    # A plain one is the same in all formats.
    path = array(tmp_path / "b.zarr", PLAIN, written=False)
    tool("repack", path, *call)
    assert (bits(tmp_path / "out", tool, tmp_path / "b.npy")[:, 8:] == 0x7FC00000).all()


@pytest.mark.parametrize("dialect", [["zarr2"], ["zarr2-sharded"], ["zarr3-transformer"]])
@pytest.mark.parametrize("cut", [[], ["--chunk", "8,8"], ["--codec", "zstd"]])
def test_chunks_of_such_nans_alone_are_written(tool, tmp_path, dialect, cut):
    path = array(tmp_path / "a.zarr", OWN, shards=None)
    for chunk in ["2", "3"]:
        for row in ["0", "1"]:
            file = path / "c" / row / chunk
            document = json.loads((path / "zarr.json").read_text())
            document["codecs"] = document["codecs"][:1]
            file.write_bytes(np.full(16, 0x7FC00123, "u4").tobytes())
    for file in (path / "c").rglob("[01]"):
        if file.is_file():
            file.write_bytes(np.ones(16, "f4").tobytes())
    (path / "zarr.json").write_text(json.dumps(document))
    before = bits(path, tool, tmp_path / "a.npy")
    shard = [] if dialect == ["zarr2"] else ["--shard", "8,8"]
    assert "NaN with bits of its own" in tool("repack", path, tmp_path / "out", "--dialect", *dialect, *cut, *shard)
    assert_same(bits(tmp_path / "out", tool, tmp_path / "out.npy"), before)


def test_references_leave_out_what_zarr_v2_would_read_otherwise(tool, tmp_path):
    array(tmp_path / "a.zarr", OWN, written=False)
    told = tool("manifest", tmp_path / "a.zarr", tmp_path / "m")
    assert "left out of kerchunk.json" in told and "4 chunks are not there" in told
    references = json.loads((tmp_path / "m/kerchunk.json").read_text())["refs"]
    assert not [key for key in references if key.endswith(".zarray")]
    tool("manifest", tmp_path / "a.zarr", tmp_path / "m3", "--zarr-format", "3")
    array(tmp_path / "b.zarr", OWN)
    assert "NaN with bits of its own" in tool("manifest", tmp_path / "b.zarr", tmp_path / "mb")


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("options", [["--ome", "0.4"], ["--dialect", "zarr2"]])
def test_an_attribute_in_the_place_of_another_is_renamed(tool, tmp_path, levels, options):
    path = ome_image(tmp_path / "i.zarr", noise((64, 64), "u2"), (32, 32), axes="yx")
    if levels > 1:
        tool("pyramid", path, "--levels", 1)
    group = zarr.open_group(path, mode="a")
    group.attrs["multiscales"] = "mine"
    told = tool("repack", path, tmp_path / "o.zarr", *options, code=5)
    assert f"{path}: has the attribute \"multiscales\"" in told and "rename it there" in told
    # To stay with Zarr v3.
    tool("repack", path, tmp_path / "same.zarr", "--codec", "zstd")
    attributes = dict(group.attrs)
    attributes["my multiscales"] = attributes.pop("multiscales")
    group.attrs.put(attributes)
    tool("repack", path, tmp_path / "o.zarr", *options)
    said = dict(zarr.open_group(tmp_path / "o.zarr", mode="r").attrs)
    assert said["my multiscales"] == "mine" and len(said["multiscales"][0]["datasets"]) == levels


def test_a_collection_or_a_plate_names_its_images(tool, tmp_path):
    for name in ["listed", "numbered"]:
        path = tmp_path / name
        found = collection(path, name == "listed")
        for call in [["replay", path, tmp_path / "o"], ["replay", path, tmp_path / "o", "--series", 1],
                     ["export", path, tmp_path / "o.npy"]]:  # fmt: skip
            told = tool(*call, code=3)
            paths = told.strip().split("name the path of one: ", 1)[1].split(", ")
            assert paths == [f"{path}/{key}" for key in found], told
        for place, pixels in zip(paths, found.values(), strict=True):
            tool("replay", place, tmp_path / "out.zarr", "--overwrite")
            assert_same(zarr.open_array(tmp_path / "out.zarr/0", mode="r")[...], pixels)


def test_a_plate_names_all_fields_of_its_wells(tool, tmp_path):
    path = tmp_path / "p.zarr"
    fields = [key for key in plate(path) if "labels" not in key]

    def named():
        said = [tool("replay", path, tmp_path / "o", code=3), tool("export", path, tmp_path / "o.npy", code=3)]
        assert said[0] == said[1]
        return said[0].strip().split("name the path of one: ", 1)[1].split(", ")

    assert named() == [f"{path}/{key}" for key in fields]
    # A well that can't be read, and one of more fields than there is room for.
    (path / "A/1/.zattrs").write_text("{")
    many = {"well": {"version": "0.4", "images": [{"path": str(number)} for number in range(20)]}}
    (path / "A/2/.zattrs").write_text(json.dumps(many))
    assert named() == [f"{path}/A/1/0", *(f"{path}/A/2/{number}" for number in range(8)), "…"]


@pytest.mark.parametrize("zarr_format, version", [(2, "0.5"), (2, "0.6"), (3, "0.4")])
def test_a_version_of_other_documents_goes_into_a_new_dataset(tool, tmp_path, zarr_format, version):
    if zarr_format == 2:
        image(zarr.open_group(tmp_path / "i.zarr", mode="w", zarr_format=2), 1)
    else:
        ome_image(tmp_path / "i.zarr", noise((64, 64), "u2"), (32, 32), axes="yx")
    before = files(tmp_path / "i.zarr")
    told = tool("repack", tmp_path / "i.zarr", "--ome", version, code=2)
    assert "write the result to a new dataset" in told and "leave" not in told
    assert files(tmp_path / "i.zarr") == before
    tool("repack", tmp_path / "i.zarr", tmp_path / "new.zarr", "--ome", version)
    both = ["--ome", version, "--dialect", f"zarr{zarr_format}"]
    assert "leave one of the two options out" in tool("repack", tmp_path / "i.zarr", tmp_path / "n", *both, code=2)
    tool("repack", tmp_path / "i.zarr", tmp_path / "n", *both[:2])


def test_a_manifest_of_an_archive_is_one_of_a_folder(tool, tmp_path):
    ome_image(tmp_path / "i.zarr", noise((64, 64), "u2"), (32, 32), (64, 64), axes="yx")
    tool("repack", tmp_path / "i.zarr", tmp_path / "i.ozx")
    told = tool("manifest", tmp_path / "i.ozx", code=5)
    assert "one file already" in told and "repack it into a folder" in told
    assert "one file already" in tool("manifest", tmp_path / "i.ozx/0", tmp_path / "m", code=5)
    tool("repack", tmp_path / "i.ozx", tmp_path / "folder.zarr")
    tool("manifest", tmp_path / "folder.zarr")


@pytest.mark.parametrize("names", [["a"], ["a", "b"], ["a", "b c/d", "e", "f", "g", "h", "i"]])
def test_all_arrays_that_are_not_read_are_named_at_once(tool, tmp_path, names):
    root = zarr.open_group(tmp_path / "g.zarr", mode="w", zarr_format=3)
    for name in ["good", *names]:
        root.create_array(name, data=np.arange(64, dtype="u2").reshape(8, 8), chunks=(4, 4), shards=(8, 8))
    for name in names:
        file = tmp_path / "g.zarr" / name / "zarr.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "data_type": "string"}))
    told = tool("repack", tmp_path / "g.zarr", tmp_path / "o.zarr", "--codec", "zstd", code=5)
    assert told.count("zarr.json: ") == min(len(names), 5)
    assert ("2 arrays can't be read either" in told) == (len(names) == 7)
    skip = shlex.split(told.split(", add ", 1)[1])
    assert skip == ["--skip", ",".join(names)]
    tool("repack", tmp_path / "g.zarr", tmp_path / "o.zarr", "--codec", "zstd", *skip)
    tool("verify", tmp_path / "o.zarr/good", "-q")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("by_key", [True, False])
@pytest.mark.parametrize("more", [[], ["--overwrite"]])
def test_a_level_is_not_replaced_by_itself(tool, tmp_path, zarr_format, by_key, more):
    if zarr_format == 2:
        path = tmp_path / "study.zarr"
        zarr.open_group(path, mode="w", zarr_format=2)
        image(zarr.open_group(path / "img", mode="w", zarr_format=2), 1)
    else:
        path = tmp_path / "study.zarr"
        zarr.open_group(path, mode="w", zarr_format=3)
        ome_image(path / "img", noise((3, 64, 64), "u2"), (1, 32, 32), axes="zyx", name="deep/0")
        tool("pyramid", path / "img", "--levels", 1)
    level = "deep/0" if zarr_format == 3 else "0"
    np.save(tmp_path / "m.npy", noise((2, 20, 30), "u1"))
    before = files(path)
    for key in [level, level.split("/")[0]]:
        place = [path, "--key", f"img/{key}"] if by_key and zarr_format == 3 else [path / "img" / key]
        told = tool("replay", tmp_path / "m.npy", *place, *more, code=1)
        assert f'the level "{level}" of the image {path}/img' in told and "--overwrite" not in told
        assert files(path) == before
    # Also where the level is missing.
    (path / "img" / level).rename(tmp_path / "aside")
    told = tool("replay", tmp_path / "m.npy", path / "img" / level, *more, code=1)
    assert f'the level "{level}" of the image' in told and not (path / "img" / level).exists()
    (tmp_path / "aside").rename(path / "img" / level)
    # Another path; the image is another writer's, and is not replaced as a whole.
    if zarr_format == 3:
        tool("replay", tmp_path / "m.npy", path, "--key", "img/other")
        tool("replay", tmp_path / "m.npy", path, "--key", "img", "--overwrite", code=1)
        tool("verify", path, "-q")


def test_nothing_is_made_in_a_dataset_whose_readers_would_not_see_it(tool, tmp_path):
    path = tmp_path / "g.zarr"
    root = zarr.open_group(path, mode="w")
    root.create_array("n", data=noise((4, 8, 8), "u2"), chunks=(2, 4, 4))
    zarr.consolidate_metadata(path)
    np.save(tmp_path / "m.npy", noise((2, 20, 30), "u1"))
    zarr.create_array(tmp_path / "a.zarr", data=noise((4, 8, 8), "u2"), chunks=(2, 4, 4))
    before = files(path)
    for words in [
        ["replay", tmp_path / "m.npy", path / "new"],
        ["replay", tmp_path / "m.npy", path, "--key", "new"],
        ["repack", tmp_path / "a.zarr", path / "new"],
    ]:
        assert "has consolidated metadata" in tool(*words, code=2)
    for name in ["n/zarr.json", "n/c/0/0/9"]:
        words = ["export", tmp_path / "a.zarr", path / name, "--format", "raw", "--overwrite"]
        assert "lies in the dataset" in tool(*words, code=2)
    assert files(path) == before


@pytest.mark.parametrize("dialect, option, lengths", [
    ("zarr3", "--chunk", "1,8,8"), ("zarr3", "--shard", "4,32,32"), ("zarr2", "--chunk", "1,8,8"),
])  # fmt: skip
def test_lengths_for_more_dimensions_than_an_array_has_name_it(tool, tmp_path, dialect, option, lengths):
    root = zarr.open_group(tmp_path / "a.zarr", mode="w")
    stack = noise((4, 32, 32), "u2")
    root.create_array("stack", data=stack, chunks=(2, 16, 16), shards=(4, 32, 32))
    root.create_array("more/stack", data=stack, chunks=(2, 16, 16), shards=(4, 32, 32))
    root.create_array("times", data=np.arange(40.0), chunks=(10,), shards=(20,))
    root.create_array("mean", data=stack[0], chunks=(16, 16), shards=(32, 32))
    call = ["repack", tmp_path / "a.zarr", tmp_path / "o.zarr", "--dialect", dialect, option, lengths]
    told = tool(*call, code=2)
    assert told.startswith(f"error: {option} ") and "2 arrays have fewer dimensions" in told, told
    skip = shlex.split(told.split("add ", 1)[1].split(", or", 1)[0])
    assert skip == ["--skip", "mean,times"] and "--only" in told
    tool(*call, *skip)
    # By the other one, and of one array alone.
    del root["mean"]
    assert 'the array "times" has 1 dimension;' in tool(*call[:2], tmp_path / "p.zarr", *call[3:], code=2)
    tool(*call[:2], tmp_path / "p.zarr", *call[3:], "--only", "stack,more/stack")
    for out in ["o.zarr", "p.zarr"]:
        assert_same(zarr.open_group(tmp_path / out, mode="r")["more/stack"][...], stack)
    # Where none has so many, nothing is left to repack.
    assert "--skip" not in tool(*call[:2], tmp_path / "q.zarr", *call[3:5], option, "1,1,1,8,8", code=2)
