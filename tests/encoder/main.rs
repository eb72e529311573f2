//! Generated tiles through the encoders that are our own, and through every decoder of their formats that is here:
//! libzstd, ruzstd and c-blosc. By itself it is a short test; `tools/torture encoder` lets it run for long, builds it
//! with `--cfg sw_forms`, by which each tile is encoded with every set of instructions that this processor has, and has
//! further decoders read what it writes to files.
//!
//! It stands beside the other tests, so that it is built for release in a moment.

#![allow(unsafe_code)]

mod batch;
mod forms;
mod tiles;

use std::io::Read;

use batch::Batch;
use forms::Forms;
use shardwright::codec::{Decoder, Encoder};
use shardwright::{BloscCname, Codec, Compressor, Shuffle};
use tiles::Random;

/// Tiles that each encoder gets: what it remembers of one must not show in the next.
const TILES: usize = 4;
const NAME: &str = "SHARDWRIGHT_ENCODER";

/// What the run was told by the environment, if anything.
fn told(what: &str, otherwise: u64) -> u64 {
    let value = std::env::var(format!("{NAME}_{what}"));
    value.map_or(otherwise, |value| value.parse().unwrap_or_else(|_| panic!("{NAME}_{what}={value} is no number")))
}

#[test]
fn all_decoders_read_generated_tiles() {
    let (wanted, seed) = (told("BYTES", 8 << 20), told("SEED", 1));
    let mut batch = std::env::var_os(format!("{NAME}_FOLDER")).map(|folder| Batch::new(folder.as_ref()));
    let mut random = Random::new(seed);
    let (mut bytes, mut tiles) = (0, 0);
    while bytes < wanted {
        let element_bytes = [1, 2, 4, 8][random.below(4)];
        let tile_bytes = tiles::length(&mut random).next_multiple_of(element_bytes);
        let compressor = compressor(&mut random, element_bytes);
        let codec = Codec { compressor, checksum: false };
        let mut encoder = Encoder::new(&codec, element_bytes, tile_bytes).expect("a valid codec");
        let mut forms = Forms::new(&codec, element_bytes, tile_bytes);
        let mut decoder = Decoder::new(&codec, element_bytes, tile_bytes).expect("a valid codec");
        let mut room = vec![0; encoder.bound()];
        for _ in 0..TILES {
            let (kind, tile) = tiles::tile(&mut random, element_bytes, tile_bytes);
            let what =
                format!("tile {tiles} of seed {seed}: {kind}, {tile_bytes} bytes of {element_bytes}, {compressor:?}");
            let written = encoder.encode(&tile, &mut room).unwrap_or_else(|error| panic!("{what}: {error}"));
            let encoded = &room[..written];
            forms.check(&tile, encoded, &what);
            let mut decoded = vec![0xA5; tile_bytes];
            decoder.decode(encoded, &mut decoded).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(decoded == tile, "{what}: decoded wrongly");
            match compressor {
                Compressor::Zstd { .. } => check_zstd(encoded, &tile, &what),
                _ => check_blosc(encoded, &tile, &what),
            }
            if let Some(batch) = &mut batch {
                batch.add(matches!(compressor, Compressor::Zstd { .. }), encoded, &tile);
            }
            bytes += tile_bytes as u64;
            tiles += 1;
        }
    }
    println!("{tiles} tiles, {bytes} bytes, seed {seed}; written alike by {}", forms::names());
}

/// What our own encoders write, whole or in part.
fn compressor(random: &mut Random, element_bytes: usize) -> Compressor {
    let block_bytes = [0, 0, 0, 128, 4096, 20_000, 300_000][random.below(7)];
    let shuffle = [Shuffle::None, Shuffle::Byte, Shuffle::Bit][random.below(3)];
    match random.below(8) {
        0..3 => Compressor::Zstd { level: [1, -1, -7][random.below(3)] },
        3..6 => Compressor::Blosc { cname: BloscCname::Zstd, level: 1, shuffle, block_bytes },
        6 => Compressor::BloscNoise { block_bytes: block_bytes.next_multiple_of(element_bytes) },
        _ => Compressor::Blosc { cname: BloscCname::Lz4, level: 1, shuffle, block_bytes },
    }
}

fn check_zstd(encoded: &[u8], tile: &[u8], what: &str) {
    let mut decoded = vec![0xA5; tile.len()];
    let got = zstd_safe::decompress(&mut decoded[..], encoded).map_err(zstd_safe::get_error_name);
    assert_eq!(got, Ok(tile.len()), "{what}: by libzstd");
    assert!(decoded == tile, "{what}: decoded wrongly by libzstd");
    decoded.clear();
    let mut rest = encoded;
    let mut frame =
        ruzstd::decoding::StreamingDecoder::new(&mut rest).unwrap_or_else(|error| panic!("{what}: by ruzstd: {error}"));
    frame.read_to_end(&mut decoded).unwrap_or_else(|error| panic!("{what}: by ruzstd: {error}"));
    assert!(decoded == tile, "{what}: decoded wrongly by ruzstd");
}

fn check_blosc(encoded: &[u8], tile: &[u8], what: &str) {
    let mut decoded = vec![0xA5; tile.len()];
    // SAFETY: the frame's own length, which the decoder above found to be right, is what c-blosc goes by, and the
    // lengths of the target are those of the slice.
    let got = unsafe {
        blosc_src::blosc_decompress_ctx(encoded.as_ptr().cast(), decoded.as_mut_ptr().cast(), decoded.len(), 1)
    };
    assert_eq!(usize::try_from(got), Ok(tile.len()), "{what}: by c-blosc");
    assert!(decoded == tile, "{what}: decoded wrongly by c-blosc");
}
