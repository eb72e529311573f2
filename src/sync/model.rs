//! A bounded queue under loom: one lock, whose release by the sender and acquisition by the receiver is the hand-over
//! that crossbeam promises. Only the calls that the engine makes are there.

use ::loom::sync::{Arc, Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;

struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    capacity: usize,
}

struct State<T> {
    items: VecDeque<T>,
    senders: usize,
    receivers: usize,
}

pub(crate) struct Sender<T>(Arc<Queue<T>>);
pub(crate) struct Receiver<T>(Arc<Queue<T>>);

/// An item that could not be sent.
#[derive(Debug)]
pub(crate) struct Unsent<T>(T);

impl<T> Unsent<T> {
    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotReceived {
    Empty,
    Disconnected,
}

impl NotReceived {
    pub(crate) fn is_disconnected(&self) -> bool {
        *self == Self::Disconnected
    }
}

pub(crate) fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let state = State { items: VecDeque::new(), senders: 1, receivers: 1 };
    let queue = Arc::new(Queue { state: Mutex::new(state), changed: Condvar::new(), capacity });
    (Sender(queue.clone()), Receiver(queue))
}

impl<T> Sender<T> {
    pub(crate) fn try_send(&self, item: T) -> Result<(), Unsent<T>> {
        let mut state = self.0.state.lock().unwrap();
        if state.items.len() == self.0.capacity || state.receivers == 0 {
            return Err(Unsent(item));
        }
        state.items.push_back(item);
        self.0.changed.notify_all();
        Ok(())
    }

    pub(crate) fn send(&self, item: T) -> Result<(), Unsent<T>> {
        let mut state = self.0.state.lock().unwrap();
        while state.items.len() == self.0.capacity && state.receivers > 0 {
            state = self.0.changed.wait(state).unwrap();
        }
        drop(state);
        self.try_send(item)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.state.lock().unwrap().senders += 1;
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().senders -= 1;
        self.0.changed.notify_all();
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.0.state.lock().unwrap().receivers += 1;
        Self(self.0.clone())
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().receivers -= 1;
        self.0.changed.notify_all();
    }
}

impl<T> Receiver<T> {
    pub(crate) fn try_recv(&self) -> Result<T, NotReceived> {
        let mut state = self.0.state.lock().unwrap();
        match state.items.pop_front() {
            Some(item) => {
                self.0.changed.notify_all();
                Ok(item)
            }
            None if state.senders == 0 => Err(NotReceived::Disconnected),
            None => Err(NotReceived::Empty),
        }
    }

    pub(crate) fn recv(&self) -> Result<T, NotReceived> {
        let mut state = self.0.state.lock().unwrap();
        while state.items.is_empty() && state.senders > 0 {
            state = self.0.changed.wait(state).unwrap();
        }
        drop(state);
        match self.try_recv() {
            // Another receiver was faster.
            Err(NotReceived::Empty) => self.recv(),
            other => other,
        }
    }

    /// A model has no clock: the time is always up at once.
    pub(crate) fn recv_timeout(&self, _timeout: Duration) -> Result<T, NotReceived> {
        self.try_recv()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.state.lock().unwrap().items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
