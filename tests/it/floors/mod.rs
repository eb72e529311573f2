//! The house has floors, and imports point down: a module may use modules of its own floor or of those below. No files
//! of `src`, nor of the packages in `tools`, need each other in a circle, be it by imports or by methods that one adds
//! to another's type; but for a test's.
//!
//! | floor | modules |
//! |---|---|
//! | 0 | error, fnv, json, named, processor, sync, stats, words |
//! | 1 | dtype, geometry, config, codec, downsample, pixels, ome |
//! | 2 | format, fs, storage, ring, aligned_memory, record |
//! | 3 | plan, shard, replaceable, folder, archive_file |
//! | 4 | dataset, and what the tools look at: arrays, and the walk through a hierarchy |
//! | 5 | engine, and the tools, which know nothing of it |
//! | 6 | acquisition, the frames that it lends, the events that it tells of, and the manifest that it leaves |
//! | 7 | the crate's root, and ffi: the doors |

mod formats;
mod imports;
mod methods;
mod python;
mod tokens;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use self::imports::{imports, outside};
use self::methods::method_calls;
use self::tokens::tokens;

/// The floor of a module; the longest entry that fits counts.
const FLOORS: [(&str, u32); 36] = [
    ("error", 0),
    ("fnv", 0),
    ("json", 0),
    ("named", 0),
    ("processor", 0),
    ("sync", 0),
    ("stats", 0),
    ("words", 0),
    ("dtype", 1),
    ("geometry", 1),
    ("config", 1),
    ("codec", 1),
    ("downsample", 1),
    ("pixels", 1),
    ("ome", 1),
    ("format", 2),
    ("fs", 2),
    ("storage", 2),
    ("ring", 2),
    ("aligned_memory", 2),
    ("record", 2),
    ("plan", 3),
    ("shard", 3),
    ("replaceable", 3),
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
const WALLS: [(&str, &str); 5] = [
    ("ome", "format"),
    ("format", "fs"),
    ("offline::array", "offline::hierarchy"),
    ("offline", "engine"),
    ("offline", "dataset"),
];

fn is_within(module: &str, room: &str) -> bool {
    module.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn floor(module: &str) -> u32 {
    let found = FLOORS.iter().filter(|(room, _)| is_within(module, room)).max_by_key(|(room, _)| room.len());
    found.unwrap_or_else(|| panic!("src/{module} has no floor: enter it in the table of this test")).1
}

/// The sources below a folder by module: `src/engine/mod.rs` is `engine`, `src/shard/slot.rs` is `shard::slot`, and the
/// root's name is empty. Without tests, which do not hold the house up.
fn sources_below(folder: &str) -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let modules = files_below(&root, &["rs"]).into_iter().map(|(path, source)| (module(&root, &path), source));
    modules.filter(|(module, _)| !module.split("::").any(|part| part == "tests")).collect()
}

/// The modules of the Python package, as those who import them call them; stubs stand for what is compiled.
fn python_sources() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/python");
    let modules = files_below(&root.join("shardwright"), &["py", "pyi"]).into_iter();
    modules.map(|(path, source)| (module(&root, &path).replace("::", "."), source)).collect()
}

/// The files with one of these endings, and what is in them.
fn files_below(root: &Path, endings: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|is| endings.iter().any(|ending| is == *ending)) {
                let source = std::fs::read_to_string(&path).unwrap();
                found.push((path, source));
            }
        }
    }
    found
}

fn sources() -> BTreeMap<String, String> {
    sources_below("src")
}

fn module(root: &Path, file: &Path) -> String {
    let below: PathBuf = file.strip_prefix(root).unwrap().with_extension("");
    let mut parts: Vec<_> = below.iter().map(|part| part.to_str().unwrap()).collect();
    if ["mod", "lib", "main", "__init__"].contains(parts.last().unwrap()) {
        parts.pop();
    }
    parts.join("::")
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

/// Which files each file needs: by what it imports, and by the methods that it calls.
fn arrows(sources: &BTreeMap<String, String>) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut arrows = imports(sources);
    for (file, others) in method_calls(sources) {
        arrows.entry(file).or_default().extend(others);
    }
    arrows
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
fn no_files_need_each_other_in_a_circle() {
    for (folder, files) in [("src", 100), ("tools/cli/src", 40), ("tools/python/src", 15)] {
        let sources = sources_below(folder);
        assert!(sources.len() > files, "the sources of {folder} are elsewhere");
        let circle = circle(&arrows(&sources));
        assert!(circle.is_empty(), "these of {folder} lead back to themselves:\n{}", circle.join("\n"));
    }
}

/// The tool that a module belongs to, by its folder or its file directly below `src/offline`.
fn tool(module: &str) -> Option<&str> {
    module.strip_prefix("offline::").and_then(|below| below.split("::").next())
}

/// What tools share stands below all that need it.
#[test]
fn no_tools_need_each_other_in_a_circle() {
    let sources = sources();
    let mut tools: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (module, others) in arrows(&sources) {
        let Some(from) = tool(module) else { continue };
        tools.entry(from).or_default().extend(others.into_iter().filter_map(tool).filter(|to| *to != from));
    }
    let circle = circle(&tools);
    assert!(circle.is_empty(), "these lead back to themselves:\n{}", circle.join("\n"));
}

/// Macros that panic where what they write to can't be written.
const PANICKING_PRINTS: [&str; 5] = ["eprintln!", "println!", "eprint!", "print!", "dbg!"];

#[test]
fn the_command_writes_only_as_its_console_does() {
    let sources = sources_below("tools/cli/src");
    let is_word = |before: &str| !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    for (module, source) in &sources {
        let prints = |print: &&&str| source.match_indices(**print).any(|(at, _)| is_word(&source[..at]));
        let found = PANICKING_PRINTS.iter().find(prints);
        assert_eq!(found, None, "{module} prints by itself; console::say and console::tell do not panic");
    }
}

#[test]
fn no_modules_of_the_python_package_import_each_other_in_a_circle() {
    let sources = python_sources();
    assert!(sources.len() > 20, "the sources are elsewhere");
    let circle = circle(&python::imports(&sources));
    assert!(circle.is_empty(), "these lead back to themselves:\n{}", circle.join("\n"));
}

#[test]
fn circles_of_python_are_found() {
    let leads_back = |one: &str, other: &str| {
        let sources = [("p", "\"\"\"Names.\"\"\"\n"), ("p._one", one), ("p._two", other), ("p.q._deep", "")];
        let sources = sources.map(|(module, source)| (module.to_owned(), source.to_owned())).into();
        circle(&python::imports(&sources)).len()
    };
    for one in [
        "from p._two import f",
        "from p import _two",
        "from p import (\n    _core,\n    _two as other,\n)\n",
        "import p._two",
        "import os, p._two as two",
        "from ._two import f",
        "from . import _two",
        "if TYPE_CHECKING:\n    from p._two import f  # a type\n",
        "def f():\n    \"\"\"Do.\n\n    More.\n    \"\"\"\n    from p._two import g\n",
    ] {
        assert_eq!(leads_back(one, "from p._one import g"), 2, "{one}");
    }
    for one in [
        "# from p._two import f",
        "\"\"\"Do.\n\nfrom p._two import f\n\"\"\"\n",
        "from p.q import _deep",
        "from p._twofold import f",
        "from os import path",
        "text = 'from p._two import f'",
    ] {
        assert_eq!(leads_back(one, "from p._one import g"), 0, "{one}");
    }
}

#[test]
fn only_one_folder_knows_the_operating_system() {
    let sources = sources();
    let elsewhere = sources.iter().filter(|(module, _)| !is_within(module, "fs") && *module != "offline::fuzzing");
    let offences: Vec<_> = elsewhere.filter(|(_, source)| knows_the_system(source)).map(|(module, _)| module).collect();
    assert!(offences.is_empty(), "{offences:?} should ask src/fs");
}

/// Whether a source names a part of the operating system: its crates, the standard library's part for it, what is
/// compiled for one alone, or a file that the kernel makes.
fn knows_the_system(source: &str) -> bool {
    let is_of_it = |path: &Vec<String>| match path[0].as_str() {
        "libc" | "rustix" | "core_affinity" => true,
        "memmap2" => path.get(1).is_some_and(|name| name.ends_with("Advice")),
        "std" => path.get(1).is_some_and(|name| name == "os"),
        _ => false,
    };
    let tokens = tokens(source);
    let conditions = ["target_os", "target_family", "unix", "windows"];
    let is_condition = |pair: &[&str]| ["(", ","].contains(&pair[0]) && conditions.contains(&pair[1]);
    let kept = source.split("\nmod tests {").next().unwrap_or_default();
    let files = ["/proc/", "/sys/", "/dev/"].map(|root| format!("\"{root}"));
    outside(source).iter().any(is_of_it)
        || tokens.windows(2).any(is_condition)
        || files.iter().any(|root| kept.contains(root.as_str()))
}

#[test]
fn whoever_knows_the_system_is_found() {
    for source in [
        "use std::os::fd::AsFd;",
        "use std::{fs, os::unix::fs::FileExt};",
        "use std as s;\nfn f() { s::os::fd::f() }",
        "use libc as c;\nfn f() { c::open() }",
        "use rustix::{self as r, fs};",
        "fn f() { libc::open() }",
        "fn f() { core_affinity::get_core_ids() }",
        "use memmap2::{Mmap, UncheckedAdvice};",
        "#[cfg(unix)]\nfn f() {}",
        "#[cfg(not(windows))]\nfn f() {}",
        "#[cfg(all(miri, target_os = \"linux\"))]\nfn f() {}",
        "fn f() { std::fs::read(\"/proc/meminfo\") }",
    ] {
        assert!(knows_the_system(source), "{source}");
    }
    for source in ["use std::fs;\nfn windows() { x.windows(2) }", "// std::os\nfn f(os: u8) { crate::fs::os() }"] {
        assert!(!knows_the_system(source), "{source}");
    }
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
    let of_two = |one, other| leads_back(&[("ring", one), ("fs", ""), ("fs::lock", other)]);
    // Whatever way a name is written, and whatever it is called.
    for path in [
        "use crate::fs::lock::Lock;",
        "use super::{aligned_memory, fs::{self as system, lock::{Held, Lock as L}}, sync};",
        "use crate::fs::lock::*;",
        "use crate::fs;\nfn f() {\n    fs::lock::take()\n}",
        "use crate::{fs as system};\nfn f() -> system::lock::Lock {}",
        "use super::fs::{self};\nfn f(_: Vec<fs::lock::Lock>) {}",
        "fn f() {\n    use super::fs::lock;\n}",
        "mod inner {\n    use super::super::fs::lock::Lock;\n}",
        "mod inner {\n    fn f() -> crate::fs::lock::Lock {}\n}",
        "macro_rules! m {\n    () => { $crate::fs::lock::take() };\n}",
        "fn f() -> &'static str { \"//\"; crate::fs::lock::NAME }",
    ] {
        assert_eq!(of_two(path, "use crate::ring::Ring;"), 2, "{path}");
    }
    for path in [
        "// use crate::fs::lock;",
        "/* crate::fs::lock::Lock */",
        "const TEXT: &str = \"crate::fs::lock\";",
        "const TEXT: &str = r#\"\"crate::fs::lock\"#;",
        "use std::fs;\nfn f() {\n    fs::lock::take()\n}",
        "pub(in crate::fs::lock) fn f() {}",
        "#[cfg(test)]\nuse crate::fs::lock;",
        "#[cfg(all(test, unix))]\nmod tests {\n    use crate::fs::lock;\n}",
    ] {
        assert_eq!(of_two(path, "use crate::ring::Ring;"), 0, "{path}");
    }
    let three = [("ring", "use crate::fs;"), ("fs", "use crate::sync;"), ("sync", "use crate::ring;")];
    assert_eq!(leads_back(&three), 3);
    assert_eq!(leads_back(&three[..2]), 0);
}

#[test]
fn circles_of_a_file_and_those_below_it_are_found() {
    let leads_back = |above, below| small_house(&[("shard", above), ("shard::slot", below)]).1.len();
    for above in [
        "pub(crate) use slot::Slot;",
        "pub(crate) use self::slot::Slot as S;",
        "fn f() { slot::f() }",
        "use self::{slot::{Slot}};",
        "mod inner {\n    use super::slot::Slot;\n}",
    ] {
        for below in ["use super::Shard;", "fn f(s: &super::Shard) {}", "use crate::shard::Shard;", "use super::*;"] {
            assert_eq!(leads_back(above, below), 2, "{above} {below}");
        }
        assert_eq!(leads_back(above, "pub(in crate::shard) fn f() {}"), 0);
        assert_eq!(leads_back(above, "mod inner {\n    use super::Slot;\n}"), 0);
    }
    assert_eq!(leads_back("mod slot;\npub(crate) struct Shard;", "use super::Shard;"), 0);
}

/// A file that adds methods to another's type stands above it, so that file must not call them.
#[test]
fn circles_of_methods_are_found() {
    let leads_back = |below: &str, above: &str| {
        let sources = [("ring", below), ("ring::ends", above), ("fs", "fn end() {}")];
        let sources = sources.map(|(module, source)| (module.to_owned(), source.to_owned())).into();
        circle(&arrows(&sources)).len()
    };
    let ends = "use super::Ring;\nimpl Ring {\n    fn close(&self) {}\n}";
    for below in [
        "struct Ring;\nfn f(ring: Ring) {\n    ring.close()\n}",
        "struct Ring;\nfn f(ring: Option<Ring>) {\n    ring.map(Ring::close);\n}",
    ] {
        assert_eq!(leads_back(below, ends), 2, "{below}");
        let generic = "use super::Ring;\nimpl<T: Into<u8>> Ring<T> where T: Fn() -> u8 {\n    fn close(&self) {}\n}";
        assert_eq!(leads_back(below, generic), 2, "{below}");
        assert_eq!(leads_back(below, "use super::Ring;\nimpl Drop for Ring {\n    fn close(&self) {}\n}"), 0);
        let own = "use super::Ring;\nstruct Ends;\nimpl Ends {\n    fn close(&self) {}\n}";
        assert_eq!(leads_back(below, own), 0);
    }
    for below in [
        "struct Ring {\n    close: u8,\n}\nfn f(ring: Ring) {\n    ring.close;\n}",
        "struct Ring;\nuse crate::fs::close::f;",
        "struct Ring;\n#[cfg(test)]\nmod tests {\n    fn f(ring: Ring) {\n        ring.close()\n    }\n}",
    ] {
        assert_eq!(leads_back(below, ends), 0, "{below}");
    }
    // Another function of that name may be meant.
    assert_eq!(leads_back("struct Ring;\nfn f(file: File) {\n    file.end()\n}", &ends.replace("close", "end")), 0);
}

/// A name of the crate's root is as good as the file that has it.
#[test]
fn circles_by_way_of_the_root_are_found() {
    let root = ("", "mod ring;\nmod fs;\npub use ring::{Ring, Loan as Lent};\npub use fs::Folder;");
    let leads_back = |ring, fs| small_house(&[root, ("ring", ring), ("fs", fs)]).1.len();
    assert_eq!(leads_back("use crate::Folder;", "use crate::{Error, Lent};"), 2);
    assert_eq!(leads_back("fn f() -> crate::Folder {}", "impl super::Ring {}"), 2);
    assert_eq!(leads_back("use crate::Folder;", "use crate::Unknown;"), 0);
    assert_eq!(leads_back("use crate::Ring;", "use crate::fs::Folder;"), 0);
}
