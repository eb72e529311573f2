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

/// Where the chunks of a shard of 16 end, by its index.
fn ends(shard: &[u8], location: IndexLocation) -> Vec<u64> {
    let index = if location == IndexLocation::Start { shard } else { &shard[shard.len() - 16 * 16 - 4..] };
    let word = |at: usize| u64::from_le_bytes(index[8 * at..][..8].try_into().unwrap());
    (0..16).map(|chunk| word(2 * chunk) + word(2 * chunk + 1)).collect()
}

/// What is whole of a shard that was cut in its middle stays: its index is lost where it stood at the end, and slots
/// have headers.
#[test]
fn chunks_before_a_cut_are_kept() {
    for layout in layouts() {
        for part in [3, 5, 8, 11, 15] {
            let folder = tempfile::tempdir().unwrap();
            let config = small(layout);
            let path = folder.path().join("run.zarr");
            finished(&path, &config, &[0, 1, 2, 3, 4, 5]);
            let shard = path.join("0/c/0/0/0");
            let bytes = fs::read(&shard).unwrap();
            let ends = ends(&bytes, layout.1);
            let last = *ends.iter().max().unwrap() as usize;
            let first_at = if layout.1 == IndexLocation::Start { 4096 } else { 0 };
            let cut = first_at + (last - first_at) * part / 16;
            fs::write(&shard, &bytes[..cut]).unwrap();
            assert!(checked(&path).unwrap().damage > 0, "{layout:?}, {part}");
            let kept = ends.iter().filter(|end| **end <= cut as u64).count() as u64;
            assert!(kept > 0);
            let found = recovered(&path, true).unwrap();
            let image = &found.images[0];
            assert_eq!((image.shards[0].action, image.shards[0].chunks), (ShardAction::NewIndex, kept), "{layout:?}");
            sound(&path);
            let whole = |frame: &[u64]| frame.iter().all(|end| *end <= cut as u64);
            let frames = frames_of(&path, &config, 6);
            for (at, frame) in ends.chunks(4).enumerate() {
                assert_eq!(frames[at] == Frame::Whole, whole(frame), "{layout:?}, frame {at} cut at {cut}");
            }
            assert!(frames[4..].iter().all(|frame| *frame == Frame::Whole));
            assert!(!recovered(&path, true).unwrap().is_needed());
        }
    }
}
