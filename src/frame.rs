//! A frame buffer in the camera's hands, until it is committed; and a committed frame that somebody looks at.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::config::PixelFormat::{Plain, Rgb, Rgba};
use crate::dtype::Element;
use crate::engine::{Arrival, Engine};
use crate::error::{Error, Result};
use crate::format::fill_value;
use crate::format::part::PartMap;
use crate::pixels::Roi;
use crate::record::{NUMBER_IN_RECORD, Record, write_record};
use crate::ring::{Frame, Loan, View};
use crate::stats::Stage;
use crate::sync::Inside;

/// What every frame on loan needs when it is committed.
pub(crate) struct Lender {
    pub(crate) engine: Arc<Engine>,
    pub(crate) started: OnceLock<Instant>,
    /// The root's, which must not live on with a frame that outlives its run.
    pub(crate) keep: Arc<AtomicBool>,
}

impl Lender {
    /// Writes the record of a frame that is about to be committed, under the number that is its own from now on. Until
    /// the result is dropped, the run does not end.
    fn claim(
        &self,
        loan: &mut Loan,
        number: Option<u64>,
        record: &Record,
        roi: Option<Roi>,
    ) -> Result<(u64, Inside<'_>)> {
        // The gate first: once it is closed, the first error may be the abort that closed it.
        let inside = self.engine.gate.enter().ok_or(Error::Ended)?;
        self.engine.first_error.check()?;
        // A refused record must not use up a number, so the number comes last.
        let plan = &self.engine.plan;
        let roi = plan.frame.roi.as_ref().map(|frame| frame.in_image(roi.unwrap_or_else(|| frame.whole())));
        write_record(loan.record_mut(), record, roi, plan.record.of_the_caller())?;
        let number = self.engine.claim_for(number, plan.frame.samples() as u64)?;
        loan.record_mut()[NUMBER_IN_RECORD].copy_from_slice(&(number as i64).to_ne_bytes());
        Ok((number, inside))
    }
}

/// A frame buffer on loan: fill it, then commit it. Dropping it gives it back unused.
///
/// It may be filled and committed on any thread. The buffer keeps what an earlier frame left in it.
#[must_use = "a frame that is not committed is given back unused"]
pub struct FrameMut {
    pub(crate) loan: Loan,
    /// How long the camera had to wait for it.
    pub(crate) acquired_in_ns: u64,
    /// How many frames without a number had been dropped by then.
    pub(crate) dropped_before: u64,
    pub(crate) lender: Arc<Lender>,
    /// The part of it that the camera gives; `None`: all.
    pub(crate) roi: Option<Roi>,
}

impl std::ops::Deref for FrameMut {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.loan.pixels()
    }
}

impl std::ops::DerefMut for FrameMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.loan.pixels_mut()
    }
}

impl FrameMut {
    /// The camera waited for it since then, in more than one step.
    #[cfg(feature = "capi")]
    pub(crate) fn waited_since(&mut self, start: Instant) {
        self.acquired_in_ns = start.elapsed().as_nanos() as u64;
    }

    /// The bytes to fill: rows without gaps, or as [`Config::frame_layout`](crate::Config::frame_layout) says. The
    /// buffer starts on a page; below 2 KiB, on a multiple of 64 bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        self.loan.pixels_mut()
    }

    /// The buffer as elements of the array's type, as [`bytes`](Self::bytes) has them as bytes. With
    /// [`unused_low_bits`](crate::Config::unused_low_bits), they are the camera's, which are yet to be shifted down.
    ///
    /// ```
    /// # use shardwright::{Acquisition, Config, Dim, Dtype, Memory, Record};
    /// # let dims = vec![Dim::time(None), Dim::y(4), Dim::x(4)];
    /// # let config = Config { dtype: Dtype::U16, dims, ..Config::default() };
    /// # let acquisition = Acquisition::create_in(std::sync::Arc::new(Memory::new()), config)?;
    /// let mut frame = acquisition.acquire()?;
    /// frame.elements::<u16>()?.fill(1_000);
    /// frame.commit_next(Record::default())?;
    /// # acquisition.finish()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Config`] when the array is of another type, or its
    /// [`pixel_format`](crate::Config::pixel_format) packs them or has their bytes in another order.
    pub fn elements<T: Element>(&mut self) -> Result<&mut [T]> {
        let plan_frame = &self.lender.engine.plan.frame;
        let dtype = plan_frame.dtype;
        if T::DTYPE != dtype {
            return Err(Error::config("dtype", dtype, format!("its elements are no {}", T::DTYPE)));
        }
        let format = plan_frame.camera.as_ref().map_or(Plain, |camera| camera.format);
        if !matches!(format, Plain | Rgb | Rgba) {
            let reason = "its pixels are no elements as they lie in the buffer; fill it as bytes";
            return Err(Error::config("pixel_format", format, reason));
        }
        Ok(T::of_bytes(self.loan.pixels_mut()))
    }

    /// Says that the camera gives only this part of the frame, at its place in the buffer: all around it becomes the
    /// fill value, and the record of the frame says where in the image the part is. What the part holds is the caller's
    /// to fill, before or after. [`append_roi`](crate::Acquisition::append_roi) does both.
    ///
    /// # Errors
    ///
    /// [`Error::Roi`] for what is no part of a frame, and [`Error::Config`] without
    /// [`record_roi`](crate::Config::record_roi).
    pub fn pad(&mut self, roi: Roi) -> Result<()> {
        let frame = &self.lender.engine.plan.frame;
        let plan = frame.check_roi(roi)?;
        let (size, pixels) = (frame.dtype.size(), self.loan.pixels_mut());
        let (left, right) = (roi.x * size, (roi.x + roi.width) * size);
        for y in 0..frame.rows {
            let row = &mut pixels[frame.layout.offset + y * frame.layout.row_stride..][..frame.row_bytes];
            if (roi.y..roi.y + roi.height).contains(&y) {
                fill_value::row(&mut row[..left], &plan.fill);
                fill_value::row(&mut row[right..], &plan.fill);
            } else {
                fill_value::row(row, &plan.fill);
            }
        }
        self.roi = Some(roi);
        Ok(())
    }

    /// Hands the frame to the workers under its number, counted from 0 in acquisition order.
    ///
    /// A buffer of [`PixelFormat::Rgb`](crate::PixelFormat) or `Rgba` holds a frame of each channel: `number` is that
    /// of the first, a multiple of how many there are, and the others follow it.
    ///
    /// Numbers may come out of order and from several threads, as long as none is more than
    /// [`reorder_window`](crate::Acquisition::reorder_window) behind the newest.
    ///
    /// While chunks that fill or wait for the workers take less than half of the ring, and the next shard is ready, it
    /// wakes nobody: a worker that has nothing to do looks by itself whether something came, each 1 to 10 ms. So it
    /// makes no system call then (seen on Linux), but for one in 16,384 frames, when their records are written.
    ///
    /// # Errors
    ///
    /// A number that came before, comes too late, or lies beyond the array: [`Error::FrameNumber`]. A record field that
    /// was not configured, or a value that does not fit its type: [`Error::Record`]. After the end, also of a run that
    /// failed or was aborted: [`Error::Ended`]. Before it, the first error of the run, if any. In all cases the buffer
    /// goes back to the ring, and its frame is lost; not so with [`try_commit`](Self::try_commit).
    pub fn commit(self, number: u64, record: Record) -> Result<()> {
        self.hand_over(Some(number), record)
    }

    /// As [`commit`](Self::commit), under the next number: one more than the largest that was given so far.
    pub fn commit_next(self, record: Record) -> Result<()> {
        self.hand_over(None, record)
    }

    /// As [`commit`](Self::commit), or without a number as [`commit_next`](Self::commit_next), but after an error the
    /// frame is still on loan, and may be committed otherwise. So what a sensor says costs no frame:
    ///
    /// ```
    /// # use shardwright::{Acquisition, Config, Dim, Dtype, Error, Memory, Record, RecordField};
    /// # let dims = vec![Dim::time(None), Dim::y(4), Dim::x(4)];
    /// # let record_fields = vec![RecordField { name: "gain".into(), dtype: Dtype::U8 }];
    /// # let config = Config { dtype: Dtype::U16, dims, record_fields, ..Config::default() };
    /// # let acquisition = Acquisition::create_in(std::sync::Arc::new(Memory::new()), config)?;
    /// let frame = acquisition.acquire()?;
    /// if let Err(refused) = frame.try_commit(None, Record::stamped(1_000).with(0, 300)) {
    ///     assert!(matches!(refused.error, Error::Record { .. }), "300 does not fit a uint8");
    ///     refused.frame.commit_next(Record::stamped(1_000))?;
    /// }
    /// # assert_eq!(acquisition.finish()?.frames_written, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As of [`commit`](Self::commit), with the frame.
    pub fn try_commit(self, number: Option<u64>, record: Record) -> Result<(), Box<Uncommitted>> {
        self.hand_over_by(number, record, |loan, frames| (loan.commit_samples(frames), ()))
    }

    /// Which of the ring's buffers this is, always the same memory: below
    /// [`Stats::ring_frames`](crate::Stats::ring_frames), unless several images of a [`Dataset`](crate::Dataset) share
    /// the ring.
    pub fn index(&self) -> usize {
        self.loan.index() as usize
    }

    /// As [`commit`](Self::commit), or without a number as [`commit_next`](Self::commit_next), for a caller that can't
    /// take back what it gave of the buffer's memory, as a language in which arrays are shared: the buffer does not go
    /// back to the ring before the view is dropped, or after an error the frame.
    ///
    /// Whoever writes it all the same may spoil this frame's pixels, but never another's.
    ///
    /// # Errors
    ///
    /// As of [`commit`](Self::commit), with the frame, which is still on loan.
    pub fn commit_viewed(self, number: Option<u64>, record: Record) -> Result<FrameView, Box<Uncommitted>> {
        let part = self.lender.engine.part;
        self.hand_over_by(number, record, Loan::commit_viewed).map(|view| FrameView { view, part })
    }

    /// As [`commit`](Self::commit); without a number under the next one.
    pub(crate) fn hand_over(self, number: Option<u64>, record: Record) -> Result<()> {
        self.try_commit(number, record).map_err(|uncommitted| uncommitted.error)
    }

    fn hand_over_by<T>(
        mut self,
        number: Option<u64>,
        record: Record,
        commit: impl FnOnce(Loan, u32) -> (Frame, T),
    ) -> Result<T, Box<Uncommitted>> {
        let start = Instant::now();
        // A block, because what is borrowed of the lender must have ended before the frame is given back.
        let error = 'refused: {
            let Lender { engine, started, keep, .. } = &*self.lender;
            let (number, inside) = match self.lender.claim(&mut self.loan, number, &record, self.roi) {
                Ok(claimed) => claimed,
                Err(error) => break 'refused error,
            };
            if started.get().is_none() {
                keep.store(true, Relaxed);
                let _ = started.set(start);
            }
            let plan = &engine.plan.frame;
            let frames = plan.samples() as u32;
            let (frame, kept) = commit(self.loan, frames);
            // Release: whoever sees them counted sees that their numbers are claimed.
            engine.counters.frames_accepted.fetch_add(u64::from(frames), Release);
            for (number, frame) in (number..).zip(frame.samples(frames, plan.dtype.size() as u32)) {
                let arrival = Arrival { number, frame: Some(frame), dropped_before: self.dropped_before };
                let sent = engine.arrivals.0.try_send(arrival);
                debug_assert!(sent.is_ok(), "the queue holds all frames of the ring");
                engine.numbers.sent(number);
            }
            // Whoever is told of what happens from here on may close the gate.
            drop(inside);
            engine.pump();
            let times = engine.caller_times();
            times.of(Stage::Commit).since(start);
            times.of(Stage::Acquire).record(self.acquired_in_ns);
            return Ok(kept);
        };
        Err(Box::new(Uncommitted { frame: self, error }))
    }

    /// Gives the buffer back unused.
    pub fn discard(self) {}
}

impl std::fmt::Debug for FrameMut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameMut").field("bytes", &self.len()).finish_non_exhaustive()
    }
}

/// A frame that could not be committed: still on loan, to be committed otherwise or given back.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Uncommitted {
    /// The frame.
    pub frame: FrameMut,
    /// Why not.
    pub error: Error,
}

/// A committed frame, seen through [`Acquisition::newest`](crate::Acquisition::newest) or
/// [`FrameMut::commit_viewed`].
pub struct FrameView {
    pub(crate) view: View,
    /// What its writer has of the run, if not all.
    pub(crate) part: Option<PartMap>,
}

impl FrameView {
    /// The frame's number; of a [picture](crate::PixelFormat::Rgb), that of its first channel.
    pub fn number(&self) -> u64 {
        let bytes = self.view.record()[NUMBER_IN_RECORD].try_into().expect("a record starts with 8 bytes of number");
        let own = i64::from_ne_bytes(bytes).cast_unsigned();
        self.part.and_then(|part| part.frame(own)).unwrap_or(own)
    }
}

impl std::ops::Deref for FrameView {
    type Target = [u8];

    /// The buffer as the camera filled it: rows without gaps, or as
    /// [`Config::frame_layout`](crate::Config::frame_layout) says.
    fn deref(&self) -> &[u8] {
        self.view.pixels()
    }
}

impl std::fmt::Debug for FrameView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameView").field("number", &self.number()).finish_non_exhaustive()
    }
}
