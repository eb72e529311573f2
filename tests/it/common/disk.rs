//! A disk that lived through a [`FaultLog`](super::fault_log::FaultLog), moment by moment, and what is left of it when
//! the power fails at one of them. Unlike [`crash`](super::fault_log::crash) it makes no copy of the files, which may
//! be large.

use std::collections::BTreeMap;

use super::fault_log::{Op, SECTOR};

const PAGE: usize = 4096;

/// A file: what is certainly on the device, and what is on its way there.
#[derive(Default)]
pub struct File<'a> {
    pub bytes: Vec<u8>,
    pub published: bool,
    pending: Vec<(usize, &'a Op)>,
    /// Counts up with each change to `bytes`.
    pub version: u64,
}

/// What a change replaced, to take it back.
struct Undo {
    len: usize,
    replaced: Vec<(usize, Vec<u8>)>,
}

#[derive(Default)]
pub struct Disk<'a> {
    pub files: BTreeMap<&'a str, File<'a>>,
    pub durable: u64,
    done: usize,
}

impl<'a> Disk<'a> {
    /// Does the operations up to `moment`.
    pub fn go_on(&mut self, ops: &'a [Op], moment: usize) {
        for (number, op) in ops.iter().enumerate().take(moment).skip(self.done) {
            match op {
                Op::Create { key, len } => {
                    self.files.insert(key, File { bytes: vec![0; *len as usize], ..File::default() });
                }
                Op::Publish { key } => self.file(key).published = true,
                Op::Remove { key } => drop(self.files.remove(key.as_str())),
                Op::Durable { frames } => self.durable = *frames,
                Op::Put { .. } | Op::SyncBegan { .. } => {}
                Op::SyncEnded { key, id } => self.file(key).settle(*id as usize),
                Op::Write { key, .. } | Op::Grow { key, .. } | Op::Punch { key, .. } | Op::Truncate { key, .. } => {
                    self.file(key).pending.push((number, op));
                }
            }
        }
        self.done = self.done.max(moment);
    }

    fn file(&mut self, key: &str) -> &mut File<'a> {
        self.files.get_mut(key).expect("created before")
    }
}

impl File<'_> {
    /// A sync covered all operations before `end`.
    fn settle(&mut self, end: usize) {
        let pending = std::mem::take(&mut self.pending);
        let (covered, rest) = pending.into_iter().partition(|(number, _)| *number < end);
        self.pending = rest;
        for (_, op) in covered {
            self.apply(op, &mut || true, None);
        }
    }

    /// Whether something is on its way to the device.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// What `look` says of the file if the power fails now and `coin` decides what of the pending is there.
    pub fn torn<T>(&mut self, mut coin: impl FnMut() -> bool, look: impl FnOnce(&[u8]) -> T) -> T {
        let mut undo = Undo { len: self.bytes.len(), replaced: Vec::new() };
        let pending = std::mem::take(&mut self.pending);
        for (_, op) in &pending {
            self.apply(op, &mut coin, Some(&mut undo));
        }
        let said = look(&self.bytes);
        self.bytes.resize(undo.len.max(self.bytes.len()), 0);
        for (at, old) in undo.replaced.into_iter().rev() {
            self.bytes[at..at + old.len()].copy_from_slice(&old);
        }
        self.bytes.truncate(undo.len);
        self.pending = pending;
        said
    }

    fn apply(&mut self, op: &Op, coin: &mut dyn FnMut() -> bool, mut undo: Option<&mut Undo>) {
        self.version += 1;
        match op {
            // In order, as a journal keeps lengths.
            Op::Grow { at, bytes, .. } if self.bytes.len() as u64 == *at && coin() => {
                self.bytes.extend_from_slice(bytes)
            }
            Op::Truncate { len, .. } if (*len as usize) < self.bytes.len() && coin() => {
                if let Some(undo) = &mut undo {
                    undo.replaced.push((*len as usize, self.bytes[*len as usize..].to_vec()));
                }
                self.bytes.truncate(*len as usize);
            }
            Op::Punch { at, len, .. } => {
                let (from, to) = ((*at as usize).next_multiple_of(PAGE), (at + len) as usize / PAGE * PAGE);
                if from < to && to <= self.bytes.len() && coin() {
                    self.put(from, &vec![0; to - from], undo);
                }
            }
            Op::Write { at, bytes, .. } => {
                let mut from = 0;
                while from < bytes.len() {
                    let place = at + from as u64;
                    let until = (from + (SECTOR - place % SECTOR) as usize).min(bytes.len());
                    if coin() && place as usize + until - from <= self.bytes.len() {
                        self.put(place as usize, &bytes[from..until], undo.as_deref_mut());
                    }
                    from = until;
                }
            }
            _ => {}
        }
    }

    fn put(&mut self, at: usize, bytes: &[u8], undo: Option<&mut Undo>) {
        let place = &mut self.bytes[at..at + bytes.len()];
        if let Some(undo) = undo {
            undo.replaced.push((at, place.to_vec()));
        }
        place.copy_from_slice(bytes);
    }
}
