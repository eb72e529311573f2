//! What a repacking is to do, and what it tells.

use serde::{Deserialize, Serialize};

use super::order::ChunkOrder;
use crate::config::{Codec, Compressor, Dialect, IndexLocation, OmeVersion, Volume};
use crate::error::{Error, Result};
use crate::format::rules;
use crate::named::named;

/// Whether chunks share files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Sharding {
    /// Shards stay, and [`RepackOptions::shard`] makes others.
    #[default]
    Shards,
    /// Each chunk becomes a file: for readers that know no shards, and for who changes single chunks. Only
    /// [`Dialect::Zarr3`] and [`Dialect::Zarr2`] have such arrays.
    Unsharded,
}

named!(Sharding, "sharding", {
    Shards => "shards",
    Unsharded => "unsharded",
});

/// Whether the free space is looked at before anything is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SpaceCheck {
    /// What the estimate says doesn't fit is refused.
    ///
    /// New files are estimated to take as many bytes as the old ones of the same array take on the disk, and as many as
    /// there are pixels where chunks become uncompressed; and one block of 4096 bytes for each file. Shards that only
    /// close their gaps, in place, are estimated by the largest of them, as often as there are some in the making at
    /// once. Files that are copied as they are count with their length; blocks that the file system lets old and new
    /// files share count as if it did not.
    #[default]
    Estimated,
    /// Nothing is refused: the file system shares blocks, or chunks will become much smaller.
    Skipped,
}

named!(SpaceCheck, "space", {
    Estimated => "estimated",
    Skipped => "skipped",
});

/// What [`Repack`](super::Repack) is to do, and with which resources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RepackOptions {
    /// The keys of the arrays that are repacked, or of groups for all arrays in them, as paths below the dataset: `0`,
    /// `plate/A/1`. None: all. The others are as if [`skip`](Self::skip) named them.
    pub only: Vec<String>,
    /// The keys of arrays, or of groups of arrays, that are not repacked.
    ///
    /// In place they are left alone. In a new dataset they are copied byte for byte where they can stay what they are;
    /// where the group around them becomes another format, in which no reader would find them, they are left out, and
    /// [`Repack::notes`](super::Repack::notes) names them.
    pub skip: Vec<String>,
    /// The on-disk format of the result. `None`: in place, the one that the dataset has; of a new dataset,
    /// [`Dialect::Zarr3`], or [`Dialect::Zarr2`] with [`ome`](Self::ome) 0.4. In place, another is refused.
    pub dialect: Option<Dialect>,
    /// The version of the OME-Zarr metadata. `None`: unchanged, and [`Dialect::Zarr2`] has 0.4. That has no other, and
    /// [`Dialect::Zarr3`] has 0.5 and 0.6.
    pub ome: Option<OmeVersion>,
    /// The order of chunks in their shard.
    pub order: ChunkOrder,
    /// How chunks are encoded from now on. `None`: as they are, but without a checksum where the dialect has none;
    /// their bytes are copied where their shape stays, too. A checksum that the dialect has no place for is refused
    /// where [`dialect`](Self::dialect) names that, and left out otherwise.
    pub codec: Option<Codec>,
    /// Chunk length in elements, of all dimensions or only the last ones; 0, or none, keeps what is.
    pub chunk: Vec<u64>,
    /// Shard length in elements, in the same way. With lengths above 0, arrays whose chunks are files get shards;
    /// without, they keep their files. Of dialects other than [`Dialect::Zarr3`], shards are chosen where there are
    /// none to keep, as are those of a precomputed volume.
    pub shard: Vec<u64>,
    /// Whether chunks share files.
    pub sharding: Sharding,
    /// Where a shard's index stands. `None`: as it is.
    pub index_location: Option<IndexLocation>,
    /// Whether a shard's index ends with its CRC-32C, which only [`Dialect::Zarr3`] has. `None`: as it is.
    pub index_checksum: Option<bool>,
    /// For a precomputed volume. What is not said stays what it is where a volume becomes another.
    pub volume: Volume,
    /// Bytes for chunks on their way, all threads together.
    pub memory_bytes: u64,
    /// Threads that read, encode and compare. 0: one for each core that the process may use.
    pub workers: usize,
    /// Wait until new files have reached the device before old ones go.
    pub sync: bool,
    /// Let the new dataset share the blocks of shards that are as they should be, where the file system can (XFS,
    /// Btrfs).
    pub reflink: bool,
    /// Take also a dataset whose writer didn't finish: the result is a finished dataset of the frames that the indexes
    /// name, as after a recovery, and lists the others as missing; what only a recovery would have found is not in it,
    /// and no later one can find that. Take also one that holds fewer chunks than its writer
    /// counted: the result lists the frames that may lack some as missing, and has what is left of them.
    pub incomplete: bool,
    /// Whether the free space is looked at first.
    pub space: SpaceCheck,
}

impl RepackOptions {
    /// The on-disk format of the result, once [`with_dialect`](Self::with_dialect) has settled it.
    pub(super) fn to(&self) -> Dialect {
        self.dialect.unwrap_or_default()
    }

    /// The same with a format that nobody has named: `own`, which the dataset has that is changed in place, or that of
    /// new datasets. Lengths of shards that are all to stay what they are are none.
    pub(super) fn with_dialect(&self, own: Option<Dialect>) -> Self {
        // Nothing but zeros asks for no change.
        let shard = if self.shard.iter().all(|length| *length == 0) { Vec::new() } else { self.shard.clone() };
        if self.dialect.is_some() {
            return Self { shard, ..self.clone() };
        }
        let dialect = own.or_else(|| self.ome.and_then(dialect_of_ome)).unwrap_or_default();
        let mut codec = self.codec.clone();
        codec.iter_mut().for_each(|codec| codec.checksum &= rules(dialect).checksums);
        Self { dialect: Some(dialect), codec, shard, ..self.clone() }
    }

    pub(super) fn is_unsharded(&self) -> bool {
        self.sharding == Sharding::Unsharded
    }

    /// The options that say what the result is, not with which resources it is made.
    pub(super) fn of_result(&self) -> Self {
        let Self { memory_bytes, workers, sync, reflink, space, .. } = Self::default();
        Self { memory_bytes, workers, sync, reflink, space, ..self.clone() }
    }

    /// The same for an array of this many dimensions whose chunks are files, and stay files. Lengths of chunks that are
    /// given for images are not for arrays of one dimension.
    pub(super) fn of_files(&self, dimensions: usize) -> Self {
        let chunk = if dimensions < 2 && self.chunk.len() > dimensions { Vec::new() } else { self.chunk.clone() };
        let (shard, sharding) = (Vec::new(), Sharding::Unsharded);
        Self { chunk, shard, sharding, index_location: None, index_checksum: None, ..self.clone() }
    }

    /// Refuses options that contradict each other, or leave open what only an acquisition chooses. `named`: the format
    /// that somebody has named.
    pub(super) fn check(&self, named: Option<Dialect>) -> Result<()> {
        if self.codec.as_ref().is_some_and(|codec| codec.compressor == Compressor::Auto) {
            let reason = "only an acquisition chooses by itself; name the codec that the result shall have";
            return Err(Error::config("codec.compressor", "auto", reason));
        }
        if let Some(version) = self.ome
            && !rules(self.to()).ome_versions.contains(&version)
            && let Some(of) = dialect_of_ome(version)
        {
            let reason = match named {
                Some(to) => format!("is of the dialect {of}, and not of {to}; leave one of the two options out"),
                None => format!(
                    "is of the dialect {of}, whose documents have other names than those of {}, which are there; \
                     write the result to a new dataset",
                    self.to()
                ),
            };
            return Err(Error::config("ome", version, reason));
        }
        if !self.is_unsharded() {
            return Ok(());
        }
        let reason =
            "means nothing where each chunk is a file; leave one of the two out: this, or the option `sharding`";
        let of_shards = [
            ("shard", (!self.shard.is_empty()).then(|| format!("{:?}", self.shard))),
            ("index_location", self.index_location.map(|location| location.to_string())),
            ("index_checksum", self.index_checksum.map(|checksum| checksum.to_string())),
        ];
        if let Some((field, value)) = of_shards.into_iter().find_map(|(field, value)| Some((field, value?))) {
            return Err(Error::config(field, value, reason));
        }
        if !rules(self.to()).plain_files {
            let reason = format!("is not written in {}; zarr3 and zarr2 are possible", self.to());
            return Err(Error::config("sharding", self.sharding, reason));
        }
        Ok(())
    }
}

/// The first dialect that has this version of the metadata.
fn dialect_of_ome(version: OmeVersion) -> Option<Dialect> {
    Dialect::ALL.iter().copied().find(|dialect| rules(*dialect).ome_versions.contains(&version))
}

impl Default for RepackOptions {
    fn default() -> Self {
        Self {
            only: Vec::new(),
            skip: Vec::new(),
            dialect: None,
            ome: None,
            order: ChunkOrder::C,
            codec: None,
            chunk: Vec::new(),
            shard: Vec::new(),
            sharding: Sharding::default(),
            index_location: None,
            index_checksum: None,
            volume: Volume::default(),
            memory_bytes: 512 << 20,
            workers: 0,
            sync: true,
            reflink: true,
            incomplete: false,
            space: SpaceCheck::default(),
        }
    }
}

/// What a repacking did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RepackSummary {
    /// Shards made.
    pub shards_written: u64,
    /// Shards that were as they should be, or were made by an earlier call.
    pub shards_found: u64,
    /// How many of both are no shards but files of a chunk each, of arrays without shards.
    pub chunk_files: u64,
    /// Chunks written.
    pub chunks: u64,
    /// Bytes of these chunks, as they are stored.
    pub bytes: u64,
    /// Pixels of all shards, in bytes.
    pub bytes_pixels: u64,
    /// Groups in place whose documents say something else now: OME-Zarr's metadata in another version.
    pub groups_changed: u64,
    /// The new dataset was there already, made by an earlier call with the same options of the same files; nothing was
    /// done.
    pub already_done: bool,
}
