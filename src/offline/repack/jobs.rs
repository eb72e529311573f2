//! What there is to do: which arrays become what, where, and what is said of them beside their own documents.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::{Value, json};

use super::change::{Change, is_same};
use super::design::{self, Design};
use super::groups::{self, RepackedGroup, has_attributes, has_ome_aside};
use super::image_attributes::ImageAttributes;
use super::left_out::{LeftOut, left_of_designed, left_of_older, left_of_others, records_of, refuse_older};
use super::missing::{self, GivenUp};
use super::nodes::{all_arrays, arrays, converted_groups, is_above};
use super::options::RepackOptions;
use super::refusal::{self, NAMES_MAX};
use super::selection::Selection;
use super::staging::Staging;
use super::target::{self, changes_format};
use super::{image_attributes, nodes, ome_lists};
use crate::config::Volume;
use crate::error::{Error, Result};
use crate::format::node;
use crate::format::provenance::ProvenanceMut;
use crate::format::{ngff, rules, zarr3};
use crate::offline::array::Array;
use crate::offline::hierarchy::below;
use crate::offline::hierarchy::walk::{Node, NodeKind};
use crate::offline::promises::Broken;
use crate::offline::shared_records::has_shards;
use crate::words::{quoted, quoted_list};

#[derive(Debug)]
pub(super) struct ArrayJob {
    pub(super) name: String,
    /// What describes it from now on; only compared where there are several.
    pub(super) document: Value,
    /// The files that are there are replaced one by one.
    pub(super) in_place: bool,
    pub(super) change: Change,
    /// Chunks in its shards, as far as they are known.
    pub(super) chunks: AtomicU64,
    /// What its writer counted and nobody has any more.
    pub(super) given_up: GivenUp,
}

impl ArrayJob {
    pub(super) fn new(name: String, document: Value, in_place: bool, change: Change) -> Self {
        let (chunks, given_up) = Default::default();
        Self { name, document, in_place, change, chunks, given_up }
    }

    /// Refuses an array that lost chunks, or notes what is given up of it.
    pub(super) fn look_for_lost(&mut self, options: &RepackOptions, was_begun: bool) -> Result<()> {
        match options.incomplete {
            true => self.given_up = GivenUp::of(&self.change)?,
            false if was_begun => {}
            false => missing::refuse(&self.change)?,
        }
        Ok(())
    }

    /// Of an array that becomes what was designed.
    pub(super) fn of_design(name: String, source: Array, design: Design, call: &Call<'_>) -> Result<Self> {
        let target = design.array(&call.place(""));
        let document = design.documents.iter().cloned().collect();
        let change = Change::new(source, target, Some(design), call.options(), call.pool.clone())?;
        Ok(Self::new(name, Value::Object(document), false, change))
    }

    /// Of an array that is as asked for but for the places of chunks, as a call that was killed at its end leaves it.
    pub(super) fn in_its_place(name: String, source: Array, call: &Call<'_>) -> Result<Self> {
        let target = source.moved(call.root, call.root);
        let change = Change::new(source, target, None, call.options(), call.pool.clone())?;
        Ok(Self::new(name, Value::Null, true, change))
    }

    /// Lets what the writer said of the array be true of what it has become.
    pub(super) fn settle(&self, own: &mut ProvenanceMut<'_>) {
        self.given_up.settle(own, self.chunks.load(Relaxed));
    }
}

/// How the result is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultForm {
    /// By the documents of Zarr v3, which each array has of its own.
    Zarr3,
    /// By those of Zarr v2, which each array has of its own, too.
    Zarr2,
    /// As it is, in another dialect.
    Kept,
    /// By the writer's documents of another dialect.
    Designed,
}

impl ResultForm {
    /// Whether each array has documents in a folder of its own.
    pub(super) fn is_tree(self) -> bool {
        matches!(self, Self::Zarr3 | Self::Zarr2)
    }
}

/// What is to be made of what: the same for all arrays.
pub(super) struct Call<'a> {
    pub(super) root: &'a Path,
    /// The result is a new dataset.
    pub(super) copied: bool,
    pub(super) staging: &'a Path,
    /// What is promised, not there, and given up.
    pub(super) absent: &'a [Broken],
    pub(super) selection: &'a Selection<'a>,
    pub(super) pool: &'a Arc<rayon::ThreadPool>,
}

impl<'a> Call<'a> {
    pub(super) fn options(&self) -> &'a RepackOptions {
        self.selection.options
    }

    /// Where the array `name` is made, if it is not changed in place.
    pub(super) fn place(&self, name: &str) -> PathBuf {
        Staging::place(self.staging, name)
    }

    /// Refuses a change in place of an array whose document is about the dataset around it.
    pub(super) fn refuse_part(&self, source: &Array) -> Result<()> {
        match self.copied || source.document().starts_with(self.root) {
            true => Ok(()),
            false => Err(refusal::of_part(source.path())),
        }
    }
}

/// What makes shards of chunks that are files.
pub(super) const TO_SHARDS: &str = "the option `shard` with lengths above 0 puts them into shards";

/// That chunks which were files of another format are files still, where nobody asked for that.
fn note_of_files(jobs: &[ArrayJob], options: &RepackOptions) -> Option<String> {
    let is_file = |job: &&ArrayJob| {
        let (from, to) = (job.change.source.metadata(), job.change.target.metadata());
        !from.layout.rules().is_tree && !to.layout.has_index() && to.layout.shape.len() > 1
    };
    let job = jobs.iter().find(is_file).filter(|_| !options.is_unsharded())?;
    let is_bare = options.codec.is_none() && !job.change.target.codec().checksum;
    let bare = if is_bare { ", without checksums" } else { "" };
    let help = if bare.is_empty() { "" } else { ", and the option `codec` encodes them with checksums" };
    Some(format!("each chunk stays a file of its own{bare}; {TO_SHARDS}{help}"))
}

/// All that there is to do.
#[derive(Debug)]
pub(super) struct ArrayJobs {
    pub(super) jobs: Vec<ArrayJob>,
    pub(super) form: ResultForm,
    pub(super) groups: Vec<RepackedGroup>,
    /// What is there only in the old format, and not copied.
    pub(super) left: Vec<PathBuf>,
    /// The folder of the records beside an image that becomes a dataset of its own: they go with it.
    pub(super) records: Option<PathBuf>,
    /// Files that take the places of others, by their names below the dataset.
    pub(super) files: Vec<(String, Vec<u8>)>,
    /// What somebody should know who reads the result, as sentences.
    pub(super) notes: Vec<String>,
}

impl ArrayJobs {
    /// The arrays that are rebuilt, rather than changed file by file.
    pub(super) fn rebuilt(&self) -> impl Iterator<Item = &ArrayJob> {
        self.jobs.iter().filter(|job| !job.in_place)
    }

    pub(super) fn new(nodes: Vec<Node>, call: &Call<'_>) -> Result<Self> {
        let (selection, options) = (call.selection, call.options());
        if rules(options.to()).is_tree {
            refuse_volume(options)?;
            let left_out = LeftOut::of_zarr3(&nodes, selection).with(call.absent, call.copied);
            let mut left = left_of_others(call.root, &nodes, selection)?;
            left.extend(left_out.paths());
            let mut notes = left_out.notes("zarr3");
            if call.copied {
                let carried: Vec<&str> = nodes::carried(&nodes, selection).map(|node| node.name.as_str()).collect();
                notes.extend(nodes::notes_of_manifests(&nodes, |node, array| {
                    selection.is_meant(node, array) || carried.contains(&node.name.as_str())
                }));
                let (documents, told) = left_of_older(&nodes, selection);
                left.extend(documents);
                notes.extend(told);
            }
            let is_zarr3 = |array: &Array| !changes_format(array);
            let stay = all_arrays(&nodes).filter(|(_, array)| is_zarr3(array)).map(|(node, _)| node.name.clone());
            let mut names: BTreeSet<String> = stay.collect();
            let (jobs, mut groups) = of_zarr3(nodes, call, &left_out, &mut notes)?;
            let lists = ome_lists::correct(&left_out, &mut groups, call.root)?;
            left.extend(lists.left);
            notes.extend(lists.notes);
            if let Some(version) = options.ome {
                notes.extend(groups::say_in(&mut groups, version, true, call.root)?);
                notes.extend(groups::note_of_nothing(&groups));
            }
            notes.extend(note_of_files(&jobs, options));
            names.extend(jobs.iter().map(|job| job.name.clone()).chain(groups.iter().map(|group| group.name.clone())));
            if call.copied {
                groups.iter_mut().for_each(|group| group.consolidate_as_before(call.root, &names));
            } else {
                let arrays = jobs.iter().filter(|job| !job.in_place).map(|job| job.change.source.path().to_path_buf());
                let changed = groups.iter().filter(|group| group.is_new);
                let changed = changed.map(|group| super::staging::below(call.root, &group.name));
                refuse_older(arrays.chain(changed))?;
            }
            return Ok(Self { jobs, form: ResultForm::Zarr3, groups, left, records: None, files: lists.files, notes });
        }
        let is_kept = |array: &Array| array.layout().dialect == options.to();
        if !design::is_asked_for(options) && arrays(&nodes).all(|(_, array)| is_kept(array)) {
            return kept(nodes, call);
        }
        designed(nodes, call)
    }

    /// All else stays as it is.
    pub(super) fn of_kept(jobs: Vec<ArrayJob>) -> Self {
        let (groups, left, records, files, notes) = Default::default();
        Self { jobs, form: ResultForm::Kept, groups, left, records, files, notes }
    }
}

/// Refuses what only a volume has.
fn refuse_volume(options: &RepackOptions) -> Result<()> {
    let Volume { key, hash, preshift_bits, minishard_bits, shard_bits, gzip_indexes, voxel_offset, resolution } =
        &options.volume;
    let usual = Volume::default();
    let fields = [
        ("volume.key", key.clone()),
        ("volume.hash", (*hash != usual.hash).then(|| hash.to_string())),
        ("volume.preshift_bits", preshift_bits.map(|bits| bits.to_string())),
        ("volume.minishard_bits", minishard_bits.map(|bits| bits.to_string())),
        ("volume.shard_bits", shard_bits.map(|bits| bits.to_string())),
        ("volume.gzip_indexes", gzip_indexes.then(|| gzip_indexes.to_string())),
        ("volume.voxel_offset", (*voxel_offset != usual.voxel_offset).then(|| format!("{voxel_offset:?}"))),
        ("volume.resolution", resolution.map(|resolution| format!("{resolution:?}"))),
    ];
    let given = fields.into_iter().find_map(|(field, value)| Some((field, value?)));
    let Some((field, value)) = given else { return Ok(()) };
    let reason = format!("only precomputed has that, but the result is {}; leave it out", options.to());
    Err(Error::config(field, value, reason))
}

/// Arrays of which only chunks change their places. Documents stay as they are.
fn kept(nodes: Vec<Node>, call: &Call<'_>) -> Result<ArrayJobs> {
    let mut jobs = Vec::new();
    let options = call.options();
    for node in nodes {
        let NodeKind::Array(source) = node.kind else { continue };
        let is_image = has_shards(&source) || (options.is_unsharded() && nodes::is_image(&source));
        if !call.selection.takes(&node.name) || !is_image {
            continue;
        }
        let root = if call.copied { call.place("") } else { call.root.to_path_buf() };
        if call.copied && !source.document().starts_with(call.root) {
            return Err(refusal::of_part(&node.path));
        }
        let target = source.moved(call.root, &root);
        let change = Change::new(*source, target, None, options, call.pool.clone())?;
        jobs.push(ArrayJob::new(node.name, Value::Null, !call.copied, change));
    }
    Ok(ArrayJobs::of_kept(jobs))
}

/// The one array that becomes a dataset of a dialect which has no others.
fn only_array(nodes: &[Node], selection: &Selection<'_>) -> Result<String> {
    let to = selection.options.to().name();
    let taken = all_arrays(nodes).filter(|(node, _)| selection.takes(&node.name));
    let scales = taken.clone().any(|(_, array)| array.layout().rules().names_resolutions);
    let sharded = taken.clone().any(|(_, array)| has_shards(array));
    let is_image = |array: &Array| has_shards(array) || (!sharded && nodes::is_image(array));
    let names: Vec<&str> = taken.filter(|(_, array)| is_image(array)).map(|(node, _)| node.name.as_str()).collect();
    match names[..] {
        [name] => Ok(name.to_owned()),
        [] => Err(refusal::of_no_image(selection.options.to())),
        _ => {
            let (names, place) = (quoted_list(names.iter().take(NAMES_MAX)), nodes[0].path.display());
            let reason = match scales && rules(selection.options.to()).plain_files {
                true => format!(
                    "only one scale of a volume becomes {to} in a call, and {names} are there: choose it with the \
                     option `only`, or make zarr3 of all of them first, and {to} of that"
                ),
                false => format!(
                    "in {to}, a call repacks one array, and {names} are there; choose it with the option `only`"
                ),
            };
            Err(Error::config("path", place, reason))
        }
    }
}

/// What is around the one array of a dataset.
struct Surroundings {
    image: ImageAttributes,
    /// What is there only in the old format, and not copied.
    left: Vec<PathBuf>,
    /// The folder of the image's records.
    records: Option<PathBuf>,
    /// Arrays that would be missing in the result, and that nobody has given up.
    lost: Vec<String>,
    /// In the same tree of documents, the array and all around it keep their places.
    stays: bool,
}

impl Surroundings {
    fn of(nodes: &[Node], name: &str, call: &Call<'_>) -> Result<Self> {
        let to = call.options().to();
        let is_same = |node: &Node| node.array().is_some_and(|array| array.layout().dialect == to);
        let mut image = ImageAttributes::of(nodes, name, to)?;
        if !rules(to).shares_files && nodes.iter().any(|node| node.name == name && is_same(node)) {
            image.notes.clear();
            return Ok(Self { image, left: Vec::new(), records: None, lost: Vec::new(), stays: true });
        }
        let records = records_of(nodes, name);
        let left_out = LeftOut::of_designed(nodes, name, records.map(|records| &*records.name));
        let is_of_records = |group: &Node| records.is_some_and(|records| records.name == group.name);
        let groups = nodes.iter().filter(|node| node.is_group() && !is_of_records(node));
        let (around, others): (Vec<_>, Vec<_>) = groups.partition(|group| is_above(&group.name, name));
        let lost = left_out.names().filter(|lost| !call.copied || call.selection.takes(lost));
        let lost = lost.map(str::to_owned).collect();
        image.notes.extend(left_out.notes(to.name()));
        image.notes.extend(nodes::note_of_tree(nodes, name, to));
        let is_gone = |node: &Node| node.name == name || left_out.has(&node.name);
        image.notes.extend(nodes::notes_of_manifests(nodes, |node, _| is_gone(node)));
        let mut left = left_of_designed(call.root, nodes, name)?;
        for group in around.into_iter().chain(others.iter().copied()) {
            left.extend(node::ALL.map(|document| group.path.join(document)));
        }
        for group in others {
            if has_attributes(&group.document()?) {
                image.notes.push(groups::without_attributes(&group.name));
            }
        }
        left.extend(left_out.paths());
        Ok(Self { image, left, records: records.map(|records| records.path.clone()), lost, stays: false })
    }
}

/// The one array of a dataset, as the writer would write it.
fn designed(nodes: Vec<Node>, call: &Call<'_>) -> Result<ArrayJobs> {
    let options = call.options();
    let to = options.to().name();
    let name = only_array(&nodes, call.selection)?;
    let Surroundings { image, mut left, records, lost, stays } = Surroundings::of(&nodes, &name, call)?;
    let node = nodes.into_iter().find(|node| node.name == name && matches!(node.kind, NodeKind::Array(_)));
    let Some(Node { path, kind: NodeKind::Array(source), .. }) = node else { unreachable!("it was found just above") };
    let from = source.layout().dialect;
    if !call.copied && from != options.to() {
        return Err(refusal::of_other_names(&path, from, options.to()));
    }
    let refused = |error| refusal::of_array(error, &name, options);
    let design = Design::new(&source, &image, options, stays.then_some(&*name)).map_err(refused)?;
    if !call.copied && is_same(&source, &design.array(call.root)) {
        return Ok(ArrayJobs::of_kept(vec![ArrayJob::in_its_place(name, *source, call)?]));
    }
    call.refuse_part(&source)?;
    match &lost[..] {
        [] => {}
        lost if call.copied => return Err(refusal::of_neighbours(lost, &name, options)),
        [lost, ..] => {
            let reason =
                format!("a call writes one array of {to}, and {} would be lost; write to a new dataset", quoted(lost));
            return Err(Error::config("dialect", to, reason));
        }
    }
    left.push(source.document().to_path_buf());
    let notes = image.notes.into_iter().chain(design.notes.clone()).collect();
    let job = ArrayJob::of_design(name, *source, design, call)?;
    Ok(ArrayJobs { form: ResultForm::Designed, left, records, notes, ..ArrayJobs::of_kept(vec![job]) })
}

/// The arrays that are meant, and the documents of all groups. `notes`: get what these leave out.
fn of_zarr3(
    nodes: Vec<Node>,
    call: &Call<'_>,
    left_out: &LeftOut,
    notes: &mut Vec<String>,
) -> Result<(Vec<ArrayJob>, Vec<RepackedGroup>)> {
    let (selection, options) = (call.selection, call.options());
    let (mut jobs, mut groups) = (Vec::new(), Vec::new());
    let several = nodes.len() > 1;
    let converted: Vec<String> = converted_groups(&nodes, selection).map(|node| node.name.clone()).collect();
    let carried: Vec<String> = nodes::carried(&nodes, selection).map(|node| node.name.clone()).collect();
    let mut scales = 0;
    for node in nodes {
        let source = match &node.kind {
            NodeKind::Array(source) => source,
            NodeKind::Unreadable(_) => continue,
            NodeKind::Group(_) => {
                let is_converted = converted.contains(&node.name);
                groups.push(group_of_zarr3(&node, is_converted, options, left_out, notes)?);
                continue;
            }
        };
        let is_carried = carried.contains(&node.name);
        if !is_carried && !selection.is_meant(&node, source) {
            continue;
        }
        let options = &options_of(source, options, is_carried, selection.stays_files(source));
        let is_new = changes_format(source);
        if is_new && !call.copied {
            return Err(refusal::in_place(source, options.to()));
        }
        let refused = |error| refusal::of_array(error, &node.name, options);
        let group = |name: &str| groups.iter().rev().find(|group: &&RepackedGroup| group.name == name);
        let lacks_names = is_new && source.dimension_names().is_none();
        let names = lacks_names.then(|| groups::axes_of(&node.name, source.shape().len(), group)).flatten();
        let (metadata, mut document) = target::of(&node, source, names, options).map_err(refused)?;
        let mut name = node.name.clone();
        if source.layout().rules().names_resolutions {
            // The keys of scales say how fine they are; the first is the image.
            name = scales.to_string();
            scales += 1;
            document["attributes"] = json!({});
        } else if name.is_empty() && is_new && (several || has_ome_aside(source.attributes())) {
            // An array of Zarr v3 has no others below it, nor OME-Zarr's metadata, so it becomes the image of a group.
            name = "0".to_owned();
            let mut attributes = std::mem::replace(&mut document["attributes"], json!({}));
            attributes.as_object_mut().into_iter().for_each(groups::take_ome_back);
            groups.push(RepackedGroup { name: String::new(), document: zarr3::group(attributes), is_new: true });
        }
        let in_place = !call.copied && document == node.document()?;
        let path = if in_place { node.path.clone() } else { call.place(&name) };
        let target = Array::with(&path, &path, path.join(zarr3::DOCUMENT), metadata);
        let NodeKind::Array(source) = node.kind else { continue };
        let change = Change::new(*source, target, None, options, call.pool.clone())?;
        jobs.push(ArrayJob::new(name, document, in_place, change));
    }
    Ok((jobs, groups))
}

/// With which options an array becomes another: one of small files keeps its files, and what a manifest names becomes
/// such without being encoded again.
fn options_of(source: &Array, options: &RepackOptions, is_carried: bool, stays_files: bool) -> RepackOptions {
    match (is_carried, source.manifest()) {
        (true, Some(_)) => RepackOptions { codec: None, chunk: Vec::new(), ..options.of_files(0) },
        _ if is_carried || stays_files => options.of_files(source.shape().len()),
        _ => options.clone(),
    }
}

/// A group with what it says in Zarr v3. `is_converted`: it is one of Zarr v2.
pub(super) fn group_of_zarr3(
    node: &Node,
    is_converted: bool,
    options: &RepackOptions,
    left_out: &LeftOut,
    notes: &mut Vec<String>,
) -> Result<RepackedGroup> {
    let mut document = node.document()?;
    let mut is_new = node.is_central() || is_converted;
    if let Some(attributes) = document.get_mut("attributes").and_then(Value::as_object_mut) {
        groups::read_0_4(node, attributes)?;
        groups::take_ome_back(attributes);
        if is_converted && groups::is_of_collection(node) {
            ngff::series_from_0_4(attributes);
        }
        is_new |= options.ome.is_some() && groups::read_migrated(node, attributes)?;
        let is_kept = |key: &str| !left_out.has(&below(&node.name, key));
        notes.extend(image_attributes::carry_volume(node, is_kept, attributes)?);
    }
    Ok(RepackedGroup { name: node.name.clone(), document, is_new })
}
