//! Encodes one noisy camera tile with the encoders of this crate and with c-blosc as it is built by default, in turns,
//! and prints the median speeds, their ratio, and both compression ratios. One core; pin it for steadier figures.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::time::{Duration, Instant};

use shardwright::codec::Encoder;
use shardwright::{BloscCname, Codec, Compressor, Shuffle};

const TILE_PIXELS: usize = 512 * 512;
const ROUNDS: usize = 41;

fn main() {
    // `cargo test` runs benches too, to see that they work; one round tells.
    let rounds = if std::env::args().any(|argument| argument == "--bench") { ROUNDS } else { 1 };
    let tile = noise_tile();
    println!("tile of {} KiB; ours against c-blosc, medians of {rounds} turns", tile.len() >> 10);
    println!("{:<22} {:>9} {:>9} {:>7}   {:>7} {:>7}", "", "MB/s", "c-blosc", "faster", "smaller", "c-blosc");
    for shuffle in [Shuffle::Bit, Shuffle::Byte] {
        for (cname, level) in [
            (BloscCname::Lz4, 1),
            (BloscCname::Lz4, 5),
            (BloscCname::Zstd, 1),
            (BloscCname::Zstd, 3),
            (BloscCname::Lz4hc, 3),
            (BloscCname::Zlib, 1),
        ] {
            compare(&tile, cname, level, shuffle, rounds);
        }
    }
}

fn compare(tile: &[u8], cname: BloscCname, level: u8, shuffle: Shuffle, rounds: usize) {
    let compressor = Compressor::Blosc { cname, level, shuffle, block_bytes: 0 };
    let mut encoder = Encoder::new(&Codec { compressor, checksum: false }, 2, tile.len()).expect("a valid codec");
    let mut room = vec![0; encoder.bound()];
    let name = CString::new(cname.name()).expect("names hold no zeros");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let (mut our_bytes, mut their_bytes) = (0, 0);
    for _ in 0..rounds {
        let start = Instant::now();
        our_bytes = encoder.encode(tile, &mut room).expect("the tile is whole");
        ours.push(start.elapsed());
        let start = Instant::now();
        their_bytes = c_blosc(tile, &mut room, &name, level, shuffle);
        theirs.push(start.elapsed());
    }
    let (ours, theirs) = (megabytes_per_second(tile, ours), megabytes_per_second(tile, theirs));
    println!(
        "{:<22} {ours:>9.0} {theirs:>9.0} {:>6.2}x   {:>7.3} {:>7.3}",
        format!("{}-{level} {shuffle:?}", cname.name()),
        ours / theirs,
        tile.len() as f64 / our_bytes as f64,
        tile.len() as f64 / their_bytes as f64,
    );
}

fn c_blosc(tile: &[u8], room: &mut [u8], cname: &CString, level: u8, shuffle: Shuffle) -> usize {
    // SAFETY: the lengths are those of the slices, and the name ends with a zero.
    let written = unsafe {
        blosc_src::blosc_compress_ctx(
            i32::from(level),
            shuffle as i32,
            2,
            tile.len(),
            tile.as_ptr().cast(),
            room.as_mut_ptr().cast(),
            room.len(),
            cname.as_ptr(),
            0,
            1,
        )
    };
    usize::try_from(written).expect("c-blosc encodes what has room")
}

fn megabytes_per_second(tile: &[u8], mut times: Vec<Duration>) -> f64 {
    times.sort();
    tile.len() as f64 / times[times.len() / 2].as_secs_f64() / 1e6
}

/// Photons of a dim, uneven scene with their shot noise, read noise of 1.6 electrons, and an offset of 100 counts.
fn noise_tile() -> Vec<u8> {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let pixel = |i: usize| {
        let (x, y) = ((i % 512) as f64, (i / 512) as f64);
        let photons = 10.0 + 5.0 * (x / 60.0).sin() * (y / 90.0).cos();
        let electrons = random.poisson(photons) + 1.6 * random.gaussian();
        (100.0 + electrons).round().max(0.0) as u16
    };
    (0..TILE_PIXELS).map(pixel).flat_map(u16::to_le_bytes).collect()
}

/// xorshift64*, enough for noise.
struct Random(u64);

impl Random {
    /// In (0, 1].
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn gaussian(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Knuth's method: how many uniform factors it takes to fall below e^-mean.
    fn poisson(&mut self, mean: f64) -> f64 {
        let limit = (-mean).exp();
        let (mut product, mut count) = (self.uniform(), 0.0);
        while product > limit {
            product *= self.uniform();
            count += 1.0;
        }
        count
    }
}
