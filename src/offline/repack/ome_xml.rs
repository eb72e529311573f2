//! OME-XML from which images are cut out: the rest stays as it is, character for character.

use roxmltree::Document;

/// The text without the elements `Image` at these places; `None` where it has fewer of them, or where something
/// else in it speaks of these, or where they can't be told from the rest.
pub(super) fn without_images(xml: &str, images: usize, gone: &[usize]) -> Option<String> {
    // It refuses entities of a document's own, which could hold anything.
    let document = Document::parse(xml).ok()?;
    let elements: Vec<_> = document.descendants().filter(|node| node.tag_name().name() == "Image").collect();
    let ranges: Vec<_> = elements.iter().map(|element| element.range()).collect();
    if ranges.len() != images || ranges.windows(2).any(|pair| pair[1].start < pair[0].end) {
        return None;
    }
    let mut out = String::with_capacity(xml.len());
    let mut copied = 0;
    for &at in gone {
        out.push_str(&xml[copied..ranges.get(at)?.start]);
        copied = ranges[at].end;
    }
    out.push_str(&xml[copied..]);
    let is_referred = |at: &usize| {
        let id = elements[*at].attribute("ID");
        id.is_none_or(|id| out.contains(&format!("\"{id}\"")) || out.contains(&format!("'{id}'")))
    };
    (!gone.iter().any(is_referred)).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = "<?xml version=\"1.0\"?>\n<OME><!-- <Image> -->\n\
        <Image Name=\"a>b\" ID=\"Image:0\"><Pixels/></Image>\n\
        <ImageSet/><Image ID='Image:1'><Description><![CDATA[</Image>]]></Description></Image>\n\
        <Image ID=\"Image:2\"/></OME>";

    #[test]
    fn the_rest_stays_as_it_is() {
        let cut = without_images(XML, 3, &[0, 2]).unwrap();
        assert_eq!(
            cut,
            "<?xml version=\"1.0\"?>\n<OME><!-- <Image> -->\n\n<ImageSet/><Image ID='Image:1'><Description>\
             <![CDATA[</Image>]]></Description></Image>\n</OME>"
        );
        assert_eq!(without_images(XML, 3, &[]).unwrap(), XML);
        let prefixed = "<o:OME xmlns:o=\"u\"><o:Image ID=\"a\"></o:Image><o:Image ID=\"b\"></o:Image></o:OME>";
        let cut = "<o:OME xmlns:o=\"u\"><o:Image ID=\"a\"></o:Image></o:OME>";
        assert_eq!(without_images(prefixed, 2, &[1]).unwrap(), cut);
    }

    #[test]
    fn what_can_t_be_told_apart_is_left() {
        assert_eq!(without_images(XML, 2, &[0]), None);
        let plate = "<OME><Image ID=\"i\"></Image><Plate><ImageRef ID=\"i\"/></Plate></OME>";
        assert_eq!(without_images(plate, 1, &[0]), None);
        let nested = "<OME><Image ID=\"i\"><Image ID=\"j\"/></Image></OME>";
        assert_eq!(without_images(nested, 2, &[1]), None);
        for broken in ["<OME><Image ID=\"i\"></OME>", "<!DOCTYPE x><Image ID=\"i\"/>", "<Image ID=\"i\"", "<Image/>"] {
            assert_eq!(without_images(broken, 1, &[0]), None, "{broken}");
        }
    }
}
