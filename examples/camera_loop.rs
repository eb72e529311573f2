//! The camera loop: borrow a buffer, let the camera fill it, hand it over.
//!
//! ```text
//! cargo run --release --example camera_loop -- run.ome.zarr
//! ```

use shardwright::{Acquisition, Config, Dim, Dtype, Record};

const FRAMES: u64 = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: camera_loop OUTPUT")?;
    let dims = vec![
        Dim::time(FRAMES).scale(0.01, "second"),
        Dim::y(1024).scale(0.325, "micrometer"),
        Dim::x(1024).scale(0.325, "micrometer"),
    ];
    let acquisition = Acquisition::create(path, Config { dtype: Dtype::U16, dims, ..Config::default() })?;

    for number in 0..FRAMES {
        let mut frame = acquisition.acquire()?;
        camera_fills(number, &mut frame);
        frame.commit(number, Record::stamped(10_000 * number))?;
    }

    let summary = acquisition.finish()?;
    println!("{} frames written, {} missing", summary.frames_written, summary.frames_missing);
    Ok(())
}

/// Stands in for a camera driver that writes into the buffer: a slope that moves.
fn camera_fills(number: u64, frame: &mut [u8]) {
    for (index, pixel) in frame.chunks_exact_mut(2).enumerate() {
        let value = 100 + (index as u64 + 8 * number) % 1024;
        pixel.copy_from_slice(&(value as u16).to_ne_bytes());
    }
}
