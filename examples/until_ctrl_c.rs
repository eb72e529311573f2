//! An acquisition of unknown length: it takes frames until Ctrl-C, then finishes in good order.
//!
//! ```text
//! cargo run --release --example until_ctrl_c -- run.ome.zarr
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use shardwright::{Acquisition, Config, Dim, Dtype, Record};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: until_ctrl_c OUTPUT")?;
    let stop = Arc::new(AtomicBool::new(false));
    ctrlc::set_handler({
        let stop = stop.clone();
        move || stop.store(true, Relaxed)
    })?;

    // Without a size, time grows with the frames.
    let dims = vec![Dim::time(None), Dim::y(512), Dim::x(512)];
    let acquisition = Acquisition::create(path, Config { dtype: Dtype::U16, dims, ..Config::default() })?;
    println!("Ctrl-C ends the acquisition");

    for number in (0..).take_while(|_| !stop.load(Relaxed)) {
        let mut frame = acquisition.acquire()?;
        camera_fills(number, &mut frame);
        frame.commit(number, Record::default())?;
        if number % 100 == 0 {
            let stats = acquisition.stats();
            println!(
                "{} frames written, {} of {} buffers free",
                stats.frames_written, stats.ring_free, stats.ring_frames
            );
        }
    }

    let summary = acquisition.finish()?;
    println!("{} frames in an array of {:?}", summary.frames_written, summary.shape);
    Ok(())
}

/// Stands in for a camera of 100 frames per second: rings that run outwards.
fn camera_fills(number: u64, frame: &mut [u8]) {
    std::thread::sleep(Duration::from_millis(10));
    for (index, pixel) in frame.chunks_exact_mut(2).enumerate() {
        let (y, x) = ((index / 512) as f32 - 256.0, (index % 512) as f32 - 256.0);
        let wave = (0.2 * x.hypot(y) - 0.3 * number as f32).sin();
        pixel.copy_from_slice(&((1000.0 + 500.0 * wave) as u16).to_ne_bytes());
    }
}
