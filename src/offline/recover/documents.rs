//! What the documents say once a dataset is recovered.

use std::path::Path;

use serde_json::Value;

use super::image::ImagePlan;
use super::source::name;
use crate::error::{Error, Result};
use crate::format;
use crate::format::keys::RECORDS;
use crate::format::provenance::{Ending, ProvenanceMut};
use crate::fs::document;
use crate::offline::hierarchy::below;
use crate::offline::hierarchy::walk::Tree;

/// A document that is replaced as a whole.
#[derive(Debug)]
pub(super) struct DocumentChange {
    pub(super) key: String,
    pub(super) bytes: Vec<u8>,
}

/// The documents that have to change, in the order in which they must.
pub(super) fn changes(root: &Path, tree: &Tree, images: &[ImagePlan]) -> Result<Vec<DocumentChange>> {
    let mut changes = Vec::new();
    for plan in images.iter().filter(|plan| plan.is_incomplete()) {
        // What is missing comes first: once the shards have new indexes, it can't be told any more.
        books(root, plan, &mut changes)?;
        edit(root, plan.image.node.array.document(), &mut changes, |document| {
            format::set_shape(plan.image.node.array.layout(), document, &plan.shape());
        })?;
        if plan.image.own.unbounded {
            records(root, tree, plan, &mut changes)?;
        }
    }
    Ok(changes)
}

/// Has the document of an image say which frames there are.
pub(super) fn books(root: &Path, plan: &ImagePlan, changes: &mut Vec<DocumentChange>) -> Result<()> {
    edit(root, &plan.image.group.document, changes, |document| attributes(document, plan))
}

fn attributes(document: &mut Value, plan: &ImagePlan) {
    let Some(mut own) = ProvenanceMut::at(document, plan.image.group.pointer) else { return };
    let (frames_missing, missing) = (plan.frames.missing_count, &plan.frames.told()[..]);
    let ending = Ending { chunks: plan.sums.chunks, frames_missing, missing, error: None };
    let damaged = plan.changed.iter().filter(|shard| shard.damaged);
    let damaged: Vec<_> = damaged.map(|shard| name(plan.image.node.array.folder(), &shard.path)).collect();
    own.recover(plan.frames.end, &ending, &damaged);
}

/// The records' arrays are as long as there are frames; a record that was not written reads as one of no frame.
fn records(root: &Path, tree: &Tree, plan: &ImagePlan, changes: &mut Vec<DocumentChange>) -> Result<()> {
    let folder = below(&plan.image.group.name, RECORDS) + "/";
    for node in tree.arrays.iter().filter(|node| node.name.starts_with(&folder)) {
        if let [frames] = node.array.shape() {
            let frames = plan.frames.end.max(*frames);
            let layout = node.array.layout();
            edit(root, node.array.document(), changes, |document| format::set_shape(layout, document, &[frames]))?;
        }
    }
    Ok(())
}

/// Notes how a document changes, if it does.
pub(super) fn edit(
    root: &Path,
    path: &Path,
    changes: &mut Vec<DocumentChange>,
    change: impl FnOnce(&mut Value),
) -> Result<()> {
    let key = name(root, path);
    let known = changes.iter().position(|change| change.key == key);
    let wrong = |error: serde_json::Error| Error::format(path, error.to_string());
    let before: Value = match known {
        // One document may speak of both the dataset and its array.
        Some(at) => document::parse(&changes[at].bytes).map_err(wrong)?,
        None => document::read(path)?.ok_or_else(|| Error::format(path, "is not there"))?,
    };
    let mut after = before.clone();
    change(&mut after);
    if after != before {
        let bytes = document::render(&after);
        match known {
            Some(at) => changes[at].bytes = bytes,
            None => changes.push(DocumentChange { key, bytes }),
        }
    }
    Ok(())
}
