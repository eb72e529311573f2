//! Which array a path names.

use std::path::Path;

use serde_json::Value;

use super::central::CentralMetadata;
use super::{check_documents, has_node, ome_of};
use crate::error::{Error, Result};
use crate::format::keys::is_below;
use crate::format::{zarr2, zarr3, zarr3_draft};
use crate::fs::look::FolderStamp;
use crate::fs::{document, links, look};
use crate::json::text;
use crate::offline::array::Array;
use crate::ome::multiscales::first_path;
use crate::words::quoted;

/// Children that an error message names.
const CHILDREN_MAX: usize = 20;
const IMAGES_MAX: usize = 9;

impl Array {
    /// Opens the array at `path`, or the first and finest array of the image at `path`.
    ///
    /// Some formats keep the documents of all arrays in one place. There the path of an array is that of the dataset
    /// and the array's name, whether there is such a folder or not: `run.zarr/0`.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] of the kind `NotFound` when nothing is at `path`; [`Error::NotFound`] says what is there instead
    /// of an array or an image; [`Error::Format`] and [`Error::Unsupported`], what in its document can't be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        links::enter(path);
        if let Some(array) = Self::open_exactly(path)? {
            return Ok(array);
        }
        let dataset = Self::first_dataset(path)?;
        let inner = path.join(&dataset);
        Self::open_exactly(&inner)?.ok_or_else(|| {
            Error::not_found(
                path,
                format!("is an image whose first dataset {} is a group, not an array", quoted(dataset)),
            )
        })
    }

    /// The array at exactly this path; `None` when there is a group.
    pub(crate) fn open_exactly(path: &Path) -> Result<Option<Self>> {
        // Before anything of it is read.
        let stamp = FolderStamp::at(path).ok();
        // What a writer says of an array stands in the image around it.
        let around = |document: &str| path.parent().unwrap_or(Path::new("")).join(document);
        let file = path.join(zarr3::DOCUMENT);
        if let Some(document) = document::read(&file)? {
            if zarr3_draft::is_entry(&document) {
                // The one array of a dataset may be its root.
                return CentralMetadata::at(path)?.map_or(Ok(None), |central| central.array(""));
            }
            return match zarr3::node(&file, &document)? {
                zarr3::NodeType::Group => Ok(None),
                zarr3::NodeType::Array => {
                    let array = Self::described(path, &document)?;
                    Ok(Some(array.opened_at(path, stamp, [file, around(zarr3::DOCUMENT)])))
                }
            };
        }
        let file = path.join(zarr2::ARRAY);
        let Some(document) = document::read(&file)? else { return Self::without_document(path) };
        let attributes =
            document::read(&path.join(zarr2::ATTRIBUTES))?.unwrap_or_else(|| Value::Object(Default::default()));
        let metadata = zarr2::parse(&file, &document, attributes)?;
        let documents = [file.clone(), around(zarr2::ATTRIBUTES)];
        Ok(Some(Self::with(path, path, file, metadata).opened_at(path, stamp, documents)))
    }

    /// What is at `path`, where no document of an array stands.
    fn without_document(path: &Path) -> Result<Option<Self>> {
        if document::read(&path.join(zarr2::GROUP))?.is_some() || CentralMetadata::at(path)?.is_some() {
            return Ok(None);
        }
        if let Some(array) =
            CentralMetadata::of(path)?.map(|(central, name)| central.array(&name)).transpose()?.flatten()
        {
            return Ok(Some(array));
        }
        let what = match look::identity(path) {
            Err(error) => return Err(Error::io("open", path, error)),
            Ok(_) if !look::is_root(path) => "is a file; expected the directory of an array or an image",
            Ok(_) => {
                "holds neither zarr.json nor .zarray nor .zgroup nor info; expected the directory of an array or an \
                 image"
            }
        };
        Err(Error::not_found(path, what))
    }

    /// The path of the first dataset of the image group at `path`.
    fn first_dataset(path: &Path) -> Result<String> {
        if let Some(central) = CentralMetadata::at(path)? {
            return central.first();
        }
        let ome = ome_of(path)?.unwrap_or_default();
        let Some(dataset) = first_path(&ome) else {
            let reason = several(path, &ome).unwrap_or_else(|| children(path));
            return Err(Error::not_found(path, reason));
        };
        // A document must not lead out of its dataset.
        if is_below(dataset) {
            Ok(dataset.to_owned())
        } else {
            Err(Error::format(path, format!("names a dataset {} that is not below it", quoted(dataset))))
        }
    }
}

/// That a group is a plate, a well or a collection of images, and where these are, for an error message.
fn several(path: &Path, ome: &Value) -> Option<String> {
    let (kind, names) = match ome {
        _ if ome["plate"].is_object() => ("plate", fields(path, &ome["plate"])?),
        _ if ome["well"].is_object() => ("well", listed(&ome["well"]["images"])?),
        _ if ome.get("bioformats2raw.layout").is_some() => {
            let said = ome_of(&path.join("OME")).ok().flatten().unwrap_or_default();
            let series =
                said["series"].as_array().map(|series| series.iter().filter_map(text).map(str::to_owned).collect());
            // Without a list, images are numbered.
            let is_there = |name: &String| has_node(&path.join(name));
            let numbered = || (0u64..).map(|number| number.to_string()).take_while(is_there).take(IMAGES_MAX + 1);
            ("collection", series.unwrap_or_else(|| numbered().collect()))
        }
        _ => return None,
    };
    let more = if names.len() > IMAGES_MAX { ", …" } else { "" };
    let paths: Vec<_> = names.iter().take(IMAGES_MAX).map(|name| path.join(name).display().to_string()).collect();
    let paths = paths.join(", ");
    (!paths.is_empty()).then(|| format!("is a {kind} of images; name the path of one: {paths}{more}"))
}

/// The paths of what a plate or a well lists.
fn listed(list: &Value) -> Option<Vec<String>> {
    Some(list.as_array()?.iter().filter_map(|entry| text(&entry["path"]).map(str::to_owned)).collect())
}

/// The images of a plate at `path`, or, of many, one more than an error message names.
fn fields(path: &Path, plate: &Value) -> Option<Vec<String>> {
    let of_well = |well: String| {
        let place = path.join(&well);
        let said = is_below(&well).then(|| check_documents(&place).and_then(|()| ome_of(&place)).ok().flatten());
        let fields = said.flatten().and_then(|said| listed(&said["well"]["images"]));
        // Where the well can't be read, the name that the first field has everywhere.
        let fields = fields.unwrap_or_else(|| vec!["0".to_owned()]);
        fields.into_iter().map(move |field| format!("{well}/{field}"))
    };
    Some(listed(&plate["wells"])?.into_iter().flat_map(of_well).take(IMAGES_MAX + 1).collect())
}

/// That a group is no image, and what is below it, for an error message.
fn children(path: &Path) -> String {
    let entries = look::list(path).unwrap_or_default().into_iter();
    let mut names: Vec<_> = entries
        .filter(|entry| has_node(entry))
        .map(|entry| entry.file_name().unwrap_or_default().to_string_lossy().into_owned())
        .take(CHILDREN_MAX)
        .collect();
    names.sort();
    let (arrays, groups): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| !matches!(Array::open_exactly(&path.join(name)), Ok(None)));
    match (arrays.is_empty(), groups.is_empty()) {
        (false, _) => {
            let paths: Vec<_> = arrays.iter().map(|name| path.join(name).display().to_string()).collect();
            format!("is a group and no image; name an array in it: {}", paths.join(", "))
        }
        (true, false) => format!("is a group; it holds no array, but these: {}", groups.join(", ")),
        (true, true) => "is a group; there is nothing in it".to_owned(),
    }
}
