"""What other writers make of groups, volumes, links and documents: taken along by the tools, or refused in words."""

import json
import os
import shutil
import subprocess
import time

import numcodecs
import numpy as np
import pytest
import zarr
from arrays import pixels
from cloudvolume import CloudVolume

SHARDS = ["--chunk", "1,8,8", "--shard", "7,64,64"]
BIG = 2**70 + 1
ATTRIBUTES = {
    "zz": 1,
    "aa": BIG,
    "low": -(2**65),
    "nan": float("nan"),
    "inf": float("inf"),
    "f": 0.1,
    "deep": {"b": 1, "a": [1.0, 2]},
}


def group(path, zarr_format, names=("a", "img/0", "img/1")):
    """A group with arrays in it, consolidated; returns the pixels by name."""
    root = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    found = {name: pixels(seed) for seed, name in enumerate(names)}
    for name, data in found.items():
        shards = (4, 32, 32) if zarr_format == 3 else None
        root.create_array(name, data=data, chunks=(2, 16, 16), shards=shards)
    root["img"].attrs["k"] = 1
    zarr.consolidate_metadata(path)
    return found


def assert_holds(path, found, consolidated=(True, False)):
    for use in consolidated:
        root = zarr.open_group(path, mode="r", use_consolidated=use)
        for name, data in found.items():
            assert np.array_equal(root[name][...], data), (use, name)
        assert dict(root["img"].attrs)["k"] == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", ["", "img", "img/0"])
def test_consolidated_metadata_follows_wherever_the_change_begins(tool, tmp_path, part):
    found = group(tmp_path / "g.zarr", 3)
    tool("repack", tmp_path / "g.zarr" / part, *SHARDS)
    assert_holds(tmp_path / "g.zarr", found)
    changed = zarr.open_group(tmp_path / "g.zarr", mode="r", use_consolidated=True)["img/0"]
    assert changed.chunks == (1, 8, 8)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.filterwarnings("ignore")
def test_a_copy_has_consolidated_metadata_of_its_own(tool, tmp_path):
    found = group(tmp_path / "g.zarr", 3)
    tool("repack", tmp_path / "g.zarr", tmp_path / "o.zarr", *SHARDS)
    assert_holds(tmp_path / "o.zarr", found)


@pytest.mark.filterwarnings("ignore")
def test_a_killed_change_leaves_no_stale_consolidated_metadata(command, tool, tmp_path):
    found = group(tmp_path / "g.zarr", 3)
    for delay in [0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05]:
        place = tmp_path / f"g{delay}.zarr"
        shutil.copytree(tmp_path / "g.zarr", place)
        process = subprocess.Popen([command, "repack", place, *SHARDS, "-q"])
        time.sleep(delay)
        process.kill()
        process.wait()
        # By default, a reader takes what is consolidated, if there is something.
        root = zarr.open_group(place, mode="r")
        assert all(np.array_equal(root[name][...], data) for name, data in found.items()), delay
        tool("repack", place, *SHARDS)
        assert_holds(place, found)


@pytest.mark.filterwarnings("ignore")
def test_no_array_stays_behind_in_a_group_that_becomes_another_format(tool, tmp_path):
    found = group(tmp_path / "g.zarr", 2)
    root = zarr.open_group(tmp_path / "g.zarr", mode="r+")
    for name, data in {"one": np.arange(10), "scalar": np.array(5)}.items():
        root.create_array(name, data=data)
        found[name] = data
    zarr.consolidate_metadata(tmp_path / "g.zarr")
    tool("repack", tmp_path / "g.zarr", tmp_path / "o.zarr", "--shard", "4,32,32")
    assert_holds(tmp_path / "o.zarr", found, consolidated=[False])
    assert not list((tmp_path / "o.zarr").rglob(".z*"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", ["", "img"])
def test_consolidated_metadata_of_zarr_v2_become_those_of_v3(tool, tmp_path, part):
    group(tmp_path / "g.zarr", 2)
    if part:
        zarr.consolidate_metadata(tmp_path / "g.zarr" / part)
    out = tmp_path / "o.zarr"
    tool("repack", tmp_path / "g.zarr" / part, out, "--shard", "4,32,32")
    found = zarr.open_group(out, mode="r", use_consolidated=True)
    plain = zarr.open_group(out, mode="r", use_consolidated=False)
    names = lambda root: sorted((name, node.metadata.to_dict()["attributes"]) for name, node in root.members(None))
    assert names(found) == names(plain) and len(names(found)) > 1
    for name, node in plain.members(None):
        if isinstance(node, zarr.Array):
            assert found[name].metadata == node.metadata and np.array_equal(found[name][...], node[...])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("codec", ["zlib", "lz4"])
def test_codecs_that_zarr_v3_has_no_word_for_are_told(tool, tmp_path, codec):
    path = tmp_path / "a.zarr"
    compressor = {"zlib": numcodecs.Zlib(), "lz4": numcodecs.LZ4()}[codec]
    zarr.create_array(path, data=pixels(), chunks=(2, 16, 16), compressors=compressor, zarr_format=2)
    note = f"has the codec numcodecs.{codec}"
    said = tool("repack", path, tmp_path / "kept.zarr", "--shard", "4,32,32")
    assert note in said and "--codec gives it another" in said
    assert note not in tool("repack", path, tmp_path / "zstd.zarr", "--shard", "4,32,32", "--codec", "zstd")
    # What has it already is no news.
    assert note not in tool("repack", tmp_path / "kept.zarr", tmp_path / "again.zarr", "--shard", "8,64,64")


def volume(path, compress, **more):
    info = CloudVolume.create_new_info(
        num_channels=1, layer_type="segmentation", data_type="uint16", encoding="raw", resolution=[4, 4, 40],
        voxel_offset=[10, 20, 30], volume_size=[100, 90, 20], chunk_size=[64, 64, 16],
    )  # fmt: skip
    info.update(more)
    written = CloudVolume(f"file://{path}", info=info, compress=compress, progress=False)
    written.commit_info()
    data = pixels(1, (100, 90, 20, 1))
    written[:, :, :] = data
    return data


def exported(tool, dataset, out):
    tool("export", dataset, out, "-q")
    return np.load(out)


@pytest.mark.parametrize("compress", [False, "gzip"])
def test_volumes_keep_what_their_document_says(tool, tmp_path, compress):
    data = volume(tmp_path / "cv", compress, mesh="mesh_dir", mine={"a": 1})
    assert np.array_equal(exported(tool, tmp_path / "cv", tmp_path / "cv.npy"), data[..., 0].T)
    (tmp_path / "cv/provenance").write_text('{"owners": []}')
    assert "note" not in tool("verify", tmp_path / "cv")
    tool("repack", tmp_path / "cv", tmp_path / "zarr", "--shard", "16,64,64")
    root = zarr.open_group(tmp_path / "zarr", mode="r")
    assert np.array_equal(root["0"][:], data[..., 0].T)
    level = root.attrs["ome"]["multiscales"][0]["datasets"][0]["coordinateTransformations"]
    assert level[0]["scale"] == [40, 4, 4] and level[1]["translation"] == [30.5 * 40, 20.5 * 4, 10.5 * 4]
    tool("repack", tmp_path / "cv", tmp_path / "pre", "--dialect", "precomputed", "--shard", "16,64,64")
    tool("repack", tmp_path / "zarr", tmp_path / "back", "--dialect", "precomputed", "--codec", "none")
    for path in [tmp_path / "pre", tmp_path / "back"]:
        again = CloudVolume(f"file://{path}", progress=False)
        assert np.array_equal(again[:, :, :], data)
        assert again.info["type"] == "segmentation" and again.info["mesh"] == "mesh_dir"
        assert again.info["mine"] == {"a": 1} and list(again.voxel_offset) == [10, 20, 30]


def test_a_scale_that_is_repacked_alone_keeps_what_its_volume_says(tool, tmp_path):
    data = volume(tmp_path / "cv", False, mesh="mesh_dir", mine={"a": 1})
    scale = tmp_path / "cv/4_4_40"
    tool("repack", scale, tmp_path / "zarr", "--shard", "16,64,64")
    root = zarr.open_group(tmp_path / "zarr", mode="r")
    assert np.array_equal(root["0"][:], data[..., 0].T)
    level = root.attrs["ome"]["multiscales"][0]["datasets"][0]["coordinateTransformations"]
    assert level[0]["scale"] == [40, 4, 4] and level[1]["translation"] == [30.5 * 40, 20.5 * 4, 10.5 * 4]
    assert root.attrs["neuroglancer"]["type"] == "segmentation"
    tool("repack", scale, tmp_path / "pre", "--dialect", "precomputed", "--codec", "gzip")
    again = CloudVolume(f"file://{tmp_path / 'pre'}", progress=False)
    assert np.array_equal(again[:, :, :], data)
    assert again.info["type"] == "segmentation" and again.info["mesh"] == "mesh_dir" and again.info["mine"] == {"a": 1}
    # In place, too, the volume is what changes.
    tool("repack", tmp_path / "pre/4_4_40", "--dialect", "precomputed", "--codec", "none")
    again = CloudVolume(f"file://{tmp_path / 'pre'}", progress=False)
    assert np.array_equal(again[:, :, :], data)
    assert again.info["type"] == "segmentation" and again.info["mine"] == {"a": 1}
    assert "no array or group" in tool("repack", scale, tmp_path / "b", "--only", "0", code=3)


def test_chunks_that_are_packed_otherwise_are_told(tool, tmp_path):
    volume(tmp_path / "cv", "br")
    assert "Brotli" in tool("export", tmp_path / "cv", tmp_path / "cv.npy", code=5)
    assert "Brotli" in tool("repack", tmp_path / "cv", tmp_path / "zarr", "--shard", "16,64,64", code=5)
    told = tool("verify", tmp_path / "cv", code=5)
    assert "not checked: 8 findings" in told and "not there" not in told
    assert json.loads(tool("verify", tmp_path / "cv", "--json", code=5))["arrays"][0]["unchecked"] == 8
    assert not (tmp_path / "cv.npy").exists() and not (tmp_path / "zarr").exists()


def test_files_among_chunks_that_are_none_are_told(tool, tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=pixels(), chunks=(2, 16, 16))
    (tmp_path / "a.zarr/c/0/0/0").rename(tmp_path / "a.zarr/c/0/0/0.old")
    assert "c/0/0/0.old lies where chunks do" in tool("export", tmp_path / "a.zarr", tmp_path / "a.npy")


def test_links_to_shards_become_shards_and_what_they_lead_to_stays(tool, tmp_path):
    data, store = pixels(), tmp_path / "annex"
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=data, chunks=(2, 16, 16), shards=(4, 32, 32))
    store.mkdir()
    for file in [file for file in (path / "c").rglob("*") if file.is_file()]:
        target = store / str(file.relative_to(path)).replace("/", "_")
        shutil.move(file, target)
        file.symlink_to(target)
    before = {file.name: file.read_bytes() for file in store.iterdir()}
    for out, options in [("copy.zarr", ["--codec", "gzip"]), ("cut.zarr", SHARDS), ("same.zarr", [])]:
        tool("repack", path, tmp_path / out, "--follow-links", *options)
        assert np.array_equal(zarr.open_array(tmp_path / out, mode="r")[:], data)
    tool("repack", path, "--codec", "gzip", "--follow-links")
    assert np.array_equal(zarr.open_array(path, mode="r")[:], data)
    assert before == {file.name: file.read_bytes() for file in store.iterdir()}


def test_attributes_come_out_as_they_went_in(tool, tmp_path):
    root = zarr.open_group(tmp_path / "a.zarr", mode="w")
    data = pixels()
    root.create_array("0", data=data, chunks=(2, 16, 16), shards=(4, 32, 32)).attrs.update(ATTRIBUTES)
    root.attrs.update(ATTRIBUTES)
    files = [tmp_path / "a.zarr/0/zarr.json", tmp_path / "a.zarr/0/c/0/0/0"]
    for file in files:
        os.chmod(file, 0o640)
    tool("repack", tmp_path / "a.zarr", tmp_path / "o.zarr", *SHARDS)
    again = zarr.open_group(tmp_path / "o.zarr", mode="r")
    assert np.array_equal(again["0"][:], data)
    for attributes in [dict(again.attrs), dict(again["0"].attrs)]:
        assert json.dumps(attributes) == json.dumps(ATTRIBUTES)
    assert [(tmp_path / "o.zarr/0" / name).stat().st_mode & 0o777 for name in ["zarr.json", "c/0/0/0"]] == [0o640] * 2
    tool("repack", tmp_path / "a.zarr", "--codec", "gzip")
    assert [file.stat().st_mode & 0o777 for file in files] == [0o640] * 2


def test_consolidated_metadata_of_zarr2_come_back_with_the_mode_of_the_group(tool, tmp_path):
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    root.create_array("0", data=pixels(), chunks=(2, 16, 16))
    zarr.consolidate_metadata(tmp_path / "a.zarr")
    for name in [".zgroup", ".zmetadata"]:
        os.chmod(tmp_path / "a.zarr" / name, 0o640)
    tool("repack", tmp_path / "a.zarr", "--dialect", "zarr2", "--codec", "gzip", "--unsharded")
    assert (tmp_path / "a.zarr/.zmetadata").stat().st_mode & 0o7777 == 0o640


def test_an_export_of_what_is_not_there_yet_says_so(command, tool, tmp_path):
    run = [command, "replay", "synthetic", tmp_path / "a.zarr", "--camera", "64x64xu16@20", "--frames", "200", "-q"]
    process = subprocess.Popen(run)
    # The group's document is the last one.
    while not (tmp_path / "a.zarr/zarr.json").exists():
        time.sleep(0.01)
    assert "a writer is at work" in tool("export", tmp_path / "a.zarr", tmp_path / "1.npy")
    process.kill()
    process.wait()
    assert "did not finish" in tool("export", tmp_path / "a.zarr", tmp_path / "2.npy")


def test_manifests_stay_out_of_datasets(tool, tmp_path):
    group(tmp_path / "g.zarr", 3)
    before = sorted(tmp_path.rglob("*"))
    assert "lies in the dataset" in tool("manifest", tmp_path / "g.zarr/img/0", tmp_path / "g.zarr/m", code=2)
    assert sorted(tmp_path.rglob("*")) == before
    # Without a path of its own, a part's manifest stands beside the dataset.
    tool("manifest", tmp_path / "g.zarr/img/0")
    assert sorted((tmp_path / "g.zarr").rglob("*")) == before[1:]
    assert [path.name for path in tmp_path.iterdir() if path.name != "g.zarr"] == ["g.zarr.img.0.manifest.zarr"]


def test_what_is_not_read_is_no_damage(tool, tmp_path):
    zarr.create_array(tmp_path / "a.zarr", shape=(4, 8, 8), dtype="<U3", chunks=(2, 8, 8))[:] = "abc"
    assert "unchecked" in tool("verify", tmp_path / "a.zarr", code=5)
    plain = zarr.create_array(tmp_path / "b.zarr", data=pixels(), chunks=(2, 16, 16), compressors=None)
    assert "have no checksum" in tool("verify", plain.store.root)


# Arrays that are made smaller leave files behind.


def shrink(path, shape):
    """Makes an array smaller in its document alone, as some programs do."""
    file = path / "zarr.json"
    document = json.loads(file.read_text())
    before, document["shape"] = document["shape"], shape
    file.write_text(json.dumps(document))
    return before


BEYOND = {
    "encoded again": (["--codec", "gzip"], (4, 32, 32)),
    "with another index": (["--index", "start"], (4, 32, 32)),
    "as it is": ([], (4, 32, 32)),
    "chunks that are files": (["--unsharded", "--codec", "gzip"], None),
}


@pytest.mark.parametrize("case", BEYOND)
@pytest.mark.parametrize("in_place", [False, True])
def test_files_beyond_the_shape_are_never_of_another_codec(tool, tmp_path, case, in_place):
    options, shards = BEYOND[case]
    data = pixels(shape=(12, 40, 50))
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=data, chunks=(2, 16, 16), shards=shards)
    # The first half of the second row of shards, and so half of what stands in these.
    shrink(path, [6, 40, 50])
    out = path if in_place else tmp_path / "o.zarr"
    said = tool("repack", path, *([] if in_place else [out]), *options)
    beyond = 4 if shards else 36
    assert (f"{beyond} files beyond the array's shape are left out" in said) == bool(options), said
    assert np.array_equal(zarr.open_array(out, mode="r")[:], data[:6])
    shrink(out, [12, 40, 50])
    again = zarr.open_array(out, mode="r")[:]
    assert np.array_equal(again[:6], data[:6])
    # What is there is what was there, or nothing.
    assert ((again == data) | (again == 0)).all()
    tool("verify", out)


# One rule for names, and for links.


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_arrays_with_a_dot_before_their_names_are_arrays(tool, tmp_path, zarr_format):
    path = tmp_path / "g.zarr"
    found = group(path, zarr_format, names=("a", ".x", "img/.y", ".g/0"))
    for reserved in [".a.repack", ".img.pyramid", ".a.replaced", ".g.partial"]:
        shutil.copytree(path / "a", path / reserved)
    names = lambda told: sorted(array["path"] for array in json.loads(told)["arrays"])
    assert names(tool("info", path, "--json")) == sorted(found)
    assert names(tool("verify", path, "--json")) == sorted(found)
    tool("manifest", path)
    assert names(tool("info", tmp_path / "g.manifest.zarr", "--json")) == sorted(found)
    tool("repack", path, tmp_path / "o.zarr", "--shard", "4,32,32")
    assert names(tool("info", tmp_path / "o.zarr", "--json")) == sorted(found)
    assert_holds(tmp_path / "o.zarr", found, consolidated=[False])


@pytest.mark.parametrize("target", ["absolute", "relative"])
@pytest.mark.parametrize("name", ["alias", "zz"])
def test_links_to_arrays_of_the_dataset_stay_links_within_the_copy(tool, tmp_path, target, name):
    path, data = tmp_path / "g.zarr", pixels()
    root = zarr.open_group(path, mode="w")
    root.create_array("img/m", data=data, chunks=(2, 16, 16), shards=(4, 32, 32))
    (path / name).symlink_to(path / "img/m" if target == "absolute" else "img/m")
    (path / "img" / name).symlink_to(path / "img/m" if target == "absolute" else "m")
    tool("repack", path, tmp_path / "o.zarr", "--codec", "gzip")
    shutil.move(path, tmp_path / "gone")
    for place in ["img/m", name, f"img/{name}"]:
        assert np.array_equal(zarr.open_array(tmp_path / "o.zarr" / place, mode="r")[:], data), place
    assert (tmp_path / "o.zarr" / name).is_symlink()
    assert (tmp_path / "o.zarr" / name).resolve() == tmp_path / "o.zarr/img/m"


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_links_to_arrays_elsewhere_become_arrays_or_are_refused(tool, tmp_path, zarr_format):
    path, data = tmp_path / "g.zarr", pixels()
    root = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    root.create_array("a", data=data, chunks=(2, 16, 16))
    other = zarr.open_group(tmp_path / "other.zarr", mode="w", zarr_format=zarr_format)
    other.create_array("deep/b", data=data[::-1], chunks=(2, 16, 16)).attrs["k"] = 1
    (path / "b").symlink_to(tmp_path / "other.zarr/deep/b")
    (path / "deep").symlink_to(tmp_path / "other.zarr/deep")
    said = tool("repack", path, tmp_path / "o.zarr", "--shard", "4,32,32", code=5)
    assert "g.zarr/b" in said and "--follow-links" in said
    before = {file: file.read_bytes() for file in (tmp_path / "other.zarr").rglob("*") if file.is_file()}
    tool("repack", path, tmp_path / "o.zarr", "--shard", "4,32,32", "--follow-links")
    assert before == {file: file.read_bytes() for file in (tmp_path / "other.zarr").rglob("*") if file.is_file()}
    again = zarr.open_group(tmp_path / "o.zarr", mode="r", use_consolidated=False)
    assert np.array_equal(again["a"][:], data) and np.array_equal(again["b"][:], data[::-1])
    assert dict(again["b"].attrs) == {"k": 1} and not (tmp_path / "o.zarr/b").is_symlink()
    assert again["b"].shards == (4, 32, 32)


# Manifests become what they name.


def test_what_is_made_of_a_manifest_needs_no_other_files(tool, command, tmp_path):
    data = pixels(shape=(12, 40, 50))
    np.save(tmp_path / "a.npy", data)
    tool("replay", tmp_path / "a.npy", tmp_path / "q.zarr", "--no-sync", "--chunk", "2,16,16", "--shard", "4,32,32")
    tool("manifest", tmp_path / "q.zarr")
    source, out = tmp_path / "q.manifest.zarr", tmp_path / "arch"
    numbers = zarr.open_array(tmp_path / "q.zarr/records/frame_number", mode="r")[:]
    said = tool("repack", source, out, "--shard", "4,32,32")
    assert "manifest" not in said
    said = tool("repack", source, tmp_path / "some", "--shard", "4,32,32", "--skip", "records/host_timestamp")
    assert '"records/host_timestamp" stays a manifest' in said
    said = tool("repack", source, tmp_path / "v2", "--dialect", "zarr2")
    assert '"records/frame_number" stays a manifest' in said
    shutil.move(tmp_path / "q.zarr", tmp_path / "gone")
    assert not list(out.rglob("kerchunk.json")) and not list(out.rglob("manifest.json"))
    assert "storage_transformers" not in "".join(file.read_text() for file in out.rglob("zarr.json"))
    root = zarr.open_group(out, mode="r")
    assert np.array_equal(root["0"][:], data) and np.array_equal(root["records/frame_number"][:], numbers)
    tool("verify", out)


# What OME-Zarr says of an image comes along.


@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("names", ["zyx", "cyx", "tczyx"])
@pytest.mark.parametrize("level", ["", "0", "1"])
def test_a_replay_takes_axes_scales_and_channels_from_ome_zarr(replay, tmp_path, version, names, level):
    kinds = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}
    units = {"t": "second", "z": "micrometer", "y": "micrometer", "x": "nanometer"}
    scales = {"t": 0.5, "c": 1.0, "z": 2.5, "y": 0.325, "x": 325.0}
    axes = [{"name": name, "type": kinds[name]} | ({"unit": units[name]} if name in units else {}) for name in names]
    scaled = lambda by: [{"type": "scale", "scale": [scales[name] * (by if name in "yx" else 1) for name in names]}]
    datasets = [{"path": str(at), "coordinateTransformations": scaled(by)} for at, by in enumerate([1, 2])]
    of_all = [{"type": "scale", "scale": [2.0 if name == "t" else 1.0 for name in names]}]
    said = {
        "multiscales": [{"axes": axes, "datasets": datasets, "coordinateTransformations": of_all}],
        "omero": {"channels": [{"label": "DAPI"}, {"label": "GFP"}, {"label": "Cy5"}]},
    }
    root = zarr.open_group(tmp_path / "i.zarr", mode="w", zarr_format=2 if version == "0.4" else 3)
    root.attrs.update(said if version == "0.4" else {"ome": {"version": "0.5", **said}})
    shape = [3 if name == "c" else 4 if name in "tz" else 32 for name in names]
    root.create_array("0", data=pixels(shape=shape), chunks=[1] * (len(names) - 2) + [16, 16])
    root.create_array("1", data=pixels(shape=shape), chunks=[1] * (len(names) - 2) + [16, 16])
    path = tmp_path / "i.zarr" / level
    _, out = replay(path)
    ome = json.loads((out / "zarr.json").read_text())["attributes"]["ome"]
    (image,) = ome["multiscales"]
    assert image["axes"] == axes
    by = 2 if level == "1" else 1
    expected = [scales[name] * (by if name in "yx" else 2 if name == "t" else 1) for name in names]
    assert image["datasets"][0]["coordinateTransformations"][0]["scale"] == expected
    labels = [channel["label"] for channel in ome["omero"]["channels"]] if "omero" in ome else []
    assert labels == (["DAPI", "GFP", "Cy5"] if "c" in names else [])
    # What the command line says counts more.
    _, out = replay(path, "--pixel-size", "65nm")
    (image,) = json.loads((out / "zarr.json").read_text())["attributes"]["ome"]["multiscales"]
    assert image["datasets"][0]["coordinateTransformations"][0]["scale"] == [*expected[:-2], 65, 65]
    assert [axis.get("unit") for axis in image["axes"][-2:]] == ["nanometer"] * 2


def test_a_replay_takes_the_place_of_an_image_along(replay, tmp_path):
    root = zarr.open_group(tmp_path / "i.zarr", mode="w")
    axes = [{"name": name, "type": "space"} for name in "zyx"]
    moved = [{"type": "scale", "scale": [1, 1, 1]}, {"type": "translation", "translation": [0, 7.5, 0]}]
    datasets = [{"path": "./0", "coordinateTransformations": moved}]
    root.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
    root.create_array("0", data=pixels(), chunks=(1, 16, 16))
    _, out = replay(tmp_path / "i.zarr/0")
    (image,) = json.loads((out / "zarr.json").read_text())["attributes"]["ome"]["multiscales"]
    assert image["datasets"][0]["coordinateTransformations"] == [
        {"type": "scale", "scale": [1, 1, 1]},
        {"type": "translation", "translation": [0, 7.5, 0]},
    ]
    report, volume = replay(tmp_path / "i.zarr/0", "--dialect", "precomputed")
    assert report["notes"] == []
    (scale,) = json.loads((volume / "info").read_text())["scales"]
    assert scale["voxel_offset"] == [0, 7, 0]


@pytest.mark.parametrize("words", [["repack"], ["repack", "--codec", "gzip"], ["export"], ["manifest"], ["replay"]])
def test_nothing_takes_the_place_of_a_link_to_what_is_away(tool, tmp_path, words):
    """A disk that is not there now: what is written beside it would be looked for on it."""
    zarr.create_array(tmp_path / "a.zarr", data=pixels(), chunks=(2, 16, 16), shards=(4, 32, 32))
    link = tmp_path / ("b.npy" if words == ["export"] else "b.zarr")
    link.symlink_to(tmp_path / "away" / link.name)
    for out in [link, link / "in.npy"]:
        assert "leads nowhere" in tool(words[0], tmp_path / "a.zarr", out, *words[1:], code=1)
    assert link.is_symlink()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.zarr", link.name]


def test_a_dataset_with_numbers_beyond_json_is_one_that_may_be_replaced(tool, tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", attributes={"nan": float("nan")})
    group.create_array("x", data=pixels(), chunks=(2, 16, 16))
    camera = ["--camera", "16x16xu16", "--frames", "3", "-q"]
    assert "already exists" in tool("replay", "synthetic", tmp_path / "a.zarr", *camera, code=1)
    tool("replay", "synthetic", tmp_path / "a.zarr", "--overwrite", *camera)
    assert (tmp_path / "a.zarr/records").exists()
