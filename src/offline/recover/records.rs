//! The numbers of the frames that came, as the records have them, and as they should.

use std::ops;
use std::path::{Path, PathBuf};

use super::source::{WrittenImage, name};
use super::target::RecoveryTarget;
use crate::config::Compressor;
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::format::index::Range;
use crate::format::keys::FRAME_NUMBERS;
use crate::format::provenance::MISSING_RANGES_MAX;
use crate::format::record_files::RecordFiles;
use crate::offline::array::Array;
use crate::offline::array::decode::{DecodeWorker, StoredChunk};
use crate::offline::array::shard_file::ShardFile;
use crate::offline::hierarchy::below;
use crate::offline::hierarchy::walk::{ArrayNode, Tree};
use crate::offline::ranges::{Gather, Ranges};
use crate::offline::shared_records::shared_files;
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
    pub(super) fn told(&self) -> Vec<ops::Range<u64>> {
        self.missing.iter().take(MISSING_RANGES_MAX).cloned().collect()
    }

    pub(super) fn present(&self) -> Ranges {
        Ranges::from(0..self.end).minus(&self.missing)
    }
}

/// The array that holds the numbers of the frames that came.
pub(super) struct FrameNumbers<'a> {
    node: &'a ArrayNode,
    array: &'a Array,
    /// `None`: each block is a file.
    shared: Option<RecordFiles>,
}

/// A block that is there.
struct Block {
    number: u64,
    /// `None`: nobody can read it.
    range: Option<Range>,
    /// It is where this crate's writer would have put it, and may be replaced.
    is_ours: bool,
}

impl<'a> FrameNumbers<'a> {
    /// # Errors
    ///
    /// [`Error::Format`] when the array is none that a writer makes.
    pub(super) fn of(tree: &'a Tree, image: &WrittenImage) -> Result<Option<Self>> {
        let Some(node) = tree.array(&below(&image.group.name, FRAME_NUMBERS)) else { return Ok(None) };
        let array = &node.array;
        let shared = shared_files(array);
        let is_list = array.dtype() == Dtype::I64
            && array.shape().len() == 1
            && (shared.is_some() || array.shard_shape().is_none());
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
        Ok(Some(Self { node, array, shared }))
    }

    /// How many frames it is declared to have.
    pub(super) fn frames(&self) -> u64 {
        self.array.shape()[0]
    }

    fn block_frames(&self) -> u64 {
        self.array.chunk_shape()[0]
    }

    /// Bytes that it takes at most to write one.
    pub(super) fn block_bytes(&self) -> u64 {
        8 * self.block_frames() + self.shared.map_or(0, |files| files.empty_table().len() as u64)
    }

    /// Visits the blocks that are there, with their numbers if they can be read, but for files whose names are numbers
    /// beyond all frames that can be counted.
    fn each(&self, mut visit: impl FnMut(&Block, Option<&[i64]>)) -> Result<()> {
        let mut worker = self.array.worker()?;
        for (path, position) in &self.node.files {
            let Some(_) = self.array.layout().end_of(position) else { continue };
            let Some(file) = ShardFile::open(path.clone())? else { continue };
            for block in self.blocks(&file, position[0])? {
                let numbers = self.numbers(&mut worker, &file, &block)?;
                visit(&block, numbers.as_deref());
            }
        }
        Ok(())
    }

    /// The frames that came, and those that did not, as far as it was written.
    pub(super) fn read(&self) -> Result<(Ranges, Ranges)> {
        let (mut came, mut absent) = (Gather::default(), Gather::default());
        self.each(|block, numbers| {
            // Blocks help to tell what is missing; without one less is known.
            let start = block.number.saturating_mul(self.block_frames());
            for (number, frame) in numbers.into_iter().flatten().zip(start..) {
                match *number {
                    NO_FRAME => absent.add(frame),
                    NOT_KNOWN => {}
                    _ => came.add(frame),
                }
            }
        })?;
        Ok((came.ranges(), absent.ranges()))
    }

    /// The blocks of a file, by its number.
    fn blocks(&self, file: &ShardFile, number: u64) -> Result<Vec<Block>> {
        let Some(files) = self.shared else {
            return Ok(vec![Block { number, range: Some(file.whole()), is_ours: true }]);
        };
        let first = number.saturating_mul(files.blocks());
        let index = match self.array.read_index(file, &[number], None) {
            Ok(index) => index,
            Err(error @ Error::Io { .. }) => return Err(error),
            // By its first block, the file is made anew.
            Err(_) => return Ok(vec![Block { number: first, range: None, is_ours: true }]),
        };
        // Who puts one elsewhere may have put others where this one should be.
        let is_elsewhere = |(entry, range): (u64, Result<Range, String>)| {
            range.is_ok_and(|range| range != files.place(entry) && range.nbytes == files.place(entry).nbytes)
        };
        let is_ours = !index.entries().any(is_elsewhere);
        let block = |(entry, range): (u64, Result<Range, String>)| {
            let range = range.ok().filter(|range| range.nbytes == files.place(entry).nbytes);
            Block { number: first + entry, range, is_ours }
        };
        Ok(index.entries().map(block).collect())
    }

    /// The numbers in a block; `None` if it can't be read.
    fn numbers(&self, worker: &mut DecodeWorker, file: &ShardFile, block: &Block) -> Result<Option<Vec<i64>>> {
        let Some(range) = block.range else { return Ok(None) };
        match self.array.decode(worker, StoredChunk { file, range, at: &[block.number] }) {
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
        let (mut wrong, mut there) = (Vec::new(), Gather::default());
        self.each(|block, before| {
            there.add(block.number);
            let is_right = |before: &[i64]| self.right(block.number, Some(before), frames) == before;
            if !block.is_ours {
                // The whole file is left as it is.
                let first = block.number - block.number % self.blocks_a_file();
                there.add_range(first..first + self.blocks_a_file());
            } else if !before.is_some_and(is_right) {
                wrong.push(block.number);
            }
        })?;
        let blocks =
            |range: &ops::Range<u64>| range.start / self.block_frames()..range.end.div_ceil(self.block_frames());
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

    fn blocks_a_file(&self) -> u64 {
        self.shared.map_or(1, RecordFiles::blocks)
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

    /// Writes a block as it should be.
    pub(super) fn mend(&self, block: u64, frames: &KnownFrames, root: &Path, target: &RecoveryTarget) -> Result<()> {
        let (path, mut worker) = (self.path(block), self.array.worker()?);
        let file = ShardFile::open(path.clone())?;
        let mut before = None;
        if let Some(file) = &file {
            let found =
                self.blocks(file, block / self.blocks_a_file())?.into_iter().find(|found| found.number == block);
            before = found.map(|found| self.numbers(&mut worker, file, &found)).transpose()?.flatten();
        }
        let numbers = self.right(block, before.as_deref(), frames);
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let key = name(root, &path);
        let Some(files) = self.shared else { return target.put(&key, &bytes) };
        let table = files.empty_table();
        if file.is_none_or(|file| file.len() < table.len() as u64) {
            target.put(&key, table)?;
        }
        let (at, entry) = match before.is_none() && numbers.iter().all(|number| *number == NO_FRAME) {
            // Nothing was ever told of it.
            true => files.no_entry(block),
            false => {
                target.write_within(&key, files.place(block).offset, &bytes)?;
                files.entry(block)
            }
        };
        target.write_within(&key, at, &entry)
    }

    /// The file of a block.
    pub(super) fn path(&self, block: u64) -> PathBuf {
        self.array.file_path(&[block / self.blocks_a_file()])
    }
}
