//! An image's entry in `multiscales` in the words of another version. What is as it would be there stays letter for
//! letter, and with all keys that others have put there.
//!
//! Sources: OME-Zarr specifications 0.5 and 0.6, "multiscales", "axes", "coordinateTransformations" and
//! "coordinateSystems".
#![cfg_attr(not(feature = "offline"), allow(dead_code))]

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::multiscales::{self, Dataset, Multiscale, SYSTEMS, TRANSFORMATIONS};
use super::placement::{self, OF_PARTS};
use crate::config::OmeVersion;
use crate::json::{render_line, text};
use crate::words::{quoted, quoted_list};

/// The keys of a coordinate system that 0.6 speaks of.
const OF_SYSTEM: [&str; 2] = ["name", "axes"];
/// What names the ends of a transformation, which only 0.6 has.
const ENDS: [&str; 2] = ["input", "output"];

/// As [`convert`](super::versions::convert), of the images alone, which a failure leaves half converted.
pub(super) fn convert(ome: &mut Value, to: OmeVersion) -> Result<Vec<String>, String> {
    let mut lost = Vec::new();
    for image in multiscales::images_mut(ome).into_iter().flatten() {
        lost.extend(convert_image(image, to)?);
    }
    Ok(lost)
}

fn convert_image(image: &mut Value, to: OmeVersion) -> Result<Vec<String>, String> {
    let said = image.clone();
    let said = Multiscale(&said);
    let (Some(image), true) = (image.as_object_mut(), said.levels().next().is_some()) else {
        return Err("has an image without a list of datasets".to_owned());
    };
    let axes = axes(said)?;
    let output = multiscales::output_of(to);
    let levels = image.get_mut("datasets").and_then(Value::as_array_mut);
    let mut keys = BTreeSet::new();
    for (level, new) in said.levels().zip(levels.into_iter().flatten()) {
        let path = level.path().ok_or("has a dataset without a path")?;
        let steps = steps(said, level, axes.len(), to, &mut keys)?;
        new[TRANSFORMATIONS] = multiscales::placed(path, steps, output.as_ref());
    }
    let mut lost = lost(said, to);
    if !keys.is_empty() {
        lost.push(format!("what its transformations say of {}", quoted_list(keys)));
    }
    [SYSTEMS, TRANSFORMATIONS, "axes"].iter().for_each(|key| drop(image.shift_remove(*key)));
    multiscales::put_axes(image, Value::Array(axes), to);
    Ok(lost)
}

/// What only 0.6 says of an image.
fn lost(image: Multiscale<'_>, to: OmeVersion) -> Vec<String> {
    if to == OmeVersion::V0_6 {
        return Vec::new();
    }
    let is_further = multiscales::list(image.0, SYSTEMS).len() > 1
        || multiscales::list(image.0, TRANSFORMATIONS).iter().any(|way| way.get("output").is_some());
    let keys = image.system().and_then(Value::as_object).into_iter().flat_map(Map::keys);
    let more = quoted_list(keys.filter(|key| !OF_SYSTEM.contains(&key.as_str())));
    let more = (!more.is_empty()).then(|| format!("what its coordinate system says of {more}"));
    is_further.then(|| "further coordinate systems".to_owned()).into_iter().chain(more).collect()
}

/// The axes as all versions since 0.4 have them.
fn axes(image: Multiscale<'_>) -> Result<Vec<Value>, String> {
    let axes = image.axis_values();
    if axes.is_empty() {
        return Err("has an image that says nothing of its axes, and these can't be left out; add `axes`".to_owned());
    }
    let axis = |axis: &Value| {
        let kind = match text(axis) {
            None if axis["name"].is_string() => return Ok(axis.clone()),
            None => return Err(format!("has an image with the axis {}, which has no name", render_line(axis))),
            // In 0.3, an axis was its name.
            Some("t") => "time",
            Some("c") => "channel",
            Some("z" | "y" | "x") => "space",
            Some(name) => {
                let name = quoted(name);
                return Err(format!("has an image with the axis {name}, of which nothing but that is said"));
            }
        };
        Ok(json!({"name": axis, "type": kind}))
    };
    axes.iter().map(axis).collect()
}

/// What places a level, as a scale and perhaps a translation after it. `lost`: gets the keys of others that don't stay,
/// because the transformation that they stand in becomes part of another.
fn steps(
    image: Multiscale<'_>,
    level: Dataset<'_>,
    dims: usize,
    to: OmeVersion,
    lost: &mut BTreeSet<String>,
) -> Result<Vec<Value>, String> {
    let path = level.path().unwrap_or_default();
    let ways = image.ways(level).map_err(|way| beyond(path, &way, to))?;
    if ways.is_empty() {
        return Err(format!(
            "does not say where the pixels of the level {} are, which {to} wants for each; add \
                            its {TRANSFORMATIONS}",
            quoted(path)
        ));
    }
    let steps = placement::in_order(ways.iter().copied());
    let grid = placement::compose(&steps, dims).map_err(|way| beyond(path, &way, to))?;
    let is_plain = placement::is_plain(&steps);
    ways.iter().for_each(|way| forget(way, is_plain, lost));
    if !is_plain {
        return Ok(placement::plain(&grid));
    }
    let without_ends = |step: &&Value| {
        let mut step = (*step).clone();
        let members = step.as_object_mut();
        members.into_iter().for_each(|step| ENDS.iter().for_each(|end| drop(step.shift_remove(*end))));
        step
    };
    Ok(steps.iter().map(without_ends).collect())
}

/// Collects the keys of a transformation that is no more. `stay`: those that do something stay as they are.
fn forget(way: &Value, stay: bool, lost: &mut BTreeSet<String>) {
    let kind = text(&way["type"]).unwrap_or_default();
    placement::parts(way).for_each(|step| forget(step, stay, lost));
    if stay && !["sequence", "identity"].contains(&kind) {
        return;
    }
    let is_known = |key: &str| key == kind || key == "type" || ENDS.contains(&key) || OF_PARTS.contains(&key);
    let keys = way.as_object().into_iter().flat_map(Map::keys);
    lost.extend(keys.filter(|key| !is_known(key)).cloned());
}

fn beyond(path: &str, way: &str, to: OmeVersion) -> String {
    let help = match to {
        OmeVersion::V0_6 => "leave the version as it is",
        _ => "leave the version as it is, or choose 0.6 in the dialect zarr3",
    };
    format!(
        "places the level {} by {way}; in {to} it is said here by one scale and one translation along each axis: \
         {help}",
        quoted(path)
    )
}
