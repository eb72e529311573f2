//! What a caller asks for. Nothing here is checked; [`Plan`](crate::plan::Plan) turns it into facts.
//!
//! Every type reads from and writes to JSON (or any other `serde` format), so that a program with a settings page
//! can pass the whole configuration through.

mod codec;
mod dim;
#[cfg(feature = "toml")]
mod document;
mod fill_value;
mod label;
mod ome;
mod part;
mod pixels;
mod plate;
mod pyramid;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::named::{by_name, named};
use crate::pixels::Orientation;
pub use codec::{BloscCname, Codec, Compressor, Shuffle};
pub use dim::{Dim, DimKind};
pub use fill_value::FillValue;
pub use label::{ImageLabel, LabelColor, LabelProperties};
pub use ome::OmeVersion;
pub use part::{Part, PartBy};
pub use pixels::PixelFormat;
pub use plate::{Plate, PlateAcquisition};
pub use pyramid::{Depth, Downsampling};

/// The configuration of one acquisition: what arrives, how it is stored, and with which resources.
///
/// ```
/// use shardwright::{Config, Dim, Dtype};
///
/// let config = Config {
///     dtype: Dtype::U16,
///     dims: vec![
///         Dim::time(None).chunk(16).shard(64),
///         Dim::y(2048).chunk(256).shard(2048).scale(0.325, "micrometer"),
///         Dim::x(2048).chunk(256).shard(2048).scale(0.325, "micrometer"),
///     ],
///     ..Config::default()
/// };
/// # let _ = config;
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The type of a pixel.
    pub dtype: Dtype,
    /// The on-disk format.
    pub dialect: Dialect,
    /// The dimensions in storage order, slowest first. The last two are the rows and columns of a frame.
    pub dims: Vec<Dim>,
    /// The order in which the outer dimensions arrive, slowest first, by name. Empty: as they are stored.
    ///
    /// A stage that visits all `z` for each `c` at each `t` acquires `["t", "c", "z"]`, whatever is stored.
    pub acquisition_order: Vec<String>,
    /// How chunks are encoded.
    pub codec: Codec,
    /// Where a chunk's bytes go in its shard.
    pub placement: Placement,
    /// Where a shard's index stands. Only [`Dialect::Zarr3`] leaves the choice.
    pub index_location: IndexLocation,
    /// Whether a shard's index ends with its CRC-32C, so that readers notice when it is damaged. Only
    /// [`Dialect::Zarr3`] has one; the others pass over this.
    pub index_checksum: bool,
    /// What only [`Dialect::Precomputed`] has.
    pub volume: Volume,
    /// How bytes reach the file.
    pub storage: StorageKind,
    /// The value of pixels that were never acquired: `7.into()`, `u64::MAX.into()`, `f64::NAN.into()`. A number that
    /// `dtype` doesn't hold is refused, also an integer that a type of floating-point numbers doesn't hold exactly.
    pub fill_value: FillValue,
    /// Leave out chunks that hold only the fill value. Readers see the fill value there.
    pub skip_empty_chunks: bool,
    /// Bytes for the frame buffers of the ring, which are there when the acquisition is created: 1 GiB takes 0.3 to 3
    /// s, as fast as the system finds the memory. Each counts as whole pages of 4096 bytes. No more is taken than the
    /// array's frames need, or 4,194,304 of them; more than the memory of the machine is refused.
    pub ring_bytes: usize,
    /// How frames lie in ring buffers that the camera fills in place. `None`: rows follow each other without a gap.
    pub frame_layout: Option<FrameLayout>,
    /// How the camera's pixels lie in frame buffers, and in what [`append`](crate::Acquisition::append) is given. They
    /// are unpacked by the workers. Without a [`frame_layout`](Self::frame_layout), packed pixels follow each other
    /// throughout a frame; with one, each row begins with a byte of its own. They and `BigEndian` become
    /// [`Dtype::U16`].
    ///
    /// With `Rgb` and `Rgba`, a buffer holds a picture: a frame of each channel, which is the outer dimension that
    /// changes fastest and has 3 or 4 elements. The workers take each sample from where it lies. What is committed is
    /// the number of the picture's first frame, a multiple of 3 or 4; all of them get its record. Frames are counted
    /// everywhere, but the ring's buffers by [`Stats::ring_frames`](crate::Stats::ring_frames) and its like.
    pub pixel_format: PixelFormat,
    /// How many of the lowest bits of 16-bit pixels the camera leaves unused: 4 of 12 bits that it aligns to the left.
    /// Pixels are shifted down by that many. Only of [`Dtype::U16`], `Plain` or `BigEndian`.
    pub unused_low_bits: u32,
    /// How frames are turned and flipped on their way into the array. The dimensions are those of the array.
    pub orientation: Orientation,
    /// What `acquire` and `append` do when no frame buffer is free.
    pub ring_full: RingFull,
    /// How many frame numbers a frame may leave out behind the newest. What is farther is refused, because a garbled
    /// number would make all true ones come too late. `0`: automatic, 16,384, or four times the
    /// [`reorder_window`](crate::Acquisition::reorder_window) if that is more. At most 16,777,216, or the automatic
    /// value where that is more.
    pub leap_max: u64,
    /// Worker threads that encode. `0`: one for each core that the process may use.
    pub workers: usize,
    /// Cores to pin the workers to, in turn. Empty: not pinned.
    pub affinity: Vec<usize>,
    /// Wait until shards and documents have reached the device before they are called done.
    pub sync: bool,
    /// How often open shards, documents and per-frame records on disk catch up with the run: what is in its slot then
    /// becomes durable, and readers see it. So do frames of a chunk that got none since the last time and waits for
    /// more. Zero: only when a shard is full, and at the end. So it is also with an index at the start that has a
    /// checksum and more than 31 chunks, because it can't be replaced safely. Beyond a second, also when a shard is
    /// full. Open shards whose indexes are longer than 10 MiB together get new ones less often: see
    /// [`durability`](crate::guide::durability).
    pub checkpoint_every: Duration,
    /// Per-frame record fields beyond the frame number and the two timestamps.
    pub record_fields: Vec<RecordField>,
    /// Take frames that are smaller than the image as well, with [`append_roi`](crate::Acquisition::append_roi), and
    /// record where in the image each frame's pixels are: in the fields `roi_y`, `roi_x`, `roi_height` and `roi_width`.
    /// Not of packed pixels.
    pub record_roi: bool,
    /// The channels' names and display settings, for viewers. Empty, or as many as the channel dimension is long.
    pub channels: Vec<Channel>,
    /// The image's name, for viewers.
    pub name: Option<String>,
    /// Where the image stands in the hierarchy at the path that it is created at, as `raw/camera-1`: a group of Zarr v3
    /// with others in it, which may be another writer's, or is made. Its documents stay as they are, and groups that
    /// are not there yet are made. An array in the way, Zarr v2, and consolidated metadata, by which readers would not
    /// see the image, are refused. `None`: the path is the image's own. Of [`Dialect::Zarr3`] alone.
    pub key: Option<String>,
    /// Write the array alone, at the path or at the [`key`](Self::key): without the group of an image, without records
    /// and OME-Zarr's metadata, and with no attributes but those that
    /// [`set_attribute`](crate::Acquisition::set_attribute) gives it. So nothing says which frames are missing, and
    /// after a kill the array is as the last checkpoint left it: [`recover`](crate::guide::command_line) does not know
    /// it. Of [`Dialect::Zarr3`] alone, and of one image in a folder or a storage of the caller's own.
    pub bare: bool,
    /// The version of OME-Zarr's metadata, 0.5 or 0.6; all images of a dataset have the same. Other than 0.5 only of
    /// [`Dialect::Zarr3`].
    pub ome: OmeVersion,
    /// Replace a dataset that is in the way. Within a hierarchy of Zarr nodes, be it by [`key`](Self::key) or by a path
    /// in one, that is an image of this writer, or a group without anything in it: never an array, another writer's
    /// node, or a group that holds images.
    pub overwrite: bool,
    /// Where shards are mapped, let a lost page of a map (another program cut the file off, the device went away) be an
    /// error of the run, as it is with the other storages, instead of a SIGBUS that kills the process.
    ///
    /// For that, the process gets a handler for SIGBUS, once, which stays. Every SIGBUS that is not about such a map
    /// goes on to the handler that was installed before. A handler that is installed after it has to do the same, or
    /// maps are not guarded any more. Linux only.
    pub guard_maps: bool,
    /// Smaller levels of the image, written while frames come. `None`: none. Of [`Dialect::Zarr3`] alone, and where
    /// OME-Zarr has words for the dimensions. Each level has a ring and shards of its own, with as much memory as it
    /// has pixels beside level 0: a third more in all, where rows and columns are halved. A frame goes to a level when
    /// the level below has stored it; one thread makes those of all levels.
    pub pyramid: Option<Downsampling>,
    /// What finishing writes about where the chunks lie, for readers that go by references, into a folder beside the
    /// dataset: `run.ome.manifest.zarr` for `run.ome.zarr`. Empty: nothing. The bytes are those that
    /// `offline::WriteManifest` would write afterwards. Of one image in a folder, and not of
    /// [`Dialect::Precomputed`].
    pub manifest: Vec<ManifestForm>,
    /// Of an image of a [`Plate`] with several acquisitions, the id of the one that it is part of.
    pub plate_acquisition: Option<u64>,
    /// Of a [label image](crate::Dataset::acquisition), what its integers stand for.
    pub label: Option<ImageLabel>,
    /// Which part of a run this acquisition writes, which [`create_parts`](crate::create_parts) has made at the path.
    /// All else is that of the whole run, and the same in all parts, but for what each host has to decide for itself.
    /// `None`: all of it.
    pub part: Option<Part>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            dtype: Dtype::U16,
            dialect: Dialect::Zarr3,
            dims: Vec::new(),
            acquisition_order: Vec::new(),
            codec: Codec::default(),
            placement: Placement::Auto,
            index_location: IndexLocation::End,
            index_checksum: true,
            volume: Volume::default(),
            storage: StorageKind::Auto,
            fill_value: FillValue::default(),
            skip_empty_chunks: true,
            ring_bytes: 1 << 30,
            frame_layout: None,
            pixel_format: PixelFormat::Plain,
            unused_low_bits: 0,
            orientation: Orientation::default(),
            ring_full: RingFull::Block { timeout: None },
            leap_max: 0,
            workers: 0,
            affinity: Vec::new(),
            sync: true,
            checkpoint_every: Duration::from_secs(1),
            record_fields: Vec::new(),
            record_roi: false,
            channels: Vec::new(),
            name: None,
            key: None,
            bare: false,
            ome: OmeVersion::default(),
            overwrite: false,
            guard_maps: false,
            pyramid: None,
            manifest: Vec::new(),
            plate_acquisition: None,
            label: None,
            part: None,
        }
    }
}

/// More threads than this no machine has cores for, and they would only take its memory.
pub(crate) const WORKERS_MAX: usize = 1024;

pub(crate) fn check_workers(workers: usize) -> Result<()> {
    if workers <= WORKERS_MAX {
        return Ok(());
    }
    Err(Error::config("workers", workers, format!("at most {WORKERS_MAX} worker threads are possible")))
}

impl Config {
    /// The placement that the run will have: what [`Placement::Auto`] stands for, or what was chosen.
    pub fn placement_in_use(&self) -> Placement {
        match self.placement {
            Placement::Auto if self.codec.compressor == Compressor::None => Placement::Fixed,
            Placement::Auto if self.storage == StorageKind::Mapped => Placement::Fixed,
            Placement::Auto => Placement::Packed,
            chosen => chosen,
        }
    }
}

/// One of the forms in which it is written down where chunks lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ManifestForm {
    /// Zarr v3 documents with the storage transformer `chunk-manifest-json`, each with a `manifest.json` beside it.
    Manifest,
    /// The same documents with the manifests inside. Beside [`Manifest`](Self::Manifest), only where there are few
    /// chunks.
    Inlined,
    /// `kerchunk.json`: a reference file system, version 1.
    Kerchunk,
}

named!(ManifestForm, "manifest", {
    Manifest => "manifest",
    Inlined => "inlined",
    Kerchunk => "kerchunk",
});

/// The on-disk format of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Dialect {
    /// Zarr v3 with the codec `sharding_indexed` 1.0. What to choose if nothing speaks against it.
    #[default]
    Zarr3,
    /// The Zarr v3 draft of 2022 with the sharding storage transformer 1.0, which zarr-python 2.14 to 2.18 read as an
    /// experiment. Codecs: none, gzip, zstd and Blosc, all without a checksum.
    Zarr3Transformer,
    /// Zarr v2 with the key `shards`, as the prototype in zarr-python's pull request 876 has it. Never released: other
    /// readers of Zarr v2 pass over the key, and misread. Codecs as for `Zarr3Transformer`.
    Zarr2Sharded,
    /// Neuroglancer's precomputed volume with `neuroglancer_uint64_sharded_v1`. The dimensions are one before rows and
    /// columns, which becomes z, and perhaps channels, which each chunk holds all of. Codecs: none and gzip, without a
    /// checksum.
    Precomputed,
    /// Plain Zarr v2 with the metadata of OME-Zarr 0.4, each chunk a file: for older readers. Only
    /// `offline::Repack` writes it, not an acquisition. Codecs as for `Zarr3Transformer`.
    Zarr2,
}

named!(Dialect, "dialect", {
    Zarr3 => "zarr3",
    Zarr3Transformer => "zarr3-transformer",
    Zarr2Sharded => "zarr2-sharded",
    Precomputed => "precomputed",
    Zarr2 => "zarr2",
});

/// What only [`Dialect::Precomputed`] has. Every default fits any run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Volume {
    /// The name of the scale, which is that of the folder with the shards. `None`: the resolution, as `325_325_1000`.
    pub key: Option<String>,
    /// What is done to a chunk's id before its bits choose the shard. With `Identity`, shards are boxes that fill up
    /// one after another. With a real hash the chunks of all shards arrive mixed: all shards stay open until the end,
    /// and the number of frames must be known.
    pub hash: VolumeHash,
    /// Lowest bits of a chunk's id that are ignored when its minishard is chosen. `None`: chosen.
    pub preshift_bits: Option<u8>,
    /// Minishards per shard, as a power of two. `None`: chosen.
    pub minishard_bits: Option<u8>,
    /// Shards, as a power of two. `None`: as many as the volume needs.
    pub shard_bits: Option<u8>,
    /// Compress the indexes of minishards with gzip.
    pub gzip_indexes: bool,
    /// Where the volume's first voxel stands in the space that viewers show, in voxels: x, y, z.
    pub voxel_offset: [i64; 3],
    /// The distance between neighbours in nanometers: x, y, z. `None`: from the dimensions' scales and units.
    pub resolution: Option<[f64; 3]>,
}

/// What is done to a chunk's id before its bits choose the shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum VolumeHash {
    /// Nothing.
    #[default]
    Identity,
    /// MurmurHash3_x86_128.
    Murmurhash3X86_128,
}

named!(VolumeHash, "volume.hash", {
    Identity => "identity",
    Murmurhash3X86_128 => "murmurhash3_x86_128",
});

/// Where a chunk's bytes go in its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Placement {
    /// [`Fixed`](Self::Fixed) where chunks are not compressed or made in a map ([`StorageKind::Mapped`]), else
    /// [`Packed`](Self::Packed): what is as long as its slot leaves no gaps, and gaps cost a file system time.
    #[default]
    Auto,
    /// Each chunk has a slot of its own, large enough for the worst case: no worker ever waits for another. Unused
    /// space is given back to the file system when the shard closes.
    Fixed,
    /// Chunks follow each other without gaps: one atomic addition a chunk.
    Packed,
}

named!(Placement, "placement", {
    Auto => "auto",
    Fixed => "fixed",
    Packed => "packed",
});

/// Where a shard's index stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum IndexLocation {
    /// After the chunks.
    #[default]
    End,
    /// Before the chunks.
    Start,
}

named!(IndexLocation, "index_location", {
    End => "end",
    Start => "start",
});

/// How bytes reach the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum StorageKind {
    /// `Buffered` or `Direct`: what a short trial finds faster in the dataset's folder, at about equal speed `Direct`.
    /// Short runs, and those into memory file systems, are `Buffered` without a trial. The summary says which and why.
    #[default]
    Auto,
    /// Workers encode straight into a memory map of the preallocated shard. A device that goes away then kills the
    /// process, unless [`Config::guard_maps`] is set.
    Mapped,
    /// Positioned writes through the page cache. Workers take turns at it, because writes to one file wait for each
    /// other. On a tmpfs, a second worker may copy through a map meanwhile; should another program cut the file off in
    /// just that moment, it is killed, unless [`Config::guard_maps`] is set.
    Buffered,
    /// Positioned writes past the page cache (`O_DIRECT`), several at once, on threads that are no workers. What the
    /// file system refuses to take that way is written through the page cache.
    Direct,
}

named!(StorageKind, "storage", {
    Auto => "auto",
    Mapped => "mapped",
    Buffered => "buffered",
    Direct => "direct",
});

/// How a frame lies in a ring buffer that the camera fills in place, when the camera delivers more than the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameLayout {
    /// Bytes of one buffer, all that the camera writes.
    pub buffer_bytes: usize,
    /// Where the first row's first pixel stands, in bytes.
    pub offset: usize,
    /// Bytes from one row's start to the next.
    pub row_stride: usize,
}

/// What `acquire` and `append` do when no frame buffer is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum RingFull {
    /// Wait for one, at most so long. `None`: for ever. Past the timeout, the call returns
    /// [`Error::RingFull`](crate::Error::RingFull) and may be repeated.
    Block {
        /// How long to wait.
        timeout: Option<Duration>,
    },
    /// Let the newest frame go: `append` counts its number as missing and returns; `acquire` returns
    /// [`Error::RingFull`](crate::Error::RingFull), and the number that is never committed is recorded as missing.
    DropNewest,
    /// Return [`Error::RingFull`](crate::Error::RingFull) at once. The frame is still the caller's, who may try again.
    Error,
}

impl RingFull {
    /// All of them; [`Block`](Self::Block) for ever.
    pub const ALL: &'static [Self] = &[Self::Block { timeout: None }, Self::DropNewest, Self::Error];

    /// The name on the command line, whatever the timeout.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block { .. } => "block",
            Self::DropNewest => "drop-newest",
            Self::Error => "error",
        }
    }
}

by_name!(RingFull, "ring_full");

/// A per-frame record field of the caller's own, stored as an array beside the image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordField {
    /// The array's name: letters, digits, `_` and `-`, not starting with `__`.
    pub name: String,
    /// Its element type.
    pub dtype: Dtype,
}

/// One channel, as OME-Zarr's `omero` block describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// The name that viewers show.
    pub label: String,
    /// Red, green and blue as six hexadecimal digits. Empty: white for the only channel, and for each of several a
    /// colour that mixes well with the others'.
    #[serde(default)]
    pub color: String,
    /// The pixel values that viewers show as black and as full colour. `None`: a window that holds all but the darkest
    /// and the brightest thousandth of the pixels of the channel's first 8 frames, of which those of one value say
    /// nothing, or, in a red, green and blue image of `u8`, the whole range of the type.
    #[serde(default)]
    pub window: Option<(f64, f64)>,
}

impl Channel {
    /// The colour that viewers are told of the channel with this number, which is [`color`](Self::color) or what stands
    /// for it.
    ///
    /// # Panics
    /// If there is no such channel.
    pub fn shown_color(channels: &[Self], number: usize) -> &str {
        const COLORS: [&str; 6] = ["00FF00", "FF00FF", "00FFFF", "FFFF00", "FF0000", "0000FF"];
        match &channels[number].color[..] {
            "" if channels.len() == 1 => "FFFFFF",
            "" => COLORS[number % COLORS.len()],
            said => said,
        }
    }
}
