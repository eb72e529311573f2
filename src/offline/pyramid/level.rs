//! Levels whose shards are made one by one: what it takes to know of them, and how far a call came with them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::ThreadPool;
use serde_json::Value;

use super::options::PyramidOptions;
use crate::downsample::Method;
use crate::error::{Error, Result};
use crate::format::zarr3;
use crate::offline::array::Array;
use crate::offline::halving::Halving;
use crate::offline::repack::Change;

/// A level, and what it is made of.
#[derive(Debug)]
pub(in crate::offline) struct PlannedLevel {
    /// Its path below the image.
    pub(in crate::offline) name: String,
    /// The path of the level before, unless that is level 0.
    pub(in crate::offline) before: Option<String>,
    /// By what each dimension is smaller than in the one before.
    pub(in crate::offline) steps: Vec<u64>,
    pub(in crate::offline) document: Value,
    pub(in crate::offline) change: Change,
    /// The positions of the shards that may hold something.
    pub(in crate::offline) shards: Vec<Vec<u64>>,
}

/// How far an earlier call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::offline) enum EarlierLevels {
    /// Levels are to be made.
    None,
    /// All are complete, and wait for their names.
    Complete,
    /// Nothing is left to do.
    Done,
}

/// A level of which a shard is made by who knows nothing but its document and that of the one before. `file`: in which
/// both stand.
///
/// # Errors
///
/// [`Error::Format`] where the one can't be a level of the other.
pub(in crate::offline) fn level(
    source: Array,
    target: Array,
    (steps, options): (&[u64], &PyramidOptions),
    file: &Path,
    pool: Arc<ThreadPool>,
) -> Result<Change> {
    let is_step =
        |((step, finer), level): ((&u64, &u64), &u64)| (1..=2).contains(step) && finer.div_ceil(*step) == *level;
    let (from, to) = (source.shape(), target.shape());
    let fits = from.len() >= 2 && from.len() == to.len() && steps.len() == to.len();
    let is_level = fits && steps.iter().zip(from).zip(to).all(is_step) && source.dtype() == target.dtype();
    let Some(dtype) = target.dtype().number().filter(|_| is_level) else {
        return Err(Error::format(file, "names a level that can't be made of the one before"));
    };
    let halving = Halving::new(options.method.unwrap_or(Method::Mean), dtype, steps);
    Ok(Change::halved(source, target, halving, options.sync, pool)?.made_once())
}

/// The document of a level that has its name.
pub(in crate::offline) fn document_of(image: &Path, level: &str) -> PathBuf {
    image.join(level).join(zarr3::DOCUMENT)
}
