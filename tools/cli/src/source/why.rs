//! Why a recording, or a part of it, is refused, before it is said in which file it stands.

use std::fmt;
use std::path::Path;

use crate::failure::{Failure, Fault};

/// A reason: a sentence that begins with "it" or "its".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Why {
    /// It is not what it should be.
    Broken(String),
    /// It may be right, but is not read here.
    Unread(String),
}

impl Why {
    pub(crate) fn unread<T>(reason: impl Into<String>) -> Result<T, Self> {
        Err(Self::Unread(reason.into()))
    }

    /// The same, as a part of a longer sentence.
    pub(crate) fn within(self, sentence: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Broken(reason) => Self::Broken(sentence(reason)),
            Self::Unread(reason) => Self::Unread(sentence(reason)),
        }
    }
}

impl<S: Into<String>> From<S> for Why {
    fn from(reason: S) -> Self {
        Self::Broken(reason.into())
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Broken(reason) | Self::Unread(reason)) = self;
        f.write_str(reason)
    }
}

/// "can't open movie.tif: no such file"
pub(crate) fn cannot(verb: &str, path: &Path, why: impl Into<Why>) -> Failure {
    refused(path, why.into().within(|why| format!("can't {verb} {}: {why}", path.display())))
}

/// A failure of which the sentence is complete.
pub(crate) fn refused(path: &Path, why: impl Into<Why>) -> Failure {
    let (fault, message) = match why.into() {
        Why::Broken(message) => (Fault::Invalid, message),
        Why::Unread(message) => (Fault::Unsupported, message),
    };
    Failure::Known { fault, message, path: Some(path.to_path_buf()) }
}
