//! Which buffers the caller has, and whether it may give them back.
//!
//! Rust's own interface lets a frame be committed once by taking it away from the caller. C keeps its copy; so each
//! buffer has a place that holds the frame while it is on loan, and a turn that tells this loan from the ones before.
//! Images that share buffers share their places: a plate of small frames would take gigabytes otherwise.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::status::{Outcome, SW_ERROR_ARGUMENT, SW_ERROR_FRAME, SW_RING_FULL, refuse, told};
use crate::acquisition::Acquisition;
use crate::error::{Error, Result};
use crate::frame::FrameMut;
use crate::ring::{Buffers, Ring};
use crate::sync::Unpoisoned;

// How often a thread that waits for any buffer looks for one that another thread put aside.
const LOOK_UP_EVERY: Duration = Duration::from_millis(5);

// Turns of different places begin far apart, so that a frame of a run that was freed is none of the next one's, even if
// its buffer was the same memory. Odd, so that 2^30 begin at 2^30 different turns.
static PLACES_MADE: AtomicU32 = AtomicU32::new(0);
const TURNS_APART: u32 = 0x9e37_79b9;

static RUNS_BEGUN: AtomicU32 = AtomicU32::new(0);

// The two lowest bits of a place's state; the rest is its turn.
const EMPTY: u32 = 0;
const ON_LOAN: u32 = 1;
/// Taken from the ring by a thread that wanted another one.
const ASIDE: u32 = 2;
const CHANGING: u32 = 3;
const TURN: u32 = 4;

/// The buffers that one handle's caller has.
pub(super) struct Loans {
    shared: Arc<LoanTable>,
    ring: Arc<Ring>,
    /// Whose the loans are, among all who share the places.
    owner: u32,
    /// A certain buffer was asked for at least once, so that others may have been put aside.
    picky: AtomicBool,
}

/// A place for each of the buffers of one memory.
struct LoanTable {
    buffers: Arc<Buffers>,
    places: Box<[LoanSlot]>,
}

struct LoanSlot {
    state: AtomicU32,
    /// Of the frame that is here, or was here last. Stored before the state, so that it belongs to the state that was
    /// loaded before, or the state has changed since.
    owner: AtomicU32,
    frame: UnsafeCell<Option<FrameMut>>,
}

// SAFETY: a place's frame is touched by the thread that made the state CHANGING, or that brings the frame which belongs
// there: there is one of these. Each change is a Release/Acquire pair.
unsafe impl Sync for LoanTable {}

impl LoanTable {
    /// Those of this memory, which are made for the first handle.
    fn of(buffers: &Arc<Buffers>) -> Arc<Self> {
        static ALL: Mutex<Vec<Weak<LoanTable>>> = Mutex::new(Vec::new());
        let mut all = ALL.lock().unpoisoned();
        all.retain(|places| places.strong_count() > 0);
        let found = all.iter().filter_map(Weak::upgrade).find(|places| Arc::ptr_eq(&places.buffers, buffers));
        found.unwrap_or_else(|| {
            let places = Arc::new(Self::new(buffers.clone()));
            all.push(Arc::downgrade(&places));
            places
        })
    }

    fn new(buffers: Arc<Buffers>) -> Self {
        let turns = PLACES_MADE.fetch_add(1, Ordering::Relaxed).wrapping_mul(TURNS_APART).wrapping_mul(TURN);
        let place = |_| LoanSlot {
            state: AtomicU32::new(turns + EMPTY),
            owner: AtomicU32::new(0),
            frame: UnsafeCell::new(None),
        };
        Self { places: (0..buffers.count).map(place).collect(), buffers }
    }
}

impl LoanSlot {
    /// The state, if the place is in it for this owner.
    fn state_if(&self, kind: u32, owner: u32) -> Option<u32> {
        // Acquire: the owner is that of this state, or of a later one.
        let state = self.state.load(Ordering::Acquire);
        (state % TURN == kind && self.owner.load(Ordering::Relaxed) == owner).then_some(state)
    }
}

impl Loans {
    /// None yet, of the ring's buffers.
    pub(super) fn new(ring: &Arc<Ring>) -> Self {
        let owner = RUNS_BEGUN.fetch_add(1, Ordering::Relaxed);
        Self { shared: LoanTable::of(ring.buffers()), ring: ring.clone(), owner, picky: AtomicBool::new(false) }
    }

    /// Bytes of the places for this many buffers.
    pub(super) const fn bytes(buffers: u64) -> u64 {
        buffers * size_of::<LoanSlot>() as u64
    }

    pub(super) fn count(&self) -> usize {
        self.shared.places.len()
    }

    /// Loans any buffer; returns its index and its turn.
    pub(super) fn any(&self, acquisition: &Acquisition, wait: Option<Duration>) -> Outcome<(usize, u32)> {
        let look = || {
            if !self.picky.load(Ordering::Relaxed) {
                return Ok(None);
            }
            Ok((0..self.count()).find_map(|at| self.pick_up(at)))
        };
        let full = |error, start| {
            acquisition.count_dropped(&error);
            self.full_after(error, start).into()
        };
        self.wait(acquisition, wait, |frame| Some(self.keep(frame, ON_LOAN)), look, full)
    }

    /// Any buffer, for a call that has its frame until it returns.
    pub(super) fn frame(&self, acquisition: &Acquisition, wait: Option<Duration>) -> Result<FrameMut> {
        let look = || {
            if !self.picky.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let aside = |at: usize| self.shared.places[at].state_if(ASIDE, self.owner).map(|state| (at, state));
            Ok((0..self.count()).filter_map(aside).find_map(|(at, state)| self.empty(at, state, None)))
        };
        self.wait(acquisition, wait, Some, look, |error, start| self.full_after(error, start))
    }

    /// Loans a certain buffer. Others that come before it are put aside, for whoever asks for any.
    pub(super) fn certain(
        &self,
        acquisition: &Acquisition,
        index: usize,
        wait: Option<Duration>,
    ) -> Outcome<(usize, u32)> {
        self.picky.store(true, Ordering::Relaxed);
        let place = self.place(index)?;
        let keep = |frame: FrameMut| {
            if frame.index() == index {
                return Some(self.keep(frame, ON_LOAN));
            }
            self.keep(frame, ASIDE);
            // It is free for whoever asks for any.
            self.ring.tell_free();
            None
        };
        let look = || {
            if let Some(found) = self.pick_up(index) {
                return Ok(Some(found));
            }
            if place.state_if(ON_LOAN, self.owner).is_some() {
                return refuse!(SW_ERROR_FRAME, "buffer {index} is on loan already; commit or discard it first");
            }
            Ok(None)
        };
        // Others may be free.
        let full = |error: Error, _| {
            acquisition.count_dropped(&error);
            match error {
                Error::RingFull { .. } => told(
                    SW_RING_FULL,
                    format_args!(
                        "buffer {index} is not free: its frame waits for the rest of its chunk, or for the workers; \
                         wait longer, or take another buffer"
                    ),
                ),
                other => other.into(),
            }
        };
        self.wait(acquisition, wait, keep, look, full)
    }

    /// Takes buffers from the ring until `keep` keeps one, or `look` finds one that another thread has put aside.
    /// `full` says that there was none.
    fn wait<T, E: From<Error>>(
        &self,
        acquisition: &Acquisition,
        wait: Option<Duration>,
        keep: impl Fn(FrameMut) -> Option<T>,
        look: impl Fn() -> Result<Option<T>, E>,
        full: impl Fn(Error, Instant) -> E,
    ) -> Result<T, E> {
        // Most calls end here, and don't look at the clock.
        if let Some(found) = look()? {
            return Ok(found);
        }
        match acquisition.try_acquire() {
            Ok(frame) => {
                if let Some(kept) = keep(frame) {
                    return Ok(kept);
                }
            }
            Err(error) if error.is_ring_full() => {}
            Err(error) => return Err(error.into()),
        }
        let start = Instant::now();
        loop {
            let left = wait.map(|wait| wait.saturating_sub(start.elapsed()));
            match acquisition.acquire_within(Some(left.unwrap_or(LOOK_UP_EVERY).min(LOOK_UP_EVERY))) {
                Ok(mut frame) => {
                    frame.waited_since(start);
                    if let Some(kept) = keep(frame) {
                        return Ok(kept);
                    }
                }
                Err(error) if error.is_ring_full() && left != Some(Duration::ZERO) => {}
                Err(error) => {
                    // Once more: who puts a buffer aside from now on tells those who wait for it.
                    if let Some(found) = look()? {
                        return Ok(found);
                    }
                    return Err(full(error, start));
                }
            }
            if let Some(found) = look()? {
                return Ok(found);
            }
        }
    }

    fn full_after(&self, error: Error, start: Instant) -> Error {
        match error {
            // Not how long the last look took; and what was put aside for others is with nobody.
            Error::RingFull { frames, on_loan, waiting, in_work, others, .. } => {
                let (on_loan, waited) = (on_loan.saturating_sub(self.aside()), start.elapsed());
                Error::RingFull { frames, on_loan, waiting, in_work, others, waited }
            }
            other => other,
        }
    }

    /// Takes a loaned frame back from the caller. With a turn, only that loan of the buffer.
    pub(super) fn take(&self, index: usize, turn: Option<u32>) -> Outcome<FrameMut> {
        let taken = self.place(index)?.state_if(ON_LOAN, self.owner).and_then(|state| self.empty(index, state, turn));
        let Some(frame) = taken else {
            return refuse!(
                SW_ERROR_FRAME,
                "the frame in buffer {index} is not on loan: it was committed or discarded before, or never acquired"
            );
        };
        Ok(frame)
    }

    /// Takes the frame out of a place, if the place is still in this state, which has one, and of this turn.
    fn empty(&self, index: usize, state: u32, turn: Option<u32>) -> Option<FrameMut> {
        if turn.is_some_and(|turn| turn != state / TURN) {
            return None;
        }
        let place = &self.shared.places[index];
        let changing = state - state % TURN + CHANGING;
        // Acquire: meets the Release in `keep`; the loser of two threads finds another state.
        place.state.compare_exchange(state, changing, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // SAFETY: only one thread makes a place CHANGING, and until it is EMPTY no other touches the frame.
        let frame = unsafe { (*place.frame.get()).take() };
        // Release: before the buffer goes back to the ring, whose next user stores its frame here.
        place.state.store(changing - CHANGING + EMPTY, Ordering::Release);
        Some(frame.expect("a place that is not empty holds its frame"))
    }

    /// Buffers that are neither with the caller nor with the ring.
    pub(super) fn aside(&self) -> usize {
        if !self.picky.load(Ordering::Relaxed) {
            return 0;
        }
        self.shared.places.iter().filter(|place| place.state_if(ASIDE, self.owner).is_some()).count()
    }

    fn place(&self, index: usize) -> Outcome<&LoanSlot> {
        match self.shared.places.get(index) {
            Some(place) => Ok(place),
            None => {
                refuse!(SW_ERROR_ARGUMENT, "there is no buffer {index}: the ring has {}, counted from 0", self.count())
            }
        }
    }

    fn keep(&self, frame: FrameMut, as_what: u32) -> (usize, u32) {
        let index = frame.index();
        let place = &self.shared.places[index];
        // Acquire: meets the Release in `empty`, by the thread that had the buffer before.
        let state = place.state.load(Ordering::Acquire);
        debug_assert_eq!(state % TURN, EMPTY);
        // SAFETY: there is one `FrameMut` of a buffer, this one; the place is EMPTY, so nobody else touches it.
        unsafe { *place.frame.get() = Some(frame) };
        place.owner.store(self.owner, Ordering::Relaxed);
        let next = (state - state % TURN).wrapping_add(TURN);
        // Release: whoever takes the frame sees it.
        place.state.store(next + as_what, Ordering::Release);
        (index, next / TURN)
    }

    /// Loans a buffer that was put aside.
    fn pick_up(&self, index: usize) -> Option<(usize, u32)> {
        let place = &self.shared.places[index];
        let state = place.state_if(ASIDE, self.owner)?;
        let on_loan = state - state % TURN + ON_LOAN;
        // Acquire and Release: the frame was stored by another thread, and a third may take it.
        let picked = place.state.compare_exchange(state, on_loan, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        picked.then_some((index, on_loan / TURN))
    }
}

impl Drop for Loans {
    /// What the caller never gave back is the ring's again.
    fn drop(&mut self) {
        if self.ring.taken() == 0 {
            return;
        }
        for (index, place) in self.shared.places.iter().enumerate() {
            let left = [ON_LOAN, ASIDE].into_iter().find_map(|kind| place.state_if(kind, self.owner));
            left.map(|state| self.empty(index, state, None));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Config, Dim, Dtype, Memory, Record, Stage};

    /// Its buffer may have been this very memory: what was mapped for one run is mapped for the next.
    #[test]
    fn a_frame_of_another_run_is_none_of_this_one() {
        let dims = vec![Dim::time(None).chunk(1).shard(4), Dim::y(8), Dim::x(8)];
        let config = Config { dtype: Dtype::U8, dims, ring_bytes: 8 * 4096, workers: 1, ..Config::default() };
        let [one, other] =
            [config.clone(), config].map(|config| Acquisition::create_in(Arc::new(Memory::new()), config).unwrap());
        let [of_one, of_other] = [&one, &other].map(|run| Loans::new(&run.engine.ring));
        let (index, turn) = of_one.any(&one, None).unwrap();
        let (same_index, its_turn) = of_other.any(&other, None).unwrap();
        assert_eq!(index, same_index);
        assert!(of_other.take(index, Some(turn)).is_err());
        drop(of_other.take(index, Some(its_turn)).unwrap());
        drop(of_one.take(index, Some(turn)).unwrap());
        one.abort();
        other.abort();
    }

    #[test]
    #[cfg_attr(miri, ignore = "it measures time")]
    fn the_whole_wait_for_a_buffer_is_told() {
        let dims = vec![Dim::time(None).chunk(1).shard(4), Dim::y(8), Dim::x(8)];
        let config = Config { dtype: Dtype::U8, dims, ring_bytes: 64 * 4096, workers: 1, ..Config::default() };
        let acquisition = Acquisition::create_in(Arc::new(Memory::new()), config).unwrap();
        let loans = Loans::new(&acquisition.engine.ring);
        let held: Vec<_> = std::iter::from_fn(|| acquisition.try_acquire().ok()).collect();
        let waited = 8 * LOOK_UP_EVERY;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(waited);
                drop(held);
            });
            let (index, turn) = loans.any(&acquisition, None).map_err(|_| "no buffer").unwrap();
            let frame = loans.take(index, Some(turn)).map_err(|_| "not on loan").unwrap();
            frame.commit(0, Record::default()).unwrap();
        });
        let latencies = acquisition.latencies();
        let acquire = latencies.iter().find(|row| row.stage == Stage::Acquire).unwrap();
        assert!(acquire.max_ns >= waited.as_nanos() as u64 / 2, "{} ns", acquire.max_ns);
        acquisition.finish().unwrap();
    }
}
