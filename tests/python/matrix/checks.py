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

from . import cells, readers, refusals, writers

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

    def refusal(self, what, done, pixels=None, options=()):
        """Notes a refusal if it is one that says what was wrong, and the cell gives cause for it."""
        said = done.stderr.strip()
        call = refusals.Call(self.cell, list(self.agreed.values()) if pixels is None else [pixels], list(options))
        if not refusals.cause(what, done.returncode, said, call):
            raise Wrong(f"{what}: code {done.returncode}, and there is no cause for it: {said or done.stdout}")
        # What stands in the call: a path, or an option; for an export, also the format that the file's ending is.
        given = [*self.calls[-1], str(self.source), *(f'"{name}"' for name in self.truth_names)]
        given += ["TIFF"] if what.startswith("export") and "tif" in what else []
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
        told = json.loads(done.stdout)
        unread = {array["path"] for array in told.get("unreadable", [])}
        told = {array["path"]: array for array in told["arrays"]}
        self.check_unread("info", unread)
        if missing := set(self.agreed) - set(told) - unread:
            raise Wrong(f"info: nothing is said of {missing}")
        for name, pixels in self.agreed.items():
            if name in told and told[name]["shape"] != list(pixels.shape):
                raise Wrong(f"info: {name!r} has shape {told[name]['shape']}")
            if name in told and told[name]["damaged"]:
                raise Wrong(f"info: {name!r} has damage")
        self.note("info", "equal")

    def verify(self):
        done = self.run("verify", self.source, "--json")
        if done.returncode not in (0, 5):
            raise Wrong(f"verify: code {done.returncode}: {done.stdout} {done.stderr}")
        findings = json.loads(done.stdout)["findings"] if done.stdout.startswith("{") else []
        if done.returncode and not findings:
            return self.refusal("verify", done)
        # Of chunks that nobody wrote, a note says how many there are.
        wrong = {self.node(finding["path"]) for finding in findings if finding["severity"] != "note"}
        self.check_unread("verify", wrong)
        self.note("verify", "equal" if done.returncode == 0 else "refused: unchecked")

    def known_names(self):
        """Those of the arrays, also of such that none of the readers opens."""
        return [*self.truth_names, *(array["path"] for array in self.cell.get("arrays", []))]

    def node(self, path):
        """The array that a file is of."""
        path = path.removeprefix("meta/root/").removeprefix("data/root/").removesuffix(".array.json")
        return max((name for name in self.known_names() if below(path, name)), key=len, default=path)

    def check_unread(self, what, names):
        """Only what is of a kind that is not read may be passed over."""
        if wrong := [name for name in names if not self.is_unread(name)]:
            raise Wrong(f"{what}: {wrong} could be read")

    def recover(self):
        for words in ([], ["--apply"]):
            done = self.run("recover", self.source, *words)
            # No writer of the cells is this project's.
            if not done.returncode:
                raise Wrong("recover: a success")
            self.refusal("recover", done)

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
            if form == "npy" and not self.is_unread(name):
                raise Wrong(f"{what} of {name!r}: {done.stderr}")
            self.refusal(what, done, pixels)
            return False
        expected = pixels[tuple(slice(*span) for span in region)] if region else pixels
        got = load(out, form, expected)
        if not same(got, expected):
            raise Wrong(f"{what} of {name!r}: {difference(got, expected)}")
        self.note(what, "equal")
        return True

    def is_unread(self, name):
        known = {array["path"]: array for array in self.cell.get("arrays", [])}
        return refusals.unread(known.get(name, self.cell), self.cell["writer"])

    def manifest(self, words):
        out = self.folder / "by.manifest.zarr"
        done = self.run("manifest", self.source, out, *words, "--json")
        if done.returncode:
            if out.exists():
                raise Wrong("manifest: a folder after a refusal")
            return self.refusal("manifest", done, options=words)
        notes = [note for note in json.loads(done.stdout)["notes"] if "is left out" in note]
        without_words = [note for note in notes if "is left out of kerchunk.json" in note]
        call = refusals.Call(self.cell, list(self.agreed.values()), words)
        if wrong := [note for note in without_words if not refusals.cause("manifest", 5, note, call)]:
            raise Wrong(f"manifest: there is no cause for it: {wrong}")
        called = lambda name: f'"{name}"' if name else "the root"
        is_left = lambda name, notes: any(f"{called(name)} is left out" in note for note in notes)
        unread = [note for note in notes if note not in without_words]
        self.check_unread("manifest", {name for name in self.truth_names if is_left(name, unread)})
        wanted = {name: pixels for name, pixels in self.agreed.items() if not is_left(name, notes)}
        arrays, failed = readers.references(out / "kerchunk.json", wanted)
        for name, said in failed.items():
            if not readers.limit("zarr-python", out / name, said):
                raise Wrong(f"manifest: {name!r}: {said}")
        for name, pixels in arrays.items():
            if not same(pixels, wanted[name]):
                raise Wrong(f"manifest: {name!r}: {difference(pixels, wanted[name])}")
        self.note("manifest", "no other reader" if failed else "equal")

    def copy(self, options):
        self.number += 1
        out = self.folder / f"copy{self.number}.zarr"
        what = "copy to " + (options[1] if "--dialect" in options else "the same")
        done = self.run("repack", self.source, out, "--no-sync", "--json", *options)
        if done.returncode:
            if out.exists():
                raise Wrong("repack: a dataset after a refusal")
            self.check_staging(done)
            return self.refusal(what, done, options=options)
        self.check_staging(done)
        self.compare(out, options, json.loads(done.stdout)["notes"])
        self.note(what, "equal")

    def check_staging(self, done):
        """What a chunk holds is seen only when its turn comes; the same call then goes on from what was done."""
        for left in [name for name in os.listdir(self.folder) if name.startswith(".")]:
            if self.cell.get("compress") != "br" or f"{left}: when the " not in done.stderr:
                raise Wrong(f"repack: {left} is left: {done.stderr}")
            shutil.rmtree(self.folder / left)

    def in_place(self, options):
        place = self.folder / "place.zarr"
        shutil.copytree(self.source, place, symlinks=True)
        before = fingerprint(place)
        done = self.run("repack", place, "--no-sync", "--json", *options)
        self.check_staging(done)
        if done.returncode:
            if fingerprint(place) != before:
                raise Wrong("repack in place: changes after a refusal")
            return self.refusal("in place", done, options=options)
        self.compare(place, options, json.loads(done.stdout)["notes"])
        self.note("in place", "equal")

    # Results

    def compare(self, path, options, notes):
        """Each reader says of the result what it said of the source; readers of another format, what all agreed on."""
        done = self.run("verify", path)
        if done.returncode != 0 and not (done.returncode == 5 and any(map(self.is_unread, self.known_names()))):
            raise Wrong(f"verify of the result: code {done.returncode}: {done.stdout}{done.stderr}")
        left = self.left_out(options, notes)
        kind = readers.format_of(self.source)
        same_format = readers.format_of(path) == kind
        found, failed = readers.read(path, self.servers)
        dialect = options[options.index("--dialect") + 1] if "--dialect" in options else "zarr3"
        # Trees of Zarr v3 and v2 stay as they are but for layouts; other formats are as this project writes them.
        same_words = same_format and (dialect, kind) in (("zarr3", 3), ("zarr2", 2))
        lost = [name for name in (self.truth if same_format else readers.READERS[readers.format_of(path)])
                if name not in found and (same_format or not name.endswith("consolidated"))]  # fmt: skip
        for name in lost:
            if not readers.limit(name, path, failed.get(name, "")):
                raise Wrong(f"{name} does not read the result: {failed.get(name)}")
        if not found:
            # No program but this one reads it, for a reason of theirs.
            return self.note("result", "no other reader: " + "; ".join(map(str, failed.values()))[:60])
        for reader, (arrays, attributes) in found.items():
            was = self.truth.get(reader) if same_format else None
            pixels = {name: of for name, of in (was[0] if was else self.agreed).items() if name not in left}
            names = self.names(reader, pixels, arrays, path)
            self.compare_pixels(reader, pixels, arrays, names)
            if same_words and was:
                self.compare_attributes(reader, attributes, was[1], left)
            else:
                self.find_attributes(reader, attributes, names, dialect, notes)
        if same_words and readers.is_consolidated(path) != readers.is_consolidated(self.source):
            raise Wrong("consolidated metadata came or went")

    def left_out(self, options, notes):
        """The arrays that notes call left out; only those that the options leave out may be."""
        # One that gets another name is there.
        told = [note for note in notes if "left out" in note and 'becomes "0"' not in note]
        said = {name for note in told for name in re.findall(r'"([^"]*)"', note)}
        left = {name for name in self.truth_names if name in said}
        for option, wrong in (("--skip", lambda name, of: not below(name, of)), ("--only", below)):
            of = options[options.index(option) + 1] if option in options else None
            left_wrongly = [name for name in left if of is not None and wrong(name, of)]
            if left_wrongly:
                raise Wrong(f"{left_wrongly} left out with {option} {of}")
        if left and "--skip" not in options and "--only" not in options:
            raise Wrong(f"{left} left out: {notes}")
        return left

    def names(self, reader, pixels, arrays, path):
        """What each array is called in the result."""
        lacks = [name for name in pixels if name not in arrays]
        if not pixels:
            # Readers do not agree about any.
            return {}
        if len(pixels) == len(arrays) == 1:
            return {name: new for name, new in zip(pixels, arrays)}
        if lacks and "volume" in (readers.format_of(path), readers.format_of(self.source)):
            raise Wrong(f"{reader}: {lacks} among {sorted(arrays)}")
        is_same = readers.format_of(path) == readers.format_of(self.source)
        # What stopped a reader in the source stops it in the result, too.
        could = self.truth[reader][0] if reader in self.truth else {} if is_same else pixels
        if [name for name in lacks if name in could] and not readers.limit(reader, path, ""):
            raise Wrong(f"{reader}: no array {lacks} among {sorted(arrays)}")
        known = {array["path"] for array in self.cell.get("arrays", [])} | set(self.truth_names)
        if more := set(arrays) - known:
            raise Wrong(f"{reader}: arrays that nobody had: {more}")
        return {name: name for name in pixels if name in arrays}

    def compare_pixels(self, reader, pixels, arrays, names):
        for name, new in names.items():
            expected, got = pixels[name], arrays[new]
            # Where readers differ about the source, any of them may be right.
            seen = [expected] if name in self.agreed else [of[name] for of, _ in self.truth.values() if name in of]
            if not any(same(got, pixels) or same(as_volume(got), as_volume(pixels)) for pixels in seen):
                raise Wrong(f"{reader}: {name!r}: {difference(got, expected)}")

    def compare_attributes(self, reader, attributes, were, left):
        for name in {**attributes, **were}:
            if attributes.get(name) != were.get(name) and name.removesuffix(" names") not in left:
                raise Wrong(f"{reader}: attributes of {name!r}: {attributes.get(name)}, were {were.get(name)}")

    def find_attributes(self, reader, attributes, names, dialect, notes):
        """In another format, what people wrote is there, as they spelled it; more may stand around it."""
        told = {name: json.loads(of) for name, of in attributes.items()}
        were = {name: json.loads(of) for name, of in next(iter(self.truth.values()))[1].items()}
        if readers.format_of(self.source) != "volume" and dialect == "zarr3":
            # A tree, each of whose nodes keeps what it says.
            for name in [*names, *{group for name in names for group in above(name)}]:
                places = [names.get(name, name), ""] if name == "" else [names.get(name, name)]
                self.find(reader, mine(were.get(name)), [told.get(place, {}) for place in places])
            return
        image = next(iter(names), "")
        nearest, *farther = [*above(image)][::-1] or [""]
        expected = {}
        for name in dict.fromkeys((nearest, image, *farther)):
            for key, value in mine(were.get(name)).items():
                if json.dumps(expected.setdefault(key, value)) == json.dumps(value):
                    continue
                # Of several that have become one, one gives a word that they have for different things.
                if not any(f'"{key}"' in note for note in notes):
                    raise Wrong(f"{reader}: attribute {key!r} of {name!r} is another's without a word: {notes}")
        self.find(reader, expected, list(told.values()))

    def find(self, reader, expected, documents):
        for key, value in expected.items():
            if not any(holds(document, key, value) for document in documents):
                raise Wrong(f"{reader}: attribute {key!r}, {value!r}, is not in {documents}")


MINE = {name for name, _ in cells.ATTRIBUTES}


def mine(attributes):
    return {key: value for key, value in attributes.items() if key in MINE} if isinstance(attributes, dict) else {}


def above(name):
    """The groups around an array, from the root down."""
    return ["/".join(name.split("/")[:depth]) for depth in range(name.count("/") + 1)] if name else []


def below(name, of):
    return name == of or name.startswith(of + "/") or of == ""


def holds(document, key, value):
    """Whether a document, or one in it, has this word."""
    if not isinstance(document, dict):
        return False
    if key in document and json.dumps(document[key]) == json.dumps(value):
        return True
    return any(holds(inner, key, value) for inner in document.values())


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
    for folder, folders, files in os.walk(path):
        folders.sort()
        for name in sorted([*folders, *files]):
            file = os.path.join(folder, name)
            status = os.lstat(file)
            out.update(repr((file[len(str(path)) :], status.st_mode, status.st_mtime_ns)).encode())
            if os.path.islink(file):
                out.update(os.readlink(file).encode())
            elif name in files:
                with open(file, "rb") as data:
                    out.update(data.read())
    return out.hexdigest()


def reason(said, folder):
    """A refusal without what differs from cell to cell."""
    said = said.splitlines()[0].removeprefix("error: ").replace(str(folder), "")
    said = re.sub(r"^(/[^ ]*?): ", "", said)
    said = re.sub(r"-?\d+", "N", re.sub(r'"[^"]*/[^"]*"', '"…"', said))
    return said[:110]
