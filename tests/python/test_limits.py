"""What is larger than is read or written here, and numbers that no number holds: told as they are, and called no
damage."""

import json
import math

import pytest
import zarr
from arrays import pixels


@pytest.fixture
def told(tool):
    """What a command prints with `--json`."""
    return lambda *words: json.loads(tool(*words, "--json"))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    "change, reason",
    [
        ({"shape": [2**40, 2**30, 4]}, "2^64 elements"),
        ({"shape": [2**64, 4, 4]}, "18446744073709551616"),
        ({"shape": [4] * 40, "chunks": [1] * 40}, "at most 32 are read"),
        ({"chunks": [2**20, 2**20, 8]}, "4294967296 bytes"),
        ({"chunks": [2**65, 1, 1]}, "36893488147419103232"),
    ],
)
def test_what_is_larger_than_is_read_is_no_damage(tool, told, tmp_path, zarr_format, change, reason):
    root = zarr.open_group(tmp_path / "g.zarr", mode="w", zarr_format=zarr_format)
    for name in "ab":
        root.create_array(name, data=pixels(), chunks=(2, 16, 16))
    file = tmp_path / f"g.zarr/b/{'zarr.json' if zarr_format == 3 else '.zarray'}"
    document = json.loads(file.read_text())
    document |= {"shape": change["shape"]} if "shape" in change else {}
    if "chunks" in change and zarr_format == 3:
        document["chunk_grid"]["configuration"]["chunk_shape"] = change["chunks"]
    elif "chunks" in change:
        document["chunks"] = change["chunks"]
    if zarr_format == 3:
        document.pop("dimension_names", None)
    file.write_text(json.dumps(document))
    assert reason in tool("verify", tmp_path / "g.zarr", code=5)
    assert reason in tool("export", tmp_path / "g.zarr/b", tmp_path / "b.npy", code=5)
    (unreadable,) = told("info", tmp_path / "g.zarr")["unreadable"]
    assert reason in unreadable["reason"]


def test_numbers_are_told_as_they_are_written(tool, told, tmp_path):
    root = zarr.open_group(tmp_path / "g.zarr", mode="w", attributes={"big": 2**64, "small": -(2**70), "n": [math.inf]})
    data = pixels().astype("u8")
    root.create_array("0", data=data, chunks=(2, 16, 16), shards=(4, 32, 32), fill_value=2**64 - 3)
    assert told("info", tmp_path / "g.zarr")["attributes"] == {"big": 2**64, "small": -(2**70), "n": ["Infinity"]}
    tool("repack", tmp_path / "g.zarr", tmp_path / "o", "--dialect", "zarr2", "--codec", "zlib")
    assert json.loads((tmp_path / "o/0/.zarray").read_text())["fill_value"] == 2**64 - 3
    refused = tool("repack", tmp_path / "g.zarr", tmp_path / "v", "--dialect", "precomputed", "--codec", "none", code=2)
    assert "18446744073709551613" in refused and "1844674407370955200" not in refused


def test_a_shape_that_is_asked_for_may_be_too_large(tool, tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=pixels(), chunks=(2, 16, 16), shards=(4, 32, 32))
    large = f"{2**20},{2**20},8"
    refused = tool("repack", tmp_path / "a.zarr", tmp_path / "o.zarr", "--chunk", large, "--shard", large, code=2)
    assert "--chunk" in refused and "4294967296 bytes" in refused


def test_no_voxel_stands_where_no_number_reaches(tool, replay, refused, tmp_path):
    camera = ["--camera", "64x48xu16", "--frames", "9", "--dialect", "precomputed"]
    far, most = 2**63 - 1, 2**63 - 1 - 64
    for more in [[], ["--unbounded"]]:
        said = refused("synthetic", *camera, *more, "--voxel-offset", f"{far},0,0", code=2)
        assert "--voxel-offset" in said and f"at most {most}" in said
        assert "z starts too far out" in refused("synthetic", *camera, *more, "--voxel-offset", f"0,0,{far}", code=2)
    _, out = replay("synthetic", *camera, "--voxel-offset", f"{most},0,-5")
    tool("verify", out)
    said = tool("repack", out, tmp_path / "o", "--dialect", "precomputed", "--voxel-offset", f"0,{far},0", code=2)
    assert "--voxel-offset" in said and not (tmp_path / "o").exists()
