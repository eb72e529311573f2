"""What `shardwright export` writes, read by numpy and tifffile."""

import subprocess

import numpy as np
import pytest
import tifffile
import zarr
from readers import assert_same
from recordings import movie as pixels

DTYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"]
OME_DTYPES = [dtype for dtype in DTYPES if dtype not in ("uint64", "int64")]


@pytest.fixture
def export(command):
    """Runs `shardwright export` and returns what it says."""

    def run(dataset, out, *options, code=0):
        call = [command, "export", dataset, out, "--memory", "100KiB", *options]
        done = subprocess.run([str(word) for word in call], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    return run


@pytest.fixture
def record(replay, tmp_path):
    """A raw movie as a dataset."""

    def run(movie, *options):
        (tmp_path / "in.raw").write_bytes(movie.tobytes())
        shape = ",".join(map(str, movie.shape))
        layout = ["--chunk", "16,32", "--shard", "48,64"]
        return replay(tmp_path / "in.raw", "--shape", shape, "--dtype", movie.dtype.name, *layout, *options)[1]

    return run


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type(export, record, tmp_path, dtype):
    movie = pixels(dtype, (5, 60, 70))
    dataset = record(movie)
    for name in ("a.npy", "a.tif", "a.raw"):
        export(dataset, tmp_path / name)
    assert_same(np.load(tmp_path / "a.npy"), movie)
    assert_same(tifffile.imread(tmp_path / "a.tif"), movie)
    assert_same(np.fromfile(tmp_path / "a.raw", dtype).reshape(movie.shape), movie)


@pytest.mark.parametrize("dtype", OME_DTYPES)
@pytest.mark.parametrize("axes", ["TCZYX", "ZCTYX", "TCYX", "TYX"])
def test_ome_tiff(export, record, tmp_path, dtype, axes):
    sizes = dict(zip("TCZYX", (4, 2, 3, 30, 40)))
    movie = pixels(dtype, tuple(sizes[axis] for axis in axes))
    dataset = record(movie, "--axes", ",".join(axes.lower()), "--pixel-size", "0.25um", "--rate", "1000")
    export(dataset / "0", tmp_path / "a.ome.tif")
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as file:
        assert file.is_ome
        assert file.series[0].axes == axes
        assert_same(file.asarray(), movie)
        described = tifffile.xml2dict(file.ome_metadata)["OME"]["Image"]["Pixels"]
    if axes != "ZCTYX":  # an order of which OME-Zarr, and so the dataset, can say no sizes
        assert described["PhysicalSizeX"] == 0.25
        assert described["PhysicalSizeXUnit"] == "µm"
    assert described["Type"] == {"float32": "float", "float64": "double"}.get(dtype, dtype)


@pytest.mark.parametrize("region", ["2:7,10:50,33:34", "3,:,:", ":,59:,:1", "t=4:,x=5:6", "x=69"])
def test_regions(export, record, tmp_path, movie, region):
    dataset = record(movie)
    spans = {"t": slice(None), "y": slice(None), "x": slice(None)}
    for name, span in zip(spans, region.split(",")):
        name, span = span.split("=") if "=" in span else (name, span)
        bounds = [int(bound) if bound else None for bound in span.split(":")]
        spans[name] = slice(*bounds) if len(bounds) == 2 else slice(bounds[0], bounds[0] + 1)
    expected = movie[tuple(spans.values())]
    export(dataset, tmp_path / "a.npy", "--region", region)
    assert_same(np.load(tmp_path / "a.npy"), expected)
    export(dataset, tmp_path / "a.tif", "--region", region)
    assert_same(tifffile.imread(tmp_path / "a.tif").reshape(expected.shape), expected)


def test_bigtiff(export, record, tmp_path, movie):
    dataset = record(movie)
    for big in (False, True):
        out = tmp_path / f"{big}.ome.tif"
        export(dataset, out, *(["--bigtiff"] if big else []))
        with tifffile.TiffFile(out) as file:
            assert file.is_bigtiff == big
            assert_same(file.asarray(), movie)


def test_the_format_may_be_said(export, record, tmp_path, movie):
    dataset = record(movie)
    export(dataset, tmp_path / "a.dat", "--format", "npy")
    assert_same(np.load(tmp_path / "a.dat"), movie)
    assert "--format" in export(dataset, tmp_path / "a.png", code=2)


def test_what_can_not_be_is_refused(export, record, tmp_path):
    dataset = record(pixels(np.uint64, (3, 20, 30)))
    assert "no pixels of type uint64" in export(dataset, tmp_path / "a.ome.tif", code=2)
    message = export(dataset, tmp_path / "a.tif", "--region", "0:4,:,:", code=2)
    assert "t=0:4" in message and "0:3" in message
    (tmp_path / "a.npy").write_text("mine")
    assert "--overwrite" in export(dataset, tmp_path / "a.npy", code=1)
    export(dataset, tmp_path / "a.npy", "--overwrite", "-q")
    assert np.load(tmp_path / "a.npy").shape == (3, 20, 30)
    assert "neither zarr.json" in export(tmp_path, tmp_path / "b.npy", code=3)
    assert not list(tmp_path.glob(".*")), "partial files were left"


@pytest.mark.parametrize("version", [0.4, 0.5])
def test_ome_tiff_says_what_image_and_channels_are_called(export, replay, tmp_path, version):
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2 if version == 0.4 else 3)
    data = pixels(np.uint16, (3, 20, 30))
    root.create_array("0", data=data, chunks=(1, 20, 30))
    axes = [{"name": "c", "type": "channel"}, {"name": "y", "type": "space"}, {"name": "x", "type": "space"}]
    datasets = [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 0.5, 0.5]}]}]
    channels = [{"label": "GFP", "color": "00FF00"}, {"label": "a < \"µ\"", "color": "ff0000"}, {"color": "?"}]
    ome = {"multiscales": [{"name": "embryo é", "axes": axes, "datasets": datasets}], "omero": {"channels": channels}}
    root.attrs.update(ome if version == 0.4 else {"ome": {"version": "0.5", **ome}})
    green, red, unsaid = 0x00FF00FF, 0xFF0000FF - 2**32, None
    for region, names, colors in [
        ([], ["GFP", 'a < "µ"', None], [green, red, unsaid]),
        (["--region", "c=1:3"], ['a < "µ"', None], [red, unsaid]),
    ]:
        export(tmp_path / "a.zarr", tmp_path / "a.ome.tif", "--overwrite", *region)
        with tifffile.TiffFile(tmp_path / "a.ome.tif") as file:
            described = tifffile.xml2dict(file.ome_metadata)["OME"]["Image"]
            assert_same(file.asarray(), data[-len(names) :])
        assert described["Name"] == "embryo é"
        said = described["Pixels"]["Channel"]
        assert [channel.get("Name") for channel in said] == names
        assert [channel.get("Color") for channel in said] == colors
        if not region:
            report, out = replay(tmp_path / "a.ome.tif")
            (multiscale,) = zarr.open_group(out, mode="r").attrs["ome"]["multiscales"]
            assert multiscale["name"] == "embryo é"


def test_names_and_colours_come_back(export, replay, tmp_path):
    xml = {"Name": "embryo", "Channel": {"Name": ["GFP", "RFP"], "Color": [0x12345600 | 0xFF, -1]}}
    movie = pixels(np.uint16, (2, 20, 30))
    tifffile.imwrite(tmp_path / "a.ome.tif", movie, ome=True, photometric="minisblack", metadata={"axes": "CYX", **xml})
    for _ in range(2):
        out = replay(tmp_path / "a.ome.tif")[1]
        ome = zarr.open_group(out, mode="r").attrs["ome"]
        shown = [(channel["label"], channel["color"]) for channel in ome["omero"]["channels"]]
        assert shown == [("GFP", "123456"), ("RFP", "FFFFFF")] and ome["multiscales"][0]["name"] == "embryo"
        export(out, tmp_path / "a.ome.tif", "--overwrite")


@pytest.mark.parametrize("names, called", [
    ([None, "q", "r"], ["t", "q", "r"]), (["a", None, "c"], ["a", "y", "c"]), (["a", "", "c"], ["a", "y", "c"]),
    (["y", None, "x"], ["y", "dim_1", "x"]), ([None, None, None], ["t", "y", "x"]),
    (["y", "x", None], ["y", "x", "dim_2"]),
])  # fmt: skip
def test_dimensions_of_which_some_have_no_names(export, tmp_path, names, called):
    data = pixels("uint16", (6, 8, 10))
    zarr.create_array(tmp_path / "a.zarr", data=data, chunks=(2, 4, 4), dimension_names=names)
    export(tmp_path / "a.zarr", tmp_path / "by_place.npy", "--region", "1:3,2:4,5:9")
    assert_same(np.load(tmp_path / "by_place.npy"), data[1:3, 2:4, 5:9])
    for at, name in enumerate(called):
        export(tmp_path / "a.zarr", tmp_path / f"{at}.npy", "--region", f"{name}=1:3")
        assert_same(np.load(tmp_path / f"{at}.npy"), data.take([1, 2], axis=at))


def test_a_name_that_two_dimensions_have_is_no_region(export, tmp_path):
    data = pixels("uint16", (6, 8, 10))
    zarr.create_array(tmp_path / "a.zarr", data=data, chunks=(2, 4, 4), dimension_names=["y", "y", "x"])
    told = export(tmp_path / "a.zarr", tmp_path / "o.npy", "--region", "y=1:3", code=2)
    assert "several dimensions are called; give a span" in told
    export(tmp_path / "a.zarr", tmp_path / "o.npy", "--region", "x=1:3")
    assert_same(np.load(tmp_path / "o.npy"), data[..., 1:3])
