//! Tiles of frames, as the writer's workers get at them.

use std::ops::Range;

use shardwright::codec::{Encoder, TileSource};

use crate::Request;

/// As in `src/engine/worker.rs`.
const PREFETCHED_ROWS: usize = 3;
const PREFETCHED_ROW_BYTES_MIN: usize = 1 << 10;

/// A tile, with its rows where they lie.
pub(super) struct Tile<'a> {
    frames: &'a [u8],
    frame_bytes: usize,
    /// Of the first row.
    offset: usize,
    row_stride: usize,
    /// Bytes that follow each other without gaps, how many times in a frame, and in how many frames.
    row_bytes: usize,
    rows: usize,
    depth: usize,
}

impl<'a> Tile<'a> {
    /// The one that comes this many after the first, round and round.
    pub(super) fn new(request: &Request, frames: &'a [u8], number: u64) -> Self {
        let [deep, high, wide] = request.tiles();
        let number = (number % (deep * high * wide) as u64) as usize;
        let [depth, height, width] = request.chunk;
        let [z, y, x] = [number / wide / high * depth, number / wide % high * height, number % wide * width];
        let (row_stride, frame_bytes) = (request.shape[2] * request.element_bytes, request.frame_bytes());
        let offset = z * frame_bytes + y * row_stride + x * request.element_bytes;
        let is_whole_frames = request.chunk[1..] == request.shape[1..];
        let (row_bytes, rows, depth) =
            if is_whole_frames { (request.tile_bytes(), 1, 1) } else { (width * request.element_bytes, height, depth) };
        Self { frames, frame_bytes, offset, row_stride, row_bytes, rows, depth }
    }

    /// Its chunk at the start of `room`; the chunk's bytes. `spare` has room for the tile.
    pub(super) fn encode(
        &self,
        encoder: &mut Encoder,
        spare: &mut [u8],
        room: &mut [u8],
    ) -> shardwright::Result<usize> {
        if encoder.gathers() {
            encoder.encode_from(self, spare, room)
        } else {
            encoder.encode(self.in_one_piece(spare), room)
        }
    }

    /// The tile where it lies, if that is in one piece, or gathered in `room`.
    pub(super) fn in_one_piece<'b>(&'b self, room: &'b mut [u8]) -> &'b [u8] {
        match self.in_one(0..self.bytes()) {
            Some(pixels) => pixels,
            None => {
                self.gather(room);
                room
            }
        }
    }

    /// Copies its rows, frame by frame, to the start of each other. Rows are asked for ahead, as the writer does it: a
    /// slower gather would be a bound that flatters.
    pub(super) fn gather(&self, tile: &mut [u8]) {
        for (number, to) in tile.chunks_exact_mut(self.row_bytes).enumerate() {
            let from = self.row(number);
            let soon = from + PREFETCHED_ROWS * self.row_stride;
            if self.row_bytes >= PREFETCHED_ROW_BYTES_MIN
                && let Some(soon) = self.frames.get(soon..soon + self.row_bytes)
            {
                prefetch(soon);
            }
            to.copy_from_slice(&self.frames[from..from + self.row_bytes]);
        }
    }

    /// Where a row begins, counted through all frames.
    fn row(&self, number: usize) -> usize {
        self.offset + number / self.rows * self.frame_bytes + number % self.rows * self.row_stride
    }
}

impl TileSource for Tile<'_> {
    fn bytes(&self) -> usize {
        self.depth * self.rows * self.row_bytes
    }

    fn show(&self, range: Range<usize>, to: &mut dyn FnMut(&[u8])) {
        let (row, mut column) = (range.start / self.row_bytes, range.start % self.row_bytes);
        let (mut frame, mut row) = (row / self.rows, row % self.rows);
        let mut left = range.len();
        // Divisions for each row would take a tenth of the encoder's time.
        while left > 0 {
            let bytes = left.min(self.row_bytes - column);
            to(&self.frames[self.offset + frame * self.frame_bytes + row * self.row_stride + column..][..bytes]);
            (row, column, left) = (row + 1, 0, left - bytes);
            if row == self.rows {
                (frame, row) = (frame + 1, 0);
            }
        }
    }

    fn in_one(&self, range: Range<usize>) -> Option<&[u8]> {
        let (row, column) = (range.start / self.row_bytes, range.start % self.row_bytes);
        let fits = column + range.len() <= self.row_bytes;
        fits.then(|| &self.frames[self.row(row) + column..][..range.len()])
    }
}

fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: changes nothing but caches, and the address is that of a slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}
