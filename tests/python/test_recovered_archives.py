"""Archives with damaged headers, and those that were cut off: `recover` loses nothing of them that is whole."""

import os
import shutil
import signal
import subprocess
import time
import zipfile

import pytest

OPTIONS = "--camera 65x47xu16 --chunk 8,32,32 --shard 16,64,64 --pyramid mean --levels 2 --unbounded -q".split()


@pytest.fixture
def archive(command, tmp_path):
    path = tmp_path / "run.ozx"
    subprocess.run([command, "replay", "synthetic", path, *OPTIONS, "--frames", "40"], check=True)
    return path


def flipped(path, at):
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 4]))


# The padding; the CRC-32; the lengths; the writer's own field.
@pytest.mark.parametrize("entry", ["0/c/0/0/0", "zarr.json", "0/zarr.json"])
@pytest.mark.parametrize("place", ["padding", "crc", "length", "high length", "own"])
def test_a_finished_archive_loses_nothing_for_a_bit_of_a_header(ran, archive, entry, place):
    with zipfile.ZipFile(archive) as zipped:
        at = zipped.getinfo(entry).header_offset
    zip64 = at + 30 + len(entry)
    within = {"padding": at + 1000, "crc": at + 15, "length": zip64 + 6, "high length": zip64 + 9, "own": zip64 + 40}
    if place == "padding" and not entry.startswith("0/c"):
        pytest.skip("headers of documents have none")
    flipped(archive, within[place])
    before = archive.read_bytes()
    assert ran("verify", archive)[0] == 0
    for apply in ([], ["--apply"]):
        code, told = ran("recover", archive, *apply)
        assert code == 0 and "frames are missing" not in told, told
        assert archive.read_bytes() == before


@pytest.mark.parametrize("at", [1, 27, 29, 32])
def test_a_header_by_which_nobody_finds_an_entry_is_named(ran, archive, at):
    with zipfile.ZipFile(archive) as zipped:
        flipped(archive, zipped.getinfo("0/c/0/0/0").header_offset + at)
    before = archive.read_bytes()
    for apply in ([], ["--apply"]):
        code, told = ran("recover", archive, *apply)
        assert code == 3 and "0/c/0/0/0" in told and "nothing is changed" in told, told
        assert archive.read_bytes() == before


def test_an_archive_that_was_cut_off_is_recovered_once(command, ran, tmp_path):
    whole, cut = tmp_path / "whole.ozx", tmp_path / "cut.ozx"
    options = [*OPTIONS, "--frames", "100000", "--rate", "500", "--checkpoint-every", "0.1", "--memory", "4MiB"]
    process = subprocess.Popen([command, "replay", "synthetic", whole, *options])
    time.sleep(1.5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    length = whole.stat().st_size
    pages = [length * percent // 100 // 4096 * 4096 for percent in range(45, 100, 9)]
    cuts = [page + within for page in pages for within in (0, 17, 4000)]
    for at in cuts:
        shutil.copyfile(whole, cut)
        os.truncate(cut, at)
        code, told = ran("recover", "--apply", cut)
        assert code == 0, (at, length, told)
        assert ran("verify", cut)[0] == 0, at
        before = cut.read_bytes()
        for apply in ([], ["--apply"]):
            code, told = ran("recover", *apply, cut)
            assert code == 0 and "removed" not in told, (at, length, told)
            assert cut.read_bytes() == before
