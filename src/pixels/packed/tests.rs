//! Every packing, start, length and kind of instructions against the tables of `layout.rs`, bit by bit, in memory that
//! ends where the pixels do.

use proptest::prelude::*;

use super::*;

const PACKINGS: [Packing; 5] =
    [Packing::Mono10p, Packing::Mono12p, Packing::Mono14p, Packing::Mono10Packed, Packing::Mono12Packed];

/// Pixel `number`, from the tables at the top of `layout.rs`.
fn definition(packing: Packing, packed: &[u8], number: usize) -> u16 {
    let stream = |bits: usize| {
        let bit = |at: usize| u16::from(packed[at / 8] >> (at % 8) & 1);
        (0..bits).map(|i| bit(number * bits + i) << i).sum()
    };
    let shared = |bits: usize| {
        let (high, middle) = (packed[number / 2 * 3 + number % 2 * 2], packed[number / 2 * 3 + 1]);
        u16::from(high) << bits | u16::from(middle >> (4 * (number % 2))) & ((1 << bits) - 1)
    };
    match packing {
        Packing::Mono10p => stream(10),
        Packing::Mono12p => stream(12),
        Packing::Mono14p => stream(14),
        Packing::Mono10Packed => shared(2),
        Packing::Mono12Packed => shared(4),
        Packing::Mono16 { big_endian, unused_low_bits } => {
            let (first, second) = (u16::from(packed[2 * number]), u16::from(packed[2 * number + 1]));
            (if big_endian { first << 8 | second } else { second << 8 | first }) >> unused_low_bits
        }
    }
}

fn random_bytes(count: usize) -> Vec<u8> {
    (0..count as u64).map(|i| (i.wrapping_add(77).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 41) as u8).collect()
}

/// Memory behind whose end no byte may be touched.
#[cfg(not(miri))]
struct Guarded(memmap2::MmapMut);

#[cfg(not(miri))]
impl Guarded {
    fn new() -> Self {
        let page = rustix::param::page_size();
        let mut map = memmap2::MmapMut::map_anon(2 * page).unwrap();
        // SAFETY: this is the map's second page, to which nobody else has a pointer.
        unsafe {
            let behind = map.as_mut_ptr().add(page).cast();
            rustix::mm::mprotect(behind, page, rustix::mm::MprotectFlags::empty()).unwrap();
        }
        Self(map)
    }

    fn last(&mut self, bytes: usize) -> &mut [u8] {
        let end = self.0.len() / 2;
        &mut self.0[end - bytes..end]
    }
}

/// Miri itself sees what is touched.
#[cfg(miri)]
struct Guarded(Vec<u16>);

#[cfg(miri)]
impl Guarded {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn last(&mut self, bytes: usize) -> &mut [u8] {
        self.0 = vec![0; bytes.div_ceil(2)];
        // SAFETY: this many bytes are there.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), bytes) }
    }
}

struct Memory {
    packed: Guarded,
    out: Guarded,
}

impl Memory {
    fn new() -> Self {
        Self { packed: Guarded::new(), out: Guarded::new() }
    }

    /// `packed` is cut off behind the last pixel, or `spare` bytes later.
    fn check(&mut self, packing: Packing, packed: &[u8], first: usize, count: usize, spare: usize) {
        for instructions in Instructions::all() {
            let unpacker = Unpacker::with(packing, instructions);
            let bytes = unpacker.packed_bytes(first + count) + spare;
            let source = self.packed.last(bytes);
            source.copy_from_slice(&packed[..bytes]);
            // SAFETY: any bytes are numbers; the memory's end is even, so that nothing is left out.
            let out = unsafe { self.out.last(2 * count + 8).align_to_mut::<u16>() }.1;
            out.fill(0xAAAA);
            unpacker.unpack(source, first, &mut out[4..]);
            let expected = (first..first + count).map(|number| definition(packing, source, number));
            assert!(
                out[4..].iter().copied().eq(expected),
                "{packing:?}, {count} pixels from {first}, by {instructions:?}"
            );
            assert_eq!(out[..4], [0xAAAA; 4], "{packing:?} by {instructions:?} writes before the first pixel");
        }
    }
}

#[test]
fn every_start_and_length_is_unpacked_as_defined() {
    let (packed, mut memory) = (random_bytes(400), Memory::new());
    let (starts, counts) = if cfg!(miri) { (4, 21) } else { (17, 131) };
    for (packing, first) in PACKINGS.into_iter().flat_map(|packing| (0..starts).map(move |first| (packing, first))) {
        for count in (0..counts).step_by(if cfg!(miri) { 5 } else { 1 }) {
            for spare in if cfg!(miri) { vec![0] } else { vec![0, 1, 3, 40] } {
                memory.check(packing, &packed, first, count, spare);
            }
        }
    }
}

#[test]
fn words_of_both_byte_orders_are_shifted_down() {
    let (packed, mut memory) = (random_bytes(200), Memory::new());
    for (big_endian, unused_low_bits) in [true, false].into_iter().flat_map(|big| (0..16).map(move |bits| (big, bits)))
    {
        for count in if cfg!(miri) { vec![0, 9] } else { vec![0, 1, 7, 8, 33, 70] } {
            memory.check(Packing::Mono16 { big_endian, unused_low_bits }, &packed, 3, count, 0);
        }
    }
}

/// Pixels 0x123, 0x256, … by hand.
#[test]
fn the_first_pixels_are_those_of_the_tables() {
    let first = |packing, packed: &[u8]| {
        let mut out = [0; 2];
        Unpacker::new(packing).unpack(packed, 0, &mut out);
        out
    };
    assert_eq!(first(Packing::Mono10p, &[0x23, 0x59, 0x09]), [0x123, 0x256]);
    assert_eq!(first(Packing::Mono12p, &[0x23, 0x61, 0x25]), [0x123, 0x256]);
    assert_eq!(first(Packing::Mono14p, &[0x23, 0x81, 0x95, 0x00]), [0x123, 0x256]);
    assert_eq!(first(Packing::Mono10Packed, &[0x48, 0x23, 0x95]), [0x123, 0x256]);
    assert_eq!(first(Packing::Mono12Packed, &[0x12, 0x63, 0x25]), [0x123, 0x256]);
    assert_eq!(
        first(Packing::Mono16 { big_endian: true, unused_low_bits: 4 }, &[0x12, 0x3F, 0x25, 0x60]),
        [0x123, 0x256]
    );
}

proptest! {
    #[test]
    fn any_row_is_unpacked_as_defined(
        packing in prop::sample::select(PACKINGS.to_vec()),
        packed in prop::collection::vec(any::<u8>(), if cfg!(miri) { 200 } else { 3500 }),
        first in 0_usize..if cfg!(miri) { 40 } else { 900 },
        count in 0_usize..if cfg!(miri) { 40 } else { 900 },
        spare in 0_usize..40,
    ) {
        Memory::new().check(packing, &packed, first, count, spare);
    }
}

#[test]
#[should_panic(expected = "2 bytes, where pixels 0 to 2 need 3")]
fn a_row_that_is_too_short_is_refused() {
    Unpacker::new(Packing::Mono12p).unpack(&[0; 2], 0, &mut [0; 2]);
}

#[test]
#[should_panic(expected = "16 of 16 bits unused")]
fn to_shift_all_bits_out_is_refused() {
    Unpacker::new(Packing::Mono16 { big_endian: true, unused_low_bits: 16 });
}
