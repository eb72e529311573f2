"""Progress: of frames while a run goes on, of bytes while a dataset is worked on."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from shardwright._summary import Stats

T = TypeVar("T")


class _Painter(Protocol):
    def paint(self, done: int, total: int | None, text: str) -> None: ...
    def close(self) -> None: ...


class _Rich:
    def __init__(self, what: str, unit: str) -> None:
        from rich import progress

        amount = progress.DownloadColumn() if unit == "B" else progress.MofNCompleteColumn()
        columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), amount)
        self._bar = progress.Progress(*columns, progress.TextColumn("{task.fields[text]}"))
        self._bar.start()
        self._task = self._bar.add_task(what, total=None, text="")

    def paint(self, done: int, total: int | None, text: str) -> None:
        self._bar.update(self._task, completed=done, total=total, text=text)

    def close(self) -> None:
        self._bar.stop()


class _Tqdm:
    def __init__(self, what: str, unit: str) -> None:
        from tqdm.auto import tqdm

        self._bar = tqdm(desc=what, unit=unit, unit_scale=unit == "B")

    def paint(self, done: int, total: int | None, text: str) -> None:
        self._bar.total = total
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        self._bar.close()


class _Plain:
    """One line that is written over, on a terminal; nothing elsewhere."""

    def __init__(self, what: str, unit: str) -> None:
        self._what = what
        self._shown = sys.stderr.isatty()

    def paint(self, done: int, total: int | None, text: str) -> None:
        if self._shown:
            of = f" of {total}" if total else ""
            sys.stderr.write(f"\r{self._what}: {done}{of} {text}\x1b[K")
            sys.stderr.flush()

    def close(self) -> None:
        if self._shown:
            sys.stderr.write("\n")


def _painter(what: str, unit: str) -> _Painter:
    if importlib.util.find_spec("rich"):
        return _Rich(what, unit)
    if importlib.util.find_spec("tqdm"):
        return _Tqdm(what, unit)
    return _Plain(what, unit)


class _Run(Protocol):
    config: dict[str, Any]

    @property
    def stats(self) -> Stats: ...


class Bar:
    """A progress bar of a run: frames written, how full the ring is, what is missing. Several threads may update it."""

    def __init__(self, acquisition: _Run, total: int | None = None) -> None:
        self._acquisition = acquisition
        self._total = total if total is not None else _expected(acquisition.config)
        self._painter: _Painter | None = None
        # A signal's handler or a finalizer may update it, too.
        self._lock = threading.RLock()

    def update(self) -> None:
        """Show how the run is now."""
        # Lets handlers of logging run, which may have locks of their own.
        stats = self._acquisition.stats
        text = f"ring {stats.ring_frames - stats.ring_free}/{stats.ring_frames}"
        if stats.frames_missing or stats.frames_dropped:
            text += f", {stats.frames_missing} missing"
        with self._lock:
            if self._painter is None:
                self._painter = _painter("frames", " frames")
            self._painter.paint(stats.frames_written, self._total, text)

    def of(self, images: Iterable[T], every: int = 16) -> Iterator[T]:
        """Yield ``images``, and show how the run is after every ``every`` of them."""
        with self:
            for at, image in enumerate(images):
                yield image
                if at % every == 0:
                    self.update()
            self.update()

    def close(self) -> None:
        """Leave the bar as it is."""
        with self._lock:
            painter, self._painter = self._painter, None
            if painter is not None:
                painter.close()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _expected(config: dict[str, Any]) -> int | None:
    frames = 1
    for dim in config.get("dims", [])[:-2]:
        if dim.get("size") is None:
            return None
        frames *= dim["size"]
    return frames


class _Operation:
    """Progress of an operation: a context manager that gives what the operation calls."""

    _unit: str

    def __init__(self, what: str, progress: bool | Callable[[int, int], object]) -> None:
        self._what = what
        self._progress = progress
        self._painter: _Painter | None = None

    def __enter__(self) -> Callable[[int, int], object] | None:
        if self._progress is False:
            return None
        if callable(self._progress):
            return self._progress
        self._painter = painter = _painter(self._what, self._unit)
        return lambda done, total: painter.paint(done, total or None, "")

    def __exit__(self, *exception: object) -> None:
        if self._painter is not None:
            self._painter.close()


class of_bytes(_Operation):
    """Progress of an operation on a dataset, in bytes."""

    _unit = "B"


class of_tasks(_Operation):
    """Progress of many tasks."""

    _unit = " tasks"
