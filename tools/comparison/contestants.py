"""Who takes part, and one checked run of each."""

import mmap
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import conditions
import programs
from rivals import MAKE_LEVELS, RIVALS

OURS = "shardwright"
COPYING = f"{OURS}, copying"
WARMED = ", warmed"
# glibc's allocator: nothing is mapped by itself, and nothing is given back.
KEEPS_MEMORY = {"GLIBC_TUNABLES": "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776"}
# The default.
RING_BYTES = 1 << 30
# How much of the memory that nobody uses is touched before a run.
WARM_SHARE_MAX = 0.5
TUNE_FRAMES_MAX = 16_384


@dataclass
class Contestant:
    """A writer that is run in every round, with the settings to choose from."""

    name: str
    variants: tuple
    ours: bool = False
    # A rival that has written before in the same process, whose allocator gives nothing back to the system.
    warm: bool = False

    @property
    def writer(self):
        """The name of the writer, however it is run."""
        return self.name.removesuffix(WARMED) if self.warm else self.name

    def takes_part(self, case):
        return self.ours or not case.levels or self.writer in MAKE_LEVELS

    def frames_to_tune(self, case):
        """A shard or two tell which settings are better; of small frames, some layers of chunks."""
        return min(case.frames_for(self.writer), RIVALS[self.writer].shards_to_tune * case.shard[0], TUNE_FRAMES_MAX)


def contestants(all_storages, only, with_chucky):
    ours = [
        Contestant(OURS, ({"storage": "auto", "frames": "in the ring"},), ours=True),
        Contestant(COPYING, ({"storage": "auto", "frames": "copied"},), ours=True),
    ]
    if all_storages:
        ways = ("mapped", "buffered", "direct")
        ours += [Contestant(f"{OURS} {way}", ({"storage": way, "frames": "in the ring"},), ours=True) for way in ways]
    names = [name for name in RIVALS if (not only or name in only) and (name != "chucky" or with_chucky)]
    cold = [Contestant(name, RIVALS[name].variants) for name in names]
    warm = [Contestant(name + WARMED, RIVALS[name].variants, warm=True) for name in names]
    return ours + cold + warm


@dataclass
class Stage:
    """Where runs happen, and with what."""

    shardwright: Path
    bounds: Path
    deadline_seconds: float
    chucky: Path | None = None

    def run(self, contestant, variant, case, pool, folder, frames, full, seed):
        """One run: a clean place, the write, the comparison with the frames, a clean place again. Only what was equal
        returns."""
        output = folder / "out.zarr"
        shutil.rmtree(output, ignore_errors=True)
        os.sync()  # What the run before left unwritten or deleted is not this one's business.
        try:
            write = self._ours if contestant.ours else self._rival
            result = write(contestant, variant, case, pool, output, frames)
            task = {"case": case.words(), "pool": str(pool), "path": str(output), "frames": frames}
            # How means of integers are rounded: this project to the nearest, acquire-zarr down.
            task.update(full=full, seed=seed, halves_up=contestant.ours)
            found = programs.python("check.py", task, self.deadline_seconds)
        finally:
            shutil.rmtree(output, ignore_errors=True)
        raw = frames * case.frame_bytes
        rate = raw / result["seconds"]
        return {**result, "frames": frames, "bytes": case.bytes_of(frames), "rate": rate, "check": found}

    def _rival(self, contestant, variant, case, pool, output, frames):
        before, variables = warm_up(case, frames), KEEPS_MEMORY if contestant.warm else None
        warm = output.with_name("warm.zarr") if contestant.warm else ""
        if warm:
            shutil.rmtree(warm, ignore_errors=True)
        if contestant.writer == "chucky":
            shape = [case.pool, *case.frame, *case.chunk, *case.shard]
            words = [self.chucky, output, frames, pool, *shape, case.dtype, case.codec, *variant.values(), warm]
            try:
                return programs.run(words, self.deadline_seconds, before, variables)
            finally:
                shutil.rmtree(warm or output.with_name("warm.zarr"), ignore_errors=True)
        task = {"writer": contestant.writer, "variant": variant, "case": case.words(), "pool": str(pool)}
        task.update(path=str(output), frames=frames, warm=str(warm))
        return programs.python("rivals.py", task, self.deadline_seconds, before, variables)

    def _ours(self, contestant, variant, case, pool, output, frames):
        passes, rest = divmod(frames, case.pool)
        once = ["--loop", passes] if rest == 0 else ["--frames", frames]
        if rest and passes:
            raise programs.Failed(f"{frames} frames are no whole passes of the pool's {case.pool}")
        in_ring = variant["frames"] == "in the ring"
        loaded = 0 if in_ring else case.pool_bytes
        layout = ["--chunk", _commas(case.chunk), "--shard", _commas(case.shard), "--codec", case.codec]
        level = [] if case.codec == "none" else ["--level", 1, "--shuffle", "bit"]
        pyramid = ["--pyramid", "mean", "--levels", case.levels] if case.levels else []
        # acquire-zarr has no checksum of chunks, so nobody writes one.
        shape = ["--shape", _commas((case.pool, *case.frame)), "--dtype", case.dtype]
        report = programs.run(
            [
                *[
                    self.shardwright,
                    "replay",
                    pool,
                    output,
                    *shape,
                    "--dma" if in_ring else "--preload",
                    *once,
                    "--rate",
                    "max",
                ],
                *["--memory", RING_BYTES + loaded, *layout, *level, *pyramid, "--no-checksum"],
                *["--storage", variant["storage"], "--json", "--quiet", "--wait"],
            ],
            self.deadline_seconds,
            warm_up(case, frames),
        )
        if report["frames_written"] != frames:
            raise programs.Failed(f"{report['frames_written']} of {frames} frames were written")
        return {
            "seconds": report["seconds"],
            "peak_rss": report["peak_rss_bytes"],
            "loaded_bytes": loaded,
            "append": _append(report),
            "storage": report["storage"],
            "stages": report["stages"],
        }

    def bound(self, case, pool, folder, storage_bytes):
        """What the machine could do at best, now."""
        return programs.run(
            [
                *[self.bounds, "--frames", pool, "--shape", _commas((case.pool, *case.frame))],
                *["--chunk", _commas(case.chunk), "--element-bytes", case.element_bytes],
                *["--codec", case.codec, "--pixel-bytes", case.bytes_of(case.frames)],
                *["--folder", folder, "--bytes", storage_bytes],
                *["--threads", len(os.sched_getaffinity(0))],
            ],
            self.deadline_seconds,
        )


def warm_up(case, frames):
    """Touches as much memory as the run's pixels take, and frees it: the host of a virtual machine takes back what lies
    free, and gives it again page by page when it is used, which can take longer than the run."""

    def touch():
        size = min(case.bytes_of(frames), int(WARM_SHARE_MAX * conditions.memory_available()))
        with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory[:: mmap.PAGESIZE] = bytes(len(range(0, size, mmap.PAGESIZE)))

    return touch


def _commas(numbers):
    return ",".join(map(str, numbers))


def _append(report):
    """An append is an acquire, the copy, and a commit. The engine times the two calls; percentiles don't add up, so the
    sum is more than the truth for p50 and p99. A copy of the frame is not in it."""
    calls = {row["stage"]: row for row in report["stages"]}
    parts = [calls[stage] for stage in ("acquire", "commit")]
    sums = {name: sum(part[f"{name}_ns"] for part in parts) / 1e9 for name in ("p50", "p99", "max")}
    return {"count": parts[1]["count"], "frames": 1, **sums}
