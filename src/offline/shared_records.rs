//! Arrays of records whose blocks share files.

use std::path::Path;

use crate::config::Compressor;
use crate::error::{Error, Result};
use crate::format::keys::RECORDS;
use crate::format::record_files::{RecordFiles, table};
use crate::fs::beneath::OpenRoot;
use crate::fs::system::FileExt;
use crate::offline::array::Array;

/// How the blocks of an array lie in files, if it is one of records whose blocks share files, as this crate's writer
/// makes it.
pub(super) fn shared_files(array: &Array) -> Option<RecordFiles> {
    let (layout, codec, chain) = (array.layout(), array.codec(), &array.metadata().chain);
    let is_plain = codec.compressor == Compressor::None && !codec.checksum && (chain.is_plain() || chain.big_endian());
    let is_ours = is_plain && layout.rules().is_tree && array.manifest().is_none();
    let is_record = array.path().parent().is_some_and(|group| group.ends_with(RECORDS))
        && array.dimension_names().is_some_and(|names| names == ["frame"]);
    let (true, true, [chunk], [file]) = (is_ours, is_record, &layout.chunk_shape[..], &layout.file_shape[..]) else {
        return None;
    };
    layout.table().filter(|found| table(file / chunk).as_ref() == Some(found))?;
    RecordFiles::shared(file / chunk, chunk.checked_mul(array.dtype().size() as u64)?)
}

/// Whether an array has shards that tools may make anew: those of records hold what frames came with, and stay.
pub(super) fn has_shards(array: &Array) -> bool {
    array.layout().has_index() && shared_files(array).is_none()
}

/// Writes parts of a file of an array, each for good before the next.
pub(super) fn write_within(array: &Array, path: &Path, parts: &[(u64, &[u8])]) -> Result<()> {
    let file = OpenRoot::open(array.folder())?.open_file(path)?;
    let write = |(at, bytes): &(u64, &[u8])| file.write_all_at(bytes, *at).and_then(|()| file.sync_data());
    parts.iter().try_for_each(write).map_err(|error| Error::io("write", path, error))
}
