"""Drivers that commit without Python."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import Start, picture, stored

import shardwright as sw


class SwFrame(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("index", ctypes.c_uint32),
        ("turn", ctypes.c_uint32),
    ]


class SwTable(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("version", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("acquisition", ctypes.c_void_p),
        ("acquire", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(SwFrame))),
        ("acquire_buffer", ctypes.c_void_p),
        (
            "commit",
            ctypes.CFUNCTYPE(
                ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(SwFrame), ctypes.c_uint64, ctypes.c_void_p
            ),
        ),
    ]


def table_of(capsule: object) -> SwTable:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return SwTable.from_address(pointer(capsule, b"shardwright.table"))


def test_frames_of_c_and_of_python_are_one_run(start: Start, tmp_path: Path) -> None:
    with start() as acq:
        capsule = acq.c_table()
        table = table_of(capsule)
        assert (table.size, table.version) == (112, 1)
        frame = SwFrame()
        for number in range(6):
            if number % 2:
                acq.append(picture(number))
                continue
            assert table.acquire(table.acquisition, 1000, ctypes.byref(frame)) == 0
            assert frame.data == acq.buffers[frame.index]
            pixels = picture(number)
            ctypes.memmove(frame.data, pixels.ctypes.data, pixels.nbytes)
            assert table.commit(table.acquisition, ctypes.byref(frame), 2**64 - 1, None) == 0
    np.testing.assert_array_equal(stored(tmp_path / "run.ome.zarr"), np.stack([picture(number) for number in range(6)]))
    # The handle is none any more, and is found out.
    assert table.acquire(table.acquisition, 0, ctypes.byref(frame)) == 6
    del capsule


DRIVER = """
#include "shardwright_python.h"

sw_status one_frame(const sw_table *table, uint16_t value) {
    sw_frame frame;
    sw_status status = table->acquire(table->acquisition, 1000, &frame);
    if (status != SW_OK) return status;
    for (size_t at = 0; at < frame.bytes / 2; at++) ((uint16_t *)frame.data)[at] = value;
    return table->commit(table->acquisition, &frame, SW_NEXT, NULL);
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_driver_in_c(start: Start, tmp_path: Path) -> None:
    assert [Path(path).name for path in sw.write_headers(str(tmp_path))] == ["shardwright.h", "shardwright_python.h"]
    (tmp_path / "driver.c").write_text(DRIVER)
    command = ["cc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", "driver.so", "driver.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    driver = ctypes.CDLL(str(tmp_path / "driver.so"))
    with start() as acq:
        capsule = acq.c_table()
        table = table_of(capsule)
        for value in range(100):
            assert driver.one_frame(ctypes.byref(table), value) == 0
    del capsule
    assert (stored(tmp_path / "run.ome.zarr") == np.arange(100)[:, None, None]).all()
