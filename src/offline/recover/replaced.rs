//! Datasets that one whose writer was stopped was to replace: they stand beside it.

use std::path::Path;

use crate::words::shell_word;

/// What to say of the dataset `old` beside the one at `root`. Are they known to have no frame?
pub(super) fn words(root: &Path, old: &Path, is_empty: bool, is_old_empty: bool) -> String {
    let by = "that was to be replaced by this one, by a writer that was stopped";
    match (is_empty, is_old_empty) {
        (false, _) => return format!("is a dataset {by}; remove it when you have looked at this one"),
        (true, true) => return format!("is a dataset {by}; neither holds a frame, so remove both"),
        (true, false) => {}
    }
    let name = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let mut aside = name.clone().into_os_string();
    aside.push(".empty");
    let [name, aside, old] = [&name, Path::new(&aside), old].map(shell_word);
    format!(
        "is the dataset {by}; it is whole, and this one holds no frame: mv {name} {aside} && mv {old} {name} brings it \
         back"
    )
}
