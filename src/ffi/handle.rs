//! Handles that can be told from anything else without following them.
//!
//! What the caller holds looks like a pointer, but is a place in a table and the place's turn: a freed handle, one of
//! another kind, one of the parent process or any other number is found out by comparing, never by reading memory that
//! may not be there. Places are taken and left by compare-and-swap alone, so that a child process never waits for a
//! lock that the fork left closed.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ops::Deref;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::status::{
    Outcome, SW_ERROR_BUSY, SW_ERROR_FORKED, SW_ERROR_HANDLE, SW_ERROR_NULL, SW_ERROR_TOO_MANY, refuse,
};
use crate::fs::system::in_forked_children;

/// How often this process is the child of a fork since the library was used first.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// How often that was until now, if it was [asked to count](count_forks).
pub(super) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// From now on forks are counted.
pub(super) fn count_forks() {
    static ONCE: Once = Once::new();
    unsafe extern "C" fn in_the_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    ONCE.call_once(|| {
        // The function only adds to an atomic, which is allowed after a fork.
        in_forked_children(in_the_child);
    });
}

/// How often whoever takes an object away looks whether others have left.
const PATIENCE: u32 = 1000;

/// One more turn of a place, in its state; the lower half counts the threads inside.
const TURN: u64 = 1 << 32;

// A turn's two lowest bits say what the place is in: they go round.
const FREE: u32 = 0;
const MAKING: u32 = 1;
const LIVE: u32 = 2;
const REMOVING: u32 = 3;

fn phase(state: u64) -> u32 {
    (state >> 32) as u32 & 3
}

/// `N` places for objects of one kind. `kind` is odd, so that no aligned pointer looks like a handle.
pub(super) struct Registry<T, const N: usize> {
    kind: usize,
    name: &'static str,
    places: [HandleSlot<T>; N],
}

struct HandleSlot<T> {
    state: AtomicU64,
    forks: AtomicU32,
    /// Threads that wait until they are alone with the object, to take it away.
    removers: AtomicU32,
    object: UnsafeCell<Option<T>>,
}

impl<T> HandleSlot<T> {
    const fn new() -> Self {
        let (state, [forks, removers]) = (AtomicU64::new(0), [const { AtomicU32::new(0) }; 2]);
        Self { state, forks, removers, object: UnsafeCell::new(None) }
    }

    /// Waits a little until the calling thread, which is inside, is there alone; then nobody enters any more.
    fn make_removing(&self) -> bool {
        for _ in 0..PATIENCE {
            let state = self.state.load(Ordering::Relaxed);
            let alone = state & !(TURN - 1) | 1;
            if phase(state) != LIVE {
                return false;
            }
            // Acquire: what others did to the object, before they left, has happened.
            if self.state.compare_exchange(alone, (alone - 1) + TURN, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return true;
            }
            // Somebody may have been counted in by mistake, and will be out at once.
            std::thread::yield_now();
        }
        false
    }
}

// SAFETY: the object is written by the one thread that made the place MAKING or REMOVING, and read by those that were
// counted in while it was LIVE; each change is a Release/Acquire pair on the state.
unsafe impl<T: Send + Sync, const N: usize> Sync for Registry<T, N> {}

/// A stay in a place: as long as it lasts, the object is not freed.
pub(super) struct Entered<'a, T> {
    place: &'a HandleSlot<T>,
}

impl<T> Deref for Entered<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread was counted in while the place was LIVE, and it stays so until nobody is inside.
        unsafe { &*self.place.object.get() }.as_ref().expect("a live place has an object")
    }
}

impl<T> Drop for Entered<'_, T> {
    fn drop(&mut self) {
        // Release: what was done to the object happens before it is removed.
        self.place.state.fetch_sub(1, Ordering::Release);
    }
}

fn token(kind: usize, at: usize, state: u64) -> usize {
    ((state >> 32) as usize) << 16 | at << 4 | kind
}

/// A place that is kept for an object until it is dropped.
pub(super) struct ReservedHandle<'a, T> {
    place: &'a HandleSlot<T>,
    at: usize,
    kind: usize,
}

impl<T> ReservedHandle<'_, T> {
    /// The object's handle.
    pub(super) fn fill<H>(self, object: T) -> *mut H {
        let place = self.place;
        debug_assert_eq!(phase(place.state.load(Ordering::Relaxed)), MAKING);
        // SAFETY: only one thread makes a place MAKING, and nobody else looks at its object.
        unsafe { *place.object.get() = Some(object) };
        place.forks.store(forks(), Ordering::Relaxed);
        // Release: whoever sees LIVE sees the object.
        let live = place.state.fetch_add(TURN, Ordering::Release) + TURN;
        let handle = std::ptr::without_provenance_mut(token(self.kind, self.at, live));
        std::mem::forget(self);
        handle
    }
}

impl<T> Drop for ReservedHandle<'_, T> {
    fn drop(&mut self) {
        // Through the phases in which nobody touches the object. Release: as for the removal of an object.
        self.place.state.fetch_add(u64::from(REMOVING + 1 - MAKING) * TURN, Ordering::Release);
    }
}

impl<T: Send + Sync, const N: usize> Registry<T, N> {
    pub(super) const fn new(kind: usize, name: &'static str) -> Self {
        assert!(kind < 16 && kind % 2 == 1 && N <= 1 << 12);
        Self { kind, name, places: [const { HandleSlot::new() }; N] }
    }

    /// Keeps room for an object.
    pub(super) fn room(&self) -> Outcome<ReservedHandle<'_, T>> {
        count_forks();
        for (at, place) in self.places.iter().enumerate() {
            let mut state = place.state.load(Ordering::Relaxed);
            while phase(state) == FREE {
                // Acquire: meets the Release of the removal, after which the place is this thread's.
                match place.state.compare_exchange_weak(state, state + TURN, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return Ok(ReservedHandle { place, at, kind: self.kind }),
                    Err(now) => state = now,
                }
            }
        }
        refuse!(SW_ERROR_TOO_MANY, "there can be {N} {}s at a time; free one first, or ask for fewer", self.name)
    }

    /// Uses the object of a handle.
    pub(super) fn enter<H>(&self, handle: *const H) -> Outcome<Entered<'_, T>> {
        let token = handle.addr();
        let name = self.name;
        if token == 0 {
            return refuse!(SW_ERROR_NULL, "the {name} is null");
        }
        let at = token >> 4 & 0xfff;
        let wrong = || refuse!(SW_ERROR_HANDLE, "{handle:p} is no {name}: it was freed, or never was one");
        let Some(place) = self.places.get(at).filter(|_| token & 0xf == self.kind) else { return wrong() };
        // Calls that follow each other on several threads would never leave the one alone that frees it. A bound, for
        // the child of a fork in which the other thread is not.
        for _ in 0..2 * PATIENCE {
            if place.removers.load(Ordering::Relaxed) == 0 {
                break;
            }
            std::thread::yield_now();
        }
        // Acquire: meets the Release with which the place became LIVE.
        let state = place.state.fetch_add(1, Ordering::Acquire);
        let entered = Entered { place };
        if phase(state) != LIVE || self::token(self.kind, at, state) != token {
            // Counted in by mistake; the object is not touched.
            drop(entered);
            return wrong();
        }
        if place.forks.load(Ordering::Relaxed) != forks() {
            return refuse!(SW_ERROR_FORKED, "the {name} belongs to the process that this one was forked from");
        }
        Ok(entered)
    }

    /// Takes the object of a handle away, if `allowed` and nobody else uses it.
    pub(super) fn remove<H>(&self, handle: *const H, allowed: impl FnOnce(&T) -> Outcome<()>) -> Outcome<T> {
        let entered = self.enter(handle)?;
        allowed(&entered)?;
        let place = entered.place;
        place.removers.fetch_add(1, Ordering::Relaxed);
        let is_taken = place.make_removing();
        place.removers.fetch_sub(1, Ordering::Relaxed);
        if !is_taken {
            return refuse!(SW_ERROR_BUSY, "another thread is in a call with this {}", self.name);
        }
        debug_assert_eq!(phase(place.state.load(Ordering::Relaxed)), REMOVING);
        // This thread's stay was taken back in the exchange above.
        std::mem::forget(entered);
        // SAFETY: the place is REMOVING, by this thread; those counted in later see that and don't touch the object.
        let object = unsafe { (*place.object.get()).take() };
        // Release: whoever takes the place next sees it empty.
        place.state.fetch_add(TURN, Ordering::Release);
        Ok(object.expect("a live place has an object"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::status::{SW_ERROR_BUSY, told};
    use super::*;

    static NUMBERS: Registry<u32, 2> = Registry::new(5, "number");

    #[test]
    fn a_handle_is_good_until_it_is_removed() {
        static REGISTRY: Registry<u32, 2> = Registry::new(3, "number");
        let is = |status: i32, outcome: Outcome<u32>| assert_eq!(outcome.unwrap_err(), told(status, format_args!("")));
        let keep = |number: u32| -> Outcome<*mut u8> { Ok(REGISTRY.room()?.fill(number)) };
        let (one, two) = (keep(1).unwrap(), keep(2).unwrap());
        assert_eq!((*REGISTRY.enter(one).unwrap(), *REGISTRY.enter(two).unwrap()), (1, 2));
        is(SW_ERROR_TOO_MANY, keep(3).map(|_| 0));
        is(SW_ERROR_HANDLE, NUMBERS.enter(one).map(|n| *n));
        let entered = REGISTRY.enter(one).unwrap();
        is(SW_ERROR_BUSY, REGISTRY.remove(one, |_| Ok(())));
        drop(entered);
        assert_eq!(REGISTRY.remove(one, |_| Ok(())).unwrap(), 1);
        is(SW_ERROR_HANDLE, REGISTRY.remove(one, |_| Ok(())));
        let three = keep(3).unwrap();
        assert_ne!(one, three);
        // Room that is not used, or that there is not.
        is(SW_ERROR_TOO_MANY, REGISTRY.room().map(|_| 0));
        assert_eq!(REGISTRY.remove(two, |_| Ok(())).unwrap(), 2);
        drop(REGISTRY.room().unwrap());
        let rooms: Outcome<Vec<_>> = (0..2).map(|_| REGISTRY.room()).collect();
        is(SW_ERROR_TOO_MANY, rooms.map(|_| 0));
        let room = REGISTRY.room().unwrap();
        is(SW_ERROR_TOO_MANY, keep(4).map(|_| 0));
        let four: *mut u8 = room.fill(4);
        assert_eq!(*REGISTRY.enter(four).unwrap(), 4);
        is(SW_ERROR_HANDLE, REGISTRY.enter(one).map(|n| *n));
        is(SW_ERROR_NULL, REGISTRY.enter(std::ptr::null::<u8>()).map(|n| *n));
        assert_eq!(*REGISTRY.enter(three).unwrap(), 3);
    }

    /// Whoever calls again and again does not keep another from freeing.
    #[test]
    fn calls_without_a_pause_let_a_removal_through() {
        static REGISTRY: Registry<u32, 2> = Registry::new(9, "number");
        const TRIES: usize = 100;
        let rounds = if cfg!(miri) { 2 } else { 50 };
        for round in 0..rounds {
            let handle: *mut u8 = REGISTRY.room().unwrap().fill(round);
            let (token, is_over) = (handle.addr(), std::sync::atomic::AtomicBool::new(false));
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let handle = std::ptr::without_provenance::<u8>(token);
                        while !is_over.load(Ordering::Relaxed) {
                            let Ok(number) = REGISTRY.enter(handle) else { break };
                            // A call takes some time.
                            std::hint::black_box((0..500).fold(*number, |sum, at| std::hint::black_box(sum ^ at)));
                        }
                    });
                }
                let tries = (0..TRIES).find(|_| REGISTRY.remove(handle, |_| Ok(())).is_ok());
                is_over.store(true, Ordering::Relaxed);
                assert!(tries.is_some(), "round {round}");
            });
        }
    }

    #[test]
    fn threads_that_use_and_remove_meet_a_whole_object_or_none() {
        static REGISTRY: Registry<Vec<usize>, 4> = Registry::new(7, "list");
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        for round in 0..rounds {
            let handle: *mut u8 = REGISTRY.room().unwrap().fill(vec![round; 3]);
            let token = handle.addr();
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(move || {
                        let handle = std::ptr::without_provenance::<u8>(token);
                        if let Ok(list) = REGISTRY.enter(handle) {
                            assert_eq!(*list, [round; 3]);
                        }
                    });
                }
                let removed = (0..).find_map(|_| REGISTRY.remove(handle, |_| Ok(())).ok()).unwrap();
                assert_eq!(removed, [round; 3]);
            });
            assert!(REGISTRY.enter(handle).is_err());
        }
    }
}
