//! `shardwright run-task`: tasks of a plan, wherever a scheduler wants them.

use shardwright::offline::{RunTasks, TaskName, TaskOptions, TaskOutcome, TaskReceipt};
use shardwright::{Error, ErrorKind};

use crate::args::RunTaskArgs;
use crate::console::{say, tell};
use crate::failure::{Failure, exit};
use crate::interrupt;

/// A scheduler may try again: what failed has not to do with the task.
const TRY_AGAIN: u8 = 75;

/// Runs the command and returns its exit code.
pub(crate) fn run(args: &RunTaskArgs) -> Result<u8, Failure> {
    if args.die_with_parent {
        die_with_parent()?;
    }
    let options = TaskOptions { workers: args.workers, memory_bytes: args.memory };
    let tasks = match RunTasks::open(&args.tasks, &options) {
        Ok(tasks) => tasks,
        Err(error) => return told(args, Err(error)),
    };
    let run = |name| interrupt::stopping(|| tasks.stop(), || tasks.run(name));
    if let Some(id) = &args.id {
        return told(args, run(TaskName::Id(id)));
    }
    let range = args.range.clone().or(args.index.map(|index| index..index.saturating_add(1))).unwrap_or(0..0);
    // The last batch of a plan may be shorter than the others, and a plan may have no task at all.
    let range = range.start..range.end.min(tasks.tasks());
    if range.is_empty() && (range.start > 0 || args.index.is_some()) {
        let has = tasks.tasks();
        return Err(Failure::Usage(format!(
            "{} has {has} tasks; the last has the number {}",
            args.tasks.display(),
            has.saturating_sub(1)
        )));
    }
    let mut worst = exit::FINE;
    for index in range {
        let code = told(args, run(TaskName::Index(index)))?;
        // What can't be mended by trying again is what somebody must know.
        worst = if worst == exit::FINE || worst == TRY_AGAIN && code != exit::FINE { code } else { worst };
    }
    Ok(worst)
}

/// Says what became of a task; of one that failed, which exit code it has.
fn told(args: &RunTaskArgs, ended: Result<TaskReceipt, Error>) -> Result<u8, Failure> {
    let receipt = match ended {
        Ok(receipt) => receipt,
        Err(Error::Stopped) => return Err(Error::Stopped.into()),
        Err(error) => {
            let code = code_of(&error);
            let failure = match error {
                Error::Exists { path, .. } => Failure::exists_or_work(&path, "no task has made it; remove it"),
                error => error.into(),
            };
            tell(format_args!("error: {failure}"));
            if args.report.json {
                let mut json = failure.to_json(Some(&args.tasks));
                json["exit_code"] = code.into();
                say(&format!("{}\n", serde_json::json!({ "error": json })))?;
            }
            return Ok(code);
        }
    };
    if args.report.json {
        let json = serde_json::to_string(&receipt).expect("a receipt holds only numbers and strings");
        say(&format!("{json}\n"))?;
    } else if !args.report.quiet {
        let what = match receipt.outcome {
            TaskOutcome::Written => "written",
            TaskOutcome::Found => "was there",
            TaskOutcome::Empty => "holds nothing, and is no file",
            TaskOutcome::Read => "read",
            _ => "is in the result, which is there",
        };
        say(&format!("{}: {what}\n", receipt.id))?;
    }
    Ok(exit::FINE)
}

/// 75 for what another time or another machine may not have, such as a full disk; 3 for what is wrong with the input.
fn code_of(error: &Error) -> u8 {
    use std::io::ErrorKind::{IsADirectory, NotADirectory, PermissionDenied, ReadOnlyFilesystem};
    match (error, error.kind()) {
        // These no time mends.
        (Error::Io { source, .. }, _)
            if [IsADirectory, NotADirectory, PermissionDenied, ReadOnlyFilesystem].contains(&source.kind()) =>
        {
            exit::FAILURE
        }
        (_, ErrorKind::Corrupt | ErrorKind::Unsupported | ErrorKind::NotFound | ErrorKind::Conflict) => exit::INPUT,
        (Error::Codec { .. }, _) => exit::INPUT,
        (_, ErrorKind::InvalidArgument) => exit::USAGE,
        (Error::Io { .. }, _) | (_, ErrorKind::Locked) => TRY_AGAIN,
        _ => exit::FAILURE,
    }
}

/// Lets the system kill this process when its parent ends, also when that has ended already.
fn die_with_parent() -> Result<(), Failure> {
    let parent = rustix::process::getppid();
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| Failure::Run(format!("can't ask to be killed with the parent process: {error}")))?;
    if rustix::process::getppid() != parent {
        return Err(Failure::Interrupted("the process that has started this one has ended".to_owned()));
    }
    Ok(())
}
