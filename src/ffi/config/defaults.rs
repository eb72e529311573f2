//! What `sw_config_init` sets.

use super::*;
use crate::config::Config;

pub(super) fn defaults() -> sw_config {
    let defaults = Config::default();
    // Defaults that are 0 are not named below. SAFETY: zeros are a value: numbers, null pointers, and no function.
    let none: sw_config = unsafe { std::mem::zeroed() };
    sw_config {
        size: size_of::<sw_config>(),
        version: SW_INTERFACE,
        dtype: SW_U16,
        compressor: SW_COMPRESSOR_BLOSC,
        level: 1,
        shuffle: SW_SHUFFLE_BIT,
        checksum: defaults.codec.checksum.into(),
        skip_empty_chunks: defaults.skip_empty_chunks.into(),
        ring_full_timeout_ms: crate::ffi::limits::SW_FOREVER,
        ring_bytes: defaults.ring_bytes,
        workers: defaults.workers,
        checkpoint_every_ms: defaults.checkpoint_every.as_millis() as u64,
        sync: defaults.sync.into(),
        overwrite: defaults.overwrite.into(),
        index_checksum: defaults.index_checksum.into(),
        guard_maps: defaults.guard_maps.into(),
        leap_max: defaults.leap_max,
        ..none
    }
}
