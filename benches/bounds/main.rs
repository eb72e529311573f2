//! What this machine could do at best, for the same frames, tiles and codec that a writer gets: copies in memory, tiles
//! encoded to nowhere, writes of raw bytes to a folder, sync included, and both at once. One JSON object on stdout,
//! rates in bytes per second. They show about what is left to gain; on a machine whose speed changes, a run can come
//! out above them.
//!
//! `tools/compare` runs it between its rounds: `bounds --frames FILE --shape T,Y,X --chunk T,Y,X --pixel-bytes N
//! --folder DIR --bytes N [--codec blosc-lz4] [--level 1] [--element-bytes 2] [--threads N]`. `--pixel-bytes` are
//! gathered and encoded, `--bytes` are written. Without `--frames`, it tries itself on a few made-up frames.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use memmap2::MmapMut;
use serde_json::{Value, json};
use shardwright::codec::Encoder;
use shardwright::{BloscCname, Codec, Compressor, Shuffle};

mod bare;
mod files;
mod tiles;

use self::tiles::Tile;

/// Enough to be far beyond every cache.
const MEMORY_BYTES: usize = 256 << 20;
/// Turns of copying; the fastest counts, as a bound must not suffer from a neighbour or a cold start.
const COPY_TURNS: usize = 3;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if words.iter().any(|word| word == "--frames") {
        let mut request = Request::parse(&words)?;
        let frames = load(&mut request)?;
        println!("{}", measure(&request, &frames)?);
        return Ok(());
    }
    try_out()
}

/// What to measure.
struct Request {
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

impl Request {
    fn parse(words: &[String]) -> Outcome<Self> {
        let mut options = HashMap::new();
        for pair in words.chunks(2) {
            let [name, value] = pair else { return Err(format!("{} needs a value", pair[0]).into()) };
            options.insert(name.as_str(), value.as_str());
        }
        let need = |name: &str| options.get(name).copied().ok_or_else(|| format!("{name} is missing"));
        let or = |name: &str, default: &'static str| options.get(name).copied().unwrap_or(default);
        let request = Self {
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
        if request.chunk[0] > request.shape[0] || request.chunk.contains(&0) {
            return Err(format!("chunks of {:?} do not fit frames of {:?}", request.chunk, request.shape).into());
        }
        Ok(request)
    }

    fn frame_bytes(&self) -> usize {
        self.shape[1] * self.shape[2] * self.element_bytes
    }

    fn tile_bytes(&self) -> usize {
        self.chunk.iter().product::<usize>() * self.element_bytes
    }

    /// Whole tiles along each dimension, as many as are worth the time. Ragged ones at the edges would only blur the
    /// rate.
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

/// The frames, in memory that starts on a page: direct writes take nothing else. Few or small ones are repeated until
/// they are beyond every cache, as those are that a camera has just brought.
fn load(request: &mut Request) -> Outcome<MmapMut> {
    let pool_bytes = request.shape[0] * request.frame_bytes();
    let repeats = MEMORY_BYTES.div_ceil(pool_bytes.max(1));
    let mut frames = MmapMut::map_anon(repeats * pool_bytes)?;
    // Only a hint: what a device is given is then in longer pieces.
    let _ = frames.advise(memmap2::Advice::HugePage);
    let (pool, others) = frames.split_at_mut(pool_bytes);
    File::open(&request.frames)?.read_exact(pool)?;
    others.chunks_exact_mut(pool_bytes).for_each(|other| other.copy_from_slice(pool));
    request.shape[0] *= repeats;
    Ok(frames)
}

fn measure(request: &Request, frames: &[u8]) -> Outcome<Value> {
    fs::create_dir_all(&request.folder)?;
    let (one, _) = encode(request, frames, 1)?;
    let (all, ratio) = encode(request, frames, request.threads)?;
    Ok(json!({
        "threads": request.threads,
        "copy": { "one": copy(frames, 1), "all": copy(frames, request.threads) },
        "codec": { "one": one, "all": all },
        "codec_ratio": ratio,
        "storage_bytes": request.bytes,
        "storage": {
            "mapped": files::rate(request, frames, files::mapped)?,
            "buffered": files::rate(request, frames, files::buffered)?,
            "buffered, one thread": files::rate(request, frames, files::buffered_by_one)?,
            "direct": files::rate(request, frames, files::direct)?,
        },
        "together": {
            "buffered": bare::rate(request, frames, ratio, false)?,
            "direct": bare::rate(request, frames, ratio, true)?,
        },
    }))
}

/// Bytes per second that `threads` threads copy, each its part, into memory that was touched before.
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

/// Bytes per second that `threads` threads gather and encode to nowhere, and the ratio that comes of it. As many bytes
/// as the writer's run takes: a shared machine's speed changes within seconds, and the fastest moment of it would be a
/// bound for nobody.
fn encode(request: &Request, frames: &[u8], threads: usize) -> Outcome<(f64, f64)> {
    let distinct = request.tiles().iter().product::<usize>() as u64;
    if distinct == 0 {
        return Err(format!("frames of {:?} hold no whole tile of {:?}", request.shape, request.chunk).into());
    }
    let count = request.pixel_bytes.div_ceil(request.tile_bytes() as u64);
    let (next, encoded, barrier) = (AtomicU64::new(0), AtomicU64::new(0), Barrier::new(threads));
    let work = || -> Result<f64, shardwright::Error> {
        let codec = Codec { compressor: request.compressor, checksum: false };
        // All workers get the same words, so that none fails alone and leaves the others at the barrier.
        let mut encoder = Encoder::new(&codec, request.element_bytes, request.tile_bytes())?;
        let (mut spare, mut room) = (vec![1; request.tile_bytes()], vec![1; encoder.bound()]);
        let mut until = |end: u64| -> Result<(), shardwright::Error> {
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= end {
                    return Ok(());
                }
                let tile = Tile::new(request, frames, number);
                // What is stored as it is needs no second copy.
                let length = if encoder.is_identity() {
                    tile.in_one_piece(&mut spare).len()
                } else {
                    tile.encode(&mut encoder, &mut spare, &mut room)?
                };
                std::hint::black_box((&spare, &room));
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
    let pixels = (count * request.tile_bytes() as u64) as f64;
    Ok((pixels / seconds, pixels / encoded.into_inner() as f64))
}

/// One turn with made-up frames in a temporary folder, so that a plain `cargo bench` or a test of all targets shows
/// that every part works.
fn try_out() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let mut request = Request {
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
    fs::write(&request.frames, pixels.flat_map(u16::to_le_bytes).collect::<Vec<_>>())?;
    let frames = load(&mut request)?;
    let found = measure(&request, &frames)?;
    assert!(found["codec_ratio"].as_f64().is_some_and(|ratio| ratio > 1.5), "{found}");
    assert!(found["storage"]["mapped"].is_f64(), "{found}");
    println!("{found}");
    Ok(())
}
