"""Pixels and fill values of every element type; numpy alone, so that every writer's interpreter has them."""

import numpy as np

STRUCT = [("a", "<i4"), ("b", "<f4")]
FILLS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf"), "-0.0": -0.0, "1.5": 1.5}


def dtype_of(name):
    return np.dtype(STRUCT if name == "struct" else name)


def pixels(kind, dtype, shape, seed):
    """The same for the same words: noise, ramps, a few values, or those that floats have for special occasions."""
    rng = np.random.default_rng(seed)
    dtype = dtype_of(dtype)
    count = int(np.prod(shape, dtype=int))
    if dtype.kind == "b":
        return (rng.integers(0, 2, count) > 0).reshape(shape)
    if dtype.kind in "VSUMm":
        # Small numbers: letters, dates and times that exist.
        width = {"U": "<u4", "M": "<i8", "m": "<i8"}.get(dtype.kind, "u1")
        raw = rng.integers(1, 100, count * dtype.itemsize // np.dtype(width).itemsize).astype(width)
        return raw.view(dtype).reshape(shape)
    if kind == "steps":
        values = np.arange(count) % 100
    elif kind == "few":
        values = rng.integers(0, 3, count)
    elif dtype.kind in "iu":
        return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).reshape(shape)
    elif kind == "special":
        # Not a number has many bit patterns: these are of noise.
        noise = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype)
        special = rng.choice(np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5]), count).astype(dtype)
        return np.where(rng.integers(0, 2, count), noise, special).astype(dtype).reshape(shape)
    else:
        values = rng.normal(size=count) * 100
    return values.astype(dtype).reshape(shape)


def fill_value(name, dtype):
    """The value that a cell names, of that type."""
    dtype = dtype_of(dtype)
    if dtype.kind in "VSUMm":
        return np.zeros((), dtype)[()]
    if dtype.kind == "b":
        return np.bool_(name != "0")
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return dtype.type({"0": 0, "most": limits.max, "small": limits.min}.get(name, 1))
    if name == "small":
        # The smallest that is more than zero, and the first that 32 bits hold only roughly.
        return dtype.type(np.nextafter(dtype.type(0), dtype.type(1)) if dtype.kind == "f" else 1e-3)
    return dtype.type(FILLS.get(name, 0))


def boxes(parts):
    """What is written, as indexes: everything without parts."""
    if parts is None:
        return [...]
    return [tuple(slice(*bounds) for bounds in part) for part in parts]
