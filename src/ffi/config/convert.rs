//! What the struct or the document says, as the library's own configuration.

use std::ffi::c_char;
use std::iter;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::defaults::defaults;
use super::pixels::{SW_ORIENTATION_FLIP_COLUMNS, SW_ORIENTATION_FLIP_ROWS, SW_ORIENTATION_TRANSPOSE};
use super::*;
use crate::config::{
    BloscCname, Channel, Codec, Compressor, Config, Depth, Dialect, Dim, DimKind, Downsampling, FillValue, FrameLayout,
    IndexLocation, ManifestForm, OmeVersion, Part, PartBy, PixelFormat, Placement, RecordField, RingFull, Shuffle,
    StorageKind, Volume, VolumeHash, WORKERS_MAX,
};
use crate::downsample::Method;
use crate::dtype::Dtype;
use crate::ffi::names::{Field, Spelling};
use crate::ffi::pointer::{list_up_to, optional_text, required, slice_up_to, text};
use crate::ffi::report::SW_DIMS_MAX;
use crate::ffi::status::SW_ERROR_ARGUMENT;
use crate::format::rules;
use crate::pixels::{Flip, Orientation};
use crate::record::RECORD_FIELDS_MAX;
use crate::words::plain;

/// Sets every field of `config` to its default, and its `size` to `size`, which is sizeof(sw_config).
///
/// The size tells the library which fields the program was compiled with, so that both can grow at different times.
///
/// Errors: only those of wrong arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_config_init(config: *mut sw_config, size: usize) -> sw_status {
    boundary(|| {
        // SAFETY: the caller gives `size` bytes.
        unsafe { sized_out(config, size) }?.set(defaults());
        Ok(())
    })
}

/// Writes the configuration as a JSON document: what `document` takes, and what a settings page can show.
///
/// `text` gets the document and an ending zero if its `capacity` bytes suffice, else nothing. `needed` (null: not
/// wanted) gets how many bytes that are, also with SW_ERROR_SIZE. With `text` null and `capacity` 0, only `needed` is
/// set.
///
/// Errors: those of a wrong configuration struct, SW_ERROR_SIZE. Whether the values can work together is not looked at;
/// for that, see sw_memory_needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_config_json(
    config: *const sw_config,
    text: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> sw_status {
    boundary(|| {
        // SAFETY: as the caller promises, which is what the header says.
        let requested = unsafe { configuration(config) }?;
        let document = serde_json::to_string_pretty(&requested.config).unwrap_or_default();
        // SAFETY: as above.
        unsafe { put_text(&document, text, capacity, needed) }
    })
}

/// As much of the struct as its caller knows; the rest is as by default.
///
/// # Safety
/// `config` must be good for reads, unless null or misaligned.
pub(in crate::ffi) unsafe fn known(config: *const sw_config) -> Outcome<sw_config> {
    // SAFETY: as the caller promises; the struct begins with its size.
    unsafe { read(config, defaults()) }
}

/// What the caller asks for, and in whose words. Whether it can work is the plan's business.
#[derive(Debug)]
pub(in crate::ffi) struct Requested {
    pub(in crate::ffi) config: Config,
    pub(in crate::ffi) spelling: Spelling,
}

/// The configuration that a struct holds, or the document that it names.
///
/// # Safety
/// `config` and all that it points to must be good for reads, unless null or misaligned.
pub(in crate::ffi) unsafe fn configuration(config: *const sw_config) -> Outcome<Requested> {
    // SAFETY: as the caller promises.
    let config = unsafe { known(config) }?;
    if config.version == 0 || config.version > SW_INTERFACE {
        let version = config.version;
        return refuse!(
            crate::ffi::status::SW_ERROR_VERSION,
            "sw_config.version = {version}: this library knows 1 to {SW_INTERFACE}; call sw_config_init first"
        );
    }
    // SAFETY: as the caller promises.
    let (document, fields) = unsafe { (optional_text(config.document, "sw_config.document")?, from_fields(&config)?) };
    let Some(document) = document else { return Ok(Requested { config: fields, spelling: Spelling::Struct }) };
    refuse_beside_document(&fields)?;
    Ok(Requested { config: from_document(document)?, spelling: Spelling::Document })
}

/// A document is the whole configuration: a field that was set beside it would be passed over in silence.
fn refuse_beside_document(fields: &Config) -> Outcome<()> {
    let (set, usual) = (serde_json::to_value(fields), serde_json::to_value(Config::default()));
    let (Ok(serde_json::Value::Object(set)), Ok(usual)) = (set, usual) else { return Ok(()) };
    let Some((field, _)) = set.iter().find(|(field, value)| usual[field.as_str()] != **value) else { return Ok(()) };
    let field = match &field[..] {
        "codec" => "sw_config.compressor or a setting of it".to_owned(),
        "frame_layout" => "sw_config.buffer_bytes, frame_offset or row_stride".to_owned(),
        field => Field(field).to_string(),
    };
    refuse!(
        SW_ERROR_CONFIG,
        "sw_config.document is the whole configuration, and {field} is set beside it; leave all other fields as \
         sw_config_init made them, or say it in the document"
    )
}

/// What a JSON text holds. `name`: what the caller knows it by.
pub(in crate::ffi) fn from_json<T: DeserializeOwned>(text: &str, name: &str) -> Outcome<T> {
    let wrong = |error| told(SW_ERROR_CONFIG, format_args!("{name}, read as JSON: {}", plain(error)));
    serde_json::from_str(text).map_err(wrong)
}

pub(super) fn from_document(document: &str) -> Outcome<Config> {
    // A JSON object begins with a brace, which no TOML document does.
    if document.trim_start().starts_with('{') {
        return from_json(document, "sw_config.document");
    }
    #[cfg(feature = "toml")]
    return Config::from_toml(document)
        .map_err(|reason| told(SW_ERROR_CONFIG, format_args!("sw_config.document, read as TOML: {reason}")));
    #[cfg(not(feature = "toml"))]
    refuse!(
        crate::ffi::status::SW_ERROR_UNSUPPORTED,
        "sw_config.document is no JSON object, and this library has no TOML"
    )
}

/// The element of `table` with the number that C gave. Where that is an enum's `ALL`, the order there is the
/// interface's.
pub(super) fn choice<T: Copy>(table: &[T], number: u32, field: &str) -> Outcome<T> {
    match table.get(number as usize) {
        Some(&value) => Ok(value),
        None => refuse!(SW_ERROR_ARGUMENT, "{field} = {number}: 0 to {} are possible", table.len() - 1),
    }
}

/// Those that an acquisition can write.
fn dialects() -> Vec<Dialect> {
    Dialect::ALL.iter().copied().filter(|dialect| rules(*dialect).shares_files).collect()
}

fn flag(number: u32, field: &str) -> Outcome<bool> {
    choice(&[false, true], number, field)
}

fn is_zero(reserved: &[u64], field: &str) -> Outcome<()> {
    if reserved.iter().all(|&word| word == 0) { Ok(()) } else { refuse!(SW_ERROR_ARGUMENT, "{field} must be 0") }
}

/// # Safety
/// All that `config` points to must be good for reads, unless null or misaligned.
pub(super) unsafe fn from_fields(config: &sw_config) -> Outcome<Config> {
    // SAFETY: as the caller promises of whatever is followed here.
    unsafe {
        let dims: Vec<Dim> = self::dims(config)?;
        let names = ["sw_config.record_fields", "sw_config.record_field_count"];
        let fields = list_up_to(config.record_fields, config.record_field_count, RECORD_FIELDS_MAX, names)?;
        let volume = match config.volume.is_null() {
            false => self::volume(required(config.volume, "sw_config.volume")?)?,
            true => Volume::default(),
        };
        let names = ["sw_config.affinity", "sw_config.affinity_count"];
        let affinity = list_up_to(config.affinity, config.affinity_count, WORKERS_MAX, names)?;
        Ok(Config {
            dialect: choice(&dialects(), config.dialect, "sw_config.dialect")?,
            volume,
            index_checksum: flag(config.index_checksum, "sw_config.index_checksum")?,
            dtype: choice(Dtype::ALL, config.dtype, "sw_config.dtype")?,
            channels: channels(config, &dims)?,
            dims,
            acquisition_order: acquisition_order(config)?,
            codec: Codec { compressor: compressor(config)?, checksum: flag(config.checksum, "sw_config.checksum")? },
            placement: choice(Placement::ALL, config.placement, "sw_config.placement")?,
            index_location: choice(IndexLocation::ALL, config.index_location, "sw_config.index_location")?,
            storage: choice(StorageKind::ALL, config.storage, "sw_config.storage")?,
            fill_value: fill_value(config)?,
            skip_empty_chunks: flag(config.skip_empty_chunks, "sw_config.skip_empty_chunks")?,
            ring_bytes: config.ring_bytes,
            frame_layout: frame_layout(config),
            pixel_format: choice(PixelFormat::ALL, config.pixel_format, "sw_config.pixel_format")?,
            unused_low_bits: config.unused_low_bits,
            orientation: orientation(config)?,
            ring_full: ring_full(config)?,
            workers: config.workers,
            affinity: affinity.to_vec(),
            sync: flag(config.sync, "sw_config.sync")?,
            checkpoint_every: Duration::from_millis(config.checkpoint_every_ms),
            record_fields: fields.iter().map(|field| record_field(field)).collect::<Outcome<_>>()?,
            record_roi: flag(config.record_roi, "sw_config.record_roi")?,
            name: optional_text(config.name, "sw_config.name")?.map(str::to_owned),
            key: optional_text(config.key, "sw_config.key")?.map(str::to_owned),
            bare: flag(config.bare, "sw_config.bare")?,
            ome: choice(&[OmeVersion::V0_5, OmeVersion::V0_6], config.ome, "sw_config.ome")?,
            overwrite: flag(config.overwrite, "sw_config.overwrite")?,
            guard_maps: flag(config.guard_maps, "sw_config.guard_maps")?,
            manifest: manifest(config)?,
            pyramid: pyramid(config)?,
            plate_acquisition: config.plate_acquisition.checked_sub(1),
            label: optional_text(config.label, "sw_config.label")?
                .map(|label| from_json(label, "sw_config.label"))
                .transpose()?,
            leap_max: config.leap_max,
            part: part(config)?,
        })
    }
}

fn part(config: &sw_config) -> Outcome<Option<Part>> {
    let sw_config { part: index, parts: of, .. } = *config;
    let by = choice(PartBy::ALL, config.part_by, "sw_config.part_by")?;
    if of == 0 && (index > 0 || by != PartBy::default()) {
        return refuse!(SW_ERROR_ARGUMENT, "sw_config.parts = 0: part or part_by is set, which are of a run in parts");
    }
    Ok((of > 0).then_some(Part { index, of, by }))
}

/// # Safety
/// All that `config` points to must be good for reads, unless null or misaligned.
unsafe fn dims(config: &sw_config) -> Outcome<Vec<Dim>> {
    let names = ["sw_config.dims", "sw_config.dim_count"];
    // SAFETY: as the caller promises.
    unsafe {
        slice_up_to(config.dims, config.dim_count, SW_DIMS_MAX, names)?.iter().map(|dim| self::dim(dim)).collect()
    }
}

/// # Safety
/// All that `config` points to must be good for reads, unless null or misaligned.
unsafe fn acquisition_order(config: &sw_config) -> Outcome<Vec<String>> {
    let (order, count) = (config.acquisition_order, config.acquisition_order_count);
    let names = ["sw_config.acquisition_order", "sw_config.acquisition_order_count"];
    // The last two dimensions have no place in it. SAFETY: as the caller promises.
    unsafe {
        let order = list_up_to(order, count, config.dim_count.saturating_sub(2), names)?;
        order.iter().map(|&name| Ok(text(name, "one of sw_config.acquisition_order")?.to_owned())).collect()
    }
}

fn pyramid(config: &sw_config) -> Outcome<Option<Downsampling>> {
    let methods: Vec<_> = iter::once(None).chain(Method::ALL.iter().copied().map(Some)).collect();
    let keep = config.pyramid_keep;
    if keep > SW_KEEP_Y + SW_KEEP_X {
        return refuse!(SW_ERROR_ARGUMENT, "sw_config.pyramid_keep = {keep}: 0 to 3 are possible");
    }
    let depth = choice(Depth::ALL, config.pyramid_depth, "sw_config.pyramid_depth")?;
    let method = choice(&methods, config.pyramid, "sw_config.pyramid")?;
    if method.is_none() && (config.pyramid_levels > 0 || keep > 0 || depth != Depth::default()) {
        return refuse!(
            SW_ERROR_CONFIG,
            "sw_config.pyramid = {}: pyramid_levels, pyramid_keep or pyramid_depth is set, which are of a pyramid",
            config.pyramid
        );
    }
    Ok(method.map(|method| Downsampling {
        method,
        levels: Some(config.pyramid_levels as usize).filter(|&levels| levels > 0),
        y: keep & SW_KEEP_Y == 0,
        x: keep & SW_KEEP_X == 0,
        depth,
    }))
}

/// # Safety
/// `fill_pixel` must be good for reads of a pixel, unless null.
unsafe fn fill_value(config: &sw_config) -> Outcome<FillValue> {
    let (value, dtype) = (config.fill_value, choice(Dtype::ALL, config.dtype, "sw_config.dtype")?);
    if config.fill_pixel.is_null() {
        return Ok(value.into());
    }
    if value != 0.0 {
        return refuse!(SW_ERROR_CONFIG, "sw_config.fill_value = {value}: fill_pixel says another; leave this at 0");
    }
    // SAFETY: as the caller promises; bytes may lie anywhere.
    let mut pixel = unsafe { std::slice::from_raw_parts(config.fill_pixel.cast::<u8>(), dtype.size()) }.to_vec();
    if cfg!(target_endian = "big") {
        pixel.reverse();
    }
    Ok(FillValue::of_element(dtype, &pixel))
}

fn orientation(config: &sw_config) -> Outcome<Orientation> {
    let flags = config.orientation;
    let has = |flag| flags & flag != 0;
    if flags > SW_ORIENTATION_TRANSPOSE | SW_ORIENTATION_FLIP_ROWS | SW_ORIENTATION_FLIP_COLUMNS {
        return refuse!(SW_ERROR_ARGUMENT, "sw_config.orientation = {flags}: 0 to 7 are possible");
    }
    let flip = match (has(SW_ORIENTATION_FLIP_ROWS), has(SW_ORIENTATION_FLIP_COLUMNS)) {
        (false, false) => Flip::None,
        (true, false) => Flip::Rows,
        (false, true) => Flip::Columns,
        (true, true) => Flip::Both,
    };
    Ok(Orientation { transpose: has(SW_ORIENTATION_TRANSPOSE), flip })
}

fn manifest(config: &sw_config) -> Outcome<Vec<ManifestForm>> {
    let forms = config.manifest;
    if forms >> ManifestForm::ALL.len() != 0 {
        return refuse!(SW_ERROR_ARGUMENT, "sw_config.manifest = {forms}: 0 to 7 are possible");
    }
    let numbered = ManifestForm::ALL.iter().zip(0..);
    Ok(numbered.filter(|(_, bit)| forms >> bit & 1 == 1).map(|(form, _)| *form).collect())
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
        hash: choice(VolumeHash::ALL, volume.hash, "sw_volume.hash")?,
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
    is_zero(&[dim.reserved.into()], "sw_dim.reserved")?;
    is_zero(&[dim.reserved_too], "sw_dim.reserved_too")?;
    Ok(Dim {
        // SAFETY: as the caller promises.
        name: unsafe { text(dim.name, "sw_dim.name") }?.to_owned(),
        kind: choice(&[DimKind::Other, DimKind::Time, DimKind::Channel, DimKind::Space], dim.kind, "sw_dim.kind")?,
        size: Some(dim.size).filter(|&size| size > 0),
        chunk: dim.chunk,
        shard: dim.shard,
        scale: if dim.scale == 0.0 { 1.0 } else { dim.scale },
        translation: dim.translation,
        // SAFETY: as the caller promises.
        unit: unsafe { optional_text(dim.unit, "sw_dim.unit") }?.filter(|unit| !unit.is_empty()).map(str::to_owned),
    })
}

/// # Safety
/// All that `field` points to must be good for reads, unless null or misaligned.
unsafe fn record_field(field: &sw_record_field) -> Outcome<RecordField> {
    is_zero(&[field.reserved.into()], "sw_record_field.reserved")?;
    // SAFETY: as the caller promises.
    let name = unsafe { text(field.name, "sw_record_field.name") }?.to_owned();
    Ok(RecordField { name, dtype: choice(Dtype::ALL, field.dtype, "sw_record_field.dtype")? })
}

/// # Safety
/// All that `config` points to must be good for reads, unless null or misaligned.
unsafe fn channels(config: &sw_config, dims: &[Dim]) -> Outcome<Vec<Channel>> {
    let count = config.channel_count;
    match dims.iter().find(|dim| dim.kind == DimKind::Channel) {
        None if count > 1 && !dims.is_empty() => {
            let reason = "without a dimension of kind channel there is at most one";
            return refuse!(SW_ERROR_CONFIG, "sw_config.channel_count = {count}: {reason}");
        }
        Some(Dim { size: Some(size), name, .. }) if count as u64 > *size => {
            let reason = format!("dimension {name} has {size} elements; give as many channels, or none");
            return refuse!(SW_ERROR_CONFIG, "sw_config.channel_count = {count}: {reason}");
        }
        _ => {}
    }
    let names = ["sw_config.channels", "sw_config.channel_count"];
    // SAFETY: as the caller promises.
    unsafe {
        list_up_to(config.channels, count, usize::MAX, names)?.iter().map(|channel| self::channel(channel)).collect()
    }
}

/// # Safety
/// All that `channel` points to must be good for reads, unless null or misaligned.
unsafe fn channel(channel: &sw_channel) -> Outcome<Channel> {
    is_zero(&channel.reserved, "sw_channel.reserved")?;
    let window = (channel.window_low, channel.window_high);
    // SAFETY: as the caller promises.
    let (label, color) =
        unsafe { (text(channel.label, "sw_channel.label")?, optional_text(channel.color, "sw_channel.color")?) };
    Ok(Channel {
        label: label.to_owned(),
        color: color.unwrap_or_default().to_owned(),
        window: Some(window).filter(|(low, high)| low != high),
    })
}

fn compressor(config: &sw_config) -> Outcome<Compressor> {
    let (level, block_bytes) = (config.level, config.block_bytes);
    let small_level = || match u8::try_from(level) {
        Ok(level) => Ok(level),
        Err(_) => refuse!(SW_ERROR_CONFIG, "sw_config.level = {level}: this compressor has levels 0 to 9"),
    };
    Ok(match config.compressor {
        SW_COMPRESSOR_NONE => Compressor::None,
        SW_COMPRESSOR_BLOSC => Compressor::Blosc {
            cname: choice(BloscCname::ALL, config.blosc_cname, "sw_config.blosc_cname")?,
            level: small_level()?,
            shuffle: choice(Shuffle::ALL, config.shuffle, "sw_config.shuffle")?,
            block_bytes,
        },
        SW_COMPRESSOR_BLOSC_NOISE => Compressor::BloscNoise { block_bytes },
        SW_COMPRESSOR_ZSTD => Compressor::Zstd { level },
        SW_COMPRESSOR_GZIP => Compressor::Gzip { level: small_level()? },
        SW_COMPRESSOR_LZ4 => Compressor::Lz4,
        SW_COMPRESSOR_ZLIB => Compressor::Zlib { level: small_level()? },
        SW_COMPRESSOR_AUTO => Compressor::Auto,
        other => {
            return refuse!(
                SW_ERROR_ARGUMENT,
                "sw_config.compressor = {other}: 0 to {SW_COMPRESSOR_AUTO} are possible"
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
        crate::ffi::limits::SW_FOREVER => None,
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
    use crate::dtype::Dtype;

    #[test]
    fn the_defaults_are_those_of_rust() {
        let defaults = defaults();
        // SAFETY: the struct is filled, and points to nothing.
        let converted = unsafe { configuration((&raw const defaults).cast()) }.unwrap().config;
        assert_eq!(serde_json::to_value(converted).unwrap(), serde_json::to_value(Config::default()).unwrap());
    }

    #[test]
    fn numbers_mean_what_the_header_says() {
        let dtypes = [SW_U8, SW_I8, SW_U16, SW_I16, SW_U32, SW_I32, SW_U64, SW_I64, SW_F32, SW_F64];
        let names = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"];
        for (number, name) in dtypes.into_iter().zip(names) {
            assert_eq!(choice(Dtype::ALL, number, "dtype").unwrap().to_string(), name);
        }
    }
}
