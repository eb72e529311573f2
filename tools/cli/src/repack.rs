//! `shardwright repack`: a dataset without gaps, in order, perhaps smaller.

use std::time::Instant;

use shardwright::offline::{self, RepackOptions};

use crate::args::Repack;
use crate::failure::Failure;
use crate::report::{bytes_text, decimal, say};
use crate::{interrupt, meter};

/// Runs the command.
pub(crate) fn run(args: &Repack) -> Result<(), Failure> {
    let options = RepackOptions {
        order: args.order,
        dialect: args.layout.dialect,
        codec: args.codec()?,
        chunk: args.layout.chunk.clone(),
        shard: args.layout.shard.clone(),
        index_location: args.layout.index,
        index_checksum: args.index_checksum(),
        volume: args.volume.volume()?,
        memory_bytes: args.memory,
        workers: args.workers,
        sync: !args.no_sync,
        reflink: !args.no_reflink,
        incomplete: args.incomplete,
    };
    let repack = offline::Repack::new(&args.path, args.output.as_deref(), &options).map_err(Failure::of_dataset)?;
    if !args.quiet {
        repack.notes().map_err(Failure::of_dataset)?.iter().for_each(|note| eprintln!("note: {note}"));
    }
    let start = Instant::now();
    let quiet = args.quiet || args.json;
    let run = || meter::during(quiet, || repack.progress().bytes(), || repack.run());
    let summary = interrupt::stopping(|| repack.stop(), run)?.map_err(Failure::of_dataset)?;
    let seconds = start.elapsed().as_secs_f64();
    if args.json {
        let mut json = serde_json::to_value(&summary).expect("a summary holds only numbers");
        json["seconds"] = serde_json::json!(seconds);
        json["path"] = serde_json::json!(args.output.as_ref().unwrap_or(&args.path));
        return say(&format!("{json}\n"));
    }
    if args.quiet {
        return Ok(());
    }
    say(&format!(
        "{}: {} shards written, {} as they should be; {} chunks, {} in {seconds:.1} s ({}/s of pixels)\n",
        args.output.as_ref().unwrap_or(&args.path).display(),
        summary.shards_written,
        summary.shards_found,
        summary.chunks,
        decimal(summary.bytes),
        bytes_text(summary.bytes_pixels as f64 / seconds.max(1e-9)),
    ))
}
