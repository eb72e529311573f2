//! By which documents a folder is a node of Zarr, and which of them says what.

use super::consolidated::OF_ZARR2;
use super::{zarr2, zarr3};

/// The documents by which a folder is known to be a node.
pub(crate) const OF_NODES: [&str; 3] = [zarr3::DOCUMENT, zarr2::ARRAY, zarr2::GROUP];

/// All documents that a node of Zarr v2 may have.
pub(crate) const OF_ZARR2_NODES: [&str; 4] = [zarr2::GROUP, zarr2::ARRAY, zarr2::ATTRIBUTES, OF_ZARR2];

/// All documents that a node may have.
pub(crate) const ALL: [&str; 5] = [zarr3::DOCUMENT, zarr2::GROUP, zarr2::ARRAY, zarr2::ATTRIBUTES, OF_ZARR2];

/// The version of Zarr whose documents a node has. Where they are those of both, Zarr v3 counts, as for zarr-python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeFormat {
    Zarr3,
    Zarr2,
}

impl NodeFormat {
    /// That of the node in a folder which has these documents, if it is one.
    pub(crate) fn of(has: impl Fn(&str) -> bool) -> Option<Self> {
        let is_one = has(zarr3::DOCUMENT).then_some(Self::Zarr3);
        is_one.or_else(|| [zarr2::ARRAY, zarr2::GROUP].into_iter().any(has).then_some(Self::Zarr2))
    }

    /// The document with a node's attributes, and where they stand in it, as a JSON pointer.
    pub(crate) const fn attributes(self) -> (&'static str, &'static str) {
        match self {
            Self::Zarr3 => (zarr3::DOCUMENT, "/attributes"),
            Self::Zarr2 => (zarr2::ATTRIBUTES, ""),
        }
    }
}
