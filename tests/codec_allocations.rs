//! Encoders allocate when they are made and never again, in Rust or in C.
//!
//! The test stands in a program of its own, because it puts itself in front of the C library's `malloc`, which Rust's
//! allocator also calls.

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_void;

use shardwright::codec::Encoder;
use shardwright::{BloscCname, Codec, Compressor, Shuffle};

unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(old: *mut c_void, bytes: usize) -> *mut c_void;
}

thread_local! {
    /// The test program's other threads allocate when they like.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: this and the next two do what the functions do that they stand in front of.
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
            let before = ALLOCATIONS.get();
            for _ in 0..200 {
                for tile in &tiles {
                    encoder.encode(tile, &mut room).unwrap();
                }
            }
            assert_eq!(ALLOCATIONS.get() - before, 0, "{compressor:?} with {raw_bytes} bytes");
        }
    }
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(vec![1_u8; 100]));
    assert!(ALLOCATIONS.get() > before, "the test counts");
}
