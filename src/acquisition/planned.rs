//! What follows from a configuration before anything is written.

use std::sync::Arc;

use crate::aligned_memory::{PAGE, RingBuffers};
use crate::config::Config;
use crate::engine::rings::RingSource;
use crate::error::{Error, Result};
use crate::plan::{CodecPlan, Plan};

/// What is known of a run before anything is written.
pub(super) struct Planned {
    pub(super) config: Config,
    pub(super) plan: Arc<Plan>,
    /// Why it has its codec, where that was left to us.
    pub(super) choice: Option<String>,
}

impl Planned {
    pub(super) fn new(mut config: Config, codec: CodecPlan, ring: &RingSource) -> Result<Self> {
        let CodecPlan { compressor, efforts, choice } = codec;
        config.codec.compressor = compressor;
        let mut plan = Plan { efforts, ..Plan::new(&config)? };
        if let RingSource::Shared(_) = ring {
            // Many images would reserve much of the disk.
            plan.ring.shard_blocks_ahead = plan.ring.shard_blocks_ahead.min(1);
        }
        Ok(Self { config, plan: Arc::new(plan), choice })
    }
}

/// Checks a configuration. With buffers of the caller's own, the ring becomes as large as there are of them.
pub(crate) fn plan_with(config: &mut Config, buffers: Option<&RingBuffers>) -> Result<Plan> {
    let Some(buffers) = buffers else {
        let plan = Plan::new(config)?;
        return plan.check_memory(config).map(|()| plan);
    };
    // A ring that is large enough for anything, to hear of all other mistakes first.
    config.ring_bytes = isize::MAX as usize;
    let needed = Plan::new(config)?.frame.layout.buffer_bytes;
    let (count, bytes) = (buffers.count(), buffers.bytes());
    let value = || format!("{count} buffers of {bytes} bytes");
    if bytes < needed {
        return Err(Error::config("own_buffers", value(), format!("a frame's buffer needs {needed} bytes")));
    }
    config.ring_bytes = needed.next_multiple_of(PAGE).saturating_mul(count);
    Plan::new(config).map_err(|error| match error {
        Error::Config { field: "ring_bytes", reason, .. } => Error::config("own_buffers", value(), reason),
        other => other,
    })
}

/// Refuses a configuration that says something of labels, where they are none.
pub(super) fn refuse_label(config: &Config) -> Result<()> {
    match &config.label {
        None => Ok(()),
        Some(label) => {
            let value = format_args!("{} colors and {} properties", label.colors.len(), label.properties.len());
            let reason = "labels are an image of a dataset of several images, named IMAGE/labels/NAME";
            Err(Error::config("label", value, reason))
        }
    }
}

/// Refuses a configuration that says something of a plate, where there is none.
pub(super) fn refuse_plate(config: &Config) -> Result<()> {
    match config.plate_acquisition {
        None => Ok(()),
        Some(id) => Err(Error::config("plate_acquisition", id, "the image is not on a plate")),
    }
}

/// Refuses a configuration that names a key, where it is said otherwise where the image is.
pub(super) fn refuse_key(config: &Config) -> Result<()> {
    let reason = "only an image that is created at a path, alone, has a key in the hierarchy there";
    config.key.as_ref().map_or(Ok(()), |key| Err(Error::config("key", format_args!("{key:?}"), reason)))
}
