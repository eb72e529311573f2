//! What is said of an image that becomes a whole dataset: by its array, and by the groups around it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::groups::{self, OME};
use super::nodes::groups_above;
use super::refusal;
use crate::config::{Dialect, OmeVersion};
use crate::error::{Error, Result};
use crate::format::precomputed::{self, carried};
use crate::format::provenance::{self, ATTRIBUTE, is_own};
use crate::format::{ngff, rules};
use crate::fs::document;
use crate::json::text;
use crate::offline::array::Array;
use crate::offline::hierarchy::below;
use crate::offline::hierarchy::walk::{Node, NodeKind};
use crate::ome::{multiscales, versions};
use crate::words::quoted;

/// What is said of the image, what is said of its array alone, and what can't be among them.
#[derive(Debug, Default)]
pub(super) struct ImageAttributes {
    pub(super) attributes: Map<String, Value>,
    /// The array's own, where the new format has a place for them.
    pub(super) of_array: Map<String, Value>,
    /// The attribute `ome` is one that the array had itself, and no group's.
    pub(super) is_ome_of_array: bool,
    /// Of what is left out, as sentences.
    pub(super) notes: Vec<String>,
    /// The group or array that has each of the attributes.
    pub(super) holders: HashMap<String, PathBuf>,
}

impl ImageAttributes {
    /// Of the array `name`, which becomes the image of a dataset of `to`. Where two say different things, the group
    /// around the array is believed, then the array itself, then the groups farther away.
    pub(super) fn of(nodes: &[Node], name: &str, to: Dialect) -> Result<Self> {
        let array = nodes.iter().find(|node| node.name == name && matches!(node.kind, NodeKind::Array(_)));
        let mut groups: Vec<&Node> = groups_above(nodes, name).collect();
        let nearest = groups.pop();
        let mut all = Self::default();
        let (mut ome, mut ome_of_array) = (None, None);
        let by_nearness = array.into_iter().chain(nearest).chain(groups.into_iter().rev());
        for (at, node) in by_nearness.enumerate() {
            let mut said = node.document()?.get("attributes").and_then(Value::as_object).cloned().unwrap_or_default();
            if node.array().is_some_and(speaks_for_itself) && rules(to).array_attributes {
                all.of_array = said;
                continue;
            }
            if node.array().is_some() {
                ome_of_array = said.shift_remove(OME);
            }
            match groups::read_0_4(node, &mut said) {
                Err(error) if !rules(to).ome_versions.contains(&OmeVersion::V0_4) => return Err(error),
                // Of older versions, nothing need be converted to 0.4.
                _ => {}
            }
            groups::take_ome_back(&mut said);
            let is_far = at >= usize::from(array.is_some()) + usize::from(nearest.is_some());
            let is_level = |array: &Array| provenance::is_level(array.attributes());
            if is_far || (at > 0 && array.and_then(Node::array).is_some_and(is_level)) {
                // It is about the datasets there, or, around a level that this crate's writer made, about level 0.
                forget_own(&mut said);
            }
            if let Some(of_node) = said.shift_remove(OME) {
                all.choose_ome(&mut ome, of_node, node, name, is_far);
            }
            all.merge(said, node, !is_far);
        }
        all.is_ome_of_array = ome.is_none() && ome_of_array.is_some();
        if let (Some(_), Some(_), Some(array)) = (&ome, &ome_of_array, array) {
            let of = called(array);
            all.notes.push(format!("the attribute {OME:?} of {of} is left out: that of a group around it is kept"));
        }
        if let (Some((ome, _)), true) = (&mut ome, rules(to).ome_versions.contains(&OmeVersion::V0_4)) {
            all.say_in_0_5(ome, nearest.or(array).map_or(Path::new(""), |node| &*node.path))?;
        }
        if let Some(ome) = ome.map(|(ome, _)| ome).or(ome_of_array) {
            all.attributes.insert(OME.to_owned(), ome);
        }
        if let Some(root) = nodes.iter().find(|node| node.name.is_empty()) {
            all.notes.extend(carry_volume(root, |key| key == name, &mut all.attributes)?);
        }
        if let Some(array) = array.and_then(Node::array).filter(|array| !array.layout().rules().names_resolutions) {
            carried::choose_scale(name, array.shape(), &mut all.attributes);
        }
        Ok(all)
    }

    fn merge(&mut self, said: Map<String, Value>, node: &Node, wins: bool) {
        for (key, value) in said {
            let known = self.attributes.get(&key);
            let is_new = known.is_none();
            if known.is_some_and(|known| *known != value) {
                let kept = if wins { "this one is kept" } else { "that one is kept" };
                let (key, of) = (quoted(&key), called(node));
                self.notes.push(format!("the attribute {key} of {of} and one nearer to the array differ; {kept}"));
            } else if !is_new {
                continue;
            }
            if is_new || wins {
                self.holders.insert(key.clone(), node.path.clone());
                self.attributes.insert(key, value);
            }
        }
    }

    /// Says in the words of 0.5, which 0.4 has, too, what OME-Zarr says in the group at `path`.
    fn say_in_0_5(&mut self, ome: &mut Value, path: &Path) -> Result<()> {
        let refused = |reason| Error::unsupported(path, reason);
        let lost = versions::convert(ome, OmeVersion::V0_5).map_err(refused)?;
        self.notes.extend(groups::note_of_lost(&lost, "the image", OmeVersion::V0_4));
        let is_image = multiscales::first_path(ome) == Some("0");
        let says_more = ome.as_object().is_some_and(|ome| ome.keys().any(|key| key != "version"));
        if !is_image && says_more && ngff::is_ome(ome) {
            self.notes.push("OME-Zarr's metadata that are about no image of the array are left out".to_owned());
        }
        Ok(())
    }

    /// What OME-Zarr says of this image counts before what it says of others; else the nearest.
    fn choose_ome(
        &mut self,
        chosen: &mut Option<(Value, bool)>,
        mut ome: Value,
        node: &Node,
        name: &str,
        is_far: bool,
    ) {
        let is_about = reduce(&mut ome, &node.name, name);
        if (is_about || !is_far) && !matches!(chosen, Some((_, true))) {
            *chosen = Some((ome, is_about));
            return;
        }
        let of = called(node);
        self.notes.push(format!("OME-Zarr's metadata of {of} are left out: they are about more than the array"));
    }
}

/// Whether an array has attributes that are about nothing else: those of this crate's writer, and a volume's, are about
/// the image.
fn speaks_for_itself(array: &Array) -> bool {
    rules(array.layout().dialect).array_attributes && provenance::own(array.attributes()).is_none()
}

/// Takes away what this crate's writer says.
fn forget_own(attributes: &mut Map<String, Value>) {
    if attributes.get(ATTRIBUTE).is_some_and(is_own) {
        attributes.shift_remove(ATTRIBUTE);
    }
}

fn called(node: &Node) -> String {
    let is_group = node.is_group() || node.name.is_empty();
    if is_group { groups::called(&node.name) } else { refusal::called(&node.name) }
}

/// Lets the OME-Zarr metadata of a group speak of nothing but the array, which will be called `0`. Returns whether they
/// speak of it at all; otherwise nothing changes.
fn reduce(ome: &mut Value, group: &str, array: &str) -> bool {
    multiscales::reduce_to_level(ome, |path| below(group, path.trim_matches('/')) == array)
}

/// Carries along what the document of a volume says, of its scales only what belongs to those in the result. Returns
/// what is left out, as a sentence.
pub(super) fn carry_volume(
    root: &Node,
    is_kept: impl Fn(&str) -> bool,
    attributes: &mut Map<String, Value>,
) -> Result<Option<String>> {
    if root.is_central()
        && let Some(mut info) = document::read(&root.path.join(precomputed::DOCUMENT))?.filter(precomputed::is_info)
    {
        if let Some(scales) = info.get_mut("scales").and_then(Value::as_array_mut) {
            scales.retain(|scale| scale.get("key").and_then(text).is_none_or(&is_kept));
        }
        return Ok(carried::carry(&info, attributes));
    }
    Ok(None)
}
