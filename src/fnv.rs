//! FNV-1a of 128 bits (Fowler, Noll, Vo; public domain): a hash whose values may be stored.

/// Of no bytes.
pub(crate) const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// Of more bytes behind those that made `hash`.
pub(crate) fn append(hash: u128, bytes: &[u8]) -> u128 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the test vectors of the function's authors.
    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(append(BASIS, b""), BASIS);
        assert_eq!(append(BASIS, b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(append(BASIS, b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }
}
