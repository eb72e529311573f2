//! Checks shards of one array, each by itself, for who puts together what was found in all.

use std::path::Path;
use std::sync::Mutex;

use serde_json::Value;

use super::check::{Check, CheckedImage, Findings};
use super::file::FileCheck;
use super::found::FoundShard;
use super::shard::CheckedSums;
use crate::error::Result;
use crate::format::provenance::Provenance;
use crate::offline::array::Array;
use crate::offline::array::memory::on_fitting_threads;
use crate::offline::hierarchy::walk::Tree;
use crate::offline::layers::FoundLayers;
use crate::offline::progress::ProgressCounters;
use crate::sync::Unpoisoned;

/// An array of which shards are checked.
#[derive(Debug)]
pub(in crate::offline) struct ShardChecker {
    array: Array,
    image: Option<CheckedImage<'static>>,
}

impl ShardChecker {
    /// `said`: what the array's writer says of it, where it is an image's.
    pub(in crate::offline) fn new(array: Array, said: Option<&Value>) -> Result<Self> {
        let own = said.map(|said| Provenance::parse(array.path(), said)).transpose()?.flatten();
        let image = own.map(|own| {
            let map = array.acquisition_map(&own).ok();
            CheckedImage { group: None, own, map }
        });
        Ok(Self { array, image })
    }

    pub(in crate::offline) fn array(&self) -> &Array {
        &self.array
    }

    /// Checks the shard at a position of an array in the dataset at `root`. What can't be read is a finding, as by
    /// [`Verify`](super::Verify).
    pub(in crate::offline) fn check(
        &self,
        root: &Path,
        position: &[u64],
        counters: &ProgressCounters,
    ) -> Result<FoundShard> {
        let Self { array, image } = self;
        let (tree, sums, layers) = (Tree::default(), CheckedSums::default(), Mutex::<FoundLayers>::default());
        let check = Check { root, tree: &tree, findings: Findings::default(), counters };
        let has_map = image.as_ref().is_some_and(|image| image.map.is_some());
        let (name, image, sums) = ("", image.as_ref(), &sums);
        let files = FileCheck { check: &check, books: None, array, name, image, sums, answers: None };
        let file = (array.file_path(position), position.to_vec());
        let chunk_bytes = array.metadata().chunk_bytes();
        on_fitting_threads(chunk_bytes, || files.file(&file, has_map.then_some(&layers)))?;
        let layers = layers.into_inner().unpoisoned();
        Ok(FoundShard::of(check.findings, sums, &layers, array.layout(), position))
    }
}
