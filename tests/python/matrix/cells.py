"""A cell: one dataset of one writer, and what is to be done with it. Plain JSON, and the same for the same seed."""

import random

# How often each writer has its turn. zarr2 is zarr-python 2.18; draft, its experimental Zarr v3 of 2022.
WRITERS = {
    "zarr-python": 6,
    "zarr-python-v2": 3,
    "zarr2": 4,
    "draft": 1,
    "tensorstore-zarr3": 4,
    "tensorstore-zarr2": 3,
    "tensorstore-volume": 2,
    "cloud-volume": 1,
    "ome-zarr": 1,
    "ngff-zarr": 1,
}
TURNS = [name for name, times in WRITERS.items() for _ in range(times)]

PLAIN = ["|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f4", "<f8"]
BIG = [">u2", ">i2", ">u4", ">i4", ">u8", ">i8", ">f4", ">f8"]
RARE = ["|b1", "<f2", "<c8", "<c16", "|V3", "|V4", ">f2", ">c8", ">c16"]
# What only Zarr's own readers know what to do with.
STRANGE = ["<M8[s]", "<m8[ns]", "|S5", "<U4", "struct"]

FLOAT_FILLS = ["0", "1.5", "nan", "inf", "-inf", "-0.0", "small"]
LENGTHS = [1, 2, 3, 4, 5, 6, 7, 9, 12, 13]
NAMES = ["t", "z", "c", "y", "x", "angle", "été", ""]
ATTRIBUTES = [
    ("zz", 1),
    ("aa", 2**70 + 1),
    ("low", -(2**65)),
    ("nan", float("nan")),
    ("inf", float("-inf")),
    ("float", 0.1),
    ("whole", 1.0),
    ("small", 5e-324),
    ("large", 1e300),
    ("minus", -0.0),
    ("text", 'quote " back \\ line \n tab \t null \u0000 é 𝄞 \u2028'),
    ("ключ", {"z": [1, 2.0, None, True], "a": {}}),
    ("", []),
    ("deep", {"b": {"d": [[[]], {"e": "f"}]}, "a": [1.0, 2]}),
    ("none", None),
    ("shard_shape", [1, 2]),
    ("_ARRAY_DIMENSIONS_", ["y", "x"]),
    ("64", 18446744073709551615),
]
TAME = [(name, value) for name, value in ATTRIBUTES if name not in ("nan", "inf", "aa", "low")]
LAYOUTS = [[], ["0"], ["0"], ["0", "1"], ["a", "img/0", "img/1"], ["deep/er/a", "b"], ["0", "labels/x/0", "table"]]
BLOSC = [("lz4", "noshuffle"), ("lz4", "shuffle"), ("lz4", "bitshuffle"), ("zstd", "bitshuffle"), ("zlib", "shuffle"),
         ("lz4hc", "bitshuffle"), ("blosclz", "shuffle")]  # fmt: skip


def writer_of(number):
    return TURNS[number % len(TURNS)]


def numbers(count, writers=()):
    """Of the first `count` cells, those of some writers, or all."""
    return [number for number in range(count) if not writers or writer_of(number) in writers]


def cell(seed, number):
    """The cell of that number among those of a seed."""
    pick = Pick(f"{seed}/{number}")
    writer = writer_of(number)
    out = {"seed": seed, "number": number, "writer": writer}
    if writer in ("tensorstore-volume", "cloud-volume"):
        out |= volume(pick, writer)
    elif writer in ("ome-zarr", "ngff-zarr"):
        out |= ome_image(pick, writer)
    else:
        out |= tree(pick, writer)
    out["steps"] = steps(pick, out)
    return out


class Pick(random.Random):
    wild = False

    def seldom(self, of_one):
        """Of what not every reader has."""
        return self.chance(of_one) and self.wild

    def chance(self, of_one):
        return self.random() < of_one

    def lengths(self, count, zero=0.0):
        return [0 if self.chance(zero) else self.choice(LENGTHS) for _ in range(count)]


def attributes(pick, json=True):
    if pick.chance(0.3):
        return {}
    # Infinities stop tensorstore, and integers of more than 64 bits do in some places.
    known = ATTRIBUTES if json and pick.chance(0.1) else TAME
    return dict(pick.sample(known, pick.randrange(1, 8)))


def tree(pick, writer):
    """A group of arrays, or an array alone."""
    paths = pick.choice(LAYOUTS)
    if writer == "draft" and not paths:
        paths = ["0"]
    v3 = writer in ("zarr-python", "tensorstore-zarr3")
    groups = sorted({"/".join(path.split("/")[:depth]) for path in paths for depth in range(path.count("/") + 1)})
    rank = None if pick.chance(0.5) else pick.randrange(2, 6)
    # One unusual array closes a group to some commands: most groups have none.
    pick.wild = pick.chance(0.35)
    types = PLAIN + BIG + 2 * RARE + STRANGE if pick.wild else PLAIN + BIG
    if writer == "tensorstore-zarr3":
        # It ends the process at names of dimensions beside raw bits, and has none of the strange ones.
        types = [name for name in types if name not in STRANGE and name[1] != "V"]
    arrays = [array(pick, writer, path, rank, types) for path in paths or [""]]
    out = {
        "arrays": arrays,
        "groups": {path: attributes(pick) for path in groups},
        "consolidated": writer != "draft" and bool(groups) and pick.chance(0.5),
    }
    if out["groups"] and paths[0] == "0" and 2 <= len(arrays[0]["shape"]) and writer != "draft" and pick.chance(0.5):
        out["ome"] = {"version": "0.5" if v3 else "0.4", "axes": ome_axes(pick, len(arrays[0]["shape"]))}
    return out


def ome_axes(pick, rank):
    if rank == 5:
        return "tczyx"
    return pick.choice({2: ["yx"], 3: ["tyx", "cyx", "zyx"], 4: ["tzyx", "czyx", "tcyx"]}[rank])


def array(pick, writer, path, rank, types):
    if rank is None:
        rank = pick.choice([0, 1, 1, 2, 2, 3, 3, 3, 4, 5])
    dtype = pick.choice(types)
    shape = pick.lengths(rank, 0.02)
    chunk = [pick.choice([1, 2, 3, 4, 5, max(length, 1), length + 2]) for length in shape]
    out = {
        "path": path,
        "dtype": dtype,
        "shape": shape,
        "chunk": chunk,
        "fill": fill(pick, dtype),
        "attributes": attributes(pick),
        "pixels": pick.choice(["noise", "noise", "steps", "few", "special"]),
        "parts": parts(pick, shape),
    }
    if writer in ("zarr-python", "tensorstore-zarr3"):
        return out | version3(pick, writer, out)
    return out | version2(pick, writer, out)


def fill(pick, dtype):
    if pick.chance(0.4):
        return "0"
    if dtype[1] == "c":
        # zarr-python 2.18 adds the two parts, and of minus zero nothing is left.
        return pick.choice([value for value in FLOAT_FILLS if value != "-0.0"])
    return pick.choice(FLOAT_FILLS if dtype[1] == "f" else ["0", "1", "most", "small"])


def parts(pick, shape):
    """Which boxes are written; the rest of the array stays as nobody wrote it."""
    kind = pick.choice(["all", "all", "all", "none", "some", "some"])
    if kind == "all" or not shape:
        return None if kind != "none" else []
    out = []
    for _ in range(0 if kind == "none" else pick.randrange(1, 3)):
        starts = [pick.randrange(length) if length else 0 for length in shape]
        stops = [pick.randrange(start, length) + 1 if length else 0 for start, length in zip(starts, shape)]
        out.append([list(span) for span in zip(starts, stops)])
    return out


def version3(pick, writer, has):
    rank = len(has["shape"])
    sharded = rank > 0 and pick.chance(0.6)
    out = {
        "codecs": codecs3(pick, writer, has["dtype"]),
        "endian": pick.choice(["little", "little", "little", "big"]),
        "transpose": pick.sample(range(rank), rank) if rank > 1 and pick.seldom(0.25) else None,
        "separator": pick.choice(["/", "/", "/", "."]),
        "keys": pick.choice(["default", "default", "default", "v2"]),
        "names": names(pick, rank),
        "shard": [size * pick.choice([1, 2, 2, 3]) for size in has["chunk"]] if sharded else None,
    }
    if sharded:
        out["index"] = {
            "location": pick.choice(["end", "end", "start"]),
            "crc": pick.chance(0.8),
            "endian": "big" if pick.seldom(0.15) else "little",
        }
        if pick.seldom(0.15):
            # Chunks in shards in shards.
            out["outer"] = [size * pick.choice([1, 2]) for size in out["shard"]]
        if pick.seldom(0.15):
            # tensorstore has no codecs after a shard's.
            out["around"] = pick.choice(["crc32c", "gzip", "transpose"] if writer == "zarr-python" else ["transpose"])
    return out


def names(pick, rank):
    if pick.chance(0.35):
        return None
    if pick.chance(0.15):
        return [None if pick.chance(0.5) else pick.choice(NAMES) for _ in range(rank)]
    return ["t", "c", "z", "y", "x"][5 - rank :]


def codecs3(pick, writer, dtype):
    kinds = ["none", "gzip", "zstd", "blosc", "blosc", "blosc"]
    if writer == "zarr-python" and pick.chance(0.15):
        kinds = ["numcodecs.lz4", "numcodecs.zlib"]
    if writer == "zarr-python" and pick.seldom(0.3):
        kinds = ["bz2", "zstd", "gzip", "lzma", "blosc", "crc32", "adler32", "shuffle", "fletcher32"]
        kinds = [f"numcodecs.{name}" for name in kinds]
    kind = pick.choice(kinds)
    out = {"kind": kind, "level": pick.choice([1, 3, 5]), "crc": pick.chance(0.3)}
    if "blosc" in kind:
        out["cname"], out["shuffle"] = pick.choice(BLOSC)
    if kind == "zstd":
        out["checksum"] = pick.chance(0.3)
    return out


def version2(pick, writer, has):
    kinds = ["none", "gzip", "zlib", "zstd", "blosc", "blosc", "blosc", "lz4"]
    if writer == "tensorstore-zarr2":
        kinds.remove("lz4")
    if pick.seldom(0.3):
        kinds = ["bz2", "lzma"] if writer != "tensorstore-zarr2" else ["bz2"]
    codec = {"kind": pick.choice(kinds), "level": pick.choice([1, 3, 5])}
    if codec["kind"] == "blosc":
        codec["cname"], codec["shuffle"] = pick.choice(BLOSC)
    out = {
        "codecs": codec,
        "order": "F" if len(has["shape"]) > 1 and pick.seldom(0.4) else "C",
        "separator": pick.choice([".", "/"]),
        "filters": pick.choice(["delta", "shuffle", "crc32"]) if writer != "draft" and pick.seldom(0.25) else None,
        "names": names(pick, len(has["shape"])) if pick.chance(0.5) else None,
    }
    if writer == "draft":
        out["shard"] = [pick.choice([1, 2, 3]) for _ in has["shape"]] if has["shape"] and pick.chance(0.7) else None
        if out["codecs"]["kind"] == "lzma":
            out["codecs"]["kind"] = "gzip"
    elif pick.chance(0.15):
        out["null_fill"] = True
    return out


def volume(pick, writer):
    """`shape` is x, y, z, channels."""
    shape = [*pick.lengths(3), pick.choice([1, 1, 1, 2, 3])]
    chunk = [pick.choice([1, 2, 3, 4, 8, 64]) for _ in range(3)]
    sharding = None
    if pick.chance(0.6):
        sharding = {
            "@type": "neuroglancer_uint64_sharded_v1",
            "hash": pick.choice(["identity", "murmurhash3_x86_128"]),
            "preshift_bits": pick.randrange(0, 4),
            "minishard_bits": pick.randrange(0, 4),
            "shard_bits": pick.randrange(0, 4),
            "minishard_index_encoding": pick.choice(["raw", "gzip"]),
            "data_encoding": pick.choice(["raw", "gzip"]),
        }
    types = ["uint8", "uint16", "uint32", "uint64", "float32"]
    if writer == "tensorstore-volume":
        types += ["int8", "int16", "int32"]
    dtype = pick.choice(types)
    encodings = ["raw"] * 9 + (["compressed_segmentation"] if dtype in ("uint32", "uint64") else ["png", "jpeg"])
    encoding = pick.choice(encodings)
    if encoding in ("png", "jpeg") and (writer == "cloud-volume" or dtype != "uint8" or shape[3] == 2):
        encoding = "raw"
    if writer == "cloud-volume" and sharding:
        # Its shards are made of chunks that nobody has encoded.
        encoding = "raw"
    return {
        "shape": shape,
        "chunk": chunk,
        "dtype": dtype,
        "encoding": encoding,
        "sharding": sharding,
        "offset": [pick.choice([0, 0, 5, -7]) for _ in range(3)],
        "resolution": [pick.choice([1, 4, 0.5, 40]) for _ in range(3)],
        "type": pick.choice(["image", "segmentation"]),
        "mine": attributes(pick, json=False),
        "compress": pick.choice([False, False, "gzip", "br"]) if writer == "cloud-volume" and not sharding else False,
        "pixels": pick.choice(["noise", "steps", "few"]),
        "parts": parts(pick, shape) if writer == "tensorstore-volume" else None,
    }


def ome_image(pick, writer):
    axes = pick.choice(["yx", "zyx", "tyx", "cyx", "czyx", "tzyx", "tczyx"])
    shape = [pick.choice([1, 2, 3]) if name in "tc" else pick.choice([8, 9, 16, 21]) for name in axes]
    return {
        "axes": axes,
        "shape": shape,
        "chunk": [min(length, pick.choice([1, 2, 4, 8])) for length in shape],
        "shard": pick.chance(0.5),
        "version": pick.choice(["0.4", "0.5"]),
        "dtype": pick.choice(["uint8", "uint16", "int16", "float32"]),
        "pixels": pick.choice(["noise", "steps", "few"]),
        "scales": pick.choice([1, 1, 2]),
        "scale": [pick.choice([0.325, 1.0, 2]) for _ in shape],
        "labels": writer == "ome-zarr" and pick.chance(0.3),
    }


DIALECTS = ["zarr3", "zarr3", "zarr2", "zarr2", "precomputed", "precomputed", "zarr3-transformer", "zarr2-sharded"]
CODECS = "none blosc-noise blosc-lz4 blosc-zstd blosc-zlib blosc-blosclz zstd gzip lz4 zlib".split()


def steps(pick, has):
    """What is done with the dataset after what is done with each: two copies and a change in place."""
    image = has["arrays"][0] if "arrays" in has else has
    rank = 3 if "resolution" in has else len(image["shape"])
    return {
        "copies": [repack(pick, has, rank, pick.choice([None, *DIALECTS])) for _ in range(2)],
        "in_place": repack(pick, has, rank, own_dialect(has)),
        "manifest": ["--zarr-format", pick.choice(["2", "3"]), *pick.choice([[], ["--inline", "0"]])],
        "region": [[pick.random(), pick.random()] for _ in range(5)],
        "format": pick.choice(["raw", "tif", "ome.tif"]),
    }


def own_dialect(has):
    """What the dataset is of: in place, it can become no other."""
    writer = has["writer"]
    if writer in ("zarr-python-v2", "zarr2", "tensorstore-zarr2") or has.get("version") == "0.4":
        return "zarr2"
    if "resolution" in has:
        return "precomputed"
    return "zarr3-transformer" if writer == "draft" else None


def repack(pick, has, rank, dialect):
    out = ["--dialect", dialect] if dialect else []
    arrays = has.get("arrays", [])
    image = arrays[0] if arrays else has
    if len(arrays) > 1 and pick.chance(0.8 if dialect not in (None, "zarr3") else 0.2):
        # A dataset of one array wants to know which.
        images = [array for array in arrays if len(array["shape"]) > 1]
        image = pick.choice(images or arrays)
        rank = len(image["shape"])
        out += ["--only", image["path"]] if pick.chance(0.8) else ["--skip", image["path"]]
    if dialect in (None, "zarr3") and pick.chance(0.06):
        return [*out, "--unsharded"]
    if dialect == "precomputed":
        return [*out, *to_volume(pick, rank)]
    # Without shards, somebody must say how large they shall be.
    if pick.chance(0.4 if image.get("shard") else 0.9) and rank:
        chunk = [pick.choice([1, 2, 3, 4, 7]) for _ in range(rank if pick.chance(0.8) else pick.randrange(1, rank + 1))]
        out += ["--chunk", ",".join(map(str, chunk))]
        if dialect != "zarr2" and pick.chance(0.95):
            out += ["--shard", ",".join(str(size * pick.choice([1, 2, 3])) for size in chunk)]
    elif pick.chance(0.1) and rank and dialect != "zarr2":
        out += ["--shard", ",".join(str(pick.choice([2, 4, 6, 12])) for _ in range(rank))]
    if pick.chance(0.5):
        codec = pick.choice(CODECS)
        out += ["--codec", codec]
        if dialect in (None, "zarr3"):
            out += ["--no-checksum"] if pick.chance(0.2) else []
        if codec in ("gzip", "zstd", "zlib"):
            out += ["--level", pick.choice(["1", "3", "9"])] if pick.chance(0.3) else []
    if dialect in (None, "zarr3"):
        out += ["--index", pick.choice(["start", "end"])] if pick.chance(0.25) else []
        out += ["--no-index-checksum"] if pick.chance(0.1) else []
    out += ["--order", pick.choice(["morton", "kept"])] if pick.chance(0.2) else []
    out += ["--workers", "1"] if pick.chance(0.2) else []
    return out


def to_volume(pick, rank):
    out = ["--codec", pick.choice(["none", "gzip"])]
    if pick.chance(0.8) and rank > 1:
        chunk = [pick.choice([1, 2, 3, 4, 7]) for _ in range(min(rank, 3))]
        out += ["--chunk", ",".join(map(str, chunk))]
        if pick.chance(0.3):
            out += ["--shard", ",".join(str(2 * size) for size in chunk)]
    hashed = ["--hash", "murmurhash3_x86_128"]
    for words in (hashed, ["--minishard-bits", "1"], ["--gzip-indexes"], ["--scale-key", "fine"]):
        out += words if pick.chance(0.2) else []
    out += ["--order", pick.choice(["morton", "kept"])] if pick.chance(0.2) else []
    return out
