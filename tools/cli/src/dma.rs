//! Frames that lie in the ring before the run, as if the camera wrote them there itself, by direct memory access.
//!
//! Buffers come back nearly in the order in which they went, so the frame that is wanted nearly always lies in one of the next
//! few. A camera's driver holds several buffers, too.

use std::time::Duration;

use shardwright::{Acquisition, FrameMut};

use crate::failure::Failure;
use crate::feed::{Fill, Refusal};
use crate::source::Source;

/// How long a buffer that holds the wanted frame may be on its way, while another one is there.
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// What lies in each of the ring's buffers.
pub(crate) struct Resident {
    /// Frames of the recording, by the buffer's index.
    holds: Vec<u64>,
    /// How many buffers hold each frame.
    copies: Vec<u32>,
    /// Buffers that came before their turn, by the frame that they hold.
    early: Vec<Vec<FrameMut>>,
    early_count: usize,
    early_max: usize,
    patience: Duration,
    /// Buffers beyond whole passes through the recording stay on loan, or the order would be lost at the first repetition.
    _beyond: Vec<FrameMut>,
    copied: u64,
}

impl Resident {
    /// Fills the whole ring with the frames of one pass, as often as they fit. `waits`: the camera waits for buffers.
    pub(crate) fn fill(
        acquisition: &Acquisition,
        source: &mut dyn Source,
        pass: u64,
        waits: bool,
    ) -> Result<Self, Failure> {
        let buffers = acquisition.stats().ring_frames;
        let distinct = source.distinct(pass);
        let passes = buffers as u64 / distinct;
        if passes == 0 {
            return Err(Failure::Usage(format!(
                "--dma needs a ring for all {distinct} frames of the recording, but it has room for {buffers}; give more \
                 --memory or take fewer --frames"
            )));
        }
        let used = (passes * distinct) as usize;
        let mut holds = vec![0; buffers];
        let mut filled = Vec::with_capacity(used);
        for number in 0..used as u64 {
            let mut buffer = acquisition.acquire_within(Some(Duration::ZERO))?;
            source.read(number % distinct, &mut buffer)?;
            holds[buffer.index()] = number % distinct;
            filled.push(buffer);
        }
        let rest = || acquisition.acquire_within(Some(Duration::ZERO)).ok();
        let beyond = std::iter::from_fn(rest).collect();
        // They go back in the order of their frames.
        filled.into_iter().for_each(FrameMut::discard);
        Ok(Self {
            holds,
            copies: vec![passes as u32; distinct as usize],
            early: (0..distinct).map(|_| Vec::new()).collect(),
            early_count: 0,
            early_max: (used / 2).max(1),
            patience: if waits { PATIENCE_MAX } else { Duration::ZERO },
            _beyond: beyond,
            copied: 0,
        })
    }

    /// Lends the buffer where the recording's frame `index` lies, if that comes soon; else another, into which `fill` copies it.
    pub(crate) fn lend(&mut self, acquisition: &Acquisition, index: u64, fill: Fill) -> Result<FrameMut, Refusal> {
        let wanted = (index % self.early.len() as u64) as usize;
        loop {
            if let Some(buffer) = self.early[wanted].pop() {
                self.early_count -= 1;
                return Ok(buffer);
            }
            let comes = self.early_count < self.early_max && self.copies[wanted] > 0;
            let next = match self.early_count {
                0 => acquisition.acquire(),
                _ if comes => acquisition.acquire_within(Some(self.patience)),
                _ => break,
            };
            match next {
                Ok(buffer) => {
                    self.early[self.holds[buffer.index()] as usize].push(buffer);
                    self.early_count += 1;
                }
                Err(error) if error.is_ring_full() && self.early_count > 0 => break,
                Err(error) => return Err(Refusal::Engine(error)),
            }
        }
        // What lies in the buffer is lost: it shall be the frame that comes last.
        let frames = self.early.len();
        let farthest = (1..=frames).rev().find_map(|distance| self.early[(wanted + distance) % frames].pop());
        let mut buffer = farthest.expect("the loop has left one");
        self.early_count -= 1;
        let holds = &mut self.holds[buffer.index()];
        self.copies[*holds as usize] -= 1;
        *holds = wanted as u64;
        self.copies[wanted] += 1;
        self.copied += 1;
        fill(&mut buffer).map_err(Refusal::Input)?;
        Ok(buffer)
    }

    /// What is to be said of a run of so many frames.
    pub(crate) fn note(&self, frames: u64) -> Option<String> {
        let copied = self.copied;
        (copied > 0).then(|| {
            format!("--dma: {copied} of {frames} frames were copied; no buffer where they lay came back in time")
        })
    }
}

#[cfg(test)]
mod tests {
    use shardwright::{Config, Dim, Dtype, Record, RingFull};

    use super::*;
    use crate::source::{Counting, Recording};

    fn counting() -> Counting {
        Counting(Recording::movie(Dtype::U8, Some(10), 64, 64))
    }

    /// A ring of 25 buffers, and who fills it with a recording of 10 frames.
    fn filled(folder: &std::path::Path, waits: bool) -> (Acquisition, Resident) {
        let dims = vec![Dim::time(None).chunk(2).shard(8), Dim::y(64), Dim::x(64)];
        let ring_full = RingFull::Block { timeout: Some(Duration::from_secs(60)) };
        let config =
            Config { dtype: Dtype::U8, dims, ring_bytes: 25 * 4096, ring_full, sync: false, ..Config::default() };
        let acquisition = Acquisition::create(folder.join("out.zarr"), config).unwrap();
        let resident = Resident::fill(&acquisition, &mut counting(), 10, waits).unwrap();
        (acquisition, resident)
    }

    #[test]
    fn frames_that_lie_in_the_ring_are_not_copied() {
        let folder = tempfile::tempdir().unwrap();
        let (acquisition, mut resident) = filled(folder.path(), true);
        // A busy machine may take its time.
        resident.patience = Duration::from_secs(60);
        for number in 0..200 {
            let lent = resident.lend(&acquisition, number % 10, &mut |_| unreachable!("frame {number} is copied"));
            let frame = lent.ok().unwrap();
            assert!(frame.iter().all(|&byte| u64::from(byte) == number % 10));
            frame.commit(number, Record::default()).unwrap();
        }
        assert_eq!(resident.note(200), None);
        drop(resident);
        assert_eq!(acquisition.finish().unwrap().frames_written, 200);
    }

    #[test]
    fn a_frame_whose_buffers_are_elsewhere_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let (acquisition, mut resident) = filled(folder.path(), false);
        let mut lend = |number: u64| {
            let mut fill = |frame: &mut [u8]| {
                frame.fill((number % 10) as u8);
                Ok(())
            };
            resident.lend(&acquisition, number % 10, &mut fill).ok().unwrap()
        };
        // Somebody has the buffers of frames 0 to 9 and of 0 to 2 for good.
        let kept: Vec<_> = (0..13).map(|_| acquisition.acquire().unwrap()).collect();
        for number in 0..60 {
            let frame = lend(number);
            assert!(frame.iter().all(|&byte| u64::from(byte) == number % 10), "frame {number}");
            frame.commit(number, Record::default()).unwrap();
        }
        let note = resident.note(60).unwrap();
        assert!(note.contains("of 60 frames were copied"), "{note}");
        drop((kept, resident));
        assert_eq!(acquisition.finish().unwrap().frames_written, 60);
    }

    #[test]
    fn a_recording_that_the_ring_has_no_room_for_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (acquisition, resident) = filled(folder.path(), true);
        drop(resident);
        let refused = Resident::fill(&acquisition, &mut counting(), 26, true).err().unwrap().to_string();
        assert!(refused.contains("all 26 frames") && refused.contains("room for 25"), "{refused}");
        acquisition.abort();
    }
}
