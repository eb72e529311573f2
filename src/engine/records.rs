//! What is known about each frame beside its pixels, gathered in columns and handed on by the block.

use std::collections::VecDeque;

use super::Engine;
use super::finalizer::Closing;
use crate::dataset::RecordBlock;
use crate::plan::RecordPlan;
use crate::sync::{Receiver, Sender, bounded};

/// Gathers records. Blocks are reused; the closer writes them and gives them back.
pub(crate) struct Records {
    block_frames: u64,
    /// For each field: offset in a record, bytes.
    fields: Vec<(usize, usize)>,
    open: VecDeque<RecordBlock>,
    spare: Receiver<RecordBlock>,
}

impl Records {
    /// `window`: how many numbers may be unsettled. Returns also where written blocks come back.
    pub(crate) fn new(plan: &RecordPlan, window: u64) -> (Self, Sender<RecordBlock>) {
        // The blocks that the window can touch, and two on their way to the disk.
        let blocks = window.div_ceil(plan.block_frames) + 4;
        let (give_back, spare) = bounded(blocks as usize);
        for _ in 0..blocks {
            // Written, not just zeroed: the first commit shall not pay for their page faults.
            let columns = plan.fields.iter().map(|f| vec![0xff; f.dtype.size() * plan.block_frames as usize]).collect();
            let sent = give_back.try_send(RecordBlock { number: 0, columns });
            debug_assert!(sent.is_ok(), "the queue holds all blocks");
        }
        let fields = plan.fields.iter().map(|field| (field.offset, field.dtype.size())).collect();
        let open = VecDeque::with_capacity(blocks as usize);
        (Self { block_frames: plan.block_frames, fields, open, spare }, give_back)
    }

    /// Makes sure that there is a block for `number`; false if all are still on their way to the disk.
    pub(crate) fn ready(&mut self, number: u64) -> bool {
        let block = number / self.block_frames;
        if self.open.iter().any(|open| open.number == block) {
            return true;
        }
        let Ok(mut spare) = self.spare.try_recv() else { return false };
        spare.number = block;
        for (at, column) in spare.columns.iter_mut().enumerate() {
            // A frame that never comes has number −1 and zeros.
            column.fill(if at == 0 { 0xff } else { 0 });
        }
        self.open.push_back(spare);
        true
    }

    /// Keeps a record, for which [`ready`](Self::ready) made room.
    pub(crate) fn put(&mut self, number: u64, record: &[u8]) {
        let block = number / self.block_frames;
        let place = (number % self.block_frames) as usize;
        let Some(open) = self.open.iter_mut().find(|open| open.number == block) else { return };
        for (column, &(offset, bytes)) in open.columns.iter_mut().zip(&self.fields) {
            column[place * bytes..][..bytes].copy_from_slice(&record[offset..offset + bytes]);
        }
    }

    /// Hands on the blocks in which every number is below `settled_end`.
    pub(crate) fn settle(&mut self, settled_end: u64, engine: &Engine) {
        while let Some(at) = self.open.iter().position(|open| (open.number + 1) * self.block_frames <= settled_end) {
            if let Some(block) = self.open.remove(at) {
                engine.close(Closing::Records(block));
            }
        }
    }

    /// Hands on all blocks, whatever is missing.
    pub(crate) fn finish(&mut self, engine: &Engine) {
        while let Some(block) = self.open.pop_front() {
            engine.close(Closing::Records(block));
        }
    }
}
