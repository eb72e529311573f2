//! The command line: what it looks like and how its words become values. Nothing here touches a file.

mod groups;
mod help;
mod images;
mod manifest;
mod parts;
mod pyramid;
mod repack;
mod tasks;
mod values;
mod verify;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use self::groups::{EngineArgs, LayoutArgs, PaceArgs, RunArgs, SoakArgs, TrustArgs, VolumeArgs};
pub(crate) use self::groups::{RecordingArgs, ReportArgs};
pub(crate) use self::images::{ImagesArgs, MovingRoi, Series, VisitOrder};
pub(crate) use self::manifest::ManifestArgs;
pub(crate) use self::parts::CreateArgs;
pub(crate) use self::pyramid::PyramidArgs;
pub(crate) use self::repack::RepackArgs;
pub(crate) use self::tasks::{FinishArgs, PlanArgs, PlanOperation, RunTaskArgs};
pub(crate) use self::values::{Camera, Names, Rate};
use self::values::{bytes, one_of, positive_seconds};
pub(crate) use self::verify::VerifyArgs;
use crate::region::RegionArg;

/// Replay recordings into sharded Zarr datasets at camera speed, and look at datasets.
#[derive(Debug, Parser)]
#[command(name = "shardwright", version, after_help = help::main(), max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Replay(Box<ReplayArgs>),
    Info(InfoArgs),
    Export(ExportArgs),
    Manifest(ManifestArgs),
    Verify(VerifyArgs),
    Recover(RecoverArgs),
    Probe(ProbeArgs),
    Pyramid(PyramidArgs),
    Repack(RepackArgs),
    Plan(PlanArgs),
    RunTask(RunTaskArgs),
    Create(CreateArgs),
    Finish(FinishArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// How the result is told.
    pub(crate) fn report(&self) -> ReportArgs {
        match self {
            Self::Replay(args) => args.report,
            Self::Info(args) => args.report,
            Self::Export(args) => args.report,
            Self::Manifest(args) => args.report,
            Self::Verify(args) => args.report,
            Self::Recover(args) => args.report,
            Self::Probe(args) => args.report,
            Self::Pyramid(args) => args.report,
            Self::Repack(args) => args.report,
            Self::Plan(args) => args.operation.report(),
            Self::RunTask(args) => args.report,
            Self::Create(args) => args.report,
            Self::Finish(args) => args.report,
            Self::Completions { .. } => ReportArgs::default(),
        }
    }

    /// Which files outside of the dataset may be read.
    pub(crate) fn trust(&self) -> TrustArgs {
        match self {
            Self::Replay(args) => args.trust,
            Self::Info(args) => args.trust,
            Self::Export(args) => args.trust,
            Self::Manifest(args) => args.trust,
            Self::Verify(args) => args.trust,
            Self::Recover(args) => args.trust,
            Self::Pyramid(args) => args.trust,
            Self::Repack(args) => args.trust,
            Self::Plan(args) => args.operation.trust(),
            Self::RunTask(args) => args.trust,
            Self::Finish(args) => args.trust,
            Self::Probe(_) | Self::Create(_) | Self::Completions { .. } => TrustArgs::default(),
        }
    }

    /// What it is about.
    pub(crate) fn path(&self) -> Option<&Path> {
        Some(match self {
            Self::Replay(args) => &args.output,
            Self::Info(args) => &args.path,
            Self::Export(args) => &args.path,
            Self::Manifest(args) => &args.path,
            Self::Verify(args) => &args.path,
            Self::Recover(args) => &args.path,
            Self::Probe(args) => &args.path,
            Self::Pyramid(args) => &args.path,
            Self::Repack(args) => &args.path,
            Self::Plan(args) => args.operation.path(),
            Self::RunTask(args) => &args.tasks,
            Self::Create(args) => &args.path,
            Self::Finish(args) => &args.tasks,
            Self::Completions { .. } => return None,
        })
    }
}

/// Show what a dataset holds: shape, chunks, shards, codecs, sizes, gaps
#[derive(Debug, Default, Args)]
#[command(after_help = help::info())]
pub(crate) struct InfoArgs {
    /// The dataset
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}

/// Write a region of an array as TIFF, OME-TIFF, npy or raw
#[derive(Debug, Args)]
#[command(after_help = help::export())]
pub(crate) struct ExportArgs {
    /// The array, or the image whose first array is meant
    pub(crate) path: PathBuf,
    /// The file to write
    pub(crate) output: PathBuf,
    /// Which part: a span for each dimension, such as 0:100,:,512:1024, or for some by name, such as t=3,x=512:1024
    #[arg(long, value_name = "SPANS")]
    pub(crate) region: Option<RegionArg>,
    /// The format [default: by the ending of the file's name: .ome.tif, .ome.tiff, .ome.btf, .tif, .tiff, .btf, .npy,
    /// .raw, .bin, .dat]
    #[arg(long, value_parser = one_of(&Format::ALL, Format::name))]
    pub(crate) format: Option<Format>,
    /// Write BigTIFF also where TIFF would do
    #[arg(long)]
    pub(crate) bigtiff: bool,
    /// Memory for pixels in transit
    #[arg(long, value_name = "BYTES", default_value = "128MiB", value_parser = bytes)]
    pub(crate) memory: u64,
    /// Write the fill value also where it is a hundred times as much as what is stored, and a gigabyte more
    #[arg(long)]
    pub(crate) fill: bool,
    /// Write the fill value where files of chunks were lost
    #[arg(long)]
    pub(crate) incomplete: bool,
    /// Replace a file that is in the way
    #[arg(long)]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}

/// Bring back what a writer had written when it was killed or the power went
#[derive(Debug, Args)]
#[command(after_help = help::recover())]
pub(crate) struct RecoverArgs {
    /// The dataset
    pub(crate) path: PathBuf,
    /// Make the changes
    #[arg(long)]
    pub(crate) apply: bool,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}

/// Find out whether this machine keeps up with a camera when it writes into a folder
#[derive(Debug, Args)]
#[command(after_help = help::probe())]
pub(crate) struct ProbeArgs {
    /// The folder in which datasets are to be written
    pub(crate) path: PathBuf,
    /// The camera: width, height, element type, frames per second; without these the highest rate is what you learn
    #[arg(long, value_name = "WxHxDTYPE[@FPS]", default_value = "2048x2048xu16@100")]
    pub(crate) camera: Camera,
    /// How long each codec is tried
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = positive_seconds)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) seconds: Duration,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

impl ReplayArgs {
    /// Whether it makes several images of one recording or of several.
    pub(crate) fn has_several_images(&self) -> bool {
        self.images.plate.is_some() || matches!(self.recording.series, Some(Series::All(_)))
    }

    /// The path of the image.
    pub(crate) fn place(&self) -> PathBuf {
        self.run.key.as_ref().map_or_else(|| self.output.clone(), |key| self.output.join(key))
    }
}

/// Write a recording, or a synthetic camera's frames, into a new dataset, as a camera would
#[derive(Debug, Args)]
#[command(after_help = help::replay())]
pub(crate) struct ReplayArgs {
    /// A TIFF file (OME-TIFF, ImageJ, Micro-Manager), a folder of such, NDTiff, a Zarr array, an .npy file, a raw file
    /// (with --shape and --dtype), or the word `synthetic`
    pub(crate) input: PathBuf,
    /// The dataset to create
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) recording: RecordingArgs,
    #[command(flatten)]
    pub(crate) pace: PaceArgs,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) volume: VolumeArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) images: ImagesArgs,
    #[command(flatten)]
    pub(crate) soak: SoakArgs,

    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}
/// What a region is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Tiff,
    OmeTiff,
    Npy,
    Raw,
}

impl Format {
    pub(crate) const ALL: [Self; 4] = [Self::OmeTiff, Self::Tiff, Self::Npy, Self::Raw];

    /// The name that `--format` takes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OmeTiff => "ome-tiff",
            Self::Tiff => "tiff",
            Self::Npy => "npy",
            Self::Raw => "raw",
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use shardwright::{BloscCname, Compressor, IndexLocation, Placement, RingFull, Shuffle, StorageKind};

    use super::*;

    fn replay(words: &[&str]) -> Result<ReplayArgs, clap::Error> {
        let words = ["shardwright", "replay"].iter().chain(words);
        Cli::try_parse_from(words).map(|cli| match cli.command {
            Command::Replay(replay) => *replay,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn the_command_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn two_paths_are_enough() {
        let replay = replay(&["movie.tif", "out.ome.zarr"]).unwrap();
        assert_eq!((replay.recording.repeat, replay.engine.memory), (1, 1 << 30));
        assert_eq!(replay.layout.compressor().unwrap(), Compressor::default());
        assert_eq!(replay.pace.ring_full().unwrap(), RingFull::Block { timeout: None });
        assert_eq!(replay.run.placement, Placement::Auto);
    }

    #[test]
    fn a_recovery_changes_nothing_unless_it_is_told_to() {
        let recover = |words: &[&str]| match Cli::try_parse_from(words).unwrap().command {
            Command::Recover(recover) => recover.apply,
            other => panic!("{other:?}"),
        };
        assert!(!recover(&["shardwright", "recover", "run.zarr"]));
        assert!(recover(&["shardwright", "recover", "run.zarr", "--apply"]));
    }

    #[test]
    fn an_output_is_required() {
        assert_eq!(replay(&["synthetic"]).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn lists_and_enumerations_become_values() {
        let replay = replay(&[
            "in.raw",
            "out",
            "--shape",
            "10,20,30",
            "--chunk",
            "16,256,256",
            "--affinity",
            "0,1",
            "--storage",
            "buffered",
            "--index",
            "start",
            "--shuffle",
            "byte",
            "--axes",
            "t,y,x",
            "--level",
            "3",
            "--codec",
            "blosc-zstd",
        ])
        .unwrap();
        assert_eq!(replay.recording.shape, [10, 20, 30]);
        assert_eq!(replay.recording.axes, ["t", "y", "x"]);
        assert_eq!(replay.layout.chunk, [16, 256, 256]);
        assert_eq!(replay.engine.affinity, [0, 1]);
        assert_eq!(replay.engine.storage, StorageKind::Buffered);
        assert_eq!(replay.layout.index, Some(IndexLocation::Start));
        let zstd = Compressor::Blosc { cname: BloscCname::Zstd, level: 3, shuffle: Shuffle::Byte, block_bytes: 0 };
        assert_eq!(replay.layout.compressor().unwrap(), zstd);
    }

    #[test]
    fn a_comma_in_a_name_stands_behind_a_backslash() {
        let of = |text: &str| Names::all(&[text.parse().unwrap()]);
        assert_eq!(of(r"a\,b,c\d,\,"), names(&["a,b", r"c\d", ","]));
        assert_eq!(of("a,"), names(&["a", ""]));
        assert_eq!(of(r"a\\,b\\\,c"), names(&["a\\", r"b\,c"]));
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_list_takes_no_path() {
        let parse = |words: &str| Cli::try_parse_from(["shardwright"].into_iter().chain(words.split(' ')));
        let Command::Repack(repack) = parse("repack --only a,b --only c --skip d in.zarr out.zarr").unwrap().command
        else {
            panic!("no repack")
        };
        assert_eq!((Names::all(&repack.only), Names::all(&repack.skip)), (names(&["a", "b", "c"]), names(&["d"])));
        assert_eq!((repack.path, repack.output), ("in.zarr".into(), Some("out.zarr".into())));
        assert!(matches!(parse("pyramid --z always in.zarr").unwrap().command, Command::Pyramid(_)));
        let refused = parse("pyramid --z in.zarr").unwrap_err().to_string();
        assert!(refused.contains("in.zarr") && refused.contains("never, always, auto"), "{refused}");
    }

    #[test]
    fn names_of_codecs_and_policies_are_the_library_s() {
        for codec in Compressor::ALL {
            let args = replay(&["in", "out", "--codec", codec.name()]).unwrap();
            assert_eq!(args.layout.compressor().unwrap(), *codec);
        }
        for policy in RingFull::ALL {
            let args = replay(&["in", "out", "--policy", policy.name()]).unwrap();
            assert_eq!(args.pace.ring_full().unwrap(), *policy);
        }
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let codec = |words: &[&str]| replay(words).unwrap().layout.compressor().unwrap_err().to_string();
        assert!(codec(&["i", "o", "--codec", "gzip", "--shuffle", "bit"]).contains("blosc"));
        assert!(codec(&["i", "o", "--codec", "gzip", "--level", "10"]).contains("0 to 9"));
        assert!(codec(&["i", "o", "--codec", "none", "--level", "1"]).contains("--level"));
        let policy = replay(&["i", "o", "--policy", "drop-newest", "--timeout", "1"]).unwrap().pace.ring_full();
        assert!(policy.unwrap_err().to_string().contains("--policy block"));
    }

    #[test]
    fn negative_levels_reach_zstd() {
        let replay = replay(&["i", "o", "--codec", "zstd", "--level", "-5"]).unwrap();
        assert_eq!(replay.layout.compressor().unwrap(), Compressor::Zstd { level: -5 });
    }
}
