//! The list of all images beside a dataset of several, and the OME-XML that describes them in its order.
//!
//! Source: OME-Zarr specification 0.5, "bioformats2raw.layout".

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};

use super::documents::{DocumentChange, edit};
use super::image::ImagePlan;
use crate::config::DimKind;
use crate::error::Result;
use crate::fs::document;
use crate::json::text;
use crate::offline::hierarchy::walk::Tree;
use crate::offline::ome_xml::{elements, without_images};
use crate::ome::multiscales;
use crate::ome::xml;

/// An attribute of an image's `Pixels`, and what it is to be.
type PixelSize = (&'static str, u64);

/// Says how long the images are, and takes those that are `gone` out of both.
pub(super) fn changes(
    root: &Path,
    tree: &Tree,
    images: &[ImagePlan],
    gone: &[&str],
    changes: &mut Vec<DocumentChange>,
) -> Result<()> {
    let Some(group) = tree.group("OME") else { return Ok(()) };
    let Some(series) = group.attributes.pointer("/ome/series").and_then(Value::as_array) else { return Ok(()) };
    let left: Vec<&str> = series.iter().filter_map(text).filter(|name| !gone.contains(name)).collect();
    let path = root.join(xml::PATH);
    if path.is_symlink() {
        return Ok(());
    }
    if let Some(before) = document::bytes(&path, document::XML_BYTES_MAX).unwrap_or_default() {
        let Ok(before) = String::from_utf8(before) else { return Ok(()) };
        let sized = with_sizes(&before, &sizes(images));
        let after = sized.as_ref().and_then(|sized| without(sized, gone, &left));
        // The two go together: readers match them by place.
        let is_cut = after.is_some();
        if let Some(after) = after.or(sized).filter(|after| *after != before) {
            changes.push(DocumentChange { key: xml::PATH.to_owned(), bytes: after.into_bytes() });
        }
        if !is_cut {
            return Ok(());
        }
    }
    if gone.is_empty() {
        return Ok(());
    }
    edit(root, &group.document, changes, |document| document["attributes"]["ome"]["series"] = json!(left))
}

/// By the names of images as the XML has them, the size of the dimension that may have grown.
fn sizes(images: &[ImagePlan]) -> HashMap<String, PixelSize> {
    let of = |plan: &ImagePlan| {
        let image = multiscales::images(&plan.image.group.attributes["ome"]).next();
        let attribute = match image.and_then(|image| image.axes().next()?.kind) {
            Some(DimKind::Time) => "SizeT",
            Some(DimKind::Space) => "SizeZ",
            _ => return None,
        };
        let [length, _, _, ..] = plan.shape()[..] else { return None };
        Some((xml::escape(&plan.image.group.name), (attribute, length.max(1))))
    };
    images.iter().filter(|plan| plan.is_incomplete()).filter_map(of).collect()
}

/// The XML with other sizes of images. `None` where these can't be told from the rest.
fn with_sizes(xml: &str, sizes: &HashMap<String, PixelSize>) -> Option<String> {
    let (mut out, mut copied) = (String::with_capacity(xml.len() + 16 * sizes.len()), 0);
    for element in elements(xml)? {
        let size = element.name.and_then(|name| sizes.get(&name));
        let Some((place, value)) = size.and_then(|(attribute, value)| {
            let tag = element.place.start + xml[element.place.clone()].find("<Pixels ")?;
            let end = tag + xml[tag..].find('>')?;
            let start = format!(" {attribute}=\"");
            let from = tag + xml[tag..end].find(&start)? + start.len();
            Some((from..from + xml[from..end].find('"')?, value))
        }) else {
            continue;
        };
        out.push_str(&xml[copied..place.start]);
        out.push_str(&value.to_string());
        copied = place.end;
    }
    out.push_str(&xml[copied..]);
    Some(out)
}

/// The XML without the images that are `gone`. `None` where others than those `left` would be in it, or in another
/// order. It may be without them already, after a recovery that was stopped.
fn without(xml: &str, gone: &[&str], left: &[&str]) -> Option<String> {
    let names: Vec<String> = elements(xml)?.into_iter().map(|element| element.name.unwrap_or_default()).collect();
    let gone: Vec<String> = gone.iter().map(|name| xml::escape(name)).collect();
    let (cut, stay): (Vec<usize>, Vec<usize>) = (0..names.len()).partition(|&at| gone.contains(&names[at]));
    let is_left = stay.len() == left.len() && stay.iter().zip(left).all(|(&at, name)| names[at] == xml::escape(name));
    if is_left { without_images(xml, names.len(), &cut) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = r#"<OME><Image ID="Image:0" Name="A/1/0"><Pixels ID="Pixels:0" SizeZ="1" SizeT="1"><C/></Pixels>
</Image><Image ID="Image:1" Name="a&amp;b"><Pixels ID="Pixels:1" SizeZ="1" SizeT="1"></Pixels></Image></OME>"#;

    fn sized(sizes: &[(&str, PixelSize)], xml: &str) -> Option<String> {
        with_sizes(xml, &sizes.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect())
    }

    #[test]
    fn only_the_sizes_of_the_images_change() {
        let expected = XML.replace(r#""Pixels:1" SizeZ="1" SizeT="1""#, r#""Pixels:1" SizeZ="1" SizeT="37""#);
        assert_eq!(sized(&[("a&amp;b", ("SizeT", 37))], XML), Some(expected));
        assert_eq!(sized(&[("c", ("SizeT", 37))], XML).as_deref(), Some(XML));
        let both = sized(&[("A/1/0", ("SizeZ", 5)), ("a&amp;b", ("SizeT", 37))], XML).unwrap();
        assert!(both.contains("SizeZ=\"5\" SizeT=\"1\"") && both.contains("SizeT=\"37\""), "{both}");
        assert_eq!(sized(&[], "<Image ID=\"a\""), None);
        // Three bytes before the image is the middle of a character.
        let marked = |xml: &str| format!("\u{feff}{}", xml.replace("<OME>", "<OME>éx\n"));
        let expected = XML.replace(r#""Pixels:0" SizeZ="1" SizeT="1""#, r#""Pixels:0" SizeZ="1" SizeT="37""#);
        assert_eq!(sized(&[("A/1/0", ("SizeT", 37))], &marked(XML)), Some(marked(&expected)));
    }

    #[test]
    fn images_are_cut_out_where_the_rest_is_as_listed() {
        let cut = without(XML, &["A/1/0"], &["a&b"]).unwrap();
        assert!(!cut.contains("A/1/0") && cut.contains("a&amp;b"), "{cut}");
        // As after a recovery that was stopped between the two.
        assert_eq!(without(&cut, &["A/1/0"], &["a&b"]), Some(cut));
        assert_eq!(without(XML, &[], &["A/1/0", "a&b"]).as_deref(), Some(XML));
        for left in [&["A/1/0"][..], &["a&b", "A/1/0"], &[]] {
            assert_eq!(without(XML, &[], left), None);
        }
    }
}
