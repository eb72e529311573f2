//! The cells of shards that exist and are not closed, for checkpoints, and so that those waiting to be closed don't
//! pile up.

use std::sync::{Arc, Condvar, Mutex as StdMutex, PoisonError};

use super::cell::ShardCell;

/// How many cells of shards exist, so that those waiting to be closed don't pile up.
pub(crate) struct LiveCells {
    count: StdMutex<u64>,
    fewer: Condvar,
    max: u64,
}

impl LiveCells {
    pub(crate) fn new(max: u64) -> Self {
        Self { count: StdMutex::new(0), fewer: Condvar::new(), max }
    }

    /// Waits until `cells` more may exist. Only the preparer's thread waits here.
    pub(super) fn add(&self, cells: u64) {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let allowed = |count: &mut u64| *count > 0 && *count + cells > self.max;
        let mut count = self.fewer.wait_while(count, allowed).unwrap_or_else(PoisonError::into_inner);
        *count += cells;
    }

    pub(super) fn remove(&self, cells: u64) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = count.saturating_sub(cells);
        self.fewer.notify_one();
    }

    /// From now on nobody waits.
    pub(crate) fn open_up(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) = 0;
        self.fewer.notify_one();
    }
}

/// The cells that exist and are not closed.
#[derive(Debug, Default)]
pub(crate) struct OpenCells(StdMutex<Vec<Arc<ShardCell>>>);

impl OpenCells {
    fn lock(&self) -> impl std::ops::DerefMut<Target = Vec<Arc<ShardCell>>> + '_ {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, cells: &[Arc<ShardCell>]) {
        self.lock().extend_from_slice(cells);
    }

    pub(super) fn remove(&self, cell: &Arc<ShardCell>) {
        self.lock().retain(|open| !Arc::ptr_eq(open, cell));
    }

    pub(super) fn all(&self) -> Vec<Arc<ShardCell>> {
        self.lock().clone()
    }
}
