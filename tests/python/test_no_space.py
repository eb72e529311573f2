"""Disks that are too small, or full: said beforehand where that can be, and nothing is left or lost."""

import json
import os
import re
import resource
import subprocess

import pytest
import zarr
from arrays import files, pixels
from readers import assert_same


def small_disk(size, *words):
    """A command in which `$DISK` is a file system of that size which nobody else sees."""
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    script = 'mount -t tmpfs -o size="$SIZE" none "$DISK" && . "$DISK.sh"'
    return [*unshare, "sh", "-ec", script], {**os.environ, "SIZE": size}


@pytest.fixture
def on_small_disk(command, tmp_path):
    """Runs shell commands, in which `shardwright` is the command, where `$DISK` is a small file system."""

    def run(size, script):
        (tmp_path / "disk").mkdir(exist_ok=True)
        (tmp_path / "disk.sh").write_text(script)
        words, env = small_disk(size)
        env |= {"DISK": str(tmp_path / "disk"), "PLACE": str(tmp_path), "SHARDWRIGHT": str(command)}
        return subprocess.run(words, env=env, capture_output=True, text=True)

    return run


def test_what_has_no_room_is_refused_before_anything_is_written(on_small_disk, tmp_path):
    data = pixels(shape=(64, 128, 128))
    zarr.create_array(tmp_path / "a.zarr", data=data, chunks=(8, 64, 64), shards=(16, 128, 128), compressors=None)
    script = """
        code=0
        "$SHARDWRIGHT" repack "$PLACE/a.zarr" "$DISK/o.zarr" --json || code=$?
        ls -A "$DISK" >&2
        exit $code
    """
    done = on_small_disk("1m", script)
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 1 and error["kind"] == "no-space" and error["exit_code"] == 1, done.stderr
    needed, free = map(int, re.search(r"about (\d+) bytes are needed and (\d+) are free", error["message"]).groups())
    assert data.nbytes < needed < data.nbytes * 1.02 and free == 1 << 20
    assert "--no-space-check" in error["message"]
    # Its message is all that is on stderr: nothing was made.
    assert done.stderr.count("\n") == 1


def test_a_full_disk_says_how_to_go_on_and_the_same_call_does(on_small_disk, tmp_path):
    data = pixels(shape=(64, 128, 128))
    zarr.create_array(tmp_path / "a.zarr", data=data, chunks=(8, 64, 64), shards=(16, 128, 128), compressors=None)
    script = """
        head -c 1000000 /dev/zero > "$DISK/other"
        code=0
        "$SHARDWRIGHT" repack "$PLACE/a.zarr" "$DISK/o.zarr" --workers 1 --no-space-check --json > "$PLACE/first" ||
            code=$?
        test $code = 1
        test ! -e "$DISK/o.zarr"
        rm "$DISK/other"
        "$SHARDWRIGHT" repack "$PLACE/a.zarr" "$DISK/o.zarr" --workers 1 --json > "$PLACE/second"
        cp -r "$DISK/o.zarr" "$PLACE/o.zarr"
    """
    done = on_small_disk("2500k", script)
    assert done.returncode == 0, done.stderr
    error = json.loads((tmp_path / "first").read_text())["error"]
    assert error["kind"] == "no-space" and ".o.zarr.repack" in error["message"]
    assert "free some room and make the same call again" in error["message"]
    again = json.loads((tmp_path / "second").read_text())
    assert again["shards_found"] >= 1 and again["shards_found"] + again["shards_written"] == 4
    assert_same(zarr.open_array(tmp_path / "o.zarr", mode="r")[...], data)


@pytest.mark.parametrize("storage", ["direct", "buffered", "mapped"])
def test_an_archive_whose_disk_others_fill_ends_with_all_that_was_written(on_small_disk, tmp_path, storage):
    script = f"""
        "$SHARDWRIGHT" replay synthetic "$DISK/run.ozx" --camera 256x256xu16@400 --rate 400 --frames 600 \\
            --shard 32,256,256 --chunk 1,256,256 --storage {storage} --codec none --json > "$PLACE/told" &
        writer=$!
        # Two shards are full, and others may be there already.
        until test 0$(du -k "$DISK/run.ozx" 2>/dev/null | cut -f1) -gt 12000; do sleep 0.02; done
        # Whatever the writer gives back is taken, too.
        (while kill -0 $writer 2>/dev/null; do cat /dev/zero >> "$DISK/other" 2>/dev/null || sleep 0.01; done) &
        code=0
        wait $writer || code=$?
        wait
        cp "$DISK/run.ozx" "$PLACE/run.ozx"
        exit $code
    """
    done = on_small_disk("48m", script)
    told = json.loads((tmp_path / "told").read_text())
    assert done.returncode == 1, done.stderr
    assert told["error"]["kind"] == "no-space", told
    written = told["frames_written"]
    array = zarr.open_array(zarr.storage.ZipStore(tmp_path / "run.ozx", mode="r"), path="0")
    assert written > 0
    # Those that are missing may lie between.
    assert sum(int(frame.max()) > 0 for frame in array[...]) == written


def test_an_export_to_a_full_disk_leaves_nothing(on_small_disk, tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=pixels(shape=(64, 128, 128)), chunks=(8, 64, 64))
    script = 'code=0\n"$SHARDWRIGHT" export "$PLACE/a.zarr" "$DISK/a.%s" --json || code=$?\n'
    script += 'ls -A "$DISK" >&2; exit $code'
    for ending in ["npy", "tif"]:
        done = on_small_disk("1m", script % ending)
        error = json.loads(done.stdout)["error"]
        assert done.returncode == 1 and error["kind"] == "no-space", done.stderr
        # The output is meant, by its own name.
        assert error["path"].endswith(f"/disk/a.{ending}") and error["path"] in error["message"]
        # Its message is all that is on stderr: no file is listed.
        assert done.stderr.count("\n") == 1, done.stderr


def test_a_limit_on_file_sizes_is_an_error_like_others(command, tmp_path):
    path = tmp_path / "a.zarr"
    run = ["replay", "synthetic", path, "--camera", "256x256xu16@1000", "--frames", "16", "--codec", "none"]
    subprocess.run([str(word) for word in [command, *run, "-q"]], check=True)
    before = files(path)
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    calls = [["export", path, tmp_path / name] for name in ["o.npy", "o.tif"]]
    calls += [["repack", path, tmp_path / "o.zarr"]]
    calls += [["repack", path, "--codec", "none", "--chunk", "2,64,64", "--shard", "16,256,256"]]
    for storage in ["mapped", "buffered"]:
        calls += [[*run[:2], tmp_path / f"{storage}.zarr", *run[3:], "--storage", storage]]
    for words in calls:
        call = [str(word) for word in [command, *words, "--json"]]
        done = subprocess.run(call, capture_output=True, text=True, preexec_fn=limit)
        assert done.returncode == 1, (words, done.returncode, done.stderr)
        assert "File too large" in json.loads(done.stdout)["error"]["message"], done.stdout
    assert files(path) == before


# A writer that is killed, and a copy of what it leaves that is recovered where there is room.
KILLED = """
    "$SHARDWRIGHT" replay synthetic "$DISK/$NAME" --camera 256x256xu16@100 --rate 100 --frames 4000 --codec none \\
        --shard 16,256,256 --chunk 1,256,256 --unbounded --storage $STORAGE --checkpoint-every 0.05 -q &
    writer=$!
    # An archive has room before it has frames.
    until "$SHARDWRIGHT" info --json "$DISK/$NAME" 2>/dev/null | grep -qE '"shape":.[0-9]{2,},256'; do sleep 0.02; done
    kill -KILL $writer
    wait $writer || true
    cp -r --sparse=always "$DISK/$NAME" "$PLACE/$NAME"
    "$SHARDWRIGHT" recover "$PLACE/$NAME" --apply --json > "$PLACE/elsewhere"
    fill() { cat /dev/zero >> "$DISK/other" 2>/dev/null || true; test $(df --output=avail "$DISK" | tail -n 1) = 0; }
"""
ENDED = """
    rm "$DISK/other"
    "$SHARDWRIGHT" verify "$DISK/$NAME" -q
    "$SHARDWRIGHT" recover "$DISK/$NAME" -q
    rm -r "$PLACE/$NAME"
    cp -r "$DISK/$NAME" "$PLACE/$NAME"
"""


def recovered_pixels(path):
    store = zarr.storage.ZipStore(path, mode="r") if path.suffix == ".ozx" else path
    return zarr.open_array(store, path="0", mode="r")[...]


@pytest.fixture
def recovered_on_small_disk(on_small_disk, tmp_path):
    """Runs `script` where a writer was killed; what it ends with must be what comes back where there is room."""

    def run(name, storage, script):
        words = f"NAME={name}\nSTORAGE={storage}\n{KILLED}"
        keep = 'cp -r "$PLACE/$NAME" "$PLACE/kept-$NAME"\n'
        done = on_small_disk("32m", words + keep + script + ENDED)
        assert done.returncode == 0, (done.stdout, done.stderr)
        expected = recovered_pixels(tmp_path / f"kept-{name}")
        assert len(expected) > 0
        assert_same(recovered_pixels(tmp_path / name), expected)
        told = json.loads((tmp_path / "elsewhere").read_text())["images"]
        return done, [image["frames"] for image in told]

    return run


@pytest.mark.parametrize("storage", ["mapped", "buffered", "direct"])
@pytest.mark.parametrize("name", ["run.zarr", "run.ozx"])
def test_what_a_killed_writer_left_is_recovered_on_a_disk_without_a_free_byte(recovered_on_small_disk, name, storage):
    script = """
        fill
        "$SHARDWRIGHT" recover "$DISK/$NAME" -q && exit 9 || test $? = 4
        "$SHARDWRIGHT" recover "$DISK/$NAME" --apply --json
    """
    done, frames = recovered_on_small_disk(name, storage, script)
    told = json.loads(done.stdout)
    assert told["applied"] and [image["frames"] for image in told["images"]] == frames


@pytest.mark.parametrize("storage", ["buffered", "direct"])
def test_a_recovery_that_finds_no_room_says_how_much_it_needs_and_loses_nothing(
    recovered_on_small_disk, tmp_path, storage
):
    # In memory, shards have no room that they don't use; what is kept for documents is taken away, and so is a file of
    # records, which is to be made again.
    script = """
        rm "$DISK/$NAME/.shardwright.ballast.partial"
        rm -r "$DISK/$NAME/records/frame_number/c"
        fill
        "$SHARDWRIGHT" recover "$DISK/$NAME" --apply --json > "$PLACE/first" && exit 9 || test $? = 1
        "$SHARDWRIGHT" recover "$DISK/$NAME" -q && exit 9 || test $? = 4
        needed=$(grep -o "at most [0-9]* bytes" "$PLACE/first" | grep -o "[0-9]*")
        truncate -s -$needed "$DISK/other"
        "$SHARDWRIGHT" recover "$DISK/$NAME" --apply --json
    """
    done, frames = recovered_on_small_disk("run.zarr", storage, script)
    error = json.loads((tmp_path / "first").read_text())["error"]
    assert error["kind"] == "no-space" and error["exit_code"] == 1
    assert "bytes are needed" in error["message"] and "make the same call again" in error["message"]
    told = json.loads(done.stdout)
    assert told["applied"] and [image["frames"] for image in told["images"]] == frames


PLATE = '"$SHARDWRIGHT" replay synthetic "$DISK/p.zarr" --plate 1x4 --unbounded --storage mapped --camera 64x64xu16 '


def test_a_plate_whose_shards_have_no_room_is_refused_before_its_first_frame(on_small_disk):
    script = f"""
        code=0
        {PLATE} --frames 10 --json || code=$?
        ls -A "$DISK" >&2
        exit $code
    """
    done = on_small_disk("1300m", script)
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 1 and error["kind"] == "no-space", done.stderr
    message = error["message"]
    assert re.search(r"the first shards of 4 images reserve 2\.1\d GB once each image has a frame", message), message
    assert "smaller shards (--shard) reserve less" in message, message
    # Its message is all that is on stderr: nothing was made.
    assert done.stderr.count("\n") == 1, done.stderr


def test_a_plate_says_at_its_start_how_much_room_its_shards_reserve(on_small_disk, tmp_path):
    script = f"""
        {PLATE} --frames 10 --shard 1024,64,64 --json > "$PLACE/report"
        {PLATE} --frames 10 --shard 64,64,64 --json --overwrite > "$PLACE/smaller"
    """
    done = on_small_disk("200m", script)
    assert done.returncode == 0, done.stderr
    note = "the shards of 4 images reserve up to 0.07 GB of disk space while they are open, and 0.2"
    assert f"note: {note}" in done.stderr and done.stderr.count("reserve up to") == 1, done.stderr
    report, smaller = (json.loads((tmp_path / name).read_text()) for name in ("report", "smaller"))
    assert sum(said.startswith(note) and "(--shard)" in said for said in report["notes"]) == 1, report["notes"]
    assert not any("reserve" in said for said in smaller["notes"])


RECORDS = ("frame_number", "host_timestamp")


# Which write is the first that fails is a matter of chance.
@pytest.mark.parametrize("free", range(150_000, 350_000, 25_000))
def test_records_find_room_once_the_shards_have_given_back_what_they_reserved(on_small_disk, tmp_path, command, free):
    script = f"""
        head -c $(( $(df --output=avail -B1 "$DISK" | tail -n 1) - {free} )) /dev/zero > "$DISK/other"
        code=0
        "$SHARDWRIGHT" replay synthetic "$DISK/r.zarr" --camera 64x64xu8 --frames 100 --chunk 1,64,64 \\
            --shard 8,64,64 --codec none --json > "$PLACE/told" || code=$?
        cp -r "$DISK/r.zarr" "$PLACE/r.zarr"
        exit $code
    """
    done = on_small_disk("2m", script)
    told = json.loads((tmp_path / "told").read_text())
    assert done.returncode == 1 and told["error"]["kind"] == "no-space", (told, done.stderr)
    if any("the last documents are not written" in note for note in told["notes"]):
        pytest.skip("nothing was given back, so that not even the documents found room")
    assert not any("could not be stored" in note for note in told["notes"]), told["notes"]
    numbers, times = (zarr.open_array(tmp_path / "r.zarr/records" / name)[...] for name in RECORDS)
    came = numbers >= 0
    assert came.sum() == told["frames_written"] > 0 and (times[came] > 0).all()
    for tool in ["info", "verify"]:
        words = subprocess.run([command, tool, tmp_path / "r.zarr"], capture_output=True, text=True).stdout
        assert "ended with an error" in words and "No space left on device" in words, words
