//! A program's own subscriber hears of warnings and errors in the middle of the run's work, and may panic. That must
//! not leave anybody waiting.

use std::path::Path;
use std::time::Duration;

use crate::common::child::in_child;
use crate::common::storage::{Call, Probed, within};
use crate::common::{frame, tiny};
use shardwright::{Acquisition, Config, Dim, Error, Record};
use tracing::span::{Attributes, Id, Record as Fields};
use tracing::{Event, Metadata, Subscriber};

struct Panics;

impl Subscriber for Panics {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Fields<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        // Without a trace of the stack on the terminal each time.
        std::panic::resume_unwind(Box::new(format!("no room for a {} in the log", event.metadata().level())));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn bring(acquisition: &Acquisition, number: u64) -> Result<(), Error> {
    let mut slot = acquisition.acquire_timeout(Duration::from_secs(10))?;
    slot.copy_from_slice(&frame(number, 256));
    slot.commit(number, Record::default())
}

#[test]
fn a_subscriber_that_panics_wedges_nothing() {
    in_child("panicking_subscriber::child_has_such_a_subscriber", Path::new(""));
}

/// Each run of a process has the same subscriber, so all is in one test.
#[test]
#[ignore = "another test runs it in a process of its own"]
fn child_has_such_a_subscriber() {
    tracing::subscriber::set_global_default(Panics).unwrap();
    within(60, a_layer_given_up);
    within(60, a_shard_that_can_not_be_made);
    within(60, a_failed_write);
    within(60, a_callback_that_panics_too);
}

/// The sequencer warns that it gives up a layer. A message lost is no frame lost.
fn a_layer_given_up() {
    let dims = vec![Dim::time(None).chunk(16).shard(16), Dim::y(16), Dim::x(16)];
    let storage = Probed::new(|_, _| Ok(()));
    let acquisition = Acquisition::create_in(storage.shared(), Config { dims, ..tiny(None, 24) }).unwrap();
    let held: Vec<_> = (0..20).map(|_| acquisition.acquire().unwrap()).collect();
    (0..4).for_each(|number| bring(&acquisition, number).unwrap());
    // Nothing but giving up the layer frees a buffer.
    bring(&acquisition, 16).unwrap();
    drop(held);
    bring(&acquisition, 17).unwrap();
    let summary = acquisition.finish().unwrap();
    assert_eq!((summary.frames_written, summary.frames_missing), (6, 12));
}

/// The preparer warns, as long as nobody needs the shard.
fn a_shard_that_can_not_be_made() {
    let storage = Probed::new(|call, key| match call {
        Call::Create if key != "0/c/0/0/0" => Err(std::io::ErrorKind::StorageFull.into()),
        _ => Ok(()),
    });
    let acquisition = Acquisition::create_in(storage.shared(), tiny(None, 16)).unwrap();
    (0..4).for_each(|number| bring(&acquisition, number).unwrap());
    assert_eq!(acquisition.finish().unwrap().frames_written, 4);
}

/// The run's own error is told, not that of the subscriber; and a handle may be dropped.
fn a_failed_write() {
    let failing = || {
        Probed::new(|call, _| match call {
            Call::WriteAt if crate::common::storage::is_worker() => Err(std::io::Error::other("the disk is gone")),
            _ => Ok(()),
        })
    };
    let acquisition = Acquisition::create_in(failing().shared(), tiny(None, 16)).unwrap();
    let error = (0..10_000).find_map(|number| bring(&acquisition, number).err()).unwrap();
    assert!(error.to_string().contains("the disk is gone"), "{error}");
    assert!(acquisition.finish().unwrap_err().to_string().contains("the disk is gone"));
    let dropped = Acquisition::create_in(failing().shared(), tiny(None, 16)).unwrap();
    bring(&dropped, 0).unwrap();
    drop(dropped);
}

fn a_callback_that_panics_too() {
    let storage = Probed::new(|_, _| Ok(()));
    let acquisition = Acquisition::create_in(storage.shared(), tiny(None, 16)).unwrap();
    acquisition.on_shard_closed(|_| std::panic::resume_unwind(Box::new("no network"))).unwrap();
    (0..8).for_each(|number| bring(&acquisition, number).unwrap());
    let summary = acquisition.finish().unwrap();
    assert_eq!(summary.frames_written, 8);
    assert!(summary.notes.iter().any(|note| note.contains("no network")), "{:?}", summary.notes);
}
