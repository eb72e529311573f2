//! What documents say of the levels of images: each by itself can be read, and still contradict the others.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::check::{CheckedImage, Severity};
use super::{ArrayVerified, CheckRun};
use crate::config::DimKind;
use crate::offline::array::Array;
use crate::offline::hierarchy::{GroupAttributes, below};
use crate::ome::multiscales::{self, Dataset, Multiscale, ome_of};
use crate::words::{quoted, quoted_list};

/// A scale that somebody has rounded is no other one.
const ROUNDED: f64 = 1e-3;

impl CheckRun<'_> {
    /// The array that a level names as the one whose frames it has, if there is such a one.
    fn finest_of(&self, images: &HashMap<String, CheckedImage>, name: &str) -> Option<&Array> {
        let (group, _) = name.rsplit_once('/').unwrap_or_default();
        let finest = below(group, images[name].own.level_of.as_deref()?);
        let is_level = images.get(&finest).is_some_and(|image| image.own.level_of.is_some());
        self.check.tree.array(&finest).filter(|_| !is_level).map(|node| &node.array)
    }

    /// The arrays that the writer has made as levels are like the one that they are levels of.
    pub(super) fn level_arrays(&self, images: &HashMap<String, CheckedImage>, arrays: &mut [ArrayVerified]) {
        for (name, CheckedImage { own, .. }) in images {
            let (Some(level_of), Some(level)) = (&own.level_of, self.check.tree.array(name)) else { continue };
            let (path, level) = (level.array.path(), &level.array);
            let before = self.check.findings.damage();
            let Some(finest) = self.finest_of(images, name) else {
                // One that was taken out by itself has nothing beside it, and one that was just begun not yet.
                let is_whole = own.complete || own.recovered;
                if is_whole && !name.is_empty() && !self.check.is_told_of(&path.with_file_name(level_of)) {
                    let what = format!("its writer made it as a level of {}", quoted(level_of));
                    self.check.damage(path, format!("{what}, which is no array beside it that has levels"));
                    arrays.iter_mut().filter(|array| array.path == *name).for_each(|array| array.damage += 1);
                }
                continue;
            };
            let other = |field: &str, ours: Value, theirs: Value| {
                (ours != theirs).then(|| format!("has the {field} {ours}; level 0 has {theirs}"))
            };
            let (ours, theirs) = (level.metadata(), finest.metadata());
            let [ours_type, theirs_type] = [level, finest].map(|array| json!(array.dtype().to_string()));
            let is_filled_otherwise = ours_type == theirs_type && ours.fill != theirs.fill;
            let chains = || other("codecs", json!(ours.chain.document), json!(theirs.chain.document));
            let damage = [
                // Who repacks may choose others for each array.
                own.slots.filter(|_| ours_type == theirs_type).and_then(|_| chains()),
                other("data_type", ours_type, theirs_type),
                is_filled_otherwise.then(|| "has another fill_value than level 0".to_owned()),
            ];
            damage.into_iter().flatten().for_each(|what| self.check.damage(path, what));
            let found = self.check.findings.damage() - before;
            arrays.iter_mut().filter(|array| array.path == *name).for_each(|array| array.damage += found);
            let names = other("dimension_names", json!(ours.layout.names), json!(theirs.layout.names));
            names.into_iter().for_each(|what| self.check.note(path, what));
        }
    }

    /// What groups say of their images' levels. Of other writers, who may say more than is known here, it is no damage.
    pub(super) fn level_entries(&self, images: &HashMap<String, CheckedImage>) {
        for group in &self.check.tree.groups {
            let group_of = |name: &str| name.rsplit_once('/').unwrap_or_default().0 == group.name;
            let is_own = images.iter().any(|(name, image)| image.own.level_of.is_some() && group_of(name));
            for image in multiscales::images(ome_of(&group.attributes)) {
                self.entries_of(group, image, is_own);
                let first = image.levels().next().and_then(Dataset::path).map(|path| below(&group.name, path));
                if first.and_then(|name| images.get(&name)).is_some_and(|image| image.own.level_of.is_some()) {
                    self.check.damage(&group.path, "its multiscales list a smaller level as the first one");
                }
            }
        }
    }

    fn entries_of(&self, group: &GroupAttributes, image: Multiscale<'_>, is_own: bool) {
        let path = &group.path;
        let find = |level: Dataset| self.check.tree.array(&below(&group.name, level.path()?)).map(|node| &node.array);
        let levels: Vec<Dataset> = image.levels().collect();
        let severity = if is_own { Severity::Damage } else { Severity::Note };
        let paths: Vec<&str> = levels.iter().map(|level| level.path().unwrap_or_default()).collect();
        // What is no array is told as a promise that is not kept.
        let Some(finest) = levels.first().and_then(|level| find(*level)) else { return };
        let mut before = finest;
        for (at, (level, name)) in levels.iter().zip(&paths).enumerate() {
            let said = |what: &str| format!("its multiscales list the level {} {what}", quoted(name));
            if paths[..at].contains(name) {
                self.check.find(severity, path, None, said("twice"));
                continue;
            }
            let Some(array) = find(*level) else { continue };
            if is_finer(array, before) {
                let what = format!("behind a coarser one: {}", quoted_list(&paths));
                self.check.find(severity, path, None, said(&what));
                return;
            }
            before = array;
            let place = Placed { image, finest: levels[0], is_own };
            if let Some(what) = place.contradiction(*level, array, finest) {
                self.check.note(path, said(&what));
            }
        }
    }
}

/// Whether an array has more pixels in each of its planes than one that comes before it.
fn is_finer(array: &Array, before: &Array) -> bool {
    let plane = |array: &Array| array.shape().iter().rev().take(2).fold(1, |all: u64, n| all.saturating_mul(*n));
    let stack = |array: &Array| array.shape().iter().rev().nth(2).copied().unwrap_or(1);
    // While a run goes on, or where it was stopped, one may have more frames than another.
    let is_deeper = array.shape().len() > 3 && stack(array) > stack(before);
    plane(array) > plane(before) || (plane(array) == plane(before) && is_deeper)
}

/// Where an image says that its levels are.
struct Placed<'a> {
    image: Multiscale<'a>,
    finest: Dataset<'a>,
    is_own: bool,
}

impl Placed<'_> {
    /// What of a level's place can't be, for a sentence.
    fn contradiction(&self, level: Dataset<'_>, array: &Array, finest: &Array) -> Option<String> {
        let axes = self.image.axes().len();
        if let Some(count) = level.scales().into_iter().find(|count| *count != axes && axes > 0) {
            return Some(format!("with a scale of {count} numbers; expected {axes}, one for each axis"));
        }
        if self.is_own && !self.image.is_placed(level) {
            return Some("without coordinateTransformations".to_owned());
        }
        // Other transformations than scales have no such numbers.
        let scale = self.image.place(level).ok()?.scale;
        if let Some(number) = scale.iter().find(|number| **number <= 0.0) {
            return Some(format!("with a scale of {number}; expected a positive number"));
        }
        let of = self.image.place(self.finest).ok()?.scale;
        let dims = array.shape().len();
        if !self.is_own || dims != axes || dims != finest.shape().len() {
            return None;
        }
        let wrong = (0..dims).find(|&dim| {
            let lengths = (finest.shape()[dim], array.shape()[dim]);
            let is_space = self.image.axes().nth(dim).is_some_and(|axis| axis.kind == Some(DimKind::Space));
            !is_halved(scale[dim] / of[dim], lengths, dims - dim > 3 || !is_space, dim == 0)
        })?;
        let (ours, theirs) = (scale[wrong], of[wrong]);
        let axis = self.image.axes().nth(wrong).and_then(|axis| axis.name).unwrap_or_default().to_owned();
        let (from, to) = (finest.shape()[wrong], array.shape()[wrong]);
        Some(format!("with the scale {ours} of {axis}, where level 0 has {theirs} and its {from} pixels become {to}"))
    }
}

/// Whether a scale is larger by what a length became shorter. `is_kept`: it is of no direction that is halved.
/// `is_open`: how long it is depends on the frames that have come.
fn is_halved(ratio: f64, (from, to): (u64, u64), is_kept: bool, is_open: bool) -> bool {
    let is_by = |times: u32| {
        let factor = 1u64 << times;
        (ratio / factor as f64 - 1.0).abs() < ROUNDED && (is_open || from.div_ceil(factor) == to)
    };
    (0..if is_kept { 1 } else { u64::BITS }).any(is_by)
}
