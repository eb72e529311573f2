//! The nodes that a group promises: in OME-Zarr's metadata, and in consolidated ones.

use serde_json::Value;

use super::check::{Check, reason};
use crate::error::Result;
use crate::fs::{document, is_below};
use crate::offline::hierarchy::{Group, below, has_node};

/// What a document promises below a group.
struct Promise {
    /// The path below the group.
    path: String,
    /// It is to be an array, rather than a node of any kind.
    is_array: bool,
    /// Who promises it, for a sentence.
    whose: &'static str,
}

/// Looks whether all is there that a group promises.
pub(super) fn check(check: &Check, group: &Group) {
    let mut promises = of_attributes(group);
    match consolidated(group) {
        Ok(more) => promises.extend(more),
        Err(error) => check.damage(&group.path, format!("its consolidated metadata can't be read: {}", reason(error))),
    }
    let tree = check.tree;
    for Promise { path, is_array, whose } in promises {
        let node = below(&group.name, path.trim_end_matches('/').trim_start_matches("./"));
        let is_known = tree.array(&node).is_some() || tree.group(&node).is_some();
        if is_known || (is_below(&path) && has_node(&group.path.join(&path))) {
            if is_array && tree.array(&node).is_none() && tree.group(&node).is_some() {
                check.damage(&group.path, format!("its {whose} name an array {path:?}, which is a group"));
            }
            continue;
        }
        check.damage(&group.path, format!("its {whose} name {path:?}, which is not there"));
    }
    // The group `OME` lists the images beside it.
    let around = if group.name == "OME" { Some("") } else { group.name.strip_suffix("/OME") };
    let Some(around) = around else { return };
    let series = group.attributes.pointer("/ome/series").and_then(Value::as_array).into_iter().flatten();
    for name in series.filter_map(Value::as_str) {
        let node = below(around, name);
        let beside = group.path.parent().filter(|_| is_below(name)).map(|root| root.join(name));
        let is_known = tree.group(&node).is_some() || tree.array(&node).is_some();
        if !is_known && !beside.is_some_and(|image| has_node(&image)) {
            check.damage(&group.path, format!("it lists an image {name:?} beside it, which is not there"));
        }
    }
}

/// The levels of an image, the wells of a plate, the images of a well, and the labels of an image.
fn of_attributes(group: &Group) -> Vec<Promise> {
    let ome = group.attributes.get("ome").unwrap_or(&group.attributes);
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let path = |entry: &Value| entry.get("path")?.as_str().map(str::to_owned);
    let node = |path: String| Promise { path, is_array: false, whose: "attributes" };
    let images = list(ome.get("multiscales"));
    let levels = images.iter().flat_map(|image| list(image.get("datasets")));
    let levels = levels.filter_map(|level| Some(Promise { is_array: true, ..node(path(&level)?) }));
    let parts = [ome.pointer("/plate/wells"), ome.pointer("/well/images")];
    let parts = parts.into_iter().flat_map(list).filter_map(|part| path(&part).map(node));
    // Elsewhere, 0.4 has no word of its own that would tell them from anybody's.
    let labels = ome.get("labels").filter(|_| group.name.rsplit('/').next() == Some("labels"));
    let labels = list(labels).into_iter().filter_map(|label| label.as_str().map(|name| node(name.to_owned())));
    levels.chain(parts).chain(labels).collect()
}

/// What readers believe who take one document for all of them.
fn consolidated(group: &Group) -> Result<Vec<Promise>> {
    let promise = |path: &str, is_array| Promise { path: path.to_owned(), is_array, whose: "consolidated metadata" };
    if let Some(document) = document::read(&group.path.join("zarr.json"))? {
        let metadata = document.pointer("/consolidated_metadata/metadata").and_then(Value::as_object);
        let nodes = metadata.into_iter().flatten();
        return Ok(nodes.map(|(path, node)| promise(path, node["node_type"] == "array")).collect());
    }
    let document = document::read(&group.path.join(".zmetadata"))?.unwrap_or_default();
    let metadata = document.get("metadata").and_then(Value::as_object).into_iter().flatten();
    let node = |key: &str| {
        let array = key.strip_suffix("/.zarray").map(|path| promise(path, true));
        array.or_else(|| key.strip_suffix("/.zgroup").map(|path| promise(path, false)))
    };
    Ok(metadata.filter_map(|(key, _)| node(key)).collect())
}
