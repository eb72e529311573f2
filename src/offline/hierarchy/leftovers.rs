//! What a writer that was stopped left beside a dataset.

use std::fs;
use std::path::{Path, PathBuf};

/// Datasets that one at `root` was to replace: they stand beside it until it is complete.
pub(crate) fn replaced(root: &Path) -> Vec<PathBuf> {
    let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
    let (Some(folder), Some(name)) = (root.parent(), root.file_name()) else { return Vec::new() };
    let start = format!(".{}.replaced", name.to_string_lossy());
    let is_one = |path: &PathBuf| {
        let rest = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(&start));
        let is_hex = |digits: &str| digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(is_hex))
    };
    // A folder above that can't be listed is no concern of the dataset.
    let mut found: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).filter(is_one).collect();
    found.sort();
    found
}
