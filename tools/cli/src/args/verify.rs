//! The words of `shardwright verify`.

use std::path::PathBuf;

use clap::Args;

use super::groups::{ReportArgs, TrustArgs};
use super::help;

/// Check all of a dataset that can be checked: documents, indexes, checksums, decoding, slot headers
#[derive(Debug, Args)]
#[command(after_help = help::verify())]
pub(crate) struct VerifyArgs {
    /// The dataset, or an array of one
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}
