//! The words of `shardwright create`.

use std::path::PathBuf;

use clap::Args;
use shardwright::PartBy;

use super::groups::ReportArgs;
use super::help;
use super::values::{one_of, within};

/// Create a dataset that several processes are to write, each a part of its shards, without any frame
#[derive(Debug, Args)]
#[command(after_help = help::create())]
pub(crate) struct CreateArgs {
    /// The dataset to create
    pub(crate) path: PathBuf,
    /// The configuration that all parts have in common: JSON, as programs give it, or TOML where the name ends in .toml
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// How many processes write it
    #[arg(long, value_name = "N", value_parser = within(1_u32..=4096))]
    pub(crate) parts: u32,
    /// What each gets: rows of shards along the first dimension in turn, or a band of columns, or rows, of the frame
    #[arg(long, value_name = "time|frame", default_value = "time", value_parser = one_of(PartBy::ALL, PartBy::name))]
    pub(crate) by: PartBy,
    /// Replace a dataset that is in the way
    #[arg(long)]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}
