//! What several test files need: frames with known pixels, and a dull model of what must come out.
#![allow(dead_code, unreachable_pub)]

pub mod books;
pub mod cases;
pub mod child;
pub mod disk;
pub mod fault_log;
pub mod stopped;
pub mod storage;
pub mod zip;

use std::path::{Path, PathBuf};

use shardwright::offline::{ManifestOptions, ManifestSummary, WriteManifest};
use shardwright::offline::{Recover, RecoverOptions, Recovery, Verification, Verify, VerifyOptions};
use shardwright::{Codec, Compressor, Config, Dim, Dtype};

/// The pixels of frame `number`: different in every byte that can tell frames, rows and columns apart.
pub fn frame(number: u64, bytes: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..bytes)
        .map(|at| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Half noise, half slow structure, so that codecs have something to do.
            if at % 2 == 0 { state as u8 } else { (number as usize + at / 16) as u8 }
        })
        .collect()
}

/// The array that a reader must see: C order, the frames that came in their places, the fill value elsewhere.
pub struct Expected {
    pub shape: Vec<u64>,
    pub pixels: Vec<u8>,
    frame_bytes: usize,
}

impl Expected {
    /// An array of `shape` full of zeros.
    pub fn new(shape: &[u64], dtype: Dtype) -> Self {
        let count: u64 = shape.iter().product();
        let frame: u64 = shape[shape.len() - 2..].iter().product();
        Self {
            shape: shape.to_vec(),
            pixels: vec![0; count as usize * dtype.size()],
            frame_bytes: frame as usize * dtype.size(),
        }
    }

    /// Puts frame `number` where the acquisition order says. The arithmetic is deliberately naive.
    pub fn put(&mut self, config: &Config, number: u64, pixels: &[u8]) {
        let outer = config.dims.len() - 2;
        let names: Vec<&str> = match &config.acquisition_order[..] {
            [] => config.dims[..outer].iter().map(|dim| dim.name.as_str()).collect(),
            order => order.iter().map(String::as_str).collect(),
        };
        let mut position = vec![0; outer];
        let mut rest = number;
        for name in names.iter().rev() {
            let dim = config.dims.iter().position(|dim| dim.name == *name).unwrap();
            let size = config.dims[dim].size.unwrap_or(u64::MAX);
            position[dim] = rest % size;
            rest /= size;
        }
        let place = position.iter().zip(&self.shape).fold(0, |place, (at, size)| place * size + at) as usize;
        self.pixels[place * self.frame_bytes..][..self.frame_bytes].copy_from_slice(pixels);
    }
}

/// A configuration of tiny frames, 16 by 16 bytes, one chunk each and four a shard, uncompressed, with a ring of `ring`
/// buffers and one worker.
pub fn tiny(frames: Option<u64>, ring: usize) -> Config {
    Config {
        dtype: Dtype::U8,
        dims: vec![Dim::time(frames).chunk(1).shard(4), Dim::y(16), Dim::x(16)],
        codec: Codec::from(Compressor::None),
        ring_bytes: ring * 4096,
        workers: 1,
        sync: false,
        ..Config::default()
    }
}

/// A configuration of nine frames whose edges are no chunk's.
pub fn movie_config() -> Config {
    Config {
        dtype: Dtype::U16,
        dims: vec![Dim::time(9).chunk(2).shard(4), Dim::y(40).chunk(16).shard(32), Dim::x(50).chunk(16).shard(48)],
        ring_bytes: 1 << 20,
        workers: 2,
        sync: false,
        ..Config::default()
    }
}

/// A finished movie of nine frames, some of them missing, so that some chunks are.
pub fn movie(folder: &Path, config: &Config) -> PathBuf {
    let path = folder.join("movie.ome.zarr");
    stopped::finished(&path, config, &[0, 1, 2, 3, 7, 8]);
    path
}

/// What a check of a dataset finds.
pub fn checked(path: impl AsRef<Path>) -> shardwright::Result<Verification> {
    Verify::new(path, &VerifyOptions::default())?.run()
}

/// What a recovery would change, or has changed.
pub fn recovered(path: impl AsRef<Path>, apply: bool) -> shardwright::Result<Recovery> {
    Recover::new(path, &RecoverOptions { apply, ..RecoverOptions::default() })?.run()
}

/// A folder on a disk, for tests whose subject is what a file system makes of files. All others take
/// `tempfile::tempdir`, which may be in memory.
pub fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Of how many cases that differ in little one is tried: `SHARDWRIGHT_FAULT_STEP` if it is set, and else `usual`.
pub fn fault_step(usual: usize) -> usize {
    std::env::var("SHARDWRIGHT_FAULT_STEP").map_or(usual, |step| step.parse().expect("one of how many cases is tried"))
}

/// The first of many cases that differ in little, and then one of this many; which of them, `turn` says.
pub fn some_cases(turn: usize, step: usize) -> impl Iterator<Item = usize> {
    std::iter::once(0).chain((1 + turn % step..).step_by(step))
}

/// Writes manifests of a dataset.
pub fn manifests(path: &Path, out: &Path, options: &ManifestOptions) -> shardwright::Result<ManifestSummary> {
    WriteManifest::new(path, Some(out), options)?.run()
}
