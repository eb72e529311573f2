//! The words of `shardwright repack`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use shardwright::offline::ChunkOrder;
use shardwright::{Codec, Compressor, Dialect, IndexLocation, OmeVersion};

use super::groups::{CODECS, EncodingArgs, ReportArgs, TrustArgs, VolumeArgs, WorkArgs, compressor};
use super::help;
use super::values::{Names, one_of, whole};
use crate::failure::Failure;

/// Close the gaps in a dataset's shards, or give it another codec, other chunks and shards, or another format
#[derive(Debug, Args)]
#[command(after_help = help::repack())]
pub(crate) struct RepackArgs {
    /// The dataset
    pub(crate) path: PathBuf,
    /// The dataset to create; one file if its name ends in .ozx [default: in place]
    pub(crate) output: Option<PathBuf>,
    /// The order of chunks in their shard
    #[arg(long, default_value = "c", value_parser = one_of(ChunkOrder::ALL, ChunkOrder::name))]
    #[arg(help_heading = "Layout and codec")]
    pub(crate) order: ChunkOrder,
    /// The on-disk format of the result: Zarr v3 with sharding_indexed, one of the sharding drafts before it,
    /// Neuroglancer's precomputed volume, or Zarr v2 with a file for each chunk [default: in place, the format that the
    /// dataset has; for a new dataset zarr3, or zarr2 with --ome 0.4]
    #[arg(long, value_parser = one_of(Dialect::ALL, Dialect::name), help_heading = "Layout and codec")]
    pub(crate) dialect: Option<Dialect>,
    /// The codec of chunks; blosc-noise is blosc-lz4 at level 1 with bit shuffle, written by an encoder for camera
    /// noise [default: unchanged]
    #[arg(long, value_name = "CODEC", value_parser = one_of(CODECS, Compressor::name))]
    #[arg(help_heading = "Layout and codec")]
    pub(crate) codec: Option<Compressor>,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
    /// End every shard's index with a CRC-32C, which only zarr3 has [default: unchanged]
    #[arg(long, conflicts_with = "no_index_checksum", help_heading = "Layout and codec")]
    pub(crate) index_checksum: bool,
    /// Chunk shape in elements, slowest dimension first, of all dimensions or only the last ones; 0: unchanged
    /// [default: 0]
    #[arg(long, value_name = "N,N,N", value_delimiter = ',', value_parser = whole, help_heading = "Layout and codec")]
    pub(crate) chunk: Vec<u64>,
    /// Shard shape in elements, a multiple of the chunk shape, in the same order; 0: unchanged [default: 0]
    #[arg(long, value_name = "N,N,N", value_delimiter = ',', value_parser = whole, help_heading = "Layout and codec")]
    pub(crate) shard: Vec<u64>,
    /// Where the index is in a shard [default: unchanged]
    #[arg(long, value_parser = one_of(IndexLocation::ALL, IndexLocation::name), help_heading = "Layout and codec")]
    pub(crate) index: Option<IndexLocation>,
    /// The version of the OME-Zarr metadata; zarr2 has 0.4 only, zarr3 has 0.5 and 0.6 [default: unchanged]
    #[arg(long, value_name = "VERSION", value_parser = one_of(OmeVersion::ALL, OmeVersion::name))]
    #[arg(help_heading = "Layout and codec")]
    pub(crate) ome: Option<OmeVersion>,
    /// Store each chunk as a file of its own, without shards; only zarr3 and zarr2 can
    #[arg(long, help_heading = "Layout and codec")]
    #[arg(conflicts_with_all = ["shard", "index", "index_checksum", "no_index_checksum"])]
    pub(crate) unsharded: bool,
    /// Repack only these arrays, or all in these groups, by their paths within the dataset, a comma in one written as
    /// \, and a backslash as \\; others are as with --skip
    #[arg(long, value_name = "NAME,NAME", value_parser = Names::from_str, help_heading = "Arrays")]
    pub(crate) only: Vec<Names>,
    /// Don't repack these arrays, or those in these groups: in place they are left alone; a new dataset has them as
    /// they are, or, where their group becomes another format, without them, and says so
    #[arg(long, value_name = "NAME,NAME", value_parser = Names::from_str, help_heading = "Arrays")]
    pub(crate) skip: Vec<Names>,
    #[command(flatten)]
    pub(crate) volume: VolumeArgs,
    /// Write the bytes of shards that stay as they are, rather than share their blocks with the old dataset's on XFS
    /// and Btrfs
    #[arg(long, help_heading = "Work")]
    pub(crate) no_reflink: bool,
    /// Take also a dataset whose writer didn't finish; what only a recovery would find is not in the result, which no
    /// recovery can complete. Take also one that holds fewer chunks than its writer counted: the result lists frames
    /// that may lack some as missing
    #[arg(long, help_heading = "Work")]
    pub(crate) incomplete: bool,
    /// Begin also where the free space seems too small by an estimate: as many bytes as the old files take, or as there
    /// are pixels where chunks become uncompressed
    #[arg(long, help_heading = "Work")]
    pub(crate) no_space_check: bool,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}

impl RepackArgs {
    /// The codec that the options describe; `None` to keep what is.
    pub(crate) fn codec(&self) -> Result<Option<Codec>, Failure> {
        let EncodingArgs { level, shuffle, no_checksum, .. } = &self.encoding;
        let Some(codec) = self.codec else {
            if level.is_some() || shuffle.is_some() || *no_checksum {
                return Err(Failure::Usage("--level, --shuffle and --no-checksum belong to --codec".into()));
            }
            return Ok(None);
        };
        let compressor = compressor(codec, *level, *shuffle)?;
        // Where no format is named, the library leaves the checksum out if the dataset's has none.
        let may_have = self.dialect.is_none_or(|dialect| dialect == Dialect::Zarr3);
        Ok(Some(Codec { compressor, checksum: may_have && !no_checksum }))
    }

    /// Whether indexes end with their checksum; `None` to keep what is.
    pub(crate) fn index_checksum(&self) -> Option<bool> {
        let given = self.index_checksum || self.encoding.no_index_checksum;
        given.then_some(self.index_checksum)
    }
}
