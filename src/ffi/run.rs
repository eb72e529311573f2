//! Create, acquire, commit, discard, append.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::config::convert::{Requested, configuration};
use super::config::sw_config;
use super::limits::limit_or;
use super::own_buffers::{OwnBuffers, own_buffers};
use super::pointer::{Out, bytes, out, put_all, required, slice, text};
use super::record::{record, sw_record};
use super::registry::{Held, RUNS, Run, enter, sw_acquisition, with_run};
use super::status::{Outcome, SW_ERROR_ARGUMENT, SW_ERROR_FRAME, SW_ERROR_NULL, boundary, refuse, sw_status, told};
use super::storage::{caller_storage, sw_storage};
use crate::acquisition::Acquisition;
use crate::acquisition::append::{Appended, BufferSource};
use crate::aligned_memory::RingBuffers;
use crate::config::{Config, RingFull};
use crate::error::Error;
use crate::fs::system::path_of_bytes;
use crate::json as exact;
use crate::record::{Record, RecordColumn};
use crate::words::{plain, quoted};

/// As a frame number: one more than the largest number that was committed so far, or that sw_append let go. A frame
/// for which sw_acquire found no buffer has no number, and the next one that is committed comes in its place. Only
/// those that SW_RING_FULL_DROP_NEWEST let go after the last committed one was acquired are missing frames, at the end.
/// To keep the place of each one empty, count frames, and commit them by their numbers.
pub const SW_NEXT: u64 = u64::MAX;
/// A frame buffer on loan. The memory belongs to the library; the caller alone may write it until it commits or
/// discards the frame, on any thread, by DMA or through a driver.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sw_frame {
    /// The first byte, on a page boundary; frames of less than 2 KiB are only on a cache line. The buffer holds what an
    /// earlier frame left there.
    pub data: *mut c_void,
    /// Bytes that may be written: a frame's, or the configuration's `buffer_bytes`.
    pub bytes: usize,
    /// Which of the ring's buffers this is: always the same memory during a run.
    pub index: u32,
    /// Tells this loan of the buffer from others.
    pub turn: u32,
}

/// What an append did.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sw_appended {
    /// Frames taken. Fewer than given, if the ring became full on the way: repeat the call with the rest.
    pub frames: u64,
    /// Frames let go, because the ring was full and SW_RING_FULL_DROP_NEWEST is configured.
    pub dropped: u64,
}

impl Run {
    fn frame(&self, (index, turn): (usize, u32)) -> sw_frame {
        let data = self.engine.ring.address(index as u32).cast();
        sw_frame { data, bytes: self.engine.plan.frame.layout.buffer_bytes, index: index as u32, turn }
    }

    /// Refuses a frame of another acquisition: its index and its turn may be those of a frame of this one.
    fn check_own(&self, frame: &sw_frame) -> Outcome<()> {
        let is_one = (frame.index as usize) < self.loans.count();
        if is_one && frame.data == self.frame((frame.index as usize, frame.turn)).data {
            return Ok(());
        }
        refuse!(
            SW_ERROR_FRAME,
            "the frame in buffer {} is not one of this acquisition, or its fields were changed",
            frame.index
        )
    }

    /// The record fields that the configuration has.
    pub(super) fn record_fields(&self) -> &[RecordColumn] {
        self.engine.plan.record.of_the_caller()
    }

    fn commit(&self, index: usize, turn: Option<u32>, number: u64, record: Record) -> Outcome<()> {
        let frame = self.loans.take(index, turn)?;
        Ok(if number == SW_NEXT { frame.commit_next(record) } else { frame.commit(number, record) }?)
    }

    /// Runs `append`, which gets its buffers here, and says at `place` what it did.
    pub(super) fn append(
        &self,
        place: Option<Out<sw_appended>>,
        timeout_ms: i64,
        append: impl FnOnce(&Acquisition, BufferSource) -> Result<Appended, Error>,
    ) -> Outcome<()> {
        let wait = limit_or(timeout_ms, self.ring_full)?;
        let running = self.running()?;
        let take = |wait| self.loans.frame(&running, wait);
        let Appended { frames, dropped } = append(&running, BufferSource::new(&take, wait))?;
        if let Some(place) = place {
            place.set(sw_appended { frames, dropped });
        }
        Ok(())
    }
}

/// Makes a handle of what `create` makes.
///
/// # Safety
/// `handle` must be good for writing a pointer, unless null or misaligned.
pub(super) unsafe fn start(
    requested: Requested,
    own: Option<OwnBuffers>,
    handle: *mut *mut sw_acquisition,
    create: impl FnOnce(Config, Option<RingBuffers>) -> Result<Acquisition, Error>,
) -> Outcome<()> {
    // SAFETY: as the caller promises.
    let handle = unsafe { out(handle, "acquisition") }?;
    let room = RUNS.room()?;
    let Requested { config, spelling } = requested;
    let (buffers, taken_over) = own.map(|own| (own.buffers, own.taken_over)).unzip();
    let buffers = buffers.map(RingBuffers::claimed).transpose()?;
    let created = create(config, buffers).map_err(|error| spelling.told(error))?;
    handle.set(room.fill(Arc::new(Run::new(Held::Own(Box::new(created))))));
    if let Some(taken_over) = taken_over {
        taken_over.store(true, Relaxed);
    }
    Ok(())
}

/// # Safety
/// `path` must end with a zero, unless null.
pub(super) unsafe fn path<'a>(path: *const c_char) -> Outcome<&'a Path> {
    // SAFETY: as the caller promises.
    let bytes = unsafe { bytes(path, "path") }?.to_bytes();
    if bytes.is_empty() {
        return refuse!(SW_ERROR_ARGUMENT, "path is empty");
    }
    Ok(path_of_bytes(bytes))
}

/// Creates the dataset `path` (a folder, or one file if its name ends in `.ozx`) with one image and starts its
/// acquisition. Folders on the way there are made. With `key` in the configuration, the path is that of a hierarchy of
/// Zarr v3 groups, which may be another writer's: its documents stay as they are, groups that are not there yet are
/// made, and an array in the way, Zarr v2, and consolidated metadata, by which readers would not see the image, are
/// refused. `overwrite` replaces an image of this writer that is at the key, or an empty group: never an array, another
/// writer's node, or a group that merely holds images.
///
/// On return the dataset can be opened by readers, the ring's memory is there, and the first shard is reserved on the
/// disk. If anything fails, nothing is left behind and `acquisition` is not set. Free the handle with sw_free.
///
/// A process that ends without sw_finish leaves a dataset as a kill would: what the last checkpoint made durable is
/// there, and `shardwright recover` restores the rest of what was stored.
///
/// Errors: those of a wrong configuration; SW_ERROR_EXISTS for a dataset that is not to be replaced; SW_ERROR_FORMAT
/// for a path at which something stands that is no dataset; SW_ERROR_LOCKED while a dataset there is being written, by
/// this process or another; SW_ERROR_IO, SW_ERROR_TOO_MANY. It takes as long as the file system needs to reserve a
/// shard, and the system to find the ring's memory: see `ring_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_create(
    path: *const c_char,
    config: *const sw_config,
    acquisition: *mut *mut sw_acquisition,
) -> sw_status {
    boundary(|| {
        // SAFETY: as the caller promises, which is what the header says.
        let (path, own, requested) = unsafe { (self::path(path)?, own_buffers(config)?, configuration(config)?) };
        // SAFETY: as above.
        unsafe { start(requested, own, acquisition, |config, buffers| Acquisition::create_at(path, config, buffers)) }
    })
}

/// As sw_create, in a storage of the caller's own, whose struct is copied; its functions and its context must stay
/// until the acquisition is freed.
///
/// Errors: those of a wrong configuration; SW_ERROR_NULL for a function that is required; SW_ERROR_EXISTS if its
/// `is_used` says that there is something in it; SW_ERROR_IO if one of its functions fails; SW_ERROR_TOO_MANY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_create_in(
    storage: *const sw_storage,
    config: *const sw_config,
    acquisition: *mut *mut sw_acquisition,
) -> sw_status {
    boundary(|| {
        // SAFETY: as the caller promises, which is what the header says.
        let (storage, own, requested) =
            unsafe { (caller_storage(storage)?, own_buffers(config)?, configuration(config)?) };
        let create = |config, buffers| Acquisition::create_within(storage, config, buffers);
        // SAFETY: as above.
        unsafe { start(requested, own, acquisition, create) }
    })
}

/// Borrows a free frame buffer, to be filled and then committed or discarded. Any number may be on loan at once, on any
/// threads; for long, no more than sw_buffers says.
///
/// It waits at most `timeout_ms` milliseconds; 0: not at all; SW_FOREVER; SW_AS_CONFIGURED.
///
/// Errors: SW_RING_FULL when the time is up: nothing is broken, try again; a frame number that is never committed will
/// be recorded as missing. After a frame that was left out so, commit by numbers: SW_NEXT does not know of it.
/// SW_ERROR_ENDED. Otherwise the first error of the run, for example SW_ERROR_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_acquire(
    acquisition: *mut sw_acquisition,
    timeout_ms: i64,
    frame: *mut sw_frame,
) -> sw_status {
    with_run(acquisition, |run| {
        // SAFETY: as the caller promises, which is what the header says.
        let frame = unsafe { out(frame, "frame") }?;
        let wait = limit_or(timeout_ms, run.ring_full)?;
        let loaned = run.loans.any(&*run.running()?, wait)?;
        frame.set(run.frame(loaned));
        Ok(())
    })
}

/// As sw_acquire, but this buffer and no other: for drivers that were told of all buffers up front and fill them in
/// their own order. Buffers that become free before it are kept for other calls.
///
/// Errors: as sw_acquire; SW_ERROR_FRAME if the buffer is on loan already; SW_ERROR_ARGUMENT if there is none of that
/// index, and for an image of a dataset without `own_buffers`, which shares its buffers with others of its frame size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_acquire_buffer(
    acquisition: *mut sw_acquisition,
    index: u32,
    timeout_ms: i64,
    frame: *mut sw_frame,
) -> sw_status {
    with_run(acquisition, |run| {
        // SAFETY: as the caller promises, which is what the header says.
        let frame = unsafe { out(frame, "frame") }?;
        let wait = limit_or(timeout_ms, run.ring_full)?;
        if run.engine.ring.is_shared() {
            return refuse!(
                SW_ERROR_ARGUMENT,
                "images of a dataset share their buffers, so that none can be kept for this one: take any by \
                 sw_acquire, or give it own_buffers"
            );
        }
        let loaned = run.loans.certain(&*run.running()?, index as usize, wait)?;
        frame.set(run.frame(loaned));
        Ok(())
    })
}

/// The frame that is to go back, looked at before the handle: one that is empty, as the C++ wrapper's are that were
/// committed or moved, has neither.
///
/// # Safety
/// As for [`required`].
unsafe fn given<'a>(frame: *const sw_frame) -> Outcome<&'a sw_frame> {
    if frame.is_null() {
        return refuse!(SW_ERROR_NULL, "frame is null: there is none, or it was committed, discarded or moved before");
    }
    // SAFETY: as the caller promises.
    unsafe { required(frame, "frame") }
}

/// Hands a filled frame to the workers under its number, counted from 0 in acquisition order; SW_NEXT: the next one.
///
/// Numbers may come out of order and from several threads, as long as none is more than sw_layout's `reorder_window`
/// behind the newest. `record` may be null. It never waits for the disk, and while chunks that fill or wait for the
/// workers take less than half of the ring, it wakes nobody as a rule: workers look by themselves, each 1 to 10 ms.
///
/// After SW_ERROR_RECORD, SW_ERROR_NULL, SW_ERROR_MISALIGNED, SW_ERROR_SIZE, SW_ERROR_VERSION, SW_ERROR_ARGUMENT,
/// SW_ERROR_HANDLE and SW_ERROR_FORKED the frame is still on loan: commit it otherwise, or discard it. SW_ERROR_FRAME
/// says that it was not this loan, of which nothing has changed. After SW_OK and all other errors the buffer is the
/// library's again.
///
/// Errors: SW_ERROR_FRAME if the frame is not on loan, because it was committed before; SW_ERROR_FRAME_NUMBER for a
/// number that came before, comes too late or lies beyond the array; SW_ERROR_RECORD for a field that was not
/// configured, and for a value that does not fit its field; SW_ERROR_ENDED. Otherwise the first error of the run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_commit(
    acquisition: *mut sw_acquisition,
    frame: *const sw_frame,
    number: u64,
    record: *const sw_record,
) -> sw_status {
    boundary(|| {
        // SAFETY: as the caller promises, which is what the header says.
        let frame = unsafe { given(frame) }?;
        let run = enter(acquisition)?;
        // SAFETY: as above.
        let record = unsafe { self::record(record, run.record_fields()) }?;
        run.check_own(frame)?;
        run.commit(frame.index as usize, Some(frame.turn), number, record)
    })
}

/// As sw_commit, by the buffer's index: for drivers that name a buffer and know nothing of a frame.
///
/// Errors: as sw_commit; SW_ERROR_ARGUMENT if there is no buffer of that index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_commit_buffer(
    acquisition: *mut sw_acquisition,
    index: u32,
    number: u64,
    record: *const sw_record,
) -> sw_status {
    with_run(acquisition, |run| {
        // SAFETY: as the caller promises, which is what the header says.
        let record = unsafe { self::record(record, run.record_fields()) }?;
        run.commit(index as usize, None, number, record)
    })
}

/// Gives a frame's buffer back unused. Also after the acquisition has ended.
///
/// Errors: SW_ERROR_FRAME if the frame is not on loan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_discard(acquisition: *mut sw_acquisition, frame: *const sw_frame) -> sw_status {
    boundary(|| {
        // SAFETY: as the caller promises, which is what the header says.
        let frame = unsafe { given(frame) }?;
        let run = enter(acquisition)?;
        run.check_own(frame)?;
        run.loans.take(frame.index as usize, Some(frame.turn)).map(drop)
    })
}

/// As sw_discard, by the buffer's index.
///
/// Errors: SW_ERROR_FRAME if the buffer is not on loan; SW_ERROR_ARGUMENT if there is none of that index.
#[unsafe(no_mangle)]
pub extern "C" fn sw_discard_buffer(acquisition: *mut sw_acquisition, index: u32) -> sw_status {
    with_run(acquisition, |run| run.loans.take(index as usize, None).map(drop))
}

/// The addresses of all frame buffers, by index: what GenTL's DSAnnounceBuffer, DCAM's dcambuf_attach or Spinnaker's
/// SetUserBuffers want to know before the first frame. They stay the same until the acquisition is freed.
///
/// Images of a dataset share buffers with those of the same frame size, unless they have `own_buffers`.
///
/// A buffer may be filled only while it is on loan. Not all may be on loan for long: the frames of a chunk stay in the
/// ring until its last one comes, so that the library needs at least one buffer less than those are: at most the chunk
/// length of the first dimension times the frames of all faster ones. Where the driver holds more, numbers are given up
/// for which it waits, and frames are refused as too late that come in their order.
///
/// `addresses` gets all of them if its room for `capacity` of them suffices, else nothing; `count` (null: not wanted)
/// gets how many there are, also with SW_ERROR_SIZE. With `addresses` null and `capacity` 0, only `count` is set.
///
/// Errors: SW_ERROR_SIZE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_buffers(
    acquisition: *mut sw_acquisition,
    addresses: *mut *mut c_void,
    capacity: usize,
    count: *mut usize,
) -> sw_status {
    with_run(acquisition, |run| {
        let frames = run.loans.count();
        let all = (0..frames).map(|index| run.engine.ring.address(index as u32).cast());
        let too_few = format!("room for {capacity} addresses; there are {frames} buffers");
        // SAFETY: as the caller promises, which is what the header says.
        unsafe { put_all(all, addresses, capacity, count, ["addresses", "count"], &too_few) }
    })
}

/// Copies one or several whole frames, which follow each other without gaps, and commits them under the next numbers.
///
/// `row_stride` is the distance of rows in `pixels` in bytes, for frames that are cut out of a larger picture; 0: rows
/// follow each other. `record` (null: none) is that of every frame. The whole call waits at most `timeout_ms` for free
/// buffers. `appended` may be null, if it is one frame and SW_RING_FULL_DROP_NEWEST is not configured.
///
/// Errors: SW_ERROR_FRAME_SIZE; SW_ERROR_ARGUMENT for a wrong `row_stride`; as sw_acquire and sw_commit. If the ring
/// becomes full after the first frame, or the call can't go on for another reason, it returns SW_OK, and `appended`
/// says how many were taken; call again with the rest, to hear the reason.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_append(
    acquisition: *mut sw_acquisition,
    pixels: *const c_void,
    bytes: usize,
    row_stride: usize,
    record: *const sw_record,
    timeout_ms: i64,
    appended: *mut sw_appended,
) -> sw_status {
    with_run(acquisition, |run| {
        let frame = &run.engine.plan.frame;
        let stride = if row_stride == 0 { frame.row_bytes } else { row_stride };
        let whole = frame.rows.saturating_mul(stride).max(frame.bytes);
        // SAFETY: as the caller promises, which is what the header says.
        let (pixels, record, place) = unsafe {
            let pixels = slice(pixels.cast::<u8>(), bytes, ["pixels", "bytes"])?;
            (pixels, self::record(record, run.record_fields())?, count_of(appended, bytes, whole, run)?)
        };
        run.append(place, timeout_ms, |running, buffers| running.append_within(pixels, None, stride, record, buffers))
    })
}

/// Where an append says how much it took of `bytes` bytes. Of one frame, or one picture, of `whole` bytes, the status
/// says that, too.
///
/// # Safety
///
/// As of [`out`].
pub(super) unsafe fn count_of(
    appended: *mut sw_appended,
    bytes: usize,
    whole: usize,
    run: &Run,
) -> Outcome<Option<Out<sw_appended>>> {
    if !appended.is_null() {
        // SAFETY: as the caller promises.
        return Ok(Some(unsafe { out(appended, "appended") }?));
    }
    if bytes / whole.max(1) > 1 || run.ring_full == RingFull::DropNewest {
        return refuse!(
            SW_ERROR_NULL,
            "appended is null, which is possible for one frame only, and without SW_RING_FULL_DROP_NEWEST"
        );
    }
    Ok(None)
}

/// Sets a user attribute of the image to a JSON value. It is in the dataset after the next checkpoint or closed shard,
/// at the latest at the end. Set again, it has the new value.
///
/// Errors: SW_ERROR_ARGUMENT if `json` is not a JSON value; SW_ERROR_CONFIG for an empty name, for "ome" and
/// "shardwright", and in SW_DIALECT_ZARR2_SHARDED "_ARRAY_DIMENSIONS", which the writer sets itself, and for a value
/// nested deeper than 64 levels or with a number beyond those of a `double`, such as 1e400; SW_ERROR_ENDED. Otherwise
/// the first error of the run. Integers of any length stay as they are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_set_attribute(
    acquisition: *mut sw_acquisition,
    key: *const c_char,
    json: *const c_char,
) -> sw_status {
    with_run(acquisition, |run| {
        // SAFETY: as the caller promises, which is what the header says.
        let (key, json) = unsafe { (text(key, "key")?, text(json, "json")?) };
        let value = exact::parse(json.as_bytes()).map_err(|error| match exact::too_deep(&error) {
            Some(reason) => Error::config("attribute", quoted(key), reason).into(),
            None => {
                told(SW_ERROR_ARGUMENT, format_args!("the value of {} is not JSON: {}", quoted(key), plain(&error)))
            }
        })?;
        if let Some((_, token)) = exact::beyond_json(&value) {
            return refuse!(SW_ERROR_ARGUMENT, "the value of {} is not JSON, which has no {token}", quoted(key));
        }
        Ok(run.running()?.set_attribute_as_read(key, value)?)
    })
}
