//! What groups say, and what waits in them for a format that has a place for it.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::nodes::is_above;
use super::staging;
use crate::config::OmeVersion;
use crate::error::{Error, Result};
use crate::format::provenance::{self, ATTRIBUTE, is_own};
use crate::format::{ngff, zarr3};
use crate::fs::{document, look};
use crate::json::text;
use crate::offline::hierarchy::below;
use crate::offline::hierarchy::walk::{Node, NodeKind};
use crate::ome::multiscales::{self, Dataset, Multiscale, list};
use crate::ome::{scene, versions};
use crate::words::quoted;

pub(super) use crate::format::provenance::OME;

/// The group of a collection that lists its images.
pub(super) const COLLECTION: &str = "OME";

#[derive(Debug)]
pub(crate) struct RepackedGroup {
    /// The path below the root.
    pub(crate) name: String,
    pub(crate) document: Value,
    /// Its document is not the one that is there.
    pub(crate) is_new: bool,
}

impl RepackedGroup {
    /// Says what it says of OME-Zarr in another version. Returns what can't be said there, as a sentence. `root`: the
    /// folder of the dataset.
    fn say_in(&mut self, version: OmeVersion, root: &Path) -> Result<Option<String>> {
        let group = &self.name;
        let Some(ome) = self.document.get_mut("attributes").and_then(|said| said.get_mut(OME)) else { return Ok(None) };
        let before = ome.clone();
        let lost = versions::convert(ome, version).map_err(|reason| unsupported(root, group, reason))?;
        self.is_new |= *ome != before;
        Ok(note_of_lost(&lost, &called(group), version))
    }

    /// Whether it says something of OME-Zarr in another version.
    fn is_of_other(&self, version: OmeVersion) -> bool {
        versions::version(&self.document["attributes"][OME]).is_some_and(|known| known != version)
    }

    /// Refuses OME-Zarr's metadata of which it is not known what they would be in another version.
    fn refuse_unknown(&self, root: &Path) -> Result<()> {
        let attributes = &self.document["attributes"];
        match ngff::unknown(attributes) {
            Some(reason) => Err(unsupported(root, &self.name, reason + "; leave the option `ome` out to keep it")),
            None => Ok(()),
        }
    }
}

pub(super) fn has_attributes(document: &Value) -> bool {
    document.get("attributes").and_then(Value::as_object).is_some_and(|attributes| !attributes.is_empty())
}

/// Refuses groups with an attribute of their own where OME-Zarr 0.4 has another. `root`: the folder of the dataset.
pub(super) fn refuse_taken(groups: &[RepackedGroup], root: &Path) -> Result<()> {
    groups.iter().try_for_each(|group| {
        let attributes = group.document["attributes"].as_object().cloned().unwrap_or_default();
        let found = ngff::taken_in_0_4(attributes.get(OME), &attributes);
        found.map_or(Ok(()), |attribute| Err(taken(&staging::below(root, &group.name), &attribute)))
    })
}

/// That what stands at a path has such an attribute.
pub(super) fn taken(path: &Path, attribute: &str) -> Error {
    let reason = format!(
        "has the attribute {} beside OME-Zarr's metadata, to which that name belongs in zarr2: \
         rename it there, or stay with zarr3 and OME-Zarr 0.5 or 0.6",
        quoted(attribute)
    );
    Error::unsupported(path, reason)
}

fn unsupported(root: &Path, group: &str, reason: String) -> Error {
    Error::unsupported(staging::below(root, group), reason)
}

/// What to say of that which a version has no words for. `of`: whose it is.
pub(super) fn note_of_lost(lost: &[String], of: &str, version: OmeVersion) -> Option<String> {
    let lost = (!lost.is_empty()).then(|| lost.join(" and "))?;
    Some(format!("of {of}, {lost} is left out: OME-Zarr {version} has no words for it"))
}

/// Lets all groups say it in that version, and returns what can't be said there. `asked`: somebody has asked for the
/// version, so that none may go by.
pub(super) fn say_in(
    groups: &mut [RepackedGroup],
    version: OmeVersion,
    asked: bool,
    root: &Path,
) -> Result<Vec<String>> {
    if asked {
        put_versions_of_labels(groups, root);
        groups.iter().try_for_each(|group| group.refuse_unknown(root))?;
    }
    let changed: Vec<usize> = (0..groups.len()).filter(|&at| groups[at].is_of_other(version)).collect();
    let lost = groups.iter_mut().filter_map(|group| group.say_in(version, root).transpose()).collect::<Result<_>>()?;
    put_scenes(groups, changed);
    Ok(lost)
}

/// Gives the groups `of` whose images were only beside each other the scene that a writer gives them: where these are
/// on the stage, each of them says. Nothing in versions that have no scenes.
fn put_scenes(groups: &mut [RepackedGroup], of: Vec<usize>) {
    let by_name: HashMap<String, usize> = groups.iter().map(|group| group.name.clone()).zip(0..).collect();
    let said = |name: &str| Some(&groups[*by_name.get(name)?].document["attributes"][OME]);
    let scene = |at: usize| {
        let RepackedGroup { name, document, .. } = &groups[at];
        let ome = &document["attributes"][OME];
        let is_collection = ome.get("bioformats2raw.layout").is_some() && ome.get("plate").is_none();
        let series = said(&below(name, COLLECTION)).and_then(|lists| lists.get("series")?.as_array());
        let named = |path: &Value| text(path).map(str::to_owned);
        // Without a list, images are numbered.
        let numbered = || (0u64..).map(|number| number.to_string()).take_while(|of| said(&below(name, of)).is_some());
        let paths: Vec<String> = match (is_collection, series) {
            (true, Some(series)) => series.iter().filter_map(named).collect(),
            (true, None) => numbered().collect(),
            (false, _) => list(&ome["well"], "images").iter().filter_map(|field| named(&field["path"])).collect(),
        };
        let images = paths.iter().filter_map(|path| Some((&**path, said(&below(name, path.trim_matches('/')))?)));
        Some((at, scene::scene_of_groups(images)?))
    };
    let found: Vec<(usize, Value)> = of.into_iter().filter_map(scene).collect();
    for (at, scene) in found {
        groups[at].document["attributes"][OME]["scene"] = scene;
    }
}

/// That there is nothing to say in another version.
pub(super) fn note_of_nothing(groups: &[RepackedGroup]) -> Option<String> {
    let is_there = groups.iter().any(|group| group.document["attributes"].get(OME).is_some_and(ngff::is_ome));
    (!is_there).then(|| "no group has OME-Zarr's metadata, so the option `ome` changes nothing".to_owned())
}

/// Gives a list of labels that has no version, as ome-zarr-py leaves it, that of the image around it or of a label.
fn put_versions_of_labels(groups: &mut [RepackedGroup], root: &Path) {
    for at in 0..groups.len() {
        let folder = staging::below(root, &groups[at].name);
        if !folder.ends_with("labels") {
            continue;
        }
        // In the result, the image may be left out, and say nothing more.
        let around = folder.parent().and_then(|image| document::read(&image.join(zarr3::DOCUMENT)).ok().flatten());
        let labels = groups.iter().filter(|group| is_above(&groups[at].name, &group.name));
        let version = around
            .iter()
            .chain(labels.map(|group| &group.document))
            .find_map(|document| document.pointer("/attributes/ome/version"))
            .cloned();
        let list = groups[at]
            .document
            .get_mut("attributes")
            .and_then(|said| said.get_mut(OME))
            .filter(|ome| ome.get("labels").is_some_and(Value::is_array) && ome.get("version").is_none());
        if let (Some(version), Some(list)) = (version, list) {
            list["version"] = version;
            groups[at].is_new = true;
        }
    }
}

/// Takes the writer's attribute away where nothing is left in it: another writer's array does not become one of this
/// crate's.
pub(super) fn drop_empty_own(document: &mut Value) {
    for pointer in ["", "/attributes"] {
        let attributes = document.pointer_mut(pointer).and_then(Value::as_object_mut);
        let attributes = attributes.filter(|attributes| attributes.get(ATTRIBUTE) == Some(&json!({})));
        attributes.map(|attributes| attributes.shift_remove(ATTRIBUTE));
    }
}

pub(super) fn called(group: &str) -> String {
    if group.is_empty() { "the root".to_owned() } else { format!("the group {}", quoted(group)) }
}

/// The note of a group of which nothing is in the result.
pub(super) fn without_attributes(group: &str) -> String {
    format!("the attributes of {} are left out: no array of it is in the result", called(group))
}

/// What OME-Zarr's axes are called of the image that an array belongs to; `group`: finds a group by its name.
pub(super) fn axes_of<'a>(
    array: &str,
    dimensions: usize,
    group: impl Fn(&str) -> Option<&'a RepackedGroup>,
) -> Option<Vec<String>> {
    Path::new(array).ancestors().skip(1).filter_map(Path::to_str).find_map(|above| {
        let is_array = |path: &str| below(above, path.trim_matches('/')) == array;
        let is_of_array = |image: &Multiscale<'_>| image.levels().filter_map(Dataset::path).any(is_array);
        let image = multiscales::images(&group(above)?.document["attributes"]["ome"]).find(is_of_array)?;
        axes_names(image, dimensions)
    })
}

/// What the axes of an image of OME-Zarr are called, if that fits an array of this many dimensions.
pub(super) fn axes_names(image: Multiscale<'_>, dimensions: usize) -> Option<Vec<String>> {
    let names: Vec<String> = image.axes().map(|axis| axis.name.map(str::to_owned)).collect::<Option<_>>()?;
    is_complete(&names, dimensions).then_some(names)
}

/// Whether each of this many dimensions has a name of its own.
pub(super) fn is_complete(names: &[String], dimensions: usize) -> bool {
    let distinct: HashSet<&String> = names.iter().filter(|name| !name.is_empty()).collect();
    names.len() == dimensions && distinct.len() == dimensions
}

/// What OME-Zarr says names an array `0`. Where there is none of that name, it waits among the writer's own attributes
/// until there is one again.
pub(super) fn put_ome_aside(user: &mut Map<String, Value>, own: &mut Map<String, Value>) {
    // What is only called so stays where it is.
    if user.get(OME).is_some_and(ngff::is_of_any_version)
        && let Some(ome) = user.shift_remove(OME)
    {
        own.insert(OME.to_owned(), ome);
    }
}

/// The image of which OME-Zarr's metadata speak among these attributes.
pub(super) fn first_image(attributes: &Map<String, Value>) -> Option<Multiscale<'_>> {
    multiscales::images(attributes.get(OME)?).next()
}

/// Brings what OME-Zarr 0.4 says in a group of Zarr v3, as a migration of one of Zarr v2 leaves it, to where 0.5 has
/// it. Returns whether it did.
pub(super) fn read_migrated(node: &Node, attributes: &mut Map<String, Value>) -> Result<bool> {
    if attributes.contains_key(OME) || !look::is_file(&node.path.join(zarr3::DOCUMENT)) {
        return Ok(false);
    }
    ngff::from_0_4(attributes, is_labels(node))
        .map_err(|reason| Error::unsupported(&node.path, reason + "; leave the option `ome` out to keep it"))?;
    if is_of_collection(node) {
        ngff::series_from_0_4(attributes);
    }
    Ok(attributes.contains_key(OME))
}

/// Brings what OME-Zarr 0.4 says in a group of Zarr v2 to where 0.5 has it.
pub(super) fn read_0_4(node: &Node, attributes: &mut Map<String, Value>) -> Result<()> {
    if !matches!(node.kind, NodeKind::Group(None)) || look::is_file(&node.path.join(zarr3::DOCUMENT)) {
        return Ok(());
    }
    ngff::from_0_4(attributes, is_labels(node)).map_err(|reason| {
        Error::unsupported(&node.path, reason + "; the dialect zarr2 keeps it as it is, with the option `sharding`")
    })
}

/// Refuses to call OME-Zarr 0.4 what groups of Zarr v2 say in an older version.
pub(super) fn refuse_old(nodes: &[Node]) -> Result<()> {
    let is_group = |node: &&Node| matches!(node.kind, NodeKind::Group(None));
    for node in nodes.iter().filter(is_group).filter(|node| !look::is_file(&node.path.join(zarr3::DOCUMENT))) {
        let document = node.document()?;
        let Some(attributes) = document.get("attributes").and_then(Value::as_object) else { continue };
        ngff::refuse_old(attributes, is_labels(node)).map_err(|reason| {
            let help = "; without the option `ome`, the dialect zarr2 keeps it as it is, with the option `sharding`";
            Error::unsupported(&node.path, reason + help)
        })?;
    }
    Ok(())
}

/// Whether a group lists the images of a collection, by its name.
pub(super) fn is_of_collection(node: &Node) -> bool {
    node.name.rsplit('/').next() == Some(COLLECTION)
}

fn is_labels(node: &Node) -> bool {
    node.path.file_name().is_some_and(|name| name == "labels")
}

/// Brings back what [`put_ome_aside`] has put aside.
pub(super) fn take_ome_back(attributes: &mut Map<String, Value>) {
    let own = attributes.get_mut(ATTRIBUTE).filter(|own| is_own(own));
    let Some(own) = own.and_then(Value::as_object_mut) else { return };
    let Some(ome) = own.shift_remove(OME) else { return };
    if own.is_empty() {
        // Of another writer's image, nothing else was said.
        attributes.shift_remove(ATTRIBUTE);
    }
    attributes.entry(OME).or_insert(ome);
}

/// Whether [`put_ome_aside`] has put something aside.
pub(super) fn has_ome_aside(attributes: &Value) -> bool {
    provenance::own(attributes).is_some_and(|own| own.get(OME).is_some())
}
