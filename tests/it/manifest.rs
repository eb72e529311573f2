//! Manifests name every chunk, and a dataset that only a manifest describes reads as the one whose chunks it names.

use crate::common::checked;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::stopped::files;
use crate::common::{manifests, movie, movie_config as config};
use serde_json::{Value, json};
use shardwright::offline::{Array, ArrayDescription, ManifestOptions, describe, manifest_path};
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dataset, Dialect, Error, IndexLocation, ManifestForm, Memory, Placement,
};

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn what_a_manifest_names_reads_as_the_dataset_does() {
    for (compressor, placement, index_location) in [
        (Compressor::default(), Placement::Fixed, IndexLocation::End),
        (Compressor::None, Placement::Packed, IndexLocation::Start),
        (Compressor::Zstd { level: 1 }, Placement::Packed, IndexLocation::End),
        (Compressor::Lz4, Placement::Fixed, IndexLocation::Start),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path =
            movie(folder.path(), &Config { codec: Codec::from(compressor), placement, index_location, ..config() });
        let out = folder.path().join("manifest");
        let summary = manifests(&path, &out, &ManifestOptions::default()).unwrap();
        let expected = Array::open(&path).unwrap();
        let array = Array::open(&out).unwrap();
        assert_eq!(array.shape(), expected.shape());
        assert_eq!(array.chunk_shape(), expected.chunk_shape());
        assert_eq!(array.shard_shape(), None);
        assert_eq!(array.dimension_names(), expected.dimension_names());
        assert!(array.read_all().unwrap() == expected.read_all().unwrap());
        let mut part = [vec![0; 2 * 3 * 20 * 30], vec![0; 2 * 3 * 20 * 30]];
        array.read_region(&[6, 15, 14], &[3, 20, 30], &mut part[0]).unwrap();
        expected.read_region(&[6, 15, 14], &[3, 20, 30], &mut part[1]).unwrap();
        assert!(part[0] == part[1]);

        let (there, here) = (describe(&path).unwrap(), describe(&out).unwrap());
        assert_eq!(here.attributes["ome"], there.attributes["ome"]);
        assert_eq!(here.complete, Some(true));
        let verified = checked(&out).unwrap();
        assert_eq!(verified.damage, 0, "{:?}", verified.findings);
        let chunks = |arrays: &[ArrayDescription]| arrays.iter().map(|array| array.chunks_present).sum::<u64>();
        assert_eq!(verified.arrays.iter().map(|array| array.chunks).sum::<u64>(), chunks(&there.arrays));
        assert_eq!(here.arrays.len(), there.arrays.len());
        assert_eq!(summary.arrays, there.arrays.len() as u64);
        for (here, there) in here.arrays.iter().zip(&there.arrays) {
            assert_eq!((&here.path, &here.codecs), (&there.path, &there.codecs));
            assert_eq!((here.chunks_present, here.chunks_empty), (there.chunks_present, there.chunks_empty));
            assert_eq!((here.shard_files, here.bytes_files), (there.shard_files, there.bytes_files), "{}", here.path);
            assert!(here.damaged.is_empty(), "{:?}", here.damaged);
        }
    }
}

#[test]
fn small_arrays_carry_their_manifest_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let out = folder.path().join("manifest");
    let inlined = |inline_chunks| {
        let options = ManifestOptions { inline_chunks, overwrite: true, ..ManifestOptions::default() };
        manifests(&path, &out, &options).unwrap().arrays_inlined
    };
    assert!(inlined(32) >= 1);
    let chunks = describe(&path).unwrap().arrays[0].chunks_present;
    assert!(chunks > 32, "{chunks} chunks are few");
    assert!(out.join("0/manifest.json").is_file());
    assert!(!out.join("records/frame_number/manifest.json").exists());
    let transformer = &json(&out.join("records/frame_number/zarr.json"))["storage_transformers"][0];
    assert!(transformer["configuration"]["manifest"]["0"]["path"].is_string());
    let numbers = Array::open(out.join("records/frame_number")).unwrap().read_all().unwrap();
    assert!(numbers == Array::open(path.join("records/frame_number")).unwrap().read_all().unwrap());

    assert_eq!(inlined(0), 0);
    assert!(out.join("records/frame_number/manifest.json").is_file());
    let transformer = &json(&out.join("0/zarr.json"))["storage_transformers"][0];
    assert_eq!(*transformer, json!({"name": "chunk-manifest-json", "configuration": {"manifest": "./manifest.json"}}));
}

#[test]
fn a_prefix_takes_the_folder_s_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let out = folder.path().join("manifest");
    let prefix = Some("s3://bucket/a movie.zarr/".to_owned());
    manifests(&path, &out, &ManifestOptions { url_prefix: prefix, ..ManifestOptions::default() }).unwrap();
    let manifest = json(&out.join("0/manifest.json"));
    let kerchunk = json(&out.join("kerchunk.json"));
    assert_eq!(kerchunk["version"], 1);
    for (key, chunk) in manifest.as_object().unwrap() {
        let url = chunk["path"].as_str().unwrap();
        let file = url.strip_prefix("s3://bucket/a movie.zarr/").unwrap();
        let len = fs::metadata(path.join(file)).unwrap().len();
        assert!(chunk["offset"].as_u64().unwrap() + chunk["length"].as_u64().unwrap() <= len);
        assert_eq!(kerchunk["refs"][format!("0/{key}")], json!([url, chunk["offset"], chunk["length"]]));
    }
    // The documents are there, the pixels are elsewhere.
    let array = Array::open(&out).unwrap();
    let refused = array.read_all().unwrap_err().to_string();
    assert!(refused.contains("s3://bucket") && refused.contains("only files of this machine"), "{refused}");
    let described = describe(&out).unwrap();
    assert_eq!(described.arrays[0].bytes_payload, describe(&path).unwrap().arrays[0].bytes_payload);
}

#[test]
fn what_can_t_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let write = |out: PathBuf, options: ManifestOptions| manifests(&path, &out, &options).unwrap_err();
    let defaults = ManifestOptions::default;
    assert!(matches!(write(path.join("manifest"), defaults()), Error::Config { field: "out", .. }));
    let prefix = ManifestOptions { url_prefix: Some("bucket".into()), ..defaults() };
    assert!(matches!(write(folder.path().join("m"), prefix), Error::Config { field: "url_prefix", .. }));
    let taken = folder.path().join("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("thesis.tex"), "x").unwrap();
    assert!(matches!(write(taken.clone(), defaults()), Error::Conflict { .. }));
    assert!(matches!(write(taken.clone(), ManifestOptions { overwrite: true, ..defaults() }), Error::Conflict { .. }));
    assert!(taken.join("thesis.tex").exists());

    // A damaged index would leave chunks out of the manifest without a word.
    let shard = path.join("0/c/0/0/0");
    let mut bytes = fs::read(&shard).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&shard, bytes).unwrap();
    let damaged = write(folder.path().join("m"), defaults()).to_string();
    assert!(damaged.contains("the index is damaged"), "{damaged}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn verify_finds_damage_behind_a_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let out = folder.path().join("manifest");
    manifests(&path, &out, &ManifestOptions::default()).unwrap();
    let shard = path.join("0/c/0/0/0");
    let mut bytes = fs::read(&shard).unwrap();
    bytes[100] ^= 1;
    fs::write(&shard, bytes).unwrap();
    let verified = checked(&out).unwrap();
    assert_eq!(verified.damage, 1, "{:?}", verified.findings);
    assert!(verified.findings.iter().any(|finding| finding.what.contains("chunk [")), "{:?}", verified.findings);
}

/// A manifest written by hand, in the words of the proposal.
fn by_hand(folder: &Path, manifest: &Value) -> PathBuf {
    let path = folder.join("hand");
    fs::create_dir_all(&path).unwrap();
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": [3, 4], "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 4]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 9, "codecs": [{"name": "bytes"}],
        "storage_transformers": [{"name": "chunk-manifest-json", "configuration": {"manifest": manifest}}],
    });
    fs::write(path.join("zarr.json"), document.to_string()).unwrap();
    fs::write(path.join("pixels.bin"), (0..20).collect::<Vec<u8>>()).unwrap();
    path
}

#[test]
fn manifests_of_other_writers_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let read = |manifest: Value| Array::open(by_hand(folder.path(), &manifest)).and_then(|array| array.read_all());
    let rows = |range: std::ops::Range<u8>| range.collect::<Vec<u8>>();
    // Relative paths start from the array; a chunk that is not named holds the fill value.
    let both = json!({"0.0": {"path": "pixels.bin", "offset": 4, "length": 8, "checksum": "x"}});
    assert_eq!(read(both).unwrap(), [rows(4..12), vec![9; 4]].concat());
    // Without a length, the chunk ends with its file.
    let second = json!({"c/1/0": {"path": "./pixels.bin", "offset": 12}});
    assert_eq!(read(second).unwrap(), [vec![9; 8], rows(12..16)].concat());
    let absolute = by_hand(folder.path(), &json!({})).join("pixels.bin");
    let escaped = format!("file://{}", absolute.display()).replace("pixels", "%70ixels");
    assert_eq!(read(json!({"0.0": {"path": escaped, "length": 8}})).unwrap(), [rows(0..8), vec![9; 4]].concat());
}

#[test]
fn broken_manifests_say_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    for (manifest, evidence) in [
        (json!({"2.0": {"path": "pixels.bin"}}), "is no chunk of a grid of [2, 1]"),
        (json!({"0.0": {"offset": 3}}), "missing field `path`"),
        (json!({"0.0": {"path": "pixels.bin"}, "0/0": {"path": "pixels.bin"}}), "twice"),
        (json!({"0.0": {"path": "pixels.bin", "offset": 16, "length": 8}}), "8 bytes from 16, but the file has 20"),
        (json!({"0.0": {"path": "pixels.bin", "offset": u64::MAX, "length": u64::MAX}}), "but the file has 20"),
        (json!({"0.0": {"path": "nothing.bin"}}), "there is no such file"),
        (json!({"0.0": {"path": "pixels.bin", "offset": -1}}), "-1"),
        (json!({"0.0": {"data": "AAAA"}}), "inlined pixels"),
        (json!("../other.json"), "not in its folder"),
        (json!("./missing.json"), "is not there"),
        (json!(["a"]), "expected its path or the manifest itself"),
    ] {
        let path = by_hand(folder.path(), &manifest);
        let error = Array::open(path).and_then(|array| array.read_all()).unwrap_err().to_string();
        assert!(error.contains(evidence), "{manifest}: {error:?} lacks {evidence:?}");
    }
}

#[test]
fn what_is_written_at_finish_is_what_would_be_written_afterwards() {
    use ManifestForm::{Inlined, Kerchunk, Manifest};
    let plain = Codec { compressor: Compressor::Zstd { level: 1 }, checksum: false };
    for dialect in [Dialect::Zarr3, Dialect::Zarr3Transformer, Dialect::Zarr2Sharded] {
        for forms in [&[Manifest, Inlined, Kerchunk][..], &[Manifest], &[Inlined], &[Kerchunk], &[Kerchunk, Manifest]] {
            let folder = tempfile::tempdir().unwrap();
            let config = Config { dialect, codec: plain.clone(), manifest: forms.to_vec(), ..config() };
            let path = movie(folder.path(), &config);
            let out = manifest_path(&path);
            assert_eq!(out.file_name().unwrap(), "movie.ome.manifest.zarr");
            let options = ManifestOptions { forms: forms.to_vec(), ..ManifestOptions::default() };
            let afterwards = folder.path().join("afterwards");
            manifests(&path, &afterwards, &options).unwrap();
            let written = files(&out);
            assert!(written == files(&afterwards), "{dialect:?} {forms:?}");
            assert_eq!(written.contains_key(Path::new("kerchunk.json")), forms.contains(&Kerchunk));
            let separate = written.keys().filter(|path| path.ends_with("manifest.json")).count();
            assert_eq!(separate > 0, forms.contains(&Manifest), "{dialect:?} {forms:?}");
            if forms != [Kerchunk] {
                let name = if dialect == Dialect::Zarr2Sharded { "" } else { "0" };
                let read = |path: &Path| Array::open(path).unwrap().read_all().unwrap();
                assert!(read(&out.join(name)) == read(&path), "{dialect:?} {forms:?}");
            }
            // Once more, over the old ones.
            movie(folder.path(), &Config { overwrite: true, ..config });
            assert!(files(&out).into_keys().eq(written.into_keys()), "{dialect:?} {forms:?}");
        }
    }
}

#[test]
fn a_manifest_that_can_t_be_is_refused_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let requested = Config { manifest: vec![ManifestForm::Kerchunk], ..config() };
    let refused = |config: Config| {
        let error = Acquisition::create(&path, config).unwrap_err();
        assert!(!path.exists());
        error
    };
    let codec = Codec { compressor: Compressor::None, checksum: false };
    let mut volume = Config { dialect: Dialect::Precomputed, codec, ..requested.clone() };
    volume.dims.iter_mut().for_each(|dim| dim.shard = 0);
    let volume = refused(volume);
    assert!(matches!(&volume, Error::Config { field: "manifest", .. }), "{volume}");
    let stored = Acquisition::create_in(std::sync::Arc::new(Memory::new()), requested.clone()).unwrap_err();
    assert!(matches!(&stored, Error::Config { field: "manifest", .. }), "{stored}");
    let several = Dataset::create(folder.path().join("several")).unwrap();
    let one = several.acquisition("left", requested.clone()).unwrap_err().to_string();
    assert!(one.contains("as a whole"), "{one}");
    let out = manifest_path(&path);
    fs::create_dir(&out).unwrap();
    assert!(matches!(refused(requested.clone()), Error::Conflict { .. }));
    fs::write(out.join("thesis.tex"), "x").unwrap();
    assert!(matches!(refused(Config { overwrite: true, ..requested }), Error::Conflict { .. }));
    assert!(out.join("thesis.tex").exists());
}

#[test]
fn a_manifest_that_fails_hurts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let config = Config { manifest: vec![ManifestForm::Manifest], ..config() };
    let acquisition = Acquisition::create(&path, config.clone()).unwrap();
    for number in 0..9 {
        crate::common::stopped::commit(&acquisition, &config, number);
    }
    // Somebody takes its place meanwhile.
    fs::create_dir(manifest_path(&path)).unwrap();
    let unfinished = acquisition.finish().unwrap_err();
    assert!(unfinished.to_string().contains("its manifest is not"), "{unfinished}");
    assert!(unfinished.to_string().contains("run.manifest.zarr"), "{unfinished}");
    assert_eq!((unfinished.summary.frames_written, unfinished.summary.frames_missing), (9, 0));
    assert_eq!(describe(&path).unwrap().complete, Some(true));
    assert_eq!(checked(&path).unwrap().damage, 0);
    // An aborted run has none, and no error either.
    let other = folder.path().join("other.zarr");
    let acquisition = Acquisition::create(&other, config).unwrap();
    let _ = acquisition.append(&[0; 2 * 40 * 50]).unwrap();
    acquisition.abort();
    assert!(!manifest_path(&other).exists());
}
