//! The threads of a dataset: how they are started, what they work for, and how they end.
//!
//! All images of a dataset share them. An image [begins](Pool::begin) and ends while others go on; workers take the
//! images that have complete layers in turn.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex as StdMutex};
use std::thread::{Builder, JoinHandle, ThreadId};

use super::closings::Closings;
use super::counters::StageTimes;
use super::feed::Feed;
use super::halves::Spares;
use super::kits::KitSupply;
use super::messages::{ClosingOf, PrepareBlock, StoredOf, Ticket};
use super::open_files::OpenFiles;
use super::pump::Engine;
use super::rings::{RingSource, Rings};
use super::served::{self, Roster, Served};
use super::shared::Ports;
use super::worker::Worker;
use super::{closer, feeder, preparer};
use crate::config::Config;
use crate::dataset::image::ImageWriter;
use crate::downsample::halver::Halver;
use crate::error::{Error, Result};
use crate::format::level_frames::LevelFrames;
use crate::fs::system::{prefer_throughput, stay_on_core};
use crate::plan::Plan;
use crate::sync::{Lanes, Receiver, Unpoisoned};

/// What the thread that closes has room for without taking memory.
const CLOSINGS: usize = 1 << 10;

thread_local! {
    static OF_A_RUN: Cell<bool> = const { Cell::new(false) };
}

/// The threads of a dataset and the ends of their queues.
pub(crate) struct Pool {
    /// On behalf of which dataset.
    path: PathBuf,
    pub(crate) workers: usize,
    bounds: Bounds,
    tickets: Arc<Lanes<Ticket>>,
    requests: Arc<Lanes<PrepareBlock>>,
    closings: Arc<Closings<ClosingOf>>,
    times: Arc<[StageTimes]>,
    roster: Arc<Roster>,
    supply: Arc<KitSupply>,
    rings: Rings,
    /// Nobody but the thread that feeds levels takes buffers from these, so it never finds a part of what it needs.
    level_rings: Rings,
    stored: Arc<Closings<StoredOf>>,
    /// For that thread, until it is started.
    to_feed: StdMutex<Option<Receiver<StoredOf>>>,
    spares: Arc<Spares>,
    open_files: Arc<OpenFiles>,
    numbers: AtomicU32,
    threads: StdMutex<Threads>,
}

/// What there may be of images and their files at the same time.
pub(crate) struct Bounds {
    pub(crate) images: usize,
    /// Each level of an image counts.
    pub(crate) arrays: usize,
    pub(crate) open_files: usize,
}

impl Bounds {
    /// Refuses so many images, which are this many arrays with their levels.
    fn check(&self, images: usize, arrays: usize) -> Result<()> {
        let Self { images: images_max, arrays: arrays_max, .. } = *self;
        let at_most = "can be acquired at the same time in one dataset";
        let reason = match () {
            () if images > images_max => format!("at most {images_max} images {at_most}"),
            () if arrays > arrays_max => {
                format!("with the levels of pyramids they are {arrays} arrays, of which at most {arrays_max} {at_most}")
            }
            () => return Ok(()),
        };
        Err(Error::config("images", images, reason))
    }
}

#[derive(Default)]
struct Threads {
    workers: Vec<JoinHandle<()>>,
    /// Those that prepare, close, and feed levels.
    others: Vec<JoinHandle<()>>,
}

/// An image that threads work for.
pub(crate) struct Begun {
    served: Arc<Served>,
}

impl Pool {
    /// Starts the threads. If one of them can't be had, none is left running.
    pub(crate) fn start(path: &Path, config: &Config, workers: usize, bounds: Bounds) -> Result<Self> {
        let (closings, to_close) = Closings::new(CLOSINGS);
        let (stored, to_feed) = Closings::new(CLOSINGS);
        let of = path.to_path_buf();
        let supply = Arc::new(KitSupply::new(workers, Box::new(move |name, run| spawn(&of, name, run))));
        let pool = Self {
            path: path.to_path_buf(),
            workers,
            // Of the layers that were begun, each worker has sent on one ticket at most.
            tickets: Lanes::new(bounds.arrays, 2 * workers + 2),
            requests: Lanes::new(bounds.arrays, 1),
            closings: Arc::new(closings),
            times: StageTimes::all(workers),
            roster: Arc::default(),
            supply,
            rings: Rings::default(),
            level_rings: Rings::default(),
            stored: Arc::new(stored),
            to_feed: StdMutex::new(Some(to_feed)),
            spares: Arc::default(),
            open_files: OpenFiles::new(bounds.open_files),
            bounds,
            numbers: AtomicU32::new(0),
            threads: StdMutex::default(),
        };
        pool.start_all(config, to_close)?;
        Ok(pool)
    }

    fn start_all(&self, config: &Config, to_close: Receiver<ClosingOf>) -> Result<()> {
        let mut threads = self.threads.lock().unpoisoned();
        for index in 0..self.workers {
            let worker = Worker::new(index, self.tickets.clone(), self.roster.clone(), self.supply.clone());
            let core = config.affinity.get(index % config.affinity.len().max(1)).copied();
            let run = move || {
                core.into_iter().for_each(stay_on_core);
                worker.run();
            };
            threads.workers.push(spawn(&self.path, format!("sw-worker-{index}"), run)?);
        }
        let (requests, roster) = (self.requests.clone(), self.roster.clone());
        let (supply, open_files) = (self.supply.clone(), self.open_files.clone());
        let prepare = move || preparer::run(&requests, &roster, &supply, &open_files);
        threads.others.push(spawn(&self.path, "sw-prepare".into(), prepare)?);
        let (closings, roster) = (self.closings.clone(), self.roster.clone());
        let close = move || closer::run(&closings, &to_close, &roster);
        threads.others.push(spawn(&self.path, "sw-close".into(), close)?);
        Ok(())
    }

    /// Lets what `below` stores become frames of the level `above` from now on.
    pub(crate) fn lead(&self, below: &Begun, above: &Begun, halver: Halver, frames: LevelFrames) -> Result<()> {
        let to_feed = self.to_feed.lock().unpoisoned().take();
        if let Some(to_feed) = to_feed {
            let (stored, roster) = (self.stored.clone(), self.roster.clone());
            let thread = spawn(&self.path, "sw-levels".into(), move || feeder::run(&stored, &to_feed, &roster))?;
            self.threads.lock().unpoisoned().others.push(thread);
        }
        let of = &below.served;
        let feed = Feed::new(&of.engine, &above.served.engine, halver, frames, &self.spares);
        let is_first = of.feed.set(StdMutex::new(feed)).is_ok();
        debug_assert!(is_first, "a level has one above");
        let _ = of.engine.next_level.set(self.stored.clone());
        Ok(())
    }

    /// Refuses so many images more, which are this many arrays with their levels.
    pub(crate) fn check_room(&self, images: usize, arrays: usize) -> Result<()> {
        self.bounds.check(self.roster.images() + images, self.roster.count() + arrays)
    }

    /// Begins with an image whose documents are written: takes everything that its run needs, and, unless it shall be
    /// `late`, creates its first shards. Here, so that a full disk or a read-only folder is an error of whoever begins.
    /// `level_of`: of a level of a pyramid, its level 0.
    pub(crate) fn begin(
        &self,
        image: &Arc<ImageWriter>,
        plan: &Arc<Plan>,
        config: &Config,
        ring: RingSource,
        late: bool,
        level_of: Option<&Begun>,
    ) -> Result<(Arc<Engine>, Begun)> {
        self.check_room(usize::from(level_of.is_none()), 1)?;
        let number = self.numbers.fetch_add(1, Relaxed);
        let ports = Ports {
            image: number,
            tickets: self.tickets.clone(),
            requests: self.requests.clone(),
            closings: self.closings.clone(),
            clock: self.open_files.clock.clone(),
            times: self.times.clone(),
            level_of: level_of.map(|of| &of.served.engine).map(|of| (of.first_error.clone(), of.aborting.clone())),
        };
        let rings = if level_of.is_some() { &self.level_rings } else { &self.rings };
        let ring = rings.ring(plan, ring, self.rings.bytes() + self.level_rings.bytes())?;
        let (engine, ends) = Engine::new(image, plan, config, ring, &ports)?;
        let open_files = self.open_files.clone();
        let is_level = level_of.is_some();
        let served = Arc::new(Served::new(number, engine.clone(), image.clone(), config, (ends, is_level), open_files));
        self.open_files.extend(served.files_beside());
        let first = if late { None } else { served.permit() };
        if let Some(permit) = first {
            let block = preparer::create_block(&served, 0, permit)?;
            served.provide_kit(&self.supply, &block)?;
            served.live.add(engine.plan.shards.cells_a_block);
            let sent = served.ends.deliver.try_send(block);
            debug_assert!(sent.is_ok(), "the queue is empty");
            self.roster.add(served.clone());
            engine.sequencer.lock().unpoisoned().blocks.begin();
        } else {
            self.roster.add(served.clone());
        }
        served.begin();
        if let Some(finest) = level_of {
            finest.served.levels.lock().unpoisoned().push(served.clone());
        }
        Ok((engine, Begun { served }))
    }

    /// Waits until nothing of these images is with any thread, and all their shards are closed. No frame may come any
    /// more, and the sequencers must have been flushed.
    pub(crate) fn end(&self, images: &[&Begun]) {
        let images: Vec<_> = images.iter().map(|begun| &*begun.served).collect();
        served::end(&images);
        served::settle_levels(&images);
        for of in images {
            of.feed.get().into_iter().for_each(|feed| feed.lock().unpoisoned().end());
            self.roster.remove(of.number);
            self.open_files.shrink(of.files_beside());
        }
    }

    /// As [`end`](Self::end), of images of any pools: those of one together.
    pub(crate) fn end_all(running: Vec<(Arc<Self>, Begun)>) {
        let mut rest: Vec<&(Arc<Self>, Begun)> = running.iter().collect();
        while let Some((pool, _)) = rest.first() {
            let (of_pool, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(other, _)| Arc::ptr_eq(other, pool));
            pool.end(&of_pool.iter().map(|(_, begun)| begun).collect::<Vec<_>>());
            rest = others;
        }
    }

    /// Whether the calling thread is one of these.
    pub(crate) fn has_this_thread(&self) -> bool {
        let this: ThreadId = std::thread::current().id();
        let Threads { workers, others } = &*self.threads.lock().unpoisoned();
        workers.iter().chain(others).any(|thread| thread.thread().id() == this) || self.supply.has_thread(this)
    }

    /// Whether the calling thread is one of some run.
    pub(crate) fn is_one_of_any() -> bool {
        OF_A_RUN.get()
    }
}

impl Drop for Pool {
    /// Ends all threads in the order in which they feed each other.
    fn drop(&mut self) {
        self.tickets.end();
        self.requests.end();
        self.closings.put(None);
        self.stored.put(None);
        let Threads { workers, others } = std::mem::take(&mut *self.threads.lock().unpoisoned());
        let writers = self.supply.end();
        if Self::is_one_of_any() {
            // It would wait for itself. All images have ended, so they have nothing left to do.
            return;
        }
        workers.into_iter().chain(writers).chain(others).for_each(|thread| drop(thread.join()));
    }
}

/// Starts one of a pool's threads, on behalf of the dataset at `path`.
fn spawn(path: &Path, name: String, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let run = move || {
        OF_A_RUN.set(true);
        prefer_throughput();
        run();
    };
    Builder::new().name(name).spawn(run).map_err(|e| Error::io("start a thread for", path, e))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn levels_do_not_count_as_images() {
        let bounds = Bounds { images: 4, arrays: 10, open_files: 1 };
        assert!(bounds.check(4, 10).is_ok());
        let said = |images, arrays| bounds.check(images, arrays).unwrap_err().to_string();
        assert!(said(5, 5).contains("at most 4 images"), "{}", said(5, 5));
        assert!(said(4, 11).contains("they are 11 arrays, of which at most 10"), "{}", said(4, 11));
    }
}
