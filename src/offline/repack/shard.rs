//! One shard of the new array: gathered, written beside its place, read back, and only then given its name.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::change::{Change, Publishing, Work};
use super::chunks::SourceChunk;
use super::options::RepackSummary;
use super::source_file::SourceFile;
use super::writer::{ShardWriter, WrittenChunk, about};
use crate::error::{Error, Result};
use crate::format::index::Range;
use crate::fs as os;
use crate::fs::attributes;
use crate::fs::publish_once::{Published, publish_once};
use crate::fs::system;
use crate::offline::array::decode::StoredChunk;
use crate::offline::array::shard_file::ShardFile;
use crate::offline::progress::Tally;
use crate::words::count;

/// What became of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShardOutcome {
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

impl ShardOutcome {
    /// The chunks that the shard holds.
    pub(super) fn chunks(self) -> u64 {
        match self {
            Self::Written { chunks, .. } | Self::Found { chunks } => chunks,
            Self::Empty => 0,
        }
    }
}

impl RepackSummary {
    pub(crate) fn add(&mut self, outcome: ShardOutcome) {
        match outcome {
            ShardOutcome::Written { chunks, bytes } => {
                self.shards_written += 1;
                self.chunks += chunks;
                self.bytes += bytes;
            }
            ShardOutcome::Found { .. } => self.shards_found += 1,
            ShardOutcome::Empty => {}
        }
    }
}

/// A shard in the making.
#[derive(Clone, Copy)]
struct NewShard<'a> {
    position: &'a [u64],
    /// Where it is made.
    partial: &'a Path,
    /// What must hold once it is whole.
    check: &'a (dyn Fn() -> Result<()> + Sync),
}

impl Change {
    /// Makes the new shard at a position, unless it is there already. `chunks_at_once` chunks at most are on their way
    /// at once.
    pub(super) fn shard(&self, position: &[u64], chunks_at_once: usize, tally: &Tally<'_>) -> Result<ShardOutcome> {
        self.checked_shard(position, chunks_at_once, tally, &|| Ok(()))
    }

    /// The same, which gets its name only if `check` finds nothing wrong when it is whole.
    pub(in crate::offline) fn checked_shard(
        &self,
        position: &[u64],
        chunks_at_once: usize,
        tally: &Tally<'_>,
        check: &(dyn Fn() -> Result<()> + Sync),
    ) -> Result<ShardOutcome> {
        let partial = self.partial(&self.target.file_path(position))?;
        let shard = NewShard { position, partial: &partial, check };
        let made = self.make_shard(&shard, chunks_at_once, tally);
        if made.is_err() && self.publishing == Publishing::Once {
            // Nobody else would use it, and the next call has another name for its own.
            let _ = fs::remove_file(&partial);
        }
        made.map_err(|error| self.source.unless_changed(error))
    }

    /// The name under which a file is made.
    fn partial(&self, path: &Path) -> Result<PathBuf> {
        if self.publishing == Publishing::Alone {
            return Ok(os::hidden(path, "partial"));
        }
        let random = system::random_number().map_err(|error| Error::io("create", path, error))?;
        Ok(os::hidden(path, &format!("{random:016x}.partial")))
    }

    fn make_shard(&self, shard: &NewShard<'_>, chunks_at_once: usize, tally: &Tally<'_>) -> Result<ShardOutcome> {
        let NewShard { position, partial, .. } = *shard;
        let path = self.target.file_path(position);
        let in_place = self.source.folder() == self.target.folder();
        if !in_place && let Some(file) = self.target.open_file(position)? {
            let index = self.target.read_index(&file, position, None)?;
            return Ok(ShardOutcome::Found { chunks: index.entries().count() as u64 });
        }
        if in_place && self.work == Work::Copy && !self.target.layout().has_index() {
            // There is nothing else to be done in a file that is a chunk.
            return Ok(ShardOutcome::Found { chunks: 1 });
        }
        let items = if self.work == Work::Reshape { None } else { Some(self.items(position)?) };
        if let Some((items, files)) = &items {
            if items.is_empty() && !in_place && !self.keeps_empty() {
                return Ok(ShardOutcome::Empty);
            }
            if self.is_tidy(position, items, files) {
                if in_place {
                    let _ = fs::remove_file(partial);
                    return Ok(ShardOutcome::Found { chunks: items.len() as u64 });
                }
                self.create_parents(&path)?;
                return self.clone_file(shard, &files[0], items, tally);
            }
        }
        self.create_parents(&path)?;
        let file = self.create(partial, &path).map_err(|error| Error::io("create", partial, error))?;
        let mut writer = ShardWriter::new(self, partial, file, tally);
        let written = match items {
            Some((items, files)) => writer.items(&items, &files, chunks_at_once),
            None => writer.reshaped(position, chunks_at_once),
        };
        // What is not finished is begun again by the next call.
        written.inspect_err(|_| drop(fs::remove_file(partial)))?;
        if writer.written.is_empty() && !in_place && !self.keeps_empty() {
            return fs::remove_file(partial)
                .map(|()| ShardOutcome::Empty)
                .map_err(|error| Error::io("remove", partial, error));
        }
        let written = writer.finish()?;
        self.verify(position, partial, &written)?;
        let (chunks, bytes) = (written.len() as u64, written.iter().map(|chunk| chunk.range.nbytes).sum());
        Ok(match self.publish(shard, &path)? {
            Published::Now => ShardOutcome::Written { chunks, bytes },
            Published::Before => ShardOutcome::Found { chunks },
        })
    }

    /// Gives a file that was read back its name.
    fn publish(&self, shard: &NewShard<'_>, path: &Path) -> Result<Published> {
        let NewShard { partial, check, .. } = *shard;
        self.source.check_in_place()?;
        check()?;
        if self.publishing == Publishing::Alone {
            return os::rename(partial, path, self.sync).map(|()| Published::Now);
        }
        let published = publish_once(partial, path).map_err(|error| Error::io("link to", path, error))?;
        if published == Published::Before {
            let open = |path: &Path| ShardFile::open(path.to_path_buf())?.ok_or_else(|| gone(path));
            let (made, other) = (open(partial)?, open(path)?);
            self.pool.install(|| same_bytes(&other, &made))?;
            fs::remove_file(partial).map_err(|error| Error::io("remove", partial, error))?;
        }
        if self.sync {
            os::sync_folder_of(path)?;
        }
        Ok(published)
    }

    /// Creates the folders above a shard, of which none may lead out of the array's.
    fn create_parents(&self, path: &Path) -> Result<()> {
        let (folder, Some(parent)) = (self.target.folder(), path.parent()) else { return Ok(()) };
        if self.publishing == Publishing::Alone {
            fs::create_dir_all(folder).map_err(|error| Error::io("create", folder, error))?;
        }
        os::folders_below(folder, parent)
    }

    /// Creates a file that whoever may read the old ones may read.
    fn create(&self, partial: &Path, path: &Path) -> io::Result<File> {
        let file = os::create_new(partial)?;
        if path.exists() {
            attributes::keep(partial, path)?;
        } else if let Ok(old) = fs::metadata(self.source.document()) {
            file.set_permissions(old.permissions())?;
        }
        Ok(file)
    }

    /// Copies a shard as a whole: the file system shares its blocks, or copies them itself, where it can.
    fn clone_file(
        &self,
        shard: &NewShard<'_>,
        source: &SourceFile,
        items: &[SourceChunk],
        tally: &Tally<'_>,
    ) -> Result<ShardOutcome> {
        let (partial, path) = (shard.partial, self.target.file_path(shard.position));
        let failed = |error: std::io::Error| Error::io("copy to", partial, error);
        let old = source.open_again(&self.source)?;
        let to = self.create(partial, &path).map_err(failed)?;
        match old.whole_file().filter(|_| self.reflink) {
            None => copy_range(&old, &to, partial)?,
            Some(from) if system::share_blocks(from, &to) => {}
            // It uses copy_file_range where the file system has it.
            Some(mut from) => io::copy(&mut from, &mut &to).map(drop).map_err(failed)?,
        }
        if self.sync {
            to.sync_data().map_err(failed)?;
        }
        // What there is to compare are two files, byte by byte.
        let new = ShardFile::open(partial.to_path_buf())?.ok_or_else(|| gone(partial))?;
        self.pool.install(|| items.par_iter().try_for_each(|item| self.look_at(&old, item)))?;
        self.pool.install(|| same_bytes(&old, &new))?;
        let published = self.publish(shard, &path)?;
        let (chunks, bytes) = (items.len() as u64, items.iter().map(|item| item.range.nbytes).sum());
        tally.read(bytes);
        Ok(match published {
            Published::Now => ShardOutcome::Written { chunks, bytes },
            Published::Before => ShardOutcome::Found { chunks },
        })
    }

    /// Refuses a chunk that nothing vouches for.
    fn look_at(&self, file: &ShardFile, item: &SourceChunk) -> Result<()> {
        let mut room = self.idle_rooms.take().unwrap_or_default();
        file.read(item.range, &mut room)?;
        let vouched = self.vouched(item.stored_in(file), &room);
        self.idle_rooms.give_back(room);
        vouched.map(drop).map_err(|error| about(error, file.path(), &item.at))
    }

    /// Reads the written shard back, index and chunks, and compares.
    fn verify(&self, position: &[u64], partial: &Path, written: &[WrittenChunk]) -> Result<()> {
        let differs =
            |what: String| Error::format(partial, format!("reads back otherwise than it was written: {what}"));
        let file = ShardFile::open(partial.to_path_buf())?.ok_or_else(|| differs("it has gone".into()))?;
        let index = self.target.read_index(&file, position, None)?;
        let present = index.entries().count();
        if present != written.len() {
            return Err(differs(format!("its index names {} instead of {}", count(present, "chunk"), written.len())));
        }
        let compare = |chunk: &WrittenChunk| {
            let at = self.target.layout().chunk_at(position, chunk.entry);
            let Some(at) = at.filter(|_| index.entry(chunk.entry) == Ok(Some(chunk.range))) else {
                return Err(differs(format!("the index entry of chunk {}", chunk.entry)));
            };
            let digest = self.digest_of_written(StoredChunk { file: &file, range: chunk.range, at: &at });
            let digest = digest.map_err(|error| about(error, partial, &at))?;
            if digest == chunk.digest { Ok(()) } else { Err(differs(format!("chunk {at:?}"))) }
        };
        self.pool.install(|| written.par_iter().try_for_each(compare))
    }
}

fn gone(path: &Path) -> Error {
    Error::conflict(path, "has gone while it was copied")
}

/// Copies to the file at `path` by reading and writing: the system's own ways share blocks where they can.
pub(super) fn copy_range(from: &ShardFile, mut to: &File, path: &Path) -> Result<()> {
    let mut room = vec![0; 1 << 20];
    let mut at = 0;
    while at < from.len() {
        let piece = &mut room[..(1 << 20).min((from.len() - at) as usize)];
        from.read_exactly(at, piece)?;
        to.write_all(piece).map_err(|error| Error::io("copy to", path, error))?;
        at += piece.len() as u64;
    }
    Ok(())
}

pub(super) fn same_bytes(old: &ShardFile, new: &ShardFile) -> Result<()> {
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
