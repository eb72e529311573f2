//! Numbers in sentences.

use std::fmt::Display;
#[cfg(feature = "offline")]
use std::path::Path;

/// A number with what it counts: `1 file`, `2 files`.
pub fn count<N: Display + PartialEq + From<u8>>(number: N, what: &str) -> String {
    let ending = of_number(&number, ["", "s"]);
    format!("{number} {what}{ending}")
}

/// The same with the verb behind it, of one and of many: `1 file is`, `2 files are`.
pub fn count_that<N: Display + PartialEq + From<u8>>(number: N, what: &str, verbs: [&str; 2]) -> String {
    let verb = of_number(&number, verbs);
    format!("{} {verb}", count(number, what))
}

/// The word of one, or of none and many.
pub fn of_number<'a, N: PartialEq + From<u8>>(number: &N, [one, many]: [&'a str; 2]) -> &'a str {
    if *number == N::from(1) { one } else { many }
}

pub const IS: [&str; 2] = ["is", "are"];
pub const HAS: [&str; 2] = ["has", "have"];
pub const WAS: [&str; 2] = ["was", "were"];

/// A path as a word of a command line.
#[cfg(feature = "offline")]
pub(crate) fn shell_word(path: &Path) -> String {
    let path = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./+=:@,".contains(c);
    match path.chars().all(is_plain) && !path.starts_with('-') {
        true => path.into_owned(),
        false => format!("'{}'", path.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "offline")]
    fn a_path_is_one_word_of_a_shell() {
        for (path, word) in [("a/b.zarr", "a/b.zarr"), ("my images/b", "'my images/b'"), ("it's", "'it'\\''s'")] {
            assert_eq!(shell_word(Path::new(path)), word);
        }
    }

    #[test]
    fn one_thing_is_no_several() {
        assert_eq!([0, 1, 2].map(|number| count(number, "file")), ["0 files", "1 file", "2 files"]);
        assert_eq!([1_usize, 2].map(|number| count_that(number, "file", IS)), ["1 file is", "2 files are"]);
    }
}
