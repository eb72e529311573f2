"""Reads what tests/encoder writes to a folder by numcodecs, and says how much that was.

Usage: python read_batch.py FOLDER
"""

import struct
import sys
from pathlib import Path

from numcodecs import blosc, zstd


def pieces(data: bytes):
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        yield data[at + 4 : at + 4 + length]
        at += 4 + length


folder = Path(sys.argv[1])
frames = 0
both = pieces((folder / "blosc.bin").read_bytes())
for frame, tile in zip(both, both):
    if blosc.decompress(frame) != tile:
        sys.exit(f"numcodecs decodes Blosc frame {frames} wrongly")
    frames += 1
# numcodecs takes one frame at a time; where each ends, its blocks say.
data, raw = (folder / "frames.zst").read_bytes(), (folder / "frames.raw").read_bytes()
at = raw_at = zstd_frames = 0
while at < len(data):
    flag = data[at + 4] >> 6
    end = at + 5 + (1, 2, 4, 8)[flag]
    last = False
    while not last:
        header = int.from_bytes(data[end : end + 3], "little")
        last = bool(header & 1)
        end += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)
    tile = zstd.decompress(data[at:end])
    if tile != raw[raw_at : raw_at + len(tile)]:
        sys.exit(f"numcodecs decodes Zstandard frame {zstd_frames} wrongly")
    at, raw_at, zstd_frames = end, raw_at + len(tile), zstd_frames + 1
if raw_at != len(raw):
    sys.exit(f"numcodecs decodes {raw_at} bytes of Zstandard, expected {len(raw)}")
print(f"numcodecs: {frames} Blosc and {zstd_frames} Zstandard frames")
