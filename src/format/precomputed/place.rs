//! Where a volume's voxels are: by its document, which other programs read and write, and by what OME-Zarr said of the
//! image before it became a volume.
//!
//! Source: Neuroglancer's precomputed format, "info JSON file specification" (`resolution`, `voxel_offset`).

use serde::Deserialize;
use serde_json::Value;

use super::dims::Dims;
use super::volume::{X, Z};
use crate::config::DimKind;
use crate::format::provenance::{self, ATTRIBUTE};
use crate::ome::grid::PixelGrid;
use crate::ome::multiscales::{self, AxisEntry};
use crate::ome::units;

/// Where the attributes have what OME-Zarr says of the image, and where what it said before that became a volume.
pub(super) const OME: &str = "/ome";
pub(super) const OME_ASIDE: &str = "/shardwright/ome";
pub(super) const NANOMETER: &str = "nanometer";

/// Nanometers from voxel to voxel, and the voxels before the first one.
pub(super) type VoxelGrid = ([f64; 3], [f64; 3]);

/// The `resolution` of a scale, if it is one: three numbers above 0. The format has no other word for an unknown one.
pub(super) fn said_resolution(resolution: &Value) -> Option<[f64; 3]> {
    <[f64; 3]>::deserialize(resolution).ok().filter(|numbers| numbers.iter().all(|n| n.is_finite() && *n > 0.0))
}

/// Those of each scale; `None` where one of them does not say how far apart its voxels are.
pub(super) fn places(info: &Value) -> Option<Vec<VoxelGrid>> {
    let offset = |scale: &Value| [0, 1, 2].map(|at| scale["voxel_offset"][at].as_f64().unwrap_or(0.0));
    let scales = info["scales"].as_array().map(Vec::as_slice).unwrap_or_default();
    scales.iter().map(|scale| Some((said_resolution(&scale["resolution"])?, offset(scale)))).collect()
}

/// The resolution that a distance between pixels becomes, in nanometers.
pub(crate) fn resolution(scale: f64, unit: Option<&str>) -> f64 {
    // Seconds, for example: the format knows no name for them.
    let Some(unit) = unit.map_or(Some(1.0), units::nanometers) else { return 1.0 };
    if unit == 1.0 {
        return scale;
    }
    // A product such as 0.069 * 1000 shall not be spelled with more digits than its factors have.
    format!("{:.14e}", scale * unit).parse().unwrap_or(scale * unit)
}

/// The voxels before the first one, whose centre stands at `translation`, if these are a whole number. `step`: from
/// voxel to voxel, in the same unit.
pub(crate) fn whole_offset(translation: f64, step: f64) -> Option<i64> {
    const ROUNDING: f64 = 1e-6;
    // Beyond, not every whole number is one of 64-bit floats.
    const MOST: f64 = 9e15;
    let before = translation / step - 0.5;
    let whole = before.round();
    ((before - whole).abs() <= ROUNDING && whole.abs() < MOST).then_some(whole as i64)
}

/// The attributes of a volume: the user's, and those of this crate's writer. What OME-Zarr said of the image there is
/// as far as its places are those of the volume.
pub(crate) fn attributes(info: &Value) -> Value {
    let mut attributes = info.get("attributes").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(own) = info.get(ATTRIBUTE) {
        // What a user called so stays.
        attributes.entry(ATTRIBUTE).or_insert_with(|| own.clone());
    }
    let mut attributes = Value::Object(attributes);
    for pointer in [OME, OME_ASIDE] {
        attributes.pointer_mut(pointer).into_iter().for_each(|ome| reconcile(ome, info));
    }
    attributes
}

/// Lets what OME-Zarr said of the image agree with the volume's document, along each axis of which that says something
/// else than the image becomes: then it was asked for, or another program has changed it since.
fn reconcile(ome: &mut Value, info: &Value) {
    let own = provenance::own(info).unwrap_or(&Value::Null);
    let Ok(dims) = Dims::new(own, info["num_channels"].as_u64().unwrap_or(1)) else { return };
    let Some(places) = places(info) else { return };
    let Some(image) = multiscales::images(ome).next().filter(|image| image.axes().len() == dims.roles.len()) else {
        return;
    };
    let Ok(mut grids) = image.levels().map(|level| image.place(level)).collect::<Result<Vec<_>, _>>() else { return };
    let axes = image.axes().zip(dims.roles).enumerate().filter(|(_, (axis, role))| is_of_space(axis, *role));
    let mut changed = Vec::new();
    for (dim, (axis, role)) in axes {
        // The last of the roles is x.
        let said: Vec<_> = places.iter().map(|(sizes, offsets)| (sizes[X - role], offsets[X - role])).collect();
        if reconcile_axis(axis.unit, dim, &mut grids, &said) {
            changed.push(dim);
        }
    }
    if !changed.is_empty() {
        multiscales::replace_places(ome, &grids, &changed, NANOMETER);
    }
}

fn is_of_space(axis: &AxisEntry<'_>, role: usize) -> bool {
    (Z..=X).contains(&role) && axis.kind == Some(DimKind::Space)
}

/// Says in nanometers where the pixels are along one axis, if that differs. `said`: resolution and offset of each
/// scale.
fn reconcile_axis(unit: Option<&str>, dim: usize, grids: &mut [PixelGrid], said: &[(f64, f64)]) -> bool {
    const ROUNDING: f64 = 1e-6;
    let pixel = |grid: &PixelGrid| (grid.scale[dim], grid.translation.as_ref().map_or(0.0, |places| places[dim]));
    let differs = |(grid, &(size, offset)): (&PixelGrid, &(f64, f64))| {
        let (scale, start) = pixel(grid);
        let is_other_size = (resolution(scale, unit) - size).abs() > ROUNDING * size.abs();
        let expected = if start == 0.0 { 0 } else { whole_offset(start, scale).unwrap_or(0) };
        is_other_size || expected as f64 != offset
    };
    if !grids.iter().zip(said).any(differs) {
        return false;
    }
    let Some((finest, &(size, _))) = grids.first().zip(said.first()) else { return false };
    let nanometers = unit.and_then(units::nanometers).unwrap_or(size / finest.scale[dim]);
    for (at, grid) in grids.iter_mut().enumerate() {
        let (scale, start) = pixel(grid);
        let was_whole = whole_offset(start, scale).is_some();
        // Of an image all of whose pixels stand in one place, no place in nanometers follows.
        let start = Some(start * nanometers).filter(|start| start.is_finite()).unwrap_or(0.0);
        let scale = scale * nanometers;
        let (scale, start) = match said.get(at) {
            // A place between two voxels, or none, is one that a volume can't say.
            Some(&(size, 0.0)) if start == 0.0 || !was_whole => (size, start),
            Some(&(size, offset)) => (size, (offset + 0.5) * size),
            None => (scale, start),
        };
        grid.scale[dim] = scale;
        let length = grid.scale.len();
        if start != 0.0 || grid.translation.is_some() {
            grid.translation.get_or_insert_with(|| vec![0.0; length])[dim] = start;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Scale and translation along y and x of an image of 0.5 with these and without units, behind `reconcile`.
    fn reconciled(scale: [f64; 2], place: [f64; 2]) -> Value {
        let axis = |name: &str| json!({"name": name, "type": "space"});
        let ways = json!([{"type": "scale", "scale": [1, scale[0], scale[1]]},
                          {"type": "translation", "translation": [0, place[0], place[1]]}]);
        let datasets = json!([{"path": "0", "coordinateTransformations": ways}]);
        let axes = json!([axis("z"), axis("y"), axis("x")]);
        let mut ome = json!({"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]});
        let scales = json!([{"resolution": [100, 7, 1], "voxel_offset": [5, 0, 0]}]);
        reconcile(&mut ome, &json!({"num_channels": 1, "scales": scales}));
        let ways = &ome["multiscales"][0]["datasets"][0]["coordinateTransformations"];
        json!([ways[0]["scale"], ways[1]["translation"], ome["multiscales"][0]["axes"][2]["unit"]])
    }

    #[test]
    fn an_image_is_where_its_volume_is() {
        // Along y, they agree already.
        assert_eq!(reconciled([7.0, 3.0], [2.0, 1.0]), json!([[1.0, 7.0, 100.0], [0.0, 2.0, 550.0], "nanometer"]));
        // An image of which all columns, or rows, stand in one place.
        for place in [0.0, 4.0] {
            let expected = json!([[1.0, 7.0, 100.0], [0.0, 0.0, 550.0], "nanometer"]);
            assert_eq!(reconciled([0.0, 0.0], [place, place]), expected);
        }
    }
}
