//! The files of a folder in the order of the numbers in their names.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The names of files in a folder, numbers in them in the order of their values.
pub(super) fn names(path: &Path) -> Result<Vec<String>, Failure> {
    let wrong = |error| Failure::io("list", path, &error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(wrong)? {
        // Hidden files are nobody's frames; macOS leaves some beside every file.
        if let Ok(name) = entry.map_err(wrong)?.file_name().into_string()
            && !name.starts_with('.')
        {
            names.push(name);
        }
    }
    names.sort_by(|one, other| natural(one, other));
    Ok(names)
}

/// `frame2` before `frame10`.
fn natural(one: &str, other: &str) -> Ordering {
    parts(one).cmp(parts(other)).then_with(|| one.cmp(other))
}

/// Runs of digits by their length without zeros and by themselves, everything else by its letters.
fn parts(text: &str) -> impl Iterator<Item = (bool, usize, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_digit = rest.chars().next()?.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
        let (part, tail) = rest.split_at(end);
        rest = tail;
        let part = if is_digit { part.trim_start_matches('0') } else { part };
        Some((!is_digit, if is_digit { part.len() } else { 0 }, part))
    })
}

/// The files with this ending among these names, also where that is in capital letters.
pub(super) fn with_ending(path: &Path, names: &[String], ending: &str) -> Vec<PathBuf> {
    let has = |name: &&String| name.to_ascii_lowercase().ends_with(ending);
    names.iter().filter(has).map(|name| path.join(name)).collect()
}

/// The folder of a file.
pub(super) fn folder_of(file: &Path) -> PathBuf {
    let folder = file.with_file_name("");
    if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder }
}

/// The TIFF files of a folder in their order.
pub(super) fn tiff_files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    names(path).map(|names| tiff_files_of(path, &names))
}

pub(super) fn tiff_files_of(path: &Path, names: &[String]) -> Vec<PathBuf> {
    [".tif", ".tiff"].iter().flat_map(|ending| with_ending(path, names, ending)).collect()
}

/// Files that an error message names.
const NAMES_MAX: usize = 9;

/// The first ones of these files by their names.
pub(super) fn name_some(files: &[&PathBuf]) -> String {
    let names = files.iter().take(NAMES_MAX).filter_map(|file| file.file_name());
    let named: Vec<_> = names.map(|name| name.display().to_string()).collect();
    named.join(", ") + if files.len() > NAMES_MAX { ", …" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_by_their_value() {
        let mut names = ["f10.tif", "f2.tif", "f002b.tif", "a.tif", "f1.tif", "f.tif"];
        names.sort_by(|one, other| natural(one, other));
        assert_eq!(names, ["a.tif", "f1.tif", "f2.tif", "f002b.tif", "f10.tif", "f.tif"]);
    }
}
