//! Where Neuroglancer's precomputed format puts the chunks of a volume: their ids, and the shard and minishard of an
//! id.
//!
//! Sources: Neuroglancer, "Precomputed sharded format" (shards, minishards, hashes) and "Precomputed volume format"
//! (the compressed Morton code of a chunk's place in the grid).

use crate::config::VolumeHash;

/// The ids of the chunks of one grid, in x, y, z.
///
/// An id interleaves the bits of the three coordinates, lowest bits first and x before y before z, and leaves out those
/// that no coordinate of this grid has. So the size of the grid is part of what an id means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkIds {
    bits: [u32; 3],
}

impl ChunkIds {
    /// The ids of a grid of this many chunks in x, y, z; `None` where 64 bits don't suffice.
    pub(crate) fn new(grid: [u64; 3]) -> Option<Self> {
        let bits = grid.map(|chunks| u64::BITS - chunks.saturating_sub(1).leading_zeros());
        (bits.iter().sum::<u32>() <= u64::BITS).then_some(Self { bits })
    }

    /// How many bits an id has.
    pub(crate) fn total(self) -> u32 {
        self.bits.iter().sum()
    }

    /// How many of an id's lowest `count` bits come from each coordinate.
    pub(crate) fn of_lowest(self, count: u32) -> [u32; 3] {
        let mut of = [0; 3];
        self.in_order().take(count as usize).for_each(|(dim, _)| of[dim] += 1);
        of
    }

    /// The coordinate and its bit behind each bit of an id, from the lowest.
    fn in_order(self) -> impl Iterator<Item = (usize, u32)> {
        let most = self.bits.into_iter().max().unwrap_or(0);
        (0..most).flat_map(move |bit| (0..3).filter(move |&dim| bit < self.bits[dim]).map(move |dim| (dim, bit)))
    }

    pub(crate) fn id(self, position: [u64; 3]) -> u64 {
        self.in_order().enumerate().fold(0, |id, (at, (dim, bit))| id | (position[dim] >> bit & 1) << at)
    }

    /// The place in the grid that has this id. Bits that no id has are passed over.
    pub(crate) fn position(self, id: u64) -> [u64; 3] {
        let mut position = [0; 3];
        self.in_order().enumerate().for_each(|(at, (dim, bit))| position[dim] |= (id >> at & 1) << bit);
        position
    }
}

/// How ids are dealt out to shards and minishards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardSpec {
    pub(crate) hash: VolumeHash,
    pub(crate) preshift_bits: u32,
    pub(crate) minishard_bits: u32,
    pub(crate) shard_bits: u32,
    pub(crate) gzip_indexes: bool,
}

impl ShardSpec {
    /// The shard and the minishard of an id.
    pub(crate) fn place(&self, id: u64) -> (u64, u64) {
        let shifted = id.checked_shr(self.preshift_bits).unwrap_or(0);
        let hash = match self.hash {
            VolumeHash::Identity => shifted,
            VolumeHash::Murmurhash3X86_128 => murmurhash3_x86_128(shifted),
        };
        let low = |value: u64, bits: u32| if bits >= 64 { value } else { value & ((1 << bits) - 1) };
        let shard = low(hash.checked_shr(self.minishard_bits).unwrap_or(0), self.shard_bits);
        (shard, low(hash, self.minishard_bits))
    }

    pub(crate) fn file_name(&self, shard: u64) -> String {
        let digits = self.shard_bits.div_ceil(4) as usize;
        format!("{shard:0digits$x}.shard")
    }

    pub(crate) fn shard_of(&self, file_name: &str) -> Option<u64> {
        let shard = u64::from_str_radix(file_name.strip_suffix(".shard")?, 16).ok()?;
        // Only the one spelling counts: `+1` and `01` parse as well.
        (self.file_name(shard) == file_name && shard.checked_shr(self.shard_bits).unwrap_or(0) == 0).then_some(shard)
    }

    /// Bytes at the start of each shard: for every minishard, where its index starts and ends.
    pub(crate) fn head_bytes(&self) -> u64 {
        16 << self.minishard_bits
    }
}

/// The low 64 bits of MurmurHash3_x86_128 of a number's 8 little-endian bytes, seed 0 (Austin Appleby, public domain).
///
/// Eight bytes are less than a block of that hash, so only what it does with a tail and its finish are left.
fn murmurhash3_x86_128(value: u64) -> u64 {
    const C1: u32 = 0x239b_961b;
    const C2: u32 = 0xab0e_9789;
    const C3: u32 = 0x38b3_4ae5;
    let mut h1 = (value as u32).wrapping_mul(C1).rotate_left(15).wrapping_mul(C2);
    let mut h2 = ((value >> 32) as u32).wrapping_mul(C2).rotate_left(16).wrapping_mul(C3);
    let (mut h3, mut h4) = (0u32, 0u32);
    let length = 8;
    (h1, h2, h3, h4) = (h1 ^ length, h2 ^ length, h3 ^ length, h4 ^ length);
    h1 = h1.wrapping_add(h2).wrapping_add(h3).wrapping_add(h4);
    (h2, h3, h4) = (h2.wrapping_add(h1), h3.wrapping_add(h1), h4.wrapping_add(h1));
    (h1, h2, h3, h4) = (mix(h1), mix(h2), mix(h3), mix(h4));
    h1 = h1.wrapping_add(h2).wrapping_add(h3).wrapping_add(h4);
    h2 = h2.wrapping_add(h1);
    u64::from(h2) << 32 | u64::from(h1)
}

fn mix(mut h: u32) -> u32 {
    h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
    h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
    h ^ h >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_interleave_the_bits_that_the_grid_has() {
        let ids = ChunkIds::new([8, 4, 2]).unwrap();
        assert_eq!(ids.bits, [3, 2, 1]);
        // From the lowest bit: x0 y0 z0 x1 y1 x2.
        assert_eq!(ids.id([1, 0, 0]), 0b1);
        assert_eq!(ids.id([0, 1, 0]), 0b10);
        assert_eq!(ids.id([0, 0, 1]), 0b100);
        assert_eq!(ids.id([2, 0, 0]), 0b1000);
        assert_eq!(ids.id([0, 2, 0]), 0b10000);
        assert_eq!(ids.id([4, 0, 0]), 0b100000);
        assert_eq!(ids.of_lowest(4), [2, 1, 1]);
        assert_eq!(ChunkIds::new([1, 1, 1]).unwrap().id([0, 0, 0]), 0);
        assert_eq!(ChunkIds::new([1 << 30, 1 << 30, 1 << 30]), None);
    }

    /// Values of the reference implementation, made with the Python package mmh3: `mmh3.hash128(…, x64arch=False)`.
    #[test]
    fn hashes_are_those_of_the_reference() {
        for (value, hash) in HASHES {
            assert_eq!(murmurhash3_x86_128(value), hash, "{value}");
        }
    }

    const HASHES: [(u64, u64); 8] = [
        (0x0, 0x4772_b084_e028_ae41),
        (0x1, 0xe8bd_67d6_16d4_ce9a),
        (0x2, 0xd62f_9cd2_1b01_3f5a),
        (0xff, 0x4e2f_c5b5_b87b_f79a),
        (0x0123_4567_89ab_cdef, 0x7080_3626_4c10_9d93),
        (0xffff_ffff_ffff_ffff, 0x574f_66bd_212b_5d1a),
        (0x1_0000_0000, 0xbbb1_2d13_3b78_fd64),
        (0x075b_cd15, 0x1265_76fc_191a_1827),
    ];

    #[test]
    fn a_shard_is_named_by_its_number_in_full_width() {
        let spec = |shard_bits| ShardSpec {
            hash: VolumeHash::Identity,
            preshift_bits: 2,
            minishard_bits: 3,
            shard_bits,
            gzip_indexes: false,
        };
        assert_eq!(spec(0).file_name(0), "0.shard");
        assert_eq!(spec(5).file_name(17), "11.shard");
        assert_eq!(spec(9).file_name(17), "011.shard");
        assert_eq!(spec(9).shard_of("011.shard"), Some(17));
        for other in ["11.shard", "0011.shard", "fff.shard", "+11.shard", "011", "0AB.shard"] {
            assert_eq!(spec(9).shard_of(other), None, "{other}");
        }
        assert_eq!(spec(2).place(0b1101_0110), (0b10, 0b101));
        assert_eq!(spec(0).place(u64::MAX), (0, 7));
    }

    proptest! {
        #[test]
        fn positions_have_one_id_each(
            grid in prop::array::uniform3(1u64..2000),
            at in prop::array::uniform3(0.0..1.0),
        ) {
            let ids = ChunkIds::new(grid).unwrap();
            let position = [0, 1, 2].map(|dim| (at[dim] * grid[dim] as f64) as u64);
            prop_assert_eq!(ids.position(ids.id(position)), position);
            prop_assert!(ids.id(position) < 1 << ids.total());
        }
    }
}
