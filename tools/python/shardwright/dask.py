"""Many machines by ``dask.distributed``, and arrays that ``dask`` reads shard by shard.

>>> import shardwright.dask
>>> from distributed import Client
>>> client = Client(scheduler_file="scheduler.json")    # LocalCluster, dask-jobqueue, Kubernetes: any
>>> shardwright.dask.repack(client, "run.ome.zarr", "archive.ome.zarr", codec="blosc-zstd", progress=True)
>>> shardwright.dask.pyramid(client, "archive.ome.zarr")
>>> shardwright.dask.verify(client, "archive.ome.zarr").summary.report.is_sound
>>> shardwright.dask.open("archive.ome.zarr").max(axis=(1, 2)).compute()

A task is one shard of the result, or one that is read. What goes to the scheduler is the path of the file of tasks and
ids, what comes back are receipts: no pixels, and nothing of ours that is pickled. All machines, and the caller's, must
see the datasets and the file of tasks at the same paths. ``pip install shardwright[dask]`` installs what this needs.

A task runs in the process of the worker, which lets its other threads go on: the interpreter is not held. A child
process of its own would cost its start for every shard, and whoever kills a worker leaves its children running; as no
task depends on not being run twice, there is nothing that a process of its own would protect.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from shardwright import _errors, _offline
from shardwright._cluster import Calls, Window
from shardwright._offline import Progress, Report, StoredArray, StrPath
from shardwright._progress import of_tasks
from shardwright._tasks import RunTasks, _told, finish_tasks, plan_manifest, plan_pyramid, plan_repack, plan_verify

if TYPE_CHECKING:
    import dask.array
    import distributed

__all__ = ["Result", "manifest", "open", "pyramid", "repack", "run", "verify"]


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
        Of ``repack``, ``verify``, ``pyramid`` and ``manifest``: what ``finish_tasks`` tells.
    """

    tasks: int
    done: int = 0
    failed: list[tuple[str, BaseException]] = field(default_factory=list)
    receipts: list[dict[str, Any]] = field(default_factory=list, repr=False)
    summary: Report | None = None

    @property
    def outcomes(self) -> dict[str, int]:
        """How many receipts say ``written``, ``found``, ``empty``, ``finished`` and ``read``."""
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

    Of levels, tasks of one are submitted when all of the level before have ended, and none when some of them failed.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster. Workers may come, go and be killed meanwhile.
    tasks : path-like
        The file of ``plan_repack``, of another of these or of the command ``plan``, or one of missing tasks.
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
    path = Path(tasks).absolute()
    result = Result(_tasks_of(client, path, window))
    with of_tasks("tasks", progress) as tell, _told_what_stays(path):
        calls = Calls(client, path, retries, window, memory_bytes)
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
    with _removed_unless_run(client, file, window, tasks is None):
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
    return _finished(result, file, tasks is None)


def verify(
    client: distributed.Client,
    path: StrPath,
    *,
    tasks: StrPath | None = None,
    retries: int = 3,
    window: int | None = None,
    receipts: bool = True,
    progress: Progress = False,
) -> Result:
    """Check a dataset as ``shardwright.verify`` does, each shard by any worker of a cluster.

    What is wrong with the dataset is no failure: it is in the report. Another call reads everything again.

    Parameters
    ----------
    client : distributed.Client
        As of ``run``.
    path : path-like
        A dataset or an array.
    tasks : path-like, optional
        Where the file of tasks is to stay, and beside it, until the end, what was found. By default it is
        ``PATH.verify.jsonl`` beside the dataset, and goes at the end.
    retries, window, receipts, progress
        As of ``run``.

    Returns
    -------
    Result
        ``summary.report`` is what ``shardwright.verify`` returns.

    Raises
    ------
    TasksFailed
        There is no report, because tasks failed; its ``result`` says which.
    """
    file = Path(f"{Path(path).absolute()}.verify.jsonl" if tasks is None else tasks)
    with _removed_unless_run(client, file, window, tasks is None):
        plan_verify(path, file)
    result = run(client, file, retries=retries, window=window, receipts=receipts, progress=progress)
    return _finished(result, file, tasks is None, "what was found in the shard has gone")


def pyramid(
    client: distributed.Client,
    path: StrPath,
    *,
    tasks: StrPath | None = None,
    method: Literal["mean", "median", "min", "max", "decimate", "mode"] | None = None,
    levels: int | None = None,
    y: bool = True,
    x: bool = True,
    depth: Literal["never", "always", "auto"] = "never",
    retries: int = 3,
    window: int | None = None,
    memory_bytes: int = 256 << 20,
    receipts: bool = True,
    progress: Progress = False,
    **options: Any,
) -> Result:
    """Add levels to an image as ``shardwright.pyramid`` does, each shard by any worker of a cluster.

    Parameters
    ----------
    client : distributed.Client
        As of ``run``.
    path : path-like
        The image.
    tasks : path-like, optional
        Where the file of tasks is to stay. By default it is ``PATH.pyramid.jsonl`` beside the image, and goes when the
        levels are there.
    method, levels, y, x, depth
        As of ``shardwright.pyramid``.
    retries, window, memory_bytes, receipts, progress
        As of ``run``.
    **options
        ``overwrite``, ``sync``.

    Returns
    -------
    Result
        ``summary.report`` is what ``shardwright.pyramid`` returns.

    Raises
    ------
    TasksFailed
        There are no levels, because tasks failed; its ``result`` says which.
    """
    file = Path(f"{Path(path).absolute()}.pyramid.jsonl" if tasks is None else tasks)
    with _removed_unless_run(client, file, window, tasks is None):
        plan_pyramid(path, file, method=method, levels=levels, y=y, x=x, depth=depth, **options)
    result = run(
        client,
        file,
        retries=retries,
        window=window,
        memory_bytes=memory_bytes,
        receipts=receipts,
        progress=progress,
    )
    return _finished(result, file, tasks is None)


def manifest(
    client: distributed.Client,
    path: StrPath,
    out: StrPath | None = None,
    *,
    tasks: StrPath | None = None,
    retries: int = 3,
    window: int | None = None,
    receipts: bool = True,
    progress: Progress = False,
    **options: Any,
) -> Result:
    """Write manifests as ``shardwright.manifest`` does; the index of each shard is read by any worker of a cluster.

    Parameters
    ----------
    client : distributed.Client
        As of ``run``.
    path, out : path-like
        The finished dataset, and the new folder, if not the usual one.
    tasks : path-like, optional
        Where the file of tasks is to stay, and beside it, until the end, what was found. By default it is
        ``PATH.manifest.jsonl`` beside the dataset, and goes at the end.
    retries, window, receipts, progress
        As of ``run``.
    **options
        As of ``shardwright.manifest``.

    Returns
    -------
    Result
        ``summary.report`` is what ``shardwright.manifest`` returns.

    Raises
    ------
    TasksFailed
        There are no manifests, because tasks failed; its ``result`` says which.
    """
    file = Path(f"{Path(path).absolute()}.manifest.jsonl" if tasks is None else tasks)
    with _removed_unless_run(client, file, window, tasks is None):
        plan_manifest(path, out, file, **options)
    result = run(client, file, retries=retries, window=window, receipts=receipts, progress=progress)
    return _finished(result, file, tasks is None, "what was found in the shard has gone")


def _tasks_of(client: distributed.Client, file: Path, window: int | None) -> int:
    """Count the tasks, and refuse what can't be run, here and not on each worker."""
    _needed("distributed")
    if client.asynchronous:
        raise _errors.ConfigError("client: one that was made without asynchronous=True")
    Window(client, window)
    return len(RunTasks(file))


@contextmanager
def _removed_unless_run(client: distributed.Client, file: Path, window: int | None, goes: bool) -> Iterator[None]:
    """Remove a new file of tasks that ``goes`` at the end, where none of them can be run."""
    goes = goes and not file.exists()
    try:
        yield
        _tasks_of(client, file, window)
    except BaseException:
        if goes:
            file.unlink(missing_ok=True)
        raise


@contextmanager
def _told_what_stays(file: Path) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(f"What is done stays: call this again, or run the tasks of {file}")
        raise


def _finished(result: Result, file: Path, goes: bool, gone: str = "the shard has gone, or was changed") -> Result:
    """Finish tasks that were run, of a file that ``goes`` at the end."""
    if not result.failed:
        with _told_what_stays(file):
            result.summary = finish_tasks(file)
        missing_error = _errors.FormatError(f"{gone} since its task was run")
        result.failed = [(key, missing_error) for key in result.summary.missing_ids]
    if result.failed:
        key, error = result.failed[0]
        missing = len(result.failed) if result.summary is None else result.summary.missing
        text = f"{missing} of {result.tasks} tasks failed; the first is {key}: {error}"
        failed = _errors.TasksFailed(f"{text}. What is done stays: call this again, or run the tasks of {file}")
        failed.result = result
        raise failed
    if goes:
        file.unlink(missing_ok=True)
        _told(file).unlink(missing_ok=True)
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
    wanted = zip(array.shard_shape or array.chunk_shape, array.shape, strict=True)
    chunks = tuple(min(chunk, max(length, 1)) for chunk, length in wanted)
    name = f"shardwright-{uuid.uuid4().hex}"
    stored = _Stored(str(absolute), name, array.shape, array.dtype)
    return dask.array.from_array(stored, chunks, name=name, lock=False, asarray=False, fancy=False)


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
