"""Documents of levels that contradict those of level 0, each of which can be read by itself."""

import json
import pathlib
import subprocess

import numpy as np
import pytest
from test_pyramid import noise, ome_image


@pytest.fixture
def run(replay, tmp_path):
    """An image with two levels that its writer made."""
    np.save(tmp_path / "movie.npy", noise((3, 47, 65), "u2"))
    _, out = replay(tmp_path / "movie.npy", "--pyramid", "mean", "--levels", 2, "--chunk", "1,16,16")
    return out


@pytest.fixture
def found(command):
    """What `verify` finds: damage, and notes."""

    def run(path):
        done = subprocess.run([command, "verify", path, "--json"], stdout=subprocess.PIPE)
        found = json.loads(done.stdout)
        by = {"damage": [], "note": [], "unchecked": []}
        for finding in found["findings"]:
            by[finding["severity"]].append(f"{finding['path']}: {finding['what']}")
        assert done.returncode == (3 if by["damage"] else 0)
        return by

    return run


def change(path, what):
    document = json.loads(path.read_text())
    what(document)
    path.write_text(json.dumps(document))


def inner(document):
    (sharding,) = document["codecs"]
    return sharding["configuration"]["codecs"]


def big(document):
    inner(document)[0]["configuration"]["endian"] = "big"


def transposed(document):
    inner(document).insert(0, {"name": "transpose", "configuration": {"order": [0, 1, 2]}})


ARRAYS = {
    "data_type": (lambda it: it.update(data_type="int16"), 'has the data_type "int16"; level 0 has "uint16"'),
    "endian": (big, "has the codecs "),
    "transpose": (transposed, "has the codecs "),
    "fill_value": (lambda it: it.update(fill_value=7), "has another fill_value than level 0"),
}


@pytest.mark.parametrize("field", ARRAYS)
def test_an_array_that_reads_otherwise_than_level_0_is_damage(run, found, field):
    assert found(run)["damage"] == found(run)["note"] == []
    what, said = ARRAYS[field]
    change(run / "1/zarr.json", what)
    assert any(damage.startswith(f"1: {said}") for damage in found(run)["damage"])


def test_other_names_are_noted(run, found):
    change(run / "2/zarr.json", lambda it: it.update(dimension_names=["t", "x", "y"]))
    assert [note for note in found(run)["note"] if "dimension_names" in note]
    assert found(run)["damage"] == []


def entries(path):
    def decorate(what):
        def of(document):
            (image,) = document["attributes"]["ome"]["multiscales"]
            image["datasets"] = what(image["datasets"]) or image["datasets"]

        change(path / "zarr.json", of)

    return decorate


SCALES = {
    "negative": ([1, -2, 2], "a scale of -2"),
    "equal": ([1, 1, 1], "the scale 1 of y, where level 0 has 1 and its 47 pixels become 24"),
    "other": ([1, 2, 3], "the scale 3 of x"),
    "time": ([2, 2, 2], "the scale 2 of"),
    "two": ([1, 2], "a scale of 2 numbers; expected 3"),
    "none": (None, "without coordinateTransformations"),
}


@pytest.mark.parametrize("kind", SCALES)
def test_a_scale_that_is_not_level_0_s_is_noted(run, found, kind):
    scale, said = SCALES[kind]

    @entries(run)
    def _(datasets):
        if scale is None:
            del datasets[1]["coordinateTransformations"]
        else:
            datasets[1]["coordinateTransformations"][0]["scale"] = scale

    notes = found(run)["note"]
    assert any('list the level "1" with' in note and said in note for note in notes), notes


LISTS = {
    "reversed": (lambda it: it[::-1], "list a smaller level as the first one"),
    "order": (lambda it: [it[0], it[2], it[1]], 'list the level "1" behind a coarser one'),
    "twice": (lambda it: [*it, it[1]], 'list the level "1" twice'),
    "level 0 again": (lambda it: [*it[:2], {**it[2], "path": "0"}], 'list the level "0" twice'),
    "no array": (lambda it: [*it[:2], {**it[2], "path": "records"}], 'name an array "records", which is a group'),
    "nothing": (lambda it: [*it[:2], {**it[2], "path": "nope"}], 'name "nope", which is not there'),
}


@pytest.mark.parametrize("kind", LISTS)
def test_a_list_that_leads_to_other_pixels_is_damage(run, found, kind):
    what, said = LISTS[kind]
    entries(run)(what)
    damage = found(run)["damage"]
    assert any(said in one for one in damage), damage


@pytest.mark.parametrize("name", ["nope", "../0", "", "1", "2"])
def test_a_level_of_nothing_is_damage(run, found, tool, name):
    change(run / "1/zarr.json", lambda it: it["attributes"]["shardwright"].update(level_of=name))
    damage = found(run)["damage"]
    said = (f'level of "{name}", which is no array', f'level_of "{name}" is no name')
    assert any(one in finding for one in said for finding in damage), damage
    if name in ("", "../0"):
        said = tool("recover", run, code=3)
        assert f'level_of "{name}" is no name of an array beside it' in said, said


def test_a_shape_s_wrong_number_is_named(run, found):
    change(run / "1/zarr.json", lambda it: it.update(shape=[3, 23, 33]))
    (damage,) = [one for one in found(run)["damage"] if "which no level of 0" in one]
    assert damage.endswith("can have; 47 halved, once or more, never is 23"), damage


def test_of_another_s_pyramid_only_what_ome_zarr_demands_is_noted(tmp_path, found):
    path = ome_image(tmp_path / "other.zarr", noise((3, 40, 60), "u1"), (1, 20, 20), axes="tyx")
    ome_image(tmp_path / "small.zarr", noise((3, 13, 20), "u1"), (1, 20, 20), axes="tyx")
    (tmp_path / "small.zarr/0").rename(pathlib.Path(path) / "1")

    def listed(scale, swapped=False):
        def of(document):
            (image,) = document["attributes"]["ome"]["multiscales"]
            levels = [("0", [1, 1, 1]), ("1", scale)]
            image["datasets"] = [
                {"path": name, "coordinateTransformations": [{"type": "scale", "scale": numbers}]}
                for name, numbers in (levels[::-1] if swapped else levels)
            ]

        change(pathlib.Path(path) / "zarr.json", of)
        return found(path)

    assert listed([1, 3.07, 3]) == {"damage": [], "note": [], "unchecked": []}
    assert any("a scale of -3" in note for note in listed([1, -3, 3])["note"])
    assert any("a scale of 2 numbers" in note for note in listed([3, 3])["note"])
    swapped = listed([1, 3, 3], swapped=True)
    assert swapped["damage"] == [] and any("behind a coarser one" in note for note in swapped["note"]), swapped
