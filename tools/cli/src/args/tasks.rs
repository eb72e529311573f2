//! The words of `shardwright plan`, `run-task` and `finish`.

use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::groups::{ReportArgs, TrustArgs};
use super::help;
use super::manifest::ManifestArgs;
use super::pyramid::PyramidArgs;
use super::repack::RepackArgs;
use super::values::{FROM_0, bytes, number};
use super::verify::VerifyArgs;

/// Cut an operation into tasks for many machines, one for each shard that is made or read, and print them
#[derive(Debug, Args)]
#[command(after_help = help::plan())]
pub(crate) struct PlanArgs {
    #[command(subcommand)]
    pub(crate) operation: PlanOperation,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanOperation {
    Repack(Box<RepackArgs>),
    Verify(VerifyArgs),
    Pyramid(PyramidArgs),
    Manifest(ManifestArgs),
}

impl PlanOperation {
    pub(super) fn report(&self) -> ReportArgs {
        match self {
            Self::Repack(args) => args.report,
            Self::Verify(args) => args.report,
            Self::Pyramid(args) => args.report,
            Self::Manifest(args) => args.report,
        }
    }

    pub(super) fn trust(&self) -> TrustArgs {
        match self {
            Self::Repack(args) => args.trust,
            Self::Verify(args) => args.trust,
            Self::Pyramid(args) => args.trust,
            Self::Manifest(args) => args.trust,
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Repack(args) => &args.path,
            Self::Verify(args) => &args.path,
            Self::Pyramid(args) => &args.path,
            Self::Manifest(args) => &args.path,
        }
    }
}

/// Run tasks of a file that `plan` has written: any number of these may run at once, on any machine
#[derive(Debug, Args)]
#[command(after_help = help::run_task())]
#[command(group(clap::ArgGroup::new("which").required(true)))]
pub(crate) struct RunTaskArgs {
    /// The file of tasks
    pub(crate) tasks: PathBuf,
    /// The task with this number, from 0
    #[arg(long, value_name = "N", group = "which", value_parser = number::<u64>(FROM_0))]
    pub(crate) index: Option<u64>,
    /// The tasks from A on that come before B: both are needed, and B itself is not run
    #[arg(long, value_name = "A:B", group = "which", value_parser = range)]
    pub(crate) range: Option<Range<u64>>,
    /// The task with this id
    #[arg(long, value_name = "ID", group = "which")]
    pub(crate) id: Option<String>,
    /// Threads that read, compress and compare; 0: one for each core
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<usize>(FROM_0), help_heading = "Work")]
    pub(crate) workers: usize,
    /// Memory for pixels and chunks on their way
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = bytes, help_heading = "Work")]
    pub(crate) memory: u64,
    /// Be killed when the process that has started this one ends
    #[arg(long, help_heading = "Work")]
    pub(crate) die_with_parent: bool,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}

/// Make the result of what all tasks of a plan have made or found, or put the parts of a run together
#[derive(Debug, Args)]
#[command(after_help = help::finish())]
pub(crate) struct FinishArgs {
    /// The file of tasks, or the dataset that `create` has made
    pub(crate) tasks: PathBuf,
    /// Of a run in parts: finish without those that never came or did not end, whose frames are then missing, and
    /// where shards of a part are gone
    #[arg(long)]
    pub(crate) incomplete: bool,
    /// Threads that look at shards, and that check what no task has; 0: one for each core
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number::<usize>(FROM_0), help_heading = "Work")]
    pub(crate) workers: usize,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let wrong = |what: &str| format!("{text:?} {what}; 0:100 are the first hundred tasks, 0 to 99");
    let numbers = || text.split_once(':').map(|(first, end)| Some((first.parse().ok()?, end.parse().ok()?)));
    match numbers() {
        None => Err(wrong("has no colon between the first task and the one behind the last")),
        Some(None) => Err(wrong("is not two numbers with a colon between them")),
        Some(Some((first, end))) if first >= end => Err(wrong("ends before it begins")),
        Some(Some((first, end))) => Ok(first..end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_range_is_said() {
        assert_eq!(range("5:8"), Ok(5..8));
        let wrong = [
            ("5", "has no colon"),
            ("0..3", "has no colon"),
            ("5:", "is not two numbers"),
            (":4", "is not two numbers"),
            ("5:3", "ends before it begins"),
            ("3:3", "ends before it begins"),
        ];
        for (text, what) in wrong {
            assert!(range(text).unwrap_err().contains(what), "{text}");
        }
    }
}
