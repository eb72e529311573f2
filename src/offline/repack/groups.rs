//! What groups say, and what waits in them for a format that has a place for it.

use serde_json::{Map, Value};

use crate::format::ngff;
use crate::format::provenance::ATTRIBUTE;

/// The attribute of OME-Zarr.
const OME: &str = "ome";

/// A group.
#[derive(Debug)]
pub(super) struct Group {
    /// The path below the root.
    pub(super) name: String,
    pub(super) document: Value,
    /// It has no such document so far.
    pub(super) is_new: bool,
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
    let own = attributes.get_mut(ATTRIBUTE).and_then(Value::as_object_mut);
    if let Some(ome) = own.and_then(|own| own.shift_remove(OME)) {
        attributes.entry(OME).or_insert(ome);
    }
}
