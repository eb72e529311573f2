//! Frame buffers as a program in C meets them: known up front, waited for, or its own.

use std::fs;

use super::building::{Program, folder};
use super::{column, frames};

#[test]
fn buffers_that_were_announced_are_the_ones_that_are_written() {
    let folder = folder();
    let path = folder.path().join("run.zarr");
    let output = Program::new("tests/it/c_interface/buffers.c").run(&[&path]);
    assert_eq!(output, "610 frames written, 0 missing\n");
    let (shape, frame) = frames(&path.join("0"));
    assert_eq!(shape, [610, 64, 64]);
    for number in 0..610 {
        assert!(frame(number) == vec![(number % 253) as u8; 64 * 64], "frame {number}");
    }
}

#[test]
fn interleaved_colors_become_channels() {
    let folder = folder();
    let path = folder.path().join("colors.zarr");
    Program::new("tests/it/c_interface/colors.c").run(&[&path]);
    let (shape, picture) = frames(&path.join("0"));
    assert_eq!(shape, [3, 3, 5, 7]);
    for number in 0..3 {
        let places = (0..3).flat_map(|c| (0..5).flat_map(move |y| (0..7).map(move |x| (c, y, x))));
        let values = places.map(|(c, y, x)| (10_000 * number + 100 * y + 3 * x + c) as u16);
        assert!(picture(number) == values.flat_map(u16::to_le_bytes).collect::<Vec<u8>>(), "picture {number}");
    }
}

#[test]
fn a_camera_fills_buffers_with_pictures() {
    let folder = folder();
    let path = folder.path().join("pictures.zarr");
    Program::new("tests/it/c_interface/pictures.c").run(&[&path]);
    let (shape, picture) = frames(&path.join("0"));
    assert_eq!(shape, [12, 4, 5, 7]);
    for number in 0..12 {
        let places = (0..4).flat_map(|c| (0..5).flat_map(move |y| (0..7).map(move |x| (c, y, x))));
        let values = places.map(|(c, y, x)| (1000 * number + 100 * y + 4 * x + c) as u16);
        assert!(picture(number) == values.flat_map(u16::to_le_bytes).collect::<Vec<u8>>(), "picture {number}");
    }
}

#[test]
fn a_region_stands_at_its_place() {
    let folder = folder();
    let path = folder.path().join("roi.zarr");
    Program::new("tests/it/c_interface/roi.c").run(&[&path]);
    let (shape, frame) = frames(&path.join("0"));
    assert_eq!(shape, [3, 5, 7]);
    let places = [[1, 2, 3, 4], [0, 6, 5, 1], [0, 0, 5, 7]];
    for (number, [top, left, height, width]) in (0..).zip(places) {
        let pixel = |(y, x): (u64, u64)| match (top..top + height).contains(&y) && (left..left + width).contains(&x) {
            true => (1000 * number + 100 * (y - top) + x - left) as u16,
            false => 7,
        };
        let pixels = (0..5).flat_map(|y| (0..7).map(move |x| (y, x))).map(pixel);
        assert!(frame(number) == pixels.flat_map(u16::to_le_bytes).collect::<Vec<u8>>(), "frame {number}");
    }
    for (name, at) in ["roi_y", "roi_x", "roi_height", "roi_width"].iter().zip(0..) {
        let found: Vec<u64> = column(&path.join("records").join(name)).into_iter().map(u64::from_le_bytes).collect();
        assert_eq!(found, places.map(|place| place[at]), "{name}");
    }
}

#[test]
fn a_program_that_waits_for_events_misses_none() {
    let folder = folder();
    let path = folder.path().join("run.zarr");
    assert_eq!(Program::new("tests/it/c_interface/events.c").run(&[&path]), "20000 frames\n");
    let (shape, frame) = frames(&path.join("0"));
    assert_eq!(shape, [20_000, 64, 64]);
    for number in (0..20_000).step_by(97) {
        assert!(frame(number) == vec![(number % 251) as u8 + 1; 64 * 64], "frame {number}");
    }
}

#[test]
fn buffers_of_the_callers_own_give_the_frames_that_went_in() {
    let folder = folder();
    let paths = ["one.zarr", "two.zarr", "three.zarr"].map(|name| folder.path().join(name));
    let output = Program::new("tests/it/c_interface/own_buffers.c").run(&paths.each_ref());
    assert_eq!(output, "100 frames\n");
    for path in paths {
        let (shape, frame) = frames(&path.join("0"));
        assert_eq!(shape, [100, 256, 512]);
        for number in 0..100 {
            let expected: Vec<u8> = (0..256 * 512).map(|at| (number * 7 + at % 509 + at / 4096) as u8).collect();
            assert!(frame(number) == expected, "frame {number} of {}", path.display());
        }
    }
}

#[test]
fn values_keep_all_their_digits_and_places() {
    let folder = folder();
    let path = folder.path().join("run.zarr");
    Program::new("tests/it/c_interface/values.c").run(&[&path]);
    let document = fs::read_to_string(path.join("zarr.json")).unwrap();
    let plain: String = document.split_whitespace().collect();
    assert!(plain.contains(r#""serial":{"of":[1180591620717411303425,-36893488147419103232,0.1]}"#), "{document}");
    assert!(!plain.contains("gain"), "{document}");
}
