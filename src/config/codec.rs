//! How chunks are encoded.

use serde::{Deserialize, Serialize};

use crate::named::{by_name, named};

/// How chunks are encoded: one compressor, then a checksum.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Codec {
    /// The compressor.
    pub compressor: Compressor,
    /// Append a CRC-32C to every chunk, so that readers notice flipped bits. 4 bytes a chunk.
    pub checksum: bool,
}

impl Default for Codec {
    fn default() -> Self {
        Self::from(Compressor::default())
    }
}

impl From<Compressor> for Codec {
    fn from(compressor: Compressor) -> Self {
        Self { compressor, checksum: true }
    }
}

/// What makes a chunk smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "name", deny_unknown_fields)]
#[non_exhaustive]
pub enum Compressor {
    /// What lets the most frames through: when an acquisition is created, it becomes [`Blosc`](Self::Blosc) at level 1
    /// with bit shuffle and either `Lz4` or `Zstd`, in [`Dialect::Precomputed`](crate::Dialect::Precomputed) `None` or
    /// `Gzip`; at about equal rates, what writes less.
    ///
    /// That is calculated from short trials: how fast a core encodes noise of the pixels' type, how small it becomes,
    /// and what the storage takes, as if this run had the machine for itself. Short runs, and those of whose storage
    /// nothing can be learnt, take the first named of the two. During the run, Blosc's chunks are made with less
    /// effort, or stored, when the ring fills and encoding is what keeps it from being emptied. The summary's notes say
    /// what was chosen and changed.
    ///
    /// Only acquisitions choose: a repacking refuses it.
    Auto,
    /// Nothing: raw pixels.
    None,
    /// Blosc 1 frames. Read by every Zarr library.
    Blosc {
        /// The compressor inside.
        cname: BloscCname,
        /// 0 (store) to 9 (smallest).
        level: u8,
        /// What reorders bytes or bits before compression; camera frames want `Bit`.
        shuffle: Shuffle,
        /// Bytes a block; 0 chooses one that suits the cache.
        #[serde(default)]
        block_bytes: usize,
    },
    /// Blosc 1 frames with LZ4 inside after a bit shuffle, by a writer made for camera noise: two to four times as fast
    /// as c-blosc's LZ4 at level 1 and about as small. Every reader of Blosc frames reads it. Tiles on which a general
    /// search for matches does clearly better are left to one. `Blosc` with `Lz4`, level 1 and `Bit`, which is the
    /// default, does the same, and documents call it that.
    #[serde(rename = "blosc-noise")]
    BloscNoise {
        /// Bytes a block; 0 chooses one that suits the cache.
        #[serde(default)]
        block_bytes: usize,
    },
    /// A plain Zstandard frame.
    Zstd {
        /// -131072 (fastest) to 22 (smallest).
        level: i32,
    },
    /// A gzip stream.
    Gzip {
        /// 0 (store) to 9 (smallest).
        level: u8,
    },
    /// `numcodecs.lz4`: a 4-byte length and an LZ4 block. Only zarr-python reads it.
    Lz4,
    /// `numcodecs.zlib`: a zlib stream, which is gzip's with another frame. For what others have written: in Zarr v3
    /// only zarr-python reads it.
    Zlib {
        /// 0 (store) to 9 (smallest).
        level: u8,
    },
}

impl Compressor {
    /// All of them, [`Auto`](Self::Auto) first; those with settings at level 1, with a bit shuffle.
    pub const ALL: &'static [Self] = &[
        Self::Auto,
        Self::None,
        Self::BloscNoise { block_bytes: 0 },
        Self::blosc(BloscCname::Lz4),
        Self::blosc(BloscCname::Lz4hc),
        Self::blosc(BloscCname::Zstd),
        Self::blosc(BloscCname::Zlib),
        Self::blosc(BloscCname::Blosclz),
        Self::Zstd { level: 1 },
        Self::Gzip { level: 1 },
        Self::Lz4,
        Self::Zlib { level: 1 },
    ];

    /// The name on the command line, whatever the other settings are.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::BloscNoise { .. } => "blosc-noise",
            Self::Blosc { cname: BloscCname::Lz4, .. } => "blosc-lz4",
            Self::Blosc { cname: BloscCname::Lz4hc, .. } => "blosc-lz4hc",
            Self::Blosc { cname: BloscCname::Zstd, .. } => "blosc-zstd",
            Self::Blosc { cname: BloscCname::Zlib, .. } => "blosc-zlib",
            Self::Blosc { cname: BloscCname::Blosclz, .. } => "blosc-blosclz",
            Self::Zstd { .. } => "zstd",
            Self::Gzip { .. } => "gzip",
            Self::Lz4 => "lz4",
            Self::Zlib { .. } => "zlib",
        }
    }

    pub(crate) const fn blosc(cname: BloscCname) -> Self {
        Self::Blosc { cname, level: 1, shuffle: Shuffle::Bit, block_bytes: 0 }
    }
}

by_name!(Compressor, "codec.compressor");

impl Default for Compressor {
    fn default() -> Self {
        Self::blosc(BloscCname::Lz4)
    }
}

/// The compressors that Blosc 1 knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum BloscCname {
    Lz4,
    Lz4hc,
    Zstd,
    Zlib,
    Blosclz,
}

named!(BloscCname, "codec.compressor.cname", {
    Lz4 => "lz4",
    Lz4hc => "lz4hc",
    Zstd => "zstd",
    Zlib => "zlib",
    Blosclz => "blosclz",
});

/// What reorders a block before it is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Shuffle {
    /// Nothing.
    None,
    /// All first bytes, then all second bytes, …
    Byte,
    /// All lowest bits, then all second bits, …
    #[default]
    Bit,
}

named!(Shuffle, "codec.compressor.shuffle", {
    None => "none",
    Byte => "byte",
    Bit => "bit",
});
