//! What it takes to make the levels of an image: gigabytes of level 0's pixels per second, by codec, on a tmpfs where
//! there is one; afterwards, and while frames come, beside the same run without levels. While others use the machine,
//! the time of all cores tells more than rates do.
//!
//! ```text
//! cargo bench --bench pyramid                both
//! cargo bench --bench pyramid -- live 512    while frames come, 512 of them: a short run's end counts for more
//! ```

use std::path::Path;
use std::time::Instant;

use shardwright::offline::{Pyramid, PyramidMethod, PyramidOptions};
use shardwright::{Acquisition, Codec, Compressor, Config, Depth, Dim, Downsampling, Record};

#[allow(dead_code)]
mod camera;

const TURNS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `cargo test` runs benches too, to see that they work; one turn of small images tells.
    let measured = std::env::args().any(|word| word == "--bench");
    let (side, frames, turns) = if measured { (2048, 128, TURNS) } else { (300, 2, 1) };
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let is_live = words.first().is_some_and(|word| word == "live");
    let frames = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(frames);
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let compressors = [("uncompressed", Compressor::None), ("blosc-lz4", Compressor::default())];
    for (name, compressor) in compressors.into_iter().filter(|_| !is_live) {
        let folder = tempfile::tempdir_in(&place).expect("a folder in memory");
        let path = folder.path().join("run.ome.zarr");
        record(&path, compressor, side, frames)?;
        for method in [PyramidMethod::Mean, PyramidMethod::Median, PyramidMethod::Mode] {
            let options =
                PyramidOptions { method: Some(method), overwrite: true, sync: false, ..PyramidOptions::default() };
            let mut rates: Vec<f64> = Vec::new();
            for _ in 0..turns {
                let start = Instant::now();
                let summary = Pyramid::new(&path, &options)?.run()?;
                rates.push(summary.bytes_pixels as f64 / 1e9 / start.elapsed().as_secs_f64());
            }
            rates.sort_by(f64::total_cmp);
            println!("{name}, {method}: {:.2} GB/s of level 0 (median of {turns})", rates[turns / 2]);
        }
    }
    let camera: Vec<_> = (0..4).map(|_| camera::frame(side as usize, 2)).collect();
    let slope: Vec<_> = (0..4).map(|seed| picture(side, seed)).collect();
    for (kind, pictures) in [("a camera's frames", camera), ("noise over a slope", slope)] {
        for (name, compressor) in compressors {
            live(&place, &format!("{name}, {kind}"), compressor, &pictures, (side, frames, turns))?;
        }
    }
    Ok(())
}

/// The same frames without levels, with those of two dimensions, and with those of three, in turns.
fn live(
    place: &Path,
    name: &str,
    compressor: Compressor,
    pictures: &[Vec<u8>],
    (side, frames, turns): (u64, u64, usize),
) -> Result<(), Box<dyn std::error::Error>> {
    let flat = Downsampling::default();
    let deep = Downsampling { depth: Depth::Always, ..flat.clone() };
    let kinds = [("no levels", None), ("y and x", Some(flat)), ("z, y and x", Some(deep))];
    let mut all = [const { Vec::new() }; 3];
    for _ in 0..turns {
        for ((_, pyramid), times) in kinds.iter().zip(&mut all) {
            let folder = tempfile::tempdir_in(place)?;
            let dims = vec![Dim::time(None), Dim::z(32), Dim::y(side), Dim::x(side)];
            let codec = Codec::from(compressor);
            let config = Config { dims, codec, pyramid: pyramid.clone(), sync: false, ..Config::default() };
            let acquisition = Acquisition::create(folder.path().join("run.ome.zarr"), config)?;
            let (start, cpu) = (Instant::now(), cpu_seconds());
            for number in 0..frames {
                let mut frame = acquisition.acquire()?;
                frame.copy_from_slice(&pictures[number as usize % pictures.len()]);
                frame.commit(number, Record::default())?;
            }
            acquisition.finish()?;
            times.push([start.elapsed().as_secs_f64(), cpu_seconds() - cpu]);
        }
    }
    let bytes = (frames * side * side * 2) as f64 / 1e9;
    let least = |times: &[[f64; 2]], which: usize| times.iter().map(|time| time[which]).fold(f64::INFINITY, f64::min);
    for ((kind, _), times) in kinds.iter().zip(&all) {
        let mut ratios: Vec<f64> = times.iter().zip(&all[0]).map(|(with, without)| without[0] / with[0]).collect();
        ratios.sort_by(f64::total_cmp);
        let loss = |ratio: f64| 100.0 * (1.0 - ratio);
        let (best, median) = (loss(least(&all[0], 0) / least(times, 0)), loss(ratios[turns / 2]));
        let (rate, cpu) = (bytes / least(times, 0), 1e3 * least(times, 1) / frames as f64);
        println!(
            "{name}, live, {kind}: {rate:.2} GB/s (best of {turns}), {best:.0} % less than without, \
             {median:.0} % by the median; {cpu:.2} ms of all cores a frame"
        );
    }
    Ok(())
}

/// Seconds that all threads of the process have had a core.
#[allow(unsafe_code)]
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is a valid one.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Noise over a slope, 12 bits of 16.
fn picture(side: u64, seed: u64) -> Vec<u8> {
    let mut state = seed + 1;
    let pixel = |at: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((state >> 60) as u16 + (at % side) as u16).to_le_bytes()
    };
    (0..side * side).flat_map(pixel).collect()
}

/// A run of such frames, each another one.
fn record(path: &Path, compressor: Compressor, side: u64, frames: u64) -> Result<(), Box<dyn std::error::Error>> {
    let dims = vec![Dim::time(Some(frames)), Dim::y(side), Dim::x(side)];
    let config = Config { dims, codec: Codec::from(compressor), sync: false, ..Config::default() };
    let acquisition = Acquisition::create(path, config)?;
    for number in 0..frames {
        let mut frame = acquisition.acquire()?;
        frame.copy_from_slice(&picture(side, number));
        frame.commit(number, Record::default())?;
    }
    acquisition.finish()?;
    Ok(())
}
