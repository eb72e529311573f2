"""Files and folders that `export` and `manifest` make, beside what others have or make in the same folder."""

import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest
import tifffile
import zarr

READERS = {"out.npy": np.load, "out.ome.tif": tifffile.imread}


@pytest.fixture
def datasets(tmp_path):
    """Two arrays, each of one number."""
    paths = [tmp_path / "d1.zarr", tmp_path / "d2.zarr"]
    for number, path in enumerate(paths, 1):
        zarr.create_array(path, shape=(24, 256, 256), chunks=(1, 64, 64), dtype="u2")[...] = number
    return paths


@pytest.fixture
def together(command):
    """Runs two commands at once; returns their exit codes and what they said."""

    def run(*commands):
        begin = lambda words: subprocess.Popen([command, *map(str, words)], stderr=subprocess.PIPE, text=True)
        runs = [begin(words) for words in commands]
        said = [run.communicate(timeout=120)[1] for run in runs]
        return [run.returncode for run in runs], said

    return run


def hidden(folder):
    return sorted(path.name for path in folder.glob(".*"))


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["symbolic", "hard", "text", "pipe"])
def test_what_has_the_name_of_an_unfinished_file_is_left_alone(tool, datasets, tmp_path, kind, name):
    thesis, out = tmp_path / "thesis.txt", tmp_path / name
    planted = tmp_path / f".{name}.partial"
    thesis.write_text("five years")
    match kind:
        case "symbolic":
            planted.symlink_to("thesis.txt")
        case "hard":
            planted.hardlink_to(thesis)
        case "text":
            planted.write_text("five years")
        case "pipe":
            os.mkfifo(planted)
    tool("export", datasets[0], out)
    assert (READERS[name](out) == 1).all()
    assert thesis.read_text() == "five years"
    assert hidden(tmp_path) == [planted.name]
    assert kind == "pipe" or planted.read_text() == "five years"


def test_a_folder_with_the_name_of_unfinished_manifests_is_left_alone(tool, datasets, tmp_path):
    planted = tmp_path / ".m.zarr.partial"
    planted.mkdir()
    (planted / "thesis.txt").write_text("five years")
    tool("manifest", datasets[0], tmp_path / "m.zarr")
    assert (planted / "thesis.txt").read_text() == "five years"


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("replaces", [[], ["--overwrite"]], ids=["once", "overwrite"])
def test_two_exports_to_one_file(together, datasets, tmp_path, name, replaces):
    out = tmp_path / name
    for _ in range(4):
        out.unlink(missing_ok=True)
        codes, said = together(*(["export", path, out, "-q", *replaces] for path in datasets))
        if replaces:
            assert codes == [0, 0], said
        else:
            assert sorted(codes) == [0, 1], said
            assert "already exists" in said[codes.index(1)]
        found = READERS[name](out)
        assert found.shape == (24, 256, 256)
        assert np.unique(found).tolist() in ([[1], [2]] if replaces else [[1 + codes.index(0)]])
        assert not hidden(tmp_path)


@pytest.mark.parametrize("replaces", [[], ["--overwrite"]], ids=["once", "overwrite"])
def test_two_manifests_in_one_folder(together, datasets, tmp_path, replaces):
    out = tmp_path / "m"
    for _ in range(6):
        subprocess.run(["rm", "-rf", out], check=True)
        codes, said = together(*(["manifest", path, out, "-q", *replaces] for path in datasets))
        if replaces:
            assert codes == [0, 0], said
        else:
            assert sorted(codes) == [0, 1], said
            assert "already exists" in said[codes.index(1)]
        texts = [(out / name).read_text() for name in ["kerchunk.json", "manifest.json"]]
        assert all(json.loads(text) for text in texts)
        of = {name for text in texts for name in ["d1.zarr", "d2.zarr"] if name in text}
        assert len(of) == 1 and (replaces or of == {f"d{1 + codes.index(0)}.zarr"})
        assert not hidden(tmp_path)


def test_what_a_killed_export_left_is_removed_by_the_next(command, tool, tmp_path):
    path, out = tmp_path / "d.zarr", tmp_path / "out.npy"
    zarr.create_array(path, shape=(400, 512, 512), chunks=(1, 512, 512), dtype="u2")[...] = 1
    export = subprocess.Popen([command, "export", path, out, "-q"])
    while not hidden(tmp_path):
        time.sleep(0.001)
    export.send_signal(signal.SIGKILL)
    export.wait()
    (left,) = hidden(tmp_path)
    assert left.startswith(".out.npy.") and left.endswith(".partial") and not out.exists()
    tool("export", path, out, "--region", "0:2,:,:")
    assert not hidden(tmp_path) and np.load(out).shape == (2, 512, 512)


@pytest.mark.parametrize("options", [[], ["--plate", "1x1"]])
def test_a_folder_is_not_called_like_a_file(told, tmp_path, options):
    out = tmp_path / "o.ome.ZIP"
    call = ["replay", "synthetic", out, "--camera", "8x8xu8", "--frames", 1]
    message = told(*call, *options, code=2)["error"]["message"]
    assert str(tmp_path / "o.ome.ozx") in message and not out.exists()
    told("replay", "synthetic", tmp_path / "a.zarr", "--camera", "8x8xu8", "--frames", 1, "--no-sync")
    message = told("repack", tmp_path / "a.zarr", tmp_path / "o.zip", code=2)["error"]["message"]
    assert str(tmp_path / "o.ozx") in message and not (tmp_path / "o.zip").exists()


def test_no_folder_is_called_like_an_archive(told, tool, tmp_path):
    camera = ["--camera", "8x8xu8", "--frames", 1]
    told("replay", "synthetic", tmp_path / "a.zarr", *camera, "--no-sync")
    for below in ["new.ozx/0", "new.OZX/x/run.zarr", ".ozx/0", ".ozx", "deep/new.ozx/run.ozx"]:
        out = tmp_path / below
        calls = [["replay", "synthetic", out, *camera], ["replay", "synthetic", out, *camera, "--plate", "1x1"],
                 ["repack", tmp_path / "a.zarr", out], ["manifest", tmp_path / "a.zarr", out]]  # fmt: skip
        if below != ".ozx":
            calls += [["replay", "synthetic", out.parent, *camera, "--key", out.name]] if "x/0" in below else []
            calls += [["export", tmp_path / "a.zarr/0", out.with_name("o.npy")]]
        for call in calls:
            error = told(*call, code=2)["error"]
            assert ".ozx" in error["message"].lower() or "--key" in call, (call, error)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr"]
    message = told("replay", "synthetic", tmp_path / "new.ozx/0", *camera, code=2)["error"]["message"]
    assert f"give {tmp_path / 'new.ozx'} itself" in message
    # A folder that is there is somebody's own.
    (tmp_path / "theirs.ozx").mkdir()
    told("replay", "synthetic", tmp_path / "theirs.ozx/run.zarr", *camera, "--no-sync")
    tool("verify", tmp_path / "theirs.ozx/run.zarr")


def test_an_output_within_another_dataset_is_refused_alike_by_all_commands(told, datasets, tmp_path):
    one, other = datasets
    group = tmp_path / "g.zarr"
    zarr.open_group(group, mode="w").create_array("a", shape=(4, 4), dtype="u1")
    zarr.consolidate_metadata(group)
    np.save(tmp_path / "m.npy", np.zeros((2, 8, 8), "u1"))
    # Whether something is there or not.
    for out in [other / "new", other / "c/0", other / "c/0/0/new", group / "new"]:
        for call in [
            ["replay", tmp_path / "m.npy", out],
            ["repack", one, out, "--unsharded"],
            ["export", one, out, "--format", "raw"],
            ["manifest", one, out],
        ]:
            error = told(*call, code=2)["error"]
            assert (error["kind"], error["path"]) == ("usage", str(out)), (call, error)


@pytest.mark.parametrize("name", ["zarr.json", ".zgroup", ".zattrs", ".zarray", ".zmetadata", "info"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_output_is_not_called_like_a_document(told, datasets, tmp_path, name, zarr_format):
    group = tmp_path / "g.zarr"
    zarr.open_group(group, mode="w", zarr_format=zarr_format).create_array("a", shape=(4, 4), dtype="u1")
    np.save(tmp_path / "m.npy", np.zeros((2, 8, 8), "u1"))
    out = group / name
    if out.exists():
        return
    for call in [["replay", tmp_path / "m.npy", out], ["repack", datasets[0], out, "--unsharded"]]:
        error = told(*call, code=2)["error"]
        assert (error["kind"], error["path"]) == ("usage", str(out)) and "document" in error["message"], error
        assert not out.exists()
