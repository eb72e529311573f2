//! `shardwright recover`: what comes back of a dataset whose writer was stopped, and, if asked, its return.

use std::fmt::Write;

use shardwright::offline::{self, ImageRecovered, RecoverOptions, Recovery, ShardAction, ShardRecovered};
use shardwright::words::{count, count_that};

use crate::args::RecoverArgs;
use crate::console::say;
use crate::failure::{Failure, exit, name_options};
use crate::report::{joined, missing_text, table};
use crate::{interrupt, meter};

/// Shards that the table names one by one.
const SHARDS_SHOWN: usize = 40;

/// Runs the command and returns its exit code.
pub(crate) fn run(args: &RecoverArgs) -> Result<u8, Failure> {
    let options = RecoverOptions { apply: args.apply, ..RecoverOptions::default() };
    let recover = offline::Recover::new(&args.path, &options)?;
    let run = || meter::during(args.report.quiet, || recover.progress().into(), || recover.run());
    let mut recovery = interrupt::stopping_whole(|| recover.stop(), run)?;
    let images = recovery.images.iter_mut();
    let told = images
        .flat_map(|image| image.shards.iter_mut().filter_map(|shard| shard.reason.as_mut()).chain(image.lost.as_mut()));
    name_options(told.chain(&mut recovery.notes));
    if args.report.json {
        let json = serde_json::to_string(&recovery).expect("it holds only numbers, strings and lists");
        say(&format!("{json}\n"))?;
    } else if !args.report.quiet {
        say(&to_text(&recovery))?;
    }
    Ok(if recovery.is_needed() && !recovery.applied { exit::FRAMES_LOST } else { exit::FINE })
}

fn to_text(recovery: &Recovery) -> String {
    let mut text = String::new();
    recovery.images.iter().for_each(|image| image_text(&mut text, image));
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes it");
    if !recovery.documents.is_empty() {
        line(format!("documents  {}", recovery.documents.join(", ")));
    }
    if !recovery.partial.is_empty() {
        line(format!("removed    {}", recovery.partial.join(", ")));
    }
    for note in &recovery.notes {
        line(format!("kept       {note}"));
    }
    let stay = recovery.images.iter().flat_map(|image| &image.shards);
    let stay = stay.filter(|shard| shard.action == ShardAction::Leave).count();
    line(match (recovery.is_needed(), recovery.applied) {
        (false, _) if stay > 0 => {
            format!("nothing that recover could do; {} as it is", count_that(stay, "shard", ["stays", "stay"]))
        }
        (false, _) => "nothing to do".to_owned(),
        (true, true) => "done".to_owned(),
        (true, false) => "nothing was changed; --apply makes these changes".to_owned(),
    });
    text
}

fn image_text(text: &mut String, image: &ImageRecovered) {
    let mut line = |name: &str, value: String| writeln!(text, "{name:<10} {value}").expect("a string takes it");
    line("image", image.path.clone());
    let before = match image.shape_before == image.shape {
        true => String::new(),
        false => format!(", before {}", joined(&image.shape_before, " x ")),
    };
    line("shape", format!("{}{before}", joined(&image.shape, " x ")));
    let missing = match image.frames_missing {
        0 => "none missing".to_owned(),
        missing => {
            // Of an unfinished run, nobody knows how far it was to go.
            let may_never = image.missing.last().is_some_and(|last| last.end == image.frames);
            let never = if may_never { " (the last of them may never have been taken)" } else { "" };
            format!("{missing} missing: {}{never}", missing_text(&image.missing))
        }
    };
    line("frames", format!("{}, {missing}", image.frames));
    let mut chunks = format!("{} whole, {} of them named by no index before", image.chunks, image.chunks_salvaged);
    if image.chunks_dropped > 0 {
        write!(chunks, "; {} that an index named are not what was written", image.chunks_dropped).expect("a string");
    }
    if image.chunks_ahead > 0 {
        write!(chunks, "; {} that an index named are of frames that level 0 lacks", image.chunks_ahead)
            .expect("a string takes it");
    }
    // The others of these are those that an index named.
    let unfinished = image.chunks_torn.saturating_sub(image.chunks_dropped);
    if unfinished > 0 {
        write!(chunks, "; {unfinished} were never finished or are damaged").expect("a string takes it");
    }
    line("chunks", chunks);
    if image.frames_made > 0 {
        let made = count(image.frames_made, "frame");
        line("levels", format!("{made} that level 0 has and this level lacked: made of the level before"));
    }
    image.behind.iter().for_each(|behind| line("levels", behind.clone()));
    image.lost.iter().for_each(|lost| line("lost", format!("{lost}; recover can't bring them back")));
    if !image.shards.is_empty() {
        write!(text, "\n{}\n", shards_table(&image.shards).trim_fmt()).expect("a string takes it");
    }
    if image.shards.len() > SHARDS_SHOWN {
        writeln!(text, "and {}", count(image.shards.len() - SHARDS_SHOWN, "more shard")).expect("a string takes it");
    }
    text.push('\n');
}

fn shards_table(shards: &[ShardRecovered]) -> comfy_table::Table {
    let mut table = table(["shard", "chunks before", "chunks", "what becomes of it"]);
    for shard in shards.iter().take(SHARDS_SHOWN) {
        let action = match (shard.action, &shard.reason) {
            (ShardAction::Remove, Some(reason)) => format!("removed: {reason}"),
            (_, Some(reason)) => format!("stays as it is: {reason}"),
            (ShardAction::NewIndex, _) => "new index".to_owned(),
            (ShardAction::Remove, _) => "removed: empty".to_owned(),
            _ => "stays as it is".to_owned(),
        };
        table.add_row([
            shard.path.clone(),
            shard.chunks_before.map_or("unreadable".to_owned(), |chunks| chunks.to_string()),
            shard.chunks.to_string(),
            action,
        ]);
    }
    table
}
