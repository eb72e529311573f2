//! Log lines and closed shards, told to the caller's functions.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_void};
use std::fmt::{self, Write as _};
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{OnceLock, RwLock};

use tracing::field::{Field, Visit};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber, span};

use super::callback::{Context, Of, in_callback};
use super::handle::{count_forks, forks};
use super::registry::{sw_acquisition, with_run};
use super::status::{
    Outcome, SW_ERROR_ARGUMENT, SW_ERROR_BUSY, SW_ERROR_NULL, SW_ERROR_UNSUPPORTED, boundary, of_one_line, refuse,
    sw_status,
};
use crate::sync::Unpoisoned;
use crate::words::log_source;

/// How much a log line matters.
pub type sw_log_level = u32;
/// Nothing is told.
pub const SW_LOG_NONE: sw_log_level = 0;
/// Something failed.
pub const SW_LOG_ERROR: sw_log_level = 1;
/// Something may become a problem.
pub const SW_LOG_WARN: sw_log_level = 2;
/// The course of things.
pub const SW_LOG_INFO: sw_log_level = 3;
/// Details.
pub const SW_LOG_DEBUG: sw_log_level = 4;
/// More details.
pub const SW_LOG_TRACE: sw_log_level = 5;

/// Hears a log line: its level, the part of the library it comes from, its text without a line end and other control
/// characters, of which each is a space. Both texts are the library's, never null, and good during the call. It is
/// called from any thread, also from several at once, whatever that thread is doing for a run: no run can be ended in
/// it.
///
/// `source` is "shardwright::acquisition" (where a run begins and ends, and the program's own functions),
/// "shardwright::engine" (the way of frames through the ring, checkpoints, first errors), "shardwright::shard" (the
/// room in a shard's file) or "shardwright::storage" (archives). These names stay, and others may be added.
pub type sw_log_fn =
    Option<unsafe extern "C" fn(context: *mut c_void, level: sw_log_level, source: *const c_char, text: *const c_char)>;

/// Hears that a shard is closed: its key below the dataset, for example "0/c/0/0/0", good during the call. It is called
/// from the one thread that closes shards, which does nothing else meanwhile.
pub type sw_shard_fn = Option<unsafe extern "C" fn(context: *mut c_void, key: *const c_char)>;

struct Listener {
    call: unsafe extern "C" fn(*mut c_void, sw_log_level, *const c_char, *const c_char),
    context: Context,
    level: sw_log_level,
}

/// Who hears, in this process. A child of a fork has one of its own: that of its parent stays as the fork found it,
/// perhaps held by a thread which is not in the child.
struct Hearing {
    forks: u32,
    listener: RwLock<Option<Listener>>,
}

static HEARING: AtomicPtr<Hearing> = AtomicPtr::new(ptr::null_mut());

impl Hearing {
    /// Who hears in this process, if that was ever said.
    fn here() -> Option<&'static Self> {
        // Acquire: meets the Release below. SAFETY: what is kept there is never freed.
        unsafe { HEARING.load(Acquire).as_ref() }.filter(|hearing| hearing.forks == forks())
    }

    fn here_or_new() -> &'static Self {
        loop {
            if let Some(here) = Self::here() {
                return here;
            }
            let before = HEARING.load(Acquire);
            let new = Box::into_raw(Box::new(Self { forks: forks(), listener: RwLock::new(None) }));
            if HEARING.compare_exchange(before, new, AcqRel, Acquire).is_err() {
                // SAFETY: it comes from a box, and nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }
}

/// Has log lines up to `level` told to `callback`, in place of the function before; null: to nobody. It holds for the
/// whole process. On return, the function before is not called any more. A child after a fork tells nobody until it
/// calls this itself, and never waits for what a thread of its parent was doing.
///
/// Errors: SW_ERROR_BUSY in a callback or a storage's function; SW_ERROR_ARGUMENT for a wrong level;
/// SW_ERROR_UNSUPPORTED in a Rust program that has a subscriber for `tracing` of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_set_log(level: sw_log_level, callback: sw_log_fn, context: *mut c_void) -> sw_status {
    boundary(|| {
        if level > SW_LOG_TRACE {
            return refuse!(SW_ERROR_ARGUMENT, "level = {level}: 0 to {SW_LOG_TRACE} are possible");
        }
        if in_callback() {
            return refuse!(SW_ERROR_BUSY, "this is a callback; set the log's function on another thread");
        }
        count_forks();
        subscribe()?;
        let listener = callback.map(|call| Listener { call, context: Context(context), level });
        *Hearing::here_or_new().listener.write().unpoisoned() = listener;
        Ok(())
    })
}

/// Has the keys of shards, from the root of the dataset on, told to `callback` that are closed from now on: such a
/// shard is complete, and with `sync` on the device. It can be set once for an acquisition. The function and its
/// context must stay until the acquisition is freed.
///
/// Errors: SW_ERROR_BUSY if one was set before, SW_ERROR_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_on_shard_closed(
    acquisition: *mut sw_acquisition,
    callback: sw_shard_fn,
    context: *mut c_void,
) -> sw_status {
    with_run(acquisition, |run| {
        let Some(callback) = callback else { return refuse!(SW_ERROR_NULL, "callback is null") };
        let (context, of) = (Context(context), Of::Dataset(run.dataset));
        run.running()?.on_shard_closed(move |key| {
            let Ok(key) = CString::new(key) else { return };
            // SAFETY: the caller gave the function for this; the key lives through the call.
            context.call(of, |context| unsafe { callback(context, key.as_ptr()) });
        })?;
        Ok(())
    })
}

fn subscribe() -> Outcome<()> {
    static SET: OnceLock<bool> = OnceLock::new();
    if *SET.get_or_init(|| tracing::subscriber::set_global_default(Lines).is_ok()) {
        return Ok(());
    }
    refuse!(SW_ERROR_UNSUPPORTED, "this program has a tracing subscriber of its own, which gets the library's lines")
}

/// Tells events to the listener of the moment; there are no spans.
struct Lines;

fn level_of(level: &Level) -> sw_log_level {
    match *level {
        Level::ERROR => SW_LOG_ERROR,
        Level::WARN => SW_LOG_WARN,
        Level::INFO => SW_LOG_INFO,
        Level::DEBUG => SW_LOG_DEBUG,
        Level::TRACE => SW_LOG_TRACE,
    }
}

impl Subscriber for Lines {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // The listener may change.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // A line that is told while a line is told would wait for itself.
        metadata.is_event()
            && !in_callback()
            && Hearing::here()
                .and_then(|hearing| hearing.listener.read().unpoisoned().as_ref().map(|listener| listener.level))
                .is_some_and(|most| level_of(metadata.level()) <= most)
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let source = CString::new(log_source(event.metadata().target())).unwrap_or_default();
        let text = CString::new(line.0.chars().map(of_one_line).collect::<String>()).unwrap_or_default();
        let Some(hearing) = Hearing::here() else { return };
        // Held through the call, so that `sw_set_log` returns only when the function before is done.
        let listener = hearing.listener.read().unpoisoned();
        let Some(listener) = listener.as_ref() else { return };
        let level = level_of(event.metadata().level());
        // SAFETY: the caller gave the function for this; the texts live through the call.
        listener.context.call(Of::Any, |context| unsafe {
            (listener.call)(context, level, source.as_ptr(), text.as_ptr());
        });
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The message, then the other fields.
#[derive(Default)]
struct Line(String);

impl Visit for Line {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Adds what the lines that a file logs have as their source.
    fn add_sources(path: &Path, within: &str, found: &mut BTreeSet<String>) {
        if path.is_dir() {
            for inner in std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()) {
                let name = inner.file_stem().unwrap().to_str().unwrap();
                add_sources(&inner, if within.is_empty() { name } else { within }, found);
            }
            return;
        }
        let text = std::fs::read_to_string(path).unwrap();
        for level in ["error", "warn", "info", "debug", "trace"] {
            for call in text.split(&format!("tracing::{level}!(")).skip(1) {
                let named = call.trim_start().strip_prefix("target: \"");
                let source = named.map_or_else(
                    || format!("shardwright::{within}"),
                    |named| named.split('"').next().unwrap().to_owned(),
                );
                found.insert(source);
            }
        }
    }

    #[test]
    fn the_header_names_the_source_of_every_line() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let header = std::fs::read_to_string(root.join("include/shardwright.h")).unwrap();
        let mut sources = BTreeSet::new();
        add_sources(&root.join("src"), "", &mut sources);
        assert!(sources.len() > 3, "{sources:?}");
        for source in sources {
            assert!(header.contains(&format!("\"{source}\"")), "{source}");
        }
    }
}
