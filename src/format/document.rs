//! What documents of several formats share.

use serde_json::{Map, Value};

/// A document's key and what it says.
pub(crate) type Document = (String, Value);

/// What to do about an array that is not read here.
pub(super) const INSTEAD: &str = "zarr-python can write the array again in a form that is";

/// The name and configuration of an extension: `{"name": …, "configuration": {…}}`, or the bare name.
pub(crate) fn named(value: &Value) -> Option<(&str, Option<&Map<String, Value>>)> {
    match value {
        Value::String(name) => Some((name, None)),
        Value::Object(object) => {
            let name = object.get("name")?.as_str()?;
            Some((name, object.get("configuration").and_then(Value::as_object)))
        }
        _ => None,
    }
}

/// A list of sizes in a document; `what`: what the document calls it.
pub(super) fn sizes(value: Option<&Value>, what: &str) -> Result<Vec<u64>, String> {
    let list = value.and_then(Value::as_array);
    let sizes = list.and_then(|list| list.iter().map(Value::as_u64).collect::<Option<Vec<_>>>());
    sizes.ok_or_else(|| format!("{what} is {}; expected a list of sizes", value.unwrap_or(&Value::Null)))
}

/// The shape of shards of so many chunks.
pub(super) fn shard_shape(per_shard: &[u64], chunk: &[u64], what: &str) -> Result<Vec<u64>, String> {
    if per_shard.len() != chunk.len() {
        return Err(format!("{what} is {per_shard:?} for chunks of {chunk:?}"));
    }
    let shape = per_shard.iter().zip(chunk).map(|(count, chunk)| count.checked_mul(*chunk));
    shape.collect::<Option<_>>().ok_or_else(|| "shards of more than 2^64 elements".into())
}

/// xarray's names of the dimensions, which are attributes in formats that have no names.
pub(super) fn dimension_names(attributes: &Value, dimensions: usize) -> Option<Vec<String>> {
    let names = attributes.get(DIMENSION_NAMES)?.as_array()?;
    let names: Vec<String> = names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?;
    (names.len() == dimensions).then_some(names)
}

/// The attribute of xarray that names the dimensions.
pub(crate) const DIMENSION_NAMES: &str = "_ARRAY_DIMENSIONS";
