"""Runs that several processes write: what the command says of them before and after."""

import json

import pytest
import zarr

CONFIG = {
    "dtype": "uint8",
    "dims": [
        {"name": "t", "kind": "time", "size": 40, "chunk": 2, "shard": 4},
        {"name": "y", "kind": "space", "size": 20, "chunk": 8, "shard": 16},
        {"name": "x", "kind": "space", "size": 50, "chunk": 8, "shard": 16},
    ],
    "ring_bytes": 1 << 20,
}


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(CONFIG))
    return path


def test_a_run_waits_for_its_parts(tool, told, config, tmp_path):
    run = tmp_path / "run.ome.zarr"
    created = told("create", run, "--config", config, "--parts", "4")
    assert (created["by"], [part["index"] for part in created["parts"]]) == ("time", [0, 1, 2, 3])
    assert zarr.open_array(run / "0", mode="r").shape == (40, 20, 50)
    assert "already exists" in tool("create", run, "--config", config, "--parts", "4", code=1)
    assert "parts that never came: 0, 1, 2, 3; --incomplete finishes without them" in tool("finish", run, code=3)
    for command in ["repack", "pyramid", "recover", "verify"]:
        assert "`shardwright finish` puts together" in tool(command, run, code=3), command
    finished = told("finish", run, "--incomplete", code=4)
    assert [part["state"] for part in finished["parts"]] == ["absent"] * 4
    assert (finished["frames"], finished["frames_missing"]) == (0, 0)
    assert told("finish", run)["notes"] == ["was finished before"]
    assert not (run / "parts").exists()


def test_bands_of_the_frame_are_told(tool, told, config, tmp_path):
    created = told("create", tmp_path / "run.ome.zarr", "--config", config, "--parts", "2", "--by", "frame")
    assert [part["columns"] for part in created["parts"]] == [[0, 32], [32, 50]]
    assert [part["rows"] for part in created["parts"]] == [[0, 20], [0, 20]]


def test_what_can_not_be_created_is_refused(tool, config, tmp_path):
    run = tmp_path / "run.ome.zarr"
    said = tool("create", run, "--config", config, "--parts", "5", "--by", "frame", code=2)
    assert "error: 5 parts by frame: " in said and "at most 4 parts are possible" in said
    assert "--shard" not in said and "(`dims[..].shard` of the configuration) give more" in said
    assert "at most 10 parts are possible" in tool("create", run, "--config", config, "--parts", "11", code=2)
    config.write_text(json.dumps(CONFIG | {"dims_": []}))
    assert "unknown field `dims_`" in tool("create", run, "--config", config, "--parts", "2", code=2)
    config.write_text(json.dumps(CONFIG | {"dtype": "u2"}))
    said = tool("create", run, "--config", config, "--parts", "2", code=2)
    assert '"u2" is numpy\'s short name, and "uint16" is the one of a file' in said
    assert "can't read" in tool("create", run, "--config", tmp_path / "none.json", "--parts", "2", code=3)
    assert not run.exists()


def test_a_configuration_may_be_toml(tool, tmp_path):
    run, config = tmp_path / "run.ome.zarr", tmp_path / "run.toml"
    dims = [
        "[[dims]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in dim.items()) for dim in CONFIG["dims"]
    ]
    config.write_text('dtype = "uint8"\nring_bytes = 1048576\n' + "".join(dims))
    assert "4 parts by time" in tool("create", run, "--config", config, "--parts", "4")
    assert zarr.open_array(run / "0", mode="r").shape == (40, 20, 50)
    other = tmp_path / "other.ome.zarr"
    config.write_text('dtype = "uint8"\nring = 1\n')
    said = tool("create", other, "--config", config, "--parts", "2", code=2)
    assert "run.toml, read as TOML: unknown field `ring`" in said and "at line 2 column 1" in said
    config.write_text("dtype = \n")
    assert "read as TOML: " in tool("create", other, "--config", config, "--parts", "2", code=2)
    config.rename(tmp_path / "run.json")
    assert "read as JSON: " in tool("create", other, "--config", tmp_path / "run.json", "--parts", "2", code=2)


def test_a_dataset_without_parts_is_not_finished(tool, replay):
    _, path = replay("synthetic", "--camera", "64x48xu16", "--frames", "5")
    assert "is no run in parts" in tool("finish", path, code=5)
