//! `shardwright replay` into several images at once: a recording into every field of a plate, or all images of a
//! recording of several. They have one engine, and get their frames in the order in which a stage would visit them.

mod order;
mod sums;

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::time::Instant;

use shardwright::words::count;
use shardwright::{Acquisition, Config, Dataset, RingFull, Stats};

use self::order::{part, visits};
use self::sums::{notes, together};
use crate::args::{Rate, ReplayArgs, Series};
use crate::console::tell_notes;
use crate::failure::Failure;
use crate::feed::{FeedEnd, FeedPlan, Pace, Taken};
use crate::interrupt::{self, interrupted};
use crate::machine::ProcessUse;
use crate::place;
use crate::progress::ProgressOutput;
use crate::replay::{self, Recorder, set_attributes, wait_for_a_line};
use crate::report::several::Several;
use crate::report::{Circumstances, decimal};
use crate::run_config::config;
use crate::source::{self, FrameSource};

/// The engine has room for no more.
const IMAGES_MAX: u64 = 1 << 14;

/// An image to be.
#[derive(Debug, Clone)]
struct Image {
    name: String,
    /// Where its frames come from, by its place among all sources.
    source: usize,
    feed: FeedPlan,
    total: u64,
    config: Config,
    run: Circumstances,
}

/// Runs the command and returns its exit code.
pub(crate) fn run(args: &ReplayArgs) -> Result<u8, Failure> {
    refuse_options_of_one(args)?;
    place::refuse_zip(&args.output)?;
    place::refuse_over(&args.input, &args.output)?;
    args.layout.compressor()?;
    args.pace.ring_full()?;
    let of_input = |failure: Failure| failure.about(&args.input);
    let mut sources = open(args).map_err(of_input)?;
    let mut images = images(args, &mut sources)?;
    tell_notes(args.report.quiet, &notes(images.iter().map(|image| (&image.name[..], &image.run.notes[..]))));

    interrupt::listen("finishing the frames that were taken");
    let start = Instant::now();
    let acquisitions = begin(args, &images, &sources)?;
    let rings = rings(&acquisitions);
    let mut several = Several::new(start.elapsed(), rings.len());
    let mut begun: Vec<_> = acquisitions.iter().map(replay::notes_of).collect();
    if let Some(note) = note_of_rings(&rings, args.engine.memory) {
        begun.iter_mut().for_each(|notes| notes.push(note.clone()));
        images.iter_mut().for_each(|image| image.run.notes.push(note.clone()));
    }
    tell_notes(
        args.report.quiet,
        &notes(images.iter().zip(&begun).map(|(image, notes)| (&image.name[..], &notes[..]))),
    );
    args.pace.wait.then(wait_for_a_line);
    let total = images.iter().map(|image| image.total).sum();
    let progress = ProgressOutput::new(args.report.quiet, total);
    let start = Instant::now();
    let play = || play(args, &images, &mut sources, &acquisitions, &mut several.process);
    let mut taken = progress.during(total, || stats(&acquisitions), play);
    let (committed, failure) = end(args, &images, &sources, &mut taken);
    if let (0, Some(failure)) = (committed, failure) {
        progress.clear();
        acquisitions.into_iter().for_each(Acquisition::abort);
        return Err(failure);
    }
    progress.finishing();
    let finished = Acquisition::finish_all(acquisitions);
    let seconds = start.elapsed().as_secs_f64();
    progress.clear();
    let concluded = images.into_iter().zip(taken).zip(finished).map(|((image, taken), finished)| {
        let (report, failure) = replay::report(args, taken, finished, image.run);
        (image.name, report, failure)
    });
    let (report, failure) = together(concluded.collect(), several, seconds);
    replay::tell_report(args, &report, failure)
}

/// Refuses options that are about a single image.
fn refuse_options_of_one(args: &ReplayArgs) -> Result<(), Failure> {
    let by_series = matches!(args.recording.series, Some(Series::All(_)));
    let given = [
        (args.images.plate.is_some() && by_series, "--series all"),
        (args.run.key.is_some(), "--key"),
        (!args.run.manifest.is_empty(), "--manifest"),
        (args.recording.dma, "--dma"),
        (args.soak.soak.is_some(), "--soak"),
        (args.soak.roll.is_some(), "--roll"),
    ];
    let what = if args.images.plate.is_some() { "--plate" } else { "--series all" };
    if let Some((_, option)) = given.into_iter().find(|(is_given, _)| *is_given) {
        return Err(Failure::Usage(format!("{option} can't be used together with {what}")));
    }
    let wells = args.images.plate.map_or(0, |size| (size.rows * size.columns) as u64);
    refuse_too_many(wells.saturating_mul(args.images.fields))
}

/// Refuses more images than can be written at once, before there is one.
fn refuse_too_many(images: u64) -> Result<(), Failure> {
    match images > IMAGES_MAX {
        true => Err(Failure::Usage(format!("{images} images at once; {IMAGES_MAX} is what the engine has room for"))),
        false => Ok(()),
    }
}

/// All recordings that the command line names.
fn open(args: &ReplayArgs) -> Result<Vec<Box<dyn FrameSource>>, Failure> {
    let mut memory = args.engine.memory;
    let mut open = |series| {
        let source = source::open(&args.input, &args.output, &args.recording, series, memory)?;
        memory = memory.saturating_sub(source.held_bytes());
        Ok(source)
    };
    let first = open(args.recording.series)?;
    let count = match args.recording.series {
        Some(Series::All(_)) => first.recording().series.len(),
        _ => 1,
    };
    refuse_too_many(count as u64)?;
    iter::once(Ok(first)).chain((1..count).map(|at| open(Some(Series::All(at))))).collect()
}

/// What is written of each recording, and as which images.
fn images(args: &ReplayArgs, sources: &mut [Box<dyn FrameSource>]) -> Result<Vec<Image>, Failure> {
    let held_bytes = sources.iter().map(|source| source.held_bytes()).sum();
    let sizes: BTreeSet<_> = sources.iter().map(|source| source.recording().frame_bytes()).collect();
    let mut images = Vec::new();
    for (at, source) in sources.iter_mut().enumerate() {
        let mut image = image(args, at, source.as_mut(), held_bytes)?;
        // Frames of another size are in another ring.
        image.config.ring_bytes /= sizes.len();
        images.push(image);
    }
    let Some(size) = args.images.plate else { return Ok(images) };
    let plate = size.plate();
    let wells = plate.rows.iter().flat_map(|row| plate.columns.iter().map(move |column| format!("{row}/{column}")));
    let fields = wells.flat_map(|well| (0..args.images.fields).map(move |field| format!("{well}/{field}")));
    Ok(fields.map(|name| Image { name, ..images[0].clone() }).collect())
}

/// The image of one recording.
fn image(args: &ReplayArgs, at: usize, source: &mut dyn FrameSource, held_bytes: u64) -> Result<Image, Failure> {
    let recording = source.recording().clone();
    let pass = replay::frames_a_pass(args, &recording)?;
    let total = replay::frames_total(args, &recording, pass)?;
    let visits = args.images.visits;
    if visits > total {
        return Err(Failure::Usage(format!("--visits {visits} is more than the {total} frames that an image gets")));
    }
    // Between two visits, time passes that nobody knows.
    let rate = if visits > 1 { Rate::Max } else { replay::rate(args, &recording) };
    let (config, notes) = config(args, &recording, total, rate, held_bytes)?;
    // A recording whose very first frame can't be read leaves no dataset behind.
    let first = source.read(0, &mut vec![0; recording.frame_bytes() as usize]);
    first.map_err(|failure| failure.about(&args.input))?;
    source.close_files();
    let mut run = replay::circumstances(&config, &recording, notes);
    run.asked = Some(total);
    let feed = FeedPlan { pass, drops: config.ring_full == RingFull::DropNewest };
    let name = recording.series.get(at).copied().unwrap_or(at as u64).to_string();
    Ok(Image { name, source: at, feed, total, config, run })
}

/// Creates the dataset with all of its images.
fn begin(args: &ReplayArgs, images: &[Image], sources: &[Box<dyn FrameSource>]) -> Result<Vec<Acquisition>, Failure> {
    let create = if args.run.overwrite { Dataset::create_or_replace } else { Dataset::create };
    let mut dataset = create(&args.output).map_err(Failure::of_output)?;
    if let Some(size) = args.images.plate {
        dataset = dataset.with_plate(size.plate())?;
    }
    let all = images.iter().map(|image| (image.name.clone(), image.config.clone()));
    let acquisitions = dataset.acquisitions(all).map_err(Failure::of_output)?;
    let set = |(to, image): (&Acquisition, &Image)| set_attributes(args, to, sources[image.source].recording());
    match acquisitions.iter().zip(images).try_for_each(set) {
        Ok(()) => Ok(acquisitions),
        Err(failure) => {
            acquisitions.into_iter().for_each(Acquisition::abort);
            Err(failure)
        }
    }
}

/// The bytes of each ring that they share.
fn rings(acquisitions: &[Acquisition]) -> Vec<u64> {
    let ring = |acquisition: &Acquisition| {
        let buffers: Vec<_> = acquisition.buffer_addresses().into_iter().map(|start| start as usize).collect();
        let stride = buffers.get(1).map_or(0, |second| second - buffers[0]);
        Some((*buffers.first()?, (buffers.len() * stride) as u64))
    };
    acquisitions.iter().filter_map(ring).collect::<BTreeMap<_, _>>().into_values().collect()
}

/// What rings take for which there is no room in the `memory` that was asked for.
fn note_of_rings(rings: &[u64], memory: u64) -> Option<String> {
    let all = rings.iter().sum::<u64>();
    (rings.len() > 1 && all > memory).then(|| {
        format!(
            "{} take {} in all, more than --memory: each image keeps the frames of chunks deeper than one frame until \
             these are complete",
            count(rings.len(), "ring"),
            decimal(all)
        )
    })
}

/// Feeds all images, visit by visit, and returns what each of them has got.
fn play(
    args: &ReplayArgs,
    images: &[Image],
    sources: &mut [Box<dyn FrameSource>],
    acquisitions: &[Acquisition],
    process: &mut ProcessUse,
) -> Vec<Taken> {
    let mut pace = Pace::start(replay::rate(args, sources[0].recording()));
    let mut taken: Vec<_> = images.iter().map(|_| Taken::nothing()).collect();
    let mut visited = vec![0; images.len()];
    for at in visits(images.len(), args.images.visits, args.images.visit_order) {
        let Image { source, feed, total, .. } = &images[at];
        let numbers = part(*total, visited[at], args.images.visits);
        visited[at] += 1;
        let source = sources[*source].as_mut();
        let mut sink = Recorder::plain(&acquisitions[at]);
        feed.run(numbers, &mut pace, source, &mut sink, &mut taken[at], interrupted);
        process.look();
        if args.images.plate.is_none() {
            // There may be many of them, each with files of its own.
            source.close_files();
        }
        if !matches!(taken[at].end, FeedEnd::Complete) {
            break;
        }
    }
    taken
}

/// How many frames were taken in all, and the first failure.
fn end(
    args: &ReplayArgs,
    images: &[Image],
    sources: &[Box<dyn FrameSource>],
    taken: &mut [Taken],
) -> (u64, Option<Failure>) {
    let is_complete = taken.iter().all(|taken| matches!(taken.end, FeedEnd::Complete));
    for (image, taken) in images.iter().zip(&mut *taken) {
        // Frames that --frames leaves out may be broken.
        let defect = sources[image.source].recording().defect.clone().filter(|_| args.recording.frames.is_none());
        taken.conclude(defect.filter(|_| is_complete), &args.input);
    }
    let failure = taken.iter().find_map(|taken| taken.end.failure().cloned());
    (taken.iter().map(|taken| taken.committed).sum(), failure)
}

/// What all images together have done so far. Of their rings, what the fullest has left.
fn stats(acquisitions: &[Acquisition]) -> Stats {
    let mut sum = Stats::default();
    for acquisition in acquisitions {
        let of = acquisition.stats();
        sum.frames_accepted += of.frames_accepted;
        sum.frames_written += of.frames_written;
        sum.frames_missing += of.frames_missing;
        sum.frames_dropped += of.frames_dropped;
        sum.bytes_in += of.bytes_in;
        sum.bytes_out += of.bytes_out;
        if of.ring_frames - of.ring_free >= sum.ring_frames - sum.ring_free {
            (sum.ring_frames, sum.ring_free) = (of.ring_frames, of.ring_free);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use shardwright::{Dim, Dtype};

    use super::*;
    use crate::args::{Cli, Command};
    use crate::source::{Counting, Recording};

    fn planned(words: &str, recordings: &[Recording]) -> Result<Vec<Image>, Failure> {
        let words = ["shardwright", "replay", "in", "out"].into_iter().chain(words.split_whitespace());
        let Command::Replay(args) = Cli::try_parse_from(words).unwrap().command else { unreachable!("a replay") };
        refuse_options_of_one(&args)?;
        let source = |recording: &Recording| Box::new(Counting(recording.clone())) as Box<dyn FrameSource>;
        images(&args, &mut recordings.iter().map(source).collect::<Vec<_>>())
    }

    fn movie(height: u64) -> Recording {
        Recording { fps: Some(50.0), series: vec![3, 8], ..Recording::movie(Dtype::U8, Some(10), height, 5) }
    }

    #[test]
    fn a_plate_has_a_field_for_each_place() {
        let images = planned("--plate 2x3 --fields 2 --loop 2", &[movie(4)]).unwrap();
        let names: Vec<_> = images.iter().map(|image| &image.name[..]).collect();
        assert_eq!((names.len(), names[0], names[1], names[2], names[11]), (12, "A/1/0", "A/1/1", "A/2/0", "B/3/1"));
        assert!(images.iter().all(|image| (image.source, image.total, image.feed.pass) == (0, 20, 10)));
        assert_eq!(images[11].config.dims[0], Dim::time(20).scale(0.02, "second"));
        // Of visits, nobody knows how far they are apart.
        assert_eq!(planned("--plate 1x1 --visits 2", &[movie(4)]).unwrap()[0].config.dims[0], Dim::time(10));
        let refused = planned("--plate 1x1 --visits 11", &[movie(4)]).unwrap_err().to_string();
        assert!(refused.contains("10 frames"), "{refused}");
    }

    #[test]
    fn images_of_a_recording_have_their_numbers_and_share_the_memory_by_their_sizes() {
        let alike = planned("--series all --memory 8MiB", &[movie(4), movie(4)]).unwrap();
        let unlike = planned("--series all --memory 8MiB", &[movie(4), movie(9)]).unwrap();
        assert_eq!(alike.iter().map(|image| &image.name[..]).collect::<Vec<_>>(), ["3", "8"]);
        assert_eq!((alike[0].config.ring_bytes, unlike[0].config.ring_bytes), (8 << 20, 4 << 20));
    }

    #[test]
    fn what_only_a_single_image_has_is_refused() {
        for words in ["--plate 1x1 --fields 16385", "--plate 2x2 --fields 18446744073709551615", "--plate 1000x1000"] {
            let refused = planned(words, &[movie(4)]).unwrap_err().to_string();
            assert!(refused.contains("16384 is what"), "{words}: {refused}");
        }
        for words in ["--plate 1x1 --key a", "--plate 1x1 --dma", "--series all --roll 1MB", "--plate 1x1 --series all"]
        {
            let refused = planned(words, &[movie(4)]).unwrap_err().to_string();
            assert!(refused.contains("can't be used together"), "{words}: {refused}");
        }
    }
}
