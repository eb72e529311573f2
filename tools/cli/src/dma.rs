//! Frames that lie in the ring before the run, as if the camera wrote them there itself, by direct memory access.
//!
//! A camera's driver fills its buffers in a fixed order, round and round. Buffers come back nearly in the order in
//! which they went; those that come before their turn are kept, as a driver holds several buffers, too.

use std::time::Duration;

use shardwright::{Acquisition, FrameMut};

use crate::failure::Failure;
use crate::feed::{Fill, FrameRefusal};
use crate::source::FrameSource;

/// How long a buffer whose turn it is may be on its way, while another one is there.
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// Buffers that came before their turn, by their place. Of millions of places few have one.
struct EarlyBuffers {
    /// For each place, where its buffer is among `buffers`, plus one; 0: it is not here.
    at: Vec<u32>,
    buffers: Vec<Option<FrameMut>>,
    free: Vec<u32>,
}

impl EarlyBuffers {
    fn new(places: usize) -> Self {
        Self { at: vec![0; places], buffers: Vec::new(), free: Vec::new() }
    }

    fn len(&self) -> usize {
        self.buffers.len() - self.free.len()
    }

    fn contains(&self, place: usize) -> bool {
        self.at[place] > 0
    }

    fn insert(&mut self, place: usize, buffer: FrameMut) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.buffers.push(None);
            self.buffers.len() as u32 - 1
        });
        self.buffers[at as usize] = Some(buffer);
        self.at[place] = at + 1;
    }

    fn remove(&mut self, place: usize) -> Option<FrameMut> {
        let at = std::mem::take(&mut self.at[place]).checked_sub(1)?;
        self.free.push(at);
        self.buffers[at as usize].take()
    }
}

/// What lies in each of the ring's buffers.
pub(crate) struct Resident {
    /// Where each buffer stands in the order, by its index.
    places: Vec<u32>,
    /// Which frame of the recording lies at each place. At first the recording follows itself: `place % distinct`.
    holds: Vec<u32>,
    distinct: u64,
    /// Whose turn it is.
    turn: usize,
    early: EarlyBuffers,
    early_max: usize,
    patience: Duration,
    /// Buffers beyond whole passes through the recording stay on loan, or the order would be lost at the first
    /// repetition.
    _beyond: Vec<FrameMut>,
    copied: u64,
}

impl Resident {
    /// Fills the whole ring with the frames of one pass, as often as they fit. `waits`: the camera waits for buffers.
    pub(crate) fn fill(
        acquisition: &Acquisition,
        source: &mut dyn FrameSource,
        pass: u64,
        waits: bool,
    ) -> Result<Self, Failure> {
        let buffers = acquisition.stats().ring_frames;
        let distinct = source.distinct(pass);
        let passes = buffers as u64 / distinct;
        if passes == 0 {
            return Err(Failure::Usage(format!(
                "--dma needs a ring for all {distinct} frames of the recording, but it has room for {buffers}; give \
                 more --memory or take fewer --frames"
            )));
        }
        let used = (passes * distinct) as usize;
        let mut places = vec![0; buffers];
        let mut filled = Vec::with_capacity(used);
        for place in 0..used {
            let mut buffer = acquisition.try_acquire()?;
            source.read(place as u64 % distinct, &mut buffer)?;
            places[buffer.index()] = place as u32;
            filled.push(buffer);
        }
        let rest = || acquisition.try_acquire().ok();
        let beyond = std::iter::from_fn(rest).collect();
        // They go back in their order.
        filled.into_iter().for_each(FrameMut::discard);
        Ok(Self {
            places,
            holds: (0..used as u64).map(|place| (place % distinct) as u32).collect(),
            distinct,
            turn: 0,
            early: EarlyBuffers::new(used),
            early_max: (used / 2).max(1),
            patience: if waits { PATIENCE_MAX } else { Duration::ZERO },
            _beyond: beyond,
            copied: 0,
        })
    }

    /// Lends the next buffer where the recording's frame `index` lies, if that comes soon; else another one that holds
    /// it; else any, into which `fill` copies it.
    pub(crate) fn lend(&mut self, acquisition: &Acquisition, index: u64, fill: Fill) -> Result<FrameMut, FrameRefusal> {
        let (wanted, distinct, places) = (index % self.distinct, self.distinct as usize, self.holds.len());
        // Frames that were dropped have had their turn.
        self.turn = (self.turn + (wanted as usize + distinct - self.turn % distinct) % distinct) % places;
        let (place, mut buffer) = match self.wait_for_turn(acquisition)? {
            Some(buffer) => (self.turn, buffer),
            None => self.stand_in(wanted),
        };
        self.turn = (self.turn + 1) % places;
        if u64::from(self.holds[place]) != wanted {
            self.holds[place] = wanted as u32;
            self.copied += 1;
            fill(&mut buffer).map_err(FrameRefusal::Input)?;
        }
        Ok(buffer)
    }

    /// The buffer whose turn it is; `None` if it does not come in time and another one is there.
    fn wait_for_turn(&mut self, acquisition: &Acquisition) -> Result<Option<FrameMut>, FrameRefusal> {
        if let Some(buffer) = self.early.remove(self.turn) {
            return Ok(Some(buffer));
        }
        loop {
            let next = match self.early.len() {
                0 => acquisition.acquire(),
                few if few < self.early_max => acquisition.acquire_timeout(self.patience),
                _ => return Ok(None),
            };
            match next {
                Ok(buffer) => match self.places[buffer.index()] as usize {
                    place if place == self.turn => return Ok(Some(buffer)),
                    place => self.early.insert(place, buffer),
                },
                Err(error) if error.is_ring_full() && self.early.len() > 0 => return Ok(None),
                Err(error) => return Err(FrameRefusal::Engine(error)),
            }
        }
    }

    /// A buffer that came early, with its place: the next that holds the wanted frame, from which the order goes on; or
    /// the one whose turn comes last, for what lies in it is lost.
    fn stand_in(&mut self, wanted: u64) -> (usize, FrameMut) {
        let places = self.holds.len();
        let mut passes = (0..places).step_by(self.distinct as usize).map(|ahead| (self.turn + ahead) % places);
        let same = passes.find(|&place| u64::from(self.holds[place]) == wanted && self.early.contains(place));
        self.turn = same.unwrap_or(self.turn);
        let mut latest_first = (0..places).map(|back| (self.turn + places - 1 - back) % places);
        let last = || latest_first.find(|&place| self.early.contains(place)).expect("some buffer came early");
        let place = same.unwrap_or_else(last);
        (place, self.early.remove(place).expect("it is there"))
    }

    /// What is to be said of a run of this many frames.
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
    fn buffers_are_lent_in_their_order_whichever_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let (acquisition, mut resident) = filled(folder.path(), true);
        let mut lend = |number: u64| {
            let lent = resident.lend(&acquisition, number % 10, &mut |_| unreachable!("frame {number} is copied"));
            lent.ok().unwrap()
        };
        let mut frames: Vec<_> = (0..20).map(&mut lend).collect();
        let order: Vec<_> = frames.iter().map(FrameMut::index).collect();
        // The second half of the recording's first copy comes back first.
        frames.drain(5..10).for_each(FrameMut::discard);
        frames.into_iter().for_each(FrameMut::discard);
        let again: Vec<_> = (20..40).map(&mut lend).collect();
        assert_eq!(again.iter().map(FrameMut::index).collect::<Vec<_>>(), order);
        acquisition.abort();
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
