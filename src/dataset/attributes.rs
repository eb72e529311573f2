//! The user's attributes of an image.

use serde_json::{Map, Value};

use crate::config::Dialect;
use crate::error::{Error, Result};
use crate::format::provenance::ATTRIBUTE;
use crate::format::{DIMENSION_NAMES, rules};
use crate::json as exact;
use crate::words::quoted;

#[derive(Default)]
pub(super) struct UserAttributes {
    pub(super) values: Map<String, Value>,
    changed: bool,
}

impl UserAttributes {
    /// Sets one, as it is read from a document.
    pub(super) fn set(&mut self, key: &str, value: Value, dialect: Dialect) -> Result<()> {
        let names = key == DIMENSION_NAMES && rules(dialect).names_in_attributes;
        let fault = match key {
            "" => Some("an attribute has a name".into()),
            _ if names || key == "ome" || key == ATTRIBUTE => {
                Some("the writer sets this attribute itself; choose another name".into())
            }
            _ => exact::fault_of_attribute(&value),
        };
        if let Some(reason) = fault {
            return Err(Error::config("attribute", quoted(key), reason));
        }
        self.values.insert(key.to_owned(), value);
        self.changed = true;
        Ok(())
    }

    /// They as they are now, and whether they changed since they were taken last.
    pub(super) fn take(&mut self) -> (Map<String, Value>, bool) {
        (self.values.clone(), std::mem::take(&mut self.changed))
    }
}
