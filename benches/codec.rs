//! Encodes one noisy camera tile with the encoders of this crate and with c-blosc as it is built by default, in turns,
//! and prints the median speeds, their ratio, and both compression ratios. One core; pin it for steadier figures.
//! NOTES.md beside this file says what was tried and what it gave.

#![allow(unsafe_code)]

mod camera;

use std::ffi::CString;
use std::time::{Duration, Instant};

use shardwright::codec::Encoder;
use shardwright::{BloscCname, Codec, Compressor, Shuffle};

const FRAME_SIDE: usize = 1024;
const TILE_SIDE: usize = 512;
const ROUNDS: usize = 41;

fn main() {
    // `cargo test` runs benches too, to see that they work; one round tells.
    let rounds = if std::env::args().any(|argument| argument == "--bench") { ROUNDS } else { 1 };
    println!("tiles of {TILE_SIDE} x {TILE_SIDE} pixels; ours against c-blosc, medians of {rounds} turns");
    println!("{:<22} {:>9} {:>9} {:>7}   {:>7} {:>7}", "", "MB/s", "c-blosc", "faster", "smaller", "c-blosc");
    for element_bytes in [1, 2, 4, 8] {
        let noise = Compressor::BloscNoise { block_bytes: 0 };
        let name = format!("noise, {element_bytes}-byte pixels");
        compare(&name, &tile(element_bytes), element_bytes, noise, rounds);
    }
    let tile = tile(2);
    for shuffle in [Shuffle::Bit, Shuffle::Byte] {
        for (cname, level) in [
            (BloscCname::Lz4, 1),
            (BloscCname::Lz4, 5),
            (BloscCname::Zstd, 1),
            (BloscCname::Zstd, 3),
            (BloscCname::Lz4hc, 3),
            (BloscCname::Zlib, 1),
        ] {
            let name = format!("{}-{level} {shuffle:?}", cname.name());
            compare(&name, &tile, 2, Compressor::Blosc { cname, level, shuffle, block_bytes: 0 }, rounds);
        }
    }
}

/// A tile from the middle of a frame.
fn tile(element_bytes: usize) -> Vec<u8> {
    let (stride, row_bytes) = (FRAME_SIDE * element_bytes, TILE_SIDE * element_bytes);
    let first = (FRAME_SIDE - TILE_SIDE) / 2 * (stride + element_bytes);
    let mut tile = vec![0; TILE_SIDE * row_bytes];
    camera::gather(&camera::frame(FRAME_SIDE, element_bytes)[first..], stride, row_bytes, &mut tile);
    tile
}

fn compare(label: &str, tile: &[u8], element_bytes: usize, compressor: Compressor, rounds: usize) {
    let codec = Codec { compressor, checksum: false };
    let mut encoder = Encoder::new(&codec, element_bytes, tile.len()).expect("a valid codec");
    let (cname, level, shuffle) = match compressor {
        Compressor::Blosc { cname, level, shuffle, .. } => (cname, level, shuffle),
        _ => (BloscCname::Lz4, 1, Shuffle::Bit),
    };
    let mut room = vec![0; encoder.bound()];
    let name = CString::new(cname.name()).expect("names hold no zeros");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let (mut our_bytes, mut their_bytes) = (0, 0);
    for _ in 0..rounds {
        let start = Instant::now();
        our_bytes = encoder.encode(tile, &mut room).expect("the tile is whole");
        ours.push(start.elapsed());
        let start = Instant::now();
        their_bytes = c_blosc(tile, element_bytes, &mut room, &name, level, shuffle);
        theirs.push(start.elapsed());
    }
    let (ours, theirs) = (megabytes_per_second(tile, ours), megabytes_per_second(tile, theirs));
    println!(
        "{:<22} {ours:>9.0} {theirs:>9.0} {:>6.2}x   {:>7.3} {:>7.3}",
        label,
        ours / theirs,
        tile.len() as f64 / our_bytes as f64,
        tile.len() as f64 / their_bytes as f64,
    );
}

fn c_blosc(tile: &[u8], element_bytes: usize, room: &mut [u8], cname: &CString, level: u8, shuffle: Shuffle) -> usize {
    // SAFETY: the lengths are those of the slices, and the name ends with a zero.
    let written = unsafe {
        blosc_src::blosc_compress_ctx(
            i32::from(level),
            shuffle as i32,
            element_bytes,
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
