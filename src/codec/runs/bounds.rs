//! The numbers that the masks and the writer of sequences go by.

/// Bytes that one word of a mask speaks of.
pub(super) const WORD: usize = 64;

/// The least length that is worth a sequence here: what shorter ones save is less than what they cost to find, to write
/// and to read.
pub(super) const WORTH: usize = 5;
/// The last match begins at least this many bytes before the end.
pub(super) const LAST_START: usize = 12;
/// This many bytes at the end are literals.
pub(super) const LAST_LITERALS: usize = 5;
