//! What all parts of a check share: what is checked, how far it is, and what was found.

use std::path::Path;

use super::findings::{Finding, Findings, Severity};
use crate::error::{Error, Result};
use crate::format::acquisition_map::AcquisitionMap;
use crate::format::provenance::Provenance;
use crate::offline::hierarchy::walk::Tree;
use crate::offline::progress::Counters;

/// An image that this crate wrote.
pub(super) struct Image<'a> {
    pub(super) group: &'a str,
    pub(super) own: Provenance,
    /// `None` where the array does not fit what the writer says.
    pub(super) places: Option<AcquisitionMap>,
}

pub(super) struct Check<'a> {
    pub(super) root: &'a Path,
    pub(super) tree: &'a Tree,
    pub(super) findings: Findings,
    pub(super) counters: &'a Counters,
}

impl Check<'_> {
    pub(super) fn find(&self, severity: Severity, path: &Path, chunk: Option<u64>, what: impl Into<String>) {
        let path = path.strip_prefix(self.root).unwrap_or(path).to_string_lossy().into_owned();
        let path = if path.is_empty() { ".".to_owned() } else { path };
        self.findings.add(Finding { severity, path, chunk, what: what.into() });
    }

    pub(super) fn damage(&self, path: &Path, what: impl Into<String>) {
        self.find(Severity::Damage, path, None, what);
    }

    pub(super) fn note(&self, path: &Path, what: impl Into<String>) {
        self.find(Severity::Note, path, None, what);
    }

    /// An error about what a file holds is a finding; one of the system means that the check can't go on.
    pub(super) fn found_in(&self, path: &Path, error: Error) -> Result<()> {
        match error {
            Error::Format { path, reason } => self.damage(&path, reason),
            Error::Unsupported { path, reason } => self.find(Severity::Unchecked, &path, None, reason),
            error @ (Error::Io { .. } | Error::Locked { .. } | Error::Stopped) => return Err(error),
            other => self.damage(path, other.to_string()),
        }
        Ok(())
    }
}

pub(super) fn reason(error: Error) -> String {
    match error {
        Error::Format { reason, .. } | Error::Unsupported { reason, .. } => reason,
        other => other.to_string(),
    }
}
