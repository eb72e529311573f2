//! Consolidated metadata, in both directions: what one document says of all nodes below its group. Zarr v3 has it in
//! the group's own document, Zarr v2 in one of its own.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::json::render_line;

/// The document in which a group of Zarr v2 has it.
pub(crate) const OF_ZARR2: &str = ".zmetadata";
const FIELD: &str = "consolidated_metadata";
/// What is said of it where nodes have no place in it.
pub(crate) const NO_METADATA: &str = "have no object `metadata`, in which the nodes would be";
/// What is there in Zarr v2, by the key of its document.
const FORMAT: &str = "zarr_consolidated_format";

/// What a group says of the nodes below it: all that is read of the document of a group of Zarr v3, whose attributes
/// may list many frames that are missing.
#[derive(Debug, Deserialize)]
pub(crate) struct ConsolidatedMetadata {
    #[serde(default, rename = "consolidated_metadata")]
    said: Value,
    #[serde(skip)]
    pub(crate) is_zarr2: bool,
}

impl ConsolidatedMetadata {
    /// `None` where a document says nothing of them.
    pub(crate) fn if_any(self) -> Option<Self> {
        (!self.said.is_null()).then_some(self)
    }

    pub(crate) fn of_zarr2(said: Value) -> Self {
        Self { said, is_zarr2: true }
    }

    /// The documents of the nodes, or in Zarr v2 of all keys, if there is such an object.
    pub(crate) fn metadata(&self) -> Option<&Map<String, Value>> {
        self.said.get("metadata")?.as_object()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.metadata()?.get(key)
    }

    /// The paths of the nodes below the group, which is the empty one, and whether each is an array.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&str, bool)> {
        self.metadata().into_iter().flatten().filter_map(|(key, said)| match self.is_zarr2 {
            true if key == ".zgroup" => Some(("", false)),
            true => {
                let array = key.strip_suffix("/.zarray").map(|path| (path, true));
                array.or_else(|| key.strip_suffix("/.zgroup").map(|path| (path, false)))
            }
            false => Some((key, said["node_type"] == "array")),
        })
    }

    /// The documents by which a folder is a node of this format, below the group.
    pub(crate) fn documents(&self, node: &str) -> Vec<String> {
        let documents: &[&str] = if self.is_zarr2 { &[".zarray", ".zgroup"] } else { &["zarr.json"] };
        documents.iter().map(|document| format!("{node}/{document}")).collect()
    }

    pub(crate) fn names(&self, node: &str) -> bool {
        if self.is_zarr2 {
            return self.documents(node).iter().any(|key| self.get(key).is_some());
        }
        // A group in it may have said of its own nodes there.
        let is_nested = |group: &Path| {
            let nodes = group.to_str().and_then(|group| nodes(self.get(group)?));
            nodes.is_some_and(|nodes| !nodes.is_empty())
        };
        self.get(node).is_some() || Path::new(node).ancestors().skip(1).any(is_nested)
    }

    /// For what readers refuse all of it.
    pub(crate) fn fault(&self) -> Option<String> {
        let (kind, format) = (&self.said["kind"], &self.said[FORMAT]);
        match self.is_zarr2 {
            true => (*format != 1).then(|| format!("have the `{FORMAT}` {}, not 1", render_line(format))),
            false => (*kind != "inline").then(|| format!("are of the kind {}, not \"inline\"", render_line(kind))),
        }
    }
}

/// Why nothing new comes into a group that has it.
pub(crate) const HIDES_NEW: &str = "has consolidated metadata, so its readers would not see what comes below it; take \
                                    these out first, and consolidate again afterwards";

/// What the document of a group of Zarr v3 has, if it is not null.
pub(crate) fn of(document: &Value) -> Option<&Value> {
    document.get(FIELD).filter(|said| !said.is_null())
}

/// For what readers refuse all of it in the document of a group of Zarr v3, if they do.
pub(crate) fn broken(document: &Value) -> Option<String> {
    let said = ConsolidatedMetadata { said: of(document)?.clone(), is_zarr2: false };
    match said.metadata() {
        None => Some(NO_METADATA.to_owned()),
        Some(_) => said.fault(),
    }
}

/// Whether the document of a group of Zarr v3 has it, be it null.
pub(crate) fn has_field(document: &Value) -> bool {
    document.get(FIELD).is_some()
}

pub(crate) fn take(document: &mut Value) -> Option<Value> {
    document.as_object_mut()?.shift_remove(FIELD)
}

pub(crate) fn put(document: &mut Value, said: Value) {
    document[FIELD] = said;
}

/// What the document of a group of Zarr v3 says of nodes, by their paths.
pub(crate) fn nodes(document: &Value) -> Option<&Map<String, Value>> {
    document.get(FIELD)?.get("metadata")?.as_object()
}

pub(crate) fn nodes_mut(document: &mut Value) -> Option<&mut Map<String, Value>> {
    metadata_mut(document.get_mut(FIELD)?)
}

/// What it says of nodes or keys, where it stands alone.
pub(crate) fn metadata_mut(said: &mut Value) -> Option<&mut Map<String, Value>> {
    said.get_mut("metadata")?.as_object_mut()
}

/// Lets it name these nodes, too, of which it says nothing yet. Whether there was one that it did not name.
pub(crate) fn add<'a>(metadata: &mut Map<String, Value>, nodes: impl Iterator<Item = &'a str>) -> bool {
    let known = metadata.len();
    for node in nodes {
        metadata.entry(node).or_insert(Value::Null);
    }
    // Groups before what is in them, and all of one group side by side: zarr-python finds nothing else.
    let mut all: Vec<_> = std::mem::take(metadata).into_iter().collect();
    if all.len() > known {
        all.sort_by_cached_key(|(name, _)| (name.matches('/').count(), name.clone()));
    }
    metadata.extend(all);
    metadata.len() > known
}

/// What a group of Zarr v3 says of these nodes.
pub(crate) fn zarr3(nodes: Map<String, Value>) -> Value {
    json!({"kind": "inline", "must_understand": false, "metadata": nodes})
}

/// The document of a group of Zarr v2 with what stands under these keys.
pub(crate) fn zarr2(metadata: Map<String, Value>) -> Value {
    json!({FORMAT: 1, "metadata": metadata})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes_of(said: &ConsolidatedMetadata) -> Vec<(&str, bool)> {
        said.nodes().collect()
    }

    #[test]
    fn what_is_rendered_is_read_again() {
        let mut nodes = Map::from_iter([("a/b".to_owned(), json!({"node_type": "array"}))]);
        assert!(add(&mut nodes, ["a", "a/b"].into_iter()) && !add(&mut nodes, ["a"].into_iter()));
        let mut document = json!({"node_type": "group"});
        put(&mut document, zarr3(nodes));
        let read: ConsolidatedMetadata = serde_json::from_value(document.clone()).unwrap();
        let said = read.if_any().unwrap();
        assert_eq!((nodes_of(&said), said.fault()), (vec![("a", false), ("a/b", true)], None));
        assert!(said.names("a/b") && !said.names("c"));
        assert!(take(&mut document).is_some() && of(&document).is_none());

        let keys = [".zgroup", "a/.zarray", "a/.zattrs", "b/.zgroup"].map(|key| (key.to_owned(), json!({})));
        let said = ConsolidatedMetadata::of_zarr2(zarr2(Map::from_iter(keys)));
        assert_eq!((nodes_of(&said), said.fault()), (vec![("", false), ("a", true), ("b", false)], None));
        assert!(said.names("b") && !said.names("c"));
    }
}
