"""Recordings through `shardwright replay`, and what readers find in the result."""

import json
import subprocess

import numpy as np
import pytest
import tifffile
import zarr
from readers import assert_reads, assert_same, open_tensorstore, open_zarr_python
from recordings import movie as pixels

BLOSC = ["blosc-lz4", "blosc-noise", "blosc-lz4hc", "blosc-zstd", "blosc-zlib", "blosc-blosclz"]
CODECS = ["none", "auto", *BLOSC, "zstd", "gzip", "lz4"]


def assert_dataset(path, expected, portable=True):
    if portable:
        assert_reads(open_tensorstore(path / "0"), expected, path.name)
    assert_reads(open_zarr_python(path / "0"), expected, path.name)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("placement", ["fixed", "packed"])
def test_every_codec(replay, tmp_path, movie, codec, placement):
    tifffile.imwrite(tmp_path / "in.tif", movie, photometric="minisblack")
    layout = ["--chunk", "2,16,32", "--shard", "4,48,64", "--placement", placement]
    report, out = replay(tmp_path / "in.tif", "--codec", codec, *layout)
    assert report["frames_written"] == len(movie)
    assert report["shape"] == list(movie.shape)
    assert report["bytes_in"] == movie.nbytes
    assert_dataset(out, movie, portable=codec != "lz4")


COMPRESSIONS = {
    "raw": {},
    "zlib": {"compression": "zlib"},
    "zlib-predictor": {"compression": "zlib", "predictor": True},
    "lzw": {"compression": "lzw"},
    "lzw-predictor": {"compression": "lzw", "predictor": True},
    "zstd": {"compression": "zstd"},
    "tiles": {"tile": (32, 48)},
    "tiles-zlib": {"tile": (32, 48), "compression": "zlib", "predictor": True},
    "strips": {"rowsperstrip": 7, "compression": "zlib"},
    "bigtiff": {"bigtiff": True},
    "big-endian": {"byteorder": ">"},
}


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_tiff_stacks(replay, tmp_path, dtype, compression):
    movie = pixels(dtype, (5, 50, 70))
    tifffile.imwrite(tmp_path / "in.tif", movie, photometric="minisblack", **COMPRESSIONS[compression])
    report, out = replay(tmp_path / "in.tif")
    assert report["frames_missing"] == 0
    assert_dataset(out, movie)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint32, np.int32, np.float64])
def test_more_types_of_tiff(replay, tmp_path, dtype):
    movie = pixels(dtype, (3, 20, 30))
    tifffile.imwrite(tmp_path / "in.tif", movie, photometric="minisblack")
    assert_dataset(replay(tmp_path / "in.tif")[1], movie)


def test_one_page_of_tiff(replay, tmp_path, movie):
    tifffile.imwrite(tmp_path / "in.tif", movie[0])
    _, out = replay(tmp_path / "in.tif")
    assert_same(np.asarray(open_zarr_python(out / "0")[...]).reshape(movie[0].shape), movie[0])


@pytest.mark.parametrize("axes", ["TCZYX", "TZCYX", "CTZYX", "ZCTYX", "TCYX", "TZYX", "CZYX", "TYX"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_ome_tiff(replay, tmp_path, axes, dtype):
    sizes = dict(zip("TCZYX", (4, 2, 3, 30, 40)))
    stored = pixels(dtype, tuple(sizes[axis] for axis in axes))
    metadata = {
        "axes": axes,
        "PhysicalSizeX": 0.25,
        "PhysicalSizeXUnit": "µm",
        "PhysicalSizeY": 0.5,
        "PhysicalSizeYUnit": "µm",
    }
    tifffile.imwrite(tmp_path / "in.ome.tif", stored, ome=True, photometric="minisblack", metadata=metadata)
    _, out = replay(tmp_path / "in.ome.tif")
    names = open_zarr_python(out / "0").metadata.dimension_names
    assert sorted(names) == sorted(axes.lower())
    # Whatever the order of the pages, OME-Zarr wants time, channel, depth.
    assert names == tuple(axis.lower() for axis in "TCZYX" if axis in axes)
    expected = stored.transpose([axes.index(name.upper()) for name in names])
    assert_dataset(out, np.ascontiguousarray(expected))
    ome = zarr.open_group(out, mode="r").attrs["ome"]["multiscales"][0]
    assert ome["datasets"][0]["coordinateTransformations"][0]["scale"][-2:] == [0.5, 0.25]
    assert ome["axes"][-1] == {"name": "x", "type": "space", "unit": "micrometer"}


def test_raw_file(replay, tmp_path, movie):
    (tmp_path / "in.raw").write_bytes(b"a header" + movie.tobytes())
    shape = ",".join(map(str, movie.shape))
    _, out = replay(tmp_path / "in.raw", "--shape", shape, "--dtype", "u16", "--offset", 8)
    assert_dataset(out, movie)


@pytest.mark.parametrize("frames, part", [(10, 0), (0, 0), (10, 5), (11, 5), (12, 1)])
@pytest.mark.parametrize("more", [[], ["--frames", "2"], ["--preload"]])
def test_a_raw_file_that_ends_too_early_or_within_a_frame_is_refused(refused, tmp_path, movie, frames, part, more):
    whole = movie.tobytes()
    frame_bytes = movie[0].nbytes
    (tmp_path / "in.raw").write_bytes((whole + whole)[: frames * frame_bytes + part])
    said = refused(tmp_path / "in.raw", "--shape", ",".join(map(str, movie.shape)), "--dtype", "u16", *more)
    assert f"mean 11 frames of {frame_bytes} bytes" in said and f"but the file holds {frames}" in said
    assert (f" and {part} bytes of another" in said) == (part > 0)


def test_raw_file_with_axes(replay, tmp_path):
    movie = pixels(np.int16, (3, 2, 4, 20, 30))
    (tmp_path / "in.raw").write_bytes(movie.tobytes())
    _, out = replay(tmp_path / "in.raw", "--shape", "3,2,4,20,30", "--axes", "t,c,z,y,x", "--dtype", "int16")
    assert_dataset(out, movie)


def test_loops_and_unbounded(replay, tmp_path, movie):
    tifffile.imwrite(tmp_path / "in.tif", movie, photometric="minisblack")
    _, out = replay(
        tmp_path / "in.tif", "--loop", 3, "--frames", 5, "--unbounded", "--chunk", "4,32,32", "--index", "start"
    )
    assert_dataset(out, np.concatenate([movie[:5]] * 3))


@pytest.mark.parametrize("chunk", ["1,300,400", "4,600,200"])
def test_frames_that_lie_in_the_ring(replay, tmp_path, chunk):
    # The ring has room for six of the twelve passes.
    movie = pixels(np.uint16, (11, 600, 700))
    (tmp_path / "in.raw").write_bytes(movie.tobytes())
    raw = ["--shape", "11,600,700", "--dtype", "u16"]
    report, out = replay(tmp_path / "in.raw", *raw, "--dma", "--loop", 12, "--chunk", chunk)
    assert report["frames_written"] == 132
    assert_dataset(out, np.concatenate([movie] * 12))


def test_synthetic_camera(replay):
    camera = ["--camera", "512x300xu16", "--frames", 9]
    report, out = replay("synthetic", *camera, "--codec", "none")
    assert report["shape"] == [9, 300, 512]
    shown = open_tensorstore(out / "0").read().result()
    assert len(np.unique(shown)) > 10
    # The camera shows the same in every run, so that codecs can be compared on it.
    for codec in BLOSC[:2]:
        assert_dataset(replay("synthetic", *camera, "--codec", codec)[1], shown)


@pytest.mark.parametrize("shards", [None, (4, 32, 32)])
def test_zarr_array(replay, tmp_path, movie, shards):
    source = zarr.create_array(
        tmp_path / "in.zarr", shape=movie.shape, dtype=movie.dtype, chunks=(2, 16, 32), shards=shards, zarr_format=3
    )
    source[...] = movie
    _, out = replay(tmp_path / "in.zarr")
    assert_dataset(out, movie)


def test_zarr_2_array(replay, tmp_path, movie):
    source = zarr.create_array(
        tmp_path / "in.zarr", shape=movie.shape, dtype=movie.dtype, chunks=(2, 16, 32), zarr_format=2
    )
    source[...] = movie
    _, out = replay(tmp_path / "in.zarr")
    assert_dataset(out, movie)


def test_a_dataset_of_its_own(replay, tmp_path, movie):
    tifffile.imwrite(tmp_path / "in.tif", movie, photometric="minisblack")
    _, first = replay(tmp_path / "in.tif", "--codec", "blosc-zstd")
    _, second = replay(first, "--codec", "none", "--placement", "packed")
    assert_dataset(second, movie)


def test_info_agrees(replay, command, tmp_path, movie):
    tifffile.imwrite(tmp_path / "in.tif", movie, photometric="minisblack")
    _, out = replay(tmp_path / "in.tif", "--chunk", "2,16,32", "--shard", "4,48,64")
    info = json.loads(subprocess.run([command, "info", out, "--json"], check=True, capture_output=True).stdout)
    array = open_zarr_python(out / "0")
    text = json.dumps(info)
    assert list(array.shape) == list(movie.shape)
    for known in (list(array.shape), list(array.chunks), list(array.shards)):
        assert json.dumps(known) in text
