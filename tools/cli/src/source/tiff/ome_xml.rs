//! What OME-XML says of images and of the files and pages that hold them.
//!
//! Source: OME data model, schema 2016-06, elements `Image`, `StageLabel`, `Pixels`, `Channel`, `TiffData`, `Plane`,
//! `BinaryOnly`; "6D, 7D and 8D storage", elements `ModuloAlongZ`, `ModuloAlongC`, `ModuloAlongT`.

use roxmltree::{Document, Node};
use shardwright::{Channel, units};

use super::super::axes::Step;
use super::super::recording::named_channel;
use shardwright::words::quoted;

/// Whether a text is OME-XML.
pub(crate) fn is_ome(text: &str) -> bool {
    let head = text.trim_start();
    head.starts_with('<') && (head.contains("<OME") || head.contains(":OME "))
}

/// A document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ome {
    /// That of the file in which it stands.
    pub(crate) uuid: Option<String>,
    /// The file that holds the whole document, if this is only a pointer to it.
    pub(crate) metadata_file: Option<String>,
    /// The element by which a dimension is several ones, such as `ModuloAlongT`.
    pub(crate) modulo: Option<String>,
    /// The images, or in what respect one of them can't be used.
    pub(crate) images: Vec<Result<OmeImage, String>>,
}

/// An image.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OmeImage {
    pub(crate) name: Option<String>,
    pub(crate) width: u64,
    pub(crate) height: u64,
    /// The outer dimensions, slowest first, with their sizes: `[('t', 10), ('z', 1), ('c', 2)]`. Samples of a pixel
    /// count as channels.
    pub(crate) outer: [(char, u64); 3],
    /// Distances between pixels in x, y, z, with units, where they are known.
    pub(crate) pixel_size: [Option<Step>; 3],
    /// Where the first plane is in x, y, z, with units, where that is known.
    pub(crate) place: [Option<Step>; 3],
    /// The time between frames, with its unit.
    pub(crate) time_step: Option<Step>,
    /// Distances and places that can't be said in OME-Zarr, as they stand in the document.
    pub(crate) unsaid: Vec<String>,
    /// The channels; empty if none has a name or a colour.
    pub(crate) channels: Vec<Channel>,
    pub(crate) blocks: Vec<TiffDataBlock>,
}

/// Pages that follow each other in a file and in the dimensions: an element `TiffData`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TiffDataBlock {
    pub(crate) page: Option<u64>,
    pub(crate) planes: Option<u64>,
    /// Where the first plane is, in the order of the outer dimensions.
    pub(crate) first: [u64; 3],
    pub(crate) uuid: Option<String>,
    pub(crate) file: Option<String>,
}

impl Ome {
    pub(crate) fn parse(xml: &str) -> Result<Self, String> {
        let xml = xml.trim_matches(|c: char| c == '\0' || c == '\u{feff}' || c.is_whitespace());
        let document = Document::parse(xml).map_err(|error| format!("it is not well-formed: {error}"))?;
        let root = document.root_element();
        Ok(Self {
            uuid: root.attribute("UUID").map(str::to_owned),
            modulo: document.descendants().map(|node| node.tag_name().name()).find_map(modulo),
            metadata_file: root.child("BinaryOnly").and_then(|node| node.attribute("MetadataFile")).map(str::to_owned),
            images: document.descendants().filter(|node| node.is_named("Image")).map(OmeImage::read).collect(),
        })
    }
}

impl OmeImage {
    fn read(image: Node) -> Result<Self, String> {
        let pixels = image.child("Pixels").ok_or("its image has no Pixels")?;
        let outer = outer(pixels)?;
        let channel = |node: Node| Channel {
            color: color(node).unwrap_or_default(),
            ..named_channel(node.attribute("Name").unwrap_or_default())
        };
        let channels: Vec<_> = pixels.elements("Channel").map(channel).collect();
        let is_told = channels.iter().any(|channel| !(channel.label.is_empty() && channel.color.is_empty()));
        let mut unsaid = Vec::new();
        let axes = ["X", "Y", "Z"];
        let pixel_size = axes.map(|axis| measure(pixels, &format!("PhysicalSize{axis}"), "µm", &mut unsaid));
        let time_step = measure(pixels, "TimeIncrement", "s", &mut unsaid);
        let place = axes.map(|axis| place(image, pixels, axis, &mut unsaid));
        Ok(Self {
            name: image.attribute("Name").filter(|name| !name.is_empty()).map(str::to_owned),
            width: number(pixels, "SizeX")?.unwrap_or(0),
            height: number(pixels, "SizeY")?.unwrap_or(0),
            outer,
            pixel_size,
            place,
            time_step,
            unsaid,
            channels: if is_told { channels } else { Vec::new() },
            blocks: pixels
                .elements("TiffData")
                .map(|node| TiffDataBlock::read(node, outer))
                .collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn size(&self, letter: char) -> u64 {
        self.outer.iter().find(|dim| dim.0 == letter).map_or(1, |dim| dim.1)
    }
}

impl TiffDataBlock {
    /// By what its file is known, if it is said.
    pub(crate) fn file_key(&self) -> Option<&str> {
        self.file.as_deref().or(self.uuid.as_deref())
    }

    fn read(node: Node, outer: [(char, u64); 3]) -> Result<Self, String> {
        let mut first = [0; 3];
        for (first, (letter, _)) in first.iter_mut().zip(outer) {
            *first = number(node, &format!("First{}", letter.to_ascii_uppercase()))?.unwrap_or(0);
        }
        let planes = number(node, "PlaneCount")?.or(number(node, "NumPlanes")?);
        let uuid = node.child("UUID");
        Ok(Self {
            page: number(node, "IFD")?,
            planes,
            first,
            uuid: uuid.and_then(|uuid| uuid.text()).map(|text| text.trim().to_owned()),
            file: uuid.and_then(|uuid| uuid.attribute("FileName")).map(str::to_owned),
        })
    }
}

fn modulo(name: &str) -> Option<String> {
    name.starts_with("ModuloAlong").then(|| name.to_owned())
}

/// Elements by their local name: the namespace carries the schema's date, and files of all dates are about.
trait LocalName<'a, 'input: 'a> {
    fn is_named(&self, name: &str) -> bool;
    fn elements(self, name: &'static str) -> impl Iterator<Item = Node<'a, 'input>>;
    fn child(self, name: &'static str) -> Option<Node<'a, 'input>>;
}

impl<'a, 'input: 'a> LocalName<'a, 'input> for Node<'a, 'input> {
    fn is_named(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }

    fn elements(self, name: &'static str) -> impl Iterator<Item = Node<'a, 'input>> {
        self.children().filter(move |node| node.is_named(name))
    }

    fn child(self, name: &'static str) -> Option<Node<'a, 'input>> {
        self.elements(name).next()
    }
}

/// `DimensionOrder` names the fastest dimension first, and x and y are always the first two.
fn outer(pixels: Node) -> Result<[(char, u64); 3], String> {
    let order = pixels.attribute("DimensionOrder").unwrap_or("XYCZT");
    let letters: Vec<char> = order.strip_prefix("XY").unwrap_or("").chars().rev().collect();
    let mut sorted = letters.clone();
    sorted.sort_unstable();
    let (true, Ok(letters)) = (sorted == ['C', 'T', 'Z'], <[char; 3]>::try_from(letters)) else {
        return Err(format!("its DimensionOrder {} is none of the six that begin with XY", quoted(order)));
    };
    let mut outer = [(' ', 0); 3];
    for (dim, letter) in outer.iter_mut().zip(letters) {
        let size = number(pixels, &format!("Size{letter}"))?.unwrap_or(1);
        if size == 0 {
            return Err(format!("its Size{letter} is 0"));
        }
        *dim = (letter.to_ascii_lowercase(), size);
    }
    Ok(outer)
}

/// Red, green, blue and alpha, as a number with a sign or, by some writers, without one.
fn color(channel: Node) -> Option<String> {
    let number: i64 = channel.attribute("Color")?.trim().parse().ok()?;
    let rgba = u32::try_from(number).ok().or_else(|| i32::try_from(number).ok().map(i32::cast_unsigned))?;
    Some(format!("{:06X}", rgba >> 8))
}

fn number(node: Node, attribute: &str) -> Result<Option<u64>, String> {
    let Some(text) = node.attribute(attribute) else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| format!("its {attribute} {} is not a whole number", quoted(text)))
}

fn measure(pixels: Node, attribute: &str, default_unit: &str, unsaid: &mut Vec<String>) -> Option<Step> {
    match quantity(pixels, attribute, Some(default_unit))? {
        Ok(step) => Some(step).filter(|(value, _)| *value > 0.0),
        Err(what) => {
            // That a pixel is one pixel long need not be said.
            unsaid.extend(Some(what).filter(|what| what.split_once(' ') != Some((attribute, "1 pixel"))));
            None
        }
    }
}

/// Where the first plane is in a direction. Without a unit it is relative to the microscope's frame, which nobody
/// knows.
fn place(image: Node, pixels: Node, axis: &str, unsaid: &mut Vec<String>) -> Option<Step> {
    let is_first = |plane: &Node| ["TheZ", "TheC", "TheT"].iter().all(|at| plane.attribute(*at) == Some("0"));
    let plane = pixels.elements("Plane").find(is_first);
    let of_plane = plane.and_then(|plane| quantity(plane, &format!("Position{axis}"), None));
    let of_label = || quantity(image.child("StageLabel")?, axis, None);
    let found: Vec<_> = of_plane.into_iter().chain(of_label()).collect();
    let place = found.iter().find_map(|found| found.as_ref().ok()).copied();
    unsaid.extend(found.into_iter().find_map(Result::err).filter(|_| place.is_none()));
    place
}

/// A number with its unit, or what is said in no unit that OME-Zarr has.
fn quantity(node: Node, attribute: &str, default_unit: Option<&str>) -> Option<Result<Step, String>> {
    let value: f64 = node.attribute(attribute)?.trim().parse().ok().filter(|value: &f64| value.is_finite())?;
    let unit = node.attribute(format!("{attribute}Unit").as_str()).or(default_unit);
    let named = if attribute == "TimeIncrement" { units::time_named } else { units::length_named };
    match unit.and_then(named) {
        Some(unit) => Some(Ok((value, unit))),
        None if value == 0.0 => None,
        None => Some(Err(format!("{attribute} {value} {}", unit.unwrap_or("without a unit")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(pixels: &str, inside: &str) -> Result<OmeImage, String> {
        let xml = format!(
            r#"<?xml version="1.0" encoding="UTF-8"?>
            <OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="urn:uuid:1">
              <Image ID="Image:0" Name="embryo"><Pixels ID="Pixels:0" Type="uint16" {pixels}>{inside}</Pixels></Image>
            </OME>"#
        );
        assert!(is_ome(&xml));
        Ome::parse(&xml).unwrap().images.remove(0)
    }

    #[test]
    fn sizes_scales_and_names_are_read() {
        let image = image(
            r#"DimensionOrder="XYCZT" SizeX="64" SizeY="32" SizeC="2" SizeZ="5" SizeT="3" TimeIncrement="250"
               TimeIncrementUnit="ms" PhysicalSizeX="0.325" PhysicalSizeY="325" PhysicalSizeYUnit="nm"
               PhysicalSizeZ="1.5" PhysicalSizeZUnit="µm""#,
            r#"<Channel ID="Channel:0:0" Name="GFP" Color="16711935"/><Channel Name="RFP" Color="-16776961"/>
               <Channel Name="x" Color="red"/>"#,
        )
        .unwrap();
        assert_eq!(image.outer, [('t', 3), ('z', 5), ('c', 2)]);
        assert_eq!((image.width, image.height, image.size('z')), (64, 32, 5));
        assert_eq!(
            image.pixel_size,
            [Some((0.325, "micrometer")), Some((325.0, "nanometer")), Some((1.5, "micrometer"))]
        );
        assert_eq!(image.time_step, Some((250.0, "millisecond")));
        let channels: Vec<_> = image.channels.iter().map(|channel| (&channel.label[..], &channel.color[..])).collect();
        assert_eq!(channels, [("GFP", "00FF00"), ("RFP", "FF0000"), ("x", "")]);
        assert_eq!(image.name.as_deref(), Some("embryo"));
    }

    #[test]
    fn the_first_plane_says_where_the_image_is() {
        let planes = r#"<Plane TheZ="1" TheC="0" TheT="0" PositionX="9" PositionXUnit="µm"/>
                        <Plane TheZ="0" TheC="0" TheT="0" PositionX="-7.5" PositionXUnit="mm" PositionY="3"/>"#;
        let moved = image(r#"PhysicalSizeX="2" PhysicalSizeY="3" PhysicalSizeYUnit="pixel""#, planes).unwrap();
        assert_eq!(moved.place, [Some((-7.5, "millimeter")), None, None]);
        assert_eq!(moved.unsaid, ["PhysicalSizeY 3 pixel", "PositionY 3 without a unit"]);
        let xml = r#"<OME><Image><StageLabel Name="here" Z="0" ZUnit="nm" X="1" XUnit="reference frame"/><Pixels/>
                     </Image></OME>"#;
        let labelled = Ome::parse(xml).unwrap().images.remove(0).unwrap();
        assert_eq!(labelled.unsaid, ["X 1 reference frame"]);
        let sized =
            image(r#"PhysicalSizeX="2" PhysicalSizeXUnit="in" PhysicalSizeY="1" PhysicalSizeYUnit="pixel""#, "");
        let sized = sized.unwrap();
        assert_eq!((sized.pixel_size, sized.unsaid), ([Some((2.0, "inch")), None, None], Vec::new()));
    }

    #[test]
    fn blocks_name_their_pages_and_files() {
        let sizes = r#"DimensionOrder="XYZCT" SizeC="2" SizeZ="1" SizeT="2""#;
        let blocks = r#"<TiffData IFD="3" FirstC="1" FirstT="1"><UUID FileName="b.ome.tif">urn:uuid:2</UUID></TiffData>
                        <TiffData PlaneCount="2"/>"#;
        let blocks = image(sizes, blocks).unwrap().blocks;
        let file = Some("b.ome.tif".into());
        let named =
            TiffDataBlock { page: Some(3), planes: None, first: [1, 1, 0], uuid: Some("urn:uuid:2".into()), file };
        assert_eq!(blocks, [named, TiffDataBlock { planes: Some(2), ..TiffDataBlock::default() }]);
    }

    #[test]
    fn what_can_t_be_used_is_said() {
        for (pixels, expected) in
            [(r#"DimensionOrder="YXZCT""#, "YXZCT"), (r#"SizeT="many""#, "many"), (r#"SizeZ="0""#, "SizeZ is 0")]
        {
            let refused = image(pixels, "").unwrap_err();
            assert!(refused.contains(expected), "{refused:?} lacks {expected:?}");
        }
        assert!(Ome::parse("<OME>").unwrap_err().contains("well-formed"));
        assert_eq!(Ome::parse("<OME></OME>").unwrap().images, []);
    }

    #[test]
    fn a_pointer_to_another_document_is_seen() {
        let xml = r#"<OME UUID="u"><BinaryOnly MetadataFile="set.companion.ome" UUID="v"/></OME>"#;
        assert_eq!(Ome::parse(xml).unwrap().metadata_file.as_deref(), Some("set.companion.ome"));
    }

    #[test]
    fn of_channels_without_names_and_colours_nothing_is_told() {
        let image = |inside| image(r#"SizeC="2""#, inside).unwrap();
        assert!(image(r#"<Channel/><Channel/>"#).channels.is_empty());
        assert_eq!(image(r#"<Channel Name="GFP"/><Channel/>"#).channels, ["GFP", ""].map(named_channel));
    }
}
