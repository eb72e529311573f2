"""The same accidents for every writer: killed, unplugged, out of room, a frame that never came. `tools/compare --safety
--help`.

Each run is a process of its own that is fed at a camera's pace and says after every frame what it took and what it
calls safe. What is left is read with tensorstore and zarr-python; a frame counts when both show all its pixels."""

import json
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import conditions
import frames as frames_file
import mounts
import options
import programs
import safety_page as page
import witnesses
from accidents import FULL_FRAMES, PACE, PLANNED, TESTS
from cases import Case
from contestants import OURS

HOME = programs.ROOT / "target" / "comparison"
DEADLINE_SECONDS = 120


@dataclass(frozen=True)
class Contestant:
    """A writer and the way in which it is used; `victim` is its name in victims.py, None for this project."""

    name: str
    victim: str | None
    variant: dict
    # Its column in the short table, which has one way of each writer: the one that keeps most.
    column: str | None = None

    @property
    def ours(self):
        return self.victim is None

    @property
    def stream(self):
        """Whether it takes frame after frame; the others are told where each goes."""
        return self.victim in (None, "acquire-zarr")


CONTESTANTS = (
    Contestant(OURS, None, {"checkpoint_every_ms": 1000}, column=OURS),
    Contestant(
        f"{OURS}, checkpoint every 100 ms",
        None,
        {"checkpoint_every_ms": 100},
        column="the same, checkpoint every 100 ms",
    ),
    Contestant("acquire-zarr", "acquire-zarr", {}, column="acquire-zarr"),
    Contestant("tensorstore, 8 frames, awaited", "tensorstore blocks", {"awaited": True}, column="tensorstore"),
    Contestant("tensorstore, 8 frames, not awaited", "tensorstore blocks", {"awaited": False}),
    Contestant("tensorstore, a transaction a shard", "tensorstore shards", {}),
    Contestant("zarr-python, 8 frames", "zarr-python", {"unit": "layer"}, column="zarr-python"),
    Contestant("zarr-python, a shard", "zarr-python", {"unit": "shard"}),
)


class Observed:
    """A writer at work, and what it has said so far."""

    def __init__(self, words, errors):
        self.process = subprocess.Popen(
            list(map(str, words)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        self.delivered = self.accepted = 0
        self.safe = self.error = self.there = None
        self.closed = self.late = False
        self.ended = threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        """Kills it when it takes too long. Seconds are counted one by one, so that those of a machine that stood still
        don't."""
        for _ in range(DEADLINE_SECONDS):
            if self.ended.wait(1):
                return
        self.late = True
        self.process.kill()

    def until(self, delivered):
        """Reads until `delivered` frames have come, or to its end."""
        for line in self.process.stdout:
            self.hear(line.split())
            if self.delivered >= delivered:
                return

    def hear(self, words):
        match words:
            case ["frame", delivered, accepted, safe]:
                self.delivered, self.accepted, self.safe = int(delivered), int(accepted), _number(safe)
            case ["error", when, frame, *message]:
                self.error = {"when": when, "frame": int(frame), "message": " ".join(message)}
            case ["closed", accepted, safe, there]:
                self.closed = True
                self.accepted, self.safe, self.there = int(accepted), _number(safe), _number(there)

    def kill(self):
        self.process.kill()

    def end(self, listen=True):
        """Its rest, and its exit code; what it says after its disk is gone must not count."""
        for line in self.process.stdout:
            if listen:
                self.hear(line.split())
        code = self.process.wait()
        self.ended.set()
        return {
            "delivered": self.delivered,
            "accepted": self.accepted,
            "safe": self.safe,
            "error": self.error,
            "closed": self.closed,
            "there": self.there,
            "exit_code": code,
            "late": self.late,
        }


def _number(word):
    return None if word == "-" else int(word)


class Laboratory:
    """Where runs happen, and with what."""

    def __init__(self, args):
        self.args = args
        self.command, self.victim = programs.build_for_safety()
        self.case = Case("safety", PLANNED, PLANNED, (256, 256), (8, 64, 64), (64, 256, 256), args.codec)
        HOME.mkdir(parents=True, exist_ok=True)
        self.pool_path = frames_file.prepare(self.case, HOME, self.command)
        self.pool = frames_file.load(self.pool_path, self.case)
        if not self.pool.all():
            raise programs.Failed("a frame has pixels of the fill value, so that they could not be told apart")
        self.documents = {}

    def start(self, who, path, errors, frames, close, planned=PLANNED, skipped=(), pace=PACE):
        common = {"path": str(path), "pool": str(self.pool_path), "frames_per_second": pace}
        common |= {"skipped": list(skipped), "close": close, "variant": who.variant}
        if who.ours:
            layout = {
                "frame": self.case.frame,
                "chunk": self.case.chunk,
                "shard": self.case.shard,
                "codec": self.case.codec,
            }
            return Observed([self.victim, json.dumps({**common, **layout, "frames": frames})], errors)
        task = {**common, "writer": who.victim, "case": self.case.words(), "frames": frames, "planned": planned}
        return Observed([sys.executable, "-B", programs.HERE / "victims.py", json.dumps(task)], errors)

    def repair(self, who, path, run):
        """`recover` for this project. The others have no such thing: documents as a run that ended well leaves them,
        with the number of frames that were taken, as somebody who knows the format would write them by hand."""
        if who.ours:
            words = [self.command, "recover", "--apply", "--quiet", path]
            done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
            return None if done.returncode == 0 else done.stderr.strip()[-300:]
        for name, document in self.documents.get(who.name, {}).items():
            if document["node_type"] == "array":
                document = {**document, "shape": [run["accepted"], *document["shape"][1:]]}
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(json.dumps(document))
        return None

    def examine(self, who, path, run, skipped=(), repair=True):
        """What is readable at once, and after a repair."""
        result = {**run, "at_once": self.count(witnesses.look(path, self.case, self.pool), run, skipped)}
        if repair:
            result["repair_failed"] = self.repair(who, path, run)
            result["repaired"] = self.count(witnesses.look(path, self.case, self.pool), run, skipped)
        return result

    def count(self, seen, run, skipped):
        # What readers show beyond the last frame that came must not be wrong, either.
        states = [state for number, state in enumerate(seen["states"]) if number not in skipped]
        safe = run["safe"] or 0
        return {
            "readable": states.count(witnesses.RIGHT),
            "wrong": states.count(witnesses.WRONG),
            "safe_lost": safe - states[:safe].count(witnesses.RIGHT),
            "exists": seen["exists"],
            "shape": seen["shape"],
            "errors": seen["errors"],
        }

    def keep_documents(self, who, path):
        found = {str(file.relative_to(path)): json.loads(file.read_text()) for file in path.rglob("zarr.json")}
        self.documents[who.name] = found


def told_conditions(folder):
    machine = conditions.machine()
    return {
        "date": conditions.now(),
        "CPU": f"{machine['cpu']}, {machine['cores']} cores{', virtual' if machine['virtual'] else ''}",
        "kernel": machine["kernel"],
        "folder of the tests without a mount": conditions.file_system(folder),
        "load average": f"{conditions.load():.1f}",
        "versions": ", ".join(f"{name} {value}" for name, value in conditions.versions().items()),
    }


def how(args):
    return [
        "Frames of 256×256 u16 (a synthetic sCMOS camera, no pixel 0), chunks 8×64×64, shards 64×256×256, "
        f"{args.codec}, {PACE} frames a second, {args.rounds} runs each; cells are medians, with the range if runs "
        "differ.",
        "taken: calls with that frame returned without an error. called safe: what the writer's own interface says: "
        "frames_durable of shardwright's stats; a resolved write or commit of tensorstore, with its fsync on; "
        "acquire-zarr and zarr-python have no word for it. Programs that hand over 8 or 64 frames at once hold the "
        "others in their own memory.",
        "opens: both readers open the array. readable: tensorstore and zarr-python, in another process and without "
        "any tool, both show every pixel of the frame. wrong: frames with a pixel that is neither that of the frame "
        "nor the fill value.",
        "after a repair: for shardwright, `recover --apply`; for the others, documents written by hand as a run that "
        "ended well leaves them, with the number of frames that were taken.",
        "shardwright has its defaults but for a ring of 64 MiB, and time that grows; acquire-zarr has its defaults; "
        f"tensorstore and zarr-python are told the number of frames at the start ({PLANNED}; {FULL_FRAMES} with a "
        "full disk).",
        "frames that never come: acquire-zarr is told to skip as many bytes, the others are not given that number.",
        "power: what was called safe before the cut counts. The device is a file; what reached it stays.",
    ]


class Report:
    """What was seen, what failed, and what could not be tried."""

    def __init__(self, names, chosen):
        self.names = names
        self.results = {name: {who.name: [] for who in chosen} for name in names}
        self.failures, self.not_run = [], {}

    def text(self, args, measured):
        columns = {who.column: who.name for who in CONTESTANTS if who.column}
        tests = {
            name: test for name, test in TESTS.items() if test.short and name in self.names and name not in self.not_run
        }
        rows = {test.short: (test.columns, self.results[name]) for name, test in tests.items()}
        parts = [
            f"In short: frames said to be done / readable at once / after a repair\n\n{page.short(columns, rows)}\n"
        ]
        parts += [
            f"{TESTS[name].title}\n\n{page.table(TESTS[name].columns, self.results[name])}\n"
            for name in self.names
            if name not in self.not_run
        ]
        parts += ["How: " + "\n     ".join(how(args)) + "\n"]
        parts += [f"{name}: {value}" for name, value in measured.items()]
        parts += ["", *(f"{TESTS[name].title}: not run: {why}" for name, why in self.not_run.items())]
        parts += [f"FAILED {line}" for line in self.failures]
        return "\n".join(parts)


def main(words):
    args = options.safety(words)
    args.folder = args.folder or HOME
    assert options.TESTS == tuple(TESTS), "the command line offers the tests that there are"
    # So that mounts are taken down whoever ends it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    args.folder.mkdir(parents=True, exist_ok=True)
    lab = Laboratory(args)
    measured = told_conditions(args.folder)
    chosen = [who for who in CONTESTANTS if any(part in who.name for part in args.writer or [""])]
    # The first one tells what documents look like, and that the harness sees what is there.
    report = Report(list(dict.fromkeys(["well", *(args.test or TESTS)])), chosen)
    try:
        for name in report.names:
            run_test(lab, name, chosen, report)
    except KeyboardInterrupt:
        report.failures.append("interrupted")
    broken = promises_broken(report.results)
    out = args.out or programs.ROOT / "target" / "compare-safety" / "results.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(
        json.dumps({"conditions": measured, "method": how(args), **vars(report), "broken": broken}, indent=1)
    )
    print(report.text(args, measured))
    print(
        "\n".join(broken) or f"{OURS}: no frame that was called safe was lost, no pixel was wrong, every repair worked."
    )
    print(f"raw results: {out}")
    return 1 if report.failures or broken else 0


def run_test(lab, name, chosen, report):
    test = TESTS[name]
    if test.mounts and (why := mounts.why_not()):
        report.not_run[name] = why
        return say(f"{name}: not run: {why}")
    for turn in range(1 if test.once else lab.args.rounds):
        for who in (who for who in chosen if who.stream or not test.streams):
            with (
                tempfile.TemporaryDirectory(prefix="safety-", dir=lab.args.folder) as folder,
                tempfile.TemporaryFile("w+") as errors,
            ):
                try:
                    run = test.run(lab, who, Path(folder), errors, turn)
                except (programs.Failed, OSError) as error:
                    report.failures.append(f"{name} {turn + 1}, {who.name}: {error}")
                    say(f"FAILED {report.failures[-1]}")
                    continue
                errors.seek(0)
                report.results[name][who.name].append({**run, "stderr": errors.read()[-600:]})
                say(f"{name} {turn + 1}, {who.name}: {brief(run)}")


def promises_broken(results):
    """Of this project: a frame called safe that is not readable, a wrong pixel, a repair that failed."""
    found = []
    for name, writers in results.items():
        for who in (who for who in CONTESTANTS if who.ours):
            for run in writers.get(who.name, []):
                views = [run["at_once"], *([run["repaired"]] if "repaired" in run else [])]
                if run.get("repair_failed") or any(view["safe_lost"] or view["wrong"] for view in views):
                    found.append(f"BROKEN PROMISE {name}, {who.name}: {json.dumps(run)[:600]}")
    return found


def brief(run):
    repaired = f", {run['repaired']['readable']} after a repair" if "repaired" in run else ""
    readable = f"{run['at_once']['readable']} readable{repaired}"
    return f"{run['accepted']} taken, {run['safe']} called safe, {readable}; {page.first_error(run)}"


def say(line):
    print(line, file=sys.stderr, flush=True)
