//! A writer that says after every frame how far its three counters are, for `tools/compare --safety`, which kills it,
//! cuts its power and fills its disk.
//!
//! Its one argument is a JSON object, the same that the rivals get. Lines on stdout: `ready`; `frame DELIVERED ACCEPTED
//! SAFE`; `error WHEN FRAME MESSAGE`; `closed ACCEPTED SAFE THERE`, the last one being what the writer itself says is
//! in the dataset.

use std::io::{Write, stdout};
use std::time::{Duration, Instant};

use serde::Deserialize;
use shardwright::{Acquisition, Codec, Compressor, Config, Dim, Record, Summary};

#[derive(Deserialize)]
struct Task {
    path: String,
    pool: String,
    frame: [u64; 2],
    chunk: [u64; 3],
    shard: [u64; 3],
    codec: String,
    frames: u64,
    /// Numbers of frames that never come.
    skipped: Vec<u64>,
    frames_per_second: f64,
    /// Close the dataset after the last frame, or wait for what happens.
    close: bool,
    variant: Variant,
}

#[derive(Deserialize)]
struct Variant {
    checkpoint_every_ms: u64,
}

/// Whoever watches must not learn of a frame late.
fn say(line: &str) {
    println!("{line}");
    let _ = stdout().flush();
}

fn config(task: &Task) -> Config {
    let dim = |dim: Dim, at: usize| dim.chunk(task.chunk[at]).shard(task.shard[at]);
    let compressor = if task.codec == "none" { Compressor::None } else { Compressor::default() };
    Config {
        // The length is not known beforehand, as in most acquisitions; it is also the harder case, since documents must
        // follow.
        dims: vec![dim(Dim::time(None), 0), dim(Dim::y(task.frame[0]), 1), dim(Dim::x(task.frame[1]), 2)],
        codec: Codec::from(compressor),
        ring_bytes: 64 << 20,
        checkpoint_every: Duration::from_millis(task.variant.checkpoint_every_ms),
        ..Config::default()
    }
}

fn write(task: &Task, acquisition: &Acquisition, pool: &[u8]) -> shardwright::Result<()> {
    let bytes = acquisition.frame_bytes();
    let mut due = Instant::now();
    for number in 0..task.frames {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        // Who is late does not make up for it: a burst is no camera's pace.
        due = due.max(Instant::now()) + Duration::from_secs_f64(1.0 / task.frames_per_second);
        if !task.skipped.contains(&number) {
            let frame = &pool[number as usize * bytes % pool.len()..][..bytes];
            acquisition
                .acquire()
                .and_then(|mut slot| {
                    slot.copy_from_slice(frame);
                    slot.commit(number, Record::default())
                })
                .inspect_err(|error| say(&format!("error append {number} {error}")))?;
        }
        let stats = acquisition.stats();
        say(&format!("frame {} {} {}", number + 1, stats.frames_accepted, stats.frames_durable));
    }
    Ok(())
}

fn main() {
    let task: Task = serde_json::from_str(&std::env::args().nth(1).expect("a task")).expect("a valid task");
    let pool = std::fs::read(&task.pool).expect("the pool of frames");
    let acquisition = match Acquisition::create(&task.path, config(&task)) {
        Ok(acquisition) => acquisition,
        Err(error) => return say(&format!("error create 0 {error}")),
    };
    say("ready");
    let written = write(&task, &acquisition, &pool);
    while written.is_ok() && !task.close {
        let stats = acquisition.stats();
        say(&format!("frame {} {} {}", task.frames, stats.frames_accepted, stats.frames_durable));
        std::thread::sleep(Duration::from_millis(20));
    }
    let last_words = |summary: &Summary| {
        format!("closed {} {} {}", summary.frames_accepted, summary.frames_durable, summary.frames_written)
    };
    match acquisition.finish() {
        Ok(summary) => say(&last_words(&summary)),
        Err(unfinished) => {
            if written.is_ok() {
                say(&format!("error close {} {}", task.frames, unfinished.error));
            }
            say(&last_words(&unfinished.summary));
        }
    }
}
