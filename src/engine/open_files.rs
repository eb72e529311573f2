//! How many files of shards may be open at the same time, over all images of a dataset.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

/// The bound, and what of it is used.
#[derive(Default)]
pub(super) struct OpenFiles {
    max: AtomicUsize,
    used: AtomicUsize,
    /// Those that are about to be closed for a while.
    leaving: AtomicUsize,
    /// Goes on with each block of shards that is opened: tells which image was used last.
    pub(super) clock: Arc<AtomicU64>,
}

/// The right to have this many files open, until it is dropped.
pub(crate) struct Permit {
    files: usize,
    of: Arc<OpenFiles>,
}

impl OpenFiles {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max: AtomicUsize::new(max), ..Self::default() })
    }

    fn max(&self) -> usize {
        self.max.load(Relaxed)
    }

    /// From now on there may be this many more.
    pub(super) fn extend(&self, files: usize) {
        let _ = self.max.fetch_update(Relaxed, Relaxed, |max| Some(max.saturating_add(files)));
    }

    /// No more.
    pub(super) fn shrink(&self, files: usize) {
        let _ = self.max.fetch_update(Relaxed, Relaxed, |max| (max < usize::MAX).then(|| max.saturating_sub(files)));
    }

    /// `None`: others have to be closed first. Who needs more than there may be gets them when nobody else has any.
    pub(super) fn take(self: &Arc<Self>, files: usize) -> Option<Permit> {
        let take = |used: usize| (used == 0 || used.saturating_add(files) <= self.max()).then_some(used + files);
        self.used.fetch_update(AcqRel, Relaxed, take).ok()?;
        self.clock.fetch_add(1, Relaxed);
        Some(Permit { files, of: self.clone() })
    }

    /// As [`take`](Self::take), for files that are closed for good in a moment.
    pub(super) fn take_beyond(self: &Arc<Self>, files: usize) -> Permit {
        self.used.fetch_add(files, AcqRel);
        Permit { files, of: self.clone() }
    }

    /// Whether `files` more could be had only after others were closed that are not about to be.
    pub(super) fn are_short_of(&self, files: usize) -> bool {
        let used = self.used.load(Acquire).saturating_sub(self.leaving.load(Acquire));
        used.saturating_add(files) > self.max()
    }

    /// How many are kept free for whoever comes next, where that is possible.
    pub(super) fn headroom(&self) -> usize {
        self.max() / 8
    }

    /// This many are about to be closed for a while.
    pub(super) fn note_leaving(&self, files: usize) {
        self.leaving.fetch_add(files, AcqRel);
    }

    /// They are, or have to stay open.
    pub(super) fn note_parked(&self, files: usize) {
        self.leaving.fetch_sub(files, AcqRel);
    }
}

impl Permit {
    /// Splits off the right to one part of `parts`.
    pub(super) fn split(&mut self, parts: usize) -> Self {
        let files = self.files / parts.max(1);
        self.files -= files;
        Self { files, of: self.of.clone() }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.of.used.fetch_sub(self.files, AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_open_than_may_be() {
        let files = OpenFiles::new(5);
        let mut three = files.take(3).unwrap();
        assert!(files.take(3).is_none() && files.are_short_of(3));
        let one = three.split(3);
        drop(three);
        assert!(!files.are_short_of(4));
        drop(one);
        assert!(files.take(9).is_some(), "alone, it may have what it needs");
        assert_eq!(files.used.load(Relaxed), 0);
    }
}
