//! What all parts of a check share: what is checked, how far it is, and what was found.

use std::fmt;
use std::path::Path;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::format::acquisition_map::AcquisitionMap;
use crate::format::provenance::Provenance;
use crate::fs::look;
use crate::named::named;
use crate::offline::hierarchy::walk::Tree;
use crate::offline::progress::ProgressCounters;
use crate::sync::Unpoisoned;

/// An image that this crate wrote.
#[derive(Debug)]
pub(super) struct CheckedImage<'a> {
    /// `None`: the array is looked at alone, without what its writer made beside it.
    pub(super) group: Option<&'a str>,
    pub(super) own: Provenance,
    /// `None` where the array does not fit what the writer says.
    pub(super) map: Option<AcquisitionMap>,
}

pub(super) struct Check<'a> {
    pub(super) root: &'a Path,
    pub(super) tree: &'a Tree,
    pub(super) findings: Findings,
    pub(super) counters: &'a ProgressCounters,
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

    /// An error about one file is a finding; any other of the system means that the check can't go on.
    pub(super) fn found_in(&self, path: &Path, error: Error) -> Result<()> {
        match error {
            Error::Format { path, reason } => self.damage(&path, reason),
            Error::Unsupported { path, reason } => self.find(Severity::Unchecked, &path, None, reason),
            error @ (Error::Io { .. } | Error::Locked { .. } | Error::Stopped) if !look::is_about_a_file(&error) => {
                return Err(error);
            }
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

/// How many findings are kept; more of them are counted.
const FINDINGS_MAX: usize = 1000;

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file or folder, below the root.
    pub path: String,
    /// Which chunk of the file.
    pub chunk: Option<u64>,
    /// What is wrong, and what would be right.
    pub what: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// Readers get wrong pixels, an error, or less than was written.
    Damage,
    /// It is of a kind that is not read here: nothing is known of it.
    Unchecked,
    /// Nothing is lost by it.
    Note,
}

named!(Severity, "severity", {
    Damage => "damage",
    Unchecked => "unchecked",
    Note => "note",
});

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.chunk {
            Some(chunk) => write!(f, "{}, chunk {chunk}: {}", self.path, self.what),
            None => write!(f, "{}: {}", self.path, self.what),
        }
    }
}

/// By severity: those that are kept, and how many there are.
#[derive(Default)]
pub(super) struct Findings(Mutex<[(Vec<Finding>, u64); SEVERITIES]>);

pub(super) const SEVERITIES: usize = Severity::ALL.len();

impl Findings {
    pub(super) fn add(&self, finding: Finding) {
        let mut found = self.0.lock().unpoisoned();
        let (kept, count) = &mut found[finding.severity as usize];
        *count += 1;
        if kept.len() < FINDINGS_MAX {
            kept.push(finding);
        }
    }

    /// Adds what was found elsewhere, of which some were kept: this many, by severity.
    pub(super) fn add_all(&self, kept: Vec<Finding>, counts: [u64; SEVERITIES]) {
        let mut found = self.0.lock().unpoisoned();
        found.iter_mut().zip(counts).for_each(|((_, count), more)| *count += more);
        for finding in kept {
            let (kept, _) = &mut found[finding.severity as usize];
            if kept.len() < FINDINGS_MAX {
                kept.push(finding);
            }
        }
    }

    pub(super) fn damage(&self) -> u64 {
        self.0.lock().unpoisoned()[0].1
    }

    /// Damage first, each kind in order, and how many there are of each.
    pub(super) fn sorted(self) -> (Vec<Finding>, [u64; SEVERITIES]) {
        let mut found = self.0.into_inner().unpoisoned();
        let counts = found.each_ref().map(|(_, count)| *count);
        // Threads find in any order.
        for (kept, _) in &mut found {
            kept.sort_by(|a, b| (&a.path, a.chunk, &a.what).cmp(&(&b.path, b.chunk, &b.what)));
        }
        let all = found.into_iter().flat_map(|(kept, _)| kept).take(FINDINGS_MAX).collect();
        (all, counts)
    }
}
