//! The end of a run: what waits goes to its shards, the threads end, and the documents say what came.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Acquisition, Unfinished};
use crate::engine::pool::Pool;
use crate::engine::{losses, records};
use crate::error::{Error, Result, caught, logged};
use crate::format::provenance::Ending;
use crate::stats::Summary;

impl Acquisition {
    /// Lets a thread of its own end the run. For a thread of a run, which can't wait for its own end, nor for
    /// another's, whose callback may be waiting for this one's.
    pub(super) fn end_elsewhere(&mut self) {
        let run = Arc::new(Mutex::new(Some(self.handed_on())));
        let handed_on = run.clone();
        let take = |run: &Mutex<Option<Self>>| run.lock().unwrap_or_else(PoisonError::into_inner).take();
        let spawned = std::thread::Builder::new().name("sw-finish".into()).spawn(move || drop(take(&handed_on)));
        if let Err(error) = spawned {
            logged(
                || tracing::error!(%error, "no thread to end an acquisition; its dataset is as a kill would leave it"),
            );
            self.engine.gate.close();
            // Its threads wait for the end of the process. To drop it here would be to come here again.
            std::mem::forget(take(&run));
        }
    }

    /// The run, of which this handle keeps nothing that has to be ended.
    fn handed_on(&mut self) -> Self {
        Self {
            engine: self.engine.clone(),
            image: self.image.clone(),
            ring_full: self.ring_full,
            lender: self.lender.clone(),
            running: self.running.take(),
            levels: std::mem::take(&mut self.levels),
            notes: std::mem::take(&mut self.notes),
            manifest: self.manifest.take(),
            tells_end: self.tells_end,
        }
    }

    pub(super) fn end(&mut self) -> Result<Summary, Unfinished> {
        let outcome = self.end_untold();
        self.levels.tell_end();
        if self.tells_end {
            self.engine.tell_end();
        }
        outcome
    }

    fn end_untold(&mut self) -> Result<Summary, Unfinished> {
        self.engine.gate.close();
        if self.engine.aborting.load(Relaxed) {
            self.levels.abort();
        }
        if let Some((pool, begun)) = self.running.take() {
            self.engine.drain();
            pool.end(&begun);
            self.levels.end(&pool, self.engine.counters.newest_end.load(Relaxed));
        }
        let nothing_came = self.engine.counters.frames_accepted.load(Relaxed) == 0;
        let aborted_empty = self.engine.aborting.load(Relaxed) && nothing_came;
        let counters = &self.engine.counters;
        let lost = counters.frames_accepted.load(Relaxed).saturating_sub(counters.frames_written.load(Relaxed));
        if self.engine.aborting.load(Relaxed) && lost > 0 {
            self.engine.first_error.set(Error::Aborted);
        }
        let mut summary = self.summary();
        // From now on what was lost is missing for those who look at the counters, too.
        self.engine.counters.frames_missing.store(summary.frames_missing, Relaxed);
        let ending = Ending {
            chunks: summary.chunks_written,
            frames_missing: summary.frames_missing,
            missing: &summary.missing,
            error: self.engine.first_error.get(),
        };
        if !aborted_empty {
            self.image.root().keep();
            let frames = self.engine.counters.newest_end.load(Relaxed);
            if let Err(error) = caught(|| self.write_lost(frames)) {
                self.engine.first_error.set(error);
            }
            // The image is complete when all of its levels are.
            let levels = self.levels.finish(frames, &ending);
            levels.as_ref().err().into_iter().for_each(|error| self.engine.first_error.set(error.clone()));
            let ending = Ending { error: ending.error.or(levels.as_ref().err()), ..ending };
            match caught(|| self.image.finish(&self.engine.plan, frames, &ending)) {
                Ok(()) => {
                    summary.frames_durable = self.engine.counters.frames_synced.load(Relaxed);
                    self.engine.note_durable(summary.frames_durable);
                }
                Err(error) => self.engine.first_error.set(error),
            }
            summary.shape = self.image.shape();
            summary.levels = self.levels.summary();
            self.write_manifest(&mut summary);
        }
        summary.elapsed = self.lender.started.get().map(Instant::elapsed).unwrap_or_default();
        summary.error = self.engine.first_error.get().cloned();
        logged(|| {
            tracing::info!(
                dataset = %self.image.root().path().display(),
                frames = summary.frames_written,
                missing = summary.frames_missing,
                shards = summary.shards,
                seconds = summary.elapsed.as_secs_f64(),
                error = summary.error.as_ref().map(ToString::to_string),
                "the acquisition ended"
            );
        });
        match summary.error.clone() {
            None => Ok(summary),
            Some(error) => Err(Unfinished { summary: Box::new(summary), error }),
        }
    }

    /// Writes the manifest, if there is to be one. By now the dataset is what it will be, whatever becomes of this.
    fn write_manifest(&self, summary: &mut Summary) {
        let Some(manifest) = self.manifest.as_ref().filter(|_| !self.engine.aborting.load(Relaxed)) else { return };
        match caught(|| manifest.write(self.image.root().is_in_place())) {
            Ok(notes) => summary.notes.extend(notes),
            Err(error) => {
                // Behind an earlier error of the run nobody would hear of this one.
                summary.notes.push(format!("no manifest: {error}"));
                self.engine.first_error.set(error);
            }
        }
    }

    /// What was recorded and is lost must not stay recorded as there.
    fn write_lost(&self, frames: u64) -> Result<()> {
        let (missing, lost) = self.missing_and_lost(frames);
        records::write_lost(&self.image, &self.engine.plan, &missing, &lost, frames)
    }

    /// The numbers below `end` that never came, and those that came and could not be stored.
    fn missing_and_lost(&self, end: u64) -> (Vec<Range<u64>>, BTreeSet<u64>) {
        let engine = &self.engine;
        let missing = engine.sequencer.lock().unwrap_or_else(PoisonError::into_inner).missing.clone();
        let lost = engine.losses.numbers(&engine.plan, &missing, end);
        (missing, lost)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        notes.extend(self.engine.effort_changes.lock().unwrap_or_else(PoisonError::into_inner).notes());
        if let (times, Some(error)) = &*self.engine.listener_failures.lock().unwrap_or_else(PoisonError::into_inner) {
            notes.push(format!("on_shard_closed panicked for {times} shards, at first with: {error}"));
        }
        notes
    }

    pub(super) fn summary(&self) -> Summary {
        let engine = &self.engine;
        let stats = engine.stats();
        let end = engine.counters.newest_end.load(Relaxed);
        let (settled, lost) = self.missing_and_lost(end);
        let frames_missing = stats.frames_missing + lost.len() as u64;
        Summary {
            frames_accepted: stats.frames_accepted,
            frames_written: end.saturating_sub(frames_missing),
            frames_durable: stats.frames_durable,
            frames_missing,
            missing: losses::merge(&settled, &lost),
            bytes_in: stats.bytes_in,
            bytes_out: stats.bytes_out,
            chunks_written: engine.counters.chunks_written.load(Relaxed),
            chunks_empty: engine.counters.chunks_empty.load(Relaxed),
            shards: stats.shards_closed,
            elapsed: Duration::ZERO,
            shape: Vec::new(),
            levels: Vec::new(),
            storage: self.image.storage_choice.clone(),
            stages: engine.latencies(),
            notes: self.notes(),
            error: None,
        }
    }
}

impl Drop for Acquisition {
    fn drop(&mut self) {
        if self.running.is_some() && Pool::is_one_of_any() {
            self.end_elsewhere();
        }
        if self.running.is_some() {
            // With nothing acquired there is nothing to keep.
            let nothing = self.engine.counters.frames_accepted.load(Relaxed) == 0;
            self.engine.aborting.fetch_or(nothing, Relaxed);
            if let Err(error) = self.end() {
                logged(|| tracing::error!(%error, "an acquisition was dropped unfinished"));
            }
        }
    }
}
