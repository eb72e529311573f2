//! Who wants to hear of what happens in a run.

use super::Acquisition;
use crate::error::{Error, Result};
use crate::events::{EventHandle, Events, call_on_events};

impl Acquisition {
    /// A descriptor for event loops, which becomes readable when one of `events` happens.
    ///
    /// `ring_mark`: from how many taken buffers on [`Events::RING_HIGH`] comes; 0: three quarters of
    /// [`ring_frames`](crate::Stats::ring_frames). When these become fewer than the mark, because other images begin,
    /// it comes when all of them are taken. As long as nothing that is watched happens, it costs a commit nothing; no
    /// system call is made but for an edge.
    ///
    /// ```
    /// # use shardwright::{Acquisition, Config, Dim, Events, Memory};
    /// # let config = Config { dims: vec![Dim::time(None), Dim::y(4), Dim::x(4)], ..Config::default() };
    /// # let acquisition = Acquisition::create_in(std::sync::Arc::new(Memory::new()), config)?;
    /// let events = acquisition.watch(Events::BUFFER_FREE | Events::ERROR, 0)?;
    /// for number in 0..1_000 {
    ///     let frame = loop {
    ///         match acquisition.try_acquire() {
    ///             Err(error) if error.is_ring_full() => drop(events.wait(None)?),
    ///             other => break other?,
    ///         }
    ///     };
    ///     frame.commit(number, Default::default())?;
    /// }
    /// # acquisition.finish()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a mark beyond `ring_frames`, [`Error::Io`] if the process has no descriptor left.
    pub fn watch(&self, events: Events, ring_mark: usize) -> Result<EventHandle> {
        EventHandle::new(&self.engine, events, ring_mark)
    }

    /// Has `call` told of each of `events`, for programs that have an event loop of another kind; `ring_mark` is as for
    /// [`watch`](Self::watch). It is called with what has happened before, and then at every edge, by the thread that
    /// makes it happen, which may be one that acquires, commits or drops a frame: it must not wait. A panic of it is
    /// told to the `tracing` subscriber. It is dropped when the run has ended and it was told so. What it owns lives
    /// until then, so a run whose last handle it owns never ends by itself: give it a [`Weak`](std::sync::Weak).
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a mark beyond `ring_frames`.
    pub fn on_events(
        &self,
        events: Events,
        ring_mark: usize,
        call: impl Fn(Events) + Send + Sync + 'static,
    ) -> Result<()> {
        call_on_events(&self.engine, events, ring_mark, call)
    }

    /// The first error of the run, if there was one: what every call tells from then on.
    pub fn first_error(&self) -> Option<Error> {
        self.engine.first_error.get().cloned()
    }

    /// The number of the first frame that the [first error](Self::first_error) is about; `None` if there was none, or
    /// if it is about no certain frame, as a document that could not be written.
    pub fn first_error_frame(&self) -> Option<u64> {
        self.engine.first_error_frame()
    }
}
