//! Where the chunks of an array lie: which files it has, and which byte ranges of them are chunks.

use std::mem;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::format::index::Range;
use crate::format::precomputed::{PACKINGS, packing_of};
use crate::fs::{links, look};
use crate::geometry::{cells, for_each_position};
use crate::offline::array::Array;
use crate::offline::array::shard_file::ShardFile;

/// A file and its position in an array's grid.
pub(crate) type FileAt = (PathBuf, Vec<u64>);

/// The chunks of one file, by their place in it in C order.
#[derive(Debug)]
pub(crate) struct FileChunks {
    pub(crate) path: PathBuf,
    pub(crate) ranges: Vec<Option<Range>>,
}

impl Array {
    /// The positions of the files that are there, in C order; of an array with a manifest, of the chunks that it names.
    ///
    /// Files are listed rather than computed from the shape: a shape may promise more files than there are atoms.
    pub(crate) fn file_positions(&self) -> Result<Vec<Vec<u64>>> {
        if let Some(manifest) = self.manifest() {
            return Ok(manifest.positions(self.layout()));
        }
        let mut found: Vec<_> = self.files()?.into_iter().map(|(_, position)| position).collect();
        found.sort();
        Ok(found)
    }

    pub(crate) fn files(&self) -> Result<Vec<FileAt>> {
        let (found, hidden) = self.files_and_hidden()?;
        hidden.into_iter().next().map_or(Ok(found), Err)
    }

    /// The same where something hides others: what that is, too.
    pub(crate) fn files_and_hidden(&self) -> Result<(Vec<FileAt>, Vec<Error>)> {
        let (mut found, mut hidden) = (Vec::new(), Vec::new());
        list(self, self.folder(), "", &mut |file| {
            match file {
                Ok(file) => found.push(file),
                Err(error) if look::is_about_a_file(&error) => hidden.push(error),
                Err(error) => return Err(error),
            }
            Ok(())
        })?;
        found.retain(|(_, position)| self.layout().has_file(position));
        self.take_doubles(&mut found);
        Ok((found, hidden))
    }

    /// Sorts `files`, and takes out those of chunks that are there twice, compressed and not: read is the one that is
    /// not, whose name is the shorter.
    pub(crate) fn take_doubles(&self, files: &mut Vec<FileAt>) -> Vec<PathBuf> {
        let mut doubles = Vec::new();
        if !self.layout().packs_files() {
            files.sort();
            return doubles;
        }
        files.sort_by(|(path, at), (other, other_at)| (at, path).cmp(&(other_at, other)));
        files.dedup_by(|(path, later), (_, kept)| {
            let is_double = later == kept;
            if is_double {
                doubles.push(mem::take(path));
            }
            is_double
        });
        doubles
    }

    /// Of each way in which its files are compressed as a whole, the first of them.
    pub(crate) fn packings(&self) -> Result<Vec<(PathBuf, &'static str)>> {
        let mut found: Vec<(PathBuf, &'static str)> = Vec::new();
        if !self.layout().packs_files() {
            return Ok(found);
        }
        let mut files = self.files()?;
        files.sort();
        for (path, _) in files {
            let packing = path.file_name().and_then(|name| packing_of(name.to_str()?)).map(|(_, packing)| packing);
            if let Some(packing) = packing.filter(|packing| found.iter().all(|(_, known)| known != packing)) {
                found.push((path, packing));
            }
        }
        Ok(found)
    }

    /// How many files lie beyond the array's shape, as an array has them that was made smaller.
    pub(crate) fn files_beyond(&self) -> Result<u64> {
        let mut beyond = 0;
        list(self, self.folder(), "", &mut |file| {
            beyond += u64::from(!self.layout().has_file(&file?.1));
            Ok(())
        })?;
        Ok(beyond)
    }

    /// The chunks of the file at a position; `None` when there is no such file. Not for volumes, whose shards have no
    /// places.
    ///
    /// An entry of a damaged index is an error here: who copies chunks must not leave one out silently.
    pub(crate) fn file_chunks(&self, position: &[u64]) -> Result<Option<FileChunks>> {
        let Some(file) = self.open_file(position)? else { return Ok(None) };
        let ranges = match self.layout().table() {
            None => vec![Some(file.whole())],
            Some(_) => {
                let index = self.read_index(&file, position, None)?;
                index.refuse_overlaps(&file)?;
                let damaged = |reason| Error::format(file.path(), reason);
                (0..self.layout().chunks_per_file().iter().product())
                    .map(|chunk| index.entry(chunk))
                    .collect::<Result<_, _>>()
                    .map_err(damaged)?
            }
        };
        Ok(Some(FileChunks { path: file.path().to_path_buf(), ranges }))
    }

    /// Refuses files of a box in which chunks share bytes.
    pub(in crate::offline) fn refuse_overlaps(&self, start: &[u64], shape: &[u64]) -> Result<()> {
        if !self.layout().has_index() {
            return Ok(());
        }
        let positions = match self.layout().has_boxes() {
            false => self.file_positions()?,
            true => {
                let (first, count) = cells(start, shape, &self.layout().file_shape);
                let mut positions = Vec::new();
                for_each_position(&first, &count, |position| positions.push(position.to_vec()));
                positions
            }
        };
        positions.par_iter().try_for_each(|position| match self.open_file(position)? {
            Some(file) => self.read_index(&file, position, None)?.refuse_overlaps(&file),
            None => Ok(()),
        })
    }

    /// How many chunks are stored: the others hold the fill value.
    ///
    /// # Errors
    ///
    /// When an index can't be read.
    pub fn stored_chunks(&self) -> Result<u64> {
        let count = |position: &Vec<u64>| match self.open_file(position)? {
            None => Ok(0),
            Some(file) if self.layout().has_index() => {
                Ok(self.read_index(&file, position, None)?.entries().filter(|(_, range)| range.is_ok()).count() as u64)
            }
            Some(_) => Ok(1),
        };
        self.file_positions()?.par_iter().map(count).try_reduce(|| 0, |one, other| Ok(one.saturating_add(other)))
    }

    /// Whether `folder` holds files that the array's manifest names; without a manifest, whether it holds the array.
    /// Links are followed.
    pub fn reads_from(&self, folder: &Path) -> bool {
        let Ok(folder) = folder.canonicalize() else { return false };
        let is_below = |path: &Path| path.canonicalize().is_ok_and(|path| path.starts_with(&folder));
        let named = self.manifest().map(|manifest| {
            let mut files = manifest.ranges_by_path().into_keys().filter_map(|path| manifest.local(path));
            files.any(|file| is_below(&file))
        });
        named.unwrap_or(false) || is_below(self.path())
    }

    /// Opens one of the array's files: `None` when it is not there.
    pub(crate) fn open_path(&self, path: PathBuf) -> Result<Option<ShardFile>> {
        let packs = self.layout().packs_files();
        let packing = path.file_name().and_then(|name| packing_of(name.to_str()?)).filter(|_| packs);
        match packing {
            Some((_, packing)) => ShardFile::open_packed(path, packing, self.metadata().chunk_bytes()),
            None => ShardFile::open(path),
        }
    }

    /// The same, where the name may have an end that tells how the file is compressed.
    fn open_packed_or_not(&self, path: PathBuf) -> Result<Option<ShardFile>> {
        if let Some(file) = ShardFile::open(path.clone())? {
            return Ok(Some(file));
        }
        if !self.layout().packs_files() {
            return look::refuse_file_above(&path).map(|()| None);
        }
        for (end, _) in PACKINGS {
            let mut packed = path.clone().into_os_string();
            packed.push(end);
            if let Some(file) = self.open_path(packed.into())? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// The file at a position, of which the part that is the array's is meant.
    pub(crate) fn open_file(&self, position: &[u64]) -> Result<Option<ShardFile>> {
        match self.manifest() {
            Some(manifest) => manifest.open_chunk(position, self.layout()),
            None => self.open_packed_or_not(self.file_path(position)),
        }
    }
}

/// Visits all files below `folder` whose names are positions in a grid like the array's, inside its shape or not, and
/// what hides others.
fn list(array: &Array, folder: &Path, key: &str, visit: &mut impl FnMut(Result<FileAt>) -> Result<()>) -> Result<()> {
    if !look::is_root(folder) {
        // No chunk has come yet where even the folder is missing.
        return links::refuse_dangling(folder).or_else(|error| visit(Err(error)));
    }
    let paths = match look::list(folder) {
        Ok(paths) => paths,
        Err(error) => return visit(Err(error)),
    };
    for path in paths {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let key = if key.is_empty() { name.to_owned() } else { format!("{key}/{name}") };
        if let Some(position) = array.layout().file_position(&key) {
            // Whoever opens it is told of a link that leads nowhere, and of a folder or a pipe.
            visit(Ok((path, position)))?;
            continue;
        }
        match look::is_folder_for_sure(&path) {
            Ok(true) if array.layout().start_of_keys(&format!("{key}/")).is_some() => list(array, &path, &key, visit)?,
            Ok(false) if array.layout().has_files_in(&key) => {
                let refused = links::refuse_dangling(&path).and_then(|()| Err(look::not_a_folder(&path)));
                refused.or_else(|error| visit(Err(error)))?;
            }
            Ok(_) => {}
            Err(error) => visit(Err(error))?,
        }
    }
    Ok(())
}
