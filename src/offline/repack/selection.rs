//! Which arrays of a dataset are repacked, by their names and by what they are.

use super::options::RepackOptions;
use super::target;
use crate::error::{Error, Result};
use crate::offline::array::Array;
use crate::offline::hierarchy::walk::{Kind, Node};

/// Names that an error message lists.
const NAMES_MAX: usize = 20;

/// What was asked for, with the names that choose arrays.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    pub(super) options: &'a RepackOptions,
    only: Vec<&'a str>,
    skip: Vec<&'a str>,
}

impl<'a> Selection<'a> {
    /// # Errors
    ///
    /// [`Error::Config`] for a name that nothing in the dataset has; of an array that would be repacked, why it can't
    /// be read.
    pub(super) fn new(nodes: &[Node], options: &'a RepackOptions) -> Result<Self> {
        let keys = |names: &'a [String]| names.iter().map(|name| name.trim_matches('/')).collect();
        let selection = Self { options, only: keys(&options.only), skip: keys(&options.skip) };
        for (field, names) in [("only", &selection.only), ("skip", &selection.skip)] {
            if let Some(unknown) = names.iter().find(|name| nodes.iter().all(|node| node.name != **name)) {
                let reason = format!("is no array or group of the dataset; these are: {}", listed(nodes));
                return Err(Error::config(field, format_args!("{unknown:?}"), reason));
            }
        }
        for node in nodes.iter().filter(|node| selection.takes(&node.name)) {
            if let Some(error) = node.unreadable() {
                return Err(refused(error, &node.name));
            }
        }
        Ok(selection)
    }

    /// Whether the names choose an array.
    pub(super) fn takes(&self, name: &str) -> bool {
        let is_of = |group: &&str| {
            group.is_empty() || name.strip_prefix(*group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        (self.only.is_empty() || self.only.iter().any(&is_of)) && !self.skip.iter().any(is_of)
    }

    /// Whether an array is repacked.
    pub(super) fn is_meant(&self, node: &Node, array: &Array) -> bool {
        self.takes(&node.name) && target::is_meant(array, self.options)
    }
}

/// Says of an array that can't be read how the rest of its dataset is repacked all the same.
fn refused(error: &Error, name: &str) -> Error {
    let help = format!("to repack what is beside this array, add {name:?} to the option `skip`");
    match error.clone() {
        Error::Format { path, reason } => Error::Format { path, reason: format!("{reason}; {help}") },
        Error::Unsupported { path, reason } => Error::Unsupported { path, reason: format!("{reason}; {help}") },
        other => other,
    }
}

/// The names of arrays, and of groups where there are no arrays.
fn listed(nodes: &[Node]) -> String {
    let is_group = |node: &&Node| matches!(node.kind, Kind::Group(_));
    let names: Vec<_> = nodes.iter().filter(|node| !is_group(node)).map(|node| format!("{:?}", node.name)).collect();
    let more = if names.len() > NAMES_MAX { ", …" } else { "" };
    names[..names.len().min(NAMES_MAX)].join(", ") + more
}
