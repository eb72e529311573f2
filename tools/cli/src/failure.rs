//! Why the command ended without success, as one sentence and one exit code.

use std::fmt;

use shardwright::ErrorKind;

/// A failure, sorted by whose turn it is: the caller's, the recording's, or the machine's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The command line asks for something that can't be.
    Usage(String),
    /// The recording does not hold what it should.
    Input(String),
    /// A dataset could not be looked at, so that nothing is known about it.
    Unchecked(String),
    /// Ctrl-C or SIGTERM ended it.
    Interrupted(String),
    /// Something else went wrong on the way.
    Run(String),
}

/// Exit codes, as `--help` lists them.
pub(crate) mod exit {
    pub(crate) const FINE: u8 = 0;
    pub(crate) const FAILURE: u8 = 1;
    /// Of `verify` and `recover`: there is something to tell.
    pub(crate) const FOUND: u8 = 1;
    pub(crate) const UNCHECKED: u8 = 2;
    pub(crate) const USAGE: u8 = 2;
    pub(crate) const INPUT: u8 = 3;
    pub(crate) const FRAMES_LOST: u8 = 4;
    pub(crate) const INTERRUPTED: u8 = 130;
}

impl Failure {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => exit::USAGE,
            Self::Input(_) => exit::INPUT,
            Self::Unchecked(_) => exit::UNCHECKED,
            Self::Interrupted(_) => exit::INTERRUPTED,
            Self::Run(_) => exit::FAILURE,
        }
    }
}

impl Failure {
    /// Of an operation on a dataset that is there: what it holds is the input.
    pub(crate) fn of_dataset(error: shardwright::Error) -> Self {
        match error.kind() {
            ErrorKind::Corrupt | ErrorKind::Unsupported | ErrorKind::NotFound => Self::Input(error.to_string()),
            _ => error.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text) | Self::Input(text) | Self::Unchecked(text) | Self::Interrupted(text) | Self::Run(text)) =
            self;
        f.write_str(text)
    }
}

impl From<shardwright::Error> for Failure {
    fn from(error: shardwright::Error) -> Self {
        match error {
            shardwright::Error::Config { field, value, reason } => match option_of(field) {
                Some(option) => Self::Usage(format!("{option} {value}: {reason}")),
                None => Self::Usage(format!("{field} = {value}: {reason}")),
            },
            shardwright::Error::Stopped => Self::Interrupted(error.to_string()),
            shardwright::Error::Exists { .. } => Self::Run(format!("{error}; --overwrite replaces it")),
            _ => Self::Run(error.to_string()),
        }
    }
}

/// The option that sets a field of the library's configuration.
fn option_of(field: &str) -> Option<&'static str> {
    Some(match field {
        "dims.chunk" => "--chunk",
        "dims.shard" => "--shard",
        "dims.size" => "--shape",
        "codec.compressor.level" => "--level",
        "codec.compressor" => "--codec",
        "codec.checksum" => "--no-checksum",
        "index_location" => "--index",
        "dialect" => "--dialect",
        "volume.key" => "--key",
        "volume.hash" => "--hash",
        "volume.preshift_bits" => "--preshift-bits",
        "volume.minishard_bits" => "--minishard-bits",
        "volume.shard_bits" => "--shard-bits",
        "volume.resolution" => "--resolution",
        "ring_bytes" => "--memory",
        "workers" => "--workers",
        "affinity" => "--affinity",
        "url_prefix" => "--url-prefix",
        "region" => "--region",
        "memory_bytes" => "--memory",
        "chunk" => "--chunk",
        "shard" => "--shard",
        _ => return None,
    })
}
