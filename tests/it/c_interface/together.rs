//! Many images at once, and storages of the caller's own.

use super::building::{Program, folder};
use super::frames;

#[test]
fn a_storage_that_holds_something_is_not_written_over() {
    let folder = folder();
    Program::new("tests/it/c_interface/used.c").run(&[folder.path().join("run.zarr")]);
}

#[test]
fn an_image_can_have_what_is_said_of_the_ring_that_it_shares() {
    let folder = folder();
    Program::new("tests/it/c_interface/sharing.c").run(&[folder.path().join("two.zarr")]);
}

#[test]
fn the_images_of_a_plate_begin_and_end_together() {
    let folder = folder();
    let path = folder.path().join("plate.zarr");
    assert_eq!(Program::new("tests/it/c_interface/together.c").run(&[&path]), "1536 frames\n");
    for image in [0, 7, 383] {
        let (shape, frame) = frames(&path.join(format!("image-{image}/0")));
        assert_eq!(shape, [4, 16, 16]);
        for number in 0..4 {
            assert_eq!(frame(number), vec![(1 + (image + 31 * number) % 255) as u8; 256], "{image}, {number}");
        }
    }
}
