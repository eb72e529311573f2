//! What is asked for of TIFF files: a file, or all that is in a folder, and which of several images.

use std::path::{Path, PathBuf};

use shardwright::words;

use super::super::listing::name_some;
use super::super::why::refused;
use crate::args::Series;
use crate::failure::Failure;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// Which of several images.
    pub(crate) series: Option<Series>,
    /// The TIFF files of the folder that was named; empty: a file was.
    pub(crate) folder: &'a [PathBuf],
}

impl Asked<'_> {
    pub(crate) fn is_folder(self) -> bool {
        !self.folder.is_empty()
    }

    /// Refuses a folder in which there are files that a recording does not use: nobody knows which ones are meant.
    /// `first`: a file of the recording.
    pub(super) fn refuse_others(self, first: &Path, is_used: impl Fn(&Path) -> bool) -> Result<(), Failure> {
        let others: Vec<_> = self.folder.iter().filter(|file| !is_used(file)).collect();
        if others.is_empty() {
            return Ok(());
        }
        let (folder, name) = (first.parent().unwrap_or(first), first.file_name().unwrap_or_default().display());
        let why = format!(
            "{} holds the recording of {name}, and TIFF files that are none of it: {}; replay one of the files, which \
             leads to all of its recording, or move away what does not belong to it",
            folder.display(),
            name_some(&others)
        );
        Err(refused(folder, why))
    }
}

/// Images that a list names.
const LISTED_MAX: usize = 100;

/// A line for each image.
pub(super) fn list(images: impl Iterator<Item = String>) -> String {
    let mut lines = String::new();
    for (number, image) in images.enumerate() {
        if number == LISTED_MAX {
            return lines + "\n  …";
        }
        lines += &format!("\n  {number}: {image}");
    }
    lines
}

/// The image that is asked for of `count`, which `images` lists; `None`: nobody has said which.
pub(super) fn choose(
    series: Option<Series>,
    count: usize,
    path: &Path,
    images: impl Fn() -> String,
) -> Result<Option<usize>, Failure> {
    match series {
        Some(Series::All(at)) => Ok(Some(at.min(count - 1))),
        Some(Series::Number(number)) if number < count as u64 => Ok(Some(number as usize)),
        Some(Series::Number(number)) => {
            let why =
                format!("--series {number}: {} has {}:{}", path.display(), words::count(count, "image"), images());
            Err(Failure::Usage(why))
        }
        None => Ok(None),
    }
}

/// Says which images there are to choose from.
pub(super) fn refuse_several(count: usize, path: &Path, images: impl Fn() -> String) -> Failure {
    let (path, images) = (path.display(), images());
    Failure::Usage(format!("{path} holds {count} images; choose one with --series N, or --series all:{images}"))
}
