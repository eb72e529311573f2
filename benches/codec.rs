//! Encodes tiles with the encoders of this crate and with c-blosc and libzstd as they are built by default, in turns,
//! and prints the speeds of each one's fastest turn, their ratio, how much smaller each makes the tile, and how fast
//! libzstd or c-blosc decodes either. One core; pin it for steadier figures. NOTES.md beside this file says what was
//! tried and what it gave.

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
    println!("tiles of {TILE_SIDE} x {TILE_SIDE} pixels; ours against libraries', the fastest of {rounds} turns");
    println!(
        "{:<34} {:>6} {:>6} {:>7}  {:>7} {:>7}  {:>6} {:>6}",
        "", "MB/s", "theirs", "faster", "smaller", "theirs", "read", "theirs"
    );
    for element_bytes in [1, 2, 4, 8] {
        let tile = tile(element_bytes);
        let name = format!("{element_bytes}-byte pixels");
        let noise = Compressor::BloscNoise { block_bytes: 0 };
        compare(&format!("{name}, noise"), &tile, element_bytes, noise, rounds);
        compare_zstd(&name, &tile, element_bytes, rounds);
    }
    let tile = tile(2);
    compare_zstd("4-byte floating point", &floats(&tile), 4, rounds);
    for shuffle in [Shuffle::Bit, Shuffle::Byte] {
        for (cname, level) in [
            (BloscCname::Lz4, 1),
            (BloscCname::Lz4, 5),
            (BloscCname::Zstd, 3),
            (BloscCname::Lz4hc, 3),
            (BloscCname::Zlib, 1),
        ] {
            let name = format!("{}-{level} {shuffle:?}", cname.name());
            compare(&name, &tile, 2, Compressor::Blosc { cname, level, shuffle, block_bytes: 0 }, rounds);
        }
    }
}

/// With all that Zstandard is written by at its fast levels.
fn compare_zstd(name: &str, tile: &[u8], element_bytes: usize, rounds: usize) {
    for shuffle in [Shuffle::Bit, Shuffle::Byte] {
        let blosc = Compressor::Blosc { cname: BloscCname::Zstd, level: 1, shuffle, block_bytes: 0 };
        compare(&format!("{name}, zstd-1 {shuffle:?}"), tile, element_bytes, blosc, rounds);
    }
    for level in [1, -1, -7] {
        compare(&format!("{name}, bare zstd {level}"), tile, element_bytes, Compressor::Zstd { level }, rounds);
    }
}

/// Electrons, from the counts of a camera.
fn floats(counts: &[u8]) -> Vec<u8> {
    let pixels = counts.chunks_exact(2).map(|pixel| f32::from(u16::from_le_bytes([pixel[0], pixel[1]])));
    pixels.flat_map(|counts| ((counts - 100.0) / 2.17).to_le_bytes()).collect()
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
    let mut library = Library::new(compressor, element_bytes);
    let room_bytes = encoder.bound().max(zstd_safe::compress_bound(tile.len()));
    let (mut our_room, mut their_room) = (vec![0; room_bytes], vec![0; room_bytes]);
    let mut decoded = vec![0; tile.len()];
    let mut fastest = [Duration::MAX; 4];
    let (mut our_bytes, mut their_bytes) = (0, 0);
    for _ in 0..rounds {
        let mut timed = |place: usize, work: &mut dyn FnMut()| {
            let start = Instant::now();
            work();
            fastest[place] = fastest[place].min(start.elapsed());
        };
        timed(0, &mut || our_bytes = encoder.encode(tile, &mut our_room).expect("the tile is whole"));
        timed(1, &mut || their_bytes = library.encode(tile, &mut their_room));
        timed(2, &mut || library.decode(&our_room[..our_bytes], &mut decoded));
        assert!(decoded == tile, "{label}: decoded wrongly");
        timed(3, &mut || library.decode(&their_room[..their_bytes], &mut decoded));
    }
    let [ours, theirs, read, read_theirs] = fastest.map(|time| tile.len() as f64 / time.as_secs_f64() / 1e6);
    println!(
        "{label:<34} {ours:>6.0} {theirs:>6.0} {:>6.2}x  {:>7.3} {:>7.3}  {read:>6.0} {read_theirs:>6.0}",
        ours / theirs,
        tile.len() as f64 / our_bytes as f64,
        tile.len() as f64 / their_bytes as f64,
    );
}

/// What a user would otherwise call.
struct Library {
    compressor: Compressor,
    element_bytes: usize,
    writing: zstd_safe::CCtx<'static>,
    reading: zstd_safe::DCtx<'static>,
}

impl Library {
    fn new(compressor: Compressor, element_bytes: usize) -> Self {
        let (writing, reading) = (zstd_safe::CCtx::create(), zstd_safe::DCtx::create());
        Self { compressor, element_bytes, writing, reading }
    }

    fn encode(&mut self, tile: &[u8], room: &mut [u8]) -> usize {
        let (cname, level, shuffle) = match self.compressor {
            Compressor::Zstd { level } => {
                return self.writing.compress(room, tile, level).expect("libzstd encodes what has room");
            }
            Compressor::Blosc { cname, level, shuffle, .. } => (cname, level, shuffle),
            _ => (BloscCname::Lz4, 1, Shuffle::Bit),
        };
        let name = CString::new(cname.name()).expect("names hold no zeros");
        c_blosc(tile, self.element_bytes, room, &name, level, shuffle)
    }

    fn decode(&mut self, encoded: &[u8], decoded: &mut [u8]) {
        if matches!(self.compressor, Compressor::Zstd { .. }) {
            self.reading.decompress(decoded, encoded).expect("libzstd decodes it");
            return;
        }
        // SAFETY: the frame was made just now, and the lengths are those of the slices.
        let got = unsafe {
            blosc_src::blosc_decompress_ctx(encoded.as_ptr().cast(), decoded.as_mut_ptr().cast(), decoded.len(), 1)
        };
        assert_eq!(usize::try_from(got), Ok(decoded.len()), "c-blosc decodes it");
    }
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
