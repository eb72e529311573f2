//! Counters, latencies, sizes, the summary.
#![allow(unsafe_code)]

use super::pointer::{grown_out, grows, out};
use super::registry::{sw_acquisition, with_run};
use super::status::{SW_ABORTED, SW_ERROR_ARGUMENT, SW_ERROR_NOT_FOUND, refuse, sw_status};
use crate::stats::{Stage, Summary};

/// A struct with its size, the values of these fields of another, and some more.
macro_rules! copied {
    ($type:ident of $from:ident: $($field:ident),+ $(; $($more:ident),+)?) => {
        $type { size: size_of::<$type>(), $($field: $from.$field,)+ $($($more),+)? }
    };
}

/// A moment's view of an acquisition. Counters never go back, and no frame is written that was not accepted, nor
/// durable that was not written. Set `size` to sizeof(sw_stats) before the call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sw_stats {
    /// sizeof(sw_stats).
    pub size: usize,
    /// Frames in the ring or beyond it.
    pub frames_accepted: u64,
    /// Frames whose every chunk is in its shard, and those that are durable in a chunk which waits for more.
    pub frames_written: u64,
    /// Frames that a loss of power does not take: their chunks are on the device, and an index there names them. 0
    /// without the configuration's `sync`.
    pub frames_durable: u64,
    /// Frame numbers that were settled without a frame.
    pub frames_missing: u64,
    /// Times that a frame found the ring full and was let go.
    pub frames_dropped: u64,
    /// Bytes of accepted frames.
    pub bytes_in: u64,
    /// Encoded bytes of chunks in their shards.
    pub bytes_out: u64,
    /// Frame buffers that wait for the camera: of a ring that images share, those that this one can get now.
    pub ring_free: u64,
    /// All frame buffers: of a ring that images share, those that this one can have at once, which are fewer when more
    /// images begin. Some are left for others, also for the next one that begins.
    pub ring_frames: u64,
    /// Shards closed.
    pub shards_closed: u64,
}

grows!(sw_stats);

/// The stages of a frame's path that are timed.
pub type sw_stage = u32;
/// Waiting for a free buffer, of frames that were committed: 0 where there was one at once. A copy into it does not
/// count.
pub const SW_STAGE_ACQUIRE: sw_stage = 0;
/// A commit call.
pub const SW_STAGE_COMMIT: sw_stage = 1;
/// A layer between its last frame's commit and the first worker's look at it.
pub const SW_STAGE_QUEUE: sw_stage = 2;
/// Copying a tile together from its frames. The encoder for camera noise takes their rows from the ring itself.
pub const SW_STAGE_GATHER: sw_stage = 3;
/// A tile in the codec.
pub const SW_STAGE_ENCODE: sw_stage = 4;
/// Bringing an encoded tile into its slot.
pub const SW_STAGE_STORE: sw_stage = 5;
/// Writing a chunk, or several that waited together, on a thread that is no worker.
pub const SW_STAGE_WRITE: sw_stage = 6;
/// Creating a shard ahead of need. It counts also where no frame needs the shard, and it is removed in the end.
pub const SW_STAGE_PREPARE_SHARD: sw_stage = 7;
/// Closing a shard, or removing one that no frame needed.
pub const SW_STAGE_CLOSE_SHARD: sw_stage = 8;
/// Syncing an open shard and writing the index of what is in it.
pub const SW_STAGE_CHECKPOINT: sw_stage = 9;

/// By number; numbers stay as they are, wherever a new stage stands among the others.
const STAGES: [Stage; Stage::ALL.len()] = {
    use Stage::*;
    [Acquire, Commit, Queue, Gather, Encode, Store, Write, PrepareShard, CloseShard, Checkpoint]
};

/// How long one stage took until now, in nanoseconds. Set `size` to sizeof(sw_latency) before the call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sw_latency {
    /// sizeof(sw_latency).
    pub size: usize,
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

grows!(sw_latency);

/// Dimensions that an array may have.
pub const SW_DIMS_MAX: usize = 16;

/// The sizes with which an acquisition runs, the automatic ones filled in. Set `size` to sizeof(sw_layout) before the
/// call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sw_layout {
    /// sizeof(sw_layout).
    pub size: usize,
    /// Bytes of one frame, or picture, without gaps between its rows, as sw_append takes it.
    pub frame_bytes: usize,
    /// Bytes of one ring buffer that a camera may write.
    pub buffer_bytes: usize,
    /// Frame buffers in the ring; where images share one, those that this one can have at once: as in sw_stats.
    pub ring_frames: u64,
    /// How many numbers a frame may come behind the newest one; what comes later is refused, and counts as missing. A
    /// driver that keeps nearly all buffers has missing numbers given up earlier, even of frames that come in order:
    /// nothing else can free one for it. See sw_buffers for how many the library needs.
    pub reorder_window: u64,
    /// Dimensions.
    pub dim_count: u64,
    /// Chunk length in elements in each dimension.
    pub chunk: [u64; SW_DIMS_MAX],
    /// Shard length in elements in each dimension.
    pub shard: [u64; SW_DIMS_MAX],
}

grows!(sw_layout);

/// What an acquisition did. Set `size` to sizeof(sw_summary) before the call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sw_summary {
    /// sizeof(sw_summary).
    pub size: usize,
    /// Frames that were taken into the ring.
    pub frames_accepted: u64,
    /// Frames whose every chunk is in the dataset.
    pub frames_written: u64,
    /// Frames that a loss of power does not take. 0 without the configuration's `sync`.
    pub frames_durable: u64,
    /// Frames that the dataset lacks. sw_summary_json tells their numbers.
    pub frames_missing: u64,
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
    /// From the first commit to the end, in nanoseconds.
    pub elapsed_ns: u64,
}

grows!(sw_summary);

impl From<&Summary> for sw_summary {
    fn from(summary: &Summary) -> Self {
        let elapsed_ns = summary.elapsed.as_nanos() as u64;
        copied!(Self of summary: frames_accepted, frames_written, frames_durable, frames_missing, bytes_in, bytes_out,
            chunks_written, chunks_empty, shards; elapsed_ns)
    }
}

/// The first error of the run, if there was one: what sw_acquire and sw_commit tell from then on, as long as the run
/// takes frames, and sw_finish. After sw_abort it is SW_ABORTED, if there was none before: also where no frame was
/// lost, of which sw_finish makes no error. For a program that looks now and then how a run is; SW_OK while all is
/// well.
///
/// Errors: those of wrong arguments, and the run's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_first_error(acquisition: *mut sw_acquisition) -> sw_status {
    with_run(acquisition, |run| {
        run.engine.first_error.check()?;
        // Also where there was nothing to lose.
        if run.ending.state().aborted { refuse!(SW_ABORTED, "the acquisition was aborted") } else { Ok(()) }
    })
}

/// The number of the first frame that the run's first error is about.
///
/// Errors: SW_ERROR_NOT_FOUND if there was no error, or one that is about no certain frame, as a document that could
/// not be written; those of wrong arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_first_error_frame(acquisition: *mut sw_acquisition, frame: *mut u64) -> sw_status {
    with_run(acquisition, |run| {
        // SAFETY: as the caller promises, which is what the header says.
        let place = unsafe { out(frame, "frame") }?;
        match (run.engine.first_error_frame(), run.engine.first_error.get()) {
            (Some(frame), _) => place.set(frame),
            (None, Some(error)) => {
                return refuse!(SW_ERROR_NOT_FOUND, "the first error is about no certain frame: {error}");
            }
            (None, None) => return refuse!(SW_ERROR_NOT_FOUND, "the run has had no error"),
        }
        Ok(())
    })
}

/// What SW_NEXT would be now. Other threads may take it meanwhile.
///
/// Errors: only those of wrong arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_next_number(acquisition: *mut sw_acquisition, number: *mut u64) -> sw_status {
    with_run(acquisition, |run| {
        // SAFETY: as the caller promises, which is what the header says.
        unsafe { out(number, "number") }?.set(run.engine.told(run.engine.numbers.next()));
        Ok(())
    })
}

/// Counters of this moment, also while the run ends and after its end. It takes no lock and no memory.
///
/// Errors: only those of wrong arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_get_stats(acquisition: *mut sw_acquisition, stats: *mut sw_stats) -> sw_status {
    with_run(acquisition, |run| {
        // SAFETY: as the caller promises, which is what the header says.
        let place = unsafe { grown_out(stats) }?;
        let stats = run.engine.stats();
        let (ring_free, ring_frames) = ((stats.ring_free + run.loans.aside()) as u64, stats.ring_frames as u64);
        place.set(copied!(sw_stats of stats: frames_accepted, frames_written, frames_durable, frames_missing,
            frames_dropped, bytes_in, bytes_out, shards_closed; ring_free, ring_frames));
        Ok(())
    })
}

/// How long a stage took until now. It takes some memory for the moment of the call. Images of one dataset share their
/// threads: of these, it is what the stage took for all of them.
///
/// Errors: SW_ERROR_ARGUMENT for a stage that there is not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_get_latency(
    acquisition: *mut sw_acquisition,
    stage: sw_stage,
    latency: *mut sw_latency,
) -> sw_status {
    with_run(acquisition, |run| {
        // SAFETY: as the caller promises, which is what the header says.
        let place = unsafe { grown_out(latency) }?;
        let latencies = run.engine.latencies();
        let wanted = STAGES.get(stage as usize);
        let Some(found) = latencies.iter().find(|latency| Some(&latency.stage) == wanted) else {
            return refuse!(SW_ERROR_ARGUMENT, "stage {stage}: 0 to {} are possible", STAGES.len() - 1);
        };
        place.set(copied!(sw_latency of found: count, total_ns, p50_ns, p99_ns, p999_ns, max_ns));
        Ok(())
    })
}

/// The sizes with which the acquisition runs.
///
/// Errors: only those of wrong arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_get_layout(acquisition: *mut sw_acquisition, layout: *mut sw_layout) -> sw_status {
    with_run(acquisition, |run| {
        // SAFETY: as the caller promises, which is what the header says.
        let place = unsafe { grown_out(layout) }?;
        let plan = &run.engine.plan;
        let (chunk, shard) = (&plan.array.layout.chunk_shape, &plan.array.layout.file_shape);
        let mut layout = sw_layout {
            size: size_of::<sw_layout>(),
            frame_bytes: plan.frame.bytes,
            buffer_bytes: plan.frame.layout.buffer_bytes,
            ring_frames: run.engine.ring.frames() as u64,
            reorder_window: plan.ring.window,
            dim_count: chunk.len() as u64,
            chunk: [0; SW_DIMS_MAX],
            shard: [0; SW_DIMS_MAX],
        };
        layout.chunk[..chunk.len()].copy_from_slice(chunk);
        layout.shard[..shard.len()].copy_from_slice(shard);
        place.set(layout);
        Ok(())
    })
}

const _: () = assert!(crate::geometry::MAX_OUTER + 2 == SW_DIMS_MAX, "a shape must fit");
