//! What a check found, gathered from many threads and bounded.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::named::named;

/// How many findings are kept; more of them are counted.
const FINDINGS_MAX: usize = 1000;

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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

#[derive(Default)]
pub(super) struct Findings(Mutex<Found>);

#[derive(Default)]
struct Found {
    /// By severity.
    lists: [Vec<Finding>; 3],
    counts: [u64; 3],
}

impl Findings {
    pub(super) fn add(&self, finding: Finding) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = finding.severity as usize;
        found.counts[kind] += 1;
        if found.lists[kind].len() < FINDINGS_MAX {
            found.lists[kind].push(finding);
        }
    }

    pub(super) fn damage(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).counts[0]
    }

    /// Damage first, each kind in order, and how many there are of each.
    pub(super) fn sorted(self) -> (Vec<Finding>, [u64; 3]) {
        let Found { mut lists, counts } = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Threads find in any order.
        for list in &mut lists {
            list.sort_by(|a, b| (&a.path, a.chunk, &a.what).cmp(&(&b.path, b.chunk, &b.what)));
        }
        let mut all = lists.concat();
        all.truncate(FINDINGS_MAX);
        (all, counts)
    }
}
