"""The scripts of `examples/tasks`: with a stub of Slurm, and with those schedulers that are installed."""

import os
import pathlib
import shutil
import subprocess
import time

import pytest
from test_tasks import CODEC, FRAMES, assert_finished, contents, plan, planned

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "tasks"
__all__ = ["plan"]

# Runs each job at once, and again after `scontrol requeue` from within.
SBATCH = """#!/usr/bin/env bash
set -u
echo "$*" >> "$STUB/calls"
id=$(($(cat "$STUB/id" 2> /dev/null || echo 0) + 1))
echo $id > "$STUB/id"
array= wrap=
while [[ "${1-}" == --* ]]; do
    case "$1" in
        --array=*) array="${1#*=}" ;;
        --wrap=*) wrap="${1#*=}" ;;
    esac
    shift
done
if [[ -n $wrap ]]; then
    sh -c "$wrap" >> "$STUB/said" 2>&1
    exit 0
fi
for ((index = ${array%-*}; index <= ${array#*-}; index++)); do
    for ((restart = 0; ; restart++)); do
        rm -f "$STUB/requeue"
        export SLURM_ARRAY_JOB_ID=$id SLURM_ARRAY_TASK_ID=$index SLURM_RESTART_COUNT=$restart
        bash "$@" >> "$STUB/said" 2>&1 || echo "job $index: $?" >> "$STUB/said"
        [[ -e "$STUB/requeue" ]] || break
    done
done
echo "$id;cluster"
"""
SCONTROL = """#!/usr/bin/env bash
case "$1" in
    show) printf 'MaxArraySize            = 3\\nMaxJobCount = 10000\\n' ;;
    requeue) echo "requeue $2" >> "$STUB/calls" && touch "$STUB/requeue" && kill "$PPID" ;;
esac
"""
# The command, which fails twice in the third job, as on a full disk.
COMMAND = """#!/usr/bin/env bash
if [[ "$*" == *"--range 10:15"* ]]; then
    echo >> "$STUB/failures"
    (($(wc -l < "$STUB/failures") > 2)) || exit 75
fi
exec "$REAL" "$@"
"""


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def installed(command, tmp_path_factory, monkeypatch):
    """A folder in front of all others in which programs are looked for; `shardwright` is there."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "shardwright").symlink_to(command)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_slurm_as_a_stub_has_it(installed, command, tool, plan, tmp_path, monkeypatch):
    stub = installed / "stub"
    stub.mkdir()
    monkeypatch.setenv("STUB", str(stub))
    monkeypatch.setenv("REAL", str(command))
    program(installed / "sbatch", SBATCH)
    program(installed / "scontrol", SCONTROL)
    (installed / "shardwright").unlink()
    program(installed / "shardwright", COMMAND)
    subprocess.run([EXAMPLES / "slurm.sh", plan, "5"], check=True, cwd=tmp_path)
    calls = (stub / "calls").read_text().splitlines()
    script = f"{EXAMPLES}/slurm.sh {plan} 5"
    # Five jobs, of which an array may have three.
    assert calls[0] == f"--parsable --array=0-2 {script} 0 {FRAMES}"
    assert calls[-2] == f"--parsable --array=0-1 {script} 15 {FRAMES}"
    assert calls[-1] == f"--dependency=afterany:1:2 --job-name=finish --wrap=shardwright finish {plan}"
    assert calls[1:-2] == ["requeue 1_2"] * 2
    said = (stub / "said").read_text()
    assert said.count(": written") == FRAMES and said.count("was there") == 0 and f"{FRAMES} shards" in said, said
    assert_finished(tool, tmp_path)


def test_slurm_is_called_wrongly_and_with_blanks_in_names(installed, plan, tmp_path, monkeypatch):
    said = subprocess.run([EXAMPLES / "slurm.sh"], capture_output=True, text=True)
    assert said.returncode == 2 and "TASKS.jsonl [TASKS OF EACH JOB]" in said.stderr
    stub = installed / "stub"
    stub.mkdir()
    monkeypatch.setenv("STUB", str(stub))
    program(installed / "sbatch", SBATCH)
    program(installed / "scontrol", SCONTROL)
    place = tmp_path / "it's a place"
    place.mkdir()
    tasks = shutil.copy(plan, place)
    # Of those that are missing, the end is that of all.
    subprocess.run([installed / "shardwright", "run-task", tasks, "--range", "0:9"], check=True)
    subprocess.run([installed / "shardwright", "finish", tasks], check=False)
    subprocess.run([EXAMPLES / "slurm.sh", place / "tasks.missing.jsonl"], check=True, cwd=tmp_path)
    said = (stub / "said").read_text()
    assert said.count(": written") == FRAMES - 9 and f"{FRAMES} shards" in said, said


@pytest.fixture
def levels(command, tool, tmp_path):
    """A file of tasks that make levels of an image, and another image with what one call makes."""
    image, plain = tmp_path / "i.ome.zarr", tmp_path / "plain.ome.zarr"
    cut = ["--chunk", "1,32,32", "--shard", "4,64,64", "--no-sync"]
    tool("replay", "synthetic", image, "--camera", "256x200xu16", "--frames", "12", *cut)
    shutil.copytree(image, plain)
    tasks = tmp_path / "levels.jsonl"
    with tasks.open("w") as file:
        subprocess.run([command, "plan", "pyramid", image, "--levels", "3", "--no-sync"], stdout=file, check=True)
    tool("pyramid", plain, "--levels", "3", "--no-sync")
    return tasks


def assert_levels(tmp_path):
    assert contents(tmp_path / "i.ome.zarr") == contents(tmp_path / "plain.ome.zarr")
    assert not list(tmp_path.glob(".i.ome.zarr*"))


def test_slurm_runs_level_after_level(installed, levels, tmp_path, monkeypatch):
    stub = installed / "stub"
    stub.mkdir()
    monkeypatch.setenv("STUB", str(stub))
    program(installed / "sbatch", SBATCH)
    program(installed / "scontrol", SCONTROL)
    subprocess.run([EXAMPLES / "slurm.sh", levels, "2"], check=True, cwd=tmp_path)
    calls = [call.split(" ") for call in (stub / "calls").read_text().splitlines()]
    waits = [[word for word in call if word.startswith("--dependency")] for call in calls]
    ranges = [call[-2:] for call in calls[:-1]]
    # Of 12 frames, a level has three shards in time, of four, one and one in space.
    assert [(last, waits[at]) for at, (_, last) in enumerate(ranges)] == [
        ("12", []),
        ("12", []),
        ("15", ["--dependency=afterany:1:2"]),
        ("18", ["--dependency=afterany:3"]),
    ], calls
    assert waits[-1] == ["--dependency=afterany:1:2:3:4"]
    assert "requeue" not in (stub / "calls").read_text()
    assert_levels(tmp_path)


def test_snakemake_runs_level_after_level(installed, levels, tmp_path):
    snakemake = os.environ.get("SHARDWRIGHT_SNAKEMAKE") or shutil.which("snakemake")
    if not snakemake:
        pytest.skip("not run: there is no snakemake (SHARDWRIGHT_SNAKEMAKE names another)")
    words = ["--snakefile", EXAMPLES / "Snakefile", "--cores", "4", "--config", f"tasks={levels.name}", "batch=4"]
    done = subprocess.run([snakemake, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "Trying to restart" not in done.stderr, done.stderr
    assert_levels(tmp_path)


def test_slurm(installed, tool, plan, tmp_path, tmp_path_factory):
    """A Slurm that is installed, with a node that is up."""
    sinfo = ["sinfo", "--noheader", "--states=idle,mixed"]
    if not shutil.which("sinfo") or not subprocess.run(sinfo, capture_output=True, text=True).stdout.strip():
        pytest.skip("not run: there is no Slurm with a free node")
    place = tmp_path_factory.mktemp("jobs")
    env = {**os.environ, "SBATCH_TIMELIMIT": "5"}
    subprocess.run([EXAMPLES / "slurm.sh", plan, "9"], check=True, cwd=place, env=env)
    said, start = "", time.monotonic()
    while f"{FRAMES} shards" not in said and time.monotonic() - start < 60:
        time.sleep(0.1)
        said = "".join(path.read_text() for path in place.iterdir())
    assert said.count(": written") == FRAMES, said
    # What it says last comes a moment before it ends.
    time.sleep(0.5)
    assert_finished(tool, tmp_path)


def test_snakemake(installed, command, tool, plan, tmp_path):
    snakemake = os.environ.get("SHARDWRIGHT_SNAKEMAKE") or shutil.which("snakemake")
    if not snakemake:
        pytest.skip("not run: there is no snakemake (SHARDWRIGHT_SNAKEMAKE names another)")
    words = ["--snakefile", EXAMPLES / "Snakefile", "--cores", "2", "--config", "tasks=tasks.jsonl", "batch=7"]

    def run():
        done = subprocess.run([snakemake, *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return "Nothing to be done" not in done.stderr

    assert [run(), run()] == [True, False]
    # A result that has gone is made again, and what was planned anew is done anew.
    shutil.rmtree(tmp_path / "o.zarr")
    assert [run(), run()] == [True, False] and (tmp_path / "o.zarr/zarr.json").exists()
    shutil.rmtree(tmp_path / "o.zarr")
    os.utime(tmp_path / "a.zarr/c/5/0/0")
    planned(command, plan, "repack", tmp_path / "a.zarr", tmp_path / "o.zarr", *CODEC)
    assert [run(), run()] == [True, False] and (tmp_path / "o.zarr/zarr.json").exists()
    receipts = sorted((tmp_path / "tasks.jsonl.receipts").iterdir())
    assert sum(len(path.read_text().splitlines()) for path in receipts) == FRAMES and len(receipts) == 4
    for left in ("tasks.jsonl.receipts", ".snakemake"):
        shutil.rmtree(tmp_path / left)
    (tmp_path / "tasks.jsonl.done").unlink()
    assert_finished(tool, tmp_path)


def test_nextflow(installed, tool, plan, tmp_path, tmp_path_factory):
    if not shutil.which("nextflow"):
        pytest.skip("not run: there is no nextflow")
    call = ["nextflow", "run", EXAMPLES / "main.nf", "--tasks", plan, "--batch", "7"]
    subprocess.run(call, check=True, cwd=tmp_path_factory.mktemp("work"))
    assert_finished(tool, tmp_path)


def test_the_scripts_are_short():
    for path in EXAMPLES.iterdir():
        assert len(path.read_text().splitlines()) <= 40, path
