//! Calls that are made again after their end, names that choose arrays, chunks as files, and the estimate of the room.

use shardwright::offline::{Recover, RecoverOptions, Verify, VerifyOptions};

use super::*;

fn refused(path: &Path, out: Option<&Path>, options: &RepackOptions) -> Error {
    Repack::new(path, out, options).unwrap_err()
}

#[test]
fn a_new_dataset_is_known_again_by_the_call_that_made_it_and_by_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    for dialect in Dialect::ALL.iter().copied() {
        let out = folder.path().join(dialect.name());
        let call =
            RepackOptions { dialect: Some(dialect), codec: Some(plain(Compressor::Gzip { level: 1 })), ..options() };
        let first = repack(&path, Some(&out), &call);
        assert!(!first.already_done && first.shards_written > 0, "{dialect}");
        let listed = files(&out);
        let again = repack(&path, Some(&out), &RepackOptions { workers: 1, memory_bytes: 64 << 20, ..call.clone() });
        assert!(again.already_done && again.shards_written == 0, "{dialect}");
        assert_eq!(files(&out), listed, "{dialect}");
        assert_sound(&out);
        // A reader that goes by files sees nothing of it but in the array's own folder.
        assert_eq!(listed.iter().filter(|file| file.ends_with(RECEIPT)).count(), 1, "{dialect}: {listed:?}");
        let others = [
            RepackOptions { order: ChunkOrder::Morton, ..call.clone() },
            RepackOptions { codec: Some(plain(Compressor::None)), ..call.clone() },
            // What was not waited for may be torn by now.
            RepackOptions { sync: true, ..call.clone() },
        ];
        for other in others {
            let error = refused(&path, Some(&out), &other);
            assert!(matches!(error, Error::Exists { .. }), "{dialect}: {error}");
        }
        // A shard of the same length with other bytes, written since.
        let shard = listed.iter().filter(|file| !file.ends_with(RECEIPT)).max_by_key(|file| {
            let len = fs::metadata(out.join(file)).unwrap().len();
            if file.contains("records") || file.ends_with(".json") { 0 } else { len }
        });
        let shard = out.join(shard.unwrap());
        let bytes = fs::read(&shard).unwrap();
        thread::sleep(Duration::from_millis(20));
        fs::write(&shard, &bytes).unwrap();
        assert!(matches!(refused(&path, Some(&out), &call), Error::Exists { .. }), "{dialect}");
    }
}

#[test]
fn an_array_that_was_not_chosen_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    copy_tree(&path.join("0"), &path.join("extra/one"));
    fs::write(path.join("extra/zarr.json"), json!({"zarr_format": 3, "node_type": "group"}).to_string()).unwrap();
    let gaps = |path: &Path, name: &str| {
        describe(path).unwrap().arrays.into_iter().find(|array| array.path == name).unwrap().gap_bytes
    };
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let before = gaps(&path, "0");
    assert!(before > 0);
    let cases = [(names(&["extra"]), names(&[])), (names(&[]), names(&["0"])), (names(&["/"]), names(&["0/"]))];
    for (number, (only, skip)) in cases.into_iter().enumerate() {
        let out = folder.path().join(format!("{number}.zarr"));
        repack(&path, Some(&out), &RepackOptions { only, skip, ..options() });
        assert_eq!((gaps(&out, "0"), gaps(&out, "extra/one")), (before, 0));
        assert!(pixels(&out) == pixels(&path));
        assert!(pixels(&out.join("extra/one")) == pixels(&path));
    }
    repack(&path, None, &RepackOptions { skip: names(&["extra/one"]), ..options() });
    assert_eq!((gaps(&path, "0"), gaps(&path, "extra/one")), (0, before));
    let unknown = refused(&path, None, &RepackOptions { only: names(&["ex"]), ..options() });
    assert!(matches!(&unknown, Error::NotFound { .. }), "{unknown}");
    assert!(unknown.to_string().contains("\"extra/one\""), "{unknown}");
    let (only, skip) = (names(&["extra"]), names(&["extra/one"]));
    let none = refused(&path, None, &RepackOptions { only, skip, ..options() }).to_string();
    assert!(none.contains("no array is left that would be repacked"), "{none}");
}

#[test]
fn files_beyond_the_shape_do_not_become_chunks_of_another_grid() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let expected = pixels(&path);
    // As an array has it that was made smaller.
    let shard = path.join("0/c/0/0/0");
    let beyond = path.join("0/c/5/0/0");
    fs::create_dir_all(beyond.parent().unwrap()).unwrap();
    fs::copy(&shard, &beyond).unwrap();
    let out = folder.path().join("new.zarr");
    let unsharded = RepackOptions { sharding: Sharding::Unsharded, chunk: vec![1, 0, 0], ..options() };
    for target in [Some(&*out), None] {
        repack(&path, target, &unsharded);
        let result = target.unwrap_or(&path);
        assert!(pixels(result) == expected);
        assert_sound(result);
    }
    assert_eq!(repack(&path, None, &unsharded).shards_written, 0);
}

#[test]
fn what_does_not_fit_is_refused_unless_the_estimate_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("big.zarr");
    fs::create_dir_all(&path).unwrap();
    // Sixteen terabytes of shards, as far as documents and lengths tell: none of it is on the disk.
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": [1 << 14, 1 << 15, 1 << 15], "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1 << 14, 1 << 15, 1 << 15]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "attributes": {},
        "codecs": [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [256, 256, 256],
            "codecs": [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 1}}],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
        }}],
    });
    fs::write(path.join("zarr.json"), document.to_string()).unwrap();
    let index = vec![0xff; 16 << 20];
    let crc = crc32c::crc32c(&index).to_le_bytes();
    fs::create_dir_all(path.join("c/0/0")).unwrap();
    fs::write(path.join("c/0/0/0"), [&index[..], &crc].concat()).unwrap();
    let out = folder.path().join("new.zarr");
    let unpacked = RepackOptions { codec: Some(plain(Compressor::None)), memory_bytes: 1 << 30, ..options() };
    let error = Repack::new(&path, Some(&out), &unpacked).unwrap().run().unwrap_err();
    let told = error.to_string();
    assert!(told.contains("about 17592186048"), "{told}");
    assert!(told.contains("the option `space`"), "{told}");
    let Error::Io { source, .. } = &error else { panic!("{error}") };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was made");
    // There are no chunks in it.
    repack(&path, Some(&out), &RepackOptions { space: SpaceCheck::Skipped, ..unpacked });
    assert!(out.join("zarr.json").exists());
}

#[test]
fn more_workers_than_any_machine_has_cores_for_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let before = files(&path);
    for workers in [1025, 100_000_000, usize::MAX] {
        let repack = refused(&path, None, &RepackOptions { workers, ..options() });
        let verify = Verify::new(&path, &VerifyOptions { workers }).unwrap_err();
        let recover = Recover::new(&path, &RecoverOptions { apply: true, workers }).unwrap_err();
        let writer = Acquisition::create(folder.path().join("new"), Config { workers, ..config() }).unwrap_err();
        for error in [repack, verify, recover, writer] {
            assert!(matches!(error, Error::Config { field: "workers", .. }), "{error}");
            assert!(error.to_string().contains("at most 1024"), "{error}");
        }
    }
    assert_eq!(files(&path), before);
}
