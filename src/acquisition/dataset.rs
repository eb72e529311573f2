//! Several images in one dataset.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Acquisition, plan_with};
use crate::aligned_memory::RingBuffers;
use crate::config::Config;
use crate::dataset::Root;
use crate::engine::pool::{IMAGES_MAX, Pool};
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::plan::Plan;
use crate::storage::Storage;

/// A dataset of several images that are acquired at the same time: two cameras, several positions.
///
/// Each image is a group of its own with its own [`Acquisition`]; the root lists them as OME-Zarr's
/// `bioformats2raw` layout describes it. For one image, [`Acquisition::create`] suffices.
///
/// All images share the threads of the first one's [`Config::workers`] and [`Config::affinity`], which take the images
/// that have frames in turn; the threads end with the dataset's last handle and its last image.
#[derive(Debug, Clone)]
pub struct Dataset {
    root: Arc<Root>,
    pool: Arc<SharedPool>,
}

impl Dataset {
    fn of(root: Root) -> Self {
        Self { root: Arc::new(root), pool: Arc::default() }
    }

    /// Creates the dataset `path`.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] when something is in the way; [`Error::Io`] when the system refuses something.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::of(Root::create(path.as_ref(), false, true)?))
    }

    /// Creates the dataset `path`, and replaces a dataset that is in the way. Anything else is never replaced.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create); [`Error::Locked`] when somebody writes what is to be replaced.
    pub fn create_or_replace(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::of(Root::create(path.as_ref(), true, true)?))
    }

    /// Creates a dataset in a storage of the caller's own.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] when there is [something in it](Storage::is_used) already; [`Error::Panicked`] when that call
    /// panics.
    pub fn create_in(storage: Arc<dyn Storage>) -> Result<Self> {
        Ok(Self::of(Root::in_storage(storage, true)?))
    }

    /// Starts the acquisition of the image `name`, a group of that name in the dataset: letters, digits, `_`, `-` and
    /// `.`, not starting with a dot, and neither `OME` nor `zarr.json`, in whatever case.
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

    pub(crate) fn start(&self, name: &str, config: Config, buffers: Option<RingBuffers>) -> Result<Acquisition> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let is_reserved = ["ome", "zarr.json"].iter().any(|reserved| name.eq_ignore_ascii_case(reserved));
        if name.is_empty() || name.starts_with('.') || is_reserved || !name.chars().all(plain) {
            let reason =
                "letters, digits, _, - and . are possible, not starting with a dot, and neither OME nor zarr.json";
            return Err(Error::config("name", format_args!("{name:?}"), reason));
        }
        Manifest::refuse(Some(name), &config)?;
        let mut config = config;
        config.workers = self.pool.workers().unwrap_or(config.workers);
        plan_with(&mut config, buffers.as_ref())?;
        let pool = |_: &Plan| self.pool.get(self.root.path(), &config);
        Acquisition::start_in(self.root.clone(), Some(name), config.clone(), buffers, pool)
    }
}

/// The threads of a dataset's images, once there is one.
#[derive(Default)]
pub(super) struct SharedPool(Mutex<Option<Arc<Pool>>>);

impl SharedPool {
    /// The threads, started with the first image.
    pub(super) fn get(&self, path: &Path, config: &Config) -> Result<Arc<Pool>> {
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = &*pool {
            return Ok(pool.clone());
        }
        let workers = Plan::new(config)?.workers;
        Ok(pool.insert(Arc::new(Pool::start(path, config, workers, IMAGES_MAX)?)).clone())
    }

    /// How many workers there are.
    pub(super) fn workers(&self) -> Option<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|pool| pool.workers)
    }
}

impl std::fmt::Debug for SharedPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedPool").field("workers", &self.workers()).finish()
    }
}
