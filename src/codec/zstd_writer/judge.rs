//! Whether a match finder would do better, by trying it on a sample.

use super::match_finder::Search;
use super::writer::{PLANES_MAX, Writer};

/// With smaller tiles, to try takes longer than a match finder takes for all, which then has what may repeat.
pub(in crate::codec) const WORTH_TRYING_BYTES: usize = 96 << 10;
/// Of this many bytes of ours, a match finder must save one to be worth its time.
const WORTH_SEARCHING: usize = 40;
/// If what is left to the match finder takes all but one in this many of our bytes, it shall have the rest as well.
const WORTH_SHARING: usize = 4;

impl Writer {
    /// Decides what is left to a match finder in a tile of `tile_bytes`. `places` are parts of it, in `planes` planes
    /// each, with [`SLACK`](Self::SLACK) bytes behind them.
    pub(in crate::codec) fn judge(&mut self, places: &[&[u8]], planes: usize, tile_bytes: usize) -> Search {
        let plane_bytes = |place: &[u8]| (place.len() - Self::SLACK) / planes;
        let samples = places.iter().flat_map(|place| {
            let bytes = plane_bytes(place);
            (0..planes).map(move |plane| (plane, &place[plane * bytes..], bytes))
        });
        if !samples.clone().any(|(_, padded, bytes)| self.finder.may_repeat(&padded[..bytes])) {
            return Search::Nothing;
        }
        if tile_bytes < WORTH_TRYING_BYTES {
            return Search::Everything;
        }
        let (mut ours, mut theirs) = ([0; PLANES_MAX], [0; PLANES_MAX]);
        for (plane, padded, bytes) in samples {
            let sample = &padded[..bytes];
            let mut room = std::mem::take(&mut self.finder.room);
            let written = self.write(padded, bytes, 1, Search::Nothing, &mut room).unwrap_or(bytes);
            self.finder.room = room;
            let found = if self.finder.may_repeat(sample) { self.finder.trial(sample) } else { written };
            ours[plane] += written;
            theirs[plane] += found;
        }
        self.begin_tile();
        compare(&ours, &theirs)
    }

    /// The bytes that a match finder makes of a sample.
    pub(in crate::codec) fn found_bytes(&mut self, sample: &[u8]) -> usize {
        self.finder.trial(sample)
    }
}

fn compare(ours: &[usize; PLANES_MAX], theirs: &[usize; PLANES_MAX]) -> Search {
    let mut worth = (0..PLANES_MAX).filter(|plane| theirs[*plane] + ours[*plane] / WORTH_SEARCHING < ours[*plane]);
    let Some(first) = worth.next() else { return Search::Nothing };
    let end = worth.next_back().unwrap_or(first) + 1;
    let (all, searched) = (ours.iter().sum::<usize>(), ours[first..end].iter().sum::<usize>());
    if (all - searched) * WORTH_SHARING < all { Search::Everything } else { Search::Planes { first, end } }
}
