"""Runs the comparison. `tools/compare --help` says what can be chosen."""

import fcntl
import hashlib
import json
import os
import shutil
import signal
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import cases as cases_of
import conditions
import frames as frames_file
import options
import page
import programs
import table
import verdict
from contestants import COPYING, OURS, RING_BYTES, Stage, contestants
from records import Records
from rivals import COMMITS_IN_FLIGHT, RIVALS

HOME = programs.ROOT / "target" / "comparison"
# A writer that is this much slower than the fastest is not waited for in every round.
SLOW_FACTOR, SLOW_ROUNDS = 4, 2
# A rival that failed so often in a case is not tried again in this run.
FAILURES_MAX = 2
# Shards' worth of memory that a rival was seen to take, and one to spare.
RIVAL_SHARDS = 6
# A rival that would need longer for a run gets fewer frames.
SECONDS_MAX = 60


@dataclass
class Place:
    """A folder to write to. Results belong to the folder and the file system, not to the name alone."""

    name: str
    folder: Path
    file_system: str

    @property
    def key(self):
        return f"{self.name} {self.folder} {self.file_system}"


class Comparison:
    def __init__(self, args):
        self.args = args
        self.out = args.out or programs.ROOT / "target" / ("compare-quick" if args.quick else "compare")
        self.out.mkdir(parents=True, exist_ok=True)
        HOME.mkdir(parents=True, exist_ok=True)
        self.loud = []
        self.failures = Counter()
        self.lock = self._alone()
        chucky = programs.build_chucky(args.chucky, HOME / "chucky") if args.chucky else None
        self.stage = Stage(*programs.build(), args.deadline, chucky)
        self.contestants = contestants(args.all_storages, args.rival, chucky is not None)
        self.places = self._places()
        self.cases = self._cases()
        self.fingerprint = self._fingerprint()
        self.records = Records(self.out, self.fingerprint, args.fresh)
        if self.records.set_aside:
            self._note(
                f"earlier results, of other conditions or before --fresh, were set aside: {self.records.set_aside}"
            )
        elif self.records.rows:
            say(f"going on: {len(self.records.rows)} results are there already")

    def _alone(self):
        """Two comparisons at once would measure each other."""
        file = (HOME / "lock").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit("compare: another comparison of this checkout is running")
        return file

    def _places(self):
        disk = self.args.disk or HOME
        chosen = self.args.place or ("tmpfs", "disk")
        places = []
        for name, base in (("tmpfs", self.args.tmpfs), ("disk", disk)):
            if name not in chosen:
                continue
            # Nobody else's; what a killed comparison left there goes away.
            folder = (
                base
                / f"shardwright-compare-{hashlib.sha256(str(programs.ROOT).encode()).hexdigest()[:8]}-{os.getuid()}"
            )
            try:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
            except OSError as error:
                self._note(f"SKIPPED {name}: {error}")
                continue
            kind = conditions.file_system(folder)
            if (name == "tmpfs") != kind.startswith(("tmpfs", "ramfs")):
                self._note(f"{name} is {base}, but that is {kind}")
            places.append(Place(name, folder, kind))
        return places

    def _cases(self):
        all_cases = cases_of.camera_cases(self.args.quick)
        for name, path in recordings(self.args):
            described = frames_file.describe_recording(path, HOME, self.stage.shardwright)
            all_cases += cases_of.recording_cases(name, path, *described, self.args.quick)
        wanted = self.args.case or [""]
        chosen = [case for case in all_cases if any(words.lower() in case.name.lower() for words in wanted)]
        if not chosen:
            sys.exit(
                f"compare: no case's name contains {wanted}; there are: {', '.join(case.name for case in all_cases)}"
            )
        return chosen

    def _fingerprint(self):
        """Results with different ones are not comparable."""
        built = (self.stage.shardwright, self.stage.bounds, self.stage.chucky)
        programs_used = {path.name: digest(path) for path in built if path}
        scripts = {
            path.name: digest(path)
            for path in (programs.HERE / name for name in ("rivals.py", "frames.py", "contestants.py"))
        }
        return {
            "machine": conditions.machine(),
            "versions": {name: value for name, value in conditions.versions().items() if name != OURS},
            "programs": programs_used,
            "scripts": scripts,
        }

    def run(self):
        busy = conditions.load()
        if busy > 0.5:
            self._note(
                f"the machine is BUSY (load average {busy:.1f} at the start): figures will scatter, maybe one-sidedly"
            )
        if self.args.quick:
            self._note("--quick: tiny sizes, to see that everything works; the figures mean nothing")
        for case in self.cases:
            say(f"{case.name}: {table.describe(case.words())}")
            pool = frames_file.prepare(case, HOME, self.stage.shardwright)
            for place in self.places:
                if self._has_room(case, place):
                    self._tune(case, place, pool)
                    self._rounds(case, place, pool)

    def _has_room(self, case, place):
        needed = int(1.2 * case.bytes_of(case.frames))
        shard_bytes = min(case.shard[0], case.frames) * case.frame_bytes
        in_memory = RIVAL_SHARDS * shard_bytes + RING_BYTES + case.pool_bytes + (needed if place.name == "tmpfs" else 0)
        for what, wanted, free in (
            (str(place.folder), needed, conditions.room(place.folder)),
            ("memory", in_memory, conditions.memory_available()),
        ):
            if wanted > free and not self.args.quick:
                self._note(
                    f"SKIPPED {case.name}, {place.name}: {wanted / 1e9:.1f} GB of {what} needed, {free / 1e9:.1f} free"
                )
                return False
        return True

    def _tune(self, case, place, pool):
        """Tries each rival's settings, in turns, so that it takes part with its best ones."""
        for turn in range(1, self.args.tune + 1):
            for contestant in (one for one in self._taking_part(case) if not one.warm):
                for number, variant in enumerate(contestant.variants if len(contestant.variants) > 1 else ()):
                    key = {"kind": "tune", **self._key(case, place, contestant), "variant": variant, "round": turn}
                    if not self.records.good(**key) and self._failures(key) < FAILURES_MAX:
                        self._one(case, place, pool, contestant, key, contestant.frames_to_tune(case), full=False)

    def _rounds(self, case, place, pool):
        everyone = self._taking_part(case)
        for turn in range(1, self.args.rounds + 1):
            # Each starts in turn, so that nobody always follows the same one.
            first = turn % len(everyone)
            for contestant in everyone[first:] + everyone[:first]:
                key = {"kind": "run", **self._key(case, place, contestant), "round": turn}
                if self.records.good(**key) or self._is_slow(case, place, contestant, turn):
                    continue
                key["variant"] = self._best_variant(case, place, contestant)
                if self._failures(key) < FAILURES_MAX:
                    full = not self._checked_in_full(key)
                    self._one(case, place, pool, contestant, key, self._frames(case, place, contestant), full)
            self._bound(case, place, pool, turn)

    def _taking_part(self, case):
        return [contestant for contestant in self.contestants if contestant.takes_part(case)]

    def _one(self, case, place, pool, contestant, key, frames, full):
        turn = f"{'tuning' if key['kind'] == 'tune' else 'round'} {key['round']}"
        label = f"{case.name}, {place.name}, {turn}, {contestant.name}"
        if len(contestant.variants) > 1:
            label += " (" + ", ".join(f"{name} {value}" for name, value in key["variant"].items()) + ")"
        extra = {"time": conditions.now(), "load": conditions.load()}
        try:
            result = self.stage.run(contestant, key["variant"], case, pool, place.folder, frames, full, key["round"])
        except (programs.Failed, OSError) as error:
            self.records.add(**key, **extra, ok=False, error=str(error))
            self.failures[_but_round(key)] += 1
            self._note(f"FAILED {label}: {error}")
            return
        self.records.add(**key, **extra, ok=True, **result)
        compared = "all frames equal" if full else f"{result['check']['frames_compared']} sampled frames equal"
        say(f"  {label}: {table.rate(result['rate'])} GB/s, {compared}")

    def _bound(self, case, place, pool, turn):
        key = {"kind": "bound", "case": case.key, "place": place.key, "round": turn}
        if self.records.good(**key):
            return
        # As many bytes as a writer leaves there, holes in its files not counted.
        ratios = [
            run["bytes"] / max(1, run["check"]["disk_bytes"]) for run in self.records.good(kind="run", case=case.key)
        ]
        bytes_stored = int(case.bytes_of(case.frames) / (median(ratios) if ratios else 1))
        try:
            found = self.stage.bound(case, pool, place.folder, bytes_stored)
            self.records.add(**key, ok=True, found=found)
        except (programs.Failed, OSError) as error:
            self.records.add(**key, ok=False, error=str(error))
            self._note(f"FAILED bounds, {case.name}, {place.name}: {error}")

    def _key(self, case, place, contestant):
        return {"case": case.key, "place": place.key, "contestant": contestant.name}

    def _failures(self, key):
        """How often the like of this run has failed since the start."""
        return self.failures[_but_round(key)]

    def _best_variant(self, case, place, contestant):
        tried = self._tried(case, place, contestant)
        return max(tried, key=lambda row: row["rate"])["variant"] if tried else contestant.variants[0]

    def _tried(self, case, place, contestant):
        """The runs that its settings are chosen by."""
        key = {**self._key(case, place, contestant), "contestant": contestant.writer}
        return self.records.good(kind="tune", **key)

    def _frames(self, case, place, contestant):
        """As many as the case says, or as a slow rival can write in bearable time: whole layers of chunks."""
        frames = case.frames_for(contestant.writer)
        tried = self._tried(case, place, contestant)
        if not tried:
            return frames
        bearable = int(SECONDS_MAX * max(row["rate"] for row in tried) / case.frame_bytes)
        if bearable < frames:
            depth = case.chunk[0]
            frames = max(contestant.frames_to_tune(case), bearable // depth * depth)
            self._note(
                f"{contestant.name} gets only {frames} frames ({case.name}, {place.name}): more would take over "
                f"{SECONDS_MAX} s"
            )
        return frames

    def _is_slow(self, case, place, contestant, turn):
        if turn <= SLOW_ROUNDS or contestant.ours:
            return False
        rates = {}
        for row in self.records.good(kind="run", case=case.key, place=place.key):
            if row["round"] <= SLOW_ROUNDS:
                rates.setdefault(row["contestant"], []).append(row["rate"])
        middle = {name: median(values) for name, values in rates.items()}
        own = middle.get(contestant.name)
        slow = own is not None and SLOW_FACTOR * own < max(middle.values())
        if slow and turn == SLOW_ROUNDS + 1:
            self._note(
                f"{contestant.name} ran in {SLOW_ROUNDS} rounds only ({case.name}, {place.name}): "
                f"it is more than {SLOW_FACTOR} times slower than the fastest"
            )
        return slow

    def _checked_in_full(self, key):
        like = {name: value for name, value in key.items() if name != "round"}
        return any(run["check"]["full"] for run in self.records.good(**like))

    def clean(self):
        """Leaves no datasets behind, on a tmpfs least of all."""
        for place in self.places:
            shutil.rmtree(place.folder, ignore_errors=True)

    def _note(self, line):
        """Said at once, and again on the page and at the end."""
        if line not in self.loud:
            self.loud.append(line)
        print(f"compare: {line}", file=sys.stderr, flush=True)

    def report(self):
        verdicts = [
            verdict.judge(self.records, case, place, self.contestants) for case in self.cases for place in self.places
        ]
        measured = self.conditions()
        method = how(self.args)
        results = {
            "conditions": measured,
            "method": method,
            "loud": self.loud,
            "verdicts": verdicts,
            "runs": self.records.rows,
        }
        replace_file(self.out / "results.json", json.dumps(results, indent=1))
        replace_file(self.out / "index.html", page.page(verdicts, measured, method, self.loud))
        print("\n\n".join(table.text(one) for one in verdicts))
        print("\nHow: " + "\n     ".join(method))
        print("\n" + "\n".join(f"{name}: {value}" for name, value in measured.items()))
        if self.loud:
            print("\nATTENTION\n" + "\n".join(f"  {line}" for line in self.loud))
        print("\n" + "\n".join(one["sentence"] for one in verdicts))
        print(f"\npage: {self.out / 'index.html'}\nraw results: {self.out / 'results.json'}")
        everything = all(row["rounds"] and not row["failures"] for one in verdicts for row in one["rows"])
        return 0 if everything and all(one["factor"] for one in verdicts) else 1

    def conditions(self):
        machine = conditions.machine()
        times = [row["time"] for row in self.records.rows if "time" in row]
        loads = [row["load"] for row in self.records.rows if "load" in row]
        return {
            "date": f"{times[0]} to {times[-1]}" if times else "nothing was measured",
            "CPU": f"{machine['cpu']}, {machine['cores']} cores{', virtual' if machine['virtual'] else ''}",
            "memory": f"{machine['memory_bytes'] / 2**30:.1f} GiB",
            "kernel": machine["kernel"],
            **{place.name: f"{place.file_system}, at {place.folder}" for place in self.places},
            "load average before a run": f"{min(loads):.1f} to {max(loads):.1f}" if loads else "",
            "versions": ", ".join(f"{name} {value}" for name, value in conditions.versions().items()),
        }


def how(args):
    """What a reader must know to believe, or to doubt, the figures."""
    return [
        "Every run is a process of its own that first loads the distinct frames into memory and creates the dataset; "
        "neither is timed. The frames are then cycled. Rates are raw pixels a second.",
        "Timed, rivals: from the first append until the writer is closed and every file and folder of the dataset has "
        "been fsynced, one by one. A later sync of the whole machine is in the raw results, but not in the figures.",
        f"Timed, {OURS}: from the first commit until finish has returned; it syncs all files and folders itself.",
        f"Where frames are: {OURS} finds them in its ring, where a camera writes them by itself (DMA), and nobody "
        "copies them; tensorstore finds whole shards in memory and may refer to them uncopied, too; acquire-zarr "
        f"copies what it gets. '{COPYING}' copies each frame into the ring, all but the very first within the time.",
        "When a writer is ready, as much memory as the run's pixels take is touched and freed, and then it starts: "
        "the host of a virtual machine takes free memory away, and gives it back so slowly that its pages, and not "
        "the writers, would be compared.",
        f"{OURS} runs with its defaults (one worker a core, a ring of {RING_BYTES >> 20} MiB), but without checksums "
        "of chunks: acquire-zarr has none, so no writer makes them. The index of a shard has its crc32c everywhere.",
        "Each rival runs twice a round: in a fresh process, and 'warmed': after an untimed pass over three shards in "
        "the same process (two for chucky), with an allocator that maps nothing by itself and gives nothing back "
        f"(glibc's mmap_max=0, trim_threshold=1 TiB). {OURS} takes its ring and its workers' memory before the first "
        "frame, as cameras are set up; what else it needs during a run comes cold.",
        "acquire-zarr and chucky get frames one at a time. tensorstore gets one transaction a shard, "
        f"{COMMITS_IN_FLIGHT} commits in flight, concurrency limits of the machine's cores, no comparison with the "
        "fill value; it is tried with single frames and with whole shards that lie in memory already and are not "
        "copied. zarr-python gets whole shards.",
        f"Rivals' settings were chosen case by case from those in rivals.py, by the best of {args.tune} turns on one "
        "or two shards.",
        "Level 1, bit shuffle, element size of the pixels for all Blosc codecs; the block size inside is each "
        "writer's own.",
        "Every output was read with tensorstore and compared with the frames before its time counted: all of it in a "
        "writer's first counted run of a case, samples afterwards; shapes and codecs in its metadata, too.",
        "In cases with a pyramid, two levels are written while frames come, each of the means of two rows and two "
        "columns of the one before, with its chunks, shards and codec; time is not halved. acquire-zarr makes as many "
        "by itself. tensorstore and zarr-python make none, chucky.c asks for none: they are left out. All levels are "
        f"compared, with means that {OURS} rounds to the nearest, halves up, and acquire-zarr down. Rates are those of "
        "level 0; ratio and bounds count the pixels of all levels, bounds not the making of means.",
        "Memory is the peak of resident memory less the loaded frames; a rival's Python interpreter (some 50 MB) is "
        "in it.",
        f"Append times: for rivals around the call. For {OURS} acquire plus commit, without a copy between the two.",
        "ratio: bytes of pixels, levels included, for each byte that the file system holds at the end.",
        "Bound: the lesser of gather and encode on all cores (with this project's encoder, as many pixels as a run "
        "has) and the fastest of mapped, positioned and direct writes of as many bytes, sync included; measured "
        "between the rounds. The two compete for the same cores and memory, so no writer reaches it on few of them.",
        "Bare: the faster of two plain programs that do both at once and nothing else: gather, encode, and long "
        "writes by threads of their own (4 MiB direct, 1 MiB into the page cache), without a ring, shards, an index "
        "or checksums; sync included, measured between the rounds, too. It is no bound, but shows what sharing the "
        "cores costs.",
    ]


def recordings(args):
    """Names and paths of what the user wants to be compared with."""
    found = [("recording", args.recording.resolve())] if args.recording else []
    if args.recordings:
        if not args.recordings.is_dir():
            sys.exit(f"compare: --recordings {args.recordings}: expected a folder; --recording takes one file")
        paths = sorted(path for path in args.recordings.iterdir() if path.suffix.lower() in (".tif", ".tiff"))
        if not paths:
            sys.exit(f"compare: --recordings {args.recordings}: it holds no .tif or .tiff")
        found += [(f"recording {path.stem}", path.resolve()) for path in paths]
    return found


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def replace_file(path, words):
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_text(words)
    os.replace(unfinished, path)


def say(line):
    print(line, file=sys.stderr, flush=True)


def _but_round(key):
    return json.dumps({name: value for name, value in key.items() if name != "round"}, sort_keys=True)


def main():
    if "--safety" in sys.argv[1:]:
        import safety

        return safety.main([word for word in sys.argv[1:] if word != "--safety"])
    comparison = Comparison(options.comparison(sys.argv[1:]))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        comparison.run()
    except KeyboardInterrupt:
        say("compare: interrupted; the same command goes on from here")
        return 130
    finally:
        comparison.clean()
    return comparison.report()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except programs.Failed as error:
        sys.exit(f"compare: {error}")
