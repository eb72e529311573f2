//! A dataset that is one file, `.ozx`: written live, read while it grows, and what becomes of it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use shardwright::offline::{Array, Finding, Repack, RepackOptions, Severity};
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dataset, Dialect, Dim, Dtype, Error, IndexLocation, ManifestForm,
    Placement, StorageKind,
};

use crate::common::child::{child_path, in_child};
use crate::common::stopped::{check, commit, finished, layouts, small, sound};
use crate::common::storage::wait_until;
use crate::common::zip;
use crate::common::{frame, movie_config, on_disk, recovered, tiny};

fn pixels(path: &Path) -> (Vec<u64>, Vec<u8>) {
    let array = Array::open(path).unwrap();
    (array.shape().to_vec(), array.read_all().unwrap())
}

/// The paths of what is damaged, and why.
fn damage(path: &Path) -> Vec<(String, String)> {
    let is_damage = |finding: &Finding| finding.severity == Severity::Damage;
    let damage = check(path).findings.into_iter().filter(is_damage);
    damage.map(|finding| (finding.path, finding.what)).collect()
}

fn names(path: &Path) -> Vec<String> {
    zip::entries(path).0.into_iter().map(|entry| entry.name).collect()
}

#[test]
fn an_archive_holds_what_a_folder_would() {
    let mut compared = 0;
    for (placement, index_location, storage) in layouts() {
        for compressor in [Compressor::None, Compressor::Zstd { level: 1 }] {
            let folder = tempfile::tempdir().unwrap();
            let [archive, plain] = ["run.ozx", "run.zarr"].map(|name| folder.path().join(name));
            let codec = Codec { compressor, checksum: true };
            let config = Config { codec, placement, index_location, storage, sync: true, ..movie_config() };
            [&archive, &plain].into_iter().for_each(|path| finished(path, &config, &[0, 1, 2, 3, 7, 8]));
            let told = format!("{placement:?} {index_location:?} {storage:?} {:?}", config.codec.compressor);
            assert_eq!(zip::wrong(&archive), [""; 0], "{told}");
            assert!(pixels(&archive) == pixels(&plain), "{told}");
            sound(&archive);
            for entry in zip::entries(&archive).0.iter().filter(|entry| entry.name.starts_with("0/c/")) {
                assert_eq!(entry.at % 4096, 0, "{told}: {}", entry.name);
                let there = fs::read(plain.join(&entry.name)).unwrap().len();
                // Packed chunks come in any order, and the last one is not padded.
                let less_than = if placement == Placement::Packed { 4096 } else { 1 };
                let len = zip::bytes(&archive, entry).len();
                assert!(len.abs_diff(there) < less_than, "{told}: {}: {len} and {there}", entry.name);
            }
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "{told}: nothing else is left");
            compared += 1;
        }
    }
    assert_eq!(compared, 24);
}

/// What this process has read from files until now, in bytes.
fn bytes_read() -> u64 {
    bytes_of_calls("rchar: ")
}

/// How many bytes this process has read, or written, by calls of the system.
fn bytes_of_calls(which: &str) -> u64 {
    let counts = fs::read_to_string("/proc/self/io").unwrap();
    counts.lines().find_map(|line| line.strip_prefix(which)).unwrap().parse().unwrap()
}

#[test]
fn checksums_are_put_together_and_nothing_is_read_back() {
    // A disk: a tmpfs has no direct writes.
    let folder = on_disk();
    assert!(in_child("archives::child_writes_and_counts_what_it_reads", folder.path()).contains("24 runs"));
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_writes_and_counts_what_it_reads() {
    let folder = child_path();
    let mut runs = 0;
    for (placement, index_location, storage) in layouts() {
        for compressor in [Compressor::None, Compressor::Zstd { level: 1 }] {
            let path = folder.join(format!("{runs}.ozx"));
            let dims = vec![Dim::time(None).chunk(1).shard(8), Dim::y(256).chunk(128), Dim::x(256).chunk(128)];
            let codec = Codec { compressor, checksum: true };
            let config =
                Config { dims, codec, placement, index_location, storage, ring_bytes: 1 << 20, ..tiny(None, 8) };
            let acquisition = Acquisition::create(&path, config).unwrap();
            let before = bytes_read();
            for number in 0..40 {
                assert_eq!(acquisition.append(&frame(number, 256 * 256)).unwrap().frames, 1);
            }
            acquisition.finish().unwrap();
            // Of 2.6 MB; documents and records are read to be moved.
            let read = bytes_read() - before;
            assert!(read < 600_000, "{placement:?} {index_location:?} {storage:?} {compressor:?}: {read} bytes");
            assert_eq!(zip::wrong(&path), [""; 0]);
            runs += 1;
        }
    }
    println!("{runs} runs");
}

/// An open shard in an archive has no room for a chunk that is not complete.
#[test]
fn frames_that_wait_for_others_are_not_called_durable() {
    let folder = tempfile::tempdir().unwrap();
    let dims = vec![Dim::time(None).chunk(4).shard(8), Dim::y(16), Dim::x(16)];
    let config = Config { dims, checkpoint_every: Duration::from_millis(10), sync: true, ..tiny(None, 64) };
    let acquisition = Acquisition::create(folder.path().join("run.ozx"), config).unwrap();
    for number in 0..7 {
        assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1);
    }
    wait_until("the first chunk is durable", || acquisition.stats().frames_durable == 4);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(acquisition.stats().frames_durable, 4);
    assert_eq!(acquisition.finish().unwrap().frames_durable, 7);
}

#[test]
fn the_bytes_written_for_small_shards_go_with_their_number() {
    let folder = tempfile::tempdir().unwrap();
    assert!(in_child("archives::child_writes_small_shards", folder.path()).contains("written"));
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_writes_small_shards() {
    const SHARDS: u64 = 4000;
    let path = child_path().join("run.ozx");
    let dims = vec![Dim::time(None).chunk(1).shard(1), Dim::y(8), Dim::x(8)];
    let config = Config { dims, checkpoint_every: Duration::from_millis(100), sync: false, ..tiny(None, 64) };
    let acquisition = Acquisition::create(&path, config).unwrap();
    let before = bytes_of_calls("wchar: ");
    for number in 0..SHARDS {
        assert_eq!(acquisition.append(&frame(number, 64)).unwrap().frames, 1);
    }
    acquisition.finish().unwrap();
    let written = bytes_of_calls("wchar: ") - before;
    // A shard has room for 16 KiB, and directories may take about as much. A whole one with each shard, of some 90
    // bytes for each before, would be 180 KB a shard, and for more shards more.
    assert!(written < 40_000 * SHARDS, "{written} bytes");
    assert!(names(&path).len() as u64 > SHARDS);
    assert_eq!(zip::wrong(&path), [""; 0]);
    assert_eq!(pixels(&path).0, [SHARDS, 8, 8]);
    println!("{written} bytes written");
}

#[test]
fn documents_come_first_and_the_comment_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ozx");
    finished(&path, &movie_config(), &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let (entries, comment) = zip::entries(&path);
    let documents = ["zarr.json", "0/zarr.json", "records/zarr.json"];
    assert_eq!(entries.iter().map(|entry| entry.name.as_str()).take(3).collect::<Vec<_>>(), documents);
    let is_document = |name: &str| name.rsplit('/').next() == Some("zarr.json");
    let first_other = entries.iter().position(|entry| !is_document(&entry.name)).unwrap();
    assert!(!entries[first_other..].iter().any(|entry| is_document(&entry.name)));
    // In the file, too.
    assert_eq!(entries[0].header_at, 0);
    let shards_at = entries.iter().filter(|entry| entry.name.starts_with("0/c/")).map(|entry| entry.header_at);
    let documents_at = entries[..first_other].iter().map(|entry| entry.header_at);
    assert!(documents_at.max() < shards_at.min());
    let expected = r#"{"ome":{"version":"0.5","zipFile":{"centralDirectory":{"jsonFirst":true}}}}"#;
    assert_eq!(comment, expected);
}

#[test]
fn a_reader_follows_an_archive_that_is_written() {
    for storage in [StorageKind::Mapped, StorageKind::Buffered, StorageKind::Direct] {
        for (placement, index_location) in [
            (Placement::Fixed, IndexLocation::End),
            (Placement::Packed, IndexLocation::End),
            (Placement::Fixed, IndexLocation::Start),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("run.ozx");
            // An index at the start follows only while it fits a sector.
            let dims = vec![Dim::time(None).chunk(1).shard(30), Dim::y(16), Dim::x(16)];
            let checkpoint_every = Duration::from_millis(10);
            let base = Config { placement, index_location, storage, checkpoint_every, sync: true, ..tiny(None, 32) };
            let acquisition = Acquisition::create(&path, Config { dims, ..base }).unwrap();
            assert_eq!(zip::wrong(&path), [""; 0]);
            // All in the first shard, which stays open.
            for frames in [3, 9, 20] {
                let taken = acquisition.stats().frames_accepted;
                (taken..frames)
                    .for_each(|number| assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1));
                wait_until("the frames are durable", || acquisition.stats().frames_durable == frames);
                let expected: Vec<u8> = (0..frames).flat_map(|number| frame(number, 256)).collect();
                let told = format!("{storage:?} {placement:?} {index_location:?}, {frames} frames");
                assert!(pixels(&path) == (vec![frames, 16, 16], expected), "{told}");
                // While no frames come, the checksums are right, too.
                assert_eq!(zip::wrong(&path), [""; 0], "{told}");
            }
            assert_eq!(acquisition.finish().unwrap().frames_durable, 20);
            sound(&path);
        }
    }
}

#[test]
fn an_archive_is_no_longer_than_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ozx");
    let config = Config { checkpoint_every: Duration::from_millis(10), sync: true, ..tiny(None, 32) };
    let acquisition = Acquisition::create(&path, config).unwrap();
    for number in 0..40 {
        assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1);
        std::thread::sleep(Duration::from_millis(5));
    }
    let directories = fs::metadata(&path).unwrap().len();
    acquisition.finish().unwrap();
    let entries = zip::entries(&path).0;
    let end = entries.iter().map(|entry| entry.at + entry.len).max().unwrap();
    let names: u64 = entries.iter().map(|entry| 46 + entry.name.len() as u64 + 28).sum();
    let len = fs::metadata(&path).unwrap().len();
    assert!(len < end + names + 300 && len <= directories, "{len} bytes, of which entries end at {end}");
}

#[test]
fn several_images_share_one_archive() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.ozx");
    let dataset = Dataset::create(&path).unwrap();
    let config = Config { sync: true, ..tiny(None, 8) };
    let images = ["left", "right"].map(|name| dataset.acquisition(name, config.clone()).unwrap());
    for number in 0..9 {
        images.iter().for_each(|image| assert_eq!(image.append(&frame(number, 256)).unwrap().frames, 1));
    }
    images.into_iter().for_each(|image| assert_eq!(image.finish().unwrap().frames_written, 9));
    drop(dataset);
    let expected: Vec<u8> = (0..9).flat_map(|number| frame(number, 256)).collect();
    for name in ["left", "right"] {
        assert!(pixels(&path.join(name)) == (vec![9, 16, 16], expected.clone()), "{name}");
    }
    assert_eq!(zip::wrong(&path), [""; 0]);
    assert!(names(&path).contains(&"OME/METADATA.ome.xml".to_owned()));
    sound(&path);
}

#[test]
fn what_is_in_the_way_of_an_archive_is_replaced_only_when_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ozx");
    finished(&path, &tiny(None, 8), &[0, 1]);
    let exists = Acquisition::create(&path, tiny(None, 8)).unwrap_err();
    assert!(matches!(exists, Error::Exists { .. }), "{exists}");
    let replacing = Config { overwrite: true, ..tiny(None, 8) };
    // Nothing comes of it: the old one is back.
    let before = fs::read(&path).unwrap();
    drop(Acquisition::create(&path, replacing.clone()).unwrap());
    assert!(fs::read(&path).unwrap() == before);
    finished(&path, &replacing, &[0, 1, 2]);
    assert_eq!(pixels(&path).0, [3, 16, 16]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    // What is no dataset is never replaced.
    for other in [&b"a letter"[..], b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"] {
        fs::write(&path, other).unwrap();
        let refused = Acquisition::create(&path, replacing.clone()).unwrap_err().to_string();
        assert!(refused.contains("never overwritten"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), other);
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let refused = Acquisition::create(&path, replacing).unwrap_err().to_string();
    assert!(refused.contains("is no file"), "{refused}");
}

#[test]
fn an_archive_has_one_writer_and_nothing_is_left_of_one_without_frames() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/run.ozx");
    let acquisition = Acquisition::create(&path, tiny(None, 8)).unwrap();
    for overwrite in [false, true] {
        let locked = Acquisition::create(&path, Config { overwrite, ..tiny(None, 8) }).unwrap_err();
        assert!(matches!(locked, Error::Locked { .. }), "{locked}");
    }
    for checked in [crate::common::checked(&path).err(), crate::common::checked(path.join("0")).err()] {
        assert!(matches!(checked, Some(Error::Locked { .. })), "{checked:?}");
    }
    let inside = Acquisition::create(path.join("more.zarr"), tiny(None, 8)).unwrap_err().to_string();
    assert!(inside.contains("which is being written"), "{inside}");
    drop(acquisition);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_an_archive_can_not_hold_is_refused_before_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ozx");
    let dims = vec![Dim::time(Some(4)).chunk(1).shard(4), Dim::y(16), Dim::x(16)];
    let draft = Config { dialect: Dialect::Zarr3Transformer, dims: dims.clone(), ..tiny(None, 8) };
    let draft = Config { codec: Codec { checksum: false, ..draft.codec.clone() }, index_checksum: false, ..draft };
    let manifest = Config { manifest: vec![ManifestForm::Kerchunk], dims, ..tiny(None, 8) };
    for (config, expected) in [(draft, "an .ozx holds an OME-Zarr"), (manifest, "an .ozx is one file")] {
        let refused = Acquisition::create(&path, config).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn an_archive_that_another_program_cut_off_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ozx");
    let config = Config { checkpoint_every: Duration::from_millis(10), ..small(layouts()[1]) };
    let acquisition = Acquisition::create(&path, config.clone()).unwrap();
    commit(&acquisition, &config, 0);
    let file = fs::File::options().write(true).open(&path).unwrap();
    let mut next = 1;
    wait_until("it is noticed", || {
        // Again and again: a write to the last bytes, before anybody looks, makes the archive as long as it was.
        file.set_len(5000).unwrap();
        let taken = acquisition.append(&frame(next, 64)).is_ok();
        next += u64::from(taken);
        std::thread::sleep(Duration::from_millis(5));
        !taken
    });
    let unfinished = acquisition.finish().unwrap_err().to_string();
    assert!(unfinished.contains("another program cut the archive off"), "{unfinished}");
}

/// As a kill leaves it where a file grows page by page. What a recovery writes follows what was begun there.
#[test]
fn an_archive_that_ends_within_a_document_is_recovered_once() {
    const PAGE: u64 = 4096;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ozx");
    let config = Config { checkpoint_every: Duration::from_millis(10), sync: true, ..tiny(None, 32) };
    let acquisition = Acquisition::create(&path, config).unwrap();
    let begun = zip::entries(&path).0.into_iter().map(|entry| entry.at).max().unwrap();
    assert_eq!(acquisition.append(&frame(0, 256)).unwrap().frames, 1);
    wait_until("the frame is durable", || acquisition.stats().frames_durable == 1);
    let is_document = |entry: &zip::Entry| !entry.name.starts_with("0/c/") && entry.at > begun;
    let documents: Vec<_> = zip::entries(&path).0.into_iter().filter(is_document).collect();
    let bytes = fs::read(&path).unwrap();
    acquisition.abort();
    let mut looked = 0;
    for document in documents {
        let pages = (document.at.next_multiple_of(PAGE)..document.at + document.len).step_by(PAGE as usize);
        for end in pages {
            let cut = folder.path().join(format!("{end}.ozx"));
            fs::write(&cut, &bytes[..end as usize]).unwrap();
            assert!(recovered(&cut, true).unwrap().is_needed());
            let told = format!("{} of {} bytes, cut at {end}", document.name, document.len);
            assert_eq!(zip::wrong(&cut), [""; 0], "{told}");
            let again = recovered(&cut, false).unwrap_or_else(|error| panic!("{told}: {error}"));
            assert!(!again.is_needed(), "{told}: {again:?}");
            assert_eq!(pixels(&cut), (vec![1, 16, 16], frame(0, 256)), "{told}");
            sound(&cut);
            looked += 1;
        }
    }
    assert!(looked > 0, "no document of more than a page was written behind the others");
}

#[test]
fn elements_of_every_size_are_written_into_archives() {
    for dtype in [Dtype::U8, Dtype::U16, Dtype::F64] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.ozx");
        let config = Config { dtype, codec: Codec::from(Compressor::default()), ..movie_config() };
        finished(&path, &config, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(zip::wrong(&path), [""; 0]);
        assert_eq!(Array::open(&path).unwrap().dtype().size(), dtype.size());
        sound(&path);
    }
}

/// Whose room goes back to the disk, and then to the next shard.
#[test]
fn no_shard_loses_pixels_to_the_room_of_a_dark_one() {
    const BYTES: usize = 64 * 64;
    let pixels_of = |number: u64| if number.is_multiple_of(2) { vec![0; BYTES] } else { frame(number, BYTES) };
    let dims = vec![Dim::time(None).chunk(1).shard(1), Dim::y(64), Dim::x(64)];
    for _ in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.ozx");
        let acquisition =
            Acquisition::create(&path, Config { dims: dims.clone(), workers: 2, ..tiny(None, 64) }).unwrap();
        for number in 0..300 {
            assert_eq!(acquisition.append(&pixels_of(number)).unwrap().frames, 1);
        }
        acquisition.finish().unwrap();
        let found = pixels(&path).1;
        let wrong: Vec<_> =
            (0..300).zip(found.chunks(BYTES)).filter(|(number, found)| **found != pixels_of(*number)).collect();
        assert!(wrong.is_empty(), "frames {:?}", wrong.iter().map(|(number, _)| number).collect::<Vec<_>>());
    }
}

/// What the archive compares of one shard says nothing of another's, which has not even headers.
#[test]
fn chunks_that_nothing_vouches_for_are_counted_beside_those_of_which_two_things_tell() {
    let folder = tempfile::tempdir().unwrap();
    let [path, killed] = ["run.ozx", "killed.ozx"].map(|name| folder.path().join(name));
    let run = Acquisition::create(&path, Config { checkpoint_every: Duration::from_millis(50), ..bare() }).unwrap();
    (0..6).for_each(|number| assert_eq!(run.append(&frame(number, 256)).unwrap().frames, 1));
    wait_until("all that came is durable", || run.stats().frames_durable == 6);
    fs::copy(&path, &killed).unwrap();
    run.abort();
    let mut bytes = fs::read(&killed).unwrap();
    for number in 4..6 {
        let at = bytes.windows(256).position(|found| found == frame(number, 256)).unwrap();
        bytes[at - 64..at].fill(0);
    }
    fs::write(&killed, bytes).unwrap();
    let array = &sound(&killed).arrays[0];
    assert_eq!((array.chunks, array.headers, array.without_header, array.without_checksum), (6, 4, 2, 2));
}

/// Frames without checksums of their own.
fn bare() -> Config {
    Config { codec: Codec { compressor: Compressor::None, checksum: false }, sync: true, ..tiny(None, 32) }
}

/// Until a recovery, its directory has checksums of open shards as they were at the last checkpoint.
#[test]
fn an_archive_whose_writer_was_killed_is_not_damaged_by_checksums_of_open_shards() {
    let folder = tempfile::tempdir().unwrap();
    let [path, killed] = ["run.ozx", "killed.ozx"].map(|name| folder.path().join(name));
    let dims = vec![Dim::time(None).chunk(1).shard(64), Dim::y(16), Dim::x(16)];
    let config = Config { dims, checkpoint_every: Duration::from_millis(200), sync: true, ..tiny(None, 32) };
    let dataset = Dataset::create(&path).unwrap();
    let images = ["left", "right"].map(|name| dataset.acquisition(name, config.clone()).unwrap());
    let shard = || "left/0/c/0/0/0".to_owned();
    let mut taken = 0;
    wait_until("the checksum of an open shard is an old one", || {
        images.iter().for_each(|image| assert_eq!(image.append(&frame(taken, 256)).unwrap().frames, 1));
        taken += 1;
        std::thread::sleep(Duration::from_millis(20));
        let is_durable = images.iter().all(|image| image.stats().frames_durable > 0);
        fs::copy(&path, &killed).unwrap();
        is_durable && zip::wrong(&killed).contains(&shard())
    });
    images.into_iter().for_each(Acquisition::abort);
    drop(dataset);
    // What came since is told of, and that is all.
    let told = damage(&killed);
    assert!(told.iter().all(|(_, what)| what.contains("recover brings")), "{told:?}");
    let (shape, read) = pixels(&killed.join("left"));
    for (number, found) in (0..).zip(read.chunks(256)) {
        // The last one may not have been in its shard yet.
        assert!(found == frame(number, 256) || (number > 0 && found == [0; 256]), "frame {number}");
    }
    // Nobody looks at the chunks of an array that is not chosen.
    for (name, skip) in [("all.zarr", vec![]), ("right.zarr", vec!["left/0".to_owned()])] {
        let copy = folder.path().join(name);
        let options = RepackOptions { skip, incomplete: true, ..RepackOptions::default() };
        Repack::new(&killed, Some(&copy), &options).unwrap().run().unwrap();
        assert!(pixels(&copy.join("left")) == (shape.clone(), read.clone()), "{name}");
    }
    assert!(recovered(&killed, true).unwrap().is_needed());
    assert_eq!(zip::wrong(&killed), [""; 0]);
    sound(&killed);
    // From then on, they are right, and what differs from them is damage.
    let mut bytes = fs::read(&killed).unwrap();
    let name_at = bytes.windows(shard().len()).rposition(|name| name == shard().as_bytes()).unwrap();
    bytes[name_at - 46 + 16] ^= 1;
    let changed = folder.path().join("changed.ozx");
    fs::write(&changed, bytes).unwrap();
    assert_eq!(damage(&changed), [(shard(), "is not what its archive has a checksum of".to_owned())]);
}

/// Of an unlimited run, a shard's room is what it might have become.
#[test]
fn an_archive_that_is_mostly_holes_says_so() {
    let folder = tempfile::tempdir().unwrap();
    for (name, shard, is_told) in [("short.ozx", 8, false), ("long.ozx", 1 << 20, true)] {
        let dims = vec![Dim::time(None).chunk(1).shard(shard), Dim::y(16), Dim::x(16)];
        let run = Acquisition::create(folder.path().join(name), Config { dims, ..tiny(None, 16) }).unwrap();
        let _ = run.append(&[1; 256]).unwrap();
        let notes = run.finish().unwrap().notes.join("; ");
        assert_eq!(notes.contains("`repack` makes one that has none"), is_told, "{name}: {notes}");
    }
}
