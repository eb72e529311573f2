//! Looking at bytes without vectors.

/// Bit `n` says whether there is a byte with `n` in its upper four bits.
pub(super) fn upper_halves(group: &[u8]) -> u32 {
    group.iter().fold(0, |seen, byte| seen | 1 << (byte >> 4))
}

/// At how many places two pieces of the same length differ.
#[inline(always)]
pub(super) fn differences(a: &[u8], b: &[u8]) -> usize {
    // Short enough to be counted in bytes, which vectors do many of at once.
    let pieces = a.chunks(128).zip(b.chunks(128));
    pieces.map(|(a, b)| usize::from(a.iter().zip(b).map(|(a, b)| u8::from(a != b)).sum::<u8>())).sum()
}
