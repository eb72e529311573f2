//! After some shards of warm-up, neither the thread that brings frames nor the workers allocate; encoders never do.
//!
//! The tests stand in a program of their own, because they put themselves in front of the C library's `malloc`, which
//! Rust's allocator and the codecs in C call. The threads that prepare and close shards may allocate: no frame waits
//! for them.

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(unsafe_code)]

#[path = "it/common/mod.rs"]
mod common;

use std::cell::Cell;
use std::ffi::{c_int, c_ulong, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use common::storage::wait_until;
use common::tiny;
use shardwright::codec::Encoder;
use shardwright::{
    Acquisition, BloscCname, Codec, Compressor, Config, Dim, Dtype, Placement, Record, RingFull, Shuffle, StorageKind,
};

unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(old: *mut c_void, bytes: usize) -> *mut c_void;
    fn __libc_memalign(align: usize, bytes: usize) -> *mut c_void;
    fn prctl(option: c_int, name: *mut u8, unused: c_ulong, too: c_ulong, as_well: c_ulong) -> c_int;
}

static COUNTING: AtomicBool = AtomicBool::new(false);
static BY_WORKERS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Allocations of each thread.
    static OWN: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    let _ = OWN.try_with(|own| own.set(own.get() + 1));
    if !COUNTING.load(SeqCst) {
        return;
    }
    // The kernel knows the thread's name without allocating.
    let mut name = [0; 16];
    // SAFETY: option 16, PR_GET_NAME, writes at most 16 bytes.
    unsafe { prctl(16, name.as_mut_ptr(), 0, 0, 0) };
    if name.starts_with(b"sw-worker") {
        BY_WORKERS.fetch_add(1, SeqCst);
    }
}

// SAFETY: this and the next three do what the functions do that they stand in front of.
#[unsafe(no_mangle)]
extern "C" fn malloc(bytes: usize) -> *mut c_void {
    count();
    // SAFETY: as above.
    unsafe { __libc_malloc(bytes) }
}

#[unsafe(no_mangle)]
extern "C" fn calloc(items: usize, bytes: usize) -> *mut c_void {
    count();
    // SAFETY: as above.
    unsafe { __libc_calloc(items, bytes) }
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(old: *mut c_void, bytes: usize) -> *mut c_void {
    count();
    // SAFETY: as above.
    unsafe { __libc_realloc(old, bytes) }
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, bytes: usize) -> c_int {
    count();
    // SAFETY: the caller gives a place for the result.
    unsafe { *out = __libc_memalign(align, bytes) };
    0
}

const SIDE: u64 = 128;
const FRAMES: u64 = 240;
const WARM_UP: u64 = 80;

/// Runs one acquisition; returns what the producer and the workers allocated after the warm-up.
fn allocations(config: Config, append: bool) -> (u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let acquisition = Acquisition::create(folder.path().join("run.zarr"), config).unwrap();
    let pixels: Vec<u8> = (0..SIDE * SIDE * 2).map(|at| ((at * at) >> 9) as u8).collect();
    let bring = |number: u64| {
        if append {
            while let Err(error) = acquisition.append(&pixels) {
                assert!(error.is_ring_full(), "{error}");
            }
        } else {
            let mut slot = loop {
                match acquisition.acquire() {
                    Ok(slot) => break slot,
                    Err(error) => assert!(error.is_ring_full(), "{error}"),
                }
            };
            slot.copy_from_slice(&pixels);
            slot.commit(number, Record::default()).unwrap();
        }
    };
    // Who waits at a queue for the first time makes itself a place in it. Seen to be made: a thread that the system did
    // not let run meanwhile may find the time up before it waits.
    let loans: Vec<_> = (0..acquisition.stats().ring_frames).map(|_| acquisition.acquire().unwrap()).collect();
    let before = OWN.get();
    while OWN.get() == before {
        assert!(acquisition.acquire().unwrap_err().is_ring_full());
    }
    drop(loans);
    (0..WARM_UP).for_each(bring);
    wait_until("the warm-up is written", || acquisition.stats().frames_written == WARM_UP);
    let (own, workers) = (OWN.get(), BY_WORKERS.load(SeqCst));
    COUNTING.store(true, SeqCst);
    (WARM_UP..FRAMES).for_each(bring);
    // Not `wait_until`, whose caller counts here.
    while acquisition.stats().frames_written < FRAMES {
        std::thread::sleep(Duration::from_millis(1));
    }
    COUNTING.store(false, SeqCst);
    let counts = (OWN.get() - own, BY_WORKERS.load(SeqCst) - workers);
    acquisition.finish().unwrap();
    counts
}

#[test]
fn frames_pass_without_an_allocation() {
    let blosc = Compressor::Blosc { cname: BloscCname::Lz4, level: 1, shuffle: Shuffle::Bit, block_bytes: 0 };
    for compressor in [Compressor::None, blosc, Compressor::Zstd { level: 1 }] {
        for (placement, storage) in [
            (Placement::Fixed, StorageKind::Mapped),
            (Placement::Packed, StorageKind::Mapped),
            (Placement::Fixed, StorageKind::Buffered),
            (Placement::Packed, StorageKind::Direct),
        ] {
            for append in [false, true] {
                let dims = vec![Dim::time(None).chunk(2).shard(8), Dim::y(SIDE).chunk(64), Dim::x(SIDE).chunk(64)];
                let codec = Codec::from(compressor);
                let ring_bytes = 64 * (SIDE * SIDE * 2) as usize;
                let what = format!("{compressor:?} {placement:?} {storage:?}, append: {append}");
                let dtype = Dtype::U16;
                let ring_full = RingFull::Block { timeout: Some(Duration::from_millis(100)) };
                let base = Config { codec, placement, storage, ring_bytes, ring_full, ..tiny(None, 64) };
                let config = Config { dtype, dims, workers: 3, ..base };
                assert_eq!(allocations(config, append), (0, 0), "by the producer, by the workers: {what}");
            }
        }
    }
    // The test would notice.
    COUNTING.store(true, SeqCst);
    let before = (OWN.get(), BY_WORKERS.load(SeqCst));
    drop(std::hint::black_box(vec![1_u8; 100]));
    let worker = std::thread::Builder::new().name("sw-worker-0".into());
    worker.spawn(|| drop(std::hint::black_box(vec![1_u8; 100]))).unwrap().join().unwrap();
    COUNTING.store(false, SeqCst);
    assert!(OWN.get() > before.0 && BY_WORKERS.load(SeqCst) > before.1);
}

/// In Rust or in C.
#[test]
fn encoding_allocates_nothing() {
    let blosc = |cname, level| Compressor::Blosc { cname, level, shuffle: Shuffle::Bit, block_bytes: 0 };
    let compressors = [
        Compressor::None,
        blosc(BloscCname::Lz4, 1),
        Compressor::BloscNoise { block_bytes: 0 },
        blosc(BloscCname::Lz4hc, 5),
        blosc(BloscCname::Zstd, 1),
        blosc(BloscCname::Zstd, 5),
        blosc(BloscCname::Zlib, 1),
        Compressor::Zstd { level: 1 },
        Compressor::Zstd { level: 12 },
        Compressor::Gzip { level: 6 },
        Compressor::Lz4,
        Compressor::Zlib { level: 1 },
    ];
    // One tile ends with a short block, the other is one block.
    for raw_bytes in [200_010, 30_000] {
        let tiles = [vec![0; raw_bytes], (0..raw_bytes).map(|i| ((i * i) >> 7) as u8).collect::<Vec<u8>>()];
        for compressor in compressors {
            let mut encoder = Encoder::new(&Codec { compressor, checksum: true }, 2, raw_bytes).unwrap();
            let mut room = vec![0; encoder.bound()];
            let before = OWN.get();
            for _ in 0..200 {
                for tile in &tiles {
                    encoder.encode(tile, &mut room).unwrap();
                }
            }
            assert_eq!(OWN.get() - before, 0, "{compressor:?} with {raw_bytes} bytes");
        }
    }
    let before = OWN.get();
    drop(std::hint::black_box(vec![1_u8; 100]));
    assert!(OWN.get() > before, "the test counts");
}
