//! What each format can hold. Who plans, repacks or describes asks these rules, and not which format it is.

use crate::config::Dialect;
use crate::dtype::Dtype;
#[cfg(feature = "offline")]
use crate::dtype::ElementType;

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
    /// The names of the compressors that it has; `None`: all.
    pub(crate) compressors: Option<&'static [&'static str]>,
    /// The codec's and the index's own checksum, and an index in either place.
    pub(crate) checksums: bool,
    /// The types of a frame's pixels that it lacks.
    pub(crate) lacks: &'static [Dtype],
    /// What was never written may read as other than 0.
    pub(crate) fill_values: bool,
    /// An array has attributes of its own, beside those of its image.
    pub(crate) array_attributes: bool,
    /// Manifests can name its chunks.
    pub(crate) manifests: bool,
    /// The fields of an array's document that may become otherwise while the chunks stay what they are.
    pub(crate) free_fields: &'static [&'static str],
}

const ZARR3: Rules = Rules {
    shares_files: true,
    numbers_chunks: false,
    compressors: None,
    checksums: true,
    lacks: &[],
    fill_values: true,
    array_attributes: true,
    manifests: true,
    free_fields: &["shape", "attributes", "dimension_names"],
};

const ZARR3_DRAFT: Rules = Rules { checksums: false, free_fields: &["shape", "attributes"], ..ZARR3 };

const ZARR2: Rules = Rules { checksums: false, free_fields: &["shape"], ..ZARR3 };

const PRECOMPUTED: Rules = Rules {
    numbers_chunks: true,
    compressors: Some(&["none", "gzip"]),
    checksums: false,
    lacks: &[Dtype::F64, Dtype::I64],
    fill_values: false,
    array_attributes: false,
    // No reader of Zarr takes the shorter chunks at the end of a volume.
    manifests: false,
    free_fields: &["attributes"],
    ..ZARR3
};

/// What a format can hold.
pub(crate) const fn rules(dialect: Dialect) -> &'static Rules {
    match dialect {
        Dialect::Zarr3 => &ZARR3,
        Dialect::Zarr3Transformer => &ZARR3_DRAFT,
        Dialect::Zarr2Sharded => &Rules { array_attributes: false, ..ZARR2 },
        Dialect::Zarr2 => &Rules { shares_files: false, ..ZARR2 },
        Dialect::Precomputed => &PRECOMPUTED,
    }
}

/// Whether an array of these elements can be of the format.
#[cfg(feature = "offline")]
pub(crate) fn holds(dialect: Dialect, element: ElementType) -> bool {
    match (element, dialect) {
        (ElementType::Number(dtype), _) => !rules(dialect).lacks.contains(&dtype),
        (_, Dialect::Precomputed) | (ElementType::Raw(_), Dialect::Zarr3Transformer) => false,
        (_, Dialect::Zarr3 | Dialect::Zarr3Transformer | Dialect::Zarr2 | Dialect::Zarr2Sharded) => true,
    }
}
