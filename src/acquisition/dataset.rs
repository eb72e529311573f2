//! Several images in one dataset.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::planned::{
    self, refuse_bare_image, refuse_key, refuse_label, refuse_label_acquisition, refuse_part, refuse_plate,
};
use super::{Acquisition, Planned, plan_with, room};
use crate::aligned_memory::{PAGE, RingBuffers};
use crate::config::{Config, Plate};
use crate::dataset::around::refuse_name;
use crate::dataset::documents::Documents;
use crate::dataset::image::ImageWriter;
use crate::dataset::{Root, expected_bytes};
use crate::engine::pool::{Bounds, Pool};
use crate::engine::rings::{RingSource, check_memory};
use crate::error::{Error, Result, caught};
use crate::manifest::Manifest;
use crate::ome;
use crate::plan::{CodecPlan, Plan};
use crate::replaceable::refuse_run_in_parts;
use crate::storage::Storage;
use crate::sync::Unpoisoned;
use crate::words::quoted;

/// Images that may be acquired at the same time in one dataset.
const IMAGES_MAX: usize = 1 << 14;
/// The same, with the levels of their pyramids: queues have room for all of them.
const ARRAYS_MAX: usize = 1 << 16;
/// Files of shards that a dataset has open at the same time, if nothing else is asked for: with those that are open
/// for a moment, and what else a small program has, 256.
const OPEN_FILES_MAX: usize = 240;

/// Frames that one of several images may have in the ring that they share, unless a block of its layers needs more:
/// what is kept for each of them takes memory for each image. And those of all images that begin together.
const FRAMES_OF_AN_IMAGE: usize = 4096;
const FRAMES_OF_AN_IMAGE_MIN: usize = 128;
const FRAMES_OF_ALL_IMAGES: usize = 1 << 15;

/// A dataset of several images that are acquired at the same time: two cameras, several positions.
///
/// Each image is a group of its own with its own [`Acquisition`]; the root lists them as OME-Zarr's
/// `bioformats2raw` layout describes it. For one image, [`Acquisition::create`] suffices.
///
/// All images share the threads of the first one's [`Config::workers`] and [`Config::affinity`], which take the images
/// that have frames in turn; the threads end with the dataset's last handle and its last image. Images whose frame
/// buffers have the same size share a ring as well, as large as [`Config::ring_bytes`] of the first of them: whoever
/// fills it leaves the others what a block of their layers needs, and a part of the rest. An image that has no room
/// left there, as many have none where chunks are deeper than one frame, or wants a larger one, gets another ring.
/// Rings that take more together than the machine's memory are refused.
#[derive(Debug, Clone)]
pub struct Dataset {
    root: Arc<Root>,
    pool: Arc<SharedPool>,
}

impl Dataset {
    fn of(root: Root) -> Self {
        Self { root: Arc::new(root), pool: Arc::new(SharedPool::new(OPEN_FILES_MAX)) }
    }

    /// Creates the dataset `path`: a folder, or one file if its name ends in `.ozx`.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] for a dataset that is there, [`Error::Conflict`] for anything else that stands there,
    /// [`Error::Locked`] while a dataset there is being written; [`Error::Io`] when the system refuses something.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        refuse_run_in_parts(path.as_ref())?;
        Ok(Self::of(Root::create(path.as_ref(), false)?))
    }

    /// Creates the dataset `path`, and replaces a dataset that is in the way. Anything else is never replaced.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create); [`Error::Locked`] when somebody writes what is to be replaced.
    pub fn create_or_replace(path: impl AsRef<Path>) -> Result<Self> {
        refuse_run_in_parts(path.as_ref())?;
        Ok(Self::of(Root::create(path.as_ref(), true)?))
    }

    /// Creates a dataset in a storage of the caller's own.
    ///
    /// # Errors
    ///
    /// [`Error::StorageUsed`] when there is [something in it](Storage::is_used) already; [`Error::Panicked`] when that
    /// call panics.
    pub fn create_in(storage: Arc<dyn Storage>) -> Result<Self> {
        Ok(Self::of(Root::in_storage(storage, true)?))
    }

    /// Sets how many files of shards are open at the same time at most, whatever the number of images: 240 if nothing
    /// is said. Where writes pass the page cache ([`StorageKind::Direct`](crate::StorageKind::Direct)), each shard is
    /// two of them. It counts before the first image begins. An image of which a frame lies in more than eight files
    /// may have three times as many open beside.
    ///
    /// When there are as many, those of the images that got no frame for the longest time are closed until frames come
    /// again; what they hold is durable by then. While a shard is created, and while its index is replaced, it is open
    /// twice. At the end of an image its shards are opened again one by one, one more than may be open if need be; so
    /// is a block of shards for the moment in which frames become durable that wait for others there.
    #[must_use]
    pub fn with_open_files(self, max: usize) -> Self {
        Self { pool: Arc::new(SharedPool::new(max)), ..self }
    }

    /// Makes it a plate, before its first image: from now on images are fields of wells, named `ROW/COLUMN/FIELD` as
    /// `B/3/0`, in whatever order the wells are visited. Documents list the wells whose images have begun; a field to
    /// which nothing came is taken back when its acquisition ends, so that a plate that is stopped early has the wells
    /// that were written. Where the stage was is said by the [translations](crate::Dim::translation) of y and x.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for names that OME-Zarr does not allow or that are there twice, and after the first image.
    pub fn with_plate(self, plate: Plate) -> Result<Self> {
        self.root.set_plate(plate)?;
        Ok(self)
    }

    /// Starts the acquisition of the image `name`, a group of that name in the dataset: letters, digits, `_`, `-` and
    /// `.`, not starting with a dot or with `__`, and neither `OME` nor `zarr.json`, in whatever case. On a
    /// [plate](Self::with_plate), the name is a place there.
    ///
    /// Labels of an image that has begun are an image themselves, named `IMAGE/labels/NAME`, as `left/labels/cells`:
    /// integers, with the dimensions of the image, of which some may be 1 long, and as many levels. Where
    /// [`Config::pyramid`] is not set, levels are those of the image by [`Mode`](crate::PyramidMethod::Mode).
    /// [`Config::label`] says what the integers stand for.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for another name, for a dialect other than Zarr v3, for a manifest, and as of
    /// [`Acquisition::create`]; [`Error::Exists`] if there is an image of that name;
    /// [`Error::Io`] if the system refuses something. No image is left behind then.
    pub fn acquisition(&self, name: &str, config: Config) -> Result<Acquisition> {
        self.start(name, config, None)
    }

    /// As [`acquisition`](Self::acquisition), with frame buffers of the caller's own as the ring.
    ///
    /// # Errors
    ///
    /// As `acquisition`; [`Error::Config`] for buffers that are too small or too few.
    pub fn acquisition_with_buffers(&self, name: &str, config: Config, buffers: RingBuffers) -> Result<Acquisition> {
        self.start(name, config, Some(buffers))
    }

    /// Starts the acquisitions of many images, as [`acquisition`](Self::acquisition) does for one, but with their
    /// documents brought to the device together. Their shards are created when their first frames come: all of them
    /// together must have room on the disk, where the number of frames is not known.
    ///
    /// The more images, the fewer frames of the ring each of them may have: 32,768 divided by the number of images, but
    /// 128 at least and 4,096 at most. Beside the ring, an image takes about 400 bytes for each of them until its first
    /// frame comes, and then the memory for its records.
    ///
    /// # Errors
    ///
    /// As `acquisition`. No image is left behind then.
    pub fn acquisitions<N: AsRef<str>>(
        &self,
        images: impl IntoIterator<Item = (N, Config)>,
    ) -> Result<Vec<Acquisition>> {
        let images: Vec<(N, Config)> = images.into_iter().collect();
        refuse_twice(&images)?;
        let mut begun = Vec::new();
        let started = caught(|| self.start_all(&images, &mut begun));
        if started.is_err() {
            begun.iter().for_each(|(image, plan)| image.undo(plan));
        }
        started
    }

    fn start_all<N: AsRef<str>>(
        &self,
        images: &[(N, Config)],
        begun: &mut Vec<(Arc<ImageWriter>, Arc<Plan>)>,
    ) -> Result<Vec<Acquisition>> {
        let images = &self.completed(images);
        let Some((_, first)) = images.first() else { return Ok(Vec::new()) };
        let limit = (FRAMES_OF_ALL_IMAGES / images.len()).clamp(FRAMES_OF_AN_IMAGE_MIN, FRAMES_OF_AN_IMAGE);
        let pool = self.pool.get(self.root.path(), first)?;
        pool.check_room(images.len(), images.len())?;
        let mut wanted = Vec::new();
        for (name, config) in images {
            self.check_name(name, config)?;
            Manifest::refuse(Some(name), config)?;
            wanted.push(Wanted::new(config, pool.workers, limit)?);
        }
        wanted.iter().for_each(|of| self.root.expect(of.bytes));
        let planned = self.plan_all(&wanted)?;
        let plans: Vec<&Plan> = planned.iter().map(|(run, _)| &*run.plan).collect();
        pool.check_room(plans.len(), plans.iter().map(|plan| 1 + plan.levels.len()).sum())?;
        let kept = plans.iter().flat_map(|plan| plan.levels.iter().map(|level| &*level.plan).chain([*plan]));
        let kept = kept.map(|plan| plan.ring_bytes(plan.ring_floor())).fold(0, u64::saturating_add);
        check_memory(first.ring_bytes as u64, kept)?;
        let room = room::look(&self.root, first, &plans, true)?;
        for ((name, _), (run, _)) in images.iter().zip(&planned) {
            let image = ImageWriter::new(self.root.clone(), Some(name), run.config.clone(), &run.plan)?;
            image.list(&run.plan, &run.plan.array.layout.shape);
            begun.push((Arc::new(image), run.plan.clone()));
        }
        let mut documents = Documents::Together(Vec::new());
        begun.iter().try_for_each(|(image, plan)| image.write_documents(plan, &mut documents))?;
        documents.write(begun[0].0.storage(), self.root.path())?;
        // What names the images is written behind them: a run may be killed at any moment.
        let mut around = Documents::Together(Vec::new());
        self.root.write_collection(&mut around)?;
        around.write(begun[0].0.storage(), self.root.path())?;
        let start = |((run, ring), (image, _)): ((Planned, RingSource), &(Arc<ImageWriter>, _))| {
            let Planned { config, plan, choice } = run;
            let mut started = Acquisition::start_image(image, &plan, &config, choice, (ring, true), pool.clone())?;
            started.notes.extend(room.clone());
            Ok(started)
        };
        planned.into_iter().zip(&*begun).map(start).collect()
    }

    /// What is known of each image before anything is written, and where its ring comes from.
    fn plan_all(&self, wanted: &[Wanted]) -> Result<Vec<(Planned, RingSource)>> {
        let mut codecs: Vec<(String, CodecPlan)> = Vec::new();
        let mut planned = Vec::new();
        for of in wanted {
            let config = &of.config;
            let kind = format!("{:?}", (&config.dims, config.dtype, &config.codec, config.storage, config.workers));
            let codec = match codecs.iter().find(|(known, _)| *known == kind) {
                Some((_, codec)) => codec.clone(),
                None => planned::codec(&self.root, config)?,
            };
            codecs.push((kind, codec.clone()));
            let ring = RingSource::Shared(of.with_all(wanted));
            planned.push((Planned::new(config.clone(), codec, &ring)?, ring));
        }
        Ok(planned)
    }

    /// Configurations with what labels have from their images.
    fn completed<'a, N: AsRef<str>>(&self, images: &'a [(N, Config)]) -> Vec<(&'a str, Config)> {
        let of =
            |(name, config): &'a (N, Config)| (name.as_ref(), self.complete(name.as_ref(), config.clone(), images));
        images.iter().map(of).collect()
    }

    /// Of labels, with what they have from their image, which is there or begins together with them.
    fn complete<N: AsRef<str>>(&self, name: &str, mut config: Config, together: &[(N, Config)]) -> Config {
        if let Some((of, _)) = ome::label::parts(name) {
            let beside = together.iter().find(|(name, _)| name.as_ref() == of).map(|(_, config)| config.clone());
            ome::label::complete(&mut config, beside.or_else(|| self.root.config_of(of)).as_ref());
        }
        config
    }

    fn check_name(&self, name: &str, config: &Config) -> Result<()> {
        refuse_key(config)?;
        refuse_bare_image(config)?;
        refuse_part(config)?;
        if let Some((_, label)) = ome::label::parts(name) {
            return refuse_label_acquisition(config).and_then(|()| check_name(label));
        }
        refuse_label(config)?;
        match self.root.plate() {
            Some(plate) => ome::plate::field(&plate, name, config.plate_acquisition).map(drop),
            None => refuse_plate(config).and_then(|()| check_name(name)),
        }
    }

    pub(crate) fn start(&self, name: &str, config: Config, buffers: Option<RingBuffers>) -> Result<Acquisition> {
        self.check_name(name, &config)?;
        Manifest::refuse(Some(name), &config)?;
        let mut config = self.complete::<&str>(name, config, &[]);
        let plan = plan_with(&mut config, buffers.as_ref())?;
        self.root.expect(expected_bytes(&plan));
        let pool = self.pool.get(self.root.path(), &config)?;
        pool.check_room(1, 1 + plan.levels.len())?;
        let (config, ring) = match buffers {
            Some(buffers) => (Config { workers: pool.workers, ..config }, RingSource::Own(Some(buffers))),
            None => {
                let wanted = Wanted::new(&config, pool.workers, FRAMES_OF_AN_IMAGE)?;
                let ring = RingSource::Shared(wanted.alone);
                (wanted.config, ring)
            }
        };
        Acquisition::start_in(self.root.clone(), Some(name), config, ring, |_| Ok(pool.clone()))
    }
}

fn refuse_twice<N: AsRef<str>>(images: &[(N, Config)]) -> Result<()> {
    let mut names: Vec<&str> = images.iter().map(|(name, _)| name.as_ref()).collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
    twice.map_or(Ok(()), |pair| {
        let reason = "two images of the list have this name; give each its own";
        Err(Error::config("name", quoted(pair[0]), reason))
    })
}

fn check_name(name: &str) -> Result<()> {
    let refuse = |reason| Err(Error::config("name", quoted(name), reason));
    refuse_name(name).map_or(Ok(()), refuse)
}

/// What an image that shares a ring wants of it.
struct Wanted {
    /// With as much memory as the image may have at a time.
    config: Config,
    /// The buffers that a ring for it alone would have, those for which there is memory, and what all have in common
    /// that share a ring.
    alone: usize,
    affordable: usize,
    class: (usize, usize),
    /// What it will have, if that is known.
    bytes: Option<u64>,
}

impl Wanted {
    fn new(config: &Config, workers: usize, limit: usize) -> Result<Self> {
        let config = Config { workers, ..config.clone() };
        let plan = Plan::new(&config)?;
        let buffer_bytes = plan.frame.layout.buffer_bytes;
        let stride = buffer_bytes.next_multiple_of(PAGE);
        let layers = plan.buffers_a_block().saturating_add(2);
        let ring_bytes = plan.ring.buffers.min(limit.max(layers)) * stride;
        Ok(Self {
            alone: plan.ring.buffers,
            affordable: config.ring_bytes / stride,
            class: (buffer_bytes, plan.record.bytes),
            bytes: expected_bytes(&plan),
            config: Config { ring_bytes, ..config },
        })
    }

    /// The buffers of a ring that it shares with those of `all` that are like it.
    fn with_all(&self, all: &[Self]) -> usize {
        let alike = all.iter().filter(|other| other.class == self.class);
        alike.map(|other| other.alone).fold(0, usize::saturating_add).min(self.affordable).max(self.alone)
    }
}

/// The threads of a dataset's images, once there is one.
pub(super) struct SharedPool {
    started: Mutex<Option<Arc<Pool>>>,
    open_files: usize,
}

impl SharedPool {
    fn new(open_files: usize) -> Self {
        Self { started: Mutex::default(), open_files }
    }

    pub(super) fn get(&self, path: &Path, config: &Config) -> Result<Arc<Pool>> {
        let mut pool = self.started.lock().unpoisoned();
        if let Some(pool) = &*pool {
            return Ok(pool.clone());
        }
        let workers = Plan::new(config)?.workers;
        let bounds = Bounds { images: IMAGES_MAX, arrays: ARRAYS_MAX, open_files: self.open_files };
        Ok(pool.insert(Arc::new(Pool::start(path, config, workers, bounds)?)).clone())
    }
}

impl std::fmt::Debug for SharedPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let workers = self.started.lock().unpoisoned().as_ref().map(|pool| pool.workers);
        f.debug_struct("SharedPool").field("workers", &workers).finish()
    }
}
