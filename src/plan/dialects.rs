//! What a dialect can't hold is refused before anything is written, with what it can.

use std::fmt::Display;

use super::volume;
use crate::config::{Config, FillValue, IndexLocation, OmeVersion, Volume};
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::format::keys::RECORDS;
use crate::format::{precomputed, rules};
use crate::words::quoted;

pub(super) fn check(config: &Config) -> Result<()> {
    let rules = rules(config.dialect);
    if !rules.numbers_chunks && config.volume != Volume::default() {
        let reason = "only the dialect precomputed has these settings; leave them out";
        return Err(Error::config("volume", what_is_set(&config.volume).join(" and "), reason));
    }
    let name = config.dialect.name();
    let refuse = |field, value: &dyn Display, possible: &str| {
        Err(Error::config(field, value, format!("the dialect {name} can't hold this; {possible}")))
    };
    let compressor = config.codec.compressor.name();
    if let Some(possible) = rules.compressors.filter(|possible| !possible.contains(&compressor)) {
        return refuse("codec.compressor", &compressor, &format!("{} are possible", possible.join(" and ")));
    }
    if config.codec.checksum && !rules.checksums {
        return refuse("codec.checksum", &true, "it has no checksums; turn it off, or choose the dialect zarr3");
    }
    if config.index_location == IndexLocation::Start && !rules.checksums {
        return refuse("index_location", &"start", "its index has a place of its own; leave this at end");
    }
    if rules.lacks.contains(&config.dtype) {
        let possible: Vec<_> =
            Dtype::ALL.iter().filter(|dtype| !rules.lacks.contains(dtype)).map(ToString::to_string).collect();
        return refuse("dtype", &config.dtype, &format!("{} are possible", possible.join(", ")));
    }
    if config.ome == OmeVersion::V0_6 && !rules.ome_versions.contains(&config.ome) {
        return refuse("ome", &config.ome, "OME-Zarr 0.6 is Zarr v3; leave this at 0.5, or choose the dialect zarr3");
    }
    let is_zero = match config.fill_value {
        FillValue::Integer(number) => number == 0,
        // Of floats, the zero below 0 has other bytes.
        FillValue::Float(number) => number == 0.0 && !(config.dtype.is_float() && number.is_sign_negative()),
    };
    if !is_zero && !rules.fill_values {
        let possible = "what was never acquired reads as 0: choose that, or the dialect zarr3";
        return refuse("fill_value", &config.fill_value, possible);
    }
    if let Some(dim) = config.dims.iter().find(|dim| rules.numbers_chunks && dim.translation != 0.0) {
        let possible = "a volume's place is that of its first voxel, in voxels: set the volume's voxel_offset instead";
        return refuse("dims.translation", &dim.translation, possible);
    }
    check_volume(&config.volume)
}

/// The fields of a volume that are not as by default, by their names in documents.
fn what_is_set(volume: &Volume) -> Vec<String> {
    let fields = |volume: &Volume| match serde_json::to_value(volume) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let usual = fields(&Volume::default());
    fields(volume).into_iter().filter(|(name, value)| usual.get(name) != Some(value)).map(|(name, _)| name).collect()
}

fn check_volume(volume: &Volume) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if let Some(key) = &volume.key
        && (key.is_empty()
            || key.starts_with('.')
            || [precomputed::DOCUMENT, RECORDS].contains(&&key[..])
            || !key.chars().all(plain))
    {
        let reason = "letters, digits, _, - and . are possible, not starting with a dot, and neither info nor records";
        return Err(Error::config("volume.key", quoted(key), reason));
    }
    if let Some(resolution) = volume.resolution.filter(|r| !r.iter().all(|n| n.is_finite() && *n > 0.0)) {
        let reason = "three positive numbers of nanometers are possible";
        return Err(Error::config("volume.resolution", format_args!("{resolution:?}"), reason));
    }
    Ok(())
}

/// A chunk of a precomputed volume holds all channels.
pub(super) fn chunk_channels(config: &Config, chunk: &mut [u64]) -> Result<()> {
    if !rules(config.dialect).numbers_chunks {
        return Ok(());
    }
    let Some(channel) = volume::roles(&config.dims)?.1 else { return Ok(()) };
    let channels = config.dims[channel].size.unwrap_or(0);
    if channels == 0 {
        let reason = "the number of channels must be known";
        return Err(Error::config("dims.size", "unbounded", reason));
    }
    if ![0, channels].contains(&chunk[channel]) {
        let reason = format!("chunks of a precomputed volume hold all {channels} channels; leave this out");
        return Err(Error::config("dims.chunk", chunk[channel], reason));
    }
    chunk[channel] = channels;
    Ok(())
}
