//! Which chunk is which: its key, its shard, its entry in the shard's index. This is where formats differ; to add one is to
//! add a [`Kind`].

use std::collections::BTreeMap;

use super::keys::{self, lead};
use crate::config::IndexLocation;
use crate::error::Result;
use crate::offline::index::Index;
use crate::offline::metadata::KeyEncoding;
use crate::offline::region::linear;
use crate::offline::shard_file::{IndexLayout, ShardFile};
use crate::offline::volume::Volume;
use crate::shard::index::{minishards, table};

/// A grid of chunks, grouped to shards.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    /// Elements of the array in each dimension.
    pub(super) shape: Vec<u64>,
    /// Elements of a chunk.
    pub(super) chunk: Vec<u64>,
    /// Chunks of a shard.
    pub(super) per: Vec<u64>,
    pub(super) kind: Kind,
}

/// How chunks and shards are named, and what an index looks like.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// Keys are positions; an index is a table of all chunks of a shard, in C order.
    Zarr { spelling: KeyEncoding, layout: IndexLayout, location: IndexLocation },
    /// A scale of a precomputed volume: keys are bounds, `0-64_0-64_0-16`; an index is one of minishards, and its entries
    /// are ids.
    Volume { sharded: Box<Volume>, unsharded: Box<Volume> },
}

/// The parts of an index, each with its place in the file, and where the file ends.
pub(super) struct Encoded {
    pub(super) parts: Vec<(u64, Vec<u8>)>,
    pub(super) file_end: u64,
}

/// Where a chunk is: its shard, and its entry in the shard's index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) shard: Vec<u64>,
    pub(super) chunk: u64,
}

/// What the keys with one start have in common.
#[derive(Debug, Clone)]
pub(super) struct Start {
    /// The first numbers of the chunks' positions.
    pub(super) numbers: Vec<u64>,
}

impl Grid {
    fn dimensions(&self) -> usize {
        self.shape.len()
    }

    /// The place of the chunk with this key below the array.
    pub(super) fn place(&self, key: &str) -> Option<Place> {
        match &self.kind {
            Kind::Zarr { spelling, .. } => {
                let position = spelling.position(key, self.dimensions())?;
                let shard = position.iter().zip(&self.per).map(|(at, per)| at / per).collect();
                let inner: Vec<u64> = position.iter().zip(&self.per).map(|(at, per)| at % per).collect();
                Some(Place { shard, chunk: linear(&inner, &self.per) })
            }
            Kind::Volume { sharded, unsharded } => {
                let position = unsharded.file_position(key)?;
                let inside = position.iter().zip(self.chunks()).all(|(at, count)| *at < count);
                let (shard, chunk) = sharded.file_of(&position);
                inside.then_some(Place { shard, chunk })
            }
        }
    }

    /// Chunks of the array in each dimension.
    fn chunks(&self) -> Vec<u64> {
        self.shape.iter().zip(&self.chunk).map(|(shape, chunk)| shape.div_ceil(*chunk)).collect()
    }

    /// The chunk's position in the grid of chunks; `None` past the largest number.
    pub(super) fn position(&self, place: &Place) -> Option<Vec<u64>> {
        if let Kind::Volume { sharded, .. } = &self.kind {
            return sharded.chunk_of(place.chunk);
        }
        let mut position = vec![0; self.dimensions()];
        let mut rest = place.chunk;
        for dim in (0..self.dimensions()).rev() {
            position[dim] = place.shard[dim].checked_mul(self.per[dim])?.checked_add(rest % self.per[dim])?;
            rest /= self.per[dim];
        }
        (rest == 0).then_some(position)
    }

    pub(super) fn key(&self, place: &Place) -> Option<String> {
        let position = self.position(place)?;
        Some(match &self.kind {
            Kind::Zarr { spelling, .. } => spelling.key(&position),
            Kind::Volume { unsharded, .. } => unsharded.file_name(&position),
        })
    }

    /// Whether the array has a chunk at this place.
    pub(super) fn covers(&self, place: &Place) -> bool {
        self.position(place).is_some_and(|position| position.iter().zip(self.chunks()).all(|(at, count)| *at < count))
    }

    /// Whether these are all chunks of a shard that the array has.
    pub(super) fn is_all(&self, shard: &[u64], chunks: impl Iterator<Item = u64>) -> bool {
        if let Kind::Volume { sharded, .. } = &self.kind
            && !sharded.has_boxes()
        {
            return false;
        }
        let present = |dim: usize| {
            let grid = self.shape[dim].div_ceil(self.chunk[dim]);
            grid.saturating_sub(shard[dim].saturating_mul(self.per[dim])).min(self.per[dim])
        };
        let all = (0..self.dimensions()).map(present).fold(1, u64::saturating_mul);
        chunks.filter(|&chunk| self.covers(&Place { shard: shard.to_vec(), chunk })).count() as u64 == all
    }

    /// The path of a shard below the array.
    pub(super) fn shard_key(&self, shard: &[u64]) -> String {
        match &self.kind {
            Kind::Zarr { spelling, .. } => spelling.key(shard),
            Kind::Volume { sharded, .. } => sharded.file_name(shard),
        }
    }

    /// The shard that has this path below the array.
    pub(super) fn shard(&self, path: &str) -> Option<Vec<u64>> {
        match &self.kind {
            Kind::Zarr { spelling, .. } => spelling.position(path, self.dimensions()),
            Kind::Volume { sharded, .. } => sharded.file_position(path),
        }
    }

    /// Whether there may be shards in a folder below the array: its path, with a slash at the end.
    pub(super) fn has_folder(&self, path: &str) -> bool {
        match &self.kind {
            Kind::Zarr { spelling, .. } => keys::start(*spelling, path, self.dimensions()).is_some(),
            Kind::Volume { .. } => false,
        }
    }

    /// What all keys share that start like this below the array; `None` if there are none.
    pub(super) fn start(&self, prefix: &str) -> Option<Start> {
        let numbers = match &self.kind {
            Kind::Zarr { spelling, .. } => keys::start(*spelling, prefix, self.dimensions())?,
            Kind::Volume { .. } if prefix.is_empty() => Vec::new(),
            Kind::Volume { .. } => return None,
        };
        Some(Start { numbers })
    }

    /// Whether a shard can hold chunks with such keys.
    pub(super) fn meets(&self, start: &Start, shard: &[u64]) -> bool {
        start.numbers.iter().zip(&self.per).zip(shard).all(|((number, per), shard)| number / per == *shard)
    }

    /// The next parts of the keys that start with whole numbers, each with a slash at the end: of all chunks that a shard can
    /// hold. `None` if what comes next is the end of a key.
    pub(super) fn folders(&self, start: &Start, prefix: &str, shard: &[u64]) -> Option<Vec<String>> {
        let Kind::Zarr { spelling, .. } = &self.kind else { return None };
        let dim = start.numbers.len();
        let lead = lead(*spelling);
        if lead.ends_with('/') && prefix.is_empty() {
            return Some(vec![lead.to_owned()]);
        }
        if spelling.separator != '/' || dim + 1 >= self.dimensions() {
            return None;
        }
        let lead = if prefix.is_empty() { lead } else { "" };
        let from = shard[dim].saturating_mul(self.per[dim]);
        let to = from.saturating_add(self.per[dim]);
        Some((from..to).map(|number| format!("{lead}{number}/")).collect())
    }

    /// The index of a shard; of a volume's, only as much of it as tells of the chunks in `wanted`, if there are any.
    pub(super) fn index(&self, file: &ShardFile, shard: &[u64], wanted: Option<&[u64]>) -> Result<Index> {
        match &self.kind {
            Kind::Zarr { layout, .. } => Index::of_table(file, *layout),
            Kind::Volume { sharded, .. } => match sharded.shards() {
                Some(shards) => Index::of_volume(file, shards, sharded.shard_number(shard), wanted),
                None => Err(crate::error::Error::format(file.path(), "is no shard")),
            },
        }
    }

    /// Bytes that the index takes before the first chunk.
    pub(super) fn head_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Zarr { location: IndexLocation::End, .. } => 0,
            Kind::Zarr { layout, .. } => layout.bytes(),
            Kind::Volume { sharded, .. } => sharded.shards().map_or(0, |shards| shards.spec.head_bytes()),
        }
    }

    /// The index that names chunks by their offsets and lengths, of which the last one ends at `end`.
    pub(super) fn encode(&self, chunks: &BTreeMap<u64, (u64, u64)>, end: u64) -> Result<Encoded> {
        let parts = match &self.kind {
            Kind::Zarr { layout, location, .. } => {
                let missing = (table::MISSING, table::MISSING);
                let entries = (0..layout.chunks()).map(|chunk| chunks.get(&chunk).copied().unwrap_or(missing));
                let index = table::encode(entries, layout.has_checksum());
                vec![(if *location == IndexLocation::Start { 0 } else { end }, index)]
            }
            Kind::Volume { sharded, .. } => {
                let entry = |(&id, &(offset, nbytes)): (&u64, &(u64, u64))| minishards::Entry { id, offset, nbytes };
                let shards = sharded.shards();
                let encoded =
                    shards.map(|shards| minishards::encode(&shards.spec, chunks.iter().map(entry).collect(), end));
                let (head, tail) = encoded.transpose()?.unwrap_or_default();
                vec![(end, tail), (0, head)]
            }
        };
        let file_end = parts.iter().map(|(at, part)| at + part.len() as u64).max().unwrap_or(0).max(end);
        Ok(Encoded { parts, file_end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline::metadata::Prefix;

    fn grid(per: [u64; 2], spelling: KeyEncoding) -> Grid {
        let layout = IndexLayout::new(per[0] * per[1], IndexLocation::End, false).unwrap();
        let (shape, chunk) = (vec![1280, 200], vec![10, 10]);
        let kind = Kind::Zarr { spelling, layout, location: IndexLocation::End };
        Grid { shape, chunk, per: per.to_vec(), kind }
    }

    /// Sharding storage transformer 1.0, "Key & value transformation".
    #[test]
    fn chunk_c96_18_of_shards_of_32_by_2_is_in_shard_c3_9() {
        let grid = grid([32, 2], KeyEncoding { prefix: Prefix::Letter, separator: '/' });
        let place = grid.place("c96/18").unwrap();
        assert_eq!(place, Place { shard: vec![3, 9], chunk: 0 });
        assert_eq!(grid.shard_key(&place.shard), "c3/9");
        for (key, chunk) in [("c96/19", 1), ("c97/18", 2), ("c127/19", 63)] {
            let place = grid.place(key).unwrap();
            assert_eq!((place.shard.as_slice(), place.chunk), (&[3, 9][..], chunk), "{key}");
            assert_eq!(grid.key(&place).as_deref(), Some(key));
        }
        for start in [[0, 0], [32, 2], [32, 4], [64, 2], [96, 18]] {
            assert_eq!(grid.place(&format!("c{}/{}", start[0], start[1])).unwrap().chunk, 0, "{start:?}");
        }
        // "honoring the original chunk separator"
        let dots = self::grid([32, 2], KeyEncoding { prefix: Prefix::Letter, separator: '.' });
        assert_eq!(dots.shard_key(&dots.place("c96.18").unwrap().shard), "c3.9");
    }

    /// The same, "Binary shard format": 16 bytes a chunk, no checksum; the draft's "1014" is 16 · 64 = 1024 misspelled.
    #[test]
    fn indexes_are_as_large_as_the_specifications_say() {
        assert_eq!(IndexLayout::new(64, IndexLocation::End, false).unwrap().bytes(), 1024);
        // Sharding codec 1.0: 16 · 4 + 4 of the checksum.
        assert_eq!(IndexLayout::new(4, IndexLocation::End, true).unwrap().bytes(), 68);
    }

    /// "c" in C order: the last dimension counts fastest.
    #[test]
    fn an_index_of_2_by_2_lists_its_chunks_in_c_order() {
        let grid = grid([2, 2], KeyEncoding { prefix: Prefix::Part, separator: '/' });
        let order = ["c/0/0", "c/0/1", "c/1/0", "c/1/1"].map(|key| grid.place(key).unwrap().chunk);
        assert_eq!(order, [0, 1, 2, 3]);
    }

    #[test]
    fn a_shard_at_the_edge_is_all_there_without_what_lies_beyond() {
        let mut grid = grid([32, 2], KeyEncoding { prefix: Prefix::Nothing, separator: '/' });
        grid.shape = vec![1280, 190];
        assert!(grid.is_all(&[0, 9], (0..64).filter(|chunk| chunk % 2 == 0)));
        assert!(!grid.is_all(&[0, 9], (0..62).filter(|chunk| chunk % 2 == 0)));
        assert!(!grid.covers(&grid.place("0/19").unwrap()) && grid.covers(&grid.place("0/18").unwrap()));
    }
}
