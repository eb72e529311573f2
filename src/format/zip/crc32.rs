//! The CRC-32 of ZIP archives: of bytes, and of what is put together of parts whose CRC-32 is known.
//!
//! A CRC-32 is a polynomial over GF(2), modulo x^32 + x^26 + x^23 + x^22 + x^16 + x^12 + x^11 + x^10 + x^8 + x^7 +
//! x^5 + x^4 + x^2 + x + 1. That of two parts is the first one's, times x^8 for each byte of the second, plus the
//! second one's. Bit 31 of a word is the coefficient of x^0.

/// The modulus without x^32.
const MODULUS: u32 = 0xedb8_8320;
const ONE: u32 = 1 << 31;
/// What the register holds before the first byte, and what is added after the last one.
const MASK: u32 = u32::MAX;

/// x^(2^n) for each n. After the last one they begin again, because x^(2^32) is x.
const POWERS: [u32; 32] = {
    let mut powers = [ONE >> 1; 32];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = product(powers[at - 1], powers[at - 1]);
        at += 1;
    }
    powers
};

const fn product(one: u32, mut other: u32) -> u32 {
    let (mut sum, mut bit) = (0, ONE);
    while bit != 0 {
        if one & bit != 0 {
            sum ^= other;
        }
        // Times x; what would be x^32 is replaced by what it is equal to.
        other = (other >> 1) ^ (MODULUS * (other & 1));
        bit >>= 1;
    }
    sum
}

/// `crc` times x^8 for each of this many bytes.
fn moved(crc: u32, bytes: u64) -> u32 {
    let (mut moved, mut rest, mut power) = (crc, bytes, 3);
    while rest != 0 {
        if rest & 1 != 0 {
            moved = product(POWERS[power % POWERS.len()], moved);
        }
        rest >>= 1;
        power += 1;
    }
    moved
}

pub(crate) fn of(bytes: &[u8]) -> u32 {
    if cfg!(miri) { by_hand(bytes) } else { libdeflater::crc32(bytes) }
}

/// That of some bytes after others, which have the CRC-32 `crc`.
pub(crate) fn append(crc: u32, bytes: &[u8]) -> u32 {
    join(crc, of(bytes), bytes.len() as u64)
}

/// That of two parts, of which the second has `second_bytes` bytes.
pub(crate) fn join(first: u32, second: u32, second_bytes: u64) -> u32 {
    moved(first, second_bytes) ^ second
}

/// That of what has the CRC-32 `crc`, with this many zeros behind it.
pub(crate) fn append_zeros(crc: u32, zeros: u64) -> u32 {
    moved(crc ^ MASK, zeros) ^ MASK
}

/// One bit after the other: for tools that don't call into C.
fn by_hand(bytes: &[u8]) -> u32 {
    let step = |register: u32| (register >> 1) ^ (MODULUS * (register & 1));
    let byte = |register: u32, byte: &u8| (0..8).fold(register ^ u32::from(*byte), |register, _| step(register));
    bytes.iter().fold(MASK, byte) ^ MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * at / 7) as u8).collect()
    }

    #[test]
    fn the_check_value_of_the_catalogue_comes_out() {
        assert_eq!((of(b"123456789"), by_hand(b"123456789")), (0xcbf4_3926, 0xcbf4_3926));
        assert_eq!((of(b""), join(0, 0, 0), append_zeros(0, 0)), (0, 0, 0));
    }

    #[test]
    fn parts_are_worth_their_whole() {
        let bytes = pattern(1000);
        for split in [0, 1, 2, 3, 7, 64, 500, 999, 1000] {
            let (first, second) = bytes.split_at(split);
            assert_eq!(join(of(first), of(second), second.len() as u64), of(&bytes), "{split}");
            assert_eq!(append(of(first), second), of(&bytes), "{split}");
        }
    }

    #[test]
    fn zeros_are_counted_without_being_there() {
        let mut bytes = pattern(77);
        let crc = of(&bytes);
        for zeros in [1, 2, 3, 100, 4096] {
            bytes.resize(77 + zeros, 0);
            assert_eq!(append_zeros(crc, zeros as u64), of(&bytes), "{zeros}");
        }
        // 2^40 zeros are 2^39 of them, twice.
        let half = append_zeros(crc, 1 << 39);
        assert_eq!(append_zeros(half, 1 << 39), append_zeros(crc, 1 << 40));
        assert_eq!(append_zeros(append_zeros(crc, u64::MAX / 2), u64::MAX - u64::MAX / 2), append_zeros(crc, u64::MAX));
    }
}
