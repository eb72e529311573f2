//! Frames in files, for decoders that are programs of their own.
//!
//! | file | holds |
//! |---|---|
//! | `frames.zst` | Zstandard frames, one behind the other, which is a valid file of that format |
//! | `frames.raw` | what they decode to |
//! | `blosc.bin` | for each Blosc frame: u32 bytes of the frame, the frame, u32 bytes of the tile, the tile |

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

pub(crate) struct Batch {
    frames: BufWriter<File>,
    raw: BufWriter<File>,
    blosc: BufWriter<File>,
}

impl Batch {
    pub(crate) fn new(folder: &Path) -> Self {
        let create = |name| BufWriter::new(File::create(folder.join(name)).expect("a folder that can be written to"));
        Self { frames: create("frames.zst"), raw: create("frames.raw"), blosc: create("blosc.bin") }
    }

    pub(crate) fn add(&mut self, zstd: bool, encoded: &[u8], tile: &[u8]) {
        let length = |bytes: &[u8]| (bytes.len() as u32).to_le_bytes();
        let written = if zstd {
            self.frames.write_all(encoded).and_then(|()| self.raw.write_all(tile))
        } else {
            let pieces = [&length(encoded)[..], encoded, &length(tile)[..], tile];
            pieces.into_iter().try_for_each(|piece| self.blosc.write_all(piece))
        };
        written.expect("room on the disk");
    }
}
