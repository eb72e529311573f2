//! Waiting for what happens in a run, without asking again and again.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use super::callback::{Context, Of};
use super::limits::limit;
use super::pointer::out;
use super::registry::{Run, sw_acquisition, with_run};
use super::status::{Outcome, SW_ERROR_ARGUMENT, SW_ERROR_ENDED, SW_ERROR_NULL, SW_TIMEOUT, refuse, sw_status};
use crate::events::{EventHandle, Events, call_on_events};
use crate::fs::bell::AsRawFd;
use crate::sync::Unpoisoned;

/// What can happen in a run: the sum of SW_EVENT_... values.
pub type sw_events = u32;
/// A frame buffer became free after a call had found none, or no call will get one any more, because of the run's first
/// error or because it takes no more frames: acquire until SW_RING_FULL, then wait.
pub const SW_EVENT_BUFFER_FREE: sw_events = 1;
/// As many frame buffers are taken (on loan or committed, or what other images have of a ring that they share) as the
/// mark says that was given. It comes again when not more than half as many were taken in between.
pub const SW_EVENT_RING_HIGH: sw_events = 2;
/// The run has its first error: sw_first_error.
pub const SW_EVENT_ERROR: sw_events = 4;
/// A checkpoint or a closed shard made frames durable: `frames_durable` of sw_stats.
pub const SW_EVENT_DURABLE: sw_events = 8;
/// A shard is closed: `shards_closed` of sw_stats.
pub const SW_EVENT_SHARD_CLOSED: sw_events = 16;
/// The run has ended, after sw_finish or sw_abort with a time limit; these don't wait any more now. Nothing more
/// happens. Every descriptor tells of it, asked for or not.
pub const SW_EVENT_ENDED: sw_events = 32;

/// Hears of one or more events. It is called by whichever thread makes them happen: one of the program's own, during
/// any call with the acquisition (sw_acquire, sw_commit, sw_discard, sw_append and sw_on_event above all), or one of
/// the library's; and by several at once, in any order. So it must be safe for threads, and must not wait.
pub type sw_event_fn = Option<unsafe extern "C" fn(context: *mut c_void, events: sw_events)>;

fn events_of(bits: sw_events) -> Outcome<Events> {
    match Events::of_bits(bits).filter(|events| !events.is_empty()) {
        Some(events) => Ok(events),
        None => {
            refuse!(SW_ERROR_ARGUMENT, "events = {bits}: a sum of SW_EVENT_... values, 1 to {}", Events::ALL.bits())
        }
    }
}

fn mark_of(ring_mark: u64) -> usize {
    usize::try_from(ring_mark).unwrap_or(usize::MAX)
}

impl Run {
    fn event_handle(&self, descriptor: i32) -> Outcome<Arc<EventHandle>> {
        let handles = self.event_handles.lock().unpoisoned();
        match handles.iter().find(|handle| handle.as_raw_fd() == descriptor) {
            Some(handle) => Ok(handle.clone()),
            None => {
                refuse!(SW_ERROR_ARGUMENT, "descriptor = {descriptor}: not one of sw_event_open for this acquisition")
            }
        }
    }
}

/// Opens a descriptor that is readable while one of `events` has happened that was not fetched yet: for poll, epoll and
/// every event loop that takes descriptors. Linux: an eventfd, which programs that this one starts don't get.
///
/// It tells of edges. Call sw_event_wait, then look at everything that it told of until there is nothing to do, then
/// wait again: nothing that happens in between is missed. At first it tells of what has happened before. Each thread or
/// event loop that waits wants a descriptor of its own, because what one fetches is gone for all others. However often
/// something happens in between, it is one system call for whoever makes it happen, and none in sw_commit as long as
/// the ring is not empty and nothing goes wrong.
///
/// `ring_mark`: from how many taken buffers on SW_EVENT_RING_HIGH comes; 0: three quarters of sw_stats' `ring_frames`.
/// When these become fewer than the mark, because other images begin, it comes when all of them are taken. The
/// descriptor is the library's: close it with sw_event_close, or leave that to sw_free, but never with close. It works
/// on while the run ends and afterwards. After a fork, it is of no use to the child.
///
/// Errors: SW_ERROR_ARGUMENT if `events` is 0 or has others; SW_ERROR_CONFIG for a mark beyond `ring_frames`;
/// SW_ERROR_IO if the process has no descriptor left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_event_open(
    acquisition: *mut sw_acquisition,
    events: sw_events,
    ring_mark: u64,
    descriptor: *mut i32,
) -> sw_status {
    with_run(acquisition, |run| {
        // SAFETY: as the caller promises, which is what the header says.
        let place = unsafe { out(descriptor, "descriptor") }?;
        let handle = EventHandle::new(&run.engine, events_of(events)?, mark_of(ring_mark))?;
        place.set(handle.as_raw_fd());
        run.event_handles.lock().unpoisoned().push(Arc::new(handle));
        Ok(())
    })
}

/// Fetches what has happened since the last call, as soon as there is something. It waits at most `timeout_ms`
/// milliseconds; 0: not at all; SW_FOREVER. It never waits beyond the end of the run: a call that would have to gets
/// SW_EVENT_ENDED each time, whatever was asked for; with 0, it comes once, so that a loop which fetches all comes to
/// its end. A thread in this or any other call must not be cancelled (pthread_cancel).
///
/// Errors: SW_TIMEOUT when nothing has happened; SW_ERROR_ENDED if another thread has closed the descriptor meanwhile;
/// SW_ERROR_ARGUMENT if the descriptor is not one of this acquisition.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_event_wait(
    acquisition: *mut sw_acquisition,
    descriptor: i32,
    timeout_ms: i64,
    events: *mut sw_events,
) -> sw_status {
    with_run(acquisition, |run| {
        // SAFETY: as the caller promises, which is what the header says.
        let place = unsafe { out(events, "events") }?;
        let wait: Option<Duration> = limit(timeout_ms)?;
        let handle = run.event_handle(descriptor)?;
        let happened = handle.wait(wait)?;
        if happened.is_empty() && handle.is_closed() {
            return refuse!(SW_ERROR_ENDED, "another thread has closed descriptor {descriptor}");
        }
        if happened.is_empty() {
            return refuse!(
                SW_TIMEOUT,
                "nothing has happened within {timeout_ms} ms that descriptor {descriptor} tells of"
            );
        }
        place.set(happened.bits());
        Ok(())
    })
}

/// Closes a descriptor of sw_event_open. Threads that are in sw_event_wait with it return: with SW_ERROR_ENDED, unless
/// something has happened that they fetch. Take it out of poll and epoll first: as soon as it is closed, and the last
/// of those threads has returned, the system may give its number to another file.
///
/// Errors: SW_ERROR_ARGUMENT if it is not one of this acquisition.
#[unsafe(no_mangle)]
pub extern "C" fn sw_event_close(acquisition: *mut sw_acquisition, descriptor: i32) -> sw_status {
    with_run(acquisition, |run| {
        let handle = run.event_handle(descriptor)?;
        run.event_handles.lock().unpoisoned().retain(|other| !Arc::ptr_eq(other, &handle));
        handle.close();
        Ok(())
    })
}

/// Has each of `events` told to `callback`, for programs that have an event loop of another kind: first what has
/// happened before, then every edge. `ring_mark` is as for sw_event_open. The function and its context must stay until
/// the acquisition is freed.
///
/// Errors: SW_ERROR_ARGUMENT if `events` is 0 or has others; SW_ERROR_CONFIG for a mark beyond `ring_frames`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_on_event(
    acquisition: *mut sw_acquisition,
    events: sw_events,
    ring_mark: u64,
    callback: sw_event_fn,
    context: *mut c_void,
) -> sw_status {
    with_run(acquisition, |run| {
        let Some(callback) = callback else { return refuse!(SW_ERROR_NULL, "callback is null") };
        let (context, of) = (Context(context), Of::Dataset(run.dataset));
        Ok(call_on_events(&run.engine, events_of(events)?, mark_of(ring_mark), move |happened| {
            // SAFETY: the caller gave the function for this.
            context.call(of, |context| unsafe { callback(context, happened.bits()) });
        })?)
    })
}
