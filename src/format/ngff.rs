//! OME-Zarr's metadata in its versions 0.4, which stands in the attributes of Zarr v2, and 0.5 or 0.6, which stand in
//! their `ome`.
//!
//! Source: OME-Zarr specification 0.5, "Version history": the metadata moved below `ome`, which has the one version of
//! all of it.

use serde_json::{Map, Value, json};

use crate::config::OmeVersion;
use crate::json::{render_line, text};
use crate::ome::versions;
use crate::words::quoted;

/// The versions before 0.4, whose images and plates are described otherwise.
const OLD: [&str; 3] = ["0.1", "0.2", "0.3"];

/// The keys that OME-Zarr has among the attributes of a group.
const KEYS: [&str; 7] = ["multiscales", "omero", "labels", "image-label", "plate", "well", "bioformats2raw.layout"];

/// Those that there are since 0.5.
const MORE: [&str; 2] = ["series", "scene"];
/// Those that have a version each in 0.4.
const VERSIONED: [&str; 4] = ["multiscales", "image-label", "plate", "well"];

/// What OME-Zarr 0.5 says in `ome`, as attributes of 0.4.
pub(crate) fn to_0_4(ome: &Value) -> Map<String, Value> {
    let mut attributes = ome.as_object().cloned().unwrap_or_default();
    attributes.shift_remove("version");
    for part in attributes.iter_mut().filter(|(key, _)| VERSIONED.contains(&key.as_str())).flat_map(|(_, it)| parts(it))
    {
        part.insert("version".to_owned(), json!("0.4"));
    }
    attributes
}

/// The name of another attribute of a group that 0.4 has for what the group says in `ome`, or might say: readers would
/// take it for OME-Zarr's.
pub(crate) fn taken_in_0_4(ome: Option<&Value>, attributes: &Map<String, Value>) -> Option<String> {
    let said = to_0_4(ome.filter(|ome| is_ome(ome))?);
    let is_other = |key: &&str| attributes.get(*key).is_some_and(|other| said.get(*key) != Some(other));
    said.keys().map(String::as_str).chain(KEYS).find(is_other).map(str::to_owned)
}

/// Whether a group's attribute `ome` is OME-Zarr's, of a version that is known here or of none.
pub(crate) fn is_ome(ome: &Value) -> bool {
    let Some(said) = ome.as_object() else { return false };
    match ome.get("version") {
        Some(_) => versions::version(ome).is_some(),
        None => said.contains_key("series") || KEYS.iter().any(|key| is_of_ome(said, key, true)),
    }
}

/// Whether a group's attribute `ome` is OME-Zarr's, of whatever version, rather than something that is only called so.
pub(crate) fn is_of_any_version(ome: &Value) -> bool {
    is_ome(ome) || KEYS.iter().chain(&MORE).any(|key| ome.get(*key).is_some())
}

/// Refuses, as a sentence about the group, what OME-Zarr says among its attributes in a version before 0.4.
pub(crate) fn refuse_old(attributes: &Map<String, Value>, is_labels: bool) -> Result<(), String> {
    let found: Vec<&str> = KEYS.into_iter().filter(|key| is_of_ome(attributes, key, is_labels)).collect();
    match old_version(attributes, &found) {
        Some(version) => Err(format!("has OME-Zarr {version}, and what is before 0.4 is not converted here")),
        None => Ok(()),
    }
}

/// Moves what OME-Zarr 0.4 says among a group's attributes to where 0.5 has it. What stands there already stays, and so
/// does what is only called like OME-Zarr's. `is_labels`: the group is called `labels`.
///
/// # Errors
///
/// What can't be moved, for a sentence about the group: an older version, or one whose place is taken.
pub(crate) fn from_0_4(attributes: &mut Map<String, Value>, is_labels: bool) -> Result<(), String> {
    let found: Vec<&str> = KEYS.into_iter().filter(|key| is_of_ome(attributes, key, is_labels)).collect();
    if found.is_empty() {
        return Ok(());
    }
    if let Some(ome) = attributes.get("ome") {
        let other = found.iter().find(|key| !is_of_any_version(ome) || ome.get(**key).is_none());
        return other.map_or(Ok(()), |key| {
            Err(format!(
                "has OME-Zarr 0.4's {} and beside it an attribute \"ome\", where Zarr v3 has OME-Zarr's metadata; \
                 rename that attribute",
                quoted(key)
            ))
        });
    }
    refuse_old(attributes, is_labels)?;
    let mut ome = Map::from_iter([("version".to_owned(), json!("0.5"))]);
    for key in found {
        let Some(mut value) = attributes.shift_remove(key) else { continue };
        if VERSIONED.contains(&key) {
            parts(&mut value).for_each(|part| drop(part.shift_remove("version")));
        }
        ome.insert(key.to_owned(), value);
    }
    versions::put_versions(&mut ome, OmeVersion::V0_5);
    attributes.insert("ome".to_owned(), Value::Object(ome));
    Ok(())
}

/// What among a group's attributes looks like OME-Zarr's metadata, of which it is not known what they mean, for a
/// sentence about the group.
pub(crate) fn unknown(attributes: &Value) -> Option<String> {
    let known = "which is not known here";
    let Some(ome) = attributes.get("ome") else {
        let (key, part) = [("multiscales", "datasets"), ("plate", "wells")].into_iter().find_map(|(key, list)| {
            let said = attributes.get(key)?;
            let part = said.get(0).unwrap_or(said);
            part.get(list).is_some_and(Value::is_array).then_some((key, part))
        })?;
        return Some(match part.get("version") {
            Some(version) => {
                let version = render_line(version);
                format!(
                    "has `{key}` of the version {version} among its attributes, where that of OME-Zarr 0.4 is known \
                     here; 0.5 and 0.6 have theirs in `ome`"
                )
            }
            None => format!("has `{key}` among its attributes that are not as OME-Zarr 0.4 has them"),
        });
    };
    let has = |key: &&str| ome.get(*key).is_some();
    if !KEYS.iter().chain(&MORE).any(has) {
        return None;
    }
    match (versions::version(ome), ome.get("version")) {
        (Some(_), _) => {
            let is_list = ome.get("multiscales").is_none_or(Value::is_array);
            (!is_list).then(|| "has `multiscales` in `ome` that are no list of images".to_owned())
        }
        (None, Some(version)) => {
            let version = render_line(version);
            Some(format!("has OME-Zarr's metadata of the version {version}, {known}; 0.5 and 0.6 are, as texts"))
        }
        (None, None) => {
            Some("has OME-Zarr's metadata in `ome` without a version; put the \"version\" there, 0.5 or 0.6".to_owned())
        }
    }
}

/// Whether what stands under a key is what OME-Zarr has there.
fn is_of_ome(attributes: &Map<String, Value>, key: &str, is_labels: bool) -> bool {
    let Some(value) = attributes.get(key) else { return false };
    let is_image = |image: &Value| image["datasets"].is_array() && is_known(image);
    let images = || attributes.get("multiscales").and_then(Value::as_array);
    let has_images = || images().is_some_and(|images| !images.is_empty() && images.iter().all(is_image));
    match key {
        "multiscales" => has_images(),
        "omero" | "image-label" => value.is_object() && has_images(),
        "labels" => is_labels && value.as_array().is_some_and(|names| names.iter().all(Value::is_string)),
        "plate" => value["wells"].is_array() && is_known(value),
        "well" => value["images"].is_array(),
        _ => value.is_u64(),
    }
}

fn is_known(part: &Value) -> bool {
    let version = part.get("version").and_then(text);
    part.get("version").is_none() || version.is_some_and(|version| version == "0.4" || OLD.contains(&version))
}

/// The version of images or of a plate before 0.4; images that don't name theirs are such if their axes are no objects,
/// or if they have none.
fn old_version(attributes: &Map<String, Value>, found: &[&str]) -> Option<String> {
    let images = attributes.get("multiscales").filter(|_| found.contains(&"multiscales")).and_then(Value::as_array);
    let plate = attributes.get("plate").filter(|_| found.contains(&"plate"));
    let of = |part: &Value| {
        let named = part.get("version").and_then(text).filter(|version| OLD.contains(version));
        let has_names = part["axes"].as_array().is_some_and(|axes| axes.iter().any(Value::is_string));
        named.map(str::to_owned).or_else(|| has_names.then(|| "0.3".to_owned()))
    };
    let lacks_axes = |image: &Value| image.get("version").is_none() && image.get("axes").is_none();
    let is_first = images.is_some_and(|images| images.iter().any(lacks_axes));
    images.into_iter().flatten().chain(plate).find_map(of).or_else(|| is_first.then(|| "0.1 or 0.2".to_owned()))
}

/// The same of the group `OME` of a collection, which lists its images there.
pub(crate) fn series_from_0_4(attributes: &mut Map<String, Value>) {
    let is_list =
        attributes.get("series").and_then(Value::as_array).is_some_and(|all| all.iter().all(Value::is_string));
    if is_list && !attributes.contains_key("ome") {
        let series = attributes.shift_remove("series");
        attributes.insert("ome".to_owned(), json!({"version": "0.5", "series": series}));
    }
}

/// The objects that have a version each in 0.4.
fn parts(value: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let parts = match value {
        Value::Array(several) => several.as_mut_slice(),
        one => std::slice::from_mut(one),
    };
    parts.iter_mut().filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_there_and_back_is_the_same() {
        let ome = json!({
            "version": "0.5",
            "multiscales": [{"axes": [{"name": "y"}], "datasets": [{"path": "0"}]}],
            "omero": {"channels": []},
        });
        let mut attributes = to_0_4(&ome);
        assert_eq!(attributes["multiscales"][0]["version"], "0.4");
        assert!(!attributes.contains_key("version") && attributes["omero"].get("version").is_none());
        assert_eq!(from_0_4(&mut attributes, false), Ok(()));
        assert_eq!(Value::Object(attributes), json!({"ome": ome}));
    }

    #[test]
    fn what_is_not_of_ome_zarr_stays() {
        let mut attributes = Map::from_iter([("channels".to_owned(), json!(3))]);
        assert_eq!(from_0_4(&mut attributes, false), Ok(()));
        assert_eq!(Value::Object(attributes), json!({"channels": 3}));
    }
}
