//! Which way of writing suits a folder, found out by writing a little in each.
//!
//! How fast a memory map, the page cache and the device itself are, compared with each other, depends on the file
//! system, the kernel, the device and the machine around it; on one and the same computer it can differ by a factor of
//! five from one folder to the next. No table knows that, but a tenth of a second of trying does.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use memmap2::MmapMut;

use super::directory::Directory;
use super::seam::{Blob, Mapped, PAGE, Storage, WRITES_AT_ONCE};
use crate::config::StorageKind;
use crate::error::{Error, Result};
use crate::fs::Identity;
use crate::sync::Unpoisoned;

// More is not worth the wait of `create`.
const TRIAL_BYTES: u64 = 24 << 20;
const TRIAL_TIME: Duration = Duration::from_millis(60);
const RATES_BYTES: u64 = 256 << 20;
/// Of one write that is tried: of several at once, each has its own memory.
const WRITE_BYTES_MAX: u64 = 1 << 30;
// A run that writes less than this is over before the choice matters.
const RUN_BYTES_MIN: u64 = 256 << 20;
// Direct writes leave the page cache to others, so they may be this much slower than the fastest.
const WORTH_OF_MEMORY: f64 = 0.8;

/// What can be tried: all but to leave the choice.
const WAYS: &[StorageKind] = StorageKind::ALL.split_at(1).1;

/// What a trial found out: bytes a second.
type Rates = Vec<(StorageKind, f64)>;

/// What a trial depends on: the device, whether it is synced, bytes a write.
type Conditions = (u64, bool, u64);

/// What was found out before: a process that starts many runs tries once.
static KNOWN: Mutex<BTreeMap<Conditions, Rates>> = Mutex::new(BTreeMap::new());

/// What is known beforehand of how a run will write.
#[derive(Debug)]
pub(crate) struct Expected {
    /// In all; `None`: nobody knows.
    pub(crate) bytes: Option<u64>,
    pub(crate) slot_bytes: u64,
    /// The process may have as many open files as direct writes need.
    pub(crate) opens_twice: bool,
}

impl Expected {
    /// Of a run that is over before a choice matters.
    pub(crate) fn is_short(&self) -> bool {
        self.bytes.is_some_and(|bytes| bytes < RUN_BYTES_MIN)
    }

    /// How much a trial writes at once.
    fn piece(&self) -> u64 {
        self.slot_bytes.next_multiple_of(PAGE).clamp(PAGE, 1 << 20)
    }
}

/// The way for a run, and why.
pub(crate) fn choose(folder: &Path, run: &Expected, sync: bool) -> io::Result<(StorageKind, String)> {
    if run.is_short() {
        return Ok((StorageKind::Buffered, "a short run".to_owned()));
    }
    // The page cache is what is left: a map is not for us to choose.
    if !run.opens_twice {
        return Ok((StorageKind::Buffered, "direct writes need more open files than this process may have".to_owned()));
    }
    // There, nothing passes the page cache by, and a map has to be filled with zeros first.
    if Directory::open(folder, StorageKind::Buffered, sync)?.file_system().is_memory() {
        return Ok((StorageKind::Buffered, "files are memory here".to_owned()));
    }
    let piece = run.piece();
    let key = (Identity::at(folder)?.device, sync, piece);
    let mut known = KNOWN.lock().unpoisoned();
    let rates = match known.get(&key) {
        Some(rates) => rates.clone(),
        None => {
            // A map kills the process when its device goes away: it is nothing to choose for others.
            let kinds = [StorageKind::Buffered, StorageKind::Direct];
            let rates = try_accesses(&kinds, folder, piece, sync, TRIAL_BYTES, TRIAL_TIME)?;
            known.insert(key, rates.clone());
            rates
        }
    };
    drop(known);
    Ok(best(&rates))
}

/// How many bytes per second a storage takes, and who is at work meanwhile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum StorageSpeed {
    /// A device, beside the cores that encode.
    Device(f64),
    /// One core, which could encode.
    Core(f64),
}

/// How fast files in `folder` are written in one way; `None` where that can't be tried.
pub(crate) fn speed(folder: &Path, way: StorageKind, run: &Expected, sync: bool) -> io::Result<Option<StorageSpeed>> {
    let directory = Directory::open(folder, way, sync)?;
    let piece = run.piece();
    if directory.file_system().is_memory() {
        let rate = try_one(&directory, piece, TRIAL_BYTES, TRIAL_TIME, 1)?;
        return Ok(rate.map(StorageSpeed::Core));
    }
    let key = (Identity::at(folder)?.device, sync, piece);
    let known = KNOWN.lock().unpoisoned();
    if let Some((_, rate)) = known.get(&key).into_iter().flatten().find(|(of, _)| *of == way) {
        return Ok(Some(StorageSpeed::Device(*rate)));
    }
    // Not added to what is known: from that, others choose.
    drop(known);
    Ok(try_one(&directory, piece, TRIAL_BYTES, TRIAL_TIME, WRITES_AT_ONCE)?.map(StorageSpeed::Device))
}

/// How fast a storage of the caller's own is; `None` where that can't be tried.
pub(crate) fn speed_of(storage: &dyn Storage, run: &Expected) -> io::Result<Option<StorageSpeed>> {
    Ok(try_one(storage, run.piece(), TRIAL_BYTES, TRIAL_TIME, WRITES_AT_ONCE)?.map(StorageSpeed::Device))
}

/// How [`storage_rates`] tries to write.
#[derive(Debug, Clone, Copy)]
pub struct StorageTrial {
    /// Bytes of one write; rounded up to whole pages.
    pub write_bytes: u64,
    /// Whether the time until the bytes are on the device counts.
    pub sync: bool,
    /// How long each way is tried at most.
    pub time: Duration,
}

impl Default for StorageTrial {
    /// Writes of 512 KiB until they are on the device, for a second.
    fn default() -> Self {
        Self { write_bytes: 512 << 10, sync: true, time: Duration::from_secs(1) }
    }
}

/// Tries the ways of writing in `folder`: fresh, reserved files, several writes at once. Returns those that are
/// possible and safe there, with bytes per second; `StorageKind::Auto` takes about the fastest.
///
/// # Errors
/// [`Error::Config`] for writes of more than a GiB; [`Error::Io`] where nothing can be written.
pub fn storage_rates(folder: &Path, trial: &StorageTrial) -> Result<Vec<(StorageKind, f64)>> {
    let &StorageTrial { write_bytes, sync, time } = trial;
    if write_bytes > WRITE_BYTES_MAX {
        return Err(Error::config("write_bytes", write_bytes, format!("at most {WRITE_BYTES_MAX} are tried at once")));
    }
    let piece = write_bytes.next_multiple_of(PAGE).max(PAGE);
    let rates = try_accesses(WAYS, folder, piece, sync, RATES_BYTES.max(8 * piece), time);
    rates.map_err(|error| Error::io("try to write in", folder, error))
}

/// Bytes per second in each of the ways that is possible and safe in `folder`.
fn try_accesses(
    ways: &[StorageKind],
    folder: &Path,
    piece: u64,
    sync: bool,
    bytes: u64,
    time: Duration,
) -> io::Result<Rates> {
    let mut rates = Vec::new();
    for &way in ways {
        let directory = Directory::open(folder, way, sync)?;
        let possible = match way {
            StorageKind::Mapped => directory.file_system().is_safe_to_map(),
            StorageKind::Buffered | StorageKind::Auto => true,
            StorageKind::Direct => {
                !directory.file_system().is_memory()
                    && directory.create(".trial", PAGE).is_ok_and(|blob| blob.alignment() > 1)
            }
        };
        // What can't be tried, be it for want of room, is no choice; the run itself will say what is wrong.
        if possible && let Ok(Some(rate)) = try_one(&directory, piece, bytes, time, WRITES_AT_ONCE) {
            rates.push((way, rate));
        }
    }
    Ok(rates)
}

/// The way to take, and why.
fn best(rates: &[(StorageKind, f64)]) -> (StorageKind, String) {
    let worth =
        |&(way, rate): &(StorageKind, f64)| if way == StorageKind::Direct { rate / WORTH_OF_MEMORY } else { rate };
    let Some(&(best, _)) = rates.iter().max_by(|a, b| worth(a).total_cmp(&worth(b))) else {
        return (StorageKind::Buffered, "nothing else is possible here".to_owned());
    };
    let tried: Vec<_> = rates.iter().map(|(way, rate)| format!("{} {:.2}", way.name(), rate / 1e9)).collect();
    (best, format!("GB/s in a trial: {}", tried.join(", ")))
}

/// Bytes per second from the creation of a file until all is synced; `None` where nothing could be written.
fn try_one(
    storage: &dyn Storage,
    piece: u64,
    bytes: u64,
    time: Duration,
    writes_at_once: usize,
) -> io::Result<Option<f64>> {
    // What it takes to reserve counts, too. A blob that is never published leaves no file behind.
    let start = Instant::now();
    let blob = storage.create(".trial", bytes)?;
    let source = MmapMut::map_anon(piece as usize)?;
    let map = blob.map().filter(|map| map.len() as u64 >= bytes);
    let next = AtomicU64::new(0);
    let write = || {
        let mut written = 0;
        loop {
            let at = next.fetch_add(piece, Relaxed);
            // Once in any case: on a busy machine the file alone may take that long.
            if at + piece > bytes || (written > 0 && start.elapsed() > time) {
                return Ok(written);
            }
            write_piece(&*blob, map.as_ref(), at, &source)?;
            written += piece;
        }
    };
    let written: io::Result<u64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..writes_at_once).map(|_| scope.spawn(write)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(Ok(0))).sum()
    });
    let written = written?;
    blob.sync()?;
    Ok((written > 0).then(|| written as f64 / start.elapsed().as_secs_f64()))
}

#[allow(unsafe_code)]
fn write_piece(blob: &dyn Blob, map: Option<&Mapped>, at: u64, piece: &[u8]) -> io::Result<()> {
    match map.map(Mapped::start) {
        // SAFETY: the range lies within the blob's length, all of which is mapped, and each is given to one thread; the
        // map is the trial's alone.
        Some(map) => unsafe { piece.as_ptr().copy_to_nonoverlapping(map.as_ptr().add(at as usize), piece.len()) },
        None => blob.write_at(at, piece)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_way_wins_and_direct_a_close_race() {
        assert_eq!(best(&[(StorageKind::Buffered, 2e9), (StorageKind::Direct, 1.5e9)]).0, StorageKind::Buffered);
        assert_eq!(best(&[(StorageKind::Buffered, 2e9), (StorageKind::Direct, 1.7e9)]).0, StorageKind::Direct);
        assert_eq!(best(&[]).0, StorageKind::Buffered);
    }

    #[test]
    fn a_trial_measures_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let rates = try_accesses(WAYS, folder.path(), 4096, true, 1 << 20, TRIAL_TIME).unwrap();
        assert!(rates.iter().any(|&(way, rate)| way == StorageKind::Buffered && rate > 0.0), "{rates:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
