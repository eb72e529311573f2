"""What a killed replay leaves of the dataset that it was to replace."""

import json
import shlex
import signal
import subprocess

import pytest
import zarr

CAMERA = ["--camera", "64x48xu16"]


@pytest.fixture
def replaced(tool, command, tmp_path):
    """A dataset of 5 frames under its hidden name, behind one without a frame whose writer was killed."""
    path = tmp_path / "my h.zarr"
    tool("replay", "synthetic", path, *CAMERA, "--frames", "5")
    words = ["replay", "synthetic", path, *CAMERA, "--frames", "5", "--overwrite", "--wait"]
    run = subprocess.Popen([command, *words], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "ready" not in run.stderr.readline():
        assert run.poll() is None
    run.send_signal(signal.SIGKILL)
    run.wait()
    (old,) = tmp_path.glob(".my h.zarr.replaced-*")
    return path, old


def test_the_old_data_is_not_to_be_removed_while_there_is_no_new(tool, replaced):
    path, old = replaced
    told = tool("verify", path)
    assert "remove it" not in told and "is whole, and this one holds no frame" in told
    shell = told.split("no frame: ")[1].split(" brings it back")[0]
    text, report = tool("recover", path, code=4), json.loads(tool("recover", path, "--json", code=4))
    assert shell in text and shell in report["notes"][0] and report["replaced"] == [str(old)]
    assert shlex.quote(str(path)) in shell
    subprocess.run(shell, shell=True, check=True)
    assert zarr.open_group(path, mode="r")["0"].shape == (5, 48, 64)
    assert not old.exists() and "replaced" not in tool("verify", path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["o.zarr", "o.ozx"])
def test_a_run_interrupted_before_its_first_frame_gives_the_old_data_back(tool, command, tmp_path, name, number):
    path = tmp_path / name
    tool("replay", "synthetic", path, *CAMERA, "--frames", "5")
    words = ["replay", "synthetic", path, *CAMERA, "--frames", "5", "--overwrite", "--wait", "--json"]
    streams = dict.fromkeys(["stdin", "stdout", "stderr"], subprocess.PIPE)
    run = subprocess.Popen([command, *words], text=True, **streams)
    while "ready" not in run.stderr.readline():
        assert run.poll() is None
    run.send_signal(number)
    # Its standard input stays open: a run that waits for a line ends by the signal alone.
    report = json.loads(run.stdout.read())
    assert run.wait() == 130 and report["interrupted"] and report["frames_written"] == 0
    assert "no frame came, so the dataset that it was to replace is back" in report["notes"]
    assert [left.name for left in tmp_path.iterdir()] == [name]
    store = zarr.storage.ZipStore(path, mode="r") if path.is_file() else path
    assert zarr.open_group(store, mode="r")["0"].shape == (5, 48, 64)


def test_where_there_are_frames_both_are_to_be_looked_at(tool, replaced, tmp_path):
    path, old = replaced
    tool("replay", "synthetic", tmp_path / "b.zarr", *CAMERA, "--frames", "5")
    old.rename(tmp_path / old.name.replace("my h.zarr", "b.zarr"))
    assert "remove it when you have looked at this one" in tool("verify", tmp_path / "b.zarr")


def test_frames_at_the_end_may_never_have_been_taken(tool, command, tmp_path):
    import numpy as np

    np.save(tmp_path / "a.npy", np.ones((40, 2, 16, 16), "u2"))
    words = ["replay", tmp_path / "a.npy", tmp_path / "z", "--axes", "t,z,y,x", "--rate", "20", "--chunk", "1,1,16,16"]
    run = subprocess.Popen([command, *words, "--checkpoint-every", "0.1"], stderr=subprocess.DEVNULL)
    with pytest.raises(subprocess.TimeoutExpired):
        run.wait(1.2)
    run.kill()
    run.wait()
    told = tool("recover", tmp_path / "z", code=4)
    if "none missing" not in told:
        assert "the last of them may never have been taken" in told
