//! Every call of the C header has its two forms in the C++ wrapper.

use std::collections::BTreeSet;

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
        for name in ["commit", "commit_buffer", "append", "append_interleaved"] {
            for form in [format!(" {name}("), format!(" try_{name}(")] {
                let taken = between(WRAPPER, &form, '{').any(|parameters| parameters.contains(shape));
                assert!(taken, "{form}...) takes no {shape}");
            }
        }
    }
}
