//! The flow of frames: from a committed buffer to a closed shard.
//!
//! ```text
//! caller's thread            workers                     preparer          closer
//! commit ─ Numbers::claim
//!        └ arrivals ─ Sequencer: layer complete?
//!                         └ tickets ─ gather, encode, store
//!                                      └ last ticket: frames back to the ring
//!                                         └ last layer of a shard ──────── close, documents
//!                         └ a new block of shards begins ─ create the next
//! ```
//!
//! Each image has an engine of its own; the threads are a pool's, which works for all images of a dataset. Tickets and
//! requests carry the number of their image, and images that have some are served in turn (see
//! [`Lanes`](crate::sync::Lanes)), so that none keeps another waiting. Where more shards would be open than may be,
//! those of images that get no frames are closed until some come (see [`parked`]).
//!
//! A level of a pyramid is an engine of its own, too, whose frames come from the level below, by one thread of the pool
//! that halves what is stored there (see [`feed`]).
//!
//! The sequencer is not a thread: whoever commits a frame, frees a layer or delivers a shard runs it, one at a time,
//! and nobody waits for it, nor does anyone run it for long (see [`Relay`]). Nor does a commit wake anybody while the
//! ring has room: a worker that has nothing to do, and the preparer, look by themselves whether something came (see
//! [`PolledQueue`](crate::sync::Lanes)).

pub(crate) mod arena;
mod blocks;
mod cell;
mod cell_closing;
mod closer;
mod closing_state;
mod closings;
mod contrast;
mod counters;
mod effort;
mod effort_watch;
mod feed;
mod feeder;
mod gather;
mod halves;
mod index_budget;
mod kits;
pub(crate) mod layer;
pub(crate) mod losses;
mod messages;
mod numbers;
mod open_files;
mod parked;
mod parking;
mod part_numbers;
mod paused;
pub(crate) mod pool;
mod preparer;
mod pump;
pub(crate) mod records;
pub(crate) mod rings;
mod sequencer;
mod served;
mod shared;
mod strided;
mod tile_encoder;
mod unpack;
pub(crate) mod unstored;
#[cfg(feature = "offline")]
mod whereabouts;
mod window;
mod worker;
mod writers;

#[cfg(feature = "capi")]
pub(crate) use cell::ShardCell;
#[cfg(feature = "capi")]
pub(crate) use counters::StageTimes;
pub(crate) use messages::{Arrival, Listener};
#[cfg(feature = "offline")]
pub(crate) use parked::Whereabouts;
pub(crate) use pump::Engine;
#[cfg(feature = "offline")]
pub(crate) use unpack::gather_rows;

/// Whole runs without C and without files, which miri can follow: `cargo +nightly miri test --lib whole_run`.
#[cfg(all(test, not(loom)))]
mod tests {
    mod order;

    use crate::{Acquisition, Codec, Compressor, Config, Dim, Dtype, IndexLocation, Memory, Placement, Record};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    const FRAMES: u64 = if cfg!(miri) { 7 } else { 700 };

    fn pixels(number: u64) -> [u8; 16] {
        std::array::from_fn(|at| (number as u8).wrapping_mul(31).wrapping_add(at as u8) | 1)
    }

    /// Where the index of a shard of 4 says that chunk `at` is.
    fn chunk(shard: &[u8], at: usize, location: IndexLocation) -> &[u8] {
        let index = match location {
            IndexLocation::Start => 0,
            IndexLocation::End => shard.len() - 68,
        };
        let word = |at: usize| u64::from_le_bytes(shard[index + 8 * at..][..8].try_into().unwrap()) as usize;
        &shard[word(2 * at)..][..word(2 * at + 1)]
    }

    fn check(placement: Placement, index_location: IndexLocation, mapped: bool) {
        let memory = Arc::new(if mapped { Memory::mapped() } else { Memory::new() });
        // One frame a layer, two chunks a frame, two frames a shard.
        let dims = vec![Dim::time(None).chunk(1).shard(2), Dim::y(4).chunk(2), Dim::x(4)];
        let resources = Config { placement, index_location, ring_bytes: 4 * 4096, workers: 2, ..Config::default() };
        let codec = Codec { compressor: Compressor::None, checksum: false };
        let config = Config { dtype: Dtype::U8, dims, codec, ..resources };
        let acquisition = Acquisition::create_in(memory.clone(), config).unwrap();
        let committed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            // Two threads swap neighbouring numbers at most.
            for start in [0, 1] {
                let (acquisition, committed) = (&acquisition, &committed);
                scope.spawn(move || {
                    for number in (start..FRAMES).step_by(2) {
                        let mut slot = acquisition.acquire().unwrap();
                        slot.copy_from_slice(&pixels(number));
                        while committed.load(SeqCst) < number.saturating_sub(1) {
                            std::thread::yield_now();
                        }
                        // Without the wall clock, miri stays in a world of its own, and the same seed gives the same
                        // run.
                        let mut record = Record::default();
                        record.host_timestamp = Some(0);
                        slot.commit(number, record).unwrap();
                        committed.fetch_add(1, SeqCst);
                    }
                });
            }
        });
        let summary = acquisition.finish().unwrap();
        assert_eq!((summary.frames_written, summary.frames_missing), (FRAMES, 0));
        for number in 0..FRAMES {
            let shard = memory.read(&format!("0/c/{}/0/0", number / 2)).unwrap();
            for half in 0..2 {
                let got = chunk(&shard, (number % 2) as usize * 2 + half, index_location);
                assert_eq!(got, &pixels(number)[8 * half..][..8], "frame {number}, {placement:?}, mapped: {mapped}");
            }
        }
    }

    #[test]
    fn a_whole_run_in_mapped_memory_and_through_positioned_writes() {
        check(Placement::Fixed, IndexLocation::End, true);
        check(Placement::Packed, IndexLocation::Start, true);
        check(Placement::Fixed, IndexLocation::End, false);
    }
}
