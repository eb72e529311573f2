"""One run that several processes write, each a part of its shards, on hosts that share a file system."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Unpack

from shardwright import _core
from shardwright._config import Config, ConfigFields, called, config_document
from shardwright._offline import Progress, Report, StrPath, _report
from shardwright._progress import of_tasks

__all__ = ["create_parts", "finish_parts"]


def create_parts(
    path: str | PathLike[str],
    config: Config | None = None,
    *,
    parts: int,
    by: str = "time",
    **fields: Unpack[ConfigFields],
) -> list[tuple[slice, slice]]:
    """Create a run of one image that several processes are to write, without any frame.

    Each process then begins its part by ``create`` with the same path and configuration, and with
    ``part={"index": 2, "of": 4, "by": "time"}``, in whatever order. Frames have the numbers of the whole run; those of
    another part are refused. ``finish_parts`` puts the parts together.

    Parameters
    ----------
    path : path-like
        The folder to create.
    config, **fields
        As of ``create``, without ``part``.
    parts : int
        How many processes write it, at most 4096.
    by : str
        What each gets: ``time``, rows of shards along the first dimension in turn; ``frame``, a band of columns, or of
        rows, of each frame.

    Returns
    -------
    list of (slice, slice)
        Of each part, the rows and the columns of the frame that it gets: ``acq.append(image[regions[2]])``.

    Raises
    ------
    ConfigError
        For what a run in parts can't have, and for more parts than there are shards.

    Examples
    --------
    >>> regions = sw.create_parts("run.ome.zarr", config, parts=2, by="frame")
    >>> with sw.create("run.ome.zarr", config, part={"index": 1, "of": 2, "by": "frame"}) as acq:
    ...     acq.append(image[regions[1]])
    >>> sw.finish_parts("run.ome.zarr").frames_missing
    """
    regions = called(lambda text: _core.create_parts(Path(path), text, parts, by), config_document(config, fields))
    return [(slice(*rows), slice(*columns)) for rows, columns in regions]


def finish_parts(path: StrPath, *, incomplete: bool = False, progress: Progress = False) -> Report:
    """Put the parts of a run together: the result is what one process would have written.

    No pixel is read or written. It may be stopped at any moment and called again.

    Parameters
    ----------
    path : path-like
        What ``create_parts`` has made.
    incomplete : bool
        Finish without parts that never came or did not end, whose frames are then missing, up to the planned end of
        the run if another part has come to it. Finish also where shards of a part are gone.
    progress : bool or callable
        True shows a bar; a callable is called with the frames done, and all.

    Returns
    -------
    Report
        ``shape``, ``frames``, ``frames_missing``, ``missing`` (ranges), ``chunks``, ``chunks_lost``, ``parts``
        (how each ended) and ``notes``.

    Raises
    ------
    FormatError
        With the parts that never came, did not end or lack shards; ``recover`` mends those that did not end.
    LockedError
        A part is still written.
    """
    with of_tasks("finish", progress) as tell:
        return _report(_core.finish_parts(Path(path), incomplete, tell))
