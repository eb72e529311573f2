//! What a program's own code does wrong while a run calls it: in a callback, in a storage.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use crate::common::storage::{Call, Probed, read_back, wait_until, within};
use crate::common::{frame, tiny};
use shardwright::{Acquisition, Config, Dim, Error, Memory, Storage};

#[test]
fn a_callback_that_panics_is_told_of_and_costs_nothing() {
    let storage = Probed::new(|_, _| Ok(()));
    let acquisition = Acquisition::create_in(storage.shared(), tiny(None, 32)).unwrap();
    acquisition.on_shard_closed(|key| panic!("no network for {key}")).unwrap();
    assert!(matches!(acquisition.on_shard_closed(|_| ()), Err(Error::ListenerSet)));
    (0..8).for_each(|number| assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1));
    let summary = acquisition.finish().unwrap();
    assert_eq!((summary.frames_written, summary.frames_missing), (8, 0));
    let told = |note: &String| note.contains("2 shards") && note.contains("no network for 0/c/0/0/0");
    assert!(summary.notes.iter().any(told), "{:?}", summary.notes);
}

#[test]
fn the_last_handle_may_be_dropped_in_a_callback() {
    within(30, || {
        let storage = Probed::new(|_, _| Ok(()));
        let place: Arc<Mutex<Option<Acquisition>>> = Arc::default();
        let acquisition = Acquisition::create_in(storage.shared(), tiny(None, 32)).unwrap();
        let (found, dropped) = (place.clone(), Arc::new(AtomicU64::new(0)));
        let counted = dropped.clone();
        acquisition
            .on_shard_closed(move |_| {
                let last = found.lock().unwrap().take();
                counted.fetch_add(u64::from(last.is_some()), SeqCst);
                drop(last);
            })
            .unwrap();
        (0..3).for_each(|number| assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1));
        // The fourth fills the shard.
        let mut held = place.lock().unwrap();
        (3..6).for_each(|number| assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1));
        *held = Some(acquisition);
        drop(held);
        wait_until("it is dropped", || dropped.load(SeqCst) == 1);
        let complete = || {
            let document = storage.memory.read("zarr.json").unwrap();
            serde_json::from_slice::<serde_json::Value>(&document).unwrap()["attributes"]["shardwright"]["complete"]
                == true
        };
        wait_until("the run has ended", complete);
        let (shape, pixels) = read_back(&storage.memory);
        assert_eq!(shape, [6, 16, 16]);
        assert!((0..6).all(|number| pixels[256 * number as usize..][..256] == frame(number, 256)));
    });
}

#[test]
fn a_storage_that_panics_during_create_is_an_error_and_leaves_nothing() {
    for call in [Call::Put, Call::Create, Call::Publish, Call::Sync] {
        for nth in 0..20 {
            let seen = AtomicU64::new(0);
            let storage = Probed::new(move |called, _| {
                assert!(called != call || seen.fetch_add(1, SeqCst) != nth, "out of ink");
                Ok(())
            });
            match Acquisition::create_in(storage.shared(), tiny(None, 32)) {
                Ok(acquisition) => acquisition.abort(),
                Err(error) => {
                    assert!(matches!(&error, Error::Panicked { message } if message.contains("out of ink")), "{error}");
                    let left = storage.memory.keys();
                    assert!(left.is_empty(), "{call:?} {nth}: {left:?}");
                }
            }
        }
    }
}

#[test]
fn setting_an_attribute_does_not_wait_for_a_document() {
    let barrier = crate::common::storage::Barrier::default();
    barrier.open();
    let held = barrier.clone();
    let storage = Probed::new(move |call, key| {
        if call == Call::Put && key.ends_with("zarr.json") {
            held.pass();
        }
        Ok::<_, io::Error>(())
    });
    within(30, move || {
        let config = Config { checkpoint_every: std::time::Duration::from_millis(10), sync: true, ..tiny(None, 32) };
        let acquisition = Acquisition::create_in(storage.shared(), config).unwrap();
        barrier.close();
        assert_eq!(acquisition.append(&frame(0, 256)).unwrap().frames, 1);
        // By now a checkpoint waits in the middle of a document.
        std::thread::sleep(std::time::Duration::from_millis(100));
        acquisition.set_attribute("sample", "mouse".into()).unwrap();
        barrier.open();
        acquisition.finish().unwrap();
        let document = String::from_utf8(storage.memory.read("zarr.json").unwrap()).unwrap();
        assert!(document.contains("mouse"), "{document}");
    });
}

#[test]
fn memory_refuses_what_does_not_fit_and_hides_what_is_being_written() {
    let memory = Memory::new();
    assert!(memory.create("a", u64::MAX).is_err());
    let blob = memory.create("a", 100).unwrap();
    assert!(blob.write_at(90, &[1; 11]).is_err() && blob.write_at(u64::MAX, &[1]).is_err());
    assert!(blob.punch(50, u64::MAX).is_ok());
    blob.write_at(90, &[1; 10]).unwrap();
    blob.publish().unwrap();
    blob.truncate(u64::MAX).unwrap();
    assert_eq!(memory.read("a").unwrap().len(), 100);
    let mapped = Memory::mapped();
    let blob = mapped.create("b", 100).unwrap();
    blob.publish().unwrap();
    assert!(mapped.read("b").is_none());
    drop(blob);
    assert_eq!(mapped.read("b").unwrap(), [0; 100]);
}

#[test]
fn absurd_sizes_are_refused_at_once() {
    let started = std::time::Instant::now();
    let refused = |config: Config| {
        let error = Acquisition::create_in(Arc::new(Memory::new()), config).map(Acquisition::abort).unwrap_err();
        assert!(matches!(error, Error::Config { .. }), "{error}");
    };
    for (y, x, chunk) in
        [(1 << 17, 1 << 17, 1), (1 << 40, 1 << 40, 1 << 20), (u64::MAX, u64::MAX, u64::MAX), (1 << 31, 3, 1)]
    {
        let dims = vec![Dim::time(None), Dim::y(y).chunk(chunk), Dim::x(x).chunk(chunk.min(x))];
        refused(Config { dims, ..tiny(None, 32) });
    }
    for buffer_bytes in [usize::MAX, usize::MAX - 4096, 0] {
        let layout = shardwright::FrameLayout { buffer_bytes, offset: 0, row_stride: 16 };
        refused(Config { frame_layout: Some(layout), ..tiny(None, 32) });
    }
    let planes = |size| Dim { name: format!("d{size}"), ..Dim::time(size) };
    let dims = vec![planes(u64::MAX), planes(u64::MAX - 1), Dim::y(16), Dim::x(16)];
    refused(Config { dims, ..tiny(None, 32) });
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

/// [`Memory`] that can't say whether something is in it.
#[derive(Debug)]
struct Unsure(Memory);

impl Storage for Unsure {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn create(&self, key: &str, len: u64) -> io::Result<Box<dyn shardwright::Blob>> {
        self.0.create(key, len)
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        self.0.put(key, bytes)
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        self.0.remove(key)
    }

    fn is_used(&self) -> bool {
        std::panic::resume_unwind(Box::new("no network"))
    }
}

#[test]
fn a_storage_that_can_not_say_whether_it_is_used_is_an_error() {
    let storage = Arc::new(Unsure(Memory::new()));
    let image = Acquisition::create_in(storage.clone(), tiny(None, 8)).map(drop);
    let several = shardwright::Dataset::create_in(storage.clone()).map(drop);
    for refused in [image, several] {
        assert!(matches!(&refused, Err(Error::Panicked { message }) if message == "no network"), "{refused:?}");
    }
    assert!(storage.0.keys().is_empty());
}
