"""Random datasets of other programs through every command: `matrix/__main__.py` says how one runs alone."""

import os

import pytest
from matrix.__main__ import run_all
from matrix.cells import WRITERS, numbers

# The same cells in each run, so that what fails can be made again; tools/torture takes others.
SEED = 1
CELLS = int(os.environ.get("SHARDWRIGHT_MATRIX_CELLS", 500))
# So that a matrix in which everything is refused is seen: the share that at least must have been done, and found equal,
# of each writer. What is refused is what a call asks of arrays that can't be so, as `matrix/refusals.py` lists it.
SHARES = {"info": 0.8, "verify": 0.5, "export": 0.75, "manifest": 0.7, "copy": 0.35, "in place": 0.35}
# No reader of Zarr takes a volume's last chunks.
NONE = {("manifest", "tensorstore-volume"), ("manifest", "cloud-volume")}


# Those with the most cells first, so that no core ends long after the others.
@pytest.mark.parametrize("writer", sorted(WRITERS, key=WRITERS.get, reverse=True))
def test_what_other_programs_write_is_read_as_it_is_or_refused(command, writer):
    report = run_all(command, SEED, CELLS, writer, processes=1)
    report.print()
    count = len(numbers(CELLS, writer))
    assert not report.wrong, f"{len(report.wrong)} of {count} cells of seed {SEED}"
    assert set(report.counts) == {writer}
    if CELLS < 300:
        # Too few of each writer for a share to mean something.
        return
    for what, least in SHARES.items():
        share = report.shares(what)[writer]
        assert share >= least or (what, writer) in NONE, (what, share)
    unwritten = report.total("source")
    assert unwritten <= count * 0.1, f"{unwritten} datasets were not written or have no reader"
