//! One error type for the whole crate.
//!
//! Every error carries its evidence: what was given, what would have been right, and where. Its message says all of it,
//! so that none has a [`source`](std::error::Error::source) that a printer of the chain would say again; what the
//! system said is a field. (To `thiserror`, a field named `r#source` is no source.) Errors are cheap to clone, because
//! the first error of a run is latched and handed to every later caller.

mod kind;

use std::any::Any;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use kind::ErrorKind;

use crate::words::of_system;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with the evidence.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration value that can't work. Nothing was written.
    #[error("{field} = {value}: {reason}")]
    Config {
        /// The configuration field, spelled as in [`Config`](crate::Config).
        field: &'static str,
        /// The value that was given.
        value: String,
        /// Why it can't work and what would.
        reason: String,
    },
    /// A limit of the process or the system, which the run would exceed. Nothing was written.
    #[error("{limit} = {value}: {reason}")]
    Limit {
        /// What is limited.
        limit: &'static str,
        /// The limit.
        value: u64,
        /// What the run needs, and how to get it.
        reason: String,
    },
    /// The operating system refused something.
    #[error("can't {action} {}: {}", shown(path), of_system(source))]
    Io {
        /// What was being done, as a verb: "create", "sync", …
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said. The text has it, so [`source`](std::error::Error::source) does not say it again.
        r#source: Arc<io::Error>,
    },
    /// No free frame buffer: the workers or the disk are slower than the camera.
    #[error(
        "the ring is full{}: of {frames} frame buffers, {on_loan} are on loan to the caller, {waiting} hold frames \
         that wait, {in_work} hold frames that are being written{}{}",
        waited_for(*waited),
        of_others(*others),
        free_since(frames.saturating_sub(on_loan + waiting + in_work + others))
    )]
    RingFull {
        /// The number of buffers in the ring, or of those that an image can have of a ring that others use as well:
        /// [`Stats::ring_frames`](crate::Stats::ring_frames).
        frames: usize,
        /// Those that the caller has acquired, and neither committed nor given back.
        on_loan: usize,
        /// Those whose frames wait: for others of their chunk, for a worker, or for somebody who looks at them.
        waiting: usize,
        /// Those whose frames the workers have begun to encode and write.
        in_work: usize,
        /// Those that the image can not have now because of what other images have.
        others: usize,
        /// How long the call waited for one.
        waited: Duration,
    },
    /// Pixels that are not a whole frame.
    #[error(
        "{got} bytes are not a whole number of frames of {expected} bytes{}",
        if *got == 0 { "; give at least one frame" } else { "" }
    )]
    FrameSize {
        /// Bytes given.
        got: usize,
        /// Bytes that one frame needs.
        expected: usize,
    },
    /// A distance of rows that can't be that of the pixels.
    #[error("row_stride = {got}: {}", wrong_stride(*got, *rows, *row_bytes, *bytes))]
    RowStride {
        /// The distance of rows that was given, in bytes.
        got: usize,
        /// Rows of a frame.
        rows: usize,
        /// Bytes of one row, the least distance.
        row_bytes: usize,
        /// Bytes given.
        bytes: usize,
    },
    /// A region of interest that is not within a frame.
    #[error(
        "{height} rows and {width} columns from row {y} and column {x} on are no part of a frame of {rows} rows and \
         {columns} columns"
    )]
    Roi {
        /// Its first row.
        y: usize,
        /// Its first column.
        x: usize,
        /// Its rows.
        height: usize,
        /// Its columns.
        width: usize,
        /// Rows of a frame, as the camera gives it.
        rows: usize,
        /// Columns of a frame.
        columns: usize,
    },
    /// A frame number that can't be accepted.
    #[error("frame number {number} {why}")]
    FrameNumber {
        /// The number that was given.
        number: u64,
        /// Why it was refused.
        why: RefusedNumber,
    },
    /// A record field that doesn't exist or has another type.
    #[error("record field {field}: {reason}")]
    Record {
        /// The field as given.
        field: String,
        /// What would have been right.
        reason: String,
    },
    /// The output exists, and is not to be replaced.
    #[error("{} already exists; {help}", path.display())]
    Exists {
        /// The path in the way.
        path: PathBuf,
        /// What can be done about it.
        help: &'static str,
    },
    /// A storage of the caller's own [holds something](crate::Storage::is_used), which no run replaces.
    #[error("the storage ({storage}) already holds something, which is never replaced; give one that is empty")]
    StorageUsed {
        /// The storage's name.
        storage: &'static str,
    },
    /// Another writer holds the dataset's lock.
    #[error("{} is being written, by this process or another (its lock file is held)", path.display())]
    Locked {
        /// The dataset.
        path: PathBuf,
    },
    /// A codec failed to encode or decode.
    #[error("{codec}: {reason}")]
    Codec {
        /// Which codec.
        codec: &'static str,
        /// What it said.
        reason: String,
    },
    /// A file or document that does not hold what it should.
    #[error("{}: {reason}", shown(path))]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it and what was expected.
        reason: String,
    },
    /// A file or document that may be right, but holds what this library does not read.
    #[error("{}: {reason}", shown(path))]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What it holds, and what is read.
        reason: String,
    },
    /// A path at which there is no dataset, or none of what was asked for.
    #[error("{}: {reason}", shown(path))]
    NotFound {
        /// The path.
        path: PathBuf,
        /// What is there instead.
        reason: String,
    },
    /// A dataset whose writer was stopped before it finished, and which nobody has recovered. One whose writer is still
    /// at work is [`Locked`](Self::Locked).
    #[error("{}: {reason}", shown(path))]
    Unfinished {
        /// The dataset.
        path: PathBuf,
        /// What it lacks, and what to do first.
        reason: String,
    },
    /// Something that is not damaged is in the way: of an output, or because it changed during the call.
    #[error("{}: {reason}", shown(path))]
    Conflict {
        /// What is in the way.
        path: PathBuf,
        /// Why it is, and what to do about it.
        reason: String,
    },
    /// A worker thread panicked; the chunk that it worked on is missing.
    #[error("a worker thread ended by a fault of the program: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// The run was aborted: frames that waited in the ring are lost.
    #[error("the acquisition was aborted; frames that waited in the ring are lost")]
    Aborted,
    /// An operation on a finished dataset was stopped by its caller. What a `Repack` or a `Pyramid` has finished stays,
    /// and a new one goes on from there; of the others nothing is kept.
    #[error("stopped before the end")]
    Stopped,
    /// A function is told of closed shards already, and one can be set for a run.
    #[error("a function is told of closed shards already; one can be set for a run")]
    ListenerSet,
    /// One of the run's own threads, in a callback, was to wait for the run's end. The run ends without it.
    #[error(
        "a callback can't wait for the end of the run that called it; a thread of its own brings the run to its end \
         now"
    )]
    InCallback,
    /// The acquisition was finished or aborted; no more frames are taken.
    #[error("the acquisition has ended, and takes nothing more")]
    Ended,
}

/// Why a frame number was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusedNumber {
    /// A frame with this number was committed before.
    #[error("was committed before; frame numbers are unique")]
    Duplicate,
    /// Frames so much newer were committed that this one counts as missing.
    #[error("comes too late: what is so far below the newest counts as missing; the oldest to be taken is {oldest}")]
    TooLate {
        /// The oldest number that would still be taken.
        oldest: u64,
    },
    /// Further ahead of the newest frame than the writer is ready to leap.
    #[error("is too far ahead of the newest frame: the largest possible number is {limit} now, by leap_max")]
    TooFar {
        /// The largest number that would be taken now.
        limit: u64,
    },
    /// Beyond the array's planned size.
    #[error("is past the end: the array holds {frames} frames, 0 to {}", frames.saturating_sub(1))]
    PastEnd {
        /// The number of frames that the array holds.
        frames: u64,
    },
    /// Of another part of the run, which another process writes.
    #[error("belongs to part {owner} of {of}, and this acquisition writes part {part}")]
    OtherPart {
        /// The part that has it.
        owner: u32,
        /// The part that this is.
        part: u32,
        /// How many parts there are.
        of: u32,
    },
    /// Within a picture, whose channels have numbers that follow each other.
    #[error("is not that of a picture's first channel, which is a multiple of how many channels it has")]
    NotFirst,
}

fn wrong_stride(got: usize, rows: usize, row_bytes: usize, bytes: usize) -> String {
    if got < row_bytes {
        return format!("a row has {row_bytes} bytes, and no less can lie from one row to the next");
    }
    let needed = (rows - 1).checked_mul(got).and_then(|last| last.checked_add(row_bytes));
    let needed = needed.map_or("more bytes than memory holds".to_owned(), |needed| format!("{needed} bytes"));
    format!("{rows} rows of {row_bytes} bytes take {needed} then, and {bytes} are given")
}

/// A path of which something is left to be seen.
fn shown(path: &Path) -> String {
    if path.as_os_str().is_empty() { "\"\"".to_owned() } else { path.display().to_string() }
}

/// Words that are made where they are written: an error that is expected in the frame path takes no memory.
struct Said<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result>(F);

impl<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result> fmt::Display for Said<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0(f)
    }
}

fn waited_for(time: Duration) -> impl fmt::Display {
    let seconds = time.as_secs_f64();
    Said(move |f| if time < Duration::from_millis(1) { Ok(()) } else { write!(f, " after {seconds:.3} s") })
}

fn of_others(buffers: usize) -> impl fmt::Display {
    Said(move |f| if buffers == 0 { Ok(()) } else { write!(f, ", {buffers} are other images'") })
}

fn free_since(buffers: usize) -> impl fmt::Display {
    Said(move |f| match buffers {
        0 => Ok(()),
        1 => f.write_str("; 1 has become free since"),
        free => write!(f, "; {free} have become free since"),
    })
}

/// Why a document or other bytes are refused, before it is said in which file they stand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) enum Refusal {
    Corrupt(String),
    Unsupported(String),
}

impl Refusal {
    pub(crate) fn unsupported<T>(reason: impl Into<String>) -> Result<T, Self> {
        Err(Self::Unsupported(reason.into()))
    }
}

impl<S: Into<String>> From<S> for Refusal {
    fn from(reason: S) -> Self {
        Self::Corrupt(reason.into())
    }
}

impl Error {
    /// What kind of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Config { .. }
            | Self::FrameSize { .. }
            | Self::RowStride { .. }
            | Self::Roi { .. }
            | Self::FrameNumber { .. }
            | Self::Record { .. } => ErrorKind::InvalidArgument,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => ErrorKind::NotFound,
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::StorageFull,
                _ => ErrorKind::Io,
            },
            Self::Limit { .. } => ErrorKind::Io,
            Self::Exists { .. } | Self::StorageUsed { .. } | Self::ListenerSet => ErrorKind::AlreadyExists,
            Self::Locked { .. } => ErrorKind::Locked,
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::Unfinished { .. } => ErrorKind::Unfinished,
            Self::Format { .. } => ErrorKind::Corrupt,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::RingFull { .. } => ErrorKind::RingFull,
            Self::Ended | Self::Aborted | Self::InCallback => ErrorKind::Ended,
            Self::Stopped => ErrorKind::Stopped,
            Self::Panicked { .. } | Self::Codec { .. } => ErrorKind::Internal,
        }
    }

    /// Whether the call may be repeated later: the ring was full, nothing is broken.
    pub fn is_ring_full(&self) -> bool {
        matches!(self, Self::RingFull { .. })
    }

    /// Something in the way of a caller that may ask to have it replaced.
    pub(crate) fn exists(path: impl Into<PathBuf>) -> Self {
        Self::Exists { path: path.into(), help: "choose another path, or allow overwriting" }
    }

    /// Something in the way that is never replaced.
    pub(crate) fn exists_for_good(path: impl Into<PathBuf>) -> Self {
        Self::Exists { path: path.into(), help: "choose another path" }
    }

    pub(crate) fn config(field: &'static str, value: impl fmt::Display, reason: impl Into<String>) -> Self {
        Self::Config { field, value: value.to_string(), reason: reason.into() }
    }

    pub(crate) fn io(action: &'static str, path: impl AsRef<Path>, source: impl Into<io::Error>) -> Self {
        Self::Io { action, path: path.as_ref().to_path_buf(), source: Arc::new(source.into()) }
    }

    pub(crate) fn format(path: impl AsRef<Path>, reason: impl Into<Refusal>) -> Self {
        let path = path.as_ref().to_path_buf();
        match reason.into() {
            Refusal::Corrupt(reason) => Self::Format { path, reason },
            Refusal::Unsupported(reason) => Self::Unsupported { path, reason },
        }
    }

    pub(crate) fn unfinished(path: impl AsRef<Path>, reason: impl Into<String>) -> Self {
        Self::Unfinished { path: path.as_ref().to_path_buf(), reason: reason.into() }
    }

    pub(crate) fn conflict(path: impl AsRef<Path>, reason: impl Into<String>) -> Self {
        Self::Conflict { path: path.as_ref().to_path_buf(), reason: reason.into() }
    }

    /// What was read is no longer what it was when the call began.
    pub(crate) fn changed(path: impl AsRef<Path>) -> Self {
        let reason = "changed while it was read: another program has replaced it, or written to it";
        Self::conflict(path, reason)
    }

    pub(crate) fn unsupported(path: impl AsRef<Path>, reason: impl Into<String>) -> Self {
        Self::Unsupported { path: path.as_ref().to_path_buf(), reason: reason.into() }
    }

    pub(crate) fn not_found(path: impl AsRef<Path>, reason: impl Into<String>) -> Self {
        Self::NotFound { path: path.as_ref().to_path_buf(), reason: reason.into() }
    }

    /// The same with `more` behind its reason.
    pub(crate) fn with(self, more: &str) -> Self {
        match self {
            Self::Format { path, reason } => Self::Format { path, reason: reason + more },
            Self::Unsupported { path, reason } => Self::Unsupported { path, reason: reason + more },
            Self::Conflict { path, reason } => Self::Conflict { path, reason: reason + more },
            Self::Io { action, path, source } => {
                Self::io(action, path, io::Error::new(source.kind(), of_system(&source) + more))
            }
            other => other,
        }
    }

    pub(crate) fn codec(codec: &'static str, reason: impl fmt::Display) -> Self {
        Self::Codec { codec, reason: reason.to_string() }
    }
}

/// Runs `log`, which tells the program's own subscriber something. If that panics, the message is lost, and nothing
/// else: it is called in the middle of work that must go on, and in destructors.
pub(crate) fn logged(log: impl FnOnce()) {
    catch_unwind(AssertUnwindSafe(log)).unwrap_or_else(std::mem::forget);
}

/// Something of the caller's own, which is dropped on whatever thread has it last. A panic of its destructor ends here:
/// it would end a thread of the run, or, on top of another panic, the process.
pub(crate) struct Contained<T: ?Sized>(Option<Box<T>>);

impl<T: ?Sized> Contained<T> {
    pub(crate) fn new(thing: Box<T>) -> Self {
        Self(Some(thing))
    }
}

impl<T: ?Sized> Deref for Contained<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<T: ?Sized> Drop for Contained<T> {
    fn drop(&mut self) {
        let thing = self.0.take();
        if let Err(error) = caught_call(|| drop(thing)) {
            let what = "what a program gave this library panicked when it was dropped";
            logged(|| tracing::error!(target: "shardwright::acquisition", %error, "{what}"));
        }
    }
}

/// As [`caught`], of work that has no error of its own.
pub(crate) fn caught_call(work: impl FnOnce()) -> Result<()> {
    caught(|| {
        work();
        Ok(())
    })
}

/// Runs `work`; a panic in it, be it in a codec or in a caller's own storage, becomes an error like any other.
///
/// A thread that dies takes its part of the flow with it, and then everyone who counts on it waits for ever.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Error::Panicked { message: message_of(panic) }))
}

/// What a panic says.
pub(crate) fn message_of(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let message = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into());
    // What a program panics with may panic again when it is dropped.
    std::mem::forget(panic);
    message
}
