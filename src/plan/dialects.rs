//! What a dialect can't hold is refused before anything is written, with what it can.

use std::fmt::Display;

use super::volume;
use crate::config::{Compressor, Config, Dialect, IndexLocation, Volume};
use crate::dtype::Dtype;
use crate::error::{Error, Result};

/// Refuses what the dialect of `config` can't hold.
pub(super) fn check(config: &Config) -> Result<()> {
    if config.dialect != Dialect::Precomputed && config.volume != Volume::default() {
        let reason = "only the dialect precomputed has these settings; leave them out";
        return Err(Error::config("volume", format_args!("{:?}", config.volume), reason));
    }
    if config.dialect == Dialect::Zarr3 {
        return Ok(());
    }
    let name = config.dialect.name();
    let refuse = |field, value: &dyn Display, possible: &str| {
        Err(Error::config(field, value, format!("the dialect {name} can't hold this; {possible}")))
    };
    if config.codec.checksum {
        return refuse("codec.checksum", &true, "it has no checksums; set it to false, or choose the dialect zarr3");
    }
    if config.index_location == IndexLocation::Start {
        return refuse("index_location", &"start", "its index has a place of its own; leave this at end");
    }
    let compressor = config.codec.compressor.name();
    match (config.dialect, config.codec.compressor) {
        (_, Compressor::None | Compressor::Gzip { .. }) => {}
        (Dialect::Precomputed, _) => {
            return refuse("codec.compressor", &compressor, "none and gzip are possible");
        }
        _ => {}
    }
    if config.dialect == Dialect::Precomputed {
        if matches!(config.dtype, Dtype::F64 | Dtype::I64) {
            let possible = "uint8, int8, uint16, int16, uint32, int32, uint64 and float32 are possible";
            return refuse("dtype", &config.dtype, possible);
        }
        if config.fill_value != 0.0 {
            return refuse("fill_value", &config.fill_value, "what was never acquired reads as 0");
        }
    }
    Ok(())
}

/// A chunk of a precomputed volume holds all channels.
pub(super) fn chunk_channels(config: &Config, chunk: &mut [u64]) -> Result<()> {
    if config.dialect != Dialect::Precomputed {
        return Ok(());
    }
    let Some(channel) = volume::roles(&config.dims)?.1 else { return Ok(()) };
    let channels = config.dims[channel].size.unwrap_or(0);
    if channels == 0 {
        let reason = "the number of channels must be known";
        return Err(Error::config("dims.size", "none", reason));
    }
    if ![0, channels].contains(&chunk[channel]) {
        let reason = format!("chunks of a precomputed volume hold all {channels} channels; leave this out");
        return Err(Error::config("dims.chunk", chunk[channel], reason));
    }
    chunk[channel] = channels;
    Ok(())
}
