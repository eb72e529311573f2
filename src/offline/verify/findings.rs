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
    /// Nothing is lost by it.
    Note,
}

named!(Severity, "severity", {
    Damage => "damage",
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
    damage: Vec<Finding>,
    notes: Vec<Finding>,
    damage_count: u64,
    note_count: u64,
}

impl Findings {
    pub(super) fn add(&self, finding: Finding) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Found { damage, notes, damage_count, note_count } = &mut *found;
        let (list, count) = match finding.severity {
            Severity::Damage => (damage, damage_count),
            Severity::Note => (notes, note_count),
        };
        *count += 1;
        if list.len() < FINDINGS_MAX {
            list.push(finding);
        }
    }

    pub(super) fn damage(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).damage_count
    }

    /// Damage first, each kind in order, and how many there are of both.
    pub(super) fn sorted(self) -> (Vec<Finding>, u64, u64) {
        let Found { mut damage, mut notes, damage_count, note_count } =
            self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Threads find in any order.
        for list in [&mut damage, &mut notes] {
            list.sort_by(|a, b| (&a.path, a.chunk, &a.what).cmp(&(&b.path, b.chunk, &b.what)));
        }
        damage.append(&mut notes);
        damage.truncate(FINDINGS_MAX);
        (damage, damage_count, note_count)
    }
}
