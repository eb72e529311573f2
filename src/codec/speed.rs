//! How fast a core encodes noise, and how small it becomes.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Effort, Encoder};
use crate::config::{Codec, Compressor};
use crate::dtype::Dtype;
use crate::error::Result;

const TILE_BYTES: usize = 256 << 10;
// Of each compressor and effort, after a first turn that finds everything cold. More is not worth the wait of `create`.
const TURNS: u32 = 4;
const TIME: Duration = Duration::from_millis(2);

/// How a codec does with noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Speed {
    pub(crate) compressor: Compressor,
    pub(crate) effort: Effort,
    /// Of pixels, by one core.
    pub(crate) bytes_per_s: f64,
    /// Bytes of pixels a byte that is made of them.
    pub(crate) ratio: f64,
}

/// What was found out before: a process that starts many runs tries once.
static KNOWN: Mutex<Vec<(Dtype, bool, Speed)>> = Mutex::new(Vec::new());

/// How the codec does with noise of pixels of this type.
pub(crate) fn speed(codec: &Codec, effort: Effort, dtype: Dtype) -> Result<Speed> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |(of, checksum, speed): &&(Dtype, bool, Speed)| {
        (*of, *checksum) == (dtype, codec.checksum) && (speed.compressor, speed.effort) == (codec.compressor, effort)
    };
    if let Some((.., speed)) = known.iter().find(is_it) {
        return Ok(*speed);
    }
    let speed = measure(codec, effort, dtype)?;
    known.push((dtype, codec.checksum, speed));
    Ok(speed)
}

fn measure(codec: &Codec, effort: Effort, dtype: Dtype) -> Result<Speed> {
    let tile = noise(dtype);
    let mut encoder = Encoder::new(codec, dtype.size(), TILE_BYTES)?;
    encoder.set_effort(effort);
    let mut room = vec![0; encoder.bound()];
    let bytes = encoder.encode(&tile, &mut room)?;
    let (start, mut best) = (Instant::now(), Duration::MAX);
    for turn in 0..TURNS {
        if turn > 0 && start.elapsed() > TIME {
            break;
        }
        let start = Instant::now();
        encoder.encode(&tile, &mut room)?;
        best = best.min(start.elapsed());
    }
    let seconds = best.as_secs_f64().max(1e-9);
    let (bytes_per_s, ratio) = (TILE_BYTES as f64 / seconds, TILE_BYTES as f64 / bytes.max(1) as f64);
    Ok(Speed { compressor: codec.compressor, effort, bytes_per_s, ratio })
}

/// A tile of a dark image: an offset with the read and shot noise of a scientific camera, some 6 counts. Single bytes
/// count in steps of four, and floating-point pixels are noise to their last bit, as what was calibrated is.
fn noise(dtype: Dtype) -> Vec<u8> {
    const OFFSET: u64 = 80;
    const SPREAD: u64 = 12;
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
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
        for &dtype in Dtype::ALL {
            assert_eq!(noise(dtype).len(), TILE_BYTES);
            let [lz4, zstd] = [Compressor::default(), zstd].map(Codec::from);
            let normal = [&lz4, &zstd].map(|codec| speed(codec, Effort::Normal, dtype).unwrap());
            assert!(normal.iter().all(|speed| speed.bytes_per_s > 0.0 && speed.ratio >= 0.99), "{dtype}: {normal:?}");
            assert!(normal[1].ratio > normal[0].ratio * 0.99, "{dtype}: {normal:?}");
            assert_eq!(speed(&lz4, Effort::Normal, dtype).unwrap(), normal[0], "what is known is not measured again");
            let stored = speed(&lz4, Effort::Stored, dtype).unwrap();
            assert!((0.99..=1.0).contains(&stored.ratio), "{dtype}: {stored:?}");
        }
    }
}
