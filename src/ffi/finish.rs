//! Finish, abort, free.
//!
//! To end a run takes as long as the disk needs, and a caller may not have so long. So a thread of its own ends the
//! run, and callers wait for it as long as they say.
#![allow(unsafe_code)]

use std::ffi::c_char;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use super::callback::Wait;
use super::end_state::Finished;
use super::limits::limit;
use super::pointer::{grown_out, put_text};
use super::registry::{Held, RUNS, Run, sw_acquisition, with_run};
use super::report::sw_summary;
use super::status::{Outcome, SW_ERROR_BUSY, SW_ERROR_IO, SW_ERROR_NOT_ENDED, boundary, refuse, sw_status, told};
use crate::acquisition::Acquisition;
use crate::error::{Error, caught, caught_call};
use crate::stats::Summary;
use crate::sync::Unpoisoned;
use crate::words::of_system;

/// No more frames of these runs are taken; a thread brings those of them that are not on their way yet to their ends.
pub(super) fn begin_to_end(runs: &[Arc<Run>]) -> Outcome<()> {
    let mut states: Vec<_> = runs.iter().map(|run| (run, run.ending.state())).filter(|(_, of)| !of.begun).collect();
    if states.is_empty() {
        return Ok(());
    }
    let begun: Vec<_> = states.iter().map(|(run, _)| (*run).clone()).collect();
    let thread = std::thread::Builder::new().name("sw-finish".into()).spawn(move || end(&begun));
    let thread = thread.map_err(|error| {
        told(SW_ERROR_IO, format_args!("can't start the thread that ends the run: {}", of_system(error)))
    })?;
    states[0].1.thread = Some(thread);
    states.iter_mut().for_each(|(_, state)| state.begun = true);
    let begun: Vec<_> = states.into_iter().map(|(run, _)| run).collect();
    // Those who wait for a buffer or are about to commit leave now. Whoever hears of it may ask for the outcome, so the
    // states are free by now.
    begun.iter().for_each(|run| run.engine.close_gate());
    Ok(())
}

fn end(runs: &[Arc<Run>]) {
    runs.iter().for_each(|run| run.engine.close_gate());
    let take = |run: &Arc<Run>| {
        // The last of those who wait in a call lets this thread in.
        match run.acquisition.write().unpoisoned().take() {
            Some(Held::Own(acquisition)) => Some(*acquisition),
            Some(Held::Lent(_)) | None => None,
        }
    };
    let (owners, mut own): (Vec<_>, Vec<_>) = runs.iter().filter_map(|run| take(run).map(|own| (run, own))).unzip();
    let finish = || match own.len() {
        1 => own.drain(..).map(Acquisition::finish).collect(),
        _ => Acquisition::finish_all(own),
    };
    let finished = match caught(|| Ok(finish())) {
        Ok(outcomes) => outcomes.into_iter().map(Finished::from).collect(),
        Err(error) => vec![Finished { summary: None, error: Some(error) }; owners.len()],
    };
    for (run, finished) in owners.iter().zip(finished) {
        run.ending.state().outcome = Some(finished);
    }
    for run in runs {
        run.ending.state().outcome.get_or_insert(Finished { summary: None, error: Some(Error::Ended) });
        // Whoever waits for the end shall not wait for ever, whatever comes of this.
        drop(caught_call(|| run.engine.tell_end()));
        run.ending.state().end_is_told = true;
        run.ending.ended.notify_all();
    }
}

impl Run {
    /// What came of the run.
    pub(super) fn summary(&self) -> Outcome<Summary> {
        match &self.ending.state().outcome {
            Some(Finished { summary: Some(summary), .. }) => Ok(summary.clone()),
            Some(Finished { error: Some(error), .. }) => Err(error.clone().into()),
            _ => refuse!(SW_ERROR_NOT_ENDED, "there is no summary before the end: finish or abort the run first"),
        }
    }
}

pub(super) fn check_owner(run: &Run) -> Outcome<()> {
    if run.is_lent {
        return refuse!(
            SW_ERROR_BUSY,
            "this handle was lent by the program that started the run, and that ends it, too"
        );
    }
    Ok(())
}

/// Takes no more frames: whoever acquires or commits one from now on gets SW_ERROR_ENDED, and whoever waits for a
/// buffer is woken. Frames that were committed go on to their shards. End the run with sw_finish or sw_abort all the
/// same.
///
/// Callbacks and a storage's functions can't end every run: sw_close, sw_finish, sw_finish_all, sw_abort and sw_free
/// return SW_ERROR_BUSY in those of the run itself and of other images of its dataset, in those of another run whose
/// end a callback of this one waits for, and, of whatever run, in the log's function and in `own_buffers_release`
/// (where the handle that is being freed is SW_ERROR_HANDLE). Call them on another thread.
///
/// Errors: SW_ERROR_BUSY.
#[unsafe(no_mangle)]
pub extern "C" fn sw_close(acquisition: *mut sw_acquisition) -> sw_status {
    with_run(acquisition, |run| {
        check_owner(run)?;
        let _wait = Wait::for_end(run.dataset)?;
        run.engine.close_gate();
        Ok(())
    })
}

/// Ends the acquisition: no more frames are taken; all committed frames are brought into their shards, these are
/// closed, the documents completed. Numbers below the newest that never came count as missing, and so do those beyond
/// it for which the array has a place all the same, as in a stack or among channels that were begun.
///
/// If no frame was committed, an empty array stays. One that was to replace a dataset (`overwrite` of sw_config, or of
/// sw_dataset_create) disappears, and what it was to replace is back; of several images, when all have ended without a
/// frame and sw_dataset_free was called.
///
/// It waits at most `timeout_ms` milliseconds, or SW_FOREVER. After SW_TIMEOUT the run goes on ending by itself; call
/// again to wait longer. `summary` (null: not wanted) must have its `size` set. Frames that are still on loan can't be
/// committed any more; their memory stays until sw_free, so that a driver may be stopped afterwards.
///
/// Errors: SW_TIMEOUT; SW_ERROR_BUSY if another thread waits in this call, and in callbacks (see sw_close);
/// SW_ERROR_ENDED if the outcome was told before, by this call or by sw_abort; SW_ERROR_IO if the system gives no
/// thread that ends the run, after which it may be called again; otherwise the first error of the run, once, which is
/// SW_ABORTED if it was aborted and lost frames by that: sw_get_summary then says what was saved all the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_finish(
    acquisition: *mut sw_acquisition,
    timeout_ms: i64,
    summary: *mut sw_summary,
) -> sw_status {
    with_run(acquisition, |run| {
        check_owner(run)?;
        // SAFETY: as the caller promises, which is what the header says.
        let place = if summary.is_null() { None } else { Some(unsafe { grown_out(summary) }?) };
        let wait = limit(timeout_ms)?;
        let _wait = Wait::for_end(run.dataset)?;
        let claim = run.ending.claim()?;
        begin_to_end(std::slice::from_ref(run))?;
        let mut state = run.ending.wait(wait)?;
        state.told = true;
        let finished = state.outcome.clone();
        drop((state, claim));
        let Some(Finished { summary, error }) = finished else { return Ok(()) };
        if let Some(error) = error {
            return Err(error.into());
        }
        if let (Some(place), Some(summary)) = (place, summary) {
            place.set(sw_summary::from(&summary));
        }
        Ok(())
    })
}

/// Ends the acquisition at once: frames that wait in the ring are lost, everything that is in a shard stays readable.
/// If no frame was committed, the dataset disappears, and one that it was to replace is back. A sw_finish that is under
/// way ends sooner. If the run has ended, nothing happens.
///
/// It waits at most `timeout_ms` milliseconds, or SW_FOREVER, for the chunks that are being encoded and for the shards
/// to close.
///
/// Errors: SW_TIMEOUT, and SW_ERROR_IO if the system gives no thread that ends the run, after both of which it may be
/// called again; SW_ERROR_BUSY in callbacks (see sw_close).
#[unsafe(no_mangle)]
pub extern "C" fn sw_abort(acquisition: *mut sw_acquisition, timeout_ms: i64) -> sw_status {
    with_run(acquisition, |run| {
        check_owner(run)?;
        let wait = limit(timeout_ms)?;
        let _wait = Wait::for_end(run.dataset)?;
        if run.ending.abort() {
            run.engine.aborting.store(true, Relaxed);
        }
        begin_to_end(std::slice::from_ref(run))?;
        run.ending.wait(wait)?.told = true;
        Ok(())
    })
}

/// What came of a run that has ended, also with an error. `summary` must have its `size` set.
///
/// Errors: SW_ERROR_NOT_ENDED; the run's error where there is no summary, as after a panic of the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_get_summary(acquisition: *mut sw_acquisition, summary: *mut sw_summary) -> sw_status {
    with_run(acquisition, |run| {
        // SAFETY: as the caller promises, which is what the header says.
        let place = unsafe { grown_out(summary) }?;
        place.set(sw_summary::from(&run.summary()?));
        Ok(())
    })
}

/// As sw_get_summary, everything as a JSON document: also the numbers of the missing frames, the array's shape, the
/// latencies of each stage, the storage that was chosen and why.
///
/// `text` gets the document and an ending zero if its `capacity` bytes suffice, else nothing. `needed` (null: not
/// wanted) gets how many bytes that are, also with SW_ERROR_SIZE. With `text` null and `capacity` 0, only `needed` is
/// set.
///
/// Errors: as sw_get_summary; SW_ERROR_SIZE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_summary_json(
    acquisition: *mut sw_acquisition,
    text: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> sw_status {
    with_run(acquisition, |run| {
        let document = serde_json::to_string_pretty(&run.summary()?).unwrap_or_default();
        // SAFETY: as the caller promises, which is what the header says.
        unsafe { put_text(&document, text, capacity, needed) }
    })
}

/// Gives back the handle, the ring's memory and all else of an acquisition that has ended. It never waits for a disk.
///
/// Errors: SW_ERROR_NOT_ENDED: finish or abort it first, so that nothing is lost unnoticed. SW_ERROR_BUSY if another
/// thread is in a call with the handle, and in callbacks (see sw_close). After both, the handle is good as before, and
/// `own_buffers_release` was not called.
#[unsafe(no_mangle)]
pub extern "C" fn sw_free(acquisition: *mut sw_acquisition) -> sw_status {
    boundary(|| {
        let mut wait = Wait::default();
        let run = RUNS.remove(acquisition, |run| {
            check_owner(run)?;
            // The thread that ends the run may be this one, and can't wait for itself. Once it has told the end, there
            // is nothing more to wait for.
            let is_told = run.ending.state().end_is_told;
            wait = if is_told {
                Wait::refuse_own(run.dataset).map(|_| Wait::default())
            } else {
                Wait::for_end(run.dataset)
            }?;
            let ended = run.ending.state().outcome.is_some();
            if ended { Ok(()) } else { refuse!(SW_ERROR_NOT_ENDED, "the run goes on: finish or abort it first") }
        })?;
        let thread = run.ending.state().thread.take();
        // It has told its outcome, and has nothing left to do.
        let _ = thread.map(JoinHandle::join);
        drop(wait);
        Ok(())
    })
}
