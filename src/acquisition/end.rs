//! The end of a run: what waits goes to its shards, the threads end, and the documents say what came.

use std::fs;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::Acquisition;
use super::levels::Levels;
use crate::archive_file::is_archive_name;
use crate::dataset::Unlisted;
use crate::dataset::documents::Documents;
use crate::dataset::records::RecordBlock;
use crate::engine::pool::Pool;
use crate::engine::{Engine, losses, records, unstored};
use crate::error::{Error, Result, caught, logged};
use crate::format::provenance::Ending;
use crate::fs::system;
use crate::stats::Summary;
use crate::sync::Unpoisoned;
use crate::words::{count, of_system};

/// Bytes of holes in an archive that are not worth a word.
const HOLES_UNTOLD: u64 = 64 << 20;

/// A run whose shards are closed, on the way to its end.
struct End {
    summary: Summary,
    frames: u64,
    /// It was aborted before anything came, or is an image of a plate to which nothing came.
    is_empty: bool,
    /// Of such an image of a plate, what goes with it.
    left_out: Option<Unlisted>,
    /// Nothing came to it, but labels of it are not at their end: whether it stays shows when they are.
    waits: bool,
    /// No frame came, and there is a dataset that this one was to replace: it need not make room.
    gives_back: bool,
    /// All documents that were to be written are.
    is_told: bool,
}

impl End {
    /// Whether the documents that name the image say something else than before.
    fn changes_lists(&self) -> bool {
        !self.is_empty || self.left_out.is_some()
    }
}

/// A run that ended with an error: what was saved, and what went wrong first.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{error} ({} of {} accepted frames are in the dataset)", summary.frames_written, summary.frames_accepted)]
pub struct Unfinished {
    /// What the run did all the same.
    pub summary: Box<Summary>,
    /// The first error.
    pub error: Error,
}

impl Acquisition {
    /// Ends the acquisition: waits until all committed frames are in their shards, closes these, completes the
    /// documents.
    ///
    /// Frames that are still on loan can't be committed any more. Numbers below the newest that never came count as
    /// missing, and so do those beyond it for which the array has a place all the same, as in a stack or among channels
    /// that were begun; chunks that lack frames are written with the fill value in their place.
    ///
    /// Without any frame, an empty array stays. If it was to [replace](crate::Config::overwrite) a dataset, it
    /// disappears, and that one is back when this returns; of several images, when the last has ended and the
    /// [`Dataset`](crate::Dataset) is dropped, and none of them got a frame.
    ///
    /// # Errors
    ///
    /// [`Unfinished`] with the first error of the run, and with the summary of what was saved all the same. With
    /// [`Error::InCallback`] if one of the run's own threads calls, which can't wait for its own end: then the run ends
    /// by itself, and the summary is that of this moment.
    pub fn finish(mut self) -> Result<Summary, Unfinished> {
        if self.running.as_ref().is_some_and(|(pool, _)| pool.has_this_thread()) {
            let error = Error::InCallback;
            let summary = Summary { error: Some(error.clone()), ..self.summary() };
            return Err(Unfinished { summary: Box::new(summary), error });
        }
        self.end()
    }

    /// Ends the acquisition at once: frames that wait in the ring are lost, everything that is in a shard stays
    /// readable, and the dataset's attributes say that it is not complete. If no frame was committed, the dataset
    /// disappears, also from a storage of the caller's own.
    pub fn abort(mut self) {
        self.engine.aborting.store(true, Relaxed);
        if !Pool::is_one_of_any() {
            let _ = self.end();
        }
    }

    /// Ends several acquisitions as [`finish`](Self::finish) ends each, in the same order, but with what has to reach
    /// the device brought there together.
    #[must_use = "each run says for itself whether it ended well"]
    pub fn finish_all(acquisitions: Vec<Self>) -> Vec<Result<Summary, Unfinished>> {
        let mut runs = acquisitions;
        if Pool::is_one_of_any() || runs.iter().any(|run| run.manifest.is_some()) {
            return runs.into_iter().map(Self::finish).collect();
        }
        runs.iter().for_each(|run| run.engine.close_gate());
        Engine::drain(runs.iter().filter(|run| run.running.is_some()).map(|run| &run.engine));
        Pool::end_all(runs.iter_mut().filter_map(|run| run.running.take()).collect());
        let levels = runs.iter_mut().map(|run| (run.engine.counters.newest_end.load(Relaxed), &mut run.levels));
        Levels::end(levels.collect());
        write_together(&runs)
    }

    /// Lets a thread of its own end the run. For a thread of a run, which can't wait for its own end, nor for
    /// another's, whose callback may be waiting for this one's.
    pub(super) fn end_elsewhere(&mut self) {
        let run = Arc::new(Mutex::new(Some(self.handed_on())));
        let handed_on = run.clone();
        let take = |run: &Mutex<Option<Self>>| run.lock().unpoisoned().take();
        let spawned = std::thread::Builder::new().name("sw-finish".into()).spawn(move || drop(take(&handed_on)));
        if let Err(error) = spawned {
            let error = of_system(error);
            logged(
                || tracing::error!(%error, "no thread to end an acquisition; its dataset is as a kill would leave it"),
            );
            self.engine.close_gate();
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
        self.engine.close_gate();
        if let Some((pool, begun)) = self.running.take() {
            Engine::drain([&self.engine]);
            pool.end(&[&begun]);
            Levels::end(vec![(self.engine.counters.newest_end.load(Relaxed), &mut self.levels)]);
        }
        let image = self.image.clone();
        let mut end = self.begin_end();
        let documents = &mut Documents::AtOnce(image.storage());
        self.write_shape(&mut end, documents);
        self.write_ending(&mut end, documents);
        if end.changes_lists() || image.root().is_kept() {
            let write =
                || image.root().write_collection(documents).and_then(|()| documents.settle(image.root().path()));
            self.note(caught(write), &mut end);
        }
        self.leave_out(&mut end);
        self.conclude(end)
    }

    /// What is known of the run when its last shard is closed.
    fn begin_end(&self) -> End {
        // First, because what is said of the run depends on it.
        let store = |block: &RecordBlock| caught(|| self.image.write_records(&self.engine.plan, block)).is_ok();
        self.engine.unstored_records.store_again(store);
        let nothing_came = self.engine.counters.frames_accepted.load(Relaxed) == 0;
        let waits = nothing_came && self.image.root().plate().is_some();
        let is_empty = self.engine.aborting.load(Relaxed) && nothing_came;
        let gives_back = nothing_came && self.image.root().replaces();
        let counters = &self.engine.counters;
        let lost = counters.frames_accepted.load(Relaxed).saturating_sub(counters.frames_written.load(Relaxed));
        if self.engine.aborting.load(Relaxed) && lost > 0 {
            self.engine.first_error.set(Error::Aborted);
        }
        let summary = self.summary();
        // From now on what was lost is missing for those who look at the counters, too.
        self.engine.counters.frames_missing.store(summary.frames_missing, Relaxed);
        let frames = self.engine.counters.newest_end.load(Relaxed);
        let mut end = End { summary, frames, is_empty, left_out: None, waits, gives_back, is_told: !is_empty };
        self.look_for_labels(&mut end);
        end
    }

    /// A plate tells of the wells that were written; labels need their image.
    fn look_for_labels(&self, end: &mut End) {
        if end.waits && !self.image.has_labels() {
            end.left_out = Some(self.image.unlist());
            (end.waits, end.is_empty, end.is_told) = (false, true, false);
        }
    }

    /// Takes the documents back of an image to which nothing came, when no others name it any more.
    fn leave_out(&self, end: &mut End) {
        if end.waits && !self.image.wait_for_labels(&self.engine.plan) {
            // The last of them went meanwhile.
            end.left_out = Some(self.image.unlist());
            self.note(caught(|| self.image.root().write_collection(&mut Documents::AtOnce(self.image.storage()))), end);
        }
        if let Some(unlisted) = end.left_out.take() {
            self.image.leave_out(&self.engine.plan, &unlisted);
        }
    }

    /// An error on the way to the end keeps what was written from being told, and what others name from being removed.
    fn note(&self, outcome: Result<()>, end: &mut End) {
        let Err(error) = outcome else { return };
        (end.is_told, end.left_out) = (false, None);
        // The documents that are there may tell of fewer frames than the shards hold.
        let hidden = self.engine.plan.hidden(self.image.shape()[0], end.frames);
        let error = match error {
            Error::Io { action, path, source } if !hidden.is_empty() => {
                let [first, last] = [hidden.start, hidden.end - 1].map(|number| self.engine.told(number));
                // It knows paths alone.
                let place = match self.image.root().is_in_storage() {
                    true => " of a folder with the files of the storage",
                    false => "",
                };
                let text = format!(
                    "{}; frames {first} to {last} are in their shards as far as they came, but readers do not \
                     see them before `shardwright recover`{place}",
                    of_system(&source)
                );
                Error::io(action, path, std::io::Error::new(source.kind(), text))
            }
            other => other,
        };
        // Behind an earlier error of the run nobody would hear of this one.
        end.summary.notes.push(format!("the last documents are not written: {error}"));
        self.engine.first_error.set(error);
    }

    /// What the array and the records are by now.
    fn write_shape(&self, end: &mut End, documents: &mut Documents) {
        if end.is_empty {
            return;
        }
        if !end.gives_back && !end.waits {
            self.image.root().keep();
        }
        if let Err(error) = caught(|| self.write_lost(end.frames)) {
            self.engine.first_error.set(error);
        }
        // What names a level is written behind it.
        self.note(caught(|| self.levels.write_shape(end.frames, documents)), end);
        self.note(caught(|| self.image.write_shape(&self.engine.plan, end.frames, documents)), end);
    }

    /// What is to be said of the run, unless not even its shape could be.
    fn write_ending(&self, end: &mut End, documents: &mut Documents) {
        if !end.is_told {
            return;
        }
        // The image is complete when all of its levels are.
        let levels = caught(|| self.levels.write_ending(end.frames, self.engine.first_error.get(), documents));
        self.note(levels, end);
        let summary = &end.summary;
        let ending = Ending {
            chunks: summary.chunks_written,
            frames_missing: summary.frames_missing,
            missing: &summary.missing,
            error: self.engine.first_error.get(),
        };
        let written = caught(|| self.image.write_ending(&self.engine.plan, end.frames, &ending, documents));
        self.note(written, end);
    }

    fn conclude(&self, end: End) -> Result<Summary, Unfinished> {
        let End { mut summary, is_empty, gives_back, is_told, .. } = end;
        if is_told {
            let synced = self.engine.counters.frames_synced.load(Relaxed);
            // What was durable before that stays so.
            let synced = synced.min(summary.frames_written).saturating_sub(self.frames_without_records(&summary));
            summary.frames_durable = synced.max(summary.frames_durable);
            self.engine.note_durable(summary.frames_durable);
        }
        if !is_empty {
            summary.shape = self.image.shape();
            summary.notes.extend(self.note_of_early_end(&summary.shape));
            summary.levels = self.levels.summary();
            summary.notes.extend(self.note_of_holes());
        }
        if gives_back {
            summary.notes.extend(self.note_of_former());
        } else if !is_empty {
            self.write_manifest(&mut summary);
        }
        // Documents have those of the part, readers of the summary those of the run.
        summary.missing = self.engine.told_ranges(std::mem::take(&mut summary.missing));
        summary.elapsed = self.lender.started.get().map(Instant::elapsed).unwrap_or_default();
        summary.error = self.engine.first_error.get().cloned();
        logged(|| {
            tracing::info!(
                dataset = %self.image.root().path().display(),
                frames = summary.frames_written,
                missing = summary.frames_missing,
                shards = summary.shards,
                bytes_in = summary.bytes_in,
                bytes_out = summary.bytes_out,
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

    fn numbers_without_records(&self) -> Vec<Range<u64>> {
        let end = self.engine.counters.newest_end.load(Relaxed);
        self.engine.unstored_records.numbers(self.engine.plan.record.block_frames, end)
    }

    fn frames_without_records(&self, summary: &Summary) -> u64 {
        let missing_in = |range: &Range<u64>| {
            let overlap =
                |missing: &Range<u64>| missing.end.min(range.end).saturating_sub(missing.start.max(range.start));
            summary.missing.iter().map(overlap).sum::<u64>()
        };
        let numbers = self.numbers_without_records();
        numbers.iter().map(|range| (range.end - range.start).saturating_sub(missing_in(range))).sum()
    }

    /// What to say of an array that is shorter than it was to be.
    fn note_of_early_end(&self, shape: &[u64]) -> Option<String> {
        // Unbounded, it counts as 0.
        let (planned, got) = (self.engine.plan.array.layout.shape.first()?, shape.first()?);
        (got < planned)
            .then(|| format!("the array ends with its last frame: {got} long in its first dimension, not {planned}"))
    }

    /// What to say of the dataset that this one was to replace, when no frame came: it has its name again as soon as
    /// nobody holds this one any more.
    fn note_of_former(&self) -> Option<String> {
        let root = self.image.root();
        let note = match root.has_several() {
            false => "no frame came, so the dataset that it was to replace is back",
            true => {
                "no frame came; where none comes to another image either, the dataset that these were to replace is \
                 back"
            }
        };
        (!root.is_kept() && root.is_in_place()).then(|| note.to_owned())
    }

    /// What to say of an archive that is much longer than what is in it.
    fn note_of_holes(&self) -> Option<String> {
        let root = self.image.root();
        let metadata = fs::metadata(root.path()).ok().filter(|_| is_archive_name(root.path()))?;
        let (length, on_disk) = (metadata.len(), system::disk_bytes(&metadata));
        (length / 2 > on_disk.saturating_add(HOLES_UNTOLD)).then(|| {
            format!(
                "the archive is {length} bytes long, of which {on_disk} are on the disk: what copies it without its \
                 holes takes as long as for all of it, and `repack` makes one that has none"
            )
        })
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
        let (missing, lost) = self.engine.missing_and_lost(frames);
        records::write_lost(&self.image, &self.engine.plan, &missing, &lost, frames)
    }

    /// What is to be known of the run by now, as sentences. [`Summary::notes`] has these, too.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        notes.extend(self.engine.effort_changes.lock().unpoisoned().notes());
        notes.extend(unstored::note(&self.engine.told_ranges(self.numbers_without_records())));
        if let (times, Some(error)) = &*self.engine.listener_failures.lock().unpoisoned() {
            notes.push(format!("on_shard_closed panicked for {}, at first with: {error}", count(*times, "shard")));
        }
        notes
    }

    pub(super) fn summary(&self) -> Summary {
        let engine = &self.engine;
        let stats = engine.stats();
        let end = engine.counters.newest_end.load(Relaxed);
        let (settled, lost) = engine.missing_and_lost(end);
        let frames_missing = stats.frames_missing + lost.len() as u64;
        let frames_written = end.saturating_sub(frames_missing);
        Summary {
            frames_accepted: stats.frames_accepted,
            frames_written,
            // A shard that can't be closed may be lost with what was durable in it.
            frames_durable: stats.frames_durable.min(frames_written),
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

/// Writes the documents of runs whose shards are closed.
fn write_together(runs: &[Acquisition]) -> Vec<Result<Summary, Unfinished>> {
    let mut ends: Vec<_> = runs.iter().map(Acquisition::begin_end).collect();
    // Labels may come behind their image.
    runs.iter().zip(&mut ends).for_each(|(run, end)| run.look_for_labels(end));
    type Write = fn(&Acquisition, &mut End, &mut Documents);
    let phases: [Write; 2] = [Acquisition::write_shape, Acquisition::write_ending];
    for (phase, write) in phases.into_iter().enumerate() {
        // Images of one dataset have one root, and storages that lead to the same place.
        let mut rest: Vec<_> = runs.iter().zip(&mut ends).collect();
        while let Some((first, _)) = rest.first() {
            let image = first.image.clone();
            let is_here = |run: &Acquisition| std::ptr::eq(run.image.root(), image.root());
            let (mut here, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(run, _)| is_here(run));
            let mut documents = Documents::Together(Vec::new());
            here.iter_mut().for_each(|(run, end)| write(run, end, &mut documents));
            let anything = here.iter().any(|(_, end)| end.changes_lists()) || image.root().is_kept();
            let written = caught(|| {
                if phase > 0 && anything {
                    image.root().write_collection(&mut documents)?;
                }
                documents.write(image.storage(), image.root().path())
            });
            if let Err(error) = written {
                here.iter_mut().for_each(|(_, end)| end.left_out = None);
                here.iter_mut()
                    .filter(|(_, end)| !end.is_empty)
                    .for_each(|(run, end)| run.note(Err(error.clone()), end));
            }
            rest = others;
        }
    }
    runs.iter().zip(&mut ends).for_each(|(run, end)| run.leave_out(end));
    let outcomes = runs.iter().zip(ends).map(|(run, end)| {
        let outcome = run.conclude(end);
        run.levels.tell_end();
        if run.tells_end {
            run.engine.tell_end();
        }
        outcome
    });
    outcomes.collect()
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
