//! The fixed pool of page-aligned frame buffers.
//!
//! Workers finish out of order, so a strict first-in-first-out ring would wait for its slowest frame. The ring is a
//! pool: a buffer is *free* (its index is in the queue), on *loan* (one [`Loan`] exists), or *committed* (one [`Frame`]
//! exists). The three are joined by consuming calls only, so a buffer has one owner at a time (a committed one may have
//! viewers who count as part of it); each way through the queue is a Release/Acquire pair, which makes the last
//! reader's reads happen before the next writer's writes.
#![allow(unsafe_code)]

#[cfg(all(test, loom))]
mod loom;
mod shares;

use std::sync::Arc;
use std::time::{Duration, Instant};

use shares::{Share, Shares, Starving};

use crate::aligned_memory::{AlignedMemory, RingBuffers};
use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use crate::sync::{Receiver, Sender, Watchers, bounded, event};
use crate::words::of_system;

/// Frame buffers and their records: a ring's own, or those that the rings of several images take theirs from.
pub(crate) struct Buffers {
    pixels: AlignedMemory,
    records: AlignedMemory,
    free: Receiver<u32>,
    freed: Sender<u32>,
    pub(crate) count: usize,
    /// For each buffer, who needs its committed frames: the workers together, for each of them, and each viewer. 0:
    /// nobody; it is free or on loan.
    users: Box<[AtomicU32]>,
    shares: Shares,
}

/// The frame buffers of one image.
pub(crate) struct Ring {
    memory: Arc<Buffers>,
    /// `None`: no other ring takes buffers from there.
    share: Option<Share>,
    /// The buffer that was committed last, plus one.
    newest: AtomicU32,
    /// Committed buffers that became free again, in all.
    pub(crate) released: AtomicU64,
    /// Somebody found no free buffer, and none has become free since.
    starved: AtomicBool,
    pub(crate) watchers: Arc<Watchers>,
}

/// A buffer on loan: its holder alone may write it. Dropping it frees the buffer.
pub(crate) struct Loan {
    ring: Arc<Ring>,
    index: u32,
}

/// A committed buffer: shared for reading until it is released. It is not `Clone`; whoever has it decides its end.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use = "a frame that is not released is lost to the ring"]
pub(crate) struct Frame {
    index: u32,
    /// Bytes before its first sample: others of the same pixel.
    offset: u32,
}

impl Frame {
    /// The frames that a buffer holds whose pixels have several samples of so many bytes. It was committed for each.
    pub(crate) fn samples(self, count: u32, bytes: u32) -> impl Iterator<Item = Self> {
        (0..count).map(move |sample| Self { index: self.index, offset: self.offset + sample * bytes })
    }
}

/// A committed buffer that someone looks at beside the workers. It is not free before the view is dropped.
pub(crate) struct View {
    ring: Arc<Ring>,
    index: u32,
    offset: u32,
}

impl Buffers {
    /// `count` buffers of `frame_bytes` and records of `record_bytes` each, touched once so that no page fault comes
    /// later; or the first of the caller's own buffers, of which there must be as many.
    pub(crate) fn new(
        count: usize,
        frame_bytes: usize,
        record_bytes: usize,
        buffers: Option<RingBuffers>,
    ) -> Result<Self> {
        let memory = |bytes| {
            let refuse = |error: std::io::Error| {
                let reason = format!(
                    "{}; make the ring smaller, or raise the limit of the process's address space (ulimit -v)",
                    of_system(error)
                );
                Error::config("ring_bytes", format_args!("{count} frames of {bytes} bytes"), reason)
            };
            AlignedMemory::new(count, bytes).map(AlignedMemory::touched).map_err(refuse)
        };
        let (freed, free) = bounded(count);
        for index in 0..count as u32 {
            let sent = freed.try_send(index);
            debug_assert!(sent.is_ok(), "the queue holds all buffers");
        }
        let pixels = match buffers {
            Some(buffers) => AlignedMemory::of_caller(buffers, count, frame_bytes),
            None => memory(frame_bytes)?,
        };
        let users = (0..count).map(|_| AtomicU32::new(0)).collect();
        Ok(Self { pixels, records: memory(record_bytes)?, free, freed, count, users, shares: Shares::new(count) })
    }
}

impl Ring {
    /// A ring with [buffers](Buffers::new) of its own.
    pub(crate) fn new(
        frames: usize,
        frame_bytes: usize,
        record_bytes: usize,
        buffers: Option<RingBuffers>,
    ) -> Result<Self> {
        Ok(Self::of(Arc::new(Buffers::new(frames, frame_bytes, record_bytes, buffers)?), None))
    }

    fn of(memory: Arc<Buffers>, share: Option<Share>) -> Self {
        Self {
            memory,
            share,
            newest: AtomicU32::new(0),
            released: AtomicU64::new(0),
            starved: AtomicBool::new(false),
            watchers: Arc::default(),
        }
    }

    /// A ring whose buffers are others', too: `floor` of them are kept for it, and it has `limit` at most. `None`:
    /// there are fewer to spare.
    pub(crate) fn sharing(memory: &Arc<Buffers>, floor: usize, limit: usize) -> Option<Arc<Self>> {
        let share = memory.shares.begin(floor, limit)?;
        Some(Arc::new(Self::of(memory.clone(), Some(share))))
    }

    /// Whether other rings take buffers from the same memory.
    pub(crate) fn is_shared(&self) -> bool {
        self.share.is_some()
    }

    /// How many buffers it can have at once. Of shared ones, they become fewer when another ring begins.
    pub(crate) fn frames(&self) -> usize {
        self.share.as_ref().map_or(self.memory.count, |share| share.most(&self.memory.shares))
    }

    /// How many buffers it can get now.
    pub(crate) fn free_frames(&self) -> usize {
        match &self.share {
            Some(share) => share.left(&self.memory.shares),
            None => self.memory.free.len(),
        }
    }

    /// All buffers, of which any may become this ring's.
    pub(crate) fn buffers(&self) -> &Arc<Buffers> {
        &self.memory
    }

    /// Where a buffer's pixels begin, for a device that wants to know all places before the first frame. The address
    /// says nothing about who may use it: that is the business of [`Loan`].
    pub(crate) fn address(&self, index: u32) -> *mut u8 {
        self.memory.pixels.address(index)
    }

    /// A free buffer, if there is one now.
    pub(crate) fn try_loan(self: &Arc<Self>) -> Option<Loan> {
        let index = self.try_take().or_else(|| self.try_again())?;
        Some(self.lend(index))
    }

    fn try_take(&self) -> Option<u32> {
        if let Some(share) = &self.share
            && !share.take(&self.memory.shares)
        {
            return None;
        }
        // Whoever may take one finds one: what comes back is in the queue before it may be taken.
        self.memory.free.try_recv().ok()
    }

    /// From now on, whoever frees a buffer tells those who wait for one; unless that was just before.
    #[cold]
    fn try_again(self: &Arc<Self>) -> Option<u32> {
        self.starve();
        // Meets the fence in `tell_free`: this thread sees the buffer, or the other one that it is wanted.
        fence(Ordering::SeqCst);
        self.try_take()
    }

    fn starve(self: &Arc<Self>) {
        match self.share {
            Some(_) => self.memory.shares.starve(self, &self.starved),
            None => self.starved.store(true, Ordering::Relaxed),
        }
    }

    fn lend(self: &Arc<Self>, index: u32) -> Loan {
        // The loan first: whatever becomes of those who are told, the buffer has an owner.
        let loan = Loan { ring: self.clone(), index };
        self.note_level();
        loan
    }

    /// Buffers that are on loan or committed.
    #[cfg(feature = "capi")]
    pub(crate) fn taken(&self) -> usize {
        self.share_held().unwrap_or_else(|| self.memory.count - self.free_frames().min(self.memory.count))
    }

    /// As [`Ring::taken`], of a ring whose buffers others use as well.
    pub(crate) fn share_held(&self) -> Option<usize> {
        self.share.as_ref().map(Share::held)
    }

    /// Whether somebody found no free buffer, and none has become free since.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved.load(Ordering::Relaxed)
    }

    /// Whether a buffer is free now. If not, it is told when one is.
    pub(crate) fn has_free_or_is_awaited(self: &Arc<Self>) -> bool {
        if self.free_frames() > 0 {
            return true;
        }
        self.starve();
        // As in `try_again`.
        fence(Ordering::SeqCst);
        self.free_frames() > 0
    }

    /// Tells of the ring's level what has not been told. What others have of it can not be had, as if it were taken
    /// here: when all images fill their ring at once, each of them is full long before it has what it could.
    pub(crate) fn note_level(&self) {
        self.watchers.note_level(|| self.frames(), || self.frames().saturating_sub(self.free_frames()));
    }

    /// A free buffer, as soon as there is one.
    pub(crate) fn loan_within(self: &Arc<Self>, timeout: Duration) -> Option<Loan> {
        if self.share.is_some() {
            return self.share_within(timeout);
        }
        match self.memory.free.recv_timeout(timeout) {
            Ok(index) => Some(self.lend(index)),
            Err(_) => None,
        }
    }

    /// Others that wait may have the better right to what comes back, so it is looked for again and again.
    fn share_within(self: &Arc<Self>, timeout: Duration) -> Option<Loan> {
        const LOOK_EVERY: Duration = Duration::from_micros(100);
        let start = Instant::now();
        loop {
            match self.try_loan() {
                None if start.elapsed() < timeout => std::thread::sleep(LOOK_EVERY),
                found => return found,
            }
        }
    }

    /// The pixels of a frame, for as long as the frame is not released.
    pub(crate) fn pixels<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        // SAFETY: the buffer is committed: no `Loan` of it exists, and none will before `release` takes the `Frame`,
        // which is borrowed as long as the slice. A frame of another ring would be one of the crate's own mistakes; its
        // index is checked.
        let buffer = unsafe { self.memory.pixels.read(frame.index) };
        &buffer[frame.offset as usize..]
    }

    /// The pixels of several frames as one slice, if their buffers follow each other without gaps.
    pub(crate) fn pixels_in_one<'a>(&'a self, frames: &'a [Option<Frame>]) -> Option<&'a [u8]> {
        let first = frames.first()?.as_ref()?.index;
        let follow =
            frames.iter().zip(first..).all(|(frame, index)| matches!(frame, Some(frame) if frame.index == index));
        // SAFETY: as in `pixels`, for each of the frames.
        if follow { unsafe { self.memory.pixels.read_run(first, frames.len()) } } else { None }
    }

    pub(crate) fn record<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        // SAFETY: as in `pixels`.
        unsafe { self.memory.records.read(frame.index) }
    }

    /// The workers are done with the frame; its buffer is free again, unless someone views it.
    pub(crate) fn release(&self, frame: Frame) {
        self.end_use(frame.index);
    }

    /// AcqRel: every user's reads happen before the last one frees the buffer.
    fn end_use(&self, index: u32) {
        if self.memory.users[index as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
            self.released.fetch_add(1, Ordering::Relaxed);
            self.free_again(index);
        }
    }

    fn free_again(&self, index: u32) {
        let sent = self.memory.freed.try_send(index);
        debug_assert!(sent.is_ok(), "the queue holds all buffers");
        match &self.share {
            Some(share) => {
                share.give_back(&self.memory.shares);
                self.memory.shares.tell_free();
            }
            None => self.tell_free(),
        }
        self.note_level();
    }

    /// A buffer can be had: in the queue, or where else the caller looks for one.
    pub(crate) fn tell_free(&self) {
        // Meets the fence in `try_again`.
        fence(Ordering::SeqCst);
        if self.is_starved() && self.starved.swap(false, Ordering::Relaxed) {
            self.watchers.tell(event::BUFFER_FREE);
        }
    }

    /// A committed frame, for whoever looks at it beside the workers.
    #[cfg(feature = "offline")]
    pub(crate) fn view(self: &Arc<Self>, frame: &Frame) -> View {
        // Relaxed: whoever shows the frame is a user of it, and has made its pixels seen.
        self.memory.users[frame.index as usize].fetch_add(1, Ordering::Relaxed);
        View { ring: self.clone(), index: frame.index, offset: frame.offset }
    }

    /// The frame that was committed last, if its buffer still holds it.
    pub(crate) fn view_newest(self: &Arc<Self>) -> Option<View> {
        let index = self.newest.load(Ordering::Relaxed).checked_sub(1)?;
        // Only a frame that someone uses is there to be seen, and only from its commit on. Acquire: meets the Release
        // there.
        let join = |users: u32| users.checked_add(1).filter(|&users| users > 1);
        let joined = self.memory.users[index as usize].fetch_update(Ordering::Acquire, Ordering::Relaxed, join);
        joined.ok().map(|_| View { ring: self.clone(), index, offset: 0 })
    }
}

impl Starving for Ring {
    fn tell_free(&self) {
        Self::tell_free(self);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if let Some(share) = &self.share {
            share.end(&self.memory.shares);
        }
    }
}

impl View {
    pub(crate) fn pixels(&self) -> &[u8] {
        // SAFETY: the buffer is committed, and stays so while this view counts as a user.
        let buffer = unsafe { self.ring.memory.pixels.read(self.index) };
        &buffer[self.offset as usize..]
    }

    pub(crate) fn record(&self) -> &[u8] {
        // SAFETY: as in `pixels`.
        unsafe { self.ring.memory.records.read(self.index) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.ring.end_use(self.index);
    }
}

impl Loan {
    /// Which of the ring's buffers this is.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn pixels_mut(&mut self) -> &mut [u8] {
        // SAFETY: a buffer on loan has this one `Loan`, and it is borrowed exclusively.
        unsafe { self.ring.memory.pixels.write(self.index) }
    }

    pub(crate) fn pixels(&self) -> &[u8] {
        // SAFETY: as in `pixels_mut`, borrowed shared.
        unsafe { self.ring.memory.pixels.read(self.index) }
    }

    pub(crate) fn record_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `pixels_mut`; records are a region of their own.
        unsafe { self.ring.memory.records.write(self.index) }
    }

    /// The buffer is filled; nobody writes it any more.
    pub(crate) fn commit(self) -> Frame {
        self.commit_samples(1)
    }

    /// As [`commit`](Self::commit) of a buffer that holds several frames, which are [samples](Frame::samples) of it.
    pub(crate) fn commit_samples(self, frames: u32) -> Frame {
        let (frame, ring) = self.commit_for(frames);
        drop(ring);
        frame
    }

    /// The same, and the caller goes on looking at it.
    pub(crate) fn commit_viewed(self, frames: u32) -> (Frame, View) {
        let (frame, ring) = self.commit_for(frames + 1);
        let view = View { ring, index: frame.index, offset: 0 };
        (frame, view)
    }

    fn commit_for(self, users: u32) -> (Frame, Arc<Ring>) {
        let loan = std::mem::ManuallyDrop::new(self);
        let frame = Frame { index: loan.index, offset: 0 };
        // SAFETY: the loan is never used again, not even by its `Drop`; its share of the ring moves out of it.
        let ring = unsafe { std::ptr::read(&loan.ring) };
        // Release: who views the frame sees what was filled in. The workers get it through a queue.
        ring.memory.users[frame.index as usize].store(users, Ordering::Release);
        ring.newest.store(frame.index + 1, Ordering::Relaxed);
        (frame, ring)
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.ring.free_again(self.index);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn frames_are_one_piece_only_where_their_buffers_follow_each_other() {
        let ring = Arc::new(Ring::new(3, 4096, 0, None).unwrap());
        let commit = |byte| {
            let mut loan = ring.try_loan().unwrap();
            loan.pixels_mut().fill(byte);
            Some(loan.commit())
        };
        let mut frames = [commit(1), commit(2), commit(3)];
        let all = ring.pixels_in_one(&frames).unwrap();
        assert!(all.len() == 3 * 4096 && all.chunks(4096).zip(1..).all(|(frame, byte)| frame == [byte; 4096]));
        frames.swap(1, 2);
        assert!(ring.pixels_in_one(&frames).is_none());
        let missing = [frames[0].take(), None];
        assert!(ring.pixels_in_one(&missing).is_none());

        let ring = Arc::new(Ring::new(2, 4000, 0, None).unwrap());
        let frames = [Some(ring.try_loan().unwrap().commit()), Some(ring.try_loan().unwrap().commit())];
        assert!(ring.pixels_in_one(&frames).is_none(), "there is a gap between the buffers");
    }

    #[test]
    #[cfg_attr(miri, ignore = "it gives all memory that there is")]
    fn a_ring_that_can_not_be_had_says_what_to_do() {
        let Err(error) = Buffers::new(2, 1 << 60, 64, None) else { panic!("nobody has that much memory") };
        let text = error.to_string();
        assert!(text.contains("make the ring smaller") && text.contains("ulimit -v"), "{text}");
    }

    #[test]
    fn a_watcher_that_panics_costs_no_buffer() {
        let ring = Arc::new(Ring::new(2, 64, 0, None).unwrap());
        let panics = |_| std::panic::resume_unwind(Box::new("told"));
        ring.watchers.add(Arc::new(crate::sync::Watcher::new(event::RING_HIGH, 1, panics)), || 0);
        let lend = || ring.try_loan();
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(lend)).is_err());
        assert_eq!(ring.free_frames(), 2);
    }
}
