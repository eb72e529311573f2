//! `include/shardwright.h` is what `src/ffi` says, and every C and C++ compiler takes it without a warning.
//!
//! With `SHARDWRIGHT_WRITE_HEADER` set, the header is written instead of compared: `tools/header`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The files in the order in which a reader of the header wants to meet them.
const SOURCES: [&str; 16] = [
    "status",
    "config/mod",
    "memory",
    "storage",
    "limits",
    "registry",
    "record",
    "run",
    "interleaved",
    "roi",
    "dataset",
    "events",
    "report",
    "finish",
    "together",
    "log",
];

const INTRODUCTION: &str = "\
/* shardwright: camera frames in, finished Zarr shards out.

   Generated from src/ffi by tools/header; do not edit.

   Every function that can fail returns SW_OK or an error code; sw_last_error has the text. Results are written through
   pointers, and only on success, but for the room that SW_ERROR_SIZE says was missing. Any thread may make any call,
   several at once with the same handle, if nothing else is said. A pointer must not be null where nothing else is said,
   but for the `context` of a callback, which may be anything.

   A wrong argument is found out and returned as an error, which \"Errors:\" below does not repeat: SW_ERROR_NULL,
   SW_ERROR_MISALIGNED and SW_ERROR_HANDLE for pointers and handles, SW_ERROR_FORKED for a handle of the parent process
   after a fork, SW_ERROR_SIZE and SW_ERROR_VERSION for structs with a `size`, SW_ERROR_ARGUMENT for a number out of
   its range and for text that is not UTF-8. Any call may return SW_ERROR_PANIC. What the library can't see is whether a
   pointer that is neither null nor misaligned points to as much memory as its description says.

   For C99 or later, and C++11 or later. All text is UTF-8 and ends with a zero; paths are bytes. No call keeps a
   pointer that it was given, but for callbacks, their contexts, the functions of a storage and the buffers of
   `own_buffers`. No function unwinds, and callbacks must not either.

   The calls by phase of a run:

   anytime        sw_last_error, sw_status_text, sw_status_name, sw_version, sw_check_version, sw_set_log
   configure      sw_config_init, sw_config_json, sw_memory_needed
   create         sw_create, sw_create_in; several images: sw_dataset_create, sw_dataset_create_in,
                  sw_dataset_plate, sw_dataset_acquisition, sw_dataset_acquisitions, sw_dataset_free
   prepare        sw_get_layout, sw_buffers, sw_on_shard_closed, sw_on_event, sw_event_open
   each frame     sw_acquire, sw_acquire_buffer; sw_commit, sw_commit_buffer; sw_discard, sw_discard_buffer;
                  or sw_append, sw_append_interleaved, sw_append_roi for all of it
   meanwhile      sw_event_wait, sw_event_close, sw_get_stats, sw_get_latency, sw_next_number, sw_first_error,
                  sw_first_error_frame, sw_set_attribute
   end            sw_close; sw_finish, sw_finish_all or sw_abort; sw_get_summary, sw_summary_json; sw_free */
";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn generated() -> String {
    let mut config = cbindgen::Config::from_file(root().join("cbindgen.toml")).unwrap();
    config.header = Some(INTRODUCTION.trim_end().to_owned());
    let [major, minor, patch] =
        ["MAJOR", "MINOR", "PATCH"].map(|part| std::env::var(format!("CARGO_PKG_VERSION_{part}")).unwrap());
    config.after_includes = Some(format!(
        "\n/* The version of this header. That of the library is sw_version(). */\n#define SW_VERSION \
         \"{major}.{minor}.{patch}\"\n#define SW_VERSION_MAJOR {major}\n#define SW_VERSION_MINOR {minor}\n#define \
         SW_VERSION_PATCH {patch}"
    ));
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(root().join(format!("src/ffi/{source}.rs")));
    }
    let mut bytes = Vec::new();
    builder.generate().unwrap().write(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_header_is_what_the_sources_say() {
    let path = root().join("include/shardwright.h");
    let generated = generated();
    if std::env::var_os("SHARDWRIGHT_WRITE_HEADER").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    let differs = committed.lines().zip(generated.lines()).find(|(old, new)| old != new);
    assert!(
        committed == generated,
        "include/shardwright.h is out of date; run tools/header. First difference: {differs:?}"
    );
}

/// Every public name of the interface begins with `sw_` or `SW_`, so that it meets no other library's.
#[test]
fn names_have_a_prefix() {
    for line in generated().lines().filter(|line| line.starts_with("#define")) {
        let name = line.split_whitespace().nth(1).unwrap();
        assert!(name.starts_with("SW_") || name == "SHARDWRIGHT_H", "{line}");
    }
    let text = generated();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let names = code.flat_map(|line| {
        let words: Vec<&str> = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
        let tagged = words.windows(2).filter(|pair| ["struct", "enum", "union"].contains(&pair[0]));
        let mut names: Vec<String> = tagged.map(|pair| pair[1].to_owned()).collect();
        // `typedef … name;`, or the end of one.
        let is_type =
            line.starts_with('}') && line.ends_with(';') || line.starts_with("typedef") && !line.contains("(*");
        names.extend(
            is_type.then(|| words.iter().rev().find(|word| !word.is_empty()).map(|word| (*word).to_owned())).flatten(),
        );
        names
    });
    let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        assert!(name.starts_with("sw_") || name.starts_with("SW_") || name == "extern", "{name}");
    }
}

/// Of each call that returns a status, the lines above it say which there are.
#[test]
fn every_call_says_its_errors() {
    let text = generated();
    let mut comment = Vec::new();
    let mut calls = 0;
    for line in text.lines() {
        if line.starts_with("//") {
            comment.push(line);
            continue;
        }
        if line.starts_with("sw_status ") {
            calls += 1;
            assert!(comment.iter().any(|line| line.starts_with("// Errors: ")), "{line}");
        }
        comment.clear();
    }
    assert!(calls > 40, "{calls}");
}

/// The list of calls at its top has each of them, once, and no other.
#[test]
fn the_calls_are_listed_by_phase() {
    let text = generated();
    let names = |text: &str| {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let mut names: Vec<String> = words.filter(|word| word.starts_with("sw_")).map(str::to_owned).collect();
        names.sort();
        names
    };
    let listed = INTRODUCTION.split_once("by phase of a run").unwrap().1;
    let calls = text.lines().filter(|line| line.starts_with("sw_status sw_") || line.starts_with("const char *sw_"));
    let calls: Vec<&str> = calls.map(|line| line.split_once('(').unwrap().0).collect();
    let calls: Vec<String> = names(&calls.join(" ")).into_iter().filter(|name| name != "sw_status").collect();
    assert!(calls.len() > 35);
    assert_eq!(names(listed), calls);
}

/// Nor does it declare anything of the libraries that this one is built from.
#[test]
fn nothing_of_others_is_declared() {
    let text = generated();
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let words = code.iter().flat_map(|line| line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')));
    let calls: Vec<_> = code.iter().filter(|line| line.contains('(') && !line.starts_with([' ', '#', '/'])).collect();
    assert!(calls.len() > 30);
    for line in calls {
        let name = line.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap();
        assert!(name.starts_with("sw_") || line.contains("typedef") || name.is_empty(), "{line}");
    }
    assert!(words.into_iter().all(|word| !word.starts_with("ZSTD") && !word.starts_with("LZ4")));
}

#[test]
fn compilers_take_it_without_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wshadow", "-Wconversion", "-fsyntax-only"];
    let languages = [("c99", "c"), ("c11", "c"), ("c17", "c"), ("c++11", "cpp"), ("c++17", "cpp"), ("c++20", "cpp")];
    for (standard, extension) in languages {
        let headers: &[&str] = if extension == "c" || standard == "c++11" {
            &["shardwright.h"]
        } else {
            &["shardwright.h", "shardwright.hpp"]
        };
        for header in headers {
            for options in [&[][..], &["-fno-exceptions"]] {
                let source = folder.path().join(format!("includes.{extension}"));
                std::fs::write(
                    &source,
                    format!("#include <{header}>\n#include <{header}>\nint main(void) {{ return 0; }}\n"),
                )
                .unwrap();
                compile(&source, standard, &strict, if extension == "c" { &[] } else { options });
            }
        }
    }
}

fn compile(source: &Path, standard: &str, strict: &[&str], options: &[&str]) {
    let name = if source.extension().is_some_and(|extension| extension == "c") { "CC" } else { "CXX" };
    let compiler = std::env::var(name).unwrap_or_else(|_| if name == "CC" { "cc".into() } else { "c++".into() });
    let mut command = Command::new(&compiler);
    command
        .arg(format!("-std={standard}"))
        .args(strict)
        .args(options)
        .arg("-I")
        .arg(root().join("include"))
        .arg(source);
    let output = command.output().unwrap_or_else(|error| {
        panic!("can't run {compiler}: {error}; these tests need a compiler for C and C++ (Debian: apt install g++)")
    });
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
}
