//! What is known about each frame beside its pixels, gathered in columns and handed on by the block.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use super::losses::holds;
use super::messages::Closing;
use super::shared::Shared;
use crate::dataset::image::ImageWriter;
use crate::dataset::records::RecordBlock;
use crate::error::Result;
use crate::format::provenance::MISSING_RANGES_MAX;
use crate::plan::{Plan, RecordPlan};
use crate::record::{LOST, NO_FRAME, NOT_KNOWN};
use crate::sync::{Receiver, Sender, bounded};

/// Gathers records. Blocks are reused; the closer writes them and gives them back.
pub(crate) struct Records {
    block_frames: u64,
    /// For each field: offset in a record, bytes.
    fields: Vec<(usize, usize)>,
    open: VecDeque<OpenBlock>,
    spare: Receiver<RecordBlock>,
    /// How many more blocks may be made when they are needed.
    unmade: u64,
}

struct OpenBlock {
    block: RecordBlock,
    /// Places in which records came since the block was copied.
    changed: Range<usize>,
    /// How many of its first numbers were settled then.
    settled: usize,
}

impl Records {
    /// `window`: how many numbers may be unsettled; `late`: memory is taken when the first frames come. Returns also
    /// where written blocks come back.
    pub(crate) fn new(plan: &RecordPlan, window: u64, late: bool) -> (Self, Sender<RecordBlock>) {
        // The blocks that the window can touch, and two on their way to the disk.
        let blocks = window.div_ceil(plan.block_frames) + 4;
        let (give_back, spare) = bounded(blocks as usize);
        let made = if late { 0 } else { blocks };
        for _ in 0..made {
            let sent = give_back.try_send(RecordBlock::new(plan));
            debug_assert!(sent.is_ok(), "the queue holds all blocks");
        }
        let fields = plan.fields.iter().map(|field| (field.offset, field.dtype.size())).collect();
        let open = VecDeque::with_capacity(blocks as usize);
        (Self { block_frames: plan.block_frames, fields, open, spare, unmade: blocks - made }, give_back)
    }

    /// Makes sure that there is a block for `number`; false if all are still on their way to the disk.
    pub(crate) fn ready(&mut self, number: u64, plan: &RecordPlan) -> bool {
        let block = number / self.block_frames;
        if self.open.iter().any(|open| open.block.number == block) {
            return true;
        }
        let Some(mut spare) = self.spare.try_recv().ok().or_else(|| self.make(plan)) else { return false };
        spare.number = block;
        // For frames that never come.
        spare.columns.iter_mut().zip(&plan.fields).for_each(|(column, field)| field.fill_elements(column));
        self.open.push_back(OpenBlock { block: spare, changed: 0..0, settled: 0 });
        true
    }

    fn make(&mut self, plan: &RecordPlan) -> Option<RecordBlock> {
        self.unmade = self.unmade.checked_sub(1)?;
        Some(RecordBlock::new(plan))
    }

    /// Keeps a record, for which [`ready`](Self::ready) made room.
    pub(crate) fn put(&mut self, number: u64, record: &[u8]) {
        let block = number / self.block_frames;
        let place = (number % self.block_frames) as usize;
        let Some(open) = self.open.iter_mut().find(|open| open.block.number == block) else { return };
        for (column, &(offset, bytes)) in open.block.columns.iter_mut().zip(&self.fields) {
            column[place * bytes..][..bytes].copy_from_slice(&record[offset..offset + bytes]);
        }
        // Frames of one buffer share its record, in which only the first one's number stands.
        if let Some(numbers) = open.block.columns.first_mut() {
            numbers[place * size_of::<i64>()..][..size_of::<i64>()]
                .copy_from_slice(&number.cast_signed().to_ne_bytes());
        }
        let changed = &open.changed;
        open.changed =
            if changed.is_empty() { place..place + 1 } else { changed.start.min(place)..changed.end.max(place + 1) };
    }

    /// Hands on the blocks in which every number is below `settled_end`.
    pub(crate) fn settle(&mut self, settled_end: u64, shared: &Shared) {
        let is_settled = |open: &OpenBlock| (open.block.number + 1) * self.block_frames <= settled_end;
        while let Some(at) = self.open.iter().position(is_settled)
            && let Some(open) = self.open.remove(at)
        {
            Self::hand_on(open, shared);
        }
    }

    fn hand_on(open: OpenBlock, shared: &Shared) {
        shared.unstored_records.note_handed(open.block.number);
        shared.closings.put(Closing::Records(open.block));
    }

    /// Hands on all blocks, whatever is missing.
    pub(crate) fn finish(&mut self, shared: &Shared) {
        self.open.drain(..).for_each(|open| Self::hand_on(open, shared));
    }

    /// Copies the first block from block `from` on that has changed since it was copied, as far as `copy` does not hold
    /// it. False: there is none.
    pub(crate) fn copy(&mut self, from: u64, settled_end: u64, copy: &mut RecordCopy) -> bool {
        let frames = self.block_frames;
        let settled = |open: &OpenBlock| settled_end.saturating_sub(open.block.number * frames).min(frames) as usize;
        let is_news = |open: &&mut OpenBlock| !open.changed.is_empty() || open.settled != settled(open);
        let later = self.open.iter_mut().filter(|open| open.block.number >= from).filter(is_news);
        let Some(open) = later.min_by_key(|open| open.block.number) else { return false };
        open.settled = settled(open);
        let changed = std::mem::replace(&mut open.changed, 0..0);
        let places = if copy.block.number == open.block.number { changed } else { 0..frames as usize };
        for ((to, from), &(_, bytes)) in copy.block.columns.iter_mut().zip(&open.block.columns).zip(&self.fields) {
            let range = places.start * bytes..places.end * bytes;
            to[range.clone()].copy_from_slice(&from[range]);
        }
        (copy.block.number, copy.settled) = (open.block.number, open.settled);
        true
    }
}

/// Writes the numbers in the blocks of frames that were lost with their chunks after they had been recorded: no record
/// shall name what is not there. `missing`: those that never came, as far as they are remembered.
pub(crate) fn write_lost(
    image: &ImageWriter,
    plan: &Plan,
    missing: &[Range<u64>],
    lost: &BTreeSet<u64>,
    end: u64,
) -> Result<()> {
    let block_frames = plan.record.block_frames;
    let remembered_end = if missing.len() < MISSING_RANGES_MAX { end } else { missing[missing.len() - 1].end };
    let mut from = 0;
    while let Some(number) = lost.range(from..).next().filter(|&&number| number < remembered_end) {
        let block = number / block_frames;
        let (start, block_end) = (block * block_frames, (block + 1) * block_frames);
        let numbers = (start..block_end).map(|number| match number {
            _ if number >= end || holds(missing, number) => NO_FRAME,
            _ if lost.contains(&number) => LOST,
            _ => number.cast_signed(),
        });
        let bytes: Vec<u8> = numbers.flat_map(i64::to_ne_bytes).collect();
        if block_end.min(end) <= remembered_end {
            image.write_frame_numbers(plan, block, &bytes)?;
        }
        from = block_end;
    }
    Ok(())
}

/// A copy of a block that is still open, as checkpoints write it.
pub(crate) struct RecordCopy {
    block: RecordBlock,
    /// How many of the block's first numbers are settled.
    pub(super) settled: usize,
}

impl RecordCopy {
    pub(crate) fn new(plan: &RecordPlan) -> Self {
        // Of a block that never comes.
        Self { block: RecordBlock { number: u64::MAX, ..RecordBlock::new(plan) }, settled: 0 }
    }

    /// The block, as a file shall hold it.
    ///
    /// Of a number that is not settled, nobody can say yet that no frame came: what is told of it outlives a kill.
    pub(crate) fn for_file(&mut self) -> &RecordBlock {
        let (numbers, _) = self.block.columns[0].as_chunks_mut::<8>();
        for (place, number) in numbers.iter_mut().enumerate() {
            if [NO_FRAME, NOT_KNOWN].contains(&i64::from_ne_bytes(*number)) {
                let told = if place < self.settled { NO_FRAME } else { NOT_KNOWN };
                *number = told.to_ne_bytes();
            }
        }
        &self.block
    }
}
