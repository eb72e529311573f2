//! What OME-Zarr's metadata list: levels of an image, images of a well, of labels, of a scene and of a collection,
//! wells of a plate. Where arrays are left out, the lists name only what is in the result.
//!
//! Sources: OME-Zarr 0.5, "multiscales", "labels", "plate", "well", "bioformats2raw.layout"; 0.6, "scene".

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::groups::{COLLECTION, OME, RepackedGroup, has_attributes, without_attributes};
use super::left_out::LeftOut;
use crate::error::Result;
use crate::format::zarr3;
use crate::fs::document;
use crate::offline::hierarchy::below;
use crate::offline::ome_xml::without_images;
use crate::ome::multiscales;

/// The file in the group of a collection that describes its images in the order in which the group lists them.
const XML: &str = "METADATA.ome.xml";

/// The keys of the lists, and where these are.
const LISTS: [(&str, &str); 4] = [
    ("labels", "/labels"),
    ("well", "/well/images"),
    ("plate", "/plate/wells"),
    ("scene", "/scene/coordinateTransformations"),
];

/// What is not as it was.
#[derive(Debug, Default)]
pub(super) struct Corrected {
    /// Files that are not copied.
    pub(super) left: Vec<PathBuf>,
    /// Files that stand in their places, by their names below the dataset.
    pub(super) files: Vec<(String, Vec<u8>)>,
    /// As sentences.
    pub(super) notes: Vec<String>,
}

/// Takes out of the groups' lists what is left out, and groups in which nothing is left out of `groups`. `root`: the
/// folder of the old dataset.
pub(super) fn correct(left_out: &LeftOut, groups: &mut Vec<RepackedGroup>, root: &Path) -> Result<Corrected> {
    let mut corrected = Corrected::default();
    if left_out.is_empty() {
        return Ok(corrected);
    }
    let before: Vec<Value> = groups.iter().map(|group| group.document.clone()).collect();
    let mut gone = Gone { left_out, images: HashSet::new() };
    for group in groups.iter_mut() {
        gone.forget_levels(group);
    }
    // Wells before their plates: groups below others come after these.
    for group in groups.iter_mut().rev() {
        gone.forget_listed(group);
    }
    let is_collection = |ome: &mut Value| ome.get("bioformats2raw.layout").is_some();
    let collections =
        groups.iter_mut().filter_map(|group| ome_of(group).is_some_and(is_collection).then(|| group.name.clone()));
    for collection in collections.collect::<Vec<_>>() {
        gone.forget_series(&collection, groups, root, &mut corrected)?;
    }
    for (group, before) in groups.iter_mut().zip(before) {
        group.is_new |= group.document != before;
    }
    groups.retain(|group| {
        let is_kept = group.name.is_empty() || !left_out.empties(&group.name);
        if !is_kept && has_attributes(&group.document) {
            corrected.notes.push(without_attributes(&group.name));
        }
        is_kept
    });
    Ok(corrected)
}

struct Gone<'a> {
    left_out: &'a LeftOut,
    /// Groups of which nothing is left that a list could name.
    images: HashSet<String>,
}

impl Gone<'_> {
    fn is_gone(&self, name: &str) -> bool {
        self.left_out.has(name) || self.left_out.empties(name) || self.images.contains(name)
    }

    /// Whether a list in the group `group` names something that is not in the result.
    fn is_entry_gone(&self, group: &str, path: Option<&str>) -> bool {
        path.is_some_and(|path| self.is_gone(&below(group, path.trim_matches('/'))))
    }

    fn forget_levels(&mut self, group: &mut RepackedGroup) {
        let name = group.name.clone();
        let Some(ome) = ome_of(group) else { return };
        if multiscales::retain_levels(ome, |path| !self.is_entry_gone(&name, Some(path))) {
            // All else there is about the image.
            *ome = json!({});
            self.images.insert(name);
        }
        drop_empty(group);
    }

    fn forget_listed(&mut self, group: &mut RepackedGroup) {
        let name = group.name.clone();
        let Some(ome) = ome_of(group) else { return };
        for (key, pointer) in LISTS {
            let Some(list) = ome.pointer_mut(pointer).and_then(Value::as_array_mut) else { continue };
            let before = list.len();
            let ends = |entry: &Value| ["/input/path", "/output/path"].map(|end| entry.pointer(end).cloned());
            list.retain(|entry| {
                let path = entry.get("path").unwrap_or(entry);
                !self.is_entry_gone(&name, path.as_str())
                    && !ends(entry).iter().any(|path| self.is_entry_gone(&name, path.as_ref().and_then(Value::as_str)))
            });
            if list.is_empty() && before > 0 {
                ome.as_object_mut().map(|ome| ome.shift_remove(key));
                if key != "scene" {
                    self.images.insert(name.clone());
                }
            }
        }
        drop_empty(group);
    }

    /// Corrects which images a collection says that it has, and what the XML beside says of these.
    fn forget_series(
        &self,
        collection: &str,
        groups: &mut Vec<RepackedGroup>,
        root: &Path,
        corrected: &mut Corrected,
    ) -> Result<()> {
        let lists = below(collection, COLLECTION);
        let said = groups.iter_mut().find(|group| group.name == lists).and_then(ome_of);
        let said = said.and_then(|ome| ome.get("series")?.as_array().cloned());
        let is_group = |name: &str| groups.iter().any(|group| group.name == below(collection, name));
        // Without a list, images are numbered.
        let numbered = (0u64..).map(|number| number.to_string()).take_while(|name| is_group(name)).map(Value::from);
        let before: Vec<Value> = said.unwrap_or_else(|| numbered.collect());
        let is_gone = |path: &Value| self.is_entry_gone(collection, path.as_str());
        let gone: Vec<usize> = (0..before.len()).filter(|&at| is_gone(&before[at])).collect();
        if gone.is_empty() {
            return Ok(());
        }
        let after: Vec<&Value> = before.iter().filter(|path| !is_gone(path)).collect();
        let version = groups.iter_mut().find(|group| group.name == collection).and_then(ome_of);
        let version = version.and_then(|ome| ome.get("version").cloned()).unwrap_or_else(|| json!("0.5"));
        let series = json!({"version": version, "series": after});
        match groups.iter_mut().find(|group| group.name == lists) {
            Some(group) => group.document["attributes"][OME] = series,
            None => {
                let document = zarr3::group(json!({OME: series}));
                groups.push(RepackedGroup { name: lists.clone(), document, is_new: true });
            }
        }
        let file = root.join(&lists).join(XML);
        let Some(xml) = document::bytes(&file, document::XML_BYTES_MAX)? else { return Ok(()) };
        corrected.left.push(file);
        let cut = String::from_utf8(xml).ok().and_then(|xml| without_images(&xml, before.len(), &gone));
        match cut {
            Some(xml) => corrected.files.push((below(&lists, XML), xml.into_bytes())),
            None => corrected.notes.push(format!(
                "{} is left out: it describes images that are not in the result, and they can't be cut out of it",
                below(&lists, XML)
            )),
        }
        Ok(())
    }
}

fn ome_of(group: &mut RepackedGroup) -> Option<&mut Value> {
    group.document.get_mut("attributes")?.get_mut(OME)
}

/// Takes OME-Zarr's metadata away where they say nothing but their version.
fn drop_empty(group: &mut RepackedGroup) {
    let says_nothing = |ome: &mut Value| ome.as_object().is_some_and(|ome| ome.keys().all(|key| key == "version"));
    if ome_of(group).is_some_and(says_nothing) {
        let attributes = group.document.get_mut("attributes").and_then(Value::as_object_mut);
        attributes.map(|attributes| attributes.shift_remove(OME));
    }
}
