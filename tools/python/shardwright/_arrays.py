"""Bare arrays at any keys of a hierarchy whose groups somebody else describes.

While a run goes on, the arrays stand in a dataset of this package's own within the hierarchy, from which ``recover``
restores what a killed process left; at the end they are moved to their places, which costs nothing.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shardwright._acquisition import Acquisition, Dataset, create, create_dataset
from shardwright._errors import Error, ExistsError
from shardwright._summary import Summary

__all__ = ["Arrays"]

#: The dataset in which arrays stand until the end.
STAGING = ".shardwright-live"


class Arrays:
    """The arrays of a hierarchy, each with a run of its own.

    Parameters
    ----------
    root : Path
        The hierarchy's folder; it may be there.
    configs : mapping of str to dict
        The configuration of each array by its key; ``""`` is the root itself.
    """

    def __init__(self, root: Path, configs: Mapping[str, dict[str, Any]]) -> None:
        self.root = root
        self.staging = root / STAGING
        self._dataset: Dataset | None = None
        self.runs: dict[str, Acquisition] = {}
        for key in configs:
            if (root / key / "zarr.json").exists() or (root / key / "c").exists():
                raise ExistsError(17, f"{root / key} already exists; choose another path", str(root / key))
        try:
            if len(configs) == 1:
                self.runs = {key: create(self.staging, config) for key, config in configs.items()}
            else:
                self._dataset = create_dataset(self.staging)
                for at, (key, config) in enumerate(configs.items()):
                    self.runs[key] = self._dataset.acquisition(f"{at}", config)
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Give everything up."""
        for run in self.runs.values():
            run.abort()
        if self._dataset is not None:
            self._dataset._close()

    def _image(self, key: str) -> Path:
        name = self.runs[key].name
        return self.staging if name is None else self.staging / name

    def finish(self) -> dict[str, Summary]:
        """End all runs, and move the arrays to their places. Arrays without a frame are left out.

        Raises
        ------
        Error
            The first that failed; then the arrays stay where they are, and the text says where.
        """
        first: Error | None = None
        summaries: dict[str, Summary] = {}
        for key, run in self.runs.items():
            try:
                if run._needs_end() and run.stats.frames_accepted == 0 and run.stats.frames_dropped == 0:
                    run.abort()
                    continue
                summary = run.finish()
                if summary is not None:
                    summaries[key] = summary
            except Error as error:
                first = first or error
        if self._dataset is not None:
            self._dataset._close()
        if first is not None:
            first.add_note(f"what was saved is in {self.staging}")
            raise first
        for key in summaries:
            _move(self._image(key) / "0", self.root / key)
            self.runs[key]._stored_at = str(self.root / key)
        shutil.rmtree(self.staging, ignore_errors=True)
        return summaries


def ring_bytes(frame_bytes: int, acquired: Sequence[tuple[int, int]], budget: int) -> int:
    """Return the bytes of a ring that holds all frames whose chunks are open at once, and others beside them.

    Parameters
    ----------
    frame_bytes : int
        Bytes of a frame.
    acquired : sequence of (int, int)
        Elements and chunk length of the outer dimensions, the slowest first; 0 elements: as many as come.
    budget : int
        What to take if the chunks don't need more.
    """
    deep = next((at for at, (_, chunk) in enumerate(acquired) if chunk > 1), None)
    open_at_once = 1
    if deep is not None:
        size, chunk = acquired[deep]
        open_at_once = (min(size, chunk) if size else chunk) * math.prod(size for size, _ in acquired[deep + 1 :])
    frame_bytes = max(frame_bytes, 1)
    frames = max(min(max(budget // frame_bytes, 16), 4096), open_at_once + max(16, open_at_once // 4))
    total = math.prod(size for size, _ in acquired)
    # A short run needs no more buffers than it has frames.
    return (min(frames, max(total, open_at_once) + 16) if total else frames) * max(frame_bytes, 4096)


def _move(source: Path, target: Path) -> None:
    """Move an array to its place, beside whatever is there. Its document comes last: then it is an array."""
    target.mkdir(parents=True, exist_ok=True)
    # Where no chunk was stored, because all pixels are the fill value, readers would find what is in the way of chunks.
    names = {entry.name for entry in source.iterdir()} | {"c"}
    for name in sorted(names, key=lambda name: (name == "zarr.json", name)):
        place = target / name
        if place.exists() and not (place.is_dir() and not any(place.iterdir())):
            raise ExistsError(17, f"{place} is in the way of the array in {source}", str(place))
        if (source / name).exists():
            os.replace(source / name, place)


def read_document(path: Path) -> dict[str, Any]:
    """Read a document of Zarr."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Replace a document of Zarr as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(document, indent=2), encoding="utf-8")
    os.replace(partial, path)


def group(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a group."""
    return {"attributes": dict(attributes), "consolidated_metadata": None, "node_type": "group", "zarr_format": 3}
