//! What it takes to make the levels of an image: gigabytes of level 0's pixels per second, by codec, on a tmpfs where
//! there is one; afterwards, and while frames come, beside the same run without levels.

use std::path::Path;
use std::time::Instant;

use shardwright::offline::{Pyramid, PyramidMethod, PyramidOptions};
use shardwright::{Acquisition, Codec, Compressor, Config, Depth, Dim, Downsampling, Record};

const TURNS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `cargo test` runs benches too, to see that they work; one turn of small images tells.
    let measured = std::env::args().any(|word| word == "--bench");
    let (side, frames, turns) = if measured { (2048, 128, TURNS) } else { (300, 2, 1) };
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    for (name, compressor) in [("uncompressed", Compressor::None), ("blosc-lz4", Compressor::default())] {
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
    for (name, compressor) in [("uncompressed", Compressor::None), ("blosc-lz4", Compressor::default())] {
        live(&place, name, compressor, (side, frames, turns))?;
    }
    Ok(())
}

/// The same frames without levels, with those of two dimensions, and with those of three, in turns.
fn live(
    place: &Path,
    name: &str,
    compressor: Compressor,
    (side, frames, turns): (u64, u64, usize),
) -> Result<(), Box<dyn std::error::Error>> {
    let pictures: Vec<Vec<u8>> = (0..4).map(|seed| picture(side, seed)).collect();
    let flat = Downsampling::default();
    let deep = Downsampling { depth: Depth::Always, ..flat.clone() };
    let kinds = [("no levels", None), ("y and x", Some(flat)), ("z, y and x", Some(deep))];
    let mut best = [f64::INFINITY; 3];
    for _ in 0..turns {
        for ((_, pyramid), best) in kinds.iter().zip(&mut best) {
            let folder = tempfile::tempdir_in(place)?;
            let dims = vec![Dim::time(None), Dim::z(32), Dim::y(side), Dim::x(side)];
            let codec = Codec::from(compressor);
            let config = Config { dims, codec, pyramid: pyramid.clone(), sync: false, ..Config::default() };
            let acquisition = Acquisition::create(folder.path().join("run.ome.zarr"), config)?;
            let start = Instant::now();
            for number in 0..frames {
                let mut frame = acquisition.acquire()?;
                frame.copy_from_slice(&pictures[number as usize % pictures.len()]);
                frame.commit(number, Record::default())?;
            }
            acquisition.finish()?;
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }
    let bytes = (frames * side * side * 2) as f64 / 1e9;
    for ((kind, _), seconds) in kinds.iter().zip(best) {
        let (rate, loss) = (bytes / seconds, 100.0 * (1.0 - best[0] / seconds));
        println!("{name}, live, {kind}: {rate:.2} GB/s (best of {turns}), {loss:.0} % less than without");
    }
    Ok(())
}

/// A camera's noise over a slope, 12 bits of 16.
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
