//! Keys: how they spell a place in a grid of chunks, and which ones name nothing in the dataset.

use std::path::Path;

use crate::error::{Error, Result};
use crate::fs::LOCK_FILE;
use crate::offline::is_below;
use crate::offline::metadata::{KeyEncoding, Prefix};

/// What stands before the first number of a key.
pub(super) fn lead(spelling: KeyEncoding) -> &'static str {
    match (spelling.prefix, spelling.separator) {
        (Prefix::Nothing, _) => "",
        (Prefix::Letter, _) => "c",
        (Prefix::Part, '/') => "c/",
        (Prefix::Part, _) => "c.",
    }
}

/// The numbers that all keys with this start share; `None` if no key starts so.
pub(super) fn start(spelling: KeyEncoding, prefix: &str, dimensions: usize) -> Option<Vec<u64>> {
    if dimensions == 0 {
        return spelling.key(&[]).starts_with(prefix).then(Vec::new);
    }
    let lead = lead(spelling);
    if lead.starts_with(prefix) {
        return Some(Vec::new());
    }
    let numbers: Vec<&str> = prefix.strip_prefix(lead)?.split(spelling.separator).collect();
    let (last, whole) = numbers.split_last()?;
    if numbers.len() > dimensions || !last.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let plain = |number: &&str| number.parse().ok().filter(|value: &u64| value.to_string() == **number);
    whole.iter().map(plain).collect()
}

/// Whether a file is the store's or a writer's own business and no part of the dataset.
pub(super) fn is_hidden(name: &str) -> bool {
    name == LOCK_FILE || (name.starts_with('.') && name.ends_with(".partial"))
}

/// Refuses a key that names nothing in a dataset, or something outside of it.
pub(super) fn check(root: &Path, key: &str) -> Result<()> {
    let plain = is_below(key) && key.split('/').all(|part| !matches!(part, "" | ".")) && !key.contains('\0');
    if plain && !key.split('/').any(is_hidden) {
        return Ok(());
    }
    Err(Error::format(root, format!("{key:?} is no key: expected names with a slash between each two")))
}

/// Refuses a prefix that is not the start of a key up to and including a slash.
pub(super) fn check_prefix<'a>(root: &Path, prefix: &'a str) -> Result<&'a str> {
    let prefix = prefix.strip_prefix('/').unwrap_or(prefix);
    if let Some(folder) = prefix.strip_suffix('/') {
        check(root, folder)?;
    } else if !prefix.is_empty() {
        return Err(Error::format(root, format!("{prefix:?} is no prefix of keys: expected a slash at its end")));
    }
    Ok(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_of_a_key_leads_to_it() {
        for (prefix, lead) in [(Prefix::Nothing, ""), (Prefix::Letter, "c"), (Prefix::Part, "c")] {
            for separator in ['/', '.'] {
                let spelling = KeyEncoding { prefix, separator };
                let key = spelling.key(&[0, 12]);
                assert!(key.starts_with(lead) && key.starts_with(super::lead(spelling)), "{key}");
                for at in 0..=key.len() {
                    let numbers = start(spelling, &key[..at], 2).expect("a start of a key");
                    assert!(numbers.is_empty() || numbers == [0], "{}", &key[..at]);
                }
                assert_eq!(start(spelling, &format!("{key}{separator}"), 3), Some(vec![0, 12]));
                assert_eq!(start(spelling, &format!("{key}{separator}"), 2), None);
                assert_eq!(start(spelling, "records/", 2), None);
            }
        }
    }

    #[test]
    fn keys_don_t_leave_the_dataset() {
        let root = Path::new("/data/run.zarr");
        for key in ["zarr.json", "0/c/1/2", ".zattrs", "data/root/foo/baz/c96/18"] {
            check(root, key).unwrap();
        }
        for key in
            ["", "/", "/etc/passwd", "..", "0/../../x", "0//c", "0/", "./0", "0/./c", ".shardwright.lock", "0/\0"]
        {
            assert!(check(root, key).is_err(), "{key:?}");
        }
        assert!(check(root, "0/c/.1.partial").is_err());
        assert_eq!(check_prefix(root, "/").unwrap(), "");
        assert_eq!(check_prefix(root, "0/c/").unwrap(), "0/c/");
        for prefix in ["0", "../", "0//"] {
            assert!(check_prefix(root, prefix).is_err(), "{prefix:?}");
        }
    }
}
