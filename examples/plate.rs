//! A plate of wells, visited in the order that suits the stage, with some wells left out.
//!
//! ```console
//! $ cargo run --release --example plate -- plate.ome.zarr
//! ```

use shardwright::{Acquisition, Config, Dataset, Dim, Plate, Record};

const SIDE: u64 = 512;
const FIELDS: u64 = 2;
const TIME_POINTS: u64 = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "plate.ome.zarr".to_owned());
    let plate = Plate::new(4, 6).named("24 wells");
    let wells: Vec<(usize, usize)> = (0..4).flat_map(|row| snake(row, 6).map(move |column| (row, column))).collect();
    let dataset = Dataset::create(&path)?.with_plate(plate.clone())?;
    let places = wells.iter().flat_map(|well| (0..FIELDS).map(move |field| (*well, field)));
    let images = places.map(|((row, column), field)| {
        let name = format!("{}/{}/{field}", plate.rows[row], plate.columns[column]);
        // Wells are 18 mm apart; the fields of a well stand side by side.
        let y = 18_000.0 * row as f64;
        let x = 18_000.0 * column as f64 + 0.65 * (field * SIDE) as f64;
        (name, config(y, x))
    });
    let fields: Vec<Acquisition> = dataset.acquisitions(images)?;
    for time in 0..TIME_POINTS {
        for (at, field) in fields.iter().enumerate() {
            // An autofocus that finds nothing: the plate will not list this well.
            if wells[at / FIELDS as usize] != (2, 3) {
                expose(field, time, at)?;
            }
        }
    }
    let mut frames = 0;
    for summary in Acquisition::finish_all(fields) {
        frames += summary?.frames_written;
    }
    println!("{frames} frames in {path}");
    Ok(())
}

/// Every other row from right to left.
fn snake(row: usize, columns: usize) -> impl Iterator<Item = usize> {
    (0..columns).map(move |column| if row.is_multiple_of(2) { column } else { columns - 1 - column })
}

/// What is written of each field, whose first pixel the stage has at `y` and `x`.
fn config(y: f64, x: f64) -> Config {
    Config {
        dims: vec![
            Dim::time(None).scale(60.0, "second"),
            Dim::y(SIDE).scale(0.65, "micrometer").translation(y),
            Dim::x(SIDE).scale(0.65, "micrometer").translation(x),
        ],
        ring_bytes: 64 << 20,
        ..Config::default()
    }
}

/// Stands for a camera, which would fill the frame by itself.
fn expose(field: &Acquisition, time: u64, brightness: usize) -> shardwright::Result<()> {
    let mut frame = field.acquire()?;
    frame.fill(brightness as u8);
    frame.commit(time, Record::default())?;
    Ok(())
}
