//! Counts which frames of an image are there.

use super::records::{FrameNumbers, KnownFrames};
use super::shard::RecoveredSums;
use super::source::WrittenImage;
use crate::error::{Error, Result};
use crate::format;
use crate::offline::layers::FoundRanges;
use crate::offline::ranges::Ranges;

/// `sums`: of all chunks whose headers are whole. `lost`: frames of which files are not there that were.
pub(super) fn count(
    records: Option<&FrameNumbers>,
    image: &WrittenImage,
    found: FoundRanges,
    sums: &RecoveredSums,
    lost: &Ranges,
) -> Result<KnownFrames> {
    let WrittenImage { own, map, .. } = image;
    let (came, not_come) = records.map(FrameNumbers::read).transpose()?.unwrap_or_default();
    // Of an array that grows, the documents said as it went how far it had come.
    let recorded = records.filter(|_| own.unbounded).map(FrameNumbers::frames);
    // Frames whose chunks are lost came all the same, and are missing.
    let came_end = came.iter().last().map(|range| range.end);
    let end = [Some(sums.frames_end), own.frames, recorded, came_end].into_iter().flatten().max().unwrap_or(0);
    let room = if own.unbounded { None } else { map.frames().filter(|_| !map.grows()) };
    let end = map.end(end).min(room.unwrap_or(u64::MAX));
    fits(image, end)?;

    // Level 0 decides what is a frame.
    let end = image.frames.as_ref().map_or(end, |(end, _)| *end);
    let all = Ranges::from(0..end);
    let between = found.absent(&came);
    // A level has what level 0 has, if its headers say that it has as many.
    let of_level = image.frames.as_ref().map(|(_, frames)| found.came_of(frames)).unwrap_or_default();
    let FoundRanges { whole, dark, proven, closed, .. } = found;
    // In a shard that the writer closed, a chunk that is not there held only the fill value; of a frame that is dark as
    // a whole, only its record tells that it came.
    let skips = own.slots.is_none_or(|slots| !slots.empty_chunks);
    // Where no chunk is lost, that holds for shards that are not there, too.
    let closed = if own.complete && own.chunks == Some(sums.chunks) { all.clone() } else { closed };
    let chunks = whole.union(&dark);
    let dark = if skips { dark.union(&closed.and(&came)) } else { Ranges::default() };
    // What a shard that failed was thought to have lost may be there.
    let certain = proven.union(&whole.and(&came)).union(&of_level);
    // What was known to be missing stays so otherwise: a shard that was recovered once looks as if its writer had
    // closed it.
    let absent = Ranges::new(own.missing.clone()).union(&not_come).union(&between);
    let present = whole.union(&dark).minus(&absent).union(&certain).minus(lost).and(&all);
    let present = image.frames.as_ref().map_or_else(|| present.clone(), |(_, frames)| present.and(frames));
    let missing = all.minus(&present);
    let mut missing_count = missing.count();
    let listed = own.missing.iter().fold(0u64, |sum, range| sum.saturating_add(range.end - range.start));
    if own.recovered && listed < own.frames_missing {
        // Those beyond the list are known by their number alone.
        missing_count = missing_count.max(own.frames_missing.min(end));
    }
    let named = certain.union(&came).and(&present);
    let stored = chunks.and(&present);
    Ok(KnownFrames { end, missing, missing_count, named, stored })
}

/// The document must not come to promise more than any reader can count.
fn fits(image: &WrittenImage, end: u64) -> Result<()> {
    let array = &image.node.array;
    let Some(extent) = image.map.extent(end) else { return Ok(()) };
    let mut shape = array.shape().to_vec();
    shape[0] = shape[0].max(extent);
    if format::bytes(&shape, array.dtype()).is_some() {
        return Ok(());
    }
    let reason = format!("{end} frames of {:?} are more than an array can hold", array.shape());
    Err(Error::format(array.path(), reason))
}
