//! Datasets that every reader must understand: one table, read back by Rust and by Python.

use std::path::Path;

use serde_json::{Map, Value, json};
use shardwright::{
    Acquisition, BloscCname, Channel, Codec, Compressor, Config, Dataset, Dim, DimKind, Dtype, FrameLayout,
    IndexLocation, Placement, Record, RecordField, Shuffle, StorageKind, Summary,
};

use super::{Expected, frame};

/// A dataset: one image at its root, or several below it.
pub struct Case {
    pub name: String,
    pub images: Vec<Image>,
}

/// What is acquired into one image, and how.
pub struct Image {
    /// The image's group; empty at the root.
    pub group: &'static str,
    pub config: Config,
    /// The frame numbers in the order in which they are committed.
    pub numbers: Vec<u64>,
    pub pixels: Pixels,
    pub delivery: Delivery,
    pub attributes: Map<String, Value>,
    /// Whether the dimensions can be described as OME-Zarr 0.5.
    pub ome: bool,
}

/// What the frames show.
#[derive(Clone, Copy, PartialEq)]
pub enum Pixels {
    /// Bytes that differ everywhere.
    Noise,
    /// The fill value everywhere, but in one corner of every third frame.
    Corner,
}

/// How the frames come in.
#[derive(Clone, Copy, PartialEq)]
pub enum Delivery {
    /// Loaned, filled, committed.
    Loaned,
    /// Appended, so many at a time.
    Appended(usize),
    /// Cut out of a larger picture, whose rows are so many bytes longer.
    Cropped(usize),
    /// Loaned buffers that hold more than the frame, as `frame_layout` says.
    Margins,
}

/// An image that was written, and what readers must see.
pub struct Written {
    pub summary: Summary,
    pub expected: Expected,
    /// For each record array its values, by frame number. `null`: any value.
    pub records: Map<String, Value>,
}

impl Case {
    fn new(name: impl Into<String>, config: Config) -> Self {
        Self { name: name.into(), images: vec![Image::new(config)] }
    }

    fn image(mut self, change: impl FnOnce(&mut Image)) -> Self {
        change(&mut self.images[0]);
        self
    }

    /// Acquires the dataset to `path`.
    pub fn write(&self, path: &Path) -> Vec<Written> {
        if let [image] = &self.images[..]
            && image.group.is_empty()
        {
            return vec![image.run(Acquisition::create(path, image.config.clone()).unwrap())];
        }
        let dataset = Dataset::create(path).unwrap();
        // As with several cameras, all run at the same time.
        let start = |image: &Image| dataset.acquisition(image.group, image.config.clone()).unwrap();
        let running: Vec<_> = self.images.iter().map(start).collect();
        self.images.iter().zip(running).map(|(image, acquisition)| image.run(acquisition)).collect()
    }
}

impl Image {
    fn new(config: Config) -> Self {
        let outer = &config.dims[..config.dims.len() - 2];
        let frames = outer.iter().map(|dim| dim.size.unwrap_or(13)).product();
        Self {
            group: "",
            config,
            numbers: (0..frames).collect(),
            pixels: Pixels::Noise,
            delivery: Delivery::Loaned,
            attributes: Map::new(),
            ome: true,
        }
    }

    /// Whether readers other than zarr-python and this crate's own know the codec.
    pub fn is_portable(&self) -> bool {
        !matches!(self.config.codec.compressor, Compressor::Lz4 | Compressor::Zlib { .. })
    }

    /// One element of the fill value.
    pub fn fill(&self) -> Vec<u8> {
        element(self.config.dtype, self.config.fill_value)
    }

    fn frame_shape(&self) -> (usize, usize) {
        let size = |dim: &Dim| dim.size.unwrap() as usize;
        let [.., rows, columns] = &self.config.dims[..] else { panic!("frames have rows and columns") };
        (size(rows), size(columns))
    }

    fn row_bytes(&self) -> usize {
        self.frame_shape().1 * self.config.dtype.size()
    }

    fn frame(&self, number: u64) -> Vec<u8> {
        let (rows, columns) = self.frame_shape();
        let noise = frame(number, rows * self.row_bytes());
        if self.pixels == Pixels::Noise {
            return noise;
        }
        let mut pixels = self.fill().repeat(rows * columns);
        if number.is_multiple_of(3) {
            for row in 0..rows.div_ceil(5) {
                let corner = row * self.row_bytes()..row * self.row_bytes() + columns.div_ceil(5);
                pixels[corner.clone()].copy_from_slice(&noise[corner]);
            }
        }
        pixels
    }

    fn run(&self, acquisition: Acquisition) -> Written {
        for (key, value) in &self.attributes {
            acquisition.set_attribute(key, value.clone()).unwrap();
        }
        match self.delivery {
            Delivery::Appended(batch) => {
                for numbers in self.numbers.chunks(batch) {
                    let pixels: Vec<u8> = numbers.iter().flat_map(|&number| self.frame(number)).collect();
                    assert_eq!(acquisition.append(&pixels).unwrap().frames, numbers.len() as u64);
                }
            }
            Delivery::Cropped(more) => {
                let stride = self.row_bytes() + more;
                for &number in &self.numbers {
                    let picture = spread(&self.frame(number), self.row_bytes(), stride, 0);
                    let _ = acquisition.append_with(&picture, stride, self.record(number)).unwrap();
                }
            }
            Delivery::Loaned | Delivery::Margins => {
                for &number in &self.numbers {
                    let mut slot = acquisition.acquire().unwrap();
                    let pixels = self.frame(number);
                    let picture = match self.config.frame_layout {
                        Some(layout) => spread(&pixels, self.row_bytes(), layout.row_stride, layout.offset),
                        None => pixels,
                    };
                    slot[..picture.len()].copy_from_slice(&picture);
                    slot.commit(number, self.record(number)).unwrap();
                }
            }
        }
        let summary = acquisition.finish().unwrap();
        let places = summary.shape[..summary.shape.len() - 2].iter().product();
        Written { expected: self.expected(&summary.shape), records: self.records(places), summary }
    }

    fn expected(&self, shape: &[u64]) -> Expected {
        let mut expected = Expected::new(shape, self.config.dtype);
        expected.pixels = self.fill().repeat(expected.pixels.len() / self.config.dtype.size());
        for &number in &self.numbers {
            expected.put(&self.config, number, &self.frame(number));
        }
        expected
    }

    fn record(&self, number: u64) -> Record {
        let mut record = Record::default();
        record.device_timestamp = Some(DEVICE_START + 10 * number);
        record.host_timestamp = Some(HOST_START + 1000 * number as i64);
        for (at, field) in self.config.record_fields.iter().enumerate() {
            match field.dtype.is_float() {
                true => record.set(at, field_value(at, number) as f64 / 4.0),
                false => record.set(at, field_value(at, number)),
            };
        }
        record
    }

    /// `places`: of frames in the array.
    fn records(&self, places: u64) -> Map<String, Value> {
        let column = |missing: Value, value: &dyn Fn(u64) -> Value| -> Value {
            let at = |number| if self.numbers.contains(&number) { value(number) } else { missing.clone() };
            (0..places).map(at).collect()
        };
        let mut records = Map::new();
        records.insert("frame_number".into(), column(json!(-1), &|number| json!(number)));
        if matches!(self.delivery, Delivery::Appended(_)) {
            // Nobody gave time stamps: the device's are zero and the host's are the clock's.
            records.insert("device_timestamp".into(), column(json!(0), &|_| json!(0)));
            records.insert("host_timestamp".into(), column(json!(0), &|_| Value::Null));
        } else {
            records.insert("device_timestamp".into(), column(json!(0), &|number| json!(DEVICE_START + 10 * number)));
            let host = |number| json!(HOST_START + 1000 * number as i64);
            records.insert("host_timestamp".into(), column(json!(0), &host));
        }
        for (at, field) in self.config.record_fields.iter().enumerate() {
            let value = |number| match field.dtype.is_float() {
                true => json!(field_value(at, number) as f64 / 4.0),
                false => json!(field_value(at, number)),
            };
            records.insert(field.name.clone(), column(json!(0), &value));
        }
        records
    }
}

// Values that a 32-bit or a floating-point detour would spoil.
const DEVICE_START: u64 = (1 << 60) + 1;
const HOST_START: i64 = 1_700_000_000_123_456_789;

fn field_value(field: usize, number: u64) -> i64 {
    100 * field as i64 + number as i64
}

/// Rows `stride` bytes apart from `offset` on, with junk between them that must not come out anywhere.
fn spread(pixels: &[u8], row_bytes: usize, stride: usize, offset: usize) -> Vec<u8> {
    let mut picture = vec![0x5A; offset];
    for row in pixels.chunks(row_bytes) {
        picture.extend(row);
        picture.resize(picture.len() + stride - row_bytes, 0xA5);
    }
    // The last row may end with the buffer.
    picture.truncate(picture.len() - (stride - row_bytes));
    picture
}

fn element(dtype: Dtype, value: f64) -> Vec<u8> {
    match dtype {
        Dtype::U8 => (value as u8).to_ne_bytes().to_vec(),
        Dtype::I8 => (value as i8).to_ne_bytes().to_vec(),
        Dtype::U16 => (value as u16).to_ne_bytes().to_vec(),
        Dtype::I16 => (value as i16).to_ne_bytes().to_vec(),
        Dtype::U32 => (value as u32).to_ne_bytes().to_vec(),
        Dtype::I32 => (value as i32).to_ne_bytes().to_vec(),
        Dtype::U64 => (value as u64).to_ne_bytes().to_vec(),
        Dtype::I64 => (value as i64).to_ne_bytes().to_vec(),
        Dtype::F32 => (value as f32).to_ne_bytes().to_vec(),
        Dtype::F64 => value.to_ne_bytes().to_vec(),
        other => panic!("{other}: say here how its elements are stored"),
    }
}

/// Every compressor with every setting that changes the format.
pub fn compressors() -> Vec<Compressor> {
    let mut all = vec![Compressor::None, Compressor::BloscNoise { block_bytes: 0 }];
    for &cname in BloscCname::ALL {
        for &shuffle in Shuffle::ALL {
            all.push(Compressor::Blosc { cname, level: 2, shuffle, block_bytes: 0 });
        }
    }
    all.extend([Compressor::Zstd { level: 1 }, Compressor::Zstd { level: -5 }]);
    all.extend([Compressor::Gzip { level: 1 }, Compressor::Gzip { level: 0 }, Compressor::Lz4]);
    all
}

/// A name for a file.
fn compressor_name(compressor: Compressor) -> String {
    match compressor {
        Compressor::None => "none".into(),
        Compressor::BloscNoise { .. } => "blosc-noise".into(),
        Compressor::Blosc { cname, shuffle, .. } => format!("blosc-{}-{shuffle:?}", cname.name()).to_lowercase(),
        Compressor::Zstd { level } => format!("zstd{level}"),
        Compressor::Gzip { level } => format!("gzip{level}"),
        Compressor::Lz4 => "lz4".into(),
        Compressor::Zlib { level } => format!("zlib{level}"),
        other => panic!("{other:?}: give it a name here"),
    }
}

/// What all cases have in common: little memory, and no wait for the device.
fn config(dtype: Dtype, dims: Vec<Dim>) -> Config {
    Config { dtype, dims, ring_bytes: 2 << 20, workers: 2, sync: false, ..Config::default() }
}

fn frames(rows: (u64, u64, u64), columns: (u64, u64, u64)) -> [Dim; 2] {
    [Dim::y(rows.0).chunk(rows.1).shard(rows.2), Dim::x(columns.0).chunk(columns.1).shard(columns.2)]
}

/// A movie in which neither chunks nor shards divide anything.
fn movie(size: impl Into<Option<u64>>) -> Vec<Dim> {
    let [y, x] = frames((40, 16, 32), (50, 16, 48));
    vec![Dim::time(size).chunk(2).shard(4), y, x]
}

/// All datasets.
pub fn all() -> Vec<Case> {
    let mut cases = codecs();
    cases.extend(types());
    cases.extend(geometries());
    cases.extend(gaps());
    cases.extend(deliveries());
    cases.extend(descriptions());
    cases
}

/// Every compressor meets both placements, both places of the index, both kinds of storage, with and without a
/// checksum; and any two of these meet.
fn codecs() -> Vec<Case> {
    let mut cases = Vec::new();
    for (at, compressor) in compressors().into_iter().enumerate() {
        for (turn, [checksum, packed, start, buffered]) in [
            [false, false, false, true],
            [false, true, true, false],
            [true, false, true, false],
            [true, true, false, true],
        ]
        .into_iter()
        .enumerate()
        {
            let dtype = Dtype::ALL[(at + 3 * turn) % Dtype::ALL.len()];
            let config = Config {
                codec: Codec { compressor, checksum },
                placement: if packed { Placement::Packed } else { Placement::Fixed },
                index_location: if start { IndexLocation::Start } else { IndexLocation::End },
                storage: if buffered { StorageKind::Buffered } else { StorageKind::Mapped },
                ..config(dtype, movie(7))
            };
            let word = |is: bool, yes: &'static str, no: &'static str| if is { yes } else { no };
            let name = format!(
                "codec-{}-{dtype}-{}-{}-{}",
                compressor_name(compressor),
                word(checksum, "crc32c", "bare"),
                word(packed, "packed", "fixed"),
                word(start, "start", "end"),
            );
            cases.push(Case::new(name, config));
        }
    }
    // Chunks of many Blosc blocks, the last one short.
    let blosc = |cname, shuffle, block_bytes| Compressor::Blosc { cname, level: 5, shuffle, block_bytes };
    for (block_bytes, compressor) in [
        (0, blosc(BloscCname::Lz4, Shuffle::Bit, 0)),
        (4096, blosc(BloscCname::Lz4, Shuffle::Byte, 4096)),
        (1000, blosc(BloscCname::Zstd, Shuffle::Bit, 1000)),
        (5000, blosc(BloscCname::Blosclz, Shuffle::None, 5000)),
        (0, Compressor::BloscNoise { block_bytes: 0 }),
        (4096, Compressor::BloscNoise { block_bytes: 4096 }),
    ] {
        let [y, x] = frames((300, 300, 300), (210, 210, 210));
        let dims = vec![Dim::time(3).chunk(3).shard(3), y, x];
        let config = Config { codec: compressor.into(), ..config(Dtype::U16, dims) };
        cases.push(Case::new(format!("blocks-of-{block_bytes}-{}", compressor_name(compressor)), config));
    }
    cases
}

fn types() -> Vec<Case> {
    let case = |dtype: Dtype| {
        let config = Config { fill_value: 7.0, ..config(dtype, movie(None)) };
        Case::new(format!("type-{dtype}"), config).image(|image| image.numbers.retain(|number| number % 4 != 1))
    };
    let mut cases: Vec<_> = Dtype::ALL.iter().copied().map(case).collect();
    for (name, dtype, fill_value) in [
        ("nan", Dtype::F32, f64::NAN),
        ("infinity", Dtype::F64, f64::INFINITY),
        ("minus-infinity", Dtype::F32, f64::NEG_INFINITY),
        ("fraction", Dtype::F32, 0.1),
        ("negative", Dtype::I16, -300.0),
        ("large", Dtype::U64, 9_007_199_254_740_993.0),
        ("largest", Dtype::U16, 65535.0),
    ] {
        let config = Config { fill_value, ..config(dtype, movie(None)) };
        cases.push(Case::new(format!("fill-{name}"), config).image(|image| {
            image.numbers.retain(|number| number % 4 != 1);
            image.pixels = Pixels::Corner;
        }));
    }
    cases
}

fn geometries() -> Vec<Case> {
    let order = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let five = |t: Dim, c: Dim, z: Dim| {
        let [y, x] = frames((20, 8, 16), (30, 16, 32));
        vec![t, c, z, y, x]
    };
    let tczyx = || {
        let (t, c, z) = (Dim::time(3).chunk(2).shard(2), Dim::channel(2), Dim::z(5).chunk(2).shard(4));
        config(Dtype::U16, five(t, c, z))
    };
    let mut cases = vec![
        Case::new("flat", config(Dtype::U16, frames((60, 16, 64), (70, 32, 96)).to_vec())),
        Case::new("one-pixel", config(Dtype::U8, frames((1, 1, 1), (1, 1, 1)).to_vec())),
        Case::new(
            "chunk-larger-than-image",
            config(Dtype::U16, {
                let [y, x] = frames((20, 64, 64), (30, 64, 128));
                vec![Dim::time(3).chunk(8).shard(8), y, x]
            }),
        ),
        Case::new(
            "shard-of-one-chunk",
            config(Dtype::U16, {
                let [y, x] = frames((20, 8, 8), (30, 8, 8));
                vec![Dim::time(3).chunk(1).shard(1), y, x]
            }),
        ),
        Case::new(
            "nothing-divides",
            config(Dtype::U16, {
                let [y, x] = frames((53, 10, 30), (41, 7, 21));
                vec![Dim::time(7).chunk(3).shard(6), y, x]
            }),
        ),
        Case::new(
            "deep-chunks",
            config(Dtype::U8, {
                let [y, x] = frames((16, 16, 16), (24, 8, 24));
                vec![Dim::time(50).chunk(16).shard(32), y, x]
            }),
        ),
        Case::new("automatic", config(Dtype::U16, vec![Dim::time(3), Dim::y(300), Dim::x(200)])),
        Case::new("automatic-small", config(Dtype::U8, vec![Dim::time(None), Dim::channel(2), Dim::y(9), Dim::x(7)])),
        Case::new("as-stored", tczyx()),
        Case::new("z-before-c", Config { acquisition_order: order(&["t", "z", "c"]), ..tczyx() }),
        Case::new("c-slowest", Config { acquisition_order: order(&["c", "z", "t"]), ..tczyx() }),
    ];
    let unbounded = five(Dim::time(None).chunk(2).shard(4), Dim::channel(2).chunk(2), Dim::z(3).chunk(2).shard(4));
    let unbounded = Config { acquisition_order: order(&["t", "z", "c"]), ..config(Dtype::I16, unbounded) };
    cases.push(Case::new("unbounded-z-before-c", unbounded).image(|image| image.numbers = (0..21).collect()));
    let six = {
        let [y, x] = frames((8, 8, 8), (8, 4, 8));
        let outer = ["p", "q", "r", "s"].map(|name| Dim::new(name, DimKind::Other, 2).chunk(2).shard(2));
        outer.into_iter().chain([y, x]).collect::<Vec<_>>()
    };
    cases.push(Case::new("six-dimensions", config(Dtype::U8, six)).image(|image| image.ome = false));
    cases
}

/// Frames that never came, and chunks that nobody needs.
fn gaps() -> Vec<Case> {
    let case =
        |name: &str, config: Config, numbers: Vec<u64>| Case::new(name, config).image(|image| image.numbers = numbers);
    let u16s = |size: Option<u64>| Config { fill_value: 3.0, ..config(Dtype::U16, movie(size)) };
    let corner = |name: &str, config: Config| Case::new(name, config).image(|image| image.pixels = Pixels::Corner);
    let packed = |config: Config| Config { placement: Placement::Packed, ..config };
    vec![
        case("unbounded-stopped-early", u16s(None), (0..11).collect()),
        case("bounded-stopped-early", u16s(Some(40)), (0..13).collect()),
        case("one-frame-of-many", u16s(Some(40)), vec![0]),
        case("missing-frames", u16s(None), vec![0, 1, 3, 4, 5, 6, 10, 11, 12, 17]),
        case("missing-shards", u16s(None), vec![1, 30, 31, 47]),
        case("missing-first-frames", u16s(Some(12)), (5..12).collect()),
        case("out-of-order", u16s(None), vec![3, 1, 0, 2, 7, 6, 5, 4, 9, 8, 10]),
        corner("empty-chunks-skipped", u16s(None)),
        corner("empty-chunks-skipped-packed", packed(u16s(None))),
        corner("empty-chunks-written", Config { skip_empty_chunks: false, ..u16s(None) }),
        corner("empty-chunks-skipped-start", Config { index_location: IndexLocation::Start, ..u16s(None) }),
    ]
}

fn deliveries() -> Vec<Case> {
    let delivered = |name: &str, config: Config, delivery| Case::new(name, config).image(|i| i.delivery = delivery);
    let layout = FrameLayout { buffer_bytes: 16384, offset: 300, row_stride: 256 };
    let margins = Config { frame_layout: Some(layout), ..config(Dtype::U16, movie(None)) };
    // A row of this movie is a whole chunk wide: rows of several frames could be taken together by mistake.
    let wide = vec![Dim::time(6).chunk(2).shard(4), Dim::y(32).chunk(16).shard(32), Dim::x(64).chunk(64).shard(64)];
    let wide_margins = Config { frame_layout: Some(layout), ..config(Dtype::U16, wide.clone()) };
    vec![
        delivered("appended", config(Dtype::U16, movie(None)), Delivery::Appended(1)),
        delivered("appended-in-batches", config(Dtype::F32, movie(None)), Delivery::Appended(4)),
        delivered("cropped", config(Dtype::U16, movie(None)), Delivery::Cropped(22)),
        delivered("cropped-wide", config(Dtype::U16, wide), Delivery::Cropped(7)),
        delivered("margins", margins, Delivery::Margins),
        delivered("margins-wide", wide_margins, Delivery::Margins),
    ]
}

/// What stands beside the pixels.
fn descriptions() -> Vec<Case> {
    let field = |name: &str, dtype| RecordField { name: name.into(), dtype };
    let recorded = Config {
        record_fields: vec![
            field("stage_x", Dtype::F64),
            field("laser", Dtype::U16),
            field("count", Dtype::I64),
            field("gain", Dtype::F32),
        ],
        ..config(Dtype::U8, movie(None))
    };
    let channel = |label: &str, color: &str, window| Channel { label: label.into(), color: color.into(), window };
    let [y, x] = frames((20, 8, 16), (30, 16, 32));
    let described = Config {
        channels: vec![channel("DAPI", "0000FF", Some((10.0, 900.0))), channel("GFP", "00ff00", None)],
        name: Some("a name with \"quotes\" and µ".into()),
        ..config(
            Dtype::U16,
            vec![
                Dim::time(2).scale(0.5, "second"),
                Dim::channel(2),
                Dim::z(3).scale(2.0, "micrometer"),
                y.scale(0.325, "micrometer"),
                x.scale(0.325, "micrometer"),
            ],
        )
    };
    let several = |packed: bool| {
        let image = |group, config: Config| Image { group, ..Image::new(config) };
        let left = Config { placement: if packed { Placement::Packed } else { Placement::Fixed }, ..described.clone() };
        let right = Config { name: None, ..config(Dtype::U8, movie(None)) };
        let flat = config(Dtype::F32, frames((20, 8, 16), (30, 16, 32)).to_vec());
        vec![image("left", left), image("right", right), image("z.stack-3", flat)]
    };
    vec![
        Case::new("records", recorded).image(|image| image.numbers.retain(|number| number % 5 != 2)),
        Case::new("described", described.clone()),
        Case::new("attributes", config(Dtype::U8, movie(3))).image(|image| {
            image.attributes.insert("exposure_ms".into(), json!(12.5));
            image.attributes.insert("µ".into(), json!({"nested": [1, null, "text"], "big": 9_007_199_254_740_993_u64}));
        }),
        Case { name: "several-images".into(), images: several(false) },
        Case { name: "several-images-packed".into(), images: several(true) },
    ]
}
