//! Labels beside their image: each frame is segmented as soon as it is there, and what was found is written with it.
//!
//! ```console
//! $ cargo run --release --example labels -- labels.ome.zarr
//! ```

use std::path::Path;

use serde_json::json;
use shardwright::{
    Acquisition, Config, Dataset, Dim, Downsampling, Dtype, ImageLabel, LabelColor, LabelProperties, Record,
};

const SIDE: usize = 512;
const FRAMES: u64 = 20;
/// What they are called, and in which colour viewers show them. 0 is what is no cell.
const CELLS: [(&str, [u8; 4]); 2] = [("mother", [255, 80, 0, 160]), ("daughter", [0, 160, 255, 160])];

type Failure = Box<dyn std::error::Error>;

#[allow(dead_code, reason = "the tests call `run`")]
fn main() -> Result<(), Failure> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "labels.ome.zarr".to_owned());
    run(Path::new(&path))
}

/// Writes the image `division` and its labels `cells` into the dataset `path`.
pub fn run(path: &Path) -> Result<(), Failure> {
    let dims = vec![
        Dim::time(Some(FRAMES)).scale(60.0, "second"),
        Dim::y(SIDE as u64).scale(0.325, "micrometer"),
        Dim::x(SIDE as u64).scale(0.325, "micrometer"),
    ];
    let image = Config {
        dims: dims.clone(),
        pyramid: Some(Downsampling::default()),
        ring_bytes: 64 << 20,
        ..Config::default()
    };
    // The same dimensions, and as many levels, made by the most frequent pixel.
    let labels = Config { dims, dtype: Dtype::U8, label: Some(meaning()), ring_bytes: 64 << 20, ..Config::default() };
    let dataset = Dataset::create(path)?;
    let runs = dataset.acquisitions([("division", image), ("division/labels/cells", labels)])?;
    for time in 0..FRAMES {
        let pixels = expose(time);
        let found: Vec<u8> = pixels.iter().map(|&pixel| segment(pixel)).collect();
        let mut frame = runs[0].acquire()?;
        frame.elements::<u16>()?.copy_from_slice(&pixels);
        frame.commit_next(Record::default())?;
        let _ = runs[1].append(&found)?; // It waits for room, so it takes all.
    }
    for summary in Acquisition::finish_all(runs) {
        println!("{} frames in {}", summary?.frames_written, path.display());
    }
    Ok(())
}

/// What the integers of the labels stand for.
fn meaning() -> ImageLabel {
    let mut meaning = ImageLabel::default();
    for ((name, rgba), value) in CELLS.into_iter().zip(1..) {
        let properties = [("class".to_owned(), json!(name))].into_iter().collect();
        meaning.colors.push(LabelColor { value, rgba });
        meaning.properties.push(LabelProperties { value, properties });
    }
    meaning
}

/// Stands for a camera: two cells that move apart.
fn expose(time: u64) -> Vec<u16> {
    let middle = SIDE as i64 / 2;
    let inside = |y: i64, x: i64, radius: i64| y * y + x * x < radius * radius;
    let pixel = |at: usize| {
        let (y, x) = ((at / SIDE) as i64 - middle, (at % SIDE) as i64 - middle);
        match time as i64 * 5 {
            apart if inside(y, x + apart, 60) => 900,
            apart if inside(y, x - apart, 40) => 2_000,
            _ => 100,
        }
    };
    (0..SIDE * SIDE).map(pixel).collect()
}

/// Stands for what tells cells apart.
fn segment(pixel: u16) -> u8 {
    match pixel {
        0..500 => 0,
        500..1_500 => 1,
        _ => 2,
    }
}
