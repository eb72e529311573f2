//! The thread that feeds the levels of all images of a pool.

use std::sync::Arc;
use std::time::Duration;

use super::closings::Closings;
use super::messages::StoredOf;
use super::served::{Roster, Served};
use crate::sync::{Receiver, Unpoisoned};

/// How often it is looked whether there is room for what has to wait for it.
const LOOK_EVERY: Duration = Duration::from_micros(500);

pub(super) fn run(stored: &Closings<StoredOf>, to_feed: &Receiver<StoredOf>, roster: &Roster) {
    // Images of which a layer waits for room.
    let mut waiting: Vec<Arc<Served>> = Vec::new();
    loop {
        let next = match waiting.is_empty() {
            true => to_feed.recv().map_err(|_| true),
            false => to_feed.recv_timeout(LOOK_EVERY).map_err(|error| error.is_disconnected()),
        };
        let mut next = match next {
            Ok(next) => Some(next),
            Err(true) => return,
            Err(false) => None,
        };
        while let Some(thing) = next {
            let Some((image, turn, slot)) = thing else { return };
            if let Some(of) = roster.get(image) {
                if let Some(feed) = of.feed.get() {
                    feed.lock().unpoisoned().add(turn, slot);
                }
                if !waiting.iter().any(|other| Arc::ptr_eq(other, &of)) {
                    waiting.push(of);
                }
            }
            next = stored.beside().or_else(|| to_feed.try_recv().ok());
        }
        waiting.retain(|of| {
            let feed = of.feed.get().map(|feed| feed.lock().unpoisoned());
            feed.is_some_and(|mut feed| feed.pass_on())
        });
    }
}
