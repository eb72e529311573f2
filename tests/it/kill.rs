//! A writer that is killed at any moment loses nothing that was committed, and never leaves a wrong pixel.
//!
//! `SHARDWRIGHT_KILLS` says how many kills; each is another layout.

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::common::books::Books;
use crate::common::child::child;
use crate::common::stopped::{Frame, commit, files, frame_bytes, frames_of, layouts, sound};
use crate::common::{on_disk, recovered};
use crate::dialects_offline;
use shardwright::offline::Array;
use shardwright::{Acquisition, Codec, Compressor, Config, Dim, Downsampling, Dtype};

const KILLS: u64 = 18;
/// Where the child writes.
const PATH: &str = "SHARDWRIGHT_KILL_PATH";
const LAYOUT: &str = "SHARDWRIGHT_KILL_LAYOUT";

/// Two in three are of Zarr v3, the others of the other dialects.
fn config(number: u64) -> Config {
    if number % 3 == 2 { other_dialect(number / 3) } else { zarr3(number / 3 * 2 + number % 3) }
}

fn other_dialect(number: u64) -> Config {
    let configs = dialects_offline::all();
    let config = configs[number as usize * 7 % configs.len()].clone();
    let mut config = Config { checkpoint_every: Duration::from_millis(20), ..config };
    if config.dims[0].size.is_some() {
        config.dims[0].size = Some(5000);
    }
    config
}

/// Chunks, codecs and checksums differ from layout to layout, too.
fn zarr3(number: u64) -> Config {
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
        pyramid: (number % 4 == 1).then(|| Downsampling { levels: Some(2), ..Downsampling::default() }),
        ..Config::default()
    }
}

/// Writes until it is killed, and says how many frames it has written so far.
#[test]
#[ignore = "another test runs it in a process of its own"]
fn child_writes() {
    let (path, layout) = (env::var(PATH).unwrap(), env::var(LAYOUT).unwrap());
    let config = config(layout.parse().unwrap());
    let acquisition = Acquisition::create(path, config.clone()).unwrap();
    for number in 0..config.dims[0].size.unwrap_or(100_000) {
        // Some never come.
        if number % 50 == 17 {
            continue;
        }
        commit(&acquisition, &config, number);
        if number.is_multiple_of(8) {
            println!("written {}", acquisition.stats().frames_written);
        }
    }
}

/// Starts a writer, kills it, and returns how many frames it had written for sure.
fn killed_writer(path: &Path, number: u64, after: Duration) -> u64 {
    let mut child = child("kill::child_writes")
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

/// Repairs what a killed writer left, and returns how many frames are whole. It had written `written` for sure.
fn repair(path: &Path, config: &Config, written: u64, told: &str) -> u64 {
    // Any reader can open it, before anything is repaired, and sees nothing wrong.
    frames_of(path, config, 5000);
    let found = recovered(path, true).unwrap_or_else(|error| panic!("{told}: {error}"));
    sound(path);
    let image = &found.images[0];
    let frames = frames_of(path, config, image.frames);
    if let Some(downsampling) = &config.pyramid {
        let is_there = |number| !image.missing.iter().any(|range| range.contains(&number));
        let whole: &dyn Fn(u64) -> bool = if path.is_file() { &|_| false } else { &is_there };
        assert_eq!(crate::levels::compare_places(path, downsampling, whole, image.frames + 1), 2, "{told}");
        let is_behind = found.images.iter().any(|image| image.behind.is_some());
        assert!(path.is_file() || !is_behind, "{told}: {found:#?}");
    }
    let whole = frames.iter().filter(|&&frame| frame == Frame::Whole).count() as u64;
    assert!(whole >= written, "{told}: {whole} frames of {written} are whole");
    // What is not missing is there. In a chunk of several frames, one that never came can't be told from a dark one.
    let deep = config.dims[0].chunk > 1;
    for (frame, number) in frames.iter().zip(0..) {
        let is_missing = image.missing.iter().any(|range| range.contains(&number));
        let fine = is_missing || *frame == Frame::Whole || (deep && number % 50 == 17);
        assert!(fine, "{told}: frame {number}");
    }
    let accepted = (0..image.frames).filter(|number| number % 50 != 17).collect();
    let pixels = |number| crate::common::frame(number, frame_bytes(config));
    let books = Books { config, accepted: &accepted, pixels: &pixels, documents_failed: true };
    books.check_recovered(path, &BTreeSet::new());
    let after = files(path);
    assert!(!after.keys().any(|path| path.to_string_lossy().ends_with(".partial")), "{told}");
    let again = recovered(path, true).unwrap();
    assert!(!again.is_needed() && files(path) == after, "{told}: a second recovery has changed something: {again:#?}");
    whole
}

/// A number for each layout that an archive can have.
fn archived(number: u64) -> u64 {
    number / 2 * 3 + number % 2
}

#[test]
fn a_killed_writer_loses_nothing_and_leaves_nothing_wrong() {
    kill_writers("run.zarr", |kill| kill);
}

#[test]
fn a_killed_writer_of_an_archive_loses_nothing_and_leaves_nothing_wrong() {
    kill_writers("run.ozx", archived);
}

/// Kills writers of datasets of this name, each of the layout that belongs to its number.
fn kill_writers(name: &str, layout: fn(u64) -> u64) {
    let kills = env::var("SHARDWRIGHT_KILLS").ok().map_or(KILLS, |kills| kills.parse().unwrap());
    let mut state = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    let (mut all_written, mut all_whole, mut datasets) = (0, 0, 0);
    for kill in (0..kills).map(layout) {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let after = Duration::from_micros(20_000 + (state >> 33) % 180_000);
        let folder = on_disk();
        let path = folder.path().join(name);
        let written = killed_writer(&path, kill, after);
        let config = config(kill);
        let settings = (config.dialect, config.placement, config.index_location, config.storage);
        let told = format!("kill {kill} after {after:?}, {settings:?}");
        if Array::open(&path).is_err() {
            assert_eq!(written, 0, "{told}: there is no dataset");
            continue;
        }
        datasets += 1;
        all_whole += repair(&path, &config, written, &told);
        all_written += written;
    }
    println!("{kills} kills, {datasets} datasets, {all_written} frames known to be written, {all_whole} found");
    assert!(datasets > 0 || kills == 0, "every writer was killed before it had begun");
}
