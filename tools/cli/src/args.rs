//! The command line: what it looks like and how its words become values. Nothing here touches a file.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use shardwright::offline::ChunkOrder;
use shardwright::{
    BloscCname, Codec, Compressor, Dialect, Dtype, IndexLocation, ManifestForm, Placement, RingFull, Shuffle,
    StorageKind, Volume, VolumeHash,
};

use crate::failure::Failure;
use crate::region::RegionArg;

const EXAMPLES: &str = "\
Examples:
  shardwright replay movie.tif movie.ome.zarr
  shardwright replay movie.ome.tif out.ome.zarr --codec blosc-zstd --chunk 16,256,256
  shardwright replay frames.raw out.zarr --shape 1000,512,640 --dtype u16 --offset 4096
  shardwright replay synthetic out.zarr --camera 2048x2048xu16@100 --frames 1000
  shardwright info out.zarr
  shardwright export out.zarr part.ome.tif --region 0:100,:,512:1024
  shardwright repack out.zarr archive.zarr --codec zstd --level 9
  shardwright manifest out.zarr --url-prefix s3://bucket/out.zarr
  shardwright verify out.zarr
  shardwright recover out.zarr --apply
  shardwright probe /data --camera 2048x2048xu16@100

Exit codes:
  0 fine   1 failure   2 usage   3 the input is invalid   4 finished, but frames were lost
  130 interrupted by Ctrl-C and finished cleanly
  verify and recover have their own; see their help";

const VERIFY_EXIT_CODES: &str = "\
Exit codes:
  0 sound   1 damage was found   2 it could not be checked";

const RECOVER_EXIT_CODES: &str = "\
Exit codes:
  0 nothing to do, or done   1 there is something to do (without --apply)   2 it could not be done";

/// Replay recordings into sharded Zarr datasets at camera speed, and look at datasets.
#[derive(Debug, Parser)]
#[command(name = "shardwright", version, after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Replay(Box<Replay>),
    Info(Info),
    Export(Export),
    Manifest(Manifest),
    Verify(Verify),
    Recover(Recover),
    Probe(Probe),
    Repack(Repack),
    /// Print a completion script for a shell to stdout.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Show what a dataset holds: shape, chunks, shards, codecs, sizes, gaps.
#[derive(Debug, Args)]
pub(crate) struct Info {
    /// The dataset.
    pub(crate) path: PathBuf,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write a region of an array as TIFF, OME-TIFF, npy or raw. Dimensions keep the array's order, slowest first; in TIFF each
/// frame is a page. What would exceed 4 GB becomes BigTIFF.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The array, or the image whose first array is meant
    pub(crate) path: PathBuf,
    /// The file to write
    pub(crate) output: PathBuf,
    /// Which part: a span for each dimension, such as 0:100,:,512:1024, or for some by name, such as t=3,x=512:1024
    #[arg(long, value_name = "SPANS")]
    pub(crate) region: Option<RegionArg>,
    /// The format [default: what the file's name ends with: .ome.tif, .tif, .npy, .raw]
    #[arg(long, value_parser = one_of(&FORMATS))]
    pub(crate) format: Option<Format>,
    /// Write BigTIFF also where TIFF would do
    #[arg(long)]
    pub(crate) bigtiff: bool,
    /// Memory for pixels on their way
    #[arg(long, value_name = "BYTES", default_value = "512MiB", value_parser = bytes)]
    pub(crate) memory: u64,
    /// Replace a file that is in the way
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Show no progress and print nothing
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Check everything about a dataset that can be checked: documents, indexes, checksums, decoding, slot headers.
#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXIT_CODES)]
pub(crate) struct Verify {
    /// The dataset or the array.
    pub(crate) path: PathBuf,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress and print nothing but with --json; the exit code tells.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Write down where a dataset's chunks lie, so that readers which go by references open it without a copy: manifest.json
/// (chunk-manifest-json) and kerchunk.json, in a folder beside the dataset.
#[derive(Debug, Args)]
pub(crate) struct Manifest {
    /// The dataset
    pub(crate) path: PathBuf,
    /// The folder to create [default: beside the dataset, run.ome.manifest.zarr for run.ome.zarr]
    pub(crate) output: Option<PathBuf>,
    /// What stands before the paths of the dataset's files, such as s3://bucket/run.ome.zarr [default: file:// and where they
    /// are now]
    #[arg(long, value_name = "URL")]
    pub(crate) url_prefix: Option<String>,
    /// The Zarr version of the documents in kerchunk.json: 2, which every reader of such files opens, or 3
    #[arg(long, value_name = "2|3", default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=3))]
    pub(crate) zarr_format: u8,
    /// What is written: documents with manifest.json beside them, documents with the manifest inlined, kerchunk.json [default:
    /// all; manifests of few chunks are inlined, others are not]
    #[arg(long = "form", value_name = "FORM,FORM", value_delimiter = ',', value_parser = one_of(&FORMS))]
    pub(crate) forms: Vec<ManifestForm>,
    /// Put the manifest into the array's document where the array has at most so many chunks
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub(crate) inline: u64,
    /// Replace manifests that are in the way
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Print one JSON object instead of a sentence
    #[arg(long)]
    pub(crate) json: bool,
}

/// Bring back what a writer had written when it was killed or the power went.
///
/// Without --apply, nothing is changed: it says what would be. The indexes of shards are rebuilt from the headers before the
/// chunks; a chunk counts only when its header and its bytes agree. It may be interrupted and run again.
#[derive(Debug, Args)]
#[command(after_help = RECOVER_EXIT_CODES)]
pub(crate) struct Recover {
    /// The dataset.
    pub(crate) path: PathBuf,
    /// Make the changes.
    #[arg(long)]
    pub(crate) apply: bool,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress and print nothing but with --json; the exit code tells.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Find out whether this machine keeps up with a camera when it writes into a folder, with which settings, and how long the
/// disk lasts. Takes some ten seconds and a few gigabytes of free space for that time.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 it keeps up   4 it does not: frames would be lost   others as with every command"
)]
pub(crate) struct Probe {
    /// The folder in which datasets are to be written
    pub(crate) path: PathBuf,
    /// The camera: width, height, element type, frames a second; without these the highest rate is what you learn
    #[arg(long, value_name = "WxHxDTYPE[@FPS]", default_value = "2048x2048xu16@100")]
    pub(crate) camera: Camera,
    /// How long each codec is tried
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) seconds: Duration,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// Close the gaps in a dataset's shards and put their chunks in order; where wished, compress them anew and give chunks and
/// shards other shapes. Every new shard is read back and compared before an old one goes. Killed and called again, it goes
/// on where it stopped.
#[derive(Debug, Args)]
pub(crate) struct Repack {
    /// The dataset
    pub(crate) path: PathBuf,
    /// The dataset to create [default: in place]
    pub(crate) output: Option<PathBuf>,
    /// The order of chunks in their shard
    #[arg(long, default_value = "c", value_parser = one_of(&[
        ("c", ChunkOrder::C), ("morton", ChunkOrder::Morton), ("kept", ChunkOrder::Kept),
    ]))]
    pub(crate) order: ChunkOrder,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
    #[command(flatten)]
    pub(crate) volume: VolumeArgs,
    /// End every shard's index with its CRC-32C, which only zarr3 has [default: as it is]
    #[arg(long, conflicts_with = "no_index_checksum")]
    pub(crate) index_checksum: bool,
    /// Memory for chunks on their way
    #[arg(long, value_name = "BYTES", default_value = "512MiB", value_parser = bytes)]
    pub(crate) memory: u64,
    /// Threads that read, compress and compare; 0: one for each core
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) workers: usize,
    /// Don't wait until the data has reached the device
    #[arg(long)]
    pub(crate) no_sync: bool,
    /// Write the bytes of shards that stay as they are, rather than share their blocks with the old dataset's on XFS and Btrfs
    #[arg(long)]
    pub(crate) no_reflink: bool,
    /// Take in place also a dataset whose writer didn't finish; what only a recovery would find in it is lost
    #[arg(long)]
    pub(crate) incomplete: bool,
    /// Print one JSON object instead of a sentence
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress and print nothing
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Write a recording, or a synthetic camera's frames, into a new dataset, as a camera would.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Replay {
    /// A TIFF or OME-TIFF stack, a Zarr array, a raw file (with --shape and --dtype), or the word `synthetic`
    pub(crate) input: PathBuf,
    /// The dataset to create
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) recording: RecordingArgs,
    #[command(flatten)]
    pub(crate) pace: PaceArgs,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) volume: VolumeArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) soak: SoakArgs,

    /// Print one JSON object to stdout instead of the summary
    #[arg(long, help_heading = "Report")]
    pub(crate) json: bool,
    /// Show no progress and print no summary
    #[arg(long, short, help_heading = "Report")]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Recording")]
pub(crate) struct RecordingArgs {
    /// The synthetic camera: width, height, element type, and frames a second if it has a speed of its own
    #[arg(long, value_name = "WxHxDTYPE[@FPS]")]
    pub(crate) camera: Option<Camera>,
    /// A raw file's shape, slowest dimension first: T,Y,X; other dimensions need --axes
    #[arg(long, value_name = "N,N,N", value_parser = positive, value_delimiter = ',')]
    pub(crate) shape: Vec<u64>,
    /// The names of the dimensions of --shape, such as t,c,y,x
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) axes: Vec<String>,
    /// A raw file's element type, little-endian: u8, i8, u16, … f64
    #[arg(long)]
    pub(crate) dtype: Option<Dtype>,
    /// Bytes to skip at a raw file's start
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = bytes)]
    pub(crate) offset: u64,
    /// Take only so many frames; a synthetic camera gives 500 if nothing is said
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) frames: Option<u64>,
    /// Replay the recording so many times; frame numbers go on
    #[arg(long = "loop", value_name = "N", default_value = "1", value_parser = positive)]
    pub(crate) repeat: u64,
    /// Read the whole recording into memory first, so that the speed is the writer's and not the reader's
    #[arg(long)]
    pub(crate) preload: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Pace")]
pub(crate) struct PaceArgs {
    /// Frames a second, or `max` [default: the camera's own, else max]
    #[arg(long, value_name = "FPS|max")]
    pub(crate) rate: Option<Rate>,
    /// What happens to a frame when the ring is full: wait, lose it, or stop
    #[arg(long, value_name = "POLICY", default_value = "block", value_parser = PossibleValuesParser::new(["block", "drop-newest", "error"]))]
    pub(crate) policy: String,
    /// How long to wait at most with --policy block, in seconds; past it the run stops [default: for ever]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
}

/// What a dataset is like, be it of a camera's frames or made of another dataset.
#[derive(Debug, Args)]
#[command(next_help_heading = "Layout and codec")]
pub(crate) struct LayoutArgs {
    /// The on-disk format: Zarr v3 with sharding_indexed, the sharding drafts before it, or Neuroglancer's precomputed volume
    #[arg(long, default_value = "zarr3", value_parser = one_of(&[
        ("zarr3", Dialect::Zarr3), ("zarr3-transformer", Dialect::Zarr3Transformer),
        ("zarr2-sharded", Dialect::Zarr2Sharded), ("precomputed", Dialect::Precomputed),
    ]))]
    pub(crate) dialect: Dialect,
    /// How chunks are compressed; blosc-noise is another name for blosc-lz4 at level 1 with bit shuffle, whose writer is made
    /// for camera noise [default: replay takes blosc-lz4, for a precomputed volume none; repack keeps what is]
    #[arg(long, value_name = "CODEC", value_parser = PossibleValuesParser::new(CODECS))]
    pub(crate) codec: Option<String>,
    /// The compression level: 0 to 9, for zstd -131072 to 22 [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) level: Option<i32>,
    /// What Blosc reorders before it compresses [default: bit]
    #[arg(long, value_parser = one_of(&[("none", Shuffle::None), ("byte", Shuffle::Byte), ("bit", Shuffle::Bit)]))]
    pub(crate) shuffle: Option<Shuffle>,
    /// Leave out the CRC-32C of every chunk, which only zarr3 has
    #[arg(long)]
    pub(crate) no_checksum: bool,
    /// Elements a chunk, in each dimension or only the last ones; 0 leaves it to replay, and repack as it is [default: 0]
    #[arg(long, value_name = "N,N,N", value_delimiter = ',')]
    pub(crate) chunk: Vec<u64>,
    /// Elements a shard, in each dimension or only the last ones; 0 leaves it to replay, and repack as it is [default: 0]
    #[arg(long, value_name = "N,N,N", value_delimiter = ',')]
    pub(crate) shard: Vec<u64>,
    /// Where a shard's index stands [default: at the end; repack leaves it where it is]
    #[arg(long, value_parser = one_of(&[("end", IndexLocation::End), ("start", IndexLocation::Start)]))]
    pub(crate) index: Option<IndexLocation>,
    /// Leave out the CRC-32C of every shard's index, which only zarr3 has
    #[arg(long)]
    pub(crate) no_index_checksum: bool,
}

/// What only a dataset is like that is written as frames come.
#[derive(Debug, Args)]
#[command(next_help_heading = "Layout and codec")]
pub(crate) struct RunArgs {
    /// Leave the size of the first dimension open; the dataset grows with the frames
    #[arg(long)]
    pub(crate) unbounded: bool,
    /// The size of a pixel, such as 0.325um; it goes before what the recording says
    #[arg(long, value_name = "SIZE")]
    pub(crate) pixel_size: Option<Length>,
    /// Where a chunk's bytes go in its shard: into a slot of its own, or behind the one before; auto packs what is compressed,
    /// unless it is made in a map
    #[arg(long, default_value = "auto", value_parser = one_of(&PLACEMENTS))]
    pub(crate) placement: Placement,
    /// At the end, write down where the chunks lie, for readers that go by references, into a folder beside the dataset; the
    /// forms are those of the command manifest
    #[arg(long, value_name = "FORM,FORM", value_delimiter = ',', value_parser = one_of(&FORMS))]
    pub(crate) manifest: Vec<ManifestForm>,
    /// Replace a dataset that is in the way
    #[arg(long)]
    pub(crate) overwrite: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Precomputed volumes")]
pub(crate) struct VolumeArgs {
    /// The name of the scale [default: the resolution, as 325_325_1000]
    #[arg(long, value_name = "NAME")]
    pub(crate) key: Option<String>,
    /// What is done to a chunk's id before its bits choose the shard; murmurhash3_x86_128 keeps all shards open to the end
    #[arg(long, default_value = "identity", value_parser = one_of(&[
        ("identity", VolumeHash::Identity), ("murmurhash3_x86_128", VolumeHash::Murmurhash3X86_128),
    ]))]
    pub(crate) hash: VolumeHash,
    /// How many of an id's lowest bits neighbours in one minishard may differ in [default: chooses]
    #[arg(long, value_name = "BITS")]
    pub(crate) preshift_bits: Option<u8>,
    /// Minishards a shard, as a power of two [default: chooses]
    #[arg(long, value_name = "BITS")]
    pub(crate) minishard_bits: Option<u8>,
    /// Shards, as a power of two [default: as many as the volume needs]
    #[arg(long, value_name = "BITS")]
    pub(crate) shard_bits: Option<u8>,
    /// Compress the indexes of minishards
    #[arg(long)]
    pub(crate) gzip_indexes: bool,
    /// Where the first voxel stands, in voxels
    #[arg(long, value_name = "X,Y,Z", value_delimiter = ',', num_args = 1, allow_negative_numbers = true)]
    pub(crate) voxel_offset: Vec<i64>,
    /// Nanometers from voxel to voxel [default: from the recording and --pixel-size]
    #[arg(long, value_name = "X,Y,Z", value_delimiter = ',')]
    pub(crate) resolution: Vec<f64>,
}

impl VolumeArgs {
    pub(crate) fn volume(&self) -> Result<Volume, Failure> {
        let three =
            |option, count| Failure::Usage(format!("{option} has {count} numbers, but a volume has x, y and z"));
        let voxel_offset = match self.voxel_offset[..] {
            [] => [0; 3],
            [x, y, z] => [x, y, z],
            _ => return Err(three("--voxel-offset", self.voxel_offset.len())),
        };
        let resolution = match self.resolution[..] {
            [] => None,
            [x, y, z] => Some([x, y, z]),
            _ => return Err(three("--resolution", self.resolution.len())),
        };
        Ok(Volume {
            key: self.key.clone(),
            hash: self.hash,
            preshift_bits: self.preshift_bits,
            minishard_bits: self.minishard_bits,
            shard_bits: self.shard_bits,
            gzip_indexes: self.gzip_indexes,
            voxel_offset,
            resolution,
        })
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Means")]
pub(crate) struct EngineArgs {
    /// Threads that encode; 0: one for each core
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) workers: usize,
    /// Cores to pin the workers to, in turn
    #[arg(long, value_name = "CORE,CORE", value_delimiter = ',')]
    pub(crate) affinity: Vec<usize>,
    /// Memory for frames: the ring, preloaded frames and the synthetic camera's, together
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = bytes)]
    pub(crate) memory: u64,
    /// How bytes reach the file
    #[arg(long, default_value = "auto", value_parser = one_of(&[
        ("auto", StorageKind::Auto), ("mapped", StorageKind::Mapped), ("buffered", StorageKind::Buffered),
        ("direct", StorageKind::Direct),
    ]))]
    pub(crate) storage: StorageKind,
    /// With --storage mapped, end with an error, not by SIGBUS, when a shard is cut off or its device goes away
    #[arg(long)]
    pub(crate) guard_maps: bool,
    /// How often what was written is made safe from a kill and a loss of power, and visible to readers; 0: at each shard's close
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) checkpoint_every: Duration,
    /// Don't wait until the data has reached the device
    #[arg(long)]
    pub(crate) no_sync: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Long runs")]
pub(crate) struct SoakArgs {
    /// Write a page with plots of throughput, commit latency and memory over time; without --frames the run takes twice the
    /// machine's memory
    #[arg(long, value_name = "FILE.html")]
    pub(crate) soak: Option<PathBuf>,
    /// Delete the oldest shards as soon as all closed ones together take more than this [default with --soak: half of
    /// the free space, if the run does not fit in it]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) roll: Option<u64>,
}

/// What a region is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Tiff,
    OmeTiff,
    Npy,
    Raw,
}

/// The names that `--format` takes.
pub(crate) const FORMATS: [(&str, Format); 4] =
    [("ome-tiff", Format::OmeTiff), ("tiff", Format::Tiff), ("npy", Format::Npy), ("raw", Format::Raw)];

/// The names that `--form` and `--manifest` take.
const FORMS: [(&str, ManifestForm); 3] =
    [("manifest", ManifestForm::Manifest), ("inlined", ManifestForm::Inlined), ("kerchunk", ManifestForm::Kerchunk)];

/// The names that `--placement` takes.
const PLACEMENTS: [(&str, Placement); 3] =
    [("auto", Placement::Auto), ("fixed", Placement::Fixed), ("packed", Placement::Packed)];

/// The names that `--codec` takes.
pub(crate) const CODECS: [&str; 11] = [
    "none",
    "blosc-noise",
    "blosc-lz4",
    "blosc-lz4hc",
    "blosc-zstd",
    "blosc-zlib",
    "blosc-blosclz",
    "zstd",
    "gzip",
    "lz4",
    "zlib",
];

/// Parses one of a few names to the value that belongs to it, and lists the names in help and completions.
fn one_of<T: Copy + Send + Sync + 'static>(table: &'static [(&'static str, T)]) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(table.iter().map(|row| row.0)).map(|name| {
        let found = table.iter().find(|row| row.0 == name);
        found.expect("clap lets only names of the table pass").1
    })
}

impl LayoutArgs {
    /// The compressor that `--codec`, `--level` and `--shuffle` describe together.
    pub(crate) fn compressor(&self) -> Result<Compressor, Failure> {
        let usual = if self.dialect == Dialect::Precomputed { "none" } else { "blosc-lz4" };
        compressor(self.codec.as_deref().unwrap_or(usual), self.level, self.shuffle)
    }
}

fn compressor(codec: &str, level: Option<i32>, shuffle: Option<Shuffle>) -> Result<Compressor, Failure> {
    let blosc = codec.strip_prefix("blosc-");
    if shuffle.is_some() && blosc.is_none() {
        return Err(Failure::Usage(format!("--shuffle belongs to the blosc codecs, but --codec is {codec}")));
    }
    if codec == "blosc-noise" {
        if level.is_some() || shuffle.is_some() {
            return Err(Failure::Usage(
                "blosc-noise has no --level or --shuffle: it is one way to write LZ4 at level 1 with bit shuffle"
                    .into(),
            ));
        }
        return Ok(Compressor::BloscNoise { block_bytes: 0 });
    }
    let within = |lowest: i32, highest: i32| {
        let level = level.unwrap_or(1);
        if (lowest..=highest).contains(&level) {
            return Ok(level);
        }
        Err(Failure::Usage(format!("--level {level} is not possible with --codec {codec}: {lowest} to {highest}")))
    };
    if let Some(name) = blosc {
        let cname = match name {
            "lz4" => BloscCname::Lz4,
            "lz4hc" => BloscCname::Lz4hc,
            "zstd" => BloscCname::Zstd,
            "zlib" => BloscCname::Zlib,
            _ => BloscCname::Blosclz,
        };
        let (level, shuffle) = (within(0, 9)? as u8, shuffle.unwrap_or_default());
        return Ok(Compressor::Blosc { cname, level, shuffle, block_bytes: 0 });
    }
    match codec {
        "zstd" => Ok(Compressor::Zstd { level: within(-131_072, 22)? }),
        "gzip" => Ok(Compressor::Gzip { level: within(0, 9)? as u8 }),
        "zlib" => Ok(Compressor::Zlib { level: within(0, 9)? as u8 }),
        _ if level.is_some() => Err(Failure::Usage(format!("--level means nothing to --codec {codec}"))),
        "lz4" => Ok(Compressor::Lz4),
        _ => Ok(Compressor::None),
    }
}

impl Repack {
    /// The codec that the options describe; `None` to keep what is.
    pub(crate) fn codec(&self) -> Result<Option<Codec>, Failure> {
        let LayoutArgs { codec, level, shuffle, no_checksum, dialect, .. } = &self.layout;
        let Some(codec) = codec else {
            if level.is_some() || shuffle.is_some() || *no_checksum {
                return Err(Failure::Usage("--level, --shuffle and --no-checksum belong to --codec".into()));
            }
            return Ok(None);
        };
        let compressor = compressor(codec, *level, *shuffle)?;
        Ok(Some(Codec { compressor, checksum: *dialect == Dialect::Zarr3 && !no_checksum }))
    }

    /// Whether indexes end with their checksum; `None` to keep what is.
    pub(crate) fn index_checksum(&self) -> Option<bool> {
        let given = self.index_checksum || self.layout.no_index_checksum;
        given.then_some(self.index_checksum)
    }
}

impl PaceArgs {
    /// What the engine does when the ring is full.
    pub(crate) fn ring_full(&self) -> Result<RingFull, Failure> {
        if self.timeout.is_some() && self.policy != "block" {
            return Err(Failure::Usage(format!(
                "--timeout belongs to --policy block, but --policy is {}",
                self.policy
            )));
        }
        Ok(match self.policy.as_str() {
            "drop-newest" => RingFull::DropNewest,
            "error" => RingFull::Error,
            _ => RingFull::Block { timeout: self.timeout },
        })
    }
}

/// A synthetic camera: `2048x2048xu16@100`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Camera {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) dtype: Dtype,
    pub(crate) fps: Option<f64>,
}

impl Default for Camera {
    fn default() -> Self {
        Self { width: 2048, height: 2048, dtype: Dtype::U16, fps: None }
    }
}

impl FromStr for Camera {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (frame, fps) = match text.split_once('@') {
            Some((frame, fps)) => (frame, Some(frames_per_second(fps)?)),
            None => (text, None),
        };
        let parts: Vec<_> = frame.split('x').collect();
        let [width, height, dtype] = parts[..] else {
            return Err("a camera reads WIDTHxHEIGHTxDTYPE or WIDTHxHEIGHTxDTYPE@FPS, such as 2048x2048xu16@100".into());
        };
        let side = |name, digits: &str| match digits.parse() {
            Ok(pixels @ 1..=1_000_000) => Ok(pixels),
            _ => Err(format!("{name} {digits:?} is not a number of pixels from 1 to 1000000")),
        };
        Ok(Self { width: side("width", width)?, height: side("height", height)?, dtype: dtype.parse()?, fps })
    }
}

/// How fast frames come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rate {
    /// As fast as the writer takes them.
    Max,
    /// So many a second.
    Fps(f64),
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" { Ok(Self::Max) } else { frames_per_second(text).map(Self::Fps) }
    }
}

fn frames_per_second(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(fps) if fps.is_finite() && fps > 0.0 => Ok(fps),
        _ => Err(format!("{text:?} is not a number of frames a second above 0")),
    }
}

/// A length with the unit's name as UDUNITS-2 spells it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Length {
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let split = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
        // "1e-7m" would split at its exponent.
        let split = match text[split..].strip_prefix('e') {
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                split + 1 + rest.find(|c: char| c.is_alphabetic()).unwrap_or(rest.len())
            }
            _ => split,
        };
        let (value, unit) = text.split_at(split);
        let value = match value.trim().parse::<f64>() {
            Ok(value) if value.is_finite() && value > 0.0 => value,
            _ => return Err(format!("{text:?} is not a length; a number above 0 and a unit are, such as 0.325um")),
        };
        let unit = unit_name(unit.trim()).ok_or_else(|| {
            format!("{:?} is not a known unit of length; possible are pm, nm, um, mm, cm, m", unit.trim())
        })?;
        Ok(Self { value, unit })
    }
}

/// The UDUNITS-2 name of a unit of length or time as people and OME-XML write it.
pub(crate) fn unit_name(symbol: &str) -> Option<&'static str> {
    Some(match symbol {
        "pm" | "picometer" => "picometer",
        "Å" | "angstrom" => "angstrom",
        "nm" | "nanometer" => "nanometer",
        // The micro sign and the Greek letter mu look alike and are both in use.
        "um" | "\u{b5}m" | "\u{3bc}m" | "micron" | "micrometer" => "micrometer",
        "mm" | "millimeter" => "millimeter",
        "cm" | "centimeter" => "centimeter",
        "m" | "meter" => "meter",
        "ns" | "nanosecond" => "nanosecond",
        "\u{b5}s" | "\u{3bc}s" | "us" | "microsecond" => "microsecond",
        "ms" | "millisecond" => "millisecond",
        "s" | "sec" | "second" => "second",
        "min" | "minute" => "minute",
        "h" | "hour" => "hour",
        _ => return None,
    })
}

/// Parses a number of bytes: `4096`, `64MiB`, `1.5GB`.
fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a number of bytes; possible are 4096, 64MiB, 1.5GiB, 2GB and the like");
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..split].trim(), text[split..].trim());
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        "tib" | "t" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(wrong);
    }
    match number.parse::<f64>() {
        Ok(number) if number >= 0.0 && number * factor as f64 <= 9e15 => Ok((number * factor as f64) as u64),
        _ => Err(wrong()),
    }
}

fn positive(text: &str) -> Result<u64, String> {
    match text.trim().parse() {
        Ok(number @ 1..) => Ok(number),
        _ => Err(format!("{text:?} is not a whole number above 0")),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    parsed.ok_or_else(|| format!("{text:?} is not a number of seconds"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn replay(words: &[&str]) -> Result<Replay, clap::Error> {
        let words = ["shardwright", "replay"].iter().chain(words);
        Cli::try_parse_from(words).map(|cli| match cli.command {
            Command::Replay(replay) => *replay,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn the_command_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn two_paths_are_enough() {
        let replay = replay(&["movie.tif", "out.ome.zarr"]).unwrap();
        assert_eq!((replay.recording.repeat, replay.engine.memory), (1, 1 << 30));
        assert_eq!(replay.layout.compressor().unwrap(), Compressor::default());
        assert_eq!(replay.pace.ring_full().unwrap(), RingFull::Block { timeout: None });
        assert_eq!(replay.run.placement, Placement::Auto);
    }

    #[test]
    fn a_recovery_changes_nothing_unless_it_is_told_to() {
        let recover = |words: &[&str]| match Cli::try_parse_from(words).unwrap().command {
            Command::Recover(recover) => recover.apply,
            other => panic!("{other:?}"),
        };
        assert!(!recover(&["shardwright", "recover", "run.zarr"]));
        assert!(recover(&["shardwright", "recover", "run.zarr", "--apply"]));
    }

    #[test]
    fn an_output_is_required() {
        assert_eq!(replay(&["synthetic"]).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn lists_and_enumerations_become_values() {
        let replay = replay(&[
            "in.raw",
            "out",
            "--shape",
            "10,20,30",
            "--chunk",
            "16,256,256",
            "--affinity",
            "0,1",
            "--storage",
            "buffered",
            "--index",
            "start",
            "--shuffle",
            "byte",
            "--axes",
            "t,y,x",
            "--level",
            "3",
            "--codec",
            "blosc-zstd",
        ])
        .unwrap();
        assert_eq!(replay.recording.shape, [10, 20, 30]);
        assert_eq!(replay.recording.axes, ["t", "y", "x"]);
        assert_eq!(replay.layout.chunk, [16, 256, 256]);
        assert_eq!(replay.engine.affinity, [0, 1]);
        assert_eq!(replay.engine.storage, StorageKind::Buffered);
        assert_eq!(replay.layout.index, Some(IndexLocation::Start));
        let zstd = Compressor::Blosc { cname: BloscCname::Zstd, level: 3, shuffle: Shuffle::Byte, block_bytes: 0 };
        assert_eq!(replay.layout.compressor().unwrap(), zstd);
    }

    #[test]
    fn every_codec_name_has_a_compressor() {
        for codec in CODECS {
            let compressor = replay(&["in", "out", "--codec", codec]).unwrap().layout.compressor().unwrap();
            if let (Compressor::Blosc { cname, .. }, Some(name)) = (compressor, codec.strip_prefix("blosc-")) {
                assert_eq!(cname.name(), name);
            }
        }
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let codec = |words: &[&str]| replay(words).unwrap().layout.compressor().unwrap_err().to_string();
        assert!(codec(&["i", "o", "--codec", "gzip", "--shuffle", "bit"]).contains("blosc"));
        assert!(codec(&["i", "o", "--codec", "gzip", "--level", "10"]).contains("0 to 9"));
        assert!(codec(&["i", "o", "--codec", "none", "--level", "1"]).contains("--level"));
        let policy = replay(&["i", "o", "--policy", "drop-newest", "--timeout", "1"]).unwrap().pace.ring_full();
        assert!(policy.unwrap_err().to_string().contains("--policy block"));
    }

    #[test]
    fn negative_levels_reach_zstd() {
        let replay = replay(&["i", "o", "--codec", "zstd", "--level", "-5"]).unwrap();
        assert_eq!(replay.layout.compressor().unwrap(), Compressor::Zstd { level: -5 });
    }

    #[test]
    fn cameras_are_width_height_type_and_perhaps_speed() {
        let orca: Camera = "4432x2368xu16@115.5".parse().unwrap();
        assert_eq!(orca, Camera { width: 4432, height: 2368, dtype: Dtype::U16, fps: Some(115.5) });
        assert_eq!("64x32xf32".parse::<Camera>().unwrap().fps, None);
        for wrong in ["", "64", "64x64", "64x64xu17", "0x64xu8", "64x-1xu8", "64x64xu8@", "64x64xu8@0", "64x64xu8@nan"]
        {
            assert!(wrong.parse::<Camera>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        let good = [
            ("4096", 4096),
            ("1GiB", 1 << 30),
            ("1.5GiB", 3 << 29),
            ("2GB", 2_000_000_000),
            ("64 MiB", 64 << 20),
            ("3kb", 3000),
            ("1k", 1024),
            ("0", 0),
        ];
        for (text, expected) in good {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for wrong in ["", "GiB", "-1", "1XB", "1e30", "99999999999999999999", "99999999999GiB", "nan"] {
            assert!(bytes(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn rates_are_numbers_or_max() {
        assert_eq!("max".parse(), Ok(Rate::Max));
        assert_eq!("99.5".parse(), Ok(Rate::Fps(99.5)));
        assert!("0".parse::<Rate>().is_err() && "-3".parse::<Rate>().is_err() && "inf".parse::<Rate>().is_err());
    }

    #[test]
    fn lengths_have_units() {
        let um = |value| Length { value, unit: "micrometer" };
        for (text, length) in [("0.325um", um(0.325)), ("0.325 µm", um(0.325)), ("1e-1um", um(0.1))] {
            assert_eq!(text.parse(), Ok(length), "{text}");
        }
        assert_eq!("65nm".parse(), Ok(Length { value: 65.0, unit: "nanometer" }));
        for wrong in ["0.3", "um", "-1um", "3 parsecs", "0um"] {
            assert!(wrong.parse::<Length>().is_err(), "{wrong}");
        }
    }
}
