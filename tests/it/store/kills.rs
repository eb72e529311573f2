//! An editor that is killed.

use super::*;

/// Where the child writes.
const PATH: &str = "SHARDWRIGHT_STORE_KILL_PATH";

/// Writes the same value into all chunks of both shards again and again, one batch a value, until it is killed.
#[test]
#[ignore = "another test runs it in a process of its own"]
fn child_edits() {
    let store = Store::edit(env::var(PATH).unwrap()).unwrap();
    let keys: Vec<String> = (0..24).map(|at| format!("0/c/{}/{}/{}", at / 4, at % 4 / 2, at % 2)).collect();
    for value in (0..=255u8).cycle() {
        let value = chunk(value);
        store.set_many(&keys[..8].iter().map(|key| (key.as_str(), &value[..])).collect::<Vec<_>>()).unwrap();
        store.erase_values(&keys[20..].iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        store.set(&keys[20], &value).unwrap();
    }
}

#[test]
fn a_killed_editor_leaves_each_shard_old_or_new() {
    let kills = env::var("SHARDWRIGHT_KILLS").ok().map_or(12, |kills| kills.parse().unwrap());
    let mut leftovers = 0;
    for kill in 0..kills {
        let folder = tempfile::tempdir().unwrap();
        let (path, keys) = dataset(folder.path(), kill % 4);
        let untouched: Vec<_> = Store::open(&path)
            .unwrap()
            .get_partial_values(&keys[8..20].iter().map(|key| (key.as_str(), ByteRange::All)).collect::<Vec<_>>())
            .unwrap();
        let mut child = child("store::kills::child_edits")
            .env(PATH, &path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // A reader beside it never sees anything else than whole shards.
        for _ in 0..20 {
            same_or_none(&Store::open(&path).unwrap(), &keys[..8]);
            thread::sleep(Duration::from_millis(2));
        }
        thread::sleep(Duration::from_micros(7_919 * (kill as u64 * 31 % 17)));
        child.kill().unwrap();
        child.wait().unwrap();
        leftovers += files(&path).keys().filter(|path| path.to_str().unwrap().ends_with(".partial")).count();
        sound(&path);
        let found = recovered(&path, true).unwrap();
        assert!(found.images[0].shards.is_empty(), "{found:?}");
        // The next one goes on.
        let store = Store::edit(&path).unwrap();
        same_or_none(&store, &keys[..8]);
        let wanted: Vec<_> = keys[8..20].iter().map(|key| (key.as_str(), ByteRange::All)).collect();
        assert!(store.get_partial_values(&wanted).unwrap() == untouched);
        store.set(&keys[0], &chunk(1)).unwrap();
        store.finish().unwrap();
        sound(&path);
    }
    println!("{leftovers} files in the making were left behind in {kills} kills");
}

/// Chunks of one batch have one value, or still those of the run.
fn same_or_none(store: &Store, keys: &[String]) {
    let wanted: Vec<_> = keys.iter().map(|key| (key.as_str(), ByteRange::All)).collect();
    let values = store.get_partial_values(&wanted).unwrap();
    let first = values[0].clone().unwrap();
    assert_eq!(first.len(), 20);
    let edited = first[..16].iter().all(|&pixel| pixel == first[0]);
    assert!(!edited || values.iter().all(|value| value.as_ref() == Some(&first)), "{values:?}");
}
