//! The levels of images against the arrays that they are made of.

use super::{ArrayVerified, CheckRun};
use crate::error::Result;
use crate::fs::look;
use crate::offline::levels;

impl CheckRun<'_> {
    /// The levels of images: chunks that one lacks though it is made of pixels that are there.
    pub(super) fn levels(&self, arrays: &mut [ArrayVerified]) -> Result<()> {
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
