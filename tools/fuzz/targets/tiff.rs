//! A TIFF recording, through the command's own reader of them.
#![no_main]
#![allow(dead_code, unused_imports, reason = "the command needs more of its files than this target")]

#[path = "../../cli/src/args/mod.rs"]
mod args;
#[path = "../../cli/src/failure.rs"]
mod failure;
#[path = "../../cli/src/place.rs"]
mod place;
#[path = "../../cli/src/region.rs"]
mod region;
#[path = "../../cli/src/source/mod.rs"]
mod source;

use std::io::Write;
use std::path::Path;
use std::sync::LazyLock;

use clap::Parser;
use libfuzzer_sys::fuzz_target;

/// The options of recordings, as they are if none is given.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    recording: args::RecordingArgs,
}

static OPTIONS: LazyLock<Options> = LazyLock::new(|| Options::parse_from(["tiff"]));

fuzz_target!(|data: &[u8]| {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(data).expect("written");
    let output = Path::new("elsewhere.zarr");
    let Ok(mut source) = source::open(file.path(), output, &OPTIONS.recording, None, 64 << 20) else { return };
    let (frames, bytes) = (source.recording().frames.unwrap_or(1), source.recording().frame_bytes());
    // A page may be as large as it says; the command has its own limit for a frame, its ring.
    if bytes > 16 << 20 {
        return;
    }
    let mut frame = vec![0; bytes as usize];
    for number in 0..frames.min(8) {
        drop(source.read(number, &mut frame));
    }
});
