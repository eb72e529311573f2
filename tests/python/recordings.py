"""Pixels to record: structure that compresses, noise that does not, and every value used."""

import zlib

import numpy as np


def movie(dtype, shape):
    """An array that differs along all of its dimensions."""
    dtype = np.dtype(dtype)
    random = np.random.default_rng(zlib.crc32(f"{dtype} {shape}".encode()))
    slow = sum(index * (axis + 3) for axis, index in enumerate(np.indices(shape)))
    if dtype.kind == "f":
        return (slow * 0.25 + random.normal(size=shape)).astype(dtype)
    noise = random.poisson(20, shape)
    top = np.iinfo(dtype)
    return ((slow * 7 + noise) % (int(top.max) + 1 if top.max < 1 << 40 else 1 << 40)).astype(dtype)
