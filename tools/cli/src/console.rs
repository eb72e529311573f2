//! What the command says: its result on standard output, all else on standard error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;
use shardwright::words::of_system;

static HAS_SAID: AtomicBool = AtomicBool::new(false);

/// Whether something was written to stdout, or is about to be.
pub(crate) fn has_said() -> bool {
    HAS_SAID.load(Ordering::Relaxed)
}

/// Writes `text` to stdout. A reader that has gone away, as `head` does, is no error.
pub(crate) fn say(text: &str) -> Result<(), Failure> {
    HAS_SAID.store(true, Ordering::Relaxed);
    let mut out = io::stdout().lock();
    said(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What became of a write to stdout.
pub(crate) fn said(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Run(format!("can't write to stdout: {}", of_system(error))))
        }
        _ => Ok(()),
    }
}

/// Writes a line to stderr. Where that can't be written, the work goes on without it.
pub(crate) fn tell(line: impl Display) {
    let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// Writes notes to stderr, unless `quiet`.
pub(crate) fn tell_notes(quiet: bool, notes: &[String]) {
    let notes = if quiet { &[] } else { notes };
    notes.iter().for_each(|note| tell(format_args!("note: {note}")));
}
