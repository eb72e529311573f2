//! Many acquisitions at once, as the images of a plate: what has to reach the device is brought there together.
#![allow(unsafe_code)]

use std::ffi::c_char;
use std::sync::Arc;
use std::time::Instant;

use super::callback::Wait;
use super::config::convert::configuration;
use super::config::sw_config;
use super::dataset::{DATASETS, sw_dataset};
use super::finish::{begin_to_end, check_owner};
use super::limits::limit;
use super::names::Spelling;
use super::own_buffers::own_buffers;
use super::pointer::{outs, slice, text};
use super::registry::{Held, RUNS, Run, enter, sw_acquisition};
use super::status::{Outcome, SW_ERROR_ARGUMENT, SW_ERROR_NULL, Told, boundary, refuse, sw_status};
use crate::config::Config;
use crate::error::Error;

/// As sw_dataset_acquisition for each of `count` images, with their documents brought to the device together.
/// `names` and `configs` have `count` pointers, none of them null; several of `configs` may be the same. `acquisitions`
/// gets `count` handles. Their shards are created when their first frames come; those of images without an end must all
/// have room on the disk. With `count` 0, nothing happens, and the lists may be null.
///
/// The more images, the fewer frames of the ring each of them may have: 32,768 divided by their number, but 128 at
/// least and 4,096 at most.
///
/// Errors: as sw_dataset_acquisition; SW_ERROR_CONFIG for a name that is there twice; SW_ERROR_ARGUMENT for a
/// configuration with buffers of the caller's own; SW_ERROR_TOO_MANY. No image is left behind then, and no handle is
/// set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_dataset_acquisitions(
    dataset: *mut sw_dataset,
    names: *const *const c_char,
    configs: *const *const sw_config,
    count: usize,
    acquisitions: *mut *mut sw_acquisition,
) -> sw_status {
    boundary(|| {
        let dataset = DATASETS.enter(dataset)?;
        // SAFETY: as the caller promises, which is what the header says.
        let (names, configs) =
            unsafe { (slice(names, count, ["names", "count"])?, slice(configs, count, ["configs", "count"])?) };
        // SAFETY: as above.
        let places = unsafe { outs(acquisitions, count, "acquisitions")? };
        let mut images: Vec<(&str, Config)> = Vec::new();
        let mut spelling = Spelling::Struct;
        for (at, (&name, &config)) in names.iter().zip(configs).enumerate() {
            if let Some((list, _)) = [("names", name.is_null()), ("configs", config.is_null())].iter().find(|of| of.1) {
                return refuse!(SW_ERROR_NULL, "{list}[{at}] is null, and each of the {count} images needs one");
            }
            // SAFETY: as above.
            let (name, own, requested) = unsafe { (text(name, "name")?, own_buffers(config)?, configuration(config)?) };
            if own.is_some() {
                return refuse!(SW_ERROR_ARGUMENT, "buffers of your own are for one image: see sw_dataset_acquisition");
            }
            spelling = requested.spelling;
            images.push((name, requested.config));
        }
        let rooms = (0..count).map(|_| RUNS.room()).collect::<Outcome<Vec<_>>>()?;
        let begun = dataset.acquisitions(images).map_err(|error| spelling.told(error))?;
        let runs = begun.into_iter().map(|own| Arc::new(Run::new(Held::Own(Box::new(own)))));
        places.set(rooms.into_iter().zip(runs).map(|(room, run)| room.fill(run)));
        Ok(())
    })
}

/// Ends several acquisitions as sw_finish ends each, but with what has to reach the device brought there together.
/// Their summaries are to be had by sw_get_summary. With `count` 0, nothing happens, and the list may be null.
///
/// It waits at most `timeout_ms` milliseconds, or SW_FOREVER. After SW_TIMEOUT all go on ending by themselves; call
/// again to wait longer.
///
/// Errors: SW_ERROR_ARGUMENT for a handle that is there twice; SW_TIMEOUT; SW_ERROR_IO, SW_ERROR_BUSY and
/// SW_ERROR_ENDED as sw_finish, before any run is ended: one whose outcome was told leaves all others running, so take
/// it out of the list (sw_get_summary tells which have ended) and call again; otherwise the first error of the first of
/// these runs that has one, when all have ended: sw_first_error tells that of each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_finish_all(
    acquisitions: *const *mut sw_acquisition,
    count: usize,
    timeout_ms: i64,
) -> sw_status {
    boundary(|| {
        // SAFETY: as the caller promises, which is what the header says.
        let handles = unsafe { slice(acquisitions, count, ["acquisitions", "count"])? };
        let named = |at: usize| move |told: Told| told.at("acquisitions", at);
        // To stay in each keeps it from being freed.
        let enter = |(at, handle): (usize, &*mut sw_acquisition)| enter(*handle).map_err(named(at));
        let entered = handles.iter().enumerate().map(enter).collect::<Outcome<Vec<_>>>()?;
        let mut addresses: Vec<usize> = handles.iter().map(|handle| handle.addr()).collect();
        addresses.sort_unstable();
        if let Some(twice) = addresses.windows(2).find(|pair| pair[0] == pair[1]) {
            return refuse!(SW_ERROR_ARGUMENT, "acquisition {:#x} is there twice", twice[0]);
        }
        let runs: Vec<Arc<Run>> = entered.iter().map(|run| Arc::clone(run)).collect();
        runs.iter().enumerate().try_for_each(|(at, run)| check_owner(run).map_err(named(at)))?;
        let wait = limit(timeout_ms)?;
        let waits = runs.iter().enumerate().map(|(at, run)| Wait::for_end(run.dataset).map_err(named(at)));
        let _waits = waits.collect::<Outcome<Vec<_>>>()?;
        let claims = runs.iter().enumerate().map(|(at, run)| run.ending.claim().map_err(named(at)));
        let claims = claims.collect::<Outcome<Vec<_>>>()?;
        begin_to_end(&runs)?;
        let start = Instant::now();
        for run in &runs {
            drop(run.ending.wait(wait.map(|wait| wait.saturating_sub(start.elapsed())))?);
        }
        let mut first: Option<Error> = None;
        for run in &runs {
            let mut state = run.ending.state();
            state.told = true;
            let error = state.outcome.as_ref().and_then(|finished| finished.error.clone());
            first = first.or(error);
        }
        drop(claims);
        first.map_or(Ok(()), |error| Err(error.into()))
    })
}
