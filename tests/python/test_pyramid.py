"""What `shardwright pyramid` makes, beside a model in NumPy that is as dull as can be."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import time

import numpy as np
import ome_zarr_models.v05
import pytest
import tensorstore
import yaozarrs
import zarr
from readers import assert_same, open_tensorstore, open_zarr_python

METHODS = ["mean", "median", "min", "max", "decimate", "mode"]
INTEGERS = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"]


@pytest.fixture
def pyramid(command):
    """Runs `shardwright pyramid` and returns its report, or what it says where it fails."""

    def run(path, *options, code=0):
        call = [command, "pyramid", path, "--json", "--no-sync", *options]
        done = subprocess.run([str(word) for word in call], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == code, done.stderr
        said = json.loads(done.stdout)
        return said["error"] if code else said

    return run


def one(pixels, method):
    """What several pixels become, in exact numbers where they are integers."""
    dtype = pixels[0].dtype
    if method == "decimate":
        return pixels[0]
    if dtype.kind == "f":
        values = np.sort(np.array(pixels))  # NaNs last
        if method == "mean":
            return dtype.type(np.mean(np.array(pixels, "f8")))
        if method == "mode":
            same = [[a == b or (a != a and b != b) for b in values] for a in values]
            counts = [sum(row) for row in same]
            return values[int(np.argmax(counts))]
        if np.isnan(values).any():
            return dtype.type(np.nan)
        return dtype.type({"min": np.min, "max": np.max, "median": np.median}[method](values.astype("f8")))
    values = sorted(int(pixel) for pixel in pixels)
    half = len(values) // 2
    return dtype.type(
        {
            "mean": lambda: (2 * sum(values) + len(values)) // (2 * len(values)),
            "median": lambda: (values[half - 1] + values[half] + 1) // 2,
            "min": lambda: values[0],
            "max": lambda: values[-1],
            "mode": lambda: max(sorted(set(values)), key=values.count),
        }[method]()
    )


def halved(image, method, deep):
    """The last two dimensions, and with `deep` the one before, by pixels. What has no neighbour is its own."""
    steps = [1] * image.ndim
    for dim in range(image.ndim - (3 if deep else 2), image.ndim):
        steps[dim] = 2 if image.shape[dim] > 1 else 1
    out = np.empty([-(-length // step) for length, step in zip(image.shape, steps)], image.dtype)
    pair = [2 if dim >= image.ndim - 2 or (deep and dim == image.ndim - 3) else 1 for dim in range(image.ndim)]
    for place in np.ndindex(*out.shape):
        # A last plane is reduced by itself. Rows and columns without a neighbour are taken twice: that changes nothing.
        choices = []
        for dim, at in enumerate(place):
            first = at * steps[dim]
            second = first + 1 if first + 1 < image.shape[dim] and pair[dim] == 2 else first
            alone = dim < image.ndim - 2 and second == first
            choices.append([first] if pair[dim] == 1 or alone else [first, second])
        out[place] = one([image[at] for at in itertools.product(*choices)], method)
    return out


def ome_image(path, pixels, chunks, shards=None, scale=None, translation=None, axes="tczyx", name="0", fill=0, **array):
    """An image as zarr-python writes it."""
    names = axes[-pixels.ndim :]
    kinds = {"t": "time", "c": "channel"}
    moves = [{"type": "scale", "scale": scale or [1.0] * pixels.ndim}]
    if translation:
        moves.append({"type": "translation", "translation": translation})
    multiscale = {
        "name": "by another",
        "axes": [{"name": axis, "type": kinds.get(axis, "space")} for axis in names],
        "datasets": [{"path": name, "coordinateTransformations": moves}],
    }
    ome = {"version": "0.5", "multiscales": [multiscale], "omero": {"channels": []}}
    group = zarr.open_group(path, mode="w", zarr_format=3)
    group.attrs.update({"zzz": 1, "ome": ome, "aaa": [2]})
    made = group.create_array(
        name,
        shape=pixels.shape,
        dtype=pixels.dtype,
        chunks=chunks,
        shards=shards,
        fill_value=fill,
        dimension_names=list(names),
        **array,
    )
    if pixels.size:
        made[...] = pixels
    return path


def noise(shape, dtype, seed=0):
    random = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        values = random.choice([0.5, 1.25, -3.0, 7.0, 1e30, np.nan], shape, p=[0.3, 0.2, 0.2, 0.2, 0.05, 0.05])
        return values.astype(dtype)
    info = np.iinfo(dtype)
    wide = random.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    few = random.integers(0, 4, shape).astype(dtype)
    return np.where(random.random(shape) < 0.5, wide, few)


def levels(path, said):
    """The levels as both libraries read them; their documents say what they should."""
    document = json.loads((path / "zarr.json").read_text())
    datasets = document["attributes"]["ome"]["multiscales"][0]["datasets"]
    assert [dataset["path"] for dataset in datasets[1:]] == [level["path"] for level in said["levels"]]
    for dataset in datasets[1:]:
        got = np.asarray(open_zarr_python(path / dataset["path"])[...])
        assert_same(open_tensorstore(path / dataset["path"]).read().result(), got)
        yield got


def assert_levels(path, said, pixels, method, deep=False):
    for got in levels(path, said):
        pixels = halved(pixels, method, deep)
        bits = pixels.view(f"u{pixels.itemsize}") if pixels.dtype.kind == "f" else pixels
        assert got.shape == pixels.shape
        assert ((got == pixels) | ((got != got) & (pixels != pixels))).all(), (method, pixels.dtype, bits.shape)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("deep", [False, True])
def test_pixels_are_a_dull_model_s(pyramid, tmp_path, method, deep):
    shapes = [(1, 1), (1, 7), (5, 1), (13, 11), (3, 9, 17), (2, 3, 7, 10), (1, 2, 5, 6, 5)]
    types = [*INTEGERS, "f4", "f8"]
    for at, (shape, dtype) in enumerate(zip(itertools.cycle(shapes), types * 2)):
        pixels = noise(shape, dtype, at)
        if dtype == "f8":
            pixels = np.nan_to_num(pixels, nan=2.0)
            pixels[pixels == 1e30] = 4.0
        chunks = tuple(min(3, length) for length in shape)
        shards = tuple(chunk * 2 for chunk in chunks) if at % 3 else None
        path = ome_image(tmp_path / f"{at}.zarr", pixels, chunks, shards)
        depth = "always" if deep else "never"
        said = pyramid(path, "--levels", 3, "--method", method, "--z", depth, "--memory", "1MiB")
        is_one = max(shape[-3 if deep else -2 :]) == 1
        assert bool(said["levels"]) != is_one
        assert_levels(path, said, pixels, method, deep)
        yaozarrs.validate_zarr_store(str(path))


@pytest.mark.parametrize("method", ["mean", "median"])
@pytest.mark.parametrize("deep", [False, True])
def test_means_of_the_largest_numbers_are_numbers(pyramid, tmp_path, method, deep):
    pixels = np.random.default_rng(3).choice([1.75, 1.5, 1.0, -1.0, -1.75, 0.25], (3, 7, 9)) * 2.0**1023
    path = ome_image(tmp_path / "a.zarr", pixels, (2, 4, 4))
    said = pyramid(path, "--levels", 1, "--method", method, "--z", "always" if deep else "never")
    (got,) = levels(path, said)
    assert_same(got, halved(pixels / 8, method, deep) * 8)


@pytest.mark.parametrize("options", [{"order": "F"}, {"compressors": None}, {"fill": 7}])
def test_large_images_of_other_writers(pyramid, command, tmp_path, options):
    pixels = noise((2, 1030, 777), "u2")
    options = dict(options)
    if options.pop("order", None):
        options["filters"] = [zarr.codecs.TransposeCodec(order=(2, 1, 0))]
    path = ome_image(tmp_path / "i.zarr", pixels, (1, 128, 200), (2, 256, 400), axes="cyx", **options)
    before = open_zarr_python(path / "0")
    said = pyramid(path)
    assert [level["shape"] for level in said["levels"]] == [[2, 515, 389], [2, 258, 195], [2, 129, 98]]
    expected = pixels.astype("u8")
    for got in levels(path, said):
        expected = np.pad(expected, [(0, 0), (0, expected.shape[1] % 2), (0, expected.shape[2] % 2)], mode="edge")
        expected = (sum(expected[:, y::2, x::2] for y in (0, 1) for x in (0, 1)) + 2) // 4
        assert_same(got, expected.astype("u2"))
    for level in ("1", "2", "3"):
        array = open_zarr_python(path / level)
        assert (array.chunks, array.shards, array.fill_value) == (before.chunks, before.shards, before.fill_value)
        assert array.metadata.dimension_names == ("c", "y", "x")
    ome_zarr_models.v05.Image.from_zarr(zarr.open_group(path, mode="r"))
    yaozarrs.validate_zarr_store(str(path))
    subprocess.run([command, "verify", path, "-q"], check=True)


def test_places_and_attributes(pyramid, tmp_path):
    pixels = np.zeros((4, 9, 64, 64), "u1")
    pixels[1, 4, 20, 36] = 255
    scale, start = [1.5, 2.0, 0.5, 0.25], [10.0, 0.0, 3.0, -1.0]
    cut = (1, 3, 16, 16)
    path = ome_image(tmp_path / "i.zarr", pixels, cut, scale=scale, translation=start, axes="tzyx", name="s0")
    attributes = json.loads((path / "zarr.json").read_text())["attributes"]
    said = pyramid(path, "--levels", 3, "--z", "auto", "--method", "max")
    now = json.loads((path / "zarr.json").read_text())["attributes"]
    assert list(now) == list(attributes) == ["zzz", "ome", "aaa"]
    (multiscale,) = now["ome"].pop("multiscales")
    (old,) = attributes["ome"].pop("multiscales")
    assert now == attributes and multiscale["datasets"][0] == old["datasets"][0]
    assert (multiscale["type"], multiscale["metadata"]["kwargs"]) == ("max", {"method": "max", "z": "auto"})
    assert list(multiscale)[:3] == ["name", "axes", "datasets"]
    # z is 4, 2 and 1 times as far apart as y.
    factors = [(1, 1, 2, 2), (1, 1, 4, 4), (1, 2, 8, 8)]
    for number, (factor, dataset) in enumerate(zip(factors, multiscale["datasets"][1:], strict=True), 1):
        assert dataset["path"] == f"s{number}"
        by = [move[move["type"]] for move in dataset["coordinateTransformations"]]
        assert by[0] == [a * b for a, b in zip(scale, factor)]
        assert by[1] == [a + (b - 1) / 2 * c for a, b, c in zip(start, factor, scale)]
        # The bright pixel stands within half a pixel of where it stood.
        found = np.argwhere(open_zarr_python(path / f"s{number}")[...] == 255)
        assert len(found) == 1
        for dim, at in enumerate(found[0]):
            there = start[dim] + scale[dim] * (1, 4, 20, 36)[dim]
            assert abs(by[1][dim] + by[0][dim] * at - there) <= by[0][dim] / 2
    decimated = ome_image(tmp_path / "d.zarr", pixels, (1, 3, 16, 16), scale=scale, axes="tzyx")
    pyramid(decimated, "--levels", 1, "--method", "decimate")
    datasets = json.loads((decimated / "zarr.json").read_text())["attributes"]["ome"]["multiscales"][0]["datasets"]
    assert [move["type"] for move in datasets[1]["coordinateTransformations"]] == ["scale"]


def test_a_third_party_s_registration_finds_pixels_where_they_were(pyramid, tmp_path):
    """tensorstore's downsampling driver keeps origins as decimation does; means lie in the middle of their pixels."""
    pixels = noise((3, 64, 48), "u1")
    path = ome_image(tmp_path / "i.zarr", pixels, (1, 16, 16), axes="zyx")
    pyramid(path, "--levels", 1, "--method", "decimate")
    base = open_tensorstore(path / "0")
    striding = tensorstore.downsample(base, [1, 2, 2], "stride").read().result()
    assert_same(open_tensorstore(path / "1").read().result(), striding)
    for method in ("min", "max", "mode"):
        pyramid(path, "--levels", 1, "--method", method, "--overwrite")
        expected = tensorstore.downsample(base, [1, 2, 2], method).read().result()
        assert_same(open_tensorstore(path / "1").read().result(), expected)


def test_what_is_missing_stays_missing(pyramid, tmp_path):
    pixels = np.zeros((3, 128, 128), "u2")
    pixels[1, :20, 100:] = 9
    path = ome_image(tmp_path / "i.zarr", pixels, (1, 16, 16), axes="tyx", fill=0)
    assert len([file for file in (path / "0/c").rglob("*") if file.is_file()]) == 4
    pyramid(path, "--levels", 2)
    assert sorted(str(file.relative_to(path)) for file in (path / "1/c").rglob("*") if file.is_file()) == ["1/c/1/0/3"]
    assert sorted(str(file.relative_to(path)) for file in (path / "2/c").rglob("*") if file.is_file()) == ["2/c/1/0/1"]


def test_levels_are_replaced_only_on_request(pyramid, tmp_path):
    pixels = noise((100, 90), "u1")
    path = ome_image(tmp_path / "i.zarr", pixels, (32, 32))
    pyramid(path, "--levels", 3, "--method", "min")
    before = {file: file.stat().st_mtime_ns for file in path.rglob("*")}
    assert pyramid(path, "--levels", 2, code=1)["kind"] == "exists"
    assert pyramid(path, "--levels", 3, code=1)["kind"] == "exists"
    assert pyramid(path)["levels"] == []
    assert pyramid(path, "--levels", 3, "--method", "min")["already_done"]
    assert {file: file.stat().st_mtime_ns for file in path.rglob("*") if file.name != ".shardwright.lock"} == before
    said = pyramid(path, "--levels", 2, "--method", "max", "--overwrite")
    assert_levels(path, said, pixels, "max")
    assert sorted(file.name for file in path.iterdir()) == ["0", "1", "2", "zarr.json"]
    assert [file.name for file in tmp_path.iterdir()] == ["i.zarr"]
    assert pyramid(path, "--levels", 2, "--method", "max")["already_done"]
    os.utime(path / "0/c/0/0")  # Frames may have come since.
    assert pyramid(path, "--levels", 2, "--method", "max", code=1)["kind"] == "exists"
    # What no document names and is no level stays.
    other = ome_image(tmp_path / "j.zarr", pixels, (32, 32))
    (other / "1").mkdir()
    (other / "1/notes").write_text("mine")
    assert pyramid(other, "--levels", 1, "--overwrite", code=1)["kind"] == "exists"
    assert (other / "1/notes").read_text() == "mine"


def test_images_of_collections_and_consolidated_metadata(pyramid, replay, tmp_path):
    root = tmp_path / "both.zarr"
    zarr.open_group(root, mode="w", zarr_format=3)
    for name in ("a", "b"):
        ome_image(root / name, noise((40, 30), "u1"), (16, 16))
    for folder in (root / "a", root):
        zarr.consolidate_metadata(folder)
    assert '"a", "b"' in pyramid(root, code=3)["message"]
    before = (root / "b/zarr.json").read_bytes()
    said = pyramid(root / "a", "--levels", 2)
    assert_levels(root / "a", said, open_zarr_python(root / "a/0")[...], "mean")
    assert (root / "b/zarr.json").read_bytes() == before
    outer, inner = (zarr.open_consolidated(folder) for folder in (root, root / "a"))
    assert outer["a/2"].shape == inner["2"].shape == (10, 8)
    assert len(outer["a"].attrs["ome"]["multiscales"][0]["datasets"]) == 3
    shutil.rmtree(root / "b")
    assert pyramid(root, "--levels", 1, "--overwrite")["image"] == "a"
    assert pyramid(root / "a/0", "--levels", 1, code=3)["kind"] == "not-found"


def test_datasets_of_this_writer(pyramid, command, replay, tmp_path):
    movie = noise((9, 600, 520), "u2")
    np.save(tmp_path / "movie.npy", movie)
    _, path = replay(tmp_path / "movie.npy", "--chunk", "4,128,128", "--shard", "8,256,256")
    before = (path / "0/c/0/0/0").read_bytes()
    said = pyramid(path)
    assert [level["shape"] for level in said["levels"]] == [[9, 300, 260], [9, 150, 130]]
    expected = movie.astype("u4")
    for got in levels(path, said):
        expected = (sum(expected[:, y::2, x::2] for y in (0, 1) for x in (0, 1)) + 2) // 4
        assert_same(got, expected.astype("u2"))
    assert (path / "0/c/0/0/0").read_bytes() == before
    for call in (["verify", path, "-q"], ["info", path], ["recover", path]):
        subprocess.run([command, *call], check=True, stdout=subprocess.DEVNULL)
    ome_zarr_models.v05.Image.from_zarr(zarr.open_group(path, mode="r"))
    yaozarrs.validate_zarr_store(str(path))
    assert pyramid(path / "records", code=3)["kind"] == "not-found"


def test_other_formats_and_elements_are_refused(pyramid, tmp_path):
    old = zarr.open_group(tmp_path / "old.zarr", mode="w", zarr_format=2)
    old.create_array("0", shape=(4, 4), dtype="u1", chunks=(4, 4))
    assert pyramid(tmp_path / "old.zarr", code=5)["kind"] == "unsupported"
    path = ome_image(tmp_path / "c.zarr", np.zeros((4, 4), "c8"), (4, 4))
    assert pyramid(path, "--levels", 1, code=5)["kind"] == "unsupported"
    assert pyramid(tmp_path, code=3)["kind"] == "not-found"
    path = ome_image(tmp_path / "m.zarr", np.zeros((400, 400), "u1"), (400, 400))
    assert "at least" in pyramid(path, "--memory", "1000", code=2)["message"]
    assert not (tmp_path / ".m.zarr.pyramid").exists()


def is_valid(path, pixels):
    """What a reader sees of the image: level 0 as it was, and every level that the document names."""
    datasets = json.loads((path / "zarr.json").read_text())["attributes"]["ome"]["multiscales"][0]["datasets"]
    assert_same(open_zarr_python(path / "0")[...], pixels)
    for dataset in datasets:
        open_tensorstore(path / dataset["path"]).read().result()
    yaozarrs.validate_zarr_store(str(path))
    return len(datasets)


@pytest.mark.parametrize("overwrite", [False, True])
def test_killed_and_called_again_it_finishes(pyramid, command, tmp_path, overwrite):
    pixels = noise((2, 1100, 900), "u1")
    path = ome_image(tmp_path / "i.zarr", pixels, (1, 64, 64), (1, 128, 128), axes="tyx")
    options = ["--levels", "4", *(["--method", "max", "--overwrite"] if overwrite else [])]
    if overwrite:
        pyramid(path, "--levels", 4, "--method", "min")
    zarr.consolidate_metadata(path)
    begun = shutil.copytree(path, tmp_path / "begun.zarr")
    whole = shutil.copytree(path, tmp_path / "whole.zarr")
    said = pyramid(whole, *options)
    # By what is there, not by time, which is another on each machine: when the first levels are begun, then while all
    # of them get their names. A call may still end before it is stopped; then all begins anew.
    moments = ["tree/1", "tree/2", "tree/3", *["publish.json"] * 9]
    stopped = 0
    for number, moment in enumerate(moments):
        call = subprocess.Popen([str(word) for word in (command, "pyramid", path, "-q", *options)])
        while not (tmp_path / ".i.zarr.pyramid" / moment).exists() and call.poll() is None:
            time.sleep(0.0005)
        if moment == "publish.json":
            time.sleep(0.002 * (number - 3))
        call.send_signal(signal.SIGINT if number == 0 else signal.SIGKILL)
        code = call.wait()
        assert code in (0, 130, -signal.SIGKILL)
        stopped += code in (130, -signal.SIGKILL)
        count = is_valid(path, pixels)
        assert count in ((1, 5) if code in (130, -signal.SIGKILL) else (5,))
        if code == 0:
            shutil.rmtree(path)
            shutil.copytree(begun, path)
    assert stopped
    done = subprocess.run([str(word) for word in (command, "pyramid", path, "-q", *options)], capture_output=True)
    assert done.returncode == 0, done.stderr
    assert is_valid(path, pixels) == 5
    for expected, got in zip(levels(whole, said), levels(path, said), strict=True):
        assert_same(got, expected)
    assert zarr.open_consolidated(path)["4"].shape == (2, 69, 57)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["begun.zarr", "i.zarr", "whole.zarr"]


def test_a_stopped_call_says_so_and_leaves_the_image(pyramid, command, tmp_path):
    pixels = noise((4, 2000, 2000), "u2")
    path = ome_image(tmp_path / "i.zarr", pixels, (1, 64, 64), (1, 512, 512), axes="tyx")
    before = (path / "zarr.json").read_bytes()
    call = subprocess.Popen([str(word) for word in (command, "pyramid", path, "-q")], stderr=subprocess.PIPE)
    while not (tmp_path / ".i.zarr.pyramid/tree/1").exists():
        assert call.poll() is None
    # While it is at work, nobody else is.
    assert pyramid(path, code=1)["kind"] == "locked"
    call.send_signal(signal.SIGINT)
    assert call.wait() == 130
    assert (path / "zarr.json").read_bytes() == before
    assert len(pyramid(path)["levels"]) == 3


def test_a_run_that_is_not_finished_gets_no_levels(pyramid, command, tmp_path):
    out = tmp_path / "out.zarr"
    call = [command, "replay", "synthetic", out, "--camera", "64x64xu16@50", "--frames", 100000, "--memory", "64MiB"]
    call += ["--chunk", "1,64,64", "--shard", "16,64,64", "--unbounded", "-q"]
    run = subprocess.Popen([str(word) for word in call], stdin=subprocess.DEVNULL)
    while not (out / "0/zarr.json").exists() or open_tensorstore(out / "0").shape[0] < 20:
        assert run.poll() is None
        time.sleep(0.05)
    assert pyramid(out, "--levels", 1, code=1)["kind"] == "locked"
    run.kill()
    run.wait()
    assert "recover it first" in pyramid(out, "--levels", 1, code=3)["message"]
    subprocess.run([command, "recover", out, "--apply", "-q"], check=True)
    assert len(pyramid(out, "--levels", 1)["levels"]) == 1


def test_an_image_that_lost_a_shard_gets_no_levels(pyramid, command, tmp_path):
    out = tmp_path / "out.zarr"
    call = [command, "replay", "synthetic", out, "--camera", "64x64xu16", "--frames", 8, "--no-sync", "-q"]
    subprocess.run([str(word) for word in [*call, "--chunk", "1,64,64", "--shard", "2,64,64"]], check=True)
    (out / "0/c/1/0/0").unlink()
    message = pyramid(out, "--levels", 1, code=3)["message"]
    assert "its writer counted 8: files are missing" in message
    assert "give them up by repacking with --incomplete" in message
    assert not (out / "1").exists()
    subprocess.run([command, "repack", out, "--incomplete", "--codec", "zstd", "-q"], check=True)
    assert len(pyramid(out, "--levels", 1)["levels"]) == 1


# Links.


def linked(path, part, aside):
    """Moves a part of a dataset out of it, and leaves a link that leads there."""
    (path / part).rename(aside)
    (path / part).symlink_to(aside)


@pytest.mark.parametrize("part", ["0", "zarr.json", "0/zarr.json", "0/c", "0/c/0", "0/c/0/0/0"])
def test_what_lies_behind_a_link_is_refused_as_other_commands_do(told, replay, tmp_path, part):
    _, path = replay("synthetic", "--camera", "640x600xu16", "--frames", "2")
    linked(path, part, tmp_path / "aside")
    before = sorted(path.rglob("*"))
    words = "is, or lies behind, a link out of"
    refused = told("pyramid", path, code=5)["error"]
    assert refused["kind"] == "unsupported" and words in refused["message"] and "--follow-links" in refused["message"]
    assert sorted(path.rglob("*")) == before and not list(path.parent.glob(".*"))
    for others in [["export", path, tmp_path / "o.npy"], ["repack", path, tmp_path / "o.zarr"]]:
        other = told(*others, code=5)["error"]
        assert other["kind"] == refused["kind"] and words in other["message"]
    assert len(told("pyramid", path, "--follow-links")["levels"]) == 2


@pytest.mark.parametrize("part", ["0/c/0/0/0", "1", "1/c"])
def test_a_refused_call_leaves_nothing_where_a_killed_one_left_its_empty_folder(told, replay, tmp_path, part):
    _, path = replay("synthetic", "--camera", "640x600xu16", "--frames", "2")
    told("pyramid", path, "--levels", 1)
    linked(path, part, tmp_path / "aside")
    path.with_name(f".{path.name}.pyramid").mkdir()
    before = sorted(path.rglob("*"))
    code = 5 if part == "0/c/0/0/0" else 3
    assert "link" in told("pyramid", path, "--overwrite", code=code)["error"]["message"] or part == "1/c"
    assert sorted(path.rglob("*")) == before and not list(path.parent.glob(".*"))


def test_an_array_behind_a_link_within_its_dataset_gets_levels(tool, replay):
    _, path = replay("synthetic", "--camera", "640x600xu16", "--frames", "2")
    (path / "0").rename(path / "real")
    (path / "0").symlink_to("real")
    tool("pyramid", path)
    assert zarr.open_array(path / "2", mode="r").shape == (2, 150, 160)


def test_a_link_in_the_place_of_a_level_is_not_followed(told, replay, tmp_path):
    _, path = replay("synthetic", "--camera", "640x600xu16", "--frames", "2")
    aside = tmp_path / "aside"
    aside.mkdir()
    (aside / "mine.txt").write_text("mine")
    for leads in [aside, tmp_path / "nowhere"]:
        (path / "1").symlink_to(leads)
        assert "already exists" in told("pyramid", path, code=1)["error"]["message"]
        (path / "1").unlink()
    (path / "1").symlink_to(aside)
    assert "it is no level" in told("pyramid", path, "--overwrite", code=1)["error"]["message"]
    assert (aside / "mine.txt").read_text() == "mine" and len(list(aside.iterdir())) == 1


def test_levels_belong_to_whom_the_image_belongs_to(pyramid, tmp_path):
    path = ome_image(tmp_path / "i.zarr", noise((600, 700), "u2"), (64, 64), (256, 256), axes="yx")
    owner = 12345 if os.geteuid() == 0 else os.geteuid()
    for file in [path / "0", *(path / "0").rglob("*")]:
        os.chown(file, owner, -1)
        file.chmod(0o2750 if file.is_dir() else 0o640)
    (level,) = pyramid(path, "--levels", 1)["levels"]
    made = [path / level["path"], *(path / level["path"]).rglob("*")]
    assert sum(file.is_file() for file in made) > 3
    assert {(file.is_dir(), file.stat().st_mode & 0o7777, file.stat().st_uid) for file in made} == {
        (True, 0o2750, owner),
        (False, 0o640, owner),
    }
