"""Levels halve the last two dimensions as y and x, and where asked the one before as z: where names say that these are
others, none are made."""

import json
import subprocess

import numpy as np
import pytest
import zarr

WRONG = ["xy", "txy", "tcxy", "txyz", "xyz", "yxz", "xzy", "zxy", "tzy", "tyz", "tYZ"]
RIGHT = ["yx", "tyx", "zyx", "tczyx", "ZYX"]


@pytest.fixture
def run(command):
    """Runs a command and returns what it says in JSON."""

    def run(*words, code=0):
        call = [str(word) for word in (command, *words, "--json", "--no-sync")]
        done = subprocess.run(call, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return json.loads(done.stdout)

    return run


def image(path, names, *, of_time="t"):
    """An image of another writer with these axes."""
    kinds = {of_time: "time", "c": "channel"}
    axes = [{"name": name, "type": kinds.get(name, "space")} for name in names]
    root = zarr.open_group(path, mode="w", zarr_format=3)
    root.create_array("0", data=np.ones([20 + at for at in range(len(names))], "u2"), dimension_names=list(names))
    scale = {"type": "scale", "scale": [1.0] * len(names)}
    multiscale = {"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": [scale]}]}
    root.attrs["ome"] = {"version": "0.5", "multiscales": [multiscale]}
    return path


@pytest.mark.parametrize("names", [name for name in WRONG if name.islower() and len(name) > 2])
def test_frames_whose_names_are_in_another_order_get_no_levels(run, tmp_path, names):
    np.save(tmp_path / "movie.npy", np.ones([6 + at for at in range(len(names))], "u2"))
    call = ["replay", tmp_path / "movie.npy", tmp_path / "o.zarr", "--axes", ",".join(names)]
    for more in ([], ["--keep", "y"], ["--z", "always"]):
        message = run(*call, "--pyramid", "mean", "--levels", 1, *more, code=2)["error"]["message"]
        assert message.startswith("--pyramid mean: ") and f"in the order {', '.join(names)}" in message, message
        assert "y, x" in message and not (tmp_path / "o.zarr").exists()
    run(*call)
    written = json.loads((tmp_path / "o.zarr/0/zarr.json").read_text())
    assert written["dimension_names"] == list(names)
    message = run("pyramid", tmp_path / "o.zarr", "--levels", 1, code=2)["error"]["message"]
    assert f"in the order {', '.join(names)}" in message


@pytest.mark.parametrize("names", WRONG)
def test_images_of_another_order_get_no_levels(run, tmp_path, names):
    path = image(tmp_path / "i.zarr", names)
    before = (path / "zarr.json").read_text()
    for depth in ("never", "always"):
        error = run("pyramid", path, "--levels", 1, "--z", depth, code=2)["error"]
        assert error["kind"] == "usage" and f"in the order {', '.join(names)}" in error["message"], error
        assert ("z, y, x" if "z" in names.lower() else "y, x") in error["message"]
    assert (path / "zarr.json").read_text() == before and not (path / "1").exists()


@pytest.mark.parametrize("names", RIGHT)
def test_what_is_in_order_is_halved(run, tmp_path, names):
    path = image(tmp_path / "i.zarr", names)
    run("pyramid", path, "--levels", 1)
    shape = [20 + at for at in range(len(names))]
    assert list(zarr.open_array(path / "1").shape) == [*shape[:-2], *(-(-length // 2) for length in shape[-2:])]


def test_a_z_that_stands_elsewhere_is_no_depth(run, tmp_path):
    path = image(tmp_path / "i.zarr", "zwyx")
    message = run("pyramid", path, "--levels", 1, "--z", "always", code=2)["error"]["message"]
    assert "z, y, x" in message and "in the order z, w, y, x" in message
    run("pyramid", path, "--levels", 1)
    assert zarr.open_array(path / "1").shape == (20, 21, 11, 12)


def test_other_names_go_by_their_places(run, tmp_path):
    path = image(tmp_path / "i.zarr", ["plane", "row", "column"])
    run("pyramid", path, "--levels", 1, "--z", "always")
    assert zarr.open_array(path / "1").shape == (10, 11, 11)
