//! The lifecycle of one acquisition: create, acquire, commit, finish, abort.

pub(crate) mod append;
pub(crate) mod dataset;
pub(crate) mod end;
mod interleaved;
mod levels;
pub(crate) mod parts;
mod planned;
#[cfg(feature = "offline")]
mod read;
mod roi;
mod room;
mod watch;

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::aligned_memory::RingBuffers;
use crate::config::{Config, RingFull};
use crate::dataset::Root;
use crate::dataset::around::Around;
use crate::dataset::image::ImageWriter;
use crate::engine::pool::{Begun, Bounds, Pool};
use crate::engine::rings::RingSource;
use crate::engine::{Engine, Listener};
use crate::error::{Contained, Error, Result, caught, logged};
use crate::frame::{FrameMut, FrameView, Lender};
use crate::json as exact;
use crate::manifest::Manifest;
use crate::ome;
use crate::plan::Plan;
use crate::record::Record;
use crate::replaceable::refuse_run_in_parts;
use crate::ring::Loan;
use crate::stats::{StageLatency, Stats};
use crate::storage::Storage;
use crate::sync::Unpoisoned;
use crate::words::quoted;
use levels::Levels;
use planned::{Planned, refuse_key, refuse_label, refuse_part, refuse_plate};
pub(crate) use planned::{plan_with, refuse_bare};

// How often a thread that waits for a free buffer looks whether the run has failed or ended meanwhile.
const LOOK_UP_EVERY: Duration = Duration::from_millis(20);

/// One running acquisition of one image.
///
/// All methods may be called from several threads. Dropping it ends the run as [`finish`](Self::finish) does, except
/// that nobody hears about errors; the destructor of the C++ wrapper aborts it instead.
///
/// ```no_run
/// use shardwright::{Acquisition, Config, Dim, Record};
/// # fn camera_reads_into(_: &mut [u8]) {}
///
/// let dims = vec![Dim::time(None), Dim::y(2048), Dim::x(2048)];
/// let acquisition = Acquisition::create("run.ome.zarr", Config { dims, ..Config::default() })?;
/// for number in 0..1000 {
///     let mut frame = acquisition.acquire()?;
///     camera_reads_into(&mut frame);
///     frame.commit(number, Record::default())?;
/// }
/// let summary = acquisition.finish()?;
/// assert_eq!(summary.frames_missing, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Acquisition {
    /// What lives on when the run has ended: counters, the ring, the plan.
    pub(crate) engine: Arc<Engine>,
    image: Arc<ImageWriter>,
    pub(crate) ring_full: RingFull,
    lender: Arc<Lender>,
    /// Its threads, until it has ended.
    running: Option<(Arc<Pool>, Begun)>,
    levels: Levels,
    notes: Vec<String>,
    manifest: Option<Manifest>,
    /// Whether the end is told to those who watch; else that is the business of whoever ends it.
    pub(crate) tells_end: bool,
}

impl Acquisition {
    /// Creates the dataset `path` with one image and starts its acquisition: a folder, or [one
    /// file](crate::guide::formats) if its name ends in `.ozx`.
    ///
    /// Folders on the way there are made; with [`Config::key`], the path is that of a hierarchy, which may be another
    /// writer's. On return the dataset can be opened by readers, the ring's memory is there, and the first shard is
    /// reserved on the disk. If anything fails, nothing is left behind. A ring of 1 GiB takes 0.3 to 3 s to make, as
    /// fast as the system finds the memory: create the acquisition before the camera is started.
    ///
    /// A process that ends without [`finish`](Self::finish) leaves a dataset as a kill would: what the last checkpoint
    /// made durable is there, and [`recover`](crate::guide::command_line) restores the rest of what was stored.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with the field and the value that can't work, also for a path where no reader would find the
    /// dataset, or among the chunks of an array. Where the path can't be used, [`Error::Exists`] for a dataset,
    /// [`Error::Conflict`] for anything else that stands there, [`Error::NotFound`] for an empty one, [`Error::Locked`]
    /// or [`Error::Io`].
    pub fn create(path: impl AsRef<Path>, config: Config) -> Result<Self> {
        Self::create_at(path.as_ref(), config, None)
    }

    /// As [`create`](Self::create), with frame buffers of the caller's own as the ring, whatever
    /// [`Config::ring_bytes`] says.
    ///
    /// # Errors
    ///
    /// As `create`; [`Error::Config`] for buffers that are too small or too few.
    pub fn create_with_buffers(path: impl AsRef<Path>, config: Config, buffers: RingBuffers) -> Result<Self> {
        Self::create_at(path.as_ref(), config, Some(buffers))
    }

    pub(crate) fn create_at(path: &Path, mut config: Config, buffers: Option<RingBuffers>) -> Result<Self> {
        if let Some(part) = config.part {
            let (root, config) = parts::begin(path, config, part, buffers.as_ref())?;
            return Self::start_alone(root, config, buffers);
        }
        // Before anything is touched: what can't work shall leave no trace.
        plan_with(&mut config, buffers.as_ref())?;
        refuse_plate(&config)?;
        refuse_label(&config)?;
        refuse_bare(Some(path), &config)?;
        refuse_run_in_parts(path)?;
        let manifest = Manifest::requested(path, &config)?;
        let around = config.key.as_ref().map(|key| Around::look(path, key, &config)).transpose()?;
        let root = Root::create_within(path, around.as_ref(), config.overwrite)?;
        let mut acquisition = Self::start_alone(root, config, buffers)?;
        acquisition.manifest = manifest;
        acquisition.notes.extend(around.into_iter().flat_map(|around| around.notes));
        Ok(acquisition)
    }

    /// Creates a dataset with one image in a storage of the caller's own. What is in it is never replaced, whatever
    /// [`Config::overwrite`] says.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with the field and the value that can't work, among them what needs a path: `key` and
    /// `manifest`. [`Error::StorageUsed`] when there is [something in it](Storage::is_used) already, [`Error::Io`] with
    /// what it refused, and [`Error::Panicked`] when a call of it panics.
    pub fn create_in(storage: Arc<dyn Storage>, config: Config) -> Result<Self> {
        Self::create_within(storage, config, None)
    }

    /// As [`create_in`](Self::create_in), with frame buffers of the caller's own as the ring.
    ///
    /// # Errors
    ///
    /// As `create_in`; [`Error::Config`] for buffers that are too small or too few.
    pub fn create_in_with_buffers(storage: Arc<dyn Storage>, config: Config, buffers: RingBuffers) -> Result<Self> {
        Self::create_within(storage, config, Some(buffers))
    }

    pub(crate) fn create_within(
        storage: Arc<dyn Storage>,
        mut config: Config,
        buffers: Option<RingBuffers>,
    ) -> Result<Self> {
        plan_with(&mut config, buffers.as_ref())?;
        refuse_plate(&config)?;
        refuse_key(&config)?;
        refuse_label(&config)?;
        refuse_bare(None, &config)?;
        refuse_part(&config)?;
        Manifest::refuse(None, &config)?;
        Self::start_alone(Root::in_storage(storage, false)?, config, buffers)
    }

    /// Starts the one image of a dataset, with threads of its own.
    fn start_alone(root: Root, config: Config, buffers: Option<RingBuffers>) -> Result<Self> {
        let path = root.path().to_path_buf();
        let pool = |plan: &Plan| {
            // Its files were counted when it was planned.
            let bounds = Bounds { images: 1, arrays: 1 + plan.levels.len(), open_files: usize::MAX };
            Pool::start(&path, &config, plan.workers, bounds).map(Arc::new)
        };
        Self::start_in(Arc::new(root), None, config.clone(), RingSource::Own(buffers), pool)
    }

    fn start_in(
        root: Arc<Root>,
        name: Option<&str>,
        config: Config,
        ring: RingSource,
        pool: impl Fn(&Plan) -> Result<Arc<Pool>>,
    ) -> Result<Self> {
        let codec = planned::codec(&root, &config)?;
        let Planned { config, plan, choice } = Planned::new(config, codec, &ring)?;
        let room = room::look(&root, &config, &[&plan], false)?;
        let image = Arc::new(ImageWriter::create(root, name, config.clone(), &plan)?);
        let start = || Self::start_image(&image, &plan, &config, choice, (ring, false), pool(&plan)?);
        let mut started = caught(start).inspect_err(|_| image.undo(&plan))?;
        started.notes.extend(room);
        Ok(started)
    }

    /// Starts the acquisition of an image whose documents are written.
    fn start_image(
        image: &Arc<ImageWriter>,
        plan: &Arc<Plan>,
        config: &Config,
        codec_choice: Option<String>,
        (ring, late): (RingSource, bool),
        pool: Arc<Pool>,
    ) -> Result<Self> {
        let mut notes = Vec::new();
        if !config.bare {
            notes.extend(ome::left_out(config));
            notes.extend(ome::xml::unknown_units(&config.dims));
        }
        notes.extend(plan.ring.note.clone());
        let index = &plan.shard.index;
        if config.sync && index.head_bytes > 0 && !index.may_be_replaced_in_place() {
            let bytes = index.head_bytes;
            notes
                .push(format!("an index of {bytes} bytes at the start: frames are durable when their shard is closed"));
        }
        notes.extend(codec_choice.clone());
        let is_shared = matches!(ring, RingSource::Shared(_));
        let (engine, begun) = pool.begin(image, plan, config, ring, late, None)?;
        let levels = match Levels::start(image, plan, config, &pool, &begun, (is_shared, late)) {
            Ok(levels) => levels,
            Err(error) => {
                engine.aborting.store(true, Relaxed);
                Engine::drain([&engine]);
                pool.end(&[&begun]);
                return Err(error);
            }
        };
        let lender = Lender { engine: engine.clone(), started: OnceLock::new(), keep: image.root().keep.clone() };
        logged(|| {
            tracing::info!(
                dataset = %image.root().path().display(),
                storage = image.storage_choice,
                codec = codec_choice.as_deref().unwrap_or("as configured"),
                chunk = ?plan.array.layout.chunk_shape,
                shard = ?plan.array.layout.file_shape,
                ring_frames = engine.ring.frames(),
                workers = plan.workers,
                "an acquisition begins"
            );
        });
        Ok(Self {
            ring_full: config.ring_full,
            lender: Arc::new(lender),
            running: Some((pool, begun)),
            levels,
            notes,
            engine,
            image: image.clone(),
            manifest: None,
            tells_end: true,
        })
    }

    /// Loans a free frame buffer, for the camera to fill in place.
    ///
    /// # Errors
    ///
    /// [`Error::RingFull`] when none is free and the policy does not wait, or has waited long enough; the call may be
    /// repeated. Under [`RingFull::DropNewest`] it means that the frame should be let go: its number, never committed,
    /// will be recorded as missing. Otherwise the first error of the run, or [`Error::Ended`].
    pub fn acquire(&self) -> Result<FrameMut> {
        self.acquire_within(self.patience()).inspect_err(|error| self.count_dropped(error))
    }

    /// A frame that finds the ring full is let go, where that is the policy.
    pub(crate) fn count_dropped(&self, error: &Error) {
        if error.is_ring_full() && self.ring_full == RingFull::DropNewest {
            let frames = self.engine.plan.frame.samples() as u64;
            self.engine.counters.frames_dropped.fetch_add(frames, Relaxed);
            self.engine.counters.dropped_unnumbered.fetch_add(frames, Relaxed);
        }
    }

    /// How long a call may wait for a free buffer. `None`: for ever.
    fn patience(&self) -> Option<Duration> {
        match self.ring_full {
            RingFull::Block { timeout } => timeout,
            RingFull::DropNewest | RingFull::Error => Some(Duration::ZERO),
        }
    }

    /// As [`acquire`](Self::acquire), but never waits, and a full ring is not counted as a dropped frame: the caller
    /// may try again.
    pub fn try_acquire(&self) -> Result<FrameMut> {
        self.acquire_within(Some(Duration::ZERO))
    }

    /// As [`try_acquire`](Self::try_acquire), but waits at most so long, whatever the configuration says.
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<FrameMut> {
        self.acquire_within(Some(timeout))
    }

    /// `None`: waits for ever.
    pub(crate) fn acquire_within(&self, wait: Option<Duration>) -> Result<FrameMut> {
        self.check()?;
        // With small frames, looking at the clock is a good part of the work.
        let (loan, acquired_in_ns) = match self.engine.ring.try_loan() {
            Some(loan) => (loan, 0),
            None => {
                let start = Instant::now();
                (self.wait_for_loan(start, wait)?, start.elapsed().as_nanos() as u64)
            }
        };
        let dropped_before = self.engine.counters.dropped_unnumbered.load(Relaxed);
        Ok(FrameMut { loan, acquired_in_ns, dropped_before, lender: self.lender.clone(), roi: None })
    }

    fn wait_for_loan(&self, start: Instant, wait: Option<Duration>) -> Result<Loan> {
        let ring = &self.engine.ring;
        self.engine.wake_if_work_waits();
        self.engine.relieve();
        if wait == Some(Duration::ZERO) {
            return Err(self.engine.ring_full(Duration::ZERO));
        }
        loop {
            let left = wait.map(|wait| wait.saturating_sub(start.elapsed()));
            match ring.loan_within(left.unwrap_or(LOOK_UP_EVERY).min(LOOK_UP_EVERY)) {
                Some(loan) => return Ok(loan),
                None if left == Some(Duration::ZERO) => return Err(self.engine.ring_full(start.elapsed())),
                None => {
                    self.check()?;
                    self.engine.relieve();
                }
            }
        }
    }

    fn check(&self) -> Result<()> {
        self.engine.first_error.check()?;
        if self.engine.gate.is_closed() { Err(Error::Ended) } else { Ok(()) }
    }

    /// The frame that was committed last, to be looked at while the workers encode it; `None` if none came yet, or if
    /// the workers were faster than this call.
    ///
    /// The writer never waits for a viewer, but as long as the view lives, its buffer is missing from the ring: copy
    /// what is to be shown, and drop it.
    pub fn newest(&self) -> Option<FrameView> {
        self.engine.ring.view_newest().map(|view| FrameView { view, part: self.engine.part })
    }

    /// Sets a user attribute of the image, at any time before [`finish`](Self::finish). It is in the dataset after the
    /// next checkpoint or closed shard, at the latest at finish.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for `ome` and `shardwright`, and in [`Dialect::Zarr2Sharded`](crate::Dialect) for
    /// `_ARRAY_DIMENSIONS`, which the writer itself sets; and for a value that is nested deeper than 64 levels.
    pub fn set_attribute(&self, key: &str, value: serde_json::Value) -> Result<()> {
        self.set_attribute_as_read(key, exact::as_read(value))
    }

    /// The same with a value as a document's reader has it.
    pub(crate) fn set_attribute_as_read(&self, key: &str, value: serde_json::Value) -> Result<()> {
        self.check()?;
        self.image.set_attribute(key, value)
    }

    /// Rows and columns of a frame as the array has it: of a [part](Config::part) of each frame, those of its band.
    pub fn frame_shape(&self) -> [u64; 2] {
        let shape = &self.engine.plan.array.layout.shape;
        [2, 1].map(|from_last| shape[shape.len() - from_last])
    }

    /// Bytes of one frame, or picture, without gaps between its rows, as [`append`](Self::append) takes it.
    pub fn frame_bytes(&self) -> usize {
        self.engine.plan.frame.bytes
    }

    /// Where the ring's buffers begin, by their [index](FrameMut::index), for devices that want to know all places
    /// before the first frame; where images share a ring, all of its buffers. A buffer may be filled only while it is
    /// on loan; the addresses are good as long as the acquisition, or a frame of it.
    pub fn buffer_addresses(&self) -> Vec<*mut u8> {
        let ring = &self.engine.ring;
        (0..ring.buffers().count as u32).map(|index| ring.address(index)).collect()
    }

    /// The place of a record field by its name, for [`Record::set`].
    ///
    /// # Errors
    ///
    /// [`Error::Record`], with the names that there are.
    pub fn record_field(&self, name: &str) -> Result<usize> {
        let fields = self.engine.plan.record.of_the_caller().iter().map(|field| field.name.as_str());
        fields.clone().position(|field| field == name).ok_or_else(|| {
            let names: Vec<_> = fields.collect();
            let reason = match names.len() {
                0 => "the configuration has no record fields".to_owned(),
                _ => format!("the configuration's record fields are {}", names.join(", ")),
            };
            Error::Record { field: quoted(name), reason }
        })
    }

    /// Whether frames can be committed with this record, for a caller that wants to know before it gives a frame away.
    ///
    /// # Errors
    ///
    /// [`Error::Record`] for a field that was not configured, and for a value that does not fit its field.
    pub fn check_record(&self, record: &Record) -> Result<()> {
        record.check(self.engine.plan.record.of_the_caller())
    }

    /// How many numbers a frame may come behind the newest one; what comes later is refused, and counts as missing. A
    /// driver that keeps nearly all buffers has missing numbers given up earlier: nothing else can free one for it.
    pub fn reorder_window(&self) -> u64 {
        self.engine.plan.ring.window
    }

    /// The shape of a chunk, with the automatic sizes filled in.
    pub fn chunk_shape(&self) -> &[u64] {
        &self.engine.plan.array.layout.chunk_shape
    }

    /// The shape of a shard, with the automatic sizes filled in.
    pub fn shard_shape(&self) -> &[u64] {
        &self.engine.plan.array.layout.file_shape
    }

    /// One more than the largest number that a frame has got so far, or that was given up: what the next one gets
    /// without a number of its own.
    pub fn next_number(&self) -> u64 {
        self.engine.told(self.engine.numbers.next())
    }

    /// Counters of this moment.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// How long each stage took until now, in the order of [`Stage::ALL`](crate::Stage::ALL). Unlike
    /// [`stats`](Self::stats) it takes memory. Images of a [`Dataset`](crate::Dataset) share their threads, and what is
    /// told is of all of them.
    pub fn latencies(&self) -> Vec<StageLatency> {
        self.engine.latencies()
    }

    /// Has `call` told the key of every shard that is closed from now on, also of levels, from the root of the dataset
    /// on: it is complete, and with [`Config::sync`] on the device. It is called by the thread that closes shards,
    /// which does nothing else meanwhile.
    ///
    /// A panic of it costs nothing and is told in [`Summary::notes`](crate::Summary::notes). It may drop or abort an
    /// acquisition, also this one's last handle; a thread of its own then ends that run, for which nobody waits. It
    /// can't [`finish`](Self::finish) its own. When the run has ended, it is dropped. What it owns lives until then, so
    /// a run whose last handle it owns never ends by itself: give it a [`Weak`](std::sync::Weak).
    ///
    /// # Errors
    ///
    /// [`Error::ListenerSet`] if a call before has set one.
    pub fn on_shard_closed(&self, call: impl Fn(&str) + Send + Sync + 'static) -> Result<()> {
        let mut listener = self.engine.shard_closed.lock().unpoisoned();
        if listener.is_some() {
            return Err(Error::ListenerSet);
        }
        let call: Listener = Arc::new(Contained::new(Box::new(call)));
        *listener = Some(call.clone());
        for engine in self.levels.engines() {
            *engine.shard_closed.lock().unpoisoned() = Some(call.clone());
        }
        Ok(())
    }

    /// Takes no more frames: whoever acquires or commits one from now on gets [`Error::Ended`], on every thread that
    /// shares this handle, and whoever waits for [`Events::BUFFER_FREE`](crate::Events::BUFFER_FREE) is woken. Frames
    /// that were committed go on to their shards, which [`finish`](Self::finish) waits for, or the end of the last
    /// handle.
    ///
    /// ```
    /// # use shardwright::{Acquisition, Config, Dim, Memory};
    /// # let config = Config { dims: vec![Dim::time(None), Dim::y(4), Dim::x(4)], ..Config::default() };
    /// let acquisition = Acquisition::create_in(std::sync::Arc::new(Memory::new()), config)?;
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| while acquisition.append(&[7; 32]).is_ok() {});
    ///     acquisition.close(); // the thread ends, and with it the scope
    /// });
    /// let summary = acquisition.finish()?;
    /// assert_eq!(summary.frames_missing, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) {
        self.engine.close_gate();
    }

    #[cfg(feature = "capi")]
    pub(crate) fn dataset_identity(&self) -> usize {
        self.image.root().identity()
    }
}

impl std::fmt::Debug for Acquisition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acquisition").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
