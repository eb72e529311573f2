//! All cases, by what they are about.

use super::*;

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
        let config = Config { fill_value: 7.into(), ..config(dtype, movie(None)) };
        Case::new(format!("type-{dtype}"), config).image(|image| image.numbers.retain(|number| number % 4 != 1))
    };
    let mut cases: Vec<_> = Dtype::ALL.iter().copied().map(case).collect();
    for (name, dtype, fill_value) in [
        ("nan", Dtype::F32, f64::NAN.into()),
        ("infinity", Dtype::F64, f64::INFINITY.into()),
        ("minus-infinity", Dtype::F32, f64::NEG_INFINITY.into()),
        ("fraction", Dtype::F32, 0.1.into()),
        ("negative", Dtype::I16, (-300).into()),
        ("large", Dtype::U64, u64::MAX.into()),
        ("beyond-doubles", Dtype::I64, (-9_007_199_254_740_993_i64).into()),
        ("largest", Dtype::U16, 65535.into()),
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
    let u16s = |size: Option<u64>| Config { fill_value: 3.into(), ..config(Dtype::U16, movie(size)) };
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
/// Labels of an image, and of a field.
const LEFT: [&str; 2] = ["left/labels/cells", "left/labels/nuclei"];
const FIELD: [&str; 2] = ["A/1/0/labels/cells", "A/1/0/labels/nuclei"];

/// The same in OME-Zarr 0.6.
fn newer(mut images: Vec<Image>) -> Vec<Image> {
    images.iter_mut().for_each(|image| image.config.ome = OmeVersion::V0_6);
    images
}

/// The same with labels of one of the images.
fn labelled(mut images: Vec<Image>, of: &'static str, names: [&'static str; 2]) -> Vec<Image> {
    let image = images.iter().find(|image| image.group == of).unwrap().config.clone();
    let color = |value, rgba| LabelColor { value, rgba };
    let known = LabelProperties { value: 1, properties: [("class".into(), json!("nucleus"))].into_iter().collect() };
    let label = ImageLabel { colors: vec![color(1, [255, 0, 0, 128]), color(2, [0; 4])], properties: vec![known] };
    let mut one_channel = image.dims.clone();
    one_channel.iter_mut().filter(|dim| dim.kind == DimKind::Channel).for_each(|dim| dim.size = Some(1));
    let cells = Config { dtype: Dtype::U32, dims: one_channel, label: Some(label), ..base(&image) };
    let nuclei = Config { dtype: Dtype::I8, ..base(&image) };
    let label = |(group, config): (&'static str, Config)| Image { group, ..Image::new(config) };
    images.extend(names.into_iter().zip([cells, nuclei]).map(label));
    images
}

/// An image of which all is said that there is to say.
fn described() -> Config {
    let channel = |label: &str, color: &str, window| Channel { label: label.into(), color: color.into(), window };
    let [y, x] = frames((20, 8, 16), (30, 16, 32));
    Config {
        channels: vec![channel("DAPI", "0000FF", Some((10.0, 900.0))), channel("GFP", "00ff00", None)],
        name: Some("a name with \"quotes\" and µ".into()),
        ..config(
            Dtype::U16,
            vec![
                Dim::time(2).scale(0.5, "second"),
                Dim::channel(2),
                Dim::z(3).scale(2.0, "micrometer"),
                y.scale(0.325, "micrometer").translation(-1200.5),
                x.scale(0.325, "micrometer").translation(12.25),
            ],
        )
    }
}

/// What labels have in common with their image.
fn base(image: &Config) -> Config {
    Config { dims: image.dims.clone(), ome: image.ome, ..config(image.dtype, image.dims.clone()) }
}

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
    let described = described();
    let several = |packed: bool| {
        let image = |group, config: Config| Image { group, ..Image::new(config) };
        let left = Config { placement: if packed { Placement::Packed } else { Placement::Fixed }, ..described.clone() };
        let right = Config { name: None, ..config(Dtype::U8, movie(None)) };
        let flat = config(Dtype::F32, frames((20, 8, 16), (30, 16, 32)).to_vec());
        vec![image("left", left), image("right", right), image("z.stack-3", flat)]
    };
    let fields = || {
        let of = |id, config: Config| Config { plate_acquisition: Some(id), ..config };
        let image = |group, config: Config| Image { group, ..Image::new(config) };
        let movie = config(Dtype::U8, movie(3));
        vec![
            image("C/2/0", of(1, described.clone())),
            image("A/1/1", of(2, movie.clone())),
            image("A/1/0", of(1, movie)),
        ]
    };
    vec![
        Case { name: "described-0.6".into(), images: newer(vec![Image::new(described.clone())]) },
        Case { name: "labels".into(), images: labelled(several(false), "left", LEFT) },
        Case { name: "tiles-0.6".into(), images: labelled(newer(several(true)), "left", LEFT) },
        Case { name: "plate-labels".into(), images: labelled(fields(), "A/1/0", FIELD) },
        Case { name: "plate-0.6".into(), images: labelled(newer(fields()), "A/1/0", FIELD) },
        Case::new("records", recorded).image(|image| image.numbers.retain(|number| number % 5 != 2)),
        Case::new("described", described.clone()),
        Case::new("attributes", config(Dtype::U8, movie(3))).image(|image| {
            image.attributes.insert("exposure_ms".into(), json!(12.5));
            image.attributes.insert("µ".into(), json!({"nested": [1, null, "text"], "big": 9_007_199_254_740_993_u64}));
        }),
        Case { name: "several-images".into(), images: several(false) },
        Case { name: "several-images-packed".into(), images: several(true) },
        Case { name: "plate".into(), images: fields() },
    ]
}
