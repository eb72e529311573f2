//! Tiles of frames, as the writer's workers get at them.

use crate::Wish;

/// As in `src/engine/worker.rs`.
const PREFETCHED_ROWS: usize = 3;
const PREFETCHED_ROW_BYTES_MIN: usize = 1 << 10;

/// The tile that comes so many after the first, round and round: where it lies, if that is in one piece, or gathered in `room`.
pub(super) fn tile<'a>(wish: &Wish, frames: &'a [u8], number: u64, room: &'a mut [u8]) -> &'a [u8] {
    in_one_piece(wish, frames, number).unwrap_or_else(|| {
        gather(wish, frames, number, room);
        room
    })
}

/// A tile of whole frames.
pub(super) fn in_one_piece<'a>(wish: &Wish, frames: &'a [u8], number: u64) -> Option<&'a [u8]> {
    let from = (number % wish.tiles()[0] as u64) as usize * wish.tile_bytes();
    (wish.chunk[1..] == wish.shape[1..]).then(|| &frames[from..from + wish.tile_bytes()])
}

/// Copies one tile's rows, frame by frame, to the start of each other. Rows are asked for ahead, as the writer does it: a slower
/// gather would be a bound that flatters.
pub(super) fn gather(wish: &Wish, frames: &[u8], number: u64, tile: &mut [u8]) {
    let [deep, high, wide] = wish.tiles();
    let number = (number % (deep * high * wide) as u64) as usize;
    let at = [number / wide / high, number / wide % high, number % wide];
    let [depth, height, width] = wish.chunk;
    let (row_bytes, stride) = (width * wish.element_bytes, wish.shape[2] * wish.element_bytes);
    for (row, to) in tile.chunks_exact_mut(row_bytes).enumerate() {
        let (z, y) = (at[0] * depth + row / height, at[1] * height + row % height);
        let from = z * wish.frame_bytes() + y * stride + at[2] * row_bytes;
        let soon = from + PREFETCHED_ROWS * stride;
        if row_bytes >= PREFETCHED_ROW_BYTES_MIN
            && let Some(soon) = frames.get(soon..soon + row_bytes)
        {
            prefetch(soon);
        }
        to.copy_from_slice(&frames[from..from + row_bytes]);
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
