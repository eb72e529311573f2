//! What an array becomes in a dialect other than Zarr v3. The writer's own plan says what can be and how it is cut, and
//! the writer's own documents describe it; from these the reader knows where everything goes.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::image_attributes::ImageAttributes;
use super::options::RepackOptions;
use super::volume::{keep_depth, keep_key, note_of_resolution, refuse_distances, volume_of};
use super::{groups, refusal, target};
use crate::config::{Codec, Config, Dialect, Dim, DimKind, FillValue, IndexLocation, OmeVersion, Volume};
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::format::codecs::Chain;
use crate::format::layout::{Files, Layout};
use crate::format::precomputed::carried::{CARRIED, deliver, is_carried};
use crate::format::provenance::{self, ATTRIBUTE, ProvenanceMut, channel_dimension, is_own};
use crate::format::{self, DIMENSION_NAMES, Document, Metadata, NodePaths, OmePlace, ngff, rules, zarr2};
use crate::fs::document;
use crate::offline::array::Array;
use crate::offline::hierarchy;
use crate::offline::repack::staging::below;
use crate::ome;
use crate::ome::multiscales::first_path;
use crate::plan::Plan;
use crate::words::{count, quoted};

/// An array as the writer would have written it.
#[derive(Debug)]
pub(super) struct Design {
    pub(super) codec: Codec,
    pub(super) plan: Plan,
    /// By their names below the dataset. They don't say yet how many chunks there are.
    pub(super) documents: Vec<Document>,
    /// What somebody should know of it, as sentences.
    pub(super) notes: Vec<String>,
    /// The array's name, where it keeps its place in a tree of Zarr v2. Otherwise it becomes the image of a dataset.
    pub(super) stays: Option<String>,
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
        let known = names_of(&metadata.layout, attributes);
        // Names that nobody has said are for the plan, and not for documents.
        let is_guess = known.is_none();
        let names = known.unwrap_or_else(|| usual_names(metadata.layout.shape.len()));
        let of_element = |dtype| FillValue::of_element(dtype, &metadata.fill);
        let mut config = Config {
            // The plan takes other elements for bytes; what they are is said to its result.
            dtype: metadata.dtype.number().unwrap_or(Dtype::U8),
            dialect: options.to(),
            dims: dims(array, &names, attributes, options)?,
            // Checksums that the dialect has no place for are left behind.
            codec: options.codec.clone().unwrap_or(Codec { checksum: false, ..array.codec().clone() }),
            index_location: options.index_location.unwrap_or(IndexLocation::End),
            index_checksum: options.index_checksum.unwrap_or(true),
            volume: volume_of(array, attributes, options),
            fill_value: metadata.dtype.number().map_or_else(FillValue::default, of_element),
            ..Config::default()
        };
        let mut notes = config.place_volume();
        keep_depth(&mut config, array, attributes, options);
        let folder = keep_key(&mut config, array, attributes, options);
        let unnamed = |error| if is_guess { without_names(error, config.dims.len(), options.to()) } else { error };
        let mut plan = Plan::on_disk(&config).map_err(unnamed)?;
        if metadata.dtype.number().is_none() {
            plan.array = of_elements(array, &config, plan.array)?;
        }
        plan.array.fill = format::fill_value::as_told(metadata.dtype, &plan.array.fill);
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
        if is_guess && !rules(options.to()).numbers_chunks {
            // Some of them may have names all the same.
            plan.array.layout.names.clone_from(&metadata.layout.names);
        }
        let documents = if let Some(name) = stays {
            vec![(hierarchy::below(name, zarr2::ARRAY), zarr2::array(&plan.array, &plan.array.layout.shape))]
        } else {
            notes.extend(note_of_resolution(array, &config, &plan, options));
            image_documents(array, said, &config, &plan)?
        };
        Ok(Self { codec: config.codec, plan, documents, notes, stays: stays.map(str::to_owned) })
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

    /// The ids of the chunks of a shard that is no box.
    pub(super) fn ids(&self, position: &[u64]) -> &[u64] {
        let volume = self.plan.volume.as_ref();
        volume.and_then(|volume| volume.ids_of(*position.first()? as usize)).unwrap_or(&[])
    }
}

fn image_documents(array: &Array, said: &ImageAttributes, config: &Config, plan: &Plan) -> Result<Vec<Document>> {
    let of_array = &said.of_array;
    let (metadata, to) = (array.metadata(), config.dialect);
    let (mut user, mut own) = split(said, metadata, to)?;
    let to_volume = rules(to).numbers_chunks;
    let is_described = metadata.attributes.get("ome").is_some() || groups::has_ome_aside(&metadata.attributes);
    // Of volumes of this crate's writer, only an offset says a place; those of others are half a voxel behind none.
    let says_place = provenance::own(&metadata.attributes).is_some() || config.volume.voxel_offset != [0; 3];
    if to_volume && metadata.layout.volume().is_some() && !is_described && says_place {
        // Its own document says it.
        own.as_object_mut().map(|own| own.shift_remove("ome"));
    }
    // What a volume said, of which this one's document has not spoken yet.
    let is_said = to_volume && user.get(CARRIED).is_some_and(|carried| is_carried(carried, array.shape()));
    let mut carried = Map::from_iter(is_said.then(|| user.shift_remove_entry(CARRIED)).flatten());
    let in_documents = rules(to).ome == OmePlace::Documents && user.get("ome").is_some_and(ngff::is_ome);
    let kept = if in_documents { user.shift_remove("ome") } else { None };
    let kept = kept.filter(|ome| first_path(ome) == Some("0"));
    // Of axes whose names are guessed, nothing is said.
    let is_named = |names: &[String]| groups::is_complete(names, config.dims.len());
    let is_image =
        plan.array.layout.names.as_deref().is_some_and(is_named) && ome::incompatibility(&config.dims).is_none();
    // An array of others of which nothing is said is no image of OME-Zarr. A volume says all of its own.
    let is_image = is_image && (metadata.layout.volume().is_some() || own != json!({}));
    let made = || (is_image && !user.contains_key("ome")).then(|| ome::image_attributes(config, &config.channels, &[]));
    let ome = kept.or_else(made);
    if let (true, Some(taken)) =
        (rules(to).ome_versions.contains(&OmeVersion::V0_4), ngff::taken_in_0_4(ome.as_ref(), &user))
    {
        return Err(groups::taken(said.holders.get(&taken).map_or(array.path(), PathBuf::as_path), &taken));
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
    refusal::refuse_shards(options)?;
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
    let placed = describe(&mut dims, attributes, volume && metadata.layout.volume().is_none());
    if let (Err(reason), true, None) = (placed, volume, options.volume.resolution) {
        let reason = format!(
            "{}: its {reason}; a volume has one resolution along each axis, which the option `volume.resolution` can \
             give",
            array.path().display()
        );
        return Err(Error::config("dialect", options.to(), reason));
    }
    if volume && options.volume.resolution.is_none() {
        let spaces: Vec<bool> = dims.iter().map(|dim| dim.kind == DimKind::Space).collect();
        refuse_distances(array, attributes, &spaces, options.to())?;
    }
    let own_channel = channel_dimension(attributes);
    dims.iter_mut().filter(|dim| own_channel == Some(&dim.name)).for_each(|dim| dim.kind = DimKind::Channel);
    if volume && options.chunk.is_empty() {
        // A chunk of a volume has all channels, and the plan knows how many that are.
        dims.iter_mut().filter(|dim| dim.kind == DimKind::Channel).for_each(|dim| dim.chunk = 0);
    }
    Ok(dims)
}

/// The names of the dimensions, each another: as the array says them, or else as OME-Zarr's axes do.
fn names_of(layout: &Layout, attributes: &Map<String, Value>) -> Option<Vec<String>> {
    let count = layout.shape.len();
    let own = layout.names.clone().filter(|names| groups::is_complete(names, count));
    own.or_else(|| groups::axes_names(groups::first_image(attributes)?, count))
}

/// A refusal of dimensions whose names nobody has said, and nobody knows.
fn without_names(error: Error, dimensions: usize, to: Dialect) -> Error {
    match error {
        Error::Config { field: "dims", reason, .. } => {
            let dimensions = count(dimensions, "dimension");
            Error::config("dialect", to, format!("{dimensions} without names: {reason}"))
        }
        other => other,
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

/// Takes over what OME-Zarr says of the axes. `moves`: also where the first element is. Where the image is not placed
/// by a scale of each axis, the error says how it is.
fn describe(dims: &mut [Dim], attributes: &Map<String, Value>, moves: bool) -> Result<(), String> {
    let Some(image) = groups::first_image(attributes).filter(|image| image.axes().len() == dims.len()) else {
        return Ok(());
    };
    let grid = image.levels().next().map(|level| image.place(level)).transpose();
    let known = grid.as_ref().ok().and_then(Option::as_ref);
    for (at, (dim, axis)) in dims.iter_mut().zip(image.axes()).enumerate() {
        dim.kind = axis.kind.unwrap_or(dim.kind);
        dim.unit = axis.unit.map(str::to_owned);
        let scale = known.map(|grid| grid.scale[at]);
        dim.scale = scale.filter(|scale| scale.is_finite() && *scale > 0.0).unwrap_or(1.0);
        let places = known.filter(|_| moves).and_then(|grid| grid.translation.as_ref());
        dim.translation = places.map_or(0.0, |places| places[at]);
    }
    grid.map(drop)
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
    let (path, name) = (array.path().display(), dialect.name());
    let reason = format!("{path}: its elements are {element}, which {name} can't hold; {} can", able.join(", "));
    Err(Error::config("dialect", name, reason))
}

/// Refuses numbers that Python writes and JSON does not have: readers of volumes open no document with them.
fn refuse_beyond_json(info: &Value, dialect: Dialect) -> Result<()> {
    let Some((place, token)) = document::beyond_json(info) else { return Ok(()) };
    let place = place.strip_prefix("/attributes").unwrap_or(&place);
    let reason = format!(
        "the attribute {} is {token}, which JSON has no number for, and no reader opens a volume with it; make it a \
         text, or choose zarr3",
        quoted(place.trim_start_matches('/'))
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
