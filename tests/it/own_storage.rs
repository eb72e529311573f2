//! Storages of the caller's own: what comes to nothing leaves nothing in them, and what panics is an error.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use shardwright::{
    Acquisition, Blob, Codec, Compressor, Config, Dataset, Dialect, Dim, Downsampling, Error, Memory, Storage,
};

fn config() -> Config {
    Config {
        dims: vec![Dim::time(None).chunk(4).shard(16), Dim::y(16), Dim::x(16)],
        codec: Codec { compressor: Compressor::None, checksum: false },
        ring_bytes: 1 << 20,
        ..Config::default()
    }
}

#[test]
fn a_run_to_which_nothing_came_leaves_its_storage_as_it_was() {
    let kinds = [
        config(),
        Config { pyramid: Some(Downsampling::default()), ..config() },
        Config { dialect: Dialect::Zarr3Transformer, ..config() },
        Config { dialect: Dialect::Zarr2Sharded, ..config() },
    ];
    for config in kinds {
        for aborts in [true, false] {
            let memory = Arc::new(Memory::new());
            for _ in 0..2 {
                let acquisition = Acquisition::create_in(memory.clone(), config.clone()).unwrap();
                if aborts {
                    acquisition.abort()
                } else {
                    drop(acquisition)
                }
                assert_eq!(memory.keys(), Vec::<String>::new(), "{:?} {aborts}", config.dialect);
            }
            let acquisition = Acquisition::create_in(memory.clone(), config.clone()).unwrap();
            assert_eq!(acquisition.append(&[1; 512]).unwrap().frames, 1);
            acquisition.abort();
            assert!(!memory.keys().is_empty());
        }
    }
}

#[test]
fn so_does_a_dataset_of_several_images() {
    let memory = Arc::new(Memory::new());
    let dataset = Dataset::create_in(memory.clone()).unwrap();
    let images = ["left", "right"].map(|name| dataset.acquisition(name, config()).unwrap());
    assert!(memory.keys().iter().any(|key| key == "OME/zarr.json"));
    drop(dataset);
    images.into_iter().for_each(Acquisition::abort);
    assert_eq!(memory.keys(), Vec::<String>::new());
    let dataset = Dataset::create_in(memory.clone()).unwrap();
    let [left, right] = ["left", "right"].map(|name| dataset.acquisition(name, config()).unwrap());
    assert_eq!(right.append(&[1; 512]).unwrap().frames, 1);
    left.abort();
    right.finish().unwrap();
    drop(dataset);
    assert!(memory.keys().iter().any(|key| key.starts_with("right/0/c/")), "{:?}", memory.keys());
}

/// A storage whose name can't be had.
#[derive(Debug)]
struct Nameless(Memory);

impl Storage for Nameless {
    fn name(&self) -> &'static str {
        std::panic::resume_unwind(Box::new("no name"));
    }

    fn create(&self, key: &str, len: u64) -> io::Result<Box<dyn Blob>> {
        self.0.create(key, len)
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        self.0.put(key, bytes)
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        self.0.remove(key)
    }
}

#[test]
fn a_name_that_panics_is_an_error() {
    let storage: Arc<dyn Storage> = Arc::new(Nameless(Memory::new()));
    let created =
        std::panic::catch_unwind(AssertUnwindSafe(|| Acquisition::create_in(storage.clone(), config()).map(drop)));
    assert!(matches!(created, Ok(Err(Error::Panicked { .. }))), "{created:?}");
    let created = std::panic::catch_unwind(AssertUnwindSafe(|| Dataset::create_in(storage.clone()).map(drop)));
    assert!(matches!(created, Ok(Err(Error::Panicked { .. }))), "{created:?}");
}
