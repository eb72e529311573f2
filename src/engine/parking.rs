//! How the files of shards are closed for a while.

use std::sync::Arc;
use std::time::Duration;

use super::cell::{ParkedBlock, ParkedCell, ShardBlock, ShardCell};
use super::cell_closing::{TOGETHER_MIN, checkpoint_cell, note_named};
use super::parked::ParkedState;
use super::served::Served;
use crate::error::{caught_call, logged};
use crate::shard::{Checkpoint, Shard};

/// Closes the files of blocks for a while. Where they are many, what they hold is brought to the device together.
pub(super) fn park(blocks: Vec<(Arc<Served>, ShardBlock)>) {
    let synced = if blocks.len() < TOGETHER_MIN { vec![false; blocks.len()] } else { checkpoint_together(&blocks) };
    for ((of, block), is_synced) in blocks.into_iter().zip(synced) {
        // A panic must not take other images' shards with it.
        caught_call(|| of.park(block, is_synced)).unwrap_or_else(|error| of.engine.first_error.set(error));
        of.engine.closings.settle();
    }
}

/// Has the indexes of blocks name what they hold, and tells of each whether they do. What fails here fails again when
/// it is done for the one block.
fn checkpoint_together(blocks: &[(Arc<Served>, ShardBlock)]) -> Vec<bool> {
    let cells: Vec<Vec<_>> =
        blocks.iter().map(|(_, block)| block.cells.iter().map(|cell| (cell, cell.progress())).collect()).collect();
    let shards: Vec<(&Shard, &[bool])> = cells
        .iter()
        .flatten()
        .flat_map(|(cell, (_, done))| cell.shards.iter().map(move |shard| (shard, &done[..])))
        .collect();
    let storage = blocks[0].0.image.storage();
    let mut named = Shard::checkpoint_together(&shards, &|| storage.sync_all()).into_iter();
    let mut are_named = Vec::new();
    for ((of, _), cells) in blocks.iter().zip(&cells) {
        let count = cells.iter().map(|(cell, _)| cell.shards.len()).sum();
        let of_block: Vec<Option<Checkpoint>> = named.by_ref().take(count).collect();
        let is_named = of_block.iter().all(Option::is_some);
        for (cell, (written, done)) in cells.iter().filter(|_| is_named) {
            note_named(&of.engine, cell, *written, done.clone());
        }
        are_named.push(is_named);
    }
    are_named
}

impl Served {
    /// Does something with a block of shards whose files are closed for a while: they are open for this moment. Not if
    /// somebody else is about to open or close them.
    pub(super) fn with_parked(&self, number: u64, work: &mut dyn FnMut(&ShardBlock)) {
        let parked = &self.engine.parked;
        let mut work = |block: &ShardBlock| {
            caught_call(|| work(block)).unwrap_or_else(|error| self.engine.first_error.set(error));
        };
        let block = match parked.borrow(number) {
            None | Some(ParkedState::Leaving) => return,
            Some(ParkedState::Open(block)) => {
                work(&block);
                return parked.put(number, ParkedState::Open(block));
            }
            Some(ParkedState::Closed(block)) => block,
        };
        let files = self.files_a_cell * block.cells.len();
        match block.reopen(Some(self.open_files.take_beyond(files))) {
            Ok(block) => {
                work(&block);
                self.open_files.note_leaving(files);
                self.park(block, false);
            }
            // Whether it is lost is found out when frames need it.
            Err((error, block)) => {
                parked.put(number, ParkedState::Closed(block));
                logged(|| tracing::warn!(%error, "a shard can't be opened again to make frames durable that wait"));
            }
        }
    }

    /// Closes the files of shards for a while. What they hold is durable then; `is_synced`: already.
    fn park(&self, block: ShardBlock, is_synced: bool) {
        let engine = &*self.engine;
        let number = block.number;
        let files = self.files_a_cell * block.cells.len();
        for cell in &block.cells {
            if !is_synced {
                checkpoint_cell(engine, cell, cell.progress(), true);
            }
            engine.open_cells.remove(cell);
        }
        let state = match close_all(block.cells, is_synced) {
            Ok(cells) => ParkedState::Closed(ParkedBlock { number, cells }),
            Err(cells) => {
                engine.open_cells.add(&cells);
                ParkedState::Open(ShardBlock { number, cells })
            }
        };
        engine.parked.put(number, state);
        self.open_files.note_parked(files);
    }
}

/// Closes the files of all cells of a block, or, if one of them has to stay open, of none: frames find a cell by its
/// place, and what was closed might not be opened again.
fn close_all(cells: Vec<Arc<ShardCell>>, is_synced: bool) -> std::result::Result<Vec<ParkedCell>, Vec<Arc<ShardCell>>> {
    let mut own = Vec::new();
    let mut cells = cells.into_iter();
    while let Some(cell) = cells.next() {
        match alone(cell) {
            Ok(cell) => own.push(cell),
            Err(shared) => return Err(own.into_iter().map(Arc::new).chain([shared]).chain(cells).collect()),
        }
    }
    match own.iter().map(|cell| cell.parked_files(is_synced)).collect::<Option<Vec<_>>>() {
        Some(files) => Ok(own.into_iter().zip(files).map(|(cell, files)| cell.park(files)).collect()),
        None => Err(own.into_iter().map(Arc::new).collect()),
    }
}

/// The cell itself, once nobody looks at it any more; in vain after a while.
fn alone(mut cell: Arc<ShardCell>) -> std::result::Result<ShardCell, Arc<ShardCell>> {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        match Arc::try_unwrap(cell) {
            Ok(cell) => return Ok(cell),
            // Somebody went through the list of open cells just now.
            Err(shared) => cell = shared,
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    Err(cell)
}
