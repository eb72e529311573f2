//! Pages for users.

#[doc = include_str!("formats.md")]
pub mod formats {}
