"""OME-Zarr 0.6 as ome-zarr-models has it, in an interpreter of its own: the release that knows it wants Python 3.12.

Called with a model's name and the path of a group, it prints what the group says, or the error that it found."""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = pathlib.Path(os.environ.get("SHARDWRIGHT_OME_0_6_PYTHON", ROOT / "target/venv-ome-0.6/bin/python"))


def validated(model, path):
    """What OME-Zarr says in a group, once the model of that name took it without an objection."""
    import pytest

    if not PYTHON.exists():
        pytest.skip("not run: no Python with an ome-zarr-models that knows 0.6; tools/test makes one of Python 3.12")
    call = [str(PYTHON), __file__, model, str(path)]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, (model, path, done.stdout, done.stderr)
    return json.loads(done.stdout)


def validate(model, path):
    import warnings

    import ome_zarr_models.v06 as v06
    import zarr

    # What is only frowned upon is an error, too.
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    group = getattr(v06, model).from_zarr(zarr.open_group(path, mode="r", zarr_format=3))
    print(group.ome_attributes.model_dump_json(by_alias=True))


if __name__ == "__main__":
    validate(*sys.argv[1:])
