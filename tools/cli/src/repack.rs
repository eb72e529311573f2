//! `shardwright repack`: a dataset without gaps, in order, perhaps smaller.

use std::time::Instant;

use shardwright::Error;
use shardwright::offline::{self, RepackOptions, RepackSummary, Sharding, SpaceCheck};
use shardwright::words::{IS, count, of_number};

use crate::args::{Names, RepackArgs};
use crate::console::{say, tell_notes};
use crate::failure::{Failure, with_options};
use crate::place::{is_around, refuse_unusable, refuse_zip};
use crate::report::{bytes_text, decimal};
use crate::{interrupt, meter};

/// Runs the command.
pub(crate) fn run(args: &RepackArgs) -> Result<(), Failure> {
    let options = options(args)?;
    args.output.as_deref().map_or(Ok(()), |output| refuse_zip(output).and_then(|()| refuse_unusable(output)))?;
    let in_the_way = |error: Error| match error {
        Error::Exists { path, .. } => {
            let help = "it is not what this call makes of the dataset as it is now: choose another path, or remove it";
            Failure::exists_or_work(&path, help)
        }
        // What is around the output, and not in the input.
        Error::Conflict { ref path, .. } if args.output.as_ref().is_some_and(|out| is_around(path, out)) => {
            Failure::of_output(error)
        }
        error => error.into(),
    };
    let repack = offline::Repack::new(&args.path, args.output.as_deref(), &options).map_err(in_the_way)?;
    let notes: Vec<_> = repack.notes()?.iter().map(|note| with_options(note)).collect();
    tell_notes(args.report.quiet, &notes);
    let start = Instant::now();
    let quiet = args.report.quiet || args.report.json;
    let run = || meter::during(quiet, || repack.progress().into(), || repack.run());
    let summary = interrupt::stopping(|| repack.stop(), run).map_err(in_the_way)?;
    let seconds = start.elapsed().as_secs_f64();
    let path = args.output.as_ref().unwrap_or(&args.path);
    if args.report.json {
        let mut json = serde_json::to_value(&summary).expect("a summary holds only numbers");
        json["seconds"] = serde_json::json!(seconds);
        json["path"] = serde_json::json!(path);
        json["notes"] = serde_json::json!(notes);
        return say(&format!("{json}\n"));
    }
    if args.report.quiet {
        return Ok(());
    }
    say(&format!("{}: {}\n", path.display(), sentence(&summary, repack.progress().found, seconds)))
}

/// What the command line asks for.
pub(crate) fn options(args: &RepackArgs) -> Result<RepackOptions, Failure> {
    Ok(RepackOptions {
        order: args.order,
        only: Names::all(&args.only),
        skip: Names::all(&args.skip),
        dialect: args.dialect,
        ome: args.ome,
        codec: args.codec()?,
        chunk: args.chunk.clone(),
        shard: args.shard.clone(),
        sharding: if args.unsharded { Sharding::Unsharded } else { Sharding::Shards },
        index_location: args.index,
        index_checksum: args.index_checksum(),
        volume: args.volume.volume()?,
        memory_bytes: args.work.memory,
        workers: args.work.workers,
        sync: !args.work.no_sync,
        reflink: !args.no_reflink,
        incomplete: args.incomplete,
        space: if args.no_space_check { SpaceCheck::Skipped } else { SpaceCheck::Estimated },
    })
}

/// `found`: bytes of pixels that were in order before.
fn sentence(summary: &RepackSummary, found: u64, seconds: f64) -> String {
    let RepackSummary { shards_written, shards_found, chunk_files, chunks, bytes, bytes_pixels, .. } = *summary;
    let files = |number| match chunk_files {
        0 => count(number, "shard"),
        all if all == shards_written + shards_found => count(number, "chunk file"),
        _ => format!("{number} shards and chunk files"),
    };
    if summary.already_done {
        return "is there already: an earlier call with the same options made it; nothing to do".to_owned();
    }
    if shards_written == 0 {
        let (files, are) = (files(shards_found), of_number(&shards_found, IS));
        return match summary.groups_changed {
            0 => format!("nothing to rewrite: {files} {are} in order"),
            changed => format!("metadata of {} rewritten; {files} {are} in order", count(changed, "group")),
        };
    }
    format!(
        "{} written, {shards_found} already in order; {}, {} in {seconds:.1} s ({}/s of pixels)",
        files(shards_written),
        count(chunks, "chunk"),
        decimal(bytes),
        bytes_text(bytes_pixels.saturating_sub(found) as f64 / seconds.max(1e-9)),
    )
}
