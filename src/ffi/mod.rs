//! The C interface: `include/shardwright.h`, which is generated from these files.
//!
//! Each function is a few lines of etiquette round one Rust call: panics stop here, pointers are checked, results are
//! set only on success, a code is returned, and the error's text waits in [`sw_last_error`](status::sw_last_error).
//!
//! ```text
//! status       codes, error text, the boundary at which panics stop
//! pointer      what a caller's pointers must be before they are followed
//! handle       handles that can be told from anything else, without following them
//! config       the configuration as a struct or as a document
//! names        what C calls the fields that errors name
//! memory       what a configuration will need
//! own_buffers  the caller's own memory as the ring
//! storage      the caller's own functions as a storage
//! dataset      several images
//! together     many of them begun or ended at once
//! limits       how long a call may wait
//! registry     the acquisitions of the process
//! record       what comes with a frame beside its pixels
//! run          create, acquire, commit, discard, append
//! interleaved  the same of interleaved colours
//! roi          the same of frames that are smaller than the image
//! loans        which buffers the caller has, and whether it may give them back
//! events       what happens in a run, told to those who wait
//! lent         handles of acquisitions that Rust code owns
//! end_state    how far the end of a run has come
//! finish       finish, abort, free
//! report       counters, latencies, the summary
//! callback     in whose callbacks a thread is, and what it can't wait for there
//! log          log lines and closed shards, told to the caller's functions
//! ```
#![allow(non_camel_case_types, clippy::missing_safety_doc)]

mod callback;
pub mod config;
pub mod dataset;
mod end_state;
pub mod events;
pub mod finish;
mod handle;
pub mod interleaved;
pub mod lent;
pub mod limits;
mod loans;
pub mod log;
pub mod memory;
mod names;
mod own_buffers;
mod pointer;
pub mod record;
pub mod registry;
pub mod report;
pub mod roi;
pub mod run;
pub mod status;
pub mod storage;
pub mod together;
