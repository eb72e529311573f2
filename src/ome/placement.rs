//! What coordinate transformations, one after another, make of the elements of an array: how far apart they are, and
//! where the first one is. What does more than that to any axis has no such grid, and is told apart here.
//!
//! Sources: OME-Zarr 0.4 and 0.5, "coordinateTransformations"; 0.6, "sequence", "affine", "rotation", "mapAxis",
//! "byDimension" and "bijection"; and of drafts of 0.6, "inverseOf".
#![cfg_attr(not(feature = "offline"), allow(dead_code))]

use serde_json::{Value, json};

use super::grid::PixelGrid;
use crate::json::{long_integer, render_line, text};
use crate::words::quoted;

/// Keys of transformations that hold others, and of the parts of a `byDimension`.
pub(super) const OF_PARTS: [&str; 8] =
    ["transformations", "transformation", "forward", "inverse", "inputAxes", "outputAxes", "input_axes", "output_axes"];

/// The transformations in the order in which they apply: those of sequences in their place, and none that do nothing.
pub(super) fn in_order<'a>(ways: impl IntoIterator<Item = &'a Value>) -> Vec<&'a Value> {
    let mut all = Vec::new();
    for way in ways {
        match (text(&way["type"]), way["transformations"].as_array()) {
            (Some("sequence"), Some(steps)) => all.extend(in_order(steps)),
            (Some("identity"), _) => {}
            _ => all.push(way),
        }
    }
    all
}

/// The grid that they make of the elements of an array of this many dimensions.
///
/// # Errors
///
/// The transformation that is no scale and translation of each axis by itself, for a sentence.
pub(super) fn compose(steps: &[&Value], dims: usize) -> Result<PixelGrid, String> {
    let unmoved = PixelGrid { scale: vec![1.0; dims], translation: None };
    let grid = steps.iter().try_fold(unmoved, |grid, step| Ok::<_, String>(grid.then(&of_step(step, dims)?)))?;
    let mut numbers = grid.scale.iter().chain(grid.translation.iter().flatten());
    match numbers.all(|number| number.is_finite()) {
        true => Ok(grid),
        false => Err("transformations that lead beyond the numbers of 64 bits".to_owned()),
    }
}

/// Whether these are what all versions can say: a scale, and perhaps a translation after it.
pub(super) fn is_plain(steps: &[&Value]) -> bool {
    let kinds: Vec<_> = steps.iter().map(|step| text(&step["type"]).unwrap_or_default()).collect();
    matches!(kinds[..], ["scale"] | ["scale", "translation"])
}

/// The transformations that one holds, or the parts that hold them.
pub(super) fn parts(way: &Value) -> impl Iterator<Item = &Value> {
    let listed = way["transformations"].as_array().into_iter().flatten();
    listed.chain(OF_PARTS[1..].iter().filter_map(|key| way.get(*key)))
}

/// A grid as such transformations.
pub(super) fn plain(grid: &PixelGrid) -> Vec<Value> {
    let scale = json!({"type": "scale", "scale": grid.scale});
    let translation =
        grid.translation.as_ref().map(|translation| json!({"type": "translation", "translation": translation}));
    std::iter::once(scale).chain(translation).collect()
}

fn of_step(step: &Value, dims: usize) -> Result<PixelGrid, String> {
    let Some(kind) = text(&step["type"]) else {
        return Err(format!("{}, which has no type that is a text", render_line(step)));
    };
    let said = &step[kind];
    if let (Value::Null, Some(path)) = (said, text(&step["path"])) {
        return Err(format!("the {kind} that stands in the array {}", quoted(path)));
    }
    let unlike = |expected: String| format!("the {kind} {}; expected {expected}", render_line(said));
    let numbers = || {
        let numbers = numbers(said).filter(|numbers| numbers.len() == dims);
        numbers.ok_or_else(|| unlike(format!("a {kind} of {dims} numbers")))
    };
    let ones = vec![1.0; dims];
    let of_part = |key: &str| {
        let part = step.get(key).ok_or_else(|| format!("a {kind} without {}", quoted(key)))?;
        compose(&in_order([part]), dims)
    };
    match kind {
        "scale" => Ok(PixelGrid { scale: numbers()?, translation: None }),
        "translation" => Ok(PixelGrid { scale: ones, translation: Some(numbers()?) }),
        "mapAxis" if is_in_order(said, dims) => Ok(PixelGrid { scale: ones, translation: None }),
        "affine" | "rotation" => {
            let more = usize::from(kind == "affine");
            of_matrix(said, dims, more).ok_or_else(|| format!("the {kind} {}, which mixes axes", render_line(said)))
        }
        "byDimension" => of_parts_of_axes(step, dims),
        "bijection" => of_part("forward"),
        "inverseOf" => of_part("transformation")?.inverse().ok_or_else(|| "the inverse of a scale of 0".to_owned()),
        _ => Err(format!("a transformation of the type {}", quoted(kind))),
    }
}

/// That of a `byDimension`, each part of which leads from some axes to the same.
fn of_parts_of_axes(step: &Value, dims: usize) -> Result<PixelGrid, String> {
    let mut all = PixelGrid { scale: vec![f64::NAN; dims], translation: Some(vec![0.0; dims]) };
    let mut said = vec![false; dims];
    for part in step["transformations"].as_array().into_iter().flatten() {
        let axes = ["inputAxes", "outputAxes"].map(|key| axes_of(part, key, dims));
        let [Some(input), Some(output)] = &axes else {
            return Err(format!("a byDimension with a part {} that names no axes by numbers", render_line(part)));
        };
        if input != output {
            return Err(format!("a byDimension that leads from the axes {input:?} to {output:?}, which mixes axes"));
        }
        let way = part.get("transformation").ok_or("a byDimension with a part that has no transformation")?;
        let grid = compose(&in_order([way]), input.len()).map_err(|way| format!("a byDimension with {way}"))?;
        for (from, &axis) in input.iter().enumerate() {
            if std::mem::replace(&mut said[axis], true) {
                return Err(format!("a byDimension that leads to the axis {axis} twice"));
            }
            all.scale[axis] = grid.scale[from];
            if let (Some(all), Some(places)) = (&mut all.translation, &grid.translation) {
                all[axis] = places[from];
            }
        }
    }
    match said.iter().position(|is_said| !is_said) {
        Some(axis) => Err(format!("a byDimension that leads to no axis {axis}")),
        None => Ok(PixelGrid { translation: moved(all.translation), ..all }),
    }
}

/// The axes that a part of a `byDimension` names.
fn axes_of(part: &Value, key: &str, dims: usize) -> Option<Vec<usize>> {
    // In drafts of 0.6, the keys were written otherwise.
    let draft = key.replace("Axes", "_axes");
    let said = part.get(key).or_else(|| part.get(&draft))?.as_array()?;
    said.iter().map(|axis| usize::try_from(axis.as_u64()?).ok().filter(|axis| *axis < dims)).collect()
}

/// Places that are not all 0.
fn moved(translation: Option<Vec<f64>>) -> Option<Vec<f64>> {
    translation.filter(|places| places.iter().any(|place| *place != 0.0))
}

/// Whether each axis is mapped to itself.
fn is_in_order(said: &Value, dims: usize) -> bool {
    said.as_array().is_some_and(|axes| axes.len() == dims && axes.iter().enumerate().all(|(at, axis)| *axis == at))
}

/// That of a square matrix with this many columns behind it, if each axis leads to itself alone.
fn of_matrix(said: &Value, dims: usize, more: usize) -> Option<PixelGrid> {
    let rows: Vec<Vec<f64>> = said.as_array()?.iter().map(numbers).collect::<Option<_>>()?;
    let is_whole = rows.len() == dims && rows.iter().all(|row| row.len() == dims + more);
    let is_alone = |(at, row): (usize, &Vec<f64>)| (0..dims).all(|axis| axis == at || row[axis] == 0.0);
    if !is_whole || !rows.iter().enumerate().all(is_alone) {
        return None;
    }
    let translation: Vec<f64> = rows.iter().filter_map(|row| row.get(dims).copied()).collect();
    Some(PixelGrid {
        scale: rows.iter().enumerate().map(|(at, row)| row[at]).collect(),
        translation: moved(Some(translation)),
    })
}

fn numbers(said: &Value) -> Option<Vec<f64>> {
    said.as_array()?.iter().map(number).collect()
}

/// A number in a document, where `-0` may stand as `fs::json` has it.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| (value == "\0-0").then_some(0.0)).or_else(|| long_integer(value.as_str()?)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composed(ways: &Value) -> Result<PixelGrid, String> {
        compose(&in_order(ways.as_array().unwrap()), 2)
    }

    fn grid(scale: [f64; 2], translation: Option<[f64; 2]>) -> PixelGrid {
        PixelGrid { scale: scale.to_vec(), translation: translation.map(Vec::from) }
    }

    #[test]
    fn transformations_apply_in_their_order() {
        let scale = json!({"type": "scale", "scale": [0.5, 0.1]});
        let moved = json!({"type": "translation", "translation": [8.0, -3.0]});
        let inner = json!({"type": "sequence", "transformations": [scale]});
        let nested = json!([{"type": "sequence", "transformations": [moved, inner]}]);
        let affine = json!({"type": "affine", "affine": [[2.0, 0.0, 1.0], [0, 3, 0]]});
        let seq =
            json!({"type": "sequence", "transformations": [{"type": "scale", "scale": [0.5, 0.25]}, moved.clone()]});
        let one = json!({"type": "sequence", "transformations": [
            {"type": "scale", "scale": [3]}, {"type": "translation", "translation": [3]}]});
        let of_each = json!({"type": "byDimension", "transformations": [
            {"transformation": {"type": "scale", "scale": [0.5]}, "inputAxes": [1], "outputAxes": [1]},
            {"transformation": one, "inputAxes": [0], "outputAxes": [0]}]});
        let of_both = json!({"type": "byDimension", "transformations": [
            {"transformation": {"type": "scale", "scale": [0.5, 0.1]}, "input_axes": [1, 0], "output_axes": [1, 0]}]});
        let just_moved = grid([1.0, 1.0], Some([8.0, -3.0]));
        for (ways, expected) in [
            (json!([]), grid([1.0, 1.0], None)),
            (json!([{"type": "identity"}, scale]), grid([0.5, 0.1], None)),
            (json!([scale, moved]), grid([0.5, 0.1], Some([8.0, -3.0]))),
            (json!([moved, scale]), grid([0.5, 0.1], Some([4.0, -3.0 * 0.1]))),
            (json!([scale, scale]), grid([0.25, 0.1 * 0.1], None)),
            (nested, grid([0.5, 0.1], Some([4.0, -3.0 * 0.1]))),
            (json!([moved, affine]), grid([2.0, 3.0], Some([17.0, -9.0]))),
            (json!([{"type": "mapAxis", "mapAxis": [0, 1]}]), grid([1.0, 1.0], None)),
            (json!([{"type": "rotation", "rotation": [[1, 0], [0, 1]]}]), grid([1.0, 1.0], None)),
            (json!([of_each, moved]), grid([3.0, 0.5], Some([11.0, -3.0]))),
            (json!([of_both]), grid([0.1, 0.5], None)),
            (json!([{"type": "inverseOf", "transformation": seq}]), grid([2.0, 4.0], Some([-16.0, 12.0]))),
            (json!([{"type": "bijection", "forward": moved, "inverse": {"type": "identity"}}]), just_moved),
        ] {
            assert_eq!(composed(&ways), Ok(expected), "{ways}");
        }
    }

    fn by_dimension(axes: &[(&[usize], &[usize])]) -> Value {
        let part = |(input, output): &(&[usize], &[usize])| {
            let transformation = json!({"type": "scale", "scale": vec![0.5; input.len()]});
            json!({"transformation": transformation, "inputAxes": input, "outputAxes": output})
        };
        json!({"type": "byDimension", "transformations": axes.iter().map(part).collect::<Vec<_>>()})
    }

    #[test]
    fn what_does_more_to_an_axis_is_told() {
        for (way, words) in [
            (json!({"type": "mapAxis", "mapAxis": [1, 0]}), "the type \"mapAxis\""),
            (json!({"type": "rotation", "rotation": [[0, 1], [-1, 0]]}), "the rotation [[0,1],[-1,0]], which mixes"),
            (json!({"type": "affine", "affine": [[1, 0.5, 0], [0, 1, 0]]}), "which mixes axes"),
            (json!({"type": "byDimension", "transformations": []}), "a byDimension that leads to no axis 0"),
            (by_dimension(&[(&[0, 1], &[1, 0])]), "from the axes [0, 1] to [1, 0], which mixes axes"),
            (by_dimension(&[(&[0], &[0])]), "leads to no axis 1"),
            (by_dimension(&[(&[0], &[0]), (&[0], &[0])]), "leads to the axis 0 twice"),
            (by_dimension(&[(&[0], &[0]), (&[2], &[2])]), "names no axes by numbers"),
            (json!({"type": "inverseOf", "transformation": {"type": "scale", "scale": [0, 1]}}), "a scale of 0"),
            (json!({"type": "bijection", "inverse": {"type": "identity"}}), "a bijection without \"forward\""),
            (json!({"type": "displacements", "path": "d"}), "the displacements that stands in the array \"d\""),
            (json!({"type": "scale", "scale": [1.0]}), "expected a scale of 2 numbers"),
            (json!({"type": "scale", "path": "places"}), "the scale that stands in the array \"places\""),
            (json!({"scale": [1.0, 1.0]}), "no type"),
            (json!({"type": "scale", "scale": [1e300, 1]}), "beyond the numbers"),
        ] {
            let said = composed(&json!([way, {"type": "scale", "scale": [1e300, 1]}])).unwrap_err();
            assert!(said.contains(words), "{said}");
        }
    }
}
