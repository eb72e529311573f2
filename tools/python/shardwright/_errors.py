"""Exceptions. Each says what was wrong and what would be right."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardwright._summary import Summary

__all__ = [
    "ConfigError",
    "EndedError",
    "Error",
    "ExistsError",
    "ForkedError",
    "FormatError",
    "FrameError",
    "FrameNumberError",
    "FrameTypeError",
    "InternalError",
    "LockedError",
    "NotFoundError",
    "RecordError",
    "RingFull",
    "StorageError",
    "TasksFailed",
    "Unfinished",
    "UnsupportedError",
]


class Error(Exception):
    """Anything that the package raises by itself."""


class ConfigError(Error, ValueError):
    """A configuration that can't work. Nothing was written.

    Attributes
    ----------
    field : str or None
        The field of the configuration.
    """

    field: str | None = None


class FrameError(Error, ValueError):
    """Pixels that are no whole frames, or a frame that was committed before."""


class FrameTypeError(Error, TypeError):
    """Pixels of another type than the array's."""


class FrameNumberError(Error, IndexError):
    """A frame number that came before, comes too late, or lies beyond the array.

    Attributes
    ----------
    number : int
        The number.
    """

    number: int = -1


class RecordError(Error, ValueError):
    """A record field that was not configured, or a value that does not fit its type."""


class RingFull(Error, TimeoutError):
    """No frame buffer became free in time. Nothing is broken; the call may be repeated.

    Attributes
    ----------
    taken : int
        Frames of the call that were taken before.
    waited : float
        Seconds.
    """

    taken: int = 0
    waited: float = 0.0


class EndedError(Error, RuntimeError):
    """The run has ended or was aborted; it takes no more frames."""


class ForkedError(Error, RuntimeError):
    """The object belongs to the process from which this one was forked."""


class _FileError(Error, OSError):
    def __str__(self) -> str:
        # The text names the file by itself.
        return str(self.strerror)


class StorageError(_FileError):
    """The operating system refused something; ``errno`` and ``filename`` say what."""


class ExistsError(_FileError, FileExistsError):
    """The output exists, and ``overwrite`` is off."""


class LockedError(_FileError, BlockingIOError):
    """Another process writes the dataset."""


class NotFoundError(_FileError, FileNotFoundError):
    """There is nothing at the path, or nothing of that kind."""


class FormatError(Error, ValueError):
    """A file or document that does not hold what it should."""


class UnsupportedError(Error, NotImplementedError):
    """A file or document that may be right, and that this package does not read."""


class InternalError(Error, RuntimeError):
    """A mistake of the package's own. Please report the text."""


class TasksFailed(Error):
    """Some tasks of an operation failed, so that it has no result yet. Another call runs those that are missing.

    Attributes
    ----------
    result : shardwright.dask.Result
        What became of all tasks.
    """

    # The other module needs this one.
    result: Any = None


class Unfinished(Error):
    """A run that ended with an error, which is the ``__cause__``.

    Attributes
    ----------
    summary : Summary
        What was saved all the same.
    """

    summary: Summary

    def __init__(self, text: str, summary: str) -> None:
        from shardwright._summary import Summary

        super().__init__(text)
        self.summary = Summary._from_document(json.loads(summary))

    def __reduce__(self) -> tuple[object, ...]:
        return _unfinished, (str(self), self.summary)


def _unfinished(text: str, summary: Summary) -> Unfinished:
    made = Unfinished.__new__(Unfinished, text)
    Exception.__init__(made, text)
    made.summary = summary
    return made
