//! Levels whose planes are halved while frames come: what a dull model makes of level 0, and what the tool makes
//! afterwards.

use std::fs;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;
use shardwright::offline::{Array, Pyramid, PyramidOptions};
use shardwright::{
    Acquisition, Config, Dataset, Depth, Dim, Downsampling, Dtype, Error, PyramidMethod, Record, RingFull,
};

use crate::common::recovered;
use crate::common::stopped::{self, commit, copy_tree, frame_bytes, sound};
use crate::common::storage::within;

fn config(dims: Vec<Dim>, downsampling: Downsampling) -> Config {
    Config {
        dtype: Dtype::U16,
        dims,
        pyramid: Some(downsampling),
        ring_bytes: 1 << 20,
        workers: 2,
        sync: false,
        ..Config::default()
    }
}

pub(crate) fn downsampling(method: PyramidMethod, levels: usize) -> Downsampling {
    Downsampling { method, levels: Some(levels), depth: Depth::Always, ..Downsampling::default() }
}

fn datasets(image: &Path) -> Value {
    let document: Value = serde_json::from_slice(&fs::read(image.join("zarr.json")).unwrap()).unwrap();
    document.pointer("/attributes/ome/multiscales/0/datasets").unwrap().clone()
}

fn open(image: &Path, level: usize) -> Array {
    let datasets = datasets(image);
    Array::open(image.join(datasets[level]["path"].as_str().unwrap())).unwrap()
}

/// Compares the levels of a run with what the tool makes of its level 0: pixels, shapes, scales, translations.
pub(crate) fn as_the_tool_makes_them(image: &Path, downsampling: &Downsampling) -> usize {
    let again = image.with_extension("again");
    copy_tree(image, &again);
    let options = PyramidOptions {
        method: Some(downsampling.method),
        levels: downsampling.levels,
        y: downsampling.y,
        x: downsampling.x,
        depth: downsampling.depth,
        overwrite: true,
        workers: 1,
        sync: false,
        ..PyramidOptions::default()
    };
    Pyramid::new(&again, &options).unwrap().run().unwrap();
    let (live, made) = (datasets(image), datasets(&again));
    let (live, made) = (live.as_array().unwrap(), made.as_array().unwrap());
    assert!(live == made, "{live:?}, and the tool makes {made:?}");
    let count = made.len() - 1;
    for level in 1..=count {
        let (got, expected) = (open(image, level), open(&again, level));
        assert_eq!(got.shape(), expected.shape(), "level {level}");
        assert!(got.read_all().unwrap() == expected.read_all().unwrap(), "level {level} holds other pixels");
    }
    fs::remove_dir_all(again).unwrap();
    count
}

/// All pixels of an array of u16 whose last three dimensions are of space, and its shape: stacks, z, y, x.
fn volume(array: &Array) -> (Vec<u16>, [usize; 4]) {
    let shape: Vec<usize> = array.shape().iter().map(|&length| length as usize).collect();
    let (stacks, space) = shape.split_at(shape.len() - 3);
    let bytes = array.read_all().unwrap();
    let (pixels, _) = bytes.as_chunks::<2>();
    let pixels = pixels.iter().map(|pixel| u16::from_le_bytes(*pixel)).collect();
    (pixels, [stacks.iter().product(), space[0], space[1], space[2]])
}

/// What the pixels that are there become.
fn one(mut pixels: Vec<u16>, method: PyramidMethod) -> u16 {
    let first = pixels[0];
    pixels.sort_unstable();
    let (count, half) = (pixels.len(), pixels.len() / 2);
    let up = |sum: u32, count: u32| ((2 * sum + count) / (2 * count)) as u16;
    let often = |value: &u16| pixels.iter().filter(|other| *other == value).count();
    match method {
        PyramidMethod::Mean => up(pixels.iter().map(|&pixel| u32::from(pixel)).sum(), count as u32),
        PyramidMethod::Median if count == 1 => first,
        PyramidMethod::Median => up(u32::from(pixels[half - 1]) + u32::from(pixels[half]), 2),
        PyramidMethod::Min => pixels[0],
        PyramidMethod::Max => pixels[count - 1],
        PyramidMethod::Decimate => first,
        _ => *pixels.iter().rev().max_by_key(|value| often(value)).unwrap(),
    }
}

/// Compares each level with what the model makes of the one before, halved in every direction that is longer than one.
fn as_the_model_makes_them(image: &Path, method: PyramidMethod) -> usize {
    let count = datasets(image).as_array().unwrap().len() - 1;
    for level in 1..=count {
        let (fine, [stacks, depth, rows, columns]) = volume(&open(image, level - 1));
        let (got, shape) = volume(&open(image, level));
        let half = |length: usize| length.div_ceil(2);
        assert_eq!(shape, [stacks, half(depth), half(rows), half(columns)], "level {level}");
        let mut expected = Vec::new();
        for stack in 0..stacks {
            for (z, y) in (0..half(depth)).flat_map(|z| (0..half(rows)).map(move |y| (z, y))) {
                for x in 0..half(columns) {
                    let mut pixels = Vec::new();
                    for z in 2 * z..depth.min(2 * z + 2) {
                        for y in 2 * y..rows.min(2 * y + 2) {
                            for x in 2 * x..columns.min(2 * x + 2) {
                                pixels.push(fine[((stack * depth + z) * rows + y) * columns + x]);
                            }
                        }
                    }
                    expected.push(one(pixels, method));
                }
            }
        }
        assert!(got == expected, "level {level} is not made of the one before");
    }
    count
}

/// Runs through what is written, in a folder of its own.
fn run(config: &Config, numbers: &[u64], look: impl FnOnce(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ome.zarr");
    let (to, of, numbers) = (path.clone(), config.clone(), numbers.to_vec());
    within(120, move || {
        let acquisition = Acquisition::create(&to, of.clone()).unwrap();
        numbers.iter().for_each(|&number| commit(&acquisition, &of, number));
        acquisition.finish().unwrap();
    });
    look(&path);
}

#[derive(Debug, Clone)]
pub(crate) struct Case {
    stack: [u64; 3],
    chunk: u64,
    shard: u64,
    frame: [u64; 2],
    order: usize,
    method: PyramidMethod,
    pub(crate) dtype: Dtype,
    /// Of each number: whether it comes.
    came: Vec<bool>,
    /// Neighbours that change places.
    swapped: Vec<bool>,
}

pub(crate) fn case() -> impl Strategy<Value = Case> {
    let stack = (1u64..4, 1u64..3, 1u64..8).prop_map(|(times, channels, planes)| [times, channels, planes]);
    let frames = prop::collection::vec(prop::bool::weighted(0.85), 1..60);
    let swapped = prop::collection::vec(prop::bool::weighted(0.2), 60);
    let kinds = (prop::sample::select(PyramidMethod::ALL), prop::sample::select(Dtype::ALL));
    (stack, (1u64..6, 1u64..3), (1u64..14, 1u64..14), 0usize..4, kinds, frames, swapped).prop_map(
        |(stack, (chunk, chunks), (rows, columns), order, (method, dtype), came, swapped)| Case {
            stack,
            chunk,
            shard: chunk * chunks,
            frame: [rows, columns],
            order,
            method,
            dtype,
            came,
            swapped,
        },
    )
}

impl Case {
    pub(crate) fn config(&self) -> Config {
        let [_, channels, planes] = self.stack;
        let [rows, columns] = self.frame;
        let mut z = Dim::z(planes).chunk(self.chunk).shard(self.shard);
        // Where z is the slowest, it may go on for as long as frames come.
        let (first, order): (Vec<Dim>, &[&str]) = match self.order {
            0 => (vec![Dim::time(None), Dim::channel(channels)], &["t", "c", "z"]),
            1 => (vec![Dim::time(None), Dim::channel(channels)], &["t", "z", "c"]),
            2 => (vec![Dim::time(Some(self.stack[0])), Dim::channel(channels)], &["z", "t", "c"]),
            _ => {
                z.size = None;
                (vec![], &["z"])
            }
        };
        let dims = [first, vec![z.scale(2.5, "micrometer"), Dim::y(rows), Dim::x(columns)]].concat();
        let acquisition_order = order.iter().map(|&name| name.to_owned()).collect();
        Config { dtype: self.dtype, acquisition_order, ..config(dims, downsampling(self.method, 3)) }
    }

    pub(crate) fn numbers(&self) -> Vec<u64> {
        let [times, channels, planes] = self.stack;
        let end = if self.order == 2 { times * channels * planes } else { u64::MAX };
        let mut numbers: Vec<u64> =
            (0..).zip(&self.came).filter(|(_, came)| **came).map(|(number, _)| number).collect();
        numbers.retain(|&number| number < end);
        for at in 1..numbers.len() {
            if self.swapped[at] {
                numbers.swap(at - 1, at);
            }
        }
        numbers
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_run_has_the_levels_that_the_tool_makes_of_it(case in case()) {
        let (config, numbers) = (case.config(), case.numbers());
        prop_assume!(!numbers.is_empty());
        run(&config, &numbers, |path| {
            as_the_tool_makes_them(path, config.pyramid.as_ref().unwrap());
            if config.dtype == Dtype::U16 {
                as_the_model_makes_them(path, case.method);
            }
            sound(path);
        });
    }
}

#[test]
fn each_method_makes_what_the_model_makes() {
    for &method in PyramidMethod::ALL {
        for (planes, deep) in [(5, 1), (7, 2), (6, 3), (2, 4)] {
            let dims = vec![
                Dim::time(None),
                Dim::z(planes).chunk(deep).shard(2 * deep),
                Dim::y(13).chunk(4).shard(8),
                Dim::x(7).chunk(5),
            ];
            let config = config(dims, downsampling(method, 3));
            let numbers: Vec<u64> = (0..3 * planes - 1).filter(|number| ![2, 8, 9].contains(number)).collect();
            run(&config, &numbers, |path| {
                assert_eq!(as_the_model_makes_them(path, method), 3);
                as_the_tool_makes_them(path, config.pyramid.as_ref().unwrap());
                sound(path);
            });
        }
    }
}

#[test]
fn planes_are_halved_once_they_are_no_further_apart_than_pixels() {
    let downsampling = Downsampling { depth: Depth::Auto, ..downsampling(PyramidMethod::Mean, 3) };
    let y_and_x = [Dim::y(32).scale(0.5, "micrometer"), Dim::x(32).scale(0.5, "micrometer")];
    let dims = [vec![Dim::time(None), Dim::z(9).scale(1.0, "micrometer")], y_and_x.to_vec()].concat();
    let config = config(dims, downsampling.clone());
    run(&config, &(0..18).collect::<Vec<_>>(), |path| {
        let shapes: Vec<_> = (1..=3).map(|level| open(path, level).shape().to_vec()).collect();
        assert_eq!(shapes, [[2, 9, 16, 16], [2, 5, 8, 8], [2, 3, 4, 4]]);
        as_the_tool_makes_them(path, &downsampling);
        let second = &datasets(path)[2]["coordinateTransformations"];
        // Planes 0 and 1 stand at 0 and 1, pixels 0 to 3 at 0, 0.5, 1 and 1.5.
        assert_eq!(second[0]["scale"], serde_json::json!([1.0, 2.0, 2.0, 2.0]));
        assert_eq!(second[1]["translation"], serde_json::json!([0.0, 0.5, 0.75, 0.75]));
    });
}

#[test]
fn the_smallest_ring_keeps_nobody_waiting_for_ever() {
    for (deep, channels) in [(1, 1), (3, 1), (3, 2), (4, 2)] {
        let span = if deep == 1 { 1 } else { deep * channels };
        let dims = vec![Dim::time(None), Dim::channel(channels), Dim::z(9).chunk(deep), Dim::y(40), Dim::x(40)];
        let acquisition_order = ["t", "z", "c"].map(String::from).to_vec();
        let ring_bytes = (span as usize + 2) * 4096;
        let config =
            Config { ring_bytes, acquisition_order, workers: 1, ..config(dims, downsampling(PyramidMethod::Max, 3)) };
        let numbers: Vec<u64> = (0..150).filter(|number| number % 11 != 5 && !(60..80).contains(number)).collect();
        run(&config, &numbers, |path| assert_eq!(as_the_model_makes_them(path, PyramidMethod::Max), 3));
    }
}

#[test]
fn images_that_are_visited_plane_by_plane_have_levels_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.ome.zarr");
    let dataset = Dataset::create(&path).unwrap();
    for deep in [1, 3] {
        let dims = vec![Dim::time(None), Dim::z(7).chunk(deep), Dim::y(20), Dim::x(20)];
        let config = Config { ring_bytes: 12 * 4096, ..config(dims, downsampling(PyramidMethod::Min, 2)) };
        let names: Vec<String> = (0..9).map(|at| format!("image-{deep}-{at}")).collect();
        let (dataset, of, named) = (dataset.clone(), config.clone(), names.clone());
        within(120, move || {
            let images: Vec<_> = named.iter().map(|name| dataset.acquisition(name, of.clone()).unwrap()).collect();
            for number in (0..33).filter(|number| number % 10 != 4) {
                images.iter().for_each(|image| commit(image, &of, number));
            }
            images.into_iter().for_each(|image| drop(image.finish().unwrap()));
        });
        for name in names {
            assert_eq!(as_the_model_makes_them(&path.join(name), PyramidMethod::Min), 2);
        }
    }
    drop(dataset);
    sound(&path);
}

#[test]
fn a_run_that_was_stopped_is_recovered_with_its_levels() {
    for deep in [1, 2, 3] {
        let dims = vec![Dim::time(None), Dim::z(5).chunk(deep), Dim::y(16), Dim::x(16)];
        let config =
            Config { checkpoint_every: Duration::from_millis(20), ..config(dims, downsampling(PyramidMethod::Max, 2)) };
        let folder = tempfile::tempdir().unwrap();
        let numbers: Vec<u64> = (0..20).filter(|number| *number != 8).collect();
        // The layer that lacks a frame waits for it.
        let path = stopped::stopped(folder.path(), &config, &numbers, if deep == 1 { 19 } else { 18 });
        // With it, all of the second time point's first planes.
        fs::remove_file(path.join("0/c/1/0/0/0")).unwrap();
        let found = recovered(&path, true).unwrap();
        let ends: Vec<u64> = found.images.iter().map(|image| image.frames).collect();
        assert_eq!(ends, [20, 12, 8], "{deep}");
        for (level, image) in found.images.iter().enumerate() {
            assert_eq!(image.shape[0], 4);
            let (got, [_, planes, rows, columns]) = volume(&open(&path, level));
            let frames = got.chunks(rows * columns).enumerate();
            let dark = frames.filter(|(_, frame)| frame.iter().all(|&pixel| pixel == 0)).map(|(at, _)| at as u64);
            let missing: Vec<u64> = image.missing.iter().cloned().flatten().collect();
            assert_eq!(dark.collect::<Vec<_>>(), missing, "level {level} of {planes} planes, chunks of {deep}");
        }
        sound(&path);
        assert!(!recovered(&path, true).unwrap().is_needed());
    }
}

#[test]
fn a_camera_that_packs_and_turns_gets_the_same_levels() {
    let downsampling = downsampling(PyramidMethod::Mean, 2);
    let orientation = shardwright::Orientation { transpose: true, flip: shardwright::Flip::Rows };
    let pixel_format = shardwright::PixelFormat::Mono12p;
    for deep in [1, 2] {
        let dims = vec![Dim::time(None), Dim::z(5).chunk(deep), Dim::y(12), Dim::x(20)];
        let config =
            Config { pixel_format, orientation, ring_full: RingFull::Error, ..config(dims, downsampling.clone()) };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.ome.zarr");
        let acquisition = Acquisition::create(&path, config).unwrap();
        for number in 0..10 {
            let mut frame = acquisition.acquire().unwrap();
            frame.copy_from_slice(&crate::common::frame(number, acquisition.frame_bytes()));
            frame.commit(number, Record::default()).unwrap();
        }
        acquisition.finish().unwrap();
        assert_eq!(as_the_model_makes_them(&path, PyramidMethod::Mean), 2);
    }
}

#[test]
fn planes_that_are_too_far_apart_are_refused() {
    let dims = vec![Dim::time(Some(1000)), Dim::z(4), Dim::y(16), Dim::x(16)];
    let order = ["z", "t"].map(String::from).to_vec();
    let config = Config {
        acquisition_order: order,
        ring_bytes: 100 * 4096,
        ..config(dims, downsampling(PyramidMethod::Max, 1))
    };
    let folder = tempfile::tempdir().unwrap();
    let error = Acquisition::create(folder.path().join("run"), config.clone()).unwrap_err();
    assert!(matches!(error, Error::Config { field: "pyramid.depth", .. }), "{error}");
    assert!(error.to_string().contains("1000 frames lie between a plane and the next"), "{error}");
    assert_eq!(frame_bytes(&config), 512);
}
