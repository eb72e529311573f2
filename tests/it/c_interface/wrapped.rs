//! Every call of the C header has its two forms in the C++ wrapper.

use std::collections::BTreeSet;
use std::process::Command;

use super::building::folder;

const HEADER: &str = include_str!("../../../include/shardwright.h");
const WRAPPER: &str = include_str!("../../../include/shardwright.hpp");

/// Calls that can't fail, or are for constructors and destructors.
const NO_FORMS: [&str; 7] =
    ["sw_last_error", "sw_status_text", "sw_status_name", "sw_version", "sw_config_init", "sw_free", "sw_dataset_free"];

/// What stands in `text` between `start` and the mark behind it.
fn between<'a>(text: &'a str, start: &'a str, mark: char) -> impl Iterator<Item = &'a str> {
    text.split(start).skip(1).filter_map(move |rest| rest.split(mark).next())
}

fn functions_of_the_header() -> BTreeSet<&'static str> {
    let declared = HEADER.lines().filter(|line| !line.starts_with("//") && !line.starts_with("typedef"));
    let declared = declared.filter_map(|line| line.split_once('('));
    let names = declared.filter_map(|(before, _)| before.split(['*', ' ']).next_back());
    names.filter(|name| name.starts_with("sw_")).collect()
}

/// The non-throwing forms, each with what stands between it and the next.
fn forms() -> Vec<(&'static str, &'static str)> {
    let starts = WRAPPER.split("sw_status try_").skip(1);
    starts.filter_map(|form| form.split_once('(')).collect()
}

#[test]
fn every_call_has_a_form_that_throws_and_one_that_does_not() {
    let functions = functions_of_the_header();
    assert!(functions.len() > 40, "{functions:?}");
    for function in functions.iter().filter(|function| !NO_FORMS.contains(function)) {
        let call = format!("{function}(");
        assert!(forms().iter().any(|(_, body)| body.contains(&call)), "no try_... of the wrapper calls {function}");
    }
    for function in NO_FORMS {
        assert!(functions.contains(function), "{function} is no function of the header");
    }
    let thrown: BTreeSet<&str> = between(WRAPPER, "check(try_", '(').collect();
    for (name, _) in forms() {
        assert!(thrown.contains(name), "try_{name} has no form that throws");
    }
}

/// A record is taken as C's struct and as the class, wherever one is.
#[test]
fn records_are_taken_in_both_shapes() {
    for shape in ["const sw_record *record", "const Record &record"] {
        for name in ["commit", "commit_buffer", "append", "append_interleaved", "append_roi"] {
            for form in [format!(" {name}("), format!(" try_{name}(")] {
                let taken = between(WRAPPER, &form, '{').any(|parameters| parameters.contains(shape));
                assert!(taken, "{form}...) takes no {shape}");
            }
        }
    }
}

/// What the compiler says of `main` with the wrapper and these options; none if it takes it.
fn refused(main: &str, options: &[&str]) -> Option<String> {
    let folder = folder();
    let source = folder.path().join("main.cpp");
    std::fs::write(&source, format!("#include <shardwright.hpp>\nint main() {{ {main} }}\n")).unwrap();
    let mut command = Command::new(std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned()));
    command.arg("-I").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/include")).args(options);
    let output = command.arg("-fsyntax-only").arg(&source).output().unwrap();
    Some(String::from_utf8_lossy(&output.stderr).into_owned()).filter(|_| !output.status.success())
}

#[test]
fn a_status_that_nobody_looks_at_is_warned_of() {
    let options = ["-std=c++17", "-Wall", "-Werror"];
    assert_eq!(refused("shardwright::Acquisition run; return run.try_close();", &options), None);
    for call in ["run.try_close()", "run.try_append(nullptr, 0, done)", "shardwright::try_check_version()"] {
        let main = format!("shardwright::Acquisition run; sw_appended done; (void)done; {call};");
        let said = refused(&main, &options).unwrap_or_else(|| panic!("{call} is not warned of"));
        assert!(said.contains("nodiscard"), "{said}");
    }
    let every = WRAPPER.matches("sw_status try_").count();
    assert_eq!(WRAPPER.matches("[[nodiscard]] sw_status try_").count() + 3, every, "three are not of a class");
    assert_eq!(WRAPPER.matches("[[nodiscard]] inline sw_status try_").count(), 3);
}

#[test]
fn an_older_standard_is_refused_by_name() {
    let said = refused("", &["-std=c++14"]).expect("it is no C++17");
    assert!(said.contains("shardwright.hpp needs C++17"), "{said}");
}
