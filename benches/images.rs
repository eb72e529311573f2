//! A plate of many images, visited in random order, against one image of as many frames; or two cameras at once.
//!
//! ```text
//! cargo bench --bench images                          384 images of 3 visits with 8 frames each
//! cargo bench --bench images -- plate 24 512 FOLDER   images, edge of a frame in pixels, where to write
//! cargo bench --bench images -- cameras 600 FOLDER    two cameras for so many seconds
//! ```

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use shardwright::{Acquisition, Codec, Compressor, Config, Dataset, Dim, Dtype, Record, RingFull};

const VISITS: u64 = 3;
const FRAMES_A_VISIT: u64 = 8;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    // `cargo test` runs benches too, to see that they work; a few small images tell.
    let measured = std::env::args().any(|word| word == "--bench");
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let number = |at: usize, usual| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(usual);
    match words.first().map(String::as_str) {
        Some("cameras") => cameras(Duration::from_secs(number(1, 10)), &place(words.get(2))),
        Some("plate") => plate(number(1, 384), number(2, 512), &place(words.get(3))),
        _ if measured => plate(384, 512, &place(None)),
        _ => plate(5, 64, &place(None)).and_then(|()| cameras(Duration::from_millis(200), &place(None))),
    }
}

fn place(wished: Option<&String>) -> PathBuf {
    wished.map_or_else(std::env::temp_dir, PathBuf::from)
}

fn config(frames: u64, side: u64) -> Config {
    let dims = vec![Dim::time(frames).chunk(1).shard(frames.min(64)), Dim::y(side), Dim::x(side)];
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

fn plate(images: u64, side: u64, place: &Path) -> Result<(), Failure> {
    let frames = VISITS * FRAMES_A_VISIT;
    let pixels = pixels(side);
    let gigabytes = (images * frames * side * side * 2) as f64 / 1e9;

    let folder = tempfile::tempdir_in(place)?;
    let one = Acquisition::create(folder.path().join("one.zarr"), config(images * frames, side))?;
    let start = Instant::now();
    bring(&one, &pixels, 0..images * frames)?;
    one.finish()?;
    let alone = gigabytes / start.elapsed().as_secs_f64();
    drop(folder);

    let folder = tempfile::tempdir_in(place)?;
    let start = Instant::now();
    let dataset = Dataset::create(folder.path().join("plate.zarr"))?;
    let all = dataset.acquisitions((0..images).map(|image| (format!("well-{image}"), config(frames, side))))?;
    let created = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let mut next = vec![0; images as usize];
    for image in order(images as usize) {
        bring(&all[image], &pixels, next[image]..next[image] + FRAMES_A_VISIT)?;
        next[image] += FRAMES_A_VISIT;
    }
    let visited = start.elapsed().as_secs_f64();
    for outcome in Acquisition::finish_all(all) {
        assert_eq!(outcome?.frames_written, frames);
    }
    let seconds = start.elapsed().as_secs_f64();
    let together = gigabytes / seconds;
    println!("{images} images: created in {created:.2} s, ended in {:.2} s", seconds - visited);
    println!("{together:.2} GB/s, {:.0} % of one image's {alone:.2} GB/s", 100.0 * together / alone);
    Ok(())
}

/// Each image so many times as there are visits, in an order as random as that of a generator with a fixed seed.
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
        let config = Config { dims, ring_full: RingFull::Error, ..config(1, side) };
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
