//! Tests that need a process of their own: because they limit it, or because it may die.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::storage::within;

/// Runs an ignored test of the same file in a process of its own, and returns what it prints.
pub fn in_child(test: &str, path: &Path) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture"]).env("SHARDWRIGHT_TEST_PATH", path);
    let output = within(120, move || command.output().unwrap());
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

/// What was given to [`in_child`].
pub fn child_path() -> PathBuf {
    PathBuf::from(std::env::var_os("SHARDWRIGHT_TEST_PATH").expect("another test sets it"))
}
