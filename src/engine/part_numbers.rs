//! Frame numbers of the whole run, which callers give and hear, and those of the part of it that the engine writes,
//! which have no gaps. They are the same unless several writers share the run.

use std::ops::Range;

use super::shared::Shared;
use crate::error::{Error, RefusedNumber, Result};

impl Shared {
    /// What callers call a frame of the engine's.
    pub(crate) fn told(&self, own: u64) -> u64 {
        self.part.map_or(own, |part| part.frame(own).unwrap_or(u64::MAX))
    }

    /// The same of ranges.
    pub(crate) fn told_ranges(&self, own: Vec<Range<u64>>) -> Vec<Range<u64>> {
        match self.part {
            Some(part) => part.ranges(&own),
            None => own,
        }
    }

    /// The engine's number of a frame.
    ///
    /// # Errors
    ///
    /// [`Error::FrameNumber`] for one that another part has.
    pub(crate) fn own_number(&self, number: u64) -> Result<u64> {
        let Some(part) = self.part else { return Ok(number) };
        let refuse = |why| Err(Error::FrameNumber { number, why });
        match (part.frames, part.own_frame(number)) {
            (Some(frames), _) if number >= frames => refuse(RefusedNumber::PastEnd { frames }),
            (_, Err(owner)) => refuse(RefusedNumber::OtherPart { owner, part: part.index, of: part.of }),
            (_, Ok(own)) => Ok(own),
        }
    }

    /// Takes the numbers of the frames of one buffer for the caller, from `number` on, or the next ones. Returns the
    /// engine's number of the first.
    pub(crate) fn claim_for(&self, number: Option<u64>, frames: u64) -> Result<u64> {
        let own = number.map(|number| self.own_number(number)).transpose()?;
        self.numbers.claim_for(own, frames).map_err(|error| self.told_error(error))
    }

    /// An error in the words of callers.
    pub(crate) fn told_error(&self, error: Error) -> Error {
        let (Error::FrameNumber { number, why }, Some(part)) = (&error, self.part) else { return error };
        let why = match *why {
            RefusedNumber::TooLate { oldest } => RefusedNumber::TooLate { oldest: self.told(oldest) },
            RefusedNumber::TooFar { limit } => RefusedNumber::TooFar { limit: self.told(limit) },
            RefusedNumber::PastEnd { frames } => RefusedNumber::PastEnd { frames: part.frames.unwrap_or(frames) },
            why => why,
        };
        Error::FrameNumber { number: self.told(*number), why }
    }
}
