"""What `shardwright pyramid` keeps of levels that it makes again, what it says where it makes none, and whether its
advice helps."""

import json
import shlex
import shutil
import signal
import subprocess
import time

import pytest
import tensorstore
import zarr
from readers import assert_same, open_zarr_python
from test_pyramid import assert_levels, noise, ome_image


def attributes(path):
    return dict(zarr.open_array(path, mode="r").attrs)


def annotated(path, levels=2, name="0"):
    """An image with levels of which somebody has said something."""
    pixels = noise((3, 80, 96), "u2")
    ome_image(path, pixels, (1, 32, 32), axes="zyx", name=name)
    document = json.loads((path / "zarr.json").read_text())
    datasets = document["attributes"]["ome"]["multiscales"][0]["datasets"]
    for level in range(1, levels + 1):
        own = name.replace("0", str(level))
        way = [{"type": "scale", "scale": [1.0, 2.0**level, 2.0**level]}]
        datasets.append({"path": own, "coordinateTransformations": way})
        smaller = [3, *(length >> level for length in pixels.shape[1:])]
        zarr.create_array(path / own, shape=smaller, chunks=(1, 32, 32), dtype="u2", dimension_names=["z", "y", "x"],
                          attributes={"zzz": level, "aaa": {"own": [level, None]}, "_ARRAY_DIMENSIONS": ["a", "b", "c"],
                                      "shardwright": "a word"})
    (path / "zarr.json").write_text(json.dumps(document))
    return path, pixels


@pytest.mark.parametrize("name", ["0", "deep/s0"])
def test_attributes_of_levels_stay(told, tmp_path, name):
    path, pixels = annotated(tmp_path / "i.zarr", name=name)
    for method in ["max", "min"]:
        said = told("pyramid", path, "--levels", 3, "--method", method, "--overwrite")
        assert_levels(path, said, pixels, method)
        for level in [1, 2]:
            kept = attributes(path / name.replace("0", str(level)))
            assert list(kept.items()) == [("zzz", level), ("aaa", {"own": [level, None]}), ("shardwright", "a word")]
        assert attributes(path / name.replace("0", "3")) == {}
        one = name.replace("0", "1")
        assert any(f'"{one}" keeps' in note and '"zzz", "aaa"' in note for note in said["notes"]), said["notes"]
    assert open_zarr_python(path / one).metadata.dimension_names == ("z", "y", "x")


def test_attributes_of_a_level_that_goes_are_in_the_way(told, tmp_path):
    path, _ = annotated(tmp_path / "i.zarr")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    error = told("pyramid", path, "--levels", 1, "--overwrite", code=3)["error"]
    assert "level 2 has" in error["message"] and '"zzz"' in error["message"] and "--levels" in error["message"]
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file() and "lock" not in file.name} == before
    told("pyramid", path, "--levels", 2, "--overwrite")
    assert attributes(path / "2")["zzz"] == 2


@pytest.mark.parametrize("other", [[], ["--method", "min"]])
def test_attributes_of_levels_stay_also_where_a_call_was_killed(command, told, tmp_path, other):
    """Killed in every step of the change of places, by what stands there."""
    first, _ = annotated(tmp_path / "first.zarr")
    for wait in range(8):
        path = shutil.copytree(first, tmp_path / f"{wait}.zarr")
        call = [command, "pyramid", path, "--levels", "2", "--method", "max", "--overwrite", "-q"]
        run = subprocess.Popen([str(word) for word in call])
        while not (tmp_path / f".{wait}.zarr.pyramid/publish.json").exists() and run.poll() is None:
            pass
        time.sleep(wait * 0.0007)
        run.send_signal(signal.SIGKILL)
        run.wait()
        told("pyramid", path, "--levels", "2", *(other or ["--method", "max"]), "--overwrite")
        assert [attributes(path / str(level)).get("zzz") for level in [1, 2]] == [1, 2], wait


def old_image(path, zarr_format=2):
    """OME-Zarr 0.4 as others write it."""
    pixels = noise((3, 80, 96), "u2")
    root = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    axes = [{"name": name, "type": "space"} for name in "zyx"]
    scale = [{"type": "scale", "scale": [1.0, 1.0, 1.0]}]
    image = {"version": "0.4", "axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}]}
    root.attrs["multiscales"] = [image]
    root.create_array("0", data=pixels, chunks=(1, 32, 32))
    return path, pixels


def test_an_image_of_0_4_gets_levels_by_the_advice(told, tmp_path):
    path, pixels = old_image(tmp_path / "my old.zarr")
    message = told("pyramid", path, "--levels", 1, code=5)["error"]["message"]
    words = shlex.split(message.split("makes one of it: ", 1)[1])
    assert words[:2] == ["shardwright", "repack"] and words[-1] == "NEW" and len(words) == 4
    told(*words[1:-1], tmp_path / "new.zarr")
    said = told("pyramid", tmp_path / "new.zarr", "--levels", 1)
    assert_levels(tmp_path / "new.zarr", said, pixels, "mean")
    assert_same(open_zarr_python(tmp_path / "new.zarr/0")[...], pixels)


@pytest.mark.parametrize("sharded", [True, False])
def test_a_volume_gets_levels_by_the_advice(told, tmp_path, sharded):
    path, pixels = old_image(tmp_path / "old.zarr")
    if not sharded:
        made = {"key": "a", "size": [96, 80, 3], "resolution": [1, 1, 1], "encoding": "raw", "chunk_size": [32, 32, 1]}
        spec = {"driver": "neuroglancer_precomputed", "kvstore": f"file://{tmp_path}/v", "scale_metadata": made,
                "multiscale_metadata": {"type": "image", "data_type": "uint16", "num_channels": 1}}
        tensorstore.open(spec, create=True).result()[...] = pixels.T[..., None]
    else:
        told("repack", path, tmp_path / "v", "--dialect", "precomputed", "--codec", "gzip", "--resolution", "1,1,1")
    message = told("pyramid", tmp_path / "v", "--levels", 1, code=5)["error"]["message"]
    words = shlex.split(message.split("makes one of it: ", 1)[1])
    assert words[-1] == "NEW"
    told(*words[1:-1], tmp_path / "new.zarr")
    assert len(told("pyramid", tmp_path / "new.zarr", "--levels", 1)["levels"]) == 1


UM = "micrometer"


@pytest.mark.parametrize("door", ["pyramid", "replay"])
@pytest.mark.parametrize("units, outcome", [
    ([None, None, None], [[4, 32, 32], [2, 16, 16]]),
    ([UM, UM, UM], [[4, 32, 32], [2, 16, 16]]),
    (["nanometer", UM, UM], [[2, 32, 32], [1, 16, 16]]),
    ([None, UM, UM], f'z has no unit, y and x are in "{UM}"'),
    ([UM, None, None], f'z is in "{UM}", y and x have no unit'),
    ([None, UM, "nanometer"], f'z has no unit, y is in "{UM}", x is in "nanometer"'),
])  # fmt: skip
def test_distances_along_z_are_compared_in_one_unit_or_in_none(told, tool, tmp_path, door, units, outcome):
    pixels = noise((4, 64, 64), "u2")
    path = ome_image(tmp_path / "i.zarr", pixels, (1, 32, 32), axes="zyx", scale=[2.0, 1.0, 1.0])
    document = json.loads((path / "zarr.json").read_text())
    axes = document["attributes"]["ome"]["multiscales"][0]["axes"]
    for axis, unit in zip(axes, units, strict=True):
        axis.update({"unit": unit} if unit else {})
    (path / "zarr.json").write_text(json.dumps(document))
    out = path
    call = ["pyramid", path, "--levels", 2]
    if door == "replay":
        out = tmp_path / "o.zarr"
        call = ["replay", path, out, "--no-sync", "--pyramid", "mean", "--levels", 2]
    if isinstance(outcome, list):
        told(*call, "--z", "auto")
        assert [list(open_zarr_python(out / name).shape) for name in "12"] == outcome
        return
    message = told(*call, "--z", "auto", code=2)["error"]["message"]
    assert outcome in message and "--z never" in message and "--z always" in message
    helps = door == "replay" and units == [UM, None, None]
    assert ("--pixel-size" in message) == helps
    told(*call, "--z", "always")
    assert open_zarr_python(out / "2").shape == (1, 16, 16)
    if helps:
        told(*call, "--overwrite", "--z", "auto", "--pixel-size", "1um")
        assert open_zarr_python(out / "2").shape == (2, 16, 16)


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_levels_of_a_small_image_stay_and_are_told(told, tool, tmp_path, overwrite):
    path, pixels = annotated(tmp_path / "i.zarr")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    said = told("pyramid", path, "--method", "max", *overwrite)
    assert said["levels"] == [] and '"1", "2" stay as they are' in said["notes"][0] and "--levels" in said["notes"][0]
    after = {file: file.read_bytes() for file in path.rglob("*") if file.is_file() and "lock" not in file.name}
    assert after == before
    assert "note: the levels" in tool("pyramid", path, *overwrite)
    assert_levels(path, told("pyramid", path, "--method", "max", "--overwrite", "--levels", 2), pixels, "max")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("shape", [(80, 96), (3, 80, 96), (2, 3, 80, 96)])
@pytest.mark.parametrize("inner", ["raw", "deep/raw", ""])
def test_an_array_of_no_image_gets_levels_by_the_advice(told, tmp_path, zarr_format, shape, inner):
    pixels = noise(shape, "u2")
    path = tmp_path / "my data.zarr"
    chunks = (*[1] * (len(shape) - 2), 32, 32)
    if inner:
        zarr.open_group(path, mode="w", zarr_format=zarr_format).create_array(inner, data=pixels, chunks=chunks)
    else:
        zarr.create_array(path, data=pixels, chunks=chunks, zarr_format=zarr_format)
    message = told("pyramid", path, code=5 if zarr_format == 2 else 3)["error"]["message"]
    words = shlex.split(message[message.index("shardwright replay") :])
    assert words[1:4] == ["replay", str(path / inner), "NEW.ome.zarr"]
    axes = ["--axes", "…"] if len(shape) == 4 else []
    assert words[4:] == [*axes, "--pyramid", "mean"]
    axes = ["--axes", "t,z,y,x"] if axes else []
    told("replay", path / inner, tmp_path / "n.zarr", *axes, "--pyramid", "mean", "--levels", 1, "--no-sync")
    read = open_zarr_python(tmp_path / "n.zarr/0")[...]
    assert_same(read.reshape(shape), pixels)
    assert open_zarr_python(tmp_path / "n.zarr/1").shape[-2:] == (40, 48)


def test_an_image_in_a_group_of_zarr2_is_still_to_be_repacked(told, tmp_path):
    zarr.open_group(tmp_path / "g.zarr", mode="w", zarr_format=2)
    old_image(tmp_path / "g.zarr/image")
    for inner, words in [("", "shardwright repack"), ("image/0", "repack makes one of an image of 0.4: name that")]:
        message = told("pyramid", tmp_path / "g.zarr" / inner, code=5)["error"]["message"]
        assert words in message and "replay" not in message


@pytest.mark.parametrize("images", [20, 21])
def test_a_list_of_images_that_is_not_whole_says_so(told, tmp_path, images):
    zarr.open_group(tmp_path / "g.zarr", mode="w", zarr_format=3)
    for image in range(images):
        ome_image(tmp_path / f"g.zarr/{image}", noise((32, 32), "u1"), (32, 32), axes="yx")
    message = told("pyramid", tmp_path / "g.zarr", code=3)["error"]["message"]
    assert f"holds {images} images" in message and message.endswith(", …") == (images > 20)
