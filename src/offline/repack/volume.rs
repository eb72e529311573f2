//! What an array is as a precomputed volume: where its voxels are, and how its chunks are dealt out.

use serde_json::{Map, Value};

use super::groups::first_image;
use super::options::RepackOptions;
use crate::config::{Config, Dialect, Dim, DimKind, Volume};
use crate::error::{Error, Result};
use crate::format::keys::RECORDS;
use crate::format::precomputed::carried::{scale, voxel_offset};
use crate::format::{precomputed, rules};
use crate::json::text;
use crate::offline::array::Array;
use crate::ome::units;
use crate::plan::{Plan, volume::resolution};
use crate::words::quoted;

/// Refuses distances of pixels that a volume has no resolution for. `spaces`: which dimensions it has one for.
pub(super) fn refuse_distances(
    array: &Array,
    attributes: &Map<String, Value>,
    spaces: &[bool],
    to: Dialect,
) -> Result<()> {
    let Some(image) = first_image(attributes).filter(|image| image.axes().len() == spaces.len()) else { return Ok(()) };
    let Some(Ok(grid)) = image.levels().next().map(|level| image.place(level)) else { return Ok(()) };
    let mut distances = image.axes().zip(&grid.scale).zip(spaces).filter(|(_, is_space)| **is_space);
    match distances.find(|((_, scale), _)| **scale <= 0.0) {
        Some(((axis, scale), _)) => {
            let reason = format!(
                "{}: its image has the scale {scale} along {}, and a volume's resolution is above 0; the option \
                 `volume.resolution` can give one",
                array.path().display(),
                axis.name.unwrap_or("an axis without a name")
            );
            Err(Error::config("dialect", to, reason))
        }
        None => Ok(()),
    }
}

/// That a volume has a resolution in nanometers which nobody has said in a unit of length.
pub(super) fn note_of_resolution(
    array: &Array,
    config: &Config,
    plan: &Plan,
    options: &RepackOptions,
) -> Option<String> {
    let [x, y, z] = plan.array.layout.volume()?.resolution?;
    let old = array.layout().volume().and_then(|volume| volume.resolution);
    if old.is_some() || options.volume.resolution.is_some() {
        return None;
    }
    let is_told = |dim: &Dim| dim.unit.as_deref().is_some_and(|unit| units::nanometers(unit).is_some());
    let untold = config.dims.iter().filter(|dim| dim.kind == DimKind::Space && !is_told(dim));
    let untold: Vec<String> = untold
        .map(|dim| match &dim.unit {
            Some(unit) => format!("{} (in {})", dim.name, quoted(unit)),
            None => format!("{} (no unit)", dim.name),
        })
        .collect();
    (!untold.is_empty()).then(|| {
        format!(
            "the resolution of the volume is {x},{y},{z} nanometers, which is a guess along {}: only OME-Zarr's \
             units of length are converted; the option `volume.resolution` gives another",
            untold.join(", ")
        )
    })
}

/// The folders in which a scale of this name stands below its volume, if it keeps them: those that could be a scale's
/// own name, too.
fn folder_of(key: &str) -> Option<String> {
    let (folder, _) = key.rsplit_once('/')?;
    let is_plain = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        !part.is_empty() && !part.starts_with('.') && part.chars().all(plain)
    };
    let is_free = ![precomputed::DOCUMENT, RECORDS].contains(&folder.split('/').next()?);
    (is_free && folder.split('/').all(is_plain)).then(|| folder.to_owned())
}

/// Lets a volume begin along z where it did, if it is of an image that has no such dimension and can't say it.
pub(super) fn keep_depth(config: &mut Config, array: &Array, attributes: &Map<String, Value>, options: &RepackOptions) {
    let is_asked = options.volume.voxel_offset != [0; 3] || array.layout().volume().is_some();
    let is_deep = config.dims.iter().rev().skip(2).any(|dim| dim.kind == DimKind::Space);
    if rules(options.to()).numbers_chunks
        && !is_asked
        && !is_deep
        && let Some([_, _, z]) = scale(attributes, array.shape()).and_then(voxel_offset)
    {
        config.volume.voxel_offset[2] = z;
    }
}

/// Gives a volume the name that its scale had before, if nobody asks for another. A name that nobody chose tells the
/// resolution, so that must be the same. Returns the folder below the volume in which the scale is to stand.
pub(super) fn keep_key(
    config: &mut Config,
    array: &Array,
    attributes: &Map<String, Value>,
    options: &RepackOptions,
) -> Option<String> {
    const ROUNDING: f64 = 1e-9;
    if !rules(options.to()).numbers_chunks || options.volume.key.is_some() {
        return None;
    }
    let same = |(new, old): (f64, &Value)| old.as_f64().is_some_and(|old| (new - old).abs() <= ROUNDING * old.abs());
    let is_same = |scale: &&Value| {
        let old = scale["resolution"].as_array();
        old.is_some_and(|old| old.len() == 3 && resolution(config).into_iter().zip(old).all(same))
    };
    let carried = scale(attributes, array.shape()).filter(is_same);
    let carried = carried.and_then(|scale| text(&scale["key"])).map(str::to_owned);
    let key = config.volume.key.take().or(carried)?;
    let folder = folder_of(&key);
    let name = key.rsplit_once('/').filter(|_| folder.is_some()).map(|(_, name)| name.to_owned());
    config.volume.key = name.or(Some(key));
    folder
}

/// What is asked of a volume; where nothing is, what the old one was, if it was one.
pub(super) fn volume_of(array: &Array, attributes: &Map<String, Value>, options: &RepackOptions) -> Volume {
    let mut volume = options.volume.clone();
    if !rules(options.to()).numbers_chunks {
        return volume;
    }
    let Some(old) = array.layout().volume() else {
        let offset = scale(attributes, array.shape()).and_then(voxel_offset);
        // What OME-Zarr says of the image counts: somebody may have changed it since.
        if let (Some(offset), [0, 0, 0], None) = (offset, volume.voxel_offset, first_image(attributes)) {
            volume.voxel_offset = offset;
        }
        return volume;
    };
    if let Some(shards) = old.shards().filter(|_| volume == Volume::default()) {
        (volume.hash, volume.gzip_indexes) = (shards.spec.hash, shards.spec.gzip_indexes);
        if options.chunk.is_empty() && options.shard.is_empty() {
            let bits = |bits: u32| u8::try_from(bits).ok();
            volume.preshift_bits = bits(shards.spec.preshift_bits);
            volume.minishard_bits = bits(shards.spec.minishard_bits);
        }
    }
    if volume.voxel_offset == [0; 3] {
        volume.voxel_offset = old.voxel_offset;
    }
    volume.resolution = volume.resolution.or(old.resolution);
    volume.key = volume.key.or_else(|| Some(old.key.clone()));
    volume
}
