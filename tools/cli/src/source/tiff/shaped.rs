//! Stacks of tifffile: a JSON object with `shape` and `axes` in the first page's description.

use serde::Deserialize;

use super::super::axes::{Axes, OuterAxis};
use super::super::why::{Why, cannot};
use super::pages::{behind_first, in_order};
use super::planes::RecordingFacts;
use super::stack::Stack;
use crate::failure::Failure;

#[derive(Deserialize)]
struct ShapedDescription {
    shape: Vec<u64>,
    #[serde(default)]
    axes: String,
}

/// What a description says.
pub(crate) struct Shaped {
    axes: Axes,
    /// Rows and columns of a plane.
    sides: [u64; 2],
}

/// The outer axes that a description names, and the sides of a plane; `None` if it names none.
pub(crate) fn parse(description: &str) -> Option<Shaped> {
    let description: ShapedDescription = serde_json::from_str(description.trim()).ok()?;
    let letters: Vec<char> = description.axes.chars().collect();
    if letters.len() != description.shape.len() {
        return None;
    }
    // The samples of a pixel are the page's business.
    let named: Vec<_> = letters.into_iter().zip(description.shape).filter(|axis| axis.0 != 'S').collect();
    let [outer @ .., ('Y', rows), ('X', columns)] = named.as_slice() else { return None };
    let outer: Vec<_> =
        outer.iter().map(|&(letter, size)| OuterAxis::new(&letter.to_lowercase().to_string(), size)).collect();
    let mut names: Vec<_> = outer.iter().map(|axis| axis.name.clone()).collect();
    names.sort_unstable();
    names.dedup();
    let are_letters = outer.iter().all(|axis| axis.name.chars().all(char::is_alphabetic) && axis.size > 0);
    (names.len() == outer.len() && are_letters)
        .then(|| Shaped { axes: Axes { outer, ..Axes::default() }, sides: [*rows, *columns] })
}

/// The pages, or what lies behind the first one, if that is as many planes as the axes have; else a movie.
pub(crate) fn find(Shaped { axes, sides: [rows, columns] }: Shaped, stack: Stack) -> Result<RecordingFacts, Failure> {
    let page = stack.plane(0, 0)?.page.form.shape;
    // tifffile drops a last axis of one element where it chooses what is a page.
    if columns == 1 && [page.height, page.width] != [rows, columns] {
        let why = format!(
            "its description says that planes are {rows} x 1 pixels, but its pages are {} x {}: tifffile has put \
             several planes into each; save the array as .npy, which keeps its shape, and give --axes",
            page.height, page.width
        );
        return Err(cannot("read", &stack.path, Why::Unread(why)));
    }
    let pages = stack.full_pages().count() as u64;
    let planes = axes.planes().unwrap_or(u64::MAX);
    if pages == 1 && planes > 1 {
        return behind_first(stack, axes, planes);
    }
    let is_cut = stack.defect.is_some() && pages < planes;
    let axes = if pages == planes || is_cut { axes } else { Axes::movie(pages) };
    in_order(stack, axes)
}
