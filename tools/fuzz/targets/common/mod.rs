//! What several targets share: the dataset to spoil, the ways to spoil it, and what is done with the spoilt one.
#![allow(dead_code, reason = "no target needs all of it")]

use std::fs;
use std::path::{Path, PathBuf};

use shardwright::offline::{Array, Recover, RecoverOptions, Recovery, Verify, VerifyOptions, describe};
use shardwright::{Acquisition, Config, Dtype};

/// A dataset of `frames`, written with the means of `config` and little memory, in a folder below TMPDIR.
pub fn written(config: Config, frames: impl IntoIterator<Item = Vec<u8>>) -> PathBuf {
    let path = tempfile::tempdir().expect("a folder").keep().join("run.zarr");
    let config = Config { dtype: Dtype::U8, ring_bytes: 1 << 16, workers: 1, sync: false, ..config };
    let acquisition = Acquisition::create(&path, config).expect("a run");
    frames.into_iter().for_each(|pixels| assert_eq!(acquisition.append(&pixels).expect("a frame").frames, 1));
    acquisition.finish().expect("a dataset");
    path
}

/// Files of a dataset as they were written, to be put back before each try. A repair may have removed a file with the
/// folder that it was alone in.
pub struct Good(pub Vec<(PathBuf, Vec<u8>)>);

impl Good {
    pub fn of(dataset: &Path, names: &[&str]) -> Self {
        let read = |name: &&str| (dataset.join(name), fs::read(dataset.join(name)).expect("a file"));
        Self(names.iter().map(read).collect())
    }

    /// All of them.
    pub fn all(dataset: &Path) -> Self {
        let (mut files, mut folders) = (Vec::new(), vec![dataset.to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("a file").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.push((path.clone(), fs::read(path).expect("a file")));
                }
            }
        }
        Self(files)
    }

    pub fn put_back(&self) {
        for (path, bytes) in &self.0 {
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, bytes).expect("written");
        }
    }
}

/// A good shard with bytes replaced, zeros let in, and parts cut off or said again.
pub fn changed_shard(good: &[u8], edits: &[u8]) -> Vec<u8> {
    let mut shard = good.to_vec();
    for &[low, high, kind, byte] in edits.as_chunks().0 {
        let at = usize::from(u16::from_le_bytes([low, high])) % (shard.len() + 1);
        match kind % 16 {
            0 => shard.truncate(at),
            1 => {
                let tail = shard[at..].to_vec();
                shard.extend(tail);
            }
            2 => shard.splice(at..at, std::iter::repeat_n(0, byte.into())).for_each(drop),
            _ => {
                if let Some(place) = shard.get_mut(at) {
                    *place = byte;
                }
            }
        }
        shard.truncate(1 << 20);
    }
    shard
}

/// A good document with a few bytes replaced, taken out or said again.
pub fn changed_document(good: &[u8], edits: &[u8]) -> Vec<u8> {
    let mut document = good.to_vec();
    for &[low, high, kind, length, byte] in edits.as_chunks().0 {
        let at = usize::from(u16::from_le_bytes([low, high])) % (document.len() + 1);
        let end = (at + usize::from(length % 32)).min(document.len());
        match kind % 4 {
            0 => drop(document.drain(at..end)),
            1 => drop(document.splice(at..at, good[..].iter().copied().skip(at).take(end - at).collect::<Vec<_>>())),
            // Most that matters are numbers.
            2 => drop(document.splice(at..end, byte.to_string().into_bytes())),
            _ => drop(document.splice(at..end.min(at + 1), [byte])),
        }
    }
    document
}

/// Puts the checksum of all before into the last four bytes, so that what comes behind a checksum is reached.
pub fn seal(bytes: &mut [u8]) {
    if let Some((data, crc)) = bytes.split_last_chunk_mut::<4>() {
        *crc = crc32c::crc32c(data).to_le_bytes();
    }
}

/// Seals whatever looks like a slot's header.
pub fn seal_headers(shard: &mut [u8]) {
    for at in (0..shard.len().saturating_sub(63)).step_by(8) {
        if shard[at..].starts_with(b"SWc1") {
            seal(&mut shard[at..at + 64]);
        }
    }
}

/// Whether a chunk fits into the memory that a fuzzer has, and the index of a shard, too. A document may ask for
/// gigabytes, and get them; that is no finding.
pub fn is_small(array: &Array, dataset: &Path) -> bool {
    let bytes = |of: u64, shape: &[u64]| shape.iter().try_fold(of, |bytes, &length| bytes.checked_mul(length));
    let small = |bytes: Option<u64>| bytes.is_some_and(|bytes| bytes <= 16 << 20);
    let is_volume = dataset.join("info").exists();
    small(bytes(8, array.chunk_shape())) && (is_volume || small(bytes(16, array.shard_shape().unwrap_or_default())))
}

/// Shows a dataset to all that only look.
pub fn look_at(dataset: &Path) {
    drop(describe(dataset));
    drop(Verify::new(dataset, &VerifyOptions::default()).and_then(|verify| verify.run()));
}

/// Repairs a dataset, if it can be, and checks that nothing is left to be done.
pub fn repair(dataset: &Path) -> Option<Recovery> {
    let found = recovered(dataset, true).ok()?;
    let again = recovered(dataset, false).expect("what was recovered can be looked at");
    assert!(!again.is_needed(), "a second recovery finds something to do: {again:#?}");
    Some(found)
}

/// What a recovery would change, or has changed.
pub fn recovered(path: &Path, apply: bool) -> shardwright::Result<Recovery> {
    Recover::new(path, &RecoverOptions { apply, ..RecoverOptions::default() })?.run()
}
