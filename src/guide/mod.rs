//! Pages for users: how to configure, what is promised, what was measured, what stands in the files.

#[doc = include_str!("configuration.md")]
pub mod configuration {}

#[doc = include_str!("durability.md")]
pub mod durability {}

#[doc = include_str!("performance.md")]
pub mod performance {}

#[doc = include_str!("command_line.md")]
pub mod command_line {}

#[doc = include_str!("recordings.md")]
pub mod recordings {}

#[doc = include_str!("c.md")]
pub mod c {}

#[doc = include_str!("python.md")]
pub mod python {}

#[doc = include_str!("async.md")]
pub mod asynchronous {}

#[doc = include_str!("formats.md")]
pub mod formats {}

#[cfg(feature = "offline")]
#[doc = include_str!("store.md")]
pub mod store {}

#[doc = include_str!("machines.md")]
pub mod machines {}

#[doc = include_str!("development.md")]
pub mod development {}
