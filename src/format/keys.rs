//! How the position of a file, or of a chunk, in its grid becomes a key, and back.
//!
//! Sources: Zarr v3 core specification 3.0, "Chunk key encoding"; Zarr v2 specification, "Arrays"; Zarr v3, draft of
//! 2022, "Storage keys".

use std::path::{Component, Path};

/// Whether a path that a document names leads to something below, and not out of its dataset. No file's name has a zero
/// byte, with which numbers in the place of paths begin that are too large for all but a text.
pub(crate) fn is_below(path: &str) -> bool {
    !path.is_empty()
        && !path.contains('\0')
        && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

/// A node's name is that of a folder, for which file systems have 255 bytes, also with what hidden names begin and end
/// with.
pub(crate) const NAME_BYTES_MAX: usize = 200;

/// The group of an image's records. For each field it has an array of one dimension, in the format of Zarr v3 whatever
/// the image is.
pub(crate) const RECORDS: &str = "records";

pub(crate) const FRAME_NUMBERS: &str = "records/frame_number";

pub(crate) fn record_array(field: &str) -> String {
    format!("{RECORDS}/{field}")
}

pub(crate) fn record_file(array: &str, number: u64) -> String {
    format!("{array}/{}", KeyEncoding::of_writer(Prefix::Part).key(&[number]))
}

/// How a file's position in the grid becomes its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyEncoding {
    pub(crate) prefix: Prefix,
    pub(crate) separator: char,
}

/// What stands before the numbers of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// `0/0`.
    Nothing,
    /// `c/0/0`.
    Part,
    /// `c0/0`.
    Letter,
}

impl KeyEncoding {
    /// The one that this crate writes, in a format whose keys begin so.
    pub(crate) const fn of_writer(prefix: Prefix) -> Self {
        Self { prefix, separator: '/' }
    }

    /// The path of a file below its array.
    pub(crate) fn key(self, position: &[u64]) -> String {
        let numbers: Vec<_> = position.iter().map(u64::to_string).collect();
        match (self.prefix, position.is_empty()) {
            (Prefix::Part, true) => "c".to_owned(),
            (Prefix::Letter, true) => "c0".to_owned(),
            (Prefix::Nothing, true) => "0".to_owned(),
            (_, false) => self.lead().to_owned() + &numbers.join(&self.separator.to_string()),
        }
    }

    pub(crate) fn position(self, key: &str, dimensions: usize) -> Option<Vec<u64>> {
        let position: Vec<u64> = if dimensions == 0 {
            Vec::new()
        } else {
            let numbers = key.strip_prefix(self.lead())?;
            numbers.split(self.separator).map(|number| number.parse().ok()).collect::<Option<_>>()?
        };
        // Only the one spelling counts: `+1` and `01` parse as well.
        (position.len() == dimensions && self.key(&position) == key).then_some(position)
    }

    /// Whether a key looks like those of files and is none: numbers with signs, with zeros before them, or too many or
    /// too few of them.
    pub(crate) fn is_misspelt(self, key: &str, dimensions: usize) -> bool {
        let is_number = |part: &str| part.parse::<i128>().is_ok();
        let rest = key.strip_prefix(self.lead());
        rest.is_some_and(|numbers| numbers.split(self.separator).all(is_number))
            && self.position(key, dimensions).is_none()
    }

    pub(crate) fn lead(self) -> &'static str {
        match (self.prefix, self.separator) {
            (Prefix::Nothing, _) => "",
            (Prefix::Letter, _) => "c",
            (Prefix::Part, '/') => "c/",
            (Prefix::Part, _) => "c.",
        }
    }

    /// The numbers that all keys with this start share; `None` if no key starts so.
    pub(crate) fn start(self, prefix: &str, dimensions: usize) -> Option<Vec<u64>> {
        if dimensions == 0 {
            return self.key(&[]).starts_with(prefix).then(Vec::new);
        }
        let lead = self.lead();
        if lead.starts_with(prefix) {
            return Some(Vec::new());
        }
        let numbers: Vec<&str> = prefix.strip_prefix(lead)?.split(self.separator).collect();
        let (last, whole) = numbers.split_last()?;
        if numbers.len() > dimensions || !last.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let plain = |number: &&str| number.parse().ok().filter(|value: &u64| value.to_string() == **number);
        whole.iter().map(plain).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_back() {
        let cases = [
            (KeyEncoding { prefix: Prefix::Part, separator: '/' }, "c/0/12", "c"),
            (KeyEncoding { prefix: Prefix::Part, separator: '.' }, "c.0.12", "c"),
            (KeyEncoding { prefix: Prefix::Letter, separator: '/' }, "c0/12", "c0"),
            (KeyEncoding { prefix: Prefix::Letter, separator: '.' }, "c0.12", "c0"),
            (KeyEncoding { prefix: Prefix::Nothing, separator: '.' }, "0.12", "0"),
            (KeyEncoding { prefix: Prefix::Nothing, separator: '/' }, "0/12", "0"),
        ];
        for (keys, key, scalar) in cases {
            assert_eq!(keys.key(&[0, 12]), key);
            assert_eq!(keys.position(key, 2), Some(vec![0, 12]));
            assert_eq!(keys.key(&[]), scalar);
            assert_eq!(keys.position(scalar, 0), Some(vec![]));
            assert_eq!(keys.position(&format!("{key}.tmp"), 2), None);
            assert_eq!(keys.position(&key.replace("12", "012"), 2), None);
            assert_eq!(keys.position(&key.replace("12", "+1"), 2), None);
            assert_eq!(keys.position(key, 3), None);
            assert!(!keys.is_misspelt(key, 2) && !keys.is_misspelt("zarr.json", 2));
            for wrong in ["012", "+1", "-1", "12345678901234567890123"] {
                assert!(keys.is_misspelt(&key.replace("12", wrong), 2), "{key} with {wrong}");
            }
            assert!(keys.is_misspelt(key, 3));
        }
    }

    #[test]
    fn each_start_of_a_key_leads_to_it() {
        for (prefix, lead) in [(Prefix::Nothing, ""), (Prefix::Letter, "c"), (Prefix::Part, "c")] {
            for separator in ['/', '.'] {
                let spelling = KeyEncoding { prefix, separator };
                let key = spelling.key(&[0, 12]);
                assert!(key.starts_with(lead) && key.starts_with(spelling.lead()), "{key}");
                for at in 0..=key.len() {
                    let numbers = spelling.start(&key[..at], 2).expect("a start of a key");
                    assert!(numbers.is_empty() || numbers == [0], "{}", &key[..at]);
                }
                assert_eq!(spelling.start(&format!("{key}{separator}"), 3), Some(vec![0, 12]));
                assert_eq!(spelling.start(&format!("{key}{separator}"), 2), None);
                assert_eq!(spelling.start("records/", 2), None);
            }
        }
    }
}
