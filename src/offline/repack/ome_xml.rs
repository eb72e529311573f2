//! OME-XML from which images are cut out: the rest stays as it is, character for character.

/// The text without the elements `Image` at these places; `None` where it has fewer of them, or where something
/// else in it speaks of these, or where they can't be told from the rest.
pub(super) fn without_images(xml: &str, images: usize, gone: &[usize]) -> Option<String> {
    let elements = elements(xml)?;
    if elements.len() != images {
        return None;
    }
    let mut out = String::with_capacity(xml.len());
    let mut copied = 0;
    for &at in gone {
        let (start, end) = *elements.get(at)?;
        out.push_str(&xml[copied..start]);
        copied = end;
    }
    out.push_str(&xml[copied..]);
    let is_referred = |at: &usize| {
        let (start, end) = elements[*at];
        id(&xml[start..end]).is_none_or(|id| out.contains(&format!("\"{id}\"")) || out.contains(&format!("'{id}'")))
    };
    (!gone.iter().any(is_referred)).then_some(out)
}

/// Where the elements `Image` stand, none of which lies in another.
fn elements(xml: &str) -> Option<Vec<(usize, usize)>> {
    let mut found = Vec::new();
    let mut open: Option<(usize, &str)> = None;
    let mut at = 0;
    while let Some(next) = xml[at..].find('<') {
        let start = at + next;
        let rest = &xml[start..];
        let to = |end: &str| rest.find(end).map(|place| start + place + end.len());
        at = match () {
            () if rest.starts_with("<!--") => to("-->")?,
            () if rest.starts_with("<![CDATA[") => to("]]>")?,
            // Entities of its own could hold anything.
            () if rest.starts_with("<!") => return None,
            () => start + tag_end(rest)?,
        };
        let tag = &xml[start + 1..at];
        let name = tag.trim_start_matches('/').split(|c: char| c.is_whitespace() || "/>".contains(c)).next()?;
        if name.rsplit(':').next() != Some("Image") || tag.starts_with('!') {
            continue;
        }
        match (open, tag.starts_with('/')) {
            (None, false) if tag.ends_with("/>") => found.push((start, at)),
            (None, false) => open = Some((start, name)),
            (Some((begun, of)), true) if of == name => {
                found.push((begun, at));
                open = None;
            }
            _ => return None,
        }
    }
    open.is_none().then_some(found)
}

/// The length of the tag that a text begins with: values in quotes may have any character.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'>') => return Some(at + 1),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

/// The attribute `ID` of the element that a text begins with.
fn id(element: &str) -> Option<&str> {
    let tag = &element[..tag_end(element)?];
    let (before, rest) = tag.split_once("ID=")?;
    let quote = rest.chars().next().filter(|quote| "\"'".contains(*quote))?;
    before.ends_with(char::is_whitespace).then(|| rest[1..].split(quote).next())?
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
        let prefixed = "<o:OME><o:Image ID=\"a\"></o:Image><o:Image ID=\"b\"></o:Image></o:OME>";
        assert_eq!(without_images(prefixed, 2, &[1]).unwrap(), "<o:OME><o:Image ID=\"a\"></o:Image></o:OME>");
    }

    #[test]
    fn what_can_t_be_told_apart_is_left() {
        assert_eq!(without_images(XML, 2, &[0]), None);
        let plate = "<OME><Image ID=\"i\"></Image><Plate><ImageRef ID=\"i\"/></Plate></OME>";
        assert_eq!(without_images(plate, 1, &[0]), None);
        for broken in ["<OME><Image ID=\"i\"></OME>", "<!DOCTYPE x><Image ID=\"i\"/>", "<Image ID=\"i\"", "<Image/>"] {
            assert_eq!(without_images(broken, 1, &[0]), None, "{broken}");
        }
    }
}
