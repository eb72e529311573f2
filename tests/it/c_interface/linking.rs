//! What the guide says of linking: beside other programs' compressors, and without any shared library.

use super::building::{Linking, Program, folder, pkg_config};
use super::{EXAMPLES, frames};

/// Whether linked to the one or the other library, a program keeps its own zlib, zstd, LZ4 and c-blosc.
#[test]
fn a_program_has_compressors_of_its_own_beside_either_library() {
    for linking in [Linking::Shared, Linking::Static] {
        let folder = folder();
        let path = folder.path().join("run.zarr");
        Program::new("tests/it/c_interface/linking.c").linked(linking).with(&["-lz"]).run(&[&path]);
        let (shape, frame) = frames(&path.join("0"));
        assert_eq!(shape, [5, 64, 64]);
        assert!((0..5).all(|number| frame(number) == vec![number as u8 + 1; 64 * 64]), "{linking:?}");
    }
}

#[test]
fn a_wholly_static_program_takes_the_exception_handler_from_elsewhere() {
    let flags = pkg_config(&["--static", "--libs", "shardwright"]);
    assert!(flags.iter().any(|flag| flag == "-lgcc_s"), "{flags:?}");
    let folder = folder();
    let path = folder.path().join("run.zarr");
    let program = Program::new("examples/c/camera_loop.c").linked(Linking::Whole);
    assert_eq!(program.run(&[&path]), EXAMPLES[0].1);
    assert_eq!(frames(&path.join("0")).0, [200, 512, 512]);
}
