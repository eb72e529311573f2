"""Files that tifffile reads and does not write, and pixels as cameras pack them."""

import struct

import numpy as np
import tifffile

from recordings import GRAY, RGB


def lsm(path, data, scan_type, sizes=None, positions=0):
    """Zeiss LSM of t, z, c, y, x: a page for each plane with its channels as planes, a thumbnail behind each."""
    frames, slices, channels, height, width = data.shape
    sizes = sizes or (width, height, slices, channels, frames)
    info = struct.pack("<2I8i6dHHI4Id", 0x0400494C, 500, *sizes, 2, 8, 8, 1e-7, 2e-7, 5e-7, 0, 0, 0, scan_type, 0, 0,
                       0, 0, 0, 0, 0.5)  # fmt: skip
    info = info.ljust(264, b"\0") + struct.pack("<i", positions)
    with tifffile.TiffWriter(path) as tif:
        for plane in data.reshape(-1, channels, height, width):
            first = {"extratags": [(34412, 1, 500, info.ljust(500, b"\0"), True)]} if info else {}
            planar = {"planarconfig": "separate"} if channels > 1 else {}
            tif.write(plane if channels > 1 else plane[0], metadata=None, **planar, **GRAY, **first)
            tif.write(plane[0, ::4, ::4], subfiletype=1, metadata=None, **GRAY)
            info = b""


def stk(path, data, distance):
    """MetaMorph STK: one page, and all planes behind where its pixels begin."""
    planes = len(data)
    table = [word for plane in range(planes) for word in (distance, 1, 2459000, 1000 * plane, 0, 0)]
    tags = [(33628, 4, 2, (0, 0), True), (33629, 5, 3 * planes, tuple(table), True)]
    tifffile.imwrite(path, data[0], metadata=None, extratags=tags, **GRAY)
    with tifffile.TiffFile(path) as tif:
        (start,) = tif.pages[0].dataoffsets
        count = tif.pages[0].tags[33629].offset + 4
    head = bytearray(path.read_bytes()[:start])
    struct.pack_into("<I", head, count, planes)
    path.write_bytes(bytes(head) + data.tobytes())


def svs(path, data, planes=1):
    """Aperio SVS of z, y, x, samples."""
    tiles = {"tile": (16, 16), "metadata": None, "compression": "zlib", **RGB}
    with tifffile.TiffWriter(path) as tif:
        tif.write(data[0], description="Aperio Image Library v12\r\n64x48|AppMag = 20|MPP = 0.4990", **tiles)
        tif.write(data[0, ::4, ::4], metadata=None, **RGB)
        for plane in data[1:planes]:
            tif.write(plane, **tiles)
        for plane in data[:planes]:
            tif.write(np.ascontiguousarray(plane[::2, ::2]), **tiles)
        tif.write(data[0, :10, :12], subfiletype=1, metadata=None, **RGB)
        tif.write(data[0, :12, :10], subfiletype=9, metadata=None, **RGB)


def scanimage(path, data):
    """ScanImage of z, t, c, y, x."""
    channels = ";".join(map(str, range(1, data.shape[2] + 1)))
    text = f"SI.VERSION_MAJOR = 5\nSI.hChannels.channelSave = [{channels}]\n"
    text += f"SI.hStackManager.framesPerSlice = {data.shape[1]}\n"
    pages = data.reshape(-1, *data.shape[-2:])
    tifffile.imwrite(path, pages, software=text, metadata=None, **GRAY)


def with_tag(path, tag, value):
    """Changes a field of the first page."""
    with tifffile.TiffFile(path, mode="r+") as tif:
        tif.pages[0].tags[tag].overwrite(value)


def stream(pixels, bits):
    """Pixels one after the other, the lowest bit of each first."""
    values = pixels.reshape(-1).astype("u4")
    return np.packbits((values[:, None] >> np.arange(bits) & 1).astype("u1"), bitorder="little").tobytes()


def pairs(pixels, bits):
    """Two pixels in three bytes, their lowest bits in the second one."""
    values = pixels.reshape(-1).astype("u4")
    odd = len(values) % 2
    one, other = np.append(values, np.zeros(odd, "u4")).reshape(-1, 2).T
    low = bits - 8
    middle = (one & (1 << low) - 1) | (other & (1 << low) - 1) << 4
    packed = np.stack([one >> low, middle, other >> low], axis=-1).astype("u1").tobytes()
    return packed[: len(packed) - odd]


PACKED = {
    "mono10p": (10, lambda pixels: stream(pixels, 10)),
    "mono12p": (12, lambda pixels: stream(pixels, 12)),
    "mono14p": (14, lambda pixels: stream(pixels, 14)),
    "mono10packed": (10, lambda pixels: pairs(pixels, 10)),
    "mono12packed": (12, lambda pixels: pairs(pixels, 12)),
    "big-endian": (16, lambda pixels: pixels.astype(">u2").tobytes()),
    "plain": (16, lambda pixels: pixels.tobytes()),
}
