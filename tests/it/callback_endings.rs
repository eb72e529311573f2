//! A callback is called by one of the run's own threads. It may let go of runs; it can't wait for their end.

use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::storage::{wait_until, within};
use crate::common::{frame, tiny};
use shardwright::{Acquisition, Error, Unfinished};

type Handle = Arc<Mutex<Option<Acquisition>>>;

/// A run at `path` with a full shard, whose callback gets the handle that lies in `place` by then.
fn with_callback(path: &Path, place: &Handle, call: impl Fn(Acquisition) + Send + Sync + 'static) {
    let acquisition = Acquisition::create(path, tiny(None, 16)).unwrap();
    let found = place.clone();
    acquisition
        .on_shard_closed(move |_| {
            if let Some(handle) = found.lock().unwrap().take() {
                call(handle);
            }
        })
        .unwrap();
    let mut own = place.lock().unwrap();
    let pixels: Vec<u8> = (0..6).flat_map(|number| frame(number, 256)).collect();
    assert_eq!(acquisition.append(&pixels).unwrap().frames, 6);
    *own = Some(acquisition);
}

/// What the dataset says of itself, once its run has ended.
fn ended(path: &Path) -> serde_json::Value {
    let own = || -> serde_json::Value {
        let document = std::fs::read(path.join("zarr.json")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&document).unwrap()["attributes"]["shardwright"].clone()
    };
    wait_until("the run has ended", || own().get("frames").is_some());
    own()
}

#[test]
fn finish_in_a_callback_is_refused_and_the_run_ends_all_the_same() {
    within(30, || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        let (tell, told) = channel();
        let tell = Mutex::new(tell);
        with_callback(&path, &Handle::default(), move |acquisition| {
            tell.lock().unwrap().send(acquisition.finish()).unwrap();
        });
        let Err(Unfinished { summary, error }) = told.recv_timeout(Duration::from_secs(20)).unwrap() else {
            panic!("a thread has waited for its own end");
        };
        assert!(matches!(error, Error::InCallback), "{error}");
        assert_eq!(summary.frames_accepted, 6);
        assert_eq!((ended(&path)["complete"].clone(), ended(&path)["frames"].clone()), (true.into(), 6.into()));
    });
}

#[test]
fn abort_in_a_callback_returns_at_once_and_the_run_ends() {
    within(30, || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        with_callback(&path, &Handle::default(), Acquisition::abort);
        let own = ended(&path);
        let missing = own["frames_missing"].as_u64().unwrap();
        assert_eq!(own["complete"], missing == 0, "{own}");
    });
}

#[test]
fn callbacks_of_two_runs_may_drop_each_others_last_handle() {
    within(30, || {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["left.zarr", "right.zarr"].map(|name| folder.path().join(name));
        // Each callback waits until both are in one.
        let both = Arc::new(std::sync::Barrier::new(2));
        let handles = [Handle::default(), Handle::default()];
        for (at, path) in paths.iter().enumerate() {
            let (both, other) = (both.clone(), handles[1 - at].clone());
            with_callback(path, &Handle::default(), {
                let own = handles[at].clone();
                move |handle| {
                    *own.lock().unwrap() = Some(handle);
                    both.wait();
                    drop(other.lock().unwrap().take());
                }
            });
        }
        assert!(paths.iter().all(|path| ended(path)["complete"] == true));
    });
}
