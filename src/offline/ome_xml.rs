//! OME-XML from which images are cut out: the rest stays as it is, character for character.

use std::collections::HashSet;
use std::ops::Range;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

const BYTE_ORDER_MARK: char = '\u{feff}';

/// An element `Image`, with attributes as they are written.
pub(super) struct ImageElement {
    pub(super) place: Range<usize>,
    id: Option<String>,
    pub(super) name: Option<String>,
}

/// The text without the elements `Image` at these places; `None` where it has fewer or more than `images` of them, or
/// where something else in it speaks of these, or where they can't be told from the rest.
pub(super) fn without_images(xml: &str, images: usize, gone: &[usize]) -> Option<String> {
    let elements = elements(xml).filter(|elements| elements.len() == images)?;
    let mut out = String::with_capacity(xml.len());
    let mut copied = 0;
    for &at in gone {
        let ImageElement { place, .. } = elements.get(at)?;
        out.push_str(&xml[copied..place.start]);
        copied = place.end;
    }
    out.push_str(&xml[copied..]);
    let quotes = ['"', '\''];
    let id = |at: &usize| elements[*at].id.as_deref().filter(|id| !id.contains(quotes));
    let gone: HashSet<&str> = gone.iter().map(id).collect::<Option<_>>()?;
    (!out.split(quotes).any(|part| gone.contains(part))).then_some(out)
}

/// The elements `Image`, none of which lies in another.
pub(super) fn elements(xml: &str) -> Option<Vec<ImageElement>> {
    // The reader's places don't count a byte order mark.
    let before = if xml.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
    let mut reader = Reader::from_str(&xml[before..]);
    // All else may be as it is.
    let config = reader.config_mut();
    (config.check_end_names, config.allow_unmatched_ends, config.allow_dangling_amp) = (false, true, true);
    let attribute = |tag: &BytesStart<'_>, key: &str| {
        let mut attributes = tag.attributes();
        let found = attributes.with_checks(false).flatten().find(|attribute| attribute.key.as_ref() == key);
        found.map(|found| found.value.into_owned())
    };
    let element = |place: Range<usize>, tag: &BytesStart<'_>| {
        let [id, name] = ["ID", "Name"].map(|key| attribute(tag, key));
        ImageElement { place, id, name }
    };
    let (mut found, mut open) = (Vec::new(), None::<(usize, BytesStart<'_>)>);
    loop {
        let start = before + reader.buffer_position() as usize;
        let event = reader.read_event().ok()?;
        let end = before + reader.buffer_position() as usize;
        let name = match &event {
            // Entities of its own could hold anything.
            Event::DocType(_) => return None,
            Event::Eof => return open.is_none().then_some(found),
            Event::Start(tag) | Event::Empty(tag) => tag.local_name(),
            Event::End(tag) => tag.local_name(),
            _ => continue,
        };
        if name.as_ref() != "Image" {
            continue;
        }
        open = match (event, open) {
            (Event::Start(tag), None) => Some((start, tag)),
            (Event::Empty(tag), None) => {
                found.push(element(start..end, &tag));
                None
            }
            (Event::End(tag), Some((begun, of))) if tag.name() == of.name() => {
                found.push(element(begun..end, &of));
                None
            }
            _ => return None,
        };
    }
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
        assert_eq!(without_images(&format!("\u{feff}{XML}"), 3, &[0, 2]).unwrap(), format!("\u{feff}{cut}"));
        let odd = "<a>& <b c='1' c='2' d='<'></a>]]> &micro; <Image ID='i'></Image>\u{1}</b>";
        assert_eq!(without_images(odd, 1, &[0]).unwrap(), "<a>& <b c='1' c='2' d='<'></a>]]> &micro; \u{1}</b>");
        let prefixed = "<o:OME><o:Image ID=\"a\"></o:Image><o:Image ID=\"b\"></o:Image></o:OME>";
        assert_eq!(without_images(prefixed, 2, &[1]).unwrap(), "<o:OME><o:Image ID=\"a\"></o:Image></o:OME>");
    }

    #[test]
    fn what_can_t_be_told_apart_is_left() {
        assert_eq!(without_images(XML, 2, &[0]), None);
        let plate = "<OME><Image ID=\"i\"></Image><Plate><ImageRef ID=\"i\"/></Plate></OME>";
        assert_eq!(without_images(plate, 1, &[0]), None);
        let escaped = "<OME><Image ID=\"a&amp;b\"/><Plate><ImageRef ID=\"a&amp;b\"/></Plate></OME>";
        assert_eq!(without_images(escaped, 1, &[0]), None);
        let other = "<OME><Image x:ID=\"a\" ID=\"b\"/><ImageRef ID=\"b\"/></OME>";
        assert_eq!(without_images(other, 1, &[0]), None);
        let nested = "<OME><Image ID=\"i\"><Image ID=\"j\"/></Image></OME>";
        assert_eq!(without_images(nested, 2, &[1]), None);
        for broken in ["<OME><Image ID=\"i\"></OME>", "<!DOCTYPE x><Image ID=\"i\"/>", "<Image ID=\"i\"", "<Image/>"] {
            assert_eq!(without_images(broken, 1, &[0]), None, "{broken}");
        }
    }
}
