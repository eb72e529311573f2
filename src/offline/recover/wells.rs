//! What a plate lists: a writer names wells when their first image begins, and takes back at its end those to which
//! nothing came. One that was killed could not.
//!
//! Source: OME-Zarr specification 0.5, "plate" and "well".

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::documents::{DocumentChange, edit};
use super::image::ImagePlan;
use crate::error::Result;
use crate::offline::hierarchy::below;
use crate::offline::hierarchy::walk::Tree;

/// Takes images without any frame out of the lists of wells, and wells without any other out of the plate's.
pub(super) fn changes(root: &Path, tree: &Tree, images: &[ImagePlan], changes: &mut Vec<DocumentChange>) -> Result<()> {
    let Some(plate) = tree.group("").filter(|group| group.attributes.pointer("/ome/plate").is_some()) else {
        return Ok(());
    };
    let has_none = |plan: &&ImagePlan| plan.is_incomplete() && plan.frames.end == plan.frames.missing_count;
    let empty: Vec<&str> = images.iter().filter(has_none).map(|plan| plan.image.group.name.as_str()).collect();
    if empty.is_empty() {
        return Ok(());
    }
    // The fields that are left, by wells.
    let mut left: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for well in list(&plate.attributes, "/ome/plate/wells") {
        let Some(path) = well["path"].as_str() else { continue };
        let Some(group) = tree.group(path) else { continue };
        let mut fields = list(&group.attributes, "/ome/well/images").to_vec();
        let is_empty =
            |field: &Value| field["path"].as_str().is_some_and(|field| empty.contains(&&*below(path, field)));
        fields.retain(|field| !is_empty(field));
        left.insert(path.to_owned(), fields);
    }
    // A list of nothing is not allowed.
    if left.values().all(Vec::is_empty) {
        return Ok(());
    }
    for (path, fields) in left.iter().filter(|(_, fields)| !fields.is_empty()) {
        let Some(group) = tree.group(path) else { continue };
        edit(root, &group.document, changes, |document| {
            document["attributes"]["ome"]["well"]["images"] = json!(fields)
        })?;
    }
    edit(root, &plate.document, changes, |document| {
        tell(&mut document["attributes"]["ome"]["plate"], &left);
    })
}

/// Lets a plate tell of the wells in which something is left.
fn tell(plate: &mut Value, left: &BTreeMap<String, Vec<Value>>) {
    let fields = |well: &Value| well["path"].as_str().and_then(|path| left.get(path));
    if let Some(wells) = plate["wells"].as_array_mut() {
        wells.retain(|well| fields(well).is_none_or(|fields| !fields.is_empty()));
    }
    let most = |counts: &dyn Fn(&Value) -> bool| {
        left.values().map(|fields| fields.iter().filter(|field| counts(field)).count()).max().unwrap_or(0)
    };
    plate["field_count"] = json!(most(&|_| true));
    for acquisition in plate.get_mut("acquisitions").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(acquisition) = acquisition.as_object_mut() else { continue };
        let id = acquisition.get("id").cloned();
        match most(&|field| field.get("acquisition") == id.as_ref()) {
            0 => drop(acquisition.shift_remove("maximumfieldcount")),
            count => drop(acquisition.insert("maximumfieldcount".to_owned(), json!(count))),
        }
    }
}

fn list<'a>(attributes: &'a Value, pointer: &str) -> &'a [Value] {
    attributes.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plate_counts_what_is_left_of_its_wells() {
        let field = |path: &str, id: u64| json!({"path": path, "acquisition": id});
        let well = |path: &str| json!({"path": path});
        let mut plate = json!({
            "wells": [well("A/1"), well("A/2"), well("B/1")],
            "field_count": 3,
            "acquisitions": [{"id": 4, "maximumfieldcount": 2}, {"id": 7, "maximumfieldcount": 1}],
        });
        let left = [("A/1", vec![field("0", 4), field("1", 4)]), ("A/2", vec![]), ("B/1", vec![field("0", 4)])];
        tell(&mut plate, &left.map(|(path, fields)| (path.to_owned(), fields)).into());
        let expected = json!({
            "wells": [well("A/1"), well("B/1")],
            "field_count": 2,
            "acquisitions": [{"id": 4, "maximumfieldcount": 2}, {"id": 7}],
        });
        assert_eq!(plate, expected);
    }
}
