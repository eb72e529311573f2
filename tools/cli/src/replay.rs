//! `shardwright replay`: a recording, or a synthetic camera, into a dataset, as a camera would.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use shardwright::{
    Acquisition, Codec, Compressor, Config, Dialect, Record, RingFull, Roi, Shuffle, Summary, Unfinished,
};

use crate::args::{Rate, ReplayArgs};
use crate::bayer;
use crate::console::{say, tell, tell_notes};
use crate::dma::Resident;
use crate::failure::{Failure, exit, name_options};
use crate::feed::{FeedEnd, FeedPlan, Fill, FrameRefusal, FrameSink, Pace, Taken};
use crate::interrupt::{self, interrupted};
use crate::machine::free_bytes;
use crate::place;
use crate::progress::ProgressOutput;
use crate::report::{Circumstances, Report};
use crate::run_config::{config, note_of_colors};
use crate::soak::{self, Diary, Roll};
use crate::source::{self, CameraRegion, FrameSource, Recording};

/// Runs the command and returns its exit code. Failures before the first frame are errors; later ones are part of the
/// report.
pub(crate) fn run(args: &ReplayArgs) -> Result<u8, Failure> {
    let soak = args.soak.soak.as_deref();
    place::refuse_zip(&args.output)?;
    place::refuse_over(&args.input, &args.place())?;
    soak.map_or(Ok(()), |page| place::refuse_over(&args.input, page))?;
    args.images.refuse_for_one()?;
    // What can be refused without looking at the recording is refused first: that may take a while.
    args.layout.compressor()?;
    args.pace.ring_full()?;
    let of_input = |failure: Failure| failure.about(&args.input);
    let source = source::open(&args.input, &args.place(), &args.recording, args.recording.series, args.engine.memory);
    let mut source = source.map_err(of_input)?;
    let recording = source.recording().clone();
    let frame_bytes = recording.frame_bytes();
    let pass = frames_a_pass(args, &recording)?;
    let total = frames_total(args, &recording, pass)?;
    let rate = rate(args, &recording);
    let (config, notes) = config(args, &recording, total, rate, source.held_bytes())?;
    // A recording whose very first frame can't be read leaves no dataset behind.
    source.read(0, &mut vec![0; frame_bytes as usize]).map_err(of_input)?;
    let mut run = circumstances(&config, &recording, notes);
    run.asked = Some(total);
    tell_notes(args.report.quiet, &run.notes);
    // Frames that --frames leaves out may be broken.
    let defect = recording.defect.filter(|_| args.recording.frames.is_none());

    let run_bytes = total.saturating_mul(frame_bytes);
    refuse_to_roll(args, run_bytes)?;
    let diary = soak.map(|path| Diary::begin(path, args.run.overwrite)).transpose()?;
    interrupt::listen("finishing the frames that were taken");
    let feed = FeedPlan { pass, drops: config.ring_full == RingFull::DropNewest };
    let (acquisition, resident) = begin(args, config, source.as_mut(), pass)?;
    tell_notes(args.report.quiet, &notes_of(&acquisition));
    args.pace.wait.then(wait_for_a_line);
    let roll = roll_at(args, run_bytes)?.map(|bytes| Roll::start(&acquisition, &args.place(), bytes));
    let mut sink = Recorder { resident, diary, ..Recorder::plain(&acquisition) };
    let progress = ProgressOutput::new(args.report.quiet, total);
    let play = || {
        let (mut pace, mut taken) = (Pace::start(rate), Taken::nothing());
        feed.run(0..total, &mut pace, source.as_mut(), &mut sink, &mut taken, interrupted);
        taken
    };
    let mut taken = progress.during(total, || acquisition.stats(), play);
    taken.conclude(defect, &args.input);
    if let (0, Some(failure)) = (taken.committed, taken.end.failure()) {
        progress.clear();
        acquisition.abort();
        return Err(failure.clone());
    }
    progress.finishing();
    let Recorder { resident, diary, .. } = sink;
    run.notes.extend(resident.and_then(|resident| resident.note(taken.committed)));
    let finished = acquisition.finish();
    roll.into_iter().for_each(Roll::join);
    progress.clear();
    let written = soak.zip(diary).map_or(Ok(()), |(path, diary)| diary.write(path, &title(args, &run)));
    // That the page can't be written must not hide what became of the run.
    let (report, failure) = report(args, taken, finished, run);
    tell_report(args, &report, failure).and_then(|code| written.map(|()| code))
}

/// What the engine says of a run by now.
pub(crate) fn notes_of(acquisition: &Acquisition) -> Vec<String> {
    let mut notes = acquisition.notes();
    name_options(&mut notes);
    notes
}

/// The heading of a page with plots.
fn title(args: &ReplayArgs, run: &Circumstances) -> String {
    format!("{}, {}, {}", args.input.display(), run.codec, args.output.display())
}

/// Creates the dataset with its attributes and, where frames are to stay in the ring, fills that.
fn begin(
    args: &ReplayArgs,
    config: Config,
    source: &mut dyn FrameSource,
    pass: u64,
) -> Result<(Acquisition, Option<Resident>), Failure> {
    let waits = matches!(config.ring_full, RingFull::Block { .. });
    let acquisition = Acquisition::create(&args.output, config).map_err(Failure::of_output)?;
    let mut resident = || -> Result<Option<Resident>, Failure> {
        set_attributes(args, &acquisition, source.recording())?;
        args.recording.dma.then(|| Resident::fill(&acquisition, source, pass, waits)).transpose()
    };
    match resident() {
        Ok(resident) => Ok((acquisition, resident)),
        Err(failure) => {
            acquisition.abort();
            Err(failure)
        }
    }
}

/// Keeps a sensor's pattern, if the command line says one, and the part of it that the recording is of.
pub(crate) fn set_attributes(args: &ReplayArgs, to: &Acquisition, recording: &Recording) -> Result<(), Failure> {
    if let Some(region) = recording.region.filter(|_| !args.run.bare) {
        to.set_attribute(CameraRegion::ATTRIBUTE, serde_json::json!(region))?;
    }
    let Some(pattern) = &args.recording.bayer else { return Ok(()) };
    let turned = bayer::turned(pattern, recording.first_place, args.recording.turn(), recording.sides());
    to.set_attribute(bayer::ATTRIBUTE, turned.into())?;
    Ok(())
}

/// What the report says of the run beside its counts.
pub(crate) fn circumstances(config: &Config, recording: &Recording, more: Vec<String>) -> Circumstances {
    let mut notes: Vec<_> = recording.notes.iter().cloned().chain(note_of_colors(recording, config)).collect();
    notes.extend(more);
    if let (Compressor::Lz4 | Compressor::Zlib { .. }, Dialect::Zarr3) = (config.codec.compressor, config.dialect) {
        notes.push("only zarr-python reads numcodecs' lz4 and zlib; every Zarr library reads blosc and gzip".into());
    }
    let (codec, placement) = (codec_text(&config.codec), config.placement_in_use().name().into());
    Circumstances { codec, placement, notes, ..Circumstances::default() }
}

/// The frames that one pass through the recording takes.
pub(crate) fn frames_a_pass(args: &ReplayArgs, recording: &Recording) -> Result<u64, Failure> {
    match (recording.frames, args.recording.frames) {
        (Some(there), Some(wanted)) if wanted > there => Err(Failure::Usage(format!(
            "--frames {wanted} is more than the recording's {there}; --loop repeats a recording"
        ))),
        (Some(there), wanted) => Ok(wanted.unwrap_or(there)),
        (None, wanted) => Ok(wanted.unwrap_or(source::synthetic::DEFAULT_FRAMES)),
    }
}

/// The frames of the whole run.
pub(crate) fn frames_total(args: &ReplayArgs, recording: &Recording, pass: u64) -> Result<u64, Failure> {
    let total = pass.checked_mul(args.recording.repeat).ok_or_else(|| {
        Failure::Usage(format!("{pass} frames in {} loops are more than can be counted", args.recording.repeat))
    })?;
    let soaks = args.soak.soak.is_some() && args.recording.frames.is_none();
    Ok(if soaks { total.max(soak::long_enough() / recording.frame_bytes().max(1)) } else { total })
}

/// How many bytes of closed shards may stay; `None`: all.
fn roll_at(args: &ReplayArgs, run_bytes: u64) -> Result<Option<u64>, Failure> {
    if args.soak.roll.is_some() || args.soak.soak.is_none() {
        return Ok(args.soak.roll);
    }
    let free = free_bytes(&args.output)?;
    Ok((run_bytes > free).then_some(free / 2))
}

/// Refuses a dataset in one file where old shards are to be deleted.
fn refuse_to_roll(args: &ReplayArgs, run_bytes: u64) -> Result<(), Failure> {
    if !place::is_archive_name(&args.output) {
        return Ok(());
    }
    let option = match (args.soak.roll, &args.soak.soak) {
        (Some(_), _) => "--roll",
        (None, Some(_)) if run_bytes > free_bytes(&place::folder_there(&args.output))? => "--soak without room for all",
        _ => return Ok(()),
    };
    let why = "deletes old shards, which can't be taken out of a dataset in one file; choose a folder";
    Err(Failure::Usage(format!("{}: {option} {why}", args.output.display())))
}

pub(crate) fn rate(args: &ReplayArgs, recording: &Recording) -> Rate {
    let own = recording.fps.map_or(Rate::Max, Rate::Fps);
    args.pace.rate.unwrap_or(own)
}

/// Returns when standard input has a line or ends, or at Ctrl-C.
pub(crate) fn wait_for_a_line() {
    tell("ready: a line on standard input, or its end, starts the run");
    let (started, start) = mpsc::channel();
    thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        let _ = started.send(());
    });
    while !interrupted() {
        if start.recv_timeout(Duration::from_millis(50)) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// The engine, and who writes down how long it takes.
pub(crate) struct Recorder<'a> {
    acquisition: &'a Acquisition,
    /// The frames that need not be copied.
    resident: Option<Resident>,
    diary: Option<Diary>,
}

impl<'a> Recorder<'a> {
    /// Copies frames into the ring, and writes nothing down.
    pub(crate) fn plain(acquisition: &'a Acquisition) -> Self {
        Self { acquisition, resident: None, diary: None }
    }
}

impl FrameSink for Recorder<'_> {
    fn take(&mut self, number: u64, index: u64, roi: Option<Roi>, fill: Fill) -> Result<(), FrameRefusal> {
        let mut frame = match &mut self.resident {
            Some(resident) => resident.lend(self.acquisition, index, fill)?,
            None => {
                let mut frame = self.acquisition.acquire().map_err(FrameRefusal::Engine)?;
                fill(&mut frame).map_err(FrameRefusal::Input)?;
                frame
            }
        };
        roi.map_or(Ok(()), |roi| frame.pad(roi)).map_err(FrameRefusal::Engine)?;
        let commit = || frame.commit(number, Record::default()).map_err(FrameRefusal::Engine);
        let Some(diary) = &mut self.diary else { return commit() };
        let start = Instant::now();
        commit()?;
        diary.note(start.elapsed(), || self.acquisition.stats());
        Ok(())
    }
}

/// What there is to say of a finished run, and why it failed, if it did.
pub(crate) fn report(
    args: &ReplayArgs,
    taken: Taken,
    finished: Result<Summary, Unfinished>,
    run: Circumstances,
) -> (Report, Option<Failure>) {
    let (mut summary, engine_error) = match finished {
        Ok(summary) => (summary, None),
        Err(unfinished) => (*unfinished.summary, Some(Failure::from(unfinished.error))),
    };
    name_options(&mut summary.notes);
    // The engine's first error is the cause; that no more frames were taken is what follows from it.
    let failure = engine_error.or_else(|| taken.end.failure().cloned());
    let run = Circumstances {
        frames_dropped: taken.dropped,
        missing_at_end: taken.missing_at_end,
        interrupted: matches!(taken.end, FeedEnd::Interrupted),
        error: failure.as_ref().map(|failure| failure.to_json(Some(&args.output))),
        ..run
    };
    (Report::new(&summary, run), failure)
}

/// Says it and chooses the exit code.
pub(crate) fn tell_report(args: &ReplayArgs, report: &Report, failure: Option<Failure>) -> Result<u8, Failure> {
    if args.report.json {
        say(&format!("{}\n", report.to_json()))?;
    } else if !args.report.quiet {
        say(&report.to_text())?;
    }
    match failure {
        // The report has it.
        Some(failure) if args.report.json => {
            tell(format_args!("error: {failure}"));
            Ok(failure.exit_code())
        }
        Some(failure) => Err(failure),
        None => Ok(exit_code(report)),
    }
}

fn exit_code(report: &Report) -> u8 {
    if report.interrupted {
        exit::INTERRUPTED
    } else if report.frames_missing > 0 || report.frames_dropped > 0 {
        exit::FRAMES_LOST
    } else {
        0
    }
}

fn codec_text(codec: &Codec) -> String {
    let mut text = match codec.compressor {
        Compressor::None => "none".to_owned(),
        Compressor::Blosc { cname, level, shuffle, .. } => {
            let shuffle = if shuffle == Shuffle::None { "no" } else { shuffle.name() };
            format!("blosc-{cname} level {level}, {shuffle} shuffle")
        }
        Compressor::BloscNoise { .. } => "blosc-noise".to_owned(),
        Compressor::Zstd { level } => format!("zstd level {level}"),
        Compressor::Gzip { level } => format!("gzip level {level}"),
        Compressor::Lz4 => "numcodecs.lz4".to_owned(),
        Compressor::Zlib { level } => format!("numcodecs.zlib level {level}"),
        other => other.name().to_owned(),
    };
    if codec.checksum {
        text.push_str(", crc32c");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;
    use shardwright::{Dim, Dtype};

    use super::*;
    use crate::args::{Cli, Command};

    fn args(words: &str) -> ReplayArgs {
        let words = ["shardwright", "replay", "in", "out"].into_iter().chain(words.split_whitespace());
        match Cli::try_parse_from(words).unwrap().command {
            Command::Replay(replay) => *replay,
            other => panic!("{other:?}"),
        }
    }

    fn movie() -> Recording {
        Recording::movie(Dtype::U16, Some(10), 64, 48)
    }

    fn configured(words: &str, recording: &Recording) -> Result<Config, Failure> {
        let args = args(words);
        let pass = frames_a_pass(&args, recording)?;
        let rate = rate(&args, recording);
        config(&args, recording, pass * args.recording.repeat, rate, 1 << 20).map(|(config, _)| config)
    }

    #[test]
    fn a_movie_becomes_an_array_of_its_size() {
        let config = configured("", &movie()).unwrap();
        assert_eq!(config.dims, [Dim::time(10), Dim::y(64), Dim::x(48)]);
        assert_eq!(config.ring_bytes, (1 << 30) - (1 << 20));
        assert!(config.sync && config.codec.checksum && !config.overwrite);
        assert_eq!(config.ring_full, RingFull::Block { timeout: None });
    }

    #[test]
    fn options_reach_the_configuration() {
        let config = configured(
            "--loop 3 --frames 4 --chunk 2,16,16 --shard 32,48 --pixel-size 65nm --rate 50 --no-sync --no-checksum \
             --overwrite --guard-maps --policy block --timeout 1.5 --memory 8MiB --workers 2 --checkpoint-every 0.25",
            &movie(),
        )
        .unwrap();
        assert_eq!(config.dims[0], Dim::time(12).chunk(2).scale(0.02, "second"));
        assert_eq!(config.dims[1], Dim::y(64).chunk(16).shard(32).scale(65.0, "nanometer"));
        assert_eq!(config.dims[2], Dim::x(48).chunk(16).shard(48).scale(65.0, "nanometer"));
        assert!(!config.sync && !config.codec.checksum && config.overwrite && config.guard_maps);
        assert_eq!(config.ring_full, RingFull::Block { timeout: Some(Duration::from_millis(1500)) });
        assert_eq!(config.checkpoint_every, Duration::from_millis(250));
        assert_eq!((config.ring_bytes, config.workers), (7 << 20, 2));
        assert_eq!(configured("--unbounded", &movie()).unwrap().dims[0], Dim::time(None));
    }

    #[test]
    fn what_does_not_fit_the_recording_is_refused() {
        let refusal = |words: &str| configured(words, &movie()).unwrap_err().to_string();
        assert!(refusal("--frames 11").contains("recording's 10"));
        assert!(refusal("--chunk 1,1,2,2").contains("4 numbers, but the array has 3"));
    }

    #[test]
    fn only_the_slowest_dimension_grows() {
        let mut recording = movie();
        recording.dims = vec![Dim::time(5), Dim::channel(2), Dim::y(64), Dim::x(48)];
        let sizes = |words: &str, recording: &Recording| {
            configured(words, recording).map(|config| config.dims.iter().map(|dim| dim.size).collect::<Vec<_>>())
        };
        let some = |sizes: [u64; 4]| sizes.map(Some).to_vec();
        assert_eq!(sizes("--loop 3", &recording).unwrap(), some([15, 2, 64, 48]));
        assert_eq!(sizes("--frames 7", &recording).unwrap(), some([4, 2, 64, 48]));
        recording.acquisition_order = vec!["c".into(), "t".into()];
        assert!(sizes("--loop 3", &recording).unwrap_err().to_string().contains("channel"));
        assert_eq!(sizes("", &recording).unwrap(), some([5, 2, 64, 48]));
    }

    #[test]
    fn a_camera_keeps_its_own_speed_unless_told_otherwise() {
        let recording = Recording { fps: Some(100.0), ..movie() };
        assert_eq!(rate(&args(""), &recording), Rate::Fps(100.0));
        assert_eq!(rate(&args("--rate max"), &recording), Rate::Max);
        assert_eq!(rate(&args(""), &movie()), Rate::Max);
    }

    #[test]
    fn codecs_have_readable_names() {
        let text = |words: &str| codec_text(&configured(words, &movie()).unwrap().codec);
        assert_eq!(text(""), "blosc-lz4 level 1, bit shuffle, crc32c");
        assert_eq!(text("--codec zstd --level -3 --no-checksum"), "zstd level -3");
    }
}
