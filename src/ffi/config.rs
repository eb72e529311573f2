//! The configuration as a struct or as a document.
#![allow(unsafe_code)]

use std::ffi::c_char;
use std::time::Duration;

use super::pointer::{Grows, optional_text, put_text, read, sized_out, slice, text};
use super::status::{Outcome, SW_ERROR_ARGUMENT, SW_ERROR_CONFIG, boundary, refuse, sw_status, told};
use crate::config::{
    BloscCname, Channel, Codec, Compressor, Config, Dialect, Dim, DimKind, FrameLayout, IndexLocation, ManifestForm,
    Placement, RecordField, RingFull, Shuffle, StorageKind, Volume, VolumeHash,
};
use crate::dtype::Dtype;

/// The version of the interface that a header describes; sw_config_init keeps it in the struct. It grows with every struct that
/// gets a field and every call that is added.
pub const SW_INTERFACE: u32 = 1;

/// The type of a pixel, or of a record field.
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
/// Blosc 1 frames by a writer made for camera noise, with `block_bytes`; SW_COMPRESSOR_BLOSC with LZ4, level 1 and bit shuffle,
/// which is the default, does the same.
pub const SW_COMPRESSOR_BLOSC_NOISE: sw_compressor = 2;
/// A Zstandard frame, with `level` from -131072 (fastest) to 22 (smallest).
pub const SW_COMPRESSOR_ZSTD: sw_compressor = 3;
/// A gzip stream, with `level` 0 to 9.
pub const SW_COMPRESSOR_GZIP: sw_compressor = 4;
/// `numcodecs.lz4`; only zarr-python reads it.
pub const SW_COMPRESSOR_LZ4: sw_compressor = 5;
/// `numcodecs.zlib`, with `level` 0 to 9; in Zarr v3 only zarr-python reads it.
pub const SW_COMPRESSOR_ZLIB: sw_compressor = 6;

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
/// Each chunk has a slot of its own, large enough for the worst case; what is unused is given back when the shard closes.
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
/// Buffered or direct: what a short trial finds faster in the dataset's folder; short runs, and those into a tmpfs, are buffered.
pub const SW_STORAGE_AUTO: sw_storage_kind = 0;
/// Straight into a memory map of the preallocated shard. A device that goes away then kills the process, unless `guard_maps` is 1.
pub const SW_STORAGE_MAPPED: sw_storage_kind = 1;
/// Positioned writes through the page cache; on a tmpfs also copies through a map, with the same danger, unless `guard_maps` is 1.
pub const SW_STORAGE_BUFFERED: sw_storage_kind = 2;
/// Positioned writes past the page cache (O_DIRECT).
pub const SW_STORAGE_DIRECT: sw_storage_kind = 3;

/// What sw_append does when no frame buffer became free within its time limit; and, with SW_AS_CONFIGURED, what the limit is.
pub type sw_ring_full = u32;
/// It returns SW_RING_FULL. The configured limit is `ring_full_timeout_ms`.
pub const SW_RING_FULL_BLOCK: sw_ring_full = 0;
/// It lets the newest frame go and counts its number as missing. The configured limit is 0.
pub const SW_RING_FULL_DROP_NEWEST: sw_ring_full = 1;
/// It returns SW_RING_FULL. The configured limit is 0.
pub const SW_RING_FULL_ERROR: sw_ring_full = 2;

/// In which forms sw_finish writes down where the chunks lie, for readers that go by references: the sum of the wished ones.
pub type sw_manifest = u32;
/// Zarr v3 documents with the storage transformer chunk-manifest-json, each with a manifest.json beside it.
pub const SW_MANIFEST_FILES: sw_manifest = 1;
/// The same documents with the manifests inside. Beside SW_MANIFEST_FILES, only where there are few chunks.
pub const SW_MANIFEST_INLINED: sw_manifest = 2;
/// kerchunk.json: a reference file system, version 1.
pub const SW_MANIFEST_KERCHUNK: sw_manifest = 4;

/// What only SW_DIALECT_PRECOMPUTED has.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sw_volume {
    /// The name of the scale, which is that of the folder with the shards. UTF-8. Null: the resolution, as 325_325_1000.
    pub key: *const c_char,
    /// What is done to ids.
    pub hash: sw_hash,
    /// How many of an id's lowest bits neighbours in one minishard may differ in. Negative: chosen.
    pub preshift_bits: i32,
    /// Minishards a shard, as a power of two. Negative: chosen.
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
    /// The name, unique in the array: "t", "c", "z", "y", "x". UTF-8.
    pub name: *const c_char,
    /// What it means. 0: SW_DIM_OTHER.
    pub kind: sw_dim_kind,
    /// 0.
    pub reserved: u32,
    /// Elements. 0 (the first dimension only): as many as arrive.
    pub size: u64,
    /// Elements a chunk. 0: such that a chunk is about 512 KiB.
    pub chunk: u64,
    /// Elements a shard, a multiple of `chunk`. 0: the whole frame in rows and columns; such that a shard is about 512 MiB.
    pub shard: u64,
    /// The distance between neighbours, in `unit`. 0: 1.
    pub scale: f64,
    /// A unit as UDUNITS-2 spells it: "micrometer", "second". Null: none.
    pub unit: *const c_char,
    /// 0.
    pub reserved_too: [u64; 2],
}

/// One channel, as viewers show it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sw_channel {
    /// The name that viewers show. UTF-8.
    pub label: *const c_char,
    /// Red, green and blue as six hexadecimal digits. Null: "FFFFFF".
    pub color: *const c_char,
    /// The pixel value that viewers show as black.
    pub window_low: f64,
    /// The pixel value that viewers show as full colour. Equal to `window_low`: the whole range of the type.
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

/// What arrives, how it is stored, with which means.
///
/// sw_config_init sets every field to its default; only `dims` has none. The library copies everything that it keeps: all
/// pointers need to be good only during the call. Flags are 0 or 1.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sw_config {
    /// sizeof(sw_config), as sw_config_init set it: a library that knows more or fewer fields goes by it.
    pub size: usize,
    /// SW_INTERFACE, as sw_config_init set it.
    pub version: u32,
    /// The type of a pixel. Default SW_U16.
    pub dtype: sw_dtype,
    /// A document with the whole configuration, in place of all fields below, which must be as sw_config_init left them: JSON,
    /// or TOML where the library was built with it, with the fields of Rust's `Config`. sw_config_json writes one. Default null.
    pub document: *const c_char,
    /// The dimensions in storage order, slowest first. The last two are the rows and columns of a frame.
    pub dims: *const sw_dim,
    /// How many, 2 to 16.
    pub dim_count: usize,
    /// The names of the outer dimensions in the order in which they arrive, slowest first. Default null: as they are stored.
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
    /// The value of pixels that were never acquired. Default 0.
    pub fill_value: f64,
    /// 1: leave out chunks that hold only the fill value. Default 1.
    pub skip_empty_chunks: u32,
    /// What a full ring means to sw_append. Default SW_RING_FULL_BLOCK.
    pub ring_full: sw_ring_full,
    /// With SW_RING_FULL_BLOCK, how many milliseconds calls with SW_AS_CONFIGURED wait. Default SW_FOREVER.
    pub ring_full_timeout_ms: i64,
    /// Bytes for the frame buffers of the ring. Default 1 GiB.
    pub ring_bytes: usize,
    /// Bytes of one buffer, all that the camera writes into it. Default 0: exactly a frame, and the next two must be 0.
    pub buffer_bytes: usize,
    /// Where in a buffer the first row's first pixel stands, in bytes.
    pub frame_offset: usize,
    /// Bytes from one row's start to the next in a buffer.
    pub row_stride: usize,
    /// Worker threads that encode. Default 0: one for each core that the process may use.
    pub workers: usize,
    /// Cores to pin the workers to, in turn. Default null: not pinned.
    pub affinity: *const usize,
    /// How many cores. Default 0.
    pub affinity_count: usize,
    /// How often open shards, documents and records catch up with the run, in milliseconds: what is in its slot then becomes
    /// durable, and readers see it. 0: only when a shard is full, and at the end. Default 1000.
    pub checkpoint_every_ms: u64,
    /// Per-frame record fields beyond the frame number and the two timestamps. Default null.
    pub record_fields: *const sw_record_field,
    /// How many, at most 16. Default 0.
    pub record_field_count: usize,
    /// The channels' names and display settings. Default null.
    pub channels: *const sw_channel,
    /// How many: 0, or as many as the channel dimension is long. Default 0.
    pub channel_count: usize,
    /// The image's name, for viewers. UTF-8. Default null: none.
    pub name: *const c_char,
    /// 1: wait until shards and documents have reached the device before they are called done. Default 1.
    pub sync: u32,
    /// 1: replace a dataset that is in the way. Of no meaning within a dataset of several images. Default 0.
    pub overwrite: u32,
    /// The on-disk format. Default SW_DIALECT_ZARR3.
    pub dialect: sw_dialect,
    /// 1: a shard's index ends with its CRC-32C, where the dialect has one: SW_DIALECT_ZARR3. Default 1.
    pub index_checksum: u32,
    /// What only SW_DIALECT_PRECOMPUTED has. Default null: chosen.
    pub volume: *const sw_volume,
    /// 1: where shards are mapped, a lost page of a map (another program cut the file off, the device went away) is an error of the
    /// run instead of a SIGBUS that kills the process. For that, the process gets a handler for SIGBUS, once, which stays,
    /// and passes on to the handler before it what is not about such a map. Linux only. Default 0.
    pub guard_maps: u32,
    /// Manifests that finishing writes beside the dataset, into run.ome.manifest.zarr for run.ome.zarr: SW_MANIFEST_FILES and
    /// others, added up. Of one image in a folder, and not of SW_DIALECT_PRECOMPUTED. Default 0: none.
    pub manifest: sw_manifest,
}

/// What the struct will look like one day, for the test that a program of today still runs then.
#[cfg(sw_grown)]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct GrownConfig {
    known: sw_config,
    wishes: [u64; 3],
}

#[cfg(not(sw_grown))]
pub(super) type PresentConfig = sw_config;
#[cfg(sw_grown)]
pub(super) type PresentConfig = GrownConfig;

#[cfg(sw_grown)]
const _: () = assert!(size_of::<PresentConfig>() == size_of::<sw_config>() + 24);

/// Bytes of the struct in interface 1. When it grows, this becomes the offset of the first new field.
const CONFIG_FIRST_BYTES: usize = size_of::<sw_config>();

// SAFETY: `repr(C)`, numbers and pointers only, the size first.
unsafe impl Grows for PresentConfig {
    const FIRST_BYTES: usize = CONFIG_FIRST_BYTES;
    const NAME: &'static str = "sw_config";
}

fn defaults() -> PresentConfig {
    let defaults = Config::default();
    let known = sw_config {
        size: size_of::<PresentConfig>(),
        version: SW_INTERFACE,
        dtype: SW_U16,
        document: std::ptr::null(),
        dims: std::ptr::null(),
        dim_count: 0,
        acquisition_order: std::ptr::null(),
        acquisition_order_count: 0,
        compressor: SW_COMPRESSOR_BLOSC,
        level: 1,
        blosc_cname: SW_BLOSC_LZ4,
        shuffle: SW_SHUFFLE_BIT,
        block_bytes: 0,
        checksum: defaults.codec.checksum.into(),
        placement: SW_PLACEMENT_AUTO,
        index_location: SW_INDEX_END,
        storage: SW_STORAGE_AUTO,
        fill_value: defaults.fill_value,
        skip_empty_chunks: defaults.skip_empty_chunks.into(),
        ring_full: SW_RING_FULL_BLOCK,
        ring_full_timeout_ms: super::run::SW_FOREVER,
        ring_bytes: defaults.ring_bytes,
        buffer_bytes: 0,
        frame_offset: 0,
        row_stride: 0,
        workers: defaults.workers,
        affinity: std::ptr::null(),
        affinity_count: 0,
        checkpoint_every_ms: defaults.checkpoint_every.as_millis() as u64,
        record_fields: std::ptr::null(),
        record_field_count: 0,
        channels: std::ptr::null(),
        channel_count: 0,
        name: std::ptr::null(),
        sync: defaults.sync.into(),
        overwrite: defaults.overwrite.into(),
        dialect: SW_DIALECT_ZARR3,
        index_checksum: defaults.index_checksum.into(),
        volume: std::ptr::null(),
        guard_maps: defaults.guard_maps.into(),
        manifest: 0,
    };
    #[cfg(sw_grown)]
    return GrownConfig { known, wishes: [7; 3] };
    #[cfg(not(sw_grown))]
    known
}

/// Sets every field of `config` to its default, and its `size` to `size`, which is sizeof(sw_config).
///
/// The size tells the library which fields the program was compiled with, so that both can grow at different times.
///
/// Errors: SW_ERROR_NULL, SW_ERROR_MISALIGNED, SW_ERROR_SIZE. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_config_init(config: *mut sw_config, size: usize) -> sw_status {
    boundary(|| {
        // SAFETY: the caller gives `size` bytes.
        unsafe { sized_out(config.cast::<PresentConfig>(), size) }?.set(defaults());
        Ok(())
    })
}

/// Writes the configuration as a JSON document: what `document` takes, and what a settings page can show.
///
/// `text` gets the document and an ending zero if `capacity` suffices, else nothing. `needed` (null: not wanted) gets how many
/// bytes that are. With `text` null and `capacity` 0, only `needed` is set.
///
/// Errors: those of a wrong configuration struct, SW_ERROR_SIZE. Whether the values can work together is not looked at; for that,
/// see sw_memory_needed. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_config_json(
    config: *const sw_config,
    text: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> sw_status {
    boundary(|| {
        // SAFETY: as the caller promises, which is what the header says.
        let config = unsafe { wishes(config) }?;
        let document = serde_json::to_string_pretty(&config).unwrap_or_default();
        // SAFETY: as above.
        unsafe { put_text(&document, text, capacity, needed) }
    })
}

/// What the caller wishes for. Whether it can work is the plan's business.
///
/// # Safety
/// `config` and all that it points to must be good for reads, unless null or misaligned.
pub(super) unsafe fn wishes(config: *const sw_config) -> Outcome<Config> {
    // SAFETY: as the caller promises; the struct begins with its size.
    let config = unsafe { read(config.cast::<PresentConfig>(), defaults()) }?;
    #[cfg(sw_grown)]
    let config = {
        if config.wishes != [7; 3] {
            return refuse!(SW_ERROR_CONFIG, "the grown fields are {:?}, not their defaults", config.wishes);
        }
        config.known
    };
    if config.version == 0 || config.version > SW_INTERFACE {
        let version = config.version;
        return refuse!(
            super::status::SW_ERROR_VERSION,
            "sw_config.version = {version}: this library knows 1 to {SW_INTERFACE}; call sw_config_init first"
        );
    }
    // SAFETY: as the caller promises.
    match unsafe { optional_text(config.document, "sw_config.document") }? {
        Some(document) if config.dims.is_null() && config.dim_count == 0 => from_document(document),
        Some(_) => refuse!(SW_ERROR_CONFIG, "sw_config.document is the whole configuration; leave dims null beside it"),
        // SAFETY: as the caller promises.
        None => unsafe { from_fields(&config) },
    }
}

fn from_document(document: &str) -> Outcome<Config> {
    // A JSON object begins with a brace, which no TOML document does.
    if document.trim_start().starts_with('{') {
        let wrong = |error| told(SW_ERROR_CONFIG, format_args!("sw_config.document, read as JSON: {error}"));
        return serde_json::from_str(document).map_err(wrong);
    }
    #[cfg(feature = "toml")]
    return toml::from_str(document)
        .map_err(|error| told(SW_ERROR_CONFIG, format_args!("sw_config.document, read as TOML: {error}")));
    #[cfg(not(feature = "toml"))]
    refuse!(super::status::SW_ERROR_UNSUPPORTED, "sw_config.document is no JSON object, and this library has no TOML")
}

/// The element of `table` with the number that C gave.
fn choice<T: Copy>(table: &[T], number: u32, field: &str) -> Outcome<T> {
    match table.get(number as usize) {
        Some(&value) => Ok(value),
        None => refuse!(SW_ERROR_ARGUMENT, "{field} = {number}: 0 to {} are possible", table.len() - 1),
    }
}

fn flag(number: u32, field: &str) -> Outcome<bool> {
    choice(&[false, true], number, field)
}

fn is_zero(reserved: &[u64], field: &str) -> Outcome<()> {
    if reserved.iter().all(|&word| word == 0) { Ok(()) } else { refuse!(SW_ERROR_ARGUMENT, "{field} must be 0") }
}

/// # Safety
/// All that `config` points to must be good for reads, unless null or misaligned.
unsafe fn from_fields(config: &sw_config) -> Outcome<Config> {
    // SAFETY: here and below, as the caller promises.
    let dims = unsafe { slice(config.dims, config.dim_count, "sw_config.dims") }?;
    // SAFETY: as above.
    let dims = dims.iter().map(|dim| unsafe { self::dim(dim) }).collect::<Outcome<_>>()?;
    let order = (config.acquisition_order, config.acquisition_order_count);
    // SAFETY: as above.
    let order = unsafe { slice(order.0, order.1, "sw_config.acquisition_order") }?;
    // SAFETY: as above.
    let name_of = |&name: &*const c_char| Ok(unsafe { text(name, "sw_config.acquisition_order") }?.to_owned());
    // SAFETY: as above.
    let fields = unsafe { slice(config.record_fields, config.record_field_count, "sw_config.record_fields") }?;
    // SAFETY: as above.
    let channels = unsafe { slice(config.channels, config.channel_count, "sw_config.channels") }?;
    // SAFETY: as above.
    let volume = unsafe { slice(config.volume, usize::from(!config.volume.is_null()), "sw_config.volume") }?;
    // SAFETY: as above.
    let volume = volume.first().map(|volume| unsafe { self::volume(volume) }).transpose()?;
    Ok(Config {
        dialect: choice(
            &[Dialect::Zarr3, Dialect::Zarr3Transformer, Dialect::Zarr2Sharded, Dialect::Precomputed],
            config.dialect,
            "sw_config.dialect",
        )?,
        volume: volume.unwrap_or_default(),
        index_checksum: flag(config.index_checksum, "sw_config.index_checksum")?,
        dtype: choice(&Dtype::ALL, config.dtype, "sw_config.dtype")?,
        dims,
        acquisition_order: order.iter().map(name_of).collect::<Outcome<_>>()?,
        codec: Codec { compressor: compressor(config)?, checksum: flag(config.checksum, "sw_config.checksum")? },
        placement: choice(
            &[Placement::Auto, Placement::Fixed, Placement::Packed],
            config.placement,
            "sw_config.placement",
        )?,
        index_location: choice(
            &[IndexLocation::End, IndexLocation::Start],
            config.index_location,
            "sw_config.index_location",
        )?,
        storage: choice(
            &[StorageKind::Auto, StorageKind::Mapped, StorageKind::Buffered, StorageKind::Direct],
            config.storage,
            "sw_config.storage",
        )?,
        fill_value: config.fill_value,
        skip_empty_chunks: flag(config.skip_empty_chunks, "sw_config.skip_empty_chunks")?,
        ring_bytes: config.ring_bytes,
        frame_layout: frame_layout(config),
        ring_full: ring_full(config)?,
        workers: config.workers,
        // SAFETY: as above.
        affinity: unsafe { slice(config.affinity, config.affinity_count, "sw_config.affinity") }?.to_vec(),
        sync: flag(config.sync, "sw_config.sync")?,
        checkpoint_every: Duration::from_millis(config.checkpoint_every_ms),
        // SAFETY: as above.
        record_fields: fields.iter().map(|field| unsafe { record_field(field) }).collect::<Outcome<_>>()?,
        // SAFETY: as above.
        channels: channels.iter().map(|channel| unsafe { self::channel(channel) }).collect::<Outcome<_>>()?,
        // SAFETY: as above.
        name: unsafe { optional_text(config.name, "sw_config.name") }?.map(str::to_owned),
        overwrite: flag(config.overwrite, "sw_config.overwrite")?,
        guard_maps: flag(config.guard_maps, "sw_config.guard_maps")?,
        manifest: manifest(config)?,
    })
}

fn manifest(config: &sw_config) -> Outcome<Vec<ManifestForm>> {
    let forms = config.manifest;
    if forms >> ManifestForm::ALL.len() != 0 {
        return refuse!(SW_ERROR_ARGUMENT, "sw_config.manifest = {forms}: 0 to 7 are possible");
    }
    Ok(ManifestForm::ALL.into_iter().zip(0..).filter(|(_, bit)| forms >> bit & 1 == 1).map(|(form, _)| form).collect())
}

/// # Safety
/// All that `volume` points to must be good for reads, unless null or misaligned.
unsafe fn volume(volume: &sw_volume) -> Outcome<Volume> {
    is_zero(&[volume.reserved.into()], "sw_volume.reserved")?;
    let bits = |bits: i32, field| match u8::try_from(bits) {
        Ok(bits) => Ok(Some(bits)),
        Err(_) if bits < 0 => Ok(None),
        Err(_) => refuse!(SW_ERROR_ARGUMENT, "{field} = {bits}: at most 64, or negative for a choice"),
    };
    Ok(Volume {
        // SAFETY: as the caller promises.
        key: unsafe { optional_text(volume.key, "sw_volume.key") }?.map(str::to_owned),
        hash: choice(&[VolumeHash::Identity, VolumeHash::Murmurhash3X86_128], volume.hash, "sw_volume.hash")?,
        preshift_bits: bits(volume.preshift_bits, "sw_volume.preshift_bits")?,
        minishard_bits: bits(volume.minishard_bits, "sw_volume.minishard_bits")?,
        shard_bits: bits(volume.shard_bits, "sw_volume.shard_bits")?,
        gzip_indexes: flag(volume.gzip_indexes, "sw_volume.gzip_indexes")?,
        voxel_offset: volume.voxel_offset,
        resolution: Some(volume.resolution).filter(|resolution| *resolution != [0.0; 3]),
    })
}

/// # Safety
/// All that `dim` points to must be good for reads, unless null or misaligned.
unsafe fn dim(dim: &sw_dim) -> Outcome<Dim> {
    is_zero(&[dim.reserved.into(), dim.reserved_too[0], dim.reserved_too[1]], "sw_dim.reserved")?;
    Ok(Dim {
        // SAFETY: as the caller promises.
        name: unsafe { text(dim.name, "sw_dim.name") }?.to_owned(),
        kind: choice(&[DimKind::Other, DimKind::Time, DimKind::Channel, DimKind::Space], dim.kind, "sw_dim.kind")?,
        size: Some(dim.size).filter(|&size| size > 0),
        chunk: dim.chunk,
        shard: dim.shard,
        scale: if dim.scale == 0.0 { 1.0 } else { dim.scale },
        // SAFETY: as the caller promises.
        unit: unsafe { optional_text(dim.unit, "sw_dim.unit") }?.map(str::to_owned),
    })
}

/// # Safety
/// All that `field` points to must be good for reads, unless null or misaligned.
unsafe fn record_field(field: &sw_record_field) -> Outcome<RecordField> {
    is_zero(&[field.reserved.into()], "sw_record_field.reserved")?;
    // SAFETY: as the caller promises.
    let name = unsafe { text(field.name, "sw_record_field.name") }?.to_owned();
    Ok(RecordField { name, dtype: choice(&Dtype::ALL, field.dtype, "sw_record_field.dtype")? })
}

/// # Safety
/// All that `channel` points to must be good for reads, unless null or misaligned.
unsafe fn channel(channel: &sw_channel) -> Outcome<Channel> {
    is_zero(&channel.reserved, "sw_channel.reserved")?;
    let window = (channel.window_low, channel.window_high);
    Ok(Channel {
        // SAFETY: as the caller promises.
        label: unsafe { text(channel.label, "sw_channel.label") }?.to_owned(),
        // SAFETY: as the caller promises.
        color: unsafe { optional_text(channel.color, "sw_channel.color") }?.unwrap_or("FFFFFF").to_owned(),
        window: Some(window).filter(|(low, high)| low != high),
    })
}

fn compressor(config: &sw_config) -> Outcome<Compressor> {
    const CNAMES: [BloscCname; 5] =
        [BloscCname::Lz4, BloscCname::Lz4hc, BloscCname::Zstd, BloscCname::Zlib, BloscCname::Blosclz];
    let (level, block_bytes) = (config.level, config.block_bytes);
    let small_level = || match u8::try_from(level) {
        Ok(level) => Ok(level),
        Err(_) => refuse!(SW_ERROR_ARGUMENT, "sw_config.level = {level}: this compressor has levels 0 to 9"),
    };
    Ok(match config.compressor {
        SW_COMPRESSOR_NONE => Compressor::None,
        SW_COMPRESSOR_BLOSC => Compressor::Blosc {
            cname: choice(&CNAMES, config.blosc_cname, "sw_config.blosc_cname")?,
            level: small_level()?,
            shuffle: choice(&[Shuffle::None, Shuffle::Byte, Shuffle::Bit], config.shuffle, "sw_config.shuffle")?,
            block_bytes,
        },
        SW_COMPRESSOR_BLOSC_NOISE => Compressor::BloscNoise { block_bytes },
        SW_COMPRESSOR_ZSTD => Compressor::Zstd { level },
        SW_COMPRESSOR_GZIP => Compressor::Gzip { level: small_level()? },
        SW_COMPRESSOR_LZ4 => Compressor::Lz4,
        SW_COMPRESSOR_ZLIB => Compressor::Zlib { level: small_level()? },
        other => {
            return refuse!(
                SW_ERROR_ARGUMENT,
                "sw_config.compressor = {other}: 0 to {SW_COMPRESSOR_ZLIB} are possible"
            );
        }
    })
}

fn frame_layout(config: &sw_config) -> Option<FrameLayout> {
    let layout =
        FrameLayout { buffer_bytes: config.buffer_bytes, offset: config.frame_offset, row_stride: config.row_stride };
    // Something was said of it: the plan shall say what is missing.
    Some(layout).filter(|layout| layout.buffer_bytes > 0 || layout.offset > 0 || layout.row_stride > 0)
}

fn ring_full(config: &sw_config) -> Outcome<RingFull> {
    let timeout = match config.ring_full_timeout_ms {
        super::run::SW_FOREVER => None,
        timeout @ 0.. => Some(Duration::from_millis(timeout as u64)),
        other => {
            return refuse!(SW_ERROR_ARGUMENT, "sw_config.ring_full_timeout_ms = {other}: from 0 on, or SW_FOREVER");
        }
    };
    choice(
        &[RingFull::Block { timeout }, RingFull::DropNewest, RingFull::Error],
        config.ring_full,
        "sw_config.ring_full",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_rust() {
        let defaults = defaults();
        // SAFETY: the struct is filled, and points to nothing.
        let wishes = unsafe { wishes((&raw const defaults).cast()) }.unwrap();
        assert_eq!(serde_json::to_value(wishes).unwrap(), serde_json::to_value(Config::default()).unwrap());
    }

    #[test]
    fn numbers_mean_what_the_header_says() {
        let dtypes = [SW_U8, SW_I8, SW_U16, SW_I16, SW_U32, SW_I32, SW_U64, SW_I64, SW_F32, SW_F64];
        let names = ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64"];
        for (number, name) in dtypes.into_iter().zip(names) {
            assert_eq!(choice(&Dtype::ALL, number, "dtype").unwrap().to_string(), name);
        }
    }
}
