//! What tifffile says of an array in the description of its first page: a JSON object with `shape` and `axes`.

use std::fmt;

use serde::Deserialize;

use super::super::axes::OuterAxis;
use super::super::why::Why;
use super::page::{PixelEncoding, Shape};

#[derive(Deserialize)]
struct DescriptionDocument {
    shape: Vec<u64>,
    #[serde(default)]
    axes: String,
    #[serde(default)]
    truncated: bool,
}

/// What a description says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ShapedDescription {
    shape: Vec<u64>,
    /// A letter for each axis; empty: axes have no names.
    letters: Vec<char>,
    /// All planes lie behind the one page.
    pub(crate) is_truncated: bool,
}

/// How the planes of an array lie in pages.
pub(crate) struct ShapedLayout {
    /// `None`: axes have no names.
    pub(crate) outer: Option<Vec<OuterAxis>>,
    /// Rows and columns of a plane, if they are named.
    pub(crate) sides: Option<[u64; 2]>,
    /// Each sample of a pixel is of a plane of its own: tifffile takes 3 or 4 planes for colours.
    pub(crate) is_split: bool,
}

impl ShapedDescription {
    /// Understands a description; `None` if it is not tifffile's.
    pub(crate) fn parse(description: &str) -> Option<Self> {
        let description = description.trim();
        if !description.starts_with('{') {
            return None;
        }
        let DescriptionDocument { shape, axes, truncated } = serde_json::from_str(description).ok()?;
        let mut letters: Vec<_> = axes.chars().map(|letter| letter.to_ascii_uppercase()).collect();
        if letters.len() != shape.len() || !letters.iter().all(char::is_ascii_alphabetic) {
            letters.clear();
        }
        (!shape.is_empty() && !shape.contains(&0)).then_some(Self { shape, letters, is_truncated: truncated })
    }

    /// Pages of this shape that the array fills; `None`: nobody knows.
    pub(crate) fn pages(&self, page: Shape) -> Option<u64> {
        let size = self.shape.iter().try_fold(1u64, |product, &size| product.checked_mul(size))?;
        let page = page.width * page.height * page.samples;
        size.is_multiple_of(page).then_some(size / page)
    }

    /// Pages of this shape that the array has in the file.
    pub(crate) fn pages_there(&self, page: Shape) -> Option<u64> {
        if self.is_truncated { Some(1) } else { self.pages(page) }
    }

    /// The axes of the planes that pages of this kind hold.
    pub(crate) fn layout(&self, form: &PixelEncoding) -> Result<ShapedLayout, Why> {
        if self.letters.is_empty() {
            return Ok(ShapedLayout { outer: None, sides: None, is_split: false });
        }
        let axes = self.letters.iter().copied().zip(self.shape.iter().copied());
        let mut axes: Vec<_> = axes.filter(|axis| axis.1 > 1 || matches!(axis.0, 'Y' | 'X')).collect();
        let samples = form.shape.samples;
        let is_split = samples > 1 && {
            let place = axes.len().checked_sub(if form.is_planar { 3 } else { 1 });
            let named = place.filter(|&place| matches!(axes[place], ('S' | 'C', size) if size == samples));
            named.map(|place| axes.remove(place)).is_none()
        };
        if is_split && !form.is_planar {
            return Why::unread(format!(
                "its description names the axes {self}, but tifffile has stored the last one as colours, {samples} \
                 samples a pixel; write it with photometric='minisblack'"
            ));
        }
        // By Q, tifffile says of axes that nobody has named them.
        if axes.iter().filter(|axis| axis.0 == 'Q').count() > 1 {
            return Ok(ShapedLayout { outer: None, sides: None, is_split: false });
        }
        let wrong = || {
            Why::unread(format!(
                "its description names the axes {self}, of which the last two must be Y and X, and no two alike; write \
                 it with such axes, or save the array as .npy and give --axes"
            ))
        };
        let [outer @ .., ('Y', rows), ('X', columns)] = axes.as_slice() else { return wrong() };
        let mut letters: Vec<_> = axes.iter().map(|axis| axis.0).collect();
        letters.sort_unstable();
        letters.dedup();
        if letters.len() < axes.len() {
            return wrong();
        }
        let outer = outer.iter().map(|&(letter, size)| OuterAxis::new(&letter.to_ascii_lowercase().to_string(), size));
        Ok(ShapedLayout { outer: Some(outer.collect()), sides: Some([*rows, *columns]), is_split })
    }
}

impl fmt::Display for ShapedDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<_> = self.shape.iter().map(u64::to_string).collect();
        let space = if self.letters.is_empty() { "" } else { " " };
        write!(f, "{}{space}({})", self.letters.iter().collect::<String>(), sizes.join(", "))
    }
}
