//! Every codec, every element size: what was encoded is decoded, also by c-blosc, and damage never goes further than an
//! error.

#![allow(unsafe_code)]

use proptest::prelude::*;
use shardwright::codec::{Decoder, Encoder};
use shardwright::{BloscCname, Codec, Compressor, Error, Shuffle};

const CNAMES: [BloscCname; 5] =
    [BloscCname::Lz4, BloscCname::Lz4hc, BloscCname::Zstd, BloscCname::Zlib, BloscCname::Blosclz];
const SHUFFLES: [Shuffle; 3] = [Shuffle::None, Shuffle::Byte, Shuffle::Bit];
const ELEMENT_BYTES: [usize; 4] = [1, 2, 4, 8];

fn blosc_compressors() -> Vec<Compressor> {
    let mut all = Vec::new();
    for cname in CNAMES {
        for shuffle in SHUFFLES {
            for level in [0, 1, 5, 9] {
                all.push(Compressor::Blosc { cname, level, shuffle, block_bytes: 0 });
            }
            all.push(Compressor::Blosc { cname, level: 1, shuffle, block_bytes: 1024 });
        }
    }
    all
}

fn compressors() -> Vec<Compressor> {
    let mut all = blosc_compressors();
    all.extend([0, 128, 4096].map(|block_bytes| Compressor::BloscNoise { block_bytes }));
    all.extend([Compressor::None, Compressor::Lz4]);
    all.extend([-5, 0, 1, 19].map(|level| Compressor::Zstd { level }));
    all.extend([0, 1, 6, 9].map(|level| Compressor::Gzip { level }));
    all.extend([0, 1, 9].map(|level| Compressor::Zlib { level }));
    all
}

/// Four kinds of tiles: nothing, camera noise, a ramp, and what no compressor makes smaller.
fn tiles(element_bytes: usize, raw_bytes: usize) -> [Vec<u8>; 4] {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let elements = |mut value: Box<dyn FnMut(u64) -> u64>| {
        let whole = (0_u64..).flat_map(|i| value(i).to_le_bytes().into_iter().take(element_bytes).collect::<Vec<_>>());
        whole.take(raw_bytes).collect::<Vec<u8>>()
    };
    let mut noise = random;
    [
        vec![0; raw_bytes],
        elements(Box::new(move |_| 100 + noise() % 8 + noise() % 8 + noise() % 8)),
        elements(Box::new(|i| i)),
        std::iter::repeat_with(|| random() as u8).take(raw_bytes).collect(),
    ]
}

fn encode(encoder: &mut Encoder, raw: &[u8]) -> Vec<u8> {
    // What lies after the room shows whether an encoder keeps to it.
    let mut room = vec![0xA5; encoder.bound() + 64];
    let (inside, outside) = room.split_at_mut(encoder.bound());
    let written = encoder.encode(raw, inside).expect("a whole tile and enough room");
    assert!(written <= inside.len());
    assert!(outside.iter().all(|byte| *byte == 0xA5));
    inside[..written].to_vec()
}

fn c_blosc_decode(frame: &[u8], raw_bytes: usize) -> Vec<u8> {
    let mut raw = vec![0x5A; raw_bytes];
    let mut says = 0;
    // SAFETY: the lengths are those of the slices.
    let written = unsafe {
        assert_eq!(blosc_src::blosc_cbuffer_validate(frame.as_ptr().cast(), frame.len(), &mut says), 0);
        blosc_src::blosc_decompress_ctx(frame.as_ptr().cast(), raw.as_mut_ptr().cast(), raw_bytes, 1)
    };
    assert_eq!((says, written), (raw_bytes, raw_bytes as i32));
    raw
}

fn c_blosc_encode(raw: &[u8], element_bytes: usize, cname: BloscCname, level: u8, shuffle: Shuffle) -> Vec<u8> {
    let mut frame = vec![0; raw.len() + 16];
    let name = std::ffi::CString::new(cname.name()).unwrap();
    // SAFETY: the lengths are those of the slices, and the name ends with a zero.
    let written = unsafe {
        blosc_src::blosc_compress_ctx(
            level.into(),
            shuffle as i32,
            element_bytes,
            raw.len(),
            raw.as_ptr().cast(),
            frame.as_mut_ptr().cast(),
            frame.len(),
            name.as_ptr(),
            0,
            1,
        )
    };
    frame.truncate(usize::try_from(written).unwrap());
    frame
}

/// What `compressor` makes of `raw`, after checking that everybody decodes it.
fn round_trip(compressor: Compressor, checksum: bool, element_bytes: usize, raw: &[u8]) -> Vec<u8> {
    let codec = Codec { compressor, checksum };
    let mut encoder = Encoder::new(&codec, element_bytes, raw.len()).unwrap();
    let mut decoder = Decoder::new(&codec, element_bytes, raw.len()).unwrap();
    let encoded = encode(&mut encoder, raw);
    let mut decoded = vec![0x5A; raw.len()];
    decoder.decode(&encoded, &mut decoded).unwrap_or_else(|error| panic!("{codec:?} of {}: {error}", raw.len()));
    assert!(decoded == raw, "{codec:?} of {} bytes in {element_bytes}s", raw.len());
    if let (Compressor::Blosc { .. } | Compressor::BloscNoise { .. }, false) = (compressor, checksum) {
        assert!(c_blosc_decode(&encoded, raw.len()) == raw, "{codec:?} of {} bytes in {element_bytes}s", raw.len());
        assert!(encoded.len() <= raw.len() + 16);
    }
    assert_eq!(encode(&mut encoder, raw), encoded, "what an encoder keeps must not change what it writes");
    encoded
}

#[test]
fn whatever_is_encoded_is_decoded() {
    for element_bytes in ELEMENT_BYTES {
        for raw_bytes in [0, 1, 7, 127, 128, 1000, 1024, 4099, 70_008] {
            for raw in tiles(element_bytes, raw_bytes) {
                for compressor in compressors() {
                    // The smallest levels take seconds on the large tiles and differ in nothing else.
                    let slow =
                        matches!(compressor, Compressor::Blosc { level: 9, .. } | Compressor::Zstd { level: 19 });
                    if slow && raw_bytes > 4099 {
                        continue;
                    }
                    round_trip(compressor, raw_bytes % 2 == 1, element_bytes, &raw);
                }
            }
        }
    }
}

#[test]
fn blocks_of_many_sizes_are_read_by_c_blosc() {
    for element_bytes in ELEMENT_BYTES {
        let [_, noise, ramp, _] = tiles(element_bytes, 300_000 + element_bytes);
        for raw in [noise, ramp] {
            for shuffle in SHUFFLES {
                for block_bytes in [0, 128, 4096, 65_536, 131_072] {
                    for cname in [BloscCname::Lz4, BloscCname::Zstd, BloscCname::Blosclz] {
                        let compressor = Compressor::Blosc { cname, level: 1, shuffle, block_bytes };
                        round_trip(compressor, false, element_bytes, &raw);
                    }
                }
            }
        }
    }
}

#[test]
fn camera_noise_becomes_as_small_as_with_c_blosc() {
    for element_bytes in ELEMENT_BYTES {
        let [_, noise, ..] = tiles(element_bytes, 256 << 10);
        for cname in CNAMES {
            for shuffle in [Shuffle::Byte, Shuffle::Bit] {
                for level in [1, 5] {
                    let compressor = Compressor::Blosc { cname, level, shuffle, block_bytes: 0 };
                    let ours = round_trip(compressor, false, element_bytes, &noise).len();
                    let theirs = c_blosc_encode(&noise, element_bytes, cname, level, shuffle).len();
                    let larger = ours as f64 / theirs as f64;
                    assert!(larger < 1.02, "{compressor:?} of {element_bytes}s: {ours} bytes, c-blosc {theirs}");
                }
            }
        }
    }
}

/// How many times as large as c-blosc's frame of LZ4 at its fastest the writer for noise makes this.
fn noise_against_c_blosc(element_bytes: usize, raw: &[u8]) -> f64 {
    let ours = round_trip(Compressor::BloscNoise { block_bytes: 0 }, false, element_bytes, raw).len();
    ours as f64 / c_blosc_encode(raw, element_bytes, BloscCname::Lz4, 1, Shuffle::Bit).len() as f64
}

#[test]
fn the_writer_for_noise_makes_noise_as_small_as_c_blosc() {
    for element_bytes in ELEMENT_BYTES {
        let [_, noise, ..] = tiles(element_bytes, 512 << 10);
        let larger = noise_against_c_blosc(element_bytes, &noise);
        assert!(larger < 1.015, "{element_bytes}s: {larger:.3}");
    }
}

#[test]
fn lz4_at_its_fastest_is_written_by_the_writer_for_noise() {
    let noise = Compressor::BloscNoise { block_bytes: 0 };
    let fastest = Compressor::Blosc { cname: BloscCname::Lz4, level: 1, shuffle: Shuffle::Bit, block_bytes: 0 };
    for tile in tiles(2, 64 << 10) {
        assert!(round_trip(fastest, false, 2, &tile) == round_trip(noise, false, 2, &tile));
    }
}

#[test]
fn zstandard_at_its_fastest_is_smaller_than_the_better_shuffle_of_c_blosc() {
    for element_bytes in ELEMENT_BYTES {
        let [_, noise, ..] = tiles(element_bytes, 512 << 10);
        let theirs = |shuffle| c_blosc_encode(&noise, element_bytes, BloscCname::Zstd, 1, shuffle).len();
        let least = theirs(Shuffle::Bit).min(theirs(Shuffle::Byte));
        for shuffle in [Shuffle::Bit, Shuffle::Byte] {
            let compressor = Compressor::Blosc { cname: BloscCname::Zstd, level: 1, shuffle, block_bytes: 0 };
            let ours = round_trip(compressor, false, element_bytes, &noise).len();
            assert!(ours as f64 / (least as f64) < 1.01, "{element_bytes}s: {ours} bytes, c-blosc {least}");
        }
    }
}

#[test]
fn planes_that_repeat_are_found() {
    // Round a power of two all planes above the noise change together, in two directions.
    let [_, noise, ..] = tiles(2, 512 << 10);
    let shifted = noise.chunks_exact(2).flat_map(|pair| (u16::from_le_bytes([pair[0], pair[1]]) + 401).to_le_bytes());
    let larger = noise_against_c_blosc(2, &shifted.collect::<Vec<_>>());
    assert!(larger < 0.93, "{larger:.3}");
}

#[test]
fn what_is_not_noise_is_left_to_the_match_finder() {
    let [.., random] = tiles(1, 4096);
    let pattern: Vec<u8> = random.iter().cycle().take(512 << 10).copied().collect();
    let steps = |i: u32| (i % 512 / 5 * 31 + i / 512 / 7 * 57) as u16;
    let areas: Vec<u8> = (0..256 << 10).map(steps).flat_map(u16::to_le_bytes).collect();
    for (name, tile) in [("a pattern", pattern), ("areas", areas)] {
        let larger = noise_against_c_blosc(2, &tile);
        assert!(larger < 1.05, "{name}: {larger:.3}");
    }
}

#[test]
fn frames_of_c_blosc_are_decoded() {
    for element_bytes in ELEMENT_BYTES {
        for raw in tiles(element_bytes, 70_001) {
            for cname in CNAMES {
                for shuffle in SHUFFLES {
                    let frame = c_blosc_encode(&raw, element_bytes, cname, 3, shuffle);
                    let compressor = Compressor::Blosc { cname, level: 1, shuffle, block_bytes: 0 };
                    let codec = Codec { compressor, checksum: false };
                    let mut decoded = vec![0; raw.len()];
                    Decoder::new(&codec, element_bytes, raw.len()).unwrap().decode(&frame, &mut decoded).unwrap();
                    assert!(decoded == raw, "{codec:?}");
                }
            }
        }
    }
}

#[test]
fn what_does_not_get_smaller_is_stored() {
    let [.., random] = tiles(2, 100_000);
    for cname in CNAMES {
        let compressor = Compressor::Blosc { cname, level: 1, shuffle: Shuffle::Bit, block_bytes: 0 };
        let encoded = round_trip(compressor, false, 2, &random);
        assert_eq!(encoded.len(), random.len() + 16);
        assert!(encoded[16..] == random, "a stored frame holds the bytes as they were before the shuffle");
    }
}

#[test]
fn a_changed_byte_is_an_error_with_a_checksum_and_harmless_without() {
    for element_bytes in ELEMENT_BYTES {
        let [_, noise, ..] = tiles(element_bytes, 3001);
        for compressor in compressors() {
            for checksum in [true, false] {
                let codec = Codec { compressor, checksum };
                let encoded = round_trip(compressor, checksum, element_bytes, &noise);
                let mut decoder = Decoder::new(&codec, element_bytes, noise.len()).unwrap();
                let mut decoded = vec![0; noise.len()];
                // All of what describes, some of what is described.
                for at in (0..64).chain((64..).step_by(97)).take_while(|at| *at < encoded.len()) {
                    for flip in [0x01, 0x10, 0x80, 0xFF] {
                        let mut damaged = encoded.clone();
                        damaged[at] ^= flip;
                        let result = decoder.decode(&damaged, &mut decoded);
                        if checksum {
                            assert!(matches!(result, Err(Error::Codec { codec: "crc32c", .. })), "{codec:?} at {at}");
                        }
                    }
                }
                for length in 0..encoded.len().min(80) {
                    let short = &encoded[..length];
                    assert!(decoder.decode(short, &mut decoded).is_err(), "{codec:?} cut to {length} bytes");
                }
                decoder.decode(&encoded, &mut decoded).expect("errors leave a decoder usable");
                assert!(decoded == noise);
            }
        }
    }
}

#[test]
fn levels_and_sizes_out_of_range_are_refused_with_the_range() {
    let blosc =
        |level, block_bytes| Compressor::Blosc { cname: BloscCname::Zstd, level, shuffle: Shuffle::Bit, block_bytes };
    let refused = [
        (blosc(10, 0), "codec.compressor.level = 10", "0 (store) to 9"),
        (Compressor::BloscNoise { block_bytes: 100 }, "codec.compressor.block_bytes = 100", "128 to"),
        (blosc(1, 100), "codec.compressor.block_bytes = 100", "128 to"),
        (blosc(1, 1001), "codec.compressor.block_bytes = 1001", "elements"),
        (Compressor::Zstd { level: 23 }, "codec.compressor.level = 23", "-131072 (fastest) to 22"),
        (Compressor::Gzip { level: 10 }, "codec.compressor.level = 10", "0 (store) to 9"),
    ];
    for (compressor, value, range) in refused {
        let error = Encoder::new(&Codec::from(compressor), 2, 4096).err().expect("out of range");
        assert!(matches!(error, Error::Config { .. }));
        let message = error.to_string();
        assert!(message.starts_with(value) && message.contains(range), "{message}");
    }
    assert!(Encoder::new(&Codec::default(), 3, 4096).is_err());
}

#[test]
fn a_wrong_tile_or_too_little_room_is_refused() {
    for compressor in compressors() {
        let codec = Codec::from(compressor);
        let mut encoder = Encoder::new(&codec, 2, 1000).unwrap();
        let mut room = vec![0; encoder.bound()];
        assert!(encoder.encode(&[0; 998], &mut room).is_err());
        let too_little = encoder.bound() - 1;
        assert!(encoder.encode(&[0; 1000], &mut room[..too_little]).is_err());
        assert!(encoder.encode(&[0; 1000], &mut room).is_ok());
    }
}

#[test]
fn only_bare_pixels_are_their_own_encoding() {
    let identity = |compressor, checksum| Encoder::new(&Codec { compressor, checksum }, 2, 64).unwrap().is_identity();
    assert!(identity(Compressor::None, false));
    assert!(!identity(Compressor::None, true));
    assert!(!identity(Compressor::Lz4, false));
}

#[test]
fn encoders_and_decoders_can_move_to_a_worker() {
    fn movable<T: Send + 'static>() {}
    movable::<Encoder>();
    movable::<Decoder>();
}

/// Tiles as planes see them: stretches of one value, of noise, and of what stood some way before.
fn patchwork() -> impl Strategy<Value = Vec<u8>> {
    let patch = (0_u8..4, any::<u64>(), 1_usize..400, 1_usize..3000);
    prop::collection::vec(patch, 0..120).prop_map(|patches| {
        let mut raw: Vec<u8> = Vec::new();
        for (kind, seed, bytes, distance) in patches {
            let mut state = seed | 1;
            for _ in 0..bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                raw.push(match kind {
                    0 => seed as u8,
                    1 => (state >> 56) as u8,
                    2 => (state >> 61) as u8 + 100,
                    _ => raw.len().checked_sub(distance).map_or(0, |at| raw[at]),
                });
            }
        }
        raw
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_patchwork_survives_the_writer_for_noise(
        raw in patchwork(),
        block_bytes in prop_oneof![Just(0_usize), Just(128), (16_usize..1000).prop_map(|eights| eights * 8)],
        element_bytes in prop::sample::select(ELEMENT_BYTES.to_vec()),
    ) {
        round_trip(Compressor::BloscNoise { block_bytes }, false, element_bytes, &raw);
    }

    #[test]
    fn any_patchwork_survives_zstandard_at_its_fastest(
        raw in patchwork(),
        block_bytes in prop_oneof![Just(0_usize), Just(128), (16_usize..5000).prop_map(|eights| eights * 8)],
        element_bytes in prop::sample::select(ELEMENT_BYTES.to_vec()),
        shuffle in prop::sample::select(SHUFFLES.to_vec()),
    ) {
        let blosc = Compressor::Blosc { cname: BloscCname::Zstd, level: 1, shuffle, block_bytes };
        round_trip(blosc, false, element_bytes, &raw);
        round_trip(Compressor::Zstd { level: 1 }, false, element_bytes, &raw);
    }

    #[test]
    fn any_tile_survives(
        raw in prop::collection::vec(prop_oneof![3 => Just(0_u8), 1 => any::<u8>()], 0..5000),
        compressor in prop::sample::select(compressors()),
        element_bytes in prop::sample::select(ELEMENT_BYTES.to_vec()),
        checksum in any::<bool>(),
    ) {
        round_trip(compressor, checksum, element_bytes, &raw);
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        compressor in prop::sample::select(compressors()),
        raw_bytes in 0_usize..2000,
    ) {
        let codec = Codec { compressor, checksum: false };
        let mut raw = vec![0; raw_bytes];
        let _ = Decoder::new(&codec, 2, raw_bytes).unwrap().decode(&bytes, &mut raw);
    }

    #[test]
    fn a_hostile_blosc_header_is_decoded_or_refused(
        flags in any::<u8>(),
        element_bytes in any::<u8>(),
        block_bytes in prop_oneof![0_u32..600, any::<u32>()],
        body in prop::collection::vec(prop_oneof![2 => Just(0_u8), 2 => 0_u8..60, 1 => any::<u8>()], 0..300),
    ) {
        let raw_bytes = 512_u32;
        let mut frame = vec![2, 1, flags, element_bytes];
        for number in [raw_bytes, block_bytes, 16 + body.len() as u32] {
            frame.extend(number.to_le_bytes());
        }
        frame.extend(body);
        let mut raw = vec![0; raw_bytes as usize];
        let mut decoder = Decoder::new(&Codec { checksum: false, ..Codec::default() }, 2, raw.len()).unwrap();
        let _ = decoder.decode(&frame, &mut raw);
    }
}
