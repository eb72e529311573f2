//! The codecs that ours are compared with.

use std::ffi::CString;
use std::fmt;

use shardwright::{BloscCname, Shuffle};

use crate::trpx;

/// What a user would otherwise call.
#[derive(Clone, Copy)]
pub(crate) enum Rival {
    /// c-blosc as it is built by default. 0: blocks of its own choice.
    Blosc {
        cname: BloscCname,
        level: u8,
        shuffle: Shuffle,
        block_bytes: usize,
    },
    /// libzstd, likewise.
    Zstd {
        level: i32,
    },
    Trpx,
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blosc { cname, level, shuffle, block_bytes: 0 } => write!(f, "{}-{level} {shuffle:?}", cname.name()),
            Self::Blosc { cname, level, shuffle, block_bytes } => {
                write!(f, "{}-{level} {shuffle:?} {block_bytes}", cname.name())
            }
            Self::Zstd { level } => write!(f, "zstd {level}"),
            Self::Trpx => write!(f, "TRPX"),
        }
    }
}

/// A rival with its memory, for pixels of one size.
pub(crate) struct Library {
    rival: Rival,
    element_bytes: usize,
    writing: zstd_safe::CCtx<'static>,
    reading: zstd_safe::DCtx<'static>,
}

impl Library {
    pub(crate) fn new(rival: Rival, element_bytes: usize) -> Self {
        let (writing, reading) = (zstd_safe::CCtx::create(), zstd_safe::DCtx::create());
        Self { rival, element_bytes, writing, reading }
    }

    /// Room that a tile may need.
    pub(crate) fn bound(&self, bytes: usize) -> usize {
        zstd_safe::compress_bound(bytes).max(trpx::bound(bytes))
    }

    pub(crate) fn encode(&mut self, tile: &[u8], room: &mut [u8]) -> usize {
        match self.rival {
            Rival::Zstd { level } => self.writing.compress(room, tile, level).expect("libzstd encodes what has room"),
            Rival::Trpx => trpx::encode(tile, self.element_bytes, room),
            Rival::Blosc { cname, level, shuffle, block_bytes } => {
                let name = CString::new(cname.name()).expect("names hold no zeros");
                c_blosc(tile, self.element_bytes, room, &name, (level, shuffle, block_bytes))
            }
        }
    }

    pub(crate) fn decode(&mut self, encoded: &[u8], decoded: &mut [u8]) {
        match self.rival {
            Rival::Zstd { .. } => {
                self.reading.decompress(decoded, encoded).expect("libzstd decodes it");
            }
            Rival::Trpx => trpx::decode(encoded, self.element_bytes, decoded),
            Rival::Blosc { .. } => {
                // SAFETY: the frame was made just now, and the lengths are those of the slices.
                let got = unsafe {
                    let target = decoded.as_mut_ptr().cast();
                    blosc_src::blosc_decompress_ctx(encoded.as_ptr().cast(), target, decoded.len(), 1)
                };
                assert_eq!(usize::try_from(got), Ok(decoded.len()), "c-blosc decodes it");
            }
        }
    }
}

fn c_blosc(
    tile: &[u8],
    element_bytes: usize,
    room: &mut [u8],
    cname: &CString,
    (level, shuffle, block_bytes): (u8, Shuffle, usize),
) -> usize {
    // SAFETY: the lengths are those of the slices, and the name ends with a zero.
    let written = unsafe {
        blosc_src::blosc_compress_ctx(
            i32::from(level),
            shuffle as i32,
            element_bytes,
            tile.len(),
            tile.as_ptr().cast(),
            room.as_mut_ptr().cast(),
            room.len(),
            cname.as_ptr(),
            block_bytes,
            1,
        )
    };
    usize::try_from(written).expect("c-blosc encodes what has room")
}
