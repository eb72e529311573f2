//! A plate of many images, visited in random order, against one image of as many frames; or two cameras at once.
//!
//! ```text
//! cargo bench --bench images                             384 images of 3 visits with 16 frames each
//! cargo bench --bench images -- plate 24 512 8 FOLDER    images, edge of a frame, frames of a visit, where to write
//! cargo bench --bench images -- cameras 600 FOLDER       two cameras for 600 seconds
//! ```
//!
//! An image of the plate is one shard. The one image beside has the same bytes, once in shards of 64 frames, and once
//! in as many shards as the plate: the latter tells how much of the difference comes from the size of shards alone.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use shardwright::{Acquisition, Codec, Compressor, Config, Dataset, Dim, Dtype, Record, RingFull};

const VISITS: u64 = 3;
const FRAMES_A_VISIT: u64 = 16;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    // `cargo test` runs benches too, to see that they work; a few small images tell.
    let measured = std::env::args().any(|word| word == "--bench");
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let number = |at: usize, usual| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(usual);
    match words.first().map(String::as_str) {
        Some("cameras") => cameras(Duration::from_secs(number(1, 10)), &place(words.get(2))),
        Some("plate") => plate(number(1, 384), number(2, 512), number(3, FRAMES_A_VISIT), &place(words.get(4))),
        _ if measured => plate(384, 512, FRAMES_A_VISIT, &place(None)),
        _ => plate(5, 64, 8, &place(None)).and_then(|()| cameras(Duration::from_millis(200), &place(None))),
    }
}

fn place(requested: Option<&String>) -> PathBuf {
    requested.map_or_else(std::env::temp_dir, PathBuf::from)
}

fn config(frames: u64, shard: u64, side: u64) -> Config {
    let dims = vec![Dim::time(frames).chunk(1).shard(shard), Dim::y(side), Dim::x(side)];
    Config {
        dtype: Dtype::U16,
        dims,
        codec: Codec::from(Compressor::default()),
        ring_bytes: 256 << 20,
        ..Config::default()
    }
}

fn bring(acquisition: &Acquisition, pixels: &[u8], frames: std::ops::Range<u64>) -> shardwright::Result<()> {
    for number in frames {
        let mut frame = acquisition.acquire()?;
        frame.copy_from_slice(pixels);
        frame.commit(number, Record::default())?;
    }
    Ok(())
}

/// Gigabytes per second of one image, from the first frame to the synced dataset.
fn one(frames: u64, shard: u64, side: u64, pixels: &[u8], place: &Path) -> Result<f64, Failure> {
    let folder = tempfile::tempdir_in(place)?;
    let one = Acquisition::create(folder.path().join("one.zarr"), config(frames, shard, side))?;
    let start = Instant::now();
    bring(&one, pixels, 0..frames)?;
    one.finish()?;
    Ok((frames * side * side * 2) as f64 / 1e9 / start.elapsed().as_secs_f64())
}

fn plate(images: u64, side: u64, visit: u64, place: &Path) -> Result<(), Failure> {
    let frames = VISITS * visit;
    let pixels = pixels(side);
    let alone = one(images * frames, 64, side, &pixels, place)?;

    let folder = tempfile::tempdir_in(place)?;
    let start = Instant::now();
    let dataset = Dataset::create(folder.path().join("plate.zarr"))?;
    let all = dataset.acquisitions((0..images).map(|at| (format!("well-{at}"), config(frames, frames, side))))?;
    let created = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let (mut next, mut threads, mut files) = (vec![0; images as usize], 0, 0);
    for (turn, image) in order(images as usize).into_iter().enumerate() {
        bring(&all[image], &pixels, next[image]..next[image] + visit)?;
        next[image] += visit;
        if turn % 32 == 31 {
            let count = |what| std::fs::read_dir(what).map_or(0, Iterator::count);
            (threads, files) = (threads.max(count("/proc/self/task")), files.max(count("/proc/self/fd")));
        }
    }
    let visited = start.elapsed().as_secs_f64();
    let mut storage = String::new();
    for outcome in Acquisition::finish_all(all) {
        let summary = outcome?;
        assert_eq!(summary.frames_written, frames);
        storage = summary.storage;
    }
    let seconds = start.elapsed().as_secs_f64();
    let together = (images * frames * side * side * 2) as f64 / 1e9 / seconds;
    drop((dataset, folder));

    let bound = one(images * frames, frames, side, &pixels, place)?;
    println!("{images} images: created in {created:.2} s, ended in {:.2} s, {storage}", seconds - visited);
    println!("at most {threads} threads and {files} descriptors");
    println!("{together:.2} GB/s, {:.0} % of one image's {alone:.2} GB/s", 100.0 * together / alone);
    println!("{:.0} % of one image's {bound:.2} GB/s with as many shards", 100.0 * together / bound);
    Ok(())
}

/// Each image this many times as there are visits, in an order as random as that of a generator with a fixed seed.
fn order(images: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..VISITS).flat_map(|_| 0..images).collect();
    let mut state = 7_u64;
    for at in (1..order.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(at, (state >> 33) as usize % (at + 1));
    }
    order
}

/// A camera's noise over a slope, 12 bits of 16.
fn pixels(side: u64) -> Vec<u8> {
    let mut state = 1_u64;
    let pixel = |at: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((state >> 60) as u16 + (at % side) as u16).to_le_bytes()
    };
    (0..side * side).flat_map(pixel).collect()
}

/// Two cameras of different shape and rate, each at a steady pace, for so long. A full ring is an error.
fn cameras(time: Duration, place: &Path) -> Result<(), Failure> {
    let folder = tempfile::tempdir_in(place)?;
    let dataset = Dataset::create(folder.path().join("run.zarr"))?;
    let camera = |name, side, period: Duration| -> shardwright::Result<_> {
        let dims = vec![Dim::time(None), Dim::y(side), Dim::x(side)];
        let config = Config { dims, ring_full: RingFull::Error, ..config(1, 1, side) };
        Ok((dataset.acquisition(name, config)?, pixels(side), period))
    };
    let cameras =
        [camera("detail", 1024, Duration::from_millis(10))?, camera("overview", 256, Duration::from_micros(2_500))?];
    let run = move |(acquisition, pixels, period): (Acquisition, Vec<u8>, Duration)| -> Result<_, Failure> {
        let start = Instant::now();
        for number in 0.. {
            let due = start + number as u32 * period;
            if due >= start + time {
                break;
            }
            thread::sleep(due.saturating_duration_since(Instant::now()));
            bring(&acquisition, &pixels, number..number + 1)?;
        }
        Ok(acquisition.finish()?)
    };
    let threads = cameras.map(|camera| thread::spawn(move || run(camera)));
    for thread in threads {
        let summary = thread.join().expect("a camera's thread does not panic")?;
        println!("{} frames, {} missing", summary.frames_written, summary.frames_missing);
    }
    Ok(())
}
