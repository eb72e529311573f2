//! Words of 16 bits, in any byte order and alignment of their pixels' bits.

#[inline(always)]
pub(super) fn shift_down(words: &[u8], big_endian: bool, unused_low_bits: u32, out: &mut [u16]) {
    let pairs = words.as_chunks().0.iter().zip(out);
    if big_endian {
        pairs.for_each(|(word, place)| *place = u16::from_be_bytes(*word) >> unused_low_bits);
    } else {
        pairs.for_each(|(word, place)| *place = u16::from_le_bytes(*word) >> unused_low_bits);
    }
}
