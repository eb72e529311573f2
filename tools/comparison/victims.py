"""The other writers as `tools/compare --safety` wants them: fed at a camera's pace, and saying after every frame what
they took and what they call safe. As a program: one of them, in a process of its own; victim.rs tells what it prints.

A writer's word is what its interface has to say. acquire-zarr and zarr-python have no word for "safe", so theirs is
`-`."""

import json
import sys
import time
from collections import deque

from rivals import AcquireZarr, Tensorstore, ZarrPython


def runs(numbers):
    """Ranges of numbers that follow each other."""
    ranges = []
    for number in numbers:
        if ranges and ranges[-1][1] == number:
            ranges[-1][1] += 1
        else:
            ranges.append([number, number + 1])
    return ranges


class Stream:
    """acquire-zarr takes frame by frame; its calls are all that it says."""

    def __init__(self, task, case, pool):
        self.stream = AcquireZarr(case, task["path"], task["planned"], task["variant"]).stream
        self.pool, self.accepted, self.safe = pool, 0, "-"

    def append(self, number):
        self.stream.append(self.pool[number % len(self.pool)])
        self.accepted += 1

    def skip(self, number):
        self.stream.skip(self.pool[0].nbytes)

    def close(self):
        self.stream.close()


class Blocks:
    """Collects `depth` frames, as the program must that writes them, and hands them over at once."""

    def __init__(self, depth, pool):
        self.depth, self.pool, self.numbers = depth, pool, []
        self.accepted = 0

    def append(self, number):
        self.numbers.append(number)
        self.hand_over_at(number)

    def skip(self, number):
        self.hand_over_at(number)

    def hand_over_at(self, number):
        if (number + 1) % self.depth == 0:
            self.hand_over()

    def hand_over(self):
        numbers, self.numbers = self.numbers, []
        for first, last in runs(numbers):
            self.write(first, last, self.pool.take(range(first, last), axis=0, mode="wrap"))
        self.accepted += len(numbers)

    def close(self):
        self.hand_over()


class TensorstoreBlocks(Blocks):
    """tensorstore writes a layer of chunks at a time; awaited, or with its promises kept and looked at."""

    def __init__(self, task, case, pool):
        super().__init__(case.chunk[0], pool)
        self.array = Tensorstore(case, task["path"], task["planned"], {"feed": "frames", "file_io_sync": True}).array
        self.awaited = task["variant"]["awaited"]
        self.promises, self.kept = deque(), 0

    def write(self, first, last, pixels):
        promise = self.array[first:last].write(pixels)
        promise.copy.result()
        if self.awaited:
            promise.result()
        self.promises.append((promise, last - first))

    @property
    def safe(self):
        """Raises what a write that has come to its end met with."""
        while self.promises and self.promises[0][0].done():
            self.promises[0][0].result()
            self.kept += self.promises.popleft()[1]
        return self.kept

    def close(self):
        super().close()
        for promise, _ in self.promises:
            promise.result()


class TensorstoreShards:
    """One transaction a shard, committed when the shard is full, while the next one fills."""

    def __init__(self, task, case, pool):
        self.rival = Tensorstore(case, task["path"], task["planned"], {"feed": "frames", "file_io_sync": True})
        self.pool, self.depth = pool, case.shard[0]
        self.transaction, self.frames = None, 0
        self.promises, self.accepted, self.kept = deque(), 0, 0

    def append(self, number):
        if self.transaction is None:
            self.transaction, self.frames = self.rival.ts.Transaction(), 0
        shard = self.rival.array.with_transaction(self.transaction)
        shard[number].write(self.pool[number % len(self.pool)]).copy.result()
        self.accepted += 1
        self.frames += 1
        self.commit_at(number)

    def skip(self, number):
        self.commit_at(number)

    def commit_at(self, number):
        if (number + 1) % self.depth == 0:
            self.commit()

    def commit(self):
        if self.transaction is not None:
            self.promises.append((self.transaction.commit_async(), self.frames))
            self.transaction = None

    safe = TensorstoreBlocks.safe

    def close(self):
        self.commit()
        for promise, _ in self.promises:
            promise.result()


class ZarrPythonBlocks(Blocks):
    """zarr-python writes a whole shard at a time, or a layer of chunks, for which it reads the shard and writes it
    again."""

    safe = "-"

    def __init__(self, task, case, pool):
        super().__init__(case.shard[0] if task["variant"]["unit"] == "shard" else case.chunk[0], pool)
        self.array = ZarrPython(case, task["path"], task["planned"], {}).array

    def write(self, first, last, pixels):
        self.array[first:last] = pixels


VICTIMS = {
    "acquire-zarr": Stream,
    "tensorstore blocks": TensorstoreBlocks,
    "tensorstore shards": TensorstoreShards,
    "zarr-python": ZarrPythonBlocks,
}


def say(*words):
    print(*words, flush=True)


def said(error):
    return " ".join(f"{type(error).__name__}: {error}".split())


def feed(task, victim):
    due = time.monotonic()
    for number in range(task["frames"]):
        time.sleep(max(0, due - time.monotonic()))
        # Who is late does not make up for it: a burst is no camera's pace.
        due = max(due, time.monotonic()) + 1 / task["frames_per_second"]
        try:
            (victim.skip if number in task["skipped"] else victim.append)(number)
            say("frame", number + 1, victim.accepted, victim.safe)
        except Exception as error:
            say("error", "append", number, said(error))
            return False
    return True


def main(task):
    import frames as frames_file
    from cases import Case

    case = Case.told(task["case"])
    pool = frames_file.load(task["pool"], case)
    try:
        victim = VICTIMS[task["writer"]](task, case, pool)
    except Exception as error:
        say("error", "create", 0, said(error))
        return
    say("ready")
    fed = feed(task, victim)
    while fed and not task["close"]:
        time.sleep(0.02)
        say("frame", task["frames"], victim.accepted, victim.safe)
    try:
        victim.close()
    except Exception as error:
        if fed:
            say("error", "close", task["frames"], said(error))
    try:
        safe = victim.safe
    except Exception:
        safe = victim.kept  # Its error was said.
    say("closed", victim.accepted, safe, "-")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
