//! What groups say, and what waits in them for a format that has a place for it.

use serde_json::{Map, Value};

use crate::format::ngff;
use crate::format::provenance::ATTRIBUTE;

/// The attribute of OME-Zarr.
pub(super) const OME: &str = "ome";

/// A group.
#[derive(Debug)]
pub(crate) struct Group {
    /// The path below the root.
    pub(crate) name: String,
    pub(crate) document: Value,
    /// It has no such document so far.
    pub(crate) is_new: bool,
}

/// What OME-Zarr says names an array `0`. Where there is none of that name, it waits among the writer's own attributes
/// until there is one again.
pub(super) fn put_ome_aside(user: &mut Map<String, Value>, own: &mut Map<String, Value>) {
    if let Some(ome) = user.shift_remove(OME) {
        own.insert(OME.to_owned(), ome);
    }
}

/// Brings back what [`put_ome_aside`] has put aside, and what OME-Zarr 0.4 has in other places.
pub(super) fn take_ome_back(attributes: &mut Map<String, Value>) {
    ngff::from_0_4(attributes);
    let Some(own) = attributes.get_mut(ATTRIBUTE).and_then(Value::as_object_mut) else { return };
    let Some(ome) = own.shift_remove(OME) else { return };
    if own.is_empty() {
        // Of another writer's image, nothing else was said.
        attributes.shift_remove(ATTRIBUTE);
    }
    attributes.entry(OME).or_insert(ome);
}

/// Whether [`put_ome_aside`] has put something aside.
pub(super) fn has_ome_aside(attributes: &Value) -> bool {
    attributes.get(ATTRIBUTE).and_then(|own| own.get(OME)).is_some()
}
