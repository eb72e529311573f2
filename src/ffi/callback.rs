//! In whose callbacks a thread is, and whether the end of a run can be waited for there.
//!
//! A callback of a run may end another run, but not its own: what calls it may be what the end waits for, as the thread
//! that closes shards, which the images of a dataset share. Nor may two callbacks each wait for the end of the other's
//! run. And a line of the log may be told by any thread, whatever it holds: there, no end can be waited for.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard};

use super::status::{Outcome, SW_ERROR_BUSY, refuse};
use crate::sync::Unpoisoned;

/// Whose a callback is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// That of a dataset, by what it is known by: see [`Root::identity`](crate::dataset::Root::identity).
    Dataset(usize),
    /// Of any.
    Any,
}

/// Callbacks that a thread may be in at once and still end a run: one that commits a frame to another run may find
/// itself in one of that run.
const WITHIN_MAX: usize = 4;

/// The callbacks that a thread is in. In place: a thread that encodes takes no memory.
#[derive(Clone, Copy)]
struct Within {
    of: [Of; WITHIN_MAX],
    count: usize,
}

thread_local! {
    static WITHIN: Cell<Within> = const { Cell::new(Within { of: [Of::Any; WITHIN_MAX], count: 0 }) };
}

/// For each thread in a callback that waits for the end of a run: whose the callback is, and whose the run.
static WAITS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Whether this thread is in a function of the caller's own.
pub(super) fn in_callback() -> bool {
    WITHIN.get().count > 0
}

/// Runs a function of the caller's own.
pub(super) fn calling<T>(of: Of, call: impl FnOnce() -> T) -> T {
    let outer = WITHIN.get();
    let mut within = outer;
    if let Some(place) = within.of.get_mut(outer.count) {
        *place = of;
    }
    within.count += 1;
    WITHIN.set(within);
    let result = call();
    WITHIN.set(outer);
    result
}

/// What a function of the caller's own gets.
pub(super) struct Context(pub(super) *mut c_void);

// SAFETY: the header says that such functions are called from other threads, with their context.
#[allow(unsafe_code)]
unsafe impl Send for Context {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Context {}

impl Context {
    /// Runs a function of the caller's own, which `call` gives what it gets.
    pub(super) fn call(&self, of: Of, call: impl FnOnce(*mut c_void)) {
        calling(of, || call(self.0));
    }
}

/// That this thread may wait for the end of a run, as long as it lives.
#[derive(Debug, Default)]
pub(super) struct Wait(Vec<(usize, usize)>);

impl Wait {
    /// Refuses to wait for the end of a run of the dataset `target` where that could be for ever.
    pub(super) fn for_end(target: usize) -> Outcome<Self> {
        let datasets = Self::refuse_own(target)?;
        if datasets.is_empty() {
            return Ok(Self::default());
        }
        let mut waits = waits();
        if datasets.iter().any(|dataset| leads(&waits, target, *dataset)) {
            return refuse!(
                SW_ERROR_BUSY,
                "a callback of this run waits for the end of the run that this callback is of; call it on another \
                 thread"
            );
        }
        let own: Vec<_> = datasets.into_iter().map(|dataset| (dataset, target)).collect();
        waits.extend(&own);
        Ok(Self(own))
    }

    /// Refuses callbacks of the dataset `target` itself, or of any. Returns whose callbacks this thread is in.
    pub(super) fn refuse_own(target: usize) -> Outcome<Vec<usize>> {
        let Within { of, count } = WITHIN.get();
        let mut datasets = Vec::new();
        for of in of.get(..count).unwrap_or(&[Of::Any]) {
            match of {
                Of::Dataset(dataset) => datasets.push(*dataset),
                Of::Any => {
                    return refuse!(
                        SW_ERROR_BUSY,
                        "this is the log's function or own_buffers_release, which the end of any run may wait for; \
                         call it on another thread"
                    );
                }
            }
        }
        if datasets.contains(&target) {
            return refuse!(
                SW_ERROR_BUSY,
                "this is a callback or a storage's function of this run, or of an image of the same dataset, which \
                 its end waits for; call it on another thread"
            );
        }
        Ok(datasets)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.0.is_empty() {
            return;
        }
        let mut waits = waits();
        for own in &self.0 {
            // One of several like it.
            if let Some(at) = waits.iter().position(|wait| wait == own) {
                waits.swap_remove(at);
            }
        }
    }
}

fn waits() -> MutexGuard<'static, Vec<(usize, usize)>> {
    WAITS.lock().unpoisoned()
}

/// Whether who waits for `from` waits, by way of others, for `to`.
fn leads(waits: &[(usize, usize)], from: usize, to: usize) -> bool {
    let (mut reached, mut at) = (vec![from], 0);
    while let Some(&next) = reached.get(at) {
        if next == to {
            return true;
        }
        for &(of, target) in waits {
            if of == next && !reached.contains(&target) {
                reached.push(target);
            }
        }
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_callbacks_wait_for_each_other() {
        let ends = |target| Wait::for_end(target);
        assert!(ends(1).is_ok(), "this is no callback");
        calling(Of::Dataset(1), || {
            assert!(ends(1).is_err());
            let _of_one = ends(2).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    calling(Of::Dataset(2), || {
                        assert!(ends(1).is_err());
                        let _of_two = ends(3).unwrap();
                        calling(Of::Dataset(3), || assert!(ends(1).is_err() && ends(4).is_ok()));
                    });
                    calling(Of::Dataset(3), || assert!(ends(1).is_ok()));
                });
            });
            calling(Of::Any, || assert!(ends(7).is_err()));
        });
        assert!(waits().is_empty() && !in_callback());
        let mut inner: Box<dyn FnOnce()> = Box::new(|| assert!(ends(99).is_err()));
        for of in 0..=WITHIN_MAX {
            let before = inner;
            inner = Box::new(move || calling(Of::Dataset(of), before));
        }
        inner();
    }
}
