//! What is which format is known where bytes are given their meaning, and asked there by all others.

use super::tokens::{texts, tokens};
use super::{is_within, sources};

/// Where a dialect may be named: by what means bytes, and at the doors.
const NAMES_DIALECTS: [&str; 3] = ["format", "config", "ffi"];

/// The files outside the format's own folder that may ask whether an array is a volume, and need to: the rest asks for
/// what the answer stands for (`Rules`, `Layout`).
const KNOWS_VOLUMES: [&str; 6] =
    ["config", "plan", "plan::dialects", "plan::volume", "offline::repack::design", "offline::repack::volume"];

/// Whether a source names one of the dialects, `Dialect::Zarr3`, whatever it calls the type.
fn names_dialect(source: &str) -> bool {
    let is_variant = |name: &str| name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
    let tokens = tokens(source);
    let is_renamed = tokens.windows(2).any(|found| found == ["Dialect", "as"]);
    is_renamed
        || tokens
            .windows(3)
            .any(|found| found[..2] == ["Dialect", "::"] && (is_variant(found[2]) || ["*", "{"].contains(&found[2])))
}

/// Whether a source asks if something is a volume.
fn asks_for_volumes(source: &str) -> bool {
    let tokens = tokens(source);
    let is_named = tokens.iter().any(|token| ["Precomputed", "numbers_chunks", "is_volume"].contains(token));
    // What was asked for is no question of what an array is.
    let is_field = |found: &[&str]| found[1..] == [".", "volume"] && !["config", "options"].contains(&found[0]);
    is_named || tokens.windows(3).any(is_field)
}

#[test]
fn which_dialect_is_which_is_asked_in_one_place() {
    let sources = sources();
    let outside = |rooms: &[&str], says: &dyn Fn(&str) -> bool| -> Vec<String> {
        let is_outside = |module: &str| !rooms.iter().any(|room| is_within(module, room));
        sources.iter().filter(|(module, source)| is_outside(module) && says(source)).map(|(is, _)| is.clone()).collect()
    };
    let named = outside(&NAMES_DIALECTS, &names_dialect);
    assert!(named.is_empty(), "{named:?} should ask the format's rules, or its layout");
    let mut asked = outside(&["format"], &asks_for_volumes);
    asked.retain(|module| !KNOWS_VOLUMES.contains(&module.as_str()));
    assert!(asked.is_empty(), "{asked:?} should ask for what follows from it, not whether it is a volume");
}

#[test]
fn questions_for_the_dialect_are_found() {
    for source in [
        "fn f() -> bool { dialect == Dialect::Zarr3 }",
        "use crate::config::Dialect as D;",
        "use crate::config::Dialect::*;",
        "use crate::config::{Dialect::{Zarr2}};",
        "fn f() { match dialect { crate::Dialect::Zarr2Sharded => {} } }",
    ] {
        assert!(names_dialect(source), "{source}");
    }
    for source in ["/// [`Dialect::Zarr3`]\nfn f() { Dialect::ALL.len(); Dialect::default() }", "use crate::Dialect;"] {
        assert!(!names_dialect(source), "{source}");
    }
    for source in [
        "layout.volume().is_none()",
        "rules(to).numbers_chunks",
        "Dialect::Precomputed",
        "it.is_volume()",
        "plan.volume.is_some()",
    ] {
        assert!(asks_for_volumes(&format!("fn f() {{ {source} }}")), "{source}");
    }
    assert!(!asks_for_volumes("// Precomputed\nfn f() { precomputed::volume(config.volume) }"));
}

/// Whether a source names a document of Zarr, or of a volume, by itself.
fn names_documents(source: &str) -> bool {
    let documents = ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "info", "provenance"];
    let last =
        |text: &&str| text.trim_matches(['"', '#']).rsplit(['/', '}', '"']).next().unwrap_or_default().to_owned();
    texts(source).iter().map(last).any(|name| documents.contains(&&*name))
}

#[test]
fn which_document_says_what_is_known_in_one_folder() {
    let sources = sources();
    let outside = sources.iter().filter(|(module, _)| !is_within(module, "format"));
    let found: Vec<_> = outside.filter(|(_, source)| names_documents(source)).map(|(module, _)| module).collect();
    assert!(found.is_empty(), "{found:?} should ask format::node, or name the document as the format does");
}

#[test]
fn names_of_documents_are_found() {
    for source in [
        "\".zgroup\"",
        "\"0/zarr.json\"",
        "format!(\"{base}.zarray\")",
        "[b\"x\", r#\".zattrs\"#]",
        "root.join(\"info\")",
    ] {
        assert!(names_documents(&format!("fn f() {{ {source} }}")), "{source}");
    }
    for source in ["// \"zarr.json\"", "\"beside its zarr.json\"", "\"zarr.json is\"", "zarr3::DOCUMENT"] {
        assert!(!names_documents(&format!("fn f() {{ {source}\n }}")), "{source}");
    }
    assert!(!names_documents("#[cfg(test)]\nmod tests {\n    const KEY: &str = \"zarr.json\";\n}"));
}
