//! Two cameras at once, each with its own size, speed and thread, into one dataset.
//!
//! ```text
//! cargo run --release --example two_cameras -- run.ome.zarr
//! ```

use std::thread;
use std::time::Duration;

use shardwright::{Acquisition, Config, Dataset, Dim, Dtype, Record};

/// A make-believe camera: 8-bit frames of one growing grey, at a steady pace.
struct Camera {
    name: &'static str,
    height: u64,
    width: u64,
    frames: u64,
    period: Duration,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let path = std::env::args().nth(1).ok_or("usage: two_cameras OUTPUT")?;
    let overview = Camera { name: "overview", height: 480, width: 640, frames: 50, period: Duration::from_millis(20) };
    let detail = Camera { name: "detail", height: 1200, width: 1600, frames: 100, period: Duration::from_millis(10) };

    let dataset = Dataset::create(path)?;
    // Both acquisitions stand before either camera starts.
    let running = [(overview.acquisition(&dataset)?, overview), (detail.acquisition(&dataset)?, detail)];
    let threads = running.map(|(acquisition, camera)| thread::spawn(move || camera.run(acquisition)));
    for thread in threads {
        thread.join().expect("a camera's thread does not panic")?;
    }
    Ok(())
}

impl Camera {
    fn acquisition(&self, dataset: &Dataset) -> shardwright::Result<Acquisition> {
        let dims = vec![Dim::time(self.frames), Dim::y(self.height), Dim::x(self.width)];
        // Frames of different size have rings of their own; all images share the workers.
        dataset.acquisition(self.name, Config { dtype: Dtype::U8, dims, ring_bytes: 256 << 20, ..Config::default() })
    }

    fn run(&self, acquisition: Acquisition) -> Result<(), Failure> {
        for number in 0..self.frames {
            thread::sleep(self.period);
            let mut frame = acquisition.acquire()?;
            frame.fill(number as u8);
            frame.commit(number, Record::default())?;
        }
        let summary = acquisition.finish()?;
        println!("{}: {} frames written, {} missing", self.name, summary.frames_written, summary.frames_missing);
        Ok(())
    }
}
