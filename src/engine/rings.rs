//! The rings of a dataset's images: those whose buffers have the same size share memory.

use std::sync::{Arc, Mutex as StdMutex, Weak};

use crate::aligned_memory::RingBuffers;
use crate::error::{Error, Result};
use crate::fs::system;
use crate::plan::Plan;
use crate::ring::{Buffers, Ring};
use crate::sync::Unpoisoned;

pub(crate) enum RingSource {
    /// It is this image's alone.
    Own(Option<RingBuffers>),
    /// Images like it have it, too; this many buffers are made if there are none.
    Shared(usize),
}

/// The memory of all rings that are shared. It lives as long as the last image that uses it.
#[derive(Default)]
pub(super) struct Rings(StdMutex<Vec<Class>>);

/// Buffers of one size.
struct Class {
    frame_bytes: usize,
    record_bytes: usize,
    /// All of them together.
    bytes: u64,
    memory: Weak<Buffers>,
}

/// Refuses rings that the machine has no memory for together, as [`Plan::check_memory`] does for one. `wanted`: what
/// was asked for; `all`: what the rings take.
pub(crate) fn check_memory(wanted: u64, all: u64) -> Result<()> {
    let Some(memory) = system::memory_bytes().filter(|memory| all > *memory) else { return Ok(()) };
    let reason = format!(
        "the rings of all images take {all} bytes at once, more than the memory of this machine, {memory} bytes: each \
         image keeps the frames of the chunks that it fills, where these are deeper than one frame; ask for smaller \
         rings, make chunks less deep, or acquire fewer images at the same time"
    );
    Err(Error::config("ring_bytes", wanted, reason))
}

impl Rings {
    /// The bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        let classes = self.0.lock().unpoisoned();
        classes.iter().filter(|class| class.memory.strong_count() > 0).map(|class| class.bytes).sum()
    }

    /// The ring of an image. `beside`: what other rings of the dataset take.
    pub(super) fn ring(&self, plan: &Plan, source: RingSource, beside: u64) -> Result<Arc<Ring>> {
        let (frame_bytes, record_bytes) = (plan.frame.layout.buffer_bytes, plan.record.bytes);
        let wanted = match source {
            RingSource::Own(buffers) => {
                return Ok(Arc::new(Ring::new(plan.ring.buffers, frame_bytes, record_bytes, buffers)?));
            }
            RingSource::Shared(wanted) => wanted,
        };
        let floor = plan.ring_floor();
        let mut classes = self.0.lock().unpoisoned();
        classes.retain(|class| class.memory.strong_count() > 0);
        let alike =
            classes.iter().filter(|class| (class.frame_bytes, class.record_bytes) == (frame_bytes, record_bytes));
        for memory in alike.filter_map(|class| class.memory.upgrade()).filter(|memory| memory.count >= wanted) {
            if let Some(ring) = Ring::sharing(&memory, floor, plan.ring.buffers) {
                return Ok(ring);
            }
        }
        // Two more than one image's layers need: some are free for all.
        let count = wanted.max(plan.ring_needed() + 2);
        let bytes = plan.ring_bytes(count);
        check_memory(bytes, bytes.saturating_add(beside))?;
        let memory = Arc::new(Buffers::new(count, frame_bytes, record_bytes, None)?);
        let ring = Ring::sharing(&memory, floor, plan.ring.buffers);
        classes.push(Class { frame_bytes, record_bytes, bytes, memory: Arc::downgrade(&memory) });
        Ok(ring.expect("its buffers are enough for one image"))
    }
}
