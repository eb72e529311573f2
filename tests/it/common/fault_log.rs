//! A storage in memory that writes down everything that is done to it, and makes of that what a disk may hold after a
//! loss of power at any moment.
//!
//! What a sync covered is there. Of all that came later, each sector of each write may be there or not, and so may each
//! cut and each hole. Documents are replaced as a whole, and durably, before `put` returns; so is the name that
//! `publish` gives.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use shardwright::{Blob, Storage};

const PAGE: u64 = 4096;
/// The least that a device writes at once.
pub const SECTOR: u64 = 512;

#[derive(Debug, Clone)]
pub enum Op {
    Create {
        key: String,
        len: u64,
    },
    Write {
        key: String,
        at: u64,
        bytes: Vec<u8>,
    },
    /// The file became longer, so that it ends with these bytes: with all of them or none, with or without a sync.
    Grow {
        key: String,
        at: u64,
        bytes: Vec<u8>,
    },
    Publish {
        key: String,
    },
    /// A sync began that succeeded later.
    SyncBegan {
        key: String,
        id: u64,
    },
    SyncEnded {
        key: String,
        id: u64,
    },
    Punch {
        key: String,
        at: u64,
        len: u64,
    },
    Truncate {
        key: String,
        len: u64,
    },
    Put {
        key: String,
        bytes: Vec<u8>,
    },
    Remove {
        key: String,
    },
    /// From here on the writer says that this many frames are durable.
    Durable {
        frames: u64,
    },
}

#[derive(Debug, Clone, Default)]
pub struct FaultLog(Arc<Mutex<Vec<Op>>>);

impl FaultLog {
    pub fn note(&self, op: Op) {
        self.0.lock().unwrap().push(op);
    }

    pub fn ops(&self) -> Vec<Op> {
        self.0.lock().unwrap().clone()
    }
}

impl Storage for FaultLog {
    fn name(&self) -> &'static str {
        "fault log"
    }

    fn create(&self, key: &str, len: u64) -> io::Result<Box<dyn Blob>> {
        self.note(Op::Create { key: key.to_owned(), len });
        Ok(Box::new(LoggedBlob { key: key.to_owned(), log: self.clone() }))
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        self.note(Op::Put { key: key.to_owned(), bytes: bytes.to_vec() });
        Ok(())
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        self.note(Op::Remove { key: key.to_owned() });
        Ok(())
    }
}

struct LoggedBlob {
    key: String,
    log: FaultLog,
}

impl Blob for LoggedBlob {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.log.note(Op::Write { key: self.key.clone(), at, bytes: bytes.to_vec() });
        Ok(())
    }

    fn grows(&self) -> bool {
        true
    }

    fn grow(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.log.note(Op::Grow { key: self.key.clone(), at, bytes: bytes.to_vec() });
        Ok(())
    }

    fn done_with(&self, _: u64, _: u64) {}

    fn publish(&self) -> io::Result<()> {
        self.log.note(Op::Publish { key: self.key.clone() });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let id = {
            let mut ops = self.log.0.lock().unwrap();
            let id = ops.len() as u64;
            ops.push(Op::SyncBegan { key: self.key.clone(), id });
            id
        };
        // Others write meanwhile; what they write is not covered.
        std::thread::yield_now();
        self.log.note(Op::SyncEnded { key: self.key.clone(), id });
        Ok(())
    }

    fn punch(&self, at: u64, len: u64) -> io::Result<()> {
        self.log.note(Op::Punch { key: self.key.clone(), at, len });
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.log.note(Op::Truncate { key: self.key.clone(), len });
        Ok(())
    }
}

/// What a disk holds after a crash.
#[derive(Debug, Default)]
pub struct Image {
    pub files: BTreeMap<String, Vec<u8>>,
    /// Frames that the writer had called durable.
    pub durable: u64,
}

/// The disk after a crash when `ops` had been done. `coin` decides what of the unsynced is there.
pub fn crash(ops: &[Op], mut coin: impl FnMut() -> bool) -> Image {
    let mut image = Image::default();
    let mut files: BTreeMap<&str, (bool, Vec<u8>)> = BTreeMap::new();
    let covered = covered(ops);
    for (number, op) in ops.iter().enumerate() {
        let mut reaches = || covered[number] || coin();
        match op {
            Op::Create { key, len } => drop(files.insert(key, (false, vec![0; *len as usize]))),
            Op::Publish { key } => files.get_mut(key.as_str()).expect("created before").0 = true,
            Op::Remove { key } => drop((files.remove(key.as_str()), image.files.remove(key))),
            Op::Put { key, bytes } => drop(image.files.insert(key.clone(), bytes.clone())),
            Op::Durable { frames } => image.durable = *frames,
            Op::SyncBegan { .. } | Op::SyncEnded { .. } => {}
            Op::Truncate { key, len } => {
                if reaches() {
                    files.get_mut(key.as_str()).expect("created before").1.truncate(*len as usize);
                }
            }
            Op::Punch { key, at, len } => {
                let file = &mut files.get_mut(key.as_str()).expect("created before").1;
                let (from, to) = (at.next_multiple_of(PAGE), (at + len) / PAGE * PAGE);
                if from < to && to as usize <= file.len() && reaches() {
                    file[from as usize..to as usize].fill(0);
                }
            }
            Op::Grow { key, at, bytes } => {
                let file = &mut files.get_mut(key.as_str()).expect("created before").1;
                if reaches() {
                    assert!(file.len() as u64 <= *at, "growth begins at the end or beyond");
                    file.resize(*at as usize, 0);
                    file.extend_from_slice(bytes);
                }
            }
            Op::Write { key, at, bytes } => {
                let file = &mut files.get_mut(key.as_str()).expect("created before").1;
                let mut from = 0;
                while from < bytes.len() {
                    let place = at + from as u64;
                    let until = (from + (SECTOR - place % SECTOR) as usize).min(bytes.len());
                    if reaches() {
                        let end = place as usize + until - from;
                        file.resize(file.len().max(end), 0);
                        file[place as usize..end].copy_from_slice(&bytes[from..until]);
                    }
                    from = until;
                }
            }
        }
    }
    let published = files.into_iter().filter(|(_, (published, _))| *published);
    image.files.extend(published.map(|(key, (_, bytes))| (key.to_owned(), bytes)));
    image
}

/// Which operations a sync covers that both began and ended within `ops`.
fn covered(ops: &[Op]) -> Vec<bool> {
    let mut covered = vec![false; ops.len()];
    let mut until: BTreeMap<&str, usize> = BTreeMap::new();
    for op in ops {
        if let Op::SyncEnded { key, id } = op {
            until.entry(key).and_modify(|end| *end = (*end).max(*id as usize)).or_insert(*id as usize);
        }
    }
    for (number, op) in ops.iter().enumerate() {
        if let Op::Write { key, .. } | Op::Grow { key, .. } | Op::Punch { key, .. } | Op::Truncate { key, .. } = op {
            covered[number] = until.get(key.as_str()).is_some_and(|&end| number < end);
        }
    }
    covered
}
