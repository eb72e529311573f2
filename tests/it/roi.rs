//! Frames that are smaller than the image, compared with what a loop over pixels puts in their place.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use shardwright::offline::Array;
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dim, Downsampling, Dtype, Error, Flip, FrameLayout, FrameMut, Memory,
    Orientation, PixelFormat, Record, RecordField, RingFull, Roi,
};

const ROWS: usize = 13;
const COLUMNS: usize = 11;
const FILL: u16 = 700;

/// Of a camera with `ROWS` and `COLUMNS`. Chunks end within the regions, and beyond the image.
fn config(orientation: Orientation) -> Config {
    let (y, x) = if orientation.transpose { (COLUMNS, ROWS) } else { (ROWS, COLUMNS) };
    Config {
        dims: vec![
            Dim::time(None).chunk(2).shard(4),
            Dim::y(y as u64).chunk(5).shard(15),
            Dim::x(x as u64).chunk(4).shard(16),
        ],
        orientation,
        fill_value: FILL.into(),
        record_roi: true,
        ring_bytes: 1 << 18,
        workers: 2,
        sync: false,
        ..Config::default()
    }
}

/// All of a frame, its corners, its inside, and one pixel.
fn regions() -> Vec<Roi> {
    let roi = |y, x, height, width| Roi { y, x, height, width };
    vec![
        roi(0, 0, ROWS, COLUMNS),
        roi(0, 0, 5, 4),
        roi(0, 7, 3, 4),
        roi(4, 3, 2, 6),
        roi(8, 0, 5, COLUMNS),
        roi(0, 9, ROWS, 2),
        roi(12, 10, 1, 1),
    ]
}

fn pixels(number: usize, roi: Roi) -> Vec<u16> {
    (0..roi.height * roi.width).map(|at| ((number * 7919 + at) * 263 % 4096) as u16).collect()
}

/// The frame in the array, row by row, of a frame as the camera sees it.
fn turned(orientation: Orientation, pixels: &[u16]) -> Vec<Vec<u16>> {
    let mut rows: Vec<Vec<u16>> = pixels.chunks(COLUMNS).map(<[u16]>::to_vec).collect();
    if orientation.transpose {
        rows = (0..COLUMNS).map(|x| rows.iter().map(|row| row[x]).collect()).collect();
    }
    if orientation.flip.has_rows() {
        rows.reverse();
    }
    if orientation.flip.has_columns() {
        rows.iter_mut().for_each(|row| row.reverse());
    }
    rows
}

fn placed(roi: Roi, part: &[u16], around: u16) -> Vec<u16> {
    let mut frame = vec![around; ROWS * COLUMNS];
    for (y, x) in (0..roi.height).flat_map(|y| (0..roi.width).map(move |x| (y, x))) {
        frame[(roi.y + y) * COLUMNS + roi.x + x] = part[y * roi.width + x];
    }
    frame
}

/// Where the ones are in a turned frame of zeros.
fn found(rows: &[Vec<u16>]) -> [u64; 4] {
    let ys: Vec<usize> = (0..rows.len()).filter(|&y| rows[y].contains(&1)).collect();
    let xs: Vec<usize> = (0..rows[0].len()).filter(|&x| rows.iter().any(|row| row[x] == 1)).collect();
    [ys[0], xs[0], ys.len(), xs.len()].map(|number| number as u64)
}

fn column(path: &Path, name: &str) -> Vec<u64> {
    let bytes = Array::open(path.join("records").join(name)).unwrap().read_all().unwrap();
    bytes.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number)).collect()
}

fn records(path: &Path) -> Vec<[u64; 4]> {
    let columns = ["roi_y", "roi_x", "roi_height", "roi_width"].map(|name| column(path, name));
    (0..columns[0].len()).map(|at| columns.each_ref().map(|column| column[at])).collect()
}

fn bytes(pixels: &[u16], config: &Config) -> Vec<u8> {
    let given = pixels.iter().map(|pixel| pixel << config.unused_low_bits);
    match config.pixel_format {
        PixelFormat::BigEndian => given.flat_map(u16::to_be_bytes).collect(),
        _ => given.flat_map(u16::to_ne_bytes).collect(),
    }
}

/// What a run should leave: pixels, and where they are.
struct Model<'a> {
    config: &'a Config,
    pixels: Vec<u16>,
    places: Vec<[u64; 4]>,
}

impl Model<'_> {
    fn expect(&mut self, roi: Roi, part: &[u16]) {
        let turned = |frame: Vec<u16>| turned(self.config.orientation, &frame);
        self.pixels.extend(turned(placed(roi, part, FILL)).concat());
        self.places.push(found(&turned(placed(roi, &vec![1; part.len()], 0))));
    }

    fn expect_none(&mut self) {
        self.pixels.extend([FILL; ROWS * COLUMNS]);
        self.places.push([0; 4]);
    }

    fn compare(self, path: &Path) {
        let array = Array::open(path.join("0")).unwrap().read_all().unwrap();
        let array: Vec<u16> = array.as_chunks().0.iter().map(|pixel| u16::from_le_bytes(*pixel)).collect();
        assert!(array == self.pixels, "{:?}", self.config);
        assert_eq!(records(path), self.places, "{:?}", self.config);
    }
}

/// Fills a part of a frame where it is.
fn fill(frame: &mut FrameMut, config: &Config, roi: Roi, given: &[u8]) {
    let (offset, stride) = config.frame_layout.map_or((0, 2 * COLUMNS), |layout| (layout.offset, layout.row_stride));
    for (y, row) in (roi.y..).zip(given.chunks(roi.width * 2)) {
        frame[offset + y * stride + roi.x * 2..][..row.len()].copy_from_slice(row);
    }
}

/// A run of all regions, by every call that takes one, of a missing frame and of whole ones.
fn compare(config: &Config) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, config.clone()).unwrap();
    let mut model = Model { config, pixels: Vec::new(), places: Vec::new() };
    for (number, roi) in
        regions().into_iter().enumerate().flat_map(|(at, roi)| (0..3).map(move |door| (3 * at + door, roi)))
    {
        let part = pixels(number, roi);
        let (given, row) = (bytes(&part, config), roi.width * 2);
        match number % 3 {
            0 => assert_eq!(acquisition.append_roi(&given, roi).unwrap().frames, 1),
            1 => {
                // The last row ends with the buffer.
                let apart: Vec<u8> = given.chunks(row).flat_map(|row| [row, &[0xEE; 6]].concat()).collect();
                let (apart, record) = (&apart[..apart.len() - 6], Record::stamped(9).with(0, 5));
                assert_eq!(acquisition.append_roi_with(apart, roi, row + 6, record).unwrap().frames, 1);
            }
            _ => {
                let mut frame = acquisition.acquire().unwrap();
                frame.bytes().fill(0xEE);
                frame.pad(roi).unwrap();
                fill(&mut frame, config, roi, &given);
                frame.commit_next(Record::default()).unwrap();
            }
        }
        model.expect(roi, &part);
    }
    // A missing frame, and one that is filled in place and says nothing, after one that was padded and given back.
    let whole = regions()[0];
    let mut frame = acquisition.acquire().unwrap();
    frame.pad(regions()[1]).unwrap();
    drop(frame);
    model.expect_none();
    let part = pixels(98, whole);
    let mut frame = acquisition.acquire().unwrap();
    fill(&mut frame, config, whole, &bytes(&part, config));
    frame.commit(acquisition.next_number() + 1, Record::default()).unwrap();
    model.expect(whole, &part);
    // Two at once, and a whole one.
    let roi = regions()[3];
    let (one, other, last) = (pixels(100, roi), pixels(101, roi), pixels(102, whole));
    assert_eq!(acquisition.append_roi(&bytes(&[&one[..], &other].concat(), config), roi).unwrap().frames, 2);
    let stride = acquisition.frame_bytes() / ROWS;
    assert_eq!(acquisition.append_with(&bytes(&last, config), stride, Record::default()).unwrap().frames, 1);
    model.expect(roi, &one);
    model.expect(roi, &other);
    model.expect(whole, &last);
    acquisition.finish().unwrap();
    model.compare(&path);
}

#[test]
fn a_region_stands_at_its_place_and_is_recorded() {
    let record_fields = vec![RecordField { name: "gain".into(), dtype: Dtype::U8 }];
    let base = Config { record_fields, ..config(Orientation::default()) };
    let apart = FrameLayout { buffer_bytes: 2048, offset: 8, row_stride: 2 * COLUMNS + 10 };
    let none = Codec { compressor: Compressor::None, checksum: false };
    compare(&base);
    compare(&Config { frame_layout: Some(apart), codec: none, ..base.clone() });
    compare(&Config { unused_low_bits: 4, ..base.clone() });
    compare(&Config { unused_low_bits: 2, pixel_format: PixelFormat::BigEndian, ..base.clone() });
}

#[test]
fn a_region_is_turned_with_its_frame() {
    for transpose in [false, true] {
        for flip in [Flip::None, Flip::Rows, Flip::Columns, Flip::Both] {
            let record_fields = vec![RecordField { name: "gain".into(), dtype: Dtype::U8 }];
            let config = Config { record_fields, ..config(Orientation { transpose, flip }) };
            compare(&config);
            compare(&Config { pixel_format: PixelFormat::BigEndian, ..config });
        }
    }
}

#[test]
fn regions_that_are_no_part_of_a_frame_are_refused() {
    let create = |config| Acquisition::create_in(Arc::new(Memory::new()), config).unwrap();
    let acquisition = create(config(Orientation::quarter_turns(1)));
    let most = usize::MAX;
    for (y, x, height, width) in [
        (0, 0, 14, 1),
        (0, 0, 1, 12),
        (10, 0, 4, 1),
        (0, 10, 1, 2),
        (13, 0, 1, 1),
        (0, 11, 1, 1),
        (0, 0, 0, 1),
        (0, 0, 1, 0),
        (most, 0, 1, 1),
        (0, most, 1, 2),
        (0, 0, most, most),
        (most, most, most, most),
    ] {
        let roi = Roi { y, x, height, width };
        let error = acquisition.append_roi(&[0; 4], roi).unwrap_err();
        assert!(matches!(error, Error::Roi { rows: ROWS, columns: COLUMNS, .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains(&format!("{height} rows and {width} columns from row {y} and column {x} on")), "{said}");
        let mut frame = acquisition.acquire().unwrap();
        assert!(matches!(frame.pad(roi), Err(Error::Roi { .. })));
    }
    let roi = Roi { y: 3, x: 2, height: 2, width: 3 };
    for (bytes, stride) in [(11, 6), (13, 6), (0, 6), (12, 7)] {
        let error = acquisition.append_roi_with(&vec![0; bytes], roi, stride, Record::default()).unwrap_err();
        assert!(matches!(error, Error::FrameSize { .. } | Error::RowStride { .. }), "{bytes}, {stride}: {error}");
    }
    for stride in [0, 5, most, most / 2] {
        let error = acquisition.append_roi_with(&[0; 12], roi, stride, Record::default()).unwrap_err();
        assert!(matches!(error, Error::RowStride { got, .. } if got == stride), "{error}");
    }
    assert_eq!(acquisition.append_roi(&[0; 12], roi).unwrap().frames, 1);
    assert_eq!(acquisition.finish().unwrap().frames_written, 1);

    let acquisition = create(Config { record_roi: false, ..config(Orientation::default()) });
    let error = acquisition.append_roi(&[0; 12], roi).unwrap_err();
    assert!(matches!(error, Error::Config { field: "record_roi", .. }), "{error}");
    assert!(matches!(acquisition.acquire().unwrap().pad(roi), Err(Error::Config { field: "record_roi", .. })));
}

#[test]
fn configurations_that_can_not_record_regions_are_refused() {
    let refused = |config: Config, field: &str, part: &str| {
        let error = Acquisition::create_in(Arc::new(Memory::new()), config).unwrap_err();
        assert!(matches!(&error, Error::Config { field: found, .. } if *found == field), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    let base = || config(Orientation::default());
    for packed in [PixelFormat::Mono10p, PixelFormat::Mono12p, PixelFormat::Mono12Packed] {
        refused(Config { pixel_format: packed, ..base() }, "record_roi", "can't be padded");
    }
    refused(Config { unused_low_bits: 7, ..base() }, "fill_value", "hold at most 511");
    let taken = vec![RecordField { name: "roi_x".into(), dtype: Dtype::U8 }];
    refused(Config { record_fields: taken.clone(), ..base() }, "record_fields.name", "with record_roi");
    let without = Config { record_roi: false, record_fields: taken, ..base() };
    assert!(Acquisition::create_in(Arc::new(Memory::new()), without).is_ok());
}

/// The last buffer keeps the pixels of an earlier frame, and levels are made of what is around a region, too.
#[test]
fn regions_go_through_small_rings_and_levels() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let pyramid = Some(Downsampling { levels: Some(1), ..Downsampling::default() });
    let dims = vec![Dim::time(None).chunk(1).shard(4), Dim::y(8), Dim::x(8)];
    let config = Config { dims, pyramid, dtype: Dtype::U8, fill_value: 8.into(), ..config(Orientation::default()) };
    let acquisition = Acquisition::create(&path, Config { ring_bytes: 4 * 4096, ..config }).unwrap();
    let roi = Roi { y: 2, x: 3, height: 2, width: 2 };
    for _ in 0..20 {
        assert_eq!(acquisition.append(&[100; 64]).unwrap().frames, 1);
        assert_eq!(acquisition.append_roi(&[0; 4], roi).unwrap().frames, 1);
    }
    acquisition.finish().unwrap();
    let level = Array::open(path.join("1")).unwrap().read_all().unwrap();
    let small = [8, 8, 8, 8, 8, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 8];
    assert!(level == [[100; 16], small].concat().repeat(20));
    assert_eq!(records(&path), [[0, 0, 8, 8], [2, 3, 2, 2]].repeat(20));
}

#[test]
fn a_full_ring_lets_regions_go() {
    let config = Config { ring_full: RingFull::DropNewest, ..config(Orientation::default()) };
    let acquisition = Acquisition::create_in(Arc::new(Memory::new()), config).unwrap();
    let mut kept = Vec::new();
    while let Ok(frame) = acquisition.acquire_timeout(Duration::ZERO) {
        kept.push(frame);
    }
    let roi = Roi { y: 0, x: 0, height: 1, width: 2 };
    let dropped = acquisition.append_roi(&[0; 8], roi).unwrap();
    assert_eq!((dropped.frames, dropped.dropped), (0, 2));
    drop(kept);
    assert_eq!(acquisition.append_roi(&[0; 8], roi).unwrap().frames, 2);
    let summary = acquisition.finish().unwrap();
    assert_eq!((summary.frames_written, summary.frames_missing), (2, 2));
}
