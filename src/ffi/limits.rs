//! How long a call may wait.

use std::time::Duration;

use super::status::{Outcome, SW_ERROR_ARGUMENT, refuse};
use crate::config::RingFull;

/// As a time limit: wait as long as it takes.
pub const SW_FOREVER: i64 = -1;
/// As a time limit of sw_acquire, sw_acquire_buffer and sw_append: as the configuration's `ring_full` says.
pub const SW_AS_CONFIGURED: i64 = -2;
/// A time limit in milliseconds as C gives it; `None`: as the configuration says.
pub(super) enum Limit {
    Within(Option<Duration>),
    AsConfigured,
}

impl Limit {
    pub(super) fn of(timeout_ms: i64) -> Outcome<Self> {
        match timeout_ms {
            SW_FOREVER => Ok(Self::Within(None)),
            SW_AS_CONFIGURED => Ok(Self::AsConfigured),
            0.. => Ok(Self::Within(Some(Duration::from_millis(timeout_ms as u64)))),
            _ => refuse!(
                SW_ERROR_ARGUMENT,
                "timeout_ms = {timeout_ms}: 0 or more milliseconds, SW_FOREVER, or SW_AS_CONFIGURED"
            ),
        }
    }

    pub(super) fn or(self, configured: RingFull) -> Option<Duration> {
        match (self, configured) {
            (Self::Within(wait), _) => wait,
            (Self::AsConfigured, RingFull::Block { timeout }) => timeout,
            (Self::AsConfigured, RingFull::DropNewest | RingFull::Error) => Some(Duration::ZERO),
        }
    }
}

/// Milliseconds that a finishing call may wait.
pub(super) fn limit(timeout_ms: i64) -> Outcome<Option<Duration>> {
    match timeout_ms {
        SW_FOREVER => Ok(None),
        0.. => Ok(Some(Duration::from_millis(timeout_ms as u64))),
        _ => refuse!(SW_ERROR_ARGUMENT, "timeout_ms = {timeout_ms}: 0 or more milliseconds, or SW_FOREVER"),
    }
}
