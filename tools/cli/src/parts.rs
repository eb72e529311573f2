//! `shardwright create`, and `shardwright finish` of what it has made: one run that several processes write.

use std::fs;
use std::path::Path;

use serde_json::json;
use shardwright::offline::{FinishParts, FinishPartsOptions, PartFinished, PartState, PartsFinished};
use shardwright::words::count;
use shardwright::{Config, Error, PartBy};

use crate::args::{CreateArgs, FinishArgs};
use crate::console::{say, tell_notes};
use crate::failure::{Failure, exit, with_options};
use crate::interrupt;
use crate::place::refuse_unusable;
use crate::report::{joined, missing_text};

/// Creates a run and returns the exit code.
pub(crate) fn create(args: &CreateArgs) -> Result<u8, Failure> {
    refuse_unusable(&args.path)?;
    let config = configuration(&args.config)?;
    let config = Config { overwrite: args.overwrite || config.overwrite, ..config };
    let regions = shardwright::create_parts(&args.path, config, args.parts, args.by);
    let regions = regions.map_err(|error| of_fields(error, args))?;
    if args.report.json {
        let parts = regions.iter().enumerate().map(|(index, [rows, columns])| {
            json!({"index": index, "rows": [rows.start, rows.end], "columns": [columns.start, columns.end]})
        });
        let told = json!({"parts": parts.collect::<Vec<_>>(), "by": args.by});
        say(&format!("{told}\n"))?;
    } else if !args.report.quiet {
        let mut text = format!("{} by {}\n", count(regions.len(), "part"), args.by);
        for (index, [rows, columns]) in regions.iter().enumerate().filter(|_| args.by == PartBy::Frame) {
            text += &format!(
                "  {index}: rows {} to {}, columns {} to {}\n",
                rows.start,
                rows.end - 1,
                columns.start,
                columns.end - 1
            );
        }
        say(&text)?;
    }
    Ok(exit::FINE)
}

/// What can't be in a configuration: this command has no options for its fields.
fn of_fields(error: Error, args: &CreateArgs) -> Failure {
    match error {
        Error::Config { field: "part", reason, .. } => {
            let reason = reason.replace("the option `dims.shard`", "`dims[..].shard` of the configuration");
            Failure::Usage(format!("{} by {}: {reason}", count(args.parts, "part"), args.by))
        }
        Error::Config { .. } => Failure::Usage(format!("--config {}: {error}", args.config.display())),
        error => error.into(),
    }
}

/// Names of numpy that the Python package takes, and what they are called in a file.
const OF_NUMPY: [(&str, &str); 8] = [
    ("u1", "uint8"),
    ("i1", "int8"),
    ("u2", "uint16"),
    ("i2", "int16"),
    ("u4", "uint32"),
    ("i4", "int32"),
    ("f4", "float32"),
    ("f8", "float64"),
];

/// Of a name of numpy's, which one is meant.
fn with_right_name(reason: &str) -> String {
    let is_it = |(theirs, _): &&(&str, &str)| reason.contains(&format!("unknown variant `{theirs}`"));
    OF_NUMPY.iter().find(is_it).map_or_else(
        || reason.to_owned(),
        |(theirs, ours)| format!("{theirs:?} is numpy's short name, and {ours:?} is the one of a file: {reason}"),
    )
}

/// What a file says: TOML if that is how its name ends, and else JSON.
fn configuration(path: &Path) -> Result<Config, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::io("read", path, &error))?;
    let is_toml = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("toml"));
    let (form, config) = match is_toml {
        true => ("TOML", Config::from_toml(&text)),
        false => ("JSON", serde_json::from_str(&text).map_err(|error| error.to_string())),
    };
    config.map_err(|reason| {
        Failure::Usage(format!("--config {}, read as {form}: {}", path.display(), with_right_name(&reason)))
    })
}

/// Finishes a run and returns the exit code.
pub(crate) fn finish(args: &FinishArgs) -> Result<u8, Failure> {
    let options = FinishPartsOptions { incomplete: args.incomplete };
    let finish = FinishParts::new(&args.tasks, &options)?;
    let finished = interrupt::stopping(|| finish.stop(), || finish.run())?;
    let notes: Vec<_> = finished.notes.iter().map(|note| with_options(note)).collect();
    tell_notes(args.report.quiet, &notes);
    if args.report.json {
        let json = serde_json::to_string(&finished).expect("it holds only numbers, strings and lists");
        say(&format!("{json}\n"))?;
    } else if !args.report.quiet {
        say(&text(&finished))?;
    }
    let is_ended = |part: &PartFinished| matches!(part.state, PartState::Complete | PartState::Recovered);
    let is_whole = finished.chunks_lost == 0 && finished.frames_missing == 0 && finished.parts.iter().all(is_ended);
    Ok(if is_whole { exit::FINE } else { exit::FRAMES_LOST })
}

fn text(finished: &PartsFinished) -> String {
    let missing = match finished.frames_missing {
        0 => "none missing".to_owned(),
        missing => format!("{missing} missing: {}", missing_text(&finished.missing)),
    };
    let mut text = format!("shape   {}\nframes  {}, {missing}\n", joined(&finished.shape, " x "), finished.frames);
    for part in &finished.parts {
        text += &format!("part    {}: {}, {}\n", part.index, part.state, count(part.frames, "frame"));
    }
    text
}
