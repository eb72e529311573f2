//! What the engine has to tell, until Python asks for it.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use shardwright::words::log_source;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// Lines that wait at most; then the oldest go.
const LINES_MAX: usize = 1024;

/// `logging`'s number of the level, the part of the library, the text.
type Line = (u8, String, String);

static LINES: Mutex<VecDeque<Line>> = Mutex::new(VecDeque::new());
static PENDING: AtomicBool = AtomicBool::new(false);

/// Hears the engine from now on.
pub(crate) fn listen() {
    // Another extension in this process can't have been first: each has its own copy of `tracing`.
    let _ = tracing::subscriber::set_global_default(Queue);
}

/// Lets `logging` have what waits. Called where a call from Python has something else than a frame to do.
pub(crate) fn drain(py: Python<'_>) {
    if PENDING.load(Relaxed) {
        let drained = py.import("shardwright._log").and_then(|module| module.call_method0("drain"));
        if let Err(error) = drained {
            error.write_unraisable(py, None);
        }
    }
}

/// Takes what the engine has told since the last call: level as in `logging`, source, text.
#[pyfunction]
pub(crate) fn take_log() -> Vec<Line> {
    // In the child of a fork, a thread that is not there may have the lock for ever.
    let Ok(mut lines) = LINES.try_lock() else { return Vec::new() };
    // Not before: where a line is just told, it would wait until there is another.
    PENDING.store(false, Relaxed);
    lines.drain(..).collect()
}

struct Queue;

impl Subscriber for Queue {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::INFO
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(tracing::level_filters::LevelFilter::INFO)
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let level = match *event.metadata().level() {
            Level::ERROR => 40,
            Level::WARN => 30,
            Level::INFO => 20,
            _ => 10,
        };
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        lines.push_back((level, log_source(event.metadata().target()).to_owned(), text.0));
        PENDING.store(true, Relaxed);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The message, then the other fields.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let outcome = if field.name() == "message" {
            let rest = std::mem::take(&mut self.0);
            write!(self.0, "{value:?}{rest}")
        } else {
            write!(self.0, "; {}: {value:?}", field.name())
        };
        debug_assert!(outcome.is_ok(), "a string takes everything");
    }
}
