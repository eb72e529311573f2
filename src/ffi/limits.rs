//! How long a call may wait.

use std::time::Duration;

use super::status::{Outcome, SW_ERROR_ARGUMENT, refuse};
use crate::config::RingFull;

/// As a time limit: wait as long as it takes.
pub const SW_FOREVER: i64 = -1;
/// As a time limit of sw_acquire, sw_acquire_buffer and sw_append: as the configuration's `ring_full` says.
pub const SW_AS_CONFIGURED: i64 = -2;

/// A time limit in milliseconds as C gives it.
pub(super) fn limit(timeout_ms: i64) -> Outcome<Option<Duration>> {
    match timeout_ms {
        SW_FOREVER => Ok(None),
        0.. => Ok(Some(Duration::from_millis(timeout_ms as u64))),
        _ => refuse!(SW_ERROR_ARGUMENT, "timeout_ms = {timeout_ms}: 0 or more milliseconds, or SW_FOREVER"),
    }
}

/// As [`limit`], of a call that waits for a free buffer.
pub(super) fn limit_or(timeout_ms: i64, configured: RingFull) -> Outcome<Option<Duration>> {
    match (timeout_ms, configured) {
        (SW_AS_CONFIGURED, RingFull::Block { timeout }) => Ok(timeout),
        (SW_AS_CONFIGURED, RingFull::DropNewest | RingFull::Error) => Ok(Some(Duration::ZERO)),
        (SW_FOREVER | 0.., _) => limit(timeout_ms),
        _ => refuse!(
            SW_ERROR_ARGUMENT,
            "timeout_ms = {timeout_ms}: 0 or more milliseconds, SW_FOREVER, or SW_AS_CONFIGURED"
        ),
    }
}
