//! What is encoded: tiles of 512 × 512 pixels, or less of smaller recordings.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use shardwright::offline::Array;

use crate::camera;

pub(crate) const TILE_SIDE: usize = 512;
const FRAME_SIDE: usize = 1024;

/// A tile from the middle of a frame of a camera.
pub(crate) fn camera_noise(element_bytes: usize) -> Vec<u8> {
    let (stride, row_bytes) = (FRAME_SIDE * element_bytes, TILE_SIDE * element_bytes);
    let first = (FRAME_SIDE - TILE_SIDE) / 2 * (stride + element_bytes);
    let mut tile = vec![0; TILE_SIDE * row_bytes];
    camera::gather(&camera::frame(FRAME_SIDE, element_bytes)[first..], stride, row_bytes, &mut tile);
    tile
}

/// Electrons, from the counts of a camera of two bytes a pixel.
pub(crate) fn floats(counts: &[u8]) -> Vec<u8> {
    let pixels = counts.chunks_exact(2).map(|pixel| f32::from(u16::from_le_bytes([pixel[0], pixel[1]])));
    pixels.flat_map(|counts| ((counts - 100.0) / 2.17).to_le_bytes()).collect()
}

/// Photons that a detector counted: fewer the further from the beam, and a reflection here and there.
pub(crate) fn diffraction(element_bytes: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1_u64 << 31) as f64
    };
    let mut tile = Vec::with_capacity(TILE_SIDE * TILE_SIDE * element_bytes);
    for place in 0..TILE_SIDE * TILE_SIDE {
        let (row, column) = (place / TILE_SIDE, place % TILE_SIDE);
        let distance = (row.pow(2) as f64 + column.pow(2) as f64).sqrt();
        let reflection = if row % 61 < 3 && column % 53 < 3 { 40.0 * uniform() } else { 0.0 };
        let mean = 0.2 + 6.0 * (-distance / 150.0).exp() + reflection;
        // Knuth's method: how many uniform factors it takes to fall below e^-mean.
        let (limit, mut product, mut photons) = ((-mean).exp(), uniform(), 0_u64);
        while product > limit {
            product *= uniform();
            photons += 1;
        }
        tile.extend_from_slice(&photons.to_le_bytes()[..element_bytes]);
    }
    tile
}

/// A tile from the middle of a recording's first frame.
pub(crate) struct Recorded {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) element_bytes: usize,
    pub(crate) is_float: bool,
}

/// One tile of each TIFF in a folder, read by this project's reader of recordings.
pub(crate) fn recordings(folder: &Path) -> Result<Vec<Recorded>, Box<dyn Error>> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<PathBuf>, _>>()?;
    let is_tiff = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| ["tif", "tiff"].contains(&extension.to_ascii_lowercase().as_str()))
    };
    paths.retain(is_tiff);
    paths.sort();
    if paths.is_empty() {
        return Err(format!("{} holds no .tif or .tiff", folder.display()).into());
    }
    paths.iter().map(|path| recorded(path).map_err(|error| format!("{}: {error}", path.display()).into())).collect()
}

/// The one that the environment names, or the one of these sources.
fn shardwright_command() -> Command {
    if let Some(command) = std::env::var_os("SHARDWRIGHT_COMMAND") {
        return Command::new(command);
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--release", "--package", "shardwright-cli", "--"]);
    cargo
}

fn recorded(path: &Path) -> Result<Recorded, Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let dataset = scratch.path().join("recording.zarr");
    let mut replay = shardwright_command();
    replay.arg("replay").arg(path).arg(&dataset).args(["--codec", "none", "--rate", "max", "--no-sync", "--quiet"]);
    let said = replay.args(["--frames", "1"]).output()?;
    if !said.status.success() {
        return Err(String::from_utf8_lossy(&said.stderr).into());
    }
    let array = Array::open(&dataset)?;
    let (shape, element_bytes) = (array.shape(), array.dtype().size());
    if !matches!(element_bytes, 1 | 2 | 4 | 8) {
        return Err(format!("elements of {element_bytes} bytes; possible are 1, 2, 4 and 8").into());
    }
    let (outer, frame) = shape.split_at(shape.len() - 2);
    let sides = [0, 1].map(|side| frame[side].min(TILE_SIDE as u64));
    let mut start = vec![0; outer.len()];
    start.extend([0, 1].map(|side| (frame[side] - sides[side]) / 2));
    let mut box_shape = vec![1; outer.len()];
    box_shape.extend(sides);
    let mut bytes = vec![0; (sides[0] * sides[1]) as usize * element_bytes];
    array.read_region(&start, &box_shape, &mut bytes)?;
    let is_float = array.dtype().number().is_none_or(|number| number.is_float());
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Recorded { name, bytes, element_bytes, is_float })
}
