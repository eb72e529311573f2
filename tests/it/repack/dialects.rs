//! From each format to each other.

use super::*;

const HASH: VolumeHash = VolumeHash::Murmurhash3X86_128;

/// Datasets of every dialect, all with chunks that are cut off at edges, and some with chunks missing.
fn sources() -> Vec<Config> {
    let gzip = Compressor::Gzip { level: 1 };
    let of = |dialect, codec| Config { dialect, codec, ..config() };
    let volume = |codec, volume: Volume| {
        let mut config = Config { volume, ..of(Dialect::Precomputed, plain(codec)) };
        config.dims.iter_mut().for_each(|dim| dim.shard = 0);
        config
    };
    let bits = |preshift, minishard| Volume {
        preshift_bits: Some(preshift),
        minishard_bits: Some(minishard),
        ..Volume::default()
    };
    let mut endless = volume(gzip, Volume { gzip_indexes: true, ..bits(1, 2) });
    endless.dims[0].size = None;
    vec![
        of(Dialect::Zarr3, Codec::default()),
        Config { index_location: IndexLocation::Start, ..of(Dialect::Zarr3, plain(gzip)) },
        of(Dialect::Zarr3Transformer, plain(Compressor::Zstd { level: 3 })),
        Config { placement: Placement::Packed, ..of(Dialect::Zarr2Sharded, plain(Compressor::default())) },
        volume(Compressor::None, Volume { voxel_offset: [3, -4, 5], key: Some("fine".into()), ..bits(2, 1) }),
        endless,
        volume(gzip, Volume { hash: HASH, shard_bits: Some(2), ..bits(1, 1) }),
    ]
}

const DIALECTS: &[Dialect] = Dialect::ALL;

/// What is asked for on the way into a dialect.
fn choices(to: Dialect) -> Vec<RepackOptions> {
    let options = |codec: Compressor| RepackOptions {
        dialect: Some(to),
        codec: Some(Codec { compressor: codec, checksum: to == Dialect::Zarr3 }),
        shard: if to == Dialect::Zarr2 { Vec::new() } else { vec![4, 32, 48] },
        ..options()
    };
    let gzip = Compressor::Gzip { level: 6 };
    if to == Dialect::Precomputed {
        let volume = |codec, volume| RepackOptions { volume, shard: Vec::new(), ..options(codec) };
        let hashed = Volume { hash: HASH, shard_bits: Some(1), gzip_indexes: true, ..Volume::default() };
        return vec![
            volume(Compressor::None, Volume::default()),
            RepackOptions { order: ChunkOrder::Morton, ..volume(gzip, hashed) },
            RepackOptions {
                chunk: vec![3, 7, 11],
                order: ChunkOrder::Kept,
                ..volume(gzip, Volume { preshift_bits: Some(1), minishard_bits: Some(2), ..Volume::default() })
            },
        ];
    }
    if to == Dialect::Zarr2 {
        return vec![options(gzip), RepackOptions { chunk: vec![3, 7, 11], ..options(Compressor::None) }];
    }
    vec![
        options(gzip),
        RepackOptions { order: ChunkOrder::Morton, ..options(Compressor::default()) },
        RepackOptions { chunk: vec![3, 7, 11], shard: vec![6, 21, 33], ..options(Compressor::None) },
    ]
}

/// Checks that `path` is `source` once more, of this dialect and without gaps.
fn assert_same(path: &Path, source: &Path, dialect: Dialect, what: &str) {
    // A group of Zarr v3 names its image only in OME-Zarr's words.
    let open = |path: &Path| Array::open(path).or_else(|_| Array::open(path.join("0"))).unwrap();
    let (array, before) = (open(path), open(source));
    assert_eq!((array.shape(), array.dtype()), (before.shape(), before.dtype()), "{what}");
    assert_eq!(array.dimension_names(), before.dimension_names(), "{what}");
    assert!(array.read_all().unwrap() == before.read_all().unwrap(), "{what}");
    let described = image(path);
    let format = match dialect {
        Dialect::Zarr3 => "Zarr v3",
        Dialect::Zarr3Transformer => "Zarr v3, draft of 2022",
        Dialect::Zarr2Sharded => "Zarr v2 with shards",
        Dialect::Zarr2 => "Zarr v2",
        _ => "precomputed volume",
    };
    assert!(described.format.starts_with(format), "{what}: {}", described.format);
    assert!(described.gap_bytes <= 4096 && described.damaged.is_empty(), "{what}: {} of gaps", described.gap_bytes);
    assert_sound(path);
    let records = |path: &Path| pixels(&path.join("records/frame_number"));
    assert!(records(path) == records(source), "{what}");
    assert_eq!(describe(path).unwrap().complete, Some(true), "{what}");
    match recovered(path, false) {
        Ok(recovery) => assert!(!recovery.is_needed(), "{what}: {recovery:?}"),
        // Of a volume, it is not known any more whose it is.
        Err(error) => assert!(error.to_string().contains("slot headers"), "{what}: {error}"),
    }
}

#[test]
fn every_dialect_becomes_every_other() {
    for source in sources() {
        let folder = tempfile::tempdir().unwrap();
        let path = movie(folder.path(), &source);
        let before = crate::common::stopped::files(&path);
        for &to in DIALECTS {
            for (number, chosen) in choices(to).into_iter().enumerate() {
                let out = folder.path().join(format!("{}{number}", to.name()));
                let what = format!("{:?} {:?} to {chosen:?}", source.dialect, source.volume);
                let summary = repack(&path, Some(&out), &chosen);
                assert!(summary.chunks > 0, "{what}");
                assert_same(&out, &path, to, &what);
                if !chosen.chunk.is_empty() {
                    assert_eq!(image(&out).chunk_shape, chosen.chunk, "{what}");
                }
                // And back again, which nothing is lost by.
                let back = folder.path().join("back");
                repack(
                    &out,
                    Some(&back),
                    &RepackOptions { shard: vec![6, 84, 132], chunk: vec![2, 4, 4], ..options() },
                );
                assert_same(&back, &path, Dialect::Zarr3, &what);
                assert!(!back.join(".zgroup").exists() && back.join("zarr.json").exists(), "{what}");
                fs::remove_dir_all(&back).unwrap();
                fs::remove_dir_all(&out).unwrap();
            }
        }
        assert!(crate::common::stopped::files(&path) == before, "the source has changed");
    }
}

#[test]
fn what_is_not_asked_for_stays_as_it_is() {
    for source in sources() {
        let folder = tempfile::tempdir().unwrap();
        let path = movie(folder.path(), &source);
        let options = RepackOptions { dialect: Some(source.dialect), ..options() };
        let what = format!("{:?} {:?}", source.dialect, source.volume);
        let copy = folder.path().join("copy");
        copy_tree(&path, &copy);
        let out = folder.path().join("out");
        let before = Array::open(&copy).unwrap();
        for target in [Some(&*out), None] {
            let summary = repack(&path, target, &options);
            assert!(summary.shards_written > 0, "{what}");
            let result = target.unwrap_or(&path);
            assert_same(result, &copy, source.dialect, &what);
            let array = Array::open(result).unwrap();
            assert_eq!(array.codec(), before.codec(), "{what}");
            assert_eq!(
                (array.chunk_shape(), array.shard_shape()),
                (before.chunk_shape(), before.shard_shape()),
                "{what}"
            );
            assert_eq!(attributes(result), attributes(&copy), "{what}");
            assert_eq!(files_but_receipt(result), files(&copy), "{what}");
        }
        // Once more, there is nothing to do.
        let again = repack(&path, None, &options);
        assert_eq!((again.shards_written, again.chunks), (0, 0), "{what}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "{what}");
    }
}

#[test]
fn other_dialects_change_in_place_where_their_names_stay() {
    for source in sources() {
        let folder = tempfile::tempdir().unwrap();
        let path = movie(folder.path(), &source);
        let copy = folder.path().join("copy");
        copy_tree(&path, &copy);
        for to in DIALECTS.iter().copied().filter(|to| *to != source.dialect) {
            let error = Repack::new(&path, None, &choices(to)[0]).unwrap_err().to_string();
            assert!(error.contains("to a new dataset"), "{error}");
        }
        fs::write(path.join("notes.txt"), "keep me").unwrap();
        for chosen in choices(source.dialect) {
            let what = format!("{:?} {:?} to {chosen:?}", source.dialect, source.volume);
            repack(&path, None, &chosen);
            assert_same(&path, &copy, source.dialect, &what);
            assert_eq!(fs::read_to_string(path.join("notes.txt")).unwrap(), "keep me");
            let again = repack(&path, None, &chosen);
            assert_eq!((again.shards_written, again.chunks), (0, 0), "{what}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "{what}");
        }
    }
}

/// What OME-Zarr says of the axes becomes what a volume says of them.
#[test]
fn scales_channels_and_attributes_go_along() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ome.zarr");
    let config = Config {
        dims: vec![
            Dim::channel(2),
            Dim::z(5).chunk(2).scale(1.5, "micrometer"),
            Dim::y(20).chunk(8).scale(0.325, "micrometer"),
            Dim::x(24).chunk(10).scale(0.25, "micrometer"),
        ],
        ring_bytes: 8 << 20,
        ..config()
    };
    let acquisition = Acquisition::create(&path, config.clone()).unwrap();
    acquisition.set_attribute("sample", json!({"name": "a leaf"})).unwrap();
    (0..10).for_each(|number| crate::common::stopped::commit(&acquisition, &config, number));
    acquisition.finish().unwrap();
    let volume = folder.path().join("volume");
    let chosen = RepackOptions {
        dialect: Some(Dialect::Precomputed),
        codec: Some(plain(Compressor::Gzip { level: 1 })),
        ..options()
    };
    repack(&path, Some(&volume), &chosen);
    assert_same(&volume, &path, Dialect::Precomputed, "channels");
    let info: Value = serde_json::from_slice(&fs::read(volume.join("info")).unwrap()).unwrap();
    assert_eq!(info["num_channels"], 2);
    assert_eq!((&info["scales"][0]["key"], &info["scales"][0]["size"]), (&json!("250_325_1500"), &json!([24, 20, 5])));
    assert_eq!(info["attributes"]["sample"]["name"], "a leaf");
    for (dialect, codec) in [(Dialect::Zarr3Transformer, Compressor::None), (Dialect::Zarr2Sharded, Compressor::Lz4)] {
        let (there, back) = (folder.path().join(dialect.name()), folder.path().join("back"));
        repack(
            &volume,
            Some(&there),
            &RepackOptions { dialect: Some(dialect), codec: Some(plain(codec)), ..options() },
        );
        assert_same(&there, &path, dialect, "channels");
        repack(&there, Some(&back), &options());
        assert_same(&back, &path, Dialect::Zarr3, "channels");
        let (old, new) = (describe(&path).unwrap().attributes, describe(&back).unwrap().attributes);
        assert_eq!((&new["ome"], &new["sample"]), (&old["ome"], &old["sample"]));
        fs::remove_dir_all(&back).unwrap();
    }
}

#[test]
fn what_a_dialect_can_t_hold_is_refused_with_what_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let out = folder.path().join("new");
    let refused = |options: RepackOptions| {
        let error = Repack::new(&path, Some(&out), &options).unwrap_err().to_string();
        assert!(!out.exists());
        error
    };
    let to = |dialect| RepackOptions { dialect: Some(dialect), ..options() };
    let volume = || to(Dialect::Precomputed);
    let zstd = |checksum| Some(Codec { compressor: Compressor::Zstd { level: 1 }, checksum });
    let cases = [
        (RepackOptions { codec: zstd(false), ..volume() }, "none and gzip are possible"),
        // As it is: Blosc.
        (volume(), "none and gzip are possible"),
        (RepackOptions { codec: zstd(true), ..to(Dialect::Zarr2Sharded) }, "checksum"),
        (RepackOptions { index_location: Some(IndexLocation::Start), ..to(Dialect::Zarr2Sharded) }, "at end"),
        (
            RepackOptions { volume: Volume { hash: HASH, ..Volume::default() }, ..to(Dialect::Zarr3Transformer) },
            "precomputed",
        ),
        (RepackOptions { volume: Volume { hash: HASH, ..Volume::default() }, ..to(Dialect::Zarr3) }, "precomputed"),
        (RepackOptions { codec: Some(plain(Compressor::None)), shard: vec![4, 32, 48], ..volume() }, "2^n"),
    ];
    for (options, evidence) in cases {
        let error = refused(options);
        assert!(error.contains(evidence), "{error:?} lacks {evidence:?}");
    }
    let f64s = Config { dtype: Dtype::F64, fill_value: 3.into(), ..config() };
    let path = folder.path().join("f64");
    finished(&path, &f64s, &[0]);
    let codec = Some(plain(Compressor::None));
    let error = Repack::new(&path, Some(&out), &RepackOptions { codec, ..volume() }).unwrap_err().to_string();
    assert!(error.contains("float64, which precomputed can't hold; zarr3,"), "{error}");
    // Two images.
    let several = folder.path().join("several");
    fs::create_dir(&several).unwrap();
    copy_tree(&folder.path().join("movie.ome.zarr"), &several);
    copy_tree(&several.join("0"), &several.join("1"));
    let error = Repack::new(&several, Some(&out), &to(Dialect::Zarr2Sharded)).unwrap_err().to_string();
    assert!(error.contains("repacks one array") && error.contains("\"1\""), "{error}");
    repack(&several.join("1"), Some(&out), &to(Dialect::Zarr2Sharded));
    assert!(pixels(&out) == pixels(&several.join("1")));
}

#[test]
fn a_shard_s_index_gets_and_loses_its_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let path = movie(folder.path(), &config());
    let expected = pixels(&path);
    let checksum = || {
        let document: Value = serde_json::from_slice(&fs::read(path.join("0/zarr.json")).unwrap()).unwrap();
        document["codecs"][0]["configuration"]["index_codecs"].as_array().unwrap().len() == 2
    };
    for requested in [false, true, false] {
        repack(&path, None, &RepackOptions { index_checksum: Some(requested), ..options() });
        assert_eq!(checksum(), requested);
        assert!(pixels(&path) == expected);
    }
}
