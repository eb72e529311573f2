//! Where the pixels of an image's levels are.
//!
//! Coordinates are those of centres: element `i` of a dimension stands at `translation + i × scale`, so a translation
//! is where the centre of the first element is. OME-Zarr 0.5 leaves this open; 0.6 says so, and what reads 0.5 goes by
//! it.

use crate::config::Dim;
use crate::downsample::Method;

/// How far apart the pixels of a level are in each dimension, and where the first one is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PixelGrid {
    pub(crate) scale: Vec<f64>,
    pub(crate) translation: Option<Vec<f64>>,
}

impl PixelGrid {
    /// That of the array that frames are written to.
    pub(crate) fn of_dims(dims: &[Dim]) -> Self {
        let translation = dims.iter().map(|dim| dim.translation);
        Self {
            scale: dims.iter().map(|dim| dim.scale).collect(),
            translation: translation.clone().any(|place| place != 0.0).then(|| translation.collect()),
        }
    }

    /// That of a level whose pixels are each made of `factors` of these.
    pub(crate) fn level(&self, factors: &[u64], method: Method) -> Self {
        let scale = self.scale.iter().zip(factors).map(|(scale, factor)| scale * *factor as f64).collect();
        // One that is kept stays where it was.
        let shifts = method != Method::Decimate;
        let translation = (0..factors.len()).map(|dim| {
            let start = self.translation.as_ref().map_or(0.0, |translation| translation[dim]);
            // The middle of the first pixel is that of all the pixels that it was made of.
            let shift = if shifts { (factors[dim] - 1) as f64 / 2.0 * self.scale[dim] } else { 0.0 };
            start + shift
        });
        Self { scale, translation: (shifts || self.translation.is_some()).then(|| translation.collect()) }
    }

    /// What leads back from there; `None` where all of an axis is one place.
    pub(crate) fn inverse(&self) -> Option<Self> {
        let is_point = self.scale.contains(&0.0);
        let back = |(place, scale): (&f64, &f64)| -place / scale;
        let translation = self.translation.as_ref().map(|places| places.iter().zip(&self.scale).map(back).collect());
        (!is_point).then(|| Self { scale: self.scale.iter().map(|scale| 1.0 / scale).collect(), translation })
    }

    /// The same, seen from where `next` leads.
    pub(crate) fn then(&self, next: &Self) -> Self {
        let scale: Vec<f64> = self.scale.iter().zip(&next.scale).map(|(scale, next)| scale * next).collect();
        let translation = (self.translation.is_some() || next.translation.is_some()).then(|| {
            let at = |grid: &Self, dim: usize| grid.translation.as_ref().map_or(0.0, |translation| translation[dim]);
            (0..scale.len()).map(|dim| at(self, dim) * next.scale[dim] + at(next, dim)).collect()
        });
        Self { scale, translation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(translation: Option<[f64; 3]>) -> PixelGrid {
        PixelGrid { scale: vec![2.0, 0.5, 0.25], translation: translation.map(Vec::from) }
    }

    #[test]
    fn a_level_s_pixel_stands_in_the_middle_of_those_it_was_made_of() {
        let first = grid(Some([10.0, 3.0, -1.0]));
        let second = first.level(&[1, 2, 4], Method::Mean);
        assert_eq!(second, PixelGrid { scale: vec![2.0, 1.0, 1.0], translation: Some(vec![10.0, 3.25, -0.625]) });
        // By hand: columns 0 to 3 stand at -1, -0.75, -0.5 and -0.25.
        assert_eq!((-1.0 - 0.75 - 0.5 - 0.25) / 4.0, -0.625);
        assert_eq!(first.level(&[1, 2, 4], Method::Decimate).translation, first.translation);
        assert_eq!(grid(None).level(&[1, 2, 2], Method::Max).translation, Some(vec![0.0, 0.25, 0.125]));
        assert_eq!(grid(None).level(&[1, 2, 2], Method::Decimate).translation, None);
    }

    #[test]
    fn dimensions_without_a_place_say_nothing_of_one() {
        let dims = [Dim::y(4).scale(0.5, "micrometer"), Dim::x(4)];
        assert_eq!(PixelGrid::of_dims(&dims), PixelGrid { scale: vec![0.5, 1.0], translation: None });
        let moved = [dims[0].clone(), Dim::x(4).translation(-7.5)];
        assert_eq!(PixelGrid::of_dims(&moved).translation, Some(vec![0.0, -7.5]));
    }
}
