//! Which levels an image gets, be it while frames come or afterwards.

use super::grid::PixelGrid;
use super::units::{self, Length};
use crate::config::{Depth, Downsampling};
use crate::words::quoted;

/// Without a number of levels, y and x have this many pixels at most in the last one.
const SMALL: u64 = 256;

/// One level beside level 0.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Level {
    pub(crate) shape: Vec<u64>,
    /// By what each dimension of the level before is divided: 1 or 2.
    pub(crate) steps: Vec<u64>,
    pub(crate) grid: PixelGrid,
}

impl Level {
    /// This many planes of the level before become one.
    pub(crate) fn halves_depth(&self) -> u64 {
        self.steps.len().checked_sub(3).map_or(1, |z| self.steps[z])
    }
}

/// Why dimensions with these names get no levels: what is halved goes by places, the last two as y and x, and with
/// `depth` the one before as z, and one of these three has another place. Other names say nothing.
pub(crate) fn misplaced<'a>(names: impl IntoIterator<Item = &'a str>, depth: Depth) -> Option<String> {
    let names: Vec<&str> = names.into_iter().collect();
    // Counted from the end, because only there are places what dimensions mean.
    let place = |wanted: &str| names.iter().rev().position(|name| name.eq_ignore_ascii_case(wanted));
    let z = place("z");
    let is_z_right = z.is_none_or(|z| if depth == Depth::Never { z >= 2 } else { z == 2 });
    if place("x").is_none_or(|x| x == 0) && place("y").is_none_or(|y| y == 1) && is_z_right {
        return None;
    }
    let (before, expected) = match z {
        Some(_) => (", and the one before as z where that is asked for", "z, y, x"),
        None => ("", "y, x"),
    };
    let names = names.join(", ");
    Some(format!(
        "levels halve the last two dimensions as y and x{before}, and the dimensions stand in the order {names}; \
         expected one that ends with {expected}"
    ))
}

/// How far pixels are apart in z, y and x, in numbers that can be compared.
pub(crate) type Distances = [f64; 3];

/// The same of an image with these distances, where they matter.
///
/// # Errors
///
/// Why z can't be halved as asked, and what could be.
pub(crate) fn distances(lengths: &[Length; 3], downsampling: &Downsampling) -> Result<Distances, String> {
    if downsampling.depth != Depth::Auto {
        return Ok([1.0; 3]);
    }
    units::comparable(lengths).ok_or_else(|| {
        format!(
            "{}, and such distances can't be compared; with the option `depth` always, z is halved at every level, and \
             with the option `depth` never at none",
            units_of(lengths)
        )
    })
}

/// In which units distances are, for a sentence: `z has no unit, y and x are in "micrometer"`.
fn units_of(lengths: &[Length; 3]) -> String {
    let [z, y, x] = lengths.each_ref().map(|length| length.unit.as_deref());
    let said = |axes: &str, unit: Option<&str>, [has, is]: [&str; 2]| match unit {
        Some(unit) => format!("{axes} {is} in {}", quoted(unit)),
        None => format!("{axes} {has} no unit"),
    };
    let of_one = |axis, unit| said(axis, unit, ["has", "is"]);
    match y == x {
        true => format!("{}, {}", of_one("z", z), said("y and x", y, ["have", "are"])),
        false => format!("{}, {}, {}", of_one("z", z), of_one("y", y), of_one("x", x)),
    }
}

/// The levels of an image of `shape`, the finest first. `depth`: of an image whose last dimension but two is of space,
/// how far its pixels are apart. A length without an end is `u64::MAX`.
///
/// Where rows or columns are halved, there are as many levels as these have something to halve: how many planes a stack
/// gets that has no end, nobody knows while frames come, and the number of levels must not depend on that.
pub(crate) fn levels(
    shape: &[u64],
    grid: &PixelGrid,
    depth: Option<Distances>,
    downsampling: &Downsampling,
) -> Vec<Level> {
    let mut levels: Vec<Level> = Vec::new();
    let mut shape = shape.to_vec();
    let mut factors = vec![1; shape.len()];
    while levels.len() < downsampling.levels.unwrap_or(usize::MAX) {
        let steps = steps(&shape, &factors, depth, downsampling);
        let is_small = shape.iter().rev().take(2).all(|length| *length <= SMALL);
        let decisive = if downsampling.y || downsampling.x { &steps[steps.len() - 2..] } else { &steps[..] };
        if decisive.iter().all(|step| *step == 1) || (downsampling.levels.is_none() && is_small) {
            break;
        }
        let places = shape.iter_mut().zip(&mut factors).zip(&steps);
        places.for_each(|((length, factor), step)| {
            *length = length.div_ceil(*step);
            *factor *= step;
        });
        levels.push(Level { shape: shape.clone(), steps, grid: grid.level(&factors, downsampling.method) });
    }
    levels
}

/// The first level, by its number, that no float can say the places of in a dimension.
pub(crate) fn overflow(levels: &[Level]) -> Option<(usize, usize)> {
    let is_too_far = |grid: &PixelGrid, dim: usize| {
        let place = grid.translation.as_ref().map_or(0.0, |places| places[dim]);
        !grid.scale[dim].is_finite() || !place.is_finite()
    };
    let of_level = |(at, level): (usize, &Level)| {
        (0..level.shape.len()).find(|&dim| is_too_far(&level.grid, dim)).map(|dim| (at + 1, dim))
    };
    levels.iter().enumerate().find_map(of_level)
}

/// What to say of that.
pub(crate) fn too_far(dimension: &str, number: usize) -> String {
    format!("pixels of {dimension} would be too far apart in level {number} for a 64-bit float; make fewer levels")
}

/// By what each dimension of a level is halved, or not.
fn steps(shape: &[u64], factors: &[u64], depth: Option<Distances>, downsampling: &Downsampling) -> Vec<u64> {
    let dims = shape.len();
    let halves_z = depth.is_some_and(|distances| {
        let [z, y, x] = std::array::from_fn(|dim| distances[dim] * factors[dims - 3 + dim] as f64);
        match downsampling.depth {
            Depth::Never => false,
            Depth::Always => true,
            Depth::Auto => z <= y.max(x),
        }
    });
    let is_halved = |dim: usize| match dims - dim {
        1 => downsampling.x,
        2 => downsampling.y,
        3 => halves_z,
        _ => false,
    };
    (0..dims).map(|dim| if is_halved(dim) { shape[dim].clamp(1, 2) } else { 1 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(shape: &[u64], downsampling: &Downsampling) -> Vec<Vec<u64>> {
        let grid = PixelGrid { scale: vec![1.0; shape.len()], translation: None };
        levels(shape, &grid, Some([1.0; 3]).filter(|_| shape.len() > 2), downsampling)
            .into_iter()
            .map(|level| level.shape)
            .collect()
    }

    #[test]
    fn levels_end_where_they_are_small_or_as_asked_for() {
        let downsampling = Downsampling::default();
        assert_eq!(shapes(&[9, 7, 1000, 257], &downsampling), [[9, 7, 500, 129], [9, 7, 250, 65]]);
        assert!(shapes(&[256, 256], &downsampling).is_empty());
        let two = Downsampling { levels: Some(2), ..downsampling };
        assert_eq!(shapes(&[3, 5, 1], &two), [[3, 3, 1], [3, 2, 1]]);
        assert_eq!(shapes(&[3, 2, 1], &two), [[3, 1, 1]]);
    }

    #[test]
    fn names_in_another_order_are_told_with_the_expected_one() {
        let told = |names: &str, depth| misplaced(names.split(' '), depth);
        for names in ["y x", "t c z y x", "Z Y X", "t row column", "row x", "y column", "depth y x"] {
            assert_eq!(told(names, Depth::Always), None, "{names}");
        }
        let message = told("t c x y", Depth::Never).unwrap();
        assert!(message.ends_with("in the order t, c, x, y; expected one that ends with y, x"), "{message}");
        for names in ["x y z", "y x z", "x z y", "t z y", "t Y Z", "x column", "row y", "z row", "row z"] {
            assert!(told(names, Depth::Never).unwrap().contains("y, x"), "{names}");
        }
        // Of no account as long as it is not halved.
        assert_eq!(told("z w y x", Depth::Never), None);
        assert!(told("z w y x", Depth::Auto).unwrap().ends_with("ends with z, y, x"));
    }

    #[test]
    fn a_stack_of_any_length_has_as_many_levels() {
        let always = Downsampling { levels: Some(9), depth: Depth::Always, ..Downsampling::default() };
        for planes in [1, 2, 1000, u64::MAX] {
            assert_eq!(shapes(&[planes, 6, 3], &always).len(), 3, "{planes} planes");
            assert!(shapes(&[planes, 1, 1], &always).is_empty(), "{planes} planes");
        }
    }

    #[test]
    fn each_direction_can_be_kept() {
        let downsampling = Downsampling { levels: Some(1), ..Downsampling::default() };
        let only_x = Downsampling { y: false, ..downsampling.clone() };
        assert_eq!(shapes(&[4, 6, 8], &only_x), [[4, 6, 4]]);
        let only_z = Downsampling { y: false, x: false, depth: Depth::Always, ..downsampling };
        assert_eq!(shapes(&[5, 6, 8], &only_z), [[3, 6, 8]]);
        let all = Downsampling { levels: Some(9), ..only_z.clone() };
        assert_eq!(shapes(&[5, 6, 8], &all), [[3, 6, 8], [2, 6, 8], [1, 6, 8]]);
        // An open end is halved, too.
        assert_eq!(shapes(&[u64::MAX, 6, 8], &only_z), [[1 << 63, 6, 8]]);
    }
}
