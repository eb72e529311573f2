//! What each format can hold. Who plans, repacks or describes asks these rules, and not which format it is.

use super::keys::Prefix;
use crate::config::{Dialect, OmeVersion};
use crate::dtype::{Dtype, ElementType};

/// What a format can hold, and what it asks for.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Chunks share files. Without shards, there is none to be filled while frames come: only a repacking makes such a
    /// dataset.
    pub(crate) shares_files: bool,
    /// Chunks are known by numbers of their own, by which shards are filled as [`Volume`](crate::config::Volume) says:
    /// a shard is hardly a box of any size, one chunk holds all channels, and the size of the array is part of what the
    /// numbers mean.
    pub(crate) numbers_chunks: bool,
    /// The last chunks end with the array, where those of other formats are whole and reach beyond it.
    pub(crate) cuts_chunks: bool,
    /// Arrays are called by their resolutions, the finest first, and not by places in a tree.
    pub(crate) names_resolutions: bool,
    /// A dataset is a tree of images, levels and other arrays, and may be an archive. Of other formats, this crate
    /// writes one image.
    pub(crate) is_tree: bool,
    /// Nodes may stand below an array, where this crate's writer puts the records of one that is at the root.
    pub(crate) nodes_below_arrays: bool,
    /// Documents stand apart from the files of their arrays.
    pub(crate) central_documents: bool,
    /// This crate writes arrays whose chunks are files.
    pub(crate) plain_files: bool,
    /// What stands before the numbers of a key in arrays that this crate writes.
    pub(crate) key_prefix: Prefix,
    /// Readers want a shard to be there even if nothing is in it.
    pub(crate) keeps_empty: bool,
    pub(crate) ome: OmePlace,
    /// The versions of OME-Zarr whose metadata the documents can have.
    pub(crate) ome_versions: &'static [OmeVersion],
    /// What can go wrong with other readers.
    pub(crate) caution: Option<&'static str>,
    /// The names of the compressors that it has; `None`: all.
    pub(crate) compressors: Option<&'static [&'static str]>,
    /// The codec's and the index's own checksum, and an index in either place.
    pub(crate) checksums: bool,
    /// The types of a frame's pixels that it lacks.
    pub(crate) lacks: &'static [Dtype],
    /// The names of an array's dimensions are one of its attributes, as xarray has them.
    pub(crate) names_in_attributes: bool,
    /// Elements may be other than the numbers that cameras give.
    pub(crate) other_elements: bool,
    /// Elements may be bytes of which nothing else is known.
    pub(crate) raw_elements: bool,
    /// What was never written may read as other than 0.
    pub(crate) fill_values: bool,
    /// What was never written may read as anything.
    pub(crate) undefined_fill: bool,
    /// An array has attributes of its own, beside those of its image.
    pub(crate) array_attributes: bool,
    /// Manifests can name its chunks.
    pub(crate) manifests: bool,
    /// The fields of an array's document that may become otherwise while the chunks stay what they are.
    pub(crate) free_fields: &'static [&'static str],
}

/// Where OME-Zarr's metadata of an image are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OmePlace {
    /// In the documents, in the words of their version.
    Documents,
    /// Among the user's attributes, as they are: no version of OME-Zarr has the format.
    Attributes,
    /// Among the writer's own: there is no array `0`, of which they speak.
    Aside,
}

const ZARR3: Rules = Rules {
    shares_files: true,
    numbers_chunks: false,
    cuts_chunks: false,
    names_resolutions: false,
    is_tree: true,
    nodes_below_arrays: false,
    central_documents: false,
    plain_files: true,
    key_prefix: Prefix::Part,
    keeps_empty: false,
    ome: OmePlace::Documents,
    ome_versions: &[OmeVersion::V0_5, OmeVersion::V0_6],
    caution: None,
    compressors: None,
    checksums: true,
    lacks: &[],
    names_in_attributes: false,
    other_elements: true,
    raw_elements: true,
    fill_values: true,
    undefined_fill: false,
    array_attributes: true,
    manifests: true,
    free_fields: &["shape", "attributes", "dimension_names"],
};

const ZARR3_DRAFT: Rules = Rules {
    is_tree: false,
    central_documents: true,
    plain_files: false,
    key_prefix: Prefix::Letter,
    ome: OmePlace::Attributes,
    ome_versions: &[],
    checksums: false,
    raw_elements: false,
    undefined_fill: true,
    free_fields: &["shape", "attributes"],
    ..ZARR3
};

const ZARR2: Rules = Rules {
    shares_files: false,
    is_tree: false,
    nodes_below_arrays: true,
    key_prefix: Prefix::Nothing,
    ome_versions: &[OmeVersion::V0_4],
    checksums: false,
    undefined_fill: true,
    names_in_attributes: true,
    free_fields: &["shape"],
    ..ZARR3
};

const ZARR2_SHARDED: Rules = Rules {
    shares_files: true,
    plain_files: false,
    keeps_empty: true,
    ome: OmePlace::Aside,
    ome_versions: &[],
    caution: Some(
        "only readers that know the key \"shards\" find its chunks: a plain reader of Zarr v2 passes over the key, \
         takes each shard for a chunk and misreads it",
    ),
    array_attributes: false,
    ..ZARR2
};

const PRECOMPUTED: Rules = Rules {
    key_prefix: Prefix::Nothing,
    numbers_chunks: true,
    cuts_chunks: true,
    names_resolutions: true,
    is_tree: false,
    central_documents: true,
    plain_files: false,
    ome: OmePlace::Aside,
    ome_versions: &[],
    compressors: Some(&["none", "gzip"]),
    checksums: false,
    lacks: &[Dtype::F64, Dtype::I64],
    other_elements: false,
    raw_elements: false,
    fill_values: false,
    array_attributes: false,
    // No reader of Zarr takes the shorter chunks at the end of a volume.
    manifests: false,
    free_fields: &["attributes"],
    ..ZARR3
};

pub(crate) const fn rules(dialect: Dialect) -> &'static Rules {
    match dialect {
        Dialect::Zarr3 => &ZARR3,
        Dialect::Zarr3Transformer => &ZARR3_DRAFT,
        Dialect::Zarr2Sharded => &ZARR2_SHARDED,
        Dialect::Zarr2 => &ZARR2,
        Dialect::Precomputed => &PRECOMPUTED,
    }
}

/// The names of the formats that an array of these elements can be of.
pub(crate) fn holders(element: ElementType) -> Vec<&'static str> {
    Dialect::ALL.iter().filter(|dialect| holds(**dialect, element)).map(|dialect| dialect.name()).collect()
}

pub(crate) fn holds(dialect: Dialect, element: ElementType) -> bool {
    let rules = rules(dialect);
    match element {
        ElementType::Number(dtype) => !rules.lacks.contains(&dtype),
        ElementType::Raw(_) => rules.raw_elements,
        _ => rules.other_elements,
    }
}
