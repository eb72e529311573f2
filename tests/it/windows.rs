//! The windows in which viewers open channels: as they were asked for, else what the first frames show.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shardwright::{Acquisition, Channel, Config, Dim, Dtype, Memory, Orientation, PixelFormat};

const ROWS: usize = 40;
const COLUMNS: usize = 50;

fn channel(window: Option<(f64, f64)>) -> Channel {
    Channel { label: "one".into(), color: "FFFFFF".into(), window }
}

fn config(channels: Vec<Channel>) -> Config {
    let channel_dim = Dim::channel(channels.len() as u64);
    let dims = vec![Dim::time(None).shard(2), channel_dim, Dim::y(ROWS as u64), Dim::x(COLUMNS as u64)];
    Config { dtype: Dtype::U16, dims, channels, ..Config::default() }
}

/// 2,000 values from `base` on, each by one more than the one before, and at both ends a pixel that tells nothing.
fn pixels(base: u16) -> Vec<u16> {
    let mut pixels: Vec<u16> = (0..(ROWS * COLUMNS) as u16).map(|at| base + at).collect();
    (pixels[0], pixels[77]) = (0, 4095);
    pixels
}

fn bytes(pixels: &[u16]) -> Vec<u8> {
    pixels.iter().flat_map(|pixel| pixel.to_ne_bytes()).collect()
}

fn append(acquisition: &Acquisition, frame: &[u8]) {
    assert_eq!(acquisition.append(frame).expect("a frame").frames, 1);
}

fn windows(memory: &Memory) -> Vec<Value> {
    let document: Value = serde_json::from_slice(&memory.read("zarr.json").expect("a document")).expect("JSON");
    let channels = document["attributes"]["ome"]["omero"]["channels"].as_array().expect("channels").clone();
    channels.into_iter().map(|channel| channel["window"].clone()).collect()
}

fn window(start: u16, end: u16) -> Value {
    json!({"start": start, "end": end, "min": 0, "max": 65535})
}

#[test]
fn channels_open_in_the_window_of_their_first_frames_already_while_these_arrive() {
    let memory = Arc::new(Memory::new());
    let channels = vec![channel(None), channel(Some((7.0, 9.0))), channel(None)];
    let acquisition = Acquisition::create_in(memory.clone(), config(channels)).expect("a run");
    assert_eq!(windows(&memory), [window(0, 65535), window(7, 9), window(0, 65535)], "nothing is known yet");
    let append = |base: u16| append(&acquisition, &bytes(&pixels(base)));
    for _ in 0..4 {
        [100, 200, 300].into_iter().for_each(append);
    }
    let found = [window(102, 2098), window(7, 9), window(302, 2298)];
    let since = Instant::now();
    while windows(&memory) != found {
        assert!(since.elapsed() < Duration::from_secs(30), "{:?}", windows(&memory));
        std::thread::sleep(Duration::from_millis(5));
    }
    // What comes much later no longer counts, and what was found stays.
    for _ in 0..8 {
        [1000, 1000, 1000].into_iter().for_each(append);
    }
    acquisition.finish().expect("an end");
    let [first, _, last] = windows(&memory).try_into().expect("three");
    assert_eq!((&first["start"], &last["start"]), (&json!(102), &json!(302)));
    assert!(first["end"].as_u64() <= Some(2998) && last["end"].as_u64() <= Some(2998), "{first} {last}");
}

#[test]
fn windows_are_those_of_the_array_however_a_camera_packs_its_pixels() {
    let memory = Arc::new(Memory::new());
    let orientation = Orientation { transpose: true, ..Orientation::default() };
    let config = Config { pixel_format: PixelFormat::Mono12p, orientation, ..config(vec![channel(None)]) };
    let acquisition = Acquisition::create_in(memory.clone(), config).expect("a run");
    let pack = |pair: &[u16]| [pair[0] as u8, (pair[0] >> 8 | pair[1] << 4) as u8, (pair[1] >> 4) as u8];
    let packed: Vec<u8> = pixels(100).chunks(2).flat_map(pack).collect();
    append(&acquisition, &packed);
    acquisition.finish().expect("an end");
    assert_eq!(windows(&memory), [window(102, 2098)]);
}

#[test]
fn a_channel_that_shows_nothing_keeps_the_whole_range() {
    let memory = Arc::new(Memory::new());
    let acquisition = Acquisition::create_in(memory.clone(), config(vec![channel(None)])).expect("a run");
    append(&acquisition, &bytes(&[5; ROWS * COLUMNS]));
    acquisition.finish().expect("an end");
    assert_eq!(windows(&memory), [window(0, 65535)]);
}
