//! Numbers and quotations in sentences, and what others say, in words of their users.

use std::fmt::Display;
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

/// A text in quotes and in one line. What could not be seen is written as C, Python and JSON write it, too.
pub fn quoted(text: impl AsRef<str>) -> String {
    let mut quoted = String::from('"');
    for character in text.as_ref().chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted += "\\n",
            '\r' => quoted += "\\r",
            '\t' => quoted += "\\t",
            // Only what is written as it is has no escape of several characters.
            _ if character == '\'' || character.escape_debug().len() == 1 => quoted.push(character),
            '\0'..='\u{ffff}' => quoted += &format!("\\u{:04x}", u32::from(character)),
            _ => quoted += &format!("\\U{:08x}", u32::from(character)),
        }
    }
    quoted + "\""
}

/// Such texts, one after the other.
pub(crate) fn quoted_list(texts: impl IntoIterator<Item: AsRef<str>>) -> String {
    texts.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
}

/// A node of a tree by its name, in quotes: that of the root is empty.
pub(crate) fn node(name: &str) -> String {
    if name.is_empty() { "the root".to_owned() } else { quoted(name) }
}

/// What the system says, without the number that Rust puts behind it.
pub fn of_system(said: impl Display) -> String {
    const NUMBER: &str = " (os error ";
    let mut text = said.to_string();
    while let Some(at) = text.find(NUMBER) {
        let Some(len) = text[at..].find(')') else { break };
        text.replace_range(at..=at + len, "");
    }
    text
}

/// What a reader of documents says is wrong with one, in words of the documents rather than of Rust.
pub(crate) fn plain(said: impl Display) -> String {
    let mut text = WORDS.iter().fold(said.to_string(), |text, (from, to)| text.replace(from, to));
    // Their names are nobody's but Rust's.
    for (kind, meant) in [("expected struct ", "expected an object"), ("expected enum ", "expected one of its values")]
    {
        while let Some(at) = text.find(kind) {
            let name = &text[at + kind.len()..];
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
            text.replace_range(at..at + kind.len() + end, meant);
        }
    }
    text
}

/// A reader's words, and those that are meant: what comes first is replaced first.
const WORDS: [(&str, &str); 34] = [
    ("EOF while parsing a value", "the text ends where a value is due"),
    ("EOF while parsing an", "the text ends within an"),
    ("EOF while parsing a", "the text ends within a"),
    ("expected value", "expected a value"),
    ("expected ident", "expected true, false or null"),
    ("lone leading surrogate in hex escape", "half of a surrogate pair"),
    ("unexpected end of hex escape", "half of a surrogate pair"),
    ("recursion limit exceeded", "it is nested too deep"),
    ("unknown variant", "unknown value"),
    ("invalid type: sequence", "invalid type: list"),
    ("invalid type: map", "invalid type: object"),
    ("a sequence", "a list"),
    ("a map", "an object"),
    ("an array of length", "a list of length"),
    ("a tuple of size", "a list of length"),
    ("expected a boolean", "expected true or false"),
    ("expected option", "expected a value or null"),
    ("internally tagged enum", "struct"),
    ("adjacently tagged enum", "struct"),
    ("variant of enum", "enum"),
    ("variant identifier", "one of its values"),
    ("field identifier", "the name of a field"),
    ("expected usize", "expected a whole number from 0 on"),
    ("expected u64", "expected a whole number from 0 on"),
    ("expected u32", "expected a whole number from 0 to 4294967295"),
    ("expected u16", "expected a whole number from 0 to 65535"),
    ("expected u8", "expected a whole number from 0 to 255"),
    ("expected isize", "expected a whole number"),
    ("expected i64", "expected a whole number"),
    ("expected i32", "expected a whole number from -2147483648 to 2147483647"),
    ("expected i16", "expected a whole number from -32768 to 32767"),
    ("expected i8", "expected a whole number from -128 to 127"),
    ("expected f64", "expected a number"),
    ("expected f32", "expected a number"),
];

/// The part of the library whose module a log line comes from.
pub fn log_source(module: &str) -> &str {
    let within = module.match_indices("::").nth(1);
    within.map_or(module, |(end, _)| &module[..end])
}

/// A path as a word of a command line.
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
    fn a_path_is_one_word_of_a_shell() {
        for (path, word) in [("a/b.zarr", "a/b.zarr"), ("my images/b", "'my images/b'"), ("it's", "'it'\\''s'")] {
            assert_eq!(shell_word(Path::new(path)), word);
        }
    }

    #[test]
    fn what_is_quoted_can_be_seen_and_read_by_users_of_other_languages() {
        let cases = [
            ("it's µm", r#""it's µm""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\0\u{1}\u{200b}\t\r\n", r#""\u0000\u0001\u200b\t\r\n""#),
            ("🙂\u{e0001}", r#""🙂\U000e0001""#),
        ];
        for (text, expected) in cases {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn what_the_system_says_has_no_number() {
        let full = std::io::Error::from_raw_os_error(libc::ENOSPC);
        assert_eq!(of_system(&full), "No space left on device");
        assert_eq!(of_system(format_args!("{full}; (os error ")), "No space left on device; (os error ");
    }

    #[test]
    fn a_log_line_comes_from_a_part_of_the_library() {
        assert_eq!(log_source("shardwright::engine::counters"), "shardwright::engine");
        assert_eq!(log_source("shardwright::engine"), "shardwright::engine");
        assert_eq!(log_source("mine"), "mine");
    }

    #[test]
    fn one_thing_is_no_several() {
        assert_eq!([0, 1, 2].map(|number| count(number, "file")), ["0 files", "1 file", "2 files"]);
        assert_eq!([1_usize, 2].map(|number| count_that(number, "file", IS)), ["1 file is", "2 files are"]);
    }
}
