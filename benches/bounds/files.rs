//! Raw bytes to a file, in each way that there is.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use memmap2::{MmapMut, MmapOptions};
use rustix::fs::{FallocateFlags, OFlags, fallocate, fdatasync};

use crate::{Outcome, Request};

const PAGE: u64 = 4096;
/// What one write takes at most. Direct writes wait for the device, so each is worth more.
pub(super) const PIECE: u64 = 1 << 20;
pub(super) const DIRECT_PIECE: u64 = 4 << 20;
/// May be more than there are cores, for each mostly waits for the device.
pub(super) const DIRECT_WRITERS: usize = 4;

/// Bytes per second for a fresh file of `request.bytes` bytes, from its creation until it is synced; `None` where `way`
/// is not possible.
pub(super) fn rate(
    request: &Request,
    frames: &[u8],
    way: fn(&Request, &[u8], &Path) -> Outcome<bool>,
) -> Outcome<Option<f64>> {
    let seconds = seconds_to_file(request, |path| way(request, frames, path))?;
    Ok(seconds.map(|seconds| whole_pages(request.bytes) as f64 / seconds))
}

/// How long `way` takes for a fresh file, which is deleted; `None` where it is not possible.
pub(super) fn seconds_to_file(request: &Request, way: impl FnOnce(&Path) -> Outcome<bool>) -> Outcome<Option<f64>> {
    let path = request.folder.join(format!(".bounds-{}.tmp", std::process::id()));
    // Bytes that others left unwritten must not be charged to this file.
    rustix::fs::sync();
    warm_up(whole_pages(request.bytes) as usize)?;
    let start = Instant::now();
    let outcome = way(&path);
    let seconds = start.elapsed().as_secs_f64();
    fs::remove_file(&path)?;
    Ok(outcome?.then_some(seconds))
}

/// Touches memory and frees it: a virtual machine's host takes back what lies free, and gives it again page by page.
fn warm_up(bytes: usize) -> Outcome<()> {
    let mut memory = MmapMut::map_anon(bytes)?;
    memory.iter_mut().step_by(PAGE as usize).for_each(|byte| *byte = 1);
    std::hint::black_box(&memory);
    Ok(())
}

pub(super) fn mapped(request: &Request, frames: &[u8], path: &Path) -> Outcome<bool> {
    let file = create_reserved(request, path)?;
    let map = MmapOptions::new().len(whole_pages(request.bytes) as usize).map_raw(&file)?;
    let base = map.as_mut_ptr() as usize;
    in_pieces(request.bytes, PIECE, request.threads, frames, |offset, piece| {
        let to = (base + offset as usize) as *mut u8;
        // SAFETY: pieces are disjoint ranges inside the map, which outlives the threads; nobody else knows the file.
        unsafe { to.copy_from_nonoverlapping(piece.as_ptr(), piece.len()) };
        Ok(())
    })?;
    fdatasync(&file)?;
    Ok(true)
}

pub(super) fn buffered(request: &Request, frames: &[u8], path: &Path) -> Outcome<bool> {
    buffered_by(request.threads, request, frames, path)
}

/// Writes to one file wait for each other, so that one thread alone can be the fastest.
pub(super) fn buffered_by_one(request: &Request, frames: &[u8], path: &Path) -> Outcome<bool> {
    buffered_by(1, request, frames, path)
}

fn buffered_by(threads: usize, request: &Request, frames: &[u8], path: &Path) -> Outcome<bool> {
    let file = create(path)?;
    file.set_len(whole_pages(request.bytes))?;
    in_pieces(request.bytes, PIECE, threads, frames, |offset, piece| file.write_all_at(piece, offset))?;
    fdatasync(&file)?;
    Ok(true)
}

pub(super) fn direct(request: &Request, frames: &[u8], path: &Path) -> Outcome<bool> {
    drop(create_reserved(request, path)?);
    let flags = OFlags::DIRECT.bits().cast_signed();
    let Ok(file) = OpenOptions::new().write(true).custom_flags(flags).open(path) else { return Ok(false) };
    let threads = request.threads.max(DIRECT_WRITERS);
    in_pieces(request.bytes, DIRECT_PIECE, threads, frames, |offset, piece| file.write_all_at(piece, offset))?;
    fdatasync(&file)?;
    Ok(true)
}

pub(super) fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

fn create_reserved(request: &Request, path: &Path) -> Outcome<File> {
    let file = create(path)?;
    fallocate(&file, FallocateFlags::empty(), 0, whole_pages(request.bytes))?;
    Ok(file)
}

pub(super) fn whole_pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE)
}

/// Hands ranges of the file, and frames to fill them, to `threads` threads, each range once. Offsets and lengths are
/// whole pages, and so are the frames' addresses.
fn in_pieces(
    bytes: u64,
    piece: u64,
    threads: usize,
    frames: &[u8],
    write: impl Fn(u64, &[u8]) -> std::io::Result<()> + Sync,
) -> std::io::Result<()> {
    let piece = piece.min(frames.len() as u64 / PAGE * PAGE).max(PAGE);
    let (total, sources) = (whole_pages(bytes), frames.len() as u64 / piece);
    assert!(sources > 0, "{} bytes of frames are less than a page", frames.len());
    let next = AtomicU64::new(0);
    let work = || {
        loop {
            let number = next.fetch_add(1, Relaxed);
            let offset = number * piece;
            if offset >= total {
                return Ok(());
            }
            let from = (number % sources * piece) as usize;
            write(offset, &frames[from..from + piece.min(total - offset) as usize])?;
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })
}
