//! What OME-Zarr 0.5 and 0.6 say in other words.
//!
//! Sources: OME-Zarr specification 0.6, "scene"; 0.5, "plate", "well" and "labels", whose parts have versions of their
//! own.

use serde_json::{Map, Value, json};

use super::conversion;
use crate::config::OmeVersion;
use crate::json::text;

/// The parts that 0.5 wants a version in, beside that of all of it.
const VERSIONED: [&str; 3] = ["plate", "well", "image-label"];

/// The version of what a group says in `ome`; `None` of a newer one, or none.
pub(crate) fn version(ome: &Value) -> Option<OmeVersion> {
    match text(&ome["version"])? {
        "0.5" => Some(OmeVersion::V0_5),
        // Candidates of it were written, too: 0.6.dev4, 0.6rc0.
        version if version.starts_with("0.6") => Some(OmeVersion::V0_6),
        _ => None,
    }
}

/// Says in the words of `to`, 0.5 or 0.6, what a group says in those of the other. Returns what `to` has no words for.
///
/// # Errors
///
/// What can't be said there and must not be left out, for a sentence about the group. Nothing has changed then.
pub(crate) fn convert(ome: &mut Value, to: OmeVersion) -> Result<Vec<String>, String> {
    if version(ome).is_none_or(|from| from == to) {
        return Ok(Vec::new());
    }
    let mut said = ome.clone();
    said["version"] = json!(to);
    let mut lost = conversion::convert(&mut said, to)?;
    if let Some(said) = said.as_object_mut() {
        put_versions(said, to);
        if to != OmeVersion::V0_6 && said.shift_remove("scene").is_some() {
            lost.push("a scene".to_owned());
        }
    }
    *ome = said;
    Ok(lost)
}

/// The version that a plate, a well and a label have of their own. 0.6 has none.
pub(crate) fn of_part(version: OmeVersion) -> Option<Value> {
    (version != OmeVersion::V0_6).then(|| json!(version))
}

/// Gives those parts the version that they have of their own.
pub(crate) fn put_versions(ome: &mut Map<String, Value>, version: OmeVersion) {
    for part in VERSIONED {
        let Some(part) = ome.get_mut(part).and_then(Value::as_object_mut) else { continue };
        part.shift_remove("version");
        part.extend(of_part(version).map(|version| ("version".to_owned(), version)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ome::grid::PixelGrid;
    use crate::ome::multiscales::{self, Multiscale, PHYSICAL};
    use OmeVersion::{V0_5, V0_6};

    fn axes(image: &Value) -> impl Iterator<Item = multiscales::AxisEntry<'_>> {
        Multiscale(image).axes()
    }

    fn ome() -> Value {
        let axes = json!([{"name": "y", "type": "space", "unit": "micrometer"}, {"name": "x", "type": "space"}]);
        let step = |factor: f64| json!({"type": "scale", "scale": [factor, factor]});
        let moved = json!({"type": "translation", "translation": [0.5, -8.0]});
        json!({
            "version": "0.5",
            "multiscales": [{
                "name": "a",
                "axes": axes,
                "datasets": [
                    {"path": "0", "coordinateTransformations": [step(1.0)]},
                    {"path": "1", "coordinateTransformations": [step(2.0), moved]},
                ],
                "type": "mean",
            }],
        })
    }

    #[test]
    fn an_image_in_0_6_is_placed_by_one_transformation_a_level() {
        let mut said = ome();
        assert_eq!(convert(&mut said, V0_6), Ok(Vec::new()));
        let image = &said["multiscales"][0];
        assert_eq!(said["version"], "0.6");
        assert_eq!(image["coordinateSystems"][0]["name"], PHYSICAL);
        assert!(axes(image).eq(axes(&ome()["multiscales"][0])));
        let ends = json!({"input": {"path": "1"}, "output": {"name": PHYSICAL}});
        let way = &image["datasets"][1]["coordinateTransformations"];
        assert_eq!(way.as_array().map(Vec::len), Some(1));
        assert_eq!(
            (&way[0]["type"], &way[0]["transformations"][1]["translation"]),
            (&json!("sequence"), &json!([0.5, -8.0]))
        );
        assert_eq!((&way[0]["input"], &way[0]["output"]), (&ends["input"], &ends["output"]));
        assert_eq!(image["datasets"][0]["coordinateTransformations"][0]["type"], "scale");
        assert_eq!(convert(&mut said, V0_5), Ok(Vec::new()));
        assert_eq!(said, ome());
    }

    #[test]
    fn what_all_levels_share_in_0_5_is_in_each_of_0_6() {
        let mut said = ome();
        said["multiscales"][0]["coordinateTransformations"] =
            json!([{"type": "scale", "scale": [10.0, 0.5]}, {"type": "translation", "translation": [1.0, 2.0]}]);
        convert(&mut said, V0_6).unwrap();
        assert!(said["multiscales"][0].get("coordinateTransformations").is_none());
        let image = multiscales::images(&said).next().unwrap();
        let grid = image.place(image.levels().nth(1).unwrap()).unwrap();
        // 0.5 × 10 + 1 and -8 × 0.5 + 2.
        assert_eq!(grid, PixelGrid { scale: vec![20.0, 1.0], translation: Some(vec![6.0, -2.0]) });
    }

    #[test]
    fn what_0_5_has_no_words_for_is_told() {
        let mut said = ome();
        convert(&mut said, V0_6).unwrap();
        said["scene"] = json!({"coordinateTransformations": []});
        said["multiscales"][0]["coordinateTransformations"] =
            json!([{"type": "identity", "input": {"name": PHYSICAL}, "output": {"path": "../b", "name": "b"}}]);
        let lost = ["further coordinate systems", "a scene"].map(str::to_owned);
        assert_eq!(convert(&mut said, V0_5), Ok(lost.to_vec()));
        assert_eq!(said, ome());
    }

    #[test]
    fn plates_wells_and_labels_have_versions_in_0_5_alone() {
        for part in VERSIONED {
            let mut said = json!({"version": "0.6"});
            said[part] = json!({"rows": []});
            convert(&mut said, V0_5).unwrap();
            assert_eq!(said[part]["version"], "0.5");
            convert(&mut said, V0_6).unwrap();
            assert_eq!(said[part], json!({"rows": []}));
        }
    }

    #[test]
    fn candidates_of_0_6_are_read_and_what_is_newer_is_left_alone() {
        assert_eq!(version(&json!({"version": "0.6rc0"})), Some(V0_6));
        let mut newer = json!({"version": "0.7", "multiscales": [{"axes": []}]});
        let before = newer.clone();
        convert(&mut newer, V0_5).unwrap();
        assert_eq!(newer, before);
    }
}
