//! What a run was to replace comes back when the run ends without a frame, however it ends.

use std::fs;

use crate::common::stopped::{commit, files, finished};
use crate::common::tiny;
use shardwright::offline::Array;
use shardwright::{Acquisition, Config, Dataset, ManifestForm, Summary};

const NOTE: &str = "no frame came, so the dataset that it was to replace is back";

fn config() -> Config {
    Config { overwrite: true, ..tiny(None, 8) }
}

fn told(summary: &Summary) -> Vec<&String> {
    assert_eq!(summary.frames_accepted, 0);
    summary.notes.iter().filter(|note| note.contains("replace")).collect()
}

#[test]
fn by_finish_as_by_abort() {
    for name in ["run.zarr", "run.ozx"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let manifest = if name == "run.zarr" { vec![ManifestForm::Kerchunk] } else { Vec::new() };
        let config = Config { manifest, ..config() };
        finished(&path, &config, &[0, 1, 2, 3, 4]);
        let before = files(folder.path());
        let empty = || Acquisition::create(&path, config.clone()).unwrap();
        let summary = empty().finish().unwrap();
        assert_eq!((told(&summary), &summary.shape[..]), (vec![&NOTE.to_owned()], &[0, 16, 16][..]), "{name}");
        assert!(files(folder.path()) == before, "{name}: finish");
        for ended in Acquisition::finish_all(vec![empty()]) {
            assert_eq!(told(&ended.unwrap()), [NOTE], "{name}");
        }
        assert!(files(folder.path()) == before, "{name}: finish_all");
        empty().abort();
        assert!(files(folder.path()) == before, "{name}: abort");
        // One frame suffices.
        let run = empty();
        commit(&run, &config, 0);
        assert!(!run.finish().unwrap().notes.iter().any(|note| note == NOTE));
        assert_eq!(Array::open(&path).unwrap().shape(), [1, 16, 16], "{name}");
    }
}

#[test]
fn at_a_key_of_a_hierarchy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lab.zarr");
    let config = Config { key: Some("day/left".into()), ..config() };
    finished(&path, &config, &[0, 1, 2]);
    let before = files(&path);
    assert_eq!(told(&Acquisition::create(&path, config).unwrap().finish().unwrap()), [NOTE]);
    assert!(files(&path) == before);
}

#[test]
fn of_several_images_when_none_got_a_frame() {
    for (name, together) in [("run.zarr", false), ("run.zarr", true), ("run.ozx", false)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        finished(&path, &config(), &[0, 1, 2]);
        let before = files(folder.path());
        for images in 1..=2 {
            let dataset = Dataset::create_or_replace(&path).unwrap();
            let begin = |name: &&str| dataset.acquisition(name, tiny(None, 8)).unwrap();
            let runs: Vec<_> = ["left", "right"][..images].iter().map(begin).collect();
            drop(dataset);
            let ended = match together {
                true => Acquisition::finish_all(runs),
                false => runs.into_iter().map(Acquisition::finish).collect(),
            };
            for summary in ended {
                assert_eq!(
                    told(&summary.unwrap()),
                    ["no frame came; where none comes to another image either, the \
                    dataset that these were to replace is back"]
                );
            }
            assert!(files(folder.path()) == before, "{name}, {images} images");
        }
    }
}

#[test]
fn not_where_another_image_gets_one() {
    for left_ends_first in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zarr");
        finished(&path, &config(), &[0, 1, 2]);
        let dataset = Dataset::create_or_replace(&path).unwrap();
        let [left, right] = ["left", "right"].map(|name| dataset.acquisition(name, tiny(None, 8)).unwrap());
        drop(dataset);
        let mut left = Some(left);
        let mut end_left = |first| {
            let run = left.take_if(|_| first == left_ends_first);
            run.map(|run| run.finish().unwrap())
        };
        let first = end_left(true);
        commit(&right, &tiny(None, 8), 0);
        right.finish().unwrap();
        if let Some(summary) = end_left(false) {
            assert!(told(&summary).is_empty(), "it is known by now that it stays");
        }
        assert_eq!(first.is_some(), left_ends_first);
        let read = |image: &str| Array::open(path.join(image)).unwrap().shape().to_vec();
        assert_eq!((read("left"), read("right")), (vec![0, 16, 16], vec![1, 16, 16]));
        let document: serde_json::Value =
            serde_json::from_slice(&fs::read(path.join("left/zarr.json")).unwrap()).unwrap();
        assert_eq!(document["attributes"]["shardwright"]["complete"], true);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
