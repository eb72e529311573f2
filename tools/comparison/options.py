"""What can be chosen on the command line, told without the rivals and what they import."""

import argparse
import sys
from pathlib import Path

RIVALS = ("acquire-zarr", "tensorstore", "zarr-python", "chucky")
TESTS = ("well", "kill-1", "kill-2", "power", "full-8", "full-20", "skipped", "skipped-late")


def comparison(words):
    parser = argparse.ArgumentParser(
        prog="tools/compare",
        description="Gives the same frames, chunks, shards and codec to this project and to acquire-zarr, tensorstore, "
        "zarr-python and, if asked, chucky, in turns, checks that every output equals the frames, and says who is "
        "faster. Measured runs are kept: interrupt it, run it again, and it goes on.",
    )
    parser.add_argument(
        "--safety",
        action="store_true",
        help="kills, power cuts and full disks instead of speed; has a --help of its own",
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="turns that count (default 5)")
    parser.add_argument(
        "--disk", type=Path, metavar="DIR", help="a folder on the disk to measure (default below target/)"
    )
    parser.add_argument(
        "--tmpfs", type=Path, default=Path("/dev/shm"), metavar="DIR", help="a tmpfs (default /dev/shm)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where results go (default target/compare)")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes: to see that it works; the figures mean nothing"
    )
    parser.add_argument("--all-storages", action="store_true", help="this project also with each storage by name")
    parser.add_argument(
        "--recording", type=Path, metavar="FILE", help="a recording (TIFF) of your own as further cases"
    )
    parser.add_argument(
        "--recordings", type=Path, metavar="DIR", help="a folder of recordings (TIFF), each of them as further cases"
    )
    parser.add_argument(
        "--case", action="append", metavar="WORDS", help="only cases whose name contains this; may be repeated"
    )
    parser.add_argument("--place", choices=("tmpfs", "disk"), action="append", help="only this place; may be repeated")
    parser.add_argument("--rival", choices=RIVALS, action="append", help="only this rival; may be repeated")
    parser.add_argument(
        "--chucky", type=Path, metavar="DIR", help="a checkout of chucky, whose writer for the CPU then takes part, too"
    )
    parser.add_argument(
        "--tune", type=int, default=2, metavar="N", help="turns to choose each rival's settings (default 2)"
    )
    parser.add_argument("--deadline", type=float, default=900, metavar="SECONDS", help="for a single run (default 900)")
    parser.add_argument("--fresh", action="store_true", help="measure anew; what was measured before is set aside")
    return parser.parse_args(words)


def safety(words):
    parser = argparse.ArgumentParser(
        prog="tools/compare --safety",
        description="Does the same harm to this project, acquire-zarr, tensorstore and zarr-python, and counts what is "
        "left.",
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="repetitions (default 5)")
    parser.add_argument("--codec", choices=("none", "blosc-lz4"), default="blosc-lz4", help="default blosc-lz4")
    parser.add_argument("--test", choices=TESTS, action="append", help="only this test; may be repeated")
    parser.add_argument("--writer", metavar="WORDS", action="append", help="only writers whose name contains this")
    parser.add_argument(
        "--folder", type=Path, default=None, metavar="DIR", help="where to write (default below target/)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="results (default target/compare-safety/results.json)")
    return parser.parse_args(words)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--safety"]
    (comparison if words == sys.argv[1:] else safety)(words)
