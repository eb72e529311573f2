"""What happens to every writer in `tools/compare --safety`, and how much of it each is fed."""

import json
from collections import Counter
from dataclasses import dataclass

import mounts
import programs
import witnesses
from victims import runs as runs_of

# Frames a second. tensorstore and zarr-python write each shard several times over, and must keep up.
PACE = 50
PLANNED = 400
SKIPPED = [70, 71, 72, *range(100, 120)]
# acquire-zarr keeps 1 GiB of frames in a circle: what it does with a frame that never came shows when it has been
# round.
LATE_FRAMES, LATE_FIRST, LATE_SKIPPED = 8448, 8192, range(8300, 8320)
LATE_PACE = 1e6
# ext4 commits its journal every 5 s; the cut comes after the first time, so that nobody lives by that alone.
POWER_FRAMES, POWER_STEP = 300, 13
POWER_MIB = 256
# One that is smaller than a shard of this project in the making, which reserves the worst case, and one that holds
# several.
FULL_MIB, FULL_FRAMES, FULL_PACE = (8, 20), 600, 200


def ended_well(lab, who, folder, errors, turn):
    """Nothing happens: the harness itself must see every frame."""
    path = folder / "out.zarr"
    run = lab.start(who, path, errors, frames=192, planned=192, close=True).end()
    lab.keep_documents(who, path)
    result = lab.examine(who, path, run, repair=False)
    if run["error"] or result["at_once"]["readable"] != 192:
        raise programs.Failed(f"a run without an accident went wrong: {result}")
    return result


def killed(frames):
    def test(lab, who, folder, errors, turn):
        path = folder / "out.zarr"
        run = lab.start(who, path, errors, frames, close=False)
        run.until(frames)
        run.kill()
        return lab.examine(who, path, run.end())

    return test


def unplugged(lab, who, folder, errors, turn):
    with mounts.Mount("ext4", POWER_MIB, folder) as mount:
        path = mount.at / "out.zarr"
        frames = POWER_FRAMES + POWER_STEP * turn
        run = lab.start(who, path, errors, frames, close=False)
        run.until(frames)
        mount.cut_power()
        run.kill()
        ended = run.end(listen=False)
        mount.mount_again()
        return lab.examine(who, path, ended)


def full(mib):
    def test(lab, who, folder, errors, turn):
        with mounts.Mount("tmpfs", mib, folder) as mount:
            path = mount.at / "out.zarr"
            run = lab.start(who, path, errors, FULL_FRAMES, close=True, planned=FULL_FRAMES, pace=FULL_PACE).end()
            return lab.examine(who, path, run, repair=False)

    return test


def skipping(lab, who, folder, errors, turn):
    return leave_out(lab, who, folder, errors, 192, 0, SKIPPED, PACE)


def skipping_late(lab, who, folder, errors, turn):
    return leave_out(lab, who, folder, errors, LATE_FRAMES, LATE_FIRST, LATE_SKIPPED, LATE_PACE)


def leave_out(lab, who, folder, errors, frames, first, skipped, pace):
    """What stands where frames never came; frames before the `first` are not looked at."""
    path = folder / "out.zarr"
    run = lab.start(who, path, errors, frames, planned=frames, close=True, skipped=skipped, pace=pace).end()
    seen = witnesses.look(path, lab.case, lab.pool, first)
    looks = Counter()
    for number in skipped:
        state = seen["states"][number] if number < len(seen["states"]) else witnesses.ERROR
        if state == witnesses.WRONG:
            state = witnesses.twin(path, lab.case, lab.pool, number)
        looks["pixels of other frames" if state.startswith("pixels of") else state] += 1
    given = frames - first - len(skipped)
    counted = lab.count(seen, run, skipped)
    return {
        **run,
        "given": given,
        "at_once": {**counted, "safe_lost": min(given - counted["readable"], counted["safe_lost"])},
        "looks": dict(looks),
        "listed": listed(path, skipped),
    }


def listed(path, skipped):
    """Whether a document of the dataset names the frames that never came."""
    expected = [list(span) for span in runs_of(skipped)]
    return any(json.dumps(expected) in json.dumps(json.loads(file.read_text())) for file in path.rglob("zarr.json"))


@dataclass(frozen=True)
class Test:
    title: str
    run: object
    columns: str
    # Its row in the short table.
    short: str | None = None
    mounts: bool = False
    once: bool = False
    # Only writers that take a stream of frames.
    streams: bool = False


TESTS = {
    "well": Test("Nothing happens: 192 frames, closed", ended_well, "kill", once=True),
    "kill-1": Test(
        "kill -9 in the first shard, after frame 60 of 64",
        killed(60),
        "kill",
        "kill -9 after frame 60, in the first shard",
    ),
    "kill-2": Test(
        "kill -9 in the second shard, after frame 100",
        killed(100),
        "kill",
        "kill -9 after frame 100, in the second shard",
    ),
    "power": Test(
        f"Power cut (ext4, shutdown without a flush), after frame {POWER_FRAMES} to {POWER_FRAMES + 4 * POWER_STEP}",
        unplugged,
        "kill",
        f"power cut after frame {POWER_FRAMES} to {POWER_FRAMES + 4 * POWER_STEP}",
        mounts=True,
    ),
    **{
        f"full-{mib}": Test(
            f"Disk full: {FULL_FRAMES} frames, {FULL_PACE} a second, into a tmpfs of {mib} MiB",
            full(mib),
            "full",
            f"disk of {mib} MiB full",
            mounts=True,
        )
        for mib in FULL_MIB
    },
    "skipped": Test(
        f"{len(SKIPPED)} of 192 frames never come", skipping, "skipped", f"{len(SKIPPED)} of 192 frames never come"
    ),
    "skipped-late": Test(
        f"{len(LATE_SKIPPED)} frames never come, {LATE_SKIPPED[0]} frames after the start of a stream",
        skipping_late,
        "skipped",
        f"{len(LATE_SKIPPED)} frames never come, later than 1 GiB",
        streams=True,
    ),
}
