//! Frames as a scientific camera gives them, for benchmarks: offset, fixed pattern, read noise, shot noise, dim
//! structures.
//!
//! The model is that of `shardwright replay synthetic`, without its moving scene and its tables (EMVA 1288, section 2).

const OFFSET_COUNTS: f64 = 100.0;
const OFFSET_SPREAD_COUNTS: f64 = 1.5;
const GAIN_COUNTS_PER_ELECTRON: f64 = 2.17;
const GAIN_SPREAD: f64 = 0.01;
const READ_NOISE_ELECTRONS: f64 = 1.6;
const BACKGROUND_ELECTRONS: f64 = 6.0;
const SPOTS: usize = 36;

/// A frame of `side` × `side` pixels of `element_bytes` bytes, little-endian. Single bytes count in steps of four, as
/// an 8-bit mode does.
pub(crate) fn frame(side: usize, element_bytes: usize) -> Vec<u8> {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let spots: Vec<_> = (0..SPOTS)
        .map(|_| Spot {
            x: side as f64 * random.uniform(),
            y: side as f64 * random.uniform(),
            radius: side as f64 * (0.004 + 0.008 * random.uniform()),
            electrons: 40.0 + 310.0 * random.uniform(),
        })
        .collect();
    let steps = if element_bytes == 1 { 0.25 } else { 1.0 };
    let mut bytes = Vec::with_capacity(side * side * element_bytes);
    for y in 0..side {
        let near: Vec<_> = spots.iter().filter(|spot| (spot.y - y as f64).abs() < 4.0 * spot.radius).collect();
        for x in 0..side {
            let (dx, dy) = (x as f64 / side as f64 - 0.5, y as f64 / side as f64 - 0.5);
            let lamp = BACKGROUND_ELECTRONS * (1.0 - 0.8 * (dx * dx + dy * dy));
            let light = near.iter().fold(lamp, |light, spot| light + spot.at(x as f64, y as f64));
            let counts = random.counts(light);
            bytes.extend_from_slice(&((steps * counts).round().max(0.0) as u64).to_le_bytes()[..element_bytes]);
        }
    }
    bytes
}

/// Copies a tile of `rows` rows of `row_bytes` bytes, which lie `stride` bytes apart.
pub(crate) fn gather(frame: &[u8], stride: usize, row_bytes: usize, tile: &mut [u8]) {
    for (from, into) in frame.chunks(stride).zip(tile.chunks_exact_mut(row_bytes)) {
        into.copy_from_slice(&from[..row_bytes]);
    }
}

struct Spot {
    x: f64,
    y: f64,
    radius: f64,
    electrons: f64,
}

impl Spot {
    fn at(&self, x: f64, y: f64) -> f64 {
        let squared = ((x - self.x).powi(2) + (y - self.y).powi(2)) / self.radius.powi(2);
        self.electrons * (-0.5 * squared).exp()
    }
}

/// xorshift64*, enough for noise.
struct Random(u64);

impl Random {
    /// In (0, 1].
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn gaussian(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Knuth's method for few electrons: how many uniform factors it takes to fall below e^-mean. From some 30 on, the
    /// normal distribution is as good.
    fn poisson(&mut self, mean: f64) -> f64 {
        if mean > 30.0 {
            return mean + mean.sqrt() * self.gaussian();
        }
        let limit = (-mean).exp();
        let (mut product, mut count) = (self.uniform(), 0.0);
        while product > limit {
            product *= self.uniform();
            count += 1.0;
        }
        count
    }

    /// What one pixel, with an offset and a gain of its own, makes of this many expected electrons.
    fn counts(&mut self, light: f64) -> f64 {
        let electrons = self.poisson(light) + READ_NOISE_ELECTRONS * self.gaussian();
        let offset = OFFSET_COUNTS + OFFSET_SPREAD_COUNTS * self.gaussian();
        offset + GAIN_COUNTS_PER_ELECTRON * (1.0 + GAIN_SPREAD * self.gaussian()) * electrons
    }
}
