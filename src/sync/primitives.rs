//! What the others are made of: the standard library's and crossbeam's, or loom's.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic;

#[cfg(loom)]
pub(crate) use ::loom::sync::atomic;

#[cfg(not(loom))]
pub(crate) use crossbeam_channel::{Receiver, Sender, bounded};

#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(loom)]
pub(crate) use super::model::{Receiver, Sender, bounded};

#[cfg(loom)]
pub(crate) use ::loom::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
