//! Tests that need a process of their own: because they limit it, or because it may die.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::storage::within;

/// An ignored test of this program (`module::test`) in a process of its own, not yet begun.
pub fn child(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads", "1"]);
    command
}

/// Runs an ignored test (`module::test`) in a process of its own, and returns what it prints.
pub fn in_child(test: &str, path: &Path) -> String {
    let output = output_of_child(test, path, "");
    let text = told(&output);
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

/// As [`in_child`], for one that may die. `word` tells it what to do.
pub fn output_of_child(test: &str, path: &Path, word: &str) -> Output {
    let mut command = child(test);
    command.env("SHARDWRIGHT_TEST_PATH", path).env("SHARDWRIGHT_TEST_WORD", word);
    within(120, move || command.output().unwrap())
}

/// All that a child printed.
pub fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// What was given to [`in_child`].
pub fn child_path() -> PathBuf {
    PathBuf::from(std::env::var_os("SHARDWRIGHT_TEST_PATH").expect("another test sets it"))
}

/// What was said to [`output_of_child`].
pub fn child_word() -> String {
    std::env::var("SHARDWRIGHT_TEST_WORD").expect("another test sets it")
}
