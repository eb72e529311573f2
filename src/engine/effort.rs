//! With how much effort chunks are made while a run goes on, where that is left to us.
//!
//! When the ring fills and the workers are busy encoding, they try less hard, before a frame is lost. When they wait
//! for the storage they do not: what is made with less effort is longer. When the ring has been nearly empty for a
//! while, they try harder again; should that prove too early, the next time is farther away.

use std::time::Duration;

use crate::codec::Effort;

/// The workers' part of the time that makes something what is waited for.
const MOSTLY_ENCODING: f64 = 0.6;
const OFTEN_STORING: f64 = 0.4;

/// What less effort must gain to have helped.
const HELPED: f64 = 1.05;

/// How long the ring must be nearly empty before more effort is made, and how long less effort that did not help is
/// not tried again. Each time that it was wrong it becomes twice as long.
const PATIENCE_MIN: Duration = Duration::from_secs(2);
const PATIENCE_MAX: Duration = Duration::from_secs(64);
/// An effort that lasted so long was right.
const PROVEN: Duration = Duration::from_secs(10);

/// This many changes are noted one by one.
const NOTES_MAX: usize = 8;

/// What was seen since the last look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation {
    pub(super) elapsed: Duration,
    pub(super) ring_free: usize,
    pub(super) ring_frames: usize,
    /// The parts of the workers' time in which they gathered and encoded, and in which they wrote or waited for writes.
    pub(super) encoding: f64,
    pub(super) storing: f64,
    /// Chunks that were done, per second.
    pub(super) rate: f64,
}

/// Decides, by observations alone.
#[derive(Debug, Default)]
pub(super) struct Controller {
    /// From the least on.
    efforts: Vec<Effort>,
    now: usize,
    /// Since the last change.
    lasted: Duration,
    went_up: bool,
    /// How long the ring has been nearly empty.
    calm: Duration,
    patience_up: Duration,
    patience_down: Duration,
    /// How long less effort is not to be tried.
    no_less_for: Duration,
    /// Before the effort went down the last time, the ring being nearly full.
    rate_before: f64,
}

impl Controller {
    pub(super) fn new(efforts: Vec<Effort>) -> Self {
        Self {
            now: efforts.len() - 1,
            efforts,
            lasted: PROVEN,
            patience_up: PATIENCE_MIN,
            patience_down: PATIENCE_MIN,
            ..Self::default()
        }
    }

    /// Whether there is anything to decide.
    pub(super) fn is_needed(&self) -> bool {
        self.efforts.len() > 1
    }

    /// The effort to make from now on, and why, if it is another than before.
    pub(super) fn next(&mut self, seen: &Observation) -> Option<(Effort, &'static str)> {
        let (free, frames) = (seen.ring_free, seen.ring_frames);
        self.lasted += seen.elapsed;
        self.no_less_for = self.no_less_for.saturating_sub(seen.elapsed);
        self.calm = if 4 * free >= 3 * frames { self.calm + seen.elapsed } else { Duration::ZERO };
        let waits_for_storage = seen.storing >= OFTEN_STORING;
        let may_go_up = self.now + 1 < self.efforts.len();
        if 4 * free < frames && self.now > 0 && !waits_for_storage && seen.encoding >= MOSTLY_ENCODING {
            if !self.no_less_for.is_zero() {
                return None;
            }
            if self.went_up {
                self.patience_up = longer(self.patience_up, self.lasted);
            }
            self.rate_before = seen.rate;
            return Some(self.change(self.now - 1, "the ring filled, and encoding was what it waited for"));
        }
        // Workers that write themselves spend their time on that when they no longer encode: it has helped all the
        // same.
        let helped = seen.rate > HELPED * self.rate_before;
        if may_go_up && 2 * free < frames && waits_for_storage && !helped {
            if !self.went_up {
                self.patience_down = longer(self.patience_down, self.lasted);
            }
            self.no_less_for = self.patience_down;
            return Some(self.change(self.now + 1, "the ring filled, and the storage was what it waited for"));
        }
        if may_go_up && self.calm >= self.patience_up {
            return Some(self.change(self.now + 1, "the ring had been nearly empty for a while"));
        }
        None
    }

    fn change(&mut self, to: usize, why: &'static str) -> (Effort, &'static str) {
        self.went_up = to > self.now;
        (self.now, self.lasted, self.calm) = (to, Duration::ZERO, Duration::ZERO);
        (self.efforts[to], why)
    }
}

/// How long to wait the next time, after a change that was taken back after so long.
fn longer(patience: Duration, lasted: Duration) -> Duration {
    if lasted >= PROVEN { PATIENCE_MIN } else { (2 * patience).min(PATIENCE_MAX) }
}

#[derive(Debug, Default)]
pub(crate) struct EffortChanges {
    first: Vec<String>,
    further: u64,
}

impl EffortChanges {
    pub(super) fn add(&mut self, note: String) {
        match self.first.len() < NOTES_MAX {
            true => self.first.push(note),
            false => self.further += 1,
        }
    }

    pub(crate) fn notes(&self) -> impl Iterator<Item = String> + '_ {
        let further = (self.further > 0).then(|| format!("the effort of encoding changed {} times more", self.further));
        self.first.iter().cloned().chain(further)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Effort::{Fast, Normal, Stored};

    const TICK: Duration = Duration::from_millis(50);
    const FRAMES: usize = 100;

    const ENCODES: (f64, f64) = (0.9, 0.05);
    const WAITS: (f64, f64) = (0.3, 0.65);
    const IDLES: (f64, f64) = (0.2, 0.1);

    fn seen(ring_free: usize, (encoding, storing): (f64, f64)) -> Observation {
        Observation { elapsed: TICK, ring_free, ring_frames: FRAMES, encoding, storing, rate: 100.0 }
    }

    /// What becomes of the effort during this many ticks of the same.
    fn over(controller: &mut Controller, ticks: u32, what: &Observation) -> Vec<Effort> {
        (0..ticks).filter_map(|_| controller.next(what)).map(|(effort, _)| effort).collect()
    }

    fn controller() -> Controller {
        Controller::new(vec![Stored, Fast, Normal])
    }

    #[test]
    fn a_full_ring_and_busy_cores_alone_lower_it_at_once() {
        let table = [
            (24, ENCODES, vec![Fast, Stored]),
            (0, ENCODES, vec![Fast, Stored]),
            (25, ENCODES, vec![]),
            (100, ENCODES, vec![]),
            (0, WAITS, vec![]),
            (0, IDLES, vec![]),
            // Much of both: the storage would get even more to do.
            (0, (0.6, 0.4), vec![]),
        ];
        for (free, share, expected) in table {
            assert_eq!(over(&mut controller(), 100, &seen(free, share)), expected, "{free} free, {share:?}");
        }
        assert_eq!(controller().next(&seen(10, ENCODES)).map(|(effort, _)| effort), Some(Fast), "at the first look");
        let mut fixed = Controller::new(vec![Normal]);
        assert_eq!(over(&mut fixed, 1000, &seen(0, ENCODES)), []);
    }

    #[test]
    fn a_nearly_empty_ring_raises_it_after_a_while() {
        let mut controller = controller();
        over(&mut controller, 2, &seen(0, ENCODES));
        assert_eq!(over(&mut controller, 39, &seen(75, ENCODES)), []);
        assert_eq!(over(&mut controller, 1, &seen(75, ENCODES)), [Fast]);
        assert_eq!(over(&mut controller, 40, &seen(100, IDLES)), [Normal]);
        assert_eq!(over(&mut controller, 1000, &seen(100, IDLES)), [], "there is no more");
        over(&mut controller, 2, &seen(0, ENCODES));
        assert_eq!(over(&mut controller, 1000, &seen(74, ENCODES)), [], "half full is not empty");
    }

    #[test]
    fn a_storage_that_is_waited_for_raises_it_at_once_and_for_longer_each_time() {
        let mut controller = controller();
        over(&mut controller, 2, &seen(0, ENCODES));
        assert_eq!(over(&mut controller, 2, &seen(40, WAITS)), [Fast, Normal]);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let ticks = (1..).find(|_| controller.next(&seen(0, ENCODES)).is_some()).unwrap();
            pauses.push(ticks / 20);
            assert_eq!(over(&mut controller, 1, &seen(0, WAITS)), [Normal]);
        }
        assert_eq!(pauses, [4, 8, 16, 32, 64, 64], "seconds");
    }

    #[test]
    fn an_effort_that_let_more_chunks_through_stays_though_the_rest_is_writing() {
        let mut controller = controller();
        over(&mut controller, 2, &seen(0, ENCODES));
        let faster = Observation { rate: 110.0, ..seen(0, WAITS) };
        assert_eq!(over(&mut controller, 100, &faster), []);
        let slower = Observation { rate: 104.0, ..faster };
        assert_eq!(over(&mut controller, 2, &slower), [Fast, Normal], "the storage has become slower");
    }

    #[test]
    fn a_ring_that_swings_does_not_make_it_flap() {
        let mut swinging = controller();
        let mut changes = Vec::new();
        for _ in 0..600 {
            changes.extend(over(&mut swinging, 10, &seen(10, ENCODES)));
            changes.extend(over(&mut swinging, 10, &seen(90, IDLES)));
        }
        assert_eq!(changes, [Fast, Stored], "ten minutes of one swing a second");

        // Stored is fast enough and all else is not: the ring is empty with it, and fills without.
        let mut torn = controller();
        let mut changes = 0;
        for _ in 0..20 * 600 {
            let effort = torn.efforts[torn.now];
            changes += usize::from(torn.next(&seen(if effort == Stored { 100 } else { 0 }, ENCODES)).is_some());
        }
        assert!((10..40).contains(&changes), "{changes} changes in ten minutes");
    }

    /// How many frames of a camera find the ring full, and at most how full it gets, when the workers encode `normal` a
    /// tick with normal effort, and `stored` as they are.
    fn lost(mut controller: Controller, camera: usize, normal: usize, stored: usize) -> (usize, usize) {
        const RING: usize = 4000;
        let (mut waiting, mut lost, mut most) = (0_usize, 0, 0);
        for _ in 0..20 * 600 {
            let effort = controller.efforts[controller.now];
            let encoded = (waiting + camera).min(if effort == Stored { stored } else { normal });
            waiting = waiting + camera - encoded;
            lost += waiting.saturating_sub(RING);
            waiting = waiting.min(RING);
            most = most.max(waiting);
            let busy = encoded as f64 / if effort == Stored { stored } else { normal } as f64;
            let (ring_free, share) = (RING - waiting, (0.9 * busy, 0.05 * busy));
            controller.next(&Observation { ring_frames: RING, ..seen(ring_free, share) });
        }
        (lost, most)
    }

    #[test]
    fn a_camera_that_only_stored_chunks_keep_up_with_loses_nothing() {
        for efforts in [vec![Stored, Normal], vec![Stored, Fast, Normal]] {
            assert!(lost(Controller::new(vec![Normal]), 200, 100, 250).0 > 0, "without a change of effort");
            assert_eq!(lost(Controller::new(vec![Stored]), 200, 100, 250).0, 0);
            let (lost, most) = lost(Controller::new(efforts), 200, 100, 250);
            assert!(lost == 0 && (3000..3400).contains(&most), "{lost} lost, {most} of 4000 waited at most");
        }
    }

    #[test]
    fn only_the_first_changes_are_noted_one_by_one() {
        let mut changes = EffortChanges::default();
        (0..100).for_each(|at| changes.add(format!("change {at}")));
        let notes: Vec<_> = changes.notes().collect();
        assert_eq!((notes.len(), &notes[8][..]), (9, "the effort of encoding changed 92 times more"));
    }
}
