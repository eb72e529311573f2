//! Numbers in sentences.

use std::fmt::Display;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_no_several() {
        assert_eq!([0, 1, 2].map(|number| count(number, "file")), ["0 files", "1 file", "2 files"]);
        assert_eq!([1_usize, 2].map(|number| count_that(number, "file", IS)), ["1 file is", "2 files are"]);
    }
}
