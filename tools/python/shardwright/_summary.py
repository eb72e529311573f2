"""What a run did, and how it is."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

__all__ = ["Latency", "Level", "Stats", "Summary"]


def table(rows: Iterable[tuple[str, str]], caption: str = "") -> str:
    """Return a table for notebooks."""

    def cell(kind: str, text: str) -> str:
        return f'<{kind} style="text-align:left">{html.escape(text)}</{kind}>'

    cells = "".join(f"<tr>{cell('th', name)}{cell('td', value)}</tr>" for name, value in rows)
    return f"<table><caption>{html.escape(caption)}</caption>{cells}</table>"


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"


@dataclass(frozen=True)
class Latency:
    """How long one stage of the frames' way took, in nanoseconds."""

    stage: str
    count: int
    total_ns: int
    p50_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int


@dataclass(frozen=True)
class Level:
    """A level of a pyramid beside the frames."""

    #: The array, below the image.
    path: str
    #: Its shape as it was left.
    shape: tuple[int, ...]
    #: Encoded bytes of chunks.
    bytes_out: int
    chunks_written: int
    #: Shards written.
    shards: int


@dataclass(frozen=True)
class Stats:
    """A moment's view of a running acquisition. Counters never go back."""

    #: Frames in the ring or beyond it.
    frames_accepted: int
    #: Frames whose every chunk is in its shard.
    frames_written: int
    #: Frames that a loss of power does not take.
    frames_durable: int
    #: Frame numbers that were settled without a frame.
    frames_missing: int
    #: Times that a frame found the ring full and was let go.
    frames_dropped: int
    #: Bytes of accepted frames.
    bytes_in: int
    #: Encoded bytes.
    bytes_out: int
    #: Frame buffers that wait for the camera: of a ring that images share, those that this one can get now.
    ring_free: int
    #: All frame buffers: of a ring that images share, those that this one can have at once.
    ring_frames: int
    #: Shards closed.
    shards_closed: int

    @classmethod
    def _from_document(cls, document: dict[str, Any]) -> Stats:
        return cls(**{field.name: document[field.name] for field in fields(cls)})

    def _repr_html_(self) -> str:
        rows = [(known.name.replace("_", " "), str(getattr(self, known.name))) for known in fields(self)]
        return table(rows, "shardwright: a running acquisition")


@dataclass(frozen=True)
class Summary:
    """What a finished acquisition did; a table in notebooks."""

    #: Frames that were taken into the ring.
    frames_accepted: int
    #: Frames whose every chunk is in the dataset.
    frames_written: int
    #: Frames that a loss of power does not take.
    frames_durable: int
    #: Frames that the dataset lacks.
    frames_missing: int
    #: The numbers of the frames that the dataset lacks, the first 10,000 ranges of them.
    missing: tuple[range, ...]
    #: Bytes of accepted frames.
    bytes_in: int
    #: Encoded bytes of chunks.
    bytes_out: int
    #: Chunks written, and chunks left out because they hold only the fill value, or no frame of theirs came.
    chunks_written: int
    chunks_empty: int
    #: Shards written.
    shards: int
    #: Seconds from the first commit to the end.
    elapsed: float
    #: The shape of the array as it was left.
    shape: tuple[int, ...]
    #: The storage that was used, and why it was chosen.
    storage: str
    #: Things to know that are no errors.
    notes: tuple[str, ...] = ()
    #: The levels of the pyramid beside the frames, the finest first. All other counts are of the frames alone.
    levels: tuple[Level, ...] = ()
    #: How long each stage took.
    stages: tuple[Latency, ...] = dataclasses.field(default=(), repr=False)

    @classmethod
    def _from_document(cls, document: dict[str, Any]) -> Summary:
        elapsed = document["elapsed"]
        own: dict[str, Any] = {
            "missing": tuple(range(part["start"], part["end"]) for part in document["missing"]),
            "elapsed": elapsed["secs"] + elapsed["nanos"] / 1e9,
            "shape": tuple(document["shape"]),
            "notes": tuple(document["notes"]),
            "levels": tuple(Level(**level | {"shape": tuple(level["shape"])}) for level in document["levels"]),
            "stages": tuple(Latency(**stage) for stage in document["stages"]),
        }
        known: dict[str, Any] = {field.name: document.get(field.name) for field in fields(cls)}
        return cls(**(known | own))

    def _rows(self) -> list[tuple[str, str]]:
        rate = self.bytes_in / self.elapsed if self.elapsed > 0 else 0.0
        ratio = self.bytes_in / self.bytes_out if self.bytes_out else 0.0
        missing = f"{self.frames_missing}" + (f": {_ranges(self.missing)}" if self.missing else "")
        rows = [
            ("frames written", f"{self.frames_written} of {self.frames_accepted}"),
            ("frames missing", missing),
            ("shape", " x ".join(map(str, self.shape))),
            ("pixels", f"{_bytes(self.bytes_in)} in {self.elapsed:.2f} s ({_bytes(rate)}/s)"),
            ("stored", f"{_bytes(self.bytes_out)} in {self.shards} shards (ratio {ratio:.2f})"),
            *((f"level {level.path}", " x ".join(map(str, level.shape))) for level in self.levels),
            ("storage", self.storage),
        ]
        return rows + [("note", note) for note in self.notes]

    def __str__(self) -> str:
        return "\n".join(f"{name + ':':<16}{value}" for name, value in self._rows())

    def _repr_html_(self) -> str:
        return table(self._rows(), "shardwright: a finished acquisition")


def _ranges(parts: tuple[range, ...]) -> str:
    shown = [f"{part.start}" if len(part) == 1 else f"{part.start}-{part.stop - 1}" for part in parts[:8]]
    return ", ".join(shown) + (", …" if len(parts) > len(shown) else "")
