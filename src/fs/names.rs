//! The names that this crate gives to what is no part of a dataset.

/// Whether a name is one under which files are made before they appear.
pub(crate) fn is_partial(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".partial")
}

/// Whether a name is one that this crate gives to what it works at, or has replaced: never a node of a dataset.
pub(crate) fn is_work(name: &str) -> bool {
    let ending = name.strip_prefix('.').and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
    ending.is_some_and(|ending| {
        matches!(ending, "partial" | "repack" | "pyramid" | "replaced") || ending.starts_with("replaced-")
    })
}
