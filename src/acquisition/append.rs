//! Frames that are copied into the ring, for callers that have them elsewhere.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::Acquisition;
use crate::config::{FrameLayout, RingFull};
use crate::error::{Error, Result};
use crate::frame::FrameMut;
use crate::pixels::Roi;
use crate::plan::FramePlan;
use crate::record::Record;

/// What an [`append`](Acquisition::append) did.
#[must_use = "fewer frames may have been taken than were given"]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Appended {
    /// Frames taken. Fewer than given, if the ring became full on the way, or the call could not go on for another
    /// reason: repeat it with the rest, which tells that reason.
    pub frames: u64,
    /// Frames let go, because the ring was full and its policy is to drop the newest.
    pub dropped: u64,
}

impl Appended {
    /// What was done, if anything was; then the same error comes with the next call.
    pub(super) fn unless_some(self, error: Error) -> Result<Self> {
        if self.frames + self.dropped > 0 { Ok(self) } else { Err(error) }
    }
}

/// Where the frames of a call get their buffers: who takes them, and how long the whole call waits; `None`: for ever.
pub(crate) struct BufferSource<'a> {
    take: &'a dyn Fn(Option<Duration>) -> Result<FrameMut>,
    wait: Option<Duration>,
    start: Instant,
}

impl<'a> BufferSource<'a> {
    pub(crate) fn new(take: &'a dyn Fn(Option<Duration>) -> Result<FrameMut>, wait: Option<Duration>) -> Self {
        Self { take, wait, start: Instant::now() }
    }

    /// How long the call may still wait.
    pub(super) fn left(&self) -> Option<Duration> {
        self.wait.map(|wait| wait.saturating_sub(self.start.elapsed()))
    }

    pub(super) fn next(&self) -> Result<FrameMut> {
        (self.take)(self.left())
    }

    /// One that is free now.
    pub(super) fn free(&self) -> Result<FrameMut> {
        (self.take)(Some(Duration::ZERO))
    }
}

impl Acquisition {
    /// Copies one or several whole frames, which follow each other without gaps, and commits them under the next
    /// numbers. Of [`PixelFormat::Rgb`](crate::PixelFormat) and `Rgba` whole pictures, each of which counts as a frame
    /// of every channel.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire) and [`FrameMut::commit`](crate::FrameMut::commit). After the first frame, the call
    /// returns how many were taken instead.
    pub fn append(&self, pixels: &[u8]) -> Result<Appended> {
        self.append_with(pixels, self.engine.plan.frame.row_bytes, Record::default())
    }

    /// As [`append`](Self::append), for frames that are cut out of a larger buffer: rows start `row_stride` bytes
    /// apart, and the last row may end with the buffer. Every frame gets the same record.
    pub fn append_with(&self, pixels: &[u8], row_stride: usize, record: Record) -> Result<Appended> {
        self.append_within(pixels, None, row_stride, record, BufferSource::new(&self.taking(), self.patience()))
    }

    /// As [`append_with`](Self::append_with), but the whole call waits at most so long, whatever the configuration
    /// says.
    pub fn append_timeout(
        &self,
        pixels: &[u8],
        row_stride: usize,
        record: Record,
        timeout: Duration,
    ) -> Result<Appended> {
        self.append_within(pixels, None, row_stride, record, BufferSource::new(&self.taking(), Some(timeout)))
    }

    /// As [`append_with`](Self::append_with) of `bytes` bytes from `pixels` on, which other threads may write
    /// meanwhile: then the frames hold some mixture. For callers that can't promise a slice, as those from other
    /// languages. `wait`: as of [`append_timeout`](Self::append_timeout); `None`: as the configuration says.
    ///
    /// # Safety
    ///
    /// The bytes must be there to be read until the call returns.
    pub unsafe fn append_raw(
        &self,
        pixels: *const u8,
        bytes: usize,
        row_stride: usize,
        record: Record,
        wait: Option<Duration>,
    ) -> Result<Appended> {
        let pixels = Pixels { start: pixels, bytes, row_stride, roi: None };
        // SAFETY: as the caller promises.
        unsafe { self.append_pixels(pixels, record, BufferSource::new(&self.taking(), wait.or(self.patience()))) }
    }

    /// As the acquisition itself takes buffers.
    pub(super) fn taking(&self) -> impl Fn(Option<Duration>) -> Result<FrameMut> {
        |wait| self.acquire_within(wait)
    }

    /// `roi`: the part of each frame that is given; `None`: all of it.
    pub(crate) fn append_within(
        &self,
        pixels: &[u8],
        roi: Option<Roi>,
        row_stride: usize,
        record: Record,
        buffers: BufferSource<'_>,
    ) -> Result<Appended> {
        let pixels = Pixels { start: pixels.as_ptr(), bytes: pixels.len(), row_stride, roi };
        // SAFETY: the slice outlives the call.
        unsafe { self.append_pixels(pixels, record, buffers) }
    }

    /// # Safety
    ///
    /// The bytes must be there to be read until the call returns.
    pub(super) unsafe fn append_pixels(
        &self,
        pixels: Pixels,
        record: Record,
        buffers: BufferSource<'_>,
    ) -> Result<Appended> {
        let part = Part::new(&self.engine.plan.frame, pixels.roi)?;
        let (frames, frame_stride) = part.rows(pixels.row_stride).frames(pixels.bytes)?;
        // Before a full ring lets frames go that no record would have been for.
        self.check_record(&record)?;
        let (mut done, samples) = (Appended::default(), self.engine.plan.frame.samples() as u64);
        for at in 0..frames {
            match self.check_next().and_then(|()| buffers.next()) {
                Ok(mut slot) => {
                    pixels.roi.map_or(Ok(()), |roi| slot.pad(roi))?;
                    // SAFETY: `frames` saw that this many whole frames are there.
                    unsafe { part.copy(&mut slot, pixels.start.add(at * frame_stride), pixels.row_stride) };
                    if let Err(error) = slot.hand_over(None, record) {
                        return done.unless_some(error);
                    }
                    done.frames += samples;
                }
                Err(error) => {
                    if let Err(error) = self.let_go(1, error, &mut done) {
                        return done.unless_some(error);
                    }
                }
            }
        }
        Ok(done)
    }

    /// Refuses a frame for which the array has no place, before it waits for a buffer.
    pub(super) fn check_next(&self) -> Result<()> {
        let checked = self.engine.numbers.check_next().map_err(|error| self.engine.told_error(error));
        checked.or_else(|error| self.check().and(Err(error)))
    }

    /// Lets the frames of so many buffers go that were not to be had, if that is the policy; otherwise the error why.
    pub(super) fn let_go(&self, buffers: usize, error: Error, done: &mut Appended) -> Result<()> {
        if !error.is_ring_full() || self.ring_full != RingFull::DropNewest {
            return Err(error);
        }
        let frames = self.engine.plan.frame.samples() as u64;
        for _ in 0..buffers {
            self.engine.numbers.let_go_next(frames).map_err(|error| self.engine.told_error(error))?;
            self.engine.counters.frames_dropped.fetch_add(frames, Relaxed);
            done.dropped += frames;
        }
        Ok(())
    }
}

pub(super) struct Pixels {
    pub(super) start: *const u8,
    pub(super) bytes: usize,
    pub(super) row_stride: usize,
    /// The part of a frame that they are; `None`: all of it.
    pub(super) roi: Option<Roi>,
}

/// How the rows of a frame lie in what is given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    pub(super) count: usize,
    /// Of one of them.
    pub(super) bytes: usize,
    /// From one to the next.
    pub(super) stride: usize,
}

impl Rows {
    /// How many frames this many bytes are, and how far apart.
    pub(super) fn frames(&self, given: usize) -> Result<(usize, usize)> {
        let Self { count, bytes, stride } = *self;
        let wrong_stride = || Err(Error::RowStride { got: stride, rows: count, row_bytes: bytes, bytes: given });
        let frame_stride = count.checked_mul(stride).filter(|&apart| stride >= bytes && apart <= isize::MAX as usize);
        let Some(frame_stride) = frame_stride.filter(|&apart| apart > 0) else { return wrong_stride() };
        // The last row needs no padding behind it.
        let padded = given.saturating_add(stride - bytes);
        let frames = padded / frame_stride;
        let is_whole = frames > 0 && [given, padded].contains(&(frames * frame_stride));
        // Frames without gaps were given, and another distance.
        if !is_whole && stride != bytes && given > 0 && given.is_multiple_of(count * bytes) {
            return wrong_stride();
        }
        if is_whole { Ok((frames, frame_stride)) } else { Err(Error::FrameSize { got: given, expected: frame_stride }) }
    }
}

/// Where what is copied stands in a buffer.
struct Part {
    /// Of its first pixel.
    offset: usize,
    row_stride: usize,
    rows: usize,
    row_bytes: usize,
}

impl Part {
    fn new(frame: &FramePlan, roi: Option<Roi>) -> Result<Self> {
        let FrameLayout { offset, row_stride, .. } = frame.layout;
        let Some(roi) = roi else {
            return Ok(Self { offset, row_stride, rows: frame.rows, row_bytes: frame.row_bytes });
        };
        frame.check_roi(roi)?;
        let size = frame.dtype.size();
        let offset = offset + roi.y * row_stride + roi.x * size;
        Ok(Self { offset, row_stride, rows: roi.height, row_bytes: roi.width * size })
    }

    fn rows(&self, stride: usize) -> Rows {
        Rows { count: self.rows, bytes: self.row_bytes, stride }
    }

    /// # Safety
    ///
    /// From `source` on there must be the rows, `row_stride` bytes apart.
    unsafe fn copy(&self, slot: &mut [u8], source: *const u8, row_stride: usize) {
        let copy = |to: &mut [u8], from: *const u8| {
            // SAFETY: as the caller promises; a buffer on loan is the loan's alone, so `from` can't be in it.
            unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) }
        };
        if row_stride == self.row_bytes && self.row_stride == self.row_bytes {
            copy(&mut slot[self.offset..][..self.rows * self.row_bytes], source);
            return;
        }
        for row in 0..self.rows {
            let to = self.offset + row * self.row_stride;
            // SAFETY: within what the caller promises.
            copy(&mut slot[to..to + self.row_bytes], unsafe { source.add(row * row_stride) });
        }
    }
}
