//! Which keys name nothing in the dataset.

use crate::error::{Error, Result};
use crate::format::keys::is_below;
use crate::format::node::OF_ZARR2_NODES;
use crate::words::quoted;

/// Whether a file is no part of a dataset: hidden, as what a writer works at, and no document of Zarr v2.
pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with('.') && !OF_ZARR2_NODES.contains(&name)
}

/// Refuses a key that names nothing in a dataset, or something outside of it.
pub(super) fn check(key: &str) -> Result<()> {
    let refused = |reason| Err(Error::config("key", quoted(key), reason));
    if !is_below(key) || key.split('/').any(|part| matches!(part, "" | ".")) {
        return refused("is no key: expected names with a slash between each two");
    }
    match key.split('/').any(is_hidden) {
        true => refused("names a hidden file or one in a hidden folder, which are no part of a dataset"),
        false => Ok(()),
    }
}

/// Refuses a prefix that is not the start of a key up to and including a slash.
pub(super) fn check_prefix(prefix: &str) -> Result<&str> {
    let prefix = prefix.strip_prefix('/').unwrap_or(prefix);
    if let Some(folder) = prefix.strip_suffix('/') {
        check(folder)?;
    } else if !prefix.is_empty() {
        let reason = "is no prefix of keys: expected a slash at its end";
        return Err(Error::config("key", quoted(prefix), reason));
    }
    Ok(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_don_t_leave_the_dataset() {
        for key in ["zarr.json", "0/c/1/2", ".zattrs", "data/root/foo/baz/c96/18"] {
            check(key).unwrap();
        }
        let outside = ["", "/", "/etc/passwd", "..", "0/../../x", "0//c", "0/", "./0", "0/./c", "0/\0"];
        let hidden = [".shardwright.lock", "0/c/.1.partial", ".git/config", "0/.DS_Store"];
        for (keys, why) in [(&outside[..], "expected names with a slash"), (&hidden[..], "a hidden file")] {
            for key in keys {
                let refused = check(key).unwrap_err().to_string();
                assert!(refused.contains(why), "{key:?}: {refused}");
            }
        }
        assert_eq!(check_prefix("/").unwrap(), "");
        assert_eq!(check_prefix("0/c/").unwrap(), "0/c/");
        for prefix in ["0", "../", "0//"] {
            assert!(check_prefix(prefix).is_err(), "{prefix:?}");
        }
    }
}
