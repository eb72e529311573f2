"""The tasks that a scheduler of ``dask.distributed`` has, and what a worker does with one."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from shardwright import _errors
from shardwright._tasks import RunTasks

if TYPE_CHECKING:
    import distributed

__all__ = ["Calls", "Window"]

#: What another attempt finds as it was: errors of the input, and of how it is called.
_LASTING = (
    _errors.ConfigError,
    _errors.ExistsError,
    _errors.FormatError,
    _errors.NotFoundError,
    _errors.UnsupportedError,
)
#: Seconds after which it is asked again how many threads the cluster has.
_CLUSTER_SECONDS = 5.0


class Calls:
    """The tasks that the scheduler has."""

    def __init__(
        self, client: distributed.Client, path: Path, retries: int, window: int | None, memory_bytes: int
    ) -> None:
        from distributed import as_completed

        self._client, self._retries = client, retries
        self._plan = _plan_of(path)
        self._words = {"path": str(path), "plan": self._plan, "memory_bytes": memory_bytes}
        self._window = Window(client, window)
        self._completed = as_completed(loop=client.loop)
        #: By their keys, with the ids of their tasks.
        self._futures: dict[str, tuple[str, distributed.Future]] = {}
        self._lost: Counter[str] = Counter()
        # It has the file open, so nothing comes after it that may fail.
        self._ids = _Ids(path)

    def ended(self) -> Iterator[tuple[str, dict[str, Any] | BaseException]]:
        """Yield the id of each task as it ends, with its receipt or its error."""
        again: list[str] = []
        has_failed = False
        while True:
            busy = len(self._futures) + len(again)
            room = max(self._window.size() - busy, 0)
            self._submit(again + self._ids.take(room, busy == 0 and not has_failed))
            if not self._futures:
                return
            again = []
            batch = self._completed.next_batch()
            for task, outcome in self._outcomes({future.key: future for future in batch}):
                if _was_lost(outcome) and self._lost[task] < self._retries:
                    self._lost[task] += 1
                    again.append(task)
                else:
                    has_failed |= isinstance(outcome, BaseException)
                    yield task, outcome

    def give_up(self) -> None:
        """Let the scheduler forget what it still has, and what has failed."""
        self._ids.close()
        left = [future for _, future in self._futures.values()]
        self._futures = {}
        # Where the scheduler is lost, there is nothing to forget, and another error says so.
        with suppress(Exception):
            if left:
                self._client.cancel(left)
            # Who submits the same keys next must not find what was let go of just now.
            self._client.sync(_nothing)

    def _submit(self, tasks: list[str]) -> None:
        if not tasks:
            return
        # Without time to wait, each call is a generation of its own, which comes after all that was submitted before.
        keys = [self._key(task) for task in tasks]
        words = {"key": keys, "retries": self._retries, "fifo_timeout": "0 ms", **self._words}
        futures = self._client.map(_run_task, tasks, **words)
        self._futures.update(zip(keys, zip(tasks, futures, strict=True), strict=True))
        self._completed.update(futures)

    def _key(self, task: str) -> str:
        # Who runs the same tasks on the same cluster at the same time waits for the same calls. What was given up
        # needs another key: the scheduler knows the old one as failed for as long as anybody holds it.
        lost = self._lost[task]
        return f"shardwright-{self._plan}-{task}" + (f"-again-{lost}" if lost else "")

    def _outcomes(self, batch: dict[str, distributed.Future]) -> Iterator[tuple[str, dict[str, Any] | BaseException]]:
        finished = {key: future for key, future in batch.items() if future.status == "finished"}
        try:
            answers = self._client.gather(finished)
        except Exception:
            # One of them was lost with its worker since then: each is asked for by itself.
            answers = {}
        for key, future in batch.items():
            outcome: dict[str, Any] | BaseException
            try:
                answer = answers[key] if key in answers else future.result()
                outcome = answer["receipt"] if "receipt" in answer else _error_of(answer)
            except Exception as error:
                outcome = error
            task, _ = self._futures.pop(key)
            future.release()
            yield task, outcome


async def _nothing() -> None:
    pass


class Window:
    """How many tasks the scheduler is to have."""

    def __init__(self, client: distributed.Client, fixed: int | None) -> None:
        if fixed is not None and fixed < 1:
            raise _errors.ConfigError(f"window = {fixed}: at least 1, or None for as many as the cluster needs")
        self._client, self._fixed = client, fixed
        self._asked: float | None = None
        self._size = 0

    def size(self) -> int:
        """Return the number, for as many threads as there are now."""
        if self._fixed is not None:
            return self._fixed
        now = monotonic()
        if self._asked is None or now - self._asked > _CLUSTER_SECONDS:
            self._asked, self._size = now, max(4 * sum(self._client.nthreads().values()), 64)
        return self._size


def _was_lost(outcome: object) -> bool:
    from distributed import KilledWorker
    from distributed.client import CancelledError

    return isinstance(outcome, KilledWorker | CancelledError)


def _plan_of(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return str(json.loads(lines.readline())["id"])


class _Ids:
    """The ids of the tasks in their order, as they are read: there may be millions of them."""

    def __init__(self, path: Path) -> None:
        self._lines = path.open(encoding="utf-8")
        header = json.loads(self._lines.readline())
        self._is_levels = "pyramid" in header["operation"]
        self._tasks = islice(self._lines, header["arrays"], None)
        #: Where the tasks of a level have ended, the first of the next one.
        self._next: dict[str, Any] | None = None
        self._level: str | None = None

    def take(self, room: int, may_go_on: bool) -> list[str]:
        """Return the next ids, as there is room for them; those of another level only where nothing is waited for."""
        taken: list[str] = []
        while len(taken) < room and (task := self._peek()) is not None:
            level = task["array"] if self._is_levels else None
            if level != self._level:
                if taken or (self._level is not None and not may_go_on):
                    break
                self._level = level
            self._next = None
            taken.append(task["id"])
        return taken

    def _peek(self) -> dict[str, Any] | None:
        if self._next is None and (line := next(self._tasks, None)) is not None:
            self._next = json.loads(line)
        return self._next

    def close(self) -> None:
        self._lines.close()


def _error_of(answer: dict[str, Any]) -> BaseException:
    """Return the error that a worker has told of."""
    error: BaseException = getattr(_errors, answer["error"])(*answer["arguments"])
    return error


def _run_task(task: str, path: str, plan: str, memory_bytes: int) -> dict[str, Any]:
    """Run a task in a worker, and return its receipt, or an error that will not pass."""
    try:
        return {"receipt": dict(_opened(path, plan, memory_bytes).run(task))}
    except _LASTING as error:
        words = [error.errno, error.strerror, error.filename] if isinstance(error, OSError) else list(error.args)
        return {"error": type(error).__name__, "arguments": words}


#: For each thread of a worker, the last file of tasks that it has opened: its threads don't wait for each other.
_local = threading.local()


def _opened(path: str, plan: str, memory_bytes: int) -> RunTasks:
    wanted = (path, plan, memory_bytes)
    known: tuple[tuple[str, str, int], RunTasks] | None = getattr(_local, "opened", None)
    if known is not None and known[0] == wanted:
        return known[1]
    if _plan_of(Path(path)) != plan:
        raise _errors.FormatError(f"{path} is another plan than it was; run its tasks anew")
    opened = RunTasks(path, memory_bytes=memory_bytes)
    _local.opened = (wanted, opened)
    return opened
