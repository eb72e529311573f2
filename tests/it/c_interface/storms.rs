//! Programs whose threads do everything at once.

use super::building::{Program, folder};

#[test]
fn whoever_does_everything_at_once_gets_an_answer() {
    let folder = folder();
    let rounds = std::env::var("SHARDWRIGHT_STORMS").unwrap_or_else(|_| "40".to_owned());
    let path = folder.path().to_str().unwrap();
    let output = Program::new("tests/it/c_interface/storm.c").run(&[path, &rounds]);
    assert_eq!(output, format!("{rounds} storms\n"));
}

#[test]
fn objects_may_end_in_their_own_callbacks_and_while_others_use_them() {
    for options in [&[][..], &["-fno-exceptions", "-fno-rtti"]] {
        let folder = folder();
        let output = Program::new("tests/it/c_interface/destroying.cpp").with(options).run(&[folder.path()]);
        assert_eq!(output, "none was lost\n");
    }
}

#[test]
fn a_run_ends_where_that_can_be_waited_for_and_wakes_who_waits() {
    let folder = folder();
    Program::new("tests/it/c_interface/ending.c").run(&[folder.path().join("run.zarr")]);
    Program::new("tests/it/c_interface/ending_another.c").run(&[folder.path()]);
}
