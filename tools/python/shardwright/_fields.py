"""The fields of a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy.typing as npt

from shardwright._dims import Channel, Dim

__all__ = ["ConfigFields"]


class ConfigFields(TypedDict, total=False):
    """The fields of a configuration: keywords of ``create``, or keys of a dict, of JSON or of TOML.

    Only ``dims`` has no default. The guide's page on the configuration says more of each.

    Pixels: ``dims`` is a list of ``time()``, ``z(10)``, ``y(2048)``, … in storage order, slowest first, the last two
    the rows and columns of a frame, or of mappings with what ``Dim`` has.

    - ``dtype``: of a pixel, as numpy's ``"u2"`` or Zarr's ``"uint16"``, which is the default
    - ``acquisition_order``: names of the dimensions before rows and columns, slowest to arrive first; as stored
    - ``fill_value``: of pixels that never came: a number, or ``"NaN"``, ``"Infinity"``, ``"-Infinity"``; 0
    - ``channels``: labels or ``Channel(…)``, as many as the channel dimension is long, for viewers; none
    - ``name``: of the image, for viewers; None
    - ``label``: ``{"colors": [{"value": 1, "rgba": [255, 0, 0, 255]}, …], "properties": [{"value": 1, "properties":
      {"class": "nucleus"}}, …]}``, of an image of labels; None

    How frames come:

    - ``pixel_format``: ``"plain"``, ``"big-endian"``, ``"mono10p"``, ``"mono12p"``, ``"mono14p"``, ``"mono10packed"``,
      ``"mono12packed"``, ``"rgb"`` or ``"rgba"``; plain
    - ``frame_layout``: ``{"buffer_bytes": 8192, "offset": 0, "row_stride": 128}``, in bytes, of buffers that are filled
      in place; None: without gaps
    - ``unused_low_bits``: bits that 16-bit pixels are shifted down by; 0
    - ``orientation``: quarter turns as of ``numpy.rot90``, or ``{"transpose": True, "flip": "rows"}`` (``"none"``,
      ``"rows"``, ``"columns"``, ``"both"``); 0
    - ``record_roi``: take frames that are smaller than the image, and record where they stand; False
    - ``record_fields``: of each frame, ``{"stage_z": "f8", "gain": "u2"}``: names and types of numbers; none
    - ``leap_max``: frame numbers that may be left out at once; 0: 16,384 or more

    How they wait:

    - ``ring_bytes``: memory for frames, in bytes; 1 GiB
    - ``ring_full``: ``"block"``, seconds to block at most, ``"drop-newest"`` or ``"error"``; block
    - ``workers``: threads that encode, at most 1024; 0: one for each core
    - ``affinity``: numbers of cores that they are pinned to; none

    How they are stored:

    - ``dialect``: ``"zarr3"``, ``"zarr3-transformer"``, ``"zarr2-sharded"`` or ``"precomputed"``; zarr3
    - ``codec``: ``"none"``, ``"auto"``, ``"blosc-lz4"``, ``"blosc-zstd"``, ``"zstd"``, ``"gzip"``, …, or
      ``codec(zstd(3))``; blosc-lz4 of level 1 with a checksum
    - ``placement``: ``"auto"``, ``"fixed"`` (a slot for each chunk) or ``"packed"``; auto
    - ``index_location``: ``"end"`` or ``"start"`` of a shard; end
    - ``index_checksum``: True
    - ``skip_empty_chunks``: leave out chunks of the fill value alone; True
    - ``storage``: ``"auto"``, ``"mapped"``, ``"buffered"`` or ``"direct"``; auto: the faster by a trial
    - ``guard_maps``: a lost page of a map is an error, no SIGBUS; False
    - ``sync``: wait until bytes have reached the device; True
    - ``checkpoint_every``: seconds; 1. With 0, when a shard is full
    - ``pyramid``: a method (``"mean"``, ``"median"``, ``"min"``, ``"max"``, ``"decimate"``, ``"mode"``) or
      ``{"method": "mean", "levels": 3, "y": True, "x": True, "depth": "never"}`` (``"always"``, ``"auto"``); None
    - ``volume``: of precomputed, a mapping of ``key``, ``hash``, ``preshift_bits``, ``minishard_bits``,
      ``shard_bits``, ``gzip_indexes``, ``voxel_offset`` and ``resolution``; each has a default

    Where, and beside what:

    - ``overwrite``: replace a dataset that is in the way; False
    - ``key``: where in a hierarchy of groups the image stands, as ``"raw/camera-1"``; None: the path is the image's
    - ``bare``: the array alone, without records and metadata; False
    - ``ome``: ``"0.5"`` or ``"0.6"``, the version of OME-Zarr; 0.5
    - ``manifest``: a list of ``"manifest"``, ``"inlined"`` and ``"kerchunk"``, which the end writes; none
    - ``plate_acquisition``: of a plate with several acquisitions, the id of the image's; None
    - ``part``: ``{"index": 0, "of": 4, "by": "time"}`` (or ``"frame"``) of a run of ``create_parts``; None
    """

    dims: Sequence[Dim | Mapping[str, Any]]
    dtype: npt.DTypeLike
    dialect: str
    acquisition_order: Sequence[str]
    codec: str | Mapping[str, Any]
    placement: str
    index_location: str
    index_checksum: bool
    volume: Mapping[str, Any]
    storage: str
    fill_value: float | str
    skip_empty_chunks: bool
    ring_bytes: int
    frame_layout: Mapping[str, int] | None
    pixel_format: str
    unused_low_bits: int
    orientation: Mapping[str, bool | str] | int
    ring_full: str | float | Mapping[str, Any] | None
    leap_max: int
    workers: int
    affinity: Sequence[int]
    sync: bool
    checkpoint_every: float | Mapping[str, int]
    record_fields: Mapping[str, npt.DTypeLike] | Sequence[Mapping[str, Any]]
    record_roi: bool
    channels: Sequence[str | Channel | Mapping[str, Any]]
    name: str | None
    key: str | None
    bare: bool
    ome: str | float
    overwrite: bool
    guard_maps: bool
    manifest: str | Sequence[str]
    pyramid: str | Mapping[str, Any] | None
    plate_acquisition: int | None
    label: Mapping[str, Any] | None
    part: Mapping[str, Any] | None
