//! The shards that frames need: asked for ahead of need, and let go of when no more frames will come.

use std::collections::VecDeque;
use std::sync::Arc;

use super::cell::{ShardBlock, ShardCell};
use super::messages::{Closing, PrepareBlock, Requests};
use super::shared::Shared;
use crate::plan::Plan;
use crate::sync::Receiver;

/// Why a frame can't go on.
pub(super) enum Hold {
    /// Something is on its way; try again later.
    Wait,
    /// A frame is that was taken before and has not arrived.
    Older,
    /// What it needs will never come.
    Never,
}

/// The blocks of shards that are open or prepared, in the order of their numbers.
pub(super) struct Blocks {
    plan: Arc<Plan>,
    /// With each block, whether a layer of it was opened.
    blocks: VecDeque<(bool, ShardBlock)>,
    requests: Arc<Requests>,
    prepared: Receiver<ShardBlock>,
    /// All blocks below were requested, or will never be needed.
    requested_end: u64,
    /// One past the last block of the array.
    blocks_end: u64,
}

impl Blocks {
    pub(super) fn new(plan: &Arc<Plan>, requests: Arc<Requests>, prepared: Receiver<ShardBlock>) -> Self {
        let blocks_end =
            plan.frames_total.map_or(u64::MAX, |frames| plan.shards.locate(frames.saturating_sub(1)).block + 1);
        let capacity = plan.ring.shard_blocks_max();
        Self {
            plan: plan.clone(),
            blocks: VecDeque::with_capacity(capacity),
            requests,
            prepared,
            requested_end: 0,
            blocks_end,
        }
    }

    /// The first block was delivered without a request: those that follow it are asked for.
    pub(super) fn begin(&mut self) {
        self.requested_end = 1;
        self.request_up_to(self.plan.ring.shard_blocks_ahead);
        self.requests.wake();
    }

    fn request_up_to(&mut self, block: u64) {
        let end = (block + 1).min(self.blocks_end);
        for block in self.requested_end..end {
            // The queue holds all blocks that may be open.
            self.requests.push_quietly(PrepareBlock(block));
        }
        self.requested_end = self.requested_end.max(end);
    }

    pub(super) fn take_prepared(&mut self, settled_end: u64, shared: &Shared) {
        while let Ok(block) = self.prepared.try_recv() {
            if self.plan.shards.block_frames(block.number).end <= settled_end {
                // The numbers leapt over it while it was made. Kept, it would stand before all that follow for ever.
                block.cells.into_iter().for_each(|cell| shared.closings.put(Closing::Cell(cell)));
            } else {
                self.blocks.push_back((false, block));
            }
        }
    }

    pub(super) fn is_touched(&self, number: u64) -> bool {
        self.blocks.iter().any(|(touched, block)| *touched && block.number == number)
    }

    /// The shards of the frame `number`.
    pub(super) fn cell_of(&mut self, number: u64, shared: &Shared) -> Result<Arc<ShardCell>, Hold> {
        let at = self.plan.shards.locate(number);
        if let Some((touched, block)) = self.blocks.iter_mut().find(|(_, block)| block.number == at.block) {
            *touched = true;
            let cell = block.cells[at.cell as usize].clone();
            self.request_up_to(at.block + self.plan.ring.shard_blocks_ahead);
            return Ok(cell);
        }
        if shared.first_error.get().is_some() {
            return Err(Hold::Never);
        }
        // Release: the preparer, which may be waiting before another try, sees it.
        shared.needed_block.fetch_max(at.block, std::sync::atomic::Ordering::Release);
        self.request_up_to(at.block);
        self.requests.wake();
        Err(Hold::Wait)
    }

    /// Where the blocks end of which no layer was opened, from `block` on, and all whole ones below the frame `end`.
    pub(super) fn untouched_end(&self, block: u64, end: u64) -> u64 {
        let touched = self.blocks.iter().filter(|(touched, _)| *touched).map(|(_, block)| block.number);
        let touched = touched.filter(|&number| number > block).min();
        let last = self.plan.shards.block_frames(self.plan.shards.locate(end - 1).block);
        let whole_end = if last.end <= end { last.end } else { last.start };
        touched.map_or(whole_end, |number| self.plan.shards.block_frames(number).start.min(whole_end))
    }

    /// From `block` up to the frame `to`, which begins another, no frame came and none will.
    pub(super) fn skip(&mut self, block: u64, to: u64, shared: &Shared) {
        let blocks = block..self.plan.shards.locate(to - 1).block + 1;
        self.requested_end = self.requested_end.max(blocks.end);
        while let Some(at) = self.blocks.iter().position(|(_, block)| blocks.contains(&block.number))
            && let Some((_, block)) = self.blocks.remove(at)
        {
            block.cells.into_iter().for_each(|cell| shared.closings.put(Closing::Cell(cell)));
        }
    }

    pub(super) fn take_all(&mut self) -> Vec<ShardBlock> {
        self.blocks.drain(..).map(|(_, block)| block).collect()
    }

    /// Lets go of blocks whose frames are all settled; their layers hold what they still need.
    pub(super) fn forget_before(&mut self, settled_end: u64) {
        let plan = &self.plan;
        while let Some((true, block)) = self.blocks.front()
            && plan.shards.block_frames(block.number).end <= settled_end
        {
            self.blocks.pop_front();
        }
    }
}
