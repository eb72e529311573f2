//! One image of this crate's writer, as its documents describe it.

use serde_json::{Map, Value};

use super::metadata::Metadata;
use super::provenance::OME;
use super::rules::OmePlace;
use crate::config::Dialect;

/// What the documents of one image say, whatever their form.
#[derive(Clone, Copy)]
pub(crate) struct ImageDescription<'a> {
    pub(crate) array: &'a Metadata,
    pub(crate) shape: &'a [u64],
    /// What is said of the array alone, where the format has a place for it beside what is said of the image.
    pub(crate) of_array: Option<&'a Map<String, Value>>,
    /// The user's attributes.
    pub(crate) user: &'a Map<String, Value>,
    /// The writer's own.
    pub(crate) own: &'a Value,
    /// What OME-Zarr says, where it has words for the dimensions.
    pub(crate) ome: Option<&'a Value>,
}

/// Puts OME-Zarr's metadata of a new image where a format has them that has no documents for them: among the user's
/// attributes, or among the writer's own.
pub(crate) fn put_ome(dialect: Dialect, ome: Option<&Value>, user: &mut Map<String, Value>, own: &mut Value) {
    match (super::rules(dialect).ome, ome) {
        (OmePlace::Attributes, Some(ome)) => drop(user.insert(OME.to_owned(), ome.clone())),
        (OmePlace::Aside, Some(ome)) => own[OME] = ome.clone(),
        (OmePlace::Documents, _) | (_, None) => {}
    }
}
