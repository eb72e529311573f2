//! What OME-Zarr's metadata, 0.4 to 0.6, say of an array that is a level of an image.
//!
//! Sources: OME-Zarr specifications 0.5 and 0.6, "multiscales" and "omero".

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::config::{Channel, DimKind};
use crate::error::Result;
use crate::fs::document;
use crate::offline::array::Array;
use crate::ome::grid::transformations;
use crate::ome::{rgb, versions};

/// So far above an array may its image's group be.
const ABOVE_MAX: usize = 4;

/// A dimension as the image's OME-Zarr metadata describes it.
#[derive(Debug, Clone, PartialEq)]
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
    ///
    /// # Errors
    ///
    /// When the image's document can't be read.
    pub fn axes(&self) -> Result<Option<Vec<Axis>>> {
        let Some(LevelMetadata { image, dataset, .. }) = self.level()? else { return Ok(None) };
        // What is said of all levels comes after what is said of one.
        // Those that 0.6 has there lead on, to other coordinate systems.
        let of_all = if versions::coordinate_system(&image).is_some() { &Value::Null } else { &image };
        let (own, of_all) = (Transformation::of(&dataset), Transformation::of(of_all));
        let axis = |(at, axis): (usize, &Value)| {
            // In 0.3, an axis was its name.
            let name = axis.as_str().or_else(|| axis["name"].as_str())?.to_owned();
            let kind = match axis["type"].as_str() {
                Some("time") => Some(DimKind::Time),
                Some("channel") => Some(DimKind::Channel),
                Some("space") => Some(DimKind::Space),
                _ => None,
            };
            let (scale, translation) = (own.scale(at), own.translation(at));
            Some(Axis {
                name,
                kind,
                scale: scale * of_all.scale(at),
                translation: translation * of_all.scale(at) + of_all.translation(at),
                unit: axis["unit"].as_str().map(str::to_owned),
            })
        };
        let axes = versions::axes(&image).iter().enumerate().map(axis);
        Ok(axes.collect::<Option<Vec<_>>>().filter(|axes| axes.len() == self.shape().len()))
    }

    /// The channels of the OME-Zarr image whose level this is, in the order of the array; none where it tells of none.
    /// One without a name has an empty label, one without a colour an empty colour.
    ///
    /// # Errors
    ///
    /// As for [`axes`](Self::axes).
    pub fn channels(&self) -> Result<Vec<Channel>> {
        let Some(LevelMetadata { ome, .. }) = self.level()? else { return Ok(Vec::new()) };
        let text = |channel: &Value, key: &str| channel[key].as_str().map(str::to_owned);
        let channel = |said: &Value| Channel {
            label: text(said, "label").unwrap_or_default(),
            color: text(said, "color").filter(|color| rgb(color).is_some()).unwrap_or_default(),
            window: said["window"]["start"].as_f64().zip(said["window"]["end"].as_f64()),
        };
        let channels = ome.pointer("/omero/channels").and_then(Value::as_array);
        Ok(channels.into_iter().flatten().map(channel).collect())
    }

    /// The name of the OME-Zarr image whose level this is, if it has one.
    ///
    /// # Errors
    ///
    /// As for [`axes`](Self::axes).
    pub fn image_name(&self) -> Result<Option<String>> {
        let Some(LevelMetadata { image, .. }) = self.level()? else { return Ok(None) };
        Ok(image["name"].as_str().filter(|name| !name.is_empty()).map(str::to_owned))
    }

    /// What the image says whose level the array is.
    fn level(&self) -> Result<Option<LevelMetadata>> {
        for (steps, group) in self.path().ancestors().skip(1).take(ABOVE_MAX).enumerate() {
            let ome = match ome_of(group) {
                Ok(ome) => ome,
                Err(error) if steps == 0 => return Err(error),
                // What stands farther above may be no concern of the array.
                Err(_) => return Ok(None),
            };
            let (Some(ome), Ok(name)) = (ome, self.path().strip_prefix(group)) else { continue };
            let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
            let is_it = |dataset: &Value| dataset["path"].as_str().is_some_and(|path| plain(path) == name);
            let level = list(&ome["multiscales"]).into_iter().find_map(|image| {
                let dataset = list(&image["datasets"]).into_iter().find(|dataset| is_it(dataset))?;
                Some((image, dataset))
            });
            if let Some((image, dataset)) = level {
                return Ok(Some(LevelMetadata { ome, image, dataset }));
            }
        }
        Ok(None)
    }
}

/// The metadata of an image: all, those of its levels, and those of the level that is meant.
struct LevelMetadata {
    ome: Value,
    image: Value,
    dataset: Value,
}

/// What a group says of OME-Zarr.
fn ome_of(group: &Path) -> Result<Option<Value>> {
    Ok(match document::read(&group.join("zarr.json"))? {
        Some(document) => document.pointer("/attributes/ome").cloned(),
        None => document::read(&group.join(".zattrs"))?,
    })
}

/// A path as a document has it, without the parts that lead nowhere.
fn plain(path: &str) -> PathBuf {
    Path::new(path).components().filter(|part| *part != Component::CurDir).collect()
}

/// The coordinate transformations of a level, or of all levels.
struct Transformation {
    scale: Vec<Value>,
    translation: Vec<Value>,
}

impl Transformation {
    fn of(said: &Value) -> Self {
        let list =
            |key: &str| transformations(said).filter_map(|one| one[key].as_array()).next().cloned().unwrap_or_default();
        Self { scale: list("scale"), translation: list("translation") }
    }

    fn scale(&self, at: usize) -> f64 {
        self.scale.get(at).and_then(Value::as_f64).unwrap_or(1.0)
    }

    fn translation(&self, at: usize) -> f64 {
        self.translation.get(at).and_then(Value::as_f64).unwrap_or(0.0)
    }
}
