//! Locks that end with the process that took them.
//!
//! A child after a fork has all descriptors of its parent, and so a share of its locks: a child that goes on would hold
//! them when the parent was killed. So a child lets go of them as soon as it is there. What runs in it then must take
//! no lock and no memory; a list of fixed length needs neither.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

use super::system::{in_forked_children, let_go_of};

const PLACES: usize = 1024;
/// No descriptor.
const FREE: i32 = -1;

static DESCRIPTORS: [AtomicI32; PLACES] = [const { AtomicI32::new(FREE) }; PLACES];

/// As long as this lives, a child does not keep a descriptor. Beyond a thousand, it does.
#[derive(Debug)]
pub(super) struct NotInherited(Option<usize>);

impl NotInherited {
    /// It must be dropped before `file`.
    pub(super) fn of(file: &File) -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| in_forked_children(let_go));
        let descriptor = file.as_raw_fd();
        // Relaxed: what a fork copies is the memory of the moment, as the thread that forks sees it; who takes a lock
        // in another at the same time is not promised anything.
        let take =
            |place: &AtomicI32| place.compare_exchange(FREE, descriptor, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        Self(DESCRIPTORS.iter().position(take))
    }
}

impl Drop for NotInherited {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            DESCRIPTORS[place].store(FREE, Ordering::Relaxed);
        }
    }
}

unsafe extern "C" fn let_go() {
    for descriptor in DESCRIPTORS.iter().map(|place| place.load(Ordering::Relaxed)).filter(|&fd| fd != FREE) {
        let_go_of(descriptor);
    }
}
