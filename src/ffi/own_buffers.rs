//! The caller's own memory as the ring.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::callback::{Context, Of};
use super::config::convert::known;
use super::config::sw_config;
use super::pointer::list_up_to;
use super::status::{Outcome, SW_ERROR_ARGUMENT, SW_ERROR_NULL, refuse};
use crate::aligned_memory::RingBuffers;
use crate::plan::RING_FRAMES_MAX;

/// What is kept as long as the library may touch the buffers.
struct Lent {
    release: Option<unsafe extern "C" fn(*mut c_void)>,
    context: Context,
    taken_over: Arc<AtomicBool>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (Some(release), true) = (self.release, self.taken_over.load(Relaxed)) {
            // Whatever thread is the last to use them. SAFETY: the caller gave the function for this.
            self.context.call(Of::Any, |context| unsafe { release(context) });
        }
    }
}

/// Buffers of the caller's own, which stay the caller's if the acquisition does not come about.
pub(super) struct OwnBuffers {
    pub(super) buffers: RingBuffers,
    /// Set once it has.
    pub(super) taken_over: Arc<AtomicBool>,
}

/// The buffers that a configuration names, if it does.
///
/// # Safety
/// `config` and all that it points to must be good for reads, unless null or misaligned; the buffers as the header
/// says.
pub(super) unsafe fn own_buffers(config: *const sw_config) -> Outcome<Option<OwnBuffers>> {
    // SAFETY: as the caller promises.
    let config = unsafe { known(config) }?;
    let names = ["sw_config.own_buffers", "sw_config.own_buffer_count"];
    // SAFETY: as the caller promises.
    let places = unsafe { list_up_to(config.own_buffers, config.own_buffer_count, RING_FRAMES_MAX, names) }?;
    if places.is_empty() {
        return match (config.own_buffer_bytes, config.own_buffers_release) {
            (0, None) => Ok(None),
            (0, Some(_)) => refuse!(SW_ERROR_ARGUMENT, "sw_config.own_buffers_release is set without own_buffers"),
            (bytes, _) => {
                refuse!(SW_ERROR_ARGUMENT, "sw_config.own_buffer_bytes = {bytes}: it is set without own_buffers")
            }
        };
    }
    let places: Option<Vec<_>> = places.iter().map(|&place| NonNull::new(place.cast::<u8>())).collect();
    let Some(places) = places else { return refuse!(SW_ERROR_NULL, "one of sw_config.own_buffers is null") };
    let taken_over = Arc::new(AtomicBool::new(false));
    let lent = Lent {
        release: config.own_buffers_release,
        context: Context(config.own_buffers_context),
        taken_over: taken_over.clone(),
    };
    // SAFETY: as the caller promises, which is what the header says.
    let buffers = unsafe { RingBuffers::unclaimed(places, config.own_buffer_bytes, lent) }?;
    Ok(Some(OwnBuffers { buffers, taken_over }))
}
