//! What is read while another program replaces it, or writes to it: no reader puts together pixels of two recordings,
//! and none takes a change for damage.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::stopped::{commit, finished};
use crate::common::{frame, manifests, movie_config};
use shardwright::offline::{Array, ManifestOptions, Repack, RepackOptions};
use shardwright::{Acquisition, Codec, Compressor, Config, Error};

const FRAMES: u64 = 9;

/// One worker, so that the chunks of every recording follow each other in the same order.
fn config() -> Config {
    Config { workers: 1, ..movie_config() }
}

/// A movie of nine frames, and another one of the same kind at its side.
struct Two {
    folder: tempfile::TempDir,
    movie: PathBuf,
}

impl Two {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let movie = folder.path().join(name);
        finished(&movie, &config(), &(0..FRAMES).collect::<Vec<_>>());
        Self { folder, movie }
    }

    fn out(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Another recording takes the place, as `--overwrite` has it; of an archive, which is locked while it is read, as
    /// `mv` has it.
    fn replace(&self) {
        let is_archive = self.movie.is_file();
        let path = if is_archive { self.out("other.ozx") } else { self.movie.clone() };
        let config = Config { overwrite: true, ..config() };
        let acquisition = Acquisition::create(&path, config.clone()).unwrap();
        (0..FRAMES).for_each(|number| commit(&acquisition, &config, number));
        acquisition.finish().unwrap();
        if is_archive {
            fs::rename(path, &self.movie).unwrap();
        }
    }
}

fn is_told(told: Result<impl Sized, Error>) {
    let error = told.map(drop).unwrap_err();
    let says = error.to_string();
    assert!(matches!(error, Error::Conflict { .. }) && says.contains("changed while it was read"), "{says}");
}

fn read_frame(array: &Array, number: u64) -> Result<Vec<u8>, Error> {
    let mut pixels = vec![0; 40 * 50 * 2];
    array.read_region(&[number, 0, 0], &[1, 40, 50], &mut pixels).map(|()| pixels)
}

#[test]
fn a_region_is_of_the_array_that_was_opened() {
    for name in ["movie.zarr", "movie.ozx"] {
        let two = Two::new(name);
        let array = Array::open(&two.movie).unwrap();
        assert!(read_frame(&array, 5).unwrap() == frame(5, 40 * 50 * 2));
        two.replace();
        is_told(read_frame(&array, 5));
        let array = Array::open(&two.movie).unwrap();
        assert!(read_frame(&array, 5).unwrap() == frame(5, 40 * 50 * 2));
        if two.movie.is_dir() { fs::remove_dir_all(&two.movie) } else { fs::remove_file(&two.movie) }.unwrap();
        is_told(read_frame(&array, 5));
    }
}

#[test]
fn what_a_manifest_names_is_of_the_arrays_that_were_there() {
    let two = Two::new("movie.zarr");
    let out = two.out("manifests.zarr");
    manifests(&two.movie, &out, &ManifestOptions::default()).unwrap();
    let array = Array::open(&out).unwrap();
    assert!(read_frame(&array, 5).unwrap() == frame(5, 40 * 50 * 2));
    two.replace();
    is_told(read_frame(&array, 5));
    assert!(read_frame(&Array::open(&out).unwrap(), 5).unwrap() == frame(5, 40 * 50 * 2));
}

#[test]
fn pieces_are_of_one_recording() {
    let two = Two::new("movie.zarr");
    let array = Array::open(&two.movie).unwrap();
    let mut pieces = 0;
    let told = array.read_pieces(&[0, 0, 0], &[FRAMES, 40, 50], 2 * 40 * 50 * 2, |_| {
        pieces += 1;
        if pieces == 1 {
            two.replace();
        }
        Ok::<_, Error>(())
    });
    is_told(told);
}

/// Attributes that somebody adds, files beside it and a writer that goes on with it make no other array of it.
#[test]
fn what_is_written_around_the_pixels_disturbs_nobody() {
    let two = Two::new("movie.zarr");
    let array = Array::open(&two.movie).unwrap();
    for document in ["zarr.json", "0/zarr.json"] {
        let path = two.movie.join(document);
        let text =
            fs::read_to_string(&path).unwrap().replacen("\"attributes\": {", "\"attributes\": {\"mine\": 1, ", 1);
        fs::write(&path, text).unwrap();
    }
    fs::write(two.movie.join("0/notes.txt"), "mine").unwrap();
    assert!(read_frame(&array, 5).unwrap() == frame(5, 40 * 50 * 2));
}

#[test]
fn a_repack_makes_nothing_of_two_recordings() {
    for (name, options) in [
        ("copy.zarr", RepackOptions::default()),
        ("copy.ozx", RepackOptions::default()),
        ("coded.zarr", RepackOptions { codec: Some(Codec::from(Compressor::None)), ..RepackOptions::default() }),
        ("cut.zarr", RepackOptions { chunk: vec![1, 16, 16], ..RepackOptions::default() }),
    ] {
        for source in ["movie.zarr", "movie.ozx"] {
            let two = Two::new(source);
            let out = two.out(name);
            let repack = Repack::new(&two.movie, Some(&out), &options).unwrap();
            two.replace();
            is_told(repack.run());
            assert!(!out.exists(), "{name} of {source}");
            // The next call begins with what is there now.
            Repack::new(&two.movie, Some(&out), &options).unwrap().run().unwrap();
            let [copy, now] = [&out, &two.movie].map(|path| Array::open(path).unwrap().read_all().unwrap());
            assert!(copy == now);
        }
    }
}

/// Runs `work` while files of the dataset change.
fn while_it_changes<T>(dataset: &Path, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (begun, waits) = std::sync::mpsc::channel();
        let done = &done;
        scope.spawn(move || {
            for number in 0_u64.. {
                fs::write(dataset.join("0/changing"), vec![0; number as usize % 4096]).unwrap();
                let _ = begun.send(());
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        waits.recv().unwrap();
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    })
}

#[test]
fn a_repack_of_what_is_written_to_is_not_published() {
    let two = Two::new("movie.zarr");
    let out = two.out("copy.zarr");
    let repack = Repack::new(&two.movie, Some(&out), &RepackOptions::default()).unwrap();
    let told = while_it_changes(&two.movie, || repack.run()).unwrap_err().to_string();
    assert!(told.contains("changed while it was read") && told.contains("what is finished stays in"), "{told}");
    assert!(!out.exists());
    let again = Repack::new(&two.movie, Some(&out), &RepackOptions::default()).unwrap().run().unwrap();
    assert!(again.shards_found > 0, "{again:?}");
}

#[test]
fn a_manifest_of_what_is_written_to_is_not_published() {
    let two = Two::new("movie.zarr");
    let out = two.out("manifests.zarr");
    // Of an array, only files that may be chunks count.
    let shard = two.movie.join("0/c/0/0/0");
    let bytes = fs::read(&shard).unwrap();
    let done = AtomicBool::new(false);
    let told = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                fs::write(two.out("new"), &bytes).unwrap();
                fs::rename(two.out("new"), &shard).unwrap();
                thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let told = (0..100).find_map(|_| {
            let told = manifests(&two.movie, &out, &ManifestOptions::default());
            let _ = fs::remove_dir_all(&out);
            told.err()
        });
        done.store(true, Ordering::Relaxed);
        told
    });
    is_told(told.map_or(Ok(()), Err));
}

/// In place, too: the array that is rebuilt takes the place of another.
#[test]
fn a_repack_in_place_is_told_to_who_reads() {
    let two = Two::new("movie.zarr");
    let array = Array::open(&two.movie).unwrap();
    let options = RepackOptions { codec: Some(Codec::from(Compressor::Gzip { level: 1 })), ..RepackOptions::default() };
    Repack::new(&two.movie, None, &options).unwrap().run().unwrap();
    is_told(read_frame(&array, 5));
    assert!(read_frame(&Array::open(&two.movie).unwrap(), 5).unwrap() == frame(5, 40 * 50 * 2));
}
