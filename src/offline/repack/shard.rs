//! One shard of the new array: gathered, written beside its place, read back, and only then given its name.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use super::order::{ChunkOrder, morton};
use super::{RepackOptions, Tally};
use crate::codec::{Decoder, Encoder};
use crate::config::{Codec, IndexLocation};
use crate::error::{Error, Result};
use crate::offline::export::Pieces;
use crate::offline::fill;
use crate::offline::metadata;
use crate::offline::places::FileChunks;
use crate::offline::publish;
use crate::offline::reader::Array;
use crate::offline::region::{for_each_position, linear};
use crate::offline::shard_file::{Range, ShardFile};

/// An array and what it becomes.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) source: Array,
    /// Described by the new document; its files are the new ones.
    pub(super) target: Array,
    /// What chunks are encoded with, if they are encoded anew.
    pub(super) codec: Codec,
    pub(super) work: Work,
    pub(super) order: ChunkOrder,
    pub(super) sync: bool,
    /// The threads for all that can be done side by side.
    pub(super) pool: Arc<rayon::ThreadPool>,
    /// Encoders and decoders that no thread uses at the moment.
    idle: Mutex<Vec<Means>>,
    /// The same, of rooms for encoded bytes.
    idle_rooms: Mutex<Vec<Vec<u8>>>,
}

/// What has to be done to the pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Encoded bytes are copied as they are.
    Copy,
    /// Each chunk is decoded and encoded again.
    Recode,
    /// Chunks are cut anew.
    Reshape,
}

/// What became of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Written {
        chunks: u64,
        bytes: u64,
    },
    /// It was as it should be.
    Found {
        chunks: u64,
    },
    /// No chunk of it was ever written.
    Empty,
}

impl Outcome {
    /// The chunks that the shard holds.
    pub(super) fn chunks(self) -> u64 {
        match self {
            Self::Written { chunks, .. } | Self::Found { chunks } => chunks,
            Self::Empty => 0,
        }
    }
}

/// What encodes and decodes on one thread.
struct Means {
    source: Decoder,
    target: Decoder,
    encoder: Encoder,
    encoded: Vec<u8>,
    raw: Vec<u8>,
    cut: Vec<u8>,
}

impl std::fmt::Debug for Means {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Means").finish_non_exhaustive()
    }
}

/// A chunk of the new shard and where its bytes are now.
struct Item {
    /// Its place in the index.
    inner: usize,
    place: Vec<u64>,
    file: usize,
    range: Range,
}

/// An encoded chunk on its way; the room is used again and again.
#[derive(Default)]
struct Parcel {
    inner: usize,
    room: Vec<u8>,
    /// Bytes of the room that are the chunk; none for a chunk that holds only the fill value.
    used: usize,
    /// By this the chunk is known again when it is read back.
    digest: u32,
}

/// A chunk that was written.
#[derive(Debug, Clone, Copy)]
struct Written {
    inner: usize,
    range: Range,
    digest: u32,
}

impl Change {
    pub(super) fn new(
        source: Array,
        target: Array,
        codec: Codec,
        options: &RepackOptions,
        pool: Arc<rayon::ThreadPool>,
    ) -> Result<Self> {
        let (from, to) = (source.metadata(), target.metadata());
        // The last chunks of a volume are cut off, and those of an array of Zarr are not.
        let work = if from.chunk_shape != to.chunk_shape || from.volume.is_some() {
            Work::Reshape
        } else if from.chain.document != to.chain.document {
            Work::Recode
        } else {
            Work::Copy
        };
        let (order, sync) = (options.order, options.sync);
        let (idle, idle_rooms) = Default::default();
        let change = Self { source, target, codec, work, order, sync, pool, idle, idle_rooms };
        if work != Work::Copy {
            // A level that doesn't exist is refused before anything is written.
            change.give_back(change.means()?);
        }
        Ok(change)
    }

    /// Bytes that one thread needs at most while it decodes and encodes.
    pub(super) fn thread_bytes(&self) -> u64 {
        match self.work {
            Work::Copy => 0,
            _ => 2 * self.source.metadata().chunk_bytes() as u64 + 2 * self.target.metadata().chunk_bytes() as u64,
        }
    }

    /// Bytes that one chunk on its way needs.
    pub(super) fn parcel_bytes(&self) -> u64 {
        let raw = self.target.metadata().chunk_bytes() as u64;
        match self.work {
            // Twice, as far as the reader of chunks believes an index.
            Work::Copy => raw + raw / 8 + 4096,
            Work::Recode => raw + raw / 8 + 4096,
            Work::Reshape => 2 * raw + raw / 8 + 4096,
        }
    }

    /// Pixels of a new shard, in bytes.
    pub(super) fn pixel_bytes(&self, position: &[u64]) -> u64 {
        let metadata = self.target.metadata();
        let clipped = position.iter().zip(&metadata.file_shape).zip(&metadata.shape);
        let extent: Vec<u64> = clipped.map(|((at, file), shape)| (shape - at * file).min(*file)).collect();
        metadata::bytes(&extent, metadata.dtype).unwrap_or(u64::MAX)
    }

    /// The positions of the new shards that may hold something.
    pub(super) fn positions(&self) -> Result<Vec<Vec<u64>>> {
        let (from, to) = (&self.source.metadata().file_shape, &self.target.metadata().file_shape);
        let shape = self.source.shape();
        let mut found = std::collections::BTreeSet::new();
        let mut positions = self.source.file_positions()?;
        if positions.iter().any(|position| position.len() != shape.len()) {
            // Shards that are no boxes hold chunks from anywhere.
            positions = vec![vec![0; shape.len()]];
        }
        for position in positions {
            let first: Vec<u64> = position.iter().zip(from).zip(to).map(|((at, from), to)| at * from / to).collect();
            let last = position.iter().zip(from).zip(shape).zip(to);
            let last = last.map(|(((at, from), shape), to)| ((at + 1) * from).min(*shape).saturating_sub(1) / to);
            let counts: Vec<u64> = last.zip(&first).map(|(last, first)| last - first + 1).collect();
            for_each_position(&first, &counts, |at| {
                found.insert(at.to_vec());
            });
        }
        Ok(found.into_iter().collect())
    }

    /// Makes the new shard at a position, unless it is there already. `parcels` chunks at most are on their way at once.
    pub(super) fn shard(&self, position: &[u64], parcels: usize, tally: &Tally<'_>) -> Result<Outcome> {
        let path = self.target.file_path(position);
        let in_place = self.source.path() == self.target.path();
        if !in_place && let Some(found) = self.target.file_chunks(position)? {
            return Ok(Outcome::Found { chunks: found.ranges.iter().flatten().count() as u64 });
        }
        let partial = publish::hidden(&path, "partial");
        let items = if self.work == Work::Reshape { None } else { Some(self.items(position)?) };
        if let Some((items, files)) = &items {
            if items.is_empty() && !in_place {
                return Ok(Outcome::Empty);
            }
            if self.is_tidy(position, items, files) {
                if in_place {
                    let _ = fs::remove_file(&partial);
                    return Ok(Outcome::Found { chunks: items.len() as u64 });
                }
                let written: Vec<Written> = items.iter().map(Item::as_it_is).collect();
                create_parents(&path)?;
                return self.clone_file(&files[0], &written, &partial, &path, tally);
            }
        }
        create_parents(&path)?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&partial);
        let file = file.map_err(|error| Error::io("create", &partial, error))?;
        let mut writer =
            Writer { change: self, path: &partial, file, end: self.first_byte(), written: Vec::new(), tally };
        match items {
            Some((items, files)) => writer.items(&items, &files, parcels)?,
            None => writer.reshaped(position, parcels)?,
        }
        if writer.written.is_empty() && !in_place {
            return fs::remove_file(&partial)
                .map(|()| Outcome::Empty)
                .map_err(|error| Error::io("remove", &partial, error));
        }
        let written = writer.finish()?;
        self.verify(&partial, &written)?;
        self.appear(&partial, &path)?;
        let bytes = written.iter().map(|chunk| chunk.range.nbytes).sum();
        Ok(Outcome::Written { chunks: written.len() as u64, bytes })
    }

    fn appear(&self, partial: &Path, path: &Path) -> Result<()> {
        fs::rename(partial, path).map_err(|error| Error::io("rename to", path, error))?;
        if self.sync { publish::sync_folder_of(path) } else { Ok(()) }
    }

    /// Where the first chunk of a new shard may start.
    fn first_byte(&self) -> u64 {
        match (self.target.metadata().sharding, self.target.index_layout()) {
            (Some(sharding), Some(layout)) if sharding.location == IndexLocation::Start => layout.bytes(),
            _ => 0,
        }
    }

    /// The chunks of a new shard that are there, in the order in which they are to follow each other, and their files.
    fn items(&self, position: &[u64]) -> Result<(Vec<Item>, Vec<FileChunks>)> {
        let (from, to) = (self.source.metadata(), self.target.metadata());
        let (from_per, to_per) = (from.chunks_per_file(), to.chunks_per_file());
        let mut files: Vec<FileChunks> = Vec::new();
        let mut known: HashMap<Vec<u64>, Option<usize>> = HashMap::new();
        let mut items = Vec::new();
        for place in self.places(position) {
            let at: Vec<u64> =
                place.iter().zip(position).zip(&to_per).map(|((place, at), per)| at * per + place).collect();
            let file: Vec<u64> = at.iter().zip(&from_per).map(|(at, per)| at / per).collect();
            let number = match known.get(&file) {
                Some(&number) => number,
                None => {
                    let number = self.source.file_chunks(&file)?.map(|chunks| {
                        files.push(chunks);
                        files.len() - 1
                    });
                    known.insert(file, number);
                    number
                }
            };
            let Some(number) = number else { continue };
            let inner: Vec<u64> = at.iter().zip(&from_per).map(|(at, per)| at % per).collect();
            if let Some(range) = files[number].ranges[linear(&inner, &from_per) as usize] {
                items.push(Item { inner: linear(&place, &to_per) as usize, place, file: number, range });
            }
        }
        match self.order {
            ChunkOrder::C => {}
            ChunkOrder::Morton => items.sort_by(|a, b| morton(&a.place, &b.place)),
            ChunkOrder::Kept => items.sort_by_key(|item| (item.file, item.range.offset)),
        }
        Ok((items, files))
    }

    /// The places of a new shard's chunks within it that lie in the array, in C order.
    fn places(&self, position: &[u64]) -> Vec<Vec<u64>> {
        let counts = self.counts(position);
        let mut places = Vec::new();
        for_each_position(&vec![0; counts.len()], &counts, |place| places.push(place.to_vec()));
        places
    }

    /// Chunks of a new shard in each dimension, those beyond the array's edge left out.
    fn counts(&self, position: &[u64]) -> Vec<u64> {
        let to = self.target.metadata();
        let per = to.chunks_per_file();
        let grid = to.shape.iter().zip(&to.chunk_shape).map(|(shape, chunk)| shape.div_ceil(*chunk));
        position.iter().zip(&per).zip(grid).map(|((at, per), grid)| (grid - at * per).min(*per)).collect()
    }

    /// Whether a shard that is to be copied is one of the source's and has its chunks in order and without gaps.
    fn is_tidy(&self, position: &[u64], items: &[Item], files: &[FileChunks]) -> bool {
        let (from, to) = (self.source.metadata(), self.target.metadata());
        let (Some(a), Some(b), [file], Some(layout)) = (from.sharding, to.sharding, files, self.target.index_layout())
        else {
            return false;
        };
        let same = from.file_shape == to.file_shape && a.location == b.location && a.checksum == b.checksum;
        // Chunks beyond the edge would stand between the others, or behind them.
        let ranges = file.ranges.iter().flatten().count();
        if self.work != Work::Copy || !same || file.path != self.source.file_path(position) || ranges != items.len() {
            return false;
        }
        let mut end = self.first_byte();
        let follow = items.iter().all(|item| {
            let follows = item.range.offset == end;
            end += item.range.nbytes;
            follows
        });
        let index_after = if b.location == IndexLocation::End { layout.bytes() } else { 0 };
        follow && file.len == end + index_after
    }

    /// Copies a shard as a whole: the file system shares its blocks, or copies them itself, where it can.
    fn clone_file(
        &self,
        source: &FileChunks,
        chunks: &[Written],
        partial: &Path,
        path: &Path,
        tally: &Tally<'_>,
    ) -> Result<Outcome> {
        let _ = fs::remove_file(partial);
        let failed = |error: std::io::Error| Error::io("copy to", partial, error);
        let from = File::open(&source.path).map_err(|error| Error::io("open", &source.path, error))?;
        let to = File::create(partial).map_err(failed)?;
        if rustix::fs::ioctl_ficlone(to.as_fd(), from.as_fd()).is_err() {
            // `fs::copy` uses copy_file_range where the file system has it.
            fs::copy(&source.path, partial).map_err(failed)?;
        }
        if self.sync {
            rustix::fs::fdatasync(&to).map_err(|error| failed(error.into()))?;
        }
        // What there is to compare are two files, byte by byte.
        let opened = |path: &Path| {
            let file = ShardFile::open(path.to_path_buf())?;
            file.ok_or_else(|| Error::format(path, "has gone while it was copied"))
        };
        let (old, new) = (opened(&source.path)?, opened(partial)?);
        self.pool.install(|| same_bytes(&old, &new))?;
        self.appear(partial, path)?;
        let bytes = chunks.iter().map(|chunk| chunk.range.nbytes).sum();
        tally.read(bytes);
        Ok(Outcome::Written { chunks: chunks.len() as u64, bytes })
    }

    /// Reads the written shard back, index and chunks, and compares.
    fn verify(&self, partial: &Path, written: &[Written]) -> Result<()> {
        let differs =
            |what: String| Error::format(partial, format!("reads back otherwise than it was written: {what}"));
        let file = ShardFile::open(partial.to_path_buf())?.ok_or_else(|| differs("it has gone".into()))?;
        let layout = self.target.index_layout().ok_or_else(|| differs("it has no index".into()))?;
        let index = file.table(layout)?;
        let present = (0..index.len()).filter(|&chunk| !matches!(index.entry(chunk), Ok(None))).count();
        if present != written.len() {
            return Err(differs(format!("its index names {present} chunks instead of {}", written.len())));
        }
        let compare = |chunk: &Written| {
            if index.entry(chunk.inner) != Ok(Some(chunk.range)) {
                return Err(differs(format!("the index entry of chunk {}", chunk.inner)));
            }
            let mut means = self.means_or_room()?;
            file.read(chunk.range, means.room())?;
            let digest = self.digest_of_written(&mut means)?;
            self.give_back_any(means);
            if digest == chunk.digest { Ok(()) } else { Err(differs(format!("chunk {}", chunk.inner))) }
        };
        self.pool.install(|| written.par_iter().try_for_each(compare))
    }

    fn digest_of_written(&self, means: &mut Borrowed) -> Result<u32> {
        match means {
            Borrowed::Room(room) => digest(room, self.target.codec().checksum),
            Borrowed::Means(means) => {
                let raw = &mut means.cut;
                raw.resize(self.target.metadata().chunk_bytes(), 0);
                means.target.decode(&means.encoded, raw)?;
                Ok(crc32c::crc32c(raw))
            }
        }
    }

    /// Idle means, or new ones.
    fn means(&self) -> Result<Means> {
        if let Some(means) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(means);
        }
        let element_bytes = self.source.dtype().size();
        let (from, to) = (self.source.metadata().chunk_bytes(), self.target.metadata().chunk_bytes());
        Ok(Means {
            source: Decoder::new(self.source.codec(), element_bytes, from)?,
            target: Decoder::new(self.target.codec(), element_bytes, to)?,
            encoder: Encoder::new(&self.codec, element_bytes, to)?,
            encoded: Vec::new(),
            raw: Vec::new(),
            cut: Vec::new(),
        })
    }

    fn give_back(&self, means: Means) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(means);
    }

    fn means_or_room(&self) -> Result<Borrowed> {
        if self.work != Work::Copy {
            return self.means().map(|means| Borrowed::Means(Box::new(means)));
        }
        let room = self.idle_rooms.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Ok(Borrowed::Room(room.unwrap_or_default()))
    }

    fn give_back_any(&self, borrowed: Borrowed) {
        match borrowed {
            Borrowed::Means(means) => self.give_back(*means),
            Borrowed::Room(room) => self.idle_rooms.lock().unwrap_or_else(PoisonError::into_inner).push(room),
        }
    }
}

/// Room for encoded bytes, with or without the means to decode them.
enum Borrowed {
    Room(Vec<u8>),
    Means(Box<Means>),
}

impl Borrowed {
    fn room(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Room(room) => room,
            Self::Means(means) => &mut means.encoded,
        }
    }
}

impl Item {
    fn as_it_is(&self) -> Written {
        Written { inner: self.inner, range: self.range, digest: 0 }
    }
}

/// By what encoded bytes are known again. Where they end with their checksum, it is compared on the way.
fn digest(encoded: &[u8], checksum: bool) -> Result<u32> {
    if !checksum {
        return Ok(crc32c::crc32c(encoded));
    }
    // A crc over data and its own crc is a constant, so only the data count.
    let Some((data, stored)) = encoded.split_last_chunk::<4>() else {
        return Err(Error::codec("crc32c", format!("{} bytes are too few for a checksum", encoded.len())));
    };
    let (stored, computed) = (u32::from_le_bytes(*stored), crc32c::crc32c(data));
    if stored == computed {
        return Ok(computed);
    }
    Err(Error::codec("crc32c", format!("stored {stored:#010x}, computed {computed:#010x}: the bytes were changed")))
}

/// Adds to an error about a chunk which file and which chunk it is about.
fn about(error: Error, path: &Path, chunk: usize) -> Error {
    match error {
        Error::Codec { codec, reason } => Error::format(path, format!("chunk {chunk} of the shard: {codec}: {reason}")),
        other => other,
    }
}

fn same_bytes(old: &ShardFile, new: &ShardFile) -> Result<()> {
    const STEP: u64 = 4 << 20;
    let differ = || Error::format(new.path(), format!("reads back otherwise than {}", old.path().display()));
    if old.len() != new.len() {
        return Err(differ());
    }
    (0..old.len().div_ceil(STEP)).into_par_iter().try_for_each_init(
        || (Vec::new(), Vec::new()),
        |(a, b), step| {
            let range = Range { offset: step * STEP, nbytes: STEP.min(old.len() - step * STEP) };
            old.read(range, a)?;
            new.read(range, b)?;
            if a == b { Ok(()) } else { Err(differ()) }
        },
    )
}

pub(super) fn create_parents(path: &Path) -> Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    fs::create_dir_all(parent).map_err(|error| Error::io("create", parent, error))
}

/// A shard that is being written, chunk after chunk.
struct Writer<'a> {
    change: &'a Change,
    path: &'a Path,
    file: File,
    end: u64,
    written: Vec<Written>,
    tally: &'a Tally<'a>,
}

impl Writer<'_> {
    /// Copies chunks, or encodes them again.
    fn items(&mut self, items: &[Item], files: &[FileChunks], parcels: usize) -> Result<()> {
        let change = self.change;
        let mut rooms: Vec<Parcel> = Vec::new();
        rooms.resize_with(parcels.min(items.len()), Parcel::default);
        for batch in items.chunks(parcels) {
            let opened = OpenFiles { files, open: Mutex::default() };
            let fetch = |(item, parcel): (&Item, &mut Parcel)| {
                let file = opened.get(item.file)?;
                parcel.inner = item.inner;
                let fetched = match change.work {
                    Work::Copy => copy(change, &file, item.range, parcel),
                    _ => recode(change, &file, item.range, parcel),
                };
                opened.give_back(item.file, file);
                self.tally.read(item.range.nbytes);
                fetched.map_err(|error| about(error, &files[item.file].path, item.inner))
            };
            change.pool.install(|| batch.par_iter().zip(rooms.par_iter_mut()).try_for_each(fetch))?;
            self.write(&rooms[..batch.len()])?;
        }
        Ok(())
    }

    /// Cuts new chunks out of boxes of the source: in C order boxes of many chunks, so that each old chunk is decoded about
    /// once; in Morton order chunk by chunk.
    fn reshaped(&mut self, position: &[u64], parcels: usize) -> Result<()> {
        let change = self.change;
        let counts = change.counts(position);
        let per = change.target.metadata().chunks_per_file();
        let mut rooms: Vec<Parcel> = Vec::new();
        rooms.resize_with(parcels, Parcel::default);
        let ones = vec![1; counts.len()];
        let boxes: Vec<(Vec<u64>, Vec<u64>)> = if change.order == ChunkOrder::Morton {
            let mut places = change.places(position);
            places.sort_by(|a, b| morton(a, b));
            places.into_iter().map(|place| (place, ones.clone())).collect()
        } else {
            Pieces::new(&vec![0; counts.len()], &counts, &ones, parcels as u64).collect()
        };
        let mut pixels = Vec::new();
        for (first, extent) in boxes {
            let region = change.region(position, &first, &extent);
            pixels.resize(region.bytes, 0);
            change.pool.install(|| change.source.read_region(&region.start, &region.shape, &mut pixels))?;
            let mut places = Vec::new();
            for_each_position(&first, &extent, |place| places.push(place.to_vec()));
            let make = |(place, parcel): (&Vec<u64>, &mut Parcel)| {
                parcel.inner = linear(place, &per) as usize;
                cut(change, &region, &pixels, place, &first, parcel)
            };
            change.pool.install(|| places.par_iter().zip(rooms.par_iter_mut()).try_for_each(make))?;
            self.write(&rooms[..places.len()])?;
            self.tally.read(region.bytes as u64);
        }
        Ok(())
    }

    /// Writes chunks one after another.
    fn write(&mut self, parcels: &[Parcel]) -> Result<()> {
        for parcel in parcels.iter().filter(|parcel| parcel.used > 0) {
            let bytes = &parcel.room[..parcel.used];
            self.file.write_all_at(bytes, self.end).map_err(|error| Error::io("write", self.path, error))?;
            let range = Range { offset: self.end, nbytes: bytes.len() as u64 };
            self.written.push(Written { inner: parcel.inner, range, digest: parcel.digest });
            self.end += range.nbytes;
        }
        self.tally.pixels(parcels.len() as u64 * self.change.target.metadata().chunk_bytes() as u64);
        Ok(())
    }

    /// Writes the index; everything is on the device then.
    fn finish(self) -> Result<Vec<Written>> {
        let change = self.change;
        let failed = |error: std::io::Error| Error::io("write", self.path, error);
        let chunks = metadata::product(&change.target.metadata().chunks_per_file()).unwrap_or(0);
        let mut index = vec![0xFF; chunks as usize * 16];
        for chunk in &self.written {
            index[chunk.inner * 16..][..8].copy_from_slice(&chunk.range.offset.to_le_bytes());
            index[chunk.inner * 16 + 8..][..8].copy_from_slice(&chunk.range.nbytes.to_le_bytes());
        }
        if change.target.metadata().sharding.is_some_and(|sharding| sharding.checksum) {
            index.extend(crc32c::crc32c(&index).to_le_bytes());
        }
        let at = if change.first_byte() > 0 { 0 } else { self.end };
        self.file.write_all_at(&index, at).map_err(failed)?;
        if change.sync {
            rustix::fs::fdatasync(&self.file).map_err(|error| failed(error.into()))?;
        }
        Ok(self.written)
    }
}

/// Files that were opened for a batch of chunks: not all of them at once, and not anew for each chunk.
struct OpenFiles<'a> {
    files: &'a [FileChunks],
    open: Mutex<Vec<(usize, ShardFile)>>,
}

impl OpenFiles<'_> {
    fn get(&self, number: usize) -> Result<ShardFile> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = open.iter().position(|(known, _)| *known == number) {
            return Ok(open.swap_remove(at).1);
        }
        drop(open);
        let path: &PathBuf = &self.files[number].path;
        ShardFile::open(path.clone())?.ok_or_else(|| Error::format(path, "has gone while its dataset was repacked"))
    }

    fn give_back(&self, number: usize, file: ShardFile) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).push((number, file));
    }
}

fn copy(change: &Change, file: &ShardFile, range: Range, parcel: &mut Parcel) -> Result<()> {
    change.source.check_encoded(range, file.path())?;
    file.read(range, &mut parcel.room)?;
    parcel.used = parcel.room.len();
    parcel.digest = digest(&parcel.room, change.source.codec().checksum)?;
    Ok(())
}

fn recode(change: &Change, file: &ShardFile, range: Range, parcel: &mut Parcel) -> Result<()> {
    change.source.check_encoded(range, file.path())?;
    let mut means = change.means()?;
    let Means { source, encoded, raw, .. } = &mut means;
    raw.resize(change.source.metadata().chunk_bytes(), 0);
    file.read(range, encoded)?;
    source.decode(encoded, raw)?;
    if change.source.metadata().chain.big_endian {
        raw.chunks_exact_mut(change.source.dtype().size()).for_each(<[u8]>::reverse);
    }
    encode(&mut means.encoder, &means.raw, change, parcel)?;
    change.give_back(means);
    Ok(())
}

fn encode(encoder: &mut Encoder, raw: &[u8], change: &Change, parcel: &mut Parcel) -> Result<()> {
    let bound = encoder.bound();
    if parcel.room.len() < bound {
        parcel.room.resize(bound, 0);
    }
    parcel.used = encoder.encode(raw, &mut parcel.room)?;
    // Read back, a chunk is decoded by what its document says, into these bytes.
    debug_assert!(!change.target.metadata().chain.big_endian);
    parcel.digest = crc32c::crc32c(raw);
    Ok(())
}

/// A box of the source, within the array.
struct Region {
    start: Vec<u64>,
    shape: Vec<u64>,
    bytes: usize,
}

impl Change {
    /// The elements of a box of chunks of a new shard, without those beyond the array's edge.
    fn region(&self, position: &[u64], first: &[u64], extent: &[u64]) -> Region {
        let to = self.target.metadata();
        let dims = 0..to.shape.len();
        let start: Vec<u64> =
            dims.clone().map(|dim| position[dim] * to.file_shape[dim] + first[dim] * to.chunk_shape[dim]).collect();
        let shape: Vec<u64> =
            dims.map(|dim| (extent[dim] * to.chunk_shape[dim]).min(to.shape[dim] - start[dim])).collect();
        let bytes = metadata::bytes(&shape, to.dtype).unwrap_or(u64::MAX) as usize;
        Region { start, shape, bytes }
    }
}

/// Makes one chunk of the pixels of a region.
fn cut(
    change: &Change,
    region: &Region,
    pixels: &[u8],
    place: &[u64],
    first: &[u64],
    parcel: &mut Parcel,
) -> Result<()> {
    let to = change.target.metadata();
    let element = to.dtype.size();
    let mut means = change.means()?;
    let Means { cut, encoder, .. } = &mut means;
    cut.resize(to.chunk_bytes(), 0);
    fill::row(cut, &to.fill);
    let dims = 0..to.shape.len();
    let at: Vec<u64> = dims.clone().map(|dim| (place[dim] - first[dim]) * to.chunk_shape[dim]).collect();
    let extent: Vec<u64> = dims.map(|dim| to.chunk_shape[dim].min(region.shape[dim] - at[dim])).collect();
    let last = extent.len() - 1;
    let row_bytes = extent[last] as usize * element;
    for_each_position(&vec![0; last], &extent[..last], |row| {
        let mut inside: Vec<u64> = row.to_vec();
        inside.push(0);
        let here = linear(&inside, &to.chunk_shape) as usize * element;
        let there: Vec<u64> = inside.iter().zip(&at).map(|(row, at)| row + at).collect();
        let there = linear(&there, &region.shape) as usize * element;
        cut[here..here + row_bytes].copy_from_slice(&pixels[there..there + row_bytes]);
    });
    parcel.used = 0;
    if !cut.chunks_exact(element).all(|pixel| pixel == to.fill) {
        encode(encoder, cut, change, parcel)?;
    }
    change.give_back(means);
    Ok(())
}
