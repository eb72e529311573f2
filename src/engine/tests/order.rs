//! Numbers in every order, each step of a commit by itself, against a dull model: every number that was taken is
//! written, every other one is refused or missing, and the run ends.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use proptest::prelude::*;

use super::{chunk, pixels};
use crate::engine::shared::relief;
use crate::engine::{Arrival, Engine};
use crate::error::{Error, RefusedNumber};
use crate::record::NUMBER_IN_RECORD;
use crate::ring::Loan;
use crate::sync::{MutexGuard, Unpoisoned};
use crate::{Acquisition, Codec, Compressor, Config, Dim, Dtype, IndexLocation, Memory};

/// What one of the threads of a program does next.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Takes the number so far ahead of the newest, or behind it.
    Claim(i64),
    /// Takes one so far ahead of another whose frame is on its way that both share a mark.
    Leap(usize, u64),
    /// Takes the next number.
    ClaimNext,
    /// Queues one of the frames of which the number was taken.
    Queue(usize),
    /// Says of one that it is in the queue.
    Tell(usize),
    /// Keeps all buffers that are free.
    KeepAll,
    /// The sequencer gets time.
    Pump,
    /// A caller that finds no free buffer asks it for one.
    Relieve(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Claim(1)),
        4 => (-40_i64..12).prop_map(Step::Claim),
        3 => (any::<usize>(), 1_u64..3).prop_map(|(which, times)| Step::Leap(which, times)),
        2 => Just(Step::ClaimNext),
        8 => any::<usize>().prop_map(Step::Queue),
        8 => any::<usize>().prop_map(Step::Tell),
        1 => Just(Step::KeepAll),
        3 => Just(Step::Pump),
        1 => any::<bool>().prop_map(Step::Relieve),
    ]
}

struct Program {
    engine: Arc<Engine>,
    /// Numbers this far apart share a mark.
    marks: u64,
    window: u64,
    /// Whose number was taken, and which are not queued.
    claimed: Vec<(u64, Loan)>,
    /// In the queue, which nobody has told yet.
    queued: Vec<u64>,
    kept: Vec<Loan>,
    /// The model: what was taken.
    taken: BTreeSet<u64>,
    /// Missing numbers may have been given up earlier than the window says.
    was_relieved: bool,
}

impl Program {
    fn new(acquisition: &Acquisition) -> Self {
        let engine = acquisition.acquire().unwrap().lender.engine.clone();
        let ring = &engine.plan.ring;
        let (window, marks) = (ring.window, (2 * (ring.window + ring.frames as u64)).next_power_of_two());
        let (claimed, queued, kept, taken) = (Vec::new(), Vec::new(), Vec::new(), BTreeSet::new());
        Self { engine, marks, window, claimed, queued, kept, taken, was_relieved: false }
    }

    fn loan(&mut self) -> Option<Loan> {
        self.kept.pop().or_else(|| self.engine.ring.try_loan())
    }

    /// Whether to take a number would be to wait for another thread, which here is this one.
    fn would_wait(&self, number: u64) -> bool {
        let mut on_their_way = self.claimed.iter().map(|(number, _)| number).chain(&self.queued);
        on_their_way.any(|other| other % self.marks == number % self.marks && *other != number)
    }

    fn claim(&mut self, number: u64) -> Result<(), TestCaseError> {
        if self.would_wait(number) {
            return Ok(());
        }
        let Some(loan) = self.loan() else { return Ok(()) };
        let newest = self.taken.last().copied().unwrap_or(0);
        let claimed = self.engine.numbers.claim(number);
        let why = match claimed {
            Ok(()) => {
                prop_assert!(number + self.window >= newest, "{number} is not within {} of {newest}", self.window);
                prop_assert!(self.taken.insert(number), "{number} was taken twice");
                self.claimed.push((number, loan));
                return Ok(());
            }
            Err(Error::FrameNumber { why, .. }) => why,
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        if !self.taken.contains(&number) {
            let is_late = self.was_relieved || number + self.window < newest;
            prop_assert!(matches!(why, RefusedNumber::TooLate { .. }) && is_late, "{number} of {newest}: {why:?}");
        }
        Ok(())
    }

    fn claim_next(&mut self) -> Result<(), TestCaseError> {
        if self.would_wait(self.engine.numbers.next()) {
            return Ok(());
        }
        let Some(loan) = self.loan() else { return Ok(()) };
        let number = self.engine.numbers.claim_next().map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(self.taken.last().is_none_or(|&newest| newest < number));
        self.taken.insert(number);
        self.claimed.push((number, loan));
        Ok(())
    }

    fn queue(&mut self, which: usize) {
        let Some(at) = which.checked_rem(self.claimed.len()) else { return };
        let (number, mut loan) = self.claimed.swap_remove(at);
        loan.pixels_mut().copy_from_slice(&pixels(number));
        loan.record_mut()[NUMBER_IN_RECORD].copy_from_slice(&(number as i64).to_ne_bytes());
        self.engine.counters.frames_accepted.fetch_add(1, Relaxed);
        let arrival = Arrival { number, frame: Some(loan.commit()), dropped_before: 0 };
        self.engine.arrivals.0.try_send(arrival).unwrap();
        self.queued.push(number);
    }

    fn tell(&mut self, which: usize) {
        let Some(at) = which.checked_rem(self.queued.len()) else { return };
        self.engine.numbers.sent(self.queued.swap_remove(at));
    }

    fn make(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Claim(ahead) => {
                let newest = self.taken.last().copied().unwrap_or(0);
                self.claim(newest.saturating_add_signed(ahead))?;
            }
            Step::Leap(which, times) => {
                let recent: Vec<_> = self.taken.iter().rev().take(16).copied().collect();
                let Some(at) = which.checked_rem(recent.len()) else { return Ok(()) };
                self.claim(recent[at] + times * self.marks)?;
            }
            Step::ClaimNext => self.claim_next()?,
            Step::Queue(which) => self.queue(which),
            Step::Tell(which) => self.tell(which),
            Step::KeepAll => self.kept.extend(std::iter::from_fn(|| self.engine.ring.try_loan())),
            Step::Pump | Step::Relieve(_) => {}
        }
        Ok(())
    }
}

fn wait_until(condition: impl Fn() -> bool) -> Result<(), TestCaseError> {
    for _ in 0..20_000 {
        if condition() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Err(TestCaseError::fail("nobody goes on"))
}

/// A driver that keeps all buffers has nothing but missing numbers to wait for.
fn relieve(program: &mut Program, for_long: bool) -> Result<(), TestCaseError> {
    let engine = program.engine.clone();
    engine.pump();
    engine.wake_if_work_waits();
    let gathering = || engine.sequencer.lock().unpoisoned().layers_gathering();
    wait_until(|| engine.layers.in_use() == gathering() || !engine.tickets.is_empty())?;
    program.make(Step::KeepAll)?;
    program.was_relieved = true;
    engine.relief.fetch_max(if for_long { relief::FOR_LONG } else { relief::WANTED }, Relaxed);
    engine.pump();
    Ok(())
}

/// The sequencer gets no time but at the steps that say so: until then, the workers wait for it, too.
fn run(program: &mut Program, steps: &[Step]) -> Result<(), TestCaseError> {
    let engine = program.engine.clone();
    let hold = || -> MutexGuard<_> { engine.sequencer.lock().unpoisoned() };
    let mut held = hold();
    for &step in steps {
        if let Step::Pump | Step::Relieve(_) = step {
            drop(held);
            match step {
                Step::Relieve(for_long) => relieve(program, for_long)?,
                _ => engine.pump(),
            }
            held = hold();
        }
        program.make(step)?;
    }
    drop(held);
    while !program.claimed.is_empty() {
        program.queue(0);
    }
    while !program.queued.is_empty() {
        program.tell(0);
    }
    program.kept.clear();
    // All frames go on by themselves from here.
    engine.pump();
    wait_until(|| hold().is_idle())
}

fn acquisition(memory: &Arc<Memory>, depth: u64, spare: usize) -> Acquisition {
    let dims = vec![Dim::time(None).chunk(depth).shard(4 * depth), Dim::y(4), Dim::x(4)];
    let codec = Codec { compressor: Compressor::None, checksum: false };
    let ring_bytes = (depth as usize + 2 + spare) * 4096;
    let config = Config { dtype: Dtype::U8, dims, codec, ring_bytes, workers: 1, sync: false, ..Config::default() };
    Acquisition::create_in(memory.clone(), config).unwrap()
}

fn check(depth: u64, spare: usize, steps: &[Step]) -> Result<(), TestCaseError> {
    let memory = Arc::new(Memory::new());
    let acquisition = acquisition(&memory, depth, spare);
    let mut program = Program::new(&acquisition);
    run(&mut program, steps)?;
    let (engine, taken) = (program.engine.clone(), std::mem::take(&mut program.taken));
    drop(program);
    let summary = acquisition.finish().map_err(|error| TestCaseError::fail(error.to_string()))?;
    let end = engine.counters.newest_end.load(Relaxed);
    let untaken: BTreeSet<_> = (0..end).filter(|number| !taken.contains(number)).collect();
    prop_assert_eq!(summary.missing.into_iter().flatten().collect::<BTreeSet<_>>(), untaken);
    prop_assert_eq!(engine.counters.frames_written.load(Relaxed), taken.len() as u64);
    for number in taken {
        let shard = memory.read(&format!("0/c/{}/0/0", number / (4 * depth))).unwrap();
        let layer = chunk(&shard, (number / depth % 4) as usize, IndexLocation::End);
        prop_assert_eq!(&layer[(number % depth) as usize * 16..][..16], &pixels(number));
    }
    Ok(())
}

/// A hang is a failure like any other.
fn in_time(check: impl FnOnce() -> Result<(), TestCaseError> + Send + 'static) -> Result<(), TestCaseError> {
    let (done, outcome) = mpsc::channel();
    std::thread::spawn(move || done.send(check()));
    outcome.recv_timeout(Duration::from_secs(30)).map_err(|_| TestCaseError::fail("it hangs, or panicked"))?
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 256 },
        // A hang takes its time.
        max_shrink_iters: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_number_is_written_or_missing_or_refused(
        depth in 1_u64..4,
        spare in 0_usize..12,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        in_time(move || check(depth, spare, &steps))?;
    }
}

/// Frame 0 stands in the queue behind one for which it is too late, and a leap takes its mark.
fn leap_over_a_queued_frame() -> Result<(), TestCaseError> {
    let acquisition = acquisition(&Arc::new(Memory::new()), 1, 11);
    let mut program = Program::new(&acquisition);
    let engine = program.engine.clone();
    prop_assert_eq!((program.window, program.marks), (12, 64));
    // Whoever makes the first shards runs the sequencer, too.
    std::thread::sleep(Duration::from_millis(100));
    [0, 12, 13].into_iter().try_for_each(|number| program.claim(number))?;
    // 13, then 0; 12 keeps its thread waiting.
    for which in [2, 0] {
        program.queue(which);
        program.tell(0);
    }
    program.claim(64)?;
    engine.pump();
    wait_until(|| engine.counters.frames_written.load(Relaxed) == 2)?;
    run(&mut program, &[])?;
    drop(program);
    prop_assert_eq!(acquisition.finish().unwrap().frames_written, 4);
    Ok(())
}

#[test]
fn a_leap_takes_the_mark_of_a_queued_frame_and_not_the_frame() {
    in_time(leap_over_a_queued_frame).unwrap();
}
