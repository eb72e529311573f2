//! Frames as cameras give them: packed pixels, other byte orders, unused bits, turns and flips. What is in the array is
//! compared with what a dull loop over bits makes of the same numbers.

use std::sync::Arc;

use proptest::prelude::*;
use shardwright::offline::Array;
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dim, Dtype, Error, Flip, FrameLayout, Memory, Orientation, PixelFormat,
    Placement, Record, StorageKind,
};

const FORMATS: [(PixelFormat, u32); 7] = [
    (PixelFormat::Plain, 16),
    (PixelFormat::BigEndian, 16),
    (PixelFormat::Mono10p, 10),
    (PixelFormat::Mono12p, 12),
    (PixelFormat::Mono14p, 14),
    (PixelFormat::Mono10Packed, 10),
    (PixelFormat::Mono12Packed, 12),
];

/// The bytes of pixels in a format, by the definition of each.
fn packed(format: PixelFormat, pixels: &[u16]) -> Vec<u8> {
    let stream = |bits: usize| {
        let mut bytes = vec![0; (pixels.len() * bits).div_ceil(8)];
        for (number, pixel) in pixels.iter().enumerate() {
            for bit in (0..bits).filter(|bit| pixel >> bit & 1 == 1) {
                bytes[(number * bits + bit) / 8] |= 1 << ((number * bits + bit) % 8);
            }
        }
        bytes
    };
    let pairs = |bits: u32| {
        let low = |pixel: u16| (pixel & ((1 << (bits - 8)) - 1)) as u8;
        let high = |pixel: u16| (pixel >> (bits - 8)) as u8;
        let pair = |pair: &[u16]| match *pair {
            [one, other] => vec![high(one), low(one) | low(other) << 4, high(other)],
            [one] => vec![high(one), low(one)],
            _ => unreachable!("pairs"),
        };
        pixels.chunks(2).flat_map(pair).collect()
    };
    match format {
        PixelFormat::BigEndian => pixels.iter().flat_map(|pixel| pixel.to_be_bytes()).collect(),
        PixelFormat::Mono10p => stream(10),
        PixelFormat::Mono12p => stream(12),
        PixelFormat::Mono14p => stream(14),
        PixelFormat::Mono10Packed => pairs(10),
        PixelFormat::Mono12Packed => pairs(12),
        _ => pixels.iter().flat_map(|pixel| pixel.to_ne_bytes()).collect(),
    }
}

/// The array's frame, row by row.
fn turned(orientation: Orientation, pixels: &[u16], columns: usize) -> Vec<Vec<u16>> {
    let mut rows: Vec<Vec<u16>> = pixels.chunks(columns).map(<[u16]>::to_vec).collect();
    if orientation.transpose {
        rows = (0..columns).map(|x| rows.iter().map(|row| row[x]).collect()).collect();
    }
    if orientation.flip.has_rows() {
        rows.reverse();
    }
    if orientation.flip.has_columns() {
        rows.iter_mut().for_each(|row| row.reverse());
    }
    rows
}

/// A camera's rows and columns, and what it gives.
#[derive(Debug, Clone)]
struct Camera {
    rows: usize,
    columns: usize,
    format: PixelFormat,
    bits: u32,
    unused_low_bits: u32,
    orientation: Orientation,
    /// Rows that begin with bytes of their own, this many bytes further apart than they are long, behind this many
    /// others.
    apart: Option<(usize, usize)>,
}

const FRAMES: usize = 5;

impl Camera {
    fn pixels(&self, number: usize) -> Vec<u16> {
        let bits = self.bits - self.unused_low_bits;
        let value = |at: usize| (number * 7919 + at).wrapping_mul(0x9E37_79B9) >> 7;
        (0..self.rows * self.columns).map(|at| (value(at) & ((1 << bits) - 1)) as u16).collect()
    }

    /// The bytes of a frame, as `append` takes them, and from one row's start to the next.
    fn bytes(&self, number: usize) -> (Vec<u8>, usize) {
        let pixels: Vec<u16> = self.pixels(number).iter().map(|pixel| pixel << self.unused_low_bits).collect();
        if self.apart.is_none() && !matches!(self.format, PixelFormat::Plain) {
            let bytes = packed(self.format, &pixels);
            let stride = bytes.len();
            return (bytes, stride);
        }
        let rows: Vec<_> = pixels.chunks(self.columns).map(|row| packed(self.format, row)).collect();
        (rows.concat(), rows[0].len())
    }

    fn config(&self, chunk: [u64; 3], compressor: Compressor) -> Config {
        let (rows, columns) = (self.rows as u64, self.columns as u64);
        let (rows, columns) = if self.orientation.transpose { (columns, rows) } else { (rows, columns) };
        let row_bytes = self.bytes(0).1;
        let frame_layout = self.apart.map(|(gap, offset)| FrameLayout {
            buffer_bytes: offset + self.rows * (row_bytes + gap),
            offset,
            row_stride: row_bytes + gap,
        });
        let whole = |length: u64, chunk: u64| length.next_multiple_of(chunk);
        Config {
            dtype: Dtype::U16,
            dims: vec![
                Dim::time(FRAMES as u64).chunk(chunk[0]).shard(whole(FRAMES as u64, chunk[0])),
                Dim::y(rows).chunk(chunk[1]).shard(whole(rows, chunk[1])),
                Dim::x(columns).chunk(chunk[2]).shard(whole(columns, chunk[2])),
            ],
            codec: Codec { compressor, checksum: true },
            frame_layout,
            pixel_format: self.format,
            unused_low_bits: self.unused_low_bits,
            orientation: self.orientation,
            ring_bytes: 4 << 20,
            workers: 2,
            sync: false,
            ..Config::default()
        }
    }

    fn expected(&self) -> Vec<u8> {
        let frames = (0..FRAMES).map(|number| turned(self.orientation, &self.pixels(number), self.columns).concat());
        frames.flatten().flat_map(u16::to_le_bytes).collect()
    }
}

fn written(camera: &Camera, config: Config) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, config).unwrap();
    for number in 0..FRAMES {
        let (bytes, stride) = camera.bytes(number);
        // Every other frame goes into the buffer as a camera would put it there.
        match (number % 2, camera.apart) {
            (1, apart) => {
                let (gap, offset) = apart.unwrap_or_default();
                let mut frame = acquisition.acquire().unwrap();
                frame.bytes().fill(0xAA);
                for (row, from) in bytes.chunks(stride).enumerate() {
                    frame[offset + row * (stride + gap)..][..stride].copy_from_slice(from);
                }
                frame.commit(number as u64, Record::default()).unwrap();
            }
            _ => assert_eq!(acquisition.append(&bytes).unwrap().frames, 1),
        }
    }
    acquisition.finish().unwrap();
    Array::open(path.join("0")).unwrap().read_all().unwrap()
}

fn camera() -> impl Strategy<Value = Camera> {
    let orientation = (any::<bool>(), proptest::sample::select(Flip::ALL));
    let orientation = orientation.prop_map(|(transpose, flip)| Orientation { transpose, flip });
    let apart = proptest::option::of((0..9usize, 0..40usize));
    let format = proptest::sample::select(&FORMATS[..]);
    (1..40usize, 1..70usize, format, 0..15u32, orientation, apart).prop_map(
        |(rows, columns, (format, bits), unused, orientation, apart)| {
            let unused_low_bits = if bits == 16 { unused } else { 0 };
            // Numbers lie on their own borders.
            let apart = apart.map(|(gap, offset)| if bits == 16 { (gap & !1, offset & !1) } else { (gap, offset) });
            Camera { rows, columns, format, bits, unused_low_bits, orientation, apart }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn the_array_holds_what_the_camera_saw(
        camera in camera(),
        chunk in (1..4u64, 1..20u64, 1..20u64),
        compressed in any::<bool>(),
        storage in proptest::sample::select(&[StorageKind::Mapped, StorageKind::Buffered, StorageKind::Direct][..]),
        placement in proptest::sample::select(&[Placement::Fixed, Placement::Packed][..]),
    ) {
        let compressor = if compressed { Compressor::default() } else { Compressor::None };
        let config = Config { storage, placement, ..camera.config([chunk.0, chunk.1, chunk.2], compressor) };
        prop_assert!(written(&camera, config) == camera.expected(), "{camera:?}");
    }
}

#[test]
fn frames_are_read_as_the_array_has_them_while_the_run_goes_on() {
    let turned = Orientation::quarter_turns(1);
    for (format, bits, orientation, apart) in [
        (PixelFormat::Mono12p, 12, Orientation::default(), None),
        (PixelFormat::Mono10Packed, 10, turned, None),
        (PixelFormat::Mono14p, 14, turned, Some((3, 5))),
        (PixelFormat::BigEndian, 16, Orientation::default(), None),
        (PixelFormat::Plain, 16, turned, Some((2, 4))),
    ] {
        let camera = Camera { rows: 7, columns: 5, format, bits, unused_low_bits: 0, orientation, apart };
        let folder = tempfile::tempdir().unwrap();
        let mut config = camera.config([1, 4, 3], Compressor::None);
        config.dims[0] = Dim::time(None).chunk(1).shard(2);
        let acquisition = Acquisition::create(folder.path().join("run.zarr"), config).unwrap();
        let (expected, frame_bytes) = (camera.expected(), 2 * 7 * 5);
        let look = |end: usize| {
            let mut out = vec![0; frame_bytes];
            for (number, expected) in expected.chunks(frame_bytes).enumerate().take(end) {
                acquisition.read_frame(number as u64, &mut out).unwrap();
                assert!(out == expected, "frame {number} of {end} of {camera:?}");
            }
        };
        for number in 0..FRAMES {
            assert_eq!(acquisition.append(&camera.bytes(number).0).unwrap().frames, 1);
            look(number + 1);
        }
        while acquisition.stats().frames_written < FRAMES as u64 {
            std::thread::yield_now();
        }
        look(FRAMES);
        let refused = acquisition.read_frame(0, &mut vec![0; frame_bytes - 1]);
        assert!(matches!(refused, Err(Error::FrameSize { expected: 70, .. })), "{refused:?}");
        acquisition.finish().unwrap();
    }
}

/// Two rows of 22.75 bytes are 45.5, which is as many whole bytes as twice 23.
#[test]
fn rows_that_end_within_a_byte_follow_each_other() {
    let (orientation, unused_low_bits, apart) = (Orientation::default(), 0, None);
    for (format, bits) in [(PixelFormat::Mono14p, 14), (PixelFormat::Mono10p, 10), (PixelFormat::Mono12p, 12)] {
        for (rows, columns) in [2, 3].into_iter().flat_map(|rows| (1..17).map(move |columns| (rows, columns))) {
            let camera = Camera { rows, columns, format, bits, unused_low_bits, orientation, apart };
            let found = written(&camera, camera.config([1, rows as u64, columns as u64], Compressor::None));
            assert!(found == camera.expected(), "{camera:?}");
        }
    }
}

#[test]
fn a_frame_is_as_long_as_the_camera_gives_it() {
    let plain = Camera {
        rows: 7,
        columns: 5,
        format: PixelFormat::Mono12p,
        bits: 12,
        unused_low_bits: 0,
        orientation: Orientation::default(),
        apart: None,
    };
    let in_memory = |config| Acquisition::create_in(Arc::new(Memory::new()), config).unwrap();
    let acquisition = in_memory(plain.config([1, 7, 5], Compressor::None));
    assert_eq!(acquisition.frame_bytes(), 53);
    let mut frame = acquisition.acquire().unwrap();
    assert_eq!(frame.bytes().len(), 53);
    assert!(matches!(frame.elements::<u16>(), Err(Error::Config { field: "pixel_format", .. })));
    assert!(matches!(acquisition.append(&[0; 70]), Err(Error::FrameSize { expected: 53, .. })));
    let apart = Camera { apart: Some((0, 0)), ..plain };
    assert_eq!(in_memory(apart.config([1, 7, 5], Compressor::None)).frame_bytes(), 7 * 8);
}

#[test]
fn formats_that_do_not_fit_are_refused() {
    let config = || Config { dims: vec![Dim::time(5), Dim::y(8), Dim::x(8)], ring_bytes: 1 << 20, ..Config::default() };
    let refused = |config: Config, field: &str, part: &str| {
        let error = Acquisition::create_in(Arc::new(Memory::new()), config).unwrap_err();
        assert!(matches!(&error, Error::Config { field: found, .. } if *found == field), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    for dtype in [Dtype::U8, Dtype::I16, Dtype::U32, Dtype::F32] {
        let config = Config { dtype, pixel_format: PixelFormat::Mono12p, ..config() };
        refused(config, "pixel_format", "uint16");
    }
    refused(Config { unused_low_bits: 16, ..config() }, "unused_low_bits", "at most 15");
    let packed = Config { unused_low_bits: 4, pixel_format: PixelFormat::Mono10p, ..config() };
    refused(packed, "unused_low_bits", "have no unused bits");
    refused(Config { unused_low_bits: 4, dtype: Dtype::I16, ..config() }, "unused_low_bits", "uint16");
}

#[test]
fn quarter_turns_are_those_of_numpy() {
    let pixels = [1, 2, 3, 4, 5, 6];
    let turned = |turns| turned(Orientation::quarter_turns(turns), &pixels, 3);
    assert_eq!(turned(1), [[3, 6], [2, 5], [1, 4]]);
    assert_eq!(turned(2), [[6, 5, 4], [3, 2, 1]]);
    assert_eq!(turned(-1), [[4, 1], [5, 2], [6, 3]]);
}
