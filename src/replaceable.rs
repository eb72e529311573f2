//! What `overwrite` may replace: a dataset, and nothing else that is in a folder. Within a hierarchy of Zarr nodes,
//! that is an image of this crate's writer, or a group in which there is nothing: all else is a part of something that
//! would be lost, or not whole any more.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::format::keys::{RECORDS, is_below};
use crate::format::node::NodeFormat;
use crate::format::part::Parts;
use crate::format::provenance::Provenance;
use crate::format::{self, consolidated, precomputed, provenance, zarr2, zarr3, zarr3_draft};
use crate::fs::system::open_unfollowed;
use crate::fs::{LOCK_FILE, folders_above, is_partial};
use crate::json;
use crate::ome::multiscales::{self, Dataset, Multiscale};
use crate::ome::xml;
use crate::words::quoted;

/// Folders around the array of a record, of labels of a field of a plate: none of this writer's lies deeper.
const DEPTH_MAX: usize = 7;
/// Names of what is in a group that are told.
const NAMES_TOLD: usize = 3;

/// Refuses to replace the node in the folder `root`, which goes by the name `path`: see above. `at_key`: it is named by
/// its key in a hierarchy; else it is in one if the folder around it is a node.
pub(crate) fn refuse_part(path: &Path, root: &Path, at_key: bool) -> Result<()> {
    let around = path.parent().filter(|around| has_document(around));
    if !at_key && around.is_none() || is_image(root) || is_begun(root) {
        return Ok(());
    }
    let Some(what) = what_is_there(root, around) else { return Ok(()) };
    let place = if at_key { "key" } else { "path" };
    let reason = format!(
        "{what}, and no image of this writer: overwrite replaces nothing else within a hierarchy; choose another \
         {place}, or remove first what is there"
    );
    Err(Error::conflict(path, reason))
}

/// Refuses a path below an array, or in a dataset whose documents stand in one place: what is there are chunks. So is
/// refused the name of a document in the folder of a node, whose readers would look for it there. `field`: what the
/// caller calls the path.
pub(crate) fn refuse_within_array(field: &'static str, path: &Path) -> Result<()> {
    let named = path.file_name().and_then(|name| name.to_str()).filter(|name| format::DOCUMENTS.contains(name));
    if let (Some(name), Some(node)) = (named, path.parent().filter(|node| has_document(node))) {
        let reason =
            format!("readers of {} take what is called {name} for a document; choose another name", node.display());
        return Err(Error::config(field, path.display(), reason));
    }
    let is_array = |above: &&Path| any_document(above, format::leaves_no_room_below);
    let Some(above) = path.ancestors().skip(1).find(is_array) else { return Ok(()) };
    let reason = format!("lies in {}, among the chunks of an array; choose a path beside it", above.display());
    Err(Error::config(field, path.display(), reason))
}

/// Refuses the place of a level of an image, or of a folder with one: the image would name what is none of its levels,
/// and the others would be of other pixels.
pub(crate) fn refuse_level(path: &Path) -> Result<()> {
    for image in folders_above(path) {
        let said = document(&image.join(zarr3::DOCUMENT)).map(|mut said| said["attributes"].take());
        let said = said.or_else(|| document(&image.join(zarr2::ATTRIBUTES))).unwrap_or_default();
        let mut levels =
            multiscales::images(multiscales::ome_of(&said)).flat_map(Multiscale::levels).filter_map(Dataset::path);
        if let Some(level) = levels.find(|level| is_below(level) && image.join(level).starts_with(path)) {
            let reason = format!(
                "is or holds the level {} of the image {}, which would be none any more; choose another path",
                quoted(level),
                image.display()
            );
            return Err(Error::conflict(path, reason));
        }
    }
    Ok(())
}

/// Refuses a new dataset in groups whose consolidated metadata would not name it. `field`: what the caller calls the
/// path.
pub(crate) fn refuse_consolidated(field: &'static str, path: &Path) -> Result<()> {
    let is_consolidated = |group: &&Path| {
        let of_zarr3 = document(&group.join(zarr3::DOCUMENT)).map(|found| consolidated::of(&found).is_some());
        of_zarr3.unwrap_or_else(|| [zarr2::GROUP, consolidated::OF_ZARR2].iter().all(|name| group.join(name).is_file()))
    };
    let Some(group) = folders_above(path).find(is_consolidated) else { return Ok(()) };
    Err(Error::config(field, path.display(), format!("{} {}", group.display(), consolidated::HIDES_NEW)))
}

/// Whether the folder is an image of this crate's writer, in any dialect.
fn is_image(root: &Path) -> bool {
    let own = |attributes: &Value| provenance::is_of_writer(attributes) && !provenance::is_level(attributes);
    if let Some(node) = document(&root.join(zarr3::DOCUMENT)).filter(|node| node["zarr_format"] == 3) {
        return node["node_type"] == "group" && own(&node["attributes"]);
    }
    let documents = [
        (root.join(zarr2::ATTRIBUTES), ""),
        (zarr3_draft::group_document(root, ""), "/attributes"),
        (root.join(precomputed::DOCUMENT), ""),
    ];
    documents.iter().any(|(path, pointer)| document(path).is_some_and(|found| found.pointer(pointer).is_some_and(own)))
}

/// What is in the way; `None`: a group with nothing in it.
fn what_is_there(root: &Path, around: Option<&Path>) -> Option<String> {
    let Some(node) = document(&root.join(zarr3::DOCUMENT)).filter(|node| node["zarr_format"] == 3) else {
        let is_zarr2 = NodeFormat::of(|name| root.join(name).is_file()) == Some(NodeFormat::Zarr2);
        return Some(if is_zarr2 { "is a node of Zarr v2" } else { "is a dataset of another format" }.to_owned());
    };
    if node["node_type"] != "group" {
        return Some(match around.filter(|around| is_image(around)) {
            Some(image) => format!("is an array of the image {}", image.display()),
            None => "is an array".to_owned(),
        });
    }
    let names = names_within(root);
    if names.is_empty() {
        let is_plain = node["attributes"].as_object().is_none_or(|attributes| attributes.is_empty());
        return (!is_plain).then(|| "is a group with attributes".to_owned());
    }
    let more = if names.len() > NAMES_TOLD { " and more" } else { "" };
    Some(format!("is a group with {}{more} in it", names[..names.len().min(NAMES_TOLD)].join(", ")))
}

/// What is in a folder beside what any group has, in order.
fn names_within(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let of_group = |name: &String| name == zarr3::DOCUMENT || name == LOCK_FILE || is_partial(name);
    let mut names: Vec<_> = names.filter(|name| !of_group(name)).collect();
    names.sort();
    names
}

/// Whether a folder is a dataset, or what a writer left that was killed before it wrote the first document.
pub(crate) fn is_dataset(path: &Path) -> bool {
    has_document(path) || is_begun(path)
}

/// Whether a folder holds a document that says that it is a dataset. Other things have such names, too.
pub(crate) fn has_document(path: &Path) -> bool {
    any_document(path, format::is_of_dataset)
}

/// Whether a document by which a folder may be a dataset says something, by its name.
fn any_document(folder: &Path, says: impl Fn(&str, &Value) -> bool) -> bool {
    format::OF_DATASETS.iter().any(|name| document(&folder.join(name)).is_some_and(|document| says(name, &document)))
}

fn document(path: &Path) -> Option<Value> {
    let file = open_unfollowed(File::options().read(true), path).ok()?;
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    let bytes = is_file.then(|| json::bounded(&file, json::DOCUMENT_BYTES_MAX).ok()?.ok())??;
    json::parse(&bytes).ok()
}

/// The parts of the run at `root`, if it is one and not finished.
pub(crate) fn unfinished_parts(root: &Path) -> Option<Parts> {
    let found = document(&root.join(zarr3::DOCUMENT))?;
    let own = Provenance::parse(root, &found["attributes"]).ok().flatten()?;
    own.parts.filter(|_| !own.complete && !own.recovered)
}

/// Refuses a whole dataset in the place of a run in parts that is not finished: its parts would be gone.
pub(crate) fn refuse_run_in_parts(root: &Path) -> Result<()> {
    let help = "it is a run in parts that is not finished: say which part this is (the option `part`), or remove the \
                run first";
    match unfinished_parts(root) {
        Some(_) => Err(Error::Exists { path: root.into(), help }),
        None => Ok(()),
    }
}

/// Whether a writer's lock file is there, and nothing beside it but what a writer makes before the first document of
/// the dataset, those of the groups, images and levels in it included.
pub(crate) fn is_begun(path: &Path) -> bool {
    let is_lock = fs::symlink_metadata(path.join(LOCK_FILE)).is_ok_and(|found| found.is_file() && found.len() == 0);
    is_lock
        && all_in(path, |name, is_folder| match is_folder {
            false => name == LOCK_FILE || is_partial(name),
            true => holds_only_documents(&path.join(name), 1),
        })
}

/// Whether a folder so deep in a dataset has no chunk and no record yet: nothing but documents that a writer begins
/// with.
fn holds_only_documents(folder: &Path, depth: usize) -> bool {
    let is_of_series = |name: &str| depth == 1 && folder.join(name).ends_with(xml::PATH);
    depth <= DEPTH_MAX
        && all_in(folder, |name, is_folder| match is_folder {
            false => is_partial(name) || is_of_series(name) || (name == zarr3::DOCUMENT && is_first_document(folder)),
            true => holds_only_documents(&folder.join(name), depth + 1),
        })
}

/// Whether the document of a node is one that this writer begins with. Others hold attributes that somebody may miss,
/// or are of an array that is none of an image's.
fn is_first_document(node: &Path) -> bool {
    let path = node.join(zarr3::DOCUMENT);
    // A loss of power may leave it empty.
    if fs::symlink_metadata(&path).is_ok_and(|found| found.len() == 0) {
        return true;
    }
    let Some(found) = document(&path).filter(|found| found["zarr_format"] == 3) else { return false };
    let attributes = found["attributes"].as_object();
    let is_of_image = || node.parent().is_some_and(|image| image.ends_with(RECORDS) || image.join(RECORDS).is_dir());
    let is_own = attributes.is_some_and(|attributes| attributes.contains_key(provenance::ATTRIBUTE));
    attributes.is_none_or(|attributes| attributes.keys().all(|key| key == "ome" || key == provenance::ATTRIBUTE))
        && (found["node_type"] == "group" || is_own || is_of_image())
}

/// Whether it holds for all files and folders in `path`. There may be nothing else; nor what can't be read.
fn all_in(path: &Path, holds: impl Fn(&str, bool) -> bool) -> bool {
    let holds = |entry: io::Result<fs::DirEntry>| -> Option<bool> {
        let entry = entry.ok()?;
        let kind = entry.file_type().ok().filter(|kind| kind.is_dir() || kind.is_file())?;
        Some(holds(entry.file_name().to_str()?, kind.is_dir()))
    };
    fs::read_dir(path).is_ok_and(|mut entries| entries.all(|entry| holds(entry) == Some(true)))
}
