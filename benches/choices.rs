//! What a choice costs: the same frames with one setting changed, in turns with the usual setting.
//!
//! ```text
//! cargo bench --bench choices [-- --folder DIR] [--rounds N] [--frames N] [--only WORDS]
//! ```
//!
//! Frames of 2048 × 2048 u16, chunks of 1 × 512 × 512, shards of 64 frames, as fast as they go, files synced. Each line
//! is the median, over the rounds, of the throughput with the choice over that of the run beside it without, and
//! between which of the ratios the true median lies in 95 of 100 cases (of all if there are fewer than six). Give it a
//! quiet machine.
//!
//! Lines with `auto` compare the codec that a run chooses with each of the two that it chooses from: on a tmpfs, in the
//! folder, and with a storage that takes 200 MB/s and keeps nothing. It is as good as the better one where no ratio is
//! below 1.
//!
//! Lines with `archive` compare a dataset in one file, `run.ozx`, with the same one in a folder.
//!
//! What a single checkpoint costs is less than what runs scatter by, so there are also ten of them a second.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use shardwright::{Acquisition, BloscCname, Codec, Compressor, Config, Dialect, Dim, Shuffle, StorageKind, Volume};

#[allow(dead_code)]
mod camera;
mod throttled;

use throttled::Throttled;

type Outcome<T> = Result<T, Box<dyn Error>>;

const SIDE: usize = 2048;
const THROTTLED_BYTES_PER_S: f64 = 200e6;

/// Where runs are written.
#[derive(Clone)]
enum Place {
    Folder(PathBuf),
    /// An archive in the folder.
    Archive(PathBuf),
    Throttled,
}

/// What is tried: its name, the usual way, the other one.
type Choice = (String, Way, Way);
/// Where, and with which configuration.
type Way = (Place, Config);

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let value = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let folder = tempfile::tempdir_in(value("--folder").map_or_else(std::env::temp_dir, PathBuf::from))?;
    let rounds: usize = value("--rounds").map_or(Ok(5), |word| word.parse())?;
    let frames: usize = value("--frames").map_or(Ok(256), |word| word.parse())?;
    let pixels: Vec<Vec<u8>> = (0..4).map(|_| camera::frame(SIDE, 2)).collect();
    let only = value("--only").map_or("", |words| words);
    println!("{:<46} {:>9} {:>7} {:>7} {:>7}", "choice", "usual", "ratio", "from", "to");
    let shm = tempfile::tempdir_in("/dev/shm").ok();
    let mut all = choices(folder.path());
    all.extend(autos(folder.path(), shm.as_ref().map(|folder| folder.path())));
    for (name, usual, choice) in all.into_iter().filter(|(name, ..)| name.contains(only)) {
        let (mut ratios, mut rates) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            // Whoever comes second in a round finds a warmer machine, so they change places.
            let run = |(place, config): &Way| rate(place, config, &pixels, frames);
            let (before, after) = if round % 2 == 0 {
                let before = run(&usual)?;
                (before, run(&choice)?)
            } else {
                let after = run(&choice)?;
                (run(&usual)?, after)
            };
            ratios.push(after / before);
            rates.push(before);
        }
        ratios.sort_by(f64::total_cmp);
        rates.sort_by(f64::total_cmp);
        let (rate, ratio) = (rates[rounds / 2] / 1e9, ratios[rounds / 2]);
        let outside = places_outside(rounds);
        let (from, to) = (ratios[outside], ratios[rounds - 1 - outside]);
        println!("{name:<46} {rate:>4.2} GB/s {ratio:>7.3} {from:>7.3} {to:>7.3}");
    }
    Ok(())
}

/// How many of `count` sorted values may be left out at each end, so that the rest encloses the median with a certainty
/// of 95 %: a value is above the median as often as a coin shows heads.
fn places_outside(count: usize) -> usize {
    let mut exactly = 0.5_f64.powi(count as i32);
    let mut at_most = exactly;
    let mut outside = 0;
    while at_most <= 0.025 && outside < count / 2 {
        exactly *= (count - outside) as f64 / (outside + 1) as f64;
        at_most += exactly;
        outside += 1;
    }
    outside.saturating_sub(1)
}

/// Frames in chunks of 512 × 512, through the page cache: what the trial of `auto` finds may differ from run to run.
fn base(compressor: Compressor) -> Config {
    Config {
        dims: vec![
            Dim::z(None).chunk(1).shard(64),
            Dim::y(SIDE as u64).chunk(512).shard(SIDE as u64),
            Dim::x(SIDE as u64).chunk(512).shard(SIDE as u64),
        ],
        codec: Codec { compressor, checksum: false },
        storage: StorageKind::Buffered,
        overwrite: true,
        ..Config::default()
    }
}

/// The codec that a run chooses, against those that it chooses from.
fn autos(folder: &Path, shm: Option<&Path>) -> Vec<Choice> {
    let disk = [("disk", Place::Folder(folder.to_owned())), ("200 MB/s", Place::Throttled)];
    let places = shm.map(|shm| ("tmpfs", Place::Folder(shm.to_owned()))).into_iter().chain(disk);
    let mut all = Vec::new();
    for (place, at) in places {
        for cname in [BloscCname::Lz4, BloscCname::Zstd] {
            let fixed = Compressor::Blosc { cname, level: 1, shuffle: Shuffle::Bit, block_bytes: 0 };
            let name = format!("auto, {place}, blosc-{cname}");
            all.push((name, (at.clone(), base(fixed)), (at.clone(), base(Compressor::Auto))));
        }
    }
    all
}

fn choices(folder: &Path) -> Vec<Choice> {
    let in_folder = |config| (Place::Folder(folder.to_owned()), config);
    let gzip = Compressor::Gzip { level: 1 };
    let mut all = Vec::new();
    for (name, compressor) in [("none", Compressor::None), ("blosc-lz4", Compressor::default()), ("gzip", gzip)] {
        let off = Config { checkpoint_every: Duration::ZERO, ..base(compressor) };
        for (often, milliseconds) in [("every second", 1000), ("ten times a second", 100)] {
            // Past the page cache: a sync then waits for its own chunks only.
            let off = Config { storage: StorageKind::Direct, ..off.clone() };
            let on = Config { checkpoint_every: Duration::from_millis(milliseconds), ..off.clone() };
            all.push((format!("checkpoints {often}, {name}"), in_folder(off), in_folder(on)));
        }
        let summed = Codec { compressor, checksum: true };
        let summed = Config { codec: summed, ..off.clone() };
        all.push((format!("checksums, {name}"), in_folder(off.clone()), in_folder(summed)));
        for storage in [StorageKind::Mapped, StorageKind::Buffered, StorageKind::Direct] {
            let config = Config { storage, ..base(compressor) };
            let archive = (Place::Archive(folder.to_owned()), config.clone());
            all.push((format!("archive, {}, {name}", storage.name()), in_folder(config), archive));
        }
        for dialect in [Dialect::Zarr3Transformer, Dialect::Zarr2Sharded, Dialect::Precomputed] {
            if dialect == Dialect::Precomputed && name == "blosc-lz4" {
                continue;
            }
            let volume = match dialect {
                // Boxes of 4 x 4 x 64 chunks: the same shards as all others have.
                Dialect::Precomputed => {
                    Volume { preshift_bits: Some(10), minishard_bits: Some(0), ..Volume::default() }
                }
                _ => Volume::default(),
            };
            let choice = Config { dialect, volume, ..base(compressor) };
            all.push((format!("dialect {}, {name}", dialect.name()), in_folder(base(compressor)), in_folder(choice)));
        }
    }
    all
}

/// Bytes per second, from the first frame to the synced dataset.
fn rate(place: &Place, config: &Config, pixels: &[Vec<u8>], frames: usize) -> Outcome<f64> {
    let acquisition = match place {
        Place::Folder(folder) => Acquisition::create(folder.join("run.zarr"), config.clone())?,
        Place::Archive(folder) => Acquisition::create(folder.join("run.ozx"), config.clone())?,
        Place::Throttled => Acquisition::create_in(Arc::new(Throttled::new(THROTTLED_BYTES_PER_S)), config.clone())?,
    };
    let start = Instant::now();
    for number in 0..frames {
        let _ = acquisition.append(&pixels[number % pixels.len()])?;
    }
    acquisition.finish()?;
    Ok((frames * pixels[0].len()) as f64 / start.elapsed().as_secs_f64())
}
