//! Many images of one dataset share threads, rings and open files.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::common::child::{child, child_path, in_child};
use crate::common::storage::within;
use crate::common::{frame, on_disk, recovered, tiny};
use shardwright::offline::Array;
use shardwright::{Acquisition, Config, Dataset, Dim, Dtype, Error, Events, Record, RingFull, StorageKind};

const IMAGES: usize = 24;
const VISITS: usize = 3;
const FRAMES_A_VISIT: u64 = 3;
const FRAME_BYTES: usize = 256;
const OPEN_FILES: usize = 16;

/// Chunks of one and of two frames: with these, a layer waits for the next visit.
fn plate_config(image: usize) -> Config {
    let depth = 1 + image as u64 % 2;
    let dims = vec![Dim::time(None).chunk(depth).shard(6), Dim::y(16).chunk(8), Dim::x(16)];
    let storage = [StorageKind::Buffered, StorageKind::Mapped][image / 2 % 2];
    Config { dims, storage, workers: 2, checkpoint_every: Duration::from_millis(20), ..tiny(None, 256) }
}

fn name(image: usize) -> String {
    format!("well-{image}")
}

/// The pixels of a frame: no two images have the same.
fn pixels(image: usize, number: u64) -> Vec<u8> {
    frame(1000 * image as u64 + number, FRAME_BYTES)
}

/// Each image `VISITS` times, in an order that is random but for its seed.
fn order(mut seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..VISITS).flat_map(|_| 0..IMAGES).collect();
    for at in (1..order.len()).rev() {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        order.swap(at, (seed >> 33) as usize % (at + 1));
    }
    order
}

fn visit(acquisition: &Acquisition, image: usize, from: u64) {
    for number in from..from + FRAMES_A_VISIT {
        let mut slot = acquisition.acquire().unwrap();
        slot.copy_from_slice(&pixels(image, number));
        slot.commit(number, Record::default()).unwrap();
    }
}

fn begin(path: &Path) -> (Dataset, Vec<Acquisition>) {
    let dataset = Dataset::create(path).unwrap().with_open_files(OPEN_FILES);
    let begin = |image| dataset.acquisition(&name(image), plate_config(image)).unwrap();
    let images = (0..IMAGES).map(begin).collect();
    (dataset, images)
}

fn check(path: &Path, image: usize, frames: u64) {
    let array = Array::open(path.join(name(image)).join("0")).unwrap();
    assert!(array.shape()[0] >= frames, "image {image}: {:?} of {frames}", array.shape());
    let all = array.read_all().unwrap();
    for (number, got) in (0..frames).zip(all.chunks_exact(FRAME_BYTES)) {
        assert!(got == pixels(image, number), "image {image}, frame {number} of {frames}");
    }
}

/// How many shards below `path` this process has open or mapped.
fn open_shards(path: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    links.filter(|file| file.starts_with(path) && file.to_string_lossy().contains("/0/c/")).count()
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn images_visited_in_random_order_share_few_open_files() {
    let folder = tempfile::tempdir().unwrap();
    in_child("many_images::child_visits_in_random_order", folder.path());
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_visits_in_random_order() {
    within(120, || {
        let path = child_path().canonicalize().unwrap().join("plate.zarr");
        let threads_before = threads();
        let (dataset, images) = begin(&path);
        let mut next = [0; IMAGES];
        for image in order(7) {
            visit(&images[image], image, next[image]);
            next[image] += FRAMES_A_VISIT;
            let open = open_shards(&path);
            // Two of them twice, for the moment in which one is created and the index of another one is replaced, and
            // one beside, for the moment in which frames that wait in it are made durable.
            assert!(open <= OPEN_FILES + 3, "{open} shards are open");
        }
        // Two workers, two that prepare and close, and three that put records for a moment.
        assert!(threads() - threads_before <= 7, "{} threads", threads() - threads_before);
        for acquisition in images {
            let summary = acquisition.finish().unwrap();
            assert_eq!((summary.frames_written, summary.frames_missing), (next[0], 0));
        }
        drop(dataset);
        (0..IMAGES).for_each(|image| check(&path, image, next[image]));
        assert_eq!(open_shards(&path), 0);
    });
}

#[test]
fn a_killed_plate_has_every_durable_frame() {
    for kill in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = child("many_images::child_writes_until_killed")
            .env("SHARDWRIGHT_TEST_PATH", folder.path())
            .env("SHARDWRIGHT_TEST_WORD", kill.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let durable = thread::spawn(move || {
            let told = |line: std::io::Result<String>| {
                let (image, frames) = line.ok()?.split_once("durable ")?.1.trim().split_once(' ').map(parsed)?;
                Some((image as usize, frames))
            };
            lines.filter_map(told).collect::<BTreeMap<usize, u64>>()
        });
        thread::sleep(Duration::from_millis(300 + 400 * kill));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let durable = durable.join().unwrap();
        let path = folder.path().join("plate.zarr");
        let read = |durable: &BTreeMap<usize, u64>| {
            durable.iter().for_each(|(&image, &frames)| check(&path, image, frames));
        };
        // By any reader, and when what is not named by an index yet was found.
        read(&durable);
        recovered(&path, true).unwrap();
        read(&durable);
        println!("{} images, {} durable frames", durable.len(), durable.values().sum::<u64>());
    }
}

fn parsed((image, frames): (&str, &str)) -> (u64, u64) {
    (image.parse().unwrap(), frames.parse().unwrap())
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_writes_until_killed() {
    let (_dataset, images) = begin(&child_path().join("plate.zarr"));
    let mut next = [0; IMAGES];
    let seed: u64 = crate::common::child::child_word().parse().unwrap();
    for round in 0.. {
        for image in order(seed + round) {
            visit(&images[image], image, next[image]);
            next[image] += FRAMES_A_VISIT;
            for (other, acquisition) in images.iter().enumerate().filter(|(other, _)| (other + image) % 5 == 0) {
                let durable = acquisition.stats().frames_durable;
                // Of chunks of two frames, the last may be provisional.
                if durable > 0 {
                    println!("durable {other} {durable}");
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Bytes of memory of this machine.
fn memory() -> usize {
    let told = fs::read_to_string("/proc/meminfo").unwrap();
    let line = told.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<usize>().unwrap() * 1024
}

#[test]
fn images_whose_rings_take_more_than_the_memory_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let dataset = Dataset::create(&path).unwrap();
    // Each keeps a frame less than half of the memory.
    let (side, frame_bytes) = (8192, 8192 * 8192);
    let depth = (memory() / 2 / frame_bytes) as u64 - 3;
    let dims = vec![Dim::time(None).chunk(depth).shard(depth), Dim::y(side).chunk(64), Dim::x(side).chunk(64)];
    let config = Config { dims, ring_bytes: memory() / 2, ..tiny(None, 1) };
    let images = (0..3).map(|image| (name(image), config.clone()));
    let error = dataset.acquisitions(images).map(drop).unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, Error::Config { field: "ring_bytes", .. }), "{said}");
    assert!(said.contains("the rings of all images take") && said.contains("acquire fewer images"), "{said}");
    assert!(!path.join(name(0)).exists());
}

#[test]
fn too_many_images_are_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let dataset = Dataset::create(&path).unwrap();
    let images = (0..(1 << 14) + 1).map(|image| (name(image), tiny(Some(1), 16)));
    let error = dataset.acquisitions(images).map(drop).unwrap_err();
    assert!(error.to_string().contains("at most 16384 images can be acquired"), "{error}");
    assert!(!path.join(name(0)).exists());
}

#[test]
fn cameras_of_different_shape_and_rate_lose_nothing() {
    within(120, || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        let dataset = Dataset::create(&path).unwrap();
        // None waits for a buffer: a full ring is an error.
        let of = |side: u64, dtype, ring_bytes| Config {
            dtype,
            dims: vec![Dim::time(None).chunk(1).shard(64), Dim::y(side).chunk(side), Dim::x(side)],
            ring_full: RingFull::Error,
            ring_bytes,
            ..tiny(None, 1)
        };
        let slow = dataset.acquisition("slow", of(16, Dtype::U8, 64 << 12)).unwrap();
        let fast = dataset.acquisition(
            "fast",
            Config { ring_full: RingFull::Block { timeout: None }, ..of(16, Dtype::U8, 64 << 12) },
        );
        let fast = fast.unwrap();
        let large = dataset.acquisition("large", of(64, Dtype::U16, 4 << 20)).unwrap();
        thread::scope(|scope| {
            // As fast as it goes: it has the ring full all the time.
            scope.spawn(|| (0..20_000_u32).for_each(|_| assert_eq!(fast.append(&[7; 256]).unwrap().frames, 1)));
            for (camera, bytes) in [(&slow, 256), (&large, 8192)] {
                scope.spawn(move || {
                    for _ in 0..100 {
                        thread::sleep(Duration::from_millis(3));
                        assert_eq!(camera.append(&vec![9; bytes]).unwrap().frames, 1);
                    }
                });
            }
        });
        for (acquisition, frames) in [(slow, 100), (fast, 20_000), (large, 100)] {
            let summary = acquisition.finish().unwrap();
            assert_eq!((summary.frames_written, summary.frames_missing), (frames, 0));
        }
    });
}

#[test]
fn an_error_of_one_image_ends_no_other() {
    within(120, || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        let dataset = Dataset::create(&path).unwrap().with_open_files(1);
        let [bad, good] = ["bad", "good"].map(|name| dataset.acquisition(name, plate_config(0)).unwrap());
        visit(&bad, 0, 0);
        visit(&good, 1, 0);
        // While it is closed, somebody removes it.
        crate::common::storage::wait_until("the other's shard is open", || path.join("good/0/c/0/0/0").exists());
        fs::remove_file(path.join("bad/0/c/0/0/0")).unwrap();
        let mut number = FRAMES_A_VISIT;
        let error = loop {
            match bad.acquire().and_then(|slot| slot.commit(number, Record::default())) {
                Ok(()) => number += 1,
                Err(error) => break error,
            }
            thread::sleep(Duration::from_millis(5));
        };
        assert!(matches!(error, Error::Io { .. }), "{error}");
        visit(&good, 1, FRAMES_A_VISIT);
        let unfinished = bad.finish().unwrap_err();
        assert!(unfinished.summary.frames_missing > 0, "{unfinished}");
        assert_eq!(good.finish().unwrap().frames_missing, 0);
        check_good(&path);
    });
}

fn check_good(path: &Path) {
    let all = Array::open(path.join("good/0")).unwrap().read_all().unwrap();
    let expected: Vec<u8> = (0..2 * FRAMES_A_VISIT).flat_map(|number| pixels(1, number)).collect();
    assert!(all == expected);
}

#[test]
fn images_come_and_go() {
    within(120, || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        let dataset = Dataset::create(&path).unwrap().with_open_files(2);
        let first = dataset.acquisition(&name(0), plate_config(0)).unwrap();
        visit(&first, 0, 0);
        for image in 1..10 {
            let acquisition = dataset.acquisition(&name(image), plate_config(image)).unwrap();
            visit(&acquisition, image, 0);
            match image % 3 {
                0 => acquisition.abort(),
                _ => drop(acquisition.finish().unwrap()),
            }
        }
        visit(&first, 0, FRAMES_A_VISIT);
        // The threads live as long as the last image.
        drop(dataset);
        visit(&first, 0, 2 * FRAMES_A_VISIT);
        assert_eq!(first.finish().unwrap().frames_written, 3 * FRAMES_A_VISIT);
        check(&path, 0, 3 * FRAMES_A_VISIT);
        (1..10).filter(|image| image % 3 > 0).for_each(|image| check(&path, image, FRAMES_A_VISIT));
    });
}

#[test]
fn images_that_begin_and_end_together_are_whole() {
    within(120, || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plate.zarr");
        let dataset = Dataset::create(&path).unwrap().with_open_files(OPEN_FILES);
        let config = |image| Config { sync: true, ..plate_config(image) };
        let images = dataset.acquisitions((0..IMAGES).map(|image| (name(image), config(image)))).unwrap();
        assert!((0..IMAGES).all(|image| !path.join(name(image)).join("0/c").exists()), "no frame came");
        let again = dataset.acquisitions([("new".to_owned(), config(0)), (name(3), config(3))]);
        assert!(matches!(again, Err(Error::Exists { .. })), "{again:?}");
        let twice = dataset.acquisitions([("new", config(0)), ("old", config(1)), ("new", config(2))]).unwrap_err();
        assert!(matches!(twice, Error::Config { field: "name", .. }), "{twice}");
        assert!(!path.join("new/zarr.json").exists());
        // The last one is never visited.
        let visited = |image: &usize| *image < IMAGES - 1;
        let mut next = [0; IMAGES];
        for image in order(3).into_iter().filter(visited) {
            visit(&images[image], image, next[image]);
            next[image] += FRAMES_A_VISIT;
        }
        for (image, outcome) in Acquisition::finish_all(images).into_iter().enumerate() {
            let summary = outcome.unwrap();
            assert_eq!((summary.frames_written, summary.frames_durable), (next[image], next[image]), "image {image}");
        }
        drop(dataset);
        (0..IMAGES).filter(visited).for_each(|image| check(&path, image, next[image]));
        let told = fs::read_to_string(path.join("OME/zarr.json")).unwrap();
        assert!((0..IMAGES).all(|image| told.contains(&format!("\"{}\"", name(image)))), "{told}");
        assert!(!crate::common::recovered(&path, false).unwrap().is_needed());
        assert!(crate::common::checked(&path).unwrap().is_sound());
    });
}

#[test]
fn many_short_images_are_a_long_run() {
    // 102 MB would be written through the page cache without a trial of what is faster.
    let config = || {
        let dims = vec![Dim::time(400_000).chunk(1).shard(6), Dim::y(16), Dim::x(16)];
        Config { dims, storage: StorageKind::Auto, ..tiny(None, 256) }
    };
    for images in [1, 4] {
        let folder = on_disk();
        let dataset = Dataset::create(folder.path().join("run.zarr")).unwrap();
        let all = dataset.acquisitions((0..images).map(|image| (name(image), config()))).unwrap();
        for acquisition in &all {
            assert_eq!(acquisition.append(&frame(0, FRAME_BYTES)).unwrap().frames, 1);
        }
        for acquisition in all {
            let storage = acquisition.finish().unwrap().storage;
            assert_eq!(storage.contains("a short run"), images == 1, "{images} images: {storage}");
        }
    }
}

#[test]
fn a_full_ring_that_images_share_tells_its_own_buffers_from_those_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = Dataset::create(dir.path().join("run.zarr")).unwrap();
    let [one, two] = ["one", "two"].map(|name| dataset.acquisition(name, plate_config(0)).unwrap());
    let take_all = |image: &Acquisition| -> Vec<_> { std::iter::from_fn(|| image.try_acquire().ok()).collect() };
    let (of_one, of_two) = (take_all(&one), take_all(&two));
    assert!(!of_one.is_empty() && !of_two.is_empty());
    assert_eq!(of_one.len(), one.stats().ring_frames, "it was the first");
    let told = |image: &Acquisition| match image.try_acquire().map(drop).unwrap_err() {
        error @ Error::RingFull { frames, on_loan, waiting: 0, in_work: 0, others, .. } => {
            assert_eq!(frames, on_loan + others, "{error}");
            assert_eq!(error.to_string().contains(&format!(", {others} are other images'")), others > 0, "{error}");
            (on_loan, others > 0)
        }
        other => panic!("{other}"),
    };
    assert_eq!([told(&one), told(&two)], [(of_one.len(), false), (of_two.len(), true)]);
    drop((of_one, of_two));
    for image in [one, two] {
        image.finish().unwrap();
    }
}

#[test]
fn an_image_that_shares_a_ring_can_have_as_many_buffers_as_it_says() {
    let dir = tempfile::tempdir().unwrap();
    for (images, ring) in [(1, 24), (2, 24), (3, 24), (4, 24), (4, 100)] {
        // Four frames a chunk: some buffers are kept for each image.
        let dims = vec![Dim::time(None).chunk(4).shard(8), Dim::y(16), Dim::x(16)];
        let config = Config { dims, ..tiny(None, ring) };
        let dataset = Dataset::create(dir.path().join(format!("{images}-{ring}.zarr"))).unwrap();
        let one = dataset.acquisition(&name(0), config.clone()).unwrap();
        let alone = one.stats().ring_frames;
        let mut watches = Vec::from([0, alone].map(|mark| one.watch(Events::RING_HIGH, mark).unwrap()));
        let others: Vec<_> = (1..images).map(|at| dataset.acquisition(&name(at), config.clone()).unwrap()).collect();
        let most = one.stats().ring_frames;
        assert!(most < alone || images == 1, "{most} of {alone} beside {images}");
        watches.extend([0, most].map(|mark| one.watch(Events::RING_HIGH, mark).unwrap()));
        let refused = one.watch(Events::RING_HIGH, most + 1).unwrap_err().to_string();
        assert!(refused.contains(&format!("1 to {most} ")), "{refused}");

        let loans: Vec<_> = std::iter::from_fn(|| one.try_acquire().ok()).collect();
        assert_eq!((loans.len(), one.stats().ring_free), (most, 0), "{images} images, {ring} buffers");
        assert!(watches.iter().all(|watch| watch.take() == Events::RING_HIGH), "{images} images, {ring} buffers");
        let full = one.try_acquire().map(drop).unwrap_err();
        assert!(matches!(full, Error::RingFull { frames, on_loan, others: 0, .. } if [frames, on_loan] == [most; 2]));
        let places = one.buffer_addresses();
        assert!(loans.iter().all(|loan| places[loan.index()].cast_const() == loan.as_ptr()));
        drop(loans);
        assert_eq!(one.stats().ring_free, most);

        // When all fill it at once, each has fewer, and hears of it in time all the same, by the usual mark.
        let a_round = || others.iter().chain([&one]).filter_map(|image| image.try_acquire().ok()).collect();
        let rounds = std::iter::repeat_with(a_round).take_while(|round: &Vec<_>| !round.is_empty());
        let loans: Vec<_> = rounds.flatten().collect();
        assert!(watches.iter().step_by(2).all(|watch| watch.take() == Events::RING_HIGH), "{images} images, {ring}");
        drop(loans);
        others.into_iter().chain([one]).for_each(Acquisition::abort);
    }
}
