//! What a group says of its images in `multiscales`, in both directions: their axes, their levels, and where the pixels
//! of these are.
//!
//! Sources: OME-Zarr specifications 0.4 to 0.6, "multiscales", "axes", "coordinateTransformations" and
//! "coordinateSystems". What others wrote goes on with all that it says: what is read here is a view of a document.
#![cfg_attr(not(feature = "offline"), allow(dead_code))]

use serde_json::{Map, Value, json};

use super::grid::PixelGrid;
use super::placement;
use crate::config::{Dim, DimKind, Downsampling, OmeVersion};
use crate::downsample::Method;
use crate::json::{put_known, text};
use crate::words::quoted;

/// What the coordinate system is called in which 0.6 places images.
pub(super) const PHYSICAL: &str = "physical";
/// Who makes levels: the writer while frames come, and the tool afterwards.
pub(crate) const WRITER: &str = "shardwright";
pub(crate) const PYRAMID: &str = "shardwright pyramid";
const KEY: &str = "multiscales";
pub(super) const TRANSFORMATIONS: &str = "coordinateTransformations";
pub(super) const SYSTEMS: &str = "coordinateSystems";
/// More transformations of one level than this tell no reader anything.
const MANY_WAYS: usize = 64;

/// An image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Multiscale<'a>(pub(super) &'a Value);

/// One level of an image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dataset<'a>(&'a Value);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AxisEntry<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) kind: Option<DimKind>,
    pub(crate) unit: Option<&'a str>,
}

/// What a group says of OME-Zarr: in `ome` since 0.5, and among its other attributes before.
pub(crate) fn ome_of(attributes: &Value) -> &Value {
    attributes.get("ome").unwrap_or(attributes)
}

pub(crate) fn images(ome: &Value) -> impl Iterator<Item = Multiscale<'_>> {
    list(ome, KEY).iter().map(Multiscale)
}

/// The path of the first level of the first image.
pub(crate) fn first_path(ome: &Value) -> Option<&str> {
    images(ome).next()?.levels().next()?.path()
}

impl<'a> Multiscale<'a> {
    pub(crate) fn name(self) -> Option<&'a str> {
        text(&self.0["name"]).filter(|name| !name.is_empty())
    }

    pub(crate) fn axes(self) -> impl ExactSizeIterator<Item = AxisEntry<'a>> {
        self.axis_values().iter().map(AxisEntry::parse)
    }

    pub(super) fn axis_values(self) -> &'a [Value] {
        let of_system = || self.system()?.get("axes")?.as_array();
        self.0["axes"].as_array().or_else(of_system).map_or(&[], Vec::as_slice)
    }

    /// Of an image of 0.6, the coordinate system that its levels are placed in.
    pub(super) fn system(self) -> Option<&'a Value> {
        let output = self.output()?;
        list(self.0, SYSTEMS).iter().find(|system| system["name"] == *system_name(&output))
    }

    /// Of an image of 0.6, how its levels name that: as the first of them does, or by the name of the first system.
    pub(crate) fn output(self) -> Option<Value> {
        let first = list(self.0, SYSTEMS).first()?;
        let said = || {
            let level = self.levels().next()?;
            self.own_ways(level).last()?.get("output").filter(|output| !system_name(output).is_null()).cloned()
        };
        said().or_else(|| Some(json!({"name": first["name"]})))
    }

    /// How the levels were made, if `by` says as in [`describe_levels`] that it made them.
    pub(crate) fn method(self, by: &str) -> Option<Method> {
        let is_own = self.0["metadata"]["method"] == by;
        text(&self.0["type"]).filter(|_| is_own).and_then(|name| name.parse().ok())
    }

    /// The same with all that [`describe_levels`] says of how they were made, and as many levels as there are.
    pub(crate) fn downsampling(self, by: &str) -> Option<Downsampling> {
        let said = &self.0["metadata"]["kwargs"];
        let halves = |name: &str| said[name] != "never";
        let depth = text(&said["z"]).and_then(|name| name.parse().ok()).unwrap_or_default();
        let levels = Some(self.levels().count().saturating_sub(1).max(1));
        Some(Downsampling { method: self.method(by)?, levels, y: halves("y"), x: halves("x"), depth })
    }

    /// The levels, the finest first.
    pub(crate) fn levels(self) -> impl Iterator<Item = Dataset<'a>> {
        list(self.0, "datasets").iter().map(Dataset)
    }

    /// Where the pixels of a level are: where nobody says it, at a distance of 1 from 0 on.
    ///
    /// # Errors
    ///
    /// How they are placed, for a sentence about the level, where that is no scale and translation of each axis.
    pub(crate) fn place(self, level: Dataset<'_>) -> Result<PixelGrid, String> {
        let place = || placement::compose(&placement::in_order(self.ways(level)?), self.axes().len());
        place().map_err(|way| format!("level {} is placed by {way}", quoted(level.path().unwrap_or_default())))
    }

    /// The same in two: by what is said of the level, and by what is said of all levels and comes after that.
    pub(crate) fn place_in_two(self, level: Dataset<'_>) -> Result<(PixelGrid, PixelGrid), String> {
        self.place(level)?;
        let compose = |ways| placement::compose(&placement::in_order(ways), self.axes().len());
        Ok((compose(self.ways_of_one(level)?)?, compose(self.ways_of_all().collect())?))
    }

    /// Whether it is said where the pixels of a level are.
    pub(crate) fn is_placed(self, level: Dataset<'_>) -> bool {
        self.ways(level).map_or(true, |ways| !ways.is_empty())
    }

    /// The transformations from the elements of a level to the coordinates of the image, in their order.
    pub(super) fn ways(self, level: Dataset<'a>) -> Result<Vec<&'a Value>, String> {
        Ok(self.ways_of_one(level)?.into_iter().chain(self.ways_of_all()).collect())
    }

    /// Those of all levels that name no systems: they come after what is said of one level.
    fn ways_of_all(self) -> impl Iterator<Item = &'a Value> {
        list(self.0, TRANSFORMATIONS).iter().filter(|way| way["input"].is_null() && way["output"].is_null())
    }

    /// Those that lead from the elements of a level on, from system to system.
    fn ways_of_one(self, level: Dataset<'a>) -> Result<Vec<&'a Value>, String> {
        let mut ways = self.own_ways(level);
        let of_all = list(self.0, TRANSFORMATIONS);
        if let Some(output) = self.output() {
            let wanted = system_name(&output);
            let input = ways.first().and_then(|way| text(&way["input"]["path"]));
            if let Some(other) = input.filter(|path| Some(*path) != level.path()) {
                return Err(format!("a transformation that begins at the array {}", quoted(other)));
            }
            for pair in ways.windows(2) {
                let (here, next) = (system_name(&pair[0]["output"]), system_name(&pair[1]["input"]));
                if !pair[1]["input"].is_null() && here != next {
                    return Err(format!("several transformations, of which {} does not go on from the last", pair[1]));
                }
            }
            // Those of all levels lead on from one system to another; a level may be placed in one on the way.
            while let Some(at) = ways.last().map(|way| system_name(&way["output"])).filter(|at| !at.is_null())
                && at != wanted
            {
                let next = of_all.iter().find(|way| system_name(&way["input"]) == at);
                match next.filter(|_| ways.len() <= of_all.len() + MANY_WAYS) {
                    Some(next) => ways.push(next),
                    None => return Err(format!("a way to the coordinate system {at}, and none leads on to {wanted}")),
                }
            }
        }
        Ok(ways)
    }

    /// Those that begin at a level's array: its own, or one of all levels that says so.
    fn own_ways(self, level: Dataset<'a>) -> Vec<&'a Value> {
        let own = list(level.0, TRANSFORMATIONS);
        let begins = |way: &&Value| {
            let path = text(&way["input"]).or_else(|| text(&way["input"]["path"]));
            path.is_some() && path == level.path() && way["input"]["name"].is_null()
        };
        match own {
            [] => list(self.0, TRANSFORMATIONS).iter().find(begins).into_iter().collect(),
            own => own.iter().collect(),
        }
    }
}

impl<'a> Dataset<'a> {
    pub(crate) fn path(self) -> Option<&'a str> {
        text(&self.0["path"])
    }

    /// How many numbers each scale among its own transformations has.
    pub(crate) fn scales(self) -> Vec<usize> {
        let ways = placement::in_order(list(self.0, TRANSFORMATIONS)).into_iter();
        ways.filter(|way| way["type"] == "scale").filter_map(|way| Some(way["scale"].as_array()?.len())).collect()
    }
}

/// The coordinate system that an end of a transformation names. In candidates of 0.6, an end was its name.
pub(super) fn system_name(end: &Value) -> &Value {
    if end.is_string() { end } else { &end["name"] }
}

impl<'a> AxisEntry<'a> {
    pub(crate) fn of(dim: &'a Dim) -> Self {
        let unit = dim.unit.as_deref().filter(|unit| !unit.is_empty());
        Self { name: Some(&dim.name), kind: Some(dim.kind), unit }
    }

    fn parse(axis: &'a Value) -> Self {
        let kind = text(&axis["type"]).and_then(|kind| kind.parse().ok());
        let kind = kind.filter(|kind| *kind != DimKind::Other);
        // In 0.3, an axis was its name.
        Self { name: text(axis).or_else(|| text(&axis["name"])), kind, unit: text(&axis["unit"]) }
    }

    pub(super) fn render(self) -> Value {
        let mut axis = json!({"name": self.name});
        // A custom axis is one whose type is left out.
        let kind = self.kind.filter(|kind| *kind != DimKind::Other);
        put_known(&mut axis, [("type", json!(kind)), ("unit", json!(self.unit))]);
        axis
    }
}

/// An image with these levels, the finest first, each with its path.
pub(crate) fn image<'a>(
    version: OmeVersion,
    name: Option<&str>,
    axes: impl Iterator<Item = AxisEntry<'a>>,
    levels: impl Iterator<Item = (&'a str, &'a PixelGrid)>,
) -> Map<String, Value> {
    let output = output_of(version);
    let mut image: Map<_, _> = name.map(|name| ("name".to_owned(), json!(name))).into_iter().collect();
    put_axes(&mut image, axes.map(AxisEntry::render).collect(), version);
    let levels = levels.map(|(path, grid)| dataset(path, grid, output.as_ref()));
    image.insert("datasets".to_owned(), levels.collect());
    image
}

/// What is said of a level. `output`: of 0.6, how the coordinate system is named that it is placed in.
pub(crate) fn dataset(path: &str, grid: &PixelGrid, output: Option<&Value>) -> Value {
    json!({"path": path, TRANSFORMATIONS: placed(path, placement::plain(grid), output)})
}

/// The transformations of a level of which these are the steps.
pub(super) fn placed(path: &str, mut steps: Vec<Value>, output: Option<&Value>) -> Value {
    if let Some(output) = output {
        let mut one = match steps.len() {
            1 => steps.swap_remove(0),
            _ => json!({"type": "sequence", "transformations": steps}),
        };
        one["input"] = if output.is_string() { json!(path) } else { json!({"path": path}) };
        one["output"] = output.clone();
        steps = vec![one];
    }
    Value::Array(steps)
}

/// Takes levels out whose paths are not kept, and images that have none left. Whether that leaves no image.
pub(crate) fn retain_levels(ome: &mut Value, is_kept: impl Fn(&str) -> bool) -> bool {
    let Some(images) = images_mut(ome).filter(|images| !images.is_empty()) else { return false };
    images.retain_mut(|image| {
        let Some(levels) = image.get_mut("datasets").and_then(Value::as_array_mut) else { return true };
        levels.retain(|level| Dataset(level).path().is_none_or(&is_kept));
        !levels.is_empty()
    });
    images.is_empty()
}

/// Lets the images speak of nothing but the level that is meant, which will be called `0`. Returns whether they speak
/// of it at all; otherwise nothing changes.
pub(crate) fn reduce_to_level(ome: &mut Value, is_meant: impl Fn(&str) -> bool) -> bool {
    let find = |image: &Value| {
        Multiscale(image).levels().find(|level| level.path().is_some_and(&is_meant)).map(|it| it.0.clone())
    };
    let Some(images) = images_mut(ome).filter(|images| images.iter().any(|image| find(image).is_some())) else {
        return false;
    };
    images.retain_mut(|image| {
        let Some(mut level) = find(image) else { return false };
        call_by(&mut level, "0");
        image["datasets"] = json!([level]);
        true
    });
    true
}

/// Gives a level another path, by which its transformations name its array, too.
fn call_by(level: &mut Value, path: &str) {
    let old = std::mem::replace(&mut level["path"], json!(path));
    for way in level.get_mut(TRANSFORMATIONS).and_then(Value::as_array_mut).into_iter().flatten() {
        for pointer in ["/input", "/input/path"] {
            if let Some(said) = way.pointer_mut(pointer).filter(|said| **said == old) {
                *said = json!(path);
            }
        }
    }
}

/// The first image of a group, with these behind its finest level.
pub(crate) fn replace_levels(ome: &mut Value, levels: impl Iterator<Item = Value>) -> Option<&mut Map<String, Value>> {
    let image = images_mut(ome)?.first_mut()?.as_object_mut()?;
    if let Some(datasets) = image.get_mut("datasets").and_then(Value::as_array_mut) {
        datasets.truncate(1);
        datasets.extend(levels);
    }
    Some(image)
}

/// Lets the first image have its levels' pixels at these places. `changed`: the axes whose unit is another one by that.
pub(crate) fn replace_places(ome: &mut Value, grids: &[PixelGrid], changed: &[usize], unit: &str) {
    let Some(image) = images_mut(ome).and_then(|images| images.first_mut()) else { return };
    if Multiscale(image).levels().any(|level| !level.0.is_object()) {
        return;
    }
    let output = Multiscale(image).output();
    let datasets = Multiscale(image).levels().zip(grids).map(|(level, grid)| {
        let mut level = level.0.clone();
        let path = text(&level["path"]).unwrap_or_default();
        level[TRANSFORMATIONS] = placed(path, placement::plain(grid), output.as_ref());
        level
    });
    let datasets = datasets.collect();
    let mut axes = Multiscale(image).axis_values().to_vec();
    changed.iter().for_each(|&at| axes[at]["unit"] = json!(unit));
    // What was said of all levels, or of other systems, is said of where they were.
    if let Some(image) = image.as_object_mut() {
        image.shift_remove(TRANSFORMATIONS);
    }
    let system = output.as_ref().map(|output| system_name(output).clone());
    let systems = image.get_mut(SYSTEMS).and_then(Value::as_array_mut).into_iter().flatten();
    match systems.into_iter().find(|of| system.as_ref() == Some(&of["name"])) {
        Some(system) => system["axes"] = Value::Array(axes),
        None => image["axes"] = Value::Array(axes),
    }
    image["datasets"] = datasets;
}

/// Says in an entry of `multiscales` how its levels were made, and by what.
pub(crate) fn describe_levels(multiscale: &mut Map<String, Value>, downsampling: &Downsampling, by: &str) {
    multiscale.insert("type".to_owned(), json!(downsampling.method));
    let metadata = multiscale.entry("metadata").or_insert_with(|| json!({}));
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata["description"] =
        json!("Each level is made of the one before: of two rows, columns, and perhaps planes, one");
    metadata["method"] = json!(by);
    metadata["version"] = json!(env!("CARGO_PKG_VERSION"));
    metadata["kwargs"] = json!({"method": downsampling.method, "z": downsampling.depth});
    for (name, is_halved) in [("y", downsampling.y), ("x", downsampling.x)] {
        if !is_halved {
            metadata["kwargs"][name] = json!("never");
        }
    }
}

/// How levels of a version name the coordinate system that they are placed in.
pub(super) fn output_of(version: OmeVersion) -> Option<Value> {
    (version == OmeVersion::V0_6).then(|| json!({"name": PHYSICAL}))
}

pub(super) fn put_axes(image: &mut Map<String, Value>, axes: Value, version: OmeVersion) {
    let at = usize::from(image.contains_key("name"));
    match version {
        OmeVersion::V0_6 => image.shift_insert(at, SYSTEMS.to_owned(), json!([{"name": PHYSICAL, "axes": axes}])),
        _ => image.shift_insert(at, "axes".to_owned(), axes),
    };
}

pub(super) fn images_mut(ome: &mut Value) -> Option<&mut Vec<Value>> {
    ome.get_mut(KEY)?.as_array_mut()
}

/// What stands in a list; nothing where there is none.
pub(crate) fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of[key].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_rendered_is_read_again() {
        let axis = AxisEntry { name: Some("z"), kind: Some(DimKind::Space), unit: None };
        for translation in [None, Some(vec![1.0, 0.0, 1e-9])] {
            let grid = PixelGrid { scale: vec![2.0, 0.5, 0.25], translation };
            for version in [OmeVersion::V0_5, OmeVersion::V0_6] {
                let said = Value::Object(image(version, None, [axis; 3].into_iter(), [("0", &grid)].into_iter()));
                let image = Multiscale(&said);
                assert_eq!(image.place(image.levels().next().unwrap()).as_ref(), Ok(&grid));
            }
        }
    }

    #[test]
    fn an_axis_that_is_rendered_is_read_again() {
        let axis = AxisEntry { name: Some("z"), kind: Some(DimKind::Space), unit: Some("micrometer") };
        for axis in [axis, AxisEntry { unit: None, ..axis }, AxisEntry { kind: None, ..axis }] {
            assert_eq!(AxisEntry::parse(&axis.render()), axis);
        }
        assert_eq!(AxisEntry::parse(&json!("t")).name, Some("t"));
    }

    #[test]
    fn levels_are_taken_out_with_images_that_have_no_other() {
        let said = || json!({KEY: [{"datasets": [{"path": "0"}, {"path": "1"}]}, {"datasets": [{"path": "2"}]}, {}]});
        let mut left = said();
        assert!(!retain_levels(&mut left, |path| path == "1"));
        assert_eq!(left, json!({KEY: [{"datasets": [{"path": "1"}]}, {}]}));
        let mut only = said();
        assert!(reduce_to_level(&mut only, |path| path == "2"));
        assert_eq!(only, json!({KEY: [{"datasets": [{"path": "0"}]}]}));
        assert!(!reduce_to_level(&mut only, |path| path == "2"));
        assert!(retain_levels(&mut only, |_| false));
    }
}
