//! What the documents around several images say: which images there are and, of a plate, in which wells.

use std::collections::BTreeSet;

use serde_json::json;

use super::documents::Documents;
use crate::config::{Config, OmeVersion, Plate};
use crate::error::{Error, Result};
use crate::format::zarr3;
use crate::ome;
use crate::ome::label;
use crate::ome::plate::Field;
use crate::words::quoted;

/// The images of a dataset, in the order in which they were begun.
#[derive(Debug, Default)]
pub(super) struct Collection {
    images: Vec<ListedImages>,
    pub(super) plate: Option<Plate>,
    /// That of the first image.
    version: Option<OmeVersion>,
    /// Rows and wells whose documents are yet to be written.
    changed: BTreeSet<(String, String)>,
    /// Images whose lists of labels are yet to be written.
    changed_labels: BTreeSet<String>,
    /// Images that are listed no more, and whose documents may still be there.
    leaving: BTreeSet<String>,
}

#[derive(Debug)]
struct ListedImages {
    name: String,
    config: Config,
    shape: Vec<u64>,
    /// Beside level 0.
    levels: usize,
    /// Where it is on the plate.
    field: Option<Field>,
    /// Its documents, once it has ended without a frame: it goes with the last of its labels.
    waiting: Option<Vec<String>>,
}

/// What is listed no more, and goes once no document names it.
#[derive(Debug, Default)]
pub(crate) struct Unlisted {
    /// An image, and perhaps that whose labels it was the last of.
    pub(super) images: Vec<String>,
    /// Documents around these, and those of the second.
    pub(super) documents: Vec<String>,
}

impl Collection {
    pub(super) fn set_plate(&mut self, plate: Plate) -> Result<()> {
        ome::plate::check(&plate)?;
        if let Some(first) = self.images.first() {
            let reason = "a dataset gets its plate before its first image";
            return Err(Error::config("plate", format_args!("after image {}", quoted(&first.name)), reason));
        }
        if self.plate.is_some() {
            return Err(Error::config("plate", "given again", "the dataset has its plate already"));
        }
        self.plate = Some(plate);
        Ok(())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.leaving.contains(name) || self.images.iter().any(|image| image.name == name)
    }

    /// Whether an image lies below a document's group.
    pub(super) fn needs(&self, key: &str) -> bool {
        let group = key.strip_suffix(zarr3::DOCUMENT).unwrap_or(key);
        self.images.iter().any(|image| image.name.starts_with(group))
    }

    /// Nothing of an image that was taken out is there any more.
    pub(super) fn forget(&mut self, name: &str) {
        self.leaving.remove(name);
    }

    /// Refuses an image of another version than those that are there.
    pub(super) fn check_version(&self, version: OmeVersion) -> Result<()> {
        match self.version {
            Some(known) if known != version => {
                let reason = format!("a dataset has one version of OME-Zarr, and this one's first image has {known}");
                Err(Error::config("ome", version, reason))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn config(&self, name: &str) -> Option<&Config> {
        Some(&self.images.iter().find(|image| image.name == name)?.config)
    }

    pub(super) fn has_labels(&self, name: &str) -> bool {
        self.labels(name).next().is_some()
    }

    /// What the labels of an image are called.
    fn labels(&self, of: &str) -> impl Iterator<Item = &str> {
        self.images
            .iter()
            .filter_map(move |image| label::parts(&image.name).filter(|(image, _)| *image == of))
            .map(|(_, name)| name)
    }

    /// Refuses labels without their image, or that do not fit it.
    pub(super) fn check_label(&self, name: &str, config: &Config, levels: usize) -> Result<()> {
        let Some((of, _)) = label::parts(name) else { return Ok(()) };
        match self.images.iter().find(|image| image.name == of) {
            Some(image) => label::check(config, &image.config, [levels, image.levels]),
            None => {
                let reason = format!("there is no image {} yet whose labels these could be", quoted(of));
                Err(Error::config("name", quoted(name), reason))
            }
        }
    }

    /// Lists an image, or brings its shape up to date.
    pub(super) fn list(&mut self, name: &str, config: &Config, shape: &[u64], levels: usize) {
        if let Some(known) = self.images.iter_mut().find(|image| image.name == name) {
            known.shape = shape.to_vec();
            return;
        }
        // Its place was looked for before.
        let place = |plate: &Plate| ome::plate::field(plate, name, config.plate_acquisition).ok();
        let field = self.plate.as_ref().and_then(place);
        self.note_changed(field.as_ref());
        self.version.get_or_insert(config.ome);
        self.changed_labels.extend(label::parts(name).map(|(of, _)| of.to_owned()));
        self.images.push(ListedImages {
            name: name.to_owned(),
            config: config.clone(),
            shape: shape.to_vec(),
            levels,
            field,
            waiting: None,
        });
    }

    /// Lets an image go with the last of its labels. False: it has none.
    pub(super) fn wait_for_labels(&mut self, name: &str, documents: Vec<String>) -> bool {
        let has_labels = self.has_labels(name);
        if let Some(image) = self.images.iter_mut().find(|image| image.name == name).filter(|_| has_labels) {
            image.waiting = Some(documents);
        }
        has_labels
    }

    /// Lists an image no more. Its name, and those that go with it, can't be used before they are
    /// [forgotten](Self::forget).
    pub(super) fn unlist(&mut self, name: &str) -> Unlisted {
        let Some(at) = self.images.iter().position(|image| image.name == name) else { return Unlisted::default() };
        let ListedImages { field, .. } = self.images.remove(at);
        self.leaving.insert(name.to_owned());
        let mut images = vec![name.to_owned()];
        let Some((of, _)) = label::parts(name) else { return Unlisted { images, documents: self.unneeded(field) } };
        if self.has_labels(of) {
            self.changed_labels.insert(of.to_owned());
            return Unlisted { images, documents: Vec::new() };
        }
        self.changed_labels.remove(of);
        let mut documents = vec![zarr3::document_at(&format!("{of}/labels"))];
        let image = self.images.iter_mut().find(|image| image.name == of);
        if let Some(own) = image.and_then(|image| image.waiting.take()) {
            // What names others goes before them.
            let with_it = self.unlist(of);
            documents.splice(0..0, with_it.documents.into_iter().chain(own));
            images.extend(with_it.images);
        }
        Unlisted { images, documents }
    }

    /// The documents that nothing needs any longer around an image that was in this field.
    fn unneeded(&mut self, field: Option<Field>) -> Vec<String> {
        let (Some(field), Some(plate)) = (&field, &self.plate) else { return Vec::new() };
        let is_left =
            |is_same: &dyn Fn(&Field) -> bool| self.images.iter().filter_map(|image| image.field.as_ref()).any(is_same);
        let (row, well) = (plate.rows[field.row].clone(), field.well(plate));
        let in_row = is_left(&|other| other.row == field.row);
        let in_well = is_left(&|other| (other.row, other.column) == (field.row, field.column));
        if in_well {
            self.note_changed(Some(field));
            return Vec::new();
        }
        self.changed.remove(&(row.clone(), well.clone()));
        let of_row = (!in_row).then(|| zarr3::document_at(&row));
        [zarr3::document_at(&well)].into_iter().chain(of_row).collect()
    }

    fn note_changed(&mut self, field: Option<&Field>) {
        if let (Some(field), Some(plate)) = (field, &self.plate) {
            self.changed.insert((plate.rows[field.row].clone(), field.well(plate)));
        }
    }

    /// The images that are no labels of others.
    fn series(&self) -> impl Iterator<Item = &ListedImages> {
        self.images.iter().filter(|image| label::parts(&image.name).is_none())
    }

    pub(super) fn write(&mut self, to: &mut Documents) -> Result<()> {
        let fields: Vec<&Field> = self.images.iter().filter_map(|image| image.field.as_ref()).collect();
        let version = self.version.unwrap_or_default();
        let mut root = json!({"version": version, "bioformats2raw.layout": 3});
        if let Some(plate) = &self.plate {
            let rows: BTreeSet<_> = self.changed.iter().map(|(row, _)| row).collect();
            rows.iter().try_for_each(|row| to.put(&zarr3::document_at(row), &zarr3::group(json!({}))))?;
            // What names a group is written behind it.
            for (_, well) in &self.changed {
                let here = || {
                    let fields = self.images.iter().filter_map(|image| Some((image.field.as_ref()?, &image.config)));
                    fields.filter(|(field, _)| field.well(plate) == *well)
                };
                let fields: Vec<_> = here().map(|(field, _)| field).collect();
                let mut said = ome::plate::well_attributes(version, &fields);
                if let Some(scene) = ome::scene::scene(here().map(|(field, config)| (&field.name[..], config))) {
                    said["scene"] = scene;
                }
                to.put(&zarr3::document_at(well), &zarr3::group(json!({"ome": said})))?;
            }
            root["plate"] = ome::plate::plate_attributes(version, plate, &fields);
        } else if let Some(scene) = ome::scene::scene(self.series().map(|image| (image.name.as_str(), &image.config))) {
            root["scene"] = scene;
        }
        for of in &self.changed_labels {
            let names: Vec<&str> = self.labels(of).collect();
            let said = label::group_attributes(version, &names);
            to.put(&zarr3::document_at(&format!("{of}/labels")), &zarr3::group(json!({"ome": said})))?;
        }
        to.put(zarr3::DOCUMENT, &zarr3::group(json!({"ome": root})))?;
        let names: Vec<_> = self.series().map(|image| image.name.clone()).collect();
        let series = json!({"ome": {"version": version, "series": names}});
        to.put(&zarr3::document_at("OME"), &zarr3::group(series))?;
        let described = self.series().map(|image| (image.name.clone(), &image.config, &image.shape[..]));
        let xml = ome::xml::metadata_xml(&described.collect::<Vec<_>>());
        to.put_bytes(ome::xml::PATH, xml.into_bytes())?;
        self.changed.clear();
        self.changed_labels.clear();
        Ok(())
    }
}
