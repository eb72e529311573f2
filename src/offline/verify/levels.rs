//! The levels of images against the arrays that they are made of.

use std::collections::HashMap;

use super::check::CheckedImage;
use super::{ArrayVerified, CheckRun};
use crate::error::Result;
use crate::fs::look;
use crate::offline::hierarchy::below;
use crate::offline::levels;

impl CheckRun<'_> {
    /// The levels that the writer has made are as large as the arrays that they are levels of say.
    fn level_shapes(&self, images: &HashMap<String, CheckedImage>, arrays: &mut [ArrayVerified]) {
        for (name, image) in images {
            let group = name.rsplit_once('/').map_or("", |(group, _)| group);
            let finest = image.own.level_of.as_ref().map(|finest| below(group, finest));
            let (Some(finest), Some(map)) = (finest, &image.map) else { continue };
            let (Some(level), Some(of)) = (self.check.tree.array(name), self.check.tree.array(&finest)) else {
                continue;
            };
            // While a run goes on, each document has its own moment.
            let is_settled = image.own.complete || image.own.recovered;
            let (shape, of) = (level.array.shape(), of.array.shape());
            let extent = map.extent_of_level(&image.own.level_frames, of);
            if let Some(why) = levels::misfit(shape, of, extent).filter(|_| is_settled) {
                let what = format!("has the shape {shape:?}, which no level of {finest} with {of:?} can have; {why}");
                self.check.damage(level.array.path(), what);
                arrays.iter_mut().filter(|array| array.path == *name).for_each(|array| array.damage += 1);
            }
        }
    }

    /// The levels of images: their shapes, and chunks that one lacks though it is made of pixels that are there.
    pub(super) fn levels(&self, images: &HashMap<String, CheckedImage>, arrays: &mut [ArrayVerified]) -> Result<()> {
        self.level_arrays(images, arrays);
        self.level_entries(images);
        self.level_shapes(images, arrays);
        let tree = self.check.tree;
        let find = |name: &str| tree.array(name).map(|node| &node.array);
        for group in &tree.groups {
            for pair in levels::pairs(&group.name, &group.attributes, find) {
                self.check.counters.go_on()?;
                let lacking = pair.lacking().and_then(|lacking| Ok((pair.lost(&lacking)?, lacking)));
                let path = pair.level.path();
                match lacking {
                    Ok((_, lacking)) if lacking.is_empty() => {}
                    Ok((Some(0), _)) => {}
                    Ok((Some(lost), _)) => {
                        self.check.damage(path, levels::damage_of(lost));
                        arrays.iter_mut().filter(|array| array.path == pair.name).for_each(|array| array.damage += 1);
                    }
                    Ok((None, lacking)) => self.check.note(path, pair.note_of(lacking.len())),
                    // It was told when the array was checked.
                    Err(error) if look::is_about_a_file(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}
