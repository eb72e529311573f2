//! `shardwright finish`: the result of what many processes have made.

use serde_json::Value;
use shardwright::Error;
use shardwright::offline::{FinishTasks, TasksReport, TasksSummary};
use shardwright::words::count;

use crate::args::FinishArgs;
use crate::console::{say, tell_notes};
use crate::failure::{Failure, exit, name_options};
use crate::report::decimal;
use crate::{interrupt, manifest, parts, pyramid, verify};

/// What is told of a check whose tasks are not looked at.
const TOLD_BEFORE: &str = "was finished before, and this is what was found then; plan again to check again";

/// Runs the command and returns its exit code.
pub(crate) fn run(args: &FinishArgs) -> Result<u8, Failure> {
    if args.tasks.is_dir() {
        return parts::finish(args);
    }
    if args.incomplete {
        let reason = "--incomplete is for a run in parts; tasks whose shards are missing can be run again";
        return Err(Failure::Usage(reason.to_owned()));
    }
    let in_the_way = |error: Error| match error {
        Error::Exists { path, .. } => Failure::exists_or_work(&path, "it is not what the tasks make; remove it"),
        error => error.into(),
    };
    let finish = FinishTasks::new(&args.tasks, args.workers).map_err(in_the_way)?;
    let mut summary = interrupt::stopping(|| finish.stop(), || finish.run()).map_err(in_the_way)?;
    match &mut summary.report {
        Some(TasksReport::Verification(told)) => {
            name_options(told.findings.iter_mut().map(|finding| &mut finding.what))
        }
        Some(TasksReport::Manifest(told)) => name_options(&mut told.notes),
        _ => {}
    }
    if args.report.json {
        say(&format!("{}\n", to_json(&summary)))?;
    } else if !args.report.quiet || summary.missing > 0 {
        match &summary.report {
            Some(TasksReport::Manifest(told)) => tell_notes(summary.already_done, &told.notes),
            Some(TasksReport::Verification(_)) => tell_notes(!summary.already_done, &[TOLD_BEFORE.to_owned()]),
            _ => {}
        }
        say(&sentence(&summary, finish.only_reads()))?;
    }
    Ok(match &summary.report {
        Some(TasksReport::Verification(told)) => verify::code_of(told),
        _ if summary.missing > 0 => exit::FAILURE,
        _ => exit::FINE,
    })
}

/// What the operation's own command tells, and what became of the tasks.
fn to_json(summary: &TasksSummary) -> Value {
    let mut json = serde_json::to_value(summary).expect("it holds only numbers, strings and lists");
    let report = json.as_object_mut().and_then(|json| json.remove("report"));
    for (key, value) in report.iter().filter_map(Value::as_object).flatten() {
        json[key] = value.clone();
    }
    json
}

/// `only_reads`: tasks make no shards.
fn sentence(summary: &TasksSummary, only_reads: bool) -> String {
    let TasksSummary { tasks, missing, missing_ids, missing_tasks, redone, shards, bytes, already_done, .. } = summary;
    match &summary.report {
        Some(TasksReport::Verification(told)) => return verify::to_text(told),
        Some(TasksReport::Pyramid(told)) => return format!("{}\n", pyramid::sentence(told, "")),
        Some(TasksReport::Manifest(told)) if !already_done => return format!("{}\n", manifest::sentence(told)),
        _ => {}
    }
    if *already_done {
        return "is there already; nothing to do\n".to_owned();
    }
    if *missing == 0 {
        let redone = if *redone > 0 { format!(", {redone} of them made twice") } else { String::new() };
        return format!("{}{redone}, {}\n", count(*shards, "shard"), decimal(*bytes));
    }
    let file = match missing_tasks {
        Some(path) => format!("they are the tasks of {}", path.display()),
        None => "a file of their tasks could not be written beside that of all".to_owned(),
    };
    let names: String = missing_ids.iter().map(|id| format!("  {id}\n")).collect();
    let more = if missing_ids.len() as u64 == *missing { "" } else { "  …\n" };
    let what = match only_reads {
        true => "shards are not read yet, or what was found in them is missing",
        false => "shards are missing",
    };
    format!("{missing} of {tasks} {what}; {file}:\n{names}{more}")
}
