//! The run as a whole, before it is finished.

use std::path::Path;

use super::part::{FoundPart, PartState};
use crate::error::{Error, Result};
use crate::format::part::{PARTS_MAX, Parts};
use crate::format::provenance::Provenance;
use crate::format::zarr3;
use crate::fs::document;
use crate::offline::array::Array;

/// A run in parts.
pub(super) struct Run {
    pub(super) own: Provenance,
    pub(super) parts: Parts,
    pub(super) array: Array,
}

impl Run {
    pub(super) fn open(root: &Path) -> Result<Self> {
        let found = document::read(&root.join(zarr3::DOCUMENT))?;
        let own = found.map(|found| Provenance::parse(root, &found["attributes"])).transpose()?.flatten();
        let Some((own, parts)) = own.and_then(|own| own.parts.map(|parts| (own, parts))) else {
            let reason = "is no run in parts, which `shardwright create` makes: there is nothing to finish";
            return Err(Error::unsupported(root, reason));
        };
        if parts.of == 0 || parts.of > PARTS_MAX {
            return Err(Error::format(root, format!("names {} parts; 1 to {PARTS_MAX} are possible", parts.of)));
        }
        let place = root.join("0");
        let array = Array::open_exactly(&place)?.ok_or_else(|| Error::format(&place, "is no array"))?;
        Ok(Self { own, parts, array })
    }

    /// Refuses parts that never came or did not end.
    pub(super) fn refuse_lacking(&self, incomplete: bool, found: &[FoundPart]) -> Result<()> {
        if self.own.complete || self.own.recovered {
            return Ok(());
        }
        let of = |state: PartState| {
            let numbers = found.iter().filter(|part| part.state == state).map(|part| part.index.to_string());
            Some(numbers.collect::<Vec<_>>().join(", ")).filter(|numbers| !numbers.is_empty())
        };
        let unfinished = of(PartState::Unfinished)
            .map(|numbers| format!("parts that did not end: {numbers}, which `recover` of the run or the part mends"));
        let absent = of(PartState::Absent).map(|numbers| format!("parts that never came: {numbers}"));
        let lacking: Vec<_> = unfinished.into_iter().chain(absent).collect();
        if lacking.is_empty() || incomplete {
            return Ok(());
        }
        Err(self.refused(&format!("has {}", lacking.join("; and "))))
    }

    pub(super) fn refused(&self, reason: &str) -> Error {
        let root = self.array.path().parent().unwrap_or(self.array.path());
        Error::unfinished(root, format!("{reason}; the option `incomplete` finishes without them"))
    }
}
