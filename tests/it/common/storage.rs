//! A storage in memory that a test can hold up, count, or break at any call; and a watch over tests that may hang.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use shardwright::offline::Array;
use shardwright::{Blob, Memory, Storage};
use tempfile::TempDir;

/// The calls through which the engine touches the outside world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    Create,
    Put,
    Remove,
    WriteAt,
    /// Several chunks in one write, past the page cache.
    WriteJoined,
    Grow,
    Publish,
    Sync,
    Punch,
    Truncate,
    /// What returns no error: it can but panic.
    DoneWith,
    Drop,
}

type Probe = dyn Fn(Call, &str) -> io::Result<()> + Send + Sync;

/// [`Memory`], with a probe that each call passes first: it may wait, fail or panic.
#[derive(Clone)]
pub struct Probed {
    pub memory: Arc<Memory>,
    probe: Arc<Probe>,
    one_at_a_time: bool,
    alignment: usize,
}

impl Probed {
    pub fn new(probe: impl Fn(Call, &str) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self { memory: Arc::new(Memory::new()), probe: Arc::new(probe), one_at_a_time: false, alignment: 1 }
    }

    /// The same, but it says that writes to one of its files wait for each other.
    pub fn one_at_a_time(self) -> Self {
        Self { one_at_a_time: true, ..self }
    }

    /// The same, but it says that writes wait for a device.
    pub fn past_the_page_cache(self) -> Self {
        Self { alignment: 4096, ..self }
    }

    pub fn shared(&self) -> Arc<dyn Storage> {
        Arc::new(self.clone())
    }
}

impl std::fmt::Debug for Probed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Probed")
    }
}

impl Storage for Probed {
    fn name(&self) -> &'static str {
        "probed"
    }

    fn create(&self, key: &str, len: u64) -> io::Result<Box<dyn Blob>> {
        (self.probe)(Call::Create, key)?;
        let blob = self.memory.create(key, len)?;
        let (key, probe) = (key.to_owned(), self.probe.clone());
        let (one_at_a_time, alignment) = (self.one_at_a_time, self.alignment);
        Ok(Box::new(ProbedBlob { blob, key, probe, one_at_a_time, alignment }))
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        (self.probe)(Call::Put, key)?;
        self.memory.put(key, bytes)
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        (self.probe)(Call::Remove, key)?;
        self.memory.remove(key)
    }
}

struct ProbedBlob {
    blob: Box<dyn Blob>,
    key: String,
    probe: Arc<Probe>,
    one_at_a_time: bool,
    alignment: usize,
}

impl Blob for ProbedBlob {
    fn one_write_at_a_time(&self) -> bool {
        self.one_at_a_time
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    fn write_slices_at(&self, mut offset: u64, slices: &mut [IoSlice]) -> io::Result<()> {
        let joined = self.alignment > 1 && slices.len() > 1;
        if joined {
            (self.probe)(Call::WriteJoined, &self.key)?;
        }
        for slice in slices {
            let written = if joined { self.blob.write_at(offset, slice) } else { self.write_at(offset, slice) };
            written?;
            offset += slice.len() as u64;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        (self.probe)(Call::WriteAt, &self.key)?;
        self.blob.write_at(offset, bytes)
    }

    fn grows(&self) -> bool {
        self.blob.grows()
    }

    fn grow(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        (self.probe)(Call::Grow, &self.key)?;
        self.blob.grow(at, bytes)
    }

    fn done_with(&self, offset: u64, len: u64) {
        let _ = (self.probe)(Call::DoneWith, &self.key);
        self.blob.done_with(offset, len);
    }

    fn publish(&self) -> io::Result<()> {
        (self.probe)(Call::Publish, &self.key)?;
        self.blob.publish()
    }

    fn sync(&self) -> io::Result<()> {
        (self.probe)(Call::Sync, &self.key)?;
        self.blob.sync()
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        (self.probe)(Call::Punch, &self.key)?;
        self.blob.punch(offset, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        (self.probe)(Call::Truncate, &self.key)?;
        self.blob.truncate(len)
    }
}

impl Drop for ProbedBlob {
    fn drop(&mut self) {
        let _ = (self.probe)(Call::Drop, &self.key);
    }
}

/// Something that threads wait at until it is opened.
#[derive(Clone, Default)]
pub struct Barrier(Arc<(Mutex<bool>, Condvar)>);

impl Barrier {
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub fn close(&self) {
        *self.0.0.lock().unwrap() = false;
    }

    pub fn pass(&self) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |open| !*open).unwrap());
    }
}

/// Whether the calling thread is one that encodes.
pub fn is_worker() -> bool {
    std::thread::current().name().is_some_and(|name| name.starts_with("sw-worker"))
}

/// A storage whose workers wait at `barrier` before they store a chunk.
pub fn held_up_by(barrier: &Barrier) -> Probed {
    let barrier = barrier.clone();
    Probed::new(move |call, _| {
        if call == Call::WriteAt && is_worker() {
            barrier.pass();
        }
        Ok(())
    })
}

/// A folder in memory, where there is one: thousands of small files wait for the device otherwise.
pub fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Copies a dataset out of memory, so that the reader, which reads files, can open it.
pub fn save(memory: &Memory, to: &Path) {
    for key in memory.keys() {
        let path = to.join(&key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, memory.read(&key).unwrap()).unwrap();
    }
}

/// The pixels and the shape of the image `0` in memory.
pub fn read_back(memory: &Memory) -> (Vec<u64>, Vec<u8>) {
    let folder = scratch();
    save(memory, folder.path());
    let array = Array::open(folder.path().join("0")).unwrap();
    (array.shape().to_vec(), array.read_all().unwrap())
}

/// Runs `test` on a thread of its own and fails if it has not ended in time: a hang is a failure like any other.
pub fn within<T: Send + 'static>(seconds: u64, test: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, outcome) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let value = test();
        let _ = done.send(());
        value
    });
    match outcome.recv_timeout(Duration::from_secs(seconds)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("still running after {seconds} s: it hangs"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// Waits until `condition` holds, for 20 s at most.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("waited in vain until {what}");
}
