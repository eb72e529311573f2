//! JSON as exactly as it is.
//!
//! A document that somebody else wrote goes on with all that it says. Python writes `NaN` and `Infinity`, which JSON
//! does not have, and numbers of any size; an integer may be `-0`. Such a token becomes a string, a zero character and
//! the token, and a token again when the document is written. So that no string of a document is one of these, those
//! that begin with a zero character get another one before it meanwhile.

use std::fs::File;
use std::io::{self, Read};

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};
use serde_json::Value;

/// A larger document is no metadata. (`serde_json` itself bounds the depth at 128.)
pub(crate) const DOCUMENT_BYTES_MAX: u64 = 16 << 20;

/// A zero character in a string.
const ZERO: &[u8] = br"\u0000";

/// What editors on Windows put before a text. Python's parser skips it, too.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// All that is in a file; or how long it is, if that is more than `bytes_max` bytes.
pub(crate) fn bounded(file: &File, bytes_max: u64) -> io::Result<Result<Vec<u8>, u64>> {
    let len = file.metadata()?.len();
    if len > bytes_max {
        return Ok(Err(len));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    let len = bytes.len() as u64;
    Ok(if len > bytes_max { Err(len) } else { Ok(bytes) })
}

/// What a document says, where nothing becomes another value.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    match marked(bytes) {
        Some(marked) => serde_json::from_slice(&marked),
        None => serde_json::from_slice(bytes),
    }
}

/// The text of a document that [`parse`] may have read.
pub(crate) fn render(document: &Value) -> Vec<u8> {
    unmarked(serde_json::to_vec_pretty(document).unwrap_or_default())
}

/// The same in one line.
pub(crate) fn render_line(document: &Value) -> String {
    String::from_utf8(unmarked(serde_json::to_vec(document).unwrap_or_default())).unwrap_or_default()
}

/// The text with tokens for the strings that [`marked`] has put there.
fn unmarked(text: Vec<u8>) -> Vec<u8> {
    let start = br#""\u0000"#;
    if !text.windows(start.len()).any(|part| part == start) {
        return text;
    }
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), &text[..]);
    while let Some(at) = rest.iter().position(|&byte| byte == b'"') {
        let (before, string) = rest.split_at(at);
        let (string, after) = string.split_at(string_len(string));
        out.extend_from_slice(before);
        let inner = string.get(1..string.len() - 1).and_then(|inner| inner.strip_prefix(ZERO));
        match inner {
            Some(own) if own.starts_with(ZERO) => {
                out.push(b'"');
                out.extend_from_slice(own);
                out.push(b'"');
            }
            Some(token) if is_beyond_json(token) => out.extend_from_slice(token),
            _ => out.extend_from_slice(string),
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out
}

/// The length of the string that a text begins with, with its quotes.
fn string_len(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != b'"' {
        at += 1 + usize::from(text[at] == b'\\');
    }
    (at + 1).min(text.len())
}

/// Whether a token is one that JSON, or its numbers here, do not have.
fn is_beyond_json(token: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(token) else { return false };
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_long = digits.len() > 18 && digits.bytes().all(|byte| byte.is_ascii_digit());
    matches!(text, "NaN" | "Infinity" | "-Infinity" | "-0")
        || (is_long && text.parse::<u64>().is_err() && text.parse::<i64>().is_err())
        || is_huge(text)
}

/// Whether a number of JSON is beyond those of 64 bits.
fn is_huge(text: &str) -> bool {
    let may_be = text.len() > f64::MAX_10_EXP as usize || text.contains(['e', 'E']);
    may_be
        && text.parse::<f64>().is_ok_and(f64::is_infinite)
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// A value's text, if it is one: a token is none, and no name begins with a zero character.
pub(crate) fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.starts_with('\0'))
}

/// A text of a document, for fields of which [`text`] can't be asked.
pub(crate) struct Text(pub(crate) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer)? {
            token if token.starts_with('\0') => Err(D::Error::custom("invalid type: a number, expected a string")),
            text => Ok(Self(text)),
        }
    }
}

/// The digits, and perhaps the sign, of an integer that 64 bits don't hold, of which [`parse`] has made this text.
pub(crate) fn long_integer(text: &str) -> Option<&str> {
    let token = text.strip_prefix('\0')?;
    let digits = token.strip_prefix('-').unwrap_or(token);
    (digits.len() > 1 && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(token)
}

/// The first number in a document that JSON has no word for, and where it stands, as a JSON pointer.
pub(crate) fn beyond_json(document: &Value) -> Option<(String, &str)> {
    fn inner((place, value): (String, &Value)) -> Option<(String, &str)> {
        let (rest, token) = beyond_json(value)?;
        Some((format!("/{place}{rest}"), token))
    }
    match document {
        Value::String(text) => {
            let token = text.strip_prefix('\0').filter(|token| ["NaN", "Infinity", "-Infinity"].contains(token))?;
            Some((String::new(), token))
        }
        Value::Array(values) => values.iter().enumerate().map(|(at, value)| (at.to_string(), value)).find_map(inner),
        Value::Object(values) => values.iter().map(|(key, value)| (key.clone(), value)).find_map(inner),
        _ => None,
    }
}

/// How deep the value of an attribute may be nested: around it are the levels of a document, and those of the
/// consolidated metadata that repeat it.
const ATTRIBUTE_DEPTH_MAX: usize = 64;

fn nested_too_deep() -> String {
    format!("its value is nested deeper than {ATTRIBUTE_DEPTH_MAX} levels, which readers refuse")
}

/// What is wrong with the value of an attribute that [`parse`] did not read because it is nested too deep.
#[cfg(feature = "capi")]
pub(crate) fn too_deep(error: &serde_json::Error) -> Option<String> {
    // It has no other word for that.
    error.to_string().starts_with("recursion limit exceeded").then(nested_too_deep)
}

/// What is wrong with the value of an attribute that readers shall find in a document.
pub(crate) fn fault_of_attribute(value: &Value) -> Option<String> {
    fn fault_within(value: &Value, depth: usize) -> Option<String> {
        if depth >= ATTRIBUTE_DEPTH_MAX && (value.is_array() || value.is_object()) {
            return Some(nested_too_deep());
        }
        match value {
            Value::String(text) => {
                let token = text.strip_prefix('\0').filter(|token| is_huge(token))?;
                Some(format!("{token} is beyond the floating-point numbers of 64 bits, and no reader knows it"))
            }
            Value::Array(values) => values.iter().find_map(|value| fault_within(value, depth + 1)),
            Value::Object(values) => values.values().find_map(|value| fault_within(value, depth + 1)),
            _ => None,
        }
    }
    fault_within(value, 0)
}

/// The value as [`parse`] would have read it: its strings are no tokens.
pub(crate) fn as_read(value: Value) -> Value {
    match value {
        Value::String(text) if text.starts_with('\0') => Value::String(format!("\0{text}")),
        Value::Array(values) => Value::Array(values.into_iter().map(as_read).collect()),
        Value::Object(values) => values.into_iter().map(|(key, value)| (as_key(key), as_read(value))).collect(),
        other => other,
    }
}

fn as_key(key: String) -> String {
    if key.starts_with('\0') { format!("\0{key}") } else { key }
}

/// Puts into an object what is known: a `null` is left out.
pub(crate) fn put_known<const N: usize>(said: &mut Value, more: [(&str, Value); N]) {
    for (key, value) in more {
        if !value.is_null() {
            said[key] = value;
        }
    }
}

/// The document with strings for such tokens; `None` where there are none, and no strings that begin like these.
fn marked(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out: Option<Vec<u8>> = None;
    let (mut at, mut copied) = (0, 0);
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'"' => {
                if bytes[at + 1..].starts_with(ZERO) {
                    let out = out.get_or_insert_default();
                    out.extend_from_slice(&bytes[copied..=at]);
                    out.extend_from_slice(ZERO);
                    copied = at + 1;
                }
                at += string_len(&bytes[at..]);
            }
            b'-' | b'0'..=b'9' | b'N' | b'I' => {
                let part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
                at += bytes[at..].iter().take_while(|byte| part(byte)).count();
                if is_beyond_json(&bytes[start..at]) {
                    let out = out.get_or_insert_default();
                    out.extend_from_slice(&bytes[copied..start]);
                    out.extend_from_slice(br#""\u0000"#);
                    out.extend_from_slice(&bytes[start..at]);
                    out.push(b'"');
                    copied = at;
                }
            }
            _ => at += 1,
        }
    }
    out.map(|mut out| {
        out.extend_from_slice(&bytes[copied..]);
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_comes_back_as_it_was() {
        let text = r#"{
  "zz": 1,
  "aa": 1180591620717411303425,
  "n": [
    NaN,
    -Infinity,
    Infinity,
    -36893488147419103232,
    18446744073709551615,
    -9223372036854775808,
    0.1,
    -0,
    -0.0,
    1e+300,
    1e400,
    -1.5E+999,
    "NaN",
    "a \" NaN, 99999999999999999999",
    "12345678901234567890123"
  ],
  "é": "\u0000 NaN",
  "zeros": [
    "\u0000-0",
    "\u0000NaN",
    "\u0000\u0000-0",
    "\u000012345678901234567890123",
    "a\u0000-0",
    "a\"\u0000-0",
    "\\u0000-0",
    "\u0000"
  ],
  "\u0000NaN": 1
}"#;
        let document: Value = parse(text.as_bytes()).unwrap();
        assert_eq!(document["n"][0], "\0NaN");
        assert_eq!(document["n"][4], u64::MAX);
        assert_ne!(document["zeros"][1], "\0NaN");
        assert_eq!(String::from_utf8(render(&document)).unwrap(), text);
        for broken in ["NaNa", "{\"a\": Infinit}", "1_0", "01e400", "1.e400", "\"", "-", "{\"a\\"] {
            assert!(parse::<Value>(broken.as_bytes()).is_err(), "{broken}");
        }
    }
}
