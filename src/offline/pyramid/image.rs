//! The image that gets levels: which one is meant, and what its metadata say.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::advice;
use super::labels;
use super::options::{PyramidLevel, PyramidOptions};
use crate::config::{Depth, DimKind, Downsampling};
use crate::error::{Error, Result};
use crate::format::codecs::Chain;
use crate::format::keys::is_below;
use crate::format::{Metadata, ngff, precomputed, zarr2, zarr3};
use crate::fs::document;
use crate::offline::array::Array;
use crate::offline::hierarchy::has_node;
use crate::offline::hierarchy::walk::{self, NodeKind};
use crate::offline::unfinished_parts::refuse_unfinished_parts;
use crate::ome::grid::PixelGrid;
use crate::ome::levels;
use crate::ome::multiscales::{self, AxisEntry, Dataset, Multiscale};
use crate::ome::units::Length;
use crate::words::{quoted, quoted_list, shell_word};

const NAMES_MAX: usize = 20;

/// An image of OME-Zarr 0.5 or 0.6.
#[derive(Debug)]
pub(super) struct MultiscaleImage {
    /// The path below the one that was given.
    pub(super) name: String,
    pub(super) root: PathBuf,
    pub(super) finest: Array,
    /// The paths of its arrays, as its document has them.
    pub(super) datasets: Vec<String>,
    /// Paths that other images of the same document name.
    pub(super) others: Vec<String>,
    /// What its axes are called.
    axes: Vec<String>,
    grid: PixelGrid,
    /// Where what is said of all levels leads to from there. It goes on to be said of them.
    beyond: PixelGrid,
    /// Of 0.6, how levels name the coordinate system that they are placed in.
    output: Option<Value>,
    /// How far pixels are apart in z, y and x, if the image has z.
    depth: Option<[Length; 3]>,
    /// Its pixels are labels of another image's.
    pub(super) is_label: bool,
}

/// One level to be made: what it is, and what it is to level 0 and to the level before.
#[derive(Debug)]
pub(super) struct NewLevel {
    pub(super) told: PyramidLevel,
    pub(super) steps: Vec<u64>,
    pub(super) metadata: Metadata,
    pub(super) document: Value,
    /// What the image's document says of it.
    dataset: Value,
}

impl MultiscaleImage {
    /// The image at `path`, or the only one below.
    pub(super) fn find(path: &Path) -> Result<Self> {
        let document = group(path)?;
        if first_image(&document).is_some() {
            return Self::open(path, String::new(), &document);
        }
        refuse_unfinished_parts(path)?;
        let mut found = Vec::new();
        for node in walk::nodes(path)? {
            let is_label = node.name.split('/').any(|part| part == "labels");
            if let (NodeKind::Group(None), false) = (&node.kind, is_label) {
                let document = node.document()?;
                if first_image(&document).is_some() {
                    found.push((node, document));
                }
            }
        }
        match &found[..] {
            [(node, document)] => Self::open(&node.path, node.name.clone(), document),
            [] => {
                let call = advice::of_group(path).map(|call| format!("; one is made of an array: {call}"));
                let reason = "holds no image of OME-Zarr 0.5 or 0.6 in Zarr v3";
                Err(Error::not_found(path, format!("{reason}{}", call.unwrap_or_default())))
            }
            several => {
                let names = quoted_list(several.iter().take(NAMES_MAX).map(|(node, _)| &node.name));
                let more = if several.len() > NAMES_MAX { ", …" } else { "" };
                let count = several.len();
                let reason = format!("holds {count} images; name the path of one: {names}{more}");
                Err(Error::not_found(path, reason))
            }
        }
    }

    fn open(root: &Path, name: String, document: &Value) -> Result<Self> {
        let refused = |reason: String| Err(Error::format(root, reason));
        let ome = &document["attributes"]["ome"];
        let is_label = ome.get("image-label").is_some() || labels::lists(root);
        let mut images = multiscales::images(ome);
        let listed = images.next().and_then(|image| {
            let paths: Option<Vec<String>> = image.levels().map(|level| level.path().map(str::to_owned)).collect();
            Some((image, image.levels().next()?, paths?))
        });
        let Some((image, level, datasets)) = listed else {
            return refused("its multiscales have no datasets with paths".to_owned());
        };
        let others = images.flat_map(|image| image.levels().filter_map(Dataset::path)).map(str::to_owned).collect();
        if !is_below(&datasets[0]) {
            return refused(format!("names a dataset {} that is not below it", quoted(&datasets[0])));
        }
        let finest = root.join(&datasets[0]);
        let finest = match Array::open_exactly(&finest)? {
            Some(array) if array.layout().rules().is_tree => array,
            _ => return refused(format!("its first dataset {} is no array of Zarr v3", quoted(&datasets[0]))),
        };
        let dims = finest.shape().len();
        let axes: Vec<AxisEntry<'_>> = image.axes().collect();
        let is_space = |back: usize| {
            let axis = dims.checked_sub(back).and_then(|dim| axes.get(dim));
            axis.is_some_and(|axis| axis.kind == Some(DimKind::Space))
        };
        if axes.len() != dims || !is_space(1) || !is_space(2) {
            return refused(format!(
                "its {} axes are not those of an array of {dims} dimensions that ends with two of space",
                axes.len()
            ));
        }
        if !image.is_placed(level) {
            return refused(format!(
                "its level {} has no coordinateTransformations; expected a scale of {dims} numbers",
                quoted(&datasets[0])
            ));
        }
        let unplaced = |reason: String| {
            let reason = format!("its {reason}; levels are made where a scale and a translation of each axis place it");
            Error::unsupported(root, reason)
        };
        let (grid, beyond) = image.place_in_two(level).map_err(unplaced)?;
        let scale = grid.then(&beyond).scale;
        let of_space = if is_space(3) { 3 } else { 2 };
        if let Some(number) = scale[dims - of_space..].iter().find(|number| **number <= 0.0) {
            return refused(format!("its level 0 has a scale of {number} in space; expected positive numbers"));
        }
        let length = |dim: usize| Length {
            number: scale[dim],
            unit: axes[dim].unit.filter(|unit| !unit.is_empty()).map(str::to_owned),
        };
        let depth = is_space(3).then(|| [dims - 3, dims - 2, dims - 1].map(length));
        let output = image.output();
        let axes = axes.iter().map(|axis| axis.name.unwrap_or_default().to_owned()).collect();
        let root = root.to_path_buf();
        Ok(Self { name, root, finest, datasets, others, axes, grid, beyond, output, depth, is_label })
    }

    /// The levels beside level 0. `own`: of each in turn, attributes that are to be its own.
    pub(super) fn levels(&self, options: &PyramidOptions, own: &[Map<String, Value>]) -> Result<Vec<NewLevel>> {
        let downsampling = options.downsampling();
        if let Some(why) = levels::misplaced(self.axes.iter().map(String::as_str), downsampling.depth) {
            return Err(Error::config("axes", self.axes.join(", "), why));
        }
        self.check_directions(&downsampling)?;
        let depth = self.depth.as_ref().map(|lengths| levels::distances(lengths, &downsampling)).transpose();
        let depth = depth.map_err(|reason| Error::config("depth", downsampling.depth, reason))?;
        let mut shape = self.finest.shape().to_vec();
        if self.has_open_stack() {
            shape[0] = u64::MAX;
        }
        let mut levels = levels::levels(&shape, &self.grid, depth, &downsampling);
        if let Some((number, dim)) = levels::overflow(&levels) {
            return Err(Error::config("levels", levels.len(), levels::too_far(&self.axes[dim], number)));
        }
        let mut length = self.finest.shape()[0];
        for level in &mut levels {
            length = length.div_ceil(level.steps[0]);
            level.shape[0] = length;
        }
        let finest = &self.datasets[0];
        let paths = (1..).map(|number| numbered(finest, number)).filter(|path| path != finest);
        let own = own.iter().cloned().chain(std::iter::repeat_with(Map::new));
        let named =
            levels.into_iter().zip(paths).zip(own).map(|((levels::Level { shape, steps, grid }, path), own)| {
                let (metadata, document) = array_of(&self.finest, &shape, own)?;
                let dataset = multiscales::dataset(&path, &grid, self.output.as_ref());
                let told = PyramidLevel { path, shape, scale: grid.then(&self.beyond).scale };
                Ok(NewLevel { told, steps, metadata, document, dataset })
            });
        named.collect()
    }

    /// Refuses what halves nothing, or would not end.
    fn check_directions(&self, downsampling: &Downsampling) -> Result<()> {
        let Downsampling { levels, y, x, depth, .. } = *downsampling;
        if y || x {
            return Ok(());
        }
        if depth == Depth::Never || self.depth.is_none() {
            let reason = "neither y nor x is halved, nor is z: no level would be smaller";
            return Err(Error::config("pyramid.y", false, reason));
        }
        if levels.is_none() && self.has_open_stack() {
            let reason = "z alone is halved, and had no end while frames came; say how many levels there are to be";
            return Err(Error::config("levels", "not given", reason));
        }
        Ok(())
    }

    /// Whether it is one stack that had no end while frames came. Levels that were written meanwhile took each plane
    /// for one of two, as these must, also where the stack stayed short.
    fn has_open_stack(&self) -> bool {
        let is_stack = self.depth.is_some() && self.finest.shape().len() == 3;
        is_stack && self.finest.image_provenance().is_some_and(|own| own.unbounded)
    }
}

/// An array like the finest one, but of another shape and with attributes of its own: what it is, and its document.
fn array_of(finest: &Array, shape: &[u64], own: Map<String, Value>) -> Result<(Metadata, Value)> {
    let file = finest.document();
    let Some(mut document) = document::read(file)? else { return Err(Error::conflict(file, "has gone")) };
    let old = finest.metadata();
    let chain = match old.chain.is_plain() {
        true => old.chain.clone(),
        // What is encoded here are elements in C order, lowest byte first.
        false => Chain::new(old.chain.element_codec().clone(), false, old.dtype, None),
    };
    let mut layout = old.layout.clone();
    layout.shape = shape.to_vec();
    layout.index_order = None;
    let metadata = Metadata { layout, chain, manifest: None, attributes: json!({}), ..old.clone() }.check(file)?;
    zarr3::set_chunks(&mut document, &metadata);
    document["shape"] = json!(shape);
    document["attributes"] = Value::Object(own);
    zarr3::remove_manifest(&mut document);
    Ok((metadata, document))
}

/// Lets the document of an image name these levels behind level 0.
pub(super) fn describe(document: &mut Value, levels: &[NewLevel], options: &PyramidOptions) {
    let datasets = levels.iter().map(|level| level.dataset.clone());
    let Some(image) =
        document.pointer_mut("/attributes/ome").and_then(|ome| multiscales::replace_levels(ome, datasets))
    else {
        return;
    };
    if !levels.is_empty() {
        multiscales::describe_levels(image, &options.downsampling(), multiscales::PYRAMID);
    }
}

fn first_image(document: &Value) -> Option<Multiscale<'_>> {
    multiscales::images(&document["attributes"]["ome"]).next()
}

/// The document of a group of Zarr v3, which alone has images of OME-Zarr 0.5 and 0.6.
pub(super) fn group(path: &Path) -> Result<Value> {
    let found = document::read(&path.join(zarr3::DOCUMENT))?;
    match found.as_ref().map(|document| (&document["zarr_format"], &document["node_type"])) {
        Some((version, kind)) if *version == 3 && *kind == "group" => Ok(found.unwrap_or_default()),
        Some((version, kind)) if *version == 3 && *kind == "array" => {
            // What can't be read at all is told first, as by all who read.
            Array::open_exactly(path)?;
            let help = match advice::of_array(path) {
                Some(call) => format!("is an array, and of no image; one is made of it: {call}"),
                None => "is an array; name the image whose level it is, or is to be".to_owned(),
            };
            Err(Error::not_found(path, help))
        }
        None if path.join(zarr2::ARRAY).is_file() => {
            let help = match advice::of_array(path) {
                Some(call) => format!("one is made of this array: {call}"),
                None => "repack makes one of an image of 0.4: name that".to_owned(),
            };
            let reason = "is an array of Zarr v2; levels are made for images of OME-Zarr 0.5 and 0.6, and";
            Err(Error::unsupported(path, format!("{reason} {help}")))
        }
        None if path.is_file() => Err(Error::not_found(path, "is a file; expected the directory of an image")),
        None if !has_node(path) && !path.join(precomputed::DOCUMENT).is_file() => {
            Err(Error::not_found(path, "holds no zarr.json; expected an image of OME-Zarr 0.5 or 0.6"))
        }
        _ => {
            if let Some(call) = advice::of_group(path) {
                let reason = "is no group of Zarr v3 and holds no image of OME-Zarr; one is made of an array";
                return Err(Error::unsupported(path, format!("{reason}: {call}")));
            }
            let said = document::read(&path.join(zarr2::ATTRIBUTES))?.unwrap_or_default();
            if let Err(reason) = said.as_object().map_or(Ok(()), |said| ngff::refuse_old(said, false)) {
                let reason = format!("{reason}; only images of OME-Zarr 0.5 and 0.6 get levels");
                return Err(Error::unsupported(path, reason));
            }
            let reason = format!(
                "is no group of Zarr v3; only images of OME-Zarr 0.5 and 0.6 get levels, and repack makes one of it: \
                 shardwright repack {} NEW",
                shell_word(path)
            );
            Err(Error::unsupported(path, reason))
        }
    }
}

/// The path of a level, as that of level 0: `s2` for `s0`, `2` where its name has no such number.
fn numbered(finest: &str, number: usize) -> String {
    let (folder, name) = finest.rsplit_once('/').map_or(("", finest), |(folder, name)| (folder, name));
    let name = name.strip_suffix('0').filter(|start| !start.ends_with(|digit: char| digit.is_ascii_digit()));
    crate::offline::hierarchy::below(folder, &format!("{}{number}", name.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_named_as_the_first_one() {
        for (finest, second) in [("0", "2"), ("s0", "s2"), ("a/scale0", "a/scale2"), ("full", "2"), ("x10", "2")] {
            assert_eq!(numbered(finest, 2), second);
        }
    }
}
