//! Whether a file of an array can be opened at all, and what was found in it, here or elsewhere.

use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

use super::books::Books;
use super::check::{Check, CheckedImage, reason};
use super::found::FoundShard;
use super::shard::{CheckedSums, ShardCheck};
use crate::error::Result;
use crate::fs::look;
use crate::offline::answers::Answers;
use crate::offline::array::Array;
use crate::offline::array::files::FileAt;
use crate::offline::array::shard_file::ShardFile;
use crate::offline::hierarchy::below;
use crate::offline::layers::FoundLayers;
use crate::sync::Unpoisoned;

/// The files of an array under check.
pub(super) struct FileCheck<'a> {
    pub(super) check: &'a Check<'a>,
    /// What is said of the frames, where the array is that of their numbers.
    pub(super) books: Option<&'a Books>,
    pub(super) array: &'a Array,
    /// The array's path below the root.
    pub(super) name: &'a str,
    pub(super) image: Option<&'a CheckedImage<'a>>,
    pub(super) sums: &'a CheckedSums,
    /// What others have found.
    pub(super) answers: Option<&'a Answers>,
}

impl FileCheck<'_> {
    /// Checks a file. `gathering`: where the chunks are noted that hold frames.
    pub(super) fn file(&self, at: &FileAt, gathering: Option<&Mutex<FoundLayers>>) -> Result<()> {
        self.check.counters.go_on()?;
        if self.was_checked(at, gathering)? {
            return Ok(());
        }
        let Self { check, array, sums, .. } = self;
        let (path, position) = at;
        let (layout, outside) = (array.layout(), "lies outside the array's shape");
        let is_outside = !layout.has_file(position);
        let file = match array.open_path(path.clone()) {
            Ok(Some(file)) => file.compared_as_whole(),
            Ok(None) => return Ok(()),
            // No reader looks for pixels there.
            Err(error) if is_outside && look::is_about_a_file(&error) => {
                check.note(path, format!("{outside}, and {}", reason(error)));
                return Ok(());
            }
            Err(error) => {
                if look::is_about_a_file(&error) {
                    if layout.has_index() { &sums.unread_shards } else { &sums.unchecked }.fetch_add(1, Relaxed);
                }
                return check.found_in(path, error);
            }
        };
        sums.files.fetch_add(1, Relaxed);
        if is_outside {
            check.note(path, outside);
            if layout.end_of(position).is_none() {
                check.counters.add(file.len());
                return Ok(());
            }
        }
        let shard = ShardCheck { image: self.image, gathering, ..self.shard(&file, position) };
        shard.check().or_else(|error| check.found_in(path, error))
    }

    /// A file of which no more is known.
    pub(super) fn shard<'b>(&'b self, file: &'b ShardFile, position: &'b [u64]) -> ShardCheck<'b> {
        let Self { check, books, array, sums, .. } = *self;
        ShardCheck { check, books, array, file, position, image: None, sums, gathering: None }
    }

    /// Takes what others have found in a file, if they have, and it is still what they have read.
    fn was_checked(&self, (path, position): &FileAt, gathering: Option<&Mutex<FoundLayers>>) -> Result<bool> {
        let layout = self.array.layout();
        let Some(answers) = self.answers.filter(|_| layout.has_boxes() && layout.has_file(position)) else {
            return Ok(false);
        };
        let id = below(self.name, &layout.file_key(position));
        let Some((found, bytes)) = answers.of::<FoundShard>(&id, path)? else { return Ok(false) };
        if !found.is_possible(layout, bytes) {
            return Ok(false);
        }
        self.check.counters.add(bytes);
        let mut layers = gathering.map(|layers| layers.lock().unpoisoned());
        found.add_to(&self.check.findings, self.sums, layers.as_deref_mut(), (layout, position));
        Ok(true)
    }
}
