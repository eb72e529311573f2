//! Waiting for what happens in a run, without asking again and again.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use crate::engine::Engine;
use crate::error::{Contained, Error, Result, caught_call, logged};
use crate::fs::bell::{AsFd, AsRawFd, Bell, BorrowedFd, RawFd};
use crate::sync::{Pending, Watcher, Watchers, event};

/// What can happen in a run, one or several.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Events(u32);

impl Events {
    /// None.
    pub const NONE: Self = Self(0);
    /// A frame buffer became free after a call had found none, or no call will get one any more, because of the run's
    /// first error or because it takes no more frames: acquire until [`Error::RingFull`], then wait.
    pub const BUFFER_FREE: Self = Self(event::BUFFER_FREE);
    /// As many frame buffers are taken (on loan or committed, or what other images have of a ring that they share) as
    /// the mark says that was given. It comes again when not more than half as many were taken in between.
    pub const RING_HIGH: Self = Self(event::RING_HIGH);
    /// The run has its [first error](crate::Acquisition::first_error).
    pub const ERROR: Self = Self(event::ERROR);
    /// A checkpoint or a closed shard made frames durable: [`Stats::frames_durable`](crate::Stats::frames_durable).
    pub const DURABLE: Self = Self(event::DURABLE);
    /// A shard is closed: [`Stats::shards_closed`](crate::Stats::shards_closed).
    pub const SHARD_CLOSED: Self = Self(event::SHARD_CLOSED);
    /// The run has ended; nothing more happens. Handles tell of it whether it was asked for or not.
    pub const ENDED: Self = Self(event::ENDED);
    /// All of them.
    pub const ALL: Self = Self(event::ALL);

    const NAMES: [(Self, &'static str); 6] = [
        (Self::BUFFER_FREE, "BUFFER_FREE"),
        (Self::RING_HIGH, "RING_HIGH"),
        (Self::ERROR, "ERROR"),
        (Self::DURABLE, "DURABLE"),
        (Self::SHARD_CLOSED, "SHARD_CLOSED"),
        (Self::ENDED, "ENDED"),
    ];

    /// Whether all of `other` are among these.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether it is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[cfg(feature = "capi")]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// `None` if a bit has no meaning.
    #[cfg(feature = "capi")]
    pub(crate) const fn of_bits(bits: u32) -> Option<Self> {
        if bits & !event::ALL == 0 { Some(Self(bits)) } else { None }
    }
}

impl BitOr for Events {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Events {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Self::NAMES.iter().filter(|(event, _)| self.contains(*event)).map(|(_, name)| *name);
        f.write_str(names.next().unwrap_or("NONE"))?;
        names.try_for_each(|name| write!(f, " | {name}"))
    }
}

/// A descriptor that is readable while something has happened that was not [taken](Self::take) yet: for `poll`, `epoll`
/// and every event loop that takes descriptors (`tokio::io::unix::AsyncFd`, `async_io::Async`), or to
/// [wait](Self::wait) for alone. From [`Acquisition::watch`](crate::Acquisition::watch).
///
/// It tells of edges: [`take`](Self::take) first, then look at everything that was taken until there is nothing to do,
/// then wait again. Nothing that happens in between is missed. However often something happens between two calls of
/// `take`, it is one system call for whoever makes it happen. Each thread or task that waits wants a handle of its own:
/// what one takes is gone for all others. The end of the run alone is told to all that wait.
///
/// The descriptor belongs to the handle, which may outlive the run. A child after a fork shares the descriptor with its
/// parent, and must not use it.
pub struct EventHandle {
    /// Not the engine: a handle that outlives its run shall not keep the ring.
    watchers: Arc<Watchers>,
    inbox: Arc<Inbox>,
    watcher: Arc<Watcher>,
}

struct Inbox {
    pending: Pending,
    bell: Bell,
    /// The run has ended; told again to whoever would wait.
    ended: AtomicBool,
    /// Nobody shall wait any more.
    closed: AtomicBool,
    waiting: AtomicUsize,
}

/// A thread's stay in [`EventHandle::wait`].
struct Waiting<'a>(&'a Inbox);

impl<'a> Waiting<'a> {
    fn new(inbox: &'a Inbox) -> Self {
        // SeqCst: meets the one in `drop`. Who comes is counted before it looks for the end, and who leaves has seen
        // the end before it looks who is there.
        inbox.waiting.fetch_add(1, SeqCst);
        Self(inbox)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let others = self.0.waiting.fetch_sub(1, SeqCst) > 1;
        // This one may have silenced the bell before the others heard it, and it is the last that rings.
        if others && (self.0.ended.load(SeqCst) || self.0.closed.load(SeqCst)) {
            self.0.bell.ring();
        }
    }
}

impl EventHandle {
    pub(crate) fn new(engine: &Arc<Engine>, events: Events, ring_mark: usize) -> Result<Self> {
        let bell = Bell::new().map_err(|error| Error::io("get a descriptor for", "events", error))?;
        let (pending, ended, closed, waiting) = Default::default();
        let inbox = Arc::new(Inbox { pending, bell, ended, closed, waiting });
        let rings = inbox.clone();
        // The end is told in any case: nobody shall wait for what can't happen any more.
        let watcher = watch(engine, events | Events::ENDED, ring_mark, move |happened| {
            if happened & event::ENDED != 0 {
                rings.ended.store(true, SeqCst);
            }
            if rings.pending.add(happened) {
                rings.bell.ring();
            }
        })?;
        Ok(Self { watchers: engine.ring.watchers.clone(), inbox, watcher })
    }

    /// What has happened since the last call, at first what had happened before: a buffer that is free, an error,
    /// frames that are durable, shards that are closed. Never waits.
    pub fn take(&self) -> Events {
        Events(self.inbox.pending.take(|| self.inbox.bell.silence()))
    }

    /// As [`take`](Self::take), as soon as there is something, or the time is up. `None`: waits for ever. It never
    /// waits beyond the end of the run: a call that would have to gets [`Events::ENDED`], each time.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system can't wait.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<Events> {
        let start = std::time::Instant::now();
        let _waiting = Waiting::new(&self.inbox);
        loop {
            let happened = self.take();
            let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
            if !happened.is_empty() || left == Some(Duration::ZERO) || self.inbox.closed.load(SeqCst) {
                return Ok(happened);
            }
            // Whoever sees the end sees what happened before it.
            if self.inbox.ended.load(SeqCst) {
                let last = self.take();
                return Ok(if last.is_empty() { Events::ENDED } else { last });
            }
            self.inbox.bell.wait(left).map_err(|error| Error::io("wait for", "events", error))?;
        }
    }
}

#[cfg(feature = "capi")]
impl EventHandle {
    /// Whoever waits returns, and so does whoever will.
    pub(crate) fn close(&self) {
        self.inbox.closed.store(true, SeqCst);
        self.inbox.bell.ring();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.inbox.closed.load(SeqCst)
    }
}

impl Drop for EventHandle {
    fn drop(&mut self) {
        self.watchers.remove(&self.watcher);
    }
}

impl AsFd for EventHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inbox.bell.as_fd()
    }
}

impl AsRawFd for EventHandle {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl fmt::Debug for EventHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventHandle").field("descriptor", &self.as_raw_fd()).finish_non_exhaustive()
    }
}

/// Has `call` told of events from now on, by whoever makes them happen.
pub(crate) fn call_on_events(
    engine: &Arc<Engine>,
    events: Events,
    ring_mark: usize,
    call: impl Fn(Events) + Send + Sync + 'static,
) -> Result<()> {
    let call = Contained::<dyn Fn(Events) + Send + Sync>::new(Box::new(call));
    let guarded = move |happened| {
        if let Err(error) = caught_call(|| call(Events(happened))) {
            let what = "a function that is told of events panicked";
            logged(|| tracing::error!(target: "shardwright::acquisition", %error, "{what}"));
        }
    };
    watch(engine, events, ring_mark, guarded).map(drop)
}

fn watch(
    engine: &Arc<Engine>,
    events: Events,
    ring_mark: usize,
    call: impl Fn(u32) + Send + Sync + 'static,
) -> Result<Arc<Watcher>> {
    let frames = engine.ring.frames();
    if ring_mark > frames {
        let possible = format!("1 to {frames} are possible, or 0 for three quarters");
        let reason = format!("the ring has {frames} buffers for this run; {possible}");
        return Err(Error::config("ring_mark", ring_mark, reason));
    }
    let watcher = Arc::new(Watcher::new(events.0, ring_mark, call));
    engine.ring.watchers.add(watcher.clone(), || happened(engine));
    if events.0 & (event::BUFFER_FREE | event::RING_HIGH) != 0 {
        engine.look_at_the_ring();
    }
    Ok(watcher)
}

/// What has happened in a run until now. The level of the ring is asked for separately.
fn happened(engine: &Engine) -> u32 {
    let counters = &engine.counters;
    let bit = |is_so: bool, event| if is_so { event } else { 0 };
    let is_in_vain = || engine.first_error.get().is_some() || engine.gate.is_closed();
    bit(engine.ring.has_free_or_is_awaited() || is_in_vain(), event::BUFFER_FREE)
        | bit(engine.first_error.get().is_some(), event::ERROR)
        | bit(counters.frames_durable.load(Relaxed) > 0, event::DURABLE)
        | bit(counters.shards_closed.load(Relaxed) > 0, event::SHARD_CLOSED)
        | bit(engine.ended.load(Acquire), event::ENDED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_say_their_names() {
        let two = Events::DURABLE | Events::ERROR;
        assert_eq!(format!("{two:?} {:?}", Events::NONE), "ERROR | DURABLE NONE");
        assert!(two.contains(Events::ERROR) && !two.contains(Events::ENDED | Events::ERROR));
        assert!(Events::NAMES.iter().fold(Events::NONE, |all, (event, _)| all | *event) == Events::ALL);
    }
}
