//! The house has floors, and imports point down: a module may use modules of its own floor or of those below. No files
//! of `src` import each other in a circle, but for a test's.
//!
//! | floor | modules |
//! |---|---|
//! | 0 | error, named, processor, sync, stats |
//! | 1 | dtype, geometry, config, codec, downsample, pixels |
//! | 2 | format, fs, storage, ring, aligned_memory, record, ome |
//! | 3 | plan, shard, folder, archive_file |
//! | 4 | dataset, and what the tools look at: arrays, and the walk through a hierarchy |
//! | 5 | engine, and the tools, which know nothing of it |
//! | 6 | acquisition, the frames that it lends, the events that it tells of, and the manifest that it leaves |
//! | 7 | the crate's root, and ffi: the doors |

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The floor of a module; the longest entry that fits counts.
const FLOORS: [(&str, u32); 32] = [
    ("error", 0),
    ("named", 0),
    ("processor", 0),
    ("sync", 0),
    ("stats", 0),
    ("dtype", 1),
    ("geometry", 1),
    ("config", 1),
    ("codec", 1),
    ("downsample", 1),
    ("pixels", 1),
    ("format", 2),
    ("fs", 2),
    ("storage", 2),
    ("ring", 2),
    ("aligned_memory", 2),
    ("record", 2),
    ("ome", 2),
    ("plan", 3),
    ("shard", 3),
    ("folder", 3),
    ("archive_file", 3),
    ("dataset", 4),
    ("offline::array", 4),
    ("offline::hierarchy", 4),
    ("engine", 5),
    ("offline", 5),
    ("acquisition", 6),
    ("events", 6),
    ("frame", 6),
    ("manifest", 6),
    ("ffi", 7),
];

/// Rooms on one floor that shall not know each other: from, to.
const WALLS: [(&str, &str); 2] = [("offline", "engine"), ("offline", "dataset")];

fn is_within(module: &str, room: &str) -> bool {
    module.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn floor(module: &str) -> u32 {
    let found = FLOORS.iter().filter(|(room, _)| is_within(module, room)).max_by_key(|(room, _)| room.len());
    found.unwrap_or_else(|| panic!("src/{module} has no floor: enter it in the table of this test")).1
}

/// The sources by module: `src/engine/mod.rs` is `engine`, `src/shard/slot.rs` is `shard::slot`. Without the crate's
/// root, whose names stand for what they lead to, and without tests, which do not hold the house up.
fn sources() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let module = module(&root, &path);
                if !module.is_empty() && !module.split("::").any(|part| part == "tests") {
                    found.insert(module, std::fs::read_to_string(&path).unwrap());
                }
            }
        }
    }
    found
}

fn module(root: &Path, file: &Path) -> String {
    let below: PathBuf = file.strip_prefix(root).unwrap().with_extension("");
    let mut parts: Vec<_> = below.iter().map(|part| part.to_str().unwrap()).collect();
    if ["mod", "lib"].contains(parts.last().unwrap()) {
        parts.pop();
    }
    parts.join("::")
}

/// A file's code as one line: no comments, and no inline tests, which stand at its end.
fn code(source: &str) -> String {
    let begins_tests = |&at: &usize| {
        let mut lines = source[at..].lines().skip_while(|line| line.starts_with("#["));
        lines.next().is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    let tests = ["#[cfg(test)]", "#[cfg(all(test"].iter().flat_map(|tests| source.match_indices(tests));
    let end = tests.map(|(at, _)| at).filter(begins_tests).min();
    let lines = source[..end.unwrap_or(source.len())].lines();
    let code = lines.map(|line| line.split("//").next().unwrap_or_default().trim_end());
    // Within a file's own inline modules, `super` is the file.
    code.filter(|line| !line.starts_with("    ") || !line.trim_start().starts_with("use super::")).collect()
}

/// All paths in code that lead out of its module, groups spelled out, relative to the root.
fn paths(module: &str, code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (lead, at) in ["crate::", "super::"].iter().flat_map(|lead| code.match_indices(lead).map(|(at, _)| (*lead, at)))
    {
        // Of `super::super::x`, and of `pub(in crate::x)`, which is no import.
        if code[..at].ends_with("::") || code[..at].ends_with("pub(in ") {
            continue;
        }
        let mut base: Vec<&str> = if lead == "super::" { module.split("::").collect() } else { Vec::new() };
        base.pop();
        let mut rest = &code[at + lead.len()..];
        while let Some(further) = rest.strip_prefix("super::") {
            base.pop();
            rest = further;
        }
        spell_out(&base.join("::"), rest, &mut found);
    }
    found
}

/// Adds the paths that `rest` begins with: `a::b` is one, `{a, b::{c, d}}` are three.
fn spell_out<'a>(base: &str, rest: &'a str, found: &mut Vec<String>) -> &'a str {
    let join = |name: &str| if base.is_empty() { name.to_owned() } else { format!("{base}::{name}") };
    if let Some(mut group) = rest.strip_prefix('{') {
        loop {
            group = spell_out(base, group.trim_start(), found).trim_start();
            // What follows an item, as its other name.
            group = group.trim_start_matches(|c: char| c != ',' && c != '}');
            match group.strip_prefix(',') {
                Some(next) => group = next,
                None => return group.strip_prefix('}').unwrap_or_default(),
            }
        }
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    match after.strip_prefix("::") {
        Some(further) if further.starts_with(|c: char| c.is_alphabetic() || c == '{' || c == '_') => {
            spell_out(&join(name), further, found)
        }
        _ => {
            if !name.is_empty() {
                found.push(join(name));
            }
            after
        }
    }
}

/// Which files each file names. A child's name within its parent is a path, too.
fn imports(sources: &BTreeMap<String, String>) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut all = BTreeMap::new();
    for (module, source) in sources {
        let code = code(source);
        let mut paths = paths(module, &code);
        let children =
            sources.keys().filter(|other| other.rsplit_once("::").is_some_and(|(parent, _)| parent == module));
        for child in children {
            let name = child.rsplit("::").next().unwrap();
            let is_named = code.match_indices(&format!("{name}::")).any(|(at, _)| {
                !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '.')
            });
            if is_named {
                paths.push(child.clone());
            }
        }
        let file_of = |path: &String| {
            let prefixes = path.match_indices("::").map(|(at, _)| at).chain([path.len()]);
            prefixes.filter_map(|end| sources.get_key_value(&path[..end])).last().map(|(file, _)| file.as_str())
        };
        let named = paths.iter().filter_map(file_of).filter(|file| file != module).collect();
        all.insert(module.as_str(), named);
    }
    all
}

/// Every import that reaches up or through a wall.
fn offences(imports: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<String> {
    let mut found = Vec::new();
    for (module, others) in imports {
        for other in others {
            let is_one = |(from, to): &(&str, &str)| is_within(module, from) && is_within(other, to);
            if floor(other) > floor(module) || WALLS.iter().any(is_one) {
                found.push(format!("{module} names {other}"));
            }
        }
    }
    found
}

/// The files that lead back to themselves, each with those that it names of them.
fn circle(imports: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<String> {
    let mut left = imports.clone();
    // What names none that is left, and what none that is left names, is in no circle.
    loop {
        let files: BTreeSet<&str> = left.keys().copied().collect();
        left.values_mut().for_each(|named| named.retain(|file| files.contains(file)));
        let named: BTreeSet<&str> = left.values().flatten().copied().collect();
        left.retain(|file, named_here| !named_here.is_empty() && named.contains(file));
        if left.len() == files.len() {
            return left.into_iter().map(|(file, named)| format!("{file} names {named:?}")).collect();
        }
    }
}

#[test]
fn imports_point_down() {
    let sources = sources();
    assert!(sources.len() > 100, "the sources are elsewhere");
    let offences = offences(&imports(&sources));
    assert!(offences.is_empty(), "these reach up:\n{}", offences.join("\n"));
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let sources = sources();
    let circle = circle(&imports(&sources));
    assert!(circle.is_empty(), "these lead back to themselves:\n{}", circle.join("\n"));
}

#[test]
fn only_one_folder_knows_the_operating_system() {
    let of_the_system = ["libc::", "rustix::", "std::os::", "target_os"];
    let sources = sources();
    let elsewhere = sources.iter().filter(|(module, _)| !is_within(module, "fs") && *module != "offline::fuzzing");
    let offences: Vec<_> = elsewhere
        .filter(|(_, source)| of_the_system.iter().any(|name| code(source).contains(name)))
        .map(|(module, _)| module)
        .collect();
    assert!(offences.is_empty(), "{offences:?} should ask src/fs");
}

fn small_house(files: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
    let sources = files.iter().map(|(module, source)| ((*module).to_owned(), (*source).to_owned())).collect();
    let imports = imports(&sources);
    (offences(&imports), circle(&imports))
}

#[test]
fn what_reaches_up_is_found() {
    let rest = [("engine::pump", ""), ("plan", ""), ("dataset", ""), ("config", "")];
    let up = |module, source| small_house(&[&rest[..], &[(module, source)]].concat()).0.len();
    assert_eq!(up("ring", "use crate::engine::pump::Engine;"), 1);
    assert_eq!(up("ring", "fn f() {\n    let x = crate::plan::PAGE;\n    crate::dataset::Image::new();\n}"), 2);
    assert_eq!(up("offline::verify", "use crate::engine::pump::Engine;"), 1);
    assert_eq!(up("shard", "use crate::{config::Config, engine::{pump::{Engine, Ends}}};"), 1);
    assert_eq!(up("engine::worker", "use crate::Error;\nuse super::pump::Engine;\nuse crate::config;"), 0);
    assert_eq!(up("ring", "// crate::plan\n#[cfg(test)]\nmod tests {\n    use crate::plan::Plan;\n}"), 0);
}

#[test]
fn circles_are_found() {
    let leads_back = |files: &[(&str, &str)]| small_house(files).1.len();
    assert_eq!(
        leads_back(&[
            ("ring", "use crate::{aligned_memory::{self, A as B}, sync};"),
            ("aligned_memory", "use super::ring::Ring;")
        ]),
        2
    );
    assert_eq!(leads_back(&[("shard", "pub(crate) use slot::Slot;"), ("shard::slot", "use super::Shard;")]), 2);
    assert_eq!(leads_back(&[("shard", "fn f() { slot::f() }"), ("shard::slot", "fn f(s: &super::Shard) {}")]), 2);
    let three = [
        ("ring", "use crate::aligned_memory::R;"),
        ("aligned_memory", "use crate::sync;"),
        ("sync", "use crate::ring;"),
    ];
    assert_eq!(leads_back(&three), 3);
    assert_eq!(leads_back(&three[..2]), 0);
    assert_eq!(leads_back(&[("shard", "use slot::Slot;"), ("shard::slot", "pub(in crate::shard) fn f() {}")]), 0);
}
