"""What the commands must make of a dataset: the same pixels and attributes in each reader, or a refusal."""

import hashlib
import json
import math
import os
import re
import shutil
import subprocess

import numpy as np
import tifffile

from . import cells, readers, writers

# Known to be wrong; each goes when it is mended, and is counted in the report until then.
KNOWN = (
    "--shape 0: dimension",
    "dims = [",
    "a shard must hold whole chunks of",
    "is no multiple of the chunk's",
    # verify calls an array damaged whose index codecs are only not read.
    "are not read here; expected little-endian bytes",
)
# What is no sentence.
UNCIVIL = ("panicked", "unwrap", "RUST_BACKTRACE", "Traceback", "called `", "internal error", "unreachable")


class Wrong(Exception):
    """Something that must not happen."""


class Case:
    """One cell, in a folder of its own."""

    def __init__(self, cell, folder, command, servers):
        self.cell, self.folder, self.command, self.servers = cell, folder, command, servers
        self.source = folder / "source.zarr"
        self.calls, self.outcomes = [], []
        self.number = 0

    def note(self, what, outcome):
        """`outcome` is "equal", or "refused: why"."""
        self.outcomes.append((what, outcome))

    # Calls

    def run(self, *words, **options):
        call = [str(self.command), *map(str, words)]
        self.calls.append(call[1:])
        done = subprocess.run(call, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, **options)
        said = done.stdout + done.stderr
        if done.returncode < 0 or any(word in said for word in UNCIVIL):
            raise Wrong(f"code {done.returncode}: {said.strip()[-800:]}")
        return done

    def refusal(self, what, done, codes=(2, 3)):
        """Notes a refusal if it is one that says what was wrong."""
        said = done.stderr.strip()
        if done.returncode not in codes:
            raise Wrong(f"code {done.returncode}: {said or done.stdout}")
        # What stands in the call: a path, or an option; for an export, also the format that the file's ending is.
        given = [*self.calls[-1], str(self.source), *(f'"{name}"' for name in self.truth_names)]
        given += ["TIFF"] if what.startswith("export") and "tif" in what else []
        if not any(word in said for word in given) and any(word in said for word in KNOWN):
            return self.note(what, "known: " + reason(said, self.folder))
        if not any(word in said for word in given):
            raise Wrong(f"a refusal that names neither path, array nor option: {said!r}")
        if len(said.removeprefix("error: ")) < 20:
            raise Wrong(f"no sentence: {said!r}")
        self.note(what, "refused: " + reason(said, self.folder))

    # The whole of it

    def check(self):
        self.source.mkdir(parents=True)
        try:
            writers.write(self.cell, self.source, self.servers)
        except Exception as error:
            # Each program refuses some of what a specification allows.
            why = str(error).strip().splitlines()[-1][:90]
            return self.note("source", f"not written: {self.cell['writer']}: {why}")
        self.truth, failed = readers.read(self.source, self.servers)
        if not self.truth:
            self.note("source", f"no reader: {next(iter(failed.values()))[:60]}")
            return
        self.truth_names = next(iter(self.truth.values()))[0]
        self.note("readers", str(len(self.truth)))
        self.agreed = self.agreement()
        before = fingerprint(self.source)
        steps = self.cell["steps"]
        for step in (self.info, self.verify, self.exports, self.recover):
            step()
            self.untouched(before)
        self.manifest(steps["manifest"])
        self.untouched(before)
        for options in steps["copies"]:
            self.copy(options)
            self.untouched(before)
        self.in_place(steps["in_place"])

    def untouched(self, before):
        if fingerprint(self.source) != before:
            raise Wrong("the source has changed")

    def agreement(self):
        """The pixels by name, as far as all readers have seen them and say the same."""
        out = {}
        for arrays, _ in self.truth.values():
            for name, pixels in arrays.items():
                out.setdefault(name, []).append(pixels)
        for name, seen in out.items():
            if any(not same(pixels, seen[0]) for pixels in seen[1:]):
                self.note("readers differ", name)
        return {name: seen[0] for name, seen in out.items() if all(same(pixels, seen[0]) for pixels in seen[1:])}

    def info(self):
        done = self.run("info", self.source, "--json")
        if done.returncode:
            return self.refusal("info", done)
        told = {array["path"]: array for array in json.loads(done.stdout)["arrays"]}
        for name, pixels in self.agreed.items():
            if name in told and told[name]["shape"] != list(pixels.shape):
                raise Wrong(f"info: {name!r} has shape {told[name]['shape']}")
            if name in told and told[name]["damaged"]:
                raise Wrong(f"info: {name!r} has damage")
        self.note("info", "equal")

    def verify(self):
        done = self.run("verify", self.source, "--json")
        if done.returncode == 1 and any(word in done.stdout for word in KNOWN):
            return self.note("verify", "known: what is not read is called damage")
        if done.returncode not in (0, 2):
            raise Wrong(f"verify: code {done.returncode}: {done.stdout} {done.stderr}")
        said = done.stdout + done.stderr
        if done.returncode and len(said.strip()) < 20:
            raise Wrong(f"verify: nothing said: {said!r}")
        self.note("verify", "equal" if done.returncode == 0 else "refused: unchecked")

    def recover(self):
        for words in ([], ["--apply"]):
            done = self.run("recover", self.source, *words)
            if done.returncode:
                self.refusal("recover", done, codes=(2,))
            else:
                self.note("recover", "equal")

    def exports(self):
        for name, pixels in self.agreed.items():
            if self.export(name, pixels, "npy", []):
                self.export(name, pixels, "npy", self.region(pixels))
                self.export(name, pixels, self.cell["steps"]["format"], [])

    def region(self, pixels):
        spans = []
        for length, (begin, end) in zip(pixels.shape, self.cell["steps"]["region"]):
            start = int(begin * length)
            spans.append((start, start + 1 + int(end * (length - start - 1))))
        return spans

    def export(self, name, pixels, form, region):
        if region and (0 in pixels.shape or not pixels.shape):
            return True
        self.number += 1
        out = self.folder / f"{self.number}.{form}"
        words = ["--region", ",".join(f"{start}:{end}" for start, end in region)] if region else []
        what = f"export {form}" + (" region" if region else "")
        done = self.run("export", self.source / name, out, "--fill", *words)
        if done.returncode:
            if out.exists():
                raise Wrong(f"{what}: a file after a refusal")
            self.refusal(what, done)
            return False
        expected = pixels[tuple(slice(*span) for span in region)] if region else pixels
        got = load(out, form, expected)
        if not same(got, expected):
            raise Wrong(f"{what} of {name!r}: {difference(got, expected)}")
        self.note(what, "equal")
        return True

    def manifest(self, words):
        out = self.folder / "by.manifest.zarr"
        done = self.run("manifest", self.source, out, *words, "--json")
        if done.returncode:
            if out.exists():
                raise Wrong("manifest: a folder after a refusal")
            return self.refusal("manifest", done)
        arrays = readers.references(out / "kerchunk.json")
        for name, pixels in self.agreed.items():
            if name not in arrays or not same(arrays[name], pixels):
                raise Wrong(f"manifest: {name!r}: {difference(arrays.get(name), pixels)}")
        self.note("manifest", "equal")

    def copy(self, options):
        self.number += 1
        out = self.folder / f"copy{self.number}.zarr"
        what = "copy to " + (options[1] if "--dialect" in options else "the same")
        done = self.run("repack", self.source, out, "--no-sync", *options)
        in_the_way = "File exists" in done.stderr or "Is a directory" in done.stderr
        if done.returncode and in_the_way and "--dialect" in options:
            shutil.rmtree(self.folder / f".{out.name}.repack", ignore_errors=True)
            return self.note(what, "known: an array stands where the image goes")
        if done.returncode:
            if out.exists():
                raise Wrong("repack: a dataset after a refusal")
            left = [name for name in os.listdir(self.folder) if name.startswith(".")]
            # What a chunk holds is seen only when its turn comes; the same call then goes on from what was done.
            if left and "Brotli" not in done.stderr:
                raise Wrong(f"repack: {left} after a refusal")
            for name in left:
                shutil.rmtree(self.folder / name)
            return self.refusal(what, done)
        try:
            self.compare(out, options)
        except Wrong as error:
            if not self.has_several(options):
                raise
            return self.note(what, f"known: arrays beside the image: {type(error).__name__}")
        self.note(what, "equal")

    def has_several(self, options):
        """Known to be wrong: beside the image of a dialect that has one, other arrays get lost or mixed with it."""
        return "--dialect" in options and options[1] != "zarr3" and len(self.truth_names) > 1

    def in_place(self, options):
        place = self.folder / "place.zarr"
        shutil.copytree(self.source, place, symlinks=True)
        before = fingerprint(place)
        done = self.run("repack", place, "--no-sync", *options)
        if left := [name for name in os.listdir(self.folder) if name.startswith(".")]:
            raise Wrong(f"repack in place: {left} is left")
        if done.returncode:
            if fingerprint(place) != before:
                raise Wrong("repack in place: changes after a refusal")
            return self.refusal("in place", done)
        self.compare(place, options)
        self.note("in place", "equal")

    # Results

    def compare(self, path, options):
        """Each reader says of the result what it said of the source; readers of another format, what all agreed on."""
        done = self.run("verify", path)
        if done.returncode == 1 and "its attributes name" in done.stdout and "--dialect" in options:
            # OME-Zarr 0.4 of an image under another name than the new one's.
            self.note("verify of a copy", "known: attributes name what is not there")
        elif done.returncode not in (0, 2):
            raise Wrong(f"verify of the result: code {done.returncode}")
        kind = readers.format_of(self.source)
        same_format = readers.format_of(path) == kind
        found, failed = readers.read(path, self.servers)
        if not found:
            raise Wrong(f"no reader reads the result: {failed}")
        skipped = options[options.index("--skip") + 1] if "--skip" in options else None
        # A dialect that is asked for is written as this project writes it; else, nothing but layouts changes.
        same_words = same_format and "--dialect" not in options
        for reader, (arrays, attributes) in found.items():
            was = self.truth.get(reader) if same_format else None
            self.compare_pixels(reader, arrays, was[0] if was else self.agreed, path, skipped)
            if same_words and was:
                self.compare_attributes(reader, attributes, was[1])
            else:
                self.find_attributes(reader, attributes, self.image(path, arrays))
        if same_words and readers.is_consolidated(path) != readers.is_consolidated(self.source):
            raise Wrong("consolidated metadata came or went")
        lost = [name for name in self.truth if same_words and name not in found]
        if any(name != "tensorstore" or not only_zarr_python(path) for name in lost):
            raise Wrong(f"what read the source does not read the result: {[failed.get(name) for name in lost]}")

    def compare_pixels(self, reader, arrays, pixels, path, skipped):
        names, image = dict(zip(pixels, pixels)), self.image(path, arrays)
        if image is not None or len(pixels) == len(arrays) == 1:
            fresh = [name for name in arrays if name not in pixels]
            names[next(iter(pixels)) if image is None else image] = (fresh or list(arrays))[0]
        for name, expected in pixels.items():
            got = arrays.get(names[name])
            if name == skipped and got is None:
                continue
            if image is not None and name != image and name not in arrays:
                # A dataset of one image: other arrays stand in it as they were.
                (got,) = readers.zarr_tree(False)(path / name, None)[0].values()
            if got is None and reader == "tensorstore" and (only_zarr_python(path) or "tensorstore" not in self.truth):
                continue
            if got is None:
                raise Wrong(f"{reader}: no array {name!r} among {sorted(arrays)}")
            # Where readers differ about the source, any of them may be right.
            seen = [expected] if name in self.agreed else [of[name] for of, _ in self.truth.values() if name in of]
            if not any(same(got, pixels) or same(as_volume(got), as_volume(pixels)) for pixels in seen):
                raise Wrong(f"{reader}: {name!r}: {difference(got, expected)}")

    def image(self, path, arrays):
        """The array that has become the one of a dialect that has one, under another name perhaps."""
        fresh = [name for name in arrays if name not in self.agreed]
        if readers.format_of(path) == 3 or len(fresh or arrays) != 1:
            return None
        got = arrays[(fresh or list(arrays))[0]]
        flat = [name for name, pixels in self.agreed.items() if same(as_volume(pixels), as_volume(got))]
        return flat[0] if flat else None

    def compare_attributes(self, reader, attributes, were):
        if readers.format_of(self.source) == "volume":
            attributes, were = volume_values(attributes), volume_values(were)
        for name in {**attributes, **were}:
            if attributes.get(name) != were.get(name):
                raise Wrong(f"{reader}: attributes of {name!r}: {attributes.get(name)}, were {were.get(name)}")

    def find_attributes(self, reader, attributes, image):
        """In another format, what people wrote is there, as they spelled it; more may stand around it."""
        said = [json.loads(of) for of in attributes.values()]
        were = {name: json.loads(of) for name, of in next(iter(self.truth.values()))[1].items()}
        image = "0" if image is None else image
        # The group that the image is in; what groups above that say has no place in a dataset of one image.
        around = image.rpartition("/")[0] if "/" in image else ""
        own = [name for name in dict.fromkeys((around, image)) if isinstance(were.get(name), dict)]
        for name in own:
            for key, value in were[name].items():
                # Of a group and its image, who have become one, one gives a word that both have.
                both = any(key in were[other] for other in own if other != name)
                if key in MINE and not both and not any(holds(document, key, value) for document in said):
                    raise Wrong(f"{reader}: attribute {key!r} of {name!r}, {value!r}, is not in {said}")


MINE = {name for name, _ in cells.ATTRIBUTES}


def volume_values(attributes):
    """Values alone: the order of an `info` and how a resolution is spelled are its writer's."""
    values = {name: json.loads(text) for name, text in attributes.items()}
    return {name: {k: v for k, v in of.items() if v != {}} if name == "" else of for name, of in values.items()}


def holds(document, key, value):
    """Whether a document, or one in it, has this word."""
    if not isinstance(document, dict):
        return False
    if key in document and json.dumps(document[key]) == json.dumps(value):
        return True
    return any(holds(inner, key, value) for inner in document.values())


def only_zarr_python(path):
    """Whether the result has a codec of numcodecs that tensorstore has not got, or names that are null."""
    documents = [file.read_text() for file in path.rglob("*") if file.name in ("zarr.json", ".zarray")]
    documents = [text.replace('"cname": "lz4"', "").replace('"cname":"lz4"', "") for text in documents]
    return any(word in text for text in documents for word in ("numcodecs.", '"lz4"', '"dimension_names": null'))


def as_volume(pixels):
    """Without dimensions of one element, of which a volume has others."""
    return np.squeeze(pixels)


def bits(pixels):
    pixels = np.asarray(pixels)
    if pixels.dtype.kind not in "VSUOT":
        pixels = pixels.astype(pixels.dtype.newbyteorder("="))
    return pixels


def same(got, expected):
    """Bit for bit, in whichever order the bytes are."""
    if got is None:
        return False
    got, expected = bits(got), bits(expected)
    if got.dtype.kind == "V" and expected.dtype.kind in "Vu":
        got, expected = raw(got), raw(expected)
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return False
    if got.dtype.kind in "OT":
        return bool(np.all(got == expected))
    return np.ascontiguousarray(got).tobytes() == np.ascontiguousarray(expected).tobytes()


def raw(pixels):
    return np.ascontiguousarray(pixels).view(f"V{pixels.dtype.itemsize}")


def difference(got, expected):
    if got is None:
        return "is not there"
    got, expected = bits(got), bits(expected)
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{got.shape} {got.dtype} instead of {expected.shape} {expected.dtype}"
    wide = f"V{got.dtype.itemsize}"
    differ = np.argwhere(np.ascontiguousarray(got).view(wide) != np.ascontiguousarray(expected).view(wide))
    if not len(differ):
        return "equal, but for the order of bytes"
    first = tuple(int(at) for at in differ[0])
    return f"{len(differ)} of {got.size} differ, the first at {first}: {got[first]!r} instead of {expected[first]!r}"


def load(file, form, expected):
    if form == "npy":
        return np.load(file)
    if form == "raw":
        data = file.read_bytes()
        if len(data) != math.prod(expected.shape) * expected.dtype.itemsize:
            return None
        return np.frombuffer(data, expected.dtype.newbyteorder("<")).reshape(expected.shape)
    with tifffile.TiffFile(file) as tiff:
        pages = np.stack([page.asarray() for page in tiff.pages])
    return pages.reshape(expected.shape) if pages.size == expected.size else pages


def fingerprint(path):
    """Names, bytes, modes and links of everything below."""
    out = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        status = file.lstat()
        out.update(repr((file.relative_to(path).as_posix(), status.st_mode, status.st_mtime_ns)).encode())
        if file.is_symlink():
            out.update(os.readlink(file).encode())
        elif file.is_file():
            out.update(file.read_bytes())
    return out.hexdigest()


def reason(said, folder):
    """A refusal without what differs from cell to cell."""
    said = said.splitlines()[0].removeprefix("error: ").replace(str(folder), "")
    said = re.sub(r"^(/[^ ]*?): ", "", said)
    said = re.sub(r"-?\d+", "N", re.sub(r'"[^"]*/[^"]*"', '"…"', said))
    return said[:110]
