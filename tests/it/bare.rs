//! Arrays without anything of ours beside them, at any place of a hierarchy.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::common::stopped::{commit, files, stopped};
use crate::common::storage::wait_until;
use crate::common::{checked, frame, recovered};
use serde_json::{Value, json};
use shardwright::offline::Array;
use shardwright::{
    Acquisition, Channel, Config, Dataset, Dialect, Dim, Downsampling, Dtype, Error, ManifestForm, Memory, RecordField,
};

fn config(key: Option<&str>) -> Config {
    Config {
        dtype: Dtype::U8,
        dims: vec![Dim::time(None).chunk(1).shard(4), Dim::y(8).chunk(4), Dim::x(8).scale(0.5, "micrometer")],
        key: key.map(str::to_owned),
        bare: true,
        ring_bytes: 64 * 4096,
        workers: 1,
        sync: false,
        ..Config::default()
    }
}

fn document(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("zarr.json")).unwrap()).unwrap()
}

fn put(folder: &Path, document: &Value) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("zarr.json"), serde_json::to_vec(document).unwrap()).unwrap();
}

fn frames(count: u64) -> Vec<u8> {
    (0..count).flat_map(|number| frame(number, 64)).collect()
}

/// Writes `count` frames, and the attributes that a user gives.
fn run(root: &Path, config: &Config, count: u64) {
    let acquisition = Acquisition::create(root, config.clone()).unwrap();
    acquisition.set_attribute("kept", json!({"by": "the user"})).unwrap();
    (0..count).for_each(|number| commit(&acquisition, config, number));
    acquisition.set_attribute("operator", "Ada".into()).unwrap();
    let summary = acquisition.finish().unwrap();
    assert_eq!((summary.frames_written, summary.shape, summary.notes.len()), (count, vec![count, 8, 8], 0));
}

/// Another writer's hierarchy: groups with attributes, an array, and what is none of Zarr's business.
fn theirs(root: &Path) {
    let group = |attributes: Value| json!({"zarr_format": 3, "node_type": "group", "attributes": attributes});
    put(root, &group(json!({"title": "theirs"})));
    put(&root.join("raw"), &group(json!({"kept": true})));
    let first = Config { key: None, ..config(None) };
    run(&root.join("raw/first"), &first, 3);
    fs::write(root.join("raw/notes.txt"), "x").unwrap();
}

#[test]
fn nothing_is_written_but_the_array_and_groups_on_its_way() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("study.zarr");
    theirs(&root);
    let mut before = files(&root);
    for key in ["raw/second", "new/deeper/third", "top"] {
        run(&root, &config(Some(key)), 9);
        let after = files(&root);
        assert!(before.iter().all(|(path, bytes)| after.get(path) == Some(bytes)), "{key}");
        let made: BTreeSet<PathBuf> = after.keys().filter(|path| !before.contains_key(*path)).cloned().collect();
        let shards = ["c/0/0/0", "c/1/0/0", "c/2/0/0", "zarr.json"].map(|name| Path::new(key).join(name));
        let groups = Path::new(key).ancestors().skip(1).map(|group| group.join("zarr.json"));
        let expected: BTreeSet<_> =
            shards.into_iter().chain(groups.filter(|file| !before.contains_key(file))).collect();
        assert_eq!(made, expected);
        let document = document(&root.join(key));
        assert_eq!(document["attributes"], json!({"kept": {"by": "the user"}, "operator": "Ada"}));
        assert_eq!((&document["node_type"], &document["shape"]), (&json!("array"), &json!([9, 8, 8])));
        assert_eq!(document["dimension_names"], json!(["t", "y", "x"]));
        let array = Array::open(root.join(key)).unwrap();
        assert_eq!(array.read_all().unwrap(), frames(9));
        before = after;
    }
    assert!(document(&root.join("new")) == document(&root.join("new/deeper")));
    assert!(checked(&root).unwrap().is_sound());
}

#[test]
fn an_array_is_read_while_it_grows_and_needs_no_hierarchy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("alone.zarr");
    let config = Config { sync: true, checkpoint_every: Duration::from_millis(5), ..config(None) };
    let acquisition = Acquisition::create(&path, config.clone()).unwrap();
    assert_eq!(document(&path)["attributes"], json!({}));
    assert_eq!(Array::open(&path).unwrap().shape(), [0, 8, 8]);
    acquisition.set_attribute("early", 1.into()).unwrap();
    (0..6).for_each(|number| commit(&acquisition, &config, number));
    wait_until("they are durable", || acquisition.stats().frames_durable == 6);
    // Of a closed shard and of an open one.
    assert_eq!(Array::open(&path).unwrap().read_all().unwrap(), frames(6));
    for number in 0..6 {
        let mut out = vec![0; 64];
        acquisition.read_frame(number, &mut out).unwrap();
        assert_eq!(out, frame(number, 64));
    }
    commit(&acquisition, &config, 8);
    let summary = acquisition.finish().unwrap();
    assert_eq!((summary.frames_missing, summary.frames_durable), (2, 7));
    assert_eq!(document(&path)["attributes"], json!({"early": 1}));
    let kept: Vec<_> = files(&path).into_keys().collect();
    assert_eq!(kept, ["c/0/0/0", "c/1/0/0", "c/2/0/0", "zarr.json"].map(PathBuf::from));
}

#[test]
fn what_came_to_nothing_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("study.zarr");
    theirs(&root);
    let before = files(&root);
    Acquisition::create(&root, config(Some("raw/new/array"))).unwrap().abort();
    assert!(files(&root) == before && !root.join("raw/new").exists());
    // Nor is an array ever replaced, in the way or around.
    for overwrite in [false, true] {
        for key in ["raw/first", "raw/first/c", "raw"] {
            let config = Config { overwrite, ..config(Some(key)) };
            let error = Acquisition::create(&root, config).unwrap_err();
            let is_refused = match key {
                "raw/first/c" => matches!(error, Error::Config { field: "path", .. }),
                _ => matches!(error, Error::Exists { .. } | Error::Conflict { .. }),
            };
            assert!(is_refused, "{key}: {error}");
            assert!(files(&root) == before, "{key}");
        }
    }
}

#[test]
fn two_arrays_are_written_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("study.zarr");
    let configs = ["a/one", "a/other"].map(|key| config(Some(key)));
    let runs = configs.each_ref().map(|config| Acquisition::create(&root, config.clone()).unwrap());
    for number in 0..5 {
        runs.iter().zip(&configs).for_each(|(run, config)| commit(run, config, number));
    }
    for ended in Acquisition::finish_all(runs.into()) {
        assert_eq!(ended.unwrap().frames_written, 5);
    }
    for key in ["a/one", "a/other"] {
        assert_eq!(Array::open(root.join(key)).unwrap().read_all().unwrap(), frames(5));
    }
}

/// What the last checkpoint left is there; what `recover` needs is not.
#[test]
fn a_kill_leaves_what_the_last_checkpoint_left() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { sync: true, checkpoint_every: Duration::from_millis(5), ..config(None) };
    let left = stopped(folder.path(), &config, &[0, 1, 2, 3, 4], 5);
    assert_eq!(Array::open(&left).unwrap().read_all().unwrap(), frames(5));
    let before = files(&left);
    let error = recovered(&left, true).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert!(files(&left) == before);
}

#[test]
fn a_damaged_chunk_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("alone.zarr");
    run(&path, &config(None), 4);
    let shard = path.join("c/0/0/0");
    let mut bytes = fs::read(&shard).unwrap();
    bytes[100] ^= 1;
    fs::write(&shard, bytes).unwrap();
    assert!(!checked(&path).unwrap().is_sound());
}

#[test]
fn what_an_array_alone_has_no_place_for_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, config: Config, part: &str| {
        let error = Acquisition::create(folder.path().join(name), config).unwrap_err();
        assert!(matches!(error, Error::Config { field: "bare", .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
        assert!(files(folder.path()).is_empty());
    };
    let alone = || config(None);
    let fields = vec![RecordField { name: "gain".into(), dtype: Dtype::U8 }];
    let channel = Channel { label: "DAPI".into(), color: "0000FF".into(), window: None };
    refused(
        "a",
        Config { pyramid: Some(Downsampling { levels: Some(1), ..Downsampling::default() }), ..alone() },
        "no place for pyramid",
    );
    refused("a", Config { record_fields: fields, ..alone() }, "no place for record_fields");
    refused("a", Config { record_roi: true, ..alone() }, "no place for record_roi");
    let dims = [vec![Dim::channel(1)], alone().dims[1..].to_vec()].concat();
    refused("a", Config { channels: vec![channel], dims, ..alone() }, "no place for channels");
    refused("a", Config { name: Some("cells".into()), ..alone() }, "no place for name");
    refused("a", Config { manifest: vec![ManifestForm::Kerchunk], ..alone() }, "no place for manifest");
    let older = Config { dialect: Dialect::Zarr2Sharded, ..alone() };
    let codec = shardwright::Codec { checksum: false, ..older.codec };
    refused("a", Config { codec, ..older }, "only arrays of zarr3");
    refused("a.ozx", alone(), "an .ozx is a dataset of OME-Zarr");
    let dataset = Dataset::create(folder.path().join("several.zarr")).unwrap();
    assert!(matches!(dataset.acquisition("left", alone()), Err(Error::Config { field: "bare", .. })));
}

#[test]
fn a_storage_of_the_callers_own_gets_an_array_alone() {
    let memory = Arc::new(Memory::new());
    let acquisition = Acquisition::create_in(memory.clone(), config(None)).unwrap();
    (0..5).for_each(|number| commit(&acquisition, &config(None), number));
    acquisition.finish().unwrap();
    let document: Value = serde_json::from_slice(&memory.read("zarr.json").unwrap()).unwrap();
    assert_eq!((&document["shape"], &document["attributes"]), (&json!([5, 8, 8]), &json!({})));
    assert!(memory.read("c/1/0/0").is_some() && memory.read("records/zarr.json").is_none());
}
