//! Regions that are larger than memory come in pieces, and axes come from the image's metadata.

use std::path::{Path, PathBuf};

use crate::common::stopped::finished;
use shardwright::offline::Array;
use shardwright::{Config, Dim, Dtype, Error};

fn movie(folder: &Path) -> PathBuf {
    let path = folder.join("movie.ome.zarr");
    let config = Config {
        dtype: Dtype::U16,
        dims: vec![
            Dim::time(9).chunk(2).shard(4).scale(0.5, "second"),
            Dim::channel(2),
            Dim::y(40).chunk(16).shard(32).scale(0.325, "micrometer"),
            Dim::x(50).chunk(16).shard(48).scale(0.325, "micrometer"),
        ],
        ring_bytes: 1 << 20,
        workers: 1,
        sync: false,
        ..Config::default()
    };
    finished(&path, &config, &(0..18).collect::<Vec<_>>());
    path
}

#[test]
fn pieces_together_are_the_region() {
    let folder = tempfile::tempdir().unwrap();
    let array = Array::open(movie(folder.path())).unwrap();
    let regions = [([0, 0, 0, 0], [9, 2, 40, 50]), ([1, 1, 3, 7], [7, 1, 30, 20]), ([8, 0, 39, 49], [1, 1, 1, 1])];
    for (start, shape) in regions {
        let mut expected = vec![0; shape.iter().product::<u64>() as usize * 2];
        array.read_region(&start, &shape, &mut expected).unwrap();
        for memory in [0, 3] {
            let refused = array.read_pieces(&start, &shape, memory, |_| Ok::<_, Error>(()));
            assert!(matches!(refused, Err(Error::Config { field: "memory_bytes", .. })), "{memory}: {refused:?}");
        }
        for memory in [4, 100, 5_000, 70_000, 1 << 30] {
            let mut got = Vec::new();
            let mut longest = 0;
            let take = |piece: &[u8]| {
                longest = longest.max(piece.len() as u64);
                got.extend_from_slice(piece);
                Ok::<_, Error>(())
            };
            array.read_pieces(&start, &shape, memory, take).unwrap();
            assert!(got == expected, "{start:?} {shape:?} with {memory} bytes");
            assert!(longest <= memory / 2, "a piece of {longest} bytes with {memory}");
        }
    }
}

#[test]
fn the_first_error_ends_the_reading() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path());
    let array = Array::open(&path).unwrap();
    let mut calls = 0;
    let refused = array.read_pieces(&[0; 4], &[9, 2, 40, 50], 8000, |_| {
        calls += 1;
        if calls == 3 { Err(Error::Ended) } else { Ok(()) }
    });
    assert!(matches!(refused, Err(Error::Ended)) && calls == 3);
    // Nothing of a box that reaches beyond the array is given, and none is too far.
    for (start, shape) in [([0; 4], [10, 2, 40, 50]), ([0; 4], [1, 1, 1, u64::MAX]), ([u64::MAX, 0, 0, 0], [1; 4])] {
        let take = |_: &[u8]| -> Result<(), Error> { panic!("a piece of {shape:?} from {start:?}") };
        assert!(
            array.read_pieces(&start, &shape, 8000, take).unwrap_err().to_string().contains("the array's shape is")
        );
        assert!(array.lost_within(&start, &shape).is_err());
    }
    let outside = array.read_pieces(&[0; 4], &[10, 2, 40, 50], 8000, |_| Ok::<_, Error>(()));
    assert!(matches!(outside, Err(Error::Config { field: "region", .. })));
    // A damaged chunk is an error of the piece that needs it, not of the pieces before.
    let shard = path.join("0/c/1/0/0/0");
    let mut bytes = std::fs::read(&shard).unwrap();
    bytes[80] ^= 1;
    std::fs::write(&shard, bytes).unwrap();
    let mut read = 0;
    let damaged = array.read_pieces(&[0; 4], &[9, 2, 40, 50], 40_000, |piece| {
        read += piece.len();
        Ok::<_, Error>(())
    });
    assert!(matches!(damaged, Err(Error::Format { .. })));
    assert!(read > 0 && read <= 4 * 2 * 40 * 50 * 2, "{read}");
}

#[test]
fn axes_are_what_the_image_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path());
    let axes = Array::open(&path).unwrap().axes().unwrap().unwrap();
    let names: Vec<_> = axes.iter().map(|axis| axis.name.as_str()).collect();
    assert_eq!(names, ["t", "c", "y", "x"]);
    assert_eq!((axes[0].scale, axes[0].unit.as_deref()), (0.5, Some("second")));
    assert_eq!((axes[3].scale, axes[3].unit.as_deref()), (0.325, Some("micrometer")));
    assert_eq!(Array::open(path.join("records/frame_number")).unwrap().axes().unwrap(), None);
}
