//! What somebody should know of an array that becomes another: what its readers may lack, and what is no more as it
//! was.

use serde_json::Value;

use super::groups::RepackedGroup;
use super::jobs::ArrayJob;
use super::nodes::is_above;
use super::options::RepackOptions;
use super::refusal::called;
use crate::config::Compressor;
use crate::dtype::ElementType;
use crate::error::{Error, Result};
use crate::format;
use crate::format::consolidated;
use crate::format::fill_value::{note_of_bits, note_of_complex};
use crate::format::precomputed::GZIP;
use crate::format::{DIMENSION_NAMES, names_to_json};
use crate::fs::document;

/// As sentences.
pub(super) fn of_job(job: &ArrayJob, groups: &[RepackedGroup], options: &RepackOptions) -> Result<Vec<String>> {
    let notes = [codecs(job, options), raw_bytes(job, groups), fill_value(job)?, other_names(job), empty_names(job)?];
    let resolution = job.change.source.note_of_resolution().map(str::to_owned);
    let notes = notes.into_iter().chain([packed_files(job, options)?, shards(job, options), resolution]);
    Ok(notes.flatten().map(|note| format!("{} {note}", called(&job.name))).collect())
}

/// Codecs that the result has, and the old array had not, or not in this format.
fn codecs(job: &ArrayJob, options: &RepackOptions) -> Option<String> {
    let (from, to) = (job.change.source.metadata(), job.change.target.metadata());
    if !to.layout.rules().is_tree || (from.layout.rules().is_tree && options.codec.is_none()) {
        return None;
    }
    let mut names = to.chain.document.iter().filter_map(|codec| Some(format::named(codec)?.0));
    let codec = names.find(|name| name.starts_with("numcodecs."))?;
    Some(format!(
        "has the codec {codec}, which is numcodecs' own: of readers of Zarr v3, only those with numcodecs open it; the \
         option `codec` gives it another"
    ))
}

/// Elements that have another name in Zarr v3.
fn raw_bytes(job: &ArrayJob, groups: &[RepackedGroup]) -> Option<String> {
    let (from, to) = (job.change.source.metadata(), job.change.target.metadata());
    let ElementType::Raw(length) = to.dtype else { return None };
    let is_renamed = to.layout.rules().is_tree && !from.layout.rules().is_tree;
    let names_it =
        |group: &RepackedGroup| is_above(&group.name, &job.name) && consolidated::nodes(&group.document).is_some();
    // A type that it does not know is in the way of all that is consolidated there.
    let groups = match groups.iter().any(names_it) {
        true => ", nor, unless told use_consolidated=False, a group whose consolidated metadata name it",
        false => "",
    };
    is_renamed.then(|| {
        format!(
            "has elements of raw bytes: |V{length} in Zarr v2 is {} in v3, as the specification calls it, which \
             zarr-python 3.1 does not open{groups}",
            to.dtype.zarr_name()
        )
    })
}

/// A fill value that the new format has no words for, and that no pixel is by not being there, or that readers misread.
fn fill_value(job: &ArrayJob) -> Result<Option<String>> {
    let (from, to) = (job.change.source.metadata(), job.change.target.metadata());
    if to.layout.rules().is_tree {
        return Ok(None);
    }
    let to = to.layout.dialect.name();
    job.change.source.refuse_without_bits(to)?;
    let of_bits = note_of_bits(from.dtype, &from.fill, "the result", to);
    Ok(of_bits.or_else(|| note_of_complex(from.dtype, &from.fill, to)))
}

/// An attribute of xarray's that names the dimensions otherwise than the array does, where the names take its place.
fn other_names(job: &ArrayJob) -> Option<String> {
    let (from, to) = (job.change.source.metadata(), job.change.target.metadata());
    let is_told = from.layout.names.is_some() || !to.layout.rules().names_resolutions;
    let is_changed = from.layout.rules().is_tree && !to.layout.rules().is_tree;
    let names = to.layout.names.as_deref().filter(|_| is_told && is_changed)?;
    let attribute = from.attributes.get(DIMENSION_NAMES)?;
    let is_other = *attribute != names_to_json(names);
    is_other.then(|| format!("has an attribute {DIMENSION_NAMES:?} that is left out: its dimensions have other names"))
}

/// Dimensions whose name is empty: other formats have only null for these.
fn empty_names(job: &ArrayJob) -> Result<Option<String>> {
    let layout = job.change.target.layout();
    let may_have_some = layout.names.iter().flatten().any(String::is_empty);
    if layout.rules().is_tree || !may_have_some {
        return Ok(None);
    }
    let document = document::read(job.change.source.document())?.unwrap_or_default();
    let has_some = document["dimension_names"].as_array().is_some_and(|names| names.contains(&Value::from("")));
    let to = layout.dialect;
    let note =
        || format!("has a dimension with an empty name, and the result one without a name: {to} knows only these");
    Ok(has_some.then(note))
}

/// Shards that nobody asked for, of a format that has no other way to be written.
fn shards(job: &ArrayJob, options: &RepackOptions) -> Option<String> {
    let (from, to) = (job.change.source.layout(), job.change.target.layout());
    let dialect = to.dialect.name();
    let note = || format!("has a file for each chunk, and the result has shards: {dialect} is written in no other way");
    (!from.has_index() && to.has_index() && options.shard.is_empty()).then(note)
}

/// Chunks that are compressed files of a volume, which no document says.
fn packed_files(job: &ArrayJob, options: &RepackOptions) -> Result<Option<String>> {
    let packings = job.change.source.packings()?;
    if let Some((path, packing)) = packings.iter().find(|(_, packing)| *packing != GZIP) {
        let reason =
            format!("is compressed with {packing}, which is not read here; files of chunks may be raw or {GZIP}");
        return Err(Error::Unsupported { path: path.clone(), reason });
    }
    let is_raw = options.codec.is_none() && job.change.target.codec().compressor == Compressor::None;
    let note = "has chunks in files that are compressed with gzip, and the result has them uncompressed; the option \
                `codec` compresses them";
    Ok((is_raw && !packings.is_empty()).then(|| note.to_owned()))
}
