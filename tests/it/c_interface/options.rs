//! Every option, as a program in C says it.

use std::time::Duration;

use super::building::Program;
use serde_json::{Value, json};
use shardwright::{
    BloscCname, Channel, Codec, Compressor, Config, Depth, Dialect, Dim, DimKind, Downsampling, Dtype, Flip,
    FrameLayout, ImageLabel, IndexLocation, LabelColor, ManifestForm, OmeVersion, Orientation, Part, PartBy,
    PixelFormat, Placement, PyramidMethod, RecordField, RingFull, Shuffle, StorageKind, Volume, VolumeHash,
};

/// A configuration in which nothing is the default, as `options.c` has it. Every field is named, so that a new one is
/// missed here.
fn every_option() -> Config {
    let dim = |name: &str, kind, size| Dim::new(name, kind, size);
    let field = |name: &str, dtype| RecordField { name: name.into(), dtype };
    let channel = |label: &str, color: &str, window| Channel { label: label.into(), color: color.into(), window };
    let blosc = Compressor::Blosc { cname: BloscCname::Zstd, level: 3, shuffle: Shuffle::Byte, block_bytes: 4096 };
    Config {
        leap_max: 7_000,
        dialect: Dialect::Zarr2Sharded,
        index_checksum: false,
        volume: volume(),
        dtype: Dtype::I32,
        dims: vec![
            dim("t", DimKind::Time, 5).chunk(1).shard(5).scale(0.5, "second"),
            dim("p", DimKind::Other, 3),
            dim("c", DimKind::Channel, 2),
            dim("y", DimKind::Space, 30).chunk(10).shard(30),
            dim("x", DimKind::Space, 40).scale(1.0, "micrometer").translation(-12.5),
        ],
        acquisition_order: ["t", "c", "p"].map(String::from).to_vec(),
        codec: Codec { compressor: blosc, checksum: false },
        placement: Placement::Packed,
        index_location: IndexLocation::Start,
        storage: StorageKind::Buffered,
        fill_value: (-7).into(),
        skip_empty_chunks: false,
        ring_bytes: 1 << 20,
        frame_layout: Some(FrameLayout { buffer_bytes: 8192, offset: 16, row_stride: 256 }),
        pixel_format: PixelFormat::Mono12Packed,
        unused_low_bits: 4,
        orientation: Orientation { transpose: true, flip: Flip::Columns },
        ring_full: RingFull::Block { timeout: Some(Duration::from_millis(1500)) },
        workers: 2,
        affinity: vec![0],
        sync: false,
        checkpoint_every: Duration::from_millis(250),
        record_fields: vec![field("laser", Dtype::U16), field("stage", Dtype::F64)],
        record_roi: true,
        channels: vec![channel("DAPI", "0000FF", Some((10.0, 900.0))), channel("GFP", "", None)],
        name: Some("µ".into()),
        key: Some("a/b".into()),
        bare: true,
        ome: OmeVersion::V0_6,
        overwrite: true,
        guard_maps: true,
        manifest: vec![ManifestForm::Manifest, ManifestForm::Kerchunk],
        pyramid: Some(Downsampling {
            method: PyramidMethod::Mode,
            levels: Some(3),
            y: true,
            x: false,
            depth: Depth::Auto,
        }),
        plate_acquisition: Some(7),
        part: Some(Part { index: 3, of: 5, by: PartBy::Frame }),
        label: Some(ImageLabel { colors: vec![LabelColor { value: -1, rgba: [1, 2, 3, 4] }], ..ImageLabel::default() }),
    }
}

fn volume() -> Volume {
    Volume {
        key: Some("fine".into()),
        hash: VolumeHash::Murmurhash3X86_128,
        preshift_bits: Some(1),
        minishard_bits: None,
        shard_bits: Some(3),
        gzip_indexes: true,
        voxel_offset: [1, -2, 3],
        resolution: Some([4.0, 5.0, 6.5]),
    }
}

#[test]
fn every_option_can_be_said_as_a_struct_and_as_a_document() {
    let expected = serde_json::to_value(every_option()).unwrap();
    let program = Program::new("tests/it/c_interface/options.c");
    let struct_text = program.run::<&str>(&[]);
    assert_eq!(serde_json::from_str::<Value>(&struct_text).unwrap(), expected);
    assert_eq!(serde_json::from_str::<Value>(&program.run(&[&struct_text])).unwrap(), expected);
    let toml = "
        dtype = 'i32'
        workers = 3
        [[dims]]
        name = 't'
        [[dims]]
        name = 'y'
        size = 5
    ";
    let got: Value = serde_json::from_str(&program.run(&[toml])).unwrap();
    assert_eq!((&got["dtype"], &got["workers"], &got["dims"][1]["size"]), (&json!("int32"), &json!(3), &json!(5)));
}
