//! Which shards of a dataset can be checked one by one, and what it takes to know for that.

use std::collections::HashMap;

use serde_json::Value;

use super::{CheckRun, Verify};
use crate::error::Result;
use crate::format::keys::FRAME_NUMBERS;
use crate::format::provenance::{self, Provenance};
use crate::offline::answers::SeparateFiles;
use crate::offline::hierarchy::GroupAttributes;
use crate::offline::hierarchy::walk::ArrayNode;

impl Verify {
    /// Arrays whose shards can be checked one by one: all but those of frame numbers, which are compared with what the
    /// writer says of all frames.
    pub(in crate::offline) fn separate_files(&self) -> Result<Vec<SeparateFiles>> {
        let tree = self.tree()?;
        let mut said = self.begun(&tree, None).said();
        let is_separate = |node: &ArrayNode| {
            let path = if node.name.is_empty() { self.root.clone() } else { self.root.join(&node.name) };
            SeparateFiles::are_of(&node.array, &path) && !path.ends_with(FRAME_NUMBERS)
        };
        let nodes = tree.arrays.into_iter().filter(is_separate);
        let separate = nodes.map(|ArrayNode { name, array, files, .. }| {
            let files = files.into_iter().filter(|(_, position)| array.layout().has_file(position));
            let (document, said) = (array.document().to_path_buf(), said.remove(&name));
            SeparateFiles { name, document, said, files: files.map(|(path, _)| path).collect() }
        });
        Ok(separate.collect())
    }
}

impl CheckRun<'_> {
    /// What the writers of the images say of them, by the arrays' names.
    fn said(&self) -> HashMap<String, Value> {
        let of_group = |name: &str| {
            let is_meant = |group: &&GroupAttributes| {
                group.image == name && matches!(Provenance::parse(&group.path, &group.attributes), Ok(Some(_)))
            };
            self.check.tree.groups.iter().rev().find(is_meant).map(|group| group.attributes.clone())
        };
        let of_array = |name: &str| Some(self.check.tree.array(name)?.array.said().ok()??.1);
        let said = |name: String| {
            let attributes = of_group(&name).or_else(|| of_array(&name))?;
            Some((name, provenance::of_one_shard(&attributes)?))
        };
        self.images().into_keys().filter_map(said).collect()
    }
}
