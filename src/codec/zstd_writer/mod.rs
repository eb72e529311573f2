//! Zstandard frames for instrument data, without a match finder.
//!
//! Noise does not repeat itself, and a match finder spends its time on finding that out. What is left is that some
//! values are more frequent than others: the bytes of one place in all pixels, which a byte shuffle puts together, form
//! a plane, and each plane is written by what it is like.
//!
//! | plane | written as |
//! |---|---|
//! | all bytes the same | one run-length block |
//! | nearly so: the upper bytes of a dim image | sequences that repeat the byte before, for the runs |
//! | noise | literals by a Huffman code, in blocks without sequences |
//! | noise in all bits: the lower bytes of floating-point pixels | raw blocks |
//! | something with structure | what libzstd makes of it |
//!
//! What it writes are ordinary frames (RFC 8878). The choices depend on the data of one tile alone, and all instruction
//! sets choose and write the same, so a tile always becomes the same frame.

mod bare;
mod bits;
mod frame;
mod fse;
mod huffman;
mod judge;
mod literals;
mod match_finder;
mod pack;
mod sample;
mod sequences;
// Miri cannot call libzstd.
#[cfg(all(test, not(miri)))]
mod tests;
mod weights;
mod window;
mod writer;

pub(super) use self::bare::BareEncoder;
pub(super) use self::judge::WORTH_TRYING_BYTES;
pub(super) use self::match_finder::{SAMPLE_BYTES, Search};
pub(super) use self::writer::Writer;
