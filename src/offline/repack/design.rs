//! What an array becomes in a dialect other than Zarr v3. The writer's own plan says what can be and how it is cut, and
//! the writer's own documents describe it; from these the reader knows where everything goes.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::image_attributes::ImageAttributes;
use super::options::RepackOptions;
use super::{groups, target};
use crate::config::{Codec, Config, Dialect, Dim, DimKind, IndexLocation, OmeVersion, Volume};
use crate::format::codecs::Chain;
use crate::format::keys::RECORDS;
use crate::format::layout::{Files, Layout};
use crate::format::precomputed::carried::{CARRIED, deliver, is_carried, scale, voxel_offset};
use crate::format::provenance::{ATTRIBUTE, ProvenanceMut, channel_dimension, is_own};
use crate::format::{self, DIMENSION_NAMES, Document, Metadata, NodePaths, OmePlace, ngff, precomputed, rules, zarr2};
use crate::fs::document;
use crate::offline::hierarchy;
use crate::offline::repack::staging::below;
use crate::ome;
use crate::ome::multiscales::{self, Multiscale, first_path};
use crate::ome::units;

use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::offline::array::Array;
use crate::plan::Plan;

/// An array as the writer would have written it.
#[derive(Debug)]
pub(super) struct Design {
    config: Config,
    plan: Plan,
    documents: Vec<Document>,
    /// What somebody should know of it, as a sentence.
    note: Option<String>,
    /// The array's name, where it keeps its place in a tree of Zarr v2. Otherwise it becomes the image of a dataset.
    stays: Option<String>,
}

impl Design {
    /// What `array` becomes. `said`: of the image, the writer's own attributes among it. `stays`: the array's name, if
    /// nothing but its own `.zarray` is to change.
    ///
    /// # Errors
    ///
    /// As when an acquisition is created: [`Error::Config`] says what the dialect can't hold, and what it can.
    pub(super) fn new(
        array: &Array,
        said: &ImageAttributes,
        options: &RepackOptions,
        stays: Option<&str>,
    ) -> Result<Self> {
        let (metadata, attributes) = (array.metadata(), &said.attributes);
        refuse_lacking(array, options.to())?;
        let names = Names::of(&metadata.layout, attributes);
        let mut volume = volume_of(array, attributes, options);
        let folder = volume.key.as_deref().filter(|_| options.volume.key.is_none()).and_then(folder_of);
        if let (Some(_), Some((_, name))) = (&folder, volume.key.as_deref().and_then(|key| key.rsplit_once('/'))) {
            volume.key = Some(name.to_owned());
        }
        let config = Config {
            // The plan takes other elements for bytes; what they are is said to its result.
            dtype: metadata.dtype.number().unwrap_or(Dtype::U8),
            dialect: options.to(),
            dims: dims(array, &names.names, attributes, options)?,
            codec: options
                .codec
                .clone()
                // Checksums that the dialect has no place for are left behind.
                .unwrap_or(Codec { compressor: array.codec().compressor, checksum: false }),
            index_location: options.index_location.unwrap_or(IndexLocation::End),
            index_checksum: options.index_checksum.unwrap_or(true),
            volume,
            fill_value: fill_value(metadata),
            ..Config::default()
        };
        let mut plan = Plan::on_disk(&config)?;
        if metadata.dtype.number().is_some() {
            check_fill(metadata, &plan)?;
        } else {
            plan.array = of_elements(array, &config, plan.array)?;
        }
        if let (Some(folder), Files::Volume(volume)) = (folder, &mut plan.array.layout.files) {
            volume.key = format!("{folder}/{}", volume.key);
        }
        if let (Some(_), Files::Grid { keys: new, .. }) = (stays, &mut plan.array.layout.files)
            && let Files::Grid { keys: old, .. } = &metadata.layout.files
        {
            // Its chunks are files of the same kind, and keep their names.
            *new = *old;
        }
        plan.array.is_fill_undefined = metadata.is_fill_undefined && rules(options.to()).undefined_fill;
        if names.guessed && !rules(options.to()).numbers_chunks {
            // Some of them may have names all the same.
            plan.array.layout.names.clone_from(&metadata.layout.names);
        }
        if let Some(name) = stays {
            let document = format::zarr2::array(&plan.array, &plan.array.layout.shape);
            let documents = vec![(hierarchy::below(name, zarr2::ARRAY), document)];
            return Ok(Self { config, plan, documents, note: None, stays: Some(name.to_owned()) });
        }
        let documents = image_documents(array, said, &config, &plan)?;
        let note = note_of_resolution(array, &config, &plan, options);
        Ok(Self { config, plan, documents, note, stays: None })
    }

    /// The array, in a dataset at `root`; nothing need be there.
    pub(super) fn array(&self, root: &Path) -> Array {
        if let Some(name) = &self.stays {
            let path = below(root, name);
            return Array::with(&path, &path, path.join(zarr2::ARRAY), self.plan.array.clone());
        }
        let NodePaths { array, folder, document } = format::node_paths(&self.plan.array.layout);
        Array::with(&below(root, &array), &below(root, &folder), root.join(document), self.plan.array.clone())
    }

    /// The array's name, if it keeps its place among others.
    pub(super) fn stays(&self) -> Option<&str> {
        self.stays.as_deref()
    }

    /// What somebody should know of it, as a sentence.
    pub(super) fn note(&self) -> Option<String> {
        self.note.clone()
    }

    /// How chunks are encoded.
    pub(super) fn codec(&self) -> &Codec {
        &self.config.codec
    }

    /// Whether shards without chunks are files all the same.
    pub(super) fn keeps_empty(&self) -> bool {
        self.plan.shard.keep_empty
    }

    /// The ids of the chunks of a shard that is no box.
    pub(super) fn ids(&self, position: &[u64]) -> &[u64] {
        let volume = self.plan.volume.as_ref();
        volume.and_then(|volume| volume.ids_of(*position.first()? as usize)).unwrap_or(&[])
    }

    /// The documents, by their names below the dataset. They don't say yet how many chunks there are.
    pub(super) fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// The documents, after all chunks were written. `settle` corrects what the writer says of them.
    pub(super) fn finished(&self, settle: impl Fn(&mut ProvenanceMut<'_>)) -> Vec<Document> {
        let mut documents = self.documents.clone();
        for (_, document) in &mut documents {
            if let Some(mut own) = ProvenanceMut::of(document) {
                settle(&mut own);
            }
        }
        documents
    }
}

/// The documents of the image that `array` becomes.
fn image_documents(array: &Array, said: &ImageAttributes, config: &Config, plan: &Plan) -> Result<Vec<Document>> {
    let ImageAttributes { attributes, of_array, .. } = said;
    let (metadata, to) = (array.metadata(), config.dialect);
    let (mut user, mut own) = split(said, metadata, to)?;
    let to_volume = rules(to).numbers_chunks;
    if to_volume && metadata.layout.volume().is_some() && !attributes.get(ATTRIBUTE).is_some_and(is_own) {
        // Its own document says it.
        own.as_object_mut().map(|own| own.shift_remove("ome"));
    }
    // What a volume said, of which this one's document has not spoken yet.
    let is_said = to_volume && user.get(CARRIED).is_some_and(is_carried);
    let mut carried = Map::from_iter(is_said.then(|| user.shift_remove_entry(CARRIED)).flatten());
    let in_documents = rules(to).ome == OmePlace::Documents && user.get("ome").is_some_and(ngff::is_ome);
    let said = if in_documents { user.shift_remove("ome") } else { None };
    let said = said.filter(|ome| first_path(ome) == Some("0"));
    // Of axes whose names are guessed, nothing is said.
    let is_named = |names: &[String]| groups::is_complete(names, config.dims.len());
    let is_image =
        plan.array.layout.names.as_deref().is_some_and(is_named) && ome::incompatibility(&config.dims).is_none();
    // An array of others of which nothing is said is no image of OME-Zarr. A volume says all of its own.
    let is_image = is_image && (metadata.layout.volume().is_some() || own != json!({}));
    let made = || (is_image && !user.contains_key("ome")).then(|| ome::image_attributes(config, &config.channels, &[]));
    let ome = said.or_else(made);
    if let (true, Some(taken)) =
        (rules(to).ome_versions.contains(&OmeVersion::V0_4), ngff::taken_in_0_4(ome.as_ref(), &user))
    {
        return Err(Error::unsupported(array.path(), groups::reason_of_taken(taken)));
    }
    let image = format::ImageDescription {
        array: &plan.array,
        shape: &plan.array.layout.shape,
        of_array: Some(of_array),
        user: &user,
        own: &own,
        ome: ome.as_ref(),
    };
    let mut documents = image.entry();
    documents.push(image.of_shape());
    let of_attributes = image.of_attributes();
    // A volume has one document for both.
    if documents.iter().all(|(key, _)| *key != of_attributes.0) {
        documents.push(of_attributes);
    }
    documents.iter_mut().filter(|_| to_volume).for_each(|(_, info)| deliver(&mut carried, info));
    if to_volume {
        documents.iter().try_for_each(|(_, info)| refuse_beyond_json(info, to))?;
    }
    Ok(documents)
}

/// The user's attributes and the writer's, as they are to stand in the new documents.
fn split(said: &ImageAttributes, from: &Metadata, to: Dialect) -> Result<(Map<String, Value>, Value)> {
    let mut user = said.attributes.clone();
    if from.layout.names.is_some() {
        // Documents get them from the dimensions themselves.
        user.shift_remove(DIMENSION_NAMES);
    }
    let is_there = user.get(ATTRIBUTE).is_some_and(is_own);
    let mut own = is_there.then(|| user.shift_remove(ATTRIBUTE)).flatten().unwrap_or_else(|| json!({}));
    if let (OmePlace::Aside, Some(own)) = (rules(to).ome, own.as_object_mut().filter(|_| !said.is_ome_of_array)) {
        groups::put_ome_aside(&mut user, own);
    }
    if own != json!({}) && user.contains_key(ATTRIBUTE) {
        let reason = format!(
            "has no other place for OME-Zarr's metadata than the attribute {ATTRIBUTE:?}, which is taken by another \
             one of that name; rename that, or choose zarr3"
        );
        return Err(Error::config("dialect", to, reason));
    }
    if let Some(mut own) = ProvenanceMut::of_attribute(&mut own) {
        own.forget_layout(rules(from.layout.dialect), rules(to));
    }
    Ok((user, own))
}

/// The dimensions: sizes as asked for or as they are, meanings and scales from OME-Zarr's metadata where there are
/// some.
fn dims(array: &Array, names: &[String], attributes: &Map<String, Value>, options: &RepackOptions) -> Result<Vec<Dim>> {
    let metadata = array.metadata();
    let count = metadata.layout.shape.len();
    if !rules(options.to()).shares_files && !options.shard.is_empty() {
        let reason = format!("each chunk is a file in {}; leave the shape of shards out", options.to());
        return Err(Error::config("shard", format_args!("{:?}", options.shard), reason));
    }
    let volume = rules(options.to()).numbers_chunks;
    // Shards of a volume are boxes of a power of two: what was elsewhere is hardly one.
    let kept =
        if array.shard_shape().is_some() && !volume { metadata.layout.file_within_grid() } else { vec![0; count] };
    let chunk = target::sizes("chunk", &options.chunk, &metadata.layout.chunk_shape)?;
    let shard = target::sizes("shard", &options.shard, &kept)?;
    let dim = |(at, name): (usize, &String)| {
        let size = metadata.layout.shape[at];
        Dim { chunk: chunk[at], shard: shard[at], ..Dim::new(name, kind_of(name), size) }
    };
    let mut dims: Vec<Dim> = names.iter().enumerate().map(dim).collect();
    let placed = describe(&mut dims, attributes);
    if let (Err(reason), true, None) = (placed, volume, options.volume.resolution) {
        let reason = format!(
            "its {reason}; a volume has one resolution along each axis, which the option `volume.resolution` can give"
        );
        return Err(Error::unsupported(array.path(), reason));
    }
    if volume && options.volume.resolution.is_none() {
        let spaces: Vec<bool> = dims.iter().map(|dim| dim.kind == DimKind::Space).collect();
        refuse_distances(array, attributes, &spaces)?;
    }
    let own_channel = channel_dimension(attributes);
    for dim in &mut dims {
        if own_channel == Some(&dim.name) {
            dim.kind = DimKind::Channel;
        }
    }
    if volume && options.chunk.is_empty() {
        // A chunk of a volume has all channels, and the plan knows how many that are.
        dims.iter_mut().filter(|dim| dim.kind == DimKind::Channel).for_each(|dim| dim.chunk = 0);
    }
    Ok(dims)
}

/// The names of the dimensions, each another.
struct Names {
    names: Vec<String>,
    /// Nobody has said them: they are for the plan, and not for documents.
    guessed: bool,
}

impl Names {
    /// As the array says them, or else as OME-Zarr's axes do.
    fn of(layout: &Layout, attributes: &Map<String, Value>) -> Self {
        let count = layout.shape.len();
        let image = first_image(attributes);
        let own = layout.names.clone().filter(|names| groups::is_complete(names, count));
        let said = own.or_else(|| groups::axes_names(image?, count));
        Self { guessed: said.is_none(), names: said.unwrap_or_else(|| usual_names(count)) }
    }
}

fn usual_names(count: usize) -> Vec<String> {
    let usual = ["t", "c", "z", "y", "x"];
    let name = |at: usize| match (at + usual.len()).checked_sub(count) {
        Some(known) => usual[known].to_owned(),
        None => format!("dim_{at}"),
    };
    (0..count).map(name).collect()
}

fn kind_of(name: &str) -> DimKind {
    match name {
        "t" | "time" => DimKind::Time,
        "c" | "channel" => DimKind::Channel,
        "z" | "y" | "x" => DimKind::Space,
        _ => DimKind::Other,
    }
}

/// Takes over what OME-Zarr says of the axes.
///
/// # Errors
///
/// How the image is placed, for a sentence, where that is no scale of each axis.
fn describe(dims: &mut [Dim], attributes: &Map<String, Value>) -> Result<(), String> {
    let Some(image) = first_image(attributes).filter(|image| image.axes().len() == dims.len()) else { return Ok(()) };
    let grid = image.levels().next().map(|level| image.place(level)).transpose();
    let known = grid.as_ref().ok().and_then(Option::as_ref);
    for (at, (dim, axis)) in dims.iter_mut().zip(image.axes()).enumerate() {
        dim.kind = axis.kind.unwrap_or(dim.kind);
        dim.unit = axis.unit.map(str::to_owned);
        let scale = known.map(|grid| grid.scale[at]);
        dim.scale = scale.filter(|scale| scale.is_finite() && *scale > 0.0).unwrap_or(1.0);
    }
    grid.map(drop)
}

fn first_image(attributes: &Map<String, Value>) -> Option<Multiscale<'_>> {
    multiscales::images(attributes.get("ome")?).next()
}

/// Refuses distances of pixels that a volume has no resolution for. `spaces`: which dimensions it has one for.
fn refuse_distances(array: &Array, attributes: &Map<String, Value>, spaces: &[bool]) -> Result<()> {
    let Some(image) = first_image(attributes).filter(|image| image.axes().len() == spaces.len()) else { return Ok(()) };
    let Some(Ok(grid)) = image.levels().next().map(|level| image.place(level)) else { return Ok(()) };
    let mut distances = image.axes().zip(&grid.scale).zip(spaces).filter(|(_, is_space)| **is_space);
    match distances.find(|((_, scale), _)| **scale <= 0.0) {
        Some(((axis, scale), _)) => {
            let reason = format!(
                "its image has the scale {scale} along {}, and a volume's resolution is above 0; the option \
                 `volume.resolution` can give one",
                axis.name.unwrap_or("an axis without a name")
            );
            Err(Error::unsupported(array.path(), reason))
        }
        None => Ok(()),
    }
}

/// That a volume has a resolution in nanometers which nobody has said in a unit of length.
fn note_of_resolution(array: &Array, config: &Config, plan: &Plan, options: &RepackOptions) -> Option<String> {
    let [x, y, z] = plan.array.layout.volume()?.resolution?;
    if array.layout().volume().is_some() || options.volume.resolution.is_some() {
        return None;
    }
    let is_told = |dim: &Dim| dim.unit.as_deref().is_some_and(|unit| units::nanometers(unit).is_some());
    let untold = config.dims.iter().filter(|dim| dim.kind == DimKind::Space && !is_told(dim));
    let untold: Vec<String> = untold
        .map(|dim| match &dim.unit {
            Some(unit) => format!("{} (in {unit:?})", dim.name),
            None => format!("{} (no unit)", dim.name),
        })
        .collect();
    (!untold.is_empty()).then(|| {
        format!(
            "the resolution of the volume is {x},{y},{z} nanometers, which is a guess along {}: only OME-Zarr's \
             units of length are converted; the option `volume.resolution` gives another",
            untold.join(", ")
        )
    })
}

/// The scale that an array was in a volume. An array of a volume has z, y and x last, or y and x alone.
fn carried_scale<'a>(array: &Array, attributes: &'a Map<String, Value>) -> Option<&'a Value> {
    let [outer @ .., y, x] = array.shape() else { return None };
    let deep = outer.last().and_then(|z| scale(attributes, [*x, *y, *z]));
    deep.or_else(|| scale(attributes, [*x, *y, 1]))
}

/// The folders in which a scale of this name stands below its volume, if it keeps them: those that could be a scale's
/// own name, too.
fn folder_of(key: &str) -> Option<String> {
    let (folder, _) = key.rsplit_once('/')?;
    let is_plain = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        !part.is_empty() && !part.starts_with('.') && part.chars().all(plain)
    };
    let is_free = ![precomputed::DOCUMENT, RECORDS].contains(&folder.split('/').next()?);
    (is_free && folder.split('/').all(is_plain)).then(|| folder.to_owned())
}

/// What is asked of a volume; where nothing is, what the old one was, if it was one.
fn volume_of(array: &Array, attributes: &Map<String, Value>, options: &RepackOptions) -> Volume {
    let mut volume = options.volume.clone();
    if !rules(options.to()).numbers_chunks {
        return volume;
    }
    let Some(old) = array.layout().volume() else {
        let carried = carried_scale(array, attributes);
        if let (Some(offset), [0, 0, 0]) = (carried.and_then(voxel_offset), volume.voxel_offset) {
            volume.voxel_offset = offset;
        }
        // A name that nobody chose tells the resolution.
        if let (Some(key), None) = (carried.and_then(|scale| scale["key"].as_str()), volume.resolution) {
            volume.key = volume.key.or_else(|| Some(key.to_owned()));
        }
        return volume;
    };
    if let Some(shards) = old.shards().filter(|_| volume == Volume::default()) {
        (volume.hash, volume.gzip_indexes) = (shards.spec.hash, shards.spec.gzip_indexes);
        if options.chunk.is_empty() && options.shard.is_empty() {
            let bits = |bits: u32| u8::try_from(bits).ok();
            volume.preshift_bits = bits(shards.spec.preshift_bits);
            volume.minishard_bits = bits(shards.spec.minishard_bits);
        }
    }
    if volume.voxel_offset == [0; 3] {
        volume.voxel_offset = old.voxel_offset;
    }
    volume.resolution = volume.resolution.or(old.resolution);
    volume.key = volume.key.or_else(|| Some(old.key().to_owned()));
    volume
}

/// What was planned for bytes, for the elements that the array has.
fn of_elements(array: &Array, config: &Config, planned: Metadata) -> Result<Metadata> {
    let Metadata { dtype, fill, .. } = array.metadata().clone();
    let chain = Chain::new(config.codec.clone(), false, dtype, None);
    Metadata { dtype, fill, chain, ..planned }.check(array.path())
}

/// Refuses elements that the dialect has no type for.
pub(super) fn refuse_lacking(array: &Array, dialect: Dialect) -> Result<()> {
    let element = array.dtype();
    if format::holds(dialect, element) {
        return Ok(());
    }
    let able = format::holders(element);
    let reason = format!("its elements are {element}, which {} can't hold; {} can", dialect.name(), able.join(", "));
    Err(Error::unsupported(array.path(), reason))
}

/// The fill value as a configuration has it; of what is no number, 0.
fn fill_value(metadata: &Metadata) -> f64 {
    let Some(dtype) = metadata.dtype.number() else { return 0.0 };
    let mut wide = [0; 8];
    wide[..metadata.fill.len()].copy_from_slice(&metadata.fill);
    let bits = u64::from_le_bytes(wide);
    match dtype {
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => bits as f64,
        Dtype::I8 => f64::from(bits as i8),
        Dtype::I16 => f64::from(bits as i16),
        Dtype::I32 => f64::from(bits as i32),
        Dtype::I64 => bits.cast_signed() as f64,
        Dtype::F32 => f64::from(f32::from_bits(bits as u32)),
        Dtype::F64 => f64::from_bits(bits),
    }
}

fn check_fill(metadata: &Metadata, plan: &Plan) -> Result<()> {
    // Of a NaN, documents only say that it is one.
    if metadata.fill == plan.frame.fill || fill_value(metadata).is_nan() {
        return Ok(());
    }
    let value = format::fill_value::to_json(metadata.dtype, &metadata.fill);
    let reason = "needs more than the 53 bits of a number that every reader takes; Zarr v3 can hold it: choose zarr3";
    Err(Error::config("fill_value", value, reason))
}

/// Refuses numbers that Python writes and JSON does not have: readers of volumes open no document with them.
fn refuse_beyond_json(info: &Value, dialect: Dialect) -> Result<()> {
    let Some((place, token)) = document::beyond_json(info) else { return Ok(()) };
    let place = place.strip_prefix("/attributes").unwrap_or(&place);
    let reason = format!(
        "the attribute {:?} is {token}, which JSON has no number for, and no reader opens a volume with it; make it a \
         text, or choose zarr3",
        place.trim_start_matches('/')
    );
    Err(Error::config("dialect", dialect, reason))
}

/// Whether the options ask for anything but the order of chunks.
pub(super) fn is_asked_for(options: &RepackOptions) -> bool {
    let RepackOptions { codec, chunk, shard, index_location, index_checksum, volume, .. } = options;
    codec.is_some()
        || !chunk.is_empty()
        || !shard.is_empty()
        || index_location.is_some()
        || index_checksum.is_some()
        || *volume != Volume::default()
}
