//! A synthetic sCMOS camera: what the sensor adds to light, and some light.
//!
//! The model is the usual one (EMVA 1288, section 2): photoelectrons are Poisson distributed, reading a pixel adds
//! Gaussian noise, and each pixel has an offset and a gain slightly its own.

use std::f32::consts::TAU;
use std::thread;

use memmap2::MmapMut;
use shardwright::Dtype;

use super::files::huge_pages;
use super::recording::{FrameSource, Recording};
use crate::args::Camera;
use crate::failure::Failure;

/// Frames if nothing else is said.
pub(crate) const DEFAULT_FRAMES: u64 = 500;

const MOST_FRAMES: u64 = 64;
const LEAST_FRAMES: u64 = 2;
const SEED: u64 = 0x05ca_1ab1_e0dd_ba11;

const OFFSET_COUNTS: f32 = 100.0;
const OFFSET_SPREAD_COUNTS: f32 = 1.5;
const GAIN_COUNTS_PER_ELECTRON: f32 = 2.17;
const GAIN_SPREAD: f32 = 0.01;
const READ_NOISE_ELECTRONS: f32 = 1.6;
const BACKGROUND_ELECTRONS: f32 = 6.0;

/// A camera whose frames were made before the clock starts, and that shows them again and again.
pub(crate) struct Synthetic {
    recording: Recording,
    pool: MmapMut,
    frame_bytes: usize,
}

impl Synthetic {
    /// Makes the frames: a quarter of `memory`, at least 2 and at most 64, never more than the run will take.
    pub(crate) fn new(camera: Camera, frames: u64, memory: u64) -> Result<Self, Failure> {
        let mut recording = Recording::movie(camera.dtype, None, camera.height.into(), camera.width.into());
        recording.fps = camera.fps;
        recording.name = Some("synthetic sCMOS".into());
        let frame_bytes = recording.frame_bytes();
        if frame_bytes * LEAST_FRAMES > memory / 2 {
            return Err(Failure::Usage(format!(
                "--memory {memory} is too little: frames of {frame_bytes} bytes need at least {} bytes",
                frame_bytes * LEAST_FRAMES * 2
            )));
        }
        let most = MOST_FRAMES.min(frames).max(LEAST_FRAMES);
        let count = (memory / 4 / frame_bytes).clamp(LEAST_FRAMES, most);
        let mut pool = huge_pages((count * frame_bytes) as usize)?;
        expose_all(camera, &mut pool, frame_bytes as usize);
        Ok(Self { recording, pool, frame_bytes: frame_bytes as usize })
    }

    fn frames(&self) -> u64 {
        (self.pool.len() / self.frame_bytes) as u64
    }
}

impl FrameSource for Synthetic {
    fn recording(&self) -> &Recording {
        &self.recording
    }

    fn read(&mut self, index: u64, frame: &mut [u8]) -> Result<(), Failure> {
        let start = (index % self.frames()) as usize * self.frame_bytes;
        frame.copy_from_slice(&self.pool[start..start + self.frame_bytes]);
        Ok(())
    }

    fn distinct(&self, pass: u64) -> u64 {
        self.frames().min(pass)
    }

    fn held_bytes(&self) -> u64 {
        self.pool.len() as u64
    }
}

/// Makes all frames of the pool, on all cores. Each frame has a seed of its own, so that the number of cores doesn't
/// show.
fn expose_all(camera: Camera, pool: &mut [u8], frame_bytes: usize) {
    let count = pool.len() / frame_bytes;
    let noise = Noise::new();
    let scene = Scene::new(camera);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(count);
    let share = count.div_ceil(threads);
    thread::scope(|scope| {
        for (thread, frames) in pool.chunks_mut(share * frame_bytes).enumerate() {
            let (noise, scene) = (&noise, &scene);
            scope.spawn(move || {
                for (index, frame) in frames.chunks_mut(frame_bytes).enumerate() {
                    let index = thread * share + index;
                    expose(camera, index as u64, &scene.at(index as f32 / count as f32), noise, frame);
                }
            });
        }
    });
}

/// Takes one frame of the scene.
fn expose(camera: Camera, index: u64, spots: &[BrightSpot], noise: &Noise, frame: &mut [u8]) {
    let width = camera.width as usize;
    let size = camera.dtype.size();
    let mut random = SEED ^ mix(index + 1);
    let mut light = vec![0f32; width];
    let mut counts = vec![0f32; width];
    for (y, row) in frame.chunks_exact_mut(width * size).enumerate() {
        illuminate(y, camera.height as usize, spots, &mut light);
        for (x, (light, counts)) in light.iter().zip(&mut counts).enumerate() {
            random = random.wrapping_add(GOLDEN);
            let fixed = mix((y * width + x) as u64);
            *counts = noise.counts(*light, mix(random), fixed);
        }
        digitize(camera.dtype, &counts, row);
    }
}

/// The light on one row: brighter in the middle as under a real lamp, and whatever spots touch the row.
fn illuminate(y: usize, height: usize, spots: &[BrightSpot], light: &mut [f32]) {
    let dy = y as f32 / height as f32 - 0.5;
    let width = light.len() as f32;
    for (x, light) in light.iter_mut().enumerate() {
        let dx = x as f32 / width - 0.5;
        *light = BACKGROUND_ELECTRONS * (1.0 - 0.8 * (dx * dx + dy * dy));
    }
    for spot in spots {
        let dy = (y as f32 - spot.y) / spot.radius;
        if dy.abs() > 3.0 {
            continue;
        }
        let peak = spot.electrons * (-0.5 * dy * dy).exp();
        let reach = 3.0 * spot.radius;
        // Spots may lie partly or wholly outside.
        let first = (spot.x - reach).ceil().clamp(0.0, width);
        let past = ((spot.x + reach).floor() + 1.0).clamp(first, width);
        for (step, light) in light[first as usize..past as usize].iter_mut().enumerate() {
            let dx = (first + step as f32 - spot.x) / spot.radius;
            *light += peak * (-0.5 * dx * dx).exp();
        }
    }
}

/// Turns counts into the camera's numbers. Narrow types see the same scene with fewer steps.
fn digitize(dtype: Dtype, counts: &[f32], row: &mut [u8]) {
    macro_rules! whole {
        ($type:ty, $steps:expr) => {
            for (count, pixel) in counts.iter().zip(row.chunks_exact_mut(size_of::<$type>())) {
                // `as` saturates, as a sensor does.
                pixel.copy_from_slice(&((count * $steps + 0.5).max(0.0) as $type).to_ne_bytes());
            }
        };
    }
    macro_rules! real {
        ($type:ty) => {
            for (count, pixel) in counts.iter().zip(row.chunks_exact_mut(size_of::<$type>())) {
                pixel.copy_from_slice(&<$type>::from(*count).to_ne_bytes());
            }
        };
    }
    match dtype {
        Dtype::U8 => whole!(u8, 0.25),
        Dtype::I8 => whole!(i8, 0.125),
        Dtype::U16 => whole!(u16, 1.0),
        Dtype::I16 => whole!(i16, 1.0),
        Dtype::U32 => whole!(u32, 1.0),
        Dtype::I32 => whole!(i32, 1.0),
        Dtype::U64 => whole!(u64, 1.0),
        Dtype::I64 => whole!(i64, 1.0),
        Dtype::F32 => real!(f32),
        Dtype::F64 => real!(f64),
        other => unreachable!("the command line takes no {other}"),
    }
}

/// A bright spot on the sensor, in pixels and electrons.
#[derive(Debug, Clone, Copy)]
struct BrightSpot {
    x: f32,
    y: f32,
    radius: f32,
    electrons: f32,
}

/// A few dozen blobs and filaments that move in circles, so that the pool can be shown again without a jump.
struct Scene {
    blobs: Vec<(BrightSpot, Orbit)>,
    filaments: Vec<(BrightSpot, Orbit)>,
    /// The sensor's shorter side.
    side: f32,
}

#[derive(Debug, Clone, Copy)]
struct Orbit {
    radius: f32,
    phase: f32,
    turns: f32,
}

impl Orbit {
    fn at(self, time: f32) -> (f32, f32) {
        let (sin, cos) = (TAU * (self.turns * time + self.phase)).sin_cos();
        (self.radius * cos, self.radius * sin)
    }
}

const FILAMENT_SPOTS: usize = 60;

impl Scene {
    fn new(camera: Camera) -> Self {
        let (width, height) = (camera.width as f32, camera.height as f32);
        let side = width.min(height);
        let mut state = SEED;
        let mut uniform = |low: f32, high: f32| {
            state = state.wrapping_add(GOLDEN);
            low + (high - low) * (mix(state) >> 40) as f32 / (1u64 << 24) as f32
        };
        let mut moving = |radius: (f32, f32), electrons: (f32, f32)| {
            let spot = BrightSpot {
                x: uniform(0.05, 0.95) * width,
                y: uniform(0.05, 0.95) * height,
                radius: (uniform(radius.0, radius.1) * side).max(0.8),
                electrons: uniform(electrons.0, electrons.1),
            };
            let turns = if uniform(0.0, 1.0) < 0.5 { 1.0 } else { -1.0 };
            (spot, Orbit { radius: uniform(0.005, 0.04) * side, phase: uniform(0.0, 1.0), turns })
        };
        Self {
            blobs: (0..36).map(|_| moving((0.004, 0.012), (40.0, 350.0))).collect(),
            filaments: (0..12).map(|_| moving((0.001, 0.001), (20.0, 80.0))).collect(),
            side,
        }
    }

    /// Everything bright at `time`, which runs from 0 to 1 through the pool.
    fn at(&self, time: f32) -> Vec<BrightSpot> {
        let moved = |&(spot, orbit): &(BrightSpot, Orbit), offset: (f32, f32)| {
            let (dx, dy) = orbit.at(time);
            BrightSpot { x: spot.x + dx + offset.0, y: spot.y + dy + offset.1, ..spot }
        };
        let mut spots: Vec<_> = self.blobs.iter().map(|blob| moved(blob, (0.0, 0.0))).collect();
        let spacing = 0.12 * self.side / FILAMENT_SPOTS as f32;
        for &(spot, orbit) in &self.filaments {
            let (sin, cos) = (TAU * orbit.phase).sin_cos();
            // Neighbours overlap; so weighted they sum up to the filament's own brightness.
            let electrons = spot.electrons * spacing / (spot.radius * TAU.sqrt());
            let filament = (BrightSpot { electrons, ..spot }, orbit);
            for step in 0..FILAMENT_SPOTS {
                let along = (step as f32 / FILAMENT_SPOTS as f32 - 0.5) * 0.12 * self.side;
                // The filament waves across its own direction.
                let across = 0.008 * self.side * (TAU * (2.0 * along / (0.12 * self.side) + time)).sin();
                spots.push(moved(&filament, (along * cos - across * sin, along * sin + across * cos)));
            }
        }
        spots
    }
}

const POISSON_BITS: u32 = 10;
const POISSON_STEPS: f32 = 4.0;
const POISSON_LEVELS: usize = 128;
const GAUSS_BITS: u32 = 12;

/// Random numbers by table: one look-up costs less than one logarithm, and a camera has many pixels.
struct Noise {
    /// For each mean in steps of a quarter electron, the quantiles of the Poisson distribution.
    poisson: Vec<u8>,
    /// The quantiles of the normal distribution.
    gauss: Vec<f32>,
}

impl Noise {
    fn new() -> Self {
        let levels = (0..POISSON_LEVELS).map(|level| level as f64 / f64::from(POISSON_STEPS));
        let poisson = levels.flat_map(poisson_quantiles).collect();
        Self { poisson, gauss: normal_quantiles(1 << GAUSS_BITS) }
    }

    fn gauss(&self, random: u64) -> f32 {
        self.gauss[random as usize & ((1 << GAUSS_BITS) - 1)]
    }

    /// The counts of a pixel that `light` electrons are expected in. `random` is this exposure's, `fixed` the pixel's
    /// own.
    fn counts(&self, light: f32, random: u64, fixed: u64) -> f32 {
        let shot = random >> GAUSS_BITS;
        let level = (light * POISSON_STEPS + 0.5) as usize;
        let electrons = if level < POISSON_LEVELS {
            f32::from(self.poisson[(level << POISSON_BITS) | (shot as usize & ((1 << POISSON_BITS) - 1))])
        } else {
            // From some 30 electrons on the normal distribution is as good.
            light + light.sqrt() * self.gauss(shot)
        };
        let electrons = electrons + READ_NOISE_ELECTRONS * self.gauss(random);
        let offset = OFFSET_COUNTS + OFFSET_SPREAD_COUNTS * self.gauss(fixed);
        let gain = GAIN_COUNTS_PER_ELECTRON * (1.0 + GAIN_SPREAD * self.gauss(fixed >> GAUSS_BITS));
        offset + gain * electrons
    }
}

/// The Poisson distribution's quantiles at the middles of equal steps.
fn poisson_quantiles(mean: f64) -> impl Iterator<Item = u8> {
    let count = 1u32 << POISSON_BITS;
    let (mut k, mut probability) = (0u8, (-mean).exp());
    let mut cumulated = probability;
    (0..count).map(move |step| {
        while cumulated < (f64::from(step) + 0.5) / f64::from(count) && k < u8::MAX {
            k += 1;
            probability *= mean / f64::from(k);
            cumulated += probability;
        }
        k
    })
}

/// The normal distribution's quantiles at the middles of equal steps, by summing the density in fine slices.
fn normal_quantiles(count: usize) -> Vec<f32> {
    const SLICE: f64 = 1e-4;
    let density = |x: f64| (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
    let (mut x, mut cumulated) = (-6.0, 0.0);
    let mut quantile = |target: f64| {
        while cumulated < target {
            cumulated += density(x + SLICE / 2.0) * SLICE;
            x += SLICE;
        }
        x as f32
    };
    (0..count).map(|step| quantile((step as f64 + 0.5) / count as f64)).collect()
}

/// The odd integer next to 2^64 divided by the golden ratio: steps by it visit all 64-bit numbers.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes all bits of a counter look random (the finalizer of SplitMix64; Steele, Lea and Flood 2014).
fn mix(counter: u64) -> u64 {
    let mut bits = counter.wrapping_mul(GOLDEN);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn camera(text: &str) -> Camera {
        text.parse().unwrap()
    }

    fn mean_and_variance(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
        let count = values.clone().count() as f64;
        let mean = values.clone().sum::<f64>() / count;
        (mean, values.map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0))
    }

    /// Many exposures of one pixel of a known brightness.
    fn exposures(light: f32) -> (f64, f64) {
        let noise = Noise::new();
        let counts: Vec<_> = (0..200_000).map(|i| f64::from(noise.counts(light, mix(i), mix(u64::MAX)))).collect();
        mean_and_variance(counts.iter().copied())
    }

    #[test]
    fn noise_is_shot_noise_and_read_noise() {
        let (dark, dark_variance) = exposures(0.0);
        let gain = f64::from(GAIN_COUNTS_PER_ELECTRON);
        let read = f64::from(READ_NOISE_ELECTRONS).powi(2);
        assert!((dark - 100.0).abs() < 6.0, "{dark}");
        assert!((dark_variance / (gain * gain * read) - 1.0).abs() < 0.1, "{dark_variance}");
        // Below and above the mean at which the normal distribution takes over.
        for light in [2.0, 6.0, 31.0, 33.0, 200.0] {
            let (mean, variance) = exposures(light);
            let light = f64::from(light);
            assert!(((mean - dark) / (gain * light) - 1.0).abs() < 0.05, "{light} electrons: {mean}");
            assert!((variance / (gain * gain * (light + read)) - 1.0).abs() < 0.1, "{light} electrons: {variance}");
        }
    }

    fn pixels(source: &mut Synthetic, index: u64) -> Vec<u16> {
        let mut frame = vec![0; source.frame_bytes];
        source.read(index, &mut frame).unwrap();
        frame.chunks_exact(2).map(|pixel| u16::from_ne_bytes([pixel[0], pixel[1]])).collect()
    }

    #[test]
    fn frames_look_like_a_camera_s() {
        let mut source = Synthetic::new(camera("256x192xu16"), 500, 1 << 20).unwrap();
        let mut frame = pixels(&mut source, 0);
        frame.sort_unstable();
        let median = frame[frame.len() / 2];
        assert!((105..125).contains(&median), "{median}");
        assert!(frame[0] > 60, "{}", frame[0]);
        let brightest = frame[frame.len() - 1];
        assert!((250..2000).contains(&brightest), "{brightest}");
    }

    #[test]
    fn frames_differ_and_come_again() {
        let mut source = Synthetic::new(camera("64x48xu16@100"), 500, 1 << 20).unwrap();
        assert_eq!(source.frames(), (1 << 20) / 4 / (64 * 48 * 2));
        assert_eq!(source.recording().fps, Some(100.0));
        let frames: Vec<_> = (0..source.frames()).map(|index| pixels(&mut source, index)).collect();
        for (index, frame) in frames.iter().enumerate() {
            assert!(frames[..index].iter().all(|other| other != frame), "frame {index}");
        }
        let again = source.frames() + 1;
        assert_eq!(pixels(&mut source, again), frames[1]);
    }

    #[test]
    fn structures_move() {
        let at = |time| Scene::new(camera("512x512xu16")).at(time);
        let (start, later, end) = (at(0.0), at(0.3), at(1.0));
        assert!(start.iter().zip(&later).all(|(a, b)| (a.x - b.x).hypot(a.y - b.y) > 1.0));
        assert!(start.iter().zip(&end).all(|(a, b)| (a.x - b.x).hypot(a.y - b.y) < 0.1));
    }

    #[test]
    fn the_same_camera_gives_the_same_frames() {
        let pool = |memory| Synthetic::new(camera("64x48xu16"), 500, memory).unwrap().pool;
        assert_eq!(pool(1 << 20)[..], pool(1 << 20)[..]);
    }

    #[test]
    fn every_element_type_has_a_picture() {
        for &dtype in Dtype::ALL {
            let source = Synthetic::new(Camera { dtype, width: 40, height: 30, fps: None }, 2, 1 << 20).unwrap();
            assert_eq!(source.pool.len(), 2 * 40 * 30 * dtype.size());
            let first = &source.pool[..dtype.size()];
            assert!(source.pool.chunks_exact(dtype.size()).any(|pixel| pixel != first), "{dtype}");
            if dtype == Dtype::U8 {
                let (mean, variance) = mean_and_variance(source.pool.iter().map(|&pixel| f64::from(pixel)));
                assert!((24.0..60.0).contains(&mean) && variance > 1.0, "{mean} {variance}");
            }
        }
    }

    #[test]
    fn the_pool_keeps_to_its_share() {
        let frame = 64 * 48 * 2;
        let held = |frames, memory| Synthetic::new(camera("64x48xu16"), frames, memory).unwrap().held_bytes();
        assert_eq!(held(500, 1 << 30), 64 * frame);
        assert_eq!(held(5, 1 << 30), 5 * frame);
        assert_eq!(held(1, 1 << 30), 2 * frame);
        assert_eq!(held(500, 4 * frame), 2 * frame);
        let refused = Synthetic::new(camera("64x48xu16"), 500, 4 * frame - 1).err().unwrap();
        assert!(refused.to_string().contains(&(4 * frame).to_string()), "{refused}");
    }
}
