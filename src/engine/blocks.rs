//! The shards that frames need: asked for ahead of need, and let go of when no more frames will come.

use std::collections::VecDeque;
use std::sync::Arc;

use super::cell::{ShardBlock, ShardCell, ShardPlace};
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

struct ParkedPlace {
    number: u64,
    touched: bool,
    is_wanted: bool,
}

/// The blocks of shards that are open or prepared, in the order of their numbers.
pub(super) struct Blocks {
    plan: Arc<Plan>,
    /// With each block, whether a layer of it was opened.
    blocks: VecDeque<(bool, ShardBlock)>,
    requests: Arc<Requests>,
    prepared: Receiver<ShardBlock>,
    /// Blocks whose files are closed for a while, whether a layer of them was opened, and whether they were asked for
    /// again.
    parked: Vec<ParkedPlace>,
    /// All blocks below were requested, or will never be needed.
    requested_end: u64,
    /// One past the last block of the array.
    blocks_end: u64,
}

impl Blocks {
    pub(super) fn new(plan: &Arc<Plan>, requests: Arc<Requests>, prepared: Receiver<ShardBlock>) -> Self {
        let blocks_end =
            plan.frames_total.map_or(u64::MAX, |frames| plan.shards.locate(frames.saturating_sub(1)).block + 1);
        Self {
            plan: plan.clone(),
            blocks: VecDeque::with_capacity(plan.ring.shard_blocks_max()),
            requests,
            prepared,
            parked: Vec::new(),
            requested_end: 0,
            blocks_end,
        }
    }

    /// The first block was delivered without a request: those that follow it are asked for.
    pub(super) fn begin(&mut self) {
        self.requested_end = 1;
        self.request_up_to(self.plan.ring.shard_blocks_ahead);
        self.requests.lane.wake();
    }

    fn request_up_to(&mut self, block: u64) {
        let end = (block + 1).min(self.blocks_end);
        for block in self.requested_end..end {
            // The queue holds all blocks that may be open.
            self.requests.push_quietly(PrepareBlock(block));
        }
        self.requested_end = self.requested_end.max(end);
    }

    /// True: files that were closed for a while are open again.
    pub(super) fn take_prepared(&mut self, settled_end: u64, shared: &Shared) -> bool {
        let mut is_reopened = false;
        while let Ok(block) = self.prepared.try_recv() {
            let known = self.parked.iter().position(|parked| parked.number == block.number);
            if let Some(parked) = known.map(|at| self.parked.swap_remove(at)) {
                let at = self.blocks.partition_point(|(_, other)| other.number < block.number);
                self.blocks.insert(at, (parked.touched, block));
                is_reopened = true;
                continue;
            }
            if self.plan.shards.block_frames(block.number).end <= settled_end {
                // The numbers leapt over it while it was made. Kept, it would stand before all that follow for ever.
                block.cells.into_iter().for_each(|cell| shared.closings.put(Closing::Cell(cell)));
            } else {
                self.blocks.push_back((false, block));
            }
        }
        is_reopened
    }

    /// Gives up a block whose files nobody uses, so that they can be closed for a while. `waiting`: how many layers of
    /// a block wait for frames; `may_wait`: whether there may be some.
    pub(super) fn park_idle(&mut self, waiting: impl Fn(&ShardPlace) -> usize, may_wait: bool) -> Option<ShardBlock> {
        // The cells are held here, where open cells are listed, and by layers that wait; all others are at work.
        let is_idle = |block: &ShardBlock| {
            block.cells.iter().all(|cell| {
                let waiting = waiting(&ShardPlace { block: block.number, cell: cell.cell });
                (may_wait || waiting == 0) && Arc::strong_count(cell) == 2 + waiting && cell.permit.is_some()
            })
        };
        let at = self.blocks.iter().position(|(_, block)| is_idle(block))?;
        let (touched, block) = self.blocks.remove(at)?;
        self.parked.push(ParkedPlace { number: block.number, touched, is_wanted: false });
        Some(block)
    }

    /// The shards that stand there, if they are open.
    pub(super) fn open_cell(&self, at: &ShardPlace) -> Option<Arc<ShardCell>> {
        let (_, block) = self.blocks.iter().find(|(_, block)| block.number == at.block)?;
        block.cells.get(at.cell as usize).cloned()
    }

    /// Whether the block's files are closed for a while; if so, they are asked for.
    pub(super) fn is_parked(&mut self, number: u64) -> bool {
        let Some(parked) = self.parked.iter_mut().find(|parked| parked.number == number) else { return false };
        if !std::mem::replace(&mut parked.is_wanted, true) {
            self.requests.push_quietly(PrepareBlock(number));
            self.requests.lane.wake();
        }
        true
    }

    /// Whether they are, or are about to be open again, where they are not needed.
    #[cfg(feature = "offline")]
    pub(super) fn has_parked(&self, number: u64) -> bool {
        self.parked.iter().any(|parked| parked.number == number)
    }

    pub(super) fn is_touched(&self, number: u64) -> bool {
        self.blocks.iter().any(|(touched, block)| *touched && block.number == number)
            || self.parked.iter().any(|parked| parked.touched && parked.number == number)
    }

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
        if self.is_parked(at.block) {
            return Err(Hold::Wait);
        }
        // Release: the preparer, which may be waiting before another try, sees it.
        shared.needed_block.fetch_max(at.block, std::sync::atomic::Ordering::Release);
        self.request_up_to(at.block);
        self.requests.lane.wake();
        Err(Hold::Wait)
    }

    /// Where the blocks end of which no layer was opened, from `block` on, and all whole ones below the frame `end`.
    pub(super) fn untouched_end(&self, block: u64, end: u64) -> u64 {
        let open = self.blocks.iter().filter(|(touched, _)| *touched).map(|(_, block)| block.number);
        let parked = self.parked.iter().filter(|parked| parked.touched).map(|parked| parked.number);
        let touched = open.chain(parked).filter(|&number| number > block).min();
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
