//! What this machine could do at best, for the same frames, tiles and codec that a writer gets: copies in memory, gather and
//! encode to nowhere, writes of raw bytes to a folder, sync included, and both at once. One JSON object on stdout, rates in
//! bytes a second. They show about what is left to gain; on a machine whose speed changes, a run can come out above them.
//!
//! `tools/compare` runs it between its rounds:
//! `bounds --frames FILE --shape T,Y,X --chunk T,Y,X --pixel-bytes N --folder DIR --bytes N [--codec blosc-lz4] [--level 1]
//! [--element-bytes 2] [--threads N]`. `--pixel-bytes` are gathered and encoded, `--bytes` are written. Without `--frames`, it
//! tries itself on a few made-up frames.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use memmap2::{MmapMut, MmapOptions};
use rustix::fs::{FallocateFlags, OFlags, fallocate, fdatasync};
use serde_json::{Value, json};
use shardwright::codec::Encoder;
use shardwright::{BloscCname, Codec, Compressor, Shuffle};

const PAGE: u64 = 4096;
/// What one write takes at most. Direct writes wait for the device, so each is worth more.
const PIECE: u64 = 1 << 20;
const DIRECT_PIECE: u64 = 4 << 20;
/// May be more than there are cores, for each mostly waits for the device.
const DIRECT_WRITERS: usize = 4;
/// As the writer's workers do it (`src/engine/worker.rs`).
const PREFETCHED_ROWS: usize = 3;
const PREFETCHED_ROW_BYTES_MIN: usize = 1 << 10;
/// Enough to be far beyond every cache.
const MEMORY_BYTES: usize = 256 << 20;
/// Turns of copying; the fastest counts, as a bound must not suffer from a neighbour or a cold start.
const COPY_TURNS: usize = 3;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if words.iter().any(|word| word == "--frames") {
        let mut wish = Wish::parse(&words)?;
        let frames = load(&mut wish)?;
        println!("{}", measure(&wish, &frames)?);
        return Ok(());
    }
    try_out()
}

/// What to measure.
struct Wish {
    frames: PathBuf,
    shape: [usize; 3],
    chunk: [usize; 3],
    element_bytes: usize,
    compressor: Compressor,
    folder: PathBuf,
    bytes: u64,
    pixel_bytes: u64,
    threads: usize,
}

impl Wish {
    fn parse(words: &[String]) -> Outcome<Self> {
        let mut options = HashMap::new();
        for pair in words.chunks(2) {
            let [name, value] = pair else { return Err(format!("{} needs a value", pair[0]).into()) };
            options.insert(name.as_str(), value.as_str());
        }
        let need = |name: &str| options.get(name).copied().ok_or_else(|| format!("{name} is missing"));
        let or = |name: &str, default: &'static str| options.get(name).copied().unwrap_or(default);
        let wish = Self {
            frames: need("--frames")?.into(),
            shape: three(need("--shape")?)?,
            chunk: three(need("--chunk")?)?,
            element_bytes: or("--element-bytes", "2").parse()?,
            compressor: compressor(or("--codec", "none"), or("--level", "1").parse()?)?,
            folder: need("--folder")?.into(),
            bytes: need("--bytes")?.parse()?,
            pixel_bytes: need("--pixel-bytes")?.parse()?,
            threads: match or("--threads", "0").parse()? {
                0 => thread::available_parallelism()?.get(),
                threads => threads,
            },
        };
        if wish.chunk[0] > wish.shape[0] || wish.chunk.contains(&0) {
            return Err(format!("chunks of {:?} do not fit frames of {:?}", wish.chunk, wish.shape).into());
        }
        Ok(wish)
    }

    fn frame_bytes(&self) -> usize {
        self.shape[1] * self.shape[2] * self.element_bytes
    }

    fn tile_bytes(&self) -> usize {
        self.chunk.iter().product::<usize>() * self.element_bytes
    }

    /// Whole tiles along each dimension, as many as are worth the time. Ragged ones at the edges would only blur the rate.
    fn tiles(&self) -> [usize; 3] {
        let [deep, high, wide] = [0, 1, 2].map(|dim| self.shape[dim] / self.chunk[dim]);
        let layer_bytes = high * wide * self.tile_bytes();
        [deep.min((MEMORY_BYTES / layer_bytes.max(1)).max(1)), high, wide]
    }
}

fn three(text: &str) -> Outcome<[usize; 3]> {
    let numbers = text.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>()?;
    numbers.try_into().map_err(|_| format!("{text:?} is not three numbers, such as 16,256,256").into())
}

fn compressor(name: &str, level: u8) -> Outcome<Compressor> {
    let cname = match name {
        "none" => return Ok(Compressor::None),
        "blosc-lz4" => BloscCname::Lz4,
        "blosc-zstd" => BloscCname::Zstd,
        _ => return Err(format!("codec {name:?} is not known; possible are none, blosc-lz4 and blosc-zstd").into()),
    };
    Ok(Compressor::Blosc { cname, level, shuffle: Shuffle::Bit, block_bytes: 0 })
}

/// The frames, in memory that starts on a page: direct writes take nothing else. Few or small ones are repeated until they are
/// beyond every cache, as those are that a camera has just brought.
fn load(wish: &mut Wish) -> Outcome<MmapMut> {
    let pool_bytes = wish.shape[0] * wish.frame_bytes();
    let repeats = MEMORY_BYTES.div_ceil(pool_bytes.max(1));
    let mut frames = MmapMut::map_anon(repeats * pool_bytes)?;
    // Only a wish: what a device is given is then in longer pieces.
    let _ = frames.advise(memmap2::Advice::HugePage);
    let (pool, others) = frames.split_at_mut(pool_bytes);
    File::open(&wish.frames)?.read_exact(pool)?;
    others.chunks_exact_mut(pool_bytes).for_each(|other| other.copy_from_slice(pool));
    wish.shape[0] *= repeats;
    Ok(frames)
}

fn measure(wish: &Wish, frames: &[u8]) -> Outcome<Value> {
    fs::create_dir_all(&wish.folder)?;
    let (one, _) = encode(wish, frames, 1)?;
    let (all, ratio) = encode(wish, frames, wish.threads)?;
    Ok(json!({
        "threads": wish.threads,
        "copy": { "one": copy(frames, 1), "all": copy(frames, wish.threads) },
        "codec": { "one": one, "all": all },
        "codec_ratio": ratio,
        "storage_bytes": wish.bytes,
        "storage": {
            "mapped": storage_rate(wish, frames, mapped)?,
            "buffered": storage_rate(wish, frames, buffered)?,
            "buffered, one thread": storage_rate(wish, frames, buffered_by_one)?,
            "direct": storage_rate(wish, frames, direct)?,
        },
        "together": {
            "buffered": together_rate(wish, frames, ratio, false)?,
            "direct": together_rate(wish, frames, ratio, true)?,
        },
    }))
}

/// Bytes a second that `threads` threads copy, each its part, into memory that was touched before.
fn copy(frames: &[u8], threads: usize) -> f64 {
    let source = &frames[..frames.len().min(MEMORY_BYTES)];
    let mut target = vec![1_u8; source.len()];
    let part = source.len().div_ceil(threads);
    let mut seconds = f64::INFINITY;
    for _ in 0..COPY_TURNS {
        let start = Instant::now();
        thread::scope(|scope| {
            for (from, to) in source.chunks(part).zip(target.chunks_mut(part)) {
                scope.spawn(|| to.copy_from_slice(from));
            }
        });
        seconds = seconds.min(start.elapsed().as_secs_f64());
    }
    std::hint::black_box(&target);
    source.len() as f64 / seconds
}

/// Bytes a second that `threads` threads gather and encode to nowhere, and the ratio that comes of it. As many bytes as the
/// writer's run takes: a shared machine's speed changes within seconds, and the fastest moment of it would be a bound for
/// nobody.
fn encode(wish: &Wish, frames: &[u8], threads: usize) -> Outcome<(f64, f64)> {
    let [deep, high, wide] = wish.tiles();
    let distinct = (deep * high * wide) as u64;
    if distinct == 0 {
        return Err(format!("frames of {:?} hold no whole tile of {:?}", wish.shape, wish.chunk).into());
    }
    let count = wish.pixel_bytes.div_ceil(wish.tile_bytes() as u64);
    let (next, encoded, barrier) = (AtomicU64::new(0), AtomicU64::new(0), Barrier::new(threads));
    let work = || -> Result<f64, shardwright::Error> {
        let codec = Codec { compressor: wish.compressor, checksum: false };
        // All workers get the same words, so that none fails alone and leaves the others at the barrier.
        let mut encoder = Encoder::new(&codec, wish.element_bytes, wish.tile_bytes())?;
        let (mut tile, mut room) = (vec![1; wish.tile_bytes()], vec![1; encoder.bound()]);
        let mut until = |end: u64| -> Result<(), shardwright::Error> {
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= end {
                    return Ok(());
                }
                let number = (number % distinct) as usize;
                gather(wish, frames, [number / wide / high, number / wide % high, number % wide], &mut tile);
                // What is stored as it is needs no second copy.
                let length = if encoder.is_identity() { tile.len() } else { encoder.encode(&tile, &mut room)? };
                std::hint::black_box((&tile, &room));
                encoded.fetch_add(length as u64, Relaxed);
            }
        };
        // All that is touched for the first time is touched here.
        until(distinct)?;
        barrier.wait();
        next.store(0, Relaxed);
        encoded.store(0, Relaxed);
        // Before the barrier: a worker that wakes late from it would see the others' work done in no time.
        let start = Instant::now();
        barrier.wait();
        until(count)?;
        barrier.wait();
        Ok(start.elapsed().as_secs_f64())
    };
    let seconds = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |worker: thread::ScopedJoinHandle<_>| worker.join().expect("a worker does not panic");
        workers.into_iter().map(join).try_fold(f64::INFINITY, |least, seconds| seconds.map(|found| least.min(found)))
    })?;
    let pixels = (count * wish.tile_bytes() as u64) as f64;
    Ok((pixels / seconds, pixels / encoded.into_inner() as f64))
}

/// Copies one tile's rows, frame by frame, to the start of each other. Rows are asked for ahead, as the writer does it: a slower
/// gather would be a bound that flatters.
fn gather(wish: &Wish, frames: &[u8], at: [usize; 3], tile: &mut [u8]) {
    let [depth, height, width] = wish.chunk;
    let (row_bytes, stride) = (width * wish.element_bytes, wish.shape[2] * wish.element_bytes);
    for (row, to) in tile.chunks_exact_mut(row_bytes).enumerate() {
        let (z, y) = (at[0] * depth + row / height, at[1] * height + row % height);
        let from = z * wish.frame_bytes() + y * stride + at[2] * row_bytes;
        let soon = from + PREFETCHED_ROWS * stride;
        if row_bytes >= PREFETCHED_ROW_BYTES_MIN
            && let Some(soon) = frames.get(soon..soon + row_bytes)
        {
            prefetch(soon);
        }
        to.copy_from_slice(&frames[from..from + row_bytes]);
    }
}

fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: changes nothing but caches, and the address is that of a slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// Bytes a second for a fresh file of `wish.bytes` bytes, from its creation until it is synced; `None` where `way` is not
/// possible.
fn storage_rate(wish: &Wish, frames: &[u8], way: fn(&Wish, &[u8], &Path) -> Outcome<bool>) -> Outcome<Option<f64>> {
    let seconds = seconds_to_file(wish, |path| way(wish, frames, path))?;
    Ok(seconds.map(|seconds| whole_pages(wish.bytes) as f64 / seconds))
}

/// How long `way` takes for a fresh file, which is deleted; `None` where it is not possible.
fn seconds_to_file(wish: &Wish, way: impl FnOnce(&Path) -> Outcome<bool>) -> Outcome<Option<f64>> {
    let path = wish.folder.join(format!(".bounds-{}.tmp", std::process::id()));
    // Bytes that others left unwritten must not be charged to this file.
    rustix::fs::sync();
    warm_up(whole_pages(wish.bytes) as usize)?;
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

fn mapped(wish: &Wish, frames: &[u8], path: &Path) -> Outcome<bool> {
    let file = create_reserved(wish, path)?;
    let map = MmapOptions::new().len(whole_pages(wish.bytes) as usize).map_raw(&file)?;
    let base = map.as_mut_ptr() as usize;
    in_pieces(wish.bytes, PIECE, wish.threads, frames, |offset, piece| {
        let to = (base + offset as usize) as *mut u8;
        // SAFETY: pieces are disjoint ranges inside the map, which outlives the threads; nobody else knows the file.
        unsafe { to.copy_from_nonoverlapping(piece.as_ptr(), piece.len()) };
        Ok(())
    })?;
    fdatasync(&file)?;
    Ok(true)
}

fn buffered(wish: &Wish, frames: &[u8], path: &Path) -> Outcome<bool> {
    buffered_by(wish.threads, wish, frames, path)
}

/// Writes to one file wait for each other, so that one thread alone can be the fastest.
fn buffered_by_one(wish: &Wish, frames: &[u8], path: &Path) -> Outcome<bool> {
    buffered_by(1, wish, frames, path)
}

fn buffered_by(threads: usize, wish: &Wish, frames: &[u8], path: &Path) -> Outcome<bool> {
    let file = create(path)?;
    file.set_len(whole_pages(wish.bytes))?;
    in_pieces(wish.bytes, PIECE, threads, frames, |offset, piece| file.write_all_at(piece, offset))?;
    fdatasync(&file)?;
    Ok(true)
}

fn direct(wish: &Wish, frames: &[u8], path: &Path) -> Outcome<bool> {
    drop(create_reserved(wish, path)?);
    let flags = OFlags::DIRECT.bits().cast_signed();
    let Ok(file) = OpenOptions::new().write(true).custom_flags(flags).open(path) else { return Ok(false) };
    let threads = wish.threads.max(DIRECT_WRITERS);
    in_pieces(wish.bytes, DIRECT_PIECE, threads, frames, |offset, piece| file.write_all_at(piece, offset))?;
    fdatasync(&file)?;
    Ok(true)
}

fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

fn create_reserved(wish: &Wish, path: &Path) -> Outcome<File> {
    let file = create(path)?;
    fallocate(&file, FallocateFlags::empty(), 0, whole_pages(wish.bytes))?;
    Ok(file)
}

fn whole_pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE)
}

/// Hands ranges of the file, and frames to fill them, to `threads` threads, each range once. Offsets and lengths are whole
/// pages, and so are the frames' addresses.
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

/// Bytes of pixels a second when all that a writer can't go without is done at once: gather, encode, and long writes by threads of
/// their own, sync included. No ring, no shards, no index, no checksum. `None` where it is not possible.
fn together_rate(wish: &Wish, frames: &[u8], ratio: f64, is_direct: bool) -> Outcome<Option<f64>> {
    let seconds = seconds_to_file(wish, |path| together(wish, frames, ratio, is_direct, path))?;
    Ok(seconds.map(|seconds| wish.pixel_bytes as f64 / seconds))
}

fn together(wish: &Wish, frames: &[u8], ratio: f64, is_direct: bool, path: &Path) -> Outcome<bool> {
    // Those into the page cache would wait for each other.
    let (count, piece) = if is_direct { (DIRECT_WRITERS, DIRECT_PIECE) } else { (1, PIECE) };
    let mut file = create(path)?;
    if is_direct {
        let bytes = (wish.pixel_bytes as f64 / ratio) as u64;
        fallocate(&file, FallocateFlags::empty(), 0, whole_pages(bytes + (wish.threads as u64 + 1) * piece))?;
        let flags = OFlags::DIRECT.bits().cast_signed();
        let Ok(direct) = OpenOptions::new().write(true).custom_flags(flags).open(path) else { return Ok(false) };
        file = direct;
    }
    let codec = Codec { compressor: wish.compressor, checksum: false };
    let chunk_bytes_max = Encoder::new(&codec, wish.element_bytes, wish.tile_bytes())?.bound().max(wish.tile_bytes());
    let room_bytes = whole_pages(piece + chunk_bytes_max as u64) as usize;
    let [deep, high, wide] = wish.tiles();
    let distinct = deep * high * wide;
    let tiles = wish.pixel_bytes.div_ceil(wish.tile_bytes() as u64) as usize;
    let (next, end) = (AtomicU64::new(0), AtomicU64::new(0));
    let write = |room: &[u8], used: usize| {
        let bytes = whole_pages(used as u64);
        file.write_all_at(&room[..bytes as usize], end.fetch_add(bytes, Relaxed))
    };
    // Those that are written, as many that wait, and one for each encoder.
    let (to_spare, spare) = crossbeam_channel::unbounded();
    for _ in 0..2 * count + wish.threads {
        let room = MmapMut::map_anon(room_bytes)?;
        let _ = room.advise(memmap2::Advice::HugePage);
        to_spare.send(room)?;
    }
    let (to_write, written) = crossbeam_channel::unbounded::<(MmapMut, usize)>();
    let encode = |to_write: crossbeam_channel::Sender<(MmapMut, usize)>| -> Outcome<()> {
        let mut encoder = Encoder::new(&codec, wish.element_bytes, wish.tile_bytes())?;
        let mut tile = vec![1; wish.tile_bytes()];
        loop {
            let (mut room, mut used) = (spare.recv()?, 0);
            while used < piece as usize {
                let number = next.fetch_add(1, Relaxed) as usize;
                if number >= tiles {
                    return Ok(write(&room, used)?);
                }
                let number = number % distinct;
                let at = [number / wide / high, number / wide % high, number % wide];
                if encoder.is_identity() {
                    gather(wish, frames, at, &mut room[used..used + wish.tile_bytes()]);
                    used += wish.tile_bytes();
                } else {
                    gather(wish, frames, at, &mut tile);
                    used += encoder.encode(&tile, &mut room[used..])?;
                }
            }
            to_write.send((room, used))?;
        }
    };
    let write_all = || -> std::io::Result<()> {
        let mut outcome = Ok(());
        for (room, used) in &written {
            if outcome.is_ok() {
                outcome = write(&room, used);
            }
            // After an error, too: the encoders wait for it. If none is left, nobody takes it.
            let _ = to_spare.send(room);
        }
        outcome
    };
    thread::scope(|scope| -> Outcome<()> {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(write_all)).collect();
        let encoders: Vec<_> = (0..wish.threads)
            .map(|_| {
                let to_write = to_write.clone();
                scope.spawn(move || encode(to_write).map_err(|error| error.to_string()))
            })
            .collect();
        drop(to_write);
        for encoder in encoders {
            encoder.join().expect("an encoder does not panic")?;
        }
        for thread in threads {
            thread.join().expect("a writer does not panic")?;
        }
        Ok(())
    })?;
    fdatasync(&file)?;
    Ok(true)
}

/// One turn with made-up frames in a temporary folder, so that a plain `cargo bench` or a test of all targets shows that
/// every part works.
fn try_out() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let mut wish = Wish {
        frames: folder.path().join("frames.raw"),
        shape: [4, 64, 64],
        chunk: [2, 32, 32],
        element_bytes: 2,
        compressor: compressor("blosc-lz4", 1)?,
        folder: folder.path().join("out"),
        bytes: 100_000,
        pixel_bytes: 4 * 64 * 64 * 2,
        threads: 2,
    };
    let pixels = (0..4 * 64 * 64_u32).map(|i| 100 + (i.wrapping_mul(2_654_435_761) >> 29) as u16);
    fs::write(&wish.frames, pixels.flat_map(u16::to_le_bytes).collect::<Vec<_>>())?;
    let frames = load(&mut wish)?;
    let found = measure(&wish, &frames)?;
    assert!(found["codec_ratio"].as_f64().is_some_and(|ratio| ratio > 1.5), "{found}");
    assert!(found["storage"]["mapped"].is_f64(), "{found}");
    println!("{found}");
    Ok(())
}
