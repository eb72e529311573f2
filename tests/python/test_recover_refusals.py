"""Documents by which the shards were not written, and links to the shards of others: `recover` changes nothing then."""

import json
import os
import shutil
import subprocess

import pytest

OPTIONS = "--camera 65x47xu16 --chunk 8,32,32 --shard 16,64,64 --pyramid mean --levels 2 --unbounded -q".split()


@pytest.fixture(params=["packed", "fixed"])
def dataset(command, tmp_path, request):
    """A dataset that came to its end."""
    path = tmp_path / "run.zarr"
    options = [*OPTIONS, "--frames", "30", "--placement", request.param]
    subprocess.run([command, "replay", "synthetic", path, *options], check=True)
    return path


def edit(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def stop(path):
    """Makes a dataset look as one whose run was killed: nothing but its shards and what they hold is known."""

    def own(document):
        said = document["attributes"]["shardwright"]
        said["complete"] = False
        for name in ("frames", "chunks", "frames_missing", "missing"):
            said.pop(name, None)

    for group in (path, path / "1", path / "2"):
        edit(group / "zarr.json", own)


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "lock" not in path.name}


def grid(at, value):
    def change(document):
        document["chunk_grid"]["configuration"]["chunk_shape"][at] = value

    return change


def chunks(at, value):
    def change(document):
        document["codecs"][0]["configuration"]["chunk_shape"][at] = value

    return change


def index_at_start(document):
    document["codecs"][0]["configuration"]["index_location"] = "start"


WRONG = {
    "an index at the start": index_at_start,
    "shards of fewer frames": grid(0, 8),
    "wider shards": grid(2, 128),
    "narrower shards": grid(2, 32),
    "lower shards": grid(1, 32),
    "chunks of more frames": chunks(0, 16),
    "narrower chunks": chunks(2, 16),
    "fewer columns": lambda document: document["shape"].__setitem__(2, 30),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_document_that_the_shards_were_not_written_by_is_refused(ran, dataset, wrong, is_stopped):
    good = files(dataset)
    if is_stopped:
        stop(dataset)
    document = (dataset / "0/zarr.json").read_bytes()
    edit(dataset / "0/zarr.json", WRONG[wrong])
    before = files(dataset)
    for apply in ([], ["--apply"]):
        code, told = ran("recover", dataset, *apply)
        assert code == 3 and "nothing is changed" in told and "0/zarr.json" in told, (code, told)
        assert files(dataset) == before
    (dataset / "0/zarr.json").write_bytes(document)
    ran("recover", dataset, "--apply")
    assert ran("verify", dataset)[0] == 0
    shards = [path for path in good if "c" in path.parts and "records" not in path.parts]
    assert all(good[path] == path.read_bytes() for path in shards)


@pytest.mark.parametrize("name", ["first_at", "bytes", "writer"])
def test_a_wrong_number_of_a_level_is_refused(ran, dataset, name):
    stop(dataset)
    assert ran("recover", dataset, "--apply")[0] == 0
    assert ran("verify", dataset)[0] == 0

    def change(document):
        own = document["attributes"]["shardwright"]
        if name == "writer":
            own["writer"] = "0" * 32
        else:
            own["slots"][name] = 1 << 38

    edit(dataset / "1/zarr.json", change)
    placement = json.loads((dataset / "zarr.json").read_text())["attributes"]["shardwright"]["slots"]["placement"]
    before = files(dataset)
    for apply in ([], ["--apply"]):
        code, told = ran("recover", dataset, *apply)
        # Where chunks follow each other, the length of a slot is no more than a bound.
        if (name, placement) == ("bytes", "packed"):
            assert code == 0, told
        else:
            assert code == 3 and "1/zarr.json" in told and "nothing is changed" in told, told
        assert files(dataset) == before


def test_a_shard_of_which_a_reader_sees_nothing_is_not_removed_for_a_wrong_number(ran, dataset):
    """As a kill before the first checkpoint leaves it: its headers alone tell that there is something."""
    stop(dataset)
    shard = dataset / "1/c/0/0/0"
    length = shard.stat().st_size
    entries = 2 * 1 * 1 * 4
    with shard.open("r+b") as file:
        file.truncate(length - 16 * entries - 4)
    edit(dataset / "1/zarr.json", lambda document: slots(document).__setitem__("first_at", 1 << 38))
    before = files(dataset)
    code, told = ran("recover", dataset, "--apply")
    assert code == 3 and "nothing is changed" in told, told
    assert files(dataset) == before


def slots(document):
    return document["attributes"]["shardwright"]["slots"]


def test_shards_that_were_swapped_are_still_named(ran, dataset):
    first, second = dataset / "0/c/0/0/0", dataset / "0/c/0/0/1"
    first.rename(dataset / "aside")
    second.rename(first)
    (dataset / "aside").rename(second)
    before = files(dataset)
    code, told = ran("recover", dataset, "--apply")
    assert "it is the shard c/0/0/1 of the same image; give it that name back" in told, told
    assert files(dataset) == before


def test_what_a_shard_has_of_another_stays(ran, dataset):
    """A part of another shard within a shard: nobody else has these bytes."""
    first, second = (dataset / f"0/c/0/0/{x}" for x in (0, 1))
    table = 16 * 8 + 4
    one, other = first.read_bytes(), second.read_bytes()
    padding = bytes(-len(one[:-table]) % 8)
    both = one[:-table] + padding + other[:-table]
    first.write_bytes(both + one[-table:])
    code, told = ran("recover", dataset, "--apply")
    assert code == 0, told
    assert first.read_bytes()[: len(both)] == both
    assert ran("recover", dataset)[0] == 0


@pytest.mark.parametrize("what", ["c", "c/0", "c/0/0/0"])
def test_links_to_the_shards_of_another_array_are_refused(ran, dataset, what):
    stop(dataset)
    link, target = dataset / "1" / what, dataset / "0" / what
    if link.is_dir():
        shutil.rmtree(link)
    else:
        link.unlink()
    link.symlink_to(os.path.relpath(target, link.parent))
    before = files(dataset)
    for apply in ([], ["--apply"]):
        code, told = ran("recover", dataset, *apply)
        assert code == 5 and str(link) in told and "is a link to" in told, told
        assert files(dataset) == before
