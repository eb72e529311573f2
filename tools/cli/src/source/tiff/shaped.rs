//! Stacks of tifffile: one or several arrays, each described on the first of its pages.

use super::super::axes::Axes;
use super::super::why::{Why, cannot};
use super::asked::{choose, list, refuse_several};
use super::pages::{behind, in_order, laid, refuse_series};
use super::planes::{PlaneSource, RecordingFacts};
use super::shaped_description::{ShapedDescription, ShapedLayout};
use super::stack::Stack;
use crate::args::Series;
use crate::failure::Failure;

/// An array of a file.
struct ShapedArray {
    said: ShapedDescription,
    /// The numbers of its pages, at least one.
    pages: Vec<usize>,
}

/// The only array of a file, or the one that is asked for. `first`: what the first page says.
pub(super) fn find(
    mut stack: Stack,
    first: ShapedDescription,
    series: Option<Series>,
) -> Result<RecordingFacts, Failure> {
    let arrays = arrays(&stack, first);
    let count = arrays.len();
    if let [array] = &arrays[..] {
        refuse_series(series, &stack.path)?;
        return find_one(stack, array);
    }
    if are_frames(&stack, &arrays) {
        refuse_series(series, &stack.path)?;
        let pages = stack.full_pages().count();
        let mut found = in_order(stack, Axes::movie(pages as u64))?;
        if pages > count {
            found.notes.push(format!(
                "tifffile has written {count} arrays without names of axes; their pages become one time axis"
            ));
        }
        return Ok(found);
    }
    let label = |array: &ShapedArray| match &stack.entries[array.pages[0]].page {
        Ok(page) => format!("{} {}", array.said, page.form.shape.dtype),
        Err(why) => format!("{}, can't be used: {why}", array.said),
    };
    let images = || list(arrays.iter().map(label));
    let Some(number) = choose(series, count, &stack.path, images)? else {
        return Err(refuse_several(count, &stack.path, images));
    };
    if number + 1 < count {
        // The end of the file is another one's.
        stack.defect = None;
    }
    let found = find_one(stack, &arrays[number])?;
    Ok(RecordingFacts { series: (0..count as u64).collect(), ..found })
}

/// The arrays of a file. All pages are one where they are not all told of.
fn arrays(stack: &Stack, first: ShapedDescription) -> Vec<ShapedArray> {
    let pages: Vec<_> = stack.full_pages().collect();
    let (mut found, mut rest) = (Vec::new(), &pages[..]);
    while let Some(&number) = rest.first() {
        let entry = &stack.entries[number];
        let Some(said) = entry.shaped.clone() else { return vec![ShapedArray { said: first, pages }] };
        let there = entry.page.as_ref().ok().and_then(|page| said.pages_there(page.form.shape));
        let there = there.map(|there| there as usize).filter(|&there| there <= rest.len());
        let next = || rest.iter().skip(1).position(|&page| stack.entries[page].shaped.is_some());
        let end = there.unwrap_or_else(|| next().map_or(rest.len(), |between| between + 1));
        let (own, others) = rest.split_at(end.max(1));
        found.push(ShapedArray { said, pages: own.to_vec() });
        rest = others;
    }
    found
}

/// Whether arrays are frames of a movie, or parts of one: they agree, and no axis but those of planes is named.
fn are_frames(stack: &Stack, arrays: &[ShapedArray]) -> bool {
    let form = |array: &ShapedArray| stack.entries[array.pages[0]].page.as_ref().ok().map(|page| &page.form);
    let first = form(&arrays[0]).map(|form| form.shape);
    arrays.iter().all(|array| {
        let Some(form) = form(array).filter(|form| Some(form.shape) == first) else { return false };
        let is_whole = array.said.pages(form.shape) == Some(array.pages.len() as u64);
        let layout = array.said.layout(form);
        is_whole && layout.is_ok_and(|of| !of.is_split && of.outer.is_none_or(|outer| outer.is_empty()))
    })
}

/// The planes of an array: on its pages, or behind the only one, if that is as many as the axes have; else a movie.
fn find_one(stack: Stack, array: &ShapedArray) -> Result<RecordingFacts, Failure> {
    let first = stack.plane(0, array.pages[0])?;
    let shape = first.page.form.shape;
    let ShapedLayout { outer, sides, is_split } =
        array.said.layout(&first.page.form).map_err(|why| cannot("read", &stack.path, why))?;
    // tifffile drops a last axis of one element where it chooses what is a page.
    if let Some([rows, 1]) = sides.filter(|sides| *sides != [shape.height, shape.width]) {
        let why = format!(
            "its description says that planes are {rows} x 1 pixels, but its pages are {} x {}: tifffile has put \
             several planes into each; save the array as .npy, which keeps its shape, and give --axes",
            shape.height, shape.width
        );
        return Err(cannot("read", &stack.path, Why::Unread(why)));
    }
    let samples = if is_split { shape.samples } else { 1 };
    let pages = array.pages.len() as u64;
    let is_named = outer.is_some();
    let axes = match outer {
        Some(outer) => Axes { outer, ..Axes::default() },
        None => Axes::movie(array.said.pages(shape).filter(|_| pages == 1 && array.said.is_truncated).unwrap_or(pages)),
    };
    let wanted = axes.planes().unwrap_or(u64::MAX);
    if pages == 1 && wanted > samples {
        let first = if is_split { PlaneSource { page: first.page.sample(0), ..first } } else { first };
        return behind(stack, &first, axes, wanted);
    }
    let is_cut = stack.defect.is_some() && pages * samples < wanted;
    if pages * samples != wanted && !is_cut {
        let there = stack.planes(&array.pages)?;
        let mut found = laid(stack, there, Axes::movie(pages))?;
        if is_named {
            found.notes.push(format!(
                "its description names the axes {}, but there are {pages} pages; they become one time axis",
                array.said
            ));
        }
        return Ok(found);
    }
    let mut there = stack.planes(&array.pages)?;
    if is_split {
        let apart = |plane: PlaneSource| {
            (0..plane.page.form.shape.samples)
                .map(move |at| PlaneSource { page: plane.page.sample(at), ..plane.clone() })
        };
        there = there.into_iter().flat_map(apart).collect();
    }
    laid(stack, there, axes)
}
