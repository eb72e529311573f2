//! Frames that are copied into the ring.
#![allow(unsafe_code)]

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use shardwright::{Appended, Error, FrameMut, Record, Roi};

use crate::acquisition::Acquisition;
use crate::errors::{OrRaise, frame_error};
use crate::forks::Owned;
use crate::geometry::Geometry;
use crate::log::drain;
use crate::pixels::{Bytes, Frames};
use crate::running::Running;
use crate::waits::Limit;

/// A copy of this many bytes takes about as long as another thread may keep the interpreter, once it has it: below, to
/// let it go would make the caller wait longer than the copy takes.
const DETACHED_BYTES: usize = 16 << 20;

impl Running {
    /// Appends the frames that lie at `address`, all of them unless the ring's policy lets some go. Returns how many
    /// were taken. `roi`: the part of a frame that they are.
    fn append_run(
        &self,
        py: Python<'_>,
        (address, bytes): (usize, usize),
        (row_stride, frame_stride): (usize, usize),
        roi: Option<Roi>,
        record: Record,
        limit: &Limit,
    ) -> PyResult<u64> {
        let run = self.run(py)?;
        let append = |from: usize, wait: Duration| -> Result<Appended, Error> {
            let (pixels, bytes, wait) = ((address + from) as *const u8, bytes - from, Some(wait));
            // SAFETY: the caller keeps the buffer while this waits, attached or not, so the bytes stay where they are.
            unsafe {
                match roi {
                    None => run.append_raw(pixels, bytes, row_stride, record, wait),
                    Some(roi) => run.append_roi_raw(pixels, bytes, roi, row_stride, record, wait),
                }
            }
        };
        let (mut from, mut taken) = (0, 0);
        let mut detached = bytes >= DETACHED_BYTES;
        while from < bytes {
            let appended = if detached {
                limit.wait(py, |slice| append(from, slice))?
            } else {
                match append(from, Duration::ZERO) {
                    Err(error) if error.is_ring_full() => {
                        detached = true;
                        drain(py);
                        continue;
                    }
                    other => other.or_raise(py)?,
                }
            };
            taken += appended.frames;
            from += (appended.frames + appended.dropped) as usize / self.geometry.samples * frame_stride;
        }
        Ok(taken)
    }

    /// Appends one frame under a number.
    fn append_numbered(
        &self,
        py: Python<'_>,
        (address, row_stride): (usize, usize),
        roi: Option<Roi>,
        number: u64,
        record: Record,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let geometry = &self.geometry;
        let mut frame = self.loan(py, timeout)?;
        roi.map_or(Ok(()), |roi| frame.pad(roi)).or_raise(py)?;
        let [height, width] = geometry.shape;
        let Roi { y, x, height, width } = roi.unwrap_or(Roi { y: 0, x: 0, height, width });
        for row in 0..height {
            let source = Bytes { address: address + row * row_stride, bytes: width * geometry.item() };
            copy_piece(&mut frame, geometry, (y + row) * geometry.row_bytes() + x * geometry.item(), &source);
        }
        frame.commit(number, record).or_raise(py)
    }

    fn append_pieces(&self, py: Python<'_>, mut source: Bytes, timeout: Option<f64>) -> PyResult<u64> {
        let (geometry, limit) = (&self.geometry, self.limit(py, timeout)?);
        let turn = self.pieces.turn(py, timeout)?;
        let frame_bytes = geometry.frame_bytes;
        let mut taken = 0;
        while source.bytes > 0 {
            let (mut frame, filled) = match turn.take() {
                None if source.bytes >= frame_bytes => {
                    let whole = source.cut(source.bytes / frame_bytes * frame_bytes);
                    let strides = (geometry.row_bytes(), frame_bytes);
                    let place = (whole.address, whole.bytes);
                    taken += self.append_run(py, place, strides, None, Record::default(), &limit)?;
                    continue;
                }
                None => (Owned::new(self.loan(py, timeout)?), 0),
                Some(held) => held,
            };
            let piece = source.cut((frame_bytes - filled).min(source.bytes));
            copy_piece(&mut frame, geometry, filled, &piece);
            let filled = filled + piece.bytes;
            if filled < frame_bytes {
                turn.put_back(frame, filled);
            } else {
                frame.into_inner().commit_next(Record::default()).or_raise(py)?;
                taken += geometry.samples as u64;
            }
        }
        Ok(taken)
    }
}

/// Copies bytes to where they belong in a frame of which `at` bytes are there.
fn copy_piece(frame: &mut FrameMut, geometry: &Geometry, mut at: usize, source: &Bytes) {
    let row_bytes = geometry.row_bytes();
    let mut from = source.address;
    let end = from + source.bytes;
    while from < end {
        let (row, within) = (at / row_bytes, at % row_bytes);
        let length = if geometry.is_contiguous() { end - from } else { (row_bytes - within).min(end - from) };
        let to = &mut frame[geometry.offset + row * geometry.strides[0] + within..][..length];
        // SAFETY: the source is kept by its owner; the frame's buffer is this loan's alone.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to.as_mut_ptr(), length) };
        (from, at) = (from + length, at + length);
    }
}

#[pymethods]
impl Acquisition {
    /// Copy one frame, or a stack of them, into the ring, and commit them under the next numbers.
    ///
    /// Parameters
    /// ----------
    /// image : array_like
    ///     Anything with a buffer or DLPack (numpy, bytes, memoryview, torch, …) of shape ``(y, x)`` or ``(…, y, x)``,
    ///     of exactly the array's type. Rows may be apart, as in a slice; any other order of the pixels is copied
    ///     twice. Without a shape of its own (one dimension), whole frames that follow each other.
    /// number : int, optional
    ///     The first frame's number, counted from 0 in acquisition order. By default one more than the largest so far.
    /// offset : (int, int), optional
    ///     Row and column at which frames that are smaller than the image stand in it; around them is the fill value.
    ///     Needs ``record_roi``, by which the record of each frame says where it stands.
    /// device_timestamp, host_timestamp : int or sequence of int, optional
    ///     The device's own time, and nanoseconds since 1970; one for each frame, or one for all.
    /// timeout : float, optional
    ///     Seconds to wait for free buffers at most. By default as the configuration's ``ring_full`` says.
    /// **fields
    ///     Values of the configured record fields, for each frame or for all.
    ///
    /// Returns
    /// -------
    /// int
    ///     How many frames were taken: all, or with ``ring_full="drop-newest"`` those that the ring had room for.
    ///
    /// Raises
    /// ------
    /// FrameTypeError, FrameError
    ///     Pixels of another type, or in no whole frames.
    /// RingFull
    ///     No buffer became free in time. Its ``taken`` says how many frames were taken before.
    #[pyo3(signature = (
        image, *, number=None, offset=None, device_timestamp=None, host_timestamp=None, timeout=None, **fields
    ))]
    #[allow(clippy::too_many_arguments)]
    fn append(
        &self,
        py: Python<'_>,
        image: &Bound<'_, PyAny>,
        number: Option<u64>,
        offset: Option<(usize, usize)>,
        device_timestamp: Option<&Bound<'_, PyAny>>,
        host_timestamp: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<u64> {
        let running = &self.running;
        running.process.check()?;
        let frames = Frames::of(image, &running.geometry, offset.is_some())?;
        let [height, width] = frames.shape;
        let roi = offset.map(|(y, x)| Roi { y, x, height, width });
        let records = running.records(py, device_timestamp, host_timestamp, fields)?;
        records.check(py, &*running.run(py)?, frames.count)?;
        let limit = running.limit(py, timeout)?;
        let frame_stride = height * frames.row_stride;
        let strides = (frames.row_stride, frame_stride);
        let mut taken = 0;
        let mut all = || -> PyResult<()> {
            if number.is_none() && records.are_same() && frames.follow_each_other() {
                taken += running.append_run(py, frames.all(), strides, roi, records.base(), &limit)?;
                return Ok(());
            }
            for at in 0..frames.count {
                let (record, place) = (records.of(at), frames.one(at));
                match number {
                    None => taken += running.append_run(py, place, strides, roi, record, &limit)?,
                    Some(first) => {
                        let source = (place.0, frames.row_stride);
                        let samples = running.geometry.samples as u64;
                        running.append_numbered(py, source, roi, first + at as u64 * samples, record, timeout)?;
                        taken += samples;
                    }
                }
            }
            Ok(())
        };
        if let Err(error) = all() {
            // The others are the caller's business.
            let _ = error.value(py).setattr("taken", taken);
            return Err(error);
        }
        Ok(taken)
    }

    /// Append bytes, whatever object they are of: whole frames, or any pieces of them.
    ///
    /// What is left of an incomplete frame waits for more; ``finish`` gives it up. Of calls on several threads, the
    /// bytes of one come behind those of another.
    ///
    /// Parameters
    /// ----------
    /// data : buffer
    ///     Contiguous memory whose bytes are pixels of the array's type, in this machine's byte order.
    /// timeout : float, optional
    ///     As of ``append``; also for calls of other threads to end.
    ///
    /// Returns
    /// -------
    /// int
    ///     How many frames became complete.
    #[pyo3(signature = (data, *, timeout=None))]
    fn append_bytes(&self, py: Python<'_>, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<u64> {
        self.running.process.check()?;
        let buffer = pyo3::buffer::PyUntypedBuffer::get(data)?;
        if !buffer.is_c_contiguous() {
            return Err(frame_error(py, "bytes to append must follow each other without gaps"));
        }
        let source = Bytes { address: buffer.buf_ptr().addr(), bytes: buffer.len_bytes() };
        self.running.append_pieces(py, source, timeout)
    }

    /// Bytes of a frame that is not complete yet.
    #[getter]
    fn pending_bytes(&self) -> usize {
        self.running.pieces.bytes()
    }
}
