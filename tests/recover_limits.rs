//! What a recovery takes follows from what is there, and neither from an archive's length nor from what a document
//! promises.
//!
//! The tests stand in a program of their own, because they count what is allocated.
#![allow(unsafe_code)]

#[path = "it/common/mod.rs"]
mod common;

use common::{checked, recovered};
use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::stopped::{files, restore, small, stopped};
use common::tiny;
use serde_json::{Value, json};

use shardwright::{Acquisition, Config, Dim, IndexLocation, Placement, Record, StorageKind};

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), SeqCst) + layout.size();
        MOST.fetch_max(now, SeqCst);
        // SAFETY: the caller keeps the promises of `alloc`, which are the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), SeqCst);
        // SAFETY: `place` came from `alloc` above, and so from there.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Tests that count don't run side by side.
static ALONE: Mutex<()> = Mutex::new(());

/// The most bytes that `work` had allocated at one time, and how long it took.
fn cost(work: impl FnOnce()) -> (usize, Duration) {
    let before = NOW.load(SeqCst);
    MOST.store(before, SeqCst);
    let start = Instant::now();
    work();
    (MOST.load(SeqCst) - before, start.elapsed())
}

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut document = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut document);
    fs::write(path, serde_json::to_vec(&document).unwrap()).unwrap();
}

/// A run of `frames` frames of four bytes, of which every hundredth is lost, that looks as if it had been killed.
fn archive(folder: &Path, frames: u64) -> PathBuf {
    let path = folder.join(format!("of-{frames}.zarr"));
    let dims = vec![Dim::time(None).chunk(1).shard(1024), Dim::y(2), Dim::x(2)];
    let acquisition = Acquisition::create(&path, Config { dims, ..tiny(None, 1024) }).unwrap();
    for number in (0..frames).filter(|number| number % 100 != 50) {
        let mut slot = acquisition.acquire().unwrap();
        slot.fill(number as u8 | 1);
        slot.commit(number, Record::stamped(number)).unwrap();
    }
    acquisition.finish().unwrap();
    edit(&path.join("zarr.json"), |group| {
        let own = &mut group["attributes"]["shardwright"];
        own["complete"] = json!(false);
        ["frames", "chunks", "frames_missing", "missing"].iter().for_each(|field| own[*field] = Value::Null);
        own.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        own["frames_planned"] = Value::Null;
    });
    path
}

#[test]
fn an_archive_of_a_million_chunks_takes_as_much_memory_as_a_small_one() {
    let _alone = ALONE.lock().unwrap_or_else(|alone| alone.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let most = |frames: u64| {
        let path = archive(folder.path(), frames);
        let work = || {
            let found = recovered(&path, true).unwrap();
            assert_eq!(found.images[0].chunks, frames - frames / 100);
            assert_eq!(found.images[0].frames_missing, frames / 100);
        };
        let recovered = cost(work).0;
        let verified = cost(|| assert!(checked(&path).unwrap().is_sound())).0;
        fs::remove_dir_all(path).unwrap();
        (recovered, verified)
    };
    let (small, large) = (most(20_000), most(1_000_000));
    println!("recover and verify: {small:?} bytes for 20,000 chunks, {large:?} for 1,000,000");
    // Names of files, and gaps, of which each document that is read takes 360 bytes; and what threads hold at once.
    assert!(large.0 < small.0 + (8 << 20), "recover: {small:?}, {large:?}");
    assert!(large.1 < small.1 + (6 << 20), "verify: {small:?}, {large:?}");
}

type Absurd = fn(&mut Value, &mut Value, &mut Value);

/// Changes of the group's document, the image's and the frame numbers', each of which asks for more than there can be.
const ABSURD: [(&str, Absurd); 9] = [
    ("frames", |group, _, _| own(group)["frames"] = json!(1u64 << 56)),
    ("missing", |group, _, _| {
        own(group)["missing"] = json!([[0, 1u64 << 56]]);
        own(group)["frames_missing"] = json!(1u64 << 56);
    }),
    ("a long array", |_, image, _| image["shape"][0] = json!(1u64 << 56)),
    ("a long array of a known end", |group, image, _| {
        own(group)["frames_planned"] = json!(1u64 << 56);
        image["shape"][0] = json!(1u64 << 56);
    }),
    ("long records", |_, _, records| records["shape"][0] = json!(1u64 << 60)),
    ("small blocks of records", |_, _, records| {
        records["shape"][0] = json!(1u64 << 60);
        records["chunk_grid"]["configuration"]["chunk_shape"][0] = json!(1);
    }),
    ("large blocks of records", |_, _, records| {
        records["chunk_grid"]["configuration"]["chunk_shape"][0] = json!(1u64 << 28);
    }),
    ("deep shards", |_, image, _| image["chunk_grid"]["configuration"]["chunk_shape"][0] = json!(1u64 << 22)),
    ("deep chunks", |_, image, _| {
        image["chunk_grid"]["configuration"]["chunk_shape"][0] = json!(1u64 << 40);
        image["codecs"][0]["configuration"]["chunk_shape"][0] = json!(1u64 << 22);
    }),
];

fn own(group: &mut Value) -> &mut Value {
    &mut group["attributes"]["shardwright"]
}

#[test]
fn documents_that_promise_the_world_cost_little() {
    let _alone = ALONE.lock().unwrap_or_else(|alone| alone.into_inner());
    for placement in [Placement::Fixed, Placement::Packed] {
        let folder = tempfile::tempdir().unwrap();
        let config = small((placement, IndexLocation::End, StorageKind::Buffered));
        let path = stopped(folder.path(), &config, &[0, 1, 2, 3, 4, 5], 6);
        let before = files(&path);
        for (what, change) in ABSURD {
            restore(&path, &before);
            let names = ["zarr.json", "0/zarr.json", "records/frame_number/zarr.json"].map(|name| path.join(name));
            let mut documents = names.each_ref().map(|name| serde_json::from_slice(&fs::read(name).unwrap()).unwrap());
            let [group, image, records] = &mut documents;
            change(group, image, records);
            names.iter().zip(&documents).for_each(|(name, document)| fs::write(name, document.to_string()).unwrap());
            // Whatever it comes to, be it an error.
            let work = || drop((recovered(&path, true), checked(&path)));
            let (bytes, time) = cost(work);
            assert!(bytes < 512 << 20, "{what}, {placement:?}: {bytes} bytes");
            assert!(time < Duration::from_secs(10), "{what}, {placement:?}: {time:?}");
            let disk: usize = files(&path).values().map(Vec::len).sum();
            assert!(disk < 64 << 20, "{what}, {placement:?}: {disk} bytes of files were made");
        }
    }
}

/// A file that is a hole of any size takes no time.
#[test]
fn holes_are_passed_over() {
    let _alone = ALONE.lock().unwrap_or_else(|alone| alone.into_inner());
    let folder = tempfile::tempdir().unwrap();
    for placement in [Placement::Fixed, Placement::Packed] {
        let config = Config {
            dims: vec![Dim::time(None).chunk(1).shard(1 << 18), Dim::y(8), Dim::x(8)],
            ..small((placement, IndexLocation::End, StorageKind::Buffered))
        };
        let path = stopped(folder.path(), &config, &[0, 1, 2], 3);
        let shard = fs::OpenOptions::new().write(true).open(path.join("0/c/0/0/0")).unwrap();
        shard.set_len(1 << 42).unwrap();
        let (bytes, time) = cost(|| {
            let found = recovered(&path, true).unwrap();
            assert_eq!(found.images[0].chunks, 3);
        });
        assert!(bytes < 64 << 20 && time < Duration::from_secs(10), "{placement:?}: {bytes} bytes, {time:?}");
        fs::remove_dir_all(path).unwrap();
    }
}
