//! What was found in one shard, in words that another process takes for its own.

use serde::{Deserialize, Serialize};

use super::check::{Finding, Findings, SEVERITIES};
use super::shard::{CheckedSums, SUMS};
use crate::format::layout::Layout;
use crate::offline::layers::{FoundLayers, LayerRun};

/// No shard has more of anything.
const NUMBER_MAX: u64 = 1 << 40;
/// An entry of a shard's index takes as many bytes of it.
const ENTRY_BYTES: u64 = 16;

#[derive(Debug, Serialize, Deserialize)]
pub(in crate::offline) struct FoundShard {
    /// See [`CheckedSums::numbers`].
    sums: [u64; SUMS],
    /// Those that were kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    findings: Vec<Finding>,
    /// How many there were, by severity.
    #[serde(default, skip_serializing_if = "is_nothing")]
    counts: [u64; SEVERITIES],
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    layers: Vec<LayerRun>,
}

fn is_nothing(counts: &[u64; SEVERITIES]) -> bool {
    *counts == [0; SEVERITIES]
}

/// The box of a shard's chunks, inside the array's shape or not.
fn box_of(layout: &Layout, position: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let counts = layout.chunks_per_file();
    (position.iter().zip(&counts).map(|(at, count)| at.saturating_mul(*count)).collect(), counts)
}

impl FoundShard {
    pub(super) fn of(
        findings: Findings,
        sums: &CheckedSums,
        layers: &FoundLayers,
        layout: &Layout,
        position: &[u64],
    ) -> Self {
        let (first, chunks) = box_of(layout, position);
        let (findings, counts) = findings.sorted();
        Self { sums: sums.numbers(), findings, counts, layers: layers.runs(&first, &chunks) }
    }

    /// Chunks that are there.
    pub(in crate::offline) fn chunks(&self) -> u64 {
        CheckedSums::chunks_of(&self.sums)
    }

    /// Whether a shard of this many bytes can have it. What says otherwise was not written by who checked one.
    pub(super) fn is_possible(&self, layout: &Layout, bytes: u64) -> bool {
        let numbers = self.sums.iter().chain(&self.counts);
        numbers.copied().all(|number| number <= NUMBER_MAX)
            && FoundLayers::can_have(&self.layers, &layout.chunks_per_file(), bytes / ENTRY_BYTES)
    }

    /// Adds it to what was found in others.
    pub(super) fn add_to(
        self,
        findings: &Findings,
        sums: &CheckedSums,
        layers: Option<&mut FoundLayers>,
        (layout, position): (&Layout, &[u64]),
    ) {
        findings.add_all(self.findings, self.counts);
        sums.add(&self.sums);
        if let Some(layers) = layers {
            let (first, chunks) = box_of(layout, position);
            layers.add_runs(&self.layers, &first, &chunks);
        }
    }
}
