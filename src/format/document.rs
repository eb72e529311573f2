//! What documents of several formats share.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::index::table::TableLayout;
use super::layout::product;
use crate::config::IndexLocation;
use crate::error::Refusal;
use crate::json::{render_line, text};
use crate::words::plain;

/// A document's key and what it says.
pub(crate) type Document = (String, Value);

/// What to do about an array that is not read here.
pub(super) const INSTEAD: &str = "zarr-python can write the array again in a form that is read";

/// The name and configuration of an extension: `{"name": …, "configuration": {…}}`, or the bare name.
pub(crate) fn named(value: &Value) -> Option<(&str, Option<&Map<String, Value>>)> {
    match value {
        Value::String(name) => Some((name, None)),
        Value::Object(object) => {
            let name = text(object.get("name")?)?;
            Some((name, object.get("configuration").and_then(Value::as_object)))
        }
        _ => None,
    }
}

/// A list of sizes in a document; `what`: what the document calls it.
pub(super) fn sizes(value: Option<&Value>, what: &str) -> Result<Vec<u64>, Refusal> {
    let list = value.unwrap_or(&Value::Null);
    Vec::<u64>::deserialize(list).map_err(|error| match unlike(&error) {
        Refusal::Unsupported(reason) => Refusal::Unsupported(format!("{what}: {reason}")),
        Refusal::Corrupt(_) => {
            let list = render_line(list);
            format!("{what} is {list}; expected a list of sizes, which are whole numbers from 0 on").into()
        }
    })
}

pub(super) fn check_attributes(attributes: Option<&Value>) -> Result<(), Refusal> {
    let Some(other) = attributes.filter(|attributes| !attributes.is_object()) else { return Ok(()) };
    Err(format!("its attributes are {}; expected an object", render_line(other)).into())
}

/// A field of a document, what it may be, and this in words.
pub(super) struct Field {
    pub(super) name: &'static str,
    /// Of one that is not there, it is asked about `null`.
    pub(super) holds: fn(&Value) -> bool,
    pub(super) expected: &'static str,
}

pub(super) fn is_there(value: &Value) -> bool {
    !value.is_null()
}

/// Refuses fields that are missing, or of another kind than readers expect.
pub(super) fn check_fields(document: &Value, fields: &[Field]) -> Result<(), Refusal> {
    let is_wrong = |field: &&Field| !(field.holds)(document.get(field.name).unwrap_or(&Value::Null));
    let Some(Field { name, expected, .. }) = fields.iter().find(is_wrong) else { return Ok(()) };
    let found = document.get(*name).map_or_else(|| "missing".to_owned(), render_line);
    Err(format!("{name} is {found}; expected {expected}").into())
}

/// Refuses fields of a document that are no lists of sizes, by their names; whether they may be missing is told
/// elsewhere.
pub(super) fn check_sizes(document: &Value, names: &[&str]) -> Result<(), Refusal> {
    let there = |name| document.get(name).map(|list| (list, name));
    names.iter().filter_map(|name| there(*name)).try_for_each(|(list, name)| sizes(Some(list), name).map(drop))
}

/// Why what a document says is not of the kind that is expected. Numbers that 64 bits don't hold, which are texts here
/// (see `json`), are told as they are written; an array of such a length may be right.
pub(super) fn unlike(error: &serde_json::Error) -> Refusal {
    let reason = plain(error);
    let Some((before, rest)) = reason.split_once("string \"\\0") else { return reason.into() };
    let Some((token, after)) = rest.split_once('"') else { return reason.into() };
    if token.bytes().all(|byte| byte.is_ascii_digit()) {
        let field = before.strip_suffix("invalid type: ").unwrap_or(before);
        return Refusal::Unsupported(format!("{field}{token} is too large; numbers below 2^64 are read"));
    }
    format!("{before}the number {token}{after}").into()
}

/// The shape of shards of this many chunks, and their table, which is behind the chunks and has no checksum.
pub(super) fn shards(per_shard: &[u64], chunk: &[u64], what: &str) -> Result<(Vec<u64>, TableLayout), Refusal> {
    if per_shard.len() != chunk.len() {
        return Err(format!("{what} is {per_shard:?} for chunks of {chunk:?}").into());
    }
    let shape = per_shard.iter().zip(chunk).map(|(count, chunk)| count.checked_mul(*chunk)).collect::<Option<_>>();
    let shape = shape.ok_or_else(|| Refusal::Unsupported("shards of more than 2^64 elements".into()))?;
    let table = product(per_shard).and_then(|chunks| TableLayout::new(chunks, IndexLocation::End, false));
    let table = table.ok_or_else(|| Refusal::Unsupported(format!("a shard of {per_shard:?} chunks holds too many")))?;
    Ok((shape, table))
}

/// The storage transformer of an array that may have one.
pub(super) fn transformer(all: &[Value]) -> Result<Option<&Value>, Refusal> {
    match all {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        _ => Refusal::unsupported(format!("{} storage transformers on one array are not read here", all.len())),
    }
}

/// xarray's names of the dimensions, which are attributes in formats that have no names.
pub(super) fn dimension_names(attributes: &Value, dimensions: usize) -> Option<Vec<String>> {
    let names = attributes.get(DIMENSION_NAMES)?.as_array()?;
    let name = |name: &Value| if name.is_null() { Some("") } else { text(name) }.map(str::to_owned);
    let names: Vec<String> = names.iter().map(name).collect::<Option<_>>()?;
    (names.len() == dimensions).then_some(names)
}

/// The attribute of xarray that names the dimensions.
pub(crate) const DIMENSION_NAMES: &str = "_ARRAY_DIMENSIONS";

/// Puts the names among the attributes of an array that has some.
pub(super) fn put_dimension_names(attributes: &mut Map<String, Value>, names: Option<&[String]>) {
    // A list of nulls would say nothing.
    let names = names.filter(|names| names.iter().any(|name| !name.is_empty()));
    attributes.extend(names.map(|names| (DIMENSION_NAMES.to_owned(), names_to_json(names))));
}

/// The names in a document: of a dimension without one, `null`.
pub(crate) fn names_to_json(names: &[String]) -> Value {
    names.iter().map(|name| if name.is_empty() { Value::Null } else { json!(name) }).collect()
}
