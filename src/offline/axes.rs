//! What OME-Zarr's metadata, 0.4 to 0.6, say of an array that is a level of an image.
//!
//! Sources: OME-Zarr specifications 0.5 and 0.6, "multiscales" and "omero".

use std::path::{Component, Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::config::{Channel, DimKind};
use crate::error::Result;
use crate::format::{precomputed, provenance};
use crate::fs::document;
use crate::offline::array::Array;
use crate::offline::hierarchy::central::CentralMetadata;
use crate::offline::hierarchy::{check_documents, ome_of};
use crate::ome;
use crate::ome::grid::PixelGrid;
use crate::ome::multiscales::{self, AxisEntry, Dataset, Multiscale};

/// So far above an array may its image's group be.
const ABOVE_MAX: usize = 4;

/// A dimension as the image's OME-Zarr metadata describes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Axis {
    /// The name.
    pub name: String,
    /// What it means, if that is said.
    pub kind: Option<DimKind>,
    /// The distance between neighbours, in `unit`.
    pub scale: f64,
    /// Where the first element is, in `unit`.
    pub translation: f64,
    /// A unit as UDUNITS-2 spells it, such as `micrometer`.
    pub unit: Option<String>,
}

impl Axis {
    /// A dimension of which only the name is known.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: None, scale: 1.0, translation: 0.0, unit: None }
    }
}

impl Array {
    /// The dimensions as the OME-Zarr image describes them whose level this is; `None` where there is no such image.
    /// Those of a scale of a precomputed volume are in nanometers, as its resolution and its voxel offset say.
    /// Where it places the level by other means than a scale and a translation of each dimension, these have neither,
    /// nor a unit, and [`notes`](Self::notes) say so.
    ///
    /// # Errors
    ///
    /// When the image's document can't be read.
    pub fn axes(&self) -> Result<Option<Vec<Axis>>> {
        let axes = self.with_level(|_, image, dataset| {
            let place = image.place(dataset).ok();
            let axis = |(at, axis): (usize, AxisEntry<'_>)| {
                let named = Axis { kind: axis.kind, ..Axis::new(axis.name?) };
                let Some(PixelGrid { scale, translation }) = &place else { return Some(named) };
                let translation = translation.as_ref().map_or(0.0, |translation| translation[at]);
                Some(Axis { scale: scale[at], translation, unit: axis.unit.map(str::to_owned), ..named })
            };
            image.axes().enumerate().map(axis).collect::<Option<Vec<_>>>()
        })?;
        Ok(axes.flatten().filter(|axes| axes.len() == self.shape().len()))
    }

    /// The channels of the OME-Zarr image whose level this is, in the order of the array; none where it tells of none.
    /// One without a name has an empty label, one without a colour an empty colour.
    ///
    /// # Errors
    ///
    /// As for [`axes`](Self::axes).
    pub fn channels(&self) -> Result<Vec<Channel>> {
        Ok(self.with_level(|ome, _, _| ome::channels(ome))?.unwrap_or_default())
    }

    /// The name of the OME-Zarr image whose level this is, if it has one.
    ///
    /// # Errors
    ///
    /// As for [`axes`](Self::axes).
    pub fn image_name(&self) -> Result<Option<String>> {
        Ok(self.with_level(|_, image, _| image.name().map(str::to_owned))?.flatten())
    }

    /// What to say where the image places the array by other means than a scale and a translation of each dimension.
    pub(super) fn note_of_place(&self) -> Result<Option<String>> {
        let reason = self.with_level(|_, image, dataset| image.place(dataset).err())?.flatten();
        Ok(reason.map(|reason| {
            format!(
                "the image's {reason}: how far apart its pixels are, and where, is only known here where one scale and \
                 one translation along each axis say it"
            )
        }))
    }

    /// Whether the image whose level this is says what labels its pixels are.
    ///
    /// # Errors
    ///
    /// As for [`axes`](Self::axes).
    pub fn has_label_properties(&self) -> Result<bool> {
        let says = |said: &Value| said.get("colors").or(said.get("properties")).is_some();
        Ok(self.with_level(|ome, _, _| ome.get("image-label").is_some_and(says))?.unwrap_or_default())
    }

    /// Asks the metadata of the image whose level the array is: all, those of its levels, and those of this one.
    fn with_level<T>(&self, ask: impl FnOnce(&Value, Multiscale<'_>, Dataset<'_>) -> T) -> Result<Option<T>> {
        let rules = self.layout().rules();
        if rules.names_resolutions {
            return self.with_scale(ask);
        }
        if rules.central_documents {
            return self.with_central(ask);
        }
        if let Some(ome) = provenance::own(self.attributes()).and_then(|own| own.get(provenance::OME)) {
            // The image has nothing but this array.
            let image = multiscales::images(ome).next();
            return Ok(image.and_then(|image| Some(ask(ome, image, image.levels().next()?))));
        }
        for (steps, group) in self.path().ancestors().skip(1).take(ABOVE_MAX).enumerate() {
            let ome = match check_documents(group).and_then(|()| ome_of(group)) {
                Ok(ome) => ome,
                Err(error) if steps == 0 => return Err(error),
                // What stands farther above may be no concern of the array.
                Err(_) => return Ok(None),
            };
            let (Some(ome), Ok(name)) = (ome, self.path().strip_prefix(group)) else { continue };
            if let Some((image, dataset)) = level_called(&ome, name) {
                return Ok(Some(ask(&ome, image, dataset)));
            }
        }
        Ok(None)
    }

    /// The same of an array of a dataset whose documents stand in one place.
    fn with_central<T>(&self, ask: impl FnOnce(&Value, Multiscale<'_>, Dataset<'_>) -> T) -> Result<Option<T>> {
        let Some((central, array)) = CentralMetadata::of(self.path())? else { return Ok(None) };
        for group in Path::new(&array).ancestors().skip(1).take(ABOVE_MAX) {
            let attributes = central.group(&group.to_string_lossy())?.attributes;
            let Ok(name) = Path::new(&array).strip_prefix(group) else { continue };
            if let Some(found) = level_called(multiscales::ome_of(&attributes), name) {
                return Ok(Some(ask(multiscales::ome_of(&attributes), found.0, found.1)));
            }
        }
        Ok(None)
    }

    /// The same of a scale of a volume, whose document says where all of them are.
    fn with_scale<T>(&self, ask: impl FnOnce(&Value, Multiscale<'_>, Dataset<'_>) -> T) -> Result<Option<T>> {
        let Some(info) = document::read(self.document())? else { return Ok(None) };
        let keys = precomputed::keys(self.document(), &info)?;
        let Some(ome) = precomputed::carried::said_of_image(&info) else { return Ok(None) };
        let key = self.document().parent().and_then(|root| self.path().strip_prefix(root).ok());
        let at = keys.iter().position(|of| key == Some(Path::new(of))).unwrap_or_default();
        let image = multiscales::images(&ome).next();
        Ok(image.and_then(|image| Some(ask(&ome, image, image.levels().nth(at)?))))
    }
}

/// The level of this name, and its image.
fn level_called<'a>(ome: &'a Value, name: &Path) -> Option<(Multiscale<'a>, Dataset<'a>)> {
    let is_it = |dataset: &Dataset<'_>| dataset.path().is_some_and(|path| plain(path) == name);
    multiscales::images(ome).find_map(|image| Some((image, image.levels().find(is_it)?)))
}

/// A path as a document has it, without the parts that lead nowhere.
fn plain(path: &str) -> PathBuf {
    Path::new(path).components().filter(|part| *part != Component::CurDir).collect()
}
