//! The bytes of every format, as they were when readers of other people last agreed with them: what is written, what
//! `repack`, `recover` and the manifests make of it, and what the store shows.
//!
//! Each case is a text file in `tests/it/golden`: documents as they are, other files in hexadecimal, repeated rows left
//! out, and a checksum of each, which sees these, too. Where a change of bytes is meant, `SHARDWRIGHT_GOLDEN=write`
//! rewrites the files; look at the difference, and let the readers in Python judge it.

mod dump;

use crate::common::{manifests, recovered};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::cases::compressors;
use dump::{Dump, JOURNAL, compare, digest, dump, files, headline, hexadecimal, mask, mask_archive, readable, writers};
use shardwright::offline::{ChunkOrder, ManifestOptions, Repack, RepackOptions, Store, describe, manifest_path};
use shardwright::{
    Acquisition, Channel, Codec, Compressor, Config, Dataset, Dialect, Dim, Downsampling, Dtype, IndexLocation,
    Placement, Plate, PyramidMethod, Record, StorageKind, Volume, VolumeHash,
};

/// Those that an acquisition writes.
const DIALECTS: [Dialect; 4] = [Dialect::Zarr3, Dialect::Zarr3Transformer, Dialect::Zarr2Sharded, Dialect::Precomputed];
/// Those that the tools write and read.
const ALL_DIALECTS: [Dialect; 5] = [DIALECTS[0], DIALECTS[1], DIALECTS[2], Dialect::Zarr2, DIALECTS[3]];

fn config(dialect: Dialect, size: Option<u64>) -> Config {
    let time = match size {
        Some(size) => Dim::time(size).chunk(2).shard(4),
        None => Dim::time(None).chunk(2).shard(4),
    };
    let dims = vec![time, Dim::y(5).chunk(4).shard(8), Dim::x(6).chunk(4).shard(8)];
    let codec = Codec { compressor: Compressor::None, checksum: false };
    Config {
        dialect,
        dtype: Dtype::U16,
        dims,
        codec,
        workers: 1,
        ring_bytes: 1 << 20,
        sync: false,
        storage: StorageKind::Buffered,
        ..Config::default()
    }
}

fn volume(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = config(Dialect::Precomputed, Some(6));
    for dim in &mut config.dims {
        dim.shard = 0;
    }
    change(&mut config);
    config
}

/// Half of each frame is noise, so that there is something to compress.
fn pixels(config: &Config, number: u64) -> Vec<u8> {
    let frame: u64 = config.dims[config.dims.len() - 2..].iter().map(|dim| dim.size.unwrap()).product();
    let bytes = frame as usize * config.dtype.size();
    let mut pixels = crate::common::frame(number, bytes);
    pixels[bytes / 2..].fill(number as u8);
    pixels
}

fn fill(acquisition: &Acquisition, config: &Config, numbers: &[u64]) {
    for &number in numbers {
        let mut frame = acquisition.acquire().unwrap();
        let pixels = pixels(config, number);
        frame[..pixels.len()].copy_from_slice(&pixels);
        let mut record = Record::default();
        (record.device_timestamp, record.host_timestamp) = (Some(10 * number), Some(number as i64));
        frame.commit(number, record).unwrap();
    }
}

fn acquire(path: &Path, config: &Config, numbers: &[u64]) {
    let acquisition = Acquisition::create(path, config.clone()).unwrap();
    acquisition.set_attribute("sample", "gold".into()).unwrap();
    fill(&acquisition, config, numbers);
    acquisition.finish().unwrap();
}

/// Runs each configuration and dumps what it leaves.
fn compare_runs(name: &str, cases: Vec<(String, Config, Vec<u64>)>) {
    compare(name, runs(cases, dump));
}

fn runs(cases: Vec<(String, Config, Vec<u64>)>, dump: fn(&Path) -> String) -> Vec<Dump> {
    let folder = tempfile::tempdir().unwrap();
    let run = |(case, config, numbers): (String, Config, Vec<u64>)| {
        let path = folder.path().join(&case);
        acquire(&path, &config, &numbers);
        (case, dump(&path))
    };
    cases.into_iter().map(run).collect()
}

#[test]
fn dialects_and_placements() {
    let mut cases = Vec::new();
    for dialect in DIALECTS {
        for placement in [Placement::Fixed, Placement::Packed] {
            for size in [Some(6), None] {
                let base = if dialect == Dialect::Precomputed && size.is_some() {
                    volume(|_| {})
                } else {
                    let mut base = config(dialect, size);
                    if dialect == Dialect::Precomputed {
                        base.dims.iter_mut().for_each(|dim| dim.shard = 0);
                    }
                    base
                };
                let config = Config { placement, ..base };
                let end = if size.is_some() { "bounded" } else { "unbounded" };
                let name = format!("{}-{placement:?}-{end}", dialect.name()).to_lowercase();
                cases.push((name, config, vec![0, 1, 2, 3, 5]));
            }
        }
    }
    compare_runs("dialects", cases);
}

#[test]
fn indexes_and_checksums() {
    let mut cases = Vec::new();
    for location in [IndexLocation::Start, IndexLocation::End] {
        for index_checksum in [false, true] {
            for checksum in [false, true] {
                let codec = Codec { compressor: Compressor::None, checksum };
                let base = config(Dialect::Zarr3, Some(6));
                let config = Config { codec, index_location: location, index_checksum, ..base };
                cases.push((format!("{location:?}-{index_checksum}-{checksum}"), config, vec![0, 1, 2, 3, 4]));
            }
        }
    }
    compare_runs("indexes", cases);
}

#[test]
fn codecs() {
    let mut cases = Vec::new();
    for (at, compressor) in compressors().into_iter().enumerate() {
        for dialect in DIALECTS {
            let codec = Codec { compressor, checksum: dialect == Dialect::Zarr3 };
            let known =
                dialect != Dialect::Precomputed || matches!(compressor, Compressor::None | Compressor::Gzip { .. });
            let base = if dialect == Dialect::Precomputed { volume(|_| {}) } else { config(dialect, Some(4)) };
            let config = Config { codec, ..base };
            let kind = serde_json::to_value(compressor).unwrap()["name"].as_str().unwrap().to_owned();
            let name = format!("{at}-{kind}-{}", dialect.name());
            cases.extend(known.then_some((name, config, vec![0, 1])));
        }
    }
    let placed = |placement: Placement| {
        let case = |(name, config, numbers): &(String, Config, Vec<u64>)| {
            (format!("{name}-{placement:?}").to_lowercase(), Config { placement, ..config.clone() }, numbers.clone())
        };
        cases.iter().map(case).collect()
    };
    let (fixed, packed) = (placed(Placement::Fixed), placed(Placement::Packed));
    let digests = [runs(fixed, digest), runs(packed, digest)].concat();
    compare("codecs_by_placement", digests);
    compare_runs("codecs", cases);
}

#[test]
fn types_and_fill_values() {
    let mut cases = Vec::new();
    for (dtype, fill_value) in [
        (Dtype::U8, 7.0),
        (Dtype::I8, -7.0),
        (Dtype::I16, -300.0),
        (Dtype::U32, 70000.0),
        (Dtype::I32, -70000.0),
        (Dtype::U64, 9_007_199_254_740_992.0),
        (Dtype::I64, -1.0),
        (Dtype::F32, f64::NAN),
        (Dtype::F32, 0.1),
        (Dtype::F64, f64::NEG_INFINITY),
    ] {
        for dialect in DIALECTS.into_iter().filter(|dialect| *dialect != Dialect::Precomputed) {
            let name = format!("{dtype}-{fill_value}-{}", dialect.name());
            cases.push((name, Config { dtype, fill_value: fill_value.into(), ..config(dialect, Some(4)) }, vec![0, 3]));
        }
    }
    compare_runs("types", cases);
}

#[test]
fn volumes() {
    let hashed = Volume { hash: VolumeHash::Murmurhash3X86_128, shard_bits: Some(1), ..Volume::default() };
    let few = Volume { preshift_bits: Some(1), minishard_bits: Some(1), shard_bits: Some(1), ..Volume::default() };
    let placed = Volume { voxel_offset: [10, 20, -30], resolution: Some([8.0, 8.0, 40.0]), ..Volume::default() };
    let zipped = Volume { gzip_indexes: true, minishard_bits: Some(1), preshift_bits: Some(1), ..Volume::default() };
    let keyed = Volume { key: Some("finest".into()), ..Volume::default() };
    let cases = [("hashed", hashed), ("few-bits", few), ("placed", placed), ("zipped", zipped), ("keyed", keyed)];
    let mut cases: Vec<_> = cases
        .into_iter()
        .map(|(name, settings)| (name.to_owned(), volume(|config| config.volume = settings), vec![0, 1, 2, 4]))
        .collect();
    let channels = volume(|config| config.dims.insert(1, Dim::channel(2)));
    cases.push(("channels".into(), channels, (0..12).filter(|number| *number != 3).collect()));
    compare_runs("volumes", cases);
}

#[test]
fn orders_and_images() {
    let order = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let dims = || {
        let [y, x] = [Dim::y(5).chunk(4).scale(0.325, "micrometer"), Dim::x(6).chunk(4).scale(0.325, "micrometer")];
        let z = Dim::z(3).chunk(2).shard(4).scale(2.0, "micrometer");
        vec![Dim::time(2).scale(0.5, "second"), Dim::channel(2), z, y, x]
    };
    let channel = |label: &str| Channel { label: label.into(), color: "00FF00".into(), window: Some((1.0, 2.0)) };
    let mut cases = Vec::new();
    for dialect in DIALECTS.into_iter().filter(|dialect| *dialect != Dialect::Precomputed) {
        for names in [&["t", "c", "z"], &["t", "z", "c"], &["c", "t", "z"]] {
            let base = Config { dims: dims(), acquisition_order: order(names), ..config(dialect, None) };
            let config =
                Config { channels: vec![channel("DAPI"), channel("GFP")], name: Some("two colours".into()), ..base };
            cases.push((format!("{}-{}", dialect.name(), names.join("")), config, (0..12).collect()));
        }
    }
    compare_runs("orders", cases);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("several");
    let dataset = Dataset::create(&path).unwrap();
    for (name, dialect) in [("left", Dialect::Zarr3), ("right", Dialect::Zarr3)] {
        let config = config(dialect, Some(4));
        let acquisition = dataset.acquisition(name, config.clone()).unwrap();
        fill(&acquisition, &config, &[0, 1, 2, 3]);
        acquisition.finish().unwrap();
    }
    compare("images", vec![("several".into(), dump(&path))]);
}

/// A plate in a folder, with two levels of each image, and one in an archive, without: with levels, who comes first
/// there is a matter of time.
#[test]
fn plates_and_levels() {
    let folder = tempfile::tempdir().unwrap();
    let mut dumps = Vec::new();
    for name in ["plate.ome.zarr", "plate.ozx"] {
        let path = folder.path().join(name);
        let plate = Plate::new(2, 2).named("assay").acquisition(3, "before");
        let dataset = Dataset::create(&path).unwrap().with_plate(plate).unwrap();
        let mut config = config(Dialect::Zarr3, Some(4));
        config.pyramid =
            Some(Downsampling { method: PyramidMethod::Median, levels: Some(1), ..Downsampling::default() });
        for well in ["B/1/0", "A/2/0"] {
            let acquisition = dataset.acquisition(well, config.clone()).unwrap();
            fill(&acquisition, &config, &[0, 1, 3]);
            acquisition.finish().unwrap();
        }
        if name.ends_with(".ozx") {
            let mut bytes = fs::read(&path).unwrap();
            mask_archive(&mut bytes);
            dumps.push((name.to_owned(), headline(Path::new(name), &bytes) + &hexadecimal(&bytes)));
        } else {
            dumps.push((name.to_owned(), dump(&path)));
        }
    }
    compare("plates", dumps);
}

fn source(folder: &Path, dialect: Dialect) -> PathBuf {
    let path = folder.join(dialect.name());
    if dialect == Dialect::Zarr2 {
        // No acquisition writes one.
        let whole = folder.join("whole");
        acquire(&whole, &config(Dialect::Zarr3, Some(6)), &[0, 1, 2, 3, 5]);
        let options = RepackOptions {
            dialect: Some(dialect),
            workers: 1,
            sync: false,
            reflink: false,
            ..RepackOptions::default()
        };
        Repack::new(&whole, Some(&path), &options).unwrap().run().unwrap();
        fs::remove_dir_all(whole).unwrap();
        return path;
    }
    let base = if dialect == Dialect::Precomputed { volume(|_| {}) } else { config(dialect, Some(6)) };
    acquire(&path, &base, &[0, 1, 2, 3, 5]);
    path
}

#[test]
fn repacked() {
    let folder = tempfile::tempdir().unwrap();
    let mut dumps = Vec::new();
    for from in ALL_DIALECTS {
        let path = source(folder.path(), from);
        for to in ALL_DIALECTS {
            for (what, options) in [
                ("as-it-is", RepackOptions::default()),
                ("morton", RepackOptions { order: ChunkOrder::Morton, ..RepackOptions::default() }),
                (
                    "gzip",
                    RepackOptions { codec: Some(Compressor::Gzip { level: 1 }.into()), ..RepackOptions::default() },
                ),
                ("recut", RepackOptions { chunk: vec![1, 5, 3], ..RepackOptions::default() }),
            ] {
                let name = format!("{}-to-{}-{what}", from.name(), to.name());
                let target = folder.path().join(&name);
                let options = RepackOptions { dialect: Some(to), workers: 1, sync: false, reflink: false, ..options };
                let options = match (&options.codec, to) {
                    (Some(_), Dialect::Zarr3) | (None, _) => options,
                    (Some(codec), _) => RepackOptions { codec: Some(Codec { checksum: false, ..*codec }), ..options },
                };
                match Repack::new(&path, Some(&target), &options).and_then(|repack| repack.run()) {
                    Ok(_) => dumps.push((name, dump(&target))),
                    Err(error) => {
                        let told = error.to_string().replace(&*folder.path().to_string_lossy(), "");
                        dumps.push((name, format!("{told}\n")));
                    }
                }
            }
        }
    }
    compare("repacked", dumps);
}

#[test]
fn manifests_and_store() {
    let folder = tempfile::tempdir().unwrap();
    let mut dumps = Vec::new();
    for dialect in ALL_DIALECTS {
        let path = source(folder.path(), dialect);
        let prefix =
            ManifestOptions { url_prefix: Some("https://example.org/run".into()), ..ManifestOptions::default() };
        for kerchunk_zarr_format in [2, 3] {
            let options = ManifestOptions { kerchunk_zarr_format, overwrite: true, ..prefix.clone() };
            let name = format!("{}-manifest-{kerchunk_zarr_format}", dialect.name());
            let text = match manifests(&path, &manifest_path(&path), &options) {
                Ok(summary) => format!("{summary:?}\n{}", dump(&manifest_path(&path))),
                Err(error) => format!("{}\n", error.to_string().replace(&*folder.path().to_string_lossy(), "")),
            };
            dumps.push((name, text));
        }
        let store = Store::open(&path).unwrap();
        let mut text = String::new();
        let writers = writers(&path, &files(&path, &path));
        for key in store.list().unwrap().into_iter().filter(|key| !key.ends_with(JOURNAL)) {
            let mut value = store.get(&key).unwrap().unwrap();
            mask(&mut value, &writers);
            write!(text, "== {key}\n{}", readable(&value)).unwrap();
        }
        dumps.push((format!("{}-store", dialect.name()), text));
        let description = serde_json::to_string_pretty(&describe(&path).unwrap()).unwrap();
        let mut description = description.into_bytes();
        mask(&mut description, &writers);
        let description = String::from_utf8(description).unwrap();
        let description: Vec<_> = description.lines().filter(|line| !line.contains("bytes_on_disk")).collect();
        dumps.push((format!("{}-description", dialect.name()), description.join("\n") + "\n"));
    }
    compare("views", dumps);
}

#[test]
fn what_recover_makes() {
    let folder = tempfile::tempdir().unwrap();
    let mut dumps = Vec::new();
    for dialect in DIALECTS {
        let path = source(folder.path(), dialect);
        let shards: Vec<_> = files(&path, &path)
            .into_iter()
            .filter(|file| fs::read(path.join(file)).unwrap().windows(4).any(|bytes| bytes == b"SWc1"))
            .collect();
        for shard in &shards {
            let shard = path.join(shard);
            let mut bytes = fs::read(&shard).unwrap();
            let end = bytes.len().saturating_sub(140);
            bytes[end..].fill(0xEE);
            // The head of a volume's shard.
            if !bytes.starts_with(b"SWc1") {
                bytes[..16].fill(0xEE);
            }
            fs::write(&shard, bytes).unwrap();
        }
        let recovery = recovered(&path, true).unwrap();
        dumps.push((dialect.name().to_owned(), format!("{recovery:#?}\n{}", dump(&path))));
    }
    compare("recovered", dumps);
}
