//! Where everything of an array stands: the grids of chunks and of files, the keys of both, and the entry that a chunk
//! has in its shard's index.

use super::index::table::TableLayout;
use super::index::{Encoded, minishards};
use super::keys::KeyEncoding;
use super::precomputed::volume::{Expansion, Volume};
use super::rules::{Rules, rules};
use crate::config::{Dialect, IndexLocation};
use crate::error::{Refusal, Result};
use crate::geometry::{grid, linear};

pub(crate) const DIMENSIONS_MAX: usize = 32;

/// An array's grids.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) dialect: Dialect,
    /// Elements of the array in each dimension.
    pub(crate) shape: Vec<u64>,
    pub(crate) names: Option<Vec<String>>,
    pub(crate) chunk_shape: Vec<u64>,
    /// Elements of one file: of a shard, or of a chunk where there are no shards.
    pub(crate) file_shape: Vec<u64>,
    pub(crate) files: Files,
    /// The dimensions in the order in which a shard's index counts its chunks, the last one fastest; `None`: as the
    /// array has them. Shards behind the codec `transpose` have another.
    pub(crate) index_order: Option<Vec<usize>>,
}

/// How chunks are dealt out to files, and what these are called.
#[derive(Debug, Clone)]
pub(crate) enum Files {
    /// By their places in a grid. With an index, files are shards.
    Grid { keys: KeyEncoding, index: Option<TableLayout> },
    /// As a scale of a precomputed volume.
    Volume(Volume),
}

impl Layout {
    /// Checks what a parser took over as it stood: every product fits, every chunk divides its file.
    pub(crate) fn check(self) -> Result<Self, Refusal> {
        let dimensions = self.shape.len();
        if dimensions > DIMENSIONS_MAX {
            return Refusal::unsupported(format!("{dimensions} dimensions; at most {DIMENSIONS_MAX} are read"));
        }
        let of_chunk = if self.rules().is_tree { "chunk_shape" } else { "the shape of a chunk" };
        for (what, shape) in [(of_chunk, &self.chunk_shape), ("the shape of a shard", &self.file_shape)] {
            if shape.len() != dimensions || shape.contains(&0) {
                return Err(format!("{what} is {shape:?}; expected {dimensions} numbers above 0").into());
            }
        }
        if self.file_shape.iter().zip(&self.chunk_shape).any(|(file, chunk)| file % chunk != 0) {
            let (chunk, file) = (&self.chunk_shape, &self.file_shape);
            return Err(format!("chunks of {chunk:?} don't divide shards of {file:?}").into());
        }
        if self.names.as_ref().is_some_and(|names| names.len() != dimensions) {
            return Err(format!("dimension_names has not {dimensions} entries").into());
        }
        Ok(self)
    }

    pub(crate) fn volume(&self) -> Option<&Volume> {
        match &self.files {
            Files::Grid { .. } => None,
            Files::Volume(volume) => Some(volume),
        }
    }

    pub(crate) fn rules(&self) -> &'static Rules {
        rules(self.dialect)
    }

    /// Whether files have an index, rather than being a chunk each.
    pub(crate) fn has_index(&self) -> bool {
        match &self.files {
            Files::Grid { index, .. } => index.is_some(),
            Files::Volume(volume) => volume.shards().is_some(),
        }
    }

    pub(crate) fn table(&self) -> Option<TableLayout> {
        match &self.files {
            Files::Grid { index, .. } => *index,
            Files::Volume(_) => None,
        }
    }

    /// Where a shard's index starts; `None` without shards.
    pub(crate) fn index_location(&self) -> Option<IndexLocation> {
        match &self.files {
            Files::Grid { index, .. } => index.map(TableLayout::location),
            Files::Volume(volume) => volume.shards().map(|_| IndexLocation::Start),
        }
    }

    /// Bytes that a shard's index takes before the first chunk.
    pub(crate) fn head_bytes(&self) -> u64 {
        match &self.files {
            Files::Grid { index, .. } => {
                index.filter(|index| index.location() == IndexLocation::Start).map_or(0, TableLayout::bytes)
            }
            Files::Volume(volume) => volume.shards().map_or(0, |shards| shards.spec.head_bytes()),
        }
    }

    /// Whether the chunks of each file are a box of the grid.
    pub(crate) fn has_boxes(&self) -> bool {
        self.volume().is_none_or(Volume::has_boxes)
    }

    pub(crate) fn chunks_per_file(&self) -> Vec<u64> {
        self.file_shape.iter().zip(&self.chunk_shape).map(|(file, chunk)| file / chunk).collect()
    }

    pub(crate) fn chunk_grid(&self) -> Vec<u64> {
        grid(&self.shape, &self.chunk_shape)
    }

    /// Files of the array in each dimension, where they are boxes.
    pub(crate) fn file_grid(&self) -> Vec<u64> {
        grid(&self.shape, &self.file_shape)
    }

    /// The chunks of a file, which is a box, that lie in the array: the first, and how many in each dimension.
    pub(crate) fn chunks_of(&self, file: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let dims = file.iter().zip(self.chunks_per_file()).zip(self.chunk_grid());
        let first_and_count = dims.map(|((at, count), all)| {
            let first = at.saturating_mul(count);
            (first, all.saturating_sub(first).min(count))
        });
        first_and_count.unzip()
    }

    /// The elements of a box of chunks that lie in the array: the first, and how many in each dimension.
    pub(crate) fn elements_of(&self, first: &[u64], counts: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let dims = first.iter().zip(counts).zip(self.chunk_shape.iter().zip(&self.shape));
        let start_and_length = dims.map(|((first, count), (chunk, all))| {
            let start = first.saturating_mul(*chunk);
            (start, all.saturating_sub(start).min(count.saturating_mul(*chunk)))
        });
        start_and_length.unzip()
    }

    /// Bytes of the head by which a shard's minishards are found; `None` where shards have tables, or are none.
    pub(crate) fn minishard_head(&self) -> Option<u64> {
        Some(self.volume()?.shards()?.spec.head_bytes())
    }

    /// Whether files are a chunk each, and may be compressed once more: see
    /// [`PACKINGS`](super::precomputed::volume::PACKINGS).
    pub(crate) fn packs_files(&self) -> bool {
        self.volume().is_some_and(|volume| volume.shards.is_none())
    }

    /// Whether the format wants to know how far apart pixels are, and the document does not say it.
    pub(crate) fn lacks_resolution(&self) -> bool {
        self.volume().is_some_and(|volume| volume.resolution.is_none())
    }

    /// How many shards chunks are dealt out to that are no boxes.
    pub(crate) fn dealt_shards(&self) -> u64 {
        let shards = self.volume().and_then(Volume::shards);
        shards.map_or(1, |shards| 1u64.checked_shl(shards.spec.shard_bits).unwrap_or(u64::MAX))
    }

    /// The shape of a file, but none that reaches beyond the grid of chunks: a box of ids may be far larger.
    pub(crate) fn file_within_grid(&self) -> Vec<u64> {
        if self.volume().is_none() {
            return self.file_shape.clone();
        }
        let sizes = self.file_shape.iter().zip(self.chunk_grid()).zip(&self.chunk_shape);
        sizes.map(|((file, chunks), chunk)| chunks.max(1).saturating_mul(*chunk).min(*file)).collect()
    }

    /// Whether the pixels of each chunk are also those of one chunk of another array of this shape.
    pub(crate) fn is_cut_as(&self, other: &Self) -> bool {
        match (self.volume(), other.volume()) {
            (None, None) => self.chunk_shape == other.chunk_shape,
            // The last chunks of a volume are cut off, and those of an array of Zarr are not.
            (Some(this), Some(other)) => {
                (this.size, this.chunk, &this.roles) == (other.size, other.chunk, &other.roles)
            }
            _ => false,
        }
    }

    /// Whether a shard could be one of the other array, byte for byte, if its chunks were.
    pub(crate) fn has_shards_as(&self, other: &Self) -> bool {
        let shards = match (self.volume(), other.volume()) {
            (None, None) => self.has_index() && self.table() == other.table(),
            (Some(this), Some(other)) => this.shards().is_some() && this.shards() == other.shards(),
            _ => false,
        };
        let same_files = self.file_shape == other.file_shape && self.index_order == other.index_order;
        shards && same_files && self.chunk_shape == other.chunk_shape && self.is_cut_as(other)
    }

    /// Whether the chunks of two arrays are files of the same names.
    pub(crate) fn has_chunk_files_as(&self, other: &Self) -> bool {
        match (&self.files, &other.files) {
            (Files::Grid { keys, index: None }, Files::Grid { keys: other_keys, index: None }) => {
                let is_same = self.dialect == other.dialect && self.index_order == other.index_order;
                is_same && keys == other_keys && self.chunk_shape == other.chunk_shape
            }
            _ => false,
        }
    }

    /// How the stored form of a chunk becomes the array's; `None` where it is it already.
    pub(crate) fn expansion(&self, chunk: &[u64]) -> Option<Expansion> {
        self.volume()?.expansion(chunk, &self.shape, &self.chunk_shape)
    }

    pub(crate) fn planes(&self, chunk: &[u64], bytes: u64, element: u64) -> Option<u64> {
        self.volume()?.planes(bytes, chunk, &self.shape, &self.chunk_shape, element)
    }

    /// The file of a chunk, by its position in the grid of files or, of a volume without boxes, its number; and the
    /// chunk's entry in there: its place in C order or, in a volume, its id.
    pub(crate) fn file_of(&self, chunk: &[u64]) -> (Vec<u64>, u64) {
        if let Files::Volume(volume) = &self.files {
            return volume.file_of(chunk);
        }
        let file = chunk.iter().zip(self.chunks_per_file()).map(|(chunk, count)| chunk / count).collect();
        (file, self.number_in_file(chunk, self.index_order.as_deref()))
    }

    /// The number of a chunk among those of its file, where these are a box, in C order of the dimensions, or of these
    /// in another `order`.
    pub(super) fn number_in_file(&self, chunk: &[u64], order: Option<&[usize]>) -> u64 {
        let per_file = self.chunks_per_file();
        let inner: Vec<u64> = chunk.iter().zip(&per_file).map(|(chunk, count)| chunk % count).collect();
        match order {
            None => linear(&inner, &per_file),
            Some(order) => linear(&in_order(&inner, order), &in_order(&per_file, order)),
        }
    }

    /// The position in the grid of chunks of an entry of a file's index, be it inside the array's shape or not; `None`
    /// if the grid can't have it.
    pub(crate) fn chunk_at(&self, file: &[u64], entry: u64) -> Option<Vec<u64>> {
        if let Some(volume) = self.volume().filter(|volume| volume.shards().is_some()) {
            return volume.chunk_of(entry);
        }
        self.numbered_in_file(file, entry, self.index_order.as_deref())
    }

    /// The reverse of [`number_in_file`](Self::number_in_file).
    pub(super) fn numbered_in_file(&self, file: &[u64], number: u64, order: Option<&[usize]>) -> Option<Vec<u64>> {
        let per_file = self.chunks_per_file();
        let mut position = vec![0; per_file.len()];
        let mut rest = number;
        for at in (0..per_file.len()).rev() {
            let dim = order.map_or(at, |order| order[at]);
            position[dim] = file[dim].checked_mul(per_file[dim])?.checked_add(rest % per_file[dim])?;
            rest /= per_file[dim];
        }
        (rest == 0).then_some(position)
    }

    /// Whether a chunk has a part in the array's shape; those beyond the edge only pad a shard.
    pub(crate) fn has_chunk(&self, chunk: &[u64]) -> bool {
        chunk.iter().zip(self.chunk_grid()).all(|(at, count)| *at < count)
    }

    /// Whether the file at a position of the grid has a part in the array's shape.
    pub(crate) fn has_file(&self, file: &[u64]) -> bool {
        // Shards that are no boxes may hold chunks from anywhere.
        let grid = self.shape.iter().zip(&self.file_shape).map(|(length, file)| length.div_ceil(*file));
        file.len() != self.shape.len() || file.iter().zip(grid).all(|(at, count)| *at < count)
    }

    /// Where the elements of the file at a position of the grid end; `None` if that is beyond all that can be counted.
    pub(crate) fn end_of(&self, file: &[u64]) -> Option<Vec<u64>> {
        file.iter().zip(&self.file_shape).map(|(at, length)| at.checked_add(1)?.checked_mul(*length)).collect()
    }

    /// Whether these entries are all chunks of a shard that the array has.
    pub(crate) fn is_all(&self, file: &[u64], entries: impl Iterator<Item = u64>) -> bool {
        if !self.has_boxes() {
            return false;
        }
        let all = self.chunks_of(file).1.into_iter().fold(1, u64::saturating_mul);
        let there = |entry: &u64| self.chunk_at(file, *entry).is_some_and(|chunk| self.has_chunk(&chunk));
        entries.filter(there).count() as u64 == all
    }

    /// The path of a file below the array's folder.
    pub(crate) fn file_key(&self, file: &[u64]) -> String {
        match &self.files {
            Files::Grid { keys, .. } => keys.key(if self.shape.is_empty() { &[] } else { file }),
            Files::Volume(volume) => volume.file_name(file),
        }
    }

    /// The file with this path below the array's folder, be it inside the array's shape or not.
    pub(crate) fn file_position(&self, key: &str) -> Option<Vec<u64>> {
        match &self.files {
            Files::Grid { keys, .. } => keys.position(key, self.shape.len()),
            Files::Volume(volume) => volume.file_position(key),
        }
    }

    /// The key that a chunk would have if each were a file.
    pub(crate) fn chunk_key(&self, chunk: &[u64]) -> String {
        match &self.files {
            Files::Grid { keys, .. } => keys.key(chunk),
            Files::Volume(volume) => volume.chunk_name(chunk),
        }
    }

    /// The chunk with this key, if each were a file.
    pub(crate) fn chunk_position(&self, key: &str) -> Option<Vec<u64>> {
        match &self.files {
            Files::Grid { keys, .. } => keys.position(key, self.shape.len()),
            Files::Volume(volume) => volume.chunk_named(key).filter(|chunk| self.has_chunk(chunk)),
        }
    }

    /// The numbers that all keys of files, and of chunks, with this start share; `None` if no key starts so.
    pub(crate) fn start_of_keys(&self, prefix: &str) -> Option<Vec<u64>> {
        match &self.files {
            Files::Grid { keys, .. } => keys.start(prefix, self.shape.len()),
            Files::Volume(_) => prefix.is_empty().then(Vec::new),
        }
    }

    /// Whether files of the array, inside its shape, lie in the folder with this path below the array's.
    pub(crate) fn has_files_in(&self, folder: &str) -> bool {
        let is_inside = |start: Vec<u64>| start.iter().zip(self.file_grid()).all(|(at, count)| *at < count);
        self.start_of_keys(&format!("{folder}/")).is_some_and(is_inside)
    }

    /// The index that names chunks, by their entries, as offset and length. `tail_at`: where the part behind the chunks
    /// stands.
    ///
    /// # Errors
    ///
    /// When a minishard's index can't be compressed.
    pub(crate) fn encode_index(
        &self,
        chunks: impl Iterator<Item = (u64, (u64, u64))>,
        tail_at: u64,
    ) -> Result<Encoded> {
        let (head, tail) = match &self.files {
            Files::Grid { index: Some(table), .. } => match table.location() {
                IndexLocation::Start => (table.encode(chunks), Vec::new()),
                IndexLocation::End => (Vec::new(), table.encode(chunks)),
            },
            Files::Volume(Volume { shards: Some(shards), .. }) => {
                let entries = chunks.map(|(id, (offset, nbytes))| minishards::Entry { id, offset, nbytes });
                minishards::encode(&shards.spec, entries.collect(), tail_at)?
            }
            _ => Default::default(),
        };
        Ok(Encoded { head, tail, tail_at })
    }
}

/// What an array has for each of its dimensions, in another order of these.
pub(crate) fn in_order<T: Copy>(of_array: &[T], order: &[usize]) -> Vec<T> {
    order.iter().map(|&dim| of_array[dim]).collect()
}

/// The number of elements, if a `u64` holds it.
pub(crate) fn product(shape: &[u64]) -> Option<u64> {
    // A zero anywhere makes the array empty, whatever the other lengths would give.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1u64, |product, &length| product.checked_mul(length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::keys::Prefix;

    fn grid(per: [u64; 2], keys: KeyEncoding) -> Layout {
        let index = TableLayout::new(per[0] * per[1], IndexLocation::End, false);
        Layout {
            dialect: Dialect::Zarr3Transformer,
            shape: vec![1280, 200],
            names: None,
            chunk_shape: vec![10, 10],
            file_shape: vec![10 * per[0], 10 * per[1]],
            files: Files::Grid { keys, index },
            index_order: None,
        }
    }

    fn place(layout: &Layout, key: &str) -> (Vec<u64>, u64) {
        layout.file_of(&layout.chunk_position(key).unwrap())
    }

    /// Sharding storage transformer 1.0, "Key & value transformation".
    #[test]
    fn chunk_c96_18_of_shards_of_32_by_2_is_in_shard_c3_9() {
        let grid = grid([32, 2], KeyEncoding { prefix: Prefix::Letter, separator: '/' });
        assert_eq!(place(&grid, "c96/18"), (vec![3, 9], 0));
        assert_eq!(grid.file_key(&[3, 9]), "c3/9");
        for (key, entry) in [("c96/19", 1), ("c97/18", 2), ("c127/19", 63)] {
            assert_eq!(place(&grid, key), (vec![3, 9], entry), "{key}");
            assert_eq!(grid.chunk_key(&grid.chunk_at(&[3, 9], entry).unwrap()), key);
        }
        for start in [[0, 0], [32, 2], [32, 4], [64, 2], [96, 18]] {
            assert_eq!(place(&grid, &format!("c{}/{}", start[0], start[1])).1, 0, "{start:?}");
        }
        // "honoring the original chunk separator"
        let dots = self::grid([32, 2], KeyEncoding { prefix: Prefix::Letter, separator: '.' });
        assert_eq!(dots.file_key(&place(&dots, "c96.18").0), "c3.9");
    }

    /// "c" in C order: the last dimension counts fastest.
    #[test]
    fn an_index_of_2_by_2_lists_its_chunks_in_c_order() {
        let grid = grid([2, 2], KeyEncoding { prefix: Prefix::Part, separator: '/' });
        let order = ["c/0/0", "c/0/1", "c/1/0", "c/1/1"].map(|key| place(&grid, key).1);
        assert_eq!(order, [0, 1, 2, 3]);
    }

    #[test]
    fn an_index_may_count_in_another_order() {
        let plain = grid([4, 2], KeyEncoding { prefix: Prefix::Part, separator: '/' });
        let turned = Layout { index_order: Some(vec![1, 0]), ..plain.clone() };
        assert_eq!(["c/0/0", "c/1/0", "c/0/1", "c/3/1"].map(|key| place(&turned, key).1), [0, 1, 4, 7]);
        for entry in 0..8 {
            let chunk = turned.chunk_at(&[5, 3], entry).unwrap();
            assert_eq!(turned.file_of(&chunk), (vec![5, 3], entry));
            assert_eq!(plain.file_of(&chunk).0, vec![5, 3]);
        }
    }

    #[test]
    fn a_shard_at_the_edge_is_all_there_without_what_lies_beyond() {
        let mut grid = grid([32, 2], KeyEncoding { prefix: Prefix::Nothing, separator: '/' });
        grid.shape = vec![1280, 190];
        assert!(grid.is_all(&[0, 9], (0..64).filter(|chunk| chunk % 2 == 0)));
        assert!(!grid.is_all(&[0, 9], (0..62).filter(|chunk| chunk % 2 == 0)));
        assert!(!grid.has_chunk(&[0, 19]) && grid.has_chunk(&[0, 18]));
    }
}
