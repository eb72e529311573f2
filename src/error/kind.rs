//! Kinds of errors.

use std::fmt;

/// What kind of thing went wrong: what a program decides by, where a person reads the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A value that was given can't work, another can.
    InvalidArgument,
    /// There is nothing at the path, or nothing of that kind.
    NotFound,
    /// The output exists, and may be replaced if the options say so, or not at all.
    AlreadyExists,
    /// Something else is in the way: of an output, or because it changed during the call.
    Conflict,
    /// Somebody writes the dataset, in this process or another.
    Locked,
    /// The dataset's writer was stopped before it finished, and nobody has recovered what it wrote.
    Unfinished,
    /// What was read is not what it should be.
    Corrupt,
    /// What was read may be right, but this library does not read it.
    Unsupported,
    /// The operating system refused something.
    Io,
    /// No frame buffer is free now. The call may be repeated.
    RingFull,
    /// The file system has no room left, or none for this user.
    StorageFull,
    /// The acquisition has ended or was aborted, or can't be waited for from where the call was made.
    Ended,
    /// An operation on a finished dataset was stopped by its caller. It may be begun again.
    Stopped,
    /// A thread panicked, or a codec failed at what it should be able to do.
    Internal,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::InvalidArgument => "invalid argument",
            Self::NotFound => "not found",
            Self::AlreadyExists => "already exists",
            Self::Conflict => "conflict",
            Self::Locked => "locked",
            Self::Unfinished => "unfinished",
            Self::Corrupt => "corrupt",
            Self::Unsupported => "unsupported",
            Self::Io => "io",
            Self::RingFull => "ring full",
            Self::StorageFull => "storage full",
            Self::Ended => "ended",
            Self::Stopped => "stopped",
            Self::Internal => "internal",
        })
    }
}
