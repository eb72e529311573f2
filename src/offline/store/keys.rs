//! Keys: how they spell a place in a grid of chunks, and which ones name nothing in the dataset.

use std::path::Path;

use crate::error::{Error, Result};
use crate::offline::is_below;
use crate::offline::lock::LOCK_FILE;

/// How a place in a grid is spelled below an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spelling {
    /// What stands before the first number.
    pub(super) lead: &'static str,
    pub(super) separator: char,
    /// The key in an array without dimensions.
    pub(super) scalar: &'static str,
}

impl Spelling {
    /// `c/96/18` or `c.96.18`: Zarr v3, key encoding `default`.
    pub(super) fn zarr3(separator: char) -> Self {
        Self { lead: if separator == '/' { "c/" } else { "c." }, separator, scalar: "c" }
    }

    /// `96/18` or `96.18`: Zarr v2, and Zarr v3's key encoding `v2`.
    pub(super) fn zarr2(separator: char) -> Self {
        Self { lead: "", separator, scalar: "0" }
    }

    /// `c96/18` or `c96.18`: the draft of Zarr v3 of 2022.
    pub(super) fn draft(separator: char) -> Self {
        Self { lead: "c", separator, scalar: "c" }
    }

    pub(super) fn key(self, position: &[u64]) -> String {
        if position.is_empty() {
            return self.scalar.to_owned();
        }
        let numbers: Vec<_> = position.iter().map(u64::to_string).collect();
        format!("{}{}", self.lead, numbers.join(&self.separator.to_string()))
    }

    /// The place that has this key, if it is one of a grid of so many dimensions.
    pub(super) fn position(self, key: &str, dimensions: usize) -> Option<Vec<u64>> {
        let position = if dimensions == 0 {
            Vec::new()
        } else {
            let numbers = key.strip_prefix(self.lead)?.split(self.separator);
            numbers.map(|number| number.parse().ok()).collect::<Option<Vec<_>>>()?
        };
        // Only the one spelling counts: `+1` and `01` parse as well.
        (position.len() == dimensions && self.key(&position) == key).then_some(position)
    }

    /// The numbers that keys with this start share; `None` if no key starts so.
    pub(super) fn start(self, prefix: &str, dimensions: usize) -> Option<Vec<u64>> {
        if dimensions == 0 {
            return self.scalar.starts_with(prefix).then(Vec::new);
        }
        if self.lead.starts_with(prefix) {
            return Some(Vec::new());
        }
        let numbers: Vec<&str> = prefix.strip_prefix(self.lead)?.split(self.separator).collect();
        let (last, whole) = numbers.split_last()?;
        let digits = last.bytes().all(|byte| byte.is_ascii_digit());
        if numbers.len() > dimensions || !digits {
            return None;
        }
        let is_plain = |number: &&&str| number.parse::<u64>().is_ok_and(|value| value.to_string() == **number);
        (whole.iter().filter(is_plain).count() == whole.len())
            .then(|| whole.iter().filter_map(|number| number.parse().ok()).collect())
    }
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
    fn keys_and_back() {
        let cases = [
            (Spelling::zarr3('/'), "c/0/12", "c"),
            (Spelling::zarr3('.'), "c.0.12", "c"),
            (Spelling::zarr2('.'), "0.12", "0"),
            (Spelling::zarr2('/'), "0/12", "0"),
            (Spelling::draft('/'), "c0/12", "c"),
            (Spelling::draft('.'), "c0.12", "c"),
        ];
        for (spelling, key, scalar) in cases {
            assert_eq!(spelling.key(&[0, 12]), key);
            assert_eq!(spelling.position(key, 2), Some(vec![0, 12]));
            assert_eq!((spelling.key(&[]).as_str(), spelling.position(scalar, 0)), (scalar, Some(vec![])));
            for wrong in [format!("{key}.tmp"), key.replace("12", "012"), key.replace("12", "+1"), format!("{key}/1")] {
                assert_eq!(spelling.position(&wrong, 2), None, "{wrong}");
            }
            for at in 0..=key.len() {
                let numbers = spelling.start(&key[..at], 2).expect("a start of a key");
                assert!(numbers.is_empty() || numbers == [0], "{}", &key[..at]);
            }
            assert_eq!(spelling.start(&format!("{key}{}", spelling.separator), 3), Some(vec![0, 12]));
            assert_eq!(spelling.start("records/", 2), None);
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
