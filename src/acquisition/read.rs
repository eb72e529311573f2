//! Frames of a run that goes on, wherever they are.

use std::path::Path;
use std::time::Duration;

use super::Acquisition;
use crate::engine::{Whereabouts, gather_rows};
use crate::error::{Error, Result};
use crate::format::index::Range;
use crate::format::layout::Layout;
use crate::format::{Metadata, zarr3};
use crate::geometry::Tile;
use crate::offline::Array;
use crate::offline::array::index::Index;
use crate::offline::array::shard_file::ShardFile;
use crate::plan::FramePlan;
use crate::shard::{ParkedChunks, ShardPosition};
use crate::storage::Archive;

// A frame is on its way for as long as it takes to sort it into its layer, or to write its chunks.
const LOOK_UP_EVERY: Duration = Duration::from_micros(200);

impl Acquisition {
    /// Copies the pixels of a frame as the array has them, rows without gaps: from the ring, or from its shard, be it
    /// closed or not. What never came, or could not be stored, is the fill value.
    ///
    /// It is for viewers: it takes no part in the flow of frames, but while it copies one from the ring, that buffer
    /// is in use. Frames that are on their way to their shard are waited for.
    ///
    /// # Errors
    ///
    /// [`Error::FrameSize`] if `out` is not as long as the array's rows and columns are; [`Error::Unsupported`] for
    /// frames in a closed shard of a [`Storage`](crate::Storage) that the program brought, be it
    /// [`Memory`](crate::Memory), which has no call for that, and in an open one of a precomputed volume; [`Error::Io`]
    /// and [`Error::Format`] for what can't be read, as in an open shard of a storage without
    /// [`Blob::read_at`](crate::Blob::read_at); [`Error::FrameNumber`] for a frame of another [part](crate::Part).
    pub fn read_frame(&self, number: u64, out: &mut [u8]) -> Result<()> {
        let frame = &self.engine.plan.frame;
        if out.len() != frame.array_bytes {
            return Err(Error::FrameSize { got: out.len(), expected: frame.array_bytes });
        }
        let fills = |out: &mut [u8]| out.chunks_mut(frame.fill.len()).for_each(|to| to.copy_from_slice(&frame.fill));
        let frames = self.engine.part.map_or(self.engine.plan.frames_total, |part| part.frames);
        if frames.is_some_and(|total| number >= total) {
            fills(out);
            return Ok(());
        }
        let number = self.engine.own_number(number)?;
        loop {
            match self.engine.whereabouts(number) {
                Whereabouts::Nowhere => fills(out),
                Whereabouts::Ring(view) => gather_rows(frame, view.pixels(), 0, out),
                Whereabouts::Open(cell) => {
                    fills(out);
                    self.read_open(number, out, |across, chunk, encoded| {
                        cell.shards[across].read_chunk(chunk, encoded)
                    })?;
                }
                Whereabouts::Parked(shards) => {
                    fills(out);
                    self.read_open(number, out, |across, chunk, encoded| {
                        self.read_parked(&shards[across], chunk, encoded)
                    })?;
                }
                Whereabouts::Closed => {
                    fills(out);
                    self.read_closed(number, out)?;
                }
                Whereabouts::OnItsWay => {
                    std::thread::sleep(LOOK_UP_EVERY);
                    continue;
                }
            }
            return Ok(());
        }
    }

    /// Decodes the chunks of a frame, which `read` reads by their shard and their place in it, into `out`, which holds
    /// the fill value.
    fn read_open(
        &self,
        number: u64,
        out: &mut [u8],
        mut read: impl FnMut(usize, usize, &mut Vec<u8>) -> Result<bool>,
    ) -> Result<()> {
        let plan = &self.engine.plan;
        if plan.shard.cut_at_edge {
            return Err(self.unsupported("a frame in an open shard of a precomputed volume can't be read yet"));
        }
        let layout = &plan.array.layout;
        let at = plan.layers.locate(number);
        let first_chunk = plan.first_chunk(&plan.layers.grid_position(at.block, at.cell));
        let mut decoder = self.array(Path::new(""), plan.array.clone()).chunk_decoder()?;
        let (mut encoded, mut raw) = (Vec::new(), vec![0; plan.shard.chunk_bytes]);
        for tile in &plan.tiles {
            let (across, chunk) = plan.slot_of(first_chunk, tile);
            if read(across, chunk, &mut encoded)? {
                decoder.decode(&encoded, &mut raw)?;
                copy_tile(&raw, layout, tile, at.place as usize, &plan.frame, out);
            }
        }
        Ok(())
    }

    /// Reads an encoded chunk of a shard that is closed for a while; false if there is none.
    fn read_parked(&self, shard: &ParkedChunks, chunk: usize, encoded: &mut Vec<u8>) -> Result<bool> {
        let Some((offset, nbytes)) = shard.chunks[chunk] else { return Ok(false) };
        let Some(root) = self.image.root().folder() else {
            return Err(
                self.unsupported("a frame in a shard that is closed for a while can be read from a folder alone")
            );
        };
        let Some(file) = ShardFile::open(root.join(&shard.key))? else { return Ok(false) };
        file.read(Range { offset, nbytes }, encoded).map(|()| true)
    }

    fn read_closed(&self, number: u64, out: &mut [u8]) -> Result<()> {
        let plan = &self.engine.plan;
        let Some(folder) = self.image.array_folder(&plan.array.layout) else {
            return match self.image.root().archive() {
                Some(archive) => self.read_from_archive(archive, number, out),
                None => Err(self.unsupported(&format!(
                    "frame {number} lies in a closed shard, of which a run reads only its own folder or archive, and \
                     no storage that the program brought"
                ))),
            };
        };
        let position = plan.order.position(number);
        let mut metadata = plan.array.clone();
        // Documents on the disk are behind.
        if plan.frames_total.is_none() {
            metadata.layout.shape[0] = position[0] + 1;
        }
        let outer = plan.order.outer_dims();
        let mut start = position[..outer].to_vec();
        start.extend([0, 0]);
        let mut shape = vec![1; outer];
        let FramePlan { array_bytes, array_row_bytes, dtype, .. } = plan.frame;
        shape.extend([array_bytes / array_row_bytes, array_row_bytes / dtype.size()].map(|length| length as u64));
        self.array(&folder, metadata).read_region(&start, &shape, out)
    }

    /// From the entries of an archive: its directory in the file may be behind.
    fn read_from_archive(&self, archive: &Archive, number: u64, out: &mut [u8]) -> Result<()> {
        let plan = &self.engine.plan;
        let shard = plan.shards.locate(number);
        let grid = plan.shards.grid_position(shard.block, shard.cell);
        // Tiles of one shard follow each other.
        let mut latest: Option<(usize, Option<(ShardFile, Index)>)> = None;
        let open = |across: usize| {
            let key = self.image.shard_key(plan, &ShardPosition { grid, across });
            let Some((file, at, len)) = archive.find(&key) else { return Ok(None) };
            let file = ShardFile::part_of(self.image.storage().path_of(&key), file, at, len);
            let index = Index::read(&file, &plan.array.layout, &plan.shard_position(&grid, across), None)?;
            Ok::<_, Error>(Some((file, index)))
        };
        self.read_open(number, out, |across, chunk, encoded| {
            if latest.as_ref().is_none_or(|(of, _)| *of != across) {
                latest = Some((across, open(across)?));
            }
            let Some((_, Some((file, index)))) = &latest else { return Ok(false) };
            let range = index.entry(chunk as u64).map_err(|reason| Error::format(file.path(), reason))?;
            range.map_or(Ok(false), |range| file.read(range, encoded).map(|()| true))
        })
    }

    fn array(&self, folder: &Path, metadata: Metadata) -> Array {
        Array::with(folder, folder, folder.join(zarr3::DOCUMENT), metadata)
    }

    fn unsupported(&self, reason: &str) -> Error {
        Error::Unsupported { path: self.image.root().path().to_path_buf(), reason: reason.to_owned() }
    }
}

/// Copies a tile's part of one plane of a chunk.
fn copy_tile(raw: &[u8], layout: &Layout, tile: &Tile, place: usize, frame: &FramePlan, out: &mut [u8]) {
    let [.., rows, columns] = layout.chunk_shape[..] else { unreachable!("an array has rows and columns") };
    let element = frame.dtype.size();
    let row_bytes = columns as usize * element;
    let plane = &raw[place * rows as usize * row_bytes..][..rows as usize * row_bytes];
    for (row, from) in plane.chunks_exact(row_bytes).take(tile.rows).enumerate() {
        let to = (tile.y + row) * frame.array_row_bytes + tile.x * element;
        out[to..to + tile.columns * element].copy_from_slice(&from[..tile.columns * element]);
    }
}
