"""The table of `src/guide/recordings.md` of what is read, row by row: with the pixels and axes of tifffile, or of who
wrote it."""

import pathlib
import zipfile

import numpy as np
import pytest
import tifffile
import zarr

import camera_files
import test_recording_kinds as kinds
import test_recording_positions as positions
import test_recording_sets as sets
from readers import open_zarr_python
from recordings import GRAY, OME, assert_replayed, in_order, movie, rows_of_guide, tifffile_reads, volume

READ = {}


def row(name):
    def note(function):
        READ[name] = function
        return function

    return note


def tiff(name, *variants):
    """A row of files that tifffile writes."""

    def generate(folder):
        for number, (data, options) in enumerate(variants):
            path = folder / f"{number}{'.ome' if options.get('ome') else ''}.tif"
            tifffile.imwrite(path, data, **options)
            yield path, [], tifffile_reads(path)

    READ[name] = generate


def of_kinds(name, *keys):
    tiff(name, *[kinds.KINDS[key] for key in keys])


of_kinds("TIFF, one page", "one-image")
tiff("TIFF stack", (volume(5, 20, 30), GRAY), (volume(5, 20, 30, dtype="u1"), GRAY))
of_kinds("TIFF stack of tifffile", "shaped-zc", "bigtiff-imagej-axes")
tiff(
    "TIFF in big-endian order",
    *[(volume(3, 20, 30, dtype=dtype), {**GRAY, "byteorder": ">"}) for dtype in ("u2", "i4", "f8")],
)
tiff("BigTIFF", *[(volume(3, 20, 30), {**GRAY, "bigtiff": True, "byteorder": order}) for order in "<>"])
tiff(
    "TIFF of signed, 32-bit, 64-bit or floating-point numbers",
    *[(volume(3, 20, 30, dtype=t), GRAY) for t in ("i1", "i2", "u4", "i4", "u8", "i8", "f4", "f8")],
)
of_kinds("TIFF in strips", "strips-raw-big", "packbits-strips")
of_kinds("TIFF in tiles", "tiles-raw", "tiles-one", "tiles-large-big-endian", "zstd-tiles")
tiff(
    "TIFF with LZW, Deflate, PackBits or Zstandard",
    *[(volume(3, 50, 70), {**GRAY, "compression": name}) for name in ("lzw", "zlib", "packbits", "zstd")],
)
of_kinds("TIFF with horizontal differences (predictor 2)", "lzw-horizontal", "zlib-horizontal-big", "rgb-zstd")
of_kinds("TIFF with floating-point differences (predictor 3)", "zlib-float-f4", "zlib-float-f8-big")
of_kinds("TIFF of RGB or RGBA pixels", "rgb", "rgb-u2", "rgba", "rgb-tiles-predictor", "rgb-big-endian")
of_kinds("TIFF of RGB planes", "rgb-planar", "rgb-planar-lzw", "rgb-planar-tiles")
of_kinds("TIFF of CMYK or other samples", "cmyk", "samples-gray")
of_kinds("TIFF where 0 is white", "white-is-zero-u1", "white-is-zero-u2", "white-is-zero-f4")
of_kinds("ImageJ hyperstack", *[f"imagej-{kind}" for kind in ("tzcyx", "t", "z", "c", "tc", "zc-f4", "little")])
of_kinds("ImageJ RGB stack", "imagej-rgb")
of_kinds("OME-TIFF of RGB pixels", "ome-rgb", "ome-rgb-planar", "ome-rgb-channels", "ome-rgb-channels-slow")


def orders_of_ome():
    for order in ["XYZCT", "XYZTC", "XYCZT", "XYCTZ", "XYTCZ", "XYTZC"]:
        axes = order[::-1]
        sizes = {"T": 4, "Z": 3, "C": 2, "Y": 20, "X": 30}
        yield volume(*[sizes[axis] for axis in axes]), {**OME, "metadata": {"axes": axes}}


tiff("OME-TIFF", *orders_of_ome())


@row("TIFF with JPEG")
def jpeg(folder):
    y, x = np.indices((96, 128))
    gray = ((np.sin(x / 9) + np.cos(y / 7) + 2) * 60).astype("u1")
    for name, data, options in [
        ("gray", gray, GRAY),
        ("rgb", np.stack([gray, gray[::-1], 255 - gray], axis=-1), {"photometric": "ycbcr", "subsampling": (1, 1)}),
    ]:
        tifffile.imwrite(folder / f"{name}.tif", data, compression="jpeg", **options)
        yield folder / f"{name}.tif", [], (*tifffile_reads(folder / f"{name}.tif"), 3)


@row("TIFF of packed samples")
def packed_samples(folder):
    for bits in (2, 4, 10, 12, 14, 24):
        data = (volume(3, 20, 31, dtype="u4") % (1 << bits)).astype("u4" if bits > 16 else "u2" if bits > 8 else "u1")
        tifffile.imwrite(folder / f"{bits}.tif", data, bitspersample=bits, **GRAY)
        yield folder / f"{bits}.tif", [], (data, "tyx")
    tifffile.imwrite(folder / "1.tif", data % 2 == 1, **GRAY)
    yield folder / "1.tif", [], ((data % 2).astype("u1"), "tyx")


@row("TIFF of half-precision numbers")
def half(folder):
    data = volume(3, 20, 30, dtype="f2")
    tifffile.imwrite(folder / "in.tif", data, **GRAY)
    yield folder / "in.tif", [], (data.astype("f4"), "tyx")


@row("TIFF with a palette")
def palette(folder):
    data = volume(20, 30, dtype="u1")
    tifffile.imwrite(folder / "in.tif", data, photometric="palette", colormap=np.zeros((3, 256), "u2"))
    yield folder / "in.tif", [], tifffile_reads(folder / "in.tif")


@row("TIFF with an orientation")
def orientation(folder):
    data = volume(3, 20, 30)
    tags = [(274, 3, 1, 6, False)]
    tifffile.imwrite(folder / "in.tif", data, extratags=tags, **GRAY)
    yield folder / "in.tif", [], tifffile_reads(folder / "in.tif")
    turned = np.ascontiguousarray(np.rot90(data, -1, axes=(1, 2)))
    yield folder / "in.tif", ["--orientation", "rotate-270"], (turned, "tyx")


@row("TIFF pyramid or thumbnails")
def pyramid(folder):
    data = volume(3, 64, 96)
    with tifffile.TiffWriter(folder / "in.ome.tif") as tif:
        tif.write(data, subifds=1, metadata={"axes": "TYX"}, **GRAY)
        tif.write(data[:, ::2, ::2], subfiletype=1, **GRAY)
    yield folder / "in.ome.tif", [], tifffile_reads(folder / "in.ome.tif")


@row("ImageJ stack with one page")
def imagej_one_page(folder):
    data = volume(3, 4, 2, 20, 30)
    description = "ImageJ=1.53t\nimages=24\nchannels=2\nslices=4\nframes=3\nhyperstack=true\n"
    tifffile.imwrite(folder / "in.tif", data[0, 0, 0], description=description, metadata=None, byteorder=">", **GRAY)
    with tifffile.TiffFile(folder / "in.tif") as tif:
        (offset,) = tif.pages[0].dataoffsets
    head = (folder / "in.tif").read_bytes()[:offset]
    (folder / "in.tif").write_bytes(head + data.astype(">u2").tobytes())
    yield folder / "in.tif", [], tifffile_reads(folder / "in.tif")


def ome_set(folder, companion):
    data = volume(4, 3, 2, 20, 30)
    first = sets.ome_set(folder, data, companion)
    expected = (np.ascontiguousarray(data.transpose(0, 2, 1, 3, 4)), "tczyx")
    # tifffile does not look into the companion.
    yield first, [], expected if companion else tifffile_reads(first)
    yield folder / "set_t2.ome.tif", [], expected
    yield folder, [], expected
    if companion:
        yield folder / "set.companion.ome", [], expected


READ["OME-TIFF of several files"] = lambda folder: ome_set(folder, False)
READ["OME-TIFF with a companion file"] = lambda folder: ome_set(folder, True)


@row("OME-TIFF of several images")
def several_images(folder):
    path = folder / "in.ome.tif"
    with tifffile.TiffWriter(path, ome=True) as tif:
        tif.write(volume(3, 20, 30), metadata={"axes": "TYX"}, **GRAY)
        tif.write(volume(2, 4, 40, 50), metadata={"axes": "TCYX"}, **GRAY)
    with tifffile.TiffFile(path) as tif:
        for number, series in enumerate(tif.series):
            yield path, ["--series", number], in_order(series.asarray(), series.axes)
    yield path, [], 2


@row("TIFF stacks of tifffile in one file")
def several_arrays(folder):
    path = folder / "in.tif"
    with tifffile.TiffWriter(path) as tif:
        tif.write(volume(5, 20, 30), metadata={"axes": "ZYX"}, **GRAY)
        tif.write(volume(2, 4, 20, 30), metadata={"axes": "TCYX"}, **GRAY)
    with tifffile.TiffFile(path) as tif:
        for number, series in enumerate(tif.series):
            yield path, ["--series", number], in_order(series.asarray(), series.axes)
    yield path, [], 2


@row("Micro-Manager image stack")
def micro_manager(folder):
    path = folder / "run_MMStack_Pos0.ome.tif"
    sets.mm_stack(path, volume(1, 4, 3, 2, 20, 30))
    yield path, [], tifffile_reads(path)


@row("Micro-Manager stacks of positions")
def stacks_of_positions(folder):
    data = volume(2, 4, 3, 2, 20, 30)
    sets.mm_stack(folder / "both_MMStack.ome.tif", data, positions=(0, 1))
    for number in (0, 1):
        expected = (np.ascontiguousarray(data[number].transpose(0, 2, 1, 3, 4)), "tczyx")
        yield folder / "both_MMStack.ome.tif", ["--series", number], expected


@row("Micro-Manager NDTiff")
def nd_tiff(folder):
    first = sets.nd_tiff(folder, volume(4, 2, 3, 20, 30), ["time", "channel", "z"], {"channel": ["b", "a"]}, split=10)
    for source in (folder, folder / "NDTiff.index", first):
        yield source, [], tifffile_reads(first)


@row("Micro-Manager folder of single images")
def single_images(folder):
    data = volume(4, 3, 2, 20, 30)
    for t, z, c in np.ndindex(data.shape[:3]):
        tifffile.imwrite(folder / f"img_channel{c:03}_position000_time{t:09}_z{z:03}.tif", data[t, z, c], **GRAY)
    yield folder, [], (np.ascontiguousarray(data.transpose(0, 2, 1, 3, 4)), "tczyx")


@row("Micro-Manager folder of positions")
def folder_of_positions(folder):
    data = volume(2, 4, 3, 2, 20, 30)
    positions.single_images(folder / "images", data)
    positions.stacks(folder / "stacks", data)
    for number, name in np.ndindex(2, 2):
        expected = (np.ascontiguousarray(data[number].transpose(0, 2, 1, 3, 4)), "tczyx")
        yield folder / ["images", "stacks"][name], ["--series", number], expected


@row("folder of TIFF files")
def folder_of_files(folder):
    data = volume(12, 20, 30)
    for number, page in enumerate(data):
        tifffile.imwrite(folder / f"frame{number}.tif", page, **GRAY)
    yield folder, [], (data, "tyx")


@row("Zeiss LSM")
def lsm(folder):
    for number, (scan, dtype, shape) in enumerate(
        [(0, "u1", (1, 5, 3)), (0, "u2", (1, 5, 1)), (3, "u2", (4, 1, 3)), (6, "u1", (4, 3, 3)), (6, "u2", (4, 3, 1))]
    ):
        path = folder / f"{number}.lsm"
        camera_files.lsm(path, volume(*shape, 20, 30, dtype=dtype), scan)
        yield path, [], tifffile_reads(path)


@row("MetaMorph STK")
def stk(folder):
    for distance in (0, 3):
        camera_files.stk(folder / f"{distance}.stk", volume(5, 20, 30), distance)
        yield folder / f"{distance}.stk", [], tifffile_reads(folder / f"{distance}.stk")


@row("Aperio SVS")
def svs(folder):
    for planes in (1, 3):
        camera_files.svs(folder / f"{planes}.svs", volume(planes, 64, 48, 3, dtype="u1"), planes)
        yield folder / f"{planes}.svs", [], tifffile_reads(folder / f"{planes}.svs")


@row("ScanImage TIFF")
def scanimage(folder):
    data = volume(3, 4, 2, 20, 30)
    camera_files.scanimage(folder / "in.tif", data)
    yield folder / "in.tif", [], (np.ascontiguousarray(data.transpose(1, 2, 0, 3, 4)), "tczyx")


@row("`.npy`")
def npy(folder):
    for number, dtype in enumerate(["u1", "i1", "u2", ">u2", "i4", ">i8", "u8", "f4", ">f8"]):
        data = volume(5, 20, 30, dtype=np.dtype(dtype).newbyteorder("="))
        np.save(folder / f"{number}.npy", data.astype(dtype))
        yield folder / f"{number}.npy", [], (data, "tyx")
    np.save(folder / "more.npy", volume(2, 3, 4, 20, 30))
    yield folder / "more.npy", ["--axes", "t,c,z,y,x"], (volume(2, 3, 4, 20, 30), "tczyx")
    colors = volume(4, 20, 30, 3, dtype="u1")
    np.save(folder / "colors.npy", colors)
    yield folder / "colors.npy", ["--axes", "t,y,x,c"], (np.ascontiguousarray(colors.transpose(0, 3, 1, 2)), "tcyx")


@row("`.npy` of booleans")
def npy_of_truth(folder):
    data = volume(5, 20, 30) % 3 == 0
    np.save(folder / "in.npy", data)
    yield folder / "in.npy", [], (data.view("u1"), "tyx")


@row("`.npy` of half-precision numbers")
def npy_of_half(folder):
    for number, dtype in enumerate(["<f2", ">f2"]):
        data = volume(4, 20, 30, 3, dtype="f2")
        np.save(folder / f"{number}.npy", data.astype(dtype))
        expected = np.ascontiguousarray(data.astype("f4").transpose(0, 3, 1, 2))
        yield folder / f"{number}.npy", ["--axes", "t,y,x,c"], (expected, "tcyx")


def raw(path, content, shape, *options):
    path.write_bytes(content)
    return path, ["--shape", ",".join(map(str, shape)), *options]


@row("raw file")
def raw_file(folder):
    data = volume(3, 2, 20, 30, dtype="i2")
    axes = ["--axes", "t,z,y,x", "--dtype", "i16"]
    yield *raw(folder / "0", b"head" + data.tobytes(), data.shape, *axes, "--offset", 4), (data, "tzyx")
    rows = np.full((3, 2, 20, 40), 7, "i2")
    rows[..., :30] = data
    frames = b"".join(b"0123456789" + frame.tobytes() for frame in rows.reshape(6, 20, 40))
    strides = ["--row-stride", 80, "--frame-stride", 1610, "--offset", 10]
    yield *raw(folder / "1", frames, data.shape, *axes, *strides), (data, "tzyx")
    yield *raw(folder / "1", frames, data.shape, *axes, *strides, "--dma"), (data, "tzyx")


@row("raw file of colours")
def raw_colors(folder):
    for number, dtype in enumerate(["u1", "u2", "f4"]):
        data = volume(4, 20, 30, 3, dtype=dtype)
        name = {"u1": "u8", "u2": "u16", "f4": "f32"}[dtype]
        channels = np.ascontiguousarray(data.transpose(0, 3, 1, 2))
        options = ["--axes", "t,y,x,c", "--dtype", name]
        yield *raw(folder / f"{number}", data.tobytes(), data.shape, *options), (channels, "tcyx")
        yield *raw(folder / f"{number}", data.tobytes(), data.shape, *options, "--preload"), (channels, "tcyx")
        planar = ["--axes", "t,c,y,x", "--dtype", name]
        yield *raw(folder / f"{number}p", channels.tobytes(), channels.shape, *planar), (channels, "tcyx")


@row("raw file in big-endian order")
def raw_big_endian(folder):
    for number, (dtype, name) in enumerate([("u2", "u16"), ("i2", "i16"), ("u4", "u32"), ("f8", "f64")]):
        data = volume(4, 20, 30, dtype=dtype)
        options = ["--dtype", name, "--pixel-format", "big-endian"]
        swapped = data.astype(np.dtype(dtype).newbyteorder(">")).tobytes()
        yield *raw(folder / f"{number}", swapped, data.shape, *options), (data, "tyx")
    colors = volume(4, 20, 30, 3)
    options = ["--axes", "t,y,x,c", "--dtype", "u16", "--pixel-format", "big-endian"]
    expected = np.ascontiguousarray(colors.transpose(0, 3, 1, 2))
    yield *raw(folder / "colors", colors.astype(">u2").tobytes(), colors.shape, *options), (expected, "tcyx")


def packed(frames, name):
    """The bytes of each frame, whose pixels follow each other without a gap."""
    return [camera_files.PACKED[name][1](frame) for frame in frames]


@row("raw file of packed pixels")
def raw_packed(folder):
    for name in ["mono10p", "mono12p", "mono14p", "mono10packed", "mono12packed"]:
        bits, pack = camera_files.PACKED[name]
        for width in (30, 31):
            data = (volume(4, 21, width) % (1 << bits)).astype("u2")
            content = b"".join(packed(data, name))
            yield *raw(folder / f"{name}{width}", content, data.shape, "--pixel-format", name), (data, "tyx")
        # Each row begins with a byte of its own.
        line = [pack(row).ljust(70, b"#") for frame in data for row in frame]
        options = ["--pixel-format", name, "--row-stride", 70]
        yield *raw(folder / f"{name}-rows", b"".join(line), data.shape, *options), (data, "tyx")
        turned = np.ascontiguousarray(np.rot90(data, 1, axes=(1, 2)))
        options = ["--pixel-format", name, "--orientation", "rotate-90", "--chunk", "1,16,16"]
        yield *raw(folder / f"{name}-turned", content, data.shape, *options), (turned, "tyx")
        yield *raw(folder / f"{name}-turned", content, data.shape, *options, "--dma"), (turned, "tyx")


@row("raw file with unused low bits")
def raw_unused(folder):
    data = (volume(4, 20, 31) % 4096).astype("u2")
    options = ["--dtype", "u16", "--unused-bits", 4]
    yield *raw(folder / "0", (data << 4).tobytes(), data.shape, *options), (data, "tyx")
    options += ["--pixel-format", "big-endian"]
    yield *raw(folder / "1", (data << 4).astype(">u2").tobytes(), data.shape, *options), (data, "tyx")


@row("Zarr array")
def zarr_array(folder):
    data = movie("u2", (5, 60, 70))
    for number, (version, shards) in enumerate([(2, None), (3, None), (3, (4, 32, 64))]):
        options = {"shape": data.shape, "dtype": data.dtype, "chunks": (2, 16, 32), "shards": shards}
        zarr.create_array(folder / f"{number}.zarr", zarr_format=version, **options)[...] = data
        yield folder / f"{number}.zarr", [], (data, "tyx")


def ome_zarr(path, data):
    image = zarr.open_group(path, mode="w")
    image.create_array("0", data=data)
    image.create_array("1", data=np.ascontiguousarray(data[:, ::2, ::2]))
    levels = [{"path": path, "coordinateTransformations": [{"type": "scale", "scale": [1, 1, 1]}]} for path in "01"]
    axes = [{"name": name, "type": kind} for name, kind in zip("zyx", ["space"] * 3)]
    image.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": levels}]}


@row("OME-Zarr image")
def ome_zarr_image(folder):
    data = volume(4, 20, 30)
    ome_zarr(folder / "in.zarr", data)
    yield folder / "in.zarr", [], (data, "zyx")
    yield folder / "in.zarr/1", [], (np.ascontiguousarray(data[:, ::2, ::2]), "zyx")
    for ending in ("ozx", "zip"):
        with zipfile.ZipFile(folder / f"in.{ending}", "w") as archive:
            for file in filter(pathlib.Path.is_file, (folder / "in.zarr").rglob("*")):
                archive.write(file, file.relative_to(folder / "in.zarr"))
        yield folder / f"in.{ending}", [], (data, "zyx")
        yield folder / f"in.{ending}/1", [], (np.ascontiguousarray(data[:, ::2, ::2]), "zyx")


def plate(folder, data):
    ome_zarr(folder / "plate.zarr/A/1/0", data)
    wells = zarr.open_group(folder / "plate.zarr", mode="a")
    wells.attrs["ome"] = {"version": "0.5", "plate": {"wells": [{"path": "A/1"}], "rows": [], "columns": []}}
    return folder / "plate.zarr"


@row("field of an OME-Zarr plate")
def field(folder):
    data = volume(4, 20, 30)
    yield plate(folder, data) / "A/1/0", [], (data, "zyx")


def test_the_table_names_what_is_tested():
    assert set(rows_of_guide("read as")) == set(READ) and len(READ) >= 30


@pytest.mark.parametrize("name", READ)
def test_what_is_read(replay, refused, tmp_path, name):
    folder = tmp_path / "in"
    folder.mkdir()
    count = 0
    for source, options, expected in READ[name](folder):
        if isinstance(expected, int):
            assert refused(source, *options, code=expected)
            continue
        pixels, axes, *tolerance = expected
        report, out = replay(source, *options)
        if tolerance:
            array = open_zarr_python(out / "0")
            assert "".join(array.metadata.dimension_names) == axes and array.shape == pixels.shape
            assert np.abs(array[...].astype(int) - pixels.astype(int)).max() <= tolerance[0], (source, options)
        else:
            assert_replayed(out, pixels, axes)
        assert report["frames_missing"] == 0
        if "with a note" in rows_of_guide("read as")[name]:
            assert report["notes"], (source, options)
        count += 1
    assert count > 0
