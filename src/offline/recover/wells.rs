//! What a plate lists: a writer names wells when their first image begins, and takes back at its end those to which
//! nothing came. One that was killed could not.
//!
//! Source: OME-Zarr specification 0.5, "plate" and "well".

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use serde_json::{Value, json};

use super::documents::{DocumentChange, edit};
use super::image::ImagePlan;
use crate::error::Result;
use crate::json::text;
use crate::offline::hierarchy::below;
use crate::offline::hierarchy::walk::Tree;
use crate::ome::label;
use crate::ome::multiscales::list;
use crate::ome::plate::keep_fields;
use crate::ome::scene::keep_in_scene;

/// Takes images without any frame, and without any in their labels, out of the lists of wells, and wells without any
/// other out of the plate's. Returns the names of all that no well is to list.
pub(super) fn changes<'a>(
    root: &Path,
    tree: &Tree,
    images: &'a [ImagePlan],
    changes: &mut Vec<DocumentChange>,
) -> Result<Vec<&'a str>> {
    let Some(plate) = tree.group("").filter(|group| group.attributes.pointer("/ome/plate").is_some()) else {
        return Ok(Vec::new());
    };
    let name = |plan: &&'a ImagePlan| plan.image.group.name.as_str();
    let has_none = |plan: &&ImagePlan| plan.frames.end == plan.frames.missing_count;
    // Labels need their image. One that came to its end may have waited for what comes to them.
    let image = |plan| label::parts(name(&plan)).map(|(image, _)| image);
    let needed: HashSet<&str> = images.iter().filter(|plan| !has_none(plan)).filter_map(image).collect();
    let stopped = || images.iter().filter(|plan| plan.is_incomplete());
    let stopped: HashSet<&str> = stopped().map(|plan| name(&plan)).chain(stopped().filter_map(image)).collect();
    let is_out = |name: &&str| stopped.contains(*name) && !needed.contains(*name);
    let empty: Vec<&str> = images.iter().filter(has_none).map(|plan| name(&plan)).filter(is_out).collect();
    if empty.is_empty() {
        return Ok(empty);
    }
    // The fields that are left, by wells.
    let mut left: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for well in list(&plate.attributes["ome"]["plate"], "wells") {
        let Some(path) = text(&well["path"]) else { continue };
        let Some(group) = tree.group(path) else { continue };
        let mut fields = list(&group.attributes["ome"]["well"], "images").to_vec();
        let is_empty = |field: &Value| text(&field["path"]).is_some_and(|field| empty.contains(&&*below(path, field)));
        fields.retain(|field| !is_empty(field));
        left.insert(path.to_owned(), fields);
    }
    // A list of nothing is not allowed.
    if left.values().all(Vec::is_empty) {
        return Ok(Vec::new());
    }
    for (path, fields) in left.iter().filter(|(_, fields)| !fields.is_empty()) {
        let Some(group) = tree.group(path) else { continue };
        edit(root, &group.document, changes, |document| {
            let ome = &mut document["attributes"]["ome"];
            ome["well"]["images"] = json!(fields);
            keep_in_scene(ome, &|field| !empty.contains(&&*below(path, field)));
        })?;
    }
    edit(root, &plate.document, changes, |document| {
        keep_fields(&mut document["attributes"]["ome"]["plate"], &left);
    })?;
    Ok(empty)
}
