//! What an OME-TIFF says about itself in its first page's description.
//!
//! Source: OME data model, schema 2016-06, elements `Pixels`, `Channel`, `TiffData`.

use roxmltree::{Document, Node};

use crate::args::unit_name;

/// The first image of an OME-XML document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OmeImage {
    pub(crate) name: Option<String>,
    /// The outer dimensions, slowest first, with their sizes: `[('t', 10), ('z', 1), ('c', 2)]`.
    pub(crate) outer: [(char, u64); 3],
    /// Distances between pixels in x, y, z, with units, where they are known.
    pub(crate) pixel_size: [Option<(f64, &'static str)>; 3],
    /// The time between frames, with its unit.
    pub(crate) time_step: Option<(f64, &'static str)>,
    /// The channels' names; empty if any of them has none.
    pub(crate) channels: Vec<String>,
    /// For each frame, in the order of `outer`, the page that holds it.
    pub(crate) pages: Vec<usize>,
}

impl OmeImage {
    /// Reads a description. `Err` says in what respect it can't be used; `pages` are those that the file has.
    pub(crate) fn parse(xml: &str, pages: u64) -> Result<Self, String> {
        let document = Document::parse(xml).map_err(|error| format!("it is not well-formed: {error}"))?;
        let mut images = document.descendants().filter(|node| node.has_tag_name_anywhere("Image"));
        let image = images.next().ok_or("it describes no image")?;
        let more = images.count();
        let pixels = image.child("Pixels").ok_or("its image has no Pixels")?;
        let outer = outer(pixels)?;
        let frames =
            outer.iter().try_fold(1u64, |product, dim| product.checked_mul(dim.1)).ok_or("its sizes overflow")?;
        if frames != pages {
            let sizes: Vec<_> = outer.iter().map(|(name, size)| format!("{} {size}", name.to_uppercase())).collect();
            let more = if more > 0 { format!(" and there are {more} more images") } else { String::new() };
            return Err(format!("it claims {frames} pages ({}), but the file has {pages}{more}", sizes.join(", ")));
        }
        let names: Option<Vec<_>> =
            pixels.elements("Channel").map(|channel| channel.attribute("Name").map(str::to_owned)).collect();
        let channel_count = outer.iter().find(|dim| dim.0 == 'c').map_or(1, |dim| dim.1);
        Ok(Self {
            name: image.attribute("Name").filter(|name| !name.is_empty()).map(str::to_owned),
            outer,
            pixel_size: ["X", "Y", "Z"].map(|axis| measure(pixels, &format!("PhysicalSize{axis}"), "µm")),
            time_step: measure(pixels, "TimeIncrement", "s"),
            channels: names.filter(|names| names.len() as u64 == channel_count).unwrap_or_default(),
            pages: page_order(pixels, outer, frames)?,
        })
    }
}

/// Elements by their local name: the namespace carries the schema's date, and files of all dates are about.
trait LocalName<'a, 'input: 'a> {
    fn has_tag_name_anywhere(&self, name: &str) -> bool;
    fn elements(self, name: &'static str) -> impl Iterator<Item = Node<'a, 'input>>;
    fn child(self, name: &'static str) -> Option<Node<'a, 'input>>;
}

impl<'a, 'input: 'a> LocalName<'a, 'input> for Node<'a, 'input> {
    fn has_tag_name_anywhere(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }

    fn elements(self, name: &'static str) -> impl Iterator<Item = Node<'a, 'input>> {
        self.children().filter(move |node| node.has_tag_name_anywhere(name))
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
        return Err(format!("its DimensionOrder {order:?} is none of the six that begin with XY"));
    };
    let mut outer = [(' ', 0); 3];
    for (dim, letter) in outer.iter_mut().zip(letters) {
        *dim = (letter.to_ascii_lowercase(), number(pixels, &format!("Size{letter}"))?.unwrap_or(1));
    }
    Ok(outer)
}

fn number(node: Node, attribute: &str) -> Result<Option<u64>, String> {
    let Some(text) = node.attribute(attribute) else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| format!("its {attribute} {text:?} is not a whole number"))
}

fn measure(pixels: Node, attribute: &str, default_unit: &str) -> Option<(f64, &'static str)> {
    let value: f64 = pixels.attribute(attribute)?.trim().parse().ok()?;
    let unit = pixels.attribute(format!("{attribute}Unit").as_str()).unwrap_or(default_unit);
    Some((value, unit_name(unit)?)).filter(|_| value.is_finite() && value > 0.0)
}

/// `TiffData` elements say which page holds which frame. Without them the pages come in the dimensions' order.
fn page_order(pixels: Node, outer: [(char, u64); 3], frames: u64) -> Result<Vec<usize>, String> {
    let count = usize::try_from(frames).map_err(|_| "its sizes overflow")?;
    let blocks: Vec<_> = pixels.elements("TiffData").collect();
    if blocks.is_empty() {
        return Ok((0..count).collect());
    }
    let mut files: Vec<_> = blocks.iter().filter_map(|block| block.child("UUID")?.attribute("FileName")).collect();
    files.sort_unstable();
    files.dedup();
    if files.len() > 1 {
        return Err(format!("its frames are spread over {} files", files.len()));
    }
    let mut pages = vec![usize::MAX; count];
    for block in blocks {
        let page = number(block, "IFD")?;
        let plane_count = number(block, "PlaneCount")?.unwrap_or(if page.is_some() { 1 } else { frames });
        let mut first = 0;
        for (letter, size) in outer {
            let index = number(block, &format!("First{}", letter.to_ascii_uppercase()))?.unwrap_or(0);
            if index >= size {
                return Err(format!("a TiffData names {letter} = {index} of {size}"));
            }
            first = first * size + index;
        }
        let page = page.unwrap_or(0);
        if plane_count > frames || first + plane_count > frames || page.saturating_add(plane_count) > frames {
            return Err(format!("a TiffData names {plane_count} pages from {page} on, of {frames}"));
        }
        for plane in 0..plane_count {
            pages[(first + plane) as usize] = (page + plane) as usize;
        }
    }
    match pages.iter().position(|&page| page == usize::MAX) {
        Some(frame) => Err(format!("no TiffData says where frame {frame} is")),
        None => Ok(pages),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(pixels: &str, inside: &str) -> String {
        format!(
            r#"<?xml version="1.0" encoding="UTF-8"?>
            <OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">
              <Image ID="Image:0" Name="embryo"><Pixels ID="Pixels:0" Type="uint16" {pixels}>{inside}</Pixels></Image>
            </OME>"#
        )
    }

    #[test]
    fn sizes_scales_and_names_are_read() {
        let xml = document(
            r#"DimensionOrder="XYCZT" SizeX="64" SizeY="32" SizeC="2" SizeZ="5" SizeT="3" TimeIncrement="250" TimeIncrementUnit="ms"
               PhysicalSizeX="0.325" PhysicalSizeY="325" PhysicalSizeYUnit="nm" PhysicalSizeZ="1.5" PhysicalSizeZUnit="µm""#,
            r#"<Channel ID="Channel:0:0" Name="GFP"/><Channel ID="Channel:0:1" Name="RFP"/>"#,
        );
        let image = OmeImage::parse(&xml, 30).unwrap();
        assert_eq!(image.outer, [('t', 3), ('z', 5), ('c', 2)]);
        assert_eq!(
            image.pixel_size,
            [Some((0.325, "micrometer")), Some((325.0, "nanometer")), Some((1.5, "micrometer"))]
        );
        assert_eq!(image.time_step, Some((250.0, "millisecond")));
        assert_eq!(image.channels, ["GFP", "RFP"]);
        assert_eq!(image.name.as_deref(), Some("embryo"));
        assert_eq!(image.pages, (0..30).collect::<Vec<_>>());
    }

    #[test]
    fn tiff_data_moves_pages() {
        let sizes = r#"DimensionOrder="XYZCT" SizeC="2" SizeZ="1" SizeT="2""#;
        let blocks = r#"<TiffData IFD="3" FirstC="0" FirstT="0"/><TiffData IFD="2" FirstC="1" FirstT="0"/>
                        <TiffData IFD="0" FirstT="1" PlaneCount="2"/>"#;
        assert_eq!(OmeImage::parse(&document(sizes, blocks), 4).unwrap().pages, [3, 2, 0, 1]);
        let all_in_order = OmeImage::parse(&document(sizes, "<TiffData/>"), 4).unwrap();
        assert_eq!(all_in_order.pages, [0, 1, 2, 3]);
    }

    #[test]
    fn what_does_not_fit_the_file_is_said() {
        let sizes = r#"DimensionOrder="XYZCT" SizeC="2" SizeZ="1" SizeT="2""#;
        let cases = [
            (document(sizes, ""), 5, "claims 4 pages (T 2, C 2, Z 1), but the file has 5"),
            (document(sizes, r#"<TiffData IFD="0"/>"#), 4, "frame 1"),
            (document(sizes, r#"<TiffData IFD="7"/>"#), 4, "from 7 on"),
            (document(sizes, r#"<TiffData FirstC="9"/>"#), 4, "c = 9 of 2"),
            (document(r#"DimensionOrder="YXZCT""#, ""), 1, "YXZCT"),
            (document(r#"SizeT="many""#, ""), 1, "many"),
            (
                document(
                    sizes,
                    r#"<TiffData IFD="0"><UUID FileName="a">u</UUID></TiffData><TiffData IFD="0"><UUID FileName="b">v</UUID></TiffData>"#,
                ),
                4,
                "2 files",
            ),
            ("<OME></OME>".into(), 1, "no image"),
            ("<OME>".into(), 1, "well-formed"),
        ];
        for (xml, pages, expected) in cases {
            let refused = OmeImage::parse(&xml, pages).unwrap_err();
            assert!(refused.contains(expected), "{refused:?} lacks {expected:?}");
        }
    }

    #[test]
    fn unnamed_channels_have_no_names() {
        let xml = document(r#"SizeC="2""#, r#"<Channel Name="GFP"/><Channel/>"#);
        assert!(OmeImage::parse(&xml, 2).unwrap().channels.is_empty());
    }
}
