"""Operations in parts, for many machines: a file of tasks is planned, they are run, and the result is made of them."""

from __future__ import annotations

import filecmp
import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from shardwright import _core
from shardwright._config import called, options_document
from shardwright._errors import ExistsError
from shardwright._offline import Progress, Report, StrPath, _report, _verified
from shardwright._progress import of_tasks

__all__ = ["RunTasks", "finish_tasks", "plan_manifest", "plan_pyramid", "plan_repack", "plan_verify"]


def plan_repack(
    path: StrPath,
    out: StrPath,
    file: StrPath,
    *,
    overwrite: bool = False,
    codec: str | Mapping[str, Any] | None = None,
    **options: Any,
) -> Report:
    """Write what ``repack`` would do as a file of tasks, one for each shard of the result.

    The file has the absolute paths of both datasets, so whoever runs its tasks must see them there.

    Parameters
    ----------
    path : path-like
        A finished dataset.
    out : path-like
        The new dataset. Nothing is written there before the first task runs.
    file : path-like
        The file of tasks, ``tasks.jsonl``. One that is there stays if it is of the same plan.
    overwrite : bool
        Replace another file that is in the way.
    codec : str or dict, optional
        As of ``create``. By default chunks stay as they are.
    **options
        As of ``repack``.

    Returns
    -------
    Report
        ``tasks``, how many there are, and ``notes``, sentences on what is worth knowing of the result.
    """
    if codec is not None:
        options["codec"] = codec
    source, target = Path(path).absolute(), Path(out).absolute()
    return _written(file, overwrite, lambda partial, words: _core.plan_repack(source, target, partial, words), options)


def plan_verify(path: StrPath, file: StrPath, *, overwrite_tasks: bool = False) -> Report:
    """Write what ``verify`` would do as a file of tasks, one for each shard that is read.

    What tasks have found stands in a folder beside the file, ``answers-…``, which ``finish_tasks`` removes: it checks
    everything else, and tells what ``verify`` does.

    Parameters
    ----------
    path : path-like
        A dataset or an array.
    file : path-like
        The file of tasks, ``tasks.jsonl``. One that is there stays if it is of the same plan. Not in the dataset.
    overwrite_tasks : bool
        Replace another file that is in the way.

    Returns
    -------
    Report
        ``tasks``, how many there are, and ``notes``.
    """
    source = Path(path).absolute()
    return _written(file, overwrite_tasks, lambda partial, _: _core.plan_verify(source, partial), {})


def plan_pyramid(
    path: StrPath,
    file: StrPath,
    *,
    method: Literal["mean", "median", "min", "max", "decimate", "mode"] | None = None,
    levels: int | None = None,
    y: bool = True,
    x: bool = True,
    depth: Literal["never", "always", "auto"] = "never",
    overwrite_tasks: bool = False,
    **options: Any,
) -> Report:
    """Write what ``pyramid`` would do as a file of tasks, one for each shard of a level.

    Tasks of a level come behind those of the level before, of whose shards they are made: one that runs too early
    raises a ``StorageError`` that names what is missing, and may be tried again.

    Parameters
    ----------
    path : path-like
        The image.
    file, overwrite_tasks
        As of ``plan_verify``.
    method, levels, y, x, depth, **options
        As of ``pyramid``.

    Returns
    -------
    Report
        ``tasks``, how many there are, and ``notes``, sentences on what is worth knowing of the result.
    """
    chosen = {"method": method, "levels": levels, "y": y, "x": x, "depth": depth, **options}
    source = Path(path).absolute()
    return _written(file, overwrite_tasks, lambda partial, words: _core.plan_pyramid(source, partial, words), chosen)


def plan_manifest(
    path: StrPath, out: StrPath | None, file: StrPath, *, overwrite_tasks: bool = False, **options: Any
) -> Report:
    """Write what ``manifest`` would do as a file of tasks, one for each shard whose index is read.

    Parameters
    ----------
    path : path-like
        A finished dataset.
    out : path-like or None
        The new folder; None for the usual place.
    file, overwrite_tasks
        As of ``plan_verify``.
    **options
        As of ``manifest``.

    Returns
    -------
    Report
        ``tasks``, how many there are, and ``notes``.
    """
    source, target = Path(path).absolute(), None if out is None else Path(out).absolute()
    return _written(
        file, overwrite_tasks, lambda partial, words: _core.plan_manifest(source, target, partial, words), options
    )


def _written(
    file: StrPath, overwrite: bool, plan: Callable[[Path, str], tuple[int, list[str]]], options: Mapping[str, Any]
) -> Report:
    """Let ``plan`` write a file that gets its name when it is whole, unless another plan has it."""
    target, document = Path(file), options_document(options)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}.partial")
    try:
        tasks, notes = called(lambda words: plan(partial, words), document)
        if not overwrite and target.exists():
            if not filecmp.cmp(partial, target, shallow=False):
                *others, last = [str(path) for path in (target, *_left(target))]
                gone = f"{', '.join(others)} and {last}" if others else last
                text = f"{target} already exists, and is another plan: finish that, or remove {gone} to give it up"
                raise ExistsError(17, f"{text}; or choose another file", str(target))
        else:
            os.replace(partial, target)
        # What a check has told is told for this file of tasks no more: its tasks are to be run again.
        _told(target).unlink(missing_ok=True)
    finally:
        partial.unlink(missing_ok=True)
    return Report(tasks=tasks, notes=notes)


def _left(file: Path) -> list[Path]:
    """What the tasks of a file have left until their end, beside the file itself."""
    try:
        with file.open(encoding="utf-8") as lines:
            plan = json.loads(lines.readline())
        out = Path(plan["out"])
        made = [out.with_name(f".{out.name}.{kind}") for kind in ("repack", "pyramid") if kind in plan["operation"]]
        beside = [file.with_name(f"answers-{plan['id'][:16]}"), file.with_suffix(".missing.jsonl")]
    except (OSError, ValueError, TypeError, LookupError):
        # It is no file of tasks at all.
        return []
    return [path for path in (*made, *beside) if path.exists()]


def _told(file: Path) -> Path:
    """Where the end of tasks that only read keeps what it has told."""
    return file.with_suffix(".finished.json")


class RunTasks(_core.RunTasks):
    """Runs tasks of a file that ``plan_repack``, another of these, or the command ``plan`` has written.

    A task opens what its line names and nothing else. It may be run twice, also at the same time and on several
    machines: the same bytes come of it, and the first file that is whole has the name. An object is for one process,
    and is neither pickled nor forked: each process opens the file by its path.

    Parameters
    ----------
    path : path-like
        The file of tasks.
    workers : int
        Threads that read, compress and compare; 0 is one for each core.
    memory_bytes : int
        For chunks on their way.
    """

    def run(self, task: int | str) -> Report:
        """Run a task; other Python threads go on meanwhile. After Ctrl-C, open the file again.

        Parameters
        ----------
        task : int or str
            Its number, from 0, or its id.

        Returns
        -------
        Report
            The receipt: ``id``, ``outcome`` (written, found, empty, finished, read), ``bytes``, ``seconds`` and sums.

        Raises
        ------
        FormatError
            The source is damaged, or is not what it was when the tasks were planned. The task has no output.
        StorageError
            As of a full disk, or as a shard of the level before is not made yet; the task may be tried again.
        """
        return _report(self._run(task))

    def __len__(self) -> int:
        return self.tasks

    def __repr__(self) -> str:
        return f"<shardwright.RunTasks of {self.tasks} tasks>"


def finish_tasks(path: StrPath, *, workers: int = 0, progress: Progress = False) -> Report:
    """Make the result of what all tasks have made or found, if every shard is there and what its receipt says.

    Parameters
    ----------
    path : path-like
        The file of tasks.
    workers : int
        Threads that look at shards; 0 is one for each core.
    progress : bool or callable
        True shows a bar; a callable is called with the tasks looked at, and all.

    Returns
    -------
    Report
        ``missing``: how many shards are not there, or not what was made. If there are any, there is no result yet, as
        damage that ``verify`` finds is no exception: ``missing_ids`` are the first of them, and ``missing_tasks`` is a
        file with nothing but their tasks. Else ``shards``, ``bytes``, ``redone`` (made twice), ``already_done``, and
        ``report``: what ``verify``, ``pyramid`` or ``manifest`` tells. Called again, it tells the same; of ``verify``
        and ``manifest``, what was told is kept beside the file of tasks until they are planned again.
    """
    with of_tasks("finish", progress) as tell:
        summary = _report(_core.finish_tasks(Path(path), workers, tell))
    if "report" in summary:
        report = Report(summary["report"])
        summary["report"] = _verified(report) if "damage" in report else report
    return summary
