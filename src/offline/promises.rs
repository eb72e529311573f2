//! The nodes that a group promises: in OME-Zarr's metadata, in consolidated ones, and as an image of this crate's
//! writer. Of a dataset that lacks one, no copy may look whole.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::hierarchy::walk::{Node, Tree};
use super::hierarchy::{below, has_node};
use crate::error::{Error, Result};
use crate::format::keys::{FRAME_NUMBERS, is_below};
use crate::format::provenance::is_of_writer;
use crate::fs::document;
use crate::json::text;
use crate::ome::multiscales::{self, Dataset, Multiscale, ome_of};
use crate::words::quoted;

/// What a document promises below a group.
struct Promise {
    /// The path below the group.
    path: String,
    /// It is to be an array, rather than a node of any kind.
    is_array: bool,
    /// Who promises it, for a sentence.
    whose: &'static str,
}

/// A promise that is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    /// The group whose document promises it.
    pub(super) group: PathBuf,
    /// What is not there, or not what it is to be: its path below the root.
    pub(super) node: String,
    /// Who says what, as a sentence about the group.
    pub(super) what: String,
}

/// What is there, by the paths below the root: whether it is an array.
type IsArray<'a> = &'a dyn Fn(&str) -> Option<bool>;

/// The promises of all groups that are not kept. A document that can't be read is told to `unread`.
pub(super) fn broken_in_tree(tree: &Tree, mut unread: impl FnMut(&Path, Error)) -> Vec<Broken> {
    let known = |name: &str| match tree.array(name) {
        Some(_) => Some(true),
        None => tree.group(name).map(|_| false),
    };
    let mut broken = Vec::new();
    for group in &tree.groups {
        let consolidated = consolidated(&group.path).unwrap_or_else(|error| {
            unread(&group.path, error);
            Vec::new()
        });
        let group = GroupPromises { name: &group.name, path: &group.path, attributes: &group.attributes };
        broken.extend(group.broken(consolidated, &known, false));
    }
    broken
}

/// The same of the nodes of a dataset, with the arrays that this crate's writer made.
pub(super) fn broken(nodes: &[Node]) -> Result<Vec<Broken>> {
    // What can't be read may be either.
    let all: HashMap<&str, bool> = nodes.iter().map(|node| (node.name.as_str(), !node.is_group())).collect();
    let known = |name: &str| all.get(name).copied();
    let mut told = HashSet::new();
    let mut broken: Vec<Broken> = Vec::new();
    for node in nodes.iter().filter(|node| node.is_group()) {
        let attributes = node.document()?.get("attributes").cloned().unwrap_or_default();
        // Those of Zarr v2 that can't be read promise nothing; a new dataset has its own.
        let consolidated = consolidated(&node.path).unwrap_or_default();
        let group = GroupPromises { name: &node.name, path: &node.path, attributes: &attributes };
        let more = group.broken(consolidated, &known, !node.is_central());
        // Each is told once, by the first who promises it.
        broken.extend(more.into_iter().filter(|one| told.insert(one.node.clone())));
    }
    Ok(broken)
}

/// A group and what it says.
struct GroupPromises<'a> {
    name: &'a str,
    path: &'a Path,
    attributes: &'a Value,
}

impl GroupPromises<'_> {
    /// What it promises and is not so, `consolidated` among it. `own`: also the arrays that this crate's writer makes.
    fn broken(&self, consolidated: Vec<Promise>, known: IsArray<'_>, own: bool) -> Vec<Broken> {
        let mut promises = of_attributes(self);
        promises.extend(consolidated);
        if own && is_of_writer(self.attributes) {
            let made = ["0", FRAME_NUMBERS];
            promises.extend(made.map(|path| Promise { path: path.to_owned(), is_array: true, whose: "attributes" }));
        }
        let broken = |node: String, what: String| Broken { group: self.path.to_path_buf(), node, what };
        let mut all = Vec::new();
        for Promise { path, is_array, whose } in promises {
            let node = below(self.name, path.trim_end_matches('/').trim_start_matches("./"));
            match known(&node) {
                Some(false) if is_array => {
                    all.push(broken(node, format!("its {whose} name an array {}, which is a group", quoted(path))));
                }
                Some(_) => {}
                None if is_below(&path) && has_node(&self.path.join(&path)) => {}
                None => all.push(broken(node, format!("its {whose} name {}, which is not there", quoted(path)))),
            }
        }
        // The group `OME` lists the images beside it.
        let around = if self.name == "OME" { Some("") } else { self.name.strip_suffix("/OME") };
        let series = ome_of(self.attributes).get("series").and_then(Value::as_array).filter(|_| around.is_some());
        for name in series.into_iter().flatten().filter_map(text) {
            let node = below(around.unwrap_or_default(), name);
            let beside = self.path.parent().filter(|_| is_below(name)).map(|root| root.join(name));
            if known(&node).is_none() && !beside.is_some_and(|image| has_node(&image)) {
                all.push(broken(node, format!("it lists an image {} beside it, which is not there", quoted(name))));
            }
        }
        all
    }
}

/// The levels of an image, the wells of a plate, the images of a well and of a scene, and the labels of an image.
fn of_attributes(group: &GroupPromises<'_>) -> Vec<Promise> {
    let ome = ome_of(group.attributes);
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let path = |entry: &Value| text(entry.get("path")?).map(str::to_owned);
    let node = |path: String| Promise { path, is_array: false, whose: "attributes" };
    let levels = multiscales::images(ome).flat_map(Multiscale::levels).filter_map(Dataset::path);
    let levels = levels.map(|path| Promise { is_array: true, ..node(path.to_owned()) });
    let parts = [ome.pointer("/plate/wells"), ome.pointer("/well/images")];
    let parts = parts.into_iter().flat_map(list).filter_map(|part| path(&part).map(node));
    // Elsewhere, 0.4 has no word of its own that would tell them from anybody's.
    let labels = ome.get("labels").filter(|_| group.name.rsplit('/').next() == Some("labels"));
    let labels = list(labels).into_iter().filter_map(|label| text(&label).map(|name| node(name.to_owned())));
    let ways = list(ome.pointer("/scene/coordinateTransformations"));
    let ends = ways.iter().flat_map(|way| ["/input/path", "/output/path"].map(|end| way.pointer(end)));
    let ends: BTreeSet<_> = ends.flatten().filter_map(text).collect();
    let tiles = ends.into_iter().map(|end| node(end.to_owned()));
    levels.chain(parts).chain(labels).chain(tiles).collect()
}

/// What readers believe who take one document for all of them.
fn consolidated(group: &Path) -> Result<Vec<Promise>> {
    let Some(said) = document::consolidated(group)? else { return Ok(Vec::new()) };
    let nodes = said.nodes().filter(|(path, _)| !path.is_empty());
    let promise =
        |(path, is_array): (&str, bool)| Promise { path: path.to_owned(), is_array, whose: "consolidated metadata" };
    Ok(nodes.map(promise).collect())
}
