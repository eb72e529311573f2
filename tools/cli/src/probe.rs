//! `shardwright probe`: whether this machine keeps up with a camera, and with which settings.
//!
//! The parts are measured alone, to show where the time goes: copies in memory, each codec, each way of writing. What
//! counts are whole runs of the engine with the camera's frames, synced to the device.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use shardwright::codec::Encoder;
use shardwright::words::count;
use shardwright::{
    Acquisition, BloscCname, Codec, Compressor, Config, Dim, Record, Shuffle, StorageTrial, storage_rates,
};

use crate::args::ProbeArgs;
use crate::console::{say, tell, tell_notes};
use crate::failure::{Failure, exit};
use crate::interrupt::{self, interrupted};
use crate::machine::free_bytes;
use crate::place::{refuse_dataset, refuse_unusable};
use crate::report::{bytes_text, joined, table};
use crate::source::FrameSource;
use crate::source::synthetic::Synthetic;

/// A machine that is only just fast enough loses frames when something else runs.
const MARGIN_MIN: f64 = 1.25;
const FRAMES_MADE: u64 = 16;
const PART_TIME: Duration = Duration::from_millis(300);

/// What was found out.
#[derive(Debug, Serialize)]
struct ProbeFindings {
    camera: CameraRow,
    cores: usize,
    copy_bytes_per_s: f64,
    folder: PathBuf,
    free_bytes: u64,
    storage: Vec<StorageRow>,
    codecs: Vec<CodecRow>,
    /// The codec to take; `None` if there is a camera's rate and nothing keeps up with it.
    advice: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct CameraRow {
    width: u32,
    height: u32,
    dtype: String,
    frames_per_s: Option<f64>,
    bytes_per_s: Option<f64>,
}

#[derive(Debug, Serialize)]
struct StorageRow {
    name: &'static str,
    bytes_per_s: f64,
}

#[derive(Debug, Serialize)]
struct CodecRow {
    codec: &'static str,
    ratio: f64,
    /// The codec alone on all cores; `None` for `auto`, which is one of the others.
    codec_bytes_per_s: Option<f64>,
    /// A whole run: pixels from the ring to the synced dataset.
    bytes_per_s: f64,
    frames_per_s: f64,
    storage: String,
    /// The run's rate over the camera's.
    margin: Option<f64>,
    seconds_until_full: Option<f64>,
    /// What the run says of itself: what `auto` chose and changed.
    notes: Vec<String>,
}

/// What the names of such folders begin with.
const SCRATCH: &str = ".shardwright-probe-";

/// A folder of our own that disappears with us.
struct ScratchFolder(PathBuf);

impl ScratchFolder {
    fn create(path: &Path) -> Result<Self, Failure> {
        let folder = path.join(format!("{SCRATCH}{}", std::process::id()));
        let refuse = |error| Failure::io("create a folder in", path, &error);
        fs::create_dir(&folder).map_err(refuse)?;
        Ok(Self(folder))
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A probe that was killed leaves its folder. Another one may be at work in it, perhaps on another machine, so it is
/// only told.
fn tell_leftovers(args: &ProbeArgs) {
    let entries = fs::read_dir(&args.path).into_iter().flatten().flatten();
    for left in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(SCRATCH)) {
        let what = "is of another probe: remove it, unless that is at work";
        tell_notes(args.report.quiet, &[format!("{} {what}", left.path().display())]);
    }
}

fn go_on() -> Result<(), Failure> {
    if interrupted() { Err(Failure::Interrupted("interrupted".into())) } else { Ok(()) }
}

/// Runs the command and returns its exit code.
pub(crate) fn run(args: &ProbeArgs) -> Result<u8, Failure> {
    refuse_unusable(&args.path)?;
    refuse_dataset(&args.path)?;
    tell_leftovers(args);
    interrupt::listen("removing what was written");
    let scratch = ScratchFolder::create(&args.path)?;
    let step = |what: &str| {
        if !args.report.json && !args.report.quiet {
            tell(format_args!("trying {what} …"));
        }
        go_on()
    };
    step("the camera's frames and the memory")?;
    let mut camera = Synthetic::new(args.camera, FRAMES_MADE, args.engine.memory)?;
    let frame_bytes = camera.recording().frame_bytes();
    let mut frame = vec![0; frame_bytes as usize];
    camera.read(0, &mut frame)?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let copy_bytes_per_s = copy_rate(&frame, cores);
    step("each way of writing")?;
    let sync = !args.engine.no_sync;
    let storage = storage_rates(&scratch.0, &StorageTrial { sync, time: PART_TIME, ..StorageTrial::default() })
        .map_err(Failure::from)?;
    let free_bytes = free_bytes(&scratch.0)?;
    let mut codecs = Vec::new();
    for (name, compressor) in candidates() {
        step(name)?;
        codecs.push(try_codec(args, &scratch.0, &mut camera, &frame, (name, compressor), (cores, free_bytes))?);
    }
    let findings = ProbeFindings {
        camera: CameraRow {
            width: args.camera.width,
            height: args.camera.height,
            dtype: args.camera.dtype.to_string(),
            frames_per_s: args.camera.fps,
            bytes_per_s: args.camera.fps.map(|fps| fps * frame_bytes as f64),
        },
        cores,
        copy_bytes_per_s,
        folder: args.path.clone(),
        free_bytes,
        storage: storage.iter().map(|&(kind, bytes_per_s)| StorageRow { name: kind.name(), bytes_per_s }).collect(),
        advice: advice(&codecs),
        codecs,
    };
    if args.report.json {
        let json = serde_json::to_string(&findings).expect("findings hold only numbers and strings");
        say(&format!("{json}\n"))?;
    } else if !args.report.quiet {
        say(&findings.to_text())?;
    }
    Ok(if findings.advice.is_some() { 0 } else { exit::FRAMES_LOST })
}

fn candidates() -> [(&'static str, Compressor); 5] {
    let blosc = |cname| Compressor::Blosc { cname, level: 1, shuffle: Shuffle::Bit, block_bytes: 0 };
    [
        ("none", Compressor::None),
        ("blosc-noise", Compressor::BloscNoise { block_bytes: 0 }),
        ("blosc-lz4", blosc(BloscCname::Lz4)),
        ("blosc-zstd", blosc(BloscCname::Zstd)),
        ("auto", Compressor::Auto),
    ]
}

/// Bytes per second that all cores together copy.
fn copy_rate(frame: &[u8], cores: usize) -> f64 {
    let start = Instant::now();
    let copy = || {
        let mut to = vec![1; frame.len()];
        let mut copied = 0;
        while start.elapsed() < PART_TIME {
            to.copy_from_slice(std::hint::black_box(frame));
            copied += std::hint::black_box(&to).len();
        }
        copied
    };
    let copied: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(copy)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    });
    copied as f64 / start.elapsed().as_secs_f64()
}

/// Bytes per second that all cores encode, tile after tile of a frame, and what is left of a byte.
fn codec_rate(frame: &[u8], compressor: Compressor, element: usize, cores: usize) -> Result<(f64, f64), Failure> {
    let tile_bytes = (512 << 10).min(frame.len() / element * element);
    let codec = Codec::from(compressor);
    let start = Instant::now();
    let encode = || -> Result<(usize, usize), shardwright::Error> {
        let mut encoder = Encoder::new(&codec, element, tile_bytes)?;
        let mut room = vec![0; encoder.bound()];
        let (mut raw, mut encoded) = (0, 0);
        while start.elapsed() < PART_TIME {
            for tile in frame.chunks_exact(tile_bytes) {
                encoded += encoder.encode(tile, &mut room)?;
                raw += tile.len();
            }
        }
        Ok((raw, encoded))
    };
    let sums: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(encode)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect::<Result<_, _>>()
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let (raw, encoded) = sums.iter().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
    Ok((raw as f64 / seconds, encoded as f64 / raw.max(1) as f64))
}

fn try_codec(
    args: &ProbeArgs,
    folder: &Path,
    camera: &mut Synthetic,
    frame: &[u8],
    (codec, compressor): (&'static str, Compressor),
    (cores, free_bytes): (usize, u64),
) -> Result<CodecRow, Failure> {
    let dtype = args.camera.dtype;
    let codec_bytes_per_s = match compressor {
        Compressor::Auto => None,
        compressor => Some(codec_rate(frame, compressor, dtype.size(), cores)?.0),
    };
    let dims = vec![Dim::time(None), Dim::y(args.camera.height.into()), Dim::x(args.camera.width.into())];
    let path = folder.join("run.zarr");
    let config =
        Config { dtype, dims, codec: compressor.into(), overwrite: true, ..args.engine.config(camera.held_bytes()) };
    let acquisition = Acquisition::create(&path, config)?;
    let start = Instant::now();
    let mut number = 0;
    while start.elapsed() < args.seconds {
        go_on()?;
        let mut slot = acquisition.acquire()?;
        camera.read(number, &mut slot)?;
        slot.commit(number, Record::default())?;
        number += 1;
    }
    let summary = acquisition.finish().map_err(|unfinished| Failure::from(unfinished.error))?;
    let _ = fs::remove_dir_all(&path);
    let bytes_per_s = summary.bytes_in as f64 / summary.elapsed.as_secs_f64();
    let ratio = summary.bytes_in as f64 / summary.bytes_out.max(1) as f64;
    let wanted = args.camera.fps.map(|fps| fps * frame.len() as f64);
    Ok(CodecRow {
        codec,
        ratio,
        codec_bytes_per_s,
        bytes_per_s,
        frames_per_s: bytes_per_s / frame.len() as f64,
        storage: summary.storage,
        margin: wanted.map(|wanted| bytes_per_s / wanted),
        seconds_until_full: wanted.map(|wanted| free_bytes as f64 * ratio / wanted),
        notes: summary.notes,
    })
}

/// Of the codecs that keep up with room to spare, the one that writes least; if none has room to spare, the fastest
/// that keeps up. Without a camera's rate, the fastest.
fn advice(codecs: &[CodecRow]) -> Option<&'static str> {
    let fastest = codecs.iter().max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s))?;
    let margin = |row: &CodecRow| row.margin.unwrap_or(f64::INFINITY);
    if fastest.margin.is_none() {
        return Some(fastest.codec);
    }
    let at_ease = codecs.iter().filter(|row| margin(row) >= MARGIN_MIN);
    let smallest = at_ease.max_by(|a, b| a.ratio.total_cmp(&b.ratio));
    smallest.or(Some(fastest).filter(|row| margin(row) >= 1.0)).map(|row| row.codec)
}

impl ProbeFindings {
    fn to_text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| writeln!(text, "{name:<10}{value}").expect("a string takes it");
        let size = joined(&[self.camera.width.into(), self.camera.height.into()], " x ");
        let rate = match (self.camera.frames_per_s, self.camera.bytes_per_s) {
            (Some(fps), Some(bytes)) => format!(" at {fps} frames per second, {}/s", bytes_text(bytes)),
            _ => String::new(),
        };
        line("camera", format!("{size} {}{rate}", self.camera.dtype));
        line(
            "machine",
            format!("{}, copies {}/s in memory", count(self.cores, "core"), bytes_text(self.copy_bytes_per_s)),
        );
        line("folder", format!("{}, {} free", self.folder.display(), bytes_text(self.free_bytes as f64)));
        let rates = self.storage.iter().map(|row| format!("{} {}/s", row.name, bytes_text(row.bytes_per_s)));
        line("writing", rates.collect::<Vec<_>>().join(", "));
        let mut rows = table(["codec", "ratio", "codec alone", "whole run", "frames/s", "margin", "disk full after"]);
        for row in &self.codecs {
            rows.add_row([
                row.codec.to_owned(),
                format!("{:.2}", row.ratio),
                row.codec_bytes_per_s.map_or_else(String::new, |rate| format!("{}/s", bytes_text(rate))),
                format!("{}/s", bytes_text(row.bytes_per_s)),
                format!("{:.0}", row.frames_per_s),
                row.margin.map_or_else(String::new, |margin| format!("{margin:.2}")),
                row.seconds_until_full.map_or_else(String::new, duration_text),
            ]);
        }
        let notes = self.codecs.iter().flat_map(|row| row.notes.iter().map(|note| format!("{}: {note}\n", row.codec)));
        let notes = notes.collect::<String>();
        writeln!(text, "\n{}\n\n{notes}{}", rows.trim_fmt(), self.verdict()).expect("a string takes it");
        text
    }

    fn verdict(&self) -> String {
        let chosen = self.advice.and_then(|name| self.codecs.iter().find(|row| row.codec == name));
        let Some(row) = chosen else {
            let best = self.codecs.iter().filter_map(|row| row.margin).fold(0.0, f64::max);
            return format!(
                "This machine does not keep up: {:.0} % of the camera's rate at best. More cores or a faster disk \
                 would help.",
                100.0 * best
            );
        };
        let way = row.storage.split(' ').next().unwrap_or_default();
        match (row.margin, row.seconds_until_full) {
            (Some(margin), Some(seconds)) => {
                let ease = if margin < MARGIN_MIN { "Only just: nothing else should run beside it. " } else { "" };
                format!(
                    "It keeps up: {margin:.2} times the camera's rate with --codec {} (storage {way}); the disk is \
                     full after {}. {ease}",
                    row.codec,
                    duration_text(seconds)
                )
                .trim_end()
                .to_owned()
            }
            _ => {
                format!(
                    "At most {:.0} frames per second, with --codec {} (storage {way}).",
                    row.frames_per_s, row.codec
                )
            }
        }
    }
}

fn duration_text(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        ..172_800.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.0} days", seconds / 86400.0),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn row(codec: &'static str, ratio: f64, margin: Option<f64>) -> CodecRow {
        let bytes_per_s = margin.unwrap_or(1.0) * 1e9;
        CodecRow {
            codec,
            ratio,
            codec_bytes_per_s: Some(5e9),
            bytes_per_s,
            frames_per_s: 100.0,
            storage: "direct (as configured)".into(),
            margin,
            seconds_until_full: margin.map(|_| 90.0),
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_smallest_that_keeps_up_with_ease_is_advised() {
        let rows = |margins: [f64; 3]| {
            let rows = [("none", 1.0, margins[0]), ("noise", 2.5, margins[1]), ("zstd", 3.0, margins[2])];
            rows.map(|(codec, ratio, margin)| row(codec, ratio, Some(margin)))
        };
        assert_eq!(advice(&rows([1.8, 2.9, 1.1])), Some("noise"));
        assert_eq!(advice(&rows([1.8, 2.9, 1.3])), Some("zstd"));
        assert_eq!(advice(&rows([1.02, 1.2, 0.4])), Some("noise"));
        assert_eq!(advice(&rows([0.9, 0.5, 0.4])), None);
        assert_eq!(advice(&[row("none", 1.0, None)]), Some("none"));
    }

    #[test]
    fn a_small_camera_is_probed_whole_and_nothing_stays_behind() {
        let folder = tempfile::tempdir().unwrap();
        let words = "--camera 64x48xu16@1 --seconds 0.1 --memory 16MiB --json".split_whitespace().map(str::to_owned);
        let words =
            ["shardwright".to_owned(), "probe".into(), folder.path().display().to_string()].into_iter().chain(words);
        let Command::Probe(args) = Cli::try_parse_from(words).unwrap().command else { panic!("another command") };
        assert_eq!(run(&args).unwrap(), 0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let nowhere = ProbeArgs { path: folder.path().join("none"), ..args };
        assert!(run(&nowhere).unwrap_err().to_string().contains("can't create a folder"));
    }
}
