//! `shardwright plan`: an operation as tasks for many machines.

use std::io::{BufWriter, stdout};

use shardwright::Error;
use shardwright::offline::TaskPlan;
use shardwright::words::count;

use crate::args::PlanArgs;
use crate::console::{tell, tell_notes};
use crate::failure::{Failure, with_options};
use crate::place::{refuse_unusable, refuse_zip};
use crate::repack::options;

/// Runs the command.
pub(crate) fn run(args: &PlanArgs) -> Result<(), Failure> {
    let args = args.operation.repack();
    let Some(output) = args.output.as_deref() else {
        let reason = "tasks make a new dataset: name the OUTPUT behind the dataset";
        return Err(Failure::Usage(reason.to_owned()));
    };
    refuse_zip(output).and_then(|()| refuse_unusable(output))?;
    let plan = TaskPlan::repack(&args.path, output, &options(args)?).map_err(|error| match error {
        Error::Exists { path, .. } => Failure::exists_or_work(&path, "choose another path, or remove it"),
        error => error.into(),
    })?;
    let notes: Vec<_> = plan.notes()?.iter().map(|note| with_options(note)).collect();
    tell_notes(args.report.quiet, &notes);
    plan.write(&mut BufWriter::with_capacity(1 << 16, stdout().lock()))?;
    if !args.report.quiet {
        tell(format_args!("{}: {}", output.display(), count(plan.tasks(), "task")));
    }
    Ok(())
}
