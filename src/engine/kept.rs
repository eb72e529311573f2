//! Which frames of a shard's layers are in provisional chunks.

use std::collections::BTreeMap;

/// Which frames of a cell's layers are in provisional chunks, by the layer's place in the cell.
#[derive(Debug, Default)]
pub(crate) struct Kept(pub(super) BTreeMap<usize, LayerKept>);

#[derive(Debug, Default)]
pub(super) struct LayerKept {
    numbers: Vec<u64>,
    /// Those that an index on the device names.
    named: Vec<u64>,
}

impl Kept {
    pub(super) fn add(&mut self, layer: usize, numbers: Vec<u64>) {
        self.0.entry(layer).or_default().numbers = numbers;
    }

    /// The indexes name what they could, with the final chunks of the layers that are in place.
    pub(super) fn name(&mut self, is_in_place: impl Fn(usize) -> bool) {
        self.0.retain(|&layer, _| !is_in_place(layer));
        self.0.values_mut().for_each(|kept| kept.named.clone_from(&kept.numbers));
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.values().flat_map(|kept| &kept.numbers).copied()
    }

    pub(super) fn named(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.values().flat_map(|kept| &kept.named).copied()
    }
}
