"""Errors of the command, each made on purpose: the exit code, what the sentence names, and the same as JSON."""

import json
import os
import shutil
import subprocess
import tempfile

import numpy as np
import pytest
import tifffile
from recordings import GRAY, volume

COMMANDS = ["replay", "info", "export", "manifest", "verify", "recover", "probe", "pyramid", "repack"]
NOBODY = 65534


@pytest.fixture
def fails(command):
    """Runs a call that must fail, with and without --json; returns what it says."""

    def run(*words, code, parts=(), before=None, **options):
        call = [str(word) for word in [command, *words]]
        plain = subprocess.run(call, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)
        if before:
            before()
        told = subprocess.run([*call, "--json"], capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)
        assert plain.returncode == code, (words, plain.stdout, plain.stderr)
        assert told.returncode == code, (words, told.stdout, told.stderr)
        assert "panicked" not in plain.stderr + told.stderr
        assert plain.stderr.count("error: ") == 1, plain.stderr
        for part in parts:
            assert part in plain.stderr, (words, part, plain.stderr)
        error = json.loads(told.stdout)["error"]
        assert error["exit_code"] == code and set(error) == {"kind", "message", "path", "exit_code"}
        for part in parts:
            assert part in error["message"], (words, part, error)
        return error

    return run


@pytest.fixture
def movie_tif(tmp_path):
    path = tmp_path / "movie.tif"
    tifffile.imwrite(path, volume(5, 20, 30), **GRAY)
    return path


@pytest.fixture
def dataset(tool, movie_tif, tmp_path):
    tool("replay", movie_tif, tmp_path / "run.ome.zarr", "--quiet")
    return tmp_path / "run.ome.zarr"


def calls(path, out):
    """Each command on a path; `probe` has none that it reads."""
    return {
        "replay": ["replay", path, out / "out.zarr"],
        "info": ["info", path],
        "export": ["export", path, out / "out.tif"],
        "manifest": ["manifest", path, out / "out.manifest"],
        "verify": ["verify", path],
        "recover": ["recover", path],
        "pyramid": ["pyramid", path],
        "repack": ["repack", path, out / "out.zarr"],
    }


def test_what_is_not_there(fails, tmp_path):
    for name, words in calls(tmp_path / "nothing.zarr", tmp_path).items():
        error = fails(*words, code=3, parts=["nothing.zarr"])
        assert error["kind"] == "not-found", (name, error)
    fails("probe", tmp_path / "nothing", code=3, parts=["nothing"])


def test_what_is_no_dataset(fails, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.zarr").write_text("not a dataset")
    for name, words in calls(tmp_path / "empty", tmp_path).items():
        expected = "holds no" if name in ("replay", "pyramid") else "holds neither"
        fails(*words, code=3, parts=["empty", expected])
    for name, words in calls(tmp_path / "file.zarr", tmp_path).items():
        if name != "replay":
            fails(*words, code=3, parts=["file.zarr", "is a file"])
    error = fails("replay", tmp_path / "file.zarr", tmp_path / "out.zarr", code=2, parts=["--shape", "--dtype"])
    assert error["kind"] == "usage"


@pytest.mark.parametrize("name", ["empty", "cut"])
def test_files_that_are_empty_or_cut(fails, movie_tif, tmp_path, name):
    content = movie_tif.read_bytes()[: 0 if name == "empty" else 40]
    (tmp_path / "in.tif").write_bytes(content)
    expected = "is empty" if name == "empty" else "page 0"
    fails("replay", tmp_path / "in.tif", tmp_path / "out.zarr", code=3, parts=["in.tif", expected])
    assert not (tmp_path / "out.zarr").exists()


def test_documents_that_are_cut(fails, dataset, tmp_path):
    document = (dataset / "0/zarr.json").read_bytes()
    (dataset / "0/zarr.json").write_bytes(document[: len(document) // 2])
    # These tell it of the one array, and go on with others.
    for name, words in calls(dataset, tmp_path).items():
        if name not in ("info", "verify", "manifest"):
            fails(*words, code=3, parts=["zarr.json", "is not JSON"])


def test_outputs_that_exist(fails, dataset, movie_tif, tmp_path):
    (tmp_path / "taken.tif").write_text("mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("mine")
    for words in [["replay", movie_tif, dataset], ["export", dataset, tmp_path / "taken.tif"]]:
        error = fails(*words, code=1, parts=["already exists", "--overwrite"])
        assert error["kind"] == "exists"
    fails("repack", movie_tif.parent / "run.ome.zarr", tmp_path / "mine", code=1, parts=["already exists"])
    fails("replay", movie_tif, tmp_path / "mine", "--overwrite", code=1, parts=["never overwritten"])
    fails("replay", movie_tif, movie_tif / "below", code=1, parts=["below"])
    assert (tmp_path / "taken.tif").read_text() == (tmp_path / "mine/letter.txt").read_text() == "mine"


WRONG = {
    "replay": [
        ("--codec", "foo", "blosc-lz4"),
        ("--codec=gzip --level", "10", "0 to 9"),
        ("--codec=gzip --shuffle", "bit", "--shuffle"),
        ("--chunk", "a,b", "16,256,256"),
        ("--chunk", "1,2,3,4", "the array has 3 dimensions"),
        ("--chunk=3,7,7 --shard", "4,7,7", "no multiple of the chunk's 3"),
        ("--memory", "10XB", "64MiB"),
        ("--memory", "1", "--memory"),
        ("--rate", "0", "frames per second"),
        ("--frames", "0", "above 0"),
        ("--frames", "99", "the recording's 5"),
        ("--pixel-size", "0.3", "0.325um"),
        ("--camera", "64x48xu8", "belongs to the input `synthetic`"),
        ("--shape", "1,2,3", "--dtype"),
        ("--dtype", "u17", "uint16 (u16)"),
        ("--dtype", "u16", "--dtype belongs to raw files"),
        ("--pixel-format", "mono13p", "mono12p"),
        ("--unused-bits", "16", "a whole number from 0 to 15"),
        ("--unused-bits", "4", "--unused-bits belongs to raw files"),
        ("--orientation", "left", "rotate-90"),
        ("--bayer", "RGB", "RGGB"),
        ("--series", "3", "--series 0"),
        ("--affinity", "9999", "no such core"),
        ("--affinity", "first", '"first" is not a whole number from 0 on'),
        ("--voxel-offset", "1,a,3", '"a" is not a whole number'),
        ("--key", "a\x01b", '--key "a\\u0001b"'),
        ("--workers", "5000", "at most 1024"),
        ("--dialect", "zarr2", "--dialect"),
        ("--policy=error --timeout", "1", "--policy block"),
        ("--voxel-offset", "1,2", "x, y and z"),
    ],
    "export": [
        ("--region", "abc", "3:7"),
        ("--region", "0:9", "3 dimensions"),
        ("--region", "q=3", "t, y, x"),
        ("--region", "0:9,:,:", "--region"),
        ("--format", "jpeg", "ome-tiff"),
        ("--memory", "x", "64MiB"),
    ],
    "repack": [
        ("--order", "z", "morton"),
        ("--level", "3", "--codec"),
        ("--only", "nothing", "--only"),
        ("--unsharded --shard", "4,4,4", "--unsharded"),
        ("--memory", "1", "--memory"),
        ("--chunk", "1,2,3,4", "--chunk 1,2,3,4: "),
    ],
    "pyramid": [("--method", "sum", "median"), ("--levels", "x", "--levels"), ("--z", "sometimes", "auto")],
    "manifest": [("--form", "yaml", "kerchunk"), ("--zarr-format", "4", "a whole number from 2 to 3")],
    "probe": [("--camera", "64x64", "WIDTHxHEIGHTxDTYPE"), ("--seconds", "-1", "--seconds")],
}


@pytest.mark.parametrize("name", WRONG)
def test_values_that_can_t_be(fails, dataset, movie_tif, tmp_path, name):
    words = {"probe": ["probe", tmp_path], "replay": ["replay", movie_tif, tmp_path / "out.zarr"]}
    words = words.get(name) or calls(dataset, tmp_path)[name]
    for option, value, expected in WRONG[name]:
        code = 3 if option == "--only" else 2
        error = fails(*words, *option.split(), value, code=code, parts=[expected])
        assert error["kind"] == ("usage" if code == 2 else "not-found"), (option, error)
        assert not (tmp_path / "out.zarr").exists(), (option, value)
    fails(name, code=2, parts=["<PATH>" if name != "replay" else "<INPUT>"])
    fails(*words, "--no-such-option", code=2, parts=["--no-such-option"])


def test_what_the_user_may_not_do(fails, command, dataset, movie_tif, tmp_path):
    """As another user, where this one may do anything."""
    if shutil.which("setpriv") is None and os.geteuid() == 0:
        pytest.skip("not run: root may do anything, and there is no setpriv")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o755)
    for folder in [tmp_path, *tmp_path.parents]:
        if folder.is_relative_to(tempfile.gettempdir()) and folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o055)
    copy = tmp_path / "shardwright"
    shutil.copy(command, copy)
    copy.chmod(0o755)
    secret = tmp_path / "secret.tif"
    shutil.copy(movie_tif, secret)
    secret.chmod(0)
    (dataset / "0/zarr.json").chmod(0)
    closed.chmod(0o555)
    as_nobody = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    lead = as_nobody if os.geteuid() == 0 else []

    def denied(*words):
        done = subprocess.run([str(word) for word in [*lead, copy, *words]], capture_output=True, text=True)
        assert done.returncode == 1 and "Permission denied" in done.stderr, (words, done.stderr)
        return done.stderr

    assert "secret.tif" in denied("replay", secret, tmp_path / "out.zarr")
    assert "closed" in denied("replay", movie_tif, closed / "out.zarr")
    assert "zarr.json" in denied("replay", dataset, tmp_path / "out.zarr")
    assert "zarr.json" in denied("export", dataset, tmp_path / "out.tif")
    (dataset / "0/zarr.json").chmod(0o644)
    assert "closed" in denied("export", dataset, closed / "out.tif")
    assert "closed" in denied("repack", dataset, closed / "out.zarr")
    assert "closed" in denied("manifest", dataset, closed / "out.manifest")
    assert not list(closed.iterdir())


def test_a_full_disk(fails, command, tmp_path):
    """On a file system of two megabytes, in a name space of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    small = f'mount -t tmpfs -o size=2m none "{disk}" && exec "$@"'
    lead = ["unshare", "--mount", "sh", "-c", small, "sh"]
    if subprocess.run([*lead, "true"], capture_output=True).returncode != 0:
        pytest.skip("not run: no file system can be mounted here")
    noise = np.random.default_rng(1).integers(0, 65536, (40, 256, 256), "u2")
    tifffile.imwrite(tmp_path / "in.tif", noise, **GRAY)

    def full(*words):
        call = [*lead, *[str(word) for word in [command, *words, "--json"]]]
        done = subprocess.run(call, capture_output=True, text=True)
        assert done.returncode == 1, (words, done.stdout, done.stderr)
        error = json.loads(done.stdout)["error"]
        assert error["kind"] == "no-space" and error["exit_code"] == 1, (words, error)
        return error["message"]

    assert "reserve space" in full("replay", tmp_path / "in.tif", disk / "out.zarr", "--codec", "none")
    subprocess.run([command, "replay", tmp_path / "in.tif", tmp_path / "run.zarr", "--quiet"], check=True)
    assert "nothing was left behind" in full("export", tmp_path / "run.zarr", disk / "out.tif")
    full("repack", tmp_path / "run.zarr", disk / "out.zarr")
    assert "no-space-check" in full("repack", tmp_path / "run.zarr", disk / "out.zarr")


def test_one_fault_has_one_exit_code(tool, dataset, tmp_path):
    """A shard with a flipped byte is damage in every command that reads its pixels."""
    (shard,) = [path for path in (dataset / "0/c").rglob("*") if path.is_file()]
    content = bytearray(shard.read_bytes())
    content[300] ^= 1
    shard.write_bytes(content)
    for name, words in calls(dataset, tmp_path).items():
        if name in ("replay", "export", "repack", "verify", "pyramid"):
            more = {"repack": ["--codec", "none"], "pyramid": ["--levels", "1"]}.get(name, [])
            said = tool(*words, *more, code=3)
            assert "damage" in said or "checksum" in said or "crc32c" in said, (name, said)


def unwritable(command, words, stdout=subprocess.PIPE, stderr=subprocess.PIPE):
    done = subprocess.run([str(word) for word in [command, *words]], stdout=stdout, stderr=stderr)
    return done.returncode, done.stdout


def test_a_stderr_that_can_t_be_written_does_not_end_the_work(command, dataset, tmp_path):
    verbose = {
        "replay": ["replay", "synthetic", tmp_path / "r.zarr", "--camera", "64x48xu16", "--frames", 9, "--rate", 5],
        "repack": ["repack", dataset, tmp_path / "v2.zarr", "--dialect", "zarr2", "--codec", "zlib"],
        "back": ["repack", tmp_path / "v2.zarr", tmp_path / "back.zarr"],
        "export": ["export", dataset, tmp_path / "o.npy"],
    }
    for name, words in verbose.items():
        with open("/dev/full", "w") as full:
            code, said = unwritable(command, [*words, "--json"], stderr=full)
        assert code == 0 and "error" not in {**json.loads(said), "error": None}.values(), (name, code, said)
    with open("/dev/full", "w") as full:
        assert unwritable(command, ["info", tmp_path / "none"], stderr=full)[0] == 3
    assert (tmp_path / "o.npy").exists()


def test_a_stdout_that_can_t_be_written_is_an_error(command, dataset):
    for words in (["info", dataset], ["--help"], ["verify", dataset, "--json"], ["completions", "bash"]):
        with open("/dev/full", "w") as full:
            assert unwritable(command, words, stdout=full)[0] == 1, words
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "w") as gone:
            assert unwritable(command, words, stdout=gone)[0] == 0, words


def test_what_was_not_asked_for_is_not_blamed(tool, fails, dataset, tmp_path):
    fails("repack", dataset, tmp_path / "o", "--dialect", "zarr3", "--ome", "0.4", code=2, parts=["--ome 0.4", "zarr3"])
    error = fails("repack", dataset, tmp_path / "o", "--gzip-indexes", code=2, parts=["--gzip-indexes", "precomputed"])
    assert "--dialect" not in error["message"]
    tool("repack", dataset, tmp_path / "v2.zarr", "--ome", "0.4")
    assert (tmp_path / "v2.zarr/0/.zarray").exists()
    # In place, a dataset keeps its format.
    tool("repack", tmp_path / "v2.zarr", "--codec", "zstd")
    assert json.loads((tmp_path / "v2.zarr/0/.zarray").read_text())["compressor"]["id"] == "zstd"
    tool("verify", tmp_path / "v2.zarr", "-q")
    assert "stays a file of its own" in tool("repack", tmp_path / "v2.zarr", tmp_path / "back.zarr")
    said = tool("repack", tmp_path / "v2.zarr", tmp_path / "sharded.zarr", "--shard", "5,20,30", "--codec", "zstd")
    assert "stays a file" not in said
    fails("repack", dataset, tmp_path / "p", "--dialect", "zarr2", "--ome", "0.5", code=2, parts=["--ome 0.5"])
    fails("pyramid", dataset, "--levels", 0, code=2, parts=["--levels 0"])
    fails("export", dataset, tmp_path / "o.npy", "--region", "t=100", code=2, parts=["--region t=100:"])
    fails("export", dataset, tmp_path / "o.npy", "--memory", 1, code=2, parts=["--memory 1", "bytes"])


def test_nothing_is_recovered_of_a_finished_dataset_that_was_repacked(told, dataset, tmp_path):
    told("repack", dataset, tmp_path / "o.zarr", "--codec", "zstd")
    for options in ([], ["--apply"]):
        assert told("recover", tmp_path / "o.zarr", *options)["images"] == []


def test_a_probe_leaves_datasets_alone(fails, dataset):
    fails("probe", dataset / "0", code=2, parts=["is a dataset"])
    fails("probe", dataset.parent, "--seconds", 0, code=2, parts=["above 0"])


def test_options_stand_where_they_mean_something(command):
    def page(name):
        return subprocess.run([command, name, "--help"], check=True, capture_output=True, text=True).stdout

    for name in ("probe", "completions"):
        assert "--follow-links" not in page(name)
    for name in COMMANDS:
        assert "--quiet" in page(name), name
    assert "zarr2," not in page("replay") and "auto" not in page("repack").replace("automatic", "")
    assert "preloaded" not in page("probe")


@pytest.mark.parametrize("name", [*COMMANDS, "completions"])
def test_pages_of_help(command, name):
    page = subprocess.run([command, name, "--help"], check=True, capture_output=True, text=True).stdout
    first = page.splitlines()[0]
    assert len(first) <= 110 and not first.endswith("."), first
    for code in [] if name == "completions" else ["0", "1", "2", "3", "5", "130"]:
        assert f"\n  {code}  " in page, (name, code)
    assert ("\n  4  " in page) == (name in ("replay", "probe", "recover"))
    assert "Usage: shardwright " + name in page
    # Every option is explained, and only its own.
    lines = page.splitlines()
    for number, line in enumerate(lines):
        if line.lstrip().startswith("--") and line.startswith(" "):
            rest = line.split("  ")[-1].strip()
            following = lines[number + 1].strip() if number + 1 < len(lines) else ""
            assert rest and not rest.startswith("--") or following, line


def test_an_output_in_a_file_is_in_the_way_for_every_command(fails, dataset, tmp_path):
    file = tmp_path / "file"
    file.write_text("somebody's")
    for name in ("x", "x.ozx"):
        out = file / name
        camera = ("--camera", "64x64xu16@50", "--frames", 5)
        calls = [
            ("manifest", dataset, out),
            ("export", dataset / "0", file / "x.tif"),
            ("repack", dataset, out),
            ("replay", "synthetic", out, *camera),
            ("probe", out, "--camera", "64x64xu16@50"),
        ]
        for words in calls:
            error = fails(*words, code=1, parts=["is a file, so there can't be"])
            assert error["kind"] == "exists", error
    assert file.read_text() == "somebody's"


def test_an_array_behind_a_link_out_is_told_once_and_not_as_lost(command, dataset, tmp_path):
    (dataset / "0").rename(tmp_path / "elsewhere")
    (dataset / "0").symlink_to("../elsewhere")
    told = subprocess.run([command, "verify", dataset, "--json"], capture_output=True, text=True)
    (finding,) = [finding for finding in json.loads(told.stdout)["findings"] if finding["severity"] != "note"]
    assert finding["severity"] == "unchecked" and "--follow-links" in finding["what"]
    assert told.returncode == 5
    subprocess.run([command, "verify", dataset, "--follow-links"], check=True, capture_output=True)
    # It speaks of options, in all that is printed, and of nothing that only a program calls.
    for words in [["verify", dataset], ["info", dataset], ["repack", dataset, tmp_path / "o.zarr"],
                  ["recover", dataset]]:  # fmt: skip
        for form in [[], ["--json"]]:
            told = subprocess.run([command, *words, *form], capture_output=True, text=True)
            said = told.stdout + told.stderr
            assert "follow_links" not in said and ("--follow-links" in said or words[0] == "recover"), said


def test_manifests_do_not_offer_to_replace_what_they_never_replace(fails, dataset, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/notes.txt").write_text("somebody's")
    for options in ([], ["--overwrite"]):
        error = fails("manifest", dataset, tmp_path / "folder", *options, code=1, parts=["never replaced"])
        assert error["kind"] == "exists" and "--overwrite" not in error["message"]
    assert [file.name for file in (tmp_path / "folder").iterdir()] == ["notes.txt"]


def test_the_document_that_is_missing_is_among_those_that_are_named(tool, tmp_path):
    (tmp_path / "g").mkdir()
    (tmp_path / "g/.zattrs").write_text("{}")
    assert "holds neither zarr.json nor .zarray nor .zgroup nor info" in tool("info", tmp_path / "g", code=3)


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["repack", "--help"]])
def test_help_helps_who_asks_it_for_help(tool, words):
    assert tool("help", *words) == tool("help", *[word for word in words if word == "repack"])


def test_the_help_of_repack_names_no_options_of_replay(tool):
    assert "--pixel-size" not in tool("repack", "--help")
