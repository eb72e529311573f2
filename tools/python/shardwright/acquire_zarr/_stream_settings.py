"""What a stream writes, and where; and its document."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from shardwright.acquire_zarr import _document
from shardwright.acquire_zarr._enums import ZarrVersion
from shardwright.acquire_zarr._rings import ring_bytes
from shardwright.acquire_zarr._settings import ArraySettings, Plate, S3Settings, Settings, VectorArraySettings


class StreamSettings(Settings):
    """What a stream writes, and where."""

    _defaults: ClassVar[dict[str, Any]] = {
        "arrays": VectorArraySettings,
        "store_path": "",
        "s3": None,
        "max_threads": 0,
        "overwrite": False,
        "hcs_plates": list,
        "version": ZarrVersion.V3,
        "custom_metadata": None,
    }
    store_path: str
    s3: S3Settings | None
    max_threads: int
    overwrite: bool
    hcs_plates: list[Plate]
    custom_metadata: str | None

    def __init__(self, **kwargs: Any) -> None:
        if "plates" in kwargs:
            kwargs["hcs_plates"] = kwargs.pop("plates")
        super().__init__(**kwargs)
        self.store_path = os.fspath(self.store_path)

    @property
    def arrays(self) -> VectorArraySettings:
        """The arrays beside those of plates."""
        return self._arrays

    @arrays.setter
    def arrays(self, value: Iterable[ArraySettings]) -> None:
        self._arrays = VectorArraySettings(value)

    @property
    def plates(self) -> list[Plate]:
        """Another name of ``hcs_plates``."""
        return self.hcs_plates

    @plates.setter
    def plates(self, value: list[Plate]) -> None:
        self.hcs_plates = value

    @property
    def version(self) -> ZarrVersion:
        """Zarr's version."""
        return self._version

    @version.setter
    def version(self, value: ZarrVersion) -> None:
        if value != ZarrVersion.V3:
            raise RuntimeError(f"version = {value!r}: only ZarrVersion.V3 is supported")
        self._version = ZarrVersion.V3

    def keyed(self) -> dict[str, ArraySettings]:
        """Return the settings of all arrays by their keys."""
        pairs = [(array.output_key.strip("/"), array) for array in self.arrays]
        for plate in self.hcs_plates:
            pairs += plate.keys()
        keyed = dict(pairs)
        if len(keyed) < len(pairs):
            raise RuntimeError("two arrays have the same key")
        return keyed

    def get_array_keys(self) -> list[str]:
        """Return the keys of all arrays."""
        return list(self.keyed())

    def get_maximum_memory_usage(self) -> int:
        """Return the bytes of all rings: what this engine takes before the first frame, beside a few tens of MB."""
        keyed = self.keyed()
        return sum(ring_bytes(array, len(keyed)) for array in keyed.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a document."""
        return _document.of_stream(self)

    def to_json(self) -> str:
        """Return the settings as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def to_yaml(self) -> str:
        """Return the settings as YAML."""
        return _document.yaml(self.to_dict())

    def to_file(self, path: str | os.PathLike[str]) -> None:
        """Write the settings: JSON to ``.json``, else YAML."""
        text = self.to_json() if str(path).endswith(".json") else self.to_yaml()
        Path(path).write_text(text, encoding="utf-8")

    @staticmethod
    def from_dict(data: dict[str, Any]) -> StreamSettings:
        """Return the settings that a document describes."""
        return StreamSettings(**_document.stream(data))

    @staticmethod
    def from_string(text: str) -> StreamSettings:
        """Return the settings that JSON or YAML describes. YAML needs the package pyyaml."""
        return StreamSettings.from_dict(_document.parsed(text))

    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> StreamSettings:
        """Return the settings that a file of JSON or YAML describes."""
        return StreamSettings.from_string(Path(path).read_text(encoding="utf-8"))
