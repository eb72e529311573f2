//! A writer that is killed at any moment loses nothing that was committed, and never leaves a wrong pixel.
//!
//! `SHARDWRIGHT_KILLS` says how many kills; each is another layout.

mod common;

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::books::Books;
use common::stopped::{Frame, files, frames_of, layouts, sound};
use shardwright::offline::{Array, recover};
use shardwright::{Acquisition, Codec, Compressor, Config, Dim, Dtype, Record};

const KILLS: u64 = 30;
/// Where the child writes. Set, this test binary is that child.
const PATH: &str = "SHARDWRIGHT_KILL_PATH";
const LAYOUT: &str = "SHARDWRIGHT_KILL_LAYOUT";

/// Chunks, codecs and checksums differ from layout to layout, too.
fn config(number: u64) -> Config {
    let layouts = layouts();
    let (placement, index_location, storage) = layouts[number as usize % layouts.len()];
    let deep = number / 2 % 3;
    let compressor = match number % 4 {
        0 => Compressor::None,
        1 => Compressor::default(),
        2 => Compressor::Zstd { level: 1 },
        _ => Compressor::BloscNoise { block_bytes: 0 },
    };
    Config {
        dtype: Dtype::U16,
        dims: vec![
            Dim::time(if number.is_multiple_of(5) { Some(100_000) } else { None }).chunk(1 + deep).shard(12),
            Dim::y(96).chunk(64).shard(128),
            Dim::x(96).chunk(32),
        ],
        codec: Codec { compressor, checksum: !number.is_multiple_of(7) },
        placement,
        index_location,
        storage,
        ring_bytes: 24 * 20480,
        workers: 2,
        sync: number.is_multiple_of(3),
        checkpoint_every: Duration::from_millis(20),
        ..Config::default()
    }
}

/// Writes until it is killed, and says how many frames it has written so far.
#[test]
fn child() {
    let (Ok(path), Ok(layout)) = (env::var(PATH), env::var(LAYOUT)) else { return };
    let config = config(layout.parse().unwrap());
    let acquisition = Acquisition::create(path, config.clone()).unwrap();
    for number in 0..100_000u64 {
        // Some never come.
        if number % 50 == 17 {
            continue;
        }
        let mut frame = acquisition.acquire().unwrap();
        frame.copy_from_slice(&common::frame(number, 2 * 96 * 96));
        frame.commit(number, Record::default()).unwrap();
        if number.is_multiple_of(8) {
            println!("written {}", acquisition.stats().frames_written);
        }
    }
}

/// Starts a writer, kills it, and returns how many frames it had written for sure.
fn killed_writer(path: &Path, number: u64, after: Duration) -> u64 {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads", "1"])
        .env(PATH, path)
        .env(LAYOUT, number.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let counts = thread::spawn(move || {
        let count = |line: std::io::Result<String>| line.ok()?.split("written ").nth(1)?.trim().parse().ok();
        lines.filter_map(count).max().unwrap_or(0u64)
    });
    thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    counts.join().unwrap()
}

#[test]
fn a_killed_writer_loses_nothing_and_leaves_nothing_wrong() {
    let kills = env::var("SHARDWRIGHT_KILLS").ok().map_or(KILLS, |kills| kills.parse().unwrap());
    let mut state = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    let (mut all_written, mut all_whole, mut datasets) = (0, 0, 0);
    for kill in 0..kills {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let after = Duration::from_micros(20_000 + (state >> 33) % 180_000);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        let written = killed_writer(&path, kill, after);
        let config = config(kill);
        let told =
            format!("kill {kill} after {after:?}, {:?}", (config.placement, config.index_location, config.storage));
        if !path.join("zarr.json").exists() {
            assert_eq!(written, 0, "{told}: there is no dataset");
            continue;
        }
        datasets += 1;
        // Any reader can open it, before anything is repaired, and sees nothing wrong.
        frames_of(&path, &config, 5000);
        let found = recover(&path, true, |_, _| ()).unwrap_or_else(|error| panic!("{told}: {error}"));
        sound(&path);
        let image = &found.images[0];
        let frames = frames_of(&path, &config, image.frames);
        let whole = frames.iter().filter(|&&frame| frame == Frame::Whole).count() as u64;
        assert!(whole >= written, "{told}: {whole} frames of {written} are whole");
        // What is not missing is there.
        let is_missing = |number: u64| image.missing.iter().any(|range| range.contains(&number));
        for (frame, number) in frames.iter().zip(0..) {
            let deep = Array::open(&path).unwrap().chunk_shape()[0] > 1;
            // In a chunk of several frames, one that never came can't be told from a dark one.
            assert!(
                is_missing(number) || *frame == Frame::Whole || (deep && number % 50 == 17),
                "{told}: frame {number}"
            );
        }
        let accepted = (0..image.frames).filter(|number| number % 50 != 17).collect();
        let pixels = |number| common::frame(number, 2 * 96 * 96);
        let books = Books { config: &config, accepted: &accepted, pixels: &pixels, documents_failed: true };
        books.check_recovered(&path, &BTreeSet::new());
        let after = files(&path);
        assert!(!after.keys().any(|path| path.to_string_lossy().ends_with(".partial")), "{told}");
        let again = recover(&path, true, |_, _| ()).unwrap();
        assert!(
            !again.is_needed() && files(&path) == after,
            "{told}: a second recovery has changed something: {again:#?}"
        );
        all_written += written;
        all_whole += whole;
    }
    println!("{kills} kills, {datasets} datasets, {all_written} frames known to be written, {all_whole} found");
    assert!(datasets > 0 || kills == 0, "every writer was killed before it had begun");
}
