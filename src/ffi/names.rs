//! What C calls the fields that the library's own messages name.

use std::fmt;

use crate::error::Error;

/// How fields are called that lie within others, by what they begin with.
const WITHIN: [(&str, &str); 14] = [
    ("frame_layout.offset", "sw_config.frame_offset"),
    ("channels.window", "sw_channel.window_low"),
    ("dims.", "sw_dim."),
    ("volume.", "sw_volume."),
    ("record_fields.", "sw_record_field."),
    ("channels.", "sw_channel."),
    ("codec.compressor.", "sw_config."),
    ("codec.", "sw_config."),
    ("frame_layout.", "sw_config."),
    ("label.", "sw_config.label: "),
    ("pyramid.method", "sw_config.pyramid"),
    ("pyramid.y", "sw_config.pyramid_keep"),
    ("pyramid.", "sw_config.pyramid_"),
    ("plate.", "plate: "),
];

/// What errors name that is no field of the configuration but an argument of a call, or nothing that a caller sets.
const NO_FIELDS: [&str; 10] =
    ["attribute", "handle", "images", "name", "open files", "path", "plate", "ring_mark", "samples", "write_bytes"];

/// A field as the header spells it, which is given as the library's configuration does.
pub(super) struct Field<'a>(pub(super) &'a str);

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(field) = self;
        let within = WITHIN.iter().find_map(|(here, there)| Some((there, field.strip_prefix(here)?)));
        match within {
            Some((there, field)) => write!(f, "{there}{field}"),
            None if NO_FIELDS.contains(field) => f.write_str(field),
            None => write!(f, "sw_config.{field}"),
        }
    }
}

/// How the caller has said what is configured, and so in what words it hears of mistakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ffi) enum Spelling {
    Struct,
    Document,
}

/// An error in the words of whoever hears of it.
pub(super) struct Spelled<'a>(pub(super) Spelling, pub(super) &'a Error);

impl fmt::Display for Spelled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // 0 stands for none there.
            Self(Spelling::Struct, Error::Config { field: field @ "plate_acquisition", value, reason }) => {
                let set = value.parse().map_or(0, |id: u64| id.saturating_add(1));
                write!(f, "{} = {set}, which is an id plus 1: {reason}", Field(field))
            }
            Self(Spelling::Struct, Error::Config { field: field @ "dims.size", value, reason })
                if value == "unbounded" =>
            {
                write!(f, "{} = 0, which is unbounded: {reason}", Field(field))
            }
            // What is kept, not what is halved.
            Self(Spelling::Struct, Error::Config { field: field @ "pyramid.y", reason, .. }) => {
                write!(f, "{} = 3: {reason}", Field(field))
            }
            Self(Spelling::Struct, Error::Config { field, value, reason }) if value == "true" || value == "false" => {
                write!(f, "{} = {}: {reason}", Field(field), u8::from(value == "true"))
            }
            Self(spelling, Error::Config { field, value, reason })
                if *spelling == Spelling::Struct || NO_FIELDS.contains(field) =>
            {
                write!(f, "{} = {value}: {reason}", Field(field))
            }
            Self(_, error @ Error::Config { .. }) => write!(f, "sw_config.document: {error}"),
            Self(_, error) => error.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// What follows `before` in quotes, in all sources that a run needs.
    fn quoted(folder: &Path, before: &[&str], found: &mut BTreeSet<String>) {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !path.ends_with("offline") {
                quoted(&path, before, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text: String = std::fs::read_to_string(&path).unwrap().split_whitespace().collect();
                let parts = before.iter().flat_map(|before| text.split(before).skip(1));
                found.extend(parts.filter_map(|rest| Some(rest.split_once("\",")?.0.to_owned())));
            }
        }
    }

    #[test]
    fn every_field_that_an_error_names_is_in_the_header() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let header = std::fs::read_to_string(root.join("include/shardwright.h")).unwrap();
        let mut fields = BTreeSet::new();
        quoted(&root.join("src"), &["Error::config(\"", "refuse(\"", "refuse_twice(\""], &mut fields);
        fields.retain(|field| field.chars().all(|c| c.is_ascii_lowercase() || "_.".contains(c)));
        assert!(fields.len() > 40, "{fields:?}");
        for field in fields.iter().filter(|field| NO_FIELDS.iter().all(|none| none.replace(' ', "") != **field)) {
            let name = Field(field).to_string();
            if name.contains(": ") {
                continue;
            }
            let (of, member) = name.split_once('.').unwrap_or_else(|| panic!("{field} is called {name}"));
            let start = header.find(&format!("typedef struct {of} {{")).unwrap_or_else(|| panic!("{field}: no {of}"));
            let end = start + header[start..].find(&format!("}} {of};")).unwrap();
            let is_member = |line: &str| {
                line.trim_end().strip_suffix(';').is_some_and(|line| {
                    let line = line.split('[').next().unwrap_or(line);
                    line.ends_with(&format!(" {member}")) || line.ends_with(&format!("*{member}"))
                })
            };
            assert!(header[start..end].lines().any(is_member), "{field} is called {name}, and there is no such field");
        }
    }
}
