"""Plates of wells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

__all__ = ["Plate", "PlateAcquisition", "plate"]


@dataclass(frozen=True)
class PlateAcquisition:
    """One of several acquisitions of a plate.

    Parameters
    ----------
    id : int
        A number that no other acquisition of the plate has.
    name, description : str, optional
        What viewers show.
    start_time, end_time : int, optional
        Seconds since 1970.
    """

    id: int
    name: str | None = None
    description: str | None = None
    start_time: int | None = None
    end_time: int | None = None


@dataclass(frozen=True)
class Plate:
    """A plate, whose wells hold the images of a dataset.

    Parameters
    ----------
    rows, columns : sequence of str
        The names of all of them, written to or not: letters and digits.
    name : str, optional
        What viewers show.
    acquisitions : sequence of PlateAcquisition
        If there are several, each image says with ``plate_acquisition=`` which it is part of.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    name: str | None = None
    acquisitions: Sequence[PlateAcquisition] = ()


def plate(rows: int, columns: int, *, name: str | None = None, acquisitions: Sequence[PlateAcquisition] = ()) -> Plate:
    """Make a plate whose rows are named A, B, … and its columns 1, 2, …: 8 and 12 of them for 96 wells."""

    def letters(number: int) -> str:
        return (letters(number // 26 - 1) if number >= 26 else "") + ascii_uppercase[number % 26]

    names = [letters(row) for row in range(rows)]
    return Plate(names, [str(column + 1) for column in range(columns)], name, tuple(acquisitions))
