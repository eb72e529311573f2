//! Options that belong together, by what they are about.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use shardwright::words;
use shardwright::{
    Compressor, Config, Depth, Dialect, Downsampling, Dtype, Flip, IndexLocation, ManifestForm, OmeVersion,
    Orientation, PixelFormat, Placement, PyramidMethod, RingFull, Shuffle, StorageKind, Volume, VolumeHash,
};

use super::images::{MovingRoi, Series};
use super::values::{
    AxisOrigin, Camera, FROM_0, OrNone, PixelSize, Rate, bytes, number, one_of, one_of_or_none, positive, seconds,
    whole, within,
};
use crate::failure::Failure;

/// The formats that are written as frames come.
const LIVE: [Dialect; 4] = [Dialect::Zarr3, Dialect::Zarr3Transformer, Dialect::Zarr2Sharded, Dialect::Precomputed];

/// What `--codec` takes where no frames come, for which one would be chosen.
pub(super) const CODECS: &[Compressor] = match Compressor::ALL {
    [Compressor::Auto, rest @ ..] => rest,
    _ => panic!("auto is the first"),
};

/// What `--pixel-format` takes: interleaved samples of a file are told by `--axes`.
static FILE_FORMATS: [PixelFormat; 7] = [
    PixelFormat::Plain,
    PixelFormat::BigEndian,
    PixelFormat::Mono10p,
    PixelFormat::Mono12p,
    PixelFormat::Mono14p,
    PixelFormat::Mono10Packed,
    PixelFormat::Mono12Packed,
];

/// What `--orientation` takes, and what each does.
const TURNS: [&str; 8] = [
    "as-is",
    "rotate-90",
    "rotate-180",
    "rotate-270",
    "flip-vertical",
    "flip-horizontal",
    "transpose",
    "transpose-other",
];

/// What `--bayer` takes.
const BAYER: [&str; 4] = ["RGGB", "GRBG", "GBRG", "BGGR"];

#[derive(Debug, Args)]
#[command(next_help_heading = "Recording")]
pub(crate) struct RecordingArgs {
    /// The synthetic camera: width, height, element type, and frames per second if it has a speed of its own
    #[arg(long, value_name = "WxHxDTYPE[@FPS]")]
    pub(crate) camera: Option<Camera>,
    /// A raw file's shape as it lies in the file, slowest dimension first: T,Y,X; other dimensions need --axes
    #[arg(long, value_name = "N,N,N", value_parser = positive, value_delimiter = ',')]
    pub(crate) shape: Vec<u64>,
    /// The names of the dimensions of --shape, of an .npy file's, or of a Zarr array's that has none, such as t,c,y,x;
    /// with c as the last one, as in t,y,x,c (not of a Zarr array), the samples of a pixel follow each other (RGB), and
    /// become channels
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) axes: Vec<String>,
    /// A raw file's element type: uint8, int8, uint16, … float64 (or u8 … f64), little-endian unless --pixel-format
    /// says otherwise
    #[arg(long)]
    pub(crate) dtype: Option<Dtype>,
    /// How a raw file's pixels lie, as a camera gives them; packed ones, by their names in GenICam's convention, become
    /// uint16 [default: plain]
    #[arg(long, value_name = "FORMAT", value_parser = one_of(&FILE_FORMATS, PixelFormat::name))]
    pub(crate) pixel_format: Option<PixelFormat>,
    /// How many of the lowest bits of a raw file's 16-bit pixels are unused: 4 where 12 bits are aligned to the left.
    /// Pixels are shifted down by that many
    #[arg(long, value_name = "BITS", default_value_t = 0, value_parser = within(0_u32..=15))]
    pub(crate) unused_bits: u32,
    /// Bytes to skip at a raw file's start
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = bytes)]
    pub(crate) offset: u64,
    /// Bytes from one row's start to the next in a raw file [default: rows follow each other]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) row_stride: Option<u64>,
    /// Bytes from one frame's start to the next in a raw file, where something stands between frames [default: they
    /// follow each other]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) frame_stride: Option<u64>,
    /// How frames are turned on their way into the dataset; rotations are counterclockwise
    #[arg(long, value_name = "TURN", default_value = "as-is", value_parser = PossibleValuesParser::new(TURNS))]
    pub(crate) orientation: String,
    /// The colours in front of the first frame's first two pixels in its first two rows, which are kept, for those of
    /// the image, as the attribute `bayer_pattern`; pixels are not touched
    #[arg(long, value_name = "PATTERN", value_parser = PossibleValuesParser::new(BAYER))]
    pub(crate) bayer: Option<String>,
    /// Which image (of OME-TIFF) or position (of Micro-Manager) of a recording of several, counted from 0, or all, each
    /// as an image of its own; without it, such a recording is refused with a list
    #[arg(long, value_name = "N|all")]
    pub(crate) series: Option<Series>,
    /// What becomes of frames that a camera took of several places of its sensor, as their recording says (`ROI`): pad
    /// puts each at its place in a larger one and records it, ignore takes them as they are [default: such a recording
    /// is refused]
    #[arg(long, value_name = "WAY", value_parser = one_of(&MovingRoi::ALL, MovingRoi::name))]
    pub(crate) moving_roi: Option<MovingRoi>,
    /// Take only the first N frames; a synthetic camera gives 500 by default
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) frames: Option<u64>,
    /// Replay the recording N times; frame numbers go on
    #[arg(long = "loop", value_name = "N", default_value = "1", value_parser = positive)]
    pub(crate) repeat: u64,
    /// Read the whole recording into memory first, so that the speed is the writer's and not the reader's
    #[arg(long)]
    pub(crate) preload: bool,
    /// Lay the whole recording into the ring before the run, and commit the frames where they lie, as a camera does
    /// that writes into the ring by itself; --memory must have room for it
    #[arg(long, conflicts_with = "preload")]
    pub(crate) dma: bool,
}

impl RecordingArgs {
    /// What `--orientation` means.
    pub(crate) fn turn(&self) -> Orientation {
        let flipped = |flip| Orientation { flip, ..Orientation::default() };
        let transposed = |flip| Orientation { transpose: true, flip };
        match self.orientation.as_str() {
            "rotate-90" => Orientation::quarter_turns(1),
            "rotate-180" => Orientation::quarter_turns(2),
            "rotate-270" => Orientation::quarter_turns(3),
            "flip-vertical" => flipped(Flip::Rows),
            "flip-horizontal" => flipped(Flip::Columns),
            "transpose" => transposed(Flip::None),
            "transpose-other" => transposed(Flip::Both),
            _ => Orientation::default(),
        }
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Pace")]
pub(crate) struct PaceArgs {
    /// Get everything ready, say so, and wait for a line on standard input, or its end, before the first frame
    #[arg(long)]
    pub(crate) wait: bool,
    /// Frames per second, which also become the time scale where each frame is a time point and nothing else says how
    /// far these are apart, or `max` [default: the camera's own, else max]
    #[arg(long, value_name = "FPS|max", allow_hyphen_values = true)]
    pub(crate) rate: Option<Rate>,
    /// What happens to a frame when the ring is full: wait, lose it, or stop
    #[arg(long, value_name = "POLICY", default_value = "block", value_parser = one_of(RingFull::ALL, RingFull::name))]
    pub(crate) policy: RingFull,
    /// How long to wait at most with --policy block, in seconds; past it the run stops [default: for ever]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
}

/// The layout of a dataset that is written as frames come.
#[derive(Debug, Args)]
#[command(next_help_heading = "Layout and codec")]
pub(crate) struct LayoutArgs {
    /// The on-disk format: Zarr v3 with sharding_indexed, one of the sharding drafts before it, or Neuroglancer's
    /// precomputed volume
    #[arg(long, default_value = "zarr3", value_parser = one_of(&LIVE, Dialect::name))]
    pub(crate) dialect: Dialect,
    /// The codec of chunks; blosc-noise is blosc-lz4 at level 1 with bit shuffle, written by an encoder for camera
    /// noise; auto takes blosc-lz4 or blosc-zstd, whichever is faster here, and lowers its effort when the ring fills
    /// [default: blosc-lz4; none for a precomputed volume]
    #[arg(long, value_name = "CODEC", value_parser = one_of(Compressor::ALL, Compressor::name))]
    pub(crate) codec: Option<Compressor>,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
    /// Chunk shape in elements, slowest dimension first, of all dimensions or only the last ones; 0: automatic
    /// [default: 0]
    #[arg(long, value_name = "N,N,N", value_delimiter = ',', value_parser = whole)]
    pub(crate) chunk: Vec<u64>,
    /// Shard shape in elements, a multiple of the chunk shape, in the same order; 0: automatic [default: 0]
    #[arg(long, value_name = "N,N,N", value_delimiter = ',', value_parser = whole)]
    pub(crate) shard: Vec<u64>,
    /// Where the index is in a shard [default: end]
    #[arg(long, value_parser = one_of(IndexLocation::ALL, IndexLocation::name))]
    pub(crate) index: Option<IndexLocation>,
}

/// How chunks and indexes become bytes, beside the codec.
#[derive(Debug, Args)]
#[command(next_help_heading = "Layout and codec")]
pub(crate) struct EncodingArgs {
    /// The compression level: 0 to 9, for zstd -131072 to 22 [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number::<i32>("a whole number"))]
    pub(crate) level: Option<i32>,
    /// The shuffle filter of Blosc [default: bit]
    #[arg(long, value_parser = one_of(Shuffle::ALL, Shuffle::name))]
    pub(crate) shuffle: Option<Shuffle>,
    /// Write chunks without a CRC-32C, which only zarr3 has
    #[arg(long)]
    pub(crate) no_checksum: bool,
    /// Write indexes of shards without a CRC-32C, which only zarr3 has
    #[arg(long)]
    pub(crate) no_index_checksum: bool,
}

/// What only a dataset is like that is written as frames come.
#[derive(Debug, Args)]
#[command(next_help_heading = "Layout and codec")]
pub(crate) struct RunArgs {
    /// Leave the first dimension unbounded: it grows with the frames
    #[arg(long)]
    pub(crate) unbounded: bool,
    /// The size of a pixel, such as 0.325um, and by name how far planes or time points are apart, z=2um,t=0.5s;
    /// overrides what the recording says
    #[arg(long, value_name = "SIZE,NAME=SIZE,…", value_delimiter = ',')]
    pub(crate) pixel_size: Vec<PixelSize>,
    /// Where the centre of the first pixel is, such as the position of the stage, in the unit of each dimension: by
    /// name, z=12.5,y=-1200,x=340; overrides what the recording says
    #[arg(long, value_name = "NAME=PLACE,…", value_delimiter = ',', allow_hyphen_values = true)]
    pub(crate) translation: Vec<AxisOrigin>,
    /// Where a chunk's bytes go in its shard: into a slot of its own, or behind the one before; auto packs what is
    /// compressed, unless it is made in a map
    #[arg(long, default_value = "auto", value_parser = one_of(Placement::ALL, Placement::name))]
    pub(crate) placement: Placement,
    /// Write smaller levels while frames come, each half as large as the one before in y and x, the last two
    /// dimensions: how pixels become one [default: none]
    #[arg(long, value_name = "METHOD", value_parser = one_of_or_none(PyramidMethod::ALL, PyramidMethod::name))]
    pub(crate) pyramid: Option<OrNone<PyramidMethod>>,
    /// With --pyramid, the number of levels beside level 0 [default: until y and x have 256 pixels at most]
    #[arg(long, value_name = "N", requires = "pyramid", value_parser = number::<usize>(FROM_0))]
    pub(crate) levels: Option<usize>,
    /// With --pyramid, halve z, too: always, or auto: once planes are no further apart than pixels
    #[arg(long, value_name = "WHEN", default_value = "never", requires = "pyramid")]
    #[arg(value_parser = one_of(Depth::ALL, Depth::name))]
    pub(crate) z: Depth,
    /// With --pyramid, dimensions that are not halved: y or x
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "pyramid")]
    #[arg(value_parser = PossibleValuesParser::new(["y", "x"]))]
    pub(crate) keep: Vec<String>,
    /// At the end, write down where the chunks lie, for readers that go by references, into a folder beside the
    /// dataset; the forms are those of the command manifest
    #[arg(long, value_name = "FORM,FORM", value_delimiter = ',')]
    #[arg(value_parser = one_of(ManifestForm::ALL, ManifestForm::name))]
    pub(crate) manifest: Vec<ManifestForm>,
    /// Where the image stands in the hierarchy at OUTPUT, as raw/camera-1: a Zarr v3 group with others in it, which may
    /// be another writer's, or is made; its documents stay as they are
    #[arg(long, value_name = "PATH")]
    pub(crate) key: Option<String>,
    /// Write the array alone, at OUTPUT or --key: no group of an image around it, no records, no OME-Zarr metadata
    /// (scales, units, channels, names), and no attributes of this writer, without which `recover` restores nothing
    #[arg(long, conflicts_with = "manifest")]
    pub(crate) bare: bool,
    /// The version of OME-Zarr's metadata; `repack --ome 0.4` makes those of 0.4 afterwards
    #[arg(long, value_name = "VERSION", default_value = "0.5")]
    #[arg(value_parser = one_of(&[OmeVersion::V0_5, OmeVersion::V0_6], OmeVersion::name))]
    pub(crate) ome: OmeVersion,
    /// Replace a dataset that is in the way
    #[arg(long)]
    pub(crate) overwrite: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Precomputed volumes")]
pub(crate) struct VolumeArgs {
    /// The name of the scale [default: the resolution, as 325_325_1000]
    #[arg(long, value_name = "NAME")]
    pub(crate) scale_key: Option<String>,
    /// What is done to a chunk's id before its bits choose the shard; murmurhash3_x86_128 keeps all shards open to the
    /// end
    #[arg(long, default_value = "identity", value_parser = one_of(VolumeHash::ALL, VolumeHash::name))]
    pub(crate) hash: VolumeHash,
    /// Lowest bits of a chunk's id that are ignored when its minishard is chosen [default: automatic]
    #[arg(long, value_name = "BITS", value_parser = within(0_u8..=64))]
    pub(crate) preshift_bits: Option<u8>,
    /// Minishards per shard, as a power of two [default: automatic]
    #[arg(long, value_name = "BITS", value_parser = within(0_u8..=64))]
    pub(crate) minishard_bits: Option<u8>,
    /// Shards, as a power of two [default: as many as the volume needs]
    #[arg(long, value_name = "BITS", value_parser = within(0_u8..=64))]
    pub(crate) shard_bits: Option<u8>,
    /// Compress the indexes of minishards
    #[arg(long)]
    pub(crate) gzip_indexes: bool,
    /// Where the first voxel stands, in voxels
    #[arg(long, value_name = "X,Y,Z", value_delimiter = ',', num_args = 1, allow_hyphen_values = true)]
    #[arg(value_parser = number::<i64>("a whole number"))]
    pub(crate) voxel_offset: Vec<i64>,
    /// Voxel size in nanometers [default: that of the images' pixels]
    #[arg(long, value_name = "X,Y,Z", value_delimiter = ',', value_parser = number::<f64>("a number"))]
    pub(crate) resolution: Vec<f64>,
}

impl VolumeArgs {
    pub(crate) fn volume(&self) -> Result<Volume, Failure> {
        let three = |option, count| {
            Failure::Usage(format!("{option} has {}, but a volume has x, y and z", words::count(count, "number")))
        };
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
            key: self.scale_key.clone(),
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
#[command(next_help_heading = "Resources")]
pub(crate) struct EngineArgs {
    /// Threads that encode; 0: one for each core
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number::<usize>(FROM_0))]
    pub(crate) workers: usize,
    /// Cores to pin the workers to, in turn
    #[arg(long, value_name = "CORE,CORE", value_delimiter = ',', value_parser = number::<usize>(FROM_0))]
    pub(crate) affinity: Vec<usize>,
    /// Memory for frames: the ring, and all frames that are kept ready for it; several images with chunks deeper than
    /// one frame may need more rings as large
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = bytes)]
    pub(crate) memory: u64,
    /// How bytes reach the file
    #[arg(long, default_value = "auto", value_parser = one_of(StorageKind::ALL, StorageKind::name))]
    pub(crate) storage: StorageKind,
    /// With --storage mapped, end with an error, not by SIGBUS, when a shard is cut off or its device goes away
    #[arg(long)]
    pub(crate) guard_maps: bool,
    /// How often what was written is made safe from a kill and a loss of power, and visible to readers; 0: at each
    /// shard's close
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) checkpoint_every: Duration,
    /// Don't wait until the data has reached the device
    #[arg(long)]
    pub(crate) no_sync: bool,
}

impl EngineArgs {
    /// A configuration with these settings and no others. `held_bytes`: of the memory for frames, what is not the
    /// ring's.
    pub(crate) fn config(&self, held_bytes: u64) -> Config {
        Config {
            workers: self.workers,
            affinity: self.affinity.clone(),
            ring_bytes: usize::try_from(self.memory.saturating_sub(held_bytes)).unwrap_or(usize::MAX),
            storage: self.storage,
            guard_maps: self.guard_maps,
            checkpoint_every: self.checkpoint_every,
            sync: !self.no_sync,
            ..Config::default()
        }
    }
}

/// What work on a dataset takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Work")]
pub(crate) struct WorkArgs {
    /// Memory for pixels and chunks on their way
    #[arg(long, value_name = "BYTES", default_value = "512MiB", value_parser = bytes)]
    pub(crate) memory: u64,
    /// Threads that read, compress and compare; 0: one for each core
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number::<usize>(FROM_0))]
    pub(crate) workers: usize,
    /// Don't wait until the data has reached the device
    #[arg(long)]
    pub(crate) no_sync: bool,
}

/// How the result is told.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Report")]
pub(crate) struct ReportArgs {
    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress, no notes and no text; only errors, and the object of --json
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Which files outside of a dataset are read.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Trust")]
pub(crate) struct TrustArgs {
    /// Let manifests name any file of this machine, not only those of datasets in the same folder
    #[arg(long, display_order = 1000)]
    pub(crate) follow_manifests: bool,
    /// Follow symbolic links to any place, not only to what is in the dataset itself
    #[arg(long, display_order = 1001)]
    pub(crate) follow_links: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Long runs")]
pub(crate) struct SoakArgs {
    /// Write a page with plots of throughput, commit latency and memory over time; without --frames the run takes twice
    /// the machine's memory
    #[arg(long, value_name = "FILE.html")]
    pub(crate) soak: Option<PathBuf>,
    /// Delete the oldest shards as soon as all closed ones together take more than this [default with --soak: half of
    /// the free space, if the run does not fit in it]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) roll: Option<u64>,
}

impl RunArgs {
    /// The levels that `--pyramid` and its companions describe together.
    pub(crate) fn downsampling(&self) -> Result<Option<Downsampling>, Failure> {
        let Some(method) = self.pyramid.and_then(|method| method.0) else {
            let given = [
                (self.levels.is_some(), "--levels"),
                (self.z != Depth::default(), "--z"),
                (!self.keep.is_empty(), "--keep"),
            ];
            return match given.into_iter().find(|(is_given, _)| *is_given) {
                Some((_, option)) => Err(Failure::Usage(format!("{option} is of levels, but --pyramid is none"))),
                None => Ok(None),
            };
        };
        if self.bare {
            let why = "--pyramid writes levels, which an array alone has not; leave out that or --bare";
            return Err(Failure::Usage(why.to_owned()));
        }
        let halves = |name: &str| !self.keep.iter().any(|kept| kept == name);
        let (levels, y, x, depth) = (self.levels, halves("y"), halves("x"), self.z);
        Ok(Some(Downsampling { method, levels, y, x, depth }))
    }
}

impl LayoutArgs {
    /// The compressor that `--codec`, `--level` and `--shuffle` describe together.
    pub(crate) fn compressor(&self) -> Result<Compressor, Failure> {
        let usual = if self.dialect == Dialect::Precomputed { Compressor::None } else { Compressor::default() };
        compressor(self.codec.unwrap_or(usual), self.encoding.level, self.encoding.shuffle)
    }
}

pub(super) fn compressor(
    codec: Compressor,
    level: Option<i32>,
    shuffle: Option<Shuffle>,
) -> Result<Compressor, Failure> {
    let is_noise = matches!(codec, Compressor::BloscNoise { .. });
    if shuffle.is_some() && !is_noise && !matches!(codec, Compressor::Blosc { .. }) {
        return Err(Failure::Usage(format!("--shuffle belongs to the blosc codecs, but --codec is {codec}")));
    }
    if is_noise && (level.is_some() || shuffle.is_some()) {
        return Err(Failure::Usage(
            "blosc-noise has no --level or --shuffle: it is one way to write LZ4 at level 1 with bit shuffle".into(),
        ));
    }
    let within = |lowest: i32, highest: i32| {
        let level = level.unwrap_or(1);
        if (lowest..=highest).contains(&level) {
            return Ok(level);
        }
        Err(Failure::Usage(format!("--level {level} is not possible with --codec {codec}: {lowest} to {highest}")))
    };
    Ok(match codec {
        Compressor::Blosc { cname, block_bytes, .. } => {
            Compressor::Blosc { cname, level: within(0, 9)? as u8, shuffle: shuffle.unwrap_or_default(), block_bytes }
        }
        Compressor::Zstd { .. } => Compressor::Zstd { level: within(-131_072, 22)? },
        Compressor::Gzip { .. } => Compressor::Gzip { level: within(0, 9)? as u8 },
        Compressor::Zlib { .. } => Compressor::Zlib { level: within(0, 9)? as u8 },
        _ if level.is_some() => {
            return Err(Failure::Usage(format!("--level means nothing to --codec {codec}")));
        }
        other => other,
    })
}

impl PaceArgs {
    /// What the engine does when the ring is full.
    pub(crate) fn ring_full(&self) -> Result<RingFull, Failure> {
        match (self.policy, self.timeout) {
            (RingFull::Block { .. }, timeout) => Ok(RingFull::Block { timeout }),
            (policy, None) => Ok(policy),
            (policy, Some(_)) => {
                Err(Failure::Usage(format!("--timeout belongs to --policy block, but --policy is {policy}")))
            }
        }
    }
}
