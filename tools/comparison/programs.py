"""Builds this project's programs and runs programs, each to its end or to a deadline."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


class Failed(Exception):
    """A program that did not do its work, with its last words."""


def run(words, deadline_seconds, before=None, variables=None):
    """The last line that the program prints, as JSON. `before` is called when it has said, on its standard error, that
    it is ready; it waits for a line until then. `variables` are added to its environment."""
    pipe = subprocess.PIPE
    environment = {**os.environ, **(variables or {})}
    words = list(map(str, words))
    program = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment)
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


def python(script, task, deadline_seconds, before=None, variables=None):
    return run([sys.executable, "-B", HERE / script, json.dumps(task)], deadline_seconds, before, variables)


def build():
    """The paths of the command and of the bounds, freshly built."""
    command = _command()
    bounds = _built(["bench", "--no-run", "--bench", "bounds"], "bounds")
    return command, bounds


def build_chucky(checkout, folder):
    """chucky's writer for the CPU with chucky.c around it, compiled from a checkout that the user names: the sources as
    they are, but without S3 and the GPU. Needs the development files of Blosc, LZ4 and Zstandard."""
    sources = checkout / "src"
    left_out = ("win32", "s3", "_stub", "/gpu/", "/multiarray/")
    files = [path for path in sorted(sources.rglob("*.c*")) if path.suffix in (".c", ".cpp")]
    files = [HERE / "chucky.c", *(path for path in files if not any(word in str(path) for word in left_out))]
    folder.mkdir(parents=True, exist_ok=True)
    objects = []
    for number, path in enumerate(files):
        compiler = ["g++", "-std=c++20"] if path.suffix == ".cpp" else ["gcc", "-std=gnu17"]
        objects.append(folder / f"{number}.o")
        options = ["-O3", "-march=native", "-fopenmp", "-D_GNU_SOURCE", "-DHAVE_BLOSC", f"-I{sources}"]
        _compile([*compiler, *options, "-c", path, "-o", objects[-1]])
    program = folder / "chucky"
    _compile(["g++", "-fopenmp", "-o", program, *objects, "-lblosc", "-llz4", "-lzstd", "-lpthread", "-lm"])
    return program


def _compile(words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"chucky can't be built: {done.stderr.strip()[:600]}")


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
