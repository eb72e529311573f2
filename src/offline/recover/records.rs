//! The numbers of the frames that came, as the records have them, and as they should.

use std::ops::Range;

use super::source::WrittenImage;
use crate::config::Compressor;
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::format::keys::FRAME_NUMBERS;
use crate::format::provenance::MISSING_RANGES_MAX;
use crate::offline::array::Array;
use crate::offline::array::decode::{DecodeWorker, StoredChunk};
use crate::offline::array::shard_file::ShardFile;
use crate::offline::hierarchy::below;
use crate::offline::hierarchy::walk::{ArrayNode, Tree};
use crate::offline::ranges::{Gather, Ranges};
use crate::record::{LOST, NO_FRAME, NOT_KNOWN};

/// No writer gathers more frames in a block.
const BLOCK_FRAMES_MAX: u64 = 1 << 20;
/// More blocks that are not there are not made: those of the last checkpoint and some seconds are a handful.
const NEW_BLOCKS_MAX: u64 = 1 << 12;

/// What is known of the frames below `end`: each is missing, or it is there. Of those that are there, `named` are sure
/// to have come; others lie in a chunk of several frames, of which the header names the first and the last.
#[derive(Debug, Default)]
pub(super) struct KnownFrames {
    /// One past the highest number that is known of.
    pub(super) end: u64,
    pub(super) missing: Ranges,
    pub(super) missing_count: u64,
    pub(super) named: Ranges,
    /// Those that are there of which there are chunks: others are dark.
    pub(super) stored: Ranges,
}

impl KnownFrames {
    /// The ranges that documents name.
    pub(super) fn told(&self) -> Vec<Range<u64>> {
        self.missing.iter().take(MISSING_RANGES_MAX).cloned().collect()
    }

    pub(super) fn present(&self) -> Ranges {
        Ranges::from(0..self.end).minus(&self.missing)
    }
}

/// The array that holds the numbers of the frames that came: one block a file.
pub(super) struct FrameNumbers<'a> {
    node: &'a ArrayNode,
    array: &'a Array,
}

impl<'a> FrameNumbers<'a> {
    /// # Errors
    ///
    /// [`Error::Format`] when the array is none that a writer makes.
    pub(super) fn of(tree: &'a Tree, image: &WrittenImage) -> Result<Option<Self>> {
        let Some(node) = tree.array(&below(&image.group.name, FRAME_NUMBERS)) else { return Ok(None) };
        let array = &node.array;
        let is_list = array.dtype() == Dtype::I64 && array.shape().len() == 1 && array.shard_shape().is_none();
        if !is_list || array.chunk_shape()[0] > BLOCK_FRAMES_MAX {
            let reason = format!(
                "is not a list of frame numbers: {} {:?} in chunks of {:?}; expected int64 in chunks of at most {}",
                array.dtype(),
                array.shape(),
                array.chunk_shape(),
                BLOCK_FRAMES_MAX
            );
            return Err(Error::format(array.path(), reason));
        }
        Ok(Some(Self { node, array }))
    }

    /// How many frames it is declared to have.
    pub(super) fn frames(&self) -> u64 {
        self.array.shape()[0]
    }

    fn block_frames(&self) -> u64 {
        self.array.chunk_shape()[0]
    }

    pub(super) fn block_bytes(&self) -> u64 {
        8 * self.block_frames()
    }

    /// The blocks that are there, but for files whose names are numbers beyond all frames that can be counted.
    fn blocks(&self) -> impl Iterator<Item = u64> {
        let files = self.node.files.iter().map(|(_, position)| position);
        files.filter(|position| self.array.layout().end_of(position).is_some()).map(|position| position[0])
    }

    /// The frames that came, and those that did not, as far as it was written.
    pub(super) fn read(&self) -> Result<(Ranges, Ranges)> {
        let (mut came, mut absent) = (Gather::default(), Gather::default());
        let mut worker = self.array.worker()?;
        for block in self.blocks() {
            // Blocks help to tell what is missing; without one less is known.
            let Some(numbers) = self.block(&mut worker, block)? else { continue };
            let start = block * self.block_frames();
            for (number, frame) in numbers.iter().zip(start..) {
                match *number {
                    NO_FRAME => absent.add(frame),
                    NOT_KNOWN => {}
                    _ => came.add(frame),
                }
            }
        }
        Ok((came.ranges(), absent.ranges()))
    }

    /// The numbers in a block; `None` if it is not there or can't be read.
    fn block(&self, worker: &mut DecodeWorker, block: u64) -> Result<Option<Vec<i64>>> {
        let Some(file) = ShardFile::open(self.array.file_path(&[block]))? else { return Ok(None) };
        match self.array.decode(worker, StoredChunk { file: &file, range: file.whole(), at: &[block] }) {
            Ok(()) => {}
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(_) => return Ok(None),
        }
        let (numbers, _) = worker.raw.as_chunks::<8>();
        Ok(Some(numbers.iter().map(|number| i64::from_le_bytes(*number)).collect()))
    }

    /// The blocks that don't say what is there.
    pub(super) fn wrong_blocks(&self, frames: &KnownFrames) -> Result<Vec<u64>> {
        // As the writer stores them; of another's choice nothing is known.
        let codec = self.array.codec();
        if codec.compressor != Compressor::None || codec.checksum {
            return Ok(Vec::new());
        }
        let mut worker = self.array.worker()?;
        let mut wrong = Vec::new();
        for block in self.blocks() {
            let before = self.block(&mut worker, block)?;
            if before.is_none_or(|before| self.right(block, Some(&before), frames) != before) {
                wrong.push(block);
            }
        }
        let mut there = Gather::default();
        self.blocks().for_each(|block| there.add(block));
        let blocks = |range: &Range<u64>| range.start / self.block_frames()..range.end.div_ceil(self.block_frames());
        let absent = Ranges::new(frames.present().iter().map(blocks).collect()).minus(&there.ranges());
        if absent.count() > NEW_BLOCKS_MAX {
            let reason = format!(
                "more than {NEW_BLOCKS_MAX} of its blocks are not there, of frames whose chunks are: it belongs to \
                 another dataset, or was removed"
            );
            return Err(Error::format(self.array.path(), reason));
        }
        wrong.extend(absent.iter().flat_map(Clone::clone));
        wrong.sort_unstable();
        Ok(wrong)
    }

    /// What a block should hold. Beyond the last frame it stays as it was.
    fn right(&self, block: u64, before: Option<&[i64]>, frames: &KnownFrames) -> Vec<i64> {
        let start = block.saturating_mul(self.block_frames());
        let number = |(place, frame): (usize, u64)| match before {
            Some(before) if frames.missing.contains(frame) && before[place] == LOST => LOST,
            _ if frames.missing.contains(frame) => NO_FRAME,
            _ if frames.named.contains(frame) => frame.cast_signed(),
            // It is there, and only a record could tell whether it came or is a gap in its chunk.
            _ if frame < frames.end => NOT_KNOWN,
            Some(before) => before[place],
            None => NO_FRAME,
        };
        (0..self.block_frames() as usize).zip(start..).map(number).collect()
    }

    /// The bytes of a block as it should be.
    pub(super) fn mended(&self, block: u64, frames: &KnownFrames) -> Result<Vec<u8>> {
        let mut worker = self.array.worker()?;
        let before = self.block(&mut worker, block)?;
        let numbers = self.right(block, before.as_deref(), frames);
        Ok(numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
    }

    pub(super) fn path(&self, block: u64) -> std::path::PathBuf {
        self.array.file_path(&[block])
    }
}
