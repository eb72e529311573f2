"""Chunks that are files of their own: what `repack` keeps of them, and what `verify` says of them."""

import json
import subprocess

import numpy as np
import pytest
import zarr
from arrays import pixels
from cloudvolume import CloudVolume
from readers import assert_same

pytestmark = pytest.mark.filterwarnings("ignore")


def tree(path, names=("a/b",), zarr_format=3):
    """A tree of arrays without shards, with consolidated metadata."""
    root = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    for name in names:
        root.create_array(name, data=pixels(shape=(4, 64, 64)), chunks=(1, 32, 32))
    root["a"].attrs["k"] = "v"
    zarr.consolidate_metadata(path)
    return path


@pytest.mark.parametrize("name", ["b.zarr", "b.ozx"])
def test_files_stay_files_where_nothing_is_asked_for(tool, told, tmp_path, name):
    source = tree(tmp_path / "a.zarr")
    out = tmp_path / name
    tool("repack", source, out)
    store = zarr.storage.ZipStore(out, mode="r") if name.endswith(".ozx") else out
    array = zarr.open_group(store, mode="r")["a/b"]
    assert_same(array[...], pixels(shape=(4, 64, 64)))
    assert array.shards is None and array.chunks == (1, 32, 32)
    assert "nothing to do" in tool("repack", source, out)


def test_a_manifest_is_copied_as_files(tool, tmp_path):
    source = tree(tmp_path / "a.zarr")
    tool("manifest", source, tmp_path / "m")
    tool("repack", tmp_path / "m", tmp_path / "b.zarr")
    assert_same(zarr.open_group(tmp_path / "b.zarr", mode="r")["a/b"][...], pixels(shape=(4, 64, 64)))


def test_what_is_before_0_4_is_not_called_0_4(tool, told, tmp_path):
    path = tmp_path / "a.zarr"
    root = zarr.open_group(path, mode="w", zarr_format=2)
    root.create_array("0", data=np.ones((1, 1, 1, 64, 64), "u2"), chunks=(1, 1, 1, 32, 32))
    root.attrs["multiscales"] = [{"version": "0.1", "datasets": [{"path": "0"}]}]
    error = told("repack", path, tmp_path / "b.zarr", "--ome", "0.4", "--codec", "zstd", code=5)["error"]
    assert "has OME-Zarr 0.1" in error["message"] and not (tmp_path / "b.zarr").exists()
    # The way out that it names.
    tool("repack", path, tmp_path / "b.zarr", "--dialect", "zarr2", "--codec", "zstd")
    assert zarr.open_group(tmp_path / "b.zarr").attrs["multiscales"][0]["version"] == "0.1"


def test_a_fill_value_that_is_there_already_stays_in_place(tool, tmp_path):
    path = tmp_path / "a.zarr"
    fill = 2**53 + 1
    source = zarr.create_array(path, shape=(4, 8, 8), chunks=(2, 4, 4), dtype="i8", fill_value=fill, zarr_format=2)
    source[:2] = 5
    tool("repack", path, "--codec", "zstd")
    array = zarr.open_array(path, mode="r")
    assert array.fill_value == fill and array[3, 7, 7] == fill and array[0, 0, 0] == 5


def test_a_complex_fill_value_that_zarr_python_2_misreads_is_told(command, tmp_path):
    fill = complex(0, float("inf"))
    zarr.create_array(tmp_path / "a.zarr", shape=(4, 8, 8), chunks=(2, 4, 4), dtype="c16", fill_value=fill)[0] = 1
    words = [command, "repack", tmp_path / "a.zarr", tmp_path / "b.zarr", "--dialect", "zarr2"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert 'fill value [0.0,"Infinity"], which zarr-python 2 reads' in done.stderr


def volume(path, encoding="raw", **info):
    data = np.asfortranarray(np.random.default_rng(1).integers(0, 9, (70, 50, 20)), "u8")
    CloudVolume.from_numpy(
        data, vol_path=f"file://{path}", resolution=(4, 4, 30), chunk_size=(32, 32, 16), encoding=encoding,
        progress=False, compress=True, **info,
    )
    return path


def test_gzip_vouches_for_the_chunks_of_a_volume(told, tmp_path):
    path = volume(tmp_path / "v")
    found = told("verify", path)
    assert [array["without_checksum"] for array in found["arrays"]] == [0]
    chunk = sorted((path / "4_4_30").iterdir())[0]
    bytes = bytearray(chunk.read_bytes())
    bytes[-6] ^= 1
    chunk.write_bytes(bytes)
    assert told("verify", path, code=3)["damage"] == 1


def test_chunks_of_a_scale_that_is_not_read_belong_to_it(told, tmp_path):
    path = volume(tmp_path / "v", "compressed_segmentation", layer_type="segmentation")
    info = json.loads((path / "info").read_text())
    (path / "info").write_text(json.dumps(info | {"mesh": "mesh_mip_0"}))
    (path / "mesh_mip_0").mkdir()
    (path / "mesh_mip_0/info").write_text("{}")
    found = told("verify", path, code=5)
    assert [finding["severity"] for finding in found["findings"]] == ["unchecked"], found["findings"]
