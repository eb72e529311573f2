"""Random datasets of other programs through every command: `matrix/__main__.py` says how one runs alone."""

import os

from matrix.__main__ import run_all
from matrix.cells import WRITERS

# So that a matrix in which everything is refused is seen: the share that at least must have been done, and found equal,
# of each writer. What is refused is what a call asks of arrays that can't be so, as `matrix/refusals.py` lists it.
SHARES = {"info": 0.8, "verify": 0.5, "export": 0.75, "manifest": 0.7, "copy": 0.35, "in place": 0.35}
# No reader of Zarr takes a volume's last chunks.
NONE = {("manifest", "tensorstore-volume"), ("manifest", "cloud-volume")}


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
        shares = {writer: share for writer, share in report.shares(what).items() if (what, writer) not in NONE}
        assert all(share >= least for share in shares.values()), (what, shares)
    unwritten = report.total("source")
    assert unwritten <= count * 0.05, f"{unwritten} datasets were not written or have no reader"
