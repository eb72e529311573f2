//! Stacks of tifffile: a JSON object with `shape` and `axes` in the first page's description.

use serde::Deserialize;

use super::super::axes::{Axes, OuterAxis};
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

/// The outer axes that a description names; `None` if it names none.
pub(crate) fn axes(description: &str) -> Option<Axes> {
    let description: ShapedDescription = serde_json::from_str(description.trim()).ok()?;
    let letters: Vec<char> = description.axes.chars().collect();
    if letters.len() != description.shape.len() {
        return None;
    }
    // The samples of a pixel are the page's business.
    let named: Vec<_> = letters.into_iter().zip(description.shape).filter(|axis| axis.0 != 'S').collect();
    let [outer @ .., ('Y', _), ('X', _)] = named.as_slice() else { return None };
    let outer: Vec<_> =
        outer.iter().map(|&(letter, size)| OuterAxis::new(&letter.to_lowercase().to_string(), size)).collect();
    let mut names: Vec<_> = outer.iter().map(|axis| axis.name.clone()).collect();
    names.sort_unstable();
    names.dedup();
    let are_letters = outer.iter().all(|axis| axis.name.chars().all(char::is_alphabetic) && axis.size > 0);
    (names.len() == outer.len() && are_letters).then(|| Axes { outer, ..Axes::default() })
}

/// The pages, or what lies behind the first one, if that is as many planes as the axes have; else a movie.
pub(crate) fn find(axes: Axes, stack: Stack) -> Result<RecordingFacts, Failure> {
    let pages = stack.full_pages().count() as u64;
    let planes = axes.planes().unwrap_or(u64::MAX);
    if pages == 1 && planes > 1 {
        return behind_first(stack, axes, planes);
    }
    let is_cut = stack.defect.is_some() && pages < planes;
    let axes = if pages == planes || is_cut { axes } else { Axes::movie(pages) };
    in_order(stack, axes)
}
