//! Reads regions of an array at half its size.

use rayon::prelude::*;

use crate::downsample::Method;
use crate::downsample::halver::Halver;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::format;
use crate::offline::array::Array;
use crate::offline::array::memory;
use crate::pixels::Plane;

/// Rows of a plane that one thread makes at a time.
const BAND_ROWS: usize = 64;

/// How the pixels of one level become those of the next.
#[derive(Debug)]
pub(crate) struct Halving {
    /// It keeps rows while it works: each thread takes one of its own.
    halver: Halver,
    element_bytes: usize,
    /// 2 for each dimension that is halved, 1 for the others: of the last two those that are not kept, unless they are
    /// one pixel long, and perhaps the one before.
    factors: Vec<u64>,
}

impl Halving {
    pub(crate) fn new(method: Method, dtype: Dtype, factors: &[u64]) -> Self {
        let halved = [2, 1].map(|back| nth_last(factors, back) == 2);
        Self { halver: Halver::new(method, dtype, halved), element_bytes: dtype.size(), factors: factors.to_vec() }
    }

    /// This many pixels become one.
    pub(crate) fn reduction(&self) -> u64 {
        self.factors.iter().product()
    }

    /// The size of what becomes a box of this size.
    pub(crate) fn doubled(&self, shape: &[u64]) -> Vec<u64> {
        shape.iter().zip(&self.factors).map(|(length, factor)| length.saturating_mul(*factor)).collect()
    }

    /// Reads the box of `shape` elements from `start` of the halved array into `out`. `whole`: room for what it is made
    /// of, used again and again.
    pub(crate) fn read(
        &self,
        source: &Array,
        start: &[u64],
        shape: &[u64],
        out: &mut [u8],
        whole: &mut Vec<u8>,
    ) -> Result<()> {
        let from = self.doubled(start);
        let extent: Vec<u64> = self
            .doubled(shape)
            .iter()
            .zip(source.shape())
            .zip(&from)
            .map(|((length, end), from)| (*length).min(end - from))
            .collect();
        let bytes = format::bytes(&extent, source.dtype()).and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.unwrap_or(usize::MAX);
        memory::resize(whole, bytes).map_err(|reason| crate::Error::format(source.path(), reason))?;
        let whole = &mut whole[..bytes];
        source.read_region(&from, &extent, whole)?;
        self.halve(whole, &extent, shape, out);
        Ok(())
    }

    /// Makes a box of `to` elements of one of `from`.
    fn halve(&self, whole: &[u8], from: &[u64], to: &[u64], out: &mut [u8]) {
        let length = |shape: &[u64], back: usize| nth_last(shape, back) as usize;
        let (rows, columns) = (length(from, 2), length(from, 1));
        let out_row_bytes = length(to, 1) * self.element_bytes;
        let plane_bytes = rows * columns * self.element_bytes;
        let (depth, out_depth, planes_of_one) = (length(from, 3), length(to, 3), length(&self.factors, 3));
        let band_rows = length(&self.factors, 2) * BAND_ROWS;
        let plane = |at: usize, row: usize| Plane {
            pixels: &whole[at * plane_bytes + row * columns * self.element_bytes..][..],
            row_stride: columns * self.element_bytes,
            rows: (rows - row).min(band_rows),
            columns,
        };
        let planes = out.par_chunks_mut(length(to, 2) * out_row_bytes).enumerate();
        planes.for_each(|(at, out)| {
            let z = at % out_depth * planes_of_one;
            let first = at / out_depth * depth + z;
            let count = planes_of_one.min(depth - z);
            let bands = out.par_chunks_mut(BAND_ROWS * out_row_bytes).enumerate();
            bands.for_each_with(self.halver.clone(), |halver, (band, out)| {
                let planes = [first, first + count - 1].map(|at| plane(at, band * band_rows));
                halver.halve(&planes[..count], out);
            });
        });
    }
}

/// The number of a dimension counted from the last, which is 1; 1 where there is none.
fn nth_last(numbers: &[u64], back: usize) -> u64 {
    numbers.len().checked_sub(back).map_or(1, |dim| numbers[dim])
}
