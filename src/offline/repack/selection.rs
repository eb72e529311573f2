//! Which arrays of a dataset are repacked, by their names and by what they are.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::options::RepackOptions;
use super::refusal::{self, NAMES_MAX};
use super::target;
use crate::error::{Error, Result};
use crate::format::keys::RECORDS;
use crate::format::provenance;
use crate::offline::array::Array;
use crate::offline::hierarchy::central::CentralMetadata;
use crate::offline::hierarchy::has_node;
use crate::offline::hierarchy::walk::Node;
use crate::offline::shared_records::has_shards;
use crate::words::{count, of_number, quoted};

/// Arrays of which it says why they can't be read.
const REASONS_MAX: usize = 5;

/// What was asked for, with the names that choose arrays.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    pub(super) options: &'a RepackOptions,
    only: Vec<&'a str>,
    skip: Vec<&'a str>,
    /// The arrays in which this crate's writer keeps what came with each frame: these stay as it writes them.
    records: HashSet<String>,
    /// The result is a new dataset.
    copied: bool,
    /// All that is chosen are arrays without rows and columns whose chunks are files: nothing goes along with others.
    is_flat: bool,
}

impl<'a> Selection<'a> {
    pub(super) fn new(nodes: &[Node], options: &'a RepackOptions, copied: bool) -> Result<Self> {
        let keys = |names: &'a [String]| names.iter().map(|name| name.trim_matches('/')).collect();
        let (only, skip, records) = (keys(&options.only), keys(&options.skip), own_records(nodes));
        let mut selection = Self { options, only, skip, records, copied, is_flat: false };
        for (field, names) in [("only", &options.only), ("skip", &options.skip)] {
            if names.iter().any(String::is_empty) {
                let reason = "is no name; name an array or a group, or the whole dataset by \"/\"";
                return Err(Error::config(field, "\"\"", reason));
            }
        }
        for (field, names) in [("only", &selection.only), ("skip", &selection.skip)] {
            // A folder without a document of its own is a group by what is in it.
            let is_known = |name: &str| nodes.iter().any(|node| is_within(&node.name, name));
            if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
                let root = nodes.first().map_or(Path::new(""), |root| root.path.as_path());
                let names = listed(nodes);
                let reason =
                    format!("has no array or group {}, as the option `{field}` has it, but: {names}", quoted(unknown));
                return Err(Error::not_found(root, reason));
            }
        }
        let taken: Vec<&Node> = nodes.iter().filter(|node| selection.takes(&node.name)).collect();
        let mut arrays = taken.iter().filter_map(|node| node.array()).peekable();
        let unread: Vec<_> = taken.iter().filter_map(|node| Some((node.name.as_str(), node.unreadable()?))).collect();
        if let Some(error) = refused(&unread, arrays.peek().is_none()) {
            return Err(error);
        }
        selection.is_flat = arrays.all(|array| array.shape().len() < 2 && !has_shards(array));
        Ok(selection)
    }

    /// Whether the names choose an array.
    pub(super) fn takes(&self, name: &str) -> bool {
        let is_of = |group: &&str| is_within(name, group);
        (self.only.is_empty() || self.only.iter().any(&is_of)) && !self.skip.iter().any(is_of)
    }

    /// Whether a node is one of these records, or the group that holds them.
    pub(super) fn is_record(&self, name: &str) -> bool {
        let start = format!("{name}/");
        let holds_some =
            name.rsplit('/').next() == Some(RECORDS) && self.records.iter().any(|one| one.starts_with(&start));
        holds_some || self.records.contains(name)
    }

    /// Whether an array is repacked.
    pub(super) fn is_meant(&self, node: &Node, array: &Array) -> bool {
        self.takes(&node.name) && (target::is_meant(array, self.options) || self.is_changed(node, array))
    }

    /// Whether an array that is repacked has a file for each chunk, and keeps it so because nobody asked for shards, or
    /// because it has one dimension beside others that get some.
    pub(super) fn stays_files(&self, array: &Array) -> bool {
        let rank = array.shape().len();
        !has_shards(array) && (self.options.shard.is_empty() || rank < 2)
    }

    /// Whether something is asked for that changes an array of Zarr v3 whose chunks are files, and stay files.
    fn is_changed(&self, node: &Node, array: &Array) -> bool {
        let RepackOptions { codec, chunk, shard, index_location, index_checksum, ome, .. } = self.options;
        let asks_for_shards = !shard.is_empty() || index_location.is_some() || index_checksum.is_some();
        // What groups now say of it goes into a new dataset, and it goes along; or there is nothing else.
        let goes_along = (ome.is_some() || (self.is_flat && !asks_for_shards)) && self.copied;
        let goes_along = goes_along && array.manifest().is_none();
        // Beside arrays that get shards, lengths may be for these alone.
        let is_cut = !chunk.is_empty() && (shard.is_empty() || chunk.len() <= array.shape().len());
        self.stays_files(array)
            && (codec.is_some() || is_cut || goes_along)
            && !array.shape().is_empty()
            && !self.records.contains(&node.name)
    }
}

/// Whether a node is the one of that name, or is in it.
fn is_within(name: &str, group: &str) -> bool {
    group.is_empty() || name.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The dataset that is meant by a path, and what of it. A scale has no document but its volume's, with the place, the
/// size and the kind of what it shows; so the volume is meant, and of it that scale.
pub(super) fn of_path(path: PathBuf, options: &RepackOptions) -> Result<(PathBuf, Cow<'_, RepackOptions>)> {
    let is_alone = has_node(&path) || CentralMetadata::at(&path)?.is_some();
    if is_alone || !options.only.is_empty() || !options.skip.is_empty() {
        return Ok((path, Cow::Borrowed(options)));
    }
    match CentralMetadata::of(&path)? {
        Some((volume, scale)) if volume.has_scale(&scale) => {
            Ok((volume.root, Cow::Owned(RepackOptions { only: vec![scale], ..options.clone() })))
        }
        _ => Ok((path, Cow::Borrowed(options))),
    }
}

/// The arrays of records beside images of this crate's writer, in which no reader expects another codec.
fn own_records(nodes: &[Node]) -> HashSet<String> {
    let is_own = |node: &Node| {
        let document = node.document().unwrap_or_default();
        document.pointer("/attributes").is_some_and(|attributes| provenance::own(attributes).is_some())
    };
    let is_of_image = |name: &str| {
        let (image, last) = name.rsplit_once('/').unwrap_or(("", name));
        last == RECORDS && nodes.iter().any(|node| node.name == image && is_own(node))
    };
    let groups: Vec<String> =
        nodes.iter().filter(|node| is_of_image(&node.name)).map(|node| format!("{}/", node.name)).collect();
    let names = nodes.iter().map(|node| &node.name);
    names.filter(|name| groups.iter().any(|group| name.starts_with(group))).cloned().collect()
}

/// Says of arrays that can't be read, by their names, how what is beside them is repacked all the same. `is_alone`: no
/// other array is chosen.
fn refused(unread: &[(&str, &Error)], is_alone: bool) -> Option<Error> {
    let [(_, first), others @ ..] = unread else { return None };
    let listed = &others[..others.len().min(REASONS_MAX - 1)];
    let mut more: String = listed.iter().map(|(_, error)| format!("; {error}")).collect();
    if listed.len() < others.len() {
        more += &format!("; and {} can't be read either", count(others.len() - listed.len(), "array"));
    }
    if is_alone {
        return Some((*first).clone().with(&format!("{more}; there is no other array to repack")));
    }
    let names: Vec<_> = unread.iter().map(|(name, _)| if name.is_empty() { "/" } else { *name }).collect();
    let (it, names) = (of_number(&unread.len(), ["it", "them"]), refusal::listed(&names));
    // A new dataset would have the links, and not what they lead to.
    let in_place = if unread.iter().any(|(_, error)| is_of_link(error)) { " in place" } else { "" };
    let help = format!("to repack what is beside {it}{in_place}, add the option `skip` {names}");
    Some((*first).clone().with(&format!("{more}; {help}")))
}

fn is_of_link(error: &Error) -> bool {
    match error {
        Error::Format { path, .. } | Error::Unsupported { path, .. } => path.ancestors().any(Path::is_symlink),
        _ => false,
    }
}

fn named(name: &str) -> String {
    if name.is_empty() { "the array at its root, which is \"/\"".to_owned() } else { quoted(name) }
}

/// The names of arrays, and of groups where there are no arrays.
fn listed(nodes: &[Node]) -> String {
    let names: Vec<_> = nodes.iter().filter(|node| !node.is_group()).map(|node| named(&node.name)).collect();
    let more = if names.len() > NAMES_MAX { ", …" } else { "" };
    names[..names.len().min(NAMES_MAX)].join(", ") + more
}
