//! Pyramids: levels of an image that is there, each half as large as the one before.
//!
//! ```text
//! .run.ome.zarr.pyramid/      hidden, beside the image
//!     journal.json            of what the levels are made: by this a later call knows whether it may go on here
//!     tree/1/c/…, tree/2/c/…  finished shards, as those of a repacking
//!     publish.json            all levels are complete, and are about to get their names
//!     old/                    levels that were replaced
//! ```
//!
//! The image's document names only what is there at any moment: where levels are replaced, it first names level 0
//! alone, then the old ones go and the new ones come, and at last it names them.

mod advice;
mod image;
mod labels;
mod level;
mod options;
mod planned;
mod publish;
mod replaceable;

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use rayon::ThreadPool;
use serde_json::{Map, Value, json};

use crate::downsample::Method;
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::format::provenance::is_unfinished;
use crate::format::{self, Metadata, zarr3};
use crate::fs::{self as os, Lock, attributes, document, links, look};
use crate::offline::array::Array;
use crate::offline::halving::Halving;
use crate::offline::progress::{Progress, ProgressCounters, controls, pool};
use crate::offline::repack::change::Change;
use crate::offline::repack::lanes::ShardLanes;
use crate::offline::repack::staging::{self, Staging};
use crate::offline::repack::{RepackSummary, documents, lock, space};
use crate::offline::unfinished_parts::refuse_unfinished_parts;
use crate::sync::Unpoisoned;
use crate::words::{quoted, quoted_list};
use image::{MultiscaleImage, NewLevel, group};
pub(super) use level::{EarlierLevels, PlannedLevel, document_of, level};
pub(super) use options::directions;
pub use options::{Depth, PyramidLevel, PyramidOptions, PyramidSummary};
use publish::{Earlier, Publication};

/// Levels of an image that were checked and can be made.
///
/// ```no_run
/// use shardwright::offline::{Pyramid, PyramidOptions};
///
/// let summary = Pyramid::new("run.ome.zarr", &PyramidOptions::default())?.run()?;
/// println!("{} levels beside level 0", summary.levels.len());
/// # Ok::<(), shardwright::Error>(())
/// ```
#[derive(Debug)]
pub struct Pyramid {
    publication: Publication,
    earlier: Earlier,
    dtype: Dtype,
    pool: Arc<ThreadPool>,
    counters: ProgressCounters,
    /// Until the end of its run.
    lock: Mutex<Option<Lock>>,
}

controls!(Pyramid);

impl Pyramid {
    /// Looks at the image of OME-Zarr 0.5 or 0.6 at `path`, or the only one below, and checks what is asked for;
    /// nothing is written yet.
    ///
    /// Every level is made of the one before, as during an acquisition, by 2 in the last two dimensions, y and x, or
    /// one of them, and perhaps in z before them, and has the chunks, shards and codecs of level 0. Where lengths are
    /// odd, the last pixels are made of those that are there.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] when there is no image, or several; [`Error::Exists`] when it has levels already and is to
    /// get others (those of an earlier call with the same options are no error, and nothing is made then), unless the
    /// options say to overwrite, or when something that it does not list has the name of a new one; [`Error::Locked`]
    /// when somebody writes the dataset; [`Error::Config`] for a memory that is too small, for distances that can't be
    /// compared, and for axes whose names are x, y or z where others are halved; [`Error::Unsupported`] for other
    /// formats and elements that can't be halved; [`Error::Format`] when what is there can't be read, or chunks that
    /// its writer counted are not there; [`Error::Unfinished`] when its writer did not finish; [`Error::Conflict`] when
    /// a level that is replaced holds more than it may.
    pub fn new(path: impl AsRef<Path>, options: &PyramidOptions) -> Result<Self> {
        options.check()?;
        let path = path.as_ref();
        look::refuse_archive(path)?;
        let root = path.canonicalize().map_err(|error| Error::io("open", path, error))?;
        links::enter(&root);
        // What is none is left alone; nothing else is believed before the lock is held.
        group(&root)?;
        let lock = lock::to_write(&root)?;
        Lock::look_below(&root)?;
        // Of a call that was killed at its very end, a refused one leaves nothing either.
        let sweep = |image: &Path| Staging::sweep(&os::hidden(image, "pyramid"));
        let image = MultiscaleImage::find(&root).inspect_err(|_| sweep(&root))?;
        let image_root = image.root.clone();
        Self::of_image(image, lock, options).inspect_err(|_| sweep(&image_root))
    }

    fn of_image(image: MultiscaleImage, lock: Lock, options: &PyramidOptions) -> Result<Self> {
        image.check_datasets()?;
        refuse_incomplete(&image.root)?;
        if let Some(lost) = image.finest.lost()? {
            let help = "bring them back, or give them up by repacking with the option `incomplete`";
            return Err(Error::format(image.finest.path(), format!("{lost}; {help}")));
        }
        let Some(dtype) = image.finest.dtype().number() else {
            let dtype = image.finest.dtype();
            let reason =
                format!("its elements are {dtype}; levels are made of integers of 8 to 64 bits, float32 and float64");
            return Err(Error::unsupported(&image.root, reason));
        };
        let options = options.with_method(image.is_label);
        let staging = os::hidden(&image.root, "pyramid");
        let own = publish::own_attributes(&image, &staging)?;
        let levels = image.levels(&options, &own)?;
        let journal = journal(&image.finest, &levels, options.downsampling().method)?;
        let total = levels.iter().map(|level| bytes_of(&level.metadata)).fold(0, u64::saturating_add);
        let publication = Publication { image, staging, levels, options, journal, own };
        let earlier = publication.look_for_earlier()?;
        let pool = Arc::new(pool(publication.options.workers)?);
        let (counters, lock) = (ProgressCounters::of(total), Mutex::new(Some(lock)));
        let pyramid = Self { publication, earlier, dtype, pool, counters, lock };
        // A memory that is too small is refused before anything is made.
        if !pyramid.publication.levels.is_empty() {
            pyramid.lanes(&pyramid.change(0)?, 1)?;
        }
        Ok(pyramid)
    }

    /// What somebody should know before the levels are made, as sentences: which others are removed, which keep
    /// attributes, and which labels of the image have not as many.
    pub fn notes(&self) -> Vec<String> {
        let Publication { image, levels, options, own, .. } = &self.publication;
        if levels.is_empty() {
            return self.note_of_kept().into_iter().collect();
        }
        let mut notes: Vec<_> = self.note_of_method().into_iter().chain(self.note_of_removed()).collect();
        for (NewLevel { told, .. }, own) in levels.iter().zip(own).filter(|(_, own)| !own.is_empty()) {
            let (level, keys) = (quoted(&told.path), quoted_list(own.keys()));
            notes.push(format!("{level} keeps its attributes ({keys}), also those that speak of its old pixels"));
        }
        notes.extend(labels::notes(&image.root, levels.len(), options));
        notes
    }

    fn note_of_method(&self) -> Option<String> {
        let method = self.method();
        let mixes = self.publication.image.is_label && matches!(method, Method::Mean | Method::Median);
        mixes.then(|| {
            format!("{method} makes values that no label has; mode, decimate, min and max take one that is there")
        })
    }

    fn note_of_kept(&self) -> Option<String> {
        let kept = &self.publication.image.datasets[1..];
        let (of, stay) = if kept.len() == 1 { ("level", "stays as it is") } else { ("levels", "stay as they are") };
        let help = "level 0 is small enough without more, and the option `levels` makes some all the same";
        (!kept.is_empty()).then(|| format!("the {of} {} {stay}: {help}", quoted_list(kept)))
    }

    fn note_of_removed(&self) -> Option<String> {
        let stays = |path: &&String| self.publication.levels.iter().any(|level| level.told.path == **path);
        let removed: Vec<_> = self.earlier.replaced.iter().filter(|path| !stays(path)).collect();
        let (of, are) = if removed.len() == 1 { ("level", "is") } else { ("levels", "are") };
        (!removed.is_empty()).then(|| {
            let names = quoted_list(&removed);
            format!("the {of} {names} {are} removed: the image gets fewer than it has")
        })
    }

    fn method(&self) -> Method {
        self.publication.options.downsampling().method
    }

    /// Makes the levels. Several shards are in the making at once, each with several chunks on their way.
    ///
    /// # Errors
    ///
    /// The first error ends the work: a damaged chunk, a full disk, a shard that reads back otherwise than it was
    /// written. The image is as it was then, and a new `Pyramid` goes on after the shards that are finished. Only the
    /// first call works, also after [`stop`](Self::stop); another one is refused with [`Error::Conflict`]. When it
    /// ends, the dataset is locked no longer.
    pub fn run(&self) -> Result<PyramidSummary> {
        self.counters.begin_only_run("Pyramid", &self.publication.image.root)?;
        let _lock = self.lock.lock().unpoisoned().take();
        if !self.earlier.made {
            Staging::refuse_plan(&self.publication.staging, None)?;
        }
        self.work(&|| self.make()).map_err(|error| space::how_to_go_on(error, Some(&self.publication.staging)))
    }

    fn summary(&self, totals: RepackSummary) -> PyramidSummary {
        let Publication { image, levels, .. } = &self.publication;
        let RepackSummary { shards_written, shards_found, chunks, bytes, .. } = totals;
        PyramidSummary {
            image: image.name.clone(),
            levels: levels.iter().map(|level| level.told.clone()).collect(),
            method: self.method(),
            bytes_pixels: bytes_of(image.finest.metadata()),
            shards_written,
            shards_found,
            chunks,
            bytes,
            already_done: self.earlier.done,
        }
    }

    /// `make`: makes all levels, in the staging folder.
    fn work(&self, make: &dyn Fn() -> Result<RepackSummary>) -> Result<PyramidSummary> {
        let (publication, Earlier { made, replaced, done }) = (&self.publication, &self.earlier);
        let levels = &publication.levels;
        let mut totals = RepackSummary::default();
        if *done {
            self.counters.find_all();
            // A kill at the very end of that call may have left it.
            Staging::sweep(&publication.staging);
        }
        if levels.is_empty() || *done {
            return Ok(self.summary(totals));
        }
        if !made {
            publication.forget_earlier(replaced)?;
        }
        let staging = Staging::open(&publication.staging, &publication.journal, publication.options.sync)?;
        if !made {
            totals = make()?;
            publication.announce(replaced)?;
        }
        self.counters.go_on()?;
        publication.publish(replaced)?;
        staging.finish()?;
        Ok(self.summary(totals))
    }

    /// Makes level after level, in the staging folder.
    fn make(&self) -> Result<RepackSummary> {
        let levels = &self.publication.levels;
        let totals = Mutex::new(RepackSummary::default());
        for (number, NewLevel { metadata, .. }) in levels.iter().enumerate() {
            let change = self.change(number)?;
            let todo: Vec<_> = change.positions()?.into_iter().map(|position| (0, position)).collect();
            let pixels = todo.iter().map(|(_, position)| change.pixel_bytes(position)).fold(0, u64::saturating_add);
            // Where nothing is to be read, nothing is to be made.
            self.counters.done.fetch_add(bytes_of(metadata).saturating_sub(pixels), Relaxed);
            let made = |_, outcome| totals.lock().unpoisoned().add(outcome);
            self.lanes(&change, todo.len())?.make(&[&change], &todo, &self.counters, made)?;
            self.complete(number)?;
        }
        Ok(totals.into_inner().unpoisoned())
    }

    /// Makes a level complete whose shards are all there.
    fn complete(&self, number: usize) -> Result<()> {
        let Publication { image, staging, levels, .. } = &self.publication;
        let (NewLevel { told, document, .. }, finest) = (&levels[number], &image.finest);
        let place = Staging::place(staging, &told.path);
        documents::put(&place.join(zarr3::DOCUMENT), document)?;
        attributes::belong(&place, finest.folder(), finest.document())
            .map_err(|error| Error::io("set the modes and owners below", place, error))
    }

    fn lanes(&self, change: &Change, shards: usize) -> Result<ShardLanes> {
        let PyramidOptions { memory_bytes, workers, .. } = self.publication.options;
        ShardLanes::new(&[change], shards, memory_bytes, workers)
    }

    /// One level, made of the one before.
    fn change(&self, number: usize) -> Result<Change> {
        let Publication { image, staging, levels, options, .. } = &self.publication;
        let made = |number: usize| {
            let NewLevel { told, metadata, .. } = &levels[number];
            let place = Staging::place(staging, &told.path);
            Array::with(&place, &place, place.join(zarr3::DOCUMENT), metadata.clone())
        };
        let source = match number.checked_sub(1) {
            Some(before) => made(before),
            None => Array::open(image.finest.path())?,
        };
        let halving = Halving::new(self.method(), self.dtype, &levels[number].steps);
        Change::halved(source, made(number), halving, options.sync, self.pool.clone())
    }
}

fn journal(finest: &Array, levels: &[NewLevel], method: Method) -> Result<Map<String, Value>> {
    let (source, fingerprint) = (finest.path().display().to_string(), staging::fingerprint(finest)?);
    let entry = |NewLevel { told, steps, document, .. }: &NewLevel| {
        let made_of = json!({
            "source": source, "fingerprint": fingerprint, "document": document, "steps": steps, "method": method,
        });
        (told.path.clone(), made_of)
    };
    Ok(levels.iter().map(entry).collect())
}

fn bytes_of(metadata: &Metadata) -> u64 {
    format::bytes(&metadata.layout.shape, metadata.dtype).unwrap_or(u64::MAX)
}

/// Frames that a recovery finds would be missing in the levels.
fn refuse_incomplete(root: &Path) -> Result<()> {
    let document = document::read(&root.join(zarr3::DOCUMENT))?.unwrap_or_default();
    refuse_unfinished_parts(root)?;
    if is_unfinished(&document["attributes"]) {
        return Err(Error::unfinished(root, "its writer did not finish; recover it first"));
    }
    Ok(())
}
