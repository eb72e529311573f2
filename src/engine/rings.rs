//! The rings of a dataset's images: those whose buffers have the same size share memory.

use std::sync::{Arc, Mutex as StdMutex, Weak};

use crate::aligned_memory::RingBuffers;
use crate::error::Result;
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
    memory: Weak<Buffers>,
}

impl Rings {
    pub(super) fn ring(&self, plan: &Plan, source: RingSource) -> Result<Arc<Ring>> {
        let (frame_bytes, record_bytes) = (plan.frame.layout.buffer_bytes, plan.record.bytes);
        let wanted = match source {
            RingSource::Own(buffers) => {
                return Ok(Arc::new(Ring::new(plan.ring.buffers, frame_bytes, record_bytes, buffers)?));
            }
            RingSource::Shared(wanted) => wanted,
        };
        // A layer that waits for frames holds some until these come. Where chunks are one frame deep, none waits.
        let span = plan.layers.frames_a_block();
        let needed = plan.ring.buffers.min(plan.buffers_a_block().saturating_add(2));
        let floor = if span > 1 { needed } else { 0 };
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
        let memory = Arc::new(Buffers::new(wanted.max(needed + 2), frame_bytes, record_bytes, None)?);
        let ring = Ring::sharing(&memory, floor, plan.ring.buffers);
        classes.push(Class { frame_bytes, record_bytes, memory: Arc::downgrade(&memory) });
        Ok(ring.expect("its buffers are enough for one image"))
    }
}
