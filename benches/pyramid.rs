//! What it takes to make the levels of an image: gigabytes of level 0's pixels per second, by codec, on a tmpfs where
//! there is one.

use std::path::Path;
use std::time::Instant;

use shardwright::offline::{Pyramid, PyramidMethod, PyramidOptions};
use shardwright::{Acquisition, Codec, Compressor, Config, Dim, Record};

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
            let options = PyramidOptions { method, overwrite: true, sync: false, ..PyramidOptions::default() };
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
    Ok(())
}

/// A camera's noise over a slope, 12 bits of 16.
fn record(path: &Path, compressor: Compressor, side: u64, frames: u64) -> Result<(), Box<dyn std::error::Error>> {
    let dims = vec![Dim::time(Some(frames)), Dim::y(side), Dim::x(side)];
    let config = Config { dims, codec: Codec::from(compressor), sync: false, ..Config::default() };
    let acquisition = Acquisition::create(path, config)?;
    let mut state = 1_u64;
    for number in 0..frames {
        let mut frame = acquisition.acquire()?;
        for (at, pixel) in frame.chunks_exact_mut(2).enumerate() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let value = (state >> 60) as u16 + (at as u64 % side) as u16;
            pixel.copy_from_slice(&value.to_le_bytes());
        }
        frame.commit(number, Record::default())?;
    }
    acquisition.finish()?;
    Ok(())
}
