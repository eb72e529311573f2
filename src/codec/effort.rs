//! How hard an encoder tries.

/// How hard an encoder tries, from the least on. Whatever it is, readers take what is made for the same codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Effort {
    /// Not at all: chunks are stored.
    Stored,
    /// What repeats is not searched for.
    Fast,
    /// As the codec says.
    Normal,
}

impl Effort {
    pub(crate) const ALL: [Self; 3] = [Self::Stored, Self::Fast, Self::Normal];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Fast => "fast",
            Self::Normal => "normal",
        }
    }
}
