//! Tiles as cameras give them, and as nobody would.

/// A linear congruence, enough for noise.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 32
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        ((self.next() * limit as u64) >> 32) as usize
    }

    /// Nearly a normal distribution round 0.
    fn gaussian(&mut self, sigma: f64) -> f64 {
        let sum: u64 = (0..4).map(|_| self.next()).sum();
        (sum as f64 / f64::from(u32::MAX) - 2.0) * sigma * 1.732
    }
}

/// Mostly what chunks have; often a few bytes; often just where blocks and groups end.
pub(crate) fn length(random: &mut Random) -> usize {
    const BORDERS: [usize; 9] = [32, 128, 256, 1024, 4096, 8192, 16 << 10, 64 << 10, 128 << 10];
    match random.below(6) {
        0 => 1 + random.below(300),
        1 => (BORDERS[random.below(9)] * (1 + random.below(3)) + random.below(5)).saturating_sub(2),
        2 => 1 + random.below(20_000),
        3 | 4 => 1 + random.below(300_000),
        _ => 256 << 10,
    }
}

type Maker = fn(&mut Random, usize, usize) -> Vec<u8>;

const KINDS: [(&str, Maker); 17] = [
    ("camera noise", camera_noise),
    ("camera noise with bright spots", spots),
    ("photons", photons),
    ("floating-point noise", floats),
    ("labels", labels),
    ("a ramp", ramp),
    ("repeated rows", rows),
    ("runs", runs),
    ("a histogram of Fibonacci numbers", fibonacci),
    ("equally many of some bytes", equal),
    ("a histogram of powers of two", powers),
    ("one frequent byte and all others", steep),
    ("clusters of bytes far apart", clusters),
    ("bytes that a look at some places does not see", unseen),
    ("noise that wanders", wandering),
    ("one byte", constant),
    ("all bits random", random_bits),
];

/// A tile of one kind, or of two, and what it is.
pub(crate) fn tile(random: &mut Random, element_bytes: usize, bytes: usize) -> (String, Vec<u8>) {
    let (name, make) = KINDS[random.below(KINDS.len())];
    let mut tile = make(random, element_bytes, bytes);
    tile.truncate(bytes);
    if random.below(4) > 0 {
        return (name.to_owned(), tile);
    }
    let (other, make) = KINDS[random.below(KINDS.len())];
    let from = random.below(bytes) / element_bytes * element_bytes;
    tile.truncate(from);
    tile.extend(make(random, element_bytes, bytes - from));
    tile.truncate(bytes);
    (format!("{name}, from byte {from} on {other}"), tile)
}

/// Elements in the machine's order, the lowest bytes of what `value` gives.
fn elements(element_bytes: usize, bytes: usize, mut value: impl FnMut(usize) -> u64) -> Vec<u8> {
    let mut tile = Vec::with_capacity(bytes + 8);
    for place in 0..bytes.div_ceil(element_bytes) {
        tile.extend_from_slice(&value(place).to_le_bytes()[..element_bytes]);
    }
    tile
}

fn camera_noise(random: &mut Random, element_bytes: usize, bytes: usize) -> Vec<u8> {
    let sigma = [0.3, 1.0, 3.0, 8.0, 25.0, 80.0, 1000.0][random.below(7)];
    let offset = [0.0, 20.0, 100.0, 255.0, 500.0, 30_000.0][random.below(6)];
    elements(element_bytes, bytes, |_| (offset + random.gaussian(sigma)).max(0.0) as u64)
}

fn spots(random: &mut Random, element_bytes: usize, bytes: usize) -> Vec<u8> {
    let apart = 1 + random.below(2000);
    elements(element_bytes, bytes, |_| {
        let light = if random.below(apart) == 0 { random.below(1000) as f64 } else { 0.0 };
        (110.0 + light + random.gaussian(4.0)).max(0.0) as u64
    })
}

fn photons(random: &mut Random, element_bytes: usize, bytes: usize) -> Vec<u8> {
    let apart = 1 + random.below(5000);
    elements(element_bytes, bytes, |_| if random.below(apart) == 0 { 1 + random.below(3) as u64 } else { 0 })
}

fn floats(random: &mut Random, element_bytes: usize, bytes: usize) -> Vec<u8> {
    let gain = 1.0 + random.below(100) as f64 / 7.0;
    elements(element_bytes, bytes, |_| {
        let value = (100.0 + random.gaussian(5.0)).round() / gain;
        if element_bytes == 8 { value.to_bits() } else { u64::from((value as f32).to_bits()) }
    })
}

fn labels(random: &mut Random, element_bytes: usize, bytes: usize) -> Vec<u8> {
    let (mut left, mut label) = (0, 0);
    elements(element_bytes, bytes, |_| {
        if left == 0 {
            (left, label) = (1 + random.below(400), random.below(70_000) as u64);
        }
        left -= 1;
        label
    })
}

fn ramp(random: &mut Random, element_bytes: usize, bytes: usize) -> Vec<u8> {
    let (step, noise) = (1 + random.below(50), 1 + random.below(3));
    elements(element_bytes, bytes, |place| (place / step + random.below(noise)) as u64)
}

fn rows(random: &mut Random, element_bytes: usize, bytes: usize) -> Vec<u8> {
    let row_bytes = element_bytes * (1 + random.below(2000));
    let row = camera_noise(random, element_bytes, row_bytes);
    let mut tile: Vec<u8> = row.iter().cycle().take(bytes).copied().collect();
    for _ in 0..random.below(50) {
        let place = random.below(bytes);
        tile[place] = random.next() as u8;
    }
    tile
}

/// Of all lengths round those that sequences have codes for.
fn runs(random: &mut Random, _: usize, bytes: usize) -> Vec<u8> {
    let most = [10, 40, 200, 3000, 70_000, 140_000][random.below(6)];
    let mut tile = Vec::with_capacity(bytes);
    while tile.len() < bytes {
        let (byte, times) = (random.below(5) as u8, 1 + random.below(most));
        tile.extend(std::iter::repeat_n(byte, times.min(bytes - tile.len())));
        for _ in 0..random.below(30) {
            tile.push(random.next() as u8);
        }
    }
    tile
}

/// The deepest of Huffman's trees.
fn fibonacci(random: &mut Random, _: usize, bytes: usize) -> Vec<u8> {
    let (first, mut numbers) = (random.below(256), vec![1_usize, 1]);
    while numbers.iter().sum::<usize>() < bytes {
        numbers.push(numbers[numbers.len() - 1] + numbers[numbers.len() - 2]);
    }
    let counts = numbers.into_iter().enumerate().map(|(rank, count)| ((first + 7 * rank) as u8, count));
    shuffled(random, counts.collect(), bytes)
}

fn equal(random: &mut Random, _: usize, bytes: usize) -> Vec<u8> {
    let (first, symbols) = (random.below(256), [1, 2, 3, 16, 128, 129, 192, 255, 256][random.below(9)]);
    let frequent = if random.below(3) == 0 { bytes / 2 } else { bytes / symbols };
    let counts =
        (0..symbols).map(|symbol| ((first + symbol) as u8, if symbol == 0 { frequent } else { bytes / symbols }));
    shuffled(random, counts.collect(), bytes)
}

/// A code that must be cut to the longest length that is allowed.
fn powers(random: &mut Random, _: usize, bytes: usize) -> Vec<u8> {
    let (first, step) = (random.below(256), 1 + 2 * random.below(64));
    let ranks = (bytes.max(2).ilog2() as usize).min(18);
    let counts = (0..ranks).map(|rank| ((first + step * rank) as u8, 1 << rank));
    shuffled(random, counts.collect(), bytes)
}

/// The shortest of codes beside the longest.
fn steep(random: &mut Random, _: usize, bytes: usize) -> Vec<u8> {
    let (frequent, share) = (random.next() as u8, [4, 40, 400, 4000][random.below(4)]);
    (0..bytes).map(|_| if random.below(share) == 0 { random.next() as u8 } else { frequent }).collect()
}

/// No window of neighbouring values has them all.
fn clusters(random: &mut Random, _: usize, bytes: usize) -> Vec<u8> {
    let clusters: Vec<(usize, usize)> =
        (0..1 + random.below(5)).map(|_| (random.below(256), 1 + random.below(70))).collect();
    let rare = [1, 3, 30, 300, 3000][random.below(5)];
    let draw = move |random: &mut Random| {
        let cluster = if random.below(rare) == 0 { random.below(clusters.len()) } else { 0 };
        let (first, width) = clusters[cluster];
        (first + random.below(width)) as u8
    };
    (0..bytes).map(|_| draw(random)).collect()
}

/// The first of each few words are of other bytes than the rest: in the upper half alone, the lower, or both.
fn unseen(random: &mut Random, _: usize, bytes: usize) -> Vec<u8> {
    let (step, base) = (8 << random.below(6), random.next() as u8 & 0x77);
    let mask = [0x0F, 0xF0, 0x3F, 0xFF][random.below(4)];
    let looked_at = 8 * (1 + random.below(2));
    let byte = |random: &mut Random, place: usize| match place % step {
        inside if inside < looked_at => base + random.below(8) as u8,
        _ => base ^ random.next() as u8 & mask,
    };
    (0..bytes).map(|place| byte(random, place)).collect()
}

/// A code that fits one group of bytes, and the next one less and less.
fn wandering(random: &mut Random, element_bytes: usize, bytes: usize) -> Vec<u8> {
    let (sigma, speed) = ([0.5, 3.0, 10.0, 40.0][random.below(4)], [1.0, 20.0, 300.0][random.below(3)]);
    let per_byte = speed / 65_536.0;
    elements(element_bytes, bytes, |place| {
        let offset = 30.0 + (place * element_bytes) as f64 * per_byte;
        (offset + random.gaussian(sigma)).max(0.0) as u64
    })
}

fn shuffled(random: &mut Random, counts: Vec<(u8, usize)>, bytes: usize) -> Vec<u8> {
    let mut tile: Vec<u8> = counts.into_iter().flat_map(|(byte, count)| std::iter::repeat_n(byte, count)).collect();
    tile.resize(bytes.max(tile.len()), 0);
    for place in (1..tile.len()).rev() {
        tile.swap(place, random.below(place + 1));
    }
    tile
}

fn constant(random: &mut Random, _: usize, bytes: usize) -> Vec<u8> {
    vec![random.next() as u8; bytes]
}

fn random_bits(random: &mut Random, element_bytes: usize, bytes: usize) -> Vec<u8> {
    let bits = random.below(65);
    elements(element_bytes, bytes, |_| {
        let word = random.next() << 32 | random.next();
        if bits == 0 { 0 } else { word >> (64 - bits) }
    })
}
