//! Stacks that the crate `tiff` writes.

use std::fs::File;

use ::tiff::encoder::colortype::{self, ColorType as Encoded};
use ::tiff::encoder::{Compression, DeflateLevel, Predictor, TiffEncoder, TiffKind, TiffValue};
use shardwright::{Dim, Dtype};
use tempfile::TempDir;

use super::super::recording::named_channel;
use super::*;
use crate::source::{FrameSource, Recording};

const WIDTH: u32 = 37;
const HEIGHT: u32 = 11;

/// A page's pixels: a slope with a bump that moves, so that every compression has something to do.
fn values(page: u32) -> Vec<u32> {
    (0..WIDTH * HEIGHT).map(|i| (i / 5 + page * 7 + if i % (page + 3) == 0 { 50 } else { 0 }) % 127).collect()
}

struct Stack<'a> {
    pages: u32,
    compression: Compression,
    predictor: Predictor,
    description: Option<&'a str>,
}

const PLAIN: Stack =
    Stack { pages: 4, compression: Compression::Uncompressed, predictor: Predictor::None, description: None };

impl Stack<'_> {
    fn write<C: Encoded, K: TiffKind>(&self, path: &Path, convert: impl Fn(u32) -> C::Inner)
    where
        [C::Inner]: TiffValue,
    {
        let file = File::create(path).unwrap();
        let encoder = TiffEncoder::<_, K>::new_generic(file).unwrap();
        let mut encoder = encoder.with_compression(self.compression).with_predictor(self.predictor);
        for page in 0..self.pages {
            let mut image = encoder.new_image::<C>(WIDTH, HEIGHT).unwrap();
            if let (0, Some(text)) = (page, self.description) {
                image.encoder().write_tag(::tiff::tags::Tag::ImageDescription, text).unwrap();
            }
            let pixels: Vec<_> = values(page).into_iter().map(&convert).collect();
            image.write_data(&pixels).unwrap();
        }
    }
}

fn assert_frames<T: PartialEq + std::fmt::Debug>(
    source: &mut PlaneReader,
    dtype: Dtype,
    convert: impl Fn(u32) -> T,
    decode: impl Fn(&[u8]) -> T,
) {
    assert_eq!(source.recording().dtype, dtype);
    let mut frame = vec![0; source.recording().frame_bytes() as usize];
    for page in [3, 0, 1, 2, 3] {
        source.read(page, &mut frame).unwrap();
        let got: Vec<T> = frame.chunks_exact(dtype.size()).map(&decode).collect();
        let expected: Vec<T> = values(page as u32).into_iter().map(&convert).collect();
        assert_eq!(got, expected, "page {page} of {dtype}");
    }
}

macro_rules! round_trip {
    ($folder:expr, $stack:expr, $kind:ty, $color:ty, $dtype:expr, $inner:ty) => {{
        let path = $folder.path().join("stack.tif");
        $stack.write::<$color, $kind>(&path, |value| value as $inner);
        let mut source = open(&path, None).unwrap();
        assert_frames(
            &mut source,
            $dtype,
            |value| value as $inner,
            |bytes| <$inner>::from_ne_bytes(bytes.try_into().unwrap()),
        );
    }};
}

#[test]
fn every_element_type_is_read() {
    let folder = TempDir::new().unwrap();
    type Classic = ::tiff::encoder::TiffKindStandard;
    round_trip!(folder, PLAIN, Classic, colortype::Gray8, Dtype::U8, u8);
    round_trip!(folder, PLAIN, Classic, colortype::GrayI8, Dtype::I8, i8);
    round_trip!(folder, PLAIN, Classic, colortype::Gray16, Dtype::U16, u16);
    round_trip!(folder, PLAIN, Classic, colortype::GrayI16, Dtype::I16, i16);
    round_trip!(folder, PLAIN, Classic, colortype::Gray32, Dtype::U32, u32);
    round_trip!(folder, PLAIN, Classic, colortype::GrayI32, Dtype::I32, i32);
    round_trip!(folder, PLAIN, Classic, colortype::Gray64, Dtype::U64, u64);
    round_trip!(folder, PLAIN, Classic, colortype::GrayI64, Dtype::I64, i64);
    round_trip!(folder, PLAIN, Classic, colortype::Gray32Float, Dtype::F32, f32);
    round_trip!(folder, PLAIN, Classic, colortype::Gray64Float, Dtype::F64, f64);
}

#[test]
fn every_compression_is_read_in_both_sizes_of_tiff() {
    let folder = TempDir::new().unwrap();
    let compressions = [
        (Compression::Lzw, Predictor::None),
        (Compression::Lzw, Predictor::Horizontal),
        (Compression::Deflate(DeflateLevel::Balanced), Predictor::None),
        (Compression::Deflate(DeflateLevel::Balanced), Predictor::Horizontal),
        (Compression::Packbits, Predictor::None),
    ];
    for (compression, predictor) in compressions {
        let stack = Stack { compression, predictor, ..PLAIN };
        round_trip!(folder, stack, ::tiff::encoder::TiffKindStandard, colortype::Gray16, Dtype::U16, u16);
        round_trip!(folder, stack, ::tiff::encoder::TiffKindBig, colortype::Gray8, Dtype::U8, u8);
    }
}

fn write_u16(path: &Path, stack: &Stack) {
    stack.write::<colortype::Gray16, ::tiff::encoder::TiffKindStandard>(path, |value| value as u16);
}

#[test]
fn a_plain_stack_is_a_movie() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("plain.tif");
    write_u16(&path, &PLAIN);
    let source = open(&path, None).unwrap();
    let movie = Recording::movie(Dtype::U16, Some(4), HEIGHT.into(), WIDTH.into());
    assert_eq!(source.recording(), &Recording { series: vec![0], ..movie });
}

#[test]
fn the_samples_of_a_pixel_are_channels() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rgb.tif");
    let mut encoder = TiffEncoder::new(File::create(&path).unwrap()).unwrap();
    for page in 0..2 {
        let pixels: Vec<u8> = (0..12).map(|value| value + 12 * page).collect();
        encoder.write_image::<colortype::RGB8>(2, 2, &pixels).unwrap();
    }
    let mut source = open(&path, None).unwrap();
    assert_eq!(source.recording().dims, [Dim::time(2), Dim::channel(3), Dim::y(2), Dim::x(2)]);
    let channels = &source.recording().channels;
    let told: Vec<_> = channels.iter().map(|channel| (&channel.label[..], &channel.color[..])).collect();
    assert_eq!(told, [("R", "FF0000"), ("G", "00FF00"), ("B", "0000FF")]);
    let mut frame = [0; 4];
    for index in [5, 0, 1, 3] {
        source.read(index, &mut frame).unwrap();
        let first = (index / 3 * 12 + index % 3) as u8;
        assert_eq!(frame, [first, first + 3, first + 6, first + 9]);
    }
}

#[test]
fn a_page_that_differs_is_named() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("odd.tif");
    let mut encoder = TiffEncoder::new(File::create(&path).unwrap()).unwrap();
    encoder.write_image::<colortype::Gray8>(4, 3, &[0; 12]).unwrap();
    encoder.write_image::<colortype::Gray8>(4, 3, &[0; 12]).unwrap();
    encoder.write_image::<colortype::Gray16>(4, 3, &[0; 12]).unwrap();
    let refused = open(&path, None).err().unwrap().to_string();
    assert!(
        refused.contains("page 2") && refused.contains("4 x 3 uint16") && refused.contains("4 x 3 uint8"),
        "{refused}"
    );
}

#[test]
fn a_stack_that_was_cut_off_keeps_its_whole_pages() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("cut.tif");
    write_u16(&path, &PLAIN);
    let length = std::fs::metadata(&path).unwrap().len();
    File::options().write(true).open(&path).unwrap().set_len(length * 5 / 8).unwrap();
    let mut source = open(&path, None).unwrap();
    let whole = source.recording().frames.unwrap();
    assert!((1..4).contains(&whole), "{whole}");
    let defect = source.recording().defect.clone().unwrap();
    assert!(defect.contains(&format!("page {whole}")) && defect.contains("too early"), "{defect}");
    let mut frame = vec![0; source.recording().frame_bytes() as usize];
    for index in 0..whole {
        source.read(index, &mut frame).unwrap();
    }
}

#[test]
fn ome_tiff_gives_axes_scales_and_order() {
    let xml = r#"<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image Name="cells">
        <Pixels DimensionOrder="XYCZT" SizeX="37" SizeY="11" SizeC="2" SizeZ="3" SizeT="2" PhysicalSizeX="0.2"
            PhysicalSizeY="0.2" PhysicalSizeZ="1"><Channel Name="GFP"/><Channel Name="RFP"/></Pixels></Image></OME>"#;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("cells.ome.tif");
    write_u16(&path, &Stack { pages: 12, description: Some(xml), ..PLAIN });
    let source = open(&path, None).unwrap();
    let recording = source.recording();
    let um = "micrometer";
    assert_eq!(
        recording.dims,
        [Dim::time(2), Dim::channel(2), Dim::z(3).scale(1.0, um), Dim::y(11).scale(0.2, um), Dim::x(37).scale(0.2, um)]
    );
    assert_eq!(recording.acquisition_order, ["t", "z", "c"]);
    assert_eq!(recording.channels, ["GFP", "RFP"].map(named_channel));
    assert_eq!(recording.name.as_deref(), Some("cells"));
    assert_eq!(recording.slowest(), 0);
}

#[test]
fn a_single_dimension_needs_no_order() {
    let xml = r#"<OME><Image><Pixels DimensionOrder="XYCZT" SizeC="1" SizeZ="4" SizeT="1"/></Image></OME>"#;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("stack.ome.tif");
    write_u16(&path, &Stack { description: Some(xml), ..PLAIN });
    let source = open(&path, None).unwrap();
    assert_eq!(source.recording().dims[0], Dim::z(4));
    assert!(source.recording().acquisition_order.is_empty());
}

#[test]
fn planes_that_the_file_has_no_pages_for_are_missing() {
    let xml = r#"<OME><Image><Pixels SizeT="9"/></Image></OME>"#;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("short.ome.tif");
    write_u16(&path, &Stack { description: Some(xml), ..PLAIN });
    let source = open(&path, None).unwrap();
    assert_eq!(source.recording().dims[0], Dim::time(9));
    assert!(!source.is_missing(3) && source.is_missing(4) && source.is_missing(8));
    assert!(source.recording().notes[0].contains("5 of 9 planes"), "{:?}", source.recording().notes);
}

#[test]
fn a_description_that_can_t_be_used_leaves_a_movie_and_a_note() {
    let xml = r#"<OME><Image><Pixels DimensionOrder="YX"/></Image></OME>"#;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("wrong.ome.tif");
    write_u16(&path, &Stack { description: Some(xml), ..PLAIN });
    let source = open(&path, None).unwrap();
    assert_eq!(source.recording().dims[0], Dim::time(4));
    assert!(source.recording().notes[0].contains("YX"), "{:?}", source.recording().notes);
}

#[test]
fn bytes_that_claim_anything_are_no_panic() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("hostile.tif");
    write_u16(&path, &Stack { compression: Compression::Lzw, pages: 2, ..PLAIN });
    let whole = std::fs::read(&path).unwrap();
    for place in 0..whole.len() {
        for value in [0, 0xff] {
            let mut bytes = whole.clone();
            bytes[place] = value;
            std::fs::write(&path, &bytes).unwrap();
            read_all(&path);
        }
    }
    for length in (0..whole.len()).step_by(3) {
        std::fs::write(&path, &whole[..length]).unwrap();
        read_all(&path);
    }
}

/// Reads what there is, as long as it is no more than a small file has reason to claim.
/// Decoding one would take as much memory, whatever `--memory` says.
#[test]
fn tiles_much_larger_than_their_small_page_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("tiles.tif");
    let with_tiles_of = |side: u32| {
        // Width, height, bits, compression (LZW), tile width, tile height, tile offsets, tile bytes.
        let tags = [(256, 10), (257, 8), (258, 8), (259, 5), (322, side), (323, side), (324, 8), (325, 8)];
        let mut bytes = b"II*\0\x10\0\0\0\x80\0\0\0\0\0\0\0\x08\0".to_vec();
        for (tag, value) in tags {
            bytes.extend([u16::to_le_bytes(tag), 4_u16.to_le_bytes()].concat());
            bytes.extend([1_u32.to_le_bytes(), value.to_le_bytes()].concat());
        }
        bytes.extend([0; 4]);
        std::fs::write(&path, bytes).unwrap();
        open(&path, None).map(|source| source.recording().sides())
    };
    assert_eq!(with_tiles_of(8192).unwrap(), [8, 10]);
    let refused = with_tiles_of(16384).err().unwrap().to_string();
    assert!(refused.contains("it claims tiles of 16384 x 16384 pixels"), "{refused}");
}

fn read_all(path: &Path) {
    let Ok(mut source) = open(path, None) else { return };
    let bytes = source.recording().frame_bytes();
    if bytes < 1 << 20 {
        let mut frame = vec![0; bytes as usize];
        (0..source.recording().frames.unwrap_or(0).min(4)).for_each(|index| drop(source.read(index, &mut frame)));
    }
}
