//! TIFF stacks: classic and BigTIFF, compressed or not, with the axes of OME-TIFF where the file tells them.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use shardwright::{Dim, Dtype};
use tiff::decoder::{Decoder, Limits};
use tiff::tags::{PhotometricInterpretation, SampleFormat, Tag};
use tiff::{ColorType, TiffError};

use super::ome_xml::OmeImage;
use super::{Recording, Source, cannot, dim_named};
use crate::failure::Failure;

/// How classic TIFF and BigTIFF files begin, in both byte orders.
pub(crate) const MAGIC: [[u8; 4]; 4] = [*b"II\x2a\0", *b"MM\0\x2a", *b"II\x2b\0", *b"MM\0\x2b"];

/// A TIFF stack, decoded page by page.
pub(crate) struct Tiff {
    path: PathBuf,
    decoder: Decoder<BufReader<File>>,
    recording: Recording,
    /// The page of each frame. Empty: frame 0 is page 0 and so on.
    pages: Vec<usize>,
    frame_bytes: usize,
}

/// What all pages must agree in.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Page {
    width: u32,
    height: u32,
    dtype: Dtype,
}

impl std::fmt::Display for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} x {} {}", self.width, self.height, self.dtype)
    }
}

impl Tiff {
    /// Opens a stack and looks at every page's header, so that a page that doesn't fit is found before anything is
    /// written.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|error| Failure::io("open", path, &error))?;
        let mut limits = Limits::unlimited();
        // A description of a long stack is some megabytes; a length field that claims more is a broken file.
        limits.ifd_value_size = 256 << 20;
        limits.intermediate_buffer_size = 2 << 30;
        let decoder = Decoder::new(BufReader::with_capacity(1 << 16, file));
        let mut decoder = decoder.map_err(|error| cannot("read", path, &say(&error)))?.with_limits(limits);
        let page = page(&mut decoder, 0, path)?;
        let description = decoder.get_tag_ascii_string(Tag::ImageDescription).unwrap_or_default();
        let inverted = is_inverted(&mut decoder);
        let (pages, defect) = count_pages(&mut decoder, page, path)?;

        let frame_bytes = page.width as usize * page.height as usize * page.dtype.size();
        let (mut recording, order) = describe(page, pages, &description, defect.is_some());
        recording.defect = defect;
        if inverted {
            recording.notes.push("the stack stores white as zero; its values are inverted".into());
        }
        Ok(Self { path: path.to_owned(), decoder, recording, pages: order, frame_bytes })
    }
}

impl Source for Tiff {
    fn recording(&self) -> &Recording {
        &self.recording
    }

    fn read(&mut self, index: u64, frame: &mut [u8]) -> Result<(), Failure> {
        let index = index as usize;
        let page = self.pages.get(index).copied().unwrap_or(index);
        assert_eq!(frame.len(), self.frame_bytes, "the decoder would leave the rest of a larger frame as it is");
        let read = self.decoder.seek_to_image(page).and_then(|()| self.decoder.read_image_bytes(frame));
        read.map_err(|error| cannot(&format!("read page {page} of"), &self.path, &say(&error)))
    }
}

/// The decoder's words without its repetition of kinds ("format error: …").
fn say(error: &TiffError) -> String {
    match error {
        TiffError::FormatError(inner) => inner.to_string(),
        TiffError::UnsupportedError(inner) => inner.to_string(),
        TiffError::IoError(inner) if inner.kind() == std::io::ErrorKind::UnexpectedEof => {
            "the file ends too early".to_owned()
        }
        other => other.to_string(),
    }
}

/// The recording's dimensions, and the page of each frame if they are out of order.
fn describe(page: Page, pages: u64, description: &str, is_cut: bool) -> (Recording, Vec<usize>) {
    let mut recording = Recording::movie(page.dtype, Some(pages), page.height.into(), page.width.into());
    let head = description.trim_start();
    let is_ome = head.starts_with('<') && head.contains("<OME");
    if !is_ome {
        if let Some(images) = imagej_images(description).filter(|&images| images > pages && !is_cut) {
            recording.notes.push(format!(
                "ImageJ says that there are {images} images, but the file has {pages} pages; the images without a \
                 page of their own are not read"
            ));
        }
        return (recording, Vec::new());
    }
    match OmeImage::parse(description.trim_end_matches('\0'), pages) {
        Ok(image) => {
            apply(&image, &mut recording);
            let is_in_order = image.pages.iter().enumerate().all(|(frame, &page)| frame == page);
            (recording, if is_in_order { Vec::new() } else { image.pages })
        }
        Err(why) => {
            recording
                .notes
                .push(format!("the OME-XML description can't be used: {why}; the pages become one time axis"));
            (recording, Vec::new())
        }
    }
}

/// ImageJ writes `images=N`; beyond 4 GB its frames follow each other without pages.
fn imagej_images(description: &str) -> Option<u64> {
    let lines = description.strip_prefix("ImageJ=")?.lines();
    lines.filter_map(|line| line.strip_prefix("images=")).next()?.trim().parse().ok()
}

/// Takes over what OME-XML says. Dimensions of one element are left out; time stands in if there is no other.
fn apply(image: &OmeImage, recording: &mut Recording) {
    let arrival: Vec<_> = image.outer.iter().filter(|dim| dim.1 > 1).collect();
    let [x, y, z] = image.pixel_size;
    // OME-Zarr wants time, channel and depth in this order, whatever the order of arrival was.
    let mut dims: Vec<Dim> = ['t', 'c', 'z']
        .into_iter()
        .filter_map(|name| arrival.iter().find(|dim| dim.0 == name))
        .map(|&&(name, size)| match name {
            't' => scaled(Dim::time(size), image.time_step),
            'z' => scaled(dim_named("z", size), z),
            _ => Dim::channel(size),
        })
        .collect();
    if dims.is_empty() {
        dims.push(Dim::time(1));
    }
    let [.., rows, columns] = recording.dims.as_slice() else { unreachable!("a movie has rows and columns") };
    let inner = [scaled(rows.clone(), y), scaled(columns.clone(), x)];
    let order: Vec<_> = arrival.iter().map(|dim| dim.0.to_string()).collect();
    if dims.iter().map(|dim| &dim.name).ne(order.iter()) && order.len() > 1 {
        recording.acquisition_order = order;
    }
    if dims.iter().any(|dim| dim.name == "c") {
        recording.channels = image.channels.clone();
    }
    dims.extend(inner);
    recording.dims = dims;
    recording.name = image.name.clone();
}

fn scaled(dim: Dim, step: Option<(f64, &'static str)>) -> Dim {
    match step {
        Some((step, unit)) => dim.scale(step, unit),
        None => dim,
    }
}

/// Follows the chain of pages. A chain that breaks is a defect, as of a recording that was cut off; a page that differs
/// is an error.
fn count_pages(
    decoder: &mut Decoder<BufReader<File>>,
    first: Page,
    path: &Path,
) -> Result<(u64, Option<String>), Failure> {
    let mut pages = 1;
    while decoder.more_images() {
        if let Err(error) = decoder.next_image() {
            let why = cannot(&format!("read page {pages} of"), path, &say(&error));
            return Ok((pages, Some(why.to_string())));
        }
        let next = page(decoder, pages, path)?;
        if next != first {
            return Err(Failure::Input(format!(
                "page {pages} of {} is {next}, but page 0 is {first}; all pages must agree",
                path.display()
            )));
        }
        pages += 1;
    }
    Ok((pages, None))
}

fn page(decoder: &mut Decoder<BufReader<File>>, number: u64, path: &Path) -> Result<Page, Failure> {
    let refuse = |why: String| Failure::Input(format!("page {number} of {}: {why}", path.display()));
    let color = decoder.colortype().map_err(|error| refuse(say(&error)))?;
    let ColorType::Gray(bits) = color else {
        return Err(refuse(format!("{} pixels; only gray ones can be replayed", color_name(color))));
    };
    let (width, height) = decoder.dimensions().map_err(|error| refuse(say(&error)))?;
    let format = decoder.find_tag_unsigned_vec::<u16>(Tag::SampleFormat).map_err(|error| refuse(say(&error)))?;
    let format = format.and_then(|formats| formats.first().copied()).unwrap_or(1);
    let dtype = match (SampleFormat::from_u16_exhaustive(format), bits) {
        // "Undefined" is what old writers put where they meant unsigned.
        (SampleFormat::Uint | SampleFormat::Void, 8) => Dtype::U8,
        (SampleFormat::Uint | SampleFormat::Void, 16) => Dtype::U16,
        (SampleFormat::Uint | SampleFormat::Void, 32) => Dtype::U32,
        (SampleFormat::Uint | SampleFormat::Void, 64) => Dtype::U64,
        (SampleFormat::Int, 8) => Dtype::I8,
        (SampleFormat::Int, 16) => Dtype::I16,
        (SampleFormat::Int, 32) => Dtype::I32,
        (SampleFormat::Int, 64) => Dtype::I64,
        (SampleFormat::IEEEFP, 32) => Dtype::F32,
        (SampleFormat::IEEEFP, 64) => Dtype::F64,
        (format, bits) => {
            let names: Vec<_> = Dtype::ALL.iter().map(Dtype::to_string).collect();
            return Err(refuse(format!(
                "{bits}-bit samples of format {} can't be replayed; possible are {}",
                format.to_u16(),
                names.join(", ")
            )));
        }
    };
    Ok(Page { width, height, dtype })
}

fn color_name(color: ColorType) -> &'static str {
    match color {
        ColorType::RGB(_) | ColorType::RGBA(_) => "RGB",
        ColorType::CMYK(_) | ColorType::CMYKA(_) => "CMYK",
        ColorType::YCbCr(_) => "YCbCr",
        ColorType::Palette(_) => "palette",
        ColorType::GrayA(_) => "gray and alpha",
        ColorType::Lab(_) => "Lab",
        _ => "several-valued",
    }
}

fn is_inverted(decoder: &mut Decoder<BufReader<File>>) -> bool {
    let tag = decoder.find_tag_unsigned::<u16>(Tag::PhotometricInterpretation);
    matches!(tag, Ok(Some(value)) if PhotometricInterpretation::from_u16(value) == Some(PhotometricInterpretation::WhiteIsZero))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use tiff::encoder::colortype::{self, ColorType as Encoded};
    use tiff::encoder::{Compression, DeflateLevel, Predictor, TiffEncoder, TiffKind, TiffValue};

    use super::*;

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
                    image.encoder().write_tag(Tag::ImageDescription, text).unwrap();
                }
                let pixels: Vec<_> = values(page).into_iter().map(&convert).collect();
                image.write_data(&pixels).unwrap();
            }
        }
    }

    fn assert_frames<T: PartialEq + std::fmt::Debug>(
        source: &mut Tiff,
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
            let mut source = Tiff::open(&path).unwrap();
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
        type Classic = tiff::encoder::TiffKindStandard;
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
            round_trip!(folder, stack, tiff::encoder::TiffKindStandard, colortype::Gray16, Dtype::U16, u16);
            round_trip!(folder, stack, tiff::encoder::TiffKindBig, colortype::Gray8, Dtype::U8, u8);
        }
    }

    fn write_u16(path: &Path, stack: &Stack) {
        stack.write::<colortype::Gray16, tiff::encoder::TiffKindStandard>(path, |value| value as u16);
    }

    #[test]
    fn a_plain_stack_is_a_movie() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("plain.tif");
        write_u16(&path, &PLAIN);
        let source = Tiff::open(&path).unwrap();
        assert_eq!(source.recording(), &Recording::movie(Dtype::U16, Some(4), HEIGHT.into(), WIDTH.into()));
    }

    #[test]
    fn rgb_is_refused() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("rgb.tif");
        let mut encoder = TiffEncoder::new(File::create(&path).unwrap()).unwrap();
        encoder.write_image::<colortype::RGB8>(2, 2, &[0; 12]).unwrap();
        let refused = Tiff::open(&path).err().unwrap();
        assert!(matches!(&refused, Failure::Input(text) if text.contains("RGB") && text.contains("gray")), "{refused}");
    }

    #[test]
    fn a_page_that_differs_is_named() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("odd.tif");
        let mut encoder = TiffEncoder::new(File::create(&path).unwrap()).unwrap();
        encoder.write_image::<colortype::Gray8>(4, 3, &[0; 12]).unwrap();
        encoder.write_image::<colortype::Gray8>(4, 3, &[0; 12]).unwrap();
        encoder.write_image::<colortype::Gray16>(4, 3, &[0; 12]).unwrap();
        let refused = Tiff::open(&path).err().unwrap().to_string();
        assert!(
            refused.contains("page 2") && refused.contains("4 x 3 u16") && refused.contains("4 x 3 u8"),
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
        let mut source = Tiff::open(&path).unwrap();
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
        let source = Tiff::open(&path).unwrap();
        let recording = source.recording();
        let um = "micrometer";
        assert_eq!(
            recording.dims,
            [
                Dim::time(2),
                Dim::channel(2),
                Dim::z(3).scale(1.0, um),
                Dim::y(11).scale(0.2, um),
                Dim::x(37).scale(0.2, um)
            ]
        );
        assert_eq!(recording.acquisition_order, ["t", "z", "c"]);
        assert_eq!(recording.channels, ["GFP", "RFP"]);
        assert_eq!(recording.name.as_deref(), Some("cells"));
        assert_eq!(recording.slowest(), 0);
    }

    #[test]
    fn a_single_dimension_needs_no_order() {
        let xml = r#"<OME><Image><Pixels DimensionOrder="XYCZT" SizeC="1" SizeZ="4" SizeT="1"/></Image></OME>"#;
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("stack.ome.tif");
        write_u16(&path, &Stack { description: Some(xml), ..PLAIN });
        let source = Tiff::open(&path).unwrap();
        assert_eq!(source.recording().dims[0], Dim::z(4));
        assert!(source.recording().acquisition_order.is_empty());
    }

    #[test]
    fn a_description_that_does_not_fit_leaves_a_movie_and_a_note() {
        let xml = r#"<OME><Image><Pixels SizeT="9"/></Image></OME>"#;
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("wrong.ome.tif");
        write_u16(&path, &Stack { description: Some(xml), ..PLAIN });
        let source = Tiff::open(&path).unwrap();
        assert_eq!(source.recording().dims[0], Dim::time(4));
        assert!(source.recording().notes[0].contains("claims 9 pages"), "{:?}", source.recording().notes);
    }

    #[test]
    fn images_of_imagej_without_pages_are_missed_aloud() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("imagej.tif");
        write_u16(&path, &Stack { description: Some("ImageJ=1.53\nimages=9\nframes=9\n"), ..PLAIN });
        assert!(Tiff::open(&path).unwrap().recording().notes[0].contains("9 images"));
    }
}
