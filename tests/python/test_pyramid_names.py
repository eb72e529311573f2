"""What `shardwright pyramid` calls its levels, what it may replace for that, and what it must not touch."""

import copy
import json
import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
import yaozarrs
import zarr

SCALE = {"type": "scale", "scale": [1.0, 1.0]}
PIXELS = np.arange(64 * 64, dtype="u2").reshape(64, 64)


@pytest.fixture
def pyramid(command):
    """Runs `shardwright pyramid` and returns its report, or what it says where it fails."""

    def run(path, *options, code=0):
        call = [command, "pyramid", path, "--json", "--no-sync", *options]
        done = subprocess.run([str(word) for word in call], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        said = json.loads(done.stdout)
        return said["error"] if code else said

    return run


def dataset(path, *moves):
    return {"path": path, "coordinateTransformations": list(moves or [SCALE])}


def axes(units=(None, None), names="yx"):
    made = [{"name": name, "type": "space", "unit": unit} for name, unit in zip(names, units)]
    return [{key: value for key, value in axis.items() if value} for axis in made]


def image(path, *listed, arrays=None, more=(), **of_image):
    """An image whose document lists these levels; `arrays`: what there is, by its factor to level 0."""
    root = zarr.open_group(path, mode="w", zarr_format=3)
    for name, factor in (arrays or {name: 2**at for at, name in enumerate(listed)}).items():
        root.create_array(name, data=PIXELS[::factor, ::factor], chunks=(16, 16), dimension_names=["y", "x"])
    multiscale = {"axes": axes(), "datasets": [dataset(name) for name in listed], **of_image}
    root.attrs["ome"] = {"version": "0.5", "multiscales": [multiscale, *more]}
    return path


def files(path):
    """All that is there, without what only says that somebody works there."""
    found = {}
    for folder, folders, names in os.walk(path):
        for name in [*folders, *names]:
            file = os.path.join(folder, name)
            is_plain = os.path.isfile(file) and not os.path.islink(file)
            found[file] = open(file, "rb").read() if is_plain else os.path.islink(file) and os.readlink(file)
    return {name: what for name, what in found.items() if not name.endswith(".shardwright.lock")}


def listed(path):
    return [level["path"] for level in multiscale_of(path)["datasets"]]


def multiscale_of(path):
    return json.loads((path / "zarr.json").read_text())["attributes"]["ome"]["multiscales"][0]


def assert_refused(pyramid, path, *words, options=("--levels", 2, "--overwrite"), code=3, kind=None):
    before = files(path.parent)
    error = pyramid(path, *options, code=code)
    assert all(word in error["message"] for word in words), error
    assert kind is None or error["kind"] == kind
    assert "--overwrite replaces" not in error["message"]
    assert files(path.parent) == before


@pytest.mark.parametrize(
    ("names", "made"),
    [(["1"], ["2", "3"]), (["1", "2"], ["2", "3"]), (["2"], ["1", "3"]), (["scale0/1", "scale1/1"], None)],
)
def test_level_0_keeps_its_name_and_its_pixels(pyramid, tmp_path, names, made):
    path = image(tmp_path / "i.zarr", *names)
    if "/" in names[0]:
        # As ngff-zarr says of its groups.
        zarr.open_group(path / "scale1").attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    said = pyramid(path, "--levels", 2, "--method", "decimate", "--overwrite")
    made = made or ["scale0/2", "scale0/3"]
    assert [level["path"] for level in said["levels"]] == made and listed(path) == [names[0], *made]
    for factor, name in zip((1, 2, 4), [names[0], *made]):
        assert np.array_equal(zarr.open_array(path / name, mode="r")[...], PIXELS[::factor, ::factor])
    assert not (path / "scale1").exists()
    yaozarrs.validate_zarr_store(str(path))


def linked(path, link, real):
    (path / link).symlink_to(real)


DOUBLED = [
    (["0", "0"], {"0": 1}, None, "is only read"),
    (["0", "1", "0"], {"0": 1, "1": 2}, None, "is only read"),
    (["0", "0/"], {"0": 1}, None, '"0/"'),
    (["0/"], {"0": 1}, None, '"0/"'),
    (["0", "./1"], {"0": 1, "1": 2}, None, '"./1"'),
    (["0", "a//1"], {"0": 1, "a/1": 2}, None, '"a//1"'),
    (["L", "0"], {"0": 1}, ("L", "0"), "is only read"),
    (["L"], {"1": 1}, ("L", "1"), "is only read"),
    (["0", "0/c"], {"0": 1}, None, "is only read"),
    (["0", "0/zarr.json"], {"0": 1}, None, "is only read"),
    (["0x/z", "0x"], {"0x/z": 1}, None, "is only read"),
    (["1", "0"], {"0": 1, "1": 2}, None, "no smaller than level 0"),
    (["0", "1"], {"0": 1, "1": 1}, None, "no smaller than level 0"),
    (["0", "L"], {"0": 1, "mine": 2}, ("L", "mine"), "behind, a link"),
    (["L/0"], {"a/0": 1}, ("L", "a"), "behind a link"),
]


@pytest.mark.parametrize(("names", "arrays", "link", "words"), DOUBLED, ids=[str(names) for names, *_ in DOUBLED])
def test_documents_that_name_level_0_twice_are_refused(pyramid, tmp_path, names, arrays, link, words):
    path = image(tmp_path / "i.zarr", *names, arrays=arrays)
    if link:
        linked(path, *link)
    assert_refused(pyramid, path, words)
    if len(names) > 1:
        assert_refused(pyramid, path, words, options=["--levels", 2])


def foreign(path, what):
    """Makes the level `1` of an image, or what its document lists, something of somebody else."""
    root = zarr.open_group(path)
    level = path / "1"
    if what == "a group":
        shutil.rmtree(level)
        labels = root.create_group("1").create_group("cells")
        labels.create_array("0", data=PIXELS, chunks=(16, 16))
    elif what in ("another type", "more dimensions"):
        shutil.rmtree(level)
        data = PIXELS[::2, ::2].astype("u1") if what == "another type" else PIXELS[None, ::2, ::2]
        root.create_array("1", data=data, chunks=(16,) * data.ndim)
    elif what == "a file":
        (level / "notes.txt").write_text("mine")
    elif what == "a file among chunks":
        (level / "c/0/notes.txt").write_text("mine")
    elif what == "a chunk beyond":
        (level / "c/9").mkdir()
        (level / "c/9/9").write_text("mine")
    elif what == "a folder":
        (level / "c/0/0").unlink()
        (level / "c/0/0").mkdir()
        (level / "c/0/0/mine").write_text("mine")
    elif what == "a link":
        (level / "more").symlink_to("c")


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("a group", "is no array"),
        ("another type", "other elements or dimensions"),
        ("more dimensions", "other elements or dimensions"),
        ("a file", "notes.txt, which is no chunk"),
        ("a file among chunks", "notes.txt, which is no chunk"),
        ("a chunk beyond", "c/9/9, which is no chunk"),
        ("a folder", "which is no chunk"),
        ("a link", "more, which is no chunk"),
    ],
)
def test_what_is_more_than_a_level_is_not_replaced(pyramid, tmp_path, what, words):
    path = image(tmp_path / "i.zarr", "0", "1", "2")
    foreign(path, what)
    assert_refused(pyramid, path, words, "take it out of the image's datasets")
    assert_refused(pyramid, path, words, options=["--levels", 2])


def test_a_document_listed_as_a_level_stays(pyramid, tmp_path):
    path = image(tmp_path / "i.zarr", "0", "zarr.json", arrays={"0": 1})
    assert_refused(pyramid, path, "is no array")


def test_levels_of_other_images_stay(pyramid, tmp_path):
    second = {"name": "b", "axes": axes(), "datasets": [dataset("1"), dataset("2")]}
    path = image(tmp_path / "a.zarr", "0", "1", more=[second], arrays={"0": 1, "1": 2, "2": 4})
    assert_refused(pyramid, path, "belongs to another image")
    # An image within the image, of which one level is listed.
    path = image(tmp_path / "b.zarr", "0", "inner/0", arrays={"0": 1})
    image(path / "inner", "0", arrays={"0": 2})
    assert_refused(pyramid, path, "belongs to another image")


@pytest.mark.parametrize("options", [[], ["--overwrite"]])
def test_an_array_that_nobody_lists_stays(pyramid, tmp_path, options):
    path = image(tmp_path / "i.zarr", "0", arrays={"0": 1, "1": 2})
    assert_refused(pyramid, path, "move it away", options=["--levels", 1, *options], code=1, kind="exists")


def test_what_a_killed_call_left_is_replaced_by_another(pyramid, command, tmp_path):
    path = image(tmp_path / "i.zarr", "0", arrays={"0": 1})
    whole = shutil.copytree(path, tmp_path / "whole.zarr")
    pyramid(whole, "--levels", 2, "--method", "max")
    staging = tmp_path / ".i.zarr.pyramid"
    killed = False
    for moment in [0, 0.002, 0.004, 0.001, 0.003] * 8:
        call = subprocess.Popen([str(word) for word in (command, "pyramid", path, "-q", "--levels", "2")])
        while not (staging / "publish.json").exists() and call.poll() is None:
            pass
        time.sleep(moment)
        call.send_signal(signal.SIGKILL)
        call.wait()
        killed = (path / "1").exists() and listed(path) == ["0"]
        if killed:
            break
        shutil.rmtree(path)
        shutil.rmtree(staging, ignore_errors=True)
        image(path, "0", arrays={"0": 1})
    if not killed:
        pytest.skip("no call was killed while levels got their names")
    pyramid(path, "--levels", 2, "--method", "max", "--overwrite")
    for level in "12":
        made, expected = (
            {os.path.relpath(file, root): content for file, content in files(root / level).items()}
            for root in (path, whole)
        )
        assert made and made == expected
    assert not staging.exists()


def test_a_stopped_call_gives_no_right_to_arrays_that_it_did_not_make(pyramid, command, tmp_path):
    path = image(tmp_path / "i.zarr", "0", arrays={"0": 1})
    staging = tmp_path / ".i.zarr.pyramid"
    staging.mkdir()
    entry = {"1": {"document": {}}}
    (staging / "journal.json").write_text(json.dumps({"version": 1, "synced": True, "arrays": entry}))
    (staging / "publish.json").write_text(json.dumps({"synced": True, "arrays": entry, "replaced": []}))
    zarr.open_group(path).create_array("1", data=PIXELS[::2, ::2], chunks=(16, 16))
    assert_refused(pyramid, path, "move it away", options=["--levels", 1, "--overwrite"], code=1, kind="exists")


def test_groups_that_say_something_stay_around_a_level_that_goes(pyramid, tmp_path):
    names = ["scale0/i", "scale1/i", "scale2/i"]
    path = image(tmp_path / "i.zarr", *names)
    zarr.open_group(path / "scale1").attrs["mine"] = 1
    zarr.consolidate_metadata(path)
    pyramid(path, "--levels", 1, "--overwrite")
    assert sorted(file.name for file in path.iterdir()) == ["scale0", "scale1", "zarr.json"]
    assert sorted(zarr.open_consolidated(path).members(max_depth=None)) == sorted(zarr.open_group(path).members(None))


# Where levels are.


@pytest.mark.parametrize("own", [[SCALE], []])
def test_what_is_said_of_all_levels_applies_once(pyramid, tmp_path, own):
    wide = [{"type": "scale", "scale": [0.5, 0.25]}, {"type": "translation", "translation": [10.0, 20.0]}]
    path = image(tmp_path / "i.zarr", "0", coordinateTransformations=wide)
    document = json.loads((path / "zarr.json").read_text())
    (level,) = document["attributes"]["ome"]["multiscales"][0]["datasets"]
    level["coordinateTransformations"] = copy.deepcopy(own)
    (path / "zarr.json").write_text(json.dumps(document))
    said = pyramid(path, "--levels", 2)
    assert multiscale_of(path)["coordinateTransformations"] == wide
    for factor, level, report in zip((2, 4), multiscale_of(path)["datasets"][1:], said["levels"], strict=True):
        assert level["coordinateTransformations"] == [
            {"type": "scale", "scale": [factor, factor]},
            {"type": "translation", "translation": [(factor - 1) / 2] * 2},
        ]
        assert report["scale"] == [0.5 * factor, 0.25 * factor]


def volume(path, scale, units):
    root = zarr.open_group(path, mode="w", zarr_format=3)
    root.create_array("0", data=np.zeros((8, 8, 8), "u1"), chunks=(4, 4, 4))
    moves = [{"type": "scale", "scale": scale}]
    multiscale = {"axes": axes(units, "zyx"), "datasets": [{"path": "0", "coordinateTransformations": moves}]}
    root.attrs["ome"] = {"version": "0.5", "multiscales": [multiscale]}
    return path


@pytest.mark.parametrize(
    ("scale", "units", "depth"),
    [
        ([1.0, 400.0, 400.0], ["micrometer", "nanometer", "nanometer"], 8),
        ([0.25, 400.0, 300.0], ["micrometer", "nanometer", "nanometer"], 4),
        ([300.0, 0.5, 0.5], ["nanometer", "micrometer", "micrometer"], 4),
        ([1.0, 1.0, 1.0], ["inch", "yard", "yard"], 4),
        ([2.0, 1.0, 1.0], ["pixel"] * 3, 8),
        ([1.0, 1.0, 1.0], [None] * 3, 4),
    ],
)
def test_distances_are_compared_in_one_unit(pyramid, tmp_path, scale, units, depth):
    path = volume(tmp_path / "v.zarr", scale, units)
    assert pyramid(path, "--levels", 1, "--z", "auto")["levels"][0]["shape"] == [depth, 4, 4]


@pytest.mark.parametrize("unit", [None, "pixel", "second"])
def test_units_that_can_not_be_compared_are_refused(pyramid, tmp_path, unit):
    path = volume(tmp_path / "v.zarr", [1.0] * 3, [unit, "micrometer", "micrometer"])
    assert_refused(pyramid, path, "can't be compared", "--z always", "--z never", options=["--z", "auto"], code=2)
    for z in ("always", "never"):
        pyramid(path, "--levels", 1, "--z", z, "--overwrite")


@pytest.mark.parametrize("number", [0.0, -1.0])
def test_a_scale_that_is_no_distance_is_refused(pyramid, tmp_path, number):
    for at in range(3):
        scale = [1.0, 1.0, 1.0]
        scale[at] = number
        path = volume(tmp_path / f"{at}.zarr", scale, [None] * 3)
        assert_refused(pyramid, path, "expected positive numbers", options=["--levels", 1])


def test_a_level_that_is_placed_from_another_array_is_refused(pyramid, tmp_path):
    way = {**SCALE, "input": {"path": "5"}, "output": {"name": "physical"}}
    root = zarr.open_group(tmp_path / "i.zarr", mode="w", zarr_format=3)
    root.create_array("0", data=PIXELS, chunks=(16, 16))
    systems = [{"name": "physical", "axes": axes()}]
    multiscale = {"coordinateSystems": systems, "datasets": [dataset("0", way)]}
    root.attrs["ome"] = {"version": "0.6", "multiscales": [multiscale]}
    assert_refused(pyramid, tmp_path / "i.zarr", 'begins at the array "5"', options=["--levels", 1], code=5)


@pytest.mark.parametrize("dtype", ["f2", "?", "c8"])
@pytest.mark.parametrize("method", ["mode", "decimate", "min"])
def test_elements_that_are_not_halved_are_told(pyramid, tmp_path, dtype, method):
    root = zarr.open_group(tmp_path / "i.zarr", mode="w", zarr_format=3)
    root.create_array("0", data=PIXELS.astype(dtype), chunks=(16, 16))
    root.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes(), "datasets": [dataset("0")]}]}
    words = "integers of 8 to 64 bits, float32 and float64"
    assert_refused(pyramid, tmp_path / "i.zarr", words, options=["--levels", 1, "--method", method], code=5)
