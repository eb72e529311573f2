//! A region of an array as rows of memory: which rows belong to which chunk.
//!
//! Rows are handed out as disjoint `&mut` slices, so that many threads fill one buffer without any unsafe code.

use crate::geometry::{cells, for_each_position};

/// The part of a region that lies in one row of files: a box of elements in C order.
#[derive(Debug)]
pub(crate) struct Area<'a> {
    pub(crate) origin: &'a [u64],
    pub(crate) extent: &'a [u64],
    pub(crate) chunk: &'a [u64],
    pub(crate) element_bytes: usize,
}

/// One chunk of an area and the memory that its pixels belong to, row after row.
pub(crate) struct Rows<'out> {
    /// The chunk's position in the array's grid of chunks.
    pub(crate) chunk: Vec<u64>,
    pub(crate) rows: Vec<&'out mut [u8]>,
}

impl Area<'_> {
    /// The dimension along which rows run. Dimensions after it belong to the row, because the area spans one whole
    /// chunk there and nothing else: longer rows mean fewer and larger copies.
    fn split(&self) -> usize {
        let whole =
            |dim: usize| self.extent[dim] == self.chunk[dim] && self.origin[dim].is_multiple_of(self.chunk[dim]);
        let last = self.extent.len() - 1;
        last - (1..=last).rev().take_while(|&dim| whole(dim)).count()
    }

    /// Deals the memory of the area out to its chunks, in C order of the chunks.
    pub(crate) fn deal<'out>(&self, mut out: &'out mut [u8]) -> Vec<Rows<'out>> {
        let split = self.split();
        // Bytes of one step along that dimension.
        let unit = self.extent[split + 1..].iter().product::<u64>() as usize * self.element_bytes;
        let (first, counts) = cells(self.origin, self.extent, self.chunk);
        let mut chunks = Vec::new();
        for_each_position(&first, &counts, |chunk| {
            chunks.push(Rows { chunk: chunk.to_vec(), rows: Vec::new() });
        });
        // Chunks along the dimensions after `split` are single, so these don't count.
        let strides = strides(&counts[..=split]);
        for_each_position(&self.origin[..split], &self.extent[..split], |row| {
            let lead: u64 = (0..split).map(|dim| (row[dim] / self.chunk[dim] - first[dim]) * strides[dim]).sum();
            let mut at = self.origin[split];
            let end = at + self.extent[split];
            for column in 0..counts[split] {
                let boundary = (first[split] + column).saturating_add(1).saturating_mul(self.chunk[split]).min(end);
                let (piece, rest) = std::mem::take(&mut out).split_at_mut((boundary - at) as usize * unit);
                chunks[(lead + column) as usize].rows.push(piece);
                out = rest;
                at = boundary;
            }
        });
        chunks
    }

    /// Copies the pixels of one decoded chunk to its rows.
    pub(crate) fn copy(&self, chunk: &mut Rows<'_>, raw: &[u8]) {
        let split = self.split();
        let strides = strides(self.chunk);
        let position = &chunk.chunk;
        let corner: Vec<u64> = position.iter().zip(self.chunk).map(|(position, size)| position * size).collect();
        let overlap = |dim: usize| {
            let from = self.origin[dim].max(corner[dim]);
            let to = (self.origin[dim] + self.extent[dim]).min(corner[dim].saturating_add(self.chunk[dim]));
            (from - corner[dim], to - from)
        };
        let (from, counts): (Vec<u64>, Vec<u64>) = (0..split).map(overlap).unzip();
        let column = overlap(split).0 * strides[split];
        let mut rows = chunk.rows.iter_mut();
        for_each_position(&from, &counts, |row| {
            let element: u64 = row.iter().zip(&strides).map(|(position, stride)| position * stride).sum();
            let at = (element + column) as usize * self.element_bytes;
            if let Some(row) = rows.next() {
                row.copy_from_slice(&raw[at..at + row.len()]);
            }
        });
    }
}

/// Elements from one neighbour to the next in each dimension.
fn strides(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim] * shape[dim];
    }
    strides
}
