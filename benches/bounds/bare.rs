//! A bare program that does at once all that a writer can't go without: gather, encode, and long writes by threads of
//! their own, sync included. No ring, no shards, no index, no checksum.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};
use memmap2::MmapMut;
use rustix::fs::{FallocateFlags, OFlags, fallocate, fdatasync};
use shardwright::Codec;
use shardwright::codec::{Encoder, TileSource};

use crate::files::{DIRECT_PIECE, DIRECT_WRITERS, PIECE, create, seconds_to_file, whole_pages};
use crate::tiles::Tile;
use crate::{Outcome, Request};

/// Bytes of pixels a second; `None` where it is not possible.
pub(super) fn rate(request: &Request, frames: &[u8], ratio: f64, is_direct: bool) -> Outcome<Option<f64>> {
    let seconds = seconds_to_file(request, |path| run(request, frames, ratio, is_direct, path))?;
    Ok(seconds.map(|seconds| request.pixel_bytes as f64 / seconds))
}

fn run(request: &Request, frames: &[u8], ratio: f64, is_direct: bool, path: &Path) -> Outcome<bool> {
    // Those into the page cache would wait for each other.
    let (writers, piece) = if is_direct { (DIRECT_WRITERS, DIRECT_PIECE) } else { (1, PIECE) };
    let mut file = create(path)?;
    if is_direct {
        let bytes = (request.pixel_bytes as f64 / ratio) as u64;
        fallocate(&file, FallocateFlags::empty(), 0, whole_pages(bytes + (request.threads as u64 + 1) * piece))?;
        let flags = OFlags::DIRECT.bits().cast_signed();
        let Ok(direct) = OpenOptions::new().write(true).custom_flags(flags).open(path) else { return Ok(false) };
        file = direct;
    }
    let program = &Program::new(request, frames, file, piece as usize, writers)?;
    let (to_write, written) = unbounded();
    thread::scope(|scope| -> Outcome<()> {
        let writers: Vec<_> = (0..writers).map(|_| scope.spawn(|| program.write_all(&written))).collect();
        let encode = |_| {
            let to_write = to_write.clone();
            scope.spawn(move || program.encode_all(&to_write).map_err(|error| error.to_string()))
        };
        let encoders: Vec<_> = (0..request.threads).map(encode).collect();
        drop(to_write);
        for encoder in encoders {
            encoder.join().expect("an encoder does not panic")?;
        }
        for writer in writers {
            writer.join().expect("a writer does not panic")?;
        }
        Ok(())
    })?;
    fdatasync(&program.file)?;
    Ok(true)
}

/// Chunks, one behind the other, and how many bytes they are.
type Piece = (MmapMut, usize);

struct Program<'a> {
    request: &'a Request,
    frames: &'a [u8],
    codec: Codec,
    file: File,
    piece_bytes: usize,
    next_tile: AtomicU64,
    file_end: AtomicU64,
    /// Room for pieces.
    spare: (Sender<MmapMut>, Receiver<MmapMut>),
}

impl<'a> Program<'a> {
    fn new(request: &'a Request, frames: &'a [u8], file: File, piece_bytes: usize, writers: usize) -> Outcome<Self> {
        let codec = Codec { compressor: request.compressor, checksum: false };
        let bound =
            Encoder::new(&codec, request.element_bytes, request.tile_bytes())?.bound().max(request.tile_bytes());
        let room_bytes = whole_pages((piece_bytes + bound) as u64) as usize;
        let spare = unbounded();
        // Those that are written, as many that wait, and one for each encoder.
        for _ in 0..2 * writers + request.threads {
            let room = MmapMut::map_anon(room_bytes)?;
            let _ = room.advise(memmap2::Advice::HugePage);
            spare.0.send(room)?;
        }
        let (next_tile, file_end) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { request, frames, codec, file, piece_bytes, next_tile, file_end, spare })
    }

    /// Fills pieces until no tile is left.
    fn encode_all(&self, to_write: &Sender<Piece>) -> Outcome<()> {
        let tiles = self.request.pixel_bytes.div_ceil(self.request.tile_bytes() as u64);
        let mut encoder = Encoder::new(&self.codec, self.request.element_bytes, self.request.tile_bytes())?;
        let mut spare = vec![1; self.request.tile_bytes()];
        loop {
            let (mut room, mut used) = (self.spare.1.recv()?, 0);
            while used < self.piece_bytes {
                let number = self.next_tile.fetch_add(1, Relaxed);
                if number >= tiles {
                    return Ok(self.write(&room, used)?);
                }
                used += self.add(&mut encoder, number, &mut spare, &mut room[used..])?;
            }
            to_write.send((room, used))?;
        }
    }

    /// Makes a tile's chunk at the start of `room`; its bytes.
    fn add(&self, encoder: &mut Encoder, number: u64, spare: &mut [u8], room: &mut [u8]) -> Outcome<usize> {
        let tile = Tile::new(self.request, self.frames, number);
        if !encoder.is_identity() {
            return Ok(tile.encode(encoder, spare, room)?);
        }
        let room = &mut room[..tile.bytes()];
        match tile.in_one(0..room.len()) {
            Some(pixels) => room.copy_from_slice(pixels),
            None => tile.gather(room),
        }
        Ok(room.len())
    }

    /// Writes pieces until no encoder is left.
    fn write_all(&self, pieces: &Receiver<Piece>) -> std::io::Result<()> {
        let mut outcome = Ok(());
        for (room, used) in pieces {
            if outcome.is_ok() {
                outcome = self.write(&room, used);
            }
            // After an error, too: the encoders wait for it. If none is left, nobody takes it.
            let _ = self.spare.0.send(room);
        }
        outcome
    }

    fn write(&self, room: &[u8], used: usize) -> std::io::Result<()> {
        let bytes = whole_pages(used as u64);
        self.file.write_all_at(&room[..bytes as usize], self.file_end.fetch_add(bytes, Relaxed))
    }
}
