//! Aperio's SVS: a slide in full resolution, then a thumbnail, smaller copies, a label and an overview.

use super::super::axes::{Axes, OuterAxis};
use super::planes::RecordingFacts;
use super::stack::Stack;
use shardwright::words::{IS, count_that, of_number};

use crate::failure::Failure;

/// Whether a description is one of Aperio's.
pub(super) fn is_aperio(description: &str) -> bool {
    description.starts_with("Aperio ")
}

/// The focal planes in full resolution: the first page, and those behind the thumbnail that are as large.
pub(super) fn find(mut stack: Stack) -> Result<RecordingFacts, Failure> {
    let shape = stack.plane(0, 0)?.page.form.shape;
    let is_like_first = |number: usize| {
        let page = stack.entries[number].page.as_ref();
        page.is_ok_and(|page| page.form.is_tiled && page.form.shape == shape)
    };
    let behind = (2..stack.entries.len()).filter(|&number| is_like_first(number));
    let numbers: Vec<_> = [0].into_iter().chain(behind).collect();
    let planes = numbers.iter().map(|&number| stack.plane(0, number).map(Some)).collect::<Result<Vec<_>, _>>()?;
    let left = stack.entries.len() - planes.len();
    let note = format!(
        "{} left out: {}, a label or an overview",
        count_that(left, "page", IS),
        of_number(&left, ["a smaller copy", "smaller copies"])
    );
    let notes = if left > 0 { vec![note] } else { Vec::new() };
    let step = pixel_size(&stack.description).map(|size| (size, "micrometer"));
    let outer = vec![OuterAxis::new("z", planes.len() as u64)];
    let axes = Axes { outer, y_step: step, x_step: step, ..Axes::default() };
    Ok(RecordingFacts { axes, files: vec![stack.path], planes, notes, defect: stack.defect.take(), series: vec![0] })
}

/// `MPP = 0.499`: micrometers a pixel.
fn pixel_size(description: &str) -> Option<f64> {
    let value = description.split('|').find_map(|part| part.trim().strip_prefix("MPP")?.trim().strip_prefix('='))?;
    value.trim().parse().ok().filter(|size: &f64| size.is_finite() && *size > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixel_sizes_are_read() {
        assert_eq!(pixel_size("Aperio v11\r\n46000x32914 -> 1x1|AppMag = 20|MPP = 0.4990|Left = 25"), Some(0.499));
        assert_eq!(pixel_size("Aperio v11|MPP = none"), None);
    }
}
