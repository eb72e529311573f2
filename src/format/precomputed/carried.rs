//! What a volume's document says that Zarr's documents have no place for, carried among attributes, there and back.

use serde_json::{Map, Value, json};

use super::dims::Dims;
use super::is_info;
use super::place::{NANOMETER, OME, OME_ASIDE, attributes, places};
use super::volume::{CHANNEL, X, Z};
use crate::config::{Dim, DimKind, OmeVersion};
use crate::format::provenance::{self, ATTRIBUTE};
use crate::ome;
use crate::ome::grid::PixelGrid;
use crate::ome::multiscales::{self, AxisEntry};

/// The attribute in which a volume's document is carried.
pub(crate) const CARRIED: &str = "neuroglancer";
/// What this crate's writer says in a document, in the document itself and of a scale.
const OWN: [&str; 7] = ["@type", "type", "data_type", "num_channels", "scales", "attributes", ATTRIBUTE];
const OWN_OF_SCALE: [&str; 7] = ["key", "size", "chunk_sizes", "voxel_offset", "resolution", "encoding", "sharding"];

/// The attributes by which an array tells of the volume that it was: the document, where it says more than this crate's
/// writer does, and the places of its voxels in OME-Zarr's words, where nobody has said them. Returns what is left out.
pub(crate) fn carry(info: &Value, attributes: &mut Map<String, Value>) -> Option<String> {
    let is_own = provenance::own(info).is_some();
    if !attributes.contains_key("ome")
        && let Some(ome) = ome(info)
    {
        attributes.insert("ome".to_owned(), ome);
    }
    let says_more = |object: &Value, own: &[&str]| {
        object.as_object().is_some_and(|object| object.keys().any(|key| !own.contains(&key.as_str())))
    };
    let scales = info["scales"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_plain = info["type"] == "image" && !says_more(info, &OWN);
    let is_moved =
        |scale: &Value| scale["voxel_offset"].as_array().is_some_and(|offset| offset.iter().any(|at| *at != 0));
    let is_usual = |scale: &Value| !is_moved(scale) && !says_more(scale, &OWN_OF_SCALE);
    if is_own && is_plain && scales.iter().all(is_usual) {
        return None;
    }
    let mut said = info.clone();
    if let Some(said) = said.as_object_mut() {
        [ATTRIBUTE, "attributes"].iter().for_each(|key| drop(said.shift_remove(*key)));
    }
    // What a user called so stays.
    let kept = attributes.entry(CARRIED).or_insert_with(|| said.clone());
    (*kept != said).then(|| {
        format!(
            "what the volume's document says beside its pixels is left out: an attribute {CARRIED:?} of somebody else \
             is in the place where it would be kept"
        )
    })
}

/// Whether an attribute of that name, of an array of this shape, is what [`carry`] put there: a whole document of a
/// volume, with a scale that has the array's rows and columns. What somebody else calls so is another thing.
pub(crate) fn is_carried(attribute: &Value, shape: &[u64]) -> bool {
    let [.., y, x] = shape else { return false };
    let scales = attribute["scales"].as_array().filter(|_| is_info(attribute));
    let has_size = |scale: &Value| scale["size"].as_array().is_some_and(|xyz| xyz.len() == 3);
    let is_scale = |scale: &Value| scale["key"].is_string() && has_size(scale);
    let is_of_shape = |scale: &Value| scale["size"][0] == *x && scale["size"][1] == *y;
    scales.is_some_and(|scales| scales.iter().all(is_scale) && scales.iter().any(is_of_shape))
}

/// Of the scales that [`carry`] put among attributes, keeps that of the array `name`: arrays that were scales are
/// called by their places.
pub(crate) fn choose_scale(name: &str, shape: &[u64], attributes: &mut Map<String, Value>) {
    let place = name.rsplit('/').next().and_then(|last| last.parse::<usize>().ok());
    let carried = attributes.get_mut(CARRIED).filter(|carried| is_carried(carried, shape));
    let scales = carried.and_then(|carried| carried.get_mut("scales")?.as_array_mut());
    if let (Some(place), Some(scales)) = (place, scales)
        && place < scales.len()
    {
        *scales = vec![scales.swap_remove(place)];
    }
}

/// Takes what [`carry`] put among attributes, and says it in the new document `info` of one scale.
pub(crate) fn deliver(attributes: &mut Map<String, Value>, info: &mut Value) {
    let Some(Value::Object(mut said)) = attributes.shift_remove(CARRIED) else { return };
    let old_scale = said.shift_remove("scales").and_then(|scales| scales.get(0).cloned());
    if let Some(kind) = said.shift_remove("type") {
        info["type"] = kind;
    }
    let lacking = |from: Map<String, Value>, to: &mut Value| {
        let Some(to) = to.as_object_mut() else { return };
        for (key, value) in from {
            to.entry(key).or_insert(value);
        }
    };
    lacking(said, info);
    if let (Some(Value::Object(old)), Some(scale)) = (old_scale, info.pointer_mut("/scales/0")) {
        // How chunks are stored is new.
        let kept = old.into_iter().filter(|(key, _)| !OWN_OF_SCALE.contains(&key.as_str()));
        lacking(kept.collect(), scale);
    }
}

/// The scale that an array of this shape was in a volume, if [`carry`] put it among attributes. An array of a volume
/// has z, y and x last, or y and x alone.
pub(crate) fn scale<'a>(attributes: &'a Map<String, Value>, shape: &[u64]) -> Option<&'a Value> {
    let [outer @ .., y, x] = shape else { return None };
    let carried = attributes.get(CARRIED).filter(|carried| is_carried(carried, shape))?;
    let depths = outer.last().into_iter().chain([&1]);
    let mut sizes = depths.map(|z| json!([x, y, z]));
    carried.pointer("/scales/0").filter(|scale| sizes.any(|size| scale["size"] == size))
}

/// Where the first voxel of such a scale stood.
pub(crate) fn voxel_offset(scale: &Value) -> Option<[i64; 3]> {
    let numbers = scale["voxel_offset"].as_array()?;
    numbers.iter().map(Value::as_i64).collect::<Option<Vec<_>>>()?.try_into().ok()
}

/// What the document says of the image in OME-Zarr's words: what it said before it became a volume, or the places of
/// its voxels.
pub(crate) fn said_of_image(info: &Value) -> Option<Value> {
    let said = attributes(info);
    let aside = provenance::own(&said).and(said.pointer(OME_ASIDE)).or_else(|| said.pointer(OME));
    aside.cloned().or_else(|| ome(info))
}

/// The scales as the levels of a multiscale image, in nanometers. Voxels stand in OME-Zarr where their centers are, and
/// in Neuroglancer where they begin. `None` where it would say what nobody has said: where a scale has no resolution,
/// and of a volume of this crate's writer, the resolution may be that of any volume, and only an offset says a place.
pub(crate) fn ome(info: &Value) -> Option<Value> {
    let own = provenance::own(info);
    let scales = places(info)?;
    let is_placed = own.is_none() || scales.iter().any(|(_, offset)| *offset != [0.0; 3]);
    if !is_placed && scales.iter().all(|(resolution, _)| *resolution == [1.0; 3]) {
        return None;
    }
    let dims = Dims::new(own.unwrap_or(&Value::Null), info["num_channels"].as_u64().unwrap_or(1)).ok()?;
    let dims: Vec<_> = dims.names.iter().zip(&dims.roles).map(|(name, &role)| (dim(name, role), role)).collect();
    let plain: Vec<_> = dims.iter().map(|(dim, _)| dim.clone()).collect();
    if ome::incompatibility(&plain).is_some() {
        return None;
    }
    let level = |(at, (resolution, offset)): (usize, &([f64; 3], [f64; 3]))| {
        let of_space = |of: &dyn Fn(usize) -> f64, other: f64| {
            // The last of the roles is x.
            let of_dim = |(dim, role): &(Dim, usize)| if dim.kind == DimKind::Space { of(X - role) } else { other };
            dims.iter().map(of_dim).collect::<Vec<_>>()
        };
        let translation = is_placed.then(|| of_space(&|xyz| (offset[xyz] + 0.5) * resolution[xyz], 0.0));
        (at.to_string(), PixelGrid { scale: of_space(&|xyz| resolution[xyz], 1.0), translation })
    };
    let levels: Vec<_> = scales.iter().enumerate().map(level).collect();
    let levels = levels.iter().map(|(path, grid)| (path.as_str(), grid));
    let image = multiscales::image(OmeVersion::V0_5, None, plain.iter().map(AxisEntry::of), levels);
    Some(json!({"version": OmeVersion::V0_5, "multiscales": [image]}))
}

/// A dimension of a volume. That in the place of z may be time, of which the volume's document says nothing.
fn dim(name: &str, role: usize) -> Dim {
    let kind = match (role, name) {
        (CHANNEL, _) => DimKind::Channel,
        (Z, "t" | "time") => DimKind::Time,
        _ => DimKind::Space,
    };
    let unit = (kind == DimKind::Space).then(|| NANOMETER.to_owned());
    Dim { unit, ..Dim::new(name, kind, None) }
}
