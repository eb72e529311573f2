//! Cameras that fill the ring's buffers with pictures whose pixels have several samples: each picture is a frame of
//! every channel, compared with what a loop over samples makes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::own_buffers;
use shardwright::offline::Array;
use shardwright::{
    Acquisition, Config, Dim, Downsampling, Dtype, Error, FrameLayout, FrameMut, Memory, Orientation, PixelFormat,
    Record, RecordField, RefusedNumber, RingFull, Roi,
};

const ROWS: usize = 9;
const PAGE: usize = 4096;

fn config(dtype: Dtype, format: PixelFormat, columns: usize) -> Config {
    let samples = format.samples() as u64;
    Config {
        dtype,
        pixel_format: format,
        dims: vec![
            Dim::time(None).chunk(1).shard(2),
            Dim::channel(samples).chunk(1).shard(samples),
            Dim::y(ROWS as u64).chunk(4),
            Dim::x(columns as u64).chunk(16),
        ],
        ring_bytes: 1 << 18,
        workers: 2,
        sync: false,
        ..Config::default()
    }
}

/// Bytes in which no value repeats soon, of picture `number`.
fn picture(number: usize, bytes: usize) -> Vec<u8> {
    let places = (number * bytes) as u64..((number + 1) * bytes) as u64;
    places.map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 37) as u8).collect()
}

/// The samples of a picture, channel by channel.
fn apart(picture: &[u8], samples: usize, size: usize) -> Vec<u8> {
    let channel = |channel| picture.chunks(size).skip(channel).step_by(samples).flatten().copied();
    (0..samples).flat_map(channel).collect()
}

/// Fills a buffer as the camera does, row by row.
fn fill(frame: &mut FrameMut, picture: &[u8], layout: Option<FrameLayout>) {
    let row_bytes = picture.len() / ROWS;
    let (offset, stride) = layout.map_or((0, row_bytes), |layout| (layout.offset, layout.row_stride));
    for (row, pixels) in picture.chunks(row_bytes).enumerate() {
        frame[offset + row * stride..][..row_bytes].copy_from_slice(pixels);
    }
}

fn read(path: &Path) -> Vec<u8> {
    Array::open(path).unwrap().read_all().unwrap()
}

fn commit(acquisition: &Acquisition, number: Option<u64>, pixels: &[u8]) {
    let mut frame = acquisition.acquire().unwrap();
    fill(&mut frame, pixels, None);
    match number {
        Some(number) => frame.commit(number, Record::default()).unwrap(),
        None => frame.commit_next(Record::default()).unwrap(),
    }
}

/// Writes pictures through the ring's buffers: every second pair the later one first, with discarded loans between.
fn check(config: Config, pictures: usize) {
    let (samples, size) = (config.pixel_format.samples(), config.dtype.size());
    let columns = config.dims[3].size.unwrap() as usize;
    let (layout, what) = (config.frame_layout, format!("{} {} {columns}", config.dtype, config.pixel_format));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, config).unwrap();
    let given: Vec<_> = (0..pictures).map(|number| picture(number, ROWS * columns * samples * size)).collect();
    for number in (0..pictures).map(|at| if at / 2 % 2 == 1 && (at ^ 1) < pictures { at ^ 1 } else { at }) {
        let mut frame = acquisition.acquire().unwrap();
        fill(&mut frame, &given[number], layout);
        if number % 3 == 0 {
            frame.fill(0xEE);
            frame.discard();
            frame = acquisition.acquire().unwrap();
            fill(&mut frame, &given[number], layout);
        }
        frame.commit((number * samples) as u64, Record::default()).unwrap();
    }
    let summary = acquisition.finish().unwrap();
    assert_eq!((summary.frames_written, summary.frames_missing), ((pictures * samples) as u64, 0), "{what}");
    let expected: Vec<u8> = given.iter().flat_map(|picture| apart(picture, samples, size)).collect();
    assert!(read(&path.join("0")) == expected, "{what}");
}

#[test]
fn each_channel_is_a_frame_of_its_own() {
    for dtype in [Dtype::U8, Dtype::U16, Dtype::F32, Dtype::I64] {
        for (format, columns) in
            [PixelFormat::Rgb, PixelFormat::Rgba].into_iter().flat_map(|format| [1, 2, 31, 70].map(|n| (format, n)))
        {
            let config = config(dtype, format, columns);
            let row_stride = columns * format.samples() * dtype.size() + 5;
            // The last row ends with the buffer.
            let frame_layout = Some(FrameLayout { buffer_bytes: 64 + ROWS * row_stride - 5, offset: 64, row_stride });
            check(Config { frame_layout, ..config.clone() }, 6);
            check(config, 7);
        }
    }
}

/// All samples of a pixel in one chunk, half of them, and pictures behind each other.
#[test]
fn chunks_may_be_deeper_than_a_channel_or_a_picture() {
    for (format, chunks) in [
        (PixelFormat::Rgb, [1, 3]),
        (PixelFormat::Rgb, [2, 1]),
        (PixelFormat::Rgb, [4, 3]),
        (PixelFormat::Rgba, [1, 2]),
        (PixelFormat::Rgba, [2, 4]),
        (PixelFormat::Rgba, [3, 2]),
    ] {
        let mut config = config(Dtype::U16, format, 33);
        let samples = format.samples() as u64;
        config.dims[0] = Dim::time(None).chunk(chunks[0]).shard(2 * chunks[0]);
        config.dims[1] = Dim::channel(samples).chunk(chunks[1]).shard(samples);
        check(config, 24);
    }
}

/// No more buffers than the layers of one block need, and two.
#[test]
fn the_smallest_ring_is_counted_in_pictures() {
    let mut config = config(Dtype::U8, PixelFormat::Rgb, 20);
    config.dims[0] = Dim::time(None).chunk(2).shard(4);
    config.ring_bytes = 4 * PAGE;
    config.workers = 1;
    check(config.clone(), 60);
    let acquisition = Acquisition::create_in(Arc::new(Memory::new()), config.clone()).unwrap();
    assert_eq!((acquisition.stats().ring_frames, acquisition.buffer_addresses().len()), (4, 4));
    drop(acquisition);
    config.ring_bytes -= PAGE;
    let error = Acquisition::create_in(Arc::new(Memory::new()), config).unwrap_err().to_string();
    assert!(error.contains("a ring of 4 pictures is needed, 16384 bytes"), "{error}");
}

#[test]
fn pictures_are_turned_as_frames_are() {
    let (columns, samples) = (11, 4);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let mut config = config(Dtype::U16, PixelFormat::Rgba, 1);
    // A quarter turn: the array's rows are the camera's columns.
    config.dims[2] = Dim::y(columns as u64).chunk(4);
    config.dims[3] = Dim::x(ROWS as u64).chunk(4);
    config.orientation = Orientation::quarter_turns(1);
    let acquisition = Acquisition::create(&path, config).unwrap();
    let given = picture(3, ROWS * columns * samples * 2);
    commit(&acquisition, None, &given);
    let mut live = vec![0; ROWS * columns * 2];
    acquisition.read_frame(2, &mut live).unwrap();
    acquisition.finish().unwrap();
    let frames = apart(&given, samples, 2);
    let turned = |frame: &[u8]| -> Vec<u8> {
        let places = (0..columns).rev().flat_map(|x| (0..ROWS).map(move |y| 2 * (y * columns + x)));
        places.flat_map(|at| [frame[at], frame[at + 1]]).collect()
    };
    let expected: Vec<Vec<u8>> = frames.chunks(ROWS * columns * 2).map(turned).collect();
    assert!(live == expected[2]);
    assert!(read(&path.join("0")) == expected.concat());
}

/// The levels beside pictures in the ring are those beside frames that were appended.
#[test]
fn levels_are_made_of_each_channel() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, format: PixelFormat| {
        let base = config(Dtype::U16, PixelFormat::Rgb, 31);
        let pyramid = Some(Downsampling { levels: Some(2), ..Downsampling::default() });
        let path = folder.path().join(name);
        let acquisition = Acquisition::create(&path, Config { pixel_format: format, pyramid, ..base }).unwrap();
        for number in 0..9 {
            let given = picture(number, ROWS * 31 * 3 * 2);
            match format {
                PixelFormat::Plain => assert_eq!(acquisition.append_interleaved(&given, 3).unwrap().frames, 3),
                _ => commit(&acquisition, None, &given),
            }
        }
        acquisition.finish().unwrap();
        ["0", "1", "2"].map(|level| read(&path.join(level)))
    };
    assert!(of("filled.zarr", PixelFormat::Rgb) == of("appended.zarr", PixelFormat::Plain));
}

#[test]
fn a_picture_has_the_number_of_its_first_channel() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let record_fields = vec![RecordField { name: "gain".into(), dtype: Dtype::U8 }];
    let base = config(Dtype::U8, PixelFormat::Rgb, 20);
    let acquisition = Acquisition::create(&path, Config { record_fields, ..base }).unwrap();
    let given = picture(0, ROWS * 20 * 3);
    let mut frame = acquisition.acquire().unwrap();
    fill(&mut frame, &given, None);
    let refused = frame.try_commit(Some(4), Record::default()).unwrap_err();
    assert!(matches!(refused.error, Error::FrameNumber { number: 4, why: RefusedNumber::NotFirst }));
    assert!(refused.error.to_string().contains("first channel"), "{}", refused.error);
    // Pictures 0 and 1 are missing.
    let view = refused.frame.commit_viewed(Some(6), Record::stamped(5).with(0, 9)).unwrap();
    assert!((view.number(), &*view) == (6, &given[..]));
    assert_eq!(acquisition.next_number(), 9);
    let again = acquisition.acquire().unwrap().try_commit(Some(6), Record::default()).unwrap_err();
    assert!(matches!(again.error, Error::FrameNumber { number: 6, why: RefusedNumber::Duplicate }));
    drop((view, again));
    assert_eq!(acquisition.newest().map(|view| view.number()).unwrap_or(6), 6);
    let summary = acquisition.finish().unwrap();
    assert_eq!((summary.frames_written, summary.frames_missing), (3, 6));
    let expected = [vec![0; 2 * given.len()], apart(&given, 3, 1)].concat();
    assert!(read(&path.join("0")) == expected);
    let numbers = read(&path.join("records/frame_number"));
    let numbers: Vec<i64> = numbers.chunks(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect();
    assert_eq!(numbers[6..9], [6, 7, 8]);
    assert!(numbers[..6].iter().all(|&number| number < 0), "{numbers:?}");
    assert_eq!(read(&path.join("records/gain"))[6..9], [9; 3]);
}

/// Threads that give no numbers get whole pictures, also where a block of shards is shorter than one.
#[test]
fn threads_share_the_numbers_of_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let mut config = config(Dtype::U8, PixelFormat::Rgba, 20);
    config.dims[0] = Dim::time(None).chunk(1).shard(1);
    config.dims[1] = Dim::channel(4).chunk(1).shard(1);
    config.ring_bytes = 16 * PAGE;
    let acquisition = Acquisition::create(&path, config).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3_u8 {
            let acquisition = &acquisition;
            scope.spawn(move || {
                for number in 0..40 {
                    let samples = [0, 1, 2, 3].map(|sample| 1 + 80 * thread + 2 * number + sample % 2);
                    commit(acquisition, None, &samples.repeat(ROWS * 20));
                }
            });
        }
    });
    let summary = acquisition.finish().unwrap();
    assert_eq!((summary.frames_written, summary.frames_missing), (480, 0));
    let frames = read(&path.join("0"));
    let mut found: Vec<u8> = frames.chunks(4 * ROWS * 20).map(|picture| picture[0]).collect();
    for picture in frames.chunks(4 * ROWS * 20) {
        let samples = [0, 1, 2, 3].map(|sample| picture[0] + sample % 2);
        assert!(picture == apart(&samples.repeat(ROWS * 20), 4, 1));
    }
    found.sort_unstable();
    assert!(found == (0..120).map(|at| 1 + 2 * at).collect::<Vec<u8>>());
}

#[test]
fn pictures_that_find_no_buffer_are_let_go_as_a_whole() {
    let start = |ring_full| {
        let config = Config { ring_full, ..config(Dtype::U8, PixelFormat::Rgb, 20) };
        let acquisition = Acquisition::create_in(Arc::new(Memory::new()), config).unwrap();
        let kept: Vec<_> = std::iter::from_fn(|| acquisition.try_acquire().ok()).collect();
        (acquisition, kept)
    };
    let given = picture(0, ROWS * 20 * 3);
    let (acquisition, mut kept) = start(RingFull::DropNewest);
    let all = kept.len();
    assert_eq!(acquisition.stats().ring_frames, all);
    let appended = acquisition.append(&given).unwrap();
    assert_eq!((appended.frames, appended.dropped), (0, 3));
    kept.pop();
    let appended = acquisition.append_interleaved(&given, 3).unwrap();
    assert_eq!((appended.frames, appended.dropped), (3, 0));
    kept.push(acquisition.acquire_timeout(Duration::from_secs(30)).unwrap());
    let error = acquisition.acquire().unwrap_err();
    let Error::RingFull { frames, on_loan, waiting, in_work, .. } = error else { panic!("{error}") };
    assert_eq!((frames, on_loan, waiting + in_work), (all, all, 0));
    drop(kept);
    assert_eq!(acquisition.stats().frames_dropped, 6);
    let summary = acquisition.finish().unwrap();
    assert_eq!((summary.frames_written, summary.frames_missing), (3, 6));

    let (acquisition, kept) = start(RingFull::Error);
    assert!(acquisition.append(&given).unwrap_err().is_ring_full());
    drop(kept);
    assert_eq!(acquisition.append(&[&given[..]; 2].concat()).unwrap().frames, 6);
    assert_eq!(acquisition.finish().unwrap().bytes_in, 2 * given.len() as u64);
}

/// A driver that was told of its own buffers fills them with pictures.
#[test]
fn own_buffers_hold_pictures() {
    let (buffers, addresses) = own_buffers::buffers(6, 2 * PAGE, &Arc::default());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let config = config(Dtype::U16, PixelFormat::Rgba, 70);
    let acquisition = Acquisition::create_with_buffers(&path, config, buffers).unwrap();
    assert_eq!(acquisition.buffer_addresses().iter().map(|start| start.addr()).collect::<Vec<_>>(), addresses);
    let given: Vec<_> = (0..20).map(|number| picture(number, ROWS * 70 * 8)).collect();
    given.iter().for_each(|given| commit(&acquisition, None, given));
    assert_eq!(acquisition.finish().unwrap().frames_written, 80);
    let expected: Vec<u8> = given.iter().flat_map(|picture| apart(picture, 4, 2)).collect();
    assert!(read(&path.join("0")) == expected);
}

#[test]
fn what_has_no_place_for_pictures_is_refused() {
    let refused = |config: Config, field: &str, part: &str| {
        let error = Acquisition::create_in(Arc::new(Memory::new()), config).unwrap_err();
        assert!(matches!(error, Error::Config { field: of, .. } if of == field), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    let base = || config(Dtype::U16, PixelFormat::Rgb, 8);
    refused(Config { pixel_format: PixelFormat::Rgba, ..base() }, "pixel_format", "4 samples");
    let mut time_alone = base();
    time_alone.dims.remove(1);
    refused(time_alone, "pixel_format", "it has no end");
    refused(Config { record_roi: true, ..base() }, "record_roi", "rgb pictures can't be padded");
    refused(Config { unused_low_bits: 4, ..base() }, "unused_low_bits", "rgb pixels have no unused bits");
    let acquisition = Acquisition::create_in(Arc::new(Memory::new()), base()).unwrap();
    assert_eq!(acquisition.frame_bytes(), ROWS * 8 * 6);
    let mut frame = acquisition.acquire().unwrap();
    assert_eq!(frame.elements::<u16>().unwrap().len(), ROWS * 8 * 3);
    assert!(matches!(frame.pad(Roi { y: 0, x: 0, height: 1, width: 1 }), Err(Error::Config { .. })));
    let error = acquisition.append_interleaved(&[0; ROWS * 8 * 8], 4).unwrap_err().to_string();
    assert!(error.contains("has 3 elements"), "{error}");
}
