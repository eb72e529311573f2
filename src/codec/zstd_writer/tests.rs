use proptest::prelude::*;

use super::pack::Instructions;
use super::*;
use crate::codec::speed::random;

fn check(bytes: &[u8], planes: usize) -> usize {
    let mut writer = Writer::new(1, planes, (bytes.len() / planes).max(1)).unwrap();
    let mut padded = bytes.to_vec();
    padded.extend([0; Writer::SLACK]);
    let mut room = vec![0xA5; zstd_safe::compress_bound(bytes.len()) + 64];
    let (inside, outside) = room.split_at_mut(zstd_safe::compress_bound(bytes.len()));
    writer.begin_tile();
    let written = writer.write(&padded, bytes.len(), planes, Search::Nothing, inside).expect("room for all");
    assert!(outside.iter().all(|byte| *byte == 0xA5));
    let mut decoded = vec![0; bytes.len()];
    let got = zstd_safe::decompress(&mut decoded[..], &inside[..written]).map_err(zstd_safe::get_error_name);
    assert_eq!(got, Ok(bytes.len()));
    let wrong = decoded.iter().zip(bytes).position(|(a, b)| a != b);
    assert_eq!(wrong, None, "of {} bytes, in {planes} planes", bytes.len());
    let frame = inside[..written].to_vec();
    let limits = Limits::of(&frame);
    assert!(limits.content_bytes == bytes.len() && limits.block_bytes <= 128 << 10, "{limits:?}");
    for instructions in Instructions::all() {
        writer.set_instructions((bytes.len() / planes).max(1), instructions);
        writer.begin_tile();
        let again = writer.write(&padded, bytes.len(), planes, Search::Nothing, &mut room);
        assert!(again == Some(written) && room[..written] == frame, "{instructions:?} writes other bytes");
    }
    written
}

/// What a decoder must be able to do.
#[derive(Debug)]
struct Limits {
    content_bytes: usize,
    /// Of the longest block, as it is written.
    block_bytes: usize,
}

impl Limits {
    /// A frame without a window of its own, which ends with its last block.
    fn of(frame: &[u8]) -> Self {
        assert_eq!(frame[4] & 0x3F, 0x20, "a single segment, no checksum, no dictionary");
        let (base, size_bytes) = [(0, 1), (256, 2), (0, 4), (0, 8)][usize::from(frame[4] >> 6)];
        let mut size = [0; 8];
        size[..size_bytes].copy_from_slice(&frame[5..5 + size_bytes]);
        let (mut at, mut block_bytes) = (5 + size_bytes, 0);
        loop {
            let header = u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], 0]);
            let (block_type, size) = (header >> 1 & 3, (header >> 3) as usize);
            assert!(block_type < 3, "reserved");
            block_bytes = block_bytes.max(size);
            at += 3 + if block_type == 1 { 1 } else { size };
            if header & 1 == 1 {
                break;
            }
        }
        assert_eq!(at, frame.len(), "nothing behind the last block");
        Self { content_bytes: base + u64::from_le_bytes(size) as usize, block_bytes }
    }
}

/// Bytes with the given counts, in a random order.
fn shuffled(counts: &[(u8, usize)]) -> Vec<u8> {
    let mut bytes: Vec<u8> = counts.iter().flat_map(|(byte, count)| std::iter::repeat_n(*byte, *count)).collect();
    let mut random = random(1);
    for i in (1..bytes.len()).rev() {
        bytes.swap(i, random() as usize % (i + 1));
    }
    bytes
}

fn noise(bytes: usize, values: u64) -> Vec<u8> {
    let mut random = random(7);
    (0..bytes).map(|_| (100 + (0..4).map(|_| random() % values).sum::<u64>()) as u8).collect()
}

#[test]
fn every_length_is_decoded() {
    for bytes in (0..=300).chain([1023, 1024, 1025, 4095, 4096, 8191, 8192, 8193, 16_383, 16_384, 32_768, 65_535]) {
        for values in [1, 2, 5, 20, 64] {
            check(&noise(bytes, values), 1);
        }
    }
    for bytes in [65_536, 65_792, 131_071, 131_072, 131_073, 262_143, 262_144, 262_145, 400_000] {
        for values in [1, 2, 20, 64] {
            check(&noise(bytes, values), 1);
        }
    }
}

#[test]
fn every_histogram_is_decoded() {
    for bytes in [256, 300, 2000, 20_000, 200_000] {
        let part = |share: usize| (bytes / share).max(1);
        check(&vec![7; bytes], 1);
        check(&shuffled(&[(7, part(2)), (9, part(2))]), 1);
        check(&shuffled(&[(0, part(1)), (255, 1)]), 1);
        for symbols in 1..=256 {
            let equal: Vec<_> = (0..symbols).map(|symbol| (symbol as u8, part(symbols))).collect();
            check(&shuffled(&equal), 1);
            let high: Vec<_> = (0..symbols).map(|symbol| (255 - symbol as u8, part(symbols))).collect();
            check(&shuffled(&high), 1);
        }
        let (mut a, mut b) = (1, 1);
        let mut fibonacci = vec![];
        while a < bytes && fibonacci.len() < 256 {
            fibonacci.push((fibonacci.len() as u8 * 3, a));
            (a, b) = (b, a + b);
        }
        check(&shuffled(&fibonacci), 1);
        let powers: Vec<_> = (0..bytes.ilog2()).map(|power| (power as u8, 1 << power)).collect();
        check(&shuffled(&powers), 1);
    }
    // 192 equally rare bytes and a frequent one: weights that are all the same, and the last is never written.
    let mut weights: Vec<_> = (0..192).map(|symbol| (symbol, 10)).collect();
    weights.push((192, 640));
    check(&shuffled(&weights), 1);
}

#[test]
fn runs_are_decoded() {
    for bytes in [100, 1000, 65_536, 131_072] {
        for distance in [13, 25, 30, 100, 1000, 5000, 70_000] {
            let mut random = random(3);
            let mut plane = vec![0; bytes];
            let mut at = random() as usize % distance;
            while at < bytes {
                plane[at] = 1 + random() as u8 % 3;
                at += 1 + random() as usize % (2 * distance);
            }
            check(&plane, 1);
            let two: Vec<_> = noise(bytes, 20).into_iter().chain(plane).collect();
            check(&two, 2);
        }
    }
}

/// Writes the planes after judging their beginnings, and returns what was left to a match finder.
fn check_judged(planes: &[Vec<u8>]) -> Search {
    let bytes = planes.concat();
    let mut writer = Writer::new(1, planes.len(), planes[0].len()).unwrap();
    let mut sample: Vec<u8> = planes.iter().flat_map(|plane| &plane[..SAMPLE_BYTES]).copied().collect();
    sample.extend([0; Writer::SLACK]);
    writer.begin_tile();
    let search = writer.judge(&[&sample, &sample], planes.len(), bytes.len());
    let mut padded = bytes.clone();
    padded.extend([0; Writer::SLACK]);
    let mut room = vec![0; zstd_safe::compress_bound(bytes.len())];
    // Also what would not have been chosen must be written rightly.
    for searched in [search, Search::Nothing, Search::Everything, Search::Planes { first: 1, end: 2 }] {
        let written = writer.write(&padded, bytes.len(), planes.len(), searched, &mut room).expect("room for all");
        let mut decoded = vec![0; bytes.len()];
        let got = zstd_safe::decompress(&mut decoded[..], &room[..written]).map_err(zstd_safe::get_error_name);
        assert_eq!(got, Ok(bytes.len()), "{searched:?}");
        assert!(decoded == bytes, "{searched:?}");
    }
    search
}

#[test]
fn what_has_structure_is_left_to_a_match_finder() {
    for bytes in [30_000, 70_000, 300_000] {
        let (noise, constant) = (noise(bytes, 20), vec![3; bytes]);
        let pattern: Vec<u8> = noise[..301].iter().cycle().take(bytes).copied().collect();
        let mut sparse = vec![0; bytes];
        sparse.iter_mut().step_by(333).for_each(|byte| *byte = 1);
        let all = |planes: [&Vec<u8>; 4]| check_judged(&planes.map(Vec::clone));
        assert_eq!(all([&noise, &noise, &sparse, &constant]), Search::Nothing);
        assert_eq!(all([&noise, &pattern, &sparse, &constant]), Search::Planes { first: 1, end: 2 });
        assert_eq!(all([&pattern, &sparse, &constant, &sparse]), Search::Everything);
    }
}

#[test]
fn small_tiles_with_structure_are_not_tried() {
    let (noise, constant) = (noise(4000, 20), vec![3; 4000]);
    let pattern: Vec<u8> = noise[..301].iter().cycle().take(4000).copied().collect();
    assert_eq!(check_judged(&[noise.clone(), pattern]), Search::Everything);
    assert_eq!(check_judged(&[noise, constant]), Search::Nothing);
}

#[test]
fn planes_of_one_value_share_a_block() {
    for (planes, more) in [(1, 0), (2, 0), (8, 0), (8, 3)] {
        assert_eq!(check(&vec![7; 5000 * planes + more], planes), 5 + 2 + 4 + if more > 0 { 3 + more } else { 0 });
    }
    let two = [vec![7; 5000], vec![8; 5000], vec![8; 5000]].concat();
    assert_eq!(check(&two, 3), 5 + 2 + 2 * 4);
    assert_eq!(check(&vec![7; 300_000], 2), 5 + 4 + 4 * 4);
}

#[test]
fn too_little_room_is_told() {
    let mut bytes = noise(20_000, 20);
    bytes.extend([0; 20_000]);
    bytes[30_000] = 1;
    let needed = check(&bytes, 2);
    let mut writer = Writer::new(1, 2, bytes.len() / 2).unwrap();
    let length = bytes.len();
    bytes.extend([0; Writer::SLACK]);
    for room in (0..needed).step_by(37).chain([needed - 1]) {
        writer.begin_tile();
        let written = writer.write(&bytes, length, 2, Search::Nothing, &mut vec![0; room]);
        assert_eq!(written, None, "{room} of {needed} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anything_is_decoded(
        counts in prop::collection::vec((any::<u8>(), prop_oneof![0..10_usize, 0..500_usize, 0..9000_usize]), 0..300),
        planes in 1..=8_usize,
    ) {
        check(&shuffled(&counts), planes);
    }
}
