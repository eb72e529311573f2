"""Builds this project's programs and runs programs, each to its end or to a deadline."""

import json
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


class Failed(Exception):
    """A program that did not do its work, with its last words."""


def run(words, deadline_seconds, before=None):
    """The last line that the program prints, as JSON. `before` is called when it has said, on its standard error, that
    it is ready; it waits for a line until then."""
    pipe = subprocess.PIPE
    program = subprocess.Popen(list(map(str, words)), stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    try:
        said = ""
        if before:
            said = _said_until_ready(program, deadline_seconds)
            before()
        out, errors = program.communicate("\n" if before else None, timeout=deadline_seconds)
        errors = said + errors
    except BaseException as error:
        # A contestant that goes on in the background would disturb all that follow.
        program.kill()
        program.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Failed(f"not done after {deadline_seconds} s") from None
        raise
    if program.returncode != 0:
        raise Failed(f"exit code {program.returncode}: {(errors or out).strip()[-600:]}")
    try:
        return json.loads(out.strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise Failed(f"no result; it printed {out[-300:]!r} {errors[-300:]!r}") from None


def _said_until_ready(program, deadline_seconds):
    """What it says up to then, or to its end, if that comes first."""
    said = []
    too_late = threading.Timer(deadline_seconds, program.kill)
    too_late.start()
    for line in program.stderr:
        said.append(line)
        if line.startswith("ready"):
            break
    too_late.cancel()
    return "".join(said)


def python(script, task, deadline_seconds, before=None):
    return run([sys.executable, "-B", HERE / script, json.dumps(task)], deadline_seconds, before)


def build():
    """The paths of the command and of the bounds, freshly built."""
    command = _command()
    bounds = _built(["bench", "--no-run", "--bench", "bounds"], "bounds")
    return command, bounds


def build_for_safety():
    """The paths of the command and of the writer that is harmed, freshly built."""
    return _command(), _built(["build", "--release", "--example", "victim"], "victim")


def _command():
    return _built(["build", "--release", "--package", "shardwright-cli", "--bin", "shardwright"], "shardwright")


def _built(words, name):
    words = ["cargo", *words, "--quiet", "--message-format", "json-render-diagnostics"]
    build = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if build.returncode != 0:
        raise Failed(f"{' '.join(words)} failed; what it said stands above")
    for line in build.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == name:
            return Path(message["executable"])
    raise Failed(f"{' '.join(words)} made no {name}")
