//! Random drivers: however many buffers they keep, whatever numbers they skip, repeat or swap, whether they pause or
//! break off, each call makes progress or returns within its limit, the run can be ended, and its books are true.
//!
//! A run follows from its seed but for how the threads meet. `SHARDWRIGHT_LOAN_STEPS` says how many calls are made in
//! all, and `SHARDWRIGHT_LOAN_SEED` which run is the first.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use crate::common::books::Books;
use crate::common::storage::{Call, Probed, save, scratch};
use crate::common::{frame, tiny};
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dim, Error, FrameMut, IndexLocation, Memory, Placement, Record, RingFull,
    Summary,
};

const FRAME: usize = 64;
/// No call may take longer, whatever else goes on.
const LIMIT: Duration = Duration::from_secs(20);

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

/// xorshift64*
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }
}

/// What each thread is doing, for whoever finds it stuck.
#[derive(Default)]
struct Watch {
    calls: Mutex<BTreeMap<String, (Instant, String)>>,
    count: AtomicU64,
}

impl Watch {
    fn call<T>(&self, what: &str, call: impl FnOnce() -> T) -> T {
        let thread = std::thread::current().name().unwrap_or("main").to_owned();
        self.calls.lock().unwrap().insert(thread.clone(), (Instant::now(), what.to_owned()));
        let value = call();
        self.calls.lock().unwrap().remove(&thread);
        self.count.fetch_add(1, SeqCst);
        value
    }

    /// A thread that is stuck can't be ended, so the process is.
    fn guard(self: &Arc<Self>, run: String) -> Arc<AtomicBool> {
        let (done, watch) = (Arc::new(AtomicBool::new(false)), self.clone());
        let ended = done.clone();
        std::thread::spawn(move || {
            while !ended.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(100));
                let calls = watch.calls.lock().unwrap();
                if calls.values().any(|(since, _)| since.elapsed() > LIMIT) {
                    eprintln!("stuck: {run}\n{calls:#?}");
                    std::process::exit(101);
                }
            }
        });
        done
    }
}

/// What the drivers of one run share.
struct Run {
    seed: u64,
    config: Config,
    acquisition: Acquisition,
    watch: Arc<Watch>,
    /// What was taken, under its number.
    accepted: Mutex<BTreeSet<u64>>,
    /// The next number that no camera has had.
    next: AtomicU64,
    storage_fails: bool,
}

/// How a run goes on when its drivers have had their steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Finish,
    Drop,
    Abort,
}

fn config(random: &mut Random) -> Config {
    let depth = random.of(&[1, 1, 2, 3, 8, 16]);
    let total = random.of(&[None, None, Some(50), Some(400)]);
    let (y, x) = (Dim::y(8).chunk(random.of(&[4, 8])), Dim::x(8));
    let time = |total| Dim::time(total).chunk(depth);
    let stack = Dim::z(4).chunk(random.of(&[1, 2, 4]));
    let shard = random.of(&[1, 2, 4]);
    let dims = match random.below(4) {
        0 => vec![time(total).shard(depth * shard), Dim::channel(3).chunk(1), y, x],
        1 => vec![Dim::time(total).chunk(1).shard(shard), stack, y, x],
        _ => vec![time(total).shard(depth * shard), y, x],
    };
    let mut order: Vec<String> = dims[..dims.len() - 2].iter().map(|dim| dim.name.clone()).collect();
    if total.is_some() && random.one_in(3) {
        order.reverse();
    }
    let timeout = Some(Duration::from_millis(random.of(&[0, 1, 20, 400])));
    let ring = 4 + random.of(&[0, 2, 8, 30, 60, 120]) + random.below(20);
    Config {
        dims,
        acquisition_order: order,
        ring_full: random.of(&[RingFull::Block { timeout }, RingFull::DropNewest, RingFull::Error]),
        placement: random.of(&[Placement::Fixed, Placement::Packed]),
        index_location: random.of(&[IndexLocation::End, IndexLocation::Start]),
        codec: Codec::from(random.of(&[Compressor::None, Compressor::Zstd { level: 1 }])),
        skip_empty_chunks: random.one_in(2),
        checkpoint_every: Duration::from_millis(random.of(&[0, 10, 100_000])),
        leap_max: random.of(&[0, 5, 40]),
        workers: 1 + random.below(3) as usize,
        sync: random.one_in(2),
        ..tiny(None, ring as usize)
    }
}

/// Fails for good, or for a while, at some call.
fn storage(random: &mut Random) -> (Probed, Option<Call>) {
    let fails = random.one_in(5);
    let call = random.of(&[Call::WriteAt, Call::Create, Call::Sync, Call::Truncate, Call::Grow, Call::Put]);
    let (from, times) = (3 + random.below(60), random.of(&[1, 3, u64::MAX]));
    let kind = random.of(&[io::ErrorKind::StorageFull, io::ErrorKind::Other]);
    let is_slow = random.one_in(4);
    let calls = AtomicU64::new(0);
    let probed = Probed::new(move |called, _| {
        if is_slow && called == Call::WriteAt {
            std::thread::sleep(Duration::from_micros(200));
        }
        if fails && called == call {
            let number = calls.fetch_add(1, SeqCst);
            if number >= from && number - from < times {
                return Err(io::Error::new(kind, "the cable is out"));
            }
        }
        Ok(())
    });
    (if random.one_in(2) { probed.one_at_a_time() } else { probed }, fails.then_some(call))
}

/// One camera's driver: its loans, and numbers that it has not brought yet.
struct Camera {
    random: Random,
    loans: Vec<FrameMut>,
    loans_max: usize,
    numbers: Vec<u64>,
    /// This many numbers may wait.
    swaps: u64,
    gap_one_in: u64,
    /// It keeps this many buffers, and hands one on only when it has got another.
    queue: Option<usize>,
}

impl Camera {
    fn new(seed: u64, ring: usize, queue: Option<usize>) -> Self {
        let mut random = Random::new(seed);
        let loans_max = random.of(&[1, 1, 3, ring / 2, ring]).max(1);
        let (swaps, gap_one_in) = (random.of(&[0, 0, 3, 20]), random.of(&[5, 16, 200, u64::MAX]));
        Self { random, loans: Vec::new(), loans_max, numbers: Vec::new(), swaps, gap_one_in, queue }
    }

    fn step(&mut self, run: &Run) -> Result<(), Error> {
        if let Some(queue) = self.queue {
            return self.queue_step(run, queue);
        }
        match self.random.below(40) {
            0 => drop(run.watch.call("newest", || run.acquisition.newest())),
            1 => drop(run.watch.call("stats", || run.acquisition.stats())),
            2 if !self.loans.is_empty() => {
                let at = self.random.below(self.loans.len() as u64) as usize;
                run.watch.call("discard", || self.loans.swap_remove(at).discard());
            }
            3 if self.random.one_in(30) => std::thread::sleep(Duration::from_millis(self.random.of(&[1, 30, 250]))),
            4 => return self.commit_nonsense(run),
            _ if self.loans.len() < self.loans_max && (self.loans.is_empty() || self.random.one_in(2)) => {
                return self.acquire(run);
            }
            _ => return self.commit(run),
        }
        Ok(())
    }

    /// However long its queue is, such a driver gets through.
    fn queue_step(&mut self, run: &Run, queue: usize) -> Result<(), Error> {
        if self.random.one_in(300) {
            std::thread::sleep(Duration::from_millis(self.random.of(&[1, 30, 250])));
        }
        let wait = LIMIT / 2;
        self.loans.insert(0, run.watch.call("acquire for a queue", || run.acquisition.acquire_timeout(wait))?);
        if self.loans.len() > queue { self.commit(run) } else { Ok(()) }
    }

    fn acquire(&mut self, run: &Run) -> Result<(), Error> {
        let loan = match self.random.below(3) {
            0 => {
                let wait = Duration::from_millis(self.random.of(&[0, 5, 300]));
                run.watch.call("acquire_timeout", || run.acquisition.acquire_timeout(wait))
            }
            _ => run.watch.call("acquire", || run.acquisition.acquire()),
        };
        match loan {
            Ok(loan) => self.loans.push(loan),
            // A driver that can't get more hands on what it has.
            Err(error) if error.is_ring_full() => return self.commit(run),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The number of the next frame: some are skipped, some come later than others.
    fn number(&mut self, run: &Run) -> u64 {
        while self.numbers.len() as u64 <= self.swaps {
            let number = run.next.fetch_add(1, SeqCst);
            if !self.random.one_in(self.gap_one_in) {
                self.numbers.push(number);
            }
        }
        let at = self.random.below(self.numbers.len() as u64) as usize;
        self.numbers.swap_remove(at)
    }

    fn commit(&mut self, run: &Run) -> Result<(), Error> {
        let Some(mut loan) = self.loans.pop() else { return Ok(()) };
        let number = self.number(run);
        loan[..FRAME].copy_from_slice(&frame(number, FRAME));
        // Before, because the frame may be written before this thread goes on.
        let outcome = run.watch.call("commit", || loan.commit(number, Record::default()));
        match outcome {
            Ok(()) => assert!(run.accepted.lock().unwrap().insert(number), "{number} was taken twice"),
            Err(Error::FrameNumber { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Numbers that came before, or that nobody can mean.
    fn commit_nonsense(&mut self, run: &Run) -> Result<(), Error> {
        let Some(loan) = self.loans.pop() else { return Ok(()) };
        let known = run.accepted.lock().unwrap().iter().next_back().copied();
        let number = match (self.random.below(3), known) {
            (0, Some(number)) => number,
            (1, _) => run.next.load(SeqCst) + (1 << 20) + self.random.below(1 << 40),
            _ => u64::MAX - self.random.below(3),
        };
        match run.watch.call("commit nonsense", || loan.commit(number, Record::default())) {
            Ok(()) => panic!("the number {number} was taken; {known:?} was the last before"),
            Err(Error::FrameNumber { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// One run of this many steps; returns how many calls it made.
fn run(seed: u64, steps: u64) -> u64 {
    let mut random = Random::new(seed);
    let mut config = config(&mut random);
    let (storage, failing) = storage(&mut random);
    let storage_fails = failing.is_some();
    // Several cells of deep chunks may need more.
    while Acquisition::create_in(Arc::new(Memory::new()), config.clone()).is_err() {
        config.ring_bytes *= 2;
    }
    let watch = Arc::new(Watch::default());
    let told = format!("SHARDWRIGHT_LOAN_SEED={seed}: {config:?}");
    let done = watch.guard(told.clone());
    let acquisition = match watch.call("create", || Acquisition::create_in(storage.shared(), config.clone())) {
        Ok(acquisition) => acquisition,
        Err(error) => {
            assert!(storage_fails, "{told}: {error}");
            done.store(true, SeqCst);
            return 1;
        }
    };
    let ring = acquisition.stats().ring_frames;
    let next = AtomicU64::new(0);
    let shared =
        Run { seed, config, acquisition, watch: watch.clone(), accepted: Mutex::default(), next, storage_fails };
    let cameras = 1 + random.below(3);
    let all_queues = random.one_in(3).then(|| random.of(&[ring / 2, ring.saturating_sub(8), ring - 4]).max(1) as u64);
    // With hardly a buffer beside its queues a run waits a second for each layer.
    let steps = if all_queues.is_some_and(|all| all > ring as u64 / 2) { steps.min(90) } else { steps };
    let end = random.of(&[End::Finish, End::Finish, End::Finish, End::Drop, End::Abort]);
    let give_back = random.one_in(2);
    let queue = all_queues.map(|all| (all / cameras) as usize);
    let kept = drive(&shared, cameras, steps / cameras, queue, give_back);
    finish(shared, end, &storage, kept, failing == Some(Call::Put), &told);
    done.store(true, SeqCst);
    watch.count.load(SeqCst)
}

/// Lets the cameras run; returns the loans that they still have.
fn drive(run: &Run, cameras: u64, steps: u64, queue: Option<usize>, give_back: bool) -> Vec<FrameMut> {
    let ring = run.acquisition.stats().ring_frames;
    let together = Barrier::new(cameras as usize);
    let mut kept = Vec::new();
    std::thread::scope(|scope| {
        let threads = (0..cameras).map(|index| {
            let together = &together;
            let drive = move || {
                let mut camera = Camera::new(run.seed * 8 + index, ring, queue);
                for _ in 0..steps {
                    if let Err(error) = camera.step(run) {
                        assert!(run.storage_fails, "SHARDWRIGHT_LOAN_SEED={}: {error}", run.seed);
                        break;
                    }
                }
                if give_back {
                    camera.loans.clear();
                }
                together.wait();
                camera.loans
            };
            std::thread::Builder::new().name(format!("camera {index}")).spawn_scoped(scope, drive).unwrap()
        });
        let threads: Vec<_> = threads.collect();
        kept.extend(threads.into_iter().flat_map(|thread| thread.join().unwrap()));
    });
    if kept.is_empty() {
        // Nobody holds a buffer, so one comes, whatever numbers are waited for.
        let wait = Duration::from_secs(10);
        match run.watch.call("acquire at the end", || run.acquisition.acquire_timeout(wait)) {
            Ok(loan) => loan.discard(),
            Err(error) => assert!(run.storage_fails && !error.is_ring_full(), "seed {}: {error}", run.seed),
        }
    }
    kept
}

fn finish(run: Run, end: End, storage: &Probed, kept: Vec<FrameMut>, puts_fail: bool, told: &str) {
    let Run { acquisition, watch, accepted, config, storage_fails, .. } = run;
    let accepted = accepted.into_inner().unwrap();
    let summary: Option<Summary> = match end {
        End::Finish => Some(match watch.call("finish", || acquisition.finish()) {
            Ok(summary) => summary,
            Err(unfinished) => {
                assert!(storage_fails, "{told}: {unfinished}");
                *unfinished.summary
            }
        }),
        End::Drop => {
            watch.call("drop", || drop(acquisition));
            None
        }
        End::Abort => {
            watch.call("abort", || acquisition.abort());
            None
        }
    };
    for loan in kept {
        let late = watch.call("commit after the end", || loan.commit(1 << 30, Record::default()));
        assert!(late.is_err(), "{told}: a frame was taken after the end");
    }
    if summary.is_none() && accepted.is_empty() {
        // There is nothing to keep.
        return;
    }
    let folder = scratch();
    save(&storage.memory, folder.path());
    let pixels = |number| frame(number, FRAME);
    let documents_failed = puts_fail && summary.as_ref().is_none_or(|summary| summary.error.is_some());
    let books = Books { config: &config, accepted: &accepted, pixels: &pixels, documents_failed };
    let check = || match &summary {
        Some(summary) => books.check(folder.path(), summary),
        None => books.check_recovered(folder.path(), &BTreeSet::new()),
    };
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).is_err() {
        panic!("the books are wrong: {told}");
    }
}

#[test]
fn whatever_drivers_do_calls_return_and_the_books_are_true() {
    let (steps, first) = (setting("SHARDWRIGHT_LOAN_STEPS", 60_000), setting("SHARDWRIGHT_LOAN_SEED", 1));
    let (mut made, mut seed) = (0, first);
    while made < steps {
        let mut random = Random::new(seed ^ 0xABCD);
        let run_steps = random.of(&[30, 300, 1000, 3000]);
        made += run(seed, run_steps).max(1);
        seed += 1;
    }
    eprintln!("{made} calls in {} runs", seed - first);
}
