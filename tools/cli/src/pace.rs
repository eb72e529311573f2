//! When frames come: on an absolute schedule, so that late frames don't shift the ones after them.

use std::thread;
use std::time::{Duration, Instant};

use crate::args::Rate;

/// The moments at which frames are due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    start: Instant,
    fps: Option<f64>,
}

// A sleeping thread notices an interrupt no later than this.
const NAP: Duration = Duration::from_millis(50);

impl Schedule {
    /// A schedule whose frame 0 is due at `start`.
    pub(crate) fn new(start: Instant, rate: Rate) -> Self {
        let fps = match rate {
            Rate::Max => None,
            Rate::Fps(fps) => Some(fps),
        };
        Self { start, fps }
    }

    /// How long after the start frame `number` is due.
    pub(crate) fn due(&self, number: u64) -> Duration {
        let seconds = self.fps.map_or(0.0, |fps| number as f64 / fps);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Sleeps until frame `number` is due, or until `stopped` says so. Returns at once for frames that are late.
    pub(crate) fn wait(&self, number: u64, stopped: impl Fn() -> bool) {
        if self.fps.is_none() {
            return;
        }
        let due = self.due(number);
        while !stopped() {
            match due.checked_sub(self.start.elapsed()) {
                None | Some(Duration::ZERO) => return,
                Some(rest) => thread::sleep(rest.min(NAP)),
            }
        }
    }
}

/// While it lives, the thread that made it has real-time priority, as the thread of a camera driver has: on a machine
/// whose cores are all busy, an ordinary thread can lose its core for milliseconds in the middle of a commit.
#[derive(Debug)]
pub(crate) struct CameraPriority(());

impl CameraPriority {
    /// `None` where the system does not allow it.
    pub(crate) fn take() -> Option<Self> {
        schedule(libc::SCHED_FIFO, 1).then_some(Self(()))
    }
}

impl Drop for CameraPriority {
    fn drop(&mut self) {
        schedule(libc::SCHED_OTHER, 0);
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn schedule(policy: i32, priority: i32) -> bool {
    // SAFETY: all of `sched_param` is integers, for which zeros are a value.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    // SAFETY: the pointer is good for the call, which changes nothing but how this thread (0) is scheduled.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn schedule(_policy: i32, _priority: i32) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_are_multiples_of_the_period_and_do_not_drift() {
        let schedule = Schedule::new(Instant::now(), Rate::Fps(30.0));
        assert_eq!(schedule.due(0), Duration::ZERO);
        // A hundred hours in, summed periods of 33.333333 ms would be off by milliseconds.
        let error = schedule.due(10_800_000).as_secs_f64() - 360_000.0;
        assert!(error.abs() < 1e-6, "{error}");
    }

    #[test]
    fn waiting_keeps_the_rate() {
        let start = Instant::now();
        let schedule = Schedule::new(start, Rate::Fps(500.0));
        (0..=50).for_each(|number| schedule.wait(number, || false));
        let elapsed = start.elapsed();
        assert!(elapsed >= Duration::from_millis(100), "{elapsed:?}");
    }

    #[test]
    fn late_frames_and_unlimited_rates_do_not_wait() {
        let late = Schedule::new(Instant::now() - Duration::from_secs(60), Rate::Fps(1.0));
        let unlimited = Schedule::new(Instant::now(), Rate::Max);
        let begun = Instant::now();
        late.wait(59, || false);
        unlimited.wait(u64::MAX, || false);
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn an_interrupt_ends_the_wait() {
        let begun = Instant::now();
        let schedule = Schedule::new(begun, Rate::Fps(1e-6));
        schedule.wait(1, || begun.elapsed() > Duration::from_millis(60));
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}
