//! What follows from a configuration before anything is written.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::aligned_memory::{PAGE, RingBuffers};
use crate::archive_file::is_archive_name;
use crate::config::{Compressor, Config};
use crate::dataset::Root;
use crate::engine::rings::RingSource;
use crate::error::{Error, Result};
use crate::format::rules;
use crate::plan::part::PartPlan;
use crate::plan::{CodecPlan, Plan};
use crate::words::quoted;

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

/// The codec of a run: what is left to us is chosen before anything is written.
pub(super) fn codec(root: &Root, config: &Config) -> Result<CodecPlan> {
    if config.codec.compressor != Compressor::Auto {
        return Ok(CodecPlan::fixed(config.codec.compressor));
    }
    let plan = Plan::new(config)?;
    if root.expected(&plan).is_short() {
        return Ok(CodecPlan::usual(config, "a short run"));
    }
    let cores = match config.affinity.iter().collect::<BTreeSet<_>>().len() {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        pinned => pinned,
    };
    let cores = cores.min(plan.workers);
    CodecPlan::chosen(config, cores, root.storage_speed(config, &plan))
}

/// Checks a configuration; that of a part of a run becomes that of its own array. With buffers of the caller's own, the
/// ring becomes as large as there are of them.
pub(crate) fn plan_with(config: &mut Config, buffers: Option<&RingBuffers>) -> Result<Plan> {
    if let Some(part) = config.part.take() {
        *config = PartPlan::new(config, &Plan::on_disk(config)?, part)?.config;
    }
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

pub(super) fn refuse_label(config: &Config) -> Result<()> {
    config.label.as_ref().map_or(Ok(()), |label| {
        let value = format!("{} colors and {} properties", label.colors.len(), label.properties.len());
        let reason = "labels are an image of a dataset of several images, named IMAGE/labels/NAME";
        Err(Error::config("label", value, reason))
    })
}

pub(super) fn refuse_plate(config: &Config) -> Result<()> {
    refuse_acquisition(config, "the image is not on a plate")
}

pub(super) fn refuse_label_acquisition(config: &Config) -> Result<()> {
    refuse_acquisition(config, "labels have the acquisition of their image; leave it out")
}

fn refuse_acquisition(config: &Config, reason: &str) -> Result<()> {
    config.plate_acquisition.map_or(Ok(()), |id| Err(Error::config("plate_acquisition", id, reason)))
}

/// Refuses an array that is to be written alone, and has no place for what else is asked for. `path`: `None` in a
/// storage of the caller's own.
pub(crate) fn refuse_bare(path: Option<&Path>, config: &Config) -> Result<()> {
    if !config.bare {
        return Ok(());
    }
    let refuse = |reason: String| Err(Error::config("bare", true, reason));
    let set = [
        ("pyramid", config.pyramid.is_some()),
        ("record_fields", !config.record_fields.is_empty()),
        ("record_roi", config.record_roi),
        ("channels", !config.channels.is_empty()),
        ("name", config.name.is_some()),
        ("manifest", !config.manifest.is_empty()),
    ];
    if let Some((field, _)) = set.iter().find(|(_, is_set)| *is_set) {
        return refuse(format!("an array alone has no place for {field}, which is set; leave one of them out"));
    }
    if !rules(config.dialect).is_tree {
        return refuse(format!("only arrays of zarr3 are written alone, and the dialect is {}", config.dialect));
    }
    if path.is_some_and(is_archive_name) {
        return refuse("an .ozx is a dataset of OME-Zarr; create a folder".to_owned());
    }
    Ok(())
}

pub(super) fn refuse_bare_image(config: &Config) -> Result<()> {
    let reason =
        "the images of a dataset of several have documents; create the array alone, at a path and perhaps a key";
    if config.bare { Err(Error::config("bare", true, reason)) } else { Ok(()) }
}

/// Refuses a configuration of a part, where there can be none.
pub(super) fn refuse_part(config: &Config) -> Result<()> {
    let reason = "only a run of one image, created in a folder by create_parts, has parts";
    config.part.map_or(Ok(()), |part| Err(Error::config("part", format_args!("{} of {}", part.index, part.of), reason)))
}

/// Refuses a configuration that names a key, where it is said otherwise where the image is.
pub(super) fn refuse_key(config: &Config) -> Result<()> {
    let reason = "only an image that is created at a path, alone, has a key in the hierarchy there";
    config.key.as_ref().map_or(Ok(()), |key| Err(Error::config("key", quoted(key), reason)))
}
