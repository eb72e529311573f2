//! What OME-Zarr 0.5 and 0.6 say in other words: where an image's axes are, and how levels are placed.
//!
//! Sources: OME-Zarr specification 0.6, "coordinateSystems", "coordinateTransformations", "multiscales" and "scene";
//! 0.5, "plate", "well" and "labels", whose parts have versions of their own.

use serde_json::{Map, Value, json};

use super::grid::{PixelGrid, transformations};
use crate::config::OmeVersion;

/// What the coordinate system is called in which images are placed.
pub(crate) const PHYSICAL: &str = "physical";

/// The parts that 0.5 wants a version in, beside that of all of it.
const VERSIONED: [&str; 3] = ["plate", "well", "image-label"];

/// The axes of an image of any version.
pub(crate) fn axes(image: &Value) -> &[Value] {
    let list = |value: &'_ Value| value.is_array();
    let of = match image.get("axes").filter(|axes| list(axes)) {
        Some(axes) => Some(axes),
        None => coordinate_system(image).and_then(|name| system(image, name)?.get("axes")),
    };
    of.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Of an image of 0.6, the name of the coordinate system that all of its levels are placed in.
pub(crate) fn coordinate_system(image: &Value) -> Option<&str> {
    let first = image["coordinateSystems"].get(0)?["name"].as_str();
    let output = image.pointer("/datasets/0/coordinateTransformations/0/output");
    output.and_then(|output| output["name"].as_str()).or(first)
}

fn system<'a>(image: &'a Value, name: &str) -> Option<&'a Value> {
    image["coordinateSystems"].as_array()?.iter().find(|system| system["name"] == name)
}

/// The version of what a group says in `ome`; `None` of a newer one, or none.
pub(crate) fn version(ome: &Value) -> Option<OmeVersion> {
    match ome["version"].as_str()? {
        "0.5" => Some(OmeVersion::V0_5),
        // Candidates of it were written, too: 0.6.dev4, 0.6rc0.
        version if version.starts_with("0.6") => Some(OmeVersion::V0_6),
        _ => None,
    }
}

/// Says in the words of `to`, 0.5 or 0.6, what a group says in those of the other. Returns what `to` has no words for.
pub(crate) fn convert(ome: &mut Value, to: OmeVersion) -> Vec<&'static str> {
    if version(ome).is_none_or(|from| from == to) {
        return Vec::new();
    }
    let mut lost = Vec::new();
    ome["version"] = json!(to);
    for image in ome.get_mut("multiscales").and_then(Value::as_array_mut).into_iter().flatten() {
        match to {
            OmeVersion::V0_6 => lost.extend(to_0_6(image)),
            _ => lost.extend(to_0_5(image)),
        }
    }
    let Some(ome) = ome.as_object_mut() else { return lost };
    put_versions(ome, to);
    if to != OmeVersion::V0_6 && ome.shift_remove("scene").is_some() {
        lost.push("a scene");
    }
    lost
}

/// What of an image's places stands in an array rather than among the metadata: the kind of transformation and the
/// array's path.
pub(crate) fn by_path(ome: &Value) -> Option<(&str, &str)> {
    let images = ome.get("multiscales")?.as_array()?.iter();
    let parts = images.flat_map(|image| image["datasets"].as_array().into_iter().flatten().chain([image]));
    let mut steps = parts.flat_map(transformations);
    steps.find_map(|step| {
        let kind = step["type"].as_str().filter(|kind| step.get(*kind).is_none())?;
        Some((kind, step["path"].as_str()?))
    })
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

fn to_0_6(image: &mut Value) -> Option<&'static str> {
    let axes = axes(image).to_vec();
    let all: Vec<Value> = transformations(image).cloned().collect();
    let of_all = PixelGrid::read(&json!({"coordinateTransformations": &all}), axes.len()).ok();
    for dataset in datasets(image) {
        let Ok(grid) = PixelGrid::read(dataset, axes.len()) else { continue };
        let grid = of_all.as_ref().map_or(grid.clone(), |all| grid.then(all));
        let path = dataset["path"].as_str().unwrap_or_default();
        *dataset = grid.dataset(path, Some(PHYSICAL));
    }
    let image = image.as_object_mut()?;
    image.shift_remove("axes");
    image.shift_remove("coordinateTransformations");
    let systems = json!([{"name": PHYSICAL, "axes": axes}]);
    image.shift_insert(usize::from(image.contains_key("name")), "coordinateSystems".to_owned(), systems);
    (!all.is_empty() && of_all.is_none()).then_some("what places all levels of an image")
}

fn to_0_5(image: &mut Value) -> Option<&'static str> {
    let axes = axes(image).to_vec();
    for dataset in datasets(image) {
        let Ok(grid) = PixelGrid::read(dataset, axes.len()) else { continue };
        *dataset = grid.dataset(dataset["path"].as_str().unwrap_or_default(), None);
    }
    let image = image.as_object_mut()?;
    let others = image.shift_remove("coordinateSystems");
    let ways = image.shift_remove("coordinateTransformations");
    image.shift_insert(usize::from(image.contains_key("name")), "axes".to_owned(), json!(axes));
    let several = others.as_ref().and_then(Value::as_array).is_some_and(|systems| systems.len() > 1);
    (several || ways.is_some()).then_some("further coordinate systems")
}

fn datasets(image: &mut Value) -> impl Iterator<Item = &mut Value> {
    image.get_mut("datasets").and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use OmeVersion::{V0_5, V0_6};

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
        assert!(convert(&mut said, V0_6).is_empty());
        let image = &said["multiscales"][0];
        assert_eq!(said["version"], "0.6");
        assert_eq!(image["coordinateSystems"][0]["name"], PHYSICAL);
        assert_eq!(axes(image), axes(&ome()["multiscales"][0]));
        let ends = json!({"input": {"path": "1"}, "output": {"name": PHYSICAL}});
        let way = &image["datasets"][1]["coordinateTransformations"];
        assert_eq!(way.as_array().map(Vec::len), Some(1));
        assert_eq!(
            (&way[0]["type"], &way[0]["transformations"][1]["translation"]),
            (&json!("sequence"), &json!([0.5, -8.0]))
        );
        assert_eq!((&way[0]["input"], &way[0]["output"]), (&ends["input"], &ends["output"]));
        assert_eq!(image["datasets"][0]["coordinateTransformations"][0]["type"], "scale");
        assert!(convert(&mut said, V0_5).is_empty());
        assert_eq!(said, ome());
    }

    #[test]
    fn what_all_levels_share_in_0_5_is_in_each_of_0_6() {
        let mut said = ome();
        said["multiscales"][0]["coordinateTransformations"] =
            json!([{"type": "scale", "scale": [10.0, 0.5]}, {"type": "translation", "translation": [1.0, 2.0]}]);
        convert(&mut said, V0_6);
        let image = &said["multiscales"][0];
        assert!(image.get("coordinateTransformations").is_none());
        let grid = PixelGrid::read(&image["datasets"][1], 2).unwrap();
        // 0.5 × 10 + 1 and -8 × 0.5 + 2.
        assert_eq!(grid, PixelGrid { scale: vec![20.0, 1.0], translation: Some(vec![6.0, -2.0]) });
    }

    #[test]
    fn what_0_5_has_no_words_for_is_told() {
        let mut said = ome();
        convert(&mut said, V0_6);
        said["scene"] = json!({"coordinateTransformations": []});
        said["multiscales"][0]["coordinateTransformations"] = json!([{"type": "identity"}]);
        assert_eq!(convert(&mut said, V0_5), ["further coordinate systems", "a scene"]);
        assert_eq!(said, ome());
    }

    #[test]
    fn plates_wells_and_labels_have_versions_in_0_5_alone() {
        for part in VERSIONED {
            let mut said = json!({"version": "0.6"});
            said[part] = json!({"rows": []});
            convert(&mut said, V0_5);
            assert_eq!(said[part]["version"], "0.5");
            convert(&mut said, V0_6);
            assert_eq!(said[part], json!({"rows": []}));
        }
    }

    #[test]
    fn candidates_of_0_6_are_read_and_what_is_newer_is_left_alone() {
        assert_eq!(version(&json!({"version": "0.6rc0"})), Some(V0_6));
        let mut newer = json!({"version": "0.7", "multiscales": [{"axes": []}]});
        let before = newer.clone();
        convert(&mut newer, V0_5);
        assert_eq!(newer, before);
    }
}
