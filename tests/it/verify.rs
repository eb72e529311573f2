//! A check finds everything that headers and checksums cover, and nothing where nothing is wrong.

use crate::common::{checked, fault_step, recovered};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use crate::common::stopped::{check, files, finished, layouts, record_block, restore, small, sound, stopped};
use serde_json::Value;
use shardwright::offline::{Severity, Verification, Verify, VerifyOptions};
use shardwright::{Acquisition, Codec, Compressor, Config, Dataset, Error, IndexLocation, Placement, StorageKind};

const FIXED: (Placement, IndexLocation, StorageKind) = (Placement::Fixed, IndexLocation::End, StorageKind::Buffered);

fn dataset(folder: &Path, config: &Config, frames: u64) -> PathBuf {
    let path = folder.join("run.zarr");
    finished(&path, config, &(0..frames).collect::<Vec<_>>());
    path
}

fn damage(verification: &Verification) -> Vec<String> {
    let damage = verification.findings.iter().filter(|finding| finding.severity == Severity::Damage);
    damage.map(ToString::to_string).collect()
}

#[track_caller]
fn expect_damage(path: &Path, words: &str) {
    let found = damage(&check(path));
    assert!(found.iter().any(|found| found.contains(words)), "nothing says {words:?}: {found:#?}");
}

fn edit_json(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut document = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut document);
    fs::write(path, serde_json::to_vec(&document).unwrap()).unwrap();
}

/// The ranges of a shard that something vouches for: the index, and each chunk with its header.
fn covered(shard: &[u8], chunks: usize, location: IndexLocation) -> Vec<std::ops::Range<usize>> {
    let index_bytes = 16 * chunks + 4;
    let index_at = if location == IndexLocation::End { shard.len() - index_bytes } else { 0 };
    let word = |at: usize| u64::from_le_bytes(shard[index_at + at..][..8].try_into().unwrap());
    let entries = (0..chunks).map(|chunk| (word(16 * chunk), word(16 * chunk + 8)));
    let there = entries.filter(|entry| entry.0 != u64::MAX);
    let mut covered: Vec<_> = there.map(|(at, nbytes)| at as usize - 64..(at + nbytes) as usize).collect();
    covered.push(index_at..index_at + index_bytes);
    covered
}

#[test]
fn a_flipped_byte_is_found_wherever_something_covers_it() {
    let (mut turn, step) = (0, fault_step(17));
    for (placement, location) in [
        (Placement::Fixed, IndexLocation::End),
        (Placement::Fixed, IndexLocation::Start),
        (Placement::Packed, IndexLocation::End),
        (Placement::Packed, IndexLocation::Start),
    ] {
        for (compressor, checksum) in
            [(Compressor::None, true), (Compressor::None, false), (Compressor::Zstd { level: 1 }, false)]
        {
            let folder = tempfile::tempdir().unwrap();
            let codec = Codec { compressor, checksum };
            let config = Config { codec, ..small((placement, location, StorageKind::Buffered)) };
            let path = dataset(folder.path(), &config, 3);
            sound(&path);
            let file = path.join("0/c/0/0/0");
            let shard = fs::read(&file).unwrap();
            let covered = covered(&shard, 16, location);
            let (mut inside, mut outside) = (0, 0);
            turn += 1;
            // Each layout and codec has bytes of its own, so that all of them and all bits have their turn; and where a
            // range begins and ends, all have.
            let edges = covered.iter().flat_map(|range| [range.start, range.end - 1, range.end]);
            let others = (turn % step..shard.len()).step_by(step);
            for at in others.chain(edges.filter(|at| *at < shard.len())) {
                let is_covered = covered.iter().any(|range| range.contains(&at));
                let mut flipped = shard.clone();
                flipped[at] ^= 1 << (at % 8);
                fs::write(&file, &flipped).unwrap();
                let found = check(&path);
                assert_eq!(
                    !found.is_sound(),
                    is_covered,
                    "byte {at}, {placement:?} {location:?}: {:?}",
                    found.findings
                );
                *if is_covered { &mut inside } else { &mut outside } += 1;
            }
            let has_gaps = (0..shard.len()).any(|at| !covered.iter().any(|range| range.contains(&at)));
            assert!(inside > 900 / step && (outside > 0) == has_gaps, "{inside} {outside}");
        }
    }
}

#[test]
fn datasets_of_every_layout_are_sound_and_all_headers_are_compared() {
    for layout in layouts() {
        let folder = tempfile::tempdir().unwrap();
        let verification = sound(&dataset(folder.path(), &small(layout), 11));
        assert!(verification.findings.is_empty(), "{:#?}", verification.findings);
        let image = &verification.arrays[0];
        assert_eq!((image.path.as_str(), image.files, image.chunks, image.headers), ("0", 3, 44, 44), "{layout:?}");
        assert_eq!((image.bytes, image.without_header), (44 * 20, 0));
    }
}

/// A dataset of the images `left` and `right`.
fn two_images(folder: &Path) -> PathBuf {
    let path = folder.join("two.zarr");
    let config = small(FIXED);
    let two = Dataset::create(&path).unwrap();
    for name in ["left", "right"] {
        let acquisition = two.acquisition(name, config.clone()).unwrap();
        (0..5).for_each(|number| crate::common::stopped::commit(&acquisition, &config, number));
        acquisition.finish().unwrap();
    }
    path
}

#[test]
fn each_image_of_several_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = two_images(folder.path());
    let verification = sound(&path);
    assert!(verification.findings.is_empty(), "{:#?}", verification.findings);
    assert_eq!(verification.arrays.iter().filter(|array| array.headers == 20).count(), 2);
    fs::remove_file(path.join("right/0/c/1/0/0")).unwrap();
    expect_damage(&path, "right/0: holds 16 chunks, and its writer counted 20");
    fs::remove_dir_all(path.join("left/0")).unwrap();
    expect_damage(&path, "left: its attributes name \"0\", which is not there");
}

#[test]
fn shards_that_changed_places_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), &small(FIXED), 8);
    let shards = ["0/c/0/0/0", "0/c/1/0/0"].map(|shard| path.join(shard));
    let [first, second] = shards.clone().map(|shard| fs::read(shard).unwrap());
    fs::write(&shards[0], second).unwrap();
    fs::write(&shards[1], first).unwrap();
    let [first, second] = ["0/c/0/0/0: by its slot headers, it is the shard c/1/0/0", "0/c/1/0/0: by"];
    expect_damage(&path, first);
    expect_damage(&path, second);
    assert_eq!(check(&path).damage, 2, "one finding for each file");
    let recovery = recovered(&path, false).unwrap();
    let reasons: Vec<_> = recovery.images[0].shards.iter().filter_map(|shard| shard.reason.as_deref()).collect();
    assert!(reasons[0].contains("the shard c/1/0/0") && reasons[1].contains("the shard c/0/0/0"), "{reasons:?}");
}

#[test]
fn a_damaged_index_is_no_file_that_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), &small(FIXED), 8);
    let before = sound(&path).arrays[0].chunks;
    for shard in ["0/c/0/0/0", "0/c/1/0/0"].map(|shard| path.join(shard)) {
        let mut bytes = fs::read(&shard).unwrap();
        bytes.last_mut().map(|last| *last ^= 1).unwrap();
        fs::write(&shard, bytes).unwrap();
    }
    let found = check(&path);
    assert_eq!((found.damage, found.arrays[0].chunks, found.arrays[0].unknown), (2, 0, before));
    expect_damage(&path, "the index is damaged");
    recovered(&path, true).unwrap();
    // Its writer was not stopped.
    assert_eq!(
        sound(&path).findings.iter().map(|finding| &*finding.what).collect::<Vec<_>>(),
        ["was recovered; 0 frames are missing"]
    );
}

#[test]
fn an_array_that_is_named_from_within_is_its_writers_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), &small(FIXED), 3);
    let found = check(&path.join("0/c/.."));
    assert_eq!((found.arrays[0].headers, found.arrays[0].without_header), (12, 0));
}

#[test]
fn shards_that_two_images_swapped_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = two_images(folder.path());
    // The same place in both, and chunks of the same size: nothing but the headers' uuid tells them apart.
    let shards = ["left", "right"].map(|name| path.join(name).join("0/c/0/0/0"));
    let [left, right] = shards.clone().map(|shard| fs::read(shard).unwrap());
    fs::write(&shards[0], right).unwrap();
    fs::write(&shards[1], left).unwrap();
    for name in ["left", "right"] {
        expect_damage(&path, &format!("{name}/0/c/0/0/0"));
    }
    expect_damage(&path, "another image");
}

#[test]
fn images_that_share_a_uuid_as_older_ones_do_are_sound() {
    let folder = tempfile::tempdir().unwrap();
    let path = two_images(folder.path());
    let one = dataset(folder.path(), &small(FIXED), 5);
    for name in ["left", "right"] {
        fs::remove_dir_all(path.join(name)).unwrap();
        for (file, bytes) in files(&one) {
            let file = path.join(name).join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, bytes).unwrap();
        }
    }
    let verification = sound(&path);
    assert!(verification.findings.is_empty(), "{:#?}", verification.findings);
    assert_eq!(verification.arrays.iter().filter(|array| array.headers == 20).count(), 2);
}

#[test]
fn a_shard_of_another_dataset_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), &small(FIXED), 4);
    let other = tempfile::tempdir().unwrap();
    let other = dataset(other.path(), &small(FIXED), 4);
    fs::copy(other.join("0/c/0/0/0"), path.join("0/c/0/0/0")).unwrap();
    expect_damage(&path, "it belongs to another dataset");
}

#[test]
fn entries_that_overlap_or_lead_out_are_found_although_the_index_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), &small(FIXED), 4);
    let file = path.join("0/c/0/0/0");
    let shard = fs::read(&file).unwrap();
    let index_at = shard.len() - 260;
    let with_entry = |chunk: usize, offset: u64, nbytes: u64| {
        let mut shard = shard.clone();
        shard[index_at + 16 * chunk..][..8].copy_from_slice(&offset.to_le_bytes());
        shard[index_at + 16 * chunk + 8..][..8].copy_from_slice(&nbytes.to_le_bytes());
        let crc = crc32c::crc32c(&shard[index_at..index_at + 256]);
        shard[index_at + 256..].copy_from_slice(&crc.to_le_bytes());
        fs::write(&file, shard).unwrap();
    };
    // The second chunk where the first one is.
    with_entry(1, 64, 20);
    expect_damage(&path, "within chunk 0");
    expect_damage(&path, "of chunk 1, the slot header before them 20 bytes of chunk 0");
    with_entry(1, u64::MAX - 8, 20);
    expect_damage(&path, "but the shard's chunks lie between 0 and");
    with_entry(1, 152, 19);
    expect_damage(&path, "19 bytes of chunk 1, the slot header before them 20 bytes");
    // A chunk that the index forgot.
    with_entry(1, u64::MAX, u64::MAX);
    expect_damage(&path, "1 chunk is there that the index does not name; recover brings it back");
}

#[test]
fn headers_of_other_writers_are_not_missed() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), &small(FIXED), 4);
    let file = path.join("0/c/0/0/0");
    let shard = fs::read(&file).unwrap();
    let without = |slots: usize| {
        let mut shard = shard.clone();
        (0..slots).for_each(|slot| shard[88 * slot..][..64].fill(0));
        fs::write(&file, shard).unwrap();
    };
    without(16);
    let verification = sound(&path);
    assert_eq!((verification.arrays[0].headers, verification.arrays[0].without_header), (0, 16));
    assert!(verification.findings[0].what.contains("have no slot headers"));
    // Another writer's document says nothing of headers.
    edit_json(&path.join("zarr.json"), |document| document["attributes"] = Value::Object(Default::default()));
    assert!(sound(&path).findings.is_empty());
    // Another program did not leave out one of sixteen.
    let path = dataset(tempfile::tempdir().unwrap().keep().as_path(), &small(FIXED), 4);
    let mut shard = fs::read(path.join("0/c/0/0/0")).unwrap();
    shard[88 * 3..][..64].fill(0);
    fs::write(path.join("0/c/0/0/0"), shard).unwrap();
    expect_damage(&path, "chunk 3: has no slot header, and other chunks of the shard have");
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

#[test]
fn files_that_are_missing_or_left_over_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), &small(FIXED), 8);
    fs::write(path.join("0/c/0/0/.7.partial"), b"begun").unwrap();
    fs::write(path.join("0/c/notes.txt"), b"mine").unwrap();
    fs::create_dir(folder.path().join(".run.zarr.replaced-0123abcd")).unwrap();
    let findings = sound(&path).findings;
    let notes: Vec<_> = findings.iter().map(ToString::to_string).collect();
    for words in
        ["0/c/0/0/.7.partial: was begun", "0/c/notes.txt: belongs to no array", ".run.zarr.replaced-0123abcd: "]
    {
        assert!(notes.iter().any(|note| note.contains(words)), "nothing says {words:?}: {notes:#?}");
    }
    assert_eq!(notes.len(), 3);
    fs::remove_file(path.join("0/c/1/0/0")).unwrap();
    expect_damage(&path, "holds 16 chunks, and its writer counted 32");
}

#[test]
fn documents_that_lie_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), &small(FIXED), 8);
    let good = files(&path);
    let try_edit = |document: &str, change: &dyn Fn(&mut Value), words: &str| {
        restore(&path, &good);
        edit_json(&path.join(document), change);
        expect_damage(&path, words);
    };
    try_edit("0/zarr.json", &|document| document["shape"][0] = 7.into(), "its shape starts with 7; 8 hold the frames");
    try_edit("0/zarr.json", &|document| document["shape"][0] = "many".into(), "expected a list of sizes");
    try_edit("zarr.json", &|document| document["attributes"]["shardwright"]["writer"] = "me".into(), "is no UUID");
    try_edit(
        "zarr.json",
        &|document| document["attributes"]["shardwright"]["slots"]["bytes"] = 7.into(),
        "multiples of 8",
    );
    try_edit(
        "records/frame_number/zarr.json",
        &|document| document["shape"][0] = 9.into(),
        "has 9 records; the writer counted 8",
    );
    restore(&path, &good);
    fs::write(path.join("0/zarr.json"), "{").unwrap();
    expect_damage(&path, "is not JSON");
    restore(&path, &good);
    let (records, at) = record_block(&path, "frame_number", 0);
    let mut numbers = fs::read(&records).unwrap();
    numbers[at + 8..at + 16].copy_from_slice(&5i64.to_le_bytes());
    fs::write(&records, numbers).unwrap();
    expect_damage(&path, "the record of frame 1 has the number 5");
}

#[test]
fn chunks_that_no_index_names_yet_are_damage_that_recover_repairs() {
    let folder = tempfile::tempdir().unwrap();
    for layout in layouts() {
        let path = stopped(folder.path(), &small(layout), &[0, 1, 2, 3, 4, 5], 6);
        expect_damage(&path, "8 chunks are there that the index does not name; recover brings them back");
        fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn what_is_being_written_or_is_no_dataset_is_not_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, small(FIXED)).unwrap();
    assert!(matches!(checked(&path), Err(Error::Locked { .. })));
    acquisition.abort();
    for wrong in [folder.path().join("nothing"), folder.path().to_path_buf()] {
        checked(&wrong).unwrap_err();
    }
}

#[test]
fn a_dataset_in_which_another_is_being_written_is_neither_checked_nor_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), &small(FIXED), 8);
    let inner = Acquisition::create(path.join("day/two.zarr"), small(FIXED)).unwrap();
    for apply in [false, true] {
        for error in [checked(&path).unwrap_err(), recovered(&path, apply).unwrap_err()] {
            assert!(matches!(&error, Error::Locked { path } if path.ends_with("day/two.zarr")), "{error}");
        }
    }
    inner.abort();
    sound(&path);
}

#[test]
fn progress_goes_up_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), &small(FIXED), 8);
    let verify = Verify::new(&path, &VerifyOptions { workers: 2 }).unwrap();
    assert_eq!(verify.progress().bytes(), (0, 0));
    thread::scope(|scope| {
        let run = scope.spawn(|| verify.run());
        while !run.is_finished() {
            let (done, total) = verify.progress().bytes();
            assert!(done <= total);
        }
        assert!(run.join().unwrap().unwrap().is_sound());
    });
    let (done, total) = verify.progress().bytes();
    assert!(total > 0 && done == total, "{done} of {total}");
    // It may be run again.
    assert!(verify.run().unwrap().is_sound());
    assert_eq!(verify.progress().bytes(), (total, total));
}

/// What the writer says is missing, what the records say came, and what is there: each is changed, and the others
/// object.
#[test]
fn books_that_contradict_each_other_are_found() {
    for (placement, compressor) in [(Placement::Fixed, Compressor::None), (Placement::Packed, Compressor::None)] {
        let folder = tempfile::tempdir().unwrap();
        let codec = Codec { compressor, checksum: true };
        let layout = (placement, IndexLocation::End, StorageKind::Buffered);
        let config = Config { codec, skip_empty_chunks: false, ..small(layout) };
        let path = folder.path().join("run.zarr");
        finished(&path, &config, &[0, 1, 2, 4, 5, 6, 7, 8]);
        sound(&path);
        let before = files(&path);
        let own = |change: &dyn Fn(&mut Value)| {
            restore(&path, &before);
            edit_json(&path.join("zarr.json"), |group| change(&mut group["attributes"]["shardwright"]));
        };
        let number = |place: usize, number: i64| {
            restore(&path, &before);
            let (block, at) = record_block(&path, "frame_number", 0);
            let mut bytes = fs::read(&block).unwrap();
            bytes[at + 8 * place..][..8].copy_from_slice(&number.to_le_bytes());
            fs::write(block, bytes).unwrap();
        };
        own(&|own| {
            own["missing"] = serde_json::json!([[3, 4], [6, 7]]);
            own["frames_missing"] = 2.into();
        });
        expect_damage(&path, "frames that have a number in the records are listed as missing: 1, the first of them 6");
        // That alone is what an editor leaves that painted them.
        let painted = "frames that have all their chunks are listed as missing: 1, the first of them 6";
        assert!(
            check(&path).findings.iter().any(|finding| finding.what == painted && finding.severity == Severity::Note)
        );
        own(&|own| {
            own["missing"] = serde_json::json!([]);
            own["frames_missing"] = 0.into();
        });
        expect_damage(
            &path,
            "frames that have no number in the records are not listed as missing: 1, the first of them 3",
        );
        expect_damage(&path, "frames that lack chunks are not listed as missing: 1, the first of them 3");
        number(3, 3);
        expect_damage(&path, "frames that have a number in the records are listed as missing: 1, the first of them 3");
        number(7, -1);
        expect_damage(
            &path,
            "frames that have no number in the records are not listed as missing: 1, the first of them 7",
        );
        restore(&path, &before);
        fs::remove_file(path.join("records/frame_number/c/0")).unwrap();
        expect_damage(&path, "frames that have no record are not listed as missing: 8, the first of them 0 to 2");
    }
}
