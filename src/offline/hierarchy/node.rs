//! A group or an array of a dataset, for those who read.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::format::{zarr2, zarr3, zarr3_draft};
use crate::fs::document;
use crate::offline::array::Array;

pub(crate) struct Node {
    /// The path below the root; empty for the root itself.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) kind: NodeKind,
}

pub(crate) enum NodeKind {
    /// With what it says if its document stands elsewhere.
    Group(Option<Value>),
    Array(Box<Array>),
    /// Its document is broken, or says what is not read here.
    Unreadable(Error),
}

impl Node {
    pub(crate) fn array(&self) -> Option<&Array> {
        if let NodeKind::Array(array) = &self.kind { Some(array) } else { None }
    }

    pub(crate) fn unreadable(&self) -> Option<&Error> {
        if let NodeKind::Unreadable(error) = &self.kind { Some(error) } else { None }
    }

    pub(crate) fn is_group(&self) -> bool {
        matches!(self.kind, NodeKind::Group(_))
    }

    /// Whether it is a group whose document stands elsewhere, or is none of a group.
    pub(crate) fn is_central(&self) -> bool {
        matches!(self.kind, NodeKind::Group(Some(_)))
    }

    /// The node's `zarr.json`, or what it would say if the node were of Zarr v3. An array of another format has only
    /// attributes in it.
    pub(crate) fn document(&self) -> Result<Value> {
        let own = document::read(&self.path.join(zarr3::DOCUMENT))?;
        if let Some(document) = own.filter(|document| !zarr3_draft::is_entry(document)) {
            return Ok(document);
        }
        let (kind, attributes) = match &self.kind {
            NodeKind::Array(array) => ("array", array.attributes().clone()),
            NodeKind::Group(Some(attributes)) => ("group", attributes.clone()),
            NodeKind::Group(None) => {
                ("group", document::read(&self.path.join(zarr2::ATTRIBUTES))?.unwrap_or_else(|| json!({})))
            }
            NodeKind::Unreadable(error) => return Err(error.clone()),
        };
        Ok(zarr3::document_of(kind, attributes))
    }
}
