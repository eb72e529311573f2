//! The house has floors, and imports point down: a module may use modules of its own floor or of those below.
//!
//! | floor | modules |
//! |---|---|
//! | 0 | error, fs, sync |
//! | 1 | dtype, geometry, stats |
//! | 2 | config |
//! | 3 | codec: wishes from `config` name the codecs; the ids of chunks of a volume |
//! | 4 | ome, storage, region, ring, plan, record, the slot header and the index of `shard`: a plan counts their bytes |
//! | 5 | dialect, folder, shard |
//! | 6 | dataset, engine, offline: `offline` knows nothing of the engine |
//! | 7 | acquisition, the frames that it lends, and the manifest that it leaves |
//! | 8 | the crate's root, and ffi: the doors |

use std::path::{Path, PathBuf};

/// The floor of a path below the crate's root; the longest entry that fits counts.
const FLOORS: [(&str, u32); 27] = [
    ("error", 0),
    ("fs", 0),
    ("sync", 0),
    ("dtype", 1),
    ("geometry", 1),
    ("stats", 1),
    ("config", 2),
    ("codec", 3),
    ("ome", 4),
    ("storage", 4),
    ("region", 4),
    ("ring", 4),
    ("plan", 4),
    ("record", 4),
    ("shard::slot", 4),
    ("shard::index", 4),
    ("dialect::volume", 3),
    ("dialect", 5),
    ("folder", 5),
    ("shard", 5),
    ("dataset", 6),
    ("engine", 6),
    ("offline", 6),
    ("manifest", 7),
    ("frame", 7),
    ("acquisition", 7),
    ("ffi", 8),
];

/// What is public is known at the root by its own name; where it comes from is what counts.
const AT_ROOT: [(&str, &str); 3] = [("Error", "error"), ("Result", "error"), ("Acquisition", "acquisition")];

/// Rooms on one floor that shall not know each other, and where a floor has one door that leads up: from, to.
const WALLS: [(&str, &str); 2] = [("offline", "engine"), ("offline", "dataset")];

/// Where an image is started: the one door that leads up.
const DOORS: [(&str, &str); 1] = [("dataset", "acquisition")];

fn floor(module: &str) -> u32 {
    let within = |room: &str| module == room || module.strip_prefix(room).is_some_and(|rest| rest.starts_with("::"));
    let found = FLOORS.iter().filter(|(room, _)| within(room)).max_by_key(|(room, _)| room.len());
    found.unwrap_or_else(|| panic!("src/{module} has no floor: enter it in the table of this test")).1
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The module of a source file: `src/engine/mod.rs` is `engine`, `src/shard/slot.rs` is `shard::slot`.
fn module(root: &Path, file: &Path) -> String {
    let below = file.strip_prefix(root).unwrap().with_extension("");
    let mut parts: Vec<_> = below.iter().map(|part| part.to_str().unwrap()).collect();
    if parts.last() == Some(&"mod") {
        parts.pop();
    }
    parts.join("::")
}

/// The modules that a line names by `crate::`: those of `use crate::{…}` as well as paths within code.
fn named(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for rest in line.split("crate::").skip(1) {
        let group = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(group, _)| group);
        let paths: Vec<&str> = group.map_or_else(|| vec![rest], |group| group.split(',').map(str::trim).collect());
        for path in paths {
            let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(path.len());
            let path = path[..end].trim_end_matches(':').to_owned();
            let first = path.split("::").next().unwrap_or_default();
            let root = AT_ROOT.iter().find(|(name, _)| *name == first).map(|(_, module)| (*module).to_owned());
            found.push(root.unwrap_or(path));
        }
    }
    found
}

fn begins_with(module: &str, room: &str) -> bool {
    module.split("::").next() == Some(room)
}

/// Every line of `source`, which is `module`, that reaches up or through a wall.
fn offences(module: &str, source: &str) -> Vec<String> {
    // What only tests use does not hold the house up; they stand at the end of a file.
    let code = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code = code.split("#[cfg(all(test").next().unwrap_or_default();
    let lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let mut found = Vec::new();
    for (at, line) in lines {
        for other in named(line) {
            let through = |pair: &&(&str, &str)| begins_with(module, pair.0) && begins_with(&other, pair.1);
            let up = floor(&other) > floor(module) && !DOORS.iter().any(|door| through(&door));
            if up || WALLS.iter().any(|wall| through(&wall)) {
                found.push(format!("{module}, line {}: {}", at + 1, line.trim()));
            }
        }
    }
    found
}

#[test]
fn imports_point_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = sources(&root);
    files.retain(|file| *file != root.join("lib.rs") && !file.iter().any(|part| part == "tests"));
    assert!(files.len() > 20, "the sources are elsewhere");
    let check = |file: &PathBuf| offences(&module(&root, file), &std::fs::read_to_string(file).unwrap());
    let offences: Vec<String> = files.iter().flat_map(check).collect();
    assert!(offences.is_empty(), "these lines reach up:\n{}", offences.join("\n"));
}

#[test]
fn this_test_finds_what_reaches_up() {
    assert_eq!(offences("ring", "use crate::engine::Engine;").len(), 1);
    assert_eq!(offences("ring", "    let x = crate::plan::PAGE;\n    crate::dataset::Image::new();").len(), 1);
    assert_eq!(offences("offline::reader", "use crate::engine::Engine;").len(), 1);
    assert_eq!(offences("plan", "use crate::{config::Config, shard::Shard};").len(), 1);
    assert_eq!(
        offences("engine::worker", "use crate::Error;\nuse crate::shard::slot::Slot;\n// crate::acquisition"),
        [""; 0]
    );
}
