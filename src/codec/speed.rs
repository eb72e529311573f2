//! How fast some cores together encode noise that lies in a camera's frames, and how small it becomes.

use std::ops::Range;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::{Effort, Encoder, TileSource};
use crate::config::{Codec, Compressor};
use crate::dtype::Dtype;
use crate::error::Result;
use crate::sync::Unpoisoned;

const TILE_BYTES: usize = 256 << 10;
const ROW_BYTES: usize = 1 << 10;
// Tiles lie side by side, as in a frame of 2048 columns of 16 bits.
const STRIDE_BYTES: usize = 4 * ROW_BYTES;
/// More than a cache holds: a tile comes from memory, once.
const FRAMES_BYTES: usize = 48 << 20;
// Of each compressor and effort. More is not worth the wait of `create`.
const TIME: Duration = Duration::from_millis(6);

/// How a codec does with noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Speed {
    pub(crate) compressor: Compressor,
    pub(crate) effort: Effort,
    /// Of pixels, by all cores together.
    pub(crate) bytes_per_s: f64,
    /// Bytes of pixels a byte that is made of them.
    pub(crate) ratio: f64,
}

/// What was found out before: a process that starts many runs tries once.
static KNOWN: Mutex<Vec<(Conditions, Speed)>> = Mutex::new(Vec::new());

/// What a trial depends on: the type of the pixels, whether chunks have a checksum, how many cores.
type Conditions = (Dtype, bool, usize);

/// How each codec, with its effort, does with noise of pixels of this type, on this many cores at once.
pub(crate) fn speeds(codecs: &[(Codec, Effort)], dtype: Dtype, cores: usize) -> Result<Vec<Speed>> {
    let mut known = KNOWN.lock().unpoisoned();
    let mut frames = Vec::new();
    let mut speeds = Vec::new();
    for (codec, effort) in codecs {
        let conditions = (dtype, codec.checksum, cores);
        let is_it = |(of, speed): &&(Conditions, Speed)| {
            *of == conditions && (speed.compressor, speed.effort) == (codec.compressor, *effort)
        };
        if let Some((_, speed)) = known.iter().find(is_it) {
            speeds.push(*speed);
            continue;
        }
        if frames.is_empty() {
            frames = noise(dtype).repeat(FRAMES_BYTES / TILE_BYTES);
        }
        let speed = measure(codec, *effort, dtype, cores, &frames)?;
        known.push((conditions, speed));
        speeds.push(speed);
    }
    Ok(speeds)
}

fn measure(codec: &Codec, effort: Effort, dtype: Dtype, cores: usize, frames: &[u8]) -> Result<Speed> {
    let start = Barrier::new(cores);
    let encode = |core: usize| -> Result<(f64, f64)> {
        let encoder = Encoder::new(codec, dtype.size(), TILE_BYTES);
        start.wait();
        let mut encoder = encoder?;
        encoder.set_effort(effort);
        let (mut raw, mut room) = (vec![0; TILE_BYTES], vec![0; encoder.bound()]);
        // The first finds everything cold, and does not count.
        let (mut from, mut pixels, mut bytes) = (Instant::now(), 0, 0);
        for (turn, tile) in tiles(frames).skip(core).step_by(cores).enumerate() {
            if turn > 1 && from.elapsed() > TIME {
                break;
            }
            let encoded = match encoder.gathers() {
                true => encoder.encode_from(&tile, &mut raw, &mut room)?,
                false => encoder.encode(tile.gathered(0..TILE_BYTES, &mut raw), &mut room)?,
            };
            match turn {
                0 => from = Instant::now(),
                _ => (pixels, bytes) = (pixels + TILE_BYTES, bytes + encoded),
            }
        }
        let seconds = from.elapsed().as_secs_f64().max(1e-9);
        Ok((pixels as f64 / seconds, pixels as f64 / bytes.max(1) as f64))
    };
    let of_cores = thread::scope(|scope| {
        let encode = &encode;
        let others: Vec<_> = (1..cores).map(|core| scope.spawn(move || encode(core))).collect();
        let own = encode(0);
        // Whoever panicked would do so in the run, too, which then says so.
        let others = others.into_iter().filter_map(|core| core.join().ok());
        std::iter::once(own).chain(others).collect::<Result<Vec<_>>>()
    })?;
    let bytes_per_s = of_cores.iter().map(|(rate, _)| rate).sum();
    Ok(Speed { compressor: codec.compressor, effort, bytes_per_s, ratio: of_cores[0].1 })
}

/// All whole tiles in memory that is full of frames.
fn tiles(frames: &[u8]) -> impl Iterator<Item = StridedTile<'_>> {
    let rows = TILE_BYTES / ROW_BYTES;
    frames
        .chunks_exact(rows * STRIDE_BYTES)
        .flat_map(|band| (0..STRIDE_BYTES).step_by(ROW_BYTES).map(|column| StridedTile { from_first: &band[column..] }))
}

/// A tile whose rows lie in a frame that is wider.
struct StridedTile<'a> {
    from_first: &'a [u8],
}

impl TileSource for StridedTile<'_> {
    fn bytes(&self) -> usize {
        TILE_BYTES
    }

    fn show(&self, mut range: Range<usize>, to: &mut dyn FnMut(&[u8])) {
        while !range.is_empty() {
            let (row, column) = (range.start / ROW_BYTES, range.start % ROW_BYTES);
            let length = range.len().min(ROW_BYTES - column);
            to(&self.from_first[row * STRIDE_BYTES + column..][..length]);
            range.start += length;
        }
    }

    fn in_one(&self, range: Range<usize>) -> Option<&[u8]> {
        let (row, column) = (range.start / ROW_BYTES, range.start % ROW_BYTES);
        (column + range.len() <= ROW_BYTES && row * ROW_BYTES < TILE_BYTES)
            .then(|| &self.from_first[row * STRIDE_BYTES + column..][..range.len()])
    }
}

/// Numbers of 31 bits in an order that is always the same.
pub(super) fn random(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}

/// A tile of a dark image: an offset with the read and shot noise of a scientific camera, some 6 counts. Single bytes
/// count in steps of four, and floating-point pixels are noise to their last bit, as what was calibrated is.
fn noise(dtype: Dtype) -> Vec<u8> {
    const OFFSET: u64 = 80;
    const SPREAD: u64 = 12;
    let mut random = random(1);
    let mut tile = Vec::with_capacity(TILE_BYTES);
    while tile.len() < TILE_BYTES {
        let counts = OFFSET + (0..4).map(|_| random() % SPREAD).sum::<u64>();
        let exactly = counts as f64 + random() as f64 / (1_u64 << 31) as f64;
        match dtype {
            Dtype::F32 => tile.extend((exactly as f32).to_ne_bytes()),
            Dtype::F64 => tile.extend(exactly.to_ne_bytes()),
            Dtype::U8 | Dtype::I8 => tile.push((counts / 4) as u8),
            Dtype::U16 | Dtype::I16 => tile.extend((counts as u16).to_ne_bytes()),
            Dtype::U32 | Dtype::I32 => tile.extend((counts as u32).to_ne_bytes()),
            Dtype::U64 | Dtype::I64 => tile.extend(counts.to_ne_bytes()),
        }
    }
    tile
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BloscCname, Shuffle};

    #[test]
    fn noise_of_every_type_is_measured_once() {
        let zstd = Compressor::Blosc { cname: BloscCname::Zstd, level: 1, shuffle: Shuffle::Bit, block_bytes: 0 };
        let [lz4, zstd] = [Compressor::default(), zstd].map(Codec::from);
        let codecs = [(lz4.clone(), Effort::Normal), (zstd, Effort::Normal), (lz4, Effort::Stored)];
        for &dtype in Dtype::ALL {
            assert_eq!(noise(dtype).len(), TILE_BYTES);
            let found = speeds(&codecs, dtype, 2).unwrap();
            let [lz4, zstd, stored] = found[..] else { panic!("{found:?}") };
            assert!(found.iter().all(|speed| speed.bytes_per_s > 0.0 && speed.ratio >= 0.99), "{dtype}: {found:?}");
            assert!(zstd.ratio > lz4.ratio * 0.99, "{dtype}: {found:?}");
            assert!((0.99..=1.0).contains(&stored.ratio), "{dtype}: {found:?}");
            assert_eq!(speeds(&codecs, dtype, 2).unwrap(), found, "what is known is not measured again");
        }
    }

    #[test]
    fn tiles_are_their_rows() {
        let frames: Vec<u8> = (0..4 * TILE_BYTES * 2).map(|at| (at / 7 % 251) as u8).collect();
        let all: Vec<_> = tiles(&frames).collect();
        assert_eq!(all.len(), 8);
        for (number, tile) in all.iter().enumerate() {
            let (band, column) = (number / 4 * 4 * TILE_BYTES, number % 4 * ROW_BYTES);
            let mut room = vec![0; TILE_BYTES];
            let copied = tile.gathered(0..TILE_BYTES, &mut room);
            for (row, pixels) in copied.chunks(ROW_BYTES).enumerate() {
                assert!(pixels == &frames[band + row * STRIDE_BYTES + column..][..ROW_BYTES], "{number} {row}");
            }
            for range in [0..TILE_BYTES, 5..5, 1000..5000, TILE_BYTES..TILE_BYTES] {
                let mut shown: Vec<u8> = Vec::new();
                tile.show(range.clone(), &mut |piece| shown.extend(piece));
                assert!(shown == copied[range.clone()], "{number} {range:?}");
                assert!(tile.in_one(range.clone()).is_none_or(|there| there == &shown[..]));
            }
        }
    }
}
