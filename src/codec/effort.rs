//! How hard an encoder tries.

/// How hard an encoder tries, from the least on. Whatever it is, readers take what is made for the same codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Effort {
    /// Not at all: chunks are stored.
    Stored,
    /// What repeats is not searched for.
    Fast,
    /// As the codec says.
    Normal,
}

impl Effort {
    pub(crate) const ALL: [Self; 3] = [Self::Stored, Self::Fast, Self::Normal];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Fast => "fast",
            Self::Normal => "normal",
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::codec::speed::random;
    use crate::codec::{Decoder, Encoder};
    use crate::config::{BloscCname, Codec, Compressor, Shuffle};

    /// Noise, what repeats, and what is hardly anything.
    fn tiles(bytes: usize) -> [Vec<u8>; 3] {
        let mut random = random(1);
        let noise = (0..bytes).map(|at| if at % 2 == 0 { random() as u8 % 64 } else { 0 }).collect();
        [noise, (0..bytes).map(|at| (at % 499 / 7) as u8).collect(), vec![7; bytes]]
    }

    #[test]
    fn whatever_the_effort_the_tile_comes_back() {
        for (cname, efforts) in
            [(BloscCname::Lz4, &[Effort::Stored, Effort::Normal][..]), (BloscCname::Zstd, &Effort::ALL)]
        {
            let codec = Codec::from(Compressor::Blosc { cname, level: 1, shuffle: Shuffle::Bit, block_bytes: 0 });
            for (element, bytes) in [(1, 100), (2, 8192), (2, 300_000), (4, 65_540), (8, 65_536)] {
                let mut encoder = Encoder::new(&codec, element, bytes).unwrap();
                let mut decoder = Decoder::new(&codec, element, bytes).unwrap();
                let (mut room, mut back) = (vec![0; encoder.bound()], vec![0; bytes]);
                for tile in tiles(bytes) {
                    // From each to each, as a run may change.
                    for &effort in efforts.iter().chain(efforts.iter().rev()) {
                        encoder.set_effort(effort);
                        let length = encoder.encode(&tile, &mut room).unwrap();
                        decoder.decode(&room[..length], &mut back).unwrap();
                        assert!(back == tile, "{cname} {} of {bytes} bytes", effort.name());
                        let is_stored = length == encoder.bound();
                        assert!(is_stored || effort != Effort::Stored, "{cname}: {length} of {bytes} bytes");
                    }
                }
            }
        }
    }
}
