//! Takes one channel out of interleaved pixels.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use crate::processor::has_avx2;

/// Pixels of several samples that follow each other, as a colour camera gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interleaved {
    /// RGB, BGR: three samples a pixel.
    Three,
    /// RGBA, BGRA: four samples a pixel.
    Four,
}

impl Interleaved {
    /// Samples a pixel.
    pub fn samples(self) -> usize {
        match self {
            Self::Three => 3,
            Self::Four => 4,
        }
    }

    /// Copies sample `channel` of each pixel of `row` to `out`.
    ///
    /// # Panics
    /// When there are no such samples or no such channel, or when `row` and `out` are not of equally many whole pixels.
    pub fn channel(self, sample_bytes: usize, channel: usize, row: &[u8], out: &mut [u8]) {
        let pixels = out.len() / sample_bytes;
        assert!(channel < self.samples(), "channel {channel} of {}", self.samples());
        assert_eq!(out.len(), pixels * sample_bytes, "whole samples");
        assert_eq!(row.len(), pixels * sample_bytes * self.samples(), "a row of as many pixels");
        if let Some(from_channel) = row.get(channel * sample_bytes..) {
            self.first(sample_bytes, from_channel, out);
        }
    }

    /// As [`channel`](Self::channel) of a row that begins with the sample of its first pixel, and may end with that of
    /// its last.
    ///
    /// # Panics
    /// When samples have other than 1, 2, 4 or 8 bytes.
    pub fn first(self, sample_bytes: usize, row: &[u8], out: &mut [u8]) {
        match (self, sample_bytes) {
            (Self::Three, 1) => gather::<3, 1>(row, out),
            (Self::Four, 1) => gather::<4, 1>(row, out),
            (Self::Three, 2) => gather::<6, 2>(row, out),
            (Self::Four, 2) => gather::<8, 2>(row, out),
            (Self::Three, 4) => gather::<12, 4>(row, out),
            (Self::Four, 4) => gather::<16, 4>(row, out),
            (Self::Three, 8) => gather::<24, 8>(row, out),
            (Self::Four, 8) => gather::<32, 8>(row, out),
            _ => panic!("samples of {sample_bytes} bytes, possible are 1, 2, 4 and 8"),
        }
    }
}

/// Copies the first `S` of each `P` bytes; the last of these may be cut short behind them.
fn gather<const P: usize, const S: usize>(row: &[u8], out: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn gather_avx2<const P: usize, const S: usize>(row: &[u8], out: &mut [u8]) {
        gather_all::<P, S>(row, out);
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: it was just found.
        return unsafe { gather_avx2::<P, S>(row, out) };
    }
    gather_all::<P, S>(row, out);
}

#[inline(always)]
fn gather_all<const P: usize, const S: usize>(row: &[u8], out: &mut [u8]) {
    let (pixels, last) = row.as_chunks::<P>();
    let out = out.as_chunks_mut::<S>().0;
    for (place, pixel) in out.iter_mut().zip(pixels) {
        if S > 4 {
            *place = std::array::from_fn(|i| pixel[i]);
            continue;
        }
        // As one number where there is one so wide: the compiler then shifts and narrows whole vectors.
        let bytes = match P {
            4 => u32::from_ne_bytes(std::array::from_fn(|i| pixel[i])).to_ne_bytes(),
            _ => std::array::from_fn(|i| pixel.get(i).copied().unwrap_or(0)),
        };
        *place = std::array::from_fn(|i| bytes[i]);
    }
    if let (Some(place), Some(sample)) = (out.get_mut(pixels.len()), last.first_chunk()) {
        *place = *sample;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_channel_is_taken_out_of_rows_of_any_length() {
        let bytes: Vec<u8> = (0..32 * 300_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let (most, step) = if cfg!(miri) { (20, 9) } else { (300, 1) };
        for (pixels, interleaved, sample_bytes) in (0..most)
            .step_by(step)
            .flat_map(|n| [Interleaved::Three, Interleaved::Four].map(|interleaved| (n, interleaved)))
            .flat_map(|(n, interleaved)| [1, 2, 4, 8].map(|sample_bytes| (n, interleaved, sample_bytes)))
        {
            let row = &bytes[..pixels * sample_bytes * interleaved.samples()];
            let samples: Vec<&[u8]> = row.chunks(sample_bytes).collect();
            for channel in 0..interleaved.samples() {
                let mut out = vec![0xAA; pixels * sample_bytes];
                interleaved.channel(sample_bytes, channel, row, &mut out);
                let expected: Vec<&[u8]> =
                    samples.iter().skip(channel).step_by(interleaved.samples()).copied().collect();
                assert!(out == expected.concat(), "{interleaved:?} x {sample_bytes} bytes, {channel}, {pixels} pixels");
            }
        }
    }

    #[test]
    #[should_panic(expected = "channel 3 of 3")]
    fn there_is_no_fourth_channel_of_three() {
        Interleaved::Three.channel(1, 3, &[0; 9], &mut [0; 3]);
    }
}
