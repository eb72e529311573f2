//! Datasets that one whose writer was stopped was to replace: they stand beside it.

use std::path::{Path, PathBuf};

use super::plan;
use super::source::images;
use crate::error::Result;
use crate::offline::hierarchy;
use crate::offline::hierarchy::walk::Tree;
use crate::offline::progress::ProgressCounters;
use crate::words::shell_word;

/// Those of the dataset at `root`, each with what to say of it. `tree`: what stands at `root`.
pub(crate) fn replaced(root: &Path, tree: &Tree) -> Vec<(PathBuf, String)> {
    let found = hierarchy::replaced(root);
    // Frames are looked for only where there is something to bring back.
    let is_empty = !found.is_empty() && frames(root, tree).is_ok_and(|frames| frames == 0);
    let with_words = |old: PathBuf| {
        let what = words(root, &old, is_empty);
        (old, what)
    };
    found.into_iter().map(with_words).collect()
}

fn words(root: &Path, old: &Path, is_empty: bool) -> String {
    let by = "that was to be replaced by this one, by a writer that was stopped";
    if !is_empty {
        return format!("is a dataset {by}; remove it when you have looked at this one");
    }
    if Tree::walk(old).and_then(|tree| frames(old, &tree)).is_ok_and(|frames| frames == 0) {
        return format!("is a dataset {by}; neither holds a frame, so remove both");
    }
    let name = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let mut aside = name.clone().into_os_string();
    aside.push(".empty");
    let [name, aside, old] = [&name, Path::new(&aside), old].map(shell_word);
    format!(
        "is the dataset {by}; it is whole, and this one holds no frame: mv {name} {aside} && mv {old} {name} brings it \
         back"
    )
}

/// How many frames there are in all images of this crate's writer.
///
/// # Errors
///
/// As for a recovery: where nobody can tell.
fn frames(root: &Path, tree: &Tree) -> Result<u64> {
    let images = images(root, tree)?;
    if images.iter().all(|image| image.own.complete) {
        // Those of a run that came to its end need not be looked for.
        let said = images.iter().map(|image| image.own.frames.unwrap_or(0).saturating_sub(image.own.frames_missing));
        return Ok(said.sum());
    }
    let plan = plan(root, tree, images, &ProgressCounters::default())?;
    Ok(plan.images.iter().map(|image| image.frames.end.saturating_sub(image.frames.missing_count)).sum())
}
