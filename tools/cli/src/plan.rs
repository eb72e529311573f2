//! `shardwright plan`: an operation as tasks for many machines.

use std::fs;
use std::io::{BufWriter, stdout};
use std::path::Path;

use shardwright::Error;
use shardwright::offline::TaskPlan;
use shardwright::words::count;

use crate::args::{ManifestArgs, PlanArgs, PlanOperation, PyramidArgs, RepackArgs};
use crate::console::{tell, tell_notes};
use crate::failure::{Failure, with_options};
use crate::place::{refuse_unusable, refuse_zip};
use crate::{manifest, pyramid, repack};

/// Runs the command.
pub(crate) fn run(args: &PlanArgs) -> Result<(), Failure> {
    let (plan, about, quiet) = match &args.operation {
        PlanOperation::Repack(args) => (of_repack(args)?, args.output.as_deref(), args.report.quiet),
        PlanOperation::Verify(args) => (TaskPlan::verify(&args.path)?, Some(&*args.path), args.report.quiet),
        PlanOperation::Pyramid(args) => (of_pyramid(args)?, Some(&*args.path), args.report.quiet),
        PlanOperation::Manifest(args) => (of_manifest(args)?, Some(&*args.path), args.report.quiet),
    };
    // Where the shell writes what is printed.
    if let Some(file) = fs::read_link("/proc/self/fd/1").ok().filter(|file| file.is_file()) {
        plan.check_place(file)?;
    }
    let notes: Vec<_> = plan.notes()?.iter().map(|note| with_options(note)).collect();
    tell_notes(quiet, &notes);
    plan.write(&mut BufWriter::with_capacity(1 << 16, stdout().lock()))?;
    if !quiet {
        tell(format_args!("{}: {}", about.unwrap_or(Path::new("")).display(), count(plan.tasks(), "task")));
    }
    Ok(())
}

fn of_repack(args: &RepackArgs) -> Result<TaskPlan, Failure> {
    let Some(output) = args.output.as_deref() else {
        let reason = "tasks make a new dataset: name the OUTPUT behind the dataset";
        return Err(Failure::Usage(reason.to_owned()));
    };
    refuse_zip(output).and_then(|()| refuse_unusable(output))?;
    TaskPlan::repack(&args.path, output, &repack::options(args)?).map_err(|error| match error {
        Error::Exists { path, .. } => Failure::exists_or_work(&path, "choose another path, or remove it"),
        error => error.into(),
    })
}

fn of_pyramid(args: &PyramidArgs) -> Result<TaskPlan, Failure> {
    let options = pyramid::options(args);
    TaskPlan::pyramid(&args.path, &options).map_err(|error| pyramid::in_the_way(error, args, &options))
}

fn of_manifest(args: &ManifestArgs) -> Result<TaskPlan, Failure> {
    let (out, options) = manifest::asked(args)?;
    TaskPlan::manifest(&args.path, Some(&out), &options).map_err(|error| manifest::about(error, &args.path))
}
