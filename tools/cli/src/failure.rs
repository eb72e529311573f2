//! Why the command ended without success: one sentence, one kind and one exit code, the same for the same fault in all
//! commands.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use shardwright::words::of_system;
use shardwright::{Error, ErrorKind};

/// What went wrong, by the name that `--json` gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Usage,
    NotFound,
    Invalid,
    Damaged,
    Unfinished,
    Conflict,
    Unsupported,
    Exists,
    Locked,
    NoSpace,
    Failed,
    Interrupted,
}

/// Exit codes, as `--help` lists them.
pub(crate) mod exit {
    pub(crate) const FINE: u8 = 0;
    pub(crate) const FAILURE: u8 = 1;
    pub(crate) const USAGE: u8 = 2;
    /// What is at the path is missing, no dataset, or damaged.
    pub(crate) const INPUT: u8 = 3;
    /// It ended as it should, and frames were lost or wait to be recovered.
    pub(crate) const FRAMES_LOST: u8 = 4;
    /// What is at the path may be right, but is not read here.
    pub(crate) const UNSUPPORTED: u8 = 5;
    pub(crate) const INTERRUPTED: u8 = 130;
}

impl Fault {
    /// The table of faults: what each is called and which exit code it has.
    const fn row(self) -> (&'static str, u8) {
        match self {
            Self::Usage => ("usage", exit::USAGE),
            Self::NotFound => ("not-found", exit::INPUT),
            Self::Invalid => ("invalid-input", exit::INPUT),
            Self::Damaged => ("damaged", exit::INPUT),
            Self::Unfinished => ("unfinished", exit::INPUT),
            Self::Conflict => ("conflict", exit::INPUT),
            Self::Unsupported => ("unsupported", exit::UNSUPPORTED),
            Self::Exists => ("exists", exit::FAILURE),
            Self::Locked => ("locked", exit::FAILURE),
            Self::NoSpace => ("no-space", exit::FAILURE),
            Self::Failed => ("failed", exit::FAILURE),
            Self::Interrupted => ("interrupted", exit::INTERRUPTED),
        }
    }

    /// Of an error of the system.
    pub(crate) fn of_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace,
            // Of a path through a file, nothing is there either.
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::NotFound,
            _ => Self::Failed,
        }
    }

    fn of(error: &Error) -> Self {
        match (error, error.kind()) {
            (Error::Stopped, _) => Self::Interrupted,
            (Error::Io { source, .. }, _) => Self::of_io(source),
            (_, ErrorKind::InvalidArgument) => Self::Usage,
            (_, ErrorKind::NotFound) => Self::NotFound,
            (_, ErrorKind::Corrupt) => Self::Damaged,
            (_, ErrorKind::Unfinished) => Self::Unfinished,
            (_, ErrorKind::Conflict) => Self::Conflict,
            (_, ErrorKind::Unsupported) => Self::Unsupported,
            (_, ErrorKind::AlreadyExists) => Self::Exists,
            (_, ErrorKind::Locked) => Self::Locked,
            // What a codec refuses was read from a file.
            (Error::Codec { .. }, _) => Self::Damaged,
            _ => Self::Failed,
        }
    }
}

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The command line asks for something that can't be.
    Usage(String),
    /// The recording does not hold what it should.
    Input(String),
    /// Ctrl-C or SIGTERM ended it.
    Interrupted(String),
    /// Something else went wrong on the way.
    Run(String),
    /// Of which more is known.
    Known { fault: Fault, message: String, path: Option<PathBuf> },
}

impl Failure {
    pub(crate) fn exit_code(&self) -> u8 {
        self.fault().row().1
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Usage(_) => Fault::Usage,
            Self::Input(_) => Fault::Invalid,
            Self::Interrupted(_) => Fault::Interrupted,
            Self::Run(_) => Fault::Failed,
            Self::Known { fault, .. } => *fault,
        }
    }

    /// A file or a folder is in the way. `help`: what can be done about it.
    pub(crate) fn exists(path: &Path, help: &str) -> Self {
        let message = format!("{} already exists; {help}", path.display());
        Self::Known { fault: Fault::Exists, message, path: Some(path.to_path_buf()) }
    }

    /// The same, where the folder in which a command works can be in the way, too. `help`: about anything else.
    pub(crate) fn exists_or_work(path: &Path, help: &str) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_work = name.starts_with('.') && (name.ends_with(".repack") || name.ends_with(".pyramid"));
        let own = "this command would work there, and did not make it: give it another name";
        Self::exists(path, if is_work { own } else { help })
    }

    /// What went wrong with an output: a folder there that is no dataset, or a file above it, is no damaged input, but
    /// in the way.
    pub(crate) fn of_output(error: Error) -> Self {
        match &error {
            Error::Format { path, .. } | Error::Conflict { path, .. } => Self::in_the_way(path, error.to_string()),
            Error::Io { path, source, .. } if source.kind() == io::ErrorKind::NotADirectory => {
                Self::in_the_way(path, error.to_string())
            }
            Error::Config { field: "path", value, reason } => {
                Error::Config { field: "out", value: value.clone(), reason: reason.clone() }.into()
            }
            _ => error.into(),
        }
    }

    fn in_the_way(path: &Path, message: String) -> Self {
        Self::Known { fault: Fault::Exists, message, path: Some(path.to_path_buf()) }
    }

    /// The same, of `path` unless it is about another one.
    pub(crate) fn about(self, path: &Path) -> Self {
        match self {
            Self::Input(message) => Self::Known { fault: Fault::Invalid, message, path: Some(path.to_path_buf()) },
            Self::Usage(message) => Self::Known { fault: Fault::Usage, message, path: Some(path.to_path_buf()) },
            Self::Known { fault, message, path: None } => {
                Self::Known { fault, message, path: Some(path.to_path_buf()) }
            }
            other => other,
        }
    }

    /// Of work of which nothing stays when it is stopped.
    pub(crate) fn of_whole(error: Error) -> Self {
        match error {
            Error::Stopped => {
                Self::Interrupted(format!("{error}; nothing is changed or kept, and another call starts over"))
            }
            error => error.into(),
        }
    }

    /// The system refused to do something.
    pub(crate) fn io(action: &str, path: &Path, error: &io::Error) -> Self {
        let message = format!("can't {action} {}: {}", path.display(), of_system(error));
        Self::Known { fault: Fault::of_io(error), message, path: Some(path.to_path_buf()) }
    }

    /// What `--json` prints. `command_path`: what the command was about, for a failure that is about nothing else.
    pub(crate) fn to_json(&self, command_path: Option<&Path>) -> Value {
        let own = match self {
            Self::Known { path, .. } => path.as_deref(),
            _ => None,
        };
        json!({
            "kind": self.fault().row().0,
            "message": self.to_string(),
            "path": own.or(command_path).map(|path| path.display().to_string()),
            "exit_code": self.exit_code(),
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text) | Self::Input(text) | Self::Interrupted(text) | Self::Run(text)) = self else {
            let Self::Known { message, .. } = self else { unreachable!("the others are above") };
            return f.write_str(message);
        };
        f.write_str(text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let path = match &error {
            Error::Io { path, .. }
            | Error::Exists { path, .. }
            | Error::Locked { path }
            | Error::Format { path, .. }
            | Error::Unsupported { path, .. }
            | Error::Unfinished { path, .. }
            | Error::Conflict { path, .. }
            | Error::NotFound { path, .. } => Some(path.clone()),
            Error::Config { field: "out", value, .. } => Some(value.into()),
            _ => None,
        };
        let message = match &error {
            // A switch has no value.
            Error::Config { field: "sharding", reason, .. } => format!("--unsharded: {reason}"),
            Error::Config { field: "volume.gzip_indexes", reason, .. } => format!("--gzip-indexes: {reason}"),
            // What is kept, not what is halved.
            Error::Config { field: "pyramid.y", reason, .. } => format!("--keep y,x: {reason}"),
            Error::Config { field, value, reason } => match option_of(field) {
                Some(option) => format!("{option} {}: {reason}", as_option(value)),
                None => format!("{field} = {value}: {reason}"),
            },
            Error::Exists { path, .. } => {
                return Self::exists(path, "choose another path, or replace it with --overwrite");
            }
            Error::Stopped => format!("{error}; what was finished stays, and another call goes on from there"),
            _ => error.to_string(),
        };
        Self::Known { fault: Fault::of(&error), message: with_options(&message), path }
    }
}

/// The text with the names of options as the command line has them: the library writes "the option `name`", or names
/// a function to call.
pub(crate) fn with_options(text: &str) -> String {
    CALLS.iter().fold(with_fields(text), |text, (call, option)| text.replace(call, option))
}

/// The same of all of these texts.
pub(crate) fn name_options<'a>(texts: impl IntoIterator<Item = &'a mut String>) {
    texts.into_iter().for_each(|text| *text = with_options(text));
}

fn with_fields(text: &str) -> String {
    const LEAD: &str = "the option `";
    let Some((before, rest)) = text.split_once(LEAD) else { return text.to_owned() };
    let Some((name, after)) = rest.split_once('`') else { return text.to_owned() };
    let option = option_of(name).map_or_else(|| format!("{LEAD}{name}`"), str::to_owned);
    format!("{before}{option}{}", with_fields(after))
}

/// What a program calls, and what stands for that on the command line.
const CALLS: [(&str, &str); 2] = [
    ("call follow_links_anywhere", "allow it with --follow-links"),
    ("call follow_manifests_anywhere", "allow it with --follow-manifests"),
];

/// The options that set fields of the library's configuration.
const OPTIONS: [(&str, &str); 52] = [
    ("dims.chunk", "--chunk"),
    ("dims.shard", "--shard"),
    ("dims.size", "--shape"),
    ("codec.compressor.level", "--level"),
    ("codec.compressor", "--codec"),
    ("codec.checksum", "--no-checksum"),
    ("index_location", "--index"),
    ("dialect", "--dialect"),
    ("codec", "--codec"),
    ("key", "--key"),
    ("bare", "--bare"),
    ("volume.key", "--scale-key"),
    ("volume.hash", "--hash"),
    ("volume.preshift_bits", "--preshift-bits"),
    ("volume.minishard_bits", "--minishard-bits"),
    ("volume.shard_bits", "--shard-bits"),
    ("volume.resolution", "--resolution"),
    ("volume.voxel_offset", "--voxel-offset"),
    ("pixel_format", "--pixel-format"),
    ("unused_low_bits", "--unused-bits"),
    ("frame_layout.row_stride", "--row-stride"),
    ("ring_bytes", "--memory"),
    ("workers", "--workers"),
    ("affinity", "--affinity"),
    ("url_prefix", "--url-prefix"),
    ("region", "--region"),
    ("memory_bytes", "--memory"),
    ("chunk", "--chunk"),
    ("shard", "--shard"),
    ("sharding", "--unsharded"),
    ("index_checksum", "--index-checksum"),
    ("only", "--only"),
    ("skip", "--skip"),
    ("incomplete", "--incomplete"),
    ("space", "--no-space-check"),
    ("part", "--parts"),
    ("path", "PATH"),
    ("out", "OUTPUT"),
    ("ome", "--ome"),
    ("levels", "--levels"),
    ("pyramid", "--pyramid"),
    ("pyramid.depth", "--z"),
    ("depth", "--z"),
    ("pyramid.levels", "--levels"),
    ("pyramid.y", "--keep"),
    ("dims.scale", "--pixel-size"),
    ("dims.translation", "--translation"),
    ("dtype", "--dtype"),
    ("guard_maps", "--guard-maps"),
    ("kerchunk_zarr_format", "--zarr-format"),
    ("manifest", "--manifest"),
    ("volume.gzip_indexes", "--gzip-indexes"),
];

/// A value as it follows an option: the library writes lists as JSON does.
fn as_option(value: &str) -> String {
    let list = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    list.map_or_else(|| value.to_owned(), |list| list.replace(", ", ","))
}

fn option_of(field: &str) -> Option<&'static str> {
    OPTIONS.iter().find(|(of, _)| *of == field).map(|row| row.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_named_as_on_the_command_line() {
        let told = with_options("add \"a\" to the option `skip`, or the option `mine`; see the option `space`");
        assert_eq!(told, "add \"a\" to --skip, or the option `mine`; see --no-space-check");
        assert_eq!(with_options("the option `"), "the option `");
        assert_eq!(
            with_options("if you trust it, call follow_links_anywhere"),
            "if you trust it, allow it with --follow-links"
        );
    }

    #[test]
    fn what_the_system_says_has_no_number() {
        let failure = Failure::io("read", Path::new("a"), &io::Error::from_raw_os_error(libc::EACCES));
        assert_eq!(failure.to_string(), "can't read a: Permission denied");
    }

    #[test]
    fn a_stop_says_what_stays() {
        let told: [Failure; 2] = [Error::Stopped.into(), Failure::of_whole(Error::Stopped)];
        assert_eq!(told.each_ref().map(Failure::exit_code), [exit::INTERRUPTED; 2]);
        assert_eq!(
            told.map(|failure| failure.to_string()),
            [
                "stopped before the end; what was finished stays, and another call goes on from there",
                "stopped before the end; nothing is changed or kept, and another call starts over",
            ]
        );
    }

    #[test]
    fn values_of_options_are_written_as_on_the_command_line() {
        let of = |field, value: &str| {
            let error = Error::Config { field, value: value.into(), reason: "can't be".into() };
            Failure::from(error).to_string()
        };
        assert_eq!(of("chunk", "[7, 8, 9]"), "--chunk 7,8,9: can't be");
        assert_eq!(of("skip", "[\"0\"]"), "--skip \"0\": can't be");
        assert_eq!(of("volume.gzip_indexes", "true"), "--gzip-indexes: can't be");
        assert_eq!(of("dims.name", "[t, t]"), "dims.name = [t, t]: can't be");
    }

    /// Fields that only programs set.
    const WITHOUT_OPTION: [&str; 34] = [
        "acquisition_order",
        "attribute",
        "axes",
        "channels",
        "channels.color",
        "channels.window",
        "codec.compressor.block_bytes",
        "dims",
        "dims.name",
        "fill_value",
        "frame_layout.buffer_bytes",
        "frame_layout.offset",
        "handle",
        "images",
        "label",
        "label.colors",
        "label.properties",
        "leap_max",
        "name",
        "offset",
        "own_buffers",
        "plate",
        "plate.acquisitions",
        "plate.rows",
        "plate_acquisition",
        "range",
        "record_fields",
        "record_fields.name",
        "record_roi",
        "ring_mark",
        "samples",
        "store",
        "volume",
        "write_bytes",
    ];

    fn sources_below(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let read = |path: PathBuf| match path.is_dir() {
            true => sources_below(&path),
            false if path.extension().is_some_and(|ending| ending == "rs") => {
                vec![std::fs::read_to_string(path).unwrap()]
            }
            false => Vec::new(),
        };
        entries.flat_map(read).collect()
    }

    #[test]
    fn every_field_that_the_library_refuses_has_an_option_or_none() {
        let sources = sources_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src"));
        let refusals = sources.iter().flat_map(|source| source.split("Error::config(").skip(1));
        let fields = refusals.filter_map(|after| after.trim_start().strip_prefix('"')?.split('"').next());
        let mut seen = std::collections::BTreeSet::new();
        for field in fields {
            let known = [option_of(field).is_some(), WITHOUT_OPTION.contains(&field)];
            assert!(known[0] != known[1], "{field}: enter it in OPTIONS, or in WITHOUT_OPTION");
            seen.insert(field);
        }
        assert!(seen.len() > 40 && WITHOUT_OPTION.iter().all(|field| seen.contains(field)), "{seen:?}");
    }

    #[test]
    fn every_option_that_errors_name_is_one() {
        let command = <crate::args::Cli as clap::CommandFactory>::command();
        let of_all = command.get_subcommands().flat_map(clap::Command::get_arguments);
        let known: Vec<String> = of_all.filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
        for (field, option) in OPTIONS.iter().filter(|(_, option)| option.starts_with('-')) {
            assert!(known.iter().any(|known| known == option), "{field}: there is no option {option}");
        }
    }
}
