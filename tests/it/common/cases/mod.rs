//! Datasets that every reader must understand: one table, read back by Rust and by Python.

mod list;

use std::path::Path;

use serde_json::{Map, Value, json};
use shardwright::{
    Acquisition, BloscCname, Channel, Codec, Compressor, Config, Dataset, Dim, DimKind, Dtype, FillValue, FrameLayout,
    ImageLabel, IndexLocation, LabelColor, LabelProperties, OmeVersion, Placement, Plate, Record, RecordField, Shuffle,
    StorageKind, Summary,
};

use super::{Expected, frame};
#[allow(unused_imports, reason = "not every program with these fixtures asks for them")]
pub use list::all;

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
    /// Whether OME-Zarr has words for the dimensions.
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
    /// Appended, this many at a time.
    Appended(usize),
    /// Cut out of a larger picture, whose rows are this many bytes longer.
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
        let mut dataset = Dataset::create(path).unwrap();
        if self.images[0].group.contains('/') {
            let plate = Plate::new(3, 2).named("assay").acquisition(1, "before").acquisition(2, "after");
            dataset = dataset.with_plate(plate).unwrap();
        }
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
            // JSON has no number for it.
            let missing = if field.dtype.is_float() { json!("NaN") } else { json!(0) };
            records.insert(field.name.clone(), column(missing, &value));
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

fn element(dtype: Dtype, value: FillValue) -> Vec<u8> {
    let (whole, float) = match value {
        FillValue::Integer(whole) => (whole, whole as f64),
        FillValue::Float(float) => (float as i128, float),
        _ => unreachable!("there is no other kind"),
    };
    match dtype {
        Dtype::U8 => (whole as u8).to_ne_bytes().to_vec(),
        Dtype::I8 => (whole as i8).to_ne_bytes().to_vec(),
        Dtype::U16 => (whole as u16).to_ne_bytes().to_vec(),
        Dtype::I16 => (whole as i16).to_ne_bytes().to_vec(),
        Dtype::U32 => (whole as u32).to_ne_bytes().to_vec(),
        Dtype::I32 => (whole as i32).to_ne_bytes().to_vec(),
        Dtype::U64 => (whole as u64).to_ne_bytes().to_vec(),
        Dtype::I64 => (whole as i64).to_ne_bytes().to_vec(),
        Dtype::F32 => (float as f32).to_ne_bytes().to_vec(),
        Dtype::F64 => float.to_ne_bytes().to_vec(),
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
    all.push(Compressor::Zlib { level: 1 });
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
