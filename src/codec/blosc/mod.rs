//! Blosc 1 frames, written here and read by c-blosc.
//!
//! ```text
//! byte  0   version of the frame format: 2
//!       1   version of the inner compressor's format: 1
//!       2   flags: 0x01 byte-shuffled, 0x02 stored, 0x04 bit-shuffled, 0x10 blocks not split, 0xE0 inner compressor
//!       3   bytes an element
//!       4   u32 decoded bytes
//!       8   u32 bytes a block
//!      12   u32 bytes of the frame, this header included
//!      16   stored: the raw bytes
//!           else:   u32 start of each block in the frame, then the blocks
//! ```
//!
//! A block is shuffled by itself. It consists of one piece, or of as many as an element has bytes where blocks are
//! split (never the last block, when it is shorter). A piece is its length as an i32 and this many bytes; a length
//! equal to that of the raw piece says that the piece is stored. All numbers are little-endian. (c-blosc 1.21,
//! README_CHUNK_FORMAT.)
//!
//! c-blosc could write these as well, but a default build of it shuffles with SSE2 only, takes memory for each call,
//! and chooses blocks that do not stay in the first cache.

mod encoder;
mod foreign;
mod frame;
mod noise;
mod planes;

pub(super) use encoder::Encoder;
pub(super) use foreign::decode;
pub(super) use frame::{Settings, bound, check};
pub(super) use noise::NoiseEncoder;
pub(super) use planes::PlanesEncoder;
