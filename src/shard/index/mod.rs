//! The tables that make a shard readable, one form a family of dialects.

pub(crate) mod minishards;
pub(crate) mod table;
