//! Encodes tiles with the encoders of this crate and with rivals, in turns, and prints the speeds of each one's fastest
//! turn, their ratio, how much smaller each makes the tile, and how fast a library decodes either. One core; pin it for
//! steadier figures. NOTES.md in the folder above says what was tried and what it gave.
//!
//! `cargo bench --bench codec -- [--recordings FOLDER] [--only WORDS] [--rounds N]`. The rivals are c-blosc and libzstd
//! as they are built by default, TRPX, and what Jungfraujoch writes: bitshuffle's blocks of 4096 pixels, with
//! Zstandard, for which c-blosc's bit shuffle and blocks of that size stand. With `--recordings`, a tile from the
//! middle of the first frame of each TIFF in the folder is encoded instead of tiles of models; they are read by the
//! command that SHARDWRIGHT_COMMAND names, or that is built for it.
//!
//! With `RUSTFLAGS="--cfg sw_forms"`, `--newest baseline`, `avx2` or `gfni` leaves newer instructions alone.

#![allow(unsafe_code)]

#[path = "../camera/mod.rs"]
mod camera;
mod rivals;
mod tiles;
mod trpx;

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use rivals::{Library, Rival};
use shardwright::codec::Encoder;
use shardwright::{BloscCname, Codec, Compressor, Shuffle};
use tiles::TILE_SIDE;

const ROUNDS: usize = 41;
/// Pixels of a block of bitshuffle in Jungfraujoch's files.
const JUNGFRAUJOCH_PIXELS: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test` runs benches too, to see that they work; one round tells.
    let is_bench = words.iter().any(|word| word == "--bench");
    words.retain(|word| word != "--bench");
    let mut recordings = None;
    let mut bench = Bench { rounds: if is_bench { ROUNDS } else { 1 }, only: "" };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word}: expected a value behind it"))?;
        match word.as_str() {
            "--recordings" => recordings = Some(value),
            "--only" => bench.only = value,
            "--rounds" => {
                bench.rounds = value.parse::<usize>().map_err(|error| format!("--rounds {value}: {error}"))?
            }
            "--newest" => leave_alone_but(value)?,
            _ => return Err(format!("{word}: expected --recordings, --only, --rounds or --newest").into()),
        }
    }
    trpx::check();
    println!("tiles of {TILE_SIDE} x {TILE_SIDE} pixels; ours against rivals', the fastest of {} turns", bench.rounds);
    println!(
        "{:<42} {:>6} {:>6} {:>7}  {:>7} {:>7}  {:>6} {:>6}",
        "", "MB/s", "theirs", "faster", "smaller", "theirs", "read", "theirs"
    );
    match recordings {
        Some(folder) => bench.compare_recordings(Path::new(folder)),
        None => {
            bench.compare_models();
            Ok(())
        }
    }
}

#[cfg(all(sw_forms, target_arch = "x86_64"))]
fn leave_alone_but(newest: &str) -> Result<(), Box<dyn Error>> {
    use shardwright::codec::{Generation, allow};
    let newest = match newest {
        "baseline" => Generation::Baseline,
        "avx2" => Generation::Avx2,
        "gfni" => Generation::Gfni,
        "avx512" => Generation::Avx512,
        _ => return Err(format!("--newest {newest}: expected baseline, avx2, gfni or avx512").into()),
    };
    allow(newest);
    Ok(())
}

#[cfg(not(all(sw_forms, target_arch = "x86_64")))]
fn leave_alone_but(newest: &str) -> Result<(), Box<dyn Error>> {
    Err(format!("--newest {newest}: needs RUSTFLAGS=\"--cfg sw_forms\", on x86-64").into())
}

/// What is asked for.
struct Bench<'a> {
    rounds: usize,
    /// Cases whose names contain this.
    only: &'a str,
}

impl Bench<'_> {
    fn compare_models(&self) {
        for element_bytes in [1, 2, 4, 8] {
            let tile = tiles::camera_noise(element_bytes);
            let name = format!("{element_bytes}-byte pixels");
            self.compare_noise(&name, &tile, element_bytes);
            self.compare_zstd(&name, &tile, element_bytes);
            if element_bytes <= 4 {
                self.compare_detectors(&name, &tile, element_bytes);
            }
        }
        for element_bytes in [2, 4] {
            let name = format!("{element_bytes}-byte counts");
            let tile = tiles::diffraction(element_bytes);
            self.compare_noise(&name, &tile, element_bytes);
            self.compare_detectors(&name, &tile, element_bytes);
        }
        let tile = tiles::camera_noise(2);
        self.compare_zstd("4-byte floating point", &tiles::floats(&tile), 4);
        for shuffle in [Shuffle::Bit, Shuffle::Byte] {
            for (cname, level) in [
                (BloscCname::Lz4, 1),
                (BloscCname::Lz4, 5),
                (BloscCname::Zstd, 3),
                (BloscCname::Lz4hc, 3),
                (BloscCname::Zlib, 1),
            ] {
                self.compare_blosc("", &tile, 2, (cname, level, shuffle));
            }
        }
    }

    fn compare_recordings(&self, folder: &Path) -> Result<(), Box<dyn Error>> {
        for recorded in tiles::recordings(folder)? {
            let (name, tile, element_bytes) = (&recorded.name, &recorded.bytes, recorded.element_bytes);
            self.compare_noise(name, tile, element_bytes);
            self.compare_zstd(name, tile, element_bytes);
            if !recorded.is_float && element_bytes <= 4 {
                self.compare_detectors(name, tile, element_bytes);
            }
        }
        Ok(())
    }

    fn compare_noise(&self, name: &str, tile: &[u8], element_bytes: usize) {
        let (cname, level, shuffle) = (BloscCname::Lz4, 1, Shuffle::Bit);
        let rival = Rival::Blosc { cname, level, shuffle, block_bytes: 0 };
        self.compare(
            &format!("{name}, noise"),
            tile,
            element_bytes,
            (Compressor::BloscNoise { block_bytes: 0 }, rival),
        );
    }

    fn compare_blosc(
        &self,
        name: &str,
        tile: &[u8],
        element_bytes: usize,
        (cname, level, shuffle): (BloscCname, u8, Shuffle),
    ) {
        let ours = Compressor::Blosc { cname, level, shuffle, block_bytes: 0 };
        let rival = Rival::Blosc { cname, level, shuffle, block_bytes: 0 };
        let label = if name.is_empty() { rival.to_string() } else { format!("{name}, {rival}") };
        self.compare(&label, tile, element_bytes, (ours, rival));
    }

    /// With all that Zstandard is written by at its fast levels.
    fn compare_zstd(&self, name: &str, tile: &[u8], element_bytes: usize) {
        for shuffle in [Shuffle::Bit, Shuffle::Byte] {
            self.compare_blosc(name, tile, element_bytes, (BloscCname::Zstd, 1, shuffle));
        }
        for level in [1, -1, -7] {
            let label = format!("{name}, bare zstd {level}");
            self.compare(&label, tile, element_bytes, (Compressor::Zstd { level }, Rival::Zstd { level }));
        }
    }

    /// With what detectors of photons and electrons are written by.
    fn compare_detectors(&self, name: &str, tile: &[u8], element_bytes: usize) {
        let (cname, level, shuffle) = (BloscCname::Zstd, 1, Shuffle::Bit);
        let ours = Compressor::Blosc { cname, level, shuffle, block_bytes: 0 };
        let blocks = Rival::Blosc { cname, level, shuffle, block_bytes: JUNGFRAUJOCH_PIXELS * element_bytes };
        for rival in [blocks, Rival::Trpx] {
            self.compare(&format!("{name}, ours zstd-1 Bit, {rival}"), tile, element_bytes, (ours, rival));
        }
    }

    fn compare(&self, label: &str, tile: &[u8], element_bytes: usize, (ours, rival): (Compressor, Rival)) {
        if !label.contains(self.only) {
            return;
        }
        let codec = Codec { compressor: ours, checksum: false };
        let mut encoder = Encoder::new(&codec, element_bytes, tile.len()).expect("a valid codec");
        let mut library = Library::new(rival, element_bytes);
        // What decodes ours is the library of its format.
        let mut reader = Library::new(format_of(ours), element_bytes);
        let room_bytes = encoder.bound().max(library.bound(tile.len()));
        let (mut our_room, mut their_room) = (vec![0; room_bytes], vec![0; room_bytes]);
        let mut decoded = vec![0; tile.len()];
        let mut fastest = [Duration::MAX; 4];
        let (mut our_bytes, mut their_bytes) = (0, 0);
        for _ in 0..self.rounds {
            let mut timed = |place: usize, work: &mut dyn FnMut()| {
                let start = Instant::now();
                work();
                fastest[place] = fastest[place].min(start.elapsed());
            };
            timed(0, &mut || our_bytes = encoder.encode(tile, &mut our_room).expect("the tile is whole"));
            timed(1, &mut || their_bytes = library.encode(tile, &mut their_room));
            timed(2, &mut || reader.decode(&our_room[..our_bytes], &mut decoded));
            assert!(decoded == tile, "{label}: decoded wrongly");
            decoded.fill(0xA5);
            timed(3, &mut || library.decode(&their_room[..their_bytes], &mut decoded));
            assert!(decoded == tile, "{label}: the rival's decoded wrongly");
        }
        let [ours, theirs, read, read_theirs] = fastest.map(|time| tile.len() as f64 / time.as_secs_f64() / 1e6);
        println!(
            "{label:<42} {ours:>6.0} {theirs:>6.0} {:>6.2}x  {:>7.3} {:>7.3}  {read:>6.0} {read_theirs:>6.0}",
            ours / theirs,
            tile.len() as f64 / our_bytes as f64,
            tile.len() as f64 / their_bytes as f64,
        );
    }
}

fn format_of(compressor: Compressor) -> Rival {
    match compressor {
        Compressor::Zstd { level } => Rival::Zstd { level },
        _ => Rival::Blosc { cname: BloscCname::Lz4, level: 1, shuffle: Shuffle::Bit, block_bytes: 0 },
    }
}
