//! Puts the parts of a run together that several processes have written, each on its own host.
//!
//! The order makes it safe to stop at any moment and to run again: all is computed from documents and records, which
//! stay until the end; the run is marked before the first shard is moved, so that no part begins or is changed any
//! more; what says that the run is finished comes last, and then the parts go.

mod documents;
mod part;
mod records;
mod run;
mod shards;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::format::part::{PARTS, Parts};
use crate::format::zarr3;
use crate::fs::{Lock, links, look, remove_folder};
use crate::offline::progress::{Progress, ProgressCounters, controls};
use crate::offline::ranges::Ranges;
use crate::sync::Unpoisoned;
use documents::Finished;
pub use part::PartState;
use part::{FoundPart, find};
use run::Run;

/// How [`FinishParts`] works.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FinishPartsOptions {
    /// Finish without parts that never came or did not end: their frames are listed as missing, up to the planned end
    /// of the run if another part has come to it. What such a part has written stays where it is. Finish also where
    /// shards of a part are gone.
    pub incomplete: bool,
}

/// What became of a run in parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PartsFinished {
    /// The array's shape.
    pub shape: Vec<u64>,
    /// One past the highest frame number that came to any part.
    pub frames: u64,
    /// How many frames below that are missing.
    pub frames_missing: u64,
    /// Their numbers, as ranges.
    pub missing: Vec<Range<u64>>,
    /// Chunks that were written.
    pub chunks: u64,
    /// Those of them whose files were gone when the parts were put together.
    pub chunks_lost: u64,
    /// Each part.
    pub parts: Vec<PartFinished>,
    /// What is to be known beside that, as sentences.
    pub notes: Vec<String>,
}

/// What became of one part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PartFinished {
    /// Its number.
    pub index: u32,
    /// How it ended.
    pub state: PartState,
    /// Frames that came to it.
    pub frames: u64,
}

/// Puts the parts of a run together that [`create_parts`](crate::create_parts) has made: moves their shards into its
/// array, writes its records, and says in its documents how many frames there are and which are missing. The result is
/// what one process would have written.
///
/// No pixel is read or written. It may be stopped at any moment and run again; of a finished run, it changes nothing.
///
/// ```no_run
/// use shardwright::offline::{FinishParts, FinishPartsOptions};
///
/// let finished = FinishParts::new("run.ome.zarr", &FinishPartsOptions::default())?.run()?;
/// println!("{} frames", finished.frames);
/// # Ok::<(), shardwright::Error>(())
/// ```
#[derive(Debug)]
pub struct FinishParts {
    root: PathBuf,
    options: FinishPartsOptions,
    counters: ProgressCounters,
    /// Until the end of its run.
    lock: Mutex<Option<Lock>>,
}

controls!(FinishParts);

impl FinishParts {
    /// Looks whether the run at `path` can be finished; nothing is changed yet. Who finishes it is its only writer from
    /// now on.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] while somebody writes a part or finishes the run; [`Error::Unsupported`] for what is no run in
    /// parts; [`Error::Unfinished`] with the numbers of parts that never came or did not end, and, from
    /// [`run`](Self::run), those of which shards are gone; [`Error::Format`] for a
    /// part of another run, and when a document is broken; [`Error::Io`] when the system refuses something.
    pub fn new(path: impl AsRef<Path>, options: &FinishPartsOptions) -> Result<Self> {
        let root = path.as_ref();
        let root = root.canonicalize().map_err(|error| Error::io("open", root, error))?;
        links::enter(&root);
        Run::open(&root)?;
        Lock::look_around(&root)?;
        let lock = Lock::take(&root)?;
        Lock::look_below(&root)?;
        let run = Run::open(&root)?;
        run.refuse_lacking(options.incomplete, &find(&root, &run.own, run.parts)?)?;
        let lock = Mutex::new(Some(lock));
        Ok(Self { root, options: options.clone(), counters: ProgressCounters::default(), lock })
    }

    /// Puts the parts together.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new); [`Error::Conflict`] when it is called again, and when a shard is in the way of
    /// another.
    pub fn run(&self) -> Result<PartsFinished> {
        self.counters.begin_only_run("FinishParts", &self.root)?;
        let _lock = self.lock.lock().unpoisoned().take();
        let run = Run::open(&self.root)?;
        let found = find(&self.root, &run.own, run.parts)?;
        if run.own.complete || run.own.recovered {
            return self.tidy(&run, &found);
        }
        run.refuse_lacking(self.options.incomplete, &found)?;
        // An earlier call may have moved shards.
        let lost = if run.parts.finishing { Vec::new() } else { self.lost(&run, &found)? };
        let found = self.close(&run)?;
        let ended: Vec<&FoundPart> = found.iter().filter(|part| part.is_ended()).collect();
        let finished = Finished::new(&run, &found)?;
        self.counters.begin(finished.frames);
        for part in &ended {
            self.counters.go_on()?;
            shards::r#move(&self.root, part)?;
        }
        records::merge(&self.root, &ended, &finished, run.parts.by, &self.counters)?;
        let mut notes = documents::write(&self.root, &run, &ended, &finished)?;
        self.remove(&ended)?;
        let (chunks_lost, told_lost): (Vec<u64>, Vec<String>) = lost.into_iter().unzip();
        notes.extend(told_lost);
        Ok(PartsFinished { chunks_lost: chunks_lost.iter().sum(), ..told(&finished, &found, notes) })
    }

    /// Refuses parts of which shards are gone; else they are told.
    fn lost(&self, run: &Run, found: &[FoundPart]) -> Result<Vec<(u64, String)>> {
        let lost: Result<Vec<_>> = found.iter().filter_map(|part| part.lost().transpose()).collect();
        let lost = lost?;
        match lost.first() {
            Some((_, what)) if !self.options.incomplete => Err(run.refused(&format!("{what}; bring them back"))),
            _ => Ok(lost),
        }
    }

    /// Lets no part begin any more, and looks at all of them for the last time. Where one has begun meanwhile, the run
    /// stays as it is.
    fn close(&self, run: &Run) -> Result<Vec<FoundPart>> {
        // A part that begins takes its lock, and then looks for this.
        documents::mark(&self.root, Parts { finishing: true, ..run.parts })?;
        let look = || {
            Lock::look_below(&self.root)?;
            let found = find(&self.root, &run.own, run.parts)?;
            run.refuse_lacking(self.options.incomplete, &found).map(|()| found)
        };
        look().inspect_err(|_| {
            // Shards that an earlier call has moved stay those of a run that is closed.
            let _ = documents::mark(&self.root, run.parts);
        })
    }

    /// Of a run that is finished: removes what a call that was killed at its very end has left.
    fn tidy(&self, run: &Run, found: &[FoundPart]) -> Result<PartsFinished> {
        let ended: Vec<_> = found.iter().filter(|part| part.is_ended() && part.was_taken(run.parts)).collect();
        self.remove(&ended)?;
        let own = &run.own;
        let finished = Finished {
            frames: own.frames.unwrap_or(0),
            missing: Ranges::new(own.missing.clone()),
            frames_missing: own.frames_missing,
            chunks: own.chunks.unwrap_or(0),
            shape: run.array.shape().to_vec(),
            is_whole: own.complete,
        };
        Ok(told(&finished, &[], vec!["was finished before".to_owned()]))
    }

    /// Removes parts of which everything is in the run, and their group when none is left.
    fn remove(&self, parts: &[&FoundPart]) -> Result<()> {
        let group = self.root.join(PARTS);
        for part in parts {
            // By its document, a call that goes on from here knows what is left of it.
            for folder in look::list(&part.folder)?.iter().filter(|path| path.is_dir()) {
                remove_folder(folder)?;
            }
            remove_folder(&part.folder)?;
        }
        let others = std::fs::read_dir(&group).into_iter().flatten().flatten();
        if others.filter(|entry| entry.file_name() != zarr3::DOCUMENT).count() == 0 {
            remove_folder(&group)?;
        }
        Ok(())
    }
}

fn told(finished: &Finished, found: &[FoundPart], notes: Vec<String>) -> PartsFinished {
    let of = |part: &FoundPart| PartFinished { index: part.index, state: part.state, frames: part.frames_came() };
    PartsFinished {
        shape: finished.shape.clone(),
        frames: finished.frames,
        frames_missing: finished.frames_missing,
        missing: finished.told(),
        chunks: finished.chunks,
        chunks_lost: 0,
        parts: found.iter().map(of).collect(),
        notes,
    }
}
