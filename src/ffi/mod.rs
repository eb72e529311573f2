//! The C interface: `include/shardwright.h`, which is generated from these files.
//!
//! Each function is a few lines of etiquette round one Rust call: panics stop here, pointers are checked, results are
//! set only on success, a code is returned, and the error's text waits in [`sw_last_error`](status::sw_last_error).
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
