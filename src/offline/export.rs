//! Regions that are larger than memory: piece by piece, in the order in which a file takes them.

use std::sync::mpsc;
use std::thread;

use crate::error::{Error, Result};
use crate::offline::array::Array;
use crate::offline::array::memory;

impl Array {
    /// Reads the box of `shape` elements from `start` piece by piece and hands each piece to `take`. The pieces follow
    /// each other in C order without gaps, elements in little-endian byte order; where they end is for the reader to
    /// choose.
    ///
    /// While one piece is taken the next one is read, on all cores. Both together have at most `memory_bytes` bytes; to
    /// this come the chunks that are just being decoded, one a thread. Memory for fewer frames than a chunk is deep
    /// costs time, because chunks are then decoded more than once.
    ///
    /// # Errors
    ///
    /// As [`read_region`](Self::read_region), [`Error::Config`] for a memory of less than two elements,
    /// [`Error::Format`] for a shard in which chunks share bytes, and the first error of `take`, after which nothing
    /// more is read.
    pub fn read_pieces<E: From<Error>>(
        &self,
        start: &[u64],
        shape: &[u64],
        memory_bytes: u64,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.check_box(start, shape)?;
        if shape.is_empty() || shape.contains(&0) {
            let mut one = vec![0; if shape.is_empty() { self.dtype().size() } else { 0 }];
            self.read_region(start, shape, &mut one)?;
            return if one.is_empty() { Ok(()) } else { take(&one) };
        }
        let element_bytes = self.dtype().size() as u64;
        if memory_bytes < 2 * element_bytes {
            let reason = format!("two pieces of an element each need {} bytes", 2 * element_bytes);
            return Err(Error::config("memory_bytes", memory_bytes, reason).into());
        }
        self.refuse_overlaps(start, shape).map_err(|error| self.unless_changed(error))?;
        let pieces = Pieces::new(start, shape, self.chunk_shape(), memory_bytes / 2 / element_bytes);
        thread::scope(|scope| {
            let (full, filled) = mpsc::sync_channel::<Result<Vec<u8>>>(1);
            let (back, empty) = mpsc::channel::<Vec<u8>>();
            (0..2).for_each(|_| drop(back.send(Vec::new())));
            scope.spawn(move || {
                for (start, shape) in pieces {
                    // Whoever takes the pieces may have given up.
                    let Ok(mut room) = empty.recv() else { return };
                    let bytes = shape.iter().product::<u64>() * element_bytes;
                    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                    let fits = memory::resize(&mut room, bytes).map_err(|reason| Error::format(self.path(), reason));
                    let read = fits.and_then(|()| self.read_region(&start, &shape, &mut room)).map(|()| room);
                    let failed = read.is_err();
                    if full.send(read).is_err() || failed {
                        return;
                    }
                }
            });
            for piece in filled {
                let piece = piece?;
                take(&piece)?;
                let _ = back.send(piece);
            }
            Ok(())
        })
    }
}

/// Cuts a box into boxes that follow each other in C order, each with at most this many elements.
///
/// Such a box has one index in the dimensions before some dimension, a run of them there, and all of them after it. The
/// run ends where chunks end if it can be that long.
pub(super) struct Pieces {
    start: Vec<u64>,
    shape: Vec<u64>,
    /// The dimension along which the runs go.
    dim: usize,
    step: u64,
    /// What runs end at multiples of.
    grain: u64,
    next: Option<Vec<u64>>,
}

impl Pieces {
    /// The box must have at least one dimension and one element.
    pub(super) fn new(start: &[u64], shape: &[u64], chunk: &[u64], elements_max: u64) -> Self {
        let row = |dim: usize| shape[dim + 1..].iter().product::<u64>();
        let last = shape.len() - 1;
        let dim = (0..last).find(|&dim| row(dim) <= elements_max).unwrap_or(last);
        let most = (elements_max / row(dim)).max(1);
        let grain = if most >= chunk[dim] { chunk[dim] } else { 1 };
        let step = most / grain * grain;
        Self { start: start.to_vec(), shape: shape.to_vec(), dim, step, grain, next: Some(start.to_vec()) }
    }
}

impl Iterator for Pieces {
    type Item = (Vec<u64>, Vec<u64>);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.next.take()?;
        let dim = self.dim;
        let end = |dim: usize| self.start[dim] + self.shape[dim];
        let boundary = (at[dim] / self.grain * self.grain).saturating_add(self.step).min(end(dim));
        let mut extent = vec![1; dim];
        extent.push(boundary - at[dim]);
        extent.extend(&self.shape[dim + 1..]);
        let mut next = at.clone();
        next[dim] = boundary;
        if boundary < end(dim) {
            self.next = Some(next);
        } else if let Some(slower) = (0..dim).rev().find(|&dim| at[dim] + 1 < end(dim)) {
            next[slower] += 1;
            next[slower + 1..].copy_from_slice(&self.start[slower + 1..]);
            self.next = Some(next);
        }
        Some((at, extent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{for_each_position, linear};

    /// The elements of a box, in C order, as numbers in the array.
    fn elements(start: &[u64], shape: &[u64], array: &[u64]) -> Vec<u64> {
        let mut found = Vec::new();
        for_each_position(start, shape, |at| found.push(linear(at, array)));
        found
    }

    #[test]
    fn pieces_follow_each_other_in_c_order_and_keep_their_bound() {
        let array = [7, 5, 6];
        let (start, shape) = ([1, 1, 2], [5, 4, 3]);
        for elements_max in 1..80 {
            let mut all = Vec::new();
            for (start, shape) in Pieces::new(&start, &shape, &[2, 3, 4], elements_max) {
                let piece = elements(&start, &shape, &array);
                assert!(piece.len() as u64 <= elements_max);
                all.extend(piece);
            }
            assert_eq!(all, elements(&start, &shape, &array), "{elements_max}");
        }
    }

    #[test]
    fn pieces_end_where_chunks_end() {
        let starts = |elements_max| {
            let pieces = Pieces::new(&[1, 0], &[10, 4], &[4, 4], elements_max);
            pieces.map(|(start, _)| start[0]).collect::<Vec<_>>()
        };
        assert_eq!(starts(16), [1, 4, 8]);
        assert_eq!(starts(35), [1, 8]);
        assert_eq!(starts(8), [1, 3, 5, 7, 9]);
    }
}
