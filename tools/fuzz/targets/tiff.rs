//! A TIFF recording, through the command's own reader of them.
#![no_main]
#![allow(dead_code)]

#[path = "../../cli/src/args/mod.rs"]
mod args;
#[path = "../../cli/src/failure.rs"]
mod failure;
#[path = "../../cli/src/region.rs"]
mod region;
#[path = "../../cli/src/source/mod.rs"]
mod source;

use std::io::Write;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file");
    file.write_all(data).expect("written");
    let args = args::RecordingArgs {
        camera: None,
        shape: Vec::new(),
        axes: Vec::new(),
        dtype: None,
        offset: 0,
        series: None,
        frames: None,
        repeat: 1,
        preload: false,
        dma: false,
    };
    let Ok(mut source) = source::open(file.path(), &args, 64 << 20) else { return };
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
