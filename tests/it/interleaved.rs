//! Pictures whose pixels have several samples: each becomes a frame, compared with what a loop over samples makes.

use std::sync::Arc;
use std::time::Duration;

use shardwright::offline::Array;
use shardwright::{
    Acquisition, Config, Dim, Dtype, Error, FrameLayout, Memory, Orientation, PixelFormat, Record, RingFull,
};

const ROWS: usize = 9;
const PICTURES: usize = 4;

fn config(dtype: Dtype, samples: u64, columns: usize) -> Config {
    Config {
        dtype,
        dims: vec![
            Dim::time(None).chunk(1).shard(2),
            Dim::channel(samples).chunk(1).shard(samples),
            Dim::y(ROWS as u64),
            Dim::x(columns as u64),
        ],
        ring_bytes: 1 << 18,
        workers: 1,
        sync: false,
        ..Config::default()
    }
}

/// Bytes in which no value repeats soon.
fn bytes(count: usize) -> Vec<u8> {
    (0..count as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 37) as u8).collect()
}

/// Every sample of pictures whose rows lie `stride` bytes apart, sample by sample.
fn apart(pictures: &[u8], stride: usize, columns: usize, samples: usize, size: usize) -> Vec<u8> {
    let mut frames = Vec::new();
    for (picture, sample) in (0..PICTURES).flat_map(|picture| (0..samples).map(move |sample| (picture, sample))) {
        for (row, column) in (0..ROWS).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            let at = (picture * ROWS + row) * stride + (column * samples + sample) * size;
            frames.extend_from_slice(&pictures[at..at + size]);
        }
    }
    frames
}

fn written(config: Config, append: impl FnOnce(&Acquisition)) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, config).unwrap();
    append(&acquisition);
    assert_eq!(acquisition.finish().unwrap().frames_missing, 0);
    Array::open(path.join("0")).unwrap().read_all().unwrap()
}

#[test]
fn each_sample_becomes_a_frame_of_its_own() {
    let types = [Dtype::U8, Dtype::I16, Dtype::F32, Dtype::U64];
    let samples = [3, 4];
    let gaps = [0, 5];
    for (dtype, samples, gap) in types
        .into_iter()
        .flat_map(|dtype| samples.map(|samples| (dtype, samples)))
        .flat_map(|(dtype, samples)| gaps.map(|gap| (dtype, samples, gap)))
    {
        for columns in [1, 2, 31, 70] {
            let (size, row) = (dtype.size(), columns * samples * dtype.size());
            let stride = row + gap;
            let pictures = bytes(PICTURES * ROWS * stride);
            let frame_layout = (gap > 0).then(|| FrameLayout {
                buffer_bytes: 64 + ROWS * (columns * size + 16),
                offset: 64,
                row_stride: columns * size + 16,
            });
            let found = written(Config { frame_layout, ..config(dtype, samples as u64, columns) }, |acquisition| {
                let (first, rest) = pictures.split_at(ROWS * stride);
                let one = acquisition.append_interleaved_with(first, samples, stride, Record::default()).unwrap();
                assert_eq!(one.frames, samples as u64);
                // The last row ends with the buffer.
                let rest = &rest[..rest.len() - gap];
                let more = acquisition.append_interleaved_with(rest, samples, stride, Record::default()).unwrap();
                assert_eq!((more.frames, more.dropped), ((PICTURES as u64 - 1) * samples as u64, 0));
            });
            assert!(found == apart(&pictures, stride, columns, samples, size), "{dtype} x {samples}, {columns}, {gap}");
        }
    }
}

#[test]
fn samples_are_turned_and_shifted_as_other_pixels_are() {
    let (columns, samples) = (9, 3);
    let numbers: Vec<u16> = (0..PICTURES * ROWS * columns * samples).map(|at| (at * 7 % 4096) as u16).collect();
    let given: Vec<u8> = numbers.iter().flat_map(|number| (number << 4).to_be_bytes()).collect();
    let config = Config {
        pixel_format: PixelFormat::BigEndian,
        unused_low_bits: 4,
        orientation: Orientation::quarter_turns(2),
        ..config(Dtype::U16, 3, columns)
    };
    let found = written(config, |acquisition| {
        assert_eq!(acquisition.append_interleaved(&given, samples).unwrap().frames, 12);
    });
    let native: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let frames = apart(&native, 2 * columns * samples, columns, samples, 2);
    let half_turn = |frame: &[u8]| frame.chunks(2).rev().flatten().copied().collect::<Vec<u8>>();
    let expected: Vec<u8> = frames.chunks(2 * ROWS * columns).flat_map(half_turn).collect();
    assert!(found == expected);
}

#[test]
fn pictures_that_do_not_fit_are_refused() {
    let start = |config| Acquisition::create_in(Arc::new(Memory::new()), config).unwrap();
    let refused = |acquisition: &Acquisition, samples: usize, part: &str| {
        let error = acquisition.append_interleaved(&[0; 9 * 8 * 3], samples).unwrap_err();
        assert!(matches!(error, Error::Config { field: "samples", .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    let colors = start(config(Dtype::U8, 3, 8));
    refused(&colors, 2, "3 or 4 samples");
    refused(&colors, 4, "has 3 elements");
    for (length, samples) in [(9 * 8 * 3 - 1, 3), (0, 3)] {
        let error = colors.append_interleaved(&vec![0; length], samples).unwrap_err();
        assert!(matches!(error, Error::FrameSize { expected: 216, .. }), "{error}");
    }
    let error = colors.append_interleaved_with(&[0; 216], 3, 23, Record::default()).unwrap_err();
    assert!(matches!(error, Error::RowStride { got: 23, row_bytes: 24, .. }), "{error}");
    for stride in [usize::MAX / 9, usize::MAX] {
        let error = colors.append_interleaved_with(&[0; 216], 3, stride, Record::default()).unwrap_err();
        assert!(matches!(error, Error::RowStride { got, .. } if got == stride), "{error}");
    }
    // Channels that are not what changes fastest.
    let slow = ["c".to_owned(), "t".to_owned()].to_vec();
    let mut config_slow = config(Dtype::U8, 3, 8);
    config_slow.dims[0].size = Some(5);
    refused(&start(Config { acquisition_order: slow, ..config_slow }), 3, "has 5 elements");
    let packed = Config { pixel_format: PixelFormat::Mono12p, ..config(Dtype::U16, 3, 8) };
    refused(&start(packed), 3, "one sample each");
}

/// A picture is taken as a whole, or no part of it.
#[test]
fn a_full_ring_lets_whole_pictures_go() {
    let samples = 3;
    let picture = bytes(ROWS * 8 * samples);
    let full = |ring_full| {
        let acquisition =
            Acquisition::create_in(Arc::new(Memory::new()), Config { ring_full, ..config(Dtype::U8, 3, 8) }).unwrap();
        let mut kept = Vec::new();
        while let Ok(frame) = acquisition.try_acquire() {
            kept.push(frame);
        }
        // Two are not enough.
        kept.truncate(kept.len() - 2);
        (acquisition, kept)
    };
    let (acquisition, kept) = full(RingFull::Error);
    assert!(acquisition.append_interleaved(&picture, samples).unwrap_err().is_ring_full());
    drop(kept);
    assert_eq!(acquisition.append_interleaved(&picture, samples).unwrap().frames, 3);
    assert_eq!(acquisition.finish().unwrap().frames_written, 3);

    let (acquisition, kept) = full(RingFull::DropNewest);
    let dropped = acquisition.append_interleaved(&picture, samples).unwrap();
    assert_eq!((dropped.frames, dropped.dropped), (0, 3));
    drop(kept);
    assert_eq!(acquisition.append_interleaved(&picture, samples).unwrap().frames, 3);
    let summary = acquisition.finish().unwrap();
    assert_eq!((summary.frames_written, summary.frames_missing), (3, 3));

    let (acquisition, kept) = full(RingFull::Block { timeout: Some(Duration::from_millis(20)) });
    assert!(acquisition.append_interleaved(&picture, samples).unwrap_err().is_ring_full());
    drop(kept);
    let (acquisition, mut kept) = full(RingFull::Block { timeout: None });
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| acquisition.append_interleaved(&picture, samples).unwrap().frames);
        std::thread::sleep(Duration::from_millis(5));
        kept.pop();
        assert_eq!(waits.join().unwrap(), 3);
    });
}

/// After a lone frame, a picture's red would stand in another channel.
#[test]
fn a_picture_begins_at_the_first_channel() {
    let samples = 3;
    let acquisition = Acquisition::create_in(Arc::new(Memory::new()), config(Dtype::U8, 3, 8)).unwrap();
    let pictures = bytes(2 * ROWS * 8 * samples);
    let single = &pictures[..ROWS * 8];
    assert_eq!(acquisition.append_interleaved(&pictures, samples).unwrap().frames, 6);
    assert_eq!(acquisition.append(single).unwrap().frames, 1);
    let error = acquisition.append_interleaved(&pictures, samples).unwrap_err();
    assert!(matches!(error, Error::Config { field: "samples", .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("number 7, which is of channel 1") && text.contains("2 more by themselves"), "{text}");
    assert_eq!(acquisition.append(&[single; 2].concat()).unwrap().frames, 2);
    assert_eq!(acquisition.append_interleaved(&pictures, samples).unwrap().frames, 6);
    assert_eq!(acquisition.finish().unwrap().frames_missing, 0);
}
