"""A high-throughput acquisition writer: camera frames in, finished OME-Zarr datasets out.

>>> import shardwright as sw
>>> dims = [sw.time(), sw.y(2048, scale=(0.325, "micrometer")), sw.x(2048, scale=(0.325, "micrometer"))]
>>> with sw.create("run.ome.zarr", dims=dims, dtype="u2", record_fields={"stage_z": "f8"}) as acq:
...     acq.append(image, stage_z=1.5)
...     with acq.acquire(timeout=1.0) as frame:
...         camera.read_into(frame.array)
...         frame.commit()
>>> print(acq.summary)

``create`` starts a run; ``Acquisition`` has ``append`` for pixels that are somewhere else, and ``acquire`` for buffers
that the camera fills in place. ``verify``, ``recover``, ``repack``, ``export``, ``manifest`` and ``pyramid`` are for
afterwards. ``plan_repack`` (and ``plan_verify``, ``plan_pyramid``, ``plan_manifest``), ``RunTasks`` and
``finish_tasks`` divide the work among machines, and ``shardwright.dask`` does so on a cluster. ``create_parts`` and
``finish_parts`` are for a run that several processes write.
"""

from pathlib import Path as _Path

from shardwright import _core, _log
from shardwright._acquisition import Acquisition, Dataset, create, create_dataset
from shardwright._core import Frame, __version__
from shardwright._dims import Channel, Dim, blosc, channel, codec, dim, gzip, time, x, y, z, zstd
from shardwright._errors import (
    ConfigError,
    EndedError,
    Error,
    ExistsError,
    ForkedError,
    FormatError,
    FrameError,
    FrameNumberError,
    FrameTypeError,
    InternalError,
    LockedError,
    NotFoundError,
    RecordError,
    RingFull,
    StorageError,
    TasksFailed,
    Unfinished,
    UnsupportedError,
)
from shardwright._fields import ConfigFields
from shardwright._offline import (
    Report,
    StoredArray,
    export,
    info,
    manifest,
    open,
    pyramid,
    recover,
    repack,
    verify,
)
from shardwright._parts import create_parts, finish_parts
from shardwright._plate import Plate, PlateAcquisition, plate
from shardwright._summary import Latency, Level, Stats, Summary
from shardwright._tasks import RunTasks, finish_tasks, plan_manifest, plan_pyramid, plan_repack, plan_verify

__all__ = [
    "Acquisition",
    "Channel",
    "ConfigError",
    "ConfigFields",
    "Dataset",
    "Dim",
    "EndedError",
    "Error",
    "ExistsError",
    "ForkedError",
    "FormatError",
    "Frame",
    "FrameError",
    "FrameNumberError",
    "FrameTypeError",
    "InternalError",
    "Latency",
    "Level",
    "LockedError",
    "NotFoundError",
    "Plate",
    "PlateAcquisition",
    "RecordError",
    "Report",
    "RingFull",
    "RunTasks",
    "Stats",
    "StorageError",
    "StoredArray",
    "Summary",
    "TasksFailed",
    "Unfinished",
    "UnsupportedError",
    "__version__",
    "blosc",
    "channel",
    "codec",
    "create",
    "create_dataset",
    "create_parts",
    "dim",
    "drain_log",
    "export",
    "finish_parts",
    "finish_tasks",
    "gzip",
    "info",
    "manifest",
    "open",
    "plan_manifest",
    "plan_pyramid",
    "plan_repack",
    "plan_verify",
    "plate",
    "pyramid",
    "recover",
    "repack",
    "time",
    "verify",
    "write_headers",
    "x",
    "y",
    "z",
    "zstd",
]


def drain_log() -> None:
    """Hand over to ``logging`` what the engine has told. Calls that don't move frames do it by themselves."""
    _log.drain()


def write_headers(folder: str) -> list[str]:
    """Write the C headers that describe ``Acquisition.c_table()`` into a folder, and return their paths.

    Parameters
    ----------
    folder : path-like
        For ``cc -I``.
    """
    paths = []
    for name, text in _core.c_headers():
        path = _Path(folder) / name
        path.write_text(text, encoding="utf-8")
        paths.append(str(path))
    return paths
