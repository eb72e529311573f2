//! What the thread that closes keeps of an image.

use std::time::{Duration, Instant};

use super::effort_watch::EffortWatch;
use super::paused::Paused;
use super::pump::Engine;
use super::records::RecordCopy;
use crate::error::logged;

pub(super) struct ClosingState {
    /// When the next checkpoint is due.
    pub(super) next: Instant,
    /// From when on it may write indexes again.
    pub(super) indexes_from: Instant,
    pub(super) paused: Paused,
    pub(super) watch: Watch,
    pub(super) effort: EffortWatch,
    /// For records that are not complete; memory that is got with the first of them.
    pub(super) copy: Option<RecordCopy>,
}

impl ClosingState {
    pub(super) fn new(engine: &Engine) -> Self {
        let (paused, effort) = (Paused::new(engine), EffortWatch::new(engine));
        let now = Instant::now();
        Self { next: now, indexes_from: now, paused, watch: Watch::default(), effort, copy: None }
    }
}

/// What a log is told of once when it begins, and once when it is over.
#[derive(Default)]
pub(super) struct Watch {
    is_slow: bool,
    is_filling: bool,
}

impl Watch {
    /// After a checkpoint that took so long, of those that are due so often.
    pub(super) fn look(&mut self, engine: &Engine, took: Duration, every: Duration) {
        if std::mem::replace(&mut self.is_slow, took > every) != self.is_slow {
            let (seconds, every_seconds) = (took.as_secs_f64(), every.as_secs_f64());
            logged(|| match took > every {
                true => tracing::warn!(seconds, every_seconds, "checkpoints take longer than they are apart"),
                false => tracing::info!(seconds, every_seconds, "checkpoints keep up again"),
            });
        }
        let stats = engine.stats();
        let (free, frames) = (stats.ring_free, stats.ring_frames);
        let (accepted, written, durable) = (stats.frames_accepted, stats.frames_written, stats.frames_durable);
        let seconds = took.as_secs_f64();
        logged(|| tracing::trace!(seconds, accepted, written, durable, free, "a checkpoint"));
        // A quarter to begin with, a half to be over: no line each second from a ring that stays about full.
        let is_filling = if self.is_filling { free < frames / 2 } else { free < frames / 4 };
        if std::mem::replace(&mut self.is_filling, is_filling) != is_filling {
            logged(|| match is_filling {
                true => tracing::warn!(free, frames, "less than a quarter of the ring is free"),
                false => tracing::info!(free, frames, "half of the ring is free again"),
            });
        }
    }
}
