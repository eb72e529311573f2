//! What a stopped writer left comes back, whatever the indexes say, and a recovery may be stopped itself.

use crate::common::recovered;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::stopped::{Frame, check, files, finished, frames_of, layouts, restore, small, sound, stopped};
use serde_json::Value;
use shardwright::offline::{Array, Recovery, ShardAction};
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dataset, Dim, Dtype, Error, IndexLocation, Placement, Record, StorageKind,
};

const FIXED: (Placement, IndexLocation, StorageKind) = (Placement::Fixed, IndexLocation::End, StorageKind::Buffered);
const PACKED: (Placement, IndexLocation, StorageKind) = (Placement::Packed, IndexLocation::End, StorageKind::Buffered);

fn dry(path: &Path) -> Recovery {
    recovered(path, false).unwrap()
}

fn apply(path: &Path) -> Recovery {
    recovered(path, true).unwrap()
}

fn document(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path.join("zarr.json")).unwrap()).unwrap()
}

#[test]
fn every_committed_chunk_comes_back_in_every_layout() {
    for layout in layouts() {
        let folder = tempfile::tempdir().unwrap();
        let config = small(layout);
        // Frames 4 and 5 never come; the second shard is open.
        let path = stopped(folder.path(), &config, &[0, 1, 2, 3, 6, 7, 8], 7);
        let before = files(&path);
        let found = dry(&path);
        assert_eq!(files(&path), before, "a dry run has changed something");
        let image = &found.images[0];
        assert!(found.is_needed() && !found.applied);
        assert_eq!((image.chunks, image.chunks_dropped, image.chunks_torn), (28, 0, 0), "{layout:?}");
        assert_eq!((image.frames, image.frames_missing), (9, 2));
        assert_eq!((image.missing[0].clone(), image.missing.len()), (4..6, 1));
        // The documents follow when the first shard is closed, and tell what has come by then.
        assert!((4..=9).contains(&image.shape_before[0]) && image.shape[..] == [9, 8, 8], "{image:?}");

        let done = apply(&path);
        assert_eq!(done.images[0].chunks_salvaged, image.chunks_salvaged);
        let mut expected = vec![Frame::Whole; 9];
        expected[4..6].fill(Frame::Missing);
        assert_eq!(frames_of(&path, &config, 9), expected);
        sound(&path);
        let own = &document(&path)["attributes"]["shardwright"];
        assert_eq!((&own["complete"], &own["recovered"], &own["frames"]), (&false.into(), &true.into(), &9.into()));
        assert_eq!(own["missing"], serde_json::json!([[4, 6]]));
        assert_eq!(document(&path.join("records/frame_number"))["shape"][0], 9);

        let after = files(&path);
        assert!(!after.keys().any(|path| path.ends_with(".shardwright.lock")), "the lock is left");
        let again = apply(&path);
        assert!(!again.is_needed(), "{again:#?}");
        assert_eq!(files(&path), after, "a second recovery has changed something");
    }
}

#[test]
fn a_recovered_shard_is_as_long_as_a_finished_one() {
    for layout in layouts() {
        let folder = tempfile::tempdir().unwrap();
        let config = small(layout);
        let left = stopped(folder.path(), &config, &[0, 1, 2], 3);
        apply(&left);
        let path = folder.path().join("finished");
        finished(&path, &config, &[0, 1, 2]);
        let shard = |path: &Path| fs::read(path.join("0/c/0/0/0")).unwrap().len();
        assert_eq!(shard(&left), shard(&path), "{layout:?}");
        assert!(!left.join("0/c/1/0/0").exists(), "a shard that was only prepared is left");
    }
}

/// Everything that a recovery may have done when it is stopped: documents, then shards, each in its steps.
#[test]
fn a_recovery_that_was_stopped_anywhere_is_finished_by_the_next() {
    // The bytes are the same however they were written.
    for layout in layouts().into_iter().filter(|layout| layout.2 == StorageKind::Buffered) {
        let folder = tempfile::tempdir().unwrap();
        let config = small(layout);
        let path = stopped(folder.path(), &config, &[0, 1, 2, 4, 5], 5);
        let before = files(&path);
        apply(&path);
        let after = files(&path);
        let check = |state: &BTreeMap<PathBuf, Vec<u8>>, what: &str| {
            restore(&path, state);
            apply(&path);
            assert!(files(&path) == after, "{layout:?}, stopped {what}: the next recovery came to something else");
        };
        let changed: Vec<_> = after.keys().filter(|key| before.get(*key) != after.get(*key)).cloned().collect();
        let (shards, documents): (Vec<_>, Vec<_>) = changed.into_iter().partition(|key| key.starts_with("0/c"));
        let mut state = before.clone();
        for document in documents {
            state.insert(document.clone(), after[&document].clone());
            check(&state, "within the documents");
        }
        for shard in shards {
            let (old, new) = (state[&shard].clone(), &after[&shard]);
            let at = if layout.1 == IndexLocation::Start { 0 } else { new.len() - 260 };
            for written in [1, 16, 100, 259, 260] {
                let mut torn = old.clone();
                torn[at..at + written].copy_from_slice(&new[at..at + written]);
                state.insert(shard.clone(), torn);
                check(&state, "within an index");
            }
            let mut cut = old;
            cut[at..at + 260].copy_from_slice(&new[at..at + 260]);
            cut.truncate(new.len());
            state.insert(shard.clone(), cut);
            check(&state, "after a file was cut off");
            state.insert(shard.clone(), new.clone());
            check(&state, "after a shard");
        }
    }
}

#[test]
fn what_an_index_says_is_never_believed() {
    for layout in [FIXED, PACKED] {
        let folder = tempfile::tempdir().unwrap();
        let config = small(layout);
        let path = folder.path().join("run.zarr");
        finished(&path, &config, &[0, 1, 2, 3]);
        let file = path.join("0/c/0/0/0");
        let good = fs::read(&file).unwrap();
        let at = good.len() - 260;
        let with_index = |change: &dyn Fn(&mut [u8])| {
            let mut shard = good.clone();
            change(&mut shard[at..at + 256]);
            let crc = crc32c::crc32c(&shard[at..at + 256]);
            shard[at + 256..].copy_from_slice(&crc.to_le_bytes());
            fs::write(&file, shard).unwrap();
            let found = apply(&path);
            assert_eq!(fs::read(&file).unwrap(), good, "{layout:?}");
            found
        };
        // Two chunks exchanged, a wrong length, a place outside, and nothing at all.
        with_index(&|index| index[..32].rotate_left(16));
        with_index(&|index| index[8] -= 1);
        with_index(&|index| index[7] = 0x70);
        let found = with_index(&|index| index.fill(0xff));
        assert_eq!(found.images[0].chunks_salvaged, 16);
        // And a broken one.
        let mut shard = good.clone();
        shard[at + 5] ^= 1;
        fs::write(&file, shard).unwrap();
        let found = apply(&path);
        assert_eq!(found.images[0].shards[0].chunks_before, None);
        assert_eq!(fs::read(&file).unwrap(), good);
        sound(&path);
    }
}

#[test]
fn a_chunk_counts_only_when_header_and_payload_agree() {
    for layout in [FIXED, PACKED] {
        let folder = tempfile::tempdir().unwrap();
        let config = small(layout);
        let path = stopped(folder.path(), &config, &[0, 1, 2], 3);
        let before = files(&path);
        let file = path.join("0/c/0/0/0");
        let shard = fs::read(&file).unwrap();
        let headers: Vec<_> = (0..shard.len() - 64).filter(|&at| shard[at..].starts_with(b"SWc1")).collect();
        assert_eq!(headers.len(), 12);
        // Every third byte; the headers' own test has them all.
        for at in (0..84).step_by(3) {
            restore(&path, &before);
            let mut torn = shard.clone();
            torn[headers[5] + at] ^= 0x20;
            fs::write(&file, torn).unwrap();
            let found = apply(&path);
            let image = &found.images[0];
            assert_eq!(image.chunks, 11, "{layout:?}, byte {at}");
            assert_eq!(image.chunks_torn, u64::from(at >= 64));
            assert_eq!((image.frames, image.frames_missing), (3, 1));
            frames_of(&path, &config, 3);
            sound(&path);
            assert!(!apply(&path).is_needed(), "byte {at}");
        }
    }
}

/// A power cut keeps some pages and loses others.
#[test]
fn torn_pages_cost_their_chunks_and_no_others() {
    for layout in layouts() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config {
            dims: vec![Dim::time(None).chunk(1).shard(8), Dim::y(64).chunk(32), Dim::x(64).chunk(32)],
            codec: Codec::default(),
            ..small(layout)
        };
        let numbers: Vec<u64> = (0..13).collect();
        let path = stopped(folder.path(), &config, &numbers, 13);
        let before = files(&path);
        let mut state = 0x2545_F491_4F6C_DD1Du64;
        for round in [0, 2, 5, 9] {
            restore(&path, &before);
            for name in ["0/c/0/0/0", "0/c/1/0/0"] {
                let mut shard = before[Path::new(name)].clone();
                for sector in shard.chunks_mut(512) {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    if state >> 60 < round {
                        sector.fill(0);
                    }
                }
                fs::write(path.join(name), shard).unwrap();
            }
            let found = apply(&path);
            frames_of(&path, &config, 13);
            let verification = check(&path);
            assert!(verification.is_sound(), "{layout:?}: {:#?}", verification.findings);
            if round == 0 {
                assert_eq!((found.images[0].chunks, found.images[0].frames_missing), (52, 0));
            }
            assert!(!apply(&path).is_needed());
        }
    }
}

#[test]
fn a_shard_that_was_cut_off_anywhere_is_recovered_at_once() {
    for layout in [FIXED, PACKED, (Placement::Fixed, IndexLocation::Start, StorageKind::Buffered)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        finished(&path, &small(layout), &[0, 1, 2, 3]);
        let good = files(&path);
        let shard = fs::read(path.join("0/c/0/0/0")).unwrap();
        let first = shard.windows(4).position(|bytes| bytes == b"SWc1").unwrap();
        let ends = (0..first + 100).step_by(if first > 0 { 97 } else { 1 }).chain((first + 60..first + 200).step_by(3));
        for end in ends.chain((first + 200..=shard.len()).step_by(61)) {
            restore(&path, &good);
            fs::write(path.join("0/c/0/0/0"), &shard[..end]).unwrap();
            apply(&path);
            let again = dry(&path);
            assert!(!again.is_needed(), "{layout:?}, cut off at {end}: {again:#?}");
        }
    }
}

/// What stands where an index would end with the file may reach into a chunk that is whole: it must not become its end.
#[test]
fn what_passes_for_an_index_does_not_cost_a_chunk() {
    const INDEX_BYTES: usize = 16 * 16 + 4;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    finished(&path, &small(FIXED), &[0, 1, 2, 3]);
    let good = files(&path);
    let shard = fs::read(path.join("0/c/0/0/0")).unwrap();
    for end in (INDEX_BYTES..shard.len()).step_by(7) {
        restore(&path, &good);
        let mut cut = shard[..end].to_vec();
        let crc = crc32c::crc32c(&cut[end - INDEX_BYTES..end - 4]);
        cut[end - 4..].copy_from_slice(&crc.to_le_bytes());
        fs::write(path.join("0/c/0/0/0"), &cut).unwrap();
        let whole = apply(&path).images[0].chunks;
        let again = dry(&path);
        assert!(!again.is_needed(), "cut off at {end}: {again:#?}");
        assert_eq!(again.images[0].chunks, whole, "cut off at {end}");
    }
}

#[test]
fn frames_in_deep_chunks_and_any_order_are_accounted_for() {
    let dims =
        vec![Dim::time(None).chunk(1).shard(2), Dim::channel(2).chunk(1), Dim::z(4).chunk(2), Dim::y(8), Dim::x(8)];
    let config = Config { dims, acquisition_order: ["t", "z", "c"].map(String::from).into(), ..small(FIXED) };
    let folder = tempfile::tempdir().unwrap();
    // Two channels in turn: the layers of z 0 and 1 are complete after four frames. 9 is lost, and 12 and 13 wait for
    // their neighbours in z.
    let numbers = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13];
    let path = stopped(folder.path(), &config, &numbers, 10);
    let found = apply(&path);
    let image = &found.images[0];
    assert_eq!(image.shape, [2, 2, 4, 8, 8]);
    // The chunk of 8 and 10 is whole; 11 waited for 9.
    // The places of the second time point that no frame came to are in the array, and so they are listed.
    assert_eq!((image.frames, image.chunks), (16, 5));
    assert_eq!(image.missing, [9..10, 11..16]);
    sound(&path);
    let array = Array::open(&path).unwrap();
    let mut pixels = vec![0; 64];
    array.read_region(&[0, 1, 2, 0, 0], &[1, 1, 1, 8, 8], &mut pixels).unwrap();
    assert_eq!(pixels, crate::common::frame(5, 64));
}

#[test]
fn records_of_the_last_checkpoint_outlive_the_writer() {
    let dims = vec![Dim::time(None).chunk(4).shard(1024), Dim::y(8), Dim::x(8)];
    let config = Config { dims, checkpoint_every: Duration::from_millis(10), ..small(FIXED) };
    let folder = tempfile::tempdir().unwrap();
    // 2 is out of the window by then; 290 is not, and its chunk waits for it.
    let numbers: Vec<_> = (0..300).filter(|number| ![2, 290].contains(number)).collect();
    let path = stopped(folder.path(), &config, &numbers, 295);
    let found = apply(&path);
    assert_eq!((found.images[0].frames, &found.images[0].missing[..]), (300, &[2..3, 290..291][..]));
    sound(&path);
    let column = |name: &str| {
        let bytes = Array::open(path.join("records").join(name)).unwrap().read_all().unwrap();
        bytes.chunks_exact(8).map(|value| i64::from_le_bytes(value.try_into().unwrap())).collect::<Vec<_>>()
    };
    let (came, stamps) = (column("frame_number"), column("host_timestamp"));
    assert_eq!((came.len(), stamps.len()), (300, 300));
    for (number, (&came, &stamp)) in came.iter().zip(&stamps).enumerate() {
        let expected = if [2, 290].contains(&number) { -1 } else { number as i64 };
        assert_eq!((came, stamp > 0), (expected, ![2, 290].contains(&number)), "frame {number}");
    }
    assert!(!apply(&path).is_needed());
}

#[test]
fn dark_frames_of_closed_shards_are_not_missing() {
    let config = small(FIXED);
    let folder = tempfile::tempdir().unwrap();
    let live = folder.path().join("live");
    let acquisition = Acquisition::create(&live, config.clone()).unwrap();
    for number in 0..6u64 {
        let mut frame = acquisition.acquire().unwrap();
        let pixels = crate::common::frame(number, 64);
        // Frame 1 is half dark; its chunks below are not stored.
        let half = if number == 1 { 32 } else { 64 };
        frame[..half].copy_from_slice(&pixels[..half]);
        frame[half..].fill(0);
        frame.commit(number, Record::default()).unwrap();
    }
    crate::common::stopped::written(&acquisition, 6);
    while acquisition.stats().shards_closed < 1 {
        std::thread::yield_now();
    }
    let path = folder.path().join("left");
    restore(&path, &files(&live));
    acquisition.abort();
    let found = apply(&path);
    assert_eq!(found.images[0].missing, [] as [std::ops::Range<u64>; 0]);
    assert_eq!(found.images[0].chunks, 22);
}

#[test]
fn a_finished_dataset_is_left_alone() {
    for layout in layouts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        finished(&path, &small(layout), &[0, 1, 2, 4, 5, 9]);
        let before = files(&path);
        assert!(!dry(&path).is_needed());
        let found = apply(&path);
        assert!(!found.is_needed(), "{found:#?}");
        assert_eq!(files(&path), before);
    }
}

#[test]
fn files_that_were_begun_go_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = stopped(folder.path(), &small(FIXED), &[0, 1], 2);
    let partial = [path.join("0/c/0/0/.1.partial"), path.join(".zarr.json.partial")];
    partial.iter().for_each(|partial| fs::write(partial, b"begun").unwrap());
    let replaced = folder.path().join(".left.zarr.replaced-89abcdef");
    fs::create_dir(&replaced).unwrap();
    let found = dry(&path);
    assert_eq!(found.partial, [".shardwright.ballast.partial", ".zarr.json.partial", "0/c/0/0/.1.partial"]);
    assert_eq!(found.replaced, [fs::canonicalize(&replaced).unwrap()]);
    assert!(partial.iter().all(|partial| partial.exists()));
    apply(&path);
    assert!(!partial.iter().any(|partial| partial.exists()));
    assert!(replaced.exists(), "another dataset was removed");
}

#[test]
fn a_writer_at_work_is_not_disturbed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, small(FIXED)).unwrap();
    for apply in [false, true] {
        let refused = recovered(&path, apply).unwrap_err();
        assert!(matches!(refused, Error::Locked { .. }), "{refused}");
    }
    crate::common::stopped::commit(&acquisition, &small(FIXED), 0);
    acquisition.finish().unwrap();
    assert!(!apply(&path).is_needed());
}

#[test]
fn what_another_writer_made_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    finished(&path, &small(FIXED), &[0, 1, 2, 3]);
    let good = files(&path);
    let refused = |words: &str| {
        let error = recovered(&path, true).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert!(!path.join(".shardwright.lock").exists());
    };
    let mut group = document(&path);
    group["attributes"]["shardwright"] = Value::Null;
    fs::write(path.join("zarr.json"), group.to_string()).unwrap();
    refused("no image in it was made by shardwright");
    restore(&path, &good);
    fs::write(path.join("0/zarr.json"), "[]").unwrap();
    refused("zarr_format");
    restore(&path, &good);

    // Shards without headers, or with headers of another dataset: their indexes are all that there is.
    for bytes in [0u8, 0x77] {
        let mut shard = good[Path::new("0/c/0/0/0")].clone();
        (0..16).for_each(|slot| shard[88 * slot..][..64].fill(bytes));
        fs::write(path.join("0/c/0/0/0"), &shard).unwrap();
        let found = apply(&path);
        assert_eq!(found.images[0].shards[0].action, ShardAction::Leave);
        assert_eq!(fs::read(path.join("0/c/0/0/0")).unwrap(), shard);
    }
    let other = tempfile::tempdir().unwrap();
    let other = stopped(other.path(), &small(FIXED), &[0, 1, 2], 3);
    fs::copy(other.join("0/c/0/0/0"), path.join("0/c/0/0/0")).unwrap();
    let found = apply(&path);
    let shard = &found.images[0].shards[0];
    assert!(shard.reason.as_ref().unwrap().contains("belong to another dataset"), "{shard:?}");
    assert_eq!(fs::read(path.join("0/c/0/0/0")).unwrap(), fs::read(other.join("0/c/0/0/0")).unwrap());
}

#[test]
fn links_that_lead_out_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = stopped(folder.path(), &small(FIXED), &[0, 1], 2);
    let outside = folder.path().join("precious");
    fs::rename(path.join("0/c/0/0/0"), &outside).unwrap();
    symlink(&outside, path.join("0/c/0/0/0")).unwrap();
    let before = fs::read(&outside).unwrap();
    let refused = recovered(&path, true).unwrap_err().to_string();
    assert!(refused.contains("a link out of") && refused.contains("follow_links_anywhere"), "{refused}");
    assert_eq!(fs::read(&outside).unwrap(), before);

    let path = stopped(folder.path(), &small(FIXED), &[0, 1], 2);
    let outside = folder.path().join("elsewhere");
    fs::rename(path.join("0/c/0"), &outside).unwrap();
    fs::write(outside.join(".x.partial"), b"theirs").unwrap();
    symlink(&outside, path.join("0/c/0")).unwrap();
    let before = files(&outside);
    recovered(&path, true).unwrap_err();
    assert_eq!(files(&outside), before);
}

#[test]
fn several_images_come_back_together() {
    let folder = tempfile::tempdir().unwrap();
    let (live, path) = (folder.path().join("live"), folder.path().join("left"));
    let two = Dataset::create(&live).unwrap();
    let configs = [small(FIXED), Config { dtype: Dtype::U16, ..small(PACKED) }];
    let running: Vec<_> = ["left", "right"]
        .iter()
        .zip(&configs)
        .map(|(name, config)| two.acquisition(name, config.clone()).unwrap())
        .collect();
    for (acquisition, config) in running.iter().zip(&configs) {
        (0..5).for_each(|number| crate::common::stopped::commit(acquisition, config, number));
        crate::common::stopped::written(acquisition, 5);
    }
    restore(&path, &files(&live));
    drop(running);
    let found = apply(&path);
    assert_eq!(found.images.iter().map(|image| image.path.as_str()).collect::<Vec<_>>(), ["left/0", "right/0"]);
    assert!(found.images.iter().all(|image| image.chunks == 20 && image.shape == [5, 8, 8]));
    for (name, config) in ["left", "right"].iter().zip(&configs) {
        assert_eq!(frames_of(&path.join(name), config, 5), [Frame::Whole; 5]);
    }
    let xml = fs::read_to_string(path.join("OME/METADATA.ome.xml")).unwrap();
    assert_eq!(xml.matches("SizeT=\"5\"").count(), 2, "{xml}");
    sound(&path);
    assert!(!apply(&path).is_needed());
}

#[test]
fn an_error_of_the_run_stays_in_the_documents() {
    let folder = tempfile::tempdir().unwrap();
    let path = stopped(folder.path(), &Config { codec: Compressor::None.into(), ..small(FIXED) }, &[0, 1], 2);
    let mut group = document(&path);
    group["attributes"]["shardwright"]["error"] = "the disk was full".into();
    group["attributes"]["mine"] = 7.into();
    fs::write(path.join("zarr.json"), group.to_string()).unwrap();
    apply(&path);
    let attributes = &document(&path)["attributes"];
    assert_eq!((&attributes["shardwright"]["error"], &attributes["mine"]), (&"the disk was full".into(), &7.into()));
}
