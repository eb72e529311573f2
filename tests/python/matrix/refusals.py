"""What may be refused, with which exit code, and what in the cell must give cause for it.

All cells hold sound data: code 3, which stands for damage, is nearly never right. A refusal that is not in this table,
or for which the cell gives no cause, is a failure.
"""

import re
from typing import Callable, NamedTuple

ONE_ARRAY = ("zarr2", "zarr2-sharded", "zarr3-transformer", "precomputed")
# What is not read here: element types, codecs, filters, encodings.
TYPES = ("<M8[s]", "<m8[ns]", "|S5", "<U4", "struct")
KINDS = ("bz2", "lzma")
NUMCODECS = tuple(f"numcodecs.{name}" for name in ("bz2", "lzma", "crc32", "adler32", "shuffle", "fletcher32"))
ENCODINGS = ("png", "jpeg", "compressed_segmentation")


class Call(NamedTuple):
    """A refused call: of which cell, about which arrays as readers see them, with which options."""

    cell: dict
    pixels: list
    options: list

    def has(self, option, value=None):
        return option in self.options and value in (None, self.options[self.options.index(option) + 1])

    def of(self, option):
        return self.options[self.options.index(option) + 1] if option in self.options else None

    @property
    def dialect(self):
        return self.of("--dialect")

    @property
    def arrays(self):
        return self.cell.get("arrays", [])

    @property
    def is_volume(self):
        return "resolution" in self.cell

    def any_pixels(self, holds):
        """Of no array, readers that agree may have been found."""
        return not self.pixels or any(holds(pixels) for pixels in self.pixels)


def has_filter(array):
    """Writers leave a difference out where numbers are none."""
    return bool(array.get("filters")) and (array["filters"] != "delta" or array["dtype"][1] in "iu")


def unread(array, writer):
    """Whether an array has what is not read here; `array` is one of a cell's, or a cell that is a volume."""
    codec = array.get("codecs", {}).get("kind", "")
    return (
        array.get("dtype") in TYPES
        # zarr-python 2.18 calls these a structure of one field without a name.
        or (writer == "draft" and array["dtype"][1] == "V")
        or codec in KINDS + NUMCODECS
        or (has_filter(array) and writer != "tensorstore-zarr2")
        or array.get("around") == "gzip"
        or array.get("encoding") in ENCODINGS
        or array.get("compress") == "br"
    )


def any_unread(call):
    return any(unread(array, call.cell["writer"]) for array in call.arrays or [call.cell])


def any_array(holds):
    return lambda call: any(map(holds, call.arrays))


def several(call):
    return len(call.pixels) > 1 or len(call.arrays) > 1


def volume_types(call):
    """Whether a volume can't hold the elements of some array."""
    can = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "f4")
    return any(array["dtype"][1:] not in can for array in call.arrays)


def raw_bits(call):
    return any(array["dtype"][1] == "V" for array in call.arrays)


def has_shards(array):
    """With a codec around its shard, a file is one chunk, which is read as a whole."""
    return array.get("shard") and array.get("around") != "crc32c"


def without_shards(call):
    """Whether nobody says how large shards shall be, and some array has none."""
    is_said = call.has("--shard")
    return not is_said and (call.is_volume or ome(call) or any(not has_shards(array) for array in call.arrays))


def chosen_without_shards(call):
    return without_shards(call) and is_choice(call)


def all_without_shards(call):
    return without_shards(call) and not is_choice(call)


def is_choice(call):
    return call.has("--only") or call.has("--skip")


def ome(call):
    return call.cell["writer"] in ("ome-zarr", "ngff-zarr")


def around(array):
    return array.get("outer") or array.get("around")


def rank(of):
    """Whether some array has such a number of dimensions."""
    return lambda call: any(of(len(array["shape"])) for array in call.arrays)


def not_zarr3(call):
    return call.cell["writer"] not in ("zarr-python", "tensorstore-zarr3")


def ranks(of):
    return lambda call: call.any_pixels(lambda pixels: of(pixels.ndim))


def kinds(letters, size=None):
    return lambda call: call.any_pixels(lambda p: p.dtype.kind in letters and size in (None, p.dtype.itemsize))


class Refusal(NamedTuple):
    command: str
    code: int
    sentence: str
    cause: Callable
    why: str


EMPTY = lambda call: call.any_pixels(lambda pixels: 0 in pixels.shape)  # noqa: E731
FLAT = lambda call: call.any_pixels(lambda pixels: pixels.ndim < 2 or 0 in pixels.shape)  # noqa: E731
LAYOUT = lambda call: call.has("--chunk") or call.has("--shard")  # noqa: E731
ALWAYS = lambda call: True  # noqa: E731
VOLUME = lambda call: call.is_volume  # noqa: E731
TO_VOLUME = lambda call: call.dialect == "precomputed"  # noqa: E731
TO_ONE = lambda call: call.dialect in ONE_ARRAY  # noqa: E731

REFUSALS = [
    Refusal("", 5, r"is not read here|are not read here|is not supported", any_unread, "elements and codecs not read"),
    Refusal("recover", 5, r"no image in it was made by shardwright", ALWAYS, "only its slot headers can tell"),
    # TIFF
    Refusal("export", 2, r"a page of TIFF has two dimensions", ranks(lambda rank: rank < 2), "a page is a plane"),
    Refusal("export", 2, r"OME-TIFF knows t, c and z before y and x", ranks(lambda rank: rank > 2), "TCZYX alone"),
    Refusal("export", 2, r"OME-TIFF has no pixels of type u?int64", kinds("ui", 8), "a type OME has not got"),
    Refusal("export", 2, r"OME-TIFF has no pixels of type float16", kinds("f", 2), "a type OME has not got"),
    Refusal("export", 2, r"TIFF has no pixels of type", kinds("cbV"), "types TIFF has not got"),
    Refusal("export", 2, r"the region is empty|a page of TIFF can't have 0 pixels", EMPTY, "a page has pixels"),
    # Manifests
    Refusal("manifest", 5, r"is a precomputed volume, whose last chunks are shorter", VOLUME, "no reader takes these"),
    Refusal("manifest", 5, r"order that Zarr v2 has no word for", any_array(lambda a: a.get("transpose")), "v2 alone"),
    Refusal("manifest", 5, r"shards in its shards or codecs", any_array(around), "v2 alone"),
    # Repacking
    Refusal("", 2, r"in [\w-]+, a call repacks one array, and .* there; choose", several, "formats of one array"),
    Refusal("", 2, r"only one scale of a volume becomes zarr2 in a call", VOLUME, "by way of zarr3"),
    Refusal("", 2, r"a call writes one array of it", several, "formats of one array"),
    Refusal("", 2, r"none of the arrays .* rows and columns, and at least one element", FLAT, "images alone"),
    Refusal("", 2, r"holds no array with shards that is to be repacked", chosen_without_shards, "others may have some"),
    Refusal("", 2, r"holds no array with shards that is to be repacked", all_without_shards, "nobody said how large"),
    Refusal("", 2, r"have no dimensions: each is one", ranks(lambda rank: rank == 0), "nothing there could change"),
    Refusal("", 2, r"no array that is to be repacked has shards, or rows", rank(lambda rank: rank < 2), "images alone"),
    Refusal("in place", 2, r"would be lost; write to a new dataset", several, "formats of one array"),
    Refusal("", 2, r"its shards are no boxes", without_shards, "nobody said how large"),
    Refusal("in place", 3, r"is no array of Zarr v3, which repack makes", not_zarr3, "documents get other names"),
    Refusal("in place", 2, r"is of [\w-]+, whose documents have other names", not_zarr3, "documents get other names"),
    Refusal("in place", 2, r"is of [\w-]+ and (would become|has no rows)", not_zarr3, "documents get other names"),
    Refusal("", 2, r"2 to 16 dimensions are possible", ranks(lambda rank: rank < 2), "images alone"),
    Refusal("", 2, r"needs at least one element", EMPTY, "images have pixels"),
    Refusal("", 2, r"is no multiple of the chunk's \d+ elements, as \d+", LAYOUT, "numbers do not go together"),
    Refusal("", 2, r"has \d+ numbers?, but an array has \d+ dimensions?", LAYOUT, "numbers do not fit each array"),
    Refusal("", 2, r"has \d+ numbers?, but .* dimensions?; to repack the others", LAYOUT, "numbers fit some arrays"),
    Refusal("", 2, r"can't be split into chunks|of the whole array|room for", LAYOUT, "numbers do not fit"),
    Refusal("", 2, r"its elements are \w+, which precomputed can't hold", volume_types, "types a volume has not got"),
    Refusal("", 2, r"its elements are r\d+, which zarr3-transformer can't hold", raw_bits, "types it has not got"),
    Refusal("", 2, r"the dialect precomputed can't hold this; what was n", TO_VOLUME, "a volume's gaps are 0"),
    Refusal("", 2, r"a precomputed volume has one dimension b", ranks(lambda rank: rank > 3), "channels, z, y, x"),
    Refusal("", 2, r"chunks of a precomputed volume hold all", TO_VOLUME, "channels are not split"),
    Refusal("", 2, r"a shard of this volume is a box of|a hash deals chunks out", TO_VOLUME, "shards are 2^n chunks"),
    Refusal("", 2, r"JSON has no number for", TO_VOLUME, "no reader of volumes opens such an info"),
]


def cause(what, code, said, call):
    """The row that lets a call be refused, or None."""
    for row in REFUSALS:
        if what.startswith(row.command) and row.code == code and re.search(row.sentence, said) and row.cause(call):
            return row
    return None

