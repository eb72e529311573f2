//! Shards of which almost nothing is left: verify and recover say the same of them.

use std::fs;

use crate::common::stopped::{Frame, finished, frames_of, layouts, small, sound};
use crate::common::{checked, recovered};
use shardwright::IndexLocation;
use shardwright::offline::ShardAction;

/// Nothing of a shard's chunks is left where the file ends before its first chunk does: both tools say that they are
/// lost.
#[test]
fn chunks_of_a_shard_that_was_cut_off_are_lost() {
    for layout in layouts() {
        for length in [0, 1, 63, 64, 70] {
            let folder = tempfile::tempdir().unwrap();
            let config = small(layout);
            let path = folder.path().join("run.zarr");
            finished(&path, &config, &[0, 1, 2, 3, 4, 5]);
            let shard = path.join("0/c/0/0/0");
            let first_at = if layout.1 == IndexLocation::Start { 4096 } else { 0 };
            let bytes = fs::read(&shard).unwrap();
            fs::write(&shard, &bytes[..if length == 0 { 0 } else { first_at + length }]).unwrap();
            let damaged = checked(&path).unwrap();
            assert!(damaged.damage > 0, "{layout:?}, {length}");
            let found = recovered(&path, false).unwrap();
            let image = &found.images[0];
            assert!(found.is_needed(), "{layout:?}, {length}: verify finds damage, and recover nothing to do");
            assert_eq!((image.shards.len(), image.shards[0].action), (1, ShardAction::Remove), "{layout:?}, {length}");
            let reason = image.shards[0].reason.as_deref();
            assert_eq!(reason.is_some_and(|reason| reason.contains("lost")), length > 0, "{layout:?}, {length}");
            assert_eq!((image.frames, image.frames_missing), (6, 4));
            recovered(&path, true).unwrap();
            assert!(!shard.exists());
            sound(&path);
            let mut expected = vec![Frame::Missing; 6];
            expected[4..].fill(Frame::Whole);
            assert_eq!(frames_of(&path, &config, 6), expected);
            assert!(!recovered(&path, true).unwrap().is_needed());
        }
    }
}
