//! Levels that a stopped run left behind level 0, as when a camera paused in the middle of a chunk: recovered, they are
//! what `pyramid` makes of level 0, at whatever moment a recovery is stopped.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use shardwright::offline::{
    Array, Finding, Pyramid, PyramidOptions, Recovery, Repack, RepackOptions, Severity, Verification,
};
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dim, Downsampling, Dtype, IndexLocation, Placement, PyramidMethod,
    StorageKind,
};

use crate::common::stopped::{self, commit, copy_tree, files, finished, restore, sound};
use crate::common::storage::wait_until;
use crate::common::{checked, frame, recovered, zip};
use crate::levels_in_depth::{as_the_tool_makes_them, case};

const OFTEN: Duration = Duration::from_millis(10);
const CASES_MAX: u32 = 4;
static CASES: AtomicU32 = AtomicU32::new(0);

/// Recovers a dataset and expects levels that lack nothing.
fn made_whole(path: &Path, downsampling: &Downsampling) -> Recovery {
    let seen = recovered(path, false).unwrap();
    let found = recovered(path, true).unwrap();
    for (would, did) in seen.images.iter().zip(&found.images) {
        assert_eq!((would.frames_made, &would.missing), (did.frames_made, &did.missing), "{}", did.path);
        assert_eq!(did.behind, None);
    }
    as_the_tool_makes_them(path, downsampling);
    let after = files(path);
    let again = recovered(path, true).unwrap();
    assert!(!again.is_needed() && files(path) == after, "a second recovery has changed something: {again:#?}");
    sound(path);
    found
}

/// What a kill in the middle of a recovery may leave, of a file that it changed: a copy of the index of this many bytes
/// behind room for chunks, some of them, and all but the new index.
fn halfway(before: &[u8], after: &[u8], index_bytes: usize, at: usize) -> Vec<u8> {
    let mut grown = before.to_vec();
    grown.resize(before.len().max(after.len()) + 8 * (at % 100), 0);
    let cut = (before.len() + at % 1000).min(after.len());
    if cut > before.len() {
        grown[before.len()..cut].copy_from_slice(&after[before.len()..cut]);
    }
    grown.extend_from_slice(&before[before.len() - index_bytes..]);
    grown
}

/// Of the shards of an array whose indexes stand at the end.
fn index_bytes(array: &Array) -> usize {
    let chunks = array.shard_shape().unwrap().iter().zip(array.chunk_shape()).map(|(shard, chunk)| shard / chunk);
    16 * chunks.product::<u64>() as usize + 4
}

fn is_document(path: &Path) -> bool {
    path.extension().is_some() || path.starts_with("records")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES_MAX, ..ProptestConfig::default() })]

    #[test]
    fn any_run_that_is_stopped_gets_its_levels_back(
        case in case(),
        placement in prop::sample::select(vec![Placement::Fixed, Placement::Packed]),
        is_at_start in prop::bool::weighted(0.25),
        stops in prop::collection::vec(0usize..100_000, 3),
    ) {
        let index_location = if is_at_start { IndexLocation::Start } else { IndexLocation::End };
        let config = Config { placement, index_location, checkpoint_every: OFTEN, ..case.config() };
        let (numbers, downsampling) = (case.numbers(), config.pyramid.clone().unwrap());
        prop_assume!(!numbers.is_empty());
        // The environment may ask all properties for more, and each of these waits for checkpoints.
        if CASES.fetch_add(1, Relaxed) >= CASES_MAX {
            return Ok(());
        }
        let folder = tempfile::tempdir().unwrap();
        let path = stopped::stopped(folder.path(), &config, &numbers, 0);
        let before = files(&path);
        let found = made_whole(&path, &downsampling);
        let finest = &found.images[0];
        let there = numbers.len() as u64;
        prop_assert!(is_at_start || finest.frames - finest.frames_missing >= there, "{:#?}", finest);
        let after = files(&path);
        let changed: Vec<&PathBuf> = after.iter().filter(|(path, bytes)| before.get(*path) != Some(bytes))
            .map(|(path, _)| path).collect();
        // Documents come first.
        let (documents, shards): (Vec<_>, Vec<_>) = changed.into_iter().partition(|path| is_document(path));
        for stop in stops {
            let mut left: BTreeMap<PathBuf, Vec<u8>> = before.clone();
            left.extend(documents.iter().map(|&path| (path.clone(), after[path].clone())));
            let count = stop % (shards.len() + 1);
            left.extend(shards[..count].iter().map(|&path| (path.clone(), after[path].clone())));
            let dataset = &path;
            if let Some((path, before)) = shards.get(count).and_then(|&path| Some((path, before.get(path)?))) {
                let array = Array::open(dataset.join(path.components().next().unwrap())).unwrap();
                let index_bytes = if is_at_start { 0 } else { index_bytes(&array) };
                left.insert(path.clone(), halfway(before, &after[path], index_bytes, stop));
            }
            restore(&path, &left);
            let recovery = recovered(&path, true).unwrap();
            as_the_tool_makes_them(&path, &downsampling);
            sound(&path);
            for (image, first) in recovery.images.iter().zip(&found.images) {
                prop_assert_eq!((image.frames, &image.missing), (first.frames, &first.missing), "{}", image.path);
            }
        }
    }
}

fn paused(base: Config) -> (Config, Downsampling) {
    let downsampling = Downsampling { levels: Some(2), method: PyramidMethod::Max, ..Downsampling::default() };
    let config = Config {
        dtype: Dtype::U16,
        dims: vec![Dim::time(None).chunk(8).shard(16), Dim::y(37).chunk(8).shard(16), Dim::x(23).chunk(9).shard(18)],
        pyramid: Some(downsampling.clone()),
        ring_bytes: 1 << 20,
        workers: 2,
        checkpoint_every: OFTEN,
        ..base
    };
    (config, downsampling)
}

/// A run that paused with these frames, and was killed.
fn killed(folder: &Path, name: &str, config: &Config, numbers: &[u64]) -> PathBuf {
    let (live, left) = (folder.join(format!("live-{name}")), folder.join(name));
    let acquisition = Acquisition::create(&live, config.clone()).unwrap();
    numbers.iter().for_each(|&number| commit(&acquisition, config, number));
    if live.is_dir() {
        wait_until(name, || acquisition.stats().frames_durable == numbers.len() as u64);
        copy_tree(&live, &left);
    } else {
        wait_until(name, || acquisition.stats().frames_durable == numbers.len() as u64 / 8 * 8);
        fs::copy(&live, &left).unwrap();
    }
    acquisition.abort();
    left
}

#[test]
fn frames_of_a_pause_are_in_every_level_once_it_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    for (at, frames) in [3u64, 8, 13, 21].into_iter().enumerate() {
        for compressor in [Compressor::None, Compressor::default()] {
            let codec = Codec { compressor, checksum: at % 2 == 0 };
            let (config, downsampling) = paused(Config { codec, ..Config::default() });
            // The two before the last change places.
            let mut numbers: Vec<u64> = (0..frames).collect();
            numbers.swap(frames as usize - 3, frames as usize - 2);
            let name = format!("{at}-{}.ome.zarr", config.codec.compressor);
            let path = killed(folder.path(), &name, &config, &numbers);
            let found = made_whole(&path, &downsampling);
            for (level, image) in found.images.iter().enumerate() {
                assert_eq!((image.frames, image.frames_missing), (frames, 0), "{name}: {image:#?}");
                assert_eq!(image.shape[0], frames, "{name}");
                let behind = if level == 0 { 0 } else { frames % 8 };
                assert!(image.frames_made >= behind, "{name}: {image:#?}");
            }
            assert_eq!(crate::levels::compare(&path, &downsampling, true), 2, "{name}");
        }
    }
}

/// As a recovery leaves them that is stopped before it says what it has made, and one that made no levels.
#[test]
fn books_that_list_what_is_there_are_put_right() {
    let folder = tempfile::tempdir().unwrap();
    let (config, downsampling) = paused(Config::default());
    let path = killed(folder.path(), "run.ome.zarr", &config, &[0, 1, 2, 4, 5, 7, 8, 10]);
    let found = made_whole(&path, &downsampling);
    assert_eq!(found.images[1].missing, [3..4, 6..7, 9..10]);
    let after = files(&path);
    let document = path.join("1/zarr.json");
    let mut said: Value = serde_json::from_slice(&fs::read(&document).unwrap()).unwrap();
    let own = said.pointer_mut("/attributes/shardwright").unwrap();
    assert_eq!(own["chunks"], found.images[1].chunks);
    (own["missing"], own["frames_missing"]) = (json!([[0, 11]]), json!(11));
    fs::write(&document, serde_json::to_vec(&said).unwrap()).unwrap();
    assert!(recovered(&path, true).unwrap().is_needed());
    let same = |path: &Path| files(path).iter().all(|(name, bytes)| is_document(name) || after[name] == *bytes);
    assert!(same(&path));
    let again = made_whole(&path, &downsampling);
    assert_eq!(again.images[1].missing, [3..4, 6..7, 9..10]);

    // Of a level nothing is left, or not one of its shards.
    for gone in ["1/c", "1/c/0/1/0", "2/c/0/0/0"] {
        restore(&path, &after);
        let gone = path.join(gone);
        if gone.is_dir() {
            fs::remove_dir_all(gone).unwrap()
        } else {
            fs::remove_file(gone).unwrap()
        }
        let found = made_whole(&path, &downsampling);
        assert!(found.images[1..].iter().any(|image| image.frames_made > 0), "{found:#?}");
        assert!(files(&path).keys().eq(after.keys()), "{:?} {:?}", files(&path).keys(), after.keys());
    }
}

/// As a kill leaves an archive between the chunks of a level and those of the next: the headers of the coarsest level's
/// last chunks are not written.
#[test]
fn levels_of_an_archive_are_made_of_its_copy() {
    let folder = tempfile::tempdir().unwrap();
    let (config, downsampling) = paused(Config::default());
    let left = killed(folder.path(), "behind.ozx", &config, &(0..21).collect::<Vec<_>>());
    let mut bytes = fs::read(&left).unwrap();
    let mut headers: BTreeMap<Vec<u8>, Vec<(usize, u8)>> = BTreeMap::new();
    for at in (0..bytes.len() - 64).filter(|at| bytes[*at..].starts_with(b"SWc1\x01")) {
        headers.entry(bytes[at + 24..at + 40].to_vec()).or_default().push((at, bytes[at + 48]));
    }
    assert_eq!(headers.len(), 3);
    let coarsest = headers.values().min_by_key(|headers| headers.len()).unwrap();
    coarsest.iter().filter(|(_, first)| *first == 8).for_each(|(at, _)| bytes[*at..at + 64].fill(0));
    fs::write(&left, bytes).unwrap();
    let found = recovered(&left, true).unwrap();
    assert!(found.images[..2].iter().all(|image| image.behind.is_none()), "{found:#?}");
    let behind = found.images[2].behind.as_deref().unwrap_or_default();
    let said = "behind.ozx NEW.ome.zarr, and then shardwright pyramid NEW.ome.zarr --method max --levels 2 --overwrite \
                makes all levels again";
    assert!(behind.starts_with("lacks 8 frames that level 0 has; shardwright repack "), "{behind}");
    assert!(behind.ends_with(said), "{behind}");
    sound(&left);
    let new = folder.path().join("NEW.ome.zarr");
    let options = RepackOptions { sync: false, ..RepackOptions::default() };
    Repack::new(&left, Some(&new), &options).unwrap().run().unwrap();
    let options = PyramidOptions {
        method: Some(PyramidMethod::Max),
        levels: Some(2),
        overwrite: true,
        sync: false,
        ..PyramidOptions::default()
    };
    Pyramid::new(&new, &options).unwrap().run().unwrap();
    assert_eq!(crate::levels::compare(&new, &downsampling, true), 2);
    sound(&new);
}

#[test]
fn what_cannot_get_its_frames_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (config, _) = paused(Config::default());
    let path = killed(folder.path(), "run.ozx", &config, &(0..13).collect::<Vec<_>>());
    let lost = recovered(&path, true).unwrap();
    // Nothing is behind: in an archive, frames that wait are lost.
    assert!(lost.images.iter().all(|image| image.behind.is_none() && image.frames == 13), "{lost:#?}");

    // An array of which the document does not say how it was made.
    let (config, downsampling) = paused(Config::default());
    let path = killed(folder.path(), "run.ome.zarr", &config, &(0..13).collect::<Vec<_>>());
    let document = path.join("zarr.json");
    let said = fs::read_to_string(&document).unwrap();
    fs::write(&document, said.replace("\"type\": \"max\"", "\"type\": \"other\"")).unwrap();
    let found = recovered(&path, true).unwrap();
    for level in &found.images[1..] {
        let behind = level.behind.as_deref().unwrap_or_default();
        assert!(behind.starts_with("lacks 5 frames that level 0 has; shardwright pyramid "), "{behind}");
        assert!(behind.ends_with("run.ome.zarr --levels 2 --overwrite makes all levels again"), "{behind}");
        assert_eq!((level.frames_made, &level.missing[..]), (0, slice::from_ref(&(8..13))));
    }
    sound(&path);
    assert!(!recovered(&path, true).unwrap().is_needed());
    // Told how, it makes them.
    fs::write(&document, said).unwrap();
    made_whole(&path, &downsampling);
}

fn says_shape(path: &Path, level: usize, shape: &[u64]) {
    let document = path.join(level.to_string()).join("zarr.json");
    let mut said: Value = serde_json::from_slice(&fs::read(&document).unwrap()).unwrap();
    said["shape"] = json!(shape);
    fs::write(&document, serde_json::to_vec(&said).unwrap()).unwrap();
}

fn damage_of(found: &Verification, level: usize) -> Vec<&Finding> {
    let is_its = |finding: &&Finding| finding.severity == Severity::Damage && finding.path == level.to_string();
    found.findings.iter().filter(is_its).collect()
}

/// As by a stranger, or by a program that has changed one document of two.
#[test]
fn a_level_is_as_long_as_level_0_says() {
    let folder = tempfile::tempdir().unwrap();
    let (config, downsampling) = paused(Config::default());
    let numbers: Vec<u64> = (0..16).collect();
    for name in ["killed.ome.zarr", "finished.ome.zarr"] {
        let path = folder.path().join(name);
        match name {
            "killed.ome.zarr" => drop(killed(folder.path(), name, &config, &numbers)),
            _ => finished(&path, &config, &numbers),
        }
        made_whole(&path, &downsampling);
        // Of a finished run there is nothing to recover.
        let is_killed = name == "killed.ome.zarr";
        for wrong in [[40, 19, 12], [8, 19, 12]] {
            says_shape(&path, 1, &wrong);
            let found = checked(&path).unwrap();
            let said = format!(
                "has the shape {wrong:?}, which no level of 0 with [16, 37, 23] can have; the first number should be 16"
            );
            assert!(damage_of(&found, 1).iter().any(|finding| finding.what == said), "{name}: {:#?}", found.findings);
            if is_killed {
                let would = recovered(&path, false).unwrap();
                let level = &would.images[1];
                assert_eq!((&level.shape_before[..], &level.shape[..]), (&wrong[..], &[16, 19, 12][..]));
                assert_eq!(made_whole(&path, &downsampling).images[1].shape, [16, 19, 12]);
            }
        }
        // What no recovery can know is told.
        says_shape(&path, 1, &[16, 37, 20]);
        let found = checked(&path).unwrap();
        let said = "has the shape [16, 37, 20], which no level of 0 with [16, 37, 23] can have";
        assert!(damage_of(&found, 1).iter().any(|finding| finding.what.starts_with(said)), "{:#?}", found.findings);
    }
}

/// A chunk that took its last frames while a provisional one stood for it that has the same first and last.
#[test]
fn the_chunk_to_which_more_frames_came_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (config, _) = paused(Config {
        placement: Placement::Fixed,
        codec: Codec { compressor: Compressor::None, checksum: true },
        ..Config::default()
    });
    let config = Config { pyramid: None, ..config };
    let live = folder.path().join("live");
    let acquisition = Acquisition::create(&live, config.clone()).unwrap();
    let send = |number: u64| commit(&acquisition, &config, number);
    [0, 1, 2, 3, 4, 7].into_iter().for_each(send);
    wait_until("they are durable", || acquisition.stats().frames_durable == 6);
    let left = folder.path().join("left.zarr");
    copy_tree(&live, &left);
    [5, 6].into_iter().for_each(send);
    wait_until("they are in their slots", || acquisition.stats().frames_written == 8);
    // The slots as they are now, and all else as it was.
    let said: Value = serde_json::from_slice(&fs::read(left.join("zarr.json")).unwrap()).unwrap();
    let slots = said.pointer("/attributes/shardwright/slots").unwrap();
    let slots_end = slots["first_at"].as_u64().unwrap() + 8 * slots["bytes"].as_u64().unwrap();
    for (name, mut bytes) in files(&left).into_iter().filter(|(name, _)| name.starts_with("0/c")) {
        let now = fs::read(live.join(&name)).unwrap();
        bytes[..slots_end as usize].copy_from_slice(&now[..slots_end as usize]);
        fs::write(left.join(name), bytes).unwrap();
    }
    drop(acquisition);
    let found = recovered(&left, true).unwrap();
    assert_eq!((found.images[0].frames, found.images[0].frames_missing), (8, 0), "{found:#?}");
    let pixels = Array::open(left.join("0")).unwrap().read_all().unwrap();
    let sent: Vec<u8> = (0..8).flat_map(|number| crate::common::frame(number, 37 * 23 * 2)).collect();
    assert!(pixels == sent);
}

#[test]
fn a_recovered_pause_is_repacked_with_its_levels() {
    let folder = tempfile::tempdir().unwrap();
    let (config, downsampling) = paused(Config::default());
    let path = killed(folder.path(), "run.ome.zarr", &config, &(0..13).collect::<Vec<_>>());
    made_whole(&path, &downsampling);
    let out = folder.path().join("out.ome.zarr");
    Repack::new(&path, Some(&out), &RepackOptions { sync: false, ..RepackOptions::default() }).unwrap().run().unwrap();
    assert_eq!(crate::levels::compare(&out, &downsampling, true), 2);
    let straight = folder.path().join("straight.ome.zarr");
    finished(&straight, &config, &(0..13).collect::<Vec<_>>());
    for level in ["0", "1", "2"] {
        let read = |path: &Path| Array::open(path.join(level)).unwrap().read_all().unwrap();
        assert!(read(&out) == read(&straight), "level {level}");
    }
}

/// Shards whose index stands at the start are no longer when they are closed than before.
#[test]
fn a_recovered_archive_has_the_checksums_of_what_was_written_after_its_directory() {
    let folder = tempfile::tempdir().unwrap();
    let [live, left] = ["live.ozx", "left.ozx"].map(|name| folder.path().join(name));
    let dims = vec![Dim::time(None).chunk(1).shard(3), Dim::z(3), Dim::y(47).chunk(8), Dim::x(3)];
    let config = Config {
        dtype: Dtype::I16,
        dims,
        codec: Codec::from(Compressor::None),
        index_location: IndexLocation::Start,
        storage: StorageKind::Buffered,
        checkpoint_every: Duration::from_secs(1),
        pyramid: Some(Downsampling { method: PyramidMethod::Max, levels: Some(3), ..Downsampling::default() }),
        ring_bytes: 1 << 22,
        workers: 2,
        ..Config::default()
    };
    let run = Acquisition::create(&live, config).unwrap();
    for number in 0..60 {
        let _ = run.append(&frame(number + 1, 47 * 3 * 2)).unwrap();
    }
    wait_until("shards are closed", || run.stats().shards_closed >= 6);
    std::thread::sleep(Duration::from_millis(100));
    fs::copy(&live, &left).unwrap();
    run.abort();
    recovered(&left, true).unwrap();
    assert_eq!(zip::wrong(&left), [""; 0]);
    assert!(!recovered(&left, false).unwrap().is_needed());
}
