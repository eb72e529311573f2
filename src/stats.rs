//! What the engine counts and times: counters that anyone may read at any moment, and a summary at the end.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::named::named;

/// A moment's view of a running acquisition. Counters never go back, and no frame is written that was not accepted, nor
/// durable that was not written.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Frames in the ring or beyond it.
    pub frames_accepted: u64,
    /// Frames whose every chunk is in its slot, and those that are durable in a chunk which waits for more.
    pub frames_written: u64,
    /// Frames that a loss of power does not take: their chunks have reached the device, and an index there names them.
    /// 0 without [`Config::sync`](crate::Config::sync).
    pub frames_durable: u64,
    /// Frame numbers that were settled without a frame.
    pub frames_missing: u64,
    /// Times that a frame found the ring full and was let go.
    pub frames_dropped: u64,
    /// Bytes of accepted frames.
    pub bytes_in: u64,
    /// Encoded bytes of the chunks in their slots.
    pub bytes_out: u64,
    /// Frame buffers that wait for the camera: of a ring that images share, those that this one can get now.
    pub ring_free: usize,
    /// All frame buffers: of a ring that images share, those that this one can have at once, which are fewer when more
    /// images begin. Some are left for others, also for the next one that begins.
    pub ring_frames: usize,
    /// Shards closed.
    pub shards_closed: u64,
}

/// What a finished acquisition did.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Frames that were taken into the ring.
    pub frames_accepted: u64,
    /// Frames whose every chunk is in the dataset.
    pub frames_written: u64,
    /// Frames that a loss of power does not take. 0 without [`Config::sync`](crate::Config::sync).
    pub frames_durable: u64,
    /// Frames that the dataset lacks.
    pub frames_missing: u64,
    /// The numbers of the frames that the dataset lacks, the first 10,000 ranges of them.
    pub missing: Vec<Range<u64>>,
    /// Bytes of accepted frames.
    pub bytes_in: u64,
    /// Encoded bytes of chunks.
    pub bytes_out: u64,
    /// Chunks written.
    pub chunks_written: u64,
    /// Chunks left out, because they hold only the fill value or no frame of theirs came.
    pub chunks_empty: u64,
    /// Shards written.
    pub shards: u64,
    /// From the first commit to the end of `finish`.
    pub elapsed: Duration,
    /// The shape of the array as it was left.
    pub shape: Vec<u64>,
    /// The levels of the pyramid beside it, the finest first. All other counts are of level 0.
    pub levels: Vec<LevelSummary>,
    /// The storage that was used, and why it was chosen.
    pub storage: String,
    /// How long each stage took, for the items that passed it.
    pub stages: Vec<StageLatency>,
    /// Things that the caller may want to know and that are no errors.
    pub notes: Vec<String>,
    /// The first error of the run.
    #[serde(skip)]
    pub error: Option<crate::Error>,
}

/// One level of a pyramid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LevelSummary {
    /// The array, below the image.
    pub path: String,
    /// Its shape as it was left.
    pub shape: Vec<u64>,
    /// Encoded bytes of chunks.
    pub bytes_out: u64,
    /// Chunks written.
    pub chunks_written: u64,
    /// Shards written.
    pub shards: u64,
}

impl Summary {
    /// The latencies of one stage.
    pub fn stage(&self, stage: Stage) -> &StageLatency {
        &self.stages[stage as usize]
    }
}

/// The stages of a frame's path that are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Waiting for a free buffer, of frames that were committed: 0 where there was one at once. A copy into it does not
    /// count.
    Acquire,
    /// A commit call.
    Commit,
    /// A layer between its last frame's commit and the first worker's look at it.
    Queue,
    /// Copying a tile together from its frames. The encoder for camera noise takes their rows from the ring itself.
    Gather,
    /// A tile in the codec calls.
    Encode,
    /// Bringing an encoded tile into its slot, or to the thread that writes it.
    Store,
    /// Writing a chunk, or several that waited together, on a thread that is no worker.
    Write,
    /// Creating a shard ahead of need.
    PrepareShard,
    /// Syncing an open shard and writing the index of what is in it.
    Checkpoint,
    /// Closing a shard.
    CloseShard,
}

named!(Stage, "stage", {
    Acquire => "acquire",
    Commit => "commit",
    Queue => "queue",
    Gather => "gather",
    Encode => "encode",
    Store => "store",
    Write => "write",
    PrepareShard => "prepare_shard",
    Checkpoint => "checkpoint",
    CloseShard => "close_shard",
});

/// How long one stage took.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct StageLatency {
    /// Which stage.
    pub stage: Stage,
    /// How many items passed it.
    pub count: u64,
    /// The sum of all times.
    pub total_ns: u64,
    /// Half of the items were at most so slow.
    pub p50_ns: u64,
    /// 99 % of them.
    pub p99_ns: u64,
    /// 99.9 % of them.
    pub p999_ns: u64,
    /// The slowest.
    pub max_ns: u64,
}

// Latencies are counted in buckets of 1/32 of a power of two: values below 64 ns are exact, larger ones within 3 %.
const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize) * SUB + SUB;

/// Latency counts that one thread adds to and any thread may read.
///
/// Threads that record have one each, so that no cache line is shared; `hdrhistogram` makes the report from the sum.
pub(crate) struct Latencies {
    counts: Box<[AtomicU64]>,
    pub(crate) total_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            total_ns: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }

    /// Counts the time since `start` and returns now.
    pub(crate) fn since(&self, start: Instant) -> Instant {
        let now = Instant::now();
        self.record(now.duration_since(start).as_nanos() as u64);
        now
    }

    pub(crate) fn record(&self, ns: u64) {
        self.counts[bucket(ns)].fetch_add(1, Relaxed);
        self.total_ns.fetch_add(ns, Relaxed);
        if ns > self.max_ns.load(Relaxed) {
            self.max_ns.fetch_max(ns, Relaxed);
        }
    }
}

fn bucket(ns: u64) -> usize {
    if ns < SUB as u64 {
        return ns as usize;
    }
    let shift = 63 - ns.leading_zeros() - SUB_BITS;
    ((shift as usize + 1) << SUB_BITS) + ((ns >> shift) as usize - SUB)
}

/// The largest value that falls into a bucket.
fn bucket_top(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let shift = (bucket >> SUB_BITS) as u32 - 1;
    let low = ((bucket & (SUB - 1)) + SUB) as u64;
    (low << shift) + ((1u64 << shift) - 1)
}

/// Sums the counts of several threads into one report.
pub(crate) fn report<'a>(stage: Stage, parts: impl Iterator<Item = &'a Latencies>) -> StageLatency {
    const HIGHEST_NS: u64 = 3_600_000_000_000;
    // Coarser under miri, which would spend minutes in walks over the histogram.
    const DIGITS: u8 = if cfg!(miri) { 1 } else { 3 };
    let mut histogram = hdrhistogram::Histogram::<u64>::new_with_bounds(1, HIGHEST_NS, DIGITS)
        .expect("the bounds are constants that are valid");
    let mut latency = StageLatency { stage, count: 0, total_ns: 0, p50_ns: 0, p99_ns: 0, p999_ns: 0, max_ns: 0 };
    for part in parts {
        for (index, count) in part.counts.iter().enumerate() {
            let count = count.load(Relaxed);
            if count > 0 {
                histogram.saturating_record_n(bucket_top(index).min(HIGHEST_NS), count);
            }
        }
        latency.total_ns += part.total_ns.load(Relaxed);
        latency.max_ns = latency.max_ns.max(part.max_ns.load(Relaxed));
    }
    latency.count = histogram.len();
    let quantile = |q| histogram.value_at_quantile(q).min(latency.max_ns);
    (latency.p50_ns, latency.p99_ns, latency.p999_ns) = (quantile(0.5), quantile(0.99), quantile(0.999));
    latency
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_falls_into_a_bucket_that_bounds_it_closely() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) + 1, (1u64 << shift) - 1, u64::MAX >> shift] {
                let top = bucket_top(bucket(value));
                assert!(top >= value && top - value <= value / SUB as u64, "{value} in a bucket up to {top}");
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_come_from_all_threads() {
        let (fast, slow) = (Latencies::new(), Latencies::new());
        (0..990).for_each(|_| fast.record(1000));
        (0..10).for_each(|_| slow.record(1_000_000));
        let latency = report(Stage::Commit, [&fast, &slow].into_iter());
        assert_eq!(latency.count, 1000);
        assert_eq!(latency.total_ns, 990 * 1000 + 10 * 1_000_000);
        assert!((1000..1040).contains(&latency.p50_ns), "{latency:?}");
        assert!((1000..1040).contains(&latency.p99_ns), "{latency:?}");
        assert_eq!(latency.max_ns, 1_000_000);
        assert!((970_000..=1_000_000).contains(&latency.p999_ns), "{latency:?}");
    }
}
