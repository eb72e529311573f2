//! Who wants to hear of what happens in a run, and how it is told so that nobody waits and nothing is missed.
//!
//! Whoever makes something happen looks at one word, and goes on if nobody watches for it. A watcher hears of edges,
//! not of states: it looks at the state itself, and waits for the next edge when it finds nothing to do there. Each
//! pair of "write the one, look at the other" has a SeqCst fence in between on both sides, so that one of the two sees
//! the other: either the watcher sees what has happened, or whoever made it happen sees the watcher.
//!
//! The ring's level has no such fence, which each loan and each release would have to pay for. A watcher that comes
//! while the level changes may be overlooked by whoever changes it, so somebody looks at the level again from time to
//! time, as long as there is a watcher: the thread that closes shards.

use std::sync::Arc;

use super::primitives::RwLock;
use super::primitives::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use super::unpoisoned::Unpoisoned;

/// What can be heard of, a bit each, as [`Events`](crate::Events) tells it.
pub(crate) mod event {
    pub(crate) const BUFFER_FREE: u32 = 1 << 0;
    pub(crate) const RING_HIGH: u32 = 1 << 1;
    pub(crate) const ERROR: u32 = 1 << 2;
    pub(crate) const DURABLE: u32 = 1 << 3;
    pub(crate) const SHARD_CLOSED: u32 = 1 << 4;
    pub(crate) const ENDED: u32 = 1 << 5;
    pub(crate) const ALL: u32 = (1 << 6) - 1;
}

/// One who hears of some events.
pub(crate) struct Watcher {
    events: u32,
    /// From how many taken buffers on the ring counts as high; 0: three quarters of those that it can have.
    mark: usize,
    /// That was told, and not even half as many have been taken since.
    is_high: AtomicBool,
    /// Called with one or more events, by whoever made them happen: it must neither wait nor panic.
    call: Box<dyn Fn(u32) + Send + Sync>,
}

/// All who watch one run.
#[derive(Default)]
pub(crate) struct Watchers {
    /// What at least one of them wants to hear of.
    wanted: AtomicU32,
    all: RwLock<Arc<[Arc<Watcher>]>>,
    /// Nothing more happens.
    is_over: AtomicBool,
}

impl Watcher {
    pub(crate) fn new(events: u32, mark: usize, call: impl Fn(u32) + Send + Sync + 'static) -> Self {
        Self { events, mark, is_high: AtomicBool::new(false), call: Box::new(call) }
    }

    fn tell(&self, events: u32) {
        (self.call)(events & self.events);
    }

    /// The mark, of a ring that can have so many buffers: it may be fewer than when the watcher came.
    fn mark_of(&self, frames: usize) -> usize {
        let mark = if self.mark == 0 { frames - frames / 4 } else { self.mark.min(frames) };
        mark.max(1)
    }

    /// `taken` is asked again where the answer may have become old: between it and the note that the ring is low,
    /// another thread may have filled the ring, and have told nobody, because it found it noted as high.
    fn note_level(&self, frames: usize, taken: impl Fn() -> usize) {
        let (mark, mut now) = (self.mark_of(frames), taken());
        if now <= mark / 2 && self.is_high.load(Ordering::Relaxed) {
            // AcqRel: meets the swap below. Either that one finds the ring noted as low, and tells, or this thread sees
            // what it took.
            self.is_high.swap(false, Ordering::AcqRel);
            now = taken();
        }
        if now >= mark && !self.is_high.swap(true, Ordering::AcqRel) {
            self.tell(event::RING_HIGH);
        }
    }
}

impl Watchers {
    /// From now on it is told; what has happened already is not. `state`, asked afterwards, says what that is.
    pub(crate) fn add(&self, watcher: Arc<Watcher>, state: impl FnOnce() -> u32) {
        self.change(|all| all.push(watcher.clone()));
        // Meets the fences of those who make things happen.
        fence(Ordering::SeqCst);
        let happened = state() & watcher.events;
        if happened != 0 {
            watcher.tell(happened);
        }
    }

    /// Who is telling it something just now may do so to the end.
    pub(crate) fn remove(&self, watcher: &Arc<Watcher>) {
        self.change(|all| all.retain(|other| !Arc::ptr_eq(other, watcher)));
    }

    /// Nothing more happens, and all who watched were told of the end. They are let go: what their calls own may be a
    /// way back to here. Who comes later is told of the end alone.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.change(Vec::clear);
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Watcher>>)) {
        let mut all = self.all.write().unpoisoned();
        let mut list = all.to_vec();
        change(&mut list);
        // Relaxed: `end` changes the list once more after it has set this.
        if self.is_over.load(Ordering::Relaxed) {
            list.clear();
        }
        self.wanted.store(list.iter().fold(0, |wanted, watcher| wanted | watcher.events), Ordering::Relaxed);
        let before = std::mem::replace(&mut *all, list.into());
        // Not under the lock: the last to drop a watcher drops what its call owns.
        drop(all);
        drop(before);
    }

    /// Whether anybody wants to hear of one of these.
    pub(crate) fn want(&self, events: u32) -> bool {
        self.wanted.load(Ordering::Relaxed) & events != 0
    }

    /// Not under the lock: a watcher that is told may add another.
    fn all(&self) -> Arc<[Arc<Watcher>]> {
        self.all.read().unpoisoned().clone()
    }

    /// Something has happened, and shows where those who are told will look.
    pub(crate) fn tell(&self, event: u32) {
        // Meets the fence in `add`.
        fence(Ordering::SeqCst);
        if self.want(event) {
            self.all().iter().filter(|watcher| watcher.events & event != 0).for_each(|watcher| watcher.tell(event));
        }
    }

    /// The ring's level has changed. `frames`: how many buffers it can have; `taken`: how many are taken, whenever it
    /// is asked.
    pub(crate) fn note_level(&self, frames: impl Fn() -> usize, taken: impl Fn() -> usize) {
        if self.want(event::RING_HIGH) {
            let (all, frames) = (self.all(), frames());
            let high = all.iter().filter(|watcher| watcher.events & event::RING_HIGH != 0);
            high.for_each(|watcher| watcher.note_level(frames, &taken));
        }
    }
}

/// What has happened and was not fetched yet. Beside it hangs a bell that a thread can wait for.
#[derive(Default)]
pub(crate) struct Pending(AtomicU32);

impl Pending {
    /// True: the bell must be rung. It is already, or somebody is about to, if there was something before.
    #[must_use]
    pub(crate) fn add(&self, events: u32) -> bool {
        // Release: whoever fetches the events sees what has happened.
        self.0.fetch_or(events, Ordering::AcqRel) == 0
    }

    /// Fetches what has happened. The bell is silenced first: the other way round, one that is rung in between would be
    /// silent with something pending.
    pub(crate) fn take(&self, silence: impl FnOnce()) -> u32 {
        silence();
        self.0.swap(0, Ordering::AcqRel)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn listener(events: u32, mark: usize) -> (Arc<Watcher>, Arc<Mutex<Vec<u32>>>) {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = heard.clone();
        (Arc::new(Watcher::new(events, mark, move |events| hears.lock().unwrap().push(events))), heard)
    }

    #[test]
    fn each_hears_what_it_asked_for_and_only_as_long_as_it_is_there() {
        let watchers = Watchers::default();
        watchers.tell(event::ERROR);
        let (one, heard_by_one) = listener(event::ERROR | event::DURABLE, 1);
        let (two, heard_by_two) = listener(event::ERROR, 1);
        watchers.add(one.clone(), || event::DURABLE | event::ENDED);
        watchers.add(two, || 0);
        watchers.tell(event::ERROR);
        watchers.tell(event::ENDED);
        assert!(watchers.want(event::DURABLE));
        watchers.remove(&one);
        assert!(!watchers.want(event::DURABLE));
        watchers.tell(event::ERROR);
        assert_eq!(*heard_by_one.lock().unwrap(), [event::DURABLE, event::ERROR]);
        assert_eq!(*heard_by_two.lock().unwrap(), [event::ERROR; 2]);
    }

    #[test]
    fn a_ring_about_as_full_as_the_mark_is_told_of_once() {
        let watchers = Watchers::default();
        let (one, heard) = listener(event::RING_HIGH, 6);
        watchers.add(one, || 0);
        for taken in [1, 5, 6, 7, 5, 6, 4, 8, 3, 5, 6, 2, 6] {
            watchers.note_level(|| 8, || taken);
        }
        assert_eq!(heard.lock().unwrap().len(), 3);
    }

    #[test]
    fn a_mark_is_never_beyond_what_the_ring_can_have() {
        let watchers = Watchers::default();
        let [(usual, heard_usual), (all, heard_all)] = [0, 8].map(|mark| listener(event::RING_HIGH, mark));
        [usual, all].into_iter().for_each(|watcher| watchers.add(watcher, || 0));
        let heard_after = |frames, taken| {
            watchers.note_level(|| frames, || taken);
            [&heard_usual, &heard_all].map(|heard| std::mem::take(&mut *heard.lock().unwrap()).len())
        };
        assert_eq!([5, 6, 7, 8, 0].map(|taken| heard_after(8, taken)), [[0, 0], [1, 0], [0, 0], [0, 1], [0, 0]]);
        // Others have begun.
        assert_eq!([2, 3, 4, 0].map(|taken| heard_after(4, taken)), [[0, 0], [1, 0], [0, 1], [0, 0]]);
    }

    #[test]
    fn nobody_is_kept_beyond_the_end() {
        let watchers = Watchers::default();
        let (one, heard) = listener(event::ENDED, 1);
        watchers.add(one, || 0);
        watchers.tell(event::ENDED);
        watchers.end();
        assert_eq!(Arc::strong_count(&heard), 1);
        let (late, heard_late) = listener(event::ALL, 1);
        watchers.add(late, || event::ENDED);
        assert_eq!(Arc::strong_count(&heard_late), 1);
        watchers.tell(event::ERROR);
        assert_eq!((&*heard.lock().unwrap(), &*heard_late.lock().unwrap()), (&vec![event::ENDED], &vec![event::ENDED]));
    }
}

#[cfg(all(test, loom))]
mod loom {
    use super::super::primitives::atomic::AtomicUsize;
    use super::*;
    use ::loom::sync::{Condvar, Mutex};
    use ::loom::thread;

    /// Somebody who adds itself while something happens hears of it, by the one way or the other, and is not kept if
    /// that was the end.
    #[test]
    fn what_happens_while_a_watcher_comes_is_not_missed() {
        for what in [event::ERROR, event::ENDED] {
            ::loom::model(move || {
                let shared = Arc::new((Watchers::default(), AtomicBool::new(false)));
                let other = shared.clone();
                let thread = thread::spawn(move || {
                    other.1.store(true, Ordering::Relaxed);
                    other.0.tell(what);
                    if what == event::ENDED {
                        other.0.end();
                    }
                });
                let heard = Arc::new(AtomicU32::new(0));
                let hears = heard.clone();
                let watcher = Watcher::new(what, 1, move |events| _ = hears.fetch_or(events, Ordering::Relaxed));
                shared.0.add(Arc::new(watcher), || if shared.1.load(Ordering::Relaxed) { what } else { 0 });
                thread.join().unwrap();
                assert_eq!(heard.load(Ordering::Relaxed), what);
                assert_eq!(Arc::strong_count(&heard), if what == event::ENDED { 1 } else { 2 });
            });
        }
    }

    /// Two who change the level of a ring at once, which was high, and told of: if it is high in the end, that is
    /// noted. Else nobody would tell of it.
    #[test]
    fn a_ring_that_stays_high_is_noted_as_high() {
        ::loom::model(|| {
            const MARK: usize = 2;
            let told = Arc::new(AtomicUsize::new(0));
            let counts = told.clone();
            let count = move |_| _ = counts.fetch_add(1, Ordering::Relaxed);
            let watcher = Arc::new(Watcher::new(event::RING_HIGH, MARK, count));
            let shared = Arc::new((Watchers::default(), AtomicUsize::new(MARK)));
            shared.0.add(watcher.clone(), || 0);
            let note =
                |shared: &(Watchers, AtomicUsize)| shared.0.note_level(|| MARK, || shared.1.load(Ordering::Relaxed));
            note(&shared);
            let other = shared.clone();
            let thread = thread::spawn(move || {
                other.1.fetch_add(1, Ordering::Relaxed);
                other.0.note_level(|| MARK, || other.1.load(Ordering::Relaxed));
            });
            shared.1.fetch_sub(1, Ordering::Relaxed);
            note(&shared);
            thread.join().unwrap();
            assert!(watcher.is_high.load(Ordering::Relaxed), "told {} times", told.load(Ordering::Relaxed));
        });
    }

    /// A bell that is rung by two and silenced by the one that waits for it.
    #[test]
    fn nothing_is_pending_while_the_bell_is_silent() {
        ::loom::model(|| {
            let shared = Arc::new((Pending::default(), Mutex::new(false), Condvar::new()));
            let threads = [1, 2].map(|events| {
                let shared = shared.clone();
                thread::spawn(move || {
                    if shared.0.add(events) {
                        *shared.1.lock().unwrap() = true;
                        shared.2.notify_one();
                    }
                })
            });
            let mut got = 0;
            while got != 3 {
                // If the bell were silent with something pending, this would wait for ever, and loom would say so.
                let mut rings = shared.1.lock().unwrap();
                while !*rings {
                    rings = shared.2.wait(rings).unwrap();
                }
                drop(rings);
                got |= shared.0.take(|| *shared.1.lock().unwrap() = false);
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
