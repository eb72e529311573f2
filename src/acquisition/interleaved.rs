//! Colours that a camera interleaves, taken apart while they are copied into the ring.

use std::time::Duration;

use super::Acquisition;
use super::append::{Appended, BufferSource, Rows};
use crate::error::{Error, Result};
use crate::frame::FrameMut;
use crate::pixels::Interleaved;
use crate::plan::{FramePlan, Plan};
use crate::record::Record;

/// Whoever finds too few buffers gives back those that it has, so that two never wait for each other.
const LOOK_UP_EVERY: Duration = Duration::from_micros(200);

/// The buffers of one picture.
type Frames = [Option<FrameMut>; 4];

impl Acquisition {
    /// Takes one or several pictures apart whose pixels have 3 or 4 samples that follow each other, as RGB and RGBA
    /// have them, and commits a frame for each sample under the next numbers: red, green, blue, and red of the next.
    /// The outer dimension that changes fastest, which is the channel then, has as many elements as a pixel has
    /// samples. [`Appended`] counts frames; a picture is taken as a whole.
    ///
    /// Colours that lie plane by plane are frames already, which [`append`](Self::append) takes. Whoever commits frames
    /// on another thread meanwhile may get a number between those of a picture. After single frames, a picture is
    /// refused until they are as many as a pixel has samples, or a multiple.
    ///
    /// Where [`pixel_format`](crate::Config::pixel_format) is `Rgb` or `Rgba`, for cameras that fill the buffers
    /// themselves, pictures are copied as they are.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append); [`Error::Config`] where there is no such channel, where the next frame's is not the
    /// first, where pixels are packed, and for a ring that is too small for a picture.
    pub fn append_interleaved(&self, pixels: &[u8], samples: usize) -> Result<Appended> {
        let row_stride = self.engine.plan.frame.row_bytes_of(samples);
        self.append_interleaved_with(pixels, samples, row_stride, Record::default())
    }

    /// As [`append_interleaved`](Self::append_interleaved), for pictures that are cut out of a larger buffer: rows
    /// start `row_stride` bytes apart, and the last row may end with the buffer. Every frame gets the same record.
    pub fn append_interleaved_with(
        &self,
        pixels: &[u8],
        samples: usize,
        row_stride: usize,
        record: Record,
    ) -> Result<Appended> {
        let taking = self.taking();
        let buffers = BufferSource::new(&taking, self.patience());
        self.append_interleaved_within(pixels, samples, row_stride, record, buffers)
    }

    pub(crate) fn append_interleaved_within(
        &self,
        pixels: &[u8],
        samples: usize,
        row_stride: usize,
        record: Record,
        buffers: BufferSource<'_>,
    ) -> Result<Appended> {
        if samples > 1 && self.engine.plan.frame.samples() == samples {
            return self.append_within(pixels, None, row_stride, record, buffers);
        }
        let picture = Picture::new(&self.engine.plan, self.engine.ring.frames(), samples, row_stride)?;
        self.check_record(&record)?;
        let mut done = Appended::default();
        let (pictures, picture_stride) = picture.rows().frames(pixels.len())?;
        for at in 0..pictures {
            if let Err(error) = self.check_next().and_then(|()| self.check_first_channel(samples)) {
                return done.unless_some(error);
            }
            match loans(samples, &buffers) {
                Ok(mut frames) => {
                    picture.take_apart(&pixels[at * picture_stride..], &mut frames);
                    for frame in frames.into_iter().flatten() {
                        if let Err(error) = frame.hand_over(None, record) {
                            return done.unless_some(error);
                        }
                        done.frames += 1;
                    }
                }
                Err(error) => {
                    if let Err(error) = self.let_go(samples, error, &mut done) {
                        return done.unless_some(error);
                    }
                }
            }
        }
        Ok(done)
    }

    /// Refuses a picture whose first sample would stand in another channel than the first.
    fn check_first_channel(&self, samples: usize) -> Result<()> {
        let next = self.engine.numbers.next();
        let channel = next % samples as u64;
        if channel == 0 {
            return Ok(());
        }
        let missing = samples as u64 - channel;
        let reason = format!(
            "the next frame has the number {next}, which is of channel {channel}, and a picture begins at channel 0; \
             append or commit {missing} more by themselves first"
        );
        Err(Error::config("samples", samples, reason))
    }
}

/// This many buffers, or none.
fn loans(count: usize, buffers: &BufferSource<'_>) -> Result<Frames> {
    loop {
        let left = buffers.left();
        let mut frames: Frames = [Some(buffers.next()?), None, None, None];
        let mut lacking = None;
        for place in &mut frames[1..count] {
            match buffers.free() {
                Ok(frame) => *place = Some(frame),
                Err(error) => lacking = Some(error),
            }
        }
        match lacking {
            None => return Ok(frames),
            Some(error) if !error.is_ring_full() || left == Some(Duration::ZERO) => return Err(error),
            Some(_) => drop(frames),
        }
        std::thread::sleep(LOOK_UP_EVERY);
    }
}

/// How a picture lies in what is given.
struct Picture<'a> {
    frame: &'a FramePlan,
    samples: usize,
    sample_bytes: usize,
    row_stride: usize,
}

impl<'a> Picture<'a> {
    fn new(plan: &'a Plan, ring_frames: usize, samples: usize, row_stride: usize) -> Result<Self> {
        if !matches!(samples, 3 | 4) {
            return Err(Error::config("samples", samples, "pixels of 3 or 4 samples are taken apart"));
        }
        let fastest = plan.order.fastest();
        if fastest != samples as u64 {
            let elements = match fastest {
                u64::MAX => "is unbounded, and has not one element for each".to_owned(),
                _ => format!("has {fastest} elements, not one for each"),
            };
            let reason = format!("the outer dimension that changes fastest {elements}");
            return Err(Error::config("samples", samples, reason));
        }
        if plan.frame.camera.as_ref().is_some_and(|camera| camera.is_packed) {
            return Err(Error::config("samples", samples, "packed pixels have one sample each"));
        }
        if ring_frames < samples {
            let reason = format!("the ring holds {ring_frames} frames, which is less than a picture; raise ring_bytes");
            return Err(Error::config("samples", samples, reason));
        }
        Ok(Self { frame: &plan.frame, samples, sample_bytes: plan.frame.dtype.size(), row_stride })
    }

    fn rows(&self) -> Rows {
        Rows { count: self.frame.rows, bytes: self.frame.row_bytes * self.samples, stride: self.row_stride }
    }

    fn take_apart(&self, pixels: &[u8], frames: &mut Frames) {
        let (layout, rows) = (&self.frame.layout, self.rows());
        let interleaved = if self.samples == 3 { Interleaved::Three } else { Interleaved::Four };
        for row in 0..rows.count {
            let samples = &pixels[row * rows.stride..][..rows.bytes];
            let to = layout.offset + row * layout.row_stride;
            for (channel, frame) in frames.iter_mut().flatten().enumerate() {
                interleaved.channel(self.sample_bytes, channel, samples, &mut frame[to..][..self.frame.row_bytes]);
            }
        }
    }
}
