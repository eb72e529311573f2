//! Labels: which images are some, and which an image has beside it.

use std::path::Path;

use serde_json::Value;

use super::options::{PyramidOptions, directions};
use crate::format::keys::is_below;
use crate::format::zarr3;
use crate::fs::document;
use crate::json::text;
use crate::offline::hierarchy::{below, groups_around};
use crate::ome::multiscales;
use crate::words::{count, quoted, shell_word};

const LABELS: &str = "labels";

/// Whether a group around an image lists it among its labels.
pub(super) fn lists(image: &Path) -> bool {
    groups_around(image).any(|group| {
        let Ok(name) = image.strip_prefix(group) else { return false };
        listed(&ome_of(group)).any(|listed| Path::new(listed) == name)
    })
}

/// What to say of the labels of an image that gets `levels` beside level 0, where they have another number of them: the
/// call that makes as many.
pub(super) fn notes(image: &Path, levels: usize, options: &PyramidOptions) -> Vec<String> {
    let ome = ome_of(&image.join(LABELS));
    let note = |name: &str| {
        let path = image.join(LABELS).join(name);
        let there = multiscales::images(&ome_of(&path)).next()?.levels().count();
        let directions = directions(&options.downsampling());
        let overwrite = if there > 1 { " --overwrite" } else { "" };
        let name = below(LABELS, name);
        let (path, has) = (shell_word(&path), count(there, "level"));
        (there > 0 && there != levels + 1).then(|| {
            format!(
                "{} has {has}, and its image gets {}: shardwright pyramid {path} --levels {levels}{directions}\
                 {overwrite} makes it as many",
                quoted(name),
                levels + 1
            )
        })
    };
    listed(&ome).filter(|name| is_below(name)).filter_map(note).collect()
}

fn listed(ome: &Value) -> impl Iterator<Item = &str> {
    ome[LABELS].as_array().into_iter().flatten().filter_map(text)
}

/// What a group says of OME-Zarr; nothing where it can't be read.
fn ome_of(group: &Path) -> Value {
    let document = document::read(&group.join(zarr3::DOCUMENT)).ok().flatten();
    document.map_or(Value::Null, |mut document| document["attributes"]["ome"].take())
}
