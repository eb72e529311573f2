"""Calls that are made once more, and what an earlier one may have left."""

import json

CAMERA = ["--camera", "64x48xu16", "--frames", "5"]


def test_an_archive_is_known_again(tool, told, replay, tmp_path):
    _, path = replay("synthetic", *CAMERA)
    out, work = tmp_path / "q.ozx", tmp_path / ".q.ozx.repack"
    assert not told("repack", path, out)["already_done"]
    before = out.read_bytes()
    # What a kill between the archive's name and the end of the call leaves.
    (work / "tree/0").mkdir(parents=True)
    (work / "tree/0/zarr.json").write_text("{}")
    (work / "journal.json").write_text(json.dumps({"version": 1, "synced": True, "arrays": {"0": {}}}))
    for _ in range(2):
        assert told("repack", path, out)["already_done"]
        assert not work.exists() and out.read_bytes() == before
    tool("verify", out)
    assert "not what this call makes" in tool("repack", path, out, "--codec", "zstd", code=1)
    (path / "notes.txt").write_text("more")
    assert "not what this call makes" in tool("repack", path, out, code=1)
    (tmp_path / "broken.ozx").write_bytes(before[:100])
    assert "already exists" in tool("repack", path, tmp_path / "broken.ozx", code=1)
    # Out of the archive, the file of the first call is no part of the dataset.
    tool("repack", out, tmp_path / "folder.zarr")
    tool("verify", tmp_path / "folder.zarr")
