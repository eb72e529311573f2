//! What an array is to become: its document, and from this everything else.

use serde_json::Value;

use super::options::RepackOptions;
use crate::config::{Codec, IndexLocation};
use crate::error::{Error, Result};
use crate::format::codecs::Chain;
use crate::format::index::table::TableLayout;
use crate::format::keys::KeyEncoding;
use crate::format::layout::{Files, Layout, product};
use crate::format::{DIMENSION_NAMES, Metadata, rules, zarr3};
use crate::geometry::nearest_multiples;
use crate::offline::array::Array;
use crate::offline::hierarchy::walk::Node;
use crate::offline::shared_records::has_shards;
use crate::words::count;

/// Whether the options concern this array.
pub(super) fn is_meant(array: &Array, options: &RepackOptions) -> bool {
    let may_shard = (!options.shard.is_empty() || options.is_unsharded()) && array.shape().len() > 1;
    has_shards(array) || may_shard || changes_format(array)
}

/// Whether an array is of another format than a tree of Zarr v3, and becomes part of one.
pub(super) fn changes_format(array: &Array) -> bool {
    !array.layout().rules().is_tree
}

/// The array after repacking and its document; the same as before where nothing changes in it. `names`: of its
/// dimensions, should it have none itself.
pub(super) fn of(
    node: &Node,
    array: &Array,
    names: Option<Vec<String>>,
    options: &RepackOptions,
) -> Result<(Metadata, Value)> {
    let metadata = array.metadata();
    let layout = &metadata.layout;
    let is_new = changes_format(array);
    let unsharded = options.is_unsharded();
    if is_new {
        refuse_undecided(array, options)?;
    }
    // Chunks that are shards themselves are files no more than other shards.
    let innermost = metadata.chain.innermost_chunk().filter(|_| unsharded);
    let chunk = sizes("chunk", &options.chunk, innermost.as_ref().unwrap_or(&layout.chunk_shape))?;
    let reshaped = chunk != layout.chunk_shape || innermost.is_some();
    let kept = if layout.has_index() { layout.file_within_grid() } else { chunk.clone() };
    let shard = if unsharded { chunk.clone() } else { sizes("shard", &options.shard, &kept)? };
    refuse_parts_of_chunks(&shard, &chunk)?;
    let chain = chain(metadata, options, reshaped);
    let old = layout.table().filter(|_| !is_new);
    let index = if unsharded { None } else { Some(index_of(&shard, &chunk, old, options)?) };
    let is_cut_so = !reshaped && shard == layout.file_shape && metadata.manifest.is_none();
    if !is_new && old == index && is_cut_so {
        return cut_as_it_is(node, metadata, chain);
    }
    let keys = match &layout.files {
        Files::Grid { keys, .. } if !is_new && metadata.manifest.is_none() => *keys,
        _ => KeyEncoding::of_writer(rules(options.to()).key_prefix),
    };
    let names = layout.names.clone().or(names);
    let mut attributes = metadata.attributes.clone();
    if let (true, Some(attributes)) = (is_new && names.is_some(), attributes.as_object_mut()) {
        // The document has a place of its own for them.
        attributes.shift_remove(DIMENSION_NAMES);
    }
    let files = Files::Grid { keys, index };
    let layout = Layout {
        dialect: options.to(),
        shape: layout.shape.clone(),
        names,
        chunk_shape: chunk,
        file_shape: shard,
        files,
        index_order: None,
    };
    let is_fill_undefined = metadata.is_fill_undefined && rules(options.to()).undefined_fill;
    let target = Metadata { layout, chain, attributes, is_fill_undefined, manifest: None, ..metadata.clone() };
    let target = target.check(&node.path);
    let target = target.map_err(|error| match error {
        Error::Unsupported { reason, .. } if !options.chunk.is_empty() => {
            Error::config("chunk", format_args!("{:?}", options.chunk), reason)
        }
        other => other,
    })?;
    let document = if is_new { new_document(&target) } else { changed_document(node, metadata, &target)? };
    Ok((target, document))
}

fn refuse_parts_of_chunks(shard: &[u64], chunk: &[u64]) -> Result<()> {
    let mut lengths = shard.iter().zip(chunk);
    let Some((&shard, &chunk)) = lengths.find(|(shard, chunk)| *shard % *chunk != 0) else { return Ok(()) };
    let near = nearest_multiples(shard, chunk);
    Err(Error::config("shard", shard, format!("is no multiple of the chunk's {}, as {near}", count(chunk, "element"))))
}

/// Of an array that keeps its chunks and shards, and may get another codec.
fn cut_as_it_is(node: &Node, metadata: &Metadata, chain: Chain) -> Result<(Metadata, Value)> {
    let (mut same, mut document) = (metadata.clone(), node.document()?);
    if chain.document != metadata.chain.document {
        same.chain = chain;
        same.layout.index_order = None;
        zarr3::set_chunks(&mut document, &same);
    }
    Ok((same, document))
}

/// Refuses an array of another format of which nobody says how large its shards are to be.
fn refuse_undecided(array: &Array, options: &RepackOptions) -> Result<()> {
    let is_decided = array.shard_shape().is_some() || !options.shard.is_empty() || options.is_unsharded();
    if is_decided || !array.layout().has_index() {
        return Ok(());
    }
    let reason = "its shards are no boxes, as those of Zarr are; the option `shard` says how large shards shall be, \
                  and the option `sharding` that there are to be none";
    Err(Error::config("dialect", options.to(), reason))
}

fn new_document(target: &Metadata) -> Value {
    let mut document = zarr3::array(target, &target.layout.shape);
    document["attributes"] = target.attributes.clone();
    document
}

/// The document that is there, with other chunks.
fn changed_document(node: &Node, old: &Metadata, target: &Metadata) -> Result<Value> {
    let mut document = node.document()?;
    zarr3::set_chunks(&mut document, target);
    if old.manifest.is_some() {
        zarr3::replace_manifest(&mut document);
    }
    Ok(document)
}

/// The index of a shard: as asked for, or as the old one.
fn index_of(shard: &[u64], chunk: &[u64], old: Option<TableLayout>, options: &RepackOptions) -> Result<TableLayout> {
    let location = options.index_location.or(old.map(TableLayout::location)).unwrap_or(IndexLocation::End);
    let checksum = options.index_checksum.or(old.map(TableLayout::has_checksum)).unwrap_or(true);
    let per_shard: Vec<u64> = shard.iter().zip(chunk).map(|(shard, chunk)| shard / chunk).collect();
    let index = product(&per_shard).and_then(|chunks| TableLayout::new(chunks, location, checksum));
    let big_endian = old.is_some_and(|table| table.big_endian);
    index.map(|index| index.in_byte_order(big_endian)).ok_or_else(|| {
        let reason = format!("shards of {shard:?} hold too many chunks of {chunk:?}");
        Error::config("shard", format_args!("{shard:?}"), reason)
    })
}

/// Sizes of all dimensions: the ones given are for the last dimensions, 0 keeps what is.
pub(super) fn sizes(field: &'static str, chosen: &[u64], now: &[u64]) -> Result<Vec<u64>> {
    let Some(skipped) = now.len().checked_sub(chosen.len()) else {
        let reason =
            format!("has {}, but an array has {}", count(chosen.len(), "number"), count(now.len(), "dimension"));
        return Err(Error::config(field, format_args!("{chosen:?}"), reason));
    };
    let mut sizes = now.to_vec();
    for (size, &chosen) in sizes[skipped..].iter_mut().zip(chosen).filter(|(_, chosen)| **chosen != 0) {
        *size = chosen;
    }
    Ok(sizes)
}

fn chain(metadata: &Metadata, options: &RepackOptions, reshaped: bool) -> Chain {
    let plain = |codec: &Codec| Chain::new(codec.clone(), false, metadata.dtype, None);
    match &options.codec {
        Some(codec) => plain(codec),
        // What is encoded again is written in the order of elements and bytes in which it was read.
        None if reshaped && !metadata.chain.is_plain() => plain(metadata.chain.element_codec()),
        None => metadata.chain.clone(),
    }
}
