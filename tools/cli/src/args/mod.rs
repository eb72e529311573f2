//! The command line: what it looks like and how its words become values. Nothing here touches a file.

mod groups;
mod help;
mod pyramid;
mod values;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use shardwright::offline::ChunkOrder;
use shardwright::{Codec, Dialect, ManifestForm, OmeVersion};

pub(crate) use self::groups::RecordingArgs;
use self::groups::{EngineArgs, LayoutArgs, PaceArgs, RunArgs, SoakArgs, VolumeArgs, WorkArgs, compressor};
use self::help::{
    EXAMPLES, EXIT_CODES, EXPORT_HELP, MANIFEST_HELP, PROBE_HELP, RECOVER_HELP, REPACK_HELP, REPLAY_HELP, VERIFY_HELP,
};
pub(crate) use self::pyramid::PyramidArgs;
pub(crate) use self::values::{Camera, Rate, in_unit, unit_name};
use self::values::{bytes, one_of, seconds};
use crate::failure::Failure;
use crate::region::RegionArg;

/// Replay recordings into sharded Zarr datasets at camera speed, and look at datasets.
#[derive(Debug, Parser)]
#[command(name = "shardwright", version, after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Cli {
    /// Let manifests name any file of this machine, not only those of datasets in the same folder
    #[arg(long, global = true, help_heading = "Trust", display_order = 1000)]
    pub(crate) follow_manifests: bool,
    /// Let links in datasets lead anywhere, not only to what is below the dataset itself
    #[arg(long, global = true, help_heading = "Trust", display_order = 1001)]
    pub(crate) follow_links: bool,
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
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// Whether the answer is a JSON object.
    pub(crate) fn json(&self) -> bool {
        match self {
            Self::Replay(args) => args.json,
            Self::Info(args) => args.json,
            Self::Export(args) => args.json,
            Self::Manifest(args) => args.json,
            Self::Verify(args) => args.json,
            Self::Recover(args) => args.json,
            Self::Probe(args) => args.json,
            Self::Pyramid(args) => args.work.json,
            Self::Repack(args) => args.work.json,
            Self::Completions { .. } => false,
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
            Self::Completions { .. } => return None,
        })
    }
}

/// Show what a dataset holds: shape, chunks, shards, codecs, sizes, gaps
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct InfoArgs {
    /// The dataset
    pub(crate) path: PathBuf,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write a region of an array as TIFF, OME-TIFF, npy or raw
#[derive(Debug, Args)]
#[command(after_help = EXPORT_HELP)]
pub(crate) struct ExportArgs {
    /// The array, or the image whose first array is meant
    pub(crate) path: PathBuf,
    /// The file to write
    pub(crate) output: PathBuf,
    /// Which part: a span for each dimension, such as 0:100,:,512:1024, or for some by name, such as t=3,x=512:1024
    #[arg(long, value_name = "SPANS")]
    pub(crate) region: Option<RegionArg>,
    /// The format [default: what the file's name ends with: .ome.tif, .tif, .npy, .raw]
    #[arg(long, value_parser = one_of(&Format::ALL, Format::name))]
    pub(crate) format: Option<Format>,
    /// Write BigTIFF also where TIFF would do
    #[arg(long)]
    pub(crate) bigtiff: bool,
    /// Memory for pixels on their way
    #[arg(long, value_name = "BYTES", default_value = "128MiB", value_parser = bytes)]
    pub(crate) memory: u64,
    /// Write the fill value also where it is a hundred times as much as what is stored
    #[arg(long)]
    pub(crate) fill: bool,
    /// Write the fill value where files of chunks were lost
    #[arg(long)]
    pub(crate) incomplete: bool,
    /// Replace a file that is in the way
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Print one JSON object instead of a sentence
    #[arg(long, help_heading = "Report")]
    pub(crate) json: bool,
    /// Show no progress and print nothing but with --json
    #[arg(long, short, help_heading = "Report")]
    pub(crate) quiet: bool,
}

/// Check all of a dataset that can be checked: documents, indexes, checksums, decoding, slot headers
#[derive(Debug, Args)]
#[command(after_help = VERIFY_HELP)]
pub(crate) struct VerifyArgs {
    /// The dataset, or an array of one
    pub(crate) path: PathBuf,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress and print nothing but with --json; the exit code tells
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Write down where a dataset's chunks lie, for readers that go by references: kerchunk.json and manifest.json
#[derive(Debug, Args)]
#[command(after_help = MANIFEST_HELP)]
pub(crate) struct ManifestArgs {
    /// The dataset
    pub(crate) path: PathBuf,
    /// The folder to create [default: beside the dataset, run.ome.manifest.zarr for run.ome.zarr]
    pub(crate) output: Option<PathBuf>,
    /// What stands before the paths of the dataset's files, such as s3://bucket/run.ome.zarr [default: file:// and
    /// where they are now]
    #[arg(long, value_name = "URL")]
    pub(crate) url_prefix: Option<String>,
    /// The Zarr version of the documents in kerchunk.json: 2, which every reader of such files opens, or 3
    #[arg(long, value_name = "2|3", default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=3))]
    pub(crate) zarr_format: u8,
    /// What is written: documents with manifest.json beside them, documents with the manifest inlined, kerchunk.json
    /// [default: all; manifests of few chunks are inlined, others are not]
    #[arg(long = "form", value_name = "FORM,FORM", value_delimiter = ',')]
    #[arg(value_parser = one_of(ManifestForm::ALL, ManifestForm::name))]
    pub(crate) forms: Vec<ManifestForm>,
    /// Put the manifest into the array's document where the array has at most so many chunks
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub(crate) inline: u64,
    /// Replace manifests that are in the way
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Print one JSON object instead of a sentence
    #[arg(long)]
    pub(crate) json: bool,
}

/// Bring back what a writer had written when it was killed or the power went
#[derive(Debug, Args)]
#[command(after_help = RECOVER_HELP)]
pub(crate) struct RecoverArgs {
    /// The dataset
    pub(crate) path: PathBuf,
    /// Make the changes
    #[arg(long)]
    pub(crate) apply: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress and print nothing but with --json; the exit code tells
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Find out whether this machine keeps up with a camera when it writes into a folder
#[derive(Debug, Args)]
#[command(after_help = PROBE_HELP)]
pub(crate) struct ProbeArgs {
    /// The folder in which datasets are to be written
    pub(crate) path: PathBuf,
    /// The camera: width, height, element type, frames per second; without these the highest rate is what you learn
    #[arg(long, value_name = "WxHxDTYPE[@FPS]", default_value = "2048x2048xu16@100")]
    pub(crate) camera: Camera,
    /// How long each codec is tried
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) seconds: Duration,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    /// Print one JSON object instead of tables
    #[arg(long, help_heading = "Report")]
    pub(crate) json: bool,
}

impl ReplayArgs {
    /// The path of the image.
    pub(crate) fn place(&self) -> PathBuf {
        self.run.key.as_ref().map_or_else(|| self.output.clone(), |key| self.output.join(key))
    }
}

/// Close the gaps in a dataset's shards, or give it another codec, other chunks and shards, or another format
#[derive(Debug, Args)]
#[command(after_help = REPACK_HELP)]
pub(crate) struct RepackArgs {
    /// The dataset
    pub(crate) path: PathBuf,
    /// The dataset to create; one file if its name ends in .ozx [default: in place]
    pub(crate) output: Option<PathBuf>,
    /// The order of chunks in their shard
    #[arg(long, default_value = "c", value_parser = one_of(ChunkOrder::ALL, ChunkOrder::name))]
    #[arg(help_heading = "Layout and codec")]
    pub(crate) order: ChunkOrder,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
    /// The version in which OME-Zarr's metadata are said; 0.4 is that of --dialect zarr2, which it chooses [default: as
    /// it is]
    #[arg(long, value_name = "VERSION", value_parser = one_of(OmeVersion::ALL, OmeVersion::name))]
    #[arg(help_heading = "Layout and codec")]
    pub(crate) ome: Option<OmeVersion>,
    /// Let every chunk be a file of its own; zarr3 and zarr2 alone have such arrays
    #[arg(long, help_heading = "Layout and codec")]
    #[arg(conflicts_with_all = ["shard", "index", "index_checksum", "no_index_checksum"])]
    pub(crate) unsharded: bool,
    /// Repack only these arrays, or all in these groups, by their paths within the dataset; others are as with --skip
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', help_heading = "Arrays")]
    pub(crate) only: Vec<String>,
    /// Don't repack these arrays, or those in these groups: in place they are left alone; a new dataset has them as
    /// they are, or, where their group becomes another format, without them, and says so
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', help_heading = "Arrays")]
    pub(crate) skip: Vec<String>,
    #[command(flatten)]
    pub(crate) volume: VolumeArgs,
    /// End every shard's index with its CRC-32C, which only zarr3 has [default: as it is]
    #[arg(long, conflicts_with = "no_index_checksum", help_heading = "Layout and codec")]
    pub(crate) index_checksum: bool,
    /// Write the bytes of shards that stay as they are, rather than share their blocks with the old dataset's on XFS
    /// and Btrfs
    #[arg(long, help_heading = "Work")]
    pub(crate) no_reflink: bool,
    /// Take also a dataset whose writer didn't finish; what only a recovery would find is not in the result, which no
    /// recovery can complete. Take also one that holds fewer chunks than its writer counted: the result lists frames
    /// that may lack some as missing
    #[arg(long, help_heading = "Work")]
    pub(crate) incomplete: bool,
    /// Begin also where the free space seems too small by an estimate: as many bytes as the old files take, or as there
    /// are pixels where chunks become uncompressed
    #[arg(long, help_heading = "Work")]
    pub(crate) no_space_check: bool,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
}

/// Write a recording, or a synthetic camera's frames, into a new dataset, as a camera would
#[derive(Debug, Args)]
#[command(after_help = REPLAY_HELP)]
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
    pub(crate) soak: SoakArgs,

    /// Print one JSON object to stdout instead of the summary
    #[arg(long, help_heading = "Report")]
    pub(crate) json: bool,
    /// Show no progress and print no summary
    #[arg(long, short, help_heading = "Report")]
    pub(crate) quiet: bool,
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

impl RepackArgs {
    /// The on-disk format of the result.
    pub(crate) fn dialect(&self) -> Dialect {
        match (self.layout.dialect, self.ome) {
            (Dialect::Zarr3, Some(OmeVersion::V0_4)) => Dialect::Zarr2,
            (chosen, _) => chosen,
        }
    }

    /// The codec that the options describe; `None` to keep what is.
    pub(crate) fn codec(&self) -> Result<Option<Codec>, Failure> {
        let LayoutArgs { codec, level, shuffle, no_checksum, .. } = &self.layout;
        let Some(codec) = codec else {
            if level.is_some() || shuffle.is_some() || *no_checksum {
                return Err(Failure::Usage("--level, --shuffle and --no-checksum belong to --codec".into()));
            }
            return Ok(None);
        };
        let compressor = compressor(codec, *level, *shuffle)?;
        Ok(Some(Codec { compressor, checksum: self.dialect() == Dialect::Zarr3 && !no_checksum }))
    }

    /// Whether indexes end with their checksum; `None` to keep what is.
    pub(crate) fn index_checksum(&self) -> Option<bool> {
        let given = self.index_checksum || self.layout.no_index_checksum;
        given.then_some(self.index_checksum)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use shardwright::{BloscCname, Compressor, IndexLocation, Placement, RingFull, Shuffle, StorageKind};

    use super::groups::CODECS;
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
    fn a_list_takes_no_path() {
        let parse = |words: &str| Cli::try_parse_from(["shardwright"].into_iter().chain(words.split(' ')));
        let Command::Repack(repack) = parse("repack --only a,b --only c --skip d in.zarr out.zarr").unwrap().command
        else {
            panic!("no repack")
        };
        assert_eq!((repack.only, repack.skip), (vec!["a".into(), "b".into(), "c".into()], vec!["d".to_owned()]));
        assert_eq!((repack.path, repack.output), ("in.zarr".into(), Some("out.zarr".into())));
        assert!(matches!(parse("pyramid --z always in.zarr").unwrap().command, Command::Pyramid(_)));
        let refused = parse("pyramid --z in.zarr").unwrap_err().to_string();
        assert!(refused.contains("in.zarr") && refused.contains("never, always, auto"), "{refused}");
    }

    #[test]
    fn every_codec_name_has_a_compressor() {
        for codec in CODECS {
            let compressor = replay(&["in", "out", "--codec", codec]).unwrap().layout.compressor().unwrap();
            if let (Compressor::Blosc { cname, .. }, Some(name)) = (compressor, codec.strip_prefix("blosc-")) {
                assert_eq!(cname.name(), name);
            }
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
