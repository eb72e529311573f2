//! A plate of many images, visited in random order, against one image of as many frames; or two cameras at once.
//!
//! ```text
//! cargo bench --bench images                             384 images of 3 visits with 16 frames each
//! cargo bench --bench images -- plate 24 512 8 FOLDER    images, edge of a frame, frames of a visit, where to write
//! cargo bench --bench images -- cameras 600 FOLDER       two cameras for 600 seconds at a steady pace
//! ```
//!
//! An image of the plate is one shard. The one image beside has the same bytes, once in shards of 64 frames, and once
//! in as many shards as the plate: the latter tells how much of the difference comes from the size of shards alone.
//! The three take turns, and medians of the turns' ratios are shown with their range.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use shardwright::{Acquisition, Codec, Compressor, Config, Dataset, Dim, Dtype, Record, RingFull, Summary};

const VISITS: u64 = 3;
const FRAMES_A_VISIT: u64 = 16;
const TURNS: usize = 3;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    // `cargo test` runs benches too, to see that they work; a few small images tell.
    let measured = std::env::args().any(|word| word == "--bench");
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let number = |at: usize, usual| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(usual);
    match words.first().map(String::as_str) {
        Some("cameras") => cameras(Duration::from_secs(number(1, 10)), &place(words.get(2))),
        Some("plate") => plate(number(1, 384), number(2, 512), number(3, FRAMES_A_VISIT), &place(words.get(4)), TURNS),
        _ if measured => plate(384, 512, FRAMES_A_VISIT, &place(None), TURNS),
        _ => plate(5, 64, 8, &place(None), 1).and_then(|()| cameras(Duration::from_millis(200), &place(None))),
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

/// What one turn of the plate gave.
struct Turn {
    rate: f64,
    created: f64,
    ended: f64,
    threads: usize,
    files: usize,
    storage: String,
}

fn plate(images: u64, side: u64, visit: u64, place: &Path, turns: usize) -> Result<(), Failure> {
    let frames = VISITS * visit;
    let pixels = pixels(side);
    let (mut of_alone, mut of_bound) = (Vec::new(), Vec::new());
    for turn in 0..turns {
        let alone = one(images * frames, 64, side, &pixels, place)?;
        let plate = visited(images, visit, side, &pixels, place)?;
        let bound = one(images * frames, frames, side, &pixels, place)?;
        let Turn { rate, created, ended, threads, files, storage } = plate;
        println!("turn {turn}: {images} images created in {created:.2} s, ended in {ended:.2} s, {storage}");
        println!("  at most {threads} threads and {files} descriptors");
        println!("  {rate:.2} GB/s; one image {alone:.2} GB/s, {bound:.2} GB/s with as many shards");
        of_alone.push(rate / alone);
        of_bound.push(rate / bound);
    }
    for (ratios, than) in [(&mut of_alone, "one image"), (&mut of_bound, "one image with as many shards")] {
        ratios.sort_by(f64::total_cmp);
        let [least, median, most] = [ratios[0], ratios[turns / 2], ratios[turns - 1]].map(|ratio| 100.0 * ratio);
        println!("{median:.0} % of {than} ({least:.0} to {most:.0})");
    }
    Ok(())
}

/// The images of a plate, each visited three times, in random order.
fn visited(images: u64, visit: u64, side: u64, pixels: &[u8], place: &Path) -> Result<Turn, Failure> {
    let frames = VISITS * visit;
    let folder = tempfile::tempdir_in(place)?;
    let start = Instant::now();
    let dataset = Dataset::create(folder.path().join("plate.zarr"))?;
    let all = dataset.acquisitions((0..images).map(|at| (format!("well-{at}"), config(frames, frames, side))))?;
    let created = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let (mut next, mut threads, mut files) = (vec![0; images as usize], 0, 0);
    for (turn, image) in order(images as usize).into_iter().enumerate() {
        bring(&all[image], pixels, next[image]..next[image] + visit)?;
        next[image] += visit;
        if turn % 32 == 31 {
            let count = |what| std::fs::read_dir(what).map_or(0, Iterator::count);
            (threads, files) = (threads.max(count("/proc/self/task")), files.max(count("/proc/self/fd")));
        }
    }
    let brought = start.elapsed().as_secs_f64();
    let mut storage = String::new();
    for outcome in Acquisition::finish_all(all) {
        let summary = outcome?;
        assert_eq!(summary.frames_written, frames);
        storage = summary.storage;
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = (images * frames * side * side * 2) as f64 / 1e9 / seconds;
    Ok(Turn { rate, created, ended: seconds - brought, threads, files, storage })
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

/// Two cameras of different shape and rate: how many pairs a second the machine takes for a while, and then, for so
/// long, a steady pace at 80 % of that. A full ring is an error. Shards are removed once they are closed: a long run is
/// larger than a disk.
fn cameras(time: Duration, place: &Path) -> Result<(), Failure> {
    let pixels = [pixels(1024), pixels(256)];
    let mut pairs = 0;
    let both = Cameras::create(place, RingFull::Block { timeout: None })?;
    let start = Instant::now();
    while start.elapsed() < time.min(SUSTAINED) {
        both.bring(&pixels, pairs)?;
        pairs += 1;
    }
    both.finish()?;
    let sustained = pairs as f64 / start.elapsed().as_secs_f64();
    let pair = Duration::from_secs_f64(1.0 / (PACE * sustained));
    let bytes = pixels[0].len() + OVERVIEWS as usize * pixels[1].len();
    println!("sustained: {:.2} GB/s; now {:.0} % of it", sustained * bytes as f64 / 1e9, 100.0 * PACE);

    let both = Cameras::create(place, RingFull::Error)?;
    thread::scope(|scope| {
        let threads = [(0, pair), (1, pair / OVERVIEWS as u32)].map(|(camera, period)| {
            let (acquisition, pixels) = (&both.acquisitions[camera], &pixels[camera]);
            scope.spawn(move || paced(acquisition, pixels, period, time))
        });
        threads.into_iter().try_for_each(|thread| thread.join().expect("a camera's thread does not panic"))
    })?;
    let count = |what| std::fs::read_dir(what).map_or(0, Iterator::count);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default().trim();
    let (threads, files) = (count("/proc/self/task"), count("/proc/self/fd"));
    println!("{threads} threads, {files} descriptors, at most {resident} resident");
    for summary in both.finish()? {
        println!("{} frames, {} missing; {:?}", summary.frames_written, summary.frames_missing, summary.notes);
    }
    Ok(())
}

const PACE: f64 = 0.8;
const SUSTAINED: Duration = Duration::from_secs(20);
/// Frames of the second camera for each of the first.
const OVERVIEWS: u64 = 4;

struct Cameras {
    acquisitions: [Acquisition; 2],
    _folder: tempfile::TempDir,
}

impl Cameras {
    fn create(place: &Path, ring_full: RingFull) -> Result<Self, Failure> {
        let folder = tempfile::tempdir_in(place)?;
        let path = folder.path().join("run.zarr");
        let dataset = Dataset::create(&path)?;
        let camera = |name: &str, side| -> shardwright::Result<_> {
            let dims = vec![Dim::time(None), Dim::y(side), Dim::x(side)];
            let acquisition = dataset.acquisition(name, Config { dims, ring_full, ..config(1, 1, side) })?;
            let root = path.clone();
            // A panic would be among the notes of the run.
            acquisition.on_shard_closed(move |key| std::fs::remove_file(root.join(key)).expect("it is closed"))?;
            Ok(acquisition)
        };
        Ok(Self { acquisitions: [camera("detail", 1024)?, camera("overview", 256)?], _folder: folder })
    }

    fn bring(&self, pixels: &[Vec<u8>; 2], pair: u64) -> shardwright::Result<()> {
        bring(&self.acquisitions[0], &pixels[0], pair..pair + 1)?;
        bring(&self.acquisitions[1], &pixels[1], OVERVIEWS * pair..OVERVIEWS * (pair + 1))
    }

    fn finish(self) -> Result<Vec<Summary>, Failure> {
        let ended = Acquisition::finish_all(self.acquisitions.into());
        ended.into_iter().map(|summary| Ok(summary?)).collect()
    }
}

/// A camera's frames, each when it is due.
fn paced(acquisition: &Acquisition, pixels: &[u8], period: Duration, time: Duration) -> shardwright::Result<()> {
    let start = Instant::now();
    for number in 0.. {
        let due = start + period.mul_f64(number as f64);
        if due >= start + time {
            break;
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
        bring(acquisition, pixels, number..number + 1)?;
    }
    Ok(())
}
