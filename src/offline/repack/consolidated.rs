//! Consolidated metadata: what groups say of the nodes below them, which some readers believe before the nodes.
//!
//! Where arrays take the places of others one by one, it would be wrong from the first to the last of them. So it goes
//! first and comes back last, and whoever reads meanwhile, or after a kill, reads the nodes' own documents.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::documents::{change, put};
use super::groups::RepackedGroup;
use super::nodes::is_above;
use super::staging::{below, is_behind_link};
use crate::error::{Error, Result};
use crate::format::consolidated::{self, OF_ZARR2};
use crate::format::keys::is_below;
use crate::format::{zarr2, zarr3};
use crate::fs::{Lock, attributes, document, look};
use crate::offline::hierarchy::walk::{self, Node};
use crate::offline::hierarchy::{self, groups_around, has_all_above, has_node};

/// In the staging folder: what was set aside, by the group's path from the dataset's root.
const ASIDE: &str = "consolidated.json";

/// The consolidated metadata of a dataset and of the groups around it, while the dataset changes.
#[derive(Debug)]
pub(crate) struct Consolidated {
    aside: PathBuf,
    /// Each group's folder, the innermost first.
    groups: Vec<(String, PathBuf)>,
    /// So that nobody else brings back what the same groups said.
    _locks: Vec<Lock>,
}

impl Consolidated {
    /// Of the dataset at `root` and the groups in it. Refused while another dataset in the same groups is repacked.
    pub(crate) fn of(root: &Path, groups: &[RepackedGroup], staging: &Path) -> Result<Self> {
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        Ok(Self { aside: staging.join(ASIDE), ..Self::around(root, &names)? })
    }

    /// The same, by the names of the groups, where nothing is to be set aside.
    pub(crate) fn around(root: &Path, names: &[&str]) -> Result<Self> {
        let mut groups: Vec<_> = names.iter().rev().map(|name| ((*name).to_owned(), below(root, name))).collect();
        let mut locks = Vec::new();
        for (steps, above) in groups_around(root).enumerate() {
            locks.push(Lock::on_folder(above)?);
            groups.push(("../".repeat(steps + 1), above.to_path_buf()));
        }
        Ok(Self { aside: PathBuf::new(), groups, _locks: locks })
    }

    /// Takes it out of all groups. What an earlier call set aside stays there.
    pub(crate) fn set_aside(&self) -> Result<()> {
        let mut aside = self.known()?;
        let mut changed = Vec::new();
        let mut removed = Vec::new();
        for (name, folder) in &self.groups {
            let file = folder.join(zarr3::DOCUMENT);
            let Some(mut document) = document::read(&file)? else {
                let file = folder.join(OF_ZARR2);
                if let Some(consolidated) = document::read(&file)? {
                    aside.insert(name.clone(), consolidated);
                    removed.push(file);
                }
                continue;
            };
            if let Some(consolidated) = consolidated::take(&mut document) {
                aside.insert(name.clone(), consolidated);
                changed.push((file, document));
            }
        }
        if changed.is_empty() && removed.is_empty() {
            return Ok(());
        }
        put(&self.aside, &Value::Object(aside))?;
        // From the outside in: an outer one speaks of the inner ones.
        changed.iter().rev().try_for_each(|(file, document)| put(file, document))?;
        let remove = |file: &PathBuf| fs::remove_file(file).map_err(|error| Error::io("remove", file, error));
        removed.iter().rev().try_for_each(remove)
    }

    /// Lets what was set aside name these nodes, too, when it comes back.
    pub(crate) fn expect(&self, nodes: &[PathBuf]) -> Result<()> {
        let before = self.known()?;
        let mut aside = before.clone();
        for (name, folder) in &self.groups {
            let Some(metadata) = aside.get_mut(name).and_then(consolidated::metadata_mut) else { continue };
            consolidated::add(metadata, nodes.iter().filter_map(|node| node.strip_prefix(folder).ok()?.to_str()));
        }
        if aside == before { Ok(()) } else { put(&self.aside, &Value::Object(aside)) }
    }

    /// Brings it back, with what the nodes say now.
    pub(crate) fn bring_back(&self) -> Result<()> {
        let mut aside = self.known()?;
        for (name, folder) in &self.groups {
            let file = folder.join(zarr3::DOCUMENT);
            let Some(mut document) = document::read(&file)? else {
                let file = folder.join(OF_ZARR2);
                if let (Some(mut consolidated), false) = (aside.shift_remove(name), file.exists()) {
                    refresh_zarr2(folder, &mut consolidated)?;
                    put(&file, &consolidated)?;
                    // The one before it is gone; the group's own document is its like.
                    let _ = attributes::keep(&file, &folder.join(zarr2::GROUP));
                }
                continue;
            };
            if let (Some(said), false) = (aside.shift_remove(name), consolidated::has_field(&document)) {
                consolidated::put(&mut document, said);
                refresh(folder, &mut document)?;
                put(&file, &document)?;
            }
        }
        Ok(())
    }

    /// Lets it say what the nodes say now, where only their attributes have changed.
    pub(crate) fn refresh(&self) -> Result<()> {
        for (_, folder) in &self.groups {
            let (file, of_zarr2) = (folder.join(zarr3::DOCUMENT), folder.join(OF_ZARR2));
            if !change(&file, |document| refresh(folder, document))? {
                change(&of_zarr2, |document| refresh_zarr2(folder, document))?;
            }
        }
        Ok(())
    }

    fn known(&self) -> Result<Map<String, Value>> {
        let known = document::read(&self.aside)?;
        Ok(known.and_then(|known| known.as_object().cloned()).unwrap_or_default())
    }
}

/// Refuses consolidated metadata that could not say what becomes of the dataset at `root`, before any of it changes.
pub(super) fn refuse_broken(root: &Path, groups: &[RepackedGroup]) -> Result<()> {
    let within: Vec<_> = groups.iter().map(|group| below(root, &group.name)).collect();
    for folder in groups_around(root).chain(within.iter().map(PathBuf::as_path)) {
        let help = "; mend it, or remove it, as readers do without";
        document::read(&folder.join(OF_ZARR2)).map_err(|error| error.with(help))?;
        // What else is wrong with a group's document is told by whoever needs it.
        let document = document::read(&folder.join(zarr3::DOCUMENT)).ok().flatten();
        if let Some(fault) = document.as_ref().and_then(consolidated::broken) {
            let help = "mend them, or remove them, as readers do without";
            return Err(Error::format(folder, format!("its consolidated metadata {fault}; {help}")));
        }
    }
    Ok(())
}

impl RepackedGroup {
    /// Lets a group of a new dataset name the nodes below it, of which `nodes` are all, if it names nodes, or becomes
    /// one of Zarr v3 and did so in Zarr v2. [`refresh`](Self::refresh) fills in what they say.
    pub(super) fn consolidate_as_before(&mut self, root: &Path, nodes: &BTreeSet<String>) {
        let was_consolidated = self.is_new && below(root, &self.name).join(OF_ZARR2).is_file();
        let lacks_it = was_consolidated && !consolidated::has_field(&self.document);
        if lacks_it || consolidated::broken(&self.document).is_some() {
            consolidated::put(&mut self.document, consolidated::zarr3(Map::default()));
            self.is_new = true;
        }
        let Some(metadata) = consolidated::nodes_mut(&mut self.document) else { return };
        let start = if self.name.is_empty() { String::new() } else { format!("{}/", self.name) };
        let names = nodes.iter().filter_map(|name| name.strip_prefix(&start)).filter(|name| !name.is_empty());
        let is_node = |above: &str| nodes.contains(&format!("{start}{above}"));
        self.is_new |= consolidated::add(metadata, names.filter(|name| has_all_above(name, is_node)));
    }

    /// Lets what it says of the nodes below it be what they say themselves, in the dataset at `root`.
    pub(super) fn refresh(&self, root: &Path) -> Result<()> {
        let folder = below(root, &self.name);
        change(&folder.join(zarr3::DOCUMENT), |document| refresh(&folder, document)).map(drop)
    }
}

/// Makes the consolidated metadata of a group of Zarr v2, of the nodes below it that have these names.
pub(super) fn make_zarr2<'a>(folder: &Path, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut metadata = Map::new();
    let names = names.filter(|name| has_all_above(name, |above| has_node(&folder.join(above))));
    for name in std::iter::once("").chain(names) {
        for key in [zarr2::GROUP, zarr2::ARRAY, zarr2::ATTRIBUTES].map(|document| hierarchy::below(name, document)) {
            match document::read(&folder.join(&key)) {
                Ok(Some(said)) => drop(metadata.insert(key, said)),
                // No reader reads it there either.
                Ok(None) | Err(Error::Format { .. } | Error::Unsupported { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    put(&folder.join(OF_ZARR2), &consolidated::zarr2(metadata))
}

/// Writes again the consolidated metadata of each group of Zarr v2 that has some, in the dataset at `root`: what was
/// copied may never have been true.
pub(super) fn renew_zarr2(root: &Path) -> Result<()> {
    let nodes = walk::nodes(root)?;
    let has_some = |node: &&Node| [zarr2::GROUP, OF_ZARR2].iter().all(|name| look::is_file(&node.path.join(name)));
    for group in nodes.iter().filter(has_some).filter(|group| !is_behind_link(root, &group.name)) {
        let within = nodes.iter().filter(|node| is_above(&group.name, &node.name) && node.name != group.name);
        make_zarr2(&group.path, within.map(|node| node.name[group.name.len()..].trim_start_matches('/')))?;
    }
    Ok(())
}

/// Lets consolidated metadata of Zarr v2 say what the documents below `folder` say now.
fn refresh_zarr2(folder: &Path, said: &mut Value) -> Result<()> {
    refresh_all(consolidated::metadata_mut(said), |key| folder.join(key), |known, now| *known = now)
}

/// The same of Zarr v3, in the document of the group.
fn refresh(folder: &Path, document: &mut Value) -> Result<()> {
    let file = |name: &str| folder.join(name).join(zarr3::DOCUMENT);
    refresh_all(consolidated::nodes_mut(document), file, |known, mut now| {
        let is_group = now["node_type"] == "group";
        if is_group && known.is_null() {
            consolidated::put(&mut now, consolidated::zarr3(Map::new()));
        } else if is_group {
            // What it says of those below it stays: readers want all of it here, or none of it.
            let now = now.get("attributes").cloned().unwrap_or_else(|| json!({}));
            if known.get("attributes").unwrap_or(&json!({})) != &now {
                known["attributes"] = now;
            }
            return;
        }
        *known = now;
    })
}

/// Lets `renew` say of each document what it says now. What is gone is left out, and of what can't be read stays what
/// is known.
fn refresh_all(
    metadata: Option<&mut Map<String, Value>>,
    file: impl Fn(&str) -> PathBuf,
    renew: impl Fn(&mut Value, Value),
) -> Result<()> {
    let Some(metadata) = metadata else { return Ok(()) };
    let mut gone = Vec::new();
    for (key, known) in metadata.iter_mut().filter(|(key, _)| is_below(key)) {
        match document::read(&file(key)) {
            Ok(Some(now)) => renew(known, now),
            // Nobody repacks such a node, so that it is as it was.
            Err(Error::Format { .. } | Error::Unsupported { .. }) if !known.is_null() => {}
            Ok(None) | Err(Error::Format { .. } | Error::Unsupported { .. }) => gone.push(key.clone()),
            Err(error) => return Err(error),
        }
    }
    gone.iter().for_each(|key| drop(metadata.shift_remove(key)));
    Ok(())
}
