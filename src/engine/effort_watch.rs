//! Looks at a run, so that the effort of encoding can follow it.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::effort::{Controller, Observation};
use super::shared::Shared;
use crate::error::logged;
use crate::stats::Stage;
use crate::sync::Unpoisoned;

/// Of a shorter time, sums over whole tiles tell little.
const LOOK_AFTER_MIN: Duration = Duration::from_millis(20);

pub(super) struct EffortWatch {
    controller: Controller,
    began: Instant,
    looked: Instant,
    encoding_ns: u64,
    storing_ns: u64,
    chunks: u64,
}

impl EffortWatch {
    pub(super) fn new(engine: &Shared) -> Self {
        let now = Instant::now();
        let controller = Controller::new(engine.plan.efforts.clone());
        Self { controller, began: now, looked: now, encoding_ns: 0, storing_ns: 0, chunks: 0 }
    }

    pub(super) fn is_needed(&self) -> bool {
        self.controller.is_needed()
    }

    pub(super) fn look(&mut self, engine: &Shared) {
        let elapsed = self.looked.elapsed();
        if !self.is_needed() || elapsed < LOOK_AFTER_MIN {
            return;
        }
        let workers = 0..engine.plan.workers;
        let sum =
            |stage| workers.clone().map(|at| engine.worker_times(at).of(stage).total_ns.load(Relaxed)).sum::<u64>();
        let (encoding_ns, storing_ns) = (sum(Stage::Gather) + sum(Stage::Encode), sum(Stage::Store));
        let all_ns = elapsed.as_nanos() as f64 * engine.plan.workers as f64;
        let counters = &engine.counters;
        let chunks = counters.chunks_written.load(Relaxed) + counters.chunks_empty.load(Relaxed);
        let part = |ns: u64, before: u64| ns.saturating_sub(before) as f64 / all_ns;
        let seen = Observation {
            elapsed,
            ring_free: engine.ring.free_frames(),
            ring_frames: engine.ring.frames(),
            encoding: part(encoding_ns, self.encoding_ns),
            storing: part(storing_ns, self.storing_ns),
            rate: chunks.saturating_sub(self.chunks) as f64 / elapsed.as_secs_f64(),
        };
        (self.looked, self.encoding_ns, self.storing_ns) = (Instant::now(), encoding_ns, storing_ns);
        self.chunks = chunks;
        if let Some((effort, why)) = self.controller.next(&seen) {
            engine.set_effort(effort);
            let seconds = self.began.elapsed().as_secs_f64();
            logged(|| tracing::info!(effort = effort.name(), seconds, why, "the effort of encoding changes"));
            let note = format!("chunks with effort {} from {seconds:.2} s on: {why}", effort.name());
            engine.effort_changes.lock().unpoisoned().add(note);
        }
    }
}
