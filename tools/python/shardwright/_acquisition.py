"""Runs: create, append or acquire, finish."""

from __future__ import annotations

import atexit
import dataclasses
import inspect
import json
import threading
import warnings
import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from os import PathLike, fspath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from shardwright import _core
from shardwright._config import Config, ConfigFields, called, config_document, plain
from shardwright._errors import Error, FrameError
from shardwright._frames import OuterAxes, number_error, offset_of
from shardwright._plate import Plate
from shardwright._progress import Bar
from shardwright._summary import Latency, Stats, Summary
from shardwright._view import View, to_xarray

if TYPE_CHECKING:
    import xarray

__all__ = ["Acquisition", "Dataset", "create", "create_dataset"]

#: Runs that were neither finished nor aborted, by their ``id``. No WeakSet: that can't be looked through while another
#: thread begins or ends a run.
_open: dict[int, weakref.ref[Acquisition]] = {}
#: At the exit of the interpreter, a run may take so long to be finished.
_EXIT_SECONDS = 120.0
_append = _core.Acquisition.append


class _Attributes(MutableMapping[str, Any]):
    """The user's attributes of an image. What is set is in the dataset after the next checkpoint."""

    def __init__(self, acquisition: Acquisition) -> None:
        self._acquisition = acquisition
        self._values = acquisition._attribute_values

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __setitem__(self, key: str, value: Any) -> None:
        document = json.dumps(value, default=plain)
        with self._acquisition._attribute_lock:
            self._acquisition._set_attribute(key, document)
            self._values[key] = value

    def __delitem__(self, key: str) -> None:
        raise TypeError("an attribute that was set can't be taken back; set it to something else")

    def __iter__(self) -> Iterator[str]:
        # Another thread may set one meanwhile.
        return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)


class Acquisition(_core.Acquisition):
    """One run of one image. ``create`` makes it.

    All methods may be called from several threads at once. Leaving a ``with`` block finishes the run, also by an
    exception.

    Attributes
    ----------
    path : str
        The dataset.
    name : str or None
        The image's name in a dataset of several.
    config : dict
        The configuration, as a document.
    """

    path: str
    name: str | None
    config: dict[str, Any]

    def __new__(
        cls, path: str, config: dict[str, Any], dataset: _core.Dataset | None = None, name: str | None = None
    ) -> Acquisition:
        """Start a run. Use ``create``."""
        make = super().__new__
        return called(lambda text: make(cls, path, text, dataset, name), config)

    def __init__(
        self, path: str, config: dict[str, Any], dataset: _core.Dataset | None = None, name: str | None = None
    ) -> None:
        self.path = path
        self.name = name
        self.config = config
        self._attribute_values: dict[str, Any] = {}
        self._attribute_lock = threading.Lock()
        self._outer = OuterAxes(config["dims"], config.get("acquisition_order"), len(self.frame_shape))
        # Where the array is found once the run has ended.
        place = name or config.get("key")
        self._stored_at = f"{path}/{place}" if place else path
        _open[id(self)] = weakref.ref(self)

    if not TYPE_CHECKING:  # What the base takes, but with its keywords unread: to list them here takes a microsecond.

        def append(self, image, **options):
            """Copy one frame, or a stack of them, into the ring, and commit them under the next numbers.

            Leading axes are taken as they lie, the last of them the fastest: their order is that of acquisition. With
            ``acquisition_order=["t", "z", "c"]``, a stack is of shape ``(z, c, y, x)`` or ``(t, z, c, y, x)``, in
            whatever order the array is stored. A single one is of frames in the order in which they come.

            Parameters
            ----------
            image : array_like
                Anything with a buffer or DLPack (numpy, bytes, memoryview, torch, …) of shape ``(y, x)`` or
                ``(…, y, x)``, of exactly the array's type. Rows may be apart, as in a slice; any other order of the
                pixels is copied twice. Without a shape of its own (one dimension), whole frames that follow each other.
            number : int, optional
                The first frame's number, counted from 0 in acquisition order. By default one more than the largest so
                far.
            offset : (int, int), optional
                Row and column at which frames that are smaller than the image stand in it; around them is the fill
                value. Needs ``record_roi``, by which the record of each frame says where it stands.
            device_timestamp, host_timestamp : int or sequence of int, optional
                The device's own time, and nanoseconds since 1970; one for each frame, or one for all.
            timeout : float, optional
                Seconds to wait for free buffers at most. By default as the configuration's ``ring_full`` says.
            **fields
                Values of the configured record fields, for each frame or for all.

            Returns
            -------
            int
                How many frames were taken: all, or with ``ring_full="drop-newest"`` those that the ring had room for.

            Raises
            ------
            FrameTypeError, FrameError
                Pixels of another type, or in no whole frames; leading axes that are as long as those of acquisition, in
                another order; an offset that is no place in the image.
            FrameNumberError
                A number that came before, comes too late, or lies beyond the array.
            RingFull
                No buffer became free in time. Its ``taken`` says how many frames were taken before.
            """
            if self._outer.may_be_mixed_up:
                self._outer.check(image)
            if options.get("offset") is not None:
                options["offset"] = offset_of(options["offset"])
            try:
                return _append(self, image, **options)
            except OverflowError:
                raise number_error(options.get("number")) from None

        append.__signature__ = inspect.signature(_append)

    def append_interleaved(self, image: npt.ArrayLike, **options: Any) -> int:
        """Copy pictures whose pixels have several samples, as RGB has them, a frame for each sample.

        Parameters
        ----------
        image : array_like
            Of shape ``(y, x, samples)`` or ``(…, y, x, samples)``. The outer dimension that changes fastest, which is
            the channel then, has as many elements as a pixel has samples.
        **options
            As of ``append``.

        Returns
        -------
        int
            How many frames were taken.

        Raises
        ------
        FrameError
            For another number of samples.
        """
        pixels = np.asarray(image)
        dims = self.config["dims"][:-2]
        order = self.config.get("acquisition_order") or [dim["name"] for dim in dims]
        (channels,) = [dim.get("size") for dim in dims if dim["name"] == order[-1]]
        if pixels.ndim < 3 or pixels.shape[-1] != channels:
            raise FrameError(
                f"an array of shape {pixels.shape} holds no pictures of {channels} samples a pixel, which are as many "
                f"as {order[-1]!r} has elements; expected (…, y, x, samples)"
            )
        if self.config.get("pixel_format") in ("rgb", "rgba"):
            return self.append(pixels, **options)
        return self.append(np.moveaxis(pixels, -1, -3), **options)

    def finish(self, timeout: float | None = None) -> Summary | None:
        """End the run: wait until all committed frames are in their shards, and complete the documents.

        Frames that are still on loan can't be committed any more. May be called again.

        Without any frame, an empty array stays. If it was to replace a dataset (``overwrite``), it disappears, and that
        one is back; of several images, when the dataset is closed and none of them got a frame.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most. The run goes on ending by itself.

        Returns
        -------
        Summary or None
            What the run did; None if the time was up before.

        Raises
        ------
        Unfinished
            With the first error of the run as its cause, and ``summary``.
        """
        try:
            document = self._finish(timeout)
        finally:
            if not self._needs_end():
                _open.pop(id(self), None)
        return None if document is None else Summary._from_document(json.loads(document))

    def abort(self, timeout: float | None = None) -> bool:
        """End the run at once: frames that wait in the ring are lost; what is in a shard stays.

        If no frame was committed, the dataset disappears, and one that it was to replace is back.

        Returns
        -------
        bool
            False if the time was up before.
        """
        _open.pop(id(self), None)
        return self._abort(timeout)

    @property
    def attributes(self) -> MutableMapping[str, Any]:
        """The user's attributes of the image. What is set is in the dataset after the next checkpoint.

        ``info(path).attributes`` reads them, of an image of a dataset by ``f"{path}/{name}"``.
        """
        return _Attributes(self)

    @property
    def summary(self) -> Summary:
        """What the run did, once it has ended."""
        document = self._summary()
        if document is None:
            raise Error("the acquisition was aborted, so it has no summary")
        return Summary._from_document(json.loads(document))

    @property
    def stats(self) -> Stats:
        """Counters of this moment."""
        return Stats._from_document(json.loads(self._stats()))

    @property
    def latencies(self) -> dict[str, Latency]:
        """How long each stage took until now, by its name."""
        return {stage["stage"]: Latency(**stage) for stage in json.loads(self._latencies())}

    def progress(self, total: int | None = None) -> Bar:
        """Return a progress bar of frames, with rich or tqdm if one of them is installed.

        Call its ``update()`` now and then, or wrap the loop: ``for image in acq.progress().of(images)``.

        Parameters
        ----------
        total : int, optional
            Frames that will come. By default what the dimensions say, if they do.
        """
        return Bar(self, total)

    def view(self) -> View:
        """Return a live, lazy, array-like view of the image, of frames in the ring and of those in shards.

        It has ``shape``, ``dtype`` and basic indexing, each of which looks at the run as it is in that moment.
        """
        return View(self)

    def to_xarray(self) -> xarray.DataArray:
        """Return the image as a lazy ``xarray.DataArray`` with names and coordinates. Needs xarray."""
        return to_xarray(self.view(), self.config)

    def __enter__(self) -> Acquisition:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._needs_end():
            return
        try:
            self.finish()
        except Error as unfinished:
            if error is None:
                raise
            # The exception of the block is the one to be told; what is lost is no secret.
            error.add_note(f"shardwright: {unfinished}")

    def __del__(self) -> None:
        try:
            _open.pop(id(self), None)
            left = self._needs_end()
        except AttributeError:  # It was never made.
            return
        if left:
            warnings.warn(f"{self!r} was not finished", ResourceWarning, stacklevel=2, source=self)
            _end_quietly(self, None)

    def __repr__(self) -> str:
        state = "running" if self.is_open else "ended"
        where = self.path if self.name is None else f"{self.path}, {self.name}"
        return f"<shardwright.Acquisition of {where}, {state}>"


def _end_quietly(acquisition: Acquisition, timeout: float | None) -> None:
    try:
        acquisition._finish(timeout)
    except Error as error:
        warnings.warn(f"{acquisition!r}: {error}", ResourceWarning, stacklevel=2)


@atexit.register
def _finish_all() -> None:
    for reference in _open.copy().values():
        acquisition = reference()
        if acquisition is not None and acquisition._needs_end():
            warnings.warn(f"{acquisition!r} was not finished before exit", ResourceWarning, stacklevel=1)
            _end_quietly(acquisition, _EXIT_SECONDS)


def create(path: str | PathLike[str], config: Config | None = None, **fields: Unpack[ConfigFields]) -> Acquisition:
    """Create the dataset ``path`` with one image, and start its acquisition.

    On return the dataset can be opened by readers, the ring's memory is there, and the first shard is reserved on the
    disk. If anything fails, nothing is left behind. A ring of 1 GiB takes 0.3 to 3 s to make.

    Parameters
    ----------
    path : path-like
        A folder that is made, with those on the way there: by its name, ``….ome.zarr``. Or one file, whose name ends
        in ``.ozx``: other programs can rely on it when it is finished, not before. Room that its shards did not need
        stays in it as holes, which count in its length and not on the disk, until ``repack`` makes another of it.
    config : dict, JSON text, TOML text, or path to a .json or .toml file, optional
        The configuration.
    **fields
        Its fields by keyword, which replace those of ``config``: ``shardwright.ConfigFields`` lists them. ``dims`` has
        no default: the dimensions in storage order, slowest first, the last two the rows and columns of a frame.

    Returns
    -------
    Acquisition
        A context manager.

    Raises
    ------
    ConfigError, ExistsError, LockedError, StorageError
        With the field and the value that can't work, or the file.

    Examples
    --------
    >>> dims = [sw.time(), sw.y(2048, scale=(0.325, "micrometer")), sw.x(2048, scale=(0.325, "micrometer"))]
    >>> with sw.create("run.ome.zarr", dims=dims, dtype="u2", codec="blosc-lz4") as acq:
    ...     acq.append(image)
    """
    return Acquisition(fspath(path), config_document(config, fields))


class Dataset(_core.Dataset):
    """A dataset of several images that are acquired at the same time: cameras, positions.

    Leaving a ``with`` block finishes all of them. ``create_dataset`` makes it.
    """

    path: str

    def __new__(cls, path: str, overwrite: bool, plate: str | None = None) -> Dataset:
        """Create the folder. Use ``create_dataset``."""
        return super().__new__(cls, path, overwrite, plate)

    def __init__(self, path: str, overwrite: bool, plate: str | None = None) -> None:
        self.path = path
        self.images: dict[str, Acquisition] = {}

    def acquisition(self, name: str, /, config: Config | None = None, **fields: Unpack[ConfigFields]) -> Acquisition:
        """Start the acquisition of one more image, a group of this name.

        Parameters
        ----------
        name : str
            Letters, digits, ``_``, ``-`` and ``.``; of a plate, row, column and field: ``B/3/0``.
        config, **fields
            As of ``create``.
        """
        made = Acquisition(self.path, config_document(config, fields), self, name)
        self.images[name] = made
        return made

    def finish(self) -> dict[str, Summary | None]:
        """Finish all images that are not yet, and return their summaries by name.

        Raises
        ------
        Unfinished
            The first that failed, once all have ended.
        """
        return self._finish(self.images)

    def _finish(self, images: dict[str, Acquisition]) -> dict[str, Summary | None]:
        self._close()
        first: Error | None = None
        summaries: dict[str, Summary | None] = {}
        # Another thread may be beginning one.
        for name, image in images.copy().items():
            try:
                summaries[name] = image.finish()
            except Error as error:
                first = first or error
        if first is not None:
            raise first
        return summaries

    def __enter__(self) -> Dataset:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._finish({name: image for name, image in self.images.copy().items() if image._needs_end()})
        except Error as unfinished:
            if error is None:
                raise
            error.add_note(f"shardwright: {unfinished}")


def create_dataset(
    path: str | PathLike[str], *, overwrite: bool = False, plate: Plate | Mapping[str, Any] | None = None
) -> Dataset:
    """Create the dataset ``path`` for several images.

    Parameters
    ----------
    path : path-like
        A folder that is made, or a file whose name ends in ``.ozx``, of which ``create`` tells more.
    overwrite : bool
        Replace a dataset that is in the way. Anything else is never replaced.
    plate : Plate or mapping, optional
        Images are fields of its wells. The documents list those that have begun; a field to which nothing came is taken
        back when it is finished.

    Raises
    ------
    ConfigError
        For a plate that OME-Zarr has no words for.

    Examples
    --------
    >>> with sw.create_dataset("plate.ome.zarr", plate=sw.plate(8, 12)) as dataset:
    ...     with dataset.acquisition("B/3/0", dims=dims, dtype="u2") as acq:
    ...         acq.append(image)
    """
    if plate is None:
        return Dataset(fspath(path), overwrite)
    document = dataclasses.asdict(plate) if isinstance(plate, Plate) else plate
    return called(lambda text: Dataset(fspath(path), overwrite, text), document, "plate")
