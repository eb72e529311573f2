//! A repacking that is killed, and called again.

use super::*;

/// The same pixels after any change that a child makes.
struct Way {
    name: &'static str,
    source: Dialect,
    options: RepackOptions,
    copies: bool,
}

/// What a child is asked to do: in place without a new document, in place with one, into a new dataset, into another
/// dialect, into files of one chunk.
fn ways() -> Vec<Way> {
    let zstd = Some(Codec::from(Compressor::Zstd { level: 3 }));
    let gzip = Some(plain(Compressor::Gzip { level: 1 }));
    let sync = || RepackOptions { workers: 2, memory_bytes: 8 << 20, ..RepackOptions::default() };
    let into = |dialect, codec| RepackOptions { dialect: Some(dialect), codec, ..sync() };
    let way = |name, source, options, copies| Way { name, source, options, copies };
    let unsharded = || RepackOptions { sharding: Sharding::Unsharded, ..sync() };
    let zarr3 = Dialect::Zarr3;
    vec![
        way("places", zarr3, sync(), false),
        way("codec", zarr3, RepackOptions { codec: zstd.clone(), ..sync() }, false),
        way("copy", zarr3, sync(), true),
        way("cut", zarr3, RepackOptions { codec: zstd, chunk: vec![4, 64, 64], ..sync() }, true),
        way("transformer", zarr3, into(Dialect::Zarr3Transformer, None), true),
        way("zarr2", zarr3, into(Dialect::Zarr2Sharded, gzip.clone()), true),
        way("unsharded", zarr3, RepackOptions { codec: gzip.clone(), ..unsharded() }, true),
        way("unsharded in place", zarr3, unsharded(), false),
        way("precomputed", zarr3, into(Dialect::Precomputed, gzip.clone()), true),
        way("zarr2 in place", Dialect::Zarr2Sharded, into(Dialect::Zarr2Sharded, gzip), false),
        way("places of zarr2", Dialect::Zarr2Sharded, into(Dialect::Zarr2Sharded, None), false),
    ]
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_repacks() {
    let folder = PathBuf::from(env::var_os("SHARDWRIGHT_TEST_PATH").expect("another test sets it"));
    let name = env::var("SHARDWRIGHT_TEST_WAY").expect("another test sets it");
    let way = ways().into_iter().find(|way| way.name == name).unwrap();
    let out = folder.join("new.zarr");
    repack(&folder.join("movie.ome.zarr"), way.copies.then_some(&*out), &way.options);
}

fn repacking(folder: &Path, way: &str) -> std::process::Child {
    let mut command = child("repack::kills::child_repacks");
    command.env("SHARDWRIGHT_TEST_PATH", folder).env("SHARDWRIGHT_TEST_WAY", way);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Kills a child after a while, and says whether it was still at work.
fn was_killed(mut child: std::process::Child, after: Duration) -> bool {
    thread::sleep(after);
    child.kill().unwrap();
    !child.wait().unwrap().success()
}

fn ends_well(mut child: std::process::Child, way: &str) {
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{way}: {said}");
}

/// A movie of 24 frames in six times four shards.
fn movie_of(dialect: Dialect) -> Config {
    let codec = Codec { checksum: dialect == Dialect::Zarr3, ..Codec::default() };
    let [y, x] = [Dim::y(256), Dim::x(256)].map(|dim| dim.chunk(64).shard(128));
    Config { dialect, codec, dims: vec![Dim::time(24).chunk(2).shard(4), y, x], ring_bytes: 8 << 20, ..config() }
}

/// A number that looks like chance.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// `SHARDWRIGHT_KILLS` sets how often each way is killed; 5 times if it is not set.
#[test]
fn killed_at_any_moment_and_called_again_it_ends_right() {
    let kills: u32 = env::var("SHARDWRIGHT_KILLS").map_or(5, |count| count.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    for Way { name, source: dialect, copies, .. } in ways() {
        let original = folder.path().join(format!("original of {name}"));
        finished(&original.join("movie.ome.zarr"), &movie_of(dialect), &(0..24).collect::<Vec<_>>());
        let expected = pixels(&original.join("movie.ome.zarr"));
        let mut listed = Vec::new();
        let mut longest = Duration::ZERO;
        let (mut killed_midway, mut unfinished) = (0, 0);
        for kill in 0..=kills {
            let place = folder.path().join(format!("{name}{kill}"));
            copy_tree(&original, &place);
            let (source, out) = (place.join("movie.ome.zarr"), place.join("new.zarr"));
            let result = if copies { &out } else { &source };
            if kill > 0 {
                let after = longest.mul_f64((next(&mut state) % 1000) as f64 / 1000.0);
                killed_midway += u32::from(was_killed(repacking(&place, name), after));
                unfinished += u32::from(place.join(".new.zarr.repack").exists());
                unfinished += u32::from(place.join(".movie.ome.zarr.repack").exists());
                // Whatever the moment, there is a whole dataset.
                assert!(pixels(&source) == expected, "{name}: a kill broke the old dataset");
                assert!(!out.exists() || pixels(&out) == expected, "{name}: an unfinished dataset has its name");
            }
            let start = Instant::now();
            // Also where the new dataset is complete, and perhaps only tidying up was left.
            ends_well(repacking(&place, name), name);
            if kill == 0 {
                longest = start.elapsed();
                listed = files(result);
            }
            assert!(pixels(result) == expected, "{name}, kill {kill}");
            assert_eq!(image(result).gap_bytes, 0, "{name}, kill {kill}");
            assert_eq!(files(result), listed, "{name}, kill {kill}");
            assert_sound(result);
            let left: Vec<_> = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(left.len(), if copies { 2 } else { 1 }, "{name}, kill {kill}: {left:?}");
            fs::remove_dir_all(&place).unwrap();
        }
        println!(
            "{name}: {kills} kills, {killed_midway} of them before the end, {unfinished} with a folder in the making"
        );
        assert!(kills < 10 || killed_midway > 0, "{name}: every run was over before it was killed");
    }
}
