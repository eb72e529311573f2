//! The configuration as a struct or as a document.
#![allow(unsafe_code)]

pub mod convert;
mod defaults;
pub mod part;
pub mod pixels;

use std::ffi::{c_char, c_void};

use self::part::sw_part_by;
use self::pixels::{sw_orientation, sw_pixel_format};
use super::pointer::{grows, put_text, read, sized_out};
use super::status::{Outcome, SW_ERROR_CONFIG, boundary, refuse, sw_status, told};

/// The version of the interface that a header describes; sw_config_init keeps it in the struct. It grows with every
/// struct that gets a field and every call that is added.
pub const SW_INTERFACE: u32 = 1;

/// The type of a pixel, or of a record field. Text has no place among records: sw_set_attribute takes it, for all
/// frames.
pub type sw_dtype = u32;
/// 8 bits, unsigned.
pub const SW_U8: sw_dtype = 0;
/// 8 bits, signed.
pub const SW_I8: sw_dtype = 1;
/// 16 bits, unsigned.
pub const SW_U16: sw_dtype = 2;
/// 16 bits, signed.
pub const SW_I16: sw_dtype = 3;
/// 32 bits, unsigned.
pub const SW_U32: sw_dtype = 4;
/// 32 bits, signed.
pub const SW_I32: sw_dtype = 5;
/// 64 bits, unsigned.
pub const SW_U64: sw_dtype = 6;
/// 64 bits, signed.
pub const SW_I64: sw_dtype = 7;
/// IEEE 754, 32 bits.
pub const SW_F32: sw_dtype = 8;
/// IEEE 754, 64 bits.
pub const SW_F64: sw_dtype = 9;

/// What a dimension means; OME-Zarr's axis type.
pub type sw_dim_kind = u32;
/// Anything else: stage position, angle, well.
pub const SW_DIM_OTHER: sw_dim_kind = 0;
/// Time.
pub const SW_DIM_TIME: sw_dim_kind = 1;
/// Channel, wavelength, polarisation.
pub const SW_DIM_CHANNEL: sw_dim_kind = 2;
/// A direction in space.
pub const SW_DIM_SPACE: sw_dim_kind = 3;

/// What makes a chunk smaller.
pub type sw_compressor = u32;
/// Nothing: raw pixels.
pub const SW_COMPRESSOR_NONE: sw_compressor = 0;
/// Blosc 1 frames, with `blosc_cname`, `level` 0 to 9, `shuffle` and `block_bytes`. Read by every Zarr library.
pub const SW_COMPRESSOR_BLOSC: sw_compressor = 1;
/// Blosc 1 frames by a writer made for camera noise, with `block_bytes`; SW_COMPRESSOR_BLOSC with LZ4, level 1 and bit
/// shuffle, which is the default, does the same.
pub const SW_COMPRESSOR_BLOSC_NOISE: sw_compressor = 2;
/// A Zstandard frame, with `level` from -131072 (fastest) to 22 (smallest).
pub const SW_COMPRESSOR_ZSTD: sw_compressor = 3;
/// A gzip stream, with `level` 0 to 9.
pub const SW_COMPRESSOR_GZIP: sw_compressor = 4;
/// `numcodecs.lz4`; only zarr-python reads it.
pub const SW_COMPRESSOR_LZ4: sw_compressor = 5;
/// `numcodecs.zlib`, with `level` 0 to 9; in Zarr v3 only zarr-python reads it.
pub const SW_COMPRESSOR_ZLIB: sw_compressor = 6;
/// What lets the most frames through: becomes SW_COMPRESSOR_BLOSC at level 1 with bit shuffle and LZ4 or Zstandard (in
/// a precomputed volume NONE or GZIP) when the run is created, by short trials of the cores and the storage. During the
/// run, chunks are made with less effort, or stored, when the ring fills because of encoding. The notes of the end say
/// what was chosen and changed.
pub const SW_COMPRESSOR_AUTO: sw_compressor = 7;

/// The compressor inside of a Blosc frame.
pub type sw_blosc = u32;
/// LZ4.
pub const SW_BLOSC_LZ4: sw_blosc = 0;
/// LZ4 HC.
pub const SW_BLOSC_LZ4HC: sw_blosc = 1;
/// Zstandard.
pub const SW_BLOSC_ZSTD: sw_blosc = 2;
/// Zlib.
pub const SW_BLOSC_ZLIB: sw_blosc = 3;
/// BloscLZ. The one compressor that takes memory for each chunk.
pub const SW_BLOSC_BLOSCLZ: sw_blosc = 4;

/// What reorders a block before it is compressed.
pub type sw_shuffle = u32;
/// Nothing.
pub const SW_SHUFFLE_NONE: sw_shuffle = 0;
/// All first bytes, then all second bytes, and so on.
pub const SW_SHUFFLE_BYTE: sw_shuffle = 1;
/// All lowest bits, then all second bits, and so on. What camera frames want.
pub const SW_SHUFFLE_BIT: sw_shuffle = 2;

/// Where a chunk's bytes go in its shard.
pub type sw_placement = u32;
/// Fixed where chunks are not compressed or made in a map, else packed.
pub const SW_PLACEMENT_AUTO: sw_placement = 0;
/// Each chunk has a slot of its own, large enough for the worst case; what is unused is given back when the shard
/// closes.
pub const SW_PLACEMENT_FIXED: sw_placement = 1;
/// Chunks follow each other without gaps.
pub const SW_PLACEMENT_PACKED: sw_placement = 2;

/// Where a shard's index stands.
pub type sw_index_location = u32;
/// After the chunks.
pub const SW_INDEX_END: sw_index_location = 0;
/// Before the chunks.
pub const SW_INDEX_START: sw_index_location = 1;

/// The on-disk format of a dataset.
pub type sw_dialect = u32;
/// Zarr v3 with the codec sharding_indexed 1.0. What to choose if nothing speaks against it.
pub const SW_DIALECT_ZARR3: sw_dialect = 0;
/// The Zarr v3 draft of 2022 with the sharding storage transformer 1.0. No checksums.
pub const SW_DIALECT_ZARR3_TRANSFORMER: sw_dialect = 1;
/// Zarr v2 with the key `shards` of the prototype in zarr-python's pull request 876. No checksums.
pub const SW_DIALECT_ZARR2_SHARDED: sw_dialect = 2;
/// Neuroglancer's precomputed volume in shards: x, y, one more dimension, and perhaps channels. Not compressed, or with
/// SW_COMPRESSOR_GZIP. No checksums.
pub const SW_DIALECT_PRECOMPUTED: sw_dialect = 3;

/// What is done to a chunk's id before its bits choose the shard of a precomputed volume.
pub type sw_hash = u32;
/// Nothing: shards are boxes that fill up one after another.
pub const SW_HASH_IDENTITY: sw_hash = 0;
/// MurmurHash3_x86_128: all shards stay open until the end, and the number of frames must be known.
pub const SW_HASH_MURMURHASH3_X86_128: sw_hash = 1;

/// How bytes reach the file. Of no meaning with a storage of the caller's own.
pub type sw_storage_kind = u32;
/// Buffered or direct: what a short trial finds faster in the dataset's folder; short runs, and those into a tmpfs, are
/// buffered.
pub const SW_STORAGE_AUTO: sw_storage_kind = 0;
/// Straight into a memory map of the preallocated shard. A device that goes away then kills the process, unless
/// `guard_maps` is 1.
pub const SW_STORAGE_MAPPED: sw_storage_kind = 1;
/// Positioned writes through the page cache; on a tmpfs also copies through a map, with the same danger, unless
/// `guard_maps` is 1.
pub const SW_STORAGE_BUFFERED: sw_storage_kind = 2;
/// Positioned writes past the page cache (O_DIRECT).
pub const SW_STORAGE_DIRECT: sw_storage_kind = 3;

/// What sw_append does when no frame buffer became free within its time limit; and, with SW_AS_CONFIGURED, what the
/// limit is.
pub type sw_ring_full = u32;
/// It returns SW_RING_FULL. The configured limit is `ring_full_timeout_ms`.
pub const SW_RING_FULL_BLOCK: sw_ring_full = 0;
/// It lets the newest frame go and counts its number as missing. The configured limit is 0. Each sw_acquire that
/// returns SW_RING_FULL counts as a frame that was let go, too, whatever its limit: a program that asks again for the
/// same frame takes SW_RING_FULL_ERROR.
pub const SW_RING_FULL_DROP_NEWEST: sw_ring_full = 1;
/// It returns SW_RING_FULL. The configured limit is 0.
pub const SW_RING_FULL_ERROR: sw_ring_full = 2;

/// In which forms sw_finish writes down where the chunks lie, for readers that go by references: the sum of the chosen
/// ones.
pub type sw_manifest = u32;
/// Zarr v3 documents with the storage transformer chunk-manifest-json, each with a manifest.json beside it.
pub const SW_MANIFEST_FILES: sw_manifest = 1;
/// The same documents with the manifests inside. Beside SW_MANIFEST_FILES, only where there are few chunks.
pub const SW_MANIFEST_INLINED: sw_manifest = 2;
/// kerchunk.json: a reference file system, version 1.
pub const SW_MANIFEST_KERCHUNK: sw_manifest = 4;

/// How four pixels, or eight of two planes, become one in the levels of a pyramid.
pub type sw_pyramid = u32;
/// There are no levels.
pub const SW_PYRAMID_NONE: sw_pyramid = 0;
/// The mean, of integers rounded to the nearest, halves up.
pub const SW_PYRAMID_MEAN: sw_pyramid = 1;
/// The mean of the middle two, rounded in the same way.
pub const SW_PYRAMID_MEDIAN: sw_pyramid = 2;
/// The smallest.
pub const SW_PYRAMID_MIN: sw_pyramid = 3;
/// The largest.
pub const SW_PYRAMID_MAX: sw_pyramid = 4;
/// The first.
pub const SW_PYRAMID_DECIMATE: sw_pyramid = 5;
/// The most frequent, of several the smallest: for labels.
pub const SW_PYRAMID_MODE: sw_pyramid = 6;

/// Dimensions that are as long in all levels, as a sum.
pub type sw_keep = u32;
/// The rows are not halved: the last dimension but one, y.
pub const SW_KEEP_Y: sw_keep = 1;
/// The columns are not halved: the last dimension, x.
pub const SW_KEEP_X: sw_keep = 2;

/// A version of OME-Zarr's metadata.
pub type sw_ome = u32;
/// 0.5: axes, and a scale and a translation for each level.
pub const SW_OME_0_5: sw_ome = 0;
/// 0.6: the same as transformations between named coordinate systems; images that say where they are on the stage are
/// put beside each other by a scene of their dataset, or of their well.
pub const SW_OME_0_6: sw_ome = 1;

/// When planes are halved along z, too: the last dimension before y and x, if it is one of space.
pub type sw_depth = u32;
/// Never.
pub const SW_DEPTH_NEVER: sw_depth = 0;
/// At every level as long as there are several planes; where z has no end while frames come, at every level, however
/// few planes come.
pub const SW_DEPTH_ALWAYS: sw_depth = 1;
/// From the level on at which planes are no further apart than pixels are.
pub const SW_DEPTH_AUTO: sw_depth = 2;

/// What only SW_DIALECT_PRECOMPUTED has. In the numbers of bits, 0 means zero bits, and -1 leaves the choice to the
/// library.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sw_volume {
    /// The scale's name, which is that of the folder with the shards. UTF-8. Null: the resolution, as 325_325_1000.
    pub key: *const c_char,
    /// What is done to ids.
    pub hash: sw_hash,
    /// Lowest bits of a chunk's id that are ignored when its minishard is chosen. Negative: chosen.
    pub preshift_bits: i32,
    /// Minishards per shard, as a power of two. Negative: chosen.
    pub minishard_bits: i32,
    /// Shards, as a power of two. Negative: as many as the volume needs.
    pub shard_bits: i32,
    /// 1: compress the indexes of minishards with gzip.
    pub gzip_indexes: u32,
    /// 0.
    pub reserved: u32,
    /// Where the first voxel stands, in voxels: x, y, z.
    pub voxel_offset: [i64; 3],
    /// Nanometers from voxel to voxel: x, y, z. All 0: from the dimensions' scales and units.
    pub resolution: [f64; 3],
}

/// One dimension of the array. Fields that are 0 have a default, but for `name`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sw_dim {
    /// The name, unique in the array: "t", "c", "z", "y", "x". UTF-8 without control characters.
    pub name: *const c_char,
    /// What it means. 0: SW_DIM_OTHER.
    pub kind: sw_dim_kind,
    /// 0.
    pub reserved: u32,
    /// Elements. 0 (the first dimension only): it is unbounded, and has as many as arrive. A first dimension of a given
    /// size ends with its last frame, too, and the summary has a note of that; the attributes keep what was planned.
    pub size: u64,
    /// Chunk length in elements. 0: such that a chunk is about 512 KiB.
    pub chunk: u64,
    /// Shard length in elements, a multiple of `chunk`. 0: the whole frame in rows and columns; such that a shard is
    /// about 512 MiB.
    pub shard: u64,
    /// The distance between neighbours, in `unit`. 0: 1.
    pub scale: f64,
    /// A unit as UDUNITS-2 spells it: "micrometer", "second". Null or empty: none. Of space and time, a note in the
    /// summary tells of units that OME-Zarr does not list.
    pub unit: *const c_char,
    /// Where the centre of the first element is, in `unit`: for y and x the position of the stage.
    pub translation: f64,
    /// 0.
    pub reserved_too: u64,
}

/// One channel, as viewers show it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sw_channel {
    /// The name that viewers show. UTF-8.
    pub label: *const c_char,
    /// Red, green and blue as six hexadecimal digits. Null: white for the only channel, and for each of several a
    /// colour that mixes well with the others'.
    pub color: *const c_char,
    /// The pixel value that viewers show as black.
    pub window_low: f64,
    /// The pixel value that viewers show as full colour. Equal to `window_low`: a window that holds nearly all pixels
    /// of the channel's first 8 frames, or, in a red, green and blue image of bytes, the whole range of the type.
    pub window_high: f64,
    /// 0.
    pub reserved: [u64; 2],
}

/// A per-frame record field of the caller's own, stored as an array beside the image.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sw_record_field {
    /// The array's name: letters, digits, _ and -.
    pub name: *const c_char,
    /// Its element type.
    pub dtype: sw_dtype,
    /// 0.
    pub reserved: u32,
}

/// What arrives, how it is stored, and with which resources.
///
/// sw_config_init sets every field to its default; only `dims` has none. The library copies everything that it keeps:
/// all pointers need to be good only during the call. Flags are 0 or 1.
///
/// What calls return for a wrong configuration: SW_ERROR_NULL, SW_ERROR_MISALIGNED, SW_ERROR_SIZE and SW_ERROR_VERSION
/// for the struct and its pointers; SW_ERROR_ARGUMENT for a number that is none of a field's values, and for text that
/// is not UTF-8; SW_ERROR_CONFIG for values that can't work, alone or together. The text names the field and says what
/// is possible.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sw_config {
    /// sizeof(sw_config), as sw_config_init set it: a library that knows more or fewer fields goes by it.
    pub size: usize,
    /// SW_INTERFACE, as sw_config_init set it.
    pub version: u32,
    /// The type of a pixel. Default SW_U16.
    pub dtype: sw_dtype,
    /// A document with the whole configuration, in place of all fields below, which must be as sw_config_init left
    /// them: JSON, or TOML where the library was built with it, with the fields of Rust's `Config`. sw_config_json
    /// writes one. Default null.
    pub document: *const c_char,
    /// The dimensions in storage order, slowest first. The last two are the rows and columns of a frame.
    pub dims: *const sw_dim,
    /// How many, 2 to 16.
    pub dim_count: usize,
    /// The names of the outer dimensions in the order in which they arrive, slowest first. Default null: as they are
    /// stored.
    pub acquisition_order: *const *const c_char,
    /// How many names. Default 0.
    pub acquisition_order_count: usize,
    /// The compressor. Default SW_COMPRESSOR_BLOSC.
    pub compressor: sw_compressor,
    /// Its level, where it has one. Default 1.
    pub level: i32,
    /// The compressor inside of Blosc frames. Default SW_BLOSC_LZ4.
    pub blosc_cname: sw_blosc,
    /// What Blosc does before it compresses. Default SW_SHUFFLE_BIT.
    pub shuffle: sw_shuffle,
    /// Bytes a Blosc block. Default 0: one that suits the cache.
    pub block_bytes: usize,
    /// 1: append a CRC-32C to every chunk, so that readers notice flipped bits. Default 1.
    pub checksum: u32,
    /// Where a chunk's bytes go in its shard. Default SW_PLACEMENT_AUTO.
    pub placement: sw_placement,
    /// Where a shard's index stands. Default SW_INDEX_END.
    pub index_location: sw_index_location,
    /// How bytes reach the file. Default SW_STORAGE_AUTO.
    pub storage: sw_storage_kind,
    /// The value of pixels that were never acquired. A double is exact for every integer up to 2^53; for others, see
    /// `fill_pixel`. Default 0.
    pub fill_value: f64,
    /// 1: leave out chunks that hold only the fill value. Default 1.
    pub skip_empty_chunks: u32,
    /// What a full ring means to sw_append. Default SW_RING_FULL_BLOCK.
    pub ring_full: sw_ring_full,
    /// With SW_RING_FULL_BLOCK, how many milliseconds calls with SW_AS_CONFIGURED wait. Default SW_FOREVER.
    pub ring_full_timeout_ms: i64,
    /// Bytes for the frame buffers of the ring, of which each counts as whole pages of 4096 bytes. Default 1 GiB, which
    /// sw_create takes 0.3 to 3 s to make, as fast as the system finds the memory. No more is taken than the array's
    /// frames need, or 4194304 of them; more than the memory of the machine is refused. Images of a dataset whose
    /// frames have the same size share one ring, as large as the first of them says, as long as it has room for what
    /// each of them keeps: nothing where chunks are one frame deep, otherwise the frames of a layer and two more.
    /// Others get further rings; more than the memory of the machine for all rings together is refused, too.
    pub ring_bytes: usize,
    /// Bytes of one buffer, all that the camera writes into it. Default 0: exactly a frame, and the next two must be 0.
    pub buffer_bytes: usize,
    /// Where in a buffer the first row's first pixel stands, in bytes. 0 where `buffer_bytes` is not set.
    pub frame_offset: usize,
    /// Bytes from one row's start to the next in a buffer. Where `buffer_bytes` is set, this is, too.
    pub row_stride: usize,
    /// Worker threads that encode. Default 0: one for each core that the process may use.
    pub workers: usize,
    /// Cores to pin the workers to, in turn. Default null: not pinned.
    pub affinity: *const usize,
    /// How many cores. Default 0.
    pub affinity_count: usize,
    /// How often open shards, documents and records catch up with the run, in milliseconds: what is in its slot then
    /// becomes durable, and readers see it. They wait for shards that are being closed: many small shards on a slow
    /// device delay them, by seconds where it is far behind. 0: only when a shard is full, and at the end. Beyond
    /// 1000, also when a shard is full. Default 1000.
    pub checkpoint_every_ms: u64,
    /// Per-frame record fields beyond the frame number and the two timestamps. Default null.
    pub record_fields: *const sw_record_field,
    /// How many, at most 16. Default 0.
    pub record_field_count: usize,
    /// The channels' names and display settings. Default null.
    pub channels: *const sw_channel,
    /// How many: 0, or as many as the channel dimension is long; without such a dimension, at most 1. Default 0.
    pub channel_count: usize,
    /// The image's name, for viewers. UTF-8. Default null: none.
    pub name: *const c_char,
    /// 1: wait until shards and documents have reached the device before they are called done. Default 1.
    pub sync: u32,
    /// 1: replace a dataset that is in the way; in a hierarchy of Zarr nodes, be it by `key` or by a path in one, only
    /// an image of this writer or an empty group. Of no meaning within a dataset of several images, or in a storage of
    /// the caller's own. Default 0.
    pub overwrite: u32,
    /// The on-disk format. Default SW_DIALECT_ZARR3.
    pub dialect: sw_dialect,
    /// 1: a shard's index ends with its CRC-32C, where the dialect has one: SW_DIALECT_ZARR3. Default 1.
    pub index_checksum: u32,
    /// What only SW_DIALECT_PRECOMPUTED has. Default null: chosen.
    pub volume: *const sw_volume,
    /// 1: where shards are mapped, a lost page of a map (another program cut the file off, the device went away) is an
    /// error of the run instead of a SIGBUS that kills the process. For that, the process gets a handler for SIGBUS,
    /// once, which stays, and passes on to the handler before it what is not about such a map. Linux only. Default 0.
    pub guard_maps: u32,
    /// Manifests that finishing writes beside the dataset, into run.ome.manifest.zarr for run.ome.zarr:
    /// SW_MANIFEST_FILES and others, added up. Of one image in a folder, and not of SW_DIALECT_PRECOMPUTED. Default 0:
    /// none.
    pub manifest: sw_manifest,
    /// How many frame numbers a frame may leave out behind the newest; what is farther is refused, because a garbled
    /// number would make all true ones come too late. Default 0: 16384, or four times the reorder_window of sw_layout
    /// if that is more. At most 16777216, or the default where that is more.
    pub leap_max: u64,
    /// Frame buffers of the caller's own as the ring, in place of `ring_bytes`: huge pages, memory that a device has
    /// pinned or maps, shared memory. Also beside a `document`. Default null: the library makes the ring.
    ///
    /// Each starts on a page of 4096 bytes (below 2 KiB, on a multiple of 64), and is readable and writable from
    /// sw_create until `own_buffers_release` is called, or sw_free returns: freed before, they take the process or its
    /// data with them. Nobody but the library touches them meanwhile, except for filling those on loan. They are
    /// written past the page cache where the device can reach them, else through it. Memory that another run of the
    /// process has is refused.
    pub own_buffers: *const *mut c_void,
    /// How many; the ring is as long, or as the array has frames. Default 0.
    pub own_buffer_count: usize,
    /// Bytes of each, at least `buffer_bytes`, or a frame's. Default 0.
    pub own_buffer_bytes: usize,
    /// Called once, with `own_buffers_context`, by sw_free before it returns SW_OK; not if sw_create or sw_free fails.
    /// The buffers are the program's again then, also for sw_create. In it, calls with the handle that is being freed
    /// return SW_ERROR_HANDLE; sw_set_log, and sw_close, sw_finish, sw_finish_all, sw_abort and sw_free of all others
    /// return SW_ERROR_BUSY: make them when sw_free has returned, or on another thread. Default null: nothing.
    pub own_buffers_release: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// What that function gets. Default null.
    pub own_buffers_context: *mut c_void,
    /// How the camera's pixels lie in frame buffers, and in what sw_append is given. Without `buffer_bytes`, packed
    /// pixels follow each other throughout a frame; with it, each row begins with a byte of its own. They and
    /// SW_PIXELS_BIG_ENDIAN become SW_U16.
    ///
    /// With SW_PIXELS_RGB and SW_PIXELS_RGBA, a buffer holds a picture: a frame of each channel, which is the outer
    /// dimension that changes fastest and has 3 or 4 elements. sw_commit takes the number of the first of them, a
    /// multiple of 3 or 4, and all get its record; frames are counted everywhere, but buffers by `ring_frames` and in
    /// sw_buffers. Default SW_PIXELS_PLAIN.
    pub pixel_format: sw_pixel_format,
    /// How many of the lowest bits of 16-bit pixels the camera leaves unused: 4 of 12 bits that it aligns to the left.
    /// Pixels are shifted down by that many. Only of SW_U16, with SW_PIXELS_PLAIN or SW_PIXELS_BIG_ENDIAN. Default 0.
    pub unused_low_bits: u32,
    /// How frames are turned and flipped on their way into the array, whose rows and columns `dims` has: the sum of
    /// what is chosen, done in the order of the constants. Default 0: not at all.
    pub orientation: sw_orientation,
    /// The version of OME-Zarr's metadata; all images of a dataset have the same. Other than 0.5 only of
    /// SW_DIALECT_ZARR3. Default SW_OME_0_5.
    pub ome: sw_ome,
    /// Levels that are written while frames come, each half as large as the one before in the last two dimensions, y
    /// and x, with rings that take a third more memory in all. Refused where a dimension is called x, y or z and
    /// another has its place. Of SW_DIALECT_ZARR3 alone. Default SW_PYRAMID_NONE.
    pub pyramid: sw_pyramid,
    /// The number of levels beside the image, where that is possible. Default 0: until y and x have 256 pixels at most.
    /// This and the next two only with a `pyramid`.
    pub pyramid_levels: u32,
    /// What is not halved: SW_KEEP_Y or SW_KEEP_X. Default 0.
    pub pyramid_keep: sw_keep,
    /// Whether z is halved, too. Default SW_DEPTH_NEVER.
    pub pyramid_depth: sw_depth,
    /// Of a plate with several acquisitions, the id of the image's, plus 1. Default 0: the only one, or none.
    pub plate_acquisition: u64,
    /// Where the image stands in the hierarchy at sw_create's path: `raw/camera-1`. Default null: it is at the path.
    pub key: *const c_char,
    /// Of a label image, what its integers stand for, as JSON: {"colors": [{"value": 1, "rgba": [255, 0, 0, 128]}],
    /// "properties": [{"value": 1, "properties": {"class": "nucleus"}}]}, each of both optional. UTF-8. Default null:
    /// nothing is said. Such an image is named IMAGE/labels/NAME in sw_dataset_acquisition.
    pub label: *const c_char,
    /// In place of `fill_value`, one pixel of the type `dtype` with the value of pixels that were never acquired: exact
    /// also where no double is. Only read by the call that gets the struct. Default null: `fill_value` says it.
    pub fill_pixel: *const c_void,
    /// 1: frames that are smaller than the image are taken as well, by sw_append_roi, and the record of each frame says
    /// where in the image its pixels are: in the fields roi_y, roi_x, roi_height and roi_width. Not of packed pixels.
    /// Default 0.
    pub record_roi: u32,
    /// 1: the array is written alone, at the path or the `key`: without the group of an image, without records and
    /// OME-Zarr's metadata, and with no attributes but those of sw_set_attribute. Nothing says which frames are
    /// missing, and `shardwright recover` restores nothing. Of SW_DIALECT_ZARR3, by sw_create and sw_create_in. Default
    /// 0.
    pub bare: u32,
    /// Of a run that several processes write, made by `shardwright create`, how many parts it has. All else is that of
    /// the whole run. Default 0: one process writes all of it.
    pub parts: u32,
    /// Which of the `parts` this one writes, from 0 on. Default 0.
    pub part: u32,
    /// How the run's shards are divided among them. Default SW_PART_BY_TIME.
    pub part_by: sw_part_by,
}

grows!(sw_config);
