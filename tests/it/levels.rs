//! Levels that are written while frames come: they are what a dull model makes of level 0, whatever becomes of the run.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::common::storage::within;
use crate::common::{recovered, stopped, zip};
use serde_json::Value;
use shardwright::offline::{Array, Repack, RepackOptions};
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dataset, Dialect, Dim, Downsampling, Dtype, Flip, Orientation, PixelFormat,
    PyramidMethod, Record, RingFull,
};
use stopped::{commit, files, frame_bytes, sound};

/// One plane of u16 pixels, its rows and columns.
type Plane = (Vec<u16>, [usize; 2]);

/// What four pixels become; at an edge they are fewer.
fn one(pixels: &[u16], method: PyramidMethod) -> u16 {
    let mut sorted = pixels.to_vec();
    sorted.sort_unstable();
    let (count, half) = (sorted.len() as u32, sorted.len() / 2);
    let sum: u32 = sorted.iter().map(|&pixel| u32::from(pixel)).sum();
    let often = |value: &u16| sorted.iter().filter(|other| *other == value).count();
    match method {
        PyramidMethod::Mean => ((2 * sum + count) / (2 * count)) as u16,
        PyramidMethod::Median if count == 1 => sorted[0],
        PyramidMethod::Median => (u32::from(sorted[half - 1]) + u32::from(sorted[half])).div_ceil(2) as u16,
        PyramidMethod::Min => sorted[0],
        PyramidMethod::Max => sorted[sorted.len() - 1],
        PyramidMethod::Decimate => pixels[0],
        _ => *sorted.iter().rev().max_by_key(|value| often(value)).unwrap(),
    }
}

/// A plane at half the size in the directions that are asked for.
fn halved((pixels, [rows, columns]): &Plane, downsampling: &Downsampling) -> Plane {
    let step = |is_halved: bool| if is_halved { 2 } else { 1 };
    let [down, right] = [step(downsampling.y), step(downsampling.x)];
    let shape = [rows.div_ceil(down), columns.div_ceil(right)];
    if pixels.iter().all(|&pixel| pixel == 0) {
        return (vec![0; shape[0] * shape[1]], shape);
    }
    let mut out = Vec::new();
    for (y, x) in (0..shape[0]).flat_map(|y| (0..shape[1]).map(move |x| (y, x))) {
        let ys = (y * down..(y * down + down).min(*rows))
            .flat_map(|y| (x * right..(x * right + right).min(*columns)).map(move |x| pixels[y * columns + x]));
        out.push(one(&ys.collect::<Vec<_>>(), downsampling.method));
    }
    (out, shape)
}

/// The frames of an array, one after another; of the slowest dimension, this many places.
fn frames(array: &Array, places: u64) -> Vec<Plane> {
    let [.., rows, columns] = array.shape()[..] else { panic!("an image") };
    let mut shape = array.shape().to_vec();
    shape[0] = shape[0].min(places);
    let mut pixels = vec![0; 2 * shape.iter().product::<u64>() as usize];
    array.read_region(&vec![0; shape.len()], &shape, &mut pixels).unwrap();
    let (pixels, _) = pixels.as_chunks::<2>();
    let pixels: Vec<u16> = pixels.iter().map(|pixel| u16::from_le_bytes(*pixel)).collect();
    pixels.chunks((rows * columns) as usize).map(|plane| (plane.to_vec(), [rows as usize, columns as usize])).collect()
}

fn is_dark((pixels, _): &Plane) -> bool {
    pixels.iter().all(|&pixel| pixel == 0)
}

/// The paths of the levels, level 0 first, as the image's document has them.
fn paths(image: &Path) -> Vec<String> {
    let document: Value = serde_json::from_slice(&zip::read(image, "zarr.json")).unwrap();
    let datasets = document.pointer("/attributes/ome/multiscales/0/datasets").and_then(Value::as_array).unwrap();
    datasets.iter().map(|dataset| dataset["path"].as_str().unwrap().to_owned()).collect()
}

/// Compares each level with what the model makes of level 0. `whole`: each frame must be there that level 0 has; else
/// chunks of it may also be missing. Returns how many levels there are.
pub(crate) fn compare(image: &Path, downsampling: &Downsampling, whole: bool) -> usize {
    compare_places(image, downsampling, &|_| whole, u64::MAX)
}

/// As [`compare`], of this many places of the slowest dimension: an array may be declared for far more than came.
/// `whole`: of each frame.
pub(crate) fn compare_places(
    image: &Path,
    downsampling: &Downsampling,
    whole: &dyn Fn(u64) -> bool,
    places: u64,
) -> usize {
    let paths = paths(image);
    let finest = Array::open(image.join(&paths[0])).unwrap();
    let mut expected = frames(&finest, places);
    for path in &paths[1..] {
        let level = Array::open(image.join(path)).unwrap();
        let outer = finest.shape().len() - 2;
        assert_eq!(level.shape()[..outer], finest.shape()[..outer], "{path}");
        for (number, (got, below)) in frames(&level, places).iter().zip(&mut expected).enumerate() {
            let is_missing_below = is_dark(below);
            *below = halved(below, downsampling);
            let is_left_out = !whole(number as u64)
                && got.1 == below.1
                && got.0.iter().zip(&below.0).all(|(&a, &b)| a == 0 || a == b);
            assert!(is_left_out || got == below, "frame {number} of level {path} is not made of the one below");
            assert!(!is_missing_below || is_dark(got), "level {path} has frame {number}, which level 0 lacks");
        }
    }
    paths.len() - 1
}

fn config(dims: Vec<Dim>, downsampling: Downsampling) -> Config {
    Config {
        dtype: Dtype::U16,
        dims,
        pyramid: Some(downsampling),
        codec: Codec::from(Compressor::default()),
        ring_bytes: 1 << 20,
        workers: 2,
        sync: false,
        ..Config::default()
    }
}

fn downsampling(method: PyramidMethod, levels: usize) -> Downsampling {
    Downsampling { method, levels: Some(levels), ..Downsampling::default() }
}

#[test]
fn each_method_makes_what_the_model_makes() {
    for (at, &method) in PyramidMethod::ALL.iter().enumerate() {
        let downsampling = Downsampling { y: at != 2, x: at != 3, ..downsampling(method, 4) };
        let deep = 1 + at as u64 % 3;
        let dims = vec![Dim::time(None).chunk(deep).shard(6), Dim::y(37).chunk(16), Dim::x(23).chunk(9).shard(18)];
        let config = config(dims, downsampling.clone());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.ome.zarr");
        let acquisition = Acquisition::create(&path, config.clone()).unwrap();
        // Some come out of order, and some never.
        for number in [1, 0, 2, 3, 5, 7, 6, 8, 9, 10, 11, 12, 20, 19, 21] {
            commit(&acquisition, &config, number);
        }
        let summary = acquisition.finish().unwrap();
        assert_eq!(summary.frames_missing, 7, "{method}");
        assert_eq!(compare(&path, &downsampling, true), 4, "{method}");
        assert_eq!(summary.levels.iter().map(|level| level.path.as_str()).collect::<Vec<_>>(), ["1", "2", "3", "4"]);
        for level in &summary.levels {
            assert_eq!(Array::open(path.join(&level.path)).unwrap().shape(), level.shape);
            assert!(level.chunks_written > 0 && level.shards > 0 && level.bytes_out > 0);
        }
        sound(&path);
    }
}

#[test]
fn chunks_that_fill_in_turn_become_levels_in_any_order() {
    let downsampling = downsampling(PyramidMethod::Mean, 2);
    let dims = vec![Dim::time(None), Dim::channel(2), Dim::z(6).chunk(4).shard(8), Dim::y(9), Dim::x(11)];
    let order = ["t", "z", "c"].map(String::from).to_vec();
    let config = Config { acquisition_order: order, workers: 3, ..config(dims, downsampling.clone()) };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ome.zarr");
    let acquisition = Acquisition::create(&path, config.clone()).unwrap();
    let missing = [3, 12, 13, 14, 40];
    (0..45).filter(|number| !missing.contains(number)).for_each(|number| commit(&acquisition, &config, number));
    acquisition.finish().unwrap();
    assert_eq!(compare(&path, &downsampling, true), 2);
    sound(&path);
}

#[test]
fn the_smallest_ring_keeps_nobody_waiting_for_ever() {
    for deep in [1, 4] {
        let downsampling = downsampling(PyramidMethod::Max, 3);
        let dims = vec![Dim::time(None).chunk(deep).shard(8), Dim::y(40).chunk(20), Dim::x(40)];
        let config =
            Config { ring_bytes: (deep as usize + 2) * 4096, workers: 1, ..config(dims, downsampling.clone()) };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.ome.zarr");
        let run = (path.clone(), config.clone());
        within(120, move || {
            let (path, config) = run;
            let acquisition = Acquisition::create(path, config.clone()).unwrap();
            (0..100).filter(|number| number % 9 != 5).for_each(|number| commit(&acquisition, &config, number));
            acquisition.finish().unwrap();
        });
        assert_eq!(compare(&path, &downsampling, true), 3);
    }
}

#[test]
fn an_aborted_run_leaves_no_level_ahead_of_level_0() {
    let downsampling = downsampling(PyramidMethod::Median, 2);
    let dims = vec![Dim::time(None).chunk(2).shard(8), Dim::y(64).chunk(32), Dim::x(64)];
    let config = config(dims, downsampling.clone());
    let folder = tempfile::tempdir().unwrap();
    for frames in [0, 1, 37, 200] {
        let path = folder.path().join(format!("run-{frames}.ome.zarr"));
        let acquisition = Acquisition::create(&path, config.clone()).unwrap();
        (0..frames).for_each(|number| commit(&acquisition, &config, number));
        acquisition.abort();
        assert_eq!(path.exists(), frames > 0);
        if frames > 0 {
            compare(&path, &downsampling, false);
            recovered(&path, true).unwrap();
            compare(&path, &downsampling, false);
            sound(&path);
        }
    }
}

#[test]
fn a_recovery_lets_no_level_have_what_level_0_lost() {
    for deep in [1, 3] {
        let downsampling = downsampling(PyramidMethod::Decimate, 2);
        let dims = vec![Dim::time(None).chunk(deep).shard(6), Dim::y(16), Dim::x(16)];
        let config = Config { checkpoint_every: Duration::from_millis(20), ..config(dims, downsampling.clone()) };
        let folder = tempfile::tempdir().unwrap();
        let numbers: Vec<u64> = (0..18).filter(|number| *number != 4).collect();
        // The layer that lacks a frame waits for it.
        let path = stopped::stopped(folder.path(), &config, &numbers, if deep == 1 { 17 } else { 15 });
        fs::remove_file(path.join("0/c/1/0/0")).unwrap();
        let found = recovered(&path, true).unwrap();
        let named: Vec<_> = found.images.iter().map(|image| image.path.as_str()).collect();
        assert_eq!(named, ["0", "1", "2"]);
        for image in &found.images {
            assert_eq!((image.frames, &image.shape[0]), (18, &18), "{}", image.path);
            assert!((6..12).all(|number| image.missing.iter().any(|range| range.contains(&number))), "{image:?}");
        }
        assert!(found.images[1].chunks_ahead > 0 && found.images[1].chunks_dropped == 0);
        sound(&path);
        compare(&path, &downsampling, true);
        let after = files(&path);
        assert!(!recovered(&path, true).unwrap().is_needed());
        assert!(files(&path) == after);
    }
}

/// Its levels are the only copy that is left of what level 0 lost since.
#[test]
fn a_recovery_takes_nothing_from_levels_of_a_run_that_came_to_its_end() {
    let dims = vec![Dim::time(None).chunk(2).shard(6), Dim::y(16), Dim::x(16)];
    let config = config(dims, downsampling(PyramidMethod::Mean, 2));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let acquisition = Acquisition::create(&path, config.clone()).unwrap();
    (0..12).for_each(|number| commit(&acquisition, &config, number));
    acquisition.finish().unwrap();
    fs::remove_file(path.join("0/c/0/0/0")).unwrap();
    let before = files(&path);
    let found = recovered(&path, true).unwrap();
    assert!(!found.is_needed() && files(&path) == before, "{found:#?}");
    assert!(found.images[0].lost.is_some() && found.images[0].frames_missing == 6, "{found:#?}");
    assert!(found.images[1..].iter().all(|level| level.frames_missing == 0 && level.lost.is_none()), "{found:#?}");

    // Damage to level 0 and to a level costs each what is its own, and the next recovery finds nothing to do.
    let damage = |shard: &str| {
        let mut bytes = fs::read(path.join(shard)).unwrap();
        let at = (0..bytes.len()).find(|&at| bytes[at..].starts_with(b"SWc1")).unwrap();
        bytes[at + 70] ^= 1;
        fs::write(path.join(shard), bytes).unwrap();
    };
    damage("0/c/1/0/0");
    damage("1/c/0/0/0");
    let found = recovered(&path, true).unwrap();
    let dropped: Vec<_> = found.images.iter().map(|image| (image.chunks_dropped, image.chunks_ahead)).collect();
    assert_eq!(dropped, [(1, 0), (1, 0), (0, 0)]);
    let missing: Vec<_> = found.images.iter().flat_map(|image| image.missing.clone()).collect();
    assert_eq!(missing, [0..8, 0..2]);
    let after = files(&path);
    assert!(!recovered(&path, true).unwrap().is_needed() && files(&path) == after);
    sound(&path);
}

/// It has no records beside it, so nothing may be left that promises these.
#[test]
fn a_level_that_becomes_an_image_by_itself_is_sound() {
    let dims = vec![Dim::time(None).chunk(2).shard(8), Dim::y(32).chunk(16), Dim::x(32)];
    let config = config(dims, downsampling(PyramidMethod::Mean, 1));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ome.zarr");
    let acquisition = Acquisition::create(&path, config.clone()).unwrap();
    [0, 1, 3, 4].into_iter().for_each(|number| commit(&acquisition, &config, number));
    acquisition.finish().unwrap();
    for &dialect in Dialect::ALL {
        let compressor = if dialect == Dialect::Precomputed { Compressor::None } else { Compressor::default() };
        let codec = Some(Codec { compressor, checksum: false });
        let options = RepackOptions { dialect: Some(dialect), codec, sync: false, ..RepackOptions::default() };
        let out = folder.path().join(dialect.name());
        Repack::new(path.join("1"), Some(&out), &options).unwrap().run().unwrap();
        sound(&out);
    }
}

#[test]
fn images_of_a_dataset_have_levels_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("both.ome.zarr");
    let dataset = Dataset::create(&path).unwrap();
    let dims = |side| vec![Dim::time(None), Dim::y(side), Dim::x(side + 3)];
    let (left_levels, right_levels) = (downsampling(PyramidMethod::Mean, 2), downsampling(PyramidMethod::Min, 1));
    let (left, right) = (config(dims(30), left_levels.clone()), config(dims(17), right_levels.clone()));
    let first = dataset.acquisition("left", left.clone()).unwrap();
    let second = dataset.acquisition("right", right.clone()).unwrap();
    for number in 0..20 {
        commit(&first, &left, number);
        commit(&second, &right, number);
    }
    first.finish().unwrap();
    second.finish().unwrap();
    drop(dataset);
    assert_eq!(compare(&path.join("left"), &left_levels, true), 2);
    assert_eq!(compare(&path.join("right"), &right_levels, true), 1);
    sound(&path);
}

#[test]
fn a_camera_that_pads_its_rows_gets_the_same_levels() {
    let downsampling = downsampling(PyramidMethod::Mean, 1);
    let dims = vec![Dim::time(None), Dim::y(10), Dim::x(7)];
    let layout = shardwright::FrameLayout { buffer_bytes: 32 + 10 * 24, offset: 32, row_stride: 24 };
    let config =
        Config { frame_layout: Some(layout), ring_full: RingFull::Error, ..config(dims, downsampling.clone()) };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ome.zarr");
    let acquisition = Acquisition::create(&path, config.clone()).unwrap();
    for number in 0..5 {
        let mut frame = acquisition.acquire().unwrap();
        frame.fill(0xEE);
        let pixels = crate::common::frame(number, frame_bytes(&config));
        for (row, pixels) in pixels.chunks(14).enumerate() {
            frame[32 + row * 24..][..14].copy_from_slice(pixels);
        }
        frame.commit(number, Record::default()).unwrap();
    }
    acquisition.finish().unwrap();
    compare(&path, &downsampling, true);
}

#[test]
fn pixels_that_a_camera_packs_or_turns_are_unpacked_for_levels() {
    let downsampling = downsampling(PyramidMethod::Max, 2);
    let turned = Orientation { transpose: true, flip: Flip::Rows };
    for (format, orientation) in [
        (PixelFormat::Mono12p, Orientation::default()),
        (PixelFormat::BigEndian, turned),
        (PixelFormat::Mono10Packed, turned),
        (PixelFormat::Plain, turned),
    ] {
        let dims = vec![Dim::time(None).chunk(2), Dim::y(12), Dim::x(20).chunk(8)];
        let config = Config { pixel_format: format, orientation, ..config(dims, downsampling.clone()) };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.ome.zarr");
        let acquisition = Acquisition::create(&path, config).unwrap();
        for number in 0..5 {
            let mut frame = acquisition.acquire().unwrap();
            frame.copy_from_slice(&crate::common::frame(number, acquisition.frame_bytes()));
            frame.commit(number, Record::default()).unwrap();
        }
        acquisition.finish().unwrap();
        assert!(frames(&Array::open(path.join("0")).unwrap(), 5).iter().all(|plane| !is_dark(plane)));
        assert_eq!(compare(&path, &downsampling, true), 2, "{format:?}");
    }
}
