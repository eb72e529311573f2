//! `shardwright pyramid`: levels for an image that is there.

use std::time::Instant;

use shardwright::Error;
use shardwright::offline::{self, PyramidOptions, PyramidSummary};
use shardwright::words::count;

use crate::args::PyramidArgs;
use crate::console::{say, tell_notes};
use crate::failure::{Failure, name_options};
use crate::report::{bytes_text, decimal};
use crate::{interrupt, meter};

/// Runs the command.
pub(crate) fn run(args: &PyramidArgs) -> Result<(), Failure> {
    let options = options(args);
    let pyramid = offline::Pyramid::new(&args.path, &options).map_err(|error| in_the_way(error, args, &options))?;
    let mut notes = pyramid.notes();
    name_options(&mut notes);
    tell_notes(args.report.quiet, &notes);
    let start = Instant::now();
    let quiet = args.report.quiet || args.report.json;
    let run = || meter::during(quiet, || pyramid.progress().into(), || pyramid.run());
    let summary = interrupt::stopping(|| pyramid.stop(), run).map_err(|error| in_the_way(error, args, &options))?;
    let seconds = start.elapsed().as_secs_f64();
    if args.report.json {
        let mut json = serde_json::to_value(&summary).expect("a summary holds only numbers and paths");
        json["seconds"] = serde_json::json!(seconds);
        json["path"] = serde_json::json!(args.path);
        json["notes"] = serde_json::json!(notes);
        return say(&format!("{json}\n"));
    }
    if args.report.quiet {
        return Ok(());
    }
    // To join nothing would end the path with a slash.
    let image = if summary.image.is_empty() { args.path.clone() } else { args.path.join(&summary.image) };
    // An earlier call may have made a part of them.
    let progress = pyramid.progress();
    let made = 1.0 - progress.found as f64 / progress.total.max(1) as f64;
    let rate = bytes_text(summary.bytes_pixels as f64 * made / seconds.max(1e-9));
    let speed = format!(" in {seconds:.1} s ({rate}/s of level 0's pixels)");
    say(&format!("{}: {}\n", image.display(), sentence(&summary, &speed)))
}

/// What the command line asks for.
pub(crate) fn options(args: &PyramidArgs) -> PyramidOptions {
    let halves = |name: &str| !args.keep.iter().any(|kept| kept == name);
    PyramidOptions {
        method: args.method,
        levels: args.levels,
        y: halves("y"),
        x: halves("x"),
        depth: args.z,
        overwrite: args.overwrite,
        memory_bytes: args.work.memory,
        workers: args.work.workers,
        sync: !args.work.no_sync,
    }
}

/// What is in the way of the levels, and whether `--overwrite` would help.
pub(crate) fn in_the_way(error: Error, args: &PyramidArgs, options: &PyramidOptions) -> Failure {
    match error {
        Error::Exists { path, .. } if options.overwrite => {
            Failure::exists_or_work(&path, "it is no level that the image lists; move it away")
        }
        Error::Exists { path, .. } => {
            let options = PyramidOptions { overwrite: true, ..options.clone() };
            match offline::Pyramid::new(&args.path, &options) {
                Err(
                    error @ (Error::Exists { .. }
                    | Error::Conflict { .. }
                    | Error::Format { .. }
                    | Error::Unsupported { .. }),
                ) => in_the_way(error, args, &options),
                _ => Failure::exists_or_work(&path, "--overwrite replaces the levels"),
            }
        }
        error => error.into(),
    }
}

/// What was made. `speed`: how fast, if that is known.
pub(crate) fn sentence(summary: &PyramidSummary, speed: &str) -> String {
    if summary.levels.is_empty() {
        return "is small enough without further levels; --levels makes some all the same".to_owned();
    }
    if summary.already_done {
        return "has its levels already: an earlier call with the same options made them; nothing to do".to_owned();
    }
    let shapes = summary.levels.iter().map(|level| {
        let lengths: Vec<_> = level.shape.iter().map(u64::to_string).collect();
        format!("{} {}", level.path, lengths.join("x"))
    });
    format!(
        "levels {} by {}; {}, {}{speed}",
        shapes.collect::<Vec<_>>().join(", "),
        summary.method,
        count(summary.chunks, "chunk"),
        decimal(summary.bytes),
    )
}
