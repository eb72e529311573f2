//! Frames on their way from a source to whoever takes them, at the pace of a camera.

use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use shardwright::Roi;

use crate::args::Rate;
use crate::failure::Failure;
use crate::pace::{CameraPriority, Schedule};
use crate::source::FrameSource;

/// Where frames go. The engine, or a test's notebook.
pub(crate) trait FrameSink {
    /// Takes the recording's frame `index` as `number`; `fill` fills a buffer with it, or with the part `roi` that is
    /// there of it.
    fn take(&mut self, number: u64, index: u64, roi: Option<Roi>, fill: Fill) -> Result<(), FrameRefusal>;
}

/// Fills a frame buffer.
pub(crate) type Fill<'a> = &'a mut dyn FnMut(&mut [u8]) -> Result<(), Failure>;

/// Why a frame was not taken.
pub(crate) enum FrameRefusal {
    Input(Failure),
    Engine(shardwright::Error),
}

/// How frames are fed: a recording of `pass` frames again and again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FeedPlan {
    pub(crate) pass: u64,
    /// Go on without a frame that found the ring full.
    pub(crate) drops: bool,
}

/// When the frames of a run come, whichever image they are of.
pub(crate) struct Pace {
    schedule: Schedule,
    frames: u64,
    _priority: Option<CameraPriority>,
}

impl Pace {
    /// The first frame is due now, on this thread.
    pub(crate) fn start(rate: Rate) -> Self {
        // Without a rate there is no camera, and a thread that never pauses must not have priority over all others.
        let _priority = (rate != Rate::Max).then(CameraPriority::take).flatten();
        Self { schedule: Schedule::new(Instant::now(), rate), frames: 0, _priority }
    }

    /// Waits for the next frame.
    fn wait(&mut self, stopped: impl Fn() -> bool) {
        self.schedule.wait(self.frames, stopped);
        self.frames += 1;
    }
}

/// What the feeding came to.
pub(crate) struct Taken {
    pub(crate) committed: u64,
    pub(crate) dropped: u64,
    /// Numbers at the end whose frames are missing from the recording. The engine never hears of them.
    pub(crate) missing_at_end: Range<u64>,
    pub(crate) end: FeedEnd,
}

/// Why no more frames were fed.
pub(crate) enum FeedEnd {
    Complete,
    Interrupted,
    Input(Failure),
    Engine(Failure),
}

impl FeedEnd {
    pub(crate) fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Complete | Self::Interrupted => None,
            Self::Input(failure) | Self::Engine(failure) => Some(failure),
        }
    }
}

impl Taken {
    /// Nothing was fed yet.
    pub(crate) fn nothing() -> Self {
        Self { committed: 0, dropped: 0, missing_at_end: 0..0, end: FeedEnd::Complete }
    }

    /// Says of which recording a failure is, and that it is cut off if nothing else went wrong.
    pub(crate) fn conclude(&mut self, defect: Option<String>, input: &Path) {
        let failure = match &self.end {
            FeedEnd::Complete => defect.map(Failure::Input),
            FeedEnd::Input(failure) => Some(failure.clone()),
            FeedEnd::Interrupted | FeedEnd::Engine(_) => None,
        };
        if let Some(failure) = failure {
            self.end = FeedEnd::Input(failure.about(input));
        }
    }
}

impl FeedPlan {
    /// Feeds these numbers, which follow those that were `taken`, until all are, something fails, or `stopped` says so.
    pub(crate) fn run(
        &self,
        numbers: Range<u64>,
        pace: &mut Pace,
        source: &mut dyn FrameSource,
        sink: &mut dyn FrameSink,
        taken: &mut Taken,
        stopped: impl Fn() -> bool,
    ) {
        for number in numbers {
            pace.wait(&stopped);
            if stopped() {
                taken.end = FeedEnd::Interrupted;
                break;
            }
            let index = number % self.pass;
            if source.is_missing(index) {
                // As with a dropped frame: what is never committed is missing.
                taken.missing_at_end.end = number + 1;
                continue;
            }
            taken.missing_at_end = number + 1..number + 1;
            match sink.take(number, index, source.roi(index), &mut |frame| source.read(index, frame)) {
                Ok(()) => taken.committed += 1,
                // The number is never committed; that is how the engine learns that the frame is missing.
                Err(FrameRefusal::Engine(error)) if self.drops && error.is_ring_full() => taken.dropped += 1,
                Err(FrameRefusal::Engine(error)) => taken.end = FeedEnd::Engine(Failure::from(error)),
                Err(FrameRefusal::Input(failure)) => taken.end = FeedEnd::Input(failure),
            }
            if !matches!(taken.end, FeedEnd::Complete) {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use shardwright::{Dtype, Error};

    use super::*;
    use crate::failure::exit;
    use crate::source::Recording;

    /// A source whose frames hold their index, until it breaks.
    struct Numbers {
        recording: Recording,
        breaks_at: u64,
        missing: Vec<u64>,
    }

    impl FrameSource for Numbers {
        fn recording(&self) -> &Recording {
            &self.recording
        }

        fn is_missing(&self, index: u64) -> bool {
            self.missing.contains(&index)
        }

        fn read(&mut self, index: u64, frame: &mut [u8]) -> Result<(), Failure> {
            if index >= self.breaks_at {
                return Err(Failure::Input("the file ends".into()));
            }
            frame[0] = index as u8;
            Ok(())
        }
    }

    /// A sink that writes down what it gets, and is full at some numbers.
    #[derive(Default)]
    struct Notebook {
        frames: Vec<(u64, u8)>,
        full_at: Vec<u64>,
    }

    impl FrameSink for Notebook {
        fn take(&mut self, number: u64, _index: u64, _roi: Option<Roi>, fill: Fill) -> Result<(), FrameRefusal> {
            if self.full_at.contains(&number) {
                let full = Error::RingFull {
                    frames: 4,
                    on_loan: 0,
                    waiting: 4,
                    in_work: 0,
                    others: 0,
                    waited: Duration::ZERO,
                };
                return Err(FrameRefusal::Engine(full));
            }
            let mut frame = [0];
            fill(&mut frame).map_err(FrameRefusal::Input)?;
            self.frames.push((number, frame[0]));
            Ok(())
        }
    }

    fn feed(total: u64, breaks_at: u64, full_at: &[u64], drops: bool) -> (Taken, Vec<(u64, u8)>) {
        feed_from(&mut numbers(breaks_at, &[]), total, full_at, drops)
    }

    fn numbers(breaks_at: u64, missing: &[u64]) -> Numbers {
        Numbers { recording: Recording::movie(Dtype::U16, Some(10), 64, 48), breaks_at, missing: missing.to_vec() }
    }

    fn feed_from(source: &mut Numbers, total: u64, full_at: &[u64], drops: bool) -> (Taken, Vec<(u64, u8)>) {
        let mut sink = Notebook { full_at: full_at.to_vec(), ..Notebook::default() };
        let (feed, mut taken) = (FeedPlan { pass: 3, drops }, Taken::nothing());
        feed.run(0..total, &mut Pace::start(Rate::Max), source, &mut sink, &mut taken, || false);
        (taken, sink.frames)
    }

    #[test]
    fn numbers_go_on_when_the_recording_starts_again() {
        let (taken, frames) = feed(7, u64::MAX, &[], false);
        assert!(matches!(taken.end, FeedEnd::Complete));
        assert_eq!(frames, [(0, 0), (1, 1), (2, 2), (3, 0), (4, 1), (5, 2), (6, 0)]);
    }

    #[test]
    fn dropped_frames_leave_their_numbers_out() {
        let (taken, frames) = feed(5, u64::MAX, &[1, 2], true);
        assert!(matches!(taken.end, FeedEnd::Complete));
        assert_eq!((taken.committed, taken.dropped), (3, 2));
        assert_eq!(frames, [(0, 0), (3, 0), (4, 1)]);
    }

    #[test]
    fn frames_missing_from_the_recording_leave_their_numbers_out() {
        let (taken, frames) = feed_from(&mut numbers(u64::MAX, &[1]), 6, &[], false);
        assert_eq!((taken.committed, taken.dropped, taken.missing_at_end), (4, 0, 6..6));
        assert_eq!(frames, [(0, 0), (2, 2), (3, 0), (5, 2)]);
        let (taken, frames) = feed_from(&mut numbers(u64::MAX, &[1, 2]), 6, &[], false);
        assert_eq!((taken.committed, taken.missing_at_end), (2, 4..6));
        assert_eq!(frames, [(0, 0), (3, 0)]);
    }

    #[test]
    fn a_full_ring_ends_the_run_where_dropping_is_not_allowed() {
        let (taken, frames) = feed(5, u64::MAX, &[2], false);
        assert!(taken.end.failure().unwrap().to_string().contains("ring is full"));
        assert_eq!((taken.committed, frames.len()), (2, 2));
    }

    #[test]
    fn a_recording_that_breaks_ends_the_run_with_what_was_taken() {
        let (taken, _) = feed(5, 2, &[], false);
        assert_eq!(taken.committed, 2);
        assert_eq!(taken.end.failure().map(Failure::exit_code), Some(exit::INPUT));
    }

    #[test]
    fn an_interrupt_takes_no_more_frames() {
        let mut source = numbers(u64::MAX, &[]);
        let mut sink = Notebook::default();
        let asked = Cell::new(0);
        let (feed, mut taken) = (FeedPlan { pass: 3, drops: false }, Taken::nothing());
        let stopped = || asked.replace(asked.get() + 1) >= 8;
        feed.run(0..100, &mut Pace::start(Rate::Max), &mut source, &mut sink, &mut taken, stopped);
        assert!(matches!(taken.end, FeedEnd::Interrupted));
        assert!(taken.committed < 10 && taken.committed as usize == sink.frames.len());
    }
}
