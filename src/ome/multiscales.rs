//! What a group says of its images in `multiscales`, in both directions: their axes, their levels, and where the pixels
//! of these are.
//!
//! Sources: OME-Zarr specifications 0.4 to 0.6, "multiscales", "axes", "coordinateTransformations" and
//! "coordinateSystems". What others wrote goes on with all that it says: what is read here is a view of a document.
#![cfg_attr(not(feature = "offline"), allow(dead_code))]

use serde_json::{Map, Value, json};

use super::grid::PixelGrid;
use crate::config::{Dim, DimKind, Downsampling, OmeVersion};
use crate::downsample::Method;

/// What the coordinate system is called in which 0.6 places images.
pub(super) const PHYSICAL: &str = "physical";
/// Who makes levels: the writer while frames come, and the tool afterwards.
pub(crate) const WRITER: &str = "shardwright";
pub(crate) const PYRAMID: &str = "shardwright pyramid";
const KEY: &str = "multiscales";
const TRANSFORMATIONS: &str = "coordinateTransformations";
const SYSTEMS: &str = "coordinateSystems";

/// An image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Multiscale<'a>(pub(super) &'a Value);

/// One level of an image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dataset<'a>(&'a Value);

/// A dimension of an image.
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

/// The images of a group.
pub(crate) fn images(ome: &Value) -> impl Iterator<Item = Multiscale<'_>> {
    list(ome, KEY).iter().map(Multiscale)
}

/// The path of the first level of the first image.
pub(crate) fn first_path(ome: &Value) -> Option<&str> {
    images(ome).next()?.levels().next()?.path()
}

impl<'a> Multiscale<'a> {
    pub(crate) fn name(self) -> Option<&'a str> {
        self.0["name"].as_str().filter(|name| !name.is_empty())
    }

    pub(crate) fn axes(self) -> impl ExactSizeIterator<Item = AxisEntry<'a>> {
        self.axis_values().iter().map(AxisEntry::parse)
    }

    fn axis_values(self) -> &'a [Value] {
        let system = || {
            let name = self.system()?;
            list(self.0, SYSTEMS).iter().find(|system| system["name"] == name)?.get("axes")?.as_array()
        };
        self.0["axes"].as_array().or_else(system).map_or(&[], Vec::as_slice)
    }

    /// Of an image of 0.6, the name of the coordinate system that all of its levels are placed in.
    pub(crate) fn system(self) -> Option<&'a str> {
        let first = list(self.0, SYSTEMS).first()?["name"].as_str();
        let output = self.levels().next().and_then(|level| list(level.0, TRANSFORMATIONS).first()?.get("output"));
        output.and_then(|output| output["name"].as_str()).or(first)
    }

    /// How the levels were made, if `by` says as in [`describe_levels`] that it made them.
    pub(crate) fn method(self, by: &str) -> Option<Method> {
        let is_own = self.0["metadata"]["method"] == by;
        self.0["type"].as_str().filter(|_| is_own).and_then(|name| name.parse().ok())
    }

    /// The levels, the finest first.
    pub(crate) fn levels(self) -> impl Iterator<Item = Dataset<'a>> {
        list(self.0, "datasets").iter().map(Dataset)
    }

    /// Where the pixels of a level are, as far as that is said: what nobody says is a distance of 1 from 0 on.
    pub(crate) fn place(self, level: Dataset<'_>) -> PixelGrid {
        let dims = self.axes().len();
        // What is said of all levels comes after what is said of one. What 0.6 has there leads on, to other systems.
        if self.system().is_some() {
            level.known_grid(dims)
        } else {
            level.known_grid(dims).then(&Dataset(self.0).known_grid(dims))
        }
    }
}

impl<'a> Dataset<'a> {
    pub(crate) fn path(self) -> Option<&'a str> {
        self.0["path"].as_str()
    }

    /// Where its pixels are, if that is said as [`dataset`] says it.
    pub(crate) fn grid(self, dims: usize) -> Result<PixelGrid, String> {
        let steps: Vec<_> = transformations(self.0).collect();
        let numbers = |kind: &str| {
            let numbers = steps.iter().find(|step| step["type"] == kind)?[kind].as_array()?;
            numbers.iter().map(number).collect::<Option<Vec<f64>>>().filter(|numbers| numbers.len() == dims)
        };
        if let [only] = steps[..]
            && only["type"] == "identity"
        {
            return Ok(PixelGrid { scale: vec![1.0; dims], translation: None });
        }
        let (scale, translation) = (numbers("scale"), numbers("translation"));
        match (scale, steps.len(), translation.is_some()) {
            (Some(scale), 1, false) | (Some(scale), 2, true) => Ok(PixelGrid { scale, translation }),
            _ => Err(format!(
                "the {TRANSFORMATIONS} {}; expected a scale of {dims} numbers, and perhaps a translation after it",
                self.0[TRANSFORMATIONS]
            )),
        }
    }

    /// The same as far as it is said: a distance of 1 where nothing is.
    pub(crate) fn known_grid(self, dims: usize) -> PixelGrid {
        let numbers = |key: &str, default: f64| {
            let said = transformations(self.0).find_map(|step| step[key].as_array())?;
            Some((0..dims).map(|at| said.get(at).and_then(number).unwrap_or(default)).collect())
        };
        let scale = numbers("scale", 1.0).unwrap_or_else(|| vec![1.0; dims]);
        PixelGrid { scale, translation: numbers("translation", 0.0) }
    }
}

impl<'a> AxisEntry<'a> {
    pub(super) fn of(dim: &'a Dim) -> Self {
        let unit = dim.unit.as_deref().filter(|unit| !unit.is_empty());
        Self { name: Some(&dim.name), kind: Some(dim.kind), unit }
    }

    fn parse(axis: &'a Value) -> Self {
        let kind = match axis["type"].as_str() {
            Some("time") => Some(DimKind::Time),
            Some("channel") => Some(DimKind::Channel),
            Some("space") => Some(DimKind::Space),
            _ => None,
        };
        // In 0.3, an axis was its name.
        Self { name: axis.as_str().or_else(|| axis["name"].as_str()), kind, unit: axis["unit"].as_str() }
    }

    pub(super) fn render(self) -> Value {
        let mut axis = json!({"name": self.name});
        let kind = match self.kind {
            Some(DimKind::Time) => Some("time"),
            Some(DimKind::Channel) => Some("channel"),
            Some(DimKind::Space) => Some("space"),
            // A custom axis is one whose type is left out.
            Some(DimKind::Other) | None => None,
        };
        for (key, text) in [("type", kind), ("unit", self.unit)] {
            if let Some(text) = text {
                axis[key] = json!(text);
            }
        }
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
    let system = system_of(version);
    let mut image: Map<_, _> = name.map(|name| ("name".to_owned(), json!(name))).into_iter().collect();
    put_axes(&mut image, axes.map(AxisEntry::render).collect(), system);
    image.insert("datasets".to_owned(), levels.map(|(path, grid)| dataset(path, grid, system)).collect());
    image
}

/// What is said of a level. `system`: of 0.6, the coordinate system that it is placed in.
pub(crate) fn dataset(path: &str, grid: &PixelGrid, system: Option<&str>) -> Value {
    let mut steps = vec![json!({"type": "scale", "scale": grid.scale})];
    if let Some(translation) = &grid.translation {
        steps.push(json!({"type": "translation", "translation": translation}));
    }
    if let Some(system) = system {
        let mut one = match steps.len() {
            1 => steps.swap_remove(0),
            _ => json!({"type": "sequence", "transformations": steps}),
        };
        one["input"] = json!({"path": path});
        one["output"] = json!({"name": system});
        steps = vec![one];
    }
    json!({"path": path, TRANSFORMATIONS: steps})
}

/// Says of the images in another version what they say in theirs. Returns what it has no words for.
pub(super) fn convert(ome: &mut Value, to: OmeVersion) -> Vec<&'static str> {
    images_mut(ome).into_iter().flatten().filter_map(|image| convert_image(image, system_of(to))).collect()
}

fn convert_image(image: &mut Value, system: Option<&str>) -> Option<&'static str> {
    let axes = Multiscale(image).axis_values().to_vec();
    let of_all = Dataset(image).grid(axes.len()).ok().filter(|_| system.is_some());
    let is_unread = of_all.is_none() && system.is_some() && transformations(image).next().is_some();
    for level in image.get_mut("datasets").and_then(Value::as_array_mut).into_iter().flatten() {
        let Ok(grid) = Dataset(level).grid(axes.len()) else { continue };
        let grid = of_all.as_ref().map_or(grid.clone(), |all| grid.then(all));
        *level = dataset(level["path"].as_str().unwrap_or_default(), &grid, system);
    }
    let image = image.as_object_mut()?;
    image.shift_remove("axes");
    let several =
        image.shift_remove(SYSTEMS).is_some_and(|systems| systems.as_array().is_some_and(|all| all.len() > 1));
    let leads_on = image.shift_remove(TRANSFORMATIONS).is_some();
    put_axes(image, Value::Array(axes), system);
    if is_unread {
        return Some("what places all levels of an image");
    }
    (system.is_none() && (several || leads_on)).then_some("further coordinate systems")
}

/// What of the images' places stands in an array rather than among the metadata: the kind of transformation and the
/// array's path.
pub(crate) fn by_path(ome: &Value) -> Option<(&str, &str)> {
    let parts = images(ome).flat_map(|image| image.levels().chain([Dataset(image.0)]));
    let mut steps = parts.flat_map(|part| transformations(part.0));
    steps.find_map(|step| {
        let kind = step["type"].as_str().filter(|kind| step.get(*kind).is_none())?;
        Some((kind, step["path"].as_str()?))
    })
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
        level["path"] = json!("0");
        image["datasets"] = json!([level]);
        true
    });
    true
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

/// Says in an entry of `multiscales` how its levels were made, and by what.
pub(crate) fn describe_levels(multiscale: &mut Map<String, Value>, wish: &Downsampling, by: &str) {
    multiscale.insert("type".to_owned(), json!(wish.method));
    let metadata = multiscale.entry("metadata").or_insert_with(|| json!({}));
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata["description"] =
        json!("Each level is made of the one before: of two rows, columns, and perhaps planes, one");
    metadata["method"] = json!(by);
    metadata["version"] = json!(env!("CARGO_PKG_VERSION"));
    metadata["kwargs"] = json!({"method": wish.method, "z": wish.depth});
    for (name, is_halved) in [("y", wish.y), ("x", wish.x)] {
        if !is_halved {
            metadata["kwargs"][name] = json!("never");
        }
    }
}

fn system_of(version: OmeVersion) -> Option<&'static str> {
    (version == OmeVersion::V0_6).then_some(PHYSICAL)
}

fn put_axes(image: &mut Map<String, Value>, axes: Value, system: Option<&str>) {
    let at = usize::from(image.contains_key("name"));
    match system {
        Some(name) => image.shift_insert(at, SYSTEMS.to_owned(), json!([{"name": name, "axes": axes}])),
        None => image.shift_insert(at, "axes".to_owned(), axes),
    };
}

fn images_mut(ome: &mut Value) -> Option<&mut Vec<Value>> {
    ome.get_mut(KEY)?.as_array_mut()
}

fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of[key].as_array().map_or(&[], Vec::as_slice)
}

/// One step after another, be they in a `sequence` of 0.6 or not.
fn transformations(said: &Value) -> impl Iterator<Item = &Value> {
    list(said, TRANSFORMATIONS).iter().flat_map(|one| match one["transformations"].as_array() {
        Some(steps) if one["type"] == "sequence" => steps.as_slice(),
        _ => std::slice::from_ref(one),
    })
}

/// A number in a document, where `-0` may stand as `fs::json` has it.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| (value == "\0-0").then_some(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_rendered_is_read_again() {
        let grid = |translation: Option<[f64; 3]>| PixelGrid {
            scale: vec![2.0, 0.5, 0.25],
            translation: translation.map(Vec::from),
        };
        for grid in [grid(None), grid(Some([1.0, 0.0, 1e-9]))] {
            for system in [None, Some(PHYSICAL)] {
                let said = dataset("0", &grid, system);
                assert_eq!(Dataset(&said).grid(3).as_ref(), Ok(&grid));
                assert_eq!(Dataset(&said).known_grid(3), grid);
            }
        }
        let wrong = Dataset(&dataset("0", &grid(None), None)).grid(2).unwrap_err();
        assert!(wrong.contains("scale of 2 numbers"), "{wrong}");
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
