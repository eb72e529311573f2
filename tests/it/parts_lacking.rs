//! Runs in parts of which something is not there: what is said of it, and what is refused.

use std::fs;
use std::slice;

use shardwright::offline::{FinishParts, FinishPartsOptions, PartsFinished, Pyramid, PyramidOptions};
use shardwright::{Acquisition, Config, Dataset, Error, Part, PartBy, create_parts};

use crate::common::checked;
use crate::parts::{config, finished, numbers, refusal, two_ended, write};

fn without(path: &std::path::Path) -> PartsFinished {
    FinishParts::new(path, &FinishPartsOptions { incomplete: true }).unwrap().run().unwrap()
}

/// Four parts, each with one row of shards of the 32 frames that are planned.
#[test]
fn frames_of_a_part_that_never_came_are_missing_up_to_the_planned_end() {
    let folder = tempfile::tempdir().unwrap();
    let planned = config(Some(16));
    let part = |index| Some(Part { index, of: 4, by: PartBy::Time });
    let all: Vec<u64> = (0..32).collect();
    for absent in 0..4 {
        let path = folder.path().join(format!("{absent}.zarr"));
        create_parts(&path, planned.clone(), 4, PartBy::Time).unwrap();
        for index in (0..4).filter(|&index| index != absent) {
            write(&path, &planned, part(index), &all).finish().unwrap();
        }
        let told = without(&path);
        let first = 8 * u64::from(absent);
        assert_eq!(
            (told.frames, told.frames_missing, &told.missing[..]),
            (32, 8, slice::from_ref(&(first..first + 8))),
            "{absent}"
        );
        assert_eq!(told.shape, [16, 2, 20, 50], "{absent}");
        assert!(checked(&path).unwrap().is_sound());
    }

    // Stopped by the user, the others have not come to the end, and nobody knows how far the one would have come.
    let path = folder.path().join("early.zarr");
    create_parts(&path, planned.clone(), 4, PartBy::Time).unwrap();
    write(&path, &planned, part(0), &all[..6]).finish().unwrap();
    let told = without(&path);
    assert_eq!((told.frames, told.frames_missing), (6, 0));
}

#[test]
fn shards_that_are_gone_are_missed_before_the_parts_are() {
    for (by, gone) in [(PartBy::Time, "parts/1/0/c/0/0/0/0"), (PartBy::Frame, "parts/1/0/c/1/1/0/0")] {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = two_ended(folder.path(), by);
        let aside = folder.path().join("aside");
        fs::rename(path.join(gone), &aside).unwrap();
        let told = FinishParts::new(&path, &FinishPartsOptions::default()).unwrap().run().unwrap_err();
        assert!(matches!(told, Error::Unfinished { .. }), "{told}");
        let said = "and its writer counted";
        assert!(told.to_string().contains("part 1 holds") && told.to_string().contains(said), "{told}");
        // Brought back, nothing is lost.
        fs::rename(&aside, path.join(gone)).unwrap();
        assert_eq!(finished(&path).chunks_lost, 0);
        assert!(checked(&path).unwrap().is_sound());

        let folder = tempfile::tempdir().unwrap();
        let (path, _) = two_ended(folder.path(), by);
        fs::remove_file(path.join(gone)).unwrap();
        let told = without(&path);
        assert!(told.chunks_lost > 0 && told.notes.iter().any(|note| note.contains(said)), "{told:?}");
        assert!(!checked(&path).unwrap().is_sound());
    }
}

#[test]
fn a_whole_dataset_never_takes_the_place_of_a_run_that_is_not_finished() {
    let folder = tempfile::tempdir().unwrap();
    let (path, config) = two_ended(folder.path(), PartBy::Time);
    for overwrite in [false, true] {
        let refused = Acquisition::create(&path, Config { overwrite, ..config.clone() }).map(drop).unwrap_err();
        assert!(matches!(refused, Error::Exists { .. }), "{refused}");
        assert!(refused.to_string().contains("say which part this is"), "{refused}");
    }
    for refused in [Dataset::create(&path), Dataset::create_or_replace(&path)].map(|made| made.map(drop).unwrap_err()) {
        assert!(refused.to_string().contains("say which part this is"), "{refused}");
    }
    finished(&path);
    // Finished, it is a dataset as any other.
    let run = write(&path, &Config { overwrite: true, ..config }, None, &numbers(9));
    run.finish().unwrap();
    assert!(checked(&path).unwrap().is_sound());
}

#[test]
fn who_wants_it_as_a_whole_is_told_that_it_is_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = two_ended(folder.path(), PartBy::Frame);
    let told = checked(&path).unwrap_err();
    let of_levels = Pyramid::new(&path, &PyramidOptions::default()).map(drop).unwrap_err();
    for told in [told, of_levels] {
        assert!(matches!(told, Error::Unfinished { .. }), "{told}");
        assert!(told.to_string().contains("is a run in 2 parts, which `shardwright finish` puts together"), "{told}");
    }
    // Each part is a dataset by itself.
    assert!(checked(path.join("parts/1")).unwrap().is_sound());
    fs::remove_dir_all(path.join("parts/0")).unwrap();
    assert!(refusal(&path).to_string().contains("parts that never came: 0;"));
}
