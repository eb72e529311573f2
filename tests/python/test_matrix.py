"""Random datasets of other programs through every command: `matrix/__main__.py` says how one runs alone."""

import os

from matrix.__main__ import run_all
from matrix.cells import WRITERS

# So that a matrix in which everything is refused is seen: what at least must have been read as equal, of each writer.
SHARES = {"info": 0.3, "verify": 0.3, "export": 0.4}
COPIES = 0.05


def test_what_other_programs_write_is_read_as_it_is_or_refused(command):
    count = int(os.environ.get("SHARDWRIGHT_MATRIX_CELLS", 500))
    seed = int(os.environ.get("SHARDWRIGHT_MATRIX_SEED", 1))
    report = run_all(command, seed, count)
    report.print()
    assert not report.wrong, f"{len(report.wrong)} of {count} cells of seed {seed}"
    assert set(report.counts) == set(WRITERS)
    if count < 300:
        # Too few of each writer for a share to mean something.
        return
    for what, least in SHARES.items():
        assert all(share >= least for share in report.shares(what).values()), (what, report.shares(what))
    assert all(share >= COPIES for share in report.shares("copy").values()), report.shares("copy")
    unwritten = report.total("source")
    assert unwritten <= count * 0.05, f"{unwritten} datasets were not written or have no reader"
