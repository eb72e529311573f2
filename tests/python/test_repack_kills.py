"""A repack that is killed at any moment: zarr-python opens what it leaves, and the same call ends it."""

import os
import random
import shutil
import subprocess
import time

import numpy as np
import pytest
import zarr
from readers import assert_same

KILLS = int(os.environ.get("SHARDWRIGHT_KILLS", 3))
ONLY = ["--only", "img/b", "--codec", "gzip"]
ZARR2 = ["--dialect", "zarr2", "--no-checksum"]
WAYS = {
    "unsharded in place": (3, ["--unsharded"], False),
    "unsharded": (3, ["--unsharded", "--codec", "gzip"], True),
    "only in place": (3, ONLY, False),
    "only": (3, ONLY, True),
    "only unsharded in place": (3, ["--only", "img", "--unsharded"], False),
    "zarr2 in place": (2, [*ONLY, *ZARR2, "--chunk", "3,40,40"], False),
    "zarr2": (2, [*ONLY, *ZARR2, "--chunk", "3,40,40"], True),
}


def group(path, zarr_format):
    """A consolidated group of two images, and their pixels."""
    root = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    shards = {"shards": (8, 128, 128)} if zarr_format == 3 else {}
    found = {}
    for seed, name in enumerate(["a", "img/b"]):
        found[name] = np.random.default_rng(seed).integers(1, 300, (24, 256, 256), dtype="u2")
        root.create_array(name, data=found[name], chunks=(4, 64, 64), **shards)
    zarr.consolidate_metadata(path)
    return found


def assert_opens(path, found, consolidated=(None, False)):
    for use in consolidated:
        root = zarr.open_group(path, mode="r", use_consolidated=use)
        for name, data in found.items():
            assert_same(root[name][...], data, f"{name}, consolidated: {use}")


@pytest.mark.parametrize("way", WAYS)
def test_a_killed_repack_leaves_what_readers_open(command, tmp_path, way):
    zarr_format, options, copies = WAYS[way]
    found = group(tmp_path / "original.zarr", zarr_format)
    draw, longest, midway = random.Random(way), 0, 0
    for kill in range(KILLS + 1):
        place = tmp_path / str(kill)
        place.mkdir()
        path, out = place / "g.zarr", place / "new.zarr"
        shutil.copytree(tmp_path / "original.zarr", path)
        call = [command, "repack", path, *([out] if copies else []), *options, "--workers", "2"]
        if kill:
            process = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(draw.random() * longest)
            process.kill()
            midway += process.wait() != 0
            assert_opens(path, found)
            if out.exists():
                assert_opens(out, found)
        start = time.monotonic()
        done = subprocess.run(call, capture_output=True, text=True)
        assert done.returncode == 0, (way, kill, done.stderr)
        longest = longest or time.monotonic() - start
        # Now consolidated metadata are there, and true.
        assert_opens(out if copies else path, found, [True, False])
        assert_opens(path, found, [True, False])
        assert sorted(entry.name for entry in place.iterdir()) == (["g.zarr", "new.zarr"] if copies else ["g.zarr"])
        assert not list(place.rglob("*.repack"))
        subprocess.run([command, "verify", "-q", out if copies else path], check=True)
        shutil.rmtree(place)
    print(f"{way}: {KILLS} kills, {midway} of them before the end")
    assert KILLS < 10 or midway > 0, "every call was over before it was killed"
