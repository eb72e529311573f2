//! Frames of planes, each written by what it is like.

use super::frame::{BLOCK_BYTES_MAX, Frame};
use super::huffman::{Code, Counts};
use super::literals;
use super::match_finder::{MatchFinder, Search};
use super::pack::{STREAMS_MAX, Streams};
use super::sample::{Look, Sample, changes, is_constant};
use super::sequences::{Sequence, Tables};
use crate::codec::runs::Runs;
use crate::error::Result;

/// Planes that have codes of their own.
pub(super) const PLANES_MAX: usize = 8;
/// Bytes of a plane that are judged, and counted, together: two blocks.
const GROUP_BYTES: usize = BLOCK_BYTES_MAX;
/// From this many bytes on, a group becomes two blocks, whose streams are packed at once.
const TWO_BLOCKS_BYTES: usize = 8192;
/// Runs shorter than this stay literals: a sequence takes some 20 bits.
const RUN_MIN: usize = 24;
/// With more changes than one in this many bytes, runs are too short to pay.
const BYTES_A_CHANGE_MIN: usize = 12;
/// A group that begins with this many bytes of which one in this many changes is not looked at further for runs.
const MANY_CHANGES_BYTES: usize = 1024;
const MANY_CHANGES: usize = 2;
/// Of this many bytes, a code must save one to be worth its time, and the reader's.
const WORTH_CODING: u64 = 64;
/// By how much more than its own excess over the entropy a code may be too long for a later group, in 1/256.
const EXCESS_MAX: u64 = 4;
/// Fewer bytes are not coded: the description of the code would take most of what it saves.
const CODED_MIN: usize = 32;

/// Writes frames, with memory that is kept.
pub(in crate::codec) struct Writer {
    codes: Vec<PlaneCode>,
    /// The code of the literals between runs.
    literals_code: Box<Code>,
    sample: Box<Sample>,
    streams: Streams,
    runs: Runs,
    sequences: Vec<Sequence>,
    literals: Vec<u8>,
    tables: Box<Tables>,
    pub(super) finder: MatchFinder,
}

/// The code that a plane was written by last.
struct PlaneCode {
    code: Box<Code>,
    /// How long the code was for the counts that it was made for, in 256ths of their entropy. 0: there is no code.
    excess: u64,
}

/// What the readers of a frame know when they come to the next block.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// The plane whose code came last.
    code_of: Option<usize>,
    /// Whether the first of the recent offsets is 1.
    offset: bool,
}

impl Writer {
    /// Bytes that must stand behind what is written; their values do not matter.
    pub(in crate::codec) const SLACK: usize = Runs::SLACK;

    /// For frames of at most `planes` planes of `plane_bytes` bytes. What is left to a match finder is compressed at
    /// `level`.
    ///
    /// # Errors
    /// [`Error::Codec`](crate::Error::Codec) when there is no memory for a match finder.
    pub(in crate::codec) fn new(level: i32, planes: usize, plane_bytes: usize) -> Result<Self> {
        let group_bytes = plane_bytes.min(GROUP_BYTES);
        let code = || PlaneCode { code: Box::new(Code::new()), excess: 0 };
        Ok(Self {
            codes: std::iter::repeat_with(code).take(PLANES_MAX).collect(),
            literals_code: Box::new(Code::new()),
            sample: Box::new(Sample::new()),
            streams: Streams::new(stream_bytes(plane_bytes)),
            runs: Runs::new(group_bytes),
            sequences: Vec::with_capacity(group_bytes / RUN_MIN + 1),
            literals: Vec::with_capacity(group_bytes),
            tables: Box::new(Tables::new()),
            finder: MatchFinder::new(level, planes * plane_bytes)?,
        })
    }

    /// Packs with certain instructions from now on.
    #[cfg(test)]
    pub(super) fn set_instructions(&mut self, plane_bytes: usize, instructions: super::pack::Instructions) {
        self.streams = Streams::with(stream_bytes(plane_bytes), instructions);
    }

    /// Forgets the tile before.
    pub(in crate::codec) fn begin_tile(&mut self) {
        self.codes.iter_mut().for_each(|plane| plane.excess = 0);
    }

    /// Writes the first `bytes` bytes of `padded` as one frame, and returns its bytes. They are `planes` planes of
    /// equal length, and perhaps some bytes more; `search` says which are left to a match finder. Without
    /// [`SLACK`](Self::SLACK) behind them, some runs at the end are not found. `None`: no room.
    pub(in crate::codec) fn write(
        &mut self,
        padded: &[u8],
        bytes: usize,
        planes: usize,
        search: Search,
        target: &mut [u8],
    ) -> Option<usize> {
        assert!(padded.len() >= bytes && (1..=PLANES_MAX).contains(&planes));
        let mut frame = Frame::begin(bytes, target)?;
        let mut known = Known { code_of: None, offset: true };
        let plane_bytes = bytes / planes;
        let searched = match search {
            Search::Nothing => 0..0,
            Search::Planes { first, end } => first.min(planes)..end.min(planes),
            Search::Everything => 0..planes,
        };
        for plane in 0..planes {
            if searched.contains(&plane) {
                if plane == searched.start {
                    // All at once, because such blocks rely on what a reader knows at a frame's start.
                    self.finder.write(&padded[plane * plane_bytes..searched.end * plane_bytes], &mut frame)?;
                    known = Known { code_of: None, offset: false };
                }
                continue;
            }
            let end = (plane + 1) * plane_bytes;
            for start in (plane * plane_bytes..end).step_by(GROUP_BYTES) {
                let group_bytes = GROUP_BYTES.min(end - start);
                self.write_group(&padded[start..], group_bytes, plane, &mut known, &mut frame)?;
            }
        }
        frame.raw(&padded[planes * plane_bytes..bytes])?;
        frame.finish()
    }

    fn write_group(
        &mut self,
        padded: &[u8],
        bytes: usize,
        plane: usize,
        known: &mut Known,
        frame: &mut Frame,
    ) -> Option<()> {
        let group = &padded[..bytes];
        if is_constant(group) {
            return frame.rle(group[0], bytes);
        }
        if bytes < CODED_MIN {
            return frame.raw(group);
        }
        if mostly_runs(group) && self.write_runs(padded, bytes, known.offset, frame).is_some() {
            *known = Known { code_of: None, offset: true };
            return Some(());
        }
        self.sample.look_at(group, Look::Brief);
        let entropy = self.sample.entropy();
        let sampled_bits = u64::from(self.sample.bytes) * 8 * 256;
        if entropy > sampled_bits - sampled_bits / WORTH_CODING {
            return frame.raw(group);
        }
        if !self.fits(group, plane, entropy) && !self.make_code(group, plane, known) {
            return frame.raw(group);
        }
        self.write_coded(group, plane, known, frame)
    }

    /// Whether there is a code for this plane that has all bytes of the group, and fits what was looked at well enough.
    fn fits(&self, group: &[u8], plane: usize, entropy: u64) -> bool {
        let PlaneCode { code, excess } = &self.codes[plane];
        *excess > 0
            && relative_cost(code, &self.sample.counts, entropy) <= *excess + EXCESS_MAX
            && (code.covers_all() || code.covers(&self.sample.completed(group)))
    }

    /// Makes a code for this group.
    fn make_code(&mut self, group: &[u8], plane: usize, known: &mut Known) -> bool {
        self.sample.look_at(group, Look::Close);
        let entropy = self.sample.entropy();
        let counts = self.sample.completed(group);
        if known.code_of == Some(plane) {
            known.code_of = None;
        }
        let PlaneCode { code, excess } = &mut self.codes[plane];
        let made = code.make(&counts);
        *excess = if made { relative_cost(code, &self.sample.counts, entropy) } else { 0 };
        made
    }

    /// Writes a group by its plane's code, or as it is where that is not longer.
    fn write_coded(&mut self, group: &[u8], plane: usize, known: &mut Known, frame: &mut Frame) -> Option<()> {
        let code = &self.codes[plane].code;
        let blocks = if group.len() >= TWO_BLOCKS_BYTES { 2 } else { 1 };
        let mut pieces: [&[u8]; STREAMS_MAX] = [&[]; STREAMS_MAX];
        let mut streams = 0;
        for piece in group.chunks(group.len().div_ceil(blocks)).flat_map(literals::cut) {
            pieces[streams] = piece;
            streams += 1;
        }
        let packed = self.streams.pack(&pieces[..streams], code);
        let packed_blocks = packed[..streams].chunks(streams / blocks);
        for (block, packed) in group.chunks(group.len().div_ceil(blocks)).zip(packed_blocks) {
            let description = (known.code_of != Some(plane)).then(|| code.description());
            let smaller = packed.iter().map(|stream| stream.len()).sum::<usize>()
                + description.map_or(0, <[u8]>::len)
                + literals::HEADERS_BYTES_MAX
                < block.len();
            if !smaller {
                frame.raw(block)?;
                continue;
            }
            frame.compressed(|room| {
                let bytes = literals::compressed(block.len(), description, packed, room)?;
                Some(bytes + self.tables.write(&[], true, &mut room[bytes..])?)
            })?;
            known.code_of = Some(plane);
        }
        Some(())
    }

    /// Writes a group as sequences, one for each run. `None`: that is not worth it.
    fn write_runs(&mut self, padded: &[u8], bytes: usize, offset_known: bool, frame: &mut Frame) -> Option<()> {
        // Fewer bytes than the masks read are not looked at: at the end of a tile without anything behind it.
        let looked_at = bytes.min(padded.len().checked_sub(Self::SLACK)?);
        self.sequences.clear();
        self.literals.clear();
        let (sequences, literals) = (&mut self.sequences, &mut self.literals);
        let mut from = 0;
        self.runs.show(padded, looked_at, |start, length| {
            if length >= RUN_MIN {
                literals.extend_from_slice(&padded[from..start]);
                sequences.push(Sequence { literals: (start - from) as u32, repeats: length as u32 });
                from = start + length;
            }
        });
        literals.extend_from_slice(&padded[from..bytes]);
        if literals.len() > bytes / 2 {
            return None;
        }
        let (code, streams) = (&mut self.literals_code, &mut self.streams);
        frame.compressed(|room| {
            let at = write_literals(literals, code, streams, &mut self.sample, room)?;
            Some(at + self.tables.write(sequences, offset_known, &mut room[at..])?)
        })
    }
}

/// The most bytes of a stream.
fn stream_bytes(plane_bytes: usize) -> usize {
    plane_bytes.min(GROUP_BYTES).div_ceil(literals::STREAMS).max(literals::SINGLE_STREAM_MAX)
}

/// Whether most bytes equal the one before.
fn mostly_runs(group: &[u8]) -> bool {
    let start = &group[..group.len().min(MANY_CHANGES_BYTES)];
    changes(start) * MANY_CHANGES < start.len() && changes(group) * BYTES_A_CHANGE_MIN < group.len()
}

/// The bits of what was looked at, in 256ths of the least that any code needs.
fn relative_cost(code: &Code, counts: &Counts, entropy: u64) -> u64 {
    (code.cost_bits(counts) << 16) / entropy.max(1)
}

/// Writes the literals between runs by a code of their own, or plainly.
fn write_literals(
    literals: &[u8],
    code: &mut Code,
    streams: &mut Streams,
    sample: &mut Sample,
    room: &mut [u8],
) -> Option<usize> {
    if literals.len() >= CODED_MIN && !is_constant(literals) {
        sample.look_at(literals, Look::Full);
        let bytes = code.make(&sample.counts).then(|| code.cost_bits(&sample.counts) as usize / 8);
        if bytes.is_some_and(|bytes| bytes + code.description().len() + literals::HEADERS_BYTES_MAX < literals.len()) {
            let mut pieces: [&[u8]; literals::STREAMS] = [&[]; literals::STREAMS];
            let cut = literals::cut(literals);
            let count = cut.len();
            pieces.iter_mut().zip(cut).for_each(|(place, piece)| *place = piece);
            let packed = streams.pack(&pieces[..count], code);
            return literals::compressed(literals.len(), Some(code.description()), &packed[..count], room);
        }
    }
    literals::plain(literals, room)
}
