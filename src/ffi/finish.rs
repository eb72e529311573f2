//! Finish, abort, free.
//!
//! To end a run takes as long as the disk needs, and a caller may not have so long. So a thread of its own ends the
//! run, and callers wait for it as long as they say.
#![allow(unsafe_code)]

use std::ffi::c_char;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use super::end_state::Finished;
use super::limits::limit;
use super::log::in_callback;
use super::pointer::{grown_out, put_text};
use super::registry::{Held, RUNS, Run, enter, sw_acquisition};
use super::report::sw_summary;
use super::status::{
    Outcome, SW_ERROR_BUSY, SW_ERROR_ENDED, SW_ERROR_IO, SW_ERROR_NOT_ENDED, boundary, refuse, sw_status, told,
};
use crate::acquisition::Unfinished;
use crate::error::Error;
use crate::error::caught;
use crate::stats::Summary;

impl Run {
    /// No more frames are taken; a thread brings the run to its end.
    fn begin_to_end(self: &Arc<Self>) -> Outcome<()> {
        let mut state = self.ending.state();
        if state.thread.is_some() {
            return Ok(());
        }
        let run = self.clone();
        let thread = std::thread::Builder::new().name("sw-finish".into()).spawn(move || run.end());
        let thread = thread
            .map_err(|error| told(SW_ERROR_IO, format_args!("can't start the thread that ends the run: {error}")))?;
        state.thread = Some(thread);
        // Whoever hears of it may ask for the outcome.
        drop(state);
        // Those who wait for a buffer or are about to commit leave now.
        self.engine.close_gate();
        Ok(())
    }

    fn end(&self) {
        self.engine.close_gate();
        // The last of those who wait in a call lets this thread in.
        let acquisition = self.acquisition.write().unwrap_or_else(PoisonError::into_inner).take();
        let own = acquisition.and_then(|held| match held {
            Held::Own(acquisition) => Some(acquisition),
            Held::Lent(_) => None,
        });
        let finished = match caught(|| Ok(own.map(|own| own.finish()))) {
            Ok(Some(Ok(summary))) => Finished { summary: Some(summary), error: None },
            Ok(Some(Err(Unfinished { summary, error }))) => Finished { summary: Some(*summary), error: Some(error) },
            Ok(None) => Finished { summary: None, error: Some(Error::Ended) },
            Err(error) => Finished { summary: None, error: Some(error) },
        };
        self.ending.state().outcome = Some(finished);
        // Whoever waits for the end shall not wait for ever, whatever comes of this.
        drop(caught(|| {
            self.engine.tell_end();
            Ok(())
        }));
        self.ending.state().end_is_told = true;
        self.ending.ended.notify_all();
    }

    /// What came of the run.
    pub(super) fn summary(&self) -> Outcome<Summary> {
        match &self.ending.state().outcome {
            Some(Finished { summary: Some(summary), .. }) => Ok(summary.clone()),
            Some(Finished { error: Some(error), .. }) => Err(error.clone().into()),
            _ => refuse!(SW_ERROR_NOT_ENDED, "there is no summary before the end: finish or abort the run first"),
        }
    }
}

fn check_thread() -> Outcome<()> {
    if in_callback() {
        return refuse!(
            SW_ERROR_BUSY,
            "this is a callback or a storage's function, which the end of the run waits for; call it on another thread"
        );
    }
    Ok(())
}

fn check_owner(run: &Run) -> Outcome<()> {
    if run.is_lent {
        return refuse!(
            SW_ERROR_BUSY,
            "this handle was lent by the program that started the run, and that ends it, too"
        );
    }
    Ok(())
}

/// Ends the acquisition: no more frames are taken; all committed frames are brought into their shards, these are
/// closed, the documents completed. Numbers below the newest that never came count as missing, and so do those beyond
/// it for which the array has a place all the same, as in a stack or among channels that were begun.
///
/// It waits at most `timeout_ms` milliseconds, or SW_FOREVER. After SW_TIMEOUT the run goes on ending by itself; call
/// again to wait longer. `summary` (null: not wanted) must have its `size` set. Frames that are still on loan can't be
/// committed any more; their memory stays until sw_free, so that a driver may be stopped afterwards.
///
/// Errors: SW_TIMEOUT; SW_ERROR_BUSY if another thread waits in this call, or this is a callback or a storage's
/// function; SW_ERROR_ENDED if the outcome was told before, by this call or by sw_abort; otherwise the first error of
/// the run, once; sw_get_summary then says what was saved all the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_finish(
    acquisition: *mut sw_acquisition,
    timeout_ms: i64,
    summary: *mut sw_summary,
) -> sw_status {
    boundary(|| {
        let run = enter(acquisition)?;
        check_owner(&run)?;
        // SAFETY: as the caller promises, which is what the header says.
        let place = if summary.is_null() { None } else { Some(unsafe { grown_out(summary) }?) };
        let wait = limit(timeout_ms)?;
        check_thread()?;
        {
            let mut state = run.ending.state();
            if state.told {
                return refuse!(SW_ERROR_ENDED, "the acquisition was finished or aborted before");
            }
            if state.waited_for {
                return refuse!(SW_ERROR_BUSY, "another thread waits for the end of this run");
            }
            state.waited_for = true;
        }
        let begun = run.begin_to_end();
        let waited = begun.and_then(|()| run.ending.wait(wait)).map(|mut state| {
            state.told = true;
            state.outcome.as_ref().map(|finished| (finished.error.clone(), finished.summary.clone()))
        });
        run.ending.state().waited_for = false;
        match waited?.unwrap_or_default() {
            (Some(error), _) => Err(error.into()),
            (None, finished) => {
                if let (Some(place), Some(finished)) = (place, finished) {
                    place.set(sw_summary::from(&finished));
                }
                Ok(())
            }
        }
    })
}

/// Ends the acquisition at once: frames that wait in the ring are lost, everything that is in a shard stays readable.
/// If no frame was committed, the dataset disappears. A sw_finish that is under way ends sooner. If the run has ended,
/// nothing happens.
///
/// It waits at most `timeout_ms` milliseconds, or SW_FOREVER, for the chunks that are being encoded and for the shards
/// to close.
///
/// Errors: SW_TIMEOUT, after which it may be called again; SW_ERROR_BUSY in a callback or a storage's function.
#[unsafe(no_mangle)]
pub extern "C" fn sw_abort(acquisition: *mut sw_acquisition, timeout_ms: i64) -> sw_status {
    boundary(|| {
        let run = enter(acquisition)?;
        check_owner(&run)?;
        let wait = limit(timeout_ms)?;
        check_thread()?;
        run.engine.aborting.store(true, Relaxed);
        run.begin_to_end()?;
        run.ending.wait(wait)?.told = true;
        Ok(())
    })
}

/// What came of a run that has ended, also with an error. `summary` must have its `size` set.
///
/// Errors: SW_ERROR_NOT_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_get_summary(acquisition: *mut sw_acquisition, summary: *mut sw_summary) -> sw_status {
    boundary(|| {
        let run = enter(acquisition)?;
        // SAFETY: as the caller promises, which is what the header says.
        let place = unsafe { grown_out(summary) }?;
        place.set(sw_summary::from(&run.summary()?));
        Ok(())
    })
}

/// As sw_get_summary, everything as a JSON document: also the numbers of the missing frames, the array's shape, the
/// latencies of each stage, the storage that was chosen and why.
///
/// `text` gets the document and an ending zero if `capacity` suffices, else nothing. `needed` (null: not wanted) gets
/// how many bytes that are. With `text` null and `capacity` 0, only `needed` is set.
///
/// Errors: SW_ERROR_NOT_ENDED, SW_ERROR_SIZE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_summary_json(
    acquisition: *mut sw_acquisition,
    text: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> sw_status {
    boundary(|| {
        let document = serde_json::to_string_pretty(&enter(acquisition)?.summary()?).unwrap_or_default();
        // SAFETY: as the caller promises, which is what the header says.
        unsafe { put_text(&document, text, capacity, needed) }
    })
}

/// Gives back the handle, the ring's memory and all else of an acquisition that has ended. It never waits for a disk.
///
/// Errors: SW_ERROR_NOT_ENDED: finish or abort it first, so that nothing is lost unnoticed. SW_ERROR_BUSY if another
/// thread is in a call with the handle, or this is a callback or a storage's function; the handle stays good then.
#[unsafe(no_mangle)]
pub extern "C" fn sw_free(acquisition: *mut sw_acquisition) -> sw_status {
    boundary(|| {
        let run = RUNS.remove(acquisition, |run| {
            check_owner(run)?;
            // The thread that ends the run may be this one, and can't wait for itself.
            check_thread()?;
            let ended = run.ending.state().outcome.is_some();
            if ended { Ok(()) } else { refuse!(SW_ERROR_NOT_ENDED, "the run goes on: finish or abort it first") }
        })?;
        let thread = run.ending.state().thread.take();
        // It has told its outcome, and has nothing left to do.
        let _ = thread.map(JoinHandle::join);
        Ok(())
    })
}
