//! What a caller pays: the hand-over of small frames as fast as they come, and the commit of large ones at a camera's
//! pace.
//!
//! A commit wakes a worker, and on a busy machine the scheduler, or the host of a virtual one, takes the core away now
//! and then. So beside each paced commit stands the bound: the same thread wakes a parked thread that does nothing,
//! halfway between two frames. Whatever that costs, no writer that wakes anyone can avoid.
//!
//! `cargo bench --bench ring -- [--seconds 15] [--fps 100] [--folder DIR]`; without `--folder` the shards stay in
//! memory.

#![allow(unsafe_code)]

#[allow(dead_code)]
mod camera;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use shardwright::{Acquisition, Compressor, Config, Dim, Memory, Record};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let value = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let seconds: f64 = value("--seconds").map_or(Ok(1.0), |word| word.parse())?;
    let fps: f64 = value("--fps").map_or(Ok(100.0), |word| word.parse())?;
    let folder = value("--folder").map(PathBuf::from);
    small_frames(seconds)?;
    paced(seconds, fps, folder)
}

fn start(folder: Option<&PathBuf>, config: Config) -> Outcome<Acquisition> {
    Ok(match folder {
        Some(folder) => Acquisition::create(folder.join("ring-bench.zarr"), Config { overwrite: true, ..config })?,
        None => Acquisition::create_in(Arc::new(Memory::mapped()), config)?,
    })
}

/// Frames of 64 × 64 pixels, not filled: what is left is the cost of a frame apart from its bytes.
fn small_frames(seconds: f64) -> Outcome<()> {
    let dims = vec![Dim::time(None).chunk(512).shard(16 * 512), Dim::y(64), Dim::x(64)];
    let acquisition = start(None, Config { dims, ring_bytes: 256 << 20, ..Config::default() })?;
    let mut times = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
    let begin = Instant::now();
    let mut number = 0;
    while begin.elapsed().as_secs_f64() < seconds {
        for _ in 0..512 {
            let start = Instant::now();
            acquisition.acquire()?.commit(number, Record::default())?;
            times.saturating_record(start.elapsed().as_nanos() as u64);
            number += 1;
        }
    }
    acquisition.finish()?;
    let rate = number as f64 / begin.elapsed().as_secs_f64();
    println!("64 x 64 u16, as fast as they come: {rate:.0} frames per second");
    print("acquire and commit", &times);
    Ok(())
}

fn paced(seconds: f64, fps: f64, folder: Option<PathBuf>) -> Outcome<()> {
    let frame = camera::frame(2048, 2);
    let dims = vec![Dim::time(None).shard(64), Dim::y(2048).chunk(512), Dim::x(2048).chunk(512)];
    let codec = Compressor::BloscNoise { block_bytes: 0 }.into();
    let acquisition = start(folder.as_ref(), Config { dims, codec, ring_bytes: 512 << 20, ..Config::default() })?;
    let mut acquires = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
    let (mut commits, mut wakes) = (
        Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?,
        Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?,
    );
    let ended = Arc::new(AtomicBool::new(false));
    let seen = ended.clone();
    let sleeper = thread::spawn(move || {
        while !seen.load(Relaxed) {
            thread::park();
        }
    });
    let real_time = take_real_time_priority();
    let begin = Instant::now();
    let frames = (seconds * fps) as u64;
    for number in 0..frames {
        sleep_until(begin + Duration::from_secs_f64(number as f64 / fps));
        let start = Instant::now();
        let mut slot = acquisition.acquire()?;
        acquires.saturating_record(start.elapsed().as_nanos() as u64);
        slot.copy_from_slice(&frame);
        let start = Instant::now();
        slot.commit(number, Record::default())?;
        commits.saturating_record(start.elapsed().as_nanos() as u64);
        sleep_until(begin + Duration::from_secs_f64((number as f64 + 0.5) / fps));
        // The caches are as cold as after a frame was filled.
        std::hint::black_box(frame.iter().step_by(64).map(|&byte| u64::from(byte)).sum::<u64>());
        let start = Instant::now();
        sleeper.thread().unpark();
        wakes.saturating_record(start.elapsed().as_nanos() as u64);
    }
    ended.store(true, Relaxed);
    sleeper.thread().unpark();
    let _ = sleeper.join();
    let late = acquisition.stats().ring_free;
    acquisition.finish()?;
    let priority = if real_time { "real-time" } else { "ordinary" };
    println!(
        "2048 x 2048 u16 at {fps} frames per second, {frames} frames, caller of {priority} priority, {late} buffers \
         free at the end"
    );
    println!("  a shard ends every 64 frames");
    print("acquire", &acquires);
    print("commit", &commits);
    print("bare wake of a thread", &wakes);
    Ok(())
}

fn sleep_until(moment: Instant) {
    thread::sleep(moment.saturating_duration_since(Instant::now()));
}

/// As a camera's driver does; false where it is not allowed.
fn take_real_time_priority() -> bool {
    // SAFETY: all of `sched_param` is integers, for which zeros are a value.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 1;
    // SAFETY: the pointer is good for the call, which changes nothing but how this thread (0) is scheduled.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
}

fn print(what: &str, times: &Histogram<u64>) {
    let at = |quantile: f64| Duration::from_nanos(times.value_at_quantile(quantile));
    println!("  {what}: p50 {:?}, p99 {:?}, p99.9 {:?}, max {:?}", at(0.5), at(0.99), at(0.999), at(1.0));
}
