//! Tiles through our own encoders: whatever they hold, and whatever the encoder had before, they are decoded to
//! themselves by libzstd and c-blosc.
//!
//! Byte 0 says the codec, byte 1 how often the rest is repeated, which gets past the sizes below which tiles are not
//! looked at closely, and byte 2 in which steps bytes are added to the repeats, so that they are not all the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardwright::codec::{Decoder, Encoder};
use shardwright::{BloscCname, Codec, Compressor, Shuffle};

fuzz_target!(|data: &[u8]| {
    let Some((&[codec, repeats, step], part)) = data.split_first_chunk::<3>() else { return };
    let element_bytes = 1 << (codec & 3);
    let zstd = |shuffle| Compressor::Blosc { cname: BloscCname::Zstd, level: 1, shuffle, block_bytes: 0 };
    let compressor = match codec >> 2 & 7 {
        0..2 => Compressor::Zstd { level: 1 },
        2 => Compressor::Zstd { level: -1 },
        3 => zstd(Shuffle::None),
        4 => zstd(Shuffle::Byte),
        5 | 6 => zstd(Shuffle::Bit),
        _ => Compressor::BloscNoise { block_bytes: 0 },
    };
    let times = 1 + usize::from(repeats);
    let mut tile: Vec<u8> = (0..times)
        .flat_map(|time| part.iter().map(move |byte| byte.wrapping_add(step.wrapping_mul(time as u8))))
        .collect();
    tile.truncate(tile.len() / element_bytes * element_bytes);
    if tile.is_empty() {
        return;
    }
    let codec = Codec { compressor, checksum: false };
    let mut encoder = Encoder::new(&codec, element_bytes, tile.len()).expect("a valid codec");
    let mut decoder = Decoder::new(&codec, element_bytes, tile.len()).expect("a valid codec");
    let mut room = vec![0; encoder.bound()];
    let mut decoded = vec![0; tile.len()];
    for _ in 0..2 {
        let written = encoder.encode(&tile, &mut room).expect("the tile is whole");
        decoder.decode(&room[..written], &mut decoded).expect("a good chunk");
        assert!(decoded == tile, "decoded wrongly");
        // What it remembers of this one must not show in the next.
        tile.reverse();
    }
});
