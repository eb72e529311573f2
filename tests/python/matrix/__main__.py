"""Runs cells, on all cores, and reports: `PYTHONPATH=tests/python python -m matrix --cells 500 --seed 1`.

`--cell N` runs one alone, says all that it does, and leaves its files.
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings

from . import cells

HERE = pathlib.Path(__file__).parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parents[2] / "target"))
PYTHONS = {
    "zarr2": os.environ.get("SHARDWRIGHT_ZARR2_PYTHON", TARGET / "venv-zarr2/bin/python"),
    "ome": os.environ.get("SHARDWRIGHT_OME_PYTHON", TARGET / "venv-ome/bin/python"),
}


class Servers(dict):
    """The other interpreters by name, each started when it is first asked."""

    def __missing__(self, name):
        from . import writers

        self[name] = writers.Server(PYTHONS[name], HERE / f"{name}.py")
        return self[name]


class Worker:
    """What a process keeps from cell to cell."""

    def __init__(self, command, folder):
        warnings.simplefilter("ignore")
        self.command, self.folder, self.servers = command, pathlib.Path(folder), Servers()

    def run(self, seed, number, keep=False):
        """The outcomes, what went wrong if something did, and the calls."""
        from . import checks

        cell = cells.cell(seed, number)
        case = checks.Case(cell, self.folder / f"{seed}-{number}", self.command, self.servers)
        try:
            case.check()
            wrong = None
        except checks.Wrong as error:
            wrong = str(error)
        except Exception:
            wrong = traceback.format_exc()
        if not keep:
            shutil.rmtree(case.folder, ignore_errors=True)
        return cell, case.outcomes, wrong, case.calls


def run_share(words):
    """A child's part of the cells: a line when one begins, a line when it is done."""
    worker = Worker(words.command, words.folder)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    first, step = words.share
    for number in cells.numbers(words.cells, words.writers)[first::step]:
        print(json.dumps(number), file=out, flush=True)
        print(json.dumps(worker.run(words.seed, number)), file=out, flush=True)
    return 0


def described(cell, wrong, calls):
    """A failing cell, so that it can be made again without this program."""
    return (
        f"cell {cell['number']} of seed {cell['seed']}, by {cell['writer']}: {wrong}\n"
        f"  made by: python -m matrix --seed {cell['seed']} --cell {cell['number']}\n"
        f"  last calls: {' ; '.join('shardwright ' + ' '.join(call) for call in calls[-2:])}\n"
        f"  cell: {json.dumps({key: value for key, value in cell.items() if key != 'steps'}, ensure_ascii=False)}\n"
    )


class Report:
    def __init__(self):
        self.wrong = []
        self.counts = collections.defaultdict(collections.Counter)
        self.reasons = collections.Counter()
        self.first = {}

    def add(self, cell, outcomes, wrong, calls):
        if wrong:
            self.wrong.append(described(cell, wrong, calls))
        for what, outcome in outcomes:
            kind = outcome.split(":")[0]
            self.counts[cell["writer"]][what, kind] += 1
            if kind not in ("equal",) and what != "readers":
                self.reasons[what, outcome] += 1
                self.first.setdefault((what, outcome), cell["number"])

    def shares(self, begins):
        """Of each writer, which share of what begins so was read as equal."""
        out = {}
        for writer, counts in sorted(self.counts.items()):
            equal = sum(count for (what, kind), count in counts.items() if what.startswith(begins) and kind == "equal")
            every = sum(count for (what, kind), count in counts.items() if what.startswith(begins) and kind != "0")
            out[writer] = equal / every if every else 0.0
        return out

    def total(self, what, writer):
        return sum(count for (of, _), count in self.counts[writer].items() if of == what)

    def print(self):
        print("refused or left out:")
        for (what, outcome), count in sorted(self.reasons.items(), key=lambda item: -item[1]):
            print(f"{count:6}  {what}: {outcome}   (cell {self.first[what, outcome]})")
        print("share that was read as equal:")
        names = ["info", "verify", "export", "manifest", "copy", "in place"]
        print(" " * 20 + "".join(f"{name:>10}" for name in names))
        shares = {name: self.shares(name) for name in names}
        for writer in sorted(self.counts):
            print(f"{writer:20}" + "".join(f"{shares[name][writer]:10.0%}" for name in names))
        for wrong in self.wrong:
            print(wrong)


def run_all(command, seed, count, writers=(), processes=os.cpu_count() or 1):
    """The first `count` cells of a seed, or those of some writers among them, in this many processes."""
    report = Report()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory, prefix="matrix-") as folder:
        common = [sys.executable, "-W", "ignore", "-m", "matrix", "--seed", seed, "--cells", count]
        common += ["--command", command, "--folder", folder, *(["--writers", *writers] if writers else [])]
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        children = []
        for share in range(processes):
            call = [str(word) for word in [*common, "--share", share, processes]]
            said = open(pathlib.Path(folder) / f"said{share}", "w+")
            out = open(pathlib.Path(folder) / f"out{share}", "w+")
            children.append((subprocess.Popen(call, stdout=out, stderr=said, env=environment), out, said))
        for child, out, said in children:
            child.wait()
            out.seek(0), said.seek(0)
            gather(report, seed, child.returncode, out, said)
    return report


def gather(report, seed, code, out, said):
    """A child's lines; a cell that began and came to no end ended the child."""
    begun = None
    for line in out:
        line = json.loads(line)
        if isinstance(line, int):
            begun = line
        else:
            report.add(*line)
            begun = None
    if code or begun is not None:
        cell = cells.cell(seed, begun or 0)
        report.wrong.append(described(cell, f"a process ended with code {code}: {said.read()[-3000:]}", []))


def main():
    words = argparse.ArgumentParser(prog="python -m matrix", description=__doc__)
    words.add_argument("--cells", type=int, default=500)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--cell", type=int)
    words.add_argument("--writers", choices=cells.WRITERS, nargs="+", default=[], help="those of some writers alone")
    words.add_argument("--command", default=os.environ.get("SHARDWRIGHT_COMMAND", TARGET / "debug/shardwright"))
    # For its own children.
    words.add_argument("--share", type=int, nargs=2, help=argparse.SUPPRESS)
    words.add_argument("--folder", help=argparse.SUPPRESS)
    words = words.parse_args()
    if words.share:
        return run_share(words)
    if words.cell is not None:
        folder = tempfile.mkdtemp(prefix="matrix-")
        cell, outcomes, wrong, calls = Worker(words.command, folder).run(words.seed, words.cell, keep=True)
        print(json.dumps(cell, indent=1, ensure_ascii=False))
        print(*(" ".join(call) for call in calls), *outcomes, wrong or "nothing wrong", sep="\n")
        return 1 if wrong else 0
    started = time.monotonic()
    print(f"{words.cells} cells of seed {words.seed}", flush=True)
    report = run_all(words.command, words.seed, words.cells, words.writers)
    report.print()
    print(f"{words.cells} cells, {len(report.wrong)} wrong, {time.monotonic() - started:.0f} s")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
