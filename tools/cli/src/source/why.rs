//! Why a recording, or a part of it, is refused, before it is said in which file it stands.

use std::fmt;

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
