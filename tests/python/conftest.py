"""What the tests share: the datasets that the library writes, the command line, and how pixels are compared."""

import json
import os
import pathlib
import subprocess
import zlib

import numpy as np
import pytest

import recordings

ROOT = pathlib.Path(__file__).resolve().parents[2]


def built_command():
    """The command line, built as the Rust tests are, so that nothing is compiled twice."""
    if path := os.environ.get("SHARDWRIGHT_COMMAND"):
        return pathlib.Path(path)
    build = ["cargo", "build", "--quiet", "--profile", "test", "--package", "shardwright-cli", "--message-format=json"]
    output = subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    artifacts = (json.loads(line) for line in output.splitlines())
    (command,) = (a["executable"] for a in artifacts if a.get("executable") and a["target"]["name"] == "shardwright")
    return pathlib.Path(command)


def written_datasets(config):
    """The folder with the datasets of `tests/it/datasets.rs`; written now, unless `SHARDWRIGHT_DATASETS` names one."""
    if path := os.environ.get("SHARDWRIGHT_DATASETS"):
        return pathlib.Path(path)
    if not hasattr(config, "written_datasets"):
        folder = config.cache.mkdir("datasets")
        subprocess.run(["rm", "-rf", folder], check=True)
        folder.mkdir()
        test = ["cargo", "test", "--quiet", "--features", "capi,toml,zarrs", "--test", "it", "datasets::"]
        subprocess.run(test, cwd=ROOT, check=True, env={**os.environ, "SHARDWRIGHT_DATASETS": str(folder)})
        config.written_datasets = folder
    return config.written_datasets


class Image:
    """One image of a dataset, and what a reader must see in it."""

    def __init__(self, folder, name, dataset, image):
        self.__dict__.update(image)
        self.name = f"{name}/{self.group}" if self.group else name
        self.dataset = dataset
        self.path = dataset / self.group
        self.array = self.path / "0"
        # Shared by the processes of the tests, each of which has all images.
        pixels = folder / self.pixels
        if pixels.stat().st_size == 0:
            self.pixels = np.empty(self.shape, self.dtype)
        else:
            self.pixels = np.memmap(pixels, self.dtype, "r", shape=tuple(self.shape))


def images(folder):
    for description in sorted(folder.glob("*.json")):
        case = json.loads(description.read_text())
        for image in case["images"]:
            yield Image(folder, case["name"], folder / case["path"], image)


def pytest_generate_tests(metafunc):
    if "image" in metafunc.fixturenames:
        found = list(images(written_datasets(metafunc.config)))
        # An empty folder would make all of these tests vanish without a word.
        assert len(found) > 100, f"only {len(found)} datasets were written"
        metafunc.parametrize("image", found, ids=lambda image: image.name)


def pytest_collection_modifyitems(config, items):
    if os.environ.get("SHARDWRIGHT_QUICK"):
        items[:], left = some_of_each(items)
        config.hook.pytest_deselected(items=left)
    longest_apart(items)


def some_of_each(items):
    """The first case of each test and a tenth of its others, always the same ones; and those that are left."""
    tests, kept, left = set(), [], []
    for item in items:
        test = item.nodeid.partition("[")[0]
        # By a hash: every tenth one could be the same value of a parameter each time.
        take = test not in tests or zlib.crc32(item.nodeid.encode()) % 10 == 0
        tests.add(test)
        (kept if take else left).append(item)
    return kept, left


def longest_apart(items):
    """The longest come first: one at the beginning, one where the second half of the processes begins."""
    longest = [item for item in items if item.path.name == "test_matrix.py"]
    rest = [item for item in items if item.path.name != "test_matrix.py"]
    half = len(rest) // 2 + 4
    items[:] = [*longest[:1], *rest[:half], *longest[1:], *rest[half:]]


@pytest.fixture(scope="session")
def command():
    return built_command()


@pytest.fixture
def tool(command):
    """Runs a command and returns what it says."""

    def run(*words, code=0):
        done = subprocess.run([str(word) for word in [command, *words]], capture_output=True, text=True)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    return run


@pytest.fixture
def told(command):
    """Runs a command with `--json` and returns the only object that it prints."""

    def run(*words, code=0, stdin=subprocess.DEVNULL, env=None, before=()):
        call = [str(word) for word in [*before, command, *words, "--json"]]
        done = subprocess.run(call, capture_output=True, text=True, stdin=stdin, env=env)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return json.loads(done.stdout)

    return run


@pytest.fixture
def replay(command, tmp_path):
    """Runs `shardwright replay` and returns its report and the dataset's path."""

    def run(source, *options, code=0):
        out = tmp_path / f"out{len(list(tmp_path.glob('out*')))}.ome.zarr"
        call = [command, "replay", source, out, "--json", "--no-sync", "--memory", "64MiB", *options]
        done = subprocess.run([str(word) for word in call], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout), out

    return run


@pytest.fixture
def refused(command, tmp_path):
    """Runs `shardwright replay` on what it must refuse; returns what it says."""

    def run(source, *options, code=3):
        call = [command, "replay", source, tmp_path / "refused.zarr", "--memory", "64MiB", *options]
        done = subprocess.run([str(word) for word in call], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == code, done.stderr
        assert "panicked" not in done.stderr and not (tmp_path / "refused.zarr").exists()
        return done.stderr

    return run


@pytest.fixture
def movie():
    return recordings.movie(np.uint16, (11, 60, 70))


@pytest.fixture
def ran(command):
    """Runs the command, and returns its exit code and all that it says."""

    def ran(*words):
        done = subprocess.run([command, *words], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    return ran
