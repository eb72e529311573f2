"""Recordings of many kinds through `shardwright replay`: the pixels and axes must be those that tifffile reads."""

import subprocess

import numpy as np
import pytest
import tifffile
import zarr
from readers import assert_same, open_zarr_python
from recordings import GRAY, IMAGEJ, OME, RGB, assert_replayed, tifffile_reads, volume

# What is written, with which options of tifffile.imwrite.
KINDS = {
    "imagej-tzcyx": (volume(3, 4, 2, 20, 30), IMAGEJ),
    "imagej-t": (volume(5, 20, 30), {**IMAGEJ, "metadata": {"axes": "TYX"}}),
    "imagej-z": (volume(5, 20, 30), {**IMAGEJ, "metadata": {"axes": "ZYX"}}),
    "imagej-c": (volume(5, 20, 30), {**IMAGEJ, "metadata": {"axes": "CYX"}}),
    "imagej-tc": (volume(4, 3, 20, 30), {**IMAGEJ, "metadata": {"axes": "TCYX"}}),
    "imagej-tz-u8": (volume(4, 3, 20, 30, dtype="u1"), {**IMAGEJ, "metadata": {"axes": "TZYX"}}),
    "imagej-zc-f4": (volume(4, 3, 20, 30, dtype="f4"), {**IMAGEJ, "metadata": {"axes": "ZCYX"}}),
    "imagej-rgb": (volume(4, 20, 30, 3, dtype="u1"), {"imagej": True, **RGB, "metadata": {"axes": "TYXS"}}),
    "imagej-zlib": (volume(3, 4, 2, 20, 30), {**IMAGEJ, "compression": "zlib"}),
    "imagej-little": (volume(3, 4, 2, 20, 30), {**IMAGEJ, "byteorder": "<"}),
    "white-is-zero-u1": (volume(3, 20, 30, dtype="u1"), {"photometric": "miniswhite"}),
    "white-is-zero-u2": (volume(3, 20, 30), {"photometric": "miniswhite", "compression": "lzw"}),
    "white-is-zero-f4": (volume(3, 20, 30, dtype="f4"), {"photometric": "miniswhite"}),
    "rgb": (volume(20, 30, 3, dtype="u1"), RGB),
    "rgb-u2": (volume(4, 20, 30, 3), RGB),
    "rgb-planar": (volume(4, 3, 20, 30), {**RGB, "planarconfig": "separate"}),
    "rgb-planar-lzw": (volume(4, 3, 20, 30), {**RGB, "planarconfig": "separate", "compression": "lzw"}),
    "rgb-planar-tiles": (volume(4, 3, 50, 70), {**RGB, "planarconfig": "separate", "tile": (16, 32)}),
    "rgb-tiles-predictor": (volume(50, 70, 3), {**RGB, "tile": (16, 32), "compression": "zlib", "predictor": 2}),
    "rgba": (volume(2, 20, 30, 4, dtype="u1"), {**RGB, "extrasamples": ["unassalpha"]}),
    "rgb-zstd": (volume(4, 20, 30, 3), {**RGB, "compression": "zstd", "predictor": 2}),
    "rgb-big-endian": (volume(4, 20, 30, 3), {**RGB, "byteorder": ">", "compression": "zlib"}),
    "samples-gray": (volume(20, 30, 5), {**GRAY, "planarconfig": "contig"}),
    "cmyk": (volume(20, 30, 4, dtype="u1"), {"photometric": "separated"}),
    "lzw-horizontal": (volume(3, 50, 70), {**GRAY, "compression": "lzw", "predictor": 2}),
    "lzw-horizontal-u4": (volume(3, 50, 70, dtype="u4"), {**GRAY, "compression": "lzw", "predictor": 2}),
    "zlib-horizontal-u8": (volume(3, 50, 70, dtype="u8"), {**GRAY, "compression": "zlib", "predictor": 2}),
    "zlib-float-f4": (volume(3, 50, 70, dtype="f4"), {**GRAY, "compression": "zlib", "predictor": 3}),
    "zlib-float-f8-big": (
        volume(3, 50, 70, dtype="f8"), {**GRAY, "byteorder": ">", "compression": "zlib", "predictor": 3}
    ),
    "zlib-horizontal-big": (volume(3, 50, 70), {**GRAY, "byteorder": ">", "compression": "zlib", "predictor": 2}),
    "packbits": (volume(3, 50, 70, dtype="u1"), {**GRAY, "compression": "packbits"}),
    "packbits-strips": (volume(3, 50, 70), {**GRAY, "compression": "packbits", "rowsperstrip": 7}),
    "zstd-tiles": (volume(3, 100, 70), {**GRAY, "compression": "zstd", "tile": (32, 16)}),
    "zstd-large": (volume(2, 700, 900), {**GRAY, "compression": "zstd", "rowsperstrip": 64}),
    "tiles-raw": (volume(3, 100, 70), {**GRAY, "tile": (32, 16)}),
    "tiles-one": (volume(3, 16, 32), {**GRAY, "tile": (16, 32)}),
    "tiles-large-big-endian": (volume(2, 900, 700), {**GRAY, "tile": (64, 64), "compression": "lzw", "byteorder": ">"}),
    "strips-raw-big": (volume(3, 50, 70), {**GRAY, "rowsperstrip": 7, "byteorder": ">"}),
    "bigtiff-big-endian": (volume(3, 50, 70), {**GRAY, "bigtiff": True, "byteorder": ">"}),
    "bigtiff-imagej-axes": (volume(3, 2, 50, 70), {**GRAY, "bigtiff": True, "metadata": {"axes": "TCYX"}}),
    "shaped-zc": (volume(3, 2, 50, 70), {**GRAY, "metadata": {"axes": "ZCYX"}}),
    "i1": (volume(3, 20, 30, dtype="i1"), GRAY),
    "i8": (volume(3, 20, 30, dtype="i8"), GRAY),
    "u8": (volume(3, 20, 30, dtype="u8"), {**GRAY, "byteorder": ">"}),
    "one-image": (volume(20, 30), GRAY),
    "ome-rgb": (volume(4, 20, 30, 3, dtype="u1"), {"ome": True, **RGB, "metadata": {"axes": "TYXS"}}),
    "ome-rgb-planar": (
        volume(4, 3, 20, 30, dtype="u1"),
        {"ome": True, **RGB, "planarconfig": "separate", "metadata": {"axes": "TSYX"}},
    ),
    "ome-rgb-channels": (
        volume(4, 2, 20, 30, 3, dtype="u1"),
        {"ome": True, **RGB, "metadata": {"axes": "TCYXS"}},
    ),
    "ome-rgb-channels-slow": (
        volume(2, 4, 20, 30, 3, dtype="u1"),
        {"ome": True, **RGB, "metadata": {"axes": "CTYXS"}},
    ),
    "ome-czt": (volume(2, 3, 4, 20, 30), {**OME, "metadata": {"axes": "CZTYX"}}),
    "ome-bigtiff-lzw-tiles": (
        volume(2, 3, 50, 70),
        {**OME, "bigtiff": True, "compression": "lzw", "tile": (16, 32), "metadata": {"axes": "TCYX"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_tiff(replay, tmp_path, kind):
    data, options = KINDS[kind]
    ending = ".ome.tif" if options.get("ome") else ".tif"
    tifffile.imwrite(tmp_path / f"in{ending}", data, **options)
    before = (tmp_path / f"in{ending}").read_bytes()
    report, out = replay(tmp_path / f"in{ending}")
    assert report["frames_missing"] == 0
    assert_replayed(out, *tifffile_reads(tmp_path / f"in{ending}"))
    assert (tmp_path / f"in{ending}").read_bytes() == before


def test_imagej_scales(replay, tmp_path):
    data = volume(3, 4, 2, 20, 30)
    metadata = {"spacing": 1.5, "unit": "um", "finterval": 0.25, "axes": "TZCYX"}
    tifffile.imwrite(tmp_path / "in.tif", data, resolution=(4.0, 2.0), metadata=metadata, **IMAGEJ)
    _, out = replay(tmp_path / "in.tif")
    image = zarr.open_group(out, mode="r").attrs["ome"]["multiscales"][0]
    assert image["datasets"][0]["coordinateTransformations"][0]["scale"] == [0.25, 1, 1.5, 0.5, 0.25]
    assert [axis.get("unit") for axis in image["axes"]] == ["second", None, *["micrometer"] * 3]


@pytest.mark.parametrize("byteorder", "<>")
def test_imagej_stacks_with_one_page(replay, tmp_path, byteorder):
    # As ImageJ writes what is beyond 4 GB: planes lie behind the first one, without pages of their own.
    data = volume(3, 4, 2, 20, 30)
    description = "ImageJ=1.53t\nimages=24\nchannels=2\nslices=4\nframes=3\nhyperstack=true\n"
    options = {"description": description, "metadata": None, "byteorder": byteorder, **GRAY}
    tifffile.imwrite(tmp_path / "in.tif", data[0, 0, 0], **options)
    with tifffile.TiffFile(tmp_path / "in.tif") as tif:
        (offset,) = tif.pages[0].dataoffsets
    stored = data.astype(data.dtype.newbyteorder(byteorder)).tobytes()
    head = (tmp_path / "in.tif").read_bytes()
    (tmp_path / "in.tif").write_bytes(head[:offset] + stored)
    _, out = replay(tmp_path / "in.tif")
    assert_replayed(out, data.transpose(0, 2, 1, 3, 4), "tczyx")
    assert_replayed(out, *tifffile_reads(tmp_path / "in.tif"))
    # Of a file that was cut off, whole planes are kept and the rest is missing; the run says so.
    (tmp_path / "cut.tif").write_bytes(head[:offset] + stored[: len(stored) * 2 // 3 - 5])
    report, out = replay(tmp_path / "cut.tif", code=3)
    assert report["frames_written"] == 15 and "15 of the 24" in report["error"]["message"]
    assert report["missing"] == [{"start": 15, "end": 24}] and report["frames_missing"] == 9
    flat = data.reshape(24, 20, 30).copy()
    flat[15:] = 0
    expected = flat.reshape(data.shape)[:2].transpose(0, 2, 1, 3, 4)
    assert_same(open_zarr_python(out / "0")[...], np.ascontiguousarray(expected))


def test_white_is_zero_and_palettes_are_told(replay, tmp_path):
    data = volume(20, 30, dtype="u1")
    tifffile.imwrite(tmp_path / "white.tif", data, photometric="miniswhite")
    report, _ = replay(tmp_path / "white.tif")
    assert "as they are stored" in report["notes"][0]
    colors = np.zeros((3, 256), "u2")
    tifffile.imwrite(tmp_path / "palette.tif", data, photometric="palette", colormap=colors)
    report, out = replay(tmp_path / "palette.tif")
    assert "palette" in report["notes"][0]
    assert_replayed(out, data[None], "tyx")


@pytest.mark.parametrize("bits", [1, 2, 4, 10, 12, 14, 24])
def test_packed_samples(replay, tmp_path, bits):
    # Of 1 bit, tifffile writes and reads booleans.
    dtype = "u4" if bits > 16 else "u2" if bits > 8 else "u1"
    data = (volume(3, 20, 31, dtype="u4") % (1 << bits)).astype(dtype)
    options = {"bitspersample": bits} if bits > 1 else {}
    tifffile.imwrite(tmp_path / "in.tif", data if bits > 1 else data.astype(bool), **GRAY, **options)
    report, out = replay(tmp_path / "in.tif")
    assert f"{bits} bits" in report["notes"][0]
    assert_replayed(out, tifffile.imread(tmp_path / "in.tif").astype(dtype), "tyx")
    assert_replayed(out, data, "tyx")


@pytest.mark.parametrize(
    "options", [{}, {"compression": "zlib", "predictor": 3}, {"tile": (16, 16)}, {"byteorder": ">"}]
)
def test_half_precision(replay, tmp_path, options):
    data = volume(3, 20, 30, dtype="f2")
    data[0, 0, :6] = [np.inf, -np.inf, 6e-8, -0.0, 65504, 1e-5]
    tifffile.imwrite(tmp_path / "in.tif", data, **GRAY, **options)
    report, out = replay(tmp_path / "in.tif")
    assert "half-precision" in report["notes"][0]
    assert_replayed(out, data.astype("f4"), "tyx")


@pytest.mark.parametrize("kind", ["gray", "rgb", "rgb-tiles", "ycbcr"])
def test_jpeg(replay, tmp_path, kind):
    y, x = np.indices((96, 128))
    gray = ((np.sin(x / 9) + np.cos(y / 7) + 2) * 60).astype("u1")
    color = np.stack([gray, gray.T.copy().reshape(96, 128), 255 - gray], axis=-1)
    data, options = {
        "gray": (gray, GRAY),
        "rgb": (color, {**RGB, "compressionargs": {"outcolorspace": "rgb"}}),
        "rgb-tiles": (color, {**RGB, "tile": (32, 64), "compressionargs": {"outcolorspace": "rgb"}}),
        "ycbcr": (color, {"photometric": "ycbcr", "subsampling": (1, 1)}),
    }[kind]
    tifffile.imwrite(tmp_path / "in.tif", data, compression="jpeg", **options)
    _, out = replay(tmp_path / "in.tif")
    expected, axes = tifffile_reads(tmp_path / "in.tif")
    array = open_zarr_python(out / "0")
    assert "".join(array.metadata.dimension_names) == axes
    # Decoders round differently.
    assert np.abs(array[...].astype(int) - expected.astype(int)).max() <= 3


def test_pyramids_and_thumbnails(replay, tmp_path):
    data = volume(3, 64, 96)
    with tifffile.TiffWriter(tmp_path / "in.ome.tif") as tif:
        tif.write(data, subifds=1, metadata={"axes": "TYX"}, **GRAY)
        tif.write(data[:, ::2, ::2], subfiletype=1, **GRAY)
    report, out = replay(tmp_path / "in.ome.tif")
    assert_replayed(out, data, "tyx")
    assert "full resolution" in report["notes"][0]
    with tifffile.TiffWriter(tmp_path / "thumbnails.tif") as tif:
        for page in data:
            tif.write(page, metadata=None, **GRAY)
            tif.write(page[::4, ::4], subfiletype=1, metadata=None, **GRAY)
    report, out = replay(tmp_path / "thumbnails.tif")
    assert_replayed(out, data, "tyx")
    assert "3 pages are not read, as smaller copies" in report["notes"][0]


def test_colour_channels_have_names(replay, tmp_path):
    tifffile.imwrite(tmp_path / "in.tif", volume(20, 30, 3, dtype="u1"), **RGB)
    _, out = replay(tmp_path / "in.tif")
    channels = zarr.open_group(out, mode="r").attrs["ome"]["omero"]["channels"]
    assert [(c["label"], c["color"]) for c in channels] == [("R", "FF0000"), ("G", "00FF00"), ("B", "0000FF")]


REFUSED = {
    "lerc": (volume(20, 30), {"compression": "lerc", **GRAY}, "LERC"),
    "jpeg-2000": (volume(20, 30), {"compression": "jpeg2000", **GRAY}, "JPEG 2000"),
    "webp": (volume(32, 32, 3, dtype="u1"), {"compression": "webp", **RGB}, "WebP"),
    "lzma": (volume(20, 30), {"compression": "lzma", **GRAY}, "LZMA"),
    "complex": (volume(20, 30, dtype="f4").astype("c8"), GRAY, "complex samples of 64 bits"),
    "float24": (
        volume(20, 30, dtype="f4"), {"bitspersample": 24, "compression": "zlib", "predictor": 3, **GRAY}, "24 bits"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_kinds_of_tiff_that_are_refused(refused, tmp_path, kind):
    data, options, expected = REFUSED[kind]
    try:
        tifffile.imwrite(tmp_path / "in.tif", data, **options)
    except ValueError as error:
        # tifffile reads but doesn't write these; the field is changed in a file that it does write.
        assert kind == "float24", error
        tifffile.imwrite(tmp_path / "in.tif", data, **GRAY)
        with tifffile.TiffFile(tmp_path / "in.tif", mode="r+") as tif:
            tif.pages[0].tags["BitsPerSample"].overwrite(24)
    before = (tmp_path / "in.tif").read_bytes()
    assert expected in refused(tmp_path / "in.tif", code=5)
    assert (tmp_path / "in.tif").read_bytes() == before


@pytest.mark.parametrize("tags", [(32997,), (32997, 32998)], ids=str)
def test_volumes_in_a_page_are_refused(refused, tmp_path, tags):
    """Of a page with ImageDepth or TileDepth, one plane is not all."""
    data = volume(4, 32, 48)
    options = {"tile": (2, 16, 16)} if 32998 in tags else {}
    tifffile.imwrite(tmp_path / "in.tif", data, volumetric=True, metadata=None, **options, **GRAY)
    with tifffile.TiffFile(tmp_path / "in.tif") as tif:
        assert len(tif.pages) == 1 and all(tag in tif.pages[0].tags for tag in tags)
    said = refused(tmp_path / "in.tif", code=5)
    assert "holds a volume of 4 planes, which is not read here; write each plane as a page" in said


def test_pages_that_differ(refused, tmp_path):
    with tifffile.TiffWriter(tmp_path / "in.tif") as tif:
        tif.write(volume(20, 30), metadata=None, **GRAY)
        tif.write(volume(20, 31), metadata=None, **GRAY)
    assert "page 1 of" in refused(tmp_path / "in.tif")


NPY = {
    "u2": volume(5, 20, 30),
    "u2-big-endian": volume(5, 20, 30).astype(">u2"),
    "f8": volume(5, 20, 30, dtype="f8"),
    "bool": volume(5, 20, 30) > 30,
    "one-image": volume(20, 30),
}


@pytest.mark.parametrize("kind", NPY)
def test_npy(replay, tmp_path, kind):
    data = NPY[kind]
    np.save(tmp_path / "in.npy", data)
    _, out = replay(tmp_path / "in.npy")
    expected = data.view("u1") if data.dtype == bool else data.astype(data.dtype.newbyteorder("="))
    assert_replayed(out, expected.reshape((-1, *data.shape[-2:])), "tyx")


def test_npy_with_axes(replay, refused, tmp_path):
    data = volume(2, 3, 4, 20, 30)
    np.save(tmp_path / "in.npy", data)
    assert "--axes" in refused(tmp_path / "in.npy", code=2)
    assert_replayed(replay(tmp_path / "in.npy", "--axes", "t,c,z,y,x")[1], data, "tczyx")
    whole = (tmp_path / "in.npy").read_bytes()
    (tmp_path / "in.npy").write_bytes(whole[: len(whole) // 2])
    report, _ = replay(tmp_path / "in.npy", "--axes", "t,c,z,y,x", code=3)
    message = report["error"]["message"]
    assert "frame 11" in message and "too early" in message and report["frames_written"] == 11


def test_npy_that_is_refused(refused, tmp_path):
    np.save(tmp_path / "fortran.npy", np.asfortranarray(volume(5, 20, 30)))
    assert "ascontiguousarray" in refused(tmp_path / "fortran.npy", code=5)
    np.save(tmp_path / "complex.npy", volume(5, 20, 30, dtype="f4").astype("c8"))
    assert "<c8" in refused(tmp_path / "complex.npy", code=5)
    np.save(tmp_path / "records.npy", np.zeros((3, 4), [("a", "u2"), ("b", "f4")]))
    assert "records" in refused(tmp_path / "records.npy", code=5)
    np.save(tmp_path / "flat.npy", np.arange(9))
    assert "two dimensions" in refused(tmp_path / "flat.npy")
    np.savez(tmp_path / "in.npz", movie=volume(5, 20, 30))
    assert "zip archive" in refused(tmp_path / "in.npz", code=5)
    (tmp_path / "movie.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    assert "h5dump" in refused(tmp_path / "movie.h5", code=5)
    assert "--dtype" in refused(tmp_path / "fortran.npy", "--dtype", "u2", code=2)


def hostile(path):
    """Files that claim more than they hold."""
    tifffile.imwrite(path, volume(3, 50, 70), compression="zlib", rowsperstrip=10, **GRAY)
    whole = path.read_bytes()
    with tifffile.TiffFile(path) as tif:
        tags = {tag.name: tag.offset for tag in tif.pages[0].tags.values()}
        chain = tif.pages[0].offset + 2 + len(tif.pages[0].tags) * 12
        first = tif.pages[0].offset

    def changed(offset, value, size=4):
        return whole[:offset] + value.to_bytes(size, "little") + whole[offset + size :]

    yield "width", changed(tags["ImageWidth"] + 8, 0x7FFFFFFF)
    yield "height", changed(tags["ImageLength"] + 8, 1_000_000_000)
    yield "more strips", changed(tags["StripOffsets"] + 4, 0xFFFFFFFF)
    yield "no strips", changed(tags["StripOffsets"] + 4, 1)
    yield "strip bytes", changed(tags["StripByteCounts"] + 8, 0xFFFFFFF0)
    yield "type", changed(tags["StripOffsets"] + 2, 99, 2)
    yield "rows of a strip", changed(tags["RowsPerStrip"] + 8, 0)
    yield "samples", changed(tags["SamplesPerPixel"] + 8, 65535, 2)
    yield "circle", changed(chain, first)
    yield "chain", changed(chain, 0xFFFFFFF0)
    yield "fields", changed(first, 65535, 2)
    yield "no page", changed(4, 0)
    for length in [4, 8, 9, 100, 300, len(whole) // 2, len(whole) - 1]:
        yield f"cut at {length}", whole[:length]


def test_hostile_files(command, tmp_path):
    for name, content in hostile(tmp_path / "in.tif"):
        (tmp_path / "in.tif").write_bytes(content)
        call = [command, "replay", tmp_path / "in.tif", tmp_path / "out.zarr", "--overwrite", "--memory", "64MiB"]
        codes = (0,) if name == "more strips" else (2, 3)
        # 4 GB of address space: what allocates by claims alone fails.
        limited = ["prlimit", "--as=4294967296", *map(str, call)]
        done = subprocess.run(limited, capture_output=True, text=True, timeout=60)
        assert done.returncode in codes, (name, done.returncode, done.stderr)
        assert "panicked" not in done.stderr, name
        if name.startswith("cut") or name in ("circle", "chain"):
            assert done.returncode == 3, name
