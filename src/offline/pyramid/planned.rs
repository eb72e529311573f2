//! Levels whose shards other processes make: which there are, and how they get their names.

use std::path::Path;

use serde_json::Value;

use super::image::NewLevel;
use super::level::{EarlierLevels, PlannedLevel};
use super::options::{PyramidOptions, PyramidSummary};
use super::publish::Earlier;
use super::{Pyramid, RepackSummary};
use crate::error::{Error, Result};
use crate::offline::repack::{ShardOutcome, Staging, planned, space};
use crate::sync::Unpoisoned;
use crate::words::quoted;

impl Pyramid {
    /// The image, and the folder in which its levels come into being.
    pub(in crate::offline) fn places(&self) -> (&Path, &Path) {
        (&self.publication.image.root, &self.publication.staging)
    }

    /// What is made, and how, where nobody has chosen that, too.
    pub(in crate::offline) fn options(&self) -> &PyramidOptions {
        &self.publication.options
    }

    /// The array that all levels are made of: its path below the image, and its document.
    pub(in crate::offline) fn finest(&self) -> (&str, &Path) {
        let image = &self.publication.image;
        (&image.datasets[0], image.finest.document())
    }

    /// A text that becomes another when what the levels are made of does, or what they are.
    pub(in crate::offline) fn made_of(&self) -> Value {
        Value::Object(self.publication.journal.clone())
    }

    pub(in crate::offline) fn earlier(&self) -> EarlierLevels {
        match self.earlier {
            Earlier { done: true, .. } => EarlierLevels::Done,
            Earlier { made: true, .. } => EarlierLevels::Complete,
            _ => EarlierLevels::None,
        }
    }

    /// Whether the levels that the image lists are those that a run would make.
    pub(in crate::offline) fn has_levels(&self) -> Result<bool> {
        Ok(!self.publication.levels.is_empty() && self.publication.is_done()?)
    }

    /// The levels, the finest first, and which shards each may have.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] where the names of levels, and those of their shards, don't follow each other as levels
    /// do, when sorted.
    pub(in crate::offline) fn planned(&self) -> Result<Vec<PlannedLevel>> {
        let mut planned: Vec<PlannedLevel> = Vec::new();
        for (number, NewLevel { told, steps, document, .. }) in self.publication.levels.iter().enumerate() {
            let change = self.change(number)?;
            let shards = match planned.last() {
                None => change.positions()?,
                Some(before) => change.positions_of(before.shards.clone())?,
            };
            let (name, before) = (told.path.clone(), planned.last().map(|level| level.name.clone()));
            let follows = |before: &String| *before < name && format!("{before}/") < format!("{name}/");
            if let Some(before) = before.as_ref().filter(|before| !follows(before)) {
                let reason = format!(
                    "its level {} would come before {} among tasks, which are sorted by name; make fewer levels, or \
                     all of them in one call",
                    quoted(&name),
                    quoted(before)
                );
                return Err(Error::unsupported(&self.publication.image.root, reason));
            }
            planned.push(PlannedLevel {
                name,
                before,
                steps: steps.clone(),
                document: document.clone(),
                change,
                shards,
            });
        }
        Ok(planned)
    }

    /// Refuses to plan where an earlier call has left what it made, which a new one would not go on with.
    pub(in crate::offline) fn refuse_left(&self) -> Result<()> {
        let staging = &self.publication.staging;
        let help = match Staging::plan(staging)? {
            Some(_) if self.earlier() == EarlierLevels::Complete => "finish its tasks, whose levels are complete",
            None if Staging::is_left(staging)? => "make the levels in one call, which goes on with them, or remove it",
            _ => return Ok(()),
        };
        Err(Error::conflict(staging, format!("holds levels that are not finished: {help}")))
    }

    /// Gives the levels their names whose shards others have made. `made`: what became of each.
    pub(in crate::offline) fn finish_planned(&self, made: &[ShardOutcome]) -> Result<PyramidSummary> {
        self.counters.begin_only_run("Pyramid", &self.publication.image.root)?;
        let _lock = self.lock.lock().unpoisoned().take();
        let (staging, options) = (&self.publication.staging, &self.publication.options);
        if self.earlier() == EarlierLevels::None && !self.publication.levels.is_empty() {
            Staging::adopt(staging, &self.publication.journal, options.sync)?;
        }
        let finished = self.work(&|| {
            let mut totals = RepackSummary::default();
            made.iter().for_each(|outcome| totals.add(*outcome));
            planned::sweep(&Staging::place(staging, ""))?;
            (0..self.publication.levels.len()).try_for_each(|number| self.complete(number))?;
            Ok(totals)
        });
        let finished = finished.map_err(|error| space::how_to_go_on(error, Some(staging)))?;
        self.counters.find_all();
        Ok(finished)
    }

    /// What a run tells that finds all of it done.
    pub(in crate::offline) fn done_summary(&self) -> PyramidSummary {
        PyramidSummary { already_done: true, ..self.summary(RepackSummary::default()) }
    }
}
