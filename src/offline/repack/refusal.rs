//! Refusals of what an array is to become: they name the array, and of options only those that were given.

use std::path::Path;

use super::options::RepackOptions;
use crate::config::{Dialect, Volume};
use crate::error::{Error, Result};
use crate::format::rules;
use crate::offline::array::Array;
use crate::words::{count, quoted, shell_word};

pub(super) const NAMES_MAX: usize = 20;

/// Of the refusal of a configuration, which was made of an array and of options: the one or the others.
pub(super) fn of_array(error: Error, name: &str, options: &RepackOptions) -> Error {
    let Error::Config { field, value, reason } = error else { return error };
    let array = called(name);
    if is_given(field, options) {
        return Error::Config { field, value, reason: format!("{reason} (of {array})") };
    }
    let is_about_shards = matches!(field, "dims.shard" | "shard");
    let help = match field {
        _ if is_about_shards => "; choose others with the option `shard`",
        _ if field.starts_with("codec") => "; choose another with the option `codec`",
        _ => "",
    };
    let reason = format!("{array} has {} {value}: {reason}{help}", described(field));
    if is_about_shards && !options.chunk.is_empty() {
        return Error::config("chunk", format_args!("{:?}", options.chunk), reason);
    }
    Error::config("dialect", options.to(), reason)
}

/// Of arrays that would be lost where `only` becomes all that there is.
pub(super) fn of_neighbours(names: &[String], only: &str, options: &RepackOptions) -> Error {
    let (lost, that, both) = match names {
        [name] => (called(name), "that", "both"),
        _ => (count(names.len(), "array"), "these", "all"),
    };
    let reason = format!(
        "a call writes one array of it, which {} becomes, and {lost} beside it would be lost; leave {that} out with \
         the option `skip` {}, or choose zarr3, which has room for {both}",
        called(only),
        listed(names)
    );
    Error::config("dialect", options.to(), reason)
}

/// A name among others with commas between them.
fn escaped(name: &str) -> String {
    name.replace('\\', r"\\").replace(',', r"\,")
}

/// Names of arrays as the value of an option.
pub(super) fn listed(names: &[impl AsRef<str>]) -> String {
    let listed: Vec<_> = names.iter().take(NAMES_MAX).map(|name| escaped(name.as_ref())).collect();
    let of_all = if names.len() > NAMES_MAX { ",… with the others' names" } else { "" };
    shell_word(Path::new(&listed.join(","))) + of_all
}

/// Of lengths for more dimensions than these arrays have, by their names and numbers of dimensions. Others have enough.
pub(super) fn of_lengths(field: &'static str, lengths: &[u64], lacking: &[(&str, usize)]) -> Error {
    let names: Vec<_> = lacking.iter().map(|(name, _)| *name).collect();
    let of = match lacking {
        [(name, rank)] => format!("{} has {}", called(name), count(*rank, "dimension")),
        _ => format!("{} have fewer dimensions", count(lacking.len(), "array")),
    };
    let reason = format!(
        "has {}, but {of}; to repack the others, add the option `skip` {}, or name them with the option `only`",
        count(lengths.len(), "number"),
        listed(&names)
    );
    Error::config(field, format_args!("{lengths:?}"), reason)
}

/// Of a dataset in which no array is concerned, though it has some. `ranks`: the numbers of dimensions of those that
/// were chosen. `has_image`: one of these has rows and columns, and elements in them.
pub(super) fn of_nothing(root: &Path, ranks: &[usize], has_image: bool, options: &RepackOptions) -> Error {
    let chosen = [("only", &options.only), ("skip", &options.skip)];
    let mut chosen = chosen.into_iter().filter(|(_, names)| !names.is_empty());
    if let (true, Some((field, names))) = (ranks.is_empty(), chosen.clone().next_back()) {
        let reason = format!("of {}, no array is left that would be repacked", root.display());
        return Error::config(field, format_args!("{names:?}"), reason);
    }
    if !ranks.is_empty() && ranks.iter().all(|rank| *rank == 0) {
        let reason = "the arrays that are to be repacked have no dimensions: each is one element, and stays what it is";
        return Error::config("path", root.display(), reason);
    }
    if !options.shard.is_empty() {
        let reason = "no array that is to be repacked has shards, or rows and columns of which shards are made";
        return Error::config("shard", format_args!("{:?}", options.shard), reason);
    }
    if !has_image && !ranks.is_empty() && !rules(options.to()).plain_files {
        return of_no_image(options.to());
    }
    let help = match options.to() {
        _ if options.is_unsharded() && options.codec.is_some() => "",
        _ if options.is_unsharded() => "; its chunks are files already, and the option `codec` writes them again",
        dialect if !rules(dialect).shares_files => {
            "; its chunks are files already, and nothing is asked for that would change them: the option `codec` \
             does, or the option `chunk`, and the option `sharding` takes them as they are"
        }
        _ if options.ome.is_some() => {
            "; the option `ome` changes what groups say of others only in a new dataset, unless the option `sharding` \
             takes these arrays as well, whose chunks are files"
        }
        dialect if !rules(dialect).plain_files => {
            "; its chunks are files, and nothing is asked for that would change them: the option `codec` does, and \
             makes shards of them, because this format is not written otherwise"
        }
        _ => {
            "; the option `sharding` takes arrays whose chunks are files, and keeps them so, and the option `shard` \
             makes shards of these"
        }
    };
    let reason = format!("holds no array with shards that is to be repacked{help}");
    match chosen.next() {
        Some((field, names)) => Error::config(field, format_args!("{names:?}"), format!("{} {reason}", root.display())),
        None => Error::config("path", root.display(), reason),
    }
}

/// Of arrays of which none can be the one image of a dataset.
pub(super) fn of_no_image(to: Dialect) -> Error {
    let reason = "none of the arrays that are to be repacked has rows and columns, and at least one element";
    Error::config("dialect", to, reason)
}

/// Of an array that can't become another format where it stands.
pub(super) fn in_place(array: &Array, to: Dialect) -> Error {
    let from = array.layout().dialect;
    let reason = match array.shape().len() {
        0 | 1 if !rules(from).shares_files => format!(
            "is of {from} and has no rows and columns: such arrays are not changed in place; write the result to a new \
             dataset, in which it is one of {to}"
        ),
        _ => format!(
            "is of {from} and would become {to}, in documents of other names; write the result to a new dataset"
        ),
    };
    Error::config("path", array.path().display(), reason)
}

/// Of what would get documents of other names where it stands.
pub(super) fn of_other_names(place: &Path, from: Dialect, to: Dialect) -> Error {
    let place = place.display();
    let reason = format!("{place} is of {from}, whose documents have other names; write the result to a new dataset");
    Error::config("dialect", to, reason)
}

/// Refuses lengths of shards where each chunk is a file.
pub(super) fn refuse_shards(options: &RepackOptions) -> Result<()> {
    if rules(options.to()).shares_files || options.shard.is_empty() {
        return Ok(());
    }
    let reason = format!("each chunk is a file in {}; leave the shape of shards out", options.to());
    Err(Error::config("shard", format_args!("{:?}", options.shard), reason))
}

/// Of an array whose document is about the dataset around it.
pub(super) fn of_part(array: &Path) -> Error {
    Error::config("path", array.display(), "is described by a document of the dataset around it; name that dataset")
}

pub(super) fn called(name: &str) -> String {
    if name.is_empty() { "the array at its root".to_owned() } else { format!("the array {}", quoted(name)) }
}

/// Whether somebody asked for what is refused.
fn is_given(field: &str, options: &RepackOptions) -> bool {
    match field {
        "dims.chunk" | "chunk" => !options.chunk.is_empty(),
        "dims.shard" | "shard" => !options.shard.is_empty(),
        "index_location" => options.index_location.is_some(),
        "index_checksum" => options.index_checksum.is_some(),
        _ if field.starts_with("codec") => options.codec.is_some(),
        _ if field.starts_with("volume") => options.volume != Volume::default(),
        _ => matches!(field, "dialect" | "sharding"),
    }
}

/// What an array has, by the field of a configuration.
fn described(field: &str) -> &str {
    match field {
        "dims" => "the dimensions",
        "dims.size" => "a dimension of length",
        "dims.chunk" | "chunk" => "chunks of",
        "dims.shard" | "shard" => "shards of",
        "codec.compressor" => "the compressor",
        "codec.checksum" => "the checksum",
        "dtype" => "elements of type",
        "fill_value" => "the fill value",
        other => other,
    }
}
