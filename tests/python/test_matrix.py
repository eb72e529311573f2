"""Random datasets of other programs through every command: `matrix/__main__.py` says how one runs alone."""

import os
import statistics

import pytest
from matrix.__main__ import run_all
from matrix.cells import WRITERS, numbers

# The same cells in each run, so that what fails can be made again; tools/torture takes others.
SEED = 1
CELLS = int(os.environ.get("SHARDWRIGHT_MATRIX_CELLS", 120))
# So that a matrix in which everything is refused is seen: the share that at least must have been done, and found equal,
# of each writer. What is refused is what a call asks of arrays that can't be so, as `matrix/refusals.py` lists it.
SHARES = {"info": 0.8, "verify": 0.5, "export": 0.75, "manifest": 0.7, "copy": 0.35, "in place": 0.35}
# No reader of Zarr takes a volume's last chunks.
NONE = {("manifest", "tensorstore-volume"), ("manifest", "cloud-volume")}


# A test for each core: programs that know all writers are slow to begin.
BY_CELLS = sorted(WRITERS, key=WRITERS.get)


@pytest.mark.parametrize("writers", [BY_CELLS[0::2], BY_CELLS[1::2]], ids=lambda writers: "+".join(writers))
def test_what_other_programs_write_is_read_as_it_is_or_refused(command, writers):
    report = run_all(command, SEED, CELLS, writers, processes=1)
    report.print()
    count = len(numbers(CELLS, writers))
    assert not report.wrong, f"{len(report.wrong)} of {count} cells of seed {SEED}"
    assert set(report.counts) == set(writers)
    if CELLS < 100:
        return
    shares = {
        what: {writer: share for writer, share in report.shares(what).items() if (what, writer) not in NONE}
        for what in SHARES
    }
    unwritten = {writer: report.total("source", writer) / len(numbers(CELLS, [writer])) for writer in writers}
    if CELLS < 200:
        # Of each writer, too few for a share to mean something.
        shares = {what: {"all": statistics.fmean(found.values())} for what, found in shares.items() if found}
        unwritten = {"all": statistics.fmean(unwritten.values())}
    for what, found in shares.items():
        for writer, share in found.items():
            assert share >= SHARES[what], (what, writer, share)
    for writer, share in unwritten.items():
        assert share <= 0.1, f"{share:.0%} of the datasets of {writer} were not written or have no reader"
