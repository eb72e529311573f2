"""What can't be read, is not read here, or is no more as it was: named, counted as what it is, and nothing left."""

import json
import os
import shutil
import subprocess
import tempfile

import numpy as np
import pytest
import zarr
from cloudvolume import CloudVolume

pytestmark = pytest.mark.filterwarnings("ignore")
PIXELS = np.arange(64 * 64, dtype="u2").reshape(64, 64)
OFFSET = (5, -3, 7)


def volume(path, encoding="raw", compress=None, dtype="uint16"):
    kind = "segmentation" if encoding == "compressed_segmentation" else "image"
    info = CloudVolume.create_new_info(
        num_channels=1,
        layer_type=kind,
        data_type=dtype,
        encoding=encoding,
        resolution=[4, 4, 40],
        voxel_offset=OFFSET,
        chunk_size=[32, 32, 8],
        volume_size=[70, 50, 20],
    )
    volume = CloudVolume(f"file://{path}", info=info, compress=compress, progress=False)
    volume.commit_info()
    pixels = np.random.default_rng(1).integers(0, 9, (70, 50, 20, 1)).astype(dtype)
    volume[:, :, :] = pixels
    return pixels[..., 0].T


def test_compressed_files_of_a_volume_are_counted_as_they_are(tool, told, tmp_path):
    pixels = volume(tmp_path / "v", compress="gzip")
    stored = sum(file.stat().st_size for file in (tmp_path / "v/4_4_40").iterdir())
    (scale,) = told("info", tmp_path / "v")["arrays"]
    assert scale["bytes_files"] == scale["bytes_payload"] == stored < pixels.nbytes
    assert told("verify", tmp_path / "v")["arrays"][0]["bytes"] == stored
    assert "uncompressed; --codec" in tool("repack", tmp_path / "v", tmp_path / "o.zarr")
    assert "uncompressed" not in tool("repack", tmp_path / "v", tmp_path / "g.zarr", "--codec", "gzip")
    for made in ["o.zarr", "g.zarr"]:
        assert np.array_equal(zarr.open_group(tmp_path / made, mode="r")["0"][...], pixels)


@pytest.mark.parametrize(
    ("encoding", "dtype", "compress"),
    [("raw", "uint16", "br"), ("jpeg", "uint8", None), ("compressed_segmentation", "uint32", "gzip")],
)
def test_volumes_that_are_not_read_are_told_as_what_they_are(tool, told, tmp_path, encoding, dtype, compress):
    volume(tmp_path / "v", encoding, compress, dtype)
    text = tool("info", tmp_path / "v")
    assert "precomputed volume" in text and "Zarr" not in text
    found = told("info", tmp_path / "v")
    if encoding == "raw":
        (scale,) = found["arrays"]
        assert not scale["damaged"] and "Brotli, which is not read here" in scale["notes"][0]
        assert (scale["chunks_present"], scale["chunks_empty"]) == (0, 0)
    else:
        (scale,) = found["unreadable"]
        assert (scale["shape"], scale["dtype"]) == ([20, 50, 70], dtype) and encoding in scale["reason"]
    tool("verify", tmp_path / "v", code=5)
    tool("repack", tmp_path / "v", tmp_path / "o.zarr", code=5)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["v"]


@pytest.mark.parametrize("encoding, dtype", [("jpeg", "uint8"), ("compressed_segmentation", "uint32")])
def test_a_volume_that_is_not_read_is_written_again_by_the_advice(tool, tmp_path, encoding, dtype):
    volume(tmp_path / "v", encoding, None, dtype)
    advice = tool("repack", tmp_path / "v", tmp_path / "o.zarr", code=5)
    assert "--skip" not in advice and "no other array to repack" in advice and "CloudVolume can write" in advice
    old = CloudVolume(f"file://{tmp_path / 'v'}", progress=False)
    info = {**old.info, "scales": [{**old.info["scales"][0], "encoding": "raw"}]}
    raw = CloudVolume(f"file://{tmp_path / 'raw'}", info=info, progress=False)
    raw.commit_info()
    raw[...] = old[...]
    tool("repack", tmp_path / "raw", tmp_path / "o.zarr")
    assert np.array_equal(zarr.open_group(tmp_path / "o.zarr", mode="r")["0"][...], np.asarray(old[...])[..., 0].T)


@pytest.mark.parametrize("compress", [None, "gzip"])
def test_a_volume_of_loose_chunks_gets_shards_and_is_told_so(tool, told, tmp_path, compress):
    path = tmp_path / "v"
    pixels = volume(path, compress=compress)
    advice = tool("repack", path, code=2)
    assert "--codec does, and makes shards of them" in advice and "--unsharded" not in advice
    # In Zarr they stay files. A volume is not written so, in place or not.
    assert "each chunk stays a file" in tool("repack", path, tmp_path / "files.zarr")
    assert np.array_equal(zarr.open_group(tmp_path / "files.zarr", mode="r")["0"][...], pixels)
    for out, more in [(tmp_path / "o", [tmp_path / "o", "--dialect", "precomputed"]), (path, [])]:
        notes = told("repack", path, *more, "--codec", "gzip")["notes"]
        assert any('"4_4_40" has a file for each chunk, and the result has shards' in note for note in notes), notes
        assert sorted({file.suffix for file in (out / "4_4_40").iterdir() if file.name[0] != "."}) == [".shard"]
        assert np.array_equal(np.asarray(CloudVolume(f"file://{out}", progress=False)[...])[..., 0].T, pixels)
    assert "nothing to rewrite" in tool("repack", path)
    # Of shards that were there already, nothing is said.
    assert told("repack", path, tmp_path / "same", "--dialect", "precomputed")["notes"] == []


def group(path, **more):
    root = zarr.open_group(path, mode="w", zarr_format=3)
    for name in "ab":
        root.create_array(name, data=PIXELS, chunks=(16, 16), **more)
    return path


@pytest.mark.parametrize("what", ["a/c/1/1", "a/c/1", "a/zarr.json", "a"])
def test_one_thing_that_nobody_may_read_does_not_end_a_check(command, tmp_path, what):
    """As another user, where this one may do anything."""
    if shutil.which("setpriv") is None and os.geteuid() == 0:
        pytest.skip("not run: root may do anything, and there is no setpriv")
    for folder in [tmp_path, *tmp_path.parents]:
        if folder.is_relative_to(tempfile.gettempdir()) and folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o055)
    path = group(tmp_path / "g.zarr")
    copy = shutil.copy(command, tmp_path / "shardwright")
    copy.chmod(0o755)
    (path / "b/c/2/2").write_bytes(b"no chunk")
    (path / what).chmod(0)
    lead = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    done = subprocess.run([*lead, str(copy), "verify", str(path)], capture_output=True, text=True)
    (path / what).chmod(0o755)
    assert done.returncode == 3, done.stderr
    assert what in done.stdout and "Permission denied" in done.stdout, done.stdout
    assert "b/c/2/2" in done.stdout


def test_links_out_of_a_dataset_do_not_hide_the_rest(tool, told, tmp_path):
    path = group(tmp_path / "g.zarr")
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(path / "a", elsewhere)
    for link, end in [("a/c/1/1", "c/1/1"), ("away", ""), ("a/c/2", "c/2")]:
        shutil.rmtree(path / link) if (path / link).is_dir() else (path / link).unlink(missing_ok=True)
        (path / link).symlink_to(elsewhere / end)
    found = told("info", path)
    assert [array["path"] for array in found["arrays"]] == ["a", "b"]
    assert "--follow-links" in json.dumps(found["arrays"][0]) and "--follow-links" in json.dumps(found["unreadable"])
    assert found["arrays"][1]["chunks_present"] == 16
    tool("verify", path, code=5)


def test_an_index_that_can_t_be_read_is_not_taken_for_chunks_that_are_not_there(told, tmp_path):
    path = group(tmp_path / "g.zarr", shards=(32, 32))
    shard = path / "a/c/0/1"
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    found = told("verify", path, code=3)
    assert not [finding for finding in found["findings"] if "fill value" in finding["what"]]
    assert [array["absent"] for array in found["arrays"]] == [0, 0]


def test_an_unsharded_array_is_told_which_options_are_about_it(tool, tmp_path):
    path = group(tmp_path / "g.zarr")
    assert "--unsharded" in tool("repack", path, code=2)
    for out in ["o.zarr", "o.ozx"]:
        assert "--shard with lengths above 0 puts them into shards" in tool("repack", path, tmp_path / out)
    zarr.open_group(tmp_path / "empty.zarr", mode="w", zarr_format=3)
    assert "holds no array" in tool("repack", tmp_path / "empty.zarr", tmp_path / "p.zarr", code=3)


def test_dimensions_without_names_are_told_where_they_get_a_meaning(tool, tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=PIXELS.reshape(4, 16, 64), chunks=(1, 16, 64))
    told = tool("export", tmp_path / "a.zarr", tmp_path / "o.ome.tif")
    assert "no names" in told and "t, y, x" in told
    assert "no names" not in tool("export", tmp_path / "a.zarr", tmp_path / "o.npy")
    assert "first of three is t" in " ".join(tool("export", "--help").split())


def test_levels_that_go_are_told(tool, told, tmp_path):
    np.save(tmp_path / "m.npy", np.zeros((2, 512, 512), "u1"))
    tool("replay", tmp_path / "m.npy", tmp_path / "m.zarr", "--no-sync", "--memory", "64MiB")
    assert "note" not in tool("pyramid", tmp_path / "m.zarr", "--levels", "3")
    notes = told("pyramid", tmp_path / "m.zarr", "--levels", "1", "--overwrite")["notes"]
    assert notes == ['the levels "2", "3" are removed: the image gets fewer than it has']
    assert not (tmp_path / "m.zarr/2").exists()


def test_raw_bytes_that_are_called_otherwise_are_told(tool, tmp_path):
    array = zarr.open_array(tmp_path / "a.zarr", mode="w", shape=(8, 8), chunks=(4, 4), dtype="V3", zarr_format=2)
    array[:] = np.frombuffer(bytes(range(192)), "V3").reshape(8, 8)
    assert "|V3 in Zarr v2 is r24 in v3" in tool("repack", tmp_path / "a.zarr", tmp_path / "o.zarr", "--unsharded")


@pytest.mark.parametrize("consolidated", [False, True])
def test_raw_bytes_in_consolidated_metadata_are_told(told, tmp_path, consolidated):
    root = zarr.open_group(tmp_path / "g.zarr", mode="w", zarr_format=2)
    root.create_array("raw", shape=(8, 8), chunks=(4, 4), dtype="V3")
    root.create_array("0", data=PIXELS[:8, :8], chunks=(4, 4))
    if consolidated:
        zarr.consolidate_metadata(tmp_path / "g.zarr")
    notes = told("repack", tmp_path / "g.zarr", tmp_path / "o.zarr", "--dialect", "zarr3")["notes"]
    (note,) = [note for note in notes if "raw bytes" in note]
    assert ("a group whose consolidated metadata name it" in note) == consolidated
    # It is as the note says.
    with pytest.raises(ValueError, match="r24"):
        zarr.open_array(tmp_path / "o.zarr/raw", mode="r")
    if consolidated:
        with pytest.raises(ValueError, match="r24"):
            zarr.open_group(tmp_path / "o.zarr", mode="r")
    group = zarr.open_group(tmp_path / "o.zarr", mode="r", use_consolidated=False)
    assert np.array_equal(group["0"][...], PIXELS[:8, :8])


@pytest.mark.parametrize(
    ("dtype", "instead"),
    [("bfloat16", "float32"), ("float8_e4m3fn", "float32"), ("int4", "int8"), ("uint2", "uint8"), ("string", "zarr")],
)
def test_types_that_are_not_read_come_with_what_can_be_done(tool, tmp_path, dtype, instead):
    path = group(tmp_path / "g.zarr")
    document = json.loads((path / "a/zarr.json").read_text())
    (path / "a/zarr.json").write_text(json.dumps({**document, "data_type": dtype}))
    told = tool("verify", path, code=5)
    assert f"{instead} holds all" in told if instead != "zarr" else "zarr-python can write" in told, told


def test_refusals_name_the_option_and_what_it_is_about(tool, tmp_path):
    path = group(tmp_path / "g.zarr", shards=(32, 32))
    volume = ["--dialect", "precomputed"]
    assert "--codec" in tool("repack", path, tmp_path / "v", *volume, "--only", "a", "--skip", "b", code=2)
    refused = tool("repack", path, tmp_path / "v", *volume, "--unsharded", code=2)
    assert "--unsharded:" in refused and "unsharded unsharded" not in refused
    assert "is a file" in tool("pyramid", path / "zarr.json", code=3)
