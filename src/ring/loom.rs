//! Who has a buffer, in all orders of what threads do to it.

use super::*;
use crate::sync::Watcher;
use crate::sync::atomic::AtomicUsize;
use ::loom::sync::{Condvar, Mutex};
use ::loom::thread;
use std::cell::UnsafeCell;

/// A frame that two workers read, and the count by which the last of them knows that it is the last.
struct Shared {
    ring: Arc<Ring>,
    frame: UnsafeCell<Option<Frame>>,
    readers: AtomicUsize,
}

// SAFETY: the frame is only read until the count says that nobody else is left.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn read_and_return(&self) {
        // SAFETY: this reader still counts, so nobody takes the frame.
        let frame = unsafe { &*self.frame.get() }.as_ref().unwrap();
        assert_eq!(self.ring.pixels(frame), [7; 4]);
        assert_eq!(self.ring.record(frame), [8; 4]);
        if self.readers.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: the last reader is alone.
            self.ring.release(unsafe { &mut *self.frame.get() }.take().unwrap());
        }
    }
}

#[test]
fn a_buffer_has_one_owner_at_a_time() {
    ::loom::model(|| {
        let ring = Arc::new(Ring::new(1, 4, 4, None).unwrap());
        let mut loan = ring.try_loan().unwrap();
        loan.pixels_mut().fill(7);
        loan.record_mut().fill(8);
        let (committed, frames) = bounded(1);
        committed.try_send(loan.commit()).unwrap();

        let workers_ring = ring.clone();
        let worker = thread::spawn(move || {
            let frame = UnsafeCell::new(Some(frames.recv().unwrap()));
            let shared = Arc::new(Shared { ring: workers_ring, frame, readers: AtomicUsize::new(2) });
            let other = shared.clone();
            let other = thread::spawn(move || other.read_and_return());
            shared.read_and_return();
            other.join().unwrap();
        });

        // The camera wants the buffer again while the workers may still read it.
        if let Some(mut loan) = ring.try_loan() {
            loan.pixels_mut().fill(9);
            loan.record_mut().fill(9);
        }
        worker.join().unwrap();
        assert_eq!(ring.free_frames(), 1);
    });
}

/// Whoever found no buffer, and waits for the event alone, hears of the next one.
#[test]
fn no_wake_up_is_lost() {
    ::loom::model(|| {
        let ring = Arc::new(Ring::new(1, 4, 4, None).unwrap());
        let loan = ring.try_loan().unwrap();
        let bell = Arc::new((Mutex::new(false), Condvar::new()));
        let rings = bell.clone();
        let watcher = Watcher::new(event::BUFFER_FREE, 1, move |_| {
            *rings.0.lock().unwrap() = true;
            rings.1.notify_one();
        });
        ring.watchers.add(Arc::new(watcher), || 0);
        let worker = ring.clone();
        let worker = thread::spawn(move || worker.release(loan.commit()));
        while ring.try_loan().is_none() {
            // If the wake-up were lost, this would wait for ever, and loom would say so.
            let mut rang = bell.0.lock().unwrap();
            while !*rang {
                rang = bell.1.wait(rang).unwrap();
            }
            *rang = false;
        }
        worker.join().unwrap();
    });
}

#[test]
fn a_buffer_is_not_free_while_someone_views_it() {
    ::loom::model(|| {
        let ring = Arc::new(Ring::new(1, 4, 4, None).unwrap());
        let mut loan = ring.try_loan().unwrap();
        loan.pixels_mut().fill(7);
        let frame = loan.commit();
        let viewer = ring.clone();
        let viewer = thread::spawn(move || {
            if let Some(view) = viewer.view_newest() {
                // Either frame, but whole.
                assert!(matches!(view.pixels(), [7, 7, 7, 7] | [9, 9, 9, 9]));
            }
        });
        ring.release(frame);
        // The camera goes on, if it gets the buffer.
        if let Some(mut loan) = ring.try_loan() {
            loan.pixels_mut().fill(9);
            ring.release(loan.commit());
        }
        viewer.join().unwrap();
        assert_eq!(ring.free_frames(), 1);
    });
}

#[test]
fn a_dropped_loan_is_free_again() {
    ::loom::model(|| {
        let ring = Arc::new(Ring::new(1, 4, 4, None).unwrap());
        let mut loan = ring.try_loan().unwrap();
        let other = ring.clone();
        let thread = thread::spawn(move || {
            if let Some(mut loan) = other.try_loan() {
                loan.pixels_mut().fill(2);
            }
        });
        loan.pixels_mut().fill(1);
        drop(loan);
        thread.join().unwrap();
        assert_eq!(ring.free_frames(), 1);
    });
}

/// A ring that took a right finds a buffer, and at the end all of them are back.
#[test]
fn whoever_may_take_a_buffer_finds_one() {
    ::loom::model(|| {
        let memory = Arc::new(Buffers::new(3, 4, 4, None).unwrap());
        let rings = [0, 1].map(|floor| Ring::sharing(&memory, floor, 3).unwrap());
        let threads = rings.map(|ring| {
            thread::spawn(move || {
                if let Some(share) = &ring.share
                    && share.take(&ring.memory.shares)
                {
                    let index = ring.memory.free.try_recv().expect("there is one for each right");
                    ring.free_again(index);
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(memory.shares.surplus.load(Ordering::Acquire), 3);
    });
}
