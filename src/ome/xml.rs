//! The OME-XML that stands beside several images.
//!
//! Source: the OME-XML schema of 2016-06.

use std::fmt::Write as _;

use super::units::{length_symbol, time_symbol};
use super::{CHANNEL_ELEMENTS_MAX, rgb};
use crate::config::{Channel, Config, Dim, DimKind};
use crate::dtype::Dtype;
use crate::words::quoted;

/// Where it stands in a dataset.
pub(crate) const PATH: &str = "OME/METADATA.ome.xml";

/// What stands at [`PATH`]: for each image its name, its configuration and the array's shape.
///
/// Readers match images by position, so the order must be that of `series` in the group beside it.
pub(crate) fn metadata_xml(images: &[(String, &Config, &[u64])]) -> String {
    const NAMESPACE: &str = "http://www.openmicroscopy.org/Schemas/OME/2016-06";
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        xml,
        "<OME xmlns=\"{NAMESPACE}\" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
         xsi:schemaLocation=\"{NAMESPACE} {NAMESPACE}/ome.xsd\" Creator=\"shardwright {}\">",
        env!("CARGO_PKG_VERSION")
    );
    for (number, (name, config, shape)) in images.iter().enumerate() {
        image_xml(&mut xml, number, name, config, shape);
    }
    xml.push_str("</OME>\n");
    xml
}

fn image_xml(xml: &mut String, number: usize, name: &str, config: &Config, shape: &[u64]) {
    let [x, y, z, c, t] = sizes(&config.dims, shape);
    let _ = writeln!(xml, "  <Image ID=\"Image:{number}\" Name=\"{}\">", escape(name));
    let place = place(&config.dims);
    if !place.is_empty() {
        let attributes = attributes(&place, "");
        let _ = writeln!(xml, "    <StageLabel Name=\"{}\"{attributes}/>", escape(name));
    }
    let _ = writeln!(
        xml,
        "    <Pixels ID=\"Pixels:{number}\" DimensionOrder=\"XYZCT\" Type=\"{}\" BigEndian=\"false\" SizeX=\"{x}\" \
         SizeY=\"{y}\" SizeZ=\"{z}\" SizeC=\"{c}\" SizeT=\"{t}\"{}>",
        pixel_type(config.dtype),
        distances(&config.dims)
    );
    for channel in 0..c.min(CHANNEL_ELEMENTS_MAX) {
        let _ = write!(xml, "      <Channel ID=\"Channel:{number}:{channel}\" SamplesPerPixel=\"1\"");
        if let Some(described) = config.channels.get(channel as usize) {
            let color = Channel::shown_color(&config.channels, channel as usize);
            let rgba = rgb(color).unwrap_or(0x00FF_FFFF) << 8 | 0xFF;
            // The schema's colour is a signed 32-bit RGBA.
            let _ = write!(xml, " Name=\"{}\" Color=\"{}\"", escape(&described.label), rgba.cast_signed());
        }
        xml.push_str("/>\n");
    }
    xml.push_str("      <MetadataOnly/>\n");
    if !place.is_empty() {
        // Of the first plane: the distances say where the others are.
        let attributes = attributes(&place, "Position");
        let _ = writeln!(xml, "      <Plane TheZ=\"0\" TheC=\"0\" TheT=\"0\"{attributes}/>");
    }
    xml.push_str("    </Pixels>\n  </Image>\n");
}

/// Where the first pixel is: direction, value, and the unit's symbol. Nothing where no dimension says so, and nothing
/// of a dimension without a unit: the schema knows such places only relative to the microscope.
fn place(dims: &[Dim]) -> Vec<(char, f64, &'static str)> {
    if dims.iter().all(|dim| dim.kind != DimKind::Space || dim.translation == 0.0) {
        return Vec::new();
    }
    let of = |(index, dim): (usize, &Dim)| {
        let letter = Some(letter(dims, index, dim.kind)).filter(|letter| "XYZ".contains(*letter))?;
        Some((letter, dim.translation, length_symbol(dim.unit.as_deref()?)?))
    };
    let mut place: Vec<_> = dims.iter().enumerate().filter_map(of).collect();
    place.reverse();
    place
}

/// The attributes of a place, whose names begin so.
fn attributes(place: &[(char, f64, &'static str)], start: &str) -> String {
    let attribute = |(letter, value, unit): &(char, f64, &'static str)| {
        format!(" {start}{letter}=\"{value}\" {start}{letter}Unit=\"{unit}\"")
    };
    place.iter().map(attribute).collect()
}

/// The five sizes of OME-XML: X, Y, Z, C, T. The schema wants each above 0, also before the first frame has arrived.
fn sizes(dims: &[Dim], shape: &[u64]) -> [u64; 5] {
    let mut sizes = [1u64; 5];
    for (index, (dim, &length)) in dims.iter().zip(shape).enumerate() {
        let at = "XYZCT".find(letter(dims, index, dim.kind)).expect("it is one of these letters");
        sizes[at] = sizes[at].saturating_mul(length.max(1));
    }
    sizes
}

/// The letter under which OME-XML knows a dimension; a custom axis goes with the channels.
fn letter(dims: &[Dim], index: usize, kind: DimKind) -> char {
    match (dims.len() - index, kind) {
        (1, _) => 'X',
        (2, _) => 'Y',
        (_, DimKind::Space) => 'Z',
        (_, DimKind::Time) => 'T',
        (_, DimKind::Channel | DimKind::Other) => 'C',
    }
}

/// `PhysicalSizeX` and its kin. Left out without a unit: the schema's default is the micrometre, which would be a lie.
fn distances(dims: &[Dim]) -> String {
    let mut attributes = String::new();
    for (index, dim) in dims.iter().enumerate() {
        let Some(unit) = dim.unit.as_deref() else { continue };
        let (attribute, symbol) = match letter(dims, index, dim.kind) {
            'X' => ("PhysicalSizeX", length_symbol(unit)),
            'Y' => ("PhysicalSizeY", length_symbol(unit)),
            'Z' => ("PhysicalSizeZ", length_symbol(unit)),
            'T' => ("TimeIncrement", time_symbol(unit)),
            _ => continue,
        };
        if let Some(symbol) = symbol {
            let _ = write!(attributes, " {attribute}=\"{}\" {attribute}Unit=\"{symbol}\"", dim.scale);
        }
    }
    attributes
}

fn pixel_type(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::U8 => "uint8",
        Dtype::I8 => "int8",
        Dtype::U16 => "uint16",
        Dtype::I16 => "int16",
        Dtype::U32 => "uint32",
        Dtype::I32 => "int32",
        Dtype::F32 => "float",
        // The schema has no 64-bit integer; readers take the type from the array, and need some valid word here.
        Dtype::F64 | Dtype::U64 | Dtype::I64 => "double",
    }
}

/// Of dimensions whose units OME-Zarr does not list, what somebody should know who chose them.
pub(crate) fn unknown_units(dims: &[Dim]) -> Vec<String> {
    let note = |dim: &Dim| {
        let unit = dim.unit.as_deref()?;
        let (is_known, such_as) = match dim.kind {
            DimKind::Space => (length_symbol(unit).is_some(), "micrometer"),
            DimKind::Time => (time_symbol(unit).is_some(), "millisecond"),
            DimKind::Channel | DimKind::Other => return None,
        };
        let name = &dim.name;
        (!is_known).then(|| {
            format!(
                "dimension {name}: {} is no unit that OME-Zarr lists, and viewers may pass over it; units are \
                 spelled as in UDUNITS-2, such as {such_as}",
                quoted(unit)
            )
        })
    };
    dims.iter().filter_map(note).collect()
}

/// Text for an XML attribute. Characters that XML 1.0 can't hold at all become U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // A parser would turn these into spaces.
            '\t' | '\n' | '\r' => {
                let _ = write!(escaped, "&#{};", u32::from(character));
            }
            '\0'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}' => escaped.push('\u{FFFD}'),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::tests::five_dimensions;
    use super::*;

    #[test]
    fn the_xml_names_sizes_distances_and_channels() {
        let config = five_dimensions();
        let xml = metadata_xml(&[("a \"b\" <c>\n\u{1}".to_owned(), &config, &[9, 2, 7, 32, 64])]);
        for expected in [
            "<Image ID=\"Image:0\" Name=\"a &quot;b&quot; &lt;c&gt;&#10;\u{FFFD}\">",
            "DimensionOrder=\"XYZCT\" Type=\"uint16\"",
            "SizeX=\"64\" SizeY=\"32\" SizeZ=\"7\" SizeC=\"2\" SizeT=\"9\"",
            "PhysicalSizeX=\"0.325\" PhysicalSizeXUnit=\"µm\"",
            "PhysicalSizeZ=\"1.5\" PhysicalSizeZUnit=\"µm\"",
            "TimeIncrement=\"0.05\" TimeIncrementUnit=\"s\"",
            "<Channel ID=\"Channel:0:0\" SamplesPerPixel=\"1\" Name=\"GFP\" Color=\"16711935\"/>",
            "<Channel ID=\"Channel:0:1\" SamplesPerPixel=\"1\" Name=\"R &amp; D\" Color=\"-16776961\"/>",
        ] {
            assert!(xml.contains(expected), "{xml} lacks {expected}");
        }
    }

    #[test]
    fn the_xml_says_where_the_first_plane_is() {
        let mut config = five_dimensions();
        assert!(!metadata_xml(&[("0".to_owned(), &config, &[9, 2, 7, 32, 64])]).contains("Position"));
        config.dims[3].translation = -1250.5;
        config.dims[2].translation = 3.0;
        let xml = metadata_xml(&[("a&b".to_owned(), &config, &[9, 2, 7, 32, 64])]);
        let label =
            "Name=\"a&amp;b\" X=\"0\" XUnit=\"µm\" Y=\"-1250.5\" YUnit=\"µm\" Z=\"3\" ZUnit=\"µm\"/>\n    <Pixels";
        assert!(xml.contains(&format!("<StageLabel {label}")), "{xml}");
        let plane = "<MetadataOnly/>\n      <Plane TheZ=\"0\" TheC=\"0\" TheT=\"0\" PositionX=\"0\" \
                     PositionXUnit=\"µm\" PositionY=\"-1250.5\" PositionYUnit=\"µm\" PositionZ=\"3\" \
                     PositionZUnit=\"µm\"/>";
        assert!(xml.contains(plane), "{xml}");
        config.dims[3].unit = Some("furlong".to_owned());
        assert!(!metadata_xml(&[("0".to_owned(), &config, &[9, 2, 7, 32, 64])]).contains("PositionY"));
    }

    #[test]
    fn the_xml_leaves_out_distances_without_a_unit_it_knows() {
        let config =
            Config { dims: vec![Dim::time(None), Dim::y(4).scale(2.0, "furlong"), Dim::x(4)], ..Config::default() };
        let xml = metadata_xml(&[("0".to_owned(), &config, &[0, 4, 4])]);
        assert!(!xml.contains("PhysicalSize") && !xml.contains("TimeIncrement"), "{xml}");
        assert!(xml.contains("SizeT=\"1\""), "the schema wants sizes above 0: {xml}");
        assert_eq!(xml.matches("<Channel ").count(), 1);
    }
}
