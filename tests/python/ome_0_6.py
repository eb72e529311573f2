"""OME-Zarr 0.6 as ome-zarr-models has it, in an interpreter of its own: the release that knows it wants Python 3.12.

It is started once, because it takes seconds to begin. A line names a model and the path of a group; the answer is what
the group says, or the error that was found."""

import functools
import json
import os
import pathlib
import subprocess
import sys
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = pathlib.Path(os.environ.get("SHARDWRIGHT_OME_0_6_PYTHON", ROOT / "target/venv-ome-0.6/bin/python"))


@functools.cache
def validator():
    return subprocess.Popen([str(PYTHON), __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def validated(model, path):
    """What OME-Zarr says in a group, once the model of that name took it without an objection."""
    import pytest

    if not PYTHON.exists():
        pytest.skip("not run: no Python with an ome-zarr-models that knows 0.6; tools/test makes one of Python 3.12")
    process = validator()
    process.stdin.write(json.dumps([model, str(path)]) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    assert "error" not in answer, (model, path, answer["error"])
    return answer["said"]


def said_of(model, path):
    import ome_zarr_models.v06 as v06
    import zarr

    group = getattr(v06, model).from_zarr(zarr.open_group(path, mode="r", zarr_format=3))
    return json.loads(group.ome_attributes.model_dump_json(by_alias=True))


def serve():
    import warnings

    # What is only frowned upon is an error, too.
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    for line in sys.stdin:
        try:
            answer = {"said": said_of(*json.loads(line))}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
