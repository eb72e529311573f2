//! TIFF and OME-TIFF: one page for each frame, in the order of the array, slowest dimension first.
//!
//! Sources: TIFF 6.0; BigTIFF as libtiff defines it; OME Data Model 2016-06, "Pixels"; OME-TIFF specification, "The
//! TiffData element". In plain TIFF, the first page's description has the array's shape as tifffile writes and reads
//! it.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::rc::Rc;

use shardwright::ElementType::{self, Number};
use shardwright::offline::Axis;
use shardwright::{Channel, Dtype, units};
use tiff::encoder::colortype::{self, ColorType};
use tiff::encoder::{TiffEncoder, TiffKind, TiffKindBig, TiffKindStandard, TiffValue};
use tiff::tags::{PhotometricInterpretation, SampleFormat, Tag};

use super::image::{ExportedRegion, PixelSink, broken};
use crate::failure::Failure;

/// Offsets of plain TIFF have 32 bits; this leaves room for directories.
const PLAIN_BYTES_MAX: u64 = 4_000_000_000;
/// About what a page takes beside its pixels.
const PAGE_OVERHEAD_BYTES: u64 = 512;

/// How pixels become pages.
pub(super) struct PageLayout {
    width: u32,
    height: u32,
    dtype: ElementType,
    description: String,
    big: bool,
}

impl PageLayout {
    pub(super) fn new(image: &ExportedRegion, ome: bool, force_big: bool) -> Result<Self, Failure> {
        let [outer @ .., height, width] = image.shape.as_slice() else {
            return Err(Failure::Usage(format!(
                "a page of TIFF has two dimensions, but the region has {}; npy and raw take any",
                image.shape.len()
            )));
        };
        if !matches!(image.dtype, Number(_) | ElementType::F16 | ElementType::C64) {
            return Err(lacking("TIFF", image.dtype));
        }
        let side = |length: u64| match u32::try_from(length) {
            Ok(side @ 1..) => Ok(side),
            _ => Err(Failure::Usage(format!("a page of TIFF can't have {length} pixels in one direction"))),
        };
        let pages = outer.iter().product::<u64>();
        if pages == 0 {
            return Err(Failure::Usage("the region is empty, and a TIFF file has at least one page".into()));
        }
        let description = if ome { ome_xml(image)? } else { String::new() };
        let bytes = image.bytes().saturating_add(pages.saturating_mul(PAGE_OVERHEAD_BYTES));
        Ok(Self {
            width: side(*width)?,
            height: side(*height)?,
            dtype: image.dtype,
            description,
            big: force_big || bytes > PLAIN_BYTES_MAX,
        })
    }
}

fn lacking(format: &str, dtype: ElementType) -> Failure {
    let plain = if format == "TIFF" { "" } else { "plain TIFF (which few viewers open with such pixels), " };
    Failure::Usage(format!("{format} has no pixels of type {dtype} here; {plain}npy and raw take them"))
}

/// The sink for a layout.
pub(super) fn sink(file: BufWriter<File>, layout: PageLayout) -> Result<Box<dyn PixelSink>, Failure> {
    let page_bytes = layout.width as usize * layout.height as usize * layout.dtype.size();
    let page = Vec::with_capacity(page_bytes);
    let file = SharedFile(Rc::new(RefCell::new(file)));
    Ok(if layout.big {
        let encoder = TiffEncoder::new_big(file.clone()).map_err(|error| broken(&error))?;
        Box::new(Pages { file, encoder, layout, page, page_bytes })
    } else {
        let encoder = TiffEncoder::new(file.clone()).map_err(|error| broken(&error))?;
        Box::new(Pages { file, encoder, layout, page, page_bytes })
    })
}

/// The encoder keeps its file to itself, and a file that is only dropped says nothing of a last write that failed.
#[derive(Clone)]
struct SharedFile(Rc<RefCell<BufWriter<File>>>);

impl Write for SharedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

impl Seek for SharedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.borrow_mut().seek(to)
    }
}

/// Collects pixels until they make a page.
struct Pages<K: TiffKind> {
    file: SharedFile,
    encoder: TiffEncoder<SharedFile, K>,
    /// The description, if any, is empty after the first page.
    layout: PageLayout,
    page: Vec<u8>,
    page_bytes: usize,
}

/// Floating-point pixels of 16 bits.
struct Gray16Float;

impl ColorType for Gray16Float {
    type Inner = u16;
    const TIFF_VALUE: PhotometricInterpretation = PhotometricInterpretation::BlackIsZero;
    const BITS_PER_SAMPLE: &'static [u16] = &[16];
    const SAMPLE_FORMAT: &'static [SampleFormat] = &[SampleFormat::IEEEFP];

    /// Never asked for: pages have no predictor.
    fn horizontal_predict(_: &[u16], _: &mut Vec<u16>) {}
}

/// Complex pixels of two floating-point numbers of 32 bits.
struct Complex64;

impl ColorType for Complex64 {
    type Inner = u64;
    const TIFF_VALUE: PhotometricInterpretation = PhotometricInterpretation::BlackIsZero;
    const BITS_PER_SAMPLE: &'static [u16] = &[64];
    /// Adobe's TIFF technical notes: complex IEEE numbers.
    const SAMPLE_FORMAT: &'static [SampleFormat] = &[SampleFormat::Unknown(6)];

    /// Never asked for: pages have no predictor.
    fn horizontal_predict(_: &[u64], _: &mut Vec<u64>) {}
}

trait WritePages {
    fn write_page(&mut self) -> Result<(), Failure>;
}

macro_rules! write_pages {
    ($kind:ty) => {
        impl WritePages for Pages<$kind> {
            fn write_page(&mut self) -> Result<(), Failure> {
                match self.layout.dtype {
                    Number(Dtype::U8) => self.write::<colortype::Gray8>(u8::from_le_bytes),
                    Number(Dtype::I8) => self.write::<colortype::GrayI8>(i8::from_le_bytes),
                    Number(Dtype::U16) => self.write::<colortype::Gray16>(u16::from_le_bytes),
                    Number(Dtype::I16) => self.write::<colortype::GrayI16>(i16::from_le_bytes),
                    Number(Dtype::U32) => self.write::<colortype::Gray32>(u32::from_le_bytes),
                    Number(Dtype::I32) => self.write::<colortype::GrayI32>(i32::from_le_bytes),
                    Number(Dtype::U64) => self.write::<colortype::Gray64>(u64::from_le_bytes),
                    Number(Dtype::I64) => self.write::<colortype::GrayI64>(i64::from_le_bytes),
                    Number(Dtype::F32) => self.write::<colortype::Gray32Float>(f32::from_le_bytes),
                    Number(Dtype::F64) => self.write::<colortype::Gray64Float>(f64::from_le_bytes),
                    ElementType::F16 => self.write::<Gray16Float>(u16::from_le_bytes),
                    ElementType::C64 => self.write::<Complex64>(u64::from_le_bytes),
                    other => Err(lacking("TIFF", other)),
                }
            }
        }
    };
}

write_pages!(TiffKindStandard);
write_pages!(TiffKindBig);

impl<K: TiffKind> Pages<K> {
    fn write<C: ColorType>(
        &mut self,
        element: impl Fn(<C::Inner as ByteElement>::Array) -> C::Inner,
    ) -> Result<(), Failure>
    where
        C::Inner: ByteElement,
        [C::Inner]: TiffValue,
    {
        let samples: Vec<C::Inner> =
            self.page.chunks_exact(size_of::<C::Inner>()).map(|bytes| element(C::Inner::array(bytes))).collect();
        let mut write = || {
            let mut image = self.encoder.new_image::<C>(self.layout.width, self.layout.height)?;
            if !self.layout.description.is_empty() {
                image.encoder().write_tag(Tag::ImageDescription, self.layout.description.as_str())?;
            }
            image.write_data(&samples)
        };
        write().map_err(|error: tiff::TiffError| broken(&error))?;
        self.layout.description.clear();
        self.page.clear();
        Ok(())
    }
}

/// Elements that are made of an array of bytes.
trait ByteElement: Sized {
    type Array;

    fn array(bytes: &[u8]) -> Self::Array;
}

macro_rules! bytes {
    ($($element:ty),*) => {$(
        impl ByteElement for $element {
            type Array = [u8; size_of::<$element>()];

            fn array(bytes: &[u8]) -> Self::Array {
                bytes.try_into().expect("the page is cut into elements")
            }
        }
    )*};
}

bytes!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

impl<K: TiffKind> PixelSink for Pages<K>
where
    Self: WritePages,
{
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(bytes.len().min(self.page_bytes - self.page.len()));
            self.page.extend_from_slice(part);
            bytes = rest;
            if self.page.len() == self.page_bytes {
                self.write_page()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), Failure> {
        self.file.flush().map_err(|error| broken(&error))
    }
}

/// The OME-XML of the image; an error says what OME-TIFF can't hold.
fn ome_xml(image: &ExportedRegion) -> Result<String, Failure> {
    let name = image.dtype.zarr_name();
    let pixel_type = match image.dtype {
        Number(Dtype::F32) => "float",
        Number(Dtype::F64) => "double",
        ElementType::C64 => "complex",
        Number(Dtype::U64 | Dtype::I64) | ElementType::F16 => return Err(lacking("OME-TIFF", image.dtype)),
        _ => &name,
    };
    let order = dimension_order(image)?;
    let size = |letter: char| {
        let at = order.iter().position(|&known| known == Some(letter));
        at.map_or(1, |at| image.shape[at])
    };
    // The fastest dimension first; dimensions of one element may stand anywhere.
    let mut letters: String = order.iter().rev().flatten().collect();
    letters.extend("ZCT".chars().filter(|letter| !order.contains(&Some(*letter))));
    let mut pixels = format!("ID=\"Pixels:0\" DimensionOrder=\"{letters}\" Type=\"{pixel_type}\" BigEndian=\"false\"");
    for letter in "XYZCT".chars() {
        write!(pixels, " Size{letter}=\"{}\"", size(letter)).expect("a string takes it");
    }
    for (letter, axis) in order.iter().zip(&image.axes) {
        let Some(letter) = letter else { continue };
        if let Some(unit) = ome_unit(*letter, axis) {
            let name = if *letter == 'T' { "TimeIncrement".to_owned() } else { format!("PhysicalSize{letter}") };
            // The schema has sizes above 0 alone.
            if *letter == 'T' || (*letter != 'C' && axis.scale > 0.0) {
                write!(pixels, " {name}=\"{}\" {name}Unit=\"{unit}\"", axis.scale).expect("a string takes it");
            }
        }
    }
    let first = order.iter().position(|&known| known == Some('C')).map_or(0, |at| image.start[at]);
    let channels: String = (0..size('C')).map(|at| channel(at, image.channels.get((first + at) as usize))).collect();
    let name = image.name.as_ref().map(|name| format!(" Name=\"{}\"", escaped(name))).unwrap_or_default();
    let planes = size('Z') * size('C') * size('T');
    let place = place(image, &order);
    Ok(format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
         <OME xmlns=\"http://www.openmicroscopy.org/Schemas/OME/2016-06\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
         xsi:schemaLocation=\"http://www.openmicroscopy.org/Schemas/OME/2016-06 \
         http://www.openmicroscopy.org/Schemas/OME/2016-06/ome.xsd\">\
         <Image ID=\"Image:0\"{name}><Pixels {pixels}>{channels}<TiffData IFD=\"0\" PlaneCount=\"{planes}\"/>{place}\
         </Pixels></Image></OME>"
    ))
}

/// The element that says where the first plane is; the distances say where the others are.
fn place(image: &ExportedRegion, order: &[Option<char>]) -> String {
    let mut attributes = String::new();
    if (0..order.len()).all(|at| place_of(image, at) == 0.0) {
        return attributes;
    }
    for (at, axis) in image.axes.iter().enumerate().rev() {
        let place = place_of(image, at);
        let Some(letter @ ('X' | 'Y' | 'Z')) = order[at] else { continue };
        if let Some(unit) = ome_unit(letter, axis) {
            write!(attributes, " Position{letter}=\"{place}\" Position{letter}Unit=\"{unit}\"")
                .expect("a string takes it");
        }
    }
    match &attributes[..] {
        "" => attributes,
        _ => format!("<Plane TheZ=\"0\" TheC=\"0\" TheT=\"0\"{attributes}/>"),
    }
}

/// The element of a channel, with what OME-Zarr says of it.
fn channel(at: u64, said: Option<&Channel>) -> String {
    let mut element = format!("<Channel ID=\"Channel:0:{at}\" SamplesPerPixel=\"1\"");
    if let Some(Channel { label, color, .. }) = said {
        if !label.is_empty() {
            write!(element, " Name=\"{}\"", escaped(label)).expect("a string takes it");
        }
        // Red, green, blue and alpha, as a number with a sign.
        let color = u32::from_str_radix(color, 16).map(|rgb| ((rgb << 8) | 0xFF).cast_signed());
        if let Ok(color) = color {
            write!(element, " Color=\"{color}\"").expect("a string takes it");
        }
    }
    element + "/>"
}

/// A text as an attribute of XML in ASCII, of which a description of TIFF is made.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            // XML has no words for these.
            '\0'..='\x08' | '\x0B' | '\x0C' | '\x0E'..='\x1F' | '\u{FFFE}' | '\u{FFFF}' => escaped.push('?'),
            ' '..='~' if !"&<>\"".contains(character) => escaped.push(character),
            _ => write!(escaped, "&#{};", u32::from(character)).expect("a string takes it"),
        }
    }
    escaped
}

/// OME's letter of each dimension; `None` for one of a single element that OME has no letter for.
fn dimension_order(image: &ExportedRegion) -> Result<Vec<Option<char>>, Failure> {
    let letter = |at: usize, axis: &Axis| match (image.axes.len() - 1 - at, axis.name.to_ascii_lowercase().as_str()) {
        (0, _) => Some('X'),
        (1, _) => Some('Y'),
        (_, "t" | "time") => Some('T'),
        (_, "c" | "channel") => Some('C'),
        (_, "z") => Some('Z'),
        _ => None,
    };
    let order: Vec<_> = image.axes.iter().enumerate().map(|(at, axis)| letter(at, axis)).collect();
    for (at, letter) in order.iter().enumerate() {
        let again = letter.is_some() && order[..at].contains(letter);
        if again || (letter.is_none() && image.shape[at] > 1) {
            let whose = if image.named { "the dimension" } else { "the nameless dimension" };
            return Err(Failure::Usage(format!(
                "OME-TIFF knows t, c and z before y and x, but not {whose} {}; plain TIFF, npy and raw take it",
                image.axes[at].name
            )));
        }
    }
    Ok(order)
}

/// OME's symbol of the unit of an axis, as XML in ASCII, by its letter.
fn ome_unit(letter: char, axis: &Axis) -> Option<String> {
    let unit = axis.unit.as_deref()?;
    let symbol = match letter {
        'X' | 'Y' | 'Z' => units::length_symbol(unit),
        'T' => units::time_symbol(unit),
        _ => None,
    };
    symbol.map(escaped)
}

/// What to say of distances and places that are none to OME-TIFF.
pub(super) fn notes_of_places(image: &ExportedRegion) -> Vec<String> {
    // What is refused has its own words.
    let Ok(order) = dimension_order(image) else { return Vec::new() };
    let (mut sizes, mut places) = (Vec::new(), Vec::new());
    for (at, axis) in image.axes.iter().enumerate() {
        let unit = order[at].and_then(|letter| ome_unit(letter, axis));
        let of = |number: f64| {
            let unit = axis.unit.as_deref().map_or(" without a unit".to_owned(), |unit| format!(" {unit}"));
            format!("{} ({number}{unit})", axis.name)
        };
        let is_time = order[at] == Some('T');
        if axis.scale != 1.0 || axis.unit.is_some() {
            let is_told = unit.is_some() && (is_time || axis.scale > 0.0);
            sizes.extend((!is_told).then(|| of(axis.scale)));
        }
        // Where only the region begins later, whoever chose it knows.
        if axis.translation != 0.0 && (unit.is_none() || is_time) {
            places.push(of(place_of(image, at)));
        }
    }
    let note = |what: &str, left: Vec<String>, why: &str| {
        (!left.is_empty()).then(|| format!("{what} along {} is left out: {why}", left.join(", ")))
    };
    let of_size = "in OME-TIFF it is above 0, in a unit of length, or of time along t, that it knows";
    let of_place = "OME-TIFF has one along x, y and z alone, in a unit of length that it knows";
    let notes = [note("the size of a pixel", sizes, of_size), note("the place of the first pixel", places, of_place)];
    notes.into_iter().flatten().collect()
}

/// Where the first pixel of a region is along an axis.
fn place_of(image: &ExportedRegion, at: usize) -> f64 {
    image.axes[at].translation + image.axes[at].scale * image.start[at] as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(names: &str, shape: &[u64], dtype: impl Into<ElementType>) -> ExportedRegion {
        let axes = names.chars().map(|name| Axis::new(name.to_string())).collect();
        let (start, shape, dtype) = (vec![0; shape.len()], shape.to_vec(), dtype.into());
        ExportedRegion { start, shape, dtype, axes, named: true, name: None, channels: Vec::new() }
    }

    #[test]
    fn the_order_of_dimensions_is_the_array_s() {
        let xml = |names: &str, shape: &[u64]| ome_xml(&image(names, shape, Dtype::U16)).unwrap();
        assert!(xml("tczyx", &[2, 3, 4, 5, 6]).contains("DimensionOrder=\"XYZCT\""));
        assert!(xml("zcyx", &[2, 3, 5, 6]).contains("DimensionOrder=\"XYCZT\""));
        let flat = xml("yx", &[5, 6]);
        assert!(flat.contains("SizeX=\"6\" SizeY=\"5\" SizeZ=\"1\" SizeC=\"1\" SizeT=\"1\""), "{flat}");
        assert!(flat.is_ascii());
    }

    #[test]
    fn names_and_colours_are_carried_in_ascii() {
        let channel = |label: &str, color: &str| Channel { label: label.into(), color: color.into(), window: None };
        let channels = vec![channel("cut off", "000000"), channel("a<\"µ\"\n\u{1}", "00FF00"), channel("", "FF0000")];
        let mut image = image("cyx", &[2, 5, 6], Dtype::U8);
        image.start[0] = 1;
        let image = ExportedRegion { name: Some("é & co".to_owned()), channels, ..image };
        let xml = ome_xml(&image).unwrap();
        assert!(xml.contains("<Image ID=\"Image:0\" Name=\"&#233; &#38; co\">"), "{xml}");
        assert!(
            xml.contains("SamplesPerPixel=\"1\" Name=\"a&#60;&#34;&#181;&#34;&#10;?\" Color=\"16711935\"/>"),
            "{xml}"
        );
        assert!(xml.contains("ID=\"Channel:0:1\" SamplesPerPixel=\"1\" Color=\"-16776961\"/>"), "{xml}");
        assert!(xml.is_ascii() && !xml.contains("cut off"));
    }

    #[test]
    fn the_first_plane_of_a_part_is_where_it_was() {
        let mut image = image("zyx", &[2, 5, 6], Dtype::U8);
        image.start = vec![3, 0, 10];
        for (axis, scale) in image.axes.iter_mut().zip([2.0, 0.5, 0.25]) {
            (axis.scale, axis.translation, axis.unit) = (scale, 100.0, Some("micrometer".to_owned()));
        }
        image.axes[1].unit = None;
        let xml = ome_xml(&image).unwrap();
        let plane = "<Plane TheZ=\"0\" TheC=\"0\" TheT=\"0\" PositionX=\"102.5\" PositionXUnit=\"&#181;m\" \
                     PositionZ=\"106\" PositionZUnit=\"&#181;m\"/></Pixels>";
        assert!(xml.contains(plane), "{xml}");
    }

    #[test]
    fn what_ome_tiff_can_t_hold_is_named() {
        let refused = |image: ExportedRegion| ome_xml(&image).unwrap_err().to_string();
        assert!(refused(image("tyx", &[1, 1, 1], Dtype::U64)).contains("no pixels of type uint64"));
        assert!(refused(image("tyx", &[1, 1, 1], ElementType::F16)).contains("no pixels of type float16"));
        assert!(refused(image("pyx", &[2, 1, 1], Dtype::U8)).contains("not the dimension p"));
        assert!(ome_xml(&image("pyx", &[1, 1, 1], Dtype::U8)).is_ok());
    }

    #[test]
    fn what_would_not_fit_becomes_bigtiff() {
        let big = |shape: &[u64]| PageLayout::new(&image("tyx", shape, Dtype::U16), false, false).unwrap().big;
        assert!(!big(&[100, 2048, 2048]));
        assert!(big(&[500, 2048, 2048]));
        assert!(PageLayout::new(&image("tyx", &[1, 2, 2], Dtype::U16), false, true).unwrap().big);
    }

    #[test]
    fn shapes_that_are_no_pages_are_refused() {
        assert!(PageLayout::new(&image("x", &[5], Dtype::U8), false, false).is_err());
        assert!(PageLayout::new(&image("tyx", &[0, 5, 5], Dtype::U8), false, false).is_err());
        for dtype in [ElementType::Bool, ElementType::C128, ElementType::Raw(3)] {
            let refused = PageLayout::new(&image("yx", &[5, 5], dtype), false, false).err().unwrap().to_string();
            assert!(refused.contains("npy and raw take them"), "{refused}");
        }
    }
}
