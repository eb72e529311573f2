"""Many machines by ``dask.distributed``, and arrays that ``dask`` reads shard by shard.

>>> import shardwright.dask
>>> from distributed import Client
>>> client = Client(scheduler_file="scheduler.json")    # LocalCluster, dask-jobqueue, Kubernetes: any
>>> shardwright.dask.repack(client, "run.ome.zarr", "archive.ome.zarr", codec="blosc-zstd", progress=True)
>>> shardwright.dask.open("archive.ome.zarr").max(axis=(1, 2)).compute()

A task is one shard of the result. What goes to the scheduler is the path of the file of tasks and ids, what comes back
are receipts: no pixels, and nothing of ours that is pickled. All machines, and the caller's, must see the datasets and
the file of tasks at the same paths. ``pip install shardwright[dask]`` installs what this needs.

A task runs in the process of the worker, which lets its other threads go on: the interpreter is not held. A child
process of its own would cost its start for every shard, and whoever kills a worker leaves its children running; as no
task depends on not being run twice, there is nothing that a process of its own would protect.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from shardwright import _errors, _offline
from shardwright._offline import Progress, Report, StoredArray, StrPath
from shardwright._progress import of_tasks
from shardwright._tasks import RunTasks, finish_tasks, plan_repack

if TYPE_CHECKING:
    import dask.array
    import distributed

__all__ = ["Result", "open", "repack", "run"]

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


@dataclass
class Result:
    """What became of tasks.

    Attributes
    ----------
    tasks : int
        How many there were.
    done : int
        How many have their output.
    failed : list of (str, Exception)
        The ids of the others, each with its last error. Calling ``run`` again tries them again.
    receipts : list of dict
        As of ``RunTasks.run``, as they came.
    summary : Report or None
        Of ``repack``: what ``finish_tasks`` tells.
    """

    tasks: int
    done: int = 0
    failed: list[tuple[str, BaseException]] = field(default_factory=list)
    receipts: list[dict[str, Any]] = field(default_factory=list, repr=False)
    summary: Report | None = None

    @property
    def outcomes(self) -> dict[str, int]:
        """How many receipts say ``written``, ``found``, ``empty`` and ``finished``."""
        return dict(Counter(receipt["outcome"] for receipt in self.receipts))


def run(
    client: distributed.Client,
    tasks: StrPath,
    *,
    retries: int = 3,
    window: int | None = None,
    memory_bytes: int = 256 << 20,
    receipts: bool = True,
    progress: Progress = False,
) -> Result:
    """Run all tasks of a file on a cluster, the first ones first.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster. Workers may come, go and be killed meanwhile.
    tasks : path-like
        The file of ``plan_repack`` or of the command ``plan``, or one of missing tasks.
    retries : int
        How often a task is tried again: after an error that may pass, such as a full disk, and after it was lost so
        often with its worker that the scheduler gave it up. The scheduler counts all tasks that were on a worker that
        died (its ``allowed-failures``), so one that is given up need not have killed any. An error of the input is not
        tried again.
    window : int, optional
        How many tasks the scheduler has at once. By default four for each thread of the cluster, and 64 at least.
    memory_bytes : int
        For chunks on their way, in each thread of each worker.
    receipts : bool
        Keep the receipts for the result, about 1 kB each. ``finish_tasks`` has its own on the disk.
    progress : bool or callable
        True shows a bar; a callable is called with the tasks done, and all.

    Returns
    -------
    Result
        Errors of tasks are in its ``failed``, and are not raised. Where the scheduler itself is lost, the client's
        error is; a call with the client of another cluster finds what was done.
    """
    _needed("distributed")
    if client.asynchronous:
        raise _errors.ConfigError("client: one that was made without asynchronous=True")
    path = Path(tasks).absolute()
    # Refuses what is no file of tasks, here and not on each worker.
    result = Result(len(RunTasks(path)))
    with of_tasks("tasks", progress) as tell:
        calls = _Calls(client, path, retries, window, memory_bytes)
        try:
            for key, outcome in calls.ended():
                if isinstance(outcome, BaseException):
                    result.failed.append((key, outcome))
                else:
                    result.done += 1
                    if receipts:
                        result.receipts.append(outcome)
                if tell is not None:
                    tell(result.done + len(result.failed), result.tasks)
        finally:
            calls.give_up()
    return result


def repack(
    client: distributed.Client,
    path: StrPath,
    out: StrPath,
    *,
    tasks: StrPath | None = None,
    codec: str | Mapping[str, Any] | None = None,
    retries: int = 3,
    window: int | None = None,
    memory_bytes: int = 256 << 20,
    receipts: bool = True,
    progress: Progress = False,
    **options: Any,
) -> Result:
    """Make a new dataset as ``shardwright.repack`` does, each shard by any worker of a cluster.

    Plans here, runs the tasks there, and makes the result of them here. After a failure or an interruption another call
    goes on with what is there.

    Parameters
    ----------
    client : distributed.Client
        As of ``run``.
    path, out : path-like
        The finished dataset, and the new one.
    tasks : path-like, optional
        Where the file of tasks is to stay. By default it is ``OUT.tasks.jsonl`` beside the new dataset, and goes when
        that is there.
    codec
        As of ``create``. By default chunks stay as they are.
    retries, window, memory_bytes, receipts, progress
        As of ``run``.
    **options
        As of ``shardwright.repack``.

    Returns
    -------
    Result
        With the ``summary`` of ``finish_tasks``.

    Raises
    ------
    TasksFailed
        There is no new dataset, because tasks failed; its ``result`` says which.
    """
    file = Path(f"{out}.tasks.jsonl" if tasks is None else tasks)
    plan_repack(path, out, file, codec=codec, **options)
    result = run(
        client,
        file,
        retries=retries,
        window=window,
        memory_bytes=memory_bytes,
        receipts=receipts,
        progress=progress,
    )
    if not result.failed:
        result.summary = finish_tasks(file)
        gone = _errors.FormatError("the shard has gone, or was changed, since it was made")
        result.failed = [(key, gone) for key in result.summary.missing_ids]
    if result.failed:
        key, error = result.failed[0]
        missing = len(result.failed) if result.summary is None else result.summary.missing
        text = f"{missing} of {result.tasks} tasks failed; the first is {key}: {error}"
        failed = _errors.TasksFailed(f"{text}. The others are done: call this again, or run the tasks of {file}")
        failed.result = result
        raise failed
    if tasks is None:
        file.unlink(missing_ok=True)
    return result


def open(path: StrPath) -> dask.array.Array:
    """Open what ``shardwright.open`` does as an array of dask whose chunks are shards.

    Nothing is read before it is computed, and then by workers, each of which opens the array by its path. Arrays that
    are not sharded have their own chunks. It shows the array as it is now; a run that goes on is opened again.

    Parameters
    ----------
    path : path-like
        An array, or an image, of which it is the first and finest array.
    """
    _needed("dask.array")
    import dask.array

    absolute = Path(path).absolute()
    array = _offline.open(absolute)
    chunks = array.shard_shape or array.chunk_shape
    chunks = [min(chunk, max(length, 1)) for chunk, length in zip(chunks, array.shape, strict=True)]
    name = f"shardwright-{uuid.uuid4().hex}"
    stored = _Stored(str(absolute), name, tuple(array.shape), array.dtype)
    return dask.array.from_array(stored, tuple(chunks), name=name, lock=False, asarray=False, fancy=False)


class _Stored:
    """An array by its path, which whoever reads it opens."""

    def __init__(self, path: str, name: str, shape: tuple[int, ...], dtype: Any) -> None:
        self.path, self.name, self.shape, self.dtype, self.ndim = path, name, shape, dtype, len(shape)

    def __getitem__(self, index: Any) -> Any:
        return _stored(self.path, self.name)[index]


@lru_cache(maxsize=64)
def _stored(path: str, name: str) -> StoredArray:
    return _offline.open(path)


def _needed(module: str) -> None:
    from importlib import import_module

    try:
        import_module(module)
    except ImportError as error:
        text = f"shardwright.dask needs {module}: pip install 'dask[array]' distributed ({error})"
        raise ImportError(text, name=error.name) from error


class _Calls:
    """The tasks that the scheduler has."""

    def __init__(
        self, client: distributed.Client, path: Path, retries: int, window: int | None, memory_bytes: int
    ) -> None:
        from distributed import as_completed

        self._client, self._retries = client, retries
        self._plan, self._ids = _plan_of(path), _ids_of(path)
        self._words = {"path": str(path), "plan": self._plan, "memory_bytes": memory_bytes}
        self._window = _Window(client, window)
        self._completed = as_completed(loop=client.loop)
        #: By their keys, with the ids of their tasks.
        self._futures: dict[str, tuple[str, distributed.Future]] = {}
        self._lost: Counter[str] = Counter()

    def ended(self) -> Iterator[tuple[str, dict[str, Any] | BaseException]]:
        """Yield the id of each task as it ends, with its receipt or its error."""
        again: list[str] = []
        while True:
            room = max(self._window.size() - len(self._futures) - len(again), 0)
            self._submit(again + list(islice(self._ids, room)))
            if not self._futures:
                return
            again = []
            batch = self._completed.next_batch()
            for task, outcome in self._outcomes({future.key: future for future in batch}):
                if _was_lost(outcome) and self._lost[task] < self._retries:
                    self._lost[task] += 1
                    again.append(task)
                else:
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


class _Window:
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


def _ids_of(path: Path) -> Generator[str]:
    """Yield the ids of the tasks in their order, as they are read: there may be millions of them."""
    with path.open(encoding="utf-8") as lines:
        arrays = json.loads(lines.readline())["arrays"]
        yield from (json.loads(line)["id"] for line in islice(lines, arrays, None))


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
