//! What is left to us is chosen before anything is written.

use std::collections::BTreeSet;

use crate::config::{Compressor, Config};
use crate::dataset::Root;
use crate::error::Result;
use crate::plan::{CodecPlan, Plan};

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
