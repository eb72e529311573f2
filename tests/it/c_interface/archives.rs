//! Datasets in one file, made by programs in C.

use shardwright::offline::Array;

use super::building::{Program, folder};
use crate::common::zip;

#[test]
fn a_name_that_ends_in_ozx_makes_one_file() {
    let folder = folder();
    let paths = ["one.ozx", "two.ozx"].map(|name| folder.path().join(name));
    Program::new("tests/it/c_interface/growth.c").run(&[&paths[0], &paths[1]]);
    for path in paths {
        assert!(path.is_file());
        assert_eq!(zip::wrong(&path), [""; 0]);
        assert_eq!(Array::open(path.join("0")).unwrap().shape(), [3, 64, 64]);
    }
}
