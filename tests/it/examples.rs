//! Examples that show more than calls: they run, and what they write is read back.

#[allow(unreachable_pub)]
#[path = "../../examples/storage.rs"]
mod storage;

use shardwright::offline::Array;

use crate::common::checked;

#[test]
fn a_storage_of_ones_own_gives_the_frames_that_went_in() {
    let folder = tempfile::tempdir().unwrap();
    storage::run(folder.path(), 100).unwrap();
    let expected: Vec<u8> = (1..=100).flat_map(|number| [number; 64 * 64]).collect();
    assert!(Array::open(folder.path().join("0")).unwrap().read_all().unwrap() == expected);
    assert!(checked(folder.path()).unwrap().is_sound());
    // Seven shards, and each was put when it was whole.
    assert_eq!(std::fs::read_dir(folder.path().join("0/c")).unwrap().count(), 7);
    // What is there is not written over.
    assert!(storage::run(folder.path(), 1).unwrap_err().to_string().contains("already holds something"));
}
