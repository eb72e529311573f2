//! Whether there is room for what a repacking makes, before it begins; and what is said when there is none after all.

use std::fs::File;
use std::io;
use std::path::Path;

use super::change::{Change, Work};
use super::jobs::ArrayJob;
use crate::archive_file::is_archive_name;
use crate::config::Compressor;
use crate::error::{Error, Result};
use crate::fs::look::{self, DEPTH_MAX, OpenFile};
use crate::fs::system;

/// Beside its bytes, a file takes part of a block that nothing else can have.
const BLOCK_BYTES: u64 = 4096;

/// What is to be made, and where.
pub(super) struct SpaceNeeds<'a> {
    pub(super) jobs: &'a [ArrayJob],
    pub(super) todo: &'a [(usize, Vec<u64>)],
    /// Shards in the making at once.
    pub(super) lanes: u64,
    /// The dataset that is copied as a whole, where it is.
    pub(super) copied: Option<&'a Path>,
    /// The result.
    pub(super) result: &'a Path,
}

impl SpaceNeeds<'_> {
    /// Fails as on a full disk when the estimate says that there is no room for what is still to be made.
    pub(super) fn check(&self) -> Result<()> {
        let place = self.result.ancestors().skip(1).find(|above| above.is_dir()).unwrap_or(self.result);
        let free = File::open(place).and_then(|folder| system::free_bytes(&folder));
        let Some(free) = free.map_err(|error| Error::io("look at", place, error))? else { return Ok(()) };
        let needed = self.bytes()?;
        if needed <= free {
            return Ok(());
        }
        let reason = format!(
            "there is no room: about {needed} bytes are needed and {free} are free on its file system; free some, \
             write elsewhere, or, if the file system shares blocks or chunks become smaller than they are now, pass \
             over the estimate with the option `space`"
        );
        Err(Error::io("write", self.result, io::Error::new(io::ErrorKind::StorageFull, reason)))
    }

    /// See [`SpaceCheck::Estimated`](super::SpaceCheck::Estimated).
    fn bytes(&self) -> Result<u64> {
        let mut needed: u64 = 0;
        let mut rebuilt: u64 = 0;
        for (number, job) in self.jobs.iter().enumerate() {
            let stored = StoredFiles::of(&job.change)?;
            rebuilt = rebuilt.saturating_add(stored.len);
            let bytes = if job.in_place {
                stored.largest.saturating_mul(self.lanes)
            } else {
                self.of_new(number, &job.change, stored.bytes)
            };
            needed = needed.saturating_add(bytes);
        }
        if let Some(root) = self.copied {
            needed = needed.saturating_add(length_below(root, 0)?.saturating_sub(rebuilt));
        }
        // An archive is made of a whole folder, which goes when it is there.
        Ok(if is_archive_name(self.result) { needed.saturating_mul(2) } else { needed })
    }

    /// Of the new files of a job that are not there yet. `stored`: bytes of the old ones.
    fn of_new(&self, number: usize, change: &Change, stored: u64) -> u64 {
        let (mut all, mut to_do, mut files) = (0_u64, 0_u64, 0_u64);
        for (_, position) in self.todo.iter().filter(|(job, _)| *job == number) {
            let pixels = change.pixel_bytes(position);
            all = all.saturating_add(pixels);
            if !change.target.file_path(position).exists() {
                (to_do, files) = (to_do.saturating_add(pixels), files + 1);
            }
        }
        let share = (u128::from(stored) * u128::from(to_do) / u128::from(all.max(1))) as u64;
        let bytes = if change.unpacks() { to_do } else { share };
        bytes.saturating_add(files.saturating_mul(BLOCK_BYTES))
    }
}

/// Says how to go on after an error. `place`: where what is finished stays, if that is not the dataset itself.
pub(crate) fn how_to_go_on(error: Error, place: Option<&Path>) -> Error {
    let is_full = matches!(&error, Error::Io { source, .. } if system::is_no_room(source));
    match place.filter(|place| place.exists()).map(Path::display) {
        place if is_full => {
            let place = place.map_or_else(String::new, |place| format!(" in {place}"));
            error.with(&format!(
                "; what is finished stays{place}: free some room and make the same call again, which goes on from there"
            ))
        }
        Some(place) => {
            let gone = match error {
                Error::Format { .. } => {
                    "when the damage is mended, or given up (recover gives up damaged chunks of what this library \
                     wrote)"
                }
                _ => "when the cause is gone",
            };
            error.with(&format!(
                "; what is finished stays in {place}: {gone}, make the same call again, which goes on from there, or \
                 remove that folder"
            ))
        }
        None => error,
    }
}

impl Change {
    /// Chunks that are compressed become such that aren't.
    fn unpacks(&self) -> bool {
        let plain = |compressor: Compressor| compressor == Compressor::None;
        self.work != Work::Copy && plain(self.target.codec().compressor) && !plain(self.source.codec().compressor)
    }
}

/// What the files of an array take.
#[derive(Debug, Default)]
struct StoredFiles {
    /// Bytes on the disk, none of them beyond a file's end.
    bytes: u64,
    len: u64,
    largest: u64,
}

impl StoredFiles {
    fn of(change: &Change) -> Result<Self> {
        let mut stored = Self::default();
        if let Some(manifest) = change.source.manifest() {
            let parts = manifest.ranges_by_path();
            let bytes = parts.values().flatten().filter_map(|part| part.nbytes).fold(0, u64::saturating_add);
            return Ok(Self { bytes, ..stored });
        }
        for (path, _) in change.source.files()? {
            let Some(OpenFile { len, disk_bytes, .. }) = look::open(&path)? else { continue };
            let bytes = len.min(disk_bytes);
            stored.bytes = stored.bytes.saturating_add(bytes);
            stored.len = stored.len.saturating_add(len);
            stored.largest = stored.largest.max(bytes);
        }
        Ok(stored)
    }
}

/// Bytes of all files below a folder; behind links there is nothing to be copied.
fn length_below(folder: &Path, depth: usize) -> Result<u64> {
    let mut bytes: u64 = 0;
    for path in if depth > DEPTH_MAX { Vec::new() } else { look::list(folder)? } {
        let is_folder = !path.is_symlink() && look::is_folder(&path);
        let more = if is_folder { length_below(&path, depth + 1)? } else { look::file_bytes(&path).unwrap_or(0) };
        bytes = bytes.saturating_add(more);
    }
    Ok(bytes)
}
