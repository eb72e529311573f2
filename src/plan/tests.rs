//! Whatever a caller asks for, a plan is made or refused at once: without a panic, an overflow, or memory that only
//! an absurd request would need. The profile of the tests checks for overflows.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use proptest::prelude::*;

use super::{Plan, TILES_MAX};
use crate::config::{
    BloscCname, Codec, Compressor, Config, Dialect, Dim, DimKind, FrameLayout, IndexLocation, Placement, RecordField,
    Shuffle, StorageKind, Volume, VolumeHash,
};
use crate::dtype::Dtype;
use crate::error::Error;
use crate::format::precomputed::volume::DEALT_MAX;
use crate::geometry::Tile;

/// Of a plan that is refused, or made without long tables.
const BYTES_MAX: usize = 100 << 20;
/// Other tests run beside this one, so it is the thread's own time that counts; the compiler optimises little here.
const TIME_MAX: Duration = Duration::from_millis(100);

/// Counts what a thread has allocated.
struct Counting;

thread_local! {
    static NOW: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

fn took(bytes: usize) {
    let now = NOW.with(|now| {
        now.set(now.get().wrapping_add(bytes));
        now.get()
    });
    // What another thread allocated may be freed by this one.
    MOST.with(|most| most.set(most.get().max(if now > isize::MAX as usize { 0 } else { now })));
}

// SAFETY: each function does what the system's does, and counts before.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        took(layout.size().wrapping_neg());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that `work` held at once at most, and the time that this thread spent on it.
fn cost<T>(work: impl FnOnce() -> T) -> (T, usize, Duration) {
    let time = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is good for the call.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let (before, start) = (NOW.with(Cell::get), time());
    MOST.with(|most| most.set(before));
    let done = work();
    (done, MOST.with(Cell::get).wrapping_sub(before), time() - start)
}

/// Makes a plan and asks it what the engine asks.
fn plan_and_ask(config: &Config) -> Result<usize, Error> {
    let plan = Plan::new(config)?;
    // More frames are refused where their number is known.
    let last = plan.frames_total.unwrap_or(1 << 56) - 1;
    for number in [0, last / 2, last] {
        let at = plan.layers.locate(number);
        let grid = plan.layers.grid_position(at.block, at.cell);
        let first = plan.first_chunk(&grid);
        let tile = plan.tiles.last().expect("a frame has a tile");
        let (shard, chunk) = plan.slot_of(first, tile);
        assert!(shard < plan.shard.across_frame && chunk < plan.shard.chunks, "{shard}, {chunk}");
        assert!(plan.layer_of(number) < plan.shard.layers.max(1) || plan.volume.is_some());
        assert!(plan.layers.block_frames(at.block).contains(&number));
        let at = plan.shards.locate(number);
        plan.layers_of_shard(&plan.shards.grid_position(at.block, at.cell));
        plan.planes_kept(&grid, None);
        plan.extent(number, true);
        plan.extent(number, false);
    }
    plan.first_shape();
    assert!(plan.ring.frames > 0 && plan.ring.layer_slots > 0 && plan.ring.shard_blocks_live > 0);
    let table = if plan.volume.as_ref().is_some_and(|volume| volume.table.is_some()) { DEALT_MAX } else { 0 };
    Ok(plan.tiles.len() * 2 * size_of::<Tile>() + table as usize * 64)
}

fn check(config: &Config) {
    let (made, bytes, time) = cost(|| plan_and_ask(config));
    // What the plan holds is what it is for. One of a volume may be refused after its chunks were dealt out.
    let dealt = if config.dialect == Dialect::Precomputed { DEALT_MAX as usize * 64 } else { 0 };
    let tables = made.as_ref().copied().unwrap_or(dealt);
    assert!(bytes < BYTES_MAX + tables, "{bytes} bytes for {:?} of {config:?}", made.err());
    assert!(time < TIME_MAX + Duration::from_nanos(8 * tables as u64), "{time:?} for {:?} of {config:?}", made.err());
    if let Err(error) = made {
        // Of files that a process may have open there are few on some machines.
        let is_refused = matches!(error, Error::Config { .. } | Error::Codec { .. } | Error::Limit { .. });
        assert!(is_refused, "{error:?}");
    }
}

const EDGES: [u64; 13] =
    [0, 16, 100, 1 << 10, 1 << 16, 1 << 20, 1 << 22, 1 << 31, 1 << 32, 1 << 40, 1 << 56, 1 << 63, u64::MAX];

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 1..70_u64,
        4 => (prop::sample::select(&EDGES[..]), -1..2_i64).prop_map(|(edge, more)| edge.wrapping_add_signed(more)),
        1 => any::<u64>(),
    ]
}

fn length() -> impl Strategy<Value = usize> {
    number().prop_map(|number| number as usize)
}

fn dims() -> impl Strategy<Value = Vec<Dim>> {
    let kind = prop::sample::select(vec![DimKind::Time, DimKind::Channel, DimKind::Space, DimKind::Other]);
    // Half of all chunks and shards are left to the plan, and half of all sizes are ordinary.
    let auto = || prop_oneof![1 => Just(0), 1 => number()];
    let dim = (kind, prop_oneof![1 => Just(None), 9 => number().prop_map(Some)], auto(), auto());
    let outer = prop_oneof![Just(0..3_usize), Just(0..18_usize)]
        .prop_flat_map(move |count| prop::collection::vec(dim.clone(), count.start + 2..count.end + 2));
    outer.prop_map(|dims| {
        let named = dims.into_iter().enumerate().map(|(at, (kind, size, chunk, shard))| {
            // Where the number of dimensions is what it is, the first alone may be unbounded.
            let size = if at == 0 { size } else { size.or(Some(7)) };
            Dim { chunk, shard, ..Dim::new(&format!("d{at}"), kind, size) }
        });
        named.collect()
    })
}

fn codec() -> impl Strategy<Value = Codec> {
    let cname = prop::sample::select(vec![BloscCname::Lz4, BloscCname::Lz4hc, BloscCname::Zstd, BloscCname::Blosclz]);
    let shuffle = prop::sample::select(vec![Shuffle::None, Shuffle::Byte, Shuffle::Bit]);
    let level = || prop_oneof![3 => 0..10_u8, 1 => any::<u8>()];
    let block_bytes = || prop_oneof![2 => Just(0), 1 => length()];
    let compressor = prop_oneof![
        3 => Just(Compressor::None),
        1 => (cname, level(), shuffle, block_bytes())
            .prop_map(|(cname, level, shuffle, block_bytes)| Compressor::Blosc { cname, level, shuffle, block_bytes }),
        1 => block_bytes().prop_map(|block_bytes| Compressor::BloscNoise { block_bytes }),
        1 => prop_oneof![3 => -10..23, 1 => any::<i32>()].prop_map(|level| Compressor::Zstd { level }),
        1 => level().prop_map(|level| Compressor::Gzip { level }),
        1 => level().prop_map(|level| Compressor::Zlib { level }),
        1 => Just(Compressor::Lz4),
        1 => Just(Compressor::Auto),
    ];
    (compressor, any::<bool>()).prop_map(|(compressor, checksum)| Codec { compressor, checksum })
}

fn volume() -> impl Strategy<Value = Volume> {
    let bits = || prop_oneof![2 => Just(None), 2 => (0..30_u8).prop_map(Some), 1 => any::<u8>().prop_map(Some)];
    (any::<bool>(), bits(), bits(), bits(), any::<bool>()).prop_map(
        |(hashed, preshift, minishard, shard, gzip_indexes)| {
            let hash = if hashed { VolumeHash::Murmurhash3X86_128 } else { VolumeHash::Identity };
            let (preshift_bits, minishard_bits, shard_bits) = (preshift, minishard, shard);
            Volume { hash, preshift_bits, minishard_bits, shard_bits, gzip_indexes, ..Volume::default() }
        },
    )
}

fn layout() -> impl Strategy<Value = Option<FrameLayout>> {
    let layout = (length(), length(), length()).prop_map(|(buffer_bytes, offset, row_stride)| FrameLayout {
        buffer_bytes,
        offset,
        row_stride,
    });
    prop_oneof![3 => Just(None), 1 => layout.prop_map(Some)]
}

/// Most configurations would be refused for their dialect, so every second one has a dialect that fits the rest.
fn config() -> impl Strategy<Value = Config> {
    let dtype = prop::sample::select(vec![Dtype::U8, Dtype::U16, Dtype::I32, Dtype::F64]);
    let dialect = prop::sample::select(vec![
        Dialect::Zarr3,
        Dialect::Zarr3,
        Dialect::Zarr3Transformer,
        Dialect::Zarr2Sharded,
        Dialect::Precomputed,
    ]);
    let storage = prop::sample::select(vec![StorageKind::Auto, StorageKind::Mapped, StorageKind::Direct]);
    let placement = prop::sample::select(vec![Placement::Auto, Placement::Fixed, Placement::Packed]);
    let resources = (length(), prop_oneof![3 => 0..9_usize, 1 => length()], number(), 0..20_usize, any::<[bool; 3]>());
    let format = (dtype, dialect, dims(), codec(), volume(), layout());
    (format, (storage, placement), resources).prop_map(|(format, (storage, placement), resources)| {
        let (dtype, dialect, dims, mut codec, volume, frame_layout) = format;
        let (ring_bytes, workers, leap_max, fields, [fits, at_start, index_checksum]) = resources;
        if fits && dialect != Dialect::Zarr3 {
            codec.checksum = false;
        }
        let volume = if fits && dialect != Dialect::Precomputed { Volume::default() } else { volume };
        let at_start = at_start && !(fits && dialect != Dialect::Zarr3);
        let field = |at| RecordField { name: format!("f{at}"), dtype: Dtype::F32 };
        Config {
            dtype,
            dialect,
            dims,
            codec,
            volume,
            frame_layout,
            storage,
            placement,
            ring_bytes,
            workers,
            leap_max,
            index_checksum,
            index_location: if at_start { IndexLocation::Start } else { IndexLocation::End },
            record_fields: (0..fields).map(field).collect(),
            ..Config::default()
        }
    })
}

const CASES: u32 = if cfg!(miri) { 4 } else { 4000 };

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_plan_is_made_or_refused_at_once(config in config()) {
        check(&config);
    }
}

fn frame(y: u64, x: u64, chunk: u64) -> Vec<Dim> {
    vec![Dim::time(None), Dim::y(y).chunk(chunk), Dim::x(x).chunk(chunk)]
}

#[test]
fn frames_of_too_many_chunks_are_refused_before_they_are_counted_out() {
    for (y, x) in [(1 << 17, 1 << 17), (1 << 39, 1), (1 << 20, 1 << 20), (TILES_MAX as u64 + 1, 1)] {
        let config = Config { dims: frame(y, x, 1), dtype: Dtype::U8, ..Config::default() };
        let (made, bytes, time) = cost(|| Plan::new(&config).map(drop));
        let error = made.unwrap_err().to_string();
        assert!(error.contains("choose larger chunks"), "{error}");
        assert!(bytes < 1 << 20 && time < TIME_MAX, "{bytes} bytes, {time:?}");
    }
}

#[test]
fn rows_that_lie_absurdly_far_apart_are_no_overflow() {
    let layout = FrameLayout { buffer_bytes: usize::MAX, offset: 0, row_stride: usize::MAX };
    let dims = vec![Dim::time(None), Dim::y(1).chunk(4), Dim::x(16)];
    check(&Config { dims, frame_layout: Some(layout), dtype: Dtype::U8, ..Config::default() });
}

#[test]
fn more_shards_than_can_be_open_are_refused_before_they_are_listed() {
    let (hash, none) = (VolumeHash::Murmurhash3X86_128, Some(0));
    let volume = Volume { hash, preshift_bits: none, minishard_bits: none, ..Volume::default() };
    let dims = vec![Dim::z(8).chunk(4), Dim::y(64).chunk(16), Dim::x(64).chunk(16)];
    let codec = Codec { compressor: Compressor::None, checksum: false };
    for shard_bits in [22, 31, 33, 63, 64] {
        let volume = Volume { shard_bits: Some(shard_bits), ..volume.clone() };
        let dialect = Dialect::Precomputed;
        let config = Config { dims: dims.clone(), volume, dialect, codec: codec.clone(), ..Config::default() };
        check(&config);
        let error = Plan::new(&config).map(drop).unwrap_err().to_string();
        assert!(error.contains("shard_bits"), "{error}");
    }
}

#[test]
fn a_chunk_of_two_gigabytes_is_not_made_to_learn_how_long_it_may_become() {
    for compressor in
        [Compressor::Zstd { level: 22 }, Compressor::Lz4, Compressor::Gzip { level: 9 }, Compressor::default()]
    {
        let dims = frame(40 << 10, 40 << 10, 40 << 10);
        let config =
            Config { dims, codec: compressor.into(), dtype: Dtype::U8, ring_bytes: 16 << 30, ..Config::default() };
        check(&config);
        Plan::new(&config).unwrap();
    }
}

#[test]
fn a_ring_that_is_smaller_than_it_was_asked_for_says_so() {
    let plan = |size, ring_bytes| {
        let dims = vec![Dim::time(size), Dim::y(16), Dim::x(16)];
        Plan::new(&Config { dims, ring_bytes, ..Config::default() }).unwrap().ring
    };
    let cut = plan(None, 1 << 50);
    assert_eq!(cut.frames, 1 << 22);
    let note = cut.note.unwrap();
    assert_eq!(
        note,
        "ring_bytes = 1125899906842624: a ring has at most 4194304 frames, for which 17179869184 bytes suffice"
    );
    // There is nothing to say of frames that won't come.
    assert!(plan(Some(100), 1 << 50).note.is_none() && plan(None, 1 << 30).note.is_none());
}
