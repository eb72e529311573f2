//! What a volume's document says that Zarr's documents have no place for, carried among attributes, there and back.

use serde_json::{Map, Value, json};

use crate::config::{DimKind, OmeVersion};
use crate::format::provenance::{self, ATTRIBUTE};
use crate::ome::grid::PixelGrid;
use crate::ome::multiscales::{self, AxisEntry};

/// The attribute in which a volume's document is carried.
pub(crate) const CARRIED: &str = "neuroglancer";
/// What this crate's writer says in a document, in the document itself and of a scale.
const OWN: [&str; 7] = ["@type", "type", "data_type", "num_channels", "scales", "attributes", ATTRIBUTE];
const OWN_OF_SCALE: [&str; 7] = ["key", "size", "chunk_sizes", "voxel_offset", "resolution", "encoding", "sharding"];

/// The attributes by which an array tells of the volume that it was: the document, where it says more than this crate's
/// writer does, and the places of its voxels in OME-Zarr's words, where nobody has said them.
pub(crate) fn carry(info: &Value, attributes: &mut Map<String, Value>) {
    let is_own = provenance::own(info).is_some();
    if !is_own && !attributes.contains_key("ome") {
        attributes.insert("ome".to_owned(), ome(info));
    }
    let says_more = |object: &Value, own: &[&str]| {
        object.as_object().is_some_and(|object| object.keys().any(|key| !own.contains(&key.as_str())))
    };
    let scales = info["scales"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_plain = info["type"] == "image" && !says_more(info, &OWN);
    let is_moved =
        |scale: &Value| scale["voxel_offset"].as_array().is_some_and(|offset| offset.iter().any(|at| *at != 0));
    if !is_own || !is_plain || scales.iter().any(is_moved) || scales.iter().any(|scale| says_more(scale, &OWN_OF_SCALE))
    {
        let mut said = info.clone();
        if let Some(said) = said.as_object_mut() {
            [ATTRIBUTE, "attributes"].iter().for_each(|key| drop(said.shift_remove(*key)));
        }
        // What a user called so stays.
        attributes.entry(CARRIED).or_insert(said);
    }
}

/// Whether an attribute of that name is what [`carry`] put there.
pub(crate) fn is_carried(attribute: &Value) -> bool {
    attribute["scales"].is_array()
}

/// Of the scales that [`carry`] put among attributes, keeps that of the array `name`: arrays that were scales are
/// called by their places.
pub(crate) fn choose_scale(name: &str, attributes: &mut Map<String, Value>) {
    let place = name.rsplit('/').next().and_then(|last| last.parse::<usize>().ok());
    let scales = attributes.get_mut(CARRIED).and_then(|carried| carried.get_mut("scales")?.as_array_mut());
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

/// The scale of a volume of this size that [`carry`] put among attributes.
pub(crate) fn scale(attributes: &Map<String, Value>, size: [u64; 3]) -> Option<&Value> {
    attributes.get(CARRIED)?.pointer("/scales/0").filter(|scale| scale["size"] == json!(size))
}

/// Where the first voxel of such a scale stood.
pub(crate) fn voxel_offset(scale: &Value) -> Option<[i64; 3]> {
    let numbers = scale["voxel_offset"].as_array()?;
    numbers.iter().map(Value::as_i64).collect::<Option<Vec<_>>>()?.try_into().ok()
}

/// The scales as the levels of a multiscale image, in nanometers. Voxels stand in OME-Zarr where their centers are, and
/// in Neuroglancer where they begin.
fn ome(info: &Value) -> Value {
    let channels = info["num_channels"].as_u64().unwrap_or(1) > 1;
    let in_order = |xyz: [f64; 3], channel: f64| {
        let [x, y, z] = xyz;
        if channels { vec![channel, z, y, x] } else { vec![z, y, x] }
    };
    let axis = |name, kind, unit| AxisEntry { name: Some(name), kind: Some(kind), unit };
    let space = ["z", "y", "x"].map(|name| axis(name, DimKind::Space, Some("nanometer")));
    let channel = channels.then(|| axis("c", DimKind::Channel, None));
    let numbers = |value: &Value, default: f64| [0, 1, 2].map(|at| value[at].as_f64().unwrap_or(default));
    let level = |(at, scale): (usize, &Value)| {
        let (resolution, offset) = (numbers(&scale["resolution"], 1.0), numbers(&scale["voxel_offset"], 0.0));
        let center = [0, 1, 2].map(|dim| (offset[dim] + 0.5) * resolution[dim]);
        let (scale, translation) = (in_order(resolution, 1.0), Some(in_order(center, 0.0)));
        (at.to_string(), PixelGrid { scale, translation })
    };
    let levels: Vec<_> = info["scales"].as_array().into_iter().flatten().enumerate().map(level).collect();
    let levels = levels.iter().map(|(path, grid)| (path.as_str(), grid));
    let image = multiscales::image(OmeVersion::V0_5, None, channel.into_iter().chain(space), levels);
    json!({"version": OmeVersion::V0_5, "multiscales": [image]})
}
