//! OME-Zarr's metadata in its versions 0.4, which stands in the attributes of Zarr v2, and 0.5 or 0.6, which stand in
//! their `ome`.
//!
//! Source: OME-Zarr specification 0.5, "Version history": the metadata moved below `ome`, which has the one version of
//! all of it.

use serde_json::{Map, Value, json};

use crate::config::OmeVersion;
use crate::ome::versions;

/// The keys that OME-Zarr has among the attributes of a group.
const KEYS: [&str; 7] = ["multiscales", "omero", "labels", "image-label", "plate", "well", "bioformats2raw.layout"];

/// What OME-Zarr 0.5 or 0.6 says in `ome`, as attributes of 0.4.
pub(crate) fn to_0_4(ome: &Value) -> Map<String, Value> {
    let mut ome = ome.clone();
    versions::convert(&mut ome, OmeVersion::V0_5);
    let mut attributes = ome.as_object().cloned().unwrap_or_default();
    attributes.shift_remove("version");
    for part in attributes.iter_mut().filter(|(key, _)| *key != "omero").flat_map(|(_, value)| parts(value)) {
        part.insert("version".to_owned(), json!("0.4"));
    }
    attributes
}

/// Moves what OME-Zarr 0.4 says among attributes to where 0.5 has it. What stands there already stays.
pub(crate) fn from_0_4(attributes: &mut Map<String, Value>) {
    if attributes.contains_key("ome") || !KEYS.iter().any(|key| attributes.contains_key(*key)) {
        return;
    }
    let mut ome = Map::from_iter([("version".to_owned(), json!("0.5"))]);
    for key in KEYS {
        let Some(mut value) = attributes.shift_remove(key) else { continue };
        parts(&mut value).for_each(|part| drop(part.shift_remove("version")));
        ome.insert(key.to_owned(), value);
    }
    versions::put_versions(&mut ome, OmeVersion::V0_5);
    attributes.insert("ome".to_owned(), Value::Object(ome));
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
    let (one, several) = match value {
        Value::Object(object) => (Some(object), None),
        Value::Array(array) => (None, Some(array.iter_mut().filter_map(Value::as_object_mut))),
        _ => (None, None),
    };
    one.into_iter().chain(several.into_iter().flatten())
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
        from_0_4(&mut attributes);
        assert_eq!(Value::Object(attributes), json!({"ome": ome}));
    }

    #[test]
    fn what_is_not_of_ome_zarr_stays() {
        let mut attributes = Map::from_iter([("channels".to_owned(), json!(3))]);
        from_0_4(&mut attributes);
        assert_eq!(Value::Object(attributes), json!({"channels": 3}));
    }
}
