"""Volumes whose documents say less than readers need, and what only resembles what is kept of a volume."""

import gzip
import json

import numpy as np
import pytest
import tensorstore
import zarr
from cloudvolume import CloudVolume
from readers import assert_same

PIXELS = np.arange(20 * 18 * 6, dtype="u2").reshape(6, 18, 20)
VOLUME = ["--dialect", "precomputed", "--codec", "gzip"]
NOT_SAID = '"resolution" of three numbers above 0'


def volume(path, key="fine", **more):
    """A volume of one scale. `more`: what its document says otherwise of the scale, or None for nothing."""
    scale = {"key": key, "size": PIXELS.shape[::-1], "resolution": [4, 4, 40], "voxel_offset": [0, 0, 0],
             "chunk_size": [16, 16, 8], "encoding": "raw"}  # fmt: skip
    spec = {"driver": "neuroglancer_precomputed", "kvstore": f"file://{path}", "scale_metadata": scale,
            "multiscale_metadata": {"type": "image", "data_type": "uint16", "num_channels": 1}}  # fmt: skip
    tensorstore.open(spec, create=True).result()[...] = PIXELS.T[..., None]
    change(path, lambda info: info["scales"][0].update(more))
    return path


def change(path, edit):
    info = json.loads((path / "info").read_text())
    edit(info)
    for scale in info["scales"]:
        if scale["resolution"] is None:
            del scale["resolution"]
    (path / "info").write_text(json.dumps(info))


@pytest.mark.parametrize("said", [None, [4, 4], "4,4,40", [0, 4, 40], [4, -4, 40], ["4", "4", "40"], {}], ids=str)
def test_a_resolution_that_is_not_said_is_not_made_up(tool, told, replay, tmp_path, said):
    path = volume(tmp_path / "v", resolution=said)
    (array,) = told("info", path)["arrays"]
    assert array["axes"] == [] and any(NOT_SAID in note for note in array["notes"])
    text = tool("repack", path, tmp_path / "z")
    assert NOT_SAID in text
    group = zarr.open_group(tmp_path / "z", mode="r")
    assert "ome" not in group.attrs
    assert_same(group["0"][...], PIXELS)
    text = tool("repack", path, tmp_path / "w", *VOLUME)
    assert NOT_SAID in text and "is a guess along z (no unit), y (no unit), x (no unit)" in text
    text = tool("repack", path, tmp_path / "x", *VOLUME, "--resolution", "4,4,40")
    assert "is a guess" not in text
    assert json.loads((tmp_path / "x" / "info").read_text())["scales"][0]["resolution"] == [4, 4, 40]
    assert any(NOT_SAID in note for note in replay(path)[0]["notes"])


def test_a_resolution_that_is_said_is_taken(tool, tmp_path):
    path = volume(tmp_path / "v")
    assert NOT_SAID not in tool("repack", path, tmp_path / "z") + tool("repack", path, tmp_path / "w", *VOLUME)
    assert "ome" in zarr.open_group(tmp_path / "z", mode="r").attrs
    assert json.loads((tmp_path / "w" / "info").read_text())["scales"][0]["resolution"] == [4, 4, 40]


# An attribute that has the name under which a volume's document is kept.

SCALE = {"key": "mine", "size": [20, 18, 6], "voxel_offset": [5, 6, 7], "resolution": [1, 1, 1]}
INFO = {"type": "segmentation", "data_type": "uint16", "num_channels": 1}
ALIKE = {
    "a list": {"scales": [1, 2, 3]},
    "no list": {"scales": [], "type": "segmentation"},
    "keys": {"type": "segmentation", "scales": [SCALE], "mesh": "mesh"},
    "no scale": {**INFO, "scales": [SCALE, 5]},
    "others": {**INFO, "@type": "neuroglancer_multiscale_volume", "scales": [{**SCALE, "size": [9, 8, 6]}, SCALE][:1]},
}


@pytest.mark.parametrize("said", ALIKE.values(), ids=ALIKE.keys())
@pytest.mark.parametrize("dialect", ["zarr2", "zarr2-sharded", "zarr3-transformer", "precomputed"])
@pytest.mark.parametrize("is_alone", [False, True])
def test_what_only_resembles_a_volume_s_document_is_kept(tool, tmp_path, said, dialect, is_alone):
    attributes = {"neuroglancer": said}
    if is_alone:
        zarr.create_array(tmp_path / "a", data=PIXELS, chunks=(2, 16, 16), attributes=attributes)
    else:
        group = zarr.open_group(tmp_path / "a", mode="w", attributes=attributes)
        group.create_array("0", data=PIXELS, chunks=(2, 16, 16))
    shape = {"zarr2": [], "precomputed": []}.get(dialect, ["--shard", "4,32,32"])
    codec = "gzip" if dialect == "precomputed" else "zstd"
    tool("repack", tmp_path / "a", tmp_path / "b", "--dialect", dialect, "--codec", codec, *shape)
    if dialect == "precomputed":
        info = json.loads((tmp_path / "b" / "info").read_text())
        assert info["attributes"]["neuroglancer"] == said
        assert info["type"] == "image" and "mesh" not in info
        assert info["scales"][0]["key"] == "1_1_1" and info["scales"][0]["voxel_offset"] == [0, 0, 0]
    tool("repack", tmp_path / "b", tmp_path / "c", "--dialect", "zarr3", "--unsharded")
    kept = [json.loads(file.read_text())["attributes"] for file in (tmp_path / "c").rglob("zarr.json")]
    assert [attributes["neuroglancer"] for attributes in kept if "neuroglancer" in attributes] == [said]


def test_what_a_user_s_attribute_takes_the_place_of_is_told(tool, tmp_path):
    path = volume(tmp_path / "v")
    change(path, lambda info: info.update(type="segmentation", attributes={"neuroglancer": {"x": 1}}))
    for name, options in [("z", []), ("s", ["--dialect", "zarr2-sharded"]), ("w", VOLUME)]:
        assert 'an attribute "neuroglancer" of somebody else' in tool("repack", path, tmp_path / name, *options)
    assert zarr.open_group(tmp_path / "z", mode="r").attrs["neuroglancer"] == {"x": 1}
    assert json.loads((tmp_path / "w" / "info").read_text())["attributes"]["neuroglancer"] == {"x": 1}


# What `info` says of them.


@pytest.fixture
def pyramid(tmp_path):
    """A volume of cloud-volume with three scales whose names are in another order, and files that are compressed."""
    info = CloudVolume.create_new_info(num_channels=1, layer_type="image", data_type="uint16", encoding="raw",
                                       resolution=[8, 8, 40], voxel_offset=[0, 0, 0], volume_size=[32, 32, 8],
                                       chunk_size=[16, 16, 8])  # fmt: skip
    path = f"file://{tmp_path}/v"
    made = CloudVolume(path, info=info, compress="gzip", progress=False)
    made.add_scale((2, 2, 1))
    made.add_scale((16, 16, 1))
    made.commit_info()
    for mip in range(3):
        scale = CloudVolume(path, mip=mip, compress="gzip", progress=False)
        scale[...] = np.full((*scale.shape[:3], 1), mip + 1, "u2")
    return tmp_path / "v"


def test_scales_come_in_the_order_of_the_document(tool, told, pyramid):
    keys = ["8_8_40", "16_16_40", "128_128_40"]
    assert [array["path"] for array in told("info", pyramid)["arrays"]] == keys
    text = tool("info", pyramid)
    assert sorted(keys, key=lambda key: text.index(f" {key}\n")) == keys


def test_files_that_are_compressed_are_told(tool, told, pyramid):
    assert [array["codecs"] for array in told("info", pyramid)["arrays"]] == [["raw", "gzip"]] * 3
    first = min((pyramid / "8_8_40").iterdir())
    first.with_suffix("").write_bytes(gzip.decompress(first.read_bytes()))
    first.unlink()
    assert told("info", pyramid)["arrays"][0]["codecs"] == ["raw", "gzip (3 of 4 files)"]
    tool("verify", pyramid)


def test_a_chunk_that_is_there_twice_counts_once(tool, told, pyramid):
    first = min((pyramid / "8_8_40").iterdir())
    first.with_suffix("").write_bytes(gzip.decompress(first.read_bytes()))
    assert told("info", pyramid)["arrays"][0]["shard_files"] == 4
    found = told("verify", pyramid)
    assert [array["files"] for array in found["arrays"] if array["path"] == "8_8_40"] == [4]
    assert first.name in tool("verify", pyramid) and "a second time" in tool("verify", pyramid)


def test_arrays_of_others_are_no_records(tool, replay, tmp_path):
    zarr.create_array(tmp_path / "one", data=np.arange(10.0), chunks=(5,))
    text = tool("info", tmp_path / "one")
    assert "records" not in text and " /  " in text
    _, dataset = replay("synthetic", "--camera", "64x64xu16", "--frames", "3")
    zarr.open_group(dataset, mode="a").create_array("times", data=np.arange(3.0), chunks=(3,))
    lines = [line.split()[:2] for line in tool("info", dataset).splitlines() if line.strip()]
    assert lines.index(["array", "type"]) < lines.index(["times", "float64"]) < lines.index(["records", "type"])


def test_scales_of_a_volume_become_zarr_v2_by_way_of_v3(tool, tmp_path):
    path = volume(tmp_path / "v")
    change(path, lambda info: info["scales"].append({**info["scales"][0], "key": "coarse"}))
    told = tool("repack", path, tmp_path / "o", "--dialect", "zarr2", "--unsharded", code=2)
    assert "only one scale of a volume becomes zarr2 in a call" in told and "zarr3 of all of them first" in told
