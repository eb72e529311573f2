//! Where images of OME-Zarr 0.6 are beside each other: the tiles of a specimen, or the fields of a well, by the
//! positions of the stage. The group above the images says it, which of fields is that of the well.
//!
//! Source: OME-Zarr specification 0.6, "scene".

use serde_json::{Value, json};

use super::axes::incompatibility;
#[cfg(feature = "offline")]
use super::multiscales::{self, system_name};
use super::multiscales::{AxisEntry, PHYSICAL};
use crate::config::{Config, DimKind, OmeVersion};

/// What the coordinate system is called that the images share.
const WORLD: &str = "world";

/// An image that may be in a scene.
struct Tile<'a> {
    path: &'a str,
    /// What its coordinate system is called.
    system: Value,
    axes: Vec<Value>,
    is_placed: bool,
}

/// `attributes.ome.scene` of the group above these images, if it is of 0.6 and one of them says where it is.
pub(crate) fn scene<'a>(images: impl Iterator<Item = (&'a str, &'a Config)>) -> Option<Value> {
    let images: Vec<_> = images.filter(|(_, config)| incompatibility(&config.dims).is_none()).collect();
    let is_placed = |config: &Config| {
        let mut space = config.dims.iter().filter(|dim| dim.kind == DimKind::Space);
        space.any(|dim| dim.translation != 0.0)
    };
    // There may be many images, and mostly none is.
    let is_scene = images.iter().any(|(_, config)| is_placed(config));
    if !is_scene || images.iter().any(|(_, config)| config.ome != OmeVersion::V0_6) {
        return None;
    }
    let tile = |(path, config): (&'a str, &Config)| Tile {
        path,
        system: json!(PHYSICAL),
        axes: config.dims.iter().map(|dim| AxisEntry::of(dim).render()).collect(),
        is_placed: is_placed(config),
    };
    of_tiles(&images.into_iter().map(tile).collect::<Vec<_>>())
}

/// The same by what the groups of the images say in `ome`.
#[cfg(feature = "offline")]
pub(crate) fn scene_of_groups<'a>(images: impl Iterator<Item = (&'a str, &'a Value)>) -> Option<Value> {
    let tile = |(path, ome): (&'a str, &'a Value)| {
        let image = multiscales::images(ome).next()?;
        let place = image.place(image.levels().next()?).ok()?;
        let moves = place.translation.into_iter().flatten();
        let is_placed = image.axes().zip(moves).any(|(axis, by)| axis.kind == Some(DimKind::Space) && by != 0.0);
        let axes = image.axes().map(AxisEntry::render).collect();
        Some(Tile { path, system: system_name(&image.output()?).clone(), axes, is_placed })
    };
    of_tiles(&images.filter_map(tile).collect::<Vec<_>>())
}

/// An image's own coordinate system is already that of the stage, because it has the translation: each is the world as
/// it is. Those whose axes differ from those of the first that is placed can't be, and are left out.
fn of_tiles(tiles: &[Tile<'_>]) -> Option<Value> {
    let world = &tiles.iter().find(|tile| tile.is_placed)?.axes;
    let way = |tile: &Tile<'_>| {
        let (input, output) = (json!({"path": tile.path, "name": tile.system}), json!({"name": WORLD}));
        json!({"type": "identity", "input": input, "output": output})
    };
    Some(json!({
        "coordinateTransformations": tiles.iter().filter(|tile| tile.axes == *world).map(way).collect::<Vec<_>>(),
        "coordinateSystems": [{"name": WORLD, "axes": world}],
    }))
}

/// Takes images out of a scene that are not to be kept, by their paths.
#[cfg(feature = "offline")]
pub(crate) fn keep_in_scene(ome: &mut Value, keeps: &dyn Fn(&str) -> bool) {
    let Some(ways) = ome.pointer_mut("/scene/coordinateTransformations").and_then(Value::as_array_mut) else { return };
    let is_kept = |way: &Value, end: &str| way.pointer(end).and_then(Value::as_str).is_none_or(keeps);
    ways.retain(|way| ["/input/path", "/output/path"].iter().all(|end| is_kept(way, end)));
    // A list of nothing is not allowed.
    if ways.is_empty() {
        ome.as_object_mut().map(|ome| ome.shift_remove("scene"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Dim;

    fn tile(x: f64, ome: OmeVersion) -> Config {
        let dims = vec![Dim::time(None), Dim::y(4).scale(0.5, "micrometer"), Dim::x(4).translation(x)];
        Config { dims, ome, ..Config::default() }
    }

    #[test]
    fn tiles_share_the_world_of_the_first_that_is_placed() {
        let mut flat = tile(7.0, OmeVersion::V0_6);
        flat.dims.remove(0);
        let tiles = [("a", tile(0.0, OmeVersion::V0_6)), ("b", tile(2.0, OmeVersion::V0_6)), ("flat", flat)];
        let said = scene(tiles.iter().map(|(name, config)| (*name, config))).unwrap();
        let ways = said["coordinateTransformations"].as_array().unwrap();
        let paths: Vec<_> = ways.iter().map(|way| way["input"]["path"].as_str().unwrap()).collect();
        assert_eq!(paths, ["a", "b"]);
        assert_eq!(ways[0]["output"]["name"], said["coordinateSystems"][0]["name"]);
        assert_eq!(said["coordinateSystems"][0]["axes"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    #[cfg(feature = "offline")]
    fn images_that_are_not_kept_are_in_no_scene() {
        let tiles = [("0", tile(1.0, OmeVersion::V0_6)), ("1", tile(2.0, OmeVersion::V0_6))];
        let mut said = json!({"scene": scene(tiles.iter().map(|(name, config)| (*name, config)))});
        keep_in_scene(&mut said, &|path| path != "0");
        let ways = said["scene"]["coordinateTransformations"].as_array().unwrap();
        assert_eq!((ways.len(), &ways[0]["input"]["path"]), (1, &json!("1")));
        keep_in_scene(&mut said, &|_| false);
        assert_eq!(said, json!({}));
    }

    #[test]
    fn images_that_nobody_placed_and_those_of_0_5_have_no_scene() {
        let none = |config: Config| scene([("a", &config), ("b", &config)].into_iter()).is_none();
        assert!(none(tile(0.0, OmeVersion::V0_6)));
        assert!(none(tile(3.0, OmeVersion::V0_5)));
    }
}
