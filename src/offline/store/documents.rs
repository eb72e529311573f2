//! The documents of arrays with shards as the store shows them: without the shards.

use std::path::Path;

use serde_json::Value;

use crate::config::Dialect;
use crate::error::{Error, Result};
use crate::format;
use crate::format::rules;

/// The document that `shown` becomes with the shards of `stored`.
///
/// # Errors
///
/// [`Error::Format`] when the chunks would not be what they are.
pub(super) fn stored(dialect: Dialect, path: &Path, shown: &Value, stored: &Value) -> Result<Value> {
    let free = rules(dialect).free_fields;
    let mut result = stored.clone();
    let mut kept = format::without_shards(dialect, stored);
    for key in free {
        for document in [&mut result, &mut kept] {
            match (shown.get(key), document.as_object_mut()) {
                (Some(value), Some(document)) => drop(document.insert((*key).to_owned(), value.clone())),
                (None, Some(document)) => drop(document.shift_remove(*key)),
                _ => {}
            }
        }
    }
    if kept == *shown {
        return Ok(result);
    }
    let differs = |key: &&String| shown.get(key.as_str()) != kept.get(key.as_str());
    let keys = |value: &Value| value.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>());
    let (a, b) = (keys(shown).unwrap_or_default(), keys(&kept).unwrap_or_default());
    let other: Vec<_> = a.iter().chain(&b).filter(differs).map(String::as_str).collect();
    let free = free.join(", ");
    let reason = format!("the new document differs in {}; of a sharded array only {free} may", other.join(", "));
    Err(Error::format(path, reason))
}
